"""The Tohoku source from the records of four gauges: `make verify OBSERVATIONS=folder`, skipped without them."""

import faulthandler
import os
import subprocess
import sys
import time

import numpy as np
import pytest

from swmodel.runtime import paths
from swmodel.runtime.launch import mpirun_environment

xr = pytest.importorskip("xarray")

RECORDS = os.environ.get("OBSERVATIONS", "")
EPICENTRE = 142.369, 38.322
GAUGES = ("21418", "21401", "21413", "KPG1")
PATIENCE = 5400.0  # [s]

pytestmark = [
    pytest.mark.verify,
    pytest.mark.skipif(not RECORDS, reason="OBSERVATIONS names no folder with the records of the gauges"),
]


@pytest.fixture(scope="module")
def inversion(tmp_path_factory):
    """(the file, minutes that it took)."""
    folder = tmp_path_factory.mktemp("inversion")
    command = [
        sys.executable,
        "-c",
        "from swmodel.__main__ import main; main()",
        "invert",
        str(paths.experiments() / "tohoku_2011" / "inversion.toml"),
        "--observations",
        os.path.abspath(RECORDS),
        "--output",
        str(folder),
        "--withhold",
    ]
    faulthandler.cancel_dump_traceback_later()  # pytest would end after 10 minutes, as if this hung
    begun = time.monotonic()
    subprocess.run(command, check=True, env=mpirun_environment(), timeout=PATIENCE)
    return xr.open_dataset(folder / "inversion.nc"), (time.monotonic() - begun) / 60.0


def misfit(file, name, role):
    """mean((eta - y)^2) / var(y) of a gauge."""
    mine = file["observation_gauge"].values == name
    y, eta = (file[f"observation_{column}"].values[mine] for column in ("observed", role))
    return np.mean((eta - y) ** 2) / np.var(y)


def test_it_ends_within_half_an_hour(inversion):
    assert inversion[1] < 30.0


def test_eighty_unknowns_or_more_take_away_nine_tenths_of_the_misfit(inversion):
    file = inversion[0]
    assert file["source_amplitude"].size >= 80
    before, after = (sum(misfit(file, name, role) for name in GAUGES) for role in ("background", "analysis"))
    assert after < 0.1 * before


def test_the_maximum_uplift_is_near_the_epicentre(inversion):
    eta = inversion[0]["initial_eta_analysis"]
    place = eta.where(eta == eta.max(), drop=True)
    x, y = float(place["xh"].values[0]), float(place["yh"].values[0])
    north, east = y - EPICENTRE[1], (x - EPICENTRE[0]) * np.cos(np.deg2rad(EPICENTRE[1]))
    assert 111.2 * np.hypot(north, east) < 150.0


@pytest.mark.parametrize("name", GAUGES)
def test_the_other_gauges_predict_each(inversion, name):
    assert misfit(inversion[0], name, "withheld") < misfit(inversion[0], name, "background")
