"""Extremes of the flow during a run, and the time over a threshold."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from ...fields.parameters import parameter
from ...fields.state import State
from ...fields.variables import Variable
from .base import Arrays, Product, Sample, Samples, first_sample, interval

__all__ = ["Extremes"]


class Extremes(Product):
    """Highest and lowest elevation, largest thickness, speed and momentum flux, time over a threshold.

    They are the elevation [m], the thickness (the flow depth on land) [m], the speed [m s-1] and the momentum flux
    h |u|^2 [m3 s-2] at cell centres. The time with the elevation over the threshold [s] is on land that with the flow
    depth over it and more than a film.
    """

    threshold: float = parameter(
        None, "m", default=0.0, static=True, doc="of the elevation, and of the flow depth on land, for the time over it"
    )
    begin: float = first_sample("when the extremes begin to be taken")
    every: float | None = interval()

    of_moving_surface = True

    def start(self, state: State) -> dict[str, jax.Array]:
        low = jnp.full_like(state.eta, -jnp.inf)
        count = jnp.zeros_like(state.eta, jnp.int32)
        return {"highest": low, "lowest": -low, "thickness": low, "speed": low, "flux": low, "over": count}

    def add(self, sums: Arrays, sample: Sample) -> Arrays:
        centred = sample.at_centres()
        eta, square = centred["eta"], centred["u"] ** 2 + centred["v"] ** 2
        over, film = eta > self.threshold, sample.equations.film
        highest = jnp.maximum(sums["highest"], eta)
        if film is not None:  # eta of dry land is the height of the bed: there the flow depth counts
            thickness = centred["thickness"]
            above = thickness if sample.equations.subgrid is None else sample.above_lowest_bed(eta)
            excess = jnp.where(sample.dry_at_rest, thickness, jnp.minimum(eta, above))
            over = (excess > self.threshold) & (thickness > film)
            highest = jnp.where(sums["thickness"] <= film, eta, highest)  # the bed's until there is water
        return {
            "highest": highest,
            "lowest": jnp.minimum(sums["lowest"], eta),
            "thickness": jnp.maximum(sums["thickness"], centred["thickness"]),
            "speed": jnp.maximum(sums["speed"], centred["speed"]),
            "flux": jnp.maximum(sums["flux"], centred["thickness"] * square),
            "over": sums["over"] + over.astype(jnp.int32),
        }

    def finish(self, sums: dict[str, np.ndarray], samples: Samples) -> dict[Variable, np.ndarray]:
        surface = samples.rows["eta"].long_name
        depth = "maximum thickness of the water, the flow depth on land"
        made = {
            "highest": ("maximum_elevation", "m", f"maximum {surface}", "maximum"),
            "lowest": ("minimum_elevation", "m", f"minimum {surface}", "minimum"),
            "thickness": ("maximum_thickness", "m", depth, "maximum"),
            "speed": ("maximum_speed", "m s-1", "maximum speed", "maximum"),
            "flux": ("maximum_momentum_flux", "m3 s-2", "maximum of thickness times speed squared", "maximum"),
            "over": ("time_over_threshold", "s", f"time for which the {surface} was over {self.threshold:g} m", "sum"),
        }
        seconds = (sums["over"] * samples.interval).astype(sums["highest"].dtype)
        return {
            Variable(name, "h", units, long_name, cell_methods=f"time: {method}"): {**sums, "over": seconds}[key]
            for key, (name, units, long_name, method) in made.items()
        }

    def content(self) -> str:
        what = "highest and lowest elevation, largest thickness, speed and momentum flux, time over"
        return f"{what} {self.threshold:g} m"

    def remarks(self, deepest: float) -> Iterator[str]:
        if self.threshold <= deepest:
            yield (
                f"threshold = {self.threshold:g} m is below the deepest bed at {deepest:g} m: water is always over it; "
                "give an elevation of the surface."
            )
