"""The verbs with which tiles talk. Physics knows these and nothing of MPI or meshes.

    shift       send to the neighbour in `direction` along a mesh axis, receive from the opposite one (wraps around)
    all_to_all  block k along a mesh axis goes to rank k of that axis
    sum         of all ranks, or along a mesh axis: a distributed value becomes a replicated one
    replicated  a value that every rank holds enters distributed arithmetic: identity, whose transpose is `sum`
    maximum     of all ranks; has no derivative
    broadcast   the root's value on every rank

All are linear (but `maximum`) and carry their transposes: shift(+1) and shift(-1), all_to_all and itself, sum and
`the replicated cotangent, passed through`, replicated and sum. A value that every rank holds must go through
`replicated` before it meets a distributed one, or its gradient holds one rank's share only.

Host-side verbs (gather_to_root, scatter_from_root, agree, ...) move numpy arrays for output and control; they are
collective, and MPI gives them a communicator of their own.
"""
import abc

import jax

from ..linear import linear_pair
from .decomposition import Decomposition

__all__ = ["Communicator", "AXES"]

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
    "all_to_all",
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
    lambda y, *, communicator: communicator._only_on_root(y),
    _effects,
)


class Communicator(abc.ABC):
    """A mesh of `layout` = (py, px) ranks. One instance a run; hashed by identity, so that programs are cached."""

    effects = frozenset()
    name = "abstract"
    rank = 0
    size = 1
    layout = (1, 1)

    @property
    def is_root(self):
        return self.rank == 0

    @property
    def coordinates(self):
        """(iy, ix) of this rank in the mesh."""
        return divmod(self.rank, self.layout[1])

    def along(self, axis):
        """The number of ranks along mesh axis "y" or "x"."""
        return self.layout[AXES[axis]]

    def decomposition(self, shape):
        return Decomposition(tuple(shape), tuple(self.layout))

    # -- on the device, differentiable ------------------------------------------------------------------------------

    def shift(self, x, axis, direction):
        """Send x to the rank `direction` (+1 or -1) away along the axis; return what the opposite one sent."""
        return x if self.along(axis) == 1 else _shift(x, communicator=self, axis=axis, direction=direction)

    def all_to_all(self, x, axis):
        """x[..., k, :] goes to rank k along the axis; result[..., k, :] came from it."""
        return x if self.along(axis) == 1 else _all_to_all(x, communicator=self, axis=axis)

    def sum(self, x, axis=None, ordered=False):
        """The sum over all ranks, or along one axis; `ordered` adds in the order of ranks, bit for bit each time."""
        return x if self._alone(axis) else _sum(x, communicator=self, axis=axis, ordered=ordered)

    def replicated(self, x, axis=None):
        """Every rank's copy of one value, about to meet distributed ones; its cotangents are summed over ranks."""
        return x if self._alone(axis) else _replicated(x, communicator=self, axis=axis, ordered=False)

    def broadcast(self, x):
        """The root's x on every rank."""
        return x if self.size == 1 else _broadcast(x, communicator=self)

    def maximum(self, x):
        """The largest x of all ranks. Not differentiable: the tangent is zero."""
        x = jax.lax.stop_gradient(x)
        return x if self.size == 1 else self._maximum(x)

    def _alone(self, axis):
        return (self.size if axis is None else self.along(axis)) == 1

    @abc.abstractmethod
    def _shift(self, x, axis, direction): ...

    @abc.abstractmethod
    def _all_to_all(self, x, axis): ...

    @abc.abstractmethod
    def _sum(self, x, axis, ordered): ...

    @abc.abstractmethod
    def _broadcast(self, x): ...

    @abc.abstractmethod
    def _only_on_root(self, x): ...

    @abc.abstractmethod
    def _maximum(self, x): ...

    # -- on the host, collective ------------------------------------------------------------------------------------

    @abc.abstractmethod
    def gather_to_root(self, tile):
        """Tiles (..., ny, nx) of all ranks, put together on the root; None on the others."""

    @abc.abstractmethod
    def scatter_from_root(self, array, shape):
        """This rank's tile of the root's (..., *shape) array (None elsewhere); `shape` is the global (ny, nx)."""

    @abc.abstractmethod
    def host_sum(self, array):
        """The sum of numpy arrays over ranks, on every rank."""

    @abc.abstractmethod
    def host_maximum(self, value):
        """The largest of all ranks, on every rank: of a number, or number by number of an array."""

    @abc.abstractmethod
    def host_broadcast(self, value):
        """The root's Python object on every rank."""

    @abc.abstractmethod
    def host_gather(self, value):
        """The list of all ranks' Python objects, on every rank."""

    @abc.abstractmethod
    def barrier(self): ...

    @abc.abstractmethod
    def abort(self, status=1):
        """End every rank of the run with this exit status."""

    def agree(self, flag):
        """True on every rank if `flag` is true on any."""
        return bool(self.host_maximum(1.0 if flag else 0.0))

    def from_root(self, function):
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
