"""The elevation of the sea floor and of land in a file: its variable, and its sign.

Variables and their signs are identified by CF attributes, else by their names in the usual data sets. A depth, positive
down, becomes an elevation, positive up, without being read, by a change of sign of its packing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ConfigError, DataError
from .axes import check_file, decode, find_axis, horizontal_axes, label, open_raw, rectilinear
from .coast import kind_of_mask, land_mask_of
from .grid import Grid
from .rasters import OTHER_LENGTHS, open_raster
from .stored import StoredField, open_stored

if TYPE_CHECKING:
    import xarray as xr

ELEVATION_STANDARD_NAMES = (
    "height_above_mean_sea_level height_above_reference_ellipsoid height_above_geopotential_datum height "
    "surface_altitude bedrock_altitude sea_floor_altitude altitude"
).split()
DEPTH_STANDARD_NAMES = (
    "sea_floor_depth_below_mean_sea_level sea_floor_depth_below_geoid sea_floor_depth_below_sea_level "
    "sea_floor_depth_below_sea_surface sea_floor_depth_below_geopotential_datum sea_floor_depth "
    "model_sea_floor_depth_below_geoid depth"
).split()
SIGNED_NAMES = ["elevation", "z", "topo", "altitude", "height", "elev"]  # which are never those of depths
ELEVATION_NAMES = [*SIGNED_NAMES, "rose", "band1", "bath", "bathymetry"]
DEPTH_NAMES = ["depth", "deptho", "bathy_metry", "h"]
ROWS_READ = 64  # of the box that a grid needs, for the sign of a depth


def read_elevation(
    path: str | os.PathLike, variable: str | None = None, positive: str | None = None, masked: bool = False
) -> xr.DataArray:
    """Open the elevation in any netCDF file with longitudes and latitudes, or of `rasters`, read when it is used.

    Axes and variable are identified by their CF attributes, else by the names that GEBCO, ETOPO, SRTM30+, GMT, GDAL and
    NEMO files use. A depth, positive down by its attributes or name, changes its sign.

    Args:
        path: of the file.
        variable: its name, if the file has several that could be meant.
        positive: "up" or "down" in place of the file's attribute; with "as given" the file must give a sign.
        masked: whether nodes on the land of the file's land mask, if it has one, are missing values.

    Returns:
        xarray.DataArray: elevation (lat, lon) [m], positive up, both axes ascending; (y, x) if the file is in metres.

    Raises:
        DataError: if there is no such file, variable or axis.
    """
    raw = open_raw(path)
    raw = _from_old_gmt(raw, path) if "xysize" in raw.dims else raw
    raw.encoding["source"] = str(path)
    field = elevation_in(raw, variable or _find_elevation(raw, path), str(path), positive, masked)
    field.set_close(raw.close)
    return field


def open_elevation(
    path: str | os.PathLike,
    variable: str | None = None,
    positive: str | None = None,
    masked: bool = False,
    grid: Grid | type[Grid] | None = None,
    coarsen: int = 1,
) -> Any:
    """The elevation of `read_elevation` for `remapping`: without xarray where the file does not need it.

    Rasters in a projection are transformed to longitudes and latitudes if the `grid` has these. Along each axis every
    `coarsen`-th node is read.
    """
    _check_coarsen(coarsen)
    check_file(path)
    dataset = open_raster(path, getattr(grid, "spherical", None)) or open_stored(path)
    if dataset is None:
        return coarsened(read_elevation(path, variable, positive, masked), coarsen)
    name = variable or _find_elevation(dataset, path)
    attrs = dataset[name].attrs if name in dataset else {}
    down = _points_down(name, attrs, str(path), positive, name in dataset)
    axes = {key: axis.every(coarsen) for key, axis in horizontal_axes(dataset, name).items()}
    field = dataset[name].with_attrs(**(_turned(attrs) if down else {}))
    own = {axis.dim for axis in axes.values()}
    left = tuple(dim for dim, n in zip(field.dims, field.shape) if dim in own or n > 1)
    if len(left) != 2:
        raise DataError(_not_one_field(name, str(path), left))
    mask = land_mask_of(dataset, name) if masked else None
    result = _attrs(down, attrs, positive, mask, str(path))
    return StoredField(field, axes, result, dataset, mask if result["masked"] else None)


def _check_coarsen(coarsen):
    if coarsen != int(coarsen) or coarsen < 1:
        raise ConfigError(f"coarsen = {coarsen!r} is not a whole number of 1 or more; give nodes, as 2.")


def coarsened(field: xr.DataArray, coarsen: int) -> xr.DataArray:
    """A field on every `coarsen`-th node along each axis; raises DataError if fewer than two are left."""
    _check_coarsen(coarsen)
    if coarsen == 1:
        return field
    for dim, n in zip(field.dims, field.shape):
        if n <= coarsen:
            raise DataError(f"of {n} points along {dim}, coarsen = {coarsen} leaves one; give less.")
    thin = field.isel({dim: slice(None, None, coarsen) for dim in field.dims})
    thin.encoding = field.encoding
    return thin


def elevation_in(
    dataset: xr.Dataset, name: Any, source: Any, positive: str | None = None, masked: bool = False
) -> xr.DataArray:
    """Variable `name` of a Dataset as elevation; `source` is its file. The sign of a depth changes lazily, by its
    packing. `positive` and `masked` are those of `read_elevation`."""
    attrs = dataset.variables[name].attrs if name in dataset.variables else {}
    down = _points_down(name, attrs, source, positive, name in dataset)
    if down:
        dataset = dataset.assign({name: dataset[name].assign_attrs(_turned(attrs))})
    decoded = decode(dataset)
    field = rectilinear(decoded, name).squeeze()
    if field.ndim != 2:
        raise DataError(_not_one_field(name, source, field.dims))
    mask = land_mask_of(dataset, name) if masked else None
    result = _attrs(down, attrs, positive, mask, source)
    if mask is not None and result["masked"]:
        water = rectilinear(decoded, mask.name)
        field = field.where(mask.is_water(water.isel(dict.fromkeys(water.dims[:-2], 0)).values))
    field.attrs = result
    field.encoding = {"source": source}
    return field.rename("elevation")


def at_level(z: np.ndarray, datum: float, land_datum: float = 0.0) -> np.ndarray:
    """Elevations z [m] above the level `datum`, with heights of land raised by `land_datum` first [m]."""
    if land_datum:
        z = np.where(z > 0, z + land_datum, z)
    return z - datum if datum else z


def notes_on(elevation: Any, plan: Any) -> tuple[str, ...]:
    """Sentences on an elevation, of which some rows in the box of the Remapping `plan` are read.

    Raises:
        DataError: for a depth that is mostly negative, whose sign only its name determines.
    """
    where, notes = label(elevation), []
    if elevation.attrs["turned_over"]:
        rows = np.unique(np.linspace(plan.rows.start, plan.rows.stop - 1, ROWS_READ).astype(int))
        z = np.stack([plan.read(elevation, slice(row, row + 1)) for row in rows])
        above, below = int((z > 0).sum()), int((z < 0).sum())
        share = f"{100 * above / max(above + below, 1):.0f} % of its values are negative"
        if above > below and not elevation.attrs["sign_is_sure"]:
            raise DataError(
                f"{where} has a depth by its name, but {share}, as those of an elevation are; set the key positive to "
                "'up' in the section that names the file, or to 'down' if most of the grid is land."
            )
        notes.append(f"{where} was read as depth, positive down{f'; {share}, which are land' * (above > below)}.")
    return (*filter(None, [elevation.attrs["assumed"]]), *notes, *filter(None, [elevation.attrs["mask_remark"]]))


def _turned(attrs):
    """The packing with which a depth becomes an elevation."""
    return {"scale_factor": -attrs.get("scale_factor", 1.0), "add_offset": -attrs.get("add_offset", 0.0)}


def _attrs(down, attrs, positive, mask, source):
    """The attributes of an elevation, from those of its variable, the user's `positive`, and its land mask."""
    sure = positive in ("up", "down") or attrs.get("positive") in ("up", "down")
    entries = {"units": "m", "positive": "up", "turned_over": int(down), "sign_is_sure": int(sure)}
    masked = mask is not None and mask.of != "unknown"
    remarks = {"mask_remark": "" if mask is None else mask.remark(source), "assumed": attrs.get("assumed", "")}
    return entries | {"masked": int(masked)} | remarks


def _not_one_field(name, source, dims):
    return f"{name} in {source} has dimensions {dims}; select one field (lat, lon) and save it."


def _points_down(name, attrs, source, positive, is_there):
    """Whether a variable, which must be in metres, is a depth; `positive` as of `read_elevation`."""
    units = str(attrs.get("units", "m")).lower()
    if OTHER_LENGTHS.search(units):
        raise DataError(f"{name} in {source} is in {units}; convert it to metres.")
    if positive == "as given" and is_there and not _direction(name, attrs):
        raise DataError(
            f"{name} in {source} may be positive up or down, and has no attribute for it; give the variable the "
            "attribute positive = 'up' or 'down', or set the key positive in the section that names the file."
        )
    return (positive if positive in ("up", "down") else _direction(name, attrs)) == "down"


def _direction(name, attrs):
    """ "up" or "down", as the attributes or the name of a variable determine; "" where they do not."""
    if attrs.get("positive") in ("up", "down"):
        return attrs["positive"]
    known = {"up": (ELEVATION_STANDARD_NAMES, SIGNED_NAMES), "down": (DEPTH_STANDARD_NAMES, DEPTH_NAMES)}
    for word, which in ((attrs.get("standard_name"), 0), (name.lower(), 1)):
        if directions := [direction for direction, words in known.items() if word in words[which]]:
            return directions[0]
    return ""


def _find_elevation(dataset, path):
    """The one variable that is an elevation or depth by standard_name, then by name, then by being the only field."""
    fields = [
        name
        for name, v in dataset.data_vars.items()
        if np.issubdtype(v.dtype, np.number)
        and len([n for n in v.shape if n > 1]) == 2
        and kind_of_mask(name, v.attrs) is None
        and find_axis(dataset, v.dims, "x") not in (None, name)
        and find_axis(dataset, v.dims, "y") not in (None, name)
    ]
    rules = (
        lambda name: dataset[name].attrs.get("standard_name") in ELEVATION_STANDARD_NAMES + DEPTH_STANDARD_NAMES,
        lambda name: name.lower() in ELEVATION_NAMES + DEPTH_NAMES,
        lambda name: True,
    )
    for rule in rules:
        candidates = [name for name in fields if rule(name)]
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            raise DataError(f"{path} has several fields, {', '.join(candidates)}; choose one with variable=...")
    raise DataError(
        f"{path} has no field on longitudes and latitudes among {', '.join(map(str, dataset.variables))}; "
        "the elevation needs two axes with standard_name, units or names of longitude and latitude."
    )


def _from_old_gmt(dataset, path):
    """GMT's format before version 4: ranges, spacing and one long row of values that starts in the north-west."""
    import xarray as xr

    with dataset:
        dataset = dataset.load()
    nx, ny = (int(n) for n in dataset["dimension"].values)
    if dataset["z"].size != nx * ny:
        raise DataError(f"{path} is a grid of {nx} x {ny} nodes, and its z has {dataset['z'].size}; copy it again.")
    pixels = int(dataset["z"].attrs.get("node_offset", 0))
    axes = {}
    for name, variable, n in (("x", "x_range", nx), ("y", "y_range", ny)):
        low, high = dataset[variable].values
        axes[name] = low + (high - low) / (n - 1 + pixels) * (np.arange(n) + 0.5 * pixels)
    z = dataset["z"].values.reshape(ny, nx)[::-1]
    return xr.Dataset({"z": (("y", "x"), z, dataset["z"].attrs)}, coords=axes)
