"""From Expressions to a Program: scalar operations in order, without loops, with sizes left open.

A Program is hashable and knows no arrays, so that one compiled loop serves every grid, tile and rank.
"""
import dataclasses
from typing import Any

import jax
import numpy as np

from .expressions import Trace

__all__ = ["Operation", "Program", "Unsupported", "trace_program"]


class Unsupported(Exception):
    """An operation that fused loops do not have; the caller goes back to arrays."""


@dataclasses.dataclass(frozen=True)
class Operation:
    """One line: `name` of `arguments` (numbers of earlier lines, or Constants), giving a `dtype`.

    "load" has parameters (source, row, column, stored dtype), "scalar" (its number), the others those of the JAX
    primitive of that name that matter.
    """

    name: str
    arguments: tuple
    dtype: str
    parameters: tuple = ()


@dataclasses.dataclass(frozen=True)
class Constant:
    value: Any
    dtype: str


@dataclasses.dataclass(frozen=True)
class Program:
    """What is computed at a cell.

    Attributes:
        operations: in order.
        outputs: numbers of the lines that are stored.
        columns: for each source, whether it does not vary along x.
        scalars: how many numbers come from outside.
    """

    operations: tuple
    outputs: tuple
    columns: tuple
    scalars: int

    def loads(self, source):
        """The (row, column) offsets at which a source is read."""
        return sorted({op.parameters[1:3] for op in self.operations if op.name == "load" and op.parameters[0] == source})


KEPT = {"integer_pow": ("y",)}  # parameters of an operation that matter here
INLINED = ("jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call", "core_call")
SKIPPED = ("stop_gradient", "copy", "optimization_barrier")


def trace_program(expressions):
    """(the Program that evaluates `expressions` at one cell, its Sources, the numbers that come from outside)."""
    trace = Trace()
    closed = jax.make_jaxpr(lambda: [trace.at(e, 0, 0) for e in expressions])()
    lines = _Lines()
    numbers = {id(c): c for c in closed.consts}
    for constant in numbers.values():
        if np.ndim(constant) != 0:
            raise Unsupported(f"an array of shape {np.shape(constant)} inside a pointwise function")
    order = {key: k for k, key in enumerate(numbers)}
    environment = {
        v: lines.add("scalar", (), v.aval.dtype, (order[id(c)],)) for v, c in zip(closed.jaxpr.constvars, closed.consts)
    }
    outputs = lines.inline(closed.jaxpr, environment)
    columns = tuple(source.is_column for source in trace.sources)
    program = Program(tuple(lines.operations), tuple(map(lines.as_line, outputs)), columns, len(numbers))
    return program, trace.sources, list(numbers.values())


class _Lines:
    """Operations so far; the same one is not written twice."""

    def __init__(self):
        self.operations, self._known = [], {}

    def add(self, name, arguments, dtype, parameters=()):
        operation = Operation(name, tuple(arguments), np.dtype(dtype).name, parameters)
        if operation not in self._known:
            self._known[operation] = len(self.operations)
            self.operations.append(operation)
        return self._known[operation]

    def as_line(self, reference):
        if isinstance(reference, Constant):
            return self.add("constant", (reference,), reference.dtype)
        return reference

    def inline(self, jaxpr, environment):
        """Add the operations of a jaxpr, those of calls inside it too; what its results are called here."""

        def read(v):
            return _constant(v.val, v.aval.dtype) if hasattr(v, "val") else environment[v]

        for eqn in jaxpr.eqns:
            arguments = [read(v) for v in eqn.invars]
            results = self._equation(eqn, arguments)
            environment.update(zip(eqn.outvars, results))
        return [read(v) for v in jaxpr.outvars]

    def _equation(self, eqn, arguments):
        name, (aval, *_) = eqn.primitive.name, [v.aval for v in eqn.outvars]
        if any(v.aval.shape for v in eqn.outvars):
            raise Unsupported(f"{name} with a result of shape {aval.shape}")
        if name in INLINED:
            inner = eqn.params.get("jaxpr") or eqn.params["call_jaxpr"]
            inner, consts = (inner.jaxpr, inner.consts) if hasattr(inner, "consts") else (inner, ())
            given = dict(zip(inner.constvars, (_constant(c, np.result_type(c)) for c in consts)))
            return self.inline(inner, {**given, **dict(zip(inner.invars, arguments))})
        if name == "load":
            p = eqn.params
            return [self.add(name, (), aval.dtype, (p["source"], p["row"], p["column"]))]
        if name in SKIPPED:
            return arguments
        parameters = tuple(eqn.params[key] for key in KEPT.get(name, ()))
        return [self.add(name, arguments, aval.dtype, parameters)]


def _constant(value, dtype):
    return Constant(np.asarray(value).item(), np.dtype(dtype).name)
