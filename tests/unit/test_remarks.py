"""Values of an experiment that do not fit each other: one sentence each, printed by `check` and by `run`."""

import datetime
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel.cli.checks import check_experiment
from swmodel.cli.facts import wave_remarks
from swmodel.cli.remarks import _circle, remarks
from swmodel.config import load
from swmodel.config.sections import Surroundings
from swmodel.errors import ConfigError
from swmodel.forcing.tracks import cyclone_of, read_track

EXPERIMENTS = Path(sw.__file__).parents[1] / "experiments"
CHANNEL = EXPERIMENTS / "tidal_channel.toml"
STORM = EXPERIMENTS / "storm_in_a_basin" / "storm_in_a_basin.toml"
SHELF = EXPERIMENTS / "northwest_europe" / "inversion.toml"
TRACK = "time_utc,longitude_deg,latitude_deg,maximum_wind_m_s,radius_of_maximum_wind_m,central_pressure_pa"


@pytest.fixture
def remarked(tmp_path):
    """The warnings of an experiment with overrides, replaced and appended text, and steps of `dt` [s]."""

    def call(file, overrides=(), more="", replaced=(), dt=60.0, deepest=20.0):
        for data in file.parent.glob("*.*"):
            shutil.copy(data, tmp_path)
        text = file.read_text()
        for old, new in replaced:
            assert old in text
            text = text.replace(old, new, 1)
        copy = tmp_path / file.name
        copy.write_text(text + more)
        experiment = load(copy, overrides)
        return [s for s in remarks(experiment, experiment.grid.build(), dt, deepest) if "nearest step" not in s]

    return call


def test_a_grid_that_is_a_cell_short_of_the_circle_has_a_remark():
    (said,) = _circle(sw.SphericalGrid(359, 10, (-180.0, 179.0), (-60.0, 60.0)))
    assert said.startswith(
        "grid: 359 cells reach from -180 to 179 degrees of longitude, 1 short of the circle, with a wall at each end"
    )
    assert said.endswith("give 360 cells and longitude = [-180, 180].")
    assert not list(_circle(sw.SphericalGrid(360, 10, (-180.0, 180.0), (-60.0, 60.0))))
    assert not list(_circle(sw.SphericalGrid(350, 10, (-180.0, 170.0), (-60.0, 60.0))))


def test_a_beta_plane_that_is_periodic_across_it_has_a_remark(remarked):
    plane, periodic = ('type = "f_plane"\nf0 = 1e-4', 'type = "beta_plane"\nf0 = 1e-4\nbeta = 2e-11'), 'periodic = "xy"'
    file = EXPERIMENTS / "decaying_turbulence.toml"
    (of_walls,) = remarked(file, replaced=[plane, (periodic, 'periodic = "x"')])
    assert not remarked(file) and "gradient normal to walls" in of_walls
    (said,) = remarked(file, replaced=[plane])
    assert said.startswith("coriolis.beta: f jumps by 2e-05 s-1 where the grid closes in y")


@pytest.mark.parametrize("file", [CHANNEL, STORM, SHELF, EXPERIMENTS / "ike_2008" / "ike.toml"])
def test_experiments_that_are_copied_need_no_remark(remarked, file):
    assert remarked(file, deepest=5000.0) == []


@pytest.mark.parametrize(
    ("every", "dt", "said"),
    [
        (600.0, 60.0, []),
        (600.0, 70.0, [" = 600 s is not a multiple of dt = 70 s: records fall on the nearest step."]),
        (30 * 86400.0, 60.0, [" is longer than the run: only its first state is written."]),
    ],
)
def test_the_interval_of_gauges_fits_the_step_and_the_run(every, dt, said):
    experiment = load(CHANNEL, [f"output.gauges.every={every}"])
    found = [one for one in remarks(experiment, experiment.grid.build(), dt, 20.0) if "gauges.every" in one]
    assert found == [f"output.gauges.every{one}" for one in said]


def test_the_storm_of_a_file_has_the_winds_of_its_averaging():
    ike = EXPERIMENTS / "ike_2008" / "ike.toml"
    made = []
    for overrides in ([], ["forcing.0.wind_averaging=0.93"]):
        experiment = load(ike, overrides)
        made.append(experiment.forcing[0].build(Surroundings(start=experiment.run.start, until=experiment.run.until)))
    section, run = experiment.forcing[0], experiment.run
    expected = cyclone_of(read_track(section.track), run.start, run.until, 0.93, drag="garratt")
    np.testing.assert_array_equal(made[1].b, expected.b)
    assert (made[1].b < made[0].b).any() and made[1].start == made[0].start == expected.start


# -- times -------------------------------------------------------------------------------------------------------------


def test_constants_without_a_date_are_not_those_of_tide_tables(remarked):
    tide = CHANNEL.read_text().partition("[boundary.elevation]")[2].partition("[stepper]")[0]
    undated = [("start = 2024-03-01T00:00:00Z\n", ""), (f"[boundary.elevation]{tide}", "elevation = 0.1\n\n")]
    (said,) = remarked(CHANNEL, replaced=undated)
    assert said.startswith("output.harmonics has no date") and said.endswith("with tide tables.")


@pytest.mark.parametrize(
    ("start", "behind"), [(None, "cos(omega t) from step 0"), ("2024-01-01T00:00:00Z", "Greenwich")]
)
def test_a_file_of_constants_says_behind_what_its_phase_lags_are(start, behind, tmp_path):
    grid = sw.CartesianGrid(nx=4, ny=3, x=(0.0, 4e4), y=(0.0, 3e4))
    model = sw.ShallowWater(grid, depth=100.0)
    simulation = sw.Simulation(
        model, model.at_rest(), sw.ForwardBackward(dt=60.0), start=start and datetime.datetime.fromisoformat(start)
    )
    simulation.harmonics(tmp_path / "tide.nc", ["M2"])
    simulation.run(until=13 * 3600.0)
    with xr.open_dataset(tmp_path / "tide.nc") as data:
        assert behind in data.attrs["product_comment"]
        assert data.eta_phase_M2.long_name.startswith("Greenwich phase lag") == (start is not None)


WINDOW = "output.gauges.window"
RELATIVE = "is relative, so that one standard"
AFTER = "{mouth=['30 day', '31 day'], head=['2 day', '3 day']}"
IN_CHANNEL = {  # 20 days of tides: what never comes, or is looked at before the ramp is over
    "boundary.0.elevation.ramp='30 day'": "boundary[0].elevation.ramp = 30 days is longer than the run of 20 days",
    "boundary.0.elevation.ramp='5 day'": "output.harmonics begins after 4 days, and boundary[0].elevation is",
    "output.harmonics.begin=0": "output.harmonics begins after 0 s, and boundary[0].elevation is switched on",
    f"{WINDOW}=['30 day', '31 day']": f"{WINDOW} lies after the end of the run at 20 days: nothing is scored",
    f"{WINDOW}=['3 day', '31 day']": f"{WINDOW} ends after the end of the run at 20 days: only its part until",
    f"{WINDOW}={AFTER}": f"{WINDOW}.mouth lies after the end",
}
ON_SHELF = {  # an inversion
    "forcing.0.ramp='4.5 day'": "inversion.observations.window begins after 4.46 days, and forcing[0] is switched on",
    "inversion.controls.4.deviation=25": f"inversion.controls[4].deviation = 25 {RELATIVE}",
    "inversion.controls.3.deviation=50": f"inversion.controls[3].deviation = 50 {RELATIVE}",
    "inversion.controls.3.edges=['20 m', '6 km']": "inversion.controls[3].edges reach 6000 m, and the sea is at",
    "inversion.residual=0.1": "inversion.residual has no effect with method = 'descent'",
}


@pytest.mark.parametrize("change", IN_CHANNEL)
def test_what_a_run_never_reaches_or_looks_at_too_early_is_told(remarked, change):
    (sentence,) = remarked(CHANNEL, [change])
    assert sentence.startswith(IN_CHANNEL[change])


@pytest.mark.parametrize("change", ON_SHELF)
def test_windows_controls_and_keys_of_an_inversion_that_do_nothing_of_use_are_told(remarked, change):
    given = [change] if "residual" not in change else ["inversion.method='descent'", change]
    (sentence,) = remarked(SHELF, given, deepest=5000.0)
    assert sentence.startswith(ON_SHELF[change])


def test_a_constituent_needs_two_steps_in_a_period(remarked):
    assert remarked(CHANNEL, dt=3.0 * 3600.0) == []
    (said,) = remarked(CHANNEL, dt=3.2 * 3600.0)
    assert said.startswith("output.harmonics cannot see M4")


@pytest.mark.parametrize("name", ["means", "extremes"])
@pytest.mark.parametrize(
    ("keys", "when"),
    [
        ("begin = '21 day'", "21 days"),
        ("every = '21 day'", "21 days"),
        ("begin = '11 day'\nevery = '10.5 day'", "21 days"),
    ],
)
def test_sums_without_a_sample_are_told(remarked, name, keys, when):
    (said,) = remarked(CHANNEL, more=f"\n[output.{name}]\n{keys}\n")
    assert said.startswith(
        f"output.{name} takes no sample: the first one would be after {when}, and the run ends after 20"
    )
    assert remarked(CHANNEL, more=f"\n[output.{name}]\n{keys}\n".replace("21", "19").replace("10.5", "9.5")) == []


# -- gauges and thresholds ---------------------------------------------------------------------------------------------


def test_observations_that_no_gauge_can_be_compared_with_are_told(remarked, tmp_path):
    folder, given = tmp_path / "records", "output.gauges.observations='records'"
    folder.mkdir()
    (said,) = remarked(CHANNEL, [given])
    assert said.startswith("output.gauges.observations: no file NAME.csv or NAME.nc in")
    assert "mouth, middle, head" in said
    (folder / "head.csv").write_text("time_s,elevation_m\n1800000,0\n1800060,1\n")
    (said,) = remarked(CHANNEL, [given])
    assert "lie between 1.8e+06 and 1.80006e+06 s, and the run between 0 and 1.728e+06 s" in said
    (folder / "head.csv").write_text("time_s,elevation_m\n1700000,0\n1800060,1\n")
    assert remarked(CHANNEL, [given]) == []


def test_a_threshold_under_the_bed_is_always_passed(remarked):
    (said,) = remarked(CHANNEL, more="\n[output.extremes]\nthreshold = '-20 m'\n")
    assert said.startswith("output.extremes.threshold = -20 m is below the deepest bed at -20 m")
    assert remarked(CHANNEL, more="\n[output.extremes]\nthreshold = '-19 m'\n") == []


# -- forcing -----------------------------------------------------------------------------------------------------------


def test_the_same_forcing_twice_counts_twice(remarked):
    (said,) = remarked(STORM, more="\n[[forcing]]\ntype = 'cyclone'\ntrack = 'track.csv'\ndrag = 'garratt'\n")
    assert said.startswith("forcing[1] is the same as forcing[0], and both count")
    (said,) = remarked(CHANNEL, more="\n[[dissipation]]\ntype = 'quadratic_drag'\ncoefficient = 2.5e-3\n")
    assert said.startswith("dissipation[1] is the same as dissipation[0]")


@pytest.mark.parametrize(
    ("longitude", "radius", "said"),
    [
        (10.0, 4e4, "forcing[0]: the storm is never nearer to the grid than 9"),
        (-92.0, 2e3, "forcing[0]: the radius of maximum wind is 2 km, less than a cell of 10.2 km"),
        (268.0, 4e4, None),
        (-99.0, 4e4, None),
    ],
)
def test_a_storm_reaches_the_grid_and_is_resolved(remarked, tmp_path, longitude, radius, said):
    rows = [f"2024-09-{day}T00:00:00,{longitude},{24 + day - 9},40,{radius:g},96000" for day in (9, 10, 11, 12)]
    (tmp_path / "own.csv").write_text("\n".join([TRACK, *rows]).replace("-9T", "-09T"))
    found = remarked(STORM, replaced=[('track.csv"', 'own.csv"')])
    assert [s[: len(said)] for s in found] == [said] if said else found == []


def test_keys_of_storms_without_an_effect_are_told(remarked):
    (said,) = remarked(STORM, ["forcing.0.exponent=0.6"])
    assert said.startswith("forcing[0].exponent has no effect with profile = 'holland_1980'")
    assert remarked(STORM, ["forcing.0.exponent=0.6", "forcing.0.profile='holland_2010'"]) == []
    (said,) = remarked(STORM, ["boundary.0.elevation={inverse_barometer=true, reference=100000}"])
    assert said.startswith("boundary[0].elevation.reference has no effect")
    assert remarked(STORM, ["boundary.0.elevation={inverse_barometer=true}"]) == []


# -- inversions --------------------------------------------------------------------------------------------------------


def test_a_fit_does_not_begin_in_the_spin_up(remarked):
    with pytest.raises(ConfigError, match="the fit begins at 172800 s, in the spin-up, which ends at 259200 s"):
        remarked(SHELF, ["inversion.observations.window=['2 day', '5.5 day']"])


def test_knots_of_a_boundary_tide_are_not_closer_than_cells_can_tell():
    from swmodel.adjoint.assimilation.tidal_priors import SideTide

    grid = sw.CartesianGrid(nx=4, ny=6, x=(0.0, 4e4), y=(0.0, 6e4))
    model = sw.ShallowWater(grid, depth=100.0, boundaries=(sw.Flather(("west",)),))
    nothing = {"M2": (np.zeros(grid.shape), np.zeros(grid.shape))}
    with pytest.raises(
        ConfigError, match="4000 m apart are closer than half a cell of the west side, which is 10000 m long"
    ):
        SideTide.on(model, ("west",), nothing, (("a", "b"),), 0.1, 8e3)
    assert SideTide.on(model, ("west",), nothing, (("a", "b"),), 0.1, 1.2e4) is not None


# -- where they are printed --------------------------------------------------------------------------------------------


@pytest.mark.verify
def test_check_and_run_print_them(command, tmp_path):
    for data in STORM.parent.glob("*"):
        shutil.copy(data, tmp_path)
    given = [tmp_path / STORM.name, "--set", "forcing.0.exponent=0.6", "--set", "grid.nx=16", "--set", "grid.ny=12"]
    _, printed, _ = command("check", *given)
    assert "warning: forcing[0].exponent has no effect" in printed
    _, _, errors = command("run", *given, "--until", "30 min", "-o", tmp_path / "out")
    assert "forcing[0].exponent has no effect" in errors


@pytest.mark.parametrize(
    "study",
    [
        "[adjoint]\nuntil = '60 h'\ncontrols = ['depth']\n"
        "[adjoint.cost]\ntype = 'box_energy'\nx = [-94, -92]\ny = [26, 28]\n",
        "[inversion]\nuntil = '60 h'\ntwin = {seed = 1}\n"
        "observations = {type = 'gauges', window = [0, '60 h'], positions = {a = [-92, 27]}}\n"
        "[[inversion.controls]]\ntype = 'field'\nname = 'initial.eta'\ndeviation = 1\nlength = '100 km'\n",
    ],
)
def test_forcing_covers_a_study_that_is_longer_than_the_run(command, tmp_path, study):
    for data in STORM.parent.glob("*"):
        shutil.copy(data, tmp_path)
    file = tmp_path / STORM.name
    file.write_text(f"{STORM.read_text()}\n{study}")
    status, _, errors = command("check", file, "--set", "grid.nx=16", "--set", "grid.ny=12")
    assert status == 2 and "the track ends at 151200 s, and the run needs it until 2160" in errors


def test_unions_are_told_by_the_key_alone(tmp_path):
    copy = tmp_path / CHANNEL.name
    copy.write_text(CHANNEL.read_text())

    def refused(*overrides):
        with pytest.raises(ConfigError) as caught:
            load(copy, overrides)
        return [s.partition(": ")[2] for s in caught.value.mistakes]

    assert refused("run.stages_per_exchange=-1") == ["-1 is less than 1; give a whole number, 1 or more"]
    assert refused("run.stages_per_exchange={a=1}") == [
        "{'a': 1} is not a whole number; give a whole number, 1 or more"
    ]
    (said,) = refused("output.gauges.window=['4 day', '3 day']")
    assert said == "(345600.0, 259200.0) is not a range; give (first, last) in s, the smaller one first"
    both = refused("output.gauges.window={mouth=[3, 2], head=[5, 4]}")
    assert [s.partition(":")[0] for s in both] == ["output.gauges.window.mouth", "output.gauges.window.head"]


# -- resolution --------------------------------------------------------------------------------------------------------

R = 30e3  # of the hump exp(-(r / R)^2), whose length is 2 pi R / sqrt(2) = 133 km
BANK = """\
run = {until = "1 h"}
grid = {type = "cartesian", nx = 100, ny = 60, x = [0, "500 km"], y = [0, "300 km"]}
bathymetry = {type = "formula", depth = "4000 - 3980 * exp(-((x - 350e3)^2 + (y - 150e3)^2) / (40e3)^2)"}
initial = {type = "gaussian", amplitude = 1, centre = ["100 km", "150 km"], radius = "30 km"}
stepper = {type = "ab2"}
"""


def hump(x, y):
    return np.exp(-((x - 100e3) ** 2 + (y - 150e3) ** 2) / R**2)


def said(shallowest=20.0, source=None, **state):
    """The warning for a bank of this depth on cells of 5 km."""
    grid = sw.CartesianGrid(100, 60, (0.0, 500e3), (0.0, 300e3))

    def depth(x, y):
        return 4000.0 - (4000.0 - shallowest) * np.exp(-((x - 350e3) ** 2 + (y - 150e3) ** 2) / 40e3**2)

    model = sw.ShallowWater(grid, depth, communicator="serial", engine="arrays")
    return wave_remarks(SimpleNamespace(source=source), model, model.state(**state))


def test_check_says_where_a_wave_of_the_source_has_fewer_than_eight_cells(tmp_path, capsys):
    (tmp_path / "case.toml").write_text(BANK)
    check_experiment(str(tmp_path / "case.toml"), (), 1)
    (sentence,) = [line for line in capsys.readouterr().out.splitlines() if "wave of the source" in line]
    assert sentence.startswith(
        "warning: a wave of the source is 134 km long in water of 4000 m, and has fewer than 8 cells"
    )
    assert ": 3 cells at (347500, 147500)." in sentence  # 134 km sqrt(52 m / 4000 m) / 5 km


def test_only_banks_that_are_too_shallow_for_the_cells_are_named():
    assert said(eta=hump) and not said(400.0, eta=hump)  # 8 cells need 360 m
    assert not said() and not said(eta=hump, u=0.1)  # rest, and a flow that is no wave of a source
    x, y = np.meshgrid(np.arange(2.5e3, 500e3, 5e3), np.arange(2.5e3, 300e3, 5e3))
    assert said(source=sw.BottomMotion([0.0, 60.0], np.stack([0 * x, hump(x, y)]))) == said(eta=hump)


@pytest.mark.parametrize("radius", (20e3, 30e3))
def test_the_length_of_a_source_is_that_of_its_mean_square_slope(radius):
    (sentence,) = said(eta=lambda x, y: np.exp(-((x - 150e3) ** 2 + (y - 150e3) ** 2) / radius**2))
    length = 1e3 * float(sentence.split(" is ")[1].split(" km")[0])
    assert length == pytest.approx(2 * np.pi * radius / np.sqrt(2.0), rel=0.02)
