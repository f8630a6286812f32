"""The transmission of an incoming wave, and the reflection of an outgoing one, for each kind of open side.

    entered    the amplitude in the domain of a wave of 1 cm and 2 hours that enters in the west, over its own; it
    leaves
               in the east through a Flather side with a sponge
    returned   the largest elevation after a pulse 8 cells wide has met the side, over that of the pulse at the start

The time scale of RadiationNudging is 10 minutes for the incoming wave, and a day, its default, for the outgoing pulse.
The channel has 60 cells of 10 km and is 1000 m deep, without friction or rotation.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import swmodel as sw
from swmodel.verification.case import Case, Mark, Outcome, Panel

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
    "sponge_and_flather": lambda side, wave=0.0: (
        sw.Flather(side, incoming=wave),
        _sponge(side, wave),
    ),
    "sponge_with_currents": lambda side, wave=0.0: (
        sw.Flather(side, incoming=wave),
        _sponge(side, wave, velocity_x=_current(wave)),
    ),
}


def _sponge(side, wave, **velocities):
    return sw.Sponge(side, width=15 * DX, rate=5 * CELERITY / (15 * DX), elevation=wave, **velocities)


def _current(wave):
    """The velocity u = eta sqrt(g / H) of a wave that enters in the west; 0 of water at rest."""
    return _Records(wave.times, CELERITY / DEPTH * wave.values) if isinstance(wave, _Records) else 0.0


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
    model = _model((*SIDES[kind]("west", _Records(times, values)), *SIDES["sponge_and_flather"]("east")))
    simulation = sw.Simulation(model, model.at_rest(), sw.ForwardBackward(STEP))
    simulation.run(steps=round(6 * PERIOD / STEP))
    now = np.asarray(simulation.state.eta)[0, N // 2]
    simulation.run(steps=round(PERIOD / 4 / STEP))
    return float(np.hypot(now, np.asarray(simulation.state.eta)[0, N // 2]) / size)


class _Records:
    """Time records of a parameter."""

    cycle = None

    def __init__(self, times, values):
        self.times, self.values = times, values


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
        doi="",
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
