"""From an experiment file to the model's objects, and to its time step.

`assemble` builds what does not need other ranks (grid, sea floor, wind, faults) and collects all mistakes. `model_of`
builds the model on this rank. Each section builds its own part, by the same constructors that Python scripts call.
"""

import dataclasses
import math
import types
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from ..defaults import GRAVITY
from ..errors import ConfigError, DataError, SwmodelError
from ..fields.parameters import MOST
from ..fields.variables import PROGNOSTIC
from ..grids.grid import Grid
from ..grids.windows import blocks_of
from ..models.checks import variables_in_state
from ..models.shallow_water import ShallowWater
from ..output.products.gauges import Gauges
from ..parallel import SerialCommunicator
from ..parallel.communicator import Communicator
from ..parallel.decomposition import Decomposition, TileError, best_layout
from ..runtime import launchers, memory
from ..stepping.explicit import TimeStepper
from ..stepping.stability import Limit, largest_time_step, limits
from . import Draft, Experiment
from .own import path_of_part
from .physics import Rest
from .scenario import Output, bytes_of_gauges, bytes_of_outputs
from .sections import Surroundings, is_evaluated_whole
from .toml import Mistake

MOST_RECORDS = 24  # the most records of a source's motion, each of which is a field of the whole grid


@dataclasses.dataclass
class Assembly:
    """The objects of an experiment file that could be made, and all mistakes; None stands for the others."""

    draft: Draft
    output: Any = None  # the section [output] of the file; that of `draft` has the gauges of the outermost grid alone
    grid: Any = None
    bathymetry: Any = None
    forcing: tuple[Any, ...] = ()
    tracers: tuple[Any, ...] = ()
    source: Any = None
    summary: Any = None  # of the source
    nests: tuple[Any, ...] = ()  # a NestAssembly of each nest
    mistakes: list[Mistake] = dataclasses.field(default_factory=list)

    def section(self, name: str) -> Any:
        """The valid section of that name; None if it has a mistake, or is left out."""
        return self.draft.sections.get(name)

    @property
    def surroundings(self) -> Surroundings:
        """What the sections are built for."""
        run, model = self.section("run"), self.section("model")
        start, until = (None, None) if run is None else (run.start, run.until)
        return Surroundings(self.grid, start, until, GRAVITY if model is None else model.gravity, self.output)

    def attempt(self, path: tuple[str | int, ...], make: Callable[..., Any], *arguments: Any) -> Any:
        """make(*arguments). If that raises, None, and the error becomes a mistake of the key at `path`.

        An error that names a part of the model becomes a mistake of that part.
        """
        try:
            return make(*arguments)
        except (SwmodelError, ValueError, OSError) as error:
            texts = getattr(error, "mistakes", None) or [str(error)]
            path = path_of_part(self.draft.raw, getattr(error, "part", "")) or path
            self.mistakes += [Mistake(path, text) for text in texts]
            return None

    def build_each(self, name: str) -> tuple:
        """What each entry of the section `name` describes, as `attempt` does; () if it has a mistake."""
        entries = enumerate(self.section(name) or ())
        return tuple(self.attempt((name, k), entry.build, self.surroundings) for k, entry in entries)

    def require(self, path: tuple[str | int, ...], make: Callable[..., Any], *arguments: Any) -> Any:
        """make(*arguments). If that raises, the error becomes a mistake of the key at `path`, and all are raised."""
        made = self.attempt(path, make, *arguments)
        self.experiment()
        return made

    def sentences(self) -> list[str]:
        """One sentence for each mistake in the file and in the files that it names."""
        return self.draft.sentences(self.mistakes)

    def experiment(self) -> Experiment:
        """The valid Experiment; raises ConfigError with every mistake in the file and in the files that it names."""
        return self.draft.experiment(self.mistakes)


def assemble(
    draft: Draft, ranks: int = 1, records: int = MOST_RECORDS, here: bool = True, grid: Grid | None = None
) -> Assembly:
    """Make the objects that the valid sections of a Draft describe; mistakes are collected and not raised.

    Args:
        draft: the Draft.
        ranks: the number of ranks of the run.
        records: the most intervals in which a source's motion is sampled; 1 suffices for a summary.
        here: whether the run is to be on this machine, whose memory must then suffice.
        grid: that of a nest, in place of the one that [grid] describes.
    """
    made = Assembly(draft, draft.sections.get("output"))
    if made.section("grid") is None:
        return made
    made.grid = made.attempt(("grid",), made.section("grid").build) if grid is None else grid
    if made.grid is None:
        return made
    made.attempt(("grid",), _check_memory if here or is_evaluated_whole(made.grid) else _check_tile, made, ranks)
    if any(mistake.path == ("grid",) for mistake in made.mistakes):
        return made
    if made.section("run") is not None:
        made.attempt(("run", "layout"), tiles, made.grid, ranks, made.section("run").layout)
    if (floor := made.section("bathymetry")) is not None:
        moving = bool(getattr(made.section("model"), "shore", None))
        made.bathymetry = made.attempt(("bathymetry",), floor.on, made.grid, moving)
        if made.bathymetry is not None and is_evaluated_whole(made.grid):
            made.bathymetry = made.attempt(("bathymetry",), made.bathymetry.surveyed, SerialCommunicator())
        for name, value in floor:
            made.attempt(("bathymetry", name), floor.check_key, name, value, made.grid)
    run, on = made.section("run"), made.surroundings
    for group in ("dissipation",) if run is None else ("dissipation", "forcing", "boundary"):
        entries: Any = made.section(group) or ()
        for k, entry in enumerate(entries):
            for name, value in entry:
                made.attempt((group, k), entry.check_value, name, value, on)
    made.attempt(("model", "core"), _check_core, made)
    if run is not None:
        made.forcing = made.build_each("forcing")
        made.tracers = made.build_each("tracer")
    source = made.section("source")
    faults = None if source is None else made.attempt(("source",), source.faults_on, made.grid, run and run.start)
    if made.bathymetry is not None and made.output is not None and made.output.gauges is not None:
        made.attempt(("output", "gauges", "positions"), _check_gauges, made)
    if source is not None and faults is not None and not (draft.mistakes or made.mistakes):  # last: it takes seconds
        motion = made.attempt(("source",), source.motion_on, made.grid, made.bathymetry, faults, records)
        made.source, made.summary = motion or (None, None)
    return made


def _check_tile(made, ranks):
    """Raise ConfigError if this machine has no memory for a single tile of the grid, which `check` makes."""
    cells, whole = math.ceil(made.grid.nx * made.grid.ny / ranks), f"{made.grid.nx:,} x {made.grid.ny:,} cells"
    what = f"one of {ranks:,} tiles of a grid of {whole}" if ranks > 1 else f"a grid of {whole}"
    memory.require(memory.of_model(cells, cells, 4), what, "use fewer cells, or more ranks", ranks=1)


def _check_memory(made, ranks):
    """Raise ConfigError if the grid's arrays need more memory than there is, before any of them is made."""
    model, ensemble, output = (made.section(name) for name in ("model", "ensemble", "output"))
    itemsize = 8 if model is not None and model.precision == "float64" else 4
    members = 1 if ensemble is None else ensemble.count
    whole = made.grid.nx * made.grid.ny
    in_one = launchers.launched_ranks() == 1  # in `check`, and in sharded runs, whose tiles share a process
    host = whole if in_one else math.ceil(whole / ranks)
    tile = memory.on_host(host)
    records = 0 if made.section("source") is None else MOST_RECORDS
    layers = made.section("layers") and made.section("layers").build()
    variables = variables_in_state(len(made.section("tracer") or ()), layers)
    needed = memory.of_model(members * tile, host, itemsize, records=records, variables=variables)
    of, fewer = f" of {members} members" if members > 1 else "", "use fewer cells"
    if output is not None:
        needed += bytes_of_outputs(output, tile, itemsize, members)
        if bytes_of_gauges(output, itemsize, members) > 0.5 * needed:
            of, fewer = f"{of} with {len(output.gauges.positions):,} gauges", "use fewer gauges"
    remedy = fewer + (", or more machines" if not in_one else "")
    memory.require(needed, f"a grid of {made.grid.nx:,} x {made.grid.ny:,} cells{of}", remedy)


def tiles(grid: Grid, ranks: int, layout: tuple[int, int] | None = None, halo: int = 1) -> Decomposition:
    """The Decomposition of `grid` for `ranks` ranks; raises TileError if there is none."""
    layout = best_layout(grid.shape, ranks) if layout is None else layout
    if layout[0] * layout[1] != ranks:
        raise TileError(
            f"{layout[0]} x {layout[1]} tiles (y x x) need {layout[0] * layout[1]} ranks, and there are {ranks}; "
            f"change the layout, or start mpirun -n {layout[0] * layout[1]}, "
            f"or sharded --devices {layout[0] * layout[1]}"
        )
    decomposition = Decomposition(grid.shape, tuple(layout))
    decomposition.check_halo(halo)
    return decomposition


def _check_core(made):
    """Raise ConfigError for land under the pseudo-spectral core; the sections alone do not show where land is."""
    model = made.section("model")
    if model is None or model.core != "pseudo_spectral":
        return
    if made.bathymetry is None or not is_evaluated_whole(made.grid):
        return
    land = sum(int((~made.bathymetry.wet.block(*block)).sum()) for block in blocks_of(made.grid.shape))
    if land:
        raise ConfigError(
            f"'pseudo_spectral' has no coasts, and {land} cells are land; use a bathymetry "
            "without land, or core = 'finite_differences'"
        )


def _check_gauges(made):
    places = made.section("output").gauges.positions
    refused = {mistake.path for mistake in made.draft.mistakes}  # they lie outside the grid
    places = {name: at for name, at in places.items() if ("output", "gauges", "positions", name) not in refused}
    one = SerialCommunicator()
    like = types.SimpleNamespace(
        grid=made.grid,
        sea_floor=made.bathymetry,
        dtype=np.float32,
        communicator=one,
        decomposition=one.decomposition(made.grid.shape),
        variables=PROGNOSTIC,
        batch=(),
        layer_count=1,
    )
    try:
        Gauges.at(places, cast(Any, like))
    except DataError as error:  # an error of the file of depths, which is read here for the first time
        made.mistakes.append(Mistake(("bathymetry",), str(error)))


# -- the model --------------------------------------------------------------------------------------------------------


def model_of(
    made: Assembly,
    communicator: str | Communicator = "auto",
    layout: tuple[int, int] | None = None,
    engine: str = "auto",
) -> ShallowWater:
    """The ShallowWater model of an Assembly without mistakes, on this rank; collective."""
    options = options_of(made) | {"communicator": communicator, "layout": layout, "engine": engine}
    return ShallowWater(made.grid, made.bathymetry, **options)


def options_of(made: Assembly) -> dict[str, Any]:
    """The arguments of ShallowWater that follow from the sections of an Assembly without mistakes."""
    experiment, on = made.experiment(), made.surroundings
    return (
        experiment.model.options()
        | experiment.bathymetry.options()
        | {
            "coriolis": experiment.coriolis.build(),
            "forcing": made.forcing,
            "dissipation": tuple(section.build(on) for section in experiment.dissipation),
            "boundaries": tuple(section.build(on) for section in experiment.boundary),
            "tracers": made.tracers,
            "layers": experiment.layers and experiment.layers.build(),
            "source": made.source,
        }
    )


# -- the time step -----------------------------------------------------------------------------------------------------

MORE, SAFE = 1.05, 0.9  # so much of `fraction`, and of the longest stable step, dt = "auto" may be, to fit intervals


def time_step(experiment: Experiment, limits: Sequence[Limit]) -> float:
    """dt [s]: that of the file, or about a fraction of the longest stable one, which divides the output intervals.

    Raises:
        ConfigError: if the file's dt is not stable; the message names the limit and its place.
    """
    dt = _time_step(experiment, limits)
    steps = experiment.run.until / dt
    if steps > MOST:
        raise ConfigError(
            f"{steps:.3g} steps of {dt:.3g} s would be needed until {experiment.run.until:.3g} s, and steps are "
            f"counted to {MOST:,}; use a longer step, or a shorter run"
        )
    return dt


def _time_step(experiment, limits):
    dt = experiment.stepper.dt
    if dt == "auto":
        if not limits:
            raise ConfigError(f"nothing limits the time step of {experiment.stepper.type} here; give dt in seconds")
        longest, fraction = largest_time_step(limits), experiment.stepper.fraction
        most = max(fraction, min(MORE * fraction, SAFE))
        wanted, (every, ends) = fraction * longest, _intervals(experiment)
        both = (*every, *ends)
        return dividing_step(wanted, most * longest, both if _common(both) >= wanted / 10 else every)
    if limits and dt > limits[0].dt:
        raise ConfigError(too_long(experiment.stepper, limits))
    return dt


def too_long(section: Any, limits: Sequence[Limit]) -> str:
    """The sentence for a time step over its limit."""
    return (
        f"{section.dt:g} s is over the limit of {section.type}, {limits[0]}; "
        f'use dt = "auto", or at most {0.9 * largest_time_step(limits):.3g} s'
    )


def unstable(made: Assembly) -> list[Mistake]:
    """The mistake of a time step over the limit of gravity waves, for an Assembly that has other mistakes; or none."""
    model, stepper, layers = (made.section(name) for name in ("model", "stepper", "layers"))
    if made.bathymetry is None or model is None or stepper is None or stepper.dt == "auto":
        return []
    if not is_evaluated_whole(made.grid):
        return []
    waves = ShallowWater(
        made.grid,
        made.bathymetry,
        gravity=model.gravity,
        layers=layers and layers.build(),
        communicator=SerialCommunicator(),
        dtype="float32",
        **model.shore,
    )
    found = limits(waves, stepper.stepper())
    return [Mistake(("stepper", "dt"), too_long(stepper, found))] if found and stepper.dt > found[0].dt else []


def _intervals(experiment):
    """(the intervals of the output, else the length of the run; the lengths of the studies) [s]."""
    outputs = [experiment.output, *(nest.output for nest in experiment.nest if nest.output is not None)]
    repeated = [one for output in outputs for one in (*output.fields, output.gauges, output.spectra, output.restart)]
    every = [section.every for section in repeated if section is not None and section.every is not None]
    studies = [study for study in (experiment.adjoint, experiment.inversion) if study is not None]
    return every or [experiment.run.until], [study.until or experiment.run.until for study in studies]


def _common(intervals):
    """The greatest common divisor, to the millisecond [s]."""
    return math.gcd(*(round(1000 * interval) for interval in intervals)) / 1000


def dividing_step(wanted: float, most: float, intervals: Sequence[float]) -> float:
    """The longest dt up to `wanted` of which every interval is a whole multiple, to the millisecond [s].

    If that is shorter than `wanted` by more than a tenth, as where few steps fit into an interval, the next longer one
    is taken, provided that it is at most `most`.
    """
    common = _common(intervals)
    if common < wanted / 10:  # no useful common divisor: outputs then fall on the nearest step
        return wanted
    steps = math.ceil(common / wanted)
    if steps > 1 and common < 0.9 * steps * wanted and common <= most * (steps - 1):
        steps -= 1
    return common / steps


THINNEST = 16  # cells along a direction to which a grid is coarsened, at least


def coarsened(draft: Draft, cut: int) -> Assembly:
    """The Assembly of an experiment on cells that are `cut` times as long and as wide, without outputs.

    The iterations of an elliptic solver are counted on it. With d = cut times the spacing and g' = cut^2 times the
    gravity, the operator of a semi-implicit step has the same coefficients per cell,
    (theta dt / d)^2 g' H = (theta dt / dx)^2 g H: gravity waves cross as many cells in a step. A longer step in place
    of the larger gravity would have the same effect on them, but the Coriolis force, which is explicit, would be
    unstable.

    Depths are those that the file, formula or number gives on such cells, and so are all other fields. An initial state
    in a file, which is one of the original grid, is replaced by rest.

    Args:
        draft: the Draft of the experiment, without mistakes.
        cut: the factor, 1 or more.
    """
    given = draft.sections
    grid, model, initial = given["grid"], given["model"], given["initial"]
    cells = {name: max(-(-n // cut), min(n, THINNEST)) for name, n in (("nx", grid.nx), ("ny", grid.ny))}
    sections = {
        "grid": grid.replaced(**cells),
        "model": model.replaced(gravity=cut**2 * model.gravity),
        "initial": Rest(type="rest") if initial.type == "file" else initial,
        "run": given["run"].replaced(layout=None),
        "output": Output(),
        "adjoint": None,
        "inversion": None,
    }
    return assemble(dataclasses.replace(draft, sections=given | sections), records=1, here=False)


def driver_of(model: Any, state: Any, stepper: TimeStepper, **options: Any) -> Any:
    """The Simulation of a model and its State, or the NestedSimulation of a Family and {name: State}."""
    if isinstance(state, dict):
        from ..simulation.nested import NestedSimulation

        return NestedSimulation(model, state, stepper, **options)
    from ..simulation.simulation import Simulation

    return Simulation(model, state, stepper, **options)
