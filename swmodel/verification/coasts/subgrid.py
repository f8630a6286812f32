"""Marks of beds finer than the grid: a flood along a winding channel, on cells four times as long."""

from collections.abc import Callable

import numpy as np

import swmodel as sw
from swmodel.units import hour, minute

from ..case import Case, Mark, Outcome, Panel
from .shores import model_of

LENGTH, WIDTH, FINE = 2560.0, 1280.0, 20.0  # of the valley, and of the fine cells [m]
COAST, SLOPE, RISE = 2000.0, 1.5e-3, 8e-3  # where the sea begins [m]; of the plain, and away from the channel [1]
CHANNEL, BANKFULL = 30.0, 3.0  # half of the channel's width, and its depth [m]
PEAK, WET = 500.0, 0.05  # discharge [m3 s-1]; the depth from which land counts as flooded [m]


def middle(x: np.ndarray | float) -> np.ndarray:
    """y of the middle of the channel [m]."""
    return 0.5 * WIDTH + 180.0 * np.sin(2.0 * np.pi * x / 1500.0)


def depth(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The depth of the valley [m], below 0 on land: a winding channel in an uneven plain that leads to the sea."""
    away = np.abs(y - middle(x))
    uneven = 0.25 * np.sin(x / 47.0 + y / 83.0) * np.sin(y / 39.0 - x / 131.0)
    plain = 0.6 + SLOPE * (COAST - x) + uneven + RISE * away
    across = np.minimum(away / (1.5 * CHANNEL), 1.0)
    bed = plain - BANKFULL * np.minimum(0.75 * (1.0 + np.cos(np.pi * across)), 1.0)
    sea = np.clip((x - COAST) / 300.0, 0.0, 1.0)
    return -((1.0 - sea) * bed - sea * 4.0)


def flood(ratio: int, floor: Callable, hours: float) -> np.ndarray:
    """The highest level [m] of cells of `ratio` x FINE, (ny, nx), -inf in those that were never wet.

    Args:
        ratio: of the length of cells.
        floor: `floor(grid)` gives the depth, or a topography.
        hours: from the beginning of the flood, which rises for 45 minutes.
    """
    dx = ratio * FINE
    grid = sw.CartesianGrid(round(LENGTH / dx), round(WIDTH / dx), (0.0, LENGTH), (0.0, WIDTH))
    x, y = grid.x_centres, grid.y_centres
    mouth = {
        (float(a), float(b))
        for a in x[np.abs(x - 120.0) <= 80.0]
        for b in y[np.abs(y - middle(120.0)) <= max(CHANNEL, 0.5 * dx)]
    }
    river = sw.River(sw.Record([0.0, 0.75 * hour, 10.0 * hour], [50.0, PEAK, PEAK]), sorted(mouth))
    friction, side = sw.ManningDrag(0.03), sw.Flather("east")
    parts = {"forcing": river, "dissipation": friction, "boundaries": side, "dtype": "float64"}
    model = model_of(grid, floor(grid), 1e-3, **parts)
    simulation = sw.Simulation(model, model.at_rest(), sw.ForwardBackwardHancock(0.04 * dx))
    level = np.full(grid.shape, -np.inf)
    while simulation.time < hours * hour:
        simulation.run(until=simulation.time + 15.0 * minute)
        wet = model.depth + np.asarray(simulation.state.eta) > 1e-3
        level = np.maximum(level, np.where(wet, np.asarray(simulation.shown().eta), -np.inf))
    return level


def channel_flood(hours: float = 1.5, ratio: int = 4) -> Outcome:
    """A flood on fine cells, and on cells `ratio` times as long with the mean bed and with tables of the fine one."""
    fine = sw.CartesianGrid(round(LENGTH / FINE), round(WIDTH / FINE), (0.0, LENGTH), (0.0, WIDTH))
    x, y = fine.x_centres, fine.y_centres
    bed = depth(x[None, :], y[:, None])
    means = bed.reshape(y.size // ratio, ratio, x.size // ratio, ratio).mean(axis=(1, 3))
    floors = {
        "fine cells": (1, lambda grid: bed),
        "long cells": (ratio, lambda grid: means),
        "long cells with tables": (ratio, lambda grid: sw.topography(depth, grid, subgrid=ratio)),
    }
    depths = {
        name: np.maximum(np.kron(flood(r, floor, hours), np.ones((r, r))) + bed, 0.0)
        for name, (r, floor) in floors.items()
    }
    flooded = [(water > WET) & (bed < 0) for water in depths.values()]
    area = np.count_nonzero(flooded[0])
    misplaced = [float(np.count_nonzero(each ^ flooded[0]) / area) for each in flooded[1:]]
    panels = tuple(
        Panel(
            f"Flooded land on {name}", "map", np.where(each, water, np.nan), x / 1e3, y / 1e3, ("x [km]", "y [km]"), "m"
        )
        for (name, water), each in zip(depths.items(), flooded)
    )
    values = {"subgrid_gain": misplaced[0] / misplaced[1], "subgrid_misplaced": misplaced[1]}
    return Outcome(values | {"subgrid_extent_error": float(np.count_nonzero(flooded[2]) / area) - 1.0}, panels)


Case(
    name="subgrid_channel",
    group="coasts",
    measure=lambda chosen: channel_flood(*chosen),
    marks=(
        Mark(
            "subgrid_extent_error",
            "flooded area with tables over that on fine cells, less 1",
            least=-0.05,
            most=0.05,
            quick=False,
        ),
        Mark("subgrid_misplaced", "land flooded in one of both alone, over that flooded on fine cells", quick=False),
        Mark("subgrid_gain", "misplaced land without tables over that with them", least=2.0),
    ),
    quick=(0.25,),
    title="A flood along a winding channel on long cells",
    tests="that tables of volume and conveyance stand for a bed four times finer than the cells",
    source="van Ormondt et al. (2025)",
    doi="10.5194/gmd-18-843-2025",
    equation="h(eta) = mean of max(eta + d, 0),  K = mean of h_k^(5/3)",
)
