"""Gauges: variables at points, which the compiled loop reads at every step.

The program is the same on every rank: a gauge is a set of weights, which are zero on ranks that do not hold it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from ...defaults import LONGEST_CHUNK
from ...dynamics.subgrid import depth_at_place
from ...errors import ConfigError, DataError
from ...fields.field import Count
from ...fields.state import State, pytree, static
from ...fields.variables import DERIVED, derived_units, layer_of
from ...models.ensemble import Ensemble
from ...models.shallow_water import ShallowWater
from ...stepping.steps import History
from .. import Claim
from ..metadata import Attribute, rows_of
from ..netcdf import GaugeFile
from ..schedule import AbstractSimulation, Output, nearest_steps
from .base import Sample


@pytree
class Gauges:
    """Variables at n points; the elevation unless others are given.

    Attributes:
        cells: flat indices into the tile of the four cells around each point, (n, 4).
        weights: the bilinear weights of these cells, (n, 4); zero where a cell belongs to another tile.
        faces: {name: (cells, weights)} of the variables on faces, (n, 8): half of a cell's weight for each of its two
            faces, so that velocities are averaged to the centres. At an open side the face inside has all of it.
        names: the names of the points.
        variables: names of the fields of a State that are read, and of derived ones (fields.variables.DERIVED).
    """

    cells: Any
    weights: Any
    faces: dict[str, Any]
    names: tuple[str, ...] = static()
    variables: tuple[str, ...] = static(default=("eta",))

    every: ClassVar[int] = 1
    is_checked: ClassVar[bool] = False

    @staticmethod
    def at(
        points: Mapping[str, tuple[float, float]], model: ShallowWater | Ensemble, variables: Sequence[str] = ("eta",)
    ) -> "Gauges":
        """Gauges at `points`, {name: (x, y)} in the grid's coordinates (longitudes in any convention).

        Raises:
            ConfigError: for points outside the grid, or with no wet cell around them, and for variables that the model
                does not have at cell centres or faces; all of them at once.
        """
        known = {row.name: row.position for row in model.variables if row.position in ("h", "u", "v")}
        known |= {} if model.batch else dict.fromkeys(derived_units(model.layer_count), "h")
        mistakes = [
            f"gauges cannot read {name!r}; give names out of {', '.join(known)}"
            for name in variables
            if name not in known
        ]
        found = {}
        for name, (x, y) in points.items():
            try:
                found[name] = _around(model.grid, model.sea_floor, x, y)
            except DataError:  # the file of depths is wrong, and not the position of the gauge
                raise
            except ValueError as error:
                mistakes.append(f"gauge {name!r} at ({x:g}, {y:g}) {error}")
        if mistakes:
            raise ConfigError(mistakes)
        around = tuple(np.array([place[k] for place in found.values()]).reshape(-1, 4) for k in range(3))
        sides = {name: _faces_of(model, known[name], *around) for name in variables if known[name] != "h"}

        def make(rank):
            of_faces = {name: _on_tile(model, rank, *places) for name, places in sides.items()}
            return Gauges(*_on_tile(model, rank, *around), of_faces, tuple(points), tuple(variables))

        return model.communicator.place(make)

    def read(self, field: jax.Array) -> jax.Array:
        """This tile's contribution to a field (..., ny, nx) at each gauge, (..., n); tiles add up."""
        return _weighted(field, self.cells, self.weights)

    @property
    def derived(self) -> tuple[str, ...]:
        """The names of the variables that are no fields of a State."""
        return tuple(name for name in self.variables if layer_of(name)[0] in DERIVED)

    def of(self, sample: Sample) -> dict[str, jax.Array]:
        """{variable: this tile's contribution (1, n)} to a record of a Sample."""
        centred = sample.at_centres(self.derived) if self.derived else {}
        places = {name: self.faces.get(name, (self.cells, self.weights)) for name in self.variables}
        fields = {name: centred[name] if name in self.derived else sample.shown[name] for name in self.variables}
        return {name: _weighted(field, *places[name])[None] for name, field in fields.items()}

    def update(
        self, series: dict[str, jax.Array], make_sample: Callable[..., Sample], step: Count, row: Count
    ) -> dict[str, jax.Array]:
        """The series with the values at the gauges in row number `row`; the arguments are those of Sampler.update."""
        put = jax.lax.dynamic_update_slice_in_dim
        return {name: put(series[name], values, row, 0) for name, values in self.of(make_sample()).items()}


def depth_at(points: Mapping[str, tuple[float, float]], model: ShallowWater | Ensemble) -> np.ndarray:
    """The depth at points before the sea floor moves, from the cells of Gauges; negative on land [m], (n,).

    In a cell with a finer bed it is that of the fine cell at the point.
    """
    return np.array([_depth_at(model.grid, model.sea_floor, x, y) for x, y in points.values()])


def _depth_at(grid, floor, x, y):
    rows, columns, shares = _around(grid, floor, x, y)
    if floor.bed is None:
        return np.sum(shares * floor.depth.at(rows, columns))
    nearest = np.argmax(shares)
    return depth_at_place(floor, (x, y), (int(rows[nearest]), int(columns[nearest])))


def _weighted(field, cells, weights):
    around = field.reshape(*field.shape[:-2], -1)[..., cells]
    return jnp.sum(around * jnp.broadcast_to(weights, around.shape), axis=-1)


def _on_tile(model, rank, rows, columns, shares):
    """(flat indices into a tile, weights) of places of the whole grid; weights of other tiles' places are zero."""
    tile, box = model.decomposition.tile(rank), model.decomposition.box(rank)
    mine = (rows >= tile.j0) & (rows < tile.j1) & (columns >= tile.i0) & (columns < tile.i1)
    cells = np.where(mine, (rows - box.j0) * box.shape[1] + columns - box.i0, 0)
    return cells.astype(np.int32), np.where(mine, shares, 0.0).astype(model.dtype)


def _faces_of(model, position, rows, columns, shares):
    """(rows, columns, weights) of the faces at `position` of cells (n, 4), (n, 8); a face has its cell's number."""
    grid, along_x = model.grid, position == "u"
    n, periodic = (grid.nx, grid.periodic_x) if along_x else (grid.ny, grid.periodic_y)
    low_side, high_side = ("west", "east") if along_x else ("south", "north")
    own, other = (columns, rows) if along_x else (rows, columns)
    first, last = (own == 0) & (not periodic), (own == n - 1) & (not periodic)
    high, low = np.full(own.shape, 0.5), np.where(first, 0.0, 0.5)
    if low_side in model.open_sides:
        high = np.where(first, 1.0, high)
    if high_side in model.open_sides:
        high, low = np.where(last, 0.0, high), np.where(last, 1.0, low)
    both = np.hstack([own, np.where(first, 0, (own - 1) % n)])
    weights, others = np.hstack([shares * high, shares * low]), np.hstack([other, other])
    return (others, both, weights) if along_x else (both, others, weights)


def _around(grid, floor, x, y):
    """(rows, columns, weights) of the four cells around a point; bilinear, normalised over those that count.

    Cells count if they are wet and, of a moving shore, on the same side of it as the nearest one: the level of dry land
    is the height of its bed.
    """
    i, x_share = _between(grid.x_edges, grid.turned(x), grid.nx, grid.periodic_x)
    j, y_share = _between(grid.y_edges, y, grid.ny, grid.periodic_y)
    rows, columns = np.repeat(j, 2), np.tile(i, 2)
    shares = np.outer(y_share, x_share).ravel() * floor.wet.at(rows, columns)
    if shares.sum() <= 0:
        raise ValueError("has no water around it on this grid; move it to sea, or use a finer grid.")
    at_sea = floor.depth.at(rows, columns) > 0
    shares = np.where(at_sea == at_sea[np.argmax(shares)], shares, 0.0)
    return rows, columns, shares / shares.sum()


def _between(edges, x, n, periodic):
    """The two cells along one direction whose centres a coordinate lies between, and their weights."""
    if not edges[0] <= x <= edges[-1]:
        raise ValueError(f"is outside the grid, which spans {edges[0]:g} to {edges[-1]:g}; move it, or leave it out.")
    place = (x - edges[0]) / (edges[-1] - edges[0]) * n - 0.5
    low = int(np.floor(place))
    share = place - low
    cells = np.array([low, low + 1])
    return (cells % n if periodic else np.clip(cells, 0, n - 1)), np.array([1.0 - share, share])


class GaugeOutput(Output):
    """Variables at points, of every step; attributes of the file define how the series are scored.

    Args:
        path: the path of the file.
        points: {name: (x, y)} of the gauges.
        gauges: the Gauges, which record them.
        interval: between records [s], each of which is of the nearest step; they do not end a chunk.
        windows, threshold, arrival_fraction: as for Simulation.gauges.
        depth: at the points, negative on land [m], (n,), of runs whose shore moves.

    Raises:
        ConfigError: for a window of a gauge that is not among the points.
    """

    watcher: Gauges

    def __init__(
        self,
        path: str | Path,
        points: Mapping[str, tuple[float, float]],
        gauges: Gauges,
        interval: float,
        windows: Mapping[str, tuple[float, float]],
        threshold: float,
        arrival_fraction: float,
        depth: np.ndarray | None = None,
    ) -> None:
        self.depth = depth
        self.path, self.points, self.watcher, self.interval = Path(path), points, gauges, interval
        unknown = [name for name in windows if name not in points]
        if unknown:
            raise ConfigError(f"{path}: there is no gauge {unknown[0]!r}, which has a window; name one of the points.")
        spans = {name: [float(t) for t in window] for name, window in windows.items()}
        self.rules = {
            "gauge_windows": json.dumps(spans),
            "gauge_threshold": np.float64(threshold),
            "gauge_arrival_fraction": np.float64(arrival_fraction),
            "gauge_comment": "gauge_windows: {name: [first, last] in s since the start}, the times by which a gauge is "
            "scored, else the whole run; arrival: the first time in the window at which eta exceeds "
            "gauge_arrival_fraction of its maximum there, if that is at least gauge_threshold (in m)",
        }

    def open(self, simulation: AbstractSimulation, attributes: dict[str, Attribute], claim: Claim) -> None:
        self.file = GaugeFile(
            claim,
            self.points,
            simulation.model.grid,
            **self.how_to_open(simulation, attributes | self.rules),
            variables=rows_of(simulation, self.watcher.variables),
            depth=self.depth,
        )

    def start_arrays(self, simulation: AbstractSimulation, packed: tuple[State, History]) -> dict[str, jax.Array]:
        """{variable: empty series (LONGEST_CHUNK, n)}, of each member of an ensemble."""
        model = simulation.model
        shape = (*model.batch, LONGEST_CHUNK, len(self.points))
        names = self.watcher.variables
        return model.communicator.place(lambda rank: {name: jnp.zeros(shape, model.dtype) for name in names})

    def begin(self, simulation: AbstractSimulation) -> None:
        self._append(simulation, simulation.read(self.watcher), np.array([simulation.step]), simulation.step)

    def chunk(self, simulation: AbstractSimulation, count: int, end: int) -> None:
        self._append(simulation, self.arrays, simulation.step - count + 1 + np.arange(count), end)

    def _append(self, simulation, series, steps, end):
        """Append those records of `steps` that are due, up to step `end`, after which the state is invalid."""
        shares = simulation.communicator.tiles(series).values()
        (used,) = np.nonzero(nearest_steps(steps, self.interval, simulation.dt) & (steps <= end))
        if not used.size:
            return
        names = self.watcher.variables
        mine = [sum(np.asarray(tile[name])[..., used, :].astype(np.float64) for tile in shares) for name in names]
        values = dict(zip(names, simulation.communicator.host_sum(np.stack(mine))))
        seconds = steps[used] * simulation.dt
        self.submit(lambda: self.file.append(seconds, values), sum(array.nbytes for array in values.values()))

    def flush(self) -> None:
        self.submit(lambda: self.file.flush())
