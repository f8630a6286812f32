"""A Graph as kernels of a GPU: each thread evaluates it at one cell, and intermediate values stay in its registers.

Threads of a GPU do not share registers. In one kernel, a value that several cells need is computed once at each of
them, and what it depends on as often again: the 730 operations of a coastal step become 8,000 a cell. To store a value
in an earlier kernel and to load it again moves two more numbers. Values are stored, those that save most first, until
the arithmetic takes no longer than the memory.

Blocks run in any order. So a result may overwrite only an array that is read at the result's own cell alone. The step
loop makes two steps in a call, from one set of arrays into another and back.

A step over deep water is one kernel, which reads each array once and writes each result once; a coastal one is a few,
since arithmetic would take longer than the memory does. `make gpu` counts both (docs/guide/gpus.md).
"""

import dataclasses
import functools
from collections.abc import Iterable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from .derivatives import OPERATIONS
from .expressions import Layout, Node, Strips, cells_of
from .graph import At, Constant, Graph, Unsupported
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
    return 0 if node.name == "inside" else COSTS.get(node.name, 1)  # kernels compare indices, and load no masks


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
        places = sum(_moved(ORIGIN, PITCH * row) for row, _ in _by_row(places))
    return _moved(places, PITCH * ref.row + ref.column * (axes == 2))


def _moved(places, by):
    return places << by if by >= 0 else places >> -by


def _by_row(places):
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
    return max(abs(n) for row, columns in _by_row(places) for n in (row, *columns))


WIDTH = 128  # columns of a block of cells
WARP = 32  # threads
LONG = 700  # operations of a kernel for which the registers of 512 threads do not suffice


def pallas_loop(
    *operands: jax.Array,
    graph: Graph,
    origins: Sequence[tuple[int, int]],
    aliases: Sequence[int | None],
    dtypes: Sequence[str],
    strips: Sequence[Strips | None],
    layout: Layout,
    margin: int,
    interpret: bool = False,
) -> Sequence[jax.Array]:
    """The results of a fused loop as padded arrays, zero outside the margin; the arguments are those of stencil.run."""
    if layout.batch:
        axes = [None if x.ndim in (0, 2) else 0 for x in operands]
        one = functools.partial(
            pallas_loop,
            graph=graph,
            origins=origins,
            aliases=aliases,
            dtypes=dtypes,
            strips=strips,
            margin=margin,
            layout=dataclasses.replace(layout, batch=()),
            interpret=interpret,
        )
        return jax.vmap(one, in_axes=axes)(*operands)
    arrays, places = list(operands[: len(origins)]), list(origins)
    numbers = operands[len(origins) : len(origins) + graph.scalars]
    *before, last = parts(graph)
    for part in before:
        width = margin + part.further
        wide = dataclasses.replace(layout, ghosts=max(layout.ghosts, width))
        types = [part.graph.nodes[ref.node].dtype for ref in part.graph.outputs]
        arrays += _launch(part.graph, arrays, numbers, places, wide, width, types, interpret)
        places += [wide.origin] * len(types)
    results = _launch(last.graph, arrays, numbers, places, layout, margin, dtypes, interpret, aliases)
    return [x if each is None else cells_of(layout.own(x), each) for x, each in zip(results, strips, strict=True)]


def _launch(graph, arrays, numbers, origins, layout, margin, dtypes, interpret, aliases=()):
    """The results of one kernel; result k may overwrite the array number aliases[k]."""
    graph, reads, scalars = graph.pruned
    types = [np.dtype(numbers[k].dtype) for k in scalars]
    groups = sorted(set(types), key=str)  # one array of all numbers of a type, which XLA computes in one kernel
    stacked = [jnp.stack([numbers[k] for k, t in zip(scalars, types) if t == group]) for group in groups]
    where = [(groups.index(t), types[:n].count(t)) for n, t in enumerate(types)]
    rows = _rows(graph, max(np.dtype(t).itemsize for t in dtypes))
    in_place = {
        reads.index(source): k
        for k, source in enumerate(aliases)
        if source in reads and set(graph.loads(reads.index(source))) <= {(0, 0)}
    }
    return pl.pallas_call(
        _kernel(graph, [origins[k] for k in reads], where, layout, margin, (rows, WIDTH)),
        out_shape=[jax.ShapeDtypeStruct(layout.padded, np.dtype(t)) for t in dtypes],
        grid=(pl.cdiv(layout.padded[0], rows), pl.cdiv(layout.padded[1], WIDTH)),
        input_output_aliases=in_place,
        compiler_params=triton.CompilerParams(num_warps=rows * WIDTH // WARP),
        interpret=interpret,
    )(*(arrays[k] for k in reads), *stacked)


def _rows(graph: Graph, itemsize: int) -> int:
    """The rows of a block, one thread a cell: those above and below are read from the cache, so that more are better.

    Half the threads have twice the registers each. A long kernel or one of float64 would otherwise spill them, as
    `make gpu` has counted; with two rows, too, a kernel of 814 operations spills.
    """
    operations = sum(map(len, graph.reached.values()))
    return 1 if operations > LONG else 4 // (1 + (itemsize == 8))


def _kernel(graph, origins, where, layout, margin, block):
    (ny, nx), (west, east, south, north) = layout.shape, layout.border

    def kernel(*references):
        sources, others = references[: len(origins)], references[len(origins) :]
        results = others[len(others) - len(graph.outputs) :]
        places = (pl.program_id(k) * block[k] + jnp.arange(block[k], dtype=jnp.int32) for k in range(2))
        row, column = (place - first for place, first in zip(places, layout.origin))
        known_rows, known_columns = (row >= -margin) & (row < ny + margin), (column >= -margin) & (column < nx + margin)
        known = known_rows[:, None] & known_columns[None, :]

        def load(source, down, along):
            j, i = row + (down + origins[source][0]), column + (along + origins[source][1])
            at = sources[source].at[j[:, None], jnp.zeros_like(i)[None, :] if graph.columns[source] else i[None, :]]
            return triton.load(at, mask=known, other=jnp.zeros((), sources[source].dtype))

        def within(node, down, along):
            """Whether the cells of this block are in the box of an "inside"; by rows alone if it varies with them."""
            west, east, south, north = node.parameters
            j, i = row + down, column + along
            rows = (j >= south - margin) & (j < ny + margin - north)
            columns = (i >= west - margin) & (i < nx + margin - east) if node.axes == 2 else i == i
            return rows[:, None] & columns[None, :]

        values = _evaluate(graph, load, within, lambda number: others[where[number][0]][where[number][1]])
        exists = (row < ny + north)[:, None] & (column < nx + east)[None, :]
        for value, result in zip(values, results):
            value = jnp.broadcast_to(value, known.shape).astype(result.dtype)
            value = jnp.where(known, value, jnp.zeros_like(value))
            triton.store(result.at[(row + south)[:, None], (column + west)[None, :]], value, mask=exists)

    return kernel


def _evaluate(graph, load, within, scalar):
    """The values of a Graph's results, blocks or numbers."""
    known = {}

    def value(ref, row, column):
        if isinstance(ref, Constant):
            return ref.value
        node = graph.nodes[ref.node]
        at = (row + ref.row) * (node.axes >= 1), (column + ref.column) * (node.axes == 2)
        if (ref.node, *at) not in known:
            known[ref.node, *at] = made(node, *at)
        return known[ref.node, *at]

    def made(node, row, column):
        if node.name == "load":
            return load(*node.parameters, row, column)
        if node.name == "scalar":
            return scalar(*node.parameters)
        arguments = [value(a, row, column) for a in node.arguments]
        if node.name in ("convert_element_type", "constant"):
            return jnp.asarray(arguments[0]).astype(node.dtype)
        if node.name == "integer_pow":
            return lax.integer_pow(arguments[0], node.parameters[0])
        if node.name == "inside":
            return jnp.where(within(node, row, column), arguments[0], jnp.zeros((), node.dtype))
        if node.name not in OPERATIONS:
            raise Unsupported(f"{node.name!r} on a GPU")
        return OPERATIONS[node.name](*_alike(arguments, node))

    return [value(ref, 0, 0) for ref in graph.outputs]


def _alike(arguments, op):
    """Numbers and blocks as arrays of one shape; a condition keeps its type."""
    shape = max((jnp.shape(a) for a in arguments), key=len)
    known = [a.dtype for a in arguments if hasattr(a, "dtype") and a.dtype != bool]
    dtype = known[0] if known else op.dtype

    def like(a):
        array = a if hasattr(a, "dtype") else jnp.asarray(a, dtype)
        return jnp.broadcast_to(array, shape)

    return [like(a) for a in arguments]
