"""A Graph as kernels of a GPU: each thread evaluates it at one cell, and intermediate values stay in its registers.

Blocks run in any order. So a result may overwrite only an array that is read at the result's own cell alone. The step
loop makes two steps in a call, from one set of arrays into another and back.

A step over deep water is one kernel, which reads each array once and writes each result once; a coastal one is a few,
since arithmetic would take longer than the memory does (parts.py). `make gpu` counts both (docs/gpus.md).
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from .derivatives import OPERATIONS
from .graph import Constant, Graph, Unsupported
from .parts import parts

if TYPE_CHECKING:
    from .stencil import Layout


WIDTH = 128  # columns of a block of cells
WARP = 32  # threads
LONG = 800  # operations of a kernel for which the registers of 512 threads do not suffice


def pallas_loop(
    *operands: jax.Array,
    graph: Graph,
    origins: Sequence[tuple[int, int]],
    aliases: Sequence[int | None],
    dtypes: Sequence[str],
    layout: "Layout",
    margin: int,
    interpret: bool = False,
) -> Sequence[jax.Array]:
    """The results of a fused loop as padded arrays, zero outside the margin; the arguments are those of stencil.run."""
    if layout.members is not None:
        axes = [None if x.ndim in (0, 2) else 0 for x in operands]
        one = functools.partial(
            pallas_loop,
            graph=graph,
            origins=origins,
            aliases=aliases,
            dtypes=dtypes,
            margin=margin,
            layout=dataclasses.replace(layout, members=None),
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
    return _launch(last.graph, arrays, numbers, places, layout, margin, dtypes, interpret, aliases)


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
    `make gpu` has counted.
    """
    operations = sum(map(len, graph.reached.values()))
    return 4 // (1 + (itemsize == 8)) // (1 + (operations > LONG))


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
