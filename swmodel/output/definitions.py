"""Definitions of dimensions, coordinates and variables, with their CF metadata, in an open netCDF4.Dataset."""

import contextlib
import dataclasses
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Required, Self, TypedDict

import netCDF4
import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ..fields.variables import Variable
from ..grids.grid import Grid
from ..grids.regrid import Date
from . import metadata, replacing
from .metadata import Attribute, Compression, MemberValues

LARGEST_CHUNK = 4 << 20  # [bytes]
LARGEST_CACHE = 1 << 26  # [bytes] of chunks of one variable that HDF5 keeps in memory: netCDF's own limit


class Moment(TypedDict, total=False):
    """What every file of one time may be given.

    Attributes:
        seconds: model time since the start [s].
        since: the time of the first sample of statistics [s], whose last is at `seconds`; None for fields of one time.
        start: date and time of 0 s (a datetime, UTC), or None.
        attributes: global attributes.
        static, members: as for records.FieldFile.
    """

    seconds: Required[float]
    since: float | None
    start: Date | None
    attributes: Mapping[str, Attribute] | None
    static: Mapping[str | Variable, np.ndarray] | None
    members: MemberValues | None


def define(
    dataset: netCDF4.Dataset,
    name: str,
    dimensions: Iterable[str],
    attributes: Mapping[str, Attribute],
    values: np.ndarray | None = None,
    *,
    dtype: DTypeLike | None = None,
    chunks: Sequence[int] | None = None,
    fill: bool | float | str | None = False,
    compression: Compression = 0,
) -> netCDF4.Variable:
    """Create a variable, with its values where they are known.

    Args:
        dataset: the open Dataset.
        name, dimensions, attributes: those of the variable; attributes that are None or "" are left out.
        values: an array, which is written, or None.
        dtype: that of `values` unless given; it is needed without values.
        chunks: the shape of a chunk, or None for netCDF's choice.
        fill: the fill value; False for a variable without missing values, None for netCDF's default.
        compression: 1 (fast) to 9 (small) of zlib, "zstd", or 0 for none.
    """
    kind: Any = values.dtype if dtype is None and values is not None else dtype
    variable = dataset.createVariable(
        name,
        kind,
        tuple(dimensions),
        fill_value=fill,
        chunksizes=chunks,
        compression="zstd" if compression == "zstd" else "zlib" if compression else None,
        complevel=1 if compression in (0, "zstd") else compression,
    )
    variable.setncatts({name: value for name, value in attributes.items() if value is not None and str(value)})
    variable.set_auto_maskandscale(False)
    if values is not None:
        variable[...] = values
    return variable


def define_grid(dataset: netCDF4.Dataset, grid: Grid, of_water: np.ndarray | None = None) -> None:
    """Define the dimensions, coordinates, topology, metrics and areas of a grid: of its cells, or `of_water` [m2]."""
    described = metadata.grid_variables(grid)
    for dimensions, _, values in described.values():
        for name, size in zip(dimensions, values.shape):
            if name not in dataset.dimensions:
                dataset.createDimension(name, size)
    for name, (dimensions, attributes, values) in described.items():
        define(dataset, name, dimensions, attributes, values)
    area = np.broadcast_to(grid.area_h if of_water is None else of_water, grid.shape)
    about = metadata.AREA if of_water is None else metadata.AREA | {"long_name": "area of the water in the block"}
    define(dataset, "area", ("yh", "xh"), about, area, compression=1)


def define_time(
    dataset: netCDF4.Dataset, start: Date | None, dimensions: tuple[str, ...] = ("time",), chunk: int = 512
) -> None:
    """Define the time coordinate; without dimensions it is the time of all fields of the file."""
    chunks = (chunk,) if dimensions else None
    define(dataset, "time", dimensions, metadata.time_attributes(start), dtype="f8", chunks=chunks)


def define_members(dataset: netCDF4.Dataset, members: MemberValues | None) -> None:
    """Define the members of an ensemble and the values in which they differ; nothing for None.

    All entries of `members` have one length. An entry with an empty name only gives the number of members.
    """
    if members is None:
        return
    count = len(next(iter(members.values())))
    dataset.createDimension("member", count)
    attributes = {"long_name": "member of the ensemble", "standard_name": "realization", "units": "1"}
    define(dataset, "member", ("member",), attributes, np.arange(count, dtype=np.int32))
    for name, values in members.items():
        if name:
            units, array = getattr(values, "units", ""), np.array(values)
            array = array.astype(float) if array.dtype.kind in "iuf" else array.astype(str).astype(object)
            kind = str if array.dtype == object else array.dtype
            with_units = units and kind is not str and "/" not in units
            about = {"long_name": name} | ({"units": units} if with_units else {})
            define(dataset, metadata.member_name(name), ("member",), about, array, dtype=kind, fill=None)


def members_in(dataset: netCDF4.Dataset) -> tuple[tuple[str, ...], tuple[int, ...], metadata.Attributes]:
    """(dimensions, sizes, attributes) that variables have in addition in the file of an ensemble; empty in others."""
    if "member" not in dataset.dimensions:
        return (), (), {}
    values = (name for name, x in dataset.variables.items() if x.dimensions == ("member",) and name != "member")
    named = " ".join(values)
    return ("member",), (len(dataset.dimensions["member"]),), {"coordinates": named} if named else {}


def define_layers(dataset: netCDF4.Dataset, counts: Mapping[str, int]) -> None:
    """Define the dimensions and coordinates of several layers, and of the interfaces round them, {name: count}."""
    for name, count in counts.items():
        dataset.createDimension(name, count)
        attributes = {"long_name": f"number of the {name}, from the top down", "units": "1", "positive": "down"}
        define(dataset, name, (name,), attributes, np.arange(1, count + 1, dtype=np.int32))


def define_field(
    dataset: netCDF4.Dataset,
    row: Variable,
    grid: Grid,
    dtype: DTypeLike,
    *,
    time: bool = False,
    of_members: bool = False,
    along: str = "",
    compression: Compression = 1,
    attributes: Mapping[str, Attribute] | None = None,
) -> netCDF4.Variable:
    """Define a field of the variable table, with records in time if `time`, in chunks of whole slices or bands of rows.

    Args:
        dataset: the open Dataset.
        row: the field's row of the variable table.
        grid: the Grid.
        dtype: that of the variable.
        time: whether the field has a record for each time.
        of_members: whether each member has this field in the file of an ensemble.
        along: "layer" or "interface", if it has values in each.
        compression: 1 (fast) to 9 (small) of zlib, "zstd", or 0 for none.
        attributes: further attributes of the variable.
    """
    attributes = dict(attributes or {})
    dtype, size = np.dtype(dtype), metadata.shape(grid, row.position)
    bands = math.ceil(size[0] * size[1] * dtype.itemsize / LARGEST_CHUNK)
    chunks = math.ceil(size[0] / bands), size[1]
    dimensions, _, more = members_in(dataset) if of_members else ((), (), {})
    dimensions += (along,) * bool(along)
    coordinates = [str(a["coordinates"]) for a in (attributes, more) if "coordinates" in a]
    attributes |= {"coordinates": " ".join(coordinates)} if coordinates else {}
    return define(
        dataset,
        row.name,
        ("time",) * time + dimensions + metadata.DIMENSIONS[row.position],
        metadata.variable_attributes(row, grid) | attributes,
        dtype=dtype,
        chunks=(1,) * (time + len(dimensions)) + chunks,
        fill=metadata.fill_value(dtype),
        compression=compression,
    )


def limit_chunk_caches(dataset: netCDF4.Dataset) -> None:
    """Limit HDF5's cache of each variable to the chunks of one record and of the next one along time.

    The default of netCDF is 64 MB for each variable of each file, which a long run fills with records that are not
    read again.
    """
    for variable in dataset.variables.values():
        chunks = variable.chunking()
        if "time" in variable.dimensions and not isinstance(chunks, str):
            many = [
                1 if name == "time" else math.ceil(size / chunk)
                for name, size, chunk in zip(variable.dimensions, variable.shape, chunks)
            ]
            size = 2 * math.prod(many) * math.prod(chunks) * variable.dtype.itemsize
            variable.set_var_chunk_cache(size=min(size, LARGEST_CACHE))


BY_NAME = "xarray selects by name after set_index(gauge='gauge_name'); postprocess.open_output does this"


def define_times_of(dataset: netCDF4.Dataset, control: str, times: Sequence[float], start: Date | None) -> str:
    """Define the coordinate of the times of a control's values, such as the points of a track, once for each part.

    Args:
        dataset: the file.
        control: name of the control; what precedes the last dot is the part's.
        times: since the start [s], (n,).
        start: date and time of the start (UTC), or None.

    Returns:
        the name of its dimension.
    """
    part = control.rpartition(".")[0]
    name = re.sub(r"\W+", "_", part) + "_time"
    if name not in dataset.dimensions:
        dataset.createDimension(name, len(times))
        attributes = metadata.time_attributes(start) | {"long_name": f"time of the values of {part}"}
        define(dataset, name, (name,), attributes, np.asarray(times, float))
    return name


def define_gauges(
    dataset: netCDF4.Dataset, grid: Grid, gauges: Mapping[str, tuple[float, float]], depth: np.ndarray | None
) -> None:
    """Write the names and coordinates of gauges, {name: (x, y)}, and the depth there [m], (n,) or None."""
    names = np.char.encode(np.array(list(gauges), str), "utf-8")
    dataset.createDimension("name_length", max(names.dtype.itemsize, 1))
    attributes = {"long_name": "name of the gauge", "cf_role": "timeseries_id", "_Encoding": "utf-8"}
    attributes["comment"] = BY_NAME
    letters = names.view("S1").reshape(names.size, -1) if names.size else None
    define(dataset, "gauge_name", ("gauge", "name_length"), attributes, letters, dtype="S1")
    points = np.array(list(gauges.values()), float).reshape(-1, 2)
    for (name, attributes), values in zip(metadata.gauge_coordinates(grid).items(), points.T):
        attributes["long_name"] = f"{attributes['long_name']} of the gauge"
        define(dataset, name, ("gauge",), attributes, values)
    if depth is not None:
        attributes = metadata.at_point(metadata.variable_of("depth"), grid) | {"cell_methods": "gauge: point"}
        define(dataset, "depth", ("gauge",), attributes | metadata.places(grid), np.asarray(depth, float))


def define_series(dataset: netCDF4.Dataset, grid: Grid, row: Variable, dtype: Any, chunk: int) -> None:
    """Define a variable of the table at gauges, along time, in chunks of `chunk` records."""
    dimensions, _, more = members_in(dataset)
    attributes = metadata.at_point(row, grid) | metadata.places(grid)
    attributes["coordinates"] = " ".join(map(str, (attributes["coordinates"], *more.values())))
    sizes = (1,) * len(dimensions) + (min(len(dataset.dimensions["gauge"]), 64), chunk)
    stored: Any = {"dtype": dtype, "chunks": sizes, "fill": metadata.fill_value(dtype)}
    define(dataset, row.name, (*dimensions, "gauge", "time"), attributes, **stored)


@dataclasses.dataclass(frozen=True, eq=False)
class FieldsOfOneTime:
    """The fields without records in time in an open file; `new` makes one that has no others.

    Attributes:
        dataset, grid: the open Dataset, and its Grid.
        static: the fields that are constant in time, as for records.FieldFile.
        start: date and time of 0 s, or None.
    """

    dataset: netCDF4.Dataset
    grid: Grid
    static: Mapping[str | Variable, np.ndarray]
    start: Date | None = None

    @classmethod
    @contextlib.contextmanager
    def new(
        cls,
        path: str | Path,
        grid: Grid,
        about: Mapping[str, Attribute],
        *,
        seconds: float,
        since: float | None = None,
        start: Date | None = None,
        attributes: Mapping[str, Attribute] | None = None,
        static: Mapping[str | Variable, np.ndarray] | None = None,
        members: MemberValues | None = None,
    ) -> Iterator[Self]:
        """A new file with its grid, to which the block adds fields; an older file stays until it is complete.

        Args:
            path, grid: the path of the file, and its Grid.
            about: global attributes of such files, which replace `attributes`, those of the run.
            seconds, since, start, attributes, static, members: as in Moment.

        Raises:
            SwmodelError: if it cannot be written.
        """
        with replacing(path) as temporary, netCDF4.Dataset(temporary, "x") as dataset:
            dataset.setncatts(metadata.file_attributes(grid, {**(attributes or {}), **about}))
            define_grid(dataset, grid)
            define_time(dataset, start, ())
            dataset["time"][...] = seconds
            if since is not None:
                dataset["time"].bounds = "time_bnds"
                define(dataset, "time_bnds", ("bnds",), {}, np.array([since, seconds]))
            define_members(dataset, members)
            file = cls(dataset, grid, static or {}, start)
            yield file
            file.store_static()

    def store(self, row: Variable, values: np.ndarray, attributes: Mapping[str, Attribute] | None = None) -> None:
        """Define a field, and write its values in their own dtype; NaN, and where no water is, are missing values.

        Args:
            row, attributes: as for `define_field`.
            values: a global array (ny, nx), of an ensemble also (members, ny, nx), on faces also without those on the
                low side.
        """
        size, values = metadata.shape(self.grid, row.position), np.asarray(values)
        values = values if values.shape[-2:] == size else with_low_faces(values, self.grid, row.position)
        of_members = values.ndim > 2
        values = checked_shape(row.name, values, (members_in(self.dataset)[1] if of_members else ()) + size)
        options: Any = {"of_members": of_members, "attributes": attributes}
        variable = define_field(self.dataset, row, self.grid, values.dtype, **options)
        variable[:] = fill_dry(values, self.missing(values, row.position), values.dtype)

    def missing(self, values: np.ndarray, position: str) -> np.ndarray:
        """True where values at a C-grid position are NaN, or where no water is."""
        return dry_points(self.static, self.grid, position) | np.isnan(values)

    def store_static(self) -> None:
        """Write the land mask, and fields that are constant in time."""
        for key, array in self.static.items():
            if variable_name(key) == "wet":
                values = (checked_shape("wet", array, self.grid.shape) > 0.5).astype(np.int8)
                define(self.dataset, "wet", ("yh", "xh"), metadata.WET, values)
            elif variable_name(key) not in self.dataset.variables:
                self.store(metadata.variable_of(key), array)


def variable_name(key: str | Variable) -> str:
    """The name of a row of the variable table; a name is returned as it is."""
    return key if isinstance(key, str) else key.name


def checked_shape(name: str, array: ArrayLike, shape: Sequence[int]) -> np.ndarray:
    """`array` as a NumPy array.

    Raises:
        ValueError: if its shape is not `shape`.
    """
    array = np.asarray(array)
    if array.shape != tuple(shape):
        raise ValueError(f"{name} has shape {array.shape}, and the file needs {tuple(shape)}.")
    return array


def dry_points(static: Mapping[str | Variable, np.ndarray], grid: Grid, position: str) -> np.ndarray | bool:
    """True at the points of the C-grid position that touch no wet cell; False if `static` has no land mask "wet"."""
    if "wet" not in static:
        return False
    return ~metadata.reach_of_water(checked_shape("wet", static["wet"], grid.shape), grid, position)


def fill_dry(array: np.ndarray, dry: np.ndarray | bool, dtype: DTypeLike) -> np.ndarray:
    """`array` in `dtype`, with netCDF's fill value where `dry` is true."""
    with np.errstate(over="ignore"):
        filled = np.array(array, dtype)
    np.copyto(filled, np.asarray(metadata.fill_value(dtype), dtype), where=dry)  # less than half the time of np.where
    return filled


def with_low_faces(values: np.ndarray, grid: Grid, position: str) -> np.ndarray:
    """A global array (..., ny, nx) with NaN on the added low faces of directions that are not periodic."""
    pad = [(0, 0)] * values.ndim
    if position == "u" and not grid.periodic_x:
        pad[-1] = (1, 0)
    if position == "v" and not grid.periodic_y:
        pad[-2] = (1, 0)
    return np.pad(values, pad, constant_values=np.nan)
