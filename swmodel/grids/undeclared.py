"""Values of a file of elevations that stand for missing ones, and that the file does not declare as such.

A value that no place on Earth has is one. Another kind is a value that many nodes have, far from the values around
them, if it is a number that programs write for missing values, such as -999 or 32767. Other values under water that
are repeated like this, as the floor of a dredged basin may be, only deserve a remark.
"""

import numpy as np

from ..errors import DataError

__all__ = ["HIGHEST", "impossible", "land_where_missing", "refusal", "repeated_far_from_others", "undeclared"]

FILL = -9999.0  # [m]
DEEPEST = 12000.0  # [m], below any sea floor: a larger depth is an undeclared missing value
HIGHEST = 9000.0  # [m], above any land: larger heights are in feet, or a missing value that is not declared
MANY = 8  # nodes with the same value
FAR = 10.0  # times the median difference between neighbours that differ
SAMPLE = 2**16  # differences along an axis from which the median is taken


def undeclared(z: np.ndarray) -> tuple[list[float], np.ndarray | None]:
    """(values that stand for missing ones, nodes under water whose value only may do so or None without any).

    Args:
        z: elevations [m], positive up, (rows, columns) of nodes; NaN is missing.
    """
    if (value := impossible(z)) is not None:
        return [value], None
    highest = float(np.nanmax(z, initial=0.0))
    values = [highest] if highest > HIGHEST else []
    nodes = repeated_far_from_others(z)
    if nodes is None:
        return values, None
    codes = [float(value) for value in np.unique(z[nodes]) if _is_code(value)]
    nodes &= (z < 0) & ~np.isin(z, codes)
    return values + codes, nodes if nodes.any() else None


def land_where_missing(z: np.ndarray, where: str) -> tuple[np.ndarray, np.ndarray | None]:
    """(z with NaN where a value on land stands for a missing one, the doubtful nodes of `undeclared`).

    Raises:
        DataError: for a value under water that stands for missing ones.
    """
    values, nodes = undeclared(z)
    for value in values:
        if value < 0 or np.isinf(value):
            raise DataError(refusal(z, value, where))
    high = np.nan_to_num(z) > HIGHEST
    return (np.where(high | np.isin(z, values), np.nan, z) if values else z), nodes


def refusal(z: np.ndarray, value: float, where: str) -> str:
    """The sentence on a value of the elevations `z` in the file `where`, which is not an elevation."""
    count = int(np.count_nonzero(z == value))
    return (
        f"{where} has an elevation of {value:g} m at {count:,} node{'s' * (count > 1)}: a missing value that the file "
        "does not declare, or other units, such as feet; set _FillValue in the file, or convert it to metres."
    )


def impossible(z: np.ndarray) -> float | None:
    """An elevation that no sea floor has [m], in an array with NaN where it is missing; None if there is none.

    A depth of exactly 9999 m without another one over 9000 m is a missing value, too, which files often mark so.
    """
    lowest, highest = np.nanmin(z, initial=0.0), np.nanmax(z, initial=0.0)
    if lowest < -DEEPEST or (lowest == FILL and (z[z < -9000.0] == FILL).all()):
        return float(lowest)
    return float(highest) if highest == np.inf else None


def repeated_far_from_others(z: np.ndarray) -> np.ndarray | None:
    """Nodes with a value that MANY have, and that is far from most others around them; None if there are none."""
    sides = [(z[:-1], z[1:]), (z[:, :-1], z[:, 1:])]
    sample = np.concatenate([np.abs(b - a).ravel() for a, b in (_sampled(*pair) for pair in sides)])
    changes = sample[sample > 0]  # not those of missing values
    if not changes.size:
        return None
    far = FAR * np.median(changes)
    steps = [np.abs(b - a) > far for a, b in sides]
    ends = np.concatenate([side[step] for step, pair in zip(steps, sides) for side in pair])
    values, counts = np.unique(ends[ends != 0], return_counts=True)
    order = np.argsort(-counts)[:3]
    nodes = np.zeros(z.shape, bool)
    for value in values[order][counts[order] >= MANY // 2]:
        same = z == value
        around = [(a == value) != (b == value) for a, b in sides]
        distant = sum(int((step & edge).sum()) for step, edge in zip(steps, around))
        others = sum(int((edge & np.isfinite(a + b)).sum()) for edge, (a, b) in zip(around, sides)) - distant
        if same.sum() >= MANY and distant > (1 if _is_code(value) else 3) * others:
            nodes |= same
    return nodes if nodes.any() else None


def _sampled(one, other):
    """Some of the neighbours, the same of both arrays."""
    step = one.size // SAMPLE + 1
    return one.ravel()[::step], other.ravel()[::step]


def _is_code(value):
    """Whether programs write the value for a missing one: 99, 999.9, 7777 and the like, and the ends of integers."""
    digits = f"{abs(value):g}".replace(".", "")
    repeated = len(set(digits)) == 1 and len(digits) >= (2 if digits[0] == "9" else 4)
    return repeated or abs(value) in (32766, 32767, 32768)
