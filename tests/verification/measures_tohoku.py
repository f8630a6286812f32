"""The Tohoku tsunami with moving shores beside the experiment as it stands, at the three buoys."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import xarray as xr

from swmodel.runtime import resources
from swmodel.runtime.launch import mpirun_environment
from swmodel.verification.case import Case, Mark, Outcome

BUOYS = ("21418", "21401", "21413")
EXPERIMENT = resources.experiments() / "tohoku_2011"


def with_shores(text: str) -> str:
    """The experiment file with wetting and drying in place of a minimum depth."""
    text = re.sub(r"minimum_depth = .*\nfill_lakes = .*\n", "", text)
    text = text.replace('momentum = "energy_conserving"', 'momentum = "momentum_conserving"\nwetting = {thin = "1 cm"}')
    return text.replace('type = "forward_backward"', 'type = "ssprk3"')


def gauges(text: str, folder: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """{buoy: (seconds, levels [m])} of an experiment file for two hours, on one rank."""
    for name in ("etopo5_northwest_pacific.nc", "faults_satake2013.csv"):
        text = text.replace(f'"{name}"', f'"{EXPERIMENT / name}"')
    text = re.sub(r"(?s)\[\[output\.fields\]\].*?\n\n", "", text).replace('observations = "records"', "")
    (folder / "run.toml").write_text(text)
    command = [sys.executable, "-c", "from swmodel.cli import main; main()", "run", "run.toml"]
    command += ["--output", "out", "--quiet", "--until", "2hour"]
    subprocess.run(command, check=True, env=mpirun_environment(), cwd=folder)
    with xr.open_dataset(folder / "out" / "gauges.nc", decode_times=False) as found:
        names, levels = [str(name) for name in found.gauge_name.values], found.eta.transpose(..., "time").values
        return {name: (found.time.values, levels[names.index(name)]) for name in BUOYS}


def first_wave(seconds: np.ndarray, levels: np.ndarray) -> tuple[float, float]:
    """(the time at which a fifth of the maximum is passed [s], the maximum [m]), after a quarter of an hour."""
    late = seconds >= 900.0
    highest = levels[late].max()
    k = np.flatnonzero(late & (levels > highest / 5))[0]
    share = (highest / 5 - levels[k - 1]) / (levels[k] - levels[k - 1])
    return float(seconds[k - 1] + share * (seconds[k] - seconds[k - 1])), float(highest)


def tohoku_wetting() -> dict[str, float]:
    """The largest relative changes of the three maxima, and of the three arrivals."""
    text, found = (EXPERIMENT / "tohoku.toml").read_text(), []
    for file in (text, with_shores(text)):
        with tempfile.TemporaryDirectory() as folder:
            series = gauges(file, Path(folder))
        found.append(np.array([first_wave(*series[name]) for name in BUOYS]))
    changes = found[1] / found[0] - 1.0
    arrival, highest = (float(column[np.abs(column).argmax()]) for column in changes.T)
    return {"tohoku_wetting_maximum_error": highest, "tohoku_wetting_arrival_error": arrival}


Case(
    name="tohoku_wetting",
    group="coasts",
    title="The Tohoku tsunami with moving shores",
    tests="that wetting and drying, without a minimum depth, leaves the waves offshore as they were",
    source="the experiment tohoku_2011, by EnergyConserving and ForwardBackward, at 5 arc-minutes",
    doi="",
    equation="maxima and arrivals at DART 21418, 21401 and 21413",
    measure=lambda _: Outcome(tohoku_wetting()),
    marks=(
        Mark("tohoku_wetting_maximum_error", "largest relative change of a maximum", most=0.01),
        Mark("tohoku_wetting_arrival_error", "largest relative change of an arrival", most=0.01),
    ),
)
