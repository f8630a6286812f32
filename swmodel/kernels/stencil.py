"""The fused loop as a JAX operation: padded arrays in, padded arrays out.

`run` traces Expressions into a Program and binds the primitive. On a CPU it becomes a call of the compiled loop, on a GPU
a Pallas kernel; under vmap one call runs all members. It has no derivative: differentiate the physics on arrays.
"""
import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from ..fields import HaloError
from .library import TARGET, loop_name
from .pallas import pallas_loop
from .program import trace_program
from .source import c_source

__all__ = ["Layout", "run"]


@dataclasses.dataclass(frozen=True)
class Layout:
    """Where a loop's results go: the tile's (rows, columns), ghosts around it in every result, the members or None."""

    shape: tuple
    ghosts: int
    members: int | None = None

    @property
    def padded(self):
        whole = tuple(n + 2 * self.ghosts for n in self.shape)
        return whole if self.members is None else (self.members, *whole)


def run(expressions, shape, ghosts, over=(), interpret=False, sharers=1):
    """The values of Expressions, as arrays with room for ghosts, and how many ghosts around the tile are right.

    Args:
        expressions: to be evaluated in one loop.
        shape: (ny, nx) of the tile.
        ghosts: cells of room around it in every result; those that are not right are 0, or keep what was overwritten.
        over: for each expression an array that its result may overwrite, or None.
        interpret: run the GPU's kernel as Pallas interprets it, on any device: to test it.
        sharers: devices of this process that run such loops at the same time, on the same cores.

    Returns:
        (arrays, margin).

    Raises:
        Unsupported: for physics that fused loops do not have.
        HaloError: where a load reaches beyond what is valid.
    """
    program, sources, scalars = trace_program(expressions)
    arrays = [source.array for source in sources]
    place = {id(a): k for k, a in enumerate(arrays)}
    operands, aliases = [*arrays, *scalars], []
    for array in over or [None] * len(expressions):
        if array is not None and id(array) not in place:
            place[id(array)] = len(operands)
            operands.append(array)
        aliases.append(None if array is None else place[id(array)])
    margin = _margin(program, sources)
    types = _types(arrays, expressions)
    c_source(program, types, _read(aliases, len(sources)))  # raises Unsupported now, while there is another way
    results = fused_loop.bind(
        *operands,
        program=program,
        origins=tuple(source.origin for source in sources),
        aliases=tuple(aliases),
        dtypes=types[1],
        layout=Layout(tuple(shape), ghosts),
        margin=min(margin, ghosts),
        interpret=interpret,
        sharers=sharers,
    )
    return results, min(margin, ghosts)


def _types(arrays, results):
    return tuple(np.dtype(a.dtype).name for a in arrays), tuple(np.dtype(r.dtype).name for r in results)


def _read(aliases, sources):
    """For each result the source that it overwrites; None where that is no source."""
    return tuple(operand if operand is not None and operand < sources else None for operand in aliases)


def _margin(program, sources):
    """How far around the tile every load is valid."""
    margin = 1 << 20
    for k, source in enumerate(sources):
        west, east, south, north = source.halo
        for row, column in program.loads(k):
            margin = min(margin, south + row, north - row, west + column, east - column)
    if margin < 0:
        raise HaloError(f"a stencil reached {-margin} beyond the halo.")
    return margin


fused_loop = Primitive("fused_loop")
fused_loop.multiple_results = True


@fused_loop.def_abstract_eval
def _abstract(*operands, dtypes, layout, **parameters):
    return [jax.core.ShapedArray(layout.padded, np.dtype(t)) for t in dtypes]


@functools.lru_cache(maxsize=None)
def _compiled(parameters):
    return jax.jit(lambda *operands: fused_loop.bind(*operands, **dict(parameters)))


@fused_loop.def_impl
def _run_now(*operands, **parameters):
    return _compiled(tuple(sorted(parameters.items())))(*operands)


def _batch(operands, axes, *, layout, aliases, **parameters):
    if layout.members is not None:
        raise NotImplementedError("a fused loop takes one axis of members; put nested vmaps into one.")
    members = next(x.shape[axis] for x, axis in zip(operands, axes) if axis is not None)
    operands = [x if axis is None else jnp.moveaxis(x, axis, 0) for x, axis in zip(operands, axes)]
    for k in {alias for alias in aliases if alias is not None and axes[alias] is None}:
        operands[k] = jnp.broadcast_to(operands[k], (members, *operands[k].shape))
    layout = dataclasses.replace(layout, members=members)
    results = fused_loop.bind(*operands, layout=layout, aliases=aliases, **parameters)
    return results, [0] * len(results)


batching.primitive_batchers[fused_loop] = _batch


def _on_cpu(*operands, interpret, sharers, **parameters):
    if interpret:
        return pallas_loop(*operands, interpret=True, **parameters)
    return _compiled_loop(*operands, sharers=sharers, **parameters)


def _on_gpu(*operands, interpret, sharers, **parameters):
    return pallas_loop(*operands, interpret=interpret, **parameters)


def _compiled_loop(*operands, program, origins, aliases, dtypes, layout, margin, sharers):
    text = c_source(program, (_types(operands[: len(origins)], ())[0], dtypes), _read(aliases, len(origins)))
    call = jax.ffi.ffi_call(
        TARGET,
        [jax.ShapeDtypeStruct(layout.padded, np.dtype(t)) for t in dtypes],
        input_output_aliases={operand: k for k, operand in enumerate(aliases) if operand is not None},
    )
    plan = _plan(program, origins, aliases, layout, margin, sharers)
    return call(*operands, kernel=loop_name(text), plan=np.asarray(plan, np.int64))


def _plan(program, origins, aliases, layout, margin, sharers):
    """The numbers that runtime.cpp needs, in its order."""
    plan = [*layout.shape, layout.ghosts, margin, sharers, len(origins), program.scalars]
    for k, origin in enumerate(origins):
        rows = [row for row, _ in program.loads(k)]
        plan += [*origin, program.columns[k], min(rows), max(rows)]
    for operand, source in zip(aliases, _read(aliases, len(origins))):
        read = () if source is None else program.loads(source)
        neighbours = any(offset != (0, 0) for offset in read)
        plan += [-1 if operand is None else operand, neighbours]
    return plan


mlir.register_lowering(fused_loop, mlir.lower_fun(_on_cpu, multiple_results=True), platform="cpu")
mlir.register_lowering(fused_loop, mlir.lower_fun(_on_gpu, multiple_results=True), platform="cuda")
