"""Observations: errors in proportion to a gauge's variance, tracks in space and time, and what is refused."""

import dataclasses

import numpy as np
import pytest

import swmodel as sw
from swmodel.adjoint.assimilation.observations import gauge_records, with_noise
from swmodel.adjoint.costs.records import Record, Tracks, ground_tracks, read_tracks, track_records
from swmodel.errors import ConfigError, DataError
from swmodel.grids.observed_tables import read_columns

GRID = sw.CartesianGrid(20, 10, (0.0, 2e6), (0.0, 1e6))
DEPTH = np.full(GRID.shape, 1000.0)
DEPTH[:, :3] = 0.0
OCEAN = sw.ShallowWater(GRID, DEPTH, communicator="serial")
TIME = np.arange(0.0, 3600.0, 10.0)


def test_observations_at_one_time_are_no_reason_to_fail():
    """Two that disagree share the weight of one; a gauge without a window is named."""
    record = Record((0.0, 0.0), np.array([60.0, 60.0, 120.0]), np.array([0.1, 0.3, 0.2]))
    weighed = gauge_records({"a": record}, (0.0, 100.0), 0.5, 120.0)["a"]
    assert weighed.independent == 1.0 and weighed.counted()[2] == pytest.approx(0.5 * 0.1 * np.sqrt(2.0))
    again = gauge_records({"a": record}, (0.0, 200.0), 0.5, 120.0)["a"]
    assert again.deviation == pytest.approx(0.5 * np.std([0.1, 0.3, 0.2]) * np.sqrt([4.0, 4.0, 2.0]))
    assert again.independent == 1.0 and again.error == pytest.approx(0.5 * np.std([0.1, 0.3, 0.2]))
    with pytest.raises(ConfigError, match="gauge 'a' has no window; give it one"):
        gauge_records({"a": record}, {"b": (0.0, 100.0)})


def test_each_gauge_counts_as_much_as_its_length_in_units_of_its_variance():
    wave = np.sin(TIME / 200.0)
    records = {"near": Record((1e6, 5e5), TIME, 2.0 * wave), "far": Record((1.5e6, 5e5), TIME, 0.1 * wave)}
    scaled = gauge_records(records, (600.0, 3000.0), error=0.2, independent=120.0)
    for record in scaled.values():
        time, value, deviation = record.counted()
        assert time.min() >= 600.0 and time.max() <= 3000.0
        silence = np.sum(((value - value.mean()) / deviation) ** 2)  # as misfit of a constant: n dt / tau / e^2
        assert silence == pytest.approx(time.size * 10.0 / 120.0 / 0.2**2)


HOUR = 3600.0
MIXED = {  # [s] of samples, and the sum of their weights at 120 s: that of min(interval, 120 s) / 120 s
    "NDBC, 15 min, and 15 s and 1 min in an event": (
        (np.arange(0, 120 * HOUR, 900), np.arange(6 * HOUR, 6 * HOUR + 240, 15), np.arange(6 * HOUR, 9 * HOUR, 60)),
        558.0,
    ),
    "DART as retrieved, 15 s for 3 h of a day": (
        (np.arange(0, 24 * HOUR, 900), np.arange(6 * HOUR, 9 * HOUR, 15)),
        174.0,
    ),
    "tide gauge, 6 min, and 1 min for 2 h of 12": (
        (np.arange(0, 12 * HOUR, 360), np.arange(3 * HOUR, 5 * HOUR, 60)),
        160.0,
    ),
}


@pytest.mark.parametrize("kind", MIXED)
def test_each_sample_of_a_record_has_the_weight_of_its_own_interval(kind):
    """A median interval gave 100, 660 and 110 independent data, and slow samples an error 2.8 times too large."""
    parts, independent = MIXED[kind]
    time = np.unique(np.concatenate(parts))
    record = gauge_records({"a": Record((0, 0), time, np.sin(time / 1e3))}, (0.0, 1e9), deviation=0.02)["a"]
    assert record.independent == pytest.approx(independent, abs=1.0)
    assert record.error == pytest.approx(0.02)
    apart = np.diff(time)
    slow = np.flatnonzero((apart[:-1] >= 120.0) & (apart[1:] >= 120.0)) + 1
    assert record.counted()[2][slow] == pytest.approx(0.02)


def test_gauges_that_do_not_vary_are_named_all_at_once():
    records = {"dead": Record((0, 0), TIME, 0.0 * TIME), "late": Record((0, 0), TIME + 1e5, TIME)}
    with pytest.raises(ConfigError) as refused:
        gauge_records(records, (0.0, 3600.0), error=0.2)
    assert len(refused.value.mistakes) == 2 and "all are the same" in str(refused.value)
    with pytest.raises(ConfigError, match="(?s)gauge 'none' has no window.*all are the same"):
        gauge_records({"none": records["late"], **records}, {"dead": (0.0, 3600.0), "late": (0.0, 3600.0)}, error=0.2)
    quiet = {"dead": records["dead"]}
    assert gauge_records(quiet, (0.0, 3600.0), deviation=0.1)["dead"].error == pytest.approx(0.1)


def test_errors_of_gauges_are_metres_unless_a_share_is_asked_for():
    """As a share alone, a gauge that hardly moved had an error of micrometres, and J began at 2e9."""
    slow = {"slow": Record((1e6, 5e5), TIME, 10.0 + 1e-6 * TIME)}
    spread = float(np.std(1e-6 * TIME))
    for given, error in (
        ({}, 0.05),
        ({"deviation": 0.3}, 0.3),
        ({"error": 0.2}, 0.2 * spread),
        ({"deviation": 0.3, "error": 0.2}, np.hypot(0.3, 0.2 * spread)),
    ):
        assert gauge_records(slow, (0.0, 3600.0), **given)["slow"].error == pytest.approx(error)


def test_a_twins_errors_are_as_large_and_as_much_alike_as_they_are_said_to_be():
    """Of 2000 records with errors of 0.3 m, of which four count as one: J at the truth is n / 4 then, not n."""
    noise, time = np.random.default_rng(1), np.arange(200.0)
    record = Record((0.0, 0.0), time, np.zeros(200), 0.6, observations_per_datum=4.0)
    errors = np.stack([with_noise(record, noise).value for _ in range(2000)])
    assert np.std(errors) == pytest.approx(0.3, rel=0.02) and np.all(record.error == pytest.approx(0.3))
    assert 200 * np.var(errors.mean(axis=1)) == pytest.approx(4.0 * 0.3**2, rel=0.1)
    assert np.mean(np.sum((errors / 0.6) ** 2, axis=1)) == pytest.approx(record.independent, rel=0.02)


@pytest.mark.parametrize("text, ok", [("nan", True), ("", True), ("0,5", False), ("abc", False), ("0.5 m", False)])
def test_what_is_no_number_in_a_record_is_an_error_and_an_empty_field_a_gap(tmp_path, text, ok):
    path = tmp_path / "north.csv"
    path.write_text(f'time_s,elevation_m\n10,0.25\n20,"{text}"\n')
    if ok:
        np.testing.assert_array_equal(read_columns(path, ("time_s", "elevation_m"))["elevation_m"], [0.25, np.nan])
        return
    with pytest.raises(DataError, match=f"line 3: {text!r} in elevation_m is not a number"):
        read_columns(path, ("time_s", "elevation_m"))


@pytest.mark.parametrize(
    ("column", "value"),
    [("elevation_m", -9999.0), ("elevation_m", -99.9), ("elevation_m", 999.0), ("u_m_s", 99.99), ("v_m_s", -1e20)],
)
def test_numbers_that_stand_for_gaps_are_refused(column, value, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"time_s,{column}\n0,0.5\n60,{value}\n120,0.25\n")
    with pytest.raises(DataError, match=f"{column} is {value:g} at 60 s, .*; leave gaps empty".replace("+", ".")):
        read_columns(path, ("time_s", column))
    path.write_text(path.read_text().replace(f"{value}", "9.9"))
    assert read_columns(path, ("time_s", column))[column][1] == 9.9


def test_ground_tracks_cross_the_domain_up_and_down_and_repeat():
    tracks = ground_tracks(GRID, 86400.0, 8 * 86400.0, 1e5, 1e6, tilt=0.5, deviation=2.0)
    assert np.unique(tracks.time).tolist() == [86400.0 * (k + 0.5) for k in range(8)]
    first, second, fifth = (tracks.x[tracks.time == 86400.0 * (k + 0.5)] for k in (0, 1, 4))
    assert np.all(np.diff(first) == 5e4) and np.all(np.diff(second)[1:] == -5e4)
    assert np.allclose(first, fifth) and tracks.x.min() >= 0.0 and tracks.x.max() <= 2e6


def test_distances_of_ground_tracks_on_the_sphere_are_in_metres():
    ocean = sw.SphericalGrid(20, 10, (170.0, 190.0), (25.0, 35.0))
    metres = np.deg2rad(1.0) * ocean.radius  # of a degree of latitude
    tracks = ground_tracks(ocean, 100.0, 300.0, 0.5 * metres, 4.0 * metres * np.cos(np.deg2rad(30.0)), tilt=0.1)
    first, third = (tracks.x[tracks.time == time] for time in (50.0, 250.0))
    assert np.allclose(np.diff(tracks.y[tracks.time == 50.0]), 0.5) and np.allclose(third - first, 4.0)
    assert np.allclose(np.diff(first), 0.05 / np.cos(np.deg2rad(30.0)))


def test_points_at_one_place_become_one_record_and_those_on_land_none():
    tracks = Tracks(
        np.array([1e6, 1e6, 1.55e5, 5e5]), np.full(4, 5e5), np.array([30.0, 10.0, 5.0, 5.0]), np.arange(4.0), np.ones(4)
    )
    records = track_records(tracks, OCEAN, 100.0)
    assert sorted(record.place for record in records.values()) == [(5e5, 5e5), (1e6, 5e5)]
    (both,) = [record for record in records.values() if record.time.size == 2]
    assert both.time.tolist() == [10.0, 30.0] and both.value.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"x": np.array([3e6, 1e6])}, "1 of 2 points of the tracks lie outside the grid"),
        ({"time": np.array([1.0, 1e6])}, "1 of 2 points of the tracks lie outside the run from 0 to 100 s"),
        ({"deviation": np.array([0.0, 0.0])}, "2 of 2 points of the tracks have errors that are not positive"),
    ],
)
def test_what_no_run_can_see_is_one_clear_error(change, sentence):
    good = Tracks(np.array([5e5, 1e6]), np.full(2, 5e5), np.array([1.0, 2.0]), np.ones(2), np.ones(2))
    with pytest.raises(ConfigError, match=sentence):
        track_records(dataclasses.replace(good, **change), OCEAN, 100.0)


def test_tracks_are_read_with_their_own_errors_or_those_that_are_told(tmp_path):
    path = tmp_path / "tracks.csv"
    path.write_text("longitude,latitude,time_s,elevation_m\n140,35,10,0.5\n141,35.5,,1\n142,36,20,\n")
    tracks = read_tracks(path, 0.02)
    assert tracks.x.tolist() == [140.0, 142.0] and np.isnan(tracks.value[1]) and tracks.deviation.tolist() == [0.02] * 2
    with pytest.raises(DataError, match="no column deviation_m; add it"):
        read_tracks(path)
    path.write_text("x,y,time_s\n1,2,3\n")
    with pytest.raises(DataError, match="lacks the column elevation_m"):
        read_tracks(path, 0.02)
    with pytest.raises(DataError, match="there is no file"):
        read_tracks(tmp_path / "none.csv", 0.02)
