"""Drifters in a steady vortex return to where they were released.

The currents are those of a stream function at the corners, a Gaussian that is 0 from some radius on. The elevation
balances them: it is f / g times the mean of the stream function around each centre. In the linear mode on the f-plane
that state is steady to rounding. A drifter then has to keep to its streamline, which is closed; the mark is the
distance at its return.
"""

import tempfile
from pathlib import Path

import numpy as np
import xarray as xr

from ...dynamics.momentum import FPlane
from ...grids.grid import CartesianGrid
from ...models.shallow_water import ShallowWater
from ...simulation.simulation import Simulation
from ...stepping.explicit import RK4
from ..case import Case, Mark, Outcome, Panel

F, DEPTH, CELL, DT = 1e-4, 100.0, 1e3, 30.0  # [s-1], [m], [m], [s]
SPEED = 2.0  # about the largest [m s-1]
RADII = (0.4, 0.8, 1.3)  # of the releases, in radii of the vortex


def _vortex(n):
    """(model, its steady state, centre (x, y), radius) of n x n cells; the centre is at no symmetric place [m]."""
    grid = CartesianGrid(n, n, (0.0, n * CELL), (0.0, n * CELL))
    centre, radius = ((0.5 * n + 0.3) * CELL, (0.5 * n - 0.2) * CELL), n * CELL / 6.0
    x, y = grid.x_edges[None, :] - centre[0], grid.y_edges[:, None] - centre[1]
    share, end = (x**2 + y**2) / radius**2, (0.5 * n - 1.5) ** 2 * CELL**2 / radius**2
    psi = -SPEED * radius * np.where(share < end, np.exp(-share) - np.exp(-end), 0.0)
    u, v = -np.diff(psi, axis=0)[:, 1:] / CELL, np.diff(psi, axis=1)[1:] / CELL
    model = ShallowWater(grid, DEPTH, coriolis=FPlane(F), linear=True, communicator="serial")
    around = 0.25 * (psi[1:, 1:] + psi[1:, :-1] + psi[:-1, 1:] + psi[:-1, :-1])
    return model, model.state(u, v, F / model.gravity * around), centre, radius


def closure(n: int) -> tuple[float, Panel]:
    """(the largest distance of a first return from the release, as a share of the way round, a map of the tracks)."""
    model, state, centre, radius = _vortex(n)
    middle = [(np.floor(0.5 * n + share * radius / CELL) + 0.5) * CELL for share in RADII]  # of cells, without a kink
    steps = int(1.2 * 2 * np.pi * max(RADII) * radius / (0.35 * SPEED * DT))
    with tempfile.TemporaryDirectory() as folder:
        simulation = Simulation(model, state, RK4(DT))
        simulation.drifters(Path(folder) / "drifters.nc", DT, [(x, (0.5 * n + 0.5) * CELL) for x in middle])
        simulation.run(steps=steps)
        with xr.open_dataset(Path(folder) / "drifters.nc") as dataset:
            tracks = dataset["x"].values + 1j * dataset["y"].values
    found = [_closure(track, complex(*centre)) for track in tracks]
    lines = {f"{share:g} radii": (track.real / 1e3, track.imag / 1e3) for share, track in zip(RADII, tracks)}
    return max(found), Panel("tracks of the drifters", "lines", lines, labels=("x [km]", "y [km]"))


def _closure(track, centre):
    """The distance between the release and the track where it comes round, over the length of that way."""
    angle = np.unwrap(np.angle(track - centre))
    turned = np.abs(angle - angle[0]) / (2 * np.pi)
    k = int(np.argmax(turned >= 1.0))
    if k == 0:
        raise ValueError("a drifter has not come round; run longer.")
    near = slice(k - 2, k + 2)  # a cubic through two places before and two after
    powers = np.vander(turned[near] - 1.0, 4)
    there = np.linalg.solve(powers, track[near])[-1]
    return float(abs(there - track[0]) / np.abs(np.diff(track[: k + 1])).sum())


def _measure(resolutions: tuple) -> Outcome:
    value, panel = closure(resolutions[-1])
    return Outcome({"drifter_closure": value}, [panel])


Case(
    name="drifters",
    group="planar",
    title="Drifters in a steady vortex",
    tests="the velocity within cells and the way of drifters through them",
    source="Pollock (1988)",
    doi="10.1111/j.1745-6584.1988.tb00425.x",
    equation="dx/dt = u: closed streamlines, in a linear flow in geostrophic balance",
    measure=_measure,
    marks=(
        Mark(
            "drifter_closure",
            "distance between a release and the first return, over the length of the turn; the largest of three",
            most=1e-6,
        ),
    ),
    resolutions=(24,),
    quick=(12,),
    norm="distance over the length of the turn",
)
