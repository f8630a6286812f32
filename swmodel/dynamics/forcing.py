"""What terms have in common that bring water, take it, or pass it from cell to cell."""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from ..fields.parameters import refuse
from ..grids.grid import Grid
from ..grids.windows import GridValues
from .clock import Time
from .domain import Model
from .terms import Forcing, TimeVarying

__all__ = ["CellShare", "WaterForcing"]


class WaterForcing(Forcing):
    """A forcing that changes the thickness of the top layer, once a step.

    Attributes:
        in_time: the names of parameters that may change in time, and not in space.
    """

    layer = 0
    in_time: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self):
        super().__post_init__()
        for name in self.in_time:
            value: Any = getattr(self, name)
            values = getattr(value, "values", value)
            if callable(value) or hasattr(value, "series_on") or np.ndim(values) > 1:
                remedy = f"a number in {self.units_of(name)}, or records of numbers"
                refuse(type(self).__name__, name, value, "varies in space", remedy)

    def averaged(self, time: Time) -> Self:
        """This forcing with the means of its parameters over the step that begins at a Time."""
        return self._each(lambda x, name, position: x.mean(time) if isinstance(x, TimeVarying) else x)

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        """(x, y) of the cells that it acts on; () where it acts on all."""
        return ()

    def summary(self, model: Model, seconds: float) -> str:
        """What it does in a run of `seconds`, in words; collective."""
        raise NotImplementedError


class CellShare(GridValues):
    """1 / (area of all `cells`) [m-2] in each of these cells, (j, i), and 0 elsewhere, (ny, nx)."""

    def __init__(self, grid: Grid, cells: Sequence[tuple[int, int]]):
        self.grid, self.cells, self.shape = grid, cells, grid.shape

    @property
    def area(self) -> float:
        """The area of all cells [m2]."""
        return float(sum(np.ravel(self.grid.metrics(np.array([j]))["area_h"])[0] for j, _ in self.cells))

    def block(self, rows: slice, columns: slice) -> np.ndarray:
        values = np.zeros((rows.stop - rows.start, columns.stop - columns.start))
        for j, i in self.cells:
            if rows.start <= j < rows.stop and columns.start <= i < columns.stop:
                values[j - rows.start, i - columns.start] = 1.0 / self.area
        return values
