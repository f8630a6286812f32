"""The fused loop as a JAX operation: padded arrays in, padded arrays out.

`run` traces Expressions into a Graph and binds the primitive. On a CPU it becomes a call of the compiled loop, on a
GPU a Pallas kernel; under vmap one call runs all members. Its tangent is a fused loop too, and the transpose of that
another one (derivatives.py), so that JAX differentiates programs made of loops, in both modes.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive, Var
from jax.interpreters import ad, batching, mlir
from jax.interpreters.partial_eval import JaxprTracer, custom_partial_eval_rules, partial_eval_jaxpr_custom_rules

from ..fields.field import HaloError
from .derivatives import tangent, transpose
from .graph import trace_graph
from .native.library import TARGET, loop_name
from .pallas import pallas_loop
from .schedule import schedule, whole_vectors
from .source import c_source

__all__ = ["Layout", "compiled_loop", "fused_loop", "run"]


@dataclasses.dataclass(frozen=True)
class Layout:
    """Where a loop's results go: the tile's (rows, columns), ghosts around it in every result, the members or None.

    Rows of the tile's own cells begin where vectors do, and have room for whole ones around the ghosts.
    """

    shape: tuple
    ghosts: int
    members: int | None = None

    @property
    def room(self):
        """Cells (west, east, south, north) of the tile in an array, the ghosts among them."""
        west, columns = whole_vectors(self.ghosts), self.shape[1]
        return west, whole_vectors(columns + self.ghosts) - columns, self.ghosts, self.ghosts

    @property
    def origin(self):
        """(row, column) of the tile's cell (0, 0) in an array."""
        return self.ghosts, self.room[0]

    def own(self, array):
        """The tile's own cells of an array."""
        west, east, south, north = self.room
        return array[..., south : array.shape[-2] - north, west : array.shape[-1] - east]

    def with_room(self, array, halo=(0, 0, 0, 0)):
        """An array that holds `halo` cells beside the tile's own, with zeros in the rest of the room."""
        west, east, south, north = (room - have for room, have in zip(self.room, halo))
        return jnp.pad(array, [(0, 0)] * (array.ndim - 2) + [(south, north), (west, east)])

    @property
    def padded(self):
        west, east, south, north = self.room
        whole = self.shape[0] + south + north, self.shape[1] + west + east
        return whole if self.members is None else (self.members, *whole)


def run(expressions, layout, over=(), interpret=False, sharers=1):
    """The values of Expressions, as arrays with room for ghosts, and how many ghosts around the tile are right.

    Args:
        expressions: to be evaluated in one loop.
        layout: a Layout of the results; what is not right in their room is 0, or keeps what was overwritten.
        over: for each expression an array that its result may overwrite, or None.
        interpret: run the GPU's kernel as Pallas interprets it, on any device: to test it.
        sharers: devices of this process that run such loops at the same time, on the same cores.

    Returns:
        (arrays, margin).

    Raises:
        Unsupported: for physics that fused loops do not have.
        HaloError: where a load reaches beyond what is valid.
    """
    graph, sources, scalars = trace_graph(expressions)
    margin = min(_margin(graph, sources), layout.ghosts)
    results = _bind(
        graph,
        [source.array for source in sources],
        scalars,
        over or [None] * len(expressions),
        origins=[source.origin for source in sources],
        dtypes=[np.dtype(e.dtype).name for e in expressions],
        layout=layout,
        margin=margin,
        interpret=interpret,
        sharers=sharers,
    )
    return results, margin


def _bind(*arguments, **parameters):
    """The primitive on what a Graph reads; arguments are those of `_call`."""
    operands, parameters = _call(*arguments, **parameters)
    return fused_loop.bind(*operands, **parameters)


def _call(graph, arrays, scalars, over, origins, dtypes, **parameters):
    """(operands, parameters) of a call that leaves out what of `arrays` and `scalars` the Graph does not read; result k
    may overwrite over[k], if not None."""
    graph, kept, kept_scalars = graph.pruned
    operands = [*(arrays[k] for k in kept), *(scalars[k] for k in kept_scalars)]
    place, aliases = {id(a): k for k, a in enumerate(operands)}, []
    for array in over:
        if array is not None and id(array) not in place:
            place[id(array)] = len(operands)
            operands.append(array)
        alias = None if array is None else place[id(array)]
        aliases.append(None if alias in aliases else alias)  # nothing is given away twice
    types = tuple(np.dtype(getattr(operand, "aval", operand).dtype).name for operand in operands[: len(kept)])
    c_source(graph, (types, tuple(dtypes)))  # raises Unsupported now, while there is another way
    chosen = {"graph": graph, "origins": tuple(origins[k] for k in kept), "aliases": tuple(aliases)}
    return operands, {**parameters, **chosen, "dtypes": tuple(dtypes)}


def _some(chosen, operands, *, graph, origins, aliases, dtypes, **parameters):
    """(operands, parameters) of the call that gives some of the results of another one, by number."""
    over = [None if aliases[k] is None else operands[aliases[k]] for k in chosen]
    arrays, numbers = operands[: len(graph.columns)], operands[len(graph.columns) :]
    types = [dtypes[k] for k in chosen]
    return _call(graph.only(chosen), arrays, numbers, over, origins, types, **parameters)


def _depending(on, graph, aliases):
    """Whether each result depends on some of the operands for which `on` holds, or may overwrite one."""

    def depends(result, alias):
        needed = graph.only([result])
        read = [*needed.reads(), *(len(graph.columns) + k for k in needed.reads("scalar"))]
        return any(on[k] for k in [*read, *([] if alias is None else [alias])])

    return [depends(k, alias) for k, alias in enumerate(aliases)]


def _margin(graph, sources):
    """How far around the tile every load is valid."""
    margin = 1 << 20
    for k, source in enumerate(sources):
        west, east, south, north = source.halo
        for row, column in graph.loads(k):
            margin = min(margin, south + row, north - row, west + column, east - column)
    if margin < 0:
        raise HaloError(f"a stencil reached {-margin} beyond the halo.")
    return margin


fused_loop = Primitive("fused_loop")
fused_loop.multiple_results = True


@fused_loop.def_abstract_eval
def _abstract(*operands, dtypes, layout, **parameters):
    return [jax.core.ShapedArray(layout.padded, np.dtype(t)) for t in dtypes]


@functools.cache
def _compiled(parameters):
    return jax.jit(lambda *operands: fused_loop.bind(*operands, **dict(parameters)))


@fused_loop.def_impl
def _run_now(*operands, **parameters):
    return _compiled(tuple(sorted(parameters.items())))(*operands)


# -- members ----------------------------------------------------------------------------------------------------------


def _batch(operands, axes, **parameters):
    """One call for all members; results that nothing of a member's own reaches are computed once, by another call."""
    own = _depending([axis is not None for axis in axes], parameters["graph"], parameters["aliases"])
    if all(own):
        return _batch_all(operands, axes, **parameters)

    def some(of_members, *operands):
        chosen = [k for k, differs in enumerate(own) if differs == of_members]
        operands, told = _some(chosen, operands, **parameters)
        return fused_loop.bind(*operands, **told)

    one = [x if axis is None else jax.lax.index_in_dim(x, 0, axis, False) for x, axis in zip(operands, axes)]
    shared = iter(some(False, *one))
    many = iter(jax.vmap(functools.partial(some, True), axes)(*operands) if any(own) else ())
    return [next(many if differs else shared) for differs in own], [0 if differs else None for differs in own]


def _batch_all(operands, axes, *, layout, aliases, **parameters):
    """A loop has one axis of members, so that those of several vmaps are put into one."""
    members, within = next(x.shape[axis] for x, axis in zip(operands, axes) if axis is not None), layout.members
    arrays = len(parameters["graph"].columns)

    def joined(k, x, axis):
        is_array = k < arrays or k in aliases
        of_members = x.ndim - (axis is not None) > (2 if is_array else 0)
        if axis is None and not of_members and k not in aliases:
            return x  # the same for all
        x = jnp.broadcast_to(x, (members, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
        if within is None:
            return x
        x = x if of_members else jnp.broadcast_to(x[:, None], (members, within, *x.shape[1:]))
        return x.reshape(members * within, *x.shape[2:])

    operands = [joined(k, x, axis) for k, (x, axis) in enumerate(zip(operands, axes))]
    layout = dataclasses.replace(layout, members=members if within is None else members * within)
    results = fused_loop.bind(*operands, layout=layout, aliases=aliases, **parameters)
    if within is not None:
        results = [x.reshape(members, within, *x.shape[1:]) for x in results]
    return results, [0] * len(results)


batching.primitive_batchers[fused_loop] = _batch


# -- derivatives ------------------------------------------------------------------------------------------------------


def _jvp(primals, tangents, *, graph, origins, aliases, dtypes, **parameters):
    """Results and their tangents: by one loop, or by two where a reverse pass is made, which wants tangents later."""
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
    types = [t for t, zero in zip(dtypes, is_zero) if not zero]
    parameters["origins"] = [*origins, *(origins[k] for k in sources)]
    if all(is_zero) or any(isinstance(t, JaxprTracer) for t in tangents):
        results = _bind(graph, arrays, numbers, over, dtypes=dtypes, **parameters)
        slopes = _bind(alone, arrays, numbers, over_slopes, dtypes=types, **parameters) if types else []
    else:
        found = _bind(both, arrays, numbers, over + over_slopes, dtypes=[*dtypes, *types], **parameters)
        results, slopes = found[: len(dtypes)], iter(found[len(dtypes) :])
    slopes = iter(slopes)
    zeros = (ad.Zero(jax.typeof(x).to_tangent_aval()) for x in results)
    return results, [none if zero else next(slopes) for none, zero in zip(zeros, is_zero)]


def _transposed(cotangents, *operands, graph, origins, aliases, dtypes, layout, margin, **parameters):
    """Cotangents of linear operands from those of the results, cell by cell; sums where a number reaches many cells."""
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
        layout=wide,
        margin=margin,
        **parameters,
    )
    places = [*made.of_sources, *(count + k for k in made.of_scalars)]
    shares = {
        k: _share(x, aval, origins[k] if k < count else None, wide.origin) for k, x, aval in zip(places, found, avals)
    }
    return [shares.get(k, ad.Zero(operand.aval)) if linear[k] else None for k, operand in enumerate(operands)]


def _fills(aval, layout):
    """Whether an operand has the shape of results."""
    return aval.shape == layout.padded


def _share(found, aval, origin, cell):
    """The cotangent of one operand, whose cell (0, 0) lies at `origin`, made of what each cell gave to it, from `cell`
    on; an origin of None is that of a number."""
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
    """Results of what is known, at once; a loop of the others is left to be transposed."""
    unknown = [not tracer.is_known() for tracer in tracers]
    later = _depending(unknown, parameters["graph"], parameters["aliases"])
    if all(later) or not any(unknown):
        return trace.default_process_primitive(fused_loop, tracers, parameters)
    now = [k for k, waits in enumerate(later) if not waits]
    then = [k for k, waits in enumerate(later) if waits]
    values = [None if wait else tracer.pval.get_known() for wait, tracer in zip(unknown, tracers)]
    operands, told = _some(now, values, **parameters)
    known = iter(fused_loop.bind(*operands, **told))
    operands, told = _some(then, tracers, **parameters)
    rest = iter(trace.default_process_primitive(fused_loop, operands, told) if then else ())
    return [next(rest if waits else known) for waits in later]


def _known_first(saveable, unknown, at_hand, equation):
    """The same for jax.checkpoint, which computes anew what is known when cotangents come."""
    later = _depending(unknown, equation.params["graph"], equation.params["aliases"])
    now = [k for k, waits in enumerate(later) if not waits]
    first = None
    if now:
        operands, told = _some(now, equation.invars, **equation.params)
        first = equation.replace(invars=operands, outvars=[equation.outvars[k] for k in now], params=told)
    missing = [x for x, here in zip(equation.invars, at_hand) if isinstance(x, Var) and not here]
    return first, equation, later, [True] * len(later), missing


ad.primitive_jvps[fused_loop] = _jvp
ad.primitive_transposes[fused_loop] = _transposed
custom_partial_eval_rules[fused_loop] = _known_now
partial_eval_jaxpr_custom_rules[fused_loop] = _known_first


# -- what it becomes --------------------------------------------------------------------------------------------------


def _on_cpu(*operands, interpret, sharers, **parameters):
    if interpret:
        return pallas_loop(*operands, interpret=True, **parameters)
    return compiled_loop(*operands, sharers=sharers, **parameters)


def _on_gpu(*operands, interpret, sharers, **parameters):
    return pallas_loop(*operands, interpret=interpret, **parameters)


def compiled_loop(*operands, graph, origins, aliases, dtypes, layout, margin, sharers, slots=(), stored=()):
    """The call of the compiled loop.

    Of the operands `slots`, by number, it reads an array in a room for many, the one whose number the last operands
    tell. The sources `stored` it puts in rooms for many before it writes over them: these are the operands before the
    last one, which tells the slot, and come back as the last results.
    """
    types = tuple(np.dtype(operand.dtype).name for operand in operands[: len(origins)])
    rooms = len(operands) - 1 - len(stored)
    over = {operand: k for k, operand in enumerate(aliases) if operand is not None}
    call = jax.ffi.ffi_call(
        TARGET,
        [jax.ShapeDtypeStruct(layout.padded, np.dtype(t)) for t in dtypes]
        + [jax.ShapeDtypeStruct(operands[rooms + k].shape, operands[rooms + k].dtype) for k in range(len(stored))],
        input_output_aliases=over | {rooms + k: len(dtypes) + k for k in range(len(stored))},
    )
    told = {slot: len(operands) - len(slots) + k for k, slot in enumerate(slots)}
    plan = _plan(graph, origins, aliases, layout, margin, sharers, told, stored)
    return call(*operands, kernel=loop_name(c_source(graph, (types, dtypes))), plan=np.asarray(plan, np.int64))


AT_ONCE, UNLESS_SHARED, LATER = range(3)  # as in loops.cpp


def _plan(graph, origins, aliases, layout, margin, sharers, told, stored):
    """The numbers that loops.cpp needs, in its order."""
    rounds = schedule(graph)
    plan = [*layout.shape, *layout.origin, margin, rounds.early, sharers, len(origins), graph.scalars, len(stored)]
    for k, origin in enumerate(origins):
        plan += [told.get(k, -1), *origin, graph.columns[k], rounds.rows_ahead(k)[0], *rounds.rows_in_all(k)]
    for operand in aliases:
        when = AT_ONCE
        if operand is not None and operand < len(origins):
            shared = UNLESS_SHARED if rounds.rows_in_all(operand) != (0, 0) else AT_ONCE
            when = LATER if rounds.must_wait(operand) else shared
        plan += [-1 if operand is None else operand, when]
    return [*plan, *stored]


mlir.register_lowering(fused_loop, mlir.lower_fun(_on_cpu, multiple_results=True), platform="cpu")
mlir.register_lowering(fused_loop, mlir.lower_fun(_on_gpu, multiple_results=True), platform="cuda")
