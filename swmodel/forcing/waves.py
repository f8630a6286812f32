"""Waves for a wave maker: elevations and velocities from records, solitary and cnoidal waves.

    Record         linear between given times; a run that it does not cover raises ConfigError
    SolitaryWave   eta = a sech^2(k c (t - t0)),   k = sqrt(3 a / 4 d^3),   c = sqrt(g (d + a))
    CnoidalWave    eta = b + a cn^2(2 K t / T | m),   b = a (1 - m - E/K) / m

with K and E the complete elliptic integrals of the parameter m, which follows from L = c T with

    L = K sqrt(16 m d^3 / 3 a),   c^2 = g d [1 + a (2 - m - 3 E/K) / (m d)].

Each is a value of a parameter of a boundary, and is evaluated in the step. Boussinesq (1872); Korteweg and de
Vries (1895), doi:10.1080/14786449508620739; Dean and Dalrymple (1991), Water Wave Mechanics, section 11.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Self

import jax.numpy as jnp
import numpy as np

from ..defaults import GRAVITY
from ..dynamics.clock import Moments, Time
from ..dynamics.domain import Domain
from ..dynamics.terms import TimeVarying
from ..errors import ConfigError
from ..fields.field import Value
from ..fields.parameters import Number, check_fields, declared
from ..fields.state import pytree, replace, static
from ..parallel.communicator import Communicator
from .tides import ramp_at

HIGHEST = 0.833  # height over depth of a solitary wave; Longuet-Higgins and Fenton (1974)
STEEPEST = 50.0  # the argument of sech beyond which a solitary wave is 0 in both precisions
SAMPLES = 1024  # the number of points in a period of a cnoidal wave


@dataclasses.dataclass(frozen=True)
class Record:
    """A series of measurements, the same along a whole side, as the value of a parameter.

    Args:
        times: increasing, from 0 or before [s], (n,).
        values: in the units of the parameter, (n,).
        origin: the date of the first time of a file without a start, from which its times count.
    """

    times: Any
    values: Any
    origin: str | None = None

    def __post_init__(self) -> None:
        times, values = (np.array(x, float) for x in (self.times, self.values))
        if times.ndim != 1 or times.shape != values.shape or times.size < 2:
            raise ConfigError(
                f"Record: there are times {times.shape} and values {values.shape}; give two or more of each."
            )
        if not (np.isfinite(times).all() and np.isfinite(values).all()):
            raise ConfigError("Record: some times or values are not finite; leave them out, or fill them.")
        if (np.diff(times) <= 0).any():
            raise ConfigError(f"Record: the times do not increase after {times[np.argmax(np.diff(times) <= 0)]:g} s.")
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "values", values)

    def check_limits(self, rule: Number, name: str) -> None:
        """Raise ConfigError for values beyond the limits of a parameter, such as those that stand for missing ones.

        Args:
            rule: the Number of the parameter. name: of the parameter, for messages.
        """
        for k in (int(np.argmin(self.values)), int(np.argmax(self.values))):
            if why := rule.outside(float(self.values[k])):
                raise ConfigError(
                    f"{name}: the record has a value of {self.values[k]:g} {rule.units} at {self.times[k]:g} s, which "
                    f"{why}; give it in {rule.units}, and leave out numbers that stand for missing values."
                )

    def placed(self, position: str, domain: Domain, name: str, rule: Number | None = None) -> "Table":
        """The Table of it; position and name are those of the parameter."""
        return Table(Moments.of(self.times, domain.cut_exactly), domain.cut(self.values), name)


@pytree
class Table(TimeVarying):
    """A Record in a program.

    Attributes:
        moments: the Moments of the record.
        values: (n,), which can be differentiated.
        name: of the parameter, for messages.
    """

    moments: Moments
    values: Any
    name: str = static()

    uses_time = True
    lines = ("values",)
    moments_of_lines = ("moments",)

    def check_covers(self, end: float, slack: float, remedy: str) -> None:
        first, last = self.moments.first, self.moments.last
        if first > 0:
            raise ConfigError(f"{self.name}: the record begins at {first:g} s; let it begin at 0 or before.")
        if last < end - slack:
            raise ConfigError(
                f"{self.name}: the record ends at {last:g} s, and the run needs it until {end:g} s; "
                f"give a longer record, or {remedy}."
            )

    def points(self, communicator: Communicator) -> np.ndarray:
        """The moments of the record [s]."""
        return self.moments.seconds(lambda x: communicator.tiles(x)[communicator.ranks[0]])

    def with_points(self, moments: np.ndarray, lines: dict[str, np.ndarray], communicator: Communicator) -> Self:
        """This record with other points: its `lines`, {name: values}, at these moments [s]."""

        def place(x):
            return communicator.place(lambda rank: x if x.dtype.kind == "i" else x.astype(self.values.dtype))

        return replace(self, moments=Moments.of(moments, place), **lines)

    def map(self, function: Callable) -> Self:
        return replace(self, values=function(self.values))

    def at(self, time: Time) -> Value:
        k, weight = self.moments.bracket(time)
        return self.values[k] + weight * (self.values[k + 1] - self.values[k])

    def mean(self, time: Time) -> Value:
        """The mean over the step that begins at a Time: the integral of the lines in it, and of the ends beyond."""
        points, values = self.moments.steps_from(time), self.values
        within = jnp.clip(points, 0.0, 1.0)
        length, middle = within[1:] - within[:-1], 0.5 * (within[1:] + within[:-1])
        weight = jnp.clip((middle - points[:-1]) / (points[1:] - points[:-1]), 0.0, 1.0)
        lines = jnp.sum(length * (values[:-1] + weight * (values[1:] - values[:-1])))
        return within[0] * values[0] + lines + (1.0 - within[-1]) * values[-1]


_METRES = Number(None, "m", above=0.0)


@dataclasses.dataclass(frozen=True)
class SolitaryWave:
    """The elevation of a solitary wave, as the value of a parameter.

    Args:
        height: a [m].
        depth: d, of the water at rest [m].
        peak: the time t0 at which its crest comes in [s].
        gravity: [m s-2].
    """

    height: float = declared(_METRES)
    depth: float = declared(_METRES)
    peak: float = declared(Number(None, "s"))
    gravity: float = declared(Number(None, "m s-2", above=0.0), default=GRAVITY)

    def __post_init__(self) -> None:
        check_fields(self)
        if self.height > HIGHEST * self.depth:
            raise ConfigError(
                f"SolitaryWave: a wave of {self.height:g} m breaks in water of {self.depth:g} m; give a height of "
                f"{HIGHEST * self.depth:.3g} m or less."
            )

    @property
    def speed(self) -> float:
        """c [m s-1]."""
        return float(np.sqrt(self.gravity * (self.depth + self.height)))

    def elevation(self, seconds: np.ndarray) -> np.ndarray:
        """eta [m] at times [s]."""
        rate = np.sqrt(0.75 * self.height / self.depth**3) * self.speed
        return self.height / np.cosh(np.clip(rate * (np.asarray(seconds) - self.peak), -STEEPEST, STEEPEST)) ** 2

    def placed(self, position: str, domain: Domain, name: str, rule: Number | None = None) -> "Sech":
        """The wave as programs hold it."""
        rate = np.sqrt(0.75 * self.height / self.depth**3) * self.speed
        return Sech(domain.cut(np.float64(self.height)), float(rate), float(self.peak))


@pytree
class Sech(TimeVarying):
    """height sech^2(k (t - peak)) [m], with the wavenumber k in time [s-1]."""

    height: Any
    wavenumber: float = static()
    peak: float = static()

    uses_time = True

    def map(self, function: Callable) -> Self:
        return replace(self, height=function(self.height))

    def at(self, time: Time) -> Value:
        phase = jnp.clip(self.wavenumber * time.since(self.peak), -STEEPEST, STEEPEST)
        return self.height / jnp.cosh(phase) ** 2


@dataclasses.dataclass(frozen=True)
class CnoidalWave:
    """The elevation of a train of cnoidal waves, as the value of a parameter; it begins with a crest.

    Args:
        height: a, from trough to crest [m].
        depth: d, the mean depth [m].
        period: T [s].
        ramp: the time over which it is switched on [s].
        gravity: [m s-2].

    Raises:
        ConfigError: for a period that no such wave has.
    """

    height: float = declared(_METRES)
    depth: float = declared(_METRES)
    period: float = declared(Number(None, "s", above=0.0))
    ramp: float = declared(Number(None, "s", minimum=0.0), default=0.0)
    gravity: float = declared(Number(None, "m s-2", above=0.0), default=GRAVITY)

    def __post_init__(self) -> None:
        check_fields(self)
        _ = self.parameter

    def _of(self, m):
        """(L [m], c [m s-1]) of waves of the parameter m."""
        from scipy.special import ellipe, ellipk  # takes a fifth of a second

        K, E = ellipk(m), ellipe(m)
        ratio = self.height / self.depth
        speed2 = self.gravity * self.depth * (1 + ratio * (2 - m - 3 * E / K) / m)
        return K * np.sqrt(16 * m / (3 * ratio)) * self.depth, np.sqrt(max(speed2, 0.0))

    @property
    def parameter(self) -> float:
        """m [1]."""

        def longer(x):  # 1 - m = exp(-x)
            length, speed = self._of(-np.expm1(-x))
            return length - speed * self.period

        tried = np.linspace(0.01, 34.0, 400)
        short = np.flatnonzero([longer(x) < 0 for x in tried])  # below them the waves have no speed
        if not short.size or short[-1] == tried.size - 1:
            raise ConfigError(
                f"CnoidalWave: there is no wave of height {self.height:g} m and period {self.period:g} s in water of "
                f"depth {self.depth:g} m; give another period, or a SolitaryWave for a very long one."
            )
        from scipy.optimize import brentq  # takes a tenth of a second

        root: Any = brentq(longer, *tried[short[-1] :][:2])
        return float(-np.expm1(-root))

    def elevation(self, cycles: np.ndarray) -> np.ndarray:
        """eta [m] at numbers of periods after a crest, without the ramp."""
        from scipy.special import ellipe, ellipj, ellipk

        m = self.parameter
        K, E = ellipk(m), ellipe(m)
        cn = ellipj(2 * K * np.asarray(cycles, float), m)[1]
        return self.height * ((1 - m - E / K) / m + cn**2)

    def placed(self, position: str, domain: Domain, name: str, rule: Number | None = None) -> "Cycle":
        """The wave as programs hold it."""
        return Cycle(domain.cut(self.elevation(np.linspace(0.0, 1.0, SAMPLES + 1))), float(self.period), self.ramp)


@pytree
class Cycle(TimeVarying):
    """Equally spaced values over a period, of which the last is the first."""

    values: Any
    period: float = static()
    ramp: float = static()

    uses_time = True

    def map(self, function: Callable) -> Self:
        return replace(self, values=function(self.values))

    def at(self, time: Time) -> Value:
        place = jnp.mod(time.cycles(self.period), 1.0) * (self.values.shape[-1] - 1)
        moments = jnp.arange(self.values.shape[-1], dtype=self.values.dtype)
        return ramp_at(time, self.ramp) * jnp.interp(place, moments, self.values)
