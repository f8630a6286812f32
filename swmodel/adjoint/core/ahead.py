"""The programs of a gradient, compiled by all ranks together before the first of them runs.

Programs that are compiled when they are first called are compiled one after another: each by one rank, while the others
wait. Here all of them are traced first. Then ranks begin with different ones, and load what another rank has compiled
(runtime/compilation.py). Shapes are enough for it, so that a thread may compute the motion of a source meanwhile.
"""

from typing import Any

import jax
import jax.numpy as jnp

from ...stencils.stencil import loops_compiled_meanwhile
from .runs import Run


def compile_ahead(problem: Any) -> None:
    """Compile the loops and the programs of a Problem's gradient; collective. JAX keeps them for the calls that follow.

    Nothing is done with transforms and on several devices, whose arguments have other forms.
    """
    if problem.transforms or problem.communicator.name == "sharded":
        return
    run, order = _Outlined(problem), -1 if problem.communicator.rank % 2 else 1
    traced = _traced(run)
    native = problem.outline(problem.first_step).step_loop.compiles()
    jaxprs = [program.jaxpr.jaxpr for program in traced] if native else []
    with loops_compiled_meanwhile(jaxprs, order):
        for lowered in [program.lower() for program in traced][::order]:
            lowered.compile()


def _traced(run):
    """The traced programs of a gradient, in the order of their calls."""
    programs, fixed, params = run.programs, run.fixed(0), run.params(0)
    begin = run.fixed_at_start(), run.controls_at_start()
    start = programs.start.trace(*begin)
    point = _shapes(start)
    record = programs.record.trace(fixed, params, *point)
    finish = programs.finish.trace(fixed, params, *point)
    _, bars, lasting, _ = _shapes(finish)
    carry = {"carry": point[0]}
    pull = programs.pull.trace(fixed | carry, params, _shapes(record)[-1], bars, lasting)
    found = [start, programs.copy.trace(*point), record, finish, pull]
    found.append(programs.to_start.trace(begin[0] | carry, begin[1], bars))
    if len(run.units) > 1:  # a schedule runs over all units but the last before it differentiates them
        found.insert(2, programs.forward.trace(fixed, params, *point))
    return found


def _shapes(traced):
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), traced.out_info)


class _Outlined(Run):
    """A Run whose time records, and the uplift of its System, are shapes."""

    def __init__(self, problem):
        values = {control.name: _outlined(problem, control) for control in problem.own_controls}
        super().__init__(problem, values, None, problem.cost)

    def _dynamics(self, window):
        return self.problem.outline(window)

    def _value(self, control, values, unit, of_slopes):
        value = values[control.name]
        return (next(iter(value.values())),) * 2 if control.records else value


def _outlined(problem, control):
    """The value of a control as programs take it, with shapes in the place of time records."""
    held = control.get(problem.outline(problem.first_step), problem.shown if control.of_state else None)
    if control.records:
        return dict.fromkeys(control.records, jax.ShapeDtypeStruct(held.first.shape, problem.model.dtype))
    return problem.to_program(jnp.asarray(held, problem.model.dtype))
