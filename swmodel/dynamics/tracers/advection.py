"""Advection of a tracer: the concentration that the flow carries through each face.

    d(h c)/dt = - div (U c),   discretely   - [difference_x(U dy c_u) + difference_y(V dx c_v)] / area

U and V are the same volume transports as in the stepper's continuity equation. So the sum of area h c does not
change, and c = 1, for which c_u = c_v = 1, gives the continuity equation itself. A scheme is a choice of c_u and c_v:

    Centred        c_u = mean_x(c): second order, no damping, and ripples behind fronts
    FluxLimited    c_u = c_upstream + L(a, b) / 2, with a limiter L (limiters.py): no ripples, no new extrema

A step of Euler of length dt with FluxLimited gives in each cell a mean of the values in it and around it, with weights
that are not negative, while

    dt (1 + s / 2) (sum of the transports out of the cell) <= area h,   s the limiter's steepness

in any number of dimensions, over any depth. SSPRK3 is a convex combination of such steps, and has the same limit.

On a face at a coast nothing flows. On the face of an open side c_u is the value upstream: what is given for the outside
where the flow comes in, and that of the cell inside where it goes out.
"""

import abc
from typing import TYPE_CHECKING

from ...fields.field import AbstractField, X, Y
from ...fields.methods import Named
from ...fields.parameters import Part, declared
from ...fields.state import pytree
from ...grids.geometry import Geometry
from ..limiters import Limiter, VanLeer, limited_face, upstream

if TYPE_CHECKING:
    from ..layer import LayerFlow

__all__ = ["AdvectionScheme", "Centred", "FluxLimited"]

AXES = {"x": X, "y": Y}


class AdvectionScheme(Named, abc.ABC):
    """A choice of the concentration on faces (module docstring).

    Attributes:
        growth: 0 for a scheme without damping, which needs a time stepper that is stable on the imaginary axis. For
            others it is 1 + s / 2, the factor by which the limiter shortens the time step (module docstring).
        references: the literature that files of a run cite for it, or None.
        has_kinks: whether it chooses among branches by the flow, as for a ModelPart.
    """

    growth = 0.0
    references = None
    has_kinks = False

    def faces(self, c: AbstractField, flow: "LayerFlow") -> tuple:
        """(c_u, c_v), Fields at u and v, of the concentration c at h and LayerFlow, which have the transports."""
        sloping_u, sloping_v = flow.sloping_faces
        return (
            self.along("x", c, flow.U, sloping_u, flow.geometry),
            self.along("y", c, flow.V, sloping_v, flow.geometry),
        )

    @abc.abstractmethod
    def along(
        self, axis: str, c: AbstractField, transport: AbstractField, moving: AbstractField, geometry: Geometry
    ) -> AbstractField:
        """The concentration on the faces across an axis, a Field at u or v.

        Args:
            axis: "x" or "y".
            c: concentration, a Field at h with halo.
            transport: volume transport through the faces [m2 s-1], a Field at u or v.
            moving: the share of a slope that the scheme may use, 0 to 1: LayerFlow.sloping_faces, at u or v.
            geometry: the Geometry.
        """

    @abc.abstractmethod
    def describe(self) -> str:
        """A description for logs, such as "centred, second order"."""


@pytree
class Centred(AdvectionScheme):
    """The mean of both cells: second order; extrema can grow, and fronts leave ripples behind."""

    def along(
        self, axis: str, c: AbstractField, transport: AbstractField, moving: AbstractField, geometry: Geometry
    ) -> AbstractField:
        low, high, _, mean = AXES[axis]
        middle = mean(c)
        if not geometry.tile.sides.open_sides:
            return middle
        open_faces = low(geometry.wet) * high(geometry.wet) - moving
        return middle + open_faces * (upstream(transport, low(c), high(c)) - middle)

    def describe(self) -> str:
        return "centred, second order"


@pytree
class FluxLimited(AdvectionScheme):
    """The value upstream, corrected to second order as far as this makes no new extremum.

    Args:
        limiter: VanLeer(), MinMod(), MonotonizedCentral(), Koren() or Superbee().
    """

    limiter: Limiter = declared(Part(("steepness",), "VanLeer()"), default=VanLeer(), static=True)

    has_kinks = True

    @property
    def growth(self) -> float:
        return 1.0 + 0.5 * self.limiter.steepness

    @property
    def references(self) -> str | None:
        return self.limiter.references

    def along(
        self, axis: str, c: AbstractField, transport: AbstractField, moving: AbstractField, geometry: Geometry
    ) -> AbstractField:
        return limited_face(AXES[axis], c, AXES[axis].difference(c) * moving, transport, self.limiter)

    def describe(self) -> str:
        return f"flux-limited, {type(self.limiter).__name__}"
