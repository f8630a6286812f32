"""Harmonic analysis by sums that the compiled loop accumulates on the device during a run.

    Harmonics   of a field x: sums over the sampled steps of x, x cos theta_k and x sin theta_k

The least-squares fit x = Z + sum_k (C_k cos theta_k + S_k sin theta_k) needs only these sums of the field. The matrix
of the fit depends on the times of the samples alone, and is made on the host (`fitted`). Amplitude and Greenwich phase
lag are A = |C + i S| / f and g = arg(C + i S). Here theta = omega t + V + u, with f, V and u at the start of the run,
as for a Tide. The sums are part of restarts: a run that is resumed continues them bit for bit.
"""

import logging
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from ..errors import ConfigError
from ..fields.pytrees import pytree, static
from ..fields.state import State
from ..fields.variables import PROGNOSTIC, Variable, layer_of, variable
from ..forcing.constituents import canonical, nodal, period, periods
from ..forcing.tides import middle_latitude, waves_at
from ..models.checks import check_gregorian
from .samples import Sample, Sampled, add_term, first_and_every, total, zero_sum

__all__ = ["Harmonics", "fitted", "harmonic_analysis", "why_not_separable"]

SAMPLES = 24  # the least number of samples in the shortest period
TIDAL = "sea_surface_height_amplitude_due_to_geocentric_ocean_tide"  # CF's name
BLOCK = 65536  # samples for which the host holds the waves at once


@pytree
class Harmonics(Sampled):
    """A harmonic analysis of variables of the State.

    Attributes:
        argument: V + u of each constituent [rad], (n,), in the precision of the model.
        names: the names of the constituents.
        variables: the names of the fields.
        nodal: (nodal factor f, V + u [rad]) of each constituent, for the fit on the host.
    """

    argument: Any
    names: tuple[str, ...] = static()
    variables: tuple[str, ...] = static()
    nodal: tuple[tuple[float, float], ...] = static(default=())

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the sums of each variable."""
        return ("mean", *(f"{k}_{wave}" for k in self.names for wave in ("cos", "sin")))

    def settings(self) -> dict[str, Any]:
        argument = [round(argument, 6) for _, argument in self.nodal]
        found = {"constituents": list(self.names), "variables": list(self.variables), "argument": argument}
        tracers = {layer_of(name)[0] for name in self.variables} - {row.name for row in PROGNOSTIC}
        return found | {"tracers": "concentration"} if tracers else found  # restarts without this have sums of h c

    def initial(self, state: State) -> dict[str, jax.Array]:
        found: dict[str, jax.Array] = {}
        for name in self.variables:
            for part in self.parts:
                found |= zero_sum(f"{name}_{part}", state[name])
        return found

    def add_sample(self, sums: dict[str, Any], sample: Sample) -> dict[str, Any]:
        cos, sin = waves_at(sample.time, self.names, self.argument)
        found: dict[str, Any] = {}
        for name in self.variables:
            x = sample.shown[name]
            found |= add_term(sums, f"{name}_mean", x)
            for k, constituent in enumerate(self.names):
                found |= add_term(sums, f"{name}_{constituent}_cos", cos[k] * x)
                found |= add_term(sums, f"{name}_{constituent}_sin", sin[k] * x)
        return found

    def results(self, sums: dict[str, Any], steps: np.ndarray, rows: Sequence[Variable]) -> dict[Variable, np.ndarray]:
        found, known = fitted(self, sums, steps), {row.name: row for row in rows}
        return {made: x for name, parts in found.items() for made, x in self._rows(known[name], parts)}

    def _rows(self, row, parts):
        """(row of the table, array) of the mean and of each constituent's amplitude and phase lag, of one variable."""
        dated = any(argument != 0.0 for _, argument in self.nodal)
        lag_of = "Greenwich phase lag" if dated else "phase lag from step 0"
        tidal = TIDAL if row.name == "eta" else None

        def made(key, units, what, standard_name=None):
            options = {"standard_name": standard_name, "cell_methods": "time: mean"}
            return variable(key, row.position, units, f"{what} of {row.long_name}", **options)[key]

        yield made(f"{row.name}_mean", row.units, "mean"), parts["mean"]
        for name, (amplitude, lag) in ((name, pair) for name, pair in parts.items() if name != "mean"):
            yield made(f"{row.name}_amplitude_{name}", row.units, f"{name} amplitude", tidal), amplitude
            yield made(f"{row.name}_phase_{name}", "degree", f"{lag_of} of {name}"), lag

    def basis(self, steps: np.ndarray) -> np.ndarray:
        """1, cos theta_k and sin theta_k at the given steps, (samples, 1 + 2 n) in float64."""
        cycles = np.mod(steps[:, None] * (self.dt / periods(self.names)), 1.0)
        theta = 2.0 * np.pi * cycles + np.array([argument for _, argument in self.nodal])
        waves = np.stack([np.cos(theta), np.sin(theta)], -1).reshape(len(steps), -1)
        return np.hstack([np.ones((len(steps), 1)), waves])


def sampled_every(names: tuple[str, ...], dt: float) -> int:
    """The number of steps between two samples: at least SAMPLES in the shortest period."""
    return max(1, int(periods(names).min() / (SAMPLES * dt)))


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


def fitted(harmonics: Harmonics, sums: dict[str, np.ndarray], steps: np.ndarray) -> dict[str, dict[str, Any]]:
    """{variable: {"mean": Z, constituent: (A, g in degrees)}} of gathered sums, by least squares.

    Args:
        sums: {name: (ny, nx) array} with the names of `Harmonics.initial`.
        steps: the numbers of the steps that were samples.

    Returns:
        dict: empty, with a warning, if the window is too short by Rayleigh's criterion.
    """
    length = len(steps) * harmonics.every * harmonics.dt
    if why := why_not_separable(harmonics.names, length):
        logging.getLogger("swmodel").warning("harmonics: %s", why)
        return {}
    matrix = 0.0
    for begin in range(0, len(steps), BLOCK):
        basis = harmonics.basis(steps[begin : begin + BLOCK])
        matrix = matrix + basis.T @ basis
    found = {}
    for name in harmonics.variables:
        right = np.stack([total(sums, f"{name}_{part}") for part in harmonics.parts])
        solution = np.linalg.solve(matrix, right.reshape(len(right), -1)).reshape(right.shape)
        found[name] = {"mean": solution[0]}
        for k, constituent in enumerate(harmonics.names):
            wave = solution[1 + 2 * k] + 1j * solution[2 + 2 * k]
            found[name][constituent] = np.abs(wave) / harmonics.nodal[k][0], np.mod(np.rad2deg(np.angle(wave)), 360.0)
    return found


def harmonic_analysis(simulation: Any, names: tuple[str, ...], variables: tuple[str, ...], begin: float) -> Harmonics:
    """The Harmonics of a Simulation.

    Raises:
        ConfigError: for constituents or variables that are not known, for files of the model in another calendar than
            the Gregorian one, and for ensembles.
    """
    model, dt = simulation.model, simulation.dt
    first, _ = first_and_every(simulation, "Simulation.harmonics", begin, None)
    names, known = tuple(canonical(name) for name in names), [row.name for row in model.variables]
    if unknown := [name for name in variables if name not in known]:
        raise ConfigError(
            f"Simulation.harmonics: there is no variable {unknown[0]!r}; give names out of {', '.join(known)}."
        )
    check_gregorian(model, simulation.start, "the harmonic analysis")
    latitude = middle_latitude(model.grid)
    found = [nodal(name, simulation.start, latitude) for name in names]
    factors = tuple((float(factor), float(argument)) for factor, argument in found)
    argument = model.domain.cut(np.array([argument for _, argument in factors]))
    return Harmonics(dt, sampled_every(names, dt), first, argument, names, variables, factors)
