"""Time steppers: each advances a state by one step, from the tendencies of the equations.

    AB2     u + dt [(3/2 + eps) F_n - (1/2 + eps) F_{n-1}]
    AB3     u + dt [23 F_n - 16 F_{n-1} + 5 F_{n-2}] / 12
    SSPRK3  Shu & Osher (1988), doi:10.1016/0021-9991(88)90177-5
    RK4     the classical one

A multistep scheme carries its history, which starts inside the program (Euler, AB2, AB3) and is stored in restarts.
Each scheme gives its amplification factor, from which its stable intervals follow (stability.py).
"""

import abc
import functools
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from ..defaults import AB2_EPSILON
from ..dynamics.clock import Time
from ..errors import ConfigError
from ..fields.field import AbstractField
from ..fields.methods import Result
from ..fields.parameters import parameter
from ..fields.parts import ModelPart
from ..fields.state import State, pytree, replaced
from ..fields.variables import Variable
from .stability import first_growth, largest_root, of_step
from .steps import History

if TYPE_CHECKING:
    from ..dynamics.site import Site
    from ..dynamics.system import System

__all__ = [
    "TimeStepper",
    "time_step",
    "AB2",
    "AB3",
    "SSPRK3",
    "RK4",
    "check_steps",
    "known_dt",
]


def time_step() -> Any:
    """The declaration of the field `dt` of a scheme [s]."""
    hint = "; largest_time_step(model, stepper) is the longest stable one"
    return parameter(None, "s", above=0.0, hint=hint, doc="length of a step")


def _no_step(value, arguments):
    if not isinstance(value, tuple) or len(value) != 2:
        return f"a {type(value).__name__} of {len(value)}" if isinstance(value, tuple) else f"a {type(value).__name__}"
    return None if isinstance(value[0], State) else f"a {type(value[0]).__name__} as the state"


class TimeStepper(ModelPart, abc.ABC):
    """A scheme with time step `dt` [s].

    A scheme of your own has the field `dt: Any = sw.time_step()` and `step`; a multistep scheme has `history` too.
    docs/guide/own_parts.md shows one. Its limits are found from its step, unless it has `amplification`.

    Attributes:
        needs_parts: whether it needs the parts of a tendency, which not every core can give.
        needs_modes: whether it needs the modes of the core.
        stages: evaluations of the tendency in a step.
        order: of accuracy.
        history_kind: whether the history holds "tendencies" or "states".
        states_kept: the number of States that a step holds in addition to its own: earlier ones, and those of stages.
            Predictions of memory use it.
        buffer_cycle: number of steps after which the buffers of state and history are back in their first roles, when
            the newest entry overwrites the oldest.
        wide_halo: the halo [cells] that makes its loops fewer, in tiles that are at least twice as wide.
        is_implicit: whether the surface of a step depends on the whole domain.
        has_solver: whether that is by an elliptic.Solver, its argument `solver`.
        rigid_lid: whether the surface is fixed: eta is then the pressure on it, and no part of the thickness.
        rows: {name: Variable} of the rows that replace those of the table of variables in files.
        comment: on its variables, for files; None without one.
        conserves_momentum: whether it can step models with MomentumConserving, by `equations.euler` or
            `equations.forward_backward`.
        needs_momentum_form: whether it can step no other models.
        exact_waves: whether linear waves set no limit to its time step.
        remedy: the advice in the message for parameters with which no time step is stable.
    """

    dt: Any
    kind = "stepper"
    required = {"dt": "dt: Any = sw.time_step()"}
    results = {"step": Result("the pair (state, history) one dt later", _no_step)}
    stages = 1
    order = 1
    needs_parts = False
    needs_modes = False
    history_kind = "tendencies"
    states_kept = 1
    buffer_cycle = 1
    wide_halo = 1
    is_implicit = False
    has_solver = False
    rigid_lid = False
    rows: ClassVar[dict[str, Variable]] = {}
    comment: ClassVar[str | None] = None
    exact_waves = False
    conserves_momentum = False
    needs_momentum_form = False
    remedy = "another scheme"

    @classmethod
    def may_have(cls, product: Any) -> bool:
        """Whether its runs may have a Product, or one of a class: under a rigid lid none of a surface that moves."""
        return not (cls.rigid_lid and product.of_moving_surface)

    def system(self, dynamics: "System") -> "System":
        """A System of tiles prepared for the States that this scheme steps; collective."""
        return dynamics.prepare()

    def prepare(self, equations: "System") -> "TimeStepper":
        """An object with the same `step`, in which all that does not change between steps is computed once."""
        return self

    def obstacle_to_loops(self, dynamics: "System") -> str | None:
        """A phrase that explains why steps of this System cannot run in fused loops, or None."""

    def history(self, state: State) -> History:
        """The empty history of the scheme: a pytree of tile arrays and an integer count of steps taken."""
        return ()

    @abc.abstractmethod
    def step(self, equations: "System", state: State, history: History, time: Time) -> tuple[State, History]:
        """(state, history) one dt later; `time` is the Time at which the step begins."""

    def amplification(self, z: complex | np.ndarray) -> np.ndarray | float:
        """The factor by which dx/dt = lambda x grows in a step, at each z = lambda dt: the scheme's largest root."""
        return of_step(self, np.atleast_1d(z)).reshape(np.shape(z))

    def wave_amplification(self, angle: float | np.ndarray) -> np.ndarray | float:
        """The same for a gravity wave of frequency angle / dt, where a scheme steps pressure and flow alternately."""
        return self.amplification(1j * angle)

    def stable_interval(self, axis: str) -> float:
        """The largest |lambda| dt for which a step does not grow.

        Args:
            axis: "wave" (gravity waves), "imaginary" (rotation), "carried" (advection) or "real" (damping).

        Raises:
            ConfigError: for a scheme without `amplification` whose step uses more of the equations than `tendency`.
        """
        return _interval(_ByValue(self), axis)

    def wave_interval(self, damping: float) -> float:
        """The stable interval of gravity waves whose level is damped.

        Args:
            damping: of the shortest waves, over that of an upwind scheme [1].
        """
        return self.stable_interval("wave")

    def raised_wave_rate(self, site: "Site") -> np.ndarray | float:
        """1 / the longest step [s-1] of waves over a level above rest, at a `site` of stability.py; 0 without limit."""
        return 0.0

    def _growth(self, angles, axis):
        """Growth factors at an array of angles: by the formulas of the class that defines the step, or by the step."""
        if axis == "wave" and _defined_with_step(type(self), "wave_amplification"):
            return self._of_each("wave_amplification", angles)
        z = (-1.0 if axis == "real" else 1j) * angles
        if _defined_with_step(type(self), "amplification"):
            return self._of_each("amplification", z)
        return of_step(self, z)

    def _of_each(self, name, z):
        """The result of the method `name` for an array z, with one factor for each number in it."""
        found = np.asarray(getattr(self, name)(z))
        if found.shape != z.shape:
            raise ConfigError(
                f"{type(self).__name__}.{name} gave an array of shape {found.shape} for one of shape {z.shape}; "
                "it must give a factor for each number of an array."
            )
        return found

    def check(self) -> None:
        """Raise ValueError for a `dt` that is not positive."""
        if not self.dt > 0:
            raise ValueError(f"{type(self).__name__}: dt = {self.dt} s is not a time step; give a positive number.")


def _defined_with_step(cls, name):
    """Whether the class that defines `step`, or one that derives from it, defines the method `name` too."""
    first = next(base for base in cls.__mro__ if name in vars(base) or "step" in vars(base))
    return name in vars(first) and first is not TimeStepper


class _ByValue:
    """A stepper without its dt, equal to others of the same class and parameters."""

    def __init__(self, stepper):
        leaves, structure = jax.tree.flatten(replaced(stepper, {"dt": 1.0}))
        self.stepper, self._key = stepper, (structure, *(np.asarray(x).tobytes() for x in leaves))

    def __eq__(self, other):
        return self._key == other._key

    def __hash__(self):
        return hash(self._key)


@functools.lru_cache(maxsize=256)
def _interval(known, axis):
    return first_growth(functools.partial(known.stepper._growth, axis=axis))


def known_dt(who: str, stepper: "TimeStepper") -> float:
    """The length of a step [s] as a Python float.

    Raises:
        TypeError: if `stepper` is not a TimeStepper.
        ValueError: if its dt is not positive, or is traced.
    """
    if not isinstance(stepper, TimeStepper):
        raise TypeError(
            f"{who}: stepper = {stepper!r} is not a TimeStepper; give that of the run, such as sw.AB2(dt=60.0)."
        )
    if isinstance(stepper.dt, jax.core.Tracer):
        raise ValueError(
            f"{who}: the dt of this {type(stepper).__name__} is not known before the program runs; make the "
            "System outside jax.jit and jax.grad, of a stepper whose dt is a number."
        )
    stepper.check()
    return float(stepper.dt)


def check_steps(who: str, name: str, number: object, least: int) -> None:
    """Raise TypeError unless `number` is None or a whole number of at least `least`."""
    fits = isinstance(number, (int, np.integer)) and not isinstance(number, bool) and number >= least
    if number is not None and not fits:
        raise TypeError(f"{who}: {name} = {number!r} is not a number of steps; give a whole one, {least} or more.")


@pytree
class Past:
    """Tendencies or states of earlier steps, newest first.

    Attributes:
        count: the number of steps that have been stored so far, at most that of `values`.
        values: States; those beyond `count` are zero.
    """

    count: jax.Array
    values: tuple

    @staticmethod
    def empty(state: State, depth: int) -> "Past":
        return Past(jnp.zeros((), jnp.int32), tuple(jax.tree.map(jnp.zeros_like, state) for _ in range(depth)))

    def push(self, newest: State) -> "Past":
        return Past(jnp.minimum(self.count + 1, len(self.values)), (newest, *self.values[:-1]))


def _combine(state, dt, weights, tendencies):
    def sum_of(x, *slopes):
        return x + dt * sum(weight.astype(x.dtype) * slope for weight, slope in zip(weights, slopes))

    return state.map(sum_of, *tendencies)


def _stages(stage, start, table, equations):
    """The stages of a Runge-Kutta step: `start = stage(*start, weights)` for each row of weights of a table.

    `start` is a tuple of States. On arrays this is a lax.scan: in an unrolled loop XLA would fuse each stage into the
    next, and recompute the earlier ones for every neighbour. Fields change their halos from stage to stage, so that
    their stages are unrolled.
    """
    table = jnp.asarray(table, start[0].u.dtype)
    if not isinstance(start[0].u, AbstractField):
        return jax.lax.scan(lambda carry, weights: (stage(*carry, weights), None), start, table)[0]
    *earlier, last = table
    for weights in earlier:
        start = equations.evaluation.finish_stage(stage(*start, weights))
    return stage(*start, last)


@pytree
class AB2(TimeStepper):
    """Adams-Bashforth of second order, damped by `epsilon`; the first step is Euler's.

    Args:
        dt: [s].
        epsilon: damping of the scheme. Waves are stable up to about w dt = 2 sqrt(epsilon); with 0 they always grow. An
            oscillation of angular frequency w loses epsilon (w dt)^2 of its amplitude in a step.
    """

    dt: Any = time_step()
    epsilon: Any = parameter(default=AB2_EPSILON, minimum=0.0, below=1.0)

    order = 2

    def amplification(self, z: complex | np.ndarray) -> np.ndarray | float:
        e = float(self.epsilon)
        return largest_root([1, -1 - (1.5 + e) * z, (0.5 + e) * z])

    def history(self, state: State) -> History:
        return Past.empty(state, 1)

    def step(self, equations: "System", state: State, history: Past, time: Time) -> tuple[State, Past]:
        now = equations.tendency(state, time)
        older = jnp.where(history.count > 0, 0.5 + self.epsilon, 0.0)
        return _combine(state, self.dt, (1.0 + older, -older), (now, *history.values)), history.push(now)


@pytree
class AB3(TimeStepper):
    """Adams-Bashforth of third order; it starts with a step of Euler, whose error of dt^2 stays, and one of AB2.

    Args:
        dt: [s].
    """

    dt: Any = time_step()

    order = 3
    states_kept = 2
    buffer_cycle = 2

    def amplification(self, z: complex | np.ndarray) -> np.ndarray | float:
        return largest_root([1, -1 - 23 / 12 * z, 16 / 12 * z, -5 / 12 * z])

    def history(self, state: State) -> History:
        return Past.empty(state, 2)

    def step(self, equations: "System", state: State, history: Past, time: Time) -> tuple[State, Past]:
        now = equations.tendency(state, time)
        table = jnp.array([[1.0, 0.0, 0.0], [1.5, -0.5, 0.0], [23 / 12, -16 / 12, 5 / 12]])
        return _combine(state, self.dt, table[history.count], (now, *history.values)), history.push(now)


@pytree
class SSPRK3(TimeStepper):
    """Strong-stability-preserving Runge-Kutta of third order, three stages.

    Args:
        dt: [s].
    """

    dt: Any = time_step()

    references = "Shu and Osher (1988), doi:10.1016/0021-9991(88)90177-5"
    stages = 3
    order = 3
    conserves_momentum = True

    def amplification(self, z: complex | np.ndarray) -> np.ndarray | float:
        return abs(1 + z + z**2 / 2 + z**3 / 6)

    def step(self, equations: "System", state: State, history: History, time: Time) -> tuple[State, History]:
        def stage(now, weights):
            new, at = weights
            return (equations.euler(state, now, new, self.dt, time + at),)

        table = [[1.0, 0.0], [0.25, 1.0], [2.0 / 3.0, 0.5]]
        return _stages(stage, (state,), table, equations)[0], history


@pytree
class RK4(TimeStepper):
    """The classical Runge-Kutta scheme of fourth order, four stages.

    Args:
        dt: [s].
    """

    dt: Any = time_step()

    stages = 4
    order = 4
    states_kept = 2

    def amplification(self, z: complex | np.ndarray) -> np.ndarray | float:
        return abs(1 + z + z**2 / 2 + z**3 / 6 + z**4 / 24)

    def step(self, equations: "System", state: State, history: History, time: Time) -> tuple[State, History]:
        def stage(now, total, weights):
            at, share, reach = weights
            slope = equations.tendency(now, time + at)
            return state + (self.dt * reach) * slope, total + (self.dt * share) * slope

        table = [[0.0, 1 / 6, 0.5], [0.5, 1 / 3, 0.5], [0.5, 1 / 3, 1.0], [1.0, 1 / 6, 0.0]]
        return _stages(stage, (state, state), table, equations)[1], history
