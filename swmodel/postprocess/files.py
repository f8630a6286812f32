"""The content of an output file: times, C-grid coordinates, land, and the kind of figure that suits it.

Files follow CF and SGRID: centres `yh, xh` with eta, faces `xq` of u and `yq` of v, corners `yq, xq`; n + 1 faces along
a closed or open direction, n (the east and north ones) along a periodic one; NaN on land; time since the start.
"""

import contextlib
import datetime
import json
import pathlib
import re
import tomllib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import cftime
import numpy as np
import xarray as xr

from ..defaults import EARTH_RADIUS
from ..errors import PlotError
from ..forcing.constituents import middle_latitude
from ..grids.grid import CartesianGrid, SphericalGrid
from ..grids.regrid import Date, calendar_called, in_calendar
from ..output import BLOCKS, STATISTICS
from ..runtime.paths import replacing
from ..units import year
from .mesh import Mesh, mesh_on

STORMS = {"cyclone", "wind", "air_pressure"}
SHORT = 300.0  # [s], the length of a run from which on its times are in hours and minutes
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_UNITS = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0}  # [s]


def open_output(path: str | pathlib.Path, member: int | None = 0, layer: int | None = 1) -> xr.Dataset:
    """An output file as a lazy xarray.Dataset whose times are numbers; of an ensemble one member, or all for None.

    Of several layers it has the one of this number, counted from 1 at the top, or all for None.

    Raises:
        PlotError: for a file that is missing or no netCDF, or a member or layer that does not exist.
    """
    path = pathlib.Path(path)
    is_store = path.suffix == ".zarr" and path.is_dir()
    if path.is_dir() and not is_store:
        raise PlotError(f"open_output: {path} is a folder; give the files in it, as {path}/*.nc.")
    if not path.is_file() and not is_store:
        raise PlotError(f"open_output: {path} is no file; give the path of a netCDF file that a run has written.")
    try:
        dataset = (xr.open_zarr if is_store else xr.open_dataset)(path, decode_times=False)
    except ImportError as error:
        raise PlotError(f"open_output: {path} needs the library zarr; install swmodel[zarr].") from error
    except (OSError, ValueError) as error:
        raise PlotError(f"open_output: {path} cannot be read as netCDF; give a file that a run has written.") from error
    try:
        one = _with_names(dataset if member is None else _of_member(dataset, member, path))
        one = one if layer is None else _of_layer(one, layer, path)
    except PlotError:
        dataset.close()
        raise
    if one is not dataset:
        one.set_close(dataset.close)
    one.encoding["source"] = str(path)
    return one


@contextlib.contextmanager
def writing(who: str, path: pathlib.Path, suffix: str = "") -> Iterator[pathlib.Path]:
    """`runtime.paths.replacing`; raises PlotError if the file cannot be written."""
    try:
        with replacing(path, suffix) as part:
            yield part
    except OSError as error:
        raise PlotError(f"{who}: {path} cannot be written ({error.strerror or error}); name another file.") from error


@contextlib.contextmanager
def undamaged(paths: Sequence[pathlib.Path]) -> Iterator[None]:
    """A context in which values of the files are read; damaged ones raise PlotError, with the names of the files."""
    try:
        yield
    except RuntimeError as error:  # of the netCDF library, which reads values late
        if not str(error).startswith("NetCDF"):
            raise
        names = " or ".join(map(str, paths))
        raise PlotError(f"plot: {names} is damaged ({error}); give a file that a run has written whole.") from error


def _with_names(dataset):
    """Index gauges by their names, as in `dataset.sel(gauge="Lisbon")`; in files CF requires numbers."""
    if "gauge_name" not in dataset.variables:
        return dataset
    names = [n.decode() if isinstance(n, bytes) else str(n) for n in dataset["gauge_name"].values]
    return dataset.assign_coords(gauge=("gauge", names))


def _of_member(dataset, member, path):
    """One member of an ensemble's file, named in the title; a file of one run is returned unchanged."""
    count = dataset.sizes.get("member", 1)
    if not 0 <= member < count:
        raise PlotError(f"open_output: {path} has no member {member}; it holds {count}, counted from 0.")
    if "member" not in dataset.dims:
        return dataset
    names = [name for name, values in dataset.variables.items() if values.dims == ("member",) and name != "member"]
    one = dataset.isel(member=member)
    values = ", ".join(f"{name} = {one[name].item()}" for name in names)
    shown = f"member {member}{f' ({values})' if values else ''}"
    return one.assign_attrs(title=f"{dataset.attrs.get('title', '')}: {shown}", shown=shown)


def _of_layer(dataset, layer, path):
    """One layer of a file, named in the title, without depth, which is not its own; others are returned unchanged."""
    count = dataset.sizes.get("layer", 1)
    if not 1 <= layer <= count:
        raise PlotError(f"open_output: {path} has no layer {layer}; it holds {count}, counted from 1 at the top.")
    if "layer" not in dataset.dims:
        return dataset
    one = dataset.isel(layer=layer - 1, interface=layer - 1, missing_dims="ignore").drop_vars("depth", errors="ignore")
    title = f"{dataset.attrs.get('title', '')}: layer {layer} of {count}"
    one.attrs = {name: x for name, x in one.attrs.items() if name != "gravity"} | {"title": title}  # it is not g eta
    return one


def _source(dataset):
    return dataset.encoding.get("source", "the dataset")


def kind_of(dataset: xr.Dataset) -> str:
    """The kind of a file: "restart", "sensitivity", "inversion", "spectra", "gauges", "drifters", "maxima", "fields",
    or one of STATISTICS."""
    for attribute in ("restart_format", "sensitivity_of", "inversion_of"):
        if attribute in dataset.attrs:
            return attribute.partition("_")[0]
    if "wavenumber" in dataset.dims:
        return "spectra"
    for role, kind in (("timeseries_id", "gauges"), ("trajectory_id", "drifters")):
        if any(role == v.attrs.get("cf_role") for v in dataset.variables.values()):
            return kind
    for kind, part in STATISTICS.items():
        if any(part in f"{name}" and "time" not in v.dims and positions(v) for name, v in dataset.data_vars.items()):
            return kind
    if "maximum_elevation" in dataset:
        return "maxima"
    if any(positions(v) for v in dataset.data_vars.values()):
        return "fields"
    raise PlotError(
        f"plot: {_source(dataset)} holds no field, maxima or gauges that can be drawn; give a file that "
        "`write`, `maxima` or `gauges` of a run has written."
    )


def experiment_of(attributes: Mapping[str, Any]) -> tuple[str, dict, pathlib.Path | None]:
    """(the text of the experiment file, its content, the folder of its paths) from the attribute `config` of a file.

    A run that was started from Python may keep any text, or none: then the content is {}. The content of a nest's file
    has what its [[nest]] gives in place of the sections of the whole file.
    """
    head, _, text = str(attributes.get("config", "")).partition("\n")
    words = "# experiment file: "
    folder = pathlib.Path(head.removeprefix(words)).parent if head.startswith(words) else None
    text = text if folder is not None else str(attributes.get("config", ""))
    try:
        experiment = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return text, {}, None
    return text, _of_nest(experiment, attributes["nest"]) if "nest" in attributes else experiment, folder


def _of_nest(experiment, name):
    """The content of an experiment file for one of its nests, as `swmodel/config/families.py` has it."""
    own = next((table for table in experiment.get("nest", ()) if table.get("name") == name), {})
    floor, output = experiment.get("bathymetry", {}) | own.get("bathymetry", {}), own.get("output", {})
    gauges = experiment.get("output", {}).get("gauges", {}) | output.get("gauges", {})
    sections = {"bathymetry": floor, "output": output | {"gauges": gauges}}
    return experiment | sections


def driving(dataset: xr.Dataset) -> tuple[str, tuple[str, ...]]:
    """(what drives the run, its tidal constituents): "storm", "tide", other "forcing", or "" for a wave from a source.

    They follow from the experiment in the file, and from its attribute `tidal_constituents`, which files of version
    0.2.0 lack. Runs that are made in Python have no experiment; without tides they count as those of a wave.
    """
    _, experiment, _ = experiment_of(dataset.attrs)
    parts = [*experiment.get("boundary", ()), *experiment.get("forcing", ())]
    values = [each for part in parts for each in (part, *part.values()) if isinstance(each, dict)]
    named = [name for value in values for name in (*value.get("constituents", ()), *value.get("names", ()))]
    names = str(dataset.attrs.get("tidal_constituents", "")).split() or named
    kinds = {part.get("type") for part in experiment.get("forcing", ())}
    has_tide = names or "tidal_potential" in kinds or any("atlas" in value for value in values)
    if "source" in experiment or not (has_tide or kinds):
        return "", ()
    kind = "storm" if kinds & STORMS else "tide" if has_tide else "forcing"
    return kind, tuple(dict.fromkeys(str(name).upper() for name in names))


def nodal_latitude(dataset: xr.Dataset) -> float | None:
    """The latitude of the nodal factors of the run's tides [degrees]; of files of version 0.2.0 the grid's middle."""
    if "tidal_constituents" in dataset.attrs:
        return dataset.attrs.get("nodal_latitude")
    return middle_latitude(_grid_of(dataset)) if "grid_description" in dataset.attrs else None


def positions(array: xr.DataArray) -> tuple[str, str] | None:
    """The C-grid dimensions (y, x) of `array`, or None if it has none."""
    y, x = (next((d for d in (f"{axis}h", f"{axis}q") if d in array.dims), None) for axis in "yx")
    return (y, x) if x and y else None


def seconds(dataset: xr.Dataset, name: str = "time") -> np.ndarray:
    """Times [s] of the variable `name` since the start of the run; of dates, too, as xarray decodes them."""
    if name not in dataset.variables:
        raise PlotError(f"seconds: {_source(dataset)} has no time; give a file with several records.")
    time = dataset[name]
    first = (time.attrs.get("units") or time.encoding.get("units", "")).partition(" since ")[2]
    if time.dtype == object:  # dates of another calendar
        return np.atleast_1d(cftime.date2num(time.values, f"seconds since {first}")).astype(float)
    if np.issubdtype(time.dtype, np.datetime64):
        dates = np.atleast_1d(time.values)
        return (dates - (np.datetime64(first.replace(" ", "T")) if first else dates[0])) / np.timedelta64(1, "s")
    length = _unit_of_time(time.attrs.get("units", "seconds").split(" since ")[0])
    if length is None:
        raise PlotError(
            f"seconds: the unit of time in {_source(dataset)}, {time.attrs['units']!r}, is not known; "
            "write seconds, minutes, hours or days."
        )
    return np.atleast_1d(time.values).astype(float) * length


def _unit_of_time(text):
    """The length of a unit of time [s], None of an unknown one."""
    unit = text.strip().lower().rstrip("s")
    short = {"": "second", "sec": "second", "hr": "hour", "h": "hour", "min": "minute", "d": "day"}
    return _UNITS.get(short[unit] if unit in short else unit)


def analysis_begins(dataset: xr.Dataset) -> float:
    """The time [s] from which on the run's experiment fits harmonic constants; -inf unless it names one."""
    begin = experiment_of(dataset.attrs)[1].get("output", {}).get("harmonics", {}).get("begin", "")
    match = re.fullmatch(r"([\d.eE+-]+)\s*(\w*)", str(begin).strip())
    is_year = match is not None and match[2] in ("yr", "year", "years")  # of experiments; those of files differ
    length = year if is_year else None if match is None else _unit_of_time(match[2])
    return -np.inf if match is None or length is None else float(match[1]) * length


def start_of(dataset: xr.Dataset) -> Date | None:
    """The date at which the time axis starts, in its calendar, or None if the file has none or a nominal one."""
    if "time" not in dataset.variables or dataset["time"].attrs.get("comment", "").startswith("nominal"):
        return None
    about = dataset["time"].encoding | dataset["time"].attrs  # xarray moves units of dates to the encoding
    date = about.get("units", "").partition(" since ")[2].strip().removesuffix("UTC").removesuffix("Z").strip()
    try:
        start = datetime.datetime.fromisoformat(date)
    except ValueError:
        return None
    if start.year < 1000:
        return None
    calendar, start = calendar_called(about.get("calendar", "standard")), start.replace(tzinfo=None)
    return start if calendar == "standard" else in_calendar(start, calendar, "the file")


def stamp(time: float, start: Date | None = None, longest: float = 0.0) -> str:
    """`time` [s] as text: "12.5 s", "T+01:30 (07:16 UTC)", "day 31.5 (2011-04-11)" or "year 2.5 (2013-09-09)".

    The larger of `time` and `longest` decides which form is used, so that all stamps of a figure have the same form.
    """
    longest = max(abs(time), longest)
    if start is None and 0 < longest < SHORT:
        return f"{time:.4g} s"
    if longest < 4 * 86400:
        minutes = int(round(abs(time) / 60))
        time = 60.0 * (-minutes if time < 0 else minutes)
        text = f"T{'-' if time < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
        form = "%H:%M UTC"
    elif longest < 2 * 365.25 * 86400:
        text, form = f"day {time / 86400:.4g}", "%Y-%m-%d"
    else:
        text, form = f"year {time / 86400 / 365.25:.3f}".rstrip("0").rstrip("."), "%Y-%m-%d"
    if start is None:
        return text
    return f"{text} ({start + datetime.timedelta(seconds=float(time)):{form}})"


def nearest(dataset: xr.Dataset, times: Sequence[float]) -> list[int]:
    """Numbers of the records nearest to `times` [s], each once and in order.

    Raises:
        PlotError: for a time outside the records.
    """
    have = seconds(dataset)
    slack = 0.51 * np.diff(have).max() if have.size > 1 else 1.0
    for time in times:
        if not have[0] - slack <= time <= have[-1] + slack:
            raise PlotError(
                f"nearest: time {time:g} s is not in {_source(dataset)}, which goes from {have[0]:g} to "
                f"{have[-1]:g} s; choose one in between."
            )
    return sorted({int(np.abs(have - time).argmin()) for time in times})


def snapshot(dataset: xr.Dataset, name: str, record: int | None = None) -> np.ndarray:
    """One record of a variable as a float64 array [y, x], NaN on land."""
    if name not in dataset:
        have = ", ".join(sorted(str(n) for n, v in dataset.data_vars.items() if positions(v))) or "none"
        raise PlotError(f"plot: {_source(dataset)} has no variable {name!r}; it has {have}.")
    array = dataset[name]
    along = positions(array)
    if along is None:
        raise PlotError(f"plot: {name!r} in {_source(dataset)} is no field on the grid; choose one with y and x.")
    if "time" in array.dims:
        array = array.isel(time=-1 if record is None else record)
    values = array.transpose(*along).values.astype(float)
    if (count := int(np.isinf(values).sum())) > 0:
        warnings.warn(f"{_source(dataset)}: {name} is infinite in {count} cells, which count as missing.", stacklevel=2)
        values[np.isinf(values)] = np.nan
    return values


def label(array: xr.DataArray) -> str:
    """ "Sea surface elevation [m]", from the metadata."""
    text = array.attrs.get("long_name") or str(array.name).replace("_", " ")
    units = array.attrs.get("units", "")
    return text[:1].upper() + text[1:] + (f" [{pretty(units)}]" if units and units != "1" else "")


def pretty(units: str) -> str:
    """Units with raised exponents: "m s-1" -> "m s⁻¹"."""
    return re.sub(r"(?<=[A-Za-z])-?\d+", lambda power: power[0].translate(RAISED), units)


def scaled(values: np.ndarray, units: str) -> tuple[np.ndarray, str]:
    """(values divided by a power of ten, units such as "10¹⁵ J"), for axes with large or small numbers."""
    size = np.nanmax(np.abs(values), initial=0.0)
    if size == 0 or 1e-2 <= size < 1e4:
        return values, pretty(units)
    power = int(np.floor(np.log10(size)))
    return values / 10.0**power, f"10{str(power).translate(RAISED)} {pretty(units)}".rstrip()


def mesh_of(dataset: xr.Dataset) -> Mesh:
    """The Mesh of a file: of its `xh` and `yh`, or, of a file of points, that of the run's grid."""
    if not {"xh", "yh"} <= set(dataset.variables):
        if "grid_description" not in dataset.attrs:
            raise PlotError(f"mesh_of: {_source(dataset)} has no coordinates xh and yh; give a file that a run wrote.")
        return mesh_on(_grid_of(dataset))
    sizes = dataset.sizes
    spherical = "degree" in dataset["xh"].attrs.get("units", "")
    x, width = _line(dataset, "xh", "xq")
    y, height = _line(dataset, "yh", "yq")
    radius = float(dataset.attrs.get("radius", EARTH_RADIUS))
    return Mesh(x, y, width, height, spherical, sizes.get("xq") == sizes["xh"], sizes.get("yq") == sizes["yh"], radius)


def _grid_of(dataset):
    """The Grid of the run that wrote a file."""
    about = json.loads(dataset.attrs["grid_description"])
    return {"CartesianGrid": CartesianGrid, "SphericalGrid": SphericalGrid}[about.pop("type")](**about)


def _line(dataset, centre, face):
    centres = dataset[centre].values.astype(float)
    if centres.size > 1:
        return centres, (centres[-1] - centres[0]) / (centres.size - 1)
    if face not in dataset.variables:
        raise PlotError(f"mesh_of: {_source(dataset)} has one cell along {centre[0]} and no {face}; write {face} too.")
    return centres, 2 * float(dataset[face].values[-1] - centres[-1])


def check_cells(who: str, dataset: xr.Dataset) -> None:
    """Raise PlotError for a file of means over blocks, from which nothing that is not linear in fields follows."""
    if has_blocks(dataset):
        n = int(dataset.attrs[BLOCKS])
        raise PlotError(
            f"{who}: {_source(dataset)} has means over blocks of {n} x {n} cells, from which it does not follow; give "
            "a file without coarsen."
        )


def has_blocks(dataset: xr.Dataset) -> bool:
    """Whether the fields of a file are means over blocks of cells."""
    return BLOCKS in dataset.attrs


def wet_cells(dataset: xr.Dataset) -> np.ndarray:
    """True at the centres of wet cells, (ny, nx): from `wet` or `mask`, else where there is depth or a finite field."""
    for name in ("wet", "mask"):
        if name in dataset and positions(dataset[name]) == ("yh", "xh"):
            return np.nan_to_num(snapshot(dataset, name)) > 0.5
    if "depth" in dataset and positions(dataset["depth"]) == ("yh", "xh"):
        return np.nan_to_num(snapshot(dataset, "depth")) > 0
    for name in ("maximum_elevation", "eta"):
        if name in dataset:
            return np.isfinite(snapshot(dataset, name))
    sizes = dataset.sizes
    return np.ones((sizes["yh"], sizes["xh"]), bool)
