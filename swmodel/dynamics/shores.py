"""The shore: which cells hold water at a moment, how much may leave them in a step, and what passes a levee.

A Shore stays where it is. With WettingDrying cells fall dry and are flooded: the thickness is h = H + eta, with
H < 0 on land, so that a dry cell has eta = -H, the level of its bed. Cells that can never be wet are land as in every
model (geometry.wet = 0).

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
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from ..defaults import LEAST_THICKNESS
from ..errors import ConfigError
from ..fields.field import AbstractField, Axis, Scalar, X, Y, east, north, pointwise, south, west
from ..fields.parameters import Number, check_fields, declared
from ..grids.topography import Topography
from .limiters import larger, smaller, upstream

if TYPE_CHECKING:
    from .conserving_flow import ConservingFlow


__all__ = ["FIXED", "MOVING", "Shore", "Walls", "WettingDrying", "outflow", "outflow_share"]

MOVING = "wetting=WettingDrying()"  # the argument that lets a shore move, for messages


class Walls:
    """What stands on the faces of a flow: nothing here, and levees in Crests.

    Args:
        flow: the ConservingFlow.
    """

    def __init__(self, flow: "ConservingFlow"):
        self.flow = flow

    @staticmethod
    def of(flow: "ConservingFlow") -> "Walls":
        """What stands on the faces of this flow."""
        return (Walls if flow.equations.crests is None else Crests)(flow)

    def highest(self, axis: Axis, bed: AbstractField) -> AbstractField:
        """The depth of what water has to rise above on the faces across an axis [m]; `bed` is that of the bed."""
        return bed

    def overflown(self, faces: tuple) -> tuple:
        """`faces`, Fields at u and v that are 1 or 0, with 0 where no water reaches the crest."""
        return faces

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
        return h, h * velocity

    def given(self, axis: Axis, velocity: AbstractField, level: AbstractField) -> AbstractField:
        """`velocity` [m s-1], at most the critical one; 0 where the water upstream does not reach the crest.

        Args:
            axis: that the faces lie across.
            velocity: on the faces [m s-1].
            level: of the cells [m], a Field at h.
        """
        return velocity

    def rising(self, axis: Axis, rising: AbstractField) -> AbstractField:
        """`rising`, which is negative on faces where the bed rises along the flow, and on those of crests too."""
        return rising


class Crests(Walls):
    """The levees of a flow."""

    @functools.cached_property
    def _depths(self):
        """{axis: the depth of the crests below level 0 on the faces across it [m], very deep where there is none}."""
        flow, depths = self.flow, dict(zip((X, Y), self.flow.equations.crests))
        if flow.equations.uplift is None:
            return depths
        risen = flow.depth - flow.equations.depth
        return {axis: depth + axis.mean(risen) for axis, depth in depths.items()}

    def highest(self, axis: Axis, bed: AbstractField) -> AbstractField:
        return pointwise(smaller, bed, self._depths[axis])

    def overflown(self, faces: tuple) -> tuple:
        return tuple(on * self._reached(axis) for axis, on in zip((X, Y), faces))

    def _reached(self, axis):
        """1 on faces over whose crest the water of one of both cells stands, else 0."""
        eta, thin = self.flow.eta, self.flow.thin
        over = pointwise(larger, axis.low(eta), axis.high(eta)) + self._depths[axis]
        return over.map(lambda over: (over > thin).astype(over.dtype))

    def limited(
        self, axis: Axis, velocity: AbstractField, h: AbstractField, level: AbstractField | None = None
    ) -> tuple[AbstractField, AbstractField]:
        if level is None:
            level = upstream(velocity, axis.low(self.flow.eta), axis.high(self.flow.eta))
        over = (level + self._depths[axis]).map(lambda over: larger(over, 0.0))
        h, head = pointwise(smaller, h, over), self._head(axis, velocity, velocity, over)
        return h, _within(h * velocity, head * self._critical(head) * (2.0 / 3.0))

    def _head(self, axis, direction, velocity, over):
        """E of the module docstring [m], with `velocity` on the face from which a flow of this `direction` comes."""
        before = upstream(direction, axis.low(axis.low(velocity)), axis.high(axis.high(velocity)))
        return over + before * before * (0.5 / self.flow.gravity)

    def _critical(self, head):
        """The critical velocity of a head over a crest [m s-1]."""
        return (2.0 / 3.0 * self.flow.gravity * head).map(lambda x: jnp.sqrt(jnp.where(x > 0, x, 1.0)))

    def given(self, axis: Axis, velocity: AbstractField, level: AbstractField) -> AbstractField:
        # u_0 is that of the flow, before the step: the forces in `velocity` need not be known on neighbouring faces
        over = upstream(velocity, axis.low(level), axis.high(level)) + self._depths[axis]
        before = self.flow.state["u" if axis is X else "v"]
        head = self._head(axis, velocity, before, over.map(lambda over: larger(over, 0.0)))
        held = _within(velocity, self._critical(head))
        return pointwise(lambda over, u: jnp.where(over > self.flow.thin, u, 0.0), over, held)

    def rising(self, axis: Axis, rising: AbstractField) -> AbstractField:
        bed = pointwise(smaller, axis.low(self.flow.depth), axis.high(self.flow.depth))  # of the higher cell
        above = bed - self._depths[axis]
        return pointwise(lambda above, rising: jnp.where(above > 0, -1.0, rising), above, rising)


def _within(x, most):
    """x, held between -most and most."""
    return pointwise(smaller, pointwise(larger, x, -most), most)


class Shore:
    """Where water meets land. This one is fixed: each cell is water, or land, for the whole run.

    Attributes:
        thin: the thickness of water that stays where it is [m]; None where the shore is fixed.
        wind_depth: water shallower than this has less wind stress [m].
        least_thickness: a run stops where the water is thinner than this [m], unless it is given another number.
        without_water: what is wrong with a depth with which no cell may be wet.
        too_thin: (what, a remedy) of water thinner than a run allows, for messages.
    """

    thin: Any = None
    wind_depth: Any = 0.0
    least_thickness = LEAST_THICKNESS
    without_water = "depth is nowhere positive, so there is no water; depth is positive down"
    too_thin = "cannot be computed without wetting and drying", "raise the minimum depth, or make the cell land"

    def may_be_wet(self, depth: np.ndarray) -> np.ndarray:
        """Whether cells of this depth [m], positive down, may hold water."""
        return depth > 0

    def check_depth(self, depth: object, levees: tuple) -> None:
        """Raise ConfigError for a depth of a kind that this shore does not take, and levees where it has none."""
        if levees:
            raise ConfigError(f"ShallowWater: water flows over levees only with {MOVING}; give that, too.")
        if isinstance(depth, Topography):
            raise ConfigError(f"ShallowWater: a topography has heights of land, which need {MOVING}.")


FIXED = Shore()


@dataclasses.dataclass(frozen=True)
class WettingDrying(Shore):
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

    least_thickness = 0.0
    without_water = "no cell may be wet; raise `highest` of WettingDrying, or change the mask"
    too_thin = "ends a run with this least_thickness", "leave it out, since with wetting cells may fall dry"

    def __post_init__(self):
        check_fields(self)

    def may_be_wet(self, depth: np.ndarray) -> np.ndarray:
        return -depth <= (np.inf if self.highest is None else self.highest)

    def check_depth(self, depth: object, levees: tuple) -> None:
        if not isinstance(depth, Topography) and hasattr(depth, "wet"):
            raise ConfigError(
                "ShallowWater: a bathymetry has no heights of land, which wetting needs; give a topography of the "
                "file, or a signed depth as an array or function, negative on land."
            )


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
