"""Hourly and daily levels of the University of Hawaii Sea Level Center: CSV, netCDF, and hourly ones as .dat.

CSV has no names: year, month, day, hour (not in daily files) and the level. NetCDF has sea_level (record_id, time) and
times since 1800. Levels are in millimetres above the zero of the station, -32767 is a gap, and times are in UTC; daily
means lie at noon. https://uhslc.soest.hawaii.edu/data/

A .dat file has lines of 80 bytes: for each year a header, with the hours by which its times are ahead of GMT in bytes
65 to 68, in tenths, an offset in bytes 72 to 76 that is added to its levels, and the unit in bytes 79 and 80; and two
lines a day, with year, month, day and 1 or 2 in bytes 12 to 20 and twelve levels of five bytes, of which 9999 is a gap.
https://www.nodc.noaa.gov/archive/arc0001/0000346/1.1/data/0-data/hourly.fmt
"""

import csv
import datetime
from pathlib import Path

import numpy as np

from ..errors import DataError
from ..grids.regrid import seconds_of_dates
from ..runtime.signals import LOCK
from .levels import Levels, numbers_of

WORDS = "levels of UHSLC"
GAP = -32767.0
DATUM = "the zero of the station"
EPOCH = datetime.datetime(1970, 1, 1)


def read(path: str | Path, kind: str, sensor: str = "") -> Levels:
    """The Levels of a file; raises DataError for one that is damaged or of several stations."""
    return {"uhslc": _of_netcdf, "uhslc_dat": _of_dat}.get(kind, _of_csv)(path)


def _of_csv(path):
    with open(path, newline="", encoding="utf-8-sig") as file:
        rows = [row for row in csv.reader(file) if row]
    if len(widths := {len(row) for row in rows}) != 1 or widths - {4, 5}:
        raise DataError(f"{path}, {WORDS}: rows have {min(widths)} to {max(widths)} cells; get the file again.")
    table = np.reshape(numbers_of(path, WORDS, [cell.strip() for row in rows for cell in row]), (len(rows), -1))
    *days, level = table.T
    hour = days[3] if len(days) == 4 else np.full(len(rows), 12.0)
    try:
        dates = [datetime.datetime(int(y), int(m), int(d)) for y, m, d in zip(*days[:3])]
    except ValueError as error:
        raise DataError(f"{path}, {WORDS}: {error}; get the file again.") from None
    moments = np.array(dates, "datetime64[ms]") + (3_600_000 * hour).astype("timedelta64[ms]")
    return Levels(WORDS, moments, np.where(level == GAP, np.nan, level), "mm", "UTC", DATUM, _daily(len(days) == 3))


def _of_dat(path):
    moments, levels = [], []
    ahead, offset = 0.0, 0.0
    for number, line in enumerate(Path(path).read_text(encoding="latin-1").splitlines(), 1):
        if not line.strip():
            continue
        if number == 1 and line[48:49] == "-":  # a range of years in the header
            raise DataError(f"{path} is a .dat file of daily {WORDS}; get hourly ones, or CSV.")
        try:
            if line[54:55] in ("N", "S"):
                ahead, offset = float(line[64:68]) / 10.0, float(line[71:76])
                if line[78:80].strip() not in ("", "MM"):
                    raise ValueError(f"levels in {line[78:80]!r}, and only those in MM are read")
                continue
            half = int(line[19])
            start = np.datetime64(f"{int(line[11:15]):04d}-{int(line[15:17]):02d}-{int(line[17:19]):02d}", "ms")
            values = [float(line[k : k + 5]) for k in range(20, 80, 5)]
            if half not in (1, 2):
                raise ValueError("neither the first nor the second half of a day")
        except (ValueError, IndexError) as error:
            raise DataError(f"{path}, line {number} of {WORDS}: {error}; get the file again.") from None
        hours = 12 * (half - 1) + np.arange(12) - ahead
        moments.append(start + (3_600_000 * hours).astype("timedelta64[ms]"))
        levels.append(np.where(np.array(values) == 9999.0, np.nan, np.array(values) + offset))
    if not moments:
        raise DataError(f"{path} has a header of {WORDS} and no levels; get the file again.")
    note = (f"times were {ahead:+g} h from UTC",) if ahead else ()
    return Levels(WORDS, np.concatenate(moments), np.concatenate(levels), "mm", "UTC", DATUM, note)


def _daily(is_daily):
    return ("daily means, without tides",) if is_daily else ()


def _of_netcdf(path):
    import netCDF4

    try:
        with LOCK, netCDF4.Dataset(path) as data:
            level, time = data["sea_level"], data["time"]
            units = str(getattr(level, "units", "millimeters")).lower()
            dates = str(getattr(time, "units", ""))
            values = np.ma.filled(np.ma.asarray(level[:], float), np.nan)
            times = np.ma.filled(np.ma.asarray(time[:], float), np.nan)
    except (OSError, RuntimeError, IndexError) as error:
        raise DataError(f"{path} is a damaged netCDF file of {WORDS} ({error}); get it again.") from None
    if not units.startswith("milli") and units != "mm":
        raise DataError(f"{path}, {WORDS}: sea_level is in {units!r}, and not in millimeters; convert it.")
    if " since " not in dates:
        raise DataError(f"{path}, {WORDS}: time has the units {dates!r}, and no dates; get the file again.")
    values = np.reshape(values, (-1, times.size))
    if len(values) != 1:
        raise DataError(f"{path}, {WORDS}: it holds {len(values)} records; take one out, by ncks -d record_id,0,0.")
    seconds = seconds_of_dates(times, dates, "standard", EPOCH, "time")
    moments = np.datetime64(EPOCH, "ms") + np.round(1000 * seconds).astype("timedelta64[ms]")
    value = np.where(values[0] == GAP, np.nan, values[0])
    daily = times.size > 1 and bool(np.median(np.diff(seconds)) > 80000.0)
    return Levels(WORDS, moments, value, "mm", "UTC", DATUM, _daily(daily))
