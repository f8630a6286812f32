"""Slip models of the USGS as text (.param): segments of subfaults, each with a header of lines that begin with #.

A segment's header has Dx along strike and Dy down dip [km], and the boundary of the segment. Each further line is a
subfault: latitude, longitude and depth [km] of its centre, slip [cm], rake, strike and dip. Then follow the times of
rupture, of rise and of fall [s], and the moment [dyn cm]. The rise time of the model is the sum of rise and fall.
"""

import re

import numpy as np

from swmodel.errors import DataError
from swmodel.sources.formats.columns import SlipModel, numbers, rigidity_of

WORDS = "a slip model of the USGS (.param)"
SIZES = re.compile(r"Dx\s*=\s*([\d.]+)\s*km.*Dy\s*=\s*([\d.]+)\s*km", re.I)
NAMES = ("latitude", "longitude", "depth", "slip", "rake", "strike", "dip", "onset", "rise", "fall", "moment")


def read_param(path: str) -> SlipModel:
    """The SlipModel of a .param file; raises DataError where the sizes are missing, or a line is not of numbers."""
    sizes, rows, lengths = None, [], []
    is_boundary = False
    with open(path, encoding="latin-1") as file:
        for number, line in enumerate(file, 1):
            if line.startswith("#"):
                sizes = tuple(float(x) for x in match.groups()) if (match := SIZES.search(line)) else sizes
                is_boundary = bool(re.match(r"#\s*Lon", line)) or (is_boundary and "Lat" not in line)
            elif line.strip() and not is_boundary:
                rows.append((number, line))
                lengths.append(sizes)
    if any(size is None for size in lengths):
        raise DataError(f"{path} is {WORDS} whose header has no Dx and Dy in km; add them, as Dx= 20.00km.")
    table = dict(zip(NAMES, numbers(path, WORDS, rows, len(NAMES)).T))
    length, width = 1e3 * np.array(lengths, float).T
    slip = 1e-2 * table["slip"]
    rigidity = rigidity_of(1e-7 * table["moment"], slip, length, width)
    same = ("latitude", "longitude", "rake", "strike", "dip", "onset")
    columns = {name: table[name] for name in same} | {"depth": 1e3 * table["depth"], "slip": slip}
    columns |= {"length": length, "width": width, "rigidity": rigidity, "rise_time": table["rise"] + table["fall"]}
    return SlipModel(
        columns,
        "centroid",
        f"{path} was read as {WORDS}: depth in km, slip in cm, times in s (rise and fall added up), moments in dyn cm, "
        "positions of centres.",
    )
