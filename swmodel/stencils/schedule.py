"""The order in which the rows of a Graph are computed: the values that are kept from row to row, and the passes.

A node that several cells need, and that costs more than a load, is computed once and kept in a few rolling rows, which
stay in the cache. For row j of the results, each kept node is computed at row j + lead, before the nodes that need it
there. Nodes that do not need each other at other columns of the same row are computed in one pass along it. Nodes that
are not kept are computed wherever they are needed.

Masks are stored as bytes, which saves memory traffic. A first pass converts their rows to floats: in a loop over mixed
types, a compiler makes as many cells at a time as a vector has bytes, for which there are not enough registers.
"""

import dataclasses
import functools

from .expressions import whole_vectors
from .graph import At, Constant, Graph

ROUNDS = 4
DEAR = 4  # operations of a node that no two passes compute
COSTS = {
    "load": 0, "inside": 0, "constant": 0, "convert_element_type": 0, "div": 4, "sqrt": 4, "rsqrt": 6, "cbrt": 25,
    "exp": 20, "log": 20, "tanh": 20, "sin": 20, "cos": 20, "pow": 30,
}  # fmt: skip


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
class Pass:
    """Nodes that are computed together along a row; the last pass computes the results, too.

    Attributes:
        nodes: the numbers of the nodes.
        left, right: the numbers of cells beyond those of the results that it computes.
        early: the number of rows before the first row of results with which it begins.
        ahead: where a row is computed block by block, the number of cells by which the pass precedes the results. It is
            a multiple of the vector length, so that kept rows are read and written where vectors begin.
    """

    nodes: tuple
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
        reads: for each source, {(pass, row, column)} at which it is read, with rows counted from the row of results.
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
        rows = [(row - self.passes[p].early, row) for p, row, _ in self.reads[source]]
        return (min(r[0] for r in rows), max(r[1] for r in rows)) if rows else (0, 0)

    def must_wait(self, source: int) -> bool:
        """Whether a row of results that overwrites this source is needed once more after it was computed."""
        last = len(self.passes) - 1
        return any(
            row < 0 or (row == 0 and column + (self.passes[p].right if p != last else 0) < 0)
            for p, row, column in self.reads[source]
        )


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
        passes.append(Pass(tuple(groups[k]), left, right, early, ahead))
    reads = [set() for _ in graph.columns]
    for k, wanted in enumerate(used):
        for n, row, column in wanted:
            if graph.nodes[n].name == "load":
                reads[graph.nodes[n].parameters[0]].add((k, row, column))
    return Schedule(kept, tuple(passes[::-1]), tuple(map(frozenset, reads)))


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
        for n in _computed(graph, kept, graph.outputs if number is None else graph.arguments(number)):
            passes.setdefault(n, set()).add(level)
    several = (n for n, levels in passes.items() if len(levels) > 1)
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
    return {at for at in _visited(graph, kept, refs, lead) if at[0] in kept or graph.nodes[at[0]].name == "load"}


def _computed(graph, kept, refs):
    """The nodes that are computed on the way to `refs`, without those that are kept."""
    return {n for n, *_ in _visited(graph, kept, refs, 0) if n not in kept}


def _visited(graph, kept, refs, lead):
    """{(node, row, column)} of what is read or computed for `refs` at row `lead`."""
    visited, left = set(), [(ref, lead, 0) for ref in refs]
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


# -- which reorderings are safe: rounded comparisons, and NaN ----------------------------------------------------------

COMPARISONS = ("gt", "lt", "ge", "le", "eq", "ne", "sign", "floor")
EXACT = ("load", "scalar", "constant", "convert_element_type", "stop_gradient", "inside", "neg", "abs", "max", "min",
         "select_n")  # fmt: skip
WHOLE = ("constant", "convert_element_type", "stop_gradient", "inside", "neg", "abs", "max", "min", "select_n", "add",
         "sub", "mul")  # fmt: skip
CARRIES_NAN = ("add", "sub", "mul", "neg", "max", "min")
DEEPEST = 6  # the number of operations through which NaN is followed


@functools.lru_cache(maxsize=256)
def compares_rounded(graph: Graph) -> bool:
    """Whether a comparison, on which results depend, has an argument that was rounded.

    An order of operations other than the written one may then change which branch is taken: (a - b) + b > a.
    """
    whole, exact = set(), set()  # nodes whose values are small integers; nodes whose values were never rounded
    for number, node in enumerate(graph.nodes):
        arguments = node.arguments
        if node.name in COMPARISONS and not all(_is_in(exact, a) for a in arguments):
            return True
        is_float = node.dtype.startswith("float")
        if not is_float or (node.name in WHOLE and all(_is_in(whole, a) and _is_whole(a) for a in arguments)):
            whole.add(number)
        if number in whole or (node.name in EXACT and all(_is_in(exact, a) for a in arguments)):
            exact.add(number)
    return False


def _is_in(nodes, argument):
    """Whether an argument is a constant or one of some nodes."""
    return isinstance(argument, Constant) or argument.node in nodes


def _is_whole(argument):
    return not isinstance(argument, Constant) or float(argument.value).is_integer()


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
