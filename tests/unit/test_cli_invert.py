"""`swmodel invert`: a twin's source is found, files say so, an inversion is resumed, and mistakes are reported."""

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import swmodel as sw
from swmodel import sources
from swmodel.adjoint.assimilation.result import Result
from swmodel.adjoint.controls.seafloor import FaultSource
from swmodel.cli import invert as inverted
from swmodel.sources.fault import Plane
from tests.selection import later
from tests.studies import BASIN, FIELDS, GAUGES, PATCH, TWIN, WAVE

xr = pytest.importorskip("xarray")
pytest.importorskip("matplotlib")
WHOLE = "".join((BASIN, PATCH, GAUGES, TWIN))


def write_series(path, height, every=60.0):
    """Write half an hour of waves of `height` [m] every so many seconds; return the times [s]."""
    times = np.arange(0.0, 1801.0, every)
    path.parent.mkdir(exist_ok=True)
    columns = np.column_stack([times, height * np.sin(times / 300.0)])
    np.savetxt(path, columns, "%.6f", ",", header="time_s,elevation_m", comments="")
    return times


def test_the_source_of_a_twin_is_found_drawn_and_predicted_by_each_two_gauges(study, command):
    path, folder = study(BASIN, PATCH.replace("loops = 4", "loops = 2\nmembers = 20"), GAUGES, TWIN)
    printed, _ = command.ok("invert", path, "-o", folder, "--withhold", "--plot")
    assert (folder / "inversion.png").stat().st_size > 20_000
    reduction = float(printed.partition("misfit_reduction=")[2].split(" %")[0])
    assert reduction > 95.0 and "Green's functions: 16 of 16" in printed
    with xr.open_dataset(folder / "inversion.nc") as found:
        truth, analysis = found["initial_eta_truth"].values, found["initial_eta_analysis"].values
        assert np.sqrt(np.mean((analysis - truth) ** 2)) < 0.4 * np.sqrt(np.mean(truth**2))
        assert np.all(found["initial_eta_analysis_deviation"] <= found["initial_eta_background_deviation"] + 1e-9)
        observed, before = found["observation_observed"].values, found["observation_background"].values
        withheld, names = found["observation_withheld"].values, found["observation_gauge"].values
        for name in ("near", "far", "north"):
            mine = names == name
            assert np.mean((withheld - observed)[mine] ** 2) < np.mean((before - observed)[mine] ** 2)
        assert np.all(np.diff(found["loop_cost"].values) < 0)
        assert found["source_amplitude"].size == 16
    status, printed, errors = command("invert", path, "-o", folder, "--resume", "--set", "inversion.loops=3")
    assert status == 0 and "resumed after" in printed and "Green's functions" not in printed, errors


@pytest.mark.verify
def test_an_inversion_is_resumed_of_the_same_model_and_observations_only_unless_what_differs_is_named(
    study, command, tmp_path
):
    records = tmp_path / "records"
    for name in ("near", "far", "north"):
        write_series(records / f"{name}.csv", 0.1)
    fewer = PATCH.replace('"20 km"\ndev', '"30 km"\ndev').replace("loops = 4", "loops = 1")
    path, folder = study(BASIN, fewer, GAUGES)
    options = path, "-o", folder, "--observations", records, "-q"
    assert command("invert", *options)[0] == 0

    def resumed(*more):
        status, _, errors = command("invert", *options, "--resume", *more)
        return status, errors.replace("\n", " ")

    assert resumed()[0] == 0
    study(BASIN.replace('"1000 m"', '"900 m"'), fewer, GAUGES)
    status, errors = resumed()
    assert status == 2 and "depth is a field of 1000 to 1000 in the restart" in errors and "--force depth" in errors
    assert errors.count("error:") == 1
    assert resumed("--force", "depth")[0] == 0
    assert resumed()[0] == 0  # the restart is of this depth now
    study(BASIN, fewer, GAUGES)
    assert resumed("--set", "bathymetry.depth=1000")[0] == 0
    write_series(records / "far.csv", 0.3)
    status, errors = resumed("--set", "bathymetry.depth=1000")
    assert status == 2 and "the record of far differs in 27 of 27 values" in errors and "--force observations" in errors
    (records / "near.csv").unlink()
    status, errors = resumed()
    assert status == 2 and "the record of near is in the restart and not in the experiment" in errors
    status, printed, errors = command("invert", *options[:-1], "--resume", "--force", "observations")
    assert status == 0 and "starts from the parameters in" in printed and "Green's functions" in printed, errors
    study(BASIN, PATCH, GAUGES)
    status, errors = resumed("--force", "controls")
    assert status == 2 and "holds other unknowns (unit_sources (9,))" in errors


@pytest.mark.verify
def test_the_first_guess_is_the_priors_mean_and_its_cost_is_that_of_its_own_run(study, command):
    """Sources that only rise have w log 2 where nothing is known; what was reported was a run without any source."""
    path, folder = study(BASIN, PATCH, "uplift_only = 0.5\n", GAUGES, TWIN)
    printed, _ = command.ok("invert", path, "-o", folder, "--plot")
    with xr.open_dataset(folder / "inversion.nc") as found:
        first = found["initial_eta_background"].values
        assert first[6, 9] == pytest.approx(0.5 * np.log(2.0), rel=1e-6) and first[0, 0] == 0.0
        off = (found["observation_background"] - found["observation_observed"]) / found["observation_deviation"]
        J = 0.5 * float((off**2).sum())
        assert J == pytest.approx(found.attrs["inversion_cost_first"], rel=1e-6)
        assert found["loop_cost"].values[0] == pytest.approx(J, rel=1e-6)
        assert float(printed.partition("first guess: J = ")[2].split(",")[0]) == pytest.approx(J, rel=1e-4)
        assert found.attrs["inversion_independent_data"] == 42.0
        chi = 2.0 * found["loop_cost"].values[-1] / 42.0
        assert found.attrs["inversion_chi_squared_per_datum"] == pytest.approx(chi)
    assert f"2 J / n = {chi:.3g} (expected: 1)" in printed


@pytest.mark.verify
def test_a_run_starts_from_the_analysis(study, command, tmp_path):
    path, folder = study(BASIN, PATCH, GAUGES, TWIN)
    assert command("invert", path, "-o", folder)[0] == 0
    again = tmp_path / "again.toml"
    again.write_text(BASIN + f'[initial]\ntype = "file"\nfile = "{folder / "inversion.nc"}"\n')
    command.ok("run", again, "-o", tmp_path / "again")
    with (
        xr.open_dataset(folder / "inversion.nc") as found,
        xr.open_dataset(tmp_path / "again" / "gauges.nc", decode_times=False) as run,
    ):
        for k, name in enumerate(("near", "far", "north")):
            mine = found["observation_gauge"].values == name
            series = np.interp(found["observation_time"].values[mine].astype(float), run.time, run.eta[k])
            np.testing.assert_allclose(found["observation_analysis"].values[mine], series, atol=1e-6)


@pytest.mark.verify
def test_errors_that_are_much_too_small_are_a_warning(study, command):
    path, folder = study(BASIN, PATCH, GAUGES.replace("error = 0.05", 'deviation = "0.01 mm"'), TWIN)
    status, _, errors = command("invert", path, "-o", folder)
    assert status == 0 and "the analysis does not follow the observations to within their errors" in errors
    path, folder = study(BASIN, PATCH.replace('"1 m"', '"1 mm"'), GAUGES, TWIN)
    status, _, errors = command("invert", path, "-o", folder, "--overwrite")
    assert status == 0 and "the first guess is further from the observations than" in errors.replace("\n", " ")


SHELF = '"formula", depth = "1000 - 960 * exp(-(x / (30 * km))**2)"'
WIDE = """\
[inversion.observations]
type = "gauges"
window = ["2 min", "30 min"]
deviation = "1 cm"
every = "1 min"
positions = { south = ["90 km", "15 km"], offshore = ["135 km", "85 km"], inshore = ["15 km", "55 km"] }
"""


def ratios_at_withheld_gauges(found):
    """{name: the r.m.s. of the actual errors over what the spread and the observations let expect}."""
    ratios = {}
    for name in ("offshore", "inshore"):
        mine = found["observation_gauge"].values == name
        assert not found["observation_used"].values[mine].any()
        off = (found["observation_analysis"] - found["observation_observed"]).values[mine]
        expected = np.hypot(found["observation_analysis_spread"].values[mine], 0.01)
        ratios[name] = float(np.sqrt(np.mean(off**2) / np.mean(expected**2)))
    return ratios


@pytest.mark.verify
def test_the_spread_at_withheld_gauges_is_their_actual_error_where_the_sources_can_make_the_truth(
    study, command, tmp_path
):
    """Offshore and on a shelf 40 m deep: of a truth that is another inversion's analysis.

    Of one that the sources cannot make, a bump beside the patch, the spread is too small, and chi-squared says so.
    """
    basin = BASIN.replace('"flat", depth = "1000 m"', SHELF)
    patch = PATCH.replace("loops = 4", 'loops = 4\nwithhold = ["offshore", "inshore"]')
    path, folder = study(basin, PATCH, GAUGES, TWIN)
    assert command("invert", path, "-o", folder, "--set", "inversion.members=0")[0] == 0
    with xr.open_dataset(folder / "inversion.nc") as found:
        assert not [name for name in found if str(name).endswith("_spread")]
    truth = f'"initial.type" = "file", "initial.file" = "{folder}/inversion.nc"'
    path, _ = study(basin, patch, WIDE, f"[inversion.twin]\nseed = 2\ntruth = {{ {truth} }}\n")
    status, printed, errors = command("invert", path, "-o", tmp_path / "same", "--plot")
    assert status == 0 and "offshore, inshore: compared, and not used" in printed and "warning" not in errors, errors
    with xr.open_dataset(tmp_path / "same" / "inversion.nc") as found:
        assert found.attrs["inversion_observations_used"] == 4 * 29
        assert all(abs(np.log(ratio)) < np.log(1.6) for ratio in ratios_at_withheld_gauges(found).values())
        prior, after = (found[f"observation_{role}_spread"].values for role in ("background", "analysis"))
        assert np.mean(after**2) < 0.02 * np.mean(prior**2)
    elsewhere = TWIN.replace('["90 km", "70 km"]', '["140 km", "60 km"]')
    path, _ = study(basin, patch, WIDE, elsewhere)
    status, _, errors = command("invert", path, "-o", tmp_path / "other")
    assert status == 0 and "the spread is too small" in errors.replace("\n", " ")
    with xr.open_dataset(tmp_path / "other" / "inversion.nc") as found:
        assert all(ratio > 1.6 for ratio in ratios_at_withheld_gauges(found).values())


@pytest.mark.verify
def test_fields_and_numbers_are_found_from_tracks(study, command):
    path, folder = study(BASIN, FIELDS)
    command.ok("invert", path, "-o", folder)
    with xr.open_dataset(folder / "inversion.nc") as found:
        truth, before, after = (found[f"initial_eta_{role}"].values for role in ("truth", "background", "analysis"))
        assert np.mean((after - truth) ** 2) < 0.2 * np.mean((before - truth) ** 2)
        assert found["dissipation_0_rate_analysis"].item() > 0
        history = found["loop_cost"].values
        assert history[-1] < 0.5 * history[0]


@pytest.mark.parametrize("change, sentence", [
    (('x = ["60 km", "120 km"]', 'x = ["600 km", "900 km"]'), "inversion.controls[0]: UnitSources: the patch x ="),
    (('spacing = "20 km"', 'spacing = "10 km"'), "inversion.controls[0]: UnitSources: sources 10000 apart"),
    (('window = ["4 min", "30 min"]', 'window = ["1 s", "30 s"]'), "inversion.observations: Misfit: the record of"),
    (('"initial.radius"', '"initial.radus"'), "inversion.twin.truth"),
    (("loops = 4", 'loops = 4\nwithhold = true\nmethod = "descent"'), "inversion.withhold: withhold is not for the me"),
    (("loops = 4", 'loops = 4\nuntil = "3 min"'), "after the end of the run, at 180 s"),
    (('type = "gauges"\n', 'type = "gauges"\npositions = { out = [0, "900 km"] }\n'), "gauge 'out' at (0, 900000)"),
    (('["4 min", "30 min"]', '{ near = ["4 min", "30 min"] }'), "inversion.observations: gauge 'far' has no window"),
    (('["4 min", "30 min"]', '{ nea = ["4 min", "30 min"] }'), "there is no gauge 'nea'; did you mean 'near'?"),
], ids=lambda x: x if isinstance(x, str) else "")  # fmt: skip
def test_check_names_what_the_model_has_no_place_for(study, command, change, sentence):
    assert change[0] in WHOLE
    path, _ = study(WHOLE.replace(*change))
    assert sentence in command.refused("check", path)


@pytest.mark.parametrize(
    "change, sentence",
    [
        (('"initial.radius"', '"grid.nx" = 20\n"initial.radius"'), "twin.truth: 'grid.nx' is the same in the truth"),
        (("unit_sources", "unit_source"), "did you mean 'unit_sources'?"),
        (('window = ["4 min", "30 min"]', 'window = ["4 min", "60 min"]'), "3600 s is after the end of the run"),
        ((TWIN, ""), "there are no observations; give --observations DIR"),
        (('x = ["60 km", "120 km"]', 'x = ["600 km", "900 km"]'), "holds no water of the grid"),
        (('spacing = "20 km"', 'spacing = "10 km"'), "two cells or more"),
        (("[inversion]\n", '[inversion]\nmethod = "newton"\n'), "'newton' is unknown"),
        (('type = "gauges"\n', 'type = "gauges"\ngauges = ["nowhere"]\n'), "there is no gauge 'nowhere'"),
        (("loops = 4", 'loops = 4\nrestart = "inversion.nc"'), "file and restart are one file, 'inversion.nc'"),
        (
            ('type = "gauges"\n', 'type = "gauges"\nfolder = "records"\n'),
            "near.csv is text in UTF-16, to be saved in UTF-8",
        ),
        (
            ('= 1.0\n"initial.centre"', '= -5000.0\n"initial.centre"'),
            "the run of the twin's truth does not stay finite",
        ),
    ],
)
def test_a_mistake_is_told_before_anything_is_looked_for(study, command, tmp_path, change, sentence):
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "near.csv").write_bytes(b"\xff\xfe\x00time_s")
    assert change[0] in WHOLE
    path, folder = study(WHOLE.replace(*change))
    assert sentence in command.refused("invert", path, "-o", folder)
    assert not (folder / "inversion.nc").exists()


def test_check_says_what_would_be_looked_for_and_names_a_record_that_is_missing(study, command, tmp_path):
    path, _ = study(BASIN, PATCH, GAUGES, TWIN)
    status, printed, errors = command("check", path)
    assert status == 0 and "16 unknowns by 'green' from 42 observations at 3 gauges, of a twin (seed 0)" in printed, (
        errors
    )
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "near.csv").write_text("time_s,elevation_m\n60,0.1\n600,0.2\n")
    folder = 'type = "gauges"\nfolder = "records"\ngauges = ["near", "far"]\n'
    path, _ = study(BASIN, PATCH, GAUGES.replace('type = "gauges"\n', folder), TWIN)
    status, _, errors = command("check", path)
    assert status == 2 and "inversion.observations: " in errors and "has no record of far" in errors


def test_check_looks_at_fields_correlations_and_tracks(study, command):
    path, _ = study(BASIN, FIELDS)
    assert "505 unknowns by 'incremental'" in command.ok("check", path)[0]
    for change, sentence in (
        (('length = "60 km"', 'length = "2 km"'), "inversion.controls[1]: Smooth: length = 2000 m is less"),
        (('type = "number"', 'type = "field"\nlength = "40 km"'), "controls[2]: dissipation.0.rate is a number"),
        (('apart = "20 km"', 'apart = "900 km"'), "inversion.observations: ground_tracks: passes every 240 s"),
        (('every = "4 min"', 'every = "4 hour"'), "inversion.observations: ground_tracks: passes every 14400 s"),
        (("loops = 2", 'loops = 2\nmethod = "linear"'), "inversion.method: 'linear' is for the numbers"),
    ):
        path, _ = study(BASIN, FIELDS.replace(*change))
        status, _, errors = command("check", path)
        assert status == 2 and sentence in errors.replace("\n", " "), (change, errors)


def test_what_became_of_faults_has_its_units_and_their_places_those_of_the_grid(study):
    """Of a control of two faults on a plane, of which the slip was looked for, after an inversion by one deviation."""
    grid = sw.CartesianGrid(18, 14, (0.0, 180e3), (0.0, 140e3))
    model = sw.ShallowWater(grid, 1000.0, communicator="serial", engine="arrays")
    faults = [sources.Fault(x, 7e4, 1e4, 4e4, 2e4, 90.0, 20.0, 90.0, 3.0) for x in (8e4, 1e5)]
    source = sources.Source(faults, projection=Plane())
    surface = sources.SeaSurface.of(grid, np.full(grid.shape, 1000.0), around=source)
    part = FaultSource.of(model, surface, source, {"slip": 0.5})
    transform = SimpleNamespace(function=SimpleNamespace(parts={"faults": part}))
    problem: Any = SimpleNamespace(transforms=[transform], model=model, communicator=model.communicator)
    unset: Any = None
    found = Result(problem, unset, "green", {"faults": np.array([1.0, 0.0])}, *[unset] * 8)
    table = found.parameter_tables()["fault"]
    assert table["slip_analysis"][0] == "m" and table["longitude_analysis"][0] == "m"
    assert table["strike_background"][0] == "degrees"
    assert list(inverted.fault_lines(table)) == ["slip of the faults: 4.946, 3 m (before: 3, 3)"]


SHALLOW = BASIN.replace('"1000 m"', '"700 m"')


@pytest.mark.verify
def test_the_level_at_a_side_is_found_and_drives_a_run_from_the_file_of_the_inversion(study, command):
    path, folder = study(SHALLOW, WAVE, GAUGES)
    times = write_series(path.parent / "wave.csv", 0.3, every=100.0)
    write_series(path.parent / "true.csv", 0.5, every=100.0)
    status, printed, errors = command("invert", path, "-o", folder, "--plot")
    assert status == 0 and "boundary.0.elevation.values: 19 unknowns" in printed, errors
    before, after = re.search(r"values: changed by .* truth (\S+) m before and (\S+) after", printed).groups()
    assert float(after) < 0.6 * float(before)
    name, along = "boundary_0_elevation_values", "boundary_0_elevation_time"
    with xr.open_dataset(folder / "inversion.nc", decode_times=False) as found:
        for role in ("background", "analysis", "truth", "background_deviation", "analysis_deviation"):
            assert found[f"{name}_{role}"].dims == (along,) and found[f"{name}_{role}"].attrs["units"] == "m"
        np.testing.assert_allclose(found[along], times, atol=1e-3)
        here = found["observation_gauge"].values == "near"
        seconds, right = found["observation_time"].values[here], found["observation_analysis"].values[here]
    given = f'elevation = {{file = "{folder / "inversion.nc"}", variable = "{name}_analysis"}}'
    path.write_text((SHALLOW + WAVE).partition("[inversion]")[0].replace('elevation = {file = "wave.csv"}', given))
    command.ok("run", path, "-o", folder / "again")
    with xr.open_dataset(folder / "again" / "gauges.nc", decode_times=False) as gauges:
        level = gauges["eta"].values[gauges["gauge_name"].values == "near"][0]
        np.testing.assert_allclose(np.interp(seconds, gauges["time"], level), right, atol=1e-6)


@pytest.mark.parametrize(
    "change, sentence",
    [
        later(
            ('"series"', '"number"'), "boundary.0.elevation.values is a series of values at given times in this model"
        ),
        (('"boundary.0.elevation.values"', '"gravity"'), "gravity is a number in this model; use type = 'number'"),
        later(('"boundary.0.elevation.values"', '"depth"'), "depth is a field in this model; use type = 'field'"),
    ],
)
def test_controls_of_another_kind_than_their_type_are_refused(study, command, change, sentence):
    text = WAVE.replace(*change)
    path, folder = study(SHALLOW, text.replace('length = "5 min"\n', "") if "number" in text else text, GAUGES)
    for name in ("wave.csv", "true.csv"):
        write_series(path.parent / name, 1.0)
    assert sentence in command.refused("invert", path, "-o", folder)


def test_a_file_without_the_section_is_answered_with_an_example(study, command):
    path, folder = study(BASIN)
    assert "[[inversion.controls]]" in command.refused("invert", path, "-o", folder)


def test_two_controls_of_one_field_are_refused(study, command):
    twice = BASIN + FIELDS.replace('name = "forcing.0.x"', 'name = "initial.eta"')
    path, folder = study(twice)
    assert "initial.eta is changed by the control number 1, too" in command.refused("invert", path, "-o", folder)
