"""Levels: the record of a gauge as its provider wrote it, in the provider's units and zone."""

import dataclasses
import datetime
import importlib
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from ..errors import DataError
from ..fields.parameters import in_utc

METRES = {"m": 1.0, "cm": 0.01, "mm": 0.001, "ft": 0.3048}
READERS = {  # {format of runtime/formats.py: module of this folder, with a function `read` from a path to Levels}
    "coops_csv": "coops",
    "coops_json": "coops",
    "ioc": "ioc",
    "ioc_json": "ioc",
    "dart": "dart",
    "uhslc": "uhslc",
    "uhslc_csv": "uhslc",
    "uhslc_dat": "uhslc",
}


@dataclasses.dataclass(frozen=True, eq=False)
class Levels:
    """The record of a gauge.

    Attributes:
        words: the format.
        moments: dates and times in `zone`, datetime64[ms] (n,).
        value: level above `datum` in `unit`, (n,); NaN is a gap.
        unit: one of METRES; "" if the file does not state it.
        zone: "UTC"; "" if the file does not state it.
        datum: what levels count from, in words.
        notes: what a user should know of the file, each a few words.
    """

    words: str
    moments: np.ndarray
    value: np.ndarray
    unit: str
    zone: str
    datum: str
    notes: tuple[str, ...] = ()


def read_levels(kind: str, path: str | Path, sensor: str = "") -> Levels:
    """The Levels of a file in the format `kind` of READERS.

    Args:
        kind: the format.
        path: of the file.
        sensor: its name in a file of several.

    Raises:
        DataError: for a file that is damaged; the sentence names the format.
    """
    module = importlib.import_module(f".{READERS[kind]}", __package__)
    return module.read(path, kind, sensor)


def moments_of(path: str | Path, words: str, texts: Iterable[str]) -> np.ndarray:
    """datetime64[ms] (n,) of dates such as 2011-03-11 05:46 or 2011/03/11 05:46:23; raises DataError for others."""
    moments = []
    for text in texts:
        try:
            moments.append(in_utc(datetime.datetime.fromisoformat(re.sub(r"(\d)/(\d)", r"\1-\2", text))))
        except ValueError:
            raise DataError(
                f"{path}, {words}: {text!r} is no date as 2011-03-11 05:46; the file is damaged, so get it again."
            ) from None
    return np.array(moments, "datetime64[ms]")


def numbers_of(path: str | Path, words: str, texts: Iterable[object]) -> np.ndarray:
    """The numbers that texts stand for, (n,), NaN for empty ones; raises DataError for others."""
    numbers = []
    for text in texts:
        try:
            numbers.append(float(str(text)) if text not in ("", "-", None) else np.nan)
        except ValueError:
            raise DataError(
                f"{path}, {words}: {text!r} is not a number; the file is damaged, so get it again."
            ) from None
    return np.array(numbers, float)
