"""Controls are found by name, hold what the model holds, and say what is wrong with a name."""

import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel import adjoint
from swmodel.adjoint import Truth
from swmodel.adjoint.controls.controls import controls_of
from swmodel.errors import ConfigError
from swmodel.parallel import SerialCommunicator

from . import cases


def test_a_model_names_all_that_it_can_be_differentiated_in():
    assert set(adjoint.names_of(cases.everything())) == {
        "initial.u",
        "initial.v",
        "initial.eta",
        "depth",
        "gravity",
        "uplift",
        "forcing.0.x",
        "forcing.0.y",
        "forcing.0.density",
        "dissipation.0.coefficient",
        "dissipation.1.viscosity",
        "boundary.0.rate",
        "boundary.0.elevation",
        "boundary.0.velocity_x",
        "boundary.0.velocity_y",
        "boundary.1.elevation",
        "boundary.1.velocity",
        "boundary.1.incoming",
    }


@pytest.mark.parametrize(
    "name, said",
    [
        ("initial.etta", "'initial.eta'"),
        ("dissipation.0.coeficient", "'dissipation.0.coefficient'"),
        ("forcing.1.x", "'forcing.0.x'"),
        ("Depth", "'depth'"),
    ],
)
def test_a_control_that_does_not_exist_is_answered_with_the_nearest(name, said):
    with pytest.raises(ConfigError, match=f"control '{name}' does not exist.*did you mean {said}"):
        adjoint.controls_of(cases.everything(), [name])


def test_an_uplift_needs_a_source():
    model = sw.ShallowWater(sw.CartesianGrid(5, 4, (0, 5e4), (0, 4e4)), 100.0, communicator="serial")
    with pytest.raises(ConfigError, match="uplift.*source=BottomMotion"):
        adjoint.controls_of(model, ["uplift"])


def test_values_are_what_the_model_holds():
    values = cases.problem().values
    assert set(values) == set(cases.NAMES)
    np.testing.assert_array_equal(values["depth"], cases.sea_floor())
    assert values["dissipation.0.coefficient"] == 2.5e-3
    assert sorted(values["forcing.0.x"]) == [0, 1, 2, 3]
    np.testing.assert_array_equal(values["forcing.0.x"][2], cases.random(3, 4, cases.NY, cases.NX)[2])
    assert list(values["uplift"]) == [1]  # it rises from zero
    np.testing.assert_array_equal(values["uplift"][1], cases.random(6, 1, cases.NY, cases.NX)[0])


def test_values_for_what_is_no_control_are_refused():
    with pytest.raises(ConfigError, match="got values for wind, .*initial.eta"):
        cases.problem().value({"wind": 1.0})


def test_controls_have_positions_and_units():
    model = cases.everything()
    found = {c.name: (c.position, c.units) for c in adjoint.controls_of(model, adjoint.names_of(model))}
    assert found["initial.u"] == ("u", "m s-1") and found["forcing.0.x"] == ("u", "N m-2")
    assert found["gravity"] == ("scalar", "m s-2") and found["boundary.1.elevation"] == ("h", "m")
    assert found["uplift"] == ("h", "m") and found["dissipation.0.coefficient"] == ("scalar", "1")


def test_an_inner_product_counts_all_entries_of_records_too():
    a = {"x": np.full((2, 3), 2.0), "r": {0: np.ones((2, 3)), 4: np.full((2, 3), 3.0)}, "s": np.array([1.0, 2.0])}
    assert adjoint.dot(a, a, SerialCommunicator()) == 24.0 + 6.0 + 54.0 + 5.0


def test_a_series_is_compared_with_the_truth_at_the_same_times_only():
    name, grid = "boundary.0.incoming.values", sw.CartesianGrid(6, 4, (0.0, 6.0), (0.0, 4.0))

    def model(times):
        wave = sw.Flather("west", incoming=sw.Record(times, [0.0, 0.1, 0.2]))
        return sw.ShallowWater(grid, 10.0, boundaries=wave, communicator="serial")

    (control,) = controls_of(model([0.0, 1.0, 2.0]), [name])
    for times, known in (([0.0, 1.0, 2.0], True), ([0.0, 1.0, 3.0], False)):
        true = model(times)
        assert (Truth(true, true.at_rest()).of(control, 0.1) is not None) == known


def test_the_values_of_a_record_at_a_side_have_derivatives():
    grid, seconds = sw.CartesianGrid(12, 4, (0.0, 12.0), (0.0, 4.0), periodic="y"), np.arange(0.0, 6.0)
    wave = sw.Flather("west", incoming=sw.Record(seconds, 0.01 * np.sin(seconds)))
    model = sw.ShallowWater(grid, 10.0, boundaries=wave, engine="arrays")
    problem = adjoint.Problem(
        model,
        sw.AB2(dt=0.01),
        model.at_rest(),
        steps=150,
        cost=adjoint.GaugeMaximum({"middle": (6.5, 2.0)}),
        controls=("boundary.0.incoming.values",),
    )
    values = problem.values["boundary.0.incoming.values"]
    gradient = np.asarray(problem.value_and_gradient()[1]["boundary.0.incoming.values"])
    assert gradient.shape == seconds.shape and gradient[4] == 0.0  # after the end
    change = 1e-6 * np.cos(seconds)
    moved = ({"boundary.0.incoming.values": values + s * change} for s in (1.0, -1.0))
    above, below = (problem.value_and_gradient(x)[0] for x in moved)
    assert gradient @ change == pytest.approx(0.5 * (above - below), rel=1e-5)
    assert abs(gradient @ change) > 1e-8


def test_a_depth_below_zero_costs_the_same_in_both_engines():
    """On arrays such a cell was water, and land in fused loops."""
    grid = sw.CartesianGrid(8, 6, (0.0, 8e3), (0.0, 6e3))
    bump = lambda x, y: 0.1 * np.exp(-((x - 4e3) ** 2 + (y - 3e3) ** 2) / 1e6)  # noqa: E731
    depth, costs = np.full(grid.shape, 50.0), []
    depth[2:4, 3:5] = -3.0
    for engine in ("arrays", "fused"):
        model = sw.ShallowWater(grid, 50.0, engine=engine, communicator="serial", linear=True)
        cost = adjoint.FinalState(lambda state, equations: (state.eta**2).sum())
        problem = adjoint.Problem(model, sw.ForwardBackward(10.0), model.state(eta=bump), 8, cost, ["depth"])
        costs.append(problem.value({"depth": jnp.asarray(depth)}))
    assert costs[0] == pytest.approx(costs[1], rel=1e-10)
