"""Nested grids: where a nest lies, what it exchanges with the grid around it, and their common steps."""
