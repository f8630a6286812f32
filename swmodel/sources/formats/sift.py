"""Tables of unit sources of SIFT (NOAA): faults of 100 km x 50 km with 1 m of slip each, of which sources are combined.

A CSV file has the columns name, longitude_deg, latitude_deg, strike_deg, dip_deg, depth_km, and length_km, width_km and
rake_deg unless these are 100 km, 50 km and 90 degrees. Positions are those of the middle of the lower edge, and depths
those of the upper edge. Gica et al. (2008), NOAA Technical Memorandum OAR PMEL-139.
"""

import re

import numpy as np

from swmodel.defaults import RIGIDITY
from swmodel.errors import DataError
from swmodel.runtime.formats import read_csv
from swmodel.sources.formats.columns import SlipModel

WORDS = "a table of unit sources of SIFT"
UNITS = {"deg": 1.0, "km": 1e3, "m": 1.0}
UNLESS_GIVEN = {"length": 1e5, "width": 5e4, "rake": 90.0, "slip": 1.0, "rigidity": RIGIDITY}  # [m, degrees, Pa]
NEEDED = ("longitude", "latitude", "depth", "strike", "dip")


def read_sift(path: str) -> SlipModel:
    """The SlipModel of a table, with the names of its rows; raises DataError for a column that is missing."""
    table = read_csv(path, formats=("sift",))
    columns = {}
    for header in table.names:
        match = re.fullmatch(r"(\w+?)_(deg|km|m)", header)
        if match is not None and match[1] in (*NEEDED, *UNLESS_GIVEN):
            columns[match[1]] = UNITS[match[2]] * table.numbers(header)
    if missing := [name for name in NEEDED if name not in columns]:
        raise DataError(f"{path} is {WORDS} without {', '.join(missing)}; add a column for each, as depth_km.")
    columns |= {name: np.full(len(table.rows), x) for name, x in UNLESS_GIVEN.items() if name not in columns}
    columns["depth"] = columns["depth"] + columns["width"] * np.sin(np.deg2rad(columns["dip"]))  # of the lower edge
    return SlipModel(
        columns,
        "bottom_centre",
        f"{path} was read as {WORDS}: depths of upper edges in km, positions of the middle of lower edges, 1 m "
        f"of slip on each, rigidity {RIGIDITY:g} Pa.",
        tuple(table.texts("name")),
    )
