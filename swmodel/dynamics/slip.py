"""The flow along coasts and walls: free slip, or none."""

import dataclasses

__all__ = ["FreeSlip", "NoSlip"]


@dataclasses.dataclass(frozen=True)
class FreeSlip:
    """No stress and no vorticity at coasts and walls."""

    factor = 0.0


@dataclasses.dataclass(frozen=True)
class NoSlip:
    """The flow along coasts and walls vanishes at them."""

    factor = 2.0
