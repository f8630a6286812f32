"""`swmodel check`: a description of a run, or all mistakes of an experiment file."""

import contextlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ..config import Experiment, Override, read
from ..config.assembly import MOST_RECORDS, Assembly, tiles, time_step, unstable
from ..config.scenario import PRODUCTS, bytes_of_outputs
from ..config.sections import Surroundings, is_evaluated_whole
from ..config.series import RecordFile, TideSection
from ..dynamics.domain import Model
from ..dynamics.forcing import WaterForcing
from ..errors import ConfigError, SwmodelError
from ..fields.parts import numbers_of
from ..grids.grid import CartesianGrid, SphericalGrid
from ..grids.water import label_bodies
from ..models.shallow_water import ShallowWater
from ..observed.folder import read_folder
from ..parallel import OneTileCommunicator
from ..parallel.decomposition import Decomposition
from ..runtime import launch, memory
from ..runtime.paths import check_apart, expanded
from ..stepping.stability import largest_time_step, limits
from . import facts, logs, starting
from .explain import Speed, speed_line
from .remarks import remarks, step_warnings


def check_experiment(file: str, overrides: Sequence[str | Override], ranks: int, speed: Speed | None = None) -> None:
    """Print a description of a run on `ranks` ranks, and its predicted speed if `speed` is a Speed.

    Raises:
        ConfigError: with every mistake.
    """
    logs.start(root=True)  # before the file is read, which names code of its own
    draft = read(file, overrides)
    made = starting.assemble_alone(draft, ranks, nested=True)
    if draft.mistakes or made.mistakes:
        made.mistakes += unstable(made)
        raise ConfigError(made.sentences())
    experiment = made.experiment()
    if is_evaluated_whole(made.grid):
        where = "serial", None, experiment.run.engine
        if made.nests:
            family, states, dt = starting.model_state_and_step(made, experiment, *where)
            model, state, studied = family.outer, states[""], (family, states)
        else:
            studied = model, state = starting.model_and_state(made, experiment, *where)
        lines, warnings = _plan(made, experiment, model, state, ranks, speed, studied)
        if made.nests:
            lines += _nests(made, family, states, dt, ranks)
    else:
        lines, warnings = _plan_of_tiles(made, experiment, ranks)
        if made.nests:
            warnings.append("nests were placed, and are examined when the run starts: the outermost grid is too large.")
    print(facts.table(lines))
    for warning in warnings:
        print(f"warning: {warning}")
    print(f"{draft.file}: no mistakes found")


def _plan(made, experiment, model, state, ranks, speed, studied):
    """((label, text) lines, warnings) of a run; raises ConfigError for mistakes that only the model reveals."""
    stepper = experiment.stepper.stepper()
    halo, found = (
        made.require(("stepper",), model.halo, stepper),
        made.require(("stepper",), limits, model, stepper, state),
    )
    decomposition = made.attempt(("run", "layout"), tiles, model.grid, ranks, experiment.run.layout, halo)
    whole, longest = np.prod(model.grid.shape), largest_time_step(found) if found else np.inf
    simulation = _with_files(made, experiment, model, state, found, None if whole <= LARGEST_SUMMED else WITHOUT_SUMS)
    dt = simulation.dt
    tile = int(max(np.prod(decomposition.tile(rank).shape) for rank in range(ranks)))
    moving = records_of_source(made)
    need = bytes_of_rank(experiment, model, tile, moving)
    for one in made.nests:
        nested = studied[0].models[one.name]
        own = bytes_of_rank(one.made.experiment(), nested, -(-nested.grid.nx * nested.grid.ny // ranks), moving)
        need += own - memory.BASE
    floor = model.sea_floor
    sea, split = facts.sea_line(floor, whole), facts.ranks_line(decomposition, made.bathymetry.wet)
    lines = _lines(made, experiment, model, need, moving, sea, split)
    lines.append(("engine", facts.engine_line(*simulation.engine)))
    lines += [*_steps_lines(experiment, found, dt, longest), *waters_lines(model, experiment.run.until)]
    if speed is not None:
        whose = "speed of one member" if model.batch else "speed"
        lines.append((whose, speed_line(speed, made, experiment, ranks, dt, decomposition)))
    members = [("ensemble", facts.members_line(model))] if model.batch else []
    lines += _files_lines(made, experiment, model, dt, [*members, *_studies(made, studied[0], studied[1], dt)])
    warnings = _warnings(floor.report, experiment, model.grid, dt, longest, ranks, float(floor.depths[1]))
    warnings += [
        *facts.model_remarks(experiment, model),
        *facts.wave_remarks(made, model, state),
        *flooded_land(experiment, model),
    ]
    return lines, warnings


def _nests(made, family, states, dt, ranks):
    """(label, text) lines of the nests; raises ConfigError for mistakes of their steps, tiles and files."""
    driver = starting.simulation_of(made, family, states, dt)
    for k, one in enumerate(made.nests):
        simulation, grid = driver[one.name], family.models[one.name].grid
        made.attempt(("nest", k), tiles, grid, ranks, None, max(simulation.halo, one.place.width))
    starting.add_outputs_of_nests(made, driver, Path("."))
    made.attempt(("nest",), driver.check_due)
    made.experiment()
    return [*starting.nest_lines(made, family, dt), *starting.nest_output_lines(made, family, dt)]


LARGEST_SUMMED = 2**22  # cells of a grid of which this process holds sums and maxima, which ranks share in a run
WITHOUT_SUMS = ("fields", "gauges", "spectra", "restart")


def _plan_of_tiles(made, experiment, ranks):
    """`_plan` for a grid too large for this process, from a few tiles, set up as on their ranks."""
    if experiment.ensemble is not None:
        raise ConfigError("ensemble: the grid is too large to be checked with an ensemble; check a single member")
    stepper, grid = experiment.stepper.stepper(), made.grid
    layout = made.require(("run", "layout"), tiles, grid, ranks, experiment.run.layout)
    examined = []
    for tile in tiles_with_water(made, layout):
        model, state = starting.model_and_state(made, experiment, tile, layout.layout, "arrays")
        examined.append((model, limits(model, stepper, state), state))
    if not examined:
        raise ConfigError(f"bathymetry: {len(_spread(layout))} tiles were examined, and none of them has water")
    model, found, state = min(examined, key=lambda one: largest_time_step(one[1]) if one[1] else np.inf)
    dt = _with_files(made, experiment, model, state, found, ("fields", *PRODUCTS, "products")).dt
    longest = largest_time_step(found) if found else np.inf
    cells = int(np.prod(layout.tile(0).shape))
    depths = np.array([one.sea_floor.depths for one, *_ in examined])
    extent = f"{len(examined)} of {ranks:,} tiles were examined"
    sea = f"{depths[:, 0].min():.4g} to {depths[:, 1].max():.4g} m deep where {extent}"
    split = facts.ranks_line(layout)
    moving = records_of_source(made)
    lines = _lines(made, experiment, model, bytes_of_rank(experiment, model, cells, moving), moving, sea, split)
    lines += [*_steps_lines(experiment, found, dt, longest), *_files_lines(made, experiment, model, dt)]
    partly = f"{extent}: other tiles may need a shorter time step; lakes and channels are reported when the run starts."
    warnings = [*_warnings((), experiment, grid, dt, longest, ranks), *facts.model_remarks(experiment, model)]
    return lines, [partly, *warnings]


def records_of_source(made: Assembly) -> int:
    """The most records of a moving sea floor that a rank holds."""
    return 0 if made.source is None else MOST_RECORDS


def bytes_of_rank(experiment: Experiment, model: ShallowWater, tile: int, moving: int) -> float:
    """The bytes that a rank of `tile` cells needs, with `moving` records of a source's motion."""
    members = math.prod(model.batch)
    need = memory.of_model(members * tile, tile, *_sizes(experiment, model, moving))
    return need + bytes_of_outputs(experiment.output, tile, model.dtype.itemsize, members)


def _sizes(experiment, model, moving):
    """What the memory of a cell depends on: bytes of a number, past states, records of a source, variables."""
    return model.dtype.itemsize, experiment.stepper.stepper().states_kept, moving, len(model.variables)


def _lines(made, experiment, model, need, moving, sea, split):
    """(label, text) lines of a run that needs so many bytes on a rank, with `moving` records of a source's motion."""
    stepper, there = experiment.stepper.stepper(), memory.of_device()
    largest = memory.largest_tile(there, *_sizes(experiment, model, moving)) // math.prod(model.batch)
    fit = f"{largest:,} cells fill {memory.size(there)} here"
    return [
        ("experiment", experiment.run.title or made.draft.file.stem),
        ("grid", facts.grid_line(made.grid)),
        ("sea floor", sea),
        *facts.layers_lines(model),
        ("ranks", split),
        ("memory", f"about {memory.size(need)} per rank, in {model.dtype}\n{fit}"),
        ("core", ", ".join(filter(None, (model.core.describe(), facts.damping_of(model))))),
        ("stepper", f"{type(stepper).__name__}, a halo of {model.halo(stepper)} cells"),
    ]


def _with_files(made, experiment, model, state, found, kinds):
    """The Simulation with its outputs, of `kinds` alone unless that is None; raises ConfigError for every mistake."""
    dt = made.attempt(("stepper", "dt"), time_step, experiment, found)
    made.attempt((), _check_files, made, experiment)
    made.experiment()
    simulation = starting.simulation_of(made, model, state, dt)
    starting.add_outputs(made, simulation, expanded(experiment.output.folder), kinds)
    return simulation


def _files_lines(made, experiment, model, dt, more=()):
    """(label, text) lines of the source and the files that are read, `more` lines, and those that are written."""
    source = [] if made.summary is None else [("source", str(made.summary))]
    outputs = facts.output_lines(experiment, model, dt)
    written = "\n".join(outputs) or "none: the run would leave nothing behind"
    return [*source, *file_lines(experiment, made.grid), *more, ("output", written)]


def _steps_lines(experiment, found, dt, longest):
    """(label, text) lines of the limits of the time step and of the chosen step."""
    return [
        ("limits", "\n".join(map(str, found)) or "none"),
        ("time step", facts.step_line(dt, found, longest, experiment.run.until)),
    ]


def tiles_with_water(made: Assembly, layout: Decomposition) -> Iterator[OneTileCommunicator]:
    """Communicators of some tiles with water from all parts of a decomposition, at most nine."""
    for rank in _spread(layout):
        if made.bathymetry.wet.block(*layout.tile(rank).slices).any():
            yield OneTileCommunicator(layout.layout, rank)


def _spread(layout):
    """Some ranks from all parts of a decomposition."""
    rows, columns = (sorted({0, n // 2, n - 1}) for n in layout.layout)
    return [iy * layout.layout[1] + ix for iy in rows for ix in columns]


def _check_files(made, experiment):
    """Raise ConfigError if files of a run, of [adjoint] or of [inversion] are inputs or one another."""
    folder = expanded(experiment.output.folder)
    studies = starting.files_of_studies(made.section("adjoint"), made.section("inversion"), folder)
    files = starting.merged(starting.files_of_grids(made, folder).values())
    check_apart([*starting.named_files(files), *studies], starting.inputs_of(made.draft))


def _studies(made, model, state, dt):
    """(label, text) lines of [adjoint], [inversion] and [green]; raises ConfigError with all their mistakes."""
    if getattr(model, "batch", ()):  # an ensemble has neither
        return []
    names = [name for name in ("adjoint", "inversion", "green") if made.section(name) is not None]
    if not names:
        return []
    from ..config import studies

    found = [(name, getattr(studies, f"{name}_line")(made, model, state, dt)) for name in names]
    made.experiment()
    return found


def _warnings(report, experiment, grid, dt, longest, ranks, deepest=np.inf):
    warnings = [*report, *step_warnings(dt, longest), *remarks(experiment, grid, dt, deepest)]
    cores = launch.threads_per_rank()
    if ranks > cores:
        shared = "the only core" if cores == 1 else f"the {cores} cores"
        warnings.append(f"{ranks} ranks would share {shared} of this machine and wait for each other.")
    return warnings


def waters_lines(model: ShallowWater, until: float) -> list[tuple[str, str]]:
    """The line of the water that rain, rivers and the like bring or take in a run until `until` [s]; collective."""
    sources = [(name, term) for name, term in model.named_parts("terms") if isinstance(term, WaterForcing)]
    lines = [f"{name}, {type(term).__name__}: {term.summary(model, until)}" for name, term in sources]
    return [("water", "\n".join(lines))] if lines else []


def file_lines(experiment: Experiment, grid: CartesianGrid | SphericalGrid) -> list[tuple[str, str]]:
    """The lines of files that are read, with what was assumed of each; those that cannot be read have none."""
    texts = {
        "forcing": _series_texts(experiment, grid),
        "storm": _storm_texts(experiment),
        "level": _level_texts(experiment),
        "records": _record_texts(experiment),
        "tracks": _track_texts(experiment),
    }
    joined = {label: "\n".join(lines) for label, lines in texts.items()}
    return [(label, text) for label, text in joined.items() if text]


def _record_texts(experiment):
    """Observed records of gauges: each file with what was assumed, and what the steps of its folder did.

    `remarks` and `inversion` report the mistakes of folders.
    """
    gauges, inversion = experiment.output.gauges, experiment.inversion
    sources = [] if gauges is None or gauges.observations is None else [(gauges.observations, gauges.positions)]
    for entry in () if inversion is None else inversion.observations:
        if entry.type == "gauges" and entry.folder is not None:
            sources.append((entry.folder, entry.known(experiment.output)))
    lines = {}
    for folder, names in sources:
        with contextlib.suppress(SwmodelError):
            records = read_folder(folder, names, experiment.run.start)
            lines |= {record.path: f"{name}, {record}" for name, record in records.items()}
            if without := [name for name in names if name not in records]:
                lines[folder] = (
                    f"no file in {folder} is named after {', '.join(without)}: the run is not compared there"
                )
    return lines.values()


def _series_texts(experiment, grid):
    """Records of fields and tides that drive the model."""
    on = Surroundings(grid, experiment.run.start, experiment.run.until)
    for kind in ("forcing", "boundary"):
        for k, part in enumerate(getattr(experiment, kind)):
            with contextlib.suppress(SwmodelError):
                yield from [f"{kind}.{k}.{key}: {words}" for key, words in _series_of(part, on)]


def _series_of(part, on):
    """Yield (key, words) for the fields and tides of a section."""
    if part.type == "wind_file":
        for wind in part.stress(on)["x"].winds():
            yield "file", wind.summary(on.grid, "h", "m s-1")
    for key, value in part:
        if isinstance(value, TideSection):
            names = dict.fromkeys((*value.constituents, *value.of_atlas()))
            yield key, f"a tide of {', '.join(names)}, with phase lags of Greenwich"
        elif isinstance(value, RecordFile) and (fields := value.records(on)) is not None:
            rule = numbers_of(part.part)[key]
            yield key, fields.summary(on.grid, rule.position or "h", rule.units)


def _storm_texts(experiment):
    """Tracks of cyclones."""
    for entry in experiment.forcing:
        if entry.type == "cyclone":
            with contextlib.suppress(SwmodelError):
                used = ["radii of maximum wind in each quadrant"] if entry.quadrants else []
                words = *entry.read_track().remarks, *used, f"times {entry.wind_averaging:g} for 10 min"
                yield "; ".join(words)


def _track_texts(experiment):
    """Files of altimeters in costs and inversions."""
    cost = None if experiment.adjoint is None else experiment.adjoint.cost
    tables = cost, *(() if experiment.inversion is None else experiment.inversion.observations)
    lines: dict[str, None] = {}
    for entry in tables:
        if entry is not None and entry.type in ("tracks", "track_misfit") and entry.file is not None:
            with contextlib.suppress(SwmodelError):
                lines |= dict.fromkeys(entry.tracks(experiment.run.start).remarks)
    return lines


def _level_texts(experiment):
    """An initial level from a file."""
    if experiment.initial.type == "level":
        with contextlib.suppress(SwmodelError):
            yield experiment.initial.read_level().assumed


def flooded_land(experiment: Experiment, model: Model) -> list[str]:
    """A warning about land below level 0 which no water at rest joins to the sea, and which starts flooded; collective.

    The sea is the largest water at rest, and all that lies at the edge of the grid.
    """
    if model.film is None or experiment.initial.type != "rest":
        return []
    floor = model.sea_floor
    water = floor.depth.map(lambda depth, wet: wet & (depth > 0), floor.wet, dtype=bool)
    bodies = label_bodies(water, model.grid, model.communicator)
    inland = ~bodies.touches.any(axis=1) & (bodies.cells < bodies.cells.max(initial=0))
    if not inland.any():
        return []
    places = "1 place" if inland.sum() == 1 else f"{inland.sum():,} places"
    cells = f"{bodies.cells[inland].sum():,} cells of land in {places}"
    return [
        f"{cells} lie below the level of the water at rest, and nothing "
        "joins them to the sea: they start flooded up to this level; give them an initial eta below their bed, as "
        "[initial] type = 'formula' can, and they start dry."
    ]
