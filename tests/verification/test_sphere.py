"""Steady zonal flow on the whole rotating sphere, poles included: Williamson et al. (1992), test 2.

doi:10.1016/S0021-9991(05)80016-6: u = u0 cos(phi), g h = g h0 - (a Omega u0 + u0^2 / 2) sin^2(phi), along the grid.
"""

import numpy as np

import swmodel as sw

from .cases import globe, take_steps

A, OMEGA, G, H0 = 6.37122e6, 7.292e-5, 9.80616, 2.94e4 / 9.80616
U0 = 2 * np.pi * A / (12 * 86400)


def errors(nx, ny, dt, steps):
    """Relative l2 errors of (u, eta), the largest |v| over u0, after `steps` of `dt`."""
    grid = sw.SphericalGrid(nx, ny, (0.0, 360.0), (-90.0, 90.0), radius=A)
    model = sw.ShallowWater(grid, H0, gravity=G, coriolis=sw.RotatingSphere(OMEGA))
    level = lambda x, y: -(A * OMEGA * U0 + U0**2 / 2) / G * np.sin(np.deg2rad(y)) ** 2 + 0 * x  # noqa: E731
    flow = lambda x, y: U0 * np.cos(np.deg2rad(y)) + 0 * x  # noqa: E731
    start = model.state(u=flow, eta=level)
    state, _ = take_steps(model, sw.SSPRK3(dt), start, steps)
    weighted = lambda x: float(np.sqrt(np.sum(grid.area_h * np.asarray(x) ** 2)))  # noqa: E731
    relative = [weighted(a - b) / weighted(b) for a, b in ((state.u, start.u), (state.eta, start.eta))]
    return *relative, float(np.abs(state.v).max()) / U0


def test_steady_zonal_flow_converges_at_second_order():
    coarse, fine = errors(12, 12, 600.0, 72), errors(12, 24, 300.0, 144)
    assert fine[0] < 0.01 and fine[1] < 0.01
    for k in range(2):
        assert np.log2(coarse[k] / fine[k]) > 1.7


def test_potential_vorticity_has_one_value_at_a_pole_beside_land():
    from swmodel.runtime.compilation import jit

    from .cases import random_state, rough

    depth = rough(globe())
    depth[0, :4], depth[-1, 2:9] = 0.0, 0.0
    model = sw.ShallowWater(globe(), depth, coriolis=sw.RotatingSphere(), momentum=sw.ArakawaLamb())
    state = random_state(model)
    corners = jit(lambda d, s: d.prepare().flow(s, 0.0).q.crop((0, 0, 1, 0)).data)
    q = corners(model.interval(2, 0, 1.0), state)
    q = np.asarray(q)
    assert np.ptp(q[0]) <= 1e-15 * np.abs(q[0]).max() and np.ptp(q[-1]) <= 1e-15 * np.abs(q[-1]).max()
    assert np.ptp(q[1]) > 0
