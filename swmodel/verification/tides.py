"""Forces of the moon, the wind and the air pressure with known responses, and the sides that tides enter through.

Of open sides: the transmission of an incoming wave, and the reflection of an outgoing one, for each kind of open side.

    entered    the amplitude in the domain of a wave of 1 cm and 2 hours that enters in the west, over its own; it
    leaves
               in the east through a Flather side with a sponge
    returned   the largest elevation after a pulse 8 cells wide has met the side, over that of the pulse at the start

The time scale of RadiationNudging is 10 minutes for the incoming wave, and a day, its default, for the outgoing pulse.
The channel has 60 cells of 10 km and is 1000 m deep, without friction or rotation.
"""

import datetime
import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import swmodel as sw

from ..defaults import AIR_DENSITY, WATER_DENSITY
from ..dynamics.clock import Time
from ..dynamics.layer import LayerFlow
from ..dynamics.system import System
from ..fields.field import Value
from ..fields.state import State
from ..forcing.constituents import EQUILIBRIUM
from ..output.products.means import Harmonics
from ..stepping.steps import History
from .case import Case, Mark, Outcome, Panel
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


def at_rest_under(forcing: Any) -> tuple[np.ndarray, np.ndarray]:
    """(x, eta) in a basin 100 km long and 50 m deep, when it has come to rest under a force."""
    grid = sw.CartesianGrid(20, 2, (0.0, 100e3), (0.0, 10e3), "y")
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
        return made.product(folder / "tide.nc", Harmonics(tuple(PUT_IN), begin=86400.0))

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


N, DX, DEPTH, GRAVITY = 60, 1e4, 1000.0, 9.81
CELERITY = np.sqrt(GRAVITY * DEPTH)
PERIOD, STEP = 7200.0, 40.0  # [s]
SIDES: dict[str, Callable[..., Any]] = {
    "clamped": lambda side, wave=0.0: (sw.Clamped(side, wave),),
    "flather": lambda side, wave=0.0: (sw.Flather(side, incoming=wave),),
    "flather_elevation": lambda side, wave=0.0: (sw.Flather(side, elevation=wave),),
    "chapman_flather": lambda side, wave=0.0: (sw.ChapmanFlather(side, incoming=wave),),
    "radiation_nudging": lambda side, wave=None: (
        sw.RadiationNudging(side) if wave is None else sw.RadiationNudging(side, incoming=wave, inward=600.0),
    ),
    "sponge_and_flather": lambda side, wave=0.0: (sw.Flather(side, incoming=wave), _sponge(side, wave)),
    "sponge_with_currents": lambda side, wave=0.0: (
        sw.Flather(side, incoming=wave),
        _sponge(side, wave, velocity_x=_current(wave)),
    ),
}


def _sponge(side, wave, **velocities):
    return sw.Sponge(side, width=15 * DX, rate=5 * CELERITY / (15 * DX), elevation=wave, **velocities)


def _current(wave):
    """The velocity u = eta sqrt(g / H) of a wave that enters in the west; 0 of water at rest."""
    return sw.Records(wave.times, CELERITY / DEPTH * wave.values) if isinstance(wave, sw.Records) else 0.0


def _model(boundaries):
    grid = sw.CartesianGrid(N, 4, (0.0, N * DX), (0.0, 4 * DX), "y")
    return sw.ShallowWater(grid, DEPTH, gravity=GRAVITY, linear=True, boundaries=boundaries)


@functools.cache
def pulse(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """(elevation (n, nx) over that of the pulse, times (n,) [s]) while the pulse meets an eastern side of a kind."""
    shape = lambda x, y: np.exp(-((((x / DX) - 0.5 * N) / 8) ** 2)) + 0.0 * y  # noqa: E731
    model = _model((*SIDES[kind]("east"), sw.Flather("west")))  # which holds the level
    simulation = sw.Simulation(
        model, model.state(eta=shape, u=lambda x, y: CELERITY / DEPTH * shape(x, y)), sw.ForwardBackward(STEP)
    )
    found, times = [], []
    for _ in range(3):
        simulation.run(steps=round(0.3 * N * DX / CELERITY / STEP))
        found.append(np.asarray(simulation.state.eta)[0])
        times.append(simulation.time)
    return np.array(found), np.array(times)


def returned(kind: str) -> float:
    """The share of a pulse that is in the domain after it has met the side."""
    return float(np.abs(pulse(kind)[0][-1]).max())


def entered(kind: str) -> float:
    """The amplitude in the domain of an incoming wave, over its amplitude outside."""
    ramp, size = 2 * PERIOD, 0.01
    angle = lambda times: 2.0 * np.pi * times / PERIOD  # noqa: E731
    times = np.arange(0.0, 8 * PERIOD, 100.0)
    share = 0.5 - 0.5 * np.cos(np.pi * np.minimum(times / ramp, 1.0))
    values = np.broadcast_to((size * share * np.sin(angle(times)))[:, None, None], (times.size, 4, N))
    model = _model((*SIDES[kind]("west", sw.Records(times, values)), *SIDES["sponge_and_flather"]("east")))
    simulation = sw.Simulation(model, model.at_rest(), sw.ForwardBackward(STEP))
    simulation.run(steps=round(6 * PERIOD / STEP))
    now = np.asarray(simulation.state.eta)[0, N // 2]
    simulation.run(steps=round(PERIOD / 4 / STEP))
    return float(np.hypot(now, np.asarray(simulation.state.eta)[0, N // 2]) / size)


def _measure(kind):
    def measure(_):
        x, (eta, _times) = (np.arange(N) + 0.5) * DX / 1e3, pulse(kind)
        lines = {name: (x, values) for name, values in zip(("before the side", "at it", "after it"), eta)}
        panel = Panel(f"a pulse meets {kind}", "lines", lines, labels=("x [km]", "elevation [1]"))
        values = {f"entered_{kind}": entered(kind), f"returned_{kind}": returned(kind)}
        return Outcome(values, panels=(panel,))

    return measure


for _kind, (_least, _most, _back) in {  # the least and the most that enters, the most that comes back
    "clamped": (0.97, 1.02, 1.02),
    "flather": (0.97, 1.02, 0.03),
    "flather_elevation": (0.45, 0.55, 0.03),
    "chapman_flather": (0.97, 1.02, 0.04),
    "radiation_nudging": (0.8, 0.95, 0.13),
    "sponge_and_flather": (0.6, 0.7, 0.02),
    "sponge_with_currents": (0.95, 1.02, 0.02),
}.items():
    Case(
        name=f"open_side_{_kind}",
        group="tides",
        title=f"Waves through a side of kind {_kind}",
        tests="transmission and reflection of waves at open sides",
        source="d'Alembert's solution",
        equation="eta = f(x - sqrt(g H) t)",
        measure=_measure(_kind),
        marks=(
            Mark(f"entered_{_kind}", "amplitude inside over that of the wave outside", _most, least=_least),
            Mark(
                f"returned_{_kind}",
                "share of a pulse that is sent back; a side with a given level sends back all of it",
                _back,
                least=0.95 if _kind == "clamped" else None,
            ),
        ),
    )
