"""`swmodel adjoint`: maps and their forward checks, verification with its exit codes, and what it says to mistakes."""

import importlib.util
import math
import re
import types

import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel.adjoint import examination, verification
from swmodel.adjoint.verification import Taylor, Verdict
from swmodel.config import load
from swmodel.config.sections import Surroundings
from swmodel.config.studies import least_steps
from swmodel.errors import ConfigError
from tests.studies import BUMP


@pytest.fixture
def case(tmp_path):
    path = tmp_path / "case.toml"
    path.write_text(BUMP)
    return path


def test_a_file_and_a_figure_of_the_maps_and_a_forward_check_of_each(case, command, tmp_path):
    folder = tmp_path / "out"
    plot = ["--plot"] * (importlib.util.find_spec("matplotlib") is not None)
    out, _ = command.ok("adjoint", case, "-o", folder, *plot)
    checks = re.findall(r"forward check of (\S+): .* change is (\S+) m in the nonlinear model and (\S+) in", out)
    assert [name for name, *_ in checks] == ["initial.eta", "dissipation.0.rate"]
    for _, nonlinear, linear in checks:
        assert float(linear) > 0 and float(nonlinear) == pytest.approx(float(linear), rel=0.05)
    assert (folder / "sensitivity.png").exists() == bool(plot)
    with xr.open_dataset(folder / "sensitivity.nc") as data:
        assert data["sensitivity_initial_eta"].shape == (10, 12)
        assert data["sensitivity_initial_eta"].attrs["units"] == "m per m"
        assert data["sensitivity_dissipation_0_rate"].ndim == 0
        assert data.attrs["sensitivity_of"] == "elevation at A from 20 min to 30 min"
        assert "[adjoint.cost]" in data.attrs["config"]
    before = (folder / "sensitivity.nc").read_bytes()
    assert "exists already; add --overwrite" in command.refused("adjoint", case, "-o", folder)
    assert (folder / "sensitivity.nc").read_bytes() == before
    status, _, err = command("adjoint", case, "-o", folder, "--overwrite", "--no-check", "-q")
    assert status == 0 and not (folder / "sensitivity.png").exists(), err


@pytest.mark.verify
def test_verification_prints_its_figures_and_ends_with_0(case, command):
    options = "--set", "adjoint.controls=initial.eta", "--set", "adjoint.cost={type='box_energy'}", "--steps", "8"
    out, _ = command.ok("adjoint", case, "--verify", *options)
    figures = {name: float(value) for name, value in re.findall(r"^(\w+)=(\S+)$", out, re.M)}
    assert set(figures) == {"dot_product", "taylor_rate", "taylor_rate_second"}
    assert figures["dot_product"] <= 1e-12 and figures["taylor_rate"] >= 1.95 and figures["taylor_rate_second"] >= 2.95
    assert "float64" in out and re.search(r"^initial.eta .* ok$", out, re.M)


@pytest.mark.verify
def test_what_is_needed_of_a_budget_is_told_before(case, command):
    options = "--set", "adjoint.memory=1 MB", "--set", "adjoint.controls=initial.eta", "--no-check"
    status, out, err = command("adjoint", case, *options, "-o", case.parent / "out")
    memory = re.search(r"^memory +about ([\d.]+) kB for a gradient, of 1 MB that a rank may use$", out, re.M)
    assert status == 0 and memory and 10 < float(memory[1]) < 1000, err
    case.write_text(BUMP.replace("[adjoint]\n", '[adjoint]\nmemory = "1 kB"\n'))
    status, _, err = command("adjoint", case, "-o", case.parent / "other")
    assert status == 2 and "adjoint.memory: memory = 1000 bytes is too little for 60 steps of this model" in err


@pytest.fixture
def asked(monkeypatch):
    """What `verification.verify` is called with, and finds instead of computing it."""
    seen = types.SimpleNamespace(dot_product=1e-16, rates=(2.0, 3.0), nonlinearity=0.01, kinks=False, agreed=None)

    def verify(problem, amplitudes, seed, report):
        seen.problem, seen.amplitudes = problem, amplitudes
        second = tuple(2.0 ** (-seen.rates[1] * k) for k in range(9))
        taylor = Taylor((1.0,) * 9, tuple(2.0 ** (-seen.rates[0] * k) for k in range(9)), second, (0.0,) * 9)
        numbers = 0.01, seen.dot_product, taylor, seen.nonlinearity, seen.kinks, seen.agreed
        return [Verdict(name, "m", *numbers) for name in problem.values]

    monkeypatch.setattr(verification, "verify", verify)
    monkeypatch.setattr(examination, "term_by_term", lambda *arguments: {"vorticity flux": 0.5})
    return seen


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"dot_product": 2e-12}, "dot_product=2e-12"),
        ({"rates": (1.9, 3.0)}, "taylor_rate=1.9"),
        ({"rates": (2.0, 2.9)}, "taylor_rate_second=2.9"),
        ({"dot_product": math.nan}, "dot_product=nan"),
    ],
)
def test_a_wrong_derivative_ends_with_1_and_names_the_term(case, command, asked, wrong, line):
    vars(asked).update(wrong)
    status, out, err = command("adjoint", case, "--verify")
    assert status == 1 and "the derivatives in initial.eta, dissipation.0.rate are wrong" in err
    assert f"\n{line}\n" in out and "WRONG" in out
    assert re.search(r"term by term:\n  vorticity flux +5.0e-01", out)


def test_verification_warns_where_the_tangent_does_not_hold_and_where_nothing_changes(case, command, asked):
    asked.nonlinearity = 0.42
    status, _, err = command("adjoint", case, "--verify")
    assert status == 0 and "initial.eta: at the amplitude given of 0.01 m" in err
    assert "differ from the tangent-linear one's by 42 %, more than 30 %" in err
    assert asked.amplitudes == {"initial.eta": 0.01}
    asked.nonlinearity = math.inf
    assert "changes nothing in this run" in command("adjoint", case, "--verify")[2]


def test_where_the_scheme_has_kinks_the_dot_product_decides(case, command, asked):
    vars(asked).update(rates=(1.0, 1.0), kinks=True)
    status, out, err = command("adjoint", case, "--verify")
    assert status == 0 and out.count("ok by the dot product") == 2 and "dot_product=1e-16" in out
    assert "taylor_rate" not in out and "the rates do not judge the derivative, because the scheme has kinks" in err
    asked.dot_product = 1e-10
    status, out, _ = command("adjoint", case, "--verify")
    assert status == 1 and out.count("WRONG") == 2
    asked.agreed = 50
    out, err = command.ok("adjoint", case, "--verify")
    assert out.count(" ok over 50 steps by the dot product") == 2
    assert "rounding decides which one the tangent and the adjoint take" in err.replace("\n", " ")
    vars(asked).update(rates=(2.0, 3.0), dot_product=1e-16, agreed=None)
    status, out, err = command("adjoint", case, "--verify")
    assert status == 0 and "taylor_rate=2\n" in out and "kinks" not in err


def beach():
    """A model with a shore, and a state that moves over it."""
    grid = sw.CartesianGrid(9, 8, (0.0, 9.0), (0.0, 8.0), periodic="y")
    floor = np.broadcast_to(np.linspace(1.0, -0.2, 9), (8, 9))
    options = dict(communicator="serial", engine="arrays", momentum=sw.MomentumConserving(), dtype="float64")
    model = sw.ShallowWater(grid, floor, wetting=sw.WettingDrying(1e-3), dissipation=sw.ManningDrag(0.03), **options)
    numbers = np.random.default_rng(3)
    return model, model.state(*(0.1 * numbers.standard_normal((8, 9)) for _ in range(3)))


@pytest.mark.verify
@pytest.mark.parametrize("stepper", (sw.SSPRK3, sw.ForwardBackwardHancock), ids=lambda x: x.__name__)
def test_the_pieces_of_steps_over_a_shore_have_their_adjoints(stepper):
    model, state = beach()
    found = examination.term_by_term(model, stepper(0.05), state)
    assert {"limited fluxes of water", f"a step of {stepper.__name__}"} < set(found)
    assert max(found.values()) < 1e-13


SHORE = """
run = {until = "2 s", engine = "arrays"}
grid = {type = "cartesian", nx = 12, ny = 8, x = [0, 12], y = [0, 8]}
bathymetry = {type = "formula", depth = "1 - x/8"}
model = {momentum = "momentum_conserving", wetting = {}}
initial = {type = "gaussian", amplitude = 0.2, centre = [4, 4], radius = 2}
stepper = {type = "forward_backward_hancock", dt = 0.1}
[adjoint]
controls = ["initial.eta", "depth"]
cost = {type = "gauge_elevation", gauges = "a", time = 2}
[output.gauges]
positions.a = [6.0, 4.0]
"""


@pytest.mark.verify  # a minute of compiling
def test_the_command_verifies_derivatives_over_a_shore_without_hessian_products(tmp_path, command):
    """Over how many steps the dot product is that of rounding depends on the branches of kinks, and so on rounding."""
    (tmp_path / "shore.toml").write_text(SHORE)
    out, _ = command.ok("adjoint", tmp_path / "shore.toml", "--verify")
    judged = re.findall(r"^(?:initial.eta|depth) .* ok(?: over \d+ steps)?(?: by the dot product)?$", out, re.M)
    assert len(judged) == 2 and "taylor_rate_second" not in out


def test_verification_takes_200_steps_and_a_crossing_unless_told_otherwise(case, command, asked):
    assert command("adjoint", case, "--verify")[0] == 0 and asked.problem.steps == 200
    assert command("adjoint", case, "--verify", "--set", "stepper.dt=10")[0] == 0
    assert asked.problem.steps == math.ceil(120e3 / math.sqrt(9.81 * 106.0) / 10.0)
    assert command("adjoint", case, "--verify", "--steps", "60")[0] == 0 and asked.problem.steps == 60
    assert command("adjoint", case, "--verify", "--until", "32 min")[0] == 0 and asked.problem.steps == 48


def test_a_file_without_the_section_is_verified_in_all_it_has_and_not_mapped(case, command, asked):
    case.write_text(BUMP.partition("[adjoint]")[0])
    assert command("adjoint", case, "--verify")[0] == 0
    initial = {"initial.eta", "initial.u", "initial.v"}
    assert set(asked.problem.values) == initial | {"depth", "gravity", "dissipation.0.rate"}
    assert "the section [adjoint] is missing; add one, such as" in command.refused("adjoint", case)


def test_a_run_from_rest_is_verified_in_motion(case, command, asked):
    assert command("adjoint", case, "--verify", "--set", "initial={type='rest'}")[0] == 0
    assert float(abs(asked.problem.state.u).max()) > 0


ON_THE_GRID = {
    "type = 'gauge_elevation'\npositions = {C = [1, '900 km']}\ngauges = 'C'": ".positions.C: (1, 900000) is outside",
    "type = 'box_energy'\ny = ['200 km', '300 km']": ": the box with x from end to end",
    "type = 'section_transport'\nstart = [0, 0]\nend = [0, '60 km']": ": the section from (0, 0) to (0, 60000)",
    "type = 'section_transport'\nstart = [0, 0]\nend = ['900 km', 0]": ".end: (900000, 0) is outside",
    "type = 'misfit'\nobservations = '.'\ngauges = 'A'": ": no file NAME.csv or NAME.nc in",
}


@pytest.mark.parametrize("cost", ON_THE_GRID)
def test_check_names_what_the_grid_has_no_place_for(case, command, cost):
    case.write_text(f"{BUMP.partition('[adjoint.cost]')[0]}[adjoint.cost]\n{cost}\n")
    assert f"adjoint.cost{ON_THE_GRID[cost]}" in command.refused("check", case)


def test_check_names_what_the_run_is_too_short_for_and_amplitudes_of_another_dimension(case, command):
    status, _, err = command("check", case, "--set", "adjoint.steps=10")
    assert status == 2 and "adjoint.cost: GaugeElevation: the window from 1200 to 1800 s is not in the run" in err
    case.write_text(BUMP.replace("1 cm", "1 s"))
    for place, arguments in (("adjoint.amplitude: ", ("check", case)), ("", ("adjoint", case, "--verify"))):
        status, _, err = command(*arguments)
        assert status == 2 and f"{place}amplitude of 'initial.eta': '1 s' is a time; expected a length in m" in err


def test_check_says_what_would_be_differentiated(case, command):
    out, _ = command.ok("check", case)
    assert "elevation at A from 20 min to 30 min [m]\n" in out
    assert "by initial.eta, dissipation.0.rate, over 60 steps of 40 s" in out


def test_check_finds_a_gauge_on_land(case, command):
    inland = 'type = "gauge_elevation"\npositions = {inland = ["100 km", "50 km"]}\ngauges = "inland"\n'
    text = BUMP.partition("[adjoint.cost]")[0].replace("100 + x / (10 * km)", "where(x > 80 * km, -1, 100)")
    case.write_text(f"{text.replace('90 km', '70 km')}[adjoint.cost]\n{inland}")
    assert "adjoint.cost: gauge 'inland' at (100000, 50000) has no water around it" in command.refused("check", case)


def test_observed_records_make_a_misfit_with_their_own_deviations(case, command, asked, tmp_path):
    rows = [f"{time},{0.1 * (time % 7)}" for time in range(200, 2300, 50)]
    (tmp_path / "21418.csv").write_text("\n".join(["time_s,elevation_m", *rows]))
    cost = f"adjoint.cost={{type='misfit', observations='{tmp_path}', window=['5 min', '30 min']}}"
    command.ok("adjoint", case, "--verify", "--set", cost)
    assert float(asked.problem.cost.per_deviation.max()) == pytest.approx(5.0, rel=0.1)
    assert "no file NAME.csv" in command.refused("adjoint", case, "--set", cost.replace("window", "gauges='A', window"))


def test_lengths_in_a_file_are_counted_in_steps(case):
    experiment = load(case)
    assert least_steps(experiment.adjoint.cost.build(Surroundings(output=experiment.output)), 40.0) == 45
    with pytest.raises(ConfigError, match="unknown key; did you mean 'memory'"):
        load(case, ["adjoint.memry='1 GB'"])
    assert load(case, ["adjoint.memory='1.5 GB'"]).adjoint.memory == 1.5e9
