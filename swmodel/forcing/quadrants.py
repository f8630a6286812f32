"""The radii of maximum wind in each quadrant of a storm, from the radii of winds of 34, 50 and 64 knots of its track.

The asymmetric vortex of Mattocks & Forbes (2008), doi:10.1016/j.ocemod.2008.06.008, with all isotachs, as GAHM has them
(Gao 2018, a thesis at Chapel Hill; Dietrich et al. 2018). In the middle of a quadrant it has the wind T of each isotach
at its radius r. The wind at 10 m is V(r) times the length of a vector that does not depend on the radius R of
maximum wind: the circular wind, turned inwards, and the share of the motion. So V(r) = T is known, and with
p = (R / r)^B

    p exp(-p) = (T^2 + T r |f|) rho_air / (B (p_n - p_c))        Holland (1980)
    p exp(-p) = (T / V_m)^(1/x) / e                              Holland et al. (2010)

has one solution with R <= r, by the principal branch of Lambert's function. Where the vortex is too weak, R = r. Each
isotach has its R, and between two of them R is linear in the distance r (cyclones.py), so that R / r is monotonic.
"""

from typing import Any

import numpy as np

from ..defaults import EARTH_ROTATION
from .cyclones import EYE, LEAST_SHARE, MOST_SHARE, Cyclone

__all__ = ["radius_shares"]

TOWARDS = np.sqrt(0.5) * np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [-1.0, 1.0]])  # (east, north), NE, SE, SW, NW


def radius_shares(
    storm: Cyclone, radii: np.ndarray, winds: np.ndarray, motion: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(R, r) of each isotach in the quadrants, over the radius of maximum wind at each point of a track [1], (n, 12).

    They are the `asymmetry` and the `distances` of a Cyclone. An isotach that is not known in a quadrant has the
    numbers of the next weaker one there, or of the next stronger one. A quadrant in which no radius is known has those
    of the quadrant whose strongest isotach has the smallest R. Points without any radii have their own R.

    Args:
        storm: the Cyclone, which is symmetric.
        radii: of `winds` in the quadrants NE, SE, SW and NW [m], 0 where there is no such wind and NaN where that is
            not known, (n, 3, 4).
        winds: at 10 m, ascending [m s-1], (3,).
        motion: of the centre to the east and the north [m s-1], (n, 2).
    """
    from scipy.special import lambertw

    lines: Any = {name: np.asarray(getattr(storm, name), float) for name in ("y", "b", "radius", "central_pressure")}
    y, b, radius, pressure = (line[:, None, None] for line in lines.values())
    f, strength = 2.0 * EARTH_ROTATION * np.sin(np.deg2rad(y)), b * (storm.ambient_pressure - pressure)
    strength = strength / storm.air_density
    largest, angle = np.sqrt(strength / np.e), np.deg2rad(storm.inflow)
    circular = np.where(f >= 0, 1.0, -1.0) * np.cos(angle) * storm.reduction
    inwards, share = np.sin(angle) * storm.reduction, storm.translation / largest
    (east, north), (dx, dy) = TOWARDS.T, motion.T[..., None, None]
    length = np.hypot(-north * circular - east * inwards + share * dx, east * circular - north * inwards + share * dy)
    known = np.nan_to_num(radii[:, ::-1]) > 0  # from the strongest isotach on
    r, target = np.hypot(np.nan_to_num(radii[:, ::-1]), EYE), winds[::-1, None] / length
    if storm.profile == "holland_2010":
        weight = (target / largest) ** (1.0 / storm.exponent) / np.e
    else:
        weight = (target**2 + target * r * np.abs(f)) / strength
    found = r * (-lambertw(-np.minimum(weight, 1.0 / np.e)).real) ** (1.0 / b)
    tables = np.where(known, np.stack([found, r]), np.nan)
    for k, other in ((1, 2), (0, 1), (1, 0), (2, 1)):  # from the weaker isotach, then from the stronger one
        tables[:, :, k] = np.where(np.isnan(tables[:, :, k]), tables[:, :, other], tables[:, :, k])
    smallest = np.argmin(np.where(known.any(axis=1), tables[0, :, 0], np.inf), axis=1)
    others = np.take_along_axis(tables, smallest[None, :, None, None], axis=3)
    shares, distances = np.nan_to_num(np.where(np.isnan(tables), others, tables) / radius, nan=1.0)
    distances = np.maximum.accumulate(distances, axis=1)
    return np.clip(shares, LEAST_SHARE, MOST_SHARE).reshape(-1, 12), distances.reshape(-1, 12)
