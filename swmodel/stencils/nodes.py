"""The nodes of a Graph: operations, and what they refer to."""

import dataclasses
from typing import Any

from .lines import Line

__all__ = ["At", "Constant", "Node", "Unsupported"]


class Unsupported(Exception):
    """Raised for an operation that fused loops do not have. The step then runs on arrays."""


@dataclasses.dataclass(frozen=True)
class At:
    """The value of a node, `row` and `column` cells away."""

    node: int
    row: int = 0
    column: int = 0


@dataclasses.dataclass(frozen=True)
class Constant:
    """A number that is known when the loop is compiled."""

    value: Any
    dtype: str


@dataclasses.dataclass(frozen=True)
class Node:
    """One operation: `name` applied to `arguments`, with a value of type `dtype`.

    Attributes:
        name: "load", "scalar", "constant", "inside", or the name of a JAX primitive.
        arguments: a tuple of At and Constant.
        dtype: the type of the value.
        parameters: (number of the source,) of a "load"; (its number,) of a "scalar". An "inside" is its argument within
            a box and 0 outside; its parameters are the distances of the box's (west, east, south, north) sides from
            those of the region that the loop computes. Others have parameters of the JAX primitive.
        axes: 2 if the value varies from cell to cell, 1 if it varies from row to row alone, 0 if it is uniform.
        line: the Line of Python that it comes from, or None.
        label: the name of the field that a "load" reads.
    """

    name: str
    arguments: tuple
    dtype: str
    parameters: tuple = ()
    axes: int = 2
    line: Line | None = dataclasses.field(default=None, compare=False, repr=False)
    label: str = dataclasses.field(default="", compare=False, repr=False)
