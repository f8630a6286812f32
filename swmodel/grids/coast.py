"""Land masks: from polygons of a coast, in a shapefile or GeoJSON, and in a file of depths.

A cell is in a polygon if its centre is. Polygons in a projection are transformed to longitudes and latitudes where the
grid has these, whatever the meridian at which they begin. Needs rasterio, and pyshp (MIT licence) for shapefiles.

Files of depths, as ocean models write them, have depths on land, too, since models extend the sea floor under it; only
the mask separates land from sea. A mask is a variable on the axes of the depths, of which the first level and time
count. It is identified by its CF attributes, else by its name in the usual models: ROMS, MOM, NEMO, MITgcm and POP.
"""

import dataclasses
import json
import os
import struct
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ConfigError, DataError
from ..runtime.formats import check_format
from .axes import check_file
from .grid import Grid
from .rasters import REMEDY, library
from .windows import Blocks, GridValues, cached

WORDS = "a shapefile or GeoJSON file of polygons"
DEGREES = 540.0, 90.0 + 1e-6  # the largest longitude and latitude


def _inside(polygons: list[dict], grid: Grid) -> Blocks:
    """Whether the centres of cells lie in any of some geometries of GeoJSON, in the coordinates of the grid."""
    from rasterio.features import rasterize
    from rasterio.transform import Affine

    steps = np.diff(grid.x_edges[:2])[0], np.diff(grid.y_edges[:2])[0]

    def block(rows, columns):
        x, y = grid.x_edges[columns], grid.y_edges[rows]
        inside = np.zeros((y.size, x.size), bool)
        for turn in (-360.0, 0.0, 360.0) if grid.spherical else (0.0,):
            at = Affine(steps[0], 0.0, x[0] + turn, 0.0, steps[1], y[0])
            box = x[0] + turn, x[-1] + turn + steps[0], y[0], y[-1] + steps[1]
            if some := [one for one in polygons if _meets(one["box"], box)]:
                inside |= np.asarray(rasterize(some, inside.shape, transform=at, dtype="uint8"), bool)
        return inside

    return Blocks(block, grid.shape, bool)


def coast_mask(path: str | os.PathLike, grid: Grid, of: str = "land") -> GridValues:
    """True in the cells of water, from the polygons in a file, which are those `of` "land" or "water".

    Raises:
        ConfigError: for another `of`.
        DataError: for a file without polygons, damaged, in other coordinates than the grid, or away from it.
    """
    if of not in ("land", "water"):
        raise ConfigError(f"{path}: of = {of!r} is neither 'land' nor 'water'; give one of them.")
    check_file(path)
    form = check_format(path, ("shapefile", "geojson"), WORDS, "coast")
    library(os.fspath(path), WORDS)
    polygons, crs = (_of_shapefile if form == "shapefile" else _of_geojson)(Path(path))
    if not polygons:
        raise DataError(f"{path} is {WORDS} without any; make polygons of its lines, as ogr2ogr or QGIS do.")
    polygons = _in_coordinates_of(grid, path, polygons, crs, form == "shapefile")
    x, y = grid.x_edges[[0, -1]], grid.y_edges[[0, -1]]
    turns = (-360.0, 0.0, 360.0) if grid.spherical else (0.0,)
    if not any(_meets(one["box"], (*(x + turn), *y)) for one in polygons for turn in turns):
        low, high = (function([one["box"] for one in polygons], axis=0) for function in (np.min, np.max))
        raise DataError(
            f"the polygons of {path} lie at x {low[0]:g} to {high[1]:g} and y {low[2]:g} to {high[3]:g}, and the grid "
            "elsewhere; check the coordinates of both."
        )
    inside = cached(_inside(polygons, grid))
    return inside.map(np.logical_not if of == "land" else np.array, dtype=bool)


def _of_geojson(path):
    """(polygons, projection or None)."""
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
        features = content.get("features", [content])
        shapes = [one.get("geometry") or {} for one in features]
        crs = content.get("crs", {}).get("properties", {}).get("name")
        return [one for shape in shapes for one in _polygons_in(shape)], crs
    except (ValueError, AttributeError, TypeError, LookupError) as error:
        raise DataError(f"{path} is a GeoJSON file that is damaged ({error}); copy it again.") from None


def _of_shapefile(path):
    try:
        import shapefile
    except ImportError:
        remedy = f"{REMEDY}; or ogr2ogr makes GeoJSON of it"
        raise DataError(f"{path} is a shapefile, which needs pyshp: {remedy}.") from None
    try:
        with path.open("rb") as shp, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a damaged file, which is refused below
            shapes = [shape.__geo_interface__ for shape in shapefile.Reader(shp=shp).shapes() if shape and shape.points]
    except (shapefile.ShapefileException, struct.error, OSError, ValueError, IndexError) as error:
        raise DataError(f"{path} is a shapefile that is damaged ({error}); copy it again.") from None
    projection = next((other for suffix in (".prj", ".PRJ") if (other := path.with_suffix(suffix)).is_file()), None)
    crs = None if projection is None else projection.read_text(encoding="utf-8", errors="replace")
    return [one for shape in shapes for one in _polygons_in(shape)], crs


def _polygons_in(shape):
    """The polygons of a geometry, each with its box."""
    kind = shape.get("type")
    if kind == "GeometryCollection":
        return [one for each in shape["geometries"] for one in _polygons_in(each)]
    return [_with_box(shape)] if kind in ("Polygon", "MultiPolygon") and shape.get("coordinates") else []


def _in_coordinates_of(grid, path, polygons, crs, may_lack_crs):
    from rasterio.crs import CRS
    from rasterio.errors import CRSError
    from rasterio.warp import transform_geom

    try:
        system = None if crs is None else CRS.from_user_input(crs)
    except CRSError as error:
        raise DataError(f"{path} names a projection that is unknown ({error}); give it one as EPSG:N.") from None
    boxes = np.abs([one["box"] for one in polygons]).max(axis=0)
    in_degrees = boxes[:2].max() <= DEGREES[0] and boxes[2:].max() <= DEGREES[1]
    projected = not in_degrees if system is None else system.is_projected
    if projected and grid.spherical:
        if system is None:
            raise DataError(f"{path} has x and y, and no projection; add it, as ogr2ogr -a_srs EPSG:N does.")
        return [_with_box(one) for one in transform_geom(system, "EPSG:4326", polygons)]
    if not projected and not grid.spherical and not (system is None and may_lack_crs):
        raise DataError(
            f"{path} has longitudes and latitudes, and the grid is Cartesian; project it, as ogr2ogr -t_srs EPSG:N "
            "does."
        )
    return polygons


def _with_box(polygon):
    """A geometry with its (lowest x, highest x, lowest y, highest y)."""
    parts = [polygon["coordinates"]] if polygon["type"] == "Polygon" else polygon["coordinates"]
    x, y = np.array([point[:2] for rings in parts for point in rings[0]], float).T
    return {**polygon, "box": (x.min(), x.max(), y.min(), y.max())}


def _meets(one, other):
    """Whether two boxes (x0, x1, y0, y1) have points in common."""
    return one[0] <= other[1] and other[0] <= one[1] and one[2] <= other[3] and other[2] <= one[3]


OF_SEA = ("sea_binary_mask", "sea_area_fraction", "model_level_number_at_sea_floor")  # standard names
OF_LAND = ("land_binary_mask", "land_area_fraction")
NAMES_OF_SEA = ("mask_rho", "wet", "tmask", "tmaskutil", "maskc", "kmt", "mbathy")  # 1, or the number of levels, in sea
UNKNOWN = ("mask", "land_mask", "landmask", "lsm", "land_sea_mask")  # names of masks that are 1 in land, or in sea
SEA, LAND = {"water", "sea", "ocean", "wet"}, {"land", "dry"}  # in the meanings of flags


@dataclasses.dataclass(frozen=True)
class LandMask:
    """A variable that is 1/2 or more in what it is `of`, "sea" or "land"; of "unknown" ones only the name is used."""

    name: str
    of: str

    def is_water(self, values: np.ndarray) -> np.ndarray:
        """Where the values of the variable mean water; land where they are missing."""
        values = np.asarray(values, float)
        return values < 0.5 if self.of == "land" else values >= 0.5

    def remark(self, where: str) -> str:
        """A sentence on the mask in the file `where`."""
        if self.of == "unknown":
            return (
                f"{where} has a variable {self.name}, of which it does not say whether it is 1 in land or in sea, and "
                "which is not used; give it the standard_name sea_binary_mask or land_binary_mask."
            )
        return f"{where} has a land mask, {self.name}: depths on its land are not used."


def land_mask_of(dataset: Any, name: str) -> LandMask | None:
    """The LandMask on the axes of variable `name` of a Dataset or StoredDataset; None if the file has none."""
    kinds = {
        other: kind
        for other, variable in dataset.data_vars.items()
        if other != name
        and set(variable.dims[-2:]) == set(dataset[name].dims[-2:])
        and (kind := kind_of_mask(other, variable.attrs)) is not None
    }
    sure = [LandMask(other, kind) for other, kind in kinds.items() if kind != "unknown"]
    return next(iter([*sure, *map(LandMask, kinds, kinds.values())]), None)


def kind_of_mask(name: str, attrs: Mapping) -> str | None:
    """What a land mask is 1 in, "sea", "land" or "unknown"; None for another variable."""
    standard, lower = attrs.get("standard_name"), str(name).lower()
    meanings = [set(flag.lower().split("_")) for flag in str(attrs.get("flag_meanings", "")).split()]
    flags = np.atleast_1d(attrs.get("flag_values", ())).tolist()
    if standard in OF_SEA or lower in NAMES_OF_SEA:
        return "sea"
    if len(meanings) == 2 and flags in ([0, 1], [1, 0]):
        one = meanings[flags.index(1)], meanings[flags.index(0)]
        if one[0] & SEA and one[1] & LAND:
            return "sea"
        return "land" if one[0] & LAND and one[1] & SEA else None
    if standard in OF_LAND:
        return "land"
    return "unknown" if lower in UNKNOWN else None
