"""The highest elevation of every cell during a run, and when a wave arrived there."""

from typing import Self

import jax
import jax.numpy as jnp
import numpy as np

from ...defaults import MAXIMA_THRESHOLD
from ...dynamics.subgrid import changed_level
from ...fields.parameters import parameter
from ...fields.state import State, replaced
from ...fields.variables import Variable
from ...parallel.communicator import Communicator
from ..schedule import AbstractSimulation
from .base import Arrays, Product, Sample, Sampler, Samples, derived

__all__ = ["Maxima"]


class Maxima(Product):
    """Maximum elevation and arrival of every cell, over all steps.

    The surface at rest is that of the sea, and on land the bed, which a moving sea floor takes with it, below the level
    of the sea, too. Land that was never under more than a film has the height of its bed as maximum. Of beds finer than
    the cells, land are the cells without water at rest.

    Attributes:
        thin: land under a film of this thickness [m] counts as dry; None without wetting and drying.
        moving: whether the sea floor moves. With `thin` the largest thickness over it is then found, too, because
            neither the highest level nor the first bed has it.
        subgrid: whether cells have beds finer than the grid. The largest thickness is then found, too.
    """

    threshold: float = parameter(
        None, "m", above=0.0, default=MAXIMA_THRESHOLD, static=True, doc="|eta| at which a wave has arrived"
    )
    thin: float | None = derived(None)
    moving: bool = derived(False)
    subgrid: bool = derived(False)

    of_ensembles = of_moving_surface = counts_start = True

    def prepared(self, simulation: AbstractSimulation) -> Self:
        model = simulation.model
        return replaced(
            self, {"thin": model.film, "moving": model.uplift is not None, "subgrid": model.sea_floor.bed is not None}
        )

    def settings(self) -> dict[str, object]:
        return {"threshold": self.threshold}

    def started(self, simulation: AbstractSimulation, state: State, step: int) -> dict[str, jax.Array]:
        if self.thin is None:
            return self.start(state, step)
        model = simulation.model
        water = model.water_depth()
        depth = simulation.communicator.place(lambda rank: np.asarray(water[rank], model.dtype))
        if self.subgrid:
            floor = model.sea_floor, model.open_sides
            depth = depth + changed_level("stored", jnp.zeros_like(depth), *floor) - self.thin  # of the water at rest
            state = state.replace(eta=changed_level("shown", state.eta, *floor))
        return self.start(state, step, depth)

    def start(self, state: State, step: int = 0, depth: jax.Array | None = None) -> dict[str, jax.Array]:
        """{"maximum": eta [m], "arrival": step number or -1}: tile arrays (ny, nx) before the steps after `step`.

        On land arrivals are found from the first step on; -2 there means water under the threshold. Over a moving shore
        there is also "thickness" [m], everywhere from the first step on.

        Args:
            state: the State.
            step: its number.
            depth: below 0 on land, as H before the sea floor moves [m] (ny, nx); not read without wetting and drying.
        """
        arrived = jnp.abs(state.eta) > self.threshold
        if self.thin is not None and depth is not None:
            arrived = arrived & (depth >= 0)
        thickness = {"thickness": jnp.zeros_like(state.eta)} if self.has_thickness else {}
        arrival = jnp.where(arrived, jnp.int32(step), jnp.int32(-1))
        return {"maximum": jnp.copy(state.eta), "arrival": arrival, **thickness}

    @property
    def has_thickness(self) -> bool:
        """Whether the largest thickness is found."""
        return self.thin is not None and (self.moving or self.subgrid)

    def add(self, sums: Arrays, sample: Sample) -> Arrays:
        eta, level = sample.state.eta, sample.shown.eta  # the same, unless cells have beds finer than the grid
        before, more = sums["arrival"], {}
        maximum, raised = jnp.maximum(sums["maximum"], level), eta
        if self.thin is not None:
            land = sample.dry_at_rest
            bed = -sample.depth if sample.uplift is None else sample.uplift - sample.depth
            raised = eta - jnp.where(land, bed, jnp.maximum(bed, 0.0))
            if self.subgrid:
                raised = jnp.where(land, eta - bed, jnp.minimum(level, sample.above_lowest_bed(level)))
            never = land & (before == -1)  # so far eta was the height of the bed alone
            maximum = jnp.where(never, level, maximum)
            before = jnp.where(never & (eta - bed > self.thin), jnp.int32(-2), before)
            if self.has_thickness:
                more = {"thickness": jnp.maximum(sums["thickness"], eta - bed)}
        arrived = (before < 0) & (jnp.abs(raised) > self.threshold)
        return {"maximum": maximum, "arrival": jnp.where(arrived, sample.time.step, before), **more}

    def at_step_of(self, ratio: float, sums: Arrays, communicator: Communicator) -> Arrays | None:
        tiles = communicator.tiles(sums["arrival"])

        def counted(rank):
            arrival = np.asarray(tiles[rank])
            return np.where(arrival < 0, arrival, np.rint(arrival * ratio)).astype(arrival.dtype)

        return {**sums, "arrival": communicator.place(counted)}

    def finish(self, sums: dict[str, np.ndarray], samples: Samples) -> dict[Variable, np.ndarray]:
        maximum, arrival, rows = sums["maximum"], sums["arrival"], samples.rows
        fields = {
            rows["maximum_elevation"]: np.where(np.isfinite(maximum), maximum, np.nan),
            rows["arrival_time"]: np.where(arrival >= 0, arrival * samples.dt, np.nan),
        }
        return fields | ({rows["maximum_thickness"]: sums["thickness"]} if "thickness" in sums else {})

    def attributes(self, samples: Sampler) -> dict[str, str | float]:
        meaning = "arrival_time: the first step at which |eta| exceeds arrival_threshold"
        return {"arrival_threshold": f"{self.threshold:g} m", "arrival_comment": meaning}

    def content(self) -> str:
        return f"maximum elevation, time at which it first passed {self.threshold:g} m"
