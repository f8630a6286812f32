"""Grids, a tile's geometry, bathymetry, and the regridding of files."""
