"""Drifters: they keep to streamlines and off the coast, are of second order in time, and are the same after a restart.

Flows that do not change are those of a linear model without rotation, whose gravity is next to none.
"""

import dataclasses
import functools
import logging

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel.config import read_text
from swmodel.config.scenario import arrays_of
from swmodel.dynamics.clock import Time
from swmodel.errors import ConfigError, DataError
from swmodel.fields.state import pytree
from swmodel.output.products.drifters import Drifters
from swmodel.postprocess.cli import plot
from swmodel.postprocess.files import open_output
from swmodel.postprocess.statistics import drifter_tracks
from swmodel.verification.vortices import closure
from tests import nested
from tests.selection import later, now

N, CELL = 8, 1000.0
PLANE = sw.CartesianGrid(N, N, (0.0, N * CELL), (0.0, N * CELL))
SPHERE = sw.SphericalGrid(12, N, (350.0, 386.0), (30.0, 62.0))
ALL_ROUND = sw.CartesianGrid(N, N, (0.0, N * CELL), (0.0, N * CELL), "xy")


ocean = functools.partial(sw.ShallowWater, gravity=1e-25, linear=True, communicator="serial")
uniform = functools.cache(ocean)  # whose programs serve all tests that take the same arguments


def still(grid, u, v, dt=100.0, depth=None, **options):
    """A Simulation in which u and v [m s-1] do not change."""
    model = uniform(grid, 100.0, **options) if depth is None else ocean(grid, depth, **options)
    return sw.Simulation(model, model.state(u, v, np.zeros(grid.shape)), sw.AB2(dt))


def currents(grid, psi):
    """(u, v) [m s-1] of a stream function [m2 s-1] at all corners, (ny + 1, nx + 1)."""
    sides = grid.metrics(np.arange(-1, grid.ny))
    across, along = (np.broadcast_to(sides[name], (grid.ny + 1, 1)) for name in ("dy_u", "dx_v"))
    return -np.diff(psi, axis=0)[:, 1:] / across[1:], np.diff(psi, axis=1)[1:] / along[1:]


def streams(grid, seed=3):
    """A random stream function at the corners, 0 along walls and on an island of 2 x 2 cells, and the wet cells."""
    psi = np.zeros((grid.ny + 1, grid.nx + 1))
    psi[1:-1, 1:-1] = np.random.default_rng(seed).uniform(-1500.0, 1500.0, (grid.ny - 1, grid.nx - 1))
    psi[3:6, 4:7] = 700.0
    wet = np.ones(grid.shape, bool)
    wet[3:5, 4:6] = False
    return psi, wet


def shares(grid, x, y):
    """(columns, rows, shares of the sides) of places; on the sphere rows are linear in the sine of latitude."""
    line = (lambda phi: np.sin(np.deg2rad(phi))) if grid.spherical else (lambda y: y)
    column = (x - grid.x_edges[0]) / (grid.x_edges[1] - grid.x_edges[0])
    row = np.interp(line(y), line(grid.y_edges), np.arange(grid.ny + 1.0))
    i, j = np.clip(column.astype(int), 0, grid.nx - 1), np.clip(row.astype(int), 0, grid.ny - 1)
    return i, j, column - i, row - j


def bilinear(psi, i, j, x, y):
    low = (1 - x) * psi[j, i] + x * psi[j, i + 1]
    return (1 - y) * low + y * ((1 - x) * psi[j + 1, i] + x * psi[j + 1, i + 1])


def tracks(path):
    """(x, y), (drifters, times) each."""
    with xr.open_dataset(path) as dataset:
        return tuple(dataset[name].values for name in (("lon", "lat") if "lon" in dataset else ("x", "y")))


def at_sea(grid, wet, count=40, seed=1):
    """[(x, y)] of places in wet cells."""
    random = np.random.default_rng(seed)
    (x0, x1), (y0, y1) = (grid.x_edges[[0, -1]], grid.y_edges[[0, -1]])
    x, y = random.uniform(x0, x1, count), random.uniform(y0, y1, count)
    i, j, *_ = shares(grid, x, y)
    return [place for place, is_wet in zip(zip(x, y), wet[j, i]) if is_wet]


@pytest.mark.verify
def test_a_drifter_in_a_steady_vortex_comes_back_to_its_release():
    assert closure(12)[0] < 1e-6


def streamed(folder, grid, dt):
    """The file of drifters at sea after 25 steps along the streamlines of `streams`."""
    psi, wet = streams(grid)
    run = still(grid, *currents(grid, psi), dt, np.where(wet, 100.0, -10.0))
    run.drifters(folder / "d.nc", dt, at_sea(grid, wet)).run(steps=25)
    return folder / "d.nc"


@pytest.fixture(scope="module")
def on_the_sphere(tmp_path_factory):
    return streamed(tmp_path_factory.mktemp("sphere"), SPHERE, 2e5)


@pytest.mark.parametrize("grid, dt", [later(PLANE, 200.0, id="plane"), (PLANE, 2500.0), (SPHERE, 2e5)])
def test_drifters_keep_to_streamlines_and_never_cross_a_coast(grid, dt, tmp_path, on_the_sphere):
    """Also where they pass several cells in a step, which a run with pressure gradients would not allow."""
    psi, wet = streams(grid)
    places = at_sea(grid, wet)
    x, y = tracks(on_the_sphere if grid is SPHERE else streamed(tmp_path, grid, dt))
    np.testing.assert_allclose(np.stack([x[:, 0], y[:, 0]], -1), places, rtol=1e-12)
    i, j, *rest = shares(grid, x, y)
    value = bilinear(psi, i, j, *rest)
    assert wet[j, i].all()
    np.testing.assert_allclose(value, np.broadcast_to(value[:, :1], value.shape), rtol=0, atol=1e-9 * psi.max())
    assert (np.abs(np.diff(i)).max() > 1) == (dt == 2500.0) and np.abs(np.diff(i)).max() >= 1


def test_the_way_in_a_cell_and_its_time_are_exact(tmp_path):
    """dx/dt = 1e-4 (1 + x) s-1 in the first cell, and 2e-4 s-1 in the second: x = 2 exp(1e-4 t) - 1 until x is 1."""
    u = np.zeros((N, N))
    u[:, 0], u[:, 1:] = 0.2, 0.2
    u[:, -1] = 0.1  # the west face of the first cell, across the seam
    run = still(ALL_ROUND, u, 0.0 * u, dt=1000.0)
    run.drifters(tmp_path / "d.nc", 1000.0, (0.0, 500.0))
    run.run(steps=12)
    time, (x, y) = 1000.0 * np.arange(13), tracks(tmp_path / "d.nc")
    crossing = np.log(1.5 / 0.75) * 1e4
    first = CELL * np.where(time < crossing, np.exp(1e-4 * time) - 1.0, 1.0)
    np.testing.assert_allclose(x[0], first + 0.2 * np.maximum(time - crossing, 0.0), rtol=1e-12)
    np.testing.assert_allclose(y, 500.0, rtol=1e-12)


@pytest.mark.verify
def test_inertial_circles_are_of_second_order_in_time(tmp_path):
    """Of radius 0.5 m s-1 / f = 5 km, across both seams."""
    f, speed, errors = 1e-4, 0.5, []
    model = sw.ShallowWater(ALL_ROUND, 100.0, coriolis=sw.FPlane(f), linear=True, communicator="serial", gravity=1e-25)
    for k, dt in enumerate((2000.0, 1000.0, 500.0)):
        run = sw.Simulation(model, model.state(np.full((N, N), speed), np.zeros((N, N))), sw.RK4(dt))
        run.drifters(tmp_path / f"{k}.nc", 4000.0, (600.0, 300.0))
        run.run(until=40000.0)
        x, y = (np.unwrap(values[0], period=N * CELL) for values in tracks(tmp_path / f"{k}.nc"))
        t = 4000.0 * np.arange(x.size)
        found = x - 600.0 + 1j * (y - 300.0)
        errors.append(np.abs(found - speed / f * (np.sin(f * t) + 1j * (np.cos(f * t) - 1))).max())
    assert errors[-1] < 15.0 and min(np.log2(np.divide(errors[:-1], errors[1:]))) > 1.9


@pytest.mark.verify
def test_a_drifter_goes_round_the_globe_along_its_parallel(tmp_path):
    """Through six cells in a step."""
    grid = sw.SphericalGrid(24, 8, (0.0, 360.0), (-60.0, 60.0))
    turn, phi = 2 * np.pi / 86400.0, np.deg2rad(grid.y_centres)[:, None]
    run = still(grid, grid.radius * turn * np.cos(phi) + np.zeros(grid.shape), np.zeros(grid.shape), 21600.0)
    run.drifters(tmp_path / "d.nc", 21600.0, [(-0.5, -50.0), (200.0, 37.5)])
    run.run(steps=4)
    x, y = tracks(tmp_path / "d.nc")
    np.testing.assert_allclose(np.diff(np.unwrap(x, period=360.0)), 90.0, rtol=0.01)  # dx at the middle of 15 degrees
    np.testing.assert_allclose(y, [[-50.0] * 5, [37.5] * 5], rtol=0, atol=1e-10)
    assert x[0, 0] == pytest.approx(359.5)


def test_releases_are_at_their_times_and_nothing_is_known_before(tmp_path):
    (tmp_path / "starts.csv").write_text("x, y, release_s\n1500, 2500, 0\n# a comment\n2500, 2500, 300\n")
    run = still(ALL_ROUND, np.full((N, N), 1.0), np.zeros((N, N)))
    run.drifters(tmp_path / "d.nc", 100.0, table=tmp_path / "starts.csv", release=(0.0, 500.0))
    run.run(steps=9)
    with xr.open_dataset(tmp_path / "d.nc", decode_times=False) as dataset:
        released, x = dataset["release_time"].values, dataset["x"].values
        np.testing.assert_array_equal(np.isnan(dataset["status"]), np.isnan(x))
        assert dataset["trajectory"].values.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(released, [0.0, 300.0, 500.0, 800.0])
    since = 100.0 * np.arange(10) - released[:, None]
    expected = np.where(since >= 0, np.array([1500.0, 2500.0] * 2)[:, None] + since, np.nan)
    np.testing.assert_allclose(x, expected, rtol=1e-12)


def test_a_drifter_leaves_through_an_open_side_and_is_counted(tmp_path, caplog):
    grid = sw.CartesianGrid(N, N, (0.0, N * CELL), (0.0, N * CELL), "y")
    model = sw.ShallowWater(grid, 100.0, boundaries=sw.Flather(sides=("west", "east")), communicator="serial")
    run = sw.Simulation(model, model.state(np.full((N, N), 2.0), np.zeros((N, N))), sw.RK4(20.0))
    run.drifters(tmp_path / "d.nc", 20.0, [(7900.0, 2500.0), (500.0, 1500.0)])
    with caplog.at_level(logging.WARNING, "swmodel"):
        run.run(steps=15)
    assert [r.getMessage() for r in caplog.records] == [
        f"{tmp_path / 'd.nc'}: 1 of 2 drifters have left the grid through an open side."
    ]
    x, _ = tracks(tmp_path / "d.nc")
    with xr.open_dataset(tmp_path / "d.nc") as dataset:
        np.testing.assert_array_equal(dataset["status"], np.isnan(x))
    there = np.isfinite(x[0])
    assert np.isfinite(x[1]).all() and 2 < there.sum() < 10 and not there[there.sum() :].any()
    assert (np.diff(x[0, there]) > 15.0).all()


@pytree
class Moved:
    """The numbers of cells and shares of the sides of drifters after a step of 10 s with the present velocities."""

    product: Drifters

    def of(self, sample):
        sample = dataclasses.replace(sample, time=Time(jnp.int32(1), 0.0, jnp.asarray(10.0), 10.0))
        return self.product.add(self.product.start(sample.state), sample)["now"]


def test_a_drifter_in_a_dry_cell_waits_for_water(tmp_path):
    """On a slope from -2 to 2 m, dry land and sea, with a velocity on all faces, which a step would set to 0."""
    depth = np.broadcast_to(np.linspace(-2.0, 2.0, N), (N, N))
    shore = {"momentum": sw.MomentumConserving(), "wetting": sw.WettingDrying()}
    model = sw.ShallowWater(ALL_ROUND, depth, communicator="serial", **shore)
    run = sw.Simulation(model, model.state(eta=np.maximum(-depth, 0.0)), sw.ForwardBackwardHancock(10.0))
    run.drifters(tmp_path / "d.nc", 10.0, [(500.0, 2500.0), (7500.0, 2500.0)])
    flowing = run.state.replace(u=run.state.u + 0.2, v=run.state.v + 0.5)
    run.state = flowing
    _, _, x, y = np.asarray(run.read(Moved(run.outputs[0].watcher.product))).reshape(4, 2)
    np.testing.assert_allclose((x, y), ([0.5, 0.502], [0.5, 0.505]), rtol=1e-12)


def test_circles_around_a_corner_end_although_their_number_has_no_bound(tmp_path):
    psi = np.zeros((N + 1, N + 1))
    psi[4, 4] = 1000.0
    run = still(PLANE, *currents(PLANE, psi))
    run.drifters(tmp_path / "d.nc", 100.0, [(4000.0, 4000.0), (4000.0 + 1e-9, 4000.0), (4100.0, 4000.0)])
    run.run(steps=3)
    x, y = tracks(tmp_path / "d.nc")
    assert np.hypot(x[:2] - 4000.0, y[:2] - 4000.0).max() < 1e-8
    assert np.hypot(x[2] - 4000.0, y[2] - 4000.0).min() > 50.0


@pytest.mark.parametrize("suffix", now([".nc", ".zarr"], ".nc"))
def test_a_resumed_run_continues_bit_for_bit(suffix, tmp_path):
    psi, wet = streams(PLANE)
    (u, v), depth = currents(PLANE, psi), np.where(wet, 100.0, -10.0)

    def made(folder):
        model = sw.ShallowWater(PLANE, depth, coriolis=sw.FPlane(1e-4), communicator="serial")
        run = sw.Simulation(model, model.state(u, v), sw.AB2(5.0))
        run.drifters(folder / "d.nc", 30.0, at_sea(PLANE, wet), release=(0.0, 85.0, 180.0))
        return run

    one, two = tmp_path / "one", tmp_path / "two"
    made(one).run(steps=50)
    made(two).restart(two / f"restart{suffix}").run(steps=24)
    again = made(two)
    again.resume(two / f"restart{suffix}")
    again.run(steps=26)
    for found, expected in zip(tracks(two / "d.nc"), tracks(one / "d.nc")):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.verify
def test_a_run_with_another_time_step_continues_the_drifters_of_a_restart_and_others_begin_anew(tmp_path, caplog):
    def made(file, place=(500.0, 500.0), dt=100.0):
        run = still(ALL_ROUND, np.full((N, N), 0.5), np.zeros((N, N)), dt)
        return run.drifters(tmp_path / file, 100.0, place)

    made("d.nc").restart(tmp_path / "restart.nc").run(steps=2)
    for again, steps in ((made("d.nc", dt=50.0), 4), (made("others.nc", (700.0, 500.0)), 2)):
        again.resume(tmp_path / "restart.nc")
        again.run(steps=steps)
    np.testing.assert_allclose(tracks(tmp_path / "d.nc")[0][0], 500.0 + 50.0 * np.arange(5), rtol=1e-12)
    assert "others.nc will hold samples from 200 s on alone" in caplog.text
    np.testing.assert_allclose(tracks(tmp_path / "others.nc")[0], [[750.0, 800.0]], rtol=1e-12)


def test_the_file_follows_the_conventions_of_trajectories(on_the_sphere):
    """Those of CF's section 9, in the names and dimensions that OpenDrift and Parcels use."""
    with xr.open_dataset(on_the_sphere) as dataset:
        assert dataset.attrs["featureType"] == "trajectory" and dataset.attrs["Conventions"].startswith("CF-")
        assert dataset["trajectory"].attrs["cf_role"] == "trajectory_id"
        for name, long in (("lon", "longitude"), ("lat", "latitude")):
            assert dataset[name].dims == ("trajectory", "time") and dataset[name].attrs["standard_name"] == long
            assert dataset[name].attrs["units"].startswith("degree")
        assert dataset["status"].attrs["flag_meanings"] == "active outside" and (dataset["status"] == 0).all()
        assert dataset["time"].dtype.kind == dataset["release_time"].dtype.kind == "M"
        assert dataset["time"].dims == ("time",) and dataset["time"].attrs["standard_name"] == "time"


@pytest.mark.verify
def test_single_precision_is_as_exact_far_from_the_origin(tmp_path):
    grid = sw.CartesianGrid(N, N, (1e8, 1e8 + N * CELL), (0.0, N * CELL), "xy")
    run = still(grid, np.full((N, N), 0.25), np.zeros((N, N)), 10.0, dtype="float32")
    run.drifters(tmp_path / "d.nc", 100.0, (1e8 + 500.0, 500.0))
    run.run(steps=100)
    np.testing.assert_allclose(tracks(tmp_path / "d.nc")[0][0, -1] - 1e8, 750.0, rtol=0, atol=0.01)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({}, "Drifters: give positions, or a table of them."),
        ({"positions": (1.0, 1.0), "table": "a.csv"}, "positions and table exclude one another"),
        ({"positions": (4500.0, 3500.0)}, "drifter 0 at (4500, 3500) is on land; move it to sea, or leave it out."),
        ({"positions": [(100.0, 100.0), (-1.0, 5.0), (5.0, 9e9)]}, "drifter 1 at (-1, 5) (and 1 more) is outside"),
        ({"positions": (100.0, 100.0), "release": -1.0}, "release[0] = -1.0 is negative"),
        ({"positions": (100.0, 100.0), "every": 1.0}, "every 1 s, and a step takes 100 s"),
    ],
)
def test_a_mistake_is_one_sentence(arguments, message, tmp_path):
    psi, wet = streams(PLANE)
    run = still(PLANE, *currents(PLANE, psi), depth=np.where(wet, 100.0, -10.0))
    with pytest.raises(ConfigError) as error:
        run.drifters(tmp_path / "d.nc", **{"every": 100.0, **arguments})
    assert message in str(error.value) and len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize(
    "text, message",
    [
        ("x, y\n", "has no drifters; give a row for each."),
        ("lon, lat\n1, 2\n", "has no column x; name the columns x and y."),
        ("longitude, latitude\n1, 2\n", "has longitudes, and the grid is a plane; give the columns x and y."),
        ("x, y\n1, 2\n3,\n", "line 3 lacks a number; give place and time of every drifter."),
        ("x, y, release_s\n1, 2, -3\n", "line 2 has a negative release_s; give seconds after `release`."),
    ],
)
def test_a_wrong_table_is_one_sentence(text, message, tmp_path):
    (tmp_path / "starts.csv").write_text(text)
    with pytest.raises(DataError, match="starts.csv") as error:
        Drifters(100.0, table=tmp_path / "starts.csv").released(spherical=False)
    assert str(error.value).endswith(message)


def test_an_ensemble_has_no_drifters(tmp_path):
    model = sw.ShallowWater(PLANE, 100.0, communicator="serial")
    members = sw.Ensemble([model, model], [model.at_rest(), model.at_rest()])
    with pytest.raises(ConfigError, match="Drifters: not available for an ensemble"):
        sw.Simulation(members, members.initial, sw.RK4(10.0)).drifters(tmp_path / "d.nc", 100.0, (1.0, 1.0))


@pytest.mark.verify
def test_the_outermost_grid_alone_of_nests_has_drifters(tmp_path):
    made = nested.family([sw.Nest("harbour", **nested.HARBOUR)])
    run = sw.NestedSimulation(made, made.states(eta=nested.bump), sw.ForwardBackward(5.0))
    x, y = (np.argwhere(nested.depth() > 0)[0][::-1] + 0.5) * nested.DX
    run[""].drifters(tmp_path / "outer.nc", 5.0, (x, y))
    run.run(steps=2)
    assert np.isfinite(tracks(tmp_path / "outer.nc")[0]).all()
    depth = made.models["harbour"].sea_floor
    row, column = np.argwhere(np.asarray(depth.wet))[0]
    grid = made.models["harbour"].grid
    run["harbour"].drifters(tmp_path / "inner.nc", 5.0, (grid.x_centres[column], grid.y_centres[row]))
    with pytest.raises(ConfigError, match="of the nest 'harbour' has drifters, which nests do not move"):
        run.run(steps=2)


@pytest.mark.verify
def test_tracks_are_drawn_without_lines_across_a_seam_and_with_the_land_of_fields(tmp_path):
    psi, wet = streams(PLANE)
    run = still(PLANE, *currents(PLANE, psi), depth=np.where(wet, 100.0, -10.0))
    run.drifters(tmp_path / "d.nc", 100.0, at_sea(PLANE, wet)).write(tmp_path / "fields.nc", every=200.0).run(steps=4)
    assert plot([tmp_path / "d.nc", tmp_path / "fields.nc"], kind="drifters") == [tmp_path / "d.drifters.png"]
    assert plot(tmp_path / "d.nc") == [tmp_path / "d.drifters.png"]
    round_trip = still(ALL_ROUND, np.full((N, N), 10.0), np.zeros((N, N)))
    round_trip.drifters(tmp_path / "round.nc", 100.0, (500.0, 500.0)).run(steps=20)
    with open_output(tmp_path / "round.nc") as dataset:
        (lines, *_) = drifter_tracks(dataset).axes[0].collections
    lengths = [np.ptp(part[:, 0]) for part in lines.get_segments()]
    assert len(lengths) == 18 and max(lengths) == pytest.approx(1.0)  # [km]; of 20, 2 are across the seam


EXPERIMENT = """
run = {{until = "1 h"}}
grid = {{type = "cartesian", nx = 8, ny = 8, x = ["0 km", "8 km"], y = ["0 km", "8 km"]}}
bathymetry = {{type = "flat", depth = "100 m"}}
stepper = {{type = "rk4", dt = "10 s"}}
[output.drifters]
every = "10 min"
{drifters}
"""


@pytest.mark.parametrize(
    "text, message",
    [
        (
            'release = ["0 h", "2 h"]\npositions = [["1 km", "2 km"]]',
            "one is at 7200 s, and the run ends at 3600 s",
        ),
        ('positions = [["1 km", "9 km"]]', "(1000, 9000) is outside the grid"),
        ('positions = [["1 degree", "2 degree"]]', "a coordinate in degree does not fit"),
        ('release = "1 h"', "give positions, or a table of them"),
        ('table = "none.csv"', "there is no file"),
    ],
)
def test_a_mistake_in_a_file_is_found_at_its_key(text, message):
    draft = read_text(EXPERIMENT.format(drifters=text), "e.toml", ".")
    assert any(message in str(mistake) for mistake in draft.mistakes), draft.mistakes


def test_a_wrong_table_is_one_mistake_of_a_file(tmp_path):
    (tmp_path / "starts.csv").write_text("x, y\n")
    draft = read_text(EXPERIMENT.format(drifters='table = "starts.csv"'), "e.toml", tmp_path)
    (mistake,) = draft.mistakes
    assert "has no drifters; give a row for each" in str(mistake)
    assert arrays_of(draft.sections["output"].drifters, 64)["now"].shape == (0,)


def test_an_experiment_file_has_drifters():
    text = EXPERIMENT.format(drifters='release = "30 min"\npositions = ["1 km", "2 km"]')
    draft = read_text(text, "e.toml", ".")
    section = draft.sections["output"].drifters
    assert not draft.mistakes and section.release == (1800.0,) and section.positions == ((1000.0, 2000.0),)
