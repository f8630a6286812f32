"""Accumulation of samples of the state on the device: the base of means, extremes and harmonic analyses.

Sums are compensated unless they are in float64: a second array, NAME_low, holds the rounding errors of the additions
(Knuth's two-sum, https://doi.org/10.1137/030601818). A mean of millions of samples in float32 is then as accurate as
one sample.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..diagnostics.derived import field, flow_of
from ..dynamics.clock import Time
from ..errors import ConfigError
from ..fields.operators import mean_x, mean_xy, mean_y
from ..fields.pytrees import pytree, static
from ..fields.state import State
from ..fields.variables import Variable

__all__ = [
    "Sample",
    "Sampled",
    "cell_centred",
    "centred_fields",
    "first_and_every",
    "add_term",
    "total",
    "zero_sum",
]


def zero_sum(name: str, like: jax.Array) -> dict[str, jax.Array]:
    """The arrays of the sum `name` before the first term."""
    zero = jnp.zeros_like(like)
    return {name: zero} if like.dtype == np.float64 else {name: zero, f"{name}_low": zero}


def add_term(sums: dict[str, Any], name: str, term: jax.Array) -> dict[str, jax.Array]:
    """The arrays of the sum `name` with one more term."""
    before = sums[name]
    after = before + term
    if f"{name}_low" not in sums:
        return {name: after}
    added = after - before
    error = (before - (after - added)) + (term - added) + sums[f"{name}_low"]
    high = after + error  # so that the lower part stays small
    return {name: high, f"{name}_low": error - (high - after)}


def total(sums: dict[str, Any], name: str) -> np.ndarray:
    """The sum `name` of gathered arrays, in float64."""
    found = np.asarray(sums[name], np.float64)
    return found + np.asarray(sums[f"{name}_low"], np.float64) if f"{name}_low" in sums else found


@dataclasses.dataclass(frozen=True)
class Sample:
    """A State, and what is needed to compute quantities from it.

    Attributes:
        equations: the System, prepared.
        state: the State that is stepped, in which a tracer is its content h c.
        shown: the State as files hold it, in which a tracer is its concentration c.
        time: the Time of both.
        rigid_lid: whether eta is the pressure on a rigid lid.
    """

    equations: Any
    state: State
    shown: State
    time: Time
    rigid_lid: bool = False


def centred_fields(
    equations: Any, state: State, shown: State, step: Any, rigid_lid: bool
) -> Callable[[Iterable[str]], dict[str, Any]]:
    """The function from names to the fields of `cell_centred`, after a number of steps; arguments as of Sample."""
    return lambda names: cell_centred(Sample(equations, state, shown, Time(step), rigid_lid), names)


TO_CENTRES = {"u": mean_x, "v": mean_y, "q": mean_xy}


def cell_centred(sample: Sample, wanted: Iterable[str] = ()) -> dict[str, jax.Array]:
    """{name: tile array} of the fields of a Sample at cell centres, and "thickness" [m] and "speed" [m s-1].

    The speed is that of the velocities at the centres.

    Args:
        sample: the Sample.
        wanted: names of further fields of diagnostics.derived; those at faces or corners are averaged to the centres.
    """
    flow = flow_of(sample.equations, sample.state, sample.time, sample.rigid_lid)
    positions = sample.state.positions.items()
    found = {name: TO_CENTRES[at](flow.state[name]).interior for name, at in positions if at in TO_CENTRES}
    others = {name: sample.shown[name] for name in sample.state.names if name not in found}
    centred = found | others
    speed = jnp.sqrt(centred["u"] ** 2 + centred["v"] ** 2)
    centred |= {"thickness": flow.h.interior, "speed": speed}
    for name in set(wanted) - set(centred):
        there = field(name, flow)
        centred[name] = TO_CENTRES.get(there.position, lambda x: x)(there).interior
    return centred


@pytree
class Sampled:
    """Arrays that accumulate a sample of the state every `every` steps of dt [s], from step `first` on.

    A subclass implements `initial`, `add_sample`, `results` and `settings`.
    """

    dt: float = static()
    every: int = static()
    first: int = static()

    def initial(self, state: State) -> dict[str, jax.Array]:
        """{name: tile array} before the first sample of a State of these shapes."""
        raise NotImplementedError

    def add_sample(self, sums: dict[str, Any], sample: Sample) -> dict[str, Any]:
        """The arrays `sums` with one more sample."""
        raise NotImplementedError

    def results(self, sums: dict[str, Any], steps: np.ndarray, rows: Sequence[Variable]) -> dict[Variable, np.ndarray]:
        """{row: array (ny, nx)} to be written; empty where there is nothing.

        Args:
            sums: {name: global array (ny, nx)}, gathered from the tiles.
            steps: the numbers of the steps that were samples, at least one.
            rows: the rows of the model's variables.
        """
        raise NotImplementedError

    def settings(self) -> dict[str, Any]:
        """Settings that must be equal for sums to be continued, in addition to the class and the steps."""
        raise NotImplementedError

    def description(self) -> dict[str, Any]:
        """All settings that must be equal for the sums of another run to be continued, in types that JSON has."""
        steps = {"dt": self.dt, "every": self.every, "first": self.first}
        return {"kind": type(self).__name__.lower(), **steps, **self.settings()}

    def start(self, state: State, step: int, communicator: Any) -> dict[str, Any]:
        """The arrays before the first sample, and "since", the step after which samples are taken."""
        return {"since": communicator.place(lambda rank: np.int32(step)), **self.initial(state)}

    def update(
        self,
        sums: dict[str, Any],
        get_state: Any,
        step: jax.Array,
        equations: Any,
        as_shown: Any,
        rigid_lid: bool = False,
    ) -> dict[str, Any]:
        """The arrays after step number `step`; unchanged if it is not a sample.

        Args:
            sums: the arrays before it.
            get_state: a function that returns the State after the step.
            step: its number.
            equations: the System, prepared.
            as_shown: a function of a State and its step that returns the State as files hold it.
            rigid_lid: whether eta is the pressure on a rigid lid.
        """
        due = (step >= self.first) & (step % self.every == 0)

        def with_sample():
            state = get_state()
            dtype = state.eta.dtype
            time = Time(step, jnp.zeros((), dtype), jnp.asarray(self.dt, dtype), self.dt)
            sample = Sample(equations, state, as_shown(state, step), time, rigid_lid)
            return {**sums, **self.add_sample(sums, sample)}

        return jax.lax.cond(due, with_sample, lambda: sums)

    def samples(self, since: int, last: int) -> np.ndarray:
        """The numbers of the steps after `since`, up to `last`, that are samples."""
        begin = max(self.first, since + 1)
        begin += -begin % self.every
        return np.arange(begin, last + 1, self.every)


def first_and_every(simulation: Any, who: str, begin: float, every: float | None) -> tuple[int, int]:
    """(the first step from `begin` [s] on, the number of steps nearest to `every` [s]); refuses ensembles."""
    if simulation.model.members is not None:
        raise ConfigError(f"{who}: not available for an ensemble; run its members one by one.")
    dt = simulation.dt
    return math.ceil(begin / dt - 1e-9), max(1, round((every or dt) / dt))
