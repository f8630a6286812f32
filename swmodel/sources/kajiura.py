"""From the sea floor to the sea surface: means over cells, and Kajiura's (1963) hydrodynamic smoothing.

The surface above a floor that rises at once, by b(x), in water of depth H follows with (Kajiura 1963, Bull. Earthq. Res.
Inst. 41, 535-571; Glimsdal et al. 2013, doi:10.5194/nhess-13-1507-2013)

    eta^(k) = b^(k) / cosh(|k| H),

short waves being damped and long ones, |k| H << 1, left alone. Here it is applied to Fourier modes and not as a
convolution with Kajiura's Green function, whose width is that of H and thus of a grid cell of an ocean model: too
narrow to be sampled. Where H and the length of a degree of longitude vary, each cell's water rises in the depth and the
latitude of that cell,

    eta = (1 / a) sum_m F_m[w_m a b],   F_m the filter of depth H_m and latitude phi_m,

a the areas of the cells and w_m(j, i) >= 0, sum_m w_m = 1, the weights of linear interpolation at the cell's own depth
and latitude between those of the classes. That is exact for one class, linear in b, and conserves the volume sum(a b)
for any depths. Sides that are not periodic reflect (the mirror image of b lies beyond them). Cells on land (H <= 0) keep
their b.
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

    Args:
        window: share of each cell of the patch that is filtered, (my, mx): 1, falling to 0 towards sides within the grid.
        area: areas of the patch's cells over their mean, (my, 1).
        depth_weights, latitude_weights: (depths, my, mx) and (latitudes, my, 1).
        depths: H of the classes [m].
        wavenumbers: (k_x (latitudes, mkx), k_y (mky)) of the Fourier modes [m-1].
        corner: first row and column of the patch.
        periodic: (x, y), whether the patch closes upon itself.
    """

    window: jnp.ndarray
    area: jnp.ndarray
    depth_weights: jnp.ndarray
    latitude_weights: jnp.ndarray
    depths: jnp.ndarray
    wavenumbers: tuple
    corner: tuple = static()
    periodic: tuple = static()

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
            raise ConfigError(f"KajiuraFilter: depth has the shape {depth.shape} and the grid {grid.shape}; give one a cell.")
        columns, taper_x = _patch(grid.x_centres, None if region is None else region[:2], "x")
        rows, taper_y = _patch(grid.y_centres, None if region is None else region[2:], "y")
        periodic = (grid.periodic_x and region is None, grid.periodic_y and region is None)
        depths, depth_weights = _classes(np.maximum(depth[rows, columns], 0.0), depth_step)
        latitudes, latitude_weights = _classes(grid.y_centres[rows][:, None], latitude_step if grid.spherical else np.inf)
        dx, dy = (np.diff(edges).mean() for edges in (grid.x_edges, grid.y_edges))
        mx = taper_x.size if periodic[0] else 2 * taper_x.size
        my = taper_y.size if periodic[1] else 2 * taper_y.size
        dx = np.full(len(latitudes), dx)
        if grid.spherical:
            dx, dy = grid.radius * np.deg2rad(dx) * np.cos(np.deg2rad(latitudes)), grid.radius * np.deg2rad(dy)
        wavenumbers = (
            2 * np.pi * np.fft.rfftfreq(mx)[None] / dx[:, None], 2 * np.pi * np.fft.fftfreq(my) / dy,
        )
        area = grid.area_h[rows]
        return cls(
            taper_y[:, None] * taper_x[None], area / area.mean(), depth_weights, latitude_weights, depths, wavenumbers,
            (int(rows.start), int(columns.start)), periodic,
        )

    def __call__(self, field):
        """The sea surface over a floor raised by `field`, (ny, nx) or (records, ny, nx) [m]."""
        if field.ndim == 3:
            return jax.lax.map(self, field)
        own = jax.tree.map(lambda leaf: jnp.asarray(leaf, field.dtype), self)
        (j, i), (my, mx) = self.corner, self.window.shape
        patch = field[j:j + my, i:i + mx]
        smooth = own._filter(own.window * patch * own.area) / own.area
        return field.at[j:j + my, i:i + mx].set((1 - own.window) * patch + smooth)

    def _filter(self, field):
        """sum over the classes of F_m[w_m field], one class in memory at a time."""
        k_x, k_y = self.wavenumbers
        my, mx = field.shape
        shape = (my if self.periodic[1] else 2 * my, mx if self.periodic[0] else 2 * mx)

        def add(total, one):
            depth, depth_weight, k, latitude_weight = one
            modes = jnp.fft.rfft2(self._with_images(field * depth_weight * latitude_weight))
            wave = jnp.sqrt(k[None, :] ** 2 + k_y[:, None] ** 2) * depth
            return total + modes / jnp.cosh(jnp.minimum(wave, 80.0)).astype(modes.dtype), None

        def over_latitudes(total, one):
            depth, depth_weight = one
            return jax.lax.scan(lambda t, lat: add(t, (depth, depth_weight, *lat)), total, (k_x, self.latitude_weights))

        zero = jnp.zeros((shape[0], shape[1] // 2 + 1), jnp.complex128 if field.dtype == jnp.float64 else jnp.complex64)
        total = jax.lax.scan(over_latitudes, zero, (self.depths, self.depth_weights))[0]
        return jnp.fft.irfft2(total, s=shape)[:my, :mx]

    def _with_images(self, field):
        for axis, closes in ((0, self.periodic[1]), (1, self.periodic[0])):
            field = field if closes else jnp.concatenate([field, jnp.flip(field, axis)], axis)
        return field


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
        columns, taper_x = _patch(grid.x_centres, None if region is None else region[:2], "x")
        rows, taper_y = _patch(grid.y_centres, None if region is None else region[2:], "y")
        gradient = None
        if horizontal:
            gradient = tuple(
                part[rows, columns].repeat(refinement, 0).repeat(refinement, 1) for part in depth_gradient(grid, depth)
            )
        return cls(
            _points(grid.x_edges, columns, refinement)[None], _points(grid.y_edges, rows, refinement)[:, None], gradient,
            taper_y[:, None] * taper_x[None], smoothing, grid.shape, (int(rows.start), int(columns.start)), refinement,
        )

    def elevation(self, source):
        """The surface (ny, nx) [m] where all slip of `source` happens at once."""
        return self._surface(source, jnp.sum(jnp.asarray(source.faults.slip), axis=1)[None])[0]

    def records(self, source, times=None, shortest_rise=1.0):
        """(times (m,) [s], surface (m, ny, nx) [m]): the sum of all that rose until then; the rest as in `fault.records`."""
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
        raise ConfigError("region_around: no cell of the grid is near the faults; check their positions and the domain.")
    columns, rows = np.flatnonzero(near.any(0)), np.flatnonzero(near.any(1))
    return (
        float(grid.x_edges[columns[0]]), float(grid.x_edges[columns[-1] + 1]),
        float(grid.y_edges[rows[0]]), float(grid.y_edges[rows[-1] + 1]),
    )


def _points(edges, cells, refinement):
    """The midpoints of `refinement` parts of each of the cells (a slice)."""
    low, high = edges[cells.start:cells.stop], edges[cells.start + 1:cells.stop + 1]
    return (low[:, None] + (high - low)[:, None] * (np.arange(refinement) + 0.5) / refinement).reshape(-1)


def _patch(centres, limits, name):
    """The slice of cells within `limits`, and a taper over them: 1, down to 0 over the outer tenth of sides inside."""
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
    low = np.ones(inside.size) if inside[0] == 0 else rise
    high = np.ones(inside.size) if inside[-1] == centres.size - 1 else rise[::-1]
    return slice(inside[0], inside[-1] + 1), low * high


def _classes(values, step):
    """Equidistant nodes over the range of `values`, at most `step` apart, and weights (nodes, *shape) of the values."""
    low, high = values.min(), values.max()
    if not np.isfinite(step) or high - low < 1e-9 * max(abs(high), 1.0):
        return np.array([0.5 * (low + high)]), np.ones((1, *values.shape))
    nodes = np.linspace(low, high, int(np.ceil((high - low) / step)) + 1)
    position = (values - low) / (nodes[1] - nodes[0])
    return nodes, np.maximum(0.0, 1 - np.abs(position[None] - np.arange(nodes.size).reshape(-1, *[1] * values.ndim)))
