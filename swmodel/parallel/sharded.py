"""The communicator of several devices in one process: collectives of one program, by `jax.shard_map`.

Device number k of the mesh holds the tile of rank k. Each leaf of a model is one array in blocks over the mesh
(`Communicator.place`), and `spmd` makes a function of such arrays from a function of tiles. Its body runs without JAX's
own bookkeeping of replicated values (check_vma=False): operations have their own transposes (communicator.py), and
derivatives are taken inside the body. Taken outside, or through a plain psum, they would be wrong by the number of
devices.

Over several hosts each process holds the tiles of its own devices (`jax.distributed`, runtime/devices.py). Operations
on the host send their objects over the devices too, as bytes, so that numbers arrive unchanged in any precision.
"""

import contextlib
import functools
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from ..runtime.devices import leave
from .communicator import Communicator, rank_after_rank
from .decomposition import Decomposition, TileError, Windowed, row_blocks

T = TypeVar("T")

MESH = ("y", "x")
HEAD = 1024  # bytes that processes exchange at once; longer objects take a second round


class ShardedCommunicator(Communicator):
    """A mesh of `layout` = (py, px) devices. `rank` is the number of this process, `ranks` are the tiles that it holds.

    Args:
        layout: (py, px).
        devices: py * px devices in the order of ranks; the first of jax.devices() unless given.

    Raises:
        TileError: if there are fewer devices than tiles.
    """

    name = "sharded"

    def __init__(self, layout: tuple[int, int], devices: Sequence[Any] | None = None):
        self.layout, self.size = tuple(layout), layout[0] * layout[1]
        devices = jax.devices()[: self.size] if devices is None else list(devices)
        if len(devices) != self.size:
            raise TileError(
                f"layout {layout[0]} x {layout[1]} (y x x) needs {self.size} devices, and there are {len(devices)}; "
                "change the layout, or make more devices (--devices, or jax_num_cpu_devices on a CPU)."
            )
        self.mesh = Mesh(np.array(devices).reshape(self.layout), MESH, axis_types=(AxisType.Auto,) * 2)
        self.rank, self.processes = jax.process_index(), jax.process_count()
        self.gathers_alone = self.processes == 1
        self._here = {k: device for k, device in enumerate(devices) if device.process_index == self.rank}
        if self.processes > 1:
            _end_together()

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(self._here)

    @property
    def coordinates(self) -> tuple[int, int]:
        raise AttributeError(
            "the sharded communicator has many tiles, and no coordinates; use decomposition(shape).coordinates(rank)."
        )

    def decomposition(self, shape: tuple[int, int]) -> Decomposition:
        return Decomposition(tuple(shape), self.layout, padded=True)

    def tile_shape(self, shape: tuple[int, int]) -> tuple[int, int]:
        return self.decomposition(shape).box(0).shape

    def placed_shape(self, shape: tuple[int, int]) -> tuple[int, int]:
        (my, mx), (py, px) = self.tile_shape(shape), self.layout
        return my * py, mx * px

    # -- arrays on the mesh -------------------------------------------------------------------------------------------

    def spec(self, ndim: int) -> PartitionSpec:
        """The PartitionSpec of an array with `ndim` dimensions over the mesh."""
        if ndim < 2:
            return PartitionSpec(MESH) if ndim else PartitionSpec()
        return PartitionSpec(*[None] * (ndim - 2), *MESH)

    def place(self, make: Callable[[int], T]) -> T:
        return jax.tree.map(self._put, *(make(rank) for rank in self.ranks))

    def _put(self, *parts):
        """One array of the mesh from the host arrays of the tiles here."""
        parts = [jax.device_put(np.asarray(part), device) for part, device in zip(parts, self._here.values())]
        tile = parts[0].shape
        blocks = {0: (), 1: (self.size,)}.get(len(tile), (1,) * (len(tile) - 2) + self.layout)
        whole = tuple(n * k for n, k in zip(tile, blocks))
        sharding = NamedSharding(self.mesh, self.spec(len(tile)))
        return jax.make_array_from_single_device_arrays(whole, sharding, parts)

    def tiles(self, tree: T) -> dict[int, T]:
        leaves, structure = jax.tree.flatten(tree)
        held = [self._blocks(leaf) for leaf in leaves]
        return {rank: structure.unflatten([blocks[rank] for blocks in held]) for rank in self.ranks}

    def _blocks(self, x):
        if not isinstance(x, jax.Array) or x.ndim == 0:
            return dict.fromkeys(self.ranks, np.asarray(x) if isinstance(x, jax.Array) else x)
        x = jax.device_put(x, NamedSharding(self.mesh, self.spec(x.ndim)))
        by_device = {shard.device: shard.data for shard in x.addressable_shards}
        return {rank: np.asarray(by_device[device]) for rank, device in self._here.items()}

    def spmd(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def everywhere(*arguments):
            leaves, structure = jax.tree.flatten(arguments)
            self._check(leaves)
            found = []

            def body(*tiles):
                results, out = jax.tree.flatten(function(*structure.unflatten(tiles)))
                found[:] = [out]
                return results

            def mapped(specs):
                ins = tuple(self.spec(jnp.ndim(leaf)) for leaf in leaves)
                return jax.shard_map(body, mesh=self.mesh, in_specs=ins, out_specs=specs, check_vma=False)

            # The layout of a result depends on its number of dimensions, which a first trace finds.
            results = jax.eval_shape(mapped(PartitionSpec()), *leaves)
            program = mapped([self.spec(result.ndim) for result in results])
            if not any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
                program = jax.jit(program)  # otherwise each operation is compiled by itself
            return found[0].unflatten(program(*leaves))

        return everywhere

    def _check(self, leaves):
        for leaf in leaves:
            blocks = {0: (), 1: (self.size,)}.get(jnp.ndim(leaf), self.layout)
            shape = jnp.shape(leaf)[-len(blocks) :] if blocks else ()
            if any(n % k for n, k in zip(shape, blocks)):
                raise ValueError(
                    f"spmd: an argument of shape {jnp.shape(leaf)} has no equal blocks on a mesh of {self.layout[0]} x "
                    f"{self.layout[1]} devices; put whole-grid arrays there with `model.scatter`, others with `place`."
                )

    # -- verbs, inside `spmd` -----------------------------------------------------------------------------------------

    def _shift(self, x, axis, direction):
        n = self.along(axis)
        with _inside():
            return lax.ppermute(x, axis, [(k, (k + direction) % n) for k in range(n)])

    def _all_to_all(self, x, axis):
        with _inside():
            return lax.all_to_all(x, axis, x.ndim - 2, x.ndim - 2, tiled=True)

    def _sum(self, x, axis, ordered):
        axis = MESH if axis is None else axis
        with _inside():
            if not ordered:
                return lax.psum(x, axis)
            everyone = lax.all_gather(x, axis)
        return rank_after_rank(everyone)

    def _broadcast(self, x):
        return self._sum(self._on_root(x), None, False)

    def _sum_on_root(self, x):
        return self._on_root(self._sum(x, None, False))

    def _on_root(self, x):
        with _inside():
            return jnp.where(lax.axis_index(MESH) == 0, x, jnp.zeros_like(x))

    def _maximum(self, x):
        with _inside():
            return lax.pmax(x, MESH)

    def _gather(self, x, shape):
        parts, px = self.decomposition(shape), self.layout[1]
        with _inside():
            everyone = lax.all_gather(x, MESH)
        tiles = [parts.own(everyone[rank], rank) for rank in range(self.size)]
        rows = [jnp.concatenate(tiles[k : k + px], axis=-1) for k in range(0, self.size, px)]
        return self._on_root(jnp.concatenate(rows, axis=-2))

    def _scatter(self, x, shape):
        parts = self.decomposition(shape)
        blocks = [self._padded(x[(..., *parts.tile(k).slices)], parts, k) for k in range(self.size)]
        with _inside():
            return lax.psum_scatter(self._on_root(jnp.stack(blocks)), MESH, scatter_dimension=0)

    def _padded(self, x, parts, rank):
        return jnp.pad(x, [(0, 0)] * (x.ndim - 2) + [(n, 0) for n in parts.padding(rank)])

    # -- host ---------------------------------------------------------------------------------------------------------

    def gather_to_root(self, tile: jax.Array | np.ndarray, shape: tuple[int, int] | None = None) -> np.ndarray | None:
        parts = self.decomposition((tile.shape[-2], tile.shape[-1]) if shape is None else shape)
        if self.processes == 1:
            return parts.assemble(cast(dict[int, np.ndarray], self.tiles(tile)))
        tiles = {}
        for rank in range(self.size):  # one at a time, so that no device but the root's host holds more
            part = self._from_device(tile.reshape(-1, *tile.shape[-2:]), rank)
            if self.is_root:
                tiles[rank] = part.reshape(*tile.shape[:-2], *part.shape[-2:])
        return parts.assemble(tiles) if self.is_root else None

    def rows_to_root(
        self, tile: jax.Array, shape: tuple[int, int], most: int
    ) -> Iterator[tuple[tuple, np.ndarray | None]]:
        if self.processes == 1:
            yield from super().rows_to_root(tile, shape, most)
            return
        parts = self.decomposition(shape)
        for *index, rows in row_blocks((*tile.shape[:-2], *shape), tile.dtype.itemsize, most):
            block = np.empty((rows.stop - rows.start, shape[1]), tile.dtype) if self.is_root else None
            for rank, cells in parts.crossing(rows):
                here, columns = cells.within(*parts.box(rank).slices)
                part = self._from_device(tile[tuple(index)], rank, here)
                if block is not None:
                    block[cells.within(rows)] = part[:, columns]
            yield (*index, rows), block

    def _from_device(self, x, rank, rows=None):
        """The tile of one device, or some rows of it, on every host, with the same bits; collective.

        Every device holds a copy for a moment. The sum is one of integers, of which all others are 0, since a sum of
        floats would lose the sign of zeros.
        """
        rows = slice(0, x.shape[-2] // self.layout[0]) if rows is None else rows
        program = _rows_of_a_device(self.mesh, self.spec(x.ndim), rows.stop - rows.start)
        return np.asarray(program(x, np.int32(rank), np.int32(rows.start)).addressable_data(0)).view(x.dtype)

    def scatter_from_root(self, array: np.ndarray | Windowed | None, shape: tuple[int, int]) -> jax.Array | np.ndarray:
        parts = self.decomposition(shape)
        if self.processes == 1:
            return self.place(lambda rank: parts.cut(cast(Windowed, array), rank))
        tiles = {}
        for rank in range(self.size):  # one at a time: a process keeps those of its own devices alone
            part = self.host_broadcast(parts.cut(cast(Windowed, array), rank) if self.is_root else None)
            if rank in self.ranks:
                tiles[rank] = part
        return self.place(lambda rank: tiles[rank])

    def host_sum(self, array: np.ndarray) -> np.ndarray:
        return cast(np.ndarray, sum(map(np.asarray, self.host_gather(np.asarray(array)))))

    def host_maximum(self, value: float | np.ndarray) -> float | np.ndarray:
        largest = np.max([np.asarray(v, float) for v in self.host_gather(value)], axis=0)
        return largest if np.ndim(value) else float(largest)

    def host_broadcast(self, value: T) -> T:
        if self.processes == 1:
            return value
        from jax.experimental.multihost_utils import broadcast_one_to_all

        mine = _as_bytes(value) if self.is_root else np.zeros(0, np.uint8)
        found = broadcast_one_to_all(_filled_up(mine, HEAD))
        length = _length(found)
        if length > HEAD:
            found = broadcast_one_to_all(_filled_up(mine, _longer(length)))
        return pickle.loads(found[8:length].tobytes())

    def host_gather(self, value: T) -> list[T]:
        if self.processes == 1:
            return [value]
        from jax.experimental.multihost_utils import process_allgather

        mine = _as_bytes(value)
        everyone = process_allgather(_filled_up(mine, HEAD))
        lengths = [_length(one) for one in everyone]
        if max(lengths) > HEAD:
            everyone = process_allgather(_filled_up(mine, _longer(max(lengths))))
        return [pickle.loads(one[8:length].tobytes()) for one, length in zip(everyone, lengths)]

    def barrier(self) -> None:
        self.host_gather(None)


@functools.lru_cache(maxsize=64)
def _rows_of_a_device(mesh, spec, count):
    """The program (x, rank, first row) that gives every device `count` rows of one device's tile, as integers."""

    def body(tile, rank, first):
        part = lax.dynamic_slice_in_dim(tile, first, count, axis=-2)
        if part.dtype == bool:
            bits = part.astype(np.uint8)
        else:
            bits = lax.bitcast_convert_type(part, f"uint{8 * part.dtype.itemsize}")
        return lax.psum(jnp.where(lax.axis_index(MESH) == rank, bits, jnp.zeros_like(bits)), MESH)

    nowhere = PartitionSpec()
    return jax.jit(
        jax.shard_map(body, mesh=mesh, in_specs=(spec, nowhere, nowhere), out_specs=nowhere, check_vma=False)
    )


def _as_bytes(value):
    """A Python object as bytes, (n,); the first eight are the length of the rest."""
    content = pickle.dumps(value)
    return np.frombuffer(np.int64(len(content)).tobytes() + content, np.uint8)


def _length(received):
    """The number of received bytes that belong to the object, including the first eight."""
    return 8 + int(received[:8].copy().view(np.int64)[0])


def _filled_up(content, size):
    """The first `size` of the bytes, with zeros behind them."""
    buffer = np.zeros(size, np.uint8)
    buffer[: content.size] = content[:size]
    return buffer


def _longer(length):
    """The next power of two, so that few lengths are sent, and few programs compiled."""
    return 1 << (length - 1).bit_length()


@contextlib.contextmanager
def _inside():
    try:
        yield
    except NameError as error:
        raise RuntimeError(
            "an operation of the sharded communicator was called outside of a program for every tile; wrap the "
            "function that calls it in `communicator.spmd(function)`, and take derivatives inside."
        ) from error


def _end_together():
    """Make an uncaught exception end this process at once, so that the others do not wait for it."""
    earlier = sys.excepthook
    if getattr(earlier, "ends_all_ranks", False):
        return

    def end(kind, error, traceback):
        earlier(kind, error, traceback)
        leave(getattr(error, "exit_code", 1))

    end.ends_all_ranks = True
    sys.excepthook = end
