"""Tracks of ATCF, best tracks (b-decks) and forecasts (a-decks): knots, nautical miles and hPa.

https://science.nrlmry.navy.mil/atcf/docs/database/new/abdeck.txt
"""

import datetime
from pathlib import Path

import numpy as np

from ...errors import DataError
from . import ISOTACHS, KNOT, MILE, QUADRANTS, Points, chosen

PAUSE = datetime.timedelta(days=30)  # between the storms with one number of two years
FIRST = (*(f"{quadrant.upper()}Q" for quadrant in QUADRANTS), "AAA")  # of the four radii; AAA is a circle


def read(path: str | Path, storm: str | None, agency: str | None = None) -> Points:
    """The Points of a storm.

    A best track has the minutes of its dates in the column of a forecast's technique; a forecast counts TAU hours.
    """
    rows = [[part.strip() for part in line.split(",")] for line in Path(path).read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if len(row) >= 10 and row[2].isdigit()]
    storms = _storms(rows)
    known = [(key, *sorted({row[27] for row in of if len(row) > 27})) for key, of in storms.items()]
    if not known:
        raise ValueError("it has no lines of an ATCF deck")
    name = list(storms)[chosen(path, known, storm)]
    rows = storms[name]
    best = [row for row in rows if row[4] == "BEST"]
    if not best and len({(row[2], row[4]) for row in rows}) > 1:
        raise DataError(f"{path} holds forecasts of several models or dates; leave the lines of one of them.")
    found: dict[datetime.datetime, tuple] = {}
    radii: dict[datetime.datetime, np.ndarray] = {}
    for row in best or rows:
        latitude, longitude = _degrees(row[6], "NS"), _degrees(row[7], "EW")
        radius = float(row[19] or 0) * MILE if len(row) > 19 else 0.0
        later = datetime.timedelta(hours=float(row[5] or 0), minutes=float(row[3] or 0) if best else 0.0)
        moment = datetime.datetime.strptime(row[2], "%Y%m%d%H") + later
        point = longitude, latitude, float(row[9] or 0) * 100, radius, float(row[8] or "nan") * KNOT
        if len(row) > 16 and row[11] in map(str, ISOTACHS) and row[12] in FIRST:
            miles = np.array([float(cell or 0) for cell in row[13:17]])
            table = radii.setdefault(moment, np.full((3, 4), np.nan))
            whole = row[12] == "AAA"
            table[ISOTACHS.index(int(row[11]))] = MILE * (miles[0] if whole else np.roll(miles, FIRST.index(row[12])))
        if moment not in found or not found[moment][2] > 0:  # there are lines for several radii, and one may be blank
            found[moment] = point
    what = f"ATCF, {'best track' if best else f'forecast of {rows[0][4]}'} of {name}"
    return Points(found, (what, "winds of 1 min"), radii)


def _storms(rows):
    """{identifier, as AL302005: its lines}; a storm that lasts over New Year's Eve has the year of its first line."""
    found: dict[str, list] = {}
    last: dict[tuple[str, str], tuple[str, datetime.datetime]] = {}  # the storm and the time of a number's last line
    for row in rows:
        number, moment = (row[0], row[1]), datetime.datetime.strptime(row[2], "%Y%m%d%H")
        storm, before = last.get(number, ("", moment))
        if not storm or moment - before > PAUSE:
            storm = f"{row[0]}{row[1]}{_season(row)}"
        found.setdefault(storm, []).append(row)
        last[number] = storm, moment
    return found


def _season(row):
    """The year that counts a storm of an ATCF deck; south of the equator it begins in July of the year before."""
    year, month = int(row[2][:4]), int(row[2][4:6])
    return year + (row[6].endswith("S") and month >= 7)


def _degrees(text, letters):
    """A latitude or longitude of an ATCF deck, tenths of degrees with one of two letters, such as 172N."""
    if not (text[:-1].isdigit() and text[-1] in letters):
        raise ValueError(f"{text!r} is not a number of tenths of degrees with {letters[0]} or {letters[1]}")
    return float(text[:-1]) / 10 * (-1 if text[-1] in "SW" else 1)
