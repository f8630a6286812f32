"""The linear double gyre comes to the western boundary current of Munk (1950),
doi:10.1175/1520-0469(1950)007<0080:OTWDOC>2.0.CO;2."""

import numpy as np
import pytest

import swmodel as sw
from swmodel.simulation.simulation import Simulation
from swmodel.units import Sv, day, km

SIZE, STRESS, BETA, VISCOSITY, DENSITY = 2000 * km, 0.1, 2e-11, 1000.0, 1025.0


def munk_transport():
    """max psi [m3 s-1] of Munk's solution for tau_x = -STRESS cos(2 pi y / SIZE), his equations 12 to 14."""
    k, r = (BETA / VISCOSITY) ** (1 / 3), SIZE
    x = np.linspace(0.0, r, 20001)
    amplitude = 2 / np.sqrt(3) - np.sqrt(3) / (k * r)
    western = amplitude * np.exp(-k * x / 2) * np.cos(np.sqrt(3) / 2 * k * x + np.sqrt(3) / (2 * k * r) - np.pi / 6)
    shape = 1.0 - western - (k * x - np.exp(-k * (r - x)) - 1.0) / (k * r)
    curl = 2 * np.pi / SIZE * STRESS / DENSITY
    return r / BETA * curl * shape.max()


@pytest.mark.verify
def test_the_western_boundary_transport_is_within_five_percent_of_munks():
    """128 x 128 cells, as the experiment has; a larger reduced gravity leaves the steady state and hastens it."""
    grid = sw.CartesianGrid(nx=128, ny=128, x=(0.0, SIZE), y=(0.0, SIZE))
    model = sw.ShallowWater(
        grid, depth=1000.0, gravity=1.0, coriolis=sw.BetaPlane(f0=7e-5, beta=BETA), linear=True, side=sw.NoSlip(),
        forcing=sw.WindStress(x=lambda x, y: -STRESS * np.cos(2 * np.pi * y / SIZE), density=DENSITY),
        dissipation=sw.Laplacian(VISCOSITY),
    )  # fmt: skip
    simulation = Simulation(model, model.at_rest(), sw.ForwardBackward(dt=250.0))
    simulation.run(until=70 * day)
    transports = []
    for _ in range(8):  # the mean over some days leaves the basin's free waves out
        state = simulation.run(steps=400)
        transports.append(np.cumsum(1000.0 * np.asarray(state.v) * SIZE / 128, axis=1))
    streamfunction = np.mean(transports, axis=0)
    measured, expected = np.abs(streamfunction).max(), munk_transport()
    print(f"western boundary transport {measured / Sv:.2f} Sv, Munk's {expected / Sv:.2f} Sv")
    assert abs(measured / expected - 1.0) < 0.05
