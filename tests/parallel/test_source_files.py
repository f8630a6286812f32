"""Sources and levels from files of every kind on any number of ranks: the sea that one rank has."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel.config.assembly import assemble, model_of
from swmodel.config.experiment import read_text
from swmodel.parallel import SerialCommunicator, make_communicator

from . import cases

pytestmark = cases.MORE_THAN_FOUR
EXPERIMENT = """\
grid = {type = "spherical", nx = 40, ny = 30, longitude = [140, 144], latitude = [36, 39]}
bathymetry = {type = "file", file = "base.nc", margin = 2, minimum_depth = "10 m", patches = [{file = "bay.nc"}]}
stepper = {type = "forward_backward", dt = 20}
run = {until = "3 min"}
"""
SOURCES = {
    "unit sources": '[source]\nfile = "sift.csv"\nkajiura = true\nhorizontal = true\n[source.slips]\nkiszb26 = 5.0\n',
    "a moving floor": '[source]\nfile = "slide.nc"\n',
    "a level": '[initial]\ntype = "level"\nfile = "level.nc"\n',
}
SIFT = (
    "name,longitude_deg,latitude_deg,strike_deg,dip_deg,depth_km\n"
    "kisza26,142.2622,37.2982,202.0,21.0,22.92\nkiszb26,142.3930,37.4806,202.0,19.0,5.0\n"
)


def field(low, high, step, values, name, times=None):
    """A field of longitudes and latitudes from `low` to `high` (x, y)."""
    x, y = (np.arange(a + step / 2, b, step) for a, b in zip(low, high))
    axes = {"lat": ("lat", y, {"units": "degrees_north"}), "lon": ("lon", x, {"units": "degrees_east"})}
    z = values(x[None], y[:, None]) + 0.0 * x[None] * y[:, None]
    array = xr.DataArray(z, axes, name=name, attrs={"units": "m"})
    if times is None:
        return array
    moved = xr.concat([k * array for k in range(len(times))], "time")
    return moved.assign_coords(time=("time", np.asarray(times, float), {"units": "s"}))


def write_files(folder):
    west, east = (139.0, 35.0), (145.0, 40.0)
    field(west, east, 0.1, lambda x, y: -3000.0 + 300.0 * np.sin(3 * x) * np.cos(2 * y), "elevation").to_netcdf(
        folder / "base.nc"
    )
    field((141.0, 36.8), (143.0, 38.2), 0.05, lambda x, y: -200.0 * (x - 140.0), "elevation").to_netcdf(
        folder / "bay.nc"
    )
    hump = lambda x, y: np.exp(-((x - 142.0) ** 2 + (y - 37.5) ** 2) / 0.2)  # noqa: E731
    field((141.0, 36.5), (143.0, 38.5), 0.1, hump, "dz", [0.0, 60.0, 100.0]).to_netcdf(folder / "slide.nc")
    field((141.0, 36.5), (143.0, 38.5), 0.1, hump, "level").to_netcdf(folder / "level.nc")
    (folder / "sift.csv").write_text(SIFT)


def final(folder, more, **options):
    made = assemble(read_text(EXPERIMENT + more, "run.toml", str(folder)))
    assert made.sentences() == []
    model = model_of(made, **options)
    state = made.experiment().initial.state(model)
    return model, sw.Simulation(model, state, sw.ForwardBackward(20.0)).run(steps=9)


@pytest.mark.parametrize("kind", [*list(SOURCES)[:2], pytest.param("a level", marks=pytest.mark.verify)])
def test_a_source_file_gives_the_sea_of_one_rank(tmp_path, kind):
    ranks = make_communicator("auto", (30, 40))
    folder = Path(str(ranks.host_broadcast(tmp_path)))
    if ranks.is_root:
        write_files(folder)
    ranks.barrier()
    model, ours = final(folder, SOURCES[kind])
    whole = cases.from_root(lambda: final(folder, SOURCES[kind], communicator=SerialCommunicator())[1])
    for name in ("u", "v", "eta"):
        expected = np.asarray(whole[name])
        assert np.abs(expected).max() > 1e-4
        scale = np.abs(expected).max()
        np.testing.assert_allclose(np.asarray(ours[name]), expected[model.tile.slices], rtol=0, atol=1e-5 * scale)
