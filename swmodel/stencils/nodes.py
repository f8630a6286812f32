"""The nodes of a Graph: operations, and what they refer to."""

import dataclasses
from typing import Any

from .lines import Line

__all__ = ["At", "Constant", "Node", "Unsupported"]


class Unsupported(Exception):
    """An operation that fused loops do not have: the step runs on arrays."""


@dataclasses.dataclass(frozen=True)
class At:
    """The value of a node, `row` and `column` cells away."""

    node: int
    row: int = 0
    column: int = 0


@dataclasses.dataclass(frozen=True)
class Constant:
    value: Any
    dtype: str


@dataclasses.dataclass(frozen=True)
class Node:
    """`name` of `arguments` (At or Constant), giving a `dtype`.

    "load" has parameters (source,), "scalar" (its number); "inside" is its argument within a box and 0 outside, the box
    given by how far its (west, east, south, north) sides lie within the region that the loop computes; the others have
    those of the JAX primitive of that name that matter.

    Attributes:
        axes: 2 where the value varies from cell to cell, 1 from row to row alone, 0 not at all.
        line: the Line of Python that it comes from, or None. label: the name of the field that a "load" reads.
    """

    name: str
    arguments: tuple
    dtype: str
    parameters: tuple = ()
    axes: int = 2
    line: Line | None = dataclasses.field(default=None, compare=False, repr=False)
    label: str = dataclasses.field(default="", compare=False, repr=False)
