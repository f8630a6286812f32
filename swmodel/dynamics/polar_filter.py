"""Finite differences with a zonal filter near the poles, so that a global grid takes the time step of mid-latitudes.

On a longitude-latitude grid dx = R cos(phi) dlambda vanishes at the poles, and the waves of the shortest zonal lengths
there limit the time step. The rates of change of all variables are filtered along each parallel poleward of a latitude
phi_c, zonal wavenumber m by wavenumber, by the factor of Arakawa & Lamb (1977), doi:10.1016/B978-0-12-460817-7.50009-4:

    S(m, phi) = min(1, cos(phi) / (cos(phi_c) sin(m dlambda / 2)))

With it no zonal wave has a higher frequency than that of two cells at phi_c. S is real and depends on the row alone, so
that the filter F is self-adjoint and positive. The linear equations dx/dt = F A x, with A antisymmetric in the energy's
inner product, then conserve <x, F^-1 x>: waves neither grow nor decay. Steady states stay steady, since their rate is 0
before the filter. The mean of each row is kept (S(0) = 1), and so is mass.

Each evaluation takes a distributed Fourier transform along x and its inverse (parallel/fft).
"""

from typing import TYPE_CHECKING, Any, NoReturn, Self, cast

import jax.numpy as jnp
import numpy as np

from ..errors import ConfigError
from ..fields.field import Field
from ..fields.parameters import check_fields, parameter
from ..fields.state import State, fields_of, pytree, replace, static
from ..grids.grid import SphericalGrid
from ..parallel import fft
from .clock import Time
from .cores import Discretisation, FiniteDifferences
from .domain import Model

if TYPE_CHECKING:
    from .layer import LayerFlow
    from .system import System

__all__ = ["FilteredDifferences"]

PLAIN = FiniteDifferences()


@pytree
class FilteredDifferences(Discretisation):
    """Second-order differences on the C-grid, filtered along parallels near the poles.

    Args:
        latitude: the filter acts poleward of it, in both hemispheres [degrees]. The time step is limited by the zonal
            spacing there.

    Rows of cells poleward of it are all water or all land. A parallel that a coast interrupts has no Fourier modes.
    """

    latitude: float = parameter(
        None, "degree", default=60.0, static=True, minimum=0.0, below=90.0, doc="the filter acts poleward of it"
    )
    plan: Any = static(default=None)
    ends: Any = static(default=None)  # latitudes of the first and last parallel of faces [degrees]
    weaker: Any = None  # {position: S - 1 of this rank's modes (kx, ny)}, once prepared

    halos = False
    references = "Arakawa and Lamb (1977), doi:10.1016/B978-0-12-460817-7.50009-4"

    def __post_init__(self):
        check_fields(self)

    def on_tile(self, model: Model) -> Self:
        grid = model.grid
        if not (grid.spherical and grid.periodic_x):
            raise ConfigError(
                "FilteredDifferences filters whole parallels, and this grid is not a sphere's that is periodic in "
                "longitude; use core=FiniteDifferences()."
            )
        _check_rows(self, model)
        plan = fft.Plan(model.communicator, grid.shape, (fft.Unchanged(), fft.RealFourier()))
        return replace(self, plan=plan, ends=tuple(map(float, cast(SphericalGrid, grid).latitude)))

    def prepare(self, equations: "System") -> Self:
        dtype, (south, north), ny = equations.depth.dtype, self.ends, self.plan.shape[0]
        waves = self.plan.waves(dtype=dtype)
        sine = jnp.sin(0.5 * waves.phase[1])
        faces = south + (north - south) / ny * np.arange(1, ny + 1)
        centres = faces - 0.5 * (north - south) / ny
        weaker = {}
        for position, latitude in (("h", centres), ("u", centres), ("v", faces)):
            share = np.where(np.abs(latitude) > self.latitude, self.share(latitude), np.inf)
            # the mode m = 0, and rows nearer the equator, are unchanged
            weaker[position] = jnp.minimum(jnp.asarray(share[None, :], dtype) / jnp.maximum(sine, 1e-30), 1.0) - 1.0
        return replace(self, weaker={at: x * waves.inside for at, x in weaker.items()})

    def share(self, latitude: np.ndarray | float) -> np.ndarray:
        """cos(phi) / cos(phi_c), and 1 where the filter does not act."""
        ratio = np.cos(np.deg2rad(np.clip(latitude, -90.0, 90.0))) / np.cos(np.deg2rad(self.latitude))
        return np.clip(np.where(np.abs(latitude) > self.latitude, ratio, 1.0), 0.0, 1.0)

    def filtered(self, arrays: list, positions: list[str]) -> list:
        """F of tile arrays at these positions; all of them share the messages of one transform."""
        stacked = jnp.stack(arrays)
        weaker = jnp.stack([self.weaker[at] for at in positions])
        modes = self.plan.forward(stacked)
        change = self.plan.inverse(modes * weaker.astype(modes.dtype))
        return [x + dx for x, dx in zip(arrays, change)]

    def tendency(self, equations: "System", state: State, time: Time) -> State:
        rates = replace(equations, core=PLAIN).differences(state, time)
        positions = dict(rates.positions)
        names = [name for name, _ in rates]
        arrays = [x.interior if isinstance(x, Field) else x for x in fields_of(rates)]
        return rates.replace(**dict(zip(names, self.filtered(arrays, [positions[name] for name in names]))))

    def parts(self, equations: "System", flow: "LayerFlow") -> dict[str, tuple]:
        found = PLAIN.parts(equations, flow)
        return {name: tuple(self.filtered(list(rates), ["u", "v", "h"])) for name, rates in found.items()}

    def zonal_share(self, latitude: np.ndarray | float) -> np.ndarray:
        return self.share(latitude)

    def describe(self) -> str:
        return f"finite differences, filtered along parallels poleward of {self.latitude:g} degrees"

    def check_parts(self) -> NoReturn:
        raise ConfigError(
            "FilteredDifferences filters tendencies as a whole, and this run needs their parts; use RK4, SSPRK3, AB3 "
            "or AB2, or core=FiniteDifferences()."
        )

    def modes(self) -> NoReturn:
        return PLAIN.modes()


def _check_rows(core, model):
    """Raise ConfigError for a row poleward of the latitude that has both land and water; collective."""
    mine = {}
    for tile, wet in model.domain.own(model.sea_floor.wet):
        for row, cells in zip(range(tile.j0, tile.j1), np.asarray(wet, bool)):
            some, every = mine.get(row, (False, True))
            mine[row] = (some or bool(cells.any()), every and bool(cells.all()))
    rows: dict[int, list] = {}
    for found in model.communicator.host_gather(mine):
        for row, known in found.items():
            rows.setdefault(row, []).append(known)
    latitudes = model.grid.y_centres
    mixed = [
        float(latitudes[row])
        for row, known in rows.items()
        if abs(latitudes[row]) > core.latitude
        and any(some for some, _ in known)
        and not all(every for _, every in known)
    ]
    if mixed:
        nearest = max(mixed, key=abs)
        raise ConfigError(
            f"FilteredDifferences: latitude = {core.latitude:g}, and a coast interrupts the parallel of {nearest:g} "
            f"degrees; give a latitude of more than {abs(nearest):.4g}, or make the rows poleward of it all land."
        )
