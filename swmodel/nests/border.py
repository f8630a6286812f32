"""What a nest and the grid around it exchange in a step of the outer grid, from t to t + dt.

To the frame of the nest, and to the faces on its border, before its first step and after each, at a fraction a of dt:

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

from collections.abc import Mapping
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
from ..parallel.boxes import Boxes, collect
from ..stencils.expressions import Strips, cells, cells_of
from ..stencils.native import Blocks, block_sums, interpolate
from ..stepping.steps import Carry, StepLoop
from .edges import LEAST, Edges, along_border, coarse, coverage, levels_in, means_in, strips_at, sums_along
from .nest import Place

__all__ = ["Border", "OuterValues"]


@pytree
class OuterValues:
    """What an outer grid has along the border before one of its steps, on every rank.

    Attributes:
        flow: in the outer cells of `Edges.ring` (n, cells): m eta [m], m c of tracers; m, where it moves; u, v [m s-1].
        carried: what passed each face of a two-way border in the step before (n, faces): the volume of water [m3], and
            contents of tracers. None before a step.
    """

    flow: jax.Array
    carried: jax.Array | None


@pytree
class Border:
    """The border between a nest and the grid around it, on one rank.

    Values along the border are of its southern, northern, western and eastern side, one after the other.

    Attributes:
        edges: the places of the border on both grids' tiles.
        two_way: whether the nest changes the outer grid.
        shore_moves: whether the shore of the outer grid moves.
        communicator: the Communicator.
        fields: (name, position) of the fields that the grids exchange: eta and the tracers, u, v.
        kept: the names of the variables that terms of both grids keep, at cell centres.
        counted: the Passages along y, and along x.
        mask, outer_mask: {"h", "u" or "v": (my, mx)} of wet cells and of faces between them, on these tiles.
        ring: what the outer fields are multiplied by in `Edges.ring` (n, cells): m at centres, 1 on faces.
        wet: the nest's wet cells in the frame (cells,).
        factors: what the outer flow of `in_frame` is multiplied by (cells,): 1 in wet cells and faces, and 0 on land;
            m_i / sum w m at centres where the outer coast does not move.
        means: of the nest's cells in the box (3, rows, columns): weights at h, u and v whose sums over outer cells are
            means.
        covered: {"h", "u" or "v": the outer cells and faces in the box that take these means, (cells,)}.
        lengths, outer_lengths: of the faces on the border in both grids [m] (faces,).
        rises: of the outer cells next to the box (cells,): 1 / area [m-2], negative on the northern and eastern side.
    """

    edges: Edges = static()
    two_way: bool = static()
    shore_moves: bool = static()
    communicator: Any = static()
    fields: tuple[tuple[str, str], ...] = static()
    kept: tuple[str, ...] = static()
    counted: tuple[tuple[Passage, ...], tuple[Passage, ...]] = static()
    mask: dict[str, jax.Array]
    outer_mask: dict[str, jax.Array]
    ring: jax.Array
    wet: jax.Array
    factors: jax.Array
    means: jax.Array
    covered: dict[str, jax.Array]
    lengths: jax.Array
    outer_lengths: jax.Array
    rises: jax.Array

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

    def passed(self, loop: StepLoop, passed: Mapping[str, jax.Array]) -> jax.Array | tuple[()]:
        """What passed a two-way border in a step of the nest, of `StepLoop.counted_step`.

        Per unit width (n, faces); () of a border that is not two-way.
        """
        return self._crossed(loop, passed, self.edges.faces) if self.two_way else ()

    def nothing_passed(self) -> jax.Array | tuple[()]:
        """`passed` before the nest's first step in one of the outer grid."""
        return jnp.zeros((len(self.counted[0]), *self.lengths.shape), self.lengths.dtype) if self.two_way else ()

    def _crossed(self, loop: StepLoop, passed: Mapping[str, jax.Array], sides: Boxes) -> jax.Array:
        """(n, faces) of what is counted in the faces on the border of one of the grids."""
        found, counted = [], dict(loop.equations.counted)
        for each, at in zip(self.counted, "vu", strict=True):
            own, every = strips_at(sides, at), counted[each[0]]
            place = next(k for k in range(len(every)) if every[k : k + len(own)] == own)
            first, count = cells(every[:place]), cells(own)
            found.append(jnp.stack([passed[x.name][first : first + count] for x in each]))
        return jnp.concatenate(found, axis=1)

    # -- from the outer grid to the frame ------------------------------------------------------------------------------

    def outer_values(
        self, loop: StepLoop, carry: Carry, step: Count, passed: Mapping[str, jax.Array] | None = None
    ) -> tuple[Carry, OuterValues]:
        """(the outer grid's carry before its step number `step`, the OuterValues then).

        With what `passed` in the step before, of `StepLoop.counted_step`, they hold what passed a two-way border.
        """
        ring, faces, names = self.edges.ring, self.edges.outer_faces, [name for name, _ in self.fields]
        carry, values = loop.read(carry, names, ring.strips)
        if not self.shore_moves and not loop.equations.contents:
            flow = values * self.ring
        else:
            fields = dict(zip(names, values, strict=True))
            wet = _where_wet(loop, fields["eta"], step, ring.strips, self.ring[names.index("eta")])
            fields = _converted("shown", loop, fields, step, ring.strips)
            centres = [wet * fields[name] for name in self._names["h"]]
            moving = [wet] * self.shore_moves
            flow = jnp.stack([*centres, *moving, *(fields[name] for at in "uv" for name in self._names[at])])
        boxes = [(ring, flow)]
        if passed is not None and self.two_way:
            boxes.append((faces, self.outer_lengths[None] * self._crossed(loop, passed, faces)))
        flow, *carried = collect(boxes, self.communicator)
        return carry, OuterValues(flow, carried[0] if carried else None)

    def in_frame(self, *outer: OuterValues) -> jax.Array:
        """The outer flow at some times in the frame (times, cells), field after field.

        It is 0 on land; where the outer shore moves, fields at centres are still multiplied by m, as in OuterValues.
        """
        under = {at: ((at == "v", at == "u"), self.edges.under_ring(at)) for at in "huv"}
        fields = [under[at] for at in _positions_of_flow(self.fields, self.shore_moves)]
        return interpolate(jnp.stack([x.flow for x in outer]), self.edges.place.ratio, fields) * self.factors[None]

    @property
    def _names(self) -> dict[str, list[str]]:
        """{position: the names of the fields there}, in the order of `fields`."""
        return {at: [name for name, position in self.fields if position == at] for at in "huv"}

    def fill_frame(self, loop: StepLoop, carry: Carry, flow: jax.Array, step: Count) -> Carry:
        """The nest's carry before its step number `step`, with the outer flow at that time, of `in_frame`."""
        if self.shore_moves or loop.equations.contents:
            names, strips = self._names["h"], self.edges.frame("h").strips
            count = len(names) + self.shore_moves
            centres, flow = jnp.split(flow, [count * cells(strips)])
            centres = centres.reshape(count, -1)
            new, old = dict(zip(names, centres, strict=False)), centres
            if self.shore_moves:
                carry, old = loop.read(carry, names, strips)
                new = {name: self.wet * _quotient(x, centres[-1]) for name, x in new.items()}
                new["eta"] = self.wet * _above_bed(loop, new["eta"], step, strips)
            new = _converted("stored", loop, new, step, strips)
            if self.shore_moves:  # far from all water of the outer grid the nest keeps its own
                near = centres[-1] > LEAST
                new = {name: jnp.where(near, new[name], x) for name, x in zip(names, old, strict=True)}
            flow = jnp.concatenate([*(new[name] for name in names), flow])
        return loop.write(carry, {name: self.edges.frame(at).strips for name, at in self.fields}, flow)

    def on_nest(self, x: jax.Array, position: str, of_water: bool) -> jax.Array:
        """A field of the outer grid on the nest's tile, linear between its cells or faces.

        Args:
            x: (my, mx) of the outer tile, at `position` "h", "u" or "v".
            of_water: whether it counts in water alone, as the elevation in the frame, and is 0 on the nest's land.
        """
        mask, place, tile = self.outer_mask[position], self.edges.place, self.edges.inner
        values = cells_of(jnp.stack([x * mask, mask] if of_water else [x]), self.edges.whole.strips)
        (whole,) = collect([(self.edges.whole, values)], self.communicator)
        box = place.shape, (tile.j0, tile.i0), tile.shape
        fine = interpolate(whole, place.ratio, [((position == "v", position == "u"), [box])] * len(whole))
        fine = fine.reshape(-1, *tile.shape)
        if of_water and position == "h":
            return self.mask["h"] * jnp.where(fine[1] > LEAST, _quotient(*fine), 0.0)
        return fine[0] * (self.mask[position] if of_water else 1.0)

    # -- from the nest to the outer grid -------------------------------------------------------------------------------

    def give_back(
        self,
        outer: tuple[StepLoop, Carry, Count],
        nest: tuple[StepLoop, Carry, Count],
        after: OuterValues,
        passed: jax.Array,
    ) -> tuple[Carry, Carry]:
        """(the outer grid's carry with the nest's means in the box, and its fluxes through the border; the nest's).

        Where shores move no surface falls below the bed: an outer cell along the border that would give more water than
        it has falls dry, and the volume is then conserved to what was missing.

        Args:
            outer, nest: each grid's loop, its carry, and the number of its next step.
            after: the outer grid's values after its last step.
            passed: the sum of `self.passed` of the nest's steps in it.
        """
        (loop, carry, step), (inner, names, sums) = outer, self._sums(*nest)
        ratio, faces = self.edges.place.ratio, self.edges.faces
        carried = sums_along(self.lengths[None] * passed, faces, ratio)
        box, sides = coarse(self.edges.box, [(ratio, ratio)]), coarse(faces, 2 * [(1, ratio)] + 2 * [(ratio, 1)])
        means, carried = collect([(box, sums.reshape(len(sums), -1)), (sides, carried)], self.communicator)
        given, strips = self._given_back, self.edges.outer_box.strips
        carry, old = loop.read(carry, [*given], strips)
        new = dict(zip(names, self.edges.outer_box.of_tile(means), strict=True))
        carry = loop.write(carry, dict.fromkeys(given, strips), self._with_means(loop, step, new, old))
        return self._refluxed(loop, carry, step, cast(jax.Array, after.carried) - carried), inner

    @property
    def _given_back(self) -> dict[str, str]:
        """{name: whose mean it is: that of faces "u" or "v", wet cells "h", or "all" that can be wet}."""
        return dict(self.fields) | dict.fromkeys(self.kept, "all")

    def _with_means(self, loop, step, means, old):
        """The fields in the outer grid's box, those `covered` with the nest's means, one after the other."""
        at, equations, strips = self._given_back, loop.equations, self.edges.outer_box.strips
        covered = self.covered | {"all": self.covered["h"]}
        if (weight := means.get("weight")) is not None:
            means = {name: _quotient(x, weight) if at.get(name, "h") == "h" else x for name, x in means.items()}
            covered["h"] = jnp.where(weight > 0, covered["h"], 0.0)
        columns = [means[name] for name in means if name.startswith("column ")]
        shown: Any = converted("shown", equations.contents, means, columns) if columns else {}
        means |= shown
        means["eta"] = _above_bed(loop, means["eta"], step, strips)
        means = _converted("stored", loop, means, step, strips)
        pairs = zip(at, old, strict=True)
        return jnp.concatenate([jnp.where(covered[at[name]] > 0, means[name], x) for name, x in pairs])

    def _refluxed(self, loop, carry, step, differences):
        """The outer grid's carry with the `differences` of what both grids carried through the border (n, faces)."""
        equations, names = loop.equations, self._names["h"]
        adjacent, layers = self.edges.adjacent, len(equations.names_of_layers)
        carry, old = loop.read(carry, names, adjacent.strips)
        gained = [*(adjacent.of_tile(differences) * self.rises[None])]
        rises = [*equations.sums(gained[:layers]), *gained[layers:]]
        new = {name: x + rise for name, x, rise in zip(names, old, rises, strict=True)}
        new["eta"] = _above_bed(loop, new["eta"], step, adjacent.strips)
        if equations.film is not None:  # what falls dry holds nothing
            columns = _columns(loop, new, step, adjacent.strips)
            new |= {row.name: jnp.where(columns[n] > 0, new[row.name], 0.0) for row, _, n in equations.contents}
        return loop.write(carry, dict.fromkeys(names, adjacent.strips), jnp.concatenate([new[name] for name in names]))

    def _sums(self, loop, carry, step):
        """(the carry, names of fields, their sums (n, rows, columns)) of a nest before its step number `step`.

        They are means of eta [m], u and v [m s-1], contents of tracers and the thickness of layers with such; where
        the shore moves of the cells with water, times the share of these in the area, and that share.
        """
        (part,), ratio, strips = self.edges.box.here, self.edges.place.ratio, self.edges.box.strips
        at, moves = self._given_back, loop.equations.film is not None
        names = [*at]
        lead = part.within[0] % ratio, part.within[1] % ratio

        def blocks(corner):
            planes = tuple(_WEIGHTS[at.get(name, "h")] for name in names)
            return Blocks(corner, part.shape, ratio, lead, planes)

        if not moves and not loop.equations.contents:
            carry, sums = loop.sums(carry, names, self.means, blocks(part.at))
            return carry, names, sums
        carry, values = loop.read(carry, names, strips)
        fields = dict(zip(names, values, strict=True))
        wet = _where_wet(loop, fields["eta"], step, strips, jnp.ones_like(fields["eta"]))
        fields |= {f"column {k}": x for k, x in enumerate(_columns(loop, fields, step, strips))}
        if moves:
            fields = {name: wet * x if at.get(name, "h") == "h" else x for name, x in fields.items()} | {"weight": wet}
        names = [*fields]
        _, sums = block_sums([x.reshape(part.shape) for x in fields.values()], self.means, blocks((0, 0)))
        return carry, names, sums


_WEIGHTS = {"h": (0, (False, False)), "all": (0, (False, False)), "u": (1, (False, True)), "v": (2, (True, False))}
"""{position: (the number of its weights in `means`, whether a sum is that of the last row, or column, alone)}."""


def _positions_of_flow(fields, shore_moves):
    """Of each row of `OuterValues.flow`."""
    return "h" * shore_moves + "".join(at for _, at in fields)


def _depth(loop, step, strips):
    return cells_of(loop.equations.depth_at(Time(step)).interior, strips)


def _above_bed(loop, eta, step, strips):
    return eta if loop.equations.film is None else jnp.maximum(eta, -_depth(loop, step, strips))


def _where_wet(loop, eta, step, strips, x):
    """x, and 0 in cells of strips that have no more than a film of water before step number `step`."""
    film = loop.equations.film
    return x if film is None else jnp.where(eta + _depth(loop, step, strips) > 1.5 * film, x, 0.0)


def _columns(loop: StepLoop, fields: Mapping[str, Any], step: Count, strips: Strips) -> list[jax.Array]:
    """The thickness of each layer [m] in strips, from {name: values there}; [] where there are no tracers."""
    equations = loop.equations
    if not equations.contents:
        return []
    rest = [cells_of(x.interior, strips) for x in equations.at_rest(equations.depth_at(Time(step)))]
    excess = equations.excess([fields[eta] for *_, eta in equations.names_of_layers])
    return [a + b for a, b in zip(rest, excess, strict=True)]


def _converted(how, loop, fields, step, strips) -> dict[str, Any]:
    """{name: values in strips} with tracers "shown", as concentrations, or "stored", as contents of columns."""
    columns = _columns(loop, fields, step, strips)
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
    system = inner.system
    tracers = [(row.name, "h") for row, *_ in system.contents]
    u, v, eta = ([(name, at) for name in names] for names, at in zip(zip(*system.names_of_layers), "uvh", strict=True))
    fields = *eta, *tracers, *u, *v
    water: dict[str, Any] = {p: cells_of(mask[p], edges.frame(p).strips) for p in "huv"}
    ring, wet = cells_of(outer_mask["h"], edges.ring.strips), water["h"]
    moves = outer.film is not None
    water["h"] = np.ones_like(wet) if moves else levels_in(outer, edges, wet)
    covered = {p: coverage(inner, p, edges) * cells_of(outer_mask[p], edges.outer_box.strips) for p in "huv"}
    counts = [cells(Boxes((parts,)).strips) for parts in edges.adjacent.parts]
    signs = np.repeat([1.0, -1.0, 1.0, -1.0], counts)
    arrays: Any = (
        mask,
        outer_mask,
        np.stack([ring if at == "h" else np.ones_like(ring) for _, at in fields]),
        wet,
        np.concatenate([water[at] for at in _positions_of_flow(fields, moves)]),
        np.stack([means_in(inner, p, edges) for p in "huv"]),
        covered,
        along_border(inner.grid, edges.inner, edges.faces),
        along_border(outer.grid, edges.outer, edges.outer_faces),
        signs / along_border(outer.grid, edges.outer, edges.adjacent, area=True),
    )
    counted: Any = tuple(tuple(passages(system, at)) for at in "vu")
    both = {row.name for row in system.variables} & {row.name for row in outer.system.variables} - dict(fields).keys()
    host = Border(edges, two_way, moves, inner.communicator, fields, tuple(sorted(both)), counted, *arrays)
    return jax.tree.map(lambda x: np.asarray(x, inner.dtype), host)
