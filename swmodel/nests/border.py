"""What a nest and the grid around it exchange in a step of the outer grid, from t to t + dt.

To the frame of the nest, at the beginning of each of its steps, at a fraction a of dt:

    eta = sum w m eta_o / sum w m,    u = sum w u_o,    v = sum w v_o,    X_o = (1 - a) X_o(t) + a X_o(t + dt)

with bilinear weights w, and the mask m of the outer cells that are wet. Back to the outer grid at t + dt, if the nest
is two-way, for its cells in the box and the faces between them:

    eta_o = sum A m eta / sum A m,    u_o = sum dy u / sum dy,    v_o = sum dx v / sum dx

over the wet cells and faces of the nest. The outer grid carried the volume F_o [m3] through a face of the border in
the step, and the nest the sum F. In the outer cells along the border F replaces F_o (refluxing, Berger and Colella
1989, doi:10.1016/0021-9991(89)90035-1):

    A eta_o += F_o - F   at the cell that F flows out of,    A eta_o -= F_o - F   at the one that it flows into

So the volume of the nest's box and of the outer grid outside of it changes by what passes their other sides alone, to
rounding. A level surface at rest stays so, over any depth, since every formula gives a mean of wet elevations.
"""

import functools
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from ..dynamics.clock import Time
from ..dynamics.transported import CARRIED
from ..errors import TileError
from ..fields.field import Count
from ..fields.state import pytree, static
from ..models.shallow_water import ShallowWater
from ..parallel.boxes import collect, place_of_tile, spread
from ..stepping.steps import Carry, StepLoop
from .interpolation import weights_of
from .nest import Place

__all__ = ["Border"]


@pytree
class Border:
    """The border between a nest and the grid around it, on one rank.

    Attributes:
        place: where the nest lies.
        two_way: whether the nest changes the outer grid.
        communicator: the Communicator.
        outer_at, inner_at: where the outer tile, and the coarse cells that the nest's tile meets, lie in the box.
        offset: (rows, columns) by which the nest's tile begins after an outer cell.
        at_side: (4,) whether the nest's tile lies at the south, north, west and east side of its grid.
        rows, columns: {"h", "u" or "v": (rows or columns of the nest's tile, those of the box)}, the bilinear weights.
        mask: {"h", "u" or "v": (my, mx)} of the nest's wet cells and of faces between them.
        means: {"h", "u" or "v": (my, mx)}: area [m2] of wet cells in the box, lengths [m] of wet faces on outer faces.
        lengths: {"u" or "v": (my, mx)}: lengths [m] of all faces that lie on faces of the outer grid.
        outer_mask: {"h", "u" or "v": (my, mx)} of the outer grid, likewise.
        outer_lengths: {"u" or "v": (my, mx)}: lengths of the outer grid's faces [m].
        outer_area: of its cells [m2].
    """

    place: Place = static()
    two_way: bool = static()
    communicator: Any = static()
    outer_at: jax.Array
    inner_at: jax.Array
    offset: jax.Array
    at_side: jax.Array
    rows: dict[str, jax.Array]
    columns: dict[str, jax.Array]
    mask: dict[str, jax.Array]
    means: dict[str, jax.Array]
    lengths: dict[str, jax.Array]
    outer_mask: dict[str, jax.Array]
    outer_lengths: dict[str, jax.Array]
    outer_area: jax.Array

    @staticmethod
    def between(outer: ShallowWater, inner: ShallowWater, place: Place, two_way: bool) -> "Border":
        """The Border of two models on the tiles of this rank.

        Args:
            outer, inner: the ShallowWater models.
            place: where the inner grid lies.
            two_way: whether the nest changes the outer grid.

        Raises:
            TileError: if a tile of the nest is thinner than its frame.
        """
        ny, nx = inner.grid.shape
        py, px = inner.decomposition.layout
        if ny // py < place.width or nx // px < place.width:
            raise TileError(
                f"the nest has {ny} x {nx} cells on {py} x {px} tiles, and a tile needs at least {place.width} cells, "
                f"the width of the frame; use at most {ny // place.width} x {nx // place.width} tiles."
            )
        return cast(Border, outer.communicator.place(lambda rank: _on_rank(outer, inner, place, two_way, rank)))

    # -- from the outer grid to the frame ------------------------------------------------------------------------------

    def outer_values(self, loop: StepLoop, carry: Carry, step: Count) -> jax.Array:
        """The outer grid's values in the box before step number `step`, (n, rows, columns), on every rank.

        They are m eta [m], m, u, v [m s-1] and, of a two-way nest, the volumes carried through faces [m3].
        """
        state = loop.get_state(carry)
        wet = _where_wet(loop, state, step, self.outer_mask["h"])
        values = [wet * state.eta, wet, state.u, state.v]
        if self.two_way:
            values += [self.outer_lengths[p] * state[CARRIED[p].name] for p in "uv"]
        return collect(jnp.stack(values), self.outer_at, self.place.shape, self.communicator)

    def fill_frame(self, loop: StepLoop, carry: Carry, outer: jax.Array, step: Count) -> Carry:
        """The nest's carry before its step number `step`, with the outer grid's values at that time in the frame.

        The communicator's `replicated` must have been applied to `outer`, (n, rows, columns).
        """
        bed = None
        if loop.equations.film is not None:
            bed = -loop.equations.depth_at(Time(step)).interior
        width = self.place.width
        my, mx = self.mask["h"].shape
        strips = [slice(0, width), slice(my - width, my)], [slice(0, width), slice(mx - width, mx)]
        whole = slice(0, my), slice(0, mx)
        parts = [(rows, whole[1]) for rows in strips[0]] + [(whole[0], columns) for columns in strips[1]]
        for k, part in enumerate(parts):
            for name, (values, where) in self._interpolated(outer, part, bed).items():
                here = self.at_side[k] & where
                carry = loop.change(carry, name, part, lambda old, x=values, m=here: jnp.where(m, x, old))
        return carry

    def _interpolated(self, outer, part, bed):
        """{name: (the outer grid's values, where they are known)} in a part, a pair of slices, of the nest's tile.

        Far from all water of the outer grid the elevation is not known, and the nest keeps its own.
        """

        eta, some = self._between_wet(outer[0], outer[1], part)
        if bed is not None:
            eta = jnp.maximum(eta, bed[part])
        u, v = (self._linear(outer[k], p, part) for k, p in ((2, "u"), (3, "v")))
        new = {"eta": (eta, "h"), "u": (u, "u"), "v": (v, "v")}
        everywhere = jnp.ones_like(some)
        return {
            name: (x * self.mask[position][part], some if name == "eta" else everywhere)
            for name, (x, position) in new.items()
        }

    def _between_wet(self, total, weight, part):
        """(the values of wet cells alone, where there are any near) from m x and the mask m of the box."""
        total, weight = (self._linear(x, "h", part) for x in (total, weight))
        some = weight > 1e-6
        return jnp.where(some, total, 0.0) / jnp.where(some, weight, 1.0), some

    def _linear(self, x, position, part):
        """The values x (rows, columns) of the box in a part of the nest's tile."""
        rows, columns = self.rows[position][part[0]], self.columns[position][part[1]]
        product = functools.partial(jnp.matmul, precision="highest")
        if rows.shape[0] < columns.shape[0]:
            return product(product(rows, x), columns.T)
        return product(rows, product(x, columns.T))

    def on_nest(self, x: jax.Array, position: str, of_water: bool) -> jax.Array:
        """A field of the outer grid on the nest's tile, linear between its cells or faces.

        Args:
            x: (my, mx) of the outer tile, at `position` "h", "u" or "v".
            of_water: whether it counts in water alone, as the elevation in the frame, and is 0 on the nest's land.
        """
        mask, whole = self.outer_mask[position], (slice(None), slice(None))
        values = jnp.stack([x * mask, mask]) if of_water else x[None]
        box = self.communicator.replicated(collect(values, self.outer_at, self.place.shape, self.communicator))
        if of_water and position == "h":
            return self.mask["h"] * self._between_wet(box[0], box[1], whole)[0]
        return self._linear(box[0], position, whole) * (self.mask[position] if of_water else 1.0)

    # -- from the nest to the outer grid -------------------------------------------------------------------------------

    def inner_values(self, loop: StepLoop, carry: Carry, step: Count) -> jax.Array:
        """The nest's sums in the box before its step number `step`, (8, rows, columns), on every rank.

        They are those of A m eta, A m, dy u, dy, dx v, dx and of the volumes carried along x and y [m3].
        """
        state = loop.get_state(carry)
        area = _where_wet(loop, state, step, self.means["h"])
        values = [area * state.eta, area]
        for p in "uv":
            values += [self.means[p] * state[p], self.means[p]]
        values += [self.lengths[p] * state[CARRIED[p].name] for p in "uv"]
        coarse = _coarsened(jnp.stack(values), self.offset, self.place.ratio)
        return collect(coarse, self.inner_at, self.place.shape, self.communicator)

    def give_back(
        self, loop: StepLoop, carry: Carry, step: Count, inner: jax.Array, before: jax.Array, after: jax.Array
    ) -> Carry:
        """The outer grid's carry with the nest's means in the box, and its fluxes through the border.

        With wetting no surface falls below the bed: an outer cell along the border that would give more water than it
        has falls dry, and the volume is then conserved to what was missing.

        Args:
            loop: the outer grid's.
            carry: before its step number `step`, which is the next one.
            step: that number.
            inner: `inner_values` after the nest's steps.
            before, after: `outer_values` before and after the step.
        """
        covered = self.place.covered
        along_x, along_y = _next_to(covered, 1), _next_to(covered, 0)  # faces with the box on one side
        inner_u, inner_v = (covered & np.roll(covered, -1, axis) for axis in (1, 0))
        volume = (after - before)[4:] - inner[6:]  # F_o - F
        x, y = jnp.where(along_x, volume[0], 0.0), jnp.where(along_y, volume[1], 0.0)
        back = jnp.where(covered, 0.0, x - jnp.roll(x, 1, 1) + y - jnp.roll(y, 1, 0))
        means = [_quotient(inner[k], inner[k + 1]) for k in (0, 2, 4)]
        has = [(inner[k + 1] > 0) & where for k, where in ((0, covered), (2, inner_u), (4, inner_v))]
        box = jnp.stack([*means, back, *(x.astype(back.dtype) for x in has)])
        my, mx = self.outer_mask["h"].shape
        tile = my, mx
        eta, u, v, back, *has = spread(box, self.outer_at, tile, self.communicator)
        rise, lowest = back / self.outer_area, -jnp.inf
        if loop.equations.film is not None:
            lowest = -loop.equations.depth_at(Time(step)).interior
        mask, whole = self.outer_mask, (slice(0, tile[0]), slice(0, tile[1]))
        new = {"u": (u, has[1] * mask["u"]), "v": (v, has[2] * mask["v"]), "eta": (eta, has[0] * mask["h"])}
        for name, (values, where) in new.items():
            carry = loop.change(carry, name, whole, lambda old, x=values, m=where: jnp.where(m > 0, x, old))
        return loop.change(carry, "eta", whole, lambda old: jnp.maximum(old + rise, lowest))


def _where_wet(loop, state, step, x):
    """x, and 0 in cells that have no more than a film of water before step number `step`."""
    film = loop.equations.film
    if film is None:
        return x
    return jnp.where(state.eta + loop.equations.depth_at(Time(step)).interior > 1.5 * film, x, 0.0)


def _quotient(total, weight):
    some = weight > 0
    return jnp.where(some, total, 0.0) / jnp.where(some, weight, 1.0)


def _next_to(covered, axis):
    """Faces on the high side of cells along an axis between a cell in the box and one outside of it."""
    return covered ^ np.roll(covered, -1, axis)


def _coarsened(x, offset, ratio):
    """(n, rows, columns): sums of x (n, my, mx) over blocks of ratio x ratio cells, the first of which begins `offset`
    cells before the tile."""
    n, my, mx = x.shape
    rows, columns = (_blocks(m, ratio) for m in (my, mx))
    wide = jnp.zeros((n, rows * ratio, columns * ratio), x.dtype)
    wide = jax.lax.dynamic_update_slice(wide, x, (jnp.int32(0), offset[0], offset[1]))
    return wide.reshape(n, rows, ratio, columns, ratio).sum((2, 4))


def _blocks(cells, ratio):
    """The largest number of blocks of `ratio` cells that `cells` consecutive ones may lie in."""
    return -(-(cells + ratio - 1) // ratio)


def _on_rank(outer, inner, place, two_way, rank):
    """The Border on a rank, of host arrays."""
    ratio, box = place.ratio, place.shape
    cells, around = inner.decomposition.tile(rank), outer.decomposition.tile(rank)
    first = cells.j0 // ratio, cells.i0 // ratio
    blocks = tuple(_blocks(n, ratio) for n in cells.shape)
    ny, nx = inner.grid.shape
    sides = cells.j0 == 0, cells.j1 == ny, cells.i0 == 0, cells.i1 == nx
    j, i = np.arange(cells.j0, cells.j1), np.arange(cells.i0, cells.i1)
    rows = {p: weights_of(j, box[0], ratio, faces=p == "v") for p in "huv"}
    columns = {p: weights_of(i, box[1], ratio, faces=p == "u") for p in "huv"}
    mask, outer_mask = (
        {p: model.decomposition.cut(model.sea_floor.mask(p), rank) for p in "huv"} for model in (inner, outer)
    )
    covered = np.kron(place.covered, np.ones((ratio, ratio)))[cells.slices]
    on_face = {"u": ((i + 1) % ratio == 0)[None, :], "v": ((j + 1) % ratio == 0)[:, None]}
    metrics, outer_metrics = inner.grid.metrics(j), outer.grid.metrics(np.arange(around.j0, around.j1))
    length = {"u": "dy_u", "v": "dx_v"}
    lengths = {p: on_face[p] * np.broadcast_to(metrics[length[p]], cells.shape) for p in "uv"}
    means = {"h": covered * mask["h"] * metrics["area_h"]} | {p: lengths[p] * mask[p] for p in "uv"}
    wide = lambda x: np.broadcast_to(x, around.shape)  # noqa: E731
    arrays: Any = (
        place_of_tile((around.j0, around.i0), place.corner, around.shape, box),
        place_of_tile(first, (0, 0), blocks, box),
        np.array([cells.j0 % ratio, cells.i0 % ratio], np.int32),
        np.array(sides),
        rows,
        columns,
        mask,
        means,
        lengths,
        outer_mask,
        {p: wide(outer_metrics[length[p]]) for p in "uv"},
        wide(outer_metrics["area_h"]),
    )
    host = Border(place, two_way, inner.communicator, *arrays)
    return jax.tree.map(lambda x: x if x.dtype == np.int32 or x.shape == (4,) else np.asarray(x, inner.dtype), host)
