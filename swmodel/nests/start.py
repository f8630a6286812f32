"""The state of a nest that starts during a run: that of the grid around it."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from ..fields.state import State
from ..parallel.boxes import collect
from .border import Border
from .interpolation import conserving, interpolated_of, weights_at

__all__ = ["state_from_outer"]


def state_from_outer(border: Border, outer: Any, inner: Any, state: State) -> State:
    """The State of a nest at the time of a State of the grid around it; collective.

    The elevation is linear in an outer cell, with its mean, so that no volume is gained or lost where both grids have
    the same coast. Where the outer grid has no water, a nest with wetting is dry, and one without takes the elevation
    of the water nearby, or 0 far from all water. Velocities are bilinear.

    Args:
        border: between both grids.
        outer, inner: their ShallowWater models.
        state: of the outer grid, on this rank's tile.
    """
    place = border.place
    values = jnp.stack([state.eta, state.u, state.v])
    eta, u, v = np.asarray(collect(values, border.outer_at, place.shape, border.communicator), float)
    wet, ratio = outer.sea_floor.wet.block(*place.box_slices), place.ratio
    if outer.film is not None:
        wet = wet & (eta + outer.sea_floor.water.block(*place.box_slices) > 1.5 * outer.film)
    near = interpolated_of(wet.astype(float), eta, ratio)
    on_land = near if inner.film is None else -np.asarray(inner.sea_floor.water)
    covered = np.kron(wet, np.ones((ratio, ratio))) > 0
    fields = {"eta": np.where(covered, conserving(eta, wet, ratio), on_land)}
    for name, x in (("u", u), ("v", v)):
        rows, columns = (
            weights_at((np.arange(n * ratio) + (1.0 if along else 0.5)) / ratio - (1.0 if along else 0.5), n)
            for n, along in zip(place.shape, (name == "v", name == "u"), strict=True)
        )
        fields[name] = rows @ x @ columns.T
    return inner.state(**fields)
