"""The lateral boundary condition for the flow along coasts and walls: free slip or no slip.

At a corner (position q) on a coast, the derivative of the velocity across the coast is the one-sided difference over a
whole cell, times `factor` [1]. It is 0 with free slip, and 2 with no slip (the velocity falls to 0 in half a cell).
"""

import dataclasses

__all__ = ["FreeSlip", "NoSlip"]


@dataclasses.dataclass(frozen=True)
class FreeSlip:
    """No stress and no vorticity at coasts and walls."""

    factor = 0.0


@dataclasses.dataclass(frozen=True)
class NoSlip:
    """The velocity along coasts and walls is zero at them."""

    factor = 2.0
