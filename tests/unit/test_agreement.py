"""Loops and branches that send messages go on, or end, on all ranks alike: what decides has the same bits everywhere.

A sum of all ranks need not: MPI lets each rank have its own rounding. Those that are added rank after rank, maxima and
broadcasts have. The programs are traced for a mesh of ranks that is not there, and each decision is followed back.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

import swmodel as sw
from swmodel.elliptic import Coefficients, ConjugateGradients, Domain, Multigrid
from swmodel.output.products.base import Sampler
from swmodel.output.products.extremes import Maxima
from swmodel.output.products.gauges import Gauges
from swmodel.simulation.program import Carry, Health, advance
from swmodel.stepping.loop import pack_state
from tests.stacked import Pretended

SENDING = "shift all_to_all_ranks sum_of_ranks broadcast_from_root gather_tiles scatter_tiles maximum_of_ranks".split()
SAME = ("broadcast_from_root", "maximum_of_ranks")


def parts(equation):
    """The jaxprs that an equation holds."""
    for value in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda x: isinstance(x, (Jaxpr, ClosedJaxpr))):
        if isinstance(value, (Jaxpr, ClosedJaxpr)):
            yield getattr(value, "jaxpr", value)


def sends(jaxpr):
    return any(e.primitive.name in SENDING or any(map(sends, parts(e))) for e in jaxpr.eqns)


class Follower:
    """Which values are the same on all ranks by construction; `found` are decisions about messages that are not."""

    def __init__(self):
        self.found, self.decisions = [], 0

    def follow(self, jaxpr, same):
        """Whether each result is, from whether each argument is."""
        jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
        known = dict(zip(jaxpr.invars, same)) | {v: v.aval.shape == () for v in jaxpr.constvars}
        of = lambda x: isinstance(x, Literal) or known[x]  # noqa: E731
        for equation in jaxpr.eqns:
            results = self.results(equation, [of(x) for x in equation.invars])
            known |= dict(zip(equation.outvars, results))
        return [of(x) for x in jaxpr.outvars]

    def results(self, equation, same):
        name, params, count = equation.primitive.name, equation.params, len(equation.outvars)
        if name == "sum_of_ranks":
            return [params["ordered"] and params["axis"] is None]
        if name in SENDING:
            return [name in SAME] * count
        if name == "while":
            a, b = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
            carry = self.fixed(params["body_jaxpr"], same[a:b], same[b:])
            (ends,) = self.follow(params["cond_jaxpr"], same[:a] + carry)
            self.decide(ends, parts(equation), name)
            return [ends and one for one in carry]
        if name == "cond":
            self.decide(same[0], parts(equation), name)
            return [same[0] and all(x) for x in zip(*(self.follow(b, same[1:]) for b in params["branches"]))]
        if name == "scan":
            a, b = params["num_consts"], params["num_consts"] + params["num_carry"]
            carry = self.fixed(params["jaxpr"], same[:a], same[a:b], same[b:])
            return carry + self.follow(params["jaxpr"], same[:a] + carry + same[b:])[b - a :]
        inner = [part for part in parts(equation) if len(part.invars) == len(same)]
        if inner:
            return [all(x) for x in zip(*(self.follow(part, same)[:count] for part in inner))]
        for part in parts(equation):
            self.follow(part, [v.aval.shape == () and False for v in part.invars])
        return [all(same) and not list(parts(equation))] * count

    def fixed(self, body, consts, carry, rest=()):
        while True:
            new = [one and again for one, again in zip(carry, self.follow(body, [*consts, *carry, *rest]))]
            if new == carry:
                return carry
            carry = new

    def decide(self, same, bodies, name):
        if any(map(sends, bodies)):
            self.decisions += 1
            if not same:
                self.found.append(name)


def follow(program, *arguments):
    closed = jax.make_jaxpr(program)(*arguments)
    follower = Follower()
    follower.follow(closed, [v.aval.shape == () for v in closed.jaxpr.invars])  # the host has agreed on numbers
    return follower


def solve(solver):
    grid, ranks = sw.CartesianGrid(16, 8, (0.0, 16e3), (0.0, 8e3)), Pretended()
    wet = np.ones(grid.shape, bool)
    wet[3:5, 6:9] = False
    domain = Domain.of(grid, ranks, wet)
    b = jnp.ones(ranks.tile_shape(grid.shape))
    return follow(lambda b: solver.solve_and_report(solver.plan(domain, Coefficients(2.0)), b)[0], b)


@pytest.mark.parametrize("solver", [ConjugateGradients(), ConjugateGradients(Multigrid())])
def test_ranks_end_their_iterations_together(solver):
    follower = solve(solver)
    assert follower.decisions > 0 and not follower.found


@pytest.mark.parametrize("stepper", [sw.SemiImplicit(60.0), sw.RigidLid(60.0), sw.SSPRK3(1.0)])
def test_chunks_of_steps_end_together(stepper):
    """With maxima, gauges and the watch over a run's health."""
    grid = sw.CartesianGrid(16, 8, (0.0, 16e3), (0.0, 8e3))
    model = sw.ShallowWater(grid, lambda x, y: 100.0 + x / 1e3 + 0 * y, communicator=Pretended(), engine="arrays")
    halo = model.halo(stepper)
    state = model.at_rest()
    maxima, gauges, health = Maxima(0.01), Gauges.at({"A": (3e3, 3e3)}, model), Health.of(model, 1.0)
    monitors = health, {"maxima": Sampler.of(maxima, 1.0), "gauges": gauges}
    dynamics = model.interval(halo, 0, stepper.dt)
    packed = jax.eval_shape(pack_state, dynamics, stepper, (state, stepper.history(state)))
    carry = Carry(packed, health.start(), {"maxima": maxima.start(state), "gauges": {"eta": jnp.zeros((64, 1))}})
    follower = follow(lambda *a: advance(dynamics, stepper, a[0], monitors, *a[1:]), carry, jnp.int32(0), jnp.int32(3))
    assert follower.decisions > 0 and not follower.found


@pytest.mark.parametrize("stop", ["sum", "ordered", "maximum"])
def test_a_decision_by_a_plain_sum_is_found(stop):
    ranks = Pretended()
    of = {"sum": ranks.sum, "ordered": lambda x: ranks.sum(x, ordered=True), "maximum": ranks.maximum}[stop]

    def program(x):
        busy = lambda both: (both[1] > 1.0) & (both[2] < 9)  # noqa: E731
        more = lambda both: (ranks.shift(both[0], "x", 1), of(jnp.sum(both[0])), both[2] + 1)  # noqa: E731
        return jax.lax.while_loop(busy, more, (x, of(jnp.sum(x)), 0))

    assert follow(program, jnp.ones((4, 6))).found == (["while"] if stop == "sum" else [])
