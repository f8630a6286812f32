"""What a nest takes once from the grid around it: the motion of the sea floor, so that both rise alike, and the
state of a nest that starts during a run.
"""

import dataclasses
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from ..dynamics.domain import Domain
from ..dynamics.terms import Series
from ..dynamics.transported import converted, thicknesses
from ..fields.state import State
from ..grids.grid import Grid
from ..grids.windows import LazyRecords, Stored
from ..models.shallow_water import ShallowWater
from ..parallel import SerialCommunicator
from ..parallel.boxes import collect
from ..stencils.expressions import cells_of
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
    the same coast. Where the outer grid has no water, a nest whose shore moves is dry, and another takes the
    elevation of the water nearby, or 0 far from all water. Velocities are bilinear. Where shores move, water and land
    are those over the bed as it has risen, b = uplift - depth. The nest's water in an outer cell has the outer
    concentration of a tracer in its mean, around which it is linear likewise. What terms keep, such as the water that
    has infiltrated, is linear in an outer cell, with its mean.

    Args:
        border: between both grids.
        outer, inner: their ShallowWater models.
        state: of the outer grid, on this rank's tile.
        uplifts: of the sea floor until now [m], on this rank's tiles of both grids; None where it does not move.
    """
    place, (around, own) = border.edges.place, (0.0 if uplift is None else uplift for uplift in uplifts)
    names = [*(name for name, _ in border.fields), *border.kept]
    values = jnp.stack([*(state[name] for name in names), jnp.zeros_like(state.eta) + around])
    (box,) = collect([(border.edges.whole, cells_of(values, border.edges.whole.strips))], border.communicator)
    *values, rise = cast(Any, np.asarray(box, float).reshape(-1, *place.shape))
    outside, ratio = dict(zip(names, values, strict=True)), place.ratio
    depth, sea = place.of_outer(outer.sea_floor.water) - rise, place.of_outer(outer.sea_floor.wet)
    wet = sea if outer.film is None else sea & (outside["eta"] + depth > 1.5 * outer.film)
    covered, system = np.kron(wet, np.ones((ratio, ratio))) > 0, inner.system
    inside, water = (np.asarray(x) for x in (inner.sea_floor.wet, inner.sea_floor.water))
    risen, fields = interpolated(rise, ratio), {}
    for name in (eta for *_, eta in system.names_of_layers):
        level = conserving(outside[name], wet, ratio)
        if inner.film is None:
            fields[name] = np.where(covered, level, interpolated_of(wet.astype(float), outside[name], ratio))
        else:  # less the uplift, since `inner.state` lets no surface lie below the bed at rest
            fields[name] = np.maximum(np.where(covered, level - risen, -water), -water)
    own_depth: Any = water - (risen if inner.film is None else 0.0)
    fine = [x * inside for x in thicknesses(system, fields, own_depth)]
    shown = converted("shown", outer.system.contents, outside, thicknesses(outer.system, outside, depth))
    concentrations = {
        row.name: _with_means(np.asarray(shown[row.name], float), wet, covered, fine[layer], ratio)
        for row, _, layer in system.contents
    }
    for name in (name for pair in system.names_of_layers for name in pair[:2]):
        shapes = zip(place.shape, (name[0] == "v", name[0] == "u"), strict=True)
        rows, columns = (weights_of(np.arange(n * ratio), n, ratio, on_faces) for n, on_faces in shapes)
        fields[name] = rows @ outside[name] @ columns.T
    fields |= {name: conserving(outside[name], sea, ratio) for name in border.kept}
    start, mask, cut = inner.state(**fields), inner.domain.cut(inner.sea_floor.mask("h")), inner.domain.cut
    if inner.film is not None:
        start = start.replace(eta=start.eta + own * mask)
    columns = [x * mask for x in thicknesses(system, start, cut(inner.sea_floor.water) - own)]
    tracers = {name: cut(c) for name, c in concentrations.items()}
    return start.replace(**converted("stored", system.contents, tracers, columns))


def _with_means(c, wet, covered, thickness, ratio):
    """A concentration c (ny, nx) on the nest's cells, of which the water in each outer cell has that of the cell.

    Args:
        c, wet: of the outer cells; whether they have water.
        covered: which of the nest's cells lie in outer ones with water.
        thickness: of the water in the nest's cells [m].
        ratio: the number of the nest's cells along a side of an outer one.
    """
    fine = np.where(covered, conserving(c, wet, ratio), interpolated_of(wet.astype(float), c, ratio))
    sums = [x.reshape(c.shape[0], ratio, c.shape[1], ratio).sum((1, 3)) for x in (fine * thickness, thickness)]
    some = wet & (sums[1] > 0)
    change = np.where(some, c - sums[0] / np.where(some, sums[1], 1.0), 0.0)
    return fine + np.kron(change, np.ones((ratio, ratio)))


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
            record = Stored(np.asarray(records[k], float), self.outer.shape)
            values = interpolated(self.place.of_outer(record), self.place.ratio)
            return Stored(values, domain.grid.shape)

        return domain.series(motion.times, LazyRecords(make, (len(motion.times), *domain.grid.shape)))
