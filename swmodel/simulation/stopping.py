"""Health, which finds invalid cells, and messages on why a run stopped and how to continue it."""

import contextlib
import shlex
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import jax
import jax.numpy as jnp
import numpy as np

from ..defaults import LEAST_THICKNESS
from ..dynamics.boundaries import OpenBoundary
from ..dynamics.clock import Time
from ..dynamics.system import System
from ..fields.field import Value
from ..fields.methods import is_shipped
from ..fields.parts import name_of
from ..fields.state import State, pytree, replace, static
from ..fields.variables import in_layer
from ..models.ensemble import Ensemble
from ..models.shallow_water import ShallowWater
from ..output.running import Run
from ..runtime.compilation import jit
from ..runtime.signals import GRACE, PROCESS, SignalMonitor

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


def invalid_cells(simulation: "Simulation", health: "Assessment") -> list[tuple]:
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
    tiles = simulation.communicator.tiles(jit(simulation.communicator.spmd(finite))(dynamics, state)).values()
    return [name_of(parts[k]) for k, each in zip(own, zip(*tiles)) if simulation.communicator.agree(not all(each))]


Assessment: TypeAlias = tuple[jax.Array, ...]
"""The arrays of Health.start."""
GetState: TypeAlias = Callable[[], State]
GetUplift: TypeAlias = Callable[[], jax.Array | None]


@pytree
class Health:
    """A check of the state, which takes a fifth of a step or less; program.py has the steps at which it is made.

    Attributes:
        dt_per_dx, dt_per_dy: dt over the sides of the cells at u and v [s m-1].
        linear: whether the model is linear.
        least: the smallest thickness with which a run continues [m].
    """

    dt_per_dx: Any
    dt_per_dy: Any
    linear: bool = static()
    least: float = static(default=LEAST_THICKNESS)

    @staticmethod
    def of(model: ShallowWater | Ensemble, dt: float) -> "Health":
        """The Health of a model's tiles for steps of `dt` [s]."""

        def make(rank):
            box = model.decomposition.box(rank)
            metrics = model.grid.metrics(np.arange(box.j0, box.j1))
            share = model.core.zonal_share(model.grid.y_centres[box.j0 : box.j1, None])
            per_x, per_y = (dt / np.maximum(metrics[name], 1e-30) for name in ("dx_u", "dy_v"))
            per_x, per_y = (np.asarray(x, model.dtype) for x in (per_x * share, per_y))
            return Health(per_x, per_y, model.linear, model.least_thickness)

        return model.communicator.place(make)

    @staticmethod
    def start() -> Assessment:
        """(first invalid step or -1, flat index of layer and cell, h [m] and CFL number there), each of shape (1,)."""
        return jnp.full(1, -1, jnp.int32), jnp.zeros(1, jnp.int32), jnp.zeros(1), jnp.zeros(1)

    def assess(
        self, carry: Assessment, get_state: GetState, dynamics: System, uplift: GetUplift, step: jax.Array
    ) -> Assessment:
        """The arrays of `start` after a check of the State; the first invalid step is kept.

        Args:
            carry: the arrays so far.
            get_state: returns the State. It is called a second time to locate an invalid cell, because an array that is
                passed to that branch would be copied in each check.
            dynamics: the System on tiles, of which H at rest is 0 on land that is never wet.
            uplift: returns the rise of the sea floor [m], or None.
            step: the number of the step.
        """

        def cell_values():
            state, rise = get_state(), uplift()
            layers, count = dynamics.layers, dynamics.layer_count
            bottom = dynamics.depth - (0.0 if rise is None else rise)
            u, v, eta = ([state[in_layer(name, k)] for k in range(count)] for name in ("u", "v", "eta"))
            heights, excess = ([bottom], eta) if layers is None else (layers.rest(bottom), layers.excess(eta))
            thickness = [jnp.where(dynamics.depth != 0, a + b, jnp.inf) for a, b in zip(heights, excess)]
            courant = [jnp.abs(a) * self.dt_per_dx + jnp.abs(b) * self.dt_per_dy for a, b in zip(u, v)]
            finite = [jnp.isfinite(sum((state[name] for name in state.others), x + state.eta)) for x in courant]
            joined = (x[0] if count == 1 else jnp.stack(x) for x in (finite, thickness, courant))
            valid, thickness, courant = joined
            if not self.linear:  # a linear model's amplitudes are arbitrary
                valid = valid & (thickness >= self.least) & (courant <= 1.0)
            return valid, thickness, courant

        def is_valid():  # XLA vectorises sums along columns and shares them among threads, but not logical operations
            valid, _, courant = cell_values()
            return jnp.all(jnp.sum(jnp.where(valid, 0.0, 1.0).astype(courant.dtype), axis=-2) == 0.0)

        def diagnosis():
            valid, thickness, courant = cell_values()
            place = jnp.argmin(valid.reshape(-1))[None].astype(jnp.int32)
            values = (x.reshape(-1)[place].astype(old.dtype) for x, old in zip((thickness, courant), carry[2:]))
            return jnp.full_like(carry[0], step), place, *values

        # The cell is located only in an invalid state, since that takes ten times as long as the check.
        return jax.lax.cond(~is_valid() & (carry[0][0] < 0), diagnosis, lambda: carry)
