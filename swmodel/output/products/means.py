"""What follows from sums over samples of a run, which the compiled loop accumulates on the device.

`Means` are means of variables, and of products of two of them. `Harmonics` is a harmonic analysis. The least-squares
fit x = Z + sum_k (C_k cos theta_k + S_k sin theta_k) of a field x needs only its sums over the sampled steps of x,
x cos theta_k and x sin theta_k. The matrix of the fit depends on the times of the samples alone, and is made on the
host (`fitted`). Amplitude and Greenwich phase lag are A = |C + i S| / f and g = arg(C + i S). Here
theta = omega t + V + u, with f, V and u at the start of the run, as for a Tide.
"""

import dataclasses
import functools
import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self, cast

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import ConfigError
from ...fields.parameters import Names, declared
from ...fields.state import State, replaced
from ...fields.variables import PROGNOSTIC, Variable, derived_units, factors, layer_of, units_of_product
from ...forcing.constituents import distinct, nodal, period, periods
from ...forcing.tides import waves_at
from ...models.checks import check_gregorian
from ...models.parts import nodal_latitude
from ...models.shallow_water import ShallowWater
from ..schedule import AbstractSimulation
from .base import Arrays, Product, Sample, Sampler, Samples, add_term, derived, first_sample, interval, total, zero_sum

__all__ = ["Harmonics", "Means", "fit_basis", "fitted", "why_not_separable"]


class Means(Product):
    """Means of variables and of products of two of them, at cell centres.

    They are "eta", "dye", "vorticity", "u v", "thickness u" and the like; and with the means of both factors the
    variance or covariance <a b> - <a> <b>, such as the flux of eddies of "u dye".
    """

    fields: tuple[str, ...] = declared(
        Names(),
        default=("eta", "u", "v"),
        static=True,
        doc='variables of fields but depth, tracers, products of two: "u eta"',
    )
    begin: float = first_sample("when the means begin")
    every: float | None = interval()

    @property
    def factors(self) -> list[list[str]]:
        """The factors of each field."""
        return [field.split() for field in self.fields]

    def prepared(self, simulation: AbstractSimulation) -> Self:
        stepped = [row.name for row in simulation.model.variables]
        for _, why in self.mistakes(0.0, stepped, list(derived_units(simulation.model.layer_count))):
            raise ConfigError(f"Means: {why}.")
        known = ("eta", *(name for name in stepped if name != "eta"), *derived_units(simulation.model.layer_count))
        return type(self)(tuple(" ".join(names) for names in factors(self.fields, known)), self.begin, self.every)

    def mistakes(self, until: float, stepped: Sequence[str], derived: Sequence[str]) -> Iterator[tuple[str, str]]:
        try:
            factors(self.fields, ("eta", *(name for name in stepped if name != "eta"), *derived))
        except ValueError as error:
            yield "fields", str(error)

    def settings(self) -> dict[str, object]:
        return {"fields": ["_".join(names) for names in self.factors]}

    def start(self, state: State) -> dict[str, jax.Array]:
        sums = [zero_sum("_".join(names), state.eta) for names in self.factors]
        return {name: array for one in sums for name, array in one.items()}

    def add(self, sums: Arrays, sample: Sample) -> Arrays:
        centred, more = sample.at_centres(sum(self.factors, [])), {}
        for names in self.factors:
            more |= add_term(sums, "_".join(names), functools.reduce(jnp.multiply, [centred[name] for name in names]))
        return more

    def finish(self, sums: dict[str, np.ndarray], samples: Samples) -> dict[Variable, np.ndarray]:
        fields, dtype = {}, next(iter(sums.values())).dtype
        units = {name: row.units for name, row in samples.rows.items()}
        units |= derived_units(sum(layer_of(name)[0] == "eta" for name in units))
        means = {tuple(names): total(sums, "_".join(names)) / len(samples.steps) for names in self.factors}

        def add(name, of, what, method, values):
            fields[Variable(name, "h", of, what, cell_methods=f"time: {method}")] = values.astype(dtype)

        for names, mean in means.items():
            of = functools.reduce(units_of_product, (units[name] for name in names))
            add(f"mean_{'_'.join(names)}", of, f"mean of {' times '.join(names)}", "mean", mean)
        for one, other in (names for names in means if len(names) == 2):
            if {(one,), (other,)} <= means.keys():
                of, values = units_of_product(units[one], units[other]), means[one, other] - means[one,] * means[other,]
                if one == other:
                    add(f"variance_{one}", of, f"variance of {one}", "variance", np.maximum(values, 0.0))
                else:
                    add(f"covariance_{one}_{other}", of, f"covariance of {one} and {other}", "mean", values)
        return fields

    def attributes(self, samples: Sampler) -> dict[str, str | float]:
        return {"product_comment": f"means {super().attributes(samples)['product_comment']}"}

    def content(self) -> str:
        return f"means of {', '.join(self.fields)}"


# -- harmonic analysis -----------------------------------------------------------------------------------------------

SAMPLES = 24  # the least number of samples in the shortest period
TIDAL = "sea_surface_height_amplitude_due_to_geocentric_ocean_tide"  # CF's name
BLOCK = 65536  # samples for which the host holds the waves at once


@dataclasses.dataclass(frozen=True)
class Constituents(Names):
    """The rule of names of tidal constituents."""

    def read(self, value: Any, reading: object = None) -> tuple[str, ...]:
        """The names of a file, in capitals."""
        self.check("", "", value)
        return distinct(value)

    def _check(self, who, name, value):
        super()._check(who, name, value)
        distinct(value)


class Harmonics(Product):
    """Tidal constituents of variables, by least squares from `begin` to the end of the run.

    They are amplitudes and Greenwich phase lags, from samples of at least 24 in the shortest period. Nodal factors and
    arguments are those of the run's tides, at the Simulation's `start`; without it factors are 1, and phase lags are
    behind cos(omega t) from step 0.

    Attributes:
        argument: V + u of each constituent [rad], (n,), in the precision of the model.
        nodal: (nodal factor f, V + u [rad]) of each constituent, for the fit on the host.
        dated: whether the run has a date.
    """

    constituents: tuple[str, ...] = declared(Constituents(), static=True, doc='names of tidal constituents, as "M2"')
    variables: tuple[str, ...] = declared(Names(), default=("eta",), static=True, doc="prognostic variables to analyse")
    begin: float = first_sample("when the analysis begins, after the spin-up")
    argument: Any = derived(None, static=False)
    nodal: tuple[tuple[float, float], ...] = derived(())
    dated: bool = derived(False)

    def prepared(self, simulation: AbstractSimulation) -> Self:
        model, start = simulation.model, simulation.start
        for _, why in self._unknown([row.name for row in model.variables]):
            raise ConfigError(f"Harmonics: {why}.")
        check_gregorian(cast(ShallowWater, model), start, "the harmonic analysis")
        names, latitude = distinct(self.constituents), nodal_latitude(simulation.outermost)
        factors = tuple((float(factor), float(u)) for factor, u in (nodal(name, start, latitude) for name in names))
        argument = model.domain.cut(np.array([argument for _, argument in factors]))
        values = {"constituents": names, "argument": argument, "nodal": factors, "dated": start is not None}
        return replaced(self, values)

    def _unknown(self, stepped):
        for name in self.variables:
            if name not in stepped:
                yield "variables", f"there is no variable {name!r}; give names out of {', '.join(stepped)}"

    def mistakes(self, until: float, stepped: Sequence[str], derived: Sequence[str]) -> Iterator[tuple[str, str]]:
        yield from self._unknown(stepped)
        if self.begin >= until:
            yield "begin", f"{self.begin:g} s is after the end of the run; begin earlier"
        elif why := why_not_separable(self.constituents, until - self.begin):
            yield "constituents", why.rstrip(".")

    def sampled(self, dt: float) -> tuple[int, int]:
        every = max(1, int(periods(self.constituents).min() / (SAMPLES * dt)))
        return math.ceil(self.begin / dt - 1e-9), every

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the sums of each variable."""
        return ("mean", *(f"{k}_{wave}" for k in self.constituents for wave in ("cos", "sin")))

    def settings(self) -> dict[str, object]:
        argument = [round(argument, 6) for _, argument in self.nodal]
        about: dict[str, object] = {
            "constituents": self.constituents,
            "variables": self.variables,
            "argument": argument,
        }
        tracers = {layer_of(name)[0] for name in self.variables} - {row.name for row in PROGNOSTIC}
        return about | ({"tracers": "concentration"} if tracers else {})  # restarts without this have sums of h c

    def start(self, state: State) -> dict[str, jax.Array]:
        sums = [zero_sum(f"{name}_{part}", state[name]) for name in self.variables for part in self.parts]
        return {name: array for one in sums for name, array in one.items()}

    def add(self, sums: Arrays, sample: Sample) -> Arrays:
        cos, sin = waves_at(sample.time, self.constituents, self.argument)
        more: dict[str, Any] = {}
        for name in self.variables:
            x = sample.shown[name]
            more |= add_term(sums, f"{name}_mean", x)
            for k, constituent in enumerate(self.constituents):
                more |= add_term(sums, f"{name}_{constituent}_cos", cos[k] * x)
                more |= add_term(sums, f"{name}_{constituent}_sin", sin[k] * x)
        return more

    def finish(self, sums: dict[str, np.ndarray], samples: Samples) -> dict[Variable, np.ndarray]:
        constants = fitted(self, sums, samples)
        return {row: x for name, parts in constants.items() for row, x in self._rows(samples.rows[name], parts)}

    def _rows(self, row, parts):
        """(row of the table, array) of the mean and of each constituent's amplitude and phase lag, of one variable."""
        dated = any(argument != 0.0 for _, argument in self.nodal)
        lag_of = "Greenwich phase lag" if dated else "phase lag from step 0"
        tidal = TIDAL if row.name == "eta" else None

        def made(key, units, what, standard_name=None):
            return Variable(
                key, row.position, units, f"{what} of {row.long_name}", standard_name, cell_methods="time: mean"
            )

        yield made(f"{row.name}_mean", row.units, "mean"), parts["mean"]
        for name, (amplitude, lag) in ((name, pair) for name, pair in parts.items() if name != "mean"):
            yield made(f"{row.name}_amplitude_{name}", row.units, f"{name} amplitude", tidal), amplitude
            yield made(f"{row.name}_phase_{name}", "degree", f"{lag_of} of {name}"), lag

    def attributes(self, samples: Sampler) -> dict[str, str | float]:
        behind = "the equilibrium argument at Greenwich of the start of the run" if self.dated else ""
        return {"product_comment": f"phase lags behind {behind or 'cos(omega t) from step 0'}, in degrees"}

    def content(self) -> str:
        return f"amplitude and phase lag of {', '.join(self.constituents)} of {', '.join(self.variables)}"


def fit_basis(names: tuple[str, ...], factors: Iterable[tuple], steps: np.ndarray, dt: float) -> np.ndarray:
    """1, cos theta_k and sin theta_k of constituents at the given steps, (samples, 1 + 2 n) in float64.

    `factors` are (f, V + u [rad]) of each.
    """
    cycles = np.mod(steps[:, None] * (dt / periods(names)), 1.0)
    theta = 2.0 * np.pi * cycles + np.array([argument for _, argument in factors])
    waves = np.stack([np.cos(theta), np.sin(theta)], -1).reshape(len(steps), -1)
    return np.hstack([np.ones((len(steps), 1)), waves])


def why_not_separable(names: tuple[str, ...], length: float) -> str | None:
    """Why a window of `length` [s] is too short for these constituents, by Rayleigh's criterion; None if it is not."""
    worst = max(((_needed(a, b), a, b) for k, a in enumerate(names) for b in (*names[:k], None)), key=lambda x: x[0])
    needed, one, other = worst
    if needed <= length * (1 + 1e-9):
        return None
    what = f"{other} and {one}" if other else f"{one} from the mean"
    return (
        f"a window of {length / 86400:.3g} days is too short to separate {what}, which takes "
        f"{needed / 86400:.3g} days; run longer, or leave one out."
    )


def _needed(one, other):
    """The time after which two constituents differ by a cycle [s]; for one alone, its period."""
    frequency = 1.0 / period(one) - (1.0 / period(other) if other else 0.0)
    return np.inf if frequency == 0 else 1.0 / abs(frequency)


def fitted(harmonics: Harmonics, sums: dict[str, np.ndarray], samples: Samples) -> dict[str, dict[str, Any]]:
    """{variable: {"mean": Z, constituent: (A, g in degrees)}} of gathered sums, by least squares.

    Args:
        sums: {name: (ny, nx) array} with the names of `Harmonics.start`.
        samples: the Samples.

    Returns:
        dict: empty, with a warning, if the window is too short by Rayleigh's criterion.
    """
    steps = samples.steps
    if why := why_not_separable(harmonics.constituents, len(steps) * samples.interval):
        logging.getLogger("swmodel").warning("harmonics: %s", why)
        return {}
    matrix = 0.0
    for begin in range(0, len(steps), BLOCK):
        basis = fit_basis(harmonics.constituents, harmonics.nodal, steps[begin : begin + BLOCK], samples.dt)
        matrix = matrix + basis.T @ basis
    found = {}
    for name in harmonics.variables:
        right = np.stack([total(sums, f"{name}_{part}") for part in harmonics.parts])
        solution = np.linalg.solve(matrix, right.reshape(len(right), -1)).reshape(right.shape)
        found[name] = {"mean": solution[0]}
        for k, constituent in enumerate(harmonics.constituents):
            wave = solution[1 + 2 * k] + 1j * solution[2 + 2 * k]
            found[name][constituent] = np.abs(wave) / harmonics.nodal[k][0], np.mod(np.rad2deg(np.angle(wave)), 360.0)
    return found
