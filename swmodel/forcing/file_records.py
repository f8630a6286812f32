"""Parameters from the records of netCDF files (records.py), of which a rank reads the windows around its own tiles.

Memory does not depend on the size of a file. Units other than the parameter's raise DataError.
"""

import dataclasses
import datetime
import functools
from typing import Any, cast

import numpy as np

from ..defaults import AIR_DENSITY, WIND_DRAG
from ..errors import DataError
from ..fields.parameters import Choice, FileName, Moment, Text, check_arguments, in_utc
from ..grids.axes import decode, is_dataset, open_raw
from ..grids.grid import Grid
from ..grids.regrid import Records, field_records
from ..grids.windows import Blocks, LazyRecords
from ..grids.winds import fields_in, from_finest
from ..runtime.signals import LOCK
from ..units import check_units
from .records import RecordsInTime
from .wind_laws import wind_stress


@dataclasses.dataclass(frozen=True)
class FileNames(FileName):
    """The rule of the name of a file, or of a tuple of several."""

    def check(self, who: str, name: str, value: Any) -> None:
        several = isinstance(value, (tuple, list)) and bool(value)
        for each in value if several else (value,):
            super().check(who, name, each)


_RULES = {
    "file": FileNames(),
    "variable": Text(),
    "start": Moment(),
    "missing": Choice(("refuse", "nearest")),
}


@dataclasses.dataclass(frozen=True)
class FileRecords(RecordsInTime):
    """A variable of a netCDF file on longitudes and latitudes (or x and y in metres), as the value of a parameter.

        sw.AirPressure(sw.FileRecords("era5.nc", "msl", start=datetime.datetime(2008, 9, 11)))

    It is interpolated bilinearly in space and linearly in time. Longitudes may follow any convention and latitudes
    either order. Dates are counted in the calendar of the file. A variable without times is steady, and the twelve
    months of a climatology repeat every year.

    Args:
        file: the path of the file, or an OPeNDAP address; or a tuple of several, in any order, whose times do not
            overlap. Their dates need a `start`.
        variable: its name in the file.
        start: the date and time of step 0 (UTC); without it times count from the first record, which has then the same
            date in all files of a model.
        units: those of the variable, where the file does not give them. They must be the parameter's.
        missing: the treatment of missing values. "refuse" takes the mean of the valid nodes among the four around a
            point, and raises DataError for points in the sea that have none. "nearest" takes the nearest valid node of
            the record, which every rank then reads as a whole.
        patches: further FileRecords that may cover a part of the grid and of the run, as finer winds around a storm.
            Where and when one has values they take precedence, those of the first patch before those of the others.

    A `variable` that is in groups of the file, as "U10" of NWS13, is that of the coarsest group, and the others are
    patches, the finest one first.

    Raises:
        ConfigError: for arguments of the wrong kind.
    """

    file: Any
    variable: str
    start: datetime.datetime | None = None
    units: str | None = None
    missing: str = "refuse"
    patches: tuple["FileRecords", ...] = ()

    dated_by = "records"
    remedy = 'fill the file, or give missing = "nearest"'

    def __post_init__(self) -> None:
        check_arguments("FileRecords", _RULES, vars(self))

    @property
    def words(self) -> str:
        names = self.file if isinstance(self.file, (tuple, list)) else (self.file,)
        more = "" if len(names) == 1 else f" to {names[-1]} ({len(names)} files)"
        return f"{self.variable} in {names[0]}{more}" + f" with {len(self.patches)} patches" * bool(self.patches)

    def summary(self, grid: Grid, position: str, units: str) -> str:
        """What is read, in words: the variable, its units, and the dates of its records."""
        records = self.records(grid, position, units)
        what, times = f"{self.words} in {units}", records.times
        if records.cycle is not None:
            return f"{what}, twelve months that repeat every year"
        if times.size == 1:
            return f"{what}, a single record"
        ends = [f"{time:g} s" for time in times[[0, -1]]]
        if self.start is not None and records.calendar == "standard":
            ends = [
                f"{in_utc(self.start) + datetime.timedelta(seconds=time):%Y-%m-%d %H:%M}" for time in times[[0, -1]]
            ]
        gap = np.diff(times).max() / 60.0
        apart = f"{gap / 60.0:.3g} h" if gap >= 60.0 else f"{gap:.3g} min"
        return f"{what}, {times.size:,} records from {' to '.join(ends)}, at most {apart} apart"

    def records(self, grid: Grid, position: str, units: str | None = None) -> Records:
        first = self.file[0] if isinstance(self.file, (tuple, list)) else self.file
        *finer, base = from_finest(first, self.variable) or [self.variable]
        own = [dataclasses.replace(self, variable=name, patches=()) for name in finer]
        alone = dataclasses.replace(self, variable=base, patches=())
        if not (self.patches or own):
            return alone._alone(grid, position, units)
        patches = [each._alone(grid, position, units, partial=True) for each in (*self.patches, *own)]
        return _overlaid(self.words, [*patches, alone._alone(grid, position, units)])

    def _alone(self, grid: Grid, position: str, units: str | None, partial: bool = False) -> Records:
        """The Records without patches, which may be `partial`, as of `field_records`."""
        if isinstance(self.file, (tuple, list)):
            return self._joined(grid, position, units, partial)
        source = fields_in(self.file)
        with decode(source if is_dataset(source) else open_raw(source)) as data:
            if self.variable in data.variables and units is not None:
                self._check_units(str(data[self.variable].attrs.get("units", "")), units)
        source = decode(source) if is_dataset(source) else source
        fill = self.missing == "nearest" and not partial
        return field_records(source, self.variable, grid, position, self.start, fill=fill, partial=partial)

    def _joined(self, grid, position, units, partial):
        """The Records of all files, in the order of their times, of which only the latest two files are kept open.

        Raises:
            DataError: where their dates do not follow one another.
        """

        @functools.lru_cache(maxsize=2)
        def records_of(file):
            with LOCK:  # the thread that reads ahead opens files, too
                return dataclasses.replace(self, file=file)._alone(grid, position, units, partial)

        known = [_Part(file, records_of(file)) for file in self.file]
        known.sort(key=lambda part: part.times[0])
        self._check_dates(known)
        ends = np.cumsum([part.times.size for part in known])

        def make(k):
            which = int(np.searchsorted(ends, k, side="right"))
            part = known[which]
            return cast(LazyRecords, records_of(part.file).values)[k - int(ends[which]) + part.times.size]

        key = None if any(part.key is None for part in known) else tuple(part.key for part in known)
        values: Any = LazyRecords(make, (int(ends[-1]), *grid.shape), key)
        return Records(np.concatenate([part.times for part in known]), values, None, known[0].calendar)

    def _check_dates(self, known):
        """Raise DataError if the records of the _Parts `known`, in order, cannot be joined by their dates."""
        who, undated = self.words, [part.file for part in known if part.calendar is None]
        if undated or self.start is None:
            why = f"those of {undated[0]} have none" if undated else "no start is given from which they count"
            raise DataError(f"{who}: files are joined by the dates of their records, and {why}; join them yourself.")
        for one, after in zip(known, known[1:]):
            if one.calendar != after.calendar:
                raise DataError(f"{who}: {one.file} and {after.file} are in different calendars; convert one of them.")
            if one.times[-1] >= after.times[0]:
                raise DataError(
                    f"{who}: {one.file} ends at or after the first record of {after.file}; give each time once."
                )

    def _check_units(self, stated, units):
        stated, who = stated or self.units or "", f"{self.variable} in {self.file}"
        if not stated:
            raise DataError(
                f"{who} has no units; state them by `units`, or write them to the file: {units!r} is needed."
            )
        check_units(who, stated, units)


class _Part:
    """What stays in memory of the Records of one file among several."""

    def __init__(self, file: Any, records: Records):
        values = cast(LazyRecords, records.values)
        self.file, self.times, self.calendar, self.key = file, records.times, records.calendar, values.key


def _overlaid(words, layers):
    """The Records of several, at the times of all: those of the first that has a value; the last covers the run.

    Raises:
        DataError: for climatologies, and for dates in different calendars.
    """
    *patches, base = layers
    if any(each.cycle is not None for each in layers):
        raise DataError(f"{words}: a climatology repeats, and patches do not go with it; give records with dates.")
    if len({each.calendar for each in layers if each.times.size > 1}) > 1:
        raise DataError(f"{words}: the dates are in different calendars, or some have none; convert them.")
    if len({each.origin for each in layers if each.times.size > 1}) > 1:
        raise DataError(
            f"{words}: the records of patches begin at another date, and times count from the first record of each; "
            "give the date of step 0: run.start in an experiment file, start in Python."
        )
    first, last = (base.times[0], base.times[-1]) if base.times.size > 1 else (-np.inf, np.inf)
    times = np.unique(np.concatenate([each.times[(each.times >= first) & (each.times <= last)] for each in layers]))
    keys = [cast(LazyRecords, each.values).key for each in layers]
    values: Any = LazyRecords(
        lambda k: _overlay(layers, float(times[k])),
        (times.size, *base.values.shape[1:]),
        None if None in keys else tuple(keys),
    )
    calendar, origin = (
        next(filter(None, (getattr(each, of) for each in layers)), None) for of in ("calendar", "origin")
    )
    return Records(times, values, None, calendar, origin)


def _overlay(layers, time):
    """The values of the first of several Records that has some, at a time [s]."""
    layers = [each for each in layers if each.times.size == 1 or each.times[0] <= time <= each.times[-1]]

    def block(rows, columns):
        values = np.full((rows.stop - rows.start, columns.stop - columns.start), np.nan)
        for each in layers:
            i, j, weight = each.bracket(time)
            known = each.values[i].block(rows, columns)
            if weight:
                known = (1.0 - weight) * known + weight * each.values[j].block(rows, columns)
            values = np.where(np.isfinite(values), values, known)
        return values

    return Blocks(block, layers[-1].values.shape[1:])


@dataclasses.dataclass(frozen=True)
class StressRecords(FileRecords):
    """One component of the stress that the wind of a file exerts, by a law that is applied to its records [N m-2].

    Args:
        other: the variable of the other component; `variable` is the one along which the stress is.
        drag: the wind law, its name, a coefficient or a function.
        air_density: [kg m-3].
        patches: further StressRecords; their winds take precedence, and the law is that of these records.
    """

    other: str = ""
    drag: Any = WIND_DRAG
    air_density: float = AIR_DENSITY

    def winds(self) -> list[FileRecords]:
        """The records of the wind along the stress, and of that across it."""

        def of(one, name, patches=()):
            return FileRecords(one.file, getattr(one, name), one.start, one.units, one.missing, patches)

        return [of(self, name, tuple(of(each, name) for each in self.patches)) for name in ("variable", "other")]

    def records(self, grid: Grid, position: str, units: str | None = None) -> Records:
        wind = [each.records(grid, position, "m s-1") for each in self.winds()]
        along, across = (cast(LazyRecords, one.values) for one in wind)

        def stress(u, v):
            return wind_stress(u, v, self.drag, self.air_density)[0]

        key = None if None in (along.key, across.key) else (along.key, across.key, self.drag, self.air_density)
        values = LazyRecords(lambda k: along[k].map(stress, across[k]), along.shape, key)
        return dataclasses.replace(wind[0], values=values)


def is_gridded(file: Any, variable: str | None) -> bool:
    """Whether a variable of a netCDF file has two or more dimensions longer than 1, and so is no time series."""
    variable = next(iter(from_finest(file, variable or "")), variable)
    source = fields_in(file)
    with decode(source if is_dataset(source) else open_raw(source)) as data:
        return variable in data.variables and sum(n > 1 for n in data[variable].shape) >= 2
