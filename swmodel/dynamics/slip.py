"""The lateral boundary condition for the flow along coasts and walls: free slip or no slip.

At a corner (position q) on a coast, derivatives of the velocity across the coast are the one-sided difference over a
whole cell, times `factor` [1]: 0 with free slip; 2 with no slip, since the velocity falls to 0 within half a cell.
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
