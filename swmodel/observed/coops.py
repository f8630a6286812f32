"""Water levels of CO-OPS (NOAA): CSV and JSON of the interface `datagetter`, and CSV exported from its pages.

The interface writes neither unit nor zone nor datum: these are those of the request, units=metric or english,
time_zone=gmt, lst or lst_ldt, datum=MSL, MLLW, NAVD, .... The pages write unit and zone to the names of the columns.
https://api.tidesandcurrents.noaa.gov/api/prod/responseHelp.html lists the columns and flags.
"""

import json
import re
from pathlib import Path

import numpy as np

from ..errors import DataError
from ..runtime.formats import read_csv
from .levels import Levels, moments_of, numbers_of

WORDS = "water levels of CO-OPS"
LEVELS = "Water Level", "Verified", "Preliminary", "Predict"  # columns, the best one first
DATUM = "the datum of the request"


def read(path: str | Path, kind: str, sensor: str = "") -> Levels:
    """The Levels of a file; of verified and preliminary levels, verified ones where there are any.

    Raises:
        DataError: for a file that is damaged, or holds the interface's message of an error.
    """
    return _of_json(path) if kind == "coops_json" else _of_csv(path)


def _of_json(path):
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is a JSON file of CO-OPS that ends early ({error}); get it again.") from None
    if "error" in found:
        message = str(found["error"].get("message", "")).strip()
        raise DataError(f"{path} holds no levels, but a message of CO-OPS, {message!r}; change the request.")
    samples = found.get("data", found.get("predictions", []))
    try:
        moments = moments_of(path, WORDS, [sample["t"] for sample in samples])
        value = numbers_of(path, WORDS, [sample["v"] for sample in samples])
    except (KeyError, TypeError):
        raise DataError(f"{path} is a JSON file of CO-OPS with samples without t or v; get it again.") from None
    flagged = sum("1" in str(sample.get("f", "")).split(",")[1:] for sample in samples)
    station = f"station {found['metadata']['id']}" if "id" in found.get("metadata", {}) else ""
    notes = (station, "predictions" if "predictions" in found else "", _flags(flagged))
    return Levels(WORDS, moments, value, "", "", DATUM, tuple(note for note in notes if note))


def _flags(count):
    return f"{count:,} samples flagged as flat, as fast or as beyond limits" if count else ""


def _of_csv(path):
    table = read_csv(path, formats=("coops_csv",))
    columns = [name for level in LEVELS for name in table.names if name.startswith(level)]
    if not columns:
        raise DataError(f"{path} is a CSV file of CO-OPS without levels; ask for product=water_level.")
    values = [numbers_of(path, WORDS, table.texts(name)) for name in columns]
    value, used = values[0], columns[0]
    for name, other in zip(columns[1:], values[1:]):
        if not name.startswith("Predict"):
            value = np.where(np.isfinite(value), value, other)
    unit = re.search(r"\((m|ft)\)", used)
    times = [name for name in table.names if name.startswith(("Date", "Time"))]
    texts = [" ".join(cells) for cells in zip(*(table.texts(name) for name in times))]
    zone = re.search(r"\(([^)]*)\)", " ".join(times))
    if zone and zone[1] not in ("GMT", "UTC"):
        raise DataError(f"{path}, {WORDS}: times are in {zone[1]}, local ones; get it again in GMT.")
    flagged = sum(any(row.get(flag) == "1" for flag in ("F", "R", "L")) for row in table.rows)
    notes = ("predictions" if used.startswith("Predict") else "", _flags(flagged))
    return Levels(
        WORDS,
        moments_of(path, WORDS, texts),
        value,
        unit[1] if unit else "",
        "UTC" if zone else "",
        DATUM,
        tuple(note for note in notes if note),
    )
