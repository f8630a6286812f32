"""High-water marks compared with the largest levels of a run, from its file of maxima or extremes.

A mark is the height that water has reached at a place: its level [m above the zero of the run's levels], or its depth
above the ground [m]. The model's height is that of the nearest cell that was wet within `reach` cells of the mark;
marks without such a cell were not reached. With O_i observed
and M_i modelled heights, of marks that were reached,

    bias    mean(M_i - O_i) [m]
    rmse    sqrt(mean((M_i - O_i)^2)) [m]
    K       exp(mean(log(O_i / M_i)))                    the geometric mean of the ratios, 1 is best
    kappa   exp(sqrt(mean(log(O_i / M_i)^2) - log(K)^2))  their geometric scatter, 1 is best

Aida (1978), doi:10.4294/jpe1952.26.57; K and kappa are of marks where both heights are above 0.
"""

import dataclasses
import pathlib

import numpy as np

from ..errors import DataError, PlotError
from ..observed.marks import nearest_cell, read_marks
from .files import open_output, undamaged
from .inundation import inundation

FEWEST = 2  # marks for a geometric mean


@dataclasses.dataclass(frozen=True)
class Mark:
    """A high-water mark.

    Attributes:
        name: of the mark.
        x, y: in the file's coordinates.
        observed, modelled: height [m]; the modelled one is NaN where no water came.
    """

    name: str
    x: float
    y: float
    observed: float
    modelled: float


@dataclasses.dataclass(frozen=True)
class Marks:
    """The marks of a table that lie on the grid, with their scores; str() is a table.

    Attributes:
        marks: of the table, those on the grid with a height.
        left_out: the number of others.
    """

    marks: tuple[Mark, ...]
    left_out: int = 0

    @property
    def errors(self) -> np.ndarray:
        """Modelled - observed of the marks that were reached [m]."""
        pairs = np.array([(mark.modelled, mark.observed) for mark in self.marks], float).reshape(-1, 2)
        errors = pairs[:, 0] - pairs[:, 1]
        return errors[np.isfinite(errors)]

    @property
    def aida(self) -> tuple[float, float]:
        """(K, kappa), NaN for fewer than FEWEST marks with heights above 0."""
        pairs = [(mark.observed, mark.modelled) for mark in self.marks if mark.observed > 0 and mark.modelled > 0]
        if len(pairs) < FEWEST:
            return np.nan, np.nan
        ratios = np.log(np.divide(*np.transpose(pairs)))
        return float(np.exp(ratios.mean())), float(np.exp(ratios.std()))

    def __str__(self) -> str:
        width = max(len(mark.name) for mark in self.marks)
        lines = [f"{'mark':{width}s}  observed  modelled     error"]
        for mark in self.marks:
            error = mark.modelled - mark.observed
            numbers = ("not reached", "") if np.isnan(error) else (f"{mark.modelled:8.2f}", f"  {error:+8.2f}")
            lines.append(f"{mark.name:{width}s}  {mark.observed:8.2f}  {''.join(numbers)}")
        if self.left_out:
            verb = "lies" if self.left_out == 1 else "lie"
            lines.append(f"{self.left_out} more {verb} outside of the grid, or without a height")
        errors, (mean, scatter) = self.errors, self.aida
        reached = f"{errors.size} of {len(self.marks)} marks were reached"
        if not errors.size:
            return "\n".join([*lines, reached])
        about = f"bias {errors.mean():+.2f} m, rmse {np.sqrt((errors**2).mean()):.2f} m"
        return "\n".join([*lines, f"{reached}: {about}, K {mean:.2f}, kappa {scatter:.2f}"])


def marks(path: str | pathlib.Path, table: str | pathlib.Path, reach: int = 2) -> Marks:
    """Compare the high-water marks of a table with the largest levels in an output file.

    Args:
        path: of a file that [output.maxima] or [output.extremes] has written.
        table: CSV or netCDF with x and y, or longitude and latitude on the sphere, and elevation_m or depth_m
            (observed/marks.py).
        reach: cells from a mark within which water counts.

    Raises:
        PlotError: for a file without maxima.
        DataError: for a table that lacks a column, has other coordinates than the file, or no mark on the grid.
    """
    if reach < 0:
        raise PlotError(f"marks: reach = {reach} is not a number of cells; give 0 or more.")
    with undamaged([pathlib.Path(path)]), open_output(path) as dataset:
        flood = inundation(dataset)
    mesh = flood.mesh
    found = read_marks(table, mesh.spherical)
    west, east, south, north = mesh.extent
    x, y = (west + (found.x - west) % 360.0 if mesh.spherical else found.x), found.y
    inside = (x >= west) & (x <= east) & (y >= south) & (y <= north)
    if not inside.any():
        raise DataError(f"{table} has no mark on the grid of {path}; check the coordinates of both.")
    highest, compared = (flood.thickness if found.of_depth else flood.level), []
    for k in np.flatnonzero(inside):
        row, column = (y[k] - south) / mesh.height - 0.5, (x[k] - west) / mesh.width - 0.5
        cell = nearest_cell(row, column, highest.shape, reach, lambda j, i: flood.wet[j, i])
        modelled = np.nan if cell is None else float(highest[cell])
        compared.append(Mark(found.names[k], float(x[k]), float(y[k]), float(found.height[k]), modelled))
    return Marks(tuple(compared), found.left_out + int(np.count_nonzero(~inside)))
