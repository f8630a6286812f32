"""The motion of the sea floor from a grid, in time or at once: dtopo files of GeoClaw, rasters, and netCDF files.

The file holds the uplift since the start [m], positive up, which includes landslides: of a bed that moves, the change
of its elevation. It is interpolated bilinearly to the centres of cells, linearly in time, and is zero outside of the
file. Types of dtopo: 1 has columns of time, x, y and uplift; 2 and 3 a header of mx, my, mt, xlower, ylower, t0, dx, dy
and dt, and then each time from the north-west, one number a line or row by row.

`read_level` reads the initial level of the water likewise.
"""

import dataclasses
import datetime
import functools
import os
import re

import numpy as np

from ..errors import DataError
from ..grids.axes import decode, open_raw, rectilinear
from ..grids.bathymetry import Bathymetry, SeaFloor
from ..grids.grid import Grid
from ..grids.rasters import columns_of, on_axes
from ..grids.regrid import seconds_since
from ..grids.remapping import cell_edges, filled, is_circle, linear_weights
from ..grids.windows import GridRecords, grid_values
from ..runtime.formats import check_format, format_of
from .motion import BottomMotion

HEADER = ("mx", "my", "mt", "xlower", "ylower", "t0", "dx", "dy", "dt")
SECONDS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "min": 60.0, "minutes": 60.0, "h": 3600.0, "hours": 3600.0, "": 1.0}
AT_ONCE = ("xyz", "ascii_grid", "tiff", "surfer", "netcdf")  # names of formats
OF_GRIDS = ("dtopo", "txyz", *AT_ONCE)
HIGHEST = 1000.0  # [m] of an uplift, landslides included


def is_deformation(path: str | os.PathLike) -> bool:
    """Whether a file is a grid, by its contents, and not a table of faults."""
    return format_of(path).name in OF_GRIDS


@dataclasses.dataclass(frozen=True)
class Deformation:
    """Uplift of the sea floor since the start.

    Attributes:
        path: of its file.
        times: (n,) ascending [s].
        x, y: (nx,), (ny,) ascending, [degrees] or [m].
        uplift: (n, ny, nx) [m].
        assumed: a sentence on how the file was read.
    """

    path: str
    times: np.ndarray
    x: np.ndarray
    y: np.ndarray
    uplift: np.ndarray
    assumed: str

    def on(self, grid: Grid) -> BottomMotion:
        """The motion on the cells of a grid; raises DataError where none of them lies in the file."""
        x, nodes, values = grid.x_centres, self.x, self.uplift
        if grid.spherical:
            x = nodes[0] + (x - nodes[0] + 1e-9) % 360.0 - 1e-9
            if is_circle(nodes) and nodes[-1] < nodes[0] + 360.0:  # the cells between both lie in the file, too
                nodes = np.append(nodes, nodes[0] + 360.0)
                values = np.concatenate([values, values[..., :1]], axis=-1)
        columns, rows = _inside(x, nodes), _inside(grid.y_centres, self.y)
        if not columns.size or not rows.size:
            raise DataError(
                f"{self.path} covers x {self.x[0]:g} to {self.x[-1]:g} and y {self.y[0]:g} to {self.y[-1]:g}, where "
                "the grid has no cells; check both, and that they have the same coordinates, which gdalwarp transforms."
            )
        box = np.zeros((len(self.times), rows[-1] - rows[0] + 1, columns[-1] - columns[0] + 1))
        to_y, to_x = linear_weights(self.y, grid.y_centres[rows]), linear_weights(nodes, x[columns])
        for record, uplift in zip(box, values):
            record[np.ix_(rows - rows[0], columns - columns[0])] = to_y @ (to_x @ uplift.T).T
        return BottomMotion(self.times, GridRecords.in_box(box, (rows[0], columns[0]), grid.shape))

    def summary(self, grid: Grid, bathymetry: Bathymetry | SeaFloor) -> str:
        """Its records, heights, and the volumes of water that it displaces in the end."""
        uplift = np.asarray(self.on(grid).uplift[-1])
        wet = np.asarray(grid_values(bathymetry.wet, grid)) & (np.asarray(grid_values(bathymetry.depth, grid)) > 0)
        volume = np.where(wet, uplift, 0.0) * grid.area_h
        when = f"at {self.times[0]:g} s" if len(self.times) == 1 else f"from {self.times[0]:g} to {self.times[-1]:g} s"
        up, down = (volume[part].sum() / 1e9 for part in (volume > 0, volume < 0))
        lines = [
            f"sea floor           {len(self.times)} record{'s' * (len(self.times) > 1)} of its motion {when}",
            f"uplift              {uplift.min():.2f} to {uplift.max():.2f} m",
            f"displaced volume    {up:.3g} km3 up, {abs(down):.3g} km3 down",
            self.assumed,
        ]
        return "\n".join(lines)


def _inside(points, nodes):
    return np.flatnonzero((points >= nodes[0] - 1e-9) & (points <= nodes[-1] + 1e-9))


def read_deformation(
    path: str | os.PathLike, variable: str | None = None, start: datetime.datetime | None = None
) -> Deformation:
    """The Deformation in a file, which is read as a whole.

    Args:
        path: of the file.
        variable: of a netCDF file with several.
        start: date and time of step 0, from which the dates of a netCDF file count; its first record unless given.

    Raises:
        DataError: for a file that is cut off, has missing values, or whose numbers cannot be an uplift in metres.
    """
    path = os.fspath(path)
    form = format_of(path)
    gridded = functools.partial(_gridded, start=start)
    parts = {"dtopo": _dtopo, "txyz": _columns}.get(form.name, gridded)(path, form.words, variable)
    times, x, y, uplift = parts
    if not np.isfinite(uplift).all():
        raise DataError(
            f"{path} is {form.words} with missing values of the uplift; fill them, by 0 where nothing moves."
        )
    if np.abs(uplift).max() > HIGHEST:
        raise DataError(
            f"{path} is {form.words} with an uplift of {np.abs(uplift).max():g} m, which must be in metres and the "
            "change of the sea floor, not its elevation; convert it."
        )
    if times[0] < 0 or (np.diff(times) <= 0).any():
        raise DataError(f"{path} is {form.words} whose times do not ascend from 0 s; count them from the start.")
    when = f"{times[0]:g} to {times[-1]:g} s after the start" if len(times) > 1 else f"at {times[0]:g} s, at once"
    assumed = (
        f"{path} was read as {form.words}: uplift in m, positive up, {when}, x {x[0]:g} to {x[-1]:g}, y {y[0]:g} to "
        f"{y[-1]:g}, zero outside."
    )
    return Deformation(path, times, x, y, uplift, assumed)


def read_level(path: str | os.PathLike, variable: str | None = None) -> Deformation:
    """The level of the water [m] in a file, as the uplift of a Deformation, which is read as a whole.

    Missing values, as those of land, take the nearest one, so that levels along a coast are not mixed with zeros. The
    file reaches half a spacing beyond its outermost nodes, so that one of pixels has no rim of zeros in finer cells.

    Raises:
        DataError: for another format, several times, or numbers that cannot be a level in metres.
    """
    path = os.fspath(path)
    check_format(path, AT_ONCE, "a grid of levels", "grid")
    words = format_of(path).words
    times, x, y, level = _gridded(path, words, variable)
    if len(times) > 1:
        raise DataError(f"{path} is {words} with {len(times)} times; take one out, as ncks -d time,0 does.")
    largest = float(np.nanmax(np.abs(level), initial=0.0))
    if largest > HIGHEST:
        raise DataError(
            f"{path} is {words} with a level of {largest:g} m; convert it to metres, or declare _FillValue."
        )
    holes = int(np.count_nonzero(~np.isfinite(level)))
    assumed = (
        f"{path} was read as {words}: level in m, positive up, x {x[0]:g} to {x[-1]:g}, y {y[0]:g} to {y[-1]:g}, zero "
        f"outside; {holes:,} missing values take the nearest one."
    )
    whole = Deformation(path, times, x, y, level, assumed)
    level = filled(level[0], whole, bool(np.abs(y).max() <= 90.0))
    level, y = np.pad(level, ((1, 1), (0, 0)), "edge"), _to_edges(y)
    if not is_circle(x):
        level, x = np.pad(level, ((0, 0), (1, 1)), "edge"), _to_edges(x)
    return dataclasses.replace(whole, x=x, y=y, uplift=level[None])


def _to_edges(nodes):
    """Nodes, and the outer edges of the data cells around the first and the last one."""
    edges = cell_edges(nodes)
    return np.concatenate([edges[:1], nodes, edges[-1:]])


def _dtopo(path, words, variable):
    """Types 2 and 3."""
    with open(path, encoding="ascii", errors="replace") as file:
        text = file.read()
    match = re.match(r"\s*" + r"\s*".join(rf"(\S+)\s+{name}\b[^\n]*\n" for name in HEADER), text)
    if match is None:
        raise DataError(f"{path} is {words} whose header has not {', '.join(HEADER)}, one a line; correct it.")
    try:
        header = dict(zip(HEADER, (float(value.lower().replace("d", "e")) for value in match.groups())))
        values = np.array(text[match.end() :].split(), float)
    except ValueError as error:
        raise DataError(f"{path} is {words} with a value that is not a number ({error}); correct it.") from None
    nx, ny, nt = (int(header[name]) for name in HEADER[:3])
    if values.size != nx * ny * nt:
        raise DataError(
            f"{path} is {words} with {values.size:,} values, and its header gives {nx} x {ny} x {nt}; it is cut off: "
            "copy it again."
        )
    axes = (
        header[first] + header[step] * np.arange(n) for first, step, n in zip(HEADER[3:6], HEADER[6:], (nx, ny, nt))
    )
    x, y, times = axes
    return times, x, y, values.reshape(nt, ny, nx)[:, ::-1]


def _columns(path, words, variable):
    """Type 1."""
    t, x, y, z = columns_of(path, words, 4)
    times, at_t = np.unique(t, return_inverse=True)
    (columns, at_x), (rows, at_y) = on_axes(path, x), on_axes(path, y)
    uplift = np.full((times.size, rows.size, columns.size), np.nan)
    uplift[at_t, at_y, at_x] = z
    return times, columns, rows, uplift


def _gridded(path, words, variable, start=None):
    """Rasters, and netCDF files with or without time."""
    dataset = decode(open_raw(path))
    fields = [name for name, one in dataset.data_vars.items() if one.ndim >= 2 and one.dtype.kind in "iuf"]
    if variable is None and len(fields) != 1:
        raise DataError(f"{path} has {len(fields)} fields, {', '.join(map(str, fields))}; name one by `variable`.")
    field = rectilinear(dataset, variable or str(fields[0]))
    units = str(field.attrs.get("units", "m")).lower()
    if units not in ("m", "metre", "metres", "meter", "meters"):
        raise DataError(f"{field.name} in {path} is in {units}; convert it to metres.")
    if field.ndim > 3:
        raise DataError(f"{field.name} in {path} has dimensions {field.dims}; give one of (time, y, x).")
    times = np.zeros(1)
    if field.ndim == 3:
        time = dataset[field.dims[0]] if field.dims[0] in dataset.variables else None
        unit = "" if time is None else str(time.attrs.get("units", "")).lower()
        dated = " since " in unit
        if time is None or not (dated or unit in SECONDS):
            raise DataError(f"{path} has no times in s along {field.dims[0]}; add a variable of that name, with units.")
        times = seconds_since(time, start) if dated else np.asarray(time.values, float) * SECONDS[unit]
    y, x = (field[dim].values for dim in field.dims[-2:])
    return times, x, y, np.asarray(field.values, float).reshape(len(times), y.size, x.size)
