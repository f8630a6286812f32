"""What a nest takes once from the grid around it: the motion of the sea floor, so that both rise alike, and the
state of a nest that starts during a run.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..dynamics.domain import Domain
from ..dynamics.terms import Series
from ..fields.state import State
from ..grids.grid import Grid
from ..grids.windows import LazyRecords, Stored
from ..models.shallow_water import ShallowWater
from ..parallel import SerialCommunicator
from ..parallel.boxes import collect
from .border import Border
from .interpolation import conserving, interpolated, interpolated_of, weights_of
from .nest import Place

__all__ = ["MotionInBox", "state_from_outer"]


def state_from_outer(
    border: Border,
    outer: ShallowWater,
    inner: ShallowWater,
    state: State,
    uplifts: tuple[jax.Array | None, jax.Array | None] = (None, None),
) -> State:
    """The State of a nest at the time of a State of the grid around it; collective.

    The elevation is linear in an outer cell, with its mean, so that no volume is gained or lost where both grids have
    the same coast. Where the outer grid has no water, a nest with wetting is dry, and one without takes the elevation
    of the water nearby, or 0 far from all water. Velocities are bilinear. With wetting water and land are those over
    the bed as it has risen, b = uplift - depth.

    Args:
        border: between both grids.
        outer, inner: their ShallowWater models.
        state: of the outer grid, on this rank's tile.
        uplifts: of the sea floor until now [m], on this rank's tiles of both grids; None where it does not move.
    """
    place, (around, own) = border.edges.place, (0.0 if uplift is None else uplift for uplift in uplifts)
    values = jnp.stack([state.eta, state.u, state.v, jnp.zeros_like(state.eta) + around])
    part = (border.edges.whole, values[(slice(None), *border.edges.whole.slices)])
    eta, u, v, rise = np.asarray(collect([part], border.communicator)[0], float)
    wet, ratio = outer.sea_floor.wet.block(*place.box_slices), place.ratio
    if outer.film is not None:
        wet = wet & (eta - rise + outer.sea_floor.water.block(*place.box_slices) > 1.5 * outer.film)
    covered, level = np.kron(wet, np.ones((ratio, ratio))) > 0, conserving(eta, wet, ratio)
    if inner.film is None:
        fields = {"eta": np.where(covered, level, interpolated_of(wet.astype(float), eta, ratio))}
    else:  # less the uplift, since `inner.state` lets no surface lie below the bed at rest
        fields = {"eta": np.where(covered, level - interpolated(rise, ratio), -np.asarray(inner.sea_floor.water))}
    for name, x in (("u", u), ("v", v)):
        rows, columns = (
            weights_of(np.arange(n * ratio), n, ratio, faces)
            for n, faces in zip(place.shape, (name == "v", name == "u"), strict=True)
        )
        fields[name] = rows @ x @ columns.T
    start = inner.state(**fields)
    if inner.film is None:
        return start
    return start.replace(eta=start.eta + own * inner.domain.cut(inner.sea_floor.mask("h")))


@dataclasses.dataclass(frozen=True)
class MotionInBox:
    """A BottomMotion of a nest, linear between the cells of the grid around it.

    Args:
        source: the motion on the grid around the nest, as ShallowWater takes it.
        outer: that grid.
        place: where the nest lies in it.
    """

    source: Any
    outer: Grid
    place: Place

    def series(self, domain: Domain) -> Series:
        """The Series of the uplift on the tiles of the nest's Domain."""
        whole = Domain(self.outer, SerialCommunicator(), domain.dtype, domain.sea_floor)
        motion = self.source.series(whole)
        records = motion.values[0]

        def make(k: int) -> Stored:
            values = interpolated(np.asarray(records[k], float)[self.place.box_slices], self.place.ratio)
            return Stored(values, domain.grid.shape)

        return domain.series(motion.times, LazyRecords(make, (len(motion.times), *domain.grid.shape)))
