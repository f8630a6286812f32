"""The width of the frame of a nest: the cells of the nest that a step of it reads around each cell.

A step of s stages reads s times what one stage reads. That follows from the form of momentum advection and from the
terms, and is found by tracing a step with these on a few cells.
"""

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dynamics.dissipation import Drag
from ..dynamics.momentum import DEFAULT, FPlane, RotatingSphere, VorticityFlux
from ..dynamics.tracers import Tracer
from ..dynamics.wetting import WettingDrying
from ..errors import SwmodelError
from ..fields.methods import is_shipped
from ..fields.parts import as_pytree, numbers_of, positions_of
from ..grids.grid import CartesianGrid, Grid, SphericalGrid
from ..models.shallow_water import ShallowWater
from ..stepping.explicit import SSPRK3
from ..stepping.forward_backward import ForwardBackward

__all__ = ["STAGES", "frame_of"]

FRAME = 6  # the least width of the frame, in cells of the nest
OF_STAGE = 3  # the same for a step of one stage, of which ForwardBackward reads 2
BORES = 5  # cells that a stage of MomentumConserving reads; a tracer reads one more
STAGES = 3  # of SSPRK3
CELLS = 24  # along a side of the grid on which a step is traced


def frame_of(
    grid: Grid,
    forms: tuple[VorticityFlux, VorticityFlux | None] = (DEFAULT, None),
    parts: Sequence[Any] = (),
    tracers: Sequence[Any] = (),
    stages: int = STAGES,
) -> int:
    """The least width of the frame, in cells of the nest.

    Args:
        grid: the grid around the nest.
        forms: of momentum advection, and of the Coriolis force, None where that is the same.
        parts: the terms, or their sections in an experiment file.
        tracers: likewise.
        stages: the number of stages of a step.
    """
    form, of_coriolis = forms
    shipped: Any = Tracer
    least = FRAME if stages > 1 else OF_STAGE
    options: dict[str, Any] = {"momentum": form, "coriolis_form": of_coriolis, "dissipation": _plain(parts)}
    if form.conserves_momentum:
        least, options["wetting"] = max(FRAME, (BORES + bool(tracers)) * stages), WettingDrying()
    own = [each for each in tracers if not is_shipped(_class_of(each))]
    options["tracers"] = [*_plain(own), *([shipped(name="tracer")] if len(own) < len(tracers) else [])]
    stepper = ForwardBackward(dt=1.0) if stages == 1 and not form.conserves_momentum else SSPRK3(dt=1.0)
    try:
        return max(least, stages * _cells_read(grid.spherical, stepper, options))
    except (SwmodelError, ValueError, TypeError):  # the nest's own model has the better message
        return least


def _cells_read(spherical, stepper, options):
    """The cells that a stage of a stepper reads around each, in a model with these options."""
    if spherical:
        side = 0.0, float(CELLS)
        grid, coriolis = SphericalGrid(CELLS, CELLS, side, side), RotatingSphere()
    else:
        side = 0.0, 1e3 * CELLS
        grid, coriolis = CartesianGrid(CELLS, CELLS, side, side), FPlane(1e-4)
    model = ShallowWater(grid, 100.0, coriolis=coriolis, communicator="serial", engine="arrays", **options)
    return model.halo(stepper)


def _class_of(part):
    return getattr(part, "part", type(part))


def _plain(parts: Sequence[Any]) -> list[Any]:
    """The parts with numbers in place of fields and records, but for those that read no more than the flow does."""
    found = []
    for part in parts:
        cls = _class_of(part)
        if not is_shipped(cls) or not (issubclass(cls, Drag) or cls.kind == "forcing"):
            with contextlib.suppress(SwmodelError, ValueError, TypeError):
                found.append(_of_numbers(cls, part))
    return found


def _of_numbers(cls: type, part: Any) -> Any:
    """A part of a class that has the numbers and options of another one, or of its section, and 1 for its fields."""
    values, positions, rules = {}, positions_of(cls), numbers_of(cls)
    for field in dataclasses.fields(as_pytree(cls)):
        if field.init and not field.metadata.get("derived") and hasattr(part, field.name):
            value = getattr(part, field.name)
            is_field = field.name in positions and value is not None and not isinstance(value, (int, float))
            if is_field:
                value = float(np.clip(1.0, rules[field.name].minimum, rules[field.name].maximum))
            values[field.name] = value
    return cls(**values)
