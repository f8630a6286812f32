"""What flows in through open sides: how much energy it brings, and how it floods shores.

**Water at rest outside.** Energy enters through a side as the sum of (g eta + (u^2 + v^2) / 2) U over its faces. A
given level bounds g eta alone: the faster water flows in, the more energy it brings. A current that flows in fast at
one place and leaves slowly at another then grows without end, with any time step. The tide makes such a current where
the depth changes along the side of a rotating basin. So what flows in has no velocity along the side, and

    eta_side = eta_ext - w^2 / (2 g),    w = max(u_in - max(u_wave, s), 0),    ds/dt = max(-u_in - s, 0) / T - s / day

with T = 4 dt. u_wave is the velocity of a wave of the height eta_ext, and s the speed with which water has flowed out
lately, and which it still has outside. Water that flows in faster by w has gained this speed outside, where the level
fell for it. So the level of a tide that flows in no faster than it has flowed out is eta_ext, at resonance too.
At the start of a run s is the speed of the flow next to the side.

**Shores.** Where the bed rises above the water outside, water inside runs off with the velocity sqrt(g h) of waves, the
critical flow, or as fast as it arrives where that is faster. Where the water outside is h_ext > 9/4 h deep, the flow
into the cell is critical (Stoker 1957, Water Waves, section 10):

    u_in = 2/3 sqrt(g h_ext),    h = 4/9 h_ext

Both velocities are those of the simple wave between water at rest and the cell, at the place where it stands still.
"""

from typing import Any

import jax.numpy as jnp

from ..fields.field import Field, Scalar, Value, X, Y, pointwise
from ..fields.state import pytree, static
from ..fields.variables import Variable
from ..parallel.halo import EAST, WEST
from .near_sides import cells_inside

__all__ = [
    "OUTFLOW_SPEED",
    "RELAXATION_STEPS",
    "Shore",
    "celerity",
    "celerity_over",
    "head_loss",
    "outflow_speed_rate",
    "still_along",
]

RELAXATION_STEPS = 4.0  # T / dt; every explicit stepper is stable with this rate
DAY = 86400.0  # [s]
OUTFLOW_SPEED = Variable("outflow_speed", "h", "m s-1", "speed at which water has flowed out through the open side")


def celerity(gravity: Scalar, h: Field) -> Field:
    """sqrt(g h) [m s-1], with finite derivatives where h is 0 or less."""
    return (gravity * h).map(lambda x: jnp.sqrt(jnp.maximum(x, 1e-12)))


def celerity_over(gravity: Scalar, bed: Field, level: Value, other: Value) -> Field:
    """c - c_other = g (eta - eta_other) / (c + c_other) [m s-1], with c = sqrt(g h) and h = max(H + eta, 0).

    As a quotient it keeps the digits of small differences, which c and H + eta lose in deep water.

    Args:
        gravity: [m s-2].
        bed: H, positive down [m].
        level, other: eta and eta_other [m], Fields or numbers.
    """
    over, under = (pointwise(jnp.maximum, 0.0 * bed + eta, -bed) for eta in (level, other))
    return gravity * (over - under) / (celerity(gravity, bed + level) + celerity(gravity, bed + other))


def head_loss(inside: "Inside", into: Field, wave: Value) -> Field:
    """w^2 / (2 g) [m].

    Args:
        inside: the Inside, of a condition that keeps OUTFLOW_SPEED.
        into: u_in, the velocity into the domain [m s-1].
        wave: u_wave [m s-1].
    """
    reference = pointwise(jnp.maximum, inside.memory[OUTFLOW_SPEED.name], wave)
    faster = pointwise(lambda u, least: jnp.maximum(u - jnp.maximum(least, 0.0), 0.0), into, reference)
    return faster * faster / (2.0 * inside.gravity)


def outflow_speed_rate(inside: "Inside", dt: Scalar) -> Field:
    """ds/dt [m s-2]."""
    speed = inside.memory[OUTFLOW_SPEED.name]
    rises = (inside.passing_velocity() - speed).map(lambda x: jnp.maximum(x, 0.0))
    return rises / (RELAXATION_STEPS * dt) - speed / DAY


def still_along(side: int, along: Field, out: Field) -> Field:
    """The velocity along a side in the cells next to it, with 0 where water flows in [m s-1].

    Args:
        side: WEST, EAST, SOUTH or NORTH.
        along: the velocity along the side, a Field of the tile.
        out: the velocity out of the domain, a Field of one row or column.
    """
    through = (Y if side in (WEST, EAST) else X).mean(out)
    return pointwise(lambda out, v: jnp.where(out < 0.0, 0.0, v), through, cells_inside(along, side))


@pytree
class Shore:
    """The cells next to an open side of a model whose shores move, Fields of one row or column.

    Attributes:
        bed: H, positive down, negative on land [m].
        wet: 1 where there may be water, 0 on land for the whole run.
        thin: water of this thickness or less stays where it is [m].
    """

    bed: Field
    wet: Field
    thin: float = static()

    def crossed(self, gravity: Scalar, eta: Field, out: Field, level: Value, following: Field) -> tuple[Field, Field]:
        """(the velocity out of the domain [m s-1], the level in the ghost cells [m]).

        Args:
            gravity: [m s-2].
            eta: in the cells [m].
            out: the velocity out of the domain that the condition sets [m s-1].
            level: of the water outside [m].
            following: the velocity out of the domain on the first faces inside [m s-1]; where it is faster than waves,
                the flow leaves as fast.
        """
        h, outside = ((self.bed + x).map(lambda h: jnp.maximum(h, 0.0)) for x in (eta, level))
        critical = outside.map(lambda h: jnp.where(h > self.thin, 4.0 / 9.0 * h, 0.0))
        floods = self.wet * pointwise(lambda new, h: (new > h).astype(h.dtype), critical, h)
        leaves = self.wet * h.map(lambda h: (h > self.thin).astype(h.dtype))
        falls = pointwise(jnp.minimum, out, pointwise(jnp.maximum, celerity(gravity, h), following))
        out = floods * (-2.0 / 3.0) * celerity(gravity, outside) + (1.0 - floods) * leaves * falls
        return out, floods * (critical - self.bed) + (1.0 - floods) * eta


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
        shore: the Shore of a model whose shores move, else None.
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
    shore: Shore | None = None

    def ahead(self, values: Field) -> Value:
        """f[k + 1] - f[k] along the side, of a Field of the cells next to it; 0 where one of them is land."""
        axis = Y if self.side in (WEST, EAST) else X
        return axis.high(axis.difference(values) * (axis.low(self.wet) * axis.high(self.wet)))

    def behind(self, values: Field) -> Value:
        """f[k] - f[k - 1] along the side, likewise."""
        axis = Y if self.side in (WEST, EAST) else X
        return axis.low(axis.difference(values) * (axis.low(self.wet) * axis.high(self.wet)))
