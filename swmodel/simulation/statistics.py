"""Means and extremes that the compiled loop accumulates on the device during a run.

    Means      of any prognostic and derived variables (fields.variables.DERIVED), and of products of two: "eta", "dye",
               "vorticity", "u v", "thickness u"; and the variance or covariance <a b> - <a> <b> (the flux of eddies,
               of "u dye") of those whose means are among them, too
    Extremes   the highest and the lowest elevation [m]; the largest thickness (the flow depth on land) [m], speed
               [m s-1] and momentum flux h |u|^2 [m3 s-2]; the time with the elevation over a threshold [s], on land
               with the flow depth over it and more than a film

All are cell-centred: velocities are averaged to the centres. A sample costs one exchange of halos. The sums are part of
restarts: a run that is resumed continues them bit for bit.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import ConfigError
from ..fields.pytrees import pytree, static
from ..fields.state import State
from ..fields.variables import Variable, derived_units, factors, layer_of, units_of_product, variable
from .samples import Sample, Sampled, add_term, cell_centred, first_and_every, total, zero_sum

__all__ = ["Extremes", "Means", "extremes_of", "means_of"]


@pytree
class Means(Sampled):
    """Sums of variables and of products of two of them; `fields` as (("eta",), ("u", "v"))."""

    fields: tuple[tuple[str, ...], ...] = static(default=())

    def settings(self) -> dict[str, Any]:
        return {"fields": ["_".join(names) for names in self.fields]}

    def initial(self, state: State) -> dict[str, jax.Array]:
        parts = [zero_sum("_".join(names), state.eta) for names in self.fields]
        return {name: array for part in parts for name, array in part.items()}

    def add_sample(self, sums: dict[str, Any], sample: Sample) -> dict[str, Any]:
        centred, found = cell_centred(sample, {name for names in self.fields for name in names}), {}
        for names in self.fields:
            found |= add_term(sums, "_".join(names), functools.reduce(jnp.multiply, [centred[name] for name in names]))
        return found

    def results(self, sums: dict[str, Any], steps: np.ndarray, rows: Sequence[Variable]) -> dict[Variable, np.ndarray]:
        found, dtype = {}, next(iter(sums.values())).dtype
        units = {row.name: row.units for row in rows}
        units |= derived_units(sum(layer_of(row.name)[0] == "eta" for row in rows))
        means = {names: total(sums, "_".join(names)) / len(steps) for names in self.fields}

        def add(name, of, what, method, values):
            (row,) = variable(name, "h", of, what, cell_methods=f"time: {method}").values()
            found[row] = values.astype(dtype)

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
        return found


@pytree
class Extremes(Sampled):
    """Extremes so far, and the number of samples in which the elevation exceeded `threshold` [m]."""

    threshold: float = static(default=0.0)

    def settings(self) -> dict[str, Any]:
        return {"threshold": self.threshold}

    def initial(self, state: State) -> dict[str, jax.Array]:
        low = jnp.full_like(state.eta, -jnp.inf)
        count = jnp.zeros_like(state.eta, jnp.int32)
        return {"highest": low, "lowest": -low, "thickness": low, "speed": low, "flux": low, "over": count}

    def add_sample(self, sums: dict[str, Any], sample: Sample) -> dict[str, Any]:
        centred = cell_centred(sample)
        eta, square = centred["eta"], centred["u"] ** 2 + centred["v"] ** 2
        over, wetting = eta > self.threshold, sample.equations.wetting
        highest = jnp.maximum(sums["highest"], eta)
        if wetting is not None:  # eta of dry land is the height of the bed: there the flow depth counts
            thickness, land = centred["thickness"], sample.equations.depth.interior < 0
            excess = jnp.where(land, thickness, jnp.minimum(eta, thickness))
            over = (excess > self.threshold) & (thickness > wetting.thin)
            highest = jnp.where(sums["thickness"] <= wetting.thin, eta, highest)  # the bed's until there is water
        return {
            "highest": highest,
            "lowest": jnp.minimum(sums["lowest"], eta),
            "thickness": jnp.maximum(sums["thickness"], centred["thickness"]),
            "speed": jnp.maximum(sums["speed"], centred["speed"]),
            "flux": jnp.maximum(sums["flux"], centred["thickness"] * square),
            "over": sums["over"] + over.astype(jnp.int32),
        }

    def results(self, sums: dict[str, Any], steps: np.ndarray, rows: Sequence[Variable]) -> dict[Variable, np.ndarray]:
        surface = next(row.long_name for row in rows if row.name == "eta")
        made = {
            "highest": ("maximum_elevation", "m", f"maximum {surface}", "time: maximum"),
            "lowest": ("minimum_elevation", "m", f"minimum {surface}", "time: minimum"),
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
                f"time for which the {surface} was over {self.threshold:g} m",
                "time: sum",
            ),
        }
        found = {}
        for key, (name, units, long_name, method) in made.items():
            values = np.asarray(sums[key])
            values = (values * (self.every * self.dt)).astype(sums["highest"].dtype) if key == "over" else values
            found |= {row: values for row in variable(name, "h", units, long_name, cell_methods=method).values()}
        return found


def means_of(simulation: Any, fields: tuple[str, ...], begin: float, every: float | None) -> Means:
    """The Means of a Simulation; `fields` as ("eta", "u v").

    Raises:
        ConfigError: for fields that are not known, and for ensembles.
    """
    first, steps = first_and_every(simulation, "Simulation.means", begin, every)
    names = [row.name for row in simulation.model.variables if row.name != "eta"]
    try:
        return Means(
            simulation.dt, steps, first, factors(fields, ("eta", *names, *derived_units(simulation.model.layer_count)))
        )
    except ValueError as error:
        raise ConfigError(f"Simulation.means: {error}.") from None


def extremes_of(simulation: Any, threshold: float, begin: float, every: float | None) -> Extremes:
    """The Extremes of a Simulation.

    Raises:
        ConfigError: for ensembles, and under a rigid lid, where eta is a pressure.
    """
    if simulation.scheme.rigid_lid:
        raise ConfigError("Simulation.extremes: under a rigid lid the surface does not move; omit the extremes.")
    first, steps = first_and_every(simulation, "Simulation.extremes", begin, every)
    return Extremes(simulation.dt, steps, first, float(threshold))
