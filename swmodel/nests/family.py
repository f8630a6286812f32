"""Family: a model of a grid and the models of the nests in it."""

import contextlib
import functools
import math
from collections.abc import Container, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from ..dynamics.domain import Domain
from ..dynamics.layer import DEFAULT as DEFAULT_FORM
from ..dynamics.shores import FIXED
from ..errors import ConfigError, SwmodelError
from ..fields.parameters import Number, Part, check_arguments
from ..fields.parts import of_part
from ..fields.state import State, replaced
from ..grids.grid import Grid
from ..grids.topography import topography
from ..models.parts import one_or_more
from ..models.shallow_water import ShallowWater
from ..parallel.communicator import Communicator
from ..stepping.explicit import TimeStepper
from ..stepping.stability import check_time_step, largest_time_step, limits
from .border import Border
from .edges import counted
from .interpolation import blended, depth_of, difference, warn_of_difference
from .nest import Nest, finest
from .parts import (
    OWN,
    SHARED,
    STAGES,
    check_arrays,
    check_options,
    check_tracers,
    forcing_in,
    frame_of,
    in_nest,
    is_of_cells,
    of_outermost,
    shore_in,
    walls_in,
    warn_of_blend,
    warn_of_sponges,
)
from .start import MotionInBox
from .steps import FamilySystem, family_system

__all__ = ["Family"]

RULES = {
    "nests": Part(("place_among",), 'Nest("harbour", x=(0.0, 1e4), y=(0.0, 1e4))', several=True, alone=False),
    "stages": Number(minimum=1, whole=True),
}


class Family:
    """A ShallowWater on a grid, and one for each nest in it, which a NestedSimulation steps together.

    Args:
        grid: the outermost grid.
        depth: of its sea floor, as of ShallowWater.
        nests: the Nests. One that lies inside another comes after it.
        stages: the most stages that a step has, as of `TimeStepper.stages`; the frames of nests are wider the more
            there are, and the more cells their terms read.
        options: the other arguments of ShallowWater, for all grids; open boundaries are those of the outermost one, and
            nests take the motion of a source from the grid around them. A nest's `options` replace them.

    Raises:
        ConfigError: for nests that overlap or do not fit, walls, rivers and gates at a border, and what nests lack:
            other cores than FiniteDifferences, several tiles in one process, other tracers than those of the outermost
            grid, and what all share: gravity, Coriolis parameter, `linear`, layers, boundaries, communicator, dtype.

    Attributes:
        nests: {name: Nest}.
        models: {name: ShallowWater}, the outermost one first, whose name is "".
        places: {name: Place} of the nests.
        steps: {name: the number of its steps in one of the grid around it} of the nests.
        stages: the most that a step has.
        differences: {name: the largest relative difference of its mean depth in an outer cell from the outer depth,
            along the border of a nest with a depth of its own}.
    """

    def __init__(self, grid: Grid, depth: Any, nests: Sequence[Nest], stages: int = STAGES, **options: Any):
        check_arguments("Family", RULES, locals())
        self.stages = stages
        self.nests, self.places, self.differences = {nest.name: nest for nest in nests}, {}, {}
        self.steps = {nest.name: nest.substeps for nest in nests}
        _check_names(nests)
        check_options("", options)
        for nest in nests:
            check_options(nest.name, nest.options)
        self.models = {"": ShallowWater(grid, depth, **of_outermost(options, nests))}
        if len(self.outer.communicator.ranks) > 1 or self.outer.communicator.name == "sharded":
            raise ConfigError(
                "Family: nests run serially or under MPI, and not on several devices of one process; leave "
                "communicator='sharded' out, and start several processes with mpirun."
            )
        shared, sources = {key: value for key, value in options.items() if key not in OWN}, {"": options.get("source")}
        for k, nest in enumerate(nests):
            with of_part(f"nest.{k}"), _of_nest(nest.name):
                check_arrays(nest.name, {key: x for key, x in shared.items() if key not in nest.options}, grid)
                self._add(nest, shared | dict(nest.options), sources)
        in_outermost = [(nest, self.places[nest.name]) for nest in nests if nest.inside is None]
        warn_of_sponges(in_outermost, grid, one_or_more(options.get("boundaries", ())))
        for name, model in self.models.items():
            model.count(counted(name, self.nests, self.places, self.models))

    def _add(self, nest, options, sources):
        around = nest.inside or ""
        outer, source = self.models[around], sources[around]
        before = {name: (self.nests[name], place) for name, place in self.places.items()}
        forms = options.get("momentum", DEFAULT_FORM), options.get("coriolis_form")
        forcing, dissipation, tracers = (one_or_more(options.get(key, ())) for key in SHARED)
        frame = frame_of(outer.grid, forms, (*forcing, *dissipation), tracers, self.stages)
        place = nest.place_among(outer.grid, frame, before)
        self.places[nest.name] = place
        grid = place.grid(outer.grid)
        communicator, shore = outer.communicator, shore_in(options)
        depth, wet = depth_of(nest, place, outer, Domain(grid, communicator, outer.dtype), shore)
        if not wet[place.width : -place.width, place.width : -place.width].any():
            raise ConfigError(f"the nest {nest.name!r} lies on land alone; move it.")
        if nest.depth is not None:
            self.differences[nest.name] = difference(place, outer.sea_floor, depth, wet)
            own, depth = depth, blended(nest, place, outer.sea_floor, depth, wet)
            warn_of_blend(nest, place, own, depth)
            if nest.two_way:
                warn_of_difference(nest.name, difference(place, outer.sea_floor, depth, wet))
        depth = np.where(wet, depth, 0.0) if shore is FIXED else topography(depth, grid, mask=wet)
        if "source" not in nest.options:
            options["source"] = None if source is None else MotionInBox(source, outer.grid, place)
        sources[nest.name] = options.get("source")
        options = {"dtype": outer.dtype} | options | {"communicator": communicator}
        floors = (outer.grid, outer.sea_floor.wet), (grid, wet)
        options["forcing"] = forcing_in(nest, place, *floors, forcing)
        options |= walls_in(nest, place, grid, options)
        self.models[nest.name] = ShallowWater(grid, depth, **options)
        check_tracers(nest.name, self.models[nest.name].tracers, self.outer.tracers)

    @property
    def outer(self) -> ShallowWater:
        """The outermost model."""
        return self.models[""]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the grids, the outermost one's, "", first."""
        return tuple(self.models)

    def boxes_in(self, name: str) -> dict[str, tuple]:
        """{nest: ((west, east), (south, north)) of its box} of the nests in a grid, in the grid's coordinates."""
        return {each: self.box_of(each) for each, nest in self.nests.items() if (nest.inside or "") == name}

    def box_of(self, name: str) -> tuple:
        """((west, east), (south, north)) of a nest's box, without its frame."""
        return self.places[name].box(self.models[self.nests[name].inside or ""].grid)

    def states(self, **fields: Any) -> dict[str, State]:
        """{name: State} at the start of each grid, of the arguments of ShallowWater.state, numbers or functions.

        Raises:
            ConfigError: for an array of cells, which are those of one grid.
        """
        for key, value in fields.items():
            if self.nests and is_of_cells(value, self.outer.grid):
                raise ConfigError(
                    f"Family.states: {key} is an array of the outermost grid's cells, and nests have others; give a "
                    "function of x and y, or make each state by family.models[name].state(...)."
                )
        return {name: model.state(**fields) for name, model in self.models.items()}

    def steppers(self, stepper: TimeStepper) -> dict[str, TimeStepper]:
        """{name: TimeStepper} of each grid; `stepper` is the outermost one's.

        Raises:
            ConfigError: for a scheme that solves an equation of the whole domain.
        """
        if stepper.is_implicit:
            raise ConfigError(
                f"Family: {type(stepper).__name__} solves an equation of a whole grid, and cannot step nests; use "
                "ForwardBackward, AB2, AB3, SSPRK3 or RK4."
            )
        found = {"": stepper}
        for name, nest in self.nests.items():
            outer = found[nest.inside or ""]
            found[name] = replaced(outer, {"dt": outer.dt / self.steps[name]})
        return found

    def fit_steps(self, stepper: TimeStepper, states: Mapping[str, State], fraction: float = 0.8) -> None:
        """Let each nest without `steps` make as few as its own limit allows; collective.

        Args:
            stepper: the outermost grid's, with its time step.
            states: {name: State} at the start, whose speeds count.
            fraction: of the longest stable step of a nest, that its step may be.
        """
        dt = {"": float(stepper.dt)}
        for name, nest in self.nests.items():
            around = dt[nest.inside or ""]
            bounds = limits(self.models[name], stepper, states[name]) if nest.steps is None else []
            if bounds:
                self.steps[name] = max(1, math.ceil(around / (fraction * largest_time_step(bounds)) - 1e-6))
            dt[name] = around / self.steps[name]

    def total_steps(self, name: str) -> int:
        """The number of steps of a grid in one of the outermost grid."""
        if not name:
            return 1
        return self.steps[name] * self.total_steps(self.nests[name].inside or "")

    def first_step(self, name: str, dt: float) -> int:
        """The step of the outermost grid at which a grid starts: not before the grid around it.

        Args:
            name: of the grid.
            dt: the outermost grid's time step [s].
        """
        nest = self.nests.get(name)
        return 0 if nest is None else max(round(nest.start / dt), self.first_step(nest.inside or "", dt))

    @functools.cached_property
    def borders(self) -> tuple[Border, ...]:
        """The Border of each nest."""
        found = []
        for name, nest in self.nests.items():
            outer, inner = self.models[nest.inside or ""], self.models[name]
            found.append(Border.between(outer, inner, self.places[name], nest.two_way))
        return tuple(found)

    def system(
        self, systems: Sequence[Any], steppers: Sequence[Any], borders: tuple[Border, ...], names: tuple[str, ...]
    ) -> Any:
        """The FamilySystem of the Systems and steppers of some grids, `names`, in their order; Members of ensembles."""
        inside = tuple(names.index(self.nests[name].inside or "") for name in names[1:])
        steps = tuple(self.steps[name] for name in names[1:])
        return family_system(tuple(systems), tuple(steppers), borders, inside, steps)

    def dynamics(self, stepper: TimeStepper) -> FamilySystem:
        """The FamilySystem for `swmodel.nests.steps.integrate`, on this rank; `stepper` is the outermost grid's.

        Raises:
            ConfigError: for models with records of forcing, for nests that start later, and if a step reads more cells
                than a frame has.
        """
        self.check_started("Family.dynamics", "use a NestedSimulation")
        for name, model in self.models.items():
            if model.changes_in_time and model.system.series():
                raise ConfigError(
                    f"Family.dynamics: the model{in_nest(name)} has records in time; use a NestedSimulation."
                )
        self.check_frames(self.steppers(stepper))
        return self.interval(self.halo(stepper), 0, float(stepper.dt))

    def check_started(self, who: str, remedy: str) -> None:
        """Raise ConfigError for nests that start later, which one function of all grids does not have."""
        for name, nest in self.nests.items():
            if nest.start > 0:
                raise ConfigError(
                    f"{who}: the nest {name!r} starts after {nest.start:g} s, and one function steps all grids from "
                    f"its beginning; leave `start` out, or {remedy}."
                )

    # -- as a ShallowWater, of which a problem makes steps -------------------------------------------------------------

    @property
    def communicator(self) -> Communicator:
        return self.outer.communicator

    @property
    def dtype(self) -> np.dtype:
        return self.outer.dtype

    def check_state(self, who: str, states: Mapping[str, State]) -> None:
        """Raise ValueError unless {name: State} hold what each grid steps; `who` is the caller, for the message."""
        if not isinstance(states, Mapping) or set(states) != set(self.models):
            raise ValueError(f"{who}: state is not a dict of one State for each grid; give family.states(...).")
        for name, model in self.models.items():
            model.check_state(f"{who}{in_nest(name)}", states[name])

    def check_time_step(self, stepper: TimeStepper, states: Mapping[str, State]) -> None:
        """Raise ConfigError if a step is over the limit of a grid, or reads more cells than a frame has; collective."""
        steppers = self.steppers(stepper)
        self.check_frames(steppers)
        for name, model in self.models.items():
            model.round_records(self.total_steps(name))
            with _of_nest(name) if name else contextlib.nullcontext():
                check_time_step(model, steppers[name], states[name])

    def halo(self, stepper: TimeStepper) -> tuple[tuple[int, TimeStepper], ...]:
        """(the halo, the stepper on this tile) of each grid, for `interval`; `stepper` is the outermost one's."""
        steppers, models = self.steppers(stepper), self.models
        placed: Any = {name: _placed(model, steppers[name]) for name, model in models.items()}
        return tuple((model.halo(steppers[name]), placed[name]) for name, model in models.items())

    def interval(self, halos: tuple[tuple[int, TimeStepper], ...], step: int, dt: float) -> FamilySystem:
        """The FamilySystem from step number `step` of the outermost grid to the next record of forcing.

        Args:
            halos: of `halo`.
            step: number of the first step.
            dt: the outermost grid's time step [s].
        """
        return self._each_interval("interval", halos, step, dt)

    def outline(self, halos: tuple[tuple[int, TimeStepper], ...], step: int, dt: float) -> FamilySystem:
        """`interval` with the shapes of the uplift alone, as of ShallowWater."""
        return self._each_interval("outline", halos, step, dt)

    def _each_interval(self, kind, halos, step, dt):
        systems = []
        for (name, model), (halo, _) in zip(self.models.items(), halos, strict=True):
            total = self.total_steps(name)
            systems.append(getattr(model, kind)(halo, step * total, dt / total))
        return self.system(systems, [stepper for _, stepper in halos], self.borders, self.names)

    def next_record(self, step: int, dt: float) -> int | None:
        """The next step of the outermost grid at which an interval of the forcing of any grid ends, or None."""
        found = []
        for name, model in self.models.items():
            total = self.total_steps(name)
            following = model.next_record(step * total, dt / total)
            found += [] if following is None else [following // total]
        return min(found, default=None)

    def check_frames(self, steppers: Mapping[str, TimeStepper]) -> None:
        """Raise ConfigError if a step of a nest reads more cells than its frame has."""
        for name, place in self.places.items():
            reach = self.models[name].halo(steppers[name]) * steppers[name].stages
            if reach > place.width:
                more = f", or give the Family stages={steppers[name].stages} (now {self.stages})"
                raise ConfigError(
                    f"a step of {type(steppers[name]).__name__} reads {reach} cells around each{in_nest(name)}, and "
                    f"its frame is {place.width} cells wide; use ForwardBackward or a term that reads fewer cells"
                    f"{more * (steppers[name].stages > self.stages)}."
                )

    def finest(self, *points: tuple[float, float]) -> str:
        """The name of the finest grid that holds all of these points (x, y)."""
        nests = ((nest, self.places[name], self.models[nest.inside or ""].grid) for name, nest in self.nests.items())
        return finest(points, self.outer.grid, nests)

    def counted(self, name: str, among: Container[str] | None = None) -> np.ndarray:
        """(ny, nx) bool of a grid: the cells of its box where no finer grid (of those `among`, all unless given) lies.

        So each place counts once, in its finest grid.
        """
        counts = np.ones(self.models[name].grid.shape, bool)
        if name:
            place = self.places[name]
            counts = np.kron(place.covered, np.ones((place.ratio, place.ratio), bool))
        for other, nest in self.nests.items():
            if (among is None or other in among) and (nest.inside or "") == name:
                rows, columns = (np.arange(*x) for x in (self.places[other].rows, self.places[other].columns))
                counts[np.ix_(rows, columns % counts.shape[1])] = False
        return counts

    def volume(self, states: Mapping[str, State], layer: int = 0) -> float:
        """The volume of a layer above its volume at rest [m3], each place counted in its finest grid; collective."""
        names, excess = self.outer.system.names_of_layers, self.outer.system.excess
        levels = {name: [state[eta] for *_, eta in names] for name, state in states.items()}
        return self._total({name: excess(each)[layer] for name, each in levels.items()})

    def content(self, tracer: str, states: Mapping[str, State]) -> float:
        """The content of a tracer [its units m3], counted likewise; collective."""
        return self._total({name: state[tracer] for name, state in states.items()})

    def _total(self, heights):
        total = 0.0
        for name, height in heights.items():
            model = self.models[name]
            area = model.grid.area_h * self.counted(name, heights) * model.wet
            total += float(np.sum(model.decomposition.cut(area, model.communicator.rank) * np.asarray(height, float)))
        return float(self.outer.communicator.host_sum(np.array([total]))[0])


@contextlib.contextmanager
def _of_nest(name):
    """Errors that are raised inside name the nest."""
    try:
        yield
    except (SwmodelError, ValueError) as error:
        if repr(name) in str(error):
            raise
        raise ConfigError(f"in the nest {name!r}: {error}") from None


def _check_names(nests):
    names = [nest.name for nest in nests]
    for k, nest in enumerate(nests):
        if nest.name in names[:k]:
            raise ConfigError(f"Family: two nests have the name {nest.name!r}; give each its own.")
        if nest.inside is not None and nest.inside not in names[:k]:
            raise ConfigError(
                f"Family: the nest {nest.name!r} lies inside {nest.inside!r}, and no nest before it has this name."
            )


def _placed(model, stepper):
    return model.communicator.place(lambda rank: jax.tree.map(lambda x: np.asarray(x, model.dtype), stepper))
