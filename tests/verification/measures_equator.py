"""The equatorial Rossby soliton of Boyd (1980), doi:10.1175/1520-0485(1980)010<1699:ESWPIE>2.0.CO;2: its speed.

Lengths are in equatorial radii, f = y, g = H = 1. To first order the soliton of half-width 1 / B moves west at
1 / 3 + 0.395 B^2. Cells have the length 0.25. Each measure is the time's mean speed of the crest from t = 10, when the
waves that the start sheds have left it, to t = 40.
"""

import numpy as np

import swmodel as sw

from .cases import take_steps
from .measures import measure

B = 0.394
CELL, DT, FIRST, LAST = 0.25, 0.1, 10.0, 40.0
THEORY = 1 / 3 + 0.395 * B**2


def start(x, y):
    """(u, v, eta) of the solution of order zero, with its crest at x = 0."""
    height = 0.771 * B**2 / np.cosh(B * x) ** 2
    slope = -2 * B * np.tanh(B * x) * height
    decay = np.exp(-(y**2) / 2)
    return height * (6 * y**2 - 9) / 4 * decay, 2 * y * slope * decay, height * (6 * y**2 + 3) / 4 * decay


def crest(eta, x):
    """Where eta, summed over y, is largest: the top of the parabola through the largest value and its neighbours."""
    profile = np.asarray(eta).sum(axis=0)
    k = int(np.argmax(profile))
    west, top, east = profile[[k - 1, k, (k + 1) % x.size]]
    return x[k] + CELL * 0.5 * (west - east) / (west - 2 * top + east)


def speed(**options):
    """Of the crest, to the west."""
    grid = sw.CartesianGrid(192, 64, (-24.0, 24.0), (-8.0, 8.0), "x")
    model = sw.ShallowWater(grid, 1.0, gravity=1.0, coriolis=sw.BetaPlane(0.0, 1.0), **options)
    fields = [start(*grid.coordinates(position))[k] for k, position in enumerate("uvh")]
    x, places = grid.coordinates("h")[0][0], []
    state, stepper = model.state(*fields), sw.RK4(DT)
    for duration in (FIRST, LAST - FIRST):
        state, _ = take_steps(model, stepper, state, round(duration / DT))
        places.append(crest(state.eta, x))
    return float((places[0] - places[1]) % 48.0 / (LAST - FIRST))


@measure
def soliton_speed_energy():
    """With the energy-conserving form of the Coriolis force and of rotational advection."""
    return speed()


@measure
def soliton_speed_arakawa_lamb():
    """With the form of Arakawa and Lamb."""
    return speed(momentum=sw.ArakawaLamb())


@measure
def soliton_speed_enstrophy():
    """With the enstrophy-conserving form."""
    return speed(momentum=sw.EnstrophyConserving())


@measure
def soliton_speed_spectral():
    """With the pseudo-spectral discretisation."""
    return speed(core=sw.PseudoSpectral())
