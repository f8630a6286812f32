"""One time step, and the plain way of making many: on arrays, whose fusion is left to XLA.

A march has a carry (state and history, as it likes to keep them): `start` makes it, `steps` takes it some steps further,
`state` and `history` look into it. `kernels.FusedEngine` is the other march.
"""
import jax

from .dynamics.shallow_water import State, as_tile_field
from .fields import AbstractField
from .parallel.halo import exchange, without_padding
from .pytrees import replace

__all__ = ["one_step", "ArrayMarch"]


def one_step(equations, stepper, state, history, step):
    """(state, history) one time step later; the sea floor's rise over the step lifts the surface with it."""
    state, history = stepper.step(equations, state, history, step)
    if equations.uplift is not None:
        rise = equations.uplift_during(step)
        state = replace(state, eta=state.eta + (rise if isinstance(state.eta, AbstractField) else rise.interior))
    return state, history


class ArrayMarch:
    """Steps on tile arrays. Where the halo is k times what a stage needs, k stages go without a message.

    Args:
        dynamics: a Dynamics.
        stepper: a TimeStepper.

    Attributes:
        period: steps that `steps` should take at once.
    """

    def __init__(self, dynamics, stepper):
        self.arrays, self.stepper = dynamics.prepare(), stepper
        self.period = dynamics.tile.halo // (self.arrays.reach * stepper.stages) or 1
        self.wide = dynamics.tile.halo >= 2 * self.arrays.reach

    def start(self, state, history):
        return state, history

    def steps(self, carry, first, count, watch):
        """`count` steps from number `first` on; `watch(step, state)` sees the state after each."""
        state, history = self._widened(carry) if self.wide else carry
        for step in range(count):
            state, history = one_step(self.arrays, self.stepper, state, history, first + step)
            watch(step, self._own(state))
        return self._own((state, history))

    def state(self, carry):
        return carry[0]

    def history(self, carry):
        return carry[1]

    def _widened(self, carry):
        """All States of a carry as Fields with all the halo there is, from one exchange."""
        states, structure = jax.tree.flatten(carry, is_leaf=lambda x: isinstance(x, State))
        arrays = [a for s in states if isinstance(s, State) for a in (s.u, s.v, s.eta)]
        tile = self.arrays.geometry.tile
        wide = iter(exchange(arrays, tile.halo, tile.sides, self.arrays.communicator))

        def fields(state):
            return State(*(replace(as_tile_field(next(wide), p), halo=(tile.halo,) * 4) for p in ("u", "v", "h")))

        return jax.tree.unflatten(structure, [fields(s) if isinstance(s, State) else s for s in states])

    def _own(self, tree):
        """States of Fields, or of arrays, as States of the tile's own cells; padding is zero, so that sums leave it out."""
        sides = self.arrays.geometry.tile.sides

        def own(x):
            return without_padding(x.interior if isinstance(x, AbstractField) else x, sides)

        def each(x):
            return x.map(own) if isinstance(x, State) else x

        return jax.tree.map(each, tree, is_leaf=lambda x: isinstance(x, State))
