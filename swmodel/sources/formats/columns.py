"""What a reader of a slip model gives, and the numbers in the lines of its file."""

import dataclasses
from collections.abc import Iterable

import numpy as np

from swmodel.defaults import RIGIDITY
from swmodel.errors import DataError


@dataclasses.dataclass(frozen=True)
class SlipModel:
    """Subfaults of a file.

    Attributes:
        columns: {name of an argument of Fault: (n,)} [SI units, degrees].
        reference: the point of a subfault that is given, as of Fault.
        assumed: a sentence on units and positions.
        names: of the subfaults, by which sources are combined; none if they have none.
    """

    columns: dict[str, np.ndarray]
    reference: str
    assumed: str
    names: tuple[str, ...] = ()


def numbers(path: str, words: str, lines: Iterable[tuple[int, str]], count: int) -> np.ndarray:
    """The numbers (n, count) in lines with their number in the file; raises DataError for others, and for none."""
    rows = []
    for number, line in lines:
        try:
            rows.append([float(text.replace("D", "e")) for text in line.split()[:count]])
        except ValueError:
            rows.append([])
        if len(rows[-1]) < count:
            raise DataError(
                f"{path}, line {number}: {words} has {count} numbers there, not {line.strip()!r}; correct it."
            )
    if not rows:
        raise DataError(f"{path} is {words} without subfaults; it is cut off: copy it again.")
    return np.array(rows)


def rigidity_of(moment: np.ndarray, slip: np.ndarray, length: np.ndarray, width: np.ndarray) -> np.ndarray:
    """moment [N m] / (slip x length x width) [Pa] of subfaults; RIGIDITY of those without slip or moment."""
    volume = slip * length * width
    return np.where((volume > 0) & (moment > 0), moment / np.where(volume > 0, volume, 1.0), RIGIDITY)
