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
from collections.abc import Sequence
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
from ..parallel.boxes import Part, collect
from ..stencils.native import interpolate
from ..stepping.steps import Carry, StepLoop
from .edges import LEAST, ON_FACES, Edges, along_border, coverage, mask_of
from .interpolation import weights_of
from .nest import Place

__all__ = ["Border", "OuterValues"]

FLOW = "eta", "u", "v"
VOLUMES = CARRIED["u"].name, CARRIED["v"].name


@pytree
class OuterValues:
    """What an outer grid has along the border before one of its steps, on every rank.

    Attributes:
        flow: for each strip under the frame (3 or 4, rows, columns): m eta [m], u, v [m s-1]; and m, where it moves.
        volumes: the volume carried through each face of a two-way border [m3], (1, rows, columns) for each side.
    """

    flow: list[jax.Array]
    volumes: list[jax.Array]


@pytree
class Border:
    """The border between a nest and the grid around it, on one rank.

    All lists of four are of the southern, northern, western and eastern side.

    Attributes:
        edges: the places of the border on both grids' tiles.
        two_way: whether the nest changes the outer grid.
        communicator: the Communicator.
        mask, outer_mask: {"h", "u" or "v": (my, mx)} of wet cells and of faces between them, on these tiles.
        level: for each side, m_i / sum w m on the nest's cells in the frame, where the outer coast does not move.
        means: {"h", "u" or "v": weights on the nest's cells in the box, whose sums over outer cells are means}.
        covered: {"h", "u" or "v": the outer cells and faces in the box that take these means}.
        lengths, outer_lengths: for each side, the lengths of the faces of both grids on the border [m].
        outer_area: for each side, the areas of the outer cells next to the box [m2].
    """

    edges: Edges = static()
    two_way: bool = static()
    communicator: Any = static()
    mask: dict[str, jax.Array]
    outer_mask: dict[str, jax.Array]
    level: list[jax.Array]
    means: dict[str, jax.Array]
    covered: dict[str, jax.Array]
    lengths: list[jax.Array]
    outer_lengths: list[jax.Array]
    outer_area: list[jax.Array]

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

    # -- volumes that the flow carries through the border --------------------------------------------------------------

    def without_volumes(self, loop: StepLoop, carry: Carry, of_nest: bool) -> Carry:
        """The carry of one of both grids, with no volume carried through the border yet."""
        if not self.two_way:
            return carry
        parts = self.edges.faces if of_nest else self.edges.outer_faces
        none = [2 * [jnp.zeros(part.shape, carry[0][VOLUMES[0]].dtype)] for part in parts]
        return loop.write(carry, VOLUMES, parts, none)

    def _volumes(self, loop, carry, parts, lengths):
        """(the carry, for each side the volume carried through the faces [m3])."""
        carry, strips = loop.read(carry, VOLUMES, parts)
        across = [along_y for _, along_y in strips[:2]] + [along_x for along_x, _ in strips[2:]]
        return carry, [length * strip for length, strip in zip(lengths, across, strict=True)]

    # -- from the outer grid to the frame ------------------------------------------------------------------------------

    def outer_values(self, loop: StepLoop, carry: Carry, step: Count) -> tuple[Carry, OuterValues]:
        """(the outer grid's carry before its step number `step`, the OuterValues then)."""
        carry, strips = loop.read(carry, FLOW, self.edges.ring)
        flow, volumes = [], []
        for part, (eta, u, v) in zip(self.edges.ring, strips, strict=True):
            wet = _where_wet(loop, eta, step, part, self.outer_mask["h"][part.slices])
            flow.append(jnp.stack([wet * eta, u, v] + ([wet] if loop.equations.film is not None else [])))
        parts = list(zip(self.edges.ring, flow, strict=True))
        if self.two_way:
            faces = self.edges.outer_faces
            carry, volumes = self._volumes(loop, carry, faces, self.outer_lengths)
            parts += [(part, x[None]) for part, x in zip(faces, volumes, strict=True)]
        boxes = collect(parts, self.communicator)
        return carry, OuterValues(boxes[: len(flow)], boxes[len(flow) :])

    def in_frame(self, *outer: OuterValues) -> list[jax.Array]:
        """The outer flow at some times on the frame: for each side (times, 3 or 4, rows, columns) of the nest."""
        found = []
        for side, flows in enumerate(zip(*(values.flow for values in outer), strict=True)):
            x = self._linear(jnp.concatenate(flows), len(outer) * "huvh"[: len(flows[0])], self.edges.under_ring(side))
            found.append(x.reshape(len(outer), len(flows[0]), *x.shape[1:]))
        return found

    def _linear(self, x, positions, cells):
        """Fields x (n, rows, columns) of the outer grid at n positions on some of the nest's cells in this box."""
        return interpolate(x, self.edges.place.ratio, [(p == "v", p == "u") for p in positions], cells)

    def fill_frame(self, loop: StepLoop, carry: Carry, flow: Sequence[jax.Array], step: Count) -> Carry:
        """The nest's carry before its step number `step`, with the outer flow at that time, of `in_frame`."""
        parts, values = self.edges.frame, []
        old: Any = [[None]] * 4
        if len(flow[0]) == 4:
            carry, old = loop.read(carry, ("eta",), parts)
        for part, x, level, (kept,) in zip(parts, flow, self.level, old, strict=True):
            mask = {p: self.mask[p][part.slices] for p in "huv"}
            eta = x[0] * level if len(x) == 3 else mask["h"] * _quotient(x[0], x[3])
            eta = mask["h"] * self._above_bed(loop, eta, step, part)
            if len(x) == 4:  # far from all water of the outer grid the nest keeps its own elevation
                eta = jnp.where(x[3] > LEAST, eta, kept)
            values.append([eta, x[1] * mask["u"], x[2] * mask["v"]])
        return loop.write(carry, FLOW, parts, values)

    def on_nest(self, x: jax.Array, position: str, of_water: bool) -> jax.Array:
        """A field of the outer grid on the nest's tile, linear between its cells or faces.

        Args:
            x: (my, mx) of the outer tile, at `position` "h", "u" or "v".
            of_water: whether it counts in water alone, as the elevation in the frame, and is 0 on the nest's land.
        """
        part, mask = self.edges.whole, self.outer_mask[position]
        values = jnp.stack([x * mask, mask] if of_water else [x])[(slice(None), *part.slices)]
        (box,) = collect([(part, values)], self.communicator)
        fine = self._linear(box, position * len(box), self.edges.inner.slices)
        if of_water and position == "h":
            return self.mask["h"] * jnp.where(fine[1] > LEAST, _quotient(*fine), 0.0)
        return fine[0] * (self.mask[position] if of_water else 1.0)

    # -- from the nest to the outer grid -------------------------------------------------------------------------------

    def give_back(
        self,
        outer: tuple[StepLoop, Carry, Count],
        nest: tuple[StepLoop, Carry, Count],
        before: OuterValues,
        after: OuterValues,
    ) -> tuple[Carry, Carry]:
        """(the outer grid's carry with the nest's means in the box, and its fluxes through the border; the nest's).

        With wetting no surface falls below the bed: an outer cell along the border that would give more water than it
        has falls dry, and the volume is then conserved to what was missing.

        Args:
            outer, nest: each grid's loop, its carry, and the number of its next step.
            before, after: the outer grid's values before and after its last step.
        """
        loop, carry, step = outer
        inner, means, volumes = self._inner_values(*nest)
        part, adjacent = self.edges.outer_box, self.edges.adjacent
        eta, u, v, *weight = (x[0][part.box_slices] for x in means)
        covered = dict(self.covered)
        if weight:
            eta, covered["h"] = _quotient(eta, weight[0]), jnp.where(weight[0] > 0, covered["h"], 0.0)
        carry, (old,) = loop.read(carry, FLOW, [part])
        new = [jnp.where(covered[p] > 0, x, y) for p, x, y in zip("huv", (eta, u, v), old, strict=True)]
        new[0] = self._above_bed(loop, new[0], step, part)
        carry = loop.write(carry, FLOW, [part], [new])
        carry, old = loop.read(carry, ("eta",), adjacent)
        levels = []
        for k, (side, (eta,), area) in enumerate(zip(adjacent, old, self.outer_area, strict=True)):
            gained = ((after.volumes[k] - before.volumes[k] - volumes[k])[0] * (1 - k % 2 * 2))[side.box_slices]
            levels.append([self._above_bed(loop, eta + gained / area, step, side)])
        return loop.write(carry, ("eta",), adjacent, levels), inner

    @staticmethod
    def _above_bed(loop, eta, step, part):
        if loop.equations.film is None:
            return eta
        return jnp.maximum(eta, -loop.equations.depth_at(Time(step)).interior[part.slices])

    def _inner_values(self, loop, carry, step):
        """(the carry, boxes, volumes) of a nest before its step number `step`, on every rank.

        The boxes are the means of eta [m], u and v [m s-1]; with wetting of eta over its cells with water, times the
        share of these in the area, and that share. The volumes are those of both grids' borders [m3].
        """
        part, ratio = self.edges.box, self.edges.place.ratio
        state, lead = loop.get_state(carry), tuple(n % ratio for n in part.within)
        fields = {p: state[name][part.slices] for p, name in zip("huv", FLOW, strict=True)}
        area = _where_wet(loop, fields["h"], step, part, self.means["h"])
        values = {"h": [area * fields["h"]], "u": [self.means["u"] * fields["u"]], "v": [self.means["v"] * fields["v"]]}
        sums = [_sums(x, lead, (ratio, ratio), ON_FACES[p]) for p, xs in values.items() for x in xs]
        if loop.equations.film is not None:
            sums.append(_sums(area, lead, (ratio, ratio), ()))
        sums, carry = loop.after(sums, carry)
        coarse = _coarse(part, (ratio, ratio))
        parts = [(coarse, x[None]) for x in sums]
        carry, volumes = self._volumes(loop, carry, self.edges.faces, self.lengths)
        for side, x, ratios in zip(self.edges.faces, volumes, 2 * [(1, ratio)] + 2 * [(ratio, 1)], strict=True):
            lead = tuple(n % m for n, m in zip(side.within, ratios, strict=True))
            parts.append((_coarse(side, ratios), _sums(x, lead, ratios, ())[None]))
        boxes = collect(parts, self.communicator)
        return carry, boxes[: len(sums)], boxes[len(sums) :]


def _where_wet(loop, eta, step, part, x):
    """x, and 0 in cells of a Part that have no more than a film of water before step number `step`."""
    film = loop.equations.film
    if film is None:
        return x
    return jnp.where(eta + loop.equations.depth_at(Time(step)).interior[part.slices] > 1.5 * film, x, 0.0)


def _quotient(total, weight):
    some = weight > 0
    return jnp.where(some, total, 0.0) / jnp.where(some, weight, 1.0)


def _sums(x, lead, ratios, last):
    """Sums of x (rows, columns) over blocks of `ratios` cells, the first of which begins `lead` cells before x.

    Along axes in `last` they are the last values of blocks.
    """
    for axis, (before, n) in enumerate(zip(lead, ratios, strict=True)):
        margins = [(0, 0), (0, 0)]
        margins[axis] = before, -(before + x.shape[axis]) % n
        x = jnp.pad(x, margins)
        parts = range(n - 1, n) if axis in last else range(n)
        x = functools.reduce(
            jnp.add, [jax.lax.slice_in_dim(x, k, x.shape[axis], stride=n, axis=axis) for k in parts if x.size] or [x]
        )
    return x


def _coarse(part, ratios):
    """The Part of blocks of `ratios` cells that meet a Part, whose box they divide."""
    box, within = (tuple(n // m for n, m in zip(x, ratios, strict=True)) for x in (part.box, part.within))
    ends = (-(-(first + n) // m) for first, n, m in zip(part.within, part.shape, ratios, strict=True))
    rows, columns = (end - first for end, first in zip(ends, within, strict=True))
    return Part(box, within, within, (rows, columns))


def _on_rank(outer, inner, place, two_way, rank):
    """The Border on a rank, of host arrays."""
    edges = Edges(place, outer.decomposition.tile(rank), inner.decomposition.tile(rank))
    mask, outer_mask = (
        {p: model.decomposition.cut(model.sea_floor.mask(p), rank) for p in "huv"} for model in (inner, outer)
    )
    level = []
    for k, (strip, part) in enumerate(zip(edges.place_of_ring, edges.frame, strict=True)):
        rows, columns = (weights_of(np.arange(n * place.ratio), n, place.ratio) for n in strip[1])
        weight = (rows @ mask_of(outer, "h", *strip) @ columns.T)[edges.under_ring(k)]
        level.append(np.where(weight > LEAST, mask["h"][part.slices], 0.0) / np.where(weight > LEAST, weight, 1.0))
    pairs = {p: coverage(inner, p, edges) for p in "huv"}
    arrays: Any = (
        mask,
        outer_mask,
        level,
        {p: weights for p, (weights, _) in pairs.items()},
        {p: inside * outer_mask[p][edges.outer_box.slices] for p, (_, inside) in pairs.items()},
        along_border(inner.grid, edges.inner, edges.faces),
        along_border(outer.grid, edges.outer, edges.outer_faces),
        along_border(outer.grid, edges.outer, edges.adjacent, area=True),
    )
    host = Border(edges, two_way, inner.communicator, *arrays)
    return jax.tree.map(lambda x: np.asarray(x, inner.dtype), host)
