"""Model time, as terms of the equations read it: a whole number of steps since step 0, and a fraction of a step.

    t = (step + fraction) dt

In single precision t itself would be off by 16 s after ten years. The number of steps is an integer. What is computed
from it here, such as the phase of a periodic force or the time since an event, is exact to rounding of the result, not
of t. It does not depend on the step at which a compiled loop started, so a run gives the same bits however it is
divided into loops.
"""

import dataclasses
import fractions
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from ..fields.field import Count, Scalar
from ..fields.state import pytree, replace, static

__all__ = ["Coverage", "Moments", "Time", "as_time"]

ONE_CYCLE = 2**64  # one cycle, in the fixed-point numbers of `cycles`


@pytree
class Time:
    """A moment of a run.

    Attributes:
        step: whole steps since step 0 of the model, an integer.
        fraction: of a step, added to `step` [1]: 0 at the start of a step, 1/2 or 1 in stages of a stepper.
        dt: the time step [s]; None where the caller of a tendency has given none.
        exact_dt: the time step in double precision, where it is known; static.
    """

    step: Any
    fraction: Any = 0.0
    dt: Any = None
    exact_dt: float | None = static(default=None)

    def __add__(self, fraction: Scalar) -> "Time":
        """The moment that is `fraction` of a step later."""
        return replace(self, fraction=self.fraction + fraction)

    @property
    def begun(self) -> "Time":
        """The moment at which this step began."""
        return replace(self, fraction=0.0 * self.fraction)

    def steps_since(self, start: Count, dtype: DTypeLike) -> jax.Array:
        """The number of steps since step `start`, with the fraction; exact below 2^22 steps."""
        whole = jnp.asarray(self.step, jnp.int32) - jnp.asarray(start, jnp.int32)
        return whole.astype(dtype) + jnp.asarray(self.fraction, dtype)

    @property
    def seconds(self) -> jax.Array:
        """t [s], rounded to the model's precision: in float32 to 32 s at 3e8 s. See `since` and `phase`."""
        return self.since(0.0)

    def since(self, moment: float) -> jax.Array:
        """t - `moment` [s], for a Python number `moment`; exact near the moment, however large t is.

        Raises:
            ValueError: if the length of a step is not known.
        """
        dt = self._known_dt()
        if moment and abs(moment) >= 2**30 * self._host_dt():  # as far as no run comes
            return self.steps_since(0, dt.dtype) * dt - jnp.asarray(moment, dt.dtype)
        whole = int(np.floor(moment / self._host_dt())) if moment else 0
        rest = moment - whole * self._host_dt() if moment else 0.0
        return self.steps_since(whole, dt.dtype) * dt - jnp.asarray(rest, dt.dtype)

    def steps_in(self, seconds: float) -> int:
        """How many whole steps there are in `seconds`, 1 or more.

        Raises:
            ValueError: if `exact_dt` is None.
        """
        return max(1, int(seconds / self._host_dt()))

    def phase(self, period: Scalar) -> jax.Array:
        """2 pi t / `period`, between -pi and pi [rad].

        Args:
            period: [s], a number or array. For Python numbers (a static field of a term) the phase is exact to rounding
                however many periods have passed. For a JAX array it is the phase of a period rounded to the array's
                precision, and can be differentiated.
        """
        return 2.0 * np.pi * self.cycles(period)

    def cycles(self, period: Scalar | np.ndarray) -> jax.Array:
        """t / `period` without its integer part [1]: between -1/2 and 1/2, and up to dt / `period` more within a step.

        dt / `period` is a fixed-point number of 64 bits. Its product with the number of steps, modulo one cycle, is
        exact.
        """
        dt = self._known_dt()
        dtype, step = dt.dtype, jnp.asarray(self.step, jnp.int32).astype(jnp.uint32)
        host = self.exact_dt is not None and not isinstance(period, jax.Array)
        share = self.exact_dt / np.asarray(period, float) if host else jax.lax.stop_gradient(dt / period)
        high, low, left = _host_words(self.exact_dt, period) if host else _device_words(share)
        whole, rest = high * step + _high_product(low, step), low * step
        signed = jax.lax.bitcast_convert_type(whole, jnp.int32)
        found = signed.astype(dtype) * 2.0**-32 + rest.astype(dtype) * 2.0**-64
        found = found + step.astype(dtype) * left.astype(dtype)
        passed = self.steps_since(0, dtype)
        if host:  # the correction where dt differs from exact_dt
            off = dt - jnp.asarray(self.exact_dt, dtype)
            follows = passed * off / jnp.asarray(period, dtype)
        else:  # its value is 0, and it carries the derivatives
            follows = passed * dt / period - jax.lax.stop_gradient(passed * dt / period)
        return found + jnp.asarray(self.fraction, dtype) * jnp.asarray(share, dtype) + follows

    def ticks(self, unit: float) -> tuple[jax.Array, jax.Array]:
        """(whole, rest) with t = (whole + rest) `unit` [s]: an int32, exact below 2^31, and a number from 0 to 1."""
        dt = self._known_dt()
        step, exact = jnp.asarray(self.step, jnp.int32).astype(jnp.uint32), self._host_dt() / unit
        high, low, _ = _host_words(self._host_dt(), unit)
        below = high * step + _high_product(low, step)
        carried = (below < high * step).astype(jnp.uint32)
        whole = np.uint32(int(exact) % 2**32) * step + _high_product(high, step) + carried
        rest = below.astype(dt.dtype) * 2.0**-32 + jnp.asarray(self.fraction, dt.dtype) * jnp.asarray(exact, dt.dtype)
        more = jnp.floor(rest)
        return jax.lax.bitcast_convert_type(whole, jnp.int32) + more.astype(jnp.int32), jnp.asarray(rest - more)

    def _known_dt(self):
        if self.dt is None:
            raise ValueError(
                "Time: a term needs the time in seconds, and this Time has no dt; pass tendencies a "
                "Time(step, dt=stepper.dt)."
            )
        return jnp.asarray(self.dt)

    def _host_dt(self):
        if self.exact_dt is None:
            raise ValueError(
                "Time: a term needs the time step in double precision, and this Time has no exact_dt; make the "
                "System by model.dynamics(stepper), for a model whose terms have uses_time = True."
            )
        return self.exact_dt


@pytree
class Moments:
    """Increasing moments. `bracket` finds the interval that holds a time, also in single precision in runs of decades.

    Attributes:
        ticks: whole multiples of the unit, int32 (n,).
        rest: what is left, in units (n,).
        unit: [s], a power of two.
        first, last: [s].
    """

    ticks: Any
    rest: Any
    unit: float = static()
    first: float = static()
    last: float = static()

    @staticmethod
    def of(times: np.ndarray | tuple, place: Callable) -> "Moments":
        """The Moments of `times` [s] (n,), whose arrays `place` puts on the device."""
        times = np.asarray(times, float)
        unit = 2.0 ** np.ceil(np.log2(max(np.abs(times).max(), 1e-6)) - 30)
        ticks = np.floor(times / unit)
        return Moments(
            place(ticks.astype(np.int32)), place(times / unit - ticks), unit, float(times[0]), float(times[-1])
        )

    def bracket(self, time: Time) -> tuple[jax.Array, jax.Array]:
        """(k, weight): a Time is (1 - weight) t[k] + weight t[k + 1]; outside of them, the nearest moment."""
        whole, rest = self._ticks_of(time)
        k = jnp.clip(jnp.searchsorted(self.ticks, whole, side="right") - 1, 0, self.ticks.shape[-1] - 2)
        since = lambda other, more: (other - self.ticks[k]).astype(rest.dtype) + (more - self.rest[k])  # noqa: E731
        return k, jnp.clip(since(whole, rest) / since(self.ticks[k + 1], self.rest[k + 1]), 0.0, 1.0)

    def steps_from(self, time: Time) -> jax.Array:
        """The numbers of steps from a Time to each moment (n,), below 0 of earlier ones."""
        whole, rest = self._ticks_of(time)
        return ((self.ticks - whole).astype(rest.dtype) + (self.rest - rest)) * (self.unit / time._host_dt())

    def _ticks_of(self, time):
        """The ticks of a Time, or of one after the last moment."""
        beyond = int(min(self.last / time._host_dt() + 2, 2**31 - 1))
        return replace(time, step=jnp.minimum(time.step, beyond)).ticks(self.unit)

    def seconds(self, whole: Callable) -> np.ndarray:
        """The moments [s] in double precision; `whole` gives an array of the host for one on the device."""
        return self.unit * (np.asarray(whole(self.ticks), float) + np.asarray(whole(self.rest), float))


def as_time(step: "Time | Count") -> Time:
    """A Time unchanged; a number n as the Time n steps after step 0, without dt."""
    return step if isinstance(step, Time) else Time(0, step)


def _host_words(dt, period):
    """dt / period modulo 1 as two uint32, the high and the low half of 64 bits, and the remainder."""
    shares = [fractions.Fraction(dt) / fractions.Fraction(float(p)) % 1 for p in np.ravel(period)]
    whole = [int(share * ONE_CYCLE) for share in shares]
    left = [float(share - fractions.Fraction(n, ONE_CYCLE)) for share, n in zip(shares, whole)]
    words = [np.array([n >> 32 for n in whole], np.uint32), np.array([n & 0xFFFFFFFF for n in whole], np.uint32)]
    return [word.reshape(np.shape(period)) for word in (*words, np.array(left))]


def _device_words(share):
    """The same for a floating-point number; scaling it by powers of two is exact."""
    scaled = (share - jnp.floor(share)) * 2.0**32
    high = jnp.floor(scaled)
    rest = (scaled - high) * 2.0**32
    low = jnp.floor(rest)
    return high.astype(jnp.uint32), low.astype(jnp.uint32), (rest - low) * 2.0**-64


def _high_product(a, b):
    """The upper 32 bits of the product of two uint32."""
    half = np.uint32(16)
    low = np.uint32(0xFFFF)
    a1, a0, b1, b0 = a >> half, a & low, b >> half, b & low
    middle = a1 * b0 + (a0 * b0 >> half)
    other = a0 * b1 + (middle & low)
    return a1 * b1 + (middle >> half) + (other >> half)


@dataclasses.dataclass(frozen=True)
class Coverage:
    """The steps that the forcing in a System covers; static.

    Attributes:
        intervals: the numbers of steps from each record to the next.
        dt: the length of a step [s].
    """

    intervals: tuple
    dt: float

    @property
    def steps(self) -> int:
        """The number of steps in all intervals."""
        return sum(self.intervals)
