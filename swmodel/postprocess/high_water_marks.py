"""High-water marks compared with the largest levels of a run, from its file of maxima or extremes.

A mark is the height that water has reached at a place [m above the zero of the run's levels]. The model's level is that
of the nearest wet cell within `reach` cells of the mark; marks without such a cell were not reached. With O_i observed
and M_i modelled heights, of marks that were reached,

    bias    mean(M_i - O_i) [m]
    rmse    sqrt(mean((M_i - O_i)^2)) [m]
    K       exp(mean(log(O_i / M_i)))                    the geometric mean of the ratios, 1 is best
    kappa   exp(sqrt(mean(log(O_i / M_i)^2) - log(K)^2))  their geometric scatter, 1 is best

Aida (1978), doi:10.4294/jpe1952.26.57; K and kappa are of marks where both heights are above 0.
"""

import dataclasses
import pathlib
from collections.abc import Sequence

import numpy as np

from ..errors import DataError, PlotError
from ..grids.observed_tables import read_table, table_names
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
        table: CSV or netCDF with x and y, or longitude and latitude on the sphere, and elevation_m; `name` may be a
            column, too.
        reach: cells from a mark within which water counts.

    Raises:
        PlotError: for a file without maxima.
        DataError: for a table that lacks a column, has other coordinates than the file, or no mark on the grid.
    """
    if reach < 0:
        raise PlotError(f"marks: reach = {reach} is not a number of cells; give 0 or more.")
    with undamaged([pathlib.Path(path)]), open_output(path) as dataset:
        flood = inundation(dataset)
    head, mesh = table_names(table), flood.mesh
    names, others = ("longitude", "latitude"), ("x", "y")
    names, others = (names, others) if mesh.spherical else (others, names)
    if names[0] not in head and others[0] in head:
        raise DataError(f"{table} has {' and '.join(others)}, and {path} has {' and '.join(names)}; give these.")
    texts = ["name"] if "name" in head else []
    columns = read_table(table, (*names, "elevation_m"), texts)
    x, y, heights = columns[names[0]], columns[names[1]], columns["elevation_m"]
    west, east, south, north = mesh.extent
    x = west + (x - west) % 360.0 if mesh.spherical else x
    inside = (x >= west) & (x <= east) & (y >= south) & (y <= north) & np.isfinite(heights)
    if not inside.any():
        raise DataError(f"{table} has no mark on the grid of {path}; check the coordinates of both.")
    labels: Sequence[str] = columns["name"] if texts else [f"{k}" for k in range(1, x.size + 1)]
    rows, columns_of_cells = (y - south) / mesh.height - 0.5, (x - west) / mesh.width - 0.5
    found = [
        Mark(labels[k], float(x[k]), float(y[k]), float(heights[k]), _near(flood.level, rows[k], at, reach))
        for k, at in enumerate(columns_of_cells)
        if inside[k]
    ]
    return Marks(tuple(found), int(np.count_nonzero(~inside)))


def _near(level, row, column, reach):
    """The level in the wet cell nearest to fractional indices, within `reach` cells; NaN without one."""
    centre = int(np.rint(row)), int(np.rint(column))
    j, i = (np.arange(max(at - reach, 0), min(at + reach + 1, n)) for at, n in zip(centre, level.shape))
    values = level[np.ix_(j, i)]
    distance = np.where(np.isfinite(values), np.hypot(*np.meshgrid(j - row, i - column, indexing="ij")), np.inf)
    return float(values.flat[np.argmin(distance)]) if values.size and np.isfinite(distance).any() else np.nan
