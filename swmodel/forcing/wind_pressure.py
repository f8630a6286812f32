"""Relations between the largest wind of a cyclone and its central pressure, for tracks that have no pressures.

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

import numpy as np

from ..defaults import AIR_DENSITY

__all__ = ["RELATIONS", "atkinson_holliday_1977", "holland_2008"]

KNOT = 0.514444
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
