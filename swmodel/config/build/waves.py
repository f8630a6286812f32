"""Records and waves from experiment files."""

import warnings
from typing import Any

import numpy as np

from ...errors import DataError
from ...fields.parts import numbers_of
from ...forcing.file_records import FileRecords, is_gridded
from ...forcing.waves import CnoidalWave, Record, SolitaryWave
from ...grids import axes
from ..mistakes import nearest

__all__ = ["check_record", "fields_of_file", "wave_of"]

TABLES = (".csv", ".txt", ".dat")
SECONDS = ("s", "sec", "second", "seconds")


def wave_of(section: Any, gravity: float) -> Record | SolitaryWave | CnoidalWave:
    """What a table in the place of a parameter describes."""
    if section.tag == "solitary":
        return SolitaryWave(section.height, section.depth, section.peak, gravity)
    if section.tag == "cnoidal":
        return CnoidalWave(section.height, section.depth, section.period, section.ramp, gravity)
    return _from_csv(section) if section.file.suffix in TABLES else _from_netcdf(section)


def fields_of_file(section: Any, start: Any) -> FileRecords | None:
    """The FileRecords of a table that names fields of a netCDF file; None of every other one."""
    if section.tag != "record" or section.file.suffix in TABLES or not is_gridded(section.file, section.variable):
        return None
    return FileRecords(section.file, section.variable, start, section.units, section.missing)


def _check_fields(fields, made, section, name):
    """Raise DataError or ConfigError for fields that cannot be read, or that do not cover the run."""
    rule, run = numbers_of(section.part)[name], made.section("run")
    fields.check(made.grid, name, rule, 0.0 if run is None else run.until)


def check_record(made: Any, section: Any) -> None:
    """Raise DataError or ConfigError for records of a [[boundary]] or [[forcing]] section that cannot be used."""
    from ...errors import ConfigError
    from ..waves import RecordFile

    run, until = made.section("run"), getattr(section, "until", None)
    for name, value in section:
        if not isinstance(value, RecordFile):
            continue
        fields = fields_of_file(value, None if run is None else run.start)
        if fields is not None:
            _check_fields(fields, made, section, name)
            continue
        record: Any = wave_of(value, 1.0)
        end = None if run is None else run.until if until is None else min(run.until, until)
        first, last = record.times[0], record.times[-1]
        if first > 0:
            raise ConfigError(f"{name}: {value.file} begins at {first:g} s; let it begin at 0 or before")
        if end is not None and last < end * (1 - 1e-6):
            more = ", or until, when the side becomes open" if hasattr(section, "until") else ""
            raise ConfigError(
                f"{name}: {value.file} ends at {last:g} s, and the run needs it until {end:g} s; give a longer "
                f"record, a shorter run{more}"
            )


def _from_csv(section):
    try:
        with warnings.catch_warnings(action="ignore"):  # of an empty file
            table = np.genfromtxt(
                section.file, delimiter=",", names=True, dtype=float, encoding="utf-8", deletechars=""
            )
    except (ValueError, IndexError, OSError) as error:
        raise DataError(f"{section.file} is no table of numbers with commas and a line of names") from error
    names = table.dtype.names or ()
    if len(names) < 2:
        raise DataError(f"{section.file} has no two columns with names; its first line must name them, as time_s,eta_m")
    time = _named(section.time, names, names[0], section.file)
    others = [name for name in names if name != time]
    if section.variable is None and len(others) > 1:
        raise DataError(f"{section.file} has several columns, {', '.join(others)}; say which with variable")
    return Record(
        np.atleast_1d(table[time]), np.atleast_1d(table[_named(section.variable, names, others[0], section.file)])
    )


def _named(name, names, otherwise, file):
    if name is None:
        return otherwise
    if name not in names:
        raise DataError(f"{file} has no {name!r}; {nearest(name, names)}")
    return name


def _from_netcdf(section):
    with axes.decode(axes.open_raw(section.file)) as dataset:
        series = [str(name) for name, x in dataset.data_vars.items() if x.ndim == 1 and name != section.time]
        if section.variable is None and len(series) != 1:
            raise DataError(f"{section.file} has {len(series)} series, {', '.join(series)}; say which with variable")
        name = _named(section.variable, tuple(map(str, dataset.variables)), series[0] if series else "", section.file)
        values = dataset[name].squeeze()
        time = _named(section.time, tuple(map(str, dataset.variables)), str(values.dims[0]), section.file)
        if time not in dataset.variables:
            raise DataError(f"{section.file} has no times along {time}; add them, in seconds")
        units = str(dataset[time].attrs.get("units", "s")).partition(" since ")[0].strip().lower()
        if units not in SECONDS:
            raise DataError(f"the times of {section.file} are in {units}; convert them to seconds")
        return Record(np.asarray(dataset[time].values, float), np.asarray(values.values, float))
