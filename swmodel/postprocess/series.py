"""Modelled and observed series of gauges, read from files; without a plotting library.

Observed series are a folder of files, one a gauge. The reader is that of the model's misfits and inversions, so that
all take the same observations (observed/folder.py).
"""

import csv
import dataclasses
import datetime
import json
import pathlib
import re
from collections.abc import Iterable, Mapping

import numpy as np
import xarray as xr

from ..errors import DataError, PlotError
from ..observed.folder import read_folder
from .files import analysis_begins, driving, open_output, replacing, seconds, start_of, undamaged
from .inundation import film_of
from .scores import Rules, Series, scores, table
from .tides import waves_of


def score_table(path: str | pathlib.Path, observations: str | pathlib.Path) -> str:
    """The scores of a gauge file against a folder of observed records, as text.

    Raises:
        PlotError: for a file without gauges, or a folder without records of them.
    """
    with open_output(path) as dataset:
        modelled, start = read_gauges(dataset), start_of(dataset)
    return table(scores(modelled, read_observations(observations, [series.name for series in modelled], start)))


def write_constants(path: pathlib.Path, output: pathlib.Path) -> None:
    """Write the harmonic constants at the gauges of a tide as CSV, in the form that inversions read.

    A constituent that a series is too short for, or that a gauge on land has not, is an empty field.

    Raises:
        PlotError: for a file without gauges, or of a run without a tide.
    """
    with undamaged([path]), open_output(path) as dataset:
        gauges, spherical = read_gauges(dataset), "latitude" in dataset.variables
    waves = [wave.name for wave in gauges[0].rules.waves]
    if not waves:
        raise PlotError(f"export: the run that wrote {path} had no tide; give the gauges of one that has.")
    columns = [f"{wave}_{what}" for wave in waves for what in ("amplitude_m", "phase_deg")]
    with replacing(output) as part, part.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["name", *(("longitude", "latitude") if spherical else ("x", "y")), *columns])
        for gauge, row in zip(gauges, scores(gauges)):
            constants = (row.constants.get(wave, (None, None)) for wave in waves)
            table.writerow([gauge.name, gauge.x, gauge.y, *(x for pair in constants for x in pair)])


def gauge_names(dataset: xr.Dataset) -> list[str]:
    """The names of the gauges of a file, in its order."""
    names = next(v for v in dataset.variables.values() if v.attrs.get("cf_role") == "timeseries_id")
    return [(n.decode() if isinstance(n, bytes) else str(n)).strip() for n in names.values]


def read_gauges(dataset: xr.Dataset, variable: str | None = None) -> list[Series]:
    """The series of every gauge in a CF timeSeries file, a list of Series."""
    name = next((v for v in dataset.variables.values() if v.attrs.get("cf_role") == "timeseries_id"), None)
    if name is None:
        raise PlotError("read_gauges: the file has no gauges; give one that `gauges` of a run has written.")
    if variable is None:
        variable = next((str(k) for k, v in dataset.data_vars.items() if set(v.dims) == {"time", name.dims[0]}), None)
    if variable not in dataset:
        raise PlotError(f"read_gauges: the file has no series {variable or 'over time and gauge'}; choose another.")
    values = dataset[variable].transpose(name.dims[0], "time").values.astype(float)
    x, y = (_coordinate(dataset, name.dims[0], axis) for axis in "xy")
    time, names = seconds(dataset), gauge_names(dataset)
    rules, (kind, tides) = rules_of(dataset.attrs, names), driving(dataset)
    waves = waves_of(tides, start_of(dataset), float(np.mean(y)) if "latitude" in dataset.variables else 0.0)
    depth = dataset["depth"].values if variable == "eta" and "depth" in dataset else np.full(len(names), np.inf)
    found = []
    for k, gauge in enumerate(names):
        rule = dataclasses.replace(rules[gauge], arrives=not kind, waves=waves, fit_from=analysis_begins(dataset))
        value, ground = (values[k], np.nan) if depth[k] >= 0 else (_flow_depth(dataset, k, values[k]), -float(depth[k]))
        found.append(Series(gauge, time, value, float(x[k]), float(y[k]), rule, ground))
    return found


def _flow_depth(dataset, k, level):
    """The thickness of the water over a gauge on land [m], 0 under a film."""
    if "thickness" in dataset:  # over a bed that moves
        depth = dataset["thickness"].transpose(..., "time").values[k].astype(float)
    else:
        depth = level + float(dataset["depth"].values[k])
    return np.where(depth <= film_of(dataset), 0.0, depth) + 0.0 * level


def rules_of(attributes: Mapping, names: Iterable[str]) -> dict[str, Rules]:
    """{name: Rules} that a gauge file's global attributes declare; the whole series if they declare none.

    A run that was continued with other rules keeps both ("NAME_from_3600_s"); the latest ones count.
    """

    def latest(name, otherwise):
        after = {float(match[1]): key for key in attributes if (match := re.fullmatch(rf"{name}_from_(\d+)_s", key))}
        return attributes.get(after[max(after)] if after else name, otherwise)

    windows = json.loads(latest("gauge_windows", "{}"))
    threshold, fraction = latest("gauge_threshold", Rules.threshold), latest("gauge_arrival_fraction", Rules.fraction)
    return {n: Rules(tuple(windows.get(n, Rules.window)), float(threshold), float(fraction)) for n in names}


def _coordinate(dataset, station, axis):
    wanted = {"x": ("longitude", "projection_x_coordinate"), "y": ("latitude", "projection_y_coordinate")}[axis]
    for name, variable in dataset.variables.items():
        if variable.dims == (station,) and (variable.attrs.get("standard_name") in wanted or name in (axis, *wanted)):
            return variable.values
    return np.full(dataset.sizes[station], np.nan)


def read_observations(
    folder: str | pathlib.Path, names: Iterable[str], start: datetime.datetime | None = None
) -> dict[str, Series]:
    """The observed series of the gauges `names` that have a file in `folder`, {name: Series}; dates count from `start`.

    Raises:
        PlotError: if there is no such folder, no file belongs to any gauge, or a file cannot be used.
    """
    folder = pathlib.Path(folder)
    if not folder.is_dir():
        raise PlotError(f"read_observations: {folder} is no folder; give the one that holds a file per gauge.")
    try:
        records = read_folder(folder, names, start)
    except DataError as error:
        raise PlotError(f"read_observations: {error}") from error
    return {name: Series(name, record.time, record.value) for name, record in records.items()}
