"""Flows that carry tracers and do not change, for the tests of advection: streamfunctions at corners, and a stepper
that leaves u, v and eta as they are."""

from typing import Any

import jax.numpy as jnp
import numpy as np

import swmodel as sw
from swmodel.dynamics.stages import euler_stage
from swmodel.fields.state import like, pytree, static

__all__ = ["Kinematic", "carried_by", "deforming", "rotating"]


@pytree
class Kinematic(sw.SSPRK3):
    """SSPRK3 of the tracers alone, in the flow that the first state holds, times cos(pi t / period).

    Args:
        dt: [s].
        period: [s]; None for a steady flow.
    """

    period: Any = static(default=None)

    def step(self, equations, state, history, time):
        return sw.SSPRK3.step(self, _Given(equations, self.period), state, history, time)


class _Given:
    def __init__(self, equations, period):
        self.equations, self.period, self.evaluation = equations, period, equations.evaluation

    euler = euler_stage

    def tendency(self, state, time):
        factor = 1.0 if self.period is None else jnp.cos(jnp.pi * time.seconds / self.period)
        flow = self.equations.flow(state.replace(u=factor * state.u, v=factor * state.v), time)
        zero = {name: 0.0 * flow.state[name] for name in ("u", "v", "eta")}
        return like(state, flow.state.replace(**zero, **self.equations.transported(flow, time)))


def carried_by(model, psi, **others):
    """The State whose transports H u, H v are those of the streamfunction psi(x, y) [m3 s-1], which is 0 at coasts.

    v dx H_v is the difference of psi along x, -u dy H_u that along y.
    """
    grid, wet = model.grid, np.pad(model.wet, ((0, 1), (0, 1)))
    at_sea = wet[:-1, :-1] & wet[1:, :-1] & wet[:-1, 1:] & wet[1:, 1:]
    psi = np.where(at_sea, psi(*grid.coordinates("q")), 0.0)
    depth, metrics = np.where(model.wet, model.depth, 0.0), grid.metrics(np.arange(grid.ny))
    depths = [0.5 * (depth + np.roll(depth, -1, axis)) for axis in (1, 0)]
    h_u, h_v = (np.where(h > 0, h, 1.0) for h in depths)
    u = -np.diff(psi, axis=0, prepend=0.0) / metrics["dy_u"] / h_u
    v = np.diff(psi, axis=1, prepend=0.0) / metrics["dx_v"] / h_v
    return model.state(u=u, v=v, **others)


def rotating(n, **options):
    """(model, psi, c, end) of a Gaussian that turns rigidly in a square, once until `end`; n x n cells."""
    grid = sw.CartesianGrid(n, n, (0.0, 1.0), (0.0, 1.0))
    model = sw.ShallowWater(grid, 1.0, gravity=1.0, linear=True, communicator="serial", **options)
    radius = 0.45

    def psi(x, y):
        return np.pi * (radius**2 - np.minimum((x - 0.5) ** 2 + (y - 0.5) ** 2, radius**2))

    return model, psi, lambda x, y: np.exp(-((x - 0.5) ** 2 + (y - 0.65) ** 2) / 0.12**2), 1.0


def deforming(n, **options):
    """(model, psi, c, end) of two Gaussian hills that a flow deforms until end / 2, and brings back until `end`.

    After case 1 of Nair & Lauritzen (2010), doi:10.1016/j.jcp.2010.08.014: psi = k sin^2(lambda) cos^2(3 theta / 2) on
    the sector of 180 degrees of longitude between 60 degrees south and north, at whose sides it vanishes.
    """
    grid = sw.SphericalGrid(3 * n // 2, n, (0.0, 180.0), (-60.0, 60.0))
    model = sw.ShallowWater(grid, 1.0, gravity=1.0, linear=True, communicator="serial", **options)

    def psi(longitude, latitude):
        x, y = np.deg2rad(longitude), np.deg2rad(latitude)
        return 0.3 * grid.radius**2 * np.sin(x) ** 2 * np.cos(1.5 * y) ** 2

    def hills(longitude, latitude):
        x, y = np.deg2rad(longitude), np.deg2rad(latitude)
        cosines = [np.cos(y) * np.cos(x - centre) for centre in (np.pi / 3, 2 * np.pi / 3)]
        return sum(np.exp(-20.0 * (2.0 - 2.0 * cosine)) for cosine in cosines)

    return model, psi, hills, 5.0
