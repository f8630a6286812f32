"""Best tracks of RSMC Tokyo (JMA): tenths of degrees, hPa and knots.

    66666 9119  150 0045 9119 0 6             MIRREILE              19920701
    91092706 002 5 325 1293  935     095     30180 0140 30400 0260         #

There are no winds before 1977, and no radii of maximum wind. https://www.jma.go.jp/jma/jma-eng/jma-center/rsmc-hp-pub-
eg/
"""

import datetime
from pathlib import Path

from . import KNOT, Points, chosen

HEAD, FIRST_YEAR = "66666", 51


def read(path: str | Path, storm: str | None, agency: str | None = None) -> Points:
    """The Points of a storm, of which `storm` is the international number, as 9119, or the name."""
    lines = [cells for line in Path(path).read_text("utf-8").splitlines() if (cells := line.split())]
    heads = [k for k, cells in enumerate(lines) if cells[0] == HEAD]
    known = [(lines[k][1], next((cell for cell in lines[k][5:] if cell.isalpha()), "")) for k in heads]
    which = chosen(path, known, storm)
    head, count = heads[which], int(lines[heads[which]][2])
    rows = lines[head + 1 : head + 1 + count]
    if len(rows) < count or any(len(cells) < 6 or cells[0] == HEAD for cells in rows):
        raise ValueError(f"{known[which][0]} of JMA's best tracks has fewer than its {count} lines")
    points = {}
    for cells in rows:
        year = int(cells[0][:2])
        moment = datetime.datetime.strptime(f"{1900 + year + 100 * (year < FIRST_YEAR)}{cells[0][2:]}", "%Y%m%d%H")
        wind = float(cells[6]) if len(cells) > 6 and cells[6].isdigit() else 0.0
        speed = KNOT * wind if wind > 0 else float("nan")
        points[moment] = float(cells[4]) / 10, float(cells[3]) / 10, 100.0 * float(cells[5]), 0.0, speed
    return Points(points, (f"best track of JMA, {' '.join(known[which]).strip()}", "winds of 10 min"))
