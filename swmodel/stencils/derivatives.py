"""Derivatives of Graphs, as Graphs: the tangent, and the transpose of the linear part, in gather form.

The tangent of a node follows from its arguments' tangents by JAX's own rule for its operation. Quotients have a rule of
their own, with one division for all quotients by the same number. The transpose visits the nodes in reverse order:
where a node reads another one three cells to the east, its cotangent contributes to that one from three cells to the
west. So the adjoint of a stencil loop is a stencil loop, which gathers: no two threads write to the same cell. PerforAD
derives adjoint stencils in this form from symbolic expressions (Hueckelheim et al. 2019, arXiv:1907.02818); here the
nodes of a traced program take the place of symbols.

Outside the region that the loop has computed cotangents are zero. Loads and quotients may be infinite or NaN there, and
zero times NaN is NaN: such values are masked by an `inside` node.
"""

import dataclasses
import functools

import jax
import numpy as np
from jax import lax

from .compiled import compares_rounded
from .graph import At, Builder, Constant, Graph, Unsupported

OPERATIONS = {
    "add": lax.add, "sub": lax.sub, "mul": lax.mul, "div": lax.div, "neg": lax.neg, "max": lax.max, "min": lax.min,
    "gt": lax.gt, "lt": lax.lt, "ge": lax.ge, "le": lax.le, "eq": lax.eq, "ne": lax.ne, "and": lax.bitwise_and,
    "or": lax.bitwise_or, "xor": lax.bitwise_xor, "not": lax.bitwise_not, "select_n": lax.select_n, "sqrt": lax.sqrt,
    "rsqrt": lax.rsqrt, "exp": lax.exp, "log": lax.log, "tanh": lax.tanh, "sin": lax.sin, "cos": lax.cos,
    "floor": lax.floor, "cbrt": lax.cbrt, "abs": lax.abs, "sign": lax.sign, "pow": lax.pow, "square": lax.square,
    "stop_gradient": lambda x: x, "one_minus_square": lambda x: (1 - x) * (1 + x),
}  # fmt: skip
FINITE = {  # operations that are finite for finite arguments, except for overflow, with all their derivatives
    "scalar", "constant", "convert_element_type", "inside", "stop_gradient", "select_n", "add", "sub", "mul",
    "neg", "abs", "sign", "floor", "max", "min", "square", "one_minus_square", "tanh", "sin", "cos",
}  # fmt: skip


@functools.lru_cache(maxsize=64)
def tangent(graph: Graph, sources: tuple[int, ...], scalars: tuple[int, ...]) -> tuple[Graph, Graph, tuple[bool, ...]]:
    """The tangent of a Graph in some of its arguments.

    Args:
        graph: a Graph.
        sources, scalars: the numbers of those that have a tangent. These tangents are the last sources, and the last
            scalars, of the new Graphs, in this order.

    Returns:
        (the Graph of the results' tangents, the Graph of the results and their tangents, for each result whether its
        tangent is zero, in which case neither Graph has it).
    """
    builder = Builder()
    primal, found = [], {}
    is_free = not compares_rounded(graph)  # to round quotients in another way than the Graph itself
    for number, node in enumerate(graph.nodes):
        builder.line = node.line
        arguments = [_moved(builder, a, primal) for a in node.arguments]
        if node.name == "div" and is_free and isinstance(arguments[1], At):
            primal.append(builder.add("mul", [arguments[0], _inverse(builder, arguments[1], node.dtype)], node.dtype))
        else:
            primal.append(_copied(builder, node, arguments, graph.columns))
        builder.line = _derived(node, "tangent of ")
        slope = _slope(builder, node, arguments, found, sources, scalars, graph)
        if slope is not None:
            found[number] = slope
    results = [builder.shifted(primal[o.node], o.row, o.column) for o in graph.outputs]
    slopes = [builder.shifted(found[o.node], o.row, o.column) if o.node in found else None for o in graph.outputs]
    columns = (*graph.columns, *(graph.columns[k] for k in sources))
    numbers = graph.scalars + len(scalars)
    known = [slope for slope in slopes if slope is not None]
    names = [f"tangent of {name}" for name, slope in zip(graph.names, slopes) if slope is not None]
    return (
        builder.graph(known, columns, numbers, names),
        builder.graph([*results, *known], columns, numbers, [*graph.names, *names] if graph.names else ()),
        tuple(slope is None for slope in slopes),
    )


def _cotangent(name):
    """The name of a cotangent: that of a tangent of x is one of x."""
    return f"cotangent of {name.removeprefix('tangent of ')}"


def _derived(node, role):
    return None if node.line is None else node.line.derived(role)


def _moved(builder, argument, refs):
    """An argument of an old node in terms of the new ones."""
    return (
        argument
        if isinstance(argument, Constant)
        else builder.shifted(refs[argument.node], argument.row, argument.column)
    )


def _copied(builder, node, arguments, columns, number=None, further=0):
    """The At of a node's copy in the new Graph.

    Args:
        number: of a source or scalar in the new Graph, if it differs.
        further: how many cells further the new Graph computes, so that boxes lie so much further inside.
    """
    number = node.parameters[0] if number is None and node.name in ("load", "scalar") else number
    if node.name == "load":
        return builder.load(number, node.dtype, columns[node.parameters[0]], node.label)
    if node.name == "scalar":
        return builder.scalar(number, node.dtype)
    if node.name == "inside":
        return builder.inside(arguments[0], tuple(n + further for n in node.parameters))
    return builder.add(node.name, arguments, node.dtype, node.parameters)


def _slope(builder, node, arguments, found, sources, scalars, graph):
    """The tangent of a node in the new Graph, or None."""
    if not node.dtype.startswith("float") or node.name == "stop_gradient":
        return None
    (first,) = node.parameters[:1] or (None,)
    if node.name == "load":
        at = sources.index(first) if first in sources else None
        if at is None:
            return None
        label = f"tangent of {node.label}"
        return builder.load(len(graph.columns) + at, node.dtype, graph.columns[first], label)
    if node.name == "scalar":
        return builder.scalar(graph.scalars + scalars.index(first), node.dtype) if first in scalars else None
    slopes = [_moved(builder, a, found) if isinstance(a, At) and a.node in found else None for a in node.arguments]
    if not any(slope is not None for slope in slopes):
        return None
    if node.name == "inside":
        return builder.inside(slopes[0], node.parameters)
    if node.name == "div":
        return _slope_of_quotient(builder, node.dtype, *arguments, *slopes)
    active = tuple(slope is not None for slope in slopes)
    dtypes = tuple(a.dtype if isinstance(a, Constant) else builder.nodes[a.node].dtype for a in arguments)
    rule = _rule(node.name, node.dtype, node.parameters, dtypes, active)
    given = dict(zip(rule.invars, [*arguments, *(slope for slope in slopes if slope is not None)]))
    return builder.inline(rule, given)[0]


def _inverse(builder, y, dtype):
    return builder.add("div", [Constant(1.0, dtype), y], dtype)


def _slope_of_quotient(builder, dtype, x, y, slope_x, slope_y):
    """The tangent of x / y, (slope_x - (x / y) slope_y) / y, with 1 / y, which quotients by the same y share."""
    inverse = _inverse(builder, y, dtype)
    if slope_y is None:
        return builder.add("mul", [slope_x, inverse], dtype)
    change = builder.add("mul", [builder.add("mul", [x, inverse], dtype), slope_y], dtype)
    total = builder.add("neg", [change], dtype) if slope_x is None else builder.add("sub", [slope_x, change], dtype)
    return builder.add("mul", [total, inverse], dtype)


@functools.cache
def _rule(name, dtype, parameters, dtypes, active):
    """The jaxpr of a node's tangent from its arguments and the tangents of those that are active."""

    def of(values):
        if name == "integer_pow":
            return lax.integer_pow(values[0], parameters[0])
        if name in ("convert_element_type", "constant"):
            return values[0].astype(dtype)
        if name not in OPERATIONS:
            raise Unsupported(f"the derivative of {name!r}")
        return OPERATIONS[name](*values)

    def slope(*all_):
        values, tangents = all_[: len(dtypes)], all_[len(dtypes) :]

        def of_active(*some):
            some = iter(some)
            return of([next(some) if on else x for x, on in zip(values, active)])

        return jax.jvp(of_active, tuple(x for x, on in zip(values, active) if on), tangents)[1]

    like = [jax.ShapeDtypeStruct((), np.dtype(t)) for t in dtypes]
    tangents = [x for x, on in zip(like, active) if on]
    return jax.make_jaxpr(slope)(*like, *tangents).jaxpr


@dataclasses.dataclass(frozen=True)
class Transpose:
    """The transpose of a Graph: a Graph whose results are cotangents, and the meaning of its operands and results.

    Attributes:
        graph: the new Graph. It reads `sources` of the old one, and then the cotangents of `results`. Its results are
            the cotangents of `of_sources`, and then, cell by cell, those of `of_scalars`.
        sources, scalars: the numbers of the old Graph's sources and scalars that it reads, which are not linear.
        results: the numbers of the old Graph's results whose cotangents it reads.
        of_sources, of_scalars: the numbers of the linear sources and scalars whose cotangents it computes.
        reach: the number of cells that it computes beyond those of the old loop.
    """

    graph: Graph
    sources: tuple
    scalars: tuple
    results: tuple
    of_sources: tuple
    of_scalars: tuple
    reach: int


@functools.lru_cache(maxsize=64)
def transpose(
    graph: Graph, sources: tuple[int, ...], scalars: tuple[int, ...], results: tuple[int, ...]
) -> "Transpose":
    """The Transpose of a Graph that is linear in `sources` and `scalars`, for cotangents of `results`; by number."""
    linear = _linear(graph, sources, scalars)
    boxes = _boxes(graph, results)
    ends = [n for n in linear if n in boxes and graph.nodes[n].name in ("load", "scalar")]
    reach = max((max(-b[0], b[1], -b[2], b[3]) for b in (boxes[n] for n in ends)), default=0)
    kept = [k for k in graph.reads() if k not in sources]
    kept_scalars = [k for k in graph.reads("scalar") if k not in scalars]
    builder = Builder()
    primal = _primal(builder, graph, linear, kept, kept_scalars, boxes, reach)
    inset = (reach,) * 4
    shares = {n: [] for n in linear}
    for k, number in enumerate(results):
        out = graph.outputs[number]
        if out.node in linear:
            name = graph.names[number] if number < len(graph.names) else f"result {number}"
            arrived = builder.load(len(kept) + k, graph.nodes[out.node].dtype, False, _cotangent(name))
            shares[out.node].append(builder.shifted(builder.inside(arrived, inset), -out.row, -out.column))
    total, pull = {}, _Pull(builder, graph, linear, primal, reach)
    for n in sorted(linear, reverse=True):
        if shares[n]:
            builder.line = _derived(graph.nodes[n], "cotangent of ")
            total[n] = _sum(builder, shares[n], graph.nodes[n].dtype)
            for ref, term in pull.through(graph.nodes[n], total[n], _within(boxes[n], reach)):
                shares[ref.node].append(builder.shifted(term, -ref.row, -ref.column))

    def found(kind, wanted):
        nodes = {graph.nodes[n].parameters[0]: total[n] for n in ends if graph.nodes[n].name == kind and n in total}
        return [k for k in wanted if k in nodes], [nodes[k] for k in wanted if k in nodes]

    of_sources, outputs = found("load", sources)
    of_scalars, more = found("scalar", scalars)
    columns = [*(graph.columns[k] for k in kept), *(False for _ in results)]
    labels = {node.parameters[0]: node.label for node in graph.nodes if node.name == "load"}
    names = [_cotangent(labels[k]) for k in of_sources] + [f"cotangent of number {k}" for k in of_scalars]
    made = builder.graph([*outputs, *more], columns, len(kept_scalars), names)
    return Transpose(
        made, tuple(kept), tuple(kept_scalars), tuple(results), tuple(of_sources), tuple(of_scalars), reach
    )


def _sum(builder, terms, dtype):
    return functools.reduce(lambda a, b: builder.add("add", [a, b], dtype), terms)


def _linear(graph, sources, scalars):
    """The nodes that depend on the linear sources and scalars."""
    found = set()
    for number, node in enumerate(graph.nodes):
        ends = {"load": sources, "scalar": scalars}.get(node.name)
        if node.parameters[0] in ends if ends is not None else any(a.node in found for a in graph.arguments(number)):
            found.add(number)
    return found


def _boxes(graph, results):
    """{node: (west, east, south, north), the least and largest offsets along x and y at which it is needed}."""
    boxes = {}

    def grow(ref, box):
        west, east, south, north = box
        new = west + ref.column, east + ref.column, south + ref.row, north + ref.row
        old = boxes.get(ref.node, new)
        boxes[ref.node] = tuple(f(a, b) for f, a, b in zip((min, max, min, max), old, new))

    for k in results:
        grow(graph.outputs[k], (0, 0, 0, 0))
    for number in range(len(graph.nodes) - 1, -1, -1):
        for ref in graph.arguments(number) if number in boxes else ():
            grow(ref, boxes[number])
    return boxes


def _within(box, reach):
    """The cells at which a node was needed, as parameters of an "inside" in a loop that computes `reach` cells more."""
    west, east, south, north = box
    return west + reach, reach - east, south + reach, reach - north


def _primal(builder, graph, linear, kept, kept_scalars, boxes, reach):
    """{node: its At in the new Graph} of the nodes that are not linear, masked where they may be infinite or NaN."""
    refs, places = {}, {"load": kept, "scalar": kept_scalars}
    for number, node in enumerate(graph.nodes):
        place = None
        if node.name in places:
            known = node.parameters[0] in places[node.name]
            place = places[node.name].index(node.parameters[0]) if known else None
        else:
            known = all(a.node in refs for a in graph.arguments(number))
        if known and number not in linear:
            builder.line = node.line
            arguments = [_moved(builder, a, refs) for a in node.arguments]
            ref = _copied(builder, node, arguments, graph.columns, place, reach)
            real = node.axes > 0 and node.dtype.startswith("float")
            bounded = not real or _is_finite(node) or number not in boxes
            refs[number] = ref if bounded else builder.inside(ref, _within(boxes[number], reach))
    return refs


def _is_finite(node):
    """Whether a node and its derivatives are finite if its arguments are."""
    return node.name in FINITE or (node.name == "integer_pow" and node.parameters[0] >= 0)


@dataclasses.dataclass(frozen=True)
class _Pull:
    """Propagates cotangents from nodes to their linear arguments."""

    builder: Builder
    graph: Graph
    linear: set
    primal: dict
    reach: int

    def through(self, node, cotangent, box):
        """[(linear argument, its share of the cotangent, at the node's cell)].

        Quotients are finite only in `box`, where the node was needed.
        """
        arguments, is_linear = node.arguments, [isinstance(a, At) and a.node in self.linear for a in node.arguments]
        others = [None if linear else _moved(self.builder, a, self.primal) for a, linear in zip(arguments, is_linear)]
        if node.name in ("load", "scalar"):
            return []
        if node.name in ("mul", "div") and sum(is_linear) == 1 and (node.name == "mul" or is_linear[0]):
            k = is_linear.index(True)
            return [(arguments[k], self._times(node, [cotangent, others[1 - k]], box))]
        if node.name == "select_n" and len(arguments) == 3 and not is_linear[0]:
            zero = Constant(0.0, node.dtype)
            picks = [others[0], cotangent, zero], [others[0], zero, cotangent]
            chosen = (self.builder.add(node.name, pick, node.dtype) for pick in picks)
            return [(a, share) for a, share, on in zip(arguments[1:], chosen, is_linear[1:]) if on]
        shares = self._linear_shares(node, cotangent)
        return [(a, share()) for a, share, on in zip(arguments, shares, is_linear) if on]

    def _times(self, node, factors, box):
        term = self.builder.add(node.name, factors, node.dtype)
        is_quotient = node.name == "div" and isinstance(factors[1], At) and self.builder.nodes[factors[1].node].axes
        return self.builder.inside(term, box) if is_quotient else term

    def _linear_shares(self, node, cotangent):
        def same():
            return cotangent

        def minus():
            return self.builder.add("neg", [cotangent], node.dtype)

        def converted():
            argument = self.graph.nodes[node.arguments[0].node]
            return self.builder.add("convert_element_type", [cotangent], argument.dtype)

        def boxed():
            return self.builder.inside(cotangent, tuple(n + self.reach for n in node.parameters))

        shares = {
            "add": (same, same),
            "sub": (same, minus),
            "neg": (minus,),
            "convert_element_type": (converted,),
            "inside": (boxed,),
        }
        if node.name not in shares:
            raise Unsupported(f"the transpose of {node.name!r}")
        return shares[node.name]
