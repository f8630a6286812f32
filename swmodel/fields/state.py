"""State: the fields of one tile that a time stepper advances, by name; and `pytree`, by which it is one for JAX.

Every State holds u, v and eta (variables.PROGNOSTIC), and may hold further prognostic fields, such as a tracer's
content. Only the momentum and continuity equations name u, v and eta. Other code goes through the fields of a State by
`map`, `names` or iteration, so that it works for any number of them.
"""

import dataclasses
import operator
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeVar, cast, dataclass_transform

import jax
import jax.numpy as jnp

from .field import AbstractField, Field, Scalar, Value
from .parameters import check_fields, declared, has_rules, parameter
from .variables import PROGNOSTIC, names_in_layer

T = TypeVar("T")
MOST_REMEMBERED = 64


def replace(instance: T, **changes: object) -> T:
    """A copy of a frozen dataclass, or of a State, with other values of some fields."""
    if dataclasses.is_dataclass(instance) and not isinstance(instance, type):
        return dataclasses.replace(instance, **changes)
    change: Callable = getattr(instance, "replace")  # noqa: B009  (a State, which T does not say)
    return change(**changes)


def replaced(part: T, changes: dict) -> T:
    """A copy of a part with other values of some of its fields. The new values are not checked."""
    new = object.__new__(type(part))
    vars(new).update(vars(part), **changes)
    return new


def unchecked(cls: type[T], values: dict) -> T:
    """An object of a class with these `values` of some of its fields. They are not checked."""
    new = object.__new__(cls)
    vars(new).update(values)
    return new


def remembered(results: dict[object, T], tree: object, make: Callable[[], T]) -> T:
    """The result of `make()` for a pytree, kept in `results` for trees of the same structure, shapes and types.

    What follows from tracing a function of the tree depends on these alone. The oldest of 64 results is dropped.
    """
    leaves, structure = jax.tree.flatten(tree)
    key = structure, tuple((jnp.shape(x), jnp.result_type(x)) for x in leaves)
    if key not in results:
        result = make()
        while len(results) >= MOST_REMEMBERED:
            results.pop(next(iter(results)))
        results[key] = result
    return results[key]


def static(*, default: object = dataclasses.MISSING, kw_only: bool = False) -> Any:
    """A dataclass field that belongs to the structure: hashable, compared by value, never differentiated."""
    return dataclasses.field(metadata={"static": True}, default=default, kw_only=kw_only)


@dataclass_transform(frozen_default=True, field_specifiers=(static, parameter, declared, dataclasses.field))
def pytree(cls: type[T]) -> type[T]:
    """Make `cls` a frozen dataclass, if it is not one yet, and register it as a pytree.

    Fields with rules (parameters.py) are checked whenever the class is called. They are not checked when JAX rebuilds a
    pytree, whose leaves may be of any kind.
    """
    if "__dataclass_params__" not in vars(cls):
        if has_rules(cls):
            setattr(cls, "__post_init__", _checking(getattr(cls, "__post_init__", None)))  # noqa: B010
        cls = dataclasses.dataclass(frozen=True)(cls)
    setattr(cls, "_is_pytree", cls)  # noqa: B010  (the attribute is not one that the type checker finds)
    fields = dataclasses.fields(cls)  # pyright: ignore[reportArgumentType]
    data = [f.name for f in fields if not f.metadata.get("static")]
    meta = [f.name for f in fields if f.metadata.get("static")]
    if not fields or any("rule" in f.metadata for f in fields):
        return _register(cls, data, meta)
    return jax.tree_util.register_dataclass(cls, data_fields=data, meta_fields=meta)


def is_pytree(cls: type) -> bool:
    """Whether `pytree` was applied to this class itself, and not only to a base class."""
    return vars(cls).get("_is_pytree") is cls


def _checking(then):
    """A __post_init__ that checks the fields and then calls `then`, the class's own __post_init__, if it has one."""

    def post_init(self):
        check_fields(self)
        if then is not None:
            then(self)

    return post_init


def _register(cls, data, meta):
    """Register a dataclass so that JAX rebuilds it without calling the class, and so without checks."""
    keys = [jax.tree_util.GetAttrKey(name) for name in data]

    def flatten(x):
        return [getattr(x, name) for name in data], tuple(getattr(x, name) for name in meta)

    def flatten_with_keys(x):
        leaves, structure = flatten(x)
        return list(zip(keys, leaves)), structure

    def unflatten(structure, leaves):
        new = object.__new__(cls)
        vars(new).update(zip(data, leaves), **dict(zip(meta, structure)))
        return new

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls


_POSITIONS = {variable.name: variable.position for variable in PROGNOSTIC}


class State:
    """Named fields of one tile: an immutable pytree, whose names and positions belong to its structure.

    `State(u, v, eta)` holds the fields that every model steps; further ones are given by name, and lie at cell centres:
    `State(u, v, eta, dye=content)`. Each value is an array (ny, nx) of the tile's own cells, in SI units, or, within a
    compiled step, a Field with halo. `state.eta` and `state["eta"]` are the same field.

    Args:
        u: velocity along x on east faces [m s-1].
        v: velocity along y on north faces [m s-1].
        eta: elevation of the surface at cell centres [m].
        others: further prognostic fields at cell centres, by name.
    """

    __slots__ = ("_positions", "_values", "__weakref__")
    __array_ufunc__ = None  # numpy's numbers leave `2.0 * state` to the State

    def __init__(self, u: Value, v: Value, eta: Value, **others: Value):
        values = {"u": u, "v": v, "eta": eta, **others}
        _set(self, values, tuple(_POSITIONS.get(name, "h") for name in values))

    @classmethod
    def of(cls, values: Mapping[str, Value], positions: Mapping[str, str]) -> "State":
        """A State of any named fields at the given positions, such as a stepper's history may contain."""
        return _set(object.__new__(cls), dict(values), tuple(positions[name] for name in values))

    # -- reading ------------------------------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields, in order."""
        return tuple(self._values)

    @property
    def positions(self) -> dict[str, str]:
        """{name: position on the C-grid}, "h", "u", "v" or "q"."""
        return dict(zip(self._values, self._positions))

    @property
    def others(self) -> tuple[str, ...]:
        """The names of the fields other than u, v and eta."""
        return tuple(name for name in self._values if name not in _POSITIONS)

    def layer(self, number: int) -> tuple[Any, Any, Any]:
        """u, v and eta of a layer, 0 for the one at the top."""
        u, v, eta = names_in_layer(number)
        return self._values[u], self._values[v], self._values[eta]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._values:
            raise AttributeError(f"this State has no {name!r}; it holds {', '.join(self._values)}.")
        return self._values[name]

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """(name, value) of each field, in order."""
        return iter(self._values.items())

    def __repr__(self) -> str:
        shapes = (f"{name}={getattr(x, 'shape', None) or type(x).__name__}" for name, x in self)
        return f"State({', '.join(shapes)})"

    # -- making another one -------------------------------------------------------------------------------------------

    def map(self, function: Callable, *others: "State | Mapping[str, object]") -> "State":
        """The State of `function` of each field, and of the fields of that name in `others`, States or dicts."""
        fields = map(function, self._values.values(), *([other[name] for name in self._values] for other in others))
        return _set(object.__new__(State), dict(zip(self._values, fields)), self._positions)

    def replace(self, **changes: Value) -> "State":
        """This State with other values of some fields.

        Raises:
            TypeError: for the name of a field that it does not hold.
        """
        unknown = [name for name in changes if name not in self._values]
        if unknown:
            raise TypeError(f"State.replace: there is no {unknown[0]!r}; this State holds {', '.join(self._values)}.")
        return _set(object.__new__(State), {**self._values, **changes}, self._positions)

    def extended(self, values: Mapping[str, Value], positions: Mapping[str, str]) -> "State":
        """This State with further fields, at the given positions."""
        return State.of({**self._values, **values}, {**self.positions, **positions})

    def only(self, names: Collection[str]) -> "State":
        """The fields of these names alone."""
        return State.of({name: x for name, x in self if name in names}, self.positions)

    def __add__(self, other: "State") -> "State":
        return self.map(operator.add, other)

    def __rmul__(self, factor: Scalar) -> "State":
        return self.map(lambda x: factor * x)

    # -- as an immutable object ---------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: object):
        raise AttributeError(f"a State is not changed; state.replace({name}=...) makes another one.")

    def __reduce__(self):
        return State.of, (self._values, self.positions)


def _set(state, values, positions):
    object.__setattr__(state, "_values", values)
    object.__setattr__(state, "_positions", positions)
    return state


def _flatten(state):
    return tuple(state._values.values()), (state.names, state._positions)


def _flatten_with_keys(state):
    return [(jax.tree_util.GetAttrKey(name), x) for name, x in state], (state.names, state._positions)


def _unflatten(structure, values):
    names, positions = structure
    return _set(object.__new__(State), dict(zip(names, values)), positions)


jax.tree_util.register_pytree_with_keys(State, _flatten_with_keys, _unflatten, _flatten)

RESERVED = frozenset(name for name in dir(State) if not name.startswith("_"))  # no field can have these names


# -- Fields and arrays ------------------------------------------------------------------------------------------------


def as_tile_field(x: Value, position: str) -> AbstractField:
    """A tile array as a Field without halo; a Field unchanged."""
    return x if isinstance(x, AbstractField) else Field(cast(jax.Array, x), position, (0, 0, 0, 0))


def like(state: State, new: State) -> State:
    """`new`, a State of Fields, in the form of `state`: as arrays of the tile's own cells if that holds arrays."""
    return new if isinstance(state.u, AbstractField) else new.map(lambda field: field.interior)


def _is_state(x):
    return isinstance(x, State)


def states_of(tree: object) -> list[State]:
    """The States in a pytree, in order."""
    return [x for x in jax.tree.leaves(tree, is_leaf=_is_state) if _is_state(x)]


def fields_of(tree: object) -> list:
    """The fields of all States in a pytree, in order."""
    return [x for state in states_of(tree) for _, x in state]


def each_state(function: Callable, tree: T) -> T:
    """The pytree with `function` of each State in its place."""
    return jax.tree.map(lambda x: function(x) if _is_state(x) else x, tree, is_leaf=_is_state)


def check_state(who: str, state: State, variables: tuple) -> None:
    """Raise ValueError unless a State holds the fields of these Variables, in their order."""
    wanted = tuple(variable.name for variable in variables)
    if state.names != wanted:
        raise ValueError(
            f"{who}: the state holds {', '.join(state.names)}, and the model steps {', '.join(wanted)}; make it by "
            "model.state(...)."
        )
