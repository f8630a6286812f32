"""Metadata of the run that writes a file: its attributes, its members, and the rows of its variables."""

import json
from collections.abc import Iterable
from typing import cast

import numpy as np

from ..dynamics.layers import over_deep_water
from ..fields.variables import OF_LAYERS, OF_LAYERS_OVER_DEEP_WATER, Variable, named_for
from ..models.ensemble import Ensemble
from ..runtime.version import VERSION
from .fingerprint import describe
from .metadata import Attributes, MemberValues, Varied, references
from .schedule import AbstractSimulation


def members_of(simulation: AbstractSimulation) -> MemberValues | None:
    """{name: values, one for each member} of an ensemble, in the form of the file writers; None for a single model."""
    model = simulation.model
    if model.members is None:
        return None
    ensemble = cast(Ensemble, model)
    varied = {name: Varied(values, ensemble.units_of(name)) for name, values in ensemble.varied.items()}
    return varied or {"": range(model.members)}


def rows_of(simulation: AbstractSimulation, names: Iterable[str]) -> list[str | Variable]:
    """The names of variables, replaced by a row of this run if it differs from that of the variable table."""
    own: dict[str, Variable] = {row.name: row for row in simulation.model.variables}
    model = simulation.model
    if model.layers is not None:
        instead = own | (OF_LAYERS_OVER_DEEP_WATER if over_deep_water(model.layers) else OF_LAYERS)
    else:
        instead = own | named_for(_gravity(model)) | simulation.scheme.rows
    return [instead.get(name, name) for name in names]


def _gravity(model):
    """The gravity [m s-2]; the smallest of an ensemble's members."""
    return min(one.gravity for one in getattr(model, "models", [model]))


def static_fields(simulation: AbstractSimulation) -> dict[str | Variable, np.ndarray]:
    """{name or row: (ny, nx) array} of depth and land mask, in the form of the file writers.

    Where shores move, depths have the precision of the run, so that depth + eta of a file is nowhere negative.
    """
    model = simulation.model
    depth = model.depth if model.film is None else np.asarray(model.depth, model.dtype).astype(float)
    return {rows_of(simulation, ["depth"])[0]: depth, "wet": np.asarray(model.sea_floor.wet)}


def _columns(model) -> Attributes:
    """The attributes of layers, from which energies and vertical modes follow; those of members may differ."""
    if model.layers is None or model.members is not None:
        return {}
    return {
        "gravities_of_interfaces": json.dumps([*map(float, model.layers.gravities(float(model.gravity)))]),  # [m s-2]
        "thickness_of_upper_layers": json.dumps([*map(float, model.layers.thickness)]),  # at rest [m]
        "deep_layer_at_rest": np.int32(model.layers.deep_at_rest),
    }


def run_attributes(simulation: AbstractSimulation) -> Attributes:
    """The global attributes that describe a run so that it can be repeated."""
    model = simulation.model
    py, px = model.communicator.layout
    return {
        "title": simulation.title,
        "source": f"swmodel {VERSION}",
        "config": simulation.config,
        "ranks": np.int32(model.communicator.size),
        "layout": f"{py} x {px} tiles (y x x)",
        "communicator": model.communicator.name,
        "computed_in": str(model.dtype),
        "time_stepper": describe(simulation.scheme),
        "time_step_seconds": np.float64(simulation.dt),
        "gravity": None if model.gravity is None else np.float64(model.gravity),
        **_columns(model),
        "film_thickness": None if model.film is None else np.float64(model.film),  # [m]; cells under less are dry
        "nest": simulation.nest or None,
        "nest_boxes": json.dumps(simulation.boxes) if simulation.boxes else None,
        "comment": simulation.scheme.comment,
        "references": references(model, simulation.scheme),
    }
