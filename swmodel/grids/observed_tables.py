"""Tables of observations in CSV and netCDF files, and the files of gauges in a folder.

Scores, misfits and inversions read their observations here, so that all of them take the same ones. Nothing in this
module needs JAX.
"""

import contextlib
import datetime
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from ..fields.parameters import in_utc
from ..runtime.formats import Table, check_format, is_date, read_csv
from ..units import check_units
from .regrid import calendar_called, seconds_of_dates

TIME, ELEVATION = "time_s", "elevation_m"
DATES = "time"  # the name of a column or variable of dates, which may stand in place of TIME
UNITS = {"_m3_s": "m3 s-1", "_m_s": "m s-1", "_deg": "degree", "_s": "s", "_m": "m"}  # by the ends of columns' names
AXES = {True: ("longitude", "latitude"), False: ("x", "y")}  # on the sphere, and in a plane
PLACES = {"longitude": "degree", "latitude": "degree", "x": "m", "y": "m"}
LARGEST = {ELEVATION: 900.0, "u_m_s": 50.0, "v_m_s": 50.0}  # beyond them are 999, -9999 and other signs of a gap
ENDS = ".csv", ".nc", ".txt", ".json", ".dart", ".tab", ".tsv", ".dat", ".asc"  # of the names of records
LEAST_DIGITS = 3  # of the number of a station
NINES = 90.0  # beyond it 99.99 and other numbers of nines alone are signs of a gap
APART = 1.0, 20.0  # [m] from all other levels, where 9.99 and such, and a number that repeats, are signs of a gap, too


def gauge_files(
    folder: str | Path, names: Iterable[str], others: Iterable[str] = (), taken: Iterable[Path] = ()
) -> dict[str, Path]:
    """{gauge: file} of the gauges `names` that have a record in `folder`, NAME.csv, NAME.nc and so on (ENDS).

    NAME is the name of the gauge or, where no file has this, a word of it, or any name with a number of three or more
    digits that is a word of the gauge's, as of a station. A record is that of one gauge.

    Args:
        folder: the folder.
        names: of the gauges.
        others: further gauges, to which files may belong.
        taken: files that belong to further gauges; without any, one of `names` must have a file.

    Raises:
        DataError: if no gauge has a file, a file could be that of several gauges, or a gauge has several files.
    """
    names, files, taken = list(names), {}, set(taken)
    every = set(Path(folder).glob("*")) - taken if Path(folder).is_dir() else set()
    for path in sorted(path for path in every if path.suffix.lower() in ENDS):
        if (other := files.setdefault(path.stem.lower(), path)) is not path:
            raise DataError(f"{folder} has both {other.name} and {path.name}; leave one of them out.")
    records: dict[str, Path] = {}
    for stem, path in files.items():
        owners = _owners(stem, dict.fromkeys([*names, *others]), files)
        if len(owners) > 1:
            raise DataError(
                f"{path} could be the record of {' and of '.join(owners)}; give it the whole name of its gauge."
            )
        for name in owners:
            if (other := records.setdefault(name, path)) is not path:
                raise DataError(f"{name} could have its record in {other} or in {path.name}; leave one of them out.")
    records = {name: records[name] for name in names if name in records}
    if not records and not taken:
        raise DataError(
            f"no file NAME.csv or NAME.nc in {folder} is named after one of the gauges {', '.join(names)}; name each "
            "file after its gauge, or in records.toml."
        )
    return records


def _owners(stem, names, files):
    """The gauges of that name; if there are none, those without a file of their name that have it as a word."""
    words = {name: name.lower().replace("_", " ").replace("-", " ").split() for name in names}
    same = [name for name in names if name.lower() == stem]
    numbers = {run for run in re.findall(r"\d+", stem) if len(run) >= LEAST_DIGITS}
    free = [name for name in names if name.lower() not in files]
    return same or [name for name in free if stem in words[name] or numbers & set(words[name])]


def read_series(path: str | Path, names: Sequence[str], start: datetime.datetime | None = None) -> list[np.ndarray]:
    """[time, values of each column] of a file, (n,) each, in the order of time; see `read_columns`."""
    columns = read_columns(path, (TIME, *names), start)
    order = np.argsort(columns[TIME], kind="stable")
    return [columns[name][order] for name in (TIME, *names)]


def read_columns(path: str | Path, names: Sequence[str], start: datetime.datetime | None = None) -> dict[str, Any]:
    """{name: (n,)} of the columns of a table with times, see `read_table`.

    Rows without a time are left out. An observation that the table has twice counts once, with a remark.

    Args:
        start: date and time of step 0 of the run, from which dates count.

    Raises:
        DataError: as `read_table` and `checked` do.
    """
    return checked(path, read_table(path, names, start=start))


def checked(path: str | Path, columns: dict[str, np.ndarray]) -> dict[str, Any]:
    """Columns of observations with one row for each time and place, without rows that have no time.

    Raises:
        DataError: for a table without times, for elevations and velocities that no sea has, and for two different
            observations at one time and place.
    """
    timed = np.isfinite(columns[TIME])
    if not timed.any():
        raise DataError(f"{path} holds no times in its column {TIME}; give one for each observation.")
    columns = {name: values[timed] for name, values in columns.items()}
    for name in LARGEST.keys() & columns.keys():
        size = np.abs(columns[name])
        if (wrong := stand_for_gaps(size, LARGEST[name]) | gap_codes(columns[name])).any():
            k = int(np.argmax(wrong))
            why = f"beyond {LARGEST[name]:g}" if size[k] > LARGEST[name] else "which stands for a gap"
            raise DataError(
                f"{path}: {name} is {columns[name][k]:g} at {columns[TIME][k]:g} s, {why}; leave gaps empty, and check "
                "the unit."
            )
    return _without_repeats(path, columns)


def check_kind(what: object, spherical: bool, wanted: bool, owner: str = "grid") -> None:
    """Raise DataError if the places of `what` are on the sphere and those of the owner in a plane, or the reverse."""
    if spherical != wanted:
        have, need = (" and ".join(AXES[kind]) for kind in (spherical, wanted))
        raise DataError(f"{what} has {have}, and the {owner} has {need}; give these.")


def kind_of_places(path: str | Path, spherical: bool | None, owner: str = "grid") -> bool | None:
    """Whether the places of a table are longitudes and latitudes, not x and y; None for a table without places.

    Args:
        spherical: whether those of the owner are, which decides where a table has both; None where it is not known.

    Raises:
        DataError: for a table with the other places, or with both where it is not known which count.
    """
    head = table_names(path)
    kinds = [kind for kind, axes in AXES.items() if axes[0] in head]
    if spherical in kinds:
        return spherical
    if len(kinds) > 1:
        raise DataError(f"{path} has both longitude and x; leave the pair out that is not the {owner}'s.")
    if kinds and spherical is not None:
        check_kind(path, kinds[0], spherical, owner)
    return kinds[0] if kinds else None


def stand_for_gaps(size: np.ndarray, largest: float) -> np.ndarray:
    """Which absolute values are beyond the largest one, or numbers of nines alone; NaN is neither."""
    return (size > largest) | _of_nines(size, NINES)


def gap_codes(value: np.ndarray, scale: float = 1.0) -> np.ndarray:
    """Which values of a record, (n,) in units of `scale` metres, are codes of gaps, since no water goes there and back.

    They are numbers of three nines or more, as 9.999, and one that less than half of the record repeats, as -777, which
    are apart from all others by more than APART.
    """
    finite = np.isfinite(value)
    numbers, group, counts = np.unique(value[finite], return_inverse=True, return_counts=True)
    codes = _of_nines(np.abs(numbers), 9.98)
    water = scale * numbers[~codes]
    near, far = APART
    codes[codes] = [np.abs(water - scale * x).min(initial=np.inf) > near for x in numbers[codes]]
    steps = np.diff(scale * numbers, prepend=-np.inf, append=np.inf)
    codes |= (np.minimum(steps[:-1], steps[1:]) > far) & (counts > 1) & (2 * counts < finite.sum())
    found = np.zeros(value.shape, bool)
    found[finite] = codes[group]
    return found


def _of_nines(size, least):
    """Which positive numbers above the least one are nines alone."""
    return np.array([value > least and set(f"{value:g}") <= {"9", "."} for value in size], bool)


def _without_repeats(path, columns):
    """The columns with one row for each time and place; a gap gives way to a value."""
    keys = np.column_stack([values for name, values in columns.items() if name == TIME or name in PLACES])
    _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    repeats, group = len(keys) - first.size, group.ravel()
    if not repeats:
        return columns
    rows = np.sort(first)
    merged = {}
    for name, values in columns.items():
        known, value = np.isfinite(values), np.full(first.size, np.nan)
        value[group[known]] = values[known]
        if (wrong := known & (value[group] != values)).any():
            k = int(np.argmax(wrong))
            raise DataError(
                f"{path}: {name} is both {values[k]:g} and {value[group[k]]:g} at {columns[TIME][k]:g} s; leave one of "
                "them out."
            )
        merged[name] = value[group[rows]]
    logging.getLogger("swmodel").warning("%s repeats %d of its observations; each counts once", path, repeats)
    return merged


def table_names(path: str | Path) -> list[str]:
    """The columns of a CSV file, or the variables of a netCDF file.

    Raises:
        DataError: if there is no such file, or it cannot be read.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"there is no file {path}; give a CSV or netCDF file with the observations.")
    if not _is_netcdf(path):
        return list(read_csv(path).names)
    with _netcdf(path) as data:
        return list(data.variables)


def _is_netcdf(path):
    """Whether a file is netCDF, and not CSV; raises DataError for other formats."""
    readable = ("netcdf",) if Path(path).suffix == ".nc" else ("netcdf", "text")
    return check_format(path, readable, "a CSV or netCDF file of observations") == "netcdf"


def read_table(
    path: str | Path, names: Sequence[str], texts: Sequence[str] = (), start: datetime.datetime | None = None
) -> dict[str, Any]:
    """{name: (n,) array} of the columns of a CSV file with a header, or of the variables of a netCDF file (.nc).

    Empty fields and missing values are NaN. Times, "time_s", may be dates, in a column or variable "time_s" or "time":
    ISO 8601 in CSV, numbers with CF units such as "hours since 2024-03-01 00:00 +09:00" in netCDF.

    Args:
        texts: columns that hold text; these are lists.
        start: date and time of step 0 of the run, from which dates count.

    Raises:
        DataError: if the file lacks one of these columns, cannot be read, has text in place of a number, variables of
            different lengths, or dates where the run has none.
    """
    head = table_names(path)
    missing = [name for name in (*texts, *names) if name not in head and not (name == TIME and DATES in head)]
    if missing:
        where, what = ("", "variable") if _is_netcdf(path) else (" in its first line", "column")
        what = f"{what}{'s' * (len(missing) > 1)} {' and '.join(missing)}"
        raise DataError(f"{path} lacks the {what}{where}; add {'them' if len(missing) > 1 else 'it'}.")
    stored = {name: DATES if name not in head else name for name in names}
    if _is_netcdf(path):
        return _of_netcdf(path, stored, texts, start)
    table = read_csv(path)
    columns: dict[str, Any] = {name: table.texts(name) for name in texts}
    for name, column in stored.items():
        first = next(filter(None, table.texts(column)), "")
        if name == TIME and is_date(first):
            columns[name] = seconds_in(table, column, _dated(path, start))
        elif column == DATES:
            line = table.lines[0] if table.lines else 1
            raise DataError(
                f"{path}, line {line}: {first!r} in time is no date; give dates, or name the column {TIME}."
            )
        else:
            columns[name] = table.numbers(column)
    return columns


def seconds_in(table: Table, name: str, start: datetime.datetime | None) -> np.ndarray:
    """The times of a column [s]: numbers as they are, and dates since `start`, or since the first without one.

    Empty cells are NaN.

    Raises:
        DataError: for a cell that is no date if the first one is.
    """
    cells = table.texts(name)
    if not is_date(next(filter(None, cells), "")):
        return table.numbers(name)
    if other := [k for k, cell in enumerate(cells) if cell and not is_date(cell)]:
        line = table.lines[other[0]]
        raise DataError(
            f"{table.path}, line {line}: {cells[other[0]]!r} in {name} is not a date, as others are; write it so"
        )
    moments = [in_utc(datetime.datetime.fromisoformat(cell)) if cell else None for cell in cells]
    origin = next(moment for moment in moments if moment) if start is None else in_utc(start)
    return np.array([(moment - origin).total_seconds() if moment else np.nan for moment in moments])


def _dated(path, start):
    """`start`; raises DataError if there is none."""
    if start is None:
        raise DataError(f"{path} has dates, and the run has none; give run.start, or times in seconds since its start.")
    return in_utc(start)


@contextlib.contextmanager
def _netcdf(path) -> Iterator[Any]:
    """The opened file; raises DataError if it is not a netCDF file."""
    import netCDF4

    try:
        with netCDF4.Dataset(path) as data:
            yield data
    except OSError as error:
        raise DataError(f"{path} is not a netCDF file that can be read ({error}); write it again.") from error


def _of_netcdf(path, stored, texts, start):
    """The variables of a netCDF file, which must have one dimension; `stored` is {name: name of its variable}."""
    columns: dict[str, Any] = {}
    with _netcdf(path) as data:
        for name, variable in stored.items():
            entry = data[variable]
            if np.dtype(entry.dtype).kind not in "iuf":
                raise DataError(f"{path}: {variable} is text, and no numbers; dates are numbers with CF units there.")
            columns[name] = np.ma.filled(np.ma.asarray(entry[:], float), np.nan)
            units = str(getattr(entry, "units", ""))
            if variable == DATES and " since " not in units:
                raise DataError(f"{path}: time has units {units!r} and no dates; name it {TIME} if these are seconds.")
            if name == TIME and " since " in units:
                calendar = calendar_called(str(getattr(entry, "calendar", "standard")))
                if calendar != "standard":
                    raise DataError(
                        f"the dates of {path} are in the calendar {calendar}; convert them to the standard one."
                    )
                dates = columns[name].astype(np.float32 if entry.dtype == np.float32 else float)  # as in the file
                columns[name] = seconds_of_dates(dates, units, calendar, _dated(path, start), f"{variable} in {path}")
            else:
                ends = (unit for end, unit in UNITS.items() if name.endswith(end))
                needed = PLACES.get(name) or next(ends, None)
                if needed is not None and units.strip() not in ("", "1"):
                    check_units(f"{name} in {path}", units, needed)
        columns |= {name: [str(text).strip() for text in data[name][:]] for name in texts}
    shapes = {np.shape(values) for values in columns.values()}
    if len(shapes) != 1 or len(next(iter(shapes))) != 1:
        raise DataError(
            f"{path} has variables of the shapes {', '.join(map(str, sorted(shapes)))}; give them one dimension, the "
            "same for all, with texts as netCDF strings."
        )
    return columns
