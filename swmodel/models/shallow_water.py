"""ShallowWater: a model as the user describes it, on this rank's tile."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from .. import elliptic
from ..defaults import GRAVITY
from ..dynamics.boundaries import OpenBoundary
from ..dynamics.cores import Discretisation, FiniteDifferences
from ..dynamics.dissipation import FreeSlip, Slip
from ..dynamics.domain import DepthLike, Domain, Model, floor_of
from ..dynamics.layer import DEFAULT as DEFAULT_FORM
from ..dynamics.layer import VorticityFlux
from ..dynamics.layers import Layers
from ..dynamics.shores import FIXED, WettingDrying
from ..dynamics.subgrid import changed_level, subgrid_on
from ..dynamics.system import System, declared_fields
from ..dynamics.terms import Term, tile_array
from ..dynamics.transported import Passage, Transported, converted, thicknesses
from ..fields.parameters import Number, check_arguments
from ..fields.state import State, check_state, replace
from ..fields.variables import PROGNOSTIC
from ..grids.geometry import Coriolis, TileGeometry
from ..grids.grid import Grid
from ..grids.levees import Levee
from ..grids.windows import FieldLike, GridValues
from ..parallel import Communicator, make_communicator
from ..parallel.decomposition import Tile
from ..stencils.expressions import Strips
from ..stepping.explicit import TimeStepper, check_steps, known_dt
from ..stepping.steps import ArrayStepLoop, StepLoop
from . import checks
from .display import as_html, as_text, map_of_depth, rows_of_model
from .engine import kind_of_loop, narrowest_halo
from .initial import ending_at_shores, with_memory_of_sides
from .parts import CurrentWindows, check_coverage, coverage_of, named, named_origins, next_record, on_tiles, one_or_more

if TYPE_CHECKING:
    from ..sources.motion import BottomMotion

CONTENTS = frozenset(("film", "layer_count", *(name for name, _ in declared_fields("recorded"))))


class ShallowWater(Model):
    """A shallow-water ocean on a grid, distributed over the ranks.

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
            XLA; "auto" is fused on CPUs where every rank has a C++ compiler, else arrays. Results are the same to
            rounding. A grid that ends at a pole, steppers that solve an equation, and operations that loops do not
            have run on arrays. `Simulation.engine` gives the engine of a run, and the reason.
        core: FiniteDifferences() or PseudoSpectral(...): how tendencies are computed.
        wetting: WettingDrying(), which lets cells fall dry and be flooded; `depth` is then signed, negative on land
            [m], and momentum is MomentumConserving(). With None the shore is fixed.
        levees: tuple of Levees, lines on faces over which water flows where it is higher; needs `wetting`.
        least_thickness: a run stops where the water is thinner than this [m]; 1 m unless given, and 0 with wetting.
        tracers: tuple of variables that the flow transports (dynamics/transported.py); empty is none.
        layers: Layers(...) of uniform density, one above the other, in place of one; `depth` is that of all.
        dtype: float32 or float64; JAX's default float unless given.

    Raises:
        ValueError: for a field of another shape than the grid, no water, or terms that do not fit together.
        TileError: if the grid cannot be cut for this number of ranks.

    Attributes:
        sea_floor: a Floor, depth and mask by windows.
        variables: the Variables that are stepped, in the order of a State: u, v, eta and the tracers.
        start: the date and time of step 0 (UTC) in tides, tracks and files, or None; a Simulation has the same.
        dated: the parts with such a date; origins: {name: first date} of files whose times count from it instead.
    """

    def __init__(
        self,
        grid: Grid,
        depth: DepthLike,
        *,
        gravity: float = GRAVITY,
        coriolis: Coriolis | None = None,
        momentum: VorticityFlux = DEFAULT_FORM,
        coriolis_form: VorticityFlux | None = None,
        forcing: Term | Sequence[Term] = (),
        dissipation: Term | Sequence[Term] = (),
        boundaries: Term | OpenBoundary | Sequence[Term | OpenBoundary] = (),
        source: "BottomMotion | None" = None,
        linear: bool = False,
        side: Slip = FreeSlip(),
        communicator: str | Communicator = "auto",
        layout: tuple[int, int] | None = None,
        engine: str = "auto",
        core: Discretisation = FiniteDifferences(),
        dtype: DTypeLike | None = None,
        tracers: Transported | Sequence[Transported] = (),
        wetting: WettingDrying | None = None,
        levees: Levee | Sequence[Levee] = (),
        least_thickness: float | None = None,
        layers: Layers | None = None,
    ):
        check_arguments("ShallowWater", checks.RULES, locals())
        self.grid, self.requires_loops = grid, engine == "fused"
        self.dtype = jnp.dtype(dtype or jax.dtypes.canonicalize_dtype(float))
        if self.dtype == np.float64 and not jax.config.read("jax_enable_x64"):
            raise ValueError("dtype float64 needs jax.config.update('jax_enable_x64', True) before the model is made.")
        self.communicator = make_communicator(communicator, grid.shape, layout)
        self.decomposition = self.communicator.decomposition(grid.shape)
        checks.check_memory(grid, self.decomposition, len(self.communicator.ranks), self.dtype, tracers, layers)
        shore = wetting or FIXED
        self.least_thickness = shore.least_thickness if least_thickness is None else float(least_thickness)
        self.domain = Domain(grid, self.communicator, self.dtype, coriolis=coriolis)
        self.sea_floor = floor_of(depth, self.domain, shore, one_or_more(levees))
        self.domain = replace(self.domain, sea_floor=self.sea_floor)
        parts = named("forcing", forcing) | named("dissipation", dissipation) | named("boundary", boundaries)
        open_boundaries = {n: x.linear_form() if linear else x for n, x in parts.items() if isinstance(x, OpenBoundary)}
        terms = {name: term for name, term in parts.items() if name not in open_boundaries}
        groups = {"terms": terms, "open_boundaries": open_boundaries, "tracers": named("tracer", tracers)}
        self.part_names = {group: tuple(each) for group, each in groups.items()}
        self.system = System(
            depth=self.sea_floor.water,
            gravity=float(gravity),
            coriolis=coriolis,
            momentum=momentum,
            coriolis_form=None if coriolis_form == momentum else coriolis_form,
            linear=bool(linear),
            side=side,
            core=core,
            wetting=wetting,
            open_boundaries=on_tiles(open_boundaries, self.domain),
            terms=on_tiles(terms, self.domain),
            tracers=tuple(tracer.on_tile(self.domain) for tracer in one_or_more(tracers)),
            layers=None if layers is None else layers.in_model(),
            uplift=None if source is None else source.series(self.domain),
            communicator=self.communicator,
            step_loop=kind_of_loop(engine, grid, self.communicator, core),
        )
        self.variables, self._series = self.system.variables, tuple(self.system.series().values())
        self._initial = {row.name: 0.0 for row in self.variables[len(PROGNOSTIC) :]}
        self._initial |= {name: x.initial for x in one_or_more(tracers) for name in x.in_layers(self.layer_count)}
        self.dated = checks.dated_parts(parts | groups["tracers"])
        self.start = self.dated[0].start if self.dated else None
        checks.check_names(self.variables)
        self.origins = named_origins(self, parts | groups["tracers"])
        checks.check_model(self)
        self.system = replace(self.system, core=core.on_tile(self))
        checks.check_layers(self)
        self._tiled: dict[int, System] = {}  # the System on tiles, by the width of their halo
        self._windows, self._halos = CurrentWindows(self.dtype), {}  # halos by the structure of a stepper

    def __getattr__(self, name: str) -> object:
        """What the model consists of, such as `terms`, is in its System."""
        if name in CONTENTS:
            return getattr(self.system, name)
        raise AttributeError(f"a {type(self).__name__} has no {name!r}.")

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
            raise AttributeError("this process holds many tiles; use model.decomposition.tile(rank) for each of them.")
        return self.decomposition.tile(rank)

    def scatter(self, whole: ArrayLike | GridValues) -> jax.Array:
        """Tile arrays, as compiled programs take them, of a host array (..., ny, nx) that every process has."""
        return self.domain.cut(whole)

    def gather(self, tile: jax.Array | np.ndarray) -> np.ndarray | None:
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

    def state(self, u: FieldLike = 0.0, v: FieldLike = 0.0, eta: FieldLike = 0.0, **tracers: FieldLike) -> State:
        """A State of this tile; zero on land and at coasts.

        Args:
            u, v, eta: velocities [m s-1] and elevation [m]: numbers, functions of (x, y), (ny, nx) arrays or tile
                arrays, such as random fields (random_fields.py).
            tracers: likewise, by name, those of lower layers (u_2, v_2, eta_2, ...), 0 unless given, and tracers as
                files show them, with their own initial values unless given. The content is that of a column H + eta.

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
        if self.film is not None:  # no surface lies below the bed
            state = state.replace(eta=changed_level("stored", state.eta, self.sea_floor, self.open_sides))
            if any(not isinstance(x, (int, float)) or x for x in (u, v)):
                state = ending_at_shores(self, state)
        state = with_memory_of_sides(self, state, given) if self.open_boundaries else state
        if contents := self.system.contents:
            columns = thicknesses(self.system, state, self.domain.cut(self.sea_floor.water))
            state = state.replace(**converted("stored", contents, state, columns))
        return self.core.resolved(state)

    def check_state(self, who: str, state: State) -> None:
        """Raise ValueError unless a State holds what this model steps; `who` is the caller, for the message."""
        check_state(who, state, self.variables)

    def faces(self, position: str) -> np.ndarray:
        """(ny, nx) bool: faces (position "u" or "v") between two wet cells, of the whole grid; see also `sea_floor`."""
        return np.asarray(self.sea_floor.mask(position))

    # -- what the compiled program gets -------------------------------------------------------------------------------

    def dynamics(self, stepper: TimeStepper, step: int = 0, steps: int | None = None, stages: int = 1) -> System:
        """The System of this tile for `swmodel.integrate` with this stepper.

        Args:
            stepper: the TimeStepper, which determines the halo and the time step.
            step: number of the first step.
            steps: the number of steps that records of forcing have to cover. Without it they cover the interval that
                contains `step`, which is not enough for `integrate`. A model without records needs no `steps`.
            stages: the number of stages that share one halo exchange; the halo is so many times as wide.

        Raises:
            TypeError: if `stepper` is not a TimeStepper, or a number of steps is not whole.
            ValueError: if the time step is not positive, or is traced.
        """
        dt = known_dt("dynamics", stepper)
        check_steps("dynamics", "step", step, least=0)
        check_steps("dynamics", "steps", steps, least=1)
        self.check_records((step + (steps or 0)) * dt, dt)
        if self._series and steps is not None:
            cuts, covers = coverage_of(self._series, int(step), int(steps), dt)
            here = self._bound(self.halo(stepper), stages, dt, lambda series: series.windows(cuts, dt, self.dtype))
        else:
            covers, here = None, self.interval(self.halo(stepper), step, dt, stages)
        first = self.communicator.place(lambda rank: np.int32(step))
        return replace(here, first=first, covers=covers)

    def check_records(self, end: float, dt: float = 0.0) -> None:
        """Raise SwmodelError if a record of a wave, a track or a file does not cover a run until `end` [s]."""
        for part in self.system.parts:
            part.check_covers(end, 0.5 * dt + 1e-6 * end)  # a run ends at the step that is nearest to `end`
        check_coverage(self, end, dt)

    def check_files(self, end: float) -> None:
        """Raise SwmodelError if values of files at the beginning or the end [s] of a run are wrong; collective."""
        checks.check_files(self, end)

    def read_ahead(self, step: int, dt: float, submit: Callable) -> None:
        """Start reading the records after the interval of step number `step`, by an Executor's `submit`."""
        for series in self._series:
            series.read_ahead(step, dt, submit)

    def interval(self, halo: int, step: int, dt: float, stages: int = 1) -> System:
        """The System of this tile from step number `step` to the next record, for loops that number their steps.

        Args:
            halo: the number of cells that one stage needs, a result of the method `halo`.
            step: number of the first step.
            dt: the time step [s].
            stages: the number of stages that share one halo exchange; the halo is so many times as wide.
        """
        return self._bound(halo, stages, float(dt), lambda series: self._windows.at(series, step, float(dt)))

    def outline(self, halo: int, step: int, dt: float, stages: int = 1) -> System:
        """`interval` with the shapes of the uplift alone, to trace steps while a thread computes the uplift."""
        return self._bound(halo, stages, float(dt), self._windows.outlines(self.uplift, self.domain, step, float(dt)))

    def _bound(self, halo, stages, dt, windows_of):
        """The System on tiles, with `windows_of(series)` in the place of each Series."""
        width = halo * (stages if self.core.halos else 1)
        if width not in self._tiled:
            self.decomposition.check_halo(width)
            self._tiled[width] = self._on_tiles(width)
        timed = self.film is not None or any(part.reads_time for part in self.system.parts)
        return replace(self._tiled[width].bind(windows_of), reach=halo, dt=dt if timed else None)

    def _on_tiles(self, halo):
        """The System, of which all but time records is cut into tiles with this halo."""
        return replace(
            self.system,
            depth=self.domain.cut(self.sea_floor.water),
            gravity=self.domain.cut(self.gravity),
            coriolis=None,
            layers=None if self.layers is None else self.layers.on_tile(self.domain),
            tile=TileGeometry.build(
                self.grid, self.sea_floor.wet, self.coriolis, halo, self.open_sides, self.communicator, self.dtype
            ),
            crests=self.sea_floor.crests_on(halo),
            subgrid=None if self.sea_floor.bed is None else subgrid_on(self.sea_floor, halo, self.open_sides),
        )

    @property
    def changes_in_time(self) -> bool:
        """Whether the equations depend on the time, through records or through terms that read it."""
        return bool(self._series) or any(part.reads_time for part in self.system.parts)

    def share_arrays(self, arrays: dict[int, jax.Array]) -> None:
        """Use `arrays`, {id: array}, in place of equal ones, to share their memory."""
        self._tiled, self.system = jax.tree.map(lambda x: arrays.get(id(x), x), (self._tiled, self.system))

    @property
    def step_loop(self) -> type[StepLoop]:
        """The class of the loop of steps whose operations it supports."""
        return self.system.step_loop

    @property
    def engine(self) -> str:
        """The engine of these steps, "fused" or "arrays"."""
        return self.step_loop.name

    def run_on_arrays(self) -> None:
        """Let steps run on arrays from now on, whatever engine was chosen."""
        self._change(step_loop=ArrayStepLoop)

    def count(self, passages: tuple[tuple[Passage, Strips], ...]) -> None:
        """Let steps in a Family compute these Passages in strips along borders of nests."""
        self._change(counted=passages)

    def _change(self, **changes: object) -> None:
        self.system = replace(self.system, **changes)
        self._tiled.clear()

    def round_records(self, multiple: int) -> None:
        """Let intervals between records of forcing end at multiples of so many steps."""
        if any(series.multiple != multiple for series in self._series):
            self.system = self.system.bind(lambda series: dataclasses.replace(series, multiple=multiple))
            self._series = tuple(self.system.series().values())
            self._tiled.clear()

    def next_record(self, step: int, dt: float) -> int | None:
        """The next step at which a forcing's interval ends, or None."""
        return next_record(self._series, step, dt)

    def ready_for(self, stepper: TimeStepper) -> None:
        """Let the System contain the domain of elliptic equations from now on, if this stepper solves one.

        Raises:
            ConfigError: for a stepper that does not support the form of the momentum equation, or an open boundary.
        """
        checks.check_stepper(self, stepper)
        if stepper.is_implicit and self.system.elliptic_domain is None:
            domain = elliptic.Domain.without_tile(self.grid, self.communicator, self.sea_floor.wet)
            self._change(elliptic_domain=domain, flat=self.sea_floor.is_flat)

    def halo(self, stepper: TimeStepper) -> int:
        """The halo that a step needs, found by tracing it: the smallest for which no stencil reaches beyond.

        Raises:
            TileError: if a tile is thinner than that.
        """
        self.ready_for(stepper)
        kind = type(stepper), jax.tree.structure(stepper)  # with what is static in it, but not the length of its step
        if kind not in self._halos:
            self._halos[kind] = narrowest_halo(self, stepper, self._tiled)
        return self._halos[kind]
