"""Frozen dataclasses that are pytrees of JAX: array fields are leaves, fields marked `static()` are structure."""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp

from .parameters import check_fields, declared, has_rules, parameter

__all__ = ["is_pytree", "pytree", "remembered", "replace", "static"]

T = TypeVar("T")
MOST_REMEMBERED = 64


def replace(instance: T, **changes: object) -> T:
    """A copy of a frozen dataclass, or of a State, with other values of some fields."""
    if dataclasses.is_dataclass(instance) and not isinstance(instance, type):
        return dataclasses.replace(instance, **changes)
    change: Callable = getattr(instance, "replace")  # noqa: B009  (a State, which T does not say)
    return change(**changes)


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
    if any("rule" in f.metadata for f in fields):
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
