"""The history of a traced value: whether it was computed from the result of an operation.

A JAX tracer refers to the operation that made it and to its operands. Outside of a trace numbers have no history.
"""

from typing import Any

import jax
import jax.core

from ..runtime.private import origin

__all__ = ["derives_from"]


def derives_from(x: Any, operation: str, stop: frozenset) -> bool:
    """Whether `x` was computed from a result of the primitive `operation`, with none of `stop` in between.

    Args:
        x: a value; False is returned for values that are not tracers.
        operation: name of a primitive.
        stop: names of primitives whose operands are not searched.
    """
    seen, waiting = set(), [x]
    while waiting:
        tracer = waiting.pop()
        if id(tracer) in seen or not isinstance(tracer, jax.core.Tracer):
            continue
        seen.add(id(tracer))
        waiting += [getattr(tracer, name, None) for name in ("primal", "tangent", "val")]  # of grad, jvp and vmap
        made_by = origin(tracer)
        if made_by is None:
            continue
        names = _names(made_by.primitive, made_by.params)
        if names & stop:
            continue
        if operation in names:
            return True
        waiting += made_by.in_tracers
    return False


def _names(primitive, params):
    """The name of a primitive and of those in the programs that it calls."""
    names = {primitive.name}
    for value in (params or {}).values():
        jaxpr = getattr(value, "jaxpr", value)
        for equation in getattr(jaxpr, "eqns", ()):
            names |= _names(equation.primitive, equation.params)
    return names
