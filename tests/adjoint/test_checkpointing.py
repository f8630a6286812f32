"""Whatever is stored and whatever is run again, the gradient is the same; what is stored is no more than is read."""

import json
import math
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel import adjoint
from swmodel.adjoint.core.checkpointing import Span, Tape, even_lengths
from swmodel.adjoint.core.leaves import Rows, Slots
from swmodel.adjoint.core.schedules import Needs, lengths_within
from swmodel.errors import ConfigError, DataError
from swmodel.fields.state import replace
from swmodel.runtime.compilation import jit
from swmodel.stencils import Slot

from . import cases

SCHEDULES = (
    adjoint.Nested(lengths=(4,)),
    adjoint.Revolve(2, steps=4),
    adjoint.Tiered(1, on_disk=1, on_host=1, steps=4),
    pytest.param(adjoint.Nested(lengths=(2, 2, 2)), marks=pytest.mark.verify),
)


@pytest.fixture(scope="module")
def all_stored():
    return cases.problem().value_and_gradient()


@pytest.mark.parametrize("checkpoints", SCHEDULES, ids=str)
def test_all_checkpoints_give_the_same_gradient(checkpoints, all_stored):
    assert_equal(cases.problem().with_checkpoints(checkpoints).value_and_gradient(), all_stored)


def test_the_gradient_in_records_of_time_is_that_of_the_tangent(all_stored):
    (J, gradient), problem = all_stored, cases.problem()
    direction = cases.along(problem.values)
    again, slope = problem.tangent(problem.values, direction)
    assert again == pytest.approx(J, rel=1e-14)
    assert adjoint.dot(gradient, direction, problem.communicator) == pytest.approx(slope, rel=1e-12)
    assert np.abs(gradient["forcing.0.x"][1]).max() > 0 and np.abs(gradient["forcing.0.x"][3]).max() > 0


def assert_equal(found, expected):
    """Assert that two pairs (cost, gradient) are equal to rounding."""
    assert math.isclose(found[0], expected[0], rel_tol=1e-14)
    for (path, got), wanted in zip(jax.tree_util.tree_leaves_with_path(found[1]), jax.tree.leaves(expected[1])):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=2e-14 * np.abs(wanted).max(), err_msg=str(path))


def test_no_file_is_to_be_seen_while_states_are_on_disk(tmp_path):
    slots = Slots(tmp_path)
    points = [{"u": cases.random(k), "count": np.int32(k)} for k in range(3)]
    for k, point in enumerate(points):
        slots.write(k, point)
    assert os.listdir(tmp_path) == []
    for k, last in ((1, True), (2, False)):
        jax.tree.map(np.testing.assert_array_equal, slots.read(k, last), points[k])
    slots.write(7, points[1])  # into the slot that is free
    found = [slots.read(k, True) for k in (0, 2, 7)]
    jax.tree.map(np.testing.assert_array_equal, found, [points[k] for k in (0, 2, 1)])
    size = os.fstat(slots.file.fileno()).st_size
    assert size == 3 * sum(x.nbytes for x in jax.tree.leaves(points[0]))
    slots.close()


def test_a_folder_that_is_none_is_named():
    with pytest.raises(DataError, match="/none/such.*another folder"):
        Slots("/none/such")


def test_without_its_package_revolve_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "checkpoint_schedules", None)
    with pytest.raises(ConfigError, match="checkpoint-schedules.*or use Nested"):
        cases.problem().with_checkpoints(adjoint.Revolve(2, steps=4)).value_and_gradient()


@pytest.mark.parametrize("steps", [1, 7, 40, 1000, 10_000])
@pytest.mark.parametrize("levels", [1, 2, 3])
def test_even_lengths_hold_all_steps_in_few_states(steps, levels):
    lengths = even_lengths(steps, levels)
    assert math.prod(lengths) >= steps
    assert sum(lengths) <= levels * steps ** (1 / levels) + levels


def test_of_a_step_of_ab2_only_the_state_is_stored():
    """And how many steps there were; the step is linear in the tendencies that it remembers: nobody reads them."""
    model = cases.basin()
    dynamics, state = model.interval(2, 0, 10.0), cases.moving(model)
    stepper = sw.AB2(jnp.asarray(10.0), jnp.asarray(0.1))
    span = Span(*map(jnp.int32, (0, 5)))

    def record(differentiated):
        carry = state, stepper.history(state)
        tape = Tape(lambda p: (dynamics, replace(stepper, **p)), differentiated, None, carry, (5,))
        (kept, _, _) = tape.record(carry, (), span)[2]
        return kept

    assert [x.shape for x in jax.eval_shape(record, {})] == [(5, cases.NY, cases.NX)] * 3 + [(5,)]
    assert len(jax.eval_shape(record, {"epsilon": stepper.epsilon})) == 7  # of that derivative tendencies are a factor


@pytest.mark.verify
def test_what_forward_backward_remembers_is_stored_once():
    """Of a step of three states of three arrays, and two rows of history before the first step."""
    model, stepper = cases.basin(), sw.ForwardBackward(jnp.asarray(10.0))
    dynamics, state = model.dynamics(stepper), cases.moving(model)

    def record(depth):
        carry, span = (state, stepper.history(state)), Span(*map(jnp.int32, (0, 5)))
        tape = Tape(lambda depth: (replace(dynamics, depth=depth), stepper), depth, None, carry, (5,))
        return tape.record(carry, (), span)[2][0]

    kept = jax.eval_shape(record, dynamics.depth)
    assert [x.shape for x in kept if x.ndim == 3] == [(7, cases.NY, cases.NX)] * 3
    plain, x = cost_of(sw.integrate, model, sw.ForwardBackward)
    few, _ = cost_of(adjoint.integrate, model, sw.ForwardBackward)
    wanted, got = (jit(jax.grad(cost, (0, 2)))(*x) for cost in (plain, few))
    for a, b in zip(got, wanted):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-13 * np.abs(b).max())


def rows(outputs, read):
    """(Rows, the constants of a step, leaves): `outputs` says what each leaf was before the step, capitals are new."""
    leaves = [jnp.asarray(100.0 * (k + 1)) for k in range(len(outputs))]

    def step(leaves, k):
        return [leaves["abcd".index(x)] if x.islower() else 10.0 * j + k for j, x in enumerate(outputs)]

    closed = jax.make_jaxpr(step)(leaves, 0.0)
    return Rows(closed.jaxpr, read), closed.consts, leaves


@pytest.mark.parametrize(
    "outputs, read, kept, earlier",
    [
        ("Aab", (True, True, True), [0], 2),  # a state and two earlier ones
        ("Aab", (False, False, True), [0], 2),  # of which the oldest alone is read
        ("AaC", (True, True, True), [0, 2], 1),
        ("Aaa", (True, True, True), [0, 2], 1),  # two that become the same one, but began with different values
        ("ba", (True, True), [0, 1], 0),  # handed round
        ("ab", (True, False), [0], 0),  # never changed
    ],
)
def test_leaves_come_back_from_rows_as_they_were(outputs, read, kept, earlier):
    found, constants, leaves = rows(outputs, read)
    assert (found.roots, found.earlier) == (kept, earlier)
    buffers, leaves = found.allocate(leaves, 5)
    seen = []
    for k in range(5):
        seen.append(found.filled(leaves, buffers, jnp.int32(k)))
        buffers, leaves, _ = found.store(buffers, jnp.int32(k), constants, leaves, float(k))
    for k, was in enumerate(seen):
        now = [x.array if isinstance(x, Slot) else x for x in found.leaves(buffers, jnp.int32(k), was)]
        assert [float(x) for x in now] == [float(x) if needed else 0.0 for x, needed in zip(was, read)]


def cost_of(integrate, model, stepper=sw.AB2):
    dynamics = model.dynamics(stepper(10.0), steps=9)

    def cost(depth, dt, eta):
        state = model.state(u=0.1 * cases.random(4))
        final, _ = integrate(replace(dynamics, depth=depth), stepper(dt), replace(state, eta=eta), 9)
        return jnp.sum(final.eta * final.eta + final.u)

    return cost, (dynamics.depth, jnp.asarray(10.0), cases.moving(model).eta)


@pytest.mark.verify
def test_integrate_has_the_derivatives_of_the_plain_one_outside_and_inside_of_jit():
    """The Hessian product, a tangent of the gradient, is a central difference of gradients."""
    model = cases.basin()
    plain, x = cost_of(sw.integrate, model)
    few, _ = cost_of(adjoint.integrate, model)
    gradient = jax.grad(few, (0, 1, 2))
    wanted = jit(jax.grad(plain, (0, 1, 2)))(*x)
    got, hessian = jit(lambda *x: jax.jvp(gradient, x, x))(*x)
    outside = jax.grad(lambda *x: jit(few)(*x), (0, 1, 2))
    for a, b in zip(jax.tree.leaves((got, outside(*x))), jax.tree.leaves((wanted, wanted))):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-13 * np.abs(b).max())
    high, low = (outside(*(y * (1 + h) for y in x)) for h in (1e-5, -1e-5))
    for a, above, below in zip(hessian, high, low):
        np.testing.assert_allclose(a, (above - below) / 2e-5, rtol=0, atol=1e-6 * np.abs(a).max())
    with pytest.raises(TypeError, match="custom_vjp"):
        jax.jvp(few, x, x)


NEEDS = Needs(base=100.0, step=3.0, point=6.0)


def test_a_budget_is_used_by_as_few_levels_as_fit():
    needed = {}
    for memory in (3200.0, 500.0, 300.0, 240.0):
        lengths, points = lengths_within(NEEDS, 1000, 1, memory)
        assert math.prod(lengths) >= 1000
        assert NEEDS.bytes(lengths, points) <= memory
        needed[memory] = len(lengths)
    assert list(needed.values()) == [1, 2, 2 + (needed[300.0] > 2), needed[240.0]]
    assert needed[240.0] > needed[500.0]


@pytest.mark.verify
def test_a_hessian_product_has_a_budget_of_its_own():
    """Its steps and points are twice those of a gradient, a state and its tangent; and it is symmetric."""
    grid = sw.CartesianGrid(cases.NX, cases.NY, (0.0, 7e4), (0.0, 6e4))
    model = sw.ShallowWater(grid, cases.sea_floor(), engine="arrays", communicator="serial")
    gauges = adjoint.GaugeElevation(cases.GAUGES)
    problem = adjoint.Problem(model, sw.AB2(10.0), cases.moving(model), 60, gauges, ["initial.eta"])
    once, twice = problem.needs, problem.needs_of_products
    assert once.step > 3 * 8 * cases.NX * cases.NY and twice.step == pytest.approx(2 * once.step, abs=64)
    assert twice.point == pytest.approx(2 * once.point, abs=64) and twice.base > 1.2 * once.base
    budget = problem.with_checkpoints(adjoint.Nested(memory=twice.base + 32 * twice.step))
    assert len(budget.plan[1]) == 1 and len(budget.plan_of_products[1]) == 2  # it holds all of a gradient
    assert budget.bytes_needed() <= budget.checkpoints.memory and budget.bytes_needed(True) <= budget.checkpoints.memory
    one, other = (cases.along(problem.values, seed) for seed in (1, 2))
    forth, back = (budget.hessian_product(None, direction) for direction in (one, other))
    assert (budget.plan_of_products[1], True) in budget.programs and (budget.plan[1], True) not in budget.programs
    left, right = (adjoint.dot(a, b, model.communicator) for a, b in ((other, forth), (one, back)))
    assert left == pytest.approx(right, rel=1e-11) and abs(left) > 1e-12


def test_a_budget_too_small_for_one_segment_is_told_the_least_that_does():
    with pytest.raises(ConfigError, match="memory = 50 bytes is too little for 1000 steps.*bytes or more") as printed:
        lengths_within(NEEDS, 1000, 1, 50.0)
    least = float(str(printed.value).split("give ")[1].split()[0])
    lengths, points = lengths_within(NEEDS, 1000, 1, least)
    assert NEEDS.bytes(lengths, points) <= least < 1.03 * NEEDS.bytes(lengths, points)


# -- without a compiler ------------------------------------------------------------------------------------------------

PROGRAM = """
import json
from unittest import mock
import jax
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
import numpy as np
import swmodel as sw
from swmodel import adjoint
from swmodel.adjoint import verification
from swmodel.stencils import native
from swmodel.stepping import loop

grid = sw.CartesianGrid(9, 7, (0.0, 9e3), (0.0, 7e3))
depth = lambda x, y: np.where((x > 4e3) & (x < 6e3) & (y > 3e3) & (y < 5e3), 0.0, 100.0 + 1e-3 * x)
friction = sw.Laplacian(10.0), sw.QuadraticDrag(2e-3)
model = sw.ShallowWater(grid, depth, coriolis=sw.FPlane(1e-4), dissipation=friction, communicator="serial")
bump = lambda x, y: np.exp(-((x - 2e3) ** 2 + (y - 2e3) ** 2) / 4e6)
state, stepper = model.state(u=0.1, eta=bump), sw.AB2(4.0)
cost = adjoint.FinalState(lambda s, equations: jnp.sum(s.eta**2) + jnp.sum(s.u * s.v))
problem = adjoint.Problem(model, stepper, state, 12, cost, ["initial.eta", "depth"])
verdicts = verification.verify(problem, second=False)
with mock.patch("jax.default_backend", lambda: "gpu"):  # whose kernels need no C++ compiler
    on_gpu = loop.obstacle(model.dynamics(stepper), stepper)
print(json.dumps({
    "engines": [model.engine, sw.Simulation(model, state, stepper).engine[1]],
    "usable": native.usable(),
    "on_gpu": on_gpu,
    "passed": {verdict.control: bool(verdict.passed) for verdict in verdicts},
}))
"""


@pytest.mark.verify
def test_without_a_compiler_gradients_pass_dot_product_and_taylor_tests(tmp_path):
    environment = {
        **os.environ,
        "CXX": "false",
        "XDG_CACHE_HOME": str(tmp_path),
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["engines"] == ["arrays", "no C++ compiler works here"] and not found["usable"]
    assert found["on_gpu"] == "engine = 'arrays' was chosen"
    assert found["passed"] == {"initial.eta": True, "depth": True}
    assert not list(tmp_path.rglob("*.so"))
