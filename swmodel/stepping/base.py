"""The abstract step loop: many time steps inside one compiled program.

    state, history --pack_state--> carry --steps--> carry --unpack_state--> state, history

A stepper makes one step from the tendencies of the equations. The step loop decides where its results are stored: in
arrays that XLA allocates (ArrayStepLoop, arrays.py), or in buffers with halos that fused loops overwrite
(FusedStepLoop, fused.py). `step_loop` in loop.py chooses between them; nothing else depends on the choice.
"""

import abc
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from ..fields.field import Count
from ..fields.state import State

if TYPE_CHECKING:
    from ..dynamics.system import System
    from .explicit import TimeStepper

__all__ = ["Carry", "History", "Monitor", "Tree", "StepLoop", "no_monitor"]

History: TypeAlias = object
"""The history of a stepper: a pytree of tile arrays of its own, which nothing else looks into."""

Tree: TypeAlias = object
"""A pytree, such as what a monitor carries along."""

Carry: TypeAlias = tuple[State, History]
"""State and history in the layout of a step loop."""

Monitor = Callable[[Any, Callable[[], State], Any], Any]
"""`monitor(step, get_state, carry) -> carry`, called after each step.

`step` is the number of that step and `get_state()` the State after it. `carry` is the monitor's own: what its last call
returned. A monitor that needs the state in few steps calls `get_state` under lax.cond, so that only then it is made.
"""


def no_monitor(step: Count, get_state: Callable[[], State], carry: Tree) -> Tree:
    """The Monitor that returns its carry unchanged."""
    return carry


class StepLoop(abc.ABC):
    """Time steps of one stepper over the System of a tile, inside spmd.

    Attributes:
        name: of the kind of loop, for reports.
        equations: the prepared System on arrays, for monitors and costs; not set if `prepared` is False.
        stepper: the TimeStepper.
        period: the number of steps after which halos and buffers are in their first configuration again. `steps`
            should make this number of steps in one call.
    """

    name: ClassVar[str]

    equations: Any
    stepper: Any
    period: int = 1

    @abc.abstractmethod
    def __init__(self, dynamics: "System", stepper: "TimeStepper", prepared: bool = True):
        """The loop of a TimeStepper over a System.

        Args:
            dynamics: a System.
            stepper: a TimeStepper.
            prepared: False skips the preparation that only `steps` needs, such as filling the halos of parameters.
        """

    @classmethod
    @abc.abstractmethod
    def obstacle(cls, dynamics: "System", stepper: "TimeStepper") -> str | None:
        """A phrase that explains why these steps cannot run in this kind of loop; None where they can. Inside spmd."""

    @classmethod
    def compiles(cls) -> bool:
        """Whether a compiler other than XLA makes programs of the loops on this machine's devices."""
        return False

    @abc.abstractmethod
    def pack_state(self, state: State, history: "History") -> Carry:
        """The carry of a State and the stepper's history, both of the tile's own cells (ny, nx)."""

    @abc.abstractmethod
    def unpack_state(self, carry: Carry) -> "tuple[State, History]":
        """(state, history) in a carry: the inverse of `pack_state`."""

    @abc.abstractmethod
    def get_state(self, carry: Carry) -> State:
        """The State in a carry: the first result of `unpack_state`."""

    @abc.abstractmethod
    def steps(
        self, carry: Carry, first: Count, count: int, monitor: Monitor = no_monitor, monitored: Tree = ()
    ) -> tuple[Carry, Any]:
        """Make `count` steps.

        Args:
            carry: from `pack_state` or an earlier call.
            first: number of the first step, counted from step 0 of the model; it may be traced.
            count: of steps; static, and `period` or less.
            monitor: a Monitor, which is called after each step.
            monitored: the carry of the monitor before the first step.

        Returns:
            (carry, monitored) after the last step.
        """

    def traced_steps(self, carry: Carry, monitor: Monitor, monitored: Tree) -> Callable:
        """`steps(carry, first, count, monitored)` for such carries, which a loop may trace once for all counts."""
        return lambda carry, first, count, monitored: self.steps(carry, first, count, monitor, monitored)
