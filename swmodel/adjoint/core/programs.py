"""The compiled programs from which the host assembles values, gradients, tangents and Hessian products.

A body is a function `body(fixed, *moving)` on one tile. The arguments `moving` are pytrees that may have tangents, the
argument `fixed` has none, and the result is a tuple of pytrees like `moving`. Each body is compiled in one of two ways:
`direct` as it is, and `dual` together with its tangents. A Hessian product is the tangent of a gradient's programs.

    start     values of the state's controls -> carry, acc
    forward   params, carry, acc -> the same after a Span
    record    the same, and the records that `pull` needs
    pull      params, these records, cotangents after the Span -> cotangents before it
    finish    params, carry, acc -> J, and the first cotangents
    to_start  values of the state's controls, cotangents of the carry -> of these controls
    copy      carry, acc -> copies of them

`forward`, `record` and `pull` donate the arrays of the carry, acc and cotangents that they receive. `params` is
{name: value} of the controls of the dynamics; the value of a control with time records is (first, second) of a window.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ...dynamics.clock import Time
from ...fields.state import pytree
from ...models.initial import with_memory_of_other_flow
from ...nests.steps import FamilySystem
from ...parallel.communicator import Communicator
from ...runtime.compilation import jit
from ...stepping.loop import is_native, step_loop
from ..controls.controls import Control, ControlDict, Transformed, zero_padding
from .checkpointing import Readings, Tape, advance
from .leaves import Floats

ROWS = 64  # number of steps whose readings are accumulated at once, where nothing is recorded


@pytree
class Pair:
    """A pytree and the tangents of its real leaves, in order."""

    value: Any
    slope: list

    @property
    def slopes(self) -> Any:
        """The tangents in the structure of the value, all of whose leaves are real."""
        return jax.tree.unflatten(jax.tree.structure(self.value), self.slope)


def paired(value: Any, slopes: Any = None) -> Any:
    """A pytree, or its Pair with tangents of the same structure if they are given."""
    return value if slopes is None else Pair(value, jax.tree.leaves(slopes))


def parted(x: Any) -> list[Any]:
    """[a pytree], followed by its tangents in the same structure if it is a Pair."""
    return [x.value, x.slopes] if isinstance(x, Pair) else [x]


def direct(communicator: Communicator, body: Callable, over: tuple[int, ...] = ()) -> Callable:
    """The compiled program of `body(fixed, *moving)`; it donates the arguments whose numbers are in `over`."""
    return jit(communicator.spmd(body), donate_argnums=over, light=_is_native)


def dual(communicator: Communicator, body: Callable, over: tuple[int, ...] = ()) -> Callable:
    """The compiled program of `body(fixed, *moving)` for Pairs: it computes values and their tangents."""

    def both(fixed, *pairs):
        values = [pair.value for pair in pairs]
        shapes, leaves, found = Floats(values), jax.tree.leaves(values), []

        def of_floats(floats):
            results = body(fixed, *shapes.tree(shapes.merged(leaves, floats)))
            found[:] = [Floats(result) for result in results]
            ends = [jax.tree.leaves(result) for result in results]
            return [f.floats(end) for f, end in zip(found, ends)], ends

        slopes = [x for pair in pairs for x in pair.slope]
        values, slopes, ends = jax.jvp(of_floats, (shapes.floats(leaves),), (slopes,), has_aux=True)
        return tuple(Pair(f.tree(f.merged(end, v)), s) for f, end, v, s in zip(found, ends, values, slopes))

    return jit(communicator.spmd(both), donate_argnums=over, light=_is_native)


def _is_native(fixed, *_):
    """Whether native loops do the work of a program with these arguments."""
    if not isinstance(fixed, dict):  # the copy of a carry
        return False
    dynamics = fixed["dynamics"]
    return dynamics.is_native if isinstance(dynamics, FamilySystem) else is_native(dynamics, fixed["stepper"])


HEIGHTS = ("depth", "layers.thickness")
OVERWRITTEN = {"forward": (2, 3), "record": (2, 3), "pull": (3, 4)}  # numbers of the donated arguments


class Programs:
    """The programs of one problem.

    Args:
        communicator: the model's.
        controls: all Controls.
        lengths: number of parts at each level of a Tape.
        pairs: whether the programs take Pairs and compute tangents.
        contents: whether the first state holds contents of columns, which depend on the depth and on the thickness of
            layers.

    Attributes:
        at_start: the Controls on which the first state depends.
    """

    start: Callable
    forward: Callable
    record: Callable
    pull: Callable
    finish: Callable
    evaluate: Callable
    to_start: Callable

    def __init__(
        self,
        communicator: Communicator,
        controls: Sequence[Control],
        lengths: Sequence[int],
        pairs: bool = False,
        contents: bool = False,
    ):
        self.communicator, self.lengths = communicator, lengths
        self._traces: dict[Any, Any] = {}
        self.of_state = [c for c in controls if c.of_state]
        self.of_dynamics = [c for c in controls if not c.of_state]
        self.at_start = self.of_state + [c for c in self.of_dynamics if contents and c.name in HEIGHTS]
        for name in ("start", "forward", "record", "pull", "finish", "evaluate", "to_start"):
            made = (dual if pairs else direct)(communicator, getattr(self, f"_{name}"), OVERWRITTEN.get(name, ()))
            setattr(self, name, made)
        self.copy = direct(communicator, lambda *point: jax.tree.map(jnp.copy, point))

    # -- bodies -------------------------------------------------------------------------------------------------------

    def _start(self, fixed, values):
        dynamics, stepper, first = fixed["dynamics"], fixed["stepper"], Time(fixed["span"].first)
        loop, sides = step_loop(dynamics, stepper), dynamics.tile.sides
        given = state = loop.equations.shown(fixed["state"], first)
        for control in self.at_start:
            value = zero_padding(control, values[control.name], sides) * fixed["masks"].get(control.position, 1.0)
            dynamics, state = control.put(dynamics, state, value)
        if self.of_state:
            state = with_memory_of_other_flow(loop.equations, given, state, {c.place[1] for c in self.of_state})
        if dynamics is not fixed["dynamics"]:  # a control has changed the depth
            loop = step_loop(dynamics, stepper)
        state = loop.equations.stored(state, first)
        dtype = jax.tree.leaves(state)[0].dtype
        acc = jax.tree.map(lambda x: jnp.asarray(x, dtype), fixed["cost"].start())
        carry = loop.start(state)
        return jax.tree.map(jnp.copy, (carry, acc))  # copies, since later programs donate them

    def _made(self, fixed):
        """`make(params) -> (dynamics, stepper)`."""

        def make(params):
            dynamics, sides = fixed["dynamics"], fixed["dynamics"].tile.sides
            for control in self.of_dynamics:  # numbers enter when the System is prepared
                value = jax.tree.map(lambda x, control=control: zero_padding(control, x, sides), params[control.name])
                dynamics, _ = control.put(dynamics, None, value)
            return dynamics, fixed["stepper"]

        return make

    def _forward(self, fixed, params, carry, acc):
        loop = step_loop(*self._made(fixed)(params))
        readings = Readings(fixed["cost"], loop, loop.get_state(carry))
        return advance(loop, readings, carry, acc, fixed["span"], ROWS)

    def _record(self, fixed, params, carry, acc):
        return self._tape(fixed, params, carry).record(carry, acc, fixed["span"])

    def _tape(self, fixed, params, carry):
        return Tape(self._made(fixed), params, fixed["cost"], carry, self.lengths, self._traces)

    def _pull(self, fixed, params, stored, bars, total):
        """`bars` are cotangents of (float leaves of the carry, acc); `total` sums those of params without records."""
        tape = self._tape(fixed, params, fixed["carry"])
        params_bar, *bars = tape.sweep(stored, fixed["span"], bars)
        lasting, passing = self._parted(params_bar)
        return tuple(bars), {name: total[name] + bar for name, bar in lasting.items()}, passing

    def _finish(self, fixed, params, carry, acc):
        shapes = Floats(carry)
        leaves = jax.tree.leaves(carry)

        def cost(params, floats, acc):
            return self._evaluate(fixed, params, shapes.tree(shapes.merged(leaves, floats)), acc)[0]

        J, back = jax.vjp(cost, params, shapes.floats(leaves), acc)
        params_bar, carry_bar, acc_bar = back(jnp.ones_like(J))
        return J, (carry_bar, acc_bar), *self._parted(params_bar)

    def _evaluate(self, fixed, params, carry, acc):
        dynamics, stepper = self._made(fixed)(params)
        cost, loop = fixed["cost"], step_loop(dynamics, stepper)
        state, final = loop.get_state(carry), None
        if cost.final is not None:
            final = self.communicator.sum(cost.final(state, loop.equations, Time(fixed["span"].first)))
        return (cost.value(acc, final),)

    def _to_start(self, fixed, values, bars):
        shapes = Floats(fixed["carry"])

        def floats(values):
            return shapes.floats(jax.tree.leaves(self._start(fixed, values)[0]))

        return (jax.vjp(floats, values)[1](bars[0])[0],)

    def _parted(self, params):
        """(params that are constant in time, params that are records of a window)."""
        records = {c.name for c in self.of_dynamics if c.records}
        return tuple({k: x for k, x in params.items() if (k in records) == passing} for passing in (False, True))


class Transform:
    """The programs of a Transformed.

    Attributes:
        function: a callable pytree from parameters to {control name: value}.
        names: names of these controls.
    """

    def __init__(self, communicator: Communicator, transformed: Transformed, parameters: ControlDict):
        function = transformed.function
        self.function = function if jax.tree.leaves(function) != [function] else jax.tree_util.Partial(function)
        self.parameters = transformed.parameters
        self.communicator = communicator
        self._programs = {
            (body, pairs): make(communicator, body)
            for body in (self._expand, self._contract)
            for pairs, make in ((False, direct), (True, dual))
        }
        self.names = tuple(jax.eval_shape(communicator.spmd(self._expand), self.function, parameters)[0])

    def expand(self, values: list[ControlDict]) -> list[ControlDict]:
        """[{control: value} of these values], followed by its tangent if `values` are [values, directions]."""
        return self._called(self._expand, self._chosen(values))

    def contract(self, values: list[ControlDict], bars: list[ControlDict]) -> list[ControlDict]:
        """[the cotangents of the parameters] from `bars` of the controls, with tangents as of `expand`."""
        return self._called(self._contract, self._chosen(values), [{k: x[k] for k in self.names} for x in bars])

    def _chosen(self, values):
        return [{name: x[name] for name in self.parameters} for x in values]

    def _called(self, body, *arguments):
        """The dict that a body returns for arguments [value] or [value, tangents], in the same form."""
        program = self._programs[body, len(arguments[0]) > 1]
        return parted(program(self.function, *(paired(*each) for each in arguments))[0])

    def _expand(self, function, parameters):
        return (function(jax.tree.map(self._entered, parameters)),)

    def _entered(self, x):
        return x if jnp.ndim(x) >= 2 else self.communicator.replicated(x)

    def _contract(self, function, parameters, bars):
        # Every rank holds the whole cotangent of a number. Each takes its share, and `replicated` sums the shares.
        shares = jax.tree.map(lambda x: x if jnp.ndim(x) >= 2 else x / self.communicator.size, bars)
        return (jax.vjp(lambda p: self._expand(function, p)[0], parameters)[1](shares)[0],)
