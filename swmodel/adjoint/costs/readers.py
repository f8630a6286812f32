"""Readers: what costs read of a state, and weights in time.

The places and times that users give become tile arrays and tables of steps. A reader is a pytree with the method
`read(state, equations, time)`, which returns this tile's share of a few numbers (n,).
"""

import functools
import operator
from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from ...diagnostics.derived import specific_energy
from ...dynamics.clock import Time
from ...dynamics.system import System
from ...errors import ConfigError
from ...fields.parts import check_layer
from ...fields.state import State, pytree, replace, static
from ...grids.grid import corners
from ...grids.windows import GridValues, Stored, outer
from ...models.shallow_water import ShallowWater
from ...nests.family import Family
from ...output.products.gauges import Gauges


def everywhere(model: ShallowWater | Family, table: ArrayLike) -> jax.Array:
    """A table or number with one copy for each tile, in the form that programs take."""
    return model.communicator.place(lambda rank: np.asarray(table, model.dtype))


def outermost(model: ShallowWater | Family) -> ShallowWater:
    """The model, or that of the outermost grid of a family."""
    return model.outer if isinstance(model, Family) else model


def grids_of(model: ShallowWater | Family) -> list[ShallowWater]:
    """The models of all grids, the outermost one first."""
    return list(model.models.values()) if isinstance(model, Family) else [model]


def on_outermost(model: ShallowWater | Family, state: Any) -> tuple[ShallowWater, State]:
    """(the model, its State), or those of the outermost grid of a family, whose state is {name: State}."""
    return (model.outer, state[""]) if isinstance(model, Family) else (model, state)


# -- places ------------------------------------------------------------------------------------------------------------


@pytree
class OnGrids:
    """Readings of the tuple of States and the FamilySystem of a family, after steps of the outermost grid.

    Attributes:
        readers: {number of a grid: the reader of its State}.
        order: the places of the readings in the list of those of all grids; None adds up those of each grid.
    """

    readers: dict[int, Any]
    order: tuple[int, ...] | None = static(default=None)

    @staticmethod
    def at(
        places: dict[str, tuple[float, float]],
        model: ShallowWater | Family,
        make: Callable[[dict[str, tuple[float, float]], ShallowWater], Any],
        parts: int = 1,
    ) -> Any:
        """`make(places, model)`; in a family one reader for each grid, of the places that lie in no finer one.

        Args:
            places: {name: (x, y)}.
            make: a function that returns the reader of some places on one grid.
            parts: the number of readings of a place; those of all places are read part by part.
        """
        if not isinstance(model, Family):
            return make(dict(places), model)
        grids = [model.names.index(model.finest(at)) for at in places.values()]
        models, readers, numbers = grids_of(model), {}, []
        for k in sorted(set(grids)):
            own = {name: at for (name, at), grid in zip(places.items(), grids, strict=True) if grid == k}
            readers[k] = make(own, models[k])
            here = np.flatnonzero(np.array(grids) == k)
            numbers += [here + part * len(grids) for part in range(parts)]
        return OnGrids(readers, tuple(map(int, np.argsort(np.concatenate(numbers)))))

    def read(self, states: Any, equations: Any, time: Time) -> jax.Array:
        totals, found = equations.total_steps, []
        for k, reader in self.readers.items():
            found.append(reader.read(states[k], equations.systems[k], replace(time, step=time.step * totals[k])))
        return functools.reduce(operator.add, found) if self.order is None else jnp.concatenate(found)[self.order,]


def in_box(x: tuple | None, y: tuple | None, model: ShallowWater | Family, make: Callable) -> Any:
    """The reader `make(inside, model)` of the wet cells whose centres lie in the ranges `x` and `y`, GridValues.

    In a family each place counts once, in its finest grid. None is the whole range.

    Raises:
        ConfigError: if the box holds no wet cell.
    """
    if not isinstance(model, Family):
        return make(cells_within(x, y, model), model)
    readers = {}
    for k, (name, one) in enumerate(model.models.items()):
        inside = _wet_within(x, y, one).map(np.logical_and, Stored(model.counted(name), one.grid.shape), dtype=bool)
        if one.domain.any(inside):
            readers[k] = make(inside, one)
    if not readers:
        cells_within(x, y, model.outer)
    return OnGrids(readers)


@pytree
class GaugeReader:
    """Elevation at points [m], or the concentration of the tracer `name` [its units]."""

    gauges: Gauges
    name: str = static(default="eta")

    @staticmethod
    def at(
        places: dict[str, tuple[float, float]], model: ShallowWater | Family, name: str = "eta"
    ) -> "GaugeReader | OnGrids":
        """The reader of `places` {name: (x, y)}, each in the finest grid that holds it.

        Raises:
            ConfigError: if there is none, or one of them does not lie in water.
        """
        if not places:
            raise ConfigError("the cost names no gauge; give one or several, {name: (x, y)}.")
        return OnGrids.at(places, model, lambda own, one: GaugeReader(Gauges.at(own, one), name))

    def read(self, state: State, equations: System, time: Time) -> jax.Array:
        return self.gauges.read(equations.shown(state, time)[self.name])


@pytree
class SectionReader:
    """Volume transport [m3 s-1] through the faces on which `along_u` or `along_v` (ny, nx) is 1.

    It is that of the layer of number `layer`, or of all layers for None.
    """

    along_u: jax.Array
    along_v: jax.Array
    layer: int | None = static(default=None)

    @staticmethod
    def between(
        start: tuple[float, float], end: tuple[float, float], model: ShallowWater | Family, layer: int | None = None
    ) -> "SectionReader | OnGrids":
        """The section from `start` to `end` (x, y), which are moved to the nearest corners of cells.

        Where longitudes are periodic it goes the shorter way round, unless its ends are 360 degrees apart.
        In a family it is that of the finest grid that holds both ends.

        Raises:
            ConfigError: if the model has no such layer, or the section leaves the grid, is not parallel to x or y, lies
                on a wall, or crosses no water.
        """
        if isinstance(model, Family):
            grid = model.finest(start, end)
            one: Any = SectionReader.between(start, end, model.models[grid], layer)
            return OnGrids({model.names.index(grid): one})
        grid, name = model.grid, f"the section from {_point(start)} to {_point(end)}"
        if (ends := corners(start, end, grid)) is None:
            spans = f"{_range(grid.x_edges)} along x and {_range(grid.y_edges)} along y"
            raise ConfigError(f"{name} leaves the grid, which spans {spans}; keep it inside.")
        (i0, j0), (i1, j1) = ends
        if (i0 == i1) == (j0 == j1):
            what = "is one point of it" if i0 == i1 else "follows none of its lines"
            raise ConfigError(f"{name} {what} on this grid; give two points with the same x, or with the same y.")
        position, line, last, length = ("u", i0, grid.nx, grid.ny) if i0 == i1 else ("v", j0, grid.ny, grid.nx)
        closed = not (grid.periodic_x if position == "u" else grid.periodic_y)
        if closed and line in (0, last):
            raise ConfigError(f"{name} lies on the edge of the domain; move it one cell or more inside.")
        along, across = np.zeros(length), np.zeros(last)
        along[np.arange(*sorted((j0, j1) if position == "u" else (i0, i1))) % length] = 1.0
        across[(line - 1) % last] = 1.0
        faces: dict[str, GridValues] = {at: Stored(0.0, grid.shape) for at in "uv"}
        faces[position] = outer(*((along, across) if position == "u" else (across, along))).map(
            np.multiply, model.sea_floor.mask(position)
        )
        if not model.domain.any(faces[position]):
            raise ConfigError(f"{name} crosses no water on this grid; move it to sea.")
        check_layer(name, layer, model.layer_count)
        return SectionReader(model.scatter(faces["u"]), model.scatter(faces["v"]), layer)

    def read(self, state: State, equations: System, time: Time) -> jax.Array:
        layers = equations.flow(state, time).layers
        flows = layers if self.layer is None else layers[self.layer : self.layer + 1 or None]
        U, V = (functools.reduce(operator.add, each) for each in zip(*((x.U, x.V) for x in flows)))
        through_u, through_v = U * flows[0].geometry.dy["u"], V * flows[0].geometry.dx["v"]
        return jnp.sum(self.along_u * through_u.interior + self.along_v * through_v.interior)[None]


def _point(place):
    return f"({place[0]:g}, {place[1]:g})"


@pytree
class BoxReader:
    """Energy of all layers in a box [J]; `inside` (ny, nx) is the density [kg m-3] in its cells, and 0 outside."""

    inside: jax.Array

    @staticmethod
    def over(x: tuple | None, y: tuple | None, density: float, model: ShallowWater | Family) -> "BoxReader | OnGrids":
        """The box of the cells whose centres lie in the ranges `x` and `y`; None is the whole range.

        In a family each place counts once, in its finest grid.

        Raises:
            ConfigError: if the box holds no wet cell.
        """

        def of(inside: GridValues, model: ShallowWater) -> BoxReader:
            return BoxReader(model.scatter(inside.map(lambda inside: inside * float(density))))

        return in_box(x, y, model, of)

    def read(self, state: State, equations: System, time: Time) -> jax.Array:
        flow = equations.flow(state, time)
        return jnp.sum(self.inside * cast(Any, specific_energy(flow) * flow.geometry.area_h).interior)[None]


@pytree
class ContentReader:
    """sum of area h c; `area` (ny, nx) is that of the cells [m2] in a box, and 0 outside."""

    area: jax.Array
    tracer: str = static()

    def read(self, state: State, equations: System, time: Time) -> jax.Array:
        return jnp.sum(self.area * state[self.tracer])[None]


def cells_within(x: tuple | None, y: tuple | None, model: ShallowWater) -> GridValues:
    """Which wet cells have their centres in the ranges `x` and `y`; None is the whole range.

    Raises:
        ConfigError: if there are none.
    """
    grid, inside = model.grid, _wet_within(x, y, model)
    if not model.domain.any(inside):
        raise ConfigError(
            f"the box with x from {_range(x)} and y from {_range(y)} holds no wet cell of the grid, which spans "
            f"{_range(grid.x_edges)} and {_range(grid.y_edges)}; move it to sea, or make it larger."
        )
    return inside


def _wet_within(x, y, model):
    grid = model.grid
    box = outer(_within(grid.y_centres, y, False), _within(grid.x_centres, x, grid.spherical))
    return box.map(np.logical_and, model.sea_floor.wet, dtype=bool)


def _within(centres, limits, angle):
    if limits is None:
        return np.ones(centres.size, bool)
    low, high = limits
    if angle:
        return (centres - low) % 360.0 <= (high - low if high - low >= 360.0 else (high - low) % 360.0)
    return (centres >= low) & (centres <= high)


def _range(limits):
    return "end to end" if limits is None else f"{limits[0]:g} to {limits[-1]:g}"


# -- times -------------------------------------------------------------------------------------------------------------


def time_weights(
    name: str, time: float | None, window: tuple[float, float] | None, dt: float, first_step: int, steps: int
) -> np.ndarray:
    """Weights (steps,) of the states after each step; their sum is 1.

    Args:
        name: the name of the cost, for messages.
        time: a time [s], to which the weights of two steps interpolate linearly; the end of the run unless given.
        window: (first, last) [s], in place of `time`; all steps in it have the same weight.

    Raises:
        ConfigError: if a time does not lie in the run.
    """
    first, last = dt * (first_step + 1), dt * (first_step + steps)
    weights, slack = np.zeros(steps), 1e-6 * dt
    if window is not None:
        _inside_run(name, window, first, last, slack)
        k = np.arange(1, steps + 1) + first_step
        inside = (k * dt >= window[0] - slack) & (k * dt <= window[1] + slack)
        if not inside.any():
            raise ConfigError(
                f"{name}: no step of {dt:g} s ends in the window from {window[0]:g} to {window[1]:g} s; widen it."
            )
        return inside / inside.sum()
    time = last if time is None else time
    _inside_run(name, (time, time), first, last, slack)
    place = min(max(time / dt - first_step - 1, 0.0), steps - 1.0)
    low = int(place)
    weights[low] = 1.0 - (place - low)
    weights[min(low + 1, steps - 1)] += place - low
    return weights


def _inside_run(name, span, first, last, slack):
    if not (first - slack <= span[0] <= span[1] <= last + slack):
        when = f"{span[0]:g} s" if span[0] == span[1] else f"the window from {span[0]:g} to {span[1]:g} s"
        raise ConfigError(
            f"{name}: {when} is not in the run, whose steps end from {first:g} to {last:g} s; change it, or make the "
            "run longer."
        )
