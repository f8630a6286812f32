"""Fields without arrays: the value at a cell is described by scalar operations on loads of neighbouring cells.

    (difference_x f)[j, i] = f[j, i + 1] - f[j, i]      from h to u and from v to q
    (difference_x f)[j, i] = f[j, i] - f[j, i - 1]      from u to h and from q to v

Nothing is computed when an Expression is made. `Trace` evaluates each Expression once, at cell (0, 0), and records the
loads. Its value at a neighbour is the same value with an offset, since all cells have the same operations.

The nodes of a Graph (graph.py) stand here too, with the line of Python that each comes from. A Source and a Layout say
where the arrays that a loop reads and writes have the cells of a tile.
"""

import dataclasses
import linecache
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import JaxprEqn, Primitive
from numpy.typing import DTypeLike

from ..fields.field import WHOLE, AbstractField, Field, Pair
from .native.library import VECTOR

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


T = TypeVar("T")

load = Primitive("load")  # of a Source at cell (0, 0)
load.def_abstract_eval(lambda *, source, dtype: ShapedArray((), dtype))
shift = Primitive("shift")  # the value that its argument has so many rows and columns away
shift.def_abstract_eval(lambda value, *, row, column: value)


@dataclasses.dataclass(eq=False)
class Source:
    """An array that a loop reads.

    Attributes:
        array: (rows, columns); one column where values do not vary along x.
        origin: (row, column) of the tile's cell (0, 0) in it.
        halo: (west, east, south, north) cells around the tile that are valid. `array` and `halo` change when ghosts are
            refreshed.
        prognostic: whether ghosts can be refreshed: a stepped field, not a parameter.
        dtype: of the value that a load gives; a mask stored in bytes is converted.
        name: of the field, shown in the source and the graph of a loop.
    """

    array: Any
    origin: tuple
    halo: tuple
    dtype: Any
    prognostic: bool = False
    name: str = ""

    @property
    def is_column(self) -> bool:
        return self.halo[0] == WHOLE


def whole_vectors(cells: int) -> int:
    """The least multiple of VECTOR that is not less than `cells`."""
    return -(-cells // VECTOR) * VECTOR


Strips: TypeAlias = tuple[tuple[tuple[int, int], tuple[int, int]], ...]
"""Strips of a tile: of each the (row, column) of its first cell, and the number of (rows, columns)."""


def cells(strips: Sequence) -> int:
    """The number of cells of Strips."""
    return sum(rows * columns for _, (rows, columns) in strips)


def cells_of(array: jax.Array, strips: Strips) -> jax.Array:
    """The cells of strips of a tile's array (..., my, mx), one strip after the other, (..., cells)."""
    parts = [array[..., j : j + rows, i : i + columns] for (j, i), (rows, columns) in strips]
    return jnp.concatenate([x.reshape(*x.shape[:-2], -1) for x in parts], axis=-1)


@dataclasses.dataclass(frozen=True)
class Layout:
    """The layout of a loop's results.

    The tile's first column lies at a multiple of the vector length, so that rows are padded beyond their ghosts.

    Attributes:
        shape: (rows, columns) of the tile.
        ghosts: the number of ghost cells around it in every result.
        batch: the axes in front of those of the tile: () or (number of ensemble members,).
    """

    shape: tuple
    ghosts: int
    batch: tuple[int, ...] = ()

    @property
    def border(self) -> tuple[int, int, int, int]:
        """Elements of an array (west, east, south, north) of the tile: ghosts and padding."""
        west, columns = whole_vectors(self.ghosts), self.shape[1]
        return west, whole_vectors(columns + self.ghosts) - columns, self.ghosts, self.ghosts

    @property
    def origin(self) -> tuple[int, int]:
        """(row, column) of the tile's cell (0, 0) in an array."""
        return self.ghosts, self.border[0]

    def result_shape(self, strips: Strips | None) -> tuple[int, ...]:
        """The shape of a result: that of `padded`, or of the cells of strips, one strip after the other."""
        return self.padded if strips is None else (*self.batch, cells(strips))

    def own(self, array: jax.Array) -> jax.Array:
        """The tile's own cells of an array."""
        west, east, south, north = self.border
        return array[..., south : array.shape[-2] - north, west : array.shape[-1] - east]

    def with_border(self, array: jax.Array, halo: Sequence[int] = (0, 0, 0, 0)) -> jax.Array:
        """An array of the tile and `halo` cells around it, padded with zeros to the whole border."""
        west, east, south, north = (border - have for border, have in zip(self.border, halo))
        return jnp.pad(array, [(0, 0)] * (array.ndim - 2) + [(south, north), (west, east)])

    @property
    def padded(self) -> tuple[int, ...]:
        west, east, south, north = self.border
        return *self.batch, self.shape[0] + south + north, self.shape[1] + west + east


class Expression(AbstractField):
    """A value at every point of `position`, numbered like Fields; `value(trace)` is that at cell (0, 0).

    Attributes:
        sources: the prognostic Sources that it reads.
        plain: the Source that it loads without further operations, or None.
        dtype: of its values.
        line: the Line of Python that made it.
        pointwise: whether its value at a point depends only on values of Sources at that same point.
    """

    def __init__(
        self,
        position: str,
        value: Callable,
        dtype: DTypeLike,
        sources: tuple[Source, ...] = (),
        plain: Source | None = None,
        pointwise: bool = True,
    ):
        self.position, self.value, self.dtype, self.sources, self.plain = position, value, dtype, sources, plain
        self.line = calling_line()
        self.pointwise = pointwise

    def become(self, source: Source) -> None:
        """Load `source`, an array of this Expression's values, from now on, in place of computing them."""
        self.value, self.sources, self.plain = (lambda trace: trace.load(source)), (source,), source
        self.pointwise = True

    def map(self, function: Callable) -> "Expression":
        return self._made(lambda trace: function(trace.at(self)))

    def along(self, pair: Pair, side: int, position: str) -> "Expression":
        low, high = {0: ((0, -1), (0, 0)), 1: ((0, 0), (0, 1)), 2: ((-1, 0), (0, 0)), 3: ((0, 0), (1, 0))}[side]

        def value(trace):
            return pair.values(trace.at(self, *low), trace.at(self, *high))

        return self._made(value, position, pointwise=False)

    def _with(self, other: "Expression | complex", function):
        if not isinstance(other, AbstractField):
            return self._made(lambda trace: function(trace.at(self), other))
        self.check_position(other)
        both = tuple(dict.fromkeys(self.sources + other.sources))  # in the same order on every rank
        pointwise = self.pointwise and other.pointwise
        return self._made(lambda trace: function(trace.at(self), trace.at(other)), sources=both, pointwise=pointwise)

    def _made(self, value, position=None, sources=None, pointwise=None):
        sources = self.sources if sources is None else sources
        pointwise = self.pointwise if pointwise is None else pointwise
        return Expression(position or self.position, value, self.dtype, sources, pointwise=pointwise)


class Trace:
    """One evaluation of Expressions, under jax.make_jaxpr.

    Attributes:
        sources: the Sources that were read, in the order of their numbers.
        lines: the Lines of the Expressions that were evaluated; named scopes refer to them by number.
    """

    def __init__(self):
        self.sources, self.lines, self._values, self._kept, self._numbers = [], [], {}, [], {}

    def at(self, expression: Expression, row: int = 0, column: int = 0) -> Any:
        """The value of an Expression, so many rows and columns away."""
        key = id(expression)
        if key not in self._values:
            self._kept.append(expression)  # this keeps it alive, so that no other object gets its id
            with jax.named_scope(f"{SCOPE}{self._number(expression.line)}"):
                self._values[key] = expression.value(self)
        value = self._values[key]
        return shift.bind(value, row=row, column=column) if row or column else value

    def _number(self, line: Line):
        if line not in self._numbers:
            self._numbers[line] = len(self.lines)
            self.lines.append(line)
        return self._numbers[line]

    def load(self, source: Source) -> Any:
        """The value of a Source at cell (0, 0)."""
        if source not in self.sources:
            self.sources.append(source)
        value = load.bind(source=self.sources.index(source), dtype=source.array.dtype)
        return value if value.dtype == source.dtype else value.astype(source.dtype)


def stored(source: Source, position: str) -> Expression:
    """The Expression that loads a Source."""
    known = (source,) if source.prognostic else ()
    return Expression(position, lambda trace: trace.load(source), source.dtype, known, source)


def lift(x: T, dtype: DTypeLike | None = None, name: str = "") -> Any:
    """A Field as an Expression that loads it, with values of its own type or of `dtype`; numbers as they are."""
    if not isinstance(x, Field) or x.data.ndim < 2:
        return x
    west, _, south, _ = x.halo
    origin = south, 0 if west == WHOLE else west
    return stored(Source(x.data, origin, x.halo, dtype or x.data.dtype, name=name), x.position)


def path_names(tree: object) -> list[str]:
    """The names of the leaves of a pytree of Expressions, from their paths, such as "terms.0.viscosity"."""
    leaves = jax.tree_util.tree_leaves_with_path(tree, is_leaf=lambda x: isinstance(x, AbstractField))
    return [
        ".".join(str(getattr(key, "name", getattr(key, "key", getattr(key, "idx", key)))) for key in path)
        for path, _ in leaves
    ]
