"""Fields and spectra of the state at regular times, put together from the tiles of all ranks.

Snapshots of every few steps stay on the device until a chunk of steps is complete. If each snapshot ended a chunk, the
time between two chunks, which is that of several steps, would be spent on each.
"""

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Unpack

import jax
import jax.numpy as jnp
import netCDF4
import numpy as np

from ...diagnostics import derived as diagnostics
from ...diagnostics.spectra import Spectra
from ...dynamics.clock import Time
from ...dynamics.domain import Model
from ...dynamics.system import System
from ...errors import ConfigError
from ...fields.field import Count
from ...fields.state import State, pytree, static
from ...grids.grid import Grid
from ...models.ensemble import Ensemble
from ...models.shallow_water import ShallowWater
from ...runtime.compilation import jit
from ...runtime.signals import LOCK
from ...stencils.native import push_slot
from ...stepping.loop import Members, on_each_tile, step_loop
from ...stepping.steps import History
from .. import Claim, definitions, metadata
from ..metadata import Attribute, Compression, rows_of, static_fields
from ..netcdf import GridPart
from ..records import FieldFile, Opening, RecordFile
from ..schedule import AbstractSimulation, SnapshotOutput
from .base import MakeSample

MOST_STEPS = 64  # between two snapshots; the chunks that less frequent ones end are long enough
MOST_RECORDS = 12  # that wait on the device: a run that is killed loses them
MOST_BYTES = 64_000_000  # of gathered snapshots, which one process holds to write them
COMPRESSIONS: dict[str, Compression] = {"zlib": 1, "zstd": "zstd", "none": 0}
AUTO = "auto"  # zstd where the netCDF library has it, else zlib
COMMENT = "summed over rings of |k| and divided by their width: the sum times the width is the domain's mean"


@functools.cache
def has_zstd() -> bool:
    """Whether the netCDF library here can compress by zstd."""
    with LOCK, netCDF4.Dataset("zstd", "w", diskless=True) as dataset:
        return bool(dataset.has_zstd_filter())


@dataclasses.dataclass(frozen=True)
class Fields:
    """Which fields a file has.

    Attributes:
        names: of the fields.
        edges: whether those on faces have the faces on the west, and on the south side of the domain, too: those that
            are not periodic.
    """

    names: tuple[str, ...]
    edges: tuple[bool, bool]

    @staticmethod
    def of(simulation: AbstractSimulation, names: Sequence[str]) -> "Fields":
        """The Fields of these names in files of a Simulation."""
        grid = simulation.model.grid
        return Fields(tuple(names), (not grid.periodic_x, not grid.periodic_y))

    def at(self, equations: System, state: State, step: Count) -> dict[str, jax.Array]:
        """{name: tile array} of a State at a step, in new arrays: the next steps overwrite those of the State."""
        flow = equations.flow(state, Time(step))
        fields = {name: _with_edges(diagnostics.field(name, flow), self.edges) for name in self.names}
        return jax.tree.map(jnp.copy, fields)


def _with_edges(field, edges):
    """A Field's interior, with the faces on its west and south side in directions that are not periodic."""
    west, south = edges
    x, y = field.position in "uq", field.position in "vq"
    return field.crop((int(west and x), 0, int(south and y), 0)).data


@jit(static_argnames=("fields",))
def _diagnose(dynamics, stepper, packed, step, fields):
    def tile_fields(dynamics, stepper, packed, step):
        state = step_loop(dynamics, stepper, prepared=False).get_state(packed)
        return fields.at(stepper.system(dynamics), state, step)

    return on_each_tile(dynamics, tile_fields)(dynamics, stepper, packed, step)


def fields_of_tiles(simulation: AbstractSimulation, names: Sequence[str]) -> dict[str, jax.Array]:
    """{name: tile arrays of the present state}, on faces with those on the low side where they are not periodic."""
    dynamics, packed = simulation.packed()
    fields = Fields.of(simulation, names)
    return _diagnose(dynamics, simulation.stepper, packed, jnp.int32(simulation.step), fields)


def gathered_fields(
    model: ShallowWater | Ensemble, tiles: dict[str, jax.Array]
) -> Iterator[tuple[str, np.ndarray | None]]:
    """Yield (name, global array (ny, nx) on the root, None elsewhere) of `fields_of_tiles`; collective.

    Arrays on faces have n + 1 entries in directions that are not periodic. A field is gathered when it is its turn, and
    its tiles are forgotten then. Nothing is gathered before the first turn.
    """
    for name in list(tiles):
        yield name, model.gather(tiles.pop(name))


@pytree
class Snapshots:
    """Fields of the steps that are multiples of `every`, in arrays of `capacity` slots.

    Attributes:
        fields: which fields.
        every: [steps].
        capacity: the largest number of snapshots in one chunk of steps.
    """

    fields: Fields = static()
    every: int = static()
    capacity: int = static()

    is_checked: ClassVar[bool] = True

    @staticmethod
    def of(simulation: AbstractSimulation, fields: Fields, every: float | None, record: int) -> "Snapshots | None":
        """The Snapshots of a file; None if each record has to end a chunk.

        Args:
            simulation: the Simulation.
            fields: which fields.
            every: the interval between two records [s].
            record: the bytes of a record that one process holds to write it (`FieldOutput.bytes_of_record`).
        """
        model, steps = simulation.model, 0.0 if every is None else every / simulation.dt
        capacity = min(MOST_RECORDS, MOST_BYTES // record)
        whole = 1 <= round(steps) <= MOST_STEPS and math.isclose(steps, round(steps), rel_tol=1e-9)
        # Chunks of whole cycles of the stepper's buffers end without copies of arrays.
        cycle = simulation.scheme.buffer_cycle
        capacity -= capacity % cycle if capacity > cycle else 0
        if not whole or capacity < 2 or model.batch or model.communicator.name == "sharded":
            return None
        return Snapshots(fields, round(steps), capacity)

    def update(
        self, slots: dict[str, jax.Array], make_sample: MakeSample, step: jax.Array, row: Count | None = None
    ) -> dict[str, jax.Array]:
        """The slots after step number `step`; the arguments are those of Sampler.update."""

        def pushed():
            sample = make_sample()
            fields = self.fields.at(sample.equations, sample.state, step)
            new, _ = push_slot(list(slots.values()), [fields[name] for name in slots], self._slot(step))
            return dict(zip(slots, new))

        return jax.lax.cond(step % self.every == 0, pushed, lambda: slots)

    def _slot(self, step):
        return step // self.every % self.capacity

    def next_end(self, step: int) -> int:
        """The step at which a chunk that begins at `step` has filled all slots."""
        return (step // self.every + self.capacity) * self.every

    def steps(self, first: int, last: int) -> list[int]:
        """The numbers of the steps after `first`, up to `last`, of which there are snapshots."""
        return [n * self.every for n in range(first // self.every + 1, last // self.every + 1)]

    def read(self, slots: dict[str, jax.Array], steps: list[int]) -> dict[str, np.ndarray]:
        """{name: host array (len(steps), my, mx)}, copies of the snapshots of these steps."""
        places = [self._slot(step) for step in steps]
        return {name: np.asarray(slots[name])[places] for name in self.fields.names}


def with_bed(variables: Sequence[str], model: Model) -> tuple[str, ...]:
    """The variables of a file of fields of a model, with what the amount of water needs besides levels.

    Where the sea floor of a moving shore moves, the level of dry land is that of its bed at the time, which takes the
    depth of each record. Over beds finer than the cells, it takes the thickness.
    """
    needed = ["depth"] * (model.film is not None and model.uplift is not None)
    needed += ["thickness"] * (model.sea_floor.bed is not None)
    return tuple(dict.fromkeys((*variables, *needed))) if "eta" in variables else tuple(variables)


class FieldOutput(SnapshotOutput):
    """Snapshots of fields; `compression` is one of COMPRESSIONS, or AUTO.

    Attributes:
        watcher: the Snapshots that keep its records on the device, or None.
        part: the GridPart that the file has, None for the whole grid.

    Raises:
        ConfigError: for the name of a variable that the model's runs do not have, and for a compression that the netCDF
            library here does not have.
    """

    watcher: Snapshots | None

    def __init__(
        self,
        path: str | Path,
        variables: Sequence[str],
        every: float | None,
        simulation: AbstractSimulation,
        compression: str = AUTO,
        box: Sequence[float] | None = None,
        coarsen: int = 1,
    ) -> None:
        model = simulation.model
        names = diagnostics.names_in_files(model)
        if unknown := ", ".join(repr(name) for name in variables if name not in names):
            raise ConfigError(f"{path}: there is no variable {unknown}; choose from {', '.join(names)}.")
        if compression == AUTO:
            compression = "zstd" if has_zstd() else "zlib"
        elif compression == "zstd" and not has_zstd():
            raise ConfigError(f"{path}: the netCDF library here has no zstd; use compression 'zlib' or 'none'.")
        variables = tuple(each for name in variables for each in diagnostics.in_all_layers(name, model))
        self.path, self.variables, self.every = Path(path), with_bed(variables, model), every
        self.compression: Compression = COMPRESSIONS[compression]
        self.part = None if box is None and coarsen == 1 else GridPart.of(path, model.grid, box, coarsen)
        record = self.bytes_of_record(simulation)
        self.watcher = Snapshots.of(simulation, Fields.of(simulation, self.variables), every, record)

    def start_arrays(self, simulation: AbstractSimulation, packed: tuple[State, History]) -> dict[str, jax.Array]:
        """{name: slots (capacity, my, mx)} of this rank's tile."""
        assert self.watcher is not None
        like = functools.partial(_diagnose, fields=self.watcher.fields)
        shapes = jax.eval_shape(like, simulation.outline(), simulation.stepper, packed, jnp.int32(0))
        return {name: jnp.zeros((self.watcher.capacity, *x.shape), x.dtype) for name, x in shapes.items()}

    def open(self, simulation: AbstractSimulation, attributes: Mapping[str, Attribute], claim: Claim) -> None:
        grid, rows, static = simulation.model.grid, rows_of(simulation, self.variables), static_fields(simulation)
        if self.part is not None:
            self.part = dataclasses.replace(self.part, static=static)
            grid, static = self.part.grid, self.part.static_fields()
            rows = [self.part.row(metadata.variable_of(row)) for row in rows]
            attributes = {**attributes, **self.part.attributes}
        self.positions = {row.name: row.position for row in map(metadata.variable_of, rows)}
        self.file = FieldFile(
            claim,
            grid,
            rows,
            **self.how_to_open(simulation, attributes),
            static=static,
            layers=simulation.model.layer_count,
            compression=self.compression,
        )

    def bytes_of_record(self, simulation: AbstractSimulation) -> int:
        """Bytes of the fields of a record that one process holds when it writes them: those of the whole grid."""
        grid, rows = simulation.model.grid, map(metadata.variable_of, rows_of(simulation, self.variables))
        return simulation.model.dtype.itemsize * sum(math.prod(metadata.shape(grid, row.position)) for row in rows)

    @property
    def is_written_by_chunk(self) -> bool:
        return self.watcher is not None

    def next_step(self, simulation: AbstractSimulation) -> int | None:
        return super().next_step(simulation) if self.watcher is None else self.watcher.next_end(simulation.step)

    def chunk(self, simulation: AbstractSimulation, count: int, end: int) -> None:
        if self.watcher is not None and (steps := self.watcher.steps(simulation.step - count, end)):
            self.write_kept(simulation, steps, self.watcher.read(self.arrays, steps))

    def write_kept(self, simulation: AbstractSimulation, steps: Sequence[int], tiles: Mapping[str, np.ndarray]) -> None:
        """Write the records of `steps`, {name: host arrays (len(steps), my, mx) of this rank's tile}; collective.

        A field of all these records is gathered together.
        """
        whole: dict[str, Any] = {name: simulation.model.gather(tile) for name, tile in tiles.items()}
        for k, step in enumerate(steps) if simulation.communicator.is_root else ():
            fields = {name: records[k] for name, records in whole.items()}
            write = functools.partial(self._append, step * simulation.dt, fields.items())
            self.submit(write, sum(x.nbytes for x in fields.values()))

    def _append(self, seconds, fields):
        """Append a record of (name, array) of one field after another."""
        if (part := self.part) is not None:
            fields = ((name, part.cut(self.positions[name], array)) for name, array in fields)
        self.file.append(seconds, fields)

    def write(self, simulation: AbstractSimulation) -> None:
        """Where gathering needs messages, one field after another is gathered while the thread writes; collective."""
        seconds, model, tiles = simulation.time, simulation.model, fields_of_tiles(simulation, self.variables)
        fields = gathered_fields(model, tiles)
        if model.communicator.gathers_alone:
            self.submit(lambda: self._append(seconds, fields), sum(tile.nbytes for tile in tiles.values()))
            return
        with self.stream(lambda parts: self._append(seconds, parts)) as put:
            for name, array in fields:
                put((name, array), 0 if array is None else array.nbytes)

    def lowered(
        self, simulation: AbstractSimulation, dynamics: "System | Members", packed: tuple[State, History]
    ) -> list:
        fields = Fields.of(simulation, self.variables)
        return [_diagnose.lower(dynamics, simulation.stepper, packed, jnp.int32(0), fields)]


class SpectraFile(RecordFile):
    """Spectra and their transfers along time.

    Args:
        path: the path of the file, or a Claim of it.
        spectra: the Spectra, whose rings and names the file has.
        grid: the Grid.
        opening: the other arguments, those of Opening.

    Raises:
        DataError, SwmodelError: as RecordFile.
    """

    def __init__(self, path: str | Path | Claim, spectra: Spectra, grid: Grid, **opening: Unpack[Opening]) -> None:
        self._names, self._rings = spectra.names, spectra.wavenumber.size

        def define(dataset):
            _define_rings(dataset, spectra)
            along, sizes, more = definitions.members_in(dataset)
            dimensions, chunks = ("time", *along, "wavenumber"), (1, *sizes, self._rings)
            for name in spectra.names:
                about = {**spectra.about(name), "cell_methods": "area: mean time: point", **more}
                definitions.define(dataset, name, dimensions, about, dtype="f8", chunks=chunks, compression=1)

        given = opening.get("attributes") or {}
        comment = "; ".join(map(str, filter(None, [COMMENT, given.get("comment")])))
        opening["attributes"] = {**given, "comment": comment}
        about = {"title": "Shallow-water model spectra", "stored_as": "float64"}
        super().__init__(path, grid, define, about, points=True, **opening)

    def append(self, seconds: float, record: Mapping[str, np.ndarray]) -> None:
        """Write one record: {name: (rings,)}, of an ensemble (members, rings), at `seconds` [s]."""
        shape = (1, *self._members, self._rings)
        values = {name: np.asarray(record[name], float).reshape(shape) for name in self._names}
        self.write(np.array([seconds], float), values)


def _define_rings(dataset, spectra):
    dataset.createDimension("wavenumber", spectra.wavenumber.size)
    dataset.createDimension("bnds", 2)
    attributes = {
        "long_name": "isotropic angular wavenumber",
        "units": "rad m-1",
        "bounds": "wavenumber_bnds",
        "ring_width": np.float64(spectra.width),
        "largest_resolved_in_all_directions": np.float64(spectra.largest),
    }
    definitions.define(dataset, "wavenumber", ("wavenumber",), attributes, spectra.wavenumber)
    definitions.define(dataset, "wavenumber_bnds", ("wavenumber", "bnds"), {}, spectra.bounds)


class SpectraOutput(SnapshotOutput):
    """Snapshots of spectra and their transfers."""

    def __init__(self, path: str | Path, spectra: Spectra, every: float | None) -> None:
        self.path, self.spectra, self.every = Path(path), spectra, every

    def open(self, simulation: AbstractSimulation, attributes: Mapping[str, Attribute], claim: Claim) -> None:
        self.file = SpectraFile(claim, self.spectra, simulation.model.grid, **self.how_to_open(simulation, attributes))

    def write(self, simulation: AbstractSimulation) -> None:
        seconds = simulation.time
        spectra = self.spectra.of(simulation.state, halo=simulation.halo, step=simulation.step, dt=simulation.dt)
        self.submit(lambda: self.file.append(seconds, spectra), sum(array.nbytes for array in spectra.values()))
