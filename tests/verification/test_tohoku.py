"""The 2011 Tohoku tsunami, run as a user runs it, reaches the DART buoys when it did."""

import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

from swmodel import postprocess
from swmodel.runtime import paths
from swmodel.runtime.launch import mpirun_environment

from . import measures_tohoku
from .measures import measured

# First time after 900 s above a fifth of the record's maximum before 7200 s [s], and that maximum [m], from the records
# of NOAA's buoys with the tides removed.
OBSERVED = {"21418": (1800.0, 1.78), "21401": (3580.0, 0.65), "21413": (4556.0, 0.81)}


def gauges(folder, *overrides):
    """{name: (seconds, elevation)} of the experiment with `overrides`, on one rank."""
    command = [sys.executable, "-c", "from swmodel.__main__ import main; main()", "run"]
    command += [str(paths.experiments() / "tohoku_2011" / "tohoku.toml"), "--output", str(folder), "--quiet"]
    for override in overrides:
        command += ["--set", override]
    subprocess.run(command, check=True, env=mpirun_environment())
    with xr.open_dataset(folder / "gauges.nc", decode_times=False) as series:
        names = [str(name) for name in series.gauge_name.values]
        return {name: (series.time.values, series.eta.values[k]) for k, name in enumerate(names)}


def arrival(seconds, elevation):
    """(first time after 900 s above a fifth of the maximum before 7200 s, that maximum)."""
    early = seconds < 7200.0
    highest = elevation[early].max()
    late = (seconds > 900.0) & (elevation > highest / 5)
    return seconds[np.argmax(late)], highest


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the experiment writes as it stands."""
    return tmp_path_factory.mktemp("fine")


@pytest.fixture(scope="module")
def fine(folder):
    """Gauges of the experiment as it stands."""
    return gauges(folder)


@pytest.mark.verify
def test_on_quarter_degrees_it_reaches_the_buoys_within_ten_minutes(tmp_path):
    series = gauges(tmp_path, "grid.nx=240", "grid.ny=180", "run.until=7200")
    for name, (when, _) in OBSERVED.items():
        assert abs(arrival(*series[name])[0] - when) < 600.0, name


@pytest.mark.verify
@pytest.mark.parametrize("name, minutes", [("21418", 3.0), ("21401", 5.0), ("21413", 5.0)])
def test_it_reaches_each_buoy_on_time_and_within_a_factor_of_two(fine, name, minutes):
    when, highest = arrival(*fine[name])
    observed, most = OBSERVED[name]
    assert abs(when - observed) < 60.0 * minutes
    assert 0.5 < highest / most < 2.0


@pytest.mark.verify
def test_its_page_is_smaller_than_ten_megabytes(fine, folder):
    pytest.importorskip("matplotlib")
    page = postprocess.report(folder)
    assert page.stat().st_size < 10e6
    assert all(f"<td>{name}</td>" in page.read_text() for name in fine)


@pytest.mark.verify
def test_an_open_side_at_160_e_changes_no_gauge_by_two_percent(fine, tmp_path):
    dt = float(np.diff(fine["21418"][0])[0])
    near = gauges(tmp_path, "grid.longitude=[120, 160]", "grid.nx=480", f"stepper.dt={dt!r}")
    for name, (seconds, elevation) in fine.items():
        other = np.interp(seconds, *near[name])
        assert np.abs(other - elevation).max() < 0.02 * np.abs(elevation).max(), name


MARKS = ["tohoku_wetting_maximum_error", "tohoku_wetting_arrival_error", "coda_cm"]
MARKS += [f"coda_first_wave_{buoy}" for buoy in measures_tohoku.BUOYS]


@pytest.mark.verify
@pytest.mark.parametrize("suffix", measures_tohoku.STEPPERS)
@pytest.mark.parametrize("name", MARKS)
def test_marks_of_moving_shores_and_of_the_coda_are_met(name, suffix):
    mark, value = measured(name + suffix)
    assert mark.passes(value), f"{mark.name} = {value}, wanted {mark.limits}"
