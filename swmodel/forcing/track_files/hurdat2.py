"""Best tracks of HURDAT2: knots, nautical miles and hPa.

    AL092008,                IKE,     57,
    20080901, 0600,  , TD, 17.2N,  37.0W,  30, 1006, ... radii of 34, 50 and 64 knots in four quadrants ..., 90

-99 and -999 are unknown. The radii in quadrants are there since 2004, and the last column, the radius of
maximum wind, since 2021.
https://www.nhc.noaa.gov/data/hurdat/hurdat2-format-atlantic.pdf
"""

import datetime
from pathlib import Path

import numpy as np

from . import KNOT, MILE, Points, chosen

RADII, RADIUS = slice(8, 20), 20  # columns


def read(path: str | Path, storm: str | None, agency: str | None = None) -> Points:
    """The Points of a storm."""
    lines = [[cell.strip() for cell in line.split(",")] for line in Path(path).read_text("utf-8").splitlines() if line]
    heads = [k for k, cells in enumerate(lines) if len(cells) < 6]
    known = [(lines[k][0], lines[k][1]) for k in heads]
    head = heads[chosen(path, known, storm)]
    count = int(lines[head][2])
    rows = lines[head + 1 : head + 1 + count]
    if len(rows) < count or any(len(cells) < 8 for cells in rows):
        raise ValueError(f"{lines[head][0]} of HURDAT2 has fewer than its {count} lines")
    points, radii = {}, {}
    for cells in rows:
        moment = datetime.datetime.strptime(f"{cells[0]}{cells[1]}", "%Y%m%d%H%M")
        radius = float(cells[RADIUS]) if len(cells) > RADIUS and cells[RADIUS] else -999.0
        wind = float(cells[6])
        if len(cells) >= RADII.stop:
            miles = np.array([float(cell or -999) for cell in cells[RADII]]).reshape(3, 4)
            radii[moment] = MILE * np.where(miles < 0, np.nan, miles)
        points[moment] = (
            _degrees(cells[5], "EW"),
            _degrees(cells[4], "NS"),
            100.0 * float(cells[7]),
            MILE * max(radius, 0.0),
            KNOT * wind if wind > 0 else float("nan"),
        )
    return Points(points, (f"HURDAT2, {' '.join(lines[head][:2])}", "winds of 1 min"), radii)


def _degrees(text, letters):
    if text[-1:] not in letters:
        raise ValueError(f"{text!r} of HURDAT2 does not end in {letters[0]} or {letters[1]}")
    return float(text[:-1]) * (-1 if text[-1] in "SW" else 1)
