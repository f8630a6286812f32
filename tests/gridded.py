"""Gridded netCDF files that tests read."""


def write_axes(file, axes):
    """Add the dimensions and coordinates of {name: (units, values)} to an open file."""
    for name, (units, values) in axes.items():
        file.createDimension(name, len(values))
        axis = file.createVariable(name, "f8", (name,))
        axis.units, axis[:] = units, values
