"""From an experiment file to the model's objects.

`assemble` makes all that one process can make by itself (grid, sea floor, wind, faults) and collects every mistake on
the way; `model_of`, `stepper_of` and `state_of` make the rest for this rank. The Python API makes the same objects by
their constructors; nothing here is a second way of doing physics.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import ConfigError, SwmodelError
from ...fields.parameters import MOST
from ...fields.parts import positions_of
from ...runtime import budget, launch
from ..mistakes import Mistake
from ..parts import arguments_of
from ..physics import FORMS
from .sources import faults_of, motion_of
from .states import on_grid, state_of
from .tracers import tracer_of

if TYPE_CHECKING:
    from ...grids.bathymetry import Bathymetry
    from ...grids.grid import Grid
    from ...models.shallow_water import ShallowWater
    from ...parallel.communicator import Communicator
    from ...parallel.decomposition import Decomposition
    from ...stepping.explicit import TimeStepper
    from ...stepping.stability import Limit
    from .. import Draft, Experiment

__all__ = [
    "Assembly",
    "assemble",
    "grid_of",
    "bathymetry_of",
    "model_of",
    "stepper_of",
    "state_of",
    "tiles",
    "time_step",
    "unstable",
]

MOST_RECORDS = 24  # of a source's motion, each one a field of the whole grid


@dataclasses.dataclass
class Assembly:
    """What an experiment file describes, as far as it could be made, and every mistake on the way."""

    draft: Draft
    grid: Any = None
    bathymetry: Any = None
    forcing: tuple[Any, ...] = ()
    tracers: tuple[Any, ...] = ()
    source: Any = None
    summary: Any = None  # of the source
    mistakes: list[Mistake] = dataclasses.field(default_factory=list)

    def section(self, name: str) -> Any:
        """The valid section of that name; None where it has a mistake, or is left out."""
        return self.draft.sections.get(name)

    def attempt(self, path: tuple[str | int, ...], make: Callable[..., Any], *arguments: Any) -> Any:
        """make(*arguments), or None with its error noted as a mistake of the key at `path`."""
        try:
            return make(*arguments)
        except (SwmodelError, ValueError, OSError) as error:
            texts = getattr(error, "mistakes", None) or [str(error)]
            self.mistakes += [Mistake(path, text) for text in texts]
            return None

    def sentences(self) -> list[str]:
        """Every mistake of the file and of what it names, a sentence each."""
        return self.draft.sentences(self.mistakes)

    def experiment(self) -> Experiment:
        """The valid Experiment; raises ConfigError with every mistake of the file and of what it names."""
        return self.draft.experiment(self.mistakes)


def assemble(draft: Draft, ranks: int = 1, records: int = MOST_RECORDS) -> Assembly:
    """Make what the valid sections of a Draft describe; never raises for a mistake of the user's.

    Args:
        draft: the Draft.
        ranks: for how many ranks.
        records: in how many intervals a source's motion is sampled at most; 1 is enough to look at it.
    """
    made = Assembly(draft)
    if made.section("grid") is None:
        return made
    made.grid = made.attempt(("grid",), grid_of, made.section("grid"))
    if made.grid is None:
        return made
    if _too_large(made, ranks):
        return made
    if made.section("run") is not None:
        made.attempt(("run", "layout"), tiles, made.grid, ranks, made.section("run").layout)
    if made.section("bathymetry") is not None:
        made.bathymetry = made.attempt(("bathymetry",), bathymetry_of, made.section("bathymetry"), made.grid)
    made.attempt(("model", "core"), _check_core, made)
    if made.section("forcing") and made.section("run") is not None:
        entries = enumerate(made.section("forcing"))
        made.forcing = tuple(
            made.attempt(("forcing", i), _forcing, f, made.grid, made.section("run")) for i, f in entries
        )
    if made.section("tracer") and made.section("run") is not None:
        entries = enumerate(made.section("tracer"))
        made.tracers = tuple(
            made.attempt(("tracer", i), tracer_of, t, made.grid, made.section("run")) for i, t in entries
        )
    faults = None
    if made.section("source") is not None:
        faults = made.attempt(("source",), faults_of, made.section("source"), made.grid)
    if made.bathymetry is not None and made.section("output") is not None and made.section("output").gauges is not None:
        made.attempt(("output", "gauges", "positions"), _check_gauges, made)
    if faults is not None and not (draft.mistakes or made.mistakes):  # last, since it takes seconds
        made.source, made.summary = motion_of(made.section("source"), made.grid, made.bathymetry, faults, records)
    return made


def _too_large(made, ranks):
    """Whether the memory of this machine does not do for the grid; then that is a mistake of it."""
    made.attempt(("grid",), _check_memory, made, ranks)
    return any(mistake.path == ("grid",) for mistake in made.mistakes)


def _check_memory(made, ranks):
    """Raise ConfigError if the grid's arrays take more memory than there is; nothing of their size is made."""
    model, ensemble, run = (made.section(name) for name in ("model", "ensemble", "run"))
    itemsize = 8 if model is not None and model.precision == "float64" else 4
    members = 1 if ensemble is None else ensemble.count
    whole = made.grid.nx * made.grid.ny
    in_one = launch.launched_ranks() == 1  # `check`, and sharded runs, whose tiles share a process
    tile = budget.on_host(whole if in_one else math.ceil(whole / ranks))
    records = 0 if made.section("source") is None else MOST_RECORDS
    needed = budget.of_model(members * tile, whole, itemsize, records=records)
    output = made.section("output")
    if output is not None and output.spectra is not None:
        needed += budget.of_spectra(tile, itemsize, output.spectra.transfers)
    of, fewer = f" of {members} members" if members > 1 else "", "use fewer cells"
    if output is not None and output.gauges is not None and (count := len(output.gauges.positions)):
        gauges = budget.of_gauges(count, itemsize, members)
        of, fewer = (f"{of} with {count:,} gauges", "use fewer gauges") if gauges > needed else (of, fewer)
        needed += gauges
    remedy = fewer + (", or more machines" if not in_one else "")
    budget.require(needed, f"a grid of {made.grid.nx:,} x {made.grid.ny:,} cells{of}", remedy)


def tiles(grid: Grid, ranks: int, layout: tuple[int, int] | None = None, halo: int = 1) -> Decomposition:
    """The Decomposition of `grid` for so many ranks; raises TileError if it cannot be."""
    from ...parallel.decomposition import Decomposition, TileError, best_layout

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
    """Land is known to the sea floor alone."""
    model = made.section("model")
    if model is None or made.bathymetry is None or model.core == "finite_differences" or made.bathymetry.wet.all():
        return
    raise ConfigError(
        f"'pseudo_spectral' has no coasts, and {int((~made.bathymetry.wet).sum())} cells are land; use a bathymetry "
        "without land, or core = 'finite_differences'"
    )


def _check_gauges(made):
    from ...fields.variables import PROGNOSTIC
    from ...parallel import SerialCommunicator
    from ...simulation.monitors import Gauges

    one = SerialCommunicator()
    like = types.SimpleNamespace(
        grid=made.grid, wet=made.bathymetry.wet, dtype=np.float32, communicator=one,
        decomposition=one.decomposition(made.grid.shape), variables=PROGNOSTIC,
    )  # fmt: skip
    Gauges.at(made.section("output").gauges.positions, like)


# -- parts ------------------------------------------------------------------------------------------------------------


def grid_of(section: Any) -> Grid:
    """The CartesianGrid or SphericalGrid of a [grid] section."""
    from ...grids.grid import CartesianGrid, SphericalGrid

    kind = {"cartesian": CartesianGrid, "spherical": SphericalGrid}[section.type]
    return kind(**section.model_dump(exclude={"type"}))


def bathymetry_of(section: Any, grid: Grid) -> Bathymetry:
    """The Bathymetry of `grid` from a [bathymetry] section."""
    from ...grids.bathymetry import from_depth, onto_grid, read_elevation

    if section.type == "flat":
        return from_depth(section.depth, grid)
    options = section.model_dump(include={"minimum_depth", "fill_lakes"})
    if section.type == "formula":
        return from_depth(section.depth, grid, **options)
    elevation = read_elevation(section.file, section.variable)
    try:
        return onto_grid(elevation, grid, section.method, **options)
    finally:
        elevation.close()


def _forcing(section, grid, run):
    return _wind_from_file(section, grid, run) if section.type == "wind_file" else _term(section, grid)


def _wind_from_file(section, grid, run):
    """Stress at u and v points from the wind of a file; both components are needed at both."""
    from ...dynamics.forcing import WindStress
    from ...grids.regrid import Records, read_field_onto, wind_stress

    stress = []
    for position in "uv":
        wind = [
            read_field_onto(section.file, name, grid, position, run.start, (0.0, run.until))
            for name in (section.u, section.v)
        ]
        along = wind_stress(*(records.values for records in wind), section.drag, section.air_density)[
            "uv".index(position)
        ]
        stress.append(Records(wind[0].times, along, wind[0].cycle))
    return WindStress(x=stress[0], y=stress[1], density=section.density)


# -- the model --------------------------------------------------------------------------------------------------------


def model_of(
    made: Assembly,
    communicator: str | Communicator = "auto",
    layout: tuple[int, int] | None = None,
    engine: str = "auto",
) -> ShallowWater:
    """The ShallowWater model of an Assembly without mistakes, on this rank; collective."""
    import swmodel as sw

    experiment = made.experiment()
    sides = {"free_slip": sw.FreeSlip, "no_slip": sw.NoSlip}
    form = experiment.model.coriolis_form
    return sw.ShallowWater(
        made.grid,
        made.bathymetry,
        gravity=experiment.model.gravity,
        coriolis=_coriolis(experiment.coriolis),
        momentum=FORMS[experiment.model.momentum](),
        coriolis_form=None if form is None else FORMS[form](),
        forcing=made.forcing,
        dissipation=tuple(_term(section, made.grid) for section in experiment.dissipation),
        boundaries=tuple(_term(section, made.grid) for section in experiment.boundary),
        tracers=made.tracers,
        source=made.source,
        linear=experiment.model.linear,
        side=sides[experiment.model.side](),
        engine=engine,
        communicator=communicator,
        layout=layout,
        core=_core(experiment.model),
        dtype=experiment.model.precision,
    )


def _core(section):
    """The core that a [model] section chooses."""
    import swmodel as sw

    if section.core == "finite_differences":
        return sw.FiniteDifferences()
    kinds, options = {"hyperviscosity": sw.HyperViscosity, "filter": sw.ExponentialFilter}, {}
    if section.spectral is not None:
        options = {"dealias": section.spectral.dealias}
        parts = ((name, getattr(section.spectral, name)) for name in kinds)
        options |= {name: kinds[name](**part.model_dump()) for name, part in parts if part is not None}
    return sw.PseudoSpectral(**options)


def _coriolis(section):
    return None if section.type == "none" else section.part(**arguments_of(section))


def _term(section, grid):
    """A term or boundary, of the class and with the arguments of its section; formulas become arrays."""
    positions = positions_of(section.part)
    arguments = arguments_of(section)
    arguments |= {name: on_grid(arguments[name], grid, at, name) for name, at in positions.items() if name in arguments}
    return section.part(**arguments)


def stepper_of(section: Any, dt: float = 1.0) -> TimeStepper:
    """The time stepper of a [stepper] section, with time step `dt` [s]."""
    options = arguments_of(section) | {"dt": dt}
    if "solver" in options:
        options["solver"] = _solver(section)
    return section.part(**options)


def _solver(section):
    """The elliptic.Solver that a [stepper] section names; None for "auto"."""
    from ... import elliptic

    if section.solver == "auto":
        return None
    if isinstance(section.solver, type):
        return section.solver()
    options = section.model_dump(include={"tolerance", "iterations"}, exclude_none=True)
    if section.preconditioner is not None:
        kinds = {"diagonal": "Diagonal", "fast_poisson": "FastPoisson", "multigrid": "Multigrid"}
        options["preconditioner"] = getattr(elliptic, kinds[section.preconditioner])()
    return elliptic.named(section.solver, **options)


def time_step(experiment: Experiment, limits: Sequence[Limit]) -> float:
    """dt [s]: as the file says, or a fraction of the longest stable one, shortened to divide the output intervals.

    Raises:
        ConfigError: if the file's dt is not stable, naming the limit and its place.
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
    from ...stepping.stability import largest_time_step

    dt = experiment.stepper.dt
    if dt == "auto":
        if not limits:
            raise ConfigError(f"nothing limits the time step of {experiment.stepper.type} here; give dt in seconds")
        longest = largest_time_step(limits)
        return _dividing(experiment.stepper.fraction * longest, _intervals(experiment))
    if limits and dt > limits[0].dt:
        raise ConfigError(too_long(experiment.stepper, limits))
    return dt


def too_long(section: Any, limits: Sequence[Limit]) -> str:
    """The sentence for a time step over its limit."""
    from ...stepping.stability import largest_time_step

    return (
        f"{section.dt:g} s is over the limit of {section.type}, {limits[0]}; "
        f'use dt = "auto", or at most {0.9 * largest_time_step(limits):.3g} s'
    )


def unstable(made: Assembly) -> list[Mistake]:
    """Mistakes of the time step in an Assembly that has others, as far as grid and sea floor tell; at most one."""
    import swmodel as sw

    from ...parallel import SerialCommunicator
    from ...stepping.stability import limits

    model, stepper = made.section("model"), made.section("stepper")
    if made.bathymetry is None or model is None or stepper is None or stepper.dt == "auto":
        return []
    waves = sw.ShallowWater(
        made.grid, made.bathymetry, gravity=model.gravity, communicator=SerialCommunicator(), dtype="float32"
    )
    found = limits(waves, stepper_of(stepper))
    return [Mistake(("stepper", "dt"), too_long(stepper, found))] if found and stepper.dt > found[0].dt else []


def _intervals(experiment):
    output = experiment.output
    repeated = (*output.fields, output.spectra, output.restart)
    return [section.every for section in repeated if section is not None] or [experiment.run.until]


def _dividing(longest, intervals):
    """The longest dt up to `longest` of which every interval is a whole multiple, to the millisecond."""
    common = math.gcd(*(round(1000 * interval) for interval in intervals)) / 1000
    if common < longest / 10:  # they have nothing sensible in common: outputs then fall on the nearest step
        return longest
    return common / math.ceil(common / longest)
