"""The communicator of MPI: one rank a process, mpi4jax inside the jitted program, mpi4py on the host.

An uncaught exception ends all ranks, since the others would wait for this one's messages for ever.

mpi4jax writes the handles of the communicator, the data type and the operation into each call of a program. Those of
Open MPI are addresses, which differ from process to process, so that a program could not be loaded by another one
(runtime/compilation.py). Here the calls that mpi4jax lowers get the number of an entry in a table instead, so that
programs that send messages can be kept on disk. They go to a function of the native runtime, which looks the handle up
and calls mpi4jax (stencils/native/handles.cpp). The ranks of neighbours are looked up likewise.

Without numbers every run with several ranks compiles all of its programs (docs/developers/reliability.md).

Calls with a communicator that is not in the table, of the user's own, are left alone, and so is everything where there
is no C++ compiler. All private names of mpi4jax are in this file.
"""

import ctypes
import functools
import importlib
import itertools
import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import mpi4jax
import numpy as np
from jax import lax
from jax.interpreters import mlir
from mpi4jax._src.utils import ordered_effect
from mpi4py import MPI
from numpy.typing import DTypeLike

from ..runtime.launch import LaunchError
from ..stencils.native import forwarded, set_handle, usable
from .communicator import AXES, Communicator, rank_after_rank
from .decomposition import Decomposition, Windowed, check_ranks

VERBS = ("sendrecv", "alltoall", "allreduce", "allgather", "bcast", "reduce", "gather", "scatter")
TYPES = (
    "FLOAT", "DOUBLE", "COMPLEX", "DOUBLE_COMPLEX", "INT8_T", "INT16_T", "INT32_T", "INT64_T",
    "UINT8_T", "UINT16_T", "UINT32_T", "UINT64_T", "BOOL",
)  # fmt: skip
OPERATIONS = ("SUM", "MAX", "MIN", "PROD")
FIRST_COMMUNICATOR, MOST = 32, 4096  # numbers in the table; those before are of types and operations
ENDS = ("source", "dest")  # attributes of sendrecv that hold a rank
HANDLES = ("comm", "op", "dtype", "sendtype", "recvtype")  # attributes that hold one, as in handles.cpp

_numbers: dict[int, int] = {}  # {handle: its number}
_ranks: dict[tuple[int | None, int], int] = {}  # {(number of a communicator, rank in it): the number of that rank}
_free = itertools.count(FIRST_COMMUNICATOR)


def number_communicators(*communicators: MPI.Comm) -> None:
    """Give numbers to these MPI communicators, in their order, for the programs that are compiled from now on.

    Runs that make their communicators in the same order get the same programs.
    """
    if not _forward_calls():
        return
    for communicator in communicators:
        number = next(_free)
        if number < MOST:
            _number(communicator, number)


def number_ranks(communicator: MPI.Comm, ranks: Sequence[int]) -> None:
    """Give numbers to these ranks, in their order, for messages on a communicator that has a number.

    Each rank names its own neighbours in the same order. The programs of all ranks are then the same where their tiles
    have the same shape, so that one rank can compile them for all.
    """
    if not _forward_calls() or (of := _numbers.get(_signed(MPI._handleof(communicator)))) is None:
        return
    for rank in ranks:
        number = next(_free)
        if number < MOST and (of, rank) not in _ranks:
            _ranks[of, rank] = number
            set_handle(number, rank)


def _number(mpi_object, number):
    handle = _signed(MPI._handleof(mpi_object))
    set_handle(_numbers.setdefault(handle, number), handle)


def _signed(handle):
    return handle - (1 << 64) if handle >= 1 << 63 else handle


@functools.cache
def _forward_calls():
    """Replace mpi4jax's lowering on CPUs; returns whether that could be done."""
    if not usable():
        return False
    try:
        targets = importlib.import_module("mpi4jax._src.xla_bridge").mpi_xla_bridge_cpu.ffi_targets
        modules = [importlib.import_module(f"mpi4jax._src.collective_ops.{verb}") for verb in VERBS]
        rules = [
            (getattr(module, f"mpi_{verb}_p"), getattr(module, f"mpi_{verb}_xla_encode_cpu"), targets[f"mpi_{verb}"])
            for verb, module in zip(VERBS, modules)
        ]
    except (ImportError, AttributeError, KeyError):
        return False
    for number, name in enumerate((*TYPES, *OPERATIONS)):
        _number(getattr(MPI, name), number)
    for k, (verb, (primitive, rule, target)) in enumerate(zip(VERBS, rules)):
        jax.ffi.register_ffi_target(_target(verb), jax.ffi.pycapsule(forwarded(k, _pointer(target))), platform="cpu")
        mlir.register_lowering(primitive, functools.partial(_lowered, verb, rule), platform="cpu")
    return True


def _target(verb):
    return f"swmodel_{verb}_numbered"


def _pointer(capsule):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return get(capsule, b"xla._CUSTOM_CALL_TARGET")


def _lowered(verb, rule, context, *operands, **parameters):
    """The lowering of mpi4jax's rule, with numbers in place of handles."""
    results = rule(context, *operands, **parameters)
    call = getattr(results[0], "owner", None)
    attributes = getattr(call, "attributes", None)
    if attributes is None or "call_target_name" not in attributes:
        return results  # no message
    configs = [name for name in ("mhlo.backend_config", "backend_config") if name in attributes]
    config = next(name for name in configs if isinstance(attributes[name], mlir.ir.DictAttr))
    values = {entry.name: entry.attr for entry in attributes[config]}
    numbers = {name: _numbers.get(values[name].value) for name in HANDLES if name in values}
    numbers |= {name: _ranks.get((numbers["comm"], values[name].value)) for name in ENDS if name in values}
    if None in numbers.values():
        return results
    integer = mlir.ir.IntegerType.get_signless(64)
    values |= {name: mlir.ir.IntegerAttr.get(integer, number) for name, number in numbers.items()}
    attributes[config] = mlir.ir.DictAttr.get(values)
    attributes["call_target_name"] = mlir.ir.StringAttr.get(_target(verb))
    return results


T = TypeVar("T")


PIECES = 77  # the tag of messages of `exchange_pieces`


class MPICommunicator(Communicator):
    """All ranks of `world` (COMM_WORLD unless given) on a mesh of `layout` = (py, px).

    Messages of the jitted program and of the host travel on duplicates of `world`, so that neither can match the
    other's. MPI counts elements in 32 bits before its version 4, and mpi4jax splits nothing: longer messages of the
    program go in pieces.

    Args:
        layout: (py, px).
        world: an MPI communicator.
        most_elements: that one message of the program may carry, to all ranks that it goes to together.
        most_bytes: likewise.

    Raises:
        TileError: if py * px is not the number of ranks.
    """

    name = "mpi"
    effects = frozenset({ordered_effect})

    def __init__(
        self,
        layout: tuple[int, int],
        world: MPI.Comm | None = None,
        most_elements: int = 2**31 - 1,
        most_bytes: int = 2**31 - 1,
    ):
        world = MPI.COMM_WORLD if world is None else world
        self.rank, self.size, self.layout = world.rank, world.size, tuple(layout)
        check_ranks(layout, self.size)
        if jax.default_backend() == "gpu" and not mpi4jax.has_cuda_support():
            raise LaunchError(
                "mpi4jax was built without CUDA support and cannot send arrays of GPUs; build it again where nvcc is "
                "found, or choose one process with several devices (communicator = 'sharded')."
            )
        self.most_elements, self.most_bytes = most_elements, most_bytes
        self.device, self.host = world.Dup(), world.Dup()
        _end_together(self.host)
        iy, ix = self.coordinates
        self._lines = {"y": world.Split(color=ix, key=iy), "x": world.Split(color=iy, key=ix), None: self.device}
        number_communicators(self.device, self._lines["y"], self._lines["x"])
        number_ranks(self.device, [self._neighbour(axis, step) for axis in AXES for step in (-1, 1)])

    # -- device: a message longer than MPI's counts, or than the caller's limit, goes in pieces ------------------------

    def _most(self, dtype, ranks=1):
        """How many elements for each of `ranks` ranks one call may carry."""
        return max(min(self.most_elements, self.most_bytes // np.dtype(dtype).itemsize) // ranks, 1)

    def pieces(self, elements: int, dtype: DTypeLike, ranks: int = 1) -> int:
        return max(-(-elements // self._most(dtype, ranks)), 1)

    def _in_pieces(self, call, x, ranks=1):
        """`call` of pieces of x along its last axis, put together again; each has `ranks` times as many elements."""
        most = self._most(x.dtype, ranks)
        starts = range(0, max(x.shape[-1], 1), most)
        parts = [call(lax.slice_in_dim(x, k, min(k + most, x.shape[-1]), axis=-1)) for k in starts]
        return parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis=-1)

    def _each(self, call, x, ranks=1):
        """`call`, which keeps shapes, of pieces of x whatever its shape."""
        return self._in_pieces(call, x.reshape(-1), ranks).reshape(x.shape)

    def _neighbour(self, axis, step):
        place = list(self.coordinates)
        place[AXES[axis]] = (place[AXES[axis]] + step) % self.along(axis)
        return place[0] * self.layout[1] + place[1]

    def _shift(self, x, axis, direction):
        source, destination = self._neighbour(axis, -direction), self._neighbour(axis, direction)
        return self._each(lambda p: mpi4jax.sendrecv(p, p, source, destination, comm=self.device), x)

    def _all_to_all(self, x, axis):
        ranks, blocks = self.along(axis), jnp.moveaxis(x, -2, 0)
        came = self._in_pieces(lambda p: mpi4jax.alltoall(p, comm=self._lines[axis]), blocks.reshape(ranks, -1), ranks)
        return jnp.moveaxis(came.reshape(blocks.shape), 0, -2)

    def _sum(self, x, axis, ordered):
        line = self._lines[axis]
        if not ordered:
            return self._each(lambda p: mpi4jax.allreduce(p, MPI.SUM, comm=line), x)

        return self._each(lambda p: rank_after_rank(mpi4jax.allgather(p, comm=line)), x, line.size)

    def _broadcast(self, x):
        return self._each(lambda p: mpi4jax.bcast(p, 0, comm=self.device), x)

    def _sum_on_root(self, x):
        total = self._each(lambda p: mpi4jax.reduce(p, MPI.SUM, 0, comm=self.device), x)
        return total if self.is_root else jnp.zeros_like(x)

    def _maximum(self, x):
        largest = lambda x: self._each(lambda p: mpi4jax.allreduce(p, MPI.MAX, comm=self.device), x)  # noqa: E731
        return _of_order(largest(_in_order(x)), x.dtype) if jnp.issubdtype(x.dtype, jnp.floating) else largest(x)

    def _tiles(self, shape):
        parts = self.decomposition(shape)
        return [parts.tile(rank) for rank in range(self.size)]

    def _gather(self, x, shape):
        tiles, lead = self._tiles(shape), x.shape[:-2]
        block = lead + tiles[0].shape  # the first tile is the largest, and all are sent as large
        x = jnp.pad(x, [(0, most - n) for most, n in zip(block, x.shape)]).reshape(-1)
        came = self._in_pieces(lambda p: mpi4jax.gather(p, 0, comm=self.device), x, self.size)
        if not self.is_root:
            return jnp.zeros(lead + shape, x.dtype)
        came = came.reshape(self.size, *block)
        parts = [came[(k, ..., slice(tile.shape[0]), slice(tile.shape[1]))] for k, tile in enumerate(tiles)]
        px = self.layout[1]
        rows = [jnp.concatenate(parts[k : k + px], axis=-1) for k in range(0, self.size, px)]
        return jnp.concatenate(rows, axis=-2)

    def _scatter(self, x, shape):
        tiles, lead = self._tiles(shape), x.shape[:-2]
        block, mine = lead + tiles[0].shape, tiles[self.rank].shape
        if self.is_root:
            parts = [x[(..., *tile.slices)] for tile in tiles]
            parts = [jnp.pad(p, [(0, most - n) for most, n in zip(block, p.shape)]) for p in parts]
            blocks = jnp.stack(parts).reshape(self.size, -1)
        else:
            blocks = jnp.zeros(math.prod(block), x.dtype)  # only its shape matters
        tile = self._in_pieces(lambda p: mpi4jax.scatter(p, 0, comm=self.device), blocks, self.size)
        return tile.reshape(block)[..., : mine[0], : mine[1]]

    # -- host ---------------------------------------------------------------------------------------------------------

    def gather_to_root(self, tile: jax.Array | np.ndarray, shape: tuple[int, int] | None = None) -> np.ndarray | None:
        own = np.asarray(tile)
        own = np.ascontiguousarray(own if shape is None else self.decomposition(shape).own(own, self.rank))
        shapes = self.host.gather(own.shape) or []
        if not self.is_root:
            self.host.Send(own, dest=0)
            return None
        py, px = self.layout
        rows = np.cumsum([0] + [shapes[iy * px][-2] for iy in range(py)])
        columns = np.cumsum([0] + [shapes[ix][-1] for ix in range(px)])
        whole = np.empty(own.shape[:-2] + (rows[-1], columns[-1]), own.dtype)
        for rank in range(self.size):
            iy, ix = divmod(rank, px)
            place = whole[..., rows[iy] : rows[iy + 1], columns[ix] : columns[ix + 1]]
            if rank == 0:
                place[...] = own
                continue
            direct = place.flags.c_contiguous  # tiles as wide as the grid
            part = place if direct else np.empty(shapes[rank], own.dtype)
            self.host.Recv(part, source=rank)
            if not direct:
                place[...] = part
        return whole

    def _rows(self, tiles, shape, where):
        parts, (*index, rows) = self.decomposition(shape), where
        own, crossing = tiles[self.rank], parts.crossing(rows)
        box = parts.tile(self.rank).slices
        if not self.is_root:
            for cells in (cells for rank, cells in crossing if rank == self.rank):
                self.host.Send(np.ascontiguousarray(own[(*index, *cells.within(*box))]), dest=0)
            return None
        block = np.empty((rows.stop - rows.start, shape[1]), own.dtype)
        for rank, cells in crossing:
            if rank == 0:
                block[cells.within(rows)] = own[(*index, *cells.within(*box))]
            else:
                part = np.empty(cells.shape, own.dtype)
                self.host.Recv(part, source=rank)
                block[cells.within(rows)] = part
        return block

    def scatter_from_root(self, array: np.ndarray | Windowed | None, shape: tuple[int, int]) -> jax.Array | np.ndarray:
        leading, dtype = self.host.bcast(None if array is None else (array.shape[:-2], array.dtype))
        parts = Decomposition(tuple(shape), self.layout)
        tile = np.empty(leading + parts.tile(self.rank).shape, dtype)
        if not self.is_root:
            self.host.Recv(tile, source=0)
            return tile
        for rank in range(1, self.size):
            self.host.Send(np.ascontiguousarray(parts.cut(cast(Windowed, array), rank)), dest=rank)
        return np.ascontiguousarray(parts.cut(cast(Windowed, array), 0))

    def host_sum(self, array: np.ndarray) -> np.ndarray:
        array = np.ascontiguousarray(array)
        total = np.empty_like(array)
        self.host.Reduce(array, total)
        self.host.Bcast(total)  # Allreduce need not give every rank the same bits, on which decisions depend
        return total

    def host_maximum(self, value: float | np.ndarray) -> float | np.ndarray:
        values = np.atleast_1d(np.asarray(value, float))
        largest = np.empty_like(values)
        self.host.Allreduce(values, largest, MPI.MAX)
        return largest if np.ndim(value) else float(largest[0])

    def host_broadcast(self, value: T) -> T:
        return self.host.bcast(value)

    def host_gather(self, value: T) -> list[T]:
        return self.host.allgather(value)

    def through_root(self, value: object, function: Callable) -> Any:
        values = self.host.gather(value)
        return self.host.scatter(function(values) if self.is_root else None)

    def exchange_pieces(self, pieces: dict[int, list], sources: set[int]) -> list:
        sent = [self.host.isend(piece, rank, PIECES) for rank, piece in pieces.items() if rank != self.rank]
        found = list(pieces.get(self.rank, []))
        for rank in sorted(sources - {self.rank}):
            found += self.host.recv(source=rank, tag=PIECES)
        MPI.Request.waitall(sent)
        return found

    def barrier(self) -> None:
        self.host.Barrier()


def _in_order(x):
    """Integers in the order of the floats x, with NaN above all: MPI_MAX itself may lose a NaN."""
    bits = lax.bitcast_convert_type(jnp.where(jnp.isnan(x), jnp.nan, x), f"int{8 * x.dtype.itemsize}")
    return jnp.where(bits < 0, bits ^ jnp.iinfo(bits.dtype).max, bits)


def _of_order(order, dtype):
    """The floats of `_in_order`."""
    return lax.bitcast_convert_type(jnp.where(order < 0, order ^ jnp.iinfo(order.dtype).max, order), dtype)


def _end_together(world):
    """Make an uncaught exception on any rank of `world` end them all, the root's message first."""
    earlier = sys.excepthook
    if getattr(earlier, "ends_all_ranks", False) or world.size == 1:
        return

    def end(kind, error, traceback):
        if world.rank:
            time.sleep(1.0)  # if all ranks fail alike, the root prints the message
        earlier(kind, error, traceback)
        sys.stderr.flush()
        world.Abort(getattr(error, "exit_code", 1))

    end.ends_all_ranks = True
    sys.excepthook = end
