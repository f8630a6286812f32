"""Drag coefficients of the wind at 10 m over the sea, and relations of the largest wind to the central pressure.

    tau = rho_air C_D(|W|) |W| W

A law takes the speed in m s-1 as a number, a NumPy array on the host or a JAX array in a step.

Relations between the largest wind of a cyclone and its central pressure, for tracks that have no pressures.

    atkinson_holliday_1977   V = 6.7 kn [(1010 hPa - p_c) / hPa]^0.644
    holland_2008             V = [b (p_n - p_c) / (rho_air e)]^(1/2),
                             b = -4.4e-5 dp^2 + 0.01 dp - 0.014 |phi| + 0.15 c^x + 1,  x = 0.6 (1 - dp / 215)

The first one is that of the western North Pacific for winds of one minute. The second one has dp = p_n - p_c in hPa,
the latitude phi in degrees and the motion of the centre c in m/s; here the storm is steady, so that the term of the
change of p_c is 0.

Atkinson & Holliday (1977), doi:10.1175/1520-0493(1977)105<0421:TCMSLP>2.0.CO;2; Holland (2008),
doi:10.1175/2008MWR2395.1.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from ..defaults import AIR_DENSITY, WIND_DRAG
from ..fields.parameters import refuse

WindLaw = Callable[[Any], Any]


def _library(speed):
    """jax.numpy in a step; NumPy on the host, which keeps float64."""
    return jnp if isinstance(speed, jax.Array) else np


def large_pond(speed: np.ndarray | jax.Array) -> np.ndarray | jax.Array:
    """C_D of Large & Pond (1981): 1.2e-3, from 11 m s-1 on (0.49 + 0.065 |W|) 1e-3, and constant above 25 m s-1.

    doi:10.1175/1520-0485(1981)011<0324:OOMFMI>2.0.CO;2; it was measured between 4 and 25 m s-1.
    """
    return 1e-3 * (0.49 + 0.065 * _library(speed).clip(speed, 0.71 / 0.065, 25.0))


def trenberth(speed: np.ndarray | jax.Array) -> np.ndarray | jax.Array:
    """C_D of Trenberth, Large & Olson (1990): that of Large & Pond made continuous, and growing in light winds.

    (0.62 + 1.56 / |W|) 1e-3 up to 3 m s-1, 1.14e-3 up to 10 m s-1, (0.49 + 0.065 |W|) 1e-3 above.
    doi:10.1175/1520-0485(1990)020<1742:TMACIG>2.0.CO;2.
    """
    xp = _library(speed)
    light = 0.62 + 1.56 / xp.clip(speed, 1e-6, 3.0)
    return 1e-3 * xp.where(speed <= 10.0, light, 0.49 + 0.065 * speed)


def garratt(speed: np.ndarray | jax.Array) -> np.ndarray | jax.Array:
    """C_D of Garratt (1977), doi:10.1175/1520-0493(1977)105<0915:RODCOO>2.0.CO;2, at most 3.5e-3."""
    return _library(speed).minimum(1e-3 * (0.75 + 0.067 * speed), 3.5e-3)


def powell(speed: np.ndarray | jax.Array) -> np.ndarray | jax.Array:
    """C_D that falls in the strongest winds, after Powell et al. (2003), doi:10.1038/nature01481.

    Large & Pond up to 25 m s-1, constant to 33 m s-1, and from there a fall to 1.5e-3 at 52 m s-1.
    """
    xp = _library(speed)
    fall = 2.115 - 0.615 * xp.clip((speed - 33.0) / 19.0, 0.0, 1.0)
    return xp.where(speed < 33.0, large_pond(speed), 1e-3 * fall)


DRAG_LAWS: dict[str, WindLaw] = {
    "large_pond": large_pond,
    "garratt": garratt,
    "powell": powell,
    "large_pond_1981": large_pond,
    "trenberth_1990": trenberth,
}


def drag_law(who: str, law: object) -> WindLaw:
    """The function C_D(speed [m s-1]) of a name, a number or a function.

    Raises:
        ConfigError: for anything else.
    """
    if isinstance(law, str) and law in DRAG_LAWS:
        return DRAG_LAWS[law]
    if callable(law):
        return law
    if isinstance(law, (int, float, np.floating)) and not isinstance(law, bool) and 0 < law < 0.1:
        return lambda speed: float(law) + 0.0 * speed
    of_python = ", or a function of the wind speed in m s-1" if who else ""
    refuse(who, "drag", law, "is no wind law", f"{', '.join(map(repr, DRAG_LAWS))}, a coefficient below 0.1{of_python}")


def wind_stress(
    u10: ArrayLike, v10: ArrayLike, drag: str | float | WindLaw = WIND_DRAG, air_density: float = AIR_DENSITY
) -> tuple[np.ndarray, np.ndarray]:
    """(tau_x, tau_y) of host arrays of the wind [N m-2].

    The stress of a monthly mean wind underestimates the monthly mean stress, most of all under storm tracks: the law
    is nonlinear, and the wind varies within the month (Thompson, Marsden & Wright 1983,
    doi:10.1175/1520-0485(1983)013<1003:EOLFWS>2.0.CO;2). Both components must lie at the same points.

    Args:
        u10, v10: eastward and northward wind at 10 m [m s-1], of one shape.
        drag: the name of a law, a constant coefficient [1], or a function of the speed [m s-1].
        air_density: [kg m-3].
    """
    u10, v10 = np.asarray(u10, dtype=np.float64), np.asarray(v10, dtype=np.float64)
    speed = np.hypot(u10, v10)
    transfer = air_density * drag_law("wind_stress", drag)(speed) * speed
    return transfer * u10, transfer * v10


KNOT = 0.514444  # [m s-1]
DEEPEST = 150.0  # [hPa] of deficits


def atkinson_holliday_1977(wind: float, latitude: float = 0.0, motion: float = 0.0, ambient: float = 0.0) -> float:
    """The central pressure [Pa] for a wind [m s-1]; the other arguments are those of other relations."""
    return float(100.0 * (1010.0 - (wind / KNOT / 6.7) ** (1.0 / 0.644)))


def holland_2008(wind: float, latitude: float, motion: float, ambient: float) -> float:
    """The central pressure [Pa].

    Args:
        wind: the largest [m s-1].
        latitude: [degrees].
        motion: speed of the centre [m s-1].
        ambient: p_n [Pa].
    """
    deficit = np.linspace(0.1, DEEPEST, 15_000)
    x = 0.6 * (1.0 - deficit / 215.0)
    b = -4.4e-5 * deficit**2 + 0.01 * deficit - 0.014 * abs(latitude) + 0.15 * motion**x + 1.0
    speed = np.sqrt(np.maximum(b, 0.1) * 100.0 * deficit / (AIR_DENSITY * np.e))  # increases with the deficit
    return float(ambient - 100.0 * np.interp(wind, speed, deficit))


RELATIONS: dict[str, Callable[[float, float, float, float], float]] = {
    "atkinson_holliday_1977": atkinson_holliday_1977,
    "holland_2008": holland_2008,
}
