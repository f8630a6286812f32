"""The growth factor of a time step of dx/dt = lambda x, from a formula or from the step itself.

A step of a linear scheme multiplies (x, history) by a matrix G(z), with z = lambda dt. The scheme is stable where the
spectral radius of G is at most 1. For schemes without a formula, `of_step` finds G by applying their step to this one
equation.
"""

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from ..dynamics.clock import Time
from ..dynamics.stages import euler_stage
from ..errors import ConfigError
from ..fields.parts import replaced
from ..fields.state import State

if TYPE_CHECKING:
    from .explicit import TimeStepper

__all__ = [
    "first_growth",
    "interval_above_rest",
    "interval_of_interfaces",
    "interval_with_waves",
    "largest_root",
    "of_step",
    "semi_implicit_growth",
]

Rate: TypeAlias = float | np.ndarray  # times the time step [1]

MARGIN = 1e-9  # growth in a step that is taken for rounding
LARGEST = 4.0  # the largest |lambda| dt that is examined
BLOCKS = 8  # the number of parts in which the angles up to there are examined, in order
START_UP = 8  # the number of steps after which a multistep scheme has its whole history
GROWING = 1e-4  # growth in a step of waves over a raised level that matters: e-fold in 10,000 steps
LEAST_THETA = 0.55  # from where on modes of layers amplify one another by less than GROWING, below the limit
SLOW = 5.0  # the smallest ratio of the speed of waves to that of the flow with which implicit waves are stable


def largest_root(coefficients: Sequence) -> np.ndarray:
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


def first_growth(grows: Callable) -> float:
    """The largest |lambda| dt up to which `grows(angles)`, growth factors of an array of angles, are at most 1."""
    angles = np.linspace(0.0, LARGEST, 4001)[1:]
    for some in np.split(angles, BLOCKS):  # in order, since most schemes grow long before the last angle
        unstable = some[np.asarray(grows(some)) > 1 + MARGIN]
        if unstable.size:
            return float(unstable[0] - angles[0])
    return LARGEST


class _OneEquation:
    """dx/dt = rate x in the place of a System: it has `tendency`, and nothing else."""

    def __init__(self, rate, who):
        self._rate, self._who = rate, who

    euler = euler_stage

    def tendency(self, state, time):
        return state.map(lambda x: self._rate * x)

    def __getattr__(self, name):
        raise ConfigError(
            f"{self._who}: its limits cannot be found from its step, which uses {name!r} of the equations, and not "
            "tendency(state, time) alone; give the class a method amplification(z): the factor by which a step of "
            "dx/dt = lambda x grows, at z = lambda dt."
        )


def of_step(stepper: "TimeStepper", z: np.ndarray) -> np.ndarray:
    """The spectral radius of a step of `stepper` for dx/dt = lambda x, at each z = lambda dt of a complex array.

    Raises:
        ConfigError: for a step that uses more of the equations than `tendency`.
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
    for _ in range(START_UP):  # these steps fill the history, so that its counters have their final values
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


def semi_implicit_growth(
    theta: float, epsilon: float, waves: Rate, rotation: Rate = 0.0, carried: Rate = 0.0, excess: Rate = 0.0
) -> np.ndarray:
    """The largest |root| of SemiImplicit for implicit waves in a rotating, moving fluid, an array.

    Args:
        theta, epsilon: those of SemiImplicit.
        waves: c k dt of the gravity waves [rad]; with the other two, arrays of one shape.
        rotation: f dt [rad].
        carried: u k dt [rad].
        excess: the depth of which the transport is explicit, over that of which it is implicit [1].
    """
    angles = np.broadcast_arrays(waves, rotation, carried, excess)
    waves, turn, carried, excess = (x.astype(complex)[..., None, None] for x in angles)
    one, coriolis = np.eye(3), np.zeros((3, 3))
    coriolis[0, 1], coriolis[1, 0] = 1.0, -1.0
    above = np.outer([0.0, 0.0, 1.0], [1.0, 0.0, 0.0])  # of u in the equation of the level
    explicit = turn * coriolis - 1j * carried * one - 1j * waves * excess * above
    gravity = -1j * waves * (np.abs(np.subtract.outer([0, 1, 2], [0, 1, 2])) == 2)
    new = np.linalg.inv(one - theta * gravity)
    now, before = one + (1 - theta) * gravity + (1.5 + epsilon) * explicit, -(0.5 + epsilon) * explicit
    top = np.concatenate([new @ now, new @ before], axis=-1)
    bottom = np.broadcast_to(np.concatenate([one, 0 * one], axis=-1), top.shape)
    return np.abs(np.linalg.eigvals(np.concatenate([top, bottom], axis=-2))).max(axis=-1)


@functools.cache
def interval_above_rest(theta: float, epsilon: float, excess: float) -> float:
    """The largest c k dt of SemiImplicit's gravity waves, c over the depth at rest, where the level is above rest.

    Args:
        theta, epsilon: those of SemiImplicit.
        excess: the level over the depth at rest [1].
    """
    waves = np.logspace(-1, 3, 1001)
    unstable = waves[semi_implicit_growth(theta, epsilon, waves, excess=excess) > 1 + GROWING]
    return float(unstable[0]) if unstable.size else np.inf


@functools.cache
def interval_of_interfaces(theta: float, epsilon: float) -> float:
    """The largest c k dt of internal waves of layers under an implicit surface.

        u' = u - i a (3/2 + epsilon) h + i a (1/2 + epsilon) h_old,   h' = h - i a (theta u' + (1 - theta) u)

    Args:
        theta: the weight of the new time in the transports.
        epsilon: of the pressure of interfaces, which AB2 extrapolates.

    Returns:
        0 for theta below 0.55, with which nothing damps the waves of the surface, and the interfaces amplify them.
    """
    if theta < LEAST_THETA:
        return 0.0
    new, old = 1.5 + epsilon, 0.5 + epsilon

    def growth(angles):
        pressure = theta * new, (1.0 - theta) * new - theta * old, -(1.0 - theta) * old
        return largest_root([1.0, *(x + angles**2 * y for x, y in zip((-2.0, 1.0, 0.0), pressure))])

    return first_growth(growth)


@functools.cache
def interval_with_waves(theta: float, epsilon: float, axis: str, alone: float) -> float:
    """The stable interval of the explicit part of SemiImplicit in the presence of implicit waves of any speed.

    For the axis "carried", the flow is at least SLOW times slower than the waves, since a flow at their speed would
    amplify them.

    Args:
        theta, epsilon: those of SemiImplicit.
        axis: "carried" (advection) or "imaginary" (rotation).
        alone: the interval without waves, an upper bound.
    """
    angles, speeds = np.meshgrid(np.linspace(0.0, 1.0, 201)[1:], np.logspace(0, 4, 61), indexing="ij")
    if axis == "carried":
        grows = semi_implicit_growth(theta, epsilon, SLOW * speeds * angles, carried=angles)
    else:
        grows = semi_implicit_growth(theta, epsilon, 0.01 * speeds, rotation=angles)
    unstable = angles[grows.max(axis=1) > 1 + 10 * MARGIN, 0]
    return min(float(unstable[0] - angles[0, 0]), alone) if unstable.size else alone
