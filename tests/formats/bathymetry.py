"""Bathymetry: ASCII grids, tables, GeoTIFF, GMT and the files of ocean models with their masks."""

from pathlib import Path

import numpy as np

from swmodel.grids.bathymetry import elevation_on, onto_grid
from swmodel.grids.grid import CartesianGrid, SphericalGrid
from swmodel.grids.topography import topography
from tests.formats import Attempts, example

GRID = SphericalGrid(6, 4, (140.0, 143.0), (37.0, 39.0))  # cells of half a degree
ELEVATION = -100.0 * np.add.outer(np.arange(1.0, 5.0), np.arange(0.0, 6.0)) - 1.25  # [m], row 0 in the south


def depth(path: Path, grid: SphericalGrid | CartesianGrid = GRID, **options: object) -> np.ndarray:
    """The depths on the grid, whose cells are those of the file."""
    return np.asarray(onto_grid(path, grid, minimum_depth=0.0, **options).depth)


def remarks(path: Path, grid: SphericalGrid | CartesianGrid = GRID) -> str:
    """What `swmodel check` says on a file."""
    return " ".join(onto_grid(path, grid, minimum_depth=0.0).report)


def rows(values: np.ndarray) -> str:
    """Lines of an array of which row 0 is in the south, from the north."""
    return "\n".join(" ".join(f"{value:g}" for value in row) for row in values[::-1]) + "\n"


@example("ascii_grid")
def esri_ascii(folder: Path) -> Attempts:
    """Esri's ASCII grid, with the corner of the first cell, and its twin with centres and sizes of its own."""
    file, values = folder / "coast.asc", ELEVATION.copy()
    values[0, 0] = -9999.0
    header = "ncols 6\nnrows 4\nxllcorner 140\nyllcorner 37\ncellsize 0.5\nNODATA_value -9999\n"
    file.write_text(header + rows(values))
    expected = np.where(values == -9999.0, 0.0, -values)
    assert np.array_equal(depth(file), expected)
    said = remarks(file)
    assert "in m, positive up" in said and "-9999 is missing, at 1 points" in said and "longitude 140.25 to" in said

    centred = folder / "centred.txt"  # another suffix, larger letters, no value for missing ones
    centred.write_text("NCOLS 6\nNROWS 4\nXLLCENTER 140.25\nYLLCENTER 37.25\nDX 0.5\nDY 5e-1\n" + rows(ELEVATION))
    assert np.array_equal(depth(centred), -ELEVATION)
    by_gdal = folder / "gdal.asc"  # NaN as GDAL writes it, and a mark of UTF-8
    text = header.replace("-9999", "nan") + rows(values).replace("-9999", "nan")
    by_gdal.write_text(text, encoding="utf-8-sig")
    assert np.array_equal(depth(by_gdal), expected) and "nan is missing, at 1 points" in remarks(by_gdal)
    plane = CartesianGrid(nx=6, ny=4, x=(5e5, 5e5 + 600.0), y=(4e6, 4e6 + 400.0))
    metres = folder / "utm.asc"
    metres.write_text("ncols 6\nnrows 4\nxllcorner 500000\nyllcorner 4000000\ncellsize 100\n" + rows(ELEVATION))
    assert np.array_equal(depth(metres, plane), -ELEVATION)
    assert np.array_equal(np.asarray(topography(metres, plane).depth), -ELEVATION)

    def refused(name, text):
        (folder / name).write_text(text)
        return lambda: depth(folder / name)

    yield (
        refused("cut.asc", header + rows(values)[:-30]),
        r"ASCII grid with \d+ values, and its header gives 6 x 4 = 24",
    )
    yield refused("comma.asc", header + rows(values).replace(".25", ",25")), "ASCII grid with decimal commas"
    yield (
        refused("no_size.asc", header.replace("cellsize 0.5\n", "") + rows(values)),
        "ASCII grid .* lacks xllcorner or a",
    )
    yield refused("rows.asc", header.replace("nrows 4", "nrows 0") + rows(values)), "needs nrows, 2 or more, and has 0"
    yield lambda: elevation_on(metres, GRID), "lies on x and y"
    from rasterio.crs import CRS

    metres.with_suffix(".prj").write_text(CRS.from_epsg(32654).to_wkt())
    assert "transformed from EPSG:32654" in remarks(metres, SphericalGrid(2, 2, (141.001, 141.005), (36.1465, 36.1485)))


@example("geoclaw_topography")
def geoclaw_topography(folder: Path) -> Attempts:
    """GeoClaw's topography of types 1 (x, y, z from the north-west), 2 (one number a line) and 3 (rows)."""
    x, y = 140.25 + 0.5 * np.arange(6), 37.25 + 0.5 * np.arange(4)
    header = "6 mx\n4 my\n1.4025e+02 xlower\n3.725e+01 ylower\n5.0e-01 cellsize\n-99999 nodata_value\n"
    three, two, one = (folder / f"topo.tt{k}" for k in (3, 2, 1))
    three.write_text(header + rows(ELEVATION))
    two.write_text(header + "\n".join(f"{z:g}" for z in ELEVATION[::-1].ravel()) + "\n")
    points = [(lon, lat, z) for lat, row in zip(y[::-1], ELEVATION[::-1]) for lon, z in zip(x, row)]
    one.write_text("".join(f"{x:12.6f} {y:12.6f} {z:12.4f}\n" for x, y, z in points))
    for file in (three, two, one):
        assert np.array_equal(depth(file), -ELEVATION), file
    assert "a table of x, y and elevation" in remarks(one)
    named = folder / "named.csv"  # with comments and a line of names
    named.write_text("# survey of 2020\nlon,lat,z\n" + "".join(f"{x},{y},{z}\n" for x, y, z in points))
    assert np.array_equal(depth(named), -ELEVATION)

    scattered, words = folder / "scattered.xyz", folder / "words.xyz"
    scattered.write_text("".join(f"{lon + 0.03 * k} {lat + 0.07 * k} {z}\n" for k, (lon, lat, z) in enumerate(points)))
    words.write_text(one.read_text() + "the end of the file\n")
    yield lambda: depth(scattered), "grid its points|not those of a grid"
    yield lambda: depth(words), "table of x, y and elevation, and not all its lines have three numbers"


def geotiff(path: Path, values: np.ndarray, corner: tuple, size: tuple, crs: str | None, **profile: object) -> Path:
    """A GeoTIFF of values of which row 0 is in the south; the corner is the north-western one."""
    import rasterio
    from rasterio.transform import Affine

    shape = {"width": values.shape[1], "height": values.shape[0], "count": 1, "dtype": "float32"}
    at = Affine(size[0], 0.0, corner[0], 0.0, -size[1], corner[1])
    units = profile.pop("units", None)
    with rasterio.open(path, "w", driver="GTiff", transform=at, crs=crs, **(shape | profile)) as file:
        file.write(values[::-1].astype(profile.get("dtype", "float32")), 1)
        if units is not None:
            file.set_band_unit(1, units)
    return path


@example("tiff")
def of_geotiff(folder: Path) -> Attempts:
    """GeoTIFF: geographic, packed and compressed in tiles with missing values, and projected (UTM) on both grids."""
    import rasterio.warp

    values = ELEVATION.copy()
    values[0, 0] = 32767
    file = geotiff(folder / "coast.dat", values, (140.0, 39.0), (0.5, 0.5), "EPSG:4326", nodata=32767, dtype="int16")
    expected = np.where(values == 32767, 0.0, -np.trunc(values))
    assert np.array_equal(depth(file), expected)
    said = remarks(file)
    assert "TIFF" in said and "in m, positive up" in said and "EPSG:4326; 32767 is missing" in said

    plane = CartesianGrid(nx=6, ny=4, x=(5e5, 5e5 + 600.0), y=(4e6, 4e6 + 400.0))
    corner, utm = (5e5, 4e6 + 400.0), "EPSG:32654"
    metres = geotiff(folder / "utm.tif", ELEVATION, corner, (100.0, 100.0), utm, compress="deflate")
    assert np.array_equal(depth(metres, plane), -ELEVATION)
    x, y = np.meshgrid(5e5 + 1e3 * (np.arange(60) + 0.5), 4e6 + 1e3 * (np.arange(60) + 0.5))
    longitude, latitude = (
        np.reshape(z, x.shape) for z in rasterio.warp.transform(utm, "EPSG:4326", x.ravel(), y.ravel())
    )
    slope = -1000.0 * (longitude - 140.0) - 500.0 * (latitude - 35.0)
    wide = geotiff(folder / "slope.tif", slope, (5e5, 4e6 + 6e4), (1e3, 1e3), utm)
    inside = SphericalGrid(10, 10, (141.1, 141.5), (36.2, 36.6))
    lon, lat = inside.x_centres, inside.y_centres[:, None]
    error = depth(wide, inside, method="interpolate") - 1000.0 * (lon - 140.0) - 500.0 * (lat - 35.0)
    assert np.abs(error).max() < 1e-2  # [m], where 10 m change from pixel to pixel
    assert "transformed from EPSG:32654" in remarks(wide, inside)

    picture = geotiff(folder / "picture.tif", ELEVATION + 600.0, corner, (100.0, 100.0), utm, count=3, dtype="uint8")
    bands = geotiff(folder / "bands.tif", ELEVATION, corner, (100.0, 100.0), utm, count=2)
    assert "EPSG:32654, the first of 2 bands" in remarks(bands, plane)
    feet = geotiff(folder / "feet.tif", ELEVATION, (140.0, 39.0), (0.5, 0.5), "EPSG:4326", units="US survey foot")
    bare = folder / "bare.tif"
    with rasterio.open(bare, "w", driver="GTiff", width=6, height=4, count=1, dtype="float32") as data:
        data.write(ELEVATION.astype("float32"), 1)
    cut = folder / "cut.tif"
    cut.write_bytes(metres.read_bytes()[:60])
    yield lambda: depth(feet), "TIFF .* in us survey foot; convert it to metres"
    yield lambda: depth(bare), "TIFF .* without positions; give it a geotransform"
    yield lambda: depth(picture, plane), "TIFF .* of colours, a picture"
    yield lambda: depth(cut, plane), "TIFF .* that cannot be read .* damaged"


@example("surfer")
def surfer(folder: Path) -> Attempts:
    """A grid of Surfer in text (DSAA): numbers of nodes, ranges, and rows from the south."""
    file = folder / "coast.grd"
    rows_from_south = "\n".join(" ".join(f"{z:g}" for z in row) for row in ELEVATION)
    lows = f"DSAA\n6 4\n140.25 142.75\n37.25 38.75\n{ELEVATION.min():g} {ELEVATION.max():g}\n"
    file.write_text(lows + rows_from_south + "\n")
    assert np.array_equal(depth(file), -ELEVATION)
    assert "a Surfer grid: elevation in m" in remarks(file)
    (folder / "cut.grd").write_text("DSAA\n6 four\n")
    yield lambda: depth(folder / "cut.grd"), "Surfer grid that cannot be read"
