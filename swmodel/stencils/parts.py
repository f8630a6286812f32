"""A Graph as a few Graphs, one kernel each: the earlier ones store values that the later ones load.

Threads of a GPU do not share registers. In one kernel, a value that several cells need is computed once at each of
them, and what it depends on as often again: the 730 operations of a coastal step become 8,000 a cell. To store a value
in an earlier kernel and to load it again moves two more numbers. Values are stored, those that save most first, until
the arithmetic takes no longer than the memory.
"""

import dataclasses
import functools
import heapq
from collections.abc import Iterable

from .graph import At, Graph
from .nodes import Node
from .schedule import COSTS

__all__ = ["Part", "parts"]

OPERATIONS_A_NUMBER = 40  # that an H100 computes while it moves a number, in float32 and in float64
MOST_PARTS = 4

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
    arithmetic, numbers = _work(graph, stored)
    if arithmetic <= OPERATIONS_A_NUMBER * numbers:
        return stored
    usable = (n for n, places in graph.reached.items() if len(places) > 1 and _is_storable(graph.nodes[n]))
    gains = [(-arithmetic, n) for n in usable]  # no more than the arithmetic of now, until they are known
    while gains and arithmetic > OPERATIONS_A_NUMBER * numbers:
        _, n = heapq.heappop(gains)
        if len(_kernels(graph, stored | {n})) > MOST_PARTS:
            continue
        less, more = _work(graph, stored | {n})
        if gains and less - arithmetic > gains[0][0]:  # another one may save more
            heapq.heappush(gains, (less - arithmetic, n))
        elif arithmetic - less <= OPERATIONS_A_NUMBER * (more - numbers):
            break
        else:
            stored.add(n)
            arithmetic, numbers = less, more
    return stored


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


def _work(graph, stored):
    """(operations, numbers loaded and stored) at each cell of all kernels."""
    arithmetic = numbers = 0
    for outputs in _kernels(graph, stored):
        numbers += len(outputs)
        for n, places in _places(graph, outputs, stored.difference(ref.node for ref in outputs)).items():
            node = graph.nodes[n]
            loaded = n in stored or node.name == "load"
            numbers += loaded and node.axes == 2
            arithmetic += len(places) * (1 if loaded else COSTS.get(node.name, 1))
    return arithmetic, numbers


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
