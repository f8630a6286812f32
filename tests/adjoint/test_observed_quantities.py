"""Harmonic constants, velocities, transports and tracks: misfits of what is observed, their derivatives and files."""

import dataclasses
import datetime

import jax
import jax.numpy as jnp
import netCDF4
import numpy as np
import pytest

import swmodel as sw
from swmodel.adjoint.assimilation.departures import departures_of
from swmodel.adjoint.assimilation.restarts import Identity, _of_record
from swmodel.adjoint.costs.costs import SectionTransport
from swmodel.adjoint.costs.harmonics import HarmonicConstants, HarmonicMisfit, constants_in
from swmodel.adjoint.costs.marks import Mark, MarkMisfit, dry, marks_in, marks_in_water
from swmodel.adjoint.costs.misfits import (
    Current,
    SectionRecord,
    TransportMisfit,
    VelocityMisfit,
    currents_in,
    transports_in,
)
from swmodel.adjoint.costs.records import TrackMisfit, Tracks, read_tracks
from swmodel.config.adjoint import COSTS as COSTS_IN_FILES
from swmodel.dynamics.subgrid import changed_level
from swmodel.errors import ConfigError, DataError
from swmodel.fields.state import State
from swmodel.forcing.constituents import nodal, period

from . import test_costs
from .test_costs import DT, FIRST, MODEL, PLACES, STEPS, TIMES, compiled, derivatives, moving, trajectory

LONG = 5000.0  # [s], a step with which 12 steps are longer than the period of M2
NAN = float("nan")
START = datetime.datetime(2020, 3, 4)
SECTION = (4.1e4, 1e4), (3.9e4, 6e4)
ALONG = Tracks(
    x=np.array([2.1e4, 5.3e4, 7.7e4, 6.5e4]),
    y=np.array([3.3e4, 2.2e4, 1.2e4, 5.5e4]),  # the last one lies on land
    time=np.array([50.0, 97.3, 160.0, 70.0]),
    value=np.array([0.1, -0.2, 0.3, 0.0]),
    deviation=np.array([0.1, 0.2, 0.3, 0.1]),
)
SOME = np.arange(52.0, 158.0, 7.1)


HARMONIC = HarmonicMisfit(
    {
        "a": HarmonicConstants(PLACES["a"], {"M2": (0.4, 30.0)}, 0.2),
        "b": HarmonicConstants(PLACES["b"], {"M2": (NAN, NAN)}, 0.1),
        "c": HarmonicConstants((5e4, 3e4), {"M2": (0.7, 200.0)}, 0.3),
    },
    window=(0.0, LONG * (FIRST + STEPS)),
    start=START,
)
MARKS = {"a": Mark(PLACES["a"], 0.8, 0.2), "ashore": Mark((6.6e4, 5.2e4), 1.5, 0.4)}  # its sea is in row 4, column 6
COSTS = {
    "harmonic constants": (HARMONIC, LONG),
    "velocities": (VelocityMisfit({"a": Current(PLACES["a"], SOME, np.sin(SOME), np.cos(SOME), 0.3)}), DT),
    "transports": (TransportMisfit({"strait": SectionRecord(*SECTION, SOME, 1e6 * np.sin(SOME), 1e6)}), DT),
    "tracks": (TrackMisfit(ALONG), DT),
    "marks": (MarkMisfit(MARKS, window=(70.0, 140.0)), DT),
}


def on_tile(name):
    cost, dt = COSTS[name]
    return cost.on_tile(MODEL, dt, FIRST, STEPS)


@pytest.mark.parametrize("name", COSTS)
def test_derivatives_are_those_of_the_number(name):
    """Dot product of both modes; a Taylor test, with a Hessian of what is quadratic or nearly so; two segments."""
    cost, x = on_tile(name), trajectory(1)
    test_costs.assert_derivatives(cost, (4e-2, 2e-2), 1e-13)
    assert float(compiled(cost, x, (5, 6, 1))) == pytest.approx(float(compiled(cost, x)), rel=1e-13)


def tide(names, amplitude, lag, mean):
    """States with a sea surface of constituents with nodal factors of START, and the times of the steps."""
    t = LONG * (FIRST + 1 + np.arange(STEPS))
    eta = np.full(STEPS, mean)
    for name, size, g in zip(names, amplitude, lag):
        f, angle = nodal(name, START, 45.0)
        eta = eta + f * size * np.cos(2 * np.pi * t / period(name) + angle - np.deg2rad(g))
    zero = jnp.zeros((STEPS, *MODEL.grid.shape))
    return State(zero, zero, jnp.asarray(eta[:, None, None] * np.asarray(MODEL.wet)))


def test_harmonic_constants_are_those_of_the_tide_whatever_the_mean():
    """J is half the sum of squared distances in the complex plane; what is not known does not count."""
    states = tide(["M2"], [0.9], [70.0], mean=3.0)
    wave = 0.9 * np.exp(-1j * np.deg2rad(70.0))
    known = [each for each in HARMONIC.constants.values() if np.isfinite(each.constants["M2"][0])]
    assert len(known) == 2
    wanted = 0.0
    for each in known:
        size, lag = each.constants["M2"]
        wanted += 0.5 * abs(wave - size * np.exp(-1j * np.deg2rad(lag))) ** 2 / each.deviation**2
    assert float(compiled(on_tile("harmonic constants"), states)) == pytest.approx(wanted, rel=1e-10)


def test_velocities_are_means_of_the_faces_and_transports_those_of_the_section():
    states = trajectory(4)
    u, v = (np.asarray(x) for x in (states.u, states.v))
    time = np.array([TIMES[3]])
    place = (4.5e4, 3.5e4)  # the centre of the cell in row 3, column 4
    centre = 0.5 * (u[3, 3, 4] + u[3, 3, 3]), 0.5 * (v[3, 3, 4] + v[3, 2, 4])
    current = Current(place, time, np.zeros(1), np.zeros(1), 0.5)
    found = compiled(VelocityMisfit({"a": current}).on_tile(MODEL, DT, FIRST, STEPS), states)
    assert float(found) == pytest.approx(0.5 * (centre[0] ** 2 + centre[1] ** 2) / 0.25, rel=1e-12)
    transport = SectionTransport(*SECTION, time=100.0).on_tile(MODEL, DT, FIRST, STEPS)
    record = SectionRecord(*SECTION, np.array([100.0]), np.zeros(1), 2.0)
    found = compiled(TransportMisfit({"a": record}).on_tile(MODEL, DT, FIRST, STEPS), states)
    assert float(found) == pytest.approx(0.5 * (float(compiled(transport, states)) / 2.0) ** 2, rel=1e-12)


def test_tracks_are_read_at_their_times_and_points_on_land_do_not_count():
    states, eta = moving()
    away = (eta(ALONG.x, ALONG.y, ALONG.time) - ALONG.value) / ALONG.deviation
    assert float(compiled(on_tile("tracks"), states)) == pytest.approx(0.5 * np.sum(away[:3] ** 2), rel=1e-12)


def test_marks_are_compared_with_the_largest_levels_of_the_nearest_cells_that_can_be_wet():
    states = trajectory(5)
    eta, inside = np.asarray(states.eta), (TIMES >= 70.0) & (TIMES <= 140.0)
    wanted = sum(
        0.5 * ((eta[inside, row, column].max() - mark.height) / mark.deviation) ** 2
        for (row, column), mark in zip(((3, 2), (4, 6)), MARKS.values())
    )
    assert float(compiled(on_tile("marks"), states)) == pytest.approx(wanted, rel=1e-12)


def test_marks_on_land_that_stays_dry_count_by_the_height_of_their_bed_and_are_named():
    """Depths above the ground become levels; a mark too far from what can be wet has none."""
    grid = sw.CartesianGrid(6, 3, (0.0, 60.0), (0.0, 30.0))
    beach = sw.ShallowWater(
        grid,
        lambda x, y: 1.5 - 0.1 * x + 0.0 * y,
        momentum=sw.MomentumConserving(),
        wetting=sw.WettingDrying(thin=1e-3, highest=3.0),
        communicator="serial",
        engine="arrays",
    )
    table = {"pier": ((4.0, 16.0), 0.7), "hill": ((38.0, 14.0), 2.4), "tower": ((58.0, 5.0), 5.0)}
    marks = {name: Mark(place, height) for name, (place, height) in table.items()}
    found, away = marks_in_water(marks, beach, reach=0)
    assert away == ["tower"] and found["hill"].place == (35.0, 15.0) and found["hill"].height == 2.4
    deep, _ = marks_in_water({"hill": dataclasses.replace(marks["hill"], height=0.4, of_depth=True)}, beach)
    assert deep["hill"].height == pytest.approx(2.0 + 0.4) and not deep["hill"].of_depth
    assert dry(found, [0.0, 2.0 + 1e-3]) == ["hill"] and not dry(found, [0.0, 2.0 + 2e-3])
    with pytest.raises(ConfigError, match=r"'tower' at \(58, 5\) is off the grid, or has no cell that can be wet"):
        MarkMisfit(marks, reach=0).on_tile(beach, DT, FIRST, STEPS)
    at_rest = np.asarray(beach.at_rest().eta)  # on dry land the height of the bed
    states = State(
        *(jnp.broadcast_to(jnp.asarray(x), (STEPS, *grid.shape)) for x in (0 * at_rest, 0 * at_rest, at_rest))
    )
    misfit = MarkMisfit({"hill": marks["hill"]}, reach=0).on_tile(beach, DT, FIRST, STEPS)
    assert float(compiled(misfit, states)) == pytest.approx(0.5 * (2.0 - 2.4) ** 2, rel=1e-9)
    gradient, *_ = derivatives(misfit, states, states)
    assert not any(np.any(x) for x in jax.tree.leaves(gradient))
    readings = np.full((STEPS, 1), 2.0)
    rows = departures_of(misfit, beach.communicator).about(readings)
    assert not rows.linear(readings).any() and not rows.transposed(np.ones((1, 1))).any()
    rows = rows.about(readings + 0.1)
    assert rows.linear(readings) == rows.transposed(np.ones((1, 1))).sum() * 2.0 == 2.0
    outside = {"above": Mark((5.0, 31.0), 1.0), "pier": marks["pier"]}  # at the first one the next cell is wet
    assert marks_in_water(outside, beach)[1] == ["above"]
    with pytest.raises(DataError, match="the mark 'pier' has longitude and latitude, and the grid has x and y"):
        marks_in_water({"pier": dataclasses.replace(marks["pier"], spherical=True)}, beach)


def test_marks_in_a_channel_narrower_than_a_cell_are_dry_only_below_its_bed():
    """Land at 2 m with a channel at -1 m: its water lies below the mean bed of the cells, 0.5 m."""
    grid = sw.CartesianGrid(6, 3, (0.0, 60.0), (0.0, 30.0))
    fine = np.full((6, 12), -2.0)
    fine[2] = 1.0
    valley = sw.ShallowWater(
        grid,
        sw.topography(fine, grid, subgrid=2),
        momentum=sw.MomentumConserving(),
        wetting=sw.WettingDrying(thin=1e-3, highest=3.0),
        boundaries=sw.Flather(("east",)),
        communicator="serial",
        dtype="float64",
    )
    places = {"channel": (24.0, 12.0), "bank": (24.0, 18.0), "east": (56.0, 12.0)}
    marks = {name: Mark(place, 0.4, of_depth=True) for name, place in places.items()}
    found, _ = marks_in_water(marks, valley)
    assert [mark.height for mark in found.values()] == pytest.approx([-1.0 + 0.4, 2.0 + 0.4, -1.0 + 0.4])
    film = changed_level("shown", jnp.asarray(1e-3 - valley.depth), valley.sea_floor, valley.open_sides)
    assert [mark.ground for mark in found.values()] == pytest.approx([float(film[1, i]) for i in (2, 2, 5)], abs=1e-8)
    assert film[1, 2] == pytest.approx(-1.0 + 1e-3 / 0.5) and film[1, 5] == pytest.approx(0.5 + 1e-3)
    assert dry(found, [-0.99, -1.0, 0.5]) == ["bank", "east"]
    misfit = MarkMisfit({"channel": marks["channel"]}).on_tile(valley, DT, FIRST, STEPS)
    readings = np.full((STEPS, 1), -0.9)
    assert departures_of(misfit, valley.communicator).about(readings).linear(readings) == -0.9
    assert jax.grad(lambda acc: misfit.value(acc, None))(jnp.full((1, 1), -0.9)) == pytest.approx(-0.9 - (0.4 - 1.0))


def test_a_depth_counts_from_the_same_fine_cell_in_either_convention_of_longitude():
    grid = sw.SphericalGrid(12, 10, (175.0, 187.0), (-5.0, 5.0))
    fine = np.random.default_rng(0).uniform(-2.0, 3.0, (20, 24))
    parts = {"momentum": sw.MomentumConserving(), "wetting": sw.WettingDrying(), "communicator": "serial"}
    model = sw.ShallowWater(grid, sw.topography(fine, grid, subgrid=2), **parts)
    places = {"east": (181.8, 1.2), "west": (-178.2, 1.2)}
    found, _ = marks_in_water({name: Mark(place, 0.4, of_depth=True) for name, place in places.items()}, model)
    assert found["east"].height == found["west"].height == pytest.approx(0.4 - fine[12, 13], abs=1e-6)


def near(**changes):
    return dataclasses.replace(HARMONIC, **changes)


def constants(*names, deviation=0.1):
    return HarmonicConstants(PLACES["a"], {name: (1.0, 0.0) for name in names}, deviation)


WRONG = {
    "a window of 0.347 days is too short to separate M2 from the mean": lambda: near(
        window=(2 * LONG, 10 * LONG + 1.0)
    ),
    "a window of 0.694 days is too short to separate M2 and S2, which takes 14.8 days": lambda: HarmonicMisfit(
        {"a": constants("M2", "S2")}
    ),
    "is not in the run, whose steps end from 25000 to 80000 s": lambda: near(window=(3e4, 9e4)),
    "there is no tidal constituent 'M22'; did you mean": lambda: HarmonicMisfit({"a": constants("M22")}),
    "b has S2, and a has M2; give all gauges the same": lambda: HarmonicMisfit(
        {"a": constants("M2"), "b": constants("S2")}
    ),
    "a has a standard deviation of 0 m": lambda: HarmonicMisfit({"a": constants("M2", deviation=0.0)}),
    "is not a dict of harmonic constants": lambda: HarmonicMisfit({"a": (1.0, 2.0)}),
    "there are no constants": lambda: HarmonicMisfit({}),
    "currents = {} is not a dict of Current": lambda: VelocityMisfit({}),
    "transports = 3 is not a dict of SectionRecord": lambda: TransportMisfit(3),
    "follows none of its lines": lambda: TransportMisfit(
        {"a": SectionRecord((1e4, 1e4), (5e4, 6e4), TIMES, TIMES, 1.0)}
    ),
    "1 of 4 points of the tracks lie outside the grid": lambda: TrackMisfit(
        dataclasses.replace(ALONG, x=np.array([9e9, 1e4, 1e4, 1e4]))
    ),
    "have errors that are not positive": lambda: TrackMisfit(dataclasses.replace(ALONG, deviation=np.zeros(4))),
    "tracks = 3 is a number": lambda: TrackMisfit(3),
    "marks = {} is not a dict of marks": lambda: MarkMisfit({}),
    "no mark has a cell that can be wet within 0 cells": lambda: MarkMisfit(
        {"inland": Mark((6.5e4, 5.5e4), 1.0)}, reach=0
    ),
    "'a' has a standard deviation of 0 m": lambda: MarkMisfit({"a": Mark(PLACES["a"], 1.0, 0.0)}),
}


@pytest.mark.parametrize("sentence", WRONG)
def test_what_cannot_be_is_told_in_one_sentence(sentence):
    dt = LONG if "track" not in sentence and "errors" not in sentence else DT
    with pytest.raises(ConfigError) as printed:
        WRONG[sentence]().on_tile(MODEL, dt, FIRST, STEPS)
    assert sentence in str(printed.value) and "\n" not in str(printed.value)


def test_a_start_that_differs_from_that_of_the_tides_is_refused():
    grid = sw.CartesianGrid(6, 5, (0.0, 6e4), (0.0, 5e4))
    side = sw.Clamped("west", sw.Tide({"M2": (1.0, 0.0)}, start=START))
    model = sw.ShallowWater(grid, 100.0, boundaries=side, communicator="serial", engine="arrays")
    own = HarmonicMisfit({"a": HarmonicConstants((2e4, 2e4), {"M2": (1.0, 0.0)})})
    by_model = own.on_tile(model, LONG, 0, STEPS).weights
    given = dataclasses.replace(own, start=START).on_tile(model, LONG, 0, STEPS).weights
    np.testing.assert_array_equal(by_model, given)
    with pytest.raises(ConfigError, match="both are the date of step 0"):
        dataclasses.replace(own, start=START + datetime.timedelta(1)).on_tile(model, LONG, 0, STEPS)


# -- files ---------------------------------------------------------------------------------------------------------

TABLE = "name,longitude,latitude,M2_amplitude_m,M2_phase_deg,used\nA,1,50,2,90,1\nB,2,51,,,1\nC,3,52,1,0,0\n"


def as_netcdf(path, columns, units=None):
    """A netCDF file with the columns of a table, some of them with {name: units}."""
    with netCDF4.Dataset(path, "w") as data:
        data.createDimension("row", len(next(iter(columns.values()))))
        for name, values in columns.items():
            kind = str if isinstance(values[0], str) else "f8"
            variable = data.createVariable(name, kind, ("row",))
            variable[:] = np.array(values, dtype=object if kind is str else float)
            if units is not None and name in units:
                variable.units = units[name]
    return path


def test_tables_of_constants_are_csv_or_netcdf(tmp_path):
    (tmp_path / "gauges.csv").write_text(TABLE)
    rows = [line.split(",") for line in TABLE.splitlines()]
    columns = {
        name: [text if name == "name" else float(text or "nan") for text in values]
        for name, values in zip(rows[0], zip(*rows[1:]))
    }
    columns["name"] = list(columns["name"])
    for file in (tmp_path / "gauges.csv", as_netcdf(tmp_path / "gauges.nc", columns)):
        found, unused = constants_in(file, ["m2"], deviation=0.3, error=0.2)
        assert list(found) == ["A", "C"] and unused == ["C"]
        assert found["A"].place == (1.0, 50.0) and found["A"].constants["M2"] == (2.0, 90.0)
        np.testing.assert_allclose(found["A"].numbers, [0.0, 2.0], atol=1e-15)
        assert found["A"].deviation == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("M2_phase_deg", "phase"), "lacks the column M2_phase_deg in its first line; add it"),
        (("B,2", "A,2"), "has two gauges named 'A'"),
        (("A,1,50,2", "A,1,50,-2"), "an amplitude of -2 m"),
        (("A,1,50,2", "A,1,50,9999"), "an amplitude of 9999 m, beyond 100 m"),
        (("A,1,50,2", "A,1,50,two"), "line 2: 'two' in M2_amplitude_m is not a number"),
        (("A,1,50,2,90", "A,1,50,,"), "no gauge of .* has a value of M2"),
    ],
)
def test_tables_with_mistakes_are_refused(tmp_path, change, sentence):
    text = TABLE.replace(*change)
    (tmp_path / "gauges.csv").write_text(text.replace("C,3,52,1,0", "C,3,52,,") if "no gauge" in sentence else text)
    with pytest.raises(DataError, match=sentence):
        constants_in(tmp_path / "gauges.csv", ["M2"], 0.1)


def test_a_table_without_errors_needs_one(tmp_path):
    (tmp_path / "gauges.csv").write_text(TABLE)
    with pytest.raises(DataError, match="has no column deviation_m; add it, or give the deviation"):
        constants_in(tmp_path / "gauges.csv", ["M2"])
    with pytest.raises(DataError, match="there is no file"):
        constants_in(tmp_path / "other.csv", ["M2"], 0.1)
    (tmp_path / "broken.nc").write_text("no netCDF")
    with pytest.raises(DataError, match="broken.nc is a text file, and not a CSV or netCDF file"):
        constants_in(tmp_path / "broken.nc", ["M2"], 0.1)


def test_observations_in_other_units_than_those_of_their_names_are_refused(tmp_path):
    columns = {"longitude": [1.0], "latitude": [50.0], "time_s": [3.0], "elevation_m": [4.0], "deviation_m": [0.1]}
    usual = {"longitude": "degrees_east", "latitude": "degrees_north", "time_s": "s", "elevation_m": "metres"}
    assert read_tracks(as_netcdf(tmp_path / "usual.nc", columns, usual)).value[0] == 4.0
    for name, units in (("longitude", "arcmin"), ("time_s", "arcmin"), ("deviation_m", "cm")):
        file = as_netcdf(tmp_path / f"{name}.nc", columns, usual | {name: units})
        with pytest.raises(DataError, match=f"{name} in .* is in '{units}', and must be in '"):
            read_tracks(file)
    columns = {"name": ["A"], "longitude": [1.0], "latitude": [50.0], "M2_amplitude_m": [1.0], "M2_phase_deg": [30.0]}
    file = as_netcdf(tmp_path / "gauges.nc", columns, {"M2_phase_deg": "arcmin"})
    with pytest.raises(DataError, match="M2_phase_deg in .* is in 'arcmin', and must be in 'degree'; convert"):
        constants_in(file, ["M2"], 0.1)


def test_tables_of_marks_have_levels_or_depths(tmp_path):
    file = tmp_path / "marks.csv"
    file.write_text("name,longitude,latitude,elevation_m,deviation_m\nschool,141,38,7.5,0.3\nbridge,141,39,,\n")
    found = marks_in(file)
    assert list(found) == ["school"] and found["school"].place == (141.0, 38.0) and found["school"].deviation == 0.3
    file.write_text("x,y,depth_m\n1,2,0.4\n")
    assert marks_in(file, 0.2)["1"].of_depth and marks_in(file, 0.2)["1"].deviation == 0.2
    marks = found | {"deep": Mark((1.0, 2.0), 0.4)}
    numbers = Identity({}, marks).numbers()
    assert _of_record((1, 2, True), numbers, (1, 2, True), numbers.copy(), "m") is None  # as a resumed inversion asks
    file.write_text("x,y,longitude,latitude,depth_m\n1,2,141,38,0.4\n")
    assert [marks_in(file, 0.2, kind)["1"].place for kind in (True, False)] == [(141.0, 38.0), (1.0, 2.0)]
    for text, sentence in (
        ("x,y,longitude,latitude,depth_m\n1,2,141,38,0.4\n", "has both longitude and x; leave the pair out"),
        ("name,x,y,depth_m\na,,500,2\n", r"the mark 'a' at \(nan, 500\) with depth_m = 2 cannot be; check place"),
        ("x,y,elevation_m\n1,2,-9999\n", r"the mark '1' at \(1, 2\) with elevation_m = -9999 cannot be"),
        ("x,y,depth_m\n1,2,-1\n", "with depth_m = -1 cannot be"),
        ("longitude,latitude,depth_m\n1,200,1\n", "with depth_m = 1 cannot be"),
        ("x,y,depth_m\n1,2,0.4\n", "has marks without deviation_m; add it, or give the deviation"),
        ("x,y,depth_m,elevation_m\n1,2,0.4,3\n", "has both elevation_m and depth_m"),
        ("x,y,depth_m\n1,2,\n", "has no mark with a height"),
        ("name,x,y,depth_m\na,1,2,3\na,1,2,4\n", "has two marks named 'a'"),
    ):
        file.write_text(text)
        with pytest.raises(DataError, match=sentence):
            marks_in(file)


def test_records_of_velocities_transports_and_tracks_are_csv_or_netcdf(tmp_path):
    (tmp_path / "buoy.csv").write_text("time_s,u_m_s,v_m_s\n20,0.2,\n10,0.1,0.3\n")
    current = currents_in(tmp_path, {"buoy": (1.0, 2.0)}, 0.1)["buoy"]
    np.testing.assert_array_equal(current.time, [10.0, 20.0])
    np.testing.assert_array_equal(current.v, [0.3, NAN])
    as_netcdf(tmp_path / "strait.nc", {"time_s": [20.0, 10.0], "transport_m3_s": [2e6, 1e6]})
    record = transports_in(tmp_path, {"strait": SECTION}, deviation=1e5)["strait"]
    np.testing.assert_array_equal(record.value, [1e6, 2e6])
    columns = {"x": [1.0], "y": [2.0], "time_s": [3.0], "elevation_m": [4.0]}
    assert read_tracks(as_netcdf(tmp_path / "tracks.nc", columns), 0.1).value[0] == 4.0
    with pytest.raises(DataError, match="lacks the variables u_m_s and v_m_s"):
        currents_in(tmp_path, {"strait": (1.0, 2.0)}, 0.1)


def test_experiment_files_name_the_files_of_each_misfit(tmp_path):
    (tmp_path / "gauges.csv").write_text(TABLE)
    (tmp_path / "buoy.csv").write_text("time_s,u_m_s,v_m_s\n10,0.1,0.3\n")
    (tmp_path / "strait.csv").write_text("time_s,transport_m3_s\n10,1e6\n")
    (tmp_path / "tracks.csv").write_text("x,y,time_s,elevation_m\n1,2,3,4\n")
    table, folder, tracks = str(tmp_path / "gauges.csv"), str(tmp_path), str(tmp_path / "tracks.csv")

    def made(kind, **keys):
        return COSTS_IN_FILES[kind].read({"type": kind, **keys}).build()

    harmonic = made(
        "harmonic_misfit", file=table, constituents="M2", deviation="20 cm", gauges="C", window=["1 h", "2 h"]
    )
    assert list(harmonic.constants) == ["C"] and harmonic.constants["C"].deviation == 0.2
    assert harmonic.window == (3600.0, 7200.0)
    velocity = made("velocity_misfit", observations=folder, positions={"buoy": [1, 2]}, deviation="5 cm/s")
    assert velocity.currents["buoy"].deviation == 0.05 and velocity.currents["buoy"].v[0] == 0.3
    ends = {"strait": {"start": [1, 2], "end": [1, 3]}}
    transport = made("transport_misfit", observations=folder, sections=ends, deviation=2e4)
    assert transport.transports["strait"].value[0] == 1e6 and transport.transports["strait"].end == (1.0, 3.0)
    assert made("track_misfit", file=tracks, deviation="3 cm").tracks.deviation[0] == 0.03
    (tmp_path / "marks.csv").write_text("x,y,elevation_m\n1,2,3\n")
    marks = made("mark_misfit", file=str(tmp_path / "marks.csv"), deviation="30 cm", window=["1 h", "2 h"], reach=1)
    assert marks.marks["1"].deviation == 0.3 and marks.window == (3600.0, 7200.0) and marks.reach == 1
    with pytest.raises(ConfigError, match=r"has no gauge 'D' with these constituents; did you mean|there are|known"):
        made("harmonic_misfit", file=table, constituents="M2", deviation=0.2, gauges="D")
    with pytest.raises(ConfigError, match=r"has no sound.csv and no sound.nc; add it, or leave 'sound' out"):
        made("velocity_misfit", observations=folder, positions={"sound": [1, 2]}, deviation=0.1)
