"""Mistakes that only the model or its files reveal have the file and the line of their key, at `check` and at `run`."""

import pickle

import netCDF4
import numpy as np
import pytest

from swmodel.errors import ConfigError, DataError
from swmodel.fields.parts import of_part
from tests.gridded import write_axes
from tests.selection import later

BASE = """\
run = {start = 2008-09-10T00:00:00Z, until = "1 day"}
grid = {type = "spherical", nx = 20, ny = 10, longitude = [0, 20], latitude = [40, 50]}
bathymetry = {type = "formula", depth = "(longitude - 3) * 20"}
coriolis = {type = "rotating_sphere"}
stepper = {type = "forward_backward", dt = 300}
[output]
folder = "out"
"""
FORCED = """\
[[forcing]]
type = "air_pressure"
pressure = {file = "FILE", variable = "msl"}
"""
WIND = """\
[[forcing]]
type = "wind_file"
file = "wind.nc"
u = "u10"
v = "v10"
"""
LAYERS = """\
[layers]
thickness = [1.0]
densities = [1025.0, 1026.0]
"""
SPONGE = """\
[[boundary]]
type = "sponge"
sides = "east"
width = 3e5
rate = 1e-4
"""


def write_records(path, values, units, calendar, hours=(0.0, 48.0)):
    """A netCDF file of constant fields {name: value} on a grid of longitudes and latitudes."""
    with netCDF4.Dataset(path, "w") as data:
        lat, lon = ("degrees_north", np.arange(39.0, 52.0)), ("degrees_east", np.arange(-1.0, 22.0))
        write_axes(data, {"time": ("hours since 2008-09-10 00:00:00", hours), "lat": lat, "lon": lon})
        data["time"].calendar = calendar
        for name, value in values.items():
            variable = data.createVariable(name, "f8", ("time", "lat", "lon"))
            variable.units, variable[:] = units, value


@pytest.fixture
def files(tmp_path):
    write_records(tmp_path / "pa.nc", {"msl": 101000.0}, "Pa", "standard")
    write_records(tmp_path / "hpa.nc", {"msl": 1010.0}, "Pa", "standard")
    write_records(tmp_path / "hectopascals.nc", {"msl": 1010.0}, "hPa", "standard")
    write_records(tmp_path / "early.nc", {"msl": 101000.0}, "Pa", "standard", (0.0, 12.0))
    write_records(tmp_path / "wind.nc", {"u10": 5.0, "v10": 0.0}, "m s-1", "noleap")
    return tmp_path


def side(sides, more=""):
    return f'[[boundary]]\ntype = "flather"\nsides = "{sides}"\n{more}'


MISTAKES = {
    "a side without water": (
        side("east") + side("west"), 'sides = "west"',
        "boundary[1].sides: Flather: the west side is open, and every cell along it is land; leave it out, or",
    ),
    "values in hPa": (
        FORCED.replace("FILE", "hpa.nc"), "pressure =",
        "forcing[0].pressure: AirPressure.pressure: msl in",
    ),
    "units of hPa": (
        FORCED.replace("FILE", "hectopascals.nc"), "[[forcing]]", "forcing[0]: msl in",
    ),
    "records that end early": (
        FORCED.replace("FILE", "early.nc"), "[[forcing]]", "forcing[0]: pressure: the records of msl in",
    ),
    "calendars that differ": (
        FORCED.replace("FILE", "pa.nc") + WIND, "[[forcing]]",
        "forcing[1]: AirPressure.pressure and WindStress.x are in different calendars, standard",
    ),
    "a calendar in which there is no tide": (
        WIND + side("east", "elevation = {constituents = {M2 = {amplitude = 1.0, phase = 0.0}}}\n"), "[[forcing]]",
        "forcing[0]: WindStress.x is in the calendar noleap",
    ),
    "an inverse barometer without pressure": (
        side("east", "elevation = {inverse_barometer = true}\n"), "elevation =",
        "boundary[0].elevation: InverseBarometer: no forcing of the model has an air pressure; add AirPressure",
    ),
    "layers with a side that takes one speed": (
        LAYERS + side("east").replace("flather", "radiation_nudging") + SPONGE, "[layers]",
        "layers: ShallowWater: layers and RadiationNudging do not work together yet; leave one of them out.",
    ),
    "a term that is not linear": (
        '[model]\nlinear = true\n[[dissipation]]\ntype = "quadratic_drag"\ncoefficient = 1e-3\n', "[[dissipation]]",
        "dissipation[0]: QuadraticDrag is not linear, and linear=True was given",
    ),
    "a constituent that is not known": (
        side("east", "elevation = {constituents = {M9 = {amplitude = 1.0, phase = 0.0}}}\n"), "elevation =",
        "boundary[0].elevation.constituents: there is no tidal constituent 'M9'; did you mean MM, MF, M2, M3,",
    ),
}  # fmt: skip


def line_of(text, key):
    """The number of the last line that begins with `key`."""
    return max(k for k, row in enumerate(text.splitlines(), 1) if row.startswith(key))


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_of_tides_and_forcing_have_file_and_line_at_check(files, command, name):
    more, key, sentence = MISTAKES[name]
    path = files / "storm.toml"
    path.write_text(BASE + more)
    status, _, errors = command("check", path)
    printed = errors.replace("\n", " ")
    assert status == 2 and f"storm.toml:{line_of(BASE + more, key)}: {sentence}" in printed, errors
    assert "mistakes:" not in printed  # one sentence


@pytest.mark.parametrize(
    ("calendar", "until", "said"),
    [
        ("noleap", "5 day", "the end of the run is 2008-03-03 there, and 2008-03-04 in the calendar of the forcing"),
        later("noleap", "1 day", None),  # before 29 February
        later(
            "360_day", "5 day", "the end of the run is 2008-03-03 there, and 2008-03-02 in the calendar of the forcing"
        ),
        ("standard", "5 day", None),
    ],
)
def test_dates_of_observations_that_are_not_those_of_the_forcing_are_remarked(tmp_path, command, calendar, until, said):
    write_records(tmp_path / "wind.nc", {"u10": 5.0, "v10": 0.0}, "m s-1", calendar, (0.0, 5000.0 * 24))
    text = BASE.replace("2008-09-10", "2008-02-27").replace('until = "1 day"', f'until = "{until}"')
    (tmp_path / "observed").mkdir()
    (tmp_path / "observed" / "a.csv").write_text("time_s,elevation_m\n0,0.1\n600,0.2\n")
    text += 'gauges = {positions = {a = [10, 45]}, observations = "observed"}\n' + WIND
    path = tmp_path / "storm.toml"
    path.write_text(text)
    with netCDF4.Dataset(tmp_path / "wind.nc", "a") as data:
        data["time"].units = "hours since 2008-02-26 00:00:00"
    printed, errors = command.ok("check", path)
    found = " ".join((printed + errors).split())
    assert (said in found) if said else ("in the calendar" not in found)


@pytest.mark.parametrize("name", ["a side without water", "values in hPa", "an inverse barometer without pressure"])
def test_a_run_names_the_same_line(files, command, name):
    more, key, sentence = MISTAKES[name]
    path = files / "storm.toml"
    path.write_text(BASE + more)
    assert f"storm.toml:{line_of(BASE + more, key)}: {sentence}" in command.refused("run", path, "-o", files / "out")


def test_an_error_names_the_innermost_part_also_on_other_ranks():
    """Errors of one rank are sent to the others, where they must name the same part."""
    with pytest.raises(DataError) as caught, of_part("forcing.1"), of_part("forcing.1.pressure"):
        raise DataError("wrong")
    assert caught.value.part == "forcing.1.pressure"
    assert pickle.loads(pickle.dumps(caught.value)).part == "forcing.1.pressure"
    assert ConfigError("no part").part == ""
