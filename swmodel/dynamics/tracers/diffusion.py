"""Diffusion of a tracer along the surface.

    d(h c)/dt = div (h kappa grad c)

    discretely [difference_x(dy h_u kappa_u ddx(c)) + difference_y(dx h_v kappa_v ddy(c))] / area

On faces h is the harmonic mean 2 h_1 h_2 / (h_1 + h_2) of both cells. It is less than twice the smaller one, so that a
shallow cell next to a deep one does not shorten the time step. The flux through coasts, walls and open sides is 0. The
sum of area h c does not change, and that of area h c^2 does not grow.
"""

from typing import TYPE_CHECKING

import numpy as np

from ...fields.field import AbstractField, Value, difference_x, difference_y, east, mean_x, mean_y, north, south, west

if TYPE_CHECKING:
    from ..layer import LayerFlow
    from ..site import Site

__all__ = ["depth_ratios", "diffusive_flux", "diffusive_rate"]


def diffusive_flux(c: AbstractField, flow: "LayerFlow", diffusivity: Value) -> tuple:
    """(- h kappa dc/dx, - h kappa dc/dy), Fields at u and v; 0 on faces that `flow.mixing_faces` excludes.

    Args:
        c: concentration at h.
        flow: LayerFlow.
        diffusivity: kappa [m2 s-1], a number or a Field at h.
    """
    g, h, (mixing_u, mixing_v) = flow.geometry, flow.column, flow.mixing_faces
    along_x = _harmonic(west(h), east(h), mixing_u) * difference_x(c) * g.per_dx["u"]
    along_y = _harmonic(south(h), north(h), mixing_v) * difference_y(c) * g.per_dy["v"]
    if isinstance(diffusivity, AbstractField):
        return -mean_x(diffusivity) * along_x, -mean_y(diffusivity) * along_y
    return -diffusivity * along_x, -diffusivity * along_y


def _harmonic(one, other, moving):
    """The harmonic mean where `moving` is 1, else 0, with finite derivatives on land."""
    return 2.0 * one * other * moving / (one + other + (1.0 - moving))


def diffusive_rate(site: "Site", diffusivity: np.ndarray | float) -> np.ndarray:
    """A bound on the rate [s-1] of damping by diffusion in each cell of a `site`, after Gershgorin's theorem.

    It is twice the sum of the coefficients of the neighbours. A `site` is one tile (stepping/stability.py).
    """
    west, east, south, north = (2.0 * ratio / (1.0 + ratio) for ratio in depth_ratios(site))
    rows = (west + east) * site.per_dx2 + (south + north) * site.per_dy2
    return 2.0 * np.asarray(diffusivity, float) * rows


def depth_ratios(site: "Site") -> tuple:
    """The depths of the (west, east, south, north) neighbours of each cell over its own [1]; 0 where either is land.

    Of several layers they are those of the lowest one, in which they differ most.
    """
    model = site.model
    modes = ["wrap" if p else "edge" for p in (model.grid.periodic_y, model.grid.periodic_x)]
    h = np.maximum(site.box.cut(model.sea_floor.water, 1, *modes), 0.0)  # heights of land are no depths
    if model.layers is not None:
        h = np.maximum(model.layers.rest(h)[-1], 0.0)  # the upper ones are as thick everywhere
    here = h[1:-1, 1:-1]
    around = h[1:-1, :-2], h[1:-1, 2:], h[:-2, 1:-1], h[2:, 1:-1]
    return tuple(np.where(here > 0, x / np.maximum(here, 1e-30), 0.0) for x in around)
