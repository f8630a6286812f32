"""Depth and land mask of a model's grid, from a file of elevations, an array, a function or a number.

On a cell with data nodes of elevation z (positive up, of which those with z < 0 are wet) and weights w that sum to one,

    wet fraction  a = sum(w [z < 0])            the cell is wet if a >= 1/2
    depth         H = sum(w [z < 0] (-z)) / a   [m], the mean over the wet nodes, positive down; 0 on land

with w the share of the cell's area (average) or the bilinear weights (interpolate). A missing value is land, and so is
a node of exactly 0. In ETOPO5 these (0.85 %) are shorelines, tidal flats, river deltas, the steppe round the Caspian
and the floating ice shelves of Antarctica; none is a sounding: as water they would be a sea of no depth, which takes
from the mean depth of its cell or is deepened to the minimum. Depth is clipped from below once, here.
"""

import dataclasses
import os

import numpy as np
import scipy.ndimage
import scipy.sparse
import scipy.sparse.csgraph
import xarray as xr

from ..errors import ConfigError, DataError
from . import regrid

__all__ = ["Bathymetry", "read_elevation", "onto_grid", "from_depth", "as_bathymetry"]

ELEVATION_STANDARD_NAMES = (
    "height_above_mean_sea_level",
    "height_above_reference_ellipsoid",
    "height_above_geopotential_datum",
    "height",
    "surface_altitude",
    "bedrock_altitude",
    "sea_floor_altitude",
    "altitude",
)
DEPTH_STANDARD_NAMES = (
    "sea_floor_depth_below_mean_sea_level",
    "sea_floor_depth_below_geoid",
    "sea_floor_depth_below_sea_level",
    "sea_floor_depth_below_sea_surface",
    "sea_floor_depth_below_geopotential_datum",
    "sea_floor_depth",
    "model_sea_floor_depth_below_geoid",
    "depth",
)
ELEVATION_NAMES = ("elevation", "z", "topo", "rose", "band1", "bath", "bathymetry", "altitude", "height", "elev")
DEPTH_NAMES = ("depth", "deptho", "bathy_metry", "h")
DEEPEST = 12000.0  # [m], below any sea floor: a larger depth is an undeclared missing value
ROWS_AT_ONCE = 2**22  # values of a file held in memory at a time


@dataclasses.dataclass(frozen=True)
class Bathymetry:
    """What the model needs of the sea floor, on its whole grid.

    Attributes:
        depth: (ny, nx) [m], positive down, 0 on land.
        wet: (ny, nx) bool.
        report: what the user should know, a sentence each: lakes, channels, deepened cells.
    """

    depth: np.ndarray
    wet: np.ndarray
    report: tuple = ()


def as_bathymetry(source, grid, **options):
    """The Bathymetry of `grid` from whatever describes it.

    Args:
        source: a Bathymetry; the path of a netCDF file or an xarray.DataArray (see `onto_grid`); or a number, a
            function or an array (see `from_depth`).
        options: those of `onto_grid` or `from_depth`.
    """
    if isinstance(source, Bathymetry):
        if source.depth.shape != grid.shape:
            raise ConfigError(f"the bathymetry is {source.depth.shape} and the grid {grid.shape}; make it again.")
        return source
    if isinstance(source, (str, os.PathLike, xr.DataArray)):
        return onto_grid(source, grid, **options)
    return from_depth(source, grid, **options)


# --- reading --------------------------------------------------------------------------------------------------------


def read_elevation(path, variable=None):
    """Open the elevation in any netCDF file with longitudes and latitudes; values are read when they are used.

    Axes and variable are known by their CF attributes, else by the names that GEBCO, ETOPO, SRTM30+, GMT, GDAL and NEMO
    files use. A depth, positive down by its attributes or name, changes its sign.

    Args:
        path: of the file.
        variable: its name, if the file has several that could be meant.

    Returns:
        xarray.DataArray: elevation (lat, lon) [m], positive up, both axes ascending; (y, x) if the file is in metres.

    Raises:
        DataError: if there is no such file, variable or axis.
    """
    raw = regrid.open_raw(path)
    raw = _from_old_gmt(raw) if "xysize" in raw.dims else raw
    raw.encoding["source"] = str(path)
    field = _elevation(raw, variable or _find_elevation(raw, path), str(path))
    field.set_close(raw.close)
    return field


def _elevation(dataset, name, source):
    """Variable `name` as elevation. The sign of a depth changes lazily, by its packing."""
    attrs = dataset.variables[name].attrs if name in dataset.variables else {}
    units = str(attrs.get("units", "m")).lower()
    if units in ("km", "cm", "dm", "mm", "ft", "feet", "fathom", "fathoms", "1e3 m"):
        raise DataError(f"{name} in {source} is in {units}; convert it to metres.")
    down = _is_depth(name, attrs)
    if down:
        packing = {"scale_factor": -attrs.get("scale_factor", 1.0), "add_offset": -attrs.get("add_offset", 0.0)}
        dataset = dataset.assign({name: dataset[name].assign_attrs(packing)})
    field = regrid.rectilinear(regrid.decode(dataset), name).squeeze()
    if field.ndim != 2:
        raise DataError(f"{name} in {source} has dimensions {field.dims}; select one field (lat, lon) and save it.")
    field.attrs = {"units": "m", "positive": "up", "turned_over": int(down)}
    field.encoding = {"source": source}
    return field.rename("elevation")


def _is_depth(name, attrs):
    if attrs.get("positive") in ("up", "down"):
        return attrs["positive"] == "down"
    if attrs.get("standard_name") in ELEVATION_STANDARD_NAMES + DEPTH_STANDARD_NAMES:
        return attrs["standard_name"] in DEPTH_STANDARD_NAMES
    return name.lower() in DEPTH_NAMES


def _find_elevation(dataset, path):
    """The one variable that is an elevation or depth by standard_name, then by name, then by being the only field."""
    fields = [
        name
        for name, v in dataset.data_vars.items()
        if np.issubdtype(v.dtype, np.number)
        and len([n for n in v.shape if n > 1]) == 2
        and regrid.find_axis(dataset, v.dims, "x") not in (None, name)
        and regrid.find_axis(dataset, v.dims, "y") not in (None, name)
    ]
    rules = (
        lambda name: dataset[name].attrs.get("standard_name") in ELEVATION_STANDARD_NAMES + DEPTH_STANDARD_NAMES,
        lambda name: name.lower() in ELEVATION_NAMES + DEPTH_NAMES,
        lambda name: True,
    )
    for rule in rules:
        found = [name for name in fields if rule(name)]
        if len(found) == 1:
            return found[0]
        if found:
            raise DataError(f"{path} has several fields, {', '.join(found)}; say which with variable=...")
    raise DataError(
        f"{path} has no field on longitudes and latitudes among {', '.join(map(str, dataset.variables))}; "
        "the elevation needs two axes with standard_name, units or names of longitude and latitude."
    )


def _from_old_gmt(dataset):
    """GMT's format before version 4: ranges, spacing and one long row of values that starts in the north-west."""
    with dataset:
        dataset = dataset.load()
    nx, ny = (int(n) for n in dataset["dimension"].values)
    pixels = int(dataset["z"].attrs.get("node_offset", 0))
    axes = {}
    for name, variable, n in (("x", "x_range", nx), ("y", "y_range", ny)):
        low, high = dataset[variable].values
        axes[name] = low + (high - low) / (n - 1 + pixels) * (np.arange(n) + 0.5 * pixels)
    z = dataset["z"].values.reshape(ny, nx)[::-1]
    return xr.Dataset({"z": (("y", "x"), z, dataset["z"].attrs)}, coords=axes)


# --- onto the grid --------------------------------------------------------------------------------------------------


def onto_grid(elevation, grid, method="average", minimum_depth=20.0, mask=None, fill_lakes=False):
    """Depth and mask of `grid` from gridded elevations, by the rule at the top of this module.

    Args:
        elevation: path of a netCDF file, or an xarray.DataArray of elevation (or of depth, if its attributes say so).
        method: "average" over each cell's area; "interpolate" bilinearly to its centre if the data are coarser.
        minimum_depth: wet cells shallower than this are deepened to it [m].
        mask: (ny, nx) bool, True where wet, in place of the half-wet rule; where it makes water out of land, the depth
            is `minimum_depth`.
        fill_lakes: make land of water that no cell faces join to the largest water body.

    Raises:
        DataError: if the file cannot be read, does not cover the grid, or leaves it no water.
    """
    if not isinstance(elevation, xr.DataArray):
        with read_elevation(elevation) as opened:
            return onto_grid(opened, grid, method, minimum_depth, mask, fill_lakes)
    if "turned_over" not in elevation.attrs:
        name = elevation.name or "elevation"
        elevation = _elevation(elevation.to_dataset(name=name), name, name)
    plan = regrid.remapping(elevation, grid, method)
    wet_fraction, depth = _wet_mean(elevation, plan)
    report = _on_the_data(elevation, plan, grid, method)
    wet = wet_fraction >= 0.5 - 1e-9
    if mask is not None:
        wet = _own_mask(mask, grid)
        if minimum_depth <= 0 and (wet & (wet_fraction == 0)).any():
            raise ConfigError("mask makes water of cells without any depth; give a minimum_depth above 0 for them.")
    if not wet.any():
        raise DataError(
            f"{regrid.label(elevation)} has no water on the grid: elevation is positive up; if the file holds depths, "
            "positive down, give the variable the attribute positive = 'down'."
        )
    return _finish(depth, wet, grid, minimum_depth, fill_lakes, report)


def _wet_mean(elevation, plan):
    """(wet fraction, mean depth over the wet nodes [m]) of every cell, a block of the file's rows at a time."""
    shape = plan.to_y.shape[0], plan.to_x.shape[0]
    wet_fraction, water = np.zeros(shape), np.zeros(shape)
    step = max(ROWS_AT_ONCE // plan.x.size, 1)
    to_y = plan.to_y.tocsc()
    plan = dataclasses.replace(plan, to_y=to_y)
    for start in range(plan.rows.start, plan.rows.stop, step):
        rows = slice(start, min(start + step, plan.rows.stop))
        z = plan.read(elevation, rows)
        here = slice(rows.start - plan.rows.start, rows.stop - plan.rows.start)
        lowest, highest = np.nanmin(z, initial=0.0), np.nanmax(z, initial=0.0)
        wrong = lowest if lowest < -DEEPEST else highest
        if lowest < -DEEPEST or highest == np.inf:
            raise DataError(
                f"{regrid.label(elevation)} has an elevation of {wrong:g} m: a missing value that the file does "
                "not declare, or other units; set _FillValue in the file, or convert it to metres."
            )
        node_is_wet = z < 0
        wet_fraction += plan(node_is_wet.astype(np.float64), here)
        water += plan(np.where(node_is_wet, -z, 0.0), here)
    return wet_fraction, water / np.where(wet_fraction > 0, wet_fraction, 1.0)


def from_depth(depth, grid, minimum_depth=0.0, mask=None, fill_lakes=False):
    """Depth and mask of `grid` from a number, a function or an array; where it is 0, negative or NaN there is land.

    Args:
        depth: [m], positive down: a number; a function of the cell centres x (1, nx) and y (ny, 1) [m, or degrees on
            the sphere]; or an array (ny, nx), rows from south to north.
        minimum_depth, mask, fill_lakes: as for `onto_grid`; nothing is deepened unless asked.

    Raises:
        ConfigError: for a wrong shape, an infinite depth, or no water at all.
    """
    if callable(depth):
        depth = np.asarray(depth(*grid.coordinates("h")), dtype=np.float64)
        given = f"the depth function returns shape {depth.shape}"
        fits = depth.ndim <= 2 and all(n in (1, cells) for n, cells in zip(depth.shape[::-1], grid.shape[::-1]))
    else:
        depth = np.asarray(depth, dtype=np.float64)
        given, fits = f"the depth has shape {depth.shape}", depth.shape in ((), grid.shape)
    if not fits:
        raise ConfigError(f"{given} and the grid needs (ny, nx) = {grid.shape}, rows from south to north.")
    if np.isinf(depth).any():
        raise ConfigError("the depth is infinite somewhere; give metres, and 0 or NaN on land.")
    depth = np.broadcast_to(depth, grid.shape)
    wet = depth > 0 if mask is None else _own_mask(mask, grid)
    if not wet.any():
        raise ConfigError("the depth is nowhere above 0: it is positive down; change the sign if it is an elevation.")
    if minimum_depth <= 0 and not (depth[wet] > 0).all():
        raise ConfigError("mask makes water of cells without any depth; give a minimum_depth above 0 for them.")
    return _finish(np.where(depth > 0, depth, 0.0), wet, grid, minimum_depth, fill_lakes, ())


def _own_mask(mask, grid):
    mask = np.asarray(mask)
    if mask.shape != grid.shape or not np.isin(mask, (0, 1)).all():
        raise ConfigError(
            f"mask has shape {mask.shape} and type {mask.dtype}; give (ny, nx) = {grid.shape} of True (wet) and False."
        )
    return mask.astype(bool)


def _finish(depth, wet, grid, minimum_depth, fill_lakes, report):
    """Clip the depth, look for what goes wrong on coarse masks, and put it all together."""
    if not minimum_depth >= 0:
        raise ConfigError(f"minimum_depth = {minimum_depth} is not a depth; give 0 or more metres.")
    depth = np.where(wet, depth, 0.0)
    report = [*report, *_lakes(wet, depth, grid, fill_lakes)]
    if fill_lakes:
        wet = _largest_body(wet, grid)
        depth = np.where(wet, depth, 0.0)
    report += _channels(wet, grid)
    shallow = wet & (depth < minimum_depth)
    if shallow.any():
        report.append(f"{_count(shallow.sum(), 'cell')} shallower than {minimum_depth:g} m deepened to it.")
    return Bathymetry(np.where(shallow, minimum_depth, depth), wet, tuple(report))


# --- checks ---------------------------------------------------------------------------------------------------------


def _on_the_data(elevation, plan, grid, method):
    """Sentences on the file itself: which way up it was, and whether it is coarser than the grid."""
    lines = []
    if elevation.attrs["turned_over"]:
        lines.append(f"{regrid.label(elevation)} was read as depth, positive down.")
    data, cells = np.median(np.diff(plan.x)), np.diff(grid.x_edges)[0]
    if method == "average" and data > 1.5 * cells:
        lines.append(f"the data are {data / cells:.1f} times coarser than the cells; 'interpolate' avoids the steps.")
    return lines


def bodies(wet, grid):
    """Number (ny, nx) the water bodies, joined through faces, from 1; 0 is land."""
    number, n = scipy.ndimage.label(wet)
    seams = [(number[:, -1], number[:, 0])] * grid.periodic_x + [(number[-1], number[0])] * grid.periodic_y
    pairs = np.concatenate([np.zeros((2, 0), int), *map(np.stack, seams)], axis=1)
    pairs = pairs[:, (pairs > 0).all(axis=0)]
    links = scipy.sparse.coo_array((np.ones(pairs.shape[1]), tuple(pairs)), shape=(n + 1, n + 1))
    return scipy.sparse.csgraph.connected_components(links, directed=False)[1][number]


def _largest_body(wet, grid):
    number = bodies(wet, grid)
    area = np.bincount(number.ravel(), np.broadcast_to(grid.area_h, grid.shape).ravel())
    return (number == 1 + np.argmax(area[1:])) & wet


def _lakes(wet, depth, grid, fill_lakes):
    """Sentences on the water that is not part of the largest body: lakes, single cells, straits closed at a corner."""
    lakes = wet & ~_largest_body(wet, grid)
    if not lakes.any():
        return []
    number = bodies(wet, grid)
    sizes = np.bincount(number[lakes])
    places = []
    for body in np.argsort(-sizes, kind="stable")[: min(3, np.count_nonzero(sizes))]:
        deepest = np.unravel_index(np.argmax(np.where(number == body, depth, -1.0)), wet.shape)
        places.append(f"{_count(sizes[body], 'cell')} at {_place(grid, deepest)}")
    fate = "filled" if fill_lakes else "kept (fill_lakes = true makes them land)"
    lines = [
        f"{_count(np.count_nonzero(sizes), 'lake')} of {_count(lakes.sum(), 'cell')} not connected to the largest "
        f"water body, {fate}: {', '.join(places)}{', ...' if np.count_nonzero(sizes) > 3 else '.'}"
    ]
    single = lakes & (sizes[np.where(lakes, number, 0)] == 1)
    if single.any():
        lines.append(f"{_count(single.sum(), 'isolated wet cell')}, one at {_place(grid, np.argwhere(single)[0])}.")
    closed = _touch_at_a_corner(number, grid)
    if closed.any():
        lines.append(
            f"{_count(closed.sum(), 'strait')} closed between water bodies that touch at a corner only, "
            f"one at {_place(grid, np.argwhere(closed)[0])}; open it with a mask or a finer grid."
        )
    return lines


def _neighbour(array, grid, dj, di, outside):
    """The value of the cell (j + dj, i + di), and `outside` beyond sides that are not periodic."""
    result = np.roll(array, (-dj, -di), axis=(0, 1))
    if not grid.periodic_y and dj:
        result[-1 if dj > 0 else 0] = outside
    if not grid.periodic_x and di:
        result[:, -1 if di > 0 else 0] = outside
    return result


def _touch_at_a_corner(number, grid):
    """Cells whose north-east or north-west neighbour is water of another body."""
    result = np.zeros(number.shape, bool)
    for di in (1, -1):
        across = _neighbour(number, grid, 1, di, 0)
        result |= (number > 0) & (across > 0) & (across != number)
    return result


def _channels(wet, grid):
    """A sentence on the wet cells with water on two opposite sides and land on the two others."""
    north, south = _neighbour(wet, grid, 1, 0, True), _neighbour(wet, grid, -1, 0, True)
    east, west = _neighbour(wet, grid, 0, 1, True), _neighbour(wet, grid, 0, -1, True)
    narrow = wet & ((east & west & ~north & ~south) | (north & south & ~east & ~west))
    if not narrow.any():
        return []
    number, n = scipy.ndimage.label(narrow)
    sizes = np.bincount(number.ravel())[1:]
    where = np.argwhere(number == 1 + np.argmax(sizes))[0]
    return [
        f"{_count(narrow.sum(), 'cell')} in {_count(n, 'channel')} one cell wide, the longest of "
        f"{_count(sizes.max(), 'cell')} at {_place(grid, where)}: the flow through them depends on the mask."
    ]


def _count(n, noun):
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _place(grid, cell):
    """Where a cell (j, i) lies: longitude and latitude, or x and y."""
    j, i = cell
    x, y = grid.x_centres[i], grid.y_centres[j]
    if not grid.spherical:
        return f"x = {x / 1000:g} km, y = {y / 1000:g} km"
    x = (x + 180.0) % 360.0 - 180.0
    return f"{abs(x):.2f} {'E' if x >= 0 else 'W'} {abs(y):.2f} {'N' if y >= 0 else 'S'}"
