"""Fused loops that read arrays from slots, and that push arrays into slots before they overwrite them.

XLA copies an array out of its slot for a call that reads it; a compiled loop reads it in place. Pushing an array into a
slot is another pass over memory, except for a loop that loads its rows anyway. Without slots a gradient on 1024 x 1024
cells takes 1.06 to 1.10 times as long, and more on smaller and larger grids (docs/developers/benchmarks.md).
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal
from jax.interpreters import ad

from ..fields.field import Count
from .compiled import compiled_loop
from .native import push_slot, read_slot
from .native.primitives import declare
from .stencil import fused_loop, result_shapes


@dataclasses.dataclass(frozen=True)
class Slot:
    """The array number `index` of an array of slots (number of slots, ...)."""

    slots: Any
    index: Any

    @property
    def array(self) -> jax.Array:
        return read_slot([self.slots], self.index)[0]


def evaluate(closed: ClosedJaxpr, arguments: Sequence) -> list:
    """The results of a closed jaxpr, some of whose arguments may be Slots. Operations other than loops read copies."""
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
        slots = {k: value(v) for k, v in enumerate(equation.invars) if _is_read_in_place(equation, k, value(v))}
        operands = [slots[k].slots if k in slots else array(v) for k, v in enumerate(equation.invars)]
        if slots:
            indices = [jnp.asarray(slot.index, jnp.int32) for slot in slots.values()]
            results = loop_on_slots.bind(*operands, *indices, slots=tuple(slots), **equation.params)
        else:
            results = _results(equation, operands)
        held.update(zip(equation.outvars, results))
    return [array(v) for v in jaxpr.outvars]


def evaluate_storing(
    jaxpr: Jaxpr, constants: Sequence, arguments: Sequence, slots: dict[int, jax.Array], index: Count
) -> tuple:
    """(the arrays of slots with arguments in slot number `index`, the results of a jaxpr).

    If the first operation that reads an argument is a fused loop, that loop stores it. Any other argument is stored
    before the first operation that reads it.

    Args:
        jaxpr, constants: of the function.
        arguments: arrays.
        slots: {number of an argument: its array of slots (number of slots, ...)}.
        index: the number of the slot.
    """
    held = dict(zip(jaxpr.constvars, constants)) | dict(zip(jaxpr.invars, arguments))
    slots, waiting = dict(slots), {jaxpr.invars[k]: k for k in slots}

    def push(variables):
        new, same = push_slot([slots[waiting[v]] for v in variables], [held[v] for v in variables], index)
        held.update(zip(variables, same))
        slots.update((waiting.pop(v), pushed) for v, pushed in zip(variables, new))

    for equation in jaxpr.eqns:
        read = {v: k for k, v in reversed([*enumerate(equation.invars)]) if not isinstance(v, Literal) and v in waiting}
        here = {v: k for v, k in read.items() if _is_source(equation, k)}
        push([v for v in read if v not in here])
        operands = [v.val if isinstance(v, Literal) else held[v] for v in equation.invars]
        if here:
            given = [slots[waiting[v]] for v in here]
            slot = jnp.asarray(index, jnp.int32)
            results = loop_pushing.bind(*operands, *given, slot, pushed=tuple(here.values()), **equation.params)
            slots.update(zip((waiting.pop(v) for v in here), results[len(equation.outvars) :]))
        else:
            results = _results(equation, operands)
        held.update(zip(equation.outvars, results))
    push([*waiting])
    return slots, [v.val if isinstance(v, Literal) else held[v] for v in jaxpr.outvars]


def _results(equation, operands):
    found = equation.primitive.bind(*operands, **equation.primitive.get_bind_params(equation.params))
    return found if equation.primitive.multiple_results else [found]


def _is_source(equation, number):
    return equation.primitive is fused_loop and number < len(equation.params["origins"])


def _is_read_in_place(equation, number, x):
    """Whether an operand is a Slot that a loop reads and does not overwrite."""
    return isinstance(x, Slot) and _is_source(equation, number) and number not in equation.params["aliases"]


def _declared(name, plainly, shapes):
    """The Primitive of a loop with more operands than fused_loop; `plainly` computes the same by other operations."""

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


def _read_plainly(*operands, slots, **parameters):
    count = len(operands) - len(slots)
    arrays = list(operands[:count])
    for number, index in zip(slots, operands[count:]):
        arrays[number] = Slot(arrays[number], index).array
    return fused_loop.bind(*arrays, **parameters)


def _push_plainly(*operands, pushed, **parameters):
    *operands, index = operands
    arrays, slots = operands[: len(operands) - len(pushed)], operands[len(operands) - len(pushed) :]
    slots, same = push_slot(slots, [arrays[k] for k in pushed], index)
    for k, x in zip(pushed, same):
        arrays[k] = x
    return [*fused_loop.bind(*arrays, **parameters), *slots]


def _pushing_shapes(*operands, pushed, **parameters):
    slots = operands[len(operands) - 1 - len(pushed) : -1]
    return [*result_shapes(**parameters), *(ShapedArray(x.shape, x.dtype) for x in slots)]


loop_on_slots = _declared("fused_loop_on_slots", _read_plainly, result_shapes)
loop_pushing = _declared("fused_loop_pushing", _push_plainly, _pushing_shapes)
