"""The basins of random experiments, and the tables, records and modules that these name."""

import math

import numpy as np

from .. import own_parts

__all__ = ["BASINS", "DEPTH", "START", "at", "width", "write_files"]

DEPTH = 60.0  # [m]
START = "2024-03-01T00:00:00"
BASINS = {  # {folder: (grid, the name of x, the name of y, the time that a wave takes through a narrow cell [s])}
    "globe": ({"type": "spherical", "longitude": [0, 360], "latitude": [-60, 60]}, "longitude", "latitude", 60e3),
    "plane": ({"type": "cartesian", "x": [0.0, 120e3], "y": [0.0, 100e3]}, "x", "y", 375.0),
    "sphere": ({"type": "spherical", "longitude": [170, 182], "latitude": [-40, -30]}, "longitude", "latitude", 3000.0),
}
TRACK = """\
time_utc,longitude_deg,latitude_deg,maximum_wind_m_s,radius_of_maximum_wind_m,central_pressure_pa
2024-02-29T18:00:00,174.0,-31.5,35.0,80000,97500
2024-03-01T06:00:00,176.5,-34.2,{wind},{radius},{pressure}
2024-03-10T18:00:00,179.0,-38.4,38.0,70000,97500
"""
RADII = "  100,   90,   60,   80,   50,   40,   30,   45,    0,    0,    0,    0"
HURDAT2 = f"""\
SP092024,               TEST,      3,
20240229, 1800,  , HU, 31.5S, 174.0E,  68,  975, {RADII},   43
20240301, 0600,  , HU, 34.2S, 176.5E,  82,  965, {RADII},   32
20240310, 1800,  , HU, 38.4S, 179.0E,  74,  975, {RADII},   38
"""


def width(interval):
    return float(interval[1] - interval[0])


def at(grid, x, y, east, north):
    """A place on a grid, at shares of its extents."""
    return [float(grid[x][0] + east * width(grid[x])), float(grid[y][0] + north * width(grid[y]))]


def _grids(grid, x, y):
    """{name: text} of a bed and a part of it that is deeper, of a level, and of a slide, on a grid of square cells."""
    size = min(width(grid[x]), width(grid[y])) / 24
    (x0, x1), (y0, y1) = grid[x], grid[y]
    east, north = x0 + size * np.arange(-1, (x1 - x0) / size + 1.5), y0 + size * np.arange(-1, (y1 - y0) / size + 1.5)
    a, b = np.meshgrid((east - x0) / (x1 - x0), (north - y0) / (y1 - y0))
    bed = -DEPTH * (1.0 - 1.1 * a + 0.1 * np.sin(20 * a) * np.cos(15 * b))
    hump = np.exp(-(((a - 0.4) / 0.15) ** 2) - ((b - 0.5) / 0.15) ** 2)
    rows = "\n".join(" ".join(f"{z:.4f}" for z in row) for row in bed[::-1])
    header = f"ncols {east.size}\nnrows {north.size}\nxllcenter {east[0]}\nyllcenter {north[0]}\ncellsize {size!r}\n"
    inner = (abs(a - 0.4) < 0.2) & (abs(b - 0.5) < 0.2)
    table = (
        "".join(f"{east[i]:.9g} {north[j]:.9g} {z[j, i]:.6f}\n" for j, i in np.argwhere(inner)) for z in (bed - 3, hump)
    )
    sizes = (east.size, "mx"), (north.size, "my"), (2, "mt"), (east[0], "xlower"), (north[0], "ylower"), (0.0, "t0")
    moved = "".join(f"{z:.6f}\n" for z in np.concatenate([0 * hump.ravel(), hump[::-1].ravel()]))
    slide = "".join(f"{n} {key}\n" for n, key in (*sizes, (size, "dx"), (size, "dy"), (600.0, "dt"))) + moved
    return {"floor.asc": header + rows + "\n", "slide.tt3": slide} | dict(zip(("patch.xyz", "level.xyz"), table))


def write_files(folder):
    """Write the files that draws name into a subfolder for each basin."""
    import xarray as xr

    for name, (grid, x, y, _) in BASINS.items():
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        texts = dict(own_parts.files())
        texts["track.csv"] = TRACK.format(wind=42.0, radius=60000, pressure=96500)
        texts["track2.csv"] = TRACK.format(wind=48.0, radius=50000, pressure=94500)
        for file, size in (("series.csv", 0.1), ("series2.csv", 0.15)):
            records = (f"{t},{size * math.sin(2e-4 * t)!r}" for t in range(0, 600_000, 1000))
            texts[file] = "\n".join(["time_s,value", *records])
        south, north = (",".join(map(str, at(grid, x, y, 0.55, share))) for share in (0.1, 0.9))
        texts["levees.csv"] = f"levee,x,y,crest_m\na,{south},0.5\na,{north},0.7\n"
        texts |= {"hurdat2.txt": HURDAT2} | _grids(grid, x, y)
        for file, text in texts.items():
            (place / file).write_text(text)
        units = ("m", "m") if name == "plane" else ("degrees_east", "degrees_north")
        margin = 0.2 * width(grid[x])
        values = [np.linspace(grid[axis][0] - margin, grid[axis][1] + margin, 30) for axis in (x, y)]
        axes = {axis: (axis, points, {"units": unit}) for axis, points, unit in zip((x, y), values, units)}
        field = 0.03 * (1 + 0.5 * np.add.outer(np.sin(np.arange(30)), np.cos(np.arange(30)))) + 0.005
        xr.Dataset({"n": ((y, x), field)}, axes).to_netcdf(place / "map.nc")
        hours = ("time", np.arange(0, 151, 3.0), {"units": "hours since 2024-03-01 00:00:00"})
        wind = 10 * np.multiply.outer(np.cos(np.arange(len(hours[1]))), field / field.max())
        winds = {key: (("time", y, x), sign * wind, {"units": "m s-1"}) for key, sign in (("u10", 1), ("v10", -0.5))}
        xr.Dataset(winds, axes | {"time": hours}).to_netcdf(place / "wind.nc")
