"""Parameters that change in time and space by records, from files (file_records.py) or functions of (x, y, t).

A rank evaluates the part of a record on its own tiles, and only the two records around the current time; a thread
evaluates the next one ahead. Between records the value is linear in time (dynamics/terms.py). So the memory of a rank
does not depend on the number of records, except for 8 bytes a record for its time.

Before the run, and at each record, these mistakes raise DataError: pressure in hPa, values beyond the limits of the
parameter, records that do not cover the run, missing values in the sea, and files of different calendars in one model.
"""

import abc
import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from ..dynamics.domain import Domain
from ..dynamics.terms import Series
from ..errors import ConfigError, DataError
from ..fields.parameters import Number, Part, check_arguments
from ..fields.parts import of_part
from ..grids.grid import Grid
from ..grids.regrid import Records
from ..grids.windows import GridValues, LazyRecords, TileRecords, blocks_of, grid_values
from ..runtime.signals import LOCK
from .atmosphere import look_like_hectopascals

_OF_FUNCTIONS = {
    "function": Part(("__call__",), "a function of (x, y, t)"),
    "until": Number(units="s", above=0.0),
    "every": Number(units="s", above=0.0),
}


class RecordsInTime(abc.ABC):
    """The value of a parameter by records of fields, of which each is evaluated when a run comes to it.

    Attributes:
        remedy: what helps where values are missing, for the message.
    """

    remedy: ClassVar[str]

    @property
    @abc.abstractmethod
    def words(self) -> str:
        """What has the records, for messages: "msl in era5.nc"."""

    @abc.abstractmethod
    def records(self, grid: Grid, position: str, units: str | None = None) -> Records:
        """The Records at the points of a grid, of which only axes and times are read at first.

        Args:
            grid: the Grid.
            position: "h", "u" or "v".
            units: those of the parameter; None allows any.

        Raises:
            DataError: for a file that cannot be used, or is in other units.
        """

    def check(self, grid: Grid, name: str, rule: Number, end: float) -> None:
        """Raise DataError for records that cannot be used, or do not cover a run until `end` [s].

        Args:
            grid: the Grid.
            name: of the parameter.
            rule: the Number that declares it.
            end: [s].
        """
        records = self.records(grid, rule.position or "h", rule.units)
        series = Series(records.times, records.times, records.cycle, None, self._source(records, name, rule))
        check_coverage({"": series}, end)

    def _source(self, records, name, rule):
        return _Source(name, self.words, self.remedy, records.calendar, records.cycle, rule, records.origin)

    def series_on(self, position: str, domain: Domain, name: str, rule: Number | None = None) -> Series:
        """The Series of tile records.

        Args:
            position: "h", "u" or "v", of the parameter.
            domain: the model's Domain.
            name: of the parameter, for messages.
            rule: the Number that declares it, or None.
        """
        records = self.records(domain.grid, position, None if rule is None else rule.units)
        values: Any = records.values
        source = self._source(records, name, rule)
        parts: Any = {}
        for rank in domain.communicator.ranks:
            wet = domain.part(domain.sea_floor.mask(position), rank, bool)
            parts[rank] = TileRecords(values, functools.partial(source.cut, domain, rank, wet))
        return Series(records.times, parts, records.cycle, domain.communicator.place, source)


@dataclasses.dataclass(frozen=True)
class _Source:
    """The origin of a Series, with the checks of its records when they are read.

    Attributes:
        name: of the parameter.
        what: has the records, in words.
        remedy: for missing values.
        calendar: of their dates, None without dates.
        cycle: [s], None of records that do not repeat.
        rule: the Number that declares the parameter, or None.
        origin: the date of the first record, where times count from it.
    """

    name: str
    what: str
    remedy: str
    calendar: str | None
    cycle: float | None
    rule: Any
    origin: str | None = None

    def cut(self, domain: Domain, rank: int, wet: np.ndarray, record: GridValues) -> np.ndarray:
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
        self.check_limits(part[wet])
        return part

    def check_limits(self, here: np.ndarray) -> None:
        """Raise DataError for values beyond the parameter's limits, and for pressures that look like hPa."""
        if self.rule is None or not here.size:
            return
        least, most = here.min(), here.max()
        for extreme in (least, most):
            if why := self.rule.outside(extreme):
                raise DataError(
                    f"{self.name}: {self.what} has a value of {extreme:g} {self.rule.units}, which {why}; check it and "
                    "its units."
                )
        if self.rule.units == "Pa" and look_like_hectopascals(here):
            raise DataError(
                f"{self.name}: {self.what} has values of {least:g} to {most:g}, which look like hPa; give Pa, a "
                "hundred times as much."
            )

    def _missing(self, domain, rank, where):
        tile = domain.communicator.decomposition(domain.grid.shape).box(rank)
        j, i = (int(k[0]) for k in np.nonzero(where))
        x, y = domain.grid.coordinates("h")
        place = f"({np.ravel(x)[tile.i0 + i]:.6g}, {np.ravel(y)[tile.j0 + j]:.6g})"
        return (
            f"{self.name}: {self.what} has no value at {np.count_nonzero(where):,} points of the sea, the first of "
            f"them near {place}; {self.remedy}."
        )


@dataclasses.dataclass(frozen=True)
class FunctionOfTime(RecordsInTime):
    """A function of (x, y, t) as the value of a parameter, evaluated at t = 0, `every`, ... [s] and linear in between.

        moving = lambda x, y, t: 101325.0 + 200.0 * numpy.exp(-(((x - 30.0 * t) / 50e3) ** 2))
        sw.AirPressure(sw.FunctionOfTime(moving, until=6 * sw.units.hour))

    Args:
        function: of the grid's coordinates, arrays that broadcast, and of the time since step 0 [s].
        until: the end of the run [s].
        every: between two evaluations [s], much shorter than the time in which the values change.
        label: what messages call the function.

    Raises:
        ConfigError: for arguments of the wrong kind.
    """

    function: Callable
    until: float
    every: float = 60.0
    label: str = "the function"

    remedy = "let it be finite there"

    def __post_init__(self) -> None:
        check_arguments("FunctionOfTime", _OF_FUNCTIONS, vars(self))

    @property
    def words(self) -> str:
        return self.label

    def records(self, grid: Grid, position: str, units: str | None = None) -> Records:
        times = self.every * np.arange(math.ceil(self.until / self.every) + 1)

        def make(k):
            def values(x, y):
                with LOCK:  # the function may read netCDF files while another thread writes some
                    return self.function(x, y, times[k])

            return grid_values(values, grid, position)

        return Records(times, LazyRecords(make, (times.size, *grid.shape), (self, position)), None, None)

    def check(self, grid: Grid, name: str, rule: Number, end: float) -> None:
        """As of the base class, and for values at the beginning, in the middle and at the end that are no values."""
        super().check(grid, name, rule, end)
        records = self.records(grid, rule.position or "h", rule.units)
        source = self._source(records, name, rule)
        for k in sorted({0, records.times.size // 2, records.times.size - 1}):
            for block in blocks_of(grid.shape):
                values = records.values[k].block(*block)
                if not np.isfinite(values).all():
                    raise DataError(
                        f"{name}: {self.label} is not finite on all of the grid at t = {records.times[k]:g} s."
                    )
                source.check_limits(values)


# -- what a model checks ----------------------------------------------------------------------------------------------


def check_calendars(series: Iterable[tuple[str, Series]], gregorian: str | None = None) -> None:
    """Raise ConfigError if the dates of the files of some Series are in different calendars.

    Args:
        series: (name, Series).
        gregorian: another part of the model whose dates are Gregorian, as those of tides are, in words; None if there
            is none.
    """
    calendars: dict[str, tuple[str, _Source]] = {}
    for name, source in ((name, each.source) for name, each in series):
        if source is not None and source.calendar is not None:
            calendars.setdefault(source.calendar, (name, source))
    if len(calendars) > 1:
        (_, one), (name, other) = list(calendars.values())[:2]
        with of_part(name):
            raise ConfigError(
                f"{one.name} and {other.name} are in different calendars, {one.calendar} ({one.what}) and "
                f"{other.calendar} ({other.what}), so that their dates drift apart; convert one of the files."
            )
    for name, source in calendars.values():
        if gregorian is not None and source.calendar != "standard":
            with of_part(name):
                raise ConfigError(
                    f"{source.name} is in the calendar {source.calendar} ({source.what}), and {gregorian} has dates of "
                    "the Gregorian one, so that their dates drift apart; convert the file to the calendar standard."
                )


def calendar_of(series: Iterable[Series]) -> str:
    """The calendar of the dates of the files of some Series, "standard" where these have none."""
    return next((x.source.calendar for x in series if x.source is not None and x.source.calendar), "standard")


def check_coverage(series: Mapping[str, Series], end: float, dt: float = 0.0) -> None:
    """Raise DataError if the records of files in some {name: Series} do not cover a run from 0 to `end` [s].

    A run ends at the step nearest to its end, so that half a step `dt` [s] may be missing.
    """
    for name, each in series.items():
        if each.source is not None and each.source.cycle is None:
            with of_part(name):
                _check_covers(each.source, each.times, end, 0.5 * dt + 1e-6 * end)


def _check_covers(source, times, end, slack):
    which = f"{source.name}: the records of {source.what}"
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
