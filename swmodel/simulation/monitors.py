"""Monitors, which the compiled loop updates at every step. They are not part of the differentiated state.

    Maxima   the highest elevation so far, and the step at which |eta| first passed a threshold; over a shore whose bed
             moves also the largest thickness
    Gauges   elevation or other cell-centred variables at points, interpolated bilinearly between wet cells
    Health   the first step at which the run was invalid: not finite, a column too thin, or over the CFL limit

Each has `start()`, which makes its arrays, and `update(carry, state, ...)` for one step. The program is the same on
every rank: a gauge is a set of weights, which are zero on ranks that do not hold it.
"""

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..defaults import LEAST_THICKNESS
from ..errors import ConfigError, DataError
from ..fields.pytrees import pytree, static
from ..fields.state import State
from ..fields.variables import DERIVED, derived_units, in_layer, layer_of

__all__ = ["HEALTH_INTERVAL", "Gauges", "Health", "Maxima", "depth_at"]

Centred = Callable[[Sequence[str]], dict[str, jax.Array]]  # gives the derived fields of these names at cell centres
HEALTH_INTERVAL = 20  # steps between two checks, each of which takes a fifth of a step or less


@pytree
class Maxima:
    """Maximum elevation [m] and arrival step of every cell; `threshold` [m] of |eta - rest| counts as arrival.

    The surface at rest is that of the sea, and on land the bed, which a moving sea floor takes with it, below the level
    of the sea, too. Land that was never under more than a film has the height of its bed as maximum.

    Attributes:
        threshold: the |eta - rest| that counts as arrival [m].
        thin: land under a film of this thickness [m] counts as dry; None without wetting and drying.
        moving: whether the sea floor moves. With `thin` the largest thickness over it is then found, too, because
            neither the highest level nor the first bed has it.
    """

    threshold: Any
    thin: float | None = static(default=None)
    moving: bool = static(default=False)

    def start(self, state: State, step: int = 0, depth: Any = None) -> dict[str, jax.Array]:
        """{"maximum": eta [m], "arrival": step number or -1}: tile arrays (ny, nx) before the steps after `step`.

        On land arrivals are found from the first step on; -2 there means water under the threshold. Over a moving shore
        there is also "thickness" [m], everywhere from the first step on.

        Args:
            state: the State.
            step: its number.
            depth: H before the sea floor moves, below 0 on land [m] (ny, nx); not read without wetting and drying.
        """
        arrived = jnp.abs(state.eta) > self.threshold
        if self.thin is not None:
            arrived = arrived & (depth >= 0)
        found = {"maximum": jnp.copy(state.eta), "arrival": jnp.where(arrived, jnp.int32(step), jnp.int32(-1))}
        return found | ({"thickness": jnp.zeros_like(state.eta)} if self.has_thickness else {})

    @property
    def has_thickness(self) -> bool:
        """Whether the largest thickness is found."""
        return self.thin is not None and self.moving

    def update(
        self,
        carry: dict[str, jax.Array],
        state: State,
        step: Any,
        depth: Any = None,
        uplift: Callable[[], Any] = lambda: None,
    ) -> dict[str, jax.Array]:
        """The arrays of `start` after one more step.

        Args:
            carry: these arrays.
            state: the State after the step.
            step: its number.
            depth: as for `start`.
            uplift: a function that returns the uplift of the sea floor until then [m] (ny, nx), or None.
        """
        before, rest, found = carry["arrival"], 0.0, {}
        maximum = jnp.maximum(carry["maximum"], state.eta)
        if self.thin is not None:
            moved, land = uplift(), depth < 0
            bed = -depth if moved is None else moved - depth
            rest = jnp.where(land, bed, jnp.maximum(bed, 0.0))
            never = land & (before == -1)  # so far eta was the height of the bed alone
            maximum = jnp.where(never, state.eta, maximum)
            before = jnp.where(never & (state.eta - bed > self.thin), jnp.int32(-2), before)
            if self.has_thickness:
                found = {"thickness": jnp.maximum(carry["thickness"], state.eta - bed)}
        arrived = (before < 0) & (jnp.abs(state.eta - rest) > self.threshold)
        return {"maximum": maximum, "arrival": jnp.where(arrived, step, before)} | found


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

    @staticmethod
    def at(points: Mapping[str, tuple[float, float]], model: Any, variables: Sequence[str] = ("eta",)) -> Any:
        """Gauges at `points`, {name: (x, y)} in the grid's coordinates (longitudes in any convention).

        Raises:
            ConfigError: for points outside the grid, or with no wet cell around them, and for variables that the model
                does not have at cell centres or faces; all of them at once.
        """
        known = {row.name: row.position for row in model.variables if row.position in ("h", "u", "v")}
        known |= {} if model.members else dict.fromkeys(derived_units(model.layer_count), "h")
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

    def start(self, capacity: int, dtype: Any) -> dict[str, jax.Array]:
        """{variable: empty series (capacity, n)}."""
        return {name: jnp.zeros((capacity, len(self.names)), dtype) for name in self.variables}

    def read(self, field: jax.Array) -> jax.Array:
        """This tile's contribution to a field (..., ny, nx) at each gauge, (..., n); tiles add up."""
        return _weighted(field, self.cells, self.weights)

    @property
    def derived(self) -> tuple[str, ...]:
        """The names of the variables that are no fields of a State."""
        return tuple(name for name in self.variables if layer_of(name)[0] in DERIVED)

    def _values(self, state, centred):
        """{variable: this tile's contribution (..., n)}."""
        at_centres = (
            {} if centred is None else {name: self.read(field) for name, field in centred(self.derived).items()}
        )
        return {
            name: at_centres[name]
            if name in self.derived
            else _weighted(state[name], *self.faces.get(name, (self.cells, self.weights)))
            for name in self.variables
        }

    def rows(self, state: State, centred: Centred | None = None) -> dict[str, jax.Array]:
        """{variable: this tile's contribution to one record, (..., 1, n)}.

        Args:
            state: the State as files hold it, in which tracers are concentrations.
            centred: a function from names to {name: tile array at cell centres}, for derived variables.
        """
        return {name: values[..., None, :] for name, values in self._values(state, centred).items()}

    def update(
        self, series: dict[str, jax.Array], state: State, k: jax.Array, centred: Centred | None = None
    ) -> dict[str, jax.Array]:
        """The series with the values at the gauges in row k; the arguments are those of `rows`."""
        put = jax.lax.dynamic_update_index_in_dim
        return {name: put(series[name], values, k, 0) for name, values in self._values(state, centred).items()}


def depth_at(points: Mapping[str, tuple[float, float]], model: Any) -> np.ndarray:
    """The depth at points before the sea floor moves, from the cells of Gauges; negative on land [m], (n,)."""
    places = [_around(model.grid, model.sea_floor, x, y) for x, y in points.values()]
    return np.array([np.sum(shares * model.sea_floor.depth.at(rows, columns)) for rows, columns, shares in places])


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
    i, x_share = _between(grid.x_edges, x, grid.nx, grid.periodic_x, grid.spherical)
    j, y_share = _between(grid.y_edges, y, grid.ny, grid.periodic_y, False)
    rows, columns = np.repeat(j, 2), np.tile(i, 2)
    shares = np.outer(y_share, x_share).ravel() * floor.wet.at(rows, columns)
    if shares.sum() <= 0:
        raise ValueError("has no water around it on this grid; move it to sea, or use a finer grid.")
    at_sea = floor.depth.at(rows, columns) > 0
    shares = np.where(at_sea == at_sea[np.argmax(shares)], shares, 0.0)
    return rows, columns, shares / shares.sum()


def _between(edges, x, n, periodic, angle):
    """The two cells along one direction whose centres a coordinate lies between, and their weights."""
    if angle:
        x = edges[0] + (x - edges[0]) % 360.0
    if not edges[0] <= x <= edges[-1]:
        raise ValueError(f"is outside the grid, which spans {edges[0]:g} to {edges[-1]:g}; move it, or leave it out.")
    place = (x - edges[0]) / (edges[-1] - edges[0]) * n - 0.5
    low = int(np.floor(place))
    share = place - low
    cells = np.array([low, low + 1])
    return (cells % n if periodic else np.clip(cells, 0, n - 1)), np.array([1.0 - share, share])


@pytree
class Health:
    """A check of the state every HEALTH_INTERVAL steps, at snapshots, and at the end of a chunk of steps.

    So every state is checked before it is written.

    Attributes:
        dt_per_dx, dt_per_dy: dt over the sides of the cells at u and v [s m-1].
        linear: whether the model is linear.
        least: the smallest thickness with which a run continues [m].
        also: the state is also checked at multiples of these numbers of steps.
    """

    dt_per_dx: Any
    dt_per_dy: Any
    linear: bool = static()
    least: float = static(default=LEAST_THICKNESS)
    also: tuple[int, ...] = static(default=())

    @staticmethod
    def of(model: Any, dt: float, also: tuple[int, ...] = ()) -> Any:
        """The Health of a model's tiles for steps of `dt` [s]."""

        def make(rank):
            box = model.decomposition.box(rank)
            metrics = model.grid.metrics(np.arange(box.j0, box.j1))
            share = model.core.zonal_share(model.grid.y_centres[box.j0 : box.j1, None])
            per_x, per_y = (dt / np.maximum(metrics[name], 1e-30) for name in ("dx_u", "dy_v"))
            per_x, per_y = (np.asarray(x, model.dtype) for x in (per_x * share, per_y))
            return Health(per_x, per_y, model.linear, model.least_thickness, also)

        return model.communicator.place(make)

    def _is_due(self, step):
        return functools.reduce(operator.or_, [step % n == 0 for n in (HEALTH_INTERVAL, *self.also)])

    @staticmethod
    def start() -> tuple[jax.Array, ...]:
        """(first invalid step or -1, flat index of layer and cell, h [m] and CFL number there), each of shape (1,)."""
        return jnp.full(1, -1, jnp.int32), jnp.zeros(1, jnp.int32), jnp.zeros(1), jnp.zeros(1)

    def update(
        self, carry: Any, get_state: Callable[[], State], dynamics: Any, uplift: Callable[[], Any], step: jax.Array
    ) -> Any:
        """The arrays of `start` after a check, if one is due, of the State `get_state()` over the uplift `uplift()`."""
        return jax.lax.cond(
            self._is_due(step), lambda: self.assess(carry, get_state, dynamics, uplift, step), lambda: carry
        )

    def finish(
        self, carry: Any, get_state: Callable[[], State], dynamics: Any, uplift: Callable[[], Any], step: jax.Array
    ) -> Any:
        """The arrays of `start` after a check at the end of a chunk, unless `update` has checked this step."""
        return jax.lax.cond(
            self._is_due(step), lambda: carry, lambda: self.assess(carry, get_state, dynamics, uplift, step)
        )

    def assess(
        self, carry: Any, get_state: Callable[[], State], dynamics: Any, uplift: Callable[[], Any], step: Any
    ) -> Any:
        """The arrays of `start` after a check of the State; the first invalid step is kept.

        Args:
            carry: the arrays so far.
            get_state: returns the State. It is called a second time to locate an invalid cell, because an array that is
                passed to that branch would be copied in each check.
            dynamics: the System on tiles, of which H at rest is 0 on land that is never wet.
            uplift: returns the rise of the sea floor [m], or None.
            step: the number of the step.
        """

        def cell_values():
            state, rise = get_state(), uplift()
            layers, count = dynamics.layers, dynamics.layer_count
            bottom = dynamics.depth - (0.0 if rise is None else rise)
            u, v, eta = ([state[in_layer(name, k)] for k in range(count)] for name in ("u", "v", "eta"))
            heights, excess = ([bottom], eta) if layers is None else (layers.rest(bottom), layers.excess(eta))
            thickness = [jnp.where(dynamics.depth != 0, a + b, jnp.inf) for a, b in zip(heights, excess)]
            courant = [jnp.abs(a) * self.dt_per_dx + jnp.abs(b) * self.dt_per_dy for a, b in zip(u, v)]
            finite = [jnp.isfinite(sum((state[name] for name in state.others), x + state.eta)) for x in courant]
            joined = (x[0] if count == 1 else jnp.stack(x) for x in (finite, thickness, courant))
            valid, thickness, courant = joined
            if not self.linear:  # a linear model's amplitudes are arbitrary
                valid = valid & (thickness >= self.least) & (courant <= 1.0)
            return valid, thickness, courant

        def is_valid():  # XLA vectorises sums along columns and shares them among threads, but not logical operations
            valid, _, courant = cell_values()
            return jnp.all(jnp.sum(jnp.where(valid, 0.0, 1.0).astype(courant.dtype), axis=-2) == 0.0)

        def diagnosis():
            valid, thickness, courant = cell_values()
            place = jnp.argmin(valid.reshape(-1))[None].astype(jnp.int32)
            values = (x.reshape(-1)[place].astype(old.dtype) for x, old in zip((thickness, courant), carry[2:]))
            return jnp.full_like(carry[0], step), place, *values

        # The cell is located only in an invalid state, since that takes ten times as long as the check.
        return jax.lax.cond(~is_valid() & (carry[0][0] < 0), diagnosis, lambda: carry)
