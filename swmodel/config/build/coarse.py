"""A coarser version of an experiment, on which the iterations of an elliptic solver are counted.

With d = cut times the spacing and g' = cut^2 times the gravity, the operator of a semi-implicit step has the same
coefficients per cell, (theta dt / d)^2 g' H = (theta dt / dx)^2 g H: gravity waves cross as many cells in a step. A
longer step in place of the larger gravity would have the same effect on them, but the Coriolis force, which is
explicit, would be unstable.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from ..scenario import Output, Rest
from .experiment import Assembly, assemble

if TYPE_CHECKING:
    from .. import Draft

__all__ = ["coarsened"]

THINNEST = 16  # cells along a direction to which a grid is coarsened, at least


def coarsened(draft: Draft, cut: int) -> Assembly:
    """The Assembly of an experiment on cells that are `cut` times as long and as wide, without outputs.

    Depths are those that the file, formula or number gives on such cells, and so are all other fields. An initial state
    in a file, which is one of the original grid, is replaced by rest.

    Args:
        draft: the Draft of the experiment, without mistakes.
        cut: the factor, 1 or more.
    """
    given = draft.sections
    grid, model, initial = given["grid"], given["model"], given["initial"]
    cells = {name: max(-(-n // cut), min(n, THINNEST)) for name, n in (("nx", grid.nx), ("ny", grid.ny))}
    sections = {
        "grid": grid.model_copy(update=cells),
        "model": model.model_copy(update={"gravity": cut**2 * model.gravity}),
        "initial": Rest(type="rest") if initial.type == "file" else initial,
        "run": given["run"].model_copy(update={"layout": None}),
        "output": Output(),
        "adjoint": None,
        "inversion": None,
    }
    return assemble(dataclasses.replace(draft, sections=given | sections), records=1, here=False)
