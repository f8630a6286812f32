"""Tides from experiment files."""

import re
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ...dynamics.boundaries import OpenBoundary
from ...errors import ConfigError, DataError
from ...fields.parts import numbers_of, positions_of
from ...forcing.atmosphere import STANDARD_PRESSURE, InverseBarometer
from ...forcing.file_records import FileRecords, StressRecords, is_gridded
from ...forcing.harmonic_files import atlas_constants, harmonic_constants
from ...forcing.records import FunctionOfTime, RecordsInTime
from ...forcing.tides import Tide
from ...forcing.waves import CnoidalWave, Record, SolitaryWave
from ...grids import axes
from ...grids.axes import check_units
from ...grids.grid import Grid
from ...grids.observed_tables import seconds_in
from ...grids.regrid import calendar_of, seconds_since
from ...observed.altimetry import READABLE as ALTIMETERS
from ...runtime.formats import check_format, is_number, read_csv
from ..series import WAVES, BarometerSection, ConstituentFile, FormulaSection, RecordFile, TideSection
from ..toml import nearest
from .fields import is_evaluated_whole, on_grid

if TYPE_CHECKING:
    from .experiment import Assembly


def tide_of(section: Any, grid: Grid, name: str, run: Any, owner: Any) -> Tide:
    """The Tide of a table that stands for the parameter `name` of the section `owner`; formulas become arrays."""
    rule = numbers_of(owner.part)[name]
    constituents: dict[str, Any] = {}
    position = rule.position or "h"
    sides, velocity = None, None
    if issubclass(owner.part, OpenBoundary):
        sides, velocity = owner.sides, owner.part.velocity_counts if name == "velocity" else None
    options: Any = {"sides": sides, "units": rule.units, "position": position, "velocity": velocity}
    if section.atlas is not None:
        whole = is_evaluated_whole(grid)
        of_atlas = atlas_constants(section.atlas, grid, names=section.names, depths=section.depths, **options)
        constituents = {key: tuple(np.asarray(x) if whole else x for x in pair) for key, pair in of_atlas.items()}
    for key, pair in section.constituents.items():
        if isinstance(pair, ConstituentFile):
            of_file = harmonic_constants(pair.file, {key: pair.variables}, grid, stated=pair.units, **options)
            constituents[key] = tuple(np.asarray(x) if is_evaluated_whole(grid) else x for x in of_file[key])
        else:
            constituents[key] = tuple(
                _values(getattr(pair, part), grid, position, f"{name}: {part} of {key}", owner)
                for part in ("amplitude", "phase")
            )
    level = None if section.level is None else on_grid(section.level, grid, position, f"{name}: level")
    anomaly = section.anomaly and (records_of(section.anomaly, run) or wave_of(section.anomaly, 1.0, run.start))
    tide = Tide(constituents, run.start, section.ramp, section.latitude, level, anomaly)
    tide.check_limits(rule, name)
    return tide


def _values(value, grid, position, name, owner):
    """A number or a formula on the grid; numbers along sides as an array (ny, 1) or (1, nx)."""
    if not isinstance(value, tuple):
        return on_grid(value, grid, position, name)
    sides: list[str] = list(getattr(owner, "sides", []))
    along_y = {side in ("west", "east") for side in sides}
    if len(along_y) != 1:
        raise ConfigError(f"{name} is a list, which lies along open sides, all in x or all in y; give a formula")
    cells = grid.ny if along_y == {True} else grid.nx
    if len(value) != cells:
        raise ConfigError(f"{name} has {len(value)} values, and the {sides[0]} side has {cells} cells; give as many")
    return np.reshape(value, (-1, 1) if along_y == {True} else (1, -1))


def check_tides(section: Any, made: "Assembly") -> None:
    """Raise DataError for files of tides of a [[boundary]] section that cannot be read or do not cover its sides."""
    for name in positions_of(section.part):
        value = getattr(section, name, None)
        if isinstance(value, TideSection) and made.section("run") is not None:
            tide_of(value, made.grid, name, made.section("run"), section)


NOT_SECONDS = ("ms", "min", "minutes", "h", "hr", "hour", "hours", "d", "day", "days")
NOT_SI = (
    *("mm", "cm", "km", "ft", "feet", "inch", "acre", "hpa", "mbar", "mb", "kn", "kt", "knots", "kmh", "mph"),
    *("cfs", "cusec", "cusecs", "gpm", "mgd", "mld", "ml", "gal", "lps"),
)
PARTS_OF_UNITS = (*NOT_SI, *NOT_SECONDS, "l", "m", "s", "sec", "second", "seconds", "pa", "kg", "n")


def series_of(section: Any, grid: Grid, name: str, run: Any, owner: Any, gravity: float) -> Any:
    """The tide, records or wave of a table that stands for the parameter `name` of the section `owner`.

    With `inverse_barometer` it is an InverseBarometer, to which the others are added.
    """
    series: Any = 0.0
    if isinstance(section, TideSection):
        series = tide_of(section, grid, name, run, owner)
    elif not isinstance(section, BarometerSection):
        series = records_of(section, run) or wave_of(section, gravity, run.start)
    if not section.inverse_barometer:
        return series
    return InverseBarometer(series, STANDARD_PRESSURE if section.reference is None else section.reference)


def wave_of(section: Any, gravity: float, start: Any = None) -> Record | SolitaryWave | CnoidalWave:
    """The record or wave that a table describes.

    Args:
        section: the table.
        gravity: [m s-2], which gives the wave its speed.
        start: date and time of step 0, from which dates count; without it they count from the first one.
    """
    if section.tag in WAVES:
        return section.made(gravity)
    if isinstance(section.file, tuple):
        raise DataError(f"{section.file[0]} and further files hold a series, which one file must hold; join them")
    return _from_csv(section, start) if _is_table(section.file) else _from_netcdf(section, start)


def _is_table(file):
    """Whether a file is a table in CSV, and not netCDF; raises DataError for other formats."""
    readable = "netcdf", "netcdf_groups", "owi", "text", *ALTIMETERS  # maps may have their variables, too
    return check_format(file, readable, "a CSV or netCDF file of a series") == "text"


def records_of(section: Any, run: Any) -> RecordsInTime | None:
    """The FunctionOfTime of a formula, or the FileRecords of fields in a netCDF file; None for all other tables."""
    if isinstance(section, FormulaSection):
        label = f"the formula {section.formula.text!r}"
        return FunctionOfTime(section.formula, run.until, section.every, label)
    if section.tag != "record":
        return None
    first = section.file[0] if isinstance(section.file, tuple) else section.file
    if _is_table(first) or not is_gridded(first, section.variable):
        return None
    patches = tuple(
        FileRecords(each.file or section.file, each.variable or section.variable, run.start, each.units)
        for each in section.patches
    )
    return FileRecords(section.file, section.variable, run.start, section.units, section.missing, patches)


def stress_of(section: Any, run: Any) -> dict[str, StressRecords]:
    """{"x", "y": StressRecords} of the wind of a file, and of its patches."""
    law = {"drag": section.drag, "air_density": section.air_density}

    def of(one, along, across, patches=()):
        first, second = (getattr(one, name) or getattr(section, name) for name in (along, across))
        file, missing = one.file or section.file, section.missing
        return StressRecords(file, first, run.start, one.units, missing, patches, other=second, **law)

    components = {"x": ("u", "v"), "y": ("v", "u")}
    return {
        x: of(section, *names, tuple(of(one, *names) for one in section.patches)) for x, names in components.items()
    }


def check_record(section: Any, made: "Assembly") -> None:
    """Check the records of a [[boundary]] or [[forcing]] section.

    Raises:
        DataError: if a file cannot be read, or lacks a series.
        ConfigError: if the records do not cover the run.
    """
    run, until = made.section("run"), getattr(section, "until", None)
    for name, value in section:
        value = getattr(value, "anomaly", None) if isinstance(value, TideSection) else value
        if not isinstance(value, (FormulaSection, RecordFile)) or run is None:
            continue
        fields = records_of(value, run)
        if fields is not None:
            fields.check(made.grid, name, numbers_of(section.part)[name], run.until)
            continue
        record: Any = wave_of(value, 1.0, run.start)
        file = cast(RecordFile, value).file  # a formula has fields
        rule = numbers_of(section.part)[name]
        _check_series_units(value, rule.units)
        record.check_limits(rule, f"{name} in {file}")
        end = run.until if until is None else min(run.until, until)
        first, last = record.times[0], record.times[-1]
        if first > 0:
            raise ConfigError(f"{name}: {file} begins at {first:g} s; let it begin at 0 or before")
        if last < end * (1 - 1e-6):
            more = ", or until, when the side becomes open" if hasattr(section, "until") else ""
            raise ConfigError(
                f"{name}: {file} ends at {last:g} s, and the run needs it until {end:g} s; give a longer "
                f"record, a shorter run{more}"
            )


def _check_series_units(section, units):
    """Raise DataError if the units of a series in a netCDF file are other ones than the parameter's."""
    if _is_table(section.file):
        return
    with axes.open_raw(section.file) as dataset:
        series, _ = _series_in(section, dataset)
        if found := str(series.attrs.get("units", "")):
            check_units(f"{series.name} in {section.file}", found, units)


def _from_csv(section, start):
    table = read_csv(section.file)
    names = tuple(name for name in table.names if name)
    if len(names) < 2 or any(map(is_number, names)):
        raise DataError(f"{section.file} lacks two columns with names; its first line must name them, as time_s,eta_m")
    time = _named(section.time, names, names[0], section.file)
    name = _series_of(section, names, [name for name in names if name != time])
    if (units := _units_in(time)) and units[-1] in NOT_SECONDS:
        raise DataError(f"{section.file}: the column {time} is in {units[-1]}; convert it to seconds, and rename it")
    units = _units_in(name)
    alone = len(units) == 1 and "(" not in name and "[" not in name  # wave_h may be a height
    if wrong := [x for x in units if x in NOT_SI or not alone and x in (*NOT_SECONDS, "l")]:
        raise DataError(f"{section.file}: the column {name} is in {wrong[0]}; convert it to SI units, and rename it")
    for column in (time, name):
        if "" in (cells := table.texts(column)):
            line = table.lines[cells.index("")]
            raise DataError(f"{section.file}, line {line}: {column} is empty; leave the line out, or fill it")
    return Record(seconds_in(table, time, start), table.numbers(name))


def _units_in(column):
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


def _series_of(section, names, series):
    """The series of a file with these `names` that a section names; without a name, the only one of `series`."""
    if section.variable is None and len(series) != 1:
        listed = f"{len(series)} series, {', '.join(series)}; name one with variable" if series else "no series"
        raise DataError(f"{section.file} has {listed}")
    return _named(section.variable, names, series[0] if series else "", section.file)


def _series_in(section, dataset):
    """(the series of a netCDF file that a section names, the name of its times)."""
    series = [str(name) for name, x in dataset.data_vars.items() if x.ndim == 1 and name != section.time]
    names = tuple(map(str, dataset.variables))
    values = dataset[_series_of(section, names, series)]
    single = [name for name, n in values.sizes.items() if n == 1]
    values = values.squeeze(single if len(single) < values.ndim else single[1:])
    return values, _named(section.time, names, str(values.dims[0]), section.file)


def _from_netcdf(section, start):
    with axes.decode(axes.open_raw(section.file)) as dataset:
        values, time = _series_in(section, dataset)
        if time not in dataset.variables:
            raise DataError(f"{section.file} has no times along {time}; add them, in seconds")
        times = dataset[time]
        if (calendar := calendar_of(times)) not in (None, "standard"):
            raise DataError(
                f"the dates of {section.file} are in the calendar {calendar}; convert them to the standard one"
            )
        seconds = seconds_since(times, start) if times.attrs.get("units") else times.values
        return Record(np.asarray(seconds, float), np.asarray(values.values, float))
