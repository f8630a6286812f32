"""Leaves of pytrees: which are real numbers, which are differentiated, which are read; and rooms for many of them."""
import jax
import jax.numpy as jnp
from jax.extend.core import Literal

from ..native import vacant

__all__ = ["Floats", "inputs_read", "perturbed", "put", "room", "taken"]


class Floats:
    """The shapes of a pytree, and which of its leaves are real numbers."""

    def __init__(self, tree):
        leaves, self._structure = jax.tree.flatten(tree)
        self.leaves = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in leaves]
        self.real = [jnp.issubdtype(x.dtype, jnp.floating) for x in leaves]

    def tree(self, leaves):
        return jax.tree.unflatten(self._structure, leaves)

    @property
    def shapes(self):
        return self.tree(self.leaves)

    def zeros(self):
        return [jnp.zeros(x.shape, x.dtype) for x in self.leaves]

    def floats(self, leaves):
        return [x for x, real in zip(leaves, self.real) if real]

    def merged(self, leaves, floats):
        """`leaves` with other real numbers."""
        floats = iter(floats)
        return [next(floats) if real else x for x, real in zip(leaves, self.real)]


def room(tree, count):
    """Arrays for so many of a pytree."""
    return jax.tree.map(lambda x: vacant((count, *jnp.shape(x)), jnp.result_type(x)), tree)


def put(rooms, tree, k):
    return jax.tree.map(lambda room, x: jax.lax.dynamic_update_index_in_dim(room, x, k, 0), rooms, tree)


def taken(rooms, k):
    return jax.tree.map(lambda room: jax.lax.dynamic_index_in_dim(room, k, 0, keepdims=False), rooms)


def perturbed(arrays):
    """For each array whether it is being differentiated, told by JAX's own bookkeeping."""
    found = [False] * len(arrays)

    @jax.custom_vjp
    def probe(arrays):
        return arrays

    def forward(arrays):
        found[:] = [bool(x.perturbed) for x in arrays]
        return [x.value for x in arrays], None

    probe.defvjp(forward, lambda _, bars: (None,), symbolic_zeros=True)
    probe(arrays)
    return found


def inputs_read(closed):
    """For each input of a jaxpr whether an output or a message depends on it; a loop counts as reading all it gets."""
    jaxpr = closed.jaxpr
    live = {v for v in jaxpr.outvars if not isinstance(v, Literal)}
    for equation in reversed(jaxpr.eqns):
        if equation.effects or not live.isdisjoint(equation.outvars):
            live.update(v for v in equation.invars if not isinstance(v, Literal))
    return [v in live for v in jaxpr.invars]
