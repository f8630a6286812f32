"""Tables of subfaults of GeoClaw: a CSV file whose columns have units in round brackets, or none.

Without a unit, a length or depth is in km if no value of the column reaches 1000, and else in m. A slip is in m if
none exceeds 100, and else in cm. Positions are centres unless a column `reference` names another point.
"""

import re

import numpy as np

from swmodel.defaults import RIGIDITY
from swmodel.errors import DataError
from swmodel.runtime.formats import read_csv
from swmodel.sources.formats.columns import SlipModel

WORDS = "a table of subfaults of GeoClaw"
UNITS = {"km": 1e3, "m": 1.0, "cm": 1e-2, "s": 1.0, "min": 60.0, "pa": 1.0, "gpa": 1e9, "deg": 1.0, "degrees": 1.0}
NAMES = {"rupture_time": "onset", "mu": "rigidity"}
NEEDED = ("longitude", "latitude", "depth", "length", "width", "strike", "dip", "rake", "slip")
OPTIONAL = ("onset", "rise_time", "rigidity")


def read_geoclaw(path: str) -> SlipModel:
    """The SlipModel of a table; raises DataError for a column that is missing, an unknown unit, or other texts."""
    table, columns, units = read_csv(path, inline_comments=True, formats=("subfaults",)), {}, []
    for header in table.names:
        match = re.fullmatch(r"(\w+)\s*(?:\(\s*(\w+)\s*\))?", header.strip().lower())
        name = NAMES.get(match[1], match[1]) if match else header
        if match is None or name not in (*NEEDED, *OPTIONAL):
            continue
        values = table.numbers(header)
        unit = match[2] or _unit_of(name, values)
        if unit not in UNITS:
            raise DataError(f"{path} is {WORDS} with the unit {unit!r} of {name}; give one of {', '.join(UNITS)}.")
        columns[name] = values * UNITS[unit]
        units += [f"{name} in {unit}"] if name in ("depth", "length", "width", "slip") else []
    if missing := [name for name in NEEDED if name not in columns]:
        raise DataError(f"{path} is {WORDS} without {', '.join(missing)}; add a column for each.")
    columns.setdefault("rigidity", np.full(len(table.rows), RIGIDITY))
    references = set(table.texts("reference")) if "reference" in table.names else {"centroid"}
    if len(references) > 1:
        raise DataError(f"{path} is {WORDS} with several reference points, {', '.join(sorted(references))}; give one.")
    reference = references.pop()
    return SlipModel(
        columns,
        reference,
        f"{path} was read as {WORDS}: {', '.join(units)}, positions of the {reference} of subfaults.",
    )


def _unit_of(name, values):
    """The unit of a column that has none."""
    largest = np.nanmax(np.abs(values), initial=0.0)
    if name in ("depth", "length", "width"):
        return "km" if largest < 1000.0 else "m"
    return ("m" if largest <= 100.0 else "cm") if name == "slip" else "deg"
