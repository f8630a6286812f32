"""Tracks in CSV: time_utc, longitude_deg, latitude_deg, radius_of_maximum_wind_m, central_pressure_pa in the header.

There may be maximum_wind_m_s and, for several storms, storm; other columns are left alone. Cells of the radius and of
the wind may be blank.
"""

import datetime
from pathlib import Path

from ...errors import DataError
from ...fields.parameters import in_utc
from ...runtime.formats import read_csv
from . import Points, chosen

COLUMNS = ("time_utc", "longitude_deg", "latitude_deg", "radius_of_maximum_wind_m", "central_pressure_pa")


def read(path: str | Path, storm: str | None, agency: str | None = None) -> Points:
    """The Points of a storm."""
    table = read_csv(path)
    rows = table.rows
    if not rows or (missing := [name for name in COLUMNS if name not in table.names]):
        raise ValueError(f"the column {missing[0]} is missing" if rows else "it has no rows")
    if storm is not None or "storm" in table.names:
        names = list(dict.fromkeys(row.get("storm", "") for row in rows))
        wanted = names[chosen(path, [(name,) for name in names], storm)]
        rows = [row for row in rows if row.get("storm", "") == wanted]
    found = {}
    for row in rows:
        if (moment := _moment(row["time_utc"])) in found:
            raise ValueError(f"it has two points on {moment:%Y-%m-%d %H:%M}")
        needed = [_number(path, row, name) for name in ("longitude_deg", "latitude_deg", "central_pressure_pa")]
        unknown = (_number(path, row, name, "nan") for name in ("radius_of_maximum_wind_m", "maximum_wind_m_s"))
        found[moment] = *needed, *unknown
    return Points(found, ("CSV", *(() if storm is None else (f"storm {storm}",))))


def _number(path, row, name, otherwise=None):
    """The number in a column of a row; `otherwise` in a blank cell, or where there is no such column."""
    text = row.get(name) or otherwise
    try:
        if text is not None:
            return float(text)
    except ValueError:
        pass
    what = "is blank" if text is None else f"is {text!r}"
    raise DataError(f"{path}: {name} {what} on {row['time_utc']}; give a number.")


def _moment(text):
    return in_utc(datetime.datetime.fromisoformat(text.strip()))
