"""From the sea floor to the sea surface: means over cells, and Kajiura's (1963) hydrodynamic smoothing.

The surface above a floor that rises at once, by b(x), in water of depth H follows with (Kajiura 1963, Bull. Earthq.
Res. Inst. 41, 535-571; Glimsdal et al. 2013, doi:10.5194/nhess-13-1507-2013)

    eta^(k) = b^(k) / cosh(|k| H),

short waves being damped and long ones, |k| H << 1, left alone. Here it is applied to Fourier modes and not as a
convolution with Kajiura's Green function, whose width is that of H and thus of a grid cell of an ocean model: too
narrow to be sampled. Written as the divergence of a volume flux it takes any depths,

    eta = b + div(F),   F = Phi_H grad(b),   Phi_H^(k) = (1 - 1 / cosh(|k| H)) / |k|^2,

with H at the face that the flux goes through: exactly the formula above where H is uniform, and b + div(H^2 / 2 grad b)
for long waves over any sea floor, which is what an impulsive potential flow gives (phi = b z at depth -z). So volume is
conserved and a uniform uplift kept to rounding. No flux enters land (H <= 0), which keeps its b. grad and div are
differences between cells and faces of the C-grid, for which |k|^2 in Phi is their own, sum of (2 / dx sin(k dx / 2))^2.
Phi b is found for a few depths, and latitudes for the length of a degree, and F is interpolated between these by
polynomials at Chebyshev-Lobatto nodes, as many as keep the damping's error under a tolerance. The least depth is a
node, so that no flux enters land. Sides that are not periodic reflect.
"""

import functools
import operator
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from swmodel.errors import ConfigError
from swmodel.fields.pytrees import pytree, replace, static
from swmodel.grids.grid import Grid, SphericalGrid
from swmodel.grids.windows import GridValues
from swmodel.runtime.compilation import jit
from swmodel.sources.fault import Fault, Source, depth_gradient, lift, per_metre_at, slip_history, sum_over_faults

__all__ = ["KajiuraFilter", "SeaSurface", "region_around"]

Region = tuple[float, float, float, float]  # x0, x1, y0, y1 in the coordinates of the grid


@pytree
class KajiuraFilter:
    """The filter for one grid and its depths; make it with `KajiuraFilter.of`, apply it as a function.

    Fields are extended by their mirror image, to (ey, ex), beyond sides of the patch that are not periodic.

    Args:
        depth: at east and north faces, two of (ey, ex) [m], 0 where there is land.
        share: of the flux that passes east and north faces, two of (ey, ex): 1, down to 0 towards sides in the grid.
        latitude: of cells and of north faces, two of (ey, 1) [degrees], or [m] on a plane, where they do not matter.
        nodes: depths (m,) [m] and latitudes (n,), or [m] on a plane, between which the flux is interpolated.
        phases: of the Fourier modes from one cell to the next, along x (ex / 2 + 1) and y (ey).
        steps: of the grid along x and y [rad], or [m] on a plane.
        radius: of the sphere [m], or None.
        corner: first row and column of the patch.
        shape: of the patch.
    """

    depth: tuple
    share: tuple
    latitude: tuple
    nodes: tuple
    phases: tuple
    steps: tuple
    radius: float | None = static()
    corner: tuple = static()
    shape: tuple = static()

    @classmethod
    def of(
        cls,
        grid: Grid,
        depth: ArrayLike | GridValues,
        region: Region | None = None,
        tolerance: float = 1e-3,
    ) -> "KajiuraFilter":
        """The filter of `grid` for depths [m], positive down, (ny, nx) or GridValues.

        Args:
            region: (x0, x1, y0, y1) in the grid's coordinates that holds the source, with some 100 km to spare; outside
                it, and less and less within its outer tenth, the surface follows the floor. None is the whole grid.
            tolerance: of the factor 1 / cosh(|k| H), which lies between 0 and 1, at any wavenumber, depth and latitude.

        Raises:
            ConfigError: for depths of another shape, or a region without cells.
        """
        if np.shape(depth) != grid.shape:
            raise ConfigError(f"KajiuraFilter: depth has the shape {np.shape(depth)}, but the grid {grid.shape}.")
        columns, taper_x = _patch(grid.x_centres, region and region[:2], "x", grid.periodic_x)
        rows, taper_y = _patch(grid.y_centres, region and region[2:], "y", grid.periodic_y)
        closed = (not grid.periodic_y or region is not None, not grid.periodic_x or region is not None)
        depth, taper = (
            _mirrored(field, closed)
            for field in (np.maximum(_block(depth, rows, columns), 0), taper_y[:, None] * taper_x)
        )
        edges = grid.y_edges[rows.start : rows.stop + 1]
        faces = np.concatenate([edges[1:], edges[-2::-1]]) if closed[0] else edges[1:]
        centres = _mirrored(grid.y_centres[rows][:, None], (closed[0], False))
        wet = [np.minimum(depth, np.roll(depth, -1, axis)) > 0 for axis in (1, 0)]
        depths = tuple(np.where(w, _to_faces(depth, axis), 0) for w, axis in zip(wet, (1, 0)))
        steps = [np.diff(edges).mean() for edges in (grid.x_edges, grid.y_edges)]
        steps = tuple(np.deg2rad(steps) if grid.spherical else steps)
        return cls(
            depth=depths,
            share=tuple(_to_faces(taper, axis) for axis in (1, 0)),
            latitude=(centres, faces[:, None]),
            nodes=_nodes(depths, centres if grid.spherical else np.zeros(1), steps, grid, tolerance),
            phases=(2 * np.pi * np.fft.rfftfreq(depth.shape[1]), 2 * np.pi * np.fft.fftfreq(depth.shape[0])),
            steps=steps,
            radius=grid.radius if isinstance(grid, SphericalGrid) else None,
            corner=(int(rows.start), int(columns.start)),
            shape=(taper_y.size, taper_x.size),
        )

    def __call__(self, field: jax.Array) -> jax.Array:
        """The sea surface over a floor raised by `field`, (ny, nx) or (records, ny, nx) [m]."""
        if field.ndim == 3:
            return jax.lax.map(self, field)
        own = jax.tree.map(lambda leaf: jnp.asarray(leaf, field.dtype), self)
        (j, i), (my, mx) = self.corner, self.shape
        return field.at[j : j + my, i : i + mx].add(own._gain(field[j : j + my, i : i + mx]))

    def on_patch(self, patch: jax.Array) -> jax.Array:
        """The same of a floor that is raised on the patch only, (records, my, mx) [m]."""
        wide = jnp.pad(patch, ((0, 0), (1, 1), (1, 1)))  # with the same program as for a whole grid, and the same bits
        return replace(self, corner=(1, 1))(wide)[:, 1:-1, 1:-1]

    def _gain(self, field):
        """div(F) on the patch."""
        my, mx = field.shape
        dx, dy = self.steps
        extended = _mirrored(field, tuple(n > m for n, m in zip(self.depth[0].shape, self.shape)), jnp)
        flux_x, flux_y = self._flux(jnp.fft.rfft2(extended))
        at_cells, at_faces = (self._cosine(latitude) for latitude in self.latitude)
        flux_x, flux_y = flux_x / at_cells, flux_y * at_faces
        divergence = (flux_x - jnp.roll(flux_x, 1, 1)) / dx**2 + (flux_y - jnp.roll(flux_y, 1, 0)) / dy**2
        return (divergence / at_cells)[:my, :mx] / (self.radius or 1.0) ** 2

    def _flux(self, modes):
        """Phi b's differences across east and north faces, summed over the nodes, one in memory at a time."""
        depths, latitudes = self.nodes
        shape = self.depth[0].shape

        def add(total, one):
            m, n = one
            phi = jnp.fft.irfft2(modes * self._phi(depths[m], latitudes[n]).astype(modes.dtype), s=shape)
            return tuple(
                flux + weight * (jnp.roll(phi, -1, axis) - phi)
                for flux, weight, axis in zip(total, self._weights(m, n), (1, 0))
            ), None

        pairs = jnp.repeat(jnp.arange(depths.size), latitudes.size), jnp.tile(jnp.arange(latitudes.size), depths.size)
        return jax.lax.scan(add, (jnp.zeros(shape, self.depth[0].dtype),) * 2, pairs)[0]

    def _phi(self, depth, latitude):
        """(1 - 1 / cosh(|k| H)) over the square of the differences' wavenumber, (ky, kx) [m2]."""
        radius = self.radius or 1.0
        steps = self.steps[0] * radius * self._cosine(latitude), self.steps[1] * radius
        return _phi(self.phases[0][None], self.phases[1][:, None], steps, depth)

    def _weights(self, m, n):
        """Of the depth node m and the latitude node n, at east and north faces."""
        return tuple(
            share * _lagrange(at_depth, self.nodes[0], m) * _lagrange(at_latitude, self.nodes[1], n)
            for share, at_depth, at_latitude in zip(self.share, self.depth, self.latitude)
        )

    def _cosine(self, latitude):
        return 1.0 if self.radius is None else jnp.cos(jnp.deg2rad(latitude))


def _phi(phase_x, phase_y, steps, depth, xp=jnp):
    """(1 - 1 / cosh(|k| H)) over the square of the differences' wavenumber [m2], for phases a cell and `steps` [m]."""
    along = (phase_x, steps[0]), (phase_y, steps[1])
    k = xp.sqrt(sum((phase / step) ** 2 for phase, step in along))
    squared = sum((2 / step * xp.sin(phase / 2)) ** 2 for phase, step in along)
    wave = xp.minimum(k * depth, 80.0)  # beyond, 1 / cosh underflows
    damped = 2 * xp.sinh(wave / 2) ** 2 / xp.cosh(wave)
    return xp.where(k > 0, damped / xp.where(k > 0, squared, 1.0), 0.0)


def _lagrange(values, nodes, k, xp=jnp):
    """The polynomial through the `nodes` that is 1 at node number k and 0 at the others, at `values`."""
    others = (
        xp.where(j == k, 1.0, (values - nodes[j]) / xp.where(j == k, 1.0, nodes[k] - nodes[j]))
        for j in range(nodes.size)
    )
    return functools.reduce(operator.mul, others, xp.ones_like(values))


MOST_NODES = 32


def _nodes(depths, latitudes, steps, grid, tolerance):
    """(depths, latitudes) of nodes, the fewest for which the interpolated 1 - 1 / cosh(|k| H) is within `tolerance`."""
    phase = np.linspace(0, np.pi, 9)
    phase_x, phase_y = np.meshgrid(phase, phase[1:])
    radius = grid.radius if grid.spherical else 1.0

    def damped(depth, latitude):
        """Phi(depth, latitude) times the squared wavenumber of one latitude, (depth, latitude, phases)."""
        cosine = np.cos(np.deg2rad(latitude)) if grid.spherical else np.ones_like(latitude)
        along = steps[0] * radius * cosine[None, :, None, None], steps[1] * radius
        squared = sum((2 / step * np.sin(p / 2)) ** 2 for p, step in zip((phase_x, phase_y), along))
        return _phi(phase_x, phase_y, along, depth[:, None, None, None], np), squared

    def fewest(ends: tuple[float, float], error: Any) -> np.ndarray:
        if ends[1] - ends[0] < 1e-9 * max(abs(ends[1]), 1.0):
            return np.array([0.5 * (ends[0] + ends[1])])
        nodes = _lobatto(ends[0], ends[1], 2)
        while error(nodes) >= tolerance and nodes.size < MOST_NODES:
            nodes = _lobatto(ends[0], ends[1], nodes.size + 1)
        return nodes

    depth_ends = min(d.min() for d in depths), max(d.max() for d in depths)
    latitude_ends = latitudes.min(), latitudes.max()
    tried = np.linspace(*depth_ends, 41), np.linspace(*latitude_ends, 15)

    def depth_error(nodes):
        weights = np.stack([_lagrange(tried[0], nodes, k, np) for k in range(nodes.size)])
        exact, squared = damped(tried[0], tried[1][:: tried[1].size - 1])
        found = np.tensordot(weights.T, damped(nodes, tried[1][:: tried[1].size - 1])[0], 1)
        return np.abs(squared * (found - exact)).max()

    def latitude_error(nodes):
        weights = np.stack([_lagrange(tried[1], nodes, k, np) for k in range(nodes.size)])
        exact, squared = damped(tried[0], tried[1])
        found = np.einsum("nl,dnyx->dlyx", weights, damped(tried[0], nodes)[0])
        return np.abs(squared * (found - exact)).max()

    return fewest(depth_ends, depth_error), fewest(latitude_ends, latitude_error)


def _lobatto(low, high, count):
    """`count` Chebyshev-Lobatto nodes from `low` to `high`, both among them."""
    nodes = 0.5 * (low + high) - 0.5 * (high - low) * np.cos(np.pi * np.arange(count) / (count - 1))
    nodes[0], nodes[-1] = low, high
    return nodes


def _mirrored(field, axes, xp=np):
    """`field` and, along the axes that are marked, its mirror image after it."""
    for axis, closed in enumerate(axes):
        field = xp.concatenate([field, xp.flip(field, axis)], axis) if closed else field
    return field


def _to_faces(field, axis):
    return 0.5 * (field + np.roll(field, -1, axis))


@pytree
class SeaSurface:
    """How the sea surface of a grid follows faults: make it with `SeaSurface.of`, once; its methods are differentiable.

    The uplift of a cell is the mean over refinement^2 points where the fault is near, and else its value at the centre,
    which differs from the mean by dx^2 / 24 times its second derivatives.

    Args:
        x, y: coordinates of the patch's western and southern cell edges, with the last eastern and northern one,
            (mx + 1,), (my + 1,) [degrees], or [m] on a plane.
        gradient: of the depth in the cells, (d/d(east), d/d(north)), or None.
        window: (my, mx), by which the uplift is multiplied: 1, falling to 0 towards sides within the grid.
        smoothing: KajiuraFilter or None.
        shape, corner, refinement: of the grid, of the patch's first row and column, points a cell and direction.
        near: rows and columns of cells, centred on a fault's reference point, that are refined; None: all.
        period: of x, 360 degrees, or None on a plane.
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
            around: a Source; cells further than NEAR cells from its faults are not refined. None refines all cells.
        """
        smoothing = KajiuraFilter.of(grid, depth, region) if kajiura else None
        columns, taper_x = _patch(grid.x_centres, region and region[:2], "x", grid.periodic_x)
        rows, taper_y = _patch(grid.y_centres, region and region[2:], "y", grid.periodic_y)
        gradient = _gradient(grid, depth, rows, columns) if horizontal else None
        x, y = grid.x_edges[columns.start : columns.stop + 1], grid.y_edges[rows.start : rows.stop + 1]
        near = None if around is None else _near(around, grid, x, y)
        if near is not None and (near[0] >= taper_y.size or near[1] >= taper_x.size):
            near = None
        return cls(
            x, y, gradient, taper_y[:, None] * taper_x[None], smoothing, grid.shape,
            (int(rows.start), int(columns.start)), refinement, near, 360.0 if grid.spherical else None,
        )  # fmt: skip

    def elevation(self, source: Source) -> jax.Array:
        """The surface (ny, nx) [m] where all slip of `source` happens at once."""
        return self._surface(source, jnp.sum(jnp.asarray(source.faults.slip), axis=1)[None])[0]

    def records(self, source: Source, times: Any = None, shortest_rise: float = 1.0) -> tuple[Any, jax.Array]:
        """(times (m,) [s], surface (m, ny, nx) [m]): the sum of all that rose until then; see `fault.records`."""
        times, amounts = slip_history(source, times, shortest_rise)
        return times, self._surface(source, amounts)

    def patches(self, source: Source, times: Any = None, shortest_rise: float = 1.0) -> tuple[Any, jax.Array]:
        """(times, surface (m, my, mx) [m]) as `records`, of the patch alone; the sea is as it was elsewhere."""
        times, amounts = slip_history(source, times, shortest_rise)
        return times, _patches(self, source, amounts)

    def _surface(self, source, amounts):
        return _surface(self, source, amounts)

    def _summed(self, source, amounts):
        (my, mx), (j, i), (ny, nx) = self.window.shape, self.corner, self.shape
        return jnp.pad(self._on_patch(source, amounts), ((0, 0), (j, ny - j - my), (i, nx - i - mx)))

    def _on_patch(self, source, amounts):
        uplift = sum_over_faults(source, amounts, lambda fault: self._uplift(source, fault))
        uplift = uplift * jnp.asarray(self.window, uplift.dtype)[None]
        return uplift if self.smoothing is None else self.smoothing.on_patch(uplift)

    def _uplift(self, source, fault):
        """What 1 m of slip on one fault lifts the water by, (my, mx) [m]."""
        if self.near is None:
            return self._means(source, fault, (0, 0), self.window.shape, self.refinement)
        coarse = self._means(source, fault, (0, 0), self.window.shape, 1)
        corner = self._corner_near(fault, self.near)
        return jax.lax.dynamic_update_slice(
            coarse, self._means(source, fault, corner, self.near, self.refinement), corner
        )

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


@jit
def _surface(surface, source, amounts):
    """What `amounts` of slip of each fault, (m, faults) [m], make of the surface, (m, ny, nx) [m]: one program."""
    return surface._summed(source, amounts)


@jit
def _patches(surface, source, amounts):
    return surface._on_patch(source, amounts)


def _block(depth, rows, columns):
    """The depths of some rows and columns, of an array or GridValues."""
    return np.asarray(depth.block(rows, columns) if isinstance(depth, GridValues) else depth[rows, columns], float)


def _gradient(grid, depth, rows, columns):
    """(dH/d(east), dH/d(north)) of a patch, from its cells and those around it."""
    wide = [slice(max(part.start - 1, 0), min(part.stop + 1, n)) for part, n in zip((rows, columns), grid.shape)]
    inner = tuple(slice(part.start - w.start, part.stop - w.start) for part, w in zip((rows, columns), wide))
    return tuple(part[inner] for part in depth_gradient(grid, _block(depth, *wide), *wide))


NEAR = 8  # cells


def _near(source, grid, x, y):
    """(rows, columns) that hold, around any fault's reference point, the fault and NEAR cells beside it."""
    reach = float(np.max(np.hypot(source.faults.length, source.faults.width)))  # of the farthest corner [m]
    steps = np.diff(y).min(), np.diff(x).min()
    if grid.spherical:
        steps = grid.radius * np.deg2rad(steps)
        steps = steps[0], steps[1] * max(np.cos(np.deg2rad(np.abs(y).max())), 1e-3)
    return tuple(2 * (int(np.ceil(reach / step)) + NEAR) + 1 for step in steps)


def region_around(source: Source, grid: Grid, reach: float = 5.0e5) -> Region:
    """(x0, x1, y0, y1) of the cells within `reach` [m] of the faults' reference points, for `SeaSurface.of`."""
    near = np.zeros(grid.ny, bool), np.zeros(grid.nx, bool)
    for at in zip(source.faults.longitude, source.faults.latitude):
        for rows, columns in _candidates(grid, at, reach):
            east, north = source.projection.local(*grid.coordinates("h", rows, columns), at)
            within = np.asarray(east) ** 2 + np.asarray(north) ** 2 < reach**2
            near[0][rows] |= within.any(1)
            near[1][columns] |= within.any(0)
    rows, columns = map(np.flatnonzero, near)
    if not rows.size:
        raise ConfigError("region_around: no cell of the grid is near the faults; check positions and domain.")
    return (
        float(grid.x_edges[columns[0]]),
        float(grid.x_edges[columns[-1] + 1]),
        float(grid.y_edges[rows[0]]),
        float(grid.y_edges[rows[-1] + 1]),
    )


def _candidates(grid, at, reach):
    """(rows, columns) of blocks that together hold all cells within `reach` [m] of the point `at`."""
    x, y = grid.x_centres, grid.y_centres
    if not grid.spherical:
        near = np.abs(y - at[1]) <= reach, np.abs(x - at[0]) <= reach
    else:
        angle = 2.02 * np.arcsin(min(reach / (2 * grid.radius), 1.0))  # a little more, for rounding
        polewards = np.deg2rad(abs(float(at[1]))) + angle
        across = np.pi if polewards >= np.pi / 2 else np.arcsin(min(np.sin(angle) / np.cos(np.deg2rad(at[1])), 1.0))
        apart = np.abs((x - at[0] + 180.0) % 360.0 - 180.0)
        near = np.abs(y - at[1]) <= np.rad2deg(angle), apart <= np.rad2deg(across) * 1.01
    rows, columns = map(np.flatnonzero, near)
    if rows.size and columns.size:
        runs = np.split(columns, np.flatnonzero(np.diff(columns) > 1) + 1)
        for run in runs:
            yield slice(int(rows[0]), int(rows[-1]) + 1), slice(int(run[0]), int(run[-1]) + 1)


def _points(edges, first, count, refinement):
    """The midpoints of `refinement` parts of each of the `count` cells from number `first` on."""
    low = jax.lax.dynamic_slice(edges, (first,), (count,))
    steps = jax.lax.dynamic_slice(jnp.diff(edges), (first,), (count,))
    parts = jnp.asarray((np.arange(refinement) + 0.5) / refinement, edges.dtype)
    return (low[:, None] + steps[:, None] * parts[None]).reshape(-1)


def _patch(centres, limits, name, periodic):
    """The slice of cells within `limits`, and a taper over them: 1, down to 0 at sides that are not the grid's."""
    if limits is None:
        return slice(0, centres.size), np.ones(centres.size)
    inside = np.flatnonzero((centres >= limits[0]) & (centres <= limits[1]))
    if inside.size == 0:
        raise ConfigError(
            f"KajiuraFilter: the region's {name} = {tuple(limits)} holds no cell of the grid, which spans "
            f"{centres[0]:g} to {centres[-1]:g}."
        )
    cells, steps = np.arange(inside.size), max(inside.size // 10, 1)
    rise = np.sin(np.pi / 2 * np.clip((cells + 0.5) / steps, 0, 1)) ** 2
    low = np.ones(inside.size) if inside[0] == 0 and not periodic else rise
    high = np.ones(inside.size) if inside[-1] == centres.size - 1 and not periodic else rise[::-1]
    return slice(inside[0], inside[-1] + 1), low * high
