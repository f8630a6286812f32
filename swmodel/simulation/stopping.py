"""Messages on why a run stopped and how to continue it, and the invalid cells that Health has found."""

import contextlib
import shlex
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, cast

import jax
import jax.numpy as jnp
import numpy as np

from ..dynamics.boundaries import OpenBoundary
from ..dynamics.clock import Time
from ..fields.field import Value
from ..fields.methods import is_shipped
from ..fields.parts import name_of
from ..fields.state import replace
from ..models.ensemble import Ensemble
from ..output.running import Run
from ..runtime.signals import GRACE, PROCESS, SignalMonitor
from .health import Assessment

if TYPE_CHECKING:
    from .simulation import Simulation


@contextlib.contextmanager
def stoppable(kept: Callable[[str], str]) -> Iterator[tuple[SignalMonitor, ThreadPoolExecutor]]:
    """(the monitor of signals, an executor that reads records ahead) of a run that signals may stop.

    Args:
        kept: gives the sentence on what is kept, from the name of the signal.
    """
    with (
        SignalMonitor() as signals,
        PROCESS.ending_with(kept),
        PROCESS.graceful(GRACE),
        ThreadPoolExecutor(1, "records") as reader,
    ):
        yield signals, reader


def invalid_cells(simulation: "Simulation", health: Assessment) -> list[tuple]:
    """[(step, member, layer, row, column, thickness, CFL number)] of the first invalid cell of each tile and member.

    Args:
        simulation: the Simulation.
        health: the arrays of Health after a chunk of steps.
    """
    found, layers = [], simulation.model.layer_count
    for rank, arrays in simulation.communicator.tiles(health).items():
        box = simulation.model.decomposition.box(rank)
        for member, (step, place, thickness, courant) in enumerate(zip(*(np.ravel(x).tolist() for x in arrays))):
            layer, row, column = (int(x) for x in np.unravel_index(place, (layers, *box.shape)))
            found += [(step, member, layer, box.j0 + row, box.i0 + column, thickness, courant)] if step >= 0 else []
    return found


def diagnosis(
    simulation: "Simulation",
    step: int,
    member: int,
    layer: int,
    row: int,
    column: int,
    thickness: float,
    courant: float,
) -> str:
    """A sentence on why a run stopped, where, and what to do; collective.

    Args:
        simulation: the Simulation.
        step, member: the first step at which the state was invalid, and the member of an ensemble, else 0.
        layer: the number of the layer, 0 at the top.
        row, column: the cell of the whole grid.
        thickness: h there [m].
        courant: the CFL number there.
    """
    x, y = simulation.model.grid.x_centres[column], simulation.model.grid.y_centres[row]
    whose = "" if simulation.model.members is None else f" of {cast(Ensemble, simulation.model).name(member)}"
    when = f"stopped at step {step} ({step * simulation.dt:g} s): in the cell at ({x:.6g}, {y:.6g}){whose} "
    if not (np.isfinite(thickness) and np.isfinite(courant)):
        what = "the elevation or the velocity is not finite"
        remedy = "use a shorter time step, or more viscosity or drag"
        if wrong := _parts_not_finite(simulation, member):
            what += f", as the values of {' and '.join(wrong)} are not finite for a finite flow"
            remedy = "correct its code, or its parameters"
    elif courant > 1.0:
        what = f"the flow crosses {courant:.3g} cells a step"
        remedy = "use a shorter time step, or more viscosity or drag"
    elif thickness < (least := simulation.model.least_thickness):
        what = f"the water is only {thickness:.2f} m deep, and less than {least:g} m"
        if simulation.model.layers is not None:
            what = f"layer {layer + 1} from the top is only {thickness:.2f} m thick, and less than {least:g} m"
            remedy = "make it thicker at rest, or use more viscosity, drag or a weaker forcing"
        elif simulation.model.film is None:
            what += " cannot be computed without wetting and drying"
            remedy = "raise the minimum depth of the bathymetry, or make the cell land"
        else:
            what += " ends a run with this least_thickness"
            remedy = "leave it out, since with wetting cells may fall dry"
    else:
        what, remedy = "a tracer is not finite", "use a shorter time step, or more diffusion"
    return f"The run {when}{what}; {remedy}."


def progress_clause(simulation: "Simulation", first: int) -> str:
    """A clause on how far a run that began at step `first` has come, if a chunk takes longer than a signal allows."""
    if simulation.step == first:
        return "before its first steps were computed"
    return f"after step {simulation.step} ({simulation.time:g} s), as the next steps took more than {GRACE:g} s"


def how_to_continue(simulation: "Simulation", run: Run | None = None) -> str:
    """Sentences that name this run's newest restart, else the one from which it was resumed, else how to start again.

    Args:
        simulation: the Simulation.
        run: the Run of its files, or None if they have not been opened.
    """
    hint = "No restart was written." if run is None else run.restart_hint()
    if hint.startswith("The newest"):
        return hint
    if simulation.resumed_from is not None:
        again = f"swmodel resume {shlex.quote(str(simulation.resumed_from))}"
        return f"{hint} Continue from the restart that this run began with: {again}"
    return hint if PROCESS.again is None else f"{hint} Start again with: {PROCESS.again(overwrite=True)}"


def _parts_not_finite(simulation, member):
    """Names of the user's own parts that are not finite for the last state, with 0 in place of infinity; collective."""
    model, state, step = simulation.model, simulation.state, simulation.step
    if model.members is not None:
        _, model, state = model.each(state)[member]
    parts = *model.open_boundaries, *model.terms
    own = [k for k, part in enumerate(parts) if not is_shipped(type(part))]

    def finite(dynamics, state):
        equations = dynamics.prepare()
        time = Time(step, dt=jnp.asarray(simulation.dt, state.eta.dtype), exact_dt=simulation.dt)
        state = state.map(lambda x: jnp.nan_to_num(x, posinf=0.0, neginf=0.0))
        flow = replace(equations, open_boundaries=()).flow(state, time)

        def values(part) -> tuple[Value, ...]:
            if isinstance(part, OpenBoundary):
                memory = {name: flow.state[name] for name in equations.boundary_names}
                levels = [layer.eta for layer in flow.layers]
                return part.fill(flow.u, flow.v, flow.eta, equations, time, time, memory, levels=levels)
            part = part.at(time)
            return *part(flow, time), part.continuity(flow, time) if part.changes_elevation else 0.0

        parts = *equations.open_boundaries, *equations.terms
        return [
            jnp.array([jnp.isfinite(cast(jax.Array, getattr(x, "data", x))).all() for x in values(parts[k])]).all()
            for k in own
        ]

    if not own:
        return []
    dynamics = model.interval(simulation.halo, step, simulation.dt, simulation.stages)
    tiles = simulation.communicator.tiles(simulation.communicator.spmd(finite)(dynamics, state)).values()
    return [name_of(parts[k]) for k, each in zip(own, zip(*tiles)) if simulation.communicator.agree(not all(each))]
