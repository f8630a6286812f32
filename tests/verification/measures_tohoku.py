"""Waves over the north-west Pacific by the momentum form of coasts, at three buoys.

The Tohoku tsunami with moving shores beside the experiment as it stands; and a hump of water by both momentum forms,
beside the experiment's own with cells of half the size.
"""

import dataclasses
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from swmodel.runtime import paths
from swmodel.runtime.launch import mpirun_environment
from swmodel.verification.case import Case, Mark
from swmodel.verification.shores import by_stepper

BUOYS = ("21418", "21401", "21413")
EXPERIMENT = paths.experiments() / "tohoku_2011"
CODA = 49 * 60.0  # [s], when the first wave has passed 21418
HUMP = """[initial]
type = "gaussian"
amplitude = "5 m"
centre = [143.0, 38.0]
radius = "50 km"

"""


STEPPERS = {"": "ssprk3", "_one_stage": "forward_backward_hancock"}  # with the suffixes of cases and marks


def with_shores(text: str, stepper: str) -> str:
    """The experiment file with wetting and drying in place of a minimum depth."""
    text = re.sub(r"minimum_depth = .*\nfill_lakes = .*\n", "", text)
    text = text.replace('momentum = "energy_conserving"', 'momentum = "momentum_conserving"\nwetting = {thin = "1 cm"}')
    return text.replace('type = "forward_backward"', f'type = "{stepper}"')


def hump(text: str, form: str = "energy_conserving", stepper: str = "forward_backward", finer: int = 1) -> str:
    """The experiment file with a hump of water in place of the source, a momentum form with its stepper, and `finer`
    times the cells."""
    begin, end = text.index("[source]"), text.index("[stepper]")
    text = text[:begin] + HUMP + text[end:]
    text = text.replace("nx = 720", f"nx = {finer * 720}").replace("ny = 540", f"ny = {finer * 540}")
    text = text.replace('type = "forward_backward"', f'type = "{stepper}"')
    return text.replace('momentum = "energy_conserving"', f'momentum = "{form}"')


def gauges(text: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """{buoy: (seconds, levels [m])} of an experiment file for two hours, on one rank."""
    for name in ("etopo5_northwest_pacific.nc", "faults_satake2013.csv"):
        text = text.replace(f'"{name}"', f'"{EXPERIMENT / name}"')
    text = re.sub(r"(?s)\[\[output\.fields\]\].*?\n\n", "", text).replace('observations = "records"', "")
    command = [sys.executable, "-c", "from swmodel.__main__ import main; main()", "run", "run.toml"]
    command += ["--output", "out", "--quiet", "--until", "2hour"]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "run.toml").write_text(text)
        subprocess.run(command, check=True, env=mpirun_environment(), cwd=folder)
        with xr.open_dataset(Path(folder, "out", "gauges.nc"), decode_times=False) as found:
            names, levels = [str(name) for name in found.gauge_name.values], found.eta.transpose(..., "time").values
            return {name: (found.time.values, levels[names.index(name)]) for name in BUOYS}


def first_wave(seconds: np.ndarray, levels: np.ndarray) -> tuple[float, float]:
    """(the time at which a fifth of the maximum is passed [s], the maximum [m]), after a quarter of an hour."""
    late = seconds >= 900.0
    highest = levels[late].max()
    k = np.flatnonzero(late & (levels > highest / 5))[0]
    share = (highest / 5 - levels[k - 1]) / (levels[k] - levels[k - 1])
    return float(seconds[k - 1] + share * (seconds[k] - seconds[k - 1])), float(highest)


def wave_error(run: tuple, fine: tuple) -> float:
    """The r.m.s. difference of two series (seconds, levels) in the first wave over the r.m.s. of the second one [%].

    The first wave lasts from a quarter of an hour to 20 minutes after the crest of the second series.
    """
    seconds, levels = fine
    late = seconds >= 900.0
    window = late & (seconds <= seconds[late][levels[late].argmax()] + 1200.0)
    difference = np.interp(seconds, *run) - levels
    return float(100.0 * np.sqrt(np.mean(difference[window] ** 2) / np.mean(levels[window] ** 2)))


def coda(stepper: str) -> dict[str, float]:
    """What is left of a hump's waves at 21418 from the 49th to the 120th minute, and errors of the first wave."""
    text = (EXPERIMENT / "tohoku.toml").read_text()
    runs = {
        "coda": hump(text, "momentum_conserving", stepper),
        "coda_ocean": hump(text),
        "coda_fine": hump(text, finer=2),
    }
    series, found = {name: gauges(file) for name, file in runs.items()}, {}
    for name, run in series.items():
        seconds, levels = run["21418"]
        found[f"{name}_cm"] = float(100.0 * levels[seconds >= CODA].std())
    for name in ("coda", "coda_ocean"):
        errors = {buoy: wave_error(series[name][buoy], series["coda_fine"][buoy]) for buoy in BUOYS}
        found |= {f"{name}_first_wave_{buoy}": error for buoy, error in errors.items()}
    return found


def tohoku_wetting(stepper: str) -> dict[str, float]:
    """The largest relative changes of the three maxima, and of the three arrivals."""
    text = (EXPERIMENT / "tohoku.toml").read_text()
    here, shores = (
        np.array([first_wave(*run[name]) for name in BUOYS]) for run in map(gauges, (text, with_shores(text, stepper)))
    )
    changes = shores / here - 1.0
    arrival, highest = (float(column[np.abs(column).argmax()]) for column in changes.T)
    return {"tohoku_wetting_maximum_error": highest, "tohoku_wetting_arrival_error": arrival}


def register(name: str, measure: Callable, marks: Sequence[Mark], title: str, **declared: Any) -> None:
    """Register the cases of a function of the stepper's name, one for each stepper."""
    for suffix, measured in by_stepper(measure, STEPPERS):
        Case(
            name=name + suffix,
            group="coasts",
            title=title + (", in one stage" if suffix else ""),
            doi="",
            measure=measured,
            marks=tuple(dataclasses.replace(mark, name=mark.name + suffix) for mark in marks),
            **declared,
        )


register(
    "tohoku_wetting",
    tohoku_wetting,
    (
        Mark("tohoku_wetting_maximum_error", "largest relative change of a maximum", most=0.01),
        Mark("tohoku_wetting_arrival_error", "largest relative change of an arrival", most=0.01),
    ),
    "The Tohoku tsunami with moving shores",
    tests="that wetting and drying, without a minimum depth, leaves the waves offshore as they were",
    source="the experiment tohoku_2011, by EnergyConserving and ForwardBackward, at 5 arc-minutes",
    equation="maxima and arrivals at DART 21418, 21401 and 21413",
)
register(
    "coda",
    coda,
    (
        Mark("coda_cm", "standard deviation of the coda, by MomentumConserving [cm]", most=2.0),
        Mark("coda_ocean_cm", "the same by EnergyConserving [cm]"),
        Mark("coda_fine_cm", "the same by EnergyConserving with cells of 2.5 arc-minutes [cm]"),
        *(
            Mark(f"coda_first_wave_{buoy}", "first wave by MomentumConserving: r.m.s. error [%]", most=most)
            for buoy, most in zip(BUOYS, (2.9, 3.5, 4.7))
        ),
        *(Mark(f"coda_ocean_first_wave_{buoy}", "the same by EnergyConserving [%]") for buoy in BUOYS),
    ),
    "What a hump of water leaves behind at DART 21418",
    tests="that waves which the grid does not resolve are damped, and the first wave is not",
    source="the experiment tohoku_2011 with a hump of 5 m and 50 km for its source, and cells of 5 and 2.5 arc-minutes",
    equation="standard deviation of the level from 49 to 120 minutes; r.m.s. difference of the first wave",
)
