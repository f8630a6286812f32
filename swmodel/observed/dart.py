"""Heights of the water column over DART buoys, in the text of NDBC.

    #YY  MM DD hh mm ss T   HEIGHT
    #yr  mo dy hr mn  s -        m
    2011 03 11 05 46 00 1 5823.112

T is 1 for samples of 15 minutes, 2 of 1 minute and 3 of 15 seconds; 9999 is a gap. Times are in UTC, and heights, of
some thousand metres, are given from their median. At a time with samples of several intervals, the shortest counts.
https://www.ndbc.noaa.gov/dart/dart.shtml
"""

from pathlib import Path

import numpy as np

from ..errors import DataError
from .levels import Levels, numbers_of

WORDS = "heights of the water column of DART"
GAP = 9999.0
INTERVALS = {1: "15 min", 2: "1 min", 3: "15 s"}


def read(path: str | Path, kind: str = "dart", sensor: str = "") -> Levels:
    """The Levels of a file.

    Raises:
        DataError: for lines that do not have eight numbers, and heights that no water has.
    """
    lines = Path(path).read_text(encoding="utf-8-sig", errors="replace").splitlines()
    rows = [
        (k, line.split()) for k, line in enumerate(lines, 1) if line.strip() and not line.lstrip("# ").startswith("Y")
    ]
    rows = [(k, row) for k, row in rows if not row[0].startswith("#")]
    if wrong := [(k, row) for k, row in rows if len(row) != 8]:
        k, row = wrong[0]
        raise DataError(f"{path}, line {k} of {WORDS} has {len(row)} numbers in place of 8; get the file again.")
    if not rows:
        raise DataError(f"{path} has no lines of {WORDS}; get it again.")
    table = np.reshape(numbers_of(path, WORDS, [cell for _, row in rows for cell in row]), (-1, 8))
    moments = _moments(path, table)
    height = np.where(table[:, 7] == GAP, np.nan, table[:, 7])
    order = np.lexsort((-table[:, 6], moments))  # of one time the shortest interval comes first
    order = order[np.isfinite(height[order])]
    order = order[np.unique(moments[order], return_index=True)[1]]
    if not order.size:
        raise DataError(f"{path} has gaps alone in place of {WORDS}; get another time.")
    middle = float(np.median(height[order]))
    kinds = [f"{n:,} of {INTERVALS.get(int(k), k)}" for k, n in zip(*np.unique(table[order, 6], return_counts=True))]
    notes = f"column of {middle:.2f} m", f"samples: {', '.join(kinds)}"
    return Levels(WORDS, moments[order], height[order] - middle, "m", "UTC", "the median of the record", notes)


def _moments(path, table):
    """datetime64[ms] of the first six columns."""
    year, month, day, hour, minute, second = table[:, :6].astype(int).T
    fits = (year > 1980) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31) & (hour < 25) & (second < 61)
    if not fits.all():
        k = int(np.argmin(fits))
        raise DataError(f"{path}: {table[k, :6].astype(int).tolist()} is no date in {WORDS}; get the file again.")
    months = (year - 1970).astype("datetime64[Y]").astype("datetime64[M]") + (month - 1)
    seconds = 86400 * (day - 1) + 3600 * hour + 60 * minute + second
    return months.astype("datetime64[s]").astype("datetime64[ms]") + (1000 * seconds).astype("timedelta64[ms]")
