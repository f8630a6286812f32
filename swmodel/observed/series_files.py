"""One series in a file, such as the elevation at an open side: CSV with a line of names, or netCDF."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import DataError, nearest
from ..fields.parameters import in_utc
from ..forcing.waves import Record
from ..grids import axes
from ..grids.observed_tables import seconds_in
from ..grids.regrid import calendar_of, first_date, seconds_since
from ..runtime.formats import check_format, is_date, is_number, read_csv
from ..units import check_units
from .points import READABLE as ALTIMETERS

if TYPE_CHECKING:
    import xarray as xr

NOT_SECONDS = (
    *("ms", "min", "mins", "minute", "minutes", "h", "hr", "hrs", "hour", "hours", "d", "day", "days"),
    *("week", "weeks", "month", "months", "yr", "year", "years"),
)
NOT_SI = (
    *("mm", "cm", "km", "ft", "feet", "inch", "acre", "hpa", "mbar", "mb", "kn", "kt", "knots", "kmh", "mph"),
    *("cfs", "cusec", "cusecs", "gpm", "mgd", "mld", "ml", "gal", "lps"),
)
PARTS_OF_UNITS = (*NOT_SI, *NOT_SECONDS, "l", "m", "s", "sec", "second", "seconds", "pa", "kg", "n")


def is_table(file: Path) -> bool:
    """Whether a file is a table in CSV, and not netCDF; raises DataError for other formats."""
    readable = "netcdf", "netcdf_groups", "owi", "text", *ALTIMETERS  # maps may have their variables, too
    return check_format(file, readable, "a CSV or netCDF file of a series") == "text"


def read_series(file: Path, variable: str | None, time: str | None, start: datetime.datetime | None) -> Record:
    """The Record in a file.

    Args:
        file: its path.
        variable: the name of the series, where there are several.
        time: the name of the times; the first column, or the dimension of the series, unless given.
        start: date and time of step 0, from which dates count; without it they count from the first one.

    Raises:
        DataError: if it cannot be read, lacks the series, or is not in SI units.
    """
    return (_from_csv if is_table(file) else _from_netcdf)(file, variable, time, start)


def check_series_units(file: Path, variable: str | None, time: str | None, units: str) -> None:
    """Raise DataError if the units of a series in a netCDF file are other ones than the parameter's."""
    if is_table(file):
        return
    with axes.open_raw(file) as dataset:
        series, _ = _series_in(dataset, file, variable, time)
        if found := str(series.attrs.get("units", "")):
            check_units(f"{series.name} in {file}", found, units)


def _from_csv(file, variable, time, start):
    table = read_csv(file)
    names = tuple(name for name in table.names if name)
    if len(names) < 2 or any(map(is_number, names)):
        raise DataError(f"{file} lacks two columns with names; its first line must name them, as time_s,eta_m")
    time = _named(time, names, names[0], file)
    name = _name_of_series(variable, names, [name for name in names if name != time], file)
    is_dated = is_date(next(filter(None, table.texts(time)), ""))
    if not is_dated and (units := [word for word in re.findall("[a-z]+", time.lower()) if word in NOT_SECONDS]):
        raise DataError(f"{file}: the column {time} is in {units[-1]}; convert it to seconds, and rename it")
    units = _units_in(name)
    alone = len(units) == 1 and "(" not in name and "[" not in name  # wave_h may be a height
    if wrong := [x for x in units if x in NOT_SI or not alone and x in (*NOT_SECONDS, "l")]:
        raise DataError(f"{file}: the column {name} is in {wrong[0]}; convert it to SI units, and rename it")
    for column in (time, name):
        if "" in (cells := table.texts(column)):
            line = table.lines[cells.index("")]
            raise DataError(f"{file}, line {line}: {column} is empty; leave the line out, or fill it")
    origin = str(in_utc(datetime.datetime.fromisoformat(table.texts(time)[0]))) if is_dated and start is None else None
    return Record(seconds_in(table, time, start), table.numbers(name), origin)


def _units_in(column: str) -> Sequence[str]:
    """The symbols of the units at the end of the name of a column, without exponents: of time_h, "Q [ft3/s]"."""
    words = re.findall(r"[a-z]+(?=-?\d*(?![a-z]))", column.lower())[re.match(r"[a-z]", column.lower()) is not None :]
    others = (k for k, word in enumerate(reversed(words)) if word not in PARTS_OF_UNITS)
    return words[len(words) - next(others, len(words)) :]


def _named(name, names, otherwise, file):
    """`name`, which must be one of `names` of a file; `otherwise` if it is None."""
    if name is None:
        return otherwise
    if name not in names:
        raise DataError(f"{file} has no {name!r}; {nearest(name, names)}")
    return name


def _name_of_series(variable, names, series, file):
    """`variable`, which must be one of `names` of a file; the only one of `series` if it is None."""
    if variable is None and len(series) != 1:
        listed = f"{len(series)} series, {', '.join(series)}; name one with variable" if series else "no series"
        raise DataError(f"{file} has {listed}")
    return _named(variable, names, series[0] if series else "", file)


def _series_in(dataset, file, variable, time) -> tuple[xr.DataArray, str]:
    """(the series of a netCDF file, the name of its times)."""
    series = [str(name) for name, x in dataset.data_vars.items() if x.ndim == 1 and name != time]
    names = tuple(map(str, dataset.variables))
    values = dataset[_name_of_series(variable, names, series, file)]
    single = [name for name, n in values.sizes.items() if n == 1]
    values = values.squeeze(single if len(single) < values.ndim else single[1:])
    return values, _named(time, names, str(values.dims[0]), file)


def _from_netcdf(file, variable, time, start):
    with axes.decode(axes.open_raw(file)) as dataset:
        values, time = _series_in(dataset, file, variable, time)
        if time not in dataset.variables:
            raise DataError(f"{file} has no times along {time}; add them, in seconds")
        times = dataset[time]
        if (calendar := calendar_of(times)) not in (None, "standard"):
            raise DataError(f"the dates of {file} are in the calendar {calendar}; convert them to the standard one")
        seconds = seconds_since(times, start) if times.attrs.get("units") else times.values
        origin = first_date(times) if start is None else None
        return Record(np.asarray(seconds, float), np.asarray(values.values, float), origin)
