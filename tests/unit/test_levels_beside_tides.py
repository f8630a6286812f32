"""A mean level and an anomaly in time beside the tide at a side: in both engines, in files, and as a control."""

import datetime
from types import SimpleNamespace

import numpy as np
import pytest

import swmodel as sw
from swmodel.adjoint import FinalState, Problem, names_of
from swmodel.adjoint.verification import verify
from swmodel.config.adjoint import known_controls
from swmodel.config.assembly import assemble, model_of
from swmodel.config.experiment import read_text
from swmodel.dynamics.clock import Time
from tests.selection import later

START = datetime.datetime(2008, 9, 8, 6, 0)
PAIRS = {"M2": (0.5, 40.0), "O1": (0.2, 200.0)}
GRID = sw.CartesianGrid(6, 5, (0.0, 6e4), (0.0, 5e4))
TIMES = np.array([0.0, 900.0, 3600.0])
VALUES = np.array([0.0, 0.3, -0.2])
COST = FinalState(lambda state, equations: (state.eta * state.eta + state.u * state.u).sum())


def level(x, y):
    return 0.3 + y / 1e6 + 0.0 * x


def model_with(tide, engine="arrays", **options):
    sides = (sw.Clamped("west", tide),)
    return sw.ShallowWater(GRID, 100.0, boundaries=sides, linear=True, engine=engine, **options)


@pytest.mark.parametrize("engine", [later("arrays"), "fused"])
def test_a_clamped_side_has_the_tide_the_level_and_the_anomaly_together(engine):
    records = SimpleNamespace(times=TIMES, values=VALUES[:, None, None] * np.ones((1, 5, 6)), cycle=None)
    alone = model_with(sw.Tide(PAIRS, START)).open_boundaries[0].elevation

    def tide(seconds):
        return float(alone.at(Time(0, seconds / 60.0, np.float64(60.0), 60.0)))

    model = model_with(sw.Tide(PAIRS, START, level=level, anomaly=records), engine)
    simulation = sw.Simulation(model, model.state(eta=lambda x, y: tide(0.0) + level(x, y)), sw.ForwardBackward(60.0))
    for steps in (7, 20):
        state = simulation.run(steps=steps)
        expected = tide(simulation.time) + level(0.0, GRID.y_centres) + np.interp(simulation.time, TIMES, VALUES)
        np.testing.assert_allclose(np.asarray(state.eta)[:, 0], expected, atol=2e-4)


@pytest.mark.verify
def test_the_level_is_a_control_with_the_right_gradient():
    model = model_with(sw.Tide(PAIRS, START, level=level, anomaly=0.1))
    controls = ["boundary.0.elevation.level"]
    verdicts = verify(Problem(model, sw.ForwardBackward(60.0), model.at_rest(), 9, COST, controls), second=False)
    assert verdicts and not [str(verdict) for verdict in verdicts if not verdict.passed]


EXPERIMENT = """\
grid = {type = "cartesian", nx = 6, ny = 5, x = ["0 km", "60 km"], y = ["0 km", "50 km"]}
bathymetry = {type = "flat", depth = 100.0}
stepper = {type = "rk4"}
run = {until = "1 h", start = 2008-09-08T06:00:00Z}
[[boundary]]
type = "flather"
sides = "west"
[boundary.elevation]
constituents.M2 = {amplitude = "0.5 m", phase = 40}
level = "30 cm"
anomaly = {file = "surge.csv"}
[adjoint]
controls = ["boundary.0.elevation.level"]
[adjoint.cost]
type = "box_energy"
"""


def test_a_file_gives_both_and_the_level_as_a_control(tmp_path):
    lines = [f"{time:g},{value:g}" for time, value in zip(TIMES, VALUES)]
    (tmp_path / "surge.csv").write_text("time_s,eta_m\n" + "\n".join(lines) + "\n")
    draft = read_text(EXPERIMENT, "tide.toml", str(tmp_path))
    assert draft.sentences() == []
    made = assemble(draft)
    assert made.sentences() == []
    model = model_of(made, "serial")
    assert "boundary.0.elevation.level" in known_controls(draft.sections)
    assert set(known_controls(draft.sections)) == set(names_of(model))
    side = model.open_boundaries[0].elevation
    expected = model_with(sw.Tide({"M2": (0.5, 40.0)}, START), dtype="float32").open_boundaries[0].elevation
    for seconds in (0.0, 1800.0, 3600.0):
        time = Time(0, seconds / 60.0, np.float32(60.0), 60.0)
        total = float(expected.at(time)) + 0.3 + np.interp(seconds, TIMES, VALUES)
        assert float(side.at(time)) == pytest.approx(total, abs=1e-6)
    (tmp_path / "surge.csv").write_text("time_s,eta_m\n0,0\n1800,0.2\n")
    (sentence,) = assemble(read_text(EXPERIMENT, "tide.toml", str(tmp_path))).sentences()
    assert "surge.csv ends at 1800 s, and the run needs it until 3600 s" in sentence, sentence
