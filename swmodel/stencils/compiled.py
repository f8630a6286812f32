"""The call of a compiled loop with its plan, the integers that the C++ runtime reads (native/library.py).

`loops_in` finds the loops of a program. `graph_text`, `reads`, `cost` and `loop_title` show a loop to a reader. If the
environment variable SWMODEL_KEEP_SOURCE names a folder, the C++ source of each loop is written there before it is
compiled. Each statement has a comment, and the graph is at the end.
"""

import contextlib
import dataclasses
import functools
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr

from ..errors import ConfigError
from ..runtime.cache import digest
from ..runtime.paths import replacing
from .expressions import Layout, Strips
from .graph import At, Constant, Graph
from .native.library import (
    LOADING,
    TARGET,
    LoopPlan,
    ResultPlan,
    ScalarPlan,
    SourcePlan,
    StripPlan,
    When,
    load_meanwhile,
    loop_name,
    numbers,
)
from .schedule import schedule
from .source import c_source, operations


def compile_loop(graph: Graph, dtypes: tuple) -> str:
    """Compile the loop of a Graph, or find it compiled, and return its name in the runtime.

    A loop that a thread of `load_meanwhile` compiles is not waited for.

    Args:
        graph: a Graph.
        dtypes: element types, (of the arrays that it reads, of its results).

    Raises:
        CompileError: if the compiler fails.
        ConfigError: if the folder of SWMODEL_KEEP_SOURCE cannot be written to.
    """
    keep_source(graph, dtypes)
    loop = source_of(graph, dtypes)
    return LOADING.get(loop) or loop_name(*loop)


def source_of(graph: Graph, dtypes: tuple) -> tuple[str, bool]:
    """(the C++ text of the loop of a Graph, whether sums are computed in order): what `loop_name` takes."""
    return c_source(graph, dtypes), compares_rounded(graph)


def compiled_loop(
    *operands: jax.Array,
    graph: Graph,
    origins: Sequence[tuple[int, int]],
    aliases: Sequence[int | None],
    dtypes: Sequence[str],
    strips: Sequence[Strips | None],
    layout: Layout,
    margin: int,
    sharers: int,
    slots: Sequence[int] = (),
    pushed: Sequence[int] = (),
) -> Sequence[jax.Array]:
    """The call of the compiled loop.

    Args:
        operands: the arrays and then the numbers that the graph reads; arrays that are overwritten without being read;
            for each of `pushed` an array of slots; the numbers of slots.
        graph: a Graph.
        origins: (row, column) of the tile's cell (0, 0) in each array that is read.
        aliases: for each result the number of the operand that it overwrites, or None.
        dtypes: element types of the results.
        strips: for each result the Strips whose cells it has, or None for all cells.
        layout: the Layout of the results.
        margin: the number of cells around the tile that are computed, too.
        sharers: the number of devices that share the threads of this process.
        slots: the numbers of the operands that are arrays of slots, of which the loop reads one. The last operands are
            the numbers of these slots, in this order.
        pushed: the numbers of the sources that the loop copies into a slot before it overwrites them. The last operand
            is the number of the slot, and the arrays of slots are the last results.
    """
    sources, after = len(origins), len(origins) + graph.scalars
    types = tuple(np.dtype(operand.dtype).name for operand in operands[:sources])
    together, places = _together(operands[sources:after], sources)
    operands = (*operands[:sources], *together, *operands[after:])
    fewer = graph.scalars - len(together)
    over = {n if n < sources else n - fewer: k for k, n in enumerate(aliases) if n is not None}
    first = len(operands) - 1 - len(pushed)
    call = jax.ffi.ffi_call(
        TARGET,
        [jax.ShapeDtypeStruct(layout.result_shape(x), np.dtype(t)) for t, x in zip(dtypes, strips, strict=True)]
        + [jax.ShapeDtypeStruct(operands[first + k].shape, operands[first + k].dtype) for k in range(len(pushed))],
        input_output_aliases=over | {first + k: len(dtypes) + k for k in range(len(pushed))},
    )
    indices = {slot: len(operands) - len(slots) + k for k, slot in enumerate(slots)}
    plan = _plan(graph, origins, aliases, strips, layout, margin, sharers, indices, pushed, places)
    return call(*operands, kernel=compile_loop(graph, (types, tuple(dtypes))), plan=np.asarray(plan, np.int64))


def _together(scalars, first):
    """(arrays that hold the scalars, a ScalarPlan of each); the first of these arrays is operand number `first`.

    XLA computes an array of many numbers in one operation, and numbers alone in one each.
    """
    groups = {}
    for k, x in enumerate(scalars):
        groups.setdefault((x.dtype, x.shape), []).append(k)
    places = {k: ScalarPlan(n, at) for n, group in enumerate(groups.values(), first) for at, k in enumerate(group)}
    return [jnp.stack([scalars[k] for k in group], axis=-1) for group in groups.values()], places


def _plan(graph, origins, aliases, strips, layout, margin, sharers, indices, pushed, places):
    """The integers of a loop's plan: records of native/library.py."""
    rounds = schedule(graph)
    (rows, columns), (ghosts, west) = layout.shape, layout.origin
    head = LoopPlan(
        rows, columns, ghosts, west, margin, rounds.early, sharers, len(origins), graph.scalars, len(pushed)
    )
    sources = []
    for k, (row, column) in enumerate(origins):
        first, (low, high) = rounds.rows_ahead(k)[0], rounds.rows_in_all(k)
        sources.append(SourcePlan(indices.get(k, -1), row, column, graph.columns[k], first, low, high))
    results = [
        ResultPlan(-1 if k is None else k, _when(number, k, len(origins), rounds, x), len(x or ()))
        for number, (k, x) in enumerate(zip(aliases, strips, strict=True))
    ]
    scalars = [places[k] for k in range(graph.scalars)]
    cut = [StripPlan(*first, *shape) for each in strips for first, shape in each or ()]
    return [n for record in (head, *sources, *scalars, *results, *cut) for n in numbers(record)] + list(pushed)


def _when(result, operand, sources, rounds, strips):
    """When a row of a result may overwrite the row of operand number `operand` (None: of no operand)."""
    if strips is not None:
        return When.IN_STRIPS
    if operand is None or operand >= sources:
        return When.AT_ONCE
    if rounds.must_wait(operand, result):
        return When.LATER
    return When.UNLESS_SHARED if rounds.rows_in_all(operand) != (0, 0) else When.AT_ONCE


# -- whether a compiler may reorder sums -------------------------------------------------------------------------------

COMPARISONS = ("gt", "lt", "ge", "le", "eq", "ne", "sign", "floor")
EXACT = ("load", "scalar", "constant", "convert_element_type", "stop_gradient", "inside", "neg", "abs", "max", "min",
         "select_n")  # fmt: skip
WHOLE = ("constant", "convert_element_type", "stop_gradient", "inside", "neg", "abs", "max", "min", "select_n", "add",
         "sub", "mul")  # fmt: skip


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


# -- a loop as text ----------------------------------------------------------------------------------------------------

KEEP_SOURCE = "SWMODEL_KEEP_SOURCE"
LONGEST_TITLE = 60
INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "gt": ">", "lt": "<", "ge": ">=", "le": "<="}


@dataclasses.dataclass(frozen=True)
class Access:
    """An array that a loop reads.

    Attributes:
        name: of the field.
        halo: the number of cells to the (west, east, south, north) of a cell that are read.
        is_column: whether it is uniform along x.
    """

    name: str
    halo: tuple
    is_column: bool


@dataclasses.dataclass(frozen=True)
class Cost:
    """The cost of a loop for each cell: arithmetic operations, and bytes if each array moves once to or from memory."""

    operations: int
    bytes: int


def _names(graph):
    """{source: name of its field}."""
    return {n.parameters[0]: n.label or f"array {n.parameters[0]}" for n in graph.nodes if n.name == "load"}


def _result(graph, number):
    return graph.names[number] if number < len(graph.names) else f"result {number}"


def reads(graph: Graph) -> list[Access]:
    """The arrays that a Graph reads, in the order of their numbers."""
    found = []
    for source, name in sorted(_names(graph).items()):
        rows, columns = zip(*graph.loads(source))
        halo = -min(*columns, 0), max(*columns, 0), -min(*rows, 0), max(*rows, 0)
        found.append(Access(name, halo, graph.columns[source]))
    return found


def cost(graph: Graph, dtypes: tuple) -> Cost:
    """The Cost of a Graph; `dtypes` are element types, (of sources, of results)."""
    read = [np.dtype(t).itemsize for t, is_column in zip(dtypes[0], graph.columns) if not is_column]
    return Cost(operations(graph), sum(read) + sum(np.dtype(t).itemsize for t in dtypes[1]))


def loop_title(graph: Graph) -> str:
    """The names of a Graph's results, in one line."""
    return ", ".join(_result(graph, k) for k in range(len(graph.outputs)))


def graph_text(graph: Graph) -> str:
    """A Graph in lines `number = operation  # line of Python`; x[+1, 0] is x one row north, x[0, -1] one cell west.

    Nodes that are computed once and kept for several cells are marked with *.
    """
    kept, lines = schedule(graph).kept, []
    for number, node in enumerate(graph.nodes):
        about = "" if node.line is None or node.name == "load" else f"  # {node.line}"
        lines.append(f"{'*' if number in kept else ' '}n{number} = {_operation(graph, node)}{about}")
    for k, ref in enumerate(graph.outputs):
        lines.append(f" {_result(graph, k)} = {_at(graph, ref)}")
    return "\n".join(lines)


def _operation(graph, node):
    if node.name == "load":
        return _names(graph)[node.parameters[0]]
    if node.name == "scalar":
        return f"number {node.parameters[0]}"
    arguments = [_at(graph, a) for a in node.arguments]
    if node.name in INFIX:
        return f" {INFIX[node.name]} ".join(arguments)
    if node.name == "inside":
        return f"{arguments[0]} inside {node.parameters}, else 0"
    return f"{node.name}({', '.join([*arguments, *map(str, node.parameters)])})"


def _at(graph, ref):
    if not isinstance(ref, At):
        return f"{ref.value:.10g}"
    node = graph.nodes[ref.node]
    name = _names(graph)[node.parameters[0]] if node.name == "load" else f"n{ref.node}"
    return f"{name}[{ref.row:+d}, {ref.column:+d}]" if ref.row or ref.column else name


def keep_source(graph: Graph, dtypes: tuple) -> None:
    """Write the source of a loop to the folder that SWMODEL_KEEP_SOURCE names, if it is set.

    Raises:
        ConfigError: if the folder cannot be written to.
    """
    folder = os.environ.get(KEEP_SOURCE)
    if not folder:
        return
    try:
        write_source(folder, graph, dtypes)
    except OSError as error:
        raise ConfigError(
            f"{KEEP_SOURCE} = {folder}: the sources of loops cannot be written there ({error.strerror}); "
            "name a folder that can be written, or unset it."
        ) from error


def write_source(folder: str | Path, graph: Graph, dtypes: tuple) -> Path:
    """Write the commented source of a loop and its graph to a file in `folder`, named by the loop's results."""
    title = re.sub(r"[^A-Za-z0-9]+", "_", loop_title(graph)).strip("_")[:LONGEST_TITLE]
    path = Path(folder, f"{title}_{digest(c_source(graph, dtypes))[:8]}.cpp")
    listing = "".join(f"// {line}\n".replace("\\", "/") for line in graph_text(graph).splitlines())
    text = c_source(graph, dtypes, comments=True)
    text += f"\n// The graph of this loop; * marks values that are kept for several cells.\n//\n{listing}"
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, durable=False) as new:  # ranks share a name
        new.write_text(text)
    return path


# -- loops in a program -----------------------------------------------------------------------------------------------


def loops_in(jaxpr: Jaxpr | ClosedJaxpr) -> Iterator:
    """The equations of a jaxpr, and of those within it, that are fused loops."""
    for equation in jaxpr.eqns:
        if isinstance(equation.params.get("graph"), Graph):
            yield equation
        for value in equation.params.values():
            for inner in value if isinstance(value, (tuple, list)) else [value]:
                if isinstance(inner, (ClosedJaxpr, Jaxpr)):
                    yield from loops_in(getattr(inner, "jaxpr", inner))


def types_of(equation: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Element types of a fused loop: (of the arrays that it reads, of its results)."""
    arrays = equation.invars[: len(equation.params["graph"].columns)]
    return tuple(np.dtype(v.aval.dtype).name for v in arrays), tuple(equation.params["dtypes"])


def compile_loops(jaxpr: Jaxpr) -> None:
    """Compile the fused loops of a jaxpr for CPUs, or find them compiled.

    Raises:
        CompileError: if the compiler refuses one.
    """
    for equation in loops_in(jaxpr):
        compile_loop(equation.params["graph"], types_of(equation))


def loops_compiled_meanwhile(jaxprs: Sequence[Jaxpr], order: int = 1) -> contextlib.AbstractContextManager:
    """A block during which a thread compiles the loops of jaxprs, and programs can be compiled but not run.

    Args:
        jaxprs: of the programs.
        order: -1 begins with the last one.

    Raises:
        CompileError: after the block, if the compiler refuses one.
    """
    found = [source_of(x.params["graph"], types_of(x)) for jaxpr in jaxprs for x in loops_in(jaxpr)]
    return load_meanwhile(list(dict.fromkeys(found))[::order])
