"""The damping of scales that the grid does not resolve, by sixth differences of the level.

With d = eta_high - eta_low, the difference across a face, and h_u, the thickness of the water there,

    D = (1 - s) D6 + s J,     s = min(1, (d / (0.015 h_u))^2)
    D6 = the one of d and (second difference of second difference of d) / 16 that is nearer to 0; 0 where signs differ

J is the difference of the levels that are reconstructed from both sides with limited slopes. Where the second one of D6
is taken, a wave of wavenumber k decays at the rate c [2 sin(k dx / 2)]^6 / (64 dx): by 1e-3 in a path of one wavelength
of 16 cells. The shortest wave, of 2 cells, has D6 = d, which is the damping of an upwind scheme. D6 has the sign of d,
so that damping only takes potential energy, and makes no new maximum (Xue 2000,
doi:10.1175/1520-0493(2000)128<2853:HOMNDA>2.0.CO;2; Knievel et al. 2007, doi:10.1175/2007MWR2100.1). At a single jump
of the level it is 3/8 of it, too little for a bore: there, where the level changes by more than 1.5 % of the depth from
cell to cell, s is 1. Where both branches of D6 are 0, as at rest, the derivative is that of sixth differences.
"""

from ..fields.field import AbstractField, Axis, pointwise
from .limiters import larger, smaller

__all__ = ["damped_difference"]

STEEP = 0.015  # of s in the module docstring


def damped_difference(axis: Axis, step: AbstractField, jump: AbstractField, h: AbstractField) -> AbstractField:
    """D of the module docstring [m].

    Args:
        axis: that the faces lie across.
        step: d, the difference of the level across faces [m].
        jump: J, that of the levels reconstructed from both sides [m].
        h: h_u, the thickness of the water on faces, above 0 [m].
    """
    smooth = _unresolved(axis, step)
    return smooth + pointwise(_steepness, step, h) * (jump - smooth)


def _steepness(difference, h):
    """s of the module docstring: 1 where a difference of the level is STEEP h or more."""
    steep = (STEEP * h) * (STEEP * h)
    return smaller(difference * difference, steep) / steep


def _unresolved(axis, step):
    """D6 of the module docstring: the part of a difference across faces that belongs to the shortest waves."""
    curvature = axis.low(axis.low(step)) + axis.high(axis.high(step)) - 2.0 * step
    fourth = axis.low(axis.low(curvature)) + axis.high(axis.high(curvature)) - 2.0 * curvature
    return pointwise(_limited, 0.0625 * fourth, step)


def _limited(x, difference):
    """x, held between 0 and a difference."""
    return smaller(larger(x, smaller(difference, 0.0)), larger(difference, 0.0))
