"""Parameters from the records of a netCDF file, such as winds, stresses and air pressures, read during the run.

A rank reads the window of the file around its own tiles, and only the two records around the current time. A thread
reads the following record ahead. Between records the value is linear in time (dynamics/terms.py). So the memory of a
rank depends neither on the number of records nor on the size of the file, except for 8 bytes a record for its time.

Before the run, and at each record, these mistakes raise DataError: units other than the parameter's, pressure in hPa,
records that do not cover the run, missing values in the sea, and files of different calendars in one model.
"""

import dataclasses
import datetime
import functools
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from ..defaults import AIR_DENSITY, WIND_DRAG
from ..dynamics.terms import Series
from ..errors import ConfigError, DataError, of_part
from ..fields.parameters import Choice, FileName, Moment, Text, check_arguments
from ..grids.axes import decode, is_dataset, open_raw
from ..grids.file_units import check_units
from ..grids.regrid import Records, field_records
from ..grids.windows import LazyRecords, TileRecords
from ..grids.winds import fields_in
from ..runtime.netcdf import LOCK
from .atmosphere import look_like_hectopascals
from .wind_laws import wind_stress

__all__ = ["FileRecords", "StressRecords", "check_calendars", "check_coverage", "is_gridded"]


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
class FileRecords:
    """A variable of a netCDF file on longitudes and latitudes (or x and y in metres), as the value of a parameter.

        sw.AirPressure(sw.FileRecords("era5.nc", "msl", start=datetime.datetime(2008, 9, 11)))

    It is interpolated bilinearly in space and linearly in time. Longitudes may follow any convention and latitudes
    either order. Dates are counted in the calendar of the file. A variable without times is steady, and the twelve
    months of a climatology repeat every year.

    Args:
        file: the path of the file, or an OPeNDAP address; or a tuple of several, in any order, whose times do not
            overlap. Their dates need a `start`.
        variable: its name in the file.
        start: the date and time of step 0 (UTC); without it times count from the first record.
        units: those of the variable, where the file does not give them. They must be the parameter's.
        missing: the treatment of missing values. "refuse" takes the mean of the valid nodes among the four around a
            point, and raises DataError for points in the sea that have none. "nearest" takes the nearest valid node of
            the record, which every rank then reads as a whole.

    Raises:
        ConfigError: for arguments of the wrong kind.
    """

    file: Any
    variable: str
    start: datetime.datetime | None = None
    units: str | None = None
    missing: str = "refuse"

    dated_by = "records"

    def __post_init__(self) -> None:
        check_arguments("FileRecords", _RULES, vars(self))

    def records(self, grid: Any, position: str, units: str | None = None) -> Records:
        """The Records at the points of a grid, of which only axes and times are read at first.

        Args:
            grid: the Grid.
            position: "h", "u" or "v".
            units: those of the parameter; None allows any.

        Raises:
            DataError: for a file that cannot be used, or is in other units.
        """
        if isinstance(self.file, (tuple, list)):
            return self._joined(grid, position, units)
        source = fields_in(self.file)
        with decode(source if is_dataset(source) else open_raw(source)) as data:
            if self.variable in data.variables and units is not None:
                self._check_units(str(data[self.variable].attrs.get("units", "")), units)
        source = decode(source) if is_dataset(source) else source
        return field_records(source, self.variable, grid, position, self.start, fill=self.missing == "nearest")

    def _joined(self, grid, position, units):
        """The Records of all files, in the order of their times, of which only the latest two files are kept open.

        Raises:
            DataError: where their dates do not follow one another.
        """

        @functools.lru_cache(maxsize=2)
        def records_of(file):
            with LOCK:  # the thread that reads ahead opens files, too
                return dataclasses.replace(self, file=file).records(grid, position, units)

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
        who, undated = f"{self.variable} in {self._file}", [part.file for part in known if part.calendar is None]
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

    @property
    def _file(self):
        """The file or files, in words."""
        names = self.file if isinstance(self.file, (tuple, list)) else (self.file,)
        return str(names[0]) if len(names) == 1 else f"{names[0]} to {names[-1]} ({len(names)} files)"

    def _check_units(self, found, units):
        found, who = found or self.units or "", f"{self.variable} in {self.file}"
        if not found:
            raise DataError(
                f"{who} has no units; state them by `units`, or write them to the file: {units!r} is needed."
            )
        check_units(who, found, units)

    def check(self, grid: Any, name: str, rule: Any, end: float) -> None:
        """Raise DataError for a file that cannot be used, or whose records do not cover a run until `end` [s].

        Args:
            grid: the Grid.
            name: of the parameter.
            rule: the Number that declares it.
            end: [s].
        """
        found = self.records(grid, rule.position or "h", rule.units)
        series = Series(found.times, found.times, found.cycle, None, self._source(found, name, rule))
        check_coverage({"": series}, end)

    def _source(self, found, name, rule):
        return _Source(name, self._file, self.variable, found.calendar, found.cycle, rule)

    def series_on(self, position: str, domain: Any, name: str, rule: Any = None) -> Series:
        """The Series of tile records.

        Args:
            position: "h", "u" or "v", of the parameter.
            domain: the model's Domain.
            name: of the parameter, for messages.
            rule: the Number that declares it, or None.
        """
        found = self.records(domain.grid, position, None if rule is None else rule.units)
        values: Any = found.values
        source = self._source(found, name, rule)
        parts: Any = {}
        for rank in domain.communicator.ranks:
            wet = domain.part(domain.sea_floor.mask(position), rank, bool)
            parts[rank] = TileRecords(values, functools.partial(source.cut, domain, rank, wet))
        return Series(found.times, parts, found.cycle, domain.communicator.place, source)


class _Part:
    """What stays in memory of the Records of one file among several."""

    def __init__(self, file: Any, found: Records):
        values = cast(LazyRecords, found.values)
        self.file, self.times, self.calendar, self.key = file, found.times, found.calendar, values.key


@dataclasses.dataclass(frozen=True)
class _Source:
    """The origin of a Series, with the checks of its records when they are read.

    Attributes:
        name: of the parameter.
        file, variable: of the records.
        calendar: of their dates, None without dates.
        cycle: [s], None of records that do not repeat.
        rule: the Number that declares the parameter, or None.
    """

    name: str
    file: str
    variable: str
    calendar: str | None
    cycle: float | None
    rule: Any

    def cut(self, domain: Any, rank: int, wet: np.ndarray, record: Any) -> np.ndarray:
        """A rank's tile of a record: finite in the sea, with 0 on land where the file has no value.

        Raises:
            DataError: for missing values in the sea, values beyond the parameter's limits, and pressures that look like
                hPa.
        """
        part = domain.part(record, rank)
        missing = ~np.isfinite(part)
        if missing.any():
            if (missing & wet).any():
                raise DataError(self._missing(domain, rank, missing & wet))
            part = np.where(missing, part.dtype.type(0), part)
        self._check_limits(part[wet])
        return part

    def _check_limits(self, here):
        if self.rule is None or not here.size:
            return
        least, most = here.min(), here.max()
        for extreme in (least, most):
            if why := self.rule.outside(extreme):
                raise DataError(
                    f"{self.name}: {self.variable} in {self.file} has a value of {extreme:g} {self.rule.units}, which "
                    f"{why}; check the file and its units."
                )
        if self.rule.units == "Pa" and look_like_hectopascals(here):
            raise DataError(
                f"{self.name}: {self.variable} in {self.file} has values of {least:g} to {most:g}, which "
                "look like hPa; give Pa, a hundred times as much."
            )

    def _missing(self, domain, rank, where):
        tile = domain.communicator.decomposition(domain.grid.shape).box(rank)
        j, i = (int(k[0]) for k in np.nonzero(where))
        x, y = domain.grid.coordinates("h")
        place = f"({np.ravel(x)[tile.i0 + i]:.6g}, {np.ravel(y)[tile.j0 + j]:.6g})"
        return (
            f"{self.name}: {self.variable} in {self.file} has no value at {np.count_nonzero(where):,} points of the "
            f'sea, the first of them near {place}; fill the file, or give missing = "nearest".'
        )


@dataclasses.dataclass(frozen=True)
class StressRecords(FileRecords):
    """One component of the stress that the wind of a file exerts, by a law that is applied to its records [N m-2].

    Args:
        other: the variable of the other component; `variable` is the one along which the stress is.
        drag: the wind law, its name, a coefficient or a function.
        air_density: [kg m-3].
    """

    other: str = ""
    drag: Any = WIND_DRAG
    air_density: float = AIR_DENSITY

    def records(self, grid: Any, position: str, units: str | None = None) -> Records:
        wind = [
            FileRecords(self.file, name, self.start, self.units, self.missing).records(grid, position, "m s-1")
            for name in (self.variable, self.other)
        ]
        along, across = (cast(LazyRecords, one.values) for one in wind)

        def stress(u, v):
            return wind_stress(u, v, self.drag, self.air_density)[0]

        law = self.drag if isinstance(self.drag, (str, float, int)) else id(self.drag)
        key = None if None in (along.key, across.key) else (along.key, across.key, law, self.air_density)
        values = LazyRecords(lambda k: along[k].map(stress, across[k]), along.shape, key)
        return dataclasses.replace(wind[0], values=values)


def is_gridded(file: Any, variable: str | None) -> bool:
    """Whether a variable of a netCDF file has two or more dimensions longer than 1, and so is no time series."""
    source = fields_in(file)
    with decode(source if is_dataset(source) else open_raw(source)) as data:
        return variable in data.variables and sum(n > 1 for n in data[variable].shape) >= 2


# -- what a model checks ----------------------------------------------------------------------------------------------


def check_calendars(series: Mapping[str, Any], gregorian: str | None = None) -> None:
    """Raise ConfigError if the dates of the files of some {name: Series} are in different calendars.

    Args:
        series: the Series.
        gregorian: another part of the model whose dates are Gregorian, as those of tides are, in words; None if there
            is none.
    """
    found: dict[str, tuple[str, _Source]] = {}
    for name, source in ((name, each.source) for name, each in series.items()):
        if source is not None and source.calendar is not None:
            found.setdefault(source.calendar, (name, source))
    if len(found) > 1:
        (_, one), (name, other) = list(found.values())[:2]
        with of_part(name):
            raise ConfigError(
                f"{one.name} and {other.name} are in different calendars, {one.calendar} ({one.file}) and "
                f"{other.calendar} ({other.file}), so that their dates drift apart; convert one of the files."
            )
    for name, source in found.values():
        if gregorian is not None and source.calendar != "standard":
            with of_part(name):
                raise ConfigError(
                    f"{source.name} is in the calendar {source.calendar} ({source.file}), and {gregorian} has dates of "
                    "the Gregorian one, so that their dates drift apart; convert the file to the calendar standard."
                )


def check_coverage(series: Mapping[str, Any], end: float, dt: float = 0.0) -> None:
    """Raise DataError if the records of files in some {name: Series} do not cover a run from 0 to `end` [s].

    A run ends at the step nearest to its end, so that half a step `dt` [s] may be missing.
    """
    for name, each in series.items():
        if each.source is not None and each.source.cycle is None:
            with of_part(name):
                _check_covers(each.source, each.times, end, 0.5 * dt + 1e-6 * end)


def _check_covers(source, times, end, slack):
    which = f"{source.name}: the records of {source.variable} in {source.file}"
    if len(times) == 1:
        if source.calendar is not None and not -slack <= times[0] <= end + slack:
            side = f"{_span(-times[0])} before" if times[0] < 0 else f"{_span(times[0] - end)} after"
            raise DataError(
                f"{which} are a single one, {side} the run; give records of the time of the run, or a variable without "
                "times if it is steady."
            )
        return
    if times[0] > 0:
        raise DataError(f"{which} begin {_span(times[0])} after the run; start the run later, or give earlier records.")
    if times[-1] < end - slack:
        raise DataError(
            f"{which} end {_span(end - times[-1])} before the run does; shorten the run, or give later records."
        )


def _span(seconds):
    return f"{seconds / 3600.0:.4g} h" if seconds < 2 * 86400.0 else f"{seconds / 86400.0:.4g} days"
