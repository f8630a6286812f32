"""`integrate` is a Simulation's run, over any number of forcing records, with derivatives, or it is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel import adjoint
from swmodel.dynamics.clock import Coverage
from swmodel.fields.state import replace
from swmodel.runtime.compilation import jit
from swmodel.simulation.simulation import Simulation
from swmodel.stepping.loop import _alike
from tests.derivatives import linearised
from tests.selection import later, now

NX, NY, STEPS = 8, 6, 47
GRID = sw.CartesianGrid(NX, NY, (0.0, NX * 1e4), (0.0, NY * 1e4))
DEPTH = np.where(np.random.default_rng(5).random((NY, NX)) < 0.1, 0.0, 800.0)


def random(seed, *shape):
    return np.random.default_rng(seed).standard_normal((*shape, NY, NX))


def forced(engine="arrays", **options):
    """Wind that repeats, a tide outside, a sea floor that moves: intervals of many lengths, and some of one length."""
    rising = sw.Records((0.0, 200.0), np.array([0.0, 1.0]))
    wind = sw.WindStress(x=sw.Records((0.0, 60.0, 110.0), random(6, 3), 180.0), y=rising)
    return sw.ShallowWater(
        GRID,
        DEPTH,
        coriolis=sw.FPlane(1e-4),
        forcing=(wind,),
        engine=engine,
        boundaries=(sw.Flather("east", elevation=sw.Records((30.0, 400.0), 0.1 * random(7, 2))),),
        source=sw.BottomMotion((0.0, 100.0, 200.0, 300.0), np.multiply.outer((0.0, 0.3, 0.7, 1.0), random(8))),
        **options,
    )


def two_intervals(**options):
    """Two intervals of a wind and of a sea floor that moves, which are few programs."""
    times, uplift = (0.0, 40.0, 120.0), sw.BottomMotion((0.0, 40.0, 120.0), random(8, 3))
    wind = sw.WindStress(x=sw.Records(times, random(6, 3)))
    return sw.ShallowWater(GRID, DEPTH, coriolis=sw.FPlane(1e-4), forcing=(wind,), source=uplift, **options)


def regular(**options):
    """Records every four steps, from the first on: all intervals are alike."""
    wind = sw.WindStress(x=sw.Records(40.0 * np.arange(13), random(9, 13)))
    return sw.ShallowWater(GRID, DEPTH, forcing=(wind,), **options)


INTEGRATE = {"plain": sw.integrate, "few states": adjoint.integrate}
STEPPERS = (sw.AB2(10.0), sw.AB3(10.0), sw.SSPRK3(10.0), sw.ForwardBackward(10.0), sw.SemiImplicit(10.0))


BOTH = [(engine, stepper) for engine in ("fused", "arrays") for stepper in STEPPERS]


@pytest.mark.parametrize(
    "engine, stepper", now(BOTH, ("fused", STEPPERS[0])), ids=lambda x: x if isinstance(x, str) else type(x).__name__
)
def test_a_run_over_many_records_is_that_of_a_simulation(stepper, engine):
    model = forced(engine)
    wanted = Simulation(model, model.at_rest(), stepper).run(steps=STEPS)
    dynamics = model.dynamics(stepper, steps=STEPS)
    assert len(dynamics.covers.intervals) > 8
    for integrate in INTEGRATE.values() if isinstance(stepper, sw.AB2) else [sw.integrate]:
        found, _ = jit(integrate, static_argnums=3)(dynamics, stepper, model.at_rest(), STEPS)
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted)):
            assert np.abs(b).max() > 0
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * np.abs(b).max())


def loss(model, integrate, dynamics, stepper, steps=STEPS):
    weights = model.scatter(random(11))

    def of(records, uplift, eta, weights, dynamics):
        terms = (replace(dynamics.terms[0], x=replace(dynamics.terms[0].x, records=records)), *dynamics.terms[1:])
        moved = None if uplift is None else replace(dynamics.uplift, records=uplift)
        state = replace(model.at_rest() if dynamics.communicator.size == 1 else State.zeros_like(eta), eta=eta)
        end, _ = integrate(replace(dynamics, terms=terms, uplift=moved), stepper, state, steps)
        return dynamics.communicator.sum(jnp.sum(weights * (end.eta + end.eta**2)))

    return of, weights


class State:
    @staticmethod
    def zeros_like(eta):
        return sw.State(0.0 * eta, 0.0 * eta, eta)


LONGER = [later(*each, STEPS) for each in ((forced, "arrays"), (forced, "fused"), (regular, "arrays"))]


@pytest.mark.parametrize("make, engine, steps", [(two_intervals, "arrays", 12), *LONGER])
def test_tangents_and_gradients_reach_every_record(make, engine, steps):
    """<g, d> is the slope and the difference of two runs, and both kinds of integrate agree."""
    model, stepper = make(engine=engine), sw.AB2(10.0)
    dynamics = model.dynamics(stepper, steps=steps)
    at = dynamics.terms[0].x.records, None if dynamics.uplift is None else dynamics.uplift.records, model.at_rest().eta
    of, weights = loss(model, sw.integrate, dynamics, stepper, steps)
    program = jit(lambda x, d: linearised(lambda x: of(*x, weights, dynamics), x, d))
    along = tuple(None if x is None else jnp.asarray(np.random.default_rng(3).standard_normal(x.shape)) for x in at)
    _, gradient, slope = program(at, along)
    if steps == STEPS:  # test_checkpointing.py has a few states and two records
        few, _ = loss(model, adjoint.integrate, dynamics, stepper, steps)
        by_few = jit(jax.grad(few, (0, 2) if at[1] is None else (0, 1, 2)))(*at, weights, dynamics)
        for a, b in zip(*map(jax.tree.leaves, (by_few, gradient))):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-11 * np.abs(b).max())
    product = sum(float(np.vdot(g, d)) for g, d in zip(gradient, along) if g is not None)
    assert product == pytest.approx(float(slope), rel=1e-11)
    moved = [
        float(program(tuple(None if x is None else x + h * d for x, d in zip(at, along)), along)[0])
        for h in (1e-4, -1e-4)
    ]
    assert (moved[0] - moved[1]) / 2e-4 == pytest.approx(float(slope), rel=1e-5)
    felt = np.abs(gradient[0]).max((1, 2))
    assert (felt > 0).all()  # only records that the run needs are in the Dynamics


def test_what_a_run_cannot_be_right_with_is_refused():
    model, stepper = forced(), sw.AB2(10.0)
    for integrate in INTEGRATE.values():
        with pytest.raises(ValueError, match=r"records of one interval.*model.dynamics\(stepper, step=0, steps=47\)"):
            integrate(model.dynamics(stepper), stepper, model.at_rest(), STEPS)
        with pytest.raises(ValueError, match="holds records of one interval"):
            integrate(model.interval(2, 0, 10.0), stepper, model.at_rest(), 1)
        with pytest.raises(ValueError, match="holds the records of 12 steps, and the run has 13"):
            integrate(model.dynamics(stepper, steps=12), stepper, model.at_rest(), 13)
        with pytest.raises(ValueError, match="cut for steps of 10 s, and the stepper's dt is 5 s"):
            integrate(model.dynamics(stepper, steps=12), sw.AB2(5.0), model.at_rest(), 12)
    with pytest.raises(ValueError, match="holds records of one interval"):  # also where dt is traced
        jax.eval_shape(lambda d, s: sw.integrate(d, s, model.at_rest(), 2), model.dynamics(stepper), stepper)


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ((2,), "stepper = 2 is not a TimeStepper; give that of the run"),
        ((sw.AB2,), "is not a TimeStepper"),
        ((sw.AB2(10.0), 0.5), "step = 0.5 is not a number of steps"),
        ((sw.AB2(10.0), 0, 0), "steps = 0 is not a number of steps; give a whole one, 1 or more"),
    ],
)
def test_dynamics_need_a_stepper_and_whole_steps(arguments, sentence):
    with pytest.raises(TypeError, match=sentence):
        forced().dynamics(*arguments)


def test_equations_are_those_of_one_interval():
    dynamics = forced().dynamics(sw.AB2(10.0), steps=STEPS)
    with pytest.raises(ValueError, match=r"holds \d+ intervals between forcing records.*dynamics.interval\(number\)"):
        dynamics.prepare()
    jax.eval_shape(lambda: jax.tree.leaves(dynamics.interval(3).prepare()))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"steps": 0.5}, "steps = 0.5 is not a whole number"),
        ({"steps": -1}, "steps = -1 is negative"),
        ({"steps": "3"}, "steps = '3' is not a number"),
        ({"steps": None}, "steps = None is not a number"),
        ({"stepper": sw.AB2}, "stepper = AB2 is a class"),
        ({"state": np.zeros(3)}, "state = .* does not fit"),
        ({"dynamics": "model"}, "dynamics = 'model' is a name"),
    ],
)
def test_wrong_arguments_of_integrate_are_refused(changed, said):
    model, stepper = sw.ShallowWater(GRID, DEPTH, engine="arrays"), sw.AB2(dt=10.0)
    given = {"dynamics": model.dynamics(stepper), "stepper": stepper, "state": model.at_rest(), "steps": 2, **changed}
    with pytest.raises(ValueError, match=f"integrate: {said}"):
        sw.integrate(**given)


def test_a_step_that_is_not_known_yet_is_refused():
    with pytest.raises(ValueError, match="dt of this AB2 is not known before the program runs"):
        jax.eval_shape(lambda dt: forced().dynamics(sw.AB2(dt)), 10.0)


def test_intervals_are_cut_to_few_programs():
    assert _alike(None, 5) == [(5, [0])]
    assert _alike(Coverage((3, 4, 4, 4), 1.0), 13) == [(3, [0]), (4, [1, 2]), (2, [3])]
    many = tuple(2 * n for n in (3, 1, 4, 1, 5, 9, 2, 6, 5, 3))
    ((common, numbers),) = _alike(Coverage(many, 1.0), sum(many))
    assert common == 2 and [numbers.count(k) for k in range(10)] == [n // 2 for n in many]


def test_a_window_stays_on_the_device_while_its_interval_lasts():
    model = forced()
    one, other, later = (model.interval(2, step, 10.0) for step in (0, 2, 7))
    assert one.terms[0].x.first is other.terms[0].x.first and one.terms[0].x is not later.terms[0].x
