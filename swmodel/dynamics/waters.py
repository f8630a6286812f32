"""Water that comes and goes through the surface, the bed and the shore: rain, evaporation, infiltration and rivers.

    h' = h + sum of d,     d = W dt at least -h         (h c)' = h c + sum of c_W d
    du/dt = W (u_W - u) / (h + W dt)                    likewise v, where water comes

W is the rate of each source [m s-1], averaged over the step, u_W the velocity and c_W the concentration of its water.
d is added to the thickness at the end of a step, a splitting of first order in dt. So in any time stepper, multistep
ones included, the volume of water is the integral of W to rounding; a record is integrated exactly. What comes is added
before water is taken, and no more is taken than there is. Rain on dry land stays there, and flows once it is thicker
than `thin`. What evaporates leaves its tracers behind; what infiltrates, or is taken by an intake, has the
concentration of the cell.

Infiltration is that of Green and Ampt (1911, doi:10.1017/S0021859600001441) under a depth h of water,

    dF/dt = K [1 + (psi + h) theta / F]

with the infiltrated depth F, the conductivity K, the suction psi at the front of the wet soil and the moisture deficit
theta of the soil. A step takes F in the middle of the step (F + d/2), which gives a quadratic equation for d. It is
exact for theta = 0, a constant rate, and finite where F = 0.
"""

import abc
import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, Self

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from ..errors import ConfigError
from ..fields.field import AbstractField, Scalar, Value, pointwise, to_u, to_v
from ..fields.parameters import OF_GRID, Concentrations, Number, Points, declared, parameter
from ..fields.state import State, as_tile_field, like, pytree, replaced
from ..fields.variables import Variable
from ..grids.grid import Grid
from ..grids.water import nearest_water
from ..grids.windows import GridValues
from ..parallel.communicator import Communicator
from .clock import Time
from .domain import Domain, Model
from .forcing import CellShare, WaterForcing
from .limiters import larger, smaller
from .shores import MOVING
from .terms import Series, TimeVarying
from .transported import Transported

if TYPE_CHECKING:
    from .layer import LayerFlow
    from .system import System

__all__ = ["Evaporation", "Infiltration", "Rain", "River", "WaterSource", "with_waters"]

MODERATE = 1e-2 / 3600.0  # [m s-1], a rain that files may hold
LEAST = 1e-9  # [m]; bounds the share of new water where there is none


def with_waters(system: "System", state: State, time: Time) -> State:
    """The State at the end of a step with the water that sources bring and take in it, of arrays or Fields as `state`.

    `system` is prepared, and `time` the Time at the beginning of the step.
    """
    sources = [term for term in system.terms if isinstance(term, WaterSource)]
    fields, wet = state.map(as_tile_field, state.positions), system.geometry.wet
    rest, excess = system.columns(system.depth_at(time + 1.0), fields)[0]
    h = (rest + excess * wet).map(lambda x: larger(x, 0.0))
    new, rise = dict(fields), 0.0 * h
    for source in sorted(sources, key=lambda each: each.takes):
        change = pointwise(larger, source.averaged(time).depth(h, new, time.dt) * wet, -h)
        for row, tracer, layer in system.contents:
            if layer == 0:
                new[row.name] = source.content(tracer, new[row.name], h, change)
        for row in source.state_variables():
            new[row.name] = new[row.name] - change
        h, rise = h + change, rise + change
    rises = system.sums([rise, *[0.0 * rise] * (system.layer_count - 1)])
    new |= {eta: fields[eta] + each for (*_, eta), each in zip(system.names_of_layers, rises)}
    if system.film is not None:  # rounded, the surface may lie below a bed that has been drained
        new["eta"] = pointwise(larger, new["eta"], -(system.depth_at(time + 1.0) * wet))
    return like(state, fields.replace(**new))


class WaterSource(WaterForcing):
    """A term that brings water to the top layer, or takes some from it (module docstring).

    Attributes:
        takes: whether it takes water alone, after the others have brought theirs.
        velocity: (u_W, v_W) of the water that comes [m s-1].
        concentrations: ((name, c_W), ...) of tracers in the water that comes; 0 of the others.
        factors: the names of the parameters whose product is |W|.
    """

    takes: ClassVar[bool] = False
    velocity = (0.0, 0.0)
    concentrations = ()
    factors: ClassVar[tuple[str, ...]] = ("rate",)

    @abc.abstractmethod
    def rise(self) -> Value:
        """W [m s-1], of a source at a moment; below 0 where it takes water. A number or a Field at h."""

    def depth(self, h: AbstractField, values: dict[str, AbstractField], dt: Scalar) -> AbstractField:
        """d of a step [m], before it is limited, a Field at h, of a source averaged over the step.

        Args:
            h: thickness of the water [m], a Field at h.
            values: {name: Field} of the State.
            dt: the time step [s].
        """
        return dt * self.rise() + 0.0 * h

    def content(
        self, tracer: Transported, value: AbstractField, h: AbstractField, change: AbstractField
    ) -> AbstractField:
        """The content of a tracer after `change` [m] of water has come or gone, Fields at h; `h` is that before."""
        c = dict(self.concentrations).get(tracer.name, 0.0)
        return value + c * change if c else value

    def __call__(self, flow: "LayerFlow", time: Time) -> tuple[Value, Value]:
        if self.takes or flow.equations.linear:
            return 0.0, 0.0
        coming = (self.rise() + 0.0 * flow.eta).map(lambda w: larger(w, 0.0)) * flow.geometry.wet
        pairs = zip((to_u, to_v), self.velocity, (flow.u, flow.v))
        return tuple(_share(move(coming), move(flow.h), flow.time.dt) * (new - old) for move, new, old in pairs)

    def fastest(self, communicator: Communicator) -> float:
        """The largest |W| on the tiles here [m s-1], where files have at most 10 mm/h; 0 where it is traced."""
        return float(np.prod([_largest(getattr(self, name), communicator) for name in self.factors]))

    def check_water(self, model: Model) -> None:
        """Raise ConfigError for concentrations of tracers that the model does not have."""
        names, given = [tracer.name for tracer in model.tracers], dict(self.concentrations)
        for name in given:
            if name not in names:
                raise ConfigError(
                    f"{type(self).__name__}: concentrations has {name!r}, and the tracers of the model are "
                    f"{', '.join(names) or 'none'}; name one of these, or leave it out."
                )

    def summary(self, model: Model, seconds: float) -> str:
        """The water that it brings, or takes at most, in a run of `seconds`, in words; collective."""
        size = _run_mean(getattr(self, self.factors[0]), seconds, model.communicator)
        if size is None:
            return "varies in space, or is read from fields"
        own = model.domain.own(self.where(model))
        areas = [np.sum(model.grid.metrics(np.arange(tile.j0, tile.j1))["area_h"] * part) for tile, part in own]
        area = model.communicator.host_sum(np.array([sum(areas)]))[0]
        return f"{size * seconds * area:.4g} m3 in the run{' at most' * self.takes}, on {area / 1e6:.4g} km2"

    def where(self, model: Model) -> GridValues:
        """1 in the cells that it acts on, 0 elsewhere."""
        return model.sea_floor.wet.map(lambda wet: np.asarray(wet, float))


def _run_mean(value, seconds, communicator):
    """The mean over a run of a number, or of a Record; None of what varies in space, or is read from files."""
    if hasattr(value, "points"):
        moments, values = value.points(communicator), communicator.tiles(value.values)[communicator.ranks[0]]
        times = np.append(np.append(0.0, moments[(moments > 0.0) & (moments < seconds)]), seconds)
        return float(np.trapezoid(np.interp(times, moments, np.asarray(values)), times)) / seconds
    return float(value) if np.ndim(value) == 0 and not isinstance(value, (Series, TimeVarying)) else None


def _largest(value, communicator):
    """The largest magnitude in the value of a parameter on the tiles here."""
    if isinstance(value, Series):
        tiles = value.values.values() if isinstance(value.values, dict) else [value.values]
        return MODERATE if value.source is not None else max(np.abs(x[:]).max(initial=0.0) for x in tiles)
    leaves = [x for x in jax.tree.leaves(value) if not isinstance(x, jax.core.Tracer)]
    tiles = communicator.tiles(leaves).values()
    return max((float(np.max(np.abs(x), initial=0.0)) for each in tiles for x in each), default=0.0)


def _share(coming, h, dt):
    """W / (h + W dt) [s-1], Fields."""
    return pointwise(lambda w, h: w / (h + dt * w + LEAST), coming, h)


def _taken(tracer, value, h, change):
    """The content of a tracer after a change of the thickness that leaves its concentration as it is."""
    c = tracer.shown(value, h)  # 0 where there is no water; what is left there stays
    return value + (tracer.stored(c, h + change) - tracer.stored(c, h))


@pytree
class Rain(WaterSource):
    """Rain on all cells, land that may be wet included. Its water has no horizontal velocity when it falls.

    Args:
        rate: [m s-1]: a number, a function of (x, y), an (ny, nx) array, time records, or a Record.
        concentrations: {name: concentration} of tracers in the rain, in their own units; 0 unless given.
    """

    rate: Any = parameter("h", "m s-1", minimum=0.0, maximum=1e-3, doc="depth of rain in a second, as '10 mm h-1'")
    concentrations: Any = declared(Concentrations(), default=(), static=True, doc="of tracers in the rain")

    def __post_init__(self):
        object.__setattr__(self, "concentrations", Concentrations.tuple_of(self.concentrations))
        super().__post_init__()

    def rise(self) -> Value:
        return self.rate


@pytree
class Evaporation(WaterSource):
    """Evaporation from all cells that hold water; it leaves tracers behind.

    Args:
        rate: [m s-1]: a number, a function of (x, y), an (ny, nx) array, time records, or a Record.
    """

    rate: Any = parameter(
        "h", "m s-1", minimum=0.0, maximum=1e-3, halo=False, doc="depth that evaporates in a second, as '4 mm day-1'"
    )

    takes = True

    def rise(self) -> Value:
        return -1.0 * self.rate


@pytree
class Infiltration(WaterSource):
    """Infiltration into land, that is into cells whose bed lies above level 0: the soil below the sea is full.

    Args:
        conductivity: K, the rate into soil that has been wet for long [m s-1]: a number, a function of (x, y) or an
            (ny, nx) array.
        suction: psi at the front of the wet soil [m], likewise.
        deficit: theta, the share of the soil's volume that can take up water [1], likewise. With 0 the rate is K.
    """

    conductivity: Any = parameter("h", "m s-1", minimum=0.0, maximum=1e-2, steady=True, halo=False, doc="of wet soil")
    suction: Any = parameter(
        "h", "m", minimum=0.0, default=0.0, steady=True, halo=False, doc="of dry soil, at the front of the wet one"
    )
    deficit: Any = parameter(
        "h", "1", minimum=0.0, maximum=1.0, default=0.0, steady=True, halo=False, doc="of moisture in the dry soil"
    )

    takes = True
    factors = ("conductivity",)
    references = "Green and Ampt (1911), doi:10.1017/S0021859600001441"
    variable: ClassVar[Variable] = Variable("infiltrated", "h", "m", "depth of water that has infiltrated")
    land: Any = dataclasses.field(
        default=None, metadata=OF_GRID | {"rule": Number("h", optional=True, differentiable=False, halo=False)}
    )

    def on_tile(self, domain: Domain) -> Self:
        return replaced(super().on_tile(domain), {"land": domain.cut(_land(domain.sea_floor))})

    def check_water(self, model: Model) -> None:
        if model.film is None:
            raise ConfigError(
                "Infiltration takes water on land, and where the shore is fixed no land is ever wet; give the model "
                f"{MOVING}, or leave the infiltration out."
            )

    def state_variables(self) -> tuple[Variable, ...]:
        return (self.variable,)

    def where(self, model: Model) -> GridValues:
        return _land(model.sea_floor)

    def rise(self) -> Value:
        return -1.0 * self.conductivity * self.land

    def depth(self, h: AbstractField, values: dict[str, AbstractField], dt: Scalar) -> AbstractField:
        soaked, rate = values[self.variable.name], dt * self.conductivity * self.land
        front = (self.suction + h) * self.deficit
        squared = (rate + 2.0 * soaked) * (rate + 2.0 * soaked) + 8.0 * rate * front
        root = squared.map(lambda x: jnp.sqrt(larger(x, 1e-30)))
        return (-0.5 * rate) * (1.0 + (rate + 4.0 * soaked + 8.0 * front) / (root + 2.0 * soaked))

    def content(
        self, tracer: Transported, value: AbstractField, h: AbstractField, change: AbstractField
    ) -> AbstractField:
        return _taken(tracer, value, h, change)


def _land(floor):
    """1 in cells that may be wet and whose bed lies above level 0, else 0."""
    return floor.depth.map(lambda depth, wet: np.asarray((depth < 0) & (wet > 0), float), floor.wet)


@pytree
class River(WaterSource):
    """A river: a discharge into one cell or several. A negative discharge is an intake, which takes what there is.

    Args:
        discharge: Q of all cells together [m3 s-1]: a number, time records of numbers, or a Record.
        positions: (x, y) of the mouth in the grid's coordinates, or several of a wide one. Each is that of a cell; one
            on land counts for the nearest water, at most 5 cells away. The level rises at the same rate in all cells.
        velocity_x, velocity_y: the velocity towards +x and +y of the water that comes [m s-1]; it has none unless
            given.
        concentrations: {name: concentration} of tracers in the river, in their own units; 0 unless given.
    """

    discharge: Any = parameter("h", "m3 s-1", halo=False, doc="of all positions together; negative of an intake")
    positions: Any = declared(Points(), static=True, doc="(x, y) of the mouth, or of several cells of it")
    velocity_x: Any = parameter(None, "m s-1", minimum=-20.0, maximum=20.0, default=0.0, doc="of the river towards +x")
    velocity_y: Any = parameter(None, "m s-1", minimum=-20.0, maximum=20.0, default=0.0, doc="of the river towards +y")
    concentrations: Any = declared(Concentrations(), default=(), static=True, doc="of tracers in the river")
    share: Any = dataclasses.field(
        default=None, metadata=OF_GRID | {"rule": Number("h", "m-2", optional=True, differentiable=False)}
    )

    factors = ("discharge", "share")
    in_time = ("discharge",)

    def __post_init__(self):
        object.__setattr__(self, "positions", Points.tuple_of(self.positions))
        object.__setattr__(self, "concentrations", Concentrations.tuple_of(self.concentrations))
        super().__post_init__()

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        return self.positions

    def on_tile(self, domain: Domain) -> Self:
        return replaced(super().on_tile(domain), {"share": domain.cut(self._mouth(domain))})

    def _mouth(self, place):
        """The CellShare of a Domain, or of a Model."""
        return CellShare(place.grid, self.cells(place.grid, place.sea_floor.wet))

    def where(self, model: Model) -> GridValues:
        return self._mouth(model).map(lambda share: np.asarray(share > 0, float))

    def cells(self, grid: Grid, wet: GridValues) -> list[tuple[int, int]]:
        """[(j, i)] of the cells of its positions; raises ConfigError for one without water near."""
        return list(dict.fromkeys(nearest_water("River", point, grid, wet) for point in self.positions))

    def summary(self, model: Model, seconds: float) -> str:
        mean, cells = (
            _run_mean(self.discharge, seconds, model.communicator),
            self.cells(model.grid, model.sea_floor.wet),
        )
        brought = "discharge from records" if mean is None else f"{mean * seconds:.4g} m3 in the run"
        x, y = model.grid.x_centres, model.grid.y_centres
        return f"{brought}, at {', '.join(f'({x[i]:g}, {y[j]:g})' for j, i in cells)}"

    @property
    def velocity(self) -> tuple[Scalar, Scalar]:
        return self.velocity_x, self.velocity_y

    def rise(self) -> Value:
        return self.discharge * self.share

    def content(
        self, tracer: Transported, value: AbstractField, h: AbstractField, change: AbstractField
    ) -> AbstractField:
        come, gone = change.map(lambda x: larger(x, 0.0)), change.map(lambda x: smaller(x, 0.0))
        return super().content(tracer, _taken(tracer, value, h, gone), h, come)
