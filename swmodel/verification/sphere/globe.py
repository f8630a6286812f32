"""Functions for all cases on the sphere: the planet of Williamson et al. (1992), its grids, and norms over it.

doi:10.1016/S0021-9991(05)80016-6. A resolution n means n x n / 2 cells. f varies with latitude alone, so that the
rotated forms of test 2 (alpha > 0) are not available. The prescribed flow of test 1 crosses the poles.
"""

from typing import Any

import numpy as np

from ...dynamics.cores import FilteredDifferences
from ...dynamics.momentum import RotatingSphere
from ...fields.state import State
from ...grids.grid import SphericalGrid
from ...grids.windows import FieldLike
from ...models.shallow_water import ShallowWater
from ...stepping.explicit import RK4
from ...stepping.stability import largest_time_step
from ...units import day
from ..case import Panel, relative_l2, run_until

RADIUS, OMEGA, G = 6.37122e6, 7.292e-5, 9.80616
WILLIAMSON: dict[str, Any] = {"source": "Williamson et al. (1992)", "doi": "10.1016/S0021-9991(05)80016-6"}
DAY = day
FILTERED_FROM = 60.0  # [degrees]


def globe(n: int, around: int | None = None) -> SphericalGrid:
    """n x n / 2 cells from pole to pole, or `around` x n / 2, of flows that do not depend on longitude."""
    return SphericalGrid(around or n, n // 2, (0.0, 360.0), (-90.0, 90.0), radius=RADIUS)


def sphere_model(n: int, depth: FieldLike, around: int | None = None, **options: Any) -> ShallowWater:
    """The model of a resolution and a depth; `around` as of `globe`."""
    return ShallowWater(
        globe(n, around),
        depth,
        gravity=G,
        coriolis=RotatingSphere(OMEGA),
        core=FilteredDifferences(FILTERED_FROM),
        communicator="serial",
        **options,
    )


def advanced(model: ShallowWater, state: State, seconds: float, fraction: float = 0.9) -> State:
    """The State `seconds` later, by RK4 at a fraction of its longest step."""
    return run_until(model, RK4, state, seconds, fraction * largest_time_step(model, RK4(1.0), state))


def weighted_l2(model: ShallowWater, found: np.ndarray, exact: np.ndarray) -> float:
    """Williamson's l2: sqrt(I[(found - exact)^2] / I[exact^2]), I the mean over the sphere of values at centres."""
    area = model.grid.metrics(np.arange(model.grid.ny))["area_h"] * np.ones(model.grid.shape)
    return relative_l2(found, exact, area)


def map_of(title: str, model: ShallowWater, values: np.ndarray, unit: str) -> Panel:
    """A map of values at centres."""
    labels = ("longitude [degrees]", "latitude [degrees]")
    return Panel(title, "map", np.asarray(values), model.grid.x_centres, model.grid.y_centres, labels, unit)
