"""Gridded fields onto the model's grid: integrals kept, linear fields exact, every convention the same."""

import datetime

import cftime
import numpy as np
import pytest
import xarray as xr

from swmodel.errors import ConfigError, DataError
from swmodel.grids.axes import rectilinear
from swmodel.grids.grid import CartesianGrid, SphericalGrid
from swmodel.grids.regrid import Records, read_field_onto, seconds_since
from swmodel.grids.remapping import remapping

DAY = 86400.0


def smooth(lon, lat):
    """A field that is periodic in longitude."""
    return 3 * np.sin(np.deg2rad(lon)) * np.cos(np.deg2rad(lat)) + np.cos(np.deg2rad(2 * lon + 30)) + 0.01 * lat


def field_on(lon, lat, values=smooth):
    lon, lat = np.asarray(lon, float), np.asarray(lat, float)
    axes = {"lat": ("lat", lat, {"units": "degrees_north"}), "lon": ("lon", lon, {"units": "degrees_east"})}
    return xr.DataArray(values(lon[None, :], lat[:, None]), dims=("lat", "lon"), coords=axes, name="z")


def regridded(field, grid, method, position="h"):
    field = rectilinear(field.to_dataset(name="z"), "z")
    plan = remapping(field, grid, method, position)
    return plan(plan.read(field))


def area(edges_x, edges_y):
    return np.diff(np.sin(np.deg2rad(edges_y)))[:, None] * np.diff(np.deg2rad(edges_x))[None, :]


# --- averaging


WHOLE, PART = (-180, -90, 3.0, 120, 60), (120, 20, 0.5, 80, 60)  # west, south, spacing and numbers of cells of files


@pytest.mark.parametrize(
    "file, grid",
    [(WHOLE, SphericalGrid(70, 37, (11.0, 371.0), (-90, 90)))]
    + [(PART, SphericalGrid(*cells, (120, 160), (20, 50))) for cells in ((7, 5), (40, 30), (233, 191))],
    ids=["sphere", "coarser", "alike", "finer"],
)
def test_averaging_keeps_the_integral_over_the_sphere_and_over_a_region_at_any_resolution(file, grid):
    west, south, spacing, nx, ny = file
    edges = west + spacing * np.arange(nx + 1), south + spacing * np.arange(ny + 1)
    lon, lat = (0.5 * (each[1:] + each[:-1]) for each in edges)
    z = np.random.default_rng(1).normal(size=(ny, nx))
    result = regridded(field_on(lon, lat, lambda x, y: z), grid, "average")
    exact = (z * area(*edges)).sum()
    assert (result * area(grid.x_edges, grid.y_edges)).sum() == pytest.approx(exact, rel=1e-12)


def test_a_cell_is_the_area_weighted_mean_of_the_parts_of_data_cells_in_it():
    z = np.array([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0]])
    field = field_on([0.5, 1.5, 2.5], [40.5, 41.5], lambda x, y: z)
    result = regridded(field, SphericalGrid(1, 1, (0.75, 2.5), (40.25, 41.5)), "average")
    across = np.array([0.25, 1.0, 0.5]) / 1.75
    up = np.diff(np.sin(np.deg2rad([40.25, 41.0, 41.5])))
    assert result.item() == pytest.approx(up / up.sum() @ z @ across, rel=1e-13)


# --- interpolation


@pytest.mark.parametrize("position", ["h", "u", "v", "q"])
def test_interpolation_is_exact_for_bilinear_fields_at_every_position(position):
    def plane(x, y):
        return 2.0 - 0.3 * x + 0.7 * y + 0.01 * x * y

    grid = SphericalGrid(37, 23, (143.0, 171.0), (-20, 13))
    field = field_on(np.arange(140, 175, 2.5), np.arange(-22, 16, 1.9), plane)
    result = regridded(field, grid, "interpolate", position)
    np.testing.assert_allclose(result, plane(*grid.coordinates(position)), rtol=1e-12)


# --- conventions of the file

LATITUDES = np.arange(-88.5, 90, 3.0)
CONVENTIONS = {
    "0 to 360": np.arange(1.5, 360, 3),
    "-180 to 180": np.arange(-178.5, 180, 3),
    "20 to 380": np.arange(22.5, 382, 3),
    "0 to 180, then -180 to 0": np.concatenate([np.arange(1.5, 180, 3), np.arange(-178.5, 0, 3)]),
    "east to west": np.arange(358.5, 0, -3),
}
DOMAINS = {
    "date line": (120.0, 200.0),
    "date line, western": (-190.0, -120.0),
    "date line, from -170": (-170.0, -120.0),
    "Greenwich": (-30.0, 25.0),
    "Greenwich, eastern": (330.0, 385.0),
    "all": (-180.0, 180.0),
    "from 20": (20.0, 380.0),
}


@pytest.mark.parametrize("method", ["average", "interpolate"])
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("convention", CONVENTIONS)
def test_longitude_conventions_and_domains_across_seams_agree(convention, domain, method):
    west, east = DOMAINS[domain]
    grid = SphericalGrid(64, 20, (west, east), (-60, 60))
    reference = regridded(field_on(np.arange(3 * np.floor(west / 3) - 4.5, east + 6, 3), LATITUDES), grid, method)
    result = regridded(field_on(CONVENTIONS[convention], LATITUDES), grid, method)
    np.testing.assert_allclose(result, reference, rtol=0, atol=1e-12)


def test_descending_latitudes_and_transposed_dimensions_change_nothing():
    grid = SphericalGrid(30, 20, (170, 200), (-40, 30))
    field = field_on(CONVENTIONS["0 to 360"], LATITUDES)
    reference = regridded(field, grid, "average")
    np.testing.assert_array_equal(regridded(field.isel(lat=slice(None, None, -1)), grid, "average"), reference)
    np.testing.assert_array_equal(regridded(field.transpose("lon", "lat"), grid, "average"), reference)


def test_a_meridian_that_the_file_holds_twice_counts_once():
    once, twice = field_on(np.arange(-180, 180, 3.0), LATITUDES), field_on(np.arange(-180, 181, 3.0), LATITUDES)
    grid = SphericalGrid(40, 20, (100, 260), (-60, 60))
    np.testing.assert_allclose(regridded(twice, grid, "average"), regridded(once, grid, "average"), atol=1e-12)
    assert rectilinear(twice.to_dataset(), "z").sizes["lon"] == 120


@pytest.mark.parametrize(
    "west, east, domain, gap",
    [((-178.5, -120), (121.5, 180), (130, 230), (0, 60)), ((1.5, 60), (301.5, 360), (-50, 50), (100, 160))],
)
def test_a_regional_file_across_its_seam_is_put_together_and_its_gap_is_a_gap(west, east, domain, gap):
    field = field_on(np.concatenate([np.arange(*west, 3), np.arange(*east, 3)]), LATITUDES)
    grid = SphericalGrid(30, 20, domain, (-60, 60))
    whole = regridded(field_on(CONVENTIONS["0 to 360"], LATITUDES), grid, "average")
    np.testing.assert_allclose(regridded(field, grid, "average"), whole, rtol=0, atol=1e-12)
    with pytest.raises(DataError, match="covers longitude"):
        regridded(field, SphericalGrid(30, 20, gap, (-60, 60)), "average")


@pytest.mark.parametrize("turns", [-1, 0, 1])
def test_a_regional_file_is_found_in_the_convention_of_the_grid(turns):
    field = field_on(np.arange(161.5, 210, 3), LATITUDES)
    here, there = (SphericalGrid(9, 20, (170 + k * 360, 200 + k * 360), (-60, 60)) for k in (0, turns))
    np.testing.assert_allclose(regridded(field, there, "average"), regridded(field, here, "average"), atol=1e-12)


@pytest.mark.parametrize(
    "names, attributes",
    [
        (("y", "x"), ({"standard_name": "latitude"}, {"standard_name": "longitude"})),
        (("ETOPO05_Y", "ETOPO05_X"), ({"units": "degrees_north"}, {"units": "degrees_east"})),
        (("north", "east"), ({"units": "degrees_N"}, {"units": "degrees_E"})),
        (("latitude", "longitude"), ({}, {})),
        (("nav_lat", "nav_lon"), ({}, {})),
        (("Y", "X"), ({}, {})),
        (("jj", "ii"), ({"axis": "Y", "units": "degrees"}, {"axis": "X", "units": "degrees"})),
    ],
)
def test_axes_are_known_by_their_attributes_or_names(names, attributes):
    grid = SphericalGrid(10, 8, (10, 40), (10, 40))
    field = field_on(CONVENTIONS["0 to 360"], LATITUDES)
    renamed = field.rename(lat=names[0], lon=names[1])
    for name, attrs in zip(names, attributes):
        renamed[name].attrs = attrs
    np.testing.assert_array_equal(regridded(renamed, grid, "average"), regridded(field, grid, "average"))


def test_axes_of_indices_do_not_pass_for_positions():
    lon, lat = np.meshgrid(np.arange(100.0, 130), np.arange(0.0, 20))
    axes = {"y": ("y", np.arange(20.0), {"axis": "Y"}), "x": ("x", np.arange(30.0), {"axis": "X"})}
    dataset = xr.Dataset(
        {
            "z": (("y", "x"), lon),
            "lon": (("y", "x"), lon, {"units": "degrees_east"}),
            "lat": (("y", "x"), lat, {"units": "degrees_north"}),
        },
        coords=axes,
    )
    assert rectilinear(dataset, "z").lon.values[0] == 100.0
    for name in "xy":
        dataset[name].attrs = {"standard_name": f"projection_{name}_coordinate", "units": "m"}
    assert rectilinear(dataset, "z").dims == ("y", "x")


@pytest.mark.parametrize(("units", "degrees"), [("radian", 180.0 / np.pi), ("arcmin", 1.0 / 60.0)])
@pytest.mark.parametrize("names", [("lat", "lon"), ("y", "x")])
def test_axes_in_radians_or_minutes_of_arc_are_those_in_degrees(names, units, degrees):
    grid = SphericalGrid(10, 8, (10, 40), (10, 40))
    field = field_on(CONVENTIONS["0 to 360"], LATITUDES)
    other = field.assign_coords(lat=field.lat / degrees, lon=field.lon / degrees).rename(lat=names[0], lon=names[1])
    for name in names:
        other[name].attrs = {"units": units}
    np.testing.assert_allclose(regridded(other, grid, "average"), regridded(field, grid, "average"), atol=1e-9)


def test_a_file_in_kilometres_goes_onto_a_cartesian_grid():
    x, y = np.arange(-5.0, 110, 10), np.arange(-5.0, 60, 10)
    axes = {"y": ("y", y, {"units": "km"}), "x": ("x", x, {"units": "km"})}
    field = xr.DataArray(x[None, :] + 2 * y[:, None], dims=("y", "x"), coords=axes)
    grid = CartesianGrid(20, 10, (0, 1e5), (0, 5e4))
    at_x, at_y = grid.coordinates("h")
    np.testing.assert_allclose(regridded(field, grid, "interpolate"), (at_x + 2 * at_y) / 1000, atol=1e-12)
    with pytest.raises(DataError, match="SphericalGrid needs"):
        regridded(field, SphericalGrid(4, 4, (0, 10), (0, 10)), "average")
    with pytest.raises(DataError, match="grid is Cartesian"):
        regridded(field_on(CONVENTIONS["0 to 360"], LATITUDES), grid, "average")


def test_a_domain_that_the_file_does_not_cover_is_refused_with_both_ranges():
    field = field_on(np.arange(120, 180, 0.5), np.arange(15, 60.1, 0.5))
    north = (20, 50)
    domains = ((100, 160), north), ((150, 190), north), ((150, 180.7), north), ((130, 160), (10, 50))
    for longitude, latitude in domains:
        with pytest.raises(DataError, match=r"covers longitude 120.00 to 179.50, latitude 15.00 to 60.00 .* needs lon"):
            regridded(field, SphericalGrid(10, 10, longitude, latitude), "average")


def test_the_outermost_data_cell_reaches_a_domain_edge_within_one_spacing():
    field = field_on(np.arange(120, 180, 0.5), np.arange(15, 60.1, 0.5), lambda x, y: x + 0 * y)
    grid = SphericalGrid(120, 90, (120, 180), (15, 60))
    assert regridded(field, grid, "average")[0, -1] == pytest.approx(179.5)
    assert regridded(field, grid, "interpolate")[0, -1] == pytest.approx(179.5)
    for longitude, latitude, value in (((179.6, 179.9), (60.1, 60.4), 179.5), ((119.6, 119.9), (14.6, 14.9), 120.0)):
        np.testing.assert_allclose(regridded(field, SphericalGrid(2, 2, longitude, latitude), "average"), value)


def test_only_the_box_around_the_domain_is_read():
    field = rectilinear(field_on(CONVENTIONS["-180 to 180"], LATITUDES).to_dataset(name="z"), "z")
    plan = remapping(field, SphericalGrid(10, 10, (174, 186), (0, 12)), "average")
    assert plan.rows.stop - plan.rows.start <= 4 + 4
    assert len(plan.columns) == 2 and sum(part.stop - part.start for part in plan.columns) <= 4 + 4


def test_a_variable_without_axes_or_an_unknown_method_or_position_is_named():
    bare = xr.Dataset({"z": (("a", "b"), np.zeros((3, 3)))})
    with pytest.raises(DataError, match="has no latitude"):
        rectilinear(bare, "z")
    field, grid = field_on(CONVENTIONS["0 to 360"], LATITUDES), SphericalGrid(4, 4, (0, 10), (0, 10))
    with pytest.raises(ConfigError, match="'average' or 'interpolate'"):
        regridded(field, grid, "cubic")
    with pytest.raises(ConfigError, match="position = 'foo'"):
        read_field_onto(field, None, grid, "foo")
    with pytest.raises(DataError, match="no variable 'wind'; it has z"):
        read_field_onto(field.to_dataset(), "wind", grid)


# --- records


def monthly(values):
    lon, lat = np.arange(20, 380, 10.0), np.arange(-90, 91, 10.0)
    axes = {
        "month": np.arange(1, 13),
        "lat": ("lat", lat, {"units": "degrees_north"}),
        "lon": ("lon", lon, {"units": "degrees_east"}),
    }
    z = values(np.arange(12)[:, None, None], lon[None, None, :], lat[None, :, None]) + 0 * lon + 0 * lat[:, None]
    return xr.DataArray(z, dims=("month", "lat", "lon"), coords=axes, name="u")


def test_twelve_dated_records_on_an_axis_called_month_are_no_climatology(tmp_path):
    dates = np.array([f"2001-{month:02d}-15" for month in range(1, 13)], "datetime64[ns]")
    monthly(lambda m, x, y: m + 0.01 * y).assign_coords(month=dates).to_netcdf(tmp_path / "wind.nc")
    grid = SphericalGrid(6, 4, (10, 40), (10, 40))
    start = datetime.datetime(2001, 1, 20)
    records = read_field_onto(tmp_path / "wind.nc", "u", grid, start=start, window=(0.0, 30 * DAY))
    assert records.cycle is None
    np.testing.assert_allclose(records.times[:2] / DAY, [-5.0, 26.0])
    with pytest.raises(DataError, match="the records go from"):  # and not those of another year, in silence
        read_field_onto(tmp_path / "wind.nc", "u", grid, start=start, window=(0.0, 400 * DAY))


def test_a_climatology_of_months_is_cyclic_and_lies_at_mid_month(tmp_path):
    monthly(lambda m, x, y: m + 0.01 * y).to_netcdf(tmp_path / "wind.nc")
    grid = SphericalGrid(36, 10, (-100, 20), (0, 60))
    wind = read_field_onto(tmp_path / "wind.nc", "u", grid, "v")
    assert wind.values.shape == (12, 10, 36) and wind.cycle == 365.25 * DAY
    at_y = 0.01 * grid.y_edges[1:]
    np.testing.assert_allclose(wind.at(15.5 * DAY), 0.0 + at_y[:, None] + 0 * wind.values[0], atol=1e-12)
    np.testing.assert_allclose(wind.at((365.25 + 15.5) * DAY), wind.at(15.5 * DAY), atol=1e-9)
    new_year = wind.at(0.0)
    np.testing.assert_allclose(new_year, 5.5 + at_y[:, None] + 0 * new_year, atol=1e-9)
    july = read_field_onto(tmp_path / "wind.nc", "u", grid, "v", start=datetime.datetime(2011, 7, 1))
    np.testing.assert_allclose(july.at(0.0), wind.at(181 * DAY), atol=1e-12)


def test_records_are_linear_between_their_times_and_refuse_others():
    records = Records(np.array([0.0, 10.0, 30.0]), np.array([1.0, 2.0, 6.0])[:, None, None])
    assert [records.at(t).item() for t in (0.0, 5.0, 10.0, 20.0, 30.0)] == [1.0, 1.5, 2.0, 4.0, 6.0]
    with pytest.raises(DataError, match="no record for 31 s"):
        records.at(31.0)
    assert Records(np.zeros(1), np.ones((1, 1, 1))).at(1e9).item() == 1.0


def test_cyclic_records_join_their_last_to_their_first():
    records = Records(np.array([2.0, 6.0]), np.array([0.0, 4.0])[:, None, None], cycle=10.0)
    for t, value in ((2, 0), (5, 3), (6, 4), (9, 2), (11, 2 / 3), (12, 0), (-8, 0), (102, 0), (0, 4 / 3)):
        assert records.at(float(t)).item() == pytest.approx(value)


@pytest.mark.parametrize("calendar, expected", [("standard", 60.0), ("noleap", 59.0)])
def test_times_count_from_the_start_of_the_run_in_the_calendar_of_the_file(calendar, expected):
    field = field_on(CONVENTIONS["0 to 360"], LATITUDES).expand_dims(time=3)
    attrs = {"units": "days since 2012-01-01", "calendar": calendar}
    field = field.assign_coords(time=("time", [0.0, expected, 100.0], attrs))
    grid = SphericalGrid(10, 8, (10, 40), (10, 40))
    wind = read_field_onto(field, None, grid, start=datetime.datetime(2012, 3, 1))
    np.testing.assert_allclose(wind.times, [-expected * DAY, 0.0, (100.0 - expected) * DAY])
    np.testing.assert_allclose(read_field_onto(field, None, grid).times, np.array([0.0, expected, 100.0]) * DAY)


@pytest.mark.parametrize(
    ("date", "hours"),
    [
        ("2024-03-01 00:00:00 +9:00", -9.0),
        ("2024-03-01 00:00:00 +09:00", -9.0),
        ("2024-03-01 00:00:00.0 -6:00", 6.0),
        ("2024-3-1 00:00:00 -6", 6.0),
        ("2024-03-01 00:00 -0600", 6.0),
        ("2024-03-01T00:00:00Z", 0.0),
        ("2024-03-01 00:00:00 UTC", 0.0),
        ("2024-3-1", 0.0),
        ("2024-03-01 12 +5:30", 6.5),
        ("2024-03-01 -6:00", 6.0),
    ],
)
def test_a_time_zone_of_one_digit_counts_as_much_as_one_of_two(date, hours):
    time = xr.DataArray([0.0, 6.0], dims="time", name="time", attrs={"units": f"hours since {date}"})
    seconds = seconds_since(time, datetime.datetime(2024, 3, 1))
    np.testing.assert_array_equal(seconds, 3600.0 * (hours + np.array([0.0, 6.0])))


@pytest.mark.parametrize("date", ["2024-03-01 00:00:00 EST", "2024-03-01 EST"])
def test_a_time_zone_by_name_is_refused(date):
    time = xr.DataArray([0.0], dims="time", name="time", attrs={"units": f"hours since {date}"})
    with pytest.raises(DataError, match="with the time zone 'EST'; give it as an offset, such as"):
        seconds_since(time, datetime.datetime(2024, 3, 1))


@pytest.mark.parametrize("date", ["2024", "2024-03", "2024/03/01 00:00", "20240301", "01-MAR-2024"])
def test_a_date_that_is_none_is_refused_in_a_sentence(date):
    time = xr.DataArray([0.0], dims="time", name="time", attrs={"units": f"hours since {date}"})
    with pytest.raises(DataError, match=f"in 'hours since {date}', which cannot be read; give them as in 'hours since"):
        seconds_since(time, datetime.datetime(2024, 3, 1))


def test_a_start_with_a_time_zone_counts_in_utc_also_from_decoded_times():
    start = datetime.datetime(2024, 3, 1, 9, tzinfo=datetime.timezone(datetime.timedelta(hours=9)))
    for calendar in ("standard", "noleap"):
        attrs = {"units": "hours since 2024-03-01", "calendar": calendar}
        time = xr.DataArray([0.0, 6.0], dims="time", name="time", attrs=attrs)
        np.testing.assert_array_equal(seconds_since(time, start), [0.0, 21600.0])
        decoded = xr.CFTimeIndex(cftime.num2date([0.0, 6.0], **attrs))
        for times in (decoded, np.array(["2024-03-01T00", "2024-03-01T06"], "datetime64[ns]")):
            time = xr.DataArray(times, dims="time", name="time")
            np.testing.assert_array_equal(seconds_since(time, start), [0.0, 21600.0])


def test_times_in_single_precision_that_have_lost_seconds_are_warned_of(caplog):
    """Hours in days since 1970 are off by up to a minute; whole and half days, or hours of any age, are exact."""
    start = datetime.datetime(2024, 3, 1)

    def read(days, dtype, name, units="days since 1970-01-01"):
        time = xr.DataArray(np.array(days, dtype), dims="time", name=name, attrs={"units": units})
        return seconds_since(time, start)

    hourly = 19783 + np.arange(24) / 24
    assert np.abs(read(hourly, "f4", "lossy") - 3600.0 * np.arange(24)).max() > 50.0
    read(hourly, "f4", "lossy")
    read(hourly, "f8", "double")
    read(19783 + np.array([0.5, 31.5, 60.5, 91.5]), "f4", "monthly")
    read(19783 + np.arange(24), "f4", "daily")
    read(24.0 * 19783 + np.arange(24), "f4", "hours", "hours since 1970-01-01")
    read(np.arange(24.0) / 24.0, "f4", "new", "days since 2024-03-01")
    (said,) = caplog.messages
    assert "the times of lossy are in single precision, which rounds them to 169 s; write them in double" in said


def test_a_window_keeps_the_records_around_it():
    field = field_on(CONVENTIONS["0 to 360"], LATITUDES).expand_dims(time=10)
    field = field.assign_coords(time=("time", 3600.0 * np.arange(10), {"units": "s"}))
    grid = SphericalGrid(10, 8, (10, 40), (10, 40))
    wind = read_field_onto(field, None, grid, window=(4000.0, 9000.0))
    assert wind.times.tolist() == [3600.0, 7200.0, 10800.0]
    with pytest.raises(DataError, match="the run, which needs 0 to 99999 s"):
        read_field_onto(field, None, grid, window=(0.0, 99999.0))


def test_times_that_cannot_be_understood_are_named():
    grid = SphericalGrid(10, 8, (10, 40), (10, 40))
    field = field_on(CONVENTIONS["0 to 360"], LATITUDES).expand_dims(time=2)
    with pytest.raises(DataError, match="2 records along time without times"):
        read_field_onto(field, None, grid)
    for units in ("fortnights", "moons since 2000-01-01"):
        with pytest.raises(DataError, match=units.split()[0]):
            read_field_onto(field.assign_coords(time=("time", [0.0, 1.0], {"units": units})), None, grid)
    for second in (0.0, 1.0, np.nan):
        with pytest.raises(DataError, match="record 1, counted from 0, is not later .* and give each time once"):
            read_field_onto(field.assign_coords(time=("time", [1.0, second], {"units": "s"})), None, grid)


def test_missing_values_take_the_nearest_valid_one_also_across_the_seam():
    lon, lat = np.arange(0, 360, 10.0), np.arange(-85, 90, 10.0)
    z = np.full((18, 36), np.nan)
    z[:, 3] = 1.0
    z[:, 20] = 2.0
    grid = SphericalGrid(36, 18, (0, 360), (-90, 90))
    result = read_field_onto(field_on(lon, lat, lambda x, y: z), None, grid).values[0]
    assert np.isfinite(result).all()
    equator = result[9]
    assert equator[[1, 5, 33]].tolist() == [1.0, 1.0, 1.0] and equator[[15, 25]].tolist() == [2.0, 2.0]
    z[:] = np.nan
    z[13], z[4] = 1.0, 2.0  # 45 N and 45 S
    result = read_field_onto(field_on(lon, lat, lambda x, y: z), None, grid).values[0]
    assert (result[10:] == 1.0).all() and (result[:8] == 2.0).all()
    with pytest.raises(DataError, match="no valid value"):
        read_field_onto(field_on(lon, lat, lambda x, y: np.nan * x * y), None, grid)


# --- wind stress
