"""The communication of a program: messages, bytes and reductions of one rank, counted in its jaxpr before it runs.

An operation inside a scan counts once for each iteration, a branch as its alternative with the most messages, and a
message that the transport splits as its pieces. Collectives count as the messages of the root. With n ranks:

    shift             1 message of all bytes
    all_to_all        n - 1 messages, each of one block
    sum, maximum      1 reduction of all bytes; likewise the transposes of `replicated` and `broadcast`
    broadcast         n - 1 messages of all bytes
    gather, scatter   n - 1 messages, each of the largest tile

So the counts of all ranks are the same.
"""

import dataclasses
import math
from collections.abc import Callable

import jax
import jax.core
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal


@dataclasses.dataclass(frozen=True)
class Count:
    """Counts of one operation, or of all of them. They are whole numbers, except in means of several steps.

    Attributes:
        messages: point-to-point messages.
        bytes: of messages and reductions.
        reductions: over ranks.
    """

    messages: float = 0
    bytes: float = 0
    reductions: float = 0

    def __add__(self, other):
        return Count(*(a + b for a, b in zip(dataclasses.astuple(self), dataclasses.astuple(other))))

    def __sub__(self, other):
        return self + other * -1

    def __mul__(self, times):
        return Count(*(times * a for a in dataclasses.astuple(self)))


@dataclasses.dataclass(frozen=True)
class Traffic:
    """The communication of one rank in one call of a program.

    Attributes:
        by_verb: {name of the operation: Count}.
        open_loops: the number of loops that communicate and have a length that is known only at run time. Their bodies
            count once.
        per_round: {name of the operation: Count} of one iteration of all open loops.
    """

    by_verb: dict
    open_loops: int = 0
    per_round: dict = dataclasses.field(default_factory=dict)

    def with_rounds(self, rounds: float) -> "Traffic":
        """This Traffic if every open loop makes `rounds` iterations."""
        return Traffic(_sums(self.by_verb, {v: c * (rounds - 1) for v, c in self.per_round.items()}))

    @property
    def total(self) -> Count:
        return sum(self.by_verb.values(), Count())

    @property
    def messages(self) -> float:
        return self.total.messages

    @property
    def bytes(self) -> float:
        return self.total.bytes

    @property
    def reductions(self) -> float:
        return self.total.reductions

    def __add__(self, other):
        by_verb, per_round = _sums(self.by_verb, other.by_verb), _sums(self.per_round, other.per_round)
        return Traffic(by_verb, self.open_loops + other.open_loops, per_round)

    def __sub__(self, other):
        """The difference, such as the Traffic of one step from that of n + 1 and of n steps."""
        return self + other * -1

    def __mul__(self, times):
        of = lambda counts: {v: c * times for v, c in counts.items()} if times else {}  # noqa: E731
        return Traffic(of(self.by_verb), self.open_loops, of(self.per_round))


def _sums(one, other):
    return {verb: one.get(verb, Count()) + other.get(verb, Count()) for verb in {**one, **other}}


NOTHING = Traffic({})
MOST_ROUNDS = 1000  # of a loop that are followed one after another


def traffic(function: Callable, *arguments: object) -> Traffic:
    """The Traffic of one call `function(*arguments)` of this rank; nothing is compiled or sent.

    Args:
        function: of arrays and pytrees of them, jitted or not.
        arguments: arrays, or jax.ShapeDtypeStruct in their place. If the length of a loop is an integer argument whose
            value is given, or follows from such integers, its body counts so many times.
    """
    closed = jax.make_jaxpr(function)(*arguments)
    return _followed(closed, [_integer(leaf) for leaf in jax.tree.leaves(arguments)])[0]


def _integer(value):
    """A concrete integer (or bool) scalar as a numpy array, else None."""
    if isinstance(value, (jax.ShapeDtypeStruct, jax.core.Tracer)) or np.ndim(value):
        return None
    value = np.asarray(value)
    return value if _is_integer(value) else None


def _is_integer(aval):
    return aval.shape == () and (aval.dtype == bool or np.issubdtype(aval.dtype, np.integer))


def _of_jaxpr(jaxpr, inputs=()):
    return _followed(jaxpr, inputs)[0]


def _followed(jaxpr, inputs):
    """(the Traffic of a jaxpr, its results). Inputs and results are the values of known integers, else None."""
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    known = {var: value for var, value in zip(jaxpr.invars, inputs) if value is not None}
    total = NOTHING
    for equation in jaxpr.eqns:
        found, results = _of_equation(equation, [_value(x, known) for x in equation.invars])
        total += found
        known.update((var, value) for var, value in zip(equation.outvars, results) if value is not None)
    return total, [_value(x, known) for x in jaxpr.outvars]


def _value(operand, known):
    return _integer(operand.val) if isinstance(operand, Literal) else known.get(operand)


def _of_equation(equation, operands):
    name, parameters = equation.primitive.name, equation.params
    if name in _VERBS:
        verb, count = _VERBS[name](equation.invars[0].aval, **parameters)
        return Traffic({verb: count}), ()
    if name == "scan":
        return _of_jaxpr(parameters["jaxpr"]) * parameters["length"], ()
    if name == "while":
        return _of_while(parameters, operands), ()
    if name == "cond":
        return _busiest([_of_jaxpr(branch, operands[1:]) for branch in parameters["branches"]]), ()
    if name == "custom_linear_solve":
        return _of_jaxpr(parameters["jaxprs"].solve), ()
    inner = list(_jaxprs(parameters))
    if len(inner) == 1 and len(inner[0].invars) == len(operands):
        return _followed(inner[0], operands)
    return sum(map(_of_jaxpr, inner), NOTHING), () if inner else _evaluated(equation, operands)


def _evaluated(equation, operands):
    """The results of an equation whose operands are known integers, from which lengths of loops are computed."""
    outs = [out.aval for out in equation.outvars]
    if equation.effects or not operands or any(x is None for x in operands) or not all(map(_is_integer, outs)):
        return ()
    operands = [np.asarray(x, var.aval.dtype) for x, var in zip(operands, equation.invars)]
    values = equation.primitive.bind(*operands, **equation.params)
    return [_integer(value) for value in (values if equation.primitive.multiple_results else [values])]


def _jaxprs(parameters):
    """The jaxprs among an equation's parameters."""
    for value in parameters.values():
        for one in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(one, (ClosedJaxpr, Jaxpr)):
                yield getattr(one, "jaxpr", one)


def _busiest(branches):
    def most(counts):
        verbs = dict.fromkeys(verb for one in counts for verb in one)
        return {v: max((one.get(v, Count()) for one in counts), key=dataclasses.astuple) for v in verbs}

    by_verb, per_round = most([b.by_verb for b in branches]), most([b.per_round for b in branches])
    return Traffic(by_verb, max(branch.open_loops for branch in branches), per_round)


def _of_while(parameters, operands):
    consts, carry = parameters["cond_nconsts"], parameters["cond_nconsts"] + parameters["body_nconsts"]
    condition = _of_jaxpr(parameters["cond_jaxpr"], operands[:consts])
    body = _of_jaxpr(parameters["body_jaxpr"], operands[consts:carry])
    rounds = _rounds(parameters, [*operands[:consts], *operands[carry:]])
    if rounds is not None:
        return body * rounds + condition * (rounds + 1)
    if (total := _of_each_round(parameters, operands, consts, carry)) is not None:
        return total
    once = body + condition
    return once + Traffic({}, 1, once.by_verb) if once.by_verb else once


def _of_each_round(parameters, operands, consts, carry):
    """The Traffic of a loop that known integers end after a few rounds, one round after another; else None."""
    total, values = NOTHING, operands[carry:]
    for _ in range(MOST_ROUNDS):
        found, (goes_on,) = _followed(parameters["cond_jaxpr"], [*operands[:consts], *values])
        total += found
        if goes_on is None or not goes_on:
            return None if goes_on is None else total
        found, values = _followed(parameters["body_jaxpr"], [*operands[consts:carry], *values])
        total += found
    return None


def _rounds(parameters, operands):
    """The number of iterations of a `fori_loop` (while i < n: i = i + 1, with constant n); None if unknown."""
    condition, body = parameters["cond_jaxpr"].jaxpr, parameters["body_jaxpr"].jaxpr
    if [equation.primitive.name for equation in condition.eqns] != ["lt"]:
        return None
    known = {var: value for var, value in zip(condition.invars, operands) if value is not None}
    counter, bound = condition.eqns[0].invars
    first, last = _value(counter, known), _value(bound, known)
    if first is None or last is None:
        return None
    carried = condition.invars[parameters["cond_nconsts"] :]
    before, after = (dict(zip(carried, vs)) for vs in (body.invars[parameters["body_nconsts"] :], body.outvars))
    fixed = isinstance(bound, Literal) or before.get(bound) is after.get(bound)
    counts = fixed and _adds_one(body, before.get(counter), after.get(counter))
    return max(int(last) - int(first), 0) if counts else None


def _adds_one(body, before, after):
    for equation in body.eqns:
        if equation.outvars[0] is after:
            one = [_integer(x.val) for x in equation.invars if isinstance(x, Literal)]
            return equation.primitive.name == "add" and one == [1] and any(x is before for x in equation.invars)
    return False


# -- the verbs --------------------------------------------------------------------------------------------------------


def _bytes(aval):
    return math.prod(aval.shape) * aval.dtype.itemsize


def _split(communicator, aval, ranks=1, elements=None):
    elements = math.prod(aval.shape) if elements is None else elements
    return communicator.pieces(elements, aval.dtype, ranks)


def _shift(x, *, communicator, **where):
    return "shift", Count(_split(communicator, x), _bytes(x))


def _all_to_all(x, *, communicator, axis):
    ranks = communicator.along(axis)
    pieces = _split(communicator, x, ranks, math.prod(x.shape) // ranks)
    return "all_to_all", Count(pieces * (ranks - 1), _bytes(x) * (ranks - 1) // ranks)


def _sum(x, *, communicator, axis=None, ordered=False, verb="sum"):
    ranks = communicator.size if axis is None else communicator.along(axis)
    return verb, Count(0, _bytes(x), _split(communicator, x, ranks if ordered else 1))


def _nothing(verb):
    return lambda x, **parameters: (verb, Count())


def _broadcast(x, *, communicator):
    others = communicator.size - 1
    return "broadcast", Count(others * _split(communicator, x), others * _bytes(x))


def _tiles(verb):
    def count(x, *, communicator, shape):
        block = math.prod(x.shape[:-2]) * math.prod(communicator.decomposition(shape).tile(0).shape)
        others = communicator.size - 1
        pieces = _split(communicator, x, communicator.size, block)
        return verb, Count(others * pieces, others * block * x.dtype.itemsize)

    return count


_VERBS = {
    "shift": _shift,
    "shift_transposed": _shift,
    "all_to_all_ranks": _all_to_all,
    "all_to_all_ranks_transposed": _all_to_all,
    "sum_of_ranks": _sum,
    "sum_of_ranks_transposed": _nothing("sum"),
    "replicated": _nothing("replicated"),
    "replicated_transposed": lambda x, **p: _sum(x, verb="replicated", **p),
    "broadcast_from_root": _broadcast,
    "sum_on_root": lambda x, **p: _sum(x, verb="broadcast", **p),
    "gather_tiles": _tiles("gather"),
    "scatter_tiles": _tiles("scatter"),
    "maximum_of_ranks": lambda x, **p: _sum(x, verb="maximum", **p),
}
