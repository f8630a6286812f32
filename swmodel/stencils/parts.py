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

OPERATIONS_A_NUMBER = 40  # that an H100 computes while it moves a number, in float32 and in float64
MOST_PARTS = 8
TOGETHER = 8  # nodes whose storing is tried before the best of them is chosen
MOST_TRIED = 96  # nodes, before none is chosen

PITCH = 64  # bits of a row in a set of (row, column) offsets, which is an int: unions and shifts are then fast
ORIGIN = 1 << (PITCH // 2 * (PITCH + 1))  # the set of (0, 0)


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
                farthest[n] = max(farthest[n], further + _farthest(places))
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
        promising = _promising(graph, stored, work)
        for first in range(0, len(promising), TOGETHER):
            works = {n: _work(graph, stored | {n}) for n in promising[first : first + TOGETHER]}
            chosen = min(works, key=lambda n: works[n].arithmetic)
            gain = work.arithmetic - works[chosen].arithmetic
            if gain > OPERATIONS_A_NUMBER * (works[chosen].numbers - work.numbers):
                break
        else:
            break
        stored.add(chosen)
        work = works[chosen]
    return stored


def _promising(graph, stored, work):
    """MOST_TRIED nodes that may be stored, first those of many operations that are repeated at many places."""
    kinds: dict[int, int] = {}  # {cost: the set of nodes with it, an int}
    for number, node in enumerate(graph.nodes):
        kinds[_cost(node)] = kinds.get(_cost(node), 0) | 1 << number
    below, costs = [], []
    for number in range(len(graph.nodes)):
        nodes = 0 if number in stored else 1 << number
        for ref in graph.arguments(number) if nodes else ():
            nodes |= below[ref.node]
        below.append(nodes)
        costs.append(sum(cost * (nodes & alike).bit_count() for cost, alike in kinds.items()))
    repeated = {n: places.bit_count() - 1 for n, places in work.places.items() if _is_storable(graph.nodes[n])}
    first = sorted(repeated.keys() - stored, key=lambda n: repeated[n] * costs[n], reverse=True)[:MOST_TRIED]
    return [n for n in first if len(_kernels(graph, stored | {n})) <= MOST_PARTS]


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
        places: {node: the set of offsets at which it is computed}, of the kernel that needs it at most.
    """

    arithmetic: int
    numbers: int
    places: dict[int, int]

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
            arithmetic += here.bit_count() * (1 if loaded else _cost(graph.nodes[n]))
            places[n] = max(places.get(n, 0), here, key=int.bit_count)
    return Work(arithmetic, numbers, places)


def _cost(node):
    return COSTS.get(node.name, 1)


def _places(graph: Graph, outputs: Iterable[At], loaded: set[int]) -> dict[int, int]:
    """{node: the set of offsets at which it is needed for `outputs`}; what `loaded` nodes depend on is not."""
    places: dict[int, int] = {}
    for ref in outputs:
        places[ref.node] = places.get(ref.node, 0) | _shifted(ORIGIN, ref, 2)
    for number in range(max(places), -1, -1):
        for ref in graph.arguments(number) if number in places and number not in loaded else ():
            needed = _shifted(places[number], ref, graph.nodes[ref.node].axes)
            places[ref.node] = places.get(ref.node, 0) | needed
    return places


def _shifted(places, ref, axes):
    """Where a node with so many axes is needed by one that is needed at `places` and refers to it by `ref`."""
    if axes == 0:
        return ORIGIN
    if axes == 1:
        places = sum(_moved(ORIGIN, PITCH * row) for row, _ in _rows(places))
    return _moved(places, PITCH * ref.row + ref.column * (axes == 2))


def _moved(places, by):
    return places << by if by >= 0 else places >> -by


def _rows(places):
    """[(row offset, its least and its largest column offset)] of a set of offsets."""
    rows = []
    while places:
        lowest = (places & -places).bit_length() - 1
        end = (lowest // PITCH + 1) * PITCH
        highest = (places & ((1 << end) - 1)).bit_length() - 1
        columns = lowest % PITCH - PITCH // 2, highest % PITCH - PITCH // 2
        rows.append((lowest // PITCH - PITCH // 2, columns))
        places = places >> end << end
    return rows


def _farthest(places):
    """The largest offset, of a row or a column."""
    return max(abs(n) for row, columns in _rows(places) for n in (row, *columns))
