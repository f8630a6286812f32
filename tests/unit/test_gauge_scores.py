"""Scores of gauges by what a run is: waves arrive, tides have constants, surges a peak, and land a flow depth."""

import datetime

import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel.adjoint.costs.harmonics import constants_in
from swmodel.errors import PlotError
from swmodel.forcing.constituents import nodal, period
from swmodel.output.metadata import run_attributes
from swmodel.output.netcdf import GaugeFile
from swmodel.output.products.gauges import depth_at
from swmodel.output.products.means import Harmonics
from swmodel.postprocess import export
from swmodel.postprocess.series import read_gauges

gauges = pytest.importorskip("swmodel.postprocess.gauges")
scores = pytest.importorskip("swmodel.postprocess.scores")
files = pytest.importorskip("swmodel.postprocess.files")

HOUR = 3600.0
START = datetime.datetime(2011, 3, 11)
GRID = sw.CartesianGrid(100, 6, (0.0, 1e4), (0.0, 600.0))
PLACES = {"sea": (6e3, 300.0), "beach": (8.05e3, 300.0), "hill": (9.9e3, 300.0)}


def dataset_of(tmp_path, time, series, config="", depth=None):
    """The file of gauges with the elevations `series` [m], (n, gauges), as a run writes it."""
    attributes = {"config": config, "film_thickness": 1e-3}
    places = dict(list(PLACES.items())[: series.shape[1]])
    with GaugeFile(tmp_path / "gauges.nc", places, GRID, start=START, attributes=attributes, depth=depth) as file:
        file.append(time, series)
    return files.open_output(tmp_path / "gauges.nc")


def test_a_gauge_on_land_is_scored_by_the_depth_of_the_flow(tmp_path):
    """The bed's level was taken for the sea's, which "arrived before the window opens"."""
    slope = sw.ShallowWater(
        GRID,
        lambda x, y: 20.0 - x / 400.0,
        momentum=sw.MomentumConserving(),
        wetting=sw.WettingDrying(thin=1e-3),
        communicator="serial",
    )
    depth = depth_at(PLACES, slope)
    assert depth == pytest.approx([5.0, -0.125, -4.75])
    time = np.arange(0.0, 2401.0, 5.0)
    wave = 0.3 * np.exp(-(((time - 1000.0) / 200.0) ** 2))
    level = np.stack([wave, np.maximum(wave, 0.125 + 5e-4), np.full(time.size, 4.75)], 1)
    with dataset_of(tmp_path, time, level, depth=depth) as data:
        series = read_gauges(data)
    record = scores.Series("beach", time, np.maximum(wave, 0.125))
    sea, beach, hill = scores.scores(series, {"beach": record})
    assert sea.maximum == pytest.approx(0.3) and not sea.notes
    assert beach.maximum == pytest.approx(0.175, abs=1e-4) and beach.observed_maximum == pytest.approx(0.175)
    assert beach.arrival == time[np.argmax(wave > 0.135)] == beach.observed_arrival
    assert np.isnan([hill.maximum, hill.arrival]).all() and hill.notes[-1] == "the model stays dry"
    assert "flow over ground at 4.75 m" in scores.table([sea, beach, hill])
    page = gauges.figure(xr.Dataset(), series=series[1:], observations={"beach": record})
    assert (
        page.axes[0].get_title("left") == "beach, flow depth on land" and page.axes[1].lines[0].get_ydata().max() == 0
    )


TIDE = """
[[boundary]]
type = "flather"
elevation.constituents.M2 = {amplitude = 1.0, phase = 0.0}
elevation.constituents.K1 = {amplitude = 0.3, phase = 0.0}
"""
STORM = TIDE + '[[forcing]]\ntype = "cyclone"\n'
QUAKE = STORM + '[source]\nfile = "faults.csv"\n'


def tide(time, constants):
    return sum(
        factor * size * np.cos(2 * np.pi * time / period(name) + argument - np.deg2rad(lag))
        for name, (size, lag) in constants.items()
        for factor, argument in [nodal(name, START, 45.0)]  # as the forcing takes on a plane
    )


def test_a_tide_is_scored_by_its_constants_and_a_surge_by_its_peak(tmp_path):
    time = np.arange(0.0, 10 * 24 * HOUR, 600.0)
    level = tide(time, {"M2": (0.8, 40.0), "K1": (0.2, 350.0)})
    record = scores.Series("sea", time, tide(time, {"M2": (0.9, 50.0), "K1": (0.3, 10.0)}))
    for config, kind in ((TIDE, "tide"), (STORM, "storm"), (QUAKE, "")):
        with dataset_of(tmp_path, time, level[:, None], config) as data:
            assert files.driving(data) == (kind, ("M2", "K1") if kind else ())
            (row,) = scores.scores(read_gauges(data), {"sea": record})
        (tmp_path / "gauges.nc").unlink()
        text = scores.table([row])
        if not kind:
            assert text.split()[1] == "arrival" and not row.constants
            continue
        assert row.constants["M2"] == pytest.approx((0.8, 40.0), abs=1e-4)
        assert row.observed_constants["K1"] == pytest.approx((0.3, 10.0), abs=1e-4)
        assert row.maximum == pytest.approx(level.max()) and row.peak == time[np.argmax(level)]
        assert "arriv" not in text.lower() and text.split()[1] == "peak"
        cells = text.splitlines()[5].split()
        assert cells == ["sea", "0.800", "0.900", "40", "50", "0.200", "0.300", "350", "10"]
    spun_up = np.where(time < 48 * HOUR, 0.0, level)
    for begin in ("2 days", "0.0054757 yr"):
        late = TIDE + f'[output.harmonics]\nbegin = "{begin}"\n'
        with dataset_of(tmp_path, time, spun_up[:, None], late) as data:
            (row,) = scores.scores(read_gauges(data))
        (tmp_path / "gauges.nc").unlink()
        assert row.constants["M2"] == pytest.approx((0.8, 40.0), abs=1e-4)
    short = time <= 20 * HOUR
    with dataset_of(tmp_path, time[short], level[short, None], STORM) as data:
        (row,) = scores.scores(read_gauges(data))
    assert list(row.constants) == ["M2"] and "too short for the constants of K1" in row.notes[-1]


def simulation_of(grid=GRID, **options):
    """A Simulation of an even basin with these parts."""
    model = sw.ShallowWater(grid, 20.0, communicator="serial", engine="arrays", **options)
    return sw.Simulation(model, model.at_rest(), sw.ForwardBackward(2.0), start=START)


@pytest.mark.parametrize("latitude", (None, -40.0))
def test_constants_have_the_nodal_factors_of_the_forcing(tmp_path, latitude):
    """Those of Q1 depend most on the latitude, by satellites of third degree."""
    given = sw.Tide({"Q1": (0.3, 40.0), "K1": (0.2, 350.0)}, start=START, latitude=latitude)
    simulation = simulation_of(boundaries=sw.Flather("west", elevation=given))
    forcing = simulation.model.open_boundaries[0].elevation
    about, time = run_attributes(simulation), np.arange(0.0, 40 * 24 * HOUR, 600.0)
    theta = [2 * np.pi * time / period(name) for name in forcing.names]
    waves = zip(theta, np.asarray(forcing.factor), np.asarray(forcing.argument), given.constituents.values())
    level = sum(f * size * np.cos(turn + angle - np.deg2rad(lag)) for turn, f, angle, (size, lag) in waves)
    with GaugeFile(tmp_path / "gauges.nc", {"A": (4e3, 3e3)}, GRID, start=START, attributes=about) as file:
        file.append(time, level[:, None])
    with files.open_output(tmp_path / "gauges.nc") as data:
        assert files.driving(data) == ("tide", ("Q1", "K1")) and about["nodal_latitude"] == (latitude or 45.0)
        (row,) = scores.scores(read_gauges(data))
    assert row.constants["Q1"] == pytest.approx((0.3, 40.0), abs=1e-3)
    (ours,) = Harmonics(("Q1",)).prepared(simulation).nodal
    assert ours == pytest.approx((float(forcing.factor[0]), float(forcing.argument[0])), rel=1e-6)


def test_files_name_the_constituents_of_a_potential_and_of_a_nest():
    sphere = sw.SphericalGrid(24, 24, (0.0, 12.0), (30.0, 42.0))
    potential = run_attributes(simulation_of(sphere, forcing=sw.TidalPotential(start=START)))
    assert potential["tidal_constituents"] == "M2 S2 N2 K2 K1 O1 P1 Q1" and potential["nodal_latitude"] is None
    assert files.driving(xr.Dataset(attrs={"tidal_constituents": "M2"})) == ("tide", ("M2",))
    atlas = '[[boundary]]\ntype = "flather"\nelevation = {atlas = ["tide.nc"]}\n'  # of files without the attribute
    assert files.driving(xr.Dataset(attrs={"config": atlas})) == ("tide", ())
    tide = sw.Flather("west", elevation=sw.Tide({"Q1": (0.3, 40.0)}, start=START))
    nest = sw.Nest("bay", x=(4.0, 8.0), y=(32.0, 35.0), ratio=2)
    family = sw.Family(sphere, 100.0, [nest], boundaries=tide, communicator="serial")
    nested = sw.NestedSimulation(family, family.states(), sw.ForwardBackward(60.0), start=START)
    factors = [Harmonics(("Q1",)).prepared(nested[name]).nodal for name in ("", "bay")]
    assert factors[0] == factors[1] == (nodal("Q1", START, 36.0),)
    assert run_attributes(nested["bay"])["nodal_latitude"] == 36.0


def test_constants_at_gauges_are_a_table_that_inversions_read(tmp_path):
    time = np.arange(0.0, 20 * HOUR, 600.0)  # too short for K1 beside M2
    level = np.stack([tide(time, {"M2": (0.8, 40.0)}), tide(time, {"M2": (0.2, 350.0)})], 1)
    dataset_of(tmp_path, time, level, TIDE).close()
    export(tmp_path / "gauges.nc", tmp_path / "constants.csv")
    head, *_ = (tmp_path / "constants.csv").read_text().splitlines()
    assert head == "name,x,y,M2_amplitude_m,M2_phase_deg,K1_amplitude_m,K1_phase_deg"
    constants, unused = constants_in(tmp_path / "constants.csv", ["M2", "K1"], deviation=0.05)
    assert (constants["sea"].place, unused) == (PLACES["sea"], [])
    assert [constants[name].constants["M2"] for name in ("sea", "beach")] == [
        pytest.approx((0.8, 40.0), abs=1e-4),
        pytest.approx((0.2, 350.0), abs=1e-4),
    ]
    assert np.isnan(constants["sea"].constants["K1"]).all()
    for option in ({"levels": (0.0,)}, {"crs": "EPSG:32654"}, {"record": 0}, {"variable": "eta"}):
        with pytest.raises(PlotError, match=f"a table of constants, which has no {next(iter(option))}; leave it out"):
            export(tmp_path / "gauges.nc", tmp_path / "refused.csv", **option)
    (tmp_path / "gauges.nc").unlink()
    dataset_of(tmp_path, time, level, QUAKE).close()
    with pytest.raises(PlotError, match="had no tide; give the gauges of one that has"):
        export(tmp_path / "gauges.nc", tmp_path / "none.csv")
    assert not (tmp_path / "none.csv").exists()
