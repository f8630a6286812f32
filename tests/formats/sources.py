"""Slip models of earthquakes: SRCMOD, USGS (text and GeoJSON) and GeoClaw."""

import datetime
import json
from pathlib import Path

import numpy as np
import xarray as xr

from swmodel.grids.grid import SphericalGrid
from swmodel.sources import read_source
from swmodel.sources.deformation import read_deformation, read_level
from swmodel.sources.fault import AzimuthalEqualArea, summarise
from tests.formats import Attempts, example
from tests.formats.bathymetry import geotiff


def leaf(source: object, name: str) -> np.ndarray:
    """A number of all subfaults."""
    return np.asarray(getattr(source.faults, name)).reshape(2)


def close(source: object, **expected: object) -> None:
    """Assert numbers of both subfaults."""
    for name, values in expected.items():
        np.testing.assert_allclose(leaf(source, name), values, rtol=1e-4, err_msg=name)


@example("srcmod")
def srcmod(folder: Path) -> Attempts:
    """SRCMOD's .fsp: sizes in km, slip in m, positions of the middle of the upper edge."""
    text = """% ------------------------------  FINITE-SOURCE RUPTURE MODEL  ------------------------------
%
% Event : Testland 01/01/2020      [Nobody (2020)]
% EventTAG: s2020TESTLA01NOBO
% Loc  : LAT = 38.10     LON = 142.86     DEP = 24.00
% Size : LEN = 40.00 km  WID = 15.00 km   Mw = 7.10   Mo = 6.0e+19 Nm
% Mech : STRK = 198      DIP = 10         RAKE = 88   Htop = 7.00 km
% Rupt : HypX = 10.00 km HypZ = 7.50 km   avTr = 6.0 s avVr = 2.50 km/s
% Invs : Nx  =  2        Nz  = 1          Fmin = 0.002 Hz
% Invs : Dx  = 20.00 km  Dz  = 15.00 km
% Nsbfs = 2 subfaults
%      LAT        LON       X==EW     Y==NS     Z         SLIP     RAKE      TRUP     RISE
% --------------------------------------------------------------------------------------------
    37.5000   143.5000    0.0000    0.0000    7.0000    2.5000   80.0000   12.0000   6.0000
    37.3300   143.4300   -6.2000  -19.0000    7.5000    0.0000   95.0000    0.0000   0.0000
"""
    file = folder / "event.txt"
    file.write_text(text)
    source = read_source(file)
    close(source, latitude=[37.5, 37.33], longitude=[143.5, 143.43], depth=[7e3, 7.5e3], slip=[2.5, 0.0])
    close(source, strike=198.0, dip=10.0, rake=[80.0, 95.0], length=2e4, width=1.5e4, onset=[12, 0], rise_time=[6, 0])
    assert source.faults.reference == "top_centre" and "depth in km, slip in m" in str(summarise(source))

    def refused(name, changed):
        (folder / name).write_text(changed)
        return lambda: read_source(folder / name)

    windows = folder / "windows.fsp"  # the slip of each time window beside the whole
    windows.write_text(
        text.replace("   RISE\n", "   RISE  SLIP-TW1\n")
        .replace("6.0000\n", "6.0 1.5\n")
        .replace(" 0.0000\n", " 0.0 0.0\n")
    )
    close(read_source(windows), slip=[2.5, 0.0], rise_time=[6, 0])
    yield refused("cm.fsp", text.replace("2.5000", "250.00")), "a slip of 250 m, which no earthquake has, .* slip in m"
    yield refused("cut.fsp", text[: text.index("    37.5000")]), "slip model of SRCMOD without subfaults"
    yield refused("no_size.fsp", text.replace("Dz  =", "Dzz =")), "SRCMOD whose header has no width"
    yield refused("word.fsp", text.replace("12.0000", "twelve")), "line 14: a slip model of SRCMOD has 9 numbers there"


@example("usgs")
def usgs_param(folder: Path) -> Attempts:
    """The .param of the USGS: slip in cm, moments in dyn cm, positions of centres."""
    text = """#Total number of fault_segments=     1
#Fault_segment =   1 nx(Along-strike)=   2 Dx= 20.00km ny(downdip)=   1 Dy= 15.00km
#Boundary of Fault_segment     1. EQ in cell 1,1. Lon:142.86 Lat: 38.10
#Lon.  Lat.  Depth
      143.0000       37.0000        7.0000
      143.2000       37.4000        7.0000
      143.0000       37.4000        9.6000
      142.8000       37.0000        9.6000
      143.0000       37.0000        7.0000
#Lat. Lon. depth slip rake strike dip t_rup t_ris t_fal mo
   37.5000  143.5000    8.3000   250.0000   80.00  198.00   10.00   12.00    2.00    4.00  3.0000e+26
   37.3300  143.4300    8.3000     0.0000   95.00  198.00   10.00    0.00    0.00    0.00  0.0000e+00
"""
    file = folder / "model"
    file.write_text(text)
    source = read_source(file)
    close(source, latitude=[37.5, 37.33], depth=8.3e3, slip=[2.5, 0.0], length=2e4, width=1.5e4, rise_time=[6, 0])
    close(source, rigidity=[3e19 / (2.5 * 2e4 * 1.5e4), 4e10])
    assert source.faults.reference == "centroid" and "slip in cm" in source.assumed
    (folder / "sizes").write_text(text.replace("km", " miles"))
    (folder / "cut").write_text(text[:-40])
    yield lambda: read_source(folder / "sizes"), r"USGS \(.param\) whose header has no Dx and Dy in km"
    yield lambda: read_source(folder / "cut"), r"line 12: a slip model of the USGS .* has 11 numbers there"


@example("usgs_geojson")
def usgs_geojson(folder: Path) -> Attempts:
    """Polygons of the USGS: strike, dip and sizes follow from the corners, depths in m or km."""
    strike, dip, length, width = np.deg2rad(198.0), np.deg2rad(10.0), 2e4, 1.5e4
    along = length / 2 * np.array([np.sin(strike), np.cos(strike)])
    down = width / 2 * np.cos(dip) * np.array([np.cos(strike), -np.sin(strike)])
    drop = width / 2 * np.sin(dip)

    def feature(longitude, latitude, slip, depth_unit):
        ring = []
        for a, d in ((-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1)):
            lon, lat = AzimuthalEqualArea().position(*(a * along + d * down), (longitude, latitude))
            ring.append([float(lon), float(lat), (8300.0 + d * drop) / depth_unit])
        properties = {
            "slip": slip,
            "rake": 80.0,
            "trup": 12.0,
            "rise": 2.0,
            "fall": 4.0,
            "sf_moment": 3e19 if slip else 0,
        }
        return {"type": "Feature", "properties": properties, "geometry": {"type": "Polygon", "coordinates": [ring]}}

    for depth_unit, name in ((1.0, "metres.json"), (1e3, "km.json")):
        both = [feature(143.5, 37.5, 2.5, depth_unit), feature(143.43, 37.33, 0.0, depth_unit)]
        (folder / name).write_text(json.dumps({"type": "FeatureCollection", "features": both}))
        source = read_source(folder / name)
        close(source, latitude=[37.5, 37.33], longitude=[143.5, 143.43], depth=8.3e3, slip=[2.5, 0.0], rake=80.0)
        close(source, strike=198.0, dip=10.0, length=length, width=width, onset=12.0, rise_time=6.0)
        assert f"depth in {name.split('.')[0].replace('metres', 'm')}, slip in m" in source.assumed
    across = feature(179.95, 37.5, 2.5, 1.0)
    for corner in across["geometry"]["coordinates"][0]:
        corner[0] = (corner[0] + 180.0) % 360.0 - 180.0
    (folder / "date_line.json").write_text(json.dumps({"type": "FeatureCollection", "features": [across]}))
    faults = read_source(folder / "date_line.json").faults
    wanted = {"longitude": 179.95, "latitude": 37.5, "strike": 198.0, "dip": 10.0, "length": length, "width": width}
    for name, value in wanted.items():
        assert np.allclose(getattr(faults, name) % 360.0 if name == "longitude" else getattr(faults, name), value, 1e-4)
    text = (folder / "km.json").read_text()
    (folder / "cut").write_text(text[:-30])
    (folder / "bare").write_text(text.replace('"rake"', '"other"'))
    yield lambda: read_source(folder / "cut"), "USGS in GeoJSON that cannot be read .*copy it again"
    yield lambda: read_source(folder / "bare"), "USGS in GeoJSON .* lacks slip or rake"


@example("subfaults")
def geoclaw_subfaults(folder: Path) -> Attempts:
    """GeoClaw's CSV: units in round brackets, or none, of which magnitudes decide."""
    file, bare = folder / "subfaults.csv", folder / "bare.csv"
    header = "Longitude, Latitude, Depth(km), Length(m), Width(m), Strike, Dip, Rake, Slip(cm)\n"
    file.write_text(header + "143.5,37.5,8.3,20000,15000,198,10,80,250\n143.43,37.33,8.3,20000,15000,198,10,95,0\n")
    bare.write_text(
        "longitude,latitude,depth,length,width,strike,dip,rake,slip,rupture_time,reference\n"
        "143.5,37.5,8.3,20,15,198,10,80,2.5,12,top_centre\n143.43,37.33,8.3,20,15,198,10,95,0,0,top_centre\n"
    )
    for path in (file, bare):
        source = read_source(path)
        close(source, latitude=[37.5, 37.33], depth=8.3e3, slip=[2.5, 0.0], length=2e4, width=1.5e4, rake=[80, 95])
    close(source, onset=[12.0, 0.0])
    assert source.faults.reference == "top_centre" and "length in km" in source.assumed
    assert "positions of the centroid" in read_source(file).assumed
    (folder / "feet.csv").write_text(file.read_text().replace("(cm)", "(ft)"))
    (folder / "no_rake.csv").write_text(file.read_text().replace("Rake", "Angle"))
    yield lambda: read_source(folder / "feet.csv"), "GeoClaw with the unit 'ft' of slip"
    yield lambda: read_source(folder / "no_rake.csv"), "GeoClaw without rake; add a column"


GRID = SphericalGrid(8, 6, (140.0, 144.0), (36.0, 39.0))  # cells of half a degree
X, Y = 141.25 + 0.5 * np.arange(4), 37.25 + 0.5 * np.arange(3)  # nodes that are centres of its cells
UPLIFT = np.stack([np.zeros((3, 4)), np.arange(12.0).reshape(3, 4) / 4.0 + 0.25])  # [m] at 0 and 30 s


def moved(path: Path, records: int = 2, **options: object) -> None:
    """Assert that a file gives UPLIFT on its cells, and nothing elsewhere."""
    motion = read_deformation(path, **options).on(GRID)
    expected = np.zeros((2, *GRID.shape))
    expected[:, 2:5, 2:6] = UPLIFT
    np.testing.assert_allclose(np.asarray(motion.uplift), expected[-records:], atol=1e-6)
    np.testing.assert_allclose(motion.times, [0.0, 30.0] if records == 2 else [0.0])
    assert "uplift in m, positive up" in read_deformation(path, **options).assumed


def lines(record: np.ndarray) -> str:
    """Rows from the north."""
    return "\n".join(" ".join(f"{z:.4e}" for z in row) for row in record[::-1]) + "\n"


@example("dtopo")
def dtopo(folder: Path) -> Attempts:
    """GeoClaw's dtopo of types 1, 2 and 3."""
    header = "4 mx\n3 my\n2 mt\n1.4125e+02 xlower\n3.725e+01 ylower\n0.0 t0\n0.5 dx\n0.5 dy\n30.0 dt\n"
    one, two, three = (folder / f"dtopo.tt{k}" for k in (1, 2, 3))
    three.write_text(header + lines(UPLIFT[0]) + lines(UPLIFT[1]))
    two.write_text(header + "\n".join(f"{z:.4e}" for record in UPLIFT for z in record[::-1].ravel()) + "\n")
    rows = [(t, x, y, z) for t, r in zip((0, 30), UPLIFT) for y, row in zip(Y, r) for x, z in zip(X, row)]
    one.write_text("".join(f"{t} {x:.4f} {y:.4f} {z:.4f}\n" for t, x, y, z in rows))
    for file in (one, two, three):
        moved(file)
    (folder / "cut").write_text(three.read_text()[:-20])
    (folder / "topo").write_text(header + lines(UPLIFT[0] - 4000.0) + lines(UPLIFT[1]))
    (folder / "short").write_text(header.replace("30.0 dt\n", "") + lines(UPLIFT[0]) + lines(UPLIFT[1]))
    (folder / "holes").write_text("".join(one.read_text().splitlines(True)[:-2]))
    yield lambda: read_deformation(folder / "cut"), r"dtopo\) with \d+ values, and its header gives 4 x 3 x 2"
    yield lambda: read_deformation(folder / "topo"), "uplift of 4000 m, which must be in metres and the"
    yield lambda: read_deformation(folder / "short"), "whose header has not mx, my"
    yield lambda: read_deformation(folder / "holes"), "type 1.* with missing values of the uplift"
    yield lambda: read_deformation(three).on(SphericalGrid(4, 4, (10.0, 12.0), (0.0, 2.0))), "the grid has no cells"


@example("deformation_grids")
def deformation_grids(folder: Path) -> Attempts:
    """Uplift as netCDF in time, as a landslide's bed has it, and as an ASCII grid and GeoTIFF of one time."""
    coordinates = {"time": ("time", [0.0, 0.5], {"units": "min"}), "lat": Y, "lon": X - 360.0}
    uplift = (("time", "lat", "lon"), UPLIFT, {"units": "m"})
    xr.Dataset({"dz": uplift, "other": uplift}, coordinates).to_netcdf(folder / "slide.nc")
    moved(folder / "slide.nc", variable="dz")
    header = "ncols 4\nnrows 3\nxllcorner 141\nyllcorner 37\ncellsize 0.5\n"
    (folder / "uplift.asc").write_text(header + lines(UPLIFT[1]))
    moved(folder / "uplift.asc", records=1)
    moved(geotiff(folder / "uplift.tif", UPLIFT[1], (141.0, 38.5), (0.5, 0.5), "EPSG:4326"), records=1)
    dated = coordinates | {"time": ("time", [1.0, 1.5], {"units": "minutes since 2011-03-11 05:46:00"})}
    xr.Dataset({"dz": uplift}, dated).to_netcdf(folder / "dated.nc")
    for start, times in ((None, [0.0, 30.0]), (datetime.datetime(2011, 3, 11, 5, 46), [60.0, 90.0])):
        np.testing.assert_allclose(read_deformation(folder / "dated.nc", start=start).times, times)
    xr.Dataset({"dz": (*uplift[:2], {"units": "cm"})}, coordinates).to_netcdf(folder / "cm.nc")
    yield lambda: read_deformation(folder / "slide.nc"), "2 fields, dz, other; name one by `variable`"
    yield lambda: read_deformation(folder / "cm.nc"), "in cm; convert it to metres"


@example("SIFT unit sources")
def unit_sources(folder: Path) -> Attempts:
    """NOAA's table of unit sources, of which some are combined with slips; sizes and rakes may be left out."""
    table = (
        "name,longitude_deg,latitude_deg,strike_deg,dip_deg,depth_km,length_km,width_km,rake_deg\n"
        "kisza26,142.7622,37.2982,202.0,21.0,22.92,100.0,50.0,90.0\n"
        "kiszb26,143.2930,37.0806,202.0,19.0,5.0,100.0,50.0,90.0\n"
        "kiszb27,142.8350,36.2380,202.0,19.0,5.0,100.0,50.0,90.0\n"
    )
    file = folder / "info_sz.csv"
    file.write_text(table)
    source = read_source(file, {"kiszb26": 21.27, "kisza26": 26.31})
    lower = [5e3 + 5e4 * np.sin(np.deg2rad(19.0)), 22.92e3 + 5e4 * np.sin(np.deg2rad(21.0))]
    close(source, longitude=[143.293, 142.7622], depth=lower, slip=[21.27, 26.31], dip=[19.0, 21.0])
    close(source, length=1e5, width=5e4, rake=90.0, latitude=[37.0806, 37.2982], strike=202.0)
    assert source.faults.reference == "bottom_centre" and "middle of lower edges" in str(summarise(source))
    np.testing.assert_array_equal(np.ravel(read_source(file).faults.slip), 1.0)
    short = folder / "short.csv"
    short.write_text("\n".join(",".join(line.split(",")[:6]) for line in table.splitlines()) + "\n")
    close(read_source(short, {"kiszb26": 21.27, "kisza26": 26.31}), length=1e5, width=5e4, rake=90.0)
    named = folder / "named.csv"  # of a table of faults, too
    named.write_text(
        "name,longitude [degrees],latitude [degrees],depth [km],length [km],width [km],strike [degrees],dip [degrees],"
        "rake [degrees],slip_1 [m],slip_2 [m],rise_time [s]\n"
        + "".join(f"{name},142,38,20,100,50,200,15,90,1,3,60\n" for name in "abc")
    )
    slips = read_source(named, {"c": 8.0, "a": 2.0}).faults.slip
    np.testing.assert_allclose(slips, [[2.0, 6.0], [0.5, 1.5]])  # windows keep their shares

    twice = folder / "twice.csv"
    twice.write_text(table + table.splitlines()[1] + "\n")
    yield lambda: read_source(twice, {"kisza26": 1.0}), "twice.csv: the file has 2 faults 'kisza26'; give each a name"
    wrong = folder / "wrong.csv"
    wrong.write_text(table.replace("strike_deg", "azimuth_deg"))
    yield lambda: read_source(file, {"kiszb62": 1.0}), "has no fault 'kiszb62'; did you mean 'kiszb2"
    yield lambda: read_source(wrong), "unit sources of SIFT without strike; add a column"
    yield lambda: read_source(file, {"kiszb26": -1.0}), "slip = -1 is negative"


@example("initial levels")
def levels(folder: Path) -> Attempts:
    """A level of the water in netCDF with land, and in GeoTIFF: values on its cells, and nothing elsewhere."""
    level = np.arange(12.0).reshape(3, 4) / 4.0 + 0.25
    expected = np.zeros(GRID.shape)
    expected[2:5, 2:6] = level
    axes = {"lat": ("lat", Y, {"units": "degrees_north"}), "lon": ("lon", X, {"units": "degrees_east"})}
    array = xr.DataArray(level, axes, name="ssh", attrs={"units": "m"})
    other = array.rename("mask") * 0.0
    xr.Dataset({"ssh": array, "mask": other}).to_netcdf(folder / "ssh.nc")
    geotiff(folder / "ssh.tif", level, (X[0] - 0.25, Y[-1] + 0.25), (0.5, 0.5), "EPSG:4326")
    for path, name in ((folder / "ssh.nc", "ssh"), (folder / "ssh.tif", None)):
        read = read_level(path, name)
        np.testing.assert_allclose(np.asarray(read.on(GRID).uplift[0]), expected, atol=1e-6)
        assert "level in m, positive up" in read.assumed and "zero outside; 0 missing values" in read.assumed
    land = array.where(array < 2.9)  # the last two columns of the last row
    land.to_netcdf(folder / "land.nc")
    found = np.asarray(read_level(folder / "land.nc").on(GRID).uplift[0])
    assert found[4, 5] == level[2, 2] and found[4, 4] == level[2, 2]
    fine = SphericalGrid(16, 12, (X[0] - 0.25, X[-1] + 0.25), (Y[0] - 0.25, Y[-1] + 0.25))  # all of the file's pixels
    found = np.asarray(read_level(folder / "ssh.tif").on(fine).uplift[0])
    np.testing.assert_allclose([found.min(), found[-1, -1]], [level.min(), level[-1, -1]], atol=1e-6)
    round_earth = {
        "lat": ("lat", [-60.0, 60.0], {"units": "degrees_north"}),
        "lon": ("lon", np.arange(5.0, 360.0, 10.0)),
    }
    xr.DataArray(np.ones((2, 36)), round_earth, name="ssh").to_netcdf(folder / "earth.nc")
    seam = SphericalGrid(72, 4, (0.0, 360.0), (-20.0, 20.0))  # with cells between the last node and the first
    np.testing.assert_allclose(np.asarray(read_level(folder / "earth.nc").on(seam).uplift[0]), 1.0)

    array.expand_dims(time=[0.0, 1.0]).to_netcdf(folder / "two.nc")
    (array * 2e4).to_netcdf(folder / "mm.nc")
    array.assign_attrs(units="cm").to_netcdf(folder / "cm.nc")
    yield lambda: read_level(folder / "two.nc"), "has no times in s along time|with 2 times; take one out"
    yield lambda: read_level(folder / "mm.nc"), "with a level of 60000 m; convert it"
    yield lambda: read_level(folder / "cm.nc"), "is in cm; convert it"
    yield lambda: read_level(folder / "ssh.nc"), "has 2 fields, .*; name one by `variable`"
