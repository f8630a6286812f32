"""A side at which waves are generated, and through which waves leave.

Across the side the shallow-water equations carry the Riemann invariants u + 2 c inwards and u - 2 c outwards, with
c = sqrt(g h). The one that comes in is that of the wave eta_in. The one that goes out is computed from the cells
inside. So the velocity towards the inside is

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

from ..fields.field import Field, Value
from ..fields.parameters import Flag, Number, Sides, declared, parameter
from ..fields.state import pytree
from ..fields.variables import Variable
from ..parallel.halo import SIDES
from .boundaries import OpenBoundary
from .clock import Time
from .inflow import OUTFLOW_SPEED, Inside, celerity_over, head_loss, outflow_speed_rate

__all__ = ["WaveMaker"]


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
