"""Fused loops that read arrays where these are stored: in slots of rooms for many (native/tape.py).

XLA takes a copy out of its room for a call that wants an array; a compiled loop finds it there.
"""
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Literal
from jax.interpreters import ad

from ..native import fetch
from ..native.primitives import declare
from .stencil import compiled_loop, fused_loop

__all__ = ["Slot", "evaluate"]


@dataclasses.dataclass(frozen=True)
class Slot:
    """The array number `index` of a room (slots, ...)."""

    room: Any
    index: Any

    @property
    def array(self):
        return fetch([self.room], self.index)[0]


def evaluate(closed, arguments):
    """The results of a closed jaxpr, some of whose arguments may be Slots: what is no fused loop gets copies."""
    jaxpr, copies = closed.jaxpr, {}
    held = dict(zip(jaxpr.constvars, closed.consts)) | dict(zip(jaxpr.invars, arguments))

    def value(v):
        return v.val if isinstance(v, Literal) else held[v]

    def array(v):
        x = value(v)
        if not isinstance(x, Slot):
            return x
        if v not in copies:
            copies[v] = x.array
        return copies[v]

    for equation in jaxpr.eqns:
        slots = {k: value(v) for k, v in enumerate(equation.invars) if _is_read_there(equation, k, value(v))}
        operands = [slots[k].room if k in slots else array(v) for k, v in enumerate(equation.invars)]
        if slots:
            indices = [jnp.asarray(slot.index, jnp.int32) for slot in slots.values()]
            results = loop_on_slots.bind(*operands, *indices, slots=tuple(slots), **equation.params)
        else:
            results = equation.primitive.bind(*operands, **equation.primitive.get_bind_params(equation.params))
        held.update(zip(equation.outvars, results if equation.primitive.multiple_results else [results]))
    return [array(v) for v in jaxpr.outvars]


def _is_read_there(equation, number, x):
    """Whether an operand is a Slot that a loop reads, and does not write over."""
    if not isinstance(x, Slot) or equation.primitive is not fused_loop:
        return False
    return number < len(equation.params["origins"]) and number not in equation.params["aliases"]


def _plainly(*operands, slots, **parameters):
    count = len(operands) - len(slots)
    arrays = list(operands[:count])
    for number, index in zip(slots, operands[count:]):
        arrays[number] = Slot(arrays[number], index).array
    return fused_loop.bind(*arrays, **parameters)


def _natively(*operands, interpret, **parameters):
    if interpret:
        return _plainly(*operands, interpret=interpret, **parameters)
    return compiled_loop(*operands, **parameters)


def _shapes(*operands, layout, dtypes, **parameters):
    return [jax.core.ShapedArray(layout.padded, t) for t in dtypes]


def _tangents(primitive, primals, tangents, **parameters):
    """Those of the loop on arrays."""
    moving = [k for k, t in enumerate(tangents) if type(t) is not ad.Zero]

    def of_moving(some):
        return _plainly(*(some.get(k, x) for k, x in enumerate(primals)), **parameters)

    return jax.jvp(of_moving, ({k: primals[k] for k in moving},), ({k: tangents[k] for k in moving},))


def _batch(primitive, operands, axes, **parameters):
    results = jax.vmap(lambda *operands: _plainly(*operands, **parameters), axes)(*operands)
    return results, [0] * len(results)


loop_on_slots = declare("fused_loop_on_slots", _plainly, _natively, _shapes, _tangents, _batch)
