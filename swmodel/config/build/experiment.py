"""From an experiment file to the model's objects.

`assemble` makes the objects that do not need other ranks (grid, sea floor, wind, faults) and collects all mistakes.
`model_of`, `state_of` and `stepper_of` (steppers.py) make the others on this rank. All objects are made by the same
constructors that Python scripts call.
"""

import dataclasses
import math
import types
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from ...defaults import GRAVITY
from ...dynamics.forcing import WindStress
from ...errors import ConfigError, DataError, SwmodelError
from ...fields.parameters import Moment
from ...fields.parts import numbers_of, positions_of
from ...fields.state import replaced
from ...fields.variables import PROGNOSTIC
from ...grids.grid import Grid
from ...grids.windows import blocks_of
from ...models.checks import variables_in_state
from ...models.shallow_water import ShallowWater
from ...output.products.gauges import Gauges
from ...parallel import SerialCommunicator
from ...parallel.communicator import Communicator
from ...parallel.decomposition import Decomposition, TileError, best_layout
from ...runtime import launchers, memory
from .. import Draft, Experiment
from ..own import path_of_part
from ..parts import arguments_of, part_of
from ..physics import CORIOLIS_FORMS, FORMS, SLIPS, TABLES_OF_CORES
from ..scenario import bytes_of_gauges, bytes_of_outputs
from ..sections import MapFile
from ..series import SeriesSection
from ..toml import Mistake
from . import fields
from .series import check_record, check_tides, series_of, stress_of
from .sources import motion_after_survey, motion_of

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

    def attempt_each(self, name: str, make: Callable[..., object], *arguments: object) -> tuple:
        """make(entry, *arguments) of each entry of the section `name`, as `attempt` does; () if it has a mistake."""
        entries = enumerate(self.section(name) or ())
        return tuple(self.attempt((name, k), make, entry, *arguments) for k, entry in entries)

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
    made.grid = made.attempt(("grid",), fields.grid_of, made.section("grid")) if grid is None else grid
    if made.grid is None:
        return made
    made.attempt(("grid",), _check_memory if here or fields.is_evaluated_whole(made.grid) else _check_tile, made, ranks)
    if any(mistake.path == ("grid",) for mistake in made.mistakes):
        return made
    if made.section("run") is not None:
        made.attempt(("run", "layout"), tiles, made.grid, ranks, made.section("run").layout)
    if (floor := made.section("bathymetry")) is not None:
        wetting = getattr(made.section("model"), "wetting", None)
        made.bathymetry = made.attempt(("bathymetry",), fields.bathymetry_of, floor, made.grid, wetting)
        if made.bathymetry is not None and fields.is_evaluated_whole(made.grid):
            made.bathymetry = made.attempt(("bathymetry",), made.bathymetry.surveyed, SerialCommunicator())
        if floor.levees is not None:
            made.attempt(("bathymetry", "levees"), fields.check_levees, floor.levees, made.grid)
    made.attempt_each("dissipation", fields.check_map, made)
    made.attempt_each("forcing", check_record, made)
    made.attempt_each("boundary", check_record, made)
    made.attempt_each("boundary", check_tides, made)
    made.attempt(("model", "core"), _check_core, made)
    if (run := made.section("run")) is not None:
        made.forcing = made.attempt_each("forcing", _forcing, made.grid, run)
        made.tracers = made.attempt_each("tracer", fields.tracer_of, made.grid, run)
    source = made.section("source")
    faults = None if source is None else made.attempt(("source",), source.faults_on, made.grid, run and run.start)
    if made.bathymetry is not None and made.output is not None and made.output.gauges is not None:
        made.attempt(("output", "gauges", "positions"), _check_gauges, made)
    if faults is not None and not (draft.mistakes or made.mistakes):  # last, since it takes seconds
        of_lakes = made.bathymetry is not None and made.bathymetry.fill_lakes  # of a large grid: not yet surveyed
        motion_of_source = motion_of if records == 1 and not of_lakes else motion_after_survey
        arguments = source, made.grid, made.bathymetry, faults, records
        motion = made.attempt(("source",), motion_of_source, *arguments)
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
    layers = part_of(made.section("layers"), None)
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
    if made.bathymetry is None or not fields.is_evaluated_whole(made.grid):
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
        members=None,
        layer_count=1,
    )
    try:
        Gauges.at(places, cast(Any, like))
    except DataError as error:  # an error of the file of depths, which is read here for the first time
        made.mistakes.append(Mistake(("bathymetry",), str(error)))


# -- parts ------------------------------------------------------------------------------------------------------------


def _forcing(section, grid, run):
    made = {"wind_file": _wind_from_file, "cyclone": _cyclone}.get(section.type, _term)
    return made(section, grid, run)


def _cyclone(section, grid, run):
    """The Cyclone of a track, whose dates are those of the run."""
    if run.start is None:
        raise ConfigError("the dates of a track count from run.start, which is missing; give it in [run]")
    if not grid.spherical:
        raise ConfigError(
            'a track has longitudes and latitudes, and the grid is a plane; use [grid] type = "spherical"'
        )
    return storm_of(section, run)


def storm_of(section: Any, run: Any) -> Any:
    """The Cyclone along the track of a section, in a run with a start.

    Raises:
        SwmodelError: if the track cannot be read, or does not cover the run.
    """
    from ...forcing.tracks import cyclone_of

    track = track_of(section)
    return cyclone_of(track, run.start, run.until, section.wind_averaging, section.quadrants, **arguments_of(section))


def track_of(section: Any) -> Any:
    """The Track of a section.

    Raises:
        SwmodelError: if it cannot be read.
    """
    from ...forcing.tracks import read_track

    options = section.agency, section.wind_pressure, section.ambient_pressure
    return read_track(section.track, section.storm, *options)


def _wind_from_file(section, grid, run):
    """Stress at u and v points from the wind of a file. The drag law needs both components at each of them."""
    stress = stress_of(section, run)
    for name, records in stress.items():
        records.check(grid, name, numbers_of(WindStress)[name], run.until)
    return WindStress(**stress, density=section.density)


# -- the model --------------------------------------------------------------------------------------------------------


def model_of(
    made: Assembly,
    communicator: str | Communicator = "auto",
    layout: tuple[int, int] | None = None,
    engine: str = "auto",
) -> ShallowWater:
    """The ShallowWater model of an Assembly without mistakes, on this rank; collective."""
    import swmodel as sw

    options = options_of(made) | {"communicator": communicator, "layout": layout, "engine": engine}
    return sw.ShallowWater(made.grid, made.bathymetry, **options)


def _form(model):
    form = FORMS.made(model.momentum)
    return replaced(form, {"damping": model.damping}) if "damping" in model.written else form


def options_of(made: Assembly) -> dict[str, Any]:
    """The arguments of ShallowWater that follow from the sections of an Assembly without mistakes."""
    import swmodel as sw

    experiment = made.experiment()
    floor = experiment.bathymetry
    levees = () if floor.levees is None else sw.read_levees(floor.levees, *fields.levels_of(floor))
    return dict(
        gravity=experiment.model.gravity,
        coriolis=None if experiment.coriolis.type == "none" else part_of(experiment.coriolis, None),
        momentum=_form(experiment.model),
        wetting=part_of(experiment.model.wetting, None),
        levees=levees,
        least_thickness=experiment.model.least_thickness,
        coriolis_form=CORIOLIS_FORMS.made(experiment.model.coriolis_form),
        forcing=made.forcing,
        dissipation=tuple(_term(section, made.grid, experiment.run) for section in experiment.dissipation),
        boundaries=tuple(
            _term(section, made.grid, experiment.run, experiment.model.gravity) for section in experiment.boundary
        ),
        tracers=made.tracers,
        layers=part_of(experiment.layers, None),
        source=made.source,
        linear=experiment.model.linear,
        side=SLIPS[experiment.model.side](),
        core=_core(experiment.model),
        dtype=experiment.model.precision,
    )


def _core(section):
    """The core that a [model] section chooses."""
    import swmodel as sw

    options = getattr(section, TABLES_OF_CORES.get(section.core, ""), None)
    if options is not None:
        return part_of(options, None)
    cores = {
        "finite_differences": sw.FiniteDifferences,
        "filtered_differences": sw.FilteredDifferences,
        "pseudo_spectral": sw.PseudoSpectral,
    }
    return cores[section.core]()


def _term(section, grid, run, gravity=GRAVITY):
    """A term or boundary, of the class and with the arguments of its section; formulas become arrays."""
    positions = positions_of(section.part)
    arguments = arguments_of(section)
    rules = {field.name: field.metadata.get("rule") for field in dataclasses.fields(section.part)}
    if isinstance(rules.get("start"), Moment):
        arguments["start"] = run.start
    computed = {}
    if (floor := getattr(section, "rough_bottom", None)) is not None:
        computed = fields.rough_bottom_of(floor, grid)
    for name in (positions.keys() & arguments.keys()) - computed.keys():
        value, at = arguments[name], positions[name]
        if isinstance(value, SeriesSection):
            arguments[name] = series_of(value, grid, name, run, section, gravity)
        elif isinstance(value, MapFile):
            arguments[name] = fields.map_of(value, grid, rules[name])
        else:
            arguments[name] = fields.on_grid(value, grid, at, name)
    return section.part(**arguments | computed)
