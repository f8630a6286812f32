"""Cases of nested grids."""
