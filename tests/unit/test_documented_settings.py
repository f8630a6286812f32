"""The TOML that pages show is accepted: in a complete experiment, each block has no mistake but for missing files."""

import copy
import itertools
import re
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from swmodel.config import read
from swmodel.config.assembly import assemble, model_of
from swmodel.config.toml import dump
from swmodel.errors import ConfigError
from swmodel.observed.folder import FILE, steps_in

ROOT = Path(__file__).resolve().parents[2]
OWN = ROOT / "docs" / "guide" / "own_parts.md"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Experiments of which a block may be a part.
SPHERE = """
run = {start = 2011-03-11T05:46:23, until = "31 day"}
grid = {type = "spherical", nx = 30, ny = 20, longitude = [140, 155], latitude = [30, 40]}
bathymetry = {type = "flat", depth = "4 km"}
coriolis = {type = "rotating_sphere"}
initial = {type = "gaussian", amplitude = "1 m", radius = "100 km", centre = [145, 35]}
source = {file = "faults_satake2013.csv"}
stepper = {type = "ssprk3", dt = 10.0}
dissipation = [{type = "laplacian", viscosity = 100.0}]
boundary = [{type = "flather", sides = "west", incoming = {constituents = {M2 = {amplitude = 1.0, phase = 0.0}}}}]
output.gauges.positions.21418 = [148.655, 38.735]
"""
PLANE = """
run = {start = 2011-03-11T05:46:23, until = "31 day"}
grid = {type = "cartesian", nx = 30, ny = 20, x = [0, "300 km"], y = [0, "200 km"]}
bathymetry = {type = "flat", depth = "100 m"}
stepper = {type = "ssprk3", dt = 10.0}
"""
GLOBE = """
run = {until = "1 day"}
grid = {type = "spherical", nx = 36, ny = 18, longitude = [0, 360], latitude = [-90, 90]}
bathymetry = {type = "flat", depth = "4 km"}
coriolis = {type = "rotating_sphere"}
stepper = {type = "ssprk3", dt = 10.0}
"""
VALLEY = """
run = {until = "1 day"}
grid = {type = "cartesian", nx = 40, ny = 30, x = [0, "4 km"], y = [0, "3 km"]}
bathymetry = {type = "flat", depth = "5 m"}
stepper = {type = "forward_backward_hancock", dt = 1.0}
model = {momentum = "momentum_conserving", wetting = {thin = "1 mm"}}
"""
RECORDS = "# records.toml\n"
FILES = re.compile(r"there is no (file|folder)|: no file is named")


def blocks():
    """Each (page, line, text) of TOML that is part of an experiment file."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for found in BLOCK.finditer(text):
            if "project" not in tomllib.loads(found[1]) and not found[1].startswith(RECORDS):  # of a pyproject.toml
                yield page, text[: found.start()].count("\n") + 2, found[1]


def merged(whole, part):
    """The tables of `whole` with those of `part`; a list of tables replaces the other one."""
    result = copy.deepcopy(whole)
    for key, value in part.items():
        inside = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if inside and "type" not in value else value
    return result


def tables_of(text):
    """The tables of a block, complete."""
    part = tomllib.loads(text)
    if isinstance(part.get("boundary"), dict):  # a table of a [[boundary]] that is shown before
        part["boundary"] = [{"type": "clamped", "sides": "west"} | part["boundary"]]
    if "cost" in part.get("adjoint", {}):
        part["adjoint"].setdefault("controls", ["depth"])
    return part


def mistakes(text, folder):
    """The mistakes of an experiment into which a block is merged, but for files that are not there."""
    part = tables_of(text)
    found = []
    for whole in (SPHERE, PLANE):
        file = folder / "case.toml"
        tables = tomllib.loads(whole)
        if "faults" in part.get("source", {}):
            tables.pop("source", None)  # a table of faults
        file.write_text(dump(merged(tables, part)))
        found.append([sentence for sentence in read(file).sentences() if not FILES.search(sentence)])
    return min(found, key=len)


@pytest.fixture
def folder(tmp_path):
    """A folder with the faults of SPHERE, and the parts of one's own that docs/guide/own_parts.md writes."""
    shutil.copy(ROOT / "experiments" / "tohoku_2011" / "faults_satake2013.csv", tmp_path)
    for code in re.findall(r"^```python\n(# \w+\.py\n.*?)^```$", OWN.read_text(), re.MULTILINE | re.DOTALL):
        (tmp_path / code.split()[1]).write_text(code)
    return tmp_path


@pytest.mark.parametrize("text", [pytest.param(text, id=f"{page.name}:{line}") for page, line, text in blocks()])
def test_a_block_of_toml_is_accepted(text, folder):
    assert not mistakes(text, folder)


def test_a_block_that_is_wrong_would_be_noticed(tmp_path):
    assert mistakes('[[boundary]]\ntype = "flather"\nside = "west"\n', tmp_path)
    assert mistakes('[stepper]\ntype = "ab2"\ndt = "3 km"\n', tmp_path)


DATES = ("20110311", 33, 142), ("20110413", 38, 150)  # and places of a storm


def write_tpxo(folder, x, y):
    """An atlas as TPXO9 has it: heights [mm] and transports [cm2 s-1] of each constituent, (x, y), and depths [m]."""
    sizes, depths = {"m2": 500.0, "s2": 200.0, "k1": 300.0, "o1": 250.0}, np.full((x.size, y.size), 4000.0)
    kinds = {"h": ("z", "h", "millimeter", 1.0), "u": ("u", "uv", "centimeter^2/sec", 2e4)}  # 8 mm s-1 of 0.4 m
    for (name, size), (kind, (end, fields, units, scale)) in itertools.product(sizes.items(), kinds.items()):
        wave = scale * size * np.exp(-1j * np.deg2rad(30.0 + x[:, None] + y))
        parts = {f"{field}{part}": take(wave) for field in fields for part, take in (("Re", np.real), ("Im", np.imag))}
        data = {key: (("nx", "ny"), values, {"units": units}) for key, values in parts.items()}
        data |= {"con": ("nct", np.array([*name.ljust(4)], "S1"))}
        data |= {f"lon_{end}": ("nx", x, {"units": "degree_east"}), f"lat_{end}": ("ny", y, {"units": "degree_north"})}
        xr.Dataset(data).to_netcdf(folder / f"{kind}_{name}_tpxo9_atlas_30_v5.nc")
    grid = {f"h{end}": (("nx", "ny"), depths, {"units": "meter"}) for end in "zuv"}
    xr.Dataset(grid).to_netcdf(folder / "grid_tpxo9_atlas_30_v5.nc")


def write_files(folder):
    """The files that blocks of the physics name, for the grids and the dates of the experiments above."""
    x, y, days = np.arange(139.0, 156.5, 0.5), np.arange(29.0, 41.5, 0.5), np.arange(33.0)
    sphere, one = {"lon": x, "lat": y}, np.ones((y.size, x.size))
    (folder / "tpxo9").mkdir()
    write_tpxo(folder / "tpxo9", x, y)
    level = {"sla": (("time", "lat", "lon"), 0.1 * np.ones((days.size, *one.shape)), {"units": "m"})}
    time = ("time", days, {"units": "days since 2011-03-11 00:00:00"})
    xr.Dataset(level, sphere | {"time": time}).to_netcdf(folder / "sea_level_2011.nc")
    tides = {
        f"{name}_{kind}_M2": (("lat", "lon"), value * one, {"units": units})
        for name, unit in (("eta", "m"), ("u", "m s-1"), ("v", "m s-1"))
        for kind, value, units in (("amplitude", 0.5, unit), ("phase", 30.0, "degree"))
    }
    xr.Dataset(tides, sphere).to_netcdf(folder / "global_tides.nc")
    k1 = {"ha": (("lat", "lon"), 0.3 * one, {"units": "m"}), "hp": (("lat", "lon"), 40.0 * one, {"units": "degree"})}
    xr.Dataset(k1, sphere).to_netcdf(folder / "atlas_k1.nc")
    units = {"u10": "m s-1", "v10": "m s-1", "msl": "Pa"}
    wind = {
        name: (
            ("time", "lat", "lon"),
            np.full((days.size, y.size, x.size), 1e5 if unit == "Pa" else 10.0),
            {"units": unit},
        )
        for name, unit in units.items()
    }
    for name in ("era5.nc", "fort.222", "fort.224"):  # a file is what it holds, whatever its name
        xr.Dataset(wind, sphere | {"time": time}).to_netcdf(folder / name)
    metres = {name: (name, np.linspace(-1e3, 301e3, 20), {"units": "m"}) for name in "xy"}
    roughness = {"n": (("y", "x"), np.full((20, 20), 0.03), {"units": "s m-1/3"})}
    xr.Dataset(roughness, metres).to_netcdf(folder / "land_use.nc")
    for name in ("incident.csv", "level_at_the_side.csv"):
        (folder / name).write_text("time_s,elevation_m\n0,0\n1e6,0.1\n3e6,0\n")
    (folder / "gate.csv").write_text("time_s,opening_m\n0,1\n3e6,2\n")
    (folder / "discharge.csv").write_text("time_s,discharge_m3_s\n0,100\n3e6,300\n")
    heads = "time_utc,longitude_deg,latitude_deg,maximum_wind_m_s,radius_of_maximum_wind_m,central_pressure_pa"
    points = "2011-03-11T00:00:00,142,33,40,50000,96000\n2011-04-13T00:00:00,150,38,40,50000,96000\n"
    (folder / "ike_2008.csv").write_text(f"{heads}\n{points}")
    heads = "SID,SEASON,NAME,ISO_TIME,LAT,LON,TOKYO_LAT,TOKYO_LON,TOKYO_WIND,TOKYO_PRES"
    units = " ,Year, , ,degrees_north,degrees_east,degrees_north,degrees_east,kts,mb"
    points = [
        f"1991259N09148,1991,MIREILLE,{date[:4]}-{date[4:6]}-{date[6:]} 00:00:00,{y},{x},{y},{x},90,"
        for date, y, x in DATES
    ]
    radii = ",".join(12 * ["  60"])
    lines = (f"{date}, 0000,  , HU, {y}.0N, {x}.0E,  90,  960,{radii},   25" for date, y, x in DATES)
    (folder / "hurdat2-1851-2024.txt").write_text("\n".join(["AL092008,                IKE,      2,", *lines]) + "\n")
    (folder / "ibtracs.ALL.list.v04r01.csv").write_text("\n".join([heads, units, *points]) + "\n")


PHYSICS = {"layers", "boundary", "forcing", "dissipation", "coriolis", "model", "tracer", "stepper"}
PRESSURE = [{"type": "air_pressure", "pressure": 1e5}]


def model_and_stepper(text, folder):
    """Those of an experiment with the tables of a block that concern the physics; raises ConfigError if none fits."""
    part = {name: table for name, table in tables_of(text).items() if name in PHYSICS}
    part["model"] = {"precision": "float64"} | part.get("model", {})  # as the tests have it
    if "inverse_barometer" in text:
        part.setdefault("forcing", PRESSURE)
    found = []
    for whole in (SPHERE, PLANE, GLOBE, VALLEY):
        tables = {name: table for name, table in tomllib.loads(whole).items() if name not in ("source", "output")}
        (folder / "case.toml").write_text(dump(merged(tables, part)))
        draft = read(folder / "case.toml")
        try:  # on another grid it may be refused
            made = assemble(draft)
            return model_of(made, "serial", None, "arrays"), made.section("stepper").stepper(10.0)
        except ConfigError as error:
            found += error.mistakes
    raise ConfigError(found)


@pytest.mark.verify
def test_the_models_of_all_blocks_take_a_step(folder):
    write_files(folder)
    for page, line, text in blocks():
        if tomllib.loads(text).keys() & PHYSICS:
            try:
                model, stepper = model_and_stepper(text, folder)
                model.halo(stepper)  # traces a step
            except Exception as error:
                raise AssertionError(f"{page.name}:{line}") from error


def test_steps_of_records_are_accepted(tmp_path):
    texts = [found[1] for page in PAGES for found in BLOCK.finditer(page.read_text(encoding="utf-8"))]
    (text,) = (text for text in texts if text.startswith(RECORDS))
    (tmp_path / FILE).write_text(text)
    common, own = steps_in(tmp_path)
    assert common.spikes == 0.2 and own["Galveston Pier 21"].datum == 0.35
