"""The methods of a Simulation that add outputs: snapshots, gauges, maxima, tidal constants, means, spectra, restarts.

Each method adds a file to those that the run writes, and a monitor if something must be computed in every step.
"""

import abc
import datetime
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import jax
import numpy as np

from ..defaults import MAXIMA_THRESHOLD
from ..diagnostics.spectra import Spectra
from ..errors import ConfigError
from ..fields.parameters import Choice, FileName, Flag, Names, Number, Places, check_arguments
from ..fields.state import State
from ..output.gathering import Fields
from ..output.products import ProductOutput
from ..output.restart_output import RestartOutput
from ..output.schedule import AUTO, COMPRESSIONS, FieldOutput, GaugeOutput, MaximaOutput
from ..output.spectra import SpectraOutput
from ..output.zarr_output import ZarrFieldOutput
from ..output.zarr_restart import ZarrRestartOutput
from ..output.zarr_store import is_store
from ..runtime import budget
from .arguments import EVERY, NetcdfName
from .monitors import Gauges, Maxima, depth_at
from .products import harmonic_analysis
from .snapshots import Snapshots
from .statistics import extremes_of, means_of

__all__ = ["Outputs"]


class Outputs(abc.ABC):
    """The methods of a Simulation that add output files; each returns the Simulation, so that calls can be chained."""

    model: Any
    scheme: Any
    dt: float
    step: int
    start: datetime.datetime | None
    _outputs: list
    _maxima: Maxima | None
    _gauges: Gauges | None
    _products: tuple
    _product_sums: tuple
    _snapshots: tuple

    @property
    @abc.abstractmethod
    def state(self) -> State: ...

    def write(
        self,
        path: str | Path,
        variables: Sequence[str] = ("eta", "u", "v"),
        every: float | None = None,
        compression: str = AUTO,
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
        """
        check_arguments(
            "Simulation.write",
            {"path": FileName(), "variables": Names(), "every": EVERY, "compression": Choice((AUTO, *COMPRESSIONS))},
            locals(),
        )
        kind = ZarrFieldOutput if is_store(path) else FieldOutput
        output = kind(path, tuple(variables), self._interval(every, path), self.model, compression)
        fields = Fields.of(self, output.variables)
        output.snapshots = Snapshots.of(self, fields, output.every, output.bytes_of_record(self))
        if output.snapshots is not None and output.snapshots not in self._snapshots:
            self._snapshots += (output.snapshots,)
        self._outputs.append(output)
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
        self._once(GaugeOutput, path, "gauges")
        needed = budget.of_gauges(len(points) * len(variables), self.model.dtype.itemsize, self.model.members or 1)
        budget.require(needed, f"Simulation.gauges: the series of {len(points):,} gauges", "give fewer")
        depth = None if self.model.wetting is None else depth_at(points, self.model)
        if depth is not None and (depth < 0).any() and self.model.uplift is not None and not self.model.members:
            variables = tuple(
                dict.fromkeys((*variables, "thickness"))
            )  # the level does not have it over a bed that moves
        self._gauges = Gauges.at(points, self.model, tuple(variables))
        rules = {
            "depth": depth,
            "windows": dict(windows or {}),
            "threshold": threshold,
            "arrival_fraction": arrival_fraction,
        }
        self._outputs.append(GaugeOutput(path, dict(points), self._gauges, every or self.dt, **rules))
        return self

    def maxima(self, path: str | Path, threshold: float = MAXIMA_THRESHOLD) -> Self:
        """Write the maximum elevation, and the first time at which |eta| exceeds `threshold` [m], over all steps."""
        rules = {"path": NetcdfName(), "threshold": Number(None, "m", above=0.0)}
        check_arguments("Simulation.maxima", rules, locals())
        self._once(MaximaOutput, path, "maxima")
        if self.scheme.rigid_lid:
            raise ConfigError(f"{path}: under a rigid lid the surface does not move: there are no maxima; omit it.")
        thin = None if self.model.wetting is None else self.model.wetting.thin
        self._maxima = Maxima(self.model.scatter(threshold), thin, self.model.uplift is not None)
        self._maxima_carry = self.start_of_maxima(self._maxima, self.state, self.step)
        self._maxima_threshold, self._maxima_since = float(threshold), self.step
        self._outputs.append(MaximaOutput(path, threshold))
        return self

    def start_of_maxima(self, maxima: Maxima, state: State, step: int) -> dict[str, Any]:
        """The arrays of Maxima before the steps after `step`; collective."""
        depth = None if self.model.wetting is None else self._placed_depth()
        return maxima.start(state, step, depth)

    def _placed_depth(self):
        """Tile arrays of H before the sea floor moves, negative on land [m], of each member where they differ."""
        depth, dtype = self.model.water_depth(), self.model.dtype
        return self.model.communicator.place(lambda rank: np.asarray(depth[rank], dtype))

    def harmonics(
        self,
        path: str | Path,
        constituents: Sequence[str],
        *,
        variables: Sequence[str] = ("eta",),
        begin: float = 0.0,
    ) -> Self:
        """Fit tidal constituents to `variables` from `begin` [s] to the end, on the device, and write them to `path`.

        The file has amplitudes and Greenwich phase lags, by least squares over samples of at least 24 in the shortest
        period. Nodal factors and arguments are those at the Simulation's `start`; without it factors are 1, and phase
        lags are behind cos(omega t) from step 0. Restarts hold the sums.

        Args:
            path: the path of the file.
            constituents: names of tidal constituents, as ("M2", "S2", "K1", "O1").
            variables: names of prognostic variables, as ("eta", "u", "v").
            begin: model time at which the analysis begins [s], after the spin-up.
        """
        rules = {
            "path": NetcdfName(),
            "constituents": Names(),
            "variables": Names(),
            "begin": Number(None, "s", minimum=0.0),
        }
        check_arguments("Simulation.harmonics", rules, locals())
        analysis = harmonic_analysis(self, tuple(constituents), tuple(variables), begin)
        behind = "the equilibrium argument at Greenwich of the start of the run"
        lags = f"phase lags behind {behind if self.start is not None else 'cos(omega t) from step 0'}, in degrees"
        return self._with_product("harmonics", path, analysis, lags)

    def means(
        self,
        path: str | Path,
        fields: Sequence[str] = ("eta", "u", "v"),
        *,
        begin: float = 0.0,
        every: float | None = None,
    ) -> Self:
        """Write means of `fields` from `begin` [s] to the end to `path`, at cell centres.

        Args:
            path: the path of the file.
            fields: prognostic variables (eta, u, v, tracers), thickness, speed, vorticity, potential_vorticity,
                divergence, kinetic_energy, transport_x and transport_y, and products of two, as "u v" and "u dye".
                With the means of both factors the file has their covariance, too.
            begin: model time of the first sample [s].
            every: the interval between two samples [s]; every step unless given.
        """
        rules = {"path": NetcdfName(), "fields": Names(), "begin": Number(None, "s", minimum=0.0), "every": EVERY}
        check_arguments("Simulation.means", rules, locals())
        means = means_of(self, tuple(fields), begin, every)
        how = f"means of samples every {means.every * means.dt:g} s, from {begin:g} s on"
        return self._with_product("means", path, means, how)

    def extremes(
        self, path: str | Path, *, threshold: float = 0.0, begin: float = 0.0, every: float | None = None
    ) -> Self:
        """Write the extremes of elevation, thickness, speed and momentum flux, and the time over a threshold.

        Args:
            path: the path of the file.
            threshold: the elevation [m] above which time is counted.
            begin: model time of the first sample [s].
            every: the interval between two samples [s]; every step unless given.
        """
        number = Number(None, "m")
        rules = {"path": NetcdfName(), "threshold": number, "begin": Number(None, "s", minimum=0.0), "every": EVERY}
        check_arguments("Simulation.extremes", rules, locals())
        extremes = extremes_of(self, threshold, begin, every)
        how = f"of samples every {extremes.every * extremes.dt:g} s, from {begin:g} s on"
        return self._with_product("extremes", path, extremes, how)

    def _with_product(self, who, path, product, comment):
        """Take samples for `product` from the present step on, and write its results to `path`; returns self."""
        arrays = jax.eval_shape(product.initial, self.state)
        needed = budget.of_sums(sum(math.prod(x.shape) * x.dtype.itemsize for x in arrays.values()))
        budget.require(needed, f"Simulation.{who}: a sum of {len(arrays)} fields", "ask for fewer, or use more ranks")
        self._outputs.append(ProductOutput(path, len(self._products), comment))
        self._products += (product,)
        self._product_sums += (product.start(self.state, self.step, self.model.communicator),)
        return self

    def spectra(self, path: str | Path, every: float | None = None, transfers: bool = True) -> Self:
        """Write spectra of energy and enstrophy, and transfers, to `path`, at the start and every `every` seconds."""
        rules = {"path": NetcdfName(), "every": EVERY, "transfers": Flag()}
        check_arguments("Simulation.spectra", rules, locals())
        spectra = Spectra(self.model, transfers, self.scheme.rigid_lid)
        self._outputs.append(SpectraOutput(path, spectra, self._interval(every, path)))
        return self

    def restart(self, path: str | Path, every: float | None = None) -> Self:
        """Write a restart to `path` every `every` seconds, at the end, and on SIGUSR1, SIGINT and SIGTERM.

        It is a netCDF file that the root writes or, if the name ends in ".zarr", a store of which every rank writes its
        chunks.
        """
        check_arguments("Simulation.restart", {"path": FileName(), "every": EVERY}, locals())
        kind = ZarrRestartOutput if is_store(path) else RestartOutput
        self._outputs.append(kind(path, self._interval(every, path)))
        return self

    def _once(self, kind, path, what):
        for output in self._outputs:
            if isinstance(output, kind):
                raise ConfigError(f"{path}: {what} are written to {output.path} already; ask for all of them at once.")

    def _interval(self, every, path):
        if every is not None and not every >= 0.999 * self.dt:
            raise ConfigError(
                f"{path} is to be written every {every:g} s, and a step takes {self.dt:g} s; write less often."
            )
        return every
