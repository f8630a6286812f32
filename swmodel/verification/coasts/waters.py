"""Marks of rain on land and of rivers: a kinematic wave, and the contents of a tidal channel."""

import numpy as np

import swmodel as sw
from swmodel.units import hour

from ..case import Case, Mark, Outcome, Panel
from .shores import ROWS, model_of

SLOPE, ROUGHNESS, LENGTH = 0.01, 0.02, 100.0  # of the plane [1], [s m-1/3], [m]
RAIN, TIMES = 50e-3 / hour, (150.0, 300.0, 450.0, 700.0)  # [m s-1], [s]
FLOW = np.sqrt(SLOPE) / ROUGHNESS  # q = FLOW h^(5/3)
SEA, MEAN, PERIOD = 35.0, 500.0, 12.42 * hour  # the salt of the sea [1e-3], the discharge [m3 s-1], the tide


def kinematic_wave(x: np.ndarray, time: float) -> np.ndarray:
    """h [m] at distances x [m] from the ridge, `time` [s] after rain sets in on a dry plane."""
    return np.minimum(RAIN * time, (RAIN * x / FLOW) ** 0.6)


def rain_plane(cells: int = 100) -> Outcome:
    """Rain runs down a plane into a pit below it; h on the upper 95 % of it, over which the pit has no influence."""
    dx, pit = LENGTH / cells, cells // 10
    grid = sw.CartesianGrid(cells + pit, ROWS, (0.0, LENGTH + pit * dx), (0.0, ROWS * dx), periodic="y")

    def depth(x, y):
        return np.where(x < LENGTH, -SLOPE * (LENGTH - x), 0.5) - 1.0 + 0.0 * y

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
    doi="",
    equation="salt = 35 (volume - fresh),  fresh = integral of Q",
)
