"""Coasts as masks: polygons in shapefiles and GeoJSON."""

import json
from pathlib import Path

import numpy as np

from swmodel.grids.coast import coast_mask
from swmodel.grids.grid import CartesianGrid, SphericalGrid
from tests.formats import Attempts, example

GRID = SphericalGrid(6, 4, (140.0, 143.0), (37.0, 39.0))  # cells of half a degree
ISLAND = [[140.4, 37.4], [142.1, 37.4], [142.1, 38.6], [140.4, 38.6], [140.4, 37.4]]  # cells 1 to 3, 1 and 2
LAKE = [[141.1, 37.4], [141.1, 38.1], [141.4, 38.1], [141.4, 37.4], [141.1, 37.4]]  # a hole, the cell (1, 2)
LAND = np.zeros(GRID.shape, bool)
LAND[1:3, 1:4] = True
LAND[1, 2] = False


def water(path: Path, grid: SphericalGrid | CartesianGrid = GRID, **options: str) -> np.ndarray:
    """The mask, put together from windows."""
    mask = coast_mask(path, grid, **options)
    return np.concatenate(
        [mask.block(slice(0, 2), slice(0, grid.nx)), mask.block(slice(2, grid.ny), slice(0, grid.nx))]
    )


def shapefile(path: Path, rings: list, crs: str | None = "EPSG:4326") -> Path:
    """A shapefile of one polygon, with its index and projection beside it."""
    import shapefile as pyshp
    from rasterio.crs import CRS

    with pyshp.Writer(str(path)) as file:
        file.field("name", "C")
        file.poly([ring[::-1] if k == 0 else ring for k, ring in enumerate(rings)])
        file.record("island")
    if crs is not None:
        path.with_suffix(".prj").write_text(CRS.from_string(crs).to_wkt(version="WKT1_ESRI"))
    return path


@example("shapefile of a coast")
def of_shapefile(folder: Path) -> Attempts:
    """Polygons with a hole in degrees, and in UTM beside a .prj, on a sphere and a plane; lines are refused."""
    import rasterio.warp
    import shapefile as pyshp

    file = shapefile(folder / "coast.shp", [ISLAND, LAKE[::-1]])
    assert np.array_equal(water(file), ~LAND)
    assert np.array_equal(water(file, of="water"), LAND)
    turned = SphericalGrid(6, 4, (-220.0, -217.0), (37.0, 39.0))
    assert np.array_equal(water(file, turned), ~LAND)
    utm = "EPSG:32654"
    rings = [
        np.transpose(rasterio.warp.transform("EPSG:4326", utm, *np.transpose(ring))).tolist()
        for ring in (ISLAND, LAKE[::-1])
    ]
    metres = shapefile(folder / "utm.shp", rings, utm)
    assert np.array_equal(water(metres), ~LAND)
    (x0, y0), y1 = np.min(rings[0], axis=0), np.max(rings[0], axis=0)[1]
    plane = CartesianGrid(2, 4, (x0 - 1e5, x0 + 1e5), (y0 + 1e4, y1 - 1e4))
    assert np.array_equal(water(metres, plane), np.array([[True, False]] * 4))

    with pyshp.Writer(str(folder / "line.shp")) as lines:
        lines.field("name", "C")
        lines.line([ISLAND])
        lines.record("coast")
    cut = folder / "cut.shp"
    cut.write_bytes(file.read_bytes()[:150])
    bare = shapefile(folder / "bare.shp", rings, None)
    near = CartesianGrid(6, 4, (140.0, 143.0), (37.0, 39.0))  # a basin of a few metres
    assert np.array_equal(water(shapefile(folder / "basin.shp", [ISLAND, LAKE[::-1]], None), near), ~LAND)
    assert np.array_equal(np.asarray(coast_mask(str(folder / "basin.shp"), near)), ~LAND)
    yield lambda: water(file, of="sea"), "of = 'sea' is neither 'land' nor 'water'"
    yield lambda: water(folder / "absent.shp"), "there is no file"
    yield lambda: water(folder / "line.shp"), "of polygons without any; make polygons of its lines"
    yield lambda: water(cut), "a shapefile that is damaged .* copy it again"
    yield lambda: water(bare), "has x and y, and no projection; add it"
    yield lambda: water(file, plane), "longitudes and latitudes, and the grid is Cartesian; project it"


@example("GeoJSON of a coast")
def of_geojson(folder: Path) -> Attempts:
    """A collection of polygons and other features, one feature alone, and one with a projection of its own."""
    polygon = {"type": "Polygon", "coordinates": [ISLAND, LAKE]}
    buoy = {"type": "Feature", "properties": {}, "geometry": {"type": "Point", "coordinates": [140.1, 37.1]}}
    feature = {"type": "Feature", "properties": {}, "geometry": polygon}
    several = {"type": "MultiPolygon", "coordinates": [polygon["coordinates"]]}
    contents = {
        "coast.geojson": {"type": "FeatureCollection", "features": [buoy, feature]},
        "one.json": {**feature, "geometry": {"type": "GeometryCollection", "geometries": [several]}},
    }

    def written(name, content):
        (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
        return folder / name

    for name, content in contents.items():
        assert np.array_equal(water(written(name, content)), ~LAND), name
    south = [[x, y - 60.0] for x, y in ISLAND]
    away = {**feature, "geometry": {"type": "Polygon", "coordinates": [south]}}
    unknown = {**contents["coast.geojson"], "crs": {"type": "name", "properties": {"name": "EPSG:999999"}}}
    yield lambda: water(written("away.json", away)), "lie at x 140.4 to 142.1 and y -22.6 to -21.4, and the grid elsewh"
    yield lambda: water(written("points.json", {"type": "FeatureCollection", "features": [buoy]})), "without any"
    yield lambda: water(written("cut.json", json.dumps(contents["coast.geojson"])[:-30])), "a GeoJSON file that is dam"
    text = {**feature, "geometry": {"type": "Polygon", "coordinates": [[["a", "b"], ["c", "d"], ["a", "b"]]]}}
    yield lambda: water(written("letters.json", text)), "a GeoJSON file that is dam"
    yield lambda: water(written("unknown.json", unknown)), "names a projection that is unknown"
    yield (lambda: water(written("text.csv", "x,y\n1,2\n")), "a text file, and not a shapefile or GeoJSON")
