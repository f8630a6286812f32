"""A sea floor that moves during a run, in records of the cumulative uplift."""

import dataclasses
from typing import Any

import numpy as np

from ..dynamics.terms import Series
from ..fields import parameters
from ..grids.windows import GridRecords, Stored


@dataclasses.dataclass(frozen=True)
class BottomMotion:
    """A sea floor that moves: cumulative uplift [m], (n, ny, nx), at `times` [s], linear in between.

    It raises the surface and lowers H by the same amount, in water alone. Motion that is faster than a time step takes
    one step; a first record that is not zero is such a motion.

    The rise during a step is added to the surface after the step, whatever the stepper's order. This splitting is of
    first order: while the floor moves, waves are generated up to one step late, dt/2 on average. The error is of the
    order of dt times the rate of the uplift. The volume that is lifted is exact. Tsunami sources last a hundred steps
    or more; where half a step matters, use a shorter time step.

    Args:
        times: increasing, from 0 on [s], (n,).
        uplift: since the start, at these times [m], (n, ny, nx) or GridRecords.
    """

    times: Any
    uplift: Any

    def series(self, domain: Any) -> Series:
        for name, ndim in (("times", 1), ("uplift", 3)) if not isinstance(self.uplift, GridRecords) else ():
            numbers = parameters.array_of(getattr(self, name))
            if numbers is None or numbers.ndim != ndim:
                remedy = "(n,) numbers in s" if ndim == 1 else "an (n, ny, nx) array in m"
                parameters.refuse("BottomMotion", name, getattr(self, name), "is not such an array", remedy)
        uplift = self.uplift if isinstance(self.uplift, GridRecords) else np.asarray(self.uplift)
        times = np.asarray(self.times, float)
        if uplift.shape[1:] != domain.grid.shape or len(uplift) != len(self.times):
            raise ValueError(
                f"BottomMotion: uplift has shape {uplift.shape} for {len(self.times)} times; "
                f"it must be (times, ny, nx) = ({len(self.times)}, {domain.grid.ny}, {domain.grid.nx})."
            )
        if times[0] < 0 or (np.diff(times) <= 0).any():
            raise ValueError(
                f"BottomMotion: times = {times.tolist()} s do not increase from 0 on; count from the start."
            )
        if domain.any(uplift[0]):
            times = np.append(times[0], times)
            if isinstance(uplift, GridRecords):
                uplift = GridRecords([Stored(np.zeros((), uplift.dtype), domain.grid.shape), *uplift.values])
            else:
                uplift = np.concatenate([np.zeros_like(uplift[:1]), uplift])
        return domain.series(times, uplift)
