"""Tides in channels with known solutions: a quarter wave, a Kelvin wave, Taylor's amphidrome."""

import datetime
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import swmodel as sw

from ..forcing.constituents import MIDDLE, nodal, period
from ..models.shallow_water import ShallowWater
from ..stepping.explicit import TimeStepper
from .case import Case, Mark, Outcome, Panel, Twin, convergence

G, T = 9.81, period("M2")
OMEGA = 2 * np.pi / T

# -- a channel, closed in the east, with cos k (L - x) / cos k L -------------------------------------------------------

LENGTH, DEPTH = 150e3, 20.0
K = OMEGA / np.sqrt(G * DEPTH)


def channel(x: np.ndarray | float, y: np.ndarray | float = 0.0) -> Any:
    """The amplitude of the standing wave over that at the mouth."""
    return np.cos(K * (LENGTH - x)) / np.cos(K * LENGTH) + 0.0 * y


def _channel(cells):
    grid = sw.CartesianGrid(cells, 2, (0.0, LENGTH), (0.0, 2 * LENGTH / cells), "y")
    tide = sw.Tide({"M2": (channel, 0.0)})
    return sw.ShallowWater(
        grid, DEPTH, gravity=G, linear=True, boundaries=(sw.Clamped("west", tide),), communicator="serial"
    )


def error_of_channel(cells: int) -> tuple[float, Panel]:
    """The largest error of the elevation after a period over the largest elevation, from the exact state."""
    model, steps = _channel(cells), round(T * cells / 8000.0)
    state = sw.Simulation(model, model.state(eta=channel), sw.RK4(T / steps)).run(steps=steps)
    x, found = model.grid.x_centres, np.asarray(state.eta)[0]
    lines = {"model": (x / 1e3, found), "exact": (x / 1e3, channel(x))}
    panel = Panel("elevation after a period", "lines", lines, labels=("x [km]", "m"))
    return float(np.abs(found - channel(x)).max() / abs(channel(LENGTH))), panel


def _twin():
    model = _channel(12)
    return Twin(model, model.state(eta=channel), sw.RK4(300.0))


START = datetime.datetime(2024, 1, 1)
FACTOR, ANGLE = nodal("M2", START, MIDDLE)  # f and V + u, so that the tide of the file is cos(omega t)
CHANNEL = f"""
[grid]
type = "cartesian"
nx = 40
ny = 2
x = [0.0, {LENGTH}]
y = [0.0, 8e3]
periodic = "y"
[bathymetry]
type = "flat"
depth = {DEPTH}
[model]
linear = true
[stepper]
type = "rk4"
dt = {T / 300}
[initial]
type = "formula"
eta = "cos({K} * ({LENGTH} - x)) / {np.cos(K * LENGTH)}"
[[boundary]]
type = "clamped"
sides = "west"
[boundary.elevation.constituents.M2]
amplitude = "cos({K} * ({LENGTH} - x)) / {FACTOR * np.cos(K * LENGTH)}"
phase = {np.rad2deg(ANGLE)}
[[output.fields]]
file = "channel.nc"
variables = ["eta"]
every = {T / 2}
[run]
until = {2 * T}
start = {START.isoformat()}Z
"""


def channel_error() -> float:
    """The largest error over the amplitude, after half a period and after whole periods, by an experiment file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "channel.toml"
        file.write_text(CHANNEL)
        command = [sys.executable, "-m", "swmodel", "run", str(file), "--output", folder, "--overwrite"]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        with xr.open_dataset(Path(folder) / "channel.nc", decode_times=False) as run:
            eta, x = run.eta.values[:, 0], run.xh.values
    exact = np.array([1.0, -1.0, 1.0, -1.0, 1.0])[:, None] * channel(x)
    return float(np.abs(eta - exact).max() / abs(channel(LENGTH)))


# -- Kelvin waves ------------------------------------------------------------------------------------------------------


def amplitude_and_phase(model: ShallowWater, stepper: TimeStepper, spin_up: int) -> np.ndarray:
    """Complex elevation E with eta = Re(E exp(i omega t)), from two states a quarter of a period apart."""
    quarter = round(T / 4 / stepper.dt)
    begin = 4 * quarter * spin_up
    simulation = sw.Simulation(model, model.at_rest(), stepper)
    simulation.run(steps=begin)
    real = np.asarray(simulation.state.eta)
    simulation.run(steps=quarter)
    return real - 1j * np.asarray(simulation.state.eta)


def kelvin(f: float, depth: float) -> tuple[Callable, Callable]:
    """(amplitude, phase lag [degrees]) as functions, of the wave that travels east along the southern coast."""
    c = np.sqrt(G * depth)
    size = lambda x, y: np.exp(-f * y / c) + 0.0 * x  # noqa: E731
    lag = lambda x, y: np.rad2deg(OMEGA * x / c) + 0.0 * y  # noqa: E731
    return size, lag


def kelvin_error() -> float:
    """A Kelvin wave enters in the west and leaves in the east: the largest error over the amplitude."""
    f, depth, nx, ny, dx = 1.4e-4, 200.0, 48, 60, 12.5e3
    grid = sw.CartesianGrid(nx, ny, (0.0, nx * dx), (0.0, ny * dx))
    wave = kelvin(f, depth)
    sides = (sw.Flather("west", incoming=sw.Tide({"M2": wave}, ramp=T)), sw.Flather("east"))
    model = sw.ShallowWater(grid, depth, gravity=G, linear=True, coriolis=sw.FPlane(f), boundaries=sides)
    found = amplitude_and_phase(model, sw.ForwardBackward(T / 4 / 80), 3)
    x, y = grid.coordinates("h")
    exact = wave[0](x, y) * np.exp(-1j * np.deg2rad(wave[1](x, y)))
    return float(np.abs(found - exact).max())


def taylor(x: np.ndarray, y: np.ndarray, f: float, depth: float, width: float, modes: int = 24) -> np.ndarray:
    """Taylor's complex elevation in x < 0, for an incident Kelvin wave of amplitude 1 at (0, 0) and a wall at x = 0.

    Taylor (1922), doi:10.1112/plms/s2-20.1.148: the reflected Kelvin wave and Poincare modes make u = 0 at the wall.
    """
    c = np.sqrt(G * depth)
    k, n = OMEGA / c, np.arange(1, modes + 1)
    l = n * np.pi / width
    s = np.sqrt(l**2 + (f**2 - OMEGA**2) / c**2)
    a = -1j * (f**2 - OMEGA**2) * OMEGA * l / (G * (OMEGA**2 * l**2 - f**2 * s**2))
    b, at_cos = -1j * f * s * a / (OMEGA * l), 1j * G * s * a / OMEGA
    at_sin = (G * l * a - 1j * OMEGA) / f
    points = (np.arange(modes + 1) + 0.5) * width / (modes + 1)
    angle = points[:, None] * l
    matrix = np.hstack(
        [-(c / depth) * np.exp(f * (points - width) / c)[:, None], at_cos * np.cos(angle) + at_sin * np.sin(angle)]
    )
    share = np.linalg.solve(matrix, -(c / depth) * np.exp(-f * points / c))
    found = np.exp(-f * y / c - 1j * k * x) + share[0] * np.exp(f * (y - width) / c + 1j * k * x)
    for m in range(modes):
        found = found + share[m + 1] * (a[m] * np.cos(l[m] * y) + b[m] * np.sin(l[m] * y)) * np.exp(s[m] * x)
    return found


def amphidrome_cells() -> float:
    """The distance [cells] of the amphidrome nearest the wall from Taylor's."""
    f, depth, width, nx, ny = 1.2e-4, 70.0, 400e3, 50, 25
    dx = width / ny
    grid = sw.CartesianGrid(nx, ny, (-nx * dx, 0.0), (0.0, width))
    side = sw.Flather("west", incoming=sw.Tide({"M2": kelvin(f, depth)}, ramp=T))
    model = sw.ShallowWater(grid, depth, gravity=G, linear=True, coriolis=sw.FPlane(f), boundaries=(side,))
    found = np.abs(amplitude_and_phase(model, sw.ForwardBackward(T / 4 / 60), 5))
    near = slice(nx // 4, None)  # the first one from the wall
    j, i = np.unravel_index(np.argmin(found[:, near]), found[:, near].shape)
    x, y = grid.x_centres[near][i], grid.y_centres[j]
    fine = np.linspace(grid.x_centres[near][0], 0.0, 800), np.linspace(0.0, width, 400)
    exact = np.abs(taylor(fine[0][None, :], fine[1][:, None], f, depth, width))
    row, column = np.unravel_index(np.argmin(exact), exact.shape)
    return float(np.hypot(x - fine[0][column], y - fine[1][row]) / dx)


def _measure(resolutions):
    found = convergence("channel", resolutions, error_of_channel)
    return Outcome({"channel_error": channel_error(), "channel_order": found.values["channel_order"]}, found.panels)


Case(
    name="tidal_channel",
    group="tides",
    title="Barotropic tide in a channel",
    tests="a tide through an open side, resonant with a quarter wave",
    source="Bishnu et al. (2024)",
    doi="10.1029/2022MS003545",
    equation="eta = cos k (L - x) / cos k L cos(omega t),  k = omega / sqrt(g H)",
    measure=_measure,
    marks=(
        Mark("channel_error", "largest error over the amplitude, by an experiment file, 40 cells", most=1e-3),
        Mark("channel_order", "order of convergence in space and time", least=1.9),
    ),
    resolutions=(40, 80),
    quick=(40, 80),
    norm="largest error, relative, after a period",
    twin=_twin,
)
Case(
    name="tidal_kelvin",
    group="tides",
    title="Kelvin wave through open sides",
    tests="radiation of a wave that the coast holds",
    source="Bishnu et al. (2024)",
    doi="10.1029/2022MS003545",
    equation="eta = exp(-f y / c) cos(omega (t - x / c))",
    measure=lambda _: Outcome({"kelvin_error": kelvin_error()}),
    marks=(Mark("kelvin_error", "largest error over the amplitude, 48 x 60 cells", most=0.012),),
)
Case(
    name="amphidrome",
    group="tides",
    title="Taylor's amphidrome",
    tests="reflection of a Kelvin wave at the head of a gulf",
    source="Taylor (1922)",
    doi="10.1112/plms/s2-20.1.148",
    equation="two Kelvin waves and Poincare modes, with u = 0 at the head",
    measure=lambda _: Outcome({"amphidrome_cells": amphidrome_cells()}),
    marks=(Mark("amphidrome_cells", "distance from Taylor's amphidrome [cells]", most=0.6),),
)
