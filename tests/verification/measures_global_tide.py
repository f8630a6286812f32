"""The M2 tide of the world ocean, by experiments/global_tide at half a degree: minutes on two cores.

Global tides from a potential alone, with a drag by internal waves: Arbic et al. (2004), doi:10.1016/j.dsr2.2004.09.014.
Power: 2.4 TW for M2, Egbert & Ray (2000), doi:10.1038/35015531.
"""

import functools
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

from swmodel.verification import Case, Mark, Outcome

FOLDER = Path(__file__).parents[2] / "experiments" / "global_tide"


def score_module():
    """score.py of the experiment, as a module."""
    described = importlib.util.spec_from_file_location("global_tide_score", FOLDER / "score.py")
    assert described is not None and described.loader is not None
    module = importlib.util.module_from_spec(described)
    described.loader.exec_module(module)
    return module


@functools.cache
def scores():
    """The scores of a run of the experiment as it is."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "swmodel", "run", str(FOLDER / "global_tide.toml"), "--output", folder]
        subprocess.run(command, check=True, capture_output=True, timeout=3 * 3600)
        return score_module().scores(Path(folder) / "harmonics.nc")


def measure(_: tuple = ()) -> Outcome:
    """The power and the error of M2."""
    found = scores()
    return Outcome({"global_m2_terawatts": found["m2_terawatts"], "global_m2_error_30": found["error_open_ocean"]})


Case(
    name="global_tide",
    group="tides",
    title="M2 of the world ocean",
    tests="tidal potential, self-attraction and internal-wave drag together",
    source="Arbic et al. (2004)",
    doi="10.1016/j.dsr2.2004.09.014",
    equation="power of the potential: 2.4 TW, Egbert and Ray (2000), doi:10.1038/35015531",
    measure=measure,
    marks=(
        Mark("global_m2_terawatts", "power that the potential of M2 puts into the ocean [TW]"),
        Mark("global_m2_error_30", "r.m.s. vector error of M2 at gauges of oceanic islands [cm], at 30'"),
    ),
)
