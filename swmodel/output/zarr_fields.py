"""The fields of a run in a Zarr store: its arrays, their records in time, and whether a store can be continued."""

import dataclasses
import datetime
import gzip
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from ..fields.variables import Variable
from ..grids.grid import Grid
from . import Claim, metadata
from .metadata import Attribute
from .zarr_store import ZarrStore, array_metadata

__all__ = ["ZarrFields", "not_continued", "same_values", "times_of"]

TIMES = 1024  # records in a chunk of the time axis


@dataclasses.dataclass
class ZarrFields:
    """The fields of a run in a store, on the root, which sends the path and the metadata to the other ranks.

    Attributes:
        store: the ZarrStore.
        arrays: {name: metadata of the array}.
        attributes: global attributes.
        times: the times of the records [s].
    """

    store: ZarrStore
    arrays: dict
    attributes: dict
    times: list

    @staticmethod
    def opened(
        claim: Claim,
        grid: Grid,
        rows: Sequence[Variable],
        chunk: tuple[int, int],
        *,
        start: datetime.datetime | None,
        attributes: Mapping[str, Attribute],
        depth: Variable | str,
        append: bool,
        resume_time: float,
    ) -> "ZarrFields":
        """A new store, or an existing one with its records up to `resume_time`; on the root.

        Args:
            claim: the Claim of the folder.
            grid: the Grid.
            rows: the rows of the variable table to be written.
            chunk: (rows, columns) of a chunk in a new store.
            start, attributes: as for a FieldFile.
            depth: the row of the depth.
            append: whether an existing store is continued.
            resume_time: the time [s] up to which its records are kept.

        Raises:
            DataError: if a store cannot be continued by these variables.
        """
        store = ZarrStore(claim.path)
        about = metadata.file_attributes(grid, {**attributes, "stored_as": "float32"})
        arrays, values = _described(grid, rows, chunk, start, depth)
        if append and store.path.exists():
            was, old = store.description()
            if difference := _difference(store, was, arrays, values):
                raise not_continued(store.path, difference)
            times = times_of(store, was["time"])
            kept = [time for time in times if time <= resume_time + 1e-9 * max(1.0, abs(resume_time))]
            about = metadata.continued_attributes(old, about, min(resume_time, max(kept, default=0.0)))
            return ZarrFields(store, was, about, kept)  # committed by check_continued, before anything is overwritten
        store.create(arrays, about)
        for name, array in values.items():
            store.write_chunk(name, arrays[name], (0,) * array.ndim, array)
        return ZarrFields(store, arrays, about, [])

    def commit(self) -> None:
        """Write the number and the times of the complete records to the store; on the root."""
        count = len(self.times)
        first = max(count - 1, 0) // TIMES
        self.store.write_chunk("time", self.arrays["time"], (first,), np.array(self.times[first * TIMES :]))
        for array in self.arrays.values():
            if array["dimension_names"][:1] == ["time"]:
                array["shape"][0] = count
        self.store.commit(self.arrays, self.attributes)


def not_continued(path: str | Path, why: str) -> DataError:
    """The error of an output that belongs to another run."""
    return DataError(
        f"{path} cannot be continued: {why}; give the output another name, or another folder (--output DIR)."
    )


def _difference(store, was, arrays, values):
    """The first difference between the arrays of a store and those of this run, as text, or None."""
    for name, array in arrays.items():
        if name not in was:
            return f"it has no {name}"
        old, now = (_kind(one, array["dimension_names"][:1] == ["time"]) for one in (was[name], array))
        for key in now:
            if old[key] != now[key]:
                return f"the {key} of its {name} is {old[key]}, and this run's is {now[key]}"
        if name in values and not same_values(
            store.read_chunk(name, was[name], (0,) * values[name].ndim), values[name]
        ):
            return f"its {name} is not this run's"
    more = [name for name in was if name not in arrays]
    return f"it also has {', '.join(more)}, which this run does not write" if more else None


def _kind(array, grows):
    """The metadata that must be equal for an array to be continued; `grows` is whether it grows along dimension 0."""
    about = {name: array["attributes"].get(name) for name in ("units", "long_name")}
    return {"type": array["data_type"], "shape": array["shape"][grows:], **about}


def same_values(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays are equal but for the rounding of float32."""
    return np.allclose(a, b, rtol=1e-6, atol=0.0, equal_nan=True)


def times_of(store: ZarrStore, array: Mapping[str, Any]) -> list[float]:
    """The times [s] of the records of a store."""
    found, count = [], array["shape"][0]
    for k in range(math.ceil(count / TIMES)):
        content = gzip.decompress((store.path / "time" / "c" / str(k)).read_bytes())
        found += np.frombuffer(content, "<f8").tolist()
    return found[:count]


def _described(grid, rows, chunk, start, depth):
    """({name: metadata of the array}, {name: values} of the small ones)."""
    arrays, values = {}, {}
    for name, (array, attributes, bounds) in metadata.axes(grid).items():
        values[name] = array
        arrays[name] = array_metadata(array.shape, array.shape, "f8", (name,), attributes)
        if bounds is not None:
            values[f"{name}_bnds"] = bounds
            arrays[name]["attributes"]["bounds"] = f"{name}_bnds"
            arrays[f"{name}_bnds"] = array_metadata(bounds.shape, bounds.shape, "f8", (name, "bnds"), {})
    for name, (array, attributes, dimension) in metadata.metrics(grid).items():
        values[name] = array
        arrays[name] = array_metadata(array.shape, array.shape, "f8", (dimension,), attributes)
    values["grid"] = np.zeros((), np.int32)
    arrays["grid"] = array_metadata((), (), "i4", (), metadata.topology(grid))
    arrays["time"] = array_metadata((0,), (TIMES,), "f8", ("time",), metadata.time_attributes(start))
    cells = metadata.DIMENSIONS["h"]
    arrays["area"] = array_metadata(grid.shape, chunk, "f8", cells, metadata.AREA)
    arrays["wet"] = array_metadata(grid.shape, chunk, "i1", cells, metadata.WET)
    row = metadata.variable_of(depth)
    arrays[row.name] = array_metadata(grid.shape, chunk, "f4", cells, metadata.variable_attributes(row, grid))
    for row in rows:
        shape, about = metadata.shape(grid, row.position), metadata.variable_attributes(row, grid)
        dimensions = ("time", *metadata.DIMENSIONS[row.position])
        arrays[row.name] = array_metadata((0, *shape), (1, *chunk), "f4", dimensions, about)
    return arrays, values
