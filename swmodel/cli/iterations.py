"""The iterations of an implicit step's solver, for `swmodel plan`.

A small grid is solved as it is. A large one is coarsened (config/build/variants.py), so that multigrid converges as it
does on the original grid. A single tile of it would not do: without its neighbours' values conjugate gradients
may take any number of iterations. With `Diagonal` the iterations grow with the number of gravity waves' cells in a
step, which the coarser grid has, too; those of a rigid lid grow with the number of cells along a direction.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from ..config.build.experiment import model_of, state_of
from ..config.build.variants import coarsened
from ..errors import ConfigError
from ..stepping.explicit import TimeStepper

if TYPE_CHECKING:
    from ..config import Draft
    from ..fields.state import State
    from ..models.shallow_water import ShallowWater

__all__ = ["count_iterations"]


def count_iterations(
    draft: Draft, model: ShallowWater, state: State, stepper: TimeStepper, cut: int
) -> tuple[int, str]:
    """(iterations of a step, a note on where they were counted); 0 for explicit steps and direct solvers.

    Args:
        draft: the Draft of the experiment.
        model, state: of its whole grid if `cut` is 1, or of a tile.
        stepper: a TimeStepper.
        cut: the factor by which the grid is coarsened.

    Raises:
        ConfigError: if the solver does not converge, or the experiment is not valid on the coarser grid.
    """
    from ..elliptic import Diagonal
    from ..performance.implicit import iterations_of, solver_of

    if not stepper.has_solver:
        return 0, ""
    where, solver = "the whole grid", solver_of(model, stepper)
    if cut > 1:
        model, state = _coarse(draft, cut)
        where = f"a grid of {model.grid.nx} x {model.grid.ny} cells, coarser by a factor of {cut}"
    found = iterations_of(model, state, dataclasses.replace(stepper, solver=solver))
    if cut > 1 and stepper.rigid_lid and isinstance(getattr(solver, "preconditioner", None), Diagonal):
        found *= cut
    if found and found >= getattr(solver, "iterations", math.inf):
        raise ConfigError(
            f"plan: the solver needs more than its {solver.iterations} iterations, counted on {where}; set "
            "stepper.preconditioner = 'multigrid', or a larger stepper.tolerance or stepper.iterations."
        )
    return found, f", counted on {where}" if cut > 1 else ""


def _coarse(draft, cut):
    """(model, state) on the grid coarsened by `cut`."""
    from ..parallel import SerialCommunicator

    made = coarsened(draft, cut)
    if made.mistakes:
        raise ConfigError(
            f"plan: the iterations of the solver are counted on a grid of {made.grid.nx} x {made.grid.ny} cells, where "
            f"{made.mistakes[0].text.rstrip('.')}; plan the experiment with fewer cells (--set grid.nx=... and "
            "grid.ny=...), and correct what is reported there."
        )
    model = model_of(made, SerialCommunicator())
    return model, state_of(made.experiment().initial, model)
