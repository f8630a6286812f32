"""The outputs of a run and the steps at which they are due: snapshots, gauges, maxima.

All ranks gather, and a thread of the root writes while the next steps are computed (writing.py).
"""

import contextlib
import functools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..diagnostics import derived as diagnostics
from ..errors import ConfigError
from ..runtime.netcdf import LOCK
from . import Claim, metadata
from .gathering import Fields, fields_of_tiles, gathered_fields, lowered_fields
from .metadata import Compression
from .netcdf import FieldFile, GaugeFile, has_zstd, write_fields
from .replaced import ReplacedFile
from .run_metadata import members_of, rows_of, static_fields
from .writing import Writer

__all__ = ["FieldOutput", "GaugeOutput", "MaximaOutput", "Output", "SnapshotOutput", "nearest_steps", "with_bed"]


def nearest_steps(steps: Any, every: float, dt: float) -> Any:
    """Whether each of `steps`, a number or an array, is the nearest one to a multiple of the interval `every` [s]."""
    return steps == np.round(np.round(steps * dt / every) * every / dt)


class Output:
    """One file of a run; only the root has a writer.

    The methods take the Simulation whose file this is.

    Attributes:
        path: the path of the file.
        every: the interval of model time between two records [s], or None.
        file: the writer of the format, on the root while the file is open. Only the Writer's thread uses it, until the
            run is over.
        writer: the Writer of the run that has opened the file.
        begun: whether an earlier call of `run` has opened the file.
        product: the index in `simulation._products` of the statistics that it writes, or None.
        is_of_maxima: whether it writes the simulation's maxima.
        is_written_by_chunk: whether `chunk` writes the records of steps, so that `write` is for other states alone.
    """

    path: Path
    every: float | None = None
    file: Any = None
    writer: Writer | None = None
    begun = False
    product: int | None = None
    is_of_maxima = False

    @property
    def is_written_by_chunk(self) -> bool:
        return False

    def submit(self, write: Callable[[], object], size: int = 0) -> None:
        """Let the Writer's thread call `write()`, which holds `size` bytes of data; on the root, else do nothing."""
        if self.file is not None and self.writer is not None:
            self.writer.submit(self, write, size)

    def stream(self, write: Callable[[Iterator[Any]], object]) -> contextlib.AbstractContextManager:
        """Let the Writer's thread call `write(parts)` with the parts that the block puts in (`Writer.stream`).

        On ranks other than the root they are dropped.
        """
        if self.file is not None and self.writer is not None:
            return self.writer.stream(self, write)
        return contextlib.nullcontext(lambda part, size: None)

    def continues(self, simulation: Any) -> bool:
        """Whether records are appended to the file of a resumed run, or of an earlier call of `run`."""
        return self.begun or simulation.resumed_at is not None

    def open(self, simulation: Any, attributes: Mapping[str, Any], claim: Claim) -> None:
        """Open the file of which `claim` is the Claim, with these global attributes; on the root."""

    def check_continued(self, simulation: Any) -> None:
        """Raise DataError on every rank if the open file continues one with another coast or depth; collective."""

    def of_another_run(self, simulation: Any) -> bool:
        """Whether an existing file at the path belongs to an earlier run."""
        return not self.continues(simulation)

    def check(self) -> None:
        """Raise SwmodelError if the file was removed, replaced or cut short; on the root."""
        if self.file is not None:
            self.file.check()

    def next_step(self, simulation: Any) -> int | None:
        """The next step after the present one at which a record is due, or None."""
        if self.every is None:
            return None
        number = math.floor(simulation.step * simulation.dt / self.every + 1e-9)
        step = simulation.step
        while step <= simulation.step:
            number += 1
            step = round(number * self.every / simulation.dt)
        return step

    def is_due(self, simulation: Any) -> bool:
        """Whether a record is due at the present step."""
        return self.every is not None and bool(nearest_steps(simulation.step, self.every, simulation.dt))

    def write(self, simulation: Any) -> None:
        """Let a record of the present step be written; collective."""

    def lowered(self, simulation: Any, dynamics: Any, packed: Any) -> list:
        """The programs that its records need, not yet compiled, for this System and carry of the step loop."""
        return []

    def chunk(self, simulation: Any, carry: Any, count: int) -> None:
        """Take what the monitors have kept of the last `count` steps from the run's Carry; collective."""

    def chunk_before(self, simulation: Any, carry: Any, count: int, invalid: int) -> None:
        """Take the records before the invalid step from the Carry of the last `count` steps of a run; collective."""

    def finish(self, simulation: Any) -> None:
        """Let what is due at the end of a run be written; collective."""

    def flush(self) -> None:
        """Let the records that are still in memory be written."""

    def close(self) -> None:
        """Close the file and release its claim, also after an error."""
        file, self.file = self.file, None
        if file is not None:
            with LOCK:
                file.close()


class SnapshotOutput(Output):
    """A file of snapshots: at the start, at regular intervals, and at the end."""

    def record(self, simulation: Any) -> tuple[Callable[[], Mapping[str, Any]], int]:
        """(function that returns {name: array} of a record of the present step, on the root, its bytes); collective.

        The function is called once, by another thread during the run, and sends no messages.
        """
        raise NotImplementedError

    def is_due(self, simulation: Any) -> bool:
        return super().is_due(simulation) or (self.every is None and simulation.step == 0)

    def write(self, simulation: Any) -> None:
        (values, size), seconds = self.record(simulation), simulation.time
        self.submit(lambda: self.file.append(seconds, values()), size)

    def finish(self, simulation: Any) -> None:
        if not self.is_due(simulation):
            self.write(simulation)


COMPRESSIONS: dict[str, Compression] = {"zlib": 1, "zstd": "zstd", "none": 0}
AUTO = "auto"  # zstd where the netCDF library has it, else zlib


def with_bed(variables: Sequence[str], moving_shore: bool) -> tuple[str, ...]:
    """The variables of a file of fields, with the depth of each record if they have levels over a moving shore.

    There the level of dry land is that of its bed at the time, and the first depth does not distinguish it from water.
    """
    added = ("depth",) if moving_shore and "eta" in variables and "depth" not in variables else ()
    return (*variables, *added)


class FieldOutput(SnapshotOutput):
    """Snapshots of fields; `compression` is one of COMPRESSIONS, or AUTO.

    Attributes:
        snapshots: the Snapshots (simulation/snapshots.py) that keep its records on the device, or None.

    Raises:
        ConfigError: for the name of a variable that the model's runs do not have, and for a compression that the netCDF
            library here does not have.
    """

    def __init__(
        self, path: str | Path, variables: Sequence[str], every: float | None, model: Any, compression: str = AUTO
    ) -> None:
        known = diagnostics.names_in_files(model)
        if unknown := ", ".join(repr(name) for name in variables if name not in known):
            raise ConfigError(f"{path}: there is no variable {unknown}; choose from {', '.join(known)}.")
        if compression == AUTO:
            compression = "zstd" if has_zstd() else "zlib"
        elif compression == "zstd" and not has_zstd():
            raise ConfigError(f"{path}: the netCDF library here has no zstd; use compression 'zlib' or 'none'.")
        moving = model.wetting is not None and model.uplift is not None
        variables = tuple(each for name in variables for each in diagnostics.in_all_layers(name, model))
        self.path, self.variables, self.every, self.file = Path(path), with_bed(variables, moving), every, None
        self.compression: Compression = COMPRESSIONS[compression]
        self.snapshots: Any = None

    def open(self, simulation: Any, attributes: Mapping[str, Any], claim: Claim) -> None:
        self.file = FieldFile(
            claim,
            simulation.model.grid,
            rows_of(simulation, self.variables),
            start=simulation.start,
            attributes=attributes,
            static=static_fields(simulation),
            members=members_of(simulation),
            layers=simulation.model.layer_count,
            append=self.continues(simulation),
            resume_time=simulation.time,
            overwrite=simulation.overwrite,
            compression=self.compression,
        )

    def bytes_of_record(self, simulation: Any) -> int:
        """Bytes of the fields of a record that one process holds when it writes them: those of the whole grid."""
        model = simulation.model
        shapes = [
            metadata.shape(model.grid, metadata.variable_of(row).position)
            for row in rows_of(simulation, self.variables)
        ]
        return model.dtype.itemsize * sum(map(math.prod, shapes))

    @property
    def is_written_by_chunk(self) -> bool:
        return self.snapshots is not None

    def next_step(self, simulation: Any) -> int | None:
        return super().next_step(simulation) if self.snapshots is None else self.snapshots.next_end(simulation.step)

    def chunk(self, simulation: Any, carry: Any, count: int) -> None:
        self.chunk_before(simulation, carry, count, simulation.step + 1)

    def chunk_before(self, simulation: Any, carry: Any, count: int, invalid: int) -> None:
        if self.snapshots is None:
            return
        steps = self.snapshots.steps(simulation.step - count, invalid - 1)
        if steps:
            self.write_kept(simulation, steps, self.snapshots.read(simulation.slots(carry, self.snapshots), steps))

    def write_kept(self, simulation: Any, steps: Sequence[int], tiles: Mapping[str, np.ndarray]) -> None:
        """Write the records of `steps`, {name: host arrays (len(steps), my, mx) of this rank's tile}; collective.

        A field of all these records is gathered together.
        """
        whole = {name: simulation.model.gather(tile) for name, tile in tiles.items()}
        if not simulation.communicator.is_root:
            return
        for k, step in enumerate(steps):
            fields, seconds = {name: records[k] for name, records in whole.items()}, step * simulation.dt
            self.submit(functools.partial(self._append, seconds, fields), sum(x.nbytes for x in fields.values()))

    def _append(self, seconds, fields):
        self.file.append(seconds, fields)

    def write(self, simulation: Any) -> None:
        """Where gathering needs messages, one field after another is gathered while the thread writes; collective."""
        seconds, model, tiles = simulation.time, simulation.model, fields_of_tiles(simulation, self.variables)
        fields = gathered_fields(model, tiles)
        if model.communicator.gathers_alone:
            self.submit(lambda: self.file.append(seconds, fields), sum(tile.nbytes for tile in tiles.values()))
            return
        with self.stream(lambda parts: self.file.append(seconds, parts)) as put:
            for name, array in fields:
                put((name, array), 0 if array is None else array.nbytes)

    def lowered(self, simulation: Any, dynamics: Any, packed: Any) -> list:
        return [lowered_fields(simulation, Fields.of(simulation, self.variables), dynamics, packed)]


class GaugeOutput(Output):
    """Variables at points, of every step; attributes of the file define how the series are scored.

    Args:
        path: the path of the file.
        points: {name: (x, y)} of the gauges.
        gauges: the monitor that records them (simulation/monitors.py).
        interval: between records [s], each of which is of the nearest step; they do not end a chunk.
        windows, threshold, arrival_fraction: as for Simulation.gauges.
        depth: at the points, negative on land [m], (n,), of runs with wetting and drying.

    Raises:
        ConfigError: for a window of a gauge that is not among the points.
    """

    def __init__(
        self,
        path: str | Path,
        points: Mapping[str, tuple[float, float]],
        gauges: Any,
        interval: float,
        windows: Mapping[str, tuple[float, float]],
        threshold: float,
        arrival_fraction: float,
        depth: np.ndarray | None = None,
    ) -> None:
        self.depth = depth
        self.path, self.points, self.gauges, self.interval, self.file = Path(path), points, gauges, interval, None
        unknown = [name for name in windows if name not in points]
        if unknown:
            raise ConfigError(f"{path}: there is no gauge {unknown[0]!r}, which has a window; name one of the points.")
        spans = {name: [float(t) for t in window] for name, window in windows.items()}
        self.rules = {
            "gauge_windows": json.dumps(spans),
            "gauge_threshold": np.float64(threshold),
            "gauge_arrival_fraction": np.float64(arrival_fraction),
            "gauge_comment": "gauge_windows: {name: [first, last] in s since the start}, the times by which a gauge is "
            "scored, else the whole run; arrival: the first time in the window at which eta exceeds "
            "gauge_arrival_fraction of its maximum there, if that is at least gauge_threshold (in m)",
        }

    def open(self, simulation: Any, attributes: Mapping[str, Any], claim: Claim) -> None:
        self.file = GaugeFile(
            claim,
            self.points,
            simulation.model.grid,
            start=simulation.start,
            attributes={**attributes, **self.rules},
            members=members_of(simulation),
            append=self.continues(simulation),
            resume_time=simulation.time,
            overwrite=simulation.overwrite,
            variables=rows_of(simulation, self.gauges.variables),
            depth=self.depth,
        )

    def begin(self, simulation: Any) -> None:
        """Record the state before the first step; collective."""
        self._append(simulation, simulation.at_gauges(self.gauges), np.array([simulation.step]))

    def chunk(self, simulation: Any, carry: Any, count: int) -> None:
        self._append(simulation, carry.series, simulation.step - count + 1 + np.arange(count))

    def _append(self, simulation, series, steps):
        shares = simulation.communicator.tiles(series).values()
        (used,) = np.nonzero(nearest_steps(steps, self.interval, simulation.dt))
        if not used.size:
            return
        names = self.gauges.variables
        mine = [sum(np.asarray(tile[name])[..., used, :].astype(np.float64) for tile in shares) for name in names]
        values = dict(zip(names, simulation.communicator.host_sum(np.stack(mine))))
        seconds = steps[used] * simulation.dt
        self.submit(lambda: self.file.append(seconds, values), sum(array.nbytes for array in values.values()))

    def flush(self) -> None:
        self.submit(lambda: self.file.flush())


class MaximaOutput(Output):
    """Maximum elevation [m] and arrival time [s], written at the end of a run; over a moving shore also the thickness.

    Args:
        path: the path of the file.
        threshold: the elevation |eta| that counts as arrival [m].
    """

    is_of_maxima = True

    def __init__(self, path: str | Path, threshold: float) -> None:
        self.path, self.threshold = Path(path), threshold

    def open(self, simulation: Any, attributes: Mapping[str, Any], claim: Claim) -> None:
        meaning = "arrival_time: the first step at which |eta| exceeds arrival_threshold"
        self.attributes = {**attributes, "arrival_threshold": f"{self.threshold:g} m", "arrival_comment": meaning}
        self.file = ReplacedFile(claim)

    def finish(self, simulation: Any) -> None:
        model = simulation.model
        whole = {name: model.gather(tile) for name, tile in simulation._maxima_carry.items()}
        if whole["maximum"] is None:
            return
        static = static_fields(simulation)
        wet = static["wet"]
        fields = {
            "maximum_elevation": np.where(wet & np.isfinite(whole["maximum"]), whole["maximum"], np.nan),
            "arrival_time": np.where(wet & (whole["arrival"] >= 0), whole["arrival"] * simulation.dt, np.nan),
        }
        if "thickness" in whole:
            fields["maximum_thickness"] = np.where(wet, whole["thickness"], np.nan)
        fields = dict(zip(rows_of(simulation, list(fields)), fields.values()))
        seconds, since = simulation.time, simulation._maxima_since * simulation.dt

        def write():
            write_fields(
                self.path,
                model.grid,
                fields,
                seconds=seconds,
                since=since,
                start=simulation.start,
                attributes=self.attributes,
                static=static,
                members=members_of(simulation),
            )
            self.file.written()

        self.submit(write, sum(array.nbytes for array in fields.values()))
