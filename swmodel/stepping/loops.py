"""The fused loops of a time step and of its adjoint, found by tracing, without compiling or running anything."""

import dataclasses
from typing import TYPE_CHECKING, Any

import jax

from ..fields.state import State
from ..stencils.compiled import Access, Cost, cost, loop_title, reads
from ..stencils.stencil import loops_in, types_of
from .loop import integrate, on_tiles, step_loop
from .steps import History

if TYPE_CHECKING:
    from ..dynamics.system import System
    from .explicit import TimeStepper


@dataclasses.dataclass(frozen=True)
class Loop:
    """One fused loop of a time step.

    Attributes:
        graph: the Graph of its operations.
        dtypes: element types, (of the arrays that it reads, of its results).
        over: for each result the name of the array that it overwrites, or None.
        margin: the number of cells around the tile that it computes, too.
        members: the number of ensemble members that one call computes.
    """

    graph: Any
    dtypes: tuple
    over: tuple
    margin: int
    members: int

    @property
    def title(self) -> str:
        """The names of its results."""
        return loop_title(self.graph)

    @property
    def reads(self) -> list[Access]:
        """The arrays that it reads."""
        return reads(self.graph)

    @property
    def cost(self) -> Cost:
        """Operations and bytes for each cell."""
        return cost(self.graph, self.dtypes)


@on_tiles
def _steps(dynamics, stepper, start):
    loop = step_loop(dynamics, stepper)
    return loop.steps(loop.pack_state(*start), 0, loop.period)[0]


def loops_of_steps(dynamics: "System", stepper: "TimeStepper", start: tuple[State, History]) -> tuple[list[Loop], int]:
    """(the fused loops of some steps, in order; the number of these steps); no loops where steps run on arrays.

    The number of steps is that after which buffers are back in their first roles. Collective.

    Args:
        dynamics: a System, or the Members of an ensemble, as programs take them.
        stepper: a TimeStepper, likewise.
        start: (state, history).
    """
    closed, period = jax.make_jaxpr(_steps)(dynamics, stepper, start), []
    one = getattr(dynamics, "dynamics", dynamics)
    jax.eval_shape(
        one.communicator.spmd(lambda d, s: period.append(step_loop(d, s, prepared=False).period)), one, stepper
    )
    return [_loop(equation) for equation in loops_in(closed.jaxpr)], period[0]


def loops_of_adjoint(dynamics: "System", stepper: "TimeStepper", state: State, steps: int) -> list[Loop]:
    """The fused loops with which the adjoint of some steps goes back through them, in the order of their execution.

    They compute what they need of the steps again, from the states before them. Collective.

    Args:
        dynamics: a System, as programs take it.
        stepper: a TimeStepper, likewise.
        state: the State at the beginning.
        steps: their number.
    """

    def end(state):
        return integrate(dynamics, stepper, state, steps)[0]

    def gradient(state):
        final, back = jax.vjp(end, state)
        return back(final)

    forward, both = (loops_in(jax.make_jaxpr(program)(state).jaxpr) for program in (end, gradient))
    return [_loop(equation) for equation in list(both)[len(list(forward)) :]]


def _loop(equation):
    parameters = equation.params
    graph, layout = parameters["graph"], parameters["layout"]
    names = {k: access.name for k, access in zip(graph.reads(), reads(graph))}
    return Loop(
        graph,
        types_of(equation),
        tuple(None if k is None else names.get(k, "another array") for k in parameters["aliases"]),
        parameters["margin"],
        layout.members or 1,
    )
