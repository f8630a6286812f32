"""Inundation: the land that a run has flooded, from its file of maxima or of other extremes.

    ground      z_b = -depth, the height of the bed before a sea floor moves [m]; land is where z_b > 0
    wet         cells whose largest thickness was more than a film
    flow depth  the largest thickness of the water on land [m]
    run-up      the height of the ground of flooded land [m], and the highest level of the water on it [m]

The run-up line consists of the wet cells next to land that was never wet, and the inundation line runs between both.
The run-up height of a flood is the height of the highest ground that it has reached. It is a height of cells, so that
it may be too low by the rise of the ground across one of them. The highest level of the water has no such error.
"""

import dataclasses
import functools
import pathlib
from typing import Any

import numpy as np
import xarray as xr

from ..errors import PlotError
from ..grids.elevation import read_elevation
from .cgrid import around, between, thickness
from .files import Mesh, mesh_of, positions, snapshot, wet_cells

FILM = 1e-3  # [m], the thickest film on dry land, for files that do not have that of the run


@dataclasses.dataclass(frozen=True)
class RunUp:
    """The run-up of a flood.

    Attributes:
        height: of the highest ground that was wet [m]; 0 if no land was flooded.
        x, y: the place of that ground in the file's coordinates; NaN if no land was flooded.
        level: the highest level of the water on flooded land and along the run-up line [m].
    """

    height: float
    x: float
    y: float
    level: float


@dataclasses.dataclass(frozen=True, eq=False)
class Inundation:
    """What a run has flooded; arrays are (ny, nx), at the centres.

    Attributes:
        mesh: the Mesh of the file.
        ground: height of the ground [m], positive up; NaN where the model has no cell that can be wet.
        level: the highest level of the water [m]; NaN where there was none.
        thickness: its largest thickness [m], 0 where there was none.
    """

    mesh: Mesh
    ground: np.ndarray
    level: np.ndarray
    thickness: np.ndarray

    @functools.cached_property
    def wet(self) -> np.ndarray:
        """Whether a cell was ever wet."""
        return np.isfinite(self.level)

    @functools.cached_property
    def land(self) -> np.ndarray:
        """Whether the ground is above the sea at rest; True, too, where no cell can be wet."""
        return ~(self.ground <= 0)

    @property
    def flooded(self) -> np.ndarray:
        """Whether land was ever wet."""
        return self.land & self.wet

    @property
    def flow_depth(self) -> np.ndarray:
        """The largest thickness on flooded land [m], NaN elsewhere."""
        return np.where(self.flooded, self.thickness, np.nan)

    @functools.cached_property
    def edge(self) -> np.ndarray:
        """Whether a cell is part of the run-up line: it was wet, and a cell on one of its four sides never was."""
        dry, bordering = 1.0 - self.wet, np.zeros_like(self.wet)
        for axis, periodic in ((0, self.mesh.periodic_y), (1, self.mesh.periodic_x)):
            borders = np.maximum(*between(dry, axis, periodic))  # faces of dry cells; beyond the domain there are none
            bordering |= np.maximum(*around(borders, axis, periodic)) > 0
        return bordering & self.wet

    @property
    def run_up_height(self) -> np.ndarray:
        """The height of the ground along the run-up line [m], 0 where the line is in the sea; NaN elsewhere."""
        return np.where(self.edge, np.maximum(np.nan_to_num(self.ground), 0.0), np.nan)

    @property
    def run_up_level(self) -> np.ndarray:
        """The highest level of the water along the run-up line [m], NaN elsewhere."""
        return np.where(self.edge, self.level, np.nan)

    def run_up(self, where: np.ndarray | bool = True) -> RunUp:
        """The RunUp of the whole domain, or of the cells `where`, (ny, nx), is True."""
        heights = np.where(self.flooded & where, self.ground, -np.inf)
        levels = self.level[(self.flooded | self.edge) & where]
        level = float(levels.max()) if levels.size else np.nan
        if not np.isfinite(heights).any():
            return RunUp(0.0, np.nan, np.nan, level)
        j, i = np.unravel_index(np.argmax(heights), heights.shape)
        return RunUp(float(heights[j, i]), float(self.mesh.x[i]), float(self.mesh.y[j]), level)

    def depth_over(self, x: np.ndarray, y: np.ndarray, ground: np.ndarray) -> np.ndarray:
        """The largest depth of the water over a finer ground [m], (rows, columns); 0 outside of wet cells.

        The level is interpolated bilinearly between the centres of wet cells.

        Args:
            x, y: coordinates of the nodes, (columns,) and (rows,); longitudes may be of either convention.
            ground: their heights above the water at rest [m], positive up.

        Raises:
            PlotError: if no node lies in the domain.
        """
        from scipy.ndimage import map_coordinates

        mesh, fields = self.mesh, (np.where(self.wet, self.level, 0.0), self.wet.astype(float))
        at = [
            (points - first[0]) / length
            for points, first, length in zip((y, mesh.turned(x)), (mesh.y, mesh.x), (mesh.height, mesh.width))
        ]
        inside = [(places > -0.5) & (places < n - 0.5) for places, n in zip(at, self.wet.shape)]
        if not all(each.any() for each in inside):
            west, east, south, north = mesh.extent
            raise PlotError(
                f"the bed covers x from {x.min():g} to {x.max():g} and y from {y.min():g} to {y.max():g}, and the run "
                f"{west:g} to {east:g} and {south:g} to {north:g}: they do not meet; give a bed of the same place in "
                "the same coordinates."
            )
        cells = [np.clip(np.rint(places).astype(int), 0, n - 1) for places, n in zip(at, self.wet.shape)]
        beyond = [(int(periodic),) * 2 for periodic in (mesh.periodic_y, mesh.periodic_x)]  # cells across the seam
        nodes = np.meshgrid(*(places + n for places, (n, _) in zip(at, beyond)), indexing="ij")
        fields = (np.pad(field, beyond, mode="wrap") for field in fields)
        total, weight = (map_coordinates(field, nodes, order=1, mode="nearest") for field in fields)
        wet = self.wet[np.ix_(*cells)] & np.logical_and.outer(*inside) & (weight > 0)
        depth = total / np.where(weight > 0, weight, 1.0) - ground
        return np.where(wet, np.maximum(depth, 0.0), 0.0)

    def line(self) -> list[np.ndarray]:
        """The inundation line in the file's coordinates: parts, each (n, 2) with x and y of its points."""
        if min(self.wet.shape) < 2 or self.wet.all() or not self.wet.any():
            return []
        from contourpy import contour_generator

        parts: Any = contour_generator(self.mesh.x, self.mesh.y, self.wet.astype(float)).lines(0.5)
        return [np.asarray(part) for part in parts]

    def dataset(self) -> xr.Dataset:
        """The products with CF metadata, to be written with `to_netcdf`.

        The fields are `inundated` (1 where land was flooded), `flow_depth`, `run_up_height` and `run_up_level`; the
        inundation line is a CF geometry. Attributes have the RunUp of the whole domain.
        """
        mesh, parts, run_up = self.mesh, self.line(), self.run_up()
        units = ("degrees_east", "degrees_north") if mesh.spherical else ("m", "m")
        names = ("longitude", "latitude") if mesh.spherical else ("projection_x_coordinate", "projection_y_coordinate")
        about = [{"standard_name": name, "units": unit} for name, unit in zip(names, units)]
        nodes = np.concatenate(parts) if parts else np.zeros((0, 2))
        level = {"units": "m", "cell_methods": "time: maximum"}
        at = ("yh", "xh")
        flow = level | {"long_name": "largest thickness of the water on land", "standard_name": "flood_water_thickness"}
        flags = {"flag_values": np.array([0, 1], np.int8), "flag_meanings": "not_flooded flooded_land"}
        height = {"long_name": "height of the ground along the run-up line", "units": "m"}
        line = {"geometry_type": "line", "node_count": "line_nodes", "node_coordinates": "line_x line_y"}
        return xr.Dataset(
            {
                "inundated": (at, self.flooded.astype(np.int8), {"long_name": "land that was flooded", **flags}),
                "flow_depth": (at, self.flow_depth, flow),
                "run_up_height": (at, self.run_up_height, height),
                "run_up_level": (at, self.run_up_level, level | {"long_name": "highest level along the run-up line"}),
                "inundation_line": ((), np.int32(0), line | {"long_name": "boundary of what was ever wet"}),
                "line_nodes": ("part", np.array([len(part) for part in parts], np.int32), {}),
                "line_x": ("node", nodes[:, 0], about[0] | {"axis": "X"}),
                "line_y": ("node", nodes[:, 1], about[1] | {"axis": "Y"}),
            },
            {"xh": ("xh", mesh.x, about[0] | {"axis": "X"}), "yh": ("yh", mesh.y, about[1] | {"axis": "Y"})},
            {"Conventions": "CF-1.11", **{f"largest_run_up_{name}": v for name, v in vars(run_up).items()}},
        )


def may_flood(dataset: xr.Dataset) -> bool:
    """Whether the file is of a run that has land which may be flooded: cells that can be wet above the sea."""
    heights = ground(dataset, required=False) if "wet" in dataset else None
    return heights is not None and bool((heights > 0).any())


def ground(dataset: xr.Dataset, required: bool = True) -> Any:
    """Height of the ground [m] (ny, nx), positive up, before a sea floor moves; NaN where no cell can be wet.

    Raises:
        PlotError: for a file without depth if `required`; else the result is None.
    """
    if "depth" not in dataset or positions(dataset["depth"]) != ("yh", "xh"):
        if not required:
            return None
        raise PlotError("ground: the file has no depth on the grid; give a file that a run has written.")
    heights = -snapshot(dataset, "depth")
    return np.where(wet_cells(dataset), heights, np.nan) if "wet" in dataset else heights


def has_finer_bed(dataset: xr.Dataset) -> bool:
    """Whether cells of the run have beds finer than they are: thickness is volume over area, and depth their mean."""
    return "subgrid" in dataset.attrs


def nodes_of_bed(bed: str | pathlib.Path, datum: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(x, y, height of the ground above the water at rest [m] (rows, columns)) of the nodes of a file of elevations.

    Args:
        bed: the file.
        datum: the level of the water at rest above the zero of the file [m].
    """
    elevation = read_elevation(bed)
    y, x = (np.asarray(elevation[dim], float) for dim in elevation.dims)
    return x, y, np.asarray(elevation, float) - datum


def film_of(dataset: xr.Dataset) -> float:
    """The thickness under which a cell of the run counts as dry [m]; FILM where the file does not have it."""
    return float(dataset.attrs.get("film_thickness", FILM))


def under_water(dataset: xr.Dataset, record: int | None = None) -> np.ndarray:
    """Whether there is more than a film of water at a record of eta, (ny, nx)."""
    return thickness(dataset, record) > film_of(dataset)


def inundation(dataset: xr.Dataset, film: float | None = None) -> Inundation:
    """The Inundation of a file with maximum_elevation.

    Where a file of maxima has the highest level alone, the thickness is computed from it and from the bed at the start.
    Where a sea floor moves, maxima also have the largest thickness over the moving bed.

    Args:
        dataset: the file, as `open_output` gives it.
        film: the thickness over which a cell counts as wet [m]; that of the run unless given.

    Raises:
        PlotError: for a file without maximum_elevation, or without depth.
    """
    if "maximum_elevation" not in dataset:
        raise PlotError(
            "inundation: the file has no maximum_elevation; give the one that [output.extremes] or [output.maxima] of "
            "an experiment writes."
        )
    heights, level = ground(dataset), snapshot(dataset, "maximum_elevation")
    given = "maximum_thickness" in dataset
    thickness = snapshot(dataset, "maximum_thickness") if given else level - heights
    wet = thickness > (film_of(dataset) if film is None else film)
    return Inundation(mesh_of(dataset), heights, np.where(wet, level, np.nan), np.where(wet, thickness, 0.0))
