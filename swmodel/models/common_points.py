"""Give the tracks and records of an ensemble's members the same points in time.

Tracks and records are linear between their points, so that further points on these lines leave them unchanged. Members
then differ in the values of their vectors alone, and one program steps them.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

__all__ = ["has_points", "on_common_points"]


def has_points(part: Any) -> bool:
    """Whether a part of a model, or a value of its parameters, has lines between points in time."""
    return bool(getattr(part, "lines", ()))


def on_common_points(communicator: Any, trees: Sequence) -> list:
    """The pytrees of all members, in which lines have the points of all members in the time that all of them cover."""
    flat = [jax.tree.flatten(tree, is_leaf=has_points) for tree in trees]
    columns = [_common(communicator, column) for column in zip(*(leaves for leaves, _ in flat))]
    alike = len({len(leaves) for leaves, _ in flat}) == 1  # else they differ in more than their points
    return (
        [structure.unflatten(leaves) for leaves, (_, structure) in zip(zip(*columns), flat)] if alike else list(trees)
    )


def _common(communicator, parts):
    if not all(map(has_points, parts)):
        return parts
    points = [part.points(communicator) for part in parts]
    if all(np.array_equal(points[0], other) for other in points):
        return parts
    begin, end = max(own[0] for own in points), min(own[-1] for own in points)
    moments = np.unique(np.clip(np.concatenate(points), begin, end))

    def line(values, own):
        tiles = communicator.tiles(values)
        return communicator.place(lambda rank: np.interp(moments, own, tiles[rank]).astype(values.dtype))

    return [
        part.with_points(moments, {name: line(getattr(part, name), own) for name in part.lines}, communicator)
        for part, own in zip(parts, points)
    ]
