"""Family: a model of a grid and the models of the nests in it."""

import contextlib
import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from ..dynamics.carried import CARRIED, CarriedVolume
from ..dynamics.cores import FiniteDifferences
from ..dynamics.momentum import DEFAULT as DEFAULT_FORM
from ..errors import ConfigError, SwmodelError, of_part
from ..fields.parts import replaced
from ..fields.state import State
from ..grids.grid import Grid
from ..grids.topography import topography
from ..models.domain import Domain
from ..models.floor import floor_of
from ..models.shallow_water import ShallowWater
from ..stepping.explicit import TimeStepper
from ..stepping.stability import largest_time_step, limits
from .border import Border
from .interpolation import conserving, interpolated_of
from .motion import MotionInBox
from .nest import Nest, frame_of
from .steps import FamilySystem

__all__ = ["Family"]

BESIDE, DIFFERENT = 2, 0.3  # outer cells inside the border; the relative difference of depths with which noise grows
OWN = ("boundaries", "layout", "communicator")  # arguments of the outermost model alone
SAME = ("boundaries", "communicator", "dtype")  # arguments that a nest cannot have of its own


class Family:
    """A ShallowWater on a grid, and one for each nest in it, which a NestedSimulation steps together.

    Args:
        grid: the outermost grid.
        depth: of its sea floor, as of ShallowWater.
        nests: the Nests. One that lies inside another comes after it.
        options: the other arguments of ShallowWater, for all grids; open boundaries are those of the outermost one, and
            nests take the motion of a source from the grid around them. A nest's `options` replace them.

    Raises:
        ConfigError: for nests that overlap or do not fit, and for what nests do not have: layers, tracers, levees,
            other cores than FiniteDifferences, several tiles in one process, and boundaries, a communicator or a dtype
            of their own.

    Attributes:
        nests: {name: Nest}.
        models: {name: ShallowWater}, the outermost one first, whose name is "".
        places: {name: Place} of the nests.
        steps: {name: the number of its steps in one of the grid around it} of the nests.
        differences: {name: the largest relative difference of its mean depth in an outer cell from the outer depth,
            along the border of a nest with a depth of its own}.
    """

    def __init__(self, grid: Grid, depth: Any, nests: Sequence[Nest], **options: Any):
        self.nests, self.places, self.differences = {nest.name: nest for nest in nests}, {}, {}
        self.steps = {nest.name: nest.substeps for nest in nests}
        _check_names(nests)
        _check_options("", options)
        for nest in nests:
            _check_options(nest.name, nest.options)
        options = {key: value for key, value in options.items() if key not in REFUSED}
        self.models = {"": ShallowWater(grid, depth, **options, tracers=self._volumes(""))}
        if len(self.outer.communicator.ranks) > 1 or self.outer.communicator.name == "sharded":
            raise ConfigError("Family: nests run serially or under MPI, and not on several devices of one process.")
        shared, sources = {key: value for key, value in options.items() if key not in OWN}, {"": options.get("source")}
        for k, nest in enumerate(nests):
            with of_part(f"nest.{k}"), _of_nest(nest.name):
                self._add(nest, shared | {key: x for key, x in nest.options.items() if key not in REFUSED}, sources)

    def _add(self, nest, options, sources):
        around = nest.inside or ""
        outer, source = self.models[around], sources[around]
        siblings = {name: place for name, place in self.places.items() if self.nests[name].inside == nest.inside}
        place = nest.place_among(outer.grid, frame_of(options.get("momentum", DEFAULT_FORM)), siblings)
        self.places[nest.name] = place
        grid = place.grid(outer.grid)
        communicator, wetting = outer.communicator, options.get("wetting")
        depth, wet = _depth_of(nest, place, outer, Domain(grid, communicator, outer.dtype), wetting)
        if not wet[place.width : -place.width, place.width : -place.width].any():
            raise ConfigError(f"the nest {nest.name!r} lies on land alone; move it.")
        if nest.depth is not None:
            self.differences[nest.name] = _difference(place, outer.sea_floor, depth, wet)
            depth = _blended(nest, place, outer.sea_floor, depth, wet)
            if nest.two_way:
                _warn_of_depths(nest.name, _difference(place, outer.sea_floor, depth, wet))
        depth = np.where(wet, depth, 0.0) if wetting is None else topography(depth, grid, mask=wet)
        if "source" not in nest.options:
            options["source"] = None if source is None else MotionInBox(source, outer.grid, place)
        sources[nest.name] = options.get("source")
        options = {"dtype": outer.dtype} | options | {"communicator": communicator}
        self.models[nest.name] = ShallowWater(grid, depth, **options, tracers=self._volumes(nest.name))

    def _volumes(self, name):
        """The variables that count the volumes carried through faces, where a border of the grid is two-way."""
        around = [n for n in self.nests.values() if n.name == name or (n.inside or "") == name]
        return tuple(map(CarriedVolume, CARRIED.values())) if any(n.two_way for n in around) else ()

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
        outer = self.models[name].grid
        return {each: self.places[each].box(outer) for each, nest in self.nests.items() if (nest.inside or "") == name}

    def states(self, **fields: Any) -> dict[str, State]:
        """{name: State} at the start of each grid, of the arguments of ShallowWater.state, numbers or functions."""
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

    def borders(self) -> tuple[Border, ...]:
        """The Border of each nest."""
        found = []
        for name, nest in self.nests.items():
            outer, inner = self.models[nest.inside or ""], self.models[name]
            found.append(Border.between(outer, inner, self.places[name], nest.two_way))
        return tuple(found)

    def system(
        self, systems: Sequence[Any], steppers: Sequence[Any], borders: tuple[Border, ...], names: tuple[str, ...]
    ) -> FamilySystem:
        """The FamilySystem of the Systems and steppers of some grids, `names`, in their order in the family."""
        inside = tuple(names.index(self.nests[name].inside or "") for name in names[1:])
        steps = tuple(self.steps[name] for name in names[1:])
        return FamilySystem(tuple(systems), tuple(steppers), borders, inside, steps)

    def dynamics(self, stepper: TimeStepper) -> FamilySystem:
        """The FamilySystem for `swmodel.nests.integration.integrate`, on this rank; `stepper` is the outermost grid's.

        Raises:
            ConfigError: for models with records of forcing, for nests that start later, and if a step reads more cells
                than a frame has.
        """
        steppers = self.steppers(stepper)
        for name, nest in self.nests.items():
            if nest.start > 0:
                raise ConfigError(
                    f"Family.dynamics: the nest {name!r} starts after {nest.start:g} s, and one function steps all "
                    "grids from its beginning; leave `start` out, or use a NestedSimulation."
                )
        for name, model in self.models.items():
            if model.changes_in_time and model.system.series():
                raise ConfigError(f"Family.dynamics: the model{_in(name)} has records in time; use a NestedSimulation.")
        self.check_frames(steppers)
        systems = [model.dynamics(steppers[name]) for name, model in self.models.items()]
        placed = [_placed(model, steppers[name]) for name, model in self.models.items()]
        return self.system(systems, placed, self.borders(), self.names)

    def check_frames(self, steppers: Mapping[str, TimeStepper]) -> None:
        """Raise ConfigError if a step of a nest reads more cells than its frame has."""
        for name, place in self.places.items():
            reach = self.models[name].halo(steppers[name]) * steppers[name].stages
            if reach > place.width:
                raise ConfigError(
                    f"a step of {type(steppers[name]).__name__} reads {reach} cells around each{_in(name)}, and its "
                    f"frame is {place.width} cells wide; use ForwardBackward, or a term that reads fewer cells."
                )

    def volume(self, states: Mapping[str, State]) -> float:
        """The volume above the level at rest of grids, each where no finer one of them lies [m3]; collective."""
        total = 0.0
        for name in states:
            model = self.models[name]
            counts = np.ones(model.grid.shape)
            if name:
                place = self.places[name]
                counts = np.kron(place.covered, np.ones((place.ratio, place.ratio)))
            for other, nest in self.nests.items():
                if other in states and (nest.inside or "") == name:
                    (j0, j1), (i0, i1) = self.places[other].rows, self.places[other].columns
                    counts[j0:j1, i0:i1] = 0.0
            area = model.grid.area_h * counts * model.wet
            part = model.decomposition.cut(area, model.communicator.rank)
            total += float(np.sum(part * np.asarray(states[name].eta, float)))
        return float(self.outer.communicator.host_sum(np.array([total]))[0])


REFUSED = {
    "layers": "nests have one layer so far; leave it out.",
    "tracers": "nests have no tracers so far; leave them out.",
    "levees": "nests have no levees so far; leave them out.",
}


def _in(name):
    return f" in the nest {name!r}" if name else ""


def _check_options(name, options):
    """Raise ConfigError for arguments of ShallowWater that grids of a family, or its nests, do not have."""
    for key, value in options.items():
        why = REFUSED[key] if key in REFUSED and value else ""
        if key == "core" and not isinstance(value, FiniteDifferences):
            why = "nests have finite differences alone; leave it out."
        if key in SAME and name:
            why = "all grids have that of the outermost one, whose open sides nests do not reach; leave it out there."
        if why:
            raise ConfigError(f"Family: {key} = {value!r}{_in(name)}: {why}")


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


def _depth_of(nest, place, outer, domain, wetting):
    """(depth [m], wet), arrays on the nest's grid; land of the outer grid is land in the frame.

    So water that leaves the box through the border enters a cell of the outer grid that can take it.
    """
    each, outer_wet = np.ones((place.ratio, place.ratio)), outer.sea_floor.wet.block(*place.box_slices)
    if nest.depth is None:
        depth = _interpolated(outer.sea_floor, place, outer.wetting is None)
        wet = np.kron(outer_wet, each) > 0
    else:
        floor = floor_of(nest.depth, domain, wetting)
        depth, wet = np.asarray(floor.depth), np.asarray(floor.wet)
    frame = np.kron(~place.covered & ~outer_wet, each) > 0
    return depth, wet & ~frame


def _blended(nest, place, floor, depth, wet):
    """The depth [m] that passes from that of the outer grid, in the frame, to the nest's own over `nest.blend` cells.

    The outer depth has its exact mean in each outer cell. So in a cell with the weight w the water at rest has the
    volume w V + (1 - w) V_o of both grids' water, and where a cell is land in one of the grids nothing is changed.
    """
    if not nest.blend:
        return depth
    outer, sea = (x.block(*place.box_slices) for x in (floor.depth, floor.wet))
    (ny, nx), ratio = place.shape, place.ratio
    inside = [np.minimum(k, n - 1 - k) - place.frame for k, n in ((np.arange(ny), ny), (np.arange(nx), nx))]
    weight = np.clip(np.minimum(inside[0][:, None], inside[1]) / nest.blend, 0.0, 1.0)
    both = np.kron(np.where(sea & (weight < 1), 1.0, 0.0), np.ones((ratio, ratio))) > 0
    weight = np.kron(weight, np.ones((ratio, ratio)))
    blended = weight * depth + (1.0 - weight) * conserving(np.asarray(outer, float), sea, ratio)
    return np.where(both & wet, blended, depth)


def _difference(place, floor, depth, wet):
    """The largest relative difference of the nest's depths, means over outer cells, along the border, and the outer
    ones."""
    (ny, nx), ratio, edge = place.shape, place.ratio, place.frame + BESIDE
    outer = floor.depth.block(*place.box_slices)
    blocks = (ny, ratio, nx, ratio)
    mean, sea = depth.reshape(blocks).mean(axis=(1, 3)), wet.reshape(blocks).all(axis=(1, 3)) & (outer > 0)
    sea[edge:-edge, edge:-edge] = False
    return float(np.max(np.abs(mean - outer) / np.where(sea, outer, 1.0), where=sea, initial=0.0))


def _warn_of_depths(name, difference):
    """Say that the depths of a two-way nest differ from the outer ones along its border (docs/nests.md)."""
    if difference > DIFFERENT:
        logging.getLogger("swmodel").warning(
            "the depth of the nest %r differs from that of the outer grid along its border by up to %.0f %%, and "
            "disturbances may grow there: let it approach the outer depth by `blend`, or leave it out",
            name,
            100 * difference,
        )


def _interpolated(floor, place, fixed):
    """The outer depth [m], bilinear between the centres of wet cells, or with wetting (not `fixed`) of all cells."""
    depth, wet = floor.depth.block(*place.box_slices), floor.wet.block(*place.box_slices).astype(float)
    return interpolated_of(wet if fixed else np.ones_like(wet), depth, place.ratio)
