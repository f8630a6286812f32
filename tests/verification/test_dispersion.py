"""Poincare waves on the C-grid have their exact discrete frequency, whatever the form of the vorticity flux.

omega^2 = f^2 cos^2(k dx / 2) cos^2(l dy / 2) + g H (4 / dx^2 sin^2(k dx / 2) + 4 / dy^2 sin^2(l dy / 2))
"""

import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel.grids.bathymetry import onto_grid
from tests.selection import now

from .cases import NAMED, plane, take_steps, tendency

F, G, H, DX, DY = 1e-4, 9.81, 500.0, 1e4, 1e4
WAVES = [(1, 0), (0, 1), (1, 1), (2, -3), (5, 4), (6, 5), (6, 0), (-4, 2)]


def amplitudes(model, wave, vector):
    """The 3 complex amplitudes of the tendency of the wave with amplitudes `vector`,
    and what else the tendency holds."""
    k, l = 2 * np.pi * wave[0] / (12 * DX), 2 * np.pi * wave[1] / (10 * DY)
    phase = [np.exp(1j * (k * x + l * y)) for x, y in map(model.grid.coordinates, "uvh")]
    fields = [a * p for a, p in zip(vector, phase)]
    real, imaginary = (tendency(model, model.state(*parts)) for parts in (np.real(fields), np.imag(fields)))
    found = [np.asarray(r) + 1j * np.asarray(i) for r, i in zip(*((s.u, s.v, s.eta) for s in (real, imaginary)))]
    means = np.array([np.mean(t / p) for t, p in zip(found, phase)])
    return means, max(np.abs(t - m * p).max() for t, m, p in zip(found, means, phase))


@pytest.mark.parametrize(**NAMED)
def test_poincare_waves_have_the_exact_discrete_frequency(momentum):
    model = sw.ShallowWater(plane(periodic="xy"), H, coriolis=sw.FPlane(F), momentum=momentum, linear=True)
    scales = np.array([1.0, 1.0, np.sqrt(H / G)])
    for wave in WAVES:
        columns, rests = zip(*(amplitudes(model, wave, scales * unit) for unit in np.eye(3)))
        x, y = np.pi * wave[0] / 12, np.pi * wave[1] / 10
        turning, gravity = (F * np.cos(x) * np.cos(y)) ** 2, G * H * 4 * ((np.sin(x) / DX) ** 2 + (np.sin(y) / DY) ** 2)
        omega = np.sqrt(turning + gravity)
        found = np.linalg.eigvals(np.array(columns).T / scales[:, None])
        assert np.abs(found.real).max() < 1e-12 * omega
        np.testing.assert_allclose(sorted(found.imag), [-omega, 0.0, omega], rtol=1e-12, atol=1e-12 * omega)
        assert max(rests) < 1e-12 * omega


def test_the_flow_turns_to_the_right_where_f_is_positive():
    model = sw.ShallowWater(plane(periodic="xy"), H, coriolis=sw.FPlane(F))
    rates = tendency(model, model.state(u=1.0))
    np.testing.assert_allclose(rates.v, -F, rtol=1e-12)
    rates = tendency(model, model.state(v=1.0))
    np.testing.assert_allclose(rates.u, F, rtol=1e-12)


def test_water_flows_down_the_slope_of_the_surface():
    model = sw.ShallowWater(plane(), H)
    rates = tendency(model, model.state(eta=lambda x, y: 2e-5 * x - 1e-5 * y))
    np.testing.assert_allclose(rates.u[:, :-1], -G * 2e-5, rtol=1e-9)
    np.testing.assert_allclose(rates.v[:-1], G * 1e-5, rtol=1e-9)
    assert (rates.u[:, -1] == 0).all() and (rates.v[-1] == 0).all()


@pytest.mark.verify
def test_waves_over_a_floor_that_cells_do_not_resolve_travel_as_over_its_harmonic_mean():
    """A seiche over blocks of 16 km, 1 or 4 km deep at random, in cells of 4 km and in cells of 64 km."""
    length, block, rng = 2048e3, 16e3, np.random.default_rng(3)
    floor = np.repeat(rng.choice([1000.0, 4000.0], int(length / block)), 4)
    y, x = 1e5 * np.array([-0.5, 0.5, 1.5, 2.5, 3.5, 4.5]), 4e3 * (np.arange(floor.size) + 0.5)
    axes = {"y": ("y", y, {"units": "m"}), "x": ("x", x, {"units": "m"})}
    file = xr.DataArray(-np.tile(floor, (y.size, 1)), dims=("y", "x"), coords=axes, name="elevation")
    seconds = 1.5 * length / np.sqrt(G / np.mean(1.0 / floor))  # three quarters of a period

    def level(cells, method):
        grid = sw.CartesianGrid(cells, 4, (0.0, length), (0.0, 4e5))
        model = sw.ShallowWater(grid, onto_grid(file, grid, method=method), linear=True, dtype="float64")
        steps = int(np.ceil(seconds / (0.4 * (length / cells) / 200.0)))
        start = model.state(eta=lambda x, y: np.cos(np.pi * x / length) + 0 * y)
        simulation = sw.Simulation(model, start, sw.SSPRK3(seconds / steps))
        simulation.run(steps=steps)
        return np.asarray(simulation.state.eta)[0].reshape(32, -1).mean(axis=1)

    resolved = level(floor.size, "average")
    error = {method: np.abs(level(32, method) - resolved).max() for method in ("harmonic", "average")}
    assert error["harmonic"] < 0.1 and error["average"] > 0.5, error


# -- an inertial oscillation -------------------------------------------------------------------------------------------

DAYS = 100
STEPPERS = (sw.AB2(200.0), sw.AB3(200.0), sw.SSPRK3(200.0), sw.RK4(200.0), sw.ForwardBackward(200.0))


@pytest.mark.parametrize("stepper", now(STEPPERS, STEPPERS[0], *STEPPERS[3:]), ids=lambda s: type(s).__name__)
def test_an_inertial_oscillation_is_kept_for_a_hundred_days(stepper):
    """Of 1 m/s, it turns by f dt a step and keeps its speed to 1 %; AB2's epsilon takes its share."""
    model = sw.ShallowWater(sw.CartesianGrid(3, 3, (0.0, 3e6), (0.0, 3e6), "xy"), 1000.0, coriolis=sw.FPlane(F))
    steps = round(DAYS * 86400 / 200.0)
    state, _ = take_steps(model, stepper, model.state(u=1.0), steps)
    kept = stepper.amplification(1j * F * 200.0) ** steps
    speed, phase = np.hypot(state.u, state.v), np.arctan2(-np.asarray(state.v), np.asarray(state.u))
    np.testing.assert_allclose(speed, kept, rtol=2e-3)  # the first, lower-order steps are in it
    assert isinstance(stepper, sw.AB2) or abs(kept - 1) < 0.01
    error = (phase - F * DAYS * 86400 + np.pi) % (2 * np.pi) - np.pi
    assert np.abs(error).max() < (F * 200.0) ** 2 * F * DAYS * 86400
    assert np.abs(state.eta).max() < 1e-12
