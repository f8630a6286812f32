"""Elevations in formats other than netCDF, as netCDF files appear: grids and tables in text, and those of rasterio.

A raster is a `stored.StoredDataset` with one variable, so that axes, signs, masks and windows are those of every other
file. What a reader assumed, of units, sign, datum and nodes, is a sentence in the attribute "assumed" of its variable,
which `swmodel check` prints.

ASCII grids are those of Esri (.asc), and the topography of GeoClaw of types 2 and 3. A header has a line for each of
ncols, nrows, the lower left corner or centre, the size of cells and the value of missing ones; Esri writes the name
first and GeoClaw the number. Elevations follow from the north-west, row by row, or (type 2) one on each line. A corner
named "corner" is that of the cell, half a cell beyond its node; one named "center", "xll" or "xlower" is the node
itself. Sizes along x and y may differ ("dx", "dy", or two numbers of cellsize). The projection in a .prj file of the
same name is used where the grid has longitudes and latitudes.

Tables have x, y and elevation with or without a line of names, as xyz files and the topography of GeoClaw of type 1.
The points are those of a grid, in any order; points of the grid that are not in the table are missing.

GeoTIFF, and other rasters that the library rasterio (BSD licence) opens, are read a window at a time. Files in a
projection are transformed to longitudes and latitudes where the grid needs these: each point of an even grid of about
the file's resolution takes the bilinear mean of the four pixels around it, a window at a time.
"""

from __future__ import annotations

import functools
import itertools
import os
import pathlib
import re
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError
from ..runtime.formats import format_of
from .stored import StoredDataset, Variable

if TYPE_CHECKING:
    import xarray as xr

OTHER_LENGTHS = re.compile(
    r"\b(?:km|cm|dm|mm|1e3 m|ft|feet|foot|fathoms?|yards?|inch(?:es)?|(?:kilo|centi|deci|milli)met(?:re|er)s?)\b"
)
LONGEST_NAME = 40  # of a projection, in a sentence
REMEDY = "pip install 'swmodel[gis]'"
NUMBER = r"(?:[-+]?(?:\d+\.?\d*|\.\d+)(?:[eEdD][-+]?\d+)?|[Nn][Aa][Nn])"
NUMBERS = rf"{NUMBER}(?:\s+{NUMBER})?"
HEADER = re.compile(
    rf"\s*(?:(?P<name>[a-z_]+)\s+(?P<after>{NUMBERS})|(?P<before>{NUMBERS})\s+(?P<label>[a-z_]+))\s*", re.I
)
LINES = 12  # of a header, at most
NAMES = {"mx": "ncols", "my": "nrows", "nodata": "nodata_value", "no_data": "nodata_value"}
SAME = 1e-4  # of a spacing, within which two coordinates are one


def raster(path: str, x: np.ndarray, y: np.ndarray, units: str, read: Callable, words: str, rest: str) -> StoredDataset:
    """An elevation on evenly spaced points.

    Args:
        path: of the file.
        x, y: of its points (nx,), (ny,), [degrees] or [m].
        units: of these, "degrees" or "m"; "" if the file does not say.
        read: `read(window)` gives values [m], positive up, for slices of rows and columns; NaN where they are missing.
        words, rest: of the sentence on how the file was read: its format with what positions are, and its end.
    """
    axes, ranges, number = [], [], np.dtype(float)
    names = {"x": ("longitude", "degrees_east"), "y": ("latitude", "degrees_north")}
    for name, values in (("x", x), ("y", y)):
        geographic, degrees = names[name] if units == "degrees" else (name, units)
        attrs = {"axis": name.upper(), "units": degrees}
        part = lambda window, values=values: values[tuple(window)]  # noqa: E731
        axes.insert(0, Variable(name, (name,), values.shape, number, attrs, part))
        ranges.append(f"{geographic} {values.min():.10g} to {values.max():.10g}")
    unit = {"degrees": " degrees", "m": " m"}.get(units, "")
    where = f"{' and '.join(ranges)}{unit}, {x.size:,} x {y.size:,} points"
    assumed = f"{path} was read as {words.format(where)}{rest}."
    attrs = {"units": "m", "assumed": assumed}
    return StoredDataset([Variable("elevation", ("y", "x"), (y.size, x.size), number, attrs, read), *axes], path)


def library(path: str, words: str) -> Any:
    """The module rasterio; raises DataError with how to install it."""
    try:
        import rasterio
    except ImportError:
        raise DataError(
            f"{path} is {words}, which needs rasterio: {REMEDY}; or gdal_translate -of netCDF makes netCDF of it."
        ) from None
    return rasterio


def read_by_gdal(path: str, words: str, spherical: bool | None) -> StoredDataset:
    """The first band of a file; arguments as of `open_raster`.

    Raises:
        DataError: for a file that is damaged, has no position, is rotated, or is not in metres.
    """
    rasterio = library(path, words)
    try:
        with _opened(rasterio, path, False) as file:
            warped = bool(spherical and file.crs and file.crs.is_projected)
            crs, missing, axes = _checked(path, words, file)
        with _opened(rasterio, path, warped) as file:
            if file.width < 2 or file.height < 2:
                size = f"{file.width} x {file.height} pixels; two or more along each axis are needed"
                raise DataError(f"{path} is {words} of {size}.")
            at = file.transform
            x, y = at.c + at.a * (np.arange(file.width) + 0.5), at.f + at.e * (np.arange(file.height) + 0.5)
    except rasterio.errors.RasterioError as error:
        raise DataError(f"{path} is {words} that cannot be read ({error}); it is damaged: copy it again.") from None
    read = functools.partial(_window, path, words, warped)
    projection = f", transformed from {crs}" if warped else f", {crs}"
    about = f"{words}: elevation in m, positive up, at {{}}{projection}"
    return raster(path, x, y, "degrees" if warped else axes, read, about, f"; {missing}")


def _opened(rasterio, path, warped):
    """The file, or with `warped` its transform to longitudes and latitudes, which closes it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)  # refused below
        file = rasterio.open(path)
    if not warped:
        return file
    from rasterio.vrt import WarpedVRT

    options = {
        "crs": "EPSG:4326",
        "resampling": rasterio.enums.Resampling.bilinear,
        "nodata": np.nan,
        "tolerance": 1e-3,  # [pixels]
        "XSCALE": 1,  # else GDAL takes more than four pixels where those of the even grid are larger
        "YSCALE": 1,
    }
    return WarpedVRT(file, src_nodata=file.nodata, dtype="float64", **options)


def _checked(path, words, file):
    """(the projection in words, the missing value in words, units of the axes) of a file whose axes and units fit."""
    if file.transform.is_identity:
        raise DataError(f"{path} is {words} without positions; give it a geotransform, as gdal_translate -a_ullr does.")
    if file.transform.b or file.transform.d:
        raise DataError(f"{path} is {words} whose rows are rotated; gdalwarp makes a file along its axes.")
    if file.colorinterp[0].name == "red":
        raise DataError(f"{path} is {words} of colours, a picture; give one of elevations.")
    units = str(file.units[0] or "m").lower()
    if OTHER_LENGTHS.search(units):
        raise DataError(f"{path} is {words} in {units}; convert it to metres, as gdal_calc.py does.")
    crs, projected = file.crs, file.crs is not None and file.crs.is_projected
    if projected and abs(crs.linear_units_factor[1] - 1.0) > 1e-9:
        raise DataError(f"{path} is {words} with x and y in {crs.linear_units}; gdalwarp makes one in metres.")
    name = "no projection named" if crs is None else crs.to_string()
    name = name if len(name) < LONGEST_NAME else "its own projection"
    name += f", the first of {file.count} bands" if file.count > 1 else ""
    missing = file.nodatavals[0]
    gaps = "no value for missing ones" if missing is None else f"{missing:g} is missing"
    return name, gaps, "m" if projected else "" if crs is None else "degrees"


def _window(path: str, words: str, warped: bool, window: Sequence[Any]) -> np.ndarray:
    """The values of slices of rows and columns, NaN where they are missing."""
    rasterio = library(path, words)
    try:
        with _opened(rasterio, path, warped) as file:
            rows, columns = (range(n)[part] for part, n in zip(window, (file.height, file.width)))
            parts = [rows] if rows.step == 1 else [range(row, row + 1) for row in rows]  # no more than is used
            across = columns[0], columns[-1] + 1
            boxes = [rasterio.windows.Window.from_slices((part[0], part[-1] + 1), across) for part in parts]
            masked = np.ma.concatenate([file.read(1, window=box, masked=True)[:, :: columns.step] for box in boxes])
            source = file.src_dataset if warped else file
            scale, offset = source.scales[0], source.offsets[0]
    except rasterio.errors.RasterioError as error:
        raise DataError(f"{path} is {words} that cannot be read ({error}); it is damaged: copy it again.") from None
    values = np.ma.filled(masked.astype(np.float64), np.nan)
    return values if scale == 1.0 and offset == 0.0 else scale * values + offset


def open_raster(path: str | os.PathLike, spherical: bool | None = None) -> StoredDataset | None:
    """The raster at `path`, None for a file of another format.

    Args:
        path: of the file.
        spherical: whether longitudes and latitudes are needed: a projected file that names its projection is
            transformed to them, a window at a time. None takes the axes of the file.

    Raises:
        DataError: for a file that is damaged, not in metres, or whose reader is not installed.
    """
    readers = {"ascii_grid": _ascii_grid, "xyz": _table, "tiff": read_by_gdal, "surfer": read_by_gdal}
    try:
        form = format_of(path)
    except OSError:
        return None
    return readers[form.name](os.fspath(path), form.words, spherical) if form.name in readers else None


def as_xarray(raster: StoredDataset) -> xr.Dataset:
    """A raster as an xarray.Dataset, whose values are read."""
    import xarray as xr

    variables = {name: (one.dims, one.values, dict(one.attrs)) for name, one in raster.variables.items()}
    dataset = xr.Dataset(variables)
    dataset.encoding.update(raster.encoding)
    return dataset.set_coords([name for name in raster.variables if name not in raster.data_vars])


def _units_of(x, y, spare=0.0):
    """The units of coordinates, of which those that may be longitudes and latitudes are [degrees]."""
    return "degrees" if np.abs(y).max() <= 90.0 + spare and np.abs(x).max() <= 720.0 else "m"


def _ascii_grid(path: str, words: str, spherical: bool | None = None) -> StoredDataset:
    """The raster of an ASCII grid; its values are read at once, unless GDAL transforms them from their projection.

    Raises:
        DataError: for a header that is not one of such a grid, or another number of values than it gives.
    """
    try:
        with open(path, encoding="utf-8-sig") as file:
            lines = list(itertools.islice(file, LINES))
            header, count = _header(lines)
            file.seek(0)
            for _ in range(count):
                file.readline()
            text = file.read()
    except UnicodeDecodeError:
        raise DataError(f"{path} begins as an ASCII grid, and has other bytes than text; copy it again.") from None
    nx, ny = (_whole(path, header, name) for name in ("ncols", "nrows"))
    x, y = _nodes(path, header, nx, ny)
    units = _units_of(x, y, 1e-6)
    if spherical and units == "m" and pathlib.Path(path).with_suffix(".prj").is_file():
        return read_by_gdal(path, words, spherical)
    values = _numbers(path, text, nx, ny)
    missing = header.get("nodata_value", (None,))[0]
    if missing is not None:
        values[values == missing] = np.nan
    corner = "corners of cells" if any("corner" in name for name in header) else "nodes"
    holes = int(np.isnan(values).sum())
    gaps = "no value for missing ones" if missing is None else f"{missing:g} is missing, at {holes:,} points"
    about = f"{words}: elevation in m, positive up, positions of {corner}, {{}}"
    return raster(path, x, y, units, lambda window: values[tuple(window)], about, f"; {gaps}")


def _header(lines):
    """({name in small letters: its numbers}, the number of lines of the header)."""
    header = {}
    for count, line in enumerate(lines):
        match = HEADER.fullmatch(line.split("#")[0])
        if match is None:
            return header, count
        name = (match["name"] or match["label"]).lower()
        numbers = (match["after"] or match["before"]).lower().replace("d", "e").split()
        header[NAMES.get(name, name)] = tuple(float(number) for number in numbers)
    return header, len(lines)


def _whole(path, header, name):
    value = header.get(name, (np.nan,))[0]
    if not (value >= 2 and value == int(value)):
        what = "has none" if np.isnan(value) else f"has {value:g}"
        raise DataError(
            f"{path} is an ASCII grid whose header needs {name}, 2 or more, and {what}; correct its header."
        )
    return int(value)


def _nodes(path, header, nx, ny):
    """The x (nx,) and y (ny,) of nodes, y from the north, as the values are."""
    sizes = header.get("cellsize", (np.nan,))
    first, steps = [], []
    for letter, otherwise in (("x", sizes[0]), ("y", sizes[-1])):
        size = header.get(f"d{letter}", (otherwise,))[0]
        name = next((name for name in header if re.fullmatch(rf"{letter}(ll|lower).*", name)), None)
        if name is None or not size > 0:
            raise DataError(
                f"{path} is an ASCII grid whose header, with {', '.join(header)}, lacks {letter}llcorner or a cellsize "
                "above 0; correct its header."
            )
        first.append(header[name][0] + (0.5 * size if "corner" in name else 0.0))
        steps.append(size)
    return first[0] + steps[0] * np.arange(nx), (first[1] + steps[1] * np.arange(ny))[::-1]


def _numbers(path, text, nx, ny):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # of numpy, where it stops before the end
            values = np.fromstring(text, sep=" ")
    except (ValueError, DeprecationWarning):
        comma = "decimal commas; write points" if re.search(r"\d,\d", text) else "values that are not numbers"
        raise DataError(f"{path} is an ASCII grid with {comma}; correct it, or copy it again.") from None
    if values.size != nx * ny:
        raise DataError(
            f"{path} is an ASCII grid with {values.size:,} values, and its header gives {nx} x {ny} = {nx * ny:,}; "
            "the file is cut off, or its header is of another one: copy it again."
        )
    return values.reshape(ny, nx)


def _table(path: str, words: str, spherical: bool | None = None) -> StoredDataset:
    """The raster of a table of three columns, which is read at once.

    Raises:
        DataError: for lines without three numbers, or points that are not those of a grid.
    """
    x, y, z = columns_of(path, words, 3)
    (columns, at_x), (rows, at_y) = on_axes(path, x), on_axes(path, y)
    if columns.size * rows.size > 4 * z.size:
        raise DataError(
            f"{path} is {words} with {z.size:,} points that are not those of a grid; grid them first, as gmt "
            "surface or gdal_grid do."
        )
    values = np.full((rows.size, columns.size), np.nan)
    values[at_y, at_x] = z
    about, holes = f"{words}: elevation in m, positive up, at {{}}", int(np.isnan(values).sum())
    read = lambda window: values[tuple(window)]  # noqa: E731
    return raster(path, columns, rows, _units_of(x, y), read, about, f"; {holes:,} of them are not in the table")


def columns_of(path: str, words: str, count: int) -> np.ndarray:
    """The columns (count, n) of a table below its comments and names; raises DataError for lines of other numbers."""
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        above, first = next((k, line) for k, line in enumerate(file) if not re.match(r"[#\"a-zA-Z]", line))
    delimiter = "," if "," in first else None
    try:
        table = np.loadtxt(path, delimiter=delimiter, ndmin=2, encoding="utf-8-sig", skiprows=above)
        if table.shape[1] != count:
            raise ValueError(f"there are {table.shape[1]}")
    except ValueError as error:
        number = {3: "three", 4: "four"}[count]
        raise DataError(
            f"{path} is {words}, and not all its lines have {number} numbers ({error}); correct it."
        ) from None
    return table.T


def on_axes(path: str, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the evenly spaced coordinates of points (n,), the place of each point among them); raises DataError."""
    levels = np.unique(points)
    steps = np.diff(levels)
    if not steps.size:
        raise DataError(f"{path} has one coordinate only, {levels[0]:g}, along an axis; a grid has two or more.")
    step = float(np.median(steps[steps > SAME * steps.max()]))
    count = int(round((levels[-1] - levels[0]) / step)) + 1
    places = np.round((points - levels[0]) / step).astype(int)
    if np.abs(levels[0] + step * places - points).max() > 0.05 * step or count > 100 * levels.size:
        raise DataError(
            f"{path} has coordinates that are not evenly spaced; grid its points first, as gmt surface does."
        )
    return levels[0] + (levels[-1] - levels[0]) / (count - 1) * np.arange(count), places
