"""Marks of bores and shores against exact solutions; docs/guide/coast.md has their figures."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import swmodel as sw

from ..grids.grid import Grid
from ..grids.windows import FieldLike
from .case import Case, Mark, Outcome
from .exact_flows import CarrierGreenspan, CarrierWuYeh, DamBreak, PlanarBowl, RadialBowl

Stepper = Callable[[float], sw.TimeStepper]
ROWS = 5  # rows of a channel, at least as many as the halo has


def one_stage(dt: float) -> sw.TimeStepper:
    """ForwardBackwardHancock for a run whose time step by SSPRK3 is dt [s]: its longest step is 0.6 times as long."""
    return sw.ForwardBackwardHancock(0.6 * dt)


OWN_RANGES = {"ritter_front_cells_one_stage": 2.5, "carrier_greenspan_error_one_stage": 0.051}  # the fronts' lag is 2.2
STEPPERS: dict[str, Stepper] = {"": sw.SSPRK3, "_one_stage": one_stage}  # with the suffixes of their cases and marks


def model_of(grid: Grid, depth: FieldLike, thin: float = 1e-4, **options: Any) -> sw.ShallowWater:
    """A model whose shore moves."""
    return sw.ShallowWater(grid, depth, momentum=sw.MomentumConserving(), wetting=sw.WettingDrying(thin), **options)


def channel(cells: int, start: float, end: float) -> sw.CartesianGrid:
    """A channel along x between walls, of square cells."""
    return sw.CartesianGrid(cells, ROWS, (start, end), (0.0, ROWS * (end - start) / cells), periodic="y")


def thickness(simulation: sw.Simulation) -> np.ndarray:
    """h [m] of the whole grid, (ny, nx), on a single rank."""
    return simulation.model.depth + np.asarray(simulation.state.eta, float)


def rest(
    steps: int = 100, dtypes: tuple[str, ...] = ("float32", "float64"), stepper: Stepper = sw.SSPRK3, **options: Any
) -> dict[str, float]:
    """The largest speed [m s-1] and change of the level [m] of lakes at rest, in single and double precision.

    Two lakes with different levels lie between islands, cliffs and beaches of a random topography, on the plane and on
    the sphere. `options` are those of the model.
    """
    rng, worst = np.random.default_rng(1), 0.0
    plane = sw.CartesianGrid(24, 20, (0.0, 240.0), (0.0, 200.0))
    for grid in (plane, sw.SphericalGrid(24, 20, (10.0, 34.0), (30.0, 50.0))):
        bed = rng.uniform(-30.0, 60.0, grid.shape)
        bed[:, 8:10], bed[6, 3] = -40.0, -1e3  # a ridge between two lakes, and a rock
        levels = np.where(np.arange(24) < 9, 0.0, -2.5) * np.ones(grid.shape)
        for dtype in dtypes:
            turning = sw.RotatingSphere() if grid.spherical else None
            model = model_of(grid, bed, coriolis=turning, dissipation=sw.ManningDrag(0.03), dtype=dtype, **options)
            start = model.state(eta=levels)
            dt = 0.1 if not grid.spherical else 500.0
            end = sw.Simulation(model, start, stepper(dt)).run(steps=steps)
            changes = (end.u, end.v, end.eta - start.eta)
            worst = max(worst, *(float(np.abs(np.asarray(x)).max()) for x in changes))
    return {"rest_error": worst}


def dam_break(
    flow: DamBreak, cells: int, times: tuple[float, ...], stepper: Stepper = sw.SSPRK3, **options: Any
) -> list[tuple]:
    """[(x, h)] at some times [s], on 1 km with the dam in the middle."""
    grid = channel(cells, -500.0, 500.0)
    model = model_of(grid, flow.right, **options)
    state = model.state(eta=lambda x, y: np.where(x < 0, flow.left, flow.right) - flow.right + 0.0 * y)
    speed = flow.celerity * (2.0 if flow.right == 0 else 1.5)
    steps = int(np.ceil(times[-1] * speed * cells / 1000.0 / 0.8))
    simulation, found = sw.Simulation(model, state, stepper(times[-1] / steps)), []
    for time in times:
        simulation.run(until=time)
        found.append((grid.x_centres, thickness(simulation)[0]))
    return found


def stoker(cells: int = 400, stepper: Stepper = sw.SSPRK3) -> dict[str, float]:
    """A dam of 10 m breaks over 1 m of water: the bore's speed, from its places in 16 moments, and the error of h."""
    flow, times = DamBreak(), np.linspace(15.0, 30.0, 16)
    profiles = dam_break(flow, cells, tuple(times), stepper=stepper)
    middle, speed = flow.middle
    fronts = [front(x, h, 0.5 * (middle + flow.right)) for x, h in profiles]
    x, h = profiles[-1]
    exact = flow.thickness(x, times[-1])
    return {
        "stoker_speed_error": np.polyfit(times, fronts, 1)[0] / speed - 1.0,
        "stoker_l1": np.abs(h - exact).sum() / exact.sum(),
    }


def front(x: np.ndarray, h: np.ndarray, level: float) -> float:
    """The largest x at which h falls below `level`, by linear interpolation."""
    k = np.flatnonzero(h > level)[-1]
    return float(x[k] + (x[k + 1] - x[k]) * (h[k] - level) / (h[k] - h[k + 1]))


def ritter(cells: int = 400, stepper: Stepper = sw.SSPRK3) -> dict[str, float]:
    """A dam of 10 m breaks over a dry bed: after 20 s, the places where h falls below 1 % and 0.1 % of that [cells]."""
    flow, time = DamBreak(right=0.0), 20.0
    ((x, h),) = dam_break(flow, cells, (time,), stepper=stepper)
    exact = flow.thickness(x, time)
    cells_behind = lambda level: (front(x, h, level) - front(x, exact, level)) / (x[1] - x[0])  # noqa: E731
    return {
        "ritter_front_cells": cells_behind(0.01 * flow.left),
        "ritter_thin_front_cells": cells_behind(0.001 * flow.left),
        "ritter_l1": np.abs(h - exact).sum() / exact.sum(),
    }


def bowl(flow: Any, cells: int, stepper: Stepper = sw.SSPRK3, **options: Any) -> tuple[float, float, float]:
    """(relative L2 error of h, relative change of mass, least thickness [m]) after a period, on 4 m x 4 m."""
    grid = sw.CartesianGrid(cells, cells, (-2.0, 2.0), (-2.0, 2.0))
    model = model_of(grid, flow.bed, **options)

    def moving(name, k):
        x, y = grid.coordinates(name)
        wet = np.maximum(flow.level(*grid.coordinates("h"), 0.0) + model.depth, 0.0) > 0
        return flow.velocity(x, y, 0.0)[k] * (wet | np.roll(wet, -1, axis=1 - k))

    state = model.state(eta=lambda x, y: flow.level(x, y, 0.0), u=moving("u", 0), v=moving("v", 1))
    steps = int(np.ceil(flow.period * cells / 4.0 / 0.4 * (np.sqrt(flow.gravity * flow.depth) + 0.7)))
    simulation = sw.Simulation(model, state, stepper(flow.period / steps))
    before = thickness(simulation).sum()
    simulation.run(until=flow.period)
    h = thickness(simulation)
    exact = np.maximum(flow.level(*grid.coordinates("h"), simulation.time) + model.depth, 0.0)
    error = np.sqrt(((h - exact) ** 2).sum() / (exact**2).sum())
    return float(error), float((h.sum() - before) / before), float(h.min())


def bowl_marks(name: str, flow: Any, stepper: Stepper) -> dict[str, float]:
    """The error, the order between 50 and 100 cells, and the change of mass of a bowl."""
    coarse, fine = (bowl(flow, cells, stepper=stepper) for cells in (50, 100))
    return {f"{name}_l2": fine[0], f"{name}_order": np.log2(coarse[0] / fine[0]), f"{name}_mass": fine[1]}


def thacker_planar(stepper: Stepper = sw.SSPRK3) -> dict[str, float]:
    """The marks of Thacker's plane surface in a bowl, after a period."""
    return bowl_marks("thacker_planar", PlanarBowl(), stepper)


def thacker_radial(stepper: Stepper = sw.SSPRK3) -> dict[str, float]:
    """The marks of Thacker's curved surface in a bowl, after a period."""
    return bowl_marks("thacker_radial", RadialBowl(), stepper)


def carrier_greenspan(cells: int = 450, stepper: Stepper = sw.SSPRK3) -> dict[str, float]:
    """The errors of the shoreline of a standing wave on a beach during a period."""
    flow = CarrierGreenspan()
    grid = channel(cells, -4.0 * flow.scale, 0.5 * flow.scale)
    place, speed = (error.max() for error in shore_errors(flow, grid, np.pi, 1200, 24, stepper))
    return {"carrier_greenspan_error": max(place, speed), "carrier_greenspan_place_error": place}


def carrier_wu_yeh(cells: int = 1600, stepper: Stepper = sw.SSPRK3) -> dict[str, float]:
    """The errors of the shoreline of the third wave of Carrier, Wu and Yeh (2003), through run-up and run-down.

    The errors of position and velocity are r.m.s. values in time over the range of each; the larger one is the first
    mark. The largest single error is that of the velocity when the exact one jumps from -15 to 2 m/s within 7 s.
    """
    flow = CarrierWuYeh()
    grid = channel(cells, -3.9 * flow.scale, 0.1 * flow.scale)
    place, speed = shore_errors(flow, grid, 4.0, 4 * cells, 80, stepper)
    rms = [float(np.sqrt(np.mean(error**2))) for error in (place, speed)]
    return {
        "carrier_wu_yeh_error": max(rms),
        "carrier_wu_yeh_place_error": rms[0],
        "carrier_wu_yeh_largest": speed.max(),
    }


def shore_errors(
    flow: Any, grid: sw.CartesianGrid, duration: float, steps: int, moments: int, stepper: Stepper
) -> list[np.ndarray]:
    """The errors of the shoreline's place and of its velocity in time, over the range of places and of velocities.

    Args:
        flow: the exact solution.
        grid: the grid of the beach.
        duration: the length of the run, in the flow's unit of time.
        steps: the number of steps of a run by SSPRK3.
        moments: the number of times at which the shoreline is compared.
        stepper: the stepper for the time step of SSPRK3.
    """
    model = model_of(grid, lambda x, y: -flow.slope * x + 0.0 * y, thin=1e-3)
    state = model.state(eta=np.broadcast_to(flow.first_level(grid.x_centres), grid.shape))
    simulation = sw.Simulation(model, state, stepper(duration * flow.time_scale / steps))
    times, places, speeds = np.linspace(0.0, duration * flow.time_scale, moments + 1)[1:], [], []
    for time in times:
        simulation.run(until=time)
        h = thickness(simulation)[0]
        places.append(shoreline(grid.x_centres, h, flow.slope))
        wet = np.flatnonzero(h > 0.02 * flow.slope * min(flow.scale, 1000.0))[-1]
        speeds.append(float(simulation.state.u[0, wet - 1]))
    exact = flow.shoreline(times)
    return [np.abs(np.array(a) - b) / np.ptp(b) for a, b in zip((places, speeds), exact)]


def shoreline(x: np.ndarray, h: np.ndarray, slope: float) -> float:
    """The x [m] at which the thickness, extrapolated linearly from the last cells with enough water, is 0."""
    dx = x[1] - x[0]
    k = np.flatnonzero(h > 0.5 * slope * dx)[-1]
    return float(x[k] + h[k] * 2 * dx / max(h[k - 2] - h[k], 0.2 * slope * dx))


def by_stepper(measure: Callable, steppers: dict[str, Stepper]) -> Iterator[tuple[str, Callable[[Any], Outcome]]]:
    """(the suffix of its marks' names, the Case's function of the arguments of `measure`) for each stepper.

    Args:
        measure: gives {mark: value}; it has the argument `stepper`.
        steppers: {suffix: stepper}.
    """
    for suffix, stepper in steppers.items():

        def measured(chosen, suffix=suffix, stepper=stepper):
            return Outcome({name + suffix: value for name, value in measure(*chosen, stepper=stepper).items()})

        yield suffix, measured


def _case(measure, marks, quick, title, **declared):
    """Register the cases, one for each stepper, of a function that gives {mark: value}.

    `quick` are the arguments of its short form. Ranges are of the full size, and the same for both steppers but for
    those of OWN_RANGES.
    """
    for suffix, measured in by_stepper(measure, STEPPERS):
        Case(
            name=measure.__name__ + suffix,
            group="coasts",
            measure=measured,
            marks=tuple(
                Mark(
                    name + suffix,
                    meaning,
                    OWN_RANGES.get(name + suffix, most),
                    least=1.0 if name.endswith("_order") else None,
                    quick=short,
                )
                for name, meaning, most, short in marks
            ),
            quick=quick,
            title=title + (", in one stage" if suffix else ""),
            **declared,
        )


DELESTRE = {"doi": "10.1002/fld.3741"}
THACKER = {"source": "Thacker (1981)", "doi": "10.1017/S0022112081001882"}
_case(
    rest,
    [("rest_error", "largest speed [m s-1], and change of the level [m], in 100 steps", 1e-12, True)],
    (8,),
    title="Lakes at rest",
    tests="that water at two levels between islands, cliffs and beaches does not move, plane and sphere",
    source="Delestre et al. (2013), section 3.1",
    **DELESTRE,
    equation="u = v = 0,  eta constant in each lake",
)
_case(
    stoker,
    [
        ("stoker_speed_error", "speed of the bore over the exact one, less 1", 0.005, 0.02),
        ("stoker_l1", "l1 error of h, relative", 0.01, True),
    ],
    (100,),
    title="Dam break over water",
    tests="the speed of a bore, from conservation of momentum",
    source="Stoker (1957)",
    **DELESTRE,
    equation="Riemann solution: rarefaction, constant state, bore",
)
_case(
    ritter,
    [
        ("ritter_front_cells", "place where h falls below 1 %, less the exact one [cells]", 2.0, 4.5),
        ("ritter_thin_front_cells", "place where h falls below 0.1 %, less the exact one [cells]", 10.0, True),
        ("ritter_l1", "l1 error of h, relative", 0.01, True),
    ],
    (100,),
    title="Dam break over a dry bed",
    tests="the front on dry ground",
    source="Ritter (1892)",
    **DELESTRE,
    equation="h = (2 c - x / t)^2 / (9 g) for -c t < x < 2 c t",
)
for _bowl, _shape in ((thacker_planar, "plane"), (thacker_radial, "curved")):
    _name = _bowl.__name__
    _case(
        _bowl,
        [
            (f"{_name}_l2", "l2 error of h after a period, relative, on 100 x 100 cells", 0.02, True),
            (f"{_name}_order", "order of convergence from 50 to 100 cells", None, True),
            (f"{_name}_mass", "relative change of mass", 1e-13, True),
        ],
        (),
        title=f"Thacker's {_shape} surface in a bowl",
        tests="a moving shoreline, and mass at it",
        **THACKER,
        equation="closed solutions in the paraboloid z = - D (1 - r^2 / a^2)",
    )
_case(
    carrier_greenspan,
    [
        (
            "carrier_greenspan_error",
            "shoreline: larger of the errors of place and velocity over their ranges",
            0.05,
            0.13,
        ),
        ("carrier_greenspan_place_error", "shoreline: largest error of its place over its range", 0.05, True),
    ],
    (150,),
    title="Standing wave on a beach",
    tests="run-up and run-down of a wave that does not break",
    source="Carrier and Greenspan (1958)",
    doi="10.1017/S0022112058000331",
    equation="u = - A J1(s) sin(l) / s,  eta = A J0(s) cos(l) / 4 - u^2 / 2",
)
_case(
    carrier_wu_yeh,
    [
        (
            "carrier_wu_yeh_error",
            "shoreline: larger of the rms errors of place and velocity over their ranges",
            0.05,
            0.09,
        ),
        ("carrier_wu_yeh_place_error", "shoreline: rms error of its place over its range", 0.05, True),
        ("carrier_wu_yeh_largest", "shoreline: largest error of its velocity over its range", 0.2, 0.4),
    ],
    (200,),
    title="A wave with a leading trough on a beach",
    tests="run-up and run-down of a single wave",
    source="Carrier, Wu and Yeh (2003)",
    doi="10.1017/S0022112002002653",
    equation="eta + u^2 / 2 and u as Hankel transforms of the first level",
)
