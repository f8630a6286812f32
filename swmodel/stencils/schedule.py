"""The order in which the rows of a Graph are computed: the values that are kept from row to row, and the passes.

A node that several cells need, and that costs more than a load, is computed once and kept in a few rolling rows, which
stay in the cache. For row j of the results, each kept node is computed at row j + lead, before the nodes that need it
there. Nodes that do not need each other at other columns of the same row are computed in one pass along it. Nodes that
are not kept are computed wherever they are needed.

A processor has few registers for addresses: a loop that reads many rows fetches addresses from memory for each vector.
A pass is divided where that costs more than what several loops compute instead, as between the layers of an ocean.

Masks are stored as bytes, which saves memory traffic. A first pass converts their rows to floats: in a loop over mixed
types, a compiler makes as many cells at a time as a vector has bytes, for which there are not enough registers.
"""

import dataclasses
import functools
import graphlib
import itertools

from .expressions import whole_vectors
from .graph import At, Constant, Graph

ROUNDS = 4
DEAR = 4  # operations of a node that no two passes compute
COSTS = {
    "load": 0, "inside": 2, "constant": 0, "convert_element_type": 0, "div": 4, "sqrt": 4, "rsqrt": 6, "cbrt": 25,
    "exp": 20, "log": 20, "tanh": 20, "sin": 20, "cos": 20, "pow": 30,
}  # fmt: skip
ROWS = 13  # whose addresses a loop has in registers
ADDRESS = 2  # operations that it takes to fetch another one
START = 2  # operations for each cell that a loop takes to start


@dataclasses.dataclass(frozen=True)
class Kept:
    """A node whose values are kept.

    Attributes:
        lead: the newest row, counted from the row of results.
        rows: the number of rows that are kept at a time.
    """

    lead: int
    rows: int


@dataclasses.dataclass(frozen=True)
class Loop:
    """Kept nodes and results, by number, that one loop over the columns of a row stores."""

    nodes: tuple[int, ...]
    results: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Pass:
    """Nodes that are computed together along a row; the last pass computes the results, too.

    Attributes:
        loops: the Loops that compute them, in order.
        left, right: the numbers of cells beyond those of the results that it computes.
        early: the number of rows before the first row of results with which it begins.
        ahead: where a row is computed block by block, the number of cells by which the pass precedes the results. It is
            a multiple of the vector length, so that kept rows are read and written where vectors begin.
    """

    loops: tuple[Loop, ...]
    left: int
    right: int
    early: int
    ahead: int


@dataclasses.dataclass(frozen=True)
class Schedule:
    """The schedule of a Graph.

    Attributes:
        kept: {node: Kept}.
        passes: Passes, in order.
        reads: for each source, {((pass, loop), row, column)} at which it is read; results are in row 0.
    """

    kept: dict
    passes: tuple
    reads: tuple

    @property
    def early(self) -> int:
        """How many rows before the first row of results the passes begin, to fill the rolling rows."""
        return max(p.early for p in self.passes)

    def rows_ahead(self, source: int) -> tuple[int, int]:
        """(first, last) row that is read, from the results' row, in one round of all passes."""
        rows = [row for _, row, _ in self.reads[source]]
        return (min(rows), max(rows)) if rows else (0, 0)

    def rows_in_all(self, source: int) -> tuple[int, int]:
        """(first, last) row that is read for one row of results, early rounds included."""
        rows = [(row - self.passes[p].early, row) for (p, _), row, _ in self.reads[source]]
        return (min(r[0] for r in rows), max(r[1] for r in rows)) if rows else (0, 0)

    def must_wait(self, source: int, result: int) -> bool:
        """Whether a row of a result that overwrites this source is needed once more after it was computed."""
        last = len(self.passes) - 1
        here = next((last, k) for k, loop in enumerate(self.passes[last].loops) if result in loop.results)
        for loop, row, column in self.reads[source]:
            beyond = self.passes[loop[0]].right if loop[0] != last else 0
            if row < 0 or (row == 0 and (loop > here or column + beyond < 0)):
                return True
        return False


@functools.lru_cache(maxsize=256)
def schedule(graph: Graph) -> Schedule:
    """The Schedule of a Graph."""
    kept = _chosen(graph, set())
    kept = _chosen(graph, _dear_in_several_passes(graph, kept))
    uses, levels = _uses_and_levels(graph, kept)
    groups = [sorted(n for n in kept if levels[n] == level) for level in range(levels[None] + 1)]
    used = [set().union(*(uses[n] for n in group)) for group in groups]
    used[-1] |= uses[None]
    beyond = _beyond(kept, uses)
    passes: list[Pass] = []
    for k in range(len(groups) - 1, -1, -1):
        ahead = 0
        for user, wanted in zip(passes, used[:k:-1]):
            columns = (column for n, _, column in wanted if n in groups[k])
            ahead = max([ahead, *(user.ahead + whole_vectors(max(column, 0)) for column in columns)])
        left, right, early = (max((beyond[n][side] for n in groups[k]), default=0) for side in range(3))
        loops = _loops(graph, kept, groups[k], range(len(graph.outputs)) if k == len(groups) - 1 else ())
        passes.append(Pass(loops, left, right, early, ahead))
    passes.reverse()
    reads = [set() for _ in graph.columns]
    for k, each in enumerate(passes):
        for number, loop in enumerate(each.loops):
            refs = [(a, kept[n].lead) for n in loop.nodes for a in graph.arguments(n)]
            for n, row, column in _visited(graph, kept, [*refs, *((graph.outputs[r], 0) for r in loop.results)]):
                if graph.nodes[n].name == "load":
                    reads[graph.nodes[n].parameters[0]].add(((k, number), row, column))
    return Schedule(kept, tuple(passes), tuple(map(frozenset, reads)))


@dataclasses.dataclass(frozen=True)
class _Share:
    """What a loop does for each cell, as sets of bits.

    Attributes:
        items: kept nodes, and results as negative numbers.
        work: a bit for each operation, also for each load and store. loads: those that are loads or stores.
        rows: a bit for each row that is read or written.
        needs: items of the pass whose values are loaded unless they are its own.
    """

    items: frozenset[int]
    work: int
    loads: int
    rows: int
    needs: frozenset[int]

    def __or__(self, other: "_Share") -> "_Share":
        return _Share(*(a | b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))

    def cost(self, other: "_Share") -> float:
        """The operations of a loop that does what both do."""
        rows = (self.rows | other.rows).bit_count()
        accesses = (self.loads | other.loads).bit_count()
        return (self.work | other.work).bit_count() + ADDRESS * accesses * max(0, rows - ROWS) / rows


def _loops(graph, kept, nodes, results):
    """The Loops of a pass that stores these nodes and results: one each, of which pairs are merged while that saves."""
    ends, bits = {"work": 0, "rows": 0}, {}

    def bits_of(kind, *key, count=1):
        """`count` bits that stand for this key alone."""
        if key not in bits:
            bits[key] = ((1 << count) - 1) << ends[kind]
            ends[kind] += count
        return bits[key]

    def share(item):
        refs, lead = ([graph.outputs[~item]], 0) if item < 0 else (graph.arguments(item), kept[item].lead)
        work = loads = bits_of("work", item, lead, 0)  # the store, which a load of its value shares
        rows, needs = bits_of("rows", item, lead), set()
        for n, row, column in _visited(graph, kept, [(ref, lead) for ref in refs]):
            node = graph.nodes[n]
            is_load = n in kept or node.name == "load"
            if node.axes == 2:
                found = bits_of("work", n, row, column, count=1 if is_load else COSTS.get(node.name, 1))
                work |= found
                loads |= found * is_load
                rows |= bits_of("rows", n, row) * is_load
                needs |= {n} & {*nodes}
        return _Share(frozenset([item]), work, loads, rows, frozenset(needs))

    shares = {item: share(item) for item in (*nodes, *(~r for r in results))}
    gains = {pair: _gain(shares, *pair) for pair in itertools.combinations(shares, 2)}
    while (pair := _best(shares, gains)) is not None:
        a, b = pair
        shares[a] |= shares.pop(b)
        gains = {pair: gain for pair, gain in gains.items() if not {a, b} & {*pair}}
        gains |= {(a, other): _gain(shares, a, other) for other in shares if other != a}
    chosen = [sorted(x.items) for x in _order(shares.values()) or ()]
    return tuple(Loop(tuple(n for n in each if n >= 0), tuple(~n for n in each[::-1] if n < 0)) for each in chosen)


def _gain(shares, a, b):
    """What is saved if one loop does what two do."""
    one, other = shares[a], shares[b]
    return one.cost(one) + other.cost(other) + START - one.cost(other)


def _best(shares, gains):
    """The pair that saves most and leaves an order, None if none saves anything."""
    for pair in sorted(gains, key=gains.__getitem__, reverse=True):
        others = (x for item, x in shares.items() if item not in pair)
        if gains[pair] > 0 and _order([shares[pair[0]] | shares[pair[1]], *others]) is not None:
            return pair
    return None


def _order(shares):
    """The same in an order in which each needs what comes before; None if there is none."""
    of = {n: x for x in shares for n in x.items}
    try:
        return [*graphlib.TopologicalSorter({x: {of[n] for n in x.needs} - {x} for x in shares}).static_order()]
    except graphlib.CycleError:
        return None


def _beyond(kept, uses):
    """{node: (cells to the left, to the right, rows before) of those of the results at which it is needed}."""
    beyond: dict[int | None, tuple[int, ...]] = {n: (0, 0, 0) for n in (*kept, None)}
    for user in (None, *sorted(kept, reverse=True)):
        for n, row, column in uses[user]:
            if n in kept:
                further = -column, column, kept[n].lead - row
                beyond[n] = tuple(max(old, a + b) for old, a, b in zip(beyond[n], beyond[user], further))
    return beyond


def _chosen(graph, dear) -> dict:
    """{node: Kept} of `dear` and nodes worth keeping, arguments first, by iteration, since choices depend on others."""
    kept = None
    for _ in range(ROUNDS):
        kept, before = _kept_if(graph, _estimates(graph, kept), dear), kept
        if kept == before:
            break
    return kept or {}


def _dear_in_several_passes(graph, kept):
    """The quotients, roots and functions that more than one pass computes, each at one place."""
    uses, levels = _uses_and_levels(graph, kept)
    passes: dict[int, set[int]] = {}
    for number, level in levels.items():
        refs = graph.outputs if number is None else graph.arguments(number)
        for n, *_ in _visited(graph, kept, [(ref, 0) for ref in refs]):
            passes.setdefault(n, set()).add(level)
    several = (n for n, levels in passes.items() if len(levels) > 1 and n not in kept)
    return {n for n in several if graph.nodes[n].axes == 2 and COSTS.get(graph.nodes[n].name, 0) >= DEAR}


def _kept_if(graph, estimates, dear):
    """{node: Kept} with `dear`, given estimates of the operations that it takes to compute each node again."""
    needed, kept = {}, {}

    def need(refs, places):
        for ref in refs:
            down, along = graph.nodes[ref.node].axes >= 1, graph.nodes[ref.node].axes == 2
            found = {((j + ref.row) * down, (i + ref.column) * along) for j, i in places}
            needed.setdefault(ref.node, set()).update(found)

    need(graph.outputs, {(0, 0)})
    for number in range(len(graph.nodes) - 1, -1, -1):
        places = needed[number]
        if number in dear or _is_worth_keeping(graph, number, estimates[number], len(places)):
            rows = [row for row, _ in places]
            kept[number] = Kept(max(rows), max(rows) - min(rows) + 1)
            places = {(max(rows), 0)}
        need(graph.arguments(number), places)
    return dict(sorted(kept.items()))


def _is_worth_keeping(graph, number, estimate, places):
    node = graph.nodes[number]
    if _is_widened(graph, number):
        return True
    if node.axes < 2 or node.dtype == "bool" or node.name == "load" or places < 2:
        return False
    return (places - 1) * estimate > places  # operations saved, and loads added


def _is_widened(graph, number):
    """Whether a node converts bytes that are loaded to a wider type."""
    node = graph.nodes[number]
    if node.axes < 2 or node.name != "convert_element_type" or not node.dtype.startswith("float"):
        return False
    (loaded,) = (graph.nodes[a.node] for a in graph.arguments(number))
    return loaded.name == "load" and loaded.dtype == "uint8"


def _estimates(graph, kept):
    """The operations that it takes to compute each node again, if arguments in `kept` are kept.

    With None, those arguments are kept of which each use at another offset costs more than a load.
    """
    offsets = {}
    for number in range(len(graph.nodes)):
        for ref in graph.arguments(number):
            offsets.setdefault(ref.node, set()).add((ref.row, ref.column))
    estimates = []

    def is_kept(n):
        return n in kept if kept is not None else _is_worth_keeping(graph, n, estimates[n], len(offsets[n]))

    for number, node in enumerate(graph.nodes):
        inner = {ref: estimates[ref.node] for ref in graph.arguments(number) if not is_kept(ref.node)}
        estimates.append(COSTS.get(node.name, 1) * (node.axes == 2) + sum(inner.values()))
    return estimates


def _uses_and_levels(graph, kept):
    """({node: its `_uses`}, `_levels`); the results have the key None."""
    uses = {n: _uses(graph, kept, graph.arguments(n), kept[n].lead) for n in kept}
    uses[None] = _uses(graph, kept, graph.outputs, 0)
    return uses, _levels(graph, kept, uses)


def _uses(graph, kept, refs, lead):
    """{(node, row, column)} of the kept nodes and loads that are read to compute `refs` at row `lead`."""
    read = _visited(graph, kept, [(ref, lead) for ref in refs])
    return {at for at in read if at[0] in kept or graph.nodes[at[0]].name == "load"}


def _visited(graph, kept, refs):
    """{(node, row, column)} of what is read or computed for `refs`, [(At, row), ...]."""
    visited, left = set(), [(ref, lead, 0) for ref, lead in refs]
    while left:
        ref, row, column = left.pop()
        node = graph.nodes[ref.node]
        at = ref.node, (row + ref.row) * (node.axes >= 1), (column + ref.column) * (node.axes == 2)
        if at not in visited:
            visited.add(at)
            left += [] if ref.node in kept else [(a, *at[1:]) for a in graph.arguments(ref.node)]
    return visited


def _levels(graph, kept, uses):
    """{node: number of its pass}, None for the results. A node shares a pass with those it needs at its own cell."""
    widened = {n for n in kept if _is_widened(graph, n)}
    first = 1 if widened else 0  # they have pass 0 to themselves
    levels = dict.fromkeys(widened, 0)
    for number in [*(n for n in kept if n not in widened), None]:
        places = {}
        for n, row, column in uses[number]:
            if n in kept:
                places.setdefault(n, set()).add((row, column))
        before = (levels[n] + (n in widened or at != {(kept[n].lead, 0)}) for n, at in places.items())
        levels[number] = max(before, default=first)
    levels[None] = max(levels.values())
    return levels


# -- what is NaN -------------------------------------------------------------------------------------------------------

CARRIES_NAN = ("add", "sub", "mul", "neg", "max", "min")
DEEPEST = 6  # the number of operations through which NaN is followed


def is_nan_with(graph: Graph, ref: At, other: At) -> bool:
    """Whether `ref` is always NaN where `other` is; False where that does not follow from sums and products."""
    return _unscaled(graph, other) in _nan_if(graph, ref, DEEPEST)


def _unscaled(graph, ref):
    """The value that is NaN if `ref` is: `ref` without the constants that multiply it."""
    node = graph.nodes[ref.node]
    while node.name in ("mul", "neg"):
        inner = [a for a in node.arguments if isinstance(a, At)]
        if len(inner) != 1 or not all(a.value for a in node.arguments if isinstance(a, Constant)):
            break
        ref = _moved(inner[0], ref)
        node = graph.nodes[ref.node]
    return ref


def _nan_if(graph, ref, depth):
    """Values that make `ref` NaN if one of them is NaN, at most `depth` operations away."""
    found = {ref}
    if depth and graph.nodes[ref.node].name in CARRIES_NAN:
        for a in graph.arguments(ref.node):
            found |= _nan_if(graph, _moved(a, ref), depth - 1)
    return found


def _moved(argument, ref):
    """An argument of the node of `ref`, counted from where `ref` is."""
    return At(argument.node, argument.row + ref.row, argument.column + ref.column)
