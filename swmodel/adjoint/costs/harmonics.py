"""Harmonic constants at gauges: the misfit of amplitudes and phase lags, as tide tables have them.

    J = 1/2 sum over gauges and constituents of |Z - Z_obs|^2 / s^2,   Z = A exp(-i g)

Z follows from the elevation eta(t_n) of the steps in a window by least squares over all constituents and the mean,

    eta(t) = Z_0 + sum_k f_k A_k cos(omega_k t + V_k + u_k - g_k),

with the nodal factors f, u and equilibrium arguments V of the start of the run. The fit is linear in the elevation, so
that A cos g and A sin g are weighted sums of the readings of a gauge. The real and the imaginary part of Z have the
error s each. doi:10.1016/S0098-3004(02)00013-4 (Pawlowicz et al. 2002) describes the fit.
"""

import dataclasses
import datetime
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from ...errors import ConfigError, DataError
from ...fields.parameters import Moment, declared, in_utc
from ...forcing.constituents import distinct, nodal
from ...grids.observed_tables import read_table, table_names
from ...models.checks import check_gregorian
from ...models.parts import nodal_latitude
from ...models.shallow_water import ShallowWater
from ...nests.family import Family
from ...output.products.means import fit_basis, why_not_separable
from .costs import WINDOW, OfRun
from .readers import GaugeReader, everywhere, outermost
from .records import DictOf, Observation
from .tile_costs import SquaresOfSums, TileCost

__all__ = ["HarmonicConstants", "HarmonicMisfit", "constants_in_water", "constants_in", "fit_weights"]

MOST_STEPS = 2_000_000  # the longest fit, whose waves the host holds at once
HIGHEST = 100.0  # [m] of amplitudes
DEVIATION, USED = "deviation_m", "used"


@dataclasses.dataclass(frozen=True, eq=False)
class HarmonicConstants(Observation):
    """The harmonic constants of a gauge.

    Attributes:
        place: (x, y) in the grid's coordinates.
        constants: {"M2": (amplitude [m], Greenwich phase lag [degrees])}; NaN where one is not known.
        deviation: s, the standard deviation of the errors of A cos g and A sin g [m].
    """

    place: tuple[float, float]
    constants: Mapping[str, tuple[float, float]]
    deviation: float = 1.0

    @property
    def names(self) -> tuple[str, ...]:
        """The constituents."""
        return distinct(self.constants)

    @property
    def numbers(self) -> np.ndarray:
        """A cos g and A sin g of each constituent, one after the other [m], (2 n,)."""
        size, lag = np.array(list(self.constants.values()), float).T
        wave = size * np.exp(1j * np.deg2rad(lag))
        return np.stack([wave.real, wave.imag], -1).ravel()

    def counted(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(which of `numbers`, value [m], deviation [m]) of the numbers that are known, (m,) each."""
        known = np.flatnonzero(np.isfinite(self.numbers))
        return known.astype(float), self.numbers[known], np.full(known.size, float(self.deviation))

    def modelled(self, times: np.ndarray, fitted: np.ndarray) -> np.ndarray:
        """The model's numbers (m,) where the observed ones are known, from all that were fitted (2 n,)."""
        return fitted[self.counted()[0].astype(int)]


EXAMPLE = "'Brest': HarmonicConstants((-4.5, 48.4), {'M2': (2.05, 108.9)})"


class HarmonicMisfit(OfRun):
    """J = 1/2 sum over gauges and constituents of |A exp(-i g) - A_obs exp(-i g_obs)|^2 / s^2 [1].

    Args:
        constants: {name: HarmonicConstants}, all with the same constituents.
        window: (first, last) [s] of the fit, which must be long enough to separate the constituents (Rayleigh's
            criterion); all steps unless given.
        start: date and time of step 0 (UTC); that of the model's tides, tracks and files unless given.
    """

    constants: dict[str, HarmonicConstants] = declared(
        DictOf(HarmonicConstants, "harmonic constants", EXAMPLE, may_be_empty=True), doc="{name: HarmonicConstants}"
    )
    window: tuple[float, float] | None = declared(
        WINDOW, default=None, doc="(first, last) of the fit; all steps unless given"
    )
    start: datetime.datetime | None = declared(Moment(), default=None, doc="date of step 0; that of the tides")

    observed = "constants"

    def on_tile(self, model: ShallowWater, dt: float, first_step: int, steps: int) -> TileCost:
        names, outer = _common_names(self.constants), outermost(model)
        for dated in outer.dated[:1]:  # the run's parts have the same date
            dated.check("HarmonicMisfit", self.start)
        start = outer.start if self.start is None else in_utc(self.start)
        check_gregorian(outer, start, "the misfit of harmonic constants")
        factors = [nodal(name, start, nodal_latitude(outer)) for name in names]
        weights = fit_weights(names, factors, self.window, dt, first_step, steps)
        for name, each in self.constants.items():
            if not each.deviation > 0:
                raise ConfigError(
                    f"HarmonicMisfit: {name} has a standard deviation of {each.deviation:g} m; give a positive one."
                )
        numbers = np.column_stack([each.numbers for each in self.constants.values()])  # (2 n, gauges)
        known, deviations = np.isfinite(numbers), np.array([each.deviation for each in self.constants.values()])
        observed, per_deviation = np.where(known, numbers, 0.0), known / deviations
        weights, observed, per_deviation = (everywhere(model, x) for x in (weights, observed, per_deviation))
        return SquaresOfSums(GaugeReader.at(self.locations(), model), weights, observed, per_deviation, first_step + 1)

    def title(self) -> str:
        names = ", ".join(_common_names(self.constants))
        return f"misfit of {names} at {len(self.constants)} gauges"


def _common_names(constants):
    """The constituents of all gauges; raises ConfigError if they differ."""
    if not constants:
        raise ConfigError("HarmonicMisfit: there are no constants; give those of one gauge or several.")
    first, *others = constants.items()
    for name, each in others:
        if each.names != first[1].names:
            raise ConfigError(
                f"HarmonicMisfit: {name} has {', '.join(each.names)}, and {first[0]} has {', '.join(first[1].names)}; "
                "give all gauges the same constituents, with NaN for what is not known."
            )
    return first[1].names


def fit_weights(
    names: tuple[str, ...], factors: list, window: tuple[float, float] | None, dt: float, first_step: int, steps: int
) -> np.ndarray:
    """W (steps, 2 n): A cos g and A sin g of a series r (steps,) are W^T r, in the order of `names`.

    Args:
        names: the constituents.
        factors: (f, V + u [rad]) of each.
        window: (first, last) [s] of the fit; all steps unless given.
        dt: time step [s]; steps first_step + 1, ..., first_step + steps end the rows of W.

    Raises:
        ConfigError: if the window does not lie in the run, or is too short to separate the constituents.
    """
    numbers = np.arange(1, steps + 1) + first_step
    low, high = window if window is not None else (0.0, dt * numbers[-1])
    if window is not None and not (-1e-6 <= low < high <= dt * numbers[-1] * (1 + 1e-9) and high > dt * numbers[0]):
        raise ConfigError(
            f"HarmonicMisfit: the window from {low:g} to {high:g} s is not in the run, whose steps end from "
            f"{dt * numbers[0]:g} to {dt * numbers[-1]:g} s; change it, or make the run longer."
        )
    inside = np.flatnonzero((numbers * dt > low - 1e-6 * dt) & (numbers * dt <= high + 1e-6 * dt))
    if why := why_not_separable(names, inside.size * dt):
        raise ConfigError(f"HarmonicMisfit: {why}")
    if inside.size > MOST_STEPS:
        raise ConfigError(f"HarmonicMisfit: a fit over {inside.size:,} steps is too long; give a shorter window.")
    sizes = [1.0, *np.repeat([factor for factor, _ in factors], 2)]
    basis = fit_basis(names, factors, numbers[inside], dt) * sizes
    weights = np.zeros((steps, 2 * len(names)))
    weights[inside] = np.linalg.solve(basis.T @ basis, basis.T)[1:].T
    return weights


def constants_in(
    path: str | Path, constituents: Iterable[str], deviation: float | None = None, error: float = 0.0
) -> tuple[dict[str, HarmonicConstants], list[str]]:
    """({name: HarmonicConstants}, names of gauges that are not to be used) of a table, CSV or netCDF.

    The columns are `name`, `longitude` and `latitude` (or `x` and `y`), and, for each constituent, `M2_amplitude_m` and
    `M2_phase_deg`, the Greenwich phase lag. An empty field is a constituent that is not known. A column `deviation_m`
    holds the error of each gauge. Gauges with 0 in a column `used` are not used.

    Args:
        path: the path of the file.
        constituents: names of tidal constituents.
        deviation: standard deviation of the errors [m], if the table has no column for it.
        error: a further part, as a fraction of the amplitude; the variances are added.

    Raises:
        DataError: if the file cannot be read, lacks a column, names a gauge twice, or holds none of the constituents.
    """
    names, head = distinct(constituents), table_names(path)
    across = ("longitude", "latitude") if "longitude" in head else ("x", "y")
    wanted = [column for name in names for column in (f"{name}_amplitude_m", f"{name}_phase_deg")]
    extra = [column for column in (DEVIATION, USED) if column in head]
    if DEVIATION not in extra and deviation is None:
        raise DataError(f"{path} has no column {DEVIATION}; add it, or give the deviation of all gauges.")
    columns = read_table(path, (*across, *wanted, *extra), texts=("name",))
    if twice := [name for k, name in enumerate(columns["name"]) if name in columns["name"][:k]]:
        raise DataError(f"{path} has two gauges named {twice[0]!r}; give each a name of its own.")
    found, unused = {}, []
    for k, name in enumerate(columns["name"]):
        constants = {c: (columns[f"{c}_amplitude_m"][k], columns[f"{c}_phase_deg"][k]) for c in names}
        sizes = np.array([size for size, lag in constants.values() if np.isfinite(size + lag)])
        if not sizes.size:
            continue
        if (sizes < 0).any():
            raise DataError(f"{path} gives {name} an amplitude of {sizes.min():g} m; give one of 0 or more.")
        if sizes.max() > HIGHEST:
            raise DataError(
                f"{path} gives {name} an amplitude of {sizes.max():g} m, beyond {HIGHEST:g} m; leave cells without a "
                "value empty, and give metres."
            )
        own = float(columns[DEVIATION][k]) if DEVIATION in extra else float(deviation or 0.0)
        own = float(np.hypot(own, error * sizes.max()))
        x, y = (float(columns[c][k]) for c in across)
        found[name] = HarmonicConstants((x, y), constants, own)
        if USED in extra and columns[USED][k] == 0:
            unused.append(name)
    if not found:
        raise DataError(f"no gauge of {path} has a value of {', '.join(names)}; name other constituents.")
    return found, unused


def constants_in_water(
    constants: Mapping[str, HarmonicConstants], model: ShallowWater | Family
) -> tuple[dict[str, HarmonicConstants], list[str]]:
    """({name: HarmonicConstants} of the gauges that have water around them on the model's grid, names of the others).

    Raises:
        ConfigError: if none has.
    """
    found, ashore = {}, []
    for name, each in constants.items():
        try:
            GaugeReader.at({name: each.place}, model)
            found[name] = each
        except ConfigError:
            ashore.append(name)
    if not found:
        raise ConfigError("none of the gauges has water around it on this grid; give others, or a finer grid.")
    return found, ashore
