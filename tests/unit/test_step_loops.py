"""Step loops, on arrays and by fused loops: what goes in comes out, and monitors get the state of each step."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel import adjoint
from swmodel.errors import ConfigError
from swmodel.fields.field import HaloError
from swmodel.stepping import fused
from swmodel.stepping.fused import FusedStepLoop
from swmodel.stepping.loop import on_tiles, pack_state, step_loop, unpack_state
from swmodel.stepping.steps import ArrayStepLoop, StepLoop, one_step, run_steps
from tests.selection import later, now

pytestmark = pytest.mark.usefixtures("large_tiles")

KINDS = {"arrays": ArrayStepLoop, "fused": FusedStepLoop}
STEPPER = sw.AB3(5.0)  # has a history, and buffers that change roles


@pytest.fixture(params=KINDS)
def case(request):
    """(Dynamics, stepper, (state, history)) of noise, whose steps run as `request.param`."""
    grid = sw.CartesianGrid(8, 6, (0.0, 8e3), (0.0, 6e3), periodic="x")
    model = sw.ShallowWater(grid, 100.0, coriolis=sw.FPlane(1e-4), engine=request.param)
    noise = np.random.default_rng(1).standard_normal((3, 6, 8))
    noise[1, -1] = 0.0  # v on the wall
    state = model.state(**dict(zip(("u", "v", "eta"), 0.01 * noise)))
    history = jax.tree.map(lambda x: x + noise[0].astype(x.dtype) if jnp.ndim(x) == 2 else x, STEPPER.history(state))
    return model.dynamics(STEPPER), STEPPER, (state, history), KINDS[request.param]


def test_the_name_of_an_engine_chooses_the_step_loop(case):
    dynamics, stepper, _, kind = case
    found = []
    jax.eval_shape(dynamics.communicator.spmd(lambda d, s: found.append(step_loop(d, s, prepared=False))), *case[:2])
    assert type(found[0]) is kind


def test_a_state_and_its_history_come_back_as_they_went_in(case):
    dynamics, stepper, start, _ = case
    carry = pack_state(dynamics, stepper, start)
    for _ in range(2):  # and unpacking leaves the carry as it is
        jax.tree.map(np.testing.assert_array_equal, unpack_state(dynamics, stepper, carry), start)


@on_tiles
def recorded(dynamics, stepper, start, first):
    """((state, history) after 5 steps, eta after each, the numbers of the steps)."""
    loop = step_loop(dynamics, stepper)

    def monitor(step, get_state, monitored):
        values, numbers = monitored
        return values.at[step - first].set(get_state().eta), numbers.at[step - first].set(step)

    monitored = jnp.zeros((5, *start[0].eta.shape), start[0].eta.dtype), jnp.zeros((5, 1), jnp.int32)
    carry, monitored = run_steps(loop, loop.pack_state(*start), 5, monitor, monitored, first)
    return loop.unpack_state(carry), loop.get_state(carry), monitored


@on_tiles
def advanced(dynamics, stepper, start, first):
    loop = step_loop(dynamics, stepper)
    return loop.unpack_state(loop.steps(loop.pack_state(*start), first, 1)[0])


def test_a_monitor_gets_the_number_of_each_step_and_the_state_after_it(case):
    dynamics, stepper, now, _ = case
    (state, history), shown, (values, numbers) = recorded(dynamics, stepper, now, jnp.int32(7))
    assert np.ravel(numbers).tolist() == [7, 8, 9, 10, 11]
    for k in range(5):
        now = advanced(dynamics, stepper, now, jnp.int32(7 + k))
        np.testing.assert_allclose(values[k], now[0].eta, rtol=0, atol=1e-15)
    jax.tree.map(np.testing.assert_array_equal, shown, state)
    assert int(history.count) == 2
    np.testing.assert_array_equal(values[-1], state.eta)


def test_a_program_of_many_fused_steps_traces_one(monkeypatch):
    model = sw.ShallowWater(sw.CartesianGrid(8, 6, (0.0, 8e3), (0.0, 6e3)), 100.0, engine="fused")
    stepper, steps = sw.ForwardBackward(5.0), []

    def count(*arguments):
        steps.append(arguments)
        return one_step(*arguments)

    def many(dynamics, stepper, state):
        loop, monitor = FusedStepLoop(dynamics, stepper), lambda step, get_state, monitored: monitored + step
        assert loop.period > 1
        return run_steps(loop, loop.pack_state(state, stepper.history(state)), 8, monitor, jnp.int32(0))

    monkeypatch.setattr(fused, "one_step", count)
    jax.eval_shape(many, model.dynamics(stepper), stepper, model.at_rest())
    assert len(steps) == 1


def test_a_step_loop_without_one_of_its_methods_cannot_be_made():
    for name in ("pack_state", "unpack_state", "get_state", "steps"):
        methods = {other: getattr(ArrayStepLoop, other) for other in StepLoop.__abstractmethods__ - {name}}
        with pytest.raises(TypeError, match=name):
            type("Incomplete", (StepLoop,), methods)()


OPEN = {
    "Flather": (sw.Flather(incoming=0.1), 1),
    "a wave": (sw.WaveMaker("west", elevation=0.1), 1),
    "a level with reflections": (sw.WaveMaker("west", elevation=0.1, total=True), 2),
    "Clamped": (sw.Clamped(elevation=0.1), 2),
    "ChapmanFlather": (sw.ChapmanFlather(elevation=0.1), 2),
}


def beside(condition, engine, kind=sw.ForwardBackward):
    """(Dynamics of a sloping sea with an open boundary, stepper, (state, history) with a hump)."""
    grid = sw.CartesianGrid(9, 7, (0.0, 9e3), (0.0, 7e3))
    options = {"coriolis": sw.FPlane(1e-4), "boundaries": condition, "engine": engine, "dtype": "float64"}
    model, stepper = sw.ShallowWater(grid, lambda x, y: 60.0 + 0.004 * (x + y), **options), kind(4.0)
    state = model.state(eta=lambda x, y: np.exp(-((x - 6e3) ** 2 + (y - 4e3) ** 2) / 2e3**2))
    return model.dynamics(stepper), stepper, (state, stepper.history(state))


@on_tiles
def taken(dynamics, stepper, start, number):
    """(state, history) after so many steps; a program for any number of them, as that of a run."""
    loop = step_loop(dynamics, stepper)
    nothing = lambda step, get_state, carry: carry  # noqa: E731
    return loop.unpack_state(run_steps(loop, loop.pack_state(*start), number, nothing, (), 0)[0])


@pytest.mark.parametrize("name", now(list(OPEN), "a wave"))
def test_a_side_that_reads_no_velocity_leaves_a_step_of_forward_backward_one_loop(name):
    condition, loops = OPEN[name]
    dynamics, stepper, start = beside(condition, "fused")
    text = str(jax.make_jaxpr(lambda *given: advanced(*given, jnp.int32(0)))(dynamics, stepper, start))
    assert text.count("fused_loop[") == loops


KINDS_BESIDE = now(
    list(itertools.product(OPEN, ("AB2", "SSPRK3", "ForwardBackward"))),
    ("Flather", "AB2"),
    ("a level with reflections", "ForwardBackward"),
)


@pytest.mark.parametrize("name, kind", KINDS_BESIDE)
def test_steps_beside_open_sides_are_those_on_arrays_and_go_on_to_the_same_bits(name, kind):
    """East faces of u and north faces of v belong to the tile; where they are open, velocities there are dropped."""
    ends = {}
    for engine in KINDS:
        dynamics, stepper, start = beside(OPEN[name][0], engine, getattr(sw, kind))
        ends[engine] = taken(dynamics, stepper, start, jnp.int32(17))
        if name == "Flather":  # at all four sides
            state, history = start
            given = state.replace(u=state.u.at[:, -1].set(0.3), v=state.v.at[-1].set(0.3)), history
            found = taken(dynamics, stepper, given, jnp.int32(17))
            jax.tree.map(np.testing.assert_array_equal, found, ends[engine])
            assert not np.any(found[0].u[:, -1]) and not np.any(found[0].v[-1])
    middle = taken(dynamics, stepper, start, jnp.int32(7))
    again = taken(dynamics, stepper, middle, jnp.int32(10))  # unpacked and packed half way
    jax.tree.map(np.testing.assert_array_equal, again, ends["fused"])
    for field in ("u", "v", "eta"):
        np.testing.assert_allclose(*(getattr(end[0], field) for end in ends.values()), rtol=0, atol=1e-14)


class ReadsFlow(sw.Flather):
    """Flather's condition with a mistake: it reads velocities and does not declare it."""

    def outflow(self, inside, time):
        return super().outflow(inside, time) + inside.passing_velocity()


def test_a_condition_that_reads_velocities_without_declaring_it_is_refused():
    with pytest.raises(ConfigError, match=r"ReadsFlow reads the flow inside its sides; its reads_flow\(\) must"):
        taken(*beside(ReadsFlow(), "fused"), jnp.int32(1))


# -- traces ------------------------------------------------------------------------------------------------------------

GRID = sw.CartesianGrid(11, 7, (0.0, 11e3), (0.0, 7e3))  # a shape of its own: nothing of another test is remembered
STEPPERS = {"AB2": sw.AB2, "ForwardBackward": sw.ForwardBackward}


@pytest.fixture
def traces(monkeypatch):
    """The time steps of all steps traced so far, in order."""
    steps = []
    for scheme in (*STEPPERS.values(), sw.ForwardBackwardHancock):

        def counted(self, *arguments, step=scheme.step):
            steps.append(self.dt)
            return step(self, *arguments)

        monkeypatch.setattr(scheme, "step", counted)
    return steps


@pytest.mark.parametrize("scheme, engine, most", [later("AB2", "arrays", 2), ("ForwardBackward", "fused", 3)])
def test_a_step_is_traced_once_for_the_halo_once_for_the_loops_and_once_for_a_run(
    traces, tmp_path, scheme, engine, most
):
    model = sw.ShallowWater(GRID, 100.0, engine=engine)
    simulation = sw.Simulation(model, model.at_rest(), STEPPERS[scheme](5.0))
    simulation.gauges(tmp_path / "gauges.nc", {"A": (5e3, 3e3)}).maxima(tmp_path / "maxima.nc")
    simulation.write(tmp_path / "fields.nc", every=20.0)
    for steps in (1, 2, 11):  # chunks of any length
        simulation.run(steps=steps)
    assert simulation.engine[0] == engine and len(traces) == most


@pytest.mark.verify
def test_a_step_is_traced_once_for_the_programs_that_record_and_pull_back(traces):
    model = sw.ShallowWater(GRID, 100.0, dissipation=sw.Laplacian(10.0), engine="fused")
    cost = adjoint.FinalState(lambda state, equations: (state.eta**2).sum())
    start = model.state(eta=lambda x, y: np.sin(x / 1e3))
    problem = adjoint.Problem(model, sw.AB2(5.0), start, 3, cost, ["initial.eta", "depth"])
    for _ in range(2):
        problem.value_and_gradient()
    assert len(traces) == 3


@pytest.mark.parametrize("wide", (later(5), 6))
def test_one_trace_finds_the_halo_of_a_coast_and_none_narrower_is_enough(traces, wide):
    """With a tracer it is one cell wider."""
    grid, stepper = sw.CartesianGrid(17, 13, (0.0, 17e3), (0.0, 13e3)), sw.ForwardBackwardHancock(1.0)
    options = {"wetting": sw.WettingDrying(), "tracers": (sw.Tracer("dye"),) if wide == 6 else ()}
    model = sw.ShallowWater(grid, lambda x, y: 20.0 - 4e-3 * x, momentum=sw.MomentumConserving(), **options)
    assert model.halo(stepper) == wide and len(traces) == 1
    narrow = stepper.system(model.interval(wide - 1, 0, 1.0))
    with pytest.raises(HaloError, match="reached 1 beyond the halo"):
        jax.eval_shape(lambda: one_step(narrow, stepper, model.at_rest(), (), 0))
