"""The motion of the sea floor in a nest: that of the grid around it, so that both rise alike."""

import dataclasses
from typing import Any

import numpy as np

from ..dynamics.domain import Domain
from ..dynamics.terms import Series
from ..grids.grid import Grid
from ..grids.windows import LazyRecords, Stored
from ..parallel import SerialCommunicator
from .interpolation import interpolated
from .nest import Place

__all__ = ["MotionInBox"]


@dataclasses.dataclass(frozen=True)
class MotionInBox:
    """A BottomMotion of a nest, linear between the cells of the grid around it.

    Args:
        source: the motion on the grid around the nest, as ShallowWater takes it.
        outer: that grid.
        place: where the nest lies in it.
    """

    source: Any
    outer: Grid
    place: Place

    def series(self, domain: Domain) -> Series:
        """The Series of the uplift on the tiles of the nest's Domain."""
        whole = Domain(self.outer, SerialCommunicator(), domain.dtype, domain.sea_floor)
        motion = self.source.series(whole)
        records = motion.values[0]

        def make(k: int) -> Stored:
            values = interpolated(np.asarray(records[k], float)[self.place.box_slices], self.place.ratio)
            return Stored(values, domain.grid.shape)

        return domain.series(motion.times, LazyRecords(make, (len(motion.times), *domain.grid.shape)))
