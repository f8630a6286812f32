"""Observed records: time series at places, read from the same files as in post-processing, and their steps."""

import contextlib
import csv
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np

from ...errors import ConfigError, DataError
from ...fields.parameters import refuse
from ...forcing.file_records import check_units

__all__ = [
    "ELEVATION",
    "TIME",
    "Record",
    "header",
    "read_columns",
    "read_table",
    "records_in",
    "observation_tables",
    "table_names",
]

TIME, ELEVATION = "time_s", "elevation_m"
UNITS = {"_m3_s": "m3 s-1", "_m_s": "m s-1", "_deg": "degree", "_s": "s", "_m": "m"}  # by the ends of columns' names
PLACES = {"longitude": "degree", "latitude": "degree", "x": "m", "y": "m"}
LARGEST = {ELEVATION: 900.0, "u_m_s": 50.0, "v_m_s": 50.0}  # beyond them are 999, -9999 and other signs of a gap


@dataclasses.dataclass(frozen=True, eq=False)
class Record:
    """The observations of one quantity at a place, of the elevation unless `units` are others.

    Attributes:
        place: (x, y) in the grid's coordinates.
        time: time since the start of the run [s], (n,).
        value: eta [m], or another quantity in `units`, (n,); NaN is a gap.
        deviation: standard deviation of an observation's error, in `units`: a number, or (n,).
        window: (first, last) [s]; observations outside do not count. None: all observations count.
        observations_per_datum: the number of observations with correlated errors that weigh as much as one independent
            observation. `deviation` is inflated accordingly: it is `error` times the square root of this number.
        units: the units of the quantity.
    """

    place: tuple
    time: np.ndarray
    value: np.ndarray
    deviation: float | np.ndarray = 1.0
    window: tuple | None = None
    observations_per_datum: float = 1.0
    units: str = "m"

    @property
    def error(self) -> np.ndarray:
        """Standard deviation of the error of each observation that counts, in `units`, (m,)."""
        return self.counted()[2] / np.sqrt(self.observations_per_datum)

    @property
    def independent(self) -> float:
        """The number of independent observations that weigh as much as those that count."""
        return self.counted()[0].size / self.observations_per_datum

    def modelled(self, times: np.ndarray, readings: np.ndarray) -> np.ndarray:
        """The model at the observations that count (m,), linear between its readings (steps,) at `times` [s].

        Rows of `readings` after those of `times` are padding.
        """
        return np.interp(self.counted()[0], times, readings[: len(times)])

    def counted(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(time, value, deviation) of the observations that count, (m,) each."""
        time, value = np.asarray(self.time, float), np.asarray(self.value, float)
        deviation = np.broadcast_to(np.asarray(self.deviation, float), time.shape)
        first, last = (-np.inf, np.inf) if self.window is None else self.window
        used = np.isfinite(value) & (time >= first) & (time <= last)
        return time[used], value[used], deviation[used]


@dataclasses.dataclass(frozen=True)
class Records:
    """The rule of a parameter that is {name: Record}."""

    def check(self, who: str, name: str, value: Any) -> None:
        if not isinstance(value, Mapping) or not all(isinstance(each, Record) for each in value.values()):
            refuse(who, name, value, "is not a dict of records", "one, as {'Lisbon': Record((x, y), time, eta)}")


def observation_tables(records: dict[str, Record], dt: float, first_step: int, steps: int) -> np.ndarray:
    """(share, observed, per_deviation), (steps, M, records) each: the tables of observations that Squares takes.

    Args:
        records: {name: Record}.

    Raises:
        ConfigError: if records have no observation, or observations outside the run; the message names all of them.
    """
    found, mistakes = [], []
    for name, record in records.items():
        time, value, deviation = record.counted()
        mistakes += _mistakes_of(name, record, time, deviation, dt, first_step, steps)
        place = np.clip(time / dt - first_step - 1, 0.0, steps - 1)
        row = np.ceil(place - 1e-9).astype(int)  # the step at the end of the interval in which the observation lies
        share = np.where(row > 0, 1.0 - (row - place), 1.0)
        found.append((row, share, value, deviation))
    if mistakes or not found:
        raise ConfigError(mistakes or "Misfit: there are no records; give one or several, {name: Record}.")
    depth = max(np.bincount(row).max() for row, *_ in found)
    tables = np.zeros((3, steps, depth, len(found)))
    for k, (row, share, value, deviation) in enumerate(found):
        order = np.argsort(row, kind="stable")
        row = row[order]
        slot = np.arange(row.size) - np.searchsorted(row, row)
        tables[:, row, slot, k] = share[order], value[order], 1.0 / deviation[order]
    return tables


def _mistakes_of(name, record, time, deviation, dt, first_step, steps):
    first, last, slack = dt * (first_step + 1), dt * (first_step + steps), 1e-6 * dt
    if not time.size:
        when = "" if record.window is None else f" from {record.window[0]:g} to {record.window[1]:g} s"
        yield f"Misfit: the record of {name} has no observation{when}; widen its window, or leave it out."
        return
    if not (deviation > 0).all():
        yield (
            f"Misfit: the record of {name} has a standard deviation of {deviation.min():g} {record.units}; give a "
            "positive one."
        )
    if time.min() < first - slack or time.max() > last + slack:
        yield (
            f"Misfit: the record of {name} has observations from {time.min():g} to {time.max():g} s, and the run's "
            f"steps end from {first:g} to {last:g} s; give it a window in there, or make the run longer."
        )


def records_in(
    folder: str | Path, places: dict[str, tuple[float, float]], named: Iterable[str] | None = ()
) -> dict[str, Record]:
    """{name: Record} of the gauges `places` {name: (x, y)} that have a file in `folder`.

    Files are NAME.csv with a header line and the columns time_s and elevation_m. NAME is the name of the gauge or a
    word of it.

    Args:
        named: gauges that must have a file.

    Raises:
        DataError: if a file lacks a column, or no gauge has a file.
        ConfigError: if one of `named` has no file.
    """
    folder = Path(folder)
    files = {path.stem.lower(): path for path in sorted(folder.glob("*.csv"))}
    found = {}
    for name, place in places.items():
        words = (name.lower(), *name.lower().replace("_", " ").replace("-", " ").split())
        path = next((files[word] for word in words if word in files), None)
        if path is not None:
            found[name] = Record(place, *_series(path))
    if not found:
        raise DataError(
            f"no CSV file in {folder} is named after one of the gauges {', '.join(places)}; name each after its gauge."
        )
    missing = [name for name in named or () if name not in found]
    if missing:
        raise ConfigError(f"{folder} has no record of {', '.join(missing)}; add one, or leave that gauge out.")
    return found


def _series(path):
    """(time, value) of a file, sorted."""
    columns = read_columns(path, (TIME, ELEVATION))
    order = np.argsort(columns[TIME], kind="stable")
    return columns[TIME][order], columns[ELEVATION][order]


def header(path: str | Path) -> list[str]:
    """The names in the first line of a CSV file."""
    with _text(path) as file:
        return [name.strip() for name in next(csv.reader(file), [])]


@contextlib.contextmanager
def _text(path):
    """The opened file; raises DataError if it is not text."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            yield file
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} is not a text file that can be read ({error}); save it as CSV in UTF-8.") from error


def read_columns(path: str | Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """{name: (n,)} of the columns of a table with times; rows without a time are left out, see `read_table`.

    Raises:
        DataError: as `read_table` does, and for elevations and velocities that no sea has.
    """
    columns = read_table(path, names)
    timed = np.isfinite(columns[TIME])
    found = {name: values[timed] for name, values in columns.items()}
    for name in LARGEST.keys() & found.keys():
        if (wrong := np.abs(found[name]) > LARGEST[name]).any():  # false where it is NaN
            k = int(np.argmax(wrong))
            raise DataError(
                f"{path}: {name} is {found[name][k]:g} at {found[TIME][k]:g} s, beyond {LARGEST[name]:g}; leave gaps "
                "empty, and check the unit."
            )
    return found


def table_names(path: str | Path) -> list[str]:
    """The columns of a CSV file, or the variables of a netCDF file.

    Raises:
        DataError: if there is no such file, or it cannot be read.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"there is no file {path}; give a CSV or netCDF file with the observations.")
    if path.suffix != ".nc":
        return header(path)
    with _netcdf(path) as data:
        return list(data.variables)


def read_table(path: str | Path, names: Sequence[str], texts: Sequence[str] = ()) -> dict[str, Any]:
    """{name: (n,) array} of the columns of a CSV file with a header, or of the variables of a netCDF file (.nc).

    Empty fields and missing values are NaN.

    Args:
        texts: columns that hold text; these are lists.

    Raises:
        DataError: if the file lacks one of these columns, cannot be read, has text in place of a number, or variables
            of different lengths.
    """
    head = table_names(path)
    missing = [name for name in (*texts, *names) if name not in head]
    if missing:
        where, what = ("", "variable") if Path(path).suffix == ".nc" else (" in its first line", "column")
        what = f"{what}{'s' * (len(missing) > 1)} {' and '.join(missing)}"
        raise DataError(f"{path} lacks the {what}{where}; add {'them' if len(missing) > 1 else 'it'}.")
    if Path(path).suffix == ".nc":
        return _of_netcdf(path, names, texts)
    with _text(path) as file:
        rows = list(csv.DictReader(file, skipinitialspace=True))
    columns: dict[str, Any] = {
        name: np.array([_number(row[name], name, k, path) for k, row in enumerate(rows, 2)], float) for name in names
    }
    return columns | {name: [(row[name] or "").strip() for row in rows] for name in texts}


@contextlib.contextmanager
def _netcdf(path):
    """The opened file; raises DataError if it is not a netCDF file."""
    try:
        with netCDF4.Dataset(path) as data:
            yield data
    except OSError as error:
        raise DataError(f"{path} is not a netCDF file that can be read ({error}); write it again.") from error


def _of_netcdf(path, names, texts):
    """The variables of a netCDF file, which must have one dimension."""
    with _netcdf(path) as data:
        for name in names:
            _check_units(path, name, str(getattr(data[name], "units", "")))
        read = {name: data[name][:] for name in (*names, *texts)}
    shapes = {np.shape(values) for values in read.values()}
    if len(shapes) != 1 or len(next(iter(shapes))) != 1:
        raise DataError(
            f"{path} has variables of the shapes {', '.join(map(str, sorted(shapes)))}; give them one dimension, the "
            "same for all, with texts as netCDF strings."
        )
    columns: dict[str, Any] = {name: np.ma.filled(np.ma.asarray(read[name], float), np.nan) for name in names}
    return columns | {name: [str(text).strip() for text in read[name]] for name in texts}


def _check_units(path, name, found):
    """Raise DataError for a variable in other units than those of its name; one without units has these."""
    ends = (units for end, units in UNITS.items() if name.endswith(end))
    needed = PLACES.get(name) or next(ends, None)
    if needed is not None and found.strip() not in ("", "1"):
        check_units(f"{name} in {path}", found, needed)


def _number(text, column, row, path):
    """The number in a field; NaN if it is empty."""
    text = (text or "").strip()
    try:
        return float(text) if text else np.nan
    except ValueError:
        raise DataError(
            f"{path} has {text!r} in {column} of row {row}, which is not a number; correct it, or leave "
            "it empty for a gap."
        ) from None
