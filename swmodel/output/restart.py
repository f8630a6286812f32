"""Restart files, from which a run continues bit for bit on the same ranks, or on any other number of ranks.

A restart is a netCDF file with global arrays in their own dtype, numbers, texts, the grid, and a checksum of all these.
It is either complete or absent: the file is written under another name, synced to disk and then renamed.
"""

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import netCDF4
import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ..errors import DataError
from ..grids.grid import Grid
from ..models.ensemble import Ensemble
from ..models.shallow_water import ShallowWater
from ..parallel.decomposition import row_blocks
from ..runtime.packages import VERSION
from ..runtime.signals import LOCK
from . import replacing
from .metadata import Attribute, describe_grid
from .products.base import ProductOutput
from .schedule import AbstractSimulation

PART = 1 << 24  # [bytes] of an array that are gathered, written and hashed at a time

FORMAT = 1  # increased when an older swmodel cannot read the file
OWN = ("restart_format", "swmodel_version", "grid_description", "checksum")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.@+-]*")


@dataclasses.dataclass(frozen=True)
class Restart:
    """The content of a restart file.

    Attributes:
        arrays: {name: global array or StoredArray}, in the dtype in which they were written.
        scalars: {name: bool, int, float or str}.
        attributes: {name: text or number} that describe the run.
        grid: the grid's class and arguments.
    """

    arrays: dict[str, Any]
    scalars: dict[str, Any]
    attributes: dict[str, Any]
    grid: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Layout:
    """Shape and dtype of an array in a restart."""

    shape: tuple
    dtype: np.dtype

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def write_restart_parts(
    path: str | Path,
    grid: Grid,
    layout: Mapping[str, Layout],
    parts: Iterable[tuple[str, object, np.ndarray]],
    scalars: Mapping[str, bool | int | float | str],
    attributes: Mapping[str, Attribute] | None = None,
    earlier: Path | None = None,
) -> None:
    """Write a restart; an older file of that name stays until the new one is complete and on disk.

    Args:
        path: the path of the file.
        grid: the Grid.
        layout: {name: Layout of the global array}, of numbers or bools, (..., ny, nx) or any other shape.
        parts: (name, index, values) with array[index] = values, for arrays in the order of their names and for each
            array in the order of its memory, as `Communicator.rows_to_root` yields blocks.
        scalars: {name: bool, int, float or str}.
        attributes: {name: text or number}; None and "" are left out.
        earlier: the name that the file gets which is replaced.

    Raises:
        SwmodelError: if the file cannot be written; the older one is unchanged.
        ValueError: for a name or a value that a netCDF file cannot hold, and if parts of an array are missing.
    """
    for name, array in layout.items():
        _check_storable(name, array.dtype)
    scalars = {name: _plain(name, value) for name, value in scalars.items()}
    attributes = {
        name: _plain(name, value)
        for name, value in (attributes or {}).items()
        if name not in OWN and value is not None and value != ""
    }
    header = {"restart_format": np.int32(FORMAT), "swmodel_version": VERSION, "grid_description": describe_grid(grid)}
    digest = _Digest(scalars, attributes, describe_grid(grid))
    with replacing(path, earlier=earlier) as temporary, netCDF4.Dataset(temporary, "x") as dataset:
        dataset.setncatts(header | {"checksum": digest.text()} | _as_attributes(attributes))
        dataset.createVariable("scalars", "i1").setncatts(_as_attributes(scalars))
        for name, array in layout.items():
            _define_array(dataset, grid, name, array)
        _write_parts(dataset, layout, parts, digest)
        dataset.setncattr("checksum", digest.text())


def parts_of(
    model: ShallowWater | Ensemble, fields: Mapping[str, jax.Array], arrays: Mapping[str, np.ndarray] | None = None
) -> tuple[dict[str, Layout], Iterator[tuple[str, Any, np.ndarray | None]]]:
    """(layout, parts) for `write_restart_parts`; each part is gathered when it is its turn, None but on the root.

    Args:
        model: the ShallowWater.
        fields: {name: placed tile arrays}.
        arrays: {name: array that every rank holds}.
    """
    shape, held = model.grid.shape, arrays or {}
    layout = {name: Layout((*tile.shape[:-2], *shape), tile.dtype) for name, tile in fields.items()}
    layout |= {name: Layout(array.shape, array.dtype) for name, array in held.items()}

    def parts():
        for name in sorted(layout):
            if name in held:
                yield name, ..., held[name]
                continue
            for where, block in model.communicator.rows_to_root(fields[name], shape, PART):
                yield name, where, block

    return layout, parts()


def write_restart_together(
    path: str | Path,
    model: ShallowWater | Ensemble,
    fields: Mapping[str, jax.Array],
    arrays: Mapping[str, ArrayLike],
    scalars: Mapping[str, bool | int | float | str],
    attributes: Mapping[str, Attribute],
) -> None:
    """Write a restart of fields whose tiles all ranks hold, of which the root gathers a block at a time; collective.

    Args:
        path, scalars, attributes: as for `write_restart_parts`.
        model, fields, arrays: as for `parts_of`.

    Raises:
        SwmodelError, ValueError: as `write_restart_parts` does, on every rank.
    """
    communicator, error = model.communicator, None
    layout, parts = parts_of(model, fields, {name: storable(name, array) for name, array in arrays.items()})
    if communicator.is_root:
        try:
            given: Any = parts
            write_restart_parts(path, model.grid, layout, given, scalars, attributes)
        except Exception as failed:  # noqa: BLE001  it is raised below, on all ranks
            error = failed
    for _ in parts:  # after an error the root still takes what the other ranks send
        pass
    failed = communicator.host_broadcast(error)
    if failed is not None:
        raise failed


@dataclasses.dataclass(frozen=True)
class StoredArray(Layout):
    """An array in a restart that is read by windows; `Decomposition.cut` accepts it as a global array."""

    path: Path
    name: str

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def block(self, rows: slice, columns: slice) -> np.ndarray:
        """(..., rows, columns) of an array (..., ny, nx)."""
        return self[(..., rows, columns)]

    def __getitem__(self, where: object) -> np.ndarray:
        with LOCK, netCDF4.Dataset(self.path) as dataset:
            dataset.set_auto_maskandscale(False)
            return np.asarray(dataset[self.name][where], order="C").view(self.dtype)  # a number keeps its shape ()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[...], dtype)


def open_restart(path: str | Path, grid: Grid | None = None, verify: bool = True) -> Restart:
    """A Restart whose arrays are read by windows, when they are used.

    Args:
        path: the path of the file.
        grid: the Grid on which the run continues, or None to accept any grid.
        verify: whether the whole file is compared with its checksum, one part of an array at a time. A single rank does
            this for all ranks.

    Raises:
        DataError: if there is no such file, it is damaged, newer than this swmodel, or of another grid.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"there is no restart file {path}; give the path of one that a run has written.")
    try:
        with LOCK, netCDF4.Dataset(path) as dataset:
            dataset.set_auto_maskandscale(False)
            _check_format(dataset, path)
            restart, checksum = _read(dataset, path), dataset.checksum
            found = _checksum(dataset, restart) if verify else None
    except DataError:
        raise
    except (OSError, RuntimeError, AttributeError, ValueError) as error:
        raise DataError(f"{path} is damaged or cut short ({error}); resume from an older restart.") from error
    if verify and checksum != found:
        raise DataError(f"{path} is damaged: its content does not match its checksum; resume from an older restart.")
    if grid is not None:
        check_grid(path, restart.grid, json.loads(describe_grid(grid)))
    return restart


def _checksum(dataset, restart):
    """The digest of the content of an open file, of which some rows at a time are read."""
    digest = _Digest(restart.scalars, restart.attributes, json.dumps(restart.grid))
    for name, array in sorted(restart.arrays.items()):
        digest.begin(name, array)
        if not array.ndim:
            digest.add(np.asarray(dataset[name][...]))
        elif math.prod(array.shape):
            shape = array.shape if array.ndim > 1 else (*array.shape, 1)
            for where in row_blocks(shape, array.dtype.itemsize, PART):
                digest.add(dataset[name][where])
    return digest.text()


def _check_format(dataset, path):
    if "restart_format" not in dataset.ncattrs():
        raise DataError(f"{path} is not a restart of swmodel; give the file that `restart` of a run names.")
    if dataset.restart_format > FORMAT:
        raise DataError(
            f"{path} has restart format {dataset.restart_format}, of swmodel {dataset.swmodel_version}, and swmodel "
            f"{VERSION} reads up to {FORMAT}; install the newer one."
        )


def check_grid(
    path: str | Path, was: dict, wanted: dict, remedy: str = "resume it with the grid it was written on"
) -> None:
    """Raise DataError if a file was written on another grid; both are described as in its attributes."""
    differences = [
        f"{name} was {was.get(name)} and is {wanted.get(name)}"
        for name in {**was, **wanted}
        if was.get(name) != wanted.get(name)
    ]
    if differences:
        raise DataError(f"{path} belongs to another grid: {', '.join(differences)}; {remedy}.")


def storable(name: str, array: ArrayLike) -> np.ndarray:
    """An array as it is written, in the byte order of this machine; raises ValueError if a file cannot hold it."""
    array = np.ascontiguousarray(array) if np.ndim(array) else np.asarray(array)
    _check_storable(name, array.dtype)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _check_storable(name, dtype):
    if not NAME.fullmatch(name) or dtype.kind not in "biuf" or dtype.itemsize > 8 or dtype == "f2":
        raise ValueError(f"write_restart: {name!r} of {dtype} cannot be stored; give bool, int or float arrays.")


def _plain(name, value):
    value = value.item() if isinstance(value, np.generic) else value
    if not NAME.fullmatch(name) or not isinstance(value, bool | int | float | str):
        raise ValueError(f"write_restart: {name!r} = {value!r} cannot be stored; give a bool, int, float or str.")
    return value


def _as_attributes(values):
    return {name: np.int8(value) if isinstance(value, bool) else value for name, value in values.items()}


def _define_array(dataset, grid, name, array):
    """Define the variable of an array of a Layout; its last dimensions are y and x where it has the grid's shape."""
    names = [f"n{size}" for size in array.shape]
    if array.shape[-2:] == grid.shape:
        names[-2:] = "y", "x"
    for dimension, size in zip(names, array.shape):
        if dimension not in dataset.dimensions:
            dataset.createDimension(dimension, size)
    stored = np.dtype("i1") if array.dtype == bool else array.dtype
    variable = dataset.createVariable(name, stored, names, fill_value=False)
    variable.set_auto_maskandscale(False)
    if array.dtype == bool:
        variable.dtype_in_memory = "bool"


def _write_parts(dataset, layout, parts, digest):
    """Write the parts of all arrays, and add them to the digest in the order in which they come."""
    missing, begun = {name: array.nbytes for name, array in layout.items()}, []
    for name, where, values in parts:
        if name not in begun[-1:]:
            digest.begin(name, layout[name])
            begun.append(name)
        dataset[name][where] = values.view("i1") if values.dtype == bool else values
        digest.add(values)
        missing[name] -= values.nbytes
    if begun != sorted(layout) or any(missing.values()):
        raise ValueError(f"write_restart_parts: {missing} bytes of the arrays {', '.join(begun)} are missing.")


def _read(dataset, path):
    arrays, scalars = {}, {}
    for name, variable in dataset.variables.items():
        if name == "scalars":
            scalars = {key: _python(variable.getncattr(key)) for key in variable.ncattrs()}
        else:
            kind = np.dtype(bool) if "dtype_in_memory" in variable.ncattrs() else variable.dtype
            arrays[name] = StoredArray(variable.shape, kind, path, name)
    attributes = {name: _python(dataset.getncattr(name)) for name in dataset.ncattrs() if name not in OWN}
    return Restart(arrays, scalars, attributes, json.loads(dataset.grid_description))


def _python(value: object) -> Any:
    """The value of an attribute as a bool, int, float or str; bools are stored as 8-bit integers."""
    if isinstance(value, np.generic) and value.dtype == np.int8:
        return bool(value)
    return value.item() if isinstance(value, np.generic) else value


class _Digest:
    """The SHA-256 digest of names, dtypes, shapes and bits."""

    def __init__(
        self, scalars: Mapping[str, bool | int | float | str], attributes: Mapping[str, Attribute], grid: str
    ) -> None:
        self._hash = hashlib.sha256(grid.encode())
        for name, value in sorted([*scalars.items(), *attributes.items()]):
            self._hash.update(f"{name}={value};".encode())

    def begin(self, name: str, array: np.ndarray | StoredArray | Layout) -> None:
        """Add what describes an array; arrays come in the order of their names."""
        self._hash.update(f"{name}:{array.dtype.str}:{tuple(array.shape)};".encode())

    def add(self, values: np.ndarray) -> None:
        """Add values of the array that was begun last, in the order of its memory."""
        whole = values.size and values.ndim
        self._hash.update(np.ascontiguousarray(values).view(np.uint8).data if whole else values.tobytes())

    def text(self) -> str:
        return self._hash.hexdigest()


# -- what a restart of a Simulation holds ------------------------------------------------------------------------------


def tiles_and_scalars_of(simulation: AbstractSimulation) -> tuple[dict[str, jax.Array], dict[str, Any]]:
    """(tile arrays, scalars) of a Simulation's restart; collective."""
    model, products = simulation.model, {str(k): x.arrays for k, x in enumerate(product_outputs(simulation))}
    leaves = named_leaves(state_and_history(simulation) | {"products": products})
    arrays = {name: leaf for name, leaf in leaves.items() if np.ndim(leaf) >= 2}
    scalars = {name: np.asarray(leaf).item() for name, leaf in leaves.items() if np.ndim(leaf) == 0}
    vectors = {name: leaf for name, leaf in leaves.items() if np.ndim(leaf) == 1}  # the same on all ranks
    first = next(iter(model.communicator.tiles(vectors).values()))
    scalars |= {name: json.dumps(np.asarray(vector).tolist()) for name, vector in first.items()}
    if model.batch:
        (scalars["members"],) = model.batch
    scalars |= {"step": simulation.step, "dt": simulation.dt, "stepper": type(simulation.scheme).__name__}
    scalars["products"] = json.dumps([output.watcher.description() for output in product_outputs(simulation)])
    depth = model.water_depth()
    arrays["depth"] = model.communicator.place(lambda rank: depth[rank].astype(model.dtype))
    return arrays, scalars


def product_outputs(simulation: AbstractSimulation) -> list[ProductOutput]:
    """The outputs of a Simulation whose arrays are in its restart."""
    return [output for output in simulation.outputs if isinstance(output, ProductOutput)]


def state_and_history(simulation: AbstractSimulation) -> dict[str, Any]:
    """The pytrees of a Simulation that steps change."""
    return {"state": simulation.state, "history": simulation.history}


def named_leaves(tree: Any) -> dict[str, Any]:
    """{name in a restart: leaf} of a pytree."""
    return {name_of_leaf(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def name_of_leaf(path: tuple) -> str:
    """The name in a restart of the leaf at a path of a pytree, as "state_eta"."""
    return jax.tree_util.keystr(path, simple=True, separator="_")
