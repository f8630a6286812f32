"""Readings of runs of the linear model about the sea at rest, from sources at the start.

The linear model does not change with time. A reading after n steps is r M^(n-s) S a: S makes the state after the first
s steps from the amplitudes a of the sources, M is a step, and r reads a gauge. One sweep of the transposed model over r
therefore gives the readings of this gauge from all sources at all times, S* (M*)^(n-s) r*. This is the reciprocity of
sources and gauges.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...dynamics.clock import Time
from ...errors import ConfigError
from ...fields.state import replace
from ...fields.variables import PROGNOSTIC
from ...models.initial import with_memory_of_other_flow
from ...nests.family import Family
from ...nests.steps import FamilySystem
from ...parallel.communicator import Communicator
from ...runtime.compilation import jit
from ...stepping.loop import each_interval, step_loop
from ...stepping.steps import run_steps, scan_steps
from ..controls.controls import controls_of, masks_of
from ..controls.transforms import Patterns
from ..problem import Problem

STARTING = 2  # s: from then on no multistep scheme adds to its history any more
MOST_ERROR = {"float32": 1e-3, "float64": 1e-8}  # of sweeps against a run, relative
SWEEP = 2.0  # the time of a transposed step over that of a step
OF_STATE = {f"initial.{row.name}": row for row in PROGNOSTIC}


class LinearModel:
    """Readings of runs of a problem's model without its nonlinear terms, linearised about the sea at rest.

    Args:
        problem: a Problem whose cost is a Misfit.
    """

    def __init__(self, problem: Problem):
        self.problem, self.model, self.communicator = problem, problem.model, problem.communicator
        self._arguments = _linear(problem), problem.stepper, problem.cost, masks_of(self.model)
        self._controls = {c.name: c for c in controls_of(problem.stepped, OF_STATE)}
        self._program = jit(self.communicator.spmd(self._run))
        self._field = jit(self.communicator.spmd(lambda sources, a: sources.field(a)))
        self._sweep = jit(self._swept, static_argnames=("target", "every", "count"))
        self.at_rest = self._readings({})

    def readings(self, fields: dict[str, jax.Array]) -> np.ndarray:
        """Readings (steps, gauges) for {"initial.eta": tile array, ...}, less those of forcing and boundaries alone."""
        other = [name for name in fields if name not in OF_STATE]
        if other:
            raise ConfigError(
                f"linear responses are those to the initial state, and {', '.join(other)} is not a part of it; use the "
                "method 'incremental'."
            )
        return self._readings(fields) - self.at_rest

    def _readings(self, fields):
        found = self._program(*self._arguments, fields)
        return np.asarray(self.communicator.one_tile(found), float)

    @property
    def count(self) -> int:
        """The number of readings."""
        cost: Any = self.problem.cost
        return cost.count

    @staticmethod
    def cost_of_sweep(every: int = 1) -> float:
        """The time of a sweep in `responses`, over that of a run."""
        return SWEEP * (1.0 + STARTING / every)

    def run_each(
        self, sources: Patterns, target: str, every: int = 1, progress: Callable[[int, int], object] | None = None
    ) -> np.ndarray:
        """Readings for 1 m of each source (sources, times, readings), after every, 2 every, ... steps, by runs."""
        columns = []
        for k in range(sources.count):
            columns.append(self.column(sources, target, k, every))
            if progress is not None:
                progress(k + 1, sources.count)
        return np.stack(columns)

    def column(self, sources: Patterns, target: str, source: int, every: int = 1) -> np.ndarray:
        """Readings (times, readings) of the run for 1 m of the source of this number."""
        unit = np.zeros(sources.count, self.model.dtype)
        unit[source] = 1.0
        return self.of_amplitudes(sources, target, unit)[every - 1 :: every]

    def of_amplitudes(self, sources: Patterns, target: str, amplitudes: np.ndarray) -> np.ndarray:
        """Readings (steps, readings) of a run from these amplitudes [m] of the sources."""
        return self.readings({target: self._field(sources, entered(amplitudes, self.communicator))})

    def swept(
        self, sources: Patterns, target: str, every: int = 1, progress: Callable[[int, int], object] | None = None
    ) -> np.ndarray:
        """The same as `run_each`, by a sweep for each reading, and compared with a run from random amplitudes.

        Raises:
            ConfigError: if that run differs: the linear model changes with time.
        """
        columns = []
        for k in range(self.count):
            columns.append(self.responses(sources, target, k, every))
            if progress is not None:
                progress(k + 1, self.count)
        found = np.stack(columns, axis=2).transpose(1, 0, 2)
        self.check_swept(found, sources, target, every)
        return found

    def check_swept(self, columns: np.ndarray, sources: Patterns, target: str, every: int) -> float:
        """The largest difference of a run from random amplitudes to `columns`, over the largest reading [1].

        Raises:
            ConfigError: if it is larger than rounding can explain.
        """
        amplitudes = np.random.default_rng(0).standard_normal(sources.count).astype(self.model.dtype)
        right = self.of_amplitudes(sources, target, amplitudes)[every - 1 :: every][: columns.shape[1]]
        error = float(np.abs(np.tensordot(amplitudes, columns, 1) - right).max() / (np.abs(right).max() or 1.0))
        if not error <= MOST_ERROR[self.model.dtype.name]:
            raise ConfigError(
                f"Green's functions by sweeps of the transposed model differ by {error:.2g} from a run: the model "
                "changes with time, such as by a condition that is switched on; leave that out."
            )
        return error

    def responses(self, sources: Patterns, target: str, reading: int, every: int = 1) -> np.ndarray:
        """The reading of this number for 1 m of each source after every, 2 every, ... steps (times, sources).

        Args:
            sources: Patterns of the control `target`, such as "initial.eta".
            every: the number of steps between two times.
        """
        unit = np.zeros(self.count, self.model.dtype)
        unit[reading] = 1.0
        unit, count = entered(unit, self.communicator), self.problem.steps // every
        found = self._sweep(*self._arguments, sources, unit, target=target, every=every, count=count)
        return np.asarray(self.communicator.one_tile(found), float)

    def _swept(self, *arguments, target, every, count):
        sweep = functools.partial(self._sweep_on_tile, target=target, every=every, count=count)
        return self.communicator.spmd(sweep)(*arguments)

    def _sweep_on_tile(self, dynamics, stepper, cost, masks, sources, unit, target, every, count):
        first, none = self.problem.first_step, jnp.zeros(sources.count, masks["h"].dtype)
        loop = step_loop(_at_start(dynamics), stepper)

        def run(a, steps):
            state = self._state(dynamics, masks, {target: sources.field(a)})
            return scan_steps(loop, loop.start(state), steps, first)

        def read(carry):
            return jnp.vdot(unit, cost.read(loop.get_state(carry), loop.equations, Time(first)))

        early = range(every, STARTING, every)
        values = [jax.grad(lambda a, n=n: read(run(a, n)))(none)[None] for n in early]
        (numbers, rest), begin = jax.vjp(lambda a: _split(run(a, STARTING)), none)

        def back(steps):
            return jax.vjp(lambda x: _split(scan_steps(loop, _joined(x, rest), steps, first))[0], numbers)[1]

        gap = every * (1 + len(early)) - STARTING
        before, after = back(gap), back(every - gap)
        flat = jax.tree.map(lambda x: np.zeros(x.shape, jax.dtypes.float0), rest)

        def body(bars, _):
            (bars,) = before(bars)
            return after(bars)[0], begin((bars, flat))[0]

        start = jax.grad(lambda numbers: read(_joined(numbers, rest)))(numbers)
        _, later = jax.lax.scan(body, start, length=count - len(early))
        return self.communicator.sum(jnp.concatenate([*values, later]))

    def _state(self, dynamics, masks, fields):
        """The State with {"initial.eta": tile array, ...} in the sea at rest."""
        systems = dynamics.systems if _has_nests(dynamics) else [dynamics]
        zeros = [system.zeros() for system in systems]
        rest: Any = tuple(zeros) if _has_nests(dynamics) else zeros[0]
        state = rest
        for name, field in fields.items():
            _, state = self._controls[name].put(dynamics, state, field * masks[OF_STATE[name].position])
        if any(condition.memory for condition in systems[0].open_boundaries):
            state = with_memory_of_other_flow(_at_start(dynamics).prepare(), rest, state)
        return state

    def _run(self, dynamics, stepper, cost, masks, fields):
        state = self._state(dynamics, masks, fields)

        def run(here, both, count):
            loop = step_loop(here, stepper)

            def monitor(k, get_state, series):
                reading = cost.read(get_state(), loop.equations, Time(k + 1))
                return jax.lax.dynamic_update_index_in_dim(series, reading, k - self.problem.first_step, 0)

            return run_steps(loop, both[0], count, monitor, both[1], getattr(here, "first", self.problem.first_step))

        start = (
            step_loop(_at_start(dynamics), stepper).start(state),
            jnp.zeros((self.problem.steps, cost.count), masks["h"].dtype),
        )
        intervals = _whole if _has_nests(dynamics) else each_interval
        return self.communicator.sum(intervals(dynamics, self.problem.steps, start, run)[1])


def _linear(problem):
    """The System of a problem without nonlinear terms, or the FamilySystem of nested grids.

    Raises:
        ConfigError: for nests with moving shores, or forcing that has records.
    """
    if not isinstance(problem.stepped, Family):
        return _without_nonlinear_terms(problem.model.dynamics(problem.scheme, problem.first_step, problem.steps))
    if any(model.film is not None or (model.changes_in_time and model.system.series()) for model in problem.models):
        raise ConfigError(
            "linear responses of nested grids have neither moving shores nor forcing with records in time; leave these "
            "out, or use the method 'incremental'."
        )
    dynamics = problem.stepped.dynamics(problem.scheme)
    return replace(dynamics, systems=tuple(map(_without_nonlinear_terms, dynamics.systems)))


def _without_nonlinear_terms(system):
    terms = tuple(term for term in system.terms if not getattr(term, "nonlinear", False))
    return replace(system, linear=True, terms=terms)


def _has_nests(dynamics):
    return isinstance(dynamics, FamilySystem)


def _at_start(dynamics):
    """The System of the first interval between records."""
    return dynamics if _has_nests(dynamics) else replace(dynamics.interval(0), first=dynamics.first)


def _whole(dynamics, steps, carry, run):
    """`each_interval` of a System that has no records."""
    return run(dynamics, carry, steps)


def _split(carry):
    """(the arrays of floating-point numbers, the others) of a carry, each with None in place of the others."""
    floating = [jnp.issubdtype(x.dtype, jnp.inexact) for x in jax.tree.leaves(carry)]
    leaves, structure = jax.tree.flatten(carry)
    return tuple(
        structure.unflatten([x if kind is wanted else None for x, kind in zip(leaves, floating)])
        for wanted in (True, False)
    )


def _joined(numbers, rest):
    return jax.tree.map(lambda a, b: b if a is None else a, numbers, rest, is_leaf=lambda x: x is None)


def entered(values: Any, communicator: Communicator) -> Any:
    """Numbers and vectors that every rank holds, tile arrays, or a dict of these, in the form that programs take."""
    return jax.tree.map(lambda x: x if np.ndim(x) >= 2 else communicator.place(lambda rank: np.asarray(x)), values)
