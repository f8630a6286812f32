"""One rank a process: the verbs as mpi4jax messages inside the jitted program, mpi4py on the host.

An exception that nothing caught ends all ranks: the others would wait for this one's messages for ever.
"""
import sys
import time

import jax.numpy as jnp
import mpi4jax
import numpy as np
from mpi4jax._src.utils import ordered_effect
from mpi4py import MPI

from .communicator import AXES, Communicator
from .decomposition import Decomposition, TileError

__all__ = ["MPICommunicator"]


class MPICommunicator(Communicator):
    """All ranks of `world` (COMM_WORLD unless given) on a mesh of `layout` = (py, px).

    Messages of the jitted program and of the host travel on duplicates of `world`, so that neither can match the
    other's.

    Raises:
        TileError: if py * px is not the number of ranks.
    """

    name = "mpi"
    effects = frozenset({ordered_effect})

    def __init__(self, layout, world=None):
        world = MPI.COMM_WORLD if world is None else world
        self.rank, self.size, self.layout = world.rank, world.size, tuple(layout)
        if layout[0] * layout[1] != self.size:
            raise TileError(
                f"layout {layout[0]} x {layout[1]} (y x x) needs {layout[0] * layout[1]} ranks, and {self.size} were "
                f"started; change the layout or start mpirun -n {layout[0] * layout[1]}."
            )
        self.device, self.host = world.Dup(), world.Dup()
        _end_together(self.host)
        iy, ix = self.coordinates
        self._lines = {"y": world.Split(color=ix, key=iy), "x": world.Split(color=iy, key=ix), None: self.device}

    def _neighbour(self, axis, step):
        place = list(self.coordinates)
        place[AXES[axis]] = (place[AXES[axis]] + step) % self.along(axis)
        return place[0] * self.layout[1] + place[1]

    def _shift(self, x, axis, direction):
        source, destination = self._neighbour(axis, -direction), self._neighbour(axis, direction)
        return mpi4jax.sendrecv(x, x, source, destination, comm=self.device)

    def _all_to_all(self, x, axis):
        return jnp.moveaxis(mpi4jax.alltoall(jnp.moveaxis(x, -2, 0), comm=self._lines[axis]), 0, -2)

    def _sum(self, x, axis, ordered):
        if ordered:
            return jnp.sum(mpi4jax.allgather(x, comm=self._lines[axis]), axis=0)
        return mpi4jax.allreduce(x, MPI.SUM, comm=self._lines[axis])

    def _broadcast(self, x):
        return mpi4jax.allreduce(self._mask_root(x), MPI.SUM, comm=self.device)

    def _only_on_root(self, x):
        return self._mask_root(mpi4jax.allreduce(x, MPI.SUM, comm=self.device))

    def _mask_root(self, x):
        return x if self.is_root else jnp.zeros_like(x)

    def _maximum(self, x):
        return mpi4jax.allreduce(x, MPI.MAX, comm=self.device)

    # -- host ---------------------------------------------------------------------------------------------------------

    def gather_to_root(self, tile):
        tile = np.ascontiguousarray(tile)
        shapes = self.host.gather(tile.shape)
        if not self.is_root:
            self.host.Send(tile, dest=0)
            return None
        py, px = self.layout
        rows = np.cumsum([0] + [shapes[iy * px][-2] for iy in range(py)])
        columns = np.cumsum([0] + [shapes[ix][-1] for ix in range(px)])
        whole = np.empty(tile.shape[:-2] + (rows[-1], columns[-1]), tile.dtype)
        for rank in range(self.size):
            iy, ix = divmod(rank, px)
            part = tile if rank == 0 else np.empty(shapes[rank], tile.dtype)
            if rank:
                self.host.Recv(part, source=rank)
            whole[..., rows[iy] : rows[iy + 1], columns[ix] : columns[ix + 1]] = part
        return whole

    def scatter_from_root(self, array, shape):
        leading, dtype = self.host.bcast((array.shape[:-2], array.dtype) if self.is_root else None)
        parts = Decomposition(tuple(shape), self.layout)
        tile = np.empty(leading + parts.tile(self.rank).shape, dtype)
        if not self.is_root:
            self.host.Recv(tile, source=0)
            return tile
        for rank in range(1, self.size):
            self.host.Send(np.ascontiguousarray(array[(..., *parts.tile(rank).slices)]), dest=rank)
        return np.ascontiguousarray(array[(..., *parts.tile(0).slices)])

    def host_sum(self, array):
        array = np.ascontiguousarray(array)
        total = np.empty_like(array)
        self.host.Allreduce(array, total)
        return total

    def host_maximum(self, value):
        values = np.atleast_1d(np.asarray(value, float))
        largest = np.empty_like(values)
        self.host.Allreduce(values, largest, MPI.MAX)
        return largest if np.ndim(value) else float(largest[0])

    def host_broadcast(self, value):
        return self.host.bcast(value)

    def host_gather(self, value):
        return self.host.allgather(value)

    def barrier(self):
        self.host.Barrier()

    def abort(self, status=1):
        sys.stdout.flush()
        sys.stderr.flush()
        self.host.Abort(status)


def _end_together(world):
    """Make an uncaught exception on any rank of `world` end them all, the root's message first."""
    earlier = sys.excepthook
    if getattr(earlier, "ends_all_ranks", False) or world.size == 1:
        return

    def end(kind, error, traceback):
        if world.rank:
            time.sleep(1.0)  # where all fail alike, the root tells
        earlier(kind, error, traceback)
        sys.stderr.flush()
        world.Abort(getattr(error, "exit_code", 1))

    end.ends_all_ranks = True
    sys.excepthook = end
