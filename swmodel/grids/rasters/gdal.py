"""GeoTIFF, and other rasters that the library rasterio (BSD licence) opens, read a window at a time.

Files in a projection are transformed to longitudes and latitudes where the grid needs these: each point of an even grid
of about the file's resolution takes the bilinear mean of the four pixels around it, a window at a time.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import DataError
from ..axes import OTHER_LENGTHS
from .raster import Raster, axis_words

LONGEST_NAME = 40  # of a projection, in a sentence
REMEDY = "pip install 'swmodel[gis]'"


def library(path: str, words: str) -> Any:
    """The module rasterio; raises DataError with how to install it."""
    try:
        import rasterio
    except ImportError:
        raise DataError(
            f"{path} is {words}, which needs rasterio: {REMEDY}; or gdal_translate -of netCDF makes netCDF of it."
        ) from None
    return rasterio


def read(path: str, words: str, spherical: bool | None) -> Raster:
    """The Raster of the first band of a file; arguments as of `open_raster`.

    Raises:
        DataError: for a file that is damaged, has no position, is rotated, or is not in metres.
    """
    rasterio = library(path, words)
    try:
        with _opened(rasterio, path, False) as file:
            warped = bool(spherical and file.crs and file.crs.is_projected)
            about = _about(path, words, file)
        with _opened(rasterio, path, warped) as file:
            x, y = _points(path, words, file)
            units = "degrees" if warped or about["geographic"] else about["metres"]
    except rasterio.errors.RasterioError as error:
        raise DataError(f"{path} is {words} that cannot be read ({error}); it is damaged: copy it again.") from None
    turned = f", transformed from {about['crs']}" if warped else f", {about['crs']}"
    assumed = (
        f"{path} was read as {words}: elevation in m, positive up, at {axis_words(x, y, units)}{turned}; "
        f"{about['missing']}."
    )
    return Raster(path, x, y, units, functools.partial(_window, path, words, warped), assumed)


def _opened(rasterio, path, warped):
    """The file, or with `warped` its transform to longitudes and latitudes, which closes it."""
    import warnings

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


def _about(path, words, file):
    """What the sentence on a file needs, with checks of its axes and units."""
    if file.transform.is_identity:
        raise DataError(f"{path} is {words} without positions; give it a geotransform, as gdal_translate -a_ullr does.")
    if file.transform.b or file.transform.d:
        raise DataError(f"{path} is {words} whose rows are rotated; gdalwarp makes a file along its axes.")
    if file.colorinterp[0].name == "red":
        raise DataError(f"{path} is {words} of colours, a picture; give one of elevations.")
    units = str(file.units[0] or "m").lower()
    if OTHER_LENGTHS.search(units):
        raise DataError(f"{path} is {words} in {units}; convert it to metres, as gdal_calc.py does.")
    missing = file.nodatavals[0]
    crs, projected = file.crs, file.crs is not None and file.crs.is_projected
    if crs is not None and projected and abs(crs.linear_units_factor[1] - 1.0) > 1e-9:
        raise DataError(f"{path} is {words} with x and y in {crs.linear_units}; gdalwarp makes one in metres.")
    name = "no projection named" if crs is None else crs.to_string()
    return {
        "crs": (name if len(name) < LONGEST_NAME else "its own projection")
        + (f", the first of {file.count} bands" if file.count > 1 else ""),
        "geographic": crs is not None and not projected,
        "metres": "m" if projected else "",
        "missing": "no value for missing ones" if missing is None else f"{missing:g} is missing",
    }


def _points(path, words, file):
    """The centres x (nx,) and y (ny,) of pixels."""
    if file.width < 2 or file.height < 2:
        raise DataError(
            f"{path} is {words} of {file.width} x {file.height} pixels; two or more along each axis are needed."
        )
    at = file.transform
    return at.c + at.a * (np.arange(file.width) + 0.5), at.f + at.e * (np.arange(file.height) + 0.5)


def _window(path: str, words: str, warped: bool, window: Sequence[Any]) -> np.ndarray:
    """The values of slices of rows and columns, NaN where they are missing."""
    rasterio = library(path, words)
    try:
        with _opened(rasterio, path, warped) as file:
            rows, columns = (range(n)[part] for part, n in zip(window, (file.height, file.width)))
            parts = [rows] if rows.step == 1 else [range(row, row + 1) for row in rows]  # no more than is used
            across = columns[0], columns[-1] + 1
            boxes = [rasterio.windows.Window.from_slices((part[0], part[-1] + 1), across) for part in parts]
            read = [file.read(1, window=box, masked=True)[:, :: columns.step] for box in boxes]
            masked = np.ma.concatenate(read)
            source = file.src_dataset if warped else file
            scale, offset = source.scales[0], source.offsets[0]
    except rasterio.errors.RasterioError as error:
        raise DataError(f"{path} is {words} that cannot be read ({error}); it is damaged: copy it again.") from None
    values = np.ma.filled(masked.astype(np.float64), np.nan)
    return values if scale == 1.0 and offset == 0.0 else scale * values + offset
