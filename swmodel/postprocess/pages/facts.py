"""Properties of a run from its files: its set-up, its timing, and the scores of its gauges."""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from ..files import mesh_of, seconds, start_of, wet_cells
from ..scores import time_unit

TIMING = "timing.json"  # in the folder of the output files; swmodel/cli/logs.py writes it


def setup_rows(dataset: xr.Dataset, attributes: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(label, text) pairs of the model, from a file of fields (or a file without a grid) and its attributes."""
    rows = []
    if {"xh", "yh"} <= set(dataset.variables):
        mesh, wet = mesh_of(dataset), wet_cells(dataset)
        kind = "longitude and latitude" if mesh.spherical else "Cartesian"
        rows.append(("Grid", f"{mesh.x.size} × {mesh.y.size} cells, {kind}"))
        rows.append(("Extent", _extent(mesh)))
        rows.append(("Water", f"{100 * wet.mean():.0f} % of the cells{_depths(dataset, wet)}"))
    start, step = start_of(dataset), attributes.get("time_step_seconds")
    if start is not None:
        rows.append(("Start", f"{start:%Y-%m-%d %H:%M:%S} UTC"))
    if "time" in dataset.variables and dataset["time"].size > 1:
        time = seconds(dataset)
        unit, _, length = time_unit(abs(float(time[-1])) * 0.999)
        rows.append(("Records", f"{time.size}, from {time[0] / length:.4g} to {time[-1] / length:.4g} {unit}"))
    if step is not None:
        stepper = str(attributes.get("time_stepper", "")).partition("(")[0]
        rows.append(("Time step", f"{float(step):.6g} s, {stepper}".rstrip(", ")))
    ranks = attributes.get("ranks")
    if ranks is not None:
        layout = str(attributes.get("layout", "")).replace(" x ", " × ")
        rows.append(
            ("Ranks", f"{int(ranks)}" + (f", {layout}, {attributes['communicator']}" if int(ranks) > 1 else ""))
        )
    if "computed_in" in attributes:
        rows.append(("Precision", str(attributes["computed_in"])))
    return rows


def _extent(mesh):
    west, east, south, north = mesh.extent
    if mesh.spherical:
        return f"{west:g}° to {east:g}° east, {south:g}° to {north:g}° north"
    return f"{(east - west) * mesh.scale:g} × {(north - south) * mesh.scale:g} {mesh.unit}"


def _depths(dataset, wet):
    if "depth" not in dataset or not wet.any() or dataset["depth"].ndim != 2:
        return ""
    depth = dataset["depth"].values[wet]
    low, high = float(np.nanmin(depth)), float(np.nanmax(depth))
    return f", {low:.4g} m deep" if low == high else f", {low:.4g} to {high:.4g} m deep"


def _duration(time):
    unit, _, length = time_unit(abs(float(time)) * 0.999)
    return f"{float(time) / length:.3g} {unit}"


def timing_rows(folder: pathlib.Path, attributes: Mapping[str, Any], cells: int) -> list[tuple[str, str]]:
    """(label, text) pairs of the time that the run took, from timing.json; none without this file.

    Args:
        cells: of the grid.
    """
    try:
        legs = json.loads((folder / TIMING).read_text(encoding="utf-8"))
        steps = sum(int(leg["steps"]) for leg in legs)
        wall = sum(float(leg["wall_seconds"]) for leg in legs)
        model = sum(float(leg["model_seconds"]) for leg in legs)
        first = [float(leg["first_step_after_seconds"]) for leg in legs if leg["first_step_after_seconds"] is not None]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    if not legs or wall <= 0:
        return []
    parts = f", in {len(legs)} runs" if len(legs) > 1 else ""
    rows = [
        ("Duration", f"{_duration(wall)} for {_duration(model)} of model time{parts}"),
        ("Speed", f"{_digits(model / wall)} times as fast as real time"),
        ("Steps", f"{steps:,}, {_digits(steps / wall)} a second"),
        ("Cells", f"{_digits(steps * cells / wall / 1e6)} million cell updates a second"),
    ]
    return rows + ([("First step", f"after {_duration(first[0])}, with start and compilation")] if first else [])


def _digits(value):
    return f"{value:.3g}" if value < 1000 else f"{float(f'{value:.3g}'):,.0f}"
