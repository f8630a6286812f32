"""netCDF files of inversions and of sensitivities.

An inversion has controls before and after with their deviations, observations and the history of J. Sensitivities have
a map for each control that is a field, and numbers for the other controls.
"""

import dataclasses
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from ..fields.variables import PROGNOSTIC, Variable
from ..grids.grid import Grid
from . import metadata
from .definitions import FieldsOfOneTime, Moment, define, define_times_of, fill_dry, with_low_faces
from .metadata import Attribute

ROLES = {
    "background": "before the inversion",
    "analysis": "found by the inversion",
    "truth": "of the twin's truth",
    "background_deviation": "standard deviation of its error before the inversion",
    "analysis_deviation": "standard deviation of its error after the inversion",
}


@dataclasses.dataclass(frozen=True, eq=False)
class Estimate:
    """A control before and after an inversion.

    Attributes:
        position: "h", "u" or "v" on the C-grid, or "scalar".
        units: of the control.
        roles: {role of ROLES: global array (ny, nx), number, or vector (n,)}.
        times: of the values of a vector, since the start [s] (n,); () of other controls.
    """

    position: str
    units: str
    roles: Mapping[str, Any]
    times: tuple[float, ...] = ()


def write_inversion(
    path: str | Path,
    grid: Grid,
    controls: Mapping[str, Estimate],
    tables: Mapping[str, Mapping[str, tuple[str, str, ArrayLike]]],
    *,
    about: Mapping[str, Attribute | dict],
    initial: Mapping[Variable, np.ndarray] | None = None,
    **moment: Unpack[Moment],
) -> None:
    """Write an inversion; an older file stays until this one is complete.

    Args:
        path: the path of the file; an existing one is replaced.
        grid: the Grid.
        controls: {name: Estimate}.
        tables: {dimension: {column: (units, long_name, (n,) values)}}: observations, parameters, the history.
        about: {name: text, number or dict}: global attributes of the inversion.
        initial: {Variable: global array}: the first state of the analysis, from which runs can start; tracers are
            concentrations.
        moment: the other arguments, those of Moment.

    Raises:
        SwmodelError: if it cannot be written.
    """
    inversion = {f"inversion_{k}": json.dumps(v) if isinstance(v, dict) else v for k, v in about.items()}
    with FieldsOfOneTime.new(path, grid, inversion, **moment) as file:
        for name, estimate in controls.items():
            times = (define_times_of(file.dataset, name, estimate.times, file.start),) if estimate.times else ()
            for role, values in estimate.roles.items():
                _define_control(file, name, estimate, role, values, times)
        for row, values in (initial or {}).items():
            # Restarts hold the content of tracers, so that their concentrations have names of their own.
            name = f"state_{row.name}" if row in PROGNOSTIC else row.name
            text = f"{row.long_name} with which the analysis begins"
            file.store(dataclasses.replace(row, name=name, long_name=text, cell_methods=""), values)
        for dimension, columns in tables.items():
            _define_table(file.dataset, dimension, columns)


def _define_control(file, control, estimate, role, values, times):
    name = f"{re.sub(r'[^A-Za-z0-9]+', '_', control).strip('_')}_{role}"
    text = f"{control}, {ROLES[role]}"
    units, position = estimate.units, estimate.position
    more = {"comment": f"in {units}"} if "/" in units else {}  # UDUNITS cannot read fractional powers
    units = "" if more else units
    if np.ndim(values) < 2:
        define(file.dataset, name, times, {"long_name": text, "units": units, **more}, np.asarray(values, float))
        return
    file.store(Variable(name, position, units, text, cell_methods=""), values, {"coordinates": "time", **more})


def _define_table(dataset, dimension, columns):
    size = len(next(iter(columns.values()))[2])
    dataset.createDimension(dimension, size)
    for name, (units, text, values) in columns.items():
        values, texts = np.asarray(values), {}
        if values.dtype.kind in "US":
            values, texts = values.astype(str).astype(object), {"dtype": str, "fill": None}
        define(dataset, f"{dimension}_{name}", (dimension,), {"long_name": text, "units": units}, values, **texts)


COMMENT = "change of the cost per unit of the control in one cell; divide by its area for a density"


def name_of(control: str) -> str:
    """The name of the variable of a control, such as "sensitivity_initial_eta"."""
    return "sensitivity_" + re.sub(r"\W+", "_", control).strip("_")


def write_sensitivities(
    path: str | Path, grid: Grid, found: Mapping[str, Any], *, cost: Mapping[str, Any], **moment: Unpack[Moment]
) -> None:
    """Write {control: Sensitivity}; an older file stays until this one is complete.

    Args:
        path: the path of the file; an existing one is replaced.
        grid: the Grid.
        found: the result of adjoint.sensitivity.sensitivities.
        cost: {"name", "value", "units", "places"} of the cost J; "places" is {name: (x, y)} of the points that J reads.
        moment: the other arguments, those of Moment.

    Raises:
        SwmodelError: if it cannot be written.
    """
    about = {
        "sensitivity_of": cost["name"],
        "cost_value": np.float64(cost["value"]),
        "cost_units": cost["units"],
        "cost_places": json.dumps(cost["places"]) if cost["places"] else None,
    }
    with FieldsOfOneTime.new(path, grid, about, **moment) as file:
        for one in found.values():
            if one.position == "scalar":
                _define_numbers(file, one, cost["name"])
            else:
                _define_map(file, one, cost["name"])


def _row(one, cost):
    """The row of the variable table for a sensitivity. Units with fractional powers go to the comment."""
    units = "" if "/" in one.units else one.units
    text = f"sensitivity of {cost} to {one.control}"
    return Variable(name_of(one.control), one.position, units, text, cell_methods="")


def _comment(one, text=COMMENT):
    return f"{text}; in {one.units}" if "/" in one.units else text


def _define_map(file, one, cost):
    """The map of a control, and those of its time records."""
    row = _row(one, cost)
    text = COMMENT if one.records is None else f"{COMMENT}; the same change at all times of the control's records"
    file.store(row, one.value, {"coordinates": "time", "comment": _comment(one, text)})
    if one.records is None:
        return
    records = with_low_faces(one.records, file.grid, one.position)
    attributes = metadata.variable_attributes(row, file.grid) | {"comment": _comment(one)}
    along = (_define_record_times(file.dataset, one, row.name), *metadata.DIMENSIONS[one.position])
    kept = {"dtype": records.dtype, "fill": metadata.fill_value(records.dtype), "compression": 1}
    variable = define(file.dataset, f"{row.name}_by_record", along, attributes, **kept)
    variable[:] = fill_dry(records, file.missing(records, one.position), records.dtype)


def _define_record_times(dataset, one, name):
    along = f"{name}_record"
    dataset.createDimension(along, len(one.times))
    attributes = {"long_name": f"time of the records of {one.control} since the start", "units": "s"}
    define(dataset, f"{name}_time", (along,), attributes, np.asarray(one.times, float))
    return along


def _define_numbers(file, one, cost):
    """Write the number or vector of a control that is not a field, and those of its time records."""
    dataset = file.dataset
    row, sizes = _row(one, cost), np.shape(one.value)
    comment = "" if row.units else _comment(one, "not per cell")
    attributes = {"long_name": row.long_name, "units": row.units, "comment": comment}
    dimensions = tuple(f"{row.name}_{k}" for k in range(len(sizes)))
    if one.moments is None:
        for name, size in zip(dimensions, sizes):
            dataset.createDimension(name, size)
    else:
        dimensions = (define_times_of(dataset, one.control, one.moments, file.start),)
    define(dataset, row.name, dimensions, attributes, np.asarray(one.value, float))
    if one.records is not None:
        along = _define_record_times(dataset, one, row.name)
        define(dataset, f"{row.name}_by_record", (along, *dimensions), attributes, np.asarray(one.records, float))
