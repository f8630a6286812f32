"""A Graph as a few Graphs, one kernel each: the earlier ones store values that the later ones load.

Threads of a GPU do not share registers. In one kernel, a value that several cells need is computed once at each of
them, and what it depends on as often again: the 730 operations of a coastal step become 8,000 a cell. To store a value
in an earlier kernel and to load it again moves two more numbers. Values are stored, those that save most first, until
the arithmetic takes no longer than the memory.
"""

import dataclasses
import functools
from collections.abc import Iterable

from .graph import At, Graph
from .nodes import Node
from .schedule import COSTS

__all__ = ["Part", "parts"]

OPERATIONS_A_NUMBER = 40  # that an H100 computes while it moves a number, in float32 and in float64
MOST_PARTS = 4
MOST_TRIED = 8  # nodes whose storing is tried before one is chosen

Places = dict[int, set[tuple[int, int]]]  # {node: the (row, column) offsets at which it is needed}


@dataclasses.dataclass(frozen=True)
class Part:
    """A Graph that is one kernel.

    Attributes:
        graph: its sources are those of the whole Graph, and after them the values stored by earlier Parts, in order.
        further: the number of cells that it computes beyond the region of the whole Graph, on each side.
    """

    graph: Graph
    further: int


@functools.lru_cache(maxsize=256)
def parts(graph: Graph) -> tuple[Part, ...]:
    """The Parts of a Graph, in order: all but the last store their outputs, and those of the last are the results."""
    kernels = _kernels(graph, _stored(graph))
    order = [ref.node for outputs in kernels[:-1] for ref in outputs]
    sources = {n: len(graph.columns) + k for k, n in enumerate(order)}
    result, further, farthest = [], 0, dict.fromkeys(order, 0)
    for outputs in reversed(kernels):
        if outputs is not kernels[-1]:
            further = max(farthest[ref.node] for ref in outputs)
        before = set(order[: order.index(outputs[0].node)] if outputs is not kernels[-1] else order)
        for n, places in _places(graph, outputs, before).items():
            if n in before:
                farthest[n] = max(farthest[n], further + max(max(abs(j), abs(i)) for j, i in places))
        result.insert(0, Part(_loading(graph, outputs, {n: sources[n] for n in before}, len(order), further), further))
    return tuple(result)


def _loading(graph, outputs, sources, stored, further):
    """The Graph of `outputs` that loads the nodes in `sources`, {node: source}, and computes `further` cells more."""
    nodes = list(graph.nodes)
    for number, node in enumerate(nodes):
        if number in sources:
            load = (sources[number],)
            nodes[number] = Node("load", (), node.dtype, load, node.axes, node.line, f"stored value {number}")
        elif node.name == "inside":
            nodes[number] = dataclasses.replace(node, parameters=tuple(width + further for width in node.parameters))
    names = graph.names if outputs == graph.outputs else ()
    columns = (*graph.columns, *[False] * stored)
    return Graph(tuple(nodes), tuple(outputs), columns, graph.scalars, names).trimmed()


def _stored(graph):
    """The nodes whose values are stored: while arithmetic takes longer than memory, the one that saves most."""
    stored: set[int] = set()
    work = _work(graph, stored)
    while not work.is_hidden:
        best, chosen = work, None
        for n in _promising(graph, stored, work):
            other = _work(graph, stored | {n})
            if other.arithmetic < best.arithmetic and len(_kernels(graph, stored | {n})) <= MOST_PARTS:
                best, chosen = other, n
        gain = work.arithmetic - best.arithmetic
        if gain <= OPERATIONS_A_NUMBER * (best.numbers - work.numbers):
            break
        stored.add(chosen)  # pyright: ignore[reportArgumentType]
        work = best
    return stored


def _promising(graph, stored, work):
    """The MOST_TRIED nodes with the largest product of the operations that they need and the times of repetition."""
    below, costs = [], []
    for number in range(len(graph.nodes)):
        nodes = set() if number in stored else {number}.union(*(below[ref.node] for ref in graph.arguments(number)))
        below.append(nodes)
        costs.append(sum(_cost(graph.nodes[n]) for n in nodes))
    repeated = {n: len(places) - 1 for n, places in work.places.items() if _is_storable(graph.nodes[n])}
    return sorted(repeated.keys() - stored, key=lambda n: repeated[n] * costs[n])[-MOST_TRIED:]


def _is_storable(node):
    return node.axes == 2 and node.dtype.startswith("float") and node.name not in ("load", "constant", "inside")


def _kernels(graph, stored):
    """The outputs of each kernel: stored nodes by the number of stored ones that precede them, and the results last."""
    depth, groups = [], {}
    for number in range(len(graph.nodes)):
        deepest = max((depth[ref.node] for ref in graph.arguments(number)), default=0)
        if number in stored:
            groups.setdefault(deepest, []).append(At(number))
        depth.append(deepest + (number in stored))
    return [*(tuple(groups[level]) for level in sorted(groups)), graph.outputs]


@dataclasses.dataclass(frozen=True)
class Work:
    """What all kernels do at each cell.

    Attributes:
        arithmetic: operations.
        numbers: loaded and stored.
        places: where each node is computed, of the kernel that needs it at most places.
    """

    arithmetic: int
    numbers: int
    places: Places

    @property
    def is_hidden(self) -> bool:
        """Whether the arithmetic takes no longer than the memory."""
        return self.arithmetic <= OPERATIONS_A_NUMBER * self.numbers


def _work(graph, stored):
    """The Work of the kernels of a Graph."""
    arithmetic, numbers, places = 0, 0, {}
    for outputs in _kernels(graph, stored):
        numbers += len(outputs)
        for n, here in _places(graph, outputs, stored.difference(ref.node for ref in outputs)).items():
            loaded = n in stored or graph.nodes[n].name == "load"
            numbers += loaded and graph.nodes[n].axes == 2
            arithmetic += len(here) * (1 if loaded else _cost(graph.nodes[n]))
            places[n] = max(places.get(n, set()), here, key=len)
    return Work(arithmetic, numbers, places)


def _cost(node):
    return COSTS.get(node.name, 1)


def _places(graph: Graph, outputs: Iterable[At], loaded: set[int]) -> Places:
    """Where nodes are needed for `outputs`; what `loaded` nodes depend on is not."""
    found: Places = {}
    for ref in outputs:
        found.setdefault(ref.node, set()).add((ref.row, ref.column))
    for number in range(max(found), -1, -1):
        for ref in graph.arguments(number) if number in found and number not in loaded else ():
            down, along = graph.nodes[ref.node].axes >= 1, graph.nodes[ref.node].axes == 2
            places = {((j + ref.row) * down, (i + ref.column) * along) for j, i in found[number]}
            found.setdefault(ref.node, set()).update(places)
    return found
