"""The call of a compiled loop, and its plan: the integers that the C++ runtime reads (abi.py)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax
import numpy as np

from .abi import LoopPlan, ResultPlan, SourcePlan, When, numbers
from .graph import Graph
from .native.library import TARGET, loop_name
from .printing import keep_source
from .schedule import compares_rounded, schedule
from .source import c_source

if TYPE_CHECKING:
    from .stencil import Layout


def compile_loop(graph: Graph, dtypes: tuple) -> str:
    """Compile the loop of a Graph, or find it compiled, and return its name in the runtime.

    Args:
        graph: a Graph.
        dtypes: element types, (of the arrays that it reads, of its results).

    Raises:
        CompileError: if the compiler fails.
        ConfigError: if the folder of SWMODEL_KEEP_SOURCE cannot be written to.
    """
    keep_source(graph, dtypes)
    return loop_name(c_source(graph, dtypes), in_order=compares_rounded(graph))


def compiled_loop(
    *operands: jax.Array,
    graph: Graph,
    origins: Sequence[tuple[int, int]],
    aliases: Sequence[int | None],
    dtypes: Sequence[str],
    layout: "Layout",
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
        layout: the Layout of the results.
        margin: the number of cells around the tile that are computed, too.
        sharers: the number of devices that share the threads of this process.
        slots: the numbers of the operands that are arrays of slots, of which the loop reads one. The last operands are
            the numbers of these slots, in this order.
        pushed: the numbers of the sources that the loop copies into a slot before it overwrites them. The last operand
            is the number of the slot, and the arrays of slots are the last results.
    """
    types = tuple(np.dtype(operand.dtype).name for operand in operands[: len(origins)])
    first = len(operands) - 1 - len(pushed)
    over = {operand: k for k, operand in enumerate(aliases) if operand is not None}
    call = jax.ffi.ffi_call(
        TARGET,
        [jax.ShapeDtypeStruct(layout.padded, np.dtype(t)) for t in dtypes]
        + [jax.ShapeDtypeStruct(operands[first + k].shape, operands[first + k].dtype) for k in range(len(pushed))],
        input_output_aliases=over | {first + k: len(dtypes) + k for k in range(len(pushed))},
    )
    indices = {slot: len(operands) - len(slots) + k for k, slot in enumerate(slots)}
    plan = _plan(graph, origins, aliases, layout, margin, sharers, indices, pushed)
    return call(*operands, kernel=compile_loop(graph, (types, tuple(dtypes))), plan=np.asarray(plan, np.int64))


def _plan(graph, origins, aliases, layout, margin, sharers, indices, pushed):
    """The integers of a loop's plan: records of abi.py."""
    rounds = schedule(graph)
    (rows, columns), (ghosts, west) = layout.shape, layout.origin
    head = LoopPlan(
        rows, columns, ghosts, west, margin, rounds.early, sharers, len(origins), graph.scalars, len(pushed)
    )
    sources = []
    for k, (row, column) in enumerate(origins):
        first, (low, high) = rounds.rows_ahead(k)[0], rounds.rows_in_all(k)
        sources.append(SourcePlan(indices.get(k, -1), row, column, graph.columns[k], first, low, high))
    results = [ResultPlan(-1 if k is None else k, _when(k, len(origins), rounds)) for k in aliases]
    return [n for record in (head, *sources, *results) for n in numbers(record)] + list(pushed)


def _when(operand, sources, rounds):
    """When a row of results may overwrite the row of operand number `operand` (None: of no operand)."""
    if operand is None or operand >= sources:
        return When.AT_ONCE
    if rounds.must_wait(operand):
        return When.LATER
    return When.UNLESS_SHARED if rounds.rows_in_all(operand) != (0, 0) else When.AT_ONCE
