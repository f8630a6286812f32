"""Parameters from the records of netCDF files: the values, the memory and the bytes, and what is refused."""

import datetime
import itertools
import threading
from types import SimpleNamespace

import netCDF4
import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel import adjoint
from swmodel.adjoint import HarmonicConstants, HarmonicMisfit
from swmodel.cli.checks import check_experiment
from swmodel.cli.facts import _gaps
from swmodel.errors import ConfigError, DataError
from swmodel.fields.parameters import Number
from swmodel.forcing.file_records import StressRecords
from swmodel.grids.regrid import read_field_onto
from swmodel.grids.remapping import Remapping
from swmodel.observed.series_files import read_series
from swmodel.parallel import OneTileCommunicator
from swmodel.postprocess.files import open_output, seconds, stamp, start_of
from tests.gridded import write_axes
from tests.selection import later, now
from tests.unit.test_tiles import peak_of

START = datetime.datetime(2008, 9, 10, 0, 30)
LATER = START + datetime.timedelta(hours=1)
CONSTANTS = {"here": HarmonicConstants((0.0, 0.0), {"M2": (0.5, 30.0)})}
HOUR, DT = 3600.0, 600.0
GRID = sw.SphericalGrid(13, 11, (-20.0, 19.0), (-10.0, 23.0))
LON, LAT = np.arange(0.0, 360.0, 5.0), np.arange(90.0, -91.0, -5.0)
UNITS = {"u10": "m s**-1", "v10": "m/s", "msl": "Pa"}


COST = adjoint.FinalState(lambda state, equations: (state.eta * state.eta + state.u).sum())


def weather(hours=7):
    """{name: (hours, lat, lon)} of winds and pressures, random on nodes 5 degrees apart."""
    random = np.random.default_rng(0)
    shape = hours, LAT.size, LON.size
    offsets = {"u10": 5.0, "v10": 0.0, "msl": 101000.0}
    return {name: (x + 5.0 * random.standard_normal(shape)).astype("f4") for name, x in offsets.items()}


def written(path, fields, lon=LON, lat=LAT, units=UNITS, calendar="standard", since="2008-09-10"):
    with netCDF4.Dataset(path, "w") as file:
        hours = len(next(iter(fields.values())))
        time = f"hours since {since}", np.arange(float(hours))
        write_axes(file, {"time": time, "lat": ("degrees_north", lat), "lon": ("degrees_east", lon)})
        file["time"].calendar = calendar
        for name, values in fields.items():
            variable = file.createVariable(name, "f4", ("time", "lat", "lon"), fill_value=-1e30)
            variable[:] = np.nan_to_num(values, nan=-1e30)
            if name in units:
                variable.units = units[name]
    return path


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return written(tmp_path_factory.mktemp("weather") / "weather.nc", weather())


def records(path, name, start=START, **options):
    return sw.FileRecords(path, name, start, **options)


def ocean(path, communicator="serial", get=records, engine="arrays"):
    depth = np.where(np.random.default_rng(1).random(GRID.shape) < 0.1, 0.0, 3000.0)
    forcing = sw.Wind(get(path, "u10"), get(path, "v10")), sw.AirPressure(get(path, "msl"))
    return sw.ShallowWater(GRID, depth, forcing=forcing, communicator=communicator, engine=engine)


def resident(path, name):
    """The same records in memory."""
    found = records(path, name).records(GRID, "h", UNITS[name].replace("**", "").replace("m/s", "m s-1"))
    return sw.Records(found.times, np.asarray(found.values))


def simulation(model):
    return sw.Simulation(model, model.at_rest(), sw.ForwardBackward(DT), start=START)


def fields(state):
    return {name: np.asarray(state[name]) for name in ("u", "v", "eta")}


def assert_equal(one, other):
    for name, values in fields(one).items():
        np.testing.assert_array_equal(values, fields(other)[name])
    assert np.abs(fields(one)["u"]).max() > 1e-4


@pytest.fixture(scope="module")
def final(file):
    """The state after five hours with all records in memory."""
    return simulation(ocean(file, get=resident)).run(until=5 * HOUR)


def test_records_of_a_file_are_read_once_a_record_ahead_by_a_thread_and_give_the_bits_of_resident_ones(
    file, final, monkeypatch
):
    original, reads = Remapping.read, []

    def read(self, field, rows=None):
        reads.append((field.name, threading.current_thread().name.startswith("records")))
        return original(self, field, rows)

    monkeypatch.setattr(Remapping, "read", read)
    assert_equal(simulation(ocean(file)).run(until=5 * HOUR), final)
    for name in UNITS:
        of_thread = [ahead for variable, ahead in reads if variable == name]
        assert sum(not ahead for ahead in of_thread) == 2 and len(of_thread) == 7, (name, of_thread)


def test_a_chunk_of_steps_ends_at_a_record_and_no_program_is_compiled_for_another(file):
    steps, run = [], simulation(ocean(file))
    run.run(until=5 * HOUR, progress=lambda step, *_: steps.append(step))
    assert {3, 9, 15, 21, 27} <= set(steps) and len(steps) <= 8  # records every 6 steps, the first one after 3


def test_a_run_goes_on_from_a_restart_between_two_records_with_the_same_bits(file, final, tmp_path):
    first = simulation(ocean(file)).restart(tmp_path / "restart.nc")
    first.run(steps=13)
    second = simulation(ocean(file))
    second.resume(tmp_path / "restart.nc")
    assert_equal(second.run(until=5 * HOUR), final)


CONVENTIONS = list(itertools.product((0.0, -180.0, 100.0), (1, -1)))


@pytest.mark.parametrize("start, order", now(CONVENTIONS, (-180.0, 1), (100.0, -1)))
def test_longitudes_and_latitudes_of_any_convention_give_the_same_bits(tmp_path, file, start, order):
    by_lon = np.argsort((LON - start) % 360.0)
    moved = {name: x[:, ::order][:, :, by_lon] for name, x in weather(2).items()}
    path = written(tmp_path / "file.nc", moved, start + (LON[by_lon] - start) % 360.0, LAT[::order])
    for position in "huv":
        found, wanted = (records(p, "u10").records(GRID, position).values[1] for p in (path, file))
        np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))


@pytest.mark.parametrize(("calendar", "days"), [("noleap", 1.0), ("360_day", 3.0), ("standard", 2.0)])
def test_dates_are_counted_in_the_calendar_of_the_file(tmp_path, calendar, days):
    path = written(tmp_path / "file.nc", weather(2), calendar=calendar, since="2008-02-28")
    found = records(path, "u10", datetime.datetime(2008, 3, 1)).records(GRID, "h")
    assert found.times[0] == -24 * days * HOUR and found.calendar == calendar


@pytest.mark.verify
def test_gradients_with_records_of_a_file_are_those_with_resident_ones(file):
    def value_and_gradient(get):
        model = ocean(file, get=get)
        problem = adjoint.Problem(model, sw.ForwardBackward(DT), model.at_rest(), 12, COST, ["depth", "forcing.0.x"])
        return problem.value_and_gradient()

    (J, one), (K, other) = value_and_gradient(records), value_and_gradient(resident)
    assert J == K != 0.0
    np.testing.assert_array_equal(one["depth"], other["depth"])
    for k, record in other["forcing.0.x"].items():
        np.testing.assert_array_equal(one["forcing.0.x"][k], record)


# -- memory and bytes --------------------------------------------------------------------------------------------------


def many_records(path, hours):
    """Winds of 5 m/s in records that no chunk of the file holds."""
    with netCDF4.Dataset(path, "w") as file:
        lat, lon = ("degrees_north", np.arange(-90.0, 91.0)), ("degrees_east", np.arange(-180.0, 180.0))
        write_axes(file, {"time": ("hours since 2008-09-10", np.arange(float(hours))), "lat": lat, "lon": lon})
        for name in ("u10", "v10"):
            wind = file.createVariable(name, "i2", ("time", "lat", "lon"), chunksizes=(1, 181, 360))
            wind.units, wind.scale_factor, wind.add_offset = "m s-1", 0.001, 37.767
    return path


def test_the_memory_of_a_rank_grows_neither_with_the_number_of_records_nor_with_the_tiles_of_others(
    tmp_path, monkeypatch
):
    """A rank of 10,000 on a grid of 3 arc-minutes, two hours with 24 and with 24,000 records."""
    grid, layout = sw.SphericalGrid(7200, 3600, (-180.0, 180.0), (-85.0, 85.0)), (100, 100)
    cells, original, read = 72 * 36, Remapping.read, []

    def counted(self, field, rows=None):
        values = original(self, field, rows)
        read.append(values.nbytes)
        return values

    monkeypatch.setattr(Remapping, "read", counted)

    def winds(path, many):
        """The Windows of a rank as a run asks for them."""
        wind = sw.Wind(records(path, "u10"), records(path, "v10"))
        communicator = OneTileCommunicator(layout, 4321)
        model = sw.ShallowWater(grid, 1000.0, forcing=(wind,), communicator=communicator, engine="arrays")
        found = [model.interval(2, step, DT).terms[0].x.at(float(step)) for step in range(13)]
        assert all(float(x[0, 0]) == pytest.approx(5.0, abs=1e-6) for x in found)

    found = {}
    winds(many_records(tmp_path / "first.nc", 4), 4)  # what is compiled and imported once
    for hours in (24, 24_000):
        path, before = many_records(tmp_path / f"{hours}.nc", hours), len(read)
        _, peak = peak_of(lambda path=path, hours=hours: winds(path, hours))
        found[hours] = peak, sum(read[before:]), len(read) - before
    (few, bytes_few, count), (many, bytes_many, count_many) = found.values()
    assert bytes_few == bytes_many and count == count_many == 2 * 4  # u10 and v10 of 4 records
    assert bytes_many < 8 * cells, bytes_many
    assert many - few < 16 * 8 * 24_000 + 8 * cells, (few, many)  # times alone, several copies of them
    assert few < 60 * 8 * cells + 1e6, few


# -- bad input ---------------------------------------------------------------------------------------------------------

TEXT = """\
run = {start = 2008-09-10T00:30:00Z, until = "5 h", engine = "arrays"}
grid = {type = "spherical", nx = 13, ny = 11, longitude = [-20, 19], latitude = [-10, 23]}
bathymetry = {type = "flat", depth = 1000}
stepper = {type = "forward_backward", dt = 300}
forcing = [
    {type = "wind", x = {file = "weather.nc", variable = "u10"}, y = {file = "weather.nc", variable = "v10"}},
    {type = "air_pressure", pressure = {file = "weather.nc", variable = "msl"}},
]
"""


def hole(fields):
    """Without values over 15 x 15 degrees of the sea."""
    fields["msl"][:, 16:20, :4] = np.nan
    return fields


BAD = {
    "the run ends later": ({}, {"until": '"9 h"'}, "end 3.5 h before the run does; shorten the run"),
    "the run begins earlier": ({}, {"start": "2008-09-09T23:00:00Z"}, "begin 1 h after the run; start the run later"),
    "pressure declared in hPa": ({"units": UNITS | {"msl": "hPa"}}, {}, "is in 'hPa', and must be in 'Pa'"),
    "pressure in hPa": ({"change": lambda x: x | {"msl": x["msl"] / 100}}, {}, "look like hPa; give Pa"),
    "a wind of 900 m/s": (
        {"change": lambda x: x | {"u10": 0 * x["u10"] + 900.0}},
        {},
        "u10 in .* a value of 900 m s-1",
    ),
    "a factor": ({"units": UNITS | {"u10": "0.1 m s-1"}}, {}, "is in '0.1 m s-1', and must be in 'm s-1'"),
    "another factor": ({"units": UNITS | {"msl": "Pa*10"}}, {}, "is in 'Pa\\*10', and must be in 'Pa'"),
    "no units": ({"units": {"u10": "m/s", "v10": "m/s"}}, {}, "msl in .* has no units; state them by `units`"),
    "knots": ({"units": UNITS | {"u10": "knots"}}, {}, "is in 'knots', and must be in 'm s-1'"),
    "missing values in the sea": ({"change": hole}, {}, "has no value at .* points of the sea, .* near"),
    "a day that is not": ({"calendar": "360_day"}, {"start": "2008-12-31T00:00:00Z"}, "31 December 2008, a day that"),
}


@pytest.mark.parametrize("name", [later(name) if name in ("a factor", "knots") else name for name in BAD])
def test_mistakes_of_a_file_are_refused_by_check(tmp_path, name):
    options, run, said = BAD[name]
    change = options.pop("change", dict) if "change" in options else dict
    written(tmp_path / "weather.nc", change(weather()), **options)
    text = TEXT
    for key, value in run.items():
        old = {"until": '"5 h"', "start": "2008-09-10T00:30:00Z"}[key]
        text = text.replace(f"{key} = {old}", f"{key} = {value}")
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(ConfigError, match=said):
        check_experiment(str(tmp_path / "bad.toml"), [], 1)


def test_dates_of_grids_of_a_family_are_those_of_one_step_0(tmp_path, file):
    """Those of a nest had been compared with one another alone, and its files had a date that the others had not."""
    other = written(tmp_path / "other.nc", weather(), since="2008-09-09")

    def simulation(outer, inner, start=None):
        nest = sw.Nest("bay", x=(-8.0, 7.0), y=(-1.0, 14.0), options={"forcing": inner})
        family = sw.Family(GRID, 3000.0, [nest], forcing=outer, engine="arrays")
        return sw.NestedSimulation(family, family.states(), sw.AB2(dt=10.0), start=start)

    of_file, of_other = (sw.Wind(records(path, "u10", None)) for path in (file, other))
    dated = sw.Wind(records(file, "u10"))
    with pytest.raises(ConfigError, match="forcing.0.x counts .* and forcing.0.x in the nest 'bay' from 2008-09-09"):
        simulation(of_file, of_other)
    with pytest.raises(ConfigError, match="counts from its first record on 2008-09-10 00:00:00, and the run from 2008"):
        simulation(of_file, dated)
    with pytest.raises(ConfigError, match=r"in the nest 'bay'.* counts? from 2008-09-10 00:30:00"):
        simulation(sw.Wind(records(file, "u10", START + datetime.timedelta(hours=1))), dated)
    run = simulation((), dated)
    assert [run[name].start for name in run.family.names] == [START, START]


def test_files_without_a_start_whose_first_dates_differ_are_refused(tmp_path, file):
    """Each would count from its own first record, so that winds of one day met pressures of another in silence."""
    other = written(tmp_path / "other.nc", weather(), since="2008-09-09")
    (tmp_path / "level.csv").write_text("time,eta_m\n2008-09-12T00:00,0\n2008-09-13T00:00,0.1\n")

    def model(path, start=None, of_pressure=None, **more):
        pressure = sw.AirPressure(records(path, "msl", of_pressure))
        return sw.ShallowWater(GRID, 100.0, forcing=(sw.Wind(records(file, "u10", start)), pressure), **more)

    assert model(file).start is None and model(other, START, START).start == START
    model(written(tmp_path / "steady.nc", weather(1), since="2008-09-08"))  # a single record has no time
    with pytest.raises(ConfigError, match="forcing.0.x counts from its first record on 2008-09-10 00:00:00, and forc"):
        model(other)
    with pytest.raises(ConfigError, match="forcing.1.pressure counts .* on 2008-09-09 00:00:00, and another part of"):
        model(other, START)
    level = read_series(tmp_path / "level.csv", None, None, None)
    with pytest.raises(ConfigError, match="and boundary.0.elevation from 2008-09-12 00:00:00, since no start is given"):
        model(file, boundaries=sw.Clamped("west", level))
    tide = sw.Tide({"M2": (0.5, 30.0)}, anomaly=level)
    with pytest.raises(ConfigError, match="and boundary.0.elevation from 2008-09-12 00:00:00, since no start is given"):
        model(file, boundaries=sw.Clamped("west", tide))
    outside = read_field_onto(other, "u10", GRID)
    with pytest.raises(ConfigError, match="and tracer.0.outside from 2008-09-09 00:00:00, since no start is given"):
        model(file, tracers=sw.Tracer("dye", outside=outside))
    one = model(file)
    with pytest.raises(ConfigError, match="counts from its first record on 2008-09-10 00:00:00, and the run from 2008"):
        sw.Simulation(one, one.at_rest(), sw.RK4(dt=1.0), start=START + datetime.timedelta(days=1))
    patch = records(other, "msl", None)
    with pytest.raises(DataError, match="the records of patches begin at another date, and times count from the first"):
        records(file, "msl", None, patches=(patch,)).records(GRID, "h", "Pa")


def test_another_date_than_that_of_the_files_is_refused(file):
    model = ocean(file)
    for who, refused in (
        ("Simulation", lambda: sw.Simulation(model, model.at_rest(), sw.ForwardBackward(DT), start=LATER)),
        ("HarmonicMisfit", lambda: HarmonicMisfit(CONSTANTS, start=LATER).on_tile(model, DT, 0, 100)),
    ):
        with pytest.raises(
            ConfigError, match=f"{who}: start = .* and the records of forcing.0.x count from 2008-09-10"
        ):
            refused()


@pytest.mark.parametrize("calendar", ["noleap", "360_day", "proleptic_gregorian"])
def test_dates_of_tides_tracks_and_phase_lags_are_gregorian(tmp_path, calendar):
    wind = sw.Wind(records(written(tmp_path / "wind.nc", weather(), calendar=calendar), "u10"))
    tide, track = {"M2": (0.5, 30.0)}, ((0.0, 1e5), (0.0, 1.0), (0.0, 1.0), 95000.0, 1e5)
    with_parts = lambda **parts: sw.ShallowWater(GRID, 100.0, **{"forcing": wind} | parts)  # noqa: E731
    model = with_parts()
    simulation = sw.Simulation(model, model.at_rest(), sw.ForwardBackward(dt=DT), start=START)
    for who, make in (
        ("the tide of boundary.0.elevation", lambda: with_parts(boundaries=sw.Flather("west", sw.Tide(tide, START)))),
        ("the tide of forcing.1", lambda: with_parts(forcing=(wind, sw.TidalPotential(("M2",), START)))),
        ("the track of forcing.1", lambda: with_parts(forcing=(wind, sw.Cyclone(*track, start=START)))),
        ("the harmonic analysis", lambda: simulation.harmonics(tmp_path / "tides.nc", ("M2",))),
        ("the misfit of harmonic constants", lambda: HarmonicMisfit(CONSTANTS).on_tile(model, DT, 0, 90)),
    ):
        if calendar == "proleptic_gregorian":
            make()
            continue
        with pytest.raises(ConfigError, match=f"{calendar} .*, and {who} has dates of the Gregorian one") as caught:
            make()
        assert caught.value.part == "forcing.0.x"


@pytest.mark.parametrize(("calendar", "day"), [("noleap", 1), ("360_day", 29), ("proleptic_gregorian", 29)])
def test_files_of_a_run_have_the_calendar_of_its_forcing(tmp_path, calendar, day):
    """xarray decoded Gregorian dates, which are a day or more off from 29 February on."""
    start = datetime.datetime(2008, 2, 28, 12)
    path = written(tmp_path / "wind.nc", weather(14), calendar=calendar, since="2008-02-28 12:00:00")
    model = sw.ShallowWater(GRID, 100.0, forcing=sw.Wind(records(path, "u10", start)))
    run = sw.Simulation(model, model.at_rest(), sw.ForwardBackward(DT), start=start)
    run.write(tmp_path / "a.nc", ("eta",), every=12 * HOUR).write(tmp_path / "a.zarr", ("eta",), every=12 * HOUR)
    run.gauges(tmp_path / "gauges.nc", {"a": (5.0, 15.0)}, every=12 * HOUR).maxima(tmp_path / "maxima.nc")
    run.drifters(tmp_path / "drifters.nc", 12 * HOUR, [(5.0, 15.0)])
    run.run(until=12 * HOUR)
    for name in ("a.nc", "a.zarr", "gauges.nc", "maxima.nc", "drifters.nc"):
        with (xr.open_zarr if name == "a.zarr" else xr.open_dataset)(tmp_path / name) as found:
            last = found["time"].values.reshape(-1)[-1]
        month = 3 if calendar == "noleap" else 2
        assert str(last)[:13].replace("T", " ") == f"2008-{month:02d}-{day:02d} 00", name
        with open_output(tmp_path / name) as found:
            assert found["time"].values.reshape(-1)[-1] == 12 * HOUR
            later = {"noleap": "03-05", "360_day": "03-03"}.get(calendar, "03-04")
            assert stamp(5 * 86400.0, start_of(found)) == f"day 5 (2008-{later})"
        with (xr.open_zarr if name == "a.zarr" else xr.open_dataset)(tmp_path / name) as found:
            assert seconds(found)[-1] == 12 * HOUR and str(start_of(found)) == "2008-02-28 12:00:00"


def test_grids_of_a_family_and_members_have_one_calendar(file, tmp_path):
    outer, inner = (
        sw.Wind(records(path, "u10")) for path in (file, written(tmp_path / "noleap.nc", weather(), calendar="noleap"))
    )
    nest = sw.Nest("bay", x=(-8.0, 7.0), y=(-1.0, 14.0), options={"forcing": inner})
    family = sw.Family(GRID, 100.0, [nest])
    nested = sw.NestedSimulation(family, family.states(), sw.ForwardBackward(DT), start=START)
    assert [nested[name].start.calendar for name in ("", "bay")] == ["noleap", "noleap"]
    family = sw.Family(GRID, 100.0, [nest], forcing=outer)
    with pytest.raises(ConfigError, match="are in different calendars, standard .* and noleap"):
        sw.NestedSimulation(family, family.states(), sw.ForwardBackward(DT), start=START)
    models = [sw.ShallowWater(GRID, depth, forcing=inner) for depth in (100.0, 110.0)]
    ensemble = sw.Ensemble(models, [model.at_rest() for model in models])
    run = sw.Simulation(ensemble, ensemble.initial, sw.ForwardBackward(DT), start=START)
    assert run.start.calendar == "noleap"


def test_a_hole_on_land_is_none_and_what_is_missing_nearby_is_left_out_of_the_mean(tmp_path):
    fields = {"msl": np.full((2, LAT.size, LON.size), 1e5, "f4")}
    fields["msl"][:, 16, 1] = np.nan  # 10 N, 5 E
    path = written(tmp_path / "file.nc", fields)
    model = sw.ShallowWater(
        GRID, 100.0, forcing=(sw.AirPressure(records(path, "msl")),), dtype="float32", communicator="serial"
    )
    np.testing.assert_array_equal(np.asarray(model.interval(2, 0, DT).terms[0].pressure.first), 1e5)
    path = written(tmp_path / "hole.nc", hole({"msl": np.full((2, LAT.size, LON.size), 1e5, "f4")}))
    pressure = sw.AirPressure(records(path, "msl"))
    with pytest.raises(DataError, match="has no value at 25 points of the sea"):
        sw.ShallowWater(GRID, 100.0, forcing=(pressure,), communicator="serial").interval(2, 0, DT)

    def land(x, y):
        return np.where((x > -1) & (x < 16) & (y > -6) & (y < 11), 0.0, 100.0)

    model = sw.ShallowWater(GRID, land, forcing=(pressure,), communicator="serial")
    assert np.isfinite(np.asarray(model.interval(2, 0, DT).terms[0].pressure.first)).all()
    nearest = sw.AirPressure(records(path, "msl", missing="nearest"))
    model = sw.ShallowWater(GRID, 100.0, forcing=(nearest,), dtype="float32", communicator="serial")
    np.testing.assert_array_equal(np.asarray(model.interval(2, 0, DT).terms[0].pressure.first), 1e5)


def test_the_stress_of_a_file_of_winds_is_that_of_the_law_at_its_points(file):
    u, v = (np.asarray(records(file, name).records(GRID, "u").values[3]) for name in ("u10", "v10"))
    found = StressRecords(file, "u10", START, other="v10", drag="garratt", air_density=1.2).records(GRID, "u").values[3]
    speed = np.hypot(u, v)
    wanted = 1.2 * np.minimum(0.75e-3 + 0.067e-3 * speed, 3.5e-3) * speed * u
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-12)


# -- several files -----------------------------------------------------------------------------------------------------


def parts(folder, file, pieces):
    """The records of a file in several files, of which the dates count from different hours."""
    xr = pytest.importorskip("xarray")
    with xr.open_dataset(file) as whole:
        for k, hours in enumerate(pieces):
            origin = {"time": {"units": f"hours since 2008-09-10 {k:02d}:00:00", "calendar": "standard"}}
            whole.isel(time=hours).to_netcdf(folder / f"part_{k}.nc", encoding=origin)
    return [folder / f"part_{k}.nc" for k in range(len(pieces))]


def test_a_gap_between_files_is_remarked_and_a_single_record_of_another_year_refused(file, tmp_path):
    first, third, alone = parts(tmp_path, file, (slice(0, 3), slice(5, 7), slice(2, 3)))
    side = sw.Clamped("west", elevation=sw.Record(600.0 * np.array([0, 1, 2, 3, 9, 10, 11]), np.zeros(7)))
    pressure = sw.AirPressure(records((first, third), "msl"))
    model = sw.ShallowWater(GRID, 3000.0, forcing=pressure, boundaries=side, communicator="serial", engine="arrays")
    run = SimpleNamespace(start=START, until=5 * HOUR)
    assert list(_gaps(run, model)) == [
        "forcing.0.pressure: its records are 1 h apart, and 3 h from 2008-09-10 02:00 to 2008-09-10 05:00, where a "
        "straight line bridges them; add the records or the file that is missing.",
        "boundary.0.elevation: its records are 10 min apart, and 1 h from 2008-09-10 01:00 to 2008-09-10 02:00, where "
        "a straight line bridges them; add the records or the file that is missing.",
    ]
    assert list(_gaps(SimpleNamespace(start=START, until=HOUR / 4), model)) == []  # the run ends before
    later = START + datetime.timedelta(days=366)
    with pytest.raises(DataError, match="the records of msl in .* are a single one, 365.9 days before the run; give"):
        sw.AirPressure(records(alone, "msl", later)).pressure.check(GRID, "p", Number("h", "Pa"), 5 * HOUR)
    records(alone, "msl").check(GRID, "p", Number("h", "Pa"), 5 * HOUR)  # a steady pressure of the day of the run


def test_files_of_consecutive_times_give_the_bits_of_one_file(file, final, tmp_path):
    first, second, third = parts(tmp_path, file, (slice(0, 3), slice(3, 4), slice(4, 7)))
    assert_equal(simulation(ocean((third, first, second))).run(until=5 * HOUR), final)
    one, all_of = records((first, second, third), "msl").records(GRID, "h", "Pa"), resident(file, "msl")
    np.testing.assert_array_equal(one.times, all_of.times)
    np.testing.assert_array_equal(np.asarray(one.values), all_of.values)


def test_the_ends_of_a_file_that_members_share_are_read_once(file, tmp_path, monkeypatch):
    """Its records are read for the first member alone; those of another file for their member, too."""
    original, reads = Remapping.read, []
    counted = lambda *arguments: reads.append(1) or original(*arguments)  # noqa: E731
    monkeypatch.setattr(Remapping, "read", counted)
    other = written(tmp_path / "other.nc", weather())
    for second, factor in ((file, 1), (other, 2)):
        models = [ocean(path) for path in (file, second)]
        ensemble = sw.Ensemble(models, [model.at_rest() for model in models])
        reads.clear()
        ensemble.check_files(5 * HOUR)
        assert len(reads) == factor * 2 * len(UNITS)


@pytest.mark.parametrize(
    "pieces, start, sentence",
    [
        ((slice(0, 4), slice(3, 7)), START, "part_0.nc ends at or after the first record of .*part_1.nc"),
        ((slice(0, 3), slice(3, 7)), None, "files are joined by the dates of their records, and no start is given"),
    ],
)
def test_files_that_do_not_follow_one_another_are_refused(file, tmp_path, pieces, start, sentence):
    with pytest.raises(DataError, match=sentence):
        records(tuple(parts(tmp_path, file, pieces)), "msl", start).records(GRID, "h", "Pa")


def test_files_of_two_calendars_are_refused_and_so_is_what_names_no_file(file, tmp_path):
    first, _ = parts(tmp_path, file, (slice(0, 3), slice(3, 7)))
    some = {name: values[:2] for name, values in weather().items()}
    other = written(tmp_path / "noleap.nc", some, calendar="noleap", since="2008-09-11")
    with pytest.raises(DataError, match="part_0.nc and .*noleap.nc are in different calendars"):
        records((first, other), "msl").records(GRID, "h", "Pa")
    for wrong in ((), (first, 3)):
        with pytest.raises(ConfigError, match="is not the name of a file"):
            records(wrong, "msl")


CASE = """\
run = {start = 2008-09-10T00:30:00Z, until = "5 hour"}
grid = {type = "spherical", nx = 13, ny = 11, longitude = [-20, 19], latitude = [-10, 23]}
bathymetry = {type = "flat", depth = "3 km"}
stepper = {type = "forward_backward", dt = 60}
[[forcing]]
type = "wind_file"
file = "part_*.nc"
units = "m s-1"
[[forcing]]
type = "air_pressure"
pressure = {file = ["part_1.nc", "part_0.nc"], variable = "msl"}
"""


def test_an_experiment_names_files_by_a_pattern_or_a_list(file, tmp_path, command):
    parts(tmp_path, file, (slice(0, 3), slice(3, 7)))
    path = tmp_path / "case.toml"
    path.write_text(CASE)
    command.ok("check", path)
    number = 1 + CASE.splitlines().index('file = "part_*.nc"')
    listed = '["part_1.nc", "part_0.nc"]'
    for change, sentence in (
        (('"part_*.nc"', '"none_*.nc"'), f"case.toml:{number}: forcing[0].file: no file is named like"),
        ((listed, '["part_1.nc", "part_2.nc"]'), "forcing[1].pressure.file: there is no file"),
        ((listed, '["part_1.nc"]'), "forcing[1]: pressure: the records of msl in"),
        ((listed, "[]"), "forcing[1].pressure.file: names no file"),
    ):
        assert change[0] in CASE
        path.write_text(CASE.replace(*change))
        assert sentence in command.refused("check", path)
