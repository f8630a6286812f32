"""High-water marks: the misfit of the largest levels of a run, as floods and tsunamis leave them behind.

    J = 1/2 sum_k [(max_n eta_nk - y_k) / s_k]^2

The maximum over the steps n of the run, or of a window, is exact. Its derivative is that of the step at which it
occurs. J has a kink where another crest becomes the highest. eta is that of the cell nearest to the mark that can be
wet. On land that stays dry it is the height of the bed, where the bed is finer than the grid that of its deepest part:
such a mark counts by the height that it lies above the bed, with no derivative, so that no control brings water to it.
`dry` names these marks.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...dynamics.subgrid import depth_at_place, level_of_cell
from ...errors import ConfigError, DataError
from ...fields.parameters import declared, parameter
from ...fields.state import pytree, static
from ...grids.observed_tables import check_kind
from ...models.shallow_water import ShallowWater
from ...nests.family import Family
from ...observed.points import nearest_cell, read_marks
from .costs import OF_MAXIMUM, WINDOW, OfRun, during
from .readers import GaugeReader, everywhere, time_weights
from .records import DictOf, Observation
from .tile_costs import OneOfEach, TileCost, rows

__all__ = ["Mark", "MarkMisfit", "SquaresOfMaxima", "dry", "marks_in", "marks_in_water"]

REACH = 2  # cells


@dataclasses.dataclass(frozen=True, eq=False)
class Mark(Observation):
    """A high-water mark.

    Attributes:
        place: (x, y) in the grid's coordinates.
        height: the level above the water at rest [m], or the depth above the ground if `of_depth`.
        deviation: standard deviation of its error [m].
        of_depth: whether the height is a depth.
        ground: the level at which the cell falls dry [m]; -inf where the shore is fixed, and before a cell is chosen.
        spherical: whether the place is a longitude and a latitude; None where the grid decides.
    """

    place: tuple[float, float]
    height: float
    deviation: float = 1.0
    of_depth: bool = False
    ground: float = -np.inf
    spherical: bool | None = None

    def counted(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(time, which a mark does not have, height, deviation), (1,) each."""
        return np.full(1, np.nan), np.array([float(self.height)]), np.array([float(self.deviation)])

    def modelled(self, times: np.ndarray, highest: np.ndarray) -> np.ndarray:
        """The model's largest level (1,), the first of `highest`."""
        return highest[:1]


class MarkMisfit(OfRun):
    """J = 1/2 sum over marks of [(max over the steps of eta - y_i) / s_i]^2 [1].

    Args:
        marks: {name: Mark}.
        window: (first, last) [s] of the maximum; all steps unless given.
        reach: cells from a mark within which a cell that can be wet counts.
    """

    marks: dict[str, Mark] = declared(
        DictOf(Mark, "marks", "'school': Mark((141.5, 38.4), 7.2)"), doc="{name: Mark} of the observations"
    )
    window: tuple[float, float] | None = declared(WINDOW, default=None, doc=OF_MAXIMUM)
    reach: int = parameter(
        minimum=0, whole=True, default=REACH, static=True, doc="cells from a mark within which water counts"
    )

    observed = "marks"

    def on_tile(self, model: ShallowWater, dt: float, first_step: int, steps: int) -> TileCost:
        marks, away = marks_in_water(self.marks, model, self.reach)
        wrong = [
            f"MarkMisfit: the mark {name!r} at ({self.marks[name].place[0]:g}, {self.marks[name].place[1]:g}) is off "
            f"the grid, or has no cell that can be wet within {self.reach} cells; leave it out, or increase reach."
            for name in away
        ]
        wrong += [
            f"MarkMisfit: the mark {name!r} has a standard deviation of {mark.deviation:g} m; give a positive one."
            for name, mark in marks.items()
            if not mark.deviation > 0
        ]
        if wrong:
            raise ConfigError(wrong)
        window = self.window or (dt * (first_step + 1), dt * (first_step + steps))
        inside = time_weights("MarkMisfit", None, window, dt, first_step, steps)[:, None] > 0
        rows_of = [(mark.height, 1 / mark.deviation, mark.ground) for mark in marks.values()]
        tables = inside, *(np.array([row]) for row in zip(*rows_of))
        reader = GaugeReader.at({name: mark.place for name, mark in marks.items()}, model)
        weights, observed, per_deviation, ground = (everywhere(model, table) for table in tables)
        return SquaresOfMaxima(reader, weights, observed, per_deviation, ground, first_step + 1)

    def title(self) -> str:
        return f"misfit to {len(self.marks)} high-water marks{during(self.window)}"


@pytree
class SquaresOfMaxima(OneOfEach):
    """J = 1/2 sum_k [(max_n r_nk - y_k) / s_k]^2 over the states n with a weight.

    Attributes:
        weights: (N, 1), 1 of the states that count, from number `first` on, and 0 of others.
        observed, per_deviation: y_k and 1 / s_k, (1, count).
        ground: levels up to which a maximum is that of dry land and has no derivative, (1, count).
    """

    reader: Any
    weights: jax.Array
    observed: jax.Array
    per_deviation: jax.Array
    ground: jax.Array
    first: int = static()

    def start(self) -> Any:
        """The largest readings so far, (1, count)."""
        return jnp.full_like(self.observed, -jnp.inf)

    def update(self, acc: Any, readings: jax.Array, first_step: Any) -> Any:
        counts = rows(self.weights, first_step - self.first, len(readings)) > 0
        return jnp.maximum(acc, jnp.max(jnp.where(counts, readings, -jnp.inf), axis=0, keepdims=True))

    def value(self, acc: Any, final: Any) -> jax.Array:
        return super().value(jnp.where(acc <= self.ground, jax.lax.stop_gradient(acc), acc), final)


def marks_in(path: str | Path, deviation: float | None = None, spherical: bool | None = None) -> dict[str, Mark]:
    """{name: Mark} of a table (observed/points.py); `deviation` [m] is that of marks without one in the table.

    `spherical` is the kind of the grid, which a table with both pairs of coordinates needs.

    Raises:
        DataError: if the table cannot be read, has no mark, or lacks deviations that are not given.
    """
    table = read_marks(path, spherical)
    errors = np.where(np.isfinite(table.deviation), table.deviation, np.nan if deviation is None else deviation)
    if not errors.size:
        raise DataError(f"{path} has no mark with a height; give one or several.")
    if np.isnan(errors).any():
        raise DataError(f"{path} has marks without deviation_m; add it, or give the deviation of all marks.")
    columns = zip(table.x, table.y, table.height, errors)
    return {
        name: Mark((float(x), float(y)), float(height), float(error), table.of_depth, spherical=table.spherical)
        for name, (x, y, height, error) in zip(table.names, columns)
    }


def marks_in_water(
    marks: Mapping[str, Mark], model: ShallowWater | Family, reach: int = REACH
) -> tuple[dict[str, Mark], list[str]]:
    """({name: Mark} at the centres of the nearest cells that can be wet, as levels, names of marks without such cells).

    In a family a mark lies in the finest grid that holds it, and so does its cell.

    Raises:
        ConfigError: if no mark has such a cell.
        DataError: for marks on the sphere and a plane, or the other way round.
    """
    found, away, boxes = {}, [], {}
    for name, mark in marks.items():
        which = model.finest(mark.place) if isinstance(model, Family) else ""
        one = model.models[which] if isinstance(model, Family) else model
        if isinstance(model, Family) and which not in boxes:
            boxes[which] = model.counted(which)
        grid, floor, box = one.grid, one.sea_floor, boxes.get(which)
        if mark.spherical is not None:
            check_kind(f"the mark {name!r}", mark.spherical, grid.spherical)
        edges, (x, y) = (grid.x_edges, grid.y_edges), mark.place
        column, row = ((at - e[0]) / (e[1] - e[0]) - 0.5 for at, e in zip((grid.turned(x), y), edges))
        cell = nearest_cell(row, column, grid.shape, reach, partial(_may_be_wet, floor, box))
        if cell is None:
            away.append(name)
            continue
        (j, i), place = cell, (float(grid.x_centres[cell[1]]), float(grid.y_centres[cell[0]]))
        bed = -float(floor.depth.at(np.array([j]), np.array([i]))[0])
        ground = -np.inf if one.film is None else _level_of_film(one, cell, bed)
        height = mark.height - depth_at_place(floor, (x, y), cell) if mark.of_depth else mark.height
        found[name] = dataclasses.replace(mark, place=place, height=height, of_depth=False, ground=ground)
    if not found:
        raise ConfigError(f"no mark has a cell that can be wet within {reach} cells; give others, or increase reach.")
    return found, away


def _level_of_film(model, cell, bed):
    """The level [m] at which a cell with this mean bed falls dry, and what rounding may add to it."""
    level = level_of_cell(model.film * (1 + 1e-6), cell, model.sea_floor, model.open_sides)
    return level + float(np.spacing(np.asarray(max(abs(level), abs(bed)), model.dtype)))


def _may_be_wet(floor, box, rows, columns):
    """Whether cells can be wet and, in a family, lie in the grid's own `box`."""
    return floor.wet.at(rows, columns) & (True if box is None else box[rows, columns])


def dry(marks: Mapping[str, Mark], highest: Sequence[float] | np.ndarray) -> list[str]:
    """The names of the marks whose cells no water reached, by the largest levels [m] there, of `marks_in_water`."""
    return [name for (name, mark), level in zip(marks.items(), highest) if level <= mark.ground]
