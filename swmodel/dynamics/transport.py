"""Continuity and the Bernoulli function.

    d eta/dt = -[difference_x(U dy) + difference_y(V dx)] / area,   U = mean_x(h) u,  V = mean_y(h) v
    B = g eta + K,   K = [mean_x(area_u u^2) + mean_y(area_v v^2)] / (2 area)

With the vorticity flux of an energy-conserving scheme, d/dt sum area (h K + g eta^2 / 2) = 0 exactly (Sadourny 1975,
doi:10.1175/1520-0469(1975)032<0680:TDOFDM>2.0.CO;2; the mean of area_u u^2 is what keeps it on the sphere).
"""

from ..fields.field import AbstractField
from ..fields.operators import difference_x, difference_y, mean_x, mean_y
from ..grids.geometry import Geometry

__all__ = ["transports", "divergence", "gradient", "kinetic_energy"]


def transports(h: AbstractField, u: AbstractField, v: AbstractField) -> tuple[AbstractField, AbstractField]:
    """(U, V): volume transports per unit width [m2 s-1], at u and v, from the thickness h [m] at h."""
    return mean_x(h) * u, mean_y(h) * v


def divergence(u: AbstractField, v: AbstractField, geometry: Geometry) -> AbstractField:
    """div (u, v) at h, [s-1] of velocities and [m s-1] of transports, given at u and v."""
    return (difference_x(u * geometry.dy["u"]) + difference_y(v * geometry.dx["v"])) * geometry.per_area_h


def gradient(head: AbstractField, geometry: Geometry) -> tuple[AbstractField, AbstractField]:
    """(d head/dx, d head/dy), Fields at u and v, of a Field at h."""
    return difference_x(head) * geometry.per_dx["u"], difference_y(head) * geometry.per_dy["v"]


def kinetic_energy(u: AbstractField, v: AbstractField, geometry: Geometry) -> AbstractField:
    """Kinetic energy per unit mass K [m2 s-2] at h, from the velocity [m s-1] at u and v."""
    return (mean_x(geometry.area_u * (u * u)) + mean_y(geometry.area_v * (v * v))) * (0.5 * geometry.per_area_h)
