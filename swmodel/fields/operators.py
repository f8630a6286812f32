"""C-grid operators on Fields, each of which computes a value from its two neighbours half a cell away along x or y.

    west(f), east(f), south(f), north(f)   the neighbour on that side
    difference_x(f) = east(f) - west(f)    and difference_y
    mean_x(f) = (east(f) + west(f)) / 2    and mean_y, mean_xy

    pointwise(function, f, g)              a function of the values of two Fields at one position

Along x they move a Field from h to u, from v to q, and back; along y from h to v, from u to q, and back. Each is
declared with its transpose in gather form: the cotangent is padded by one zero on each side, and the mirrored two-point
stencil is applied.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax.numpy as jnp
from jax import lax

from .field import AbstractField, Pair, Value, add, subtract
from .linear import linear_pair

__all__ = [
    "Axis",
    "X",
    "Y",
    "west",
    "east",
    "south",
    "north",
    "difference_x",
    "difference_y",
    "mean_x",
    "mean_y",
    "mean_xy",
    "pointwise",
    "sum_xy",
    "to_u",
    "to_v",
]

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
