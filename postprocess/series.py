"""Modelled and observed series of gauges, read from files; without a plotting library.

Observed series are a folder of CSV files, one a gauge, with a header line and the columns `time_s` (seconds since the
start) and `elevation_m`; a gauge belongs to the file whose name, without .csv, is its own name or a word of it.
"""

import csv
import json
import pathlib
import re
from collections.abc import Iterable, Mapping

import numpy as np
import xarray as xr

from .errors import PlotError
from .files import open_output, seconds
from .scores import Rules, Series, scores, table

__all__ = ["gauge_names", "read_gauges", "read_observations", "rules_of", "score_table"]


def score_table(path: str | pathlib.Path, observations: str | pathlib.Path) -> str:
    """The scores of a gauge file against a folder of observed records, as text.

    Raises:
        PlotError: for a file without gauges, or a folder without records of them.
    """
    with open_output(path) as dataset:
        modelled = read_gauges(dataset)
    return table(scores(modelled, read_observations(observations, [series.name for series in modelled])))


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
    time = seconds(dataset)
    names = gauge_names(dataset)
    rules = rules_of(dataset.attrs, names)
    return [Series(n, time, v, float(a), float(b), rules[n]) for n, v, a, b in zip(names, values, x, y)]


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


def read_observations(folder: str | pathlib.Path, names: Iterable[str]) -> dict[str, Series]:
    """The observed series of the gauges `names` that have a file in `folder`, {name: Series}.

    Raises:
        PlotError: if there is no such folder, a file lacks a column, or no file belongs to any gauge.
    """
    folder = pathlib.Path(folder)
    if not folder.is_dir():
        raise PlotError(f"read_observations: {folder} is no folder; give the one that holds a CSV file per gauge.")
    files = {path.stem.lower(): path for path in sorted(folder.glob("*.csv"))}
    found = {}
    for name in names:
        words = (name.lower(), *name.lower().replace("_", " ").replace("-", " ").split())
        path = next((files[word] for word in words if word in files), None)
        if path is not None:
            found[name] = _read_csv(path, name)
    if not found:
        raise PlotError(
            f"read_observations: no CSV file in {folder} is named after one of the gauges "
            f"{', '.join(names)}; name each file after its gauge."
        )
    return found


def _read_csv(path, name):
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:  # spreadsheets write a byte order mark
            rows = list(csv.DictReader(file, skipinitialspace=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise PlotError(f"read_observations: {path} is no text that can be read; save it as CSV in UTF-8.") from error
    if not rows or not {"time_s", "elevation_m"} <= set(rows[0]):
        raise PlotError(
            f"read_observations: {path} lacks the columns time_s and elevation_m in its first line; add that line."
        )
    table = np.array([[_number(row["time_s"]), _number(row["elevation_m"])] for row in rows])
    if not np.isfinite(table).all(axis=1).any():
        raise PlotError(f"read_observations: no line of {path} has two numbers, time_s and elevation_m; give some.")
    table = table[np.isfinite(table[:, 0])]
    time, first = np.unique(table[:, 0], return_index=True)
    return Series(name, time, table[first, 1])


def _number(text):
    try:
        return float(text)
    except (TypeError, ValueError):
        return np.nan
