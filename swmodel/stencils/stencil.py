"""The fused loop as a JAX primitive: arrays with ghosts in, arrays with ghosts out.

`run` traces Expressions into a Graph and binds the primitive. On a CPU it becomes a call of the compiled loop, on a
GPU a Pallas kernel; under vmap one call runs all members. Its tangent is a fused loop too, and the transpose of that
another one (derivatives.py), so that JAX differentiates programs made of loops, in both modes.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive, Var
from jax.interpreters import ad, batching, mlir

from ..fields.field import HaloError
from ..runtime.packages import partial_evaluation
from .compiled import compiled_loop
from .derivatives import tangent, transpose
from .expressions import Layout, Strips
from .graph import Graph, trace_graph
from .native.strips import add
from .source import c_source


def run(
    expressions: Sequence,
    layout: Layout,
    over: Sequence = (),
    interpret: bool = False,
    sharers: int = 1,
    names: Sequence[str] = (),
    strips: Sequence[Strips | None] = (),
) -> tuple[list[jax.Array], int]:
    """The values of Expressions, as arrays, and the width of the margin around the tile in which they are valid.

    Args:
        expressions: to be evaluated in one loop.
        layout: a Layout of the results. Beyond the margin they are 0, or keep what they overwrote.
        over: for each expression an array that its result may overwrite, or None.
        interpret: run the GPU's kernel in Pallas's interpreter, on any device: to test it.
        sharers: devices of this process that run such loops at the same time, on the same cores.
        names: of the results, shown in the loop's source and graph.
        strips: for each expression the Strips of the tile where its value is needed, or None where it is everywhere.
            The result then is a vector of their cells.

    Returns:
        (arrays, margin).

    Raises:
        Unsupported: for an operation that fused loops do not have.
        HaloError: if a load reaches beyond the valid cells of its array.
    """
    graph, sources, scalars = trace_graph(expressions, names)
    margin = min(_margin(graph, sources), layout.ghosts)
    results = _bind(
        graph,
        [source.array for source in sources],
        scalars,
        over or [None] * len(expressions),
        origins=[source.origin for source in sources],
        dtypes=[np.dtype(e.dtype).name for e in expressions],
        strips=strips or [None] * len(expressions),
        layout=layout,
        margin=margin,
        interpret=interpret,
        sharers=sharers,
    )
    return results, margin


def _bind(*arguments, **parameters):
    """Bind the primitive to the operands that a Graph reads; the arguments are those of `call_of`."""
    operands, parameters = call_of(*arguments, **parameters)
    return fused_loop.bind(*operands, **parameters)


def call_of(
    graph: Graph,
    arrays: Sequence,
    scalars: Sequence,
    over: Sequence,
    origins: Sequence[tuple[int, int]],
    dtypes: Sequence[str],
    strips: Sequence[Strips | None],
    **parameters: Any,
) -> tuple[list, dict[str, Any]]:
    """(operands, parameters) of a call that binds only what the Graph reads; result k may overwrite over[k] or None."""
    graph, kept, kept_scalars = graph.pruned
    operands = [*(arrays[k] for k in kept), *(scalars[k] for k in kept_scalars)]
    place, aliases = {id(a): k for k, a in enumerate(operands)}, []
    for array in over:
        if array is not None and id(array) not in place:
            place[id(array)] = len(operands)
            operands.append(array)
        alias = None if array is None else place[id(array)]
        aliases.append(None if alias in aliases else alias)  # one array, one result
    types = tuple(np.dtype(getattr(operand, "aval", operand).dtype).name for operand in operands[: len(kept)])
    c_source(graph, (types, tuple(dtypes)))  # raises Unsupported now, when the caller can still use arrays
    chosen = {"graph": graph, "origins": tuple(origins[k] for k in kept), "aliases": tuple(aliases)}
    return operands, {**parameters, **chosen, "dtypes": tuple(dtypes), "strips": tuple(strips)}


def _some(chosen, operands, *, graph, origins, aliases, dtypes, strips, **parameters):
    """(operands, parameters) of the call that gives some of the results of another one, by number."""
    over = [None if aliases[k] is None else operands[aliases[k]] for k in chosen]
    arrays, numbers = operands[: len(graph.columns)], operands[len(graph.columns) :]
    types, places = [dtypes[k] for k in chosen], [strips[k] for k in chosen]
    return call_of(graph.only(chosen), arrays, numbers, over, origins, types, places, **parameters)


def _depending(on, graph, aliases):
    """Whether each result depends on some of the operands for which `on` holds, or may overwrite one."""

    def depends(result, alias):
        needed = graph.only([result])
        read = [*needed.reads(), *(len(graph.columns) + k for k in needed.reads("scalar"))]
        return any(on[k] for k in [*read, *([] if alias is None else [alias])])

    return [depends(k, alias) for k, alias in enumerate(aliases)]


def _margin(graph, sources):
    """The number of cells around the tile up to which every load is valid."""
    margin = 1 << 20
    for k, source in enumerate(sources):
        west, east, south, north = source.halo
        for row, column in graph.loads(k):
            margin = min(margin, south + row, north - row, west + column, east - column)
    if margin < 0:
        raise HaloError(f"a stencil reads {-margin} cells beyond the valid halo; exchange it before, or widen it.")
    return margin


fused_loop = Primitive("fused_loop")
fused_loop.multiple_results = True


@fused_loop.def_abstract_eval
def result_shapes(
    *operands: ShapedArray, dtypes: Sequence[str], layout: Layout, strips: Sequence[Strips | None], **parameters: Any
) -> list[ShapedArray]:
    """The shapes of the results of a loop."""
    return [ShapedArray(layout.result_shape(each), np.dtype(t)) for t, each in zip(dtypes, strips, strict=True)]


@functools.cache
def _compiled(parameters):
    return jax.jit(lambda *operands: fused_loop.bind(*operands, **dict(parameters)))


@fused_loop.def_impl
def _run_now(*operands, **parameters):
    return _compiled(tuple(sorted(parameters.items())))(*operands)


# -- members ----------------------------------------------------------------------------------------------------------


def _batch(operands, axes, **parameters):
    """One call for all members; a second call computes, once, the results that are the same for all of them."""
    own = _depending([axis is not None for axis in axes], parameters["graph"], parameters["aliases"])
    if all(own):
        return _batch_all(operands, axes, **parameters)

    def some(of_members, *operands):
        chosen = [k for k, differs in enumerate(own) if differs == of_members]
        operands, changed = _some(chosen, operands, **parameters)
        return fused_loop.bind(*operands, **changed)

    one = [x if axis is None else jax.lax.index_in_dim(x, 0, axis, False) for x, axis in zip(operands, axes)]
    shared = iter(some(False, *one))
    many = iter(jax.vmap(functools.partial(some, True), axes)(*operands) if any(own) else ())
    return [next(many if differs else shared) for differs in own], [0 if differs else None for differs in own]


def _batch_all(operands, axes, *, layout, aliases, **parameters):
    """A loop has one axis of members, so that the axes of several vmaps are merged into one."""
    members, within = next(x.shape[axis] for x, axis in zip(operands, axes) if axis is not None), layout.batch
    batch = (math.prod((members, *within)),)
    arrays = len(parameters["graph"].columns)

    def joined(k, x, axis):
        is_array = k < arrays or k in aliases
        of_members = x.ndim - (axis is not None) > (2 if is_array else 0)
        if axis is None and not of_members and k not in aliases:
            return x  # the same for all
        x = jnp.broadcast_to(x, (members, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
        if not within:
            return x
        x = x if of_members else jnp.broadcast_to(x[:, None], (members, *within, *x.shape[1:]))
        return x.reshape(*batch, *x.shape[2:])

    operands = [joined(k, x, axis) for k, (x, axis) in enumerate(zip(operands, axes))]
    layout = dataclasses.replace(layout, batch=batch)
    results = fused_loop.bind(*operands, layout=layout, aliases=aliases, **parameters)
    return [x.reshape(members, *within, *x.shape[1:]) for x in results], [0] * len(results)


batching.primitive_batchers[fused_loop] = _batch


# -- derivatives ------------------------------------------------------------------------------------------------------


def _jvp(primals, tangents, *, graph, origins, aliases, dtypes, strips, **parameters):
    """Results and their tangents, by one loop; in reverse mode by two, of which that of tangents is transposed."""
    nonzero = [type(t) is not ad.Zero for t in tangents]
    count = len(graph.columns)
    sources = tuple(k for k in range(count) if nonzero[k])
    scalars = tuple(k for k in range(graph.scalars) if nonzero[count + k])
    alone, both, is_zero = tangent(graph, sources, scalars)
    arrays = [*primals[:count], *(tangents[k] for k in sources)]
    numbers = [*primals[count : count + graph.scalars], *(tangents[count + k] for k in scalars)]
    over = [None if alias is None else primals[alias] for alias in aliases]
    over_slopes = [
        tangents[a] if a is not None and nonzero[a] else None for a, zero in zip(aliases, is_zero) if not zero
    ]
    types, places = ([x for x, zero in zip(each, is_zero) if not zero] for each in (dtypes, strips))
    parameters["origins"] = [*origins, *(origins[k] for k in sources)]
    if all(is_zero) or any(isinstance(t, partial_evaluation().JaxprTracer) for t in tangents):
        results = _bind(graph, arrays, numbers, over, dtypes=dtypes, strips=strips, **parameters)
        slopes = _bind(alone, arrays, numbers, over_slopes, dtypes=types, strips=places, **parameters) if types else []
    else:
        every = {"dtypes": [*dtypes, *types], "strips": [*strips, *places]}
        found = _bind(both, arrays, numbers, over + over_slopes, **every, **parameters)
        results, slopes = found[: len(dtypes)], iter(found[len(dtypes) :])
    slopes = iter(slopes)
    zeros = (ad.Zero(jax.typeof(x).to_tangent_aval()) for x in results)
    return results, [none if zero else next(slopes) for none, zero in zip(zeros, is_zero)]


def _transposed(cotangents, *operands, graph, origins, aliases, dtypes, strips, layout, margin, **parameters):
    """Cotangents of the linear operands: arrays for arrays; for a number the sum of its cotangents over all cells."""
    cotangents = [
        ct if type(ct) is ad.Zero or places is None else _around(ct, places, layout)
        for ct, places in zip(cotangents, strips, strict=True)
    ]
    linear = [ad.is_undefined_primal(operand) for operand in operands]
    count = len(graph.columns)
    sources = tuple(k for k in range(count) if linear[k])
    scalars = tuple(k for k in range(graph.scalars) if linear[count + k])
    arrived = tuple(k for k, ct in enumerate(cotangents) if type(ct) is not ad.Zero)
    made = transpose(graph, sources, scalars, arrived)
    margin = margin + made.reach
    wide = dataclasses.replace(layout, ghosts=max(layout.ghosts, margin))
    avals = [operands[k].aval for k in made.of_sources] + [operands[count + k].aval for k in made.of_scalars]
    over = {aliases[k]: cotangents[k] for k in arrived if wide == layout}
    found = _bind(
        made.graph,
        [*(operands[k] for k in made.sources), *(cotangents[k] for k in arrived)],
        [operands[count + k] for k in made.scalars],
        [over.get(k) if _fills(operands[k].aval, layout) else None for k in made.of_sources]
        + [None] * len(made.of_scalars),
        origins=[*(origins[k] for k in made.sources), *(layout.origin for _ in arrived)],
        dtypes=[np.dtype(aval.dtype).name for aval in avals],
        strips=[None] * len(avals),
        layout=wide,
        margin=margin,
        **parameters,
    )
    places = [*made.of_sources, *(count + k for k in made.of_scalars)]
    shares = {
        k: _share(x, aval, origins[k] if k < count else None, wide.origin) for k, x, aval in zip(places, found, avals)
    }
    return [shares.get(k, ad.Zero(operand.aval)) if linear[k] else None for k, operand in enumerate(operands)]


def _around(x, strips, layout):
    """The transpose of `cells_of`: an array of the layout with the values x in strips, and zeros elsewhere."""
    (south, west), ends = layout.origin, np.cumsum([rows * columns for _, (rows, columns) in strips])
    parts = [
        part.reshape(*x.shape[:-1], 1, *shape)
        for part, (_, shape) in zip(jnp.split(x, ends[:-1], -1), strips)
        if part.size
    ]
    places = [(south + j, west + i) for (j, i), shape in strips if all(shape)]
    return add([jnp.zeros(layout.padded, x.dtype)], parts, places)[0]


def _fills(aval, layout):
    """Whether an operand has the shape of results."""
    return aval.shape == layout.padded


def _share(found, aval, origin, cell):
    """The cotangent of one operand from a loop's result.

    Args:
        found: the result, whose cell (0, 0) lies at `cell`.
        aval: of the operand, whose cell (0, 0) lies at `origin`; None for a number.
    """
    if origin is None:
        found = jnp.sum(found, axis=(-2, -1))
    elif aval.shape[-2:] != found.shape[-2:] or origin != cell:
        if aval.shape[-1] == 1:
            found, origin = jnp.sum(found, axis=-1, keepdims=True), (origin[0], cell[1])
        lows = [to - at for to, at in zip(origin, cell)]
        widths = [(low, n - have - low, 0) for low, n, have in zip(lows, aval.shape[-2:], found.shape[-2:])]
        found = jax.lax.pad(found, jnp.zeros((), found.dtype), [(0, 0, 0)] * (found.ndim - 2) + widths)
    return jnp.sum(found, axis=0) if found.ndim > aval.ndim else found


def _known_now(trace, *tracers, **parameters):
    """Partial evaluation: one loop computes the results that depend on known operands alone, another one the rest."""
    unknown = [not tracer.is_known() for tracer in tracers]
    later = _depending(unknown, parameters["graph"], parameters["aliases"])
    if all(later) or not any(unknown):
        return trace.default_process_primitive(fused_loop, tracers, parameters)
    now = [k for k, waits in enumerate(later) if not waits]
    then = [k for k, waits in enumerate(later) if waits]
    values = [None if wait else tracer.pval.get_known() for wait, tracer in zip(unknown, tracers)]
    operands, changed = _some(now, values, **parameters)
    known = iter(fused_loop.bind(*operands, **changed))
    operands, changed = _some(then, tracers, **parameters)
    rest = iter(trace.default_process_primitive(fused_loop, operands, changed) if then else ())
    return [next(rest if waits else known) for waits in later]


def _known_first(saveable, unknown, at_hand, equation):
    """The same for jax.checkpoint, which recomputes known results in the reverse pass."""
    later = _depending(unknown, equation.params["graph"], equation.params["aliases"])
    now = [k for k, waits in enumerate(later) if not waits]
    first = None
    if now:
        operands, changed = _some(now, equation.invars, **equation.params)
        first = equation.replace(invars=operands, outvars=[equation.outvars[k] for k in now], params=changed)
    missing = [x for x, here in zip(equation.invars, at_hand) if isinstance(x, Var) and not here]
    return first, equation, later, [True] * len(later), missing


ad.primitive_jvps[fused_loop] = _jvp
ad.primitive_transposes[fused_loop] = _transposed
partial_evaluation().custom_partial_eval_rules[fused_loop] = _known_now
partial_evaluation().partial_eval_jaxpr_custom_rules[fused_loop] = _known_first


# -- lowering ---------------------------------------------------------------------------------------------------------


def _on_cpu(*operands, interpret, sharers, **parameters):
    if interpret:
        return _on_gpu(*operands, interpret=True, sharers=sharers, **parameters)
    return compiled_loop(*operands, sharers=sharers, **parameters)


def _on_gpu(*operands, interpret, sharers, **parameters):
    from .pallas import pallas_loop  # takes a tenth of a second, for which CPUs need not wait

    return pallas_loop(*operands, interpret=interpret, **parameters)


mlir.register_lowering(fused_loop, mlir.lower_fun(_on_cpu, multiple_results=True), platform="cpu")
mlir.register_lowering(fused_loop, mlir.lower_fun(_on_gpu, multiple_results=True), platform="cuda")
