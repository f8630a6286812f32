"""The host loop of a run, of one grid or of nested ones: chunks of steps, and between them what a step cannot do.

Output that is due is gathered between chunks, and written by a thread while the next chunk is computed
(output/schedule.py). A chunk ends at the next step at which something is due (output, a forcing record, the end), and
after about a second. Snapshots of every few steps are kept on the device until then (snapshots.py). Ranks agree on
signals, blow-ups and the length of the next chunk between chunks, in one reduction on the host. No rank leaves a chunk
early.
"""

import collections
import contextlib
import dataclasses
import shlex
import statistics
import time as clock
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from ..defaults import LONGEST_CHUNK
from ..dynamics.boundaries import OpenBoundary
from ..dynamics.clock import Time
from ..errors import BlowUp, ConfigError, Interrupted, SwmodelError
from ..fields.field import Value
from ..fields.parts import name_of
from ..fields.state import replace
from ..models.ensemble import Ensemble
from ..output.products.base import Watcher
from ..output.running import Run
from ..runtime.compilation import jit
from ..runtime.packages import is_shipped
from ..runtime.signals import GRACE, PROCESS, WRITING, SignalMonitor
from ..stepping.implicit import Implicit
from .program import Carry, Health, advance, invalid_cells, start_carry
from .progress import usual_bar

if TYPE_CHECKING:
    from .simulation import Simulation


@dataclasses.dataclass
class Grid:
    """A grid that has started, in a call of `run`.

    Attributes:
        simulation: its Simulation.
        total: the number of its steps in one step of the outermost grid.
        run: the Run of its files.
        monitors: (Health, {key: watcher}) of its states.
        carry: its Carry after the last chunk.
    """

    simulation: "Simulation"
    total: int
    run: Run
    monitors: tuple[Health, dict[str, Watcher]]
    carry: Carry


LEAST_SECONDS, MOST_SECONDS = 1.0, 5.0  # of the steps of a chunk; a run responds to signals between chunks
SHARE = 0.2  # of a chunk's time that its fixed cost may take, if MOST_SECONDS suffice for that


class Pace:
    """The number of steps that take about LEAST_SECONDS, or longer if a chunk has a cost c that no step adds to.

    The time of a chunk of n steps is c + n s. Two chunks of which one has at least twice as many steps give c. When
    none of the recent ones has, the next one has twice as many, or half as many after a long one: one chunk that was
    slow for another reason would otherwise be mistaken for a step's time for ever, and chunks stay short. The step's
    time s is the median over recent chunks. The steps of a chunk take c (1 - SHARE) / SHARE, and so the fixed cost
    about SHARE of the time, within LEAST_SECONDS to MOST_SECONDS and up to LONGEST_CHUNK steps.

    The time of output does not count, nor does the first chunk, during which the program is compiled. Neither slow
    output nor one slow chunk therefore shortens the next ones.
    """

    def __init__(self) -> None:
        self.steps, self._warm = 8, False
        self._fixed = 0.0  # [s], c
        self._recent: collections.deque[tuple[int, float]] = collections.deque(maxlen=5)

    def measure(self, count: int, seconds: float) -> int:
        """The length of the next chunk [steps] after one of `count` steps that took `seconds`."""
        if not self._warm:
            self._warm = True
            return self.steps
        self._recent.append((count, seconds))
        (fewest, short), (most, long) = min(self._recent), max(self._recent)
        if unlike := most >= 2 * fewest:
            fixed = short - (long - short) / (most - fewest) * fewest
            self._fixed = min(max(fixed, 0.0), *(took for _, took in self._recent))
        step = statistics.median((took - self._fixed) / n for n, took in self._recent)
        wanted = min(max(LEAST_SECONDS, self._fixed * (1.0 - SHARE) / SHARE), MOST_SECONDS) / max(step, 1e-9)
        if not unlike and seconds < 2.0 * LEAST_SECONDS:
            wanted = max(wanted, 2.0 * count)
        elif not unlike:
            wanted = min(wanted, count // 2 or 2)
        return max(int(min(wanted, self.steps * 4, LONGEST_CHUNK)), 1)


class Driver:
    """Steps the grids of a run together, and writes their files; this one has a single grid.

    Args:
        outer: the Simulation of the outermost grid.

    Attributes:
        grids: {name: Grid} of those that have started, the outermost one first; its name is "".
    """

    def __init__(self, outer: "Simulation"):
        self.outer = outer
        self.grids: dict[str, Grid] = {}

    def run(self, last: int, progress: Callable[..., object] | bool | None) -> None:
        """Step to step number `last` of the outermost grid; `progress` and errors are those of Simulation.run."""
        outer, began = self.outer, self.outer.step
        is_shown = bool(progress) and outer.communicator.is_root
        show: Any = usual_bar() if progress is True and is_shown else progress

        def kept(signal):
            runs = [grid.run for grid in self.grids.values()]
            return f"{signal} stopped the run {progress_clause(outer, began)}. {how_to_continue(outer, *runs[:1])}"

        def reported(seconds):
            if is_shown:
                if getattr(show, "reads_files", True):
                    self.wait()
                show(outer.step, last, outer.time, seconds)

        with stoppable(kept) as (signals, reader), contextlib.ExitStack() as stack:
            self._loop(last, stack, signals, reported, reader.submit)
            PROCESS.allow(WRITING)
            self._finish()

    def _loop(self, last, stack, signals, report, submit):
        outer, pace, began = self.outer, self.outer.pace, clock.perf_counter()
        self.begin(last, stack)
        report(0.0)
        while outer.step < last:
            count = min([pace.steps, *self.until_due(last)])
            steps = self.steps()
            for grid in self.grids.values():
                grid.simulation.read_ahead(last * grid.total, submit)
            since = clock.perf_counter()
            carries = jax.block_until_ready(steps(jnp.int32(outer.step), jnp.int32(count)))
            took = clock.perf_counter() - since
            self._take(carries, count)
            request, pace.steps = self._agree(signals.take(), pace.measure(count, took))
            if request:  # before anything else: a signal leaves too little time to wait for files
                self._handle(request)
            report(clock.perf_counter() - began)
            self.between(last, stack)

    def _finish(self):
        """Complete the files of all grids, and then raise the first error of any."""
        errors = []
        for grid in reversed(self.grids.values()):
            try:
                grid.run.finish(grid.simulation)
            except SwmodelError as error:
                errors.append(error)
        for error in errors:
            raise error

    def wait(self) -> None:
        """Return when the files of all grids are complete up to the present step."""
        for grid in self.grids.values():
            grid.run.wait()

    # -- what nested grids do otherwise -------------------------------------------------------------------------------

    def begin(self, last: int, stack: contextlib.ExitStack) -> None:
        """Start the grids that start at this step of a run to step `last`; `stack` closes their files."""
        self.start("", self.outer, 1, last, stack)

    def steps(self) -> Callable[[jax.Array, jax.Array], tuple[Carry, ...]]:
        """The program of the next chunk, of (number of its first step, number of steps): the Carries after it."""
        (grid,) = self.grids.values()
        dynamics, stepper = grid.simulation.next_system(), grid.simulation.stepper
        return lambda first, count: (advance(dynamics, stepper, grid.carry, grid.monitors, first, count),)

    def until_due(self, last: int) -> Iterator[int]:
        """The numbers of steps until something is due on each grid of a run to step `last`, at most LONGEST_CHUNK."""
        for name, grid in self.grids.items():
            count = min(grid.simulation.until_next(last * grid.total, grid.run), LONGEST_CHUNK) // grid.total
            if count < 1:
                raise ConfigError(
                    f"the files of the nest {name!r} are written too often for its {grid.total} steps in one of the "
                    "outermost grid; write less often."
                )
            yield count

    def between(self, last: int, stack: contextlib.ExitStack) -> None:
        """What is done after each chunk, when all else is done."""

    # -- between chunks ------------------------------------------------------------------------------------------------

    def start(self, name: str, simulation: "Simulation", total: int, last: int, stack: contextlib.ExitStack) -> None:
        """Let a grid take part, with so many steps in one of the outermost grid, in a run to step `last` of that."""
        run = stack.enter_context(Run.opened(simulation, simulation.outputs, last * total))
        carry = start_carry(simulation, simulation.packed()[1])
        self.grids[name] = Grid(simulation, total, run, simulation.monitors(), carry)
        run.due(simulation)
        run.settle(simulation)

    def _take(self, carries, count):
        """Let each Simulation take its Carry after `count` steps of the outermost grid, and write what is due."""
        for grid, carry in zip(self.grids.values(), carries, strict=True):
            grid.carry = carry
            grid.simulation.take(carry, count * grid.total)
        for grid in self.grids.values():  # before any restart is replaced, so that all stay of one time
            self._check_solved(grid, count)  # before the state, which an unsolved equation may have made invalid
        self._check_health(count)
        for name, grid in reversed(self.grids.items()):  # the outermost last: its restart is that of the time to resume
            grid.run.chunk(grid.simulation, count * grid.total, grid.simulation.step)
            grid.run.due(grid.simulation, after_chunk=True)
            if name:
                grid.run.wait()
        if len(self.grids) > 1 and self.outer.communicator.agree(any(x.run.writer.failed for x in self.grids.values())):
            self._write_restarts()
        for grid in self.grids.values():
            grid.run.settle(grid.simulation)

    def _check_solved(self, grid, count):
        """Raise BlowUp on every rank if an equation was not solved, when all before it and valid is written."""
        simulation, communicator = grid.simulation, grid.simulation.communicator
        scheme = cast(Implicit, simulation.scheme)
        if scheme.has_solver and (found := scheme.complaint(grid.carry.packed[1], communicator)):
            invalid = sum(communicator.host_gather(invalid_cells(simulation, grid.carry.health)), [])
            grid.run.chunk(simulation, count, min([found[0], *(cell[0] for cell in invalid)]) - 1)
            grid.run.wait()
            when = f"at step {found[0]} ({found[0] * simulation.dt:g} s)"
            raise BlowUp(f"The run stopped {when}: {found[1]}. {grid.run.restart_hint()}")

    def _check_health(self, count):
        """Raise BlowUp, which names the cell, on every rank alike if a state of any tile of any grid is invalid.

        All grids first write what they have of the last `count` steps of the outermost grid, up to the time of the last
        valid state of the grid in which one becomes invalid first. The message names the restart of the outermost grid,
        from which nests continue, too.
        """
        invalid = {name: invalid_cells(grid.simulation, grid.carry.health) for name, grid in self.grids.items()}
        communicator = self.outer.communicator
        if not communicator.agree(any(invalid.values())):
            return
        found = {name: sum(communicator.host_gather(cells), []) for name, cells in invalid.items()}
        first = {name: min(cells, key=lambda cell: cell[:4]) for name, cells in found.items() if cells}
        name = min(first, key=lambda name: first[name][0] / self.grids[name].total)
        wrong = self.grids[name]
        for grid in reversed(self.grids.values()):
            end = (first[name][0] - 1) * grid.total // wrong.total
            grid.run.chunk(grid.simulation, count * grid.total, end)
        self.wait()
        message = f"{diagnosis(wrong.simulation, *first[name])} {self.grids[''].run.restart_hint()}"
        raise BlowUp(f"In the nest {name!r}: {message}" if name else message)

    def _write_restarts(self):
        """Write the restarts of all grids, that of the outermost one when those of nests are written."""
        for name, grid in reversed(self.grids.items()):
            grid.run.write_restart(grid.simulation)
            if name:
                grid.run.wait()

    def _agree(self, request, steps):
        """(the most urgent signal of any rank, the root's choice of the next chunk's length), on every rank."""
        communicator = self.outer.communicator
        request, steps = communicator.host_maximum(np.array([float(request), float(steps * communicator.is_root)]))
        return int(request), int(steps)

    def _handle(self, request):
        """Write the restarts that a signal requests, and raise Interrupted if the signal ends the run."""
        signal, ends = SignalMonitor.meaning(request)
        if ends:
            PROCESS.take_over()
        self._write_restarts()
        if ends:
            self.grids[""].run.wait()
            outer, run = self.outer, self.grids[""].run
            message = f"{signal.name} stopped the run at step {outer.step} ({outer.time:g} s)."
            raise Interrupted(f"{message} {how_to_continue(outer, run)}", signal)


# -- why a run stopped, and how to continue it -----------------------------------------------------------------------


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
        layer, row, column: the layer, 0 at the top, and the cell of the whole grid.
        thickness, courant: h [m] and the CFL number there.
    """
    x, y = simulation.model.grid.x_centres[column], simulation.model.grid.y_centres[row]
    whose = f" of {cast(Ensemble, simulation.model).name(member)}" if simulation.model.batch else ""
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
        else:
            clause, remedy = simulation.model.system.shore.too_thin
            what += f" {clause}"
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
    if model.batch:
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
