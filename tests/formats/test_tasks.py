"""Four tasks of a new user: from a folder of files as they come to a figure, in under ten lines of an experiment.

Each folder holds synthetic files of the documented shapes. `make test` checks each experiment and makes a few steps;
`make verify` runs the commands that the user would type, up to the figure.
"""

import datetime
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

from swmodel.cli.checks import file_lines
from swmodel.config.assembly import assemble
from swmodel.config.experiment import read_text
from tests.formats.bathymetry import geotiff, rows
from tests.formats.test_atlases import write_tpxo
from tests.formats.test_tracks import RADII

START = datetime.datetime(2011, 3, 11, 5, 46)


def slopes(nx, ny, steps):
    """Elevations [m] of a coast at the western side, (ny, nx)."""
    return np.broadcast_to(20.0 - steps * np.arange(nx), (ny, nx)).copy()


def coops(station, level):
    times = [START + datetime.timedelta(minutes=6 * k) for k in range(12)]
    lines = [f"{t:%Y-%m-%d %H:%M},{level(k):.3f},0.003,0,0,0,0,v" for k, t in enumerate(times)]
    return "Date Time, Water Level, Sigma, O or I (for verified), F, R, L, Quality \n" + "\n".join(lines) + "\n"


USGS = """#Total number of fault_segments=     1
#Fault_segment =   1 nx(Along-strike)=   2 Dx= 60.00km ny(downdip)=   1 Dy= 50.00km
#Boundary of Fault_segment     1. EQ in cell 1,1. Lon:142.86 Lat: 38.10
#Lon.  Lat.  Depth
      143.0000       37.0000        7.0000
#Lat. Lon. depth slip rake strike dip t_rup t_ris t_fal mo
   38.5000  143.5000   15.0000   550.0000   85.00  198.00   12.00   12.00    2.00    4.00  6.6000e+27
   38.0000  143.3000   15.0000   350.0000   85.00  198.00   12.00    0.00    3.00    3.00  4.2000e+27
"""


def tsunami(folder):
    """A fault of the USGS over a coast in GeoTIFF, with gauges of CO-OPS."""
    (folder / "finite_fault.param").write_text(USGS)
    geotiff(folder / "coast.tif", slopes(60, 48, 100.0), (140.0, 40.0), (0.1, 1 / 12), "EPSG:4326", nodata=-9999)
    (folder / "gauges").mkdir()
    (folder / "gauges" / "CO-OPS_9410230_met.csv").write_text(coops(9410230, lambda k: 0.4 + 0.3 * np.sin(k)))
    return """\
run = {until = "30 min", start = 2011-03-11T05:46:00Z}
grid = {type = "spherical", nx = 60, ny = 48, longitude = [140, 146], latitude = [36, 40]}
bathymetry = {type = "file", file = "coast.tif", minimum_depth = "10 m"}
source = {file = "finite_fault.param"}
output.fields = [{file = "fields.nc", variables = ["eta"], every = "10 min"}]
output.gauges = {positions."Harbour 9410230" = [141.0, 38.0], observations = "gauges"}
"""


def tide(folder):
    """A tide of TPXO with winds and pressures of ERA5 on the grid of ROMS."""
    lon, lat = np.linspace(-5.9, 3.9, 40), np.linspace(48.1, 52.9, 25)
    x, y = np.meshgrid(lon, lat)
    fields = {
        "h": (60.0 + 5.0 * (1.5 - x), {"units": "meter", "long_name": "bathymetry at RHO-points"}),
        "mask_rho": (1.0 * ((x < 1.5) | (y < 50.5)), {"long_name": "mask on RHO-points"}),
        "lon_rho": (x, {"units": "degree_east"}),
        "lat_rho": (y, {"units": "degree_north"}),
    }
    xr.Dataset({key: (("eta_rho", "xi_rho"), *each) for key, each in fields.items()}).to_netcdf(folder / "roms_grd.nc")
    for name in ("M2", "S2"):
        write_tpxo(folder / f"h_{name.lower()}_tpxo9_atlas_30_v5.nc", (name,))
    hours = np.arange(7)
    axes = {"valid_time": ("valid_time", hours, {"units": "hours since 2020-01-01"})}
    axes |= {"latitude": ("latitude", np.arange(53.5, 47.4, -0.25), {"units": "degrees_north"})}
    axes |= {"longitude": ("longitude", np.arange(-6.5, 4.6, 0.25), {"units": "degrees_east"})}
    shape = 7, axes["latitude"][1].size, axes["longitude"][1].size
    fields = {"u10": (12.0, "m s**-1"), "v10": (3.0, "m s**-1"), "msl": (100800.0, "Pa")}
    dims, growing = ("valid_time", "latitude", "longitude"), np.zeros(shape) + hours[:, None, None]
    era5 = {key: (dims, value + growing, {"units": units}) for key, (value, units) in fields.items()}
    xr.Dataset(era5, axes).to_netcdf(folder / "era5.nc")
    return """\
run = {until = "6 h", start = 2020-01-01}
grid = {type = "spherical", nx = 36, ny = 20, longitude = [-5.5, 3.5], latitude = [48.5, 52.5]}
bathymetry = {type = "file", file = "roms_grd.nc"}
forcing = [{type = "wind_file", file = "era5.nc"},
    {type = "air_pressure", pressure = {file = "era5.nc", variable = "msl"}}]
boundary = [{type = "flather", sides = ["west", "south"], elevation = {atlas = "h_*_tpxo9_*.nc"}}]
coriolis = {type = "rotating_sphere"}
output.fields = [{file = "fields.nc", variables = ["eta", "speed"], every = "1 h"}]
"""


STORM = f"""\
AL992020,               TEST,      3,
20200910, 0000,  , HU, 27.6N,  89.0W,  80,  965,{RADII},   30
20200910, 0600,  , HU, 28.8N,  89.4W,  90,  955,{RADII},   25
20200910, 1200,  , HU, 30.0N,  89.8W,  85,  962,{RADII},   25
"""


def delta(folder):
    """A storm of HURDAT2 with a wind of OWI over a delta that is flooded, with a river."""
    nx, ny = 40, 32
    land = np.linspace(-25.0, 4.0, ny)[:, None] + 0.5 * np.sin(np.arange(nx))
    header = f"ncols {nx}\nnrows {ny}\nxllcorner -91\nyllcorner 28\ncellsize 0.05\nNODATA_value -9999\n"
    (folder / "delta.asc").write_text(header + rows(land))
    (folder / "hurdat2.txt").write_text(STORM)
    lon, lat = np.arange(-92.0, -87.9, 0.5), np.arange(27.0, 30.6, 0.5)
    lines = ["Oceanweather WIN/PRE Format                          2020091000     2020091012"]
    for hour in (0, 6, 12):
        lines.append(
            f"iLat={lat.size:4d}iLong={lon.size:4d}DX={0.5:6.4f}DY={0.5:6.4f}SWLat={lat[0]:8.5f}SWLon={lon[0]:8.4f}"
            f"DT=20200910{hour:02d}00"
        )
        for speed in (-5.0, 12.0):
            cells = [f"{speed:10.4f}"] * (lat.size * lon.size)
            lines += ["".join(cells[n : n + 8]) for n in range(0, len(cells), 8)]
    (folder / "fort.222").write_text("\n".join(lines) + "\n")
    return """\
run = {until = "12 h", start = 2020-09-10}
grid = {type = "spherical", nx = 40, ny = 32, longitude = [-91, -89], latitude = [28, 29.6]}
model = {momentum = "momentum_conserving", wetting = {}}
bathymetry = {type = "file", file = "delta.asc"}
forcing = [{type = "cyclone", track = "hurdat2.txt"}, {type = "wind_file", file = "fort.222"},
    {type = "river", discharge = "5000 m3 s-1", positions = [-90.2, 29.2]}]
dissipation = [{type = "manning_drag", roughness = 0.03}]
boundary = [{type = "flather", sides = ["south"], elevation = {inverse_barometer = true}}]
output.maxima = {threshold = "10 cm"}
"""


def dart(station, depth, arrival):
    """The text of a buoy: 15 min before the event, 1 min in it; the column of water with a tide."""
    lines = ["#YY  MM DD hh mm ss T   HEIGHT", "#yr  mo dy hr mn  s -        m"]
    for seconds in [*range(-30 * 3600, 0, 900), *range(0, 3601, 60)]:
        t = START + datetime.timedelta(seconds=seconds)
        wave = 0.5 * np.exp(-(((seconds - arrival) / 400.0) ** 2))
        level = depth + 0.3 * np.cos(2 * np.pi * seconds / 44714.0) + wave
        lines.append(f"{t:%Y %m %d %H %M %S} {2 if seconds >= 0 else 1} {level:.3f}")
    return "\n".join(lines[:2] + lines[:1:-1]) + "\n"


def inversion(folder):
    """The source of a tsunami from the raw texts of DART buoys."""
    geotiff(folder / "ocean.tif", slopes(40, 32, 150.0) - 500.0, (140.0, 44.0), (0.25, 0.25), "EPSG:4326")
    (folder / "dart").mkdir()
    for station, arrival in (("21418", 1300.0), ("21413", 1900.0)):
        (folder / "dart" / f"{station}.dart").write_text(dart(station, 5800.0, arrival))
    (folder / "dart" / "records.toml").write_text('detide = ["M2"]\n')
    return """\
run = {until = "1 h", start = 2011-03-11T05:46:00Z}
grid = {type = "spherical", nx = 40, ny = 32, longitude = [140, 150], latitude = [36, 44]}
bathymetry = {type = "file", file = "ocean.tif", minimum_depth = "20 m"}
boundary = [{type = "flather", sides = ["east", "south", "north"]}]
output.gauges = {positions = {21418 = [147.0, 39.0], 21413 = [145.0, 37.0]}, observations = "dart"}
inversion.controls = [{type = "unit_sources", x = [142, 145], y = [38, 40], spacing = 1, deviation = 2, length = 8e4}]
inversion.observations = {type = "gauges", window = ["5 min", "1 h"], deviation = "5 cm"}
"""


TASKS = {
    tsunami: ["run task.toml", "plot fields.nc gauges.nc --observations gauges -o figure.png"],
    tide: ["run task.toml", "plot fields.nc -o figure.png"],
    delta: ["run task.toml", "plot maxima.nc -o figure.png"],
    inversion: ["invert task.toml --plot"],
}


SAID = {  # by `swmodel check`, of units, datums and dates
    tsunami: ["water levels of CO-OPS in m (assumed); dates in UTC (assumed); above the datum of the request"],
    tide: [
        "forcing.0.file: u10 in",
        "era5.nc in m s-1, 7 records from 2020-01-01 00:00 to 2020-01-01 06:00, at most 1 h apart",
        "forcing.1.pressure: msl in",
        "boundary.0.elevation: a tide of M2, S2, with phase lags of Greenwich",
    ],
    delta: ["HURDAT2, AL992020 TEST; 3 points from", "v10 in", "fort.222 in m s-1, 3 records from 2020-09-10 00:00"],
    inversion: ["heights of the water column of DART in m", "tide of M2 and a line in time subtracted"],
}


@pytest.mark.parametrize("task", TASKS, ids=[task.__name__ for task in TASKS])
def test_under_ten_lines_take_the_files_as_they_come(task, tmp_path):
    text = task(tmp_path)
    assert len(text.splitlines()) < 10
    made = assemble(read_text(text, tmp_path / "task.toml", tmp_path))
    assert made.sentences() == []
    told = " ".join(words for _, words in file_lines(made.experiment(), made.grid))
    assert all(words in told for words in SAID[task]), told


@pytest.mark.verify
@pytest.mark.parametrize("task", TASKS, ids=[task.__name__ for task in TASKS])
def test_the_commands_of_a_user_end_in_a_figure(task, tmp_path):
    (tmp_path / "task.toml").write_text(task(tmp_path))
    for command in TASKS[task]:
        words = [sys.executable, "-m", "swmodel", *command.split()]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert list(tmp_path.glob("*.png"))
