"""Means and extremes that the compiled loop takes on the device while a run goes on.

    Means      of fields and of products of two: eta, u, v, "u v", "u eta" (with the fluxes of eddies in them)
    Extremes   the highest and the lowest elevation, the largest speed and momentum flux h u^2, and for how long the
               elevation stood over a threshold

All of them are taken at cell centres, to which velocities are averaged; a sample costs one exchange of halos. The sums
are part of restarts: a run that is resumed continues them bit for bit.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..dynamics.clock import Time
from ..errors import ConfigError
from ..fields.operators import mean_x, mean_y
from ..fields.pytrees import pytree, static
from ..fields.state import State
from ..fields.variables import Variable, variable

__all__ = ["Extremes", "Means", "extremes_of", "means_of"]


def _centred(equations, state, step, dt):
    """{name: tile array} of the fields of a State at cell centres, and "thickness" [m]."""
    dtype = state.eta.dtype
    flow = equations.flow(state, Time(step, jnp.zeros((), dtype), jnp.asarray(dt, dtype), dt))
    moved = {"u": mean_x, "v": mean_y, "h": lambda field: field}
    found = {name: moved[at](flow.state[name]).interior for name, at in state.positions.items()}
    return found | {"thickness": flow.h.interior}


@pytree
class Sampled:
    """What is taken of samples: every `every` steps from step `first` on, dt [s] apart."""

    dt: float = static()
    every: int = static()
    first: int = static()

    def update(self, taken: dict[str, Any], get_state: Any, step: jax.Array, equations: Any) -> dict[str, Any]:
        """What was taken after step number `step`, of which `get_state()` is the State."""
        due = (step >= self.first) & (step % self.every == 0)

        def with_sample():
            sample = _centred(equations, get_state(), step, self.dt)
            return {**self.added(taken, sample), "samples": taken["samples"] + 1}

        return jax.lax.cond(due, with_sample, lambda: taken)

    def added(self, taken: dict[str, Any], sample: dict[str, Any]) -> dict[str, Any]:
        """What was taken, with one sample more."""
        raise NotImplementedError


@pytree
class Means(Sampled):
    """Sums of fields and of products of two of them; `fields` as (("eta",), ("u", "v"))."""

    fields: tuple[tuple[str, ...], ...] = static(default=())

    def start(self, state: State, step: int, communicator: Any) -> dict[str, Any]:
        """The sums before the first sample."""
        zero = jnp.zeros_like(state.eta)
        return _none_yet(step, communicator) | {"_".join(names): zero for names in self.fields}

    def added(self, taken: dict[str, Any], sample: dict[str, Any]) -> dict[str, Any]:
        found = dict(taken)
        for names in self.fields:
            first, *second = names
            sampled = sample[first] * sample[second[0]] if second else sample[first]
            found["_".join(names)] = taken["_".join(names)] + sampled
        return found

    def results(self, taken: dict[str, Any], samples: int) -> dict[Variable, np.ndarray]:
        """{row: mean at cell centres} of gathered sums."""
        found = {}
        for names in self.fields:
            units = UNITS[len(names)]["".join(sorted("e" if name == "eta" else name[0] for name in names))]
            row = variable(f"mean_{'_'.join(names)}", "h", units, f"mean of {' times '.join(names)}",
                           cell_methods="time: mean")  # fmt: skip
            found |= {made: np.asarray(taken["_".join(names)]) / samples for made in row.values()}
        return found


UNITS = {
    1: {"e": "m", "u": "m s-1", "v": "m s-1"},
    2: {"ee": "m2", "eu": "m2 s-1", "ev": "m2 s-1", "uu": "m2 s-2", "uv": "m2 s-2", "vv": "m2 s-2"},
}


@pytree
class Extremes(Sampled):
    """The largest values so far, and for how many samples the elevation stood over `threshold` [m]."""

    threshold: float = static(default=0.0)

    def start(self, state: State, step: int, communicator: Any) -> dict[str, Any]:
        """The values before the first sample."""
        low = jnp.full_like(state.eta, -jnp.inf)
        return _none_yet(step, communicator) | {
            "highest": low, "lowest": -low, "speed": low, "flux": low, "over": jnp.zeros_like(state.eta),
        }  # fmt: skip

    def added(self, taken: dict[str, Any], sample: dict[str, Any]) -> dict[str, Any]:
        eta, square = sample["eta"], sample["u"] ** 2 + sample["v"] ** 2
        return {
            **taken,
            "highest": jnp.maximum(taken["highest"], eta),
            "lowest": jnp.minimum(taken["lowest"], eta),
            "speed": jnp.maximum(taken["speed"], jnp.sqrt(square)),
            "flux": jnp.maximum(taken["flux"], sample["thickness"] * square),
            "over": taken["over"] + (eta > self.threshold).astype(eta.dtype),
        }

    def results(self, taken: dict[str, Any], samples: int) -> dict[Variable, np.ndarray]:
        """{row: values at cell centres} of what was gathered."""
        rows = {
            "highest": ("maximum_elevation", "m", "maximum sea surface elevation", "time: maximum"),
            "lowest": ("minimum_elevation", "m", "minimum sea surface elevation", "time: minimum"),
            "speed": ("maximum_speed", "m s-1", "maximum speed", "time: maximum"),
            "flux": ("maximum_momentum_flux", "m3 s-2", "maximum of thickness times speed squared", "time: maximum"),
            "over": ("time_over_threshold", "s", f"time for which the elevation was over {self.threshold:g} m",
                     "time: sum"),
        }  # fmt: skip
        found = {}
        for key, (name, units, long_name, method) in rows.items():
            values = np.asarray(taken[key]) * (self.every * self.dt if key == "over" else 1.0)
            found |= {row: values for row in variable(name, "h", units, long_name, cell_methods=method).values()}
        return found


def _none_yet(step, communicator):
    return {
        "since": communicator.place(lambda rank: np.int32(step)),
        "samples": communicator.place(lambda rank: np.int32(0)),
    }


def _first_and_every(simulation, who, begin, every):
    if simulation.model.members is not None:
        raise ConfigError(f"{who}: an ensemble has no such sums yet; run its members alone.")
    dt = simulation.dt
    return math.ceil(begin / dt - 1e-9), max(1, round((every or dt) / dt))


def means_of(simulation: Any, fields: tuple[str, ...], begin: float, every: float | None) -> Means:
    """The Means of a Simulation; `fields` as ("eta", "u v").

    Raises:
        ConfigError: for fields that are not known, and for ensembles.
    """
    known = ("eta", "u", "v")
    parts = tuple(tuple(sorted(field.split(), key=known.index) if set(field.split()) <= set(known) else ())
                  for field in fields)  # fmt: skip
    for field, names in zip(fields, parts):
        if len(names) not in (1, 2):
            raise ConfigError(
                f"Simulation.means: {field!r} is no field; give eta, u or v, or a product of two, as 'u eta'."
            )
    first, steps = _first_and_every(simulation, "Simulation.means", begin, every)
    return Means(simulation.dt, steps, first, parts)


def extremes_of(simulation: Any, threshold: float, begin: float, every: float | None) -> Extremes:
    """The Extremes of a Simulation.

    Raises:
        ConfigError: for ensembles.
    """
    first, steps = _first_and_every(simulation, "Simulation.extremes", begin, every)
    return Extremes(simulation.dt, steps, first, float(threshold))
