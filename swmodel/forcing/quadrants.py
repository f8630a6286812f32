"""The radius of maximum wind in each quadrant of a storm, from the radii of winds of 34, 50 and 64 knots of its track.

The asymmetric vortex of Mattocks & Forbes (2008), doi:10.1016/j.ocemod.2008.06.008: in the middle of a quadrant it has
the wind of the strongest isotach whose radius r is known there. The wind at 10 m is V(r) times the length of a vector
that does not depend on the radius R of maximum wind: the circular wind, turned inwards, and the share of the motion. So
V(r) = T is known, and with p = (R / r)^B

    p exp(-p) = (T^2 + T r |f|) rho_air / (B (p_n - p_c))        Holland (1980)
    p exp(-p) = (T / V_m)^(1/x) / e                              Holland et al. (2010)

has one solution with R <= r, by the principal branch of Lambert's function. Where the vortex is too weak, R = r.
"""

from typing import Any

import numpy as np

from ..defaults import EARTH_ROTATION
from .cyclones import EYE, LEAST_SHARE, MOST_SHARE, Cyclone

__all__ = ["radius_shares"]

TOWARDS = np.sqrt(0.5) * np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [-1.0, 1.0]])  # (east, north), NE, SE, SW, NW


def radius_shares(storm: Cyclone, radii: np.ndarray, winds: np.ndarray, motion: np.ndarray) -> np.ndarray:
    """R in the quadrants over the radius of maximum wind at each point of a track [1], (n, 4).

    A quadrant in which no radius is known has the smallest R of the others, and a point without any radii its own.

    Args:
        storm: the Cyclone, which is symmetric.
        radii: of `winds` in the quadrants NE, SE, SW and NW [m], 0 where there is no such wind and NaN where that is
            not known, (n, 3, 4).
        winds: at 10 m, ascending [m s-1], (3,).
        motion: of the centre to the east and the north [m s-1], (n, 2).
    """
    from scipy.special import lambertw

    given: Any = {name: np.asarray(getattr(storm, name), float) for name in ("y", "b", "radius", "central_pressure")}
    f, b = 2.0 * EARTH_ROTATION * np.sin(np.deg2rad(given["y"]))[:, None], given["b"][:, None]
    strength = b * (storm.ambient_pressure - given["central_pressure"][:, None]) / storm.air_density
    largest, angle = np.sqrt(strength / np.e), np.deg2rad(storm.inflow)
    circular = np.where(f >= 0, 1.0, -1.0) * np.cos(angle) * storm.reduction
    inwards, share = np.sin(angle) * storm.reduction, storm.translation / largest
    (east, north), (dx, dy) = TOWARDS.T, motion.T[..., None]
    length = np.hypot(-north * circular - east * inwards + share * dx, east * circular - north * inwards + share * dy)
    known = np.nan_to_num(radii) > 0
    strongest = known.shape[1] - 1 - np.argmax(known[:, ::-1], axis=1)  # (n, 4)
    r = np.hypot(np.take_along_axis(np.nan_to_num(radii), strongest[:, None], axis=1)[:, 0], EYE)
    target = winds[strongest] / length
    if storm.profile == "holland_2010":
        weight = (target / largest) ** (1.0 / storm.exponent) / np.e
    else:
        weight = (target**2 + target * r * np.abs(f)) / strength
    found = r * (-lambertw(-np.minimum(weight, 1.0 / np.e)).real) ** (1.0 / b)
    found = np.where(known.any(axis=1), found, np.inf)
    found = np.minimum(found, np.where(np.isfinite(found), np.inf, found.min(axis=1, keepdims=True)))
    return np.clip(np.where(np.isfinite(found), found / given["radius"][:, None], 1.0), LEAST_SHARE, MOST_SHARE)
