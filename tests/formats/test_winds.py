"""Winds and pressures of Oceanweather, as text and in groups, are read to their values; damaged files are refused."""

import datetime

import netCDF4
import numpy as np
import pytest

import swmodel as sw
from swmodel.config.assembly import assemble
from swmodel.config.experiment import read_text
from swmodel.errors import DataError
from tests.formats import example

START = datetime.datetime(2020, 9, 10)
LON, LAT = -90.0 + 0.5 * np.arange(9), 25.0 + 0.25 * np.arange(13)


EXPERIMENT = """\
run = {until = "1 h", start = 2020-09-10}
grid = {type = "spherical", nx = 4, ny = 4, longitude = [-89, -87], latitude = [25.5, 27]}
bathymetry = {type = "flat", depth = 50}
stepper = {type = "forward_backward"}
initial = {type = "rest"}
[[forcing]]
type = "wind"
x = {file = "ike.win", variable = "u10"}
y = {file = "ike.win", variable = "v10"}
"""


def field(k, part=0):
    return np.round(10.0 * part + 3.0 * k + 0.7 * (LON + 88.0) - 0.4 * (LAT[:, None] - 26.0), 4)


def write_owi(path, parts=2, offset=0.0, scale=1.0):
    lines = ["Oceanweather WIN/PRE Format                          2020091000     2020091001"]
    for k in range(3):
        lines.append(
            f"iLat={LAT.size:4d}iLong={LON.size:4d}DX={0.5:6.4f}DY={0.25:6.4f}SWLat={LAT[0]:8.5f}SWLon={LON[0]:8.4f}"
            f"DT=20200910{k // 2:02d}{30 * (k % 2):02d}"
        )
        for part in range(parts):
            cells = [f"{x:10.4f}" for x in (offset + scale * field(k, part)).ravel()]
            lines += ["".join(cells[n : n + 8]) for n in range(0, len(cells), 8)]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_group(data, name, lon, lat, minutes, winds, units="m s-1"):
    """Add a group of winds, (U10, V10), to an open netCDF file."""
    group = data.createGroup(name)
    for axis, size in (("time", len(minutes)), ("yi", lat.size), ("xi", lon.size)):
        group.createDimension(axis, size)
    time = group.createVariable("time", "i8", ("time",))
    time.units, time[:] = "minutes since 2020-09-10T00:00:00", minutes
    for key, values in (("lon", lon), ("lat", lat[:, None])):
        axis = group.createVariable(key, "f8", ("yi", "xi"))
        axis.units = "degrees_east" if key == "lon" else "degrees_north"
        axis[:] = np.broadcast_to(values, (lat.size, lon.size))
    for key, values in zip(("U10", "V10"), winds):
        wind = group.createVariable(key, "f4", ("time", "yi", "xi"))
        wind.units, wind[:] = units, values
    return group


def write_groups(path):
    with netCDF4.Dataset(path, "w") as data:
        data.group_order = "Main"
        winds = [np.stack([field(k, part) for k in range(3)]) for part in range(2)]
        group = write_group(data, "Main", LON, LAT, [0, 30, 60], winds)
        pressure = group.createVariable("PSFC", "f4", ("time", "yi", "xi"))
        pressure.units, pressure[:] = "mb", np.stack([1000.0 + field(k) for k in range(3)])
    return path


def records(path, variable, units="m s-1"):
    grid = sw.SphericalGrid(4, 3, (-89.0, -87.0), (25.5, 27.0))
    found = sw.FileRecords(str(path), variable, start=START).records(grid, "h", units)
    x, y = grid.coordinates("h")
    return (
        found.times,
        np.asarray(found.values),
        lambda k, part: 10.0 * part + 3.0 * k + 0.7 * (x + 88.0) - 0.4 * (y - 26),
    )


def test_winds_of_a_text_and_of_a_group_are_those_of_their_nodes(tmp_path):
    text, group = write_owi(tmp_path / "fort.222"), write_groups(tmp_path / "nws13.nc")
    for path, names in ((text, ("u10", "v10")), (group, ("Main/U10", "Main/V10"))):
        for part, name in enumerate(names):
            times, values, expected = records(path, name)
            np.testing.assert_allclose(times, [0.0, 1800.0, 3600.0])
            np.testing.assert_allclose(values, [expected(k, part) for k in range(3)], atol=2e-4)


def test_pressures_of_a_text_are_converted_to_pascals(tmp_path):
    path = write_owi(tmp_path / "fort.221", 1, 1000.0)
    _, values, expected = records(path, "pressure", "Pa")
    np.testing.assert_allclose(values[1], 100.0 * (1000.0 + expected(1, 0)), atol=0.02)


@pytest.mark.parametrize(
    "before, after, sentence",
    [
        ("iLat=", "rows=", "is a file of OWI without a line of iLat="),
        (
            "SWLat=25.00000SWLon=-90.0000DT=202009100030",
            "SWLat=26.00000SWLon=-90.0000DT=202009100030",
            "grid changes at",
        ),
        ("DT=202009100030", "DT=202013100030", "DT=202013100030 is no date as 202009100030"),
        ("    0.0000", "    o.0000", "below line .* are not the 13 x 9 numbers that it announces"),
    ],
)
def test_a_damaged_text_is_refused(tmp_path, before, after, sentence):
    path = write_owi(tmp_path / "fort.222", offset=-field(0)[0, 0])
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))
    with pytest.raises(DataError, match=sentence):
        records(path, "u10")


def test_an_experiment_takes_a_text_of_winds_as_it_takes_netcdf(tmp_path):
    write_owi(tmp_path / "ike.win")
    made = assemble(read_text(EXPERIMENT, tmp_path / "wind.toml", tmp_path))
    assert not made.draft.mistakes and not made.mistakes and len(made.forcing) == 1


def write_nest(path, minutes=(30, 45, 60), units="m s-1"):
    """A file of groups: Main as of write_groups and, over a part of it and of its time, a finer one of other values."""
    write_groups(path)
    with netCDF4.Dataset(path, "a") as data:
        data.group_order = "Main Landfall"
        lon, lat = -89.0 + 0.1 * np.arange(11), 25.5 + 0.1 * np.arange(9)
        winds = [[np.full((lat.size, lon.size), 100.0 + 10.0 * k + m) for m in minutes] for k in range(2)]
        write_group(data, "Landfall", lon, lat, minutes, winds, units)
    return path


def test_the_finest_of_nested_winds_wins_where_and_when_it_has_values(tmp_path):
    """Its times are taken, too; coarse winds are interpolated to them."""
    path = write_nest(tmp_path / "nws13.nc")
    times, values, expected = records(path, "V10")
    np.testing.assert_allclose(times, [0.0, 1800.0, 2700.0, 3600.0])
    x, y = sw.SphericalGrid(4, 3, (-89.0, -87.0), (25.5, 27.0)).coordinates("h")
    inside = (x < -88.0) & (y < 26.0)  # the cells that lie wholly within the finer grid
    assert inside.sum() == 2
    for k, (minute, coarse) in enumerate(((0, 0.0), (30, 1.0), (45, 1.5), (60, 2.0))):
        wanted = np.where(inside & (minute >= 30), 110.0 + minute, expected(coarse, 1))
        np.testing.assert_allclose(values[k], wanted, atol=2e-4)
    group = records(path, "Main/V10")[1]
    assert np.abs(group - 110.0).min() > 50.0  # a group by its name is alone


def test_a_second_file_of_winds_over_a_box_takes_precedence_in_an_experiment(tmp_path):
    write_owi(tmp_path / "fort.222")
    write_nest(tmp_path / "finer.nc")
    wind = '{file = "fort.222", variable = "u10", patches = [{file = "finer.nc", variable = "Landfall/U10"}]}'
    text = EXPERIMENT.replace('{file = "ike.win", variable = "u10"}', wind, 1).replace("ike.win", "fort.222")
    made = assemble(read_text(text, tmp_path / "wind.toml", tmp_path))
    assert not made.draft.mistakes and not made.mistakes
    found = made.forcing[0].x.records(made.grid, "h", "m s-1")
    assert found.times.size == 4 and np.asarray(found.values)[3].max() > 150.0 > np.asarray(found.values)[0].max()
    patch = '{file = "finer.nc", u = "Landfall/U10", v = "Landfall/V10"}'
    nested = (
        f'[[forcing]]\ntype = "wind_file"\nfile = "fort.222"\ndrag = 1e-3\nair_density = 1.25\npatches = [{patch}]\n'
    )
    made = assemble(read_text(EXPERIMENT.partition("[[forcing]]")[0] + nested, tmp_path / "wind.toml", tmp_path))
    assert not made.draft.mistakes and not made.mistakes
    winds = [each.records(made.grid, "h", "m s-1") for each in made.forcing[0].x.winds()]
    u, v = (np.asarray(each.values) for each in winds)
    assert u[3].max() > 150.0 and np.allclose(v[3][u[3] > 150.0], u[3][u[3] > 150.0] + 10.0, atol=1e-3)
    stress = made.forcing[0].y.records(made.grid, "h", "N m-2")
    np.testing.assert_array_equal(stress.times, found.times)
    np.testing.assert_allclose(np.asarray(stress.values), 1.25e-3 * np.hypot(u, v) * v, rtol=1e-9)
    write_nest(tmp_path / "knots.nc", units="knots")
    made = assemble(read_text(text.replace("finer.nc", "knots.nc"), tmp_path / "wind.toml", tmp_path))
    assert any("Landfall/U10 in" in str(one) and "'knots'" in str(one) for one in made.sentences())


@example("OWI, WIN and PRE (NWS12)")
def owi(folder):
    test_winds_of_a_text_and_of_a_group_are_those_of_their_nodes(folder)
    test_pressures_of_a_text_are_converted_to_pascals(folder)
    path = write_owi(folder / "cut.win")
    path.write_text("\n".join(path.read_text().splitlines()[:-3]))
    yield lambda: records(path, "u10"), "a file of OWI: below line .* are not the 13 x 9 numbers"


@example("OWI, groups of netCDF (NWS13)")
def groups(folder):
    path = write_groups(folder / "storm.nc")
    times, values, expected = records(path, "Main/V10")
    np.testing.assert_allclose(values[2], expected(2, 1), atol=1e-4)
    times, values, expected = records(path, "PSFC", "Pa")
    np.testing.assert_allclose(values[2], 1e5 + 100.0 * expected(2, 0), atol=0.02)
    yield lambda: records(path, "Main/PRMSL"), "has no variable 'Main/PRMSL'"
    yield lambda: records(path, "Main/U10", "Pa"), "Main/U10 in .* is in 'm s-1'"
