"""Exact solutions of the shallow-water equations over dry beds, sloping beds and bowls.

Stoker (1957), Water Waves; Ritter (1892); Thacker (1981), doi:10.1017/S0022112081001882; Carrier and Greenspan (1958),
doi:10.1017/S0022112058000331; Carrier, Wu and Yeh (2003), doi:10.1017/S0022112002002653. Delestre et al. (2013),
doi:10.1002/fld.3741, have the formulae of the first three, and of steady flow over a bump.
"""

import dataclasses
from typing import Any

import numpy as np
import scipy.optimize
import scipy.special


@dataclasses.dataclass(frozen=True)
class DamBreak:
    """A dam at x = 0 that is removed at t = 0. The depth [m] is `left` at x < 0 and `right`, 0 or more, at x > 0."""

    left: float = 10.0
    right: float = 1.0
    gravity: float = 9.81

    @property
    def celerity(self) -> float:
        """The speed of waves on the left [m s-1]."""
        return float(np.sqrt(self.gravity * self.left))

    @property
    def middle(self) -> tuple[float, float]:
        """The depth [m] between the fan and the bore, and the speed of the bore [m s-1]; not for a dry bed."""
        g, right = self.gravity, self.right

        def mismatch(h):
            return 2 * (self.celerity - np.sqrt(g * h)) - (h - right) * np.sqrt(g * (h + right) / (2 * h * right))

        h: Any = scipy.optimize.brentq(mismatch, right, self.left)
        return h, h * 2 * (self.celerity - np.sqrt(g * h)) / (h - right)

    def thickness(self, x: np.ndarray, t: float) -> np.ndarray:
        """h [m] at x [m] and t > 0 [s]."""
        c, g = self.celerity, self.gravity
        fan = np.where(x < -c * t, self.left, np.maximum(2 * c - np.maximum(x, -c * t) / t, 0.0) ** 2 / (9 * g))
        if self.right == 0:
            return fan
        h, bore = self.middle
        return np.where(x < bore * t, np.maximum(fan, h), self.right)


@dataclasses.dataclass(frozen=True)
class PlanarBowl:
    """A plane surface that rotates in a paraboloid z = -depth (1 - r^2 / radius^2), with its centre at `shift` [m]."""

    depth: float = 0.1
    radius: float = 1.0
    shift: float = 0.5
    gravity: float = 9.81

    @property
    def period(self) -> float:
        """The period of the rotation [s]."""
        return float(2 * np.pi / self._rate)

    @property
    def _rate(self):
        return np.sqrt(2 * self.gravity * self.depth) / self.radius

    def bed(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The depth below the level 0, negative above it [m]."""
        return self.depth * (1 - (x**2 + y**2) / self.radius**2)

    def level(self, x: np.ndarray, y: np.ndarray, t: float) -> np.ndarray:
        """The surface, continued over dry land [m]."""
        w = self._rate
        tilt = 2 * x * np.cos(w * t) + 2 * y * np.sin(w * t) - self.shift
        return self.shift * self.depth / self.radius**2 * tilt

    def velocity(self, x: np.ndarray, y: np.ndarray, t: float) -> tuple[np.ndarray, np.ndarray]:
        """(u, v) [m s-1] at points with water."""
        w, zero = self._rate, 0.0 * (x + y)
        return zero - self.shift * w * np.sin(w * t), zero + self.shift * w * np.cos(w * t)


@dataclasses.dataclass(frozen=True)
class RadialBowl(PlanarBowl):
    """A parabolic surface that oscillates in the paraboloid; its shore is at the radius `shift` [m] at t = 0."""

    shift: float = 0.8

    @property
    def _rate(self):
        return np.sqrt(8 * self.gravity * self.depth) / self.radius

    @property
    def _amplitude(self):
        return (self.radius**2 - self.shift**2) / (self.radius**2 + self.shift**2)

    def level(self, x: np.ndarray, y: np.ndarray, t: float) -> np.ndarray:
        a = self._amplitude
        ratio, r2 = np.sqrt(1 - a**2) / (1 - a * np.cos(self._rate * t)), (x**2 + y**2) / self.radius**2
        return self.depth * (ratio - 1 - r2 * (ratio**2 - 1))

    def velocity(self, x: np.ndarray, y: np.ndarray, t: float) -> tuple[np.ndarray, np.ndarray]:
        a, w = self._amplitude, self._rate
        rate = 0.5 * w * a * np.sin(w * t) / (1 - a * np.cos(w * t))
        return rate * (x + 0 * y), rate * (y + 0 * x)


class _Beach:
    """What waves on a beach share: the unit of time, and the level at t = 0 from that over s."""

    slope: float
    scale: float
    gravity: float

    @property
    def time_scale(self) -> float:
        """The unit of time [s]."""
        return float(np.sqrt(self.scale / (self.gravity * self.slope)))

    def _level(self, s: np.ndarray) -> Any:
        """eta(s) at t = 0, in its unit."""
        raise NotImplementedError

    def first_level(self, x: np.ndarray) -> np.ndarray:
        """eta at t = 0 [m], at x [m]; the continued bed on land."""
        s = np.linspace(0.0, 4.0 * np.sqrt(max(-x.min() / self.scale, 0.0) + 1.0), 20000)
        eta = self._level(s)
        place = eta - s**2 / 16
        level = np.interp(x / self.scale, place[::-1], eta[::-1])
        return self.scale * self.slope * np.where(x / self.scale > place[0], x / self.scale, level)


@dataclasses.dataclass(frozen=True)
class CarrierGreenspan(_Beach):
    """A standing wave that runs up a beach of slope 1 : 1 / `slope`, positive x on land, at rest at t = 0.

    With lengths in `scale` [m] along x, scale slope in z and times in sqrt(scale / (g slope)),

        u = -A J1(s) sin(l) / s,   eta = A J0(s) cos(l) / 4 - u^2 / 2,   x = eta - s^2 / 16,   t = l / 2 - u

    A period is pi units of time. It breaks for A >= 1.
    """

    amplitude: float = 0.6
    slope: float = 0.02
    scale: float = 1000.0
    gravity: float = 9.81

    def shoreline(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(x [m], u [m s-1]) of the shoreline at times t [s]."""
        a = self.amplitude
        phase = np.array([self._phase(now / self.time_scale) for now in np.atleast_1d(t)])
        u = -0.5 * a * np.sin(phase)
        return self.scale * (0.25 * a * np.cos(phase) - 0.5 * u**2), u * self.scale / self.time_scale

    def _phase(self, t):
        """l at the shoreline, where s = 0 and J1(s) / s = 1/2, as a function of time."""
        return scipy.optimize.brentq(lambda l: 0.5 * l + 0.5 * self.amplitude * np.sin(l) - t, 2 * t - 2, 2 * t + 2)

    def _level(self, s: np.ndarray) -> Any:
        return 0.25 * self.amplitude * scipy.special.j0(s)


@dataclasses.dataclass(frozen=True)
class CarrierWuYeh(_Beach):
    """Humps and troughs of water that start from rest over a beach of slope 1 : 1 / `slope`, positive x on land.

    With the units of CarrierGreenspan, and here with x offshore, Hankel's transform A of the first level gives

        eta = p - u^2 / 2,  p = 1/4 int A k J0(k s) cos(k l) dk,  u = - int A k J1(k s) / s sin(k l) dk
        x = s^2 / 16 - eta,  t = u - l / 2
        A = 4 int eta(s, 0) s J0(k s) ds,  eta(s, 0) = sum of H exp(-c y^2),  y = s^2 / 16 - x0

    Args:
        humps: (H, c, x0) of each; the default is the third case of the paper, a wave with a trough in front.
    """

    humps: tuple = ((0.02, 3.5, 1.5625), (-0.01, 3.5, 1.0))
    slope: float = 0.1
    scale: float = 5000.0
    gravity: float = 9.81

    def _level(self, s: np.ndarray) -> Any:
        return sum(height * np.exp(-c * (s**2 / 16 - x0) ** 2) for height, c, x0 in self.humps)

    def shoreline(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(x [m], u [m s-1]) of the shoreline at times t [s], up to six time scales."""
        s, k, phase = np.linspace(0.0, 14.0, 4001), np.linspace(0.0, 10.0, 1501), np.linspace(0.0, 13.0, 1301)
        spectrum = 4.0 * s[1] * (scipy.special.j0(np.outer(k, s)) @ (self._level(s) * s)) * k[1]
        u = 0.5 * np.sin(np.outer(phase, k)) @ (spectrum * k**2)  # l = - phase, and J1(k s) / s = k / 2
        level = 0.25 * np.cos(np.outer(phase, k)) @ (spectrum * k) - 0.5 * u**2
        now = np.atleast_1d(t) / self.time_scale
        place, velocity = (np.interp(now, u + 0.5 * phase, x) for x in (level, -u))
        return self.scale * place, velocity * self.scale / self.time_scale
