"""ASCII grids: those of Esri (.asc), and the topography of GeoClaw of types 2 and 3.

A header has a line for each of ncols, nrows, the lower left corner or centre, the size of cells and the value of
missing ones; Esri writes the name first and GeoClaw the number. Elevations follow from the north-west, row by row, or
(type 2) one on each line. A corner named "corner" is that of the cell, half a cell beyond its node; one named "center",
"xll" or "xlower" is the node itself. Sizes along x and y may differ ("dx", "dy", or two numbers of cellsize).
The projection in a .prj file of the same name is used where the grid has longitudes and latitudes.
"""

import itertools
import pathlib
import re
import warnings

import numpy as np

from ...errors import DataError
from . import gdal
from .raster import Raster, axis_words

NUMBER = r"(?:[-+]?(?:\d+\.?\d*|\.\d+)(?:[eEdD][-+]?\d+)?|[Nn][Aa][Nn])"
NUMBERS = rf"{NUMBER}(?:\s+{NUMBER})?"
HEADER = re.compile(
    rf"\s*(?:(?P<name>[a-z_]+)\s+(?P<after>{NUMBERS})|(?P<before>{NUMBERS})\s+(?P<label>[a-z_]+))\s*", re.I
)
LINES = 12  # of a header, at most
NAMES = {"mx": "ncols", "my": "nrows", "nodata": "nodata_value", "no_data": "nodata_value"}
ON_EARTH = 90.0 + 1e-6, 720.0  # [degrees] of latitude and longitude


def read(path: str, words: str, spherical: bool | None = None) -> Raster:
    """The Raster of an ASCII grid; its values are read at once, unless GDAL transforms them from their projection.

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
    units = "degrees" if np.abs(y).max() <= ON_EARTH[0] and np.abs(x).max() <= ON_EARTH[1] else "m"
    if spherical and units == "m" and pathlib.Path(path).with_suffix(".prj").is_file():
        return gdal.read(path, words, spherical)
    values = _numbers(path, text, nx, ny)
    missing = header.get("nodata_value", (None,))[0]
    if missing is not None:
        values[values == missing] = np.nan
    corner = "corners of cells" if any("corner" in name for name in header) else "nodes"
    holes = int(np.isnan(values).sum())
    gaps = "no value for missing ones" if missing is None else f"{missing:g} is missing, at {holes:,} points"
    assumed = (
        f"{path} was read as {words}: elevation in m, positive up, positions of {corner}, "
        f"{axis_words(x, y, units)}; {gaps}."
    )
    return Raster(path, x, y, units, lambda window: values[tuple(window)], assumed)


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
    sizes = header.get("cellsize", ())
    dx = header["dx"][0] if "dx" in header else sizes[0] if sizes else np.nan
    dy = header["dy"][0] if "dy" in header else sizes[-1] if sizes else np.nan
    first = []
    for letter, size in (("x", dx), ("y", dy)):
        name = next((name for name in header if re.fullmatch(rf"{letter}(ll|lower).*", name)), None)
        if name is None or not size > 0:
            raise DataError(
                f"{path} is an ASCII grid whose header, with {', '.join(header)}, lacks {letter}llcorner or a cellsize "
                "above 0; correct its header."
            )
        first.append(header[name][0] + (0.5 * size if "corner" in name else 0.0))
    return first[0] + dx * np.arange(nx), (first[1] + dy * np.arange(ny))[::-1]


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
