"""Marks of beds finer than the grid: a flood in a valley with a winding channel, on cells four times as long."""

import numpy as np

import swmodel as sw
from swmodel.units import hour

from ..case import Case, Mark, Outcome, Panel

LENGTH, WIDTH, SLOPE = 2560.0, 1280.0, 1.5e-3  # of the valley [m], [m], [1]
COAST, CHANNEL, BANKFULL = 2000.0, 15.0, 4.0  # where the sea begins, half the channel's width and its depth [m]
RISE, PEAK = 0.008, 600.0
RATIO, WET = 4, 0.05  # of the length of cells; the depth of a flood [m]


def depth(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The depth of the valley [m], below 0 on land: a winding channel in an uneven plain between slopes, and the sea."""
    axis = 0.5 * WIDTH + 180.0 * np.sin(2.0 * np.pi * x / 1500.0)
    plain = 0.6 + SLOPE * (COAST - x) + 0.25 * np.sin(x / 47.0 + y / 83.0) * np.sin(y / 39.0 - x / 131.0)
    plain = plain + RISE * np.abs(y - axis)
    across = np.minimum(np.abs(y - axis) / (1.5 * CHANNEL), 1.0)
    bed = plain - BANKFULL * np.minimum(1.5 * (1.0 + np.cos(np.pi * across)) / 2.0, 1.0)
    shore = np.clip((x - COAST) / 300.0, 0.0, 1.0)
    return -((1.0 - shore) * bed + shore * -4.0)


def flood(ratio: int, subgrid: int | None, hours: float):
    """(the highest level [m], where it was wet) on cells of `ratio` x 20 m, (ny, nx); with tables if `subgrid`."""
    dx = 20.0 * ratio
    nx, ny = round(LENGTH / dx), round(WIDTH / dx)
    grid = sw.CartesianGrid(nx, ny, (0.0, LENGTH), (0.0, WIDTH))
    floor = sw.topography(depth, grid, subgrid=subgrid) if subgrid else sw.topography(block_means(ratio), grid)
    middle = 0.5 * WIDTH + 180.0 * np.sin(2.0 * np.pi * 120.0 / 1500.0)
    source = {
        (float(x), float(y))
        for x in grid.x_centres[np.abs(grid.x_centres - 120.0) <= 80.0]
        for y in grid.y_centres[np.abs(grid.y_centres - middle) <= max(CHANNEL, 0.5 * dx)]
    }
    model = sw.ShallowWater(
        grid,
        floor,
        momentum=sw.MomentumConserving(),
        wetting=sw.WettingDrying(),
        forcing=sw.River(sw.Record([0.0, 0.75 * hour, 10 * hour], [50.0, PEAK, PEAK]), sorted(source)),
        dissipation=sw.ManningDrag(0.03),
        boundaries=sw.Flather("east"),
        dtype="float64",
    )
    simulation = sw.Simulation(model, model.at_rest(), sw.ForwardBackwardHancock(0.04 * dx))
    level = -np.inf
    for time in np.arange(0.25, hours + 0.01, 0.25):
        simulation.run(until=time * hour)
        level = np.maximum(level, np.asarray(simulation.shown().eta))
    return grid, level, model


def block_means(ratio):
    fine = sw.CartesianGrid(round(LENGTH / 20.0), round(WIDTH / 20.0), (0.0, LENGTH), (0.0, WIDTH))
    d = depth(fine.x_centres[None, :], fine.y_centres[:, None])
    return d.reshape(d.shape[0] // ratio, ratio, d.shape[1] // ratio, ratio).mean((1, 3))
