"""Means and extremes that the compiled loop accumulates on the device during a run.

    Means      of fields and of products of two: eta, u, v, "u v", "u eta" (with the fluxes of eddies in them)
    Extremes   the highest and the lowest elevation [m]; the largest thickness (the flow depth on land) [m], speed
               [m s-1] and momentum flux h |u|^2 [m3 s-2]; the time with the elevation over a threshold [s]

All are cell-centred: velocities are averaged to the centres. A sample costs one exchange of halos. The sums are part of
restarts: a run that is resumed continues them bit for bit.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..dynamics.clock import Time
from ..errors import ConfigError
from ..fields.pytrees import pytree, static
from ..fields.state import State
from ..fields.variables import Variable, variable
from .samples import Sampled, cell_centred, first_and_every, plus, total, zero_sum

__all__ = ["Extremes", "Means", "extremes_of", "means_of", "pairs_of"]


@pytree
class Means(Sampled):
    """Sums of fields and of products of two of them; `fields` as (("eta",), ("u", "v"))."""

    fields: tuple[tuple[str, ...], ...] = static(default=())

    def described(self) -> dict[str, Any]:
        return {"fields": ["_".join(names) for names in self.fields]}

    def empty(self, state: State) -> dict[str, jax.Array]:
        parts = [zero_sum("_".join(names), state.eta) for names in self.fields]
        return {name: array for part in parts for name, array in part.items()}

    def added(self, taken: dict[str, Any], equations: Any, state: State, time: Time) -> dict[str, Any]:
        sample, found = cell_centred(equations, state, time), {}
        for names in self.fields:
            first, *second = names
            found |= plus(taken, "_".join(names), sample[first] * sample[second[0]] if second else sample[first])
        return found

    def results(self, taken: dict[str, Any], steps: np.ndarray, rows: Sequence[Variable]) -> dict[Variable, np.ndarray]:
        found, dtype = {}, next(iter(taken.values())).dtype
        for names in self.fields:
            units = UNITS[len(names)]["".join(sorted("e" if name == "eta" else name[0] for name in names))]
            row = variable(
                f"mean_{'_'.join(names)}", "h", units, f"mean of {' times '.join(names)}", cell_methods="time: mean"
            )
            found |= {made: (total(taken, "_".join(names)) / len(steps)).astype(dtype) for made in row.values()}
        return found


UNITS = {
    1: {"e": "m", "u": "m s-1", "v": "m s-1"},
    2: {"ee": "m2", "eu": "m2 s-1", "ev": "m2 s-1", "uu": "m2 s-2", "uv": "m2 s-2", "vv": "m2 s-2"},
}


@pytree
class Extremes(Sampled):
    """Extremes so far, and the number of samples in which the elevation exceeded `threshold` [m]."""

    threshold: float = static(default=0.0)

    def described(self) -> dict[str, Any]:
        return {"threshold": self.threshold}

    def empty(self, state: State) -> dict[str, jax.Array]:
        low = jnp.full_like(state.eta, -jnp.inf)
        count = jnp.zeros_like(state.eta, jnp.int32)
        return {"highest": low, "lowest": -low, "thickness": low, "speed": low, "flux": low, "over": count}

    def added(self, taken: dict[str, Any], equations: Any, state: State, time: Time) -> dict[str, Any]:
        sample = cell_centred(equations, state, time)
        eta, square = sample["eta"], sample["u"] ** 2 + sample["v"] ** 2
        return {
            "highest": jnp.maximum(taken["highest"], eta),
            "lowest": jnp.minimum(taken["lowest"], eta),
            "thickness": jnp.maximum(taken["thickness"], sample["thickness"]),
            "speed": jnp.maximum(taken["speed"], jnp.sqrt(square)),
            "flux": jnp.maximum(taken["flux"], sample["thickness"] * square),
            "over": taken["over"] + (eta > self.threshold).astype(jnp.int32),
        }

    def results(self, taken: dict[str, Any], steps: np.ndarray, rows: Sequence[Variable]) -> dict[Variable, np.ndarray]:
        made = {
            "highest": ("maximum_elevation", "m", "maximum sea surface elevation", "time: maximum"),
            "lowest": ("minimum_elevation", "m", "minimum sea surface elevation", "time: minimum"),
            "thickness": (
                "maximum_thickness",
                "m",
                "maximum thickness of the water, the flow depth on land",
                "time: maximum",
            ),
            "speed": ("maximum_speed", "m s-1", "maximum speed", "time: maximum"),
            "flux": ("maximum_momentum_flux", "m3 s-2", "maximum of thickness times speed squared", "time: maximum"),
            "over": (
                "time_over_threshold",
                "s",
                f"time for which the elevation was over {self.threshold:g} m",
                "time: sum",
            ),
        }
        found = {}
        for key, (name, units, long_name, method) in made.items():
            values = np.asarray(taken[key])
            values = (values * (self.every * self.dt)).astype(taken["highest"].dtype) if key == "over" else values
            found |= {row: values for row in variable(name, "h", units, long_name, cell_methods=method).values()}
        return found


def pairs_of(fields: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """("eta", "v u") as (("eta",), ("u", "v")).

    Raises:
        ConfigError: for fields that are not known.
    """
    known = ("eta", "u", "v")
    parts = tuple(
        tuple(sorted(field.split(), key=known.index) if set(field.split()) <= set(known) else ()) for field in fields
    )
    for field, names in zip(fields, parts):
        if len(names) not in (1, 2):
            raise ConfigError(
                f"Simulation.means: {field!r} is not a field; give eta, u or v, or a product of two, as 'u eta'."
            )
    return parts


def means_of(simulation: Any, fields: tuple[str, ...], begin: float, every: float | None) -> Means:
    """The Means of a Simulation; `fields` as ("eta", "u v").

    Raises:
        ConfigError: for fields that are not known, and for ensembles.
    """
    first, steps = first_and_every(simulation, "Simulation.means", begin, every)
    return Means(simulation.dt, steps, first, pairs_of(fields))


def extremes_of(simulation: Any, threshold: float, begin: float, every: float | None) -> Extremes:
    """The Extremes of a Simulation.

    Raises:
        ConfigError: for ensembles.
    """
    first, steps = first_and_every(simulation, "Simulation.extremes", begin, every)
    return Extremes(simulation.dt, steps, first, float(threshold))
