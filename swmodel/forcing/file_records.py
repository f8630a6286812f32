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
from ..fields.parameters import Choice, FileName, Moment, Text, check_arguments
from ..grids.axes import check_units, decode, is_dataset, open_raw
from ..grids.grid import Grid
from ..grids.regrid import Records, field_records
from ..grids.windows import LazyRecords
from ..grids.winds import fields_in
from ..runtime.netcdf import LOCK
from .records import RecordsInTime
from .wind_laws import wind_stress

__all__ = ["FileRecords", "StressRecords", "is_gridded"]


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
    remedy = 'fill the file, or give missing = "nearest"'

    def __post_init__(self) -> None:
        check_arguments("FileRecords", _RULES, vars(self))

    @property
    def words(self) -> str:
        names = self.file if isinstance(self.file, (tuple, list)) else (self.file,)
        more = "" if len(names) == 1 else f" to {names[-1]} ({len(names)} files)"
        return f"{self.variable} in {names[0]}{more}"

    def records(self, grid: Grid, position: str, units: str | None = None) -> Records:
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

    def _check_units(self, found, units):
        found, who = found or self.units or "", f"{self.variable} in {self.file}"
        if not found:
            raise DataError(
                f"{who} has no units; state them by `units`, or write them to the file: {units!r} is needed."
            )
        check_units(who, found, units)


class _Part:
    """What stays in memory of the Records of one file among several."""

    def __init__(self, file: Any, found: Records):
        values = cast(LazyRecords, found.values)
        self.file, self.times, self.calendar, self.key = file, found.times, found.calendar, values.key


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

    def records(self, grid: Grid, position: str, units: str | None = None) -> Records:
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
