"""Gates, culverts and pumps: water that passes between two cells by a law, as through a wall that the grid has there.

    h_i' = h_i - V / A_i,    h_o' = h_o + V / A_o,    V = Q dt

i is the cell of the inlet, o that of the outlet, and A their areas. Q [m3 s-1] follows from the levels of both cells at
the beginning of a step, where the water is exchanged: a splitting of first order in dt. What leaves one cell enters the
other, so that the volume is kept to rounding. So are the contents of tracers, which come with the concentration of the
cell upstream. V is at most the water of the cell upstream that lies above the sill, and a gate or a culvert never
makes the lower level the higher one. The water takes on the velocity of the cell that it enters.

Through an opening of width b and height a above a sill, with the higher level at the height H_1 above it, the lower one
at H_2, Z = min(H_2, a, H_1) and T = min(a, H_1),

    Q = C b sqrt(2 g) [Z sqrt(H_1 - H_2) + 2/3 (H_1 - Z)^(3/2) - 2/3 (H_1 - T)^(3/2)]

This is C sqrt(2 g x head), integrated over the height: above the lower level the water falls freely, as over the weir
of Poleni, and below it the difference of the levels drives it (Du Buat); a low opening is an orifice. See Bos (1989),
Discharge Measurement Structures, ILRI publication 20. For differences below LEAST_HEAD the root is linear.

A culvert of length L and roughness n has C with the friction of its barrel in it, as for outlet control in Schall et
al. (2012), Hydraulic Design of Highway Culverts, FHWA-HIF-12-026,

    1 / C^2 = 1 / C_0^2 + 2 g n^2 L / R^(4/3)

with the losses at both ends 1 / C_0^2, and the hydraulic radius R of the barrel filled to T. The share of its roof that
is wet rises from 0 at H_1 = a to 1 at 1.2 a; R is 1 mm more, so that it is not 0.

To exchange the values of cells that lie on different ranks costs one sum over all ranks a step.
"""

import abc
import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import ConfigError
from ..fields.field import Field, Value
from ..fields.parameters import OF_GRID, POINT, Flag, Number, declared, parameter
from ..fields.state import State, as_tile_field, like, pytree, replaced
from ..grids.water import nearest_water
from .clock import Time
from .domain import Domain, Model
from .forcing import CellShare, WaterForcing

if TYPE_CHECKING:
    from .layer import LayerFlow
    from .system import System

__all__ = ["Culvert", "Exchange", "Gate", "Pump", "with_exchanges"]

LEAST_HEAD = 1e-3  # [m]
SUBMERGED = 1.2  # H_1 / a, from which a culvert flows full
LEAST_RADIUS = 1e-3  # [m] of the hydraulic radius
Cells = tuple[tuple[int, int], tuple[int, int]]
FIXED = OF_GRID | {"static": True}


class End(NamedTuple):
    """The water in the cell of an inlet or outlet: its level and its thickness [m]."""

    level: jax.Array
    h: jax.Array


def with_exchanges(system: "System", state: State, time: Time) -> State:
    """The State at the beginning of a step after the water of all Exchanges has passed, of arrays or Fields as `state`.

    `system` is prepared, and has Exchanges; `time` is the Time at the beginning of the step.
    """
    numbers = [k for k, term in enumerate(system.terms) if isinstance(term, Exchange)]
    fields, eta = state.map(as_tile_field, state.positions), system.names_of_layers[0][2]
    tracers = {row.name: tracer for row, tracer, layer in system.contents if layer == 0}
    arrays, stored = system.evaluation.on_arrays(system, [fields[name] for name in (eta, *tracers)])
    terms = [cast(Exchange, arrays.terms[k]).averaged(time) for k in numbers]
    read = [cast(Field, arrays.depth_at(time)), *cast(list[Field], stored)]
    own = jnp.stack([jnp.stack([term.own_part(x.interior) for x in read]) for term in terms])
    table = system.communicator.replicated(system.communicator.sum(own))
    at = {cell: values for term, pair in zip(terms, table) for cell, values in zip(term.cells, pair.T)}
    new = {name: fields[name] for name in (eta, *tracers)}
    for number, term in zip(numbers, terms):
        inlet, outlet = (at[cell] for cell in term.cells)
        first, second = (End(values[1], values[0] + values[1]) for values in (inlet, outlet))
        volume = term.volume(first, second, arrays.gravity, time.dt)
        upstream = jnp.where(volume >= 0, inlet, outlet)
        h, each = upstream[0] + upstream[1], enumerate(tracers.values(), 2)
        c = [cast(jax.Array, tracer.shown(upstream[k], h)) for k, tracer in each]
        moved = jnp.stack([jnp.zeros_like(volume), volume, *(volume * x for x in c)])
        for cell, area, sign in zip(term.cells, term.areas, (-1.0, 1.0)):
            at[cell] = at[cell] + sign / area * moved
        share = cast(Any, system.terms[number]).share
        new |= {name: new[name] + amount * share for name, amount in zip(new, moved[1:])}
    changed = like(state, fields.replace(**new))
    return system.evaluation.finish_stage(changed)


@dataclasses.dataclass(frozen=True, eq=False)
class Exchange(WaterForcing):
    """Water that passes from one cell to another by a law (module docstring).

    Attributes:
        cells: ((j, i), (j, i)) of inlet and outlet.
        areas: of both cells [m2].
        index, here: on a tile, their numbers in its own cells, and whether it holds them, (2,).
        share: -1 / A_i [m-2] in the cell of the inlet, 1 / A_o in that of the outlet, and 0 elsewhere.
    """

    inlet: tuple[float, float] = declared(POINT, static=True, doc="(x, y) of one end")
    outlet: tuple[float, float] = declared(POINT, static=True, doc="(x, y) of the other end")
    cells: Cells = dataclasses.field(default=((0, 0), (0, 1)), kw_only=True, metadata=FIXED)
    areas: tuple[float, float] = dataclasses.field(default=(1.0, 1.0), kw_only=True, metadata=FIXED)
    index: Any = dataclasses.field(default=None, kw_only=True, metadata=OF_GRID)
    here: Any = dataclasses.field(default=None, kw_only=True, metadata=OF_GRID)
    share: Any = dataclasses.field(
        default=None,
        kw_only=True,
        metadata=OF_GRID | {"rule": Number("h", "m-2", optional=True, differentiable=False)},
    )

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        return self.inlet, self.outlet

    @abc.abstractmethod
    def volume(self, inlet: End, outlet: End, gravity: jax.Array, dt: jax.Array) -> jax.Array:
        """V of a step [m3], below 0 where water passes from the outlet to the inlet.

        Args:
            inlet, outlet: the water at both ends.
            gravity: [m s-2].
            dt: the time step [s].
        """

    def own_part(self, values: jax.Array) -> jax.Array:
        """The values of a tile's own cells (my, mx) at inlet and outlet, (2,); 0 of cells of other tiles."""
        return jnp.where(self.here > 0, jnp.ravel(values)[self.index], 0.0)

    def on_tile(self, domain: Domain) -> Self:
        grid, wet, who = domain.grid, domain.sea_floor.wet, type(self).__name__
        cells: Any = tuple(nearest_water(who, point, grid, wet) for point in (self.inlet, self.outlet))
        if cells[0] == cells[1]:
            raise ConfigError(
                f"{who}: inlet and outlet, ({self.inlet[0]:g}, {self.inlet[1]:g}) and ({self.outlet[0]:g}, "
                f"{self.outlet[1]:g}), are in one cell; move one of them to another cell, or use a finer grid."
            )
        ends = [CellShare(grid, [cell]) for cell in cells]
        parts, rows = domain.communicator.decomposition(grid.shape), np.array(cells)

        def on(rank):
            tile, box = parts.tile(rank), parts.box(rank)
            low, high = np.array([tile.j0, tile.i0]), np.array([tile.j1, tile.i1])
            mine = np.all((rows >= low) & (rows < high), axis=1)
            index = np.where(mine, (rows[:, 0] - box.j0) * box.shape[1] + rows[:, 1] - box.i0, 0)
            return index.astype(np.int32), mine.astype(np.int32)

        index, here = domain.communicator.place(on)
        share = ends[1].map(np.subtract, ends[0])
        derived = {"cells": cells, "areas": tuple(end.area for end in ends), "index": index, "here": here}
        return replaced(super().on_tile(domain), {**derived, "share": domain.cut(share)})

    def check_water(self, model: Model) -> None:
        if model.layers is not None:
            raise ConfigError(
                f"{type(self).__name__} exchanges the whole column of water, and the model has layers; leave one out."
            )
        if model.sea_floor.bed is not None:
            raise ConfigError(
                f"{type(self).__name__} reads the levels of cells with an even bed, and the bathymetry has subgrid; "
                "leave one out."
            )

    def summary(self, model: Model, seconds: float) -> str:
        """Both ends, in words."""
        x, y = model.grid.x_centres, model.grid.y_centres
        return "between " + " and ".join(
            f"({x[i]:g}, {y[j]:g})"
            for j, i in (nearest_water("", p, model.grid, model.sea_floor.wet) for p in (self.inlet, self.outlet))
        )

    def __call__(self, flow: "LayerFlow", time: Time) -> tuple[Value, Value]:
        return 0.0, 0.0


@pytree
class Gate(Exchange):
    """A gate, weir or orifice between two cells: the opening in a wall above a sill (module docstring).

    Args:
        inlet, outlet: (x, y) of both ends in the grid's coordinates, each of which is that of a cell; one on land
            counts for the nearest water, at most 5 cells away. Water passes both ways, unless `one_way`.
        width: b [m].
        sill: the level of the lower edge of the opening [m].
        opening: a, its height [m]: a number, or a Record, as of a gate that is moved; a weir unless given.
        coefficient: C [1].
        one_way: whether a flap lets water pass from the inlet to the outlet alone.
    """

    width: Any = parameter(None, "m", above=0.0, doc="of the opening")
    sill: Any = parameter(None, "m", doc="level of the lower edge of the opening")
    opening: Any = parameter("h", "m", minimum=0.0, default=1000.0, halo=False, doc="its height; a weir unless given")
    coefficient: Any = parameter(None, "1", above=0.0, maximum=1.5, default=0.6, doc="of discharge")
    one_way: bool = declared(Flag(), default=False, static=True, doc="whether a flap closes it from outlet to inlet")

    has_kinks = True
    references = "Bos (1989), Discharge Measurement Structures, ILRI publication 20"
    in_time = ("opening",)

    def volume(self, inlet: End, outlet: End, gravity: jax.Array, dt: jax.Array) -> jax.Array:
        forward, (a_inlet, a_outlet) = inlet.level >= outlet.level, self.areas
        high, low = jnp.maximum(inlet.level, outlet.level), jnp.minimum(inlet.level, outlet.level)
        above, below = jnp.maximum(high - self.sill, 0.0), jnp.maximum(low - self.sill, 0.0)
        area, h = jnp.where(forward, a_inlet, a_outlet), jnp.where(forward, inlet.h, outlet.h)
        levelled = (high - low) / (1.0 / a_inlet + 1.0 / a_outlet)
        most = jnp.minimum(levelled, area * jnp.minimum(above, jnp.maximum(h, 0.0)))
        volume = jnp.minimum(self.discharge(above, below, gravity) * dt, most)
        return jnp.where(forward, volume, 0.0 if self.one_way else -volume)

    def discharge(self, above: jax.Array, below: jax.Array, gravity: jax.Array) -> jax.Array:
        """|Q| [m3 s-1] for the heights of the higher and the lower level above the sill, 0 or more [m]."""
        top = jnp.minimum(self.opening, above)
        driven, head = jnp.minimum(below, top), above - below
        root = head * (head * head + LEAST_HEAD**2) ** -0.25
        falling = (above - driven) ** 1.5 - (above - top) ** 1.5
        speed = self.passing(above, top, gravity) * jnp.sqrt(2.0 * gravity)
        return self.width * speed * (driven * root + 2.0 / 3.0 * falling)

    def passing(self, above: jax.Array, top: jax.Array, gravity: jax.Array) -> jax.Array | float:
        """C [1], where the opening is filled to `top` [m] and the higher level is at `above` [m]."""
        return self.coefficient


@pytree
class Culvert(Gate):
    """A culvert between two cells: a box with friction, whose coefficient at the ends is C_0 (module docstring).

    Args:
        length: L [m].
        roughness: n of Manning [s m-1/3].
    """

    length: Any = declared(Number(None, "m", minimum=0.0, doc="of the barrel"), kw_only=True)
    roughness: Any = parameter(None, "s m-1/3", minimum=0.0, maximum=0.5, default=0.013, doc="of Manning, of its walls")
    coefficient: Any = parameter(None, "1", above=0.0, maximum=1.5, default=0.8, doc="of discharge, of both ends alone")

    references = "Schall et al. (2012), Hydraulic Design of Highway Culverts, FHWA-HIF-12-026"

    def passing(self, above: jax.Array, top: jax.Array, gravity: jax.Array) -> jax.Array | float:
        roof = jnp.clip((above / jnp.maximum(self.opening, LEAST_RADIUS) - 1.0) / (SUBMERGED - 1.0), 0.0, 1.0)
        perimeter = self.width * (1.0 + roof) + 2.0 * top
        radius = self.width * top / perimeter + LEAST_RADIUS
        friction = 2.0 * gravity * self.roughness**2 * self.length * radius ** (-4.0 / 3.0)
        return (1.0 / self.coefficient**2 + friction) ** -0.5


@pytree
class Pump(Exchange):
    """A pump that takes water from the inlet to the outlet, as much as there is at most.

    Args:
        inlet, outlet: (x, y) of both ends in the grid's coordinates, as of a Gate.
        discharge: Q [m3 s-1]: a number, or a Record.
    """

    discharge: Any = parameter("h", "m3 s-1", minimum=0.0, halo=False, doc="from the inlet to the outlet")

    in_time = ("discharge",)

    def volume(self, inlet: End, outlet: End, gravity: jax.Array, dt: jax.Array) -> jax.Array:
        return jnp.minimum(self.discharge * dt, self.areas[0] * jnp.maximum(inlet.h, 0.0))
