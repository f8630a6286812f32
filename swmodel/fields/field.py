"""Fields, arrays with their C-grid position and the number of halo cells that are still valid, and C-grid operators.

Physics is written in Fields. An operator moves a Field half a cell and uses up one cell of halo on one side. Arithmetic
crops both operands to the halo that they share. Adding fields at different positions raises FieldError. All of this
happens while a program is traced. A `Field` holds an array, a `stencils.Expression` operations for fused loops.

    west(f), east(f), south(f), north(f)   the neighbour on that side
    difference_x(f) = east(f) - west(f)    and difference_y
    mean_x(f) = (east(f) + west(f)) / 2    and mean_y, mean_xy
    pointwise(function, f, g)              a function of the values of two Fields at one position

Along x they move a Field from h to u, from v to q, and back; along y from h to v, from u to q, and back. Transposes are
in gather form: the cotangent is padded by one zero on each side, and the mirrored two-point stencil is applied.
"""

import abc
import contextlib
import contextvars
import dataclasses
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Self, TypeAlias, TypeGuard, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .linear import linear_pair

WHOLE = 1 << 20  # the halo along x of a column, which is uniform along x and valid everywhere


class FieldError(TypeError):
    """Raised for an operation on Fields at different positions."""


class HaloError(ValueError):
    """Raised where a stencil reads beyond the halo, which would have to be `missing` cells wider at least."""

    def __init__(self, message: str, missing: int = 1):
        super().__init__(message)
        self.missing = missing


_GAPS: contextvars.ContextVar[list[int] | None] = contextvars.ContextVar("gaps", default=None)


@contextlib.contextmanager
def measured_gaps() -> Iterator[list[int]]:
    """Within it, interiors without enough halo are padded with zeros, and each adds to the list how much was missing.

    So one trace of a step, whose values do not matter, finds all stencils that reach beyond the halo.
    """
    gaps: list[int] = []
    token = _GAPS.set(gaps)
    try:
        yield gaps
    finally:
        _GAPS.reset(token)


def _by_primitive(primitive: Callable, function: Callable) -> Callable:
    """`function` of two values by JAX's primitive, which is traced faster, where neither value has to be converted."""

    def apply(a, b):
        if type(b) is float and _is_real(a):
            return primitive(a, a.dtype.type(b))
        if type(a) is float and _is_real(b):
            return primitive(b.dtype.type(a), b)
        alike = (
            _is_real(a) and _is_real(b) and a.dtype == b.dtype and (a.shape == b.shape or not a.shape or not b.shape)
        )
        return (primitive if alike else function)(a, b)

    return apply


def _is_real(x: object) -> TypeGuard[jax.Array]:
    """Whether a value is an array of real numbers whose type is definite."""
    return isinstance(x, jax.Array) and x.dtype.kind == "f" and not x.weak_type


add, subtract = _by_primitive(lax.add, operator.add), _by_primitive(lax.sub, operator.sub)
multiply, divide = _by_primitive(lax.mul, operator.mul), _by_primitive(lax.div, operator.truediv)


@dataclasses.dataclass(frozen=True)
class Pair:
    """An operation on two neighbours, in two forms.

    Attributes:
        array: the operation on arrays, `array(x, axis=)`, whose result has one cell less along the axis.
        values: the operation on two values, `values(low, high)`.
    """

    array: Callable
    values: Callable


class AbstractField(abc.ABC):
    """A value at every point of one C-grid position, with the arithmetic of such values.

    Attributes:
        position: "h", "u", "v" or "q".
    """

    position: str

    @abc.abstractmethod
    def map(self, function: Callable) -> Self:
        """The Field of `function(value)` at each point; the function works value by value."""

    @abc.abstractmethod
    def along(self, pair: Pair, side: int, position: str) -> Self:
        """The Field at `position`, half a cell away, of a Pair of neighbours.

        Args:
            pair: the operation.
            side: the side of the halo that loses a cell, numbered as in `halo`. It is the east (or north) if the value
                between cells i and i + 1 has the number i, the west (or south) if that between faces i - 1 and i has.
            position: of the result.
        """

    @abc.abstractmethod
    def _with(self, other: "Value", function: Callable) -> Self:
        """The Field of `function(value, other value)`, in the halo that both share."""

    def __add__(self, other: "Value") -> Self:
        return self._with(other, add)

    def __sub__(self, other: "Value") -> Self:
        return self._with(other, subtract)

    def __mul__(self, other: "Value") -> Self:
        return self._with(other, multiply)

    def __truediv__(self, other: "Value") -> Self:
        return self._with(other, divide)

    def __radd__(self, other: "Value") -> Self:
        return self._with(other, lambda a, b: add(b, a))

    def __rsub__(self, other: "Value") -> Self:
        return self._with(other, lambda a, b: subtract(b, a))

    def __rmul__(self, other: "Value") -> Self:
        return self._with(other, lambda a, b: multiply(b, a))

    def __rtruediv__(self, other: "Value") -> Self:
        return self._with(other, lambda a, b: divide(b, a))

    def __neg__(self) -> Self:
        return self.map(operator.neg)

    def __abs__(self) -> Self:
        return self.map(abs)

    def check_position(self, other: "AbstractField") -> None:
        """Raise FieldError unless both lie at the same points."""
        if self.position != other.position:
            raise FieldError(
                f"a field at {self.position!r} cannot be combined with one at {other.position!r}; move one of them "
                "first, by mean_x or mean_y."
            )


@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass(frozen=True)
class Field(AbstractField):
    """An array at `position` ("h", "u", "v", "q") with `halo` = (west, east, south, north) cells around the tile.

    Attributes:
        data: (..., ny + south + north, nx + west + east); a metric column has one cell along x and halo WHOLE there.
    """

    data: jax.Array
    position: str
    halo: tuple[int, ...]

    def tree_flatten(self) -> tuple[tuple, tuple]:
        """((data,), (position, halo)): the leaf and the structure."""
        return (self.data,), (self.position, self.halo)

    @classmethod
    def tree_unflatten(cls, static: tuple, leaves: Sequence[jax.Array]) -> "Field":
        """The inverse of tree_flatten."""
        return cls(leaves[0], *static)

    @property
    def dtype(self) -> np.dtype:
        """The type of the values."""
        return self.data.dtype

    def crop(self, halo: tuple[int, ...]) -> "Field":
        """The same Field with less halo.

        Raises:
            HaloError: if it has less halo than that on any side.
        """
        if halo == self.halo:
            return self
        if min(cut := [have - want for have, want in zip(self.halo, halo)]) < 0:
            raise HaloError(
                f"a field at {self.position!r} with halo {self.halo} cannot have halo {tuple(halo)}.", -min(cut)
            )
        is_column = self.halo[0] == WHOLE
        (*lead, rows, columns), (west, east, south, north) = self.data.shape, (0, 0, *cut[2:]) if is_column else cut
        data = self.data
        if west or east or south or north:
            data = lax.slice(data, (*[0] * len(lead), south, west), (*lead, rows - north, columns - east))
        kept = (WHOLE, WHOLE, *halo[2:]) if is_column else tuple(halo)
        return Field(data, self.position, kept)

    @property
    def interior(self) -> jax.Array:
        """The tile's own cells, (..., ny, nx).

        Raises:
            HaloError: if the operations that made the Field used up more halo than there was.
        """
        missing, gaps = -min(self.halo), _GAPS.get()
        if missing <= 0:
            return self.crop((0, 0, 0, 0)).data
        if gaps is None:
            raise HaloError(f"the stencil of a field at {self.position!r} reached {missing} beyond the halo.", missing)
        gaps.append(missing)
        west, east, south, north = (0 if n == WHOLE else -n for n in self.halo)
        widths = *[(0, 0, 0)] * (self.data.ndim - 2), (south, north, 0), (west, east, 0)
        return lax.pad(self.data, jnp.zeros((), self.dtype), widths)

    def map(self, function: Callable) -> Self:
        return dataclasses.replace(self, data=function(self.data))

    def along(self, pair: Pair, side: int, position: str) -> Self:
        if self.halo[side] == WHOLE:  # a column: its neighbours along x are itself
            return dataclasses.replace(self, data=pair.values(self.data, self.data), position=position)
        halo, axis = tuple(n - (k == side) for k, n in enumerate(self.halo)), -1 if side < 2 else -2
        if self.data.shape[axis] < 2:
            raise HaloError(f"the stencil of a field at {self.position!r} reached beyond all cells of a thin tile.")
        return dataclasses.replace(self, data=pair.array(self.data, axis=axis), position=position, halo=halo)

    def _with(self, other: "Value", function: Callable) -> "Field":
        if not isinstance(other, AbstractField):
            return Field(function(self.data, other), self.position, self.halo)
        if not isinstance(other, Field):
            return NotImplemented
        self.check_position(other)
        shared = tuple(map(min, self.halo, other.halo))
        return Field(function(self.crop(shared).data, other.crop(shared).data), self.position, shared)


Count: TypeAlias = int | jax.Array  # a number of steps, which may be traced
Scalar: TypeAlias = float | jax.Array  # a number, which may be traced
Value: TypeAlias = AbstractField | jax.Array | float  # what terms compute with: a Field, an array or a number


# -- operators ---------------------------------------------------------------------------------------------------------

FieldT = TypeVar("FieldT", bound=AbstractField)

_MOVES = {"x": {"h": "u", "u": "h", "v": "q", "q": "v"}, "y": {"h": "v", "v": "h", "u": "q", "q": "u"}}
_CENTRED = {"x": "hv", "y": "hu"}  # positions in the middle of a cell along that axis


def _low(x, *, axis):
    return lax.slice_in_dim(x, 0, x.shape[axis] - 1, axis=x.ndim + axis)


def _high(x, *, axis):
    return lax.slice_in_dim(x, 1, x.shape[axis], axis=x.ndim + axis)


def _padded(y, axis, low, high):
    widths = [(0, 0, 0)] * y.ndim
    widths[axis] = (low, high, 0)
    return lax.pad(y, jnp.zeros((), y.dtype), widths)


def _difference(x, *, axis):
    return subtract(_high(x, axis=axis), _low(x, axis=axis))


def _difference_transposed(y, *, axis):
    return -_difference(_padded(y, axis, 1, 1), axis=axis)


def _sum(x, *, axis):
    return add(_high(x, axis=axis), _low(x, axis=axis))


def _sum_transposed(y, *, axis):
    return _sum(_padded(y, axis, 1, 1), axis=axis)


low, _ = linear_pair("low_neighbour", _low, lambda y, *, axis: _padded(y, axis, 0, 1))
high, _ = linear_pair("high_neighbour", _high, lambda y, *, axis: _padded(y, axis, 1, 0))
difference, _ = linear_pair("difference", _difference, _difference_transposed)
pair_sum, _ = linear_pair("pair_sum", _sum, _sum_transposed)


LOW = Pair(low, lambda low, high: low)
HIGH = Pair(high, lambda low, high: high)
DIFFERENCE = Pair(difference, lambda low, high: subtract(high, low))
SUM = Pair(pair_sum, add)


def _apply(pair: Pair, field: FieldT, direction: str) -> FieldT:
    side = {"x": 0, "y": 2}[direction] + (field.position in _CENTRED[direction])
    return field.along(pair, side, _MOVES[direction][field.position])


def west(f: FieldT) -> FieldT:
    """The neighbour on the west."""
    return _apply(LOW, f, "x")


def east(f: FieldT) -> FieldT:
    """The neighbour on the east."""
    return _apply(HIGH, f, "x")


def south(f: FieldT) -> FieldT:
    """The neighbour on the south."""
    return _apply(LOW, f, "y")


def north(f: FieldT) -> FieldT:
    """The neighbour on the north."""
    return _apply(HIGH, f, "y")


def difference_x(f: FieldT) -> FieldT:
    """east(f) - west(f): h to u, v to q, and back."""
    return _apply(DIFFERENCE, f, "x")


def difference_y(f: FieldT) -> FieldT:
    """north(f) - south(f): h to v, u to q, and back."""
    return _apply(DIFFERENCE, f, "y")


def mean_x(f: FieldT) -> FieldT:
    """(east(f) + west(f)) / 2: h to u, v to q, and back."""
    return 0.5 * _apply(SUM, f, "x")


def mean_y(f: FieldT) -> FieldT:
    """(north(f) + south(f)) / 2: h to v, u to q, and back."""
    return 0.5 * _apply(SUM, f, "y")


def sum_xy(f: FieldT) -> FieldT:
    """The sum of the four neighbours: h to q, u to v and back."""
    return _apply(SUM, _apply(SUM, f, "x"), "y")


class Axis(NamedTuple):
    """The operators along one direction: `low` and `high` are the neighbours half a cell away."""

    low: Callable
    high: Callable
    difference: Callable
    mean: Callable


X = Axis(west, east, difference_x, mean_x)
Y = Axis(south, north, difference_y, mean_y)


def pointwise(function: Callable, f: FieldT, g: FieldT) -> FieldT:
    """The Field of `function(value of f, value of g)`, for two Fields at one position, in the halo that both share.

    The function may be any jax.numpy function that works value by value, such as jnp.minimum.

    Raises:
        FieldError: if the Fields lie at different positions.
    """
    return f._with(g, function)


def mean_xy(f: FieldT) -> FieldT:
    """The mean of the four neighbours: h to q, u to v, and back."""
    return 0.25 * sum_xy(f)


def to_u(x: Value) -> Value:
    """A parameter at cell centres averaged to u points; a number as it is."""
    return mean_x(x) if isinstance(x, AbstractField) else x


def to_v(x: Value) -> Value:
    """A parameter at cell centres averaged to v points; a number as it is."""
    return mean_y(x) if isinstance(x, AbstractField) else x
