"""Marks of rain on land, of rivers, and of beds finer than the grid.

A kinematic wave, the contents of a tidal channel, and a flood along a winding channel on cells four times as long.
"""

from collections.abc import Callable

import numpy as np

import swmodel as sw

from ..units import hour, minute
from .case import Case, Mark, Outcome, Panel, map_in_km
from .shores import ROWS, model_of

PLANE_SLOPE, ROUGHNESS, PLANE_LENGTH = 0.01, 0.02, 100.0  # of the plane [1], [s m-1/3], [m]
RAIN, TIMES = 50e-3 / hour, (150.0, 300.0, 450.0, 700.0)  # [m s-1], [s]
FLOW = np.sqrt(PLANE_SLOPE) / ROUGHNESS  # q = FLOW h^(5/3)
SEA, MEAN, PERIOD = 35.0, 500.0, 12.42 * hour  # the salt of the sea [1e-3], the discharge [m3 s-1], the tide


def kinematic_wave(x: np.ndarray, time: float) -> np.ndarray:
    """h [m] at distances x [m] from the ridge, `time` [s] after rain sets in on a dry plane."""
    return np.minimum(RAIN * time, (RAIN * x / FLOW) ** 0.6)


def rain_plane(cells: int = 100) -> Outcome:
    """Rain runs down a plane into a pit below it; h on the upper 95 % of it, over which the pit has no influence."""
    dx, pit = PLANE_LENGTH / cells, cells // 10
    grid = sw.CartesianGrid(cells + pit, ROWS, (0.0, PLANE_LENGTH + pit * dx), (0.0, ROWS * dx), periodic="y")

    def depth(x, y):
        return np.where(x < PLANE_LENGTH, -PLANE_SLOPE * (PLANE_LENGTH - x), 0.5) - 1.0 + 0.0 * y

    model = model_of(grid, depth, 1e-5, forcing=sw.Rain(RAIN), dissipation=sw.ManningDrag(ROUGHNESS), dtype="float64")
    simulation = sw.Simulation(model, model.at_rest(), sw.SSPRK3(0.125 * dx))
    x, errors, lines = grid.x_centres[: int(0.95 * cells)], [], {}
    for time in TIMES:
        eta = np.asarray(simulation.run(until=time).eta)[2, : x.size]
        h, exact = eta + model.depth[2, : x.size], kinematic_wave(x, time)
        errors.append(np.abs(h - exact).sum() / exact.sum())
        lines |= {f"{time:g} s": (x, 1e3 * h), f"{time:g} s, exact": (x, 1e3 * exact)}
    fallen = RAIN * TIMES[-1] * grid.nx * grid.ny
    lost = float(np.sum(np.asarray(simulation.state.eta) - np.asarray(model.at_rest().eta))) / fallen - 1.0
    panel = Panel("Rain on a plane", "lines", lines, labels=("distance from the ridge [m]", "thickness [mm]"))
    return Outcome({"rain_plane_error": max(errors), "rain_plane_lost": lost}, (panel,))


def river_plume(hours: float = 50.0) -> Outcome:
    """A river at the head of a tidal channel. The plume does not reach the mouth, where the tide comes in.

    The content of a tracer that the river has is that of its discharge. Salt, of which the sea has 35 and the river
    none, is what the rest of the volume holds; and a tracer that is 1 everywhere is the volume.
    """
    grid = sw.CartesianGrid(75, 5, (0.0, 150e3), (0.0, 10e3))
    discharge = sw.Record([0.0, 7.3 * hour, 20.1 * hour, 60.0 * hour], [0.2 * MEAN, 2.0 * MEAN, MEAN, 0.5 * MEAN])
    mouth = [(149e3, 3e3), (149e3, 5e3), (149e3, 7e3)]
    river = sw.River(discharge, mouth, velocity_x=-0.2, concentrations={"fresh": 1.0, "one": 1.0})
    model = sw.ShallowWater(
        grid,
        lambda x, y: 20.0 - 5e-5 * x + 0.0 * y,
        forcing=river,
        dissipation=sw.QuadraticDrag(2.5e-3),
        boundaries=sw.Flather("west", incoming=sw.Tide({"M2": (0.5, 0.0)}, ramp=3 * hour)),
        tracers=[sw.Tracer(name, initial=c, outside=c) for name, c in (("fresh", 0.0), ("salt", SEA), ("one", 1.0))],
        dtype="float64",
    )
    dt = 60.0
    end = sw.Simulation(model, model.at_rest(), sw.ForwardBackward(dt)).run(until=hours * hour)
    area = float(np.ravel(grid.area_h)[0])
    volume = area * np.sum(model.depth + np.asarray(end.eta))
    fresh, salt, one = (area * np.sum(np.asarray(end[name])) for name in ("fresh", "salt", "one"))
    seconds = round(hours * hour / dt) * dt
    moments = np.append(discharge.times[discharge.times < seconds], seconds)
    brought = np.trapezoid(np.interp(moments, discharge.times, discharge.values), moments)
    return Outcome({
        "river_volume_error": fresh / brought - 1.0,
        "river_salt_error": max(abs(salt + SEA * (fresh - volume)) / salt, abs(one / volume - 1.0)),
    })  # fmt: skip


Case(
    name="rain_plane",
    group="coasts",
    measure=lambda chosen: rain_plane(*chosen),
    marks=(
        Mark("rain_plane_error", "largest l1 error of h at four times, relative", most=0.01),
        Mark("rain_plane_lost", "water over the rain that has fallen, less 1", most=1e-9),
    ),
    quick=(50,),
    title="Rain on a tilted plane",
    tests="that rain stays on dry land, and runs off as a film with friction",
    source="Woolhiser and Liggett (1967)",
    doi="10.1029/WR003i003p00753",
    equation="h = min(R t, (n R x / sqrt(S))^(3/5))",
)
Case(
    name="river_plume",
    group="coasts",
    measure=lambda chosen: river_plume(*chosen),
    marks=(
        Mark("river_volume_error", "content of the river's tracer over that of its discharge, less 1", most=1e-12),
        Mark("river_salt_error", "salt, and a constant tracer, against the volume, relative", most=1e-12),
    ),
    quick=(6.0,),
    title="A river in a tidal channel",
    tests="the volume and the contents that a river brings",
    source="conservation of volume and salt",
    equation="salt = 35 (volume - fresh),  fresh = integral of Q",
)


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
        map_in_km(f"Flooded land on {name}", x, y, np.where(each, water, np.nan))
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
