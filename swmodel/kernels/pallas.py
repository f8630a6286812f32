"""A Program as one GPU kernel: every block of cells evaluates it on masked loads, intermediates stay in registers.

Blocks run in any order, so that a result cannot lie where others still read: only what is read at its own cell is
overwritten in place. The engine makes two steps at once, from one set of arrays into another and back.
"""
import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from .program import Constant

__all__ = ["pallas_loop"]

BLOCK = (4, 128)  # rows and columns of cells that one program instance computes

FUNCTIONS = {
    "add": lax.add, "sub": lax.sub, "mul": lax.mul, "div": lax.div, "neg": lax.neg, "max": lax.max, "min": lax.min,
    "gt": lax.gt, "lt": lax.lt, "ge": lax.ge, "le": lax.le, "eq": lax.eq, "ne": lax.ne, "and": lax.bitwise_and,
    "or": lax.bitwise_or, "xor": lax.bitwise_xor, "not": lax.bitwise_not, "select_n": lax.select_n, "sqrt": lax.sqrt,
    "rsqrt": lax.rsqrt, "exp": lax.exp, "log": lax.log, "tanh": lax.tanh, "sin": lax.sin, "cos": lax.cos,
    "floor": lax.floor, "cbrt": lax.cbrt, "abs": lax.abs, "pow": lax.pow, "square": lax.square,
}  # fmt: skip


def pallas_loop(*operands, program, origins, aliases, dtypes, layout, margin, interpret=False):
    """The results of a fused loop (see stencil.run) as padded arrays, zero where they are not right."""
    if layout.members is not None:
        axes = [None if x.ndim in (0, 2) else 0 for x in operands]
        one = functools.partial(
            pallas_loop, program=program, origins=origins, aliases=aliases, dtypes=dtypes, margin=margin,
            layout=dataclasses.replace(layout, members=None), interpret=interpret,
        )  # fmt: skip
        return jax.vmap(one, in_axes=axes)(*operands)
    used = [*operands[: len(origins)], *(x.reshape(1) for x in operands[len(origins) : len(origins) + program.scalars])]
    in_place = {
        operand: k
        for k, operand in enumerate(aliases)
        if operand is not None and operand < len(origins) and set(program.loads(operand)) <= {(0, 0)}
    }
    shapes = [jax.ShapeDtypeStruct(layout.padded, np.dtype(t)) for t in dtypes]
    return pl.pallas_call(
        _kernel(program, origins, layout, margin),
        out_shape=shapes,
        grid=tuple(pl.cdiv(n, block) for n, block in zip(layout.padded, BLOCK)),
        input_output_aliases=in_place,
        compiler_params=triton.CompilerParams(num_warps=4),
        interpret=interpret,
    )(*used)


def _kernel(program, origins, layout, margin):
    (ny, nx), ghosts = layout.shape, layout.ghosts

    def kernel(*references):
        sources = references[: len(origins)]
        scalars = references[len(origins) : len(origins) + program.scalars]
        results = references[len(origins) + program.scalars :]
        row, column = (pl.program_id(k) * BLOCK[k] + jnp.arange(BLOCK[k], dtype=jnp.int32) - ghosts for k in range(2))
        known_rows, known_columns = (row >= -margin) & (row < ny + margin), (column >= -margin) & (column < nx + margin)
        known = known_rows[:, None] & known_columns[None, :]

        def load(source, down, along):
            j, i = row + (down + origins[source][0]), column + (along + origins[source][1])
            at = sources[source].at[j[:, None], jnp.zeros_like(i)[None, :] if program.columns[source] else i[None, :]]
            return triton.load(at, mask=known, other=jnp.zeros((), sources[source].dtype))

        lines = _evaluate(program, load, scalars)
        exists = (row < ny + ghosts)[:, None] & (column < nx + ghosts)[None, :]
        for line, result in zip(program.outputs, results):
            value = jnp.broadcast_to(lines[line], known.shape).astype(result.dtype)
            value = jnp.where(known, value, jnp.zeros_like(value))
            triton.store(result.at[(row + ghosts)[:, None], (column + ghosts)[None, :]], value, mask=exists)

    return kernel


def _evaluate(program, load, scalars):
    """The values of all lines of a Program, blocks or numbers."""
    lines = []
    for op in program.operations:
        arguments = [a.value if isinstance(a, Constant) else lines[a] for a in op.arguments]
        if op.name == "load":
            lines.append(load(*op.parameters))
        elif op.name == "scalar":
            lines.append(scalars[op.parameters[0]][0])
        elif op.name in ("convert_element_type", "constant"):
            lines.append(jnp.asarray(arguments[0]).astype(op.dtype))
        elif op.name == "integer_pow":
            lines.append(lax.integer_pow(arguments[0], op.parameters[0]))
        else:
            lines.append(FUNCTIONS[op.name](*_alike(arguments, op)))
    return lines


def _alike(arguments, op):
    """Numbers and blocks as arrays of one shape; a condition keeps its type."""
    shape = max((jnp.shape(a) for a in arguments), key=len)
    known = [a.dtype for a in arguments if hasattr(a, "dtype") and a.dtype != bool]
    dtype = known[0] if known else op.dtype

    def like(a):
        array = a if hasattr(a, "dtype") else jnp.asarray(a, dtype)
        return jnp.broadcast_to(array, shape)

    return [like(a) for a in arguments]
