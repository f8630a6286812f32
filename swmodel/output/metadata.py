"""CF-1.11 and SGRID-0.3 metadata of the files: grid, variables, time and run.

Dimensions xh, yh are cell centres, xq, yq faces. A direction that is not periodic has n + 1 faces (SGRID padding none,
xgcm "outer"); a periodic one has n, the east and north ones (SGRID padding low, xgcm "right").

https://cfconventions.org/cf-conventions/cf-conventions.html, https://sgrid.github.io/sgrid/
"""

import dataclasses
import datetime
import json
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import netCDF4
import numpy as np
from numpy.typing import DTypeLike

from ..dynamics.layer import over_deep_water
from ..fields.parameters import in_utc
from ..fields.parts import ModelPart
from ..fields.variables import OF_LAYERS, OF_LAYERS_OVER_DEEP_WATER, VARIABLES, Variable, named_for, row_of
from ..grids.grid import Grid
from ..grids.regrid import Date
from ..models.ensemble import Ensemble
from ..models.parts import nodal_latitude, tides_of
from ..models.shallow_water import ShallowWater
from ..runtime.packages import VERSION, git_commit
from .fingerprint import describe

if TYPE_CHECKING:
    from .schedule import AbstractSimulation

CONVENTIONS, SGRID = "CF-1.11", "SGRID-0.3"
DIMENSIONS = {"h": ("yh", "xh"), "u": ("yh", "xq"), "v": ("yq", "xh"), "q": ("yq", "xq")}
LOCATIONS = {"h": "face", "u": "edge1", "v": "edge2", "q": "node"}  # the terms of SGRID
Compression = Literal[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, "zstd"]
MemberValues = Mapping[str, Sequence[Any]]  # {name: values, one for each member of an ensemble}
Attribute: TypeAlias = str | float | np.generic | np.ndarray | Sequence[float] | Sequence[str] | None
Attributes: TypeAlias = dict[str, Attribute]  # of a variable or a file
NOMINAL_START = datetime.datetime(2000, 1, 1)

# On the sphere x points east and y north, and CF has standard names for these components.
ON_SPHERE = {
    "sea_water_x_velocity": "eastward_sea_water_velocity",
    "sea_water_y_velocity": "northward_sea_water_velocity",
}


def variable_of(name: str | Variable) -> Variable:
    """The row of the variable table with this name; a row is returned as it is.

    Raises:
        ValueError: for a name that is not in the table.
    """
    if isinstance(name, Variable):
        return name
    if (row := row_of(name)) is None:
        raise ValueError(f"there is no variable {name!r}; choose from {', '.join(VARIABLES)}.")
    return row


def faces(grid: Grid) -> tuple[int, int]:
    """The numbers of faces in files, (along y, along x)."""
    return grid.ny + (not grid.periodic_y), grid.nx + (not grid.periodic_x)


def shape(grid: Grid, position: str) -> tuple[int, int]:
    """The shape in files of a field at the C-grid position "h", "u", "v" or "q"."""
    rows, columns = faces(grid)
    return rows if position in "vq" else grid.ny, columns if position in "uq" else grid.nx


def reach_of_water(wet: np.ndarray, grid: Grid, position: str) -> np.ndarray:
    """True at the points of a C-grid position that touch a wet cell; beyond a wall there is land.

    Args:
        wet: (ny, nx), true in wet cells.
        grid: the Grid.
        position: "h", "u", "v" or "q".

    Returns:
        np.ndarray: bools, of `shape(grid, position)`.
    """
    wet = np.asarray(wet) > 0.5
    for axis, moves, periodic in ((1, position in "uq", grid.periodic_x), (0, position in "vq", grid.periodic_y)):
        if moves and periodic:
            wet = wet | np.roll(wet, -1, axis)
        elif moves:
            pad = [(1, 1) if k == axis else (0, 0) for k in (0, 1)]
            beyond = np.pad(wet, pad)
            wet = np.delete(beyond, 0, axis) | np.delete(beyond, -1, axis)
    return wet


def metrics(grid: Grid) -> dict[str, tuple[tuple[str, ...], Attributes, np.ndarray]]:
    """{name: (dimensions, attributes, values)} of cell sides [m] and areas [m2] at all positions: a value for each row.

    dx_u is the distance of two cell centres along x, dy_v that along y, dx_v and dy_u are the sides of a cell; area_u,
    area_v and area_q are the areas around faces and corners. So the vorticity is
    (difference_x(dy_v v) - difference_y(dx_u u)) / area_q.
    """
    first, found = 0 if grid.periodic_y else -1, {}
    for position, where in (("h", "cell centres"), ("u", "faces of u"), ("v", "faces of v"), ("q", "corners")):
        rows = np.arange(0 if position in "hu" else first, grid.ny)
        along, of = DIMENSIONS[position][:1], grid.metrics(rows)
        for axis in "xy":
            about = {"long_name": f"distance along {axis} at {where}", "units": "m"}
            values = np.broadcast_to(of[f"d{axis}_{position}"], (rows.size, 1))[:, 0]
            found[f"d{axis}_{position}"] = along, about, np.array(values, float)
        if position == "h":
            continue  # define_grid writes the areas of cells, with their standard name
        next_row = grid.metrics(rows + 1)["area_h"]
        area = 0.5 * (of["area_h"] + next_row) if position == "q" else of[f"dx_{position}"] * of[f"dy_{position}"]
        values = np.array(np.broadcast_to(area, (rows.size, 1))[:, 0], float)
        found[f"area_{position}"] = along, {"long_name": f"area around {where}", "units": "m2"}, values
    return found


def grid_variables(grid: Grid) -> dict[str, tuple[tuple[str, ...], Attributes, np.ndarray]]:
    """{name: (dimensions, attributes, values)} of a grid's coordinates, their bounds, the topology and the metrics."""
    found = {}
    for axis, edges, centres, periodic in (
        ("x", grid.x_edges, grid.x_centres, grid.periodic_x),
        ("y", grid.y_edges, grid.y_centres, grid.periodic_y),
    ):
        about, centre, face = _direction(grid, axis), f"{axis}h", f"{axis}q"
        name, bounds = about["long_name"], f"{centre}_bnds"
        found[centre] = (centre,), about | {"long_name": f"{name} of cell centres", "bounds": bounds}, centres
        found[bounds] = (centre, "bnds"), {}, np.stack([edges[:-1], edges[1:]], -1)
        # An attribute of COMODO for programs that do not read SGRID: the position of face 0 relative to centre 0
        about |= {"long_name": f"{name} of cell faces", "c_grid_axis_shift": 0.5 if periodic else -0.5}
        found[face] = (face,), about, edges[1:] if periodic else edges
    found["grid"] = (), topology(grid), np.zeros((), np.int32)
    return found | metrics(grid)


def _direction(grid, axis) -> Attributes:
    # CF reserves `axis` for horizontal coordinates that can be transformed to longitude and latitude (section 5.6)
    if not grid.spherical:
        return {"long_name": axis, "units": "m", "cartesian_axis": axis.upper()}
    name, units = ("longitude", "degrees_east") if axis == "x" else ("latitude", "degrees_north")
    return {"long_name": name, "standard_name": name, "units": units, "axis": axis.upper()}


def topology(grid: Grid) -> Attributes:
    """The attributes of the SGRID container variable.

    The dimensions of edges follow from those of faces. They are left out, since cf-xarray fails where it finds them.
    """
    x = f"xh: xq (padding: {'low' if grid.periodic_x else 'none'})"
    y = f"yh: yq (padding: {'low' if grid.periodic_y else 'none'})"
    return {
        "cf_role": "grid_topology",
        "topology_dimension": np.int32(2),
        "node_dimensions": "xq yq",
        "face_dimensions": f"{x} {y}",
        "node_coordinates": "xq yq",
        "face_coordinates": "xh yh",
        "edge1_coordinates": "xq yh",
        "edge2_coordinates": "xh yq",
        "long_name": "Arakawa C-grid: eta on faces, u on edge1, v on edge2, vorticity on nodes",
    }


def variable_attributes(variable: Variable, grid: Grid) -> Attributes:
    """The CF attributes of a row of the variable table on `grid`."""
    found: Attributes = {
        name: getattr(variable, name) for name in ("long_name", "standard_name", "units", "cell_methods")
    }
    if grid.spherical:
        found["standard_name"] = ON_SPHERE.get(variable.standard_name or "", variable.standard_name)
        found["long_name"] = re.sub("(.+) along x", r"eastward \1", str(found["long_name"]))
        found["long_name"] = re.sub("(.+) along y", r"northward \1", str(found["long_name"]))
    if variable.position == "h":
        found["cell_measures"] = "area: area"
    found |= {"grid": "grid", "location": LOCATIONS[variable.position]}
    return {name: value for name, value in found.items() if value}


def at_point(variable: Variable, grid: Grid) -> Attributes:
    """The CF attributes of a row of the variable table at gauges, without those that refer to grid cells."""
    found = variable_attributes(variable, grid)
    return {name: value for name, value in found.items() if name not in ("cell_measures", "grid", "location")}


def fill_value(dtype: DTypeLike) -> int | float | str:
    """The default fill value of netCDF for missing values of `dtype`."""
    return netCDF4.default_fillvals[np.dtype(dtype).str[1:]]


WET = {
    "long_name": "wet cells",
    "standard_name": "sea_binary_mask",
    "units": "1",
    "flag_values": np.array([0, 1], np.int8),
    "flag_meanings": "land sea",
    "cell_measures": "area: area",
    "grid": "grid",
    "location": "face",
}
AREA = {
    "long_name": "area of the cell",
    "standard_name": "cell_area",
    "units": "m2",
    "grid": "grid",
    "location": "face",
}


class Varied(list):
    """The values of a parameter, one for each member of an ensemble, in `units`."""

    def __init__(self, values: Iterable, units: str):
        super().__init__(values)
        self.units = units


def member_name(name: str) -> str:
    """The name of the variable that holds the members' values of a key such as "dissipation.0.viscosity"."""
    return re.sub(r"\W+", "_", name).strip("_")


def time_attributes(start: Date | None) -> Attributes:
    """The CF attributes of time, counted from `start` (in UTC if it has no time zone), or from a nominal date."""
    nominal, calendar = start is None, getattr(start, "calendar", "standard")
    start = NOMINAL_START if start is None else in_utc(start) if isinstance(start, datetime.datetime) else start
    found: Attributes = {
        "long_name": "time",
        "standard_name": "time",
        "axis": "T",
        "units": f"seconds since {start.isoformat(sep=' ')}",
        "calendar": calendar,
        "units_metadata": "leap_seconds: none",
    }
    if nominal:
        found["comment"] = f"nominal date: the run has no calendar, and {start:%Y-%m-%d} stands for its start"
    return found


def describe_grid(grid: Grid) -> str:
    """The class of a Grid and its arguments, as JSON."""
    return json.dumps({"type": type(grid).__name__, **dataclasses.asdict(cast(Any, grid))})


def references(model: ShallowWater | Ensemble, *parts: ModelPart | None) -> str | None:
    """The literature of the parts of a model that a run uses, and of further `parts`, as one text, or None."""
    has_vorticity_flux = model.coriolis is not None or not model.linear
    forms = [model.momentum, model.coriolis_form] if model.core.halos and has_vorticity_flux else []
    used = [part for part in (model.core, *forms, *model.terms, *model.open_boundaries, *parts) if part is not None]
    return "; ".join(dict.fromkeys(part.references for part in used if part.references)) or None


def now() -> str:
    """The present time in UTC, in the form of ISO 8601."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def file_attributes(grid: Grid, attributes: Mapping[str, Attribute] | None, *, points: bool = False) -> Attributes:
    """The global attributes of a file: its conventions, the program that wrote it, and how to write it again.

    Args:
        grid: the Grid.
        attributes: those of the run, which replace those of the same name.
        points: whether the file holds series at points and no fields on the C-grid.
    """
    given = {name: value for name, value in (attributes or {}).items() if value is not None and value != ""}
    own = {
        "Conventions": CONVENTIONS if points else f"{CONVENTIONS}, {SGRID}",
        "title": "Shallow-water model output",
        "source": f"swmodel {VERSION}",
        "history": f"{now()}: written by swmodel {VERSION}: {shlex.join(sys.argv)}",
        "version": VERSION,
        "git_commit": git_commit(),
        "grid_description": describe_grid(grid),
        "radius": np.float64(getattr(grid, "radius", np.nan)) if grid.spherical else None,
    }
    found = {name: value for name, value in own.items() if value is not None} | given
    return dict(sorted(found.items(), key=lambda item: item[0] == "config"))  # the experiment's text is the longest


def continued_attributes(old: Mapping[str, Attribute], new: Mapping[str, Attribute], seconds: float) -> Attributes:
    """The attributes of a file that a run continues at `seconds` [s]; those that differ are NAME_from_SECONDS_s."""
    later = {key: (m[1], float(m[2])) for key in old if (m := re.fullmatch(r"(.+)_from_(\d+)_s", key))}
    kept = {key: value for key, value in old.items() if key not in later or later[key][1] < seconds}
    latest = {name: key for key, (name, _) in sorted(later.items(), key=lambda item: item[1][1]) if key in kept}
    for name, value in new.items():
        if name != "history" and str(kept.get(latest.get(name, name), "")) != str(value):
            kept[f"{name}_from_{seconds:.0f}_s"] = value
    line = str(new["history"]).replace("written", f"continued at {seconds:g} s", 1)
    return {**kept, "history": f"{old['history']}\n{line}" if "history" in old else line}


def gauge_coordinates(grid: Grid) -> dict[str, Attributes]:
    """{name: attributes} of the two coordinates of gauges, x first."""
    if grid.spherical:
        return {"longitude": _direction(grid, "x"), "latitude": _direction(grid, "y")}
    return {axis: _direction(grid, axis) for axis in "xy"}


def places(grid: Grid) -> Attributes:
    """The attribute that relates a series to the names and coordinates of its gauges."""
    return {"coordinates": " ".join([*gauge_coordinates(grid), "gauge_name"])}


def members_of(simulation: "AbstractSimulation") -> MemberValues | None:
    """{name: values, one for each member} of an ensemble, in the form of the file writers; None for a single model."""
    model = simulation.model
    if not model.batch:
        return None
    ensemble = cast(Ensemble, model)
    varied = {name: Varied(values, ensemble.units_of(name)) for name, values in ensemble.varied.items()}
    return varied or {"": range(*model.batch)}


def rows_of(simulation: "AbstractSimulation", names: Iterable[str]) -> list[str | Variable]:
    """The names of variables, replaced by a row of this run if it differs from that of the variable table."""
    own: dict[str, Variable] = {row.name: row for row in simulation.model.variables}
    model = simulation.model
    if model.layers is not None:
        instead = own | (OF_LAYERS_OVER_DEEP_WATER if over_deep_water(model.layers) else OF_LAYERS)
    else:
        least_gravity = min(one.gravity for one in getattr(model, "models", [model]))
        instead = own | named_for(least_gravity) | simulation.scheme.rows
    return [instead.get(name, name) for name in names]


def static_fields(simulation: "AbstractSimulation") -> dict[str | Variable, np.ndarray]:
    """{name or row: (ny, nx) array} of depth and land mask, in the form of the file writers.

    Where shores move, depths have the precision of the run, so that depth + eta of a file is nowhere negative.
    """
    model = simulation.model
    depth = model.depth if model.film is None else np.asarray(model.depth, model.dtype).astype(float)
    return {rows_of(simulation, ["depth"])[0]: depth, "wet": np.asarray(model.sea_floor.wet)}


def _columns(model) -> Attributes:
    """The attributes of layers, from which energies and vertical modes follow; those of members may differ."""
    if model.layers is None or model.batch:
        return {}
    return {
        "gravities_of_interfaces": json.dumps([*map(float, model.layers.gravities(float(model.gravity)))]),  # [m s-2]
        "thickness_of_upper_layers": json.dumps([*map(float, model.layers.thickness)]),  # at rest [m]
        "deep_layer_at_rest": np.int32(model.layers.deep_at_rest),
    }


def run_attributes(simulation: "AbstractSimulation") -> Attributes:
    """The global attributes that describe a run so that it can be repeated."""
    model = simulation.model
    py, px = model.communicator.layout
    tides = tides_of(simulation.outermost)[0]
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
        "subgrid": None if model.sea_floor.bed is None else np.int32(model.sea_floor.bed.ratio),  # fine cells along one
        "tidal_constituents": " ".join(tides),
        "nodal_latitude": nodal_latitude(simulation.outermost) if tides else None,
        "nest": simulation.nest or None,
        "nest_box": json.dumps(simulation.box) if simulation.box else None,  # cells outside of it are the frame
        "nest_boxes": json.dumps(simulation.boxes) if simulation.boxes else None,
        "comment": simulation.scheme.comment,
        "references": references(model, simulation.scheme),
    }
