"""Maps hold the gradient, with units, in files and figures that anyone can read."""

import importlib
import types

import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel import adjoint, postprocess
from swmodel.adjoint.sensitivity import Sensitivity, forward_check, pattern, per, sensitivities
from swmodel.errors import ConfigError
from swmodel.output.studies import name_of, write_sensitivities
from swmodel.parallel import SerialCommunicator

from ..unit.test_netcdf import GRIDS, OF_SGRID, START, cf_findings, static_fields

COST = {"name": "elevation at 21418 after 1 h", "value": 0.25, "units": "m", "places": {"21418": (177.0, 25.0)}}


def found(grid):
    random = np.random.default_rng(0)
    field = lambda *shape: random.standard_normal((*shape, *grid.shape))  # noqa: E731
    records = field(3)
    return {
        "initial.eta": Sensitivity("initial.eta", "h", per("m", "m"), field()),
        "initial.u": Sensitivity("initial.u", "u", per("m", "m s-1"), field()),
        "initial.v": Sensitivity("initial.v", "v", per("m", "m s-1"), field()),
        "uplift": Sensitivity("uplift", "h", "m per m", records.sum(0), records, np.array([0.0, 30.0, 60.0])),
        "gravity": Sensitivity("gravity", "scalar", per("m", "m s-2"), np.asarray(0.5)),
        "dissipation.0.roughness": Sensitivity("dissipation.0.roughness", "h", per("m", "s m-1/3"), field()),
        "forcing.0.x": Sensitivity(
            "forcing.0.x", "scalar", per("m", "degree_east"), np.array([0.1, 0.2]), moments=np.array([0.0, 21600.0])
        ),
        "forcing.0.radius": Sensitivity(
            "forcing.0.radius", "scalar", "m per m", np.array([0.3, 0.4]), moments=np.array([0.0, 21600.0])
        ),
        "slip": Sensitivity("slip", "scalar", per("m", "1"), np.array([1.0, 2.0])),
    }


def written(tmp_path, name):
    """(the grid, the sensitivities, their file)."""
    grid, path = GRIDS[name], tmp_path / "sensitivity.nc"
    maps = found(grid)
    write_sensitivities(path, grid, maps, cost=COST, seconds=3600.0, start=START, static=static_fields(grid))
    return grid, maps, path


def test_units_are_those_of_the_cost_per_unit_of_the_control():
    assert per("m", "m") == "m per m" and per("J", "1") == "J"
    assert per("m", "N m-2") == "m per (N m-2)"
    units = pytest.importorskip("cf_units")
    assert units.Unit(per("m", "N m-2")) == units.Unit("m3 N-1")


@pytest.mark.parametrize("name", ["ocean", "closed", "channel_x", "channel_y"])
def test_a_file_holds_the_maps_and_numbers_with_units_and_what_they_are_of(tmp_path, name):
    grid, maps, path = written(tmp_path, name)
    with xr.open_dataset(path) as data:
        wet = data["wet"].values > 0
        for name in ("initial.eta", "uplift", "dissipation.0.roughness"):
            values = data[name_of(name)].values
            np.testing.assert_allclose(values[wet], maps[name].value[wet])
            assert np.isnan(values[~wet]).all()
        u = data["sensitivity_initial_u"].values
        np.testing.assert_allclose(u[:, -grid.nx :][wet], maps["initial.u"].value[wet])
        assert grid.periodic_x or np.isnan(u[:, 0]).all()
        np.testing.assert_allclose(data["sensitivity_uplift_by_record"].values[:, wet], maps["uplift"].records[:, wet])
        np.testing.assert_array_equal(data["sensitivity_uplift_time"], [0.0, 30.0, 60.0])
        assert data["sensitivity_initial_eta"].attrs["units"] == "m per m"
        assert data["sensitivity_gravity"].attrs["units"] == "m per (m s-2)" and data["sensitivity_gravity"] == 0.5
        assert "units" not in data["sensitivity_dissipation_0_roughness"].attrs
        assert data["sensitivity_dissipation_0_roughness"].attrs["comment"].endswith("in m per (s m-1/3)")
        np.testing.assert_array_equal(data["sensitivity_slip"], [1.0, 2.0])
        for name in ("x", "radius"):  # a track has one axis of times
            assert data[f"sensitivity_forcing_0_{name}"].dims == ("forcing_0_time",)
        assert data["sensitivity_forcing_0_x"].attrs["units"] == "m per degree_east"
        assert data["forcing_0_time"].attrs["standard_name"] == "time"
        np.testing.assert_array_equal(data["forcing_0_time"] - np.datetime64(START), np.array([0, 6], "m8[h]"))
        assert data.attrs["sensitivity_of"] == COST["name"] and data.attrs["cost_value"] == 0.25


@pytest.mark.verify
@pytest.mark.filterwarnings("ignore")  # the checker's own
def test_a_cf_checker_finds_nothing_but_that_sgrid_is_not_cf_and_units_that_cf_cannot_say(tmp_path):
    grid, path = GRIDS["ocean"], tmp_path / "sensitivity.nc"
    maps = found(grid)
    del maps["dissipation.0.roughness"]
    write_sensitivities(path, grid, maps, cost=COST, seconds=3600.0, start=START, static=static_fields(grid))
    assert cf_findings(path) == [OF_SGRID]


@pytest.mark.verify
def test_plot_finds_the_maps_by_itself_and_shows_one_if_asked(tmp_path):
    _, _, path = written(tmp_path, "ocean")
    pytest.importorskip("matplotlib")
    (drawn,) = postprocess.plot(path)
    assert drawn == path.with_suffix(".png") and drawn.stat().st_size > 20_000
    (one,) = postprocess.plot(path, path.with_name("one.png"), variable="initial.eta")
    assert 5_000 < one.stat().st_size < drawn.stat().st_size
    with pytest.raises(postprocess.PlotError, match="no map of 'wind'; the file has sensitivity_initial_eta"):
        postprocess.plot(path, variable="wind")


def slips(p):
    return {"initial.eta": p["uplift"] * p["slip"][0]}


def a_slip_of(units):
    """A Problem of a number and a field of one's own."""
    grid = sw.CartesianGrid(6, 5, (0.0, 6e4), (0.0, 5e4))
    model = sw.ShallowWater(grid, 1000.0, engine="arrays", communicator="serial")
    parameters = {"slip": np.array([2.0, 3.0]), "uplift": model.scatter(np.ones(grid.shape))}
    gauge, own = adjoint.GaugeElevation({"a": (2e4, 3e4)}), adjoint.Transformed(parameters, slips, units)
    return adjoint.Problem(model, sw.AB2(10.0), model.at_rest(), 2, gauge, [own])


def test_parameters_of_ones_own_have_their_units_in_maps_checks_files_and_figures(tmp_path, monkeypatch):
    problem = a_slip_of({"slip": "m", "uplift": "m km-1"})
    gradient = {name: 0.5 * value for name, value in problem.values.items()}
    maps = sensitivities(problem, gradient, "m")
    assert maps["slip"].units == "m per m" and maps["uplift"].units == "m per (m km-1)"
    monkeypatch.setattr(problem, "value", lambda values: 0.0)  # runs are of no matter here
    assert forward_check(problem, 0.0, gradient, "slip", 1.0).units == "m"
    path = tmp_path / "sensitivity.nc"
    write_sensitivities(path, problem.model.grid, maps, cost=COST | {"places": {}}, seconds=20.0)
    with xr.open_dataset(path) as data:
        assert data["sensitivity_slip"].attrs["units"] == "m per m"
        assert data["sensitivity_uplift"].attrs["units"] == "m per (m km-1)"
        pytest.importorskip("matplotlib")
        page = importlib.import_module("swmodel.postprocess.sensitivity").figure(data.load())
        labels = [axes.get_ylabel() + axes.get_xlabel() + axes.get_title() for axes in page.axes]
        assert any("per km²" in label and "km-1" in label.replace("⁻¹", "-1") for label in labels), labels
    assert a_slip_of({}).units == {"slip": "1", "uplift": "1"}
    with pytest.raises(ConfigError, match="got units for slp, and its parameters are slip, uplift"):
        a_slip_of({"slp": "m"})


def test_records_are_put_together_and_summed_and_their_times_kept():
    """Of a problem's controls: tile arrays, numbers, and time records of which the first is not a control."""
    series = types.SimpleNamespace(times=[0.0, 10.0, 20.0])
    controls = [
        types.SimpleNamespace(name="uplift", position="h", units="m", series=series, times=()),
        types.SimpleNamespace(name="gravity", position="scalar", units="m s-2", series=None, times=()),
    ]
    gradient = {"uplift": {1: np.ones((2, 3)), 2: 2 * np.ones((2, 3))}, "gravity": np.asarray(4.0)}
    model = types.SimpleNamespace(gather=np.asarray, dtype=np.dtype("float32"))
    problem = types.SimpleNamespace(
        controls=controls, names=[*gradient], values=gradient, model=model, communicator=SerialCommunicator(), units={}
    )
    maps = sensitivities(problem, gradient, "m")
    np.testing.assert_array_equal(maps["uplift"].value, np.full((2, 3), 3.0))
    assert (maps["uplift"].records.dtype, maps["uplift"].value.dtype) == (np.float32, np.float64)
    np.testing.assert_array_equal(maps["uplift"].times, [10.0, 20.0])
    assert maps["gravity"].units == "m per (m s-2)" and maps["gravity"].value == 4.0
    moved = pattern(problem, gradient["uplift"], 0.5)
    assert set(moved) == {1, 2} and moved[1].max() == 0.5
