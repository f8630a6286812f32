"""Observations away from gauges: samples of altimeters, and high-water marks.

Altimeters give sea levels along their tracks and in their swaths, as the providers write them, in netCDF:

    CMEMS, level 3    sla_unfiltered or sla_filtered (time), and corrections, such as dac and ocean_tide
    SWOT, level 3     of AVISO: ssha_unfiltered or ssha_filtered, in earlier versions ssha and ssha_noiseless, over
                      (num_lines, num_pixels), with quality_flag in the expert files; and other files of ssha, over
                      time as well, of PO.DAAC
    SWOT, level 2     of PO.DAAC: ssha_karin over (num_lines, num_pixels), with ssha_karin_qual

A level is one above the mean sea surface, from which tides and the sea's response to the atmosphere have been
subtracted; the caller names those that are added again. Samples with a quality flag other than 0 are left out.

High-water marks are heights that water has reached at places, from a table.

The columns are `x` and `y`, or `longitude` and `latitude`, and a height. `elevation_m` is the level above the zero of
the run's levels, and `depth_m` the depth of the flow above the ground. `name` and `deviation_m` may be columns, too.
Rows without a height do not count. Where a table has both pairs of coordinates, the grid decides.
"""

import dataclasses
import datetime
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from ..errors import DataError
from ..grids.observed_tables import AXES, ELEVATION, LARGEST, kind_of_places, read_table, stand_for_gaps, table_names
from ..grids.regrid import seconds_of_dates
from ..runtime.signals import LOCK
from ..units import check_units


@dataclasses.dataclass(frozen=True)
class _Product:
    """What a format of runtime/formats.py is, its levels in the order of preference, and its quality flag."""

    words: str
    levels: tuple[str, ...]
    quality: str = ""


_PRODUCTS = {
    "altimeter_tracks": _Product("altimeter tracks of CMEMS, level 3", ("sla_unfiltered", "sla_filtered")),
    "ssha": _Product(
        "levels ssha, as of SWOT, level 3",
        ("ssha_unfiltered", "ssha_filtered", "ssha", "ssha_noiseless", "ssha_smoothed", "ssha_unedited"),
        "quality_flag",
    ),
    "swot_l2": _Product("a swath of SWOT, level 2", ("ssha_karin", "ssha_karin_2"), "{}_qual"),
}
READABLE = tuple(_PRODUCTS)
CORRECTIONS = ("dac", "ocean_tide", "internal_tide")  # how names of variables begin that a user may add again


@dataclasses.dataclass(frozen=True, eq=False)
class Samples:
    """Levels in space and time, (n,) each.

    Attributes:
        longitude, latitude: [degrees].
        time: since the start of the run [s].
        value: level [m].
        remarks: what was read and assumed, each in words.
    """

    longitude: np.ndarray
    latitude: np.ndarray
    time: np.ndarray
    value: np.ndarray
    remarks: tuple[str, ...]


def read_samples(
    path: str | Path,
    kind: str,
    start: datetime.datetime,
    variable: str | None = None,
    add: Sequence[str] = (),
    thin: int = 1,
) -> Samples:
    """The Samples of a file in the format `kind` of READABLE, those without a level left out.

    Args:
        path: of the file.
        kind: the format.
        start: date and time of step 0 of the run.
        variable: the level; the first of its product's unless given.
        add: variables that are added to it, as "ocean_tide" and "dac".
        thin: every `thin`-th sample counts, along both directions of a swath.

    Raises:
        DataError: for a file without these variables, in other units than metres, or without any level.
    """
    import netCDF4

    product = _PRODUCTS[kind]
    with LOCK, netCDF4.Dataset(path) as data:
        level = variable or next((name for name in product.levels if name in data.variables), product.levels[0])
        value = np.sum([_numbers(path, product, data, name, "m") for name in (level, *add)], axis=0)
        flag = product.quality.format(level)
        if flag in data.variables:
            good = np.ma.filled(np.ma.asarray(data[flag][:]), 1) == 0
            value, rejected = np.where(good, value, np.nan), int(np.sum(np.isfinite(value) & ~good))
        else:
            rejected = 0
        x, y = (_numbers(path, product, data, name, "degree") for name in ("longitude", "latitude"))
        time, moments = data["time"], _numbers(path, product, data, "time", "")
        calendar = str(getattr(time, "calendar", "standard"))
        time = seconds_of_dates(moments, str(time.units), calendar, start, f"time in {path}")
        others = sorted(name for name in data.variables if name.startswith(CORRECTIONS) and name not in add)
    time = np.broadcast_to(time if value.ndim == 1 else time[:, None], value.shape)
    every = tuple(slice(None, None, thin) for _ in value.shape)
    columns = np.stack([np.ravel(part[every]) for part in (x, y, time, value)])
    counted = np.isfinite(columns).all(axis=0)
    if not counted.any():
        raise DataError(f"{path}, {product.words}: no sample has a level {level}; give another variable or file.")
    remarks = [product.words, f"{' + '.join((level, *add))} in m, above the mean sea surface"]
    remarks += [f"without {' and '.join(others)}, which the file has"] if others else []
    remarks += [f"{rejected:,} samples left out by {flag}"] if rejected else []
    remarks += [f"1 of {thin} samples along each direction"] if thin > 1 else []
    x, y, time, value = columns[:, counted]
    return Samples(x, y, time, value, (*remarks, f"{counted.sum():,} samples"))


def _numbers(path, product, data, name, units):
    """The values of a variable as float64, NaN where they are missing; raises DataError for other units."""
    if name not in data.variables:
        known = ", ".join(data.variables)
        raise DataError(f"{path}, {product.words}, has no variable {name!r}; it has {known}.")
    stated = str(getattr(data[name], "units", "")).strip()
    if units and stated:
        check_units(f"{name} in {path}", stated, units)
    return np.ma.filled(np.ma.asarray(data[name][:], float), np.nan)


# -- high-water marks --------------------------------------------------------------------------------------------------

DEPTH, DEVIATION = "depth_m", "deviation_m"


@dataclasses.dataclass(frozen=True, eq=False)
class MarkTable:
    """The marks of a table that have a height; arrays are (n,).

    Attributes:
        names: of the marks; their numbers where the table names none.
        spherical: whether x and y are longitudes and latitudes.
        x, y: the places.
        height: the level or the depth [m].
        deviation: standard deviation of the errors [m]; NaN where the table has none.
        of_depth: whether heights are depths above the ground.
        left_out: the number of rows without a height.
    """

    names: tuple[str, ...]
    spherical: bool
    x: np.ndarray
    y: np.ndarray
    height: np.ndarray
    deviation: np.ndarray
    of_depth: bool
    left_out: int


def read_marks(path: str | Path, spherical: bool | None = None) -> MarkTable:
    """The marks of a table, CSV or netCDF.

    Args:
        spherical: whether the grid is; None where it is not known.

    Raises:
        DataError: if the table cannot be read, lacks a column, has both heights, other coordinates than the grid, a
            place or a height that cannot be, or names a mark twice.
    """
    head = table_names(path)
    if DEPTH in head and ELEVATION in head:
        raise DataError(f"{path} has both {ELEVATION} and {DEPTH}; leave one of them out.")
    kind_of_table = kind_of_places(path, spherical)
    kind = bool(spherical) if kind_of_table is None else kind_of_table
    axes = AXES[kind]
    height = DEPTH if DEPTH in head else ELEVATION
    texts, own = (["name"] if "name" in head else []), ([DEVIATION] if DEVIATION in head else [])
    columns = read_table(path, (*axes, height, *own), texts)
    known = np.isfinite(columns[height])
    names = columns["name"] if texts else [f"{k}" for k in range(1, known.size + 1)]
    if twice := [name for k, name in enumerate(names) if name in names[:k]]:
        raise DataError(f"{path} has two marks named {twice[0]!r}; give each a name of its own.")
    deviation = columns[DEVIATION] if own else np.full(known.size, np.nan)
    x, y, heights, errors = (values[known] for values in (*(columns[name] for name in (*axes, height)), deviation))
    named = tuple(name for name, counts in zip(names, known) if counts)
    wrong = ~np.isfinite(x + y) | (np.abs(y) > (90.0 if kind else np.inf))
    wrong |= stand_for_gaps(np.abs(heights), LARGEST[ELEVATION]) | ((heights < 0) & (height == DEPTH))
    if wrong.any():
        k = int(np.argmax(wrong))
        raise DataError(
            f"{path}: the mark {named[k]!r} at ({x[k]:g}, {y[k]:g}) with {height} = {heights[k]:g} cannot be; check "
            "place and height, or leave the height empty."
        )
    return MarkTable(named, kind, x, y, heights, errors, height == DEPTH, int(np.count_nonzero(~known)))


def nearest_cell(
    row: float, column: float, shape: tuple[int, ...], reach: int, counts: Callable[[np.ndarray, np.ndarray], ArrayLike]
) -> tuple[int, int] | None:
    """(j, i) of the nearest cell that counts to fractional indices, within `reach` cells; None without one.

    A place outside of the grid has none.

    Args:
        shape: (ny, nx) of the grid.
        counts: `counts(rows, columns)`, whether cells count.
    """
    if not all(-0.5 - 1e-9 <= at <= n - 0.5 + 1e-9 for at, n in zip((row, column), shape)):
        return None
    centre = int(np.rint(row)), int(np.rint(column))
    j, i = (np.arange(max(at - reach, 0), min(at + reach + 1, n)) for at, n in zip(centre, shape))
    rows, columns = (part.ravel() for part in np.meshgrid(j, i, indexing="ij"))
    if not (some := np.asarray(counts(rows, columns), bool)).any():
        return None
    k = int(np.argmin(np.where(some, np.hypot(rows - row, columns - column), np.inf)))
    return int(rows[k]), int(columns[k])
