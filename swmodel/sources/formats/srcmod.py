"""Slip models of SRCMOD (.fsp): lines that begin with % are a header, and each other line is a subfault.

Columns have the names of the last header line before them: LAT, LON, Z [km], SLIP [m], and RAKE [degrees], TRUP and
RISE [s] if they vary. Positions are those of the middle of the upper edge, as in the header: "Coordinates are given
for top-center of each subfault or segment". Where this has "center" alone, they are centres. Strike, dip, and the
lengths Dx along strike and Dz down dip [km] of subfaults are in the header, those of each segment before its columns.
Mai and Thingbaijam (2014), doi:10.1785/0220140077.
"""

import re

import numpy as np

from swmodel.defaults import RIGIDITY
from swmodel.errors import DataError
from swmodel.sources.formats.columns import SlipModel, numbers

WORDS = "a slip model of SRCMOD"
KEYS = {"strike": r"STR(?:K|IKE)", "dip": "DIP", "rake": "RAKE", "length": "Dx", "width": "Dz"}
COLUMNS = {
    "lat": "latitude",
    "lon": "longitude",
    "z": "depth",
    "slip": "slip",
    "rake": "rake",
    "trup": "onset",
    "rise": "rise_time",
}
POINTS = {"top_centre": "the middle of upper edges", "centroid": "centres"}
FACTORS = {"depth": 1e3, "length": 1e3, "width": 1e3}


def read_srcmod(path: str) -> SlipModel:
    """The SlipModel of an .fsp file; raises DataError where the header lacks a number, or a line is not of numbers."""
    values: dict[str, float] = {}
    names: list[str] = []
    parts: list[dict[str, np.ndarray]] = []
    reference = "top_centre"
    block: list[tuple[int, str]] = []
    with open(path, encoding="latin-1") as file:
        lines = list(file)
    for number, line in enumerate([*lines, "%"], 1):
        if not line.startswith("%"):
            block += [(number, line)] if line.strip() else []
            continue
        if block:
            parts.append(_part(path, values, names, block))
            block = []
        if match := re.search(r"Coordinates are given for (top)?[- ]*cent(?:er|re)", line):
            reference = "top_centre" if match[1] else "centroid"
        for key, pattern in KEYS.items():
            if match := re.search(rf"\b{pattern}\s*=\s*([-+\d.eE]+)", line):
                values[key] = float(match[1])
        if {"lat", "lon", "slip"} <= (words := {word.lower() for word in line.split()}) and "z" in words:
            names = [re.sub(r"[=([].*", "", word.lower()) for word in line.lstrip("% ").split()]
    if not parts:
        raise DataError(f"{path} is {WORDS} without subfaults; it is cut off: copy it again.")
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    timed = "with" if "onset" in columns else "without"
    return SlipModel(
        columns,
        reference,
        f"{path} was read as {WORDS}: depth in km, slip in m, {timed} times of rupture, positions of "
        f"{POINTS[reference]}, rigidity {RIGIDITY:g} Pa.",
    )


def _part(path, values, names, block):
    """The columns of the subfaults of one segment."""
    if not names:
        raise DataError(f"{path} is {WORDS} whose columns LAT, LON, Z and SLIP are not named; copy it again.")
    table = numbers(path, WORDS, block, len(names))
    part = {COLUMNS[name]: table[:, k] for k, name in enumerate(names) if name in COLUMNS}
    for key in KEYS:
        if key not in part and key not in values:
            raise DataError(f"{path} is {WORDS} whose header has no {key} of its subfaults; add it, as KEY = number.")
        part.setdefault(key, np.full(len(table), values.get(key, 0.0)))
    part = {name: column * FACTORS.get(name, 1.0) for name, column in part.items()}
    return part | {"rigidity": np.full(len(table), RIGIDITY)}
