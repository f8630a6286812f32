"""What other programs read of a run: GeoTIFF and GeoJSON."""

import json
from pathlib import Path

import numpy as np
import xarray as xr

from swmodel.postprocess import export, marks
from tests.formats import Attempts, example

GROUND = np.array([[-5.0, 1.0, 2.0, 6.0], [-5.0, 1.0, 3.0, 6.0], [-5.0, -1.0, 2.0, 6.0]])  # [m]
LEVEL = np.array(
    [[1.0, 1.5, 2.5, 6.0], [1.0, 2.5, 3.0, 6.0], [1.0, 1.0, 4.0, 6.0]]
)  # [m], that of the ground where dry
FLOW = np.array([[np.nan, 0.5, 0.5, np.nan], [np.nan, 1.5, np.nan, np.nan], [np.nan, np.nan, 2.0, np.nan]])  # [m]


def maxima(path: Path, x: np.ndarray, y: np.ndarray, units: tuple[str, str]) -> Path:
    """A file of maxima of a run with wetting and drying."""
    at, coordinates = ("yh", "xh"), {"xh": ("xh", x, {"units": units[0]}), "yh": ("yh", y, {"units": units[1]})}
    fields = {"depth": -GROUND, "wet": np.ones_like(GROUND), "maximum_elevation": LEVEL}
    xr.Dataset({name: (at, values, {"units": "m"}) for name, values in fields.items()}, coordinates).to_netcdf(path)
    return path


def area(ring: list) -> float:
    """The area in a ring of points, positive if they go anticlockwise."""
    x, y = np.transpose(ring)
    return float(np.sum(x[:-1] * y[1:] - x[1:] * y[:-1])) / 2


@example("geotiff_of_floods")
def geotiff_of_floods(folder: Path) -> Attempts:
    """The flow depth in a projection, and a variable of the file in longitudes beyond the date line."""
    import rasterio

    metres = maxima(folder / "metres.nc", 5e5 + 100.0 * np.arange(4) + 50.0, 4e6 + 50.0 * np.arange(3), ("m", "m"))
    export(metres, folder / "flood.tif", crs="EPSG:32654")
    with rasterio.open(folder / "flood.tif") as file:
        np.testing.assert_allclose(file.read(1)[::-1], FLOW, atol=1e-6)
        assert (file.crs.to_epsg(), file.bounds.left, file.bounds.top) == (32654, 5e5, 4e6 + 125.0)
        assert (file.units[0], file.descriptions[0]) == ("m", "flow_depth")
    units = "degrees_east", "degrees_north"
    degrees = maxima(folder / "degrees.nc", 190.25 + 0.5 * np.arange(4), -0.5 * np.arange(3)[::-1], units)
    export(degrees, folder / "level.tif", "maximum_elevation")
    with rasterio.open(folder / "level.tif") as file:
        np.testing.assert_array_equal(file.read(1)[::-1], LEVEL)
        assert (file.crs.to_epsg(), file.bounds.left) == (4326, -170.0)
    yield lambda: export(metres, folder / "flood.png"), "none of .tif, .geojson and .csv"
    yield lambda: export(metres, folder / "bad.tif", "salt"), "has no variable 'salt'"
    yield lambda: export(metres, folder / "bad.tif", levels=(0.0, 1.0)), "bad.tif is GeoTIFF, which has no levels"


@example("geojson_of_floods")
def geojson_of_floods(folder: Path) -> Attempts:
    """Polygons of classes of flow depth: their areas are those of the cells."""
    units = "degrees_east", "degrees_north"
    degrees = maxima(folder / "degrees.nc", 140.25 + 0.5 * np.arange(4), 37.25 + 0.5 * np.arange(3), units)
    export(degrees, folder / "flood.geojson", levels=(0.0, 1.0))
    features = json.loads((folder / "flood.geojson").read_text())["features"]
    cells = {}
    for feature in features:
        rings = feature["geometry"]["coordinates"]
        key = feature["properties"]["above"], feature["properties"]["up_to"]
        cells[key] = cells.get(key, 0.0) + (abs(area(rings[0])) - sum(abs(area(hole)) for hole in rings[1:])) / 0.25
    assert cells == {(0.0, 1.0): 2.0, (1.0, None): 2.0}
    for west in (178.7, -181.3, 179.2, 359.2):  # cells across the date line, along it, and across Greenwich
        across = maxima(folder / "across.nc", west + 0.25 + 0.5 * np.arange(4), 37.25 + 0.5 * np.arange(3), units)
        export(across, folder / "across.geojson")
        shapes = [
            one["geometry"]["coordinates"] for one in json.loads((folder / "across.geojson").read_text())["features"]
        ]
        x = [[point[0] for ring in rings for point in ring] for rings in shapes]
        assert all(-180.0 <= min(each) and max(each) <= 180.0 and max(each) - min(each) < 2.0 for each in x), west
        areas = [abs(area(rings[0])) - sum(abs(area(hole)) for hole in rings[1:]) for rings in shapes]
        np.testing.assert_allclose(sum(areas), 0.25 * np.isfinite(FLOW).sum())
    metres = maxima(folder / "metres.nc", 5e5 + 100.0 * np.arange(4) + 50.0, 4e6 + 50.0 * np.arange(3), ("m", "m"))
    export(metres, folder / "utm.geojson", crs="EPSG:32654")
    first = json.loads((folder / "utm.geojson").read_text())["features"][0]["geometry"]["coordinates"][0][0]
    assert abs(first[0] - 141.0) < 0.01 and abs(first[1] - 36.14) < 0.01
    yield lambda: export(folder / "absent.nc", folder / "a.tif"), "is no file"


@example("high-water marks")
def high_water_marks(folder: Path) -> Attempts:
    """Marks on and beside flooded cells, in x and y and in degrees, with their scores."""
    x, y = 1e3 * (np.arange(4) + 0.5), 1e3 * (np.arange(3) + 0.5)
    metres = maxima(folder / "maxima.nc", x, y, ("m", "m"))
    table = folder / "marks.csv"
    table.write_text("name,x,y,elevation_m\nschool,1500,500,1.8\nhill,3500,2600,5\naway,90000,500,3\n")
    found = marks(metres, table)
    assert [(mark.name, mark.modelled) for mark in found.marks] == [("school", 1.5), ("hill", 4.0)]
    np.testing.assert_allclose(found.errors, [-0.3, -1.0])
    ratios = np.log([1.8 / 1.5, 5.0 / 4.0])
    np.testing.assert_allclose(found.aida, np.exp([ratios.mean(), ratios.std()]))
    assert "2 of 2 marks were reached: bias -0.65 m, rmse 0.74 m, K 1.22, kappa 1.02" in str(found)
    assert "1 more lies outside of the grid" in str(found)
    table.write_text("x,y,depth_m\n1500,500,0.8\n")  # at the school
    deep = marks(metres, table).marks[0]
    assert deep.name == "1" and deep.modelled == FLOW[0, 1]
    table.write_text("name,x,y,elevation_m\nschool,1500,500,1.8\nhill,3500,2600,5\naway,90000,500,3\n")
    strict = marks(metres, table, reach=0)
    assert np.isnan(strict.marks[1].modelled) and "hill        5.00  not reached" in str(strict)
    degrees = maxima(folder / "degrees.nc", 140.0 + x / 1e4, 35.0 + y / 1e4, ("degrees_east", "degrees_north"))
    other = folder / "other.csv"
    other.write_text("longitude,latitude,elevation_m\n-219.85,35.05,1.8\n")
    assert marks(degrees, other).marks[0].modelled == 1.5

    (folder / "bare.csv").write_text("x,y,height\n1500,500,1.8\n")
    (folder / "away.csv").write_text("x,y,elevation_m\n-1500,500,1.8\n")
    yield lambda: marks(metres, folder / "bare.csv"), "lacks the column elevation_m"
    yield lambda: marks(metres, folder / "away.csv"), "has no mark on the grid"
    yield lambda: marks(metres, other), "has longitude and latitude, and"
