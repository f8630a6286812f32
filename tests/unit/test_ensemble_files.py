"""Ensembles from experiment files and the command line: what varies, what is refused, and what they leave behind."""

import jax
import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel.__main__ import main
from swmodel.config import load, member_drafts, read
from swmodel.errors import ConfigError
from swmodel.models.random_fields import SmoothNoise

HUMP = """\
run = {title = "A hump", until = "10 min"}
bathymetry = {type = "flat", depth = "1 km"}
initial = {type = "gaussian", amplitude = "1 m", centre = ["50 km", "40 km"], radius = "30 km"}
dissipation = [{type = "laplacian", viscosity = 1000}]
grid = {type = "cartesian", nx = 12, ny = 10, x = [0, "120 km"], y = [0, "100 km"]}
model = {precision = "float64"}
stepper = {type = "ab2", dt = 5}
[output]
folder = "out"
gauges = {positions = {a = ["50 km", "50 km"]}}
maxima = {}
restart = {every = "5 min"}
fields = [{file = "fields.nc", variables = ["eta"], every = "5 min"}]
"""
THREE = '[ensemble]\n"initial.amplitude" = [0.5, "100 cm", 2]\n'


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Runs set the precision, which other tests rely on."""
    monkeypatch.chdir(tmp_path)
    before = jax.config.jax_enable_x64

    def to_file(more=""):
        (tmp_path / "hump.toml").write_text(HUMP + more)
        return tmp_path / "hump.toml"

    yield to_file
    jax.config.update("jax_enable_x64", before)


def status(*arguments):
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return ended.value.code


def values(draft, section, key):
    return [getattr(member.sections[section], key) for member in member_drafts(draft)]


# -- the section ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "written",
    [
        '"dissipation.0.viscosity" = [1, "2 m2/s"]',
        '"dissipation[0].viscosity" = [1, "2 m2/s"]',
        'dissipation.0.viscosity = [1, "2 m2/s"]',
    ],
)
def test_a_key_is_written_with_dots_in_quotes_or_not(write, written):
    draft = read(write(f"[ensemble]\n{written}\n"))
    assert [v.path for v in draft.sections["ensemble"].varied.values()] == [("dissipation", 0, "viscosity")]
    assert [m.sections["dissipation"][0].viscosity for m in member_drafts(draft)] == [1.0, 2.0]


def test_members_are_the_file_with_other_values(write):
    draft = read(write(THREE + "model.gravity = [9.81, 9.0, 1.0]\n"))
    assert values(draft, "initial", "amplitude") == [0.5, 1.0, 2.0]
    assert values(draft, "model", "gravity") == [9.81, 9.0, 1.0]
    assert values(draft, "stepper", "dt") == [5.0] * 3


@pytest.mark.parametrize(
    ("more", "after", "said"),
    [
        ('"initial.amplitude" = [1, 2]\n"model.gravity" = [1]', 0, "2 for initial.amplitude, 1 for model.gravity"),
        ('members = 3\n"initial.amplitude" = [1, 2]', 0, "3 for members, 2 for initial.amplitude"),
        ('"initial.amplitude" = 2', 0, "is not a list; give a value for each member"),
        ('"initial.amplitude" = []', 0, "is not a list; give a value for each member"),
        ('"initial.amplitude" = [1, "2 s"]', 1, "expected"),
        ('"dissipation.1.viscosity" = [1, 2]', 1, "dissipation has entries 0 to 0"),
        ('"grid.nx" = [10, 20]', 1, "all members share [grid]; vary numbers and fields of initial"),
        ('"stepper.dt" = [1, 2]', 1, "all members share [stepper]"),
        ('"wind.speed" = [1, 2]', 1, "unknown section"),
        ("members = 3", 0, "would all be the same"),
        ('perturbation = "1 cm"\nradius = 1e4', 0, "the number of members is missing"),
        ('members = 3\nperturbation = "1 cm"', 0, "perturbation and radius belong together"),
        ("members = 0", 1, "0 is less than 1; give a whole number, 1 or more"),
    ],
)
def test_a_mistake_is_one_sentence_with_its_line(write, more, after, said):
    with pytest.raises(ConfigError) as caught:
        load(write(f"[ensemble]\n{more}\n"))
    (sentence,) = caught.value.mistakes
    assert f"hump.toml:{HUMP.count(chr(10)) + 1 + after}:" in sentence and said in sentence


def test_the_values_of_each_part_have_its_units():
    models = [
        sw.ShallowWater(sw.CartesianGrid(6, 6, (0, 1e4), (0, 1e4)), 10.0, coriolis=sw.FPlane(f)) for f in (1e-4, 2e-4)
    ]
    ensemble = sw.Ensemble(models, [model.at_rest() for model in models], {"coriolis.f0": (1e-4, 2e-4)})
    assert ensemble.units_of("coriolis.f0") == "s-1"


# -- the command line -------------------------------------------------------------------------------------------------


@pytest.mark.verify
def test_an_ensemble_runs_resumes_and_plots_like_one_run(write, capsys, tmp_path):
    file = write(THREE)
    assert status("check", file) == 0
    printed = capsys.readouterr().out
    assert "3 members in one program" in printed and "initial.amplitude = 0.5, 1.0, 2.0" in printed
    assert status("run", file, "--quiet") == 0
    assert status("resume", "out/restart.nc", "--until", "20 min", "--quiet") == 0
    assert status("plot", "out/fields.nc", "--member", "2", "-o", "figure.png") == 0
    assert status("plot", "out/fields.nc", "--member", "3") == 1
    assert "has no member 3; it holds 3" in capsys.readouterr().err
    with xr.open_dataset("out/fields.nc") as fields, xr.open_dataset("out/gauges.nc") as gauges:
        assert fields.eta.dims == ("time", "member", "yh", "xh") and fields.sizes["time"] == 5
        assert fields.coords["initial_amplitude"].values.tolist() == [0.5, 1.0, 2.0]
        assert gauges.eta.dims == ("member", "gauge", "time") and gauges.sizes["time"] == 241
        together = fields.eta.load(), gauges.eta.load()
    for k, amplitude in enumerate((0.5, 1.0, 2.0)):
        options = ("--set", f"initial.amplitude={amplitude}", "--until", "20 min", "-o", f"{k}", "--quiet")
        assert status("run", write(), *options) == 0
        for name, ours in zip(("fields", "gauges"), together):
            with xr.open_dataset(f"{k}/{name}.nc") as one:
                np.testing.assert_allclose(ours.isel(member=k), one.eta, rtol=1e-6, atol=1e-9)


def test_members_on_the_command_line_join_or_replace_those_of_the_file(write, capsys):
    file = write(THREE)
    both = "--members", "dissipation.0.viscosity=1,2,3", "--members", "initial.amplitude=3,4,5"
    assert status("check", file, *both) == 0
    printed = capsys.readouterr().out
    assert "initial.amplitude = 3.0, 4.0, 5.0" in printed and "dissipation[0].viscosity = 1.0, 2.0, 3.0" in printed
    for options, said in (
        (["initial.amplitud=1,2,3"], "--members initial.amplitud=1,2,3: unknown key; did you mean 'amplitude'?"),
        (["amplitude"], "--members amplitude: expected KEY=VALUE,VALUE"),
        (["initial.amplitude=1,2", "model.gravity=1,2,3"], "2 for initial.amplitude, 3 for model.gravity"),
    ):
        assert status("check", file, *(word for option in options for word in ("--members", option))) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("bathymetry.depth=100,1000,40000", "5 s is over the limit of ab2, gravity waves in member 2 (initial.ampl"),
        ("model.momentum=energy_conserving,arakawa_lamb,arakawa_lamb", "has another momentum scheme than member 0"),
        ("model.linear=false,false,true", "has another mode (linear or not) than member 0"),
    ],
)
def test_members_that_cannot_go_together_are_refused_by_name(write, capsys, option, said):
    assert status("check", write(THREE), "--members", option) == 2
    error = capsys.readouterr().err
    assert error.count("error:") == 1 and said in error


def test_members_differ_in_depths_and_numbers_that_are_in_their_files_and_in_smooth_noise_of_the_size_asked_for(write):
    varied = "--members", "bathymetry.depth=500,1000,700", "--members", "model.gravity=9.81,9.8,9.7"
    drag = "--members=dissipation.0.viscosity=[1, 2, 3]"
    noise = 'members = 3\nperturbation = "2 cm"\nradius = "15 km"\nseed = 4\n'
    assert status("run", write(f"[ensemble]\n{noise}"), *varied, drag, "--quiet") == 0
    with xr.open_dataset("out/maxima.nc") as maxima:
        units = [maxima[name].units for name in ("dissipation_0_viscosity", "model_gravity", "bathymetry_depth")]
        assert units == ["m2 s-1", "m s-2", "m"]
        assert maxima.model_gravity.values.tolist() == [9.81, 9.8, 9.7] and "gravity" not in maxima.attrs
        assert maxima.depth.dims == ("member", "yh", "xh")
        assert maxima.depth.max(["yh", "xh"]).values.tolist() == [500.0, 1000.0, 700.0]
    with xr.open_dataset("out/fields.nc") as fields:
        start = fields.eta.isel(time=0)
        differences = start.isel(member=[1, 2]) - start.isel(member=0)
        grid = sw.CartesianGrid(12, 10, (0.0, 120e3), (0.0, 100e3))
        drawn = [np.asarray(SmoothNoise(grid, 15e3, (4, member))) for member in (1, 2)]
        np.testing.assert_allclose(differences, 0.02 * np.stack(drawn), atol=1e-6)
        assert abs(np.mean(drawn[0] * drawn[1])) < 0.5  # two draws, not one twice


# -- noise that tells members apart ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "grid",
    [
        sw.CartesianGrid(80, 48, (0.0, 8e5), (0.0, 4.8e5), "x"),
        sw.CartesianGrid(21, 90, (0.0, 2.1e5), (0.0, 9e5), "y"),
        sw.SphericalGrid(72, 36, (-180.0, 180.0), (-90.0, 90.0)),
    ],
)
def test_noise_is_smooth_over_its_radius_and_round_a_periodic_seam_and_the_same_in_any_window(grid):
    radius = 5.0 * float(np.min(grid.metrics(np.arange(grid.ny))["dy_h"]))
    noise = SmoothNoise(grid, radius, (1, 2))
    whole = np.asarray(noise)
    assert whole.shape == grid.shape and 0.6 < whole.std() < 1.4
    for rows, columns in ((slice(0, 7), slice(3, 20)), (slice(5, 6), slice(20, 21)), (slice(20, 36), slice(0, 21))):
        np.testing.assert_array_equal(noise.block(rows, columns), whole[rows, columns])
    assert not np.array_equal(whole, np.asarray(SmoothNoise(grid, radius, (2, 2))))
    line = whole[grid.ny // 2] if grid.periodic_x else whole[:, grid.nx // 2]
    steps = np.abs(np.diff(line))
    assert steps.max() < 1.0 and abs(line[0] - line[-1]) <= 1.5 * steps.max()


@pytest.mark.parametrize("radius", (0.5e4, 3e4, 40e4))
def test_noise_has_variance_1_at_each_cell_at_walls_and_on_axes_shorter_than_the_gaussian(radius, monkeypatch):
    """The sum of the squares of what white noise of 1 in a single cell makes of it."""
    grid, variance = sw.CartesianGrid(9, 7, (0.0, 9e4), (0.0, 7e4), "x"), 0.0
    for row, column in np.ndindex(*grid.shape):
        one = lambda self, j, i, at=(row, column): np.outer(j == at[0], i == at[1]).astype(float)  # noqa: E731
        monkeypatch.setattr(SmoothNoise, "_white", one)
        variance = variance + np.asarray(SmoothNoise(grid, radius, (0,))) ** 2
    np.testing.assert_allclose(variance, 1.0, rtol=1e-12)


SHORE = """\
run = {until = "20 s", engine = "arrays"}
grid = {type = "cartesian", nx = 20, ny = 6, x = [0, 400], y = [0, 120]}
bathymetry = {type = "formula", depth = "2 - x/100"}
model = {momentum = "momentum_conserving", wetting = {thin = "1 mm"}}
initial = {type = "gaussian", amplitude = 0.4, centre = [60, 40], radius = 40}
stepper = {type = "forward_backward_hancock", dt = 0.5}
output = {maxima = {threshold = 0.05}}
"""


@pytest.mark.verify
def test_maxima_over_shores_are_those_of_each_members_own_bed(write, command):
    file = write()
    file.write_text(SHORE)
    beds = "2 - x/100", "3 - x/100"
    command.ok("run", file, "-o", "both", "--members", f"bathymetry.depth={','.join(beds)}")
    with xr.open_dataset("both/maxima.nc", decode_times=False, decode_timedelta=False) as both:
        for k, bed in enumerate(beds):
            assert command("run", file, "-o", f"alone{k}", "--set", f"bathymetry.depth={bed}")[0] == 0
            with xr.open_dataset(f"alone{k}/maxima.nc", decode_times=False, decode_timedelta=False) as alone:
                for name in ("arrival_time", "maximum_elevation"):
                    np.testing.assert_array_equal(both[name].isel(member=k), alone[name], err_msg=name)


def test_members_share_what_a_run_has_once(write, command):
    file = write()
    for key, what in (("model.wetting.thin", "wetting and drying"), ("model.least_thickness", "least thickness")):
        file.write_text(f'{SHORE}[ensemble]\n"{key}" = [0.001, 0.01]\n')
        status, _, err = command("check", file)
        assert status and f"has another {what} than member 0" in err.replace("\n", " "), err


def test_check_refuses_a_zarr_store_of_an_ensemble_as_a_run_does(write, command):
    status, _, err = command("check", write(THREE), "--set", "output.fields.0.file=fields.zarr")
    assert status == 2 and "'fields.zarr' is a Zarr store" in err.replace("\n", " "), err
