"""Levels: the record of a gauge as its provider wrote it, in the provider's units and zone; a reader for each format.

coops         CO-OPS (NOAA): CSV and JSON of the interface `datagetter`, and CSV exported from its pages. The
              interface writes neither unit nor zone nor datum: these are those of the request, units=metric or
              english, time_zone=gmt, lst or lst_ldt, datum=MSL, MLLW, NAVD, .... The pages write unit and zone to
              the names of the columns. https://api.tidesandcurrents.noaa.gov/api/prod/responseHelp.html lists the
              columns and flags.
ioc           Sea Level Station Monitoring Facility of the IOC: its tables in text, and JSON of its services. A
              table has a line of names, "Time (UTC)" and one sensor a column, such as rad(m) and prs(m); columns
              are separated by tabs. JSON is a list of {"slevel": level, "stime": date, "sensor": name}. Levels are
              in metres above a level of each sensor's own, and times in UTC.
dart          heights of the water column over DART buoys, in the text of NDBC:

                  #YY  MM DD hh mm ss T   HEIGHT
                  #yr  mo dy hr mn  s -        m
                  2011 03 11 05 46 00 1 5823.112

              T is 1 for samples of 15 minutes, 2 of 1 minute and 3 of 15 seconds; 9999 is a gap. Times are in UTC,
              and heights, of some thousand metres, are given from their median. At a time with samples of several
              intervals, the shortest counts. https://www.ndbc.noaa.gov/dart/dart.shtml
uhslc         University of Hawaii Sea Level Center: hourly and daily levels in CSV and netCDF, and hourly ones as
              .dat (`_uhslc_dat`). CSV has no names: year, month, day, hour (not in daily files) and the level.
              NetCDF has sea_level (record_id, time) and times since 1800. Levels are in millimetres above the zero
              of the station, -32767 is a gap, and times are in UTC; daily means lie at noon.
              https://uhslc.soest.hawaii.edu/data/
"""

import csv
import dataclasses
import datetime
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from ..errors import DataError
from ..fields.parameters import in_utc
from ..grids.regrid import seconds_of_dates
from ..runtime.formats import read_csv
from ..runtime.signals import LOCK

METRES = {"m": 1.0, "cm": 0.01, "mm": 0.001, "ft": 0.3048}


@dataclasses.dataclass(frozen=True, eq=False)
class Levels:
    """The record of a gauge.

    Attributes:
        words: the format.
        moments: dates and times in `zone`, datetime64[ms] (n,).
        value: level above `datum` in `unit`, (n,); NaN is a gap.
        unit: one of METRES; "" if the file does not state it.
        zone: "UTC"; "" if the file does not state it.
        datum: what levels count from, in words.
        notes: what a user should know of the file, each a few words.
    """

    words: str
    moments: np.ndarray
    value: np.ndarray
    unit: str
    zone: str
    datum: str
    notes: tuple[str, ...] = ()


def read_levels(kind: str, path: str | Path, sensor: str = "") -> Levels:
    """The Levels of a file in the format `kind` of READERS.

    Args:
        kind: the format.
        path: of the file.
        sensor: its name in a file of several.

    Raises:
        DataError: for a file that is damaged; the sentence names the format.
    """
    return _ioc(path, kind, sensor) if kind in ("ioc", "ioc_json") else READERS[kind](path)


def _moments(path: str | Path, words: str, texts: Iterable[object]) -> np.ndarray:
    """datetime64[ms] (n,) of dates such as 2011-03-11 05:46 or 2011/03/11 05:46:23; raises DataError for others."""

    def read(text):
        return in_utc(datetime.datetime.fromisoformat(re.sub(r"(\d)/(\d)", r"\1-\2", str(text))))

    return np.array(_each(path, words, texts, read, "no date as 2011-03-11 05:46"), "datetime64[ms]")


def _each(path, words, texts, read, refusal):
    """[read(text)]; raises DataError for the first text that is refused with a ValueError."""
    found = []
    for text in texts:
        try:
            found.append(read(text))
        except ValueError:
            damage = "the file is damaged, so get it again"
            raise DataError(f"{path}, {words}: {text!r} is {refusal}; {damage}.") from None
    return found


def _dates(path: str | Path, words: str, table: np.ndarray) -> np.ndarray:
    """datetime64[ms] (n,) of rows of year, month, day, hour, minute and second; raises DataError for no dates."""
    moments = []
    for row in table.tolist():
        try:
            year, month, day, *clock = map(int, row)
            if not all(0 <= x <= most for x, most in zip(clock, (24, 59, 60))):
                raise ValueError
            hours, minutes, seconds = clock
            time = datetime.timedelta(hours=hours, minutes=minutes, seconds=seconds)
            moments.append(datetime.datetime(year, month, day) + time)
        except (ValueError, OverflowError):
            numbers = [int(x) if x.is_integer() else x for x in row]
            raise DataError(f"{path}: {numbers} is no date in {words}; get the file again.") from None
    return np.array(moments, "datetime64[ms]")


def _numbers(path: str | Path, words: str, texts: Iterable[object]) -> np.ndarray:
    """The numbers that texts stand for, (n,), NaN for empty ones; raises DataError for others."""
    read = lambda text: float(str(text)) if text not in ("", "-", "MM", None) else np.nan  # noqa: E731
    return np.array(_each(path, words, texts, read, "not a number"), float)


# -- CO-OPS -----------------------------------------------------------------------------------------------------------

COOPS = "water levels of CO-OPS"
COLUMNS = "Water Level", "Verified", "Preliminary", "Predict"  # how those of levels begin, the best one first


def _coops(path, moments, value, unit, zone, notes, flagged):
    flags = f"{flagged:,} samples flagged as flat, as fast or as beyond limits" if flagged else ""
    notes = tuple(filter(None, (*notes, flags)))
    return Levels(COOPS, _moments(path, COOPS, moments), value, unit, zone, "the datum of the request", notes)


def _coops_json(path):
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is a JSON file of CO-OPS that ends early ({error}); get it again.") from None
    if "error" in content:
        message = str(content["error"].get("message", "")).strip()
        raise DataError(f"{path} holds no levels, but a message of CO-OPS, {message!r}; change the request.")
    samples = content.get("data", content.get("predictions", []))
    try:
        moments, values = ([sample[key] for sample in samples] for key in "tv")
    except (KeyError, TypeError):
        raise DataError(f"{path} is a JSON file of CO-OPS with samples without t or v; get it again.") from None
    flagged = sum("1" in str(sample.get("f", "")).split(",")[1:] for sample in samples)
    station = f"station {content['metadata']['id']}" if "id" in content.get("metadata", {}) else ""
    notes = station, "predictions" if "predictions" in content else ""
    return _coops(path, moments, _numbers(path, COOPS, values), "", "", notes, flagged)


def _coops_csv(path):
    """Verified and preliminary levels, verified ones where there are any."""
    table = read_csv(path, formats=("coops_csv",))
    columns = [name for level in COLUMNS for name in table.names if name.startswith(level)]
    if not columns:
        raise DataError(f"{path} is a CSV file of CO-OPS without levels; ask for product=water_level.")
    values = [_numbers(path, COOPS, table.texts(name)) for name in columns]
    value, used = values[0], columns[0]
    for name, other in zip(columns[1:], values[1:]):
        if not name.startswith("Predict"):
            value = np.where(np.isfinite(value), value, other)
    unit = re.search(r"\((m|ft)\)", used)
    times = [name for name in table.names if name.startswith(("Date", "Time"))]
    zone = re.search(r"\(([^)]*)\)", " ".join(times))
    if zone and zone[1] not in ("GMT", "UTC"):
        raise DataError(f"{path}, {COOPS}: times are in {zone[1]}, local ones; get it again in GMT.")
    flagged = sum(any(row.get(flag) == "1" for flag in ("F", "R", "L")) for row in table.rows)
    moments = [" ".join(row[name] for name in times) for row in table.rows]
    notes = ("predictions" if used.startswith("Predict") else "",)
    return _coops(path, moments, value, unit[1] if unit else "", "UTC" if zone else "", notes, flagged)


# -- IOC --------------------------------------------------------------------------------------------------------------

IOC = "levels of the IOC's monitoring facility"


def _ioc(path, kind, sensor=""):
    """The Levels of one sensor: `sensor`, or the one with the most samples."""
    sensors = (_ioc_json if kind == "ioc_json" else _ioc_text)(path)
    if not sensors:
        raise DataError(f"{path}, {IOC}: it names no sensor; get it again.")
    if sensor and sensor not in sensors:
        raise DataError(f"{path}, {IOC}: there is no sensor {sensor!r}; it has {', '.join(sensors)}.")
    levels = {name: (_moments(path, IOC, t), _numbers(path, IOC, v)) for name, (t, v) in sensors.items()}
    name = sensor or max(levels, key=lambda one: np.isfinite(levels[one][1]).sum())
    others = [other for other in levels if other != name]
    note = f"sensor {name}" + (f" and not {', '.join(others)}" if others else "")
    return Levels(IOC, *levels[name], "m", "UTC", "a level of the sensor's own", (note,))


def _ioc_json(path):
    """{sensor: (dates, levels)}."""
    sensors: dict[str, tuple[list, list]] = {}
    try:
        for sample in json.loads(Path(path).read_text(encoding="utf-8")):
            dates, levels = sensors.setdefault(str(sample["sensor"]).strip(), ([], []))
            dates.append(sample["stime"].strip())
            levels.append(sample["slevel"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is a damaged JSON file of {IOC} ({error}); get it again.") from None
    return sensors


def _ioc_text(path):
    """As `_ioc_json`."""
    lines = Path(path).read_text(encoding="utf-8-sig", errors="replace").splitlines()
    first = next(k for k, line in enumerate(lines) if "Time (UTC)" in line)
    delimiter = next((mark for mark in "\t;," if mark in lines[first]), "\t")
    head, *rows = csv.reader((line for line in lines[first:] if line.strip()), delimiter=delimiter)
    names = [re.sub(r"\s*\(m\)", "", name).strip() for name in head[1:]]
    if wrong := [name for name in names if "(" in name]:
        raise DataError(f"{path}, {IOC}: the column {wrong[0]} is not in m, as the facility writes it; convert it.")
    if not rows:
        raise DataError(f"{path}, {IOC}: it has no samples; get it again, for another period.")
    dates = [row[0].strip() for row in rows]
    columns = {name: [row[k].strip() if k < len(row) else "" for row in rows] for k, name in enumerate(names, 1)}
    return {name: (dates, levels) for name, levels in columns.items() if name}


# -- DART -------------------------------------------------------------------------------------------------------------

DART = "heights of the water column of DART"
INTERVALS = {1: "15 min", 2: "1 min", 3: "15 s"}


def _dart(path):
    lines = Path(path).read_text(encoding="utf-8-sig", errors="replace").splitlines()
    rows = [(k, line.split()) for k, line in enumerate(lines, 1) if not re.match(r"\s*(#|Y|$)", line)]
    if wrong := [(k, row) for k, row in rows if len(row) != 8]:
        k, row = wrong[0]
        raise DataError(f"{path}, line {k} of {DART} has {len(row)} numbers in place of 8; get the file again.")
    if not rows:
        raise DataError(f"{path} has no lines of {DART}; get it again.")
    table = np.reshape(_numbers(path, DART, [cell for _, row in rows for cell in row]), (-1, 8))
    moments = _dates(path, DART, table[:, :6])
    height = np.where(table[:, 7] == 9999.0, np.nan, table[:, 7])
    order = np.lexsort((-table[:, 6], moments))  # of one time the shortest interval comes first
    order = order[np.isfinite(height[order])]
    order = order[np.unique(moments[order], return_index=True)[1]]
    if not order.size:
        raise DataError(f"{path} has gaps alone in place of {DART}; get another time.")
    middle = float(np.median(height[order]))
    kinds = [f"{n:,} of {INTERVALS.get(k, k)}" for k, n in zip(*np.unique(table[order, 6], return_counts=True))]
    notes = f"column of {middle:.2f} m", f"samples: {', '.join(kinds)}"
    return Levels(DART, moments[order], height[order] - middle, "m", "UTC", "the median of the record", notes)


# -- UHSLC ------------------------------------------------------------------------------------------------------------

UHSLC = "levels of UHSLC"
EPOCH = datetime.datetime(1970, 1, 1)


def _uhslc(moments, value, note=""):
    value = np.where(value == -32767.0, np.nan, value)
    return Levels(UHSLC, moments, value, "mm", "UTC", "the zero of the station", (note,) if note else ())


def _uhslc_csv(path):
    with open(path, newline="", encoding="utf-8-sig") as file:
        rows = [row for row in csv.reader(file) if row]
    if len(widths := {len(row) for row in rows}) != 1 or widths - {4, 5}:
        raise DataError(f"{path}, {UHSLC}: rows have {min(widths)} to {max(widths)} cells; get the file again.")
    table = np.reshape(_numbers(path, UHSLC, [cell.strip() for row in rows for cell in row]), (len(rows), -1))
    *days, level = table.T
    rest = [days[3] if len(days) == 4 else np.full(len(rows), 12.0), *np.zeros((2, len(rows)))]
    moments = _dates(path, UHSLC, np.column_stack([*days[:3], *rest]))
    return _uhslc(moments, level, DAILY * (len(days) == 3))


def _uhslc_dat(path):
    """A .dat file, of lines of 80 bytes.

    For each year a header has the hours by which its times are ahead of GMT in bytes 65 to 68, in tenths, an offset in
    bytes 72 to 76 that is added to its levels, and the unit in bytes 79 and 80. Two lines a day have year, month, day
    and 1 or 2 in bytes 12 to 20 and twelve levels of five bytes, of which 9999 is a gap.
    https://www.nodc.noaa.gov/archive/arc0001/0000346/1.1/data/0-data/hourly.fmt
    """
    moments, levels = [], []
    ahead, offset = 0.0, 0.0
    for number, line in enumerate(Path(path).read_text(encoding="latin-1").splitlines(), 1):
        if not line.strip():
            continue
        if number == 1 and line[48:49] == "-":  # a range of years in the header
            raise DataError(f"{path} is a .dat file of daily {UHSLC}; get hourly ones, or CSV.")
        try:
            if line[54:55] in ("N", "S"):
                ahead, offset = float(line[64:68]) / 10.0, float(line[71:76])
                if line[78:80].strip() not in ("", "MM"):
                    raise ValueError(f"levels in {line[78:80]!r}, and only those in MM are read")
                continue
            half = int(line[19])
            start = np.datetime64(f"{int(line[11:15]):04d}-{int(line[15:17]):02d}-{int(line[17:19]):02d}", "ms")
            values = np.array([float(line[k : k + 5]) for k in range(20, 80, 5)])
            if half not in (1, 2):
                raise ValueError("neither the first nor the second half of a day")
        except (ValueError, IndexError) as error:
            raise DataError(f"{path}, line {number} of {UHSLC}: {error}; get the file again.") from None
        hours = 12 * (half - 1) + np.arange(12) - ahead
        moments.append(start + (3_600_000 * hours).astype("timedelta64[ms]"))
        levels.append(np.where(values == 9999.0, np.nan, values + offset))
    if not moments:
        raise DataError(f"{path} has a header of {UHSLC} and no levels; get the file again.")
    note = f"times were {ahead:+g} h from UTC" if ahead else ""
    return _uhslc(np.concatenate(moments), np.concatenate(levels), note)


DAILY = "daily means, without tides"


def _uhslc_netcdf(path):
    import netCDF4

    try:
        with LOCK, netCDF4.Dataset(path) as data:
            level, time = data["sea_level"], data["time"]
            units = str(getattr(level, "units", "millimeters")).lower()
            dates = str(getattr(time, "units", ""))
            values, times = (np.ma.filled(np.ma.asarray(variable[:], float), np.nan) for variable in (level, time))
    except (OSError, RuntimeError, IndexError) as error:
        raise DataError(f"{path} is a damaged netCDF file of {UHSLC} ({error}); get it again.") from None
    if not units.startswith("milli") and units != "mm":
        raise DataError(f"{path}, {UHSLC}: sea_level is in {units!r}, and not in millimeters; convert it.")
    if " since " not in dates:
        raise DataError(f"{path}, {UHSLC}: time has the units {dates!r}, and no dates; get the file again.")
    values = np.reshape(values, (-1, times.size))
    if len(values) != 1:
        raise DataError(f"{path}, {UHSLC}: it holds {len(values)} records; take one out, by ncks -d record_id,0,0.")
    seconds = seconds_of_dates(times, dates, "standard", EPOCH, "time")
    moments = np.datetime64(EPOCH, "ms") + np.round(1000 * seconds).astype("timedelta64[ms]")
    daily = times.size > 1 and bool(np.median(np.diff(seconds)) > 80000.0)
    return _uhslc(moments, values[0], DAILY * daily)


READERS: dict[str, Callable[..., Levels]] = {  # {format of runtime/formats.py: function from a path to Levels}
    "coops_csv": _coops_csv,
    "coops_json": _coops_json,
    "ioc": _ioc,
    "ioc_json": _ioc,
    "dart": _dart,
    "uhslc": _uhslc_netcdf,
    "uhslc_csv": _uhslc_csv,
    "uhslc_dat": _uhslc_dat,
}
