"""netCDF files that grow along time, record by record: creation, continuation after a restart, and appending.

The root rank writes them for xarray, xgcm and any other tool that reads CF. A record that has been written survives the
end of the process. Other programs can open a file while the run writes it.
"""

import itertools
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack

import netCDF4
import numpy as np
from numpy.typing import DTypeLike

from ..defaults import LONGEST_CHUNK
from ..errors import DataError, SwmodelError
from ..fields.variables import INTERFACES, Variable, layer_of
from ..grids.grid import Grid
from ..grids.regrid import Date
from . import Claim, Footprint, claim, definitions, disturbed, metadata, not_continued, replacing, reserve
from .definitions import checked_shape, dry_points, fill_dry, variable_name
from .metadata import Attribute, MemberValues

SLACK = 1 << 18  # [bytes] for the file's own bookkeeping, in addition to its records


class Opening(TypedDict, total=False):
    """What every file of records may be given; an output has it from `Output.how_to_open`.

    Attributes:
        start: date and time of 0 s (a datetime, UTC), or None.
        attributes: global attributes.
        members: for an ensemble, {name: values}, one value for each member; fields are then (members, ny, nx).
        append: continue an existing file; its records after `resume_time` [s] are dropped.
        overwrite: replace an existing file.
    """

    start: Date | None
    attributes: Mapping[str, Attribute] | None
    members: MemberValues | None
    append: bool
    resume_time: float | None
    overwrite: bool


class RecordFile:
    """A file that grows along its unlimited dimension `time`.

    HDF5 has no transactions. SIGKILL between the dozen small writes that end a `write` can destroy that record. It
    can destroy the file when the index of chunks splits, which it does after 64 records and then every 57. In a replay
    of the writes of 150 records, cut at each boundary between two writes, 11 files of 1710 could not be read.

    Args:
        path: the path of the file, or a Claim of it.
        grid: the Grid.
        define: define(dataset) writes everything except times, members, records and global attributes.
        about: global attributes of such files; those of the run replace them.
        points: whether the file holds series at points and no fields on the C-grid.
        chunk: the number of times in a chunk of the file.
        start, attributes, members, append, resume_time, overwrite: as in Opening.

    Raises:
        DataError: if the file exists and neither is allowed, or its variables differ from those to be appended.
        SwmodelError: if another run is writing it.
    """

    def __init__(
        self,
        path: str | Path | Claim,
        grid: Grid,
        define: Callable[[netCDF4.Dataset], None],
        about: Mapping[str, Attribute],
        *,
        points: bool = False,
        chunk: int = 512,
        start: Date | None = None,
        attributes: Mapping[str, Attribute] | None = None,
        members: MemberValues | None = None,
        append: bool = False,
        resume_time: float | None = None,
        overwrite: bool = False,
    ) -> None:
        attributes = metadata.file_attributes(grid, {**about, **(attributes or {})}, points=points)

        def define_all(dataset):
            dataset.createDimension("time", None)
            definitions.define_time(dataset, start, chunk=chunk)
            definitions.define_members(dataset, members)
            define(dataset)

        self._claim = path if isinstance(path, Claim) else claim(path, overwrite=overwrite, append=append)
        self.path = self._claim.path
        self._dataset, self._descriptor = None, None
        self._count, self._newest = 0, np.empty(0)  # of records, and the times of the last two
        try:
            if append and self.path.exists():
                dataset = self._continue(define_all, attributes, math.inf if resume_time is None else resume_time)
            else:
                dataset = _created(self.path, define_all, attributes)
            self._dataset, self._members = dataset, definitions.members_in(dataset)[1]
            dataset.set_auto_maskandscale(False)
            definitions.limit_chunk_caches(dataset)
            self._descriptor = os.open(self.path, os.O_RDWR)
            self._footprint = Footprint.of(self._descriptor, self.path)
        except FileNotFoundError as error:
            self.close()
            raise disturbed(self.path) from error
        except BaseException:
            self.close()
            raise

    def _continue(self, define, attributes, resume_time):
        """The open Dataset of the file of an earlier run, without its records after `resume_time`."""
        with _readable(self.path) as old, netCDF4.Dataset("expected", "w", diskless=True) as expected:
            define(expected)
            if difference := _difference(old, expected):
                raise not_continued(self.path, difference)
            times = np.asarray(old["time"][:])
            complete = times != netCDF4.default_fillvals["f8"]  # a record gets its time after all of its fields
            keep = complete & (times <= resume_time + 1e-9 * max(1.0, abs(resume_time)))
            self._count, self._newest = int(keep.sum()), times[keep][-2:]
            end = min(resume_time, self._newest.max(initial=0.0))
            was = {name: old.getncattr(name) for name in old.ncattrs()}
            attributes = metadata.continued_attributes(was, attributes, end)
            if not keep.all():
                # the unlimited dimension of a netCDF file cannot shrink
                kept = self._count
                return _created(self.path, lambda new: _copy_records(old, new, define, kept), attributes)
        dataset = netCDF4.Dataset(self.path, "a")
        dataset.setncatts(attributes)
        dataset.sync()
        return dataset

    def write(
        self,
        times: np.ndarray,
        values: dict[str, np.ndarray] | Iterable[tuple[str, np.ndarray]],
        size: int | None = None,
    ) -> None:
        """Write records.

        Args:
            times: (n,) [s].
            values: {name: array with n entries along time}, or (name, array) of one after another.
            size: of all arrays [bytes], which is needed if they come one after another.
        """
        if self._dataset is None or self._descriptor is None:
            raise ValueError(f"append: {self.path} is closed.")
        replaces = times[0] in self._newest[-1:]
        known, begin = (self._newest[:-1], self._count - 1) if replaces else (self._newest, self._count)
        ordered = np.concatenate([known[-1:], times])
        if (np.diff(ordered) <= 0).any():
            raise ValueError(f"append: time must increase, got {ordered} [s] for {self.path}.")
        self.check()
        pairs: Any = values
        if isinstance(values, dict):
            size, pairs = sum(array.nbytes for array in values.values()), values.items()
        size = times.nbytes + (size or 0)
        reserve(self._descriptor, size + size // 64 + SLACK, self.path)
        try:
            for name, array in itertools.chain(pairs, [("time", times)]):
                variable, layer = _variable_of_layer(self._dataset, name)
                variable[_along_time(variable, begin, begin + times.size, layer)] = array
            self._dataset.sync()
        except (OSError, RuntimeError) as error:
            raise SwmodelError(f"{self.path} could not be written at {times[0]:g} s: {error}.") from error
        self._count, self._newest = begin + times.size, ordered[-2:]
        self._footprint = self._footprint.written_on(self._descriptor)

    def check(self) -> None:
        """Raise SwmodelError if the file was removed, replaced or cut short."""
        if self._dataset is not None:
            self._footprint.check()

    def close(self) -> None:
        """Close the file and let other runs write it; a second time it does nothing."""
        try:
            if self._dataset is not None:
                self._dataset.close()
        finally:
            self._dataset = None
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None
            self._claim.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class FieldFile(RecordFile):
    """Fields on the C-grid along time, NaN on land.

    Args:
        path: the path of the file, or a Claim of it.
        grid: the Grid.
        variables: names from fields.variables, or other rows.
        static: fields that are constant in time, {name or row: (ny, nx)}. "wet" is the land mask, 1 in water; "depth"
            [m] is (members, ny, nx) if it differs between members; "area" [m2] is that of the water in blocks of cells.
        layers: how many there are of the model. Where `variables` has the fields of all of them, such as eta and
            eta_2, they are one variable along the dimension `layer`, and heights of interfaces along `interface`.
        dtype: the dtype of the variables in the file.
        compression: 1 (fast) to 9 (small) of zlib, "zstd", or 0 for none.
        opening: the other arguments, those of Opening.

    Raises:
        DataError, SwmodelError: as RecordFile.
    """

    def __init__(
        self,
        path: str | Path | Claim,
        grid: Grid,
        variables: Sequence[str | Variable],
        *,
        static: Mapping[str | Variable, np.ndarray] | None = None,
        layers: int = 1,
        dtype: DTypeLike = "float32",
        compression: metadata.Compression = 1,
        **opening: Unpack[Opening],
    ) -> None:
        rows = [metadata.variable_of(name) for name in variables]
        written = {row.name for row in rows}
        static = {key: array for key, array in (static or {}).items() if variable_name(key) not in written}
        self._grid, self._dtype, self._rows = grid, np.dtype(dtype), rows
        self._dry = {position: dry_points(static, grid, position) for position in {row.position for row in rows}}

        joined = {layer_of(row.name)[0] for row in rows if layers > 1 and layer_of(row.name)[1]}
        options: Any = {"time": True, "of_members": True, "compression": compression}

        def define(dataset):
            definitions.define_grid(dataset, grid, static.get("area"))
            definitions.define_layers(dataset, {"layer": layers} if layers > 1 else {})
            if INTERFACES in joined:
                definitions.define_layers(dataset, {"interface": layers + 1})
                dataset["grid"].vertical_dimensions = "layer: interface (padding: none)"  # of SGRID, for xgcm
            for row in rows:
                if row.name in joined or layer_of(row.name)[0] not in joined:
                    along = "" if row.name not in joined else "interface" if row.name == INTERFACES else "layer"
                    definitions.define_field(dataset, row, grid, self._dtype, along=along, **options)
            definitions.FieldsOfOneTime(dataset, grid, static).store_static()

        super().__init__(path, grid, define, {"stored_as": str(self._dtype)}, **opening)

    def append(self, seconds: float, fields: Mapping[str, np.ndarray] | Iterable[tuple[str, np.ndarray]]) -> None:
        """Write one record.

        Args:
            seconds: model time since the start [s], later than the last record's; if equal, that record is replaced.
            fields: {name: global array} of all variables of the file, or (name, array) of each in turn, of which one is
                held at a time. Arrays are (ny, nx), with one more face in each direction that is not periodic. For an
                ensemble the members are the first dimension.

        Raises:
            SwmodelError: if the disk has no space for it.
        """
        positions = {row.name: row.position for row in self._rows}
        shapes = {name: self._members + metadata.shape(self._grid, position) for name, position in positions.items()}
        pairs = self._ordered(fields, shapes) if isinstance(fields, Mapping) else fields

        def stored(name, array):
            return fill_dry(checked_shape(name, array, shapes[name]), self._dry[positions[name]], self._dtype)[None]

        values = ((name, stored(name, array)) for name, array in pairs)
        size = self._dtype.itemsize * sum(map(math.prod, shapes.values()))
        self.write(np.array([seconds], float), values, size)

    def _ordered(self, fields, shapes):
        """[(name, array)] in the order of the file, after all names and shapes were checked."""
        if set(fields) != set(shapes):
            raise ValueError(f"append: got {', '.join(fields)} for {self.path}, which holds {', '.join(shapes)}.")
        return [(name, checked_shape(name, fields[name], shape)) for name, shape in shapes.items()]


def _created(path, define, attributes):
    """A new, open Dataset; the file appears at `path` once its header is complete."""
    with replacing(path) as temporary:
        dataset = netCDF4.Dataset(temporary, "x")
        try:
            dataset.setncatts(attributes)
            define(dataset)
            dataset.sync()
        except BaseException:
            dataset.close()
            raise
    return dataset


def _readable(path):
    try:
        dataset = netCDF4.Dataset(path)
    except OSError as error:
        raise DataError(
            f"{path} cannot be continued: it is not a complete netCDF file ({error.strerror}); move it away, or "
            "give the output another folder (--output DIR)."
        ) from error
    dataset.set_auto_maskandscale(False)
    return dataset


def _difference(old, new):
    """The first difference that prevents appending records of `new` to the file `old`, as text, or None."""
    for name, variable in new.variables.items():
        if name not in old.variables:
            return f"it has no {name}"
        was = old[name]
        kinds = [(v.dtype, v.dimensions, getattr(v, "units", None)) for v in (was, variable)]
        if kinds[0] != kinds[1]:
            texts = [f"{np.dtype(dtype)}({', '.join(dimensions)}) [{units}]" for dtype, dimensions, units in kinds]
            return f"its {name} is {texts[0]}, and this run's is {texts[1]}"
        names = [getattr(v, "long_name", None) for v in (was, variable)]
        if "time" in variable.dimensions and names[0] != names[1]:
            return f"its {name} is the {names[0]}, and this run's is the {names[1]}"
        if "time" not in variable.dimensions and not _same(was, variable):
            return f"its {name} is not this run's"
    more = [n for n, v in old.variables.items() if "time" in v.dimensions and n not in new.variables]
    return f"it also has {', '.join(more)}, which this run does not write" if more else None


def _same(a, b):
    if a.shape != b.shape:
        return False
    if getattr(a.dtype, "kind", "O") != "f":
        return np.array_equal(a[...], b[...])
    return np.allclose(a[...], b[...], rtol=1e-6, atol=0.0)


def _copy_records(old, new, define, count):
    """Define the variables of `new`, and copy the first `count` records of `old`."""
    define(new)
    block = LONGEST_CHUNK if "gauge" in old.dimensions else 1
    for name, variable in old.variables.items():
        if "time" in variable.dimensions:
            for begin in range(0, count, block):
                where = _along_time(variable, begin, min(begin + block, count))
                new[name][where] = variable[where]


def _variable_of_layer(dataset, name):
    """(the variable that has a field of this name, its number along the dimension `layer` or `interface`)."""
    return (dataset[name], 0) if name in dataset.variables else (dataset[layer_of(name)[0]], layer_of(name)[1])


def _along_time(variable, begin, end, layer: int | slice = slice(None)):
    where = {"time": slice(begin, end), "layer": layer, "interface": layer}
    return tuple(where.get(dimension, slice(None)) for dimension in variable.dimensions)
