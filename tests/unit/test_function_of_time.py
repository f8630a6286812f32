"""Parameters that are functions of (x, y, t): the wave below a moving pressure, resumed runs, and what is refused."""

import time

import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel.errors import ConfigError, DataError
from swmodel.output.products.snapshots import fields_of_tiles
from swmodel.output.schedule import Writer

LENGTH, DEPTH, SPEED, HEIGHT = 400e3, 100.0, 20.0, 150.0  # [m], [m], [m s-1], [Pa]
K = 2.0 * np.pi / LENGTH
UNTIL = 0.5 * LENGTH / SPEED
GRID = sw.CartesianGrid(64, 3, (0.0, LENGTH), (0.0, 30e3), "xy")


def pressure(x, y, t):
    return 101325.0 + HEIGHT * np.cos(K * (x - SPEED * t)) + 0.0 * y


def error(every):
    """The largest error of the level after half a passage, over its amplitude: Proudman (1929), c^2 = g H.

    eta = p H / (rho (U^2 - c^2)) and u = U eta / H below a pressure p that moves with the speed U.
    """
    model = sw.ShallowWater(
        GRID,
        DEPTH,
        linear=True,
        dtype="float64",
        forcing=sw.AirPressure(sw.FunctionOfTime(pressure, UNTIL, every), density=1025.0),
    )
    amplitude = HEIGHT * DEPTH / 1025.0 / (SPEED**2 - model.gravity * DEPTH)

    def level(x, y):
        return amplitude * np.cos(K * x) + 0.0 * y

    start = model.state(eta=level, u=lambda x, y: SPEED / DEPTH * level(x, y))
    steps = 250
    end = sw.Simulation(model, start, sw.RK4(UNTIL / steps)).run(steps=steps)
    exact = -amplitude * np.cos(K * GRID.coordinates("h")[0])
    return float(np.abs(np.asarray(end.eta) - exact).max() / abs(amplitude))


def test_the_level_below_a_moving_pressure_is_that_of_proudman_with_an_error_of_second_order_in_the_interval():
    errors = [error(every) for every in (2000.0, 1000.0, 200.0)]
    assert errors[-1] < 0.002
    assert errors[0] - errors[-1] > 3.3 * (errors[1] - errors[-1]) > 0


TOML = """\
run = {until = "20 min"}
grid = {type = "cartesian", nx = 20, ny = 4, x = [0, "40 km"], y = [0, "8 km"]}
bathymetry = {type = "flat", depth = "50 m"}
stepper = {type = "ab2", dt = "10 s"}
[[forcing]]
type = "air_pressure"
pressure = {formula = "101325 + 200 * sin(x / (5 * km) - t / (3 * minute))", every = "90 s"}

[output]
restart = {file = "restart.nc", every = "7 min"}
fields = [{file = "fields.nc", variables = ["eta"], every = "1 min"}]
"""


@pytest.mark.verify
def test_a_run_with_a_formula_in_time_is_resumed_bit_for_bit(tmp_path, command):
    file = tmp_path / "moving.toml"
    file.write_text(TOML)
    for until, out in (("20 min", "whole"), ("7 min", "half")):
        assert command("run", file, "--until", until, "--output", tmp_path / out, "--quiet")[0] == 0
    assert command("resume", tmp_path / "half" / "restart.nc", "--until", "20 min", "--quiet")[0] == 0
    whole, half = (xr.open_dataset(tmp_path / out / "fields.nc") for out in ("whole", "half"))
    assert whole.sizes["time"] == 21 and abs(whole.eta).max() > 1e-3
    np.testing.assert_array_equal(whole.eta, half.eta)


@pytest.mark.parametrize(
    "value, sentence",
    (
        ('"101325 + 10 * sin(t)"', "a forcing or side that changes in time is a table, {formula = "),
        ('{formula = "101325 + 10 * sin(t) * longitude"}', "the formula uses longitude, which a cartesian grid does"),
        ('{formula = "1013 + sin(t)"}', "which look like hPa; give Pa"),
        ('{formula = "101325 + log(600 - t)"}', "is not finite on all of the grid at t = 600 s"),
        ("{formula = 3.0}", "is not a formula; write one as in"),
        ('{formula = "101325 + t", every = "0 s"}', "every"),
        ('{formula = "101325 + t", file = "era5.nc"}', "file and formula exclude one another"),
    ),
)
def test_formulas_that_are_wrong_are_refused_in_a_sentence(value, sentence, tmp_path, command):
    file = tmp_path / "moving.toml"
    lines = [f"pressure = {value}" if line.startswith("pressure") else line for line in TOML.splitlines()]
    file.write_text("\n".join(lines))
    assert sentence in command.refused("check", file)


def test_what_is_read_at_a_record_does_not_depend_on_what_comes_after_it():
    """The rate of the level, which jumps at records, sets the flow through a clamped side."""
    found = []
    for until in (40.0, 80.0):
        level = sw.FunctionOfTime(lambda x, y, t: 1e-4 * t**2 + 0.0 * (x + y), until, every=40.0)
        grid = sw.CartesianGrid(8, 8, (0.0, 8e3), (0.0, 8e3))
        model = sw.ShallowWater(grid, DEPTH, boundaries=sw.Clamped("south", elevation=level))
        simulation = sw.Simulation(model, model.at_rest(), sw.RK4(20.0))
        simulation.run(until=40.0)
        found.append(np.asarray(fields_of_tiles(simulation, ["v"])["v"]))
    assert np.abs(found[0]).max() > 0 and np.array_equal(*found)


def test_a_function_is_called_when_no_thread_writes_files(tmp_path, monkeypatch):
    """Functions of users may read netCDF files, whose library is not thread-safe."""
    writing, evaluated, both = [], [], []
    submit = Writer.submit

    def submit_slowly(self, output, write, size=0):
        def slow():
            writing.append(output)
            time.sleep(0.02)
            write()
            writing.remove(output)

        submit(self, output, slow, size)

    def slow_pressure(x, y, t):
        both.extend(writing)
        time.sleep(0.02)
        both.extend(writing)
        evaluated.append(t)
        return pressure(x, y, t)

    monkeypatch.setattr(Writer, "submit", submit_slowly)
    forcing = sw.AirPressure(sw.FunctionOfTime(slow_pressure, 1200.0, 200.0))
    model = sw.ShallowWater(GRID, DEPTH, forcing=forcing)
    simulation = sw.Simulation(model, model.at_rest(), sw.ForwardBackward(50.0))
    simulation.write(tmp_path / "fields.nc", ("eta",), every=50.0).run(until=1200.0)
    assert len(set(evaluated)) == 7 and not both


def test_a_function_that_does_not_cover_the_run_is_refused():
    moving = sw.FunctionOfTime(pressure, until=100.0)
    model = sw.ShallowWater(GRID, DEPTH, forcing=sw.AirPressure(moving))
    simulation = sw.Simulation(model, model.at_rest(), sw.RK4(20.0))
    with pytest.raises(DataError, match="the records of the function end 0.0[0-9]+ h before the run does"):
        simulation.run(until=400.0)
    with pytest.raises(ConfigError, match="function = 3.0"):
        sw.FunctionOfTime(3.0, until=100.0)
