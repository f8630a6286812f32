"""netCDF files of series, of single moments, and of parts of a grid, which the root rank writes; records.py has others.

    GaugeFile     time series at points, one record a step (CF discrete sampling geometry timeSeries)
    write_fields  fields of one moment or of the whole run (maxima, arrival times)
    GridPart      a box of the cells of a grid, and means over blocks of them

A field at the centres of a block of n x n cells is the mean over the area of those that may be wet, as is the depth.
`area` is this area. A block may be wet if any of its cells may be. A field at a face of a block is the mean over those
of its n faces that touch water. A corner keeps its value.
"""

import dataclasses
import functools
import time as clock
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ..defaults import LONGEST_CHUNK
from ..errors import ConfigError
from ..fields.variables import Variable
from ..grids.grid import Grid, limits_on
from . import BLOCKS, Claim, definitions, metadata
from .definitions import FieldsOfOneTime, Moment, checked_shape, dry_points, variable_name
from .metadata import Attribute
from .records import Opening, RecordFile


@dataclasses.dataclass(frozen=True)
class GridPart:
    """Some rows and columns of the cells of a grid, in blocks of `coarsen` x `coarsen`.

    Attributes:
        whole: the Grid.
        rows, columns: slices of its cells, whose lengths are multiples of `coarsen`.
        coarsen: cells along the side of a block.
        static: that of the whole grid, as of FieldFile, once the file is open.
    """

    whole: Grid
    rows: slice
    columns: slice
    coarsen: int
    static: Mapping[Any, np.ndarray] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, path: str | Path, grid: Grid, box: Sequence[float] | None, coarsen: int) -> Self:
        """The part of the cells whose centres lie in a box (x0, x1, y0, y1), up to whole blocks.

        Raises:
            ConfigError: for a box that is empty, has less than two blocks along an axis, or lies at both ends of the
                grid's longitudes; `path` is that of the file.
        """
        if box is not None and (len(box) != 4 or not (box[0] < box[1] and box[2] < box[3])):
            raise ConfigError(f"{path}: box = {tuple(box)} is no box; give (x0, x1, y0, y1) with x0 < x1 and y0 < y1.")
        x, y = (None, None) if box is None else (limits_on(box[:2], grid, f"{path}: the box"), box[2:])
        parts = []
        for name, centres, limits in (("y", grid.y_centres, y), ("x", grid.x_centres, x)):
            inside = np.arange(centres.size)
            if limits is not None:
                inside = np.flatnonzero((centres >= limits[0]) & (centres <= limits[1]))
            count = inside.size // coarsen
            if count < 2:
                raise ConfigError(
                    f"{path}: the box has {inside.size} cells along {name}, and coarsen = {coarsen} needs "
                    f"{2 * coarsen} or more; give a larger box, or coarsen less."
                )
            parts.append(slice(int(inside[0]), int(inside[0]) + count * coarsen))
        return cls(grid, parts[0], parts[1], coarsen)

    @property
    def grid(self) -> Grid:
        """The Grid of the blocks."""
        (x0, x1), (y0, y1) = (
            (float(edges[part.start]), float(edges[part.stop]))
            for edges, part in ((self.whole.x_edges, self.columns), (self.whole.y_edges, self.rows))
        )
        nx, ny = ((part.stop - part.start) // self.coarsen for part in (self.columns, self.rows))
        names = ("longitude", "latitude") if self.whole.spherical else ("x", "y")
        limits: dict[str, Any] = dict(zip(names, ((x0, x1), (y0, y1))))
        kept = [
            letter
            for letter, part, n in (("x", self.columns, self.whole.nx), ("y", self.rows, self.whole.ny))
            if getattr(self.whole, f"periodic_{letter}") and part.stop - part.start == n
        ]
        whole: Any = self.whole
        return dataclasses.replace(whole, nx=nx, ny=ny, periodic="".join(kept), **limits)

    def cut(self, position: str, array: np.ndarray) -> np.ndarray:
        """A field of the whole grid (..., ny, nx), in the form of files, on the blocks."""
        array = np.asarray(array)
        dry = np.asarray(dry_points(self.static, self.whole, position))
        weights = np.broadcast_to(~dry, array.shape[-2:]) * (self._relative_area if position == "h" else 1.0)
        of_water = self._sums(position, weights * np.where(weights > 0, array, 0.0))
        share = self._sums(position, weights)
        return (of_water / np.where(share > 0, share, 1.0)).astype(array.dtype)

    def static_fields(self) -> dict[str | Variable, np.ndarray]:
        """The static fields on the blocks."""
        fields: dict[str | Variable, np.ndarray] = {}
        for key, array in self.static.items():
            if variable_name(key) == "wet":
                fields[key] = self._sums("h", np.asarray(array, float)) > 0
            else:
                fields[self.row(metadata.variable_of(key))] = self.cut("h", array)
        if self.coarsen > 1:
            wet = ~np.asarray(dry_points(self.static, self.whole, "h"))
            fields["area"] = self._sums("h", np.broadcast_to(wet, self.whole.shape) * self.whole.area_h)
        return fields

    def row(self, row: Variable) -> Variable:
        """The row of a field of the grid with the CF method of its means over blocks."""
        of_blocks = {"h": "area: mean where sea", "u": "yh: mean", "v": "xh: mean"}.get(row.position)
        if self.coarsen == 1 or of_blocks is None:
            return row
        of_cells = row.cell_methods.removeprefix("area: mean")
        return dataclasses.replace(row, cell_methods=f"{of_cells} {of_blocks}".strip())

    @property
    def attributes(self) -> Mapping[str, Attribute]:
        """The global attribute of a file of blocks."""
        return {BLOCKS: np.int32(self.coarsen)} if self.coarsen > 1 else {}

    @functools.cached_property
    def _relative_area(self):
        """The areas of cells over the mean of their block, (ny, 1); exactly 1 in blocks of one cell."""
        relative = np.ones((self.whole.ny, 1))
        blocks = self.whole.area_h[self.rows].reshape(-1, self.coarsen)
        relative[self.rows] = (blocks / blocks.mean(axis=1, keepdims=True)).reshape(-1, 1)
        return relative

    def _sums(self, position, array):
        """Sums over the cells or faces of each block; every `coarsen`-th one along a direction of faces."""
        for axis, part, at_faces, periodic, name in (
            (-2, self.rows, position in "vq", self.whole.periodic_y, "y"),
            (-1, self.columns, position in "uq", self.whole.periodic_x, "x"),
        ):
            array = np.moveaxis(array, axis, -1)
            if at_faces:
                if periodic:  # faces begin with the east one of the first cell
                    array = np.concatenate([array[..., -1:], array], axis=-1)
                array = array[..., part.start : part.stop + 1 : self.coarsen]
                if getattr(self.grid, f"periodic_{name}"):
                    array = array[..., 1:]
            else:
                blocks = (part.stop - part.start) // self.coarsen
                array = array[..., part].reshape(*array.shape[:-1], blocks, self.coarsen).sum(axis=-1)
            array = np.moveaxis(array, -1, axis)
        return array


TIMED = {"coordinates": "time"}  # the attribute of fields in a file of one time
GAUGE_SECONDS = 10.0  # wall-clock time after which buffered records are written


class GaugeFile(RecordFile):
    """Time series at points, as eta(gauge, time), a record a step.

    Records are buffered until there are LONGEST_CHUNK of them or GAUGE_SECONDS have passed. Call `flush` before a
    restart is written; otherwise a run that resumes from it after a crash leaves a gap.

    Args:
        path: the path of the file, or a Claim of it.
        gauges: {name: (x, y)}, in metres or in degrees of longitude and latitude.
        grid: the Grid.
        variables: the recorded variables, names from fields.variables or other rows.
        depth: the depth of the sea floor at the gauges [m], (number of gauges,), or None.
        dtype: the dtype of the series in the file.
        opening: the other arguments, those of Opening.

    Raises:
        DataError, SwmodelError: as RecordFile.
    """

    def __init__(
        self,
        path: str | Path | Claim,
        gauges: Mapping[str, tuple[float, float]],
        grid: Grid,
        *,
        variables: Sequence[str | Variable] = ("eta",),
        depth: np.ndarray | None = None,
        dtype: DTypeLike = "float32",
        **opening: Unpack[Opening],
    ) -> None:
        self._gauges, self._dtype = dict(gauges), np.dtype(dtype)
        self._rows = [metadata.variable_of(variable) for variable in variables]

        def define(dataset):
            dataset.createDimension("gauge", len(self._gauges))
            definitions.define_gauges(dataset, grid, self._gauges, depth)
            for row in self._rows:
                definitions.define_series(dataset, grid, row, self._dtype, LONGEST_CHUNK)

        about = {"title": "Shallow-water model time series", "featureType": "timeSeries", "stored_as": str(self._dtype)}
        self._buffer, self._buffered, self._written_at = [], 0, clock.monotonic()
        super().__init__(path, grid, define, about, points=True, chunk=LONGEST_CHUNK, **opening)

    def append(self, seconds: ArrayLike, values: ArrayLike | dict[str, ArrayLike]) -> None:
        """Append n records.

        Args:
            seconds: model times [s] (n,), increasing and later than those of earlier records.
            values: (..., n, number of gauges), or {name: such an array} for several variables.
        """
        seconds = np.array(seconds, float, ndmin=1)
        shape = (*self._members, seconds.size, len(self._gauges))
        arrays = values if isinstance(values, dict) else {self._rows[0].name: values}
        arrays = {row.name: np.array(checked_shape(row.name, arrays[row.name], shape)) for row in self._rows}
        self._buffer.append((seconds, arrays))
        self._buffered += seconds.size
        if self._buffered >= LONGEST_CHUNK or clock.monotonic() - self._written_at > GAUGE_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write the buffered records."""
        self._written_at = clock.monotonic()
        if self._buffer:
            times, records = zip(*self._buffer)
            self._buffer, self._buffered = [], 0
            series = {row.name: np.concatenate([record[row.name] for record in records], axis=-2) for row in self._rows}
            values = {name: np.swapaxes(x, -2, -1).astype(self._dtype) for name, x in series.items()}
            self.write(np.concatenate(times), values)

    def close(self) -> None:
        """Write the buffered records, close the file and let other runs write it."""
        try:
            self.flush()
        finally:
            super().close()


def write_fields(
    path: str | Path, grid: Grid, fields: Mapping[str | Variable, np.ndarray], **moment: Unpack[Moment]
) -> None:
    """Write fields of one time, or statistics of the run until then; an older file stays until this one is complete.

    Args:
        path: the path of the file; an existing one is replaced.
        grid: the Grid.
        fields: {name of fields.variables or row: global array}, in their own dtype; NaN marks missing values.
        moment: the other arguments, those of Moment.

    Raises:
        SwmodelError: if it cannot be written.
    """
    rows = {metadata.variable_of(name): np.asarray(array) for name, array in fields.items()}
    about = {"stored_as": ", ".join(dict.fromkeys(str(array.dtype) for array in rows.values()))}
    with FieldsOfOneTime.new(path, grid, about, **moment) as file:
        for row, array in rows.items():
            file.store(row, array, TIMED)
