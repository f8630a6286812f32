"""Open boundaries, through which waves leave the domain.

    Flather   the normal velocity on the open face is diagnosed from the elevation in the adjacent cell,
                  u = u_ext +- sqrt(g / H) (eta - eta_ext)       (+ on east and north, - on west and south)
              Flather (1976). Waves at normal incidence leave; oblique ones are partly reflected. A wave that comes in
              with the elevation eta_in has eta_ext = eta_in and u_ext = -+ sqrt(g / H) eta_in.
    Clamped   the velocity on the open face is the one with which continuity gives the elevation of the adjacent cell:
                  d eta/dt = d eta_ext/dt + (eta_ext - eta) / T,    T = 4 dt
              The elevation of that cell is eta_ext to the order of the stepper. Waves from inside are reflected.
    Sponge    near the side, u, v and eta relax towards rest at a rate that grows with the cube of the distance into
              the layer, d/dt = - r (eta - eta_ext); after Israeli & Orszag (1981), doi:10.1016/0021-9991(81)90082-6.

Flather and a sponge together reflect less than either of them alone. Conditions that keep values of their own from step
to step are in radiation.py.
"""

import abc
import dataclasses
import functools
from typing import Any, ClassVar, Self

import jax.numpy as jnp
import numpy as np

from ..errors import ConfigError
from ..fields.methods import at
from ..fields.operators import X, Y
from ..fields.parameters import Sides, declared, parameter
from ..fields.parts import numbers_of, replaced
from ..fields.pytrees import pytree, replace, static
from ..fields.variables import Variable
from ..grids.windows import GridValues
from ..parallel.halo import EAST, NORTH, SIDES, SOUTH, WEST
from .near_sides import (
    all_inside,
    axis_name,
    cells_inside,
    needed_velocity,
    normal_velocity,
    passing_velocity,
    set_beyond,
    windows,
)
from .terms import Term, TiledPart, TimeVarying, rate_at, to_u, to_v, value_at

__all__ = ["Clamped", "Flather", "Inside", "OpenBoundary", "Sponge", "SpongeProfile"]

# [m], limits of elevations and of tidal amplitudes, which no real sea level exceeds
LEVELS: dict[str, Any] = {"minimum": -100.0, "maximum": 100.0}
CURRENTS: dict[str, Any] = {"minimum": -50.0, "maximum": 50.0}  # [m s-1]
RELAXATION_STEPS = 4.0  # T / dt of Clamped; every explicit stepper is stable with this rate


@pytree
class Inside:
    """The cells next to an open side: Fields of one row or column, and numbers.

    Attributes:
        gravity: [m s-2].
        depth: H, positive down [m]; 1 m larger on land, so that it is never 0.
        eta: elevation [m].
        wet: 1 in water, 0 on land.
        eta_time: the Time of eta, which in some schemes is the beginning of the step.
        needed: for conditions with `closes_volume`, a function: the velocity [m s-1] with which the cells rise at a
            given rate [m s-1].
        passing_velocity: a function without arguments: the velocity out of the domain with which what comes through
            the next faces inside, between these cells and their neighbours, leaves through the side [m s-1].
        memory: {name: value} of the variables that the condition declares.
        spacing: the widths of the cells across and along the side [m].
        normal: a function: the velocity out of the domain [m s-1] on the faces `k` cells inside the open ones; k is 3
            at most.
        side: WEST, EAST, SOUTH or NORTH.
    """

    gravity: Any
    depth: Any
    eta: Any
    wet: Any
    eta_time: Any = None
    needed: Any = None
    passing_velocity: Any = None
    memory: Any = None
    spacing: Any = (1.0, 1.0)
    normal: Any = static(default=None)
    side: int = static(default=WEST)

    def ahead(self, values: Any) -> Any:
        """f[k + 1] - f[k] along the side, of a Field of the cells next to it; 0 where one of them is land."""
        axis = Y if self.side in (WEST, EAST) else X
        return axis.high(axis.difference(values) * (axis.low(self.wet) * axis.high(self.wet)))

    def behind(self, values: Any) -> Any:
        """f[k] - f[k - 1] along the side, likewise."""
        axis = Y if self.side in (WEST, EAST) else X
        return axis.low(axis.difference(values) * (axis.low(self.wet) * axis.high(self.wet)))


@dataclasses.dataclass(frozen=True)
class OpenBoundary(TiledPart):
    """A condition on open sides, which gives the velocity out of the domain from the adjacent cells.

    An open boundary of your own declares its parameters by `sw.parameter` and has `outflow`; docs/own_parts.md shows
    one. Parameters that vary in space lie at cell centres; in `outflow` they are those of the cells next to the side.

    Args:
        sides: which of "west", "east", "south", "north" are open; all four unless given.

    Attributes:
        closes_volume: whether `outflow` calls `inside.needed`. It reads the flow through the other faces of the cells,
            and so one more cell along the side.
        reads_along: whether it reads neighbours along the side, and so one more cell there.
        velocity_counts: "outward" or "inward", what a positive parameter `velocity` means. Harmonic constants of
            currents towards +x and +y in files get the sign that this needs.
        nonlinear: whether it is undefined in the linear mode. A linear model then raises ConfigError.
        memory: Variables that the side keeps from step to step; `inside.memory` holds them by name. They belong to the
            State as NAME_x (west and east sides) and NAME_y, at the cells next to the sides and 0 elsewhere. They start
            from 0, and the time stepper steps them with the rates of `rates`. Explicit steppers only.
    """

    sides: tuple = declared(Sides(), default=SIDES, static=True, required=True, kw_only=True)

    kind = "boundary"
    results = {"outflow": at("h", "the velocity out of the domain")}
    closes_volume: ClassVar[bool] = False
    reads_along: ClassVar[bool] = False
    memory: ClassVar[tuple[Variable, ...]] = ()
    velocity_counts: ClassVar[str] = "outward"
    nonlinear: ClassVar[bool] = False

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "sides", Sides.tuple_of(self.sides))

    @abc.abstractmethod
    def outflow(self, inside: Inside, time: Any) -> Any:
        """The velocity on the open faces, positive out of the domain [m s-1], a Field of one row or column.

        Args:
            inside: the cells next to the open side.
            time: a Time.
        """

    def reads_flow(self) -> bool:
        """Whether `outflow` reads velocities inside. If none of a model's sides does, ForwardBackward is one loop."""
        return True

    def rates(self, inside: Inside, time: Any) -> dict[str, Any]:
        """{name: d/dt [its units s-1], a Field of one row or column} of the variables in `memory`."""
        raise NotImplementedError

    def state_variables(self) -> tuple[Variable, ...]:
        axes = {axis_name(SIDES.index(side)): None for side in SIDES if side in self.sides}
        return tuple(dataclasses.replace(row, name=f"{row.name}_{axis}") for row in self.memory for axis in axes)

    def fill(
        self, u: Any, v: Any, eta: Any, equations: Any, time: Any, eta_time: Any, memory: Any = None, share: Any = None
    ) -> tuple[Any, Any, Any]:
        """(u, v, eta), Fields with halo; u and v are set on the open faces and in the ghost faces outside them.

        Use these eta in place of the argument (see `read_strips`).

        Args:
            u, v, eta: Fields with halo.
            equations: the Equations.
            time: the Time of the stage.
            eta_time: the Time of eta.
            memory: {name in the State: Field} of the variables that the condition keeps.
            share: u and v are set to the velocities of the condition divided by this number, if it is given.
        """
        sides = equations.geometry.tile.sides
        for side in (WEST, EAST, SOUTH, NORTH):
            if SIDES[side] in self.sides:
                (u, v, eta), near = windows((u, v, eta), side)
                condition, inside = self._at_side(side, near, equations, time, eta_time, memory)
                sign = -1.0 if side in (WEST, SOUTH) else 1.0
                out = sign * (condition.at(time).outflow(inside, time) * inside.wet)
                out = out if share is None else out * (1.0 / share).astype(out.dtype)
                if side in (WEST, EAST):
                    u = set_beyond(u, near[0], out, side, sides.open[side])
                else:
                    v = set_beyond(v, near[1], out, side, sides.open[side])
        return u, v, eta

    def fill_rates(self, memory: Any, u: Any, v: Any, eta: Any, equations: Any, time: Any, eta_time: Any) -> Any:
        """`memory`, {name in the State: Field}, with the rates of its variables in the ghost cells beyond the sides."""
        sides, new = equations.geometry.tile.sides, dict(memory)
        for side in (WEST, EAST, SOUTH, NORTH):
            if SIDES[side] in self.sides:
                condition, inside = self._at_side(side, (u, v, eta), equations, time, eta_time, memory)
                for name, rate in condition.at(time).rates(inside, time).items():
                    key = f"{name}_{axis_name(side)}"
                    new[key] = set_beyond(new[key], new[key], rate * inside.wet, side, sides.open[side])
        return new

    def prepare(self, exchange: Any) -> Self:
        """This condition with parameters of the cells next to each of its sides alone; collective."""
        numbers = numbers_of(type(self))

        def cut(x, name, position):
            ends = {side: SIDES.index(side) for side in self.sides}
            return _AlongSides({k: exchange.along_side(x, position, n, numbers[name].halo) for k, n in ends.items()})

        return self._each(cut)

    def within(self, terms: tuple, gravity: Any) -> Self:
        """This prepared condition in equations with these prepared terms and this gravity [m s-2].

        What can be precomputed of parameters that vary in time, such as the cosines of the phases of a tide, is
        computed once for all steps.
        """

        def ready(x, side):
            return all_inside(x.within(terms, gravity), side).prepared() if isinstance(x, TimeVarying) else x

        def each(x, name, position):
            return _AlongSides({side: ready(value, SIDES.index(side)) for side, value in x.of.items()})

        return self._each(each)

    def _at_side(self, side, flow, equations, time, eta_time, memory):
        """(this condition with the parameters of the cells next to a side of the tile, the Inside)."""
        eta, g = flow[-1], equations.geometry
        own = self._each(lambda x, name, position: x.of[SIDES[side]] if isinstance(x, _AlongSides) else x)
        near = equations.gravity, equations.depth, equations.uplift, equations.geometry.wet, eta, own
        gravity, depth, uplift, wet, eta, condition = all_inside(near, side)
        depth = (depth if uplift is None else depth - value_at(uplift, time)) + (1.0 - wet)
        if equations.wetting is not None:  # waves are taken to be no slower than over water of the thickness `thin`
            thin = equations.wetting.thin
            wet = wet * (depth + eta).map(lambda h: (h > thin).astype(h.dtype))
            depth = depth.map(lambda h: jnp.maximum(h, thin))
        needed, column = None, depth if equations.linear else depth + eta * wet
        if self.closes_volume:
            needed = functools.partial(needed_velocity, side, column, flow, equations, time)
        passing = functools.partial(passing_velocity, side, column, flow, equations, time)
        inside = Inside(gravity, depth, eta, wet, eta_time, needed, passing if self.reads_flow() else self._refuse)
        if self.memory:
            across, along = (g.dx["h"], g.dy["h"]) if side in (WEST, EAST) else (g.dy["h"], g.dx["h"])
            inside = replace(
                inside,
                memory={x.name: cells_inside((memory or {})[f"{x.name}_{axis_name(side)}"], side) for x in self.memory},
                spacing=(cells_inside(across, side), cells_inside(along, side)),
                normal=functools.partial(normal_velocity, side, *flow[:2]),
                side=side,
            )
        return condition, inside

    def _refuse(self):
        raise ConfigError(f"{type(self).__name__} reads the flow inside its sides; its reads_flow() must return True.")


@pytree
class _AlongSides:
    """A parameter of an open boundary as its `of[side]`, of the cells next to each of its sides."""

    of: dict[str, Any]


@pytree
class Flather(OpenBoundary):
    """Radiating open sides.

    Args:
        sides: which of "west", "east", "south", "north" are open; all four unless given.
        elevation: eta_ext outside [m]: a number, a function of (x, y), an (ny, nx) array (its edge cells are used) or
            time records.
        velocity: u_ext, towards the outside [m s-1], likewise.
        incoming: eta_in, the elevation of a wave that comes in from outside at normal incidence [m], likewise. It is
            added to eta_ext, and the velocity that linear theory gives it to u_ext, so that the whole of it enters.
            `elevation` alone lets in half of a wave: it is the level, or the sum of all waves, outside.
    """

    sides: tuple = declared(Sides(), default=SIDES, static=True, required=True)
    elevation: Any = parameter("h", "m", **LEVELS, default=0.0, doc="the elevation outside")
    velocity: Any = parameter("h", "m s-1", **CURRENTS, default=0.0, doc="the velocity outside, out of the domain")
    incoming: Any = parameter("h", "m", **LEVELS, default=0.0, doc="the elevation of a wave that comes in")

    uses_time = False
    references = "Flather (1976), Mem. Soc. R. Sci. Liege 10, 141-164"

    def reads_flow(self) -> bool:
        return False

    def outflow(self, inside: Inside, time: Any) -> Any:
        speed = (inside.gravity / inside.depth).map(jnp.sqrt)
        return speed * (inside.eta - self.elevation - 2.0 * self.incoming) + self.velocity


@pytree
class Clamped(OpenBoundary):
    """Open sides at which the elevation of the adjacent cells is given.

    The volume that this takes flows through the open face, so that continuity holds there as everywhere, for tracers
    too. Waves from inside are reflected. Explicit time steppers only.

    Args:
        sides: which of "west", "east", "south", "north" are open; all four unless given.
        elevation: of the centres of the cells next to the side [m]: a number, a function of (x, y), an (ny, nx) array,
            time records, or a Tide.
    """

    sides: tuple = declared(Sides(), default=SIDES, static=True, required=True)
    elevation: Any = parameter("h", "m", **LEVELS, default=0.0, required=True, doc="the elevation at the side")

    closes_volume = True

    def outflow(self, inside: Inside, time: Any) -> Any:
        off = value_at(self.elevation, inside.eta_time) - inside.eta
        return inside.needed(rate_at(self.elevation, time) + off / (RELAXATION_STEPS * time.dt))

    def at(self, time: Any) -> Self:
        """This condition itself: it reads the elevation at the time of eta, and its rate at that of the stage."""
        return self


@pytree
class Sponge(Term):
    """A damping layer along sides of the domain.

    Args:
        sides: which of "west", "east", "south", "north"; all four unless given.
        width: of the layer [m].
        rate: the damping rate at the side itself [s-1]: a number, a function or an array. A layer in front of a wall
            reflects exp(-rate width / (2 c)) of a wave of speed c: a rate of 10 c / width leaves 1 % of it. In front of
            Flather 5 c / width is enough.
        elevation: the elevation that eta relaxes to [m]: a number, a function, an array, time records or a Tide.
        velocity_x, velocity_y: the velocity towards +x and +y that the water relaxes to [m s-1], likewise. A layer
            that is given the elevation of a tide and not its currents brakes these, and lets in two thirds of a wave.
    """

    sides: tuple = declared(Sides(), default=SIDES, static=True, required=True)
    width: float = parameter(None, "m", above=0.0, default=None, static=True, required=True, doc="of the layer")
    rate: Any = parameter(
        "h", "s-1", minimum=0.0, default=None, required=True, steady=True, doc="of damping at the side"
    )
    elevation: Any = parameter("h", "m", **LEVELS, default=0.0, doc="the elevation that eta relaxes to")
    velocity_x: Any = parameter("u", "m s-1", **CURRENTS, default=0.0, doc="the velocity towards +x that u relaxes to")
    velocity_y: Any = parameter("v", "m s-1", **CURRENTS, default=0.0, doc="the velocity towards +y that v relaxes to")

    kind = "boundary"
    uses_time = False
    references = "Israeli and Orszag (1981), doi:10.1016/0021-9991(81)90082-6"

    def __post_init__(self):
        object.__setattr__(self, "sides", Sides.tuple_of(self.sides))

    def on_tile(self, domain: Any) -> Self:
        profile = SpongeProfile(domain.grid, self.sides, self.width)
        here = super().on_tile(domain)
        return replaced(here, {"rate": here.rate * domain.cut(profile)})

    def check_water(self, model: Any) -> None:
        """Raise ConfigError if its layer at a side holds no cell, or land alone; of all four sides one needs water."""
        dry = {side: why for side in self.sides if (why := self._why_dry(model, side))}
        if dry and not (len(self.sides) == len(SIDES) and len(dry) < len(SIDES)):
            side, why = next(iter(dry.items()))
            raise ConfigError(f"Sponge: the layer of {self.width:g} m along the {side} side {why}.")

    def _why_dry(self, model, side):
        profile, layer, water = SpongeProfile(model.grid, (side,), self.width), False, False
        for rank in model.communicator.ranks:
            tile = model.decomposition.tile(rank).slices
            inside = profile.block(*tile) > 0
            layer, water = layer or inside.any(), water or (inside & model.sea_floor.wet.block(*tile)).any()
        layer, water = model.communicator.agree(layer), model.communicator.agree(water)
        if not layer:
            return "holds no cell; make it wider than half a cell"
        return None if water else "is land alone; leave the side out, or make the layer wider"

    def rates(self, site: Any) -> Any:
        return self.rate

    def __call__(self, flow: Any, time: Any) -> tuple[Any, Any]:
        return -to_u(self.rate) * (flow.u - self.velocity_x), -to_v(self.rate) * (flow.v - self.velocity_y)

    def continuity(self, flow: Any, time: Any) -> Any:
        return -self.rate * (flow.eta - self.elevation) * flow.geometry.wet


class SpongeProfile(GridValues):
    """(1 - distance / width)^3 within `width` [m] of a side and 0 elsewhere, (ny, nx); the maximum over sides."""

    def __init__(self, grid: Any, sides: tuple, width: float):
        self.grid, self.sides, self.width, self.shape = grid, sides, width, grid.shape

    def block(self, rows: slice, columns: slice) -> np.ndarray:
        grid, row = self.grid, np.arange(rows.start, rows.stop)
        metrics, shape = grid.metrics(row), (row.size, columns.stop - columns.start)
        dx, dy = (np.broadcast_to(metrics[name], (row.size, 1)) for name in ("dx_h", "dy_h"))
        along_x, along_y = (np.arange(columns.start, columns.stop) + 0.5)[None, :], (row + 0.5)[:, None]
        distance = {
            "west": along_x * dx,
            "east": (grid.nx - along_x) * dx,
            "south": along_y * dy,
            "north": (grid.ny - along_y) * dy,
        }
        profile = np.zeros(shape)
        for side in self.sides:
            profile = np.maximum(profile, np.clip(1.0 - distance[side] / max(self.width, 1e-30), 0.0, 1.0) ** 3)
        return profile
