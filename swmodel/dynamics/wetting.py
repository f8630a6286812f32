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
"""

import dataclasses

import jax.numpy as jnp

from ..fields.field import AbstractField, Scalar, east, north, pointwise, south, west
from ..fields.parameters import Number, check_fields, declared
from .limiters import larger, smaller, upstream

__all__ = ["WettingDrying", "limited_outflow", "outflow", "outflow_share"]


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
