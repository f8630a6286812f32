"""The nodes of a Graph: operations, what they refer to, and the line of Python that each comes from."""

import dataclasses
import linecache
import re
import sys
from pathlib import Path
from typing import Any, TypeAlias

from jax.extend.core import JaxprEqn

PACKAGE = Path(__file__).resolve().parents[1]
INTERNAL = tuple(f"{PACKAGE / folder}/" for folder in ("fields", "stencils"))  # where operators are defined
LONGEST = 90  # the number of characters of a line that are shown
SCOPE = "line"  # the named scope of the operations of a line is SCOPE and a number (Trace.at)


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of Python, with the role of an operation: "" for its own, "tangent of " or "cotangent of "."""

    file: str
    number: int
    role: str = ""

    def derived(self, role: str) -> "Line":
        """The Line of an operation that is derived from one of this line."""
        return self if self.role else dataclasses.replace(self, role=role)

    @property
    def place(self) -> str:
        """File and number, the file relative to the package where it lies in it."""
        path = Path(self.file)
        short = path.relative_to(PACKAGE) if path.is_relative_to(PACKAGE) else path
        return f"{short}:{self.number}"

    def __str__(self):
        text = linecache.getline(self.file, self.number).strip()
        text = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
        return f"{self.role}{self.place}: {text}" if text else f"{self.role}{self.place}"


def calling_line() -> Line:
    """The innermost line on the stack that lies outside of the folders of operators.

    A function that is an operator itself has a local variable `__tracebackhide__`, a convention of pytest and IPython.
    The line of its caller is taken.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_operator(frame.f_code):
        frame = frame.f_back
    return Line(frame.f_code.co_filename, frame.f_lineno)


def _is_operator(code):
    return code.co_filename.startswith(INTERNAL) or "__tracebackhide__" in code.co_varnames


def line_of(equation: JaxprEqn, lines: list[Line]) -> Line | None:
    """The Line of the innermost Expression whose evaluation made an equation of a jaxpr."""
    numbers = re.findall(rf"\b{SCOPE}(\d+)\b", str(equation.source_info.name_stack))
    return lines[int(numbers[-1])] if numbers else None


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


Ref: TypeAlias = At | Constant


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
