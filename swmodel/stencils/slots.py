"""Fused loops that read arrays where these are stored, and store those that they read: in rooms (native/tape.py).

XLA takes a copy out of its room for a call that wants an array; a compiled loop finds it there. And storing an array is
one more pass over memory, but not for a loop that has its rows at hand.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Literal
from jax.interpreters import ad

from .native import fetch, store
from .native.primitives import declare
from .stencil import compiled_loop, fused_loop

__all__ = ["Slot", "evaluate", "evaluate_storing"]


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
            results = _results(equation, operands)
        held.update(zip(equation.outvars, results))
    return [array(v) for v in jaxpr.outvars]


def evaluate_storing(jaxpr, constants, arguments, rooms, index):
    """(the rooms with arguments in slot number `index`, the results of a jaxpr).

    One whose first reader is a fused loop is stored by that loop; any other, before its first reader.

    Args:
        jaxpr, constants: of the function. arguments: arrays.
        rooms: {number of an argument: its room (slots, ...)}.
    """
    held = dict(zip(jaxpr.constvars, constants)) | dict(zip(jaxpr.invars, arguments))
    rooms, waiting = dict(rooms), {jaxpr.invars[k]: k for k in rooms}

    def keep(variables):
        put, same = store([rooms[waiting[v]] for v in variables], [held[v] for v in variables], index)
        held.update(zip(variables, same))
        rooms.update((waiting.pop(v), room) for v, room in zip(variables, put))

    for equation in jaxpr.eqns:
        seen = {v: k for k, v in reversed([*enumerate(equation.invars)]) if not isinstance(v, Literal) and v in waiting}
        here = {v: k for v, k in seen.items() if _is_source(equation, k)}
        keep([v for v in seen if v not in here])
        operands = [v.val if isinstance(v, Literal) else held[v] for v in equation.invars]
        if here:
            given = [rooms[waiting[v]] for v in here]
            slot = jnp.asarray(index, jnp.int32)
            results = loop_storing.bind(*operands, *given, slot, stored=tuple(here.values()), **equation.params)
            rooms.update(zip((waiting.pop(v) for v in here), results[len(equation.outvars) :]))
        else:
            results = _results(equation, operands)
        held.update(zip(equation.outvars, results))
    keep([*waiting])
    return rooms, [v.val if isinstance(v, Literal) else held[v] for v in jaxpr.outvars]


def _results(equation, operands):
    found = equation.primitive.bind(*operands, **equation.primitive.get_bind_params(equation.params))
    return found if equation.primitive.multiple_results else [found]


def _is_source(equation, number):
    return equation.primitive is fused_loop and number < len(equation.params["origins"])


def _is_read_there(equation, number, x):
    """Whether an operand is a Slot that a loop reads, and does not write over."""
    return isinstance(x, Slot) and _is_source(equation, number) and number not in equation.params["aliases"]


def _declared(name, plainly, shapes):
    """The Primitive of a loop with more operands than fused_loop: `plainly` is the same by other operations."""

    def natively(*operands, interpret, **parameters):
        if interpret:
            return plainly(*operands, interpret=interpret, **parameters)
        return compiled_loop(*operands, **parameters)

    def tangents(primitive, primals, tangents, **parameters):
        moving = [k for k, t in enumerate(tangents) if type(t) is not ad.Zero]

        def of_moving(some):
            return plainly(*(some.get(k, x) for k, x in enumerate(primals)), **parameters)

        return jax.jvp(of_moving, ({k: primals[k] for k in moving},), ({k: tangents[k] for k in moving},))

    def batch(primitive, operands, axes, **parameters):
        results = jax.vmap(lambda *operands: plainly(*operands, **parameters), axes)(*operands)
        return results, [0] * len(results)

    return declare(name, plainly, natively, shapes, tangents, batch)


def _shapes(*operands, layout, dtypes, **parameters):
    return [jax.core.ShapedArray(layout.padded, t) for t in dtypes]


def _read_plainly(*operands, slots, **parameters):
    count = len(operands) - len(slots)
    arrays = list(operands[:count])
    for number, index in zip(slots, operands[count:]):
        arrays[number] = Slot(arrays[number], index).array
    return fused_loop.bind(*arrays, **parameters)


def _store_plainly(*operands, stored, **parameters):
    *operands, index = operands
    arrays, rooms = operands[: len(operands) - len(stored)], operands[len(operands) - len(stored) :]
    rooms, same = store(rooms, [arrays[k] for k in stored], index)
    for k, x in zip(stored, same):
        arrays[k] = x
    return [*fused_loop.bind(*arrays, **parameters), *rooms]


def _storing_shapes(*operands, stored, **parameters):
    rooms = operands[len(operands) - 1 - len(stored) : -1]
    return [*_shapes(**parameters), *(jax.core.ShapedArray(x.shape, x.dtype) for x in rooms)]


loop_on_slots = _declared("fused_loop_on_slots", _read_plainly, _shapes)
loop_storing = _declared("fused_loop_storing", _store_plainly, _storing_shapes)
