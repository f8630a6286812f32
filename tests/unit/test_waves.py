"""Waves that come in at a side: their shape, that all of one enters and leaves, and records that do not last."""

import re

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel.config.assembly import assemble, model_of
from swmodel.config.experiment import read_text
from swmodel.dynamics.clock import Time
from swmodel.dynamics.terms import value_at
from swmodel.errors import ConfigError
from swmodel.grids.regrid import Records

GRID = sw.CartesianGrid(40, 5, (0.0, 40.0), (0.0, 5.0), periodic="y")
TIMES = np.arange(0.0, 12.0, 0.5)

TRAIN = sw.CnoidalWave(0.1, 1.0, 5.0)

EXPERIMENT = """
grid = {type = "cartesian", nx = 10, ny = 8, x = [0, 10], y = [0, 8]}
bathymetry = {type = "flat", depth = 1}
stepper = {type = "ssprk3"}
run = {until = 10, engine = "arrays"}  # `check` compiles no loops

[[boundary]]
type = "wave_maker"
sides = "west"
"""


def channel(maker, **options):
    """A channel 1 m deep with a maker of waves, or several, and walls."""
    return sw.ShallowWater(GRID, 1.0, boundaries=maker, communicator="serial", least_thickness=0.0, **options)


def elevation_at(model, seconds):
    """The wave that a model's first boundary sends in."""
    moment = Time(0, seconds / 0.1, jnp.asarray(0.1, model.dtype), 0.1)
    return float(value_at(model.open_boundaries[0].elevation, moment))


def test_waves_have_the_shape_of_their_formula():
    record = channel(sw.WaveMaker(sides="west", elevation=sw.Record(TIMES, TIMES**2)))
    assert elevation_at(record, 1.25) == pytest.approx(0.5 * (1.0 + 2.25), rel=1e-6)
    wave = sw.SolitaryWave(0.2, 1.0, peak=6.0)
    assert wave.speed == pytest.approx(np.sqrt(9.81 * 1.2))
    solitary = channel(sw.WaveMaker(sides="west", elevation=wave))
    shape = 0.2 / np.cosh(np.sqrt(0.15) * wave.speed * 1.5) ** 2
    assert elevation_at(solitary, 4.5) == pytest.approx(shape, rel=1e-5) == wave.elevation(4.5)
    train = sw.CnoidalWave(0.1, 1.0, period=8.0)
    cycles = np.linspace(0.0, 1.0, 4097)[1:]
    assert np.ptp(train.elevation(cycles)) == pytest.approx(0.1, rel=1e-6)
    assert abs(train.elevation(cycles).mean()) < 1e-10  # the mean level is that of the water at rest
    cnoidal = channel(sw.WaveMaker(sides="west", elevation=train))
    for seconds in (0.0, 3.0, 11.0):
        assert elevation_at(cnoidal, seconds) == pytest.approx(float(train.elevation(seconds / 8.0)), abs=1e-6)
    assert sw.CnoidalWave(0.1, 1.0, period=30.0).parameter == pytest.approx(1.0, abs=1e-9)


@pytest.mark.verify
def test_a_wave_comes_in_whole_and_leaves_at_the_other_side():
    wave, steps = sw.SolitaryWave(0.1, 1.0, peak=6.0), (150, 150)
    sides = (sw.WaveMaker(sides="west", elevation=wave, until=12.0), sw.WaveMaker(sides="east", elevation=0.0))
    model = channel(sides, momentum=sw.MomentumConserving(), wetting=sw.WettingDrying(1e-4), dtype="float64")
    simulation = sw.Simulation(model, model.at_rest(), sw.ForwardBackwardHancock(0.1))
    volume = 2 * 0.1 / np.sqrt(0.075)
    for count, expected in zip(steps, (volume, 0.0)):
        simulation.run(steps=count)
        eta = np.asarray(simulation.state.eta)[0]
        assert eta.sum() == pytest.approx(expected, abs=0.03 * volume)
    assert np.abs(eta).max() < 0.04 * wave.height  # an error of first order in dx


@pytest.mark.parametrize(
    "side, cell, stepper",
    (
        pytest.param("west", (0, 0), sw.SSPRK3, marks=pytest.mark.verify),  # three stages take long to compile
        ("north", (-1, 0), sw.ForwardBackwardHancock),
    ),
)
def test_a_level_at_a_side_is_kept_when_the_reflected_wave_is_back(side, cell, stepper):
    shape = {"west": (20, 5), "north": (5, 20)}[side]
    grid = sw.CartesianGrid(*shape, (0.0, shape[0]), (0.0, shape[1]), periodic="y" if side == "west" else "x")
    level = lambda t: 0.05 * np.sin(2 * np.pi * t / 15.0)  # noqa: E731
    record = sw.Record(np.arange(0.0, 31.0, 0.5), level(np.arange(0.0, 31.0, 0.5)))
    maker = sw.WaveMaker(sides=side, elevation=record, total=True)
    options = dict(communicator="serial", momentum=sw.MomentumConserving(), least_thickness=0.0)
    model = sw.ShallowWater(grid, 1.0, boundaries=maker, **options)
    simulation = sw.Simulation(model, model.at_rest(), stepper(0.1))
    found = [float(simulation.run(steps=10).eta[cell]) - level(simulation.time) for _ in range(30)]
    assert np.abs(found).max() < 0.01  # half a cell later is 0.003; the wave takes 13 s to the wall and back


@pytest.mark.verify
@pytest.mark.parametrize("side, stepper", [("east", sw.SSPRK3), (("west", "north"), sw.ForwardBackwardHancock)])
def test_a_level_at_a_side_over_a_rough_bed_makes_no_current_that_stays(side, stepper):
    depth = np.random.default_rng(0).uniform(0.5, 6.0, (16, 16))
    grid = sw.CartesianGrid(16, 16, (0.0, 16.0), (0.0, 16.0))
    rises = sw.Record([0.0, 5.0, 10.0, 1e4], [0.0, 0.3, 0.0, 0.0])
    maker = sw.WaveMaker(sides=side, elevation=rises, total=True)
    model = sw.ShallowWater(
        grid, depth, communicator="serial", boundaries=maker, momentum=sw.MomentumConserving(), least_thickness=0.0
    )
    simulation, energies = sw.Simulation(model, model.at_rest(), stepper(0.04)), []
    for until in (10.0, 50.0, 100.0):
        state = simulation.run(until=until)
        u, v, eta = (np.asarray(state[name]) for name in ("u", "v", "eta"))
        energies.append(float(np.sum(depth * (u**2 + v**2) + model.gravity * eta**2)))
    assert energies == sorted(energies, reverse=True), energies


def test_records_that_end_too_soon_or_begin_too_late_are_refused():
    for times, until, why in (
        (TIMES, None, "ends at 11.5 s.*needs it until 20 s"),
        (TIMES + 1.0, 12.0, "begins at 1 s"),
    ):
        model = channel(sw.WaveMaker(sides="west", elevation=sw.Record(times, 0.0 * times), until=until))
        with pytest.raises(ConfigError, match=why):
            sw.Simulation(model, model.at_rest(), sw.SSPRK3(0.1)).run(until=20.0)
        with pytest.raises(ConfigError, match=why):
            model.dynamics(sw.SSPRK3(0.1), steps=200)
    channel(sw.WaveMaker(sides="west", elevation=sw.Record(TIMES, TIMES), until=11.0)).check_records(20.0)


def test_what_is_no_wave_is_refused():
    for make, why in (
        (lambda: sw.Record([0.0, 2.0, 1.0], [0.0, 0.0, 0.0]), "do not increase after 2 s"),
        (lambda: sw.Record([0.0, 1.0], [0.0, np.nan]), "not finite"),
        (lambda: sw.Record([0.0, 1.0], [0.0]), "two or more"),
        (lambda: sw.CnoidalWave(0.5, 1.0, period=1.0), "no wave of height 0.5 m and period 1 s"),
        (lambda: sw.SolitaryWave(-0.1, 1.0, peak=0.0), "height"),
        (lambda: channel(sw.WaveMaker(sides="west"), linear=True), r"use Flather\(incoming="),
        (lambda: sw.WaveMaker(sides="west", velocity=0.1, total=True), "leave out velocity"),
    ):
        with pytest.raises((ConfigError, ValueError), match=why):
            make()


@pytest.mark.parametrize(
    "entry, expected",
    [
        ('{file = "wave.csv"}', 0.25),
        ('{file = "two.csv", variable = "eta_m", time = "time_s"}', 0.25),
        ('{file = "wave.nc"}', 0.25),
        ('{wave = "solitary", height = "20 cm", depth = 1, peak = 2.5}', 0.2),
        ('{wave = "cnoidal", height = 0.1, depth = 1, period = 5}', float(TRAIN.elevation(0.5))),
        ("0.3", 0.3),
        ('{file = "short.csv"}', "ends at 4 s, and the run needs it until 10 s; give a longer record"),
        ('{file = "two.csv"}', "has 2 series, "),
        ('{file = "wave.csv", variable = "eta"}', "has no 'eta'"),
        ('{wave = "cnoidal", height = 0.5, depth = 1, period = 1}', "no wave of height 0.5 m"),
        ('{wave = "solitary", height = 0.5, depth = 1}', "peak"),
        ('{file = "nothing.csv"}', "lacks two columns with names"),
    ],
)
def test_experiment_files_name_records_and_waves(tmp_path, entry, expected):
    for name, times in (("wave", TIMES), ("short", TIMES[:9])):
        rows = np.stack([times, 0.1 * times], 1)
        np.savetxt(tmp_path / f"{name}.csv", rows, delimiter=",", header="time_s,eta_m", comments="")
    rows = np.stack([0 * TIMES, 0.1 * TIMES, TIMES], 1)
    np.savetxt(tmp_path / "two.csv", rows, delimiter=",", header="a,eta_m,time_s", comments="")
    (tmp_path / "nothing.csv").touch()
    xr.Dataset({"eta": ("time", 0.1 * TIMES)}, {"time": ("time", TIMES, {"units": "s"})}).to_netcdf(
        tmp_path / "wave.nc"
    )
    draft = read_text(EXPERIMENT + f"elevation = {entry}\n", "run.toml", tmp_path)
    made = assemble(draft)
    if isinstance(expected, float):
        assert elevation_at(model_of(made, "serial"), 2.5) == pytest.approx(expected, rel=1e-5)
    else:
        (said,) = made.sentences()
        assert expected in said


@pytest.mark.parametrize(
    "wave, said",
    [
        ('"solitary", height = 6, depth = 5', "a wave of 6 m breaks in water of 5 m; give a height of 4.17 m or less"),
        ('"sech", height = 0.1, depth = 1', "elevation.wave: 'sech' is unknown; known are cnoidal, solitary"),
        ('"cnoidal", height = 0.1, depth = 1', "elevation.peak: unknown key"),
    ],
)
def test_what_breaks_or_is_no_wave_is_refused_with_its_place(wave, said):
    text = EXPERIMENT + f"elevation = {{wave = {wave}, peak = 5}}\n"
    first, *_ = assemble(read_text(text, "run.toml", ".")).sentences()
    assert "boundary[0].elevation" in first and said in first


def test_dates_of_a_series_count_from_the_start_of_the_run(tmp_path):
    """The level rises by 0.1 m an hour, from 0 at the first of March; the run starts three hours later."""
    text = (
        EXPERIMENT.replace("until = 10", "start = 2024-03-01T03:00:00Z, until = 10") + 'elevation = {file = "wave.nc"}'
    )
    hours, level = [0.0, 12.0, 24.0], [0.0, 1.2, 2.4]
    for units, times in (("hours since 2024-03-01", hours), ("hours since 2024-02-29", [24.0 + t for t in hours])):
        series = xr.Dataset({"eta": ("time", level)}, {"time": ("time", times, {"units": units})})
        series.to_netcdf(tmp_path / "wave.nc")
        model = model_of(assemble(read_text(text, "run.toml", tmp_path)), "serial")
        assert elevation_at(model, 0.0) == pytest.approx(0.3, rel=1e-5)
    for units, more, said in (
        ("hours since 2024-03-02", {}, "begins at 75600 s; let it begin at 0 or before"),
        ("hours since 2024-02-29", {"calendar": "noleap"}, "are in the calendar noleap"),
        ("hours", {}, "have units 'hours'"),
    ):
        series = xr.Dataset({"eta": ("time", level)}, {"time": ("time", hours, {"units": units, **more})})
        series.to_netcdf(tmp_path / "wave.nc")
        assert said in assemble(read_text(text, "run.toml", tmp_path)).sentences()[0]
    one = xr.Dataset({"eta": ("time", [0.1])}, {"time": ("time", [0.0], {"units": "s"})})
    one.to_netcdf(tmp_path / "wave.nc")
    assert "two or more" in assemble(read_text(text, "run.toml", tmp_path)).sentences()[0]


@pytest.mark.parametrize(
    "header, said",
    [
        ("time_h,elevation_m", "column time_h is in h; convert it to seconds"),
        ("time_s,eta_cm", "column eta_cm is in cm; convert it to SI units"),
        ("Time_Hours,elevation_m", "column Time_Hours is in hours; convert it to seconds"),
        ("time [h],elevation [m]", "column time [h] is in h; convert it to seconds"),
        ("hours,elevation_m", "column hours is in hours; convert it to seconds"),
        ("Minutes since start,elevation_m", "column Minutes since start is in minutes; convert it to seconds"),
        ("days since 2024-02-29,elevation_m", "column days since 2024-02-29 is in days; convert it to seconds"),
        ("time(s),eta(mm)", "column eta(mm) is in mm; convert it to SI units"),
        ("time_s,discharge_cfs", "column discharge_cfs is in cfs; convert it to SI units"),
        ("time_s,discharge [ft3/s]", "column discharge [ft3/s] is in ft; convert it to SI units"),
        ("time_s,q_l_s", "column q_l_s is in l; convert it to SI units"),
        ("time_s,q [ML/d]", "column q [ML/d] is in ml; convert it to SI units"),
        ("time_s,rate_mm_h", "column rate_mm_h is in mm; convert it to SI units"),
        ("time_s,q_m3_day", "column q_m3_day is in day; convert it to SI units"),
        ("-1,0.5", "its first line must name them"),
        ("time,cm", None),
        ("time (s),eta [m]", None),
    ],
)
def test_a_column_whose_name_has_other_units_is_refused(header, said, tmp_path):
    np.savetxt(tmp_path / "wave.csv", np.stack([TIMES, 0.1 * TIMES], 1), delimiter=",", header=header, comments="")
    text = EXPERIMENT + 'elevation = {file = "wave.csv"}\n'
    sentences = assemble(read_text(text, "run.toml", tmp_path)).sentences()
    assert not sentences if said is None else said in sentences[0]


@pytest.mark.parametrize(
    "entry, level, said",
    [
        ("type = 'flather'\nsides = 'west'\nelevation", -9999.0, "-9999 m at 5 s, which is less than -100"),
        ("type = 'flather'\nsides = 'west'\nvelocity", 99.0, "99 m s-1 at 5 s, which is greater than 50"),
    ],
)
def test_values_of_a_record_keep_the_limits_of_their_parameter(entry, level, said, tmp_path):
    (tmp_path / "record.csv").write_text(f"time_s,value\n0,0\n5,{level}\n20,0\n")
    text = EXPERIMENT.partition("[[boundary]]")[0] + f"[[boundary]]\n{entry} = {{file = 'record.csv'}}\n"
    assert said in assemble(read_text(text, "run.toml", tmp_path)).sentences()[0]
    record = sw.Record([0.0, 5.0, 20.0], [0.0, level, 0.0])
    with pytest.raises(ConfigError, match=said):
        channel(sw.Flather(sides="west", **{entry.rpartition("\n")[2]: record}))


def test_fields_in_time_keep_the_limits_of_their_parameter():
    rates = Records(np.array([0.0, 60.0]), np.stack([np.full(GRID.shape, 1e-3), np.full(GRID.shape, -1e-3)]))
    with pytest.raises(ConfigError, match="LinearDrag: rate, somewhere, = -0.001 is negative"):
        channel((), dissipation=sw.LinearDrag(rates))


def test_a_series_in_other_units_is_refused(tmp_path):
    times = ("time", np.arange(0.0, 12.0, 0.5), {"units": "s"})
    for units, said in (("cm", "eta in .*wave.nc is in 'cm', and must be in 'm'"), ("metres", None)):
        xr.Dataset({"eta": ("time", 0.0 * TIMES, {"units": units})}, {"time": times}).to_netcdf(tmp_path / "wave.nc")
        sentences = assemble(
            read_text(EXPERIMENT + 'elevation = {file = "wave.nc"}\n', "run.toml", tmp_path)
        ).sentences()
        assert not sentences if said is None else re.search(said, sentences[0])


@pytest.mark.parametrize(
    "elevation, depth, said",
    [
        ('{wave = "solitary", height = 0.1, depth = 10, peak = 5}', "1", "depth = 10 m, and the water along the west"),
        (
            '{wave = "solitary", height = 0.1, depth = 1.5, peak = 5}',
            "1",
            "depth = 1.5 m, and the water along the west",
        ),
        (
            '{wave = "solitary", height = 0.1, depth = 0.8, peak = 5}',
            "1",
            "depth = 0.8 m, and the water along the west",
        ),
        ('{wave = "solitary", height = 0.1, depth = 1, peak = 5}', "1", None),
        ('{wave = "cnoidal", height = 0.1, depth = 2, period = 8}', "1 + 0.2 * y", None),
        ('{file = "low.csv"}', "1", "falls to -1.2 m, below the bed"),
        ('{file = "low.csv"}', "1.5", None),
        ("0.1", "x - 5", "every cell along the west side is dry at rest"),
    ],
)
def test_check_warns_of_waves_that_do_not_fit_the_depth_of_their_side(elevation, depth, said, tmp_path, command):
    (tmp_path / "low.csv").write_text("t,eta\n0,0\n5,-1.2\n20,0\n")
    text = EXPERIMENT.replace('{type = "flat", depth = 1}', f'{{type = "formula", depth = "{depth}"}}')
    model = 'model = {momentum = "momentum_conserving", wetting = {}}'
    (tmp_path / "case.toml").write_text(f"{model}\n{text}elevation = {elevation}\n")
    out, _ = command.ok("check", tmp_path / "case.toml")
    assert out.count("boundary[0]") == (said is not None) and (said or "no mistakes found") in out


def test_check_warns_of_such_waves_where_it_looks_at_some_tiles_of_a_large_grid(tmp_path, command, monkeypatch):
    monkeypatch.setattr("swmodel.config.sections.LARGEST_WHOLE_GRID", 1)
    elevation = '{wave = "solitary", height = 0.1, depth = 10, peak = 5}'
    model = 'model = {momentum = "momentum_conserving", wetting = {}}'
    (tmp_path / "case.toml").write_text(f"{model}\n{EXPERIMENT}elevation = {elevation}\n")
    status, out, err = command("check", tmp_path / "case.toml")
    assert status == 0 and "tiles were examined" in out and "depth = 10 m, and the water along the west" in out, (
        out + err
    )
