"""The methods of a Simulation that add outputs: snapshots, gauges, products, spectra, restarts.

The rules that the arguments of Simulation and of its methods are checked by.
"""

import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self, cast

import jax
import jax.numpy as jnp
import numpy as np

from ..diagnostics.spectra import Spectra
from ..errors import ConfigError
from ..fields.parameters import (
    Choice,
    FileName,
    Flag,
    Moment,
    Names,
    Number,
    Part,
    Places,
    Stages,
    Text,
    check_arguments,
    refuse,
)
from ..fields.parts import as_pytree, shipped_parts
from ..fields.state import pytree
from ..output import is_store, products
from ..output.products.base import Product, ProductOutput, Sample, Samples, rows_by_name
from ..output.products.gauges import GaugeOutput, Gauges, depth_at
from ..output.products.snapshots import AUTO, COMPRESSIONS, FieldOutput, SpectraOutput
from ..output.running import RestartOutput, ZarrRestartOutput
from ..output.schedule import AbstractSimulation
from ..output.zarr_fields import ZarrFieldOutput
from ..runtime import memory
from ..runtime.packages import is_shipped
from .program import read_once


@pytree
class Trial:
    """The arrays of a Product's `start` and `add`, for their shapes."""

    product: Product

    def of(self, sample: Sample) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
        """(arrays before, and after a sample)."""
        sums = self.product.start(sample.state)
        return sums, {**sums, **self.product.add(sums, sample)}


class NetcdfName(FileName):
    """The name of a netCDF file."""

    def check(self, who: str, name: str, value: object) -> None:
        super().check(who, name, value)
        if is_store(cast(str | Path, value)):
            reason = "is the name of a Zarr store, which only fields and restarts can be written to"
            refuse(who, name, str(value), reason, "a name that ends in .nc")


STEPS = Number(None, "steps", minimum=0, whole=True, optional=True)
SECONDS = Number(None, "s", optional=True)
EVERY = Number(None, "s", above=0.0, optional=True)
RULES = {
    "model": Part(("dynamics", "at_rest"), "ShallowWater(grid, depth)"),
    "state": Part(("names", "map"), "model.at_rest()"),
    "stepper": Part(("step", "check", "history"), "RK4(dt=60.0)"),
    "start": Moment(),
    "title": Text(),
    "config": Text(),
    "overwrite": Flag(optional=True),
    "stages_per_exchange": Stages(),
}


def _adding(cls: type[Product]) -> "Callable[..., 'Outputs']":
    """The method `(path, parameters of the product)` of a Simulation that adds a Product of class `cls`."""

    def add(self, path, *values, **named):
        check_arguments(f"Simulation.{add.__name__}", {"path": NetcdfName()}, locals())
        return self.product(path, cls(*values, **named))

    own = [x for x in inspect.signature(as_pytree(cls)).parameters.values() if x.name in cls.keys()]
    first = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("self", "path")]
    add.__name__ = cls.__name__.lower()
    add.__signature__ = inspect.Signature([*first, *own])
    add.__doc__ = (
        f"Write to `path`: {cls.__doc__}\n    The parameters are those of {cls.__module__}.{cls.__name__}.\n    "
    )
    return add


class Outputs(AbstractSimulation):
    """The methods of a Simulation that add output files; each returns the Simulation, so that calls can be chained."""

    def write(
        self,
        path: str | Path,
        variables: Sequence[str] = ("eta", "u", "v"),
        every: float | None = None,
        compression: str = AUTO,
        box: Sequence[float] | None = None,
        coarsen: int = 1,
    ) -> Self:
        """Write snapshots of `variables` to `path`, at the start and every `every` seconds.

        `path` is a netCDF file that the root writes or, if the name ends in ".zarr", a store of which every rank writes
        its chunks.

        Args:
            path: the path of the file or store.
            variables: names of the fields.
            every: the interval between two records [s]; unless given, the first and the last state alone are written.
            compression: that of netCDF. "auto" is "zstd" where the netCDF library has that filter of HDF5, else "zlib",
                which takes several times as long for files of about the same size, but which all programs can read.
                "none" makes files three to five times as large.
            box: (x0, x1, y0, y1) of the cells in a netCDF file, in the grid's coordinates; all unless given.
            coarsen: cells along the sides of blocks, of which a netCDF file has the means.
        """
        check_arguments(
            "Simulation.write",
            {
                "path": FileName(),
                "variables": Names(),
                "every": EVERY,
                "compression": Choice((AUTO, *COMPRESSIONS)),
                "coarsen": Number(None, minimum=1, whole=True),
            },
            locals(),
        )
        arguments = path, tuple(variables), self._interval(every, path), self, compression
        if not is_store(path):
            self.outputs.append(FieldOutput(*arguments, box, coarsen))
        elif box is not None or coarsen != 1:
            raise ConfigError(
                f"{path}: a Zarr store has the whole grid; leave box and coarsen out, or name a .nc file."
            )
        else:
            self.outputs.append(ZarrFieldOutput(*arguments))
        return self

    def gauges(
        self,
        path: str | Path,
        points: Mapping[str, tuple[float, float]],
        *,
        variables: Sequence[str] = ("eta",),
        every: float | None = None,
        windows: Mapping[str, tuple[float, float]] | None = None,
        threshold: float = 0.01,
        arrival_fraction: float = 0.2,
    ) -> Self:
        """Write the elevation at `points`, {name: (x, y)}, interpolated bilinearly between wet cells.

        Args:
            path: the path of the netCDF file, which also holds the last three arguments for the scoring of the series.
            variables: names of prognostic variables to write, instead of the elevation alone, and of those derived
                variables that `means` may hold; all are averaged to cell centres.
            every: time between records [s], each of the nearest step; every step unless given.
            windows: {name: (first, last) [s]}: the times by which a gauge is scored; the whole run unless given.
            threshold: a gauge that stays below it [m] has no arrival.
            arrival_fraction: the fraction of the maximum in the window at which a wave counts as arrived.
        """
        rules = {"path": NetcdfName(), "points": Places(), "variables": Names(), "every": EVERY}
        check_arguments("Simulation.gauges", rules, locals())
        for output in self.outputs:
            if isinstance(output, GaugeOutput):
                raise ConfigError(f"{path}: gauges are written to {output.path} already; ask for all of them at once.")
        needed = memory.of_gauges(len(points) * len(variables), self.model.dtype.itemsize, math.prod(self.model.batch))
        memory.require(needed, f"Simulation.gauges: the series of {len(points):,} gauges", "give fewer")
        depth = None if self.model.film is None else depth_at(points, self.model)
        if depth is not None and (depth < 0).any() and self.model.uplift is not None and not self.model.batch:
            variables = [*dict.fromkeys((*variables, "thickness"))]  # the level lacks it over a bed that moves
        watcher = Gauges.at(points, self.model, tuple(variables))
        rules = {"depth": depth, "windows": dict(windows or {})}
        rules |= {"threshold": threshold, "arrival_fraction": arrival_fraction}
        self.outputs.append(GaugeOutput(path, dict(points), watcher, every or self.dt, **rules))
        return self

    def product(self, path: str | Path, product: Product) -> Self:
        """Accumulate a Product from the present step on, and write its file `path` at the end; restarts hold its sums.

        Args:
            path: the path of the netCDF file.
            product: one of `swmodel.products`, or of a class of your own.

        Raises:
            ConfigError: for what this run cannot have: a product of an ensemble, or of a surface under a rigid lid.
        """
        rules = {"path": NetcdfName(), "product": Part(("start", "add", "finish"), "Extremes(threshold=0.5)")}
        check_arguments("Simulation.product", rules, locals())
        who = type(product).__name__
        if self.model.batch and not product.of_ensembles:
            raise ConfigError(f"{who}: not available for an ensemble; run its members one by one.")
        if not self.scheme.may_have(product):
            raise ConfigError(f"{who}: under a rigid lid the surface does not move; omit {path}.")
        if product.records is not None:
            self._interval(product.every, path)
        product = product.prepared(self)
        if not is_shipped(type(product)):
            self._try(product)
        arrays = jax.eval_shape(product.start, self.state)
        needed = memory.of_sums(sum(math.prod(x.shape) * x.dtype.itemsize for x in arrays.values()))
        memory.require(needed, f"{who}: a sum of {len(arrays)} fields", "ask for fewer, or use more ranks")
        self.outputs.append((product.records or ProductOutput)(path, product, self))
        return self

    def _try(self, product):
        """Trace the methods of a product of one's own: a mistake in them must not end a run; raises ConfigError."""
        at, who, shape = (self.state, jnp.int32(0)), type(product).__name__, self.model.grid.shape
        start, added = jax.eval_shape(read_once, self.outline(), self.stepper, at, Trial(product))
        for name in added:
            was, now = (f"{one[name].dtype} {one[name].shape}" if name in one else "none" for one in (start, added))
            if was != now:
                raise ConfigError(f"{who}.add: {name!r} is {now}, and start made it {was}; keep its type and shape.")
        sums = {name: np.broadcast_to(np.zeros((), x.dtype), shape) for name, x in start.items()}
        with np.errstate(all="ignore"):
            fields = product.finish(sums, Samples(np.array([1]), self.dt, self.dt, rows_by_name(self)))
        for row, x in fields.items():
            if np.shape(x) != shape or row.position == "q":
                what = f"an array of shape {np.shape(x)} at {row.position!r}"
                raise ConfigError(f"{who}.finish: {row.name} is {what}; give one of shape {shape} at 'h', 'u' or 'v'.")

    def spectra(self, path: str | Path, every: float | None = None, transfers: bool = True) -> Self:
        """Write spectra of energy and enstrophy, and transfers, to `path`, at the start and every `every` seconds."""
        rules = {"path": NetcdfName(), "every": EVERY, "transfers": Flag()}
        check_arguments("Simulation.spectra", rules, locals())
        spectra = Spectra(self.model, transfers, self.scheme.rigid_lid)
        self.outputs.append(SpectraOutput(path, spectra, self._interval(every, path)))
        return self

    def restart(self, path: str | Path, every: float | None = None) -> Self:
        """Write a restart to `path` every `every` seconds, at the end, and on SIGUSR1, SIGINT and SIGTERM.

        It is a netCDF file that the root writes or, if the name ends in ".zarr", a store of which every rank writes its
        chunks.
        """
        check_arguments("Simulation.restart", {"path": FileName(), "every": EVERY}, locals())
        kind = ZarrRestartOutput if is_store(path) else RestartOutput
        self.outputs.append(kind(path, self._interval(every, path)))
        return self

    def _interval(self, every, path):
        if every is not None and not every >= 0.999 * self.dt:
            raise ConfigError(
                f"{path} is to be written every {every:g} s, and a step takes {self.dt:g} s; write less often."
            )
        return every


for _module in pkgutil.iter_modules(products.__path__, f"{products.__name__}."):
    importlib.import_module(_module.name)
for _name, _product in shipped_parts(Product).items():  # Simulation.means and the like
    setattr(Outputs, _name, _adding(_product))
