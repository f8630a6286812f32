"""Gridded fields of a file, steady or in time records, interpolated to the points of the model's grid.

`axes` finds the axes of the file, and `remapping` gives the weights. Times are converted to seconds since the start of
the run; twelve monthly means form a cycle.
"""

import dataclasses
import datetime
import functools
import logging
import re
from typing import Any, TypeAlias

import cftime
import numpy as np

from ..errors import ConfigError, DataError
from ..fields.parameters import in_utc
from .axes import decode, is_data_array, is_dataset, named, open_raw, rectilinear
from .grid import POSITIONS, Grid
from .remapping import filled, remapping
from .windows import Blocks, GridRecords, LazyRecords

Date: TypeAlias = datetime.datetime | cftime.datetime  # Gregorian, or of the calendar in it
DAY = 86400.0  # [s]
YEAR = 365.25 * DAY  # [s], the cycle of a climatology
SMALLEST_WEIGHT = 1e-9  # the sum of the weights of valid nodes around a point, below which the point is missing
CALENDARS = {
    "gregorian": "standard",
    "proleptic_gregorian": "standard",
    "365_day": "noleap",
    "366_day": "all_leap",
}  # {another name: the name of a calendar}; the Gregorian ones differ before 1582 only
SINCE = re.compile(  # (unit and date, hour, minutes, seconds, time zone)
    r"(\w+\s+since\s+[+-]?\d+-\d+-\d+)(?:[T\s]\s*(\d{1,2})(:\d{1,2})?(:\d{1,2}(?:\.\d*)?)?(?!\d))?\s*(.*)", re.I
)
MONTH_DAYS = (31, 28.25, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


@dataclasses.dataclass(frozen=True)
class Records:
    """Fields at given times, linear in between, which repeat after `cycle` if it is given.

    Linear interpolation between mid-month means does not quite keep the monthly means (Killworth 1996,
    doi:10.1175/1520-0485(1996)026<0136:TIOFFI>2.0.CO;2).
    """

    times: np.ndarray  # (nt,) ascending [s] since the start of the run
    values: np.ndarray | GridRecords  # (nt, ny, nx)
    cycle: float | None = None  # [s]
    calendar: str | None = None  # of the dates of a file, None of times without dates
    origin: str | None = None  # the date of the first of several records, where times count from it

    def bracket(self, time: float) -> tuple[int, int, float]:
        """(i, j, weight): the field at `time` [s] is (1 - weight) values[i] + weight values[j]."""
        n = self.times.size
        if n == 1:
            return 0, 0, 0.0
        if self.cycle is not None:
            phase = (time - self.times[0]) % self.cycle
            i = int(np.searchsorted(self.times - self.times[0], phase, side="right")) - 1
            j = (i + 1) % n
            return i, j, float((phase - self.times[i] + self.times[0]) / ((self.times[j] - self.times[i]) % self.cycle))
        if not self.times[0] <= time <= self.times[-1]:
            raise DataError(
                f"Records.bracket: no record for {time:g} s, they go from {self.times[0]:g} to {self.times[-1]:g} s "
                "since the start of the run; shorten the run or give a longer file."
            )
        i = min(int(np.searchsorted(self.times, time, side="right")) - 1, n - 2)
        return i, i + 1, float((time - self.times[i]) / (self.times[i + 1] - self.times[i]))

    def at(self, time: float) -> np.ndarray:
        """The field (ny, nx) at `time` [s]."""
        i, j, weight = self.bracket(time)
        values: Any = self.values
        return (1 - weight) * values[i] + weight * values[j]


def read_field_onto(
    source: Any,
    variable: Any,
    grid: Grid,
    position: str = "h",
    start: datetime.datetime | None = None,
    window: tuple[float, float] | None = None,
) -> Any:
    """Read a gridded field, steady or in time records, and interpolate it bilinearly to the points of the grid.

    Missing values take the nearest valid one first (by great-circle distance on the sphere).

    Args:
        source: path of a netCDF file, or an xarray Dataset or DataArray.
        variable: its name in the source (a DataArray needs none).
        position: "h", "u", "v" or "q", the points of the C-grid.
        start: datetime at which the run starts; times count from there. Without it they count from the first
            record, and a climatology from 1 January.
        window: (first, last) time [s] of the run: only the records around it are read.

    Returns:
        Records: values (nt, ny, nx) in the source's units. Twelve months of a climatology lie at mid-month and are
        cyclic with 365.25 days; a field without time is one record.

    Raises:
        DataError: if the variable, its axes or its times cannot be understood, or do not cover grid and window.
    """
    if position not in POSITIONS:
        raise ConfigError(f"position = {position!r} is not on the C-grid; use one of {', '.join(POSITIONS)}.")
    if is_data_array(source):
        variable = str(source.name or "field")
        source = source.to_dataset(name=variable)
    if not is_dataset(source):
        with decode(open_raw(source)) as dataset:
            return read_field_onto(dataset, variable, grid, position, start, window)
    records = field_records(source, variable, grid, position, start, window)
    return dataclasses.replace(records, values=np.asarray(records.values))


def field_records(
    source: Any,
    variable: str,
    grid: Grid,
    position: str = "h",
    start: Any = None,
    window: Any = None,
    fill: bool = True,
    partial: bool = False,
) -> Records:
    """Records as of `read_field_onto`, in GridRecords, of which only the windows that are needed are read.

    Args:
        source: path of a netCDF file, or an xarray Dataset.
        variable, grid, position, start, window: as of `read_field_onto`.
        fill: whether missing values take the nearest valid one of the whole field, which is then read as a whole. Else
            a point takes the weighted mean of the valid nodes among the four around it, and is NaN where none is valid.
        partial: whether the field may cover a part of the grid; cells that are not wholly within it are NaN.
    """
    if not is_dataset(source):
        source = decode(open_raw(source))  # xarray opens the file again when values are read
    field = rectilinear(source, variable)
    field = field.squeeze([dim for dim in field.dims[1:-2] if field.sizes[dim] == 1])
    plan = remapping(field, grid, "interpolate", position, partial)
    times, cycle = _times(field, start)
    field = field.expand_dims("record") if field.ndim == 2 else field
    kept = slice(None) if window is None or cycle is not None else _around(times, window)
    field = field[kept]
    dated = cycle is None and field.dims[0] in field.coords  # else xarray would number the records
    calendar = calendar_of(field.coords[field.dims[0]]) if dated else None
    origin = first_date(field.coords[field.dims[0]]) if calendar and start is None and times.size > 1 else None

    path, edges = field.encoding.get("source"), [*grid.x_edges[[0, -1]], *grid.y_edges[[0, -1]]]
    key = (
        None if path is None else (path, variable, position, fill, partial, grid.shape, edges, times[kept].tolist()[:1])
    )
    make = lambda k: _on_points(field[k], plan, grid, fill, partial)  # noqa: E731
    return Records(times[kept], LazyRecords(make, (field.shape[0], *grid.shape), key), cycle, calendar, origin)


def _on_points(field, plan, grid, fill, partial):
    """One record of a field, interpolated to the points of a grid; `fill` and `partial` as of `field_records`."""

    def block(rows, columns):
        part = plan.part(rows, columns)
        values = part.read(field)
        valid = np.isfinite(values)
        if valid.all():
            return part(values)
        if not fill:
            weight = part(valid.astype(float))
            with np.errstate(invalid="ignore", divide="ignore"):
                return np.where(weight > SMALLEST_WEIGHT, part(np.where(valid, values, 0.0)) / weight, np.nan)
        whole = filled(plan.read(field), plan, grid.spherical)
        j, i = np.searchsorted(plan.y, part.y[0]), np.searchsorted(plan.x, part.x[0])
        return part(whole[j : j + part.y.size, i : i + part.x.size])

    within = lambda *part: np.where(plan.inside(*part), block(*part), np.nan)  # noqa: E731
    return Blocks(within if partial else block, grid.shape)


def calendar_of(time: Any) -> str | None:
    """The calendar of a time axis, "standard" for all Gregorian ones; None without dates, or without an axis."""
    if time is None or not _dated(time):
        return None
    if np.issubdtype(time.dtype, np.datetime64):
        return "standard"
    return calendar_called(
        time.values[0].calendar if time.dtype == object else str(time.attrs.get("calendar", "standard"))
    )


def calendar_called(name: str) -> str:
    """The calendar of a name, "standard" for all Gregorian ones."""
    return CALENDARS.get(name.lower(), name.lower())


def first_date(time: Any) -> str | None:
    """The first date of a time axis in its own calendar, to the second; None without dates."""
    if time is None or not _dated(time):
        return None
    first = time.values[0]
    if np.issubdtype(time.dtype, np.datetime64):
        return str(first.astype("datetime64[s]")).replace("T", " ")
    if time.dtype != object:
        calendar = str(time.attrs.get("calendar", "standard"))
        first = cftime.num2date(float(first), _with_whole_time(str(time.attrs["units"]), named(time)), calendar)
    return (first + datetime.timedelta(seconds=0.5)).strftime("%Y-%m-%d %H:%M:%S")


def _times(field, start):
    """(times [s] since `start`, cycle [s] or None) of the records of a field (time, y, x) or (y, x)."""
    if field.ndim == 2:
        return np.zeros(1), None
    if field.ndim > 3:
        raise DataError(f"{named(field)} has dimensions {field.dims}; select one level first, down to (time, y, x).")
    start = None if start is None else in_utc(start)
    name = field.dims[0]
    time = field.coords[name] if name in field.coords else None
    attrs = {} if time is None else time.attrs
    said, months = {"climatology", "modulo"} & set(attrs), name.lower().startswith("mon")
    if field.shape[0] == 12 and (said or (months and not _dated(time))):
        since_january = 0.0 if start is None else (start - datetime.datetime(start.year, 1, 1)).total_seconds()
        return DAY * (np.cumsum(MONTH_DAYS) - 0.5 * np.array(MONTH_DAYS)) - since_january, YEAR
    if time is None:
        raise DataError(f"{named(field)} has {field.shape[0]} records along {name} without times; add a time axis.")
    times = seconds_since(time, start)
    if (wrong := np.flatnonzero(~(np.diff(times) > 0))).size:
        raise DataError(
            f"the times of {named(field)} do not ascend: record {wrong[0] + 1}, counted from 0, is not later than the "
            f"one before it; sort the file along {name}, and give each time once."
        )
    return times, None


def _dated(time):
    """Whether a time axis (a DataArray, or None where there is none) holds dates, which belong to one year."""
    if time is None:
        return False
    units = str(time.attrs.get("units", ""))
    return np.issubdtype(time.dtype, np.datetime64) or time.dtype == object or " since " in units


def seconds_since(time: Any, start: datetime.datetime | None) -> np.ndarray:
    """Seconds since `start`, in UTC, or since the first record without one, of a time axis in its own calendar.

    Times in seconds without a date are returned as they are.

    Raises:
        DataError: for times in units that cannot be read.
    """
    values, units = time.values, str(time.attrs.get("units", ""))
    start = None if start is None else in_utc(start)
    if np.issubdtype(values.dtype, np.datetime64):
        return (values - (values[0] if start is None else np.datetime64(start))) / np.timedelta64(1, "s")
    if values.dtype != object and " since " in units:
        calendar = str(time.attrs.get("calendar", "standard"))
        return seconds_of_dates(values, units, calendar, start, named(time))
    if values.dtype != object:
        if units.lower() not in ("s", "sec", "second", "seconds"):
            raise DataError(f"the times of {named(time)} have units {units!r}; give 'seconds since ...' (CF) or 's'.")
        return values.astype(np.float64)
    origin = values[0] if start is None else in_calendar(start, values[0].calendar, named(time))
    return np.array([(value - origin).total_seconds() for value in values])


def seconds_of_dates(
    values: np.ndarray, units: str, calendar: str, start: datetime.datetime | None, name: str
) -> np.ndarray:
    """Seconds since `start`, in UTC, or since the first of them without one, of numbers in CF units of time.

    Numbers in single precision that have lost more than a second get a warning.

    Args:
        values: (n,) in `units`, such as "hours since 2008-09-10 00:00 -6:00".
        calendar: of the dates.
        name: of their variable, for messages.

    Raises:
        DataError: for units that cannot be read.
    """
    whole = _with_whole_time(units, name)
    try:
        zero, one = cftime.num2date([0, 1], whole, calendar)
    except ValueError as error:
        why = str(error).rstrip(".")
        raise DataError(f"the times of {name} are in {units!r}, which cannot be read: {why}.") from error
    unit = (one - zero).total_seconds()
    if (rounding := unit * _rounding(values)) > 1.0:
        _warn_of_rounding(name, rounding)
    values = np.asarray(values, np.float64)
    seconds = (values - (values[0] if start is None else 0.0)) * unit
    if start is not None:
        seconds += (zero - in_calendar(in_utc(start), zero.calendar, name)).total_seconds()
    return np.round(seconds, 6)  # dates in files are often fractions of days


def _rounding(values):
    """The distance of two numbers in single precision near these times; 0 where they have not been rounded to it."""
    values = np.asarray(values)
    if values.dtype != np.float32 or not np.isfinite(values).any():
        return 0.0
    exact, step = values[np.isfinite(values)].astype(np.float64), float(np.spacing(np.nanmax(np.abs(values))))
    intervals = np.diff(exact)
    is_exact = (exact % (8.0 * step) == 0).all() or (intervals == intervals[:1]).all()  # as whole days are
    return 0.0 if is_exact else step


@functools.cache
def _warn_of_rounding(name, seconds):
    """Warn once, however often a file is read."""
    text = "the times of %s are in single precision, which rounds them to %.3g s; write them in double precision"
    logging.getLogger("swmodel").warning(text, name, seconds)


def _with_whole_time(units, name):
    """CF units with hours, minutes and a time zone as cftime reads them, such as "hours since 2024-03-01 00:00 -06:00".

    It would leave out a zone of one digit, as in "-6:00", one by name, and an hour without minutes.
    """
    match = SINCE.fullmatch(units.strip())
    if match is None:
        raise DataError(
            f"the times of {name} are in {units!r}, which cannot be read; give them as in 'hours since 2024-03-01 "
            "00:00'."
        )
    date, hour, minute, second, zone = match.groups(default="")
    offset = re.fullmatch(r"([+-])(\d{1,2}):?(\d{2})?", zone)
    if offset is None and zone.upper() not in ("", "Z", "UTC", "UT", "GMT"):
        raise DataError(
            f"the times of {name} are in {units!r}, with the time zone {zone!r}; give it as an offset, such as +09:00."
        )
    if offset is not None:
        zone = f"{offset[1]}{int(offset[2]):02d}:{offset[3] or '00'}"
    return f"{date} {hour or '00'}{minute or ':00'}{second} {zone}".strip()


def in_calendar(start: datetime.datetime, calendar: str, name: str) -> cftime.datetime:
    """A date and time in UTC as a date of the calendar of `name`; raises DataError where that has no such day."""
    try:
        return cftime.datetime(*start.timetuple()[:6], start.microsecond, calendar=calendar)
    except ValueError:
        raise DataError(
            f"the run starts on {start:%d %B %Y}, a day that the calendar of {name}, {calendar}, does not have; start "
            "it on another day."
        ) from None


def _around(times, window):
    if times.size > 1 and not (times[0] <= window[0] and window[1] <= times[-1]):
        raise DataError(
            f"the records go from {times[0]:g} to {times[-1]:g} s since the start of the run, which needs "
            f"{window[0]:g} to {window[1]:g} s; change the start or give a file that covers the run."
        )
    first = np.searchsorted(times, window[0], side="right") - 1
    return slice(max(int(first), 0), int(np.searchsorted(times, window[1])) + 1)
