"""Compute once, before a loop over steps, what does not change between them.

A step computes a few numbers from its time step, the metrics and the parameters. On a CPU they take no time. On a GPU
each is a kernel of its own, and a step over a small tile is as long as its kernels are many.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.core
from jax.extend.core import Jaxpr, Literal, Var

__all__ = ["without_invariants"]


def without_invariants(function: Callable, *arguments: Any) -> Callable:
    """`function`, whose numbers and columns that do not depend on its arguments are computed now, and not in its calls.

    Arrays of a whole tile stay in the function, since they would need memory during the whole loop.

    Args:
        function: of pytrees of arrays; it is traced once.
        arguments: arrays, or their shapes, with which it will be called.
    """
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
    jaxpr, structure = closed.jaxpr, jax.tree.structure(shapes)
    before, within = _split(jaxpr)
    read = [v for e in within for v in e.invars] + list(jaxpr.outvars)
    read = list(dict.fromkeys(v for v in read if not isinstance(v, Literal)))
    results = {v for e in before for v in e.outvars}
    hoisted = [v for v in read if v in results]
    values = jax.core.eval_jaxpr(jaxpr.replace(invars=[], outvars=hoisted, eqns=before), closed.consts)
    constants = [v for v in jaxpr.constvars if v in read]
    rest = jaxpr.replace(constvars=[*constants, *hoisted], eqns=within)
    value_of = dict(zip(jaxpr.constvars, closed.consts))
    consts = [*(value_of[v] for v in constants), *values]

    def call(*arguments: Any) -> Any:
        return structure.unflatten(jax.core.eval_jaxpr(rest, consts, *jax.tree.leaves(arguments)))

    return call


def _split(jaxpr: Jaxpr) -> tuple[list, list]:
    """(the equations that compute numbers or columns from constants alone, the others)."""
    varying: set[Var] = set(jaxpr.invars)
    before, within = [], []
    for equation in jaxpr.eqns:
        depends = any(v in varying for v in equation.invars if not isinstance(v, Literal))
        is_array = any(sum(n > 1 for n in getattr(v.aval, "shape", ())) > 1 for v in equation.outvars)
        if depends or is_array or equation.effects:
            varying.update(equation.outvars)
            within.append(equation)
        else:
            before.append(equation)
    return before, within
