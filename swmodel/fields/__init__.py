"""Arrays with a C-grid position, operators between positions, and linear functions with their transposes."""
