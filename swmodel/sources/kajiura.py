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
Phi b is found for classes of depth, and of latitude for the length of a degree, and F interpolated linearly between
them. Sides that are not periodic reflect.
"""
import jax
import jax.numpy as jnp
import numpy as np

from swmodel.errors import ConfigError
from swmodel.pytrees import pytree, static
from swmodel.sources.fault import depth_gradient, lift, slip_history, sum_over_faults

__all__ = ["KajiuraFilter", "SeaSurface", "region_around"]


@pytree
class KajiuraFilter:
    """The filter for one grid and its depths; make it with `KajiuraFilter.of`, apply it as a function.

    Fields are extended by their mirror image, to (ey, ex), beyond sides of the patch that are not periodic.

    Args:
        depth: at east and north faces, two of (ey, ex) [m], 0 where there is land.
        share: of the flux that passes east and north faces, two of (ey, ex): 1, down to 0 towards sides in the grid.
        latitude: of cells and of north faces, two of (ey, 1) [degrees], or [m] on a plane, where they do not matter.
        classes: depths (m,) [m] and latitudes (n,) of the classes.
        phases: of the Fourier modes from one cell to the next, along x (ex / 2 + 1) and y (ey).
        steps: of the grid along x and y [rad], or [m] on a plane.
        radius: of the sphere [m], or None.
        corner: first row and column of the patch.
        shape: of the patch.
    """

    depth: tuple
    share: tuple
    latitude: tuple
    classes: tuple
    phases: tuple
    steps: tuple
    radius: float | None = static()
    corner: tuple = static()
    shape: tuple = static()

    @classmethod
    def of(cls, grid, depth, region=None, depth_step=500.0, latitude_step=5.0):
        """The filter of `grid` for depths (ny, nx) [m], positive down.

        Args:
            region: (x0, x1, y0, y1) in the grid's coordinates that holds the source, with some 100 km to spare; outside
                it, and less and less within its outer tenth, the surface follows the floor. None is the whole grid.
            depth_step, latitude_step: the most between two classes [m], [degrees].

        Raises:
            ConfigError: for depths of another shape, or a region without cells.
        """
        depth = np.asarray(depth, float)
        if depth.shape != grid.shape:
            raise ConfigError(f"KajiuraFilter: depth has the shape {depth.shape}, but the grid {grid.shape}.")
        columns, taper_x = _patch(grid.x_centres, region and region[:2], "x", grid.periodic_x)
        rows, taper_y = _patch(grid.y_centres, region and region[2:], "y", grid.periodic_y)
        closed = (not grid.periodic_y or region is not None, not grid.periodic_x or region is not None)
        depth, taper = (
            _mirrored(field, closed) for field in (np.maximum(depth[rows, columns], 0), taper_y[:, None] * taper_x)
        )
        edges = grid.y_edges[rows.start:rows.stop + 1]
        faces = np.concatenate([edges[1:], edges[-2::-1]]) if closed[0] else edges[1:]
        centres = _mirrored(grid.y_centres[rows][:, None], (closed[0], False))
        wet = [np.minimum(depth, np.roll(depth, -1, axis)) > 0 for axis in (1, 0)]
        depths = tuple(np.where(w, _to_faces(depth, axis), 0) for w, axis in zip(wet, (1, 0)))
        steps = [np.diff(edges).mean() for edges in (grid.x_edges, grid.y_edges)]
        steps = tuple(np.deg2rad(steps) if grid.spherical else steps)
        return cls(
            depths, tuple(_to_faces(taper, axis) for axis in (1, 0)), (centres, faces[:, None]),
            (_classes(depths, depth_step), _classes((centres,), latitude_step if grid.spherical else np.inf)),
            (2 * np.pi * np.fft.rfftfreq(depth.shape[1]), 2 * np.pi * np.fft.fftfreq(depth.shape[0])),
            steps, grid.radius if grid.spherical else None, (int(rows.start), int(columns.start)),
            (taper_y.size, taper_x.size),
        )

    def __call__(self, field):
        """The sea surface over a floor raised by `field`, (ny, nx) or (records, ny, nx) [m]."""
        if field.ndim == 3:
            return jax.lax.map(self, field)
        own = jax.tree.map(lambda leaf: jnp.asarray(leaf, field.dtype), self)
        (j, i), (my, mx) = self.corner, self.shape
        return field.at[j:j + my, i:i + mx].add(own._gain(field[j:j + my, i:i + mx]))

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
        """Phi b's differences across east and north faces, summed over the classes, one in memory at a time."""
        depths, latitudes = self.classes
        shape = self.depth[0].shape

        def add(total, one):
            depth, latitude = one
            phi = jnp.fft.irfft2(modes * self._phi(depth, latitude).astype(modes.dtype), s=shape)
            return tuple(
                flux + weight * (jnp.roll(phi, -1, axis) - phi)
                for flux, weight, axis in zip(total, self._weights(depth, latitude), (1, 0))
            ), None

        pairs = jnp.repeat(depths, latitudes.size), jnp.tile(latitudes, depths.size)
        return jax.lax.scan(add, (jnp.zeros(shape, self.depth[0].dtype),) * 2, pairs)[0]

    def _phi(self, depth, latitude):
        """(1 - 1 / cosh(|k| H)) over the square of the differences' wavenumber, (ky, kx) [m2]."""
        radius = self.radius or 1.0
        steps = self.steps[0] * radius * self._cosine(latitude), self.steps[1] * radius
        phases = self.phases[0][None], self.phases[1][:, None]
        k = jnp.sqrt(sum((phase / step) ** 2 for phase, step in zip(phases, steps)))
        squared = sum((2 / step * jnp.sin(phase / 2)) ** 2 for phase, step in zip(phases, steps))
        wave = jnp.minimum(k * depth, 80.0)  # beyond, 1 / cosh underflows
        damped = 2 * jnp.sinh(wave / 2) ** 2 / jnp.cosh(wave)
        return jnp.where(k > 0, damped / jnp.where(k > 0, squared, 1.0), 0.0)

    def _weights(self, depth, latitude):
        """Of a class at east and north faces."""
        return tuple(
            share * _hat(at_depth, self.classes[0], depth) * _hat(at_latitude, self.classes[1], latitude)
            for share, at_depth, at_latitude in zip(self.share, self.depth, self.latitude)
        )

    def _cosine(self, latitude):
        return 1.0 if self.radius is None else jnp.cos(jnp.deg2rad(latitude))


def _hat(values, nodes, node):
    """Weight of `node`, one of the equidistant `nodes`, in linear interpolation to `values`."""
    if nodes.size == 1:
        return jnp.ones_like(values)
    nearest = jnp.clip(values, nodes[0], nodes[-1])
    return jnp.maximum(0.0, 1 - jnp.abs(nearest - node) / (nodes[1] - nodes[0]))


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

    Args:
        longitude, latitude: of the points within the cells of the patch, (1, mx refinement) and (my refinement, 1).
        gradient: of the depth at the points, or None.
        window: (my, mx), by which the uplift is multiplied: 1, falling to 0 towards sides within the grid.
        smoothing: KajiuraFilter or None.
        shape, corner, refinement: of the grid, of the patch's first row and column, points a cell and direction.
    """

    longitude: jnp.ndarray
    latitude: jnp.ndarray
    gradient: tuple | None
    window: jnp.ndarray
    smoothing: KajiuraFilter | None
    shape: tuple = static()
    corner: tuple = static()
    refinement: int = static()

    @classmethod
    def of(cls, grid, depth, region=None, refinement=3, horizontal=True, kajiura=True):
        """For `grid` and its depths (ny, nx) [m], positive down.

        Args:
            region: (x0, x1, y0, y1), as `region_around` gives it; beyond it the sea stays as it is. None is the grid.
            refinement: points a cell and direction for the mean over the cell; a fault that reaches the sea floor moves
                it by metres within a kilometre.
            horizontal: whether the horizontal motion of slopes counts (Tanioka & Satake 1996).
            kajiura: whether Kajiura's smoothing applies.
        """
        depth = np.asarray(depth, float)
        smoothing = KajiuraFilter.of(grid, depth, region) if kajiura else None
        columns, taper_x = _patch(grid.x_centres, region and region[:2], "x", grid.periodic_x)
        rows, taper_y = _patch(grid.y_centres, region and region[2:], "y", grid.periodic_y)
        gradient = None
        if horizontal:
            gradient = tuple(
                part[rows, columns].repeat(refinement, 0).repeat(refinement, 1) for part in depth_gradient(grid, depth)
            )
        longitude, latitude = _points(grid.x_edges, columns, refinement), _points(grid.y_edges, rows, refinement)
        return cls(
            longitude[None], latitude[:, None], gradient,
            taper_y[:, None] * taper_x[None], smoothing, grid.shape, (int(rows.start), int(columns.start)), refinement,
        )

    def elevation(self, source):
        """The surface (ny, nx) [m] where all slip of `source` happens at once."""
        return self._surface(source, jnp.sum(jnp.asarray(source.faults.slip), axis=1)[None])[0]

    def records(self, source, times=None, shortest_rise=1.0):
        """(times (m,) [s], surface (m, ny, nx) [m]): the sum of all that rose until then; see `fault.records`."""
        times, amounts = slip_history(source, times, shortest_rise)
        return times, self._surface(source, amounts)

    def _surface(self, source, amounts):
        my, mx = self.window.shape
        blocks = (my, self.refinement, mx, self.refinement)
        part = lift(self.gradient)
        uplift = sum_over_faults(
            source, self.longitude, self.latitude, amounts, lambda *u: jnp.mean(part(*u).reshape(blocks), axis=(1, 3))
        )
        uplift = uplift * jnp.asarray(self.window, uplift.dtype)[None]
        (j, i), (ny, nx) = self.corner, self.shape
        field = jnp.pad(uplift, ((0, 0), (j, ny - j - my), (i, nx - i - mx)))
        return field if self.smoothing is None else self.smoothing(field)


def region_around(source, grid, reach=5.0e5):
    """(x0, x1, y0, y1) of the cells within `reach` [m] of the faults' reference points, for `SeaSurface.of`."""
    x, y = grid.coordinates("h")
    near = np.zeros(grid.shape, bool)
    for at in zip(source.faults.longitude, source.faults.latitude):
        east, north = source.projection.local(x, y, at)
        near |= np.asarray(east) ** 2 + np.asarray(north) ** 2 < reach**2
    if not near.any():
        raise ConfigError("region_around: no cell of the grid is near the faults; check positions and domain.")
    columns, rows = np.flatnonzero(near.any(0)), np.flatnonzero(near.any(1))
    return (
        float(grid.x_edges[columns[0]]), float(grid.x_edges[columns[-1] + 1]),
        float(grid.y_edges[rows[0]]), float(grid.y_edges[rows[-1] + 1]),
    )


def _points(edges, cells, refinement):
    """The midpoints of `refinement` parts of each of the cells (a slice)."""
    low, high = edges[cells.start:cells.stop], edges[cells.start + 1:cells.stop + 1]
    return (low[:, None] + (high - low)[:, None] * (np.arange(refinement) + 0.5) / refinement).reshape(-1)


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


def _classes(fields, step):
    """Equidistant nodes over the range of the values of `fields`, at most `step` apart."""
    low, high = min(field.min() for field in fields), max(field.max() for field in fields)
    if not np.isfinite(step) or high - low < 1e-9 * max(abs(high), 1.0):
        return np.array([0.5 * (low + high)])
    return np.linspace(low, high, int(np.ceil((high - low) / step)) + 1)
