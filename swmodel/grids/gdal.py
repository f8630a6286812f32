"""GeoTIFF, and other rasters that the library rasterio (BSD licence) opens, read a window at a time.

Files in a projection are transformed to longitudes and latitudes where the grid needs these: each point of an even grid
of about the file's resolution takes the bilinear mean of the four pixels around it, a window at a time.
"""

import functools
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import DataError
from .stored import StoredDataset, Variable

OTHER_LENGTHS = re.compile(
    r"\b(?:km|cm|dm|mm|1e3 m|ft|feet|foot|fathoms?|yards?|inch(?:es)?|(?:kilo|centi|deci|milli)met(?:re|er)s?)\b"
)
LONGEST_NAME = 40  # of a projection, in a sentence
REMEDY = "pip install 'swmodel[gis]'"


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
