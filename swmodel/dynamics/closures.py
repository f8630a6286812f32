"""Eddy viscosities that follow from the flow: Smagorinsky's from its strain, Leith's from its gradient of vorticity.

With L^2 = 2 / (dx^-2 + dy^-2), the tension T and the shear S of dissipation.py, and zeta the relative vorticity,

    Smagorinsky    nu = (C / pi)^2 L^2 |D|,            |D| = sqrt(T^2 + S^2)
    Leith          nu = (C / pi)^3 L^3 |grad zeta|
    biharmonic     nu4 = nu L^2 / 8

at cell centres: S^2 is the mean of four corners, and the squares of the derivatives of zeta are means of two faces that
move. The viscosity then acts as that of `Laplacian` or `Biharmonic`, so it never adds energy, conserves momentum and
vanishes for rigid rotation of the sphere. With these lengths, damping at the grid's scale takes the time 1 / |D|,
whatever the spacing. After Smagorinsky (1963), doi:10.1175/1520-0493(1963)091<0099:GCEWTP>2.3.CO;2, Leith (1996),
doi:10.1016/0167-2789(95)00235-9, and for the biharmonic forms Griffies & Hallberg (2000),
doi:10.1175/1520-0493(2000)128<2935:BFWASL>2.0.CO;2.
"""

import abc
import functools
import math
import operator
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from ..fields.field import AbstractField, Value, difference_x, difference_y, mean_x, mean_xy, mean_y
from ..fields.parameters import parameter
from ..fields.state import pytree
from .clock import Time
from .dissipation import biharmonic_force, strain, viscous_force
from .terms import Term

if TYPE_CHECKING:
    from .layer import LayerFlow
    from .site import Site

__all__ = ["BiharmonicLeith", "BiharmonicSmagorinsky", "Leith", "Smagorinsky"]

LEAST_STRAIN = 1e-12  # [s-1]; keeps |D| differentiable at rest
LEAST_GRADIENT = 1e-18  # [m-1 s-1]; likewise of the vorticity


class EddyViscosity(Term):
    """Lateral viscosity from the flow itself: nu = (C / pi)^power L^power times a rate, at cell centres."""

    power: int
    coefficient: Any
    uses_time = False
    nonlinear = True
    is_twice_differentiable = False

    @abc.abstractmethod
    def squared_rate(self, flow: "LayerFlow") -> AbstractField:
        """|D|^2 [s-2] or |grad zeta|^2 [m-2 s-2], positive, a Field at h."""

    @abc.abstractmethod
    def estimated_rate(self, site: "Site") -> np.ndarray | float:
        """|D| or |grad zeta| where the velocity changes by its own size from cell to cell, for the stability limit."""

    def viscosity(self, flow: "LayerFlow") -> AbstractField:
        """nu [m2 s-1], a Field at h."""
        scale = functools.reduce(operator.mul, [self.coefficient * (1.0 / math.pi)] * self.power)
        squared = functools.reduce(operator.mul, [_length2(flow.geometry)] * self.power, self.squared_rate(flow))
        return squared.map(jnp.sqrt) * scale

    def estimated_viscosity(self, site: "Site") -> np.ndarray | float:
        """nu [m2 s-1] for the stability limit, at cell centres."""
        length = (2.0 / (site.per_dx2 + site.per_dy2)) ** 0.5
        return (np.asarray(self.coefficient, float) / math.pi * length) ** self.power * self.estimated_rate(site)

    def rates(self, site: "Site") -> np.ndarray | float:
        return site.viscous_rate(self.estimated_viscosity(site))

    def __call__(self, flow: "LayerFlow", time: Time) -> tuple[Value, Value]:
        return viscous_force(flow.u, flow.v, self.viscosity(flow), flow)


class BiharmonicEddyViscosity(EddyViscosity):
    """The biharmonic form: nu4 = nu L^2 / 8 at faces is the mean of the cells on both sides."""

    def rates(self, site: "Site") -> np.ndarray | float:
        per_length2 = 0.5 * (site.per_dx2 + site.per_dy2)
        viscosity = self.estimated_viscosity(site) / (8.0 * per_length2)
        return site.viscous_rate(1.0, times=2) * site.viscous_rate(viscosity, times=2)

    def __call__(self, flow: "LayerFlow", time: Time) -> tuple[Value, Value]:
        viscosity = 0.125 * self.viscosity(flow) * _length2(flow.geometry)
        return biharmonic_force(mean_x(viscosity), mean_y(viscosity), flow)


class _OfStrain:
    """The rate |D| [s-1] of Smagorinsky's viscosity."""

    power = 2

    def squared_rate(self, flow: "LayerFlow") -> AbstractField:
        tension, shear = strain(flow.u, flow.v, flow)
        return tension * tension + mean_xy(shear * shear) + LEAST_STRAIN**2

    def estimated_rate(self, site: "Site") -> np.ndarray | float:
        return site.speed() * np.sqrt(site.per_dx2 + site.per_dy2)


class _OfVorticity:
    """The rate |grad zeta| [m-1 s-1] of Leith's viscosity."""

    power = 3

    def squared_rate(self, flow: "LayerFlow") -> AbstractField:
        g, zeta = flow.geometry, flow.vorticity
        along_x = difference_x(zeta) * g.per_dx["v"] * g.wet_v
        along_y = difference_y(zeta) * g.per_dy["u"] * g.wet_u
        return mean_y(along_x * along_x) + mean_x(along_y * along_y) + LEAST_GRADIENT**2

    def estimated_rate(self, site: "Site") -> np.ndarray | float:
        return site.speed() * (site.per_dx2 + site.per_dy2)


@pytree
class Smagorinsky(_OfStrain, EddyViscosity):
    """Harmonic viscosity nu = (C / pi)^2 L^2 |D|.

    Args:
        coefficient: C [1]; a number, a function of (x, y), or an array at cell centres. 2 to 4 is usual in oceans.
    """

    coefficient: Any = parameter("h", "1", minimum=0.0, doc="Smagorinsky's coefficient C, in nu = (C / pi)^2 L^2 |D|")


@pytree
class BiharmonicSmagorinsky(_OfStrain, BiharmonicEddyViscosity):
    """Biharmonic viscosity nu4 = (C / pi)^2 L^4 |D| / 8.

    Args:
        coefficient: C [1]; a number, a function of (x, y), or an array at cell centres. 2 to 4 is usual in oceans.
    """

    coefficient: Any = parameter("h", "1", minimum=0.0, doc="Smagorinsky's C, in nu4 = (C / pi)^2 L^4 |D| / 8")


@pytree
class Leith(_OfVorticity, EddyViscosity):
    """Harmonic viscosity nu = (C / pi)^3 L^3 |grad zeta|.

    Args:
        coefficient: C [1]; a number, a function of (x, y), or an array at cell centres. 1 to 2 is usual.
    """

    coefficient: Any = parameter("h", "1", minimum=0.0, doc="Leith's coefficient C, in nu = (C / pi)^3 L^3 |grad zeta|")


@pytree
class BiharmonicLeith(_OfVorticity, BiharmonicEddyViscosity):
    """Biharmonic viscosity nu4 = (C / pi)^3 L^5 |grad zeta| / 8.

    Args:
        coefficient: C [1]; a number, a function of (x, y), or an array at cell centres. 1 to 2 is usual.
    """

    coefficient: Any = parameter("h", "1", minimum=0.0, doc="Leith's C, in nu4 = (C / pi)^3 L^5 |grad zeta| / 8")


def _length2(geometry):
    """L^2 [m2] at cell centres."""
    per_dx, per_dy = geometry.per_dx["h"], geometry.per_dy["h"]
    return 2.0 / (per_dx * per_dx + per_dy * per_dy)
