"""Banks over which a wave of the source is too short for the cells: one sentence at `check` and at `run`."""

from types import SimpleNamespace

import numpy as np
import pytest

import swmodel as sw
from swmodel.cli.checks import check_experiment
from swmodel.cli.model_remarks import wave_remarks

R = 30e3  # of the hump exp(-(r / R)^2), whose length is 2 pi R / sqrt(2) = 133 km
BANK = """\
run = {until = "1 h"}
grid = {type = "cartesian", nx = 100, ny = 60, x = [0, "500 km"], y = [0, "300 km"]}
bathymetry = {type = "formula", depth = "4000 - 3980 * exp(-((x - 350e3)^2 + (y - 150e3)^2) / (40e3)^2)"}
initial = {type = "gaussian", amplitude = 1, centre = ["100 km", "150 km"], radius = "30 km"}
stepper = {type = "ab2"}
"""


def hump(x, y):
    return np.exp(-((x - 100e3) ** 2 + (y - 150e3) ** 2) / R**2)


def said(shallowest=20.0, source=None, **state):
    """The warning for a bank of this depth on cells of 5 km."""
    grid = sw.CartesianGrid(100, 60, (0.0, 500e3), (0.0, 300e3))

    def depth(x, y):
        return 4000.0 - (4000.0 - shallowest) * np.exp(-((x - 350e3) ** 2 + (y - 150e3) ** 2) / 40e3**2)

    model = sw.ShallowWater(grid, depth, communicator="serial", engine="arrays")
    return wave_remarks(SimpleNamespace(source=source), model, model.state(**state))


def test_check_says_where_a_wave_of_the_source_has_fewer_than_eight_cells(tmp_path, capsys):
    (tmp_path / "case.toml").write_text(BANK)
    check_experiment(str(tmp_path / "case.toml"), (), 1)
    (sentence,) = [line for line in capsys.readouterr().out.splitlines() if "wave of the source" in line]
    assert sentence.startswith(
        "warning: a wave of the source is 134 km long in water of 4000 m, and has fewer than 8 cells"
    )
    assert ": 3 at (347500, 147500)." in sentence  # 134 km sqrt(52 m / 4000 m) / 5 km


def test_only_banks_that_are_too_shallow_for_the_cells_are_named():
    assert said(eta=hump) and not said(400.0, eta=hump)  # 8 cells need 360 m
    assert not said() and not said(eta=hump, u=0.1)  # rest, and a flow that is no wave of a source
    x, y = np.meshgrid(np.arange(2.5e3, 500e3, 5e3), np.arange(2.5e3, 300e3, 5e3))
    assert said(source=sw.BottomMotion([0.0, 60.0], np.stack([0 * x, hump(x, y)]))) == said(eta=hump)


@pytest.mark.parametrize("radius", (20e3, 30e3))
def test_the_length_of_a_source_is_that_of_its_mean_square_slope(radius):
    (sentence,) = said(eta=lambda x, y: np.exp(-((x - 150e3) ** 2 + (y - 150e3) ** 2) / radius**2))
    length = 1e3 * float(sentence.split(" is ")[1].split(" km")[0])
    assert length == pytest.approx(2 * np.pi * radius / np.sqrt(2.0), rel=0.02)
