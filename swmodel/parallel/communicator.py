"""The operations by which tiles communicate. Physics uses these alone, and neither MPI nor meshes of devices.

    shift       send to the neighbour in `direction` along a mesh axis, receive from the opposite one (periodic)
    all_to_all  block k along a mesh axis goes to rank k of that axis
    sum         over all ranks, or along a mesh axis: a distributed value becomes a replicated one
    replicated  the identity on a value that every rank holds; its transpose is `sum`
    maximum     over all ranks; it has no derivative
    broadcast   the root's value on every rank
    gather      the tiles of all ranks as one array on the root; zeros elsewhere
    scatter     the root's whole array, cut into tiles; the arrays of other ranks are ignored

All but `maximum` are linear and declared with their transposes: shift(+1) and shift(-1), all_to_all and itself, sum and
the identity on replicated cotangents, replicated and sum, gather and scatter. Apply `replicated` once to a value that
every rank holds before it is combined with a distributed one. Otherwise its gradient is one rank's share only. For
numbers of Systems and steppers this happens when they are prepared, and must not be done twice. Operations take real,
complex and integer arrays (`maximum` no complex ones), and work inside jit, scan, while and vmap. Axes that vmap adds
come first, and are sent in the same messages.

Operations on the host (gather_to_root, scatter_from_root, agree, ...) move numpy arrays for output and control. They
are collective, and use an MPI communicator of their own.
"""

import abc
import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, overload

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from ..fields.linear import linear_pair, plain_primitive
from .decomposition import Decomposition, Windowed, row_blocks

AXES = {"y": 0, "x": 1}
T = TypeVar("T")


def _effects(communicator, **parameters):
    return communicator.effects


_shift, _ = linear_pair(
    "shift",
    lambda x, *, communicator, axis, direction: communicator._shift(x, axis, direction),
    lambda y, *, communicator, axis, direction: communicator._shift(y, axis, -direction),
    _effects,
)
_all_to_all, _ = linear_pair(
    "all_to_all_ranks",
    lambda x, *, communicator, axis: communicator._all_to_all(x, axis),
    lambda y, *, communicator, axis: communicator._all_to_all(y, axis),
    _effects,
)
_sum, _ = linear_pair(
    "sum_of_ranks",
    lambda x, *, communicator, axis, ordered: communicator._sum(x, axis, ordered),
    lambda y, *, communicator, axis, ordered: y,
    _effects,
)
_replicated, _ = linear_pair(
    "replicated",
    lambda x, *, communicator, axis, ordered: x,
    lambda y, *, communicator, axis, ordered: communicator._sum(y, axis, ordered),
    _effects,
)
_broadcast, _ = linear_pair(
    "broadcast_from_root",
    lambda x, *, communicator: communicator._broadcast(x),
    lambda y, *, communicator: communicator._sum_on_root(y),
    _effects,
    "sum_on_root",
)
_gather, _scatter = linear_pair(
    "gather_tiles",
    lambda x, *, communicator, shape: communicator._gather(x, shape),
    lambda y, *, communicator, shape: communicator._scatter(y, shape),
    _effects,
    "scatter_tiles",
)
_maximum = plain_primitive(
    "maximum_of_ranks",
    lambda x, *, communicator: communicator._maximum(x),
    _effects,
)


class Communicator(abc.ABC):
    """A mesh of `layout` = (py, px) ranks. A run has one instance, hashed by identity: programs are cached.

    A subclass implements the methods with an underscore. Each is one operation on one array of this rank. It is called
    inside the traced program, and only where there is more than one rank along the axis. It needs no derivative and no
    batching rule, and must take arrays with any number of leading axes:

        _shift(x, axis, direction)   x of the rank `direction` before this one along "y" or "x", periodic
        _all_to_all(x, axis)         block k of axis -2, of the length `along(axis)`, is exchanged with rank k's
        _sum(x, axis, ordered)       over all ranks (axis None) or along one; ordered: added one after another by rank
        _broadcast(x)                the root's x;  its transpose:
        _sum_on_root(x)              the sum of all ranks on the root, zeros elsewhere
        _gather(x, shape)            tiles (..., *tile_shape(shape)) to (..., *shape) on the root, zeros elsewhere
        _scatter(x, shape)           the root's (..., *shape) to tiles: the transpose of _gather
        _maximum(x)                  over all ranks
        pieces(elements, ...)        the number of messages into which the transport splits one, for `traffic`
        tile_shape(shape)            of a tile's arrays: padded where all tiles must have one shape

    `effects` are the JAX effects of these methods, which keep messages in order (MPI), or none.
    """

    effects = frozenset()
    name = "abstract"
    rank = 0
    size = 1
    layout = (1, 1)
    reaches_all = True  # whether sums and maxima are those of all ranks; False where one rank stands for many
    gathers_alone = False  # whether this process holds all tiles, so that any thread may call `gather_to_root`

    @property
    def is_root(self) -> bool:
        return self.rank == 0

    @property
    def coordinates(self) -> tuple[int, int]:
        """(iy, ix) of this rank in the mesh."""
        return divmod(self.rank, self.layout[1])

    def along(self, axis: str) -> int:
        """The number of ranks along mesh axis "y" or "x"."""
        if axis not in AXES:
            raise ValueError(f"axis = {axis!r} is not an axis of the mesh of ranks; give 'y' or 'x'.")
        return self.layout[AXES[axis]]

    def decomposition(self, shape: tuple[int, int]) -> Decomposition:
        return Decomposition(tuple(shape), tuple(self.layout))

    # -- where tiles are, and programs that run on all of them ---------------------------------------------------------

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks whose tiles this process holds."""
        return (self.rank,)

    @overload
    def place(self, make: Callable[[int], np.ndarray | np.generic]) -> jax.Array: ...

    @overload
    def place(self, make: Callable[[int], T]) -> T: ...

    def place(self, make: Callable[[int], object]) -> object:
        """The arguments of a program from `make(rank)`, a pytree of host arrays for each rank of this process.

        Serial and MPI communicators return those of their own rank. The sharded one makes one array of each leaf, in
        blocks over the mesh of devices: along the last two axes of leaves with two or more dimensions, one after
        another for vectors. Numbers, which are the same on every rank, are replicated.
        """
        return jax.device_put(make(self.rank))  # jnp.asarray compiles a program for each shape

    def spmd(self, function: Callable) -> Callable:
        """The program that applies `function` to the pytrees of each tile; it takes and returns results of `place`.

        Communication and derivatives belong inside `function`. The program is `function` itself where this process
        holds one tile.
        """
        return function

    def tiles(self, tree: T) -> dict[int, T]:
        """{rank: its pytree} for the ranks that this process holds, of a result of `place` or of a program."""
        return {self.rank: tree}

    def one_tile(self, tree: T) -> T:
        """The pytree of one of these ranks, such as of numbers and tables that are the same on all of them."""
        return next(iter(self.tiles(tree).values()))

    # -- on the device, differentiable ------------------------------------------------------------------------------

    def shift(self, x: jax.Array, axis: str, direction: int) -> jax.Array:
        """Send x to the rank `direction` (+1 or -1) away along the axis; return the x of the opposite one."""
        return x if self.along(axis) == 1 else _shift(x, communicator=self, axis=axis, direction=direction)

    def all_to_all(self, x: jax.Array, axis: str) -> jax.Array:
        """Send x[..., k, :] to rank k along the axis; result[..., k, :] is what rank k sent here."""
        if x.ndim < 2 or x.shape[-2] != self.along(axis):
            raise ValueError(
                f"all_to_all: the array has shape {x.shape} and there are {self.along(axis)} ranks along {axis}; "
                "give one block a rank along the last axis but one."
            )
        return x if self.along(axis) == 1 else _all_to_all(x, communicator=self, axis=axis)

    def sum(self, x: jax.Array, axis: str | None = None, ordered: bool = False) -> jax.Array:
        """The sum over all ranks, or along one axis; `ordered` adds by rank, with the same bits each time."""
        return x if self._alone(axis) else _sum(x, communicator=self, axis=axis, ordered=ordered)

    def replicated(self, x: jax.Array, axis: str | None = None) -> jax.Array:
        """A value that every rank holds, unchanged; its cotangents are summed over ranks.

        Apply it once, before the value is combined with distributed ones. It is applied to the numbers of Systems and
        steppers by dynamics/stages.py.
        """
        if self._alone(axis):
            return x
        return _replicated(x, communicator=self, axis=axis, ordered=False)

    def broadcast(self, x: jax.Array) -> jax.Array:
        """The root's x on every rank."""
        return x if self.size == 1 else _broadcast(x, communicator=self)

    def gather(self, tile: jax.Array, shape: tuple[int, int]) -> jax.Array:
        """The tiles of all ranks as one (..., *shape) array on the root, and zeros of that shape on the others.

        Args:
            tile: this rank's (..., *tile_shape(shape)).
            shape: the whole grid's (ny, nx).
        """
        shape = (int(shape[0]), int(shape[1]))
        if tile.shape[-2:] != self.tile_shape(shape):
            raise ValueError(
                f"gather: rank {self.rank} has a tile of shape {tile.shape}, where its part of a grid of {shape} cells "
                f"is {self.tile_shape(shape)}; give the tile's own cells, without halo."
            )
        return tile if self.size == 1 else _gather(tile, communicator=self, shape=shape)

    def scatter(self, whole: jax.Array) -> jax.Array:
        """This rank's tile of the root's (..., ny, nx) array; other ranks give any array of that shape and type."""
        if whole.ndim < 2:
            raise ValueError(f"scatter: the array has shape {whole.shape}; give the whole grid's, (..., ny, nx).")
        self.decomposition((whole.shape[-2], whole.shape[-1]))  # or it cannot be cut
        return whole if self.size == 1 else _scatter(whole, communicator=self, shape=tuple(whole.shape[-2:]))

    def maximum(self, x: jax.Array) -> jax.Array:
        """The largest x of all ranks. Not differentiable: the tangent is zero."""
        if jnp.issubdtype(x.dtype, jnp.complexfloating):
            raise TypeError(f"maximum: {x.dtype} numbers have no order; take the maximum of their absolute values.")
        x = jax.lax.stop_gradient(x)
        return x if self.size == 1 else _maximum(x, communicator=self)

    def _alone(self, axis):
        return (self.size if axis is None else self.along(axis)) == 1

    def tile_shape(self, shape: tuple[int, int]) -> tuple[int, int]:
        """(my, mx) of this rank's arrays on a grid of `shape` = (ny, nx) cells."""
        return self.decomposition(shape).tile(self.rank).shape

    def placed_shape(self, shape: tuple[int, int]) -> tuple[int, int]:
        """The shape of the result of `place` for such arrays of all ranks of this process."""
        return self.tile_shape(shape)

    def pieces(self, elements: int, dtype: DTypeLike, ranks: int = 1) -> int:
        """The number of messages that carry `elements` of `dtype` to each of `ranks` ranks at once."""
        return 1

    @abc.abstractmethod
    def _shift(self, x, axis, direction): ...

    @abc.abstractmethod
    def _all_to_all(self, x, axis): ...

    @abc.abstractmethod
    def _sum(self, x, axis, ordered): ...

    @abc.abstractmethod
    def _broadcast(self, x): ...

    @abc.abstractmethod
    def _sum_on_root(self, x): ...

    @abc.abstractmethod
    def _gather(self, x, shape): ...

    @abc.abstractmethod
    def _scatter(self, x, shape): ...

    @abc.abstractmethod
    def _maximum(self, x): ...

    # -- on the host, collective ------------------------------------------------------------------------------------

    @abc.abstractmethod
    def gather_to_root(self, tile: jax.Array | np.ndarray, shape: tuple[int, int] | None = None) -> np.ndarray | None:
        """The whole array of the tiles (..., my, mx) of all ranks, on the root; None on the others.

        Args:
            tile: a placed array. It may have one more row or column, for the faces on its low side; those at the
                domain's edge belong to the result.
            shape: the global (ny, nx); without it tiles have their own cells alone.
        """

    def rows_to_root(
        self, tile: jax.Array, shape: tuple[int, int], most: int
    ) -> Iterator[tuple[tuple, np.ndarray | None]]:
        """Yield the whole array of `gather_to_root` in blocks of rows, so that the root never holds more; collective.

        Args:
            tile: a placed array (..., my, mx).
            shape: the global (ny, nx).
            most: the largest block [bytes]; a block has one row or more.

        Yields:
            (index of the block in the array, the block (rows, nx) on the root and None elsewhere), in the order of the
            array's memory. Every rank must take all blocks.
        """
        own = {rank: np.asarray(part) for rank, part in self.tiles(tile).items()}
        for where in row_blocks((*tile.shape[:-2], *shape), tile.dtype.itemsize, most):
            yield where, self._rows(own, shape, where)

    def _rows(self, tiles, shape, where):
        """A block of `rows_to_root` from {rank: host tile}, where this process holds all tiles."""
        parts, (*index, rows) = self.decomposition(shape), where
        block = np.empty((rows.stop - rows.start, shape[1]), tiles[0].dtype)
        for rank, cells in parts.crossing(rows):
            block[cells.within(rows)] = tiles[rank][(*index, *cells.within(*parts.box(rank).slices))]
        return block

    @abc.abstractmethod
    def scatter_from_root(self, array: np.ndarray | Windowed | None, shape: tuple[int, int]) -> jax.Array | np.ndarray:
        """The placed tile of the root's (..., *shape) array (None elsewhere); `shape` is (ny, nx).

        The array may be one that is read by windows, `block(rows, columns)`; the root then holds one tile at a time.
        """

    @abc.abstractmethod
    def host_sum(self, array: np.ndarray) -> np.ndarray:
        """The sum of numpy arrays over ranks, on every rank."""

    @overload
    def host_maximum(self, value: np.ndarray) -> np.ndarray: ...

    @overload
    def host_maximum(self, value: float) -> float: ...

    @abc.abstractmethod
    def host_maximum(self, value: float | np.ndarray) -> float | np.ndarray:
        """The largest of all ranks, on every rank: of a number, or number by number of an array."""

    @abc.abstractmethod
    def host_broadcast(self, value: T) -> T:
        """The root's Python object on every rank."""

    @abc.abstractmethod
    def host_gather(self, value: T) -> list[T]:
        """The list of all ranks' Python objects, on every rank."""

    def through_root(self, value: object, function: Callable[[list], list]) -> Any:
        """This process's item of `function(the values of all processes)`, a list of one item for each of them.

        Only the root holds all values, and it alone calls `function`, where a communicator can do so.
        """
        return function(self.host_gather(value))[self.rank]

    def exchange_pieces(self, pieces: dict[int, list], sources: set[int]) -> list:
        """The objects that other ranks send to the tiles of this process, in one list; collective.

        Args:
            pieces: {rank: list of objects}, what this process sends.
            sources: the ranks that send objects to this process.
        """
        everyone, here = self.host_gather(pieces), set(self.ranks)
        return [x for sent in everyone for rank, objects in sent.items() if rank in here for x in objects]

    @abc.abstractmethod
    def barrier(self) -> None: ...

    def agree(self, flag: object) -> bool:
        """True on every rank if `flag` is true on any."""
        return bool(self.host_maximum(1.0 if flag else 0.0))

    def from_root(self, function: Callable[[], T]) -> T:
        """The result of `function()` on the root, on every rank; an exception that it raises is raised everywhere."""
        outcome: Any = None
        if self.is_root:
            try:
                outcome = function(), None
            except Exception as error:  # noqa: BLE001  it is raised again below, on all ranks
                outcome = None, error
        value, error = self.host_broadcast(outcome)
        if error is not None:
            raise error
        return value


UNROLLED = 64  # ranks, up to which an unrolled sum is faster than a loop, above all on GPUs


def rank_after_rank(everyone: jax.Array) -> jax.Array:
    """The sum of (ranks, ...) along the first axis, added in the order of ranks."""
    if len(everyone) > UNROLLED:
        return jax.lax.scan(lambda total, part: (total + part, None), everyone[0], everyone[1:])[0]
    return functools.reduce(lambda total, part: total + part, list(everyone))
