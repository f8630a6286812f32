"""Fields on a C-grid as series of waves: between a tile's points and its block of modes.

Along a periodic direction the series is Fourier's. Between walls it is of cosines, or of sines for what vanishes there:

    "h"  eta, K          cos x  cos y, at centres
    "u"  u, h u          sin x  cos y, on east faces
    "v"  v, h v          cos x  sin y, on north faces
    "q"  vorticity       sin x  sin y, at corners

Walls are free-slip with these parities, and a product of two series has the parity that its term in the equations
needs. A field can be evaluated at its own points or at centres, where products are computed. The two differ by a shift
of half a cell: an exact phase factor of Fourier modes, or another sine transform. In the modes of all fields index i is
the wavenumber, and the modes of all fields are distributed over ranks in the same way.

SpectralFlow has the derived fields that are computed from series. A product of the core is (values at centres, the
position "h", "u" or "v" of its series, True), as Modes.forward takes it.
"""

import dataclasses
import functools
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from ..fields.field import Field, Value
from ..fields.state import State, pytree, static
from ..grids.grid import CartesianGrid
from ..parallel import fft
from ..parallel.communicator import Communicator
from ..parallel.fft.kinds import dst, idst
from ..parallel.halo import exchange
from .layer import LayerFlow

__all__ = ["ODD", "Modes", "Series", "SpectralFlow", "flux", "kinetic", "scaled", "vorticity_flux"]


ODD = {"h": "", "u": "x", "v": "y", "q": "xy"}  # directions in which a field is odd about walls and lies on faces


def scaled(factor: Value, modes: jax.Array) -> jax.Array:
    """Modes times a real factor, which is a number or an array that broadcasts against the modes."""
    return jnp.asarray(factor).astype(modes.dtype) * modes


class _Sine(fft.Kind):
    """Sines, numbered as cosines are: mode i has wavenumber i, and mode 0 is zero."""

    def phase(self, i: np.ndarray, n: int) -> np.ndarray:
        return np.pi / n * i

    def weight(self, i: np.ndarray, n: int) -> jax.Array:
        return jnp.where(i == 0, 0.0, 0.5 / n)


@dataclasses.dataclass(frozen=True)
class CentreSine(_Sine):
    """Sines of values at cell centres."""

    def forward(self, x: jax.Array) -> jax.Array:
        return _after_zero(dst(x, 2)[..., :-1])

    def inverse(self, x: jax.Array, n: int) -> jax.Array:
        return idst(_before_zero(x[..., 1:]), 2)


@dataclasses.dataclass(frozen=True)
class FaceSine(_Sine):
    """Sines of values on the east or north faces of cells; the last face is the wall."""

    def forward(self, x: jax.Array) -> jax.Array:
        return _after_zero(dst(x[..., :-1], 1))

    def inverse(self, x: jax.Array, n: int) -> jax.Array:
        return _before_zero(idst(x[..., 1:], 1))


def _after_zero(x):
    return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(1, 0)])


def _before_zero(x):
    return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, 1)])


@dataclasses.dataclass(frozen=True)
class Series:
    """The series of fields of `shape` = (ny, nx) cells; static.

    Args:
        communicator: a Communicator.
        shape: (ny, nx), numbers of cells.
        spacing: (dy, dx) [m].
        periodic: "", "x", "y" or "xy".
        kept: the fraction of the grid's wavenumbers that is kept; 2/3 prevents aliasing of products of two fields.
    """

    communicator: Any
    shape: tuple
    spacing: tuple
    periodic: str
    kept: float

    @staticmethod
    def on(grid: CartesianGrid, communicator: Communicator, kept: float = 1.0) -> "Series":
        """The series on a CartesianGrid."""
        spacing = tuple((high - low) / n for (low, high), n in ((grid.y, grid.ny), (grid.x, grid.nx)))
        return Series(communicator, grid.shape, spacing, grid.periodic, kept)

    def plan(self, field: str, centred: bool = False) -> fft.Plan:
        """The fft.Plan of a field ("h", "u", "v", "q"), at its own points or at centres."""
        return fft.Plan(self.communicator, self.shape, tuple(self._kind(axis, field, centred) for axis in "yx"))

    def _kind(self, axis, field, centred):
        if axis in self.periodic:
            return fft.Fourier() if axis == "y" and "x" in self.periodic else fft.RealFourier()
        if axis in ODD[field]:
            return CentreSine() if centred else FaceSine()
        return fft.Cosine(2)

    def modes(self, dtype: DTypeLike) -> "Modes":
        """This rank's Modes, for arithmetic with fields of `dtype`. It is called within `spmd`; collective."""
        plan = self.plan("h")
        waves, kind = plan.waves(self.spacing, dtype), plan.mode_dtype(dtype)
        within = [self._within(phase, n) for phase, n in zip(waves.phase, self.shape)]
        slopes = [k.astype(kind) * (1j if a in self.periodic else 1) for k, a in zip(waves.k, "yx")]
        shifts = [
            jnp.exp(0.5j * phase.astype(kind)) if a in self.periodic else None for phase, a in zip(waves.phase, "yx")
        ]
        largest = [self.kept * np.pi / step for step in self.spacing]
        return Modes(
            slopes=dict(zip("yx", slopes)),
            shifts=dict(zip("yx", shifts)),
            kept=(waves.inside * within[0] * within[1]).astype(kind),
            squared=waves.squared * waves.inside,
            relative=waves.squared * waves.inside / min(largest) ** 2,
            along=tuple(jnp.abs(k) / most for k, most in zip(waves.k, largest)),
            series=self,
        )

    def _within(self, phase, n):
        """1 for wavenumbers below `kept` times the largest one. That one is left out: its phase is undetermined."""
        return (jnp.abs(phase) < self.kept * np.pi - np.pi / (6 * n)).astype(phase.dtype)

    def resolves(self) -> tuple[int, ...]:
        """The numbers of wavenumbers other than 0 that are kept along y and x."""
        phases = [np.pi / n * np.arange(n) * (2 if a in self.periodic else 1) for a, n in zip("yx", self.shape)]
        return tuple(int(np.sum(t[1:] < self.kept * np.pi - np.pi / (6 * len(t)))) for t in phases)


@pytree
class Modes:
    """A rank's block of modes, and arrays that broadcast against it, by which modes are multiplied.

    Attributes:
        slopes: {axis: i k where the direction is periodic, k between walls} [m-1].
        shifts: {axis: exp(i k dx / 2), or None between walls}.
        kept: 1 for the modes that are kept, 0 for the others.
        squared: |k|^2 [m-2].
        relative: |k|^2 divided by that of the largest wavenumber kept along the coarser direction.
        along: |k| divided by the largest wavenumber that is kept, along y and along x.
        series: the Series.
    """

    slopes: dict
    shifts: dict
    kept: jax.Array
    squared: jax.Array
    relative: jax.Array
    along: tuple
    series: Series = static()

    def forward(self, *fields: tuple) -> list:
        """The kept modes of fields, a list of complex arrays.

        Args:
            fields: (tile array, position "h", "u", "v" or "q" of the series, whether the values are at centres) each.
                Fields with the same plan are transformed together.
        """
        found = self._together(fields, lambda plan, batch: plan.forward(batch))
        return [self._moved(x, name, centred, -1) * self.kept for x, (_, name, centred) in zip(found, fields)]

    def inverse(self, *fields: tuple) -> list:
        """The tile arrays of fields, of (modes, position, centred) each; the inverse of `forward`."""
        moved = [(self._moved(x, name, centred, 1), name, centred) for x, name, centred in fields]
        return self._together(moved, lambda plan, batch: plan.inverse(batch))

    def ddx(self, x: jax.Array, field: str) -> jax.Array:
        """Modes of the derivative along x of a field with modes `x` [m-1]."""
        return self._slope(x, field, "x")

    def ddy(self, x: jax.Array, field: str) -> jax.Array:
        """Modes of the derivative along y of a field with modes `x` [m-1]."""
        return self._slope(x, field, "y")

    def _slope(self, x, field, axis):
        """Modes of the derivative: k times the cosine for a sine, -k times the sine for a cosine."""
        falls = axis not in self.series.periodic and axis not in ODD[field]
        return x * (-self.slopes[axis] if falls else self.slopes[axis])

    def _moved(self, x, field, centred, direction):
        """Modes of a field at its own points from those at centres (direction 1), or back (-1)."""
        for axis in "" if centred else ODD[field]:
            shift = self.shifts[axis]
            if shift is not None:
                x = x * (shift if direction > 0 else jnp.conj(shift))
        return x

    def _together(self, fields, transform):
        batches, found = {}, list(fields)
        for n, (_, *what) in enumerate(fields):
            batches.setdefault(self.series.plan(*what), []).append(n)
        for plan, numbers in batches.items():
            for n, x in zip(numbers, transform(plan, jnp.stack([fields[n][0] for n in numbers]))):
                found[n] = x
        return found


def vorticity_flux(vorticity: Value, u: Value, v: Value) -> tuple[tuple, tuple]:
    """vorticity v and - vorticity u [m s-2], for f, zeta or f + zeta at centres [s-1]."""
    return (vorticity * v, "u", True), (-vorticity * u, "v", True)


def flux(thickness: Value, u: Value, v: Value) -> tuple[tuple, tuple]:
    """h u and h v [m2 s-1]."""
    return (thickness * u, "u", True), (thickness * v, "v", True)


def kinetic(u: Value, v: Value) -> tuple:
    """(u^2 + v^2) / 2 [m2 s-2]."""
    return 0.5 * (u * u + v * v), "h", True


class SpectralFlow(LayerFlow):
    """LayerFlow whose vorticity, kinetic energy and transports are computed from series."""

    @functools.cached_property
    def modes(self) -> list:
        """The modes of u, v and eta."""
        return self.equations.core.to_modes(State(*(x.interior for x in (self.u, self.v, self.eta))))

    @functools.cached_property
    def centred(self) -> tuple:
        """u, v, zeta and eta at centres; zeta and eta are 0.0 in the linear mode."""
        return self.equations.core.at_centres(self.equations, self.modes)

    @functools.cached_property
    def fluxes(self) -> list:
        """The modes of h u and h v. Minus their divergence is the tendency of eta."""
        u, v, _, eta = self.centred
        thickness = cast(Field, self.equations.depth_at(self.time)).interior + eta
        return self.equations.core.block.forward(*flux(thickness, u, v))

    def _with_halos(self, *fields):
        """Fields with halos, at the points of the C-grid, of pairs (modes, position)."""
        tile = self.geometry.tile
        arrays = self.equations.core.block.inverse(*((x, name, False) for x, name in fields))
        arrays = exchange(arrays, tile.halo, tile.sides, self.equations.communicator)
        return tuple(Field(x, name, (tile.halo,) * 4) for x, (_, name) in zip(arrays, fields))

    @functools.cached_property
    def _transports(self):
        return self._with_halos(*zip(self.fluxes, "uv"))

    @functools.cached_property
    def vorticity(self) -> Field:
        """zeta at corners [s-1]; zero at walls, which are free-slip."""
        block, (u, v, _) = self.equations.core.block, self.modes
        return self._with_halos((block.ddx(v, "v") - block.ddy(u, "u"), "q"))[0]

    @functools.cached_property
    def kinetic_energy(self) -> Field:
        """K = (u^2 + v^2) / 2 at cell centres [m2 s-2]."""
        u, v, *_ = self.centred
        return Field(kinetic(u, v)[0], "h", (0, 0, 0, 0))
