"""What a nest and the grid around it exchange in a step of the outer grid, from t to t + dt.

To the frame of the nest, before its first step and after each, at a fraction a of dt:

    eta = sum w m eta_o / sum w m,    u = sum w u_o,    v = sum w v_o,    X_o = (1 - a) X_o(t) + a X_o(t + dt)

with bilinear weights w, and the mask m of the outer cells that are wet. Back to the outer grid at t + dt, if the nest
is two-way, for its cells in the box and the faces between them:

    eta_o = sum A m eta / sum A m,    u_o = sum dy u / sum dy,    v_o = sum dx v / sum dx

over the wet cells and faces of the nest. A tracer is exchanged as its concentration c: in the frame like eta, back as
sum A s / sum A h, its content over the volume. So a constant c stays constant, and the covered cells hold the nest's
content where they have its volume. What terms keep in a State, such as the water that has infiltrated, goes back as the
mean over all cells that can be wet; the frame keeps its own. The outer grid carried the volume F_o [m3] through a
face of the border in the step, and the nest the sum F. In the outer cells along the border F replaces F_o (refluxing,
Berger and Colella 1989, doi:10.1016/0021-9991(89)90035-1):

    A eta_o += F_o - F   at the cell that F flows out of,    A eta_o -= F_o - F   at the one that it flows into

So the volume of the nest's box and of the outer grid outside of it changes by what passes their other sides alone, to
rounding. The content of a tracer changes likewise, by the same correction with the contents that both grids carried. A
level surface at rest stays so, over any depth, since every formula gives a mean of wet elevations.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from ..dynamics.clock import Time
from ..dynamics.transported import Passage, converted, passages
from ..errors import TileError
from ..fields.field import Count
from ..fields.state import pytree, static
from ..models.shallow_water import ShallowWater
from ..parallel.boxes import collect, joined
from ..stencils.expressions import cells
from ..stencils.native import interpolate
from ..stepping.steps import Carry, StepLoop
from .edges import LEAST, ON_FACES, Edges, along_border, coarse, coverage, means_in, sums_of_blocks
from .interpolation import weights_of
from .nest import Place

__all__ = ["Border", "OuterValues"]


@pytree
class OuterValues:
    """What an outer grid has along the border before one of its steps, on every rank.

    Attributes:
        flow: for each strip under the frame (n, rows, columns): m eta [m], u, v [m s-1], m c of tracers; and m, where
            it moves.
        carried: what passed each face of a two-way border in the step before, (n, rows, columns) for each side: the
            volume of water [m3], and contents of tracers. Empty before a step.
    """

    flow: list[jax.Array]
    carried: list[jax.Array]


@pytree
class Border:
    """The border between a nest and the grid around it, on one rank.

    All lists of four are of the southern, northern, western and eastern side.

    Attributes:
        edges: the places of the border on both grids' tiles.
        two_way: whether the nest changes the outer grid.
        communicator: the Communicator.
        fields: (name, position) of the fields that the grids exchange: eta, u, v and the tracers.
        kept: the names of the variables that terms of both grids keep, at cell centres.
        counted: the Passages along y, and along x.
        mask, outer_mask: {"h", "u" or "v": (my, mx)} of wet cells and of faces between them, on these tiles.
        level: for each side, m_i / sum w m on the nest's cells in the frame, where the outer coast does not move.
        means: {"h", "u" or "v": weights on the nest's cells in the box, whose sums over outer cells are means}.
        covered: {"h", "u" or "v": the outer cells and faces in each Part of the box that take these means}.
        lengths: for each side, the lengths of the nest's faces on the border [m].
        outer_lengths, outer_area: for each Part of each side, the lengths of the outer grid's faces on the border [m],
            and the areas of the outer cells next to the box [m2].
    """

    edges: Edges = static()
    two_way: bool = static()
    communicator: Any = static()
    fields: tuple[tuple[str, str], ...] = static()
    kept: tuple[str, ...] = static()
    counted: tuple[tuple[Passage, ...], tuple[Passage, ...]] = static()
    mask: dict[str, jax.Array]
    outer_mask: dict[str, jax.Array]
    level: list[jax.Array]
    means: dict[str, jax.Array]
    covered: dict[str, list[jax.Array]]
    lengths: list[jax.Array]
    outer_lengths: list[list[jax.Array]]
    outer_area: list[list[jax.Array]]

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

    # -- what passes the border ----------------------------------------------------------------------------------------

    def passed(self, loop: StepLoop, passed: Mapping[str, jax.Array]) -> list[jax.Array]:
        """What passed a two-way border in a step of the nest, of `StepLoop.counted_step`.

        For each side (n, rows, columns) of what is `counted` there, per unit width.
        """
        return [
            self._strip(loop, passed, k // 2, part) for k, part in enumerate(self.edges.faces if self.two_way else [])
        ]

    def nothing_passed(self) -> list[jax.Array]:
        """`passed` before the nest's first step in one of the outer grid."""
        n, dtype = len(self.counted[0]), self.lengths[0].dtype
        return [jnp.zeros((n, *part.shape), dtype) for part in (self.edges.faces if self.two_way else [])]

    def _strip(self, loop, passed, axis, part):
        """(n, rows, columns) of what is counted in a Part of a border along an axis, 0 for y and 1 for x."""
        each = self.counted[axis]
        every = dict(loop.equations.counted)[each[0]]
        first = cells(every[: every.index((part.at, part.shape))])
        own = slice(first, first + math.prod(part.shape))
        return jnp.stack([passed[x.name][own].reshape(part.shape) for x in each])

    # -- from the outer grid to the frame ------------------------------------------------------------------------------

    def outer_values(
        self, loop: StepLoop, carry: Carry, step: Count, passed: Mapping[str, jax.Array] | None = None
    ) -> tuple[Carry, OuterValues]:
        """(the outer grid's carry before its step number `step`, the OuterValues then).

        With what `passed` in the step before, of `StepLoop.counted_step`, they hold what passed a two-way border.
        """
        carry, strips = loop.read(carry, self._names, [part for parts in self.edges.ring for part in parts])
        boxes, strip = [], iter(strips)
        for parts in self.edges.ring:
            boxes.append(joined([(part, self._flow(loop, next(strip), step, part)) for part in parts]))
        if passed is not None and self.two_way:
            for k, (parts, lengths) in enumerate(zip(self.edges.outer_faces, self.outer_lengths, strict=True)):
                carried = (x[None] * self._strip(loop, passed, k // 2, y) for x, y in zip(lengths, parts, strict=True))
                boxes.append(joined(list(zip(parts, carried, strict=True))))
        whole = collect(boxes, self.communicator)
        return carry, OuterValues(whole[:4], whole[4:])

    def _flow(self, loop, strip, step, part):
        """The flow of OuterValues in a Part of the outer grid, of a strip that was read there."""
        values = dict(zip(self._names, strip, strict=True))
        wet = _where_wet(loop, values["eta"], step, part, self.outer_mask["h"][part.slices])
        values = _converted("shown", loop, values, step, part)
        planes = [wet * values[name] if at == "h" else values[name] for name, at in self.fields]
        return jnp.stack(planes + ([wet] if loop.equations.film is not None else []))

    @property
    def _names(self):
        return [name for name, _ in self.fields]

    @property
    def _given_back(self):
        """{name: whose mean it is: that of faces "u" or "v", wet cells "h", or "all" that can be wet}."""
        return dict(self.fields) | dict.fromkeys(self.kept, "all")

    def in_frame(self, *outer: OuterValues) -> list[jax.Array]:
        """The outer flow at some times on the frame: for each side (times, n, rows, columns) of the nest.

        It is 0 on land; where the outer shore moves, fields at centres are still multiplied by m, as in OuterValues.
        """
        found, positions = [], "".join(at for _, at in self.fields) + "h"
        for side, flows in enumerate(zip(*(values.flow for values in outer), strict=True)):
            count, part = len(flows[0]), self.edges.frame[side]
            x = self._linear(jnp.concatenate(flows), len(outer) * positions[:count], self.edges.under_ring(side))
            water = {at: self.mask[at][part.slices] for at in "uv"}
            water["h"] = self.level[side] if count == len(self.fields) else jnp.ones_like(self.level[side])
            x = x.reshape(len(outer), count, *x.shape[1:])
            found.append(x * jnp.stack([water[at] for at in positions[:count]])[None])
        return found

    def _linear(self, x, positions, cells):
        """Fields x (n, rows, columns) of the outer grid at n positions on some of the nest's cells in this box."""
        return interpolate(x, self.edges.place.ratio, [(p == "v", p == "u") for p in positions], cells)

    def fill_frame(self, loop: StepLoop, carry: Carry, flow: Sequence[jax.Array], step: Count) -> Carry:
        """The nest's carry before its step number `step`, with the outer flow at that time, of `in_frame`."""
        parts, values, moves = self.edges.frame, [], len(flow[0]) > len(self.fields)
        at_centres = [name for name, at in self.fields if at == "h"]
        old: Any = [[None] * len(at_centres)] * 4
        if moves:
            carry, old = loop.read(carry, at_centres, parts)
        for part, x, kept in zip(parts, flow, old, strict=True):
            wet, new = self.mask["h"][part.slices], dict(zip(self._names, x, strict=False))
            if moves:
                new |= {name: wet * _quotient(new[name], x[-1]) for name in at_centres}
                new["eta"] = wet * self._above_bed(loop, new["eta"], step, part)
            new = _converted("stored", loop, new, step, part)
            if moves:  # far from all water of the outer grid the nest keeps its own elevation
                new |= {name: jnp.where(x[-1] > LEAST, new[name], y) for name, y in zip(at_centres, kept, strict=True)}
            values.append(jnp.stack(list(new.values())))
        return loop.write(carry, self._names, parts, values)

    def on_nest(self, x: jax.Array, position: str, of_water: bool) -> jax.Array:
        """A field of the outer grid on the nest's tile, linear between its cells or faces.

        Args:
            x: (my, mx) of the outer tile, at `position` "h", "u" or "v".
            of_water: whether it counts in water alone, as the elevation in the frame, and is 0 on the nest's land.
        """
        mask = self.outer_mask[position]
        values = jnp.stack([x * mask, mask] if of_water else [x])
        parts = [(part, values[(slice(None), *part.slices)]) for part in self.edges.whole]
        (box,) = collect([joined(parts)], self.communicator)
        fine = self._linear(box, position * len(box), self.edges.inner.slices)
        if of_water and position == "h":
            return self.mask["h"] * jnp.where(fine[1] > LEAST, _quotient(*fine), 0.0)
        return fine[0] * (self.mask[position] if of_water else 1.0)

    # -- from the nest to the outer grid -------------------------------------------------------------------------------

    def give_back(
        self,
        outer: tuple[StepLoop, Carry, Count],
        nest: tuple[StepLoop, Carry, Count],
        after: OuterValues,
        passed: Sequence[jax.Array],
    ) -> tuple[Carry, Carry]:
        """(the outer grid's carry with the nest's means in the box, and its fluxes through the border; the nest's).

        With wetting no surface falls below the bed: an outer cell along the border that would give more water than it
        has falls dry, and the volume is then conserved to what was missing.

        Args:
            outer, nest: each grid's loop, its carry, and the number of its next step.
            after: the outer grid's values after its last step.
            passed: the sum of `self.passed` of the nest's steps in it.
        """
        loop, carry, step = outer
        inner, means, carried = self._inner_values(*nest, passed)
        parts, values = self.edges.outer_box, []
        carry, old = loop.read(carry, [*self._given_back], parts)
        for k, (part, before) in enumerate(zip(parts, old, strict=True)):
            covered = {at: each[k] for at, each in self.covered.items()}
            here = {name: x[0][part.box_slices] for name, x in means.items()}
            values.append(self._with_means(loop, step, part, covered, here, before))
        carry = loop.write(carry, [*self._given_back], parts, values)
        differences = [outer - own for outer, own in zip(after.carried, carried, strict=True)]
        return self._refluxed(loop, carry, step, differences), inner

    def _with_means(self, loop, step, part, covered, means, old):
        """(n, rows, columns) of the fields in a Part of the outer grid's box, those `covered` with the nest's means."""
        at, equations = self._given_back, loop.equations
        covered = covered | {"all": covered["h"]}
        if (weight := means.get("weight")) is not None:
            means = {name: _quotient(x, weight) if at.get(name, "h") == "h" else x for name, x in means.items()}
            covered["h"] = jnp.where(weight > 0, covered["h"], 0.0)
        columns = [means[name] for name in means if name.startswith("column ")]
        shown: Any = converted("shown", equations.contents, means, columns) if columns else {}
        means |= shown
        means["eta"] = self._above_bed(loop, means["eta"], step, part)
        means = _converted("stored", loop, means, step, part)
        return jnp.stack([jnp.where(covered[at[name]] > 0, means[name], x) for name, x in zip(at, old, strict=True)])

    def _refluxed(self, loop, carry, step, differences):
        """The outer grid's carry with the `differences` of what both grids carried through each side of the border."""
        equations, names = loop.equations, [name for name, at in self.fields if at == "h"]
        sides, adjacent = zip(*((k, part) for k, parts in enumerate(self.edges.adjacent) for part in parts))
        areas = [area for each in self.outer_area for area in each]
        carry, old = loop.read(carry, names, adjacent)
        values, layers = [], len(equations.names_of_layers)
        for k, side, strip, area in zip(sides, adjacent, old, areas, strict=True):
            gained = [(x * (1 - k % 2 * 2))[side.box_slices] / area for x in differences[k]]
            rises = [*equations.sums(gained[:layers]), *gained[layers:]]
            new = {name: x + rise for name, x, rise in zip(names, strip, rises, strict=True)}
            new["eta"] = self._above_bed(loop, new["eta"], step, side)
            if equations.film is not None:  # what falls dry holds nothing
                columns, contents = _columns(loop, new, step, side), equations.contents
                new |= {row.name: jnp.where(columns[n] > 0, new[row.name], 0.0) for row, _, n in contents}
            values.append(jnp.stack(list(new.values())))
        return loop.write(carry, names, adjacent, values)

    @staticmethod
    def _above_bed(loop, eta, step, part):
        if loop.equations.film is None:
            return eta
        return jnp.maximum(eta, -loop.equations.depth_at(Time(step)).interior[part.slices])

    def _inner_values(self, loop, carry, step, passed):
        """(the carry, boxes, what was carried) of a nest before its step number `step`, on every rank.

        The boxes are {name: means of a field}: of eta [m], u and v [m s-1], contents of tracers and the thickness of
        layers with such; with wetting of the cells with water, times the share of these in the area, and that share.
        What was carried is that through both grids' borders [m3, content].
        """
        part, ratio = self.edges.box, self.edges.place.ratio
        state, lead = loop.get_state(carry), tuple(n % ratio for n in part.within)
        at, every = self._given_back, self.means["h"]
        fields = {name: state[name][part.slices] for name in at}
        weights = self.means | {"all": every, "h": _where_wet(loop, fields["eta"], step, part, every)}
        fields |= {f"column {k}": x for k, x in enumerate(_columns(loop, fields, step, part))}
        planes = {name: weights[at.get(name, "h")] * x for name, x in fields.items()}
        if loop.equations.film is not None:
            planes["weight"] = weights["h"]
        sums = {
            name: sums_of_blocks(x, lead, (ratio, ratio), ON_FACES.get(at.get(name, ""), ()))
            for name, x in planes.items()
        }
        sums, carry = loop.after(sums, carry)
        blocks = coarse(part, (ratio, ratio))
        parts = [(blocks, x[None]) for x in sums.values()]
        carried = [length[None] * strip for length, strip in zip(self.lengths, passed, strict=True)]
        for side, strips, ratios in zip(self.edges.faces, carried, 2 * [(1, ratio)] + 2 * [(ratio, 1)], strict=True):
            lead = tuple(n % m for n, m in zip(side.within, ratios, strict=True))
            parts.append((coarse(side, ratios), sums_of_blocks(strips, lead, ratios, ())))
        boxes = collect(parts, self.communicator)
        return carry, dict(zip(sums, boxes, strict=False)), boxes[len(sums) :]


def _where_wet(loop, eta, step, part, x):
    """x, and 0 in cells of a Part that have no more than a film of water before step number `step`."""
    film = loop.equations.film
    if film is None:
        return x
    return jnp.where(eta + loop.equations.depth_at(Time(step)).interior[part.slices] > 1.5 * film, x, 0.0)


def _columns(loop, fields, step, part):
    """The thickness of each layer [m] in a Part, from {name: values there}; [] where there are no tracers."""
    equations = loop.equations
    if not equations.contents:
        return []
    rest = [x.interior[part.slices] for x in equations.at_rest(equations.depth_at(Time(step)))]
    excess = equations.excess([fields[eta] for *_, eta in equations.names_of_layers])
    return [a + b for a, b in zip(rest, excess, strict=True)]


def _converted(how, loop, fields, step, part) -> dict[str, Any]:
    """{name: values in a Part} with tracers "shown", as concentrations, or "stored", as contents of columns."""
    columns = _columns(loop, fields, step, part)
    return fields | converted(how, loop.equations.contents, fields, columns) if columns else fields


def _quotient(total, weight):
    some = weight > 0
    return jnp.where(some, total, 0.0) / jnp.where(some, weight, 1.0)


def _on_rank(outer, inner, place, two_way, rank):
    """The Border on a rank, of host arrays."""
    edges = Edges(place, outer.decomposition.tile(rank), inner.decomposition.tile(rank))
    mask, outer_mask = (
        {p: model.decomposition.cut(model.sea_floor.mask(p), rank) for p in "huv"} for model in (inner, outer)
    )
    level = []
    for k, (strip, part) in enumerate(zip(edges.place_of_ring, edges.frame, strict=True)):
        rows, columns = (weights_of(np.arange(n * place.ratio), n, place.ratio) for n in strip[1])
        sea = place.of_outer(outer.sea_floor.mask("h"), strip).astype(float)
        weight = (rows @ sea @ columns.T)[edges.under_ring(k)]
        level.append(np.where(weight > LEAST, mask["h"][part.slices], 0.0) / np.where(weight > LEAST, weight, 1.0))
    covered = {
        p: [x * outer_mask[p][part.slices] for x, part in zip(coverage(inner, p, edges), edges.outer_box, strict=True)]
        for p in "huv"
    }
    arrays: Any = (
        mask,
        outer_mask,
        level,
        {p: means_in(inner, p, edges) for p in "huv"},
        covered,
        [x for (x,) in along_border(inner.grid, edges.inner, [[part] for part in edges.faces])],
        along_border(outer.grid, edges.outer, edges.outer_faces),
        along_border(outer.grid, edges.outer, edges.adjacent, area=True),
    )
    system = inner.system
    tracers = [(row.name, "h") for row, *_ in system.contents]
    names = [pair for u, v, eta in system.names_of_layers for pair in ((eta, "h"), (u, "u"), (v, "v"))]
    counted: Any = tuple(tuple(passages(system, at)) for at in "vu")
    fields = *names, *tracers
    both = {row.name for row in system.variables} & {row.name for row in outer.system.variables} - dict(fields).keys()
    host = Border(edges, two_way, inner.communicator, fields, tuple(sorted(both)), counted, *arrays)
    return jax.tree.map(lambda x: np.asarray(x, inner.dtype), host)
