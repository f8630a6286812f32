"""Drifters: passive particles at the surface, which the compiled loop moves along at every step.

In a cell with the velocities u_w, u_e, v_s, v_n on its faces a drifter at the shares x and y of its sides moves by

    dx/dt = [(1 - x) u_w dy_w + x u_e dy_e] / area,   dy/dt = [(1 - y) v_s dx_s + y v_n dx_n] / area

(on the sphere y is linear in the sine of latitude, so that it is a share of the area). Where the flow has no divergence
that is the velocity of a stream function that is bilinear in each cell. Drifters in a steady flow keep to its
streamlines, and none crosses a face without flow, such as a coast. Within a cell x and y are exponentials of time, and
the time at which a face is reached is a logarithm. The way through each cell is therefore exact. See Pollock (1988),
doi:10.1111/j.1745-6584.1988.tb00425.x, and Döös et al. (2013), doi:10.5194/gmd-6-1733-2013.

The velocity of step n moves drifters from half a step before it to half a step after it, an error of second order in
dt. Numbers of cells and shares of their sides are as exact far from the origin as near it, in float32, too.

Every rank has the places of all drifters. The rank whose tile holds a drifter moves it until it leaves the tile, or
its time is over. Then a sum over ranks, in which all but one are zero, gives its place to the others. This is repeated
until no drifter has time left. The result depends neither on the number of ranks nor on how many cells a drifter
passes in a step.
"""

import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeAlias, Unpack

import jax
import jax.numpy as jnp
import numpy as np

from ...dynamics.layer import LayerFlow
from ...errors import ConfigError, DataError
from ...fields.parameters import FileName, NumberForEach, Points, declared, parameter
from ...fields.state import State, pytree, replaced
from ...fields.variables import Variable
from ...grids.grid import Grid
from ...runtime.formats import read_csv
from .. import Claim, definitions, metadata
from ..metadata import Attribute
from ..records import Opening, RecordFile
from ..schedule import AbstractSimulation, SnapshotOutput
from .base import Arrays, Product, ProductOutput, Sample, Samples, derived

__all__ = ["DrifterFile", "DrifterOutput", "Drifters"]

MOST_FACES = 100  # that a drifter crosses in half a step; where it crosses more, it circles closely around a corner
CHUNK = (4096, 16)  # drifters and records in a chunk of the file
WAITING = -1  # the status of a drifter before its release
GONE = -1.0  # the column of a drifter that has left the grid
Rates: TypeAlias = Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array, jax.Array, jax.Array]]


class DrifterFile(RecordFile):
    """Trajectories of drifters along a common time (CF discrete sampling geometry trajectory), as OpenDrift has them.

    Args:
        path: the path of the file, or a Claim of it.
        released: the times of the releases since the start [s], (n,).
        grid: the Grid.
        opening: the other arguments, those of Opening.

    Raises:
        DataError, SwmodelError: as RecordFile.
    """

    def __init__(self, path: str | Path | Claim, released: np.ndarray, grid: Grid, **opening: Unpack[Opening]) -> None:
        self._names, known = (("lon", "lat") if grid.spherical else ("x", "y")), metadata.gauge_coordinates(grid)
        chunks, along = (min(CHUNK[0], released.size), CHUNK[1]), ("trajectory", "time")

        def define(dataset):
            dataset.createDimension("trajectory", released.size)
            about = {"long_name": "number of the drifter", "cf_role": "trajectory_id", "units": "1"}
            definitions.define(dataset, "trajectory", ("trajectory",), about, np.arange(released.size, dtype=np.int32))
            about = metadata.time_attributes(opening.get("start")) | {"long_name": "time of the release"}
            about = {name: value for name, value in about.items() if name not in ("axis", "standard_name")}
            definitions.define(dataset, "release_time", ("trajectory",), about, released)
            for name, about in zip(self._names, known.values()):
                about = {**about, "long_name": f"{about['long_name']} of the drifter"}
                definitions.define(dataset, name, along, about, dtype="f8", chunks=chunks, fill=np.nan)
            about = {"long_name": "state of the drifter", "flag_values": np.arange(2, dtype="i1")}
            about |= {"flag_meanings": "active outside"}  # with `coordinates` OpenDrift would find no lon and lat
            definitions.define(dataset, "status", along, about, dtype="i1", chunks=chunks, fill=WAITING)

        about = {"title": "Shallow-water model drifters", "featureType": "trajectory", "stored_as": "float64"}
        super().__init__(path, grid, define, about, points=True, **opening)

    def append(self, seconds: float, places: np.ndarray, status: np.ndarray) -> None:
        """Write places (2, n), NaN of drifters that are not there, and 0, 1 of those that are gone, or WAITING (n,)."""
        values = dict(zip((*self._names, "status"), (*places[..., None], status[:, None])))
        self.write(np.array([seconds], float), values)


class DrifterOutput(SnapshotOutput, ProductOutput):
    """The places of Drifters at regular times, and at the end, which the root has, too."""

    def __init__(self, path: str | Path, product: "Drifters", simulation: AbstractSimulation) -> None:
        super().__init__(path, product, simulation)
        self.every, (*_, self.released) = product.every, product.released(simulation.model.grid.spherical)

    def open(self, simulation: AbstractSimulation, attributes: Mapping[str, Attribute], claim: Claim) -> None:
        self.file = DrifterFile(claim, self.released, simulation.model.grid, **self.how_to_open(simulation, attributes))

    def _present(self, simulation):
        """(places (2, n), status (n,)) at the present step, as DrifterFile.append takes them."""
        tile: Any = simulation.communicator.one_tile(self.arrays)
        places = _places(simulation.model.grid, tile["now"])
        waits = np.rint(self.released / simulation.dt) > simulation.step
        return np.where(waits, np.nan, places), np.where(waits, WAITING, np.isnan(places[0]).astype(np.int8))

    def write(self, simulation: AbstractSimulation) -> None:
        seconds, (places, status) = simulation.time, self._present(simulation)
        self.submit(lambda: self.file.append(seconds, places, status), places.nbytes)

    def finish(self, simulation: AbstractSimulation) -> None:
        super().finish(simulation)
        gone = np.count_nonzero(self._present(simulation)[1] == 1)
        if gone and simulation.communicator.is_root:
            text = "%s: %d of %d drifters have left the grid through an open side."
            logging.getLogger("swmodel").warning(text, self.path, gone, self.released.size)


@pytree
class Drifters(Product):
    """Passive particles at the surface, from where and when they are released.

    One that leaves the grid through an open side is gone from then on, and one in a dry cell stands still. The table is
    a CSV file with a row for each drifter: longitude and latitude, or x and y on a plane, and if it has the column
    release_s, how many seconds after `release`.

    Attributes:
        starts: (column, row, x, y) of all drifters at their release, (4 n,).
        steps: the step after which each begins to move, (n,).
        sides: dy_e, dx_s and dx_n over the area of the cells of each row [m-1], (3, ny).
        tile: the first row, that after the last, and likewise of columns, of this rank's own cells.
        shape, periodic: those of the grid.
        digest: of all places and times.
    """

    every: float = parameter(None, "s", above=0.0, static=True, doc="time between records")
    positions: Any = declared(Points(optional=True), default=None, static=True, doc="where they are released, [x, y]")
    table: Any = declared(FileName(optional=True), default=None, static=True, doc="CSV file, in place of positions")
    release: Any = declared(
        NumberForEach("s", minimum=0.0, alone=True),
        default=(0.0,),
        static=True,
        doc="when; at each of several times, one drifter at each place",
    )
    starts: Any = derived(None, static=False)
    steps: Any = derived(None, static=False)
    sides: Any = derived(None, static=False)
    tile: Any = derived(None, static=False)
    shape: tuple[int, int] = derived((1, 1))
    periodic: str = derived("")
    digest: str = derived("")

    exclusive = (("positions", "table"),)
    records = DrifterOutput

    def __post_init__(self):
        object.__setattr__(self, "positions", Points.tuple_of(self.positions))
        object.__setattr__(self, "release", NumberForEach.tuple_of(self.release))
        super().__post_init__()

    @classmethod
    def conflict(cls, values: Any) -> str | None:
        neither = values.positions is None and values.table is None
        return "give positions, or a table of them" if neither else super().conflict(values)

    def released(self, spherical: bool | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(x, y, time of the release [s]) of all drifters, (n,) each, in the order of releases and of places.

        Args:
            spherical: whether the table has longitudes and latitudes; None where places do not matter.

        Raises:
            DataError: for a table that cannot be read, or has no drifters or a gap.
        """
        if self.table is None:
            (x, y), later = np.array(self.positions, float).T, np.zeros(len(self.positions))
        else:
            table = read_csv(self.table)
            names = ("longitude", "latitude") if spherical or "longitude" in table.names else ("x", "y")
            if missing := [name for name in names if name not in table.names]:
                raise DataError(f"{self.table} has no column {missing[0]}; name the columns {' and '.join(names)}.")
            if spherical is False and names[0] != "x":
                raise DataError(f"{self.table} has longitudes, and the grid is a plane; give the columns x and y.")
            if not table.rows:
                raise DataError(f"{self.table} has no drifters; give a row for each.")
            x, y = (table.numbers(name) for name in names)
            later = table.numbers("release_s") if "release_s" in table.names else np.zeros(x.size)
            if (gaps := ~np.isfinite(x + y + later)).any():
                line = table.lines[int(np.argmax(gaps))]
                raise DataError(f"{self.table}, line {line} lacks a number; give place and time of every drifter.")
            if (later < 0).any():
                line = table.lines[int(np.argmax(later < 0))]
                raise DataError(f"{self.table}, line {line} has a negative release_s; give seconds after `release`.")
        return np.tile(x, len(self.release)), np.tile(y, len(self.release)), np.add.outer(self.release, later).ravel()

    def prepared(self, simulation: AbstractSimulation) -> Self:
        model, grid, dt = simulation.model, simulation.model.grid, simulation.dt
        x, y, seconds = self.released(grid.spherical)
        starts = _cells(grid, x, y)
        column, row = starts[:2].astype(int)
        inside = (column >= 0) & (row >= 0)
        on_land = inside & ~(model.sea_floor.wet.at(np.where(inside, row, 0), np.where(inside, column, 0)) > 0)
        for wrong, why in ((~inside, "outside the grid; give a place on it"), (on_land, "on land; move it to sea")):
            if wrong.any():
                k, more = int(np.argmax(wrong)), int(wrong.sum()) - 1
                others = f" (and {more} more)" if more else ""
                raise ConfigError(f"Drifters: drifter {k} at ({x[k]:g}, {y[k]:g}){others} is {why}, or leave it out.")
        area, rows = grid.area_h[:, 0], grid.metrics(np.arange(-1, grid.ny))
        along, across = (np.broadcast_to(rows[name], (grid.ny + 1, 1))[:, 0] for name in ("dx_v", "dy_u"))
        sides = np.stack([across[1:], along[:-1], along[1:]]) / area
        steps = np.rint(seconds / dt).astype(np.int32)

        def make(rank):
            tile, dtype = model.decomposition.tile(rank), model.dtype
            own = np.array([tile.j0, tile.j1, tile.i0, tile.i1], np.int32)
            return starts.ravel().astype(dtype), steps, sides.astype(dtype), own

        placed = dict(zip(("starts", "steps", "sides", "tile"), model.communicator.place(make)))
        digest = hashlib.sha256(starts.tobytes() + seconds.tobytes()).hexdigest()
        return replaced(self, placed | {"shape": grid.shape, "periodic": grid.periodic, "digest": digest})

    def sampled(self, dt: float) -> tuple[int, int]:
        return 0, 1

    def settings(self) -> dict[str, object]:
        return {"starts": self.digest}

    def start(self, state: State) -> dict[str, jax.Array]:
        """{"now": (column, row, x, y) (4 n,), "next": those that the next step begins with, "lead": how far ahead [s]}.

        Vectors are the same on all ranks. The first step begins at the time of the state.
        """
        at = jnp.zeros(4 * self._count(), state.eta.dtype) if self.starts is None else self.starts
        return {"now": jnp.copy(at), "next": jnp.copy(at), "lead": jnp.zeros((), state.eta.dtype)}

    def add(self, sums: Arrays, sample: Sample) -> Arrays:
        step, dt, flow = sample.time.step, jnp.asarray(sample.time.dt, sums["lead"].dtype), sample.flow
        rates, none, half = self._rates(flow), jnp.zeros(self.steps.shape, dt.dtype), 0.5 * dt
        now = self._moved(sums["next"], jnp.where(step > self.steps, dt - sums["lead"], none), rates, flow)
        after = self._moved(now, jnp.where(step >= self.steps, half, none), rates, flow)
        return {"now": now, "next": after, "lead": half}

    def at_step_of(self, ratio: float, sums: Arrays, communicator: object) -> Arrays | None:
        return sums  # `lead` is a time

    def _rates(self, flow: LayerFlow) -> Rates:
        """The function of rows and columns that gives the rates of x at u_w and u_e, and of y at v_s and v_n [s-1]."""

        def read(field, row, column):
            (_, j1, _, i1), (_, east, _, north), (rows, columns) = self.tile, field.halo, field.data.shape
            return field.data[row - j1 + rows - north, column - i1 + columns - east]

        covered = flow.covered  # computed here, outside of the loops

        def rates(row, column):
            wet = read(covered, row, column).astype(self.sides.dtype)
            west, east = (wet * self.sides[0, row] * read(flow.u, row, column - k) for k in (1, 0))
            south, north = (wet * self.sides[2 - k, row] * read(flow.v, row - k, column) for k in (1, 0))
            return west, east, south, north

        return rates

    def _moved(self, at: jax.Array, seconds: jax.Array, rates: Rates, flow: LayerFlow) -> jax.Array:
        """(column, row, x, y) (4 n,) after `seconds` (n,) with these rates; collective."""
        walk = jnp.concatenate([at, seconds, jnp.full_like(seconds, MOST_FACES)]).reshape(6, -1)

        def is_moving(walk):
            return (walk[0] != GONE) & (walk[4] > 0) & (walk[5] > 0)

        def is_here(walk):
            (column, row), (j0, j1, i0, i1) = walk[:2].astype(jnp.int32), self.tile
            return is_moving(walk) & (row >= j0) & (row < j1) & (column >= i0) & (column < i1)

        def through_tile(walk):
            moved = jax.lax.while_loop(lambda walk: jnp.any(is_here(walk)), through_cells, walk)
            own = jnp.where(is_here(walk)[None], moved, jnp.zeros_like(moved))
            return jnp.where(is_moving(walk)[None], flow.equations.communicator.sum(own), walk)

        def through_cells(walk):
            here = is_here(walk)
            return jnp.where(here[None], self._through_a_cell(walk, here, rates), walk)

        return jax.lax.while_loop(lambda walk: jnp.any(is_moving(walk)), through_tile, walk)[:4].ravel()

    def _through_a_cell(self, walk, here, rates):
        """Drifters after their way through a cell, or to the end of their time in it: (6, n)."""
        column, row, x, y, left, faces = walk
        j, i = (jnp.where(here, at.astype(jnp.int32), first) for at, first in zip((row, column), self.tile[::2]))
        west, east, south, north = rates(j, i)
        (to_x, end_x), (to_y, end_y) = _way_out(x, west, east), _way_out(y, south, north)
        seconds = jnp.minimum(left, jnp.minimum(to_x, to_y))
        over_x = to_x <= seconds
        over_y = ~over_x & (to_y <= seconds)
        x = jnp.where(over_x, 1.0 - end_x, _carried(x, west, east, seconds))
        y = jnp.where(over_y, 1.0 - end_y, _carried(y, south, north, seconds))
        column = column + jnp.where(over_x, 2.0 * end_x - 1.0, 0.0)
        row = row + jnp.where(over_y, 2.0 * end_y - 1.0, 0.0)
        (ny, nx), outside = self.shape, jnp.zeros_like(over_x)
        for at, n, axis in ((column, nx, "x"), (row, ny, "y")):
            outside = outside | ((at < 0) | (at >= n) if axis not in self.periodic else False)
        column = jnp.mod(column, nx) if "x" in self.periodic else column
        row = jnp.mod(row, ny) if "y" in self.periodic else row
        column = jnp.where(outside, jnp.full_like(column, GONE), column)
        return jnp.stack([column, row, x, y, left - seconds, faces - (over_x | over_y).astype(x.dtype)])

    def finish(self, sums: dict[str, np.ndarray], samples: Samples) -> dict[Variable, np.ndarray]:
        return {}  # the file has records

    def _count(self):
        try:
            return self.released()[0].size
        except DataError:  # `mistakes` has the reason
            return 0

    def bytes_of_file(self, cells: int, arrays: int, until: float) -> float:
        return 16.0 * self._count() * (until / self.every + 1)

    def content(self) -> str:
        return f"places of {self._count()} drifters, every {self.every:g} s"

    def mistakes(self, until: float, stepped: Sequence[str], derived: Sequence[str]) -> Iterator[tuple[str, str]]:
        try:
            latest = self.released()[2].max()
        except DataError as error:
            yield "table", str(error).rstrip(".")
        else:
            if latest >= until:
                yield "release", f"one is at {latest:g} s, and the run ends at {until:g} s; release earlier"


def _way_out(x, low, high):
    """(the time until x, which moves by low + (high - low) x, is 0 or 1, and which of them); infinite for never."""
    speed = low + (high - low) * x
    ahead = speed > 0
    end = ahead.astype(x.dtype)
    reaches = speed * jnp.where(ahead, high, low) > 0
    speed = jnp.where(reaches, speed, jnp.ones_like(speed))
    way = (end - x) / speed
    change = jnp.maximum((high - low) * way, -1.0)
    small = change == 0
    factor = jnp.log1p(change) / jnp.where(small, 1.0, change)
    return jnp.where(reaches, way * jnp.where(small, 1.0, factor), jnp.inf), end


def _carried(x, low, high, seconds):
    """x after some seconds with the rate low + (high - low) x, in the cell."""
    growth = (high - low) * seconds
    small = growth == 0
    factor = jnp.where(small, 1.0, jnp.expm1(growth) / jnp.where(small, 1.0, growth))
    return jnp.clip(x + (low + (high - low) * x) * seconds * factor, 0.0, 1.0)


def _line(edges, spherical):
    """Edges of cells in the coordinate in which a share of a side is linear."""
    return np.sin(np.deg2rad(edges)) if spherical else edges


def _cells(grid: Grid, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(column, row, shares of the sides) of points in the grid's coordinates, (4, n); -1 outside of the grid."""
    found = []
    for at, edges, curved in ((grid.turned(x), grid.x_edges, False), (y, grid.y_edges, grid.spherical)):
        cell = np.clip(np.searchsorted(edges, at, side="right") - 1, 0, edges.size - 2)
        line = _line(edges, curved)
        share = (_line(at, curved) - line[cell]) / (line[cell + 1] - line[cell])
        found.append((np.where((at >= edges[0]) & (at <= edges[-1]), cell, -1), np.clip(share, 0.0, 1.0)))
    (column, x), (row, y) = found
    return np.stack([column, row, x, y]).astype(float)


def _places(grid: Grid, at: np.ndarray) -> np.ndarray:
    """(x, y) in the grid's coordinates of `_cells`, (2, n); NaN where a drifter is gone."""
    column, row, x, y = np.asarray(at, float).reshape(4, -1)
    gone, found = column == GONE, []
    for cell, share, edges, curved in ((column, x, grid.x_edges, False), (row, y, grid.y_edges, grid.spherical)):
        cell, line = np.where(gone, 0, cell).astype(int), _line(edges, curved)
        place = line[cell] + share * (line[cell + 1] - line[cell])
        found.append(np.where(gone, np.nan, np.rad2deg(np.arcsin(np.clip(place, -1, 1))) if curved else place))
    return np.stack(found)
