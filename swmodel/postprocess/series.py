"""Modelled and observed series of gauges, and high-water marks; without a plotting library.

Observed series are a folder of files, one a gauge. The reader is that of the model's misfits and inversions, so that
all take the same observations (observed/folder.py).

High-water marks are compared with the largest levels of a run, from its file of maxima or the like. A mark is the
height that water has reached at a place: its level [m above the zero of the run's levels], or its depth above the
ground [m]. The model's height is that of the nearest cell that was wet within `reach` cells of the mark; marks without
such a cell were not reached. With O_i observed and M_i modelled heights, of marks that were reached,

    bias    mean(M_i - O_i) [m]
    rmse    sqrt(mean((M_i - O_i)^2)) [m]
    K       exp(mean(log(O_i / M_i)))                    the geometric mean of the ratios, 1 is best
    kappa   exp(sqrt(mean(log(O_i / M_i)^2) - log(K)^2))  their geometric scatter, 1 is best

Aida (1978), doi:10.4294/jpe1952.26.57; K and kappa are of marks where both heights are above 0.
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
from ..forcing.constituents import waves_of
from ..grids.regrid import Date
from ..observed.folder import read_folder
from ..observed.points import nearest_cell, read_marks
from .files import analysis_begins, driving, nodal_latitude, open_output, seconds, start_of, undamaged, writing
from .inundation import film_of, has_finer_bed, inundation, nodes_of_bed
from .scores import Rules, Series, scores, table


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
    with writing("export", output) as part, part.open("w", newline="") as file:
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
    waves = waves_of(tides, start_of(dataset), nodal_latitude(dataset))
    depth = dataset["depth"].values if variable == "eta" and "depth" in dataset else np.full(len(names), np.inf)
    gauges = []
    for k, gauge in enumerate(names):
        rule = dataclasses.replace(rules[gauge], arrives=not kind, waves=waves, fit_from=analysis_begins(dataset))
        value, ground = (values[k], np.nan) if depth[k] >= 0 else (_flow_depth(dataset, k, values[k]), -float(depth[k]))
        gauges.append(Series(gauge, time, value, float(x[k]), float(y[k]), rule, ground))
    return gauges


def _flow_depth(dataset, k, level):
    """The depth of the water over the ground of a gauge on land [m], 0 under a film."""
    depth, film = level + float(dataset["depth"].values[k]), film_of(dataset)
    if "thickness" in dataset:  # over a bed that moves; that of a finer bed is a mean over the cell
        thickness = dataset["thickness"].transpose(..., "time").values[k].astype(float)
        depth = np.where(thickness <= film, 0.0, depth) if has_finer_bed(dataset) else thickness
    return np.where(depth <= film, 0.0, depth) + 0.0 * level


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


def read_observations(folder: str | pathlib.Path, names: Iterable[str], start: Date | None = None) -> dict[str, Series]:
    """The observed series of the gauges `names` that have a file in `folder`, {name: Series}; dates count from `start`.

    Raises:
        PlotError: if there is no such folder, no file belongs to any gauge, or a file cannot be used.
    """
    folder = pathlib.Path(folder)
    if not folder.is_dir():
        raise PlotError(f"read_observations: {folder} is no folder; give the one that holds a file per gauge.")
    try:
        if start is not None and not isinstance(start, datetime.datetime):  # dates in records are Gregorian
            start = datetime.datetime.fromisoformat(start.isoformat())
        records = read_folder(folder, names, start)
    except DataError as error:
        raise PlotError(f"read_observations: {error}") from error
    return {name: Series(name, record.time, record.value) for name, record in records.items()}


FEWEST = 2  # marks for a geometric mean


@dataclasses.dataclass(frozen=True)
class Mark:
    """A high-water mark.

    Attributes:
        name: of the mark.
        x, y: in the file's coordinates.
        observed, modelled: height [m]; the modelled one is NaN where no water came.
    """

    name: str
    x: float
    y: float
    observed: float
    modelled: float


@dataclasses.dataclass(frozen=True)
class Marks:
    """The marks of a table that lie on the grid, with their scores; str() is a table.

    Attributes:
        marks: of the table, those on the grid with a height.
        left_out: the number of others.
    """

    marks: tuple[Mark, ...]
    left_out: int = 0

    @property
    def errors(self) -> np.ndarray:
        """Modelled - observed of the marks that were reached [m]."""
        pairs = np.array([(mark.modelled, mark.observed) for mark in self.marks], float).reshape(-1, 2)
        errors = pairs[:, 0] - pairs[:, 1]
        return errors[np.isfinite(errors)]

    @property
    def aida(self) -> tuple[float, float]:
        """(K, kappa), NaN for fewer than FEWEST marks with heights above 0."""
        pairs = [(mark.observed, mark.modelled) for mark in self.marks if mark.observed > 0 and mark.modelled > 0]
        if len(pairs) < FEWEST:
            return np.nan, np.nan
        ratios = np.log(np.divide(*np.transpose(pairs)))
        return float(np.exp(ratios.mean())), float(np.exp(ratios.std()))

    def __str__(self) -> str:
        width = max(len(mark.name) for mark in self.marks)
        lines = [f"{'mark':{width}s}  observed  modelled     error"]
        for mark in self.marks:
            error = mark.modelled - mark.observed
            numbers = ("not reached", "") if np.isnan(error) else (f"{mark.modelled:8.2f}", f"  {error:+8.2f}")
            lines.append(f"{mark.name:{width}s}  {mark.observed:8.2f}  {''.join(numbers)}")
        if self.left_out:
            verb = "lies" if self.left_out == 1 else "lie"
            lines.append(f"{self.left_out} more {verb} outside of the grid, or without a height")
        errors, (mean, scatter) = self.errors, self.aida
        reached = f"{errors.size} of {len(self.marks)} marks were reached"
        if not errors.size:
            return "\n".join([*lines, reached])
        about = f"bias {errors.mean():+.2f} m, rmse {np.sqrt((errors**2).mean()):.2f} m"
        return "\n".join([*lines, f"{reached}: {about}, K {mean:.2f}, kappa {scatter:.2f}"])


def marks(
    path: str | pathlib.Path,
    table: str | pathlib.Path,
    reach: int = 2,
    bed: str | pathlib.Path | None = None,
    datum: float = 0.0,
) -> Marks:
    """Compare the high-water marks of a table with the largest levels in an output file.

    Args:
        path: of a file that has `maximum_elevation`, as [output.maxima] writes it.
        table: CSV or netCDF with x and y, or longitude and latitude on the sphere, and elevation_m or depth_m
            (observed/points.py).
        reach: cells from a mark within which water counts.
        bed: a file of elevations; a depth is then the level above its node next to the mark, instead of the thickness
            of the water in the cell. Runs over beds finer than their cells need it for depths.
        datum: the level of the water at rest above the zero of that file [m].

    Raises:
        PlotError: for a file without maxima, and for depths over a finer bed that is not given.
        DataError: for a table that lacks a column, has other coordinates than the file, or no mark on the grid.
    """
    if reach < 0:
        raise PlotError(f"marks: reach = {reach} is not a number of cells; give 0 or more.")
    with undamaged([pathlib.Path(path)]), open_output(path) as dataset:
        flood, finer = inundation(dataset), has_finer_bed(dataset)
    mesh = flood.mesh
    observed = read_marks(table, mesh.spherical)
    if observed.of_depth and finer and bed is None:
        raise PlotError(
            f"marks: {table} has depths above the ground, and cells of {path} have beds finer than they are, which it "
            "does not hold; give the file of elevations with --bed, or marks with elevation_m."
        )
    west, east, south, north = mesh.extent
    x, y = mesh.turned(observed.x), observed.y
    inside = (x >= west) & (x <= east) & (y >= south) & (y <= north)
    if not inside.any():
        raise DataError(f"{table} has no mark on the grid of {path}; check the coordinates of both.")
    over_bed = observed.of_depth and bed is not None
    ground = np.zeros(x.size)
    if over_bed:
        ground[inside] = _ground_under(x[inside], y[inside], mesh, bed, datum)
    highest, compared = (flood.thickness if observed.of_depth and not over_bed else flood.level), []
    for k in np.flatnonzero(inside):
        row, column = (y[k] - south) / mesh.height - 0.5, (x[k] - west) / mesh.width - 0.5
        cell = nearest_cell(row, column, highest.shape, reach, lambda j, i: flood.wet[j, i])
        modelled = np.nan if cell is None else float(highest[cell])
        if over_bed:  # the water of a cell may lie below the ground next to the mark
            modelled = modelled - ground[k] if modelled > ground[k] else np.nan
        compared.append(Mark(observed.names[k], float(x[k]), float(y[k]), float(observed.height[k]), modelled))
    return Marks(tuple(compared), observed.left_out + int(np.count_nonzero(~inside)))


def _ground_under(x, y, mesh, bed, datum):
    """The height of the ground under marks [m]: that of the node of a finer bed next to each of them."""
    nodes_x, nodes_y, heights = nodes_of_bed(bed, datum)
    (i, away_x), (j, away_y) = (_nearest(*pair) for pair in ((mesh.turned(nodes_x), x), (nodes_y, y)))
    ground = np.where(away_x | away_y, np.nan, heights[j, i])
    if missing := int(np.count_nonzero(np.isnan(ground))):
        raise PlotError(f"marks: {bed} has no height next to {missing} of {x.size} marks; give a bed that holds them.")
    return ground


def _nearest(nodes, points):
    """(the number of the node next to each point, whether it is further away than half a spacing)."""
    nearest = np.argmin(np.abs(nodes - points[:, None]), axis=1)
    return nearest, np.abs(nodes[nearest] - points) > 0.501 * np.abs(np.diff(nodes)).min()
