"""The communication verbs of tiles. Physics uses these alone, and neither MPI nor meshes.

    shift       send to the neighbour in `direction` along a mesh axis, receive from the opposite one (wraps around)
    all_to_all  block k along a mesh axis goes to rank k of that axis
    sum         of all ranks, or along a mesh axis: a distributed value becomes a replicated one
    replicated  a value that every rank holds enters distributed arithmetic: identity, whose transpose is `sum`
    maximum     of all ranks; has no derivative
    broadcast   the root's value on every rank
    gather      the tiles of all ranks, put together on the root; zeros elsewhere
    scatter     the root's whole array, cut into tiles; what other ranks hold is ignored

All are linear (but `maximum`) and carry their transposes: shift(+1) and shift(-1), all_to_all and itself, sum and
the identity on replicated cotangents, replicated and sum, gather and scatter. A value that every rank holds must go
through `replicated` once before it meets a distributed one, or its gradient is one rank's share only. The numbers of
Dynamics and steppers do so when they are prepared, and must not do so again. Every verb takes real, complex and integer
arrays (`maximum` no complex ones) and works inside jit, scan, while and vmap: axes that vmap adds come first, and are
sent in the same messages.

Host-side verbs (gather_to_root, scatter_from_root, agree, ...) move numpy arrays for output and control; they are
collective, and MPI gives them a communicator of their own.
"""

import abc
import functools
import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from ..fields.linear import linear_pair, plain_primitive
from .decomposition import Decomposition
from .lineage import came_through

__all__ = ["Communicator", "AXES", "rank_after_rank"]

AXES = {"y": 0, "x": 1}


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
SETTLING = frozenset(("sum_of_ranks", "broadcast_from_root"))  # what every rank holds whole, with its whole gradient
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
    """A mesh of `layout` = (py, px) ranks. One instance a run; hashed by identity, so that programs are cached.

    A subclass implements the methods with an underscore. Each is one verb for one array of this rank, and is called
    inside the traced program, only where there is more than one rank along the axis. It needs no derivative and no
    batching rule, and must take arrays with any number of leading axes:

        _shift(x, axis, direction)   x of the rank `direction` before this one along "y" or "x", around the ends
        _all_to_all(x, axis)         block k of axis -2, of the length `along(axis)`, changes places with rank k's
        _sum(x, axis, ordered)       over all ranks (axis None) or along one; ordered: added one after another by rank
        _broadcast(x)                the root's x;  its transpose:
        _sum_on_root(x)              the sum of all ranks on the root, zeros elsewhere
        _gather(x, shape)            tiles (..., *tile_shape(shape)) to (..., *shape) on the root, zeros elsewhere
        _scatter(x, shape)           the root's (..., *shape) to tiles: the transpose of _gather
        _maximum(x)                  over all ranks
        pieces(elements, ...)        into how many messages the transport splits one, for `traffic`
        tile_shape(shape)            of the arrays of physics: padded where all tiles must have one shape

    `effects` are the JAX effects of these methods, which keep messages in order (MPI), or none.
    """

    effects = frozenset()
    name = "abstract"
    rank = 0
    size = 1
    layout = (1, 1)
    gathers_alone = False  # whether `gather_to_root` sends no messages, as this process holds all tiles: on any thread

    @property
    def is_root(self) -> bool:
        return self.rank == 0

    @property
    def coordinates(self) -> tuple[Any, Any]:
        """(iy, ix) of this rank in the mesh."""
        return divmod(self.rank, self.layout[1])

    def along(self, axis: str) -> int:
        """The number of ranks along mesh axis "y" or "x"."""
        if axis not in AXES:
            raise ValueError(f"the mesh of ranks has the axes 'y' and 'x', and {axis!r} came; name one of these.")
        return self.layout[AXES[axis]]

    def decomposition(self, shape: tuple[int, int]) -> Decomposition:
        return Decomposition(tuple(shape), tuple(self.layout))

    # -- where tiles are, and programs that run on all of them ---------------------------------------------------------

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks whose tiles this process holds."""
        return (self.rank,)

    def place(self, make: Callable[[int], Any]) -> Any:
        """What programs take for a tile: `make(rank)`, a pytree of host arrays, for every rank that this process holds.

        Serial and MPI communicators hand on their own rank's. The sharded one puts all into one array a leaf, block by
        block in the mesh of devices: leaves of two or more dimensions along their last two, those of one dimension
        one after another; numbers, the same from every rank, are replicated.
        """
        return jax.tree.map(jnp.asarray, make(self.rank))

    def spmd(self, function: Callable) -> Callable:
        """`function` of tile pytrees, run on every tile: what takes and gives pytrees such as `place` makes.

        Verbs are called, and derivatives taken, inside `function`. It is `function` itself where this process holds
        one tile.
        """
        return function

    def tiles(self, tree: Any) -> dict[int, Any]:
        """{rank: its tile pytree} for the ranks that this process holds, of what `place` made or a program returned."""
        return {self.rank: tree}

    # -- on the device, differentiable ------------------------------------------------------------------------------

    def shift(self, x: Any, axis: str, direction: int) -> jax.Array:
        """Send x to the rank `direction` (+1 or -1) away along the axis; return what the opposite one sent."""
        return x if self.along(axis) == 1 else _shift(x, communicator=self, axis=axis, direction=direction)

    def all_to_all(self, x: Any, axis: str) -> jax.Array:
        """x[..., k, :] goes to rank k along the axis; result[..., k, :] came from it."""
        if x.ndim < 2 or x.shape[-2] != self.along(axis):
            raise ValueError(
                f"all_to_all: the array has shape {x.shape} and there are {self.along(axis)} ranks along {axis}; "
                "give one block a rank along the last axis but one."
            )
        return x if self.along(axis) == 1 else _all_to_all(x, communicator=self, axis=axis)

    def sum(self, x: Any, axis: str | None = None, ordered: bool = False) -> Any:
        """The sum over all ranks, or along one axis; `ordered` adds rank after rank, bit for bit the same each time."""
        return x if self._alone(axis) else _sum(x, communicator=self, axis=axis, ordered=ordered)

    def replicated(self, x: Any, axis: str | None = None) -> Any:
        """Every rank's copy of one value, about to meet distributed ones; its cotangents are summed over ranks.

        The numbers of Dynamics and steppers go through it by themselves (dynamics/replicated.py).
        """
        if self._alone(axis):
            return x
        x = _replicated(x, communicator=self, axis=axis, ordered=False)
        self._entered[id(x)] = x
        return x

    def is_marked_replicated(self, x: Any) -> bool:
        """Whether x is what `replicated` returned, or was made of that in this trace with no sum over ranks since."""
        return self._entered.get(id(x)) is x or came_through(x, "replicated", SETTLING)

    @functools.cached_property
    def _entered(self):
        return weakref.WeakValueDictionary()

    def broadcast(self, x: Any) -> jax.Array:
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

    def scatter(self, whole: Any) -> jax.Array:
        """This rank's tile of the root's (..., ny, nx) array; other ranks give any array of that shape and type."""
        if whole.ndim < 2:
            raise ValueError(f"scatter: the array has shape {whole.shape}; give the whole grid's, (..., ny, nx).")
        self.decomposition(whole.shape[-2:])  # or it cannot be cut
        return whole if self.size == 1 else _scatter(whole, communicator=self, shape=tuple(whole.shape[-2:]))

    def maximum(self, x: Any) -> jax.Array:
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
        """Of what `place` makes of such arrays of all ranks here."""
        return self.tile_shape(shape)

    def pieces(self, elements: int, dtype: DTypeLike, ranks: int = 1) -> int:
        """How many messages take `elements` of `dtype` to each of `ranks` ranks at once."""
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
    def gather_to_root(self, tile: jax.Array, shape: tuple[int, int] | None = None) -> np.ndarray | None:
        """Tiles (..., my, mx) of all ranks, put together on the root; None on the others.

        Args:
            tile: as programs hold it; with one more row or column where it has the faces on its low side, too: they are
                kept at the domain's edge.
            shape: the global (ny, nx); without it tiles have their own cells alone.
        """

    @abc.abstractmethod
    def scatter_from_root(self, array: Any, shape: tuple[int, int]) -> Any:
        """The tile, as programs hold it, of the root's (..., *shape) array (None elsewhere); `shape` is (ny, nx)."""

    @abc.abstractmethod
    def host_sum(self, array: Any) -> Any:
        """The sum of numpy arrays over ranks, on every rank."""

    @abc.abstractmethod
    def host_maximum(self, value: Any) -> Any:
        """The largest of all ranks, on every rank: of a number, or number by number of an array."""

    @abc.abstractmethod
    def host_broadcast(self, value: Any) -> Any:
        """The root's Python object on every rank."""

    @abc.abstractmethod
    def host_gather(self, value: Any) -> list:
        """The list of all ranks' Python objects, on every rank."""

    def through_root(self, value: Any, function: Callable[[list], list]) -> Any:
        """This process's item of `function(the values of all processes)`, a list of one item for each of them.

        Only the root holds all values, and it alone calls `function`, where a communicator can do so.
        """
        return function(self.host_gather(value))[self.rank]

    def exchange_pieces(self, pieces: dict[int, list], sources: set[int]) -> list:
        """What the tiles of this process are sent: the lists of all ranks, one after another; collective.

        Args:
            pieces: {rank: list of objects} for the ranks that something goes to.
            sources: the ranks that something comes from.
        """
        everyone, here = self.host_gather(pieces), set(self.ranks)
        return [x for sent in everyone for rank, objects in sent.items() if rank in here for x in objects]

    @abc.abstractmethod
    def barrier(self) -> None: ...

    @abc.abstractmethod
    def abort(self, status: int = 1) -> None:
        """End every rank of the run with this exit status."""

    def agree(self, flag: Any) -> bool:
        """True on every rank if `flag` is true on any."""
        return bool(self.host_maximum(1.0 if flag else 0.0))

    def from_root(self, function: Callable) -> Any:
        """What `function()` returned on the root, on every rank; what it raised there is raised everywhere."""
        outcome = None
        if self.is_root:
            try:
                outcome = function(), None
            except Exception as error:  # noqa: BLE001  it is raised again below, on all ranks
                outcome = None, error
        value, error = self.host_broadcast(outcome)
        if error is not None:
            raise error
        return value


UNROLLED = 64  # ranks; a loop over few numbers takes longer than adding them, on GPUs above all


def rank_after_rank(everyone: jax.Array) -> jax.Array:
    """The sum of (ranks, ...) along the first axis, added in the order of ranks."""
    if len(everyone) > UNROLLED:
        return jax.lax.scan(lambda total, part: (total + part, None), everyone[0], everyone[1:])[0]
    return functools.reduce(lambda total, part: total + part, list(everyone))
