"""Wetting and drying: which cells hold water at a moment, and how much may leave them in a step.

The thickness is h = H + eta, with H < 0 on land, so that a dry cell has eta = -H, the level of its bed. Cells that can
never be wet are land as in every model (geometry.wet = 0).

**The thickness is never negative.** A step of Euler gives h' = h - dt div F. The flux F out of a cell is multiplied by

    s = min(1, h area / (dt sum of the fluxes out of the cell)),

a number of the cell that the flux leaves, so that what leaves is at most what is there: h' >= 0 whatever dt is. Mass is
conserved because the cells on both sides of a face have one flux. SSPRK3 is a convex combination of such steps, and so
keeps h >= 0 too. In floating point s is reduced by a few units of rounding, more than the rounding errors of the sum.
The combination is computed as start + w (new - start) with w <= 2/3, which cannot round to below its ends.

**No water leaves dry cells.** A velocity out of a cell whose thickness is `thin` or less is 0. So a surface at rest
that ends at a slope, a step or an island stays at rest: between the last wet cell and a dry one above it, the pressure
gradient points out of the dry cell.

References: Stelling and Duinmeijer (2003), doi:10.1002/fld.537; Kurganov and Petrova (2007),
doi:10.4310/CMS.2007.v5.n1.a6.

The flow over levees on faces: how much water passes a crest, and where none does.

With D the depth of a crest (negative above level 0), eta the level upstream and u_0 the velocity on the face upstream,
the energy head over the crest is

    E = max(eta + D, 0) + u_0^2 / (2 g)

Over a crest of a given head no steady flow is larger than the critical one (Chow 1959, Open-Channel Hydraulics,
section 3-4). So the flux per unit width F of the face, and the velocity u, are limited:

    |F| <= sqrt(g) (2 E / 3)^(3/2),     |u| <= sqrt(g 2 E / 3),

as over a broad-crested weir. Where the water downstream is high, the momentum equation gives less. The thickness of the
water on the face is at most eta + D. The flow over a crest speeds up at a constant energy head, as over a bed that
rises. A face has no flow, no slope and no mixing if the water of neither cell reaches its crest.

Where a moving sea floor lifts or lowers the bed, a crest moves with the mean of both cells.
"""

import dataclasses
import functools
from typing import TYPE_CHECKING

import jax.numpy as jnp

from ..fields.field import AbstractField, Axis, Scalar, X, Y, east, north, pointwise, south, west
from ..fields.parameters import Number, check_fields, declared
from .limiters import larger, smaller, upstream

if TYPE_CHECKING:
    from .conserving_flow import ConservingFlow


__all__ = ["Crests", "WettingDrying", "limited_outflow", "outflow", "outflow_share"]


class Crests:
    """The levees of a flow; a model without levees has none.

    Args:
        flow: the ConservingFlow.
    """

    def __init__(self, flow: "ConservingFlow"):
        self.flow = flow

    @functools.cached_property
    def _depths(self):
        """The depths of the crests on both axes' faces [m], Fields at u and v."""
        flow = self.flow
        if flow.equations.uplift is None:
            return flow.equations.crests
        risen = flow.depth - flow.equations.depth
        return tuple(depth + axis.mean(risen) for axis, depth in zip((X, Y), flow.equations.crests))

    def depth(self, axis: Axis) -> AbstractField:
        """The depth of the crests below level 0 on the faces across an axis [m], very deep where there is none."""
        return self._depths[0 if axis is X else 1]

    def overflown(self, faces: tuple) -> tuple:
        """`faces`, Fields at u and v that are 1 or 0, with 0 where no water reaches the crest."""
        return tuple(on * self._reached(axis) for axis, on in zip((X, Y), faces))

    def _reached(self, axis):
        """1 on faces over whose crest the water of one of both cells stands, else 0."""
        eta, thin = self.flow.eta, self.flow.thin
        over = pointwise(larger, axis.low(eta), axis.high(eta)) + self.depth(axis)
        return over.map(lambda over: (over > thin).astype(over.dtype))

    def limited(
        self, axis: Axis, velocity: AbstractField, h: AbstractField, level: AbstractField | None = None
    ) -> tuple[AbstractField, AbstractField]:
        """(the thickness of the water on faces [m], the flux per unit width [m2 s-1]), not more than crests let pass.

        Args:
            axis: that the faces lie across.
            velocity: on the faces [m s-1].
            h: the thickness there without crests [m].
            level: on the faces, from upstream [m]; that of the cell upstream unless given.
        """
        if level is None:
            level = upstream(velocity, axis.low(self.flow.eta), axis.high(self.flow.eta))
        over = (level + self.depth(axis)).map(lambda over: larger(over, 0.0))
        h, head = pointwise(smaller, h, over), self._head(axis, velocity, velocity, over)
        return h, _within(h * velocity, head * self._critical(head) * (2.0 / 3.0))

    def _head(self, axis, direction, velocity, over):
        """E of the module docstring [m], with `velocity` on the face from which a flow of this `direction` comes."""
        before = upstream(direction, axis.low(axis.low(velocity)), axis.high(axis.high(velocity)))
        return over + before * before * (0.5 / self.flow.gravity)

    def _critical(self, head):
        """The critical velocity of a head over a crest [m s-1]."""
        return (2.0 / 3.0 * self.flow.gravity * head).map(lambda x: jnp.sqrt(jnp.where(x > 0, x, 1.0)))

    def given_over_crests(self, axis: Axis, velocity: AbstractField, level: AbstractField) -> AbstractField:
        """`velocity` [m s-1], at most the critical one; 0 where the water upstream does not reach the crest.

        u_0 is that of the flow, before the step: the forces in `velocity` need not be known on neighbouring faces.

        Args:
            axis: that the faces lie across.
            velocity: on the faces [m s-1].
            level: of the cells [m], a Field at h.
        """
        over = upstream(velocity, axis.low(level), axis.high(level)) + self.depth(axis)
        before = self.flow.state["u" if axis is X else "v"]
        head = self._head(axis, velocity, before, over.map(lambda over: larger(over, 0.0)))
        held = _within(velocity, self._critical(head))
        return pointwise(lambda over, u: jnp.where(over > self.flow.thin, u, 0.0), over, held)

    def rising(self, axis: Axis, rising: AbstractField) -> AbstractField:
        """`rising`, which is negative on faces where the bed rises along the flow, and on those of crests too."""
        bed = pointwise(smaller, axis.low(self.flow.depth), axis.high(self.flow.depth))  # of the higher cell
        above = bed - self.depth(axis)
        return pointwise(lambda above, rising: jnp.where(above > 0, -1.0, rising), above, rising)


def _within(x, most):
    """x, held between -most and most."""
    return pointwise(smaller, pointwise(larger, x, -most), most)


@dataclasses.dataclass(frozen=True)
class WettingDrying:
    """Cells fall dry and are flooded; the depth keeps its sign, negative on land.

    Args:
        thin: water of this thickness or less stays where it is, at most 1 [m]. It also bounds 1 / h in
            drag and advection.
        highest: cells whose bed is higher than this above level 0, that of the water at rest, are land for the whole
            run [m]; with None every cell may become wet.
        wind_depth: on water shallower than this the stress of the wind falls in proportion to the thickness, at most 10
            [m]; 0 for no reduction. Grass, stones and crops stand above a film, and shelter it. SFINCS has the same
            (Leijnse et al. 2021, doi:10.1016/j.coastaleng.2020.103796).
    """

    thin: float = declared(
        Number(None, "m", above=0.0, maximum=1.0),
        default=1e-3,
        static=True,
        doc="water of this thickness or less stays where it is",
    )
    highest: float | None = declared(
        Number(None, "m", optional=True),
        default=None,
        static=True,
        doc="cells whose bed is higher above the water at rest than this are never wet",
    )
    wind_depth: float = declared(
        Number(None, "m", minimum=0.0, maximum=10.0),
        default=0.25,
        static=True,
        doc="water shallower than this has less wind stress",
    )

    def __post_init__(self):
        check_fields(self)


def outflow_share(volume: AbstractField, along_x: AbstractField, along_y: AbstractField, dt: Scalar) -> AbstractField:
    """s = min(1, volume / (dt sum of the outgoing fluxes)), a Field at h [1].

    Args:
        volume: of water in each cell, not negative [m3], at h.
        along_x, along_y: fluxes through whole faces [m3 s-1], Fields at u and v.
        dt: the time step [s].
    """
    return pointwise(_share, volume, dt * outflow(along_x, along_y))


def outflow(along_x: AbstractField, along_y: AbstractField) -> AbstractField:
    """The sum of the fluxes out of each cell [m3 s-1], a Field at h, of the fluxes through whole faces."""
    onwards = [flux.map(lambda f: larger(f, 0.0)) for flux in (along_x, along_y)]
    back = [flux.map(lambda f: smaller(f, 0.0)) for flux in (along_x, along_y)]
    return east(onwards[0]) - west(back[0]) + north(onwards[1]) - south(back[1])


def _share(volume, leaving):
    """min(1, volume / leaving), a little less where it is less than 1, with finite derivatives."""
    leaving = (1.0 + 32.0 * float(jnp.finfo(volume.dtype).eps)) * leaving
    enough = leaving <= volume
    return jnp.where(enough, 1.0, volume / jnp.where(enough, 1.0, leaving))


def limited_outflow(flux: AbstractField, low: AbstractField, high: AbstractField) -> AbstractField:
    """`flux` times the share s of the cell that it leaves: `low` or `high`, those of the cells on both sides."""
    return flux * upstream(flux, low, high)
