"""Open boundaries, through which waves leave the domain.

    Flather   the normal velocity on the open face is diagnosed from the elevation in the adjacent cell,
                  u = u_ext +- sqrt(g / H) (eta - eta_ext)       (+ on east and north, - on west and south)
              Flather (1976). Waves at normal incidence leave; oblique ones are partly reflected. A wave that comes in
              with the elevation eta_in has eta_ext = eta_in and u_ext = -+ sqrt(g / H) eta_in.
    Clamped   the velocity on the open face is the one with which continuity gives the elevation of the adjacent cell:
                  d eta/dt = d eta_ext/dt + (eta_ext - eta) / T,    T = 4 dt
              The elevation of that cell is eta_ext to the order of the stepper. Waves from inside are reflected.
              inflow.py limits the energy that water brings in.

Where shores move, Flather's velocity is that of the Riemann invariants of the whole thickness h (radiation.py):

    u = u_ext +- (2 sqrt(g h) + 2 sqrt(g h_ext) - 4 sqrt(g h_in)),    h_ext = H + eta_ext,  h_in = h_ext + eta_in

Flather and a sponge (sponge.py) together reflect less than either of them alone. Further conditions that keep values of
their own from step to step are in radiation.py.
"""

import abc
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import jax
import jax.numpy as jnp

from ..errors import ConfigError
from ..fields.field import Field, Scalar, Value
from ..fields.methods import Result, wrong_h
from ..fields.parameters import Flag, Sides, declared, parameter
from ..fields.parts import numbers_of
from ..fields.state import pytree, replace, replaced
from ..fields.variables import Variable
from ..parallel.halo import EAST, NORTH, SIDES, SOUTH, WEST
from .clock import Time
from .inflow import (
    OUTFLOW_SPEED,
    RELAXATION_STEPS,
    Inside,
    Shore,
    celerity_over,
    head_loss,
    outflow_speed_rate,
    still_along,
)
from .near_sides import (
    all_inside,
    axis_name,
    cells_inside,
    needed_velocity,
    next_velocity,
    normal_velocity,
    passing_velocity,
    set_beyond,
    windows,
)
from .terms import TiledPart, TimeVarying, rate_at, value_at

if TYPE_CHECKING:
    from .stages import Exchange
    from .system import System

__all__ = ["Clamped", "Flather", "OpenBoundary"]

# [m], limits of elevations and of tidal amplitudes, which no real sea level exceeds
LEVELS: dict[str, Any] = {"minimum": -100.0, "maximum": 100.0}
CURRENTS: dict[str, Any] = {"minimum": -50.0, "maximum": 50.0}  # [m s-1]


@dataclasses.dataclass(frozen=True)
class OpenBoundary(TiledPart):
    """A condition on open sides, which gives the velocity out of the domain from the adjacent cells.

    An open boundary of your own declares its parameters by `sw.parameter` and has `outflow`; docs/guide/own_parts.md
    shows one. Parameters that vary in space lie at cell centres; in `outflow` they are those of the cells next to the
    side.

    Args:
        sides: which of "west", "east", "south", "north" are open; all four unless given.

    Attributes:
        closes_volume: whether `outflow` calls `inside.needed`. It reads the flow through the other faces of the cells,
            and so one more cell along the side.
        reads_along: whether it reads neighbours along the side, and so one more cell there.
        velocity_counts: "outward" or "inward", what a positive parameter `velocity` means. Harmonic constants of
            currents towards +x and +y in files get the sign that this needs.
        nonlinear: whether it is undefined in the linear mode. A linear model then raises ConfigError.
        holds_level: whether it keeps the mean level inside near one outside.
        memory: Variables that the side keeps from step to step; `inside.memory` holds them by name. They belong to the
            State as NAME_x (west and east sides) and NAME_y, at the cells next to the sides and 0 elsewhere. They start
            from `beginning`, and the time stepper steps them with the rates of `rates`. Explicit steppers only.
        takes_modes: whether `outflow` is right for the fastest mode of layers, from its gravity, depth and elevation
            alone (near_sides.py).
    """

    sides: tuple = declared(Sides(), default=SIDES, static=True, required=True, kw_only=True)

    kind = "boundary"
    results = {"outflow": Result("the velocity out of the domain, a Field at h or a number", wrong_h)}
    closes_volume: ClassVar[bool] = False
    reads_along: ClassVar[bool] = False
    memory: ClassVar[tuple[Variable, ...]] = ()
    velocity_counts: ClassVar[str] = "outward"
    nonlinear: ClassVar[bool] = False
    holds_level: ClassVar[bool] = True
    takes_modes: ClassVar[bool] = False

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "sides", Sides.tuple_of(self.sides))

    @abc.abstractmethod
    def outflow(self, inside: Inside, time: Time) -> Value:
        """The velocity on the open faces, positive out of the domain [m s-1], a Field of one row or column.

        Args:
            inside: the cells next to the open side.
            time: a Time.
        """

    @property
    def rest_outside(self) -> bool:
        """Whether what flows in comes from water at rest (inflow.py), and has no velocity along the side."""
        return False

    @property
    def has_kinks(self) -> bool:
        return self.rest_outside

    def level_outside(self, inside: Inside, time: Time) -> Value | None:
        """The level of the water outside [m], which floods dry cells; None if the condition does not know it."""
        return None

    def linear_form(self) -> Self:
        """This condition in a model that is linear."""
        return self

    def reads_flow(self) -> bool:
        """Whether `outflow` reads velocities inside. If none of a model's sides does, ForwardBackward is one loop."""
        return True

    def rates(self, inside: Inside, time: Time) -> dict[str, Value]:
        """{name: d/dt [its units s-1], a Field of one row or column} of the variables in `memory`."""
        raise NotImplementedError

    def beginning(self, eta: Value, normal: Callable[[int], Field]) -> dict[str, Value]:
        """{name: value, a Field of one row or column} of variables in `memory` at the start; 0 for the others.

        Args:
            eta: the elevation of the cells next to the side [m].
            normal: a function: the velocity out of the domain [m s-1] on the faces `k` cells inside, k from 1.
        """
        return {}

    def state_variables(self) -> tuple[Variable, ...]:
        axes = {axis_name(SIDES.index(side)): None for side in SIDES if side in self.sides}
        return tuple(dataclasses.replace(row, name=f"{row.name}_{axis}") for row in self.memory for axis in axes)

    def fill(
        self,
        u: Field,
        v: Field,
        eta: Field,
        equations: "System",
        time: Time,
        eta_time: Time,
        memory: dict[str, Field] | None = None,
        share: jax.Array | None = None,
        layer: int = 0,
        levels: Sequence[Field] = (),
    ) -> tuple[Field, Field, Field]:
        """(u, v, eta) of a layer, Fields with halo; u and v are set on open faces and in the ghost faces outside them.

        Use these eta in place of the argument (see `read_strips`).

        Args:
            u, v, eta: Fields with halo.
            equations: the System, prepared.
            time: the Time of the stage.
            eta_time: the Time of eta.
            memory: {name in the State: Field} of the variables that the condition keeps.
            share: u and v are set to the velocities of the condition divided by this number, if it is given.
            layer: the number of the layer.
            levels: eta of all layers, Fields with halo, if there are several.
        """
        sides = equations.geometry.tile.sides
        for side in (WEST, EAST, SOUTH, NORTH):
            if SIDES[side] in self.sides:
                (u, v, eta), near = windows((u, v, eta), side)
                condition, inside = self._at_side(side, near, equations, time, eta_time, memory)
                now, is_open = condition.at(time), sides.open[side]
                outside = now.level_outside(inside, time)
                if equations.layers is None:
                    out = now.outflow(inside, time)
                else:
                    heads = cast(list[Field], equations.potentials(all_inside(list(levels), side)))
                    of_surface = functools.partial(_of_surface, now, inside, time)
                    out = equations.modes_at_sides[SIDES[side]].outflow(layer, heads, of_surface)
                if inside.shore is None or outside is None:
                    out = out * inside.wet
                else:
                    following = next_velocity(side, near)
                    out, level = inside.shore.crossed(inside.gravity, inside.eta, cast(Field, out), outside, following)
                    eta = set_beyond(eta, near[2], level, side, is_open)
                along = still_along(side, near[1 if side in (WEST, EAST) else 0], out) if self.rest_outside else None
                out = -out if side in (WEST, SOUTH) else out
                out = out if share is None else out * (1.0 / share).astype(out.dtype)
                if side in (WEST, EAST):
                    u = set_beyond(u, near[0], out, side, is_open)
                    v = v if along is None else set_beyond(v, near[1], along, side, is_open, normal=False)
                else:
                    v = set_beyond(v, near[1], out, side, is_open)
                    u = u if along is None else set_beyond(u, near[0], along, side, is_open, normal=False)
        return u, v, eta

    def fill_rates(
        self,
        memory: dict[str, Field],
        u: Field,
        v: Field,
        eta: Field,
        equations: "System",
        time: Time,
        eta_time: Time,
    ) -> dict[str, Field]:
        """`memory`, {name in the State: Field}, with the rates of its variables in the ghost cells beyond the sides."""
        sides, new = equations.geometry.tile.sides, dict(memory)
        for side in (WEST, EAST, SOUTH, NORTH):
            if SIDES[side] in self.sides:
                condition, inside = self._at_side(side, (u, v, eta), equations, time, eta_time, memory)
                for name, rate in condition.at(time).rates(inside, time).items():
                    key = f"{name}_{axis_name(side)}"
                    new[key] = set_beyond(new[key], new[key], rate * inside.wet, side, sides.open[side])
        return new

    def prepare(self, exchange: "Exchange") -> Self:
        """This condition with parameters of the cells next to each of its sides alone; collective."""
        numbers = numbers_of(type(self))

        def cut(x, name, position):
            ends = {side: SIDES.index(side) for side in self.sides}
            return _AlongSides({k: exchange.along_side(x, position, n, numbers[name].halo) for k, n in ends.items()})

        return self._each(cut)

    def within(self, terms: tuple, gravity: Scalar) -> Self:
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
        needed, shore, column = None, None, depth if equations.linear else depth + eta * wet
        if equations.film is not None:  # waves are taken to be no slower than over water of the thickness `thin`
            thin = equations.film
            shore, column = Shore(depth, wet, thin), column.map(lambda h: jnp.maximum(h, thin))
            wet = wet * (depth + eta).map(lambda h: (h > thin).astype(h.dtype))
            depth = depth.map(lambda h: jnp.maximum(h, thin))
        if self.closes_volume:
            needed = functools.partial(needed_velocity, side, column, flow, equations, time)
        passing = functools.partial(passing_velocity, side, column, flow, equations, time)
        passing = passing if self.reads_flow() else self._refuse
        inside = Inside(gravity, depth, eta, wet, eta_time, needed, passing, shore=shore)
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


def _of_surface(condition, inside, time, gravity, depth, level):
    """The velocity out of the domain [m s-1] of a single layer with this gravity, depth and elevation."""
    return condition.outflow(replace(inside, gravity=gravity, depth=depth, eta=level), time)


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
    takes_modes = True
    references = "Flather (1976), Mem. Soc. R. Sci. Liege 10, 141-164"

    def reads_flow(self) -> bool:
        return False

    def outflow(self, inside: Inside, time: Time) -> Value:
        if inside.shore is not None:
            over = functools.partial(celerity_over, inside.gravity, inside.shore.bed)
            wave = self.elevation + self.incoming
            return 2.0 * (over(inside.eta, wave) - over(wave, self.elevation)) + self.velocity
        speed = (inside.gravity / inside.depth).map(jnp.sqrt)
        return speed * (inside.eta - self.elevation - 2.0 * self.incoming) + self.velocity

    def level_outside(self, inside: Inside, time: Time) -> Value | None:
        return self.elevation + self.incoming


@pytree
class Clamped(OpenBoundary):
    """Open sides at which the elevation of the adjacent cells is given.

    The volume that this takes flows through the open face, so that continuity holds there as everywhere, for tracers
    too. Waves from inside are reflected. Explicit time steppers only.

    Args:
        sides: which of "west", "east", "south", "north" are open; all four unless given.
        elevation: of the centres of the cells next to the side [m]: a number, a function of (x, y), an (ny, nx) array,
            time records, or a Tide.
        rest_outside: whether the water outside is at rest. What flows in then has no velocity along the side, and the
            level is lower by its head where it flows in faster than it has flowed out before. If not, a current may
            grow without end. Linear models leave it out.
    """

    sides: tuple = declared(Sides(), default=SIDES, static=True, required=True)
    elevation: Any = parameter("h", "m", **LEVELS, default=0.0, required=True, doc="the elevation at the side")
    rest_outside: bool = declared(Flag(), default=True, static=True, doc="whether the water outside is at rest")

    closes_volume = True

    @property
    def memory(self) -> tuple[Variable, ...]:
        return (OUTFLOW_SPEED,) if self.rest_outside else ()

    def linear_form(self) -> Self:
        return replaced(self, {"rest_outside": False})

    def outflow(self, inside: Inside, time: Time) -> Value:
        level = value_at(self.elevation, inside.eta_time)
        off = level - inside.eta
        if self.rest_outside:
            wave = (inside.gravity / inside.depth).map(jnp.sqrt) * level
            off = off - head_loss(inside, -inside.passing_velocity(), wave)
        return inside.needed(rate_at(self.elevation, time) + off / (RELAXATION_STEPS * time.dt))

    def beginning(self, eta: Value, normal: Callable[[int], Field]) -> dict[str, Value]:
        return {OUTFLOW_SPEED.name: abs(normal(1))}

    def rates(self, inside: Inside, time: Time) -> dict[str, Value]:
        return {OUTFLOW_SPEED.name: outflow_speed_rate(inside, time.dt)}

    def at(self, time: Time) -> Self:
        """This condition itself: it reads the elevation at the time of eta, and its rate at that of the stage."""
        return self
