"""4D-Var: the minimum is the minimum, whichever way it is found; the posterior is the inverse of the Hessian."""

import dataclasses
import functools
from types import SimpleNamespace

import jax
import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel.adjoint import Inversion, Misfit, Problem
from swmodel.adjoint.assimilation.assimilation import FourDVar, Rules, incremental, resumed
from swmodel.adjoint.assimilation.departures import Green, departures_of, only_patch, tangent_columns
from swmodel.adjoint.assimilation.diffusion import Smooth
from swmodel.adjoint.assimilation.linear_model import LinearModel
from swmodel.adjoint.assimilation.minimise import Space, Stop, minimise
from swmodel.adjoint.assimilation.posterior import Consistency, Posterior, members, spread
from swmodel.adjoint.assimilation.restarts import Identity, read_inversion_restart, write_inversion_restart
from swmodel.adjoint.controls.seafloor import UnitSources
from swmodel.adjoint.controls.transforms import Around, joined
from swmodel.adjoint.costs.records import Record
from swmodel.errors import ConfigError, DataError
from swmodel.parallel import SerialCommunicator

NX, NY, STEPS, DT = 9, 8, 24, 40.0
PLACES = {"a": (2.6e4, 3.1e4), "b": (7.2e4, 5.4e4), "c": (4.1e4, 7.1e4)}


def ocean(linear):
    grid = sw.CartesianGrid(NX, NY, (0.0, 1e4 * NX), (0.0, 1e4 * NY))
    depth = np.where(np.random.default_rng(2).random((NY, NX)) < 0.05, 0.0, 100.0)
    drag = () if linear else (sw.QuadraticDrag(2.5e-3),)
    return sw.ShallowWater(
        grid,
        depth,
        coriolis=sw.FPlane(1e-4),
        boundaries=sw.ChapmanFlather("east") if linear else (),  # which starts from the level of the sources
        dissipation=drag,
        linear=linear,
        engine="arrays",
        communicator="serial",
    )


def records(seed=0):
    noise = np.random.default_rng(seed)
    time = np.linspace(2 * DT, STEPS * DT, 17)
    return {
        name: Record(place, time, noise.standard_normal(17), 0.5 + 0.1 * k)
        for k, (name, place) in enumerate(PLACES.items())
    }


def patch(model, bend=None):
    sources = UnitSources.on(model, (3e4, 8e4), (2e4, 6e4), 2e4, deviation=1.0, length=2e4, bend=bend)
    return joined({"patch": ("initial.eta", sources)}, model)


@functools.cache
def case(linear=True, bend=None):
    """(FourDVar, Departures) of a patch of unit sources."""
    model = ocean(linear)
    problem = Problem(model, sw.AB2(DT), model.at_rest(), STEPS, Misfit(records()), [patch(model, bend)])
    return FourDVar(problem), departures_of(problem.cost, model.communicator)


def size():
    return np.size(case()[0].background["patch"])


@functools.cache
def exact_matrix():
    """G of the linear case, column by column from the exact tangent."""
    variational, departures = case()
    columns = [
        departures.linear(variational.problem.observed_tangent(variational.background, {"patch": unit})[1]).ravel()
        for unit in np.eye(size())
    ]
    return np.stack(columns, axis=1)


def test_one_outer_loop_solves_a_linear_problem():
    variational, departures = case()
    found = incremental(variational, departures, Rules(1, size(), 1e-12))
    G, d = exact_matrix(), departures.of(np.zeros((STEPS, 3))).ravel()
    right = np.linalg.solve(np.eye(size()) + G.T @ G, -G.T @ d)
    assert np.allclose(found.parameters["patch"], right, atol=1e-9)
    assert variational.space.norm(variational.value_and_gradient(found.parameters)[1]) < 1e-7


def test_green_functions_and_columns_of_runs_are_the_exact_tangent_of_a_linear_model():
    variational, departures = case()
    green = Green.of(variational.problem).linearised(variational.problem)(variational.background, departures)
    columns = tangent_columns(variational.problem)(variational.background, departures)
    exact = exact_matrix()[departures.per_deviation.ravel() > 0]
    assert np.allclose(green.matrix, exact, atol=1e-12) and np.allclose(columns.matrix, exact, atol=1e-12)


@pytest.mark.verify
def test_a_nonlinear_problem_has_one_minimum_by_loops_and_by_descent():
    variational, departures = case(False, 0.3)
    loops = incremental(variational, departures, Rules(12, size(), 1e-10, 1e-10))
    descent = minimise(variational.value_and_gradient, variational.background, variational.space, Stop(gradient=1e-7))
    assert loops.history[-1].value == pytest.approx(descent.value, rel=1e-6)
    assert np.allclose(loops.parameters["patch"], descent.values["patch"], atol=2e-3)
    green = Green.of(variational.problem).linearised(variational.problem)
    near = incremental(variational, departures, Rules(12, decrease=1e-8), linearised=green)
    assert near.history[-1].value == pytest.approx(descent.value, rel=1e-2)  # the inner model is linear, J is not


@pytest.mark.verify
def test_the_gradient_and_the_hessian_are_those_of_differences():
    variational, _ = case(False, 0.3)
    noise = np.random.default_rng(3)
    at, along = ({"patch": noise.standard_normal(size())} for _ in range(2))
    above, below = (variational.space.add(at, h, along) for h in (1e-5, -1e-5))
    (J1, g1), (J2, g2) = (variational.value_and_gradient(x) for x in (above, below))
    gradient = variational.value_and_gradient(at)[1]
    assert variational.space.dot(gradient, along) == pytest.approx((J1 - J2) / 2e-5, rel=1e-7)
    second = (np.asarray(g1["patch"]) - np.asarray(g2["patch"])) / 2e-5
    assert np.allclose(variational.hessian_product(at, along)["patch"], second, rtol=1e-5, atol=1e-6)


def test_a_gauge_that_is_left_out_does_not_count():
    variational, _ = case()
    kept_two = departures_of(variational.problem.cost, variational.problem.communicator, [True, False, True])
    other = departures_of(variational.problem.cost, variational.problem.communicator, [True, False, True])
    readings = np.random.default_rng(4).standard_normal((STEPS, 3))
    changed = readings + np.array([0.0, 9.0, 0.0])
    assert np.array_equal(kept_two.of(readings), other.of(changed))


@pytest.mark.verify
def test_an_inversion_goes_on_from_its_file(tmp_path):
    variational, departures = case(False, 0.3)
    options = size(), 1e-10, 1e-10
    whole = incremental(variational, departures, Rules(3, *options))
    half = incremental(variational, departures, Rules(1, *options))
    model, path = variational.problem.model, tmp_path / "inversion.restart.nc"
    rows = np.array([[i.number, i.value, i.misfit, i.background, i.products] for i in half.history], float)
    write_inversion_restart(
        path, model, {"parameters": half.parameters}, {"history": rows}, Identity({"gravity": 9.81}, records())
    )
    vectors, arrays, found = read_inversion_restart(
        path, model, variational.background, Identity({"gravity": 9.81}, records())
    )
    assert found == [] and set(arrays) == {"history"}
    start = resumed(variational, departures, vectors["parameters"], arrays["history"])
    rest = incremental(variational, departures, Rules(3, *options), start)
    assert [i.number for i in rest.history] == [0, 1, 2, 3]
    assert np.allclose(rest.parameters["patch"], whole.parameters["patch"], atol=1e-12)
    with pytest.raises(DataError, match="belongs to another inversion: gravity is 9.81 in the restart and 9.8 in"):
        read_inversion_restart(path, model, variational.background, Identity({"gravity": 9.8}, records()))


def test_a_record_is_the_same_but_for_the_rounding_of_a_twins_run(tmp_path):
    variational, _ = case(False, 0.3)
    model, path, like = variational.problem.model, tmp_path / "inversion.restart.nc", variational.background
    mine = records()
    name = next(iter(mine))

    def found(changed, withheld=(), force=("observations",)):
        return [d.text for d in read_inversion_restart(path, model, like, Identity({}, changed, withheld), force)[2]]

    def other(**parts):
        return {**mine, name: dataclasses.replace(mine[name], **parts)}

    write_inversion_restart(path, model, {"parameters": like}, {}, Identity({}, mine))
    record, value = mine[name], mine[name].counted()[1]
    assert found(mine) == [] and found(other(value=record.value + 1e-4 * record.error[0])) == []
    bumped = np.array(record.value, float)
    bumped[np.flatnonzero(np.isfinite(bumped))[-1]] += 0.5
    assert found(other(value=bumped)) == [f"the record of {name} differs in 1 of {value.size} values, by up to 0.5 m"]
    assert "is at (" in found(other(place=(record.place[0] + 1e3, record.place[1])))[0]
    assert "errors of" in found(other(deviation=2.0 * np.asarray(record.deviation)))[0]
    assert "is used in the restart and withheld in" in found(mine, (name,))[0]
    assert "observations in the restart and" in found(other(time=record.time[:-1], value=record.value[:-1]))[0]
    assert "at other times" in found(other(time=np.asarray(record.time) - 1.0))[0]
    rest = {key: one for key, one in mine.items() if key != name}
    assert found(rest) == [f"the record of {name} is in the restart and not in the experiment"]
    with pytest.raises(DataError, match="add --force observations"):
        found(rest, force=("controls", "physics"))


def test_other_unknowns_are_refused_whatever_is_forced(tmp_path):
    variational, _ = case(False, 0.3)
    model, path, like = variational.problem.model, tmp_path / "inversion.restart.nc", variational.background
    write_inversion_restart(path, model, {"parameters": like}, {}, Identity({}, records()))
    with pytest.raises(DataError, match="holds other unknowns .* start it anew"):
        read_inversion_restart(
            path, model, {name: np.zeros(np.size(x) + 1) for name, x in like.items()}, Identity({}, records()), "all"
        )


def test_numbers_alone_have_green_functions():
    model = ocean(True)
    field = joined({"eta": ("initial.eta", Around(model.at_rest().eta, Smooth.of(model, "h", 2e4)))}, model)
    problem = Problem(model, sw.AB2(DT), model.at_rest(), STEPS, Misfit(records()), [field])
    with pytest.raises(ConfigError, match="one patch of unit sources"):
        Green.of(problem)
    with pytest.raises(ConfigError, match="eta is a field; use the method 'incremental'"):
        tangent_columns(problem)


# -- posterior ---------------------------------------------------------------------------------------------------------


def test_all_eigenpairs_give_the_covariance_of_the_analysis():
    variational, departures = case()
    problem = variational.problem
    found = incremental(variational, departures, Rules(1), linearised=tangent_columns(problem))
    posterior, (transformed,) = Posterior(*found.basis.eigenpairs()), [patch(problem.model)]
    sources = next(iter(transformed.function.parts.values()))
    X = np.stack([np.asarray(sources(jax.numpy.asarray(unit))).ravel() for unit in np.eye(size())], axis=1)
    G = exact_matrix()
    exact = np.diag(X @ np.linalg.inv(np.eye(size()) + G.T @ G) @ X.T).reshape(NY, NX)
    prior = Posterior.prior(transformed, found.parameters, problem.communicator)["initial.eta"]
    left = prior - posterior.reduction(transformed, found.parameters, problem.communicator)["initial.eta"]
    assert np.allclose(left, exact, atol=1e-9) and np.allclose(prior, np.diag(X @ X.T).reshape(NY, NX))
    assert posterior.signal == pytest.approx(size() - np.trace(np.linalg.inv(np.eye(size()) + G.T @ G)))


def test_an_inversion_has_the_exact_minimum_its_error_and_each_gauge_from_the_others(tmp_path):
    variational, departures = case()
    inversion = Inversion(variational.problem, records(), "green", Rules(loops=1), members=10)
    found = inversion.run(leave_one_out=True)
    G, d = exact_matrix(), departures.of(np.zeros((STEPS, 3))).ravel()
    covariance = np.linalg.inv(np.eye(size()) + G.T @ G)
    assert np.allclose(found.parameters["patch"], -covariance @ G.T @ d, atol=1e-9)
    draws = np.stack([draw["patch"] for draw in found.draws(400)])
    assert np.std(draws, axis=0) == pytest.approx(np.sqrt(np.diag(covariance)), rel=0.2)
    for k, name in enumerate(PLACES):  # what the other two gauges determine
        others = np.tile(np.arange(3) != k, d.size // 3)
        mine = np.linalg.solve(np.eye(size()) + G[others].T @ G[others], -G[others].T @ d[others])
        expected = np.asarray(variational.problem.observed({"patch": mine}))[:, k]
        assert np.allclose(found.readings["withheld"][:, k], expected, atol=1e-9)
        assert found.scores("withheld")[name].misfit > found.scores()[name].misfit
    found.write(tmp_path / "inversion.nc", attributes={"title": "a patch"})
    with xr.open_dataset(tmp_path / "inversion.nc") as data:
        assert data.attrs["inversion_method"] == "green" and data.attrs["title"] == "a patch"
        assert data["observation_withheld_spread"].size == 3 * 17
    with pytest.raises(ConfigError, match="method = 'newton' is unknown; give one of incremental, green"):
        Inversion(variational.problem, records(), "newton")
    model = variational.problem.model
    raw = Problem(model, sw.AB2(DT), model.at_rest(), STEPS, Misfit(records()), ["initial.eta"])
    with pytest.raises(ConfigError, match="must be one Transformed"):
        Inversion(raw, records())


# -- sweeps ------------------------------------------------------------------------------------------------------------

EVERY = 3


def problem(stepper, engine="arrays", **options):
    """A patch in a corner beside an open side, with gauges at the coast and in the corner."""
    depth = np.where(np.random.default_rng(2).random((NY, NX)) < 0.05, 0.0, 100.0)
    grid = sw.CartesianGrid(NX, NY, (0.0, 1e4 * NX), (0.0, 1e4 * NY))
    options = {"boundaries": sw.ChapmanFlather("east"), "engine": engine, "communicator": "serial"} | options
    model = sw.ShallowWater(grid, depth, coriolis=sw.FPlane(1e-4), dissipation=sw.QuadraticDrag(2.5e-3), **options)
    return Problem(model, stepper, model.at_rest(), STEPS, Misfit(records()), [patch(model)])


@pytest.mark.verify
@pytest.mark.parametrize(
    ("stepper", "engine"),
    [(sw.ForwardBackward(DT), "arrays"), (sw.AB3(DT), "fused")],
    ids=["forward_backward", "ab3"],
)
def test_sweeps_give_the_readings_of_runs(stepper, engine):
    given = problem(stepper, engine)
    _, sources, target = only_patch(given)
    linear = LinearModel(given)
    runs = linear.run_each(sources, target, EVERY)
    assert np.abs(linear.swept(sources, target, EVERY) - runs).max() < 1e-14 * np.abs(runs).max()
    with pytest.raises(ConfigError, match="differ by .* from a run: the model changes with time"):
        linear.check_swept(1.001 * runs, sources, target, EVERY)


@pytest.mark.verify
def test_fewer_gauges_than_sources_are_swept(monkeypatch):
    given = problem(sw.AB2(DT))
    runs = Green.of(given)
    monkeypatch.setattr(LinearModel, "cost_of_sweep", staticmethod(lambda every=1: 1.0))
    called = []
    swept = Green.of(given, progress=lambda done, all: called.append((done, all)))
    assert called == [(1, 3), (2, 3), (3, 3)]
    assert np.allclose(swept.columns, runs.columns, rtol=0, atol=1e-14)
    monkeypatch.setattr(LinearModel, "swept", lambda *arguments, **options: _changing())
    assert np.array_equal(Green.of(given).columns, runs.columns)


def _changing():
    raise ConfigError("the model changes with time")


# -- the predictive spread ---------------------------------------------------------------------------------------------

MODEL, SPACE = SimpleNamespace(dtype=np.float64), Space(SerialCommunicator())
NOISE = np.random.default_rng(3)
USED, WITHHELD = NOISE.standard_normal((12, 6)), NOISE.standard_normal((5, 6))  # of six parameters; errors are 1
VALUES, VECTORS = np.linalg.eigh(USED.T @ USED)
EIGENPAIRS = VALUES, [{"p": vector} for vector in VECTORS.T]
START = {"p": np.zeros(6)}


def readings(parameters):
    return np.atleast_2d(WITHHELD @ np.asarray(parameters["p"]))


def estimated(eigenpairs=((), ()), count=400):
    return spread(readings, START, members(count, START, MODEL, SPACE, eigenpairs), SPACE)[0]


@pytest.mark.parametrize(
    "eigenpairs, covariance",
    [(((), ()), np.eye(6)), (EIGENPAIRS, np.linalg.inv(np.eye(6) + USED.T @ USED))],
    ids=["background", "analysis"],
)
def test_the_spread_is_that_of_the_linear_theory(eigenpairs, covariance):
    expected = np.sqrt(np.diag(WITHHELD @ covariance @ WITHHELD.T))
    assert estimated(eigenpairs) == pytest.approx(expected, rel=0.12)


def test_members_without_a_finite_run_do_not_count():
    def blows_up(parameters):
        values = readings(parameters)
        return np.where(np.asarray(parameters["p"])[0] > 1.0, np.nan, values)

    found = spread(blows_up, START, members(50, START, MODEL, SPACE), SPACE)
    assert np.isfinite(found).all()
    assert np.isnan(spread(lambda p: np.nan * readings(p), START, members(3, START, MODEL, SPACE), SPACE)).all()


def errors_of_twins(outside, count=300):
    """r.m.s. of the actual errors at withheld points, of truths with so much that the controls cannot make."""
    noise, squares = np.random.default_rng(5), np.zeros(5)
    beyond = [noise.standard_normal((rows, 6)) for rows in (12, 5)]
    for _ in range(count):
        p, q = noise.standard_normal(6), outside * noise.standard_normal(6)
        observed = USED @ p + beyond[0] @ q + noise.standard_normal(12)
        analysis = np.linalg.solve(np.eye(6) + USED.T @ USED, USED.T @ observed)
        squares += (WITHHELD @ analysis - WITHHELD @ p - beyond[1] @ q) ** 2
    return np.sqrt(squares / count)


def test_actual_errors_at_withheld_points_are_the_spread_where_the_controls_can_make_the_truth():
    assert errors_of_twins(0.0) == pytest.approx(estimated(EIGENPAIRS), rel=0.2)


def test_what_the_controls_cannot_make_is_not_in_the_spread():
    """It is in the error of the observations, or nowhere: the spread is then too small, as the docs say."""
    assert np.all(errors_of_twins(0.7) > 1.8 * estimated(EIGENPAIRS))


@pytest.mark.parametrize(
    "first, last, before, after",
    [
        (50.0, 10.0, None, None),
        (2e9, 1e7, "further from", "does not follow"),
        (1.5, 1.0, "nearer to", "more closely"),
        (50.0, 24.0, None, None),
        (50.0, 30.0, None, "does not follow"),
    ],
)
def test_a_cost_far_from_its_expectation_is_a_warning(first, last, before, after):
    found = Consistency(40, 20.0, first, last, 50.0)
    for warning, part in ((found.warning_before(), before), (found.warning_after(), after)):
        assert warning is None if part is None else part in warning
    assert Consistency(40, 20.0, first, last, np.nan).warning_before() is None
