"""The choice of a model's step loop, fused where every rank can compile it, and the halo of a model.

A step with the model's terms is traced to find the halo that its stepper needs.
"""

import functools
import logging
from typing import TYPE_CHECKING

import jax
import numpy as np

from ..dynamics.cores import Discretisation
from ..dynamics.system import System
from ..fields.field import HaloError, measured_gaps
from ..fields.parts import numbers_of, positions_of
from ..fields.state import remembered
from ..grids.grid import Grid
from ..parallel.communicator import Communicator
from ..stencils.native import why_not
from ..stencils.native.library import CompileError
from ..stepping.explicit import TimeStepper
from ..stepping.fused import FusedStepLoop, NotCompiled
from ..stepping.loop import Members, engine_of, warn_of_arrays
from ..stepping.steps import ArrayStepLoop, StepLoop, one_step

if TYPE_CHECKING:
    from .ensemble import Ensemble
    from .shallow_water import ShallowWater


def kind_of_loop(engine: str, grid: Grid, communicator: Communicator, core: Discretisation) -> type[StepLoop]:
    """The class of StepLoop for an engine's name, the same on every rank."""
    if engine not in ("auto", "fused", "arrays"):
        raise ValueError(f"ShallowWater: engine = {engine!r} is not known; use 'auto', 'fused' or 'arrays'.")
    if engine == "fused" and not core.halos:
        raise ValueError(
            f"ShallowWater: engine = 'fused' makes loops of differences, and {type(core).__name__} has none; "
            "use engine = 'auto'."
        )
    if engine == "arrays" or not core.halos or any(grid.poles):
        return ArrayStepLoop
    if jax.default_backend() != "cpu":
        return FusedStepLoop
    reasons = [reason for reason in communicator.host_gather(why_not()) if reason is not None]
    if reasons and engine == "fused":
        raise ValueError(
            "ShallowWater: engine = 'fused' needs a C++ compiler on every rank (g++, or the one that CXX names); "
            f"install one, or use engine = 'auto' or 'arrays'. The reason: {reasons[0]}"
        )
    if reasons and communicator.is_root:
        _warn_once(reasons[0])
    return ArrayStepLoop if reasons else FusedStepLoop


@functools.cache
def _warn_once(sentence):
    logging.getLogger("swmodel").warning("%s", sentence)


def arrays_if_loops_fail(
    model: "ShallowWater | Ensemble", dynamics: System | Members, stepper: TimeStepper
) -> str | None:
    """Let a model's steps run on arrays on all ranks if one rank cannot compile one of their loops. Collective.

    Programs compile their loops while they are traced, when ranks can no longer agree. So call it before.

    Args:
        model: a ShallowWater or Ensemble.
        dynamics, stepper: those of its programs.

    Returns:
        The compiler's message, or None where all loops were compiled.

    Raises:
        CompileError: if the model has engine = "fused".
    """
    if not model.step_loop.compiles():
        return None
    _, why = engine_of(dynamics, stepper)
    found = model.communicator.host_gather(str(why) if isinstance(why, NotCompiled) else None)
    failed = [why for why in found if why is not None]
    if not failed:
        return None
    if model.requires_loops:
        raise CompileError(failed[0])
    model.run_on_arrays()
    if model.communicator.is_root:
        warn_of_arrays(failed[0])
    return failed[0]


WIDEST = 16  # cells
_WIDTHS: dict = {}  # {(structure, shapes and types of dynamics and stepper): halo}


def narrowest_halo(model: "ShallowWater", stepper: TimeStepper, tiled: dict[int, System]) -> int:
    """The narrowest halo for which no stencil of a step reaches beyond it; a wider one if the stepper has use for it.

    A halo that is n cells wider leaves n more of every field of a step. So one trace with a halo of one cell finds by
    how much all stencils reach beyond it. Another one follows where a tile is too thin to continue, and for parameters
    that have no ghosts, which no halo makes wider.

    Args:
        model: the ShallowWater.
        stepper: the TimeStepper.
        tiled: the model's System on tiles by the width of their halo; those that the search adds are removed.

    Raises:
        TileError: if a tile is thinner than that.
        HaloError: if no halo of up to 16 cells is enough.
    """
    before = set(tiled)
    pointwise = [f"{name}.{key}" for name, term in model.named_parts("terms") for key in _without_ghosts(term)]

    def search():
        width, missing, whole = 1, 1, False
        while missing and width <= WIDEST and (pointwise or not whole):
            model.decomposition.check_halo(width)
            missing, whole = _missing(model, stepper, width)
            width += missing
        return width

    width = remembered(_WIDTHS, (model.outline(1, 0, 1.0), stepper), search)
    more = _more_along_sides(model, width) if width <= WIDEST else 0
    for unused in set(tiled) - before - {width + more}:
        del tiled[unused]
    if width <= WIDEST:
        return max(width + more, min(stepper.wide_halo, min(model.decomposition.thinnest) // 2))
    why = (
        f", or {' or '.join(pointwise)}, declared with halo=False, is read at neighbouring points" if pointwise else ""
    )
    raise HaloError(f"{type(stepper).__name__} needs a halo of more than {WIDEST} cells{why}.")


def dynamics_at_start(model: "ShallowWater", halo: int) -> System:
    """The System of a ShallowWater at step 0 for a program on initial states; a run does not keep their metrics."""
    kept = halo in model._tiled
    dynamics = model.interval(halo, 0, 1.0)
    if not kept:
        del model._tiled[halo]
    return dynamics


def _without_ghosts(term):
    """The names of the parameters of a term that vary in space, records among them, and have no ghost cells."""
    rules = numbers_of(type(term))
    return [key for key in positions_of(type(term)) if not rules[key].halo and not _is_uniform(getattr(term, key))]


def _is_uniform(value):
    return value is None or (isinstance(value, (int, float, np.ndarray, jax.Array)) and np.ndim(value) < 2)


def _more_along_sides(model, width):
    """Cells that open boundaries read along their sides, in addition to a halo of `width`."""
    more = int(any(condition.closes_volume or condition.reads_along for condition in model.open_boundaries))
    model.decomposition.check_halo(width + more)
    return more


def _missing(model, stepper, width):
    """(the cells that a halo of `width` lacks, whether the whole step could be traced)."""

    def step(dynamics, stepper, state):
        return one_step(stepper.system(dynamics), stepper, state, stepper.history(state), 0)

    dynamics = model.outline(width, 0, 1.0)  # of whatever length: a stencil does not depend on it
    with measured_gaps() as gaps:
        try:
            jax.eval_shape(model.communicator.spmd(step), dynamics, stepper, jax.eval_shape(dynamics.zeros))
        except HaloError as error:
            return max(error.missing, *gaps, 0), False
    return max(gaps, default=0), True
