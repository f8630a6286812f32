"""Faults: where they lie, what they lift and when, their derivatives, their tables, and the published ones."""

import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.errors import ConfigError, DataError
from swmodel.fields.state import replace
from swmodel.grids.grid import CartesianGrid, SphericalGrid
from swmodel.sources import Fault, SeaSurface, Source, motion, read_source
from swmodel.sources.fault import REFERENCES, AzimuthalEqualArea, Plane, summarise
from swmodel.sources.motion import (
    Lattice,
    breakpoints,
    cubic_weights,
    depth_gradient,
    displacement,
    records,
    slip_history,
    uplift,
)
from tests.selection import later, now

TABLES = Path(__file__).parents[2] / "experiments" / "tohoku_2011"
THRUST = dict(
    longitude=143.0, latitude=38.0, depth=20e3, length=100e3, width=60e3, strike=195.0, dip=12.0, rake=85.0, slip=10.0
)
# One program of a shape takes seconds to compile: tests have one fault, or `windows`, and these numbers of points.
LONGITUDE, LATITUDE = np.linspace(140, 146, 25)[None], np.linspace(35.5, 40.5, 21)[:, None]
X, Y = np.meshgrid(np.linspace(-200e3, 200e3, 9), np.linspace(-150e3, 150e3, 7))  # on a plane


def source(**changes):
    return Source([Fault(**(THRUST | changes))])


def on_plane(**changes):
    return Source([Fault(**(THRUST | dict(longitude=0.0, latitude=0.0) | changes))], projection=Plane())


# -- where ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("azimuth", np.arange(0, 360, 45.0))
def test_the_projection_keeps_directions_exactly_and_600_km_to_4_parts_in_10000(azimuth):
    c, phi0, alpha = 600e3 / 6.371e6, np.deg2rad(38.0), np.deg2rad(azimuth)
    phi = np.arcsin(np.sin(phi0) * np.cos(c) + np.cos(phi0) * np.sin(c) * np.cos(alpha))
    lam = np.arctan2(np.sin(alpha) * np.sin(c) * np.cos(phi0), np.cos(c) - np.sin(phi0) * np.sin(phi))
    east, north = AzimuthalEqualArea().local(143.0 + np.rad2deg(lam), np.rad2deg(phi), (143.0, 38.0))
    np.testing.assert_allclose(np.hypot(east, north), 600e3, rtol=4e-4)
    np.testing.assert_allclose(np.rad2deg(np.arctan2(east, north)) % 360, azimuth, atol=1e-9)


def test_the_projection_keeps_areas():
    at = (143.0, 38.0)
    jacobian = jax.jit(jax.jacfwd(lambda p: jnp.stack(AzimuthalEqualArea().local(p[0], p[1], at))))
    for longitude, latitude in ((143.0, 38.0), (150.0, 33.0), (120.0, 60.0)):
        area = np.linalg.det(jacobian(jnp.array([longitude, latitude])))
        true = (6.371e6 * np.pi / 180) ** 2 * np.cos(np.deg2rad(latitude))
        np.testing.assert_allclose(area, true, rtol=1e-12)


def test_the_date_line_and_360_degrees_make_no_difference():
    a = uplift(source(longitude=179.8), LONGITUDE + 36.8, LATITUDE)
    b = uplift(source(longitude=-180.2), LONGITUDE + 36.8, LATITUDE)
    np.testing.assert_allclose(a, b, atol=1e-10)


def test_on_the_sphere_a_fault_lifts_as_on_a_plane_of_its_size():
    east, north = np.linspace(-150e3, 150e3, 25), np.linspace(-140e3, 140e3, 21)
    longitude = 143.0 + np.rad2deg(east / 6.371e6)[None]
    latitude = np.rad2deg(north / 6.371e6)[:, None]
    a = uplift(source(latitude=0.0), longitude, latitude)
    b = uplift(on_plane(), east[None], north[:, None])
    np.testing.assert_allclose(a, b, atol=2e-3 * 10)


def test_every_reference_point_can_place_the_same_fault(monkeypatch):
    """Okada's rectangle lies as deep, and each point as far along it and across it."""
    place_in = lambda x, y, rectangle, *_: (x, y, rectangle.top + 0 * x)  # noqa: E731
    monkeypatch.setattr(motion, "surface_displacement", place_in)

    def places(**fault):
        source = on_plane(**fault)
        return motion.per_metre_at(source, X, Y, lambda *parts: jnp.stack(parts))(
            jax.tree.map(lambda x: x[0], source.faults)
        )

    strike, dip, want = np.deg2rad(195.0), np.deg2rad(12.0), places()
    for name, (along, down) in REFERENCES.items():
        forward, deeper = (along - 0.5) * 100e3, (down - 0.5) * 60e3
        place = dict(
            longitude=forward * np.sin(strike) + deeper * np.cos(dip) * np.cos(strike),
            latitude=forward * np.cos(strike) - deeper * np.cos(dip) * np.sin(strike),
            depth=20e3 + deeper * np.sin(dip),
        )
        np.testing.assert_allclose(places(reference=name, **place), want, rtol=0, atol=1e-9)  # of 100 km


def test_turning_fault_and_points_together_turns_the_displacement():
    east, north, up = displacement(on_plane(strike=0.0), X, Y)
    for strike in (40.0, 90.0, 195.0):
        s, c = np.sin(np.deg2rad(strike)), np.cos(np.deg2rad(strike))
        e, n, u = displacement(on_plane(strike=strike), X * c + Y * s, Y * c - X * s)
        np.testing.assert_allclose([e * c - n * s, n * c + e * s, u], [east, north, up], atol=1e-10)


def test_a_thrust_that_strikes_south_and_dips_west_lifts_its_trench_side_and_lowers_its_land_side():
    fault = dict(strike=180.0, dip=10.0, rake=90.0, depth=10e3, length=300e3, width=100e3)
    east, _, up = displacement(on_plane(**fault), np.where(X < 0, -90e3, 35e3), 0 * Y)
    assert (up[X >= 0] > 1.0).all() and (up[X < 0] < -0.2).all()
    assert (east > 0).all()  # the upper side moves to the trench


# -- how much ---------------------------------------------------------------------------------------------------------


def test_uplift_is_the_sum_over_faults_and_linear_in_slip():
    parts = uplift(windows(), LONGITUDE, LATITUDE, each=True)
    assert parts.shape == (2, 21, 25)
    np.testing.assert_allclose(parts.sum(0), uplift(windows(), LONGITUDE, LATITUDE), atol=1e-12)
    np.testing.assert_allclose(parts[1], 0.3 * uplift(source(latitude=38.5), LONGITUDE, LATITUDE), atol=1e-12)
    np.testing.assert_allclose(displacement(windows(), LONGITUDE, LATITUDE)[2], parts.sum(0), atol=1e-12)


def test_a_slope_that_moves_towards_its_deep_side_lifts_the_water():
    grid = CartesianGrid(9, 7, (-100e3, 100e3), (-80e3, 80e3))
    x, y = np.broadcast_arrays(*grid.coordinates("h"))
    gradient = depth_gradient(grid, 5000 + 0.01 * x - 0.02 * y)
    np.testing.assert_allclose(gradient[0], 0.01, rtol=1e-10)
    np.testing.assert_allclose(gradient[1], -0.02, rtol=1e-10)
    east, north, up = displacement(on_plane(), x, y)
    np.testing.assert_allclose(uplift(on_plane(), x, y, gradient), up + 0.01 * east - 0.02 * north, atol=1e-12)


def test_the_depth_gradient_is_per_metre_on_the_sphere_and_none_on_land():
    grid = SphericalGrid(40, 30, (140, 144), (36, 39))
    x, y = grid.coordinates("h")
    metre = 6.371e6 * np.pi / 180
    east, north = depth_gradient(grid, 3000 + 100 * (x - 142) + 50 * (y - 37))
    np.testing.assert_allclose(east * np.cos(np.deg2rad(y)) * metre, 100.0, rtol=1e-9)
    np.testing.assert_allclose(north * metre, 50.0, rtol=1e-9)
    east, _ = depth_gradient(grid, 1000 * (x - 142) + 0 * y)
    assert (east[:, :20] == 0).all() and (east[:, 20:] > 0).all()


PARAMETERS = ("longitude", "latitude", "depth", "length", "width", "strike", "dip", "rake", "slip")


@jax.jit
@jax.value_and_grad
def weighted_uplift(faults):
    gradient = (np.full((21, 25), 0.02), np.full((21, 25), -0.01))
    weights = np.random.default_rng(3).normal(size=(21, 25))
    return jnp.sum(weights * uplift(replace(source(), faults=faults), LONGITUDE, LATITUDE, gradient))


@pytest.mark.parametrize("name", PARAMETERS)
@pytest.mark.parametrize("dip", [12.0, 90.0])
def test_uplift_is_differentiable_in_every_parameter(name, dip):
    """Backward derivatives against central differences, for dip 90 by Okada's plane beyond the vertical."""
    faults = jax.tree.map(jnp.asarray, source(dip=dip, depth=40e3).faults)
    value = getattr(faults, name)
    step = 1e-5 * (1.0 if name in ("longitude", "latitude") else float(np.max(np.abs(value))))

    def at(n):
        return weighted_uplift(replace(faults, **{name: value + n * step}))[0]

    slope = (8 * (at(1) - at(-1)) - at(2) + at(-2)) / (12 * step)
    np.testing.assert_allclose(jnp.sum(getattr(weighted_uplift(faults)[1], name)), slope, rtol=1e-6)


def test_the_depth_of_a_fault_that_reaches_the_sea_floor_keeps_its_derivative():
    reference = on_plane(reference="top_centre", depth=0.0)

    @jax.jit
    @jax.value_and_grad
    def number(depth):
        changed = replace(reference, faults=replace(reference.faults, depth=depth))
        return uplift(changed, np.array([[30e3]]), np.array([[5e3]]))[0, 0]

    step = 1.0
    values, slopes = zip(*(number(jnp.full(1, n * step)) for n in range(3)))
    forward = (-3 * values[0] + 4 * values[1] - values[2]) / (2 * step)
    np.testing.assert_allclose(slopes[0][0], forward, rtol=1e-4)


# -- when -------------------------------------------------------------------------------------------------------------


def windows():
    later = THRUST | dict(slip=np.array([[1.0, 2.0]]), latitude=38.5, onset=np.array([[0.0, 30.0]]), rise_time=10.0)
    return Source([Fault(**THRUST, onset=5.0, rise_time=20.0), Fault(**later)])


def test_records_are_linear_between_breakpoints_and_end_with_the_whole_uplift():
    times, fields = records(windows(), LONGITUDE, LATITUDE)
    np.testing.assert_array_equal(times, [0.0, 5.0, 10.0, 25.0, 30.0, 40.0])
    np.testing.assert_allclose(fields[0], 0.0, atol=1e-14)
    np.testing.assert_allclose(fields[-1], uplift(windows(), LONGITUDE, LATITUDE), atol=1e-12)
    dense = np.arange(0.0, 41.0, 0.5)
    slips, wanted = (np.asarray(slip_history(windows(), at)[1]) for at in (times, dense))
    for ours, theirs in zip(slips.T, wanted.T):
        np.testing.assert_allclose(np.interp(dense, times, ours), theirs, atol=1e-12)
    first, second = uplift(windows(), LONGITUDE, LATITUDE, each=True)
    np.testing.assert_allclose(fields[2], 0.25 * first + second / 3, atol=1e-12)


def test_slip_without_rise_time_takes_the_shortest_one():
    times, slips = slip_history(source(onset=7.0), shortest_rise=4.0)
    assert times.tolist() == [7.0, 11.0] and slips.tolist() == [[0.0], [10.0]]


def test_windows_without_slip_make_no_record_and_no_slip_makes_one():
    assert breakpoints(source(slip=np.array([[0.0, 3.0]]), onset=np.array([[0.0, 9.0]]))).tolist() == [9.0, 10.0]
    times, slips = slip_history(source(slip=0.0))
    assert times.tolist() == [0.0] and slips.tolist() == [[0.0]]


@pytest.mark.parametrize("name", ["onset", "rise_time"])
def test_the_slip_of_records_is_differentiable_in_time(name):
    reference, at = windows(), np.array([2.0, 11.0, 21.0, 33.0, 45.0])
    weights = jnp.asarray(np.random.default_rng(4).normal(size=(5, 2)))

    @jax.jit
    def number(value):
        changed = replace(reference, faults=replace(reference.faults, **{name: value}))
        return jnp.sum(weights * slip_history(changed, at)[1])

    value = jnp.asarray(getattr(reference.faults, name))
    gradient, step = jax.grad(number)(value), 1e-4
    for k in np.ndindex(*value.shape):
        slope = (number(value.at[k].add(step)) - number(value.at[k].add(-step))) / (2 * step)
        np.testing.assert_allclose(gradient[k], slope, rtol=1e-6, atol=1e-7)


def test_breakpoints_move_with_traced_onsets():
    reference = source(rise_time=20.0)

    def at_8_seconds(onset):
        times, fields = records(replace(reference, faults=replace(reference.faults, onset=onset)), LONGITUDE, LATITUDE)
        return jnp.interp(8.0, times, fields[:, 10, 12])

    value, slope = jax.jit(jax.value_and_grad(at_8_seconds))(jnp.array([[3.0]]))
    whole = uplift(source(), LONGITUDE, LATITUDE)[10, 12]
    np.testing.assert_allclose(value, whole * 5 / 20, rtol=1e-12)
    np.testing.assert_allclose(slope, -whole / 20, rtol=1e-12)


def test_records_that_end_too_early_are_refused():
    with pytest.raises(ConfigError, match="end of all slip, 40 s"):
        records(windows(), LONGITUDE, LATITUDE, np.arange(0.0, 31.0))
    with pytest.raises(ConfigError, match="shortest_rise = 0 s is not positive"):
        records(windows(), LONGITUDE, LATITUDE, shortest_rise=0)


# -- size -------------------------------------------------------------------------------------------------------------


def test_summary_of_a_known_earthquake():
    size = summarise(source(rigidity=4e10), np.array([[2.0, -1.0], [0.5, 0.0]]), np.array([[1e9], [2e9]]))
    assert size.seismic_moment == pytest.approx(4e10 * 100e3 * 60e3 * 10)
    assert size.magnitude == pytest.approx((np.log10(2.4e21) - 9.1) / 1.5)
    assert (size.lifted, size.lowered, size.highest, size.lowest) == (3e9, 1e9, 2.0, -1.0)
    text = str(size)
    assert "2.4e+21 N m" in text and "8.19" in text and "10.0 m" in text and "3.0 km3 up, 1.0 km3 down" in text
    assert "volume" not in str(summarise(source()))


# -- tables -----------------------------------------------------------------------------------------------------------

HEADER = (
    "name, longitude [degrees], latitude [degrees], depth [km], length [km], width [km], "
    "strike [degrees], dip [degrees]"
)
CSV = f"""# a comment
{HEADER}, rake [degrees], slip_1 [m], slip_2 [cm], onset [min], rise_time [s], rigidity [GPa], reference
a, 143, 38, 20, 100, 60, 195, 12, 85, 1, 200, 0.5, 30, 30, centroid  # another

b, 142, 38, 20, 100, 60, 195, 12, 85, 0, 50, 1, 30, 40, centroid
"""
TOML = """
"length [km]" = 100
"width [m]" = 60e3
"strike [degrees]" = 195
"dip [degrees]" = 12
"rake [degrees]" = 85
"rise_time [s]" = 30
"depth [km]" = 20
"latitude [degrees_north]" = 38
[[fault]]
name = "a"
"longitude [degrees_east]" = 143
"slip_1 [m]" = 1
"slip_2 [m]" = 2
"onset [s]" = 30
"rigidity [GPa]" = 30
[[fault]]
name = "b"
"longitude [degrees_east]" = 142
"slip_1 [m]" = 0
"slip_2 [m]" = 0.5
"onset [s]" = 60
"rigidity [GPa]" = 40
"""


def written(tmp_path, text, name="faults.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_table_of_a_spreadsheet_may_begin_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "faults.csv"
    path.write_text(CSV.removeprefix("# a comment\n"), encoding="utf-8-sig")
    np.testing.assert_array_equal(read_source(path).faults.longitude, [143.0, 142.0])


@pytest.mark.parametrize("name, text", [("faults.csv", CSV), ("faults.toml", TOML)])
def test_a_table_is_read_with_its_units_and_windows(tmp_path, name, text):
    faults = read_source(written(tmp_path, text, name)).faults
    np.testing.assert_allclose(faults.depth, [20e3, 20e3])
    np.testing.assert_allclose(faults.width, [60e3, 60e3])
    np.testing.assert_allclose(faults.slip, [[1.0, 2.0], [0.0, 0.5]])
    np.testing.assert_allclose(faults.onset, [[30.0, 60.0], [60.0, 90.0]])
    np.testing.assert_allclose(faults.rise_time, 30.0)
    np.testing.assert_allclose(faults.rigidity, [3e10, 4e10])
    assert faults.reference == "centroid"


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("slip_1 [m]", "slipp [m]", "column 'slipp [m]' is unknown; the nearest valid name is 'slip'"),
        ("depth [km]", "depth", "column 'depth' needs a unit, as 'depth [m]'"),
        ("slip_2 [cm]", "slip_1 [cm]", "column 'slip_1' is there twice"),
        (
            ", 85, 1, 200",
            ", 85, -1, 200",
            r"line 3 (a): slip = -1 is negative; give a number in m, 0 or more, and reverse",
        ),
        ("195, 12, 85, 0", "195, 92, 85, 0", "line 5 (b): dip = 92 is greater than 90; give a number in degree"),
        ("142, 38, 20,", "142, 38, 5,", "line 5 (b): depth = 5000 puts the upper edge above the sea floor"),
        ("142, 38, 20,", "142, 38, 5,", "; make it 6238 m or more, or check that it is the depth of the reference"),
        ("142, 38, 20, 100", "142, 38, 20, -100", "line 5 (b): length = -100000 is not positive"),
        ("142, 38, 20", "142, north, 20", "line 5 (b): latitude [degrees] = 'north' is not a number"),
        ("0.5, 30, 30, centroid", "0.5, 30, centroid", "line 3 has 14 cells and the header 15"),
        (
            "0.5, 30, 30, centroid",
            "0.5, -30, 30, centroid",
            "line 3 (a): rise_time = -30 is negative; give a number in s, 0 or more.",
        ),
        ("30, 40, centroid", "30, 40, middle", "the reference points differ (centroid, middle)"),
        ("centroid", "middle", "reference = 'middle' is unknown; known are"),
        (", slip_1 [m], slip_2 [cm]", ", rake_1 [m], rake_2 [m]", "column 'rake_1 [m]' is unknown"),
    ],
)
def test_every_mistake_in_a_table_gets_one_clear_sentence(tmp_path, old, new, message):
    assert old in CSV
    path = written(tmp_path, CSV.replace(old, new))
    with pytest.raises(DataError) as caught:
        read_source(path)
    assert any(message in text and str(path) in text for text in caught.value.mistakes), caught.value


def test_all_mistakes_of_a_table_come_at_once(tmp_path):
    text = CSV.replace(", 85, 1, 200", ", 85, -1, 200").replace("142, 38, 20, 100", "142, 38, 20, -100")
    with pytest.raises(DataError) as caught:
        read_source(written(tmp_path, text))
    assert len(caught.value.mistakes) == 2


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("faults.csv", "# nothing\n", "holds no faults"),
        ("faults.csv", HEADER + "\n", "holds no faults"),
        ("faults.csv", "longitude [degrees]\n143\n", "the column 'latitude' is missing"),
        ("faults.toml", "fault = [", "cannot be read"),
        ("faults.toml", "title = 3\n[[fault]]\n", "column 'title' is unknown"),
    ],
)
def test_tables_that_are_none(tmp_path, name, text, message):
    with pytest.raises(DataError, match=message):
        read_source(written(tmp_path, text, name))


def test_a_missing_table_is_said_to_be(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        read_source(tmp_path / "nowhere.csv")


def test_faults_that_cannot_be_are_refused_in_python_too():
    with pytest.raises(ConfigError, match="fault 2: slip = -3 is negative"):
        Source([Fault(**THRUST), Fault(**(THRUST | dict(slip=-3.0)))])
    with pytest.raises(ConfigError, match="different reference points"):
        Source([Fault(**THRUST), Fault(**THRUST, reference="top_centre")])
    with pytest.raises(ConfigError, match="empty"):
        Source([])


def test_faults_may_be_made_of_traced_numbers():
    def highest(slip):
        return uplift(Source([Fault(**(THRUST | dict(slip=slip)))]), LONGITUDE, LATITUDE)[10, 12]

    value, slope = jax.jit(lambda slip: jax.jvp(highest, (slip,), (1.0,)))(3.0)
    np.testing.assert_allclose(slope, value / 3.0, rtol=1e-12)


# -- the published tables ---------------------------------------------------------------------------------------------

PUBLISHED = {  # seismic moment [N m], Mw, maximum slip [m], number of faults, as the papers' abstracts have them
    "faults_satake2013.csv": (4.2e22, 9.0, 69.0, 55),
    "faults_shao2011.csv": (5.8e22, 9.1, 60.0, 190),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_table_has_the_moment_and_slip_that_its_paper_states(name):
    moment, magnitude, slip, number = PUBLISHED[name]
    size = summarise(read_source(TABLES / name))
    assert size.faults == number
    assert size.seismic_moment == pytest.approx(moment, rel=0.012)
    assert round(size.magnitude, 1) == magnitude
    assert size.maximum_slip == pytest.approx(slip, rel=0.005)


def test_the_mean_slip_of_satake_2013_is_that_of_the_paper():
    faults = read_source(TABLES / "faults_satake2013.csv").faults
    area = faults.length * faults.width
    assert np.sum(area * faults.slip.sum(1)) / np.sum(area) == pytest.approx(9.5, abs=0.05)


@pytest.mark.parametrize("name", now(list(PUBLISHED), "faults_satake2013.csv"))
def test_a_published_table_lifts_the_sea_floor_west_of_the_japan_trench(name):
    source = read_source(TABLES / name)
    faults, grid = source.faults, SphericalGrid(80, 80, (139, 147), (34, 42))
    assert ((faults.strike > 190) & (faults.strike < 205)).all() and (faults.dip < 20).all()
    field = np.asarray(uplift(source, *grid.coordinates("h")))
    j, i = np.unravel_index(field.argmax(), field.shape)
    assert 143.0 < grid.x_centres[i] < 144.2 and 37.0 < grid.y_centres[j] < 39.0  # the trench lies at 144 E there
    assert 5.0 < field[j, i] < 20.0
    coast = field[np.abs(grid.y_centres - 38.3).argmin(), np.abs(grid.x_centres - 141.5).argmin()]
    assert 0.5 < -coast / 1.2 < 2.0  # [m] that the Oshika peninsula sank by (Geospatial Information Authority 2011)


# -- many faults -------------------------------------------------------------------------------------------------------

GRID = sw.SphericalGrid(150, 130, (140.0, 145.0), (35.0, 39.3))  # cells of 2 arc-minutes, 3.7 km
DEPTH = 3000.0 + 1500.0 * np.sin(np.arange(130))[:, None] * np.cos(np.arange(150))


def rupture(along, down):
    """Subfaults of 6 km x 4 km on a plane that dips to the west, with slip and onsets of their own."""
    i, j = np.meshgrid(np.arange(along), np.arange(down))
    number = np.arange(i.size)
    place = {
        "longitude": 142.5 - 0.04 * j.ravel(),
        "latitude": 36.2 + 0.05 * i.ravel(),
        "depth": 5e3 + 800.0 * j.ravel(),
    }
    plane = {"length": 6e3, "width": 4e3, "strike": 190.0, "dip": 12.0, "rise_time": 10.0}
    slip = {"rake": 80.0 + number % 20, "slip": 2.0 + np.sin(number), "onset": 2.0 * (number % 7)}
    return Source([Fault(**place, **plane, **slip)], projection=AzimuthalEqualArea(GRID.radius))


@pytest.mark.parametrize("horizontal", (later(False), True))
def test_the_uplift_by_a_lattice_is_that_of_every_fault_in_every_cell(horizontal):
    source = rupture(4, 3)
    every = SeaSurface.of(GRID, DEPTH, horizontal=horizontal, kajiura=False, around=source)
    assert every.lattice is None and every.near is not None  # so few faults need none
    rows, columns = (4 * (-(-n // 4) + 13) for n in every.near)
    lattice = Lattice(4, every.window.shape, (rows, columns))
    times = np.array([0.0, 8.0, 30.0])
    expected, found = (
        jax.jit(lambda surface=surface: surface.records(source, times)[1])()
        for surface in (every, replace(every, lattice=lattice))
    )
    error = np.abs(np.asarray(found - expected)).max() / np.abs(np.asarray(expected)).max()
    assert 0 < error < 2e-4, error
    assert np.abs(np.asarray(expected)[1]).max() > 0.1  # of a motion on its way


def test_a_lattice_evaluates_far_fewer_points(monkeypatch):
    source, points = rupture(100, 80), []
    exact = motion.surface_displacement

    def counted(x, *others):
        points.append(x.size)
        return exact(x, *others)

    monkeypatch.setattr(motion, "surface_displacement", counted)
    grid = sw.SphericalGrid(900, 800, (138.0, 147.0), (33.0, 41.0))  # cells of 36 arc-seconds, 720,000 in all

    def of_one_fault(surface):
        points.clear()
        jax.eval_shape(lambda: surface._on_patch(source, np.zeros((1, 8000))))
        return sum(points) / 2  # eval_shape of a scan traces its body twice: for its type, and for its result

    surface = SeaSurface.of(grid, np.full(grid.shape, 4e3), horizontal=False, kajiura=False, around=source)
    assert surface.lattice is not None
    many = of_one_fault(replace(surface, lattice=None))
    few = of_one_fault(surface)
    assert many >= grid.nx * grid.ny and many > 15 * few, (many, few)
    assert few < 1.5 * surface.lattice.points


def test_cubics_are_interpolated_exactly_and_shared_nodes_exactly():
    nodes = np.arange(-6.0, 42.0, 6.0) / 10.0
    cubic = np.polynomial.Polynomial([1.0, -2.0, 0.5, 3.0])
    np.testing.assert_allclose(cubic_weights(30, 6) @ cubic(nodes), cubic(np.arange(30) / 10.0), rtol=1e-12)
    assert dataclasses.asdict(Lattice(6, (30, 30), (12, 18)))["block"] == (12, 18)
