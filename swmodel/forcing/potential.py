"""The tidal potential of the moon and the sun, self-attraction as a fraction of the elevation, drag by internal waves.

    potential        du/dt = + g d eta_eq/dx,
                     eta_eq = sum_k a_k L_k f_k G_s(phi) cos(omega_k t + V_k + u_k + s lambda)
    attraction       du/dt = + g b d/dx [eta + (p - p_0) / (rho g)]
    internal waves   du/dt = - (kappa / 2) r^2 N u / h_u

a_k is the amplitude of the equilibrium tide of a constituent, L_k = 1 + k - h the share that the tide of the solid
Earth leaves (constituents.py), s = 0, 1, 2 its species, and G_0 = (1 - 3 sin^2 phi) / 2, G_1 = sin 2 phi,
G_2 = cos^2 phi. f and u are those of the satellites of second degree: those of third degree have other patterns.
The sum over the constituents of a species is two numbers a step,

    sum_k a_k cos(theta_k + s lambda) = cos(s lambda) sum_k a_k cos theta_k - sin(s lambda) sum_k a_k sin theta_k

so its cost does not grow with their number. The attraction of the ocean's own tide and the load on the solid Earth
are a fraction b of the elevation, 0.08 to 0.12 (Accad & Pekeris 1978, doi:10.1098/rsta.1978.0083). Air, of AirPressure
and Cyclone, attracts and loads as water of its weight does. So a sea in balance with its pressure is no load, and stays
at the inverse barometer. A barotropic flow over a rough bottom of r.m.s. height r and wavenumber kappa radiates
internal waves (Jayne & St. Laurent 2001, doi:10.1029/2000GL012044), with the buoyancy frequency N at the bottom.

`rough_bottom` computes r and N from elevations, for the drag by internal waves. At a node of their file, r is the
standard deviation of the depth from the best plane over the 2 reach + 1 nodes around it along both axes. The buoyancy
frequency is that of an exponential stratification at the sea floor,

    N = surface exp(-H / scale)                                      (Zaron & Egbert 2006, doi:10.1175/JPO2878.1)

Both are 0 at nodes that are shallower than `shallow`, since the drag is that of the deep ocean. In a cell of the grid,
N is the mean over its area, and r is such that r^2 N is the mean, too.
"""

import dataclasses
import datetime
import os
from collections.abc import Iterator
from typing import Any, Self

import jax.numpy as jnp
import numpy as np

from ..dynamics.clock import Time
from ..dynamics.dissipation import Drag
from ..dynamics.domain import Domain
from ..dynamics.layer import LayerFlow, gradient
from ..dynamics.site import Site
from ..dynamics.stages import Exchange
from ..dynamics.system import System
from ..dynamics.terms import Forcing, tile_array
from ..errors import ConfigError, DataError, ended
from ..fields.field import Value, to_u, to_v
from ..fields.parameters import DERIVED, Moment, Names, declared, parameter
from ..fields.state import pytree, replaced
from ..grids.axes import label
from ..grids.elevation import open_elevation
from ..grids.grid import Grid
from ..grids.remapping import is_circle, remapping, runs_of
from ..grids.undeclared import impossible
from ..grids.windows import BlockCache, CachedValues, GridValues
from .constituents import EQUILIBRIUM, distinct, nodal, species
from .tides import ramp_at, waves_at

__all__ = ["InternalWaveDrag", "SelfAttraction", "TidalPotential", "air_heads", "deviation_from_plane", "rough_bottom"]

EIGHT = ("M2", "S2", "N2", "K2", "K1", "O1", "P1", "Q1")
PATTERNS = {
    0: lambda latitude: 0.5 * (1.0 - 3.0 * np.sin(latitude) ** 2),
    1: lambda latitude: np.sin(2.0 * latitude),
    2: lambda latitude: np.cos(latitude) ** 2,
}


@pytree
class TidalPotential(Forcing):
    """The tidal potential of the moon and the sun, on a spherical grid.

    Args:
        constituents: names out of M2, S2, N2, K2, K1, O1, P1, Q1, MF, MM.
        start: date and time of step 0 (UTC); without it V + u = 0 and f = 1. Experiment files take that of the run.
        ramp: the time over which it is switched on [s].
        amplitudes: a_k L_k f_k [m] (n,), and arguments: V_k + u_k [rad] (n,); found on the model's grid unless given.
        patterns: G_s cos(s lambda) and G_s sin(s lambda) of each species [1], likewise.
    """

    constituents: tuple = declared(Names(), default=EIGHT, static=True)
    start: Any = declared(Moment(), default=None, static=True)
    ramp: float = parameter(None, "s", minimum=0.0, default=0.0, static=True, doc="the time of switching it on")
    amplitudes: Any = dataclasses.field(default=None, metadata=DERIVED)
    arguments: Any = dataclasses.field(default=None, metadata=DERIVED)
    patterns: Any = dataclasses.field(default=None, metadata=DERIVED)

    dated_by = "tide"
    references = (
        "Accad and Pekeris (1978), doi:10.1098/rsta.1978.0083; Arbic et al. (2004), doi:10.1016/j.dsr2.2004.09.014"
    )

    def __post_init__(self):
        names = (self.constituents,) if isinstance(self.constituents, str) else self.constituents
        try:
            names = distinct(names)
        except ConfigError as error:
            raise ConfigError(ended(f"TidalPotential: {error}")) from None
        if unknown := [name for name in names if name not in EQUILIBRIUM]:
            raise ConfigError(
                f"TidalPotential: the equilibrium amplitude of {unknown[0]} is not known; give some of "
                f"{', '.join(EQUILIBRIUM)}."
            )
        object.__setattr__(self, "constituents", names)

    def on_tile(self, domain: Domain) -> Self:
        if not domain.grid.spherical:
            raise ConfigError(
                "TidalPotential: the potential depends on longitude and latitude, and the grid is a plane; use a "
                "SphericalGrid."
            )
        moment: datetime.datetime | None = self.start
        factors = [nodal(name, moment, None) for name in self.constituents]
        sizes = [f * np.prod(EQUILIBRIUM[name]) for name, (f, _) in zip(self.constituents, factors)]

        def pattern(s, part):
            def values(x, y):
                return PATTERNS[s](np.deg2rad(y)) * part(s * np.deg2rad(x)) + 0.0 * (x + y)

            return tile_array(values, "h", domain, "TidalPotential: pattern")

        each = sorted({species(name) for name in self.constituents})
        patterns = {str(s): (pattern(s, np.cos), pattern(s, np.sin) if s else None) for s in each}
        return replaced(
            self,
            {
                "amplitudes": domain.cut(np.array(sizes)),
                "arguments": domain.cut(np.array([a for _, a in factors])),
                "patterns": patterns,
            },
        )

    def prepare(self, exchange: Exchange) -> Self:
        ready = {
            s: tuple(None if x is None else exchange.parameter(x, "h") for x in pair)
            for s, pair in self.patterns.items()
        }
        return replaced(self, {"patterns": ready})

    def elevation(self, time: Time) -> Value:
        """eta_eq at a Time [m], a Field at h, of a prepared part."""
        cos, sin = waves_at(time, self.constituents, self.arguments)
        sizes, total = self.amplitudes * ramp_at(time, self.ramp), 0.0
        for s, (even, odd) in self.patterns.items():
            share = sizes * np.array([species(name) == int(s) for name in self.constituents], sizes.dtype)
            total = total + even * jnp.sum(share * cos)
            if odd is not None:
                total = total - odd * jnp.sum(share * sin)
        return total

    def __call__(self, flow: LayerFlow, time: Time) -> tuple[Value, Value]:
        return gradient(flow.gravity * self.elevation(time), flow.geometry)


def air_heads(equations: System, time: Time) -> Iterator[Value]:
    """p / rho [m2 s-2] at a Time of each term of a System with an air pressure, a Field at h or a number."""
    return (term.pressure_head(time, 0.0) for term in equations.terms if term.has_pressure)


@pytree
class SelfAttraction(Forcing):
    """Self-attraction and loading as a fraction of the elevation, and of the head of the air pressure.

    The elevation is that of the pressure gradient: with any other, forward-backward steps would be unstable close to
    the longest step of gravity waves.

    Args:
        fraction: b [1].
    """

    fraction: Any = parameter(None, "1", minimum=0.0, below=1.0, default=0.094, doc="of the elevation")

    uses_time = False
    follows_pressure = True

    def __call__(self, flow: LayerFlow, time: Time) -> tuple[Value, Value]:
        load = flow.gravity * self.fraction * flow.load(flow.level)
        for head in air_heads(flow.equations, time):
            load = load + self.fraction * head
        return gradient(load, flow.geometry)


@pytree
class InternalWaveDrag(Drag):
    """Linear drag by internal waves that a rough bottom radiates.

    Args:
        roughness: r, r.m.s. height of the bottom that the grid does not resolve [m]: a number, a function or an array.
        buoyancy: N at the bottom [s-1], likewise.
        wavenumber: kappa of the roughness [m-1].
    """

    roughness: Any = parameter("h", "m", minimum=0.0, steady=True, doc="the r.m.s. height of the bottom")
    buoyancy: Any = parameter("h", "s-1", minimum=0.0, default=1e-3, steady=True, doc="the buoyancy frequency")
    wavenumber: Any = parameter(None, "m-1", above=0.0, default=2 * np.pi / 10e3, doc="of the roughness")

    uses_time = False
    references = "Jayne and St. Laurent (2001), doi:10.1029/2000GL012044"

    def _strength(self):
        return 0.5 * self.wavenumber * self.roughness * self.roughness * self.buoyancy

    def rates(self, site: Site) -> np.ndarray | float:
        return self._strength() / site.thickness

    def damping(self, flow: LayerFlow, time: Time) -> tuple[Value, Value]:
        strength = self._strength()
        return to_u(strength) * flow.per_h_u, to_v(strength) * flow.per_h_v


def deviation_from_plane(values: np.ndarray, reach: int) -> np.ndarray:
    """The standard deviation of values from the best plane over the (2 reach + 1)^2 nodes around each node.

    Args:
        values: (ny + 2 reach, nx + 2 reach), with the nodes around.
        reach: nodes on either side, 1 or more.

    Returns:
        (ny, nx), in the units of the values.
    """
    size, offsets = 2 * reach + 1, np.arange(-reach, reach + 1.0)
    ones, moment = np.ones(size), size * float(np.sum(offsets**2))  # the sum of x^2, or y^2, over a window

    def sums(values, of_y, of_x):
        """The sums over windows of values times the products of two lines of weights."""
        lines: Any = sum(w * values[k : len(values) - size + 1 + k] for k, w in enumerate(of_y))
        total: Any = sum(w * lines[:, k : lines.shape[1] - size + 1 + k] for k, w in enumerate(of_x))
        return total

    mean, squares = (sums(part, ones, ones) / size**2 for part in (values, values * values))
    along_x, along_y = sums(values, ones, offsets) / moment, sums(values, offsets, ones) / moment
    return np.sqrt(np.maximum(squares - mean**2 - (along_x**2 + along_y**2) * moment / size**2, 0.0))


def rough_bottom(
    elevation: Any,
    grid: Grid,
    reach: int = 2,
    shallow: float = 500.0,
    surface: float = 5.24e-3,
    scale: float = 1300.0,
) -> tuple[GridValues, GridValues]:
    """(roughness [m], buoyancy frequency [s-1]) at cell centres, the arguments of InternalWaveDrag; 0 where shallow.

    Files are read a window at a time, so that a rank reads only the nodes around its tile.

    Args:
        elevation: the path of a netCDF file, or an xarray.DataArray of `read_elevation`.
        grid: the Grid.
        reach: nodes on either side of a node over which r is computed: 2 reach + 1 nodes should span a degree or more.
        shallow: the least depth with internal waves [m].
        surface: N at the sea surface [s-1].
        scale: the depth over which N falls by a factor of e [m].

    Raises:
        ConfigError: for a reach below 1, or a scale that is not positive.
        DataError: if the file cannot be read or does not cover the grid, has missing values, or cannot be in metres.
    """
    if not (isinstance(reach, (int, np.integer)) and reach >= 1):
        raise ConfigError(f"rough_bottom: reach = {reach!r} is not a whole number of 1 or more; give nodes, as 2.")
    if not scale > 0:
        raise ConfigError(f"rough_bottom: scale = {scale!r} m is not positive; give a depth, as 1300.")
    if isinstance(elevation, (str, os.PathLike)):
        elevation = open_elevation(elevation, grid=grid)
    plan = remapping(elevation, grid, "average")

    def block(rows, columns):
        part, shape = plan.part(rows, columns), (rows.stop - rows.start, columns.stop - columns.start)
        drag, buoyancy = np.zeros(shape), np.zeros(shape)
        for group, taken in plan.groups(part):
            depth = _depth_around(elevation, part, group, reach)
            here = depth[reach:-reach, reach:-reach]
            n = np.where(here > shallow, surface * np.exp(-here / scale), 0.0)
            drag += part(n * deviation_from_plane(depth, reach) ** 2, taken)
            buoyancy += part(n, taken)
        return np.sqrt(drag / np.where(buoyancy > 0, buoyancy, 1.0)), buoyancy

    cache = BlockCache(block, grid.shape)
    return CachedValues(cache, 0), CachedValues(cache, 1)


def _depth_around(elevation, part, rows, reach):
    """The depth [m], 0 on land, of some rows of a Remapping's box with `reach` nodes around it.

    Beyond the ends of the file its outermost nodes are repeated, unless its longitudes go round the Earth.
    """
    y, x = (elevation[dim].values for dim in elevation.dims)
    around = np.arange(-reach, reach + 1)
    columns = np.concatenate([np.arange(run.start, run.stop) for run in part.columns])
    columns = np.concatenate([columns[0] + around[:reach], columns, columns[-1] + around[reach + 1 :]])
    goes_round = elevation.dims[1] == "lon" and is_circle(x)
    runs = runs_of(columns % x.size if goes_round else np.clip(columns, 0, x.size - 1))
    first, last = max(rows.start - reach, 0), min(rows.stop + reach, y.size)
    z = type(part)(slice(first, last), runs, part.y, part.x, part.to_y, part.to_x).read(elevation)
    holes = np.count_nonzero(~np.isfinite(z))
    if holes or (wrong := impossible(z)) is not None:
        what = f"{holes} missing values; fill them" if holes else f"an elevation of {wrong:g} m; convert it to metres"
        raise DataError(f"rough_bottom: {label(elevation)} has {what}.")
    below, above = reach - (rows.start - first), reach - (last - rows.stop)
    return np.pad(np.where(z < 0, -z, 0.0), ((below, above), (0, 0)), "edge")
