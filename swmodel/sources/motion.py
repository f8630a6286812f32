"""The motion of the sea floor above the faults of a source, and the uplift of the water by it.

The floor moves by the sum over faults i of

    U_i(lon, lat) s_i(t),   s_i(t) = sum over windows k of slip_ik min(1, max(0, (t - onset_ik) / rise_time_ik)),

U_i per metre of slip, s_i piecewise linear in time. A sloping floor that moves sideways lifts the water too (Tanioka &
Satake 1996, doi:10.1029/96GL00736): with the depth H positive downwards and u positive to the east, north and up,

    uplift = u_up + u_east dH/d(east) + u_north dH/d(north).

Uplift by many faults: exact in cells near each fault, and interpolated from a lattice of points elsewhere.

A fault's displacement is smooth away from it. So it is evaluated at every cell of a block around the fault only, and at
the nodes of a lattice of every `spacing`-th cell everywhere; the nodes of all faults are added up before they are
interpolated to the cells, by cubic polynomials in x and y:

    uplift = I sum_i s_i U_i(nodes) + sum_i s_i (U_i(cells) - I U_i(nodes))   in the block of fault i

The block reaches REACH nodes beyond a fault, where the error of I is below 3 (spacing / distance)^4 of what that fault
lifts, about 2e-3. n faults on N cells need about n (N / spacing^2 + (2 REACH spacing)^2) points in place of n N.

A BottomMotion is a sea floor that moves during a run, in records of the cumulative uplift, of faults or of a file.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ..dynamics.terms import Series
from ..errors import ConfigError
from ..fields import parameters
from ..grids.grid import CartesianGrid, SphericalGrid
from ..grids.windows import GridRecords, Stored
from .fault import REFERENCES, Fault, Source, final_slip, numpy_for, top_of
from .okada import Rectangle, surface_displacement

REACH = 6  # nodes from a fault to the end of its block
LEAST = 10**9  # points, of all faults in all cells, from which a lattice is used


def cubic_weights(count: int, spacing: int) -> np.ndarray:
    """(count, count / spacing + 3): from nodes at cells -spacing, 0, spacing, ... to the cells 0, 1, ..., count - 1."""
    cells = np.arange(count)
    t = cells % spacing / spacing
    at = [t + 1, t, t - 1, t - 2]  # distances from the four nodes around
    factors = zip((-1 / 6, 1 / 2, -1 / 2, 1 / 6), range(4))
    weights = [factor * np.prod([x for m, x in enumerate(at) if m != k], axis=0) for factor, k in factors]
    matrix = np.zeros((count, count // spacing + 3))
    for k, column in enumerate(weights):
        matrix[cells, cells // spacing + k] = column
    return matrix


@dataclasses.dataclass(frozen=True)
class Lattice:
    """The nodes of a patch of cells.

    Attributes:
        spacing: cells from one node to the next.
        shape: of the patch.
        block: rows and columns of the cells around a fault's reference point, multiples of the spacing.
    """

    spacing: int
    shape: tuple[int, int]
    block: tuple[int, int]

    @classmethod
    def of(cls, shape: tuple[int, int], reach: tuple[int, int], faults: int) -> "Lattice | None":
        """The Lattice of a patch with so many faults that reach so many cells; None where it would save little."""
        cells = math.prod(shape)
        spacing = int((cells / (2 * REACH) ** 2) ** 0.25)
        if spacing < 3 or faults * cells < LEAST:
            return None
        rows, columns = (spacing * (math.ceil(size / spacing) + 2 * REACH + 1) for size in reach)
        lattice = cls(spacing, shape, (rows, columns))
        return lattice if 2 * lattice.points < cells else None

    @property
    def points(self) -> int:
        """At which the displacement by one fault is evaluated, apart from those of refined cells."""
        nodes = (math.prod(n // self.spacing + 3 for n in shape) for shape in (self.padded, self.block))
        return sum(nodes) + math.prod(self.block)

    @property
    def padded(self) -> tuple[int, int]:
        """The shape of the patch, with cells beyond it up to a multiple of the spacing."""
        rows, columns = (self.spacing * math.ceil(max(n, b) / self.spacing) for n, b in zip(self.shape, self.block))
        return rows, columns

    def corner(self, corner: tuple[float | jax.Array, float | jax.Array]) -> tuple[jax.Array, jax.Array]:
        """The corner of a block at a node, for one near it."""
        row, column = (
            jnp.clip((k + self.spacing // 2) // self.spacing, 0, (n - b) // self.spacing) * self.spacing
            for k, n, b in zip(corner, self.padded, self.block)
        )
        return row, column

    def to_cells(self, values: jax.Array, shape: tuple[int, int]) -> jax.Array:
        """Values (..., ny, nx) in cells from those at nodes of them (..., ny / spacing + 3, nx / spacing + 3)."""
        to_y, to_x = (jnp.asarray(cubic_weights(n, self.spacing), values.dtype) for n in shape)
        return jnp.einsum("ji,...ik,lk->...jl", to_y, values, to_x)


def _per_metre(source, fault, longitude, latitude):
    """(east, north, up) [m] at the points for 1 m of slip on one fault."""
    fault = jax.tree.map(lambda leaf: jnp.asarray(leaf, longitude.dtype), fault)
    east, north = source.projection.local(longitude, latitude, (fault.longitude, fault.latitude))
    strike, rake = jnp.deg2rad(fault.strike), jnp.deg2rad(fault.rake)
    along, down = REFERENCES[fault.reference]
    x = east * jnp.sin(strike) + north * jnp.cos(strike) + along * fault.length
    y = north * jnp.sin(strike) - east * jnp.cos(strike) - down * fault.width * jnp.cos(jnp.deg2rad(fault.dip))
    top = top_of(fault)
    rectangle = Rectangle(fault.length, fault.width, jnp.where(top < 0, 0, top), fault.dip)
    ux, uy, uz = surface_displacement(x, y, rectangle, (jnp.cos(rake), jnp.sin(rake), 0.0), source.poisson_ratio)
    return ux * jnp.sin(strike) - uy * jnp.cos(strike), ux * jnp.cos(strike) + uy * jnp.sin(strike), uz


def sum_over_faults(source: Source, amounts: ArrayLike, field: Callable[[Fault], jax.Array]) -> jax.Array:
    """The sum over faults of amounts[m, i] field(fault i), with one fault's field in memory at a time.

    Args:
        source: Source.
        amounts: slip of each fault, (m, faults) [m].
        field: the function of one fault (a Fault with scalar leaves) whose values, an array of any shape, are summed.

    Returns:
        (m, *shape of the field).
    """
    like = jax.eval_shape(field, jax.tree.map(lambda leaf: leaf[0], source.faults))

    @jax.checkpoint  # else the derivative keeps the intermediate results of every fault
    def add(total, fault_and_amounts):
        fault, amount = fault_and_amounts
        values = field(fault)
        return total + amount.reshape(-1, *[1] * values.ndim) * values[None], None

    amounts = jnp.asarray(amounts, like.dtype)
    total = jnp.zeros((amounts.shape[0], *like.shape), like.dtype)
    return jax.lax.scan(add, total, (source.faults, amounts.T))[0]


def per_metre_at(
    source: Source, longitude: ArrayLike, latitude: ArrayLike, part: Callable[..., jax.Array]
) -> Callable[[Fault], jax.Array]:
    """The function of a fault that gives `part` of its (east, north, up) at the points for 1 m of slip, one array.

    Args:
        source: Source.
        longitude, latitude: of the points [degrees], broadcast against each other.
        part: a linear function of (east, north, up) [m], for instance `lift(gradient)`.
    """
    longitude, latitude = jnp.broadcast_arrays(jnp.asarray(longitude, float), jnp.asarray(latitude, float))
    return lambda fault: part(*_per_metre(source, fault, longitude, latitude))


def lift(gradient: Sequence[ArrayLike] | None) -> Callable[[jax.Array, jax.Array, jax.Array], jax.Array]:
    """The function of a displacement (east, north, up) that gives the uplift of the water [m].

    `gradient` is the (east, north) gradient of the depth [1]; with None the floor is level.
    """
    if gradient is None:
        return lambda east, north, up: up
    return lambda east, north, up: (
        up + east * jnp.asarray(gradient[0], up.dtype) + north * jnp.asarray(gradient[1], up.dtype)
    )


@jax.jit
def displacement(source: Source, longitude: ArrayLike, latitude: ArrayLike) -> jax.Array:
    """(east, north, up) [m] in the end, (3, ny, nx), at longitudes (1, nx) and latitudes (ny, 1) or both (ny, nx)."""
    field = per_metre_at(source, longitude, latitude, lambda *parts: jnp.stack(parts))
    return sum_over_faults(source, final_slip(source)[None], field)[0]


@functools.partial(jax.jit, static_argnames="each")
def uplift(
    source: Source,
    longitude: ArrayLike,
    latitude: ArrayLike,
    gradient: Sequence[ArrayLike] | None = None,
    each: bool = False,
) -> jax.Array:
    """The final uplift of the water by the sea floor [m].

    Args:
        source: Source.
        longitude, latitude: of the points [degrees], (1, nx) and (ny, 1) or both (ny, nx).
        gradient: (dH/d(east), dH/d(north)) of the depth there (`depth_gradient`) for the share of the horizontal
            motion; None leaves it out.
        each: whether to return every fault's own share.

    Returns:
        (ny, nx), or (faults, ny, nx).
    """
    field = per_metre_at(source, longitude, latitude, lift(gradient))
    if not each:
        return sum_over_faults(source, final_slip(source)[None], field)[0]

    def share(fault):
        values = field(fault)
        return jnp.sum(jnp.asarray(fault.slip, values.dtype)) * values

    return jax.lax.map(share, source.faults)


def breakpoints(source: Source, shortest_rise: ArrayLike = 1.0) -> np.ndarray | jax.Array:
    """The onsets and ends of all windows that slip, ascending [s], between which the motion is linear in time.

    If they are traced their values are unknown, and equal ones, and those of windows without slip, are not removed.
    """
    faults = source.faults
    xp = numpy_for(faults.slip, faults.onset, faults.rise_time)
    times = xp.stack([faults.onset, faults.onset + xp.maximum(faults.rise_time, shortest_rise)])
    if xp is jnp:
        return jnp.sort(times.reshape(-1))
    times = np.sort(np.append(times[:, faults.slip > 0].reshape(-1), [] if np.any(faults.slip > 0) else 0.0))
    return times[np.diff(times, prepend=-np.inf) > 1e-6]


def records(
    source: Source,
    longitude: ArrayLike,
    latitude: ArrayLike,
    times: ArrayLike | None = None,
    gradient: Sequence[ArrayLike] | None = None,
    shortest_rise: float = 1.0,
) -> tuple[np.ndarray | jax.Array, jax.Array]:
    """The history of the sea floor, for linear interpolation in time (constant before the first and after the last).

    Args:
        source, longitude, latitude, gradient: as in `uplift`.
        times: when to sample it [s], ascending, up to the end of all slip; None for all `breakpoints`, between which it
            is linear: exact, and one field of memory each.
        shortest_rise: what a shorter rise time, 0 too, is taken to be [s]; give the model's time step.

    Returns:
        (times (m,) [s], uplift so far (m, ny, nx) [m]).

    Raises:
        ConfigError: for times that do not ascend, or that end before the slip does.
    """
    times, amounts = slip_history(source, times, shortest_rise)
    return times, sum_over_faults(source, amounts, per_metre_at(source, longitude, latitude, lift(gradient)))


def slip_history(
    source: Source, times: Any = None, shortest_rise: float = 1.0
) -> tuple[np.ndarray | jax.Array, jax.Array]:
    """(times (m,) [s], slip of every fault by then (m, faults) [m]), as `records` takes them."""
    if shortest_rise <= 0:
        raise ConfigError(f"records: shortest_rise = {shortest_rise} s is not positive; give the model's time step.")
    ends = breakpoints(source, shortest_rise)
    times = ends if times is None else times
    if numpy_for(times, ends) is np and (np.any(np.diff(times) <= 0) or times[-1] < ends[-1] - 1e-6):
        raise ConfigError(
            f"records: times, which end at {times[-1]:g} s, must ascend and reach the end of all slip, {ends[-1]:g} s."
        )
    faults = jax.tree.map(jnp.asarray, source.faults)
    elapsed = jnp.asarray(times, faults.onset.dtype)[:, None, None] - faults.onset[None]
    risen = jnp.clip(elapsed / jnp.maximum(faults.rise_time, shortest_rise)[None], 0.0, 1.0)
    return times, jnp.sum(risen * faults.slip[None], axis=2)


def depth_gradient(
    grid: CartesianGrid | SphericalGrid, depth: ArrayLike, rows: slice = slice(None), columns: slice = slice(None)
) -> tuple[np.ndarray, np.ndarray]:
    """(dH/d(east), dH/d(north)) of depths [m], by centred differences; none on land (depth <= 0).

    Args:
        grid: the Grid.
        depth: (ny, nx), or of some `rows` and `columns` of the grid.
        rows, columns: all unless given.
    """
    depth = np.asarray(depth, float)
    x, y = grid.x_centres[columns], grid.y_centres[rows]
    if isinstance(grid, SphericalGrid):
        x, y = grid.radius * np.deg2rad(x), grid.radius * np.deg2rad(y)
    east, north = np.gradient(depth, x, axis=1), np.gradient(depth, y, axis=0)
    if grid.spherical:
        east = east / np.cos(np.deg2rad(grid.y_centres[rows]))[:, None]
    return np.where(depth > 0, east, 0.0), np.where(depth > 0, north, 0.0)


@dataclasses.dataclass(frozen=True)
class BottomMotion:
    """A sea floor that moves: cumulative uplift [m], (n, ny, nx), at `times` [s], linear in between.

    It raises the surface and lowers H by the same amount, in water alone. Motion that is faster than a time step takes
    one step; a first record that is not zero is such a motion.

    The rise during a step is added to the surface after the step, whatever the stepper's order. This splitting is of
    first order: while the floor moves, waves are generated up to one step late, dt/2 on average. The error is of the
    order of dt times the rate of the uplift. The volume that is lifted is exact. Tsunami sources last a hundred steps
    or more; where half a step matters, use a shorter time step.

    Args:
        times: increasing, from 0 on [s], (n,).
        uplift: since the start, at these times [m], (n, ny, nx) or GridRecords.
    """

    times: Any
    uplift: Any

    def series(self, domain: Any) -> Series:
        for name, ndim in (("times", 1), ("uplift", 3)) if not isinstance(self.uplift, GridRecords) else ():
            numbers = parameters.array_of(getattr(self, name))
            if numbers is None or numbers.ndim != ndim:
                remedy = "(n,) numbers in s" if ndim == 1 else "an (n, ny, nx) array in m"
                parameters.refuse("BottomMotion", name, getattr(self, name), "is not such an array", remedy)
            if bad := np.count_nonzero(~np.isfinite(numbers)):
                raise ConfigError(
                    f"BottomMotion: {name} is not finite in {bad} of {numbers.size} values; give numbers everywhere, "
                    "such as an uplift of 0 on land."
                )
        uplift = self.uplift if isinstance(self.uplift, GridRecords) else np.asarray(self.uplift)
        times = np.asarray(self.times, float)
        if uplift.shape[1:] != domain.grid.shape or len(uplift) != len(self.times):
            raise ValueError(
                f"BottomMotion: uplift has shape {uplift.shape} for {len(self.times)} times; "
                f"it must be (times, ny, nx) = ({len(self.times)}, {domain.grid.ny}, {domain.grid.nx})."
            )
        if times[0] < 0 or (np.diff(times) <= 0).any():
            raise ValueError(
                f"BottomMotion: times = {times.tolist()} s do not increase from 0 on; count from the start."
            )
        if domain.any(uplift[0]):
            times = np.append(times[0], times)
            if isinstance(uplift, GridRecords):
                uplift = GridRecords([Stored(np.zeros((), uplift.dtype), domain.grid.shape), *uplift.values])
            else:
                uplift = np.concatenate([np.zeros_like(uplift[:1]), uplift])
        return domain.series(times, uplift)
