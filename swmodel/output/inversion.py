"""netCDF files of inversions: controls before and after with their deviations, observations, the history of J."""

import dataclasses
import datetime
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..fields.variables import PROGNOSTIC, Variable
from ..grids.grid import Grid
from .definitions import define, define_times_of, store_field, whole_file
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
    seconds: float,
    start: datetime.datetime | None = None,
    attributes: Mapping[str, Attribute] | None = None,
    static: Mapping[str | Variable, np.ndarray] | None = None,
    initial: Mapping[Variable, np.ndarray] | None = None,
) -> None:
    """Write an inversion; an older file stays until this one is complete.

    Args:
        path: the path of the file; an existing one is replaced.
        grid: the Grid.
        controls: {name: Estimate}.
        tables: {dimension: {column: (units, long_name, (n,) values)}}: observations, parameters, the history.
        about: {name: text, number or dict}: global attributes of the inversion.
        seconds: model time at the run's end [s].
        start, attributes, static: as for netcdf.FieldFile.
        initial: {Variable: global array}: the first state of the analysis, from which runs can start; tracers are
            concentrations.

    Raises:
        SwmodelError: if it cannot be written.
    """
    static = dict(static or {})
    inversion = {f"inversion_{k}": json.dumps(v) if isinstance(v, dict) else v for k, v in about.items()}
    inversion = {**(attributes or {}), **inversion}
    with whole_file(path, grid, inversion, static, seconds=seconds, start=start) as dataset:
        for name, estimate in controls.items():
            times = (define_times_of(dataset, name, estimate.times, start),) if estimate.times else ()
            for role, values in estimate.roles.items():
                _define_control(dataset, grid, name, estimate, role, values, times, static)
        for row, values in (initial or {}).items():
            _define_initial(dataset, grid, row, values, static)
        for dimension, columns in tables.items():
            _define_table(dataset, dimension, columns)


def _define_control(dataset, grid, control, estimate, role, values, times, static):
    name = f"{re.sub(r'[^A-Za-z0-9]+', '_', control).strip('_')}_{role}"
    text = f"{control}, {ROLES[role]}"
    units, position = estimate.units, estimate.position
    more = {"comment": f"in {units}"} if "/" in units else {}  # UDUNITS cannot read fractional powers
    units = "" if more else units
    if np.ndim(values) < 2:
        described = {"long_name": text} | ({"units": units} if units else {}) | more
        define(dataset, name, times, described, np.asarray(values, float))
        return
    row = Variable(name, position, units, text, cell_methods="")
    store_field(dataset, grid, row, values, static, attributes={"coordinates": "time", **more})


def _define_initial(dataset, grid, row, values, static):
    """A field of the state with which the analysis begins.

    u, v and eta have the same names as in restarts. Restarts hold the content of tracers, so that their concentrations
    have names of their own.
    """
    text = f"{row.long_name} with which the analysis begins"
    name = f"state_{row.name}" if row in PROGNOSTIC else row.name
    row = dataclasses.replace(row, name=name, long_name=text, cell_methods="")
    store_field(dataset, grid, row, values, static)


def _define_table(dataset, dimension, columns):
    size = len(next(iter(columns.values()))[2])
    dataset.createDimension(dimension, size)
    for name, (units, text, values) in columns.items():
        values = np.asarray(values)
        attributes = {"long_name": text} | ({"units": units} if units else {})
        if values.dtype.kind in "US":
            variable = dataset.createVariable(f"{dimension}_{name}", str, (dimension,))
            variable.setncatts(attributes)
            for k, value in enumerate(values):
                variable[k] = str(value)
        else:
            define(dataset, f"{dimension}_{name}", (dimension,), attributes, values)
