"""Observations of several kinds in one inversion: the sum of their misfits, twins, files, and mistakes in both."""

from pathlib import Path

import jax
import numpy as np
import pytest

import swmodel as sw
from swmodel.adjoint import FinalState, JointMisfit, Misfit
from swmodel.adjoint.assimilation.departures import DeparturesOfParts, departures_of
from swmodel.adjoint.costs.costs import GaugeElevation
from swmodel.errors import ConfigError
from swmodel.runtime.compilation import jit
from tests.studies import BASIN, PATCH, TWIN

from .test_costs import DT, FIRST, MODEL, PLACES, RECORDS, STEPS, assert_derivatives, compiled, number, trajectory
from .test_observed_quantities import ALONG, COSTS, HARMONIC, LONG, TrackMisfit

xr = pytest.importorskip("xarray")

PARTS = {
    "elevations, velocities, transports, tracks": (
        (Misfit(RECORDS), COSTS["velocities"][0], COSTS["transports"][0], TrackMisfit(ALONG)),
        DT,
    ),
    "harmonic constants and an elevation": ((HARMONIC, GaugeElevation(PLACES, time=6e4)), LONG),
}


def joint(name="elevations, velocities, transports, tracks"):
    parts, dt = PARTS[name]
    return JointMisfit(parts).on_tile(MODEL, dt, FIRST, STEPS)


@jit
def values_and_slopes(parts, x, d):
    return [jax.jvp(lambda x, part=part: number(part, x), (x,), (d,)) for part in parts]


def test_the_misfit_to_all_is_the_sum_of_the_misfits_and_so_is_its_derivative():
    """J and a dot product of both modes against the parts; a Taylor test of third order; two segments."""
    cost, x, d = joint(), trajectory(1), trajectory(2)
    parts = [part.on_tile(MODEL, DT, FIRST, STEPS) for part in PARTS["elevations, velocities, transports, tracks"][0]]
    values, slopes = np.transpose(values_and_slopes(parts, x, d))
    assert min(values) > 0 and float(compiled(cost, x)) == pytest.approx(sum(values), rel=1e-13)
    assert float(compiled(cost, x, (5, 6, 1))) == pytest.approx(sum(values), rel=1e-13)
    assert assert_derivatives(cost, (4e-2, 2e-2), 0.0) == pytest.approx(sum(slopes), rel=1e-12)


def test_departures_of_tracks_are_those_of_their_cost_alone_and_beside_others():
    tracks, records = TrackMisfit(ALONG), Misfit(RECORDS)
    cost, random = tracks.on_tile(MODEL, DT, FIRST, STEPS), np.random.default_rng(4)
    readings = random.standard_normal((STEPS, cost.count))
    departures = departures_of(cost, MODEL.communicator)
    J = cost.value(cost.update(cost.start(), jax.numpy.asarray(readings), FIRST + 1), None)
    assert 0.5 * np.sum(departures.of(readings) ** 2) == pytest.approx(float(J), rel=1e-12)
    other = random.standard_normal(departures.of(readings).shape)
    assert np.sum(departures.linear(readings) * other) == pytest.approx(
        np.sum(readings * departures.transposed(other)), rel=1e-12
    )
    both = departures_of(JointMisfit((tracks, records)).on_tile(MODEL, DT, FIRST, STEPS), MODEL.communicator)
    more = random.standard_normal((STEPS, 2))
    found = departures_of(records.on_tile(MODEL, DT, FIRST, STEPS), MODEL.communicator).of(more)
    together = both.of(np.concatenate([readings, more], axis=1))
    assert np.sum(together**2) == pytest.approx(2.0 * float(J) + np.sum(found**2), rel=1e-12)
    with pytest.raises(ConfigError, match="compares no observations with readings; give a misfit"):
        departures_of(GaugeElevation(PLACES, time=100.0).on_tile(MODEL, DT, FIRST, STEPS), MODEL.communicator)


def test_departures_of_all_are_those_of_the_parts_and_their_transpose_is_exact():
    parts = Misfit(RECORDS), COSTS["velocities"][0], COSTS["transports"][0], COSTS["marks"][0]
    cost = JointMisfit(parts).on_tile(MODEL, DT, FIRST, STEPS)
    random = np.random.default_rng(3)
    kept = np.array([1, 0, 1, 1, 1, 1, 1], bool)  # the second gauge does not count
    readings = random.standard_normal((STEPS, 7))
    departures = departures_of(cost, MODEL.communicator, kept).about(readings)
    assert isinstance(departures, DeparturesOfParts) and cost.count == 7
    d = departures.of(readings)
    wanted = sum(
        np.sum(departures_of(part.on_tile(MODEL, DT, FIRST, STEPS), MODEL.communicator, some).of(own) ** 2)
        for part, some, own in zip(parts, np.split(kept, [2, 4, 5]), np.split(readings, [2, 4, 5], axis=1))
    )
    assert np.sum(d**2) == pytest.approx(wanted, rel=1e-13)
    assert not departures.transposed(np.ones(d.shape))[:, 1].any()
    other = random.standard_normal(d.shape)
    assert np.sum(departures.linear(readings) * other) == pytest.approx(
        np.sum(readings * departures.transposed(other)), rel=1e-12
    )
    np.testing.assert_allclose(departures.scaled(departures.compared(readings)), departures.linear(readings))
    change = 1e-6 * other.mean() * random.standard_normal(readings.shape)  # no maximum moves to another step
    np.testing.assert_allclose(departures.of(readings + change) - d, departures.linear(change), atol=1e-13)


def test_constants_beside_series_are_compared_below_padding():
    """The sums of a fit have fewer rows than the series; both scale to the departures."""
    velocities = COSTS["velocities"][0].currents["a"]
    times = LONG * (FIRST + 1 + np.arange(STEPS))
    later = type(velocities)(velocities.place, times, np.zeros(STEPS), np.ones(STEPS), 0.5)
    parts = HARMONIC, type(COSTS["velocities"][0])({"a": later})
    departures = departures_of(JointMisfit(parts).on_tile(MODEL, LONG, FIRST, STEPS), MODEL.communicator)
    readings = np.random.default_rng(5).standard_normal((STEPS, 5))
    compared = departures.compared(readings)
    assert compared.shape == (STEPS, 5) and not compared[2:, :3].any() and compared[:2, :3].any()
    np.testing.assert_array_equal(compared[:, 3:], readings[:, 3:])
    np.testing.assert_allclose(departures.scaled(compared), departures.linear(readings), rtol=1e-12)


def test_what_is_no_misfit_is_refused_with_the_mistakes_of_all_parts():
    for parts, sentence in (
        ((GaugeElevation(PLACES),), "JointMisfit: elevation at a, b at the end is not a misfit"),
        ((FinalState(lambda state, equations: 0.0),), "is not a misfit to observations; leave it out"),
        ((), "there are no parts; give one misfit or several"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            JointMisfit(parts).on_tile(MODEL, DT, FIRST, STEPS)
    with pytest.raises(ConfigError, match="parts = .* is not a list"):
        JointMisfit(Misfit(RECORDS))
    with pytest.raises(ConfigError) as printed:
        JointMisfit((HARMONIC, COSTS["velocities"][0])).on_tile(MODEL, DT, FIRST, STEPS)
    assert "HarmonicMisfit" in str(printed.value)


BEACH = BASIN.replace('"forward_backward"', '"forward_backward_hancock"').replace('"1 min"', '"30 s"')
BEACH = BEACH.replace('"flat", depth = "1000 m"', '"formula", depth = "(150 * km - x) / 150"').replace(
    "model = {", 'model = {momentum = "momentum_conserving", wetting = {thin = "1 mm", highest = "300 m"}, '
)

# -- twins -------------------------------------------------------------------------------------------------------------

WINDOW = 'window = ["4 min", "30 min"]\nevery = "2 min"\n'
ELEVATIONS = f"""\
[[inversion.observations]]
type = "gauges"
gauges = "near"
deviation = "2 cm"
independent = 0
{WINDOW}"""
VELOCITIES = f"""\
[[inversion.observations]]
type = "velocities"
positions.buoy = ["120 km", "60 km"]
positions.far = ["40 km", "100 km"]
deviation = "2 mm/s"
{WINDOW}"""
TRANSPORTS = f"""\
[[inversion.observations]]
type = "transports"
sections.strait = {{start = ["110 km", "0 km"], end = ["110 km", "140 km"]}}
deviation = "100000 m3/s"
{WINDOW}"""


def alone(table):
    """A table that is the only one."""
    return table.replace("[[inversion.observations]]", "[inversion.observations]")


def distance(file):
    """The r.m.s. distance of the initial elevation from the truth, before and after."""
    truth, before, after = (file[f"initial_eta_{role}"].values for role in ("truth", "background", "analysis"))
    return [float(np.sqrt(np.mean((x - truth) ** 2))) for x in (before, after)]


@pytest.mark.verify
@pytest.mark.parametrize("method", ["green", "incremental"])
def test_a_source_is_found_from_an_elevation_and_two_velocities(study, command, method):
    """Of Green's functions or of exact adjoints; each place is predicted from the others, both components together."""
    path, folder = study(BASIN, PATCH, ELEVATIONS, VELOCITIES, TWIN)
    options = ["--set", f"inversion.method={method}", "--set", "inversion.members=4"]
    options += ["--withhold", "--plot"] if method == "green" else []
    printed, _ = command.ok("invert", path, "-o", folder, *options)
    assert "14 observations at 1 gauge" in printed and "56 components of velocities at 2 places" in printed
    assert "buoy (u) [m s-1]" in printed and "near [m]" in printed
    with xr.open_dataset(folder / "inversion.nc") as found:
        before, after = distance(found)
        assert after < 0.35 * before
        assert found.attrs["inversion_kind"] == "gauges, velocities"
        assert list(dict.fromkeys(found["observation_units"].values)) == ["m", "m s-1"]
        used = found["observation_kind"].values == "velocities"
        observed, first, last = (
            found[f"observation_{role}"].values[used] for role in ("observed", "background", "analysis")
        )
        assert np.std(last - observed) < 0.3 * np.std(first - observed)
        assert "units" not in found["observation_observed"].attrs
        chi = found.attrs["inversion_chi_squared_per_datum"]
        assert 0.3 < chi < 2.0
        if method == "green":
            assert "without buoy" in printed and "without buoy (u)" not in printed
            others = found["observation_withheld"].values[used]
            assert np.std(others - observed) < np.std(first - observed)
            assert (folder / "inversion.png").stat().st_size > 20_000


@pytest.mark.verify
def test_a_transport_alone_brings_a_source_nearer_to_the_truth(study, command):
    path, folder = study(BASIN, PATCH, alone(TRANSPORTS), TWIN)
    status, printed, errors = command("invert", path, "-o", folder, "--set", "inversion.members=0")
    assert status == 0 and "14 transports through 1 section" in printed, errors
    with xr.open_dataset(folder / "inversion.nc") as found:
        before, after = distance(found)
        assert after < 0.8 * before
        assert found["observation_observed"].attrs["units"] == "m3 s-1"
        assert found.attrs["inversion_misfit_reduction_percent"] > 90.0


@pytest.mark.verify
def test_files_take_the_place_of_the_twin(study, command, tmp_path):
    records = tmp_path / "records"
    records.mkdir()
    (records / "buoy.csv").write_text("time_s,u_m_s,v_m_s\n600,0.01,\n1200,0.02,0.01\n")
    (records / "far.csv").write_text("time_s,u_m_s,v_m_s\n600,0.0,0.0\n")
    (records / "strait.csv").write_text("time_s,transport_m3_s\n600,1e6\n1200,2e6\n")
    named = 'folder = "records"\ntype = '
    path, folder = study(BASIN, PATCH, *(text.replace("type = ", named) for text in (VELOCITIES, TRANSPORTS)))
    status, printed, errors = command("check", path)
    assert status == 0 and "5 components of velocities at 2 places" in printed, errors
    assert "2 transports through 1 section" in printed
    command.ok("invert", path, "-o", folder, "--set", "inversion.loops=1")
    assert "resumed after" in command.ok("invert", path, "-o", folder, "--resume", "--set", "inversion.loops=2")[0]
    (records / "strait.csv").write_text("time_s,transport_m3_s\n600,1e6\n1200,3e6\n")
    status, printed, errors = command("invert", path, "-o", folder, "--resume")
    assert status == 1 or "by up to 1e+06 m3 s-1" in errors.replace("\n", " "), errors


MARKS = 'type = "{}"\nfile = "marks.csv"\ndeviation = "2 cm"\n'
SOURCE = '[initial]\ntype = "gaussian"\namplitude = "1 m"\ncentre = ["90 km", "70 km"]\nradius = "30 km"\n'


@pytest.mark.verify
def test_a_source_is_found_from_the_marks_that_its_wave_left(study, command, tmp_path):
    """By Green's functions, whose derivative is that at the crests, and by exact tangents, to the same analysis."""
    path, _ = study(BASIN, "[output.maxima]\n", SOURCE)
    assert command("run", path, "-o", tmp_path / "truth", "-q")[0] == 0
    rows = ["x,y,elevation_m"]
    with xr.open_dataset(tmp_path / "truth" / "maxima.nc") as truth:
        for row, column in ((1, 1), (6, 3), (12, 5), (3, 9), (11, 13), (7, 16)):
            level = float(truth["maximum_elevation"][row, column])
            rows.append(f"{1e4 * (column + 0.5)},{1e4 * (row + 0.5)},{level:.4f}")
    (tmp_path / "marks.csv").write_text("\n".join(rows) + "\n")
    path, folder = study(BASIN, PATCH, "[inversion.observations]\n", MARKS.format("marks"))
    assert "6 levels at 6 marks, of" in command.ok("check", path)[0]
    costs = []
    for method in ("green", "incremental"):
        options = "--set", f"inversion.method={method}", "--set", "inversion.members=0", "--overwrite"
        status, printed, errors = command("invert", path, "-o", folder, *options)
        assert status == 0 and "no water reached" not in printed and "marks" in printed, errors
        with xr.open_dataset(folder / "inversion.nc") as found:
            off = [found[f"observation_{role}"] - found["observation_observed"] for role in ("background", "analysis")]
            assert np.sqrt(np.mean(off[1] ** 2)) < 0.1 * np.sqrt(np.mean(off[0] ** 2))
            assert found.attrs["inversion_kind"] == "marks"
            costs.append(float(found["loop_cost"][-1]))
    assert costs[0] == pytest.approx(costs[1], rel=0.05)
    assert "resumed after" in command.ok("invert", path, "-o", folder, *options[:4], "--resume")[0]
    path.write_text(path.read_text() + 'window = ["1 min", "20 min"]\n')
    assert "observations.0.window is None in the restart" in command.refused("invert", path, "-o", folder, "--resume")


@pytest.mark.verify
def test_marks_that_no_water_reached_are_named(study, command, tmp_path):
    (tmp_path / "marks.csv").write_text("name,x,y,elevation_m\nquay,145e3,65e3,1\nhill,177e3,65e3,200\n")
    study_of = '[adjoint]\ncontrols = ["initial.eta"]\nuntil = "10 min"\n[adjoint.cost]\n'
    path, folder = study(BEACH, SOURCE, study_of, MARKS.format("mark_misfit"))
    status, printed, errors = command("adjoint", path, "-o", folder)
    assert status == 0 and "no water reached the marks hill: they count by the height of the bed" in printed, errors


SHELF = BASIN.replace('"flat", depth = "1000 m"', '"formula", depth = "(160 * km - x) / 160"')
ENDS = '["110 km", "0 km"], end = ["110 km", "140 km"]'
GROUP = "inversion.observations"
MISTAKES = [
    ((ENDS, '["170 km", "0 km"], end = ["170 km", "140 km"]'), "sections.strait",
     f"{GROUP}[2].sections.strait: the section from (170000, 0) to (170000, 140000) crosses no water on this grid"),
    ((ENDS, '["110 km", "0 km"], end = ["40 km", "140 km"]'), "sections.strait",
     f"{GROUP}[2].sections.strait: the section from (110000, 0) to (40000, 140000) follows none of its lines"),
    (('buoy = ["120 km", "60 km"]', 'buoy = ["120 km", "600 km"]'), "positions.buoy",
     f"{GROUP}[1].positions.buoy: gauge 'buoy' at (120000, 600000)"),
    (('far = ["40 km", "100 km"]', 'far = ["175 km", "100 km"]'), "positions.far",
     f"{GROUP}[1].positions.far: gauge 'far' at (175000, 100000)"),
    (('"100000 m3/s"', '"1 m/s"'), 'deviation = "1 m/s"', f"{GROUP}[2].deviation: "),
    (('"velocities"', '"velocity"'), '"velocity"', f"{GROUP}[1].type: 'velocity' is unknown; did you mean 'velo"),
    (('type = "transports"\n', 'type = "transports"\nfolder = "."\n'), "[[inversion.observations]]",
     f"{GROUP}[0]: has no file, and other observations have one"),
    (("sections.strait", "section.strait"), "section.strait", f"{GROUP}[2].section: unknown key; did you mean"),
    (("[inversion]\n", '[inversion]\nwithhold = "strat"\n'), "withhold =",
     "inversion.withhold: there is no gauge 'strat'; did you mean 'strait'?"),
    ((TWIN, ""), "[[inversion.observations]]", f"{GROUP}[0]: there are no observations; give --observations DIR"),
]  # fmt: skip


@pytest.mark.parametrize("change, at, sentence", MISTAKES, ids=[sentence for *_, sentence in MISTAKES])
def test_each_mistake_has_its_line(study, command, change, at, sentence):
    text = "".join((SHELF, PATCH, ELEVATIONS, VELOCITIES, TRANSPORTS, TWIN))
    assert change[0] in text
    text = text.replace(*change)
    number = 1 + next(k for k, row in enumerate(text.splitlines()) if at in row)
    path, _ = study(text)
    assert f"case.toml:{number}: {sentence}" in command.refused("check", path)


def test_mistakes_of_a_single_table_have_its_lines_and_no_number(study, command):
    text = "".join((BASIN, PATCH, alone(VELOCITIES), TWIN))
    for change, at, sentence in (
        (('buoy = ["120 km", "60 km"]', 'buoy = ["120 km", "600 km"]'), "buoy =", "observations.positions.buoy: gauge"),
        (('"4 min", "30 min"', '"4 min", "60 min"'), "window =", "observations.window: 3600 s is after the end of the"),
        (('deviation = "2 mm/s"', 'deviations = "2 mm/s"'), "deviations =", "observations.deviations: unknown key"),
    ):
        assert change[0] in text
        wrong = text.replace(*change)
        number = 1 + next(k for k, row in enumerate(wrong.splitlines()) if at in row)
        path, _ = study(wrong)
        status, _, errors = command("check", path)
        assert status == 2 and f"case.toml:{number}: inversion.{sentence}" in errors.replace("\n", " "), errors
        assert "too few values" not in errors, errors


def test_the_example_of_the_documentation_is_checked(study, command, tmp_path):
    page = (Path(sw.__file__).parents[1] / "docs" / "guide" / "inversion.md").read_text(encoding="utf-8")
    example = page.partition("```toml\n[[inversion.observations]]")[2].partition("```")[0]
    for folder, name, columns in (
        ("tide_gauges", "harbour", "elevation_m"),
        ("moorings", "buoy", "u_m_s,v_m_s"),
        ("sections", "strait", "transport_m3_s"),
    ):
        (tmp_path / folder).mkdir()
        values = ",0.1" * len(columns.split(","))
        (tmp_path / folder / f"{name}.csv").write_text(f"time_s,{columns}\n30000{values}\n40000{values}\n")
    path, _ = study(BASIN, "[[inversion.observations]]", example)
    status, printed, errors = command("check", path, "--set", "run.until=2 day")
    assert status == 0 and "2 observations at 1 gauge" in printed and "4 components" in printed, errors
    assert "2 transports through 1 section" in printed


def test_two_places_of_one_name_are_told_apart_or_refused(study, command):
    """A velocity has a name of its own beside an elevation there; two sections of one name have not."""
    path, _ = study(BASIN, PATCH, ELEVATIONS, VELOCITIES.replace("buoy", "near"), TWIN)
    command.ok("check", path)
    path, _ = study(BASIN, PATCH, TRANSPORTS, TRANSPORTS, TWIN)
    assert "two tables of observations have a place 'strait'" in command.refused("check", path)
