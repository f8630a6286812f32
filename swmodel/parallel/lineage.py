"""What a traced value was computed from: whether it has gone through an operation since it was last settled.

JAX's tracers name the operation that made them and what went into it. Outside of a trace numbers have no history.
"""

from typing import Any

import jax
import jax.core

from ..runtime.private import origin

__all__ = ["came_through"]


def came_through(x: Any, operation: str, settling: frozenset) -> bool:
    """Whether `x` was computed from a result of the primitive `operation`, with none of `settling` in between.

    Args:
        x: a value; of what is no tracer nothing is known, and the answer is False.
        operation: name of a primitive.
        settling: names of primitives behind which nothing is looked for.
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
        if names & settling:
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
