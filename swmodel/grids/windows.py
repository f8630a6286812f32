"""Values at every point of a grid, of which a rank evaluates or reads only the window that it needs.

A depth, a mask, a formula or a record of a file is a `GridValues`. It has the shape of the whole grid, and `block`
gives the values of some rows and columns. `Tile.cut` and `Decomposition.cut` (parallel/decomposition.py) take a
`GridValues` in place of an (ny, nx) array, and evaluate only the tile and its halo. `numpy.asarray` gives all values,
for grids that fit into one process.
"""

import abc
import inspect
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ..errors import ConfigError
from ..fields.parameters import array_of
from .grid import Grid

MARGIN = 4  # the number of cells around a block that are cached, so that halos need no second evaluation
BLOCK = 2**20  # the number of cells of the blocks in which one process goes through a whole grid


class GridValues(abc.ABC):
    """Values at the points of a grid at one C-grid position.

    Attributes:
        shape: (ny, nx) of the whole grid.
        dtype: of the values.
    """

    shape: tuple[int, int]
    dtype: np.dtype = np.dtype(float)
    ndim = 2

    @abc.abstractmethod
    def block(self, rows: slice, columns: slice) -> np.ndarray:
        """The values (rows, columns) of slices that start and stop within the grid."""

    def map(self, function: Callable, *others: "GridValues", dtype: DTypeLike = float) -> "Blocks":
        """The GridValues of `function(value, *others)`, point by point."""
        each = (self, *others)
        return Blocks(lambda *block: np.asarray(function(*(x.block(*block) for x in each)), dtype), self.shape, dtype)

    def at(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """The values (n,) at n points, given by their rows and columns."""
        rows, columns = np.asarray(rows), np.asarray(columns)
        values = np.empty(rows.shape, self.dtype)
        for j in np.unique(rows):  # the points of a row are taken from one block
            here = rows == j
            first, last = int(columns[here].min()), int(columns[here].max())
            values[here] = self.block(slice(int(j), int(j) + 1), slice(first, last + 1))[0][columns[here] - first]
        return values

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.block(slice(0, self.shape[0]), slice(0, self.shape[1])), dtype)


FieldLike: TypeAlias = ArrayLike | Callable[..., object] | GridValues
"""A field as a user gives it: a number, an array (ny, nx), a function of (x, y) of the grid, or GridValues."""


class Formula(GridValues):
    """A function of the coordinates (x, y), evaluated at the points of a window.

    Args:
        function: of x (1, columns) and y (rows, 1) [m, or degrees on the sphere]; its values must depend on the
            coordinates point by point.
        grid: the Grid.
        position: "h", "u", "v" or "q".
        check: `check(values)` raises an error for invalid values; None accepts all.
        name: the beginning of a message on the function.
    """

    def __init__(
        self, function: Callable, grid: Grid, position: str = "h", check: Callable | None = None, name: str = "the"
    ):
        self.function, self.grid, self.position, self.check, self.name = function, grid, position, check, name
        self.shape = grid.shape

    def block(self, rows: slice, columns: slice) -> np.ndarray:
        x, y = self.grid.coordinates(self.position, rows, columns)
        values = self._numbers((self.grid.known(x), y))
        shape = rows.stop - rows.start, columns.stop - columns.start
        if values.ndim == 2:  # a function that returns an array of the whole grid for any coordinates
            whole = [n == have != wanted for n, have, wanted in zip(self.shape, values.shape, shape)]
            values = values[tuple(part if all_of else slice(None) for part, all_of in zip((rows, columns), whole))]
        if values.ndim > 2 or any(n not in (1, wanted) for n, wanted in zip(values.shape[::-1], shape[::-1])):
            raise ConfigError(
                f"{self.name} function returns shape {values.shape} for x of shape {(1, shape[1])} and y of shape "
                f"{(shape[0], 1)}; it must return one value for each point."
            )
        values = np.broadcast_to(values, shape)
        if self.check is not None:
            self.check(values)
        return values

    def _numbers(self, coordinates):
        what = f"{self.name} function {getattr(self.function, '__name__', '')}".rstrip()
        try:
            inspect.signature(self.function).bind(*coordinates)
        except TypeError:
            raise ConfigError(f"{what} does not take two arguments; give a function of (x, y).") from None
        except ValueError:  # the signatures of some compiled functions cannot be inspected
            pass
        values = array_of(self.function(*coordinates))
        if values is None:
            raise ConfigError(f"{what} returns values that are not numbers; it must return one number for each point.")
        return np.asarray(values, float)


class Stored(GridValues):
    """Values in an (ny, nx) array, a number for all points, or a column or row of numbers.

    Args:
        array: a number, an (ny, nx), (ny, 1) or (1, nx) array.
        shape: (ny, nx).
    """

    def __init__(self, array: ArrayLike, shape: Sequence[int]):
        ny, nx = shape
        self.shape = ny, nx
        self.whole = np.broadcast_to(array, self.shape)
        self.dtype = self.whole.dtype

    def block(self, rows: slice, columns: slice) -> np.ndarray:
        return self.whole[rows, columns]


class Blocks(GridValues):
    """The values that a function gives of any block.

    Args:
        function: `function(rows, columns)`, of slices.
        shape: (ny, nx).
        dtype: of its values.
    """

    def __init__(self, function: Callable[[slice, slice], np.ndarray], shape: Sequence[int], dtype: DTypeLike = float):
        self.function, self.shape, self.dtype = function, (shape[0], shape[1]), np.dtype(dtype)

    def block(self, rows: slice, columns: slice) -> np.ndarray:
        return self.function(rows, columns)


def outer(rows: np.ndarray, columns: np.ndarray) -> Blocks:
    """The products of a number for each row (ny,) and one for each column (nx,)."""
    shape, dtype = (rows.size, columns.size), np.result_type(rows, columns)
    return Blocks(lambda j, i: np.outer(rows[j], columns[i]), shape, dtype)


def placed(parts: Sequence[tuple[Sequence[slice], GridValues]], shape: Sequence[int], dtype: DTypeLike) -> Blocks:
    """Values in some boxes of a grid (ny, nx), and 0 elsewhere; parts are ((rows, columns) of a box, its values)."""

    def block(rows, columns):
        total = np.zeros((rows.stop - rows.start, columns.stop - columns.start), dtype)
        for box, values in parts:
            pairs = list(zip((rows, columns), box))
            both = [slice(max(a.start, b.start), min(a.stop, b.stop)) for a, b in pairs]
            if all(part.start < part.stop for part in both):
                here, there = (
                    tuple(slice(part.start - of.start, part.stop - of.start) for part, of in zip(both, ends))
                    for ends in zip(*pairs)
                )
                total[here] = values.block(*there)
        return total

    return Blocks(block, shape, dtype)


class BlockCache:
    """A cache for a function of (rows, columns), slices, that returns arrays of such blocks.

    A block is evaluated with MARGIN cells around it, so that the cache usually contains the halo of a tile.

    Args:
        function: the function; the last axes of its arrays are (rows, columns).
        shape: (ny, nx).
        most: the number of blocks in the cache.
    """

    def __init__(self, function: Callable[[slice, slice], tuple], shape: Sequence[int], most: int = 8):
        self.function, self.shape, self.most = function, (shape[0], shape[1]), most
        self._blocks: list[tuple[tuple[slice, slice], tuple]] = []

    def ensure_capacity(self, most: int) -> None:
        """Let the cache hold `most` blocks or more."""
        self.most = max(self.most, most)

    def __call__(self, rows: slice, columns: slice) -> tuple:
        for (j, i), arrays in self._blocks:
            if j.start <= rows.start and rows.stop <= j.stop and i.start <= columns.start and columns.stop <= i.stop:
                part = (
                    slice(rows.start - j.start, rows.stop - j.start),
                    slice(columns.start - i.start, columns.stop - i.start),
                )
                return tuple(array[part] for array in arrays)
        whole_rows, whole_columns = self.shape
        around = _with_margin(rows, whole_rows), _with_margin(columns, whole_columns)
        arrays = self.function(*around)
        for array in arrays:
            array.setflags(write=False)
        self._blocks = [(around, arrays), *self._blocks[: self.most - 1]]
        return self(rows, columns)


class CachedValues(Blocks):
    """One of the arrays that the function of a BlockCache returns, the one of this number."""

    def __init__(self, cache: BlockCache, number: int = 0, dtype: DTypeLike = float):
        super().__init__(lambda *block: cache(*block)[number], cache.shape, dtype)


def _with_margin(part, n):
    return slice(max(part.start - MARGIN, 0), min(part.stop + MARGIN, n))


def cached(values: GridValues, most: int = 8) -> GridValues:
    """The same values with a cache of the `most` latest blocks."""
    if isinstance(values, (Stored, CachedValues)):
        return values
    evaluated = lambda rows, columns: (np.array(values.block(rows, columns)),)  # noqa: E731
    return CachedValues(BlockCache(evaluated, values.shape, most), dtype=values.dtype)


def grid_values(x: FieldLike, grid: Grid, position: str = "h", name: str = "the") -> GridValues:
    """GridValues at `position` of a number, an array, a function of (x, y), or GridValues.

    `name` is that of a Formula, for messages.
    """
    if isinstance(x, GridValues):
        return x
    return Formula(x, grid, position, name=name) if callable(x) else Stored(x, grid.shape)


def blocks_of(shape: Sequence[int], rows: int | None = None) -> list[tuple[slice, slice]]:
    """(rows, columns) of blocks of whole rows, of about BLOCK cells each, that cover a grid of `shape`."""
    ny, nx = shape
    rows = max(BLOCK // nx, 1) if rows is None else rows
    return [(slice(j, min(j + rows, ny)), slice(0, nx)) for j in range(0, ny, rows)]


# -- records in time --------------------------------------------------------------------------------------------------


def along_side(side: str, shape: Sequence[int]) -> tuple[slice, slice]:
    """(rows, columns) of the cells next to a side of a grid (ny, nx) or of a tile: "west", "east", "south", "north"."""
    ny, nx = shape
    lines = {"west": slice(0, 1), "east": slice(nx - 1, nx), "south": slice(0, 1), "north": slice(ny - 1, ny)}
    return (slice(0, ny), lines[side]) if side in ("west", "east") else (lines[side], slice(0, nx))


class GridRecords:
    """GridValues at several times. A record is read only when a window of it is needed.

    Args:
        values: a list of GridValues of one shape.

    Attributes:
        shape: (n, ny, nx).
        key: identifies the records: those with equal keys are the same. With None, records equal only themselves.
    """

    ndim = 3
    key: Hashable = None

    def __init__(self, values: Sequence[GridValues]):
        self.values = list(values)
        self.shape = (len(self.values), *self.values[0].shape)
        self.dtype = self.values[0].dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, k: int) -> GridValues:
        return self.values[k]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return np.stack([np.asarray(self[k], dtype) for k in range(len(self))])

    def same(self, other: object) -> bool:
        """Whether other records are the same, as far as that is known without reading them."""
        return self is other or (self.key is not None and self.key == getattr(other, "key", None))

    @staticmethod
    def in_box(values: np.ndarray, corner: Sequence[int], shape: Sequence[int]) -> "GridRecords":
        """Records `values` (n, rows, columns) of the cells from `corner` on, zero elsewhere on a grid of `shape`."""
        box = tuple(slice(first, first + n) for first, n in zip(corner, values.shape[1:]))
        return GridRecords([placed([(box, Stored(x, x.shape))], shape, x.dtype) for x in values])


class LazyRecords(GridRecords):
    """Records that are made when they are indexed, so that a million of them take no more memory than two.

    Args:
        make: `make(k)` gives the GridValues of record number k.
        shape: (n, ny, nx).
        key: as of GridRecords.
    """

    def __init__(self, make: Callable[[int], GridValues], shape: Sequence[int], key: Hashable = None):
        self.make, self.key, self.dtype = make, key, np.dtype(float)
        self.shape = shape[0], shape[1], shape[2]

    @property
    def values(self) -> list[GridValues]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """All records, of which none is read yet."""
        return [self[k] for k in range(len(self))]

    def __getitem__(self, k: int) -> GridValues:
        return self.make(range(len(self))[k])


class TileRecords:
    """A tile's records. The latest two stay in memory, and a thread may read one ahead.

    Args:
        records: GridRecords.
        cut: `cut(values)` gives the tile's array of GridValues.
    """

    def __init__(self, records: GridRecords, cut: Callable[[GridValues], np.ndarray]):
        self.records, self.cut = records, cut
        self._held: dict[int, np.ndarray] = {}
        self._coming: tuple[int, Any] | None = None  # (number of the record, Future of its array)

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, k: int) -> np.ndarray:
        k = range(len(self.records))[int(k)]
        if k not in self._held:
            array = self._taken(k)
            self._held = {**dict(list(self._held.items())[-1:]), k: array}
        return self._held[k]

    def _taken(self, k):
        """Record number k, from the thread if that reads this record; otherwise it is read now."""
        coming, self._coming = self._coming, None
        if coming is not None and coming[0] == k:
            return coming[1].result()
        return self._made(k)

    def _made(self, k):
        return self.cut(self.records[k])

    def read_ahead(self, k: int, submit: Callable[..., object]) -> None:
        """Start a thread that reads record number k, unless it is in memory or being read.

        `submit` is an Executor's method.
        """
        if k not in self._held and (self._coming is None or self._coming[0] != k):
            self._coming = k, submit(self._made, k)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return np.stack([np.asarray(self[k], dtype) for k in range(len(self))])
