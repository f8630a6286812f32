"""Kajiura's (1963) hydrodynamic smoothing, from the sea floor to the sea surface.

The surface above a floor that rises at once, by b(x), in water of depth H follows with (Kajiura 1963, Bull. Earthq.
Res. Inst. 41, 535-571; Glimsdal et al. 2013, doi:10.5194/nhess-13-1507-2013)

    eta^(k) = b^(k) / cosh(|k| H),

so that short waves are damped and long ones, |k| H << 1, are unchanged. Here it is applied to Fourier modes. Kajiura's
Green function has the width H, about that of a grid cell of an ocean model, and is too narrow to be sampled for a
convolution. In the form of the divergence of a volume flux the filter applies to variable depths,

    eta = b + div(F),   F = Phi_H grad(b),   Phi_H^(k) = (1 - 1 / cosh(|k| H)) / |k|^2,

with H at the face that the flux goes through. Where H is uniform this is the formula above. For long waves over any sea
floor it is b + div(H^2 / 2 grad b), the result of an impulsive potential flow (phi = b z at depth -z). So volume is
conserved, and a uniform uplift is unchanged, to rounding. No flux enters land (H <= 0), whose b is unchanged. grad and
div are differences between cells and faces of the C-grid, and |k|^2 in Phi is their discrete wavenumber squared, the
sum of (2 / dx sin(k dx / 2))^2.

Phi b is computed for a few depths, and for a few latitudes (the length of a degree). F is interpolated between these by
polynomials at Chebyshev-Lobatto nodes, enough of them to keep the error of the damping under a tolerance. The least
depth is a node, so that no flux enters land. Sides that are not periodic reflect.
"""

import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ..errors import ConfigError
from ..fields.state import pytree, replace, static
from ..grids.grid import Grid, SphericalGrid
from ..grids.windows import GridValues
from .regions import Region, block_of, patch_of


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
        rows, columns, window = patch_of(grid, region)
        closed = (not grid.periodic_y or region is not None, not grid.periodic_x or region is not None)
        depth, taper = (_mirrored(field, closed) for field in (np.maximum(block_of(depth, rows, columns), 0), window))
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
            shape=window.shape,
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

    def fewest(axis: int, tried: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """The fewest nodes along an axis, 0 for depths, 1 for latitudes, from which the values at `tried` follow."""
        (low, high), (exact, squared) = tried[axis][[0, -1]], damped(*tried)
        if high - low < 1e-9 * max(abs(high), 1.0):
            return np.array([0.5 * (low + high)])
        for count in range(2, MOST_NODES + 1):
            nodes = _lobatto(low, high, count)
            weights = np.stack([_lagrange(tried[axis], nodes, k, np) for k in range(count)])
            values, _ = damped(*(nodes if k == axis else line for k, line in enumerate(tried)))
            interpolated = np.moveaxis(np.tensordot(weights, values, (0, axis)), 0, axis)
            if np.abs(squared * (interpolated - exact)).max() < tolerance:
                break
        return nodes

    lowest, deepest = min(d.min() for d in depths), max(d.max() for d in depths)
    tried = np.linspace(lowest, deepest, 41), np.linspace(latitudes.min(), latitudes.max(), 15)
    return fewest(0, (tried[0], tried[1][[0, -1]])), fewest(1, tried)


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
