"""Loops of one step that add arrays to their results, and that overwrite what they replace.

Where several later steps read a state, JAX adds up their cotangents, and each sum is a pass over whole arrays. The loop
that computes one term can add the other one to it:

    s = loop(...)[k] + x      becomes      s = loop'(..., x)[k]

A loop computes no cells beyond its margin, and would lose those of x. Nothing reads cells beyond the ghosts.

A multistep scheme passes states on as earlier ones, and their cotangents the other way. In a program that repeats such
a step XLA copies all of them, unless each result lies in the array that it replaces. Without both a gradient of
ForwardBackward takes 1.8 times as long (docs/developers/benchmarks.md).
"""

from collections.abc import Mapping
from typing import Any, cast

from jax.extend.core import Jaxpr, JaxprEqn, Literal, Var

from .stencil import call_of, fused_loop

# Operations whose first results lie in operands: the number of the first of these. Those of SAME have their values.
SAME = {"depends_on": 0, "read_strips": 1, "block_sums": 1}
IN_PLACE = {**SAME, "paste": 1, "cut": 1, "add_strips": 1, "add_to_blocks": 1}


def merged(jaxpr: Jaxpr, passed_on: Mapping[int, int]) -> Jaxpr:
    """The jaxpr of one step, whose loops add and overwrite arrays where they can.

    Args:
        jaxpr: of the step.
        passed_on: {number of a result: that of the argument that it replaces in the next step}.
    """
    step = _Step(jaxpr, {jaxpr.invars[at]: jaxpr.outvars[k] for k, at in passed_on.items()})
    while step.merge_a_sum():
        pass
    step.overwrite()
    return jaxpr.replace(eqns=step.equations)


def origins(jaxpr: Jaxpr) -> list[Any]:
    """For each result of a jaxpr the variable that has its value first, such as an argument that is read in place."""
    made = {v: equation for equation in jaxpr.eqns for v in equation.outvars}
    return [v if isinstance(v, Literal) else _origin(v, made, SAME) for v in jaxpr.outvars]


def _origin(v, made, passing):
    """The variable in whose array v lies, through operations of `passing`."""
    while v in made and made[v].primitive.name in passing:
        equation = made[v]
        number = equation.outvars.index(v) + passing[equation.primitive.name]
        if number >= len(equation.invars) or equation.invars[number].aval.shape != v.aval.shape:
            break  # a result that is no operand
        v = equation.invars[number]
    return v


class _Step:
    """The operations of a step on which its results depend.

    Attributes:
        equations: of its jaxpr.
        results: its results.
        replaced: {argument: the result that replaces it in the next step}.
    """

    def __init__(self, jaxpr: Jaxpr, replaced: dict[Var, Any]):
        self.equations: list[Any] = needed(jaxpr)[0]
        self.results, self.replaced = jaxpr.outvars, replaced

    def _readers(self) -> dict[Any, list[int | None]]:
        """{variable: the numbers of the equations that read it, None for a result}."""
        found: dict[Any, list[int | None]] = {}
        for number, variables in [*enumerate(e.invars for e in self.equations), (None, self.results)]:
            for v in dict.fromkeys(v for v in variables if not isinstance(v, Literal)):
                found.setdefault(v, []).append(number)
        return found

    def merge_a_sum(self) -> bool:
        """Let a loop compute a sum with one of its results, if there is any such sum."""
        readers = self._readers()
        made = {v: n for n, equation in enumerate(self.equations) for v in equation.outvars}
        for at, equation in enumerate(self.equations):
            if equation.primitive.name != "add_any" or any(isinstance(v, Literal) for v in equation.invars):
                continue
            for term, other in (equation.invars, equation.invars[::-1]):
                number = made.get(term, -1)
                if readers[term] == [at] and made.get(other, -1) < number and self._can_add(number, term, other):
                    self.equations[number] = _with_sum(self.equations[number], term, other, equation.outvars[0])
                    del self.equations[at]
                    return True
        return False

    def _can_add(self, number: int, term: Var, other: Var) -> bool:
        """Whether a loop can add an array to one of its results: its margin must be all of the ghosts."""
        loop, of_term, of_other = self.equations[number], cast(Any, term.aval), cast(Any, other.aval)
        if loop.primitive is not fused_loop or (of_term.shape, of_term.dtype) != (of_other.shape, of_other.dtype):
            return False
        is_whole = loop.params["strips"][loop.outvars.index(term)] is None
        return is_whole and loop.params["margin"] >= loop.params["layout"].ghosts

    def overwrite(self) -> None:
        """Let each result of a loop that replaces an argument overwrite it, where this loop alone reads it."""
        readers, made = self._readers(), {v: equation for equation in self.equations for v in equation.outvars}
        places = {_origin(new, made, IN_PLACE): old for old, new in self.replaced.items()}
        for number, loop in enumerate(self.equations):
            if loop.primitive is fused_loop:
                alone = {_origin(v, made, IN_PLACE): v for v in loop.invars if readers.get(v) == [number]}
                pairs = ((k, alone.get(places.get(new)), new) for k, new in enumerate(loop.outvars))
                wanted = {k: v for k, v, new in pairs if v is not None and v.aval.shape == new.aval.shape}
                self.equations[number] = _overwriting(loop, wanted) if wanted else loop


def needed(jaxpr: Jaxpr) -> tuple[list[JaxprEqn], set[Var]]:
    """(the equations on which results of a jaxpr or messages depend, the variables that these or the results read)."""
    read, equations = {v for v in jaxpr.outvars if not isinstance(v, Literal)}, []
    for equation in reversed(jaxpr.eqns):
        if equation.effects or not read.isdisjoint(equation.outvars):
            read.update(v for v in equation.invars if not isinstance(v, Literal))
            equations.append(equation)
    return equations[::-1], read


def _parts(loop: JaxprEqn) -> tuple[Any, list, list, list, dict[str, Any]]:
    """(graph, arrays, numbers, for each result the array that it overwrites or None, other parameters) of a loop."""
    parameters = dict(loop.params)
    graph, aliases = parameters.pop("graph"), parameters.pop("aliases")
    count = len(graph.columns)
    over = [None if alias is None else loop.invars[alias] for alias in aliases]
    return graph, list(loop.invars[:count]), list(loop.invars[count : count + graph.scalars]), over, parameters


def _with_sum(loop: JaxprEqn, term: Var, other: Var, total: Var) -> JaxprEqn:
    """A loop that computes `total`, the sum of its result `term` and an array, in place of `term`."""
    graph, arrays, numbers, over, parameters = _parts(loop)
    origins, k = list(parameters.pop("origins")), loop.outvars.index(term)
    graph = graph.with_sum(k, len(arrays), parameters["dtypes"][k])
    origin = parameters["layout"].origin
    operands, changed = call_of(graph, [*arrays, other], numbers, over, origins=[*origins, origin], **parameters)
    outvars = [total if v is term else v for v in loop.outvars]
    return loop.replace(invars=operands, outvars=outvars, params=changed)


def _overwriting(loop: JaxprEqn, wanted: Mapping[int, Var]) -> JaxprEqn:
    """A loop whose results overwrite the arrays that are wanted, {number of a result: array}."""
    graph, arrays, numbers, over, parameters = _parts(loop)
    for k, array in wanted.items():
        if array in over:  # the result that overwrote it takes the other array
            over[over.index(array)] = over[k]
        over[k] = array
    operands, changed = call_of(graph, arrays, numbers, over, **parameters)
    return loop.replace(invars=operands, params=changed)
