"""From the sea floor to the sea surface: means of the uplift over cells, near a source alone, and their smoothing."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ..fields.state import pytree, replace, static
from ..grids.grid import Grid
from ..grids.windows import GridValues
from ..runtime.compilation import jit
from .fault import Fault, Source
from .kajiura import KajiuraFilter
from .motion import Lattice, depth_gradient, lift, per_metre_at, slip_history, sum_over_faults
from .regions import Region, block_of, patch_of


@pytree
class SeaSurface:
    """The map from faults to the sea surface of a grid, made by `SeaSurface.of`. Its methods are differentiable.

    The uplift of a cell is the mean over refinement^2 points where the fault is near. Elsewhere it is the value at the
    centre, which differs from the mean by dx^2 / 24 times the second derivatives.

    Args:
        x, y: coordinates of the patch's western and southern cell edges, with the last eastern and northern one,
            (mx + 1,), (my + 1,) [degrees], or [m] on a plane.
        gradient: of the depth in the cells, (d/d(east), d/d(north)), or None.
        window: (my, mx), the factor of the uplift: 1, falling to 0 towards sides within the grid.
        smoothing: KajiuraFilter or None.
        shape: of the grid.
        corner: the patch's first row and column.
        refinement: points in a cell along each direction.
        near: rows and columns of cells, centred on a fault's reference point, that are refined; None: all.
        period: of x, 360 degrees, or None on a plane.
        lattice: from whose nodes the uplift far from each of many faults is interpolated, or None.
    """

    x: np.ndarray | jax.Array
    y: np.ndarray | jax.Array
    gradient: tuple | None
    window: np.ndarray | jax.Array
    smoothing: KajiuraFilter | None
    shape: tuple = static()
    corner: tuple = static()
    refinement: int = static()
    near: tuple | None = static(default=None)
    period: float | None = static(default=None)
    lattice: Lattice | None = static(default=None)

    @classmethod
    def of(
        cls,
        grid: Grid,
        depth: ArrayLike | GridValues,
        region: Region | None = None,
        refinement: int = 3,
        horizontal: bool = True,
        kajiura: bool = True,
        around: Source | None = None,
    ) -> "SeaSurface":
        """For `grid` and its depths [m], positive down, (ny, nx) or GridValues, of which the region alone is read.

        Args:
            region: (x0, x1, y0, y1), as `region_around` gives it; beyond it the sea stays as it is. None is the grid.
            refinement: points a cell and direction for the mean over the cell; a fault that reaches the sea floor moves
                it by metres within a kilometre.
            horizontal: whether the horizontal motion of slopes counts (Tanioka & Satake 1996).
            kajiura: whether Kajiura's smoothing applies.
            around: a Source; cells further than NEAR cells from its faults are not refined, and with many faults the
                uplift far from each is interpolated (motion.py). None refines all cells.
        """
        smoothing = KajiuraFilter.of(grid, depth, region) if kajiura else None
        rows, columns, window = patch_of(grid, region)
        gradient = _gradient(grid, depth, rows, columns) if horizontal else None
        x, y = grid.x_edges[columns.start : columns.stop + 1], grid.y_edges[rows.start : rows.stop + 1]
        near = None if around is None else _near(around, grid, x, y)
        if near is not None and (near[0] >= window.shape[0] or near[1] >= window.shape[1]):
            near = None
        count = 0 if around is None else np.shape(around.faults.slip)[0]
        return cls(
            x,
            y,
            gradient,
            window,
            smoothing,
            grid.shape,
            (int(rows.start), int(columns.start)),
            refinement,
            near,
            360.0 if grid.spherical else None,
            None if near is None else Lattice.of(window.shape, near, count),
        )

    def elevation(self, source: Source) -> jax.Array:
        """The surface (ny, nx) [m] where all slip of `source` happens at once."""
        return _surface(self, source, _all_slip(source))[0]

    def elevation_on_patch(self, source: Source) -> jax.Array:
        """`elevation` of the patch alone, (my, mx) [m]; the sea is as it was elsewhere."""
        return _patches(self, source, _all_slip(source))[0]

    def records(
        self, source: Source, times: Any = None, shortest_rise: float = 1.0
    ) -> tuple[np.ndarray | jax.Array, jax.Array]:
        """(times (m,) [s], rise of the surface until then (m, ny, nx) [m]); arguments are those of motion.records."""
        times, amounts = slip_history(source, times, shortest_rise)
        return times, _surface(self, source, amounts)

    def patches(
        self, source: Source, times: Any = None, shortest_rise: float = 1.0
    ) -> tuple[np.ndarray | jax.Array, jax.Array]:
        """(times, surface (m, my, mx) [m]) as `records`, of the patch alone; the sea is as it was elsewhere."""
        times, amounts = slip_history(source, times, shortest_rise)
        return times, _patches(self, source, amounts)

    def _summed(self, source, amounts):
        (my, mx), (j, i), (ny, nx) = self.window.shape, self.corner, self.shape
        return jnp.pad(self._on_patch(source, amounts), ((0, 0), (j, ny - j - my), (i, nx - i - mx)))

    def _on_patch(self, source, amounts):
        if self.lattice is None:
            uplift = sum_over_faults(source, amounts, lambda fault: self._uplift(source, fault))
        else:
            uplift = self._by_lattice(source, amounts, self.lattice)
        uplift = uplift * jnp.asarray(self.window, uplift.dtype)[None]
        return uplift if self.smoothing is None else self.smoothing.on_patch(uplift)

    def _uplift(self, source, fault):
        """The uplift of the water by 1 m of slip on one fault, (my, mx) [m]."""
        if self.near is None:
            return self._means(source, fault, (0, 0), self.window.shape, self.refinement)
        coarse = self._means(source, fault, (0, 0), self.window.shape, 1)
        corner = self._corner_near(fault, self.near)
        return jax.lax.dynamic_update_slice(
            coarse, self._means(source, fault, corner, self.near, self.refinement), corner
        )

    def _by_lattice(self, source, amounts, lattice):
        """The sum over faults (m, my, mx) [m] that `sum_over_faults` of `_uplift` gives, by motion.py."""
        rows, columns = lattice.padded
        more = [(0, n - own) for n, own in zip(lattice.padded, self.window.shape)]
        gradient = self.gradient and tuple(jnp.pad(jnp.asarray(part), more) for part in self.gradient)
        wide = replace(self, x=_evenly(self.x, columns), y=_evenly(self.y, rows), gradient=gradient)
        spacing, near = lattice.spacing, self.near or (0, 0)

        def at_nodes(fault, corner, shape):
            y, x = (
                edges[0] + (edges[1] - edges[0]) * (jnp.asarray(first, float) + 0.5 + spacing * jnp.arange(-1.0, n + 2))
                for edges, first, n in zip((wide.y, wide.x), corner, (n // spacing for n in shape))
            )
            return per_metre_at(source, x[None], y[:, None], lambda *parts: jnp.stack(parts))(fault)

        def smooth(nodes, corner, shape):
            rank = (1,) * (nodes.ndim - 3) + tuple(shape)
            parts = gradient and tuple(jax.lax.dynamic_slice(part, corner, shape).reshape(rank) for part in gradient)
            return lift(parts)(*jnp.moveaxis(lattice.to_cells(nodes, shape), -3, 0))

        @jax.checkpoint
        def add(total, fault_and_amounts):
            fault, amount = fault_and_amounts
            at = lattice.corner(wide._corner_near(fault, lattice.block))
            inner = self._corner_near(fault, near)
            refined = self._means(source, fault, inner, near, self.refinement)
            exact = wide._means(source, fault, at, lattice.block, 1)
            exact = jax.lax.dynamic_update_slice(exact, refined, tuple(a - b for a, b in zip(inner, at)))
            change = exact - smooth(at_nodes(fault, at, lattice.block), at, lattice.block)
            first = jnp.zeros_like(at[0]), *at
            block = jax.lax.dynamic_slice(total, first, (len(amount), *lattice.block))
            return jax.lax.dynamic_update_slice(total, block + amount[:, None, None] * change[None], first), None

        nodes = sum_over_faults(source, amounts, lambda fault: at_nodes(fault, (0, 0), lattice.padded))
        total = smooth(nodes, (0, 0), lattice.padded)
        total = jax.lax.scan(add, total, (source.faults, jnp.asarray(amounts, total.dtype).T))[0]
        return total[:, : self.window.shape[0], : self.window.shape[1]]

    def _corner_near(self, fault: Fault, near: Sequence[int]) -> tuple[jax.Array, ...]:
        """First row and column of the cells around a fault's reference point that are refined."""
        x, y = fault.longitude, fault.latitude
        if self.period is not None:  # the grid may count longitudes from elsewhere
            x = x - self.period * jnp.round((x - 0.5 * (self.x[0] + self.x[-1])) / self.period)
        return tuple(
            jnp.clip(jnp.searchsorted(jnp.asarray(edges), at) - size // 2, 0, len(edges) - 1 - size)
            for edges, at, size in zip((self.y, self.x), (y, x), near)
        )

    def _means(self, source, fault, corner, size, refinement):
        """Means over a block of cells of what 1 m of slip lifts, from refinement^2 points each."""
        y, x = (
            _points(jnp.asarray(edges, float), first, count, refinement)
            for edges, first, count in zip((self.y, self.x), corner, size)
        )
        blocks = (size[0], refinement, size[1], refinement)
        gradient = self.gradient and tuple(jax.lax.dynamic_slice(jnp.asarray(g), corner, size) for g in self.gradient)

        def part(*displacement):
            return lift(gradient)(*(jnp.mean(values.reshape(blocks), axis=(1, 3)) for values in displacement))

        return per_metre_at(source, x[None], y[:, None], part)(fault)


def _all_slip(source):
    return jnp.sum(jnp.asarray(source.faults.slip), axis=1)[None]


@jit
def _surface(surface, source, amounts):
    """The surface (m, ny, nx) [m] for `amounts` of slip of each fault, (m, faults) [m], in one program."""
    return surface._summed(source, amounts)


@jit
def _patches(surface, source, amounts):
    return surface._on_patch(source, amounts)


def _evenly(edges, count):
    """The edges of `count` cells of the same size from the first edge on."""
    return edges[0] + (edges[-1] - edges[0]) / (len(edges) - 1) * jnp.arange(count + 1.0)


def _gradient(grid, depth, rows, columns):
    """(dH/d(east), dH/d(north)) of a patch, from its cells and those around it."""
    wide = [slice(max(part.start - 1, 0), min(part.stop + 1, n)) for part, n in zip((rows, columns), grid.shape)]
    inner = tuple(slice(part.start - w.start, part.stop - w.start) for part, w in zip((rows, columns), wide))
    return tuple(part[inner] for part in depth_gradient(grid, block_of(depth, *wide), *wide))


NEAR = 8  # cells


def _near(source, grid, x, y):
    """(rows, columns) of a block around a reference point that contains any fault, with a margin of NEAR cells."""
    reach = float(np.max(np.hypot(source.faults.length, source.faults.width)))  # of the farthest corner [m]
    steps = np.diff(y).min(), np.diff(x).min()
    if grid.spherical:
        steps = grid.radius * np.deg2rad(steps)
        steps = steps[0], steps[1] * max(np.cos(np.deg2rad(np.abs(y).max())), 1e-3)
    rows, columns = (2 * (int(np.ceil(reach / step)) + NEAR) + 1 for step in steps)
    return rows, columns


def _points(edges, first, count, refinement):
    """The midpoints of `refinement` parts of each of the `count` cells from number `first` on."""
    low = jax.lax.dynamic_slice(edges, (first,), (count,))
    steps = jax.lax.dynamic_slice(jnp.diff(edges), (first,), (count,))
    parts = jnp.asarray((np.arange(refinement) + 0.5) / refinement, edges.dtype)
    return (low[:, None] + steps[:, None] * parts[None]).reshape(-1)
