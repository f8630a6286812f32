"""Volume, cross-section and friction of cells whose bed is finer than the grid, in flows whose shores move.

The State holds water, not levels: h = H + eta is the volume in a cell over its area, with the mean depth H. So volume,
sources, tracers and limits of outflow are those of every cell, exact to rounding, and no step inverts a function. The
level follows from the table of the cell (grids/subgrid.py), with the shares f_m of the deepest fine cells and d_m, how
much deeper than H they are on average,

    level = min over m of (h / f_m - d_m) - H,        h = max(0, max over m of f_m (level + H + d_m))

In a cell that is under water everywhere the level is eta. Pressure, slopes and what passes faces follow from levels.
Files, gauges, initial states, costs and controls hold the level as eta, too (System.shown).

A face consists of strips of equal width b / n with the thickness h_k = max(level - z_k, 0), where z_k is the higher one
of the two beds next to it, and the level is that of the cell upstream:

    A = mean of h_k                                     area over the width: the flux is A u
    R = (K / A)^(3/2),  K = mean of h_k^(5/3)           the depth with the friction of all strips

The strips have one slope, so that after Manning each has a velocity in proportion to h_k^(2/3), and K S^(1/2) / n is
what they convey together. A channel with the depth R everywhere has the same friction g n^2 u^2 / R^(4/3) for the same
mean velocity u. Other drags and the wind see R, too. The waves that `damping` damps have the speed sqrt(g R).

A channel narrower than a cell winds through the grid in steps, from face to face, and would lose its velocity head at
each of them. So the advection of momentum is multiplied by the lower one of both cells'

    c = 2 - 4 h_c / h, held between 0 and 1,

where h_c is the h with which water just covers the cell. So c is 1 over relief that is small against the depth. Where a
cell is dry in part, or has hardly more water than covers it, local inertia is left, as in SFINCS.

No water passes a face whose deepest strip lies above the level, and its velocity is 0. On faces between two cells with
an even bed all of this is as without tables (conserving_flow.py).

References: van Ormondt et al. (2025), doi:10.5194/gmd-18-843-2025; Volp et al. (2013), doi:10.1002/wrcr.20332; Casulli
(2009), doi:10.1002/fld.1896.
"""

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ..fields.field import AbstractField, Axis, X, pointwise
from ..fields.state import as_tile_field, pytree, replace, static
from ..grids.subgrid import finer, line_shares
from .limiters import larger, smaller, upstream

if TYPE_CHECKING:
    from .conserving_flow import ConservingFlow
    from .domain import Floor
    from .stages import Exchange

NEXT_TO = {  # the cells next to a side from which conditions on it read the level
    "west": np.s_[:, :2],
    "east": np.s_[:, -2:],
    "south": np.s_[:2],
    "north": np.s_[-2:],
}


@pytree
class Subgrid:
    """The tables of a tile, arrays [m] with the tile's halo; Fields in a prepared System.

    Attributes:
        cells: d_m of all shares but the last, for which it is 0, at h.
        along_x, along_y: how much deeper the strips of a face are than the shallower one of both cells' mean depths,
            the deepest first, at u and at v.
        uneven: 1 on faces between cells of which one has an uneven bed, else 0, at u and at v.
        shares: f_m, ascending to 1.
    """

    cells: Any
    along_x: Any
    along_y: Any
    uneven: Any
    shares: tuple[float, ...] = static()

    def prepared(self, exchange: "Exchange") -> "Subgrid":
        """The tables as Fields."""
        padded = lambda arrays, at: tuple(exchange.padded(x, p) for x, p in zip(arrays, at))  # noqa: E731
        count = len(self.along_x)
        return replace(
            self,
            cells=padded(self.cells, "h" * len(self.cells)),
            along_x=padded(self.along_x, "u" * count),
            along_y=padded(self.along_y, "v" * count),
            uneven=padded(self.uneven, "uv"),
        )

    def level(self, h: AbstractField, depth: AbstractField) -> AbstractField:
        """The level [m], a Field at h, of the water h [m] in cells with the mean depth H [m]."""
        lowest = h
        for share, below in zip(self.shares, self.cells):
            lowest = pointwise(smaller, lowest, h * (1.0 / share) - as_tile_field(below, "h"))
        return lowest - depth

    def water(self, level: AbstractField, depth: AbstractField) -> AbstractField:
        """The inverse of `level`, 0 where the level lies below the bed [m]."""
        above = level + depth
        most = above.map(lambda x: larger(x, 0.0))
        for share, below in zip(self.shares, self.cells):
            most = pointwise(larger, most, share * (above + as_tile_field(below, "h")))
        return most

    def above_rest(self, level: AbstractField, depth: AbstractField) -> AbstractField:
        """The potential energy above that of water at rest, over g and per area [m2], of cells with this level [m].

        Each strip of a cell, with the share w and the bed b, has (max(level, b)^2 - max(b, 0)^2) / 2. The table is the
        sum of w max(level - b, 0) over the strips between its lines, so that this is the integral of the level over h.
        """
        lines = [(s, s * (depth + as_tile_field(d, "h"))) for s, d in zip(self.shares, (*self.cells, 0.0 * level))]
        total, (before, held) = 0.0 * level, (0.0, 0.0 * level)
        for share, water in lines:
            bed = (held - water) * (1.0 / (share - before))
            top, rest = pointwise(larger, level, bed), bed.map(lambda b: larger(b, 0.0))
            total = total + (0.5 * (share - before)) * (top * top - rest * rest)
            before, held = share, water
        return total

    def covered(self, h: AbstractField) -> AbstractField:
        """c of the module docstring [1], a Field at h; 1 of even beds."""
        just = self.cells[-1] * (1.0 / (1.0 / self.shares[-2] - 1.0))
        return pointwise(_covered, h, just)

    def shown(self, eta: AbstractField, depth: AbstractField, wet: AbstractField) -> AbstractField:
        """The level of cells from the eta of the State, 0 on land [m], Fields at h."""
        return self.level((depth + eta).map(lambda h: larger(h, 0.0)), depth) * wet

    def stored(self, eta: AbstractField, depth: AbstractField, wet: AbstractField) -> AbstractField:
        """The inverse of `shown`; a level below the bed is raised to it."""
        return (self.water(eta, depth) - depth) * wet


def subgrid_on(floor: "Floor", halo: int, open_sides: tuple[str, ...] = ()) -> Subgrid:
    """The Subgrid of placed tile arrays with a halo, of a Floor whose beds are finer than cells, even at open sides."""
    bed: Any = floor.bed
    grid, communicator = floor.domain.grid, floor.domain.communicator
    modes = ["wrap" if periodic else "edge" for periodic in (grid.periodic_y, grid.periodic_x)]
    near = _even(grid.shape, open_sides)

    def make(rank):
        box = communicator.decomposition(grid.shape).box(rank)
        tables = bed.tables(lambda x: box.cut(x, halo, *modes), box.cut(near, halo, *modes))
        return jax.tree.map(lambda x: np.asarray(x, floor.domain.dtype), tuple(tables))

    return Subgrid(*communicator.place(make), shares=line_shares(bed.ratio))


def changed_level(how: str, level: jax.Array, floor: "Floor", open_sides: tuple[str, ...] = ()) -> jax.Array:
    """The eta of a State, tile arrays [m], of a level, which is raised to the bed ("stored"); or its inverse ("shown").

    Args:
        how: "stored" or "shown".
        level: tile arrays.
        floor: the Floor of a model whose shores move.
        open_sides: of the model.
    """
    depth = floor.domain.cut(floor.water)
    if floor.bed is None:
        return jnp.maximum(level, -depth) if how == "stored" else level
    fields: Any = (as_tile_field(x, "h") for x in (level, depth, floor.domain.cut(floor.wet)))
    return getattr(subgrid_on(floor, 0, open_sides), how)(*fields).interior


def level_of_cell(h: float, cell: tuple[int, int], floor: "Floor", open_sides: tuple[str, ...] = ()) -> float:
    """The level [m] of the water h [m] in a cell (row, column) of the whole grid.

    Args:
        h: its volume over the area of the cell.
        cell: the cell.
        floor: the Floor of a model whose shores move.
        open_sides: of the model.
    """
    place = tuple(np.array([k]) for k in cell)
    if floor.bed is None or _even(floor.domain.grid.shape, open_sides)[cell]:
        return h - float(floor.depth.at(*place)[0])
    return float(floor.bed.level_of(h).at(*place)[0])


def depth_at_place(floor: "Floor", place: tuple[float, float], cell: tuple[int, int]) -> float:
    """The depth [m] at a place (x, y) in a cell (row, column): the cell's, or that of its fine cell next to the place.

    A height above the ground counts from there.
    """
    values, grid, at = floor.depth, floor.domain.grid, cell
    if floor.bed is not None:
        ratio, values = floor.bed.ratio, floor.bed.depth
        grid = finer(grid, ratio)
        sides = zip((place[1], grid.turned(place[0])), (grid.y_edges, grid.x_edges), cell)
        row, column = (int(np.clip((x - e[0]) // (e[1] - e[0]), ratio * c, ratio * (c + 1) - 1)) for x, e, c in sides)
        at = row, column
    return float(values.at(*(np.array([k]) for k in at))[0])


def _even(shape, open_sides):
    """Where cells (ny, nx) count as even, whatever their bed."""
    near = np.zeros(shape, bool)
    for side in open_sides:
        near[NEXT_TO[side]] = True
    return near


class Sections:
    """The cross-sections of faces in a flow (module docstring).

    Args:
        flow: the ConservingFlow.
    """

    def __init__(self, flow: "ConservingFlow"):
        self.flow, self.tables = flow, flow.equations.subgrid
        self._higher: dict = {}  # {axis: (A, R)}

    def uneven(self, axis: Axis) -> AbstractField:
        """1 on the faces across an axis that have a section of their own, else 0."""
        return self.tables.uneven[0 if axis is X else 1]

    def deepest(self, axis: Axis) -> AbstractField:
        """The depth of the deepest strip of the faces across an axis [m]; of even beds that of the shallower cell."""
        return next(self._strips(axis))

    def _strips(self, axis):
        """The depths of the strips [m], the deepest first."""
        shallower = pointwise(smaller, axis.low(self.flow.depth), axis.high(self.flow.depth))
        return (shallower + deeper for deeper in (self.tables.along_x if axis is X else self.tables.along_y))

    def of_water(self, axis: Axis, level: AbstractField, h: AbstractField) -> tuple[AbstractField, AbstractField]:
        """(A, R) [m] of the faces across an axis.

        Args:
            axis: that the faces lie across.
            level: of the water there [m].
            h: the thickness on faces between even beds [m], which both are there.
        """
        area, depth = self._section(axis, level)
        uneven = self.uneven(axis)
        return upstream(uneven, area, h), upstream(uneven, depth, h)

    def _section(self, axis, level):
        strips = [(level + depth).map(lambda x: larger(x, 0.0)) for depth in self._strips(axis)]
        area = sum(strips[1:], strips[0]) * (1.0 / len(strips))
        conveyance = [strip.map(_five_thirds) for strip in strips]
        conveyed = sum(conveyance[1:], conveyance[0]) * (1.0 / len(strips))
        return area, pointwise(_depth, conveyed, area)

    def upstream(self, axis: Axis, velocity: AbstractField, h: AbstractField) -> AbstractField:
        """A with the level of the cell upstream [m]; the other arguments are those of `of_water`."""
        eta = self.flow.eta
        return self.of_water(axis, upstream(velocity, axis.low(eta), axis.high(eta)), h)[0]

    def ledge(self, axis: Axis, ledge: AbstractField) -> AbstractField:
        """How high water has to stand above `deepest` to cover the beds [m]: `ledge` on faces between even beds."""
        return upstream(self.uneven(axis), 0.0 * ledge + (self.flow.thin or 0.0), ledge)

    def resisting(self, axis: Axis, h: AbstractField) -> AbstractField:
        """R with the higher level of both cells [m], and `h` on faces between even beds."""
        return upstream(self.uneven(axis), self._at_higher_level(axis)[1], h)

    def _at_higher_level(self, axis):
        """(A, R) [m] of uneven faces with the higher level of both cells."""
        if axis not in self._higher:
            level = pointwise(larger, axis.low(self.flow.eta), axis.high(self.flow.eta))
            self._higher[axis] = self._section(axis, level)
        return self._higher[axis]

    def advecting(self, axis: Axis) -> AbstractField:
        """The share of advection on the faces across an axis [1], 1 between even beds."""
        covered = self.tables.covered(self.flow.h)
        return pointwise(smaller, axis.low(covered), axis.high(covered))

    def advected(self, axis: Axis, carried: AbstractField, whole: AbstractField) -> tuple[AbstractField, AbstractField]:
        """The advection of a component [m s-2], and the factor of the pressure with it [1], as they are left."""
        share = self.advecting(axis)
        return share * carried, 1.0 + share * (whole - 1.0)

    def given(self, axis: Axis, velocity: AbstractField, level: AbstractField) -> AbstractField:
        """`velocity`, 0 on faces whose deepest strip is not under more than a film of the water upstream.

        Args:
            axis: that the faces lie across.
            velocity: on the faces [m s-1].
            level: of the cells [m], a Field at h.
        """
        over = upstream(velocity, axis.low(level), axis.high(level)) + self.deepest(axis)
        passes = upstream(self.uneven(axis), over, 1.0 + 0.0 * over)
        return pointwise(lambda over, u: jnp.where(over > self.flow.thin, u, 0.0), passes, velocity)


def _five_thirds(h):
    """h^(5/3), with a finite derivative at 0."""
    safe = jnp.where(h > 0, h, 1.0)
    root = jnp.cbrt(safe)
    return jnp.where(h > 0, safe * root * root, 0.0)


def _depth(conveyed: jax.Array, area: jax.Array) -> jax.Array:
    """(K / A)^(3/2), 0 where there is no water."""
    wet = area > 0
    ratio = jnp.where(wet, conveyed, 1.0) / jnp.where(wet, area, 1.0)
    return jnp.where(wet, ratio * jnp.sqrt(ratio), 0.0)


def _covered(h: jax.Array, just: jax.Array) -> jax.Array:
    """2 - 4 h_c / h, held between 0 and 1; 1 where h_c is 0."""
    return larger(smaller(2.0 - 4.0 * just / jnp.where(h > 0, h, 1e-9), 1.0), 0.0)
