"""How much a time step amplifies: the growth factor of dx/dt = lambda x, as a formula or from the step itself.

A step of a linear scheme takes (x, history) to a multiple of it by a matrix G(z), z = lambda dt; the scheme is stable
where the spectral radius of G is at most 1. For schemes that give no formula, `of_step` finds G by running their step
on this one equation.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..dynamics.clock import Time
from ..dynamics.stages import euler_stage
from ..errors import ConfigError
from ..fields.parts import replaced
from ..fields.state import State

__all__ = ["beside_waves", "first_growth", "interval_beside_waves", "largest_root", "of_step"]

MARGIN = 1e-9  # growth a step that counts as none
LARGEST = 4.0  # angle that is looked at
BLOCKS = 8  # parts in which the angles up to there are looked at
START_UP = 8  # steps after which a multistep scheme has all its history
SLOW = 5.0  # times slower than waves the flow is at least, for implicit ones to be stable


def largest_root(coefficients: Any) -> np.ndarray:
    """The largest |root| of polynomials, from the eigenvalues of their companion matrices.

    Args:
        coefficients: the highest power first, whose coefficient is 1; numbers or arrays of one shape.

    Returns:
        An array of that shape.
    """
    _, *others = np.broadcast_arrays(*(np.asarray(c, complex) for c in coefficients))
    companion = np.zeros((*others[0].shape, len(others), len(others)), complex)
    companion[..., 0, :] = -np.stack(others, axis=-1)
    companion[..., range(1, len(others)), range(len(others) - 1)] = 1.0
    return np.abs(np.linalg.eigvals(companion)).max(axis=-1)


def first_growth(grows: Any) -> float:
    """The largest |lambda| dt up to which `grows(angles)`, growth factors of an array of angles, are at most 1."""
    angles = np.linspace(0.0, LARGEST, 4001)[1:]
    for some in np.split(angles, BLOCKS):  # in order, since most schemes grow long before the last angle
        unstable = some[np.asarray(grows(some)) > 1 + MARGIN]
        if unstable.size:
            return float(unstable[0] - angles[0])
    return LARGEST


class _OneEquation:
    """dx/dt = rate x in the place of Equations: they have `tendency`, and nothing else."""

    def __init__(self, rate, who):
        self._rate, self._who = rate, who

    euler = euler_stage

    def tendency(self, state, time):
        return state.map(lambda x: self._rate * x)

    def __getattr__(self, name):
        raise ConfigError(
            f"{self._who}: its limits cannot be found from its step, which asks the equations for {name!r} and not for "
            "tendency(state, time) alone; give the class a method amplification(z): the factor by which a step of "
            "dx/dt = lambda x grows, at z = lambda dt."
        )


def of_step(stepper: Any, z: Any) -> np.ndarray:
    """The spectral radius of a step of `stepper` for dx/dt = lambda x, at each z = lambda dt of a complex array.

    Raises:
        ConfigError: for a step that asks the equations for more than tendencies.
    """
    with jax.enable_x64(True):
        matrices = np.asarray(_matrices(stepper, jnp.asarray(z, jnp.complex128)))
    return np.abs(np.linalg.eigvals(matrices)).max(axis=-1)


def _matrices(stepper, z):
    """G(z), (n, m, m) of n numbers z, where state and history hold m numbers."""
    stepper, who = replaced(stepper, {"dt": 1.0}), type(stepper).__name__
    time = Time(jnp.zeros((), jnp.int32), jnp.zeros((), complex), jnp.ones((), complex), None)
    state = State(*(jnp.ones((1, 1), complex) for _ in range(3)))
    both = state, stepper.history(state)
    for _ in range(START_UP):  # only for the counts of what is in the history
        both = stepper.step(_OneEquation(jnp.zeros((), complex), who), *both, time)
    leaves, structure = jax.tree.flatten(both)
    varies = [jnp.issubdtype(x.dtype, jnp.inexact) for x in leaves]

    def after(vector, rate):
        numbers = iter(vector)
        full = [next(numbers).reshape(1, 1) if moves else x for x, moves in zip(leaves, varies)]
        new = stepper.step(_OneEquation(rate, who), *structure.unflatten(full), time)
        return jnp.stack([x.reshape(()) for x, moves in zip(jax.tree.leaves(new), varies) if moves])

    columns = jnp.eye(sum(varies), dtype=complex)
    return jax.jit(jax.vmap(lambda rate: jax.vmap(lambda column: after(column, rate), out_axes=1)(columns)))(z)


# -- implicit waves ----------------------------------------------------------------------------------------------------


def beside_waves(theta: float, epsilon: float, waves: Any, turning: Any = 0.0, carried: Any = 0.0) -> Any:
    """The largest |root| of SemiImplicit for waves of c k dt = `waves` in water that turns by f dt and is carried by
    u k dt, angles; arrays of one shape."""
    angles = np.broadcast_arrays(waves, turning, carried)
    waves, turning, carried = (x.astype(complex)[..., None, None] for x in angles)
    one, rotation = np.eye(3), np.zeros((3, 3))
    rotation[0, 1], rotation[1, 0] = 1.0, -1.0
    explicit = turning * rotation - 1j * carried * one
    gravity = -1j * waves * (np.abs(np.subtract.outer([0, 1, 2], [0, 1, 2])) == 2)
    new = np.linalg.inv(one - theta * gravity)
    now, before = one + (1 - theta) * gravity + (1.5 + epsilon) * explicit, -(0.5 + epsilon) * explicit
    top = np.concatenate([new @ now, new @ before], axis=-1)
    bottom = np.broadcast_to(np.concatenate([one, 0 * one], axis=-1), top.shape)
    return np.abs(np.linalg.eigvals(np.concatenate([top, bottom], axis=-2))).max(axis=-1)


@functools.cache
def interval_beside_waves(theta: float, epsilon: float, axis: str, alone: float) -> float:
    """The stable interval of the explicit part of an implicit free surface, at most that `alone`, without waves.

    Flow that "carried" waves is SLOW times slower than they are: at their speed it would feed them.
    """
    angles, speeds = np.meshgrid(np.linspace(0.0, 1.0, 201)[1:], np.logspace(0, 4, 61), indexing="ij")
    if axis == "carried":
        grows = beside_waves(theta, epsilon, SLOW * speeds * angles, carried=angles)
    else:
        grows = beside_waves(theta, epsilon, 0.01 * speeds, turning=angles)
    unstable = angles[grows.max(axis=1) > 1 + 10 * MARGIN, 0]
    return min(float(unstable[0] - angles[0, 0]), alone) if unstable.size else alone
