"""The sections that every experiment has: grid and sea floor, output and run.

A section of [output] describes its file, and its size. The memory that outputs need in addition to the model follows
from [output] alone.
"""

import dataclasses
import datetime
import functools
import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, cast

import jax

from ..defaults import MAXIMA_THRESHOLD, MINIMUM_DEPTH
from ..diagnostics.derived import in_all_layers
from ..fields.parameters import Number
from ..fields.state import State
from ..grids import grid
from ..grids.bathymetry import SOUND_SPEED, SeaFloor, depth_on, elevation_on
from ..grids.levees import Levee, check_on_grid, read_levees
from ..grids.patches import Patch
from ..grids.subgrid import RATIO
from ..grids.topography import LEVELS, Topography, topography_of
from ..output.products.base import Product
from ..output.products.snapshots import with_bed
from ..runtime import memory
from ..runtime.memory import size
from ..units import duration
from .parts import PartSection, Shipped, section_for, sections_of
from .reading import one_of
from .sections import (
    AnyCoordinate,
    Count,
    Date,
    Devices,
    Folder,
    FormulaInMetres,
    Fraction,
    InputFile,
    Layout,
    MapFile,
    NonNegativeMetres,
    Place,
    Polygons,
    PositiveMetres,
    PositiveSeconds,
    RangeOfSeconds,
    Section,
    VariableNames,
    not_empty,
    written_path,
)


class _Grid(PartSection):
    def check(self) -> None:
        self.build()


GRIDS = {
    "cartesian": section_for(grid.CartesianGrid, "cartesian", _Grid),
    "spherical": section_for(grid.SphericalGrid, "spherical", _Grid),
}
Grid = Annotated[Any, one_of(*GRIDS.values())]


SoundSpeed = Annotated[float, SOUND_SPEED]
SubgridRatio = Annotated[int, RATIO]


OF_FIXED_SHORES = "minimum_depth", "fill_lakes", "sound_speed"  # a topography is kept as it is
OF_MOVING_SHORES = "levees", "subgrid"


class _Floor(Section):
    mask: Polygons | MapFile | None = None  # cells of water, or that may be wet: a map that is 1/2 or more; a coast
    subgrid: SubgridRatio | None = None  # fine cells along a cell's side, of which it gets tables; for moving shores
    levees: InputFile | None = None  # CSV of levee, x, y, crest_m: lines that water overflows; for moving shores

    def on(self, grid: grid.Grid, moving: bool = False) -> SeaFloor | Topography:
        """The SeaFloor of a grid; its Topography where the shore moves."""
        mask = None if self.mask is None else self.mask.mask(grid)
        return topography_of(self, grid, mask) if moving else self._floor(grid, mask)

    def _floor(self, grid, mask):
        raise NotImplementedError

    def unused(self, moving: bool) -> list[str]:
        """The keys that are of no use if the shore moves, or of use only then."""
        return [name for name in (OF_FIXED_SHORES if moving else OF_MOVING_SHORES) if name in self.written]

    def in_nest(self, moving: bool) -> "_Floor":
        """The section of a nest without one of its own; levees that cross it are taken from the family's."""
        kept = self.written - {"levees"} - set(self.unused(True) if moving else ())
        return type(self)(**{key: getattr(self, key) for key in kept})

    def options(self) -> dict[str, tuple[Levee, ...]]:
        """The arguments of ShallowWater in addition to the depth: levees, with crests above the water at rest."""
        if self.levees is None:
            return {}
        return {"levees": read_levees(self.levees, *(getattr(self, name, 0.0) for name in LEVELS))}

    def check_key(self, name: str, value: Any, grid: grid.Grid) -> None:
        """Raise an error if the table of levees cannot be used, or has a levee that crosses no face of the grid."""
        if name == "levees" and value is not None:
            check_on_grid(read_levees(value), grid, value)


class FlatBottom(_Floor):
    type: Literal["flat"]
    depth: PositiveMetres  # of the water at rest

    def _floor(self, grid, mask):
        return depth_on(self.depth, grid, mask=mask)


class _Varying(_Floor):
    minimum_depth: NonNegativeMetres = 0.0  # shallower water is this deep
    fill_lakes: bool = False  # water apart from the largest body is land
    sound_speed: SoundSpeed | None = None  # about 1500 m/s, for the slower waves of compressible water

    @property
    def _options(self):
        names = "minimum_depth", "fill_lakes", "sound_speed", "datum", "land_datum", "margin"
        return {name: value for name, value in self if name in names}


class DepthFormula(_Varying):
    """Depth from a formula of the coordinates, positive down; land where it is 0 or less."""

    type: Literal["formula"]
    depth: FormulaInMetres  # positive down

    def _floor(self, grid, mask):
        return depth_on(self.depth, grid, mask=mask, **self._options)


class _Elevations(PartSection):
    file: InputFile  # of elevation or depth, in any of the formats of docs/guide/files.md


Elevations = section_for(Patch, None, _Elevations)
Patches = tuple[Elevations, ...]  # pyright: ignore[reportInvalidTypeForm]


class BathymetryFile(Elevations, _Varying):
    """Elevation (or depth) from a file, and from patches that take precedence where they have values."""

    type: Literal["file"]
    patches: Patches = ()  # files that take precedence, the first one before the others
    margin: Annotated[int, Number(minimum=0, whole=True)] = 0  # cells over which a file passes into the next one
    method: Literal["average", "harmonic", "interpolate"] = "average"  # mean over each cell, or value at its centre
    minimum_depth: NonNegativeMetres = MINIMUM_DEPTH  # shallower water is this deep

    def _floor(self, grid, mask):
        elevation = self.build().elevation(grid, masked=mask is None)
        patches = [each.build() for each in self.patches]
        return elevation_on(elevation, grid, self.method, patches=patches, mask=mask, **self._options)


Bathymetry = Annotated[Any, one_of(FlatBottom, DepthFormula, BathymetryFile)]


# -- output ------------------------------------------------------------------------------------------------------------


def _file_name(value):
    if not value.endswith(".nc"):
        stores = "; only [[output.fields]] and [output.restart] can be Zarr stores" if value.endswith(".zarr") else ""
        raise ValueError(f"{value!r} does not end in .nc{stores}")
    return written_path(value)


def _file_or_store_name(value):
    if not value.endswith((".nc", ".zarr")):
        raise ValueError(f"{value!r} ends in neither .nc nor .zarr")
    return written_path(value)


OutputFile = Annotated[str, _file_name]
OutputFileOrStore = Annotated[str, _file_or_store_name]


@dataclasses.dataclass(frozen=True)
class WrittenRun:
    """What the files of a run depend on.

    Attributes:
        model: the ShallowWater, on any tile, or the Ensemble; cells: the number of cells of its grid.
        until, dt: the length of the run and of a step [s].
    """

    model: Any
    cells: int
    until: float
    dt: float

    @property
    def members(self) -> int:
        """The number of members, 1 of a single run."""
        return math.prod(self.model.batch)

    def records(self, every: float) -> int:
        """The number of records at intervals of `every` [s]."""
        return int(self.until / every + 1e-9) + 1


class FileSection(Section):
    """A file, or several, that a run writes."""

    def line(self, run: WrittenRun) -> str:
        """Its content, interval and largest size."""
        raise NotImplementedError

    def size_on_disk(self, run: WrittenRun, restarted: Sequence[int], tiles: int) -> tuple[int, float]:
        """(number of files, bytes before compression), with so many fields in each array of a restart, and a chunk a
        tile."""
        return 1, 0.0


def _number(file, arrays, chunks):
    """The number of files: 1 for netCDF; the chunks and descriptions for a Zarr store."""
    return arrays * (chunks + 1) + 1 if file.endswith(".zarr") else 1


class Fields(FileSection):
    file: OutputFileOrStore  # file to write: netCDF (.nc), or a Zarr store (.zarr) of which each rank writes its part
    variables: VariableNames  # the variables in it
    every: PositiveSeconds  # time between records
    compression: Literal["auto", "zlib", "zstd", "none"] = "auto"  # of netCDF: zstd if it is there, else zlib
    box: tuple[AnyCoordinate, AnyCoordinate, AnyCoordinate, AnyCoordinate] | None = None  # x0, x1, y0, y1 of its cells
    coarsen: Count = 1  # cells along the sides of blocks, of which a netCDF file has the means

    def line(self, run: WrittenRun) -> str:
        names, records = ", ".join(with_bed(self.variables, run.model)), run.records(self.every)
        packed = "" if self.compression == "none" else " before compression"
        about = f"{size(self.size_on_disk(run, (), 1)[1])}{packed}"
        return f"{self.file}: {names} every {duration(self.every)}, {records} records, {about}"

    def size_on_disk(self, run: WrittenRun, restarted: Sequence[int], tiles: int) -> tuple[int, float]:
        names, records = with_bed(self.variables, run.model), run.records(self.every)
        arrays = sum(len(in_all_layers(name, run.model)) for name in names)
        return _number(self.file, arrays, records * tiles), 4.0 * run.members * run.cells * records * arrays


class Gauges(FileSection):
    """Series at points, and the settings of their scores; `swmodel/postprocess/scores.py` defines the scores."""

    file: OutputFile = "gauges.nc"  # netCDF file to write
    variables: VariableNames = ("eta",)  # read at each gauge: of the state, or as of means; at cell centres
    every: PositiveSeconds | None = None  # time between records; every step unless given
    positions: Annotated[dict[str, Place], not_empty]  # {name = [x, y]}
    observations: Folder | None = None  # of NAME.csv or .nc, to compare with
    window: RangeOfSeconds | dict[str, RangeOfSeconds] | None = None  # for scores; default: the whole run
    threshold: PositiveMetres = MAXIMA_THRESHOLD  # a gauge that stays below it has no arrival
    arrival_fraction: Fraction = 0.2  # fraction of the maximum that counts as arrival

    @property
    def windows(self) -> dict[str, tuple[float, float]]:
        """{gauge: (first, last) [s]} of the gauges that have a window."""
        if isinstance(self.window, tuple):
            return dict.fromkeys(self.positions, self.window)
        return dict(self.window or {})

    def line(self, run: WrittenRun) -> str:
        what = "elevation" if self.variables == ("eta",) else ", ".join(self.variables)
        every, needed = duration(self.every) if self.every else "step", size(self.size_on_disk(run, (), 1)[1])
        return f"{self.file}: {what} at {', '.join(self.positions)}, every {every}, {needed}"

    def size_on_disk(self, run: WrittenRun, restarted: Sequence[int], tiles: int) -> tuple[int, float]:
        series = run.members * len(self.positions) * len(self.variables)
        return 1, (4.0 * series + 8.0) * run.until / (self.every or run.dt)  # in float32, and times in float64


class Spectra(FileSection):
    """Isotropic spectra of energy and enstrophy; docs/guide/spectra.md defines them."""

    file: OutputFile = "spectra.nc"  # netCDF file to write
    every: PositiveSeconds  # time between records
    transfers: bool = True  # also the transfers between scales

    def line(self, run: WrittenRun) -> str:
        what = "spectra and transfers" if self.transfers else "spectra"
        interval = f"every {duration(self.every)}, {run.records(self.every)} records"
        return f"{self.file}: {what} of energy and enstrophy {interval}"


class Restart(FileSection):
    file: OutputFileOrStore = "restart.nc"  # file to write, netCDF (.nc) or a Zarr store (.zarr)
    every: PositiveSeconds  # time between restarts; there is one at the end, too

    def line(self, run: WrittenRun) -> str:
        return f"{self.file}: restart, every {duration(self.every)} and at the end"

    def size_on_disk(self, run: WrittenRun, restarted: Sequence[int], tiles: int) -> tuple[int, float]:
        size = float(run.cells * sum(restarted) * run.model.dtype.itemsize)
        return _number(self.file, len(restarted), tiles), size


class ProductSection(PartSection, FileSection):
    """A product: fields that the run accumulates."""

    file: OutputFile  # netCDF file to write

    def line(self, run: WrittenRun) -> str:
        begin = getattr(self, "begin", None)
        after = "" if begin is None else f", after {duration(begin)}"
        return f"{self.file}: {self.build().content()}{after}"

    def size_on_disk(self, run: WrittenRun, restarted: Sequence[int], tiles: int) -> tuple[int, float]:
        return 1, self.build().bytes_of_file(run.cells, len(arrays_of(self, 1)), run.until)


def _product_section(cls, name):
    file = {"file": f"{name}.nc", "__annotations__": {"file": OutputFile}, "__module__": __name__}
    return section_for(cls, None, type(cls.__name__, (ProductSection,), file))


PRODUCTS = sections_of(_product_section, Shipped(Product))  # by key of [output]
OwnProduct = Annotated[Any, one_of(bases=(Product,), make=functools.partial(section_for, common=ProductSection))]


class OutputBase(Section):
    """The files of a run."""

    folder: Annotated[str, written_path] = "."  # where all files are written
    fields: tuple[Fields, ...] = ()  # fields at regular times
    gauges: Gauges | None = None  # series at points
    spectra: Spectra | None = None  # isotropic spectra
    restart: Restart | None = None  # states from which a run can continue
    products: tuple[OwnProduct, ...] = ()  # products of one's own: `type = "file:Class"`, file, and its parameters

    def files(self) -> Iterator[tuple[tuple[str | int, ...], Any]]:
        """(path of keys, section) of all files."""
        for name, value in self:
            if isinstance(value, tuple):
                yield from ((("output", name, k), section) for k, section in enumerate(value))
            elif isinstance(value, Section):
                yield ("output", name), value

    def named_products(self) -> Iterator[tuple[tuple[str | int, ...], Any]]:
        """(path of keys, section) of all products."""
        return ((path, section) for path, section in self.files() if isinstance(section, ProductSection))


_KEYS = {name: functools.partial(PRODUCTS.__getitem__, name) for name in PRODUCTS}
_WithProducts: Any = type("Output", (OutputBase,), {"__annotations__": _KEYS, **dict.fromkeys(_KEYS)})


class Output(_WithProducts):
    """The files of a run."""


class Run(Section):
    until: PositiveSeconds  # model time at the end
    title: str = ""  # of the run, in its files
    start: Date | None = None  # date and time of step 0, in UTC
    communicator: Literal["auto", "serial", "mpi", "sharded"] = "auto"  # how ranks or devices exchange halos
    layout: Layout = None  # ranks along x and y; chosen unless given
    devices: Devices = None  # of communicator = "sharded"; default: all GPUs, or one for each core
    engine: Literal["auto", "fused", "arrays"] = "auto"  # fused loops, or arrays
    stages_per_exchange: Count | Literal["auto"] = 1  # how many stages share one exchange of halos

    def check(self) -> None:
        start = self.start or datetime.datetime(2000, 1, 1)
        if self.until > (datetime.datetime.max - start).total_seconds() - 86400.0:
            raise ValueError(
                f"until = {self.until:.4g} s after {start:%Y-%m-%d} is beyond the year 9999, where calendars end; "
                "shorten the run"
            )
        if self.devices is not None and self.communicator != "sharded":
            raise ValueError(f"devices = {self.devices} is for communicator = 'sharded', not {self.communicator!r}")


def bytes_of_gauges(output: Output, itemsize: int, members: int = 1) -> float:
    """The bytes on a rank for the series of all gauges and variables."""
    gauges = output.gauges
    return 0.0 if gauges is None else memory.of_gauges(len(gauges.positions) * len(gauges.variables), itemsize, members)


def bytes_of_sums(output: Output, tile: int, itemsize: int) -> float:
    """The bytes on a rank of `tile` cells for the arrays of products."""
    arrays = [x for _, section in output.named_products() for x in arrays_of(section, tile, itemsize).values()]
    return memory.of_sums(sum(math.prod(x.shape) * x.dtype.itemsize for x in arrays))


def bytes_of_outputs(output: Output, tile: int, itemsize: int, members: int = 1) -> float:
    """The bytes on a rank of `tile` cells that gauges, spectra and products need in addition to the model."""
    needed = bytes_of_gauges(output, itemsize, members) + bytes_of_sums(output, tile, itemsize)
    return needed + (memory.of_spectra(tile, itemsize, output.spectra.transfers) if output.spectra is not None else 0)


def arrays_of(section: Any, cells: int, itemsize: int = 8) -> dict[str, Any]:
    """{name: shape and type} of the arrays of a product on a tile of so many cells."""
    product, one = section.build(), jax.ShapeDtypeStruct((int(cells),), f"float{8 * itemsize}")
    names = {"u", "v", "eta", *getattr(product, "variables", ())}
    return jax.eval_shape(product.start, State(**dict.fromkeys(names, cast(Any, one))))
