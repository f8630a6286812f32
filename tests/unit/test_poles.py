"""Corners at a pole: one value round it, of all tiles along it, and Stokes' theorem for the cap."""

import numpy as np
import pytest

import swmodel as sw
from swmodel.parallel import SerialCommunicator, make_communicator
from swmodel.runtime.compilation import jit
from tests.parallel import cases
from tests.selection import later

LAYOUTS = pytest.mark.parametrize("layout", (None, later((1, 3)), (2, 3), later((1, 2))), ids=str)


def globe(layout):
    """(a model of the globe with islands on so many tiles, u and v (NY, NX))."""
    shape = (cases.NY, cases.NX)
    communicator = SerialCommunicator() if layout is None else make_communicator("sharded", shape, layout)
    model = sw.ShallowWater(
        cases.globe(),
        cases.sea_floor(islands=False),
        coriolis=sw.RotatingSphere(),
        communicator=communicator,
        engine="arrays",
    )
    return model, 0.1 * cases.random(4), 0.1 * cases.random(5)


def corners(model, state):
    """{rank: (vorticity, thickness) at the corners of its tile, and of the row to the south of it}."""

    def program(dynamics, state):
        flow = dynamics.prepare().flow(state, 0.0)
        wanted = flow.vorticity, flow.h_q
        return [field.crop((0, 0, 1, 0)).data for field in wanted]

    return model.communicator.tiles(jit(model.communicator.spmd(program))(model.interval(2, 0, 100.0), state))


@LAYOUTS
def test_the_vorticity_at_a_pole_is_the_circulation_round_the_cap_over_its_area(layout):
    """Every corner at the pole holds zeta = (sum of u dx round the nearest circle of u points) / (the area within it);
    the thickness there is the mean round the pole."""
    model, u, v = globe(layout)
    parts, metrics = model.decomposition, model.grid.metrics(np.arange(cases.NY))
    dx, area = np.broadcast_to(metrics["dx_u"], (cases.NY, 1)), np.broadcast_to(metrics["area_h"], (cases.NY, 1))
    state = model.state(u=u, v=v)
    for rank, (found, thickness) in corners(model, state).items():
        tile, (rows, columns) = parts.tile(rank), parts.padding(rank)
        for row, edge, sign in ((0, tile.j0 == 0, -1), (-1, tile.j1 == cases.NY, +1)):
            if not edge:
                continue
            # eastward is clockwise seen from above the south pole; half of the row's area lies within its u points
            circulation = sign * u[row].sum() * dx[row, 0]
            cap = 0.5 * area[row, 0] * cases.NX
            at = rows if row == 0 else -1
            np.testing.assert_allclose(found[at, columns:], circulation / cap, rtol=1e-12)
            mean = model.depth[row].mean()
            np.testing.assert_allclose(thickness[at, columns:], mean, rtol=1e-12)


def test_a_pole_among_the_ghost_rows_behind_a_wall_changes_nothing():
    """Rows of 7.5 degrees end at 75 degrees: the second ghost row ends at the pole, where faces have no length."""
    grid = sw.SphericalGrid(nx=12, ny=20, longitude=(0, 90), latitude=(-75, 75))
    form = {"momentum": sw.MomentumConserving(), "wetting": sw.WettingDrying(), "coriolis": sw.RotatingSphere()}
    model = sw.ShallowWater(grid, 2500.0, engine="arrays", **form)
    states = [model.state(eta=lambda x, y, k=k: k * np.exp(-(((x - 40) / 20) ** 2) - (y / 60) ** 2)) for k in (0, 1)]
    at_rest, wave = (sw.Simulation(model, s, sw.ForwardBackwardHancock(dt=300.0)).run(steps=20) for s in states)
    assert not any(np.abs(at_rest[name]).max() for name in ("eta", "u", "v"))
    volume = [float(np.sum(np.asarray(state.eta) * grid.area_h)) for state in (states[1], wave)]
    np.testing.assert_allclose(volume[1], volume[0], rtol=1e-12)
    north_and_south = np.asarray(wave.eta) - np.asarray(wave.eta)[::-1]
    assert np.abs(north_and_south).max() < 1e-12 * np.abs(np.asarray(wave.eta)).max() + 1e-12
