"""Figures and diagnostics of output files: the numbers are right, the figures are there, mistakes are explained."""

import datetime
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys

import numpy as np
import pytest

from tests.selection import later

xr = pytest.importorskip("xarray")
matplotlib = pytest.importorskip("matplotlib")

import swmodel as sw  # noqa: E402
from swmodel import postprocess  # noqa: E402
from swmodel.diagnostics import derived as diagnostics  # noqa: E402
from swmodel.errors import PlotError  # noqa: E402
from swmodel.output.metadata import continued_attributes  # noqa: E402
from swmodel.output.netcdf import GaugeFile, write_fields  # noqa: E402
from swmodel.output.records import FieldFile  # noqa: E402
from swmodel.postprocess import (  # noqa: E402
    budgets,
    cgrid,
    files,
    gauges,
    maps,
    maxima,
    overview,
    scores,
    spectra,
    style,
    wavenumbers,
)
from swmodel.postprocess.cli import plot  # noqa: E402
from swmodel.postprocess.series import read_gauges, read_observations  # noqa: E402
from swmodel.runtime.compilation import jit  # noqa: E402
from tests.restarts import write_restart  # noqa: E402

RADIUS = 6.371e6
START = "seconds since 2011-03-11 05:46:23"
WORLD = {"x": (0, 360), "y": (-90, 90), "periodic": "x", "spherical": True}


def lines(low, high, n, periodic):
    """(centres, faces) of n cells: n + 1 faces in a closed direction, the n east or north ones in a periodic one."""
    edges = np.linspace(low, high, n + 1)
    return 0.5 * (edges[1:] + edges[:-1]), edges[1:] if periodic else edges


def output(x=(0.0, 1e6), y=(0.0, 1e6), nx=20, ny=16, periodic="", spherical=False, times=(0.0,), units=START, **fields):
    """A dataset as a run writes it; fields are functions of (t, x, y), or numbers, at their own points."""
    xh, xq = lines(*x, nx, "x" in periodic)
    yh, yq = lines(*y, ny, "y" in periodic)
    names = ("degrees_east", "degrees_north") if spherical else ("m", "m")
    coords = {"time": ("time", np.asarray(times, float), {"units": units})}
    coords |= {n: (n, v, {"units": names[n[0] == "y"]}) for n, v in (("xh", xh), ("xq", xq), ("yh", yh), ("yq", yq))}
    places = {"u": ("yh", "xq"), "v": ("yq", "xh"), "vorticity": ("yq", "xq")}
    long_names = {"eta": "sea surface elevation", "maximum_elevation": "maximum sea surface elevation"}
    data = {}
    for name, function in fields.items():
        at_y, at_x = places.get(name, ("yh", "xh"))
        where = coords[at_x][1][None, :], coords[at_y][1][:, None]
        attrs = {"units": "m s-1" if name in "uv" else "m", "long_name": long_names.get(name, name)}
        value = function if callable(function) else lambda t, x, y, number=function: number + 0 * x + 0 * y
        if name in ("depth", "maximum_elevation", "arrival_time"):
            data[name] = ((at_y, at_x), value(0.0, *where), attrs)
        else:
            data[name] = (("time", at_y, at_x), np.stack([value(t, *where) for t in times]), attrs)
    return xr.Dataset(data, coords)


def gauge_output(times, series, units=START):
    """A CF timeSeries dataset; `series` {name: values}."""
    n = len(series)
    return xr.Dataset(
        {"eta": (("time", "gauge"), np.array(list(series.values())).T, {"units": "m"})},
        {
            "time": ("time", np.asarray(times, float), {"units": units}),
            "gauge_name": ("gauge", list(series), {"cf_role": "timeseries_id"}),
            "longitude": ("gauge", 144.0 + np.arange(n), {"standard_name": "longitude"}),
            "latitude": ("gauge", 38.0 + np.arange(n), {"standard_name": "latitude"}),
        },
        {"featureType": "timeSeries"},
    )


def island(x, y):
    return (x - 143) ** 2 + (y - 38) ** 2 < 4


@pytest.fixture
def tsunami(tmp_path):
    """Paths of fields, maxima and gauges of three hours on the sphere, with an island."""

    def wave(t, x, y):
        r = np.hypot(x - 147, y - 38)
        return np.where(island(x, y), np.nan, 0.5 * np.cos(2 * (r - t / 1800)) * np.exp(-((r - t / 1800) ** 2)))

    sphere = dict(x=(140, 155), y=(32, 44), nx=30, ny=24, spherical=True)
    times = np.arange(0, 10801, 900.0)
    depth = lambda t, x, y: np.where(island(x, y), np.nan, 4000.0 + 100 * x)  # noqa: E731
    fields = output(times=times, eta=wave, depth=depth, **sphere).assign_attrs(title="A wave")
    distance = lambda x, y: np.where(island(x, y), np.nan, np.hypot(x - 147, y - 38))  # noqa: E731
    maxima = output(
        maximum_elevation=lambda t, x, y: np.exp(-distance(x, y)),
        arrival_time=lambda t, x, y: 1800 * distance(x, y),
        **sphere,
    )
    t = np.arange(0, 10801, 20.0)
    points = gauge_output(t, {"DART 1": np.sin(t / 600), "KPG1": 0.3 * np.sin(t / 400)})
    paths = [tmp_path / f"{name}.nc" for name in ("run", "maxima", "gauges")]
    for dataset, path in zip((fields, maxima, points), paths):
        dataset.to_netcdf(path)
    return paths


@pytest.fixture
def gyre(tmp_path):
    """A file of a slow flow on a plane: a month, u and v from one streamfunction."""

    def psi(x, y):
        return 2e4 * np.sin(np.pi * x / 1e6) * np.sin(2 * np.pi * y / 1e6)

    step = 1e6 / 20
    path = tmp_path / "gyre.nc"
    output(
        nx=20,
        ny=20,
        times=np.arange(4) * 10 * 86400.0,
        units="seconds",
        depth=1000.0,
        eta=lambda t, x, y: 1e-6 * t * np.sin(np.pi * x / 1e6) * np.sin(2 * np.pi * y / 1e6),
        u=lambda t, x, y: -(t / 2.6e6) * (psi(x, y + step / 2) - psi(x, y - step / 2)) / step / 1000,
        v=lambda t, x, y: (t / 2.6e6) * (psi(x + step / 2, y) - psi(x - step / 2, y)) / step / 1000,
    ).to_netcdf(path)
    return path


def assert_drawn(path, least=200):
    """A picture of sensible size that is not blank."""
    from matplotlib.image import imread

    picture = imread(path)[..., :3]
    assert min(picture.shape[:2]) >= least
    assert picture.std() > 0.02


# -- budgets ----------------------------------------------------------------------------------------------------------


def test_the_radius_of_the_sphere_is_that_of_the_file():
    data = output(x=(0, 10), y=(0, 10), spherical=True, eta=0.0).assign_attrs(radius=1000.0)
    assert files.mesh_of(data).dy == pytest.approx(1000.0 * np.deg2rad(10 / 16))


def test_uniform_flow_has_its_exact_energy_on_a_periodic_plane():
    sums = budgets.budgets(output(periodic="xy", u=0.3, v=-0.4, eta=1.5, depth=98.5, nx=7, ny=5), gravity=10.0)
    np.testing.assert_allclose(sums["kinetic_energy"], 1025.0 * 1e12 * 100 * 0.125, rtol=1e-13)
    np.testing.assert_allclose(sums["potential_energy"], 1025.0 * 10 * 1e12 * 1.5**2 / 2, rtol=1e-13)
    np.testing.assert_allclose(sums["volume"], 1e14, rtol=1e-13)
    np.testing.assert_allclose(sums["mean_elevation"], 1.5, rtol=1e-13)
    np.testing.assert_allclose(sums["enstrophy"], 0.0, atol=1e-20)


def test_energy_and_enstrophy_of_solid_body_rotation_converge_at_second_order():
    speed, depth, omega = 10.0, 4000.0, budgets.EARTH_ROTATION
    turn = lambda t, x, y: speed * np.cos(np.deg2rad(y)) + 0 * x  # noqa: E731
    exact = {
        "kinetic_energy": 1025.0 * depth * speed**2 * 4 * np.pi * RADIUS**2 / 3,
        "enstrophy": 8 * np.pi * speed**2 / 3,
        "potential_enstrophy": 8 * np.pi * RADIUS**2 * (omega + speed / RADIUS) ** 2 / 3 / depth,
    }
    errors = []
    for n in (12, 24):
        sums = budgets.budgets(output(nx=2 * n, ny=n, u=turn, v=0.0, eta=0.0, depth=depth, **WORLD))
        errors.append([abs(float(sums[name][0]) / value - 1) for name, value in exact.items()])
    ratio = np.array(errors[0]) / np.array(errors[1])
    assert (np.array(errors[1]) < 0.02).all()
    assert (ratio > 3.5).all(), ratio


@pytest.mark.parametrize("periodic", ["", "x"])
def test_energy_and_vorticity_of_a_file_are_those_of_the_model(tmp_path, periodic):
    rng = np.random.default_rng(3)
    grid = sw.SphericalGrid(12, 9, (0, 360) if periodic else (0, 60), (10, 55), periodic=periodic)
    depth = rng.uniform(100, 4000, grid.shape)
    depth[3:5, 4:7] = 0.0
    model = sw.ShallowWater(
        grid, depth, gravity=9.0, coriolis=sw.RotatingSphere(), communicator="serial", dtype=np.float64
    )
    state = model.state(*rng.normal(size=(3, *grid.shape)))

    @jit
    def energy_and_vorticity(dynamics, state):
        flow = dynamics.prepare().flow(state, 0.0)
        return diagnostics.energy(flow), flow.vorticity.interior

    of_model, vorticity = energy_and_vorticity(model.interval(2, 0, 1.0), state)
    edge = [(0, 0), (0 if periodic else 1, 0)]
    record = {"eta": state.eta, "u": np.pad(state.u, edge), "v": np.pad(state.v, [(1, 0), (0, 0)])}
    static = {"wet": model.wet, "depth": model.depth}
    with FieldFile(tmp_path / "a.nc", grid, record, static=static, dtype="float64") as file:
        file.append(0.0, {name: np.asarray(value) for name, value in record.items()})
    data = files.open_output(tmp_path / "a.nc")
    sums = budgets.budgets(data, gravity=9.0, density=1.0)
    energy = float(sums["kinetic_energy"][0] + sums["potential_energy"][0])
    np.testing.assert_allclose(energy, float(of_model), rtol=1e-13)
    mesh = files.mesh_of(data)
    u, v = (np.nan_to_num(files.snapshot(data, name)) for name in "uv")
    zeta = cgrid.vorticity(u, v, mesh, files.wet_cells(data))
    np.testing.assert_allclose(zeta[1:, 0 if periodic else 1 :], vorticity, rtol=1e-11, atol=1e-18)


def test_vorticity_in_the_file_goes_before_that_of_free_slip():
    sums = budgets.budgets(output(periodic="xy", u=0.0, v=0.0, eta=0.0, depth=1.0, vorticity=2e-5))
    np.testing.assert_allclose(sums["enstrophy"], 0.5 * 4e-10 * 1e12)


@pytest.mark.parametrize("periodic", ["", "x", "xy"])
def test_streamfunction_is_recovered_from_its_own_transports(periodic):
    rng = np.random.default_rng(1)
    nx, ny, depth = 6, 5, 50.0
    shape = ny + ("y" not in periodic), nx + ("x" not in periodic)
    psi = rng.normal(size=shape)
    if "x" not in periodic:
        psi[:, [0, -1]] = 0.0
    if "y" not in periodic:
        psi[[0, -1]] = 0.0
    dx, dy = 1e6 / nx, 1e6 / ny
    down = psi - np.roll(psi, 1, 0) if "y" in periodic else np.diff(psi, axis=0)
    along = psi - np.roll(psi, 1, 1) if "x" in periodic else np.diff(psi, axis=1)
    data = output(
        nx=nx,
        ny=ny,
        periodic=periodic,
        eta=0.0,
        depth=depth,
        u=lambda t, x, y: -down / dy / depth,
        v=lambda t, x, y: along / dx / depth,
    )
    psi = psi - (psi.mean() if periodic == "xy" else psi[0, 0])
    found = budgets.streamfunction(data, 0)
    assert found.dims == ("yq", "xq")
    np.testing.assert_allclose(found, psi, atol=1e-12)
    np.testing.assert_allclose(budgets.gyre_transport(data), np.abs(psi).max())
    whole = np.pad(psi, [("y" in periodic, 0), ("x" in periodic, 0)], mode="wrap")
    np.testing.assert_allclose(budgets.streamfunction_on_edges(data, 0), whole, atol=1e-12)


def test_streamfunction_of_a_mean_flow_goes_on_across_a_periodic_domain():
    data = output(nx=6, ny=5, periodic="xy", eta=0.0, depth=50.0, u=0.3, v=-0.2)
    mesh = files.mesh_of(data)
    exact = -0.3 * 50 * mesh.y_edges[:, None] - 0.2 * 50 * mesh.x_edges
    exact -= exact[1:, 1:].mean()
    np.testing.assert_allclose(budgets.streamfunction_on_edges(data, 0), exact, rtol=1e-12, atol=1e-6)


def test_transport_through_any_section_is_the_difference_of_the_streamfunction(gyre):
    data = files.open_output(gyre)
    psi = budgets.streamfunction(data.assign(eta=0 * data["eta"]), -1)
    data = data.assign(eta=0 * data["eta"])
    for start, end in [((0, 2.5e5), (4e5, 2.5e5)), ((1e5, 9e5), (7e5, 1e5)), ((5e5, 0), (5e5, 4e5))]:
        ends = [psi.sel(xq=p[0], yq=p[1], method="nearest") for p in (start, end)]
        moved = budgets.transport(data, start, end)
        np.testing.assert_allclose(moved[-1], ends[0] - ends[1], rtol=1e-11, atol=1e-6)


def test_a_section_goes_on_across_the_seam_of_a_periodic_domain():
    flow = {"u": 0.1, "v": lambda t, x, y: 0.2 + 0.1 * np.sin(2e-6 * np.pi * x) + 0 * y, "eta": 0.0, "depth": 1000.0}
    data = output(nx=10, ny=10, periodic="xy", **flow)
    for start, end, north, east in (((8e5, 5e5), (12e5, 5e5), 4, 0), ((-1e5, 8e5), (1e5, 11e5), 2, 3)):
        whole = 0.1 * 1000 * 1e5 * east - 0.2 * 1000 * 1e5 * north  # the sine is odd about the seam
        np.testing.assert_allclose(budgets.transport(data, start, end), whole, rtol=1e-12)
        np.testing.assert_allclose(budgets.transport(data, end, start), -whole, rtol=1e-12)
    globe = output((0.0, 360.0), (-50.0, 50.0), 10, 10, "x", spherical=True, u=0.0, v=0.2, eta=0.0, depth=1000.0)
    short = budgets.transport(globe, (-36.0, 0.0), (72.0, 0.0))
    for start, end in ((324.0, 432.0), (324.0, 72.0)):
        np.testing.assert_allclose(budgets.transport(globe, (start, 0.0), (end, 0.0)), short)
    whole = budgets.transport(globe, (0.0, 0.0), (360.0, 0.0))
    np.testing.assert_allclose(short / whole, 0.3)


def test_a_page_of_budgets_has_its_title_and_its_units_and_no_empty_place():
    rising = lambda t, x, y: 1e-6 * t + 0 * x + 0 * y  # noqa: E731
    page = budgets.figure(output(times=(0.0, 600.0), u=1.0, v=0.0, eta=rising, depth=1.0))
    labels = {axes.get_title("left"): axes.get_ylabel() for axes in page.axes}
    assert labels["Volume"] == "relative change [10⁻⁴]" and labels["Enstrophy"] == "[m² s⁻²]"
    about = {"title": "A gyre", "gravity": 9.81}
    page = budgets.figure(output(times=(0.0, 600.0), u=1.0, v=0.0, eta=0.0, depth=1.0).assign_attrs(about))
    assert page.axes[0].get_ylabel() == "relative change"
    boxes = [axes.get_position() for axes in page.axes]
    assert len(boxes) == 5 and boxes[-1].width > 2 * boxes[0].width and boxes[1].x0 > boxes[0].x1
    assert [text.get_text() for text in page.texts] == ["A gyre"]


@pytest.mark.parametrize("records", [151, 152])
def test_the_curves_of_a_long_run_have_the_moment_of_its_maps(records):
    """Every second record is drawn of more than 150, and the last one may not be among them."""
    times = 60.0 * np.arange(records)
    page = overview.circulation(output(times=times, u=0.1, v=0.0, eta=0.0, depth=1.0).assign_attrs(gravity=9.81))
    assert len(page.axes) >= 4


def test_pages_of_a_layer_call_eta_an_anomaly_of_its_thickness():
    layer = output(times=(0.0, 600.0), u=1.0, v=0.0, eta=0.5, depth=1.0)
    layer.eta.attrs["long_name"] = "thickness of the layer less its thickness at rest"
    assert overview.circulation(layer).axes[0].get_title("left") == "Thickness anomaly"
    series = gauge_output([0.0, 60.0], {"a": [0.0, 1.0]})
    assert gauges.figure(series)._supylabel.get_text() == "Elevation [m]"
    series.eta.attrs["long_name"] = layer.eta.attrs["long_name"]
    assert gauges.figure(series)._supylabel.get_text() == "Thickness anomaly [m]"


def test_section_outside_the_domain_is_refused():
    with pytest.raises(PlotError, match="outside the domain"):
        budgets.transport(output(u=0.0, v=0.0, eta=0.0, depth=1.0), (0, 0), (2e6, 0))


# -- spectra ----------------------------------------------------------------------------------------------------------


def integral(spectrum, width):
    return float(spectrum.sum()) * width


def test_periodic_spectrum_holds_all_of_the_kinetic_energy():
    rng = np.random.default_rng(2)
    u, v = rng.normal(size=(2, 16, 20))
    data = output(y=(0, 0.8e6), periodic="xy", u=lambda *_: u - u.mean(), v=lambda *_: v - v.mean())
    spectrum = spectra.wavenumber_spectrum(data)
    energy = 0.5 * (u.var() + v.var())
    np.testing.assert_allclose(integral(spectrum, 2 * np.pi / 0.8e6), energy, rtol=1e-12)
    assert spectrum.attrs["units"] == "m3 s-2"


@pytest.mark.parametrize(
    "units, of_spectrum",
    [("m", "m3"), ("m s-1", "m3 s-2"), ("s-1", "m s-2"), ("m-1 s-1", "m-1 s-2"), ("1", "m"), ("m/s", "(m/s)2 m")],
)
def test_a_spectrum_has_the_units_of_a_square_over_wavenumber(units, of_spectrum):
    data = output(periodic="xy", eta=1.0)
    data["eta"].attrs["units"] = units
    assert spectra.wavenumber_spectrum(data, "eta").attrs["units"] == of_spectrum


def test_a_window_keeps_the_variance_of_a_box_in_a_closed_basin():
    k = 2 * np.pi * 9.3 / 1e6
    data = output(nx=80, ny=80, eta=lambda t, x, y: 7 + 2 * np.cos(k * x + 0.4 * k * y))
    spectrum = spectra.wavenumber_spectrum(data, "eta", box=((0, 1e6), (0, 1e6)))
    np.testing.assert_allclose(integral(spectrum, 2 * np.pi / 1e6), 2.0, rtol=0.01)
    assert float(spectrum["wavenumber"][spectrum.values.argmax()]) == pytest.approx(np.hypot(1, 0.4) * k, rel=0.06)


@pytest.mark.parametrize("periodic", (later("xy"), later("y"), ""))
def test_files_of_fields_have_the_spectra_and_transfers_that_a_run_has(periodic, tmp_path):
    """Over rough depth, up to what files round away: one definition for both."""
    random = np.random.default_rng(5)
    grid = sw.CartesianGrid(17, 12, (0.0, 1.7e5), (0.0, 2.4e5), periodic)
    depth = random.uniform(500, 1500, grid.shape)
    model = sw.ShallowWater(grid, depth, gravity=9.0, communicator="serial", dtype="float64")
    state = model.state(*(size * random.standard_normal(grid.shape) for size in (1.0, 1.0, 30.0)))
    sw.Simulation(model, state, sw.AB2(5.0)).write(tmp_path / "f.nc").spectra(tmp_path / "s.nc").run(steps=0)
    with files.open_output(tmp_path / "f.nc") as fields, files.open_output(tmp_path / "s.nc") as online:
        found = spectra.of_fields(fields, records=[0])
        assert {name for name in online.data_vars if name != "wavenumber_bnds"} == set(found)
        np.testing.assert_allclose(found["wavenumber"], online["wavenumber"], rtol=1e-12)
        for name, values in found.items():
            size = np.abs(online[name].values).max()
            np.testing.assert_allclose(values.values, online[name].values, rtol=0, atol=3e-6 * size, err_msg=name)
            assert values.attrs["units"] == online[name].attrs["units"] and size > 0


def test_a_box_of_a_plane_has_transfers_and_the_sphere_has_spectra_alone():
    k = 2 * np.pi / 2e5
    flow = {"u": lambda t, x, y: np.cos(k * y) + 0 * x, "v": lambda t, x, y: np.cos(k * x) + 0 * y, "depth": 100.0}
    flat = {**flow, "eta": lambda t, x, y: np.sin(k * (x + y))}
    found = spectra.of_fields(output(nx=40, ny=40, **flat), records=[0], box=((0.5e5, 9.5e5), (0.5e5, 9.5e5)))
    assert {"kinetic_energy_flux", "potential_energy_transfer_pressure", "enstrophy_spectrum"} <= set(found)
    peak = found["wavenumber"][int(found["kinetic_energy_spectrum"][0].values.argmax())]
    assert float(peak) == pytest.approx(k, rel=0.15)
    flow = {"u": 1.0, "v": lambda t, x, y: np.cos(x) + 0 * y, "eta": 0.0, "depth": 9.0}
    sphere = output((0, 20), (30, 50), 40, 40, spherical=True, **flow)
    found = spectra.of_fields(sphere, records=[0])
    assert set(found) == {"kinetic_energy_spectrum", "potential_energy_spectrum"}
    here, turned = (spectra.of_fields(sphere, records=[0], box=((x, x + 8.0), (35, 45))) for x in (4.0, 364.0))
    assert turned.equals(here)
    with pytest.raises(PlotError, match="for a plane"):
        wavenumbers.transfers(sphere)
    with pytest.raises(PlotError, match="has no eta; write"):
        wavenumbers.transfers(output(u=1.0, v=0.0, depth=1.0))


def test_spectra_refuse_land_and_small_boxes():
    data = output(nx=40, ny=40, eta=lambda t, x, y: np.where(x < 4e5, np.nan, 1.0 + 0 * y))
    with pytest.raises(PlotError, match="land in the box"):
        spectra.wavenumber_spectrum(data, "eta")
    assert np.isfinite(spectra.wavenumber_spectrum(data, "eta", box=((5e5, 1e6), (0, 1e6)))).all()
    with pytest.raises(PlotError, match="box holds 4 cells along x"):
        spectra.wavenumber_spectrum(data, "eta", box=((5e5, 6e5), (0, 1e6)))


def titles(page):
    return [axes.get_title("left") for axes in page.axes if axes.get_title("left")]


def test_a_page_of_spectra_tells_the_experiment_and_which_line_is_which(gyre):
    data = files.open_output(gyre).assign_attrs(title="A gyre", gravity=9.81)
    page = spectra.figure(data, records=[1, 2])
    assert page.texts[0].get_text() == "A gyre"
    assert titles(page)[:2] == ["Energy", "Enstrophy"] and len(titles(page)) == 4
    labels = [text.get_text() for text in page.axes[0].get_legend().get_texts()]
    assert labels[:3] == ["kinetic energy, day 10", "kinetic energy, day 20", "potential energy, day 20"]
    assert [text.get_text() for text in page.axes[1].get_legend().get_texts()][:2] == ["day 10", "day 20"]


def test_a_page_of_one_spectrum_has_it_once_with_what_changes_it(gyre):
    found = spectra.of_fields(files.open_output(gyre), records=[0, 1, 2])
    assert titles(spectra.figure(found, "enstrophy")) == ["Enstrophy", "Transfers of enstrophy, mean of 2 records"]
    assert titles(spectra.figure(found[["kinetic_energy_spectrum"]])) == ["Kinetic energy"]
    with pytest.raises(PlotError, match="no spectrum of 'salt'; it has .*kinetic_energy_spectrum"):
        spectra.figure(found, "salt")


def test_guides_of_a_spectrum_that_rise_stay_in_the_panel(gyre):
    found = spectra.of_fields(files.open_output(gyre), records=[0, 1, 2])
    k = found["wavenumber"].values  # with this spectrum, lines above its middle would leave the panel
    found["enstrophy_spectrum"][:] = np.where(k < np.median(k), 1.0, 0.1)
    panel = next(axes for axes in spectra.figure(found, "enstrophy").axes if axes.get_title("left") == "Enstrophy")
    guides = [line for line in panel.lines if line.get_label().startswith("k")]
    assert len(guides) == 2
    assert all(line.get_ydata().max() <= panel.get_ylim()[1] for line in guides)


@pytest.mark.parametrize("draw", [maps.panels, maxima.maximum])
def test_maps_have_the_title_of_the_experiment_above_their_panels(tsunami, draw):
    file = tsunami[1] if draw is maxima.maximum else tsunami[0]
    page = draw(files.open_output(file).assign_attrs(title="A wave"))
    assert page.texts[0].get_text() == "A wave"
    renderer = page.canvas.get_renderer()
    assert page.texts[0].get_window_extent().y0 >= max(axes.get_tightbbox(renderer).y1 for axes in page.axes)


def test_long_titles_of_pages_are_set_small():
    page = style.new_figure(6.4, 4.8)
    for words in (4, 40):
        style.heading(page, "word " * words)
    assert page.texts[0].get_fontsize() == 14
    assert page.texts[1].get_window_extent().x1 < page.bbox.x1


def test_frequency_spectrum_finds_the_period_and_the_variance_of_a_tide():
    t = np.arange(0, 20 * 3600, 30.0)
    value = np.sin(2 * np.pi * t / 1200)
    value[50:53] = np.nan
    frequency, power = spectra.frequency_spectrum(scores.Series("a", t, value), segments=5)
    assert 1 / frequency[power.argmax()] == pytest.approx(1200, rel=0.05)
    np.testing.assert_allclose(power.sum() * (frequency[1] - frequency[0]), 0.5, rtol=0.03)


# -- gauges -----------------------------------------------------------------------------------------------------------


def pulse(t, height=1.0, arrives=3600.0):
    return height * np.exp(-(((t - arrives - 600) / 300) ** 2))


def scored(t, value, observed=None, **rules):
    """The Score of a model's series by Rules, against an observed one at the same times."""
    model = scores.Series("a", t, value, rules=scores.Rules(**rules))
    return scores.score(model, None if observed is None else scores.Series("a", t, observed))


def test_a_perfect_model_explains_everything_and_the_mean_error_is_a_bias_beside_it():
    t = np.arange(0, 7200, 4.0)
    for model, share, bias in (
        (pulse(t), 1.0, 0.0),
        (0 * t, 0.0, -pulse(t).mean()),
        (pulse(t) + 0.3, 1.0, 0.3),
        (-pulse(t), -3.0, -2 * pulse(t).mean()),
    ):
        row = scored(t, model, pulse(t))
        np.testing.assert_allclose((row.variance_explained, row.bias), (share, bias), atol=1e-12)
        assert row.window == (0.0, 7196.0)


def test_what_lies_outside_the_experiments_window_counts_nowhere():
    t = np.arange(0, 12001, 4.0)
    shaken = pulse(t) + np.where(t < 900, 5 * np.sin(t), 0) + np.where(t > 7200, 50.0, 0)
    row = scored(t, pulse(t), shaken, window=(900.0, 7200.0))
    assert row.variance_explained == 1.0 and row.window == (900.0, 7200.0)
    assert row.arrival == row.observed_arrival
    assert row.maximum == row.observed_maximum == 1.0
    assert scored(t, pulse(t), shaken).observed_maximum != 1.0


def test_arrival_is_the_first_time_above_a_fraction_of_the_windows_maximum():
    t = np.arange(0, 12001, 1.0)
    value = np.where(t >= 3000, 0.19, 0.0) + np.where(t >= 4000, 0.02, 0) + np.where(t >= 5000, 0.79, 0)
    value[t > 7000] = 0.0
    series = scores.Series("a", t, value)
    assert scores.peak(series) == pytest.approx(1.0)
    assert scores.arrival(series) == 4000.0
    assert scored(t, value, fraction=0.1).arrival == 3000.0


@pytest.mark.parametrize("value, rules, missing, note", [
    (lambda t: 1e-7 * pulse(t), {}, "am", r"the model stays below 0\.01 m \(highest value 1e-07 m\)"),
    (lambda t: pulse(t, 0.02), {"threshold": 0.05}, "am", "the model stays below 0.05 m"),
    (lambda t: pulse(t, arrives=0.0), {"window": (300.0, 7200.0)}, "a", "above 20 % of its maximum when the window op"),
    (lambda t: pulse(t, arrives=0.0), {"window": (900.0, 7200.0)}, "am", "highest when the window opens"),
    (lambda t: pulse(t, arrives=6900.0), {}, "am", "still rises when the window ends"),
    (lambda t: pulse(t), {"window": (9000.0, 1e4)}, "am", "the run spans 0 to 120 min, and the window is 150 to 16"),
    (lambda t: pulse(t), {"window": (0.0, 9000.0)}, "", "the run ends at 120 min, and the window is 0 to 15"),
    (lambda t: np.nan * t, {}, "am", "the run has no values"),
])  # fmt: skip
def test_what_the_window_cannot_tell_is_a_dash_and_a_sentence(value, rules, missing, note):
    """a: no arrival, m: no maximum. A far gauge printed 0.000, and one where the wave was already there 15.0."""
    t = np.arange(0, 7201, 4.0)
    row = scored(t, value(t), **rules)
    assert np.isnan([row.arrival, row.maximum]).tolist() == ["a" in missing, "m" in missing]
    text = scores.table([row])
    assert re.search(note, text), text
    cells = text.splitlines()[2].split()
    assert [cells[1] == "-", cells[2] == "-"] == ["a" in missing, "m" in missing]


def test_late_records_gaps_and_other_sampling_are_bridged():
    t = np.arange(0, 7201, 7.0)
    value = pulse(t)
    value[300:310] = np.nan
    at = np.arange(3000, 9000, 60.0)
    seen = pulse(at)
    seen[5] = np.nan
    row = scores.score(scores.Series("a", t, value), scores.Series("a", at, seen))
    assert row.variance_explained > 0.999
    assert row.window == (3000.0, t[-1])


def test_nothing_in_common_gives_no_figure_rather_than_an_error():
    t = np.arange(0, 600, 4.0)
    row = scores.score(scores.Series("a", t, pulse(t)), scores.Series("a", t + 1e5, np.full(t.size, np.nan)))
    assert np.isnan([row.variance_explained, row.arrival, row.observed_maximum]).all()
    text = scores.table([row])
    assert text.splitlines()[2].split()[:3] == ["a", "-", "-"] and "variance" not in text.lower()
    assert "the record has no values" in text
    row = scores.score(scores.Series("a", t, pulse(t)), scores.Series("a", t + 1e4, pulse(t)))
    assert row.window == (np.nan, np.nan) and "the run ends at 9.933 min, and the record begins" in scores.table([row])


def test_a_note_of_all_gauges_is_printed_once():
    rows = [scores.Score(name, notes=("the run ends at 60 min", *more)) for name, more in (("A", ()), ("B", ("dry",)))]
    assert scores.notes_of(rows) == [("all gauges", "the run ends at 60 min"), ("B", "dry")]
    assert scores.notes_of(rows[1:]) == [("B", "the run ends at 60 min; dry")]
    assert scores.table(rows).count("the run ends") == 1


def test_the_table_has_a_row_for_each_gauge_with_or_without_a_record():
    t = np.arange(0, 7201, 4.0)
    series = [scores.Series(n, t, pulse(t, 0.9)) for n in ("seen", "unseen")]
    text = scores.table(scores.scores(series, {"seen": scores.Series("seen", t, pulse(t))}))
    assert text.splitlines()[2].split() == "seen 63.7 63.7 +0.0 0.900 1.000 0.90 0.99 -0.007 0 to 120".split()
    assert text.splitlines()[3].split() == "unseen 63.7 - - 0.900 - - - - 0 to 120".split()
    assert "Arrival: first above 20 %" in text and "Variance explained: without the bias" in text


def test_times_are_counted_in_a_unit_that_suits_the_run():
    t = np.linspace(0, 30 * 86400.0, 1001)
    text = scores.table([scored(t, pulse(t / 600, arrives=1000.0))])
    assert "[days]" in text and text.splitlines()[2].split()[-3:] == ["0", "to", "30"]
    page = gauges.figure(gauge_output(t, {"a": np.sin(t / 1e5), "b": 1e-9 * t}))
    assert page.axes[-1].get_xlabel().startswith("Days after") and page.axes[-1].get_xlim()[1] == pytest.approx(30.0)


def test_a_gauge_file_keeps_the_rules_of_its_experiment_and_of_a_run_that_went_on():
    labels = {"gauge_windows": '{"a": [900.0, 7200.0]}', "gauge_threshold": 0.05, "gauge_arrival_fraction": 0.1}
    data = gauge_output(np.arange(3.0), {"a": np.zeros(3), "b": np.zeros(3)}).assign_attrs(labels)
    a, b = read_gauges(data)
    assert a.rules == scores.Rules((900.0, 7200.0), 0.05, 0.1) and b.rules == scores.Rules(threshold=0.05, fraction=0.1)
    later = data.assign_attrs({"gauge_windows_from_3600_s": "{}", "gauge_threshold_from_3600_s": 0.2})
    assert read_gauges(later)[0].rules == scores.Rules(threshold=0.2, fraction=0.1)
    new = labels | {"history": "written"}
    for seconds in (3000.0, 7200.0):  # from before these rules, or after them, with those of the beginning
        again = data.assign_attrs(continued_attributes(later.attrs, new, seconds))
        assert read_gauges(again)[0].rules == a.rules


def test_rows_without_a_time_are_left_out_of_seconds_and_of_dates(tmp_path):
    start = datetime.datetime(2024, 3, 1)
    rows = "time_s,elevation_m\n,9\n0,0.1\n60,0.2\n,9\n", "time,elevation_m\n,9\n{}:00Z,0.1\n{}:01Z,0.2\n,9\n"
    for text in rows:
        (tmp_path / "21418.csv").write_text(text.replace("{}", "2024-03-01T00"))
        found = read_observations(tmp_path, ["21418"], start)["21418"]
        assert found.time.tolist() == [0.0, 60.0] and found.value.tolist() == [0.1, 0.2]


def test_observations_that_cannot_be_used_are_explained(tmp_path):
    for content, said in (
        (b"seconds,metres\n1,2\n", "columns time_s and elevation_m"),
        (bytes(range(128, 256)), "a.csv cannot be read as a CSV table .*save it as text in UTF-8"),
        (b"time_s,elevation_m\nnoon,high\n", "a.csv, line 2: 'noon' in time_s is not a number; correct it"),
    ):
        (tmp_path / "a.csv").write_bytes(content)
        with pytest.raises(PlotError, match=said):
            read_observations(tmp_path, ["a"])


@pytest.mark.verify
def test_a_crowded_page_names_the_gauges_that_it_leaves_out(tsunami):
    t = np.arange(0, 10801, 600.0)
    with postprocess.open_output(tsunami[0]) as fields:
        page = postprocess.overview.tsunami(fields, gauges=gauge_output(t, {f"G{k}": np.sin(t) for k in range(11)}))
    note = next(text for text in page.texts if "Not shown: G8, G9, G10 (--kind gauges shows all)" == text.get_text())
    page.canvas.draw()  # which places labels
    last, draws = page.axes[-1], page.canvas.get_renderer()
    others = [thing.get_window_extent(draws) for thing in (last.get_legend(), last.xaxis.label)]
    assert not any(note.get_window_extent(draws).overlaps(other) for other in others)


def test_of_many_gauges_on_a_map_names_that_would_hide_each_other_are_left_out(tsunami):
    crowd = [scores.Series(f"G{k:02d}", np.zeros(1), np.zeros(1), 140.0 + 0.01 * k, 38.0) for k in range(20)]
    with postprocess.open_output(tsunami[0]) as fields:
        drawn = [maps.panels(fields, "eta", [0.0, 600.0], some).axes[:2] for some in (crowd, crowd[:3])]
    assert [len(axes.texts) for axes in drawn[1]] == [3, 0] and not drawn[0][1].texts
    assert 0 < len(drawn[0][0].texts) < 5
    assert all(len([line for line in axes.lines if line.get_marker() == "o"]) == 20 for axes in drawn[0])


@pytest.mark.verify
def test_a_figure_of_very_many_gauges_has_columns_and_names_those_that_do_not_fit():
    t = np.arange(0, 3601, 600.0)
    series = [scores.Series(f"G{k}", t, np.sin(t + k)) for k in range(99)]
    dataset = gauge_output(t, {"G0": np.sin(t)})
    page = gauges.figure(dataset, {"G98": series[98]}, series=series)
    corners = {(round(axes.get_position().x0, 2), -axes.get_position().y0): axes for axes in page.axes}
    titles = [axes.get_title(loc="left") or axes.get_title() for _, axes in sorted(corners.items())]
    assert titles == ["G98", *(f"G{k}" for k in range(95))] and page.get_size_inches()[1] < 45
    assert any(text.get_text().startswith("Not shown: G95, G96, G97 (") for text in page.texts)
    few = gauges.figure(dataset, series=series[:25])
    assert len(few.axes) == 25 and not any(text.get_text().startswith("Not shown") for text in few.texts)
    assert [axes.xaxis.get_tick_params()["labelbottom"] for axes in few.axes].count(True) == 2


def test_the_times_of_records_are_no_sensitivity():
    from swmodel.postprocess import sensitivity

    series = ("sensitivity_wind_record", [60.0, 120.0])
    data = xr.Dataset({"sensitivity_wind_by_record": series, "sensitivity_wind_time": series})
    data["sensitivity_wind"] = ((), 2.0, {"long_name": "sensitivity of J to wind", "units": "m"})
    assert sensitivity.numbers_in(data) == ["to wind: 2 m"]


def test_maps_of_sensitivity_are_per_area_without_waves_of_two_cells():
    from swmodel.postprocess import sensitivity

    y, x = np.mgrid[:6, :8]
    assert np.abs(sensitivity._smoothed((-1.0) ** x)[:, 1:-1]).max() < 1e-15
    assert np.abs(sensitivity._smoothed((-1.0) ** y)[1:-1]).max() < 1e-15
    land = np.where((x == 3) & (y == 2), np.nan, 2.0)
    np.testing.assert_array_equal(sensitivity._smoothed(land), land)
    data = output(nx=8, ny=6, x=(0, 8e3), y=(0, 12e3), depth=10.0).assign_attrs(
        cost_places='{"start": [0, 2e3], "end": [4e3, 2e3]}'
    )
    data["sensitivity_depth"] = data["depth"].copy(data=np.ones(data["depth"].shape)).assign_attrs(units="m")
    page = sensitivity.figure(data)
    assert np.nanmax(page.axes[0].images[0].get_array()) == pytest.approx(0.5)  # cells of 2 km2
    assert [list(line.get_ydata()) for line in page.axes[0].lines if len(line.get_xdata()) == 2] == [[2.0, 2.0]]


def test_mean_and_spread_of_an_ensemble_are_drawn():
    one = output(nx=6, ny=4, times=(0.0, 600.0), eta=1.0)
    members = xr.concat([one.assign(eta=k * one.eta) for k in (1.0, 2.0, 6.0)], "member")
    series = xr.concat(
        [gauge_output([0.0, 600.0], {"a": [0.0, k]}) for k in (1.0, 2.0, 6.0)], "member", data_vars="all"
    )
    page = postprocess.statistics.ensemble_page(
        members, series.assign_coords(gauge_name=gauge_output([0.0], {"a": [0.0]}).gauge_name)
    )
    mean, spread = (axes.images[0].get_array() for axes in page.axes if axes.images and axes.get_title("left"))
    np.testing.assert_allclose(mean, 3.0)
    np.testing.assert_allclose(spread, np.sqrt(7.0))
    band = next(axes for axes in page.axes if axes.get_title("left") == "a")
    assert len(band.lines) == 4 and band.lines[-1].get_ydata()[-1] == 3.0
    with pytest.raises(PlotError, match="a single run and no spread"):
        postprocess.statistics.ensemble_page(one)
    with pytest.raises(PlotError, match="give a file of fields or of gauges"):
        postprocess.statistics.ensemble_page(None, None)


def test_a_gauge_is_selected_by_its_name_and_scored_without_a_figure(tmp_path):
    time = np.arange(0.0, 600.0, 10.0)
    wave = np.exp(-(((time - 300.0) / 60.0) ** 2))
    gauge_output(time, {"Lisbon": wave, "Azores": 2 * wave}).to_netcdf(tmp_path / "gauges.nc")
    with postprocess.open_output(tmp_path / "gauges.nc") as data:
        np.testing.assert_allclose(data.sel(gauge="Azores").eta, 2 * wave)
    rows = "".join(f"{t},{x}\n" for t, x in zip(time, wave))
    (tmp_path / "Lisbon.csv").write_text(f"time_s,elevation_m\n{rows}")
    text = postprocess.score_table(tmp_path / "gauges.nc", tmp_path)
    assert re.search(r"^Lisbon .* 1\.00 +1\.00 ", text, re.MULTILINE) and "Azores" in text


# -- files and maps ---------------------------------------------------------------------------------------------------


def test_times_are_told_as_people_say_them():
    start = datetime.datetime(2011, 3, 11, 5, 46, 23)
    assert files.stamp(5400, start) == "T+01:30 (07:16 UTC)"
    assert files.stamp(5400) == "T+01:30"
    assert files.stamp(5399, datetime.datetime(2020, 1, 1)) == "T+01:30 (01:30 UTC)"
    assert files.stamp(0, None, 40 * 86400) == "day 0"
    assert files.stamp(31.5 * 86400, start) == "day 31.5 (2011-04-11)"
    assert files.stamp(2.5 * 365.25 * 86400) == "year 2.5"


def test_times_become_seconds_whatever_their_unit():
    assert files.seconds(output(times=(0, 2), units="hours since 2011-03-11 05:46:23", eta=0.0)).tolist() == [0, 7200]
    assert files.start_of(output(eta=0.0)) == datetime.datetime(2011, 3, 11, 5, 46, 23)
    assert files.start_of(output(units="seconds", eta=0.0)) is None
    nominal = output(units="seconds since 2000-01-01", eta=0.0)
    nominal["time"].attrs["comment"] = "nominal date: the run has no calendar"
    assert files.start_of(nominal) is None
    dates = xr.decode_cf(output(times=(0, 2), units="hours since 2011-03-11 05:46:23", eta=0.0))
    assert files.seconds(dates).tolist() == [0, 7200] and files.seconds(dates.isel(time=[1])).tolist() == [7200]
    assert files.start_of(dates) == datetime.datetime(2011, 3, 11, 5, 46, 23)
    with pytest.raises(PlotError, match="fortnights"):
        files.seconds(output(units="fortnights", eta=0.0))


def test_limits_are_symmetric_and_leave_out_a_lone_extreme():
    values = np.append(np.linspace(-1, 1, 10001), [80.0, np.nan])
    low, high = style.limits(values)
    assert low == -high
    assert 0.98 < high < 1.01
    assert style.limits(np.linspace(0.01, 5, 100))[0] == 0.0
    assert style.limits(np.full(4, np.nan)) == (-1.0, 1.0)
    assert style.limits(np.zeros(4)) == (-1.0, 1.0)


def test_a_map_at_60_degrees_is_twice_as_tall_as_one_at_the_equator():
    spans = [files.mesh_of(output(x=(0, 10), y=(m - 5, m + 5), spherical=True, eta=0.0)) for m in (0, 60)]
    assert spans[1].aspect / spans[0].aspect == pytest.approx(2.0)
    assert files.mesh_of(output(eta=0.0)).aspect == 1.0


def test_faces_of_a_closed_direction_are_drawn_half_a_cell_beyond_its_ends():
    data = output(nx=4, ny=4, u=1.0, eta=0.0)
    mesh = files.mesh_of(data)
    axes = style.new_figure(3, 3).add_axes((0, 0, 1, 1))
    image = maps.draw_field(axes, mesh, files.snapshot(data, "u", 0), None, "viridis")
    assert image.get_extent() == [-125.0, 1125.0, 0.0, 1000.0]  # km


def test_isochrones_stand_every_half_hour_and_carry_their_time(tsunami):
    data = files.open_output(tsunami[1])
    axes = style.new_figure(6, 6).add_axes((0, 0, 1, 1))
    maxima.draw_maximum(axes, data)
    shown = {text.get_text() for text in axes.texts}
    assert {"1:00", "1:30", "2:00"} <= shown
    assert all(text.split(":")[1] in ("00", "30") for text in shown)


def test_labels_of_a_narrow_map_and_of_its_colour_bar_do_not_overlap():
    page = maps.panels(
        output(x=(0.0, 1.5e5), y=(0.0, 1e4), nx=75, ny=5, eta=lambda t, x, y: x / 1e4 + 0 * (t + y)), "eta"
    )
    page.canvas.draw()
    for axes in page.axes:
        low, high = axes.get_ylim()
        shown = [text for text in axes.get_yticklabels() if low <= text.get_position()[1] <= high and text.get_text()]
        boxes = sorted((text.get_window_extent() for text in shown), key=lambda box: box.y0)
        assert all(lower.y1 <= upper.y0 for lower, upper in zip(boxes, boxes[1:]))


def test_large_numbers_are_set_with_a_power_of_ten():
    assert files.scaled(np.array([2.5e15]), "J") == (2.5, "10¹⁵ J")


def test_durations_are_drawn_in_the_unit_of_time_that_suits_them():
    data = output(eta=lambda t, x, y: 7200.0 + 3600.0 * (x / 1e6) + 0 * (t + y))
    data["eta"] = data["eta"].assign_attrs(units="s", long_name="time over the threshold")
    page = maps.panels(data, "eta", [0.0])
    assert page.axes[-1].get_ylabel() == "Time over the threshold [min]"
    assert 100.0 < page.axes[0].images[0].get_array().max() < 200.0


def test_land_is_grey_and_opaque_and_water_is_clear():
    wet = np.ones((9, 9), bool)
    wet[3:6, 3:6] = False
    colours = maps._land(wet)
    assert (colours[wet][:, 3] == 0).all() and (colours[~wet][:, 3] == 1).all()
    assert np.ptp(colours[~wet][:, :3], axis=1).max() < 0.02
    assert colours[4, 4, 0] > colours[3, 3, 0]


# -- plot -------------------------------------------------------------------------------------------------------------


def test_plot_makes_one_page_of_a_tsunami_from_its_three_files(tsunami, tmp_path, capsys):
    (tmp_path / "kpg1.csv").write_text(
        "time_s,elevation_m\n" + "".join(f"{t},{0.3 * np.sin(t / 400)}\n" for t in range(1020, 6961, 60))
    )
    (drawn,) = plot(tsunami, observations=tmp_path)
    assert drawn == tmp_path / "run.tsunami.png"
    assert_drawn(drawn, 800)
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("KPG1"))
    assert row.split()[-5:] == ["1.00", "+0.000", "17", "to", "116"]


@pytest.mark.parametrize(
    "chosen, kind",
    [([0], "maps"), ([1], "maximum"), ([2], "gauges"), later([0, 1], "tsunami"), later([2, 0], "tsunami")],
)
def test_plot_chooses_the_figure_by_what_the_files_hold(tsunami, tmp_path, chosen, kind):
    """Restarts beside them are passed over, and the user's settings are left alone."""
    paths, restart = [tsunami[n] for n in chosen], tmp_path / "a.restart.nc"
    write_restart(restart, sw.CartesianGrid(4, 3, (0, 1), (0, 1)), {"state_eta": np.zeros((3, 4))}, {"step": 1})
    before = dict(matplotlib.rcParams)
    (drawn,) = plot([restart, *paths])
    assert drawn == tmp_path / f"{paths[0].stem}.{kind}.png" and dict(matplotlib.rcParams) == before
    assert_drawn(drawn)


@pytest.mark.verify
@pytest.mark.parametrize("kind", ["auto", "budgets", "spectrum", "maps"])
def test_plot_draws_a_slow_flow(gyre, kind):
    (drawn,) = plot(gyre, kind=kind, variable="u" if kind == "maps" else None)
    assert drawn.name == f"gyre.{'circulation' if kind == 'auto' else kind}.png"
    assert_drawn(drawn)


@pytest.mark.verify
def test_files_that_one_page_cannot_show_get_pages_of_their_own(gyre, tsunami, tmp_path):
    spectra.of_fields(files.open_output(gyre), records=[0, 1]).to_netcdf(tmp_path / "spectra.nc")
    both = [gyre, tmp_path / "spectra.nc"]
    assert plot(both) == [tmp_path / "gyre.circulation.png", tmp_path / "spectra.spectrum.png"]
    assert plot(both, tmp_path / "a.png") == [tmp_path / "a.png", tmp_path / "a.spectrum.png"]
    assert plot(both, variable="eta") == [tmp_path / "gyre.maps.png"]
    assert [path.name for path in plot(tsunami[1:])] == ["maxima.gauges.png", "maxima.maximum.png"]


@pytest.mark.parametrize(
    "tables, beside, kinds",
    [
        ("[[forcing]]", [], ["circulation"]),
        ("[[forcing]]", ["maxima", "gauges"], ["circulation", "gauges", "maximum"]),
        ("[source]\n[[forcing]]", ["maxima"], ["tsunami"]),
        ("[initial]", ["gauges"], ["tsunami"]),
        ("[initial]", ["spectra"], ["maps", "spectrum"]),
        ("notes of mine", [], ["maps"]),
        ("[[boundary]]\nelevation.constituents.M2 = {}", ["maxima"], ["maps", "maximum"]),
        ("[[boundary]]\nelevation = 0.1", ["maxima"], ["tsunami"]),
    ],
)
def test_short_runs_have_the_page_of_a_tsunami_unless_wind_or_tides_drive_them(tables, beside, kinds):
    fields = output(times=(0.0, 3600.0), eta=0.0, u=0.0, v=0.0).assign_attrs(config=tables)
    assert postprocess.cli._choose({"fields": fields, **dict.fromkeys(beside)}, None) == kinds


def test_elevations_of_a_storm_or_a_tide_have_maps_and_their_maximum_without_isochrones(tsunami):
    for tables in ("[[forcing]]", "[[boundary]]\nelevation.constituents.M2 = {}"):
        fields = output(times=(0.0, 3600.0), eta=0.0).assign_attrs(config=tables)
        known = {"fields": fields, **dict.fromkeys(("maxima", "gauges"))}
        assert postprocess.cli._choose(known, None) == ["maps", "gauges", "maximum"]
        highest = files.open_output(tsunami[1]).assign_attrs(config=tables)
        axes = style.new_figure(6, 6).add_axes((0, 0, 1, 1))
        maxima.draw_maximum(axes, highest)
        assert maxima.heading_of(highest) == "Maximum elevation" and not axes.texts


def test_spectra_of_gauges_are_drawn(tsunami, tmp_path):
    assert_drawn(*plot(tsunami[2], output=tmp_path / "s.png", kind="spectrum"))


def test_an_animation_has_a_frame_for_every_record(gyre, tmp_path):
    from PIL import Image

    (drawn,) = plot(gyre, output=tmp_path / "a.gif", kind="animation")
    with Image.open(drawn) as picture:
        assert picture.n_frames == 4


def test_mp4_without_ffmpeg_is_refused_and_gif_is_the_default(gyre, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(PlotError, match="needs ffmpeg.*name a .gif"):
        plot(gyre, output=tmp_path / "a.mp4", kind="animation")
    assert postprocess.cli._output(None, {"fields": gyre}, "animation").name == "gyre.animation.gif"


@pytest.mark.parametrize("kind, name", [("animation", "a.gif"), ("maps", "a.png")])
def test_a_figure_for_which_there_is_no_space_leaves_the_older_one(gyre, tmp_path, kind, name):
    (tmp_path / name).write_bytes(b"older")
    before = os.listdir(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, limits[1]))  # what a quota does
    try:
        with pytest.raises(PlotError, match=f"{name} cannot be written"):
            plot(gyre, output=tmp_path / name, kind=kind)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (tmp_path / name).read_bytes() == b"older" and os.listdir(tmp_path) == before


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
def test_mp4_is_written_whatever_the_size_of_the_picture(tsunami, tmp_path):
    (drawn,) = plot(tsunami[0], output=tmp_path / "a.mp4", kind="animation")
    assert drawn.read_bytes()[4:8] == b"ftyp"


def test_a_figure_of_no_file_is_refused():
    with pytest.raises(PlotError, match="no file was given"):
        plot([])


@pytest.mark.parametrize("periodic", [later(""), "x"])
def test_what_the_model_writes_is_read(tmp_path, periodic):
    grid = sw.SphericalGrid(24, 18, (0, 360) if periodic else (170, 200), (20, 50), periodic=periodic)
    wet = np.ones(grid.shape, bool)
    wet[5:8, 9:13] = False
    static = {"wet": wet, "depth": np.where(wet, 4000.0, 0.0)}
    east = np.where(np.arange(24 + (not periodic)) > 2, 0.5, 0.0) * np.ones((18, 1))
    paths = [tmp_path / f"{name}.nc" for name in ("fields", "maxima", "gauges")]
    with FieldFile(paths[0], grid, ("eta", "u", "v"), static=static) as file:
        for k in range(3):
            file.append(600.0 * k, {"eta": np.full(grid.shape, 0.1 * k), "u": k * east, "v": np.zeros((19, 24))})
    maxima = {"maximum_elevation": np.where(wet, 0.2, np.nan), "arrival_time": np.where(wet, 600.0, np.nan)}
    write_fields(paths[1], grid, maxima, seconds=1200.0, static=static)
    with GaugeFile(paths[2], {"A 1": (185.0, 30.0), "B": (190.0, 31.0)}, grid) as file:
        file.append(np.arange(100) * 12.0, np.stack([np.sin(np.arange(100) / 9), np.zeros(100)], -1))

    fields = files.open_output(paths[0])
    mesh = files.mesh_of(fields)
    assert (mesh.periodic_x, mesh.periodic_y, mesh.spherical) == (bool(periodic), False, True)
    np.testing.assert_array_equal(files.wet_cells(fields), wet)
    np.testing.assert_allclose(mesh.area, grid.area_h, rtol=1e-12)
    assert files.start_of(fields) is None
    np.testing.assert_array_equal(files.seconds(fields), [0, 600, 1200])
    series = read_gauges(files.open_output(paths[2]))
    assert [(g.name, g.x, g.y) for g in series] == [("A 1", 185.0, 30.0), ("B", 190.0, 31.0)]
    np.testing.assert_allclose(series[0].value, np.sin(np.arange(100) / 9), rtol=1e-6)
    sums = budgets.budgets(fields, gravity=9.81)
    np.testing.assert_allclose(sums["mean_elevation"], [0, 0.1, 0.2], rtol=1e-6)
    assert_drawn(*plot(paths))
    assert_drawn(*plot(paths[0], kind="maps", variable="u"), 150)


@pytest.mark.verify
def test_the_advice_at_land_is_to_draw_a_box_which_the_command_line_takes(tmp_path, command):
    path, drawn = tmp_path / "coast.nc", tmp_path / "a.png"
    output(nx=40, ny=40, eta=lambda t, x, y: np.where(x < 4e5, np.nan, np.cos(x / 1e5) + 0 * y)).to_netcdf(path)
    assert "choose one at sea with --box X0 X1 Y0 Y1" in command.refused("plot", path, "--kind", "spectrum", status=1)
    assert command("plot", path, "--box", "5e5", "1e6", "0", "1e6", "-o", drawn)[0] == 0
    assert_drawn(drawn)
    with pytest.raises(PlotError, match="needs a file of fields, which .* writes; the ones given hold gauges"):
        gauge_output([0.0, 1.0], {"A": [1.0, 2.0]}).to_netcdf(tmp_path / "gauges.nc")
        plot(tmp_path / "gauges.nc", box=((0, 1), (0, 1)))


def test_the_command_line_prints_the_path_or_the_mistake(tsunami, tmp_path, command):
    assert command("plot", tsunami[1], "-o", tmp_path / "m.pdf")[:2] == (0, f"{tmp_path / 'm.pdf'}\n")
    assert (tmp_path / "m.pdf").read_bytes().startswith(b"%PDF")
    assert command.refused("plot", tmp_path / "nothing.nc", status=1).startswith("error: open_output: ")


def test_without_cmocean_there_are_colour_maps_all_the_same(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cmocean", None)
    assert style.colormap("balance").name == "RdBu_r"
    assert style.colormap("dense").N > 100


def test_the_package_needs_neither_jax_nor_pyplot():
    folder = pathlib.Path(postprocess.__file__).parent
    modules = sorted(f"swmodel.postprocess.{path.stem}" for path in folder.glob("*.py"))
    code = f"import sys, {', '.join(modules)}; sys.exit(bool({{'jax', 'matplotlib.pyplot'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_arrival_is_named_in_tenths_of_days_and_in_whole_minutes():
    day = 86400.0
    time = np.linspace(0.0, 20 * day, 2001)
    wave = scores.Series("mouth", time, np.where(time > 0.595 * day, 1.0, 0.0), rules=scores.Rules())
    assert "arrival 0.6 days" in gauges._summary(scores.score(wave))
    wave = scores.Series("mouth", time / 2000, np.where(time > 0.595 * day, 1.0, 0.0), rules=scores.Rules())
    assert re.search(r"arrival \d+ min", gauges._summary(scores.score(wave)))


def test_infinite_values_count_as_missing_with_a_warning():
    data = output(times=(0.0, 60.0), eta=lambda t, x, y: 0.1 + 0 * x + 0 * y, u=0.0, v=0.0, depth=100.0)
    data["eta"].values[1, 3, 4] = np.inf
    with pytest.warns(UserWarning, match="eta is infinite in 1 cells, which count as missing"):
        assert np.isnan(files.snapshot(data, "eta", 1)[3, 4])
    with pytest.warns(UserWarning, match="eta is infinite"):
        volume = budgets.budgets(data)["volume"].values
    np.testing.assert_allclose(volume, 100.1e12, rtol=4e-3)  # without one cell of 320
