"""ShallowWater: a model as the user describes it, on this rank's tile."""

import dataclasses
import datetime
import functools
import logging
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from .. import elliptic
from ..defaults import GRAVITY, LEAST_THICKNESS
from ..dynamics.boundaries import OpenBoundary
from ..dynamics.cores import FiniteDifferences
from ..dynamics.momentum import DEFAULT as DEFAULT_FORM
from ..dynamics.shallow_water import Coverage, Dynamics, zeros
from ..dynamics.terms import Series, tile_array
from ..errors import ConfigError, SwmodelError
from ..fields import parameters
from ..fields.field import HaloError
from ..fields.parameters import Flag, Number, Part, Precision, check_arguments, in_utc
from ..fields.pytrees import replace
from ..fields.state import RESERVED, State, check_state
from ..fields.variables import PROGNOSTIC, VARIABLES
from ..forcing.waves import check_records
from ..grids.geometry import TileGeometry
from ..grids.grid import Grid
from ..grids.windows import GridRecords, Stored, TileRecords, blocks_of
from ..parallel import make_communicator
from ..parallel.decomposition import Tile
from ..runtime import budget
from ..stencils.native import why_not
from ..stepping.arrays import ArrayStepLoop, one_step
from ..stepping.base import StepLoop
from ..stepping.explicit import TimeStepper, check_steps, known_dt
from ..stepping.fused import FusedStepLoop
from .display import as_html, as_text, map_of_depth, rows_of_model
from .floor import floor_of

__all__ = ["ShallowWater", "FreeSlip", "NoSlip", "BottomMotion"]


@dataclasses.dataclass(frozen=True)
class FreeSlip:
    """No stress and no vorticity at coasts and walls."""

    factor = 0.0


@dataclasses.dataclass(frozen=True)
class NoSlip:
    """The flow along coasts and walls vanishes at them."""

    factor = 2.0


@dataclasses.dataclass(frozen=True)
class BottomMotion:
    """A sea floor that moves: cumulative uplift [m], (n, ny, nx), at `times` [s], linear in between.

    It raises the surface and lowers H by the same amount, in water alone. Motion faster than a time step takes one; a
    first record that is not zero is such a motion.

    The rise during a step is added to the surface after the step, whatever the stepper's order. This splitting is of
    first order: while the floor moves, waves are as if it had moved up to one step late, dt/2 on average, an error of
    the order of dt times the rate of the uplift. The volume that is lifted is exact, and nothing is left of the error's
    source once the motion has ended. Tsunami sources last a hundred steps or more; where half a step matters, use a
    shorter one.

    Args:
        times: increasing, from 0 on [s], (n,).
        uplift: since the start, at these times [m], (n, ny, nx) or GridRecords.
    """

    times: Any
    uplift: Any

    def series(self, domain: "Domain") -> Series:
        for name, ndim in (("times", 1), ("uplift", 3)) if not isinstance(self.uplift, GridRecords) else ():
            numbers = parameters.array_of(getattr(self, name))
            if numbers is None or numbers.ndim != ndim:
                remedy = "(n,) numbers in s" if ndim == 1 else "an (n, ny, nx) array in m"
                parameters.refuse("BottomMotion", name, getattr(self, name), "is not such an array", remedy)
        uplift = self.uplift if isinstance(self.uplift, GridRecords) else np.asarray(self.uplift)
        times = np.asarray(self.times, float)
        if uplift.shape[1:] != domain.grid.shape or len(uplift) != len(self.times):
            raise ValueError(
                f"BottomMotion: uplift has shape {uplift.shape} for {len(self.times)} times; "
                f"it must be (times, ny, nx) = ({len(self.times)}, {domain.grid.ny}, {domain.grid.nx})."
            )
        if times[0] < 0 or (np.diff(times) <= 0).any():
            raise ValueError(
                f"BottomMotion: times = {times.tolist()} s do not increase from 0 on; count from the start."
            )
        if domain.any(uplift[0]):
            times = np.append(times[0], times)
            if isinstance(uplift, GridRecords):
                uplift = GridRecords([Stored(np.zeros((), uplift.dtype), domain.grid.shape), *uplift.values])
            else:
                uplift = np.concatenate([np.zeros_like(uplift[:1]), uplift])
        return domain.series(times, uplift)


@dataclasses.dataclass(frozen=True)
class Domain:
    """How the grid is shared out: what terms need to cut their fields to tiles."""

    grid: Any
    communicator: Any
    dtype: Any

    def cut(self, whole: Any) -> Any:
        """Tile arrays, as programs hold them, of a (..., ny, nx) host array or of GridValues; a number as it is."""
        return self.communicator.place(lambda rank: self._part(whole, rank))

    def holds(self, x: Any) -> bool:
        """Whether x is tile arrays, as programs hold them, that `cut` could not read as an array of the whole grid."""
        if not isinstance(x, jax.Array) or x.shape != self.communicator.placed_shape(self.grid.shape):
            return False
        return x.shape != self.grid.shape or isinstance(x, Tracer) or not x.is_fully_addressable

    def noise(self, random: np.random.Generator, scaled: Callable, mask: Any, lead: tuple[int, ...] = ()) -> Any:
        """Tile arrays (*lead, my, mx) of white noise, the same on any number of ranks.

        Args:
            random: a numpy.random.Generator, of which the numbers of the whole grid are drawn, some rows at a time.
            scaled: `scaled(noise, mask)` gives the values from the noise of variance 1 and the mask of a tile.
            mask: GridValues.
            lead: further dimensions in front.
        """
        parts, (ny, nx) = self.communicator.decomposition(self.grid.shape), self.grid.shape
        found = {rank: np.zeros((*lead, *parts.box(rank).shape)) for rank in self.communicator.ranks}
        for index in np.ndindex(*lead):
            for rows, _ in blocks_of((ny, nx)):
                drawn = random.standard_normal((rows.stop - rows.start, nx))
                for rank, noise in found.items():
                    box = parts.box(rank)
                    both = slice(max(rows.start, box.j0), max(min(rows.stop, box.j1), rows.start, box.j0))
                    part = drawn[both.start - rows.start : both.stop - rows.start, box.i0 : box.i1]
                    noise[(*index, slice(both.start - box.j0, both.stop - box.j0))] = part
        return self.communicator.place(lambda rank: np.asarray(scaled(found[rank], parts.cut(mask, rank)), self.dtype))

    def series(self, times: Any, values: Any, cycle: float | None = None) -> Series:
        """A Series of tile records of GridRecords, or of (n, ny, nx) or (n,) host values."""
        part = self._records if isinstance(values, GridRecords) else self._part
        parts: Any = {rank: part(values, rank) for rank in self.communicator.ranks}
        return Series(times, parts, cycle, self.communicator.place)

    def _part(self, whole, rank):
        if np.ndim(whole) < 2:
            return np.asarray(whole, self.dtype)
        return np.asarray(self.communicator.decomposition(self.grid.shape).cut(whole, rank), self.dtype)

    def _records(self, records, rank):
        return TileRecords(records, lambda values: self._part(values, rank))

    def together(self, function: Callable[[], Any]) -> Any:
        """`function()`; what it raises on one rank, such as for a value in its tile, is raised on all; collective."""
        result = error = None
        try:
            result = function()
        except (SwmodelError, ValueError, OSError) as caught:
            error = caught
        # A rank that has failed elsewhere may be at another collective call, and sends something else.
        errors = [found for found in self.communicator.host_gather(error) if isinstance(found, Exception)]
        if errors:
            raise errors[0]
        return result

    def any(self, values: Any) -> bool:
        """Whether some value of the whole grid, of GridValues or an array, is not 0; collective."""
        return self.communicator.agree(any(part.any() for _, part in self.own(values)))

    def own(self, values: Any) -> list[tuple]:
        """[(Tile, the values (my, mx) of its own cells)] for the tiles of this process, of GridValues or an array."""
        parts = self.communicator.decomposition(self.grid.shape)
        return [(tile, tile.cut(values, 0, 0, 0)) for tile in map(parts.tile, self.communicator.ranks)]


_TERMS = Part(("on_tile",), "LinearDrag(rate=1e-6), or one of a class that derives from sw.Term", several=True)
_BOUNDARIES = Part(("on_tile",), "Flather(), or one of a class that derives from sw.OpenBoundary", several=True)
_FORM = Part(("vorticity_flux",), "EnergyConserving()")
_RULES = {
    "grid": Part(("coordinates", "shape"), "CartesianGrid(nx, ny, x, y)"),
    "depth": Number("h", "m", steady=True),
    "gravity": Number(None, "m s-2", minimum=0.0),
    "coriolis": Part(("at",), "FPlane(f0=1e-4)", optional=True),
    "momentum": _FORM,
    "coriolis_form": dataclasses.replace(_FORM, optional=True),
    "forcing": _TERMS,
    "dissipation": _TERMS,
    "boundaries": _BOUNDARIES,
    "source": Part(("series",), "BottomMotion(times, uplift)", optional=True),
    "linear": Flag(),
    "side": Part(("factor",), "NoSlip()"),
    "core": Part(("on_tile", "tendency"), "PseudoSpectral()"),
    "tracers": Part(("variable", "rate"), "a Transported", several=True),
    "wetting": Part(("thin",), "WettingDrying()", optional=True),
    "least_thickness": Number(None, "m", minimum=0.0, optional=True),
    "dtype": Precision(),
}


class ShallowWater:
    """A shallow-water ocean on a grid, shared out among the ranks.

    Args:
        grid: a CartesianGrid or SphericalGrid.
        depth: of the sea floor below the surface at rest, positive down [m]: a number, a function of (x, y), an
            (ny, nx) array, GridValues, a Bathymetry or a SeaFloor. Zero or less is land.
        gravity: [m s-2]; a reduced gravity makes it a layer above a deep one at rest.
        coriolis: FPlane, BetaPlane, RotatingSphere, or None.
        momentum: the form of rotational advection: EnergyConserving, EnstrophyConserving or ArakawaLamb; or
            MomentumConserving, for bores.
        coriolis_form: the form of the Coriolis force, likewise; that of `momentum` unless given. Energy is conserved if
            both forms conserve it, potential enstrophy if both are the same form and that conserves it.
        forcing, dissipation: tuples of terms, of this package or classes that derive from Term; empty is none.
        boundaries: tuple of open boundaries (Flather, or classes that derive from OpenBoundary) and sponges; sides
            without an open boundary are walls.
        source: a BottomMotion, or None.
        linear: leave out advection and the elevation's share of the thickness.
        side: FreeSlip() or NoSlip(), at coasts and walls.
        communicator: "auto", "serial", "mpi", "sharded", or a Communicator.
        layout: (py, px) tiles; chosen to cut the least unless given.
        engine: "fused" runs each stage as one loop (compiled C++ on CPUs, Pallas on GPUs), "arrays" leaves fusion to
            XLA; "auto" is fused on CPUs where every rank has a C++ compiler, else arrays. The same results to rounding.
            A grid that ends at a pole, steppers that solve an equation, and operations that no loop has run as arrays:
            `Simulation.engine` says what a run does, and why.
        core: FiniteDifferences() or PseudoSpectral(...): how tendencies are computed.
        wetting: WettingDrying(), which lets cells fall dry and be flooded; `depth` is then signed, negative on land
            [m], and momentum is MomentumConserving(). None leaves the shore where it is.
        least_thickness: a run stops where the water is thinner than this [m]; 1 m unless given, and 0 with wetting.
        tracers: tuple of variables that the flow transports (dynamics/transported.py); empty is none.
        dtype: float32 or float64; JAX's default float unless given.

    Raises:
        ValueError: for a field of another shape than the grid, no water, or terms that do not fit together.
        TileError: if the grid cannot be cut for this number of ranks.

    Attributes:
        sea_floor: a Floor, depth and mask by windows.
        variables: the Variables that are stepped, in the order of a State: u, v, eta and the tracers.
        start: the date and time of step 0 (UTC) in tides, or None; a Simulation has the same.
    """

    members = None  # an Ensemble has some

    def __init__(
        self,
        grid: Grid,
        depth: Any,
        *,
        gravity: float = GRAVITY,
        coriolis: Any = None,
        momentum: Any = DEFAULT_FORM,
        coriolis_form: Any = None,
        forcing: Any = (),
        dissipation: Any = (),
        boundaries: Any = (),
        source: Any = None,
        linear: bool = False,
        side: Any = FreeSlip(),
        communicator: Any = "auto",
        layout: tuple[int, int] | None = None,
        engine: str = "auto",
        core: Any = FiniteDifferences(),
        dtype: Any = None,
        tracers: Any = (),
        wetting: Any = None,
        least_thickness: float | None = None,
    ):
        check_arguments("ShallowWater", _RULES, locals())
        self.grid, self.coriolis, self.momentum, self.linear, self.side = grid, coriolis, momentum, linear, side
        self.coriolis_form = None if coriolis_form == momentum else coriolis_form
        self.dtype = jnp.dtype(dtype or jax.dtypes.canonicalize_dtype(float))
        if self.dtype == np.float64 and not jax.config.read("jax_enable_x64"):
            raise ValueError("dtype float64 needs jax.config.update('jax_enable_x64', True) before the model is made.")
        self.communicator = make_communicator(communicator, grid.shape, layout)
        self.decomposition = self.communicator.decomposition(grid.shape)
        _check_memory(grid, self.decomposition, len(self.communicator.ranks), self.dtype)
        self.requires_loops = engine == "fused"
        kind = _kind_of_loop(engine, self.communicator, core)
        self.step_loop: type[StepLoop] = ArrayStepLoop if any(grid.poles) or momentum.conserves_momentum else kind
        self.domain = Domain(grid, self.communicator, self.dtype)
        self.wetting = wetting
        usual = LEAST_THICKNESS if wetting is None else 0.0
        self.least_thickness = usual if least_thickness is None else float(least_thickness)
        self.sea_floor = floor_of(depth, self.domain, wetting)
        self.gravity = float(gravity)
        named = _named("forcing", forcing) | _named("dissipation", dissipation) | _named("boundary", boundaries)
        open_boundaries = {name: term for name, term in named.items() if isinstance(term, OpenBoundary)}
        terms = {name: term for name, term in named.items() if name not in open_boundaries}
        self.open_boundaries = tuple(condition.on_tile(self.domain) for condition in open_boundaries.values())
        self.terms = tuple(term.on_tile(self.domain) for term in terms.values())
        self.term_names, self.open_names = tuple(terms), tuple(open_boundaries)  # as an experiment file names them
        self.uplift = None if source is None else source.series(self.domain)
        self._initial = {tracer.name: tracer.initial for tracer in _one_or_more(tracers)}  # as the user wrote them
        self.tracers = tuple(tracer.on_tile(self.domain) for tracer in _one_or_more(tracers))
        self.start = _start_of(named | _named("tracer", tracers))
        self.variables = (*PROGNOSTIC, *(tracer.variable for tracer in self.tracers))
        self._check()
        self.core = core.on_tile(self)
        self._made, self._windows, self._water = {}, {}, None
        self._halos: dict[Any, int] = {}  # by the structure of a stepper

    def _check(self):
        names = [variable.name for variable in self.variables]
        for k, name in enumerate(names):
            if name in (*names[:k], *RESERVED, *(VARIABLES if k >= len(PROGNOSTIC) else ())) or not name.isidentifier():
                raise ValueError(
                    f"ShallowWater: tracers: {name!r} is taken, or is no name; give each tracer one of its own, of "
                    "letters, digits and underscores."
                )
        self._check_momentum()
        for term in (*self.terms, *self.open_boundaries):
            if self.linear and term.nonlinear:
                other = "Flather(incoming=...)" if term in self.open_boundaries else "LinearDrag"
                raise ValueError(
                    f"{type(term).__name__} is not linear, and linear=True was asked for; use {other}, or linear=False."
                )
        for condition, side in [(one, side) for one in self.open_boundaries for side in one.sides]:
            if self.grid.periodic_x if side in ("west", "east") else self.grid.periodic_y:
                raise ValueError(
                    f"{type(condition).__name__}: the {side} side cannot be open, the grid is periodic there; "
                    "leave it out."
                )

    def _check_momentum(self):
        """Raise ConfigError for what MomentumConserving, or wetting and drying, cannot do."""
        form = type(self.momentum).__name__
        if self.wetting is not None and not self.momentum.conserves_momentum:
            raise ConfigError(
                f"ShallowWater: wetting needs a form that conserves momentum, and momentum is {form}(); give "
                "momentum=MomentumConserving()."
            )
        if self.momentum.conserves_momentum and self.requires_loops:
            raise ConfigError(
                f"ShallowWater: {form} has no fused loops yet, and engine = 'fused' asks for them; use 'auto'."
            )
        if self.momentum.conserves_momentum and self.linear:
            raise ConfigError(f"ShallowWater: {form} is not linear, and linear=True was asked for; leave one out.")
        if self.momentum.conserves_momentum and any(self.grid.poles):
            raise ConfigError(f"ShallowWater: {form} has no form at a pole, where this grid ends; end it before.")
        closing = [type(condition).__name__ for condition in self.open_boundaries if condition.closes_volume]
        if self.momentum.conserves_momentum and closing:
            raise ConfigError(
                f"ShallowWater: {closing[0]} finds the flow through the side from volume fluxes without limits, and "
                f"those of {form} have some; use Flather, or another form."
            )
        if self.wetting is not None and self.tracers:
            raise ConfigError(
                f"ShallowWater: tracers cannot be carried over drying cells, and there are {len(self.tracers)}; leave "
                "out tracers, or wetting."
            )

    @property
    def depth(self) -> np.ndarray:
        """(ny, nx) [m], of the whole grid, for looking at it; `sea_floor.depth` gives windows of it."""
        return np.asarray(self.sea_floor.depth)

    @property
    def wet(self) -> np.ndarray:
        """(ny, nx) bool, of the whole grid, for looking at it; `sea_floor.wet` gives windows of it."""
        return np.asarray(self.sea_floor.wet)

    def water_depth(self) -> dict[int, np.ndarray]:
        """{rank: the depth (my, mx) of water, 0 on land [m]} of the tiles of this process."""
        cut = self.decomposition.cut
        return {rank: cut(self.sea_floor.water, rank) for rank in self.communicator.ranks}

    @property
    def open_sides(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(side for condition in self.open_boundaries for side in condition.sides))

    @property
    def tile(self) -> Tile:
        """The Tile of this process, where it holds one."""
        rank, *others = self.communicator.ranks
        if others:
            raise AttributeError("this process holds many tiles: ask the model's decomposition.tile(rank) for each.")
        return self.decomposition.tile(rank)

    def scatter(self, whole: Any) -> Any:
        """Tile arrays, as compiled programs take them, of a host array (..., ny, nx) that every process has."""
        return self.domain.cut(whole)

    def gather(self, tile: Any) -> np.ndarray | None:
        """The host array (..., ny, nx) of tile arrays, on the root; None elsewhere. Collective."""
        return self.communicator.gather_to_root(tile, self.grid.shape)

    def __repr__(self) -> str:
        return as_text("ShallowWater", rows_of_model(self))

    def _repr_html_(self) -> str:
        return as_html("ShallowWater", rows_of_model(self), map_of_depth(self), "depth")

    # -- states -------------------------------------------------------------------------------------------------------

    def at_rest(self) -> State:
        """The State of this tile with u = v = eta = 0."""
        return self.state()

    def state(self, u: Any = 0.0, v: Any = 0.0, eta: Any = 0.0, **tracers: Any) -> State:
        """A State of this tile; zero on land and at coasts.

        Args:
            u, v, eta: velocities [m s-1] and elevation [m]: numbers, functions of (x, y), (ny, nx) arrays or tile
                arrays, such as random fields (random_fields.py).
            tracers: likewise, by name, as files show them; what is left out has the tracer's own initial value. The
                content is that of a column H + eta.

        Raises:
            TypeError: for the name of a tracer that the model does not have.
        """
        given = {"u": u, "v": v, "eta": eta, **{name: tracers.pop(name, x) for name, x in self._initial.items()}}
        if tracers:
            names = ", ".join(variable.name for variable in self.variables)
            raise TypeError(f"ShallowWater.state: the model has no {next(iter(tracers))!r}; it steps {names}.")
        rules = {row.name: Number(row.position, row.units, steady=True) for row in self.variables}
        check_arguments("ShallowWater.state", rules, given)
        mask = {position: self.domain.cut(self.sea_floor.mask(position)) for position in "uvh"}
        fields = {
            row.name: tile_array(given[row.name], row.position, self.domain, f"ShallowWater.state: {row.name}")
            * mask[row.position]
            for row in self.variables
        }
        state = State.of(fields, {row.name: row.position for row in self.variables})
        if self.wetting is not None:  # no surface lies below the bed
            state = state.replace(eta=jnp.maximum(state.eta, -self.domain.cut(self.sea_floor.water)))
        return self.core.resolved(self._stored(state))

    def _stored(self, state):
        """A State as it is stepped, at step 0, of one as files show it."""
        if not self.tracers:
            return state
        column = self.domain.cut(self.sea_floor.water) + state.eta
        return state.replace(**{t.name: t.stored(state[t.name], column) for t in self.tracers})

    def check_state(self, who: str, state: State) -> None:
        """Raise ValueError unless a State holds what this model steps; `who` is the caller, for the message."""
        check_state(who, state, self.variables)

    def faces(self, position: str) -> np.ndarray:
        """(ny, nx) bool: faces (position "u" or "v") between two wet cells, of the whole grid; see also `sea_floor`."""
        return np.asarray(self.sea_floor.mask(position))

    # -- what the compiled program gets -------------------------------------------------------------------------------

    def dynamics(self, stepper: TimeStepper, step: int = 0, steps: int | None = None, stages: int = 1) -> Dynamics:
        """The Dynamics of this tile for `swmodel.integrate` with this stepper.

        Args:
            stepper: the TimeStepper; what halo it needs and how long its steps are follow from it.
            step: number of the first step.
            steps: how many steps the records of forcing are needed for. Without it they are those of the interval that
                holds `step`, which `integrate` refuses; a model without records needs none.
            stages: how many stages one halo exchange shall do for; the halo is so many times as wide.

        Raises:
            TypeError: if `stepper` is not a TimeStepper, or a number of steps is not whole.
            ValueError: if the time step is not positive, or is not known before the program runs.
        """
        dt = known_dt("dynamics", stepper)
        check_steps("dynamics", "step", step, least=0)
        check_steps("dynamics", "steps", steps, least=1)
        self.check_records((step + (steps or 0)) * dt, dt)
        if self._series() and steps is not None:
            cuts = self._cuts(int(step), int(steps), dt)
            covers = Coverage(tuple(b - a for a, b in zip(cuts, [*cuts[1:], step + steps])), dt)
            here = self._bound(self.halo(stepper), stages, dt, lambda series: series.windows(cuts, dt, self.dtype))
        else:
            covers, here = None, self.interval(self.halo(stepper), step, dt, stages)
        first = self.communicator.place(lambda rank: np.int32(step))
        return replace(here, first=first, covers=covers)

    def check_records(self, end: float, dt: float = 0.0) -> None:
        """Raise ConfigError if a record of a side that makes waves does not hold all of a run until `end` [s]."""
        check_records(self._parts(), end, dt)

    def interval(self, halo: int, step: int, dt: float, stages: int = 1) -> Dynamics:
        """The Dynamics of this tile from step number `step` to the next record, for loops that number their steps.

        Args:
            halo: cells that one stage needs; see `halo`.
            step: number of the first step.
            dt: [s].
            stages: how many stages one halo exchange shall do for; the halo is so many times as wide.
        """
        return self._bound(halo, stages, float(dt), lambda series: self._window(series, step, float(dt)))

    def _bound(self, halo, stages, dt, windows_of):
        """Dynamics with `windows_of(series)` in the place of each Series."""
        width = halo * (stages if self.core.halos else 1)
        if width not in self._made:
            self.decomposition.check_halo(width)
            self._made[width] = self._dynamics(width)
        return replace(
            self._made[width],
            reach=halo,
            terms=tuple(term.bound(windows_of) for term in self.terms),
            open_boundaries=tuple(condition.bound(windows_of) for condition in self.open_boundaries),
            uplift=None if self.uplift is None else windows_of(self.uplift),
            tracers=tuple(tracer.bound(windows_of) for tracer in self.tracers),
            dt=dt if self.wetting is not None or any(part.reads_time for part in self._parts()) else None,
        )

    def _window(self, series, step, dt):
        """The Window of a Series at `step`; the same arrays as long as the interval is the same."""
        interval = series.interval(step, dt)
        held, window = self._windows.get(id(series), (None, None))
        if held != interval:
            window = series.window(step, dt, self.dtype)
            self._windows[id(series)] = interval, window
        return window

    def _parts(self):
        """Terms, conditions on open sides, and tracers."""
        return (*self.terms, *self.open_boundaries, *self.tracers)

    def _series(self):
        """All that changes in time by records."""
        found = [series for part in self._parts() for series in part.series().values()]
        return found if self.uplift is None else [*found, self.uplift]

    @property
    def changes_in_time(self) -> bool:
        """Whether the equations depend on the time: by records, or by terms that ask for it."""
        return bool(self._series()) or any(part.reads_time for part in self._parts())

    def _cuts(self, step, steps, dt):
        """The first steps of the intervals between records from `step` on, for `steps` steps."""
        cuts = [step]
        while (record := self.next_record(cuts[-1], dt)) is not None and record < step + steps:
            cuts.append(record)
        return cuts

    def hold(self, halo: int, arrays: dict[int, Any]) -> None:
        """Hold `arrays`, {id: array}, in place of equal ones of Dynamics of so wide a halo:
        other models have them too."""
        held = jax.tree.map(
            lambda x: arrays.get(id(x), x), (self._made[halo], self.terms, self.open_boundaries, self.tracers)
        )
        self._made[halo], self.terms, self.open_boundaries, self.tracers = held

    def _dynamics(self, halo):
        return Dynamics(
            depth=self.domain.cut(self.sea_floor.water),
            gravity=self.domain.cut(self.gravity),
            tile=TileGeometry.build(
                self.grid, self.sea_floor.wet, self.coriolis, halo, self.open_sides, self.communicator, self.dtype
            ),
            terms=(),
            open_boundaries=(),
            uplift=None,
            momentum=self.momentum,
            coriolis_form=self.coriolis_form,
            linear=self.linear,
            slip=self.side.factor,
            communicator=self.communicator,
            step_loop=self.step_loop,
            core=self.core,
            water=self._water,
            flat=self._water is not None and self.sea_floor.is_flat,
            wetting=self.wetting,
        )

    @property
    def engine(self) -> str:
        """The name of the kind of loop that makes the steps where it has all operations: "fused" or "arrays"."""
        return self.step_loop.name

    def run_on_arrays(self) -> None:
        """From now on let steps run on arrays, whatever engine was chosen."""
        self.step_loop = ArrayStepLoop
        self._made.clear()

    def next_record(self, step: int, dt: float) -> int | None:
        """The next step at which a forcing's interval ends, or None."""
        return min((n for n in (s.next_step(step, dt) for s in self._series()) if n is not None), default=None)

    def ready_for(self, stepper: TimeStepper) -> None:
        """From now on let the Dynamics hold the water bodies, if this scheme solves equations on them.

        Raises:
            ConfigError: for a stepper that the form of the momentum equation, or a condition on an open side, cannot be
                stepped with.
        """
        closing = [type(condition).__name__ for condition in self.open_boundaries if condition.closes_volume]
        if stepper.is_implicit and closing:
            raise ConfigError(
                f"{type(stepper).__name__}: {closing[0]} finds the flow through the side from the other faces at the "
                "same moment, which only an explicit scheme knows; use Flather, or another stepper."
            )
        if self.momentum.conserves_momentum and not stepper.euler_stages:
            raise ConfigError(
                f"{type(stepper).__name__}: {type(self.momentum).__name__} steps momentum in stages of Euler, which "
                "this scheme does not have; use SSPRK3."
            )
        if stepper.is_implicit and self._water is None:
            self._water = elliptic.Domain.without_tile(self.grid, self.communicator, self.sea_floor.wet)
            self._made.clear()

    def halo(self, stepper: TimeStepper) -> int:
        """The halo that a step needs, found by tracing it: the smallest for which no stencil reaches beyond.

        Raises:
            TileError: if a tile is thinner than that.
        """
        self.ready_for(stepper)
        kind = type(stepper), jax.tree.structure(stepper)  # with what is static in it, but not the length of its step
        if kind not in self._halos:
            self._halos[kind] = self._traced_halo(stepper)
        return self._halos[kind]

    def _traced_halo(self, stepper):
        for width in range(1, 17):
            self.decomposition.check_halo(width)
            try:
                self._trace(stepper, width)
            except HaloError:
                self._made.pop(width, None)
                continue
            return width + self._more_along_sides(width)
        raise HaloError(f"{type(stepper).__name__} needs a halo of more than 16 cells.")

    def _more_along_sides(self, width):
        """Cells that open boundaries read along their sides, in addition to a halo of `width`."""
        more = int(any(condition.closes_volume for condition in self.open_boundaries))
        self.decomposition.check_halo(width + more)
        return more

    def _trace(self, stepper, width):
        def step(dynamics, stepper, state):
            return one_step(dynamics.prepare(), stepper, state, stepper.history(state), 0)

        if width not in self._made:
            self._made[width] = self._dynamics(width)
        dynamics = self.interval(width, 0, 1.0)  # of whatever length: a stencil does not depend on it
        like = jax.eval_shape(lambda: zeros(self.tracers, dynamics.depth.shape, self.dtype))
        jax.eval_shape(self.communicator.spmd(step), dynamics, stepper, like)


def _kind_of_loop(engine, communicator, core):
    """The class of StepLoop that an engine's name asks for, the same on every rank."""
    if engine not in ("auto", "fused", "arrays"):
        raise ValueError(f"ShallowWater: engine = {engine!r} is not known; use 'auto', 'fused' or 'arrays'.")
    if engine == "fused" and not core.halos:
        raise ValueError(
            f"ShallowWater: engine = 'fused' makes loops of differences, and {type(core).__name__} has none; "
            "use engine = 'auto'."
        )
    if engine == "arrays" or not core.halos:
        return ArrayStepLoop
    if jax.default_backend() != "cpu":
        return ArrayStepLoop if engine == "auto" else FusedStepLoop
    reasons = [reason for reason in communicator.host_gather(why_not()) if reason is not None]
    if reasons and engine == "fused":
        raise ValueError(
            "ShallowWater: engine = 'fused' cannot be had, every rank needs a C++ compiler (g++, or the one that CXX "
            f"names); install one, or use engine = 'auto' or 'arrays'. What was found: {reasons[0]}"
        )
    if reasons and communicator.is_root:
        _warn_once(reasons[0])
    return ArrayStepLoop if reasons else FusedStepLoop


@functools.cache
def _warn_once(sentence):
    logging.getLogger("swmodel").warning("%s", sentence)


def _check_memory(grid, decomposition, tiles, dtype):
    """Raise ConfigError if the arrays of a model would need more memory than there is, from the sizes alone."""
    tile = math.prod(decomposition.tile(0).shape) * tiles
    needed = budget.of_model(budget.on_host(tile), tile, dtype.itemsize)
    budget.require(needed, f"ShallowWater: a grid of {grid.nx:,} x {grid.ny:,} cells", "use fewer cells, or more ranks")


def _start_of(parts):
    """The one date and time of step 0 that the tides of some parts have, in UTC; None without any."""
    found = {}
    for name, part in parts.items():
        for key, value in {"": part, **getattr(part, "__dict__", {})}.items():
            moment = getattr(value, "start", None)
            if isinstance(moment, datetime.datetime):
                found.setdefault(in_utc(moment), f"{name}.{key}".rstrip("."))
    if len(found) > 1:
        (one, first), (two, second) = list(found.items())[:2]
        raise ConfigError(
            f"ShallowWater: {first} starts on {one}, and {second} on {two}; both are the date of step 0, give one."
        )
    return next(iter(found), None)


def _named(group, terms):
    """{"dissipation.0": term, ...} of the terms that were given for one argument."""
    return {f"{group}.{k}": term for k, term in enumerate(_one_or_more(terms))}


def _one_or_more(terms):
    return tuple(terms) if isinstance(terms, (tuple, list)) else (terms,)
