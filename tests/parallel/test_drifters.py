"""Drifters on any number of ranks have the places that they have on one, bit for bit, also after a restart."""

import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel.parallel import SerialCommunicator, make_communicator

from . import cases

DT, STEPS, ISLAND = 3000.0, 8, (slice(4, 7), slice(5, 8))
PLACES = 60


def written(folder, communicator, resumed=False):
    """Write the tracks in a flow that does not change and crosses both seams, up to several cells in a step."""
    grid = cases.plane("xy")
    psi = 4e4 * cases.random(5)  # at the corners north-east of the cells
    psi[3:7, 4:8] = psi[3, 4]
    dx, dy = (edges[1] - edges[0] for edges in (grid.x_edges, grid.y_edges))
    u, v = -(psi - np.roll(psi, 1, 0)) / dy + 1.5, (psi - np.roll(psi, 1, 1)) / dx - 1.0
    depth = np.full(grid.shape, 100.0)
    depth[ISLAND] = 0.0
    u[ISLAND[0], 4:8] = v[3:7, ISLAND[1]] = 0.0
    options = {"gravity": 1e-25, "linear": True, "communicator": communicator}
    model = sw.ShallowWater(grid, depth, **options)
    random = np.random.default_rng(4)
    x, y = random.uniform(0.0, grid.x[1], PLACES), random.uniform(0.0, grid.y[1], PLACES)
    sea = depth[(y / dy).astype(int), (x / dx).astype(int)] > 0

    def made():
        run = sw.Simulation(model, model.state(u, v, 0.0 * u), sw.RK4(DT))
        run.drifters(folder / "d.nc", DT, list(zip(x[sea], y[sea])), release=(0.0, 2 * DT))
        return run.restart(folder / "restart.nc")

    if not resumed:
        made().run(steps=STEPS)
        return
    made().run(steps=STEPS // 2)
    again = made()
    again.resume(folder / "restart.nc")
    again.run(steps=STEPS - STEPS // 2)


@pytest.mark.parametrize("how, layout", cases.in_turn(["in one run", "resumed"], later=["in one run"]), ids=str)
def test_drifters_are_where_they_are_on_one_rank(how, layout, tmp_path):
    ours = make_communicator("auto", (cases.NY, cases.NX), layout)
    written(tmp_path, ours, how == "resumed")
    if not ours.is_root:
        return
    (tmp_path / "one").mkdir()
    written(tmp_path / "one", SerialCommunicator())
    with xr.open_dataset(tmp_path / "d.nc") as found, xr.open_dataset(tmp_path / "one" / "d.nc") as one:
        for name in "xy":
            np.testing.assert_array_equal(found[name].values, one[name].values)
        jumps = np.abs(np.diff(one["x"].values)) / 1e4
        assert np.nanmax(jumps) > 8 and ((jumps > 1.5) & (jumps < 6)).any()  # over a seam; over cells and tiles
