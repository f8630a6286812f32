"""netCDF files of a run, which the root rank writes for xarray, xgcm and any other tool that reads CF.

    FieldFile     fields on the C-grid, one record after another
    GaugeFile     time series at points, one record a step (CF discrete sampling geometry timeSeries)
    write_fields  fields of one moment or of the whole run (maxima, arrival times)

A record that `append` has written outlives the process, and other programs can open a file while the run writes it.
"""

import datetime
import math
import os
import time as clock
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import netCDF4
import numpy as np

from ..errors import DataError, SwmodelError
from ..fields.variables import Variable
from ..grids.grid import Grid
from . import Claim, Footprint, claim, metadata, replacing, reserve

__all__ = ["FieldFile", "GaugeFile", "write_fields"]

TIMED = {"coordinates": "time"}  # the attribute of fields in a file of one time
GAUGE_CHUNK = 4096  # records
GAUGE_SECONDS = 10.0  # of wall-clock time, after which buffered records are written
SLACK = 1 << 18  # [bytes] for the file's own bookkeeping, in addition to its records


class FieldFile:
    """Fields on the C-grid along time, NaN on land.

    Args:
        path: the path of the file, or a Claim of it.
        grid: the Grid.
        variables: names from fields.variables, or other rows.
        start: date and time of 0 s (a datetime, UTC), or None.
        attributes: global attributes.
        static: fields that do not change, {name or row: (ny, nx)}: "wet" (1 in water) says where the land is; "depth"
            [m], of each member (members, ny, nx) if it differs.
        members: of an ensemble, {name: values}, one value a member; then fields are (members, ny, nx).
        dtype: that of the variables in the file.
        append: continue an existing file; its records after `resume_time` [s] are dropped.
        overwrite: replace an existing file.
        compression: 1 (fast) to 9 (small), or 0 for none.

    Raises:
        DataError: if the file exists and neither is allowed, or its variables differ from those to be appended.
        SwmodelError: if another run is writing it.
    """

    def __init__(
        self, path: str | Path | Claim, grid: Grid, variables: Sequence[str | Variable], *,
        start: datetime.datetime | None = None, attributes: Mapping[str, Any] | None = None,
        static: Mapping[str | Variable, np.ndarray] | None = None, members: metadata.MemberValues | None = None,
        dtype: Any = "float32", append: bool = False, resume_time: float | None = None, overwrite: bool = False,
        compression: metadata.Compression = 1,
    ) -> None:  # fmt: skip
        rows = [metadata.variable_of(name) for name in variables]
        written = {row.name for row in rows}
        static = {key: array for key, array in (static or {}).items() if _name(key) not in written}
        self._grid, self._dtype, self._rows, self._members = grid, np.dtype(dtype), rows, members
        self._dry = {position: _dry(static, grid, position) for position in {row.position for row in rows}}

        def define(dataset):
            metadata.define_grid(dataset, grid)
            dataset.createDimension("time", None)
            metadata.define_time(dataset, start)
            metadata.define_members(dataset, members)
            for row in rows:
                metadata.define_field(
                    dataset, row, grid, self._dtype, time=True, members=members, compression=compression
                )
            _define_static(dataset, grid, static, members)

        attributes = metadata.run_attributes(grid, {**(attributes or {}), "stored_as": str(self._dtype)})
        self._records = Records(path, define, attributes, append, resume_time, overwrite)
        self.path = self._records.path

    def append(self, seconds: float, fields: Mapping[str, np.ndarray]) -> None:
        """Write one record.

        Args:
            seconds: model time since the start [s], later than the last record's; if equal, that record is replaced.
            fields: {name: global array}, all variables of the file: (ny, nx), and one more face in each direction that
                is not periodic; of an ensemble the members in front.

        Raises:
            SwmodelError: if the disk has no space for it.
        """
        names = [row.name for row in self._rows]
        if set(fields) != set(names):
            raise ValueError(f"append: {', '.join(fields)} came for {self.path}, which holds {', '.join(names)}.")
        values = {}
        for row in self._rows:
            shape = metadata.of_members(self._members)[1] + metadata.shape(self._grid, row.position)
            array = _checked(row.name, fields[row.name], shape)
            values[row.name] = _filled(array, self._dry[row.position], self._dtype)[None]
        self._records.append(np.array([seconds], float), values)

    def check(self) -> None:
        """Raise SwmodelError if the file was removed, replaced or cut short."""
        self._records.check()

    def close(self) -> None:
        """Close the file and let other runs write it; a second time it does nothing."""
        self._records.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class GaugeFile:
    """Time series at points, as eta(gauge, time), a record a step.

    Records are buffered until there are GAUGE_CHUNK of them or GAUGE_SECONDS have passed. Call `flush` before a restart
    is written; otherwise a run that resumes from it after a crash leaves a gap.

    Args:
        path: the path of the file, or a Claim of it.
        gauges: {name: (x, y)}, in metres or in degrees of longitude and latitude.
        grid: the Grid.
        start, attributes, append, resume_time, overwrite: as of FieldFile.
        variables: the recorded variables, names from fields.variables or other rows.
        depth: of the sea floor at the gauges [m], (number of gauges,), or None.
        members: as of FieldFile.
        dtype: that of the series in the file.

    Raises:
        DataError, SwmodelError: as FieldFile.
    """

    def __init__(
        self, path: str | Path | Claim, gauges: Mapping[str, tuple[float, float]], grid: Grid, *,
        start: datetime.datetime | None = None, attributes: Mapping[str, Any] | None = None, append: bool = False,
        resume_time: float | None = None, overwrite: bool = False, variables: Sequence[str | Variable] = ("eta",),
        depth: np.ndarray | None = None, members: metadata.MemberValues | None = None, dtype: Any = "float32",
    ) -> None:  # fmt: skip
        self._members = metadata.of_members(members)[1]
        self._gauges, self._dtype = dict(gauges), np.dtype(dtype)
        self._rows = [metadata.variable_of(variable) for variable in variables]

        def define(dataset):
            dataset.createDimension("gauge", len(self._gauges))
            dataset.createDimension("time", None)
            metadata.define_time(dataset, start, chunk=GAUGE_CHUNK)
            metadata.define_gauges(dataset, grid, self._gauges, depth)
            metadata.define_members(dataset, members)
            for row in self._rows:
                metadata.define_series(dataset, grid, row, self._dtype, GAUGE_CHUNK, members)

        attributes = {"title": "Shallow-water model time series", **(attributes or {}), "featureType": "timeSeries",
                      "stored_as": str(self._dtype)}  # fmt: skip
        attributes = metadata.run_attributes(grid, attributes, points=True)
        self._records = Records(path, define, attributes, append, resume_time, overwrite)
        self.path = self._records.path
        self._buffer, self._count, self._written_at = [], 0, clock.monotonic()

    def append(self, seconds: Any, values: Any) -> None:
        """Append n records.

        Args:
            seconds: model times [s] (n,), increasing and later than those of earlier records.
            values: (..., n, number of gauges), or {name: such an array} for several variables.
        """
        seconds = np.array(seconds, float, ndmin=1)
        shape = (*self._members, seconds.size, len(self._gauges))
        values = values if isinstance(values, dict) else {self._rows[0].name: values}
        values = {row.name: np.array(_checked(row.name, values[row.name], shape)) for row in self._rows}
        self._buffer.append((seconds, values))
        self._count += seconds.size
        if self._count >= GAUGE_CHUNK or clock.monotonic() - self._written_at > GAUGE_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write the buffered records."""
        self._written_at = clock.monotonic()
        if self._buffer:
            times, records = zip(*self._buffer)
            self._buffer, self._count = [], 0
            series = {row.name: np.concatenate([record[row.name] for record in records], axis=-2) for row in self._rows}
            values = {name: np.swapaxes(x, -2, -1).astype(self._dtype) for name, x in series.items()}
            self._records.append(np.concatenate(times), values)

    def check(self) -> None:
        """Raise SwmodelError if the file was removed, replaced or cut short."""
        self._records.check()

    def close(self) -> None:
        """Write the buffered records, close the file and let other runs write it."""
        try:
            self.flush()
        finally:
            self._records.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def write_fields(
    path: str | Path, grid: Grid, fields: Mapping[str | Variable, np.ndarray], *, seconds: float,
    start: datetime.datetime | None = None, attributes: Mapping[str, Any] | None = None,
    static: Mapping[str | Variable, np.ndarray] | None = None, members: metadata.MemberValues | None = None,
) -> None:  # fmt: skip
    """Write fields of one time, or statistics of the run until then; an older file stays until this one is complete.

    Args:
        path: the path of the file; an existing one is replaced.
        grid: the Grid.
        fields: {name of fields.variables or row: global array}, in their own dtype; NaN marks missing values.
        seconds: model time since the start [s]; maxima and the like are those from 0 to `seconds`.
        start, attributes, static, members: as of FieldFile.

    Raises:
        SwmodelError: if it cannot be written.
    """
    rows = [metadata.variable_of(name) for name in fields]
    arrays = {_name(key): array for key, array in fields.items()}
    static = {key: array for key, array in (static or {}).items() if _name(key) not in arrays}
    stored = ", ".join(dict.fromkeys(str(np.asarray(array).dtype) for array in arrays.values()))
    over_time = any(row.cell_methods in ("time: maximum", "time: minimum", "time: mean") for row in rows)
    with replacing(path) as temporary, netCDF4.Dataset(temporary, "x") as dataset:
        dataset.setncatts(metadata.run_attributes(grid, {**(attributes or {}), "stored_as": stored}))
        metadata.define_grid(dataset, grid)
        metadata.define_moment(dataset, start, seconds, since_start=over_time)
        metadata.define_members(dataset, members)
        for row in rows:
            shape = metadata.of_members(members)[1] + metadata.shape(grid, row.position)
            array = _checked(row.name, arrays[row.name], shape)
            variable = metadata.define_field(dataset, row, grid, array.dtype, members=members, attributes=TIMED)
            variable[:] = _filled(array, _dry(static, grid, row.position) | np.isnan(array), array.dtype)
        _define_static(dataset, grid, static, members)


class Records:
    """A file that grows along its unlimited dimension `time`.

    HDF5 has no transactions. SIGKILL between the dozen small writes that end an `append` can destroy that record; where
    the index of chunks splits (after 64 records, then every 57), it can destroy the file. In a replay of the writes of
    150 records, cut at each boundary between two writes, 11 files of 1710 could not be read.

    Args:
        path: the path of the file, or a Claim of it.
        define: define(dataset) writes everything except records and global attributes.
        attributes: global attributes.
        append, resume_time, overwrite: as of FieldFile.
    """

    def __init__(
        self, path: str | Path | Claim, define: Callable[[netCDF4.Dataset], None], attributes: Mapping[str, Any],
        append: bool, resume_time: float | None, overwrite: bool,
    ) -> None:  # fmt: skip
        self._claim = path if isinstance(path, Claim) else claim(path, overwrite=overwrite, append=append)
        self.path = self._claim.path
        self._dataset, self._descriptor = None, None
        self._count, self._newest = 0, np.empty(0)  # of records, and the times of the last two
        try:
            if append and self.path.exists():
                dataset = self._continue(define, attributes, math.inf if resume_time is None else resume_time)
            else:
                dataset = _created(self.path, define, attributes)
            self._dataset = dataset
            dataset.set_auto_maskandscale(False)
            metadata.limit_chunk_caches(dataset)
            self._descriptor = os.open(self.path, os.O_RDWR)
            self._footprint = Footprint.of(self.path)
        except BaseException:
            self.close()
            raise

    def _continue(self, define, attributes, resume_time):
        """The open Dataset of the file of an earlier run, without its records after `resume_time`."""
        with _readable(self.path) as old, netCDF4.Dataset("expected", "w", diskless=True) as expected:
            define(expected)
            difference = _difference(old, expected)
            if difference:
                raise DataError(
                    f"{self.path} cannot be continued: {difference}; give the output another name, or another folder "
                    "(--output DIR)."
                )
            times = np.asarray(old["time"][:])
            keep = times <= resume_time + 1e-9 * max(1.0, abs(resume_time))
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

    def append(self, times: np.ndarray, values: Mapping[str, np.ndarray]) -> None:
        """Write records at `times` (n,) [s]; `values` are arrays with n entries along time, {name: array}."""
        if self._dataset is None or self._descriptor is None:
            raise ValueError(f"append: {self.path} is closed.")
        replaces = times[0] in self._newest[-1:]
        known, begin = (self._newest[:-1], self._count - 1) if replaces else (self._newest, self._count)
        ordered = np.concatenate([known[-1:], times])
        if (np.diff(ordered) <= 0).any():
            raise ValueError(f"append: time must increase, and {ordered} [s] came for {self.path}.")
        self.check()
        size = sum(array.nbytes for array in values.values()) + times.nbytes
        reserve(self._descriptor, size + size // 64 + SLACK, self.path)
        try:
            for name, array in {**values, "time": times}.items():
                variable = self._dataset[name]
                variable[_along_time(variable, begin, begin + times.size)] = array
            self._dataset.sync()
        except (OSError, RuntimeError) as error:
            raise SwmodelError(f"{self.path} could not be written at {times[0]:g} s: {error}.") from error
        self._count, self._newest = begin + times.size, ordered[-2:]
        self._footprint = Footprint.of(self._descriptor, self.path)

    def check(self) -> None:
        """Raise SwmodelError if the file was removed, replaced or cut short."""
        if self._dataset is not None:
            self._footprint.check()

    def close(self) -> None:
        """Close the file and release it; a second time it does nothing."""
        try:
            if self._dataset is not None:
                self._dataset.close()
        finally:
            self._dataset = None
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None
            self._claim.release()


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
            f"{path} cannot be continued: it is no complete netCDF file ({error.strerror}); move it away, or "
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
    block = GAUGE_CHUNK if "gauge" in old.dimensions else 1
    for name, variable in old.variables.items():
        if "time" in variable.dimensions:
            for begin in range(0, count, block):
                where = _along_time(variable, begin, min(begin + block, count))
                new[name][where] = variable[where]


def _along_time(variable, begin, end):
    return tuple(slice(begin, end) if dimension == "time" else slice(None) for dimension in variable.dimensions)


def _define_static(dataset, grid, static, members=None):
    """Write the land mask, and fields of the table that do not change, one for all members or one for each."""
    for name, array in static.items():
        if name == "wet":
            metadata.define_wet(dataset, _checked(name, array, grid.shape))
            continue
        row, each = metadata.variable_of(name), members if np.ndim(array) > 2 else None
        array = _checked(row.name, array, metadata.of_members(each)[1] + metadata.shape(grid, row.position))
        variable = metadata.define_field(dataset, row, grid, array.dtype, members=each)
        variable[:] = _filled(array, _dry(static, grid, row.position), array.dtype)


def _name(key):
    """The name of a variable, or of a row of the table."""
    return getattr(key, "name", key)


def _checked(name, array, shape):
    array = np.asarray(array)
    if array.shape != tuple(shape):
        raise ValueError(f"{name} has shape {array.shape}, and the file needs {tuple(shape)}.")
    return array


def _dry(static, grid, position):
    """True at points that touch no wet cell; False without a land mask."""
    if "wet" not in static:
        return False
    return ~metadata.reach_of_water(_checked("wet", static["wet"], grid.shape), grid, position)


def _filled(array, dry, dtype):
    with np.errstate(over="ignore"):
        return np.where(dry, np.asarray(metadata.fill_value(dtype), dtype), array.astype(dtype, copy=False))
