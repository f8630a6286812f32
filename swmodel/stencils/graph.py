"""From Expressions to a Graph of scalar operations on neighbouring cells, in which each operation appears once.

Traced at one cell, a time step is a long list of operations. A quantity that is needed at four corners appears four
times, each time with its own loads, although it is one operation at four places. In a Graph it is one node. Others
refer to it by `At(node, row, column)`, the value of that node so many rows and columns away.

A Graph is hashable and holds no arrays, so that one compiled loop serves every grid, tile and rank. The names of fields
and the lines of Python are for reports, and do not count when two Graphs are compared.
"""

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import Jaxpr
from numpy.typing import DTypeLike

from .expressions import At, Constant, Expression, Node, Ref, Source, Trace, Unsupported, line_of


@dataclasses.dataclass(frozen=True)
class Graph:
    """The operations of a loop at one cell.

    Attributes:
        nodes: Nodes, in an order in which arguments precede the nodes that use them.
        outputs: the results, an At each.
        columns: for each source, whether it is uniform along x.
        scalars: the number of numbers that the loop gets as operands.
        names: of the results, for reports.
    """

    nodes: tuple
    outputs: tuple
    columns: tuple
    scalars: int
    names: tuple = dataclasses.field(default=(), compare=False, repr=False)

    @functools.cached_property
    def _hash(self):
        return hash((self.nodes, self.outputs, self.columns, self.scalars))

    def __hash__(self):
        return self._hash

    @functools.cached_property
    def reached(self) -> dict[int, set[tuple[int, int]]]:
        """{node: the (row, column) offsets from the cell at which it is needed}, users before arguments."""
        found = {}
        for ref in self.outputs:
            found.setdefault(ref.node, set()).add((ref.row, ref.column))
        for number in range(len(self.nodes) - 1, -1, -1):
            for ref in self.arguments(number) if number in found else ():
                along = self.nodes[ref.node].axes == 2
                down = self.nodes[ref.node].axes >= 1
                places = {((j + ref.row) * down, (i + ref.column) * along) for j, i in found[number]}
                found.setdefault(ref.node, set()).update(places)
        return dict(sorted(found.items(), reverse=True))

    def arguments(self, number: int) -> list[At]:
        """The arguments of a node that are nodes."""
        return [a for a in self.nodes[number].arguments if isinstance(a, At)]

    def loads(self, source: int) -> list[tuple[int, int]]:
        """The (row, column) offsets at which a source is read."""
        nodes = (n for n in self.reached if self.nodes[n].name == "load" and self.nodes[n].parameters[0] == source)
        return sorted(set().union(*(self.reached[n] for n in nodes)))

    def reads(self, kind: str = "load") -> list[int]:
        """The sources that are read, by number; with "scalar" the numbers among the operands that are read."""
        return sorted({node.parameters[0] for node in self.nodes if node.name == kind})

    def only(self, results: Sequence[int]) -> "Graph":
        """The Graph of some of the results, by number."""
        names = tuple(self.names[k] for k in results if k < len(self.names))
        return dataclasses.replace(self, outputs=tuple(self.outputs[k] for k in results), names=names).trimmed()

    def with_sum(self, result: int, source: int, dtype: str) -> "Graph":
        """The same with the value of a further source, number `source`, added to a result."""
        count = len(self.nodes)
        load, total = Node("load", (), dtype, (source,)), Node("add", (self.outputs[result], At(count)), dtype)
        outputs = tuple(At(count + 1) if k == result else o for k, o in enumerate(self.outputs))
        return Graph((*self.nodes, load, total), outputs, (*self.columns, False), self.scalars, self.names)

    @functools.cached_property
    def pruned(self) -> tuple["Graph", list[int], list[int]]:
        """(the same without sources and scalars that are not read, the numbers of those that are, of both kinds)."""
        kept = {kind: self.reads(kind) for kind in ("load", "scalar")}

        def renumbered(node):
            if node.name not in kept:
                return node
            return dataclasses.replace(node, parameters=(kept[node.name].index(node.parameters[0]),))

        columns = tuple(self.columns[k] for k in kept["load"])
        new = Graph(tuple(map(renumbered, self.nodes)), self.outputs, columns, len(kept["scalar"]), self.names)
        return new, kept["load"], kept["scalar"]

    def trimmed(self) -> "Graph":
        """The same without nodes that no result needs."""
        numbers = sorted(self.reached)
        new = {old: k for k, old in enumerate(numbers)}

        def renumbered(a):
            return dataclasses.replace(a, node=new[a.node]) if isinstance(a, At) else a

        nodes = (self.nodes[n] for n in numbers)
        nodes = tuple(dataclasses.replace(node, arguments=tuple(map(renumbered, node.arguments))) for node in nodes)
        return dataclasses.replace(self, nodes=nodes, outputs=tuple(map(renumbered, self.outputs)))


COMMUTE = ("add", "mul", "max", "min", "and", "or", "xor", "eq", "ne")


class Builder:
    """Builds the nodes of a Graph. Operations that differ only in their place become one node.

    Attributes:
        nodes: the Nodes so far.
        line: the Line of the nodes that are added next.
    """

    def __init__(self):
        self.nodes, self.line, self._known = [], None, {}

    def add(self, name: str, arguments: Iterable, dtype: DTypeLike, parameters: tuple = ()) -> Any:
        """The At of an operation on At and Constants with offsets from one cell; common factors are taken out."""
        if np.issubdtype(np.dtype(dtype), np.floating):
            found = Factors(self, np.dtype(dtype).name).of(name, list(arguments))
            if found is not None:
                return found
        return self.put(name, arguments, dtype, parameters)

    def put(self, name: str, arguments: Iterable, dtype: DTypeLike, parameters: tuple = ()) -> At:
        """The At of an operation, as it is."""
        arguments = list(arguments)
        if name in COMMUTE:
            arguments.sort(key=lambda a: (1, 0, 0, 0) if isinstance(a, Constant) else (0, a.node, a.row, a.column))
        refs = [a for a in arguments if isinstance(a, At)]
        axes = max((self.nodes[a.node].axes for a in refs), default=0)
        row = next((a.row for a in refs if self.nodes[a.node].axes >= 1), 0)
        column = next((a.column for a in refs if self.nodes[a.node].axes == 2), 0)
        arguments = tuple(self.shifted(a, -row, -column) for a in arguments)
        return At(self._number(Node(name, arguments, np.dtype(dtype).name, parameters, axes)), row, column)

    def load(self, source: int, dtype: DTypeLike, is_column: bool, label: str = "") -> At:
        return At(self._number(Node("load", (), np.dtype(dtype).name, (source,), 1 if is_column else 2, label=label)))

    def scalar(self, number: int, dtype: DTypeLike) -> At:
        return At(self._number(Node("scalar", (), np.dtype(dtype).name, (number,), 0)))

    def inside(self, ref: At, box: tuple) -> At:
        """`ref`, which varies, where the cell is in the box, else 0."""
        factors = Factors(self, self.nodes[ref.node].dtype)
        scale, rest = factors.split(ref)
        if scale is not None and (isinstance(scale, Constant) or self.nodes[scale.node].axes == 0):
            return factors.scaled(scale, self.inside(rest, box))
        west, east, south, north = box
        box = west + ref.column, east - ref.column, south + ref.row, north - ref.row
        node = Node("inside", (At(ref.node),), self.nodes[ref.node].dtype, box, self.nodes[ref.node].axes)
        return At(self._number(node), ref.row, ref.column)

    def shifted(self, ref: Ref, row: int, column: int) -> Any:
        """A reference with `row` and `column` added to its offset; a uniform value unchanged."""
        if isinstance(ref, Constant) or self.nodes[ref.node].axes == 0:
            return ref
        return At(ref.node, ref.row + row, ref.column + (column if self.nodes[ref.node].axes == 2 else 0))

    def as_ref(self, reference: Ref) -> At:
        return self.add("constant", (reference,), reference.dtype) if isinstance(reference, Constant) else reference

    def graph(self, outputs: Iterable, columns: Iterable[bool], scalars: int, names: Iterable[str] = ()) -> Graph:
        """The Graph of the nodes that `outputs` depend on."""
        outputs = tuple(map(self.as_ref, outputs))
        return Graph(tuple(self.nodes), outputs, tuple(columns), scalars, tuple(names)).trimmed()

    def _number(self, node):
        if node not in self._known:
            self._known[node] = len(self.nodes)
            self.nodes.append(dataclasses.replace(node, line=self.line))
        return self._known[node]

    def inline(self, jaxpr: Jaxpr, environment: dict, trace: Trace | None = None) -> list:
        """Add the operations of a jaxpr and of the calls in it, and return its results.

        Args:
            environment: {variable of the jaxpr: At or Constant}.
            trace: the Trace that made the jaxpr, with the names of its Sources and the Lines of its equations.
        """

        def read(v):
            return _constant(v.val, v.aval.dtype) if hasattr(v, "val") else environment[v]

        for eqn in jaxpr.eqns:
            if trace is not None:
                self.line = line_of(eqn, trace.lines) or self.line
            environment.update(zip(eqn.outvars, self._equation(eqn, [read(v) for v in eqn.invars], trace)))
        return [read(v) for v in jaxpr.outvars]

    def _equation(self, eqn, arguments, trace):
        name: str = eqn.primitive.name
        if name in INLINED:
            inner = eqn.params.get("jaxpr") or eqn.params["call_jaxpr"]
            inner, consts = (inner.jaxpr, inner.consts) if hasattr(inner, "consts") else (inner, ())
            given = dict(zip(inner.constvars, (_constant(c, np.result_type(c)) for c in consts)))
            return self.inline(inner, {**given, **dict(zip(inner.invars, arguments))}, trace)
        if len(eqn.outvars) != 1 or eqn.outvars[0].aval.shape:
            raise Unsupported(f"{name} with results of shapes {[v.aval.shape for v in eqn.outvars]}")
        aval = eqn.outvars[0].aval
        if name == "load":
            number, source = eqn.params["source"], trace.sources[eqn.params["source"]]
            return [self.load(number, aval.dtype, source.is_column, source.name)]
        if name == "shift":
            return [self.shifted(*arguments, **eqn.params)]
        if name in SKIPPED:
            return arguments
        name = RENAMED.get(name, name)
        parameters = tuple(eqn.params[key] for key in KEPT.get(name, ()))
        return [self.add(name, arguments, aval.dtype, parameters)]


KEPT = {"integer_pow": ("y",)}  # the parameters of JAX's primitives that nodes keep
INLINED = ("jit", "pjit", "closed_call", "core_call")  # not custom_jvp_call: its own rule would be lost
SKIPPED = ("copy", "optimization_barrier", "reshard")
RENAMED = {"add_any": "add"}


def trace_graph(expressions: Sequence[Expression], names: Sequence[str] = ()) -> tuple[Graph, list[Source], list]:
    """(the Graph that evaluates `expressions` at one cell, its Sources, the numbers that are its operands).

    Args:
        names: of the results.
    """
    trace = Trace()
    closed = jax.make_jaxpr(lambda: [trace.at(e) for e in expressions])()
    builder = Builder()
    numbers = {id(c): c for c in closed.consts}
    for constant in numbers.values():
        if np.ndim(constant) != 0:
            raise Unsupported(f"an array of shape {np.shape(constant)} inside a pointwise function")
    order = {key: k for k, key in enumerate(numbers)}
    environment = {v: builder.scalar(order[id(c)], v.aval.dtype) for v, c in zip(closed.jaxpr.constvars, closed.consts)}
    outputs = builder.inline(closed.jaxpr, environment, trace)
    columns = [source.is_column for source in trace.sources]
    return builder.graph(outputs, columns, len(numbers), names), trace.sources, list(numbers.values())


def _constant(value, dtype):
    return Constant(np.asarray(value).item(), np.dtype(dtype).name)


# -- common factors ----------------------------------------------------------------------------------------------------


class Factors:
    """Takes out factors that do not vary along a row: a x - a y becomes a (x - y), and (a x) (b y) becomes (a b) (x y).

    Products of such factors are computed once in a row, or once in a loop, and a difference of neighbours has one
    product in place of two.

    Args:
        builder: a Builder.
        dtype: the type of all values.
    """

    def __init__(self, builder: Builder, dtype: str):
        self.builder, self.dtype = builder, dtype

    def of(self, name: str, arguments: Iterable) -> Any:
        """The At (or Constant) of an operation where there are factors, else None."""
        rules = {
            "neg": self._negative,
            "mul": self._product,
            "div": self._quotient,
            "add": self._sum,
            "sub": self._difference,
        }
        try:
            return rules[name](*arguments) if name in rules else None
        except ArithmeticError:  # the product of constants would overflow or underflow
            return None

    def split(self, ref: Ref) -> tuple[Any, Any]:
        """(the factor of a product that does not vary along a row, the other factor); (None, ref) if there is none."""
        if isinstance(ref, Constant) or self.builder.nodes[ref.node].name != "mul":
            return None, ref
        arguments = [self.builder.shifted(a, ref.row, ref.column) for a in self.builder.nodes[ref.node].arguments]
        for factor, rest in (arguments, arguments[::-1]):
            if not self._varies(factor) and self._varies(rest):
                return factor, rest
        return None, ref

    def scaled(self, factor: Any, ref: Any) -> Any:
        """factor * ref."""
        inner, ref = self.split(ref)
        factor = self._times(factor, inner)
        return (
            ref if factor is None or factor == self._number(1.0) else self.builder.put("mul", [factor, ref], self.dtype)
        )

    def _varies(self, a):
        return isinstance(a, At) and self.builder.nodes[a.node].axes == 2

    def _number(self, value):
        limits = np.finfo(self.dtype)
        if value and not limits.tiny <= abs(value) <= limits.max:
            raise ArithmeticError(value)
        return Constant(float(value), self.dtype)

    def _times(self, a, b):
        """The product of two factors, either of which may be None."""
        if a is None or b is None:
            return b if a is None else a
        if isinstance(a, Constant) and isinstance(b, Constant):
            return self._number(a.value * b.value)
        one = self._number(1.0)
        return b if a == one else a if b == one else self.builder.put("mul", [a, b], self.dtype)

    def _over(self, a, b):
        if b is None:
            return a
        a = self._number(1.0) if a is None else a
        if isinstance(a, Constant) and isinstance(b, Constant) and b.value:
            return self._number(a.value / b.value)
        return self.builder.put("div", [a, b], self.dtype)

    def _negative(self, x):
        return self.scaled(self._number(-1.0), x) if self._varies(x) else None

    def _product(self, x, y):
        if not self._varies(x) or not self._varies(y):
            factor, x = (x, y) if self._varies(y) else (y, x)
            return self.scaled(factor, x) if self._varies(x) else None
        (a, x), (b, y) = self.split(x), self.split(y)
        return self.scaled(self._times(a, b), self.builder.put("mul", [x, y], self.dtype))

    def _quotient(self, x, y):
        if not self._varies(y):
            return self.scaled(self._over(None, y), x) if self._varies(x) else None
        b, y = self.split(y)
        a, x = self.split(x) if self._varies(x) else (x, self._number(1.0))
        return self.scaled(self._over(a, b), self.builder.put("div", [x, y], self.dtype))

    def _sum(self, x, y):
        for zero, other in ((x, y), (y, x)):
            if zero == self._number(0.0):
                return other
        for one, other in ((x, y), (y, x)):
            chosen = self._chosen(one, other)
            if chosen is not None:
                return chosen
        return self._combined(x, y, "add", "sub")

    def _chosen(self, x, y):
        """(a where p, else 0) + (b where not p, else 0) as a where p, else b; None where x + y is no such sum."""
        if not self._varies(x) or not self._varies(y):
            return None
        nodes = [self.builder.nodes[ref.node] for ref in (x, y)]
        if any(node.name != "select_n" or len(node.arguments) != 3 for node in nodes):
            return None
        first, second = (
            [self.builder.shifted(a, ref.row, ref.column) for a in node.arguments] for node, ref in zip(nodes, (x, y))
        )
        zero = self._number(0.0)
        if first[0] != second[0] or self._value(first[1]) != zero or self._value(second[2]) != zero:
            return None
        return self.builder.put("select_n", [first[0], second[1], first[2]], self.dtype)

    def _value(self, ref):
        """The Constant that a reference is, or the reference."""
        if isinstance(ref, At) and self.builder.nodes[ref.node].name in ("constant", "convert_element_type"):
            (argument,) = self.builder.nodes[ref.node].arguments
            if isinstance(argument, Constant):
                return self._number(argument.value)
        return ref

    def _difference(self, x, y):
        return x if y == self._number(0.0) else self._combined(x, y, "sub", "add")

    def _combined(self, x, y, name, opposite):
        """x + y or x - y with the factor that both have taken out; None where they have none in common."""
        if not self._varies(x) or not self._varies(y):
            return None
        (a, x), (b, y) = self.split(x), self.split(y)
        a, b = (self._number(1.0) if factor is None else factor for factor in (a, b))
        if a == b:
            return self.scaled(a, self.builder.put(name, [x, y], self.dtype))
        if isinstance(a, Constant) and isinstance(b, Constant) and a.value == -b.value:
            if b.value == 1.0:  # -x + y is y - x, and -x - y is -(x + y)
                a, x, y = (b, y, x) if name == "add" else (a, x, y)
            return self.scaled(a, self.builder.put(opposite, [x, y], self.dtype))
        return None
