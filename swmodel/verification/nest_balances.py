"""What a border between two grids must not change: a level surface, the volume of all water, contents of tracers.

The depths are random in each cell of the outer grid, of a nest and of a nest in that, and coasts cross the borders.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import swmodel as sw

from .case import Case, Mark, Outcome
from .nests import BERGER

NX, NY, DX = 40, 36, 1000.0
NOISE = 5e-4  # [m]
LEVEL = 0.37  # of the surface at rest [m]; not 0, so that means and interpolation have to round
FIXED: dict[str, Any] = {"coriolis": sw.FPlane(1e-4)}
MOVING: dict[str, Any] = {"wetting": sw.WettingDrying(), "momentum": sw.MomentumConserving()}
FB, SSP = sw.ForwardBackward(dt=8.0), sw.SSPRK3(dt=20.0)


def _random(x, y, seed):
    """Numbers in [0, 1) that look random, one for each point."""
    return np.modf(np.abs(43758.5453 * np.sin(12.9898 * x / DX + 78.233 * y / DX + seed)))[0]


def rough(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Depths of 50 to 250 m [m], with land in a tenth of the cells."""
    return np.where(_random(x, y, 0.0) < 0.1, 0.0, 50.0 + 200.0 * _random(x, y, 1.0))


def shores(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Depths of -1 to 3 m [m]: a quarter and more of the cells is dry at rest."""
    return -1.0 + 4.0 * _random(x, y, 2.0)


def lagoon(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A rough sea of 3 to 4 m [m] with an island of slope 1 in 500, within the box of the inner nest."""
    return np.minimum(np.hypot(x - 21e3, y - 18.5e3) / 500.0 - 4.0, 3.0) + _random(x, y, 3.0)


def _bump(x, y):
    return 0.3 * np.exp(-((x - 12e3) ** 2 + (y - 13e3) ** 2) / 3e3**2)


def _of_nest(depth, spacing, west, east, south, north):
    """A nest's `depth`; that of the outer cell in two outer cells along the border and in the frame."""

    def floor(x, y):
        m = 2 * spacing
        far = (x > west + m) & (x < east - m) & (y > south + m) & (y < north - m)
        coarse = [(np.floor(z / spacing) + 0.5) * spacing for z in (x, y)]
        return np.where(far, depth(x, y), depth(*coarse))

    return floor


def _family(depth: Callable, own: bool = True, **options: Any) -> sw.Family:
    """Three grids of ratios 3 and 2. Each cell has its `own` depth but along the borders, or that of the outer grid."""
    nests, spacing, inside = [], DX, None
    for name, ratio, x, y in (("harbour", 3, (12e3, 29e3), (10e3, 26e3)), ("quay", 2, (17e3, 25e3), (15e3, 22e3))):
        floor = _of_nest(depth, spacing, *x, *y) if own else None
        nests.append(sw.Nest(name, x=x, y=y, ratio=ratio, depth=floor, inside=inside))
        spacing, inside = spacing / ratio, name
    grid = sw.CartesianGrid(NX, NY, (0.0, NX * DX), (0.0, NY * DX))
    options = {"dtype": "float64", "communicator": "serial", **options}
    return sw.Family(grid, depth, nests, **options)


def _wet(family: sw.Family, states: dict[str, sw.State]) -> dict[str, np.ndarray]:
    """{grid: (ny, nx) bool} cells with more than 1 mm of water."""
    return {
        name: model.wet & (np.asarray(states[name].eta, float) + model.depth > 1e-3)
        for name, model in family.models.items()
    }


def largest_change(family: sw.Family, stepper: sw.TimeStepper, steps: int) -> tuple[float, float]:
    """The largest |eta - LEVEL| [m] in water and the largest |u| or |v| [m s-1] of all grids, after steps from rest."""
    start = family.states(eta=LEVEL)
    end, wet = sw.NestedSimulation(family, start, stepper).run(steps=steps), _wet(family, start)
    elevation = max(np.abs(np.asarray(end[name].eta, float) - LEVEL)[wet[name]].max() for name in end)
    speed = max(np.abs(np.asarray(state[p], float)).max() for state in end.values() for p in "uv")
    return float(elevation), float(speed)


def volume_change(family: sw.Family, stepper: sw.TimeStepper, steps: int) -> float:
    """The relative change of the volume of a bump in all grids, each place counted in its finest one."""
    start = family.states(eta=_bump)
    end = sw.NestedSimulation(family, start, stepper).run(steps=steps)
    return family.volume(end) / family.volume(start) - 1.0


def content_change(family: sw.Family, stepper: sw.TimeStepper, steps: int) -> tuple[float, float]:
    """(the relative change of the content of a dye in all grids, the largest |c - 1| of a tracer with c = 1)."""
    start = family.states(eta=_bump)
    end = sw.NestedSimulation(family, start, stepper).run(steps=steps)
    difference = 0.0
    for name, wet in _wet(family, end).items():
        thickness = np.asarray(end[name].eta, float) + np.asarray(family.models[name].sea_floor.water)
        difference = max(difference, float(np.abs(np.asarray(end[name].one)[wet] / thickness[wet] - 1.0).max()))
    return family.content("dye", end) / family.content("dye", start) - 1.0, difference


def _rest(resolutions: tuple) -> Outcome:
    (steps,) = resolutions
    rounding, values = float(np.finfo(np.float32).eps) * LEVEL, {}
    for name, depth, options, stepper in (("fixed", rough, FIXED, FB), ("moving", shores, MOVING, SSP)):
        values[f"nest_rest_{name}"] = max(largest_change(_family(depth, **options), stepper, steps))
        elevation, speed = largest_change(_family(depth, **options, dtype="float32"), stepper, steps)
        values |= {f"nest_rest_{name}_single": elevation / rounding, f"nest_rest_{name}_single_speed": speed}
    return Outcome(values)


def _mass(resolutions: tuple) -> Outcome:
    steps, fewer = resolutions
    return Outcome(
        {
            "nest_mass_fixed": volume_change(_family(rough, own=False, **FIXED), FB, steps),
            "nest_mass_moving": volume_change(_family(lagoon, **MOVING), SSP, fewer),
        }
    )


def _tracer(resolutions: tuple) -> Outcome:
    tracer: Any = sw.Tracer
    tracers, values = (tracer("dye", initial=_bump, diffusivity=1.0), tracer("one", initial=1.0)), {}
    for name, depth, own, options, stepper, steps in (
        ("fixed", rough, False, FIXED, FB, resolutions[0]),
        ("moving", lagoon, True, MOVING, SSP, resolutions[1]),
    ):
        found = content_change(_family(depth, own, **options, tracers=tracers), stepper, steps)
        values |= dict(zip((f"nest_tracer_{name}", f"nest_tracer_{name}_one"), found, strict=True))
    return Outcome(values)


def noise_after(steps: int, difference: float, blend: int = 0) -> float:
    """The largest |eta| in all grids, over its start as noise, after steps of the linear equations without friction.

    Args:
        steps: of the outermost grid.
        difference: the relative range of the random depths of both grids, up to the border and beyond.
        blend: outer cells along the border over which the nest's depth passes to that of the outer grid.
    """

    def depth(x, y):
        return 150.0 * (1.0 + difference * (_random(x, y, 4.0) - 0.5))

    nest = sw.Nest("harbour", x=(12e3, 29e3), y=(10e3, 26e3), ratio=3, depth=depth, blend=blend)
    grid = sw.CartesianGrid(NX, NY, (0.0, NX * DX), (0.0, NY * DX))
    family = sw.Family(grid, depth, [nest], linear=True, dtype="float64", communicator="serial")
    end = sw.NestedSimulation(family, family.states(eta=lambda x, y: NOISE * (2 * _random(x, y, 5.0) - 1)), FB).run(
        steps=steps
    )
    return max(float(np.abs(np.asarray(state.eta)).max()) for state in end.values()) / NOISE


def _noise(resolutions: tuple) -> Outcome:
    (steps,) = resolutions
    return Outcome({"nest_noise": noise_after(steps, 0.3), "nest_noise_blended": noise_after(steps, 0.6, 3)})


def _marks_of_rest(name, shore):
    return (
        Mark(f"nest_rest_{name}", f"largest |eta - level| [m], |u| and |v| [m s-1] in all grids, {shore}", most=1e-12),
        Mark(f"nest_rest_{name}_single", "|eta - level| in single precision, in roundings of the level", most=16.0),
        Mark(f"nest_rest_{name}_single_speed", "largest |u| and |v| in single precision [m s-1]", most=1e-5),
    )


Case(
    name="nest_rest",
    title="A level surface in nested grids",
    tests="interpolation and means over random depths, and coasts that cross the borders",
    **BERGER,
    equation="eta = 0.37 m,  u = v = 0",
    measure=_rest,
    marks=(*_marks_of_rest("fixed", "coasts at rest"), *_marks_of_rest("moving", "shores that move")),
    resolutions=(200,),
    quick=(20,),
    norm="largest value; the resolution is the number of steps",
)

Case(
    name="nest_mass",
    title="The volume of nested grids",
    tests="the fluxes through the borders of a nest and of a nest in it",
    **BERGER,
    equation="sum A eta = const,  each place in its finest grid",
    measure=_mass,
    marks=(
        Mark("nest_mass_fixed", "relative change of the volume of a bump, over coasts across the borders", most=1e-13),
        Mark("nest_mass_moving", "the same with a shore that moves in the inner nest", most=1e-13),
    ),
    resolutions=(8000, 1000),
    quick=(100, 20),
    norm="the resolutions are the numbers of steps with fixed and with moving shores",
)

Case(
    name="nest_tracer",
    title="The content of tracers in nested grids",
    tests="the fluxes of content through the borders of a nest and of a nest in it",
    **BERGER,
    equation="sum A h c = const,  each place in its finest grid;  c = 1",
    measure=_tracer,
    marks=(
        Mark("nest_tracer_fixed", "relative change of the content of a dye, coasts across the borders", most=1e-13),
        Mark("nest_tracer_fixed_one", "largest |c - 1| of a tracer whose concentration is 1", most=1e-11),
        Mark("nest_tracer_moving", "the content with a shore that moves in the inner nest", most=1e-13),
        Mark("nest_tracer_moving_one", "|c - 1| likewise, in cells with more than 1 mm of water", most=1e-9),
    ),
    resolutions=(10000, 1700),
    quick=(100, 20),
    norm="the resolutions are the numbers of steps of the outer grid, a sixth of those of the inner nest",
)

Case(
    name="nest_noise",
    title="Noise in nested grids",
    tests="whether a two-way border feeds disturbances, over depths of both grids that differ along it",
    **BERGER,
    equation="eta = noise,  linear, without friction",
    measure=_noise,
    marks=(
        Mark("nest_noise", "largest elevation over that at the start, depths within 15 % of their mean", most=1.0),
        Mark("nest_noise_blended", "the same within 30 %, passing to the outer depth over 3 outer cells", most=1.0),
    ),
    resolutions=(4000,),
    quick=(200,),
    norm="the resolution is the number of steps",
)
