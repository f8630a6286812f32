"""Self-attraction and loading by spherical harmonics.

The water that a tide moves attracts other water, and its weight bends the solid Earth. Both change the potential as if
the surface were raised by (Hendershott 1972, doi:10.1111/j.1365-246X.1972.tb06167.x; Ray 1998,
doi:10.1080/01490419809388134)

    eta_sal = sum_n c_n eta_n,     c_n = 3 rho / ((2 n + 1) rho_e) (1 + k'_n - h'_n)
    du/dt   = + g d eta_sal/dx

eta_n is the part of degree n of the elevation, with (p - p_0) / (rho g) of the air pressure added: air loads as water
does, and a sea in balance with its pressure p is no load. The elevation is 0 on land. Where cells fall dry, it is the
thickness of water that is added to that at rest, max(h, 0) - max(H, 0). rho / rho_e is the density of water over that
of the Earth, h'_n and k'_n are load Love numbers. Degrees above N are taken with c_N, a fraction of the elevation
itself:

    eta_sal = c_N eta + sum_{n <= N} (c_n - c_N) eta_n

The grid's cells are the quadrature: with w = area / radius^2 and real, orthonormal harmonics Y,

    eta_nm = sum_cells w Y_nm eta         S eta = sum_nm (c_n - c_N) Y_nm eta_nm

so that w S is symmetric, and the force has an energy. A tile needs its own cells alone: it adds up its share of eta_nm,
by an FFT along x and a Legendre sum along y, and one sum over ranks of (N + 1)^2 numbers completes them.

S eta changes slowly, and is computed every few minutes. It is computed for the elevation in the middle of the interval
until the next computation, which the continuity equation extrapolates. The error is of second order in the interval.
The fraction c_N acts in every step.
"""

import dataclasses
from typing import Any, ClassVar, Self, cast

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from ..defaults import WATER_DENSITY
from ..dynamics.clock import Time
from ..dynamics.domain import Domain
from ..dynamics.layer import LayerFlow, gradient
from ..dynamics.stages import Exchange
from ..dynamics.system import System
from ..dynamics.terms import Forcing
from ..errors import ConfigError
from ..fields.field import Field, Value
from ..fields.parameters import OF_GRID, parameter
from ..fields.state import State, pytree, replaced
from ..fields.variables import Variable
from ..grids.grid import SphericalGrid
from ..parallel.communicator import Communicator
from ..parallel.halo import without_padding
from .potential import air_heads

__all__ = ["SelfAttractionLoading", "harmonics_of", "load_factor"]

EARTH_DENSITY = 5517.0  # [kg m-3], the mean: 5.972e24 kg in a sphere of 6371 km
# Degree, h'_n and k'_n of PREM, centre of mass: Wang et al. (2012), doi:10.1016/j.cageo.2012.06.022.
LOVE_NUMBERS = np.array([
    (1, -1.2858777580, -1.0), (2, -0.9907994900, -3.0516104e-1), (3, -1.0499631000, -1.9585733e-1),
    (4, -1.0526477000, -1.3352284e-1), (5, -1.0855918000, -1.0456531e-1), (6, -1.1431163000, -9.0184841e-2),
    (7, -1.2116273000, -8.1906787e-2), (8, -1.2831157000, -7.6379141e-2), (9, -1.3538554000, -7.2250183e-2),
    (10, -1.4223516000, -6.8934145e-2), (11, -1.4881117000, -6.6147992e-2), (12, -1.5510428000, -6.3736253e-2),
    (13, -1.6111895000, -6.1602870e-2), (14, -1.6686329000, -5.9683159e-2), (15, -1.7234569000, -5.7931180e-2),
    (16, -1.7757418000, -5.6313294e-2), (18, -1.8730019000, -5.3385807e-2), (20, -1.9610366000, -5.0765423e-2),
    (22, -2.0405101000, -4.8373866e-2), (25, -2.1452296000, -4.5119160e-2), (28, -2.2347634000, -4.2189540e-2),
    (32, -2.3346328000, -3.8707260e-2), (36, -2.4167746000, -3.5643644e-2), (40, -2.4852876000, -3.2943035e-2),
    (45, -2.5565412000, -3.0005347e-2), (50, -2.6160021000, -2.7478940e-2), (56, -2.6762345000, -2.4893877e-2),
    (63, -2.7357965000, -2.2373437e-2), (71, -2.7943748000, -2.0003572e-2), (80, -2.8524152000, -1.7835300e-2),
    (90, -2.9107905000, -1.5891741e-2), (101, -2.9705453000, -1.4176111e-2), (113, -3.0327080000, -1.2678675e-2),
    (127, -3.1031490000, -1.1293757e-2), (143, -3.1823840000, -1.0056429e-2), (160, -3.2659835000, -9.0308000e-3),
    (180, -3.3640606000, -8.0942335e-3), (200, -3.4619585000, -7.3654685e-3),
])  # fmt: skip
HIGHEST = 200  # degree


def load_factor(degree: ArrayLike, density: float = WATER_DENSITY) -> np.ndarray:
    """c_n [1] of each degree from 1 to 200; Love numbers between those of the table are linear in log n.

    Args:
        degree: n, whole numbers.
        density: of the water [kg m-3].
    """
    n, (known, h, k) = np.asarray(degree, float), LOVE_NUMBERS.T
    left = np.interp(np.log(n), np.log(known), 1.0 + k - h)
    return 3.0 * density / (EARTH_DENSITY * (2.0 * n + 1.0)) * left


def harmonics_of(degree: int, latitude: np.ndarray) -> np.ndarray:
    """P_nm(sin latitude), normalised such that P_nm times cos m lambda or sin m lambda is orthonormal on the sphere.

    Holmes & Featherstone (2002), doi:10.1007/s00190-002-0216-2, equation 11, in double precision.

    Args:
        degree: the highest n.
        latitude: [rad], (ny,).

    Returns:
        (m, ny, n), both orders from 0 to `degree`; 0 for n < m.
    """
    t, u = np.sin(latitude), np.cos(latitude)
    harmonics = np.zeros((degree + 1, t.size, degree + 1))
    sectoral = np.full(t.size, np.sqrt(1.0 / (4.0 * np.pi)))
    for m in range(degree + 1):
        if m:
            sectoral = sectoral * u * np.sqrt((2.0 * m + 1.0) / (2.0 * m) * (2.0 if m == 1 else 1.0))
        harmonics[m, :, m] = sectoral
        if m < degree:
            harmonics[m, :, m + 1] = np.sqrt(2.0 * m + 3.0) * t * sectoral
        for n in range(m + 2, degree + 1):
            a = np.sqrt((2.0 * n + 1) * (2.0 * n - 1) / ((n - m) * (n + m)))
            b = np.sqrt((2.0 * n + 1) * (n + m - 1) * (n - m - 1) / ((n - m) * (n + m) * (2.0 * n - 3)))
            harmonics[m, :, n] = a * t * harmonics[m, :, n - 1] - b * harmonics[m, :, n - 2]
    return harmonics


@pytree
class SelfAttractionLoading(Forcing):
    """Self-attraction and loading by spherical harmonics, on grids that go round the Earth (module docstring).

    Args:
        degree: N, of the highest harmonics. A grid resolves those up to half its number of cells along x.
        every: the longest interval between two computations [s]; with 0 it is computed in each step.
        density: of the water [kg m-3].
        legendre, weights, rotations, factors: of the tile, set by the model: P_nm (m, my, n) [1], w (my, 1) [1],
            cos and sin of m times the longitude of the tile's first cell (2, 1, m) [1], and c_n - c_N (n,) [1].
    """

    degree: int = parameter(
        None,
        "1",
        minimum=2,
        maximum=HIGHEST,
        whole=True,
        default=90,
        static=True,
        doc="the highest degree of the spherical harmonics",
    )
    every: float = parameter(
        None, "s", minimum=0.0, maximum=3600.0, default=900.0, static=True, doc="how often it is computed"
    )
    density: float = parameter(None, "kg m-3", above=0.0, default=WATER_DENSITY, static=True, doc="of the water")
    legendre: Any = dataclasses.field(default=None, metadata=OF_GRID)
    weights: Any = dataclasses.field(default=None, metadata=OF_GRID)
    rotations: Any = dataclasses.field(default=None, metadata=OF_GRID)
    factors: Any = dataclasses.field(default=None, metadata=OF_GRID)
    columns: int = dataclasses.field(default=0, metadata=OF_GRID | {"static": True})

    references = (
        "Hendershott (1972), doi:10.1111/j.1365-246X.1972.tb06167.x; Wang et al. (2012), "
        "doi:10.1016/j.cageo.2012.06.022"
    )
    follows_pressure = True
    variable: ClassVar[Variable] = Variable(
        "self_attraction", "h", "m", "elevation by self-attraction and loading, less a fraction of the elevation"
    )

    def on_tile(self, domain: Domain) -> Self:
        grid = domain.grid
        self._check(grid)
        n = np.arange(self.degree + 1)
        factors = load_factor(np.maximum(n, 1), self.density) - load_factor(self.degree, self.density)
        factors[0] = -load_factor(self.degree, self.density)  # the mean elevation moves no water

        def tile(rank):
            box = domain.communicator.decomposition(grid.shape).box(rank)
            rows = np.arange(box.j0, box.j1)
            angle = np.deg2rad(grid.x_edges[0] + (box.i0 + 0.5) * 360.0 / grid.nx) * n
            area = np.broadcast_to(grid.metrics(rows)["area_h"], (rows.size, 1))
            latitude = np.deg2rad(grid.y_edges[0] + (rows + 0.5) * (grid.y_edges[-1] - grid.y_edges[0]) / grid.ny)
            arrays = {
                "legendre": harmonics_of(self.degree, latitude),
                "weights": area / cast(SphericalGrid, grid).radius ** 2,
                "rotations": np.stack([np.cos(angle), np.sin(angle)])[:, None, :],
                "factors": factors,
            }
            return {name: np.asarray(x, domain.dtype) for name, x in arrays.items()}

        return replaced(self, {**domain.communicator.place(tile), "columns": grid.nx})

    def _check(self, grid):
        who = type(self).__name__
        if not (grid.spherical and grid.periodic_x):
            raise ConfigError(
                f"{who}: spherical harmonics need the elevation all round the Earth, and the grid is "
                f"{'a part of it' if grid.spherical else 'a plane'}; use SelfAttraction(fraction) there."
            )
        if self.degree > grid.nx // 2 - 1:
            raise ConfigError(
                f"{who}: degree = {self.degree} is more than a grid of {grid.nx} cells along x resolves; give "
                f"{grid.nx // 2 - 1} or less."
            )

    def prepare(self, exchange: Exchange) -> Self:
        return self

    def state_variables(self) -> tuple[Variable, ...]:
        return (self.variable,)

    @property
    def fraction(self) -> float:
        """c_N [1], with which the elevation itself acts."""
        return float(load_factor(self.degree, self.density))

    def is_due(self, time: Time) -> bool | jax.Array:
        return jnp.asarray(time.step, jnp.int32) % time.steps_in(self.every) == 0

    def renewed(self, equations: System, state: State, time: Time) -> dict[str, jax.Array]:
        flow = equations.flow(state, time)
        rise = equations.continuity(flow, time)
        middle = cast(Field, flow.load(flow.eta + 0.5 * time.steps_in(self.every) * time.dt * rise)).interior
        here = equations.geometry.tile.sides
        middle = middle + self._air(equations, time + 0.5 * time.steps_in(self.every))
        middle = without_padding(middle * equations.geometry.wet.interior, here)
        return {self.variable.name: without_padding(self.convolved(middle, equations.communicator), here)}

    def convolved(self, eta: jax.Array, communicator: Communicator) -> jax.Array:
        """sum_n (c_n - c_N) eta_n [m] of an elevation [m] that is 0 on land, tile arrays; collective."""
        along_x = eta.shape[-1]
        lines = jnp.fft.rfft(eta * self.weights, self.columns)[:, : self.degree + 1]  # sum of w eta e^(-i m (x - x_0))
        cos, sin = self.rotations
        real, imaginary = jnp.real(lines), jnp.imag(lines)
        even, odd = real * cos + imaginary * sin, real * sin - imaginary * cos  # of w eta cos m x and w eta sin m x
        parts = jnp.stack([even, odd])
        coefficients = communicator.sum(jnp.einsum("pjm,mjn->pmn", parts, self.legendre))
        coefficients = communicator.replicated(coefficients) * self.factors[None, None, :]
        even, odd = jnp.einsum("pmn,mjn->pjm", coefficients, self.legendre)
        # irfft adds m and -m, each with 1 / columns; m = 0 is there once
        once = np.where(np.arange(self.degree + 1) == 0, 1.0, 0.5)[None, :].astype(eta.dtype) * self.columns
        turned = jax.lax.complex(once * (even * cos + odd * sin), once * (even * sin - odd * cos))
        return jnp.fft.irfft(turned, self.columns)[:, :along_x]

    def __call__(self, flow: LayerFlow, time: Time) -> tuple[Value, Value]:
        raised = flow.gravity * (flow.state[self.variable.name] + self.fraction * flow.load(flow.level))
        for head in air_heads(flow.equations, time):
            raised = raised + self.fraction * head
        return gradient(raised, flow.geometry)

    def _air(self, equations, time):
        """(p - p_0) / (rho g) [m] in the tile's own cells, p_0 the mean over the sea; 0.0 without an air pressure."""
        heads = list(air_heads(equations, time))
        if not heads:
            return 0.0
        head = (sum(heads) + 0.0 * equations.depth).interior / equations.gravity
        wet = without_padding(equations.geometry.wet.interior * self.weights, equations.geometry.tile.sides)
        share = equations.communicator.sum(jnp.stack([jnp.sum(wet * head), jnp.sum(wet)]))
        share = equations.communicator.replicated(share)
        return head - share[0] / share[1]
