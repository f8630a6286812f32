"""Output files for other programs: maps as GeoTIFF or as polygons of classes in GeoJSON, constants of gauges as CSV.

`flow_depth`, the largest thickness of water on flooded land, and what else `inundation` defines are computed from files
of maxima; every other field at the centres of cells is taken as it is. Missing values are NaN. GeoJSON needs longitudes
and latitudes, so that x and y of a Cartesian grid are transformed from the projection that the caller names.
"""

import dataclasses
import json
import pathlib
from collections.abc import Sequence

import numpy as np
import xarray as xr

from ..errors import PlotError
from .files import Mesh, mesh_of, open_output, snapshot, undamaged, writing
from .inundation import inundation, nodes_of_bed
from .series import write_constants

FLOODS = ("flow_depth", "run_up_height", "run_up_level")  # fields of an Inundation
GEOGRAPHIC = "EPSG:4326"
KINDS = {
    ".tif": "GeoTIFF", ".tiff": "GeoTIFF", ".geojson": "GeoJSON", ".json": "GeoJSON", ".csv": "a table of constants"
}  # fmt: skip
TAKES = {
    "GeoTIFF": ("variable", "crs", "record"),
    "GeoJSON": ("variable", "levels", "crs", "record"),
    "a table of constants": (),
}  # {kind: the arguments of `export` that count}


def export(
    path: str | pathlib.Path,
    output: str | pathlib.Path,
    variable: str | None = None,
    levels: Sequence[float] | None = None,
    crs: str | None = None,
    record: int | None = None,
    bed: str | pathlib.Path | None = None,
    datum: float = 0.0,
) -> pathlib.Path:
    """Write a field of an output file as GeoTIFF (.tif, .tiff) or as polygons in GeoJSON (.geojson, .json).

    Of a file of gauges it writes the harmonic constants (.csv).

    Args:
        path: of a file that a run has written.
        output: the file to write; its suffix chooses the format.
        variable: one of FLOODS, or a variable of the file; the flow depth unless given.
        levels: ascending; GeoJSON has polygons of the cells above each of them, up to the next; 0 unless given.
        crs: the projection of x and y of a Cartesian grid, as "EPSG:32654".
        record: the number of a record in time; the last one unless given.
        bed: a file of elevations, finer than the cells; the flow depth is then that over its nodes on land.
        datum: the level of the water at rest above the zero of that file [m].

    Raises:
        PlotError: one sentence, for what cannot be written.
    """
    path, output = pathlib.Path(path), pathlib.Path(output)
    kind = _kind_of(output, {"variable": variable, "levels": levels, "crs": crs, "record": record})
    if kind == "a table of constants":
        write_constants(path, output)
        return output
    variable, levels = variable or FLOODS[0], [0.0] if levels is None else list(levels)
    try:
        import rasterio
        from rasterio.errors import CRSError
    except ImportError:
        raise PlotError("export: it needs rasterio, which is not installed; pip install 'swmodel[gis]'.") from None
    if levels != sorted(set(levels)) or not levels:
        raise PlotError(f"export: the levels {levels} do not ascend; order them.")
    with undamaged([path]), open_output(path) as dataset:
        mesh, values, attrs = _field(dataset, variable, record, bed, datum)
    if mesh.spherical and crs is not None:
        raise PlotError("export: the file has longitudes and latitudes; leave the projection out.")
    crs = GEOGRAPHIC if mesh.spherical else crs
    try:
        known = None if crs is None else rasterio.CRS.from_user_input(crs)
    except CRSError:
        raise PlotError(f"export: {crs!r} is not a projection; give one as EPSG:32654.") from None
    turn = 360.0 * (mesh.spherical and mesh.x_edges[0] >= 180.0)  # of a domain that lies beyond 180 degrees as a whole
    if kind == "GeoJSON" and known is None:
        raise PlotError("export: GeoJSON has longitudes and latitudes; name the projection of x and y, as EPSG:32654.")
    at = rasterio.Affine(mesh.width, 0.0, float(mesh.x_edges[0] - turn), 0.0, -mesh.height, mesh.y_edges[-1])
    with writing("export", output, output.suffix) as part:
        if kind == "GeoTIFF":
            _write_tiff(part, values, at, known, variable, attrs)
        else:
            part.write_text(json.dumps(_polygons(values, at, known, variable, levels, attrs)))
    return output


def _kind_of(output, options):
    """The kind of file that `output` is by its suffix; raises PlotError for options that it does not have."""
    kind = KINDS.get(output.suffix.lower())
    if kind is None:
        raise PlotError(f"export: {output} ends in none of .tif, .geojson and .csv; choose one of them.")
    if given := [name for name, value in options.items() if value is not None and name not in TAKES[kind]]:
        words, them = " and no ".join(given), "it" if len(given) == 1 else "them"
        raise PlotError(f"export: {output} is {kind}, which has no {words}; leave {them} out.")
    return kind


def _field(dataset: xr.Dataset, variable: str, record: int | None, bed, datum) -> tuple[Mesh, np.ndarray, dict]:
    """The Mesh of a field, the field (ny, nx), from the north, and its attributes; over the nodes of a file `bed`."""
    if variable in FLOODS and variable not in dataset:
        flood = inundation(dataset)
        values, attrs = np.asarray(getattr(flood, variable), float), flood.dataset()[variable].attrs
    else:
        values, attrs = snapshot(dataset, variable, record), dataset[variable].attrs
        if values.shape != (dataset.sizes["yh"], dataset.sizes["xh"]):
            raise PlotError(f"export: {variable} is not at the centres of cells; choose a variable that is.")
    mesh, values = (mesh_of(dataset), values) if bed is None else _over_bed(dataset, variable, bed, datum)
    return mesh, values[::-1], dict(attrs)


def _over_bed(dataset, variable, bed, datum):
    """(the Mesh of the nodes of a file of elevations, the flow depth over those on land [m], NaN where it is dry)."""
    if variable != FLOODS[0]:
        raise PlotError(f"export: {variable} is a field of cells; over a bed there is {FLOODS[0]} alone.")
    (x, y, ground), flood = nodes_of_bed(bed, datum), inundation(dataset)
    depth = flood.depth_over(x, y, np.nan_to_num(ground, nan=np.inf))
    width, height = ((points[-1] - points[0]) / (points.size - 1) for points in (x, y))
    mesh = dataclasses.replace(flood.mesh, x=x, y=y, width=width, height=height)
    return mesh, np.where((ground > 0) & (depth > 0), depth, np.nan)


def _write_tiff(path, values, at, crs, variable, attrs):
    import rasterio

    shape = {"width": values.shape[1], "height": values.shape[0], "count": 1, "dtype": "float32"}
    form = {"driver": "GTiff", "compress": "deflate", "nodata": float("nan")}
    with rasterio.open(path, "w", transform=at, crs=crs, **shape, **form) as file:
        file.write(values.astype(np.float32), 1)
        file.set_band_description(1, variable)
        file.set_band_unit(1, str(attrs.get("units", "")))


def _polygons(values, at, crs, variable, levels, attrs):
    """GeoJSON of the classes between levels: connected cells along their edges, with holes."""
    classes = np.digitize(np.nan_to_num(values, nan=-np.inf), levels, right=True).astype(np.int16)
    about, bounds, features = {"variable": variable, "units": str(attrs.get("units", ""))}, [*levels, None], []
    for geometry, k in _shapes(classes, at, crs):
        properties = about | {"above": bounds[k - 1], "up_to": bounds[k]}
        features.append({"type": "Feature", "properties": properties, "geometry": geometry})
    return {"type": "FeatureCollection", "features": features}


def _shapes(classes, at, crs):
    """(geometry in longitudes from -180 to 180 and latitudes, class) of connected cells.

    Cells on a sphere are cut at the date line (RFC 7946, section 3.1.9).
    """
    from rasterio.features import shapes
    from rasterio.warp import transform_geom

    if crs.to_string() != GEOGRAPHIC:
        for geometry, number in shapes(classes, mask=classes > 0, transform=at):
            yield transform_geom(crs, GEOGRAPHIC, geometry), int(number)
        return
    edges, spare = at.c + at.a * np.arange(classes.shape[1] + 1), 1e-6 * at.a
    for turn in 360.0 * np.arange(np.floor((edges[0] + 180.0) / 360.0), np.ceil((edges[-1] + 180.0) / 360.0)):
        low, high = turn - 180.0, turn + 180.0
        part = np.where((edges[1:] > low + spare) & (edges[:-1] < high - spare), classes, np.int16(0))
        for geometry, number in shapes(part, mask=part > 0, transform=at):
            rings = [[(min(max(x, low), high) - turn, y) for x, y in ring] for ring in geometry["coordinates"]]
            yield geometry | {"coordinates": rings}, int(number)
