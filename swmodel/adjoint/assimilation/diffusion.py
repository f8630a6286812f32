"""The square root of a covariance with a Gaussian correlation, by diffusion (Weaver & Courtier 2001).

    B = U U*,   U = s N L^{m} W^{-1/2},   L = 1 + W^{-1} div(k grad),   x = U v,   <v v*> = 1,

where L is one explicit step of diffusion between wet points, without flux through coasts and walls. W are the areas
around the points, s is the standard deviation, and N normalises the variance to s^2. Since W L is symmetric,
B = s N L^{2m} W^{-1} N s. Far from coasts its correlation, that of 2m steps, is exp(-r^2 / 2 l^2). The diffusivity k is
such that m steps spread by l^2 / 2 without overshooting any mode. doi:10.1002/qj.49712757518.

Values are on tiles, with one halo exchange for each step. JAX derives the transpose of U from the transposes of the
operators and of the halo exchange.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...dynamics.domain import Faces
from ...errors import ConfigError
from ...fields.field import Field, difference_x, difference_y
from ...fields.state import pytree, replace, static
from ...grids.windows import GridValues, Stored
from ...models.shallow_water import ShallowWater
from ...parallel.decomposition import Tile
from ...parallel.halo import Sides, exchange, without_padding
from ...runtime.compilation import jit

REACH = 5.0  # distance, in correlation lengths, of points that are probed at once; their correlation is 4e-6
MOST_PROBES = 1000
ALONG_X = {"h": "u", "u": "h", "v": "q", "q": "v"}
ALONG_Y = {"h": "v", "v": "h", "u": "q", "q": "u"}


@pytree
class Smooth:
    """U on a model's grid, a function from tile arrays to tile arrays; `Smooth.of` makes it.

    Attributes:
        amplitude: s N at the points, 0 on land.
        deviation: s at the points.
        root: W^{-1/2} [m-1].
        across_x, across_y: k times the length of the side between two points over their distance [m2]; 0 at coasts.
        per_area: W^{-1} [m-2].
        sides: the Sides of the tile.
        steps: m.
        position: "h", "u" or "v", the position of the points on the C-grid.
    """

    amplitude: Any
    deviation: Any
    root: Any
    across_x: Any
    across_y: Any
    per_area: Any
    sides: Sides
    steps: int = static()
    position: str = static()
    communicator: Any = static()

    @staticmethod
    def of(
        model: ShallowWater,
        position: str,
        length: float,
        deviation: float | np.ndarray = 1.0,
        samples: int | None = None,
    ) -> "Smooth":
        """The operator for points at `position` of a model's grid.

        Args:
            model: a ShallowWater.
            position: "h", "u" or "v".
            length: l, the correlation length [m].
            deviation: s, a number or (ny, nx), in the units of x.
            samples: number of random fields from which to estimate N, with the relative error sqrt(1 / (2 samples)).
                Probing every point is exact, but takes (5 l / dx)^2 diffusions; it is the default if these are at most
                1000. Otherwise the default is 400 samples.

        Raises:
            ConfigError: if the length is not positive, or less than half a cell.
        """
        parts, steps = _coefficients(model, position, length)
        sides = model.communicator.place(lambda rank: Sides.of(model.grid, model.communicator, (), model.dtype, rank))
        parts = {name: model.domain.cut(part) for name, part in parts.items()}
        bare = Smooth(**parts, sides=sides, steps=steps, position=position, communicator=model.communicator)
        variance = _variance(bare, model, length, samples)
        wet = model.sea_floor.mask(position)
        tiles = model.domain.cut(Stored(deviation, model.grid.shape).map(lambda s, wet: wet * s, wet))
        return replace(bare, deviation=tiles, amplitude=_amplitude(tiles, variance))

    @staticmethod
    def check(model: ShallowWater, position: str, length: float) -> None:
        """Raise the errors of `of`, at little cost."""
        _coefficients(model, position, length)

    def __call__(self, v: jax.Array) -> jax.Array:
        """U v."""
        return self.amplitude * self.diffused(self.root * v, self.steps)

    def diffused(self, x: jax.Array, steps: int) -> jax.Array:
        """L^steps x."""
        arrays = exchange([self.across_x, self.across_y, self.per_area], 1, self.sides, self.communicator)
        places = ALONG_X[self.position], ALONG_Y[self.position], self.position
        across_x, across_y, per_area = (Field(array, place, (1,) * 4) for array, place in zip(arrays, places))

        def step(x, _):
            (wide,) = exchange([x], 1, self.sides, self.communicator)
            x = Field(wide, self.position, (1,) * 4)
            flow = difference_x(across_x * difference_x(x)) + difference_y(across_y * difference_y(x))
            return without_padding((x + per_area * flow).interior, self.sides), None

        return jax.lax.scan(step, x, length=steps)[0]


def _coefficients(model, position, length):
    """({field: GridValues}, number of steps) of L."""
    if position not in ("h", "u", "v"):
        raise ConfigError(f"Smooth: position = {position!r} is not a position of a control; give 'h', 'u' or 'v'.")
    if not length > 0:
        raise ConfigError(f"Smooth: length = {length} m is not a correlation length; give a positive one.")
    grid, wet = model.grid, model.sea_floor.mask(position)
    metrics = grid.metrics(np.arange(grid.ny))
    beyond = grid.metrics(np.arange(grid.ny) + (position == "v"))  # north of a v point is the next row's centre
    column = lambda x: np.broadcast_to(x, (grid.ny, 1))  # noqa: E731
    east, north = ALONG_X[position], ALONG_Y[position]
    dx, dy = column(metrics[f"dx_{position}"]), column(metrics[f"dy_{position}"])
    ratio_x = column(_over(metrics[f"dy_{east}"], metrics[f"dx_{east}"]))
    ratio_y = column(_over(beyond[f"dx_{north}"], beyond[f"dy_{north}"]))
    next_x = Faces(wet, grid, "u").map(np.multiply, Stored(ratio_x, grid.shape))
    next_y = Faces(wet, grid, "v").map(np.multiply, Stored(ratio_y, grid.shape))
    area = dx * dy
    _check_length(length, area, max(float(dx.max()) * grid.nx, float(dy.sum())))
    fastest = 2.0 * float(np.max(_over(2 * ratio_x + ratio_y + np.roll(ratio_y, 1, 0), area)))  # [m-2], Gershgorin
    # U has half of the spread of the covariance, l^2 / 4 in each direction, in steps that damp every mode.
    steps = max(math.ceil(0.25 * length**2 * fastest), 1)
    spread, per_area = 0.25 * length**2 / steps, wet.map(_over, Stored(area, grid.shape))
    parts = {
        "amplitude": wet,
        "deviation": wet,
        "root": per_area.map(np.sqrt),
        "per_area": per_area,
        "across_x": _numbered(next_x, 1, position == "u").map(lambda x: spread * x),
        "across_y": _numbered(next_y, 0, position == "v").map(lambda x: spread * x),
    }
    return parts, steps


def _check_length(length, area, extent):
    """Raise ConfigError for a length [m] that is shorter than cells of `area` [m2], or longer than the domain [m]."""
    if length < 0.5 * float(np.sqrt(area.max())):
        raise ConfigError(
            f"Smooth: length = {length:g} m is less than half a cell of {np.sqrt(area.max()):g} m, which correlates "
            "nothing; give a longer one, or leave the smoothing out."
        )
    if length > 2.0 * extent:
        raise ConfigError(
            f"Smooth: length = {length:g} m is more than twice the domain of {extent:g} m, over which errors would be "
            "the same everywhere; give a shorter one in m, or estimate a number in place of the field."
        )


def _numbered(between, axis, faces):
    """Values between points n and n + 1, at their C-grid index: face n for centres, centre n + 1 for `faces`."""
    return _Shifted(between, axis, -1, "wrap") if faces else between


class _Shifted(GridValues):
    """The values of the points `step` further along an axis."""

    def __init__(self, values, axis, step, mode):
        self.values, self.step, self.mode = values, (step, 0) if axis == 0 else (0, step), mode
        self.shape, self.dtype = values.shape, values.dtype

    def block(self, rows, columns):
        (j0, j1), (i0, i1) = ((p.start + n, p.stop + n) for p, n in zip((rows, columns), self.step))
        return Tile(j0, j1, i0, i1).cut(self.values, 0, self.mode, self.mode)


def _over(a, b):
    """a / b, and 0 where b is 0, as for sides at poles."""
    return np.divide(a, b, out=np.zeros(np.broadcast_shapes(np.shape(a), np.shape(b))), where=np.asarray(b) != 0)


def _variance(bare, model, length, samples):
    """The diagonal of L^2m W^-1 at the points of the tiles."""
    sides = [model.grid.metrics(np.arange(model.grid.ny))[f"d{axis}_h"] for axis in "yx"]
    apart = [max(math.ceil(REACH * length / float(np.min(side))), 1) for side in sides]
    closed = (not model.grid.periodic_y, not model.grid.periodic_x)
    apart = [min(n, cells) if c else _dividing(n, cells) for n, cells, c in zip(apart, model.grid.shape, closed)]
    if samples is None and apart[0] * apart[1] > MOST_PROBES:
        samples = 400
    return _probed(bare, model, *apart) if samples is None else _sampled(bare, model, samples)


def _dividing(n, cells):
    """The smallest divisor of `cells` that is n or more, so that a comb of points is periodic."""
    return next((k for k in range(n, cells) if cells % k == 0), cells)


def _probed(bare, model, rows, columns):
    """The exact diagonal, by probing with combs of every `rows`-th row and `columns`-th column."""
    ny, nx = model.grid.shape
    row, column = (
        model.domain.cut(np.broadcast_to(x, (ny, nx)))
        for x in (1.0 + np.arange(ny)[:, None] % rows, 1.0 + np.arange(nx)[None] % columns)
    )

    def diagonal(smooth, row, column):
        def add(total, k):
            at_row, at_column = ((1 + part).astype(row.dtype) for part in (k // columns, k % columns))
            comb = ((row == at_row) & (column == at_column)).astype(row.dtype)
            return total + comb * smooth.diffused(comb * smooth.per_area, 2 * smooth.steps), None

        return jax.lax.scan(add, jnp.zeros_like(row), jnp.arange(rows * columns))[0]

    return jit(model.communicator.spmd(diagonal))(bare, row, column)


def _sampled(bare, model, samples):
    """The estimated diagonal: the mean square of L^m W^-1/2 v for white noise v, the same on any number of ranks."""
    noise = np.random.default_rng(0)

    def square(smooth, v):
        return smooth.diffused(smooth.root * v, smooth.steps) ** 2

    square = jit(model.communicator.spmd(square))
    total = model.domain.cut(Stored(0.0, model.grid.shape))
    for _ in range(samples):
        total = total + square(bare, model.domain.noise(noise, lambda x, mask: x, Stored(True, model.grid.shape)))
    return total / samples


@jax.jit
def _amplitude(deviation, variance):
    return deviation * jnp.where(variance > 0, 1.0 / jnp.sqrt(jnp.where(variance > 0, variance, 1.0)), 0.0)
