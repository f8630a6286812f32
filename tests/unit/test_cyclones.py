"""Cyclones are Holland's vortices along a track, in both engines; tracks are read, and what is wrong with them told."""

import datetime
import re
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.adjoint import FinalState, Problem, names_of
from swmodel.adjoint.controls.controls import controls_of
from swmodel.adjoint.verification import verify
from swmodel.cli.remarks import _winds_of_storm
from swmodel.config.assembly import assemble
from swmodel.config.experiment import read_text
from swmodel.config.physics import FORCING
from swmodel.dynamics.clock import Time
from swmodel.errors import ConfigError, DataError
from swmodel.forcing import tracks, wind_laws
from swmodel.forcing.wind_laws import drag_law
from swmodel.runtime.compilation import jit

TRACK = {"times": (0.0, 3600.0), "x": (2e5, 2.2e5), "y": (2e5, 2e5)}
TRACK |= {"central_pressure": (95000.0, 95000.0), "radius": (3e4, 3e4), "b": (1.5, 1.5)}
UNEVEN = [[1.4, 1.0, 0.5, 0.8], [1.2, 1.1, 0.7, 0.6]]  # radius in quadrants
ISOTACHS = {"asymmetry": [row + [1.3, 1.2, 0.9, 0.7] for row in UNEVEN]}
ISOTACHS["distances"] = [[1.5, 1.1, 1.0, 0.9, 2.5, 1.9, 2.0, 1.8]] * 2


def model_of(engine="arrays", **changes):
    grid = sw.CartesianGrid(20, 20, (0.0, 4e5), (0.0, 4e5))
    return sw.ShallowWater(grid, 50.0, forcing=(sw.Cyclone(**(TRACK | changes)),), engine=engine)


@jit
def _fields(dynamics, time):
    return [x.interior for x in dynamics.prepare().terms[0].fields(time)]


def fields(model, seconds):
    dynamics = model.interval(1, 0, 60.0)
    time = Time(0, jnp.asarray(seconds / 60.0), jnp.asarray(60.0), 60.0)
    return [np.asarray(x) for x in _fields(dynamics, time)]


def test_wind_and_pressure_are_hollands():
    model = model_of(translation=0.0, inflow=0.0, reduction=1.0)
    pressure, x, y = fields(model, 1800.0)
    east, north = (np.broadcast_to(c, (20, 20)) for c in model.grid.coordinates("h"))
    east, north = east - 2.1e5, north - 2e5
    r = np.hypot(np.hypot(east, north), 500.0)
    power, half = (3e4 / r) ** 1.5, 0.5 * r * 5e-5
    np.testing.assert_allclose(pressure, 95000.0 + 6300.0 * np.exp(-power), rtol=1e-9)
    speed = np.sqrt(1.5 * 6300.0 / 1.22 * power * np.exp(-power) + half**2) - half
    np.testing.assert_allclose(np.hypot(x, y), speed * np.hypot(east, north) / r, rtol=1e-4, atol=1e-3)
    assert (x[north > 0] < 0).all() and (y[east > 0] > 0).all()  # anticlockwise in the northern hemisphere


def test_later_profile_has_the_same_largest_wind():
    pressure, x, y = fields(model_of(profile="holland_2010", translation=0.0, reduction=1.0), 0.0)
    assert np.hypot(x, y).max() == pytest.approx(np.sqrt(1.5 * 6300.0 / 1.22 / np.e), rel=0.05)


@pytest.mark.verify
def test_derivatives_in_every_parameter_pass_dot_product_and_taylor_tests():
    """Of the tracks and vortices of both profiles, of an air pressure and of a wind."""
    track = TRACK | {"radius": (6e4, 7e4), "b": (1.3, 1.7), **ISOTACHS}
    later = track | {"profile": "holland_2010", "x": (3e5, 2.8e5), "y": (1e5, 1.2e5)}
    pressure = sw.AirPressure(101000.0 + 100.0 * np.random.default_rng(0).standard_normal((10, 12)))
    grid = sw.CartesianGrid(12, 10, (0.0, 4e5), (0.0, 4e5))
    forcing = sw.Cyclone(**track), sw.Cyclone(**later), pressure, sw.Wind(x=8.0, y=-5.0)
    model = sw.ShallowWater(grid, 50.0, forcing=forcing, engine="arrays")
    controls = {name for name in names_of(model) if name.startswith(("forcing.0", "forcing.2", "forcing.3"))}
    controls |= {f"forcing.1.{name}" for name in (*sw.Cyclone.lines, "exponent")}
    controls -= {"forcing.0.exponent"}  # which the earlier profile has not
    assert {f"forcing.0.{name}" for name in sw.Cyclone.lines} | {"forcing.2.pressure", "forcing.3.x"} < controls
    cost = FinalState(lambda state, equations: (state.eta * state.eta + state.u * state.v).sum())
    problem = Problem(model, sw.ForwardBackward(300.0), model.at_rest(), 4, cost, sorted(controls))
    verdicts = verify(problem, second=False)
    assert {verdict.control for verdict in verdicts} == controls
    assert not [str(verdict) for verdict in verdicts if not verdict.passed]
    _, gradient = problem.value_and_gradient()
    assert all(np.abs(np.asarray(gradient[name])).max() > 0 for name in controls)


@pytest.mark.parametrize(
    "law, at_60", [("garratt", 3.5e-3), ("large_pond", 2.115e-3), ("powell", 1.5e-3), (2e-3, 2e-3)]
)
def test_wind_laws_in_a_hurricane(law, at_60):
    assert float(drag_law("Wind", law)(jnp.asarray(60.0))) == pytest.approx(at_60)


@pytest.mark.parametrize(
    "changes, said",
    [
        (
            {"central_pressure": (950.0, 960.0)},
            "central_pressure = 950.0 is less than 50000 Pa, as pressures in hPa are",
        ),
        ({"times": (3600.0, 0.0)}, "times do not increase"),
        ({"x": (1.0, 2.0, 3.0)}, "x has 3 values for 2 times"),
        ({"times": (60.0, 3600.0)}, "the track starts 60 s after the run"),
        ({"drag": "gale"}, "drag = 'gale' is no wind law"),
        (
            {"central_pressure": (95000.0, 101300.0)},
            "central_pressure = 101300 Pa, 3600 s after the start, is not below ambient_pressure = 101300 Pa; give",
        ),
        ({"spherical": True}, "its track has longitudes and latitudes, and the grid is a plane"),
    ],
)
def test_mistakes_are_told(changes, said):
    with pytest.raises(ConfigError, match=said):
        model_of(**changes)


def test_an_air_pressure_in_hectopascals_is_refused():
    for pressure in (np.linspace(980.0, 1020.0, 12).reshape(3, 4), np.float32(1013.0), [[1013.0, 1012.0]]):
        with pytest.raises(ConfigError, match="looks like hPa; give Pa"):
            sw.AirPressure(pressure)
    sw.AirPressure(np.linspace(-2000.0, 1500.0, 12).reshape(3, 4))  # departures from a mean
    grid = sw.CartesianGrid(8, 6, (0.0, 8e4), (0.0, 6e4))
    with pytest.raises(ConfigError, match="pressure = 1000.5 to 1007.5 looks like hPa; give Pa"):
        sw.ShallowWater(grid, 100.0, forcing=sw.AirPressure(lambda x, y: 1000.0 + 1e-4 * x + 0 * y))
    sw.ShallowWater(grid, 100.0, forcing=sw.AirPressure(lambda x, y: 1e5 + 1e-4 * x + 0 * y))


def test_the_points_of_a_track_are_controls_with_their_times_and_the_units_of_the_grid():
    sphere = sw.ShallowWater(
        sw.SphericalGrid(6, 5, (0.0, 6.0), (10.0, 15.0)), 50.0, forcing=sw.Cyclone(**TRACK | dict(x=(2, 3), y=(11, 12)))
    )
    for model, units in ((model_of(), ("m", "m")), (sphere, ("degree_east", "degree_north"))):
        x, y, pressure = controls_of(model, ["forcing.0.x", "forcing.0.y", "forcing.0.central_pressure"])
        assert (x.units, y.units) == units and pressure.units == "Pa"
        assert x.times == y.times == pressure.times == TRACK["times"]


def test_an_uneven_storm_has_the_radius_of_each_quadrant_and_keeps_it_at_other_points():
    """The largest wind lies at 1.4 R in the north-east and at 0.8 R in the north-west."""
    storm = {"translation": 0.0, "radius": (6e4, 6e4), "x": (2e5, 2e5), "asymmetry": [UNEVEN[0]] * 2}
    _, x, y = fields(model_of(**storm), 0.0)
    speed, cells = np.hypot(x, y), np.arange(20)
    away = np.hypot(2e4 * cells[10:] + 1e4 - 2e5, 2e4 * cells[10:] + 1e4 - 2e5)
    assert abs(away[np.argmax(speed[cells[10:], cells[10:]])] - 1.4 * 6e4) < 2e4
    assert abs(away[np.argmax(speed[cells[10:], cells[9::-1]])] - 0.8 * 6e4) < 2e4
    part = sw.Cyclone(**TRACK | {"asymmetry": UNEVEN})
    between = part.with_points(np.array([0.0, 1800.0, 3600.0]), {}, None).asymmetry
    np.testing.assert_allclose(between, [UNEVEN[0], np.mean(UNEVEN, axis=0), UNEVEN[1]])
    with pytest.raises(ConfigError, match="asymmetry has 3 rows for 2 times"):
        sw.Cyclone(**TRACK | {"asymmetry": [UNEVEN[0]] * 3})
    for wrong in ({"asymmetry": ISOTACHS["asymmetry"]}, ISOTACHS | {"asymmetry": UNEVEN}):
        with pytest.raises(ConfigError, match="asymmetry and distances have different sizes"):
            sw.Cyclone(**TRACK | wrong)
    swapped = ISOTACHS | {"distances": np.roll(ISOTACHS["distances"], 4, axis=1)}
    with pytest.raises(ConfigError, match="distances decrease from an isotach to the next; give the strongest one"):
        sw.Cyclone(**TRACK | swapped)


ATCF = """\
AL, 09, 2008090106,   , BEST,   0, 172N,  370W,  30, 1006, TD,   0,    ,    0,    0,    0,    0, 1012,  250,  90,
AL, 09, 2008090112,   , BEST,   0, 173N,  384W,  35, 1005, TS,  34, NEQ,   90,    0,    0,   90, 1012,  250,   0,
"""
CSV = """\
time_utc,longitude_deg,latitude_deg,maximum_wind_m_s,radius_of_maximum_wind_m,central_pressure_pa
2008-09-01T06:00:00,-37.0,17.2,15.43,166680,100600
2008-09-01T12:00:00,-38.4,17.3,18.01,,100500
"""


@pytest.mark.parametrize("name, text", [("deck.dat", ATCF), ("track.csv", CSV.replace(",,", ",0,"))])
def test_tracks_are_read(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    track = tracks.read_track(tmp_path / name)
    np.testing.assert_allclose(track.longitude, [-37.0, -38.4])
    np.testing.assert_allclose(track.pressure, [100600.0, 100500.0])
    np.testing.assert_allclose(track.radius, [166680.0, 46.4e3 * np.exp(-0.0155 * 18.01 + 0.0169 * 17.3)], rtol=1e-3)
    cyclone = tracks.cyclone_of(track, datetime.datetime(2008, 9, 1, 7), 3600.0)
    assert cyclone.times == (-3600.0, 18000.0)


def test_a_longer_run_has_the_same_points_of_a_track_so_that_one_that_goes_on_rounds_alike(tmp_path):
    start = datetime.datetime(2008, 9, 1)
    moments = tuple(start + datetime.timedelta(hours=6 * k) for k in range(5))
    pressure = np.array([98000.0, 98500.0, 99000.0, 99500.0, 101500.0])  # the last is above the ambient pressure
    line = np.linspace(-40.0, -38.0, 5)
    track = tracks.Track(moments, line, 0.0 * line + 20.0, pressure, 0.0 * line + 5e4, 0.0 * line + 30.0)
    short, long = (tracks.cyclone_of(track, start, hours * 3600.0) for hours in (3, 15))
    assert short.times == long.times == (0.0, 21600.0, 43200.0, 64800.0)
    with pytest.raises(ConfigError, match="not below"):
        tracks.cyclone_of(track, start, 20 * 3600.0)
    with pytest.raises(ConfigError, match=r"track = 'bal092008.dat' .* read_track"):
        tracks.cyclone_of("bal092008.dat", start)


DYING = (45, 50, 55, 60, 70, 80, 90, 95, 100, 90, 60, 30), (1e3, 998, 995, 990, 982, 975, 968, 962, 958, 968, 985, 996)


def deck(pressures=DYING[1]):
    lines = (
        f"AL, 09, 20080901{k:02d},   , BEST,   0, {220 + 2 * k}N,  {370 + 3 * k}W, {wind}, {pressure:g}, TD, 0,"
        for k, (wind, pressure) in enumerate(zip(DYING[0], pressures))
    )
    return "\n".join(lines)


def test_the_wind_of_the_vortex_is_that_of_the_track_or_of_the_wmo_where_there_is_no_other(tmp_path):
    """Along an ATCF deck, and an IBTrACS file that has winds of the WMO alone; the last wind is too low for any B."""
    import xarray as xr

    (tmp_path / "deck.dat").write_text(deck())
    ours = tracks.read_track(tmp_path / "deck.dat")
    line = lambda values: ("date_time", np.array(values, float))  # noqa: E731
    columns = {"lon": ours.longitude, "lat": ours.latitude, "wmo_pres": ours.pressure / 100.0, "wmo_wind": DYING[0]}
    data = xr.Dataset({name: line(values) for name, values in (columns | {"usa_wind": 12 * [np.nan]}).items()})
    data["time"] = "date_time", np.array(ours.moments, "datetime64[ns]")
    data.to_netcdf(tmp_path / "wmo.nc")
    for track in (ours, tracks.read_track(tmp_path / "wmo.nc")):
        np.testing.assert_allclose(track.wind, 0.514444 * np.array(DYING[0]), rtol=1e-6)
        storm = tracks.cyclone_of(track, ours.moments[0], 11 * 3600.0)
        np.testing.assert_allclose(tracks.largest_winds(storm)[:-1], track.wind[:-1], rtol=1e-6)
        assert tracks.largest_winds(storm)[-1] > 1.1 * track.wind[-1]
    run = SimpleNamespace(start=ours.moments[0], until=11 * 3600.0)
    entry = FORCING["cyclone"](type="cyclone", track=tmp_path / "deck.dat", ambient_pressure=101300.0)
    (said,) = _winds_of_storm("forcing[0]", entry, SimpleNamespace(run=run), storm)
    assert said.startswith("forcing[0]: the largest wind of the vortex is not that of the track at 1 of 12 points,")
    assert "m/s in place of 15.4 m/s on 2008-09-01 11:00; correct" in said


def test_a_forecast_without_pressures_is_told_how_many_points_lack_them(read):
    with pytest.raises(DataError, match="11 of 12 points have no central pressure, .*; give a track with pressures"):
        read(deck([1000, *11 * [0]]))
    assert len(read(deck([1000, 0, -999, *DYING[1][3:]])).moments) == 10


@pytest.mark.parametrize(
    "coriolis, sign", [(None, 1.0), (sw.FPlane(-1e-4), -1.0), (sw.BetaPlane(1e-4, 2e-9, 4e5), -1.0)]
)
def test_a_cyclone_on_a_plane_turns_with_the_f_of_the_model_at_its_centre(coriolis, sign):
    grid = sw.CartesianGrid(9, 9, (0.0, 9e5), (0.0, 9e5))
    track = {"times": (0.0, 3600.0), "x": (4.5e5, 4.5e5), "y": (2.5e5, 2.5e5), "central_pressure": 95e3, "radius": 8e4}
    still = {"inflow": 0.0, "translation": 0.0}
    model = sw.ShallowWater(grid, 50.0, coriolis=coriolis, forcing=sw.Cyclone(**track, **still), engine="arrays")
    _, _, wind_y = fields(model, 0.0)
    assert sign * wind_y[2, 6] > 10.0 and sign * wind_y[2, 2] < -10.0


def test_a_grid_that_does_not_hold_the_centre_of_a_cyclone_has_the_wind_of_one_that_does():
    """As a nest north of the equator and the grid around it, of a storm in the south."""
    track = {"times": (0.0, 3600.0), "x": (4.5e5, 4.5e5), "y": (-2.5e5, -2.5e5), "central_pressure": 95e3}
    winds = []
    for first, rows in ((-9, 18), (0, 9)):
        grid = sw.CartesianGrid(9, rows, (0.0, 9e5), (first * 1e5, 9e5))
        cyclone = sw.Cyclone(**track, radius=8e4)
        model = sw.ShallowWater(grid, 50.0, coriolis=sw.BetaPlane(0.0, 2e-11), forcing=cyclone, engine="arrays")
        winds.append(np.stack(fields(model, 0.0))[:, -9:])
    np.testing.assert_allclose(winds[1], winds[0], rtol=1e-12, atol=1e-12)
    assert winds[0][2, 0, 6] < -1.0  # clockwise


@pytest.fixture
def read(tmp_path):
    """Read the track of a deck with this text, of one of its storms."""

    def read(text, storm=None):
        (tmp_path / "deck.dat").write_text(text)
        return tracks.read_track(tmp_path / "deck.dat", storm)

    return read


def test_minutes_forecast_hours_and_storms_of_a_deck_are_read(read):
    landfall = ATCF.replace("2008090112,   ,", "2008090112, 40,")
    assert read(landfall).moments[1] == datetime.datetime(2008, 9, 1, 12, 40)
    forecast = ATCF.replace("BEST,   0", "OFCL,  12", 1).replace("BEST,   0", "OFCL,  24").replace("0112", "0106")
    assert read(forecast).moments == (datetime.datetime(2008, 9, 1, 18), datetime.datetime(2008, 9, 2, 6))
    with pytest.raises(DataError, match="forecasts of several models or dates"):
        read(forecast + forecast.replace("OFCL", "GFSO"))
    two = ATCF + ATCF.replace("AL, 09", "AL, 10").replace("1005,", "990,")
    assert read(two, "AL092008").pressure[1] == 100500.0 and read(two, "al102008").pressure[1] == 99000.0
    with pytest.raises(DataError, match="holds 2 storms, AL092008, AL102008; name one of them"):
        read(two)
    with pytest.raises(DataError, match="has no storm 'AL112008'"):
        read(two, "AL112008")


def test_storms_of_several_seasons_of_a_deck_are_told_apart(read):
    both = ATCF + ATCF.replace("2008", "2012").replace("1005,", "990,")
    assert read(both, "AL092008").pressure.min() == 100500.0 and read(both, "AL092012").pressure.min() == 99000.0
    with pytest.raises(DataError, match="holds 2 storms, AL092008, AL092012; name one of them"):
        read(both)
    south = ATCF.replace("AL, 09", "SH, 05").replace("N, ", "S, ")
    new_year = south.replace("2008090106", "2007123118").replace("2008090112", "2008010100")
    assert read(new_year, "SH052008").latitude[0] == -17.2  # the season of 2008 begins in July 2007
    assert len(read(new_year).moments) == 2


@pytest.mark.parametrize("wrong", ["17.2N", "172", "", "172E"])
def test_latitudes_of_a_deck_are_tenths_of_degrees_with_a_letter(wrong, read):
    with pytest.raises(DataError, match=f"'{wrong}' is not a number of tenths of degrees with N or S"):
        read(ATCF.replace("172N", wrong))


def test_storms_of_a_csv_file_are_told_apart(tmp_path):
    lines = CSV.replace(",,", ",0,").splitlines()
    rows = [f"{line},{name}" for name in ("one", "two") for line in lines[1:]]
    (tmp_path / "track.csv").write_text("\n".join([f"{lines[0]},storm", *rows]).replace("100500,two", "99500,two"))
    assert tracks.read_track(tmp_path / "track.csv", "TWO").pressure[1] == 99500.0
    with pytest.raises(DataError, match="holds 2 storms"):
        tracks.read_track(tmp_path / "track.csv")
    (tmp_path / "track.csv").write_text("\n".join(lines))
    with pytest.raises(DataError, match="it names none, so leave `storm` out"):
        tracks.read_track(tmp_path / "track.csv", "IKE")


def test_centres_that_no_storm_has_are_refused(tmp_path):
    lines = CSV.replace(",,", ",0,").splitlines()
    for changed, said in (
        ([*lines, lines[2]], "two points on 2008-09-01 12:00"),
        ([*lines[:2], lines[2].replace("17.3", "107.3")], "is at \\(-38.4, 107.3\\); give longitude"),
        ([*lines[:2], lines[2].replace("-38.4", "38.4")], "no storm does at more than 60 m/s"),
        ([*lines[:2], lines[2].replace("18.01", "180.1")], "largest wind on 2008-09-01 12:00 is 180.1 m/s"),
        ([lines[0], lines[1].replace("166680", "-1"), lines[2]], "radius on 2008-09-01 06:00 is -1 m"),
    ):
        (tmp_path / "track.csv").write_text("\n".join(changed))
        with pytest.raises(DataError, match=said):
            tracks.read_track(tmp_path / "track.csv")


@pytest.mark.parametrize("key, value", [("density", 1.025), ("air_density", 1025.0)])
def test_densities_of_the_wrong_unit_or_fluid_are_refused(key, value):
    with pytest.raises(ConfigError, match=f"{key} = "):
        sw.Wind(1.0, 2.0, **{key: value})


def test_blank_cells_of_a_track_are_what_is_not_known_and_short_rows_are_named(tmp_path):
    header = "time_utc,longitude_deg,latitude_deg,radius_of_maximum_wind_m,central_pressure_pa,maximum_wind_m_s"
    first, file = "2024-03-01T00:00:00Z,175,15,30000,95000,50", tmp_path / "track.csv"
    file.write_text(f"{header}\n{first}\n2024-03-01T06:00:00Z,175,16,,95500,,\n")
    track = tracks.read_track(file)
    assert track.radius[1] == pytest.approx(46.4e3 * np.exp(0.0169 * 16.0)) and np.isnan(track.wind[1])
    for row, said in (
        ("2024-03-01T06:00:00Z,175,16", "line 3 has 3 cells and the header 6; give one for each"),
        ("2024-03-01T06:00:00Z,175,16,1,95000,50,60", "line 3 has 7 cells and the header 6; give one for each"),
        ("2024-03-01T06:00:00Z,175,16,30000,,50", "central_pressure_pa is blank on 2024-03-01T06:00:00Z"),
        ("2024-03-01T06:00:00Z,175,x,30000,95000,50", "latitude_deg is 'x' on 2024-03-01T06:00:00Z; give a number"),
    ):
        file.write_text(f"{header}\n{first}\n{row}\n")
        with pytest.raises(DataError, match=re.escape(said)):
            tracks.read_track(file)


def test_a_run_in_python_does_not_go_on_after_its_track():
    model = model_of()
    with pytest.raises(ConfigError, match="Cyclone: the track ends at 3600 s, and the run needs it until 3660 s"):
        sw.Simulation(model, model.at_rest(), sw.SSPRK3(60.0)).run(steps=61)


def best_track(points, west, step):
    """(the moments, a Track) of a storm with winds of 48 m/s that moves by `step` and 0.5 degrees every 6 hours."""
    moments = tuple(datetime.datetime(2008, 9, 12) + datetime.timedelta(hours=6 * k) for k in range(points))
    k = np.arange(float(points))
    lines = west + step * k, 26.0 + 0.5 * k, 95500.0 + 0 * k, 4e4 + 0 * k, 48.0 + 0 * k
    return moments, tracks.Track(moments, *lines)


def test_the_largest_wind_is_that_of_the_best_track():
    """Best tracks have the wind at 10 m of the moving storm; it is not reduced, and the motion not added, once more."""
    moments, track = best_track(4, -91.0, -1.0)
    cyclone = tracks.cyclone_of(track, moments[1], 3600.0)
    assert cyclone.times == (0.0, 21600.0, 43200.0)  # without the points before the run
    grid = sw.SphericalGrid(60, 60, (-93.5, -90.5), (25.0, 28.0))
    model = sw.ShallowWater(grid, 50.0, forcing=(cyclone,))
    _, x, y = fields(model, 0.0)
    assert np.hypot(x, y).max() == pytest.approx(48.0, rel=0.01)


def test_winds_of_a_minute_become_those_of_ten_minutes_and_the_date_of_the_track_is_that_of_the_model():
    moments, track = best_track(3, -92.0, -0.5)
    grid = sw.SphericalGrid(60, 60, (-94.0, -91.0), (25.0, 28.0))
    cyclone = tracks.cyclone_of(track, moments[1], 3600.0, wind_averaging=0.93)
    model = sw.ShallowWater(grid, 50.0, forcing=(cyclone,))
    _, x, y = fields(model, 0.0)
    assert np.hypot(x, y).max() == pytest.approx(0.93 * 48.0, rel=0.01)
    assert model.start == moments[1]
    with pytest.raises(
        ConfigError, match=r"Simulation: start = .* and the track of forcing.0 counts from 2008-09-12 06"
    ):
        sw.Simulation(model, model.at_rest(), sw.ForwardBackward(10.0), start=moments[0])
    for wrong in (0.5, 1.1):
        with pytest.raises(ConfigError, match="wind_averaging"):
            tracks.cyclone_of(track, moments[1], wind_averaging=wrong)
    for start, why in ((moments[0], "both are the date of step 0"), (None, "give both the date of step 0")):
        with pytest.raises(ConfigError, match=why):
            sw.ShallowWater(grid, 50.0, forcing=(cyclone, sw.TidalPotential(constituents=["M2"], start=start)))


def test_a_track_in_hectopascals_is_refused(tmp_path):
    (tmp_path / "track.csv").write_text(CSV.replace(",,", ",0,").replace("100600", "1006").replace("100500", "1005"))
    with pytest.raises(DataError, match="are hPa; give Pa"):
        tracks.read_track(tmp_path / "track.csv")


def test_a_track_that_does_not_fit_its_run_is_told_at_check(tmp_path):
    (tmp_path / "track.dat").write_text(ATCF)

    def sentences(start, **changes):
        text = STORM.format(start=start, **({"grid": "spherical", "pressure": 101300} | changes))
        if changes.get("grid") == "cartesian":
            text = text.replace("longitude", "x").replace("latitude", "y")
        return " ".join(assemble(read_text(text, "storm.toml", tmp_path)).sentences())

    assert sentences("2008-09-01T07:00:00Z") == ""
    assert "the track starts on 2008-09-01 06:00, after the run" in sentences("2008-09-01T05:00:00Z")
    assert "the track ends on 2008-09-01 12:00, 0.5 h before the run does" in sentences("2008-09-01T11:30:00Z")
    assert "is not below ambient_pressure = 100550 Pa" in sentences("2008-09-01T07:00:00Z", pressure=100550)
    assert "the grid is a plane" in sentences("2008-09-01T07:00:00Z", grid="cartesian")


STORM = """
run = {{until = "1 h", start = {start}}}
grid = {{type = "{grid}", nx = 8, ny = 6, longitude = [-40.0, -36.0], latitude = [16.0, 19.0]}}
bathymetry = {{type = "flat", depth = 100.0}}
stepper = {{type = "rk4"}}
forcing = [{{type = "cyclone", track = "track.dat", ambient_pressure = {pressure}}}]
"""


def test_wind_stress_has_the_published_size_and_the_direction_of_the_wind():
    tau_x, tau_y = wind_laws.wind_stress([6.0, 12.0], [8.0, -16.0])
    magnitude = 1.22 * np.array([1.2e-3 * 10**2, (0.49 + 0.065 * 20) * 1e-3 * 20**2])
    np.testing.assert_allclose(np.hypot(tau_x, tau_y), magnitude, rtol=1e-13)
    np.testing.assert_allclose([tau_x[0] / tau_y[0], tau_x[1] / tau_y[1]], [0.75, -0.75], rtol=1e-13)


def test_the_law_of_trenberth_is_continuous_and_calm_air_has_no_stress():
    for speed in (3.0, 10.0):
        low, high = wind_laws.trenberth(np.array([speed - 1e-9, speed + 1e-9]))
        assert low == pytest.approx(1.14e-3, rel=1e-6) and high == pytest.approx(1.14e-3, rel=1e-6)
    for drag in ("large_pond_1981", "trenberth_1990", 1.3e-3):
        assert np.hypot(*wind_laws.wind_stress(0.0, 0.0, drag)) == 0.0


def test_the_drag_is_a_law_a_number_or_a_function():
    assert wind_laws.wind_stress(10.0, 0.0, 2e-3, air_density=1.0)[0] == pytest.approx(0.2)
    assert wind_laws.wind_stress(10.0, 0.0, lambda speed: 1e-4 * speed, air_density=1.0)[0] == pytest.approx(0.1)
    with pytest.raises(ConfigError, match="drag = 'charnock' is no wind law; give 'large_pond'"):
        wind_laws.wind_stress(1.0, 1.0, "charnock")


def test_members_may_follow_other_points_but_not_another_wind_law():
    """The law was noticed in the first step, in a sentence without the name of the file."""
    more = {name: np.interp((0.0, 900.0, 3600.0), TRACK["times"], values) for name, values in TRACK.items()}
    one, other, third = (model_of(**changes) for changes in ({}, more, {"drag": 1.3e-3}))
    assert sw.Ensemble([one, other], [one.at_rest()] * 2).members == 2
    with pytest.raises(ConfigError, match="another set of forcings, drags and viscosities than member 0"):
        sw.Ensemble([one, third], [one.at_rest()] * 2)
