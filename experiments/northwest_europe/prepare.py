"""Make the files of this experiment: the depth, the tide along the open sides, and the gauges.

python prepare.py ETOPO5 HARMONICS GAUGES      writes depth.nc, boundary.nc, drag.nc and gauges.csv

ETOPO5 is the elevation of the region at 5', HARMONICS the output of `swmodel new global_tide`, and GAUGES the table
gauges.csv of that experiment.

depth.nc      The Mediterranean and the Baltic become land: the model has no open side to the one, and M2 hardly enters
              the other.
boundary.nc   M2 of the wave that comes in through each side, from the elevation eta and the velocity u into the domain
              of the global run, by linear theory: eta_in = (eta + u sqrt(H / g)) / 2.
drag.nc       A drag coefficient of 2.5e-3 everywhere.
gauges.csv    The gauges of the region outside these seas whose four surrounding cells of 5' are not all land, by name.
              Every second is left out of the inversion, the first is used.
"""

import csv
import sys
from pathlib import Path

import netCDF4
import numpy as np
import xarray as xr

HERE = Path(__file__).parent
G = 9.81  # [m s-2]
DRAG = 2.5e-3
LAND = 10  # [m], the elevation of what is made land
LONGITUDE, LATITUDE = (-20.0, 13.0), (43.0, 66.0)  # of the model
INTO = {"west": ("u", 1.0), "south": ("v", 1.0), "north": ("v", -1.0)}  # velocity into the domain, and its sign


def is_left_out(longitude, latitude):
    """Whether points lie in the Mediterranean or the Baltic."""
    mediterranean = (longitude > 1.5) & (latitude < 46.0)
    baltic = (longitude > 9.5) & (latitude < 56.2) | (longitude > 12.0) & (latitude < 60.0)
    return mediterranean | baltic


def write_depth(etopo5, path):
    """The elevation of the region without these seas."""
    with xr.open_dataset(etopo5) as source:
        made = source.load()
    wet = made.elevation < 0
    made["elevation"] = made.elevation.where(~(wet & is_left_out(made.lon, made.lat)), LAND).astype("int16")
    made.attrs["title"] = "ETOPO5 elevation of the north-west European shelf; the Mediterranean and the Baltic are land"
    made.to_netcdf(path, encoding={"elevation": {"zlib": True, "complevel": 9}})


def write_boundary(harmonics, path):
    """Amplitude and phase lag of M2 of the incoming waves, on the cells of the global run around the region."""
    with xr.open_dataset(harmonics) as run:
        columns = (run.xh.values > LONGITUDE[0] - 1) & (run.xh.values < LONGITUDE[1] + 1)
        rows = (run.yh.values > LATITUDE[0] - 1) & (run.yh.values < LATITUDE[1] + 1)
        wave = {name: centred(run, name) for name in ("eta", "u", "v")}
        deep = np.sqrt(np.maximum(run.depth.values, 0.0) / G)
        lon, lat = run.xh.values[columns], run.yh.values[rows]
    with netCDF4.Dataset(path, "w") as data:
        data.setncatts({
            "title": "M2 of the waves that enter the north-west European shelf, from a global run at 30'",
            "source": "swmodel, experiment global_tide; made by prepare.py",
        })  # fmt: skip
        for name, values, units in (("lat", lat, "degrees_north"), ("lon", lon, "degrees_east")):
            data.createDimension(name, values.size)
            data.createVariable(name, "f4", (name,))[:] = values
            data[name].units = units
        for side, (name, sign) in INTO.items():
            incoming = 0.5 * (wave["eta"] + sign * wave[name] * deep)[np.ix_(rows, columns)]
            keep = np.ix_(*near(side, lat, lon))
            for part, values, units in (
                ("amplitude", np.abs(incoming), "m"),
                ("phase", np.rad2deg(np.angle(incoming)) % 360.0, "degrees"),
            ):
                variable = data.createVariable(
                    f"{side}_{part}", "f4", ("lat", "lon"), zlib=True, complevel=9, fill_value=np.nan,
                    least_significant_digit=4 if part == "amplitude" else 2,
                )  # fmt: skip
                variable.setncatts({"units": units, "long_name": f"{part} of M2 entering through the {side} side"})
                table = np.full(values.shape, np.nan)
                table[keep] = values[keep]
                variable[:] = table


def near(side, lat, lon):
    """(rows, columns) within 1.5 degrees of a side."""
    rows, columns = np.ones(lat.size, bool), np.ones(lon.size, bool)
    if side == "west":
        columns = np.abs(lon - LONGITUDE[0]) < 1.5
    else:
        rows = np.abs(lat - LATITUDE[("south", "north").index(side)]) < 1.5
    return rows, columns


def centred(run, name):
    """A exp(i g) of a variable of the global run at cell centres; NaN on land."""
    size, lag = run[f"{name}_amplitude_M2"].values, run[f"{name}_phase_M2"].values
    wave = size.astype(float) * np.exp(1j * np.deg2rad(lag))
    wet = run.wet.values > 0
    if name != "eta":
        wave = np.nan_to_num(wave)
    if name == "u":
        east = wave if wave.shape[1] == wet.shape[1] else wave[:, 1:]
        wave = 0.5 * (east + np.roll(east, 1, axis=1))
    if name == "v":
        wave = 0.5 * (wave[1:] + wave[:-1])
    return np.where(wet, wave, np.nan)


def write_drag(path):
    """The same drag coefficient in four corners around the region."""
    with netCDF4.Dataset(path, "w") as data:
        data.title = "Background of the drag coefficient: the same everywhere"
        for name, values, units in (("lat", (42.0, 67.0), "degrees_north"), ("lon", (-21.0, 14.0), "degrees_east")):
            data.createDimension(name, 2)
            data.createVariable(name, "f4", (name,))[:] = values
            data[name].units = units
        variable = data.createVariable("drag", "f4", ("lat", "lon"))
        variable.setncatts({"units": "1", "long_name": "coefficient of quadratic drag"})
        variable[:] = DRAG


def write_gauges(gauges, elevation, path):
    """The gauges of the region next to water, with a column that marks those in use."""
    with open(gauges, encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["M2_amplitude_m"] and row["M2_phase_deg"]]
    rows = sorted((row for row in rows if is_next_to_water(row, elevation)), key=lambda row: row["id"])
    with open(path, "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["name", "longitude", "latitude", "M2_amplitude_m", "M2_phase_deg", "used"])
        for k, row in enumerate(rows):
            keys = ("longitude", "latitude", "M2_amplitude_m", "M2_phase_deg")
            table.writerow([row["name"], *(row[key] for key in keys), (k + 1) % 2])


def is_next_to_water(row, elevation):
    """Whether one of the four cells of 5' around a gauge is water."""
    x, y = float(row["longitude"]), float(row["latitude"])
    if not (LONGITUDE[0] < x < LONGITUDE[1] and LATITUDE[0] < y < LATITUDE[1]) or is_left_out(x, y):
        return False
    cells = 0.25 * (elevation[1:, 1:] + elevation[:-1, 1:] + elevation[1:, :-1] + elevation[:-1, :-1])
    i, j = (int(np.floor(12 * (at - low) - 0.5)) for at, low in ((x, LONGITUDE[0]), (y, LATITUDE[0])))
    return bool((cells[j : j + 2, i : i + 2] < 0).any())


def main(etopo5, harmonics, gauges):
    write_depth(etopo5, HERE / "depth.nc")
    write_boundary(harmonics, HERE / "boundary.nc")
    write_drag(HERE / "drag.nc")
    with xr.open_dataset(HERE / "depth.nc") as depth:
        write_gauges(gauges, depth.elevation.values.astype(float), HERE / "gauges.csv")


if __name__ == "__main__":
    main(*sys.argv[1:])
