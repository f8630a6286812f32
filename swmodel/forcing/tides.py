"""Tides as values of parameters: sums of constituents, each with an amplitude and a Greenwich phase lag.

    value(t) = r(t) sum_k f_k A_k cos(omega_k t - d_k) + level + anomaly(t),    d_k = g_k - V_k - u_k

A `Tide` can be given wherever a parameter may have time records: as the elevation or velocity outside an open boundary,
the elevation of a sponge, or a parameter of a term of your own. It is evaluated in the step, from the amplitudes and
phases; no record is stored. A_k and g_k are numbers or fields, and controls of the adjoint:
`boundary.0.elevation.amplitude.M2`, `boundary.0.elevation.phase.M2`.

    f A cos(omega t - d) = (f A cos d) cos(omega t) + (f A sin d) sin(omega t)

A program computes the two fields in brackets once, so a step costs two multiplications a constituent and point. The
cosines and sines of omega t are the same for all sides of a domain. The ramp is r = (1 - cos(pi t / T)) / 2 until
t = T, then 1. f, V and u are those of the start of the run. The level about which the tide goes, and its anomaly, such
as records of the sea level without tides, are not ramped: a run may start with them.
"""

import dataclasses
import datetime
from collections.abc import Callable, Mapping
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from ..dynamics.clock import Time
from ..dynamics.domain import Domain
from ..dynamics.terms import TimeVarying, rate_at, tile_array, value_at
from ..errors import ConfigError, ended
from ..fields.field import AbstractField, Scalar, Value
from ..fields.parameters import Moment, Number, array_of, check_arguments
from ..fields.state import pytree, replace, static
from ..grids.windows import GridValues
from .constituents import distinct, middle_latitude, nodal, periods

LARGEST = {"m": 20.0, "m s-1": 20.0}  # more than any amplitude of a constituent; the highest are 6 m and 5 m s-1
MOST_DEGREES = 720.0  # of phase lags
RULES = {
    "start": Moment(),
    "ramp": Number(None, "s", minimum=0.0),
    "latitude": Number(None, "degree", minimum=-90.0, maximum=90.0, optional=True),
}


def waves_at(time: Time, names: tuple[str, ...], argument: Scalar = 0.0) -> tuple[jax.Array, jax.Array]:
    """(cos theta, sin theta) of constituents at a Time, (n,) each, with theta = omega t + argument [rad]."""
    theta = 2.0 * np.pi * time.cycles(periods(names)) + argument
    return jnp.cos(theta), jnp.sin(theta)


def ramp_at(time: Time, length: float) -> Value:
    """The share of a forcing at a Time that is switched on over `length` [s]."""
    if not length:
        return 1.0
    return 0.5 - 0.5 * jnp.cos(np.pi * jnp.clip(time.since(0.0) / length, 0.0, 1.0))


def ramp_rate_at(time: Time, length: float) -> Value:
    """d/dt of `ramp_at` [s-1]."""
    if not length:
        return 0.0
    return 0.5 * np.pi / length * jnp.sin(np.pi * jnp.clip(time.since(0.0) / length, 0.0, 1.0))


@dataclasses.dataclass(frozen=True)
class Tide:
    """A tide, as the value of a parameter.

    Args:
        constituents: {"M2": (amplitude, phase lag)}: the amplitude in the units of the parameter, the Greenwich phase
            lag in degrees. Each is a number, a function of (x, y), or an array of shape (ny, nx), or (ny, 1) along a
            west or east side and (1, nx) along a south or north one.
        start: date and time of step 0 (UTC), for the positions of the moon and the sun; without it phases are those at
            step 0, and nodal factors are 1.
        ramp: the time over which the tide is switched on [s].
        latitude: for the nodal factors [degrees]; the middle of the grid unless given, and none on a grid of more than
            60 degrees of latitude.
        level: the mean, a number, a function of (x, y) or an array, as an amplitude; None for 0.
        anomaly: what else is added, in time: records, FileRecords, or whatever the parameter itself may be.

    Raises:
        ConfigError: for a constituent that is not known, or that is not given as a pair, and for a negative amplitude.
    """

    constituents: Mapping[str, tuple[Any, Any]]
    start: datetime.datetime | None = None
    ramp: float = 0.0
    latitude: float | None = None
    level: Any = None
    anomaly: Any = None

    dated_by = "tide"

    def __post_init__(self) -> None:
        check_arguments("Tide", RULES, vars(self))
        if not isinstance(self.constituents, Mapping) or not self.constituents:
            raise ConfigError("Tide: constituents must be named; give them as {'M2': (amplitude, phase in degrees)}.")
        for name, pair in self.constituents.items():
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise ConfigError(f"Tide: {name} must be a pair; give (amplitude, Greenwich phase lag in degrees).")
        try:
            names = distinct(self.constituents)
        except ConfigError as error:
            raise ConfigError(ended(f"Tide: {error}")) from None
        named = {name: tuple(pair) for name, pair in zip(names, self.constituents.values())}
        object.__setattr__(self, "constituents", named)
        for name, (size, lag) in named.items():
            turned = _known_values(lag)
            if turned is not None and (most := float(np.nanmax(np.abs(turned), initial=0.0))) > MOST_DEGREES:
                raise ConfigError(
                    f"Tide: the phase lag of {name} reaches {most:g} degrees, more than two turns; give degrees from 0 "
                    "to 360, and no number that stands for a missing value."
                )
            values = _known_values(size)
            if values is not None and values.size and (least := float(np.nanmin(values))) < 0:
                raise ConfigError(
                    f"Tide: the amplitude of {name} is negative, {least:g} somewhere; give the positive one, and a "
                    "phase lag that differs by 180 degrees."
                )

    def check_limits(self, rule: Number, name: str) -> None:
        """Raise ConfigError for an amplitude or level beyond the limits of a parameter; functions are not evaluated.

        Args:
            rule: the Number of the parameter. name: of the parameter, for messages.
        """
        most = _largest(rule)
        sizes = {f"amplitude of {key}": size for key, (size, _) in self.constituents.items()}
        for what, size in (sizes | ({} if self.level is None else {"level": self.level})).items():
            values = _known_values(size)
            if values is None or most is None or not values.size:
                continue
            largest = float(np.nanmax(np.abs(values), initial=0.0))
            if largest > most:
                raise ConfigError(
                    f"{name}: the {what} reaches {largest:g} {rule.units}, more than the {most:g} "
                    f"{rule.units} that are possible; give it in {rule.units}."
                )

    def placed(self, position: str, domain: Domain, name: str, rule: Number | None = None) -> "Harmonics":
        """The Harmonics of tile arrays.

        Args:
            position: on the C-grid. domain: the model's Domain. name: of the parameter, for messages.
            rule: the Number of the parameter, whose maximum the amplitudes of functions and files must not exceed.
        """
        units, most = ("", None) if rule is None else (rule.units, _largest(rule))
        limits = (
            Number(position, units, minimum=0.0, maximum=most, steady=True),
            Number(position, "degrees", minimum=-MOST_DEGREES, maximum=MOST_DEGREES, steady=True),
        )
        latitude = middle_latitude(domain.grid) if self.latitude is None else float(self.latitude)
        factors = {key: nodal(key, self.start, latitude) for key in self.constituents}

        def part(which, k):
            return {
                key: _on_tile(pair[k], position, domain, f"{name}: {which} of {key}", limits[k])
                for key, pair in self.constituents.items()
            }

        level, anomaly = self.level, self.anomaly
        return Harmonics(
            amplitude=part("amplitude", 0),
            phase=part("phase", 1),
            factor=domain.cut(np.array([f for f, _ in factors.values()])),
            argument=domain.cut(np.array([angle for _, angle in factors.values()])),
            names=tuple(factors),
            ramp=float(self.ramp),
            level=None if level is None else _on_tile(level, position, domain, f"{name}: level", rule),
            anomaly=None if anomaly is None else tile_array(anomaly, position, domain, f"{name}: anomaly", rule),
            nodal=NodalLatitude(latitude),
        )


def _largest(rule):
    """The largest amplitude of a constituent of a parameter with this Number, None where there is no limit."""
    return min((most for most in (rule.maximum, LARGEST.get(rule.units)) if most is not None), default=None)


def _known_values(size):
    """An amplitude as an array; None where it is not known before the grid is, or while a program is traced."""
    return None if callable(size) or isinstance(size, jax.Array) else array_of(size)


def _on_tile(x, position, domain, name, limits):
    """An amplitude or a phase as a number or tile array; a line along a side is repeated across the tile."""
    Number(position, "", steady=True).check("Tide", name, x)
    ny, nx = domain.grid.shape
    if not callable(x) and not isinstance(x, (jax.Array, GridValues)) and np.ndim(x):
        x = np.asarray(x, float)
        if x.ndim == 1 and nx != ny and x.size in (nx, ny):
            x = x[:, None] if x.size == ny else x[None, :]
        if x.shape in ((ny, 1), (1, nx)):
            x = np.broadcast_to(x, (ny, nx))
        elif x.shape != (ny, nx):
            raise ConfigError(
                f"{name} has shape {x.shape}, which does not cover the side; give {ny} values (ny, 1) along a west or "
                f"east side, {nx} values (1, nx) along a south or north side, or an array ({ny}, {nx})."
            )
    return tile_array(x, position, domain, name, limits)


@dataclasses.dataclass(frozen=True)
class NodalLatitude:
    """The latitude of nodal factors, for files. All are equal: programs have the factors, and do not depend on it."""

    degrees: float | None = dataclasses.field(default=None, compare=False)


@pytree
class Harmonics(TimeVarying):
    """A Tide on one tile.

    Attributes:
        amplitude, phase: {name: number or tile array}, in the parameter's units and in degrees.
        factor, argument: f [1] and V + u [rad] of each constituent, (n,).
        names: of the constituents.
        ramp: [s].
        level: number or tile array, or None.
        anomaly: a number, a tile array, a Series or a TimeVarying, or None.
        nodal: the NodalLatitude.
    """

    amplitude: dict[str, Any]
    phase: dict[str, Any]
    factor: Any
    argument: Any
    names: tuple[str, ...] = static()
    ramp: float = static(default=0.0)
    level: Any = None
    anomaly: Any = None
    nodal: NodalLatitude = dataclasses.field(default=NodalLatitude(), metadata={"static": True, "of_grid": True})

    uses_time = True

    def check_covers(self, end: float, slack: float, remedy: str) -> None:
        if isinstance(self.anomaly, TimeVarying):
            self.anomaly.check_covers(end, slack, remedy)

    def prepared(self) -> "Quadratures":
        cosines, sines = {}, {}
        for k, name in enumerate(self.names):
            size, lag = self.factor[k], self.argument[k]
            behind = _each_value(lambda phase, lag=lag: jnp.deg2rad(phase) - lag, self.phase[name])
            cosines[name] = _each_value(jnp.cos, behind) * self.amplitude[name] * size
            sines[name] = _each_value(jnp.sin, behind) * self.amplitude[name] * size
        anomaly = self.anomaly.prepared() if isinstance(self.anomaly, TimeVarying) else self.anomaly
        return Quadratures(cosines, sines, self.names, self.ramp, self.level, anomaly)

    def map(self, function: Callable) -> Self:
        raise TypeError("Harmonics are not linear in their phases; use prepared().")

    def at(self, time: Time) -> Value:
        return self.prepared().at(time)

    def rate(self, time: Time) -> Value:
        return self.prepared().rate(time)


def _each_value(function, x):
    """`function` of a number, an array or the values of a Field."""
    return x.map(function) if isinstance(x, AbstractField) else function(x)


@pytree
class Quadratures(TimeVarying):
    """A tide in the form that programs evaluate: sum_k cosines_k cos(omega_k t) + sines_k sin(omega_k t) + the rest."""

    cosines: dict[str, Any]
    sines: dict[str, Any]
    names: tuple[str, ...] = static()
    ramp: float = static(default=0.0)
    level: Any = None
    anomaly: Any = None

    uses_time = True

    def map(self, function: Callable) -> Self:
        each = lambda values: {name: function(x) for name, x in values.items()}  # noqa: E731
        level = None if self.level is None else function(self.level)
        anomaly = self.anomaly
        if anomaly is not None:
            anomaly = anomaly.map(function) if isinstance(anomaly, TimeVarying) else function(anomaly)
        return replace(self, cosines=each(self.cosines), sines=each(self.sines), level=level, anomaly=anomaly)

    def at(self, time: Time) -> Value:
        cos, sin = waves_at(time, self.names)
        share = ramp_at(time, self.ramp)
        rest = [] if self.level is None else [self.level]
        rest += [] if self.anomaly is None else [value_at(self.anomaly, time)]
        return sum(rest, self._sum(share * cos, share * sin))

    def rate(self, time: Time) -> Value:
        cos, sin = waves_at(time, self.names)
        share, growth = ramp_at(time, self.ramp), ramp_rate_at(time, self.ramp)
        turning = share * jnp.asarray(2.0 * np.pi / periods(self.names), cos.dtype)
        change = self._sum(growth * cos - turning * sin, growth * sin + turning * cos)
        return change if self.anomaly is None else change + rate_at(self.anomaly, time)

    def _sum(self, of_cosines, of_sines):
        total = 0.0
        for k, name in enumerate(self.names):
            total = total + self.cosines[name] * of_cosines[k] + self.sines[name] * of_sines[k]
        return total
