"""The largest values of every cell during a run: when a wave arrived and how high it was, and extremes of the flow."""

from collections.abc import Iterator
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
from .base import Arrays, Product, Sample, Sampler, Samples, derived, first_sample, interval

__all__ = ["Extremes", "Maxima"]


class Maxima(Product):
    """Maximum elevation and arrival of every cell, over all steps.

    The surface at rest is that of the sea, and on land the bed, which a moving sea floor takes with it, below the level
    of the sea, too. Land that was never under more than a film has the height of its bed as maximum. Of beds finer than
    the cells, land are the cells without water at rest.

    Attributes:
        thin: land under a film of this thickness [m] counts as dry; None where the shore is fixed.
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
            depth: below 0 on land, as H before the sea floor moves [m] (ny, nx); not read where the shore is fixed.
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
