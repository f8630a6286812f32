"""Distributed transforms of 2-D and 3-D fields: the distribution of points and modes over ranks.

The last axis is transformed first, the first one last. In between, axes are exchanged over lines of the mesh of ranks
(transposition.py). Fields are tiles before and after (decomposition.py):

    2-D  (ny, nx), tiles of rows over "y" and columns over "x". With one rank along x these are slabs, which take one
         message. Otherwise rows are first distributed over "x" too, so that x becomes whole, which takes three.
    3-D  (nz, ny, nx), z over "y", y over "x", x whole: pencils, which take two messages.

Modes stay where the last transform left them, in the transposed layout: axes in the opposite order, (kx, ky) or
(kx, ky, kz), the last one whole, the others in equal blocks over the ranks, with zeros after the last mode. So fields
of any size can be cut for any number of ranks. `transposed=False` sends the modes back to the ranks of the points, with
the axes in their order.

    plan = fft.Plan(communicator, (ny, nx))              # real to half the spectrum; or any other kinds, one an axis

    def smooth(eta):                                     # inside communicator.spmd(...): the tile of a field
        waves = plan.waves(spacing=(dy, dx))
        return plan.inverse(plan.forward(eta) * jnp.exp(-waves.squared * radius**2 / 2))

Everything is linear and carries its transpose: tangents, adjoints, Hessian products and vmap go through.
"""

import dataclasses
import math
import operator
from collections.abc import Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from numpy.typing import ArrayLike, DTypeLike

from ...errors import SwmodelError
from ...fields.state import pytree
from ..communicator import Communicator
from .kinds import Fourier, Kind, RealFourier
from .transposition import columns_for, coordinate, planes, transpose_axes, transpose_axes_back


class LayoutError(SwmodelError, ValueError):
    """An array is not the tile, or the block of modes, that a plan works on."""


@pytree
class Waves:
    """The modes that a rank holds; arrays that broadcast against its block of them.

    Attributes:
        k: wavenumber along each axis of the field, in the order of its axes (ky, kx) [radians per unit of the spacing].
        phase: radians from point to point, likewise: k times the spacing.
        numbers: the numbers of the modes along each axis.
        inside: 1 for modes, 0 in the padding after the last mode.
        plan: the Plan, for `weight`.
    """

    k: tuple
    phase: tuple
    numbers: tuple
    inside: jax.Array
    plan: Any = dataclasses.field(metadata={"static": True})

    @property
    def squared(self) -> jax.Array:
        """|k|^2."""
        return sum((jnp.square(k) for k in self.k[1:]), jnp.square(self.k[0]))

    @property
    def weight(self) -> jax.Array:
        """w with sum |x|^2 = sum w |X|^2, over all points and all modes of all ranks (Parseval)."""
        each = [kind.weight(i, n) for kind, i, n in zip(self.plan.kinds, self.numbers, self.plan.shape)]
        return math.prod(each) * self.inside


@dataclasses.dataclass(frozen=True)
class Plan:
    """A transform of fields of `shape`, distributed over the ranks of `communicator`.

    Args:
        communicator: a Communicator, with the layout (py, px) of the ranks.
        shape: (ny, nx) or (nz, ny, nx) points.
        kinds: a Kind an axis; unless given, RealFourier along the last and Fourier along the others.
        transposed: leave the modes in the transposed layout of the last transform, which saves messages.

    Raises:
        ValueError: for another number of axes or kinds, or kinds that do not go together.
        TileError: if there are fewer points along an axis than ranks.
    """

    communicator: Communicator
    shape: Any
    kinds: Any = None
    transposed: bool = True

    def __post_init__(self):
        try:
            shape = tuple(map(operator.index, self.shape))
        except TypeError:
            shape = ()
        if len(shape) not in (2, 3) or min(shape) < 1:
            raise ValueError(
                f"fft.Plan: shape = {self.shape} is not (ny, nx) or (nz, ny, nx); give 2 or 3 whole numbers, 1 or more."
            )
        if not isinstance(self.communicator, Communicator):
            raise ValueError(f"fft.Plan: {self.communicator!r} is not a Communicator; make one with make_communicator.")
        if isinstance(self.kinds, Kind):
            raise ValueError(f"fft.Plan: kinds = {self.kinds} is one for {len(shape)} axes; give a tuple of as many.")
        kinds = (*(Fourier(),) * (len(shape) - 1), RealFourier()) if self.kinds is None else tuple(self.kinds)
        if len(kinds) != len(shape) or not all(isinstance(kind, Kind) for kind in kinds):
            raise ValueError(
                f"fft.Plan: kinds = {kinds} for {len(shape)} axes; give one Kind for each, as Fourier() or Cosine(2)."
            )
        for later, earlier in zip(kinds, kinds[1:]):
            if later.takes == "real" and _is_complex(earlier.dtype(float)):
                raise ValueError(
                    f"fft.Plan: {type(later).__name__} needs real numbers, and {type(earlier).__name__} along the axis "
                    "after it, which is transformed before, makes complex ones; use Fourier there."
                )
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "kinds", kinds)
        self.communicator.decomposition(self.shape[:2])  # or the field cannot be cut so

    # -- sizes --------------------------------------------------------------------------------------------------------

    @property
    def _parts(self):
        """The Decomposition of the first two axes of the field."""
        return self.communicator.decomposition(self.shape[:2])

    @property
    def tile_shape(self) -> tuple[int, ...]:
        """The shape of this rank's array of the field."""
        return (*self.communicator.tile_shape(self.shape[:2]), *self.shape[2:])

    @property
    def modes(self) -> tuple[int, ...]:
        """The number of modes along each axis."""
        return tuple(kind.modes(n) for kind, n in zip(self.kinds, self.shape))

    @property
    def _blocks(self) -> Any:
        """The number of modes along each axis that a rank holds while another axis is whole."""
        py, px = self.communicator.layout
        if len(self.shape) == 2:
            return None, -(-self.modes[1] // (py * px))
        return None, -(-self.modes[1] // py), -(-self.modes[2] // px)

    @property
    def mode_shape(self) -> tuple[int, ...]:
        """The shape of a rank's array of modes, the same on all ranks."""
        if self.transposed:
            return (*self._blocks[:0:-1], self.modes[0])
        py, px = self.communicator.layout
        if len(self.shape) == 2:
            return -(-self.modes[0] // py), py * self._blocks[1]
        return -(-self.modes[0] // py), -(-self.modes[1] // px), self.modes[2]

    def mode_dtype(self, dtype: DTypeLike) -> np.dtype:
        """The type of the modes of a field of `dtype`."""
        found = np.dtype(dtype)
        for kind in self.kinds[::-1]:
            found = kind.dtype(found)
        return found

    # -- the transform ------------------------------------------------------------------------------------------------

    def forward(self, x: jax.Array) -> jax.Array:
        """The modes of a field: (..., *tile_shape) to (..., *mode_shape)."""
        self._check("forward", x, self.tile_shape)
        if self.kinds[-1].takes == "real" and _is_complex(x.dtype):
            raise LayoutError(
                f"fft: forward: got {x.dtype} numbers, and {type(self.kinds[-1]).__name__} takes real ones; "
                "use Fourier()."
            )
        modes = self._forward_2(x) if len(self.shape) == 2 else self._forward_3(x)
        return modes if self.transposed else self._natural(modes)

    def inverse(self, modes: jax.Array) -> jax.Array:
        """The field of these modes: (..., *mode_shape) to (..., *tile_shape); padding of modes is ignored."""
        self._check("inverse", modes, self.mode_shape)
        if not self.transposed:
            modes = self._transposed(modes)
        return self._inverse_2(modes) if len(self.shape) == 2 else self._inverse_3(modes)

    def _forward_2(self, x):
        (y, _), (rows, columns) = self.kinds, self._counts
        x = self._even(x)
        if len(columns) > 1:
            x = transpose_axes(jnp.swapaxes(x, -1, -2), self.communicator, "x", columns, self._shared_rows)
        x = self.kinds[1].forward(x)
        if len(columns) > 1:
            block = self._blocks[1] * len(rows)
            x = transpose_axes(x, self.communicator, "x", (self._shared_rows,) * len(columns), block)
            x = jnp.swapaxes(x[..., : max(rows)], -1, -2)
        return transpose_axes(x, self.communicator, "y", rows, self._blocks[1], kind=y)

    def _inverse_2(self, modes):
        (y, _), (rows, columns) = self.kinds, self._counts
        alone = len(columns) == 1
        x = transpose_axes_back(modes, self.communicator, "y", rows, self.modes[1] if alone else None, kind=y)
        if not alone:
            x = columns_for(jnp.swapaxes(x, -1, -2), self._shared_rows * len(columns))
            x = transpose_axes_back(x, self.communicator, "x", (self._shared_rows,) * len(columns), self.modes[1])
        x = self.kinds[1].inverse(x, self.shape[1])
        if not alone:
            x = jnp.swapaxes(transpose_axes_back(x, self.communicator, "x", columns, max(rows)), -1, -2)
        return self._own(x)

    def _forward_3(self, x):
        (z, y, along_x), (layers, rows) = self.kinds, self._counts

        def in_planes(x):
            return transpose_axes(along_x.forward(x), self.communicator, "x", rows, self._blocks[2], kind=y)

        x = in_planes(self._even(x)) if len(rows) > 1 else planes(in_planes, self._even(x))
        return transpose_axes(x, self.communicator, "y", layers, self._blocks[1], across=True, kind=z)

    def _inverse_3(self, modes):
        (z, y, along_x), (layers, rows) = self.kinds, self._counts

        def in_planes(x):
            x = transpose_axes_back(x, self.communicator, "x", rows, self.modes[2], kind=y)
            return along_x.inverse(x, self.shape[2])

        x = transpose_axes_back(modes, self.communicator, "y", layers, self.modes[1], across=True, kind=z)
        return self._own(in_planes(x) if len(rows) > 1 else planes(in_planes, x))

    def _natural(self, x):
        """Modes, moved to the ranks and the order of axes of the points."""
        py, px = self.communicator.layout
        first = -(-self.modes[0] // py)
        x = transpose_axes_back(columns_for(x, first * py), self.communicator, "y", (first,) * py)
        if len(self.shape) == 2:
            return x
        second = -(-self.modes[1] // px)
        x = columns_for(jnp.swapaxes(x[..., : self.modes[1]], -3, -2), second * px)
        return transpose_axes_back(x, self.communicator, "x", (second,) * px)[..., : self.modes[2]]

    def _transposed(self, x):
        py, px = self.communicator.layout
        if len(self.shape) == 3:
            x = columns_for(x, self._blocks[2] * px)
            x = transpose_axes(x, self.communicator, "x", (x.shape[-2],) * px)
            x = columns_for(jnp.swapaxes(x[..., : self.modes[1]], -3, -2), self._blocks[1] * py)
        return transpose_axes(x, self.communicator, "y", (x.shape[-2],) * py)[..., : self.modes[0]]

    # -- blocks -------------------------------------------------------------------------------------------------------

    @property
    def _counts(self):
        """(points of the first axis on each rank along "y", of the second along "x")."""
        (n, m), (py, px) = self.shape[:2], self.communicator.layout
        return tuple(n // py + (k < n % py) for k in range(py)), tuple(m // px + (k < m % px) for k in range(px))

    @property
    def _shared_rows(self):
        """Rows of a 2-D tile that each rank along x transforms."""
        rows, columns = self._counts
        return -(-max(rows) // len(columns))

    def _even(self, x):
        """A tile, padded to the largest one's shape; tiles of the sharded communicator have this shape already."""
        widths = [(most - n, 0) for most, n in zip(map(max, self._counts), self.tile_shape)]
        if not any(low for low, _ in widths):
            return x
        return jnp.pad(x, [(0, 0)] * (x.ndim - len(self.shape)) + widths + [(0, 0)] * (len(self.shape) - 2))

    def _own(self, x):
        first = [most - n for most, n in zip(map(max, self._counts), self.tile_shape)]
        return x[(..., slice(first[0], None), slice(first[1], None), *(slice(None),) * (len(self.shape) - 2))]

    def _check(self, verb, x, shape):
        if message := self._misfit(verb, x, shape):
            raise LayoutError(message)
        if not jnp.issubdtype(x.dtype, jnp.inexact):
            raise LayoutError(f"fft: {verb}: got {x.dtype} numbers; give real or complex floating-point ones.")

    def _misfit(self, verb, x, shape):
        """A sentence on what is wrong with the shape of an array; None if it is right."""
        if x.ndim < len(shape) or x.shape[-len(shape) :] != tuple(shape):
            what = "its tile of the field" if verb in ("forward", "gather") else "its block of modes"
            return (
                f"fft: {verb}: got an array of shape {x.shape}, where a rank of this plan has {tuple(shape)}, {what} "
                f"of {self.shape} points; give the rank's own points (or modes) alone, behind any leading axes."
            )
        return None

    # -- wavenumbers --------------------------------------------------------------------------------------------------

    def waves(self, spacing: float | Sequence[float] | None = None, dtype: DTypeLike | None = None) -> Waves:
        """The Waves that this rank holds; inside `communicator.spmd`, as the transforms.

        Args:
            spacing: between points along each axis, in the order of the axes; 1 unless given.
            dtype: float32 or float64; JAX's default float unless given.

        Raises:
            ValueError: for another number of spacings, or one that is not positive.
        """
        dtype = jax.dtypes.canonicalize_dtype(dtype or float)
        spacing = self.spacing(spacing)
        iy, ix = (coordinate(self.communicator, axis) for axis in "yx")
        numbers, phases, inside = [], [], jnp.ones((1,) * len(self.shape), dtype)
        for axis, (kind, n, modes) in enumerate(zip(self.kinds, self.shape, self.modes)):
            first, count, place = self._mode_range(axis, iy, ix)
            i = (first + jnp.arange(count)).reshape([-1 if k == place else 1 for k in range(len(self.shape))])
            inside = inside * (i < modes).astype(dtype)
            numbers.append(jnp.minimum(i, modes - 1).astype(dtype))  # padding repeats the last mode
            phases.append(kind.phase(numbers[-1], n))
        ks = tuple(phase / jnp.asarray(step, dtype) for phase, step in zip(phases, spacing))
        return Waves(ks, tuple(phases), tuple(numbers), inside, self)

    def spacing(self, given: float | Sequence[float] | None) -> tuple:
        """One number an axis, between points; 1 unless given."""
        several = isinstance(given, (tuple, list)) or getattr(given, "ndim", 0)
        found: Any = (
            (1.0,) * len(self.shape) if given is None else tuple(cast(Sequence, given)) if several else (given,)
        )
        known = [step for step in found if not isinstance(step, Tracer)]
        if len(found) != len(self.shape) or not all(step > 0 for step in known):
            raise ValueError(
                f"fft: spacing = {given!r} for {len(self.shape)} axes; give a positive distance of points for each."
            )
        return found

    def mode_range(self, axis: int, rank: int) -> tuple[int, int, int]:
        """(first mode, number of modes, array axis) along the field's `axis` in a rank's block, maybe none."""
        return self._mode_range(axis, *divmod(rank, self.communicator.layout[1]))

    def _mode_range(self, axis, iy, ix):
        """(first mode, number of modes, array axis) along the field's `axis` in the block of the rank at (iy, ix)."""
        place = len(self.shape) - 1 - axis if self.transposed else axis
        blocks = {
            (2, True): (0, ix * self.communicator.layout[0] + iy),
            (2, False): (iy, ix),
            (3, True): (0, iy, ix),
            (3, False): (iy, ix, 0),
        }
        count = self.mode_shape[place]
        return blocks[len(self.shape), self.transposed][axis] * count, count, place

    # -- on the host --------------------------------------------------------------------------------------------------

    def place(self, whole: ArrayLike) -> jax.Array:
        """The placed tiles of a host array (..., *shape) that every process has."""
        whole, parts = np.asarray(whole), self._parts
        if whole.shape[-len(self.shape) :] != self.shape:
            raise LayoutError(
                f"fft: place: got an array of shape {whole.shape}; give the whole field, (..., *{self.shape})."
            )
        if len(self.shape) == 2:
            return self.communicator.place(lambda rank: parts.cut(whole, rank))
        first = np.moveaxis(whole, -1, 0)
        return self.communicator.place(lambda rank: np.ascontiguousarray(np.moveaxis(parts.cut(first, rank), 0, -1)))

    def gather(self, tiles: jax.Array) -> np.ndarray | None:
        """The host array (..., *shape) of the tiles of a field, on the root; None elsewhere. Collective."""
        held = self._collected(tiles, "gather", self.tile_shape)
        if held is None or len(self.shape) == 2:
            return None if held is None else self._parts.assemble(held)
        return np.moveaxis(self._parts.assemble({rank: np.moveaxis(x, -1, 0) for rank, x in held.items()}), 0, -1)

    def gather_modes(self, modes: jax.Array) -> np.ndarray | None:
        """The host array (..., *modes) of a block of modes, axes as the field's, on the root; else None. Collective."""
        held, d = self._collected(modes, "gather_modes", self.mode_shape), len(self.shape)
        if held is None:
            return None
        whole = None
        for rank, block in held.items():
            if self.transposed:
                block = np.moveaxis(block, range(-d, 0), range(-1, -d - 1, -1))
            whole = np.zeros((*block.shape[:-d], *self.modes), block.dtype) if whole is None else whole
            starts = [self.mode_range(axis, rank)[0] for axis in range(d)]
            keep = [slice(0, max(n - start, 0)) for n, start in zip(self.modes, starts)]
            block = block[(..., *keep)]
            whole[(..., *(slice(start, start + n) for start, n in zip(starts, block.shape[-d:])))] = block
        return whole

    def _collected(self, tiles, verb, shape):
        """{rank: its array} on the root."""
        mine = {k: np.asarray(x) for k, x in self.communicator.tiles(tiles).items()}
        wrong = [message for x in mine.values() if (message := self._misfit(verb, x, shape))]
        if self.communicator.agree(bool(wrong)):  # all raise, or some would wait for the others
            raise LayoutError(*wrong[:1] or [f"fft: {verb}: another rank's array is not what this plan has there."])
        everyone = self.communicator.host_gather(mine)
        return {rank: x for held in everyone for rank, x in held.items()} if self.communicator.is_root else None


def _is_complex(dtype):
    return jnp.issubdtype(dtype, jnp.complexfloating)
