"""Fields: arrays with their C-grid position and the number of halo cells that are still valid.

Physics is written in Fields. An operator moves a Field half a cell and uses up one cell of halo on one side. Arithmetic
crops both operands to the halo that they share. Adding fields at different positions raises FieldError. All of this
happens while a program is traced, and costs nothing at run time. A `Field` holds an array. The other kind,
`stencils.Expression`, holds operations, from which fused loops are generated.
"""

import abc
import dataclasses
import operator
from collections.abc import Callable
from typing import Any, Self, TypeAlias, TypeGuard

import jax
import numpy as np
from jax import lax

__all__ = [
    "AbstractField",
    "Count",
    "Field",
    "FieldError",
    "HaloError",
    "Pair",
    "Scalar",
    "Value",
    "WHOLE",
    "add",
    "subtract",
]

WHOLE = 1 << 20  # the halo along x of a column, which is uniform along x and valid everywhere


class FieldError(TypeError):
    """Raised for an operation on Fields at different positions."""


class HaloError(ValueError):
    """Raised where a stencil reads beyond the halo, which would have to be `missing` cells wider at least."""

    def __init__(self, message: str, missing: int = 1):
        super().__init__(message)
        self.missing = missing


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


def _is_real(x: Any) -> TypeGuard[jax.Array]:
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
    def _with(self, other: Any, function: Callable) -> Any:
        """The Field of `function(value, other value)`, in the halo that both share."""

    def __add__(self, other: Any) -> Any:
        return self._with(other, add)

    def __sub__(self, other: Any) -> Any:
        return self._with(other, subtract)

    def __mul__(self, other: Any) -> Any:
        return self._with(other, multiply)

    def __truediv__(self, other: Any) -> Any:
        return self._with(other, divide)

    def __radd__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: add(b, a))

    def __rsub__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: subtract(b, a))

    def __rmul__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: multiply(b, a))

    def __rtruediv__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: divide(b, a))

    def __neg__(self) -> Any:
        return self.map(operator.neg)

    def __abs__(self) -> Any:
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
    def tree_unflatten(cls, static: tuple, leaves: Any) -> "Field":
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
        cut = [have - want for have, want in zip(self.halo, halo)]
        if min(cut) < 0:
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
        missing = -min(self.halo)
        if missing > 0:
            raise HaloError(f"the stencil of a field at {self.position!r} reached {missing} beyond the halo.", missing)
        return self.crop((0, 0, 0, 0)).data

    def map(self, function: Callable) -> Self:
        return dataclasses.replace(self, data=function(self.data))

    def along(self, pair: Pair, side: int, position: str) -> Self:
        if self.halo[side] == WHOLE:  # a column: its neighbours along x are itself
            return dataclasses.replace(self, data=pair.values(self.data, self.data), position=position)
        halo, axis = tuple(n - (k == side) for k, n in enumerate(self.halo)), -1 if side < 2 else -2
        if self.data.shape[axis] < 2:
            raise HaloError(f"the stencil of a field at {self.position!r} reached beyond all cells of a thin tile.")
        return dataclasses.replace(self, data=pair.array(self.data, axis=axis), position=position, halo=halo)

    def _with(self, other: Any, function: Callable) -> Any:
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
