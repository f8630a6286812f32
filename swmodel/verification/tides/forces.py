"""Forces of the moon, the wind and the air pressure with known responses."""

import datetime
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import swmodel as sw
from swmodel.defaults import AIR_DENSITY, WATER_DENSITY
from swmodel.forcing.constituents import EQUILIBRIUM

from ...dynamics.clock import Time
from ...dynamics.layer import LayerFlow
from ...dynamics.system import System
from ...fields.field import Value
from ...fields.state import State
from ...stepping.steps import History
from ..case import Case, Mark, Outcome
from .channels import G, T, amplitude_and_phase


def equilibrium_error() -> float:
    """The largest departure from the equilibrium tide of M2 over its largest value, in a small, deep basin."""
    grid = sw.SphericalGrid(8, 8, (20.0, 23.0), (40.0, 43.0))
    model = sw.ShallowWater(
        grid,
        10e3,
        gravity=G,
        linear=True,
        forcing=(sw.TidalPotential(("M2",), ramp=T),),
        dissipation=(sw.LinearDrag(1e-5),),
    )
    found = amplitude_and_phase(model, sw.ForwardBackward(T / 4 / 250), 2)
    longitude, latitude = map(np.deg2rad, grid.coordinates("h"))
    exact = np.prod(EQUILIBRIUM["M2"]) * np.cos(latitude) ** 2 * np.exp(2j * longitude)
    area = grid.area_h * np.ones(grid.shape)
    exact = exact - np.sum(exact * area) / np.sum(area)
    return float(np.abs(found - exact).max() / np.abs(exact).max())


def at_rest_under(forcing: Any, cells: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """(x, eta) in a basin 100 km long and 50 m deep, when it has come to rest under a force."""
    grid = sw.CartesianGrid(cells, 2, (0.0, 100e3), (0.0, 10e3), "y")
    model = sw.ShallowWater(grid, 50.0, gravity=G, linear=True, forcing=(forcing,), dissipation=(sw.LinearDrag(7e-4),))
    state = sw.Simulation(model, model.at_rest(), sw.SSPRK3(100.0)).run(steps=900)
    return grid.x_centres, np.asarray(state.eta)[0]


def setup_error() -> float:
    """The slope under a wind of 10 m s-1 and C_D = 1e-3 over tau / (rho g h), less 1."""
    x, eta = at_rest_under(sw.Wind(x=10.0, drag=1e-3))
    slope = (eta[-1] - eta[0]) / (x[-1] - x[0])
    return float(abs(slope * WATER_DENSITY * G * 50.0 / (AIR_DENSITY * 1e-3 * 100.0) - 1.0))


def barometer_cm() -> float:
    """The fall of the sea surface under an additional 1 hPa [cm]."""
    x, eta = at_rest_under(sw.AirPressure(lambda x, y: 1e5 + 100.0 * (x > 50e3) + 0 * y))
    return float(100.0 * (eta[0] - eta[-1]))


def proudman_error() -> float:
    """A pressure wave at half the speed of long waves: the response over 4/3 of the inverse barometer, less 1.

    Proudman (1929), doi:10.1111/j.1365-246X.1929.tb05408.x: eta = -p / (rho g) / (1 - Fr^2).
    """
    depth, cells = 100.0, 48
    length = 0.5 * np.sqrt(G * depth) * T
    grid = sw.CartesianGrid(cells, 2, (0.0, length), (0.0, 2 * length / cells), "xy")
    lag = lambda x, y: 360.0 * x / length + 0.0 * y  # noqa: E731
    force = sw.AirPressure(sw.Tide({"M2": (100.0, lag)}, ramp=5 * T))
    model = sw.ShallowWater(grid, depth, gravity=G, linear=True, forcing=(force,))
    found = np.abs(amplitude_and_phase(model, sw.SSPRK3(T / 4 / 50), 6)).mean()
    return float(abs(found * WATER_DENSITY * G / 100.0 * 0.75 - 1.0))


START = datetime.datetime(2008, 9, 8, 6)
PUT_IN = {"M2": (1.0, 40.0), "S2": (0.4, 75.0), "O1": (0.2, 200.0), "K1": (0.3, 310.0)}


@sw.pytree
class Given(sw.Term):
    """d eta/dt with which the state after a step of Exact has the given elevation."""

    elevation: Any = sw.parameter("h", "m")

    def __call__(self, flow: LayerFlow, time: Time) -> tuple:
        return 0.0, 0.0

    def continuity(self, flow: LayerFlow, time: Time) -> Value:
        return (self.elevation - flow.eta) * (1.0 / time.dt)


@sw.pytree
class Exact(sw.TimeStepper):
    """The step x + dt F(x, t + dt)."""

    dt: Any = sw.time_step()

    def amplification(self, z: np.ndarray) -> np.ndarray | float:
        return 0.0 * np.abs(z)  # the integrated equation has neither waves nor decay

    def step(self, equations: System, state: State, history: History, time: Time) -> tuple:
        return state + self.dt * equations.tendency(state, time + 1.0), history


def harmonic_error() -> float:
    """The largest relative error of harmonic constants: a given tide is fitted during a run with a restart."""
    grid = sw.CartesianGrid(3, 3, (0.0, 3e5), (0.0, 3e5))

    def simulation():
        model = sw.ShallowWater(
            grid, 1.0, gravity=1e-9, linear=True, dissipation=(Given(sw.Tide(PUT_IN, start=START)),)
        )
        made = sw.Simulation(model, model.at_rest(), Exact(dt=1200.0), start=START)
        return made.harmonics(folder / "tide.nc", tuple(PUT_IN), begin=86400.0)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first = simulation().restart(folder / "restart.nc")
        first.run(steps=1277)
        second = simulation()
        second.resume(folder / "restart.nc")
        second.run(until=30 * 86400.0)
        with xr.open_dataset(folder / "tide.nc", decode_times=False) as found:
            errors = []
            for key, (amplitude, lag) in PUT_IN.items():
                wave = found[f"eta_amplitude_{key}"] * np.exp(1j * np.deg2rad(found[f"eta_phase_{key}"]))
                exact = amplitude * np.exp(1j * np.deg2rad(lag))
                errors.append(np.abs(wave.values[1, 1] - exact) / amplitude)
    return float(max(errors))


def _case(measure, name, title, tests, source, doi, equation, **mark):
    Case(
        name=name,
        group="tides",
        title=title,
        tests=tests,
        source=source,
        doi=doi,
        equation=equation,
        measure=lambda _: Outcome({measure.__name__: measure()}),
        marks=(Mark(measure.__name__, **mark),),
    )


_case(
    equilibrium_error,
    "equilibrium_tide",
    "Equilibrium tide of a small deep basin",
    "the tidal potential",
    "Gill (1982), section 9.8",
    "",
    "eta = potential / g, less its mean",
    meaning="largest departure from the equilibrium tide over its largest value",
    most=0.003,
)
_case(
    setup_error,
    "wind_setup",
    "Setup under a steady wind",
    "the drag law of the wind",
    "Gill (1982), section 9.9",
    "",
    "d eta/dx = tau / (rho g H)",
    meaning="slope over tau / (rho g H), less 1",
    most=3e-8,
)
_case(
    barometer_cm,
    "barometer",
    "Inverse barometer",
    "the gradient of the air pressure",
    "Gill (1982), section 9.9",
    "",
    "eta = - p / (rho g)",
    meaning="how far the sea stands lower under 1 hPa more [cm]",
    least=0.99,
    most=1.0,
)
_case(
    proudman_error,
    "proudman",
    "Wave under a moving air pressure",
    "the response to a moving force",
    "Proudman (1929)",
    "10.1111/j.1365-246X.1929.tb05408.x",
    "eta = - p / (rho g) / (1 - U^2 / g H)",
    meaning="response at half the speed of long waves over 4/3 of the inverse barometer, less 1",
    most=0.008,
)
_case(
    harmonic_error,
    "harmonic_analysis",
    "Harmonic analysis of a known tide",
    "fits of constituents during a run, over a restart",
    "Foreman (1977), Pacific Marine Science Report 77-10",
    "",
    "eta = sum_k a_k cos(omega_k t - g_k)",
    meaning="largest relative error of the constants",
    most=1e-13,
)
