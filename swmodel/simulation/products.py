"""Sums that the compiled loop takes on the device while a run goes on: harmonic analysis.

    Harmonics   of a field x: sums over the sampled steps of x, x cos theta_k and x sin theta_k

The least-squares fit x = Z + sum_k (C_k cos theta_k + S_k sin theta_k) needs no more of the field than these sums. The
matrix of the fit follows from the times of the samples alone, and is made on the host (`fitted`). Amplitude and phase
lag are A = |C + i S| / f and g = arg(C + i S), with theta = omega t + V + u of the start of the run, so that they
are those of a Tide. The sums are part of restarts: a run that is resumed continues them bit for bit.
"""

import logging
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..dynamics.clock import Time
from ..errors import ConfigError
from ..fields.pytrees import pytree, static
from ..fields.state import State
from ..fields.variables import variable
from ..forcing.constituents import canonical, nodal, period, periods
from ..forcing.tides import middle_latitude, waves_at

__all__ = ["Harmonics", "fitted", "harmonic_analysis", "indistinct"]

SAMPLES = 24  # in the shortest period
TIDAL = "sea_surface_height_amplitude_due_to_geocentric_ocean_tide"  # CF's name
BLOCK = 65536  # samples for which the host holds the waves at once


@pytree
class Harmonics:
    """A harmonic analysis of variables of the State.

    Attributes:
        argument: V + u of each constituent [rad], (n,).
        names: of the constituents; variables: of the fields.
        dt: [s]; every: steps between two samples; first: the first step that may be one.
    """

    argument: Any
    names: tuple[str, ...] = static()
    variables: tuple[str, ...] = static()
    dt: float = static()
    every: int = static()
    first: int = static()

    def start(self, state: State, step: int, communicator: Any) -> dict[str, Any]:
        """The sums before the first sample, {name: tile array}, and "since", the step after which they are taken."""
        found: dict[str, Any] = {"since": communicator.place(lambda rank: np.int32(step))}
        for name in self.variables:
            for part in ("mean", *(f"{k}_{wave}" for k in self.names for wave in ("cos", "sin"))):
                found[f"{name}_{part}"] = jnp.zeros_like(state[name])
        return found

    def update(self, sums: dict[str, Any], get_state: Any, step: jax.Array, equations: Any) -> dict[str, Any]:
        """The sums after step number `step`, of which `get_state()` is the State."""
        due = (step >= self.first) & (step % self.every == 0)
        return jax.lax.cond(due, lambda: self._added(sums, get_state(), step), lambda: sums)

    def _added(self, sums, state, step):
        dtype = self.argument.dtype
        time = Time(step, jnp.zeros((), dtype), jnp.asarray(self.dt, dtype), self.dt)
        cos, sin = waves_at(time, self.names, self.argument)
        found = dict(sums)
        for name in self.variables:
            x = state[name]
            found[f"{name}_mean"] = sums[f"{name}_mean"] + x
            for k, constituent in enumerate(self.names):
                for wave, values in (("cos", cos), ("sin", sin)):
                    key = f"{name}_{constituent}_{wave}"
                    found[key] = sums[key] + values[k] * x
        return found

    def samples(self, since: int, last: int) -> np.ndarray:
        """The numbers of the steps after `since`, up to `last`, that are samples."""
        begin = max(self.first, since + 1)
        begin += -begin % self.every
        return np.arange(begin, last + 1, self.every)

    def basis(self, steps: np.ndarray, argument: np.ndarray) -> np.ndarray:
        """1, cos theta_k and sin theta_k at steps, (samples, 1 + 2 n) in float64."""
        cycles = np.mod(steps[:, None] * (self.dt / periods(self.names)), 1.0)
        theta = 2.0 * np.pi * cycles + argument
        waves = np.stack([np.cos(theta), np.sin(theta)], -1).reshape(len(steps), -1)
        return np.hstack([np.ones((len(steps), 1)), waves])


def sampled_every(names: tuple[str, ...], dt: float) -> int:
    """The number of steps between two samples: at least SAMPLES in the shortest period."""
    return max(1, int(periods(names).min() / (SAMPLES * dt)))


def indistinct(names: tuple[str, ...], length: float) -> str | None:
    """Why a window of `length` [s] is too short for these constituents, by Rayleigh's criterion; None if it is not."""
    worst = max(((_needed(a, b), a, b) for k, a in enumerate(names) for b in (*names[:k], None)), key=lambda x: x[0])
    needed, one, other = worst
    if needed <= length * (1 + 1e-9):
        return None
    what = f"{other} and {one} apart" if other else f"{one} from the mean"
    return (
        f"a window of {length / 86400:.3g} days is too short to tell {what}, which takes {needed / 86400:.3g} days; "
        "run longer, or leave one out."
    )


def _needed(one, other):
    """The time after which two constituents differ by a cycle [s]; of one alone, its period."""
    frequency = 1.0 / period(one) - (1.0 / period(other) if other else 0.0)
    return np.inf if frequency == 0 else 1.0 / abs(frequency)


def fitted(
    harmonics: Harmonics, sums: dict[str, np.ndarray], steps: np.ndarray, argument: np.ndarray, factor: np.ndarray
) -> dict[str, dict[str, Any]]:
    """{variable: {"mean": Z, constituent: (A, g in degrees)}} of gathered sums, by least squares.

    Args:
        sums: {name: (ny, nx) array} as of `Harmonics.start`.
        steps: the numbers of the steps that were samples.
        argument, factor: V + u [rad] and f of the constituents, (n,).

    Returns:
        dict: empty for a window that is too short by Rayleigh's criterion, of which a warning tells.
    """
    length = (len(steps) * harmonics.every) * harmonics.dt
    if why := indistinct(harmonics.names, length):
        logging.getLogger("swmodel").warning("harmonics: %s", why)
        return {}
    matrix = 0.0
    for begin in range(0, len(steps), BLOCK):
        basis = harmonics.basis(steps[begin : begin + BLOCK], argument)
        matrix = matrix + basis.T @ basis
    found = {}
    for name in harmonics.variables:
        keys = ["mean", *(f"{k}_{wave}" for k in harmonics.names for wave in ("cos", "sin"))]
        right = np.stack([np.asarray(sums[f"{name}_{key}"], float) for key in keys])
        solution = np.linalg.solve(matrix, right.reshape(len(keys), -1)).reshape(right.shape)
        found[name] = {"mean": solution[0]}
        for k, constituent in enumerate(harmonics.names):
            wave = solution[1 + 2 * k] + 1j * solution[2 + 2 * k]
            found[name][constituent] = np.abs(wave) / factor[k], np.mod(np.rad2deg(np.angle(wave)), 360.0)
    return found


def harmonic_analysis(simulation: Any, names: tuple[str, ...], variables: tuple[str, ...], begin: float) -> Any:
    """(Harmonics of a Simulation, the function that makes rows and fields of their sums).

    Raises:
        ConfigError: for constituents or variables that are not known, and for ensembles.
    """
    model = simulation.model
    if model.members is not None:
        raise ConfigError("Simulation.harmonics: an ensemble has no harmonic analysis yet; run its members alone.")
    names, known = tuple(canonical(name) for name in names), [row.name for row in model.variables]
    if unknown := [name for name in variables if name not in known]:
        raise ConfigError(
            f"Simulation.harmonics: there is no variable {unknown[0]!r}; give names out of {', '.join(known)}."
        )
    latitude = middle_latitude(model.grid)
    factor, argument = (np.array(x) for x in zip(*(nodal(name, simulation.start, latitude) for name in names)))
    dt = simulation.dt
    analysis = Harmonics(
        model.domain.cut(argument), names, variables, dt, sampled_every(names, dt), math.ceil(begin / dt - 1e-9)
    )

    rows = {row.name: row for row in model.variables}

    def results(sums, numbers, last):
        found = fitted(analysis, sums, analysis.samples(numbers["since"], last), argument, factor)
        return {made: x for name, parts in found.items() for made, x in _rows(rows[name], parts)}

    return analysis, results


def _rows(row, parts):
    """(row of the table, array) of the mean and of each constituent's amplitude and phase lag, of one variable."""
    tidal = TIDAL if row.name == "eta" else None

    def made(key, units, what, standard_name=None):
        options = {"standard_name": standard_name, "cell_methods": "time: mean"}
        return variable(key, row.position, units, f"{what} of {row.long_name}", **options)[key]

    yield made(f"{row.name}_mean", row.units, "mean"), parts["mean"]
    for name, (amplitude, lag) in ((name, pair) for name, pair in parts.items() if name != "mean"):
        yield made(f"{row.name}_amplitude_{name}", row.units, f"{name} amplitude", tidal), amplitude
        yield made(f"{row.name}_phase_{name}", "degree", f"Greenwich phase lag of {name}"), lag
