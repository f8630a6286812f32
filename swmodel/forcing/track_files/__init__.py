"""Tracks of cyclones as agencies write them: one file for each format, all behind `read_points`.

    csv_table.py  CSV with the columns that docs/storms.md lists
    atcf.py       a-decks (forecasts) and b-decks (best tracks) of ATCF
    hurdat2.py    best tracks of the National Hurricane Center
    ibtracs.py    IBTrACS, CSV and netCDF, of any agency
    jma.py        best tracks of RSMC Tokyo

To read one more format, add its row to FORMATS of runtime/formats.py, and a line to READERS. Its file has a function
`read` from (path, storm, agency) to Points.
"""

import dataclasses
import datetime
import importlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ...errors import DataError
from ..wind_laws import KNOT

__all__ = ["ISOTACHS", "KNOT", "MILE", "QUADRANTS", "READERS", "Points", "chosen", "read_points"]

MILE = 1852.0  # [m], of the sea
ISOTACHS, QUADRANTS = (34, 50, 64), ("ne", "se", "sw", "nw")  # winds [knots] of which files have the radii
READERS = {"atcf": "atcf", "hurdat2": "hurdat2", "ibtracs_csv": "ibtracs", "netcdf": "ibtracs", "jma": "jma"}
Row = tuple[float, float, float, float, float]  # longitude, latitude [degrees], pressure [Pa], radius [m], wind [m s-1]


@dataclasses.dataclass(frozen=True)
class Points:
    """The points of one storm of a file.

    Attributes:
        rows: {date and time in UTC: (longitude, latitude, central pressure, radius of maximum wind, largest wind)}; a
            pressure or radius that is not known is not positive or NaN, and such a wind NaN.
        remarks: the format and the storm, and the averaging of the winds, each in words.
        radii: {date and time: radii of winds of 34, 50 and 64 knots in the quadrants north-east, south-east, south-west
            and north-west [m], (3, 4)}; 0 where there is no such wind, and NaN where that is not known.
    """

    rows: dict[datetime.datetime, Row]
    remarks: tuple[str, ...]
    radii: dict[datetime.datetime, np.ndarray] = dataclasses.field(default_factory=dict)


def read_points(kind: str, path: str | Path, storm: str | None, agency: str | None) -> Points:
    """The Points of a file in a format of READERS, "csv" or "text", which is taken for ATCF.

    Raises:
        DataError: for a file without that storm or agency.
        ValueError, KeyError, IndexError: for a damaged file.
    """
    name = "csv_table" if kind == "csv" else READERS.get(kind, "atcf")
    if agency is not None and name != "ibtracs":
        raise DataError(f"{path} has the analysis of one agency; leave agency = {agency!r} out.")
    return importlib.import_module(f".{name}", __name__).read(path, storm, agency)


def chosen(path: str | Path, known: Sequence[Sequence[str]], storm: str | None) -> int:
    """The number of the storm `storm` in a file; `known` has the identifier and the name of each storm."""
    wanted = [k for k, names in enumerate(known) if storm is None or storm.strip().upper() in map(str.upper, names)]
    if len(wanted) == 1:
        return wanted[0]
    some = ", ".join(names[0] for names in known[:5]) + (", ..." if len(known) > 5 else "")
    if storm is None:
        raise DataError(f"{path} holds {len(known)} storms, {some}; name one of them by `storm`.")
    if wanted:
        first = known[wanted[0]][0]
        raise DataError(f"{path}: {len(wanted)} storms are called {storm!r}; give an identifier, as {first!r}.")
    remedy = f"it has {some}" if some else "it names none, so leave `storm` out"
    raise DataError(f"{path} has no storm {storm!r}; {remedy}.")
