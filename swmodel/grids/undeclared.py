"""Values of a file of elevations that stand for missing ones, and that the file does not declare as such.

A value that no place on Earth has is one. Another kind is a value that many nodes have, far from the values around
them, if it is a number that programs write for missing values, such as -999 or 32767. Other values under water that
are repeated like this, as the floor of a dredged basin may be, only deserve a remark.

How often a value is repeated does not depend on how the grid is cut: every rank counts it in the same sample of the
file, and applies what it finds to the nodes of its own. The sample is the box that the grid needs or, of a large box,
bands of its rows.
"""

import functools
from typing import Any

import numpy as np

from ..errors import DataError
from .axes import label

FILL = -9999.0  # [m]
TRENCH = -8000.0  # [m]
DEEPEST = 12000.0  # [m], below any sea floor: a larger depth is an undeclared missing value
HIGHEST = 9000.0  # [m], above any land: larger heights are in feet, or a missing value that is not declared
MANY = 8  # nodes with the same value
FAR = 10.0  # times the median difference between neighbours that differ
SAMPLE = 2**16  # differences along an axis from which the median is taken
NODES = 2**22  # of a box that is the sample as a whole
BANDS, IN_BANDS = 16, 2**18  # of rows, spread over a larger box, and their nodes: every rank reads them


class Undeclared:
    """Values of a field that stand for missing ones, determined by a sample of the box that a grid needs.

    Args:
        elevation: the field [m], positive up.
        plan: its Remapping to the whole grid.
    """

    def __init__(self, elevation: Any, plan: Any):
        self.elevation, self.plan = elevation, plan

    @functools.cached_property
    def _found(self):
        """({value for missing ones: its nodes}, doubtful depths)."""
        z = _sample(self.elevation, self.plan)
        values, nodes = undeclared(z)
        return _counted(z, values), np.unique(z[nodes]) if nodes is not None else np.zeros(0)

    def check(self, z: np.ndarray, most: float = float(np.finfo(float).max)) -> None:
        """Refuse a field if the box or the nodes `z` have a value for missing ones that is negative or over `most`.

        Raises:
            DataError: for such a value.
        """
        counts, _ = self._found
        lowest, highest = impossible(z), float(np.nanmax(z, initial=0.0))
        own = ([] if lowest is None else [lowest]) + [highest] * (highest > HIGHEST)
        for value, count in (counts | _counted(z, [x for x in own if x not in counts])).items():
            if value < 0 or value > most:
                nodes = f"{count:,} node{'s' * (count > 1)}" + ("" if _has_all(self.plan) else " or more")
                raise DataError(
                    f"{label(self.elevation)} has an elevation of {value:g} m at {nodes}: a missing value that the "
                    "file does not declare, or other units, such as feet; set _FillValue in the file, or convert it to "
                    "metres."
                )

    def land_where_missing(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """(z with NaN where a value on land stands for a missing one, nodes whose depth may do so or None without any).

        Raises:
            DataError: for a value under water that stands for missing ones.
        """
        self.check(z)
        counts, depths = self._found
        missing, doubtful = (np.nan_to_num(z) > HIGHEST) | np.isin(z, list(counts)), np.isin(z, depths)
        return (np.where(missing, np.nan, z) if missing.any() else z), doubtful if doubtful.any() else None


def _counted(z, values):
    return {value: int(np.count_nonzero(z == value)) for value in values}


def _has_all(plan):
    """Whether the sample is the box of a Remapping."""
    return (plan.rows.stop - plan.rows.start) * plan.x.size <= NODES


def _sample(elevation, plan):
    """Rows of the box of a Remapping, the same on every rank: all, or bands with a row of NaN after each."""
    first, last, columns = plan.rows.start, plan.rows.stop, plan.x.size
    if _has_all(plan):
        return plan.read(elevation)
    height = min(max(2, IN_BANDS // (BANDS * columns)), last - first)
    count = min(max(4, IN_BANDS // (height * columns)), BANDS, (last - first) // height)
    begins = np.linspace(first, last - height, count).astype(int).tolist()
    gap = np.full((1, columns), np.nan)
    bands = [(plan.read(elevation, slice(j, j + height)), gap) for j in begins]
    return np.concatenate([part for band in bands for part in band])


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


def impossible(z: np.ndarray) -> float | None:
    """An elevation that no sea floor has [m], in (rows, columns) with NaN where it is missing; None if there is none.

    Files often mark missing values by a depth of 9999 m. It is one unless all nodes next to it are in a TRENCH. So the
    verdict on a file does not depend on how the grid is cut.
    """
    lowest, highest = np.nanmin(z, initial=0.0), np.nanmax(z, initial=0.0)
    if lowest < -DEEPEST:
        return float(lowest)
    filled, above = z == FILL, z > TRENCH
    sides = [(filled[:-1], above[1:]), (filled[1:], above[:-1])]
    sides += [(filled[:, :-1], above[:, 1:]), (filled[:, 1:], above[:, :-1])]
    if filled.any() and ((filled | np.isnan(z)).all() or any((node & other).any() for node, other in sides)):
        return FILL
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
    repeated = len(set(digits)) == 1 and abs(value) >= (99 if digits[0] == "9" else 1000)
    return repeated or abs(value) in (32766, 32767, 32768)
