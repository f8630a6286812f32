"""Levels of the Sea Level Station Monitoring Facility of the IOC: its tables in text, and JSON of its services.

A table has a line of names, "Time (UTC)" and one sensor a column, such as rad(m) and prs(m); columns are separated by
tabs. JSON is a list of {"slevel": level, "stime": date, "sensor": name}. Levels are in metres above a level of each
sensor's own, and times in UTC.
"""

import csv
import json
import re
from pathlib import Path

import numpy as np

from ..errors import DataError
from .levels import Levels, moments_of, numbers_of

WORDS = "levels of the IOC's monitoring facility"
TIMES = "Time (UTC)"


def read(path: str | Path, kind: str, sensor: str = "") -> Levels:
    """The Levels of one sensor: `sensor`, or the one with the most samples.

    Raises:
        DataError: for a file that is damaged, and for a sensor that it lacks.
    """
    sensors = _of_json(path) if kind == "ioc_json" else _of_text(path)
    if not sensors:
        raise DataError(f"{path}, {WORDS}: it names no sensor; get it again.")
    if sensor and sensor not in sensors:
        raise DataError(f"{path}, {WORDS}: there is no sensor {sensor!r}; it has {', '.join(sensors)}.")
    name = sensor or max(sensors, key=lambda one: np.isfinite(sensors[one][1]).sum())
    moments, value = sensors[name]
    others = [other for other in sensors if other != name]
    note = f"sensor {name}" + (f" and not {', '.join(others)}" if others else "")
    return Levels(WORDS, moments, value, "m", "UTC", "a level of the sensor's own", (note,))


def _of_json(path):
    """{sensor: (moments, levels)}."""
    try:
        samples = json.loads(Path(path).read_text(encoding="utf-8"))
        sensors: dict[str, list] = {}
        for sample in samples:
            sensors.setdefault(str(sample["sensor"]).strip(), []).append((sample["stime"].strip(), sample["slevel"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is a damaged JSON file of {WORDS} ({error}); get it again.") from None
    return {
        name: (moments_of(path, WORDS, [t for t, _ in rows]), numbers_of(path, WORDS, [v for _, v in rows]))
        for name, rows in sensors.items()
    }


def _of_text(path):
    """{sensor: (moments, levels)}."""
    lines = Path(path).read_text(encoding="utf-8-sig", errors="replace").splitlines()
    first = next(k for k, line in enumerate(lines) if TIMES in line)
    delimiter = next((mark for mark in "\t;," if mark in lines[first]), "\t")
    head, *rows = csv.reader((line for line in lines[first:] if line.strip()), delimiter=delimiter)
    names = [re.sub(r"\s*\(m\)", "", name).strip() for name in head[1:]]
    if wrong := [name for name in names if "(" in name]:
        raise DataError(f"{path}, {WORDS}: the column {wrong[0]} is not in m, as the facility writes it; convert it.")
    if not rows:
        raise DataError(f"{path}, {WORDS}: it has no samples; get it again, for another period.")
    moments = moments_of(path, WORDS, [row[0].strip() for row in rows])
    return {
        name: (moments, numbers_of(path, WORDS, [row[k].strip() if k < len(row) else "" for row in rows]))
        for k, name in enumerate(names, 1)
        if name
    }
