"""netCDF as bathymetries, ocean models and atmospheres publish it: names, signs, masks, packing and calendars."""

import datetime
from pathlib import Path

import netCDF4
import numpy as np
import xarray as xr

import swmodel as sw
from swmodel.grids.bathymetry import onto_grid
from tests.formats import Attempts, example
from tests.formats.bathymetry import ELEVATION, GRID, depth

LON, LAT = GRID.x_centres, GRID.y_centres
EAST, NORTH = {"units": "degrees_east"}, {"units": "degrees_north"}
LAND = np.arange(6) >= 4  # columns, of which models have depths too


def dataset(name: str, values: np.ndarray, axes: tuple[str, str], attrs: dict, **others: tuple) -> xr.Dataset:
    """A Dataset of a field on (latitude, longitude), named `axes`, with further variables."""
    lat, lon = axes
    coords = {lon: (lon, LON, EAST), lat: (lat, LAT, NORTH)}
    return xr.Dataset({name: ((lat, lon), values, attrs)} | others, coords)


def as_published(folder: Path, name: str, axes: tuple[str, str], attrs: dict, encoding: dict) -> Attempts:
    """A bathymetry of elevations is read to its values, and not in feet, without axes, or when cut."""
    file = folder / f"{name}.nc"
    whole = np.trunc(ELEVATION)
    dataset(name, whole, axes, attrs).to_netcdf(file, encoding={name: encoding})
    assert np.array_equal(depth(file), -whole)
    feet, bare, cut = (folder / f"{word}_{name}.nc" for word in ("feet", "bare", "cut"))
    dataset(name, whole, axes, attrs | {"units": "feet"}).to_netcdf(feet, encoding={name: encoding})
    xr.Dataset({name: (("a", "b"), whole)}).to_netcdf(bare)
    cut.write_bytes(file.read_bytes()[:200])
    yield lambda: depth(feet), "is in feet; convert it to metres"
    yield lambda: depth(bare), "longitude|no field on"
    yield lambda: depth(cut), "netCDF|cannot be (read|opened)|truncated|damaged"


@example("GEBCO")
def gebco(folder: Path) -> Attempts:
    """GEBCO: int16 `elevation` on lat and lon, with a standard name and positive up."""
    attrs = {"units": "m", "standard_name": "height_above_mean_sea_level", "positive": "up"}
    yield from as_published(
        folder, "elevation", ("lat", "lon"), attrs, {"dtype": "int16", "_FillValue": np.int16(-32768)}
    )


@example("ETOPO and COARDS grids of GMT")
def gmt(folder: Path) -> Attempts:
    """`z` on y and x or lat and lon, float, as `grdconvert` and ETOPO 2022 have it."""
    attrs = {"units": "meters", "positive": "up", "actual_range": [ELEVATION.min(), ELEVATION.max()]}
    yield from as_published(folder, "z", ("lat", "lon"), attrs, {"dtype": "float32", "_FillValue": np.float32("nan")})


@example("GMT before COARDS")
def old_gmt(folder: Path) -> Attempts:
    """`x_range`, `y_range`, `spacing`, `dimension` and a single column z from the north-west."""
    file = folder / "old.grd"

    def write(path, count=24, pixels=0):
        half = 0.25 * pixels
        ranges = {"x_range": ("side", [LON[0] - half, LON[-1] + half])}
        ranges["y_range"] = "side", [LAT[0] - half, LAT[-1] + half]
        sizes = {"spacing": ("side", [0.5, 0.5]), "dimension": ("side", np.array([6, 4], "i4"))}
        z = ("xysize", ELEVATION[::-1].ravel()[:count], {"scale_factor": 1.0, "add_offset": 0.0, "node_offset": pixels})
        xr.Dataset({**ranges, **sizes, "z": z}).to_netcdf(path)
        return path

    for pixels in (0, 1):
        assert np.array_equal(depth(write(file, pixels=pixels)), -ELEVATION)
    yield lambda: depth(write(folder / "short.grd", 23)), "6 x 4 nodes, and its z has 23"


def with_mask(folder: Path, name: str, variable: str, mask: tuple, attrs: dict) -> Attempts:
    """A model's depth has the mask that comes with it, is refused in feet, and with fills that nothing declares."""
    values = np.where(LAND, 5.0, -ELEVATION)
    file = folder / f"{name}.nc"
    dataset(variable, values, ("y", "x"), attrs, **{name: mask}).to_netcdf(file)
    read = onto_grid(file, GRID, minimum_depth=0.0)
    assert (read.wet == ~LAND).all() and np.array_equal(read.depth[:, ~LAND], -ELEVATION[:, ~LAND])
    assert f"has a land mask, {name}:" in " ".join(read.report)
    feet, fills = folder / f"feet_{name}.nc", folder / f"fills_{name}.nc"
    dataset(variable, values, ("y", "x"), attrs | {"units": "feet"}, **{name: mask}).to_netcdf(feet)
    holes = np.where(np.arange(6) < 2, 9999.0, -ELEVATION / 100.0)
    dataset(variable, holes, ("y", "x"), attrs).to_netcdf(fills)
    yield lambda: depth(feet), "is in feet; convert it to metres"
    yield lambda: depth(fills), "9999 m at 8 nodes: a missing value"


def sea(*leading: int, factor: float = 1.0) -> np.ndarray:
    """1 in the water of the first level, 0 elsewhere, with leading dimensions of these lengths."""
    mask = np.zeros((*leading, *GRID.shape))
    mask[(0,) * len(leading)] = ~LAND
    return factor * mask


@example("ROMS, h and mask_rho")
def roms(folder: Path) -> Attempts:
    """ROMS's grid file: h in meter, with mask_rho."""
    mask = (("y", "x"), sea(), {"long_name": "mask on RHO-points"})
    yield from with_mask(folder, "mask_rho", "h", mask, {"units": "meter", "long_name": "bathymetry at RHO-points"})


@example("MOM6, depth and wet")
def mom6(folder: Path) -> Attempts:
    """MOM6's ocean_geometry: D and wet."""
    mask = (("y", "x"), sea(), {"long_name": "land or ocean?"})
    yield from with_mask(folder, "wet", "depth", mask, {"units": "m", "long_name": "Basin Depth", "positive": "down"})


@example("NEMO, tmask")
def nemo(folder: Path) -> Attempts:
    """NEMO's mesh_mask: tmask with time and levels."""
    attrs = {"units": "m", "positive": "down"}
    yield from with_mask(folder, "tmask", "bathymetry", (("t", "z", "y", "x"), sea(1, 3), {}), attrs)


@example("POP, KMT")
def pop(folder: Path) -> Attempts:
    """POP's KMT: the number of wet levels."""
    attrs = {"units": "m", "positive": "down"}
    yield from with_mask(folder, "KMT", "depth", (("y", "x"), sea(factor=40.0), {}), attrs)


# -- air ---------------------------------------------------------------------------------------------------------------

START = datetime.datetime(2020, 9, 10)


def winds(path: Path, variable: str) -> tuple[np.ndarray, np.ndarray]:
    """(times after START [s], records on GRID's cells) of a variable in m s-1."""
    read = sw.FileRecords(str(path), variable, start=START).records(GRID, "h", "m s-1")
    return np.asarray(read.times), np.asarray(read.values)


def wind(k: int) -> np.ndarray:
    return 3.0 * k + np.add.outer(LAT - 38.0, 0.5 * (LON - 141.0))


@example("ERA5 as it was until 2024")
def era5(folder: Path) -> Attempts:
    """Hours since 1900, latitudes from the north, int16 with a scale and an offset."""

    def write(path, units="m s**-1", time="hours since 1900-01-01 00:00:0.0"):
        with netCDF4.Dataset(path, "w") as data:
            for name, values, text in (("longitude", LON, EAST), ("latitude", LAT[::-1], NORTH)):
                data.createDimension(name, len(values))
                data.createVariable(name, "f4", (name,)).setncatts(text)
                data[name][:] = values
            data.createDimension("time", 3)
            data.createVariable("time", "i4", ("time",)).setncatts({"units": time, "calendar": "gregorian"})
            hours = (START - datetime.datetime(1900, 1, 1)).total_seconds() / 3600.0
            data["time"][:] = hours + np.arange(3)
            u = data.createVariable("u10", "i2", ("time", "latitude", "longitude"), fill_value=-32767)
            u.setncatts({"scale_factor": 1e-3, "add_offset": 2.0, "units": units})
            u[:] = np.stack([wind(k)[::-1] for k in range(3)])
        return path

    times, values = winds(write(folder / "era5.nc"), "u10")
    assert np.array_equal(times, [0.0, 3600.0, 7200.0])
    assert np.abs(values - [wind(k) for k in range(3)]).max() < 1e-3
    knots, undated = folder / "pascals.nc", folder / "undated.nc"
    write(knots, "Pa")
    write(undated, time="")
    yield lambda: winds(knots, "u10"), "is in 'Pa'"
    yield lambda: winds(undated, "u10"), "the times of time in .* have units ''"
    yield lambda: winds(folder / "era5.nc", "u100"), "has no variable 'u100'"


@example("ERA5 since 2024")
def era5_new(folder: Path) -> Attempts:
    """`valid_time` in seconds since 1970, with the numbers `number` and `expver` beside it."""
    file = folder / "era5_2024.nc"
    seconds = (START - datetime.datetime(1970, 1, 1)).total_seconds() + 3600.0 * np.arange(3)
    time = (
        "valid_time",
        seconds.astype("i8"),
        {"units": "seconds since 1970-01-01", "calendar": "proleptic_gregorian"},
    )
    axes = {"latitude": ("latitude", LAT[::-1], NORTH), "longitude": ("longitude", LON, EAST)}
    expver = ("valid_time", np.array(["0001"] * 3))
    u = ("valid_time", "latitude", "longitude"), np.stack([wind(k)[::-1] for k in range(3)]), {"units": "m s**-1"}
    data = xr.Dataset({"u10": u}, {"valid_time": time, "number": 0, "expver": expver, **axes})
    data.to_netcdf(file)
    times, values = winds(file, "u10")
    assert np.array_equal(times, [0.0, 3600.0, 7200.0])
    assert np.abs(values - [wind(k) for k in range(3)]).max() < 1e-12
    swapped = folder / "backwards.nc"
    data.isel(valid_time=[1, 0, 2]).to_netcdf(swapped)
    yield lambda: winds(swapped, "u10"), "the times of u10 in .* do not ascend"


@example("sflux of SCHISM")
def sflux(folder: Path) -> Attempts:
    """`uwind` on two-dimensional lon and lat, which are those of a regular grid, in days since a base date."""
    lon, lat = np.meshgrid(LON, LAT)
    axes = {"lon": (("ny_grid", "nx_grid"), lon, EAST), "lat": (("ny_grid", "nx_grid"), lat, NORTH)}

    def write(name, units="m/s", axes=axes):
        time = ("time", np.arange(3) / 24.0, {"units": "days since 2020-09-10", "base_date": [2020, 9, 10, 0]})
        u = ("time", "ny_grid", "nx_grid"), np.stack([wind(k) for k in range(3)]), {"units": units}
        xr.Dataset({"uwind": u, "time": time, **axes}).to_netcdf(folder / name)
        return folder / name

    times, values = winds(write("sflux.nc"), "uwind")
    assert np.abs(times - [0.0, 3600.0, 7200.0]).max() < 1e-6
    assert np.abs(values - [wind(k) for k in range(3)]).max() < 1e-12
    turned = axes | {"lon": (("ny_grid", "nx_grid"), lon + 0.1 * (lat - 38.0), EAST)}
    pascals, curved = write("pascals.nc", "Pa"), write("curved.nc", axes=turned)
    yield lambda: winds(pascals, "uwind"), "is in 'Pa'"
    yield lambda: winds(curved, "uwind"), "lon in .* rotated or curvilinear"
