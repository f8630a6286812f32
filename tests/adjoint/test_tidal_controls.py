"""Tides along open sides and drag by depth as controls, and an inversion of harmonic constants from a file."""

import numpy as np
import pytest

import swmodel as sw
from swmodel.adjoint import HarmonicConstants, HarmonicMisfit, Problem
from swmodel.adjoint.assimilation.assimilation import Tangent
from swmodel.adjoint.assimilation.departures import departures_of
from swmodel.adjoint.assimilation.minimise import Space
from swmodel.adjoint.assimilation.posterior import noise_like
from swmodel.adjoint.assimilation.priors import Setting, joined
from swmodel.adjoint.assimilation.tidal_priors import BoundaryTide, DepthClasses
from swmodel.errors import ConfigError
from swmodel.units import km

xr = pytest.importorskip("xarray")

GRID = sw.CartesianGrid(9, 6, (0.0, 450 * km), (0.0, 300 * km))
DEPTH = np.where(np.arange(9)[None, :] > 5, 20.0, 60.0) + np.zeros((6, 1))
DEPTH[0, 0] = DEPTH[3, 4] = 0.0
TIDE = sw.Tide({"M2": (lambda x, y: 0.5 + 0 * x, lambda x, y: 20.0 + 0 * x)}, ramp=0.0)


def channel(boundary=None):
    return sw.ShallowWater(
        GRID,
        DEPTH,
        coriolis=sw.FPlane(1e-4),
        engine="arrays",
        communicator="serial",
        dissipation=(sw.QuadraticDrag(lambda x, y: 2.5e-3 + 0 * x),),
        boundaries=(boundary or sw.Flather(("west", "south"), incoming=TIDE),),
    )


MODEL = channel()
STEPPER, STEPS = sw.ForwardBackward(dt=800.0), 120
PLACES = {"east": (420 * km, 150 * km), "middle": (220 * km, 230 * km)}
TIDAL = BoundaryTide(name="boundary.0.incoming", constituents=("M2",), deviation=0.2, length=150 * km)
DRAG = DepthClasses(name="dissipation.0.coefficient", edges=(40.0,), deviation=0.5)
AMPLITUDE, PHASE = TIDAL.targets()


def setting():
    return Setting(MODEL, MODEL.at_rest(), STEPPER.dt)


def test_a_tide_along_the_sides_begins_at_its_background_and_its_errors_have_their_size():
    transform = TIDAL.transform(setting())
    zero = transform.zero(MODEL)
    assert zero.shape == (TIDAL.unknowns(setting()),) and zero.size > 10
    first = transform(zero)
    np.testing.assert_allclose(first[AMPLITUDE], 0.5, rtol=1e-14)
    np.testing.assert_allclose(first[PHASE], 20.0, rtol=1e-13)
    root = np.asarray(transform.root)
    covariance = root @ root.T
    np.testing.assert_allclose(np.diag(covariance), 0.04, rtol=1e-12)
    assert 0.0 < covariance[0, 2] < covariance[0, 1] < 0.04
    random, changes = np.random.default_rng(1), []
    for _ in range(300):
        found = transform(random.standard_normal(zero.size))
        wave = np.asarray(found[AMPLITUDE]) * np.exp(-1j * np.deg2rad(np.asarray(found[PHASE])))
        changes.append(wave - 0.5 * np.exp(-1j * np.deg2rad(20.0)))
    spread = np.sqrt(np.mean(np.abs(changes) ** 2, axis=0) / 2)
    assert (spread[1:, 1:] < 1e-12).all()  # away from the sides nothing changes
    along = np.concatenate([spread[1:, 0], spread[0, 1:]])
    assert along.min() > 0.12 and along.max() < 0.23  # between knots linear interpolation lowers the variance
    assert np.abs(np.diff(along)).max() < 0.1


def test_a_tide_along_a_side_that_is_periodic_is_as_smooth_across_the_seam_as_elsewhere():
    grid = sw.CartesianGrid(12, 4, (0.0, 480 * km), (0.0, 160 * km), "x")
    model = sw.ShallowWater(
        grid, 50.0, engine="arrays", communicator="serial", boundaries=sw.Flather("north", incoming=TIDE)
    )
    setting = Setting(model, model.at_rest(), STEPPER.dt)
    tide = BoundaryTide(
        name="boundary.0.incoming", constituents=("M2",), deviation=0.2, length=80 * km, spacing=60 * km
    )
    transform = tide.transform(setting)
    covariance = np.asarray(transform.root @ transform.root.T)
    np.testing.assert_allclose(covariance, np.roll(covariance, (1, 1), (0, 1)), atol=1e-7)
    knots = len(covariance)
    fields = np.array([np.asarray(transform._field(one))[-1] for one in np.eye(knots)])
    np.testing.assert_allclose(fields.sum(0), 1.0, rtol=1e-6)
    assert 0.0 < fields[0, -1] < 1.0


def test_the_variance_of_amplitudes_and_lags_is_that_of_small_changes():
    transform = TIDAL.transform(setting())
    variance = transform.variance(transform.zero(MODEL))
    assert variance[AMPLITUDE][2, 0] == pytest.approx(0.04) and variance[AMPLITUDE][2, 2] == 0
    assert variance[PHASE][2, 0] == pytest.approx(np.rad2deg(0.2 / 0.5) ** 2)


def test_drag_changes_by_a_factor_for_each_range_of_depths():
    transform = DRAG.transform(setting())
    found = np.asarray(transform(np.array([1.0, -2.0])))
    np.testing.assert_allclose(found[DEPTH == 20.0], 2.5e-3 * np.exp(0.5))
    np.testing.assert_allclose(found[DEPTH == 60.0], 2.5e-3 * np.exp(-1.0))
    assert transform.zero(MODEL).shape == (2,)


CONSTANTS = {name: HarmonicConstants(place, {"M2": (0.6, 40.0)}, 0.05) for name, place in PLACES.items()}


@pytest.mark.verify
def test_departures_of_harmonic_constants_are_linear_and_their_gradient_is_that_of_the_cost():
    """Dot product of G; the gradient of J, G* d, equals that of the Problem; a Taylor test of the whole."""
    priors = {p.label(): (p, p.transform(setting())) for p in (TIDAL, DRAG)}
    cost = HarmonicMisfit(CONSTANTS, window=(40 * 800.0, 120 * 800.0))
    problem = Problem(MODEL, STEPPER, MODEL.at_rest(), STEPS, cost, [joined(priors, MODEL)])
    departures, space = departures_of(problem.cost, MODEL.communicator), Space(MODEL.communicator)
    p = space.scale(0.3, noise_like(problem.values, MODEL, 3))
    d = noise_like(problem.values, MODEL, 4)
    tangent, random = Tangent(problem, departures, p), np.random.default_rng(5)
    readings, change = problem.observed_tangent(p, d)
    other = random.standard_normal((2, 2))
    forward = departures.linear(change)
    assert np.vdot(forward, other) == pytest.approx(space.dot(d, tangent.transposed(other)), rel=1e-10)
    J, gradient = problem.value_and_gradient(p)
    assert 0.5 * np.sum(departures.of(readings) ** 2) == pytest.approx(J, rel=1e-12)
    slope = space.dot(gradient, d)
    assert space.dot(tangent.transposed(departures.of(readings)), d) == pytest.approx(slope, rel=1e-10)
    at = lambda h: problem.value_and_gradient(space.add(p, h, d))[0]  # noqa: E731  (compiled already)
    residuals = [abs(at(h) - J - h * slope) for h in (2e-3, 1e-3)]
    assert np.log2(residuals[0] / residuals[1]) > 1.9
    np.testing.assert_allclose(departures.scaled(departures.compared(change)), forward)


def plain(**changes):
    given = {"name": "boundary.0.incoming", "constituents": ("M2",), "deviation": 0.2, "length": 150 * km} | changes
    return BoundaryTide(**given).transform(setting())


WRONG = {
    "'initial.w' does not exist": lambda: DepthClasses(name="initial.w", edges=(40.0,), deviation=0.1).transform(
        setting()
    ),
    "is not a parameter of an open boundary, whose names are boundary.0": lambda: plain(
        name="dissipation.0.coefficient"
    ),
    "cannot carry errors with a correlation length": lambda: plain(spacing=200 * km),
    "length = -1.0 is not positive": lambda: plain(length=-1.0),
    "edges = (40.0, 20.0) does not ascend": lambda: DepthClasses(name="depth", edges=(40.0, 20.0), deviation=0.1),
    "edges = 'a' is not a tuple of numbers": lambda: DepthClasses(name="depth", edges="a", deviation=0.1),
    "initial.u is not a steady field at cell centres": lambda: DepthClasses(
        name="initial.u", edges=(40.0,), deviation=0.1
    ).transform(setting()),
}


@pytest.mark.parametrize("sentence", WRONG)
def test_what_cannot_be_is_told_in_one_sentence(sentence):
    with pytest.raises(ConfigError) as printed:
        WRONG[sentence]()
    assert sentence in str(printed.value) and "\n" not in str(printed.value)


def test_a_tide_of_numbers_cannot_change_along_a_side():
    model = channel(sw.Flather("west", incoming=sw.Tide({"M2": (0.5, 20.0)})))
    with pytest.raises(ConfigError, match="is a number in this model, which cannot change along a side"):
        TIDAL.transform(Setting(model, model.at_rest(), 800.0))


# -- from a file -----------------------------------------------------------------------------------------------------

CASE = """\
run = {{until = "{until}", start = 2020-03-04T00:00:00Z, engine = "arrays"}}
grid = {{type = "cartesian", nx = 8, ny = 4, x = [0, 400e3], y = [0, 200e3]}}
bathymetry = {{type = "flat", depth = "50 m"}}
coriolis = {{type = "f_plane", f0 = 1e-4}}
dissipation = [{{type = "quadratic_drag", coefficient = 2.5e-3}}]
stepper = {{type = "forward_backward", dt = 1000}}
[[boundary]]
type = "flather"
sides = "west"
[boundary.incoming]
constituents.M2 = {{amplitude = "{amplitude} + 0 * x", phase = "{phase} + 0 * x"}}
"""
INVERSION = """
[inversion]
spin_up = "12 hour"
until = "{until}"
loops = 3
members = 2
[inversion.observations]
type = "harmonics"
file = "gauges.csv"
constituents = ["M2"]
window = ["25 hour", "37.5 hour"]
deviation = "1 cm"
[[inversion.controls]]
type = "boundary_tide"
name = "boundary.0.incoming"
constituents = ["M2"]
deviation = 0.3
length = "200 km"
"""
TRUE = "0.6", "50"


@pytest.mark.verify
def test_an_inversion_of_constants_in_a_file_finds_the_tide_at_the_side_and_at_a_gauge_left_out(tmp_path, command):
    run = CASE.format(until="37.5 hour", amplitude=TRUE[0], phase=TRUE[1])
    (tmp_path / "truth.toml").write_text(run + '[output.harmonics]\nconstituents = ["M2"]\nbegin = "25 hour"\n')
    assert command("run", tmp_path / "truth.toml", "-o", tmp_path / "truth", "-q")[0] == 0
    rows = ["name,x,y,M2_amplitude_m,M2_phase_deg,used", "inland,9e5,1e5,1,1,1"]
    with xr.open_dataset(tmp_path / "truth" / "harmonics.nc") as truth:
        for name, (row, column), used in (("a", (1, 4), 1), ("b", (2, 7), 1), ("c", (3, 6), 0)):
            size, lag = (float(truth[f"eta_{part}_M2"][row, column]) for part in ("amplitude", "phase"))
            rows.append(f"{name},{50e3 * column + 25e3},{50e3 * row + 25e3},{size},{lag},{used}")
    (tmp_path / "gauges.csv").write_text("\n".join(rows) + "\n")
    first = CASE.format(until="2 day", amplitude="0.4", phase="20") + INVERSION.format(until="37.5 hour")
    (tmp_path / "case.toml").write_text(first)
    printed, errors = command.ok("invert", tmp_path / "case.toml", "-o", tmp_path / "out")
    assert "inland" in errors + printed and "1 withheld: median error" in printed
    with xr.open_dataset(tmp_path / "out" / "inversion.nc") as found:
        side = found["boundary_0_incoming_amplitude_M2_analysis"].values[:, 0]
        lag = found["boundary_0_incoming_phase_M2_analysis"].values[:, 0]
        wave = side * np.exp(-1j * np.deg2rad(lag))
        assert np.abs(wave - 0.6 * np.exp(-1j * np.deg2rad(50.0))).mean() < 0.06
        withheld = found["observation_used"].values == 0
        assert list(found["observation_constituent"].values[withheld]) == ["M2", "M2"]
        before, after = (
            np.abs(found[f"observation_{role}"].values - found["observation_observed"].values)
            for role in ("background", "analysis")
        )
        assert before[withheld].max() > 0.1 and after[withheld].max() < 0.03
        assert found["loop_cost"].values[-1] < 0.05 * found["loop_cost"].values[0]


MISTAKES = {
    ('spin_up = "12 hour"', 'spin_up = "3 day"'): "leaves nothing of the run",
    (
        "[inversion.obs",
        "[inversion.twin]\nseed = 1\n[inversion.obs",
    ): "harmonics are those of a file, and a twin has none",
    ('constituents = ["M2"]\nwindow', 'constituents = ["M22"]\nwindow'): "there is no tidal constituent 'M22'",
    ('37.5 hour"]', '30 hour"]'): "too short to separate M2 from the mean",
    (
        'boundary.0.incoming"\ncon',
        'boundary.0.elevation"\ncon',
    ): "there is no control 'boundary.0.elevation.amplitude.M2'",
    ('deviation = "1 cm"\n', ""): "has no column deviation_m; add it, or give the deviation",
}


@pytest.mark.parametrize("change", MISTAKES, ids=lambda change: MISTAKES[change][:20])
def test_check_finds_mistakes_of_an_inversion_of_constants(tmp_path, command, change):
    text = CASE.format(until="2 day", amplitude="0.4", phase="20") + INVERSION.format(until="37.5 hour")
    assert change[0] in text
    (tmp_path / "gauges.csv").write_text("name,x,y,M2_amplitude_m,M2_phase_deg\na,25e3,25e3,1,2\n")
    (tmp_path / "case.toml").write_text(text.replace(*change))
    assert MISTAKES[change] in command.refused("check", tmp_path / "case.toml")
