"""Files of a box of cells and of blocks of them: means over water, faces in their places, readable by xgcm."""

import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel.errors import ConfigError, PlotError
from swmodel.output.netcdf import GridPart
from swmodel.postprocess import budgets
from swmodel.postprocess.files import open_output


def island(x, y):
    return np.where((x > 4e3) & (x < 7e3) & (y > 2e3) & (y < 5e3), 0.0, 100.0 + x / 1e3 + 0.0 * y)


def run(tmp_path, grid, every=2.0, **options):
    """The files "whole.nc" and "part.nc" of three steps."""
    model = sw.ShallowWater(grid, island, communicator="serial", engine="arrays")
    bump = lambda x, y: np.exp(-((x - 9e3) ** 2 + (y - 4e3) ** 2) / 4e6)  # noqa: E731
    simulation = sw.Simulation(model, model.state(eta=bump, u=0.1), sw.AB2(2.0))
    names = ("eta", "u", "v", "vorticity")
    simulation.write(tmp_path / "whole.nc", names, every=every)
    simulation.write(tmp_path / "part.nc", names, every=every, **options)
    simulation.run(steps=3)
    return (xr.open_dataset(tmp_path / name, decode_times=False) for name in ("whole.nc", "part.nc"))


@pytest.mark.parametrize("periodic", ("", "x"))
def test_a_box_has_the_values_of_the_whole_file(tmp_path, periodic):
    grid = sw.CartesianGrid(16, 12, (0.0, 16e3), (0.0, 12e3), periodic=periodic)
    whole, part = run(tmp_path, grid, box=(3e3, 12e3, 1e3, 8e3))
    assert part.sizes["xh"] == 9 and part.sizes["yh"] == 7 and part.sizes["xq"] == 10 and part.sizes["yq"] == 8
    for name in ("eta", "u", "v", "vorticity", "depth", "wet"):
        at = {dim: part[dim] for dim in part[name].dims if dim[0] in "xy"}
        np.testing.assert_array_equal(part[name], whole[name].sel(at), err_msg=name)


def test_blocks_have_means_over_water_and_faces_those_that_touch_it(tmp_path):
    grid = sw.CartesianGrid(16, 12, (0.0, 16e3), (0.0, 12e3), periodic="x")
    whole, part = run(tmp_path, grid, coarsen=4)
    assert part.sizes["xh"] == 4 and part.sizes["yh"] == 3 and part.sizes["xq"] == 4 and part.sizes["yq"] == 4
    np.testing.assert_allclose(part.xh, [2e3, 6e3, 10e3, 14e3])
    blocks = whole.eta.coarsen(xh=4, yh=4).mean()  # over cells with values, those of water
    np.testing.assert_allclose(part.eta, blocks, atol=1e-7)
    np.testing.assert_allclose(part.depth, whole.depth.where(whole.wet == 1).coarsen(xh=4, yh=4).mean(), rtol=1e-6)
    faces = whole.u.isel(xq=slice(3, None, 4)).coarsen(yh=4).mean()
    np.testing.assert_allclose(part.u, faces, atol=1e-7)
    np.testing.assert_allclose(part.xq, whole.xq[3::4])


def test_blocks_across_a_coast_keep_the_volume_of_their_cells(tmp_path):
    grid = sw.SphericalGrid(16, 16, (0.0, 16.0), (50.0, 66.0))
    depth = lambda x, y: 1000.0 * (x > 2.5) * (y < 63.5)  # noqa: E731
    model = sw.ShallowWater(grid, depth, communicator="serial", engine="arrays")
    state = model.state(eta=lambda x, y: 1.0 + 0.1 * (y - 50.0) + 0.0 * x, u=0.1)
    simulation = sw.Simulation(model, state, sw.AB2(2.0))
    for name, coarsen in (("whole.nc", 1), ("part.nc", 4)):
        simulation.write(tmp_path / name, ("eta", "u", "v", "vorticity"), every=4.0, coarsen=coarsen)
    simulation.run(steps=2)
    files = [open_output(tmp_path / name) for name in ("whole.nc", "part.nc")]
    whole, part = (budgets.budgets(file) for file in files)
    assert set(part) == {"volume", "mean_elevation"} < set(whole)  # the square of a mean is not the mean of squares
    for name in part:
        np.testing.assert_allclose(part[name], whole[name], rtol=1e-6)
    eta = [float((file.eta * file.area).isel(time=-1).sum()) for file in files]
    assert eta[1] == pytest.approx(eta[0], rel=1e-6)
    methods = [files[1][name].cell_methods for name in ("eta", "u", "v", "vorticity", "depth")]
    mean = "area: mean where sea"
    assert methods == [f"time: point {mean}", "time: point yh: mean", "time: point xh: mean", "time: point", mean]
    assert files[1].cells_along_blocks == 4 and "cells_along_blocks" not in files[0].attrs
    with pytest.raises(PlotError, match="transport: .*part.nc has means over blocks of 4 x 4 cells"):
        budgets.transport(files[1], (4.0, 52.0), (4.0, 60.0))


def test_xgcm_reads_the_axes_of_a_part(tmp_path):
    xgcm = pytest.importorskip("xgcm")
    grid = sw.CartesianGrid(16, 12, (0.0, 16e3), (0.0, 12e3))
    _, part = run(tmp_path, grid, every=None, box=(3e3, 12e3, 1e3, 9e3), coarsen=2)
    slope = xgcm.Grid(part).diff(part.u.fillna(0.0), "X")  # of the metadata in the file alone
    assert slope.sizes["xh"] == 4
    np.testing.assert_allclose(slope, np.diff(part.u.fillna(0.0), axis=-1))


def test_a_part_that_cannot_be_is_refused(tmp_path):
    grid = sw.CartesianGrid(16, 12, (0.0, 16e3), (0.0, 12e3))
    model = sw.ShallowWater(grid, 100.0, communicator="serial")
    simulation = sw.Simulation(model, model.at_rest(), sw.AB2(2.0))
    for options, said in (
        ({"box": (3e3, 2e3, 0.0, 1e3)}, "is no box; give"),
        ({"box": (0.0, 5e3, 0.0, 8e3), "coarsen": 4}, "the box has 5 cells along x, and coarsen = 4 needs 8 or more"),
        ({"coarsen": 0}, "coarsen = 0"),
    ):
        with pytest.raises(ConfigError, match=said):
            simulation.write(tmp_path / "part.nc", every=2.0, **options)
    with pytest.raises(ConfigError, match="a Zarr store has the whole grid"):
        simulation.write(tmp_path / "part.zarr", every=2.0, coarsen=2)


def test_a_part_of_the_sphere_that_goes_round_it_stays_periodic():
    whole = sw.SphericalGrid(36, 18, (0.0, 360.0), (-90.0, 90.0))
    ring = GridPart.of("a.nc", whole, (0.0, 360.0, -30.0, 30.0), 3)
    assert ring.grid == sw.SphericalGrid(12, 2, (0.0, 360.0), (-30.0, 30.0))
    for west, east in ((10.0, 100.0), (-350.0, -260.0)):
        some = GridPart.of("a.nc", whole, (west, east, -30.0, 30.0), 1)
        assert some.grid == sw.SphericalGrid(9, 6, (10.0, 100.0), (-30.0, 30.0))
    assert GridPart.of("a.nc", whole, (-180.0, 180.0, -30.0, 30.0), 3) == ring
    for west, east in ((-10.0, 10.0), (350.0, 370.0)):
        with pytest.raises(ConfigError, match="reaches across the ends of the grid's longitudes"):
            GridPart.of("a.nc", whole, (west, east, -30.0, 30.0), 1)
