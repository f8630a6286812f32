"""The stress of walls and coasts on a flow along them: Poiseuille's channel, whose discrete solution is known."""

import numpy as np
import pytest

import swmodel as sw

from .cases import tendency

VISCOSITY, FORCE, DEPTH, WIDTH = 500.0, 1e-5, 100.0, 8e4  # [m2 s-1], [m s-2], [m], [m]
CELLS = 8
KINDS = pytest.mark.parametrize("along, land", (("x", False), ("y", True)), ids=("walls along x", "coasts along y"))


def channel(along, side, land, **options):
    """A channel of 5 x CELLS cells along x or y, between walls or, one cell further out, between coasts."""
    rows = CELLS + 2 * land
    spacing = WIDTH / CELLS
    low = -land * spacing
    depth = np.full((rows, 5), DEPTH)
    if land:
        depth[[0, -1]] = 0.0
    limits = (0.0, 5e4), (low, low + rows * spacing)
    shape = (5, rows) if along == "x" else (rows, 5)
    grid = sw.CartesianGrid(*shape, *(limits if along == "x" else limits[::-1]), along)
    return sw.ShallowWater(grid, depth if along == "x" else depth.T, side=side, engine="arrays", **options)


def flowing(model, along, profile):
    """A State that flows along the channel, at `profile` of the distance from its first wall."""
    if along == "x":
        return model.state(u=lambda x, y: profile(y) + 0 * x)
    return model.state(v=lambda x, y: profile(x) + 0 * y)


def of_rows(model, along, state):
    """What the flow along the channel is in each row of water: (CELLS, 5)."""
    found = np.asarray(state.u if along == "x" else state.v.T)
    wet = np.asarray(model.wet if along == "x" else model.wet.T)
    return found[wet[:, 0]]


@KINDS
def test_poiseuilles_flow_between_no_slip_walls_is_steady(along, land):
    """u = F / (2 nu) [y (L - y) + dy^2 / 4]: the parabola of the continuous equations, raised by an error of second
    order, is where the discrete stress, at walls -2 nu u / dy, balances the force F exactly."""
    wind = {along: FORCE * 1000.0 * DEPTH}
    model = channel(
        along,
        sw.NoSlip(),
        land,
        dissipation=(sw.Laplacian(VISCOSITY),),
        forcing=(sw.WindStress(**wind, density=1000.0),),
    )
    dy = WIDTH / CELLS
    profile = lambda y: FORCE / (2 * VISCOSITY) * (y * (WIDTH - y) + dy**2 / 4)  # noqa: E731
    rates = tendency(model, flowing(model, along, profile))
    np.testing.assert_allclose(of_rows(model, along, rates), 0.0, rtol=0, atol=1e-10 * FORCE)


@KINDS
def test_walls_without_friction_leave_a_uniform_flow_alone_and_others_take_twice_its_speed(along, land):
    """Free slip has no stress. No slip takes nu u / (dy / 2) over a row of width dy, from the rows at walls alone."""
    dy = WIDTH / CELLS
    for side, rate in ((sw.FreeSlip(), 0.0), (sw.NoSlip(), -2.0 * VISCOSITY * 0.3 / dy**2)):
        model = channel(along, side, land, dissipation=(sw.Laplacian(VISCOSITY),))
        rates = of_rows(model, along, tendency(model, flowing(model, along, lambda y: 0.3 + 0 * y)))
        np.testing.assert_allclose(rates[[0, -1]], rate, rtol=1e-12, atol=1e-18)
        np.testing.assert_allclose(rates[1:-1], 0.0, rtol=0, atol=1e-18)
