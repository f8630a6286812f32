"""The sections of output and run.

The memory that outputs need in addition to the model, and the size of the file of gauges, follow from [output] alone.
"""

import datetime
import functools
import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal, cast

import jax

from ..defaults import MAXIMA_THRESHOLD
from ..fields.parameters import in_utc
from ..fields.state import State
from ..output.products.base import Product
from ..runtime import memory
from .parts import PartSection, section_for, sections_of, shipped
from .reading import Before, one_of
from .sections import (
    AnyCoordinate,
    Count,
    Devices,
    Folder,
    Fraction,
    Layout,
    Place,
    PositiveMetres,
    PositiveSeconds,
    RangeOfSeconds,
    Section,
    VariableNames,
    not_empty,
    written_path,
)


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


class Fields(Section):
    file: OutputFileOrStore  # file to write: netCDF (.nc), or a Zarr store (.zarr) of which each rank writes its part
    variables: VariableNames  # the variables in it
    every: PositiveSeconds  # time between records
    compression: Literal["auto", "zlib", "zstd", "none"] = "auto"  # of netCDF: zstd if it is there, else zlib
    box: tuple[AnyCoordinate, AnyCoordinate, AnyCoordinate, AnyCoordinate] | None = None  # x0, x1, y0, y1 of its cells
    coarsen: Count = 1  # cells along the sides of blocks, of which a netCDF file has the means


class Gauges(Section):
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


class Spectra(Section):
    """Isotropic spectra of energy and enstrophy; docs/spectra.md defines them."""

    file: OutputFile = "spectra.nc"  # netCDF file to write
    every: PositiveSeconds  # time between records
    transfers: bool = True  # also the transfers between scales


class Restart(Section):
    file: OutputFileOrStore = "restart.nc"  # file to write, netCDF (.nc) or a Zarr store (.zarr)
    every: PositiveSeconds  # time between restarts; there is one at the end, too


class ProductSection(PartSection):
    """A product: fields that the run accumulates."""

    file: OutputFile  # netCDF file to write


def _product_section(cls, name):
    file = {"file": f"{name}.nc", "__annotations__": {"file": OutputFile}, "__module__": __name__}
    return section_for(cls, None, type(cls.__name__, (ProductSection,), file))


PRODUCTS = sections_of(dict(sorted(shipped(Product).items())), _product_section)  # by key of [output]
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


def _utc(value):
    if isinstance(value, str):
        try:
            value = datetime.datetime.fromisoformat(value)
        except ValueError:
            pass
    if isinstance(value, datetime.datetime):
        try:
            return in_utc(value)
        except OverflowError:
            raise ValueError(f"{value.isoformat()} is before the year 1 or after 9999 in UTC; give another") from None
    if isinstance(value, datetime.date):
        return datetime.datetime(value.year, value.month, value.day)
    raise ValueError(f"expected a date and time in UTC, as in 2011-03-11T05:46:23, got {value!r}")


class Run(Section):
    until: PositiveSeconds  # model time at the end
    title: str = ""  # of the run, in its files
    start: Annotated[datetime.datetime, Before(_utc)] | None = None  # date and time of step 0, in UTC
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


def bytes_of_gauge_file(gauges: Gauges, until: float, dt: float, members: int = 1) -> float:
    """The bytes of the file of gauges after `until` [s]: its series, in float32, and their times, in float64."""
    series = members * len(gauges.positions) * len(gauges.variables)
    return (4.0 * series + 8.0) * until / (gauges.every or dt)


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
