"""Fields on a C-grid as series of waves: between a tile's points and its block of modes.

Along a periodic direction the series is Fourier's. Between walls it is of cosines, or of sines for what vanishes there:

    "h"  eta, K          cos x  cos y, at centres
    "u"  u, h u          sin x  cos y, on east faces
    "v"  v, h v          cos x  sin y, on north faces
    "q"  vorticity       sin x  sin y, at corners

so that walls are free-slip, and a product of two has the parity that its place in the equations asks for. A field can
be read and made at its own points or at centres, where products are taken; from one to the other are phases of half a
cell, exact, or the sine transform of other points. Modes of all fields are numbered alike, i the wavenumber, and held
alike.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...fields.pytrees import pytree, static
from ...parallel import fft
from ...parallel.fft.trigonometric import dst, idst

__all__ = ["Series", "Modes", "ODD", "scaled"]

ODD = {"h": "", "u": "x", "v": "y", "q": "xy"}  # directions in which a field is odd about walls, and lies on faces


def scaled(factor, modes):
    """A real factor, a number or one a mode, times modes."""
    return jnp.asarray(factor).astype(modes.dtype) * modes


class _Sine(fft.Kind):
    """Sines whose mode i has wavenumber i, as those of cosines; the one with number 0 is zero."""

    def phase(self, i, n):
        return np.pi / n * i

    def weight(self, i, n):
        return jnp.where(i == 0, 0.0, 0.5 / n)


@dataclasses.dataclass(frozen=True)
class CentreSine(_Sine):
    """Of points at centres."""

    def forward(self, x):
        return _after_zero(dst(x, 2)[..., :-1])

    def inverse(self, x, n):
        return idst(_before_zero(x[..., 1:]), 2)


@dataclasses.dataclass(frozen=True)
class FaceSine(_Sine):
    """Of points on the far faces of cells, the last of which is the wall."""

    def forward(self, x):
        return _after_zero(dst(x[..., :-1], 1))

    def inverse(self, x, n):
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
        shape: cells.
        spacing: (dy, dx) [m].
        periodic: "", "x", "y" or "xy".
        kept: of the wavenumbers that the grid has: 2/3 leaves room for those that products make.
    """

    communicator: Any
    shape: tuple
    spacing: tuple
    periodic: str
    kept: float

    @staticmethod
    def on(grid, communicator, kept=1.0):
        """The series on a CartesianGrid."""
        spacing = tuple((high - low) / n for (low, high), n in ((grid.y, grid.ny), (grid.x, grid.nx)))
        return Series(communicator, grid.shape, spacing, grid.periodic, kept)

    def plan(self, field, centred=False):
        """The fft.Plan of a field ("h", "u", "v", "q"), at its own points or at centres."""
        return fft.Plan(self.communicator, self.shape, tuple(self._kind(axis, field, centred) for axis in "yx"))

    def _kind(self, axis, field, centred):
        if axis in self.periodic:
            return fft.Fourier() if axis == "y" and "x" in self.periodic else fft.RealFourier()
        if axis in ODD[field]:
            return CentreSine() if centred else FaceSine()
        return fft.Cosine(2)

    def modes(self, dtype):
        """The Modes that this rank holds, for arithmetic with fields of `dtype`; inside spmd, collective."""
        plan = self.plan("h")
        waves, kind = plan.waves(self.spacing, dtype), plan.mode_dtype(dtype)
        within = [self._within(phase, n) for phase, n in zip(waves.phase, self.shape)]
        slopes = [k.astype(kind) * (1j if a in self.periodic else 1) for k, a in zip(waves.k, "yx")]
        shifts = [jnp.exp(0.5j * phase.astype(kind)) if a in self.periodic else None
                  for phase, a in zip(waves.phase, "yx")]  # fmt: skip
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
        """1 for wavenumbers below `kept` of the largest, which is left out itself: its phase is not known."""
        return (jnp.abs(phase) < self.kept * np.pi - np.pi / (6 * n)).astype(phase.dtype)

    def resolves(self):
        """How many wavenumbers are kept along y and x, the mean left out."""
        turns = [np.pi / n * np.arange(n) * (2 if a in self.periodic else 1) for a, n in zip("yx", self.shape)]
        return tuple(int(np.sum(t[1:] < self.kept * np.pi - np.pi / (6 * len(t)))) for t in turns)


@pytree
class Modes:
    """A rank's block of modes: what they are multiplied with, arrays that broadcast against it.

    Attributes:
        slopes: {axis: i k where the direction is periodic, k between walls} [m-1].
        shifts: {axis: exp(i k dx / 2), or None between walls}.
        kept: 1 for modes that are computed with, 0 for the others.
        squared: |k|^2 [m-2].
        relative: |k|^2 over that of the largest wavenumber kept along the coarser direction.
        along: |k| over the largest that is kept, along y and along x.
        series: the Series.
    """

    slopes: dict
    shifts: dict
    kept: jax.Array
    squared: jax.Array
    relative: jax.Array
    along: tuple
    series: Series = static()

    def of(self, *fields):
        """The kept modes of fields, each (tile array, name, centred); those of one plan travel together."""
        found = self._together(fields, lambda plan, batch: plan.forward(batch))
        return [self._moved(x, name, centred, -1) * self.kept for x, (_, name, centred) in zip(found, fields)]

    def points(self, *fields):
        """Tile arrays of fields, each (modes, name, centred)."""
        moved = [(self._moved(x, name, centred, 1), name, centred) for x, name, centred in fields]
        return self._together(moved, lambda plan, batch: plan.inverse(batch))

    def ddx(self, x, field):
        return self._slope(x, field, "x")

    def ddy(self, x, field):
        return self._slope(x, field, "y")

    def _slope(self, x, field, axis):
        """The derivative of a sine is k times the cosine; of a cosine, -k times the sine."""
        falls = axis not in self.series.periodic and axis not in ODD[field]
        return x * (-self.slopes[axis] if falls else self.slopes[axis])

    def _moved(self, x, field, centred, way):
        """Modes of a field at its own points from those of centred ones (way 1), or back (-1)."""
        for axis in "" if centred else ODD[field]:
            shift = self.shifts[axis]
            if shift is not None:
                x = x * (shift if way > 0 else jnp.conj(shift))
        return x

    def _together(self, fields, transform):
        batches, found = {}, [None] * len(fields)
        for n, (_, *what) in enumerate(fields):
            batches.setdefault(self.series.plan(*what), []).append(n)
        for plan, numbers in batches.items():
            for n, x in zip(numbers, transform(plan, jnp.stack([fields[n][0] for n in numbers]))):
                found[n] = x
        return found
