"""Tracers on the command line: a run, its files, a figure, a resumed run, and an ensemble."""

import netCDF4
import numpy as np
import pytest

pytestmark = pytest.mark.filterwarnings("ignore")

TEXT = """\
run = {until = "1 hour", engine = "arrays", communicator = "serial"}
grid = {type = "cartesian", nx = 8, ny = 6, x = [0, "80 km"], y = [0, "60 km"]}
bathymetry = {type = "flat", depth = "100 m"}
model = {precision = "float64", gravity = 0.1}
initial = {type = "formula", eta = "0.5 * cos(pi * x / (80 * km))"}
stepper = {type = "ssprk3", dt = 600}
tracer = [
    {name = "dye", units = "kg m-3", initial = "1 + x / (80 * km)", diffusivity = "1000 m2 s-1"},
    {name = "age", units = "s", source = 1, scheme = "centred"},
]
[output]
fields = [{file = "fields.nc", variables = ["dye", "age", "eta"], every = "30 min"}]
gauges = {variables = ["eta", "dye"], positions = { here = [25e3, 25e3] }}
restart = {every = "30 min"}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "e.toml").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.verify
def test_a_run_writes_what_is_resumed_and_drawn(folder, command):
    command.ok("run", "e.toml", "--until", "30 min")
    command.ok("resume", "restart.nc", "--until", "1 hour")
    with netCDF4.Dataset("fields.nc") as file:
        assert file["dye"].units == "kg m-3" and file["dye"].dimensions == ("time", "yh", "xh")
        np.testing.assert_allclose(file["age"][:], file["time"][:][:, None, None] * np.ones((6, 8)), rtol=1e-6)
        content = (np.asarray(file["dye"][:], float) * (100.0 + file["eta"][:])).sum((1, 2))
        np.testing.assert_allclose(content, content[0], rtol=1e-6)
        resumed = np.asarray(file["dye"][-1])
    with netCDF4.Dataset("gauges.nc") as file:
        assert file["dye"].shape == (1, 7) and np.ptp(file["dye"][:]) > 0
    command.ok("run", "e.toml", "--overwrite")
    with netCDF4.Dataset("fields.nc") as file:
        np.testing.assert_array_equal(file["dye"][-1], resumed)
    status, out, _ = command("plot", "fields.nc", "--kind", "maps", "--variable", "dye", "-o", "dye.png")
    assert status == 0 and (folder / "dye.png").stat().st_size > 5000, out


def test_an_ensemble_varies_a_tracers_diffusivity(folder, command):
    (folder / "e.toml").write_text(TEXT + '[ensemble]\n"tracer.0.diffusivity" = [0, 1e4]\n')
    command.ok("run", "e.toml")
    with netCDF4.Dataset("fields.nc") as file:
        last = np.asarray(file["dye"][-1])
        assert np.var(last[1]) < 0.99 * np.var(last[0])
