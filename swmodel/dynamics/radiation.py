"""Open boundary conditions with prognostic variables of their own, and sides at which waves are generated.

    ChapmanFlather      Flather's velocity for the elevation eta_f on the open face, half way to a cell outside. The
                        elevation eta_o of that cell obeys Chapman's (1985) radiation condition,
                            d eta_o/dt = (c / dx) (eta_1 - eta_o),      c = sqrt(g H)
                            u = u_ext +- c / H (eta_f - eta_ext),       eta_f = (eta_1 + eta_o) / 2
                        eta_1 is the elevation of the cell next to the side.
    RadiationNudging    the velocity u_b on the face is advected out with the phase velocity of the flow inside, after
                        Marchesiello, McWilliams & Shchepetkin (2001), doi:10.1016/S1463-5003(00)00013-5:
                            du_b/dt = - c_n du/dn - c_s du/ds - (u_b - u_ext) / tau
                            (c_n, c_s) = - dm/dt (dm/dn, dm/ds) / ((dm/dn)^2 + (dm/ds)^2)
                        n points out of the domain, s along the side, and m is a lagged copy of the velocity on the
                        next two faces inside, u_1 and u_2.
                        Where c_n > 0 the flow radiates, and tau is long. Elsewhere c_n = c_s = 0, and tau is short.

The variables of a side (eta_o, or u_b and m on both faces) belong to the State. They start from eta_1, or from u_1 and
u_2, and the time stepper steps them with the others. Restarts, halos, masks and the adjoint treat them as they treat
the elevation. The lagged velocity obeys dm_k/dt = (u_k - m_k) / (2 dt) on face k, which replaces the stored values of
earlier steps. Differences of m in time and space are then those of one smooth field at one moment. Rates of relaxation
r are taken as r / (1 + r dt), those of an implicit step, with which every explicit scheme is stable.

**WaveMaker**: a side at which waves are generated, and through which waves leave. Across the side the shallow-water
equations carry the Riemann invariants u + 2 c inwards and u - 2 c outwards, with c = sqrt(g h). The one that comes in
is that of the wave eta_in. The one that goes out is computed from the cells inside. So the velocity towards the inside
is

    u_n = u_in + 2 sqrt(g (H + eta_in)) - 2 sqrt(g (H + eta)),      u_in = 2 sqrt(g (H + eta_in)) - 2 sqrt(g H)

unless the velocity u_in of the wave is given too. Where no wave comes in, the side is open. For small waves this is
Flather's condition with `incoming`. Both elevations are those of the centres of the cells next to the side.

A gauge at the side records the level there, which is the sum of the wave that comes in and of what is reflected. If
`total` is set, `elevation` is such a record eta_side, and

    u_n = u_passing + 2 sqrt(g (H + eta_side)) - 2 sqrt(g (H + eta))

with the velocity u_passing of as much water as flows through the next faces inside (near_sides.passing_velocity). Over
a flat bed it is the velocity there, and the invariant that goes out is kept. Over any bed small waves gain no energy at
the side. It reflects waves from inside as one with a given level does. The water outside is at rest (inflow.py).
"""

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from ..fields.field import Field, Value, pointwise
from ..fields.parameters import Flag, Number, Sides, declared, parameter
from ..fields.state import pytree
from ..fields.variables import Variable
from ..parallel.halo import SIDES
from .boundaries import CURRENTS, LEVELS, OpenBoundary
from .clock import Time
from .inflow import OUTFLOW_SPEED, Inside, celerity_over, head_loss, outflow_speed_rate

__all__ = ["ChapmanFlather", "RadiationNudging", "WaveMaker"]


DAY = 86400.0  # [s]
TRAIL = 2.0  # the time of relaxation of m [steps]
TRAILS = "trailing_velocity", "second_trailing_velocity"
LEAST = 1e-16  # [m2 s-2], keeps the quotient by squared differences of velocities finite; 1 / LEAST^2 is a float32
STEEPEST = 5.0  # |dm/dt| dt over the differences of m in space, from where on these are too small to show a direction


def _implicit(rate, dt):
    return rate.map(lambda r: r / (1.0 + r * dt)) if hasattr(rate, "map") else rate / (1.0 + rate * dt)


@pytree
class ChapmanFlather(OpenBoundary):
    """Flather's velocity with Chapman's elevation (module docstring), as regional ocean models pair them.

    Args:
        sides: which of "west", "east", "south", "north" are open; all four unless given.
        elevation: eta_ext outside [m]: a number, a function of (x, y), an (ny, nx) array (its edge cells are used),
            time records or a Tide.
        velocity: u_ext, towards the outside [m s-1], likewise.
        incoming: the elevation of a wave that comes in at normal incidence [m], likewise, as in Flather.
    """

    sides: tuple = declared(Sides(), default=SIDES, static=True, required=True)
    elevation: Any = parameter("h", "m", **LEVELS, default=0.0, doc="the elevation outside")
    velocity: Any = parameter("h", "m s-1", **CURRENTS, default=0.0, doc="the velocity outside, out of the domain")
    incoming: Any = parameter("h", "m", **LEVELS, default=0.0, doc="the elevation of a wave that comes in")

    memory = (Variable("outer_elevation", "h", "m", "elevation one cell beyond the open side"),)
    references = (
        "Flather (1976), Mem. Soc. R. Sci. Liege 10, 141-164; Chapman (1985), "
        "doi:10.1175/1520-0485(1985)015<1060:NTOCSO>2.0.CO;2"
    )

    def outflow(self, inside: Inside, time: Time) -> Value:
        face = 0.5 * (inside.eta + inside.memory["outer_elevation"])
        speed = (inside.gravity / inside.depth).map(jnp.sqrt)
        return speed * (face - self.elevation - 2.0 * self.incoming) + self.velocity

    def beginning(self, eta: Value, normal: Callable[[int], Field]) -> dict[str, Value]:
        return {"outer_elevation": eta}

    def rates(self, inside: Inside, time: Time) -> dict[str, Value]:
        celerity = (inside.gravity * inside.depth).map(jnp.sqrt)
        rate = _implicit(celerity / inside.spacing[0], time.dt)
        return {"outer_elevation": rate * (inside.eta - inside.memory["outer_elevation"])}


@pytree
class RadiationNudging(OpenBoundary):
    """Adaptive radiation of the velocity, nudged to that outside (module docstring).

    It leaves the mean level free, so that a model needs a sponge, or a side with another condition, too.

    Args:
        sides: which of "west", "east", "south", "north" are open; all four unless given.
        velocity: u_ext, towards the outside [m s-1]: a number, a function of (x, y), an (ny, nx) array (its edge cells
            are used), time records or a Tide.
        incoming: the elevation of a wave that comes in at normal incidence [m], likewise; its velocity is added.
        inward: tau where the flow comes in [s].
        outward: tau where it radiates [s].
    """

    sides: tuple = declared(Sides(), default=SIDES, static=True, required=True)
    velocity: Any = parameter("h", "m s-1", **CURRENTS, default=0.0, doc="the velocity outside, out of the domain")
    incoming: Any = parameter("h", "m", **LEVELS, default=0.0, doc="the elevation of a wave that comes in")
    inward: Any = parameter(None, "s", above=0.0, default=DAY, doc="the time of nudging where the flow comes in")
    outward: Any = parameter(None, "s", above=0.0, default=365 * DAY, doc="the time of nudging where it radiates")

    memory = (
        Variable("outer_velocity", "h", "m s-1", "velocity out of the domain on the open face"),
        Variable("trailing_velocity", "h", "m s-1", "velocity out of the domain on the next face, a little earlier"),
        Variable("second_trailing_velocity", "h", "m s-1", "the same on the face after that"),
    )
    reads_along = True
    has_kinks = True  # pyright: ignore[reportAssignmentType]
    holds_level = False
    references = "Marchesiello, McWilliams and Shchepetkin (2001), doi:10.1016/S1463-5003(00)00013-5"

    def outflow(self, inside: Inside, time: Time) -> Value:
        return inside.memory["outer_velocity"] + 0.0 * inside.eta

    def beginning(self, eta: Value, normal: Callable[[int], Field]) -> dict[str, Value]:
        return {"outer_velocity": normal(1), **{name: normal(k) for k, name in enumerate(TRAILS, start=1)}}

    def rates(self, inside: Inside, time: Time) -> dict[str, Value]:
        dt, here = time.dt, inside.memory["outer_velocity"]
        next_one = inside.normal(1)
        changes = {
            name: (1.0 / TRAIL) * (inside.normal(k) - inside.memory[name]) for k, name in enumerate(TRAILS, start=1)
        }
        across, along = self._courant(inside, changes)
        moved = across * (next_one + changes[TRAILS[0]] - here)  # u_1 a step later, as an implicit step has it
        forward, backward = along.map(lambda c: jnp.minimum(c, 0.0)), along.map(lambda c: jnp.maximum(c, 0.0))
        moved = moved - backward * inside.behind(here) - forward * inside.ahead(here)
        outside = self.velocity - (inside.gravity / inside.depth).map(jnp.sqrt) * self.incoming
        leaves = across.map(lambda c: (c > 0.0).astype(c.dtype))
        nudging = leaves * _implicit(1.0 / self.outward, dt) + (1.0 - leaves) * _implicit(1.0 / self.inward, dt)
        return {
            "outer_velocity": moved * across.map(lambda c: 1.0 / (dt * (1.0 + c))) + nudging * (outside - here),
            **{name: (1.0 / dt) * change for name, change in changes.items()},
        }

    def _courant(self, inside, changes):
        """The Courant numbers c_n dt / dn (0 to 1) and c_s dt / ds (-1/2 to 1/2), from the changes of m in a step.

        The second is 0 where the flow does not radiate.
        """
        dn, ds = inside.spacing
        trail, second = (inside.memory[name] for name in TRAILS)
        change, outwards = 0.5 * (changes[TRAILS[0]] + changes[TRAILS[1]]), trail - second
        ahead, behind = inside.ahead(trail), inside.behind(trail)
        upwind = change * (ahead + behind)
        sideways = pointwise(lambda up, pair: jnp.where(up > 0.0, pair, 0.0), upwind, behind) + pointwise(
            lambda up, pair: jnp.where(up > 0.0, 0.0, pair), upwind, ahead
        )
        skew = sideways * (dn / ds)
        square = outwards * outwards + skew * skew
        share = change / (square + change * change * (1.0 / STEEPEST**2) + LEAST)
        across = (-share * outwards).map(lambda c: jnp.clip(c, 0.0, 1.0))
        along = (-share * skew * (dn / ds)).map(lambda c: jnp.clip(c, -0.5, 0.5))
        return across, along * across.map(lambda c: (c > 0.0).astype(c.dtype))


@pytree
class WaveMaker(OpenBoundary):
    """Sides at which a wave comes in at normal incidence, of any height, while others leave.

    Args:
        sides: which of "west", "east", "south", "north" make waves; all four unless given.
        elevation: eta_in of the wave that comes in, without the waves that leave [m]: a number, a function of (x, y),
            an (ny, nx) array (its edge cells are used), time records, a Record, SolitaryWave, CnoidalWave or Tide.
        velocity: u_in of that wave, into the domain [m s-1], likewise; that of a long wave unless given.
        until: when the last of the wave has come in [s]; the side is open from then on. A Record need not go on longer.
        total: whether `elevation` is the level at the side, with reflected waves, as a gauge there records it.
            `velocity` cannot be given then.
    """

    sides: tuple = declared(Sides(), default=SIDES, static=True, required=True)
    elevation: Any = parameter("h", "m", default=0.0, required=True, doc="the elevation of the wave that comes in")
    velocity: Any = parameter("h", "m s-1", default=None, optional=True, doc="its velocity, into the domain")
    until: float | None = declared(
        Number(None, "s", above=0.0, optional=True), default=None, static=True, doc="when the side becomes open"
    )
    total: bool = declared(Flag(), default=False, static=True, doc="whether the elevation contains reflected waves")

    velocity_counts = "inward"
    nonlinear = True
    references = "Stoker (1957), Water Waves, section 10; Blayo and Debreu (2005), doi:10.1016/j.ocemod.2004.07.001"

    @classmethod
    def conflict(cls, values: Any) -> str | None:
        if values.total and values.velocity is not None:
            return "with total the velocity is found from the level at the side; leave out velocity, or total"
        return super().conflict(values)

    def check_covers(
        self, end: float, slack: float, remedy: str = "give `until` for a side that is open from then on"
    ) -> None:
        super().check_covers(end if self.until is None else min(end, self.until), slack, remedy)

    def reads_flow(self) -> bool:
        return self.total

    @property
    def rest_outside(self) -> bool:
        return self.total

    @property
    def memory(self) -> tuple[Variable, ...]:
        return (OUTFLOW_SPEED,) if self.total else ()

    def _while_incoming(self, value, inside, time):
        """`value` until the last of the wave has come in, and 0 from then on."""
        return value if self.until is None else value * jnp.asarray(time.since(self.until) < 0, inside.eta.data.dtype)

    def level_outside(self, inside: Inside, time: Time) -> Value:
        return self._while_incoming(self.elevation, inside, time)

    def outflow(self, inside: Inside, time: Time) -> Value:
        depth = inside.depth if inside.shore is None else inside.shore.bed
        height, over = (
            self._while_incoming(self.elevation, inside, time),
            functools.partial(celerity_over, inside.gravity, depth),
        )
        if self.total:
            into = -inside.passing_velocity()
            height = height - head_loss(inside, into, 2.0 * over(height, 0.0))
        else:
            given = self.velocity is not None
            into = self._while_incoming(self.velocity, inside, time) if given else 2.0 * over(height, 0.0)
        return 2.0 * over(inside.eta, height) - into

    def beginning(self, eta: Value, normal: Callable[[int], Field]) -> dict[str, Value]:
        return {OUTFLOW_SPEED.name: abs(normal(1))}

    def rates(self, inside: Inside, time: Time) -> dict[str, Value]:
        return {OUTFLOW_SPEED.name: outflow_speed_rate(inside, time.dt)}
