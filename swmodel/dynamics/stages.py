"""One stage of a time step: how its fields get their halos, and when its results are stored in arrays.

The physics is written once, for Fields. Here their data are arrays. In fused loops (stepping/fused.py) they are
expressions, which must be computed before their neighbours can be read.
"""

import abc
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

import jax

from ..fields.field import AbstractField, Field, Scalar
from ..fields.state import State, fields_of
from ..parallel.halo import beyond_open_sides, exchange
from .clock import Time

if TYPE_CHECKING:
    from .system import System
    from .terms import Term

__all__ = ["StageEvaluation", "ArrayEvaluation", "euler_stage"]

T = TypeVar("T")

Fields: TypeAlias = Sequence[AbstractField]
Filled: TypeAlias = tuple[State, Fields, Fields]  # the State, further Fields, and the elevations at open sides


def euler_stage(equations: "System", start: State, now: State, weight: Scalar, dt: Scalar, time: Time) -> State:
    """(1 - weight) start + weight (now + dt d now/dt), one stage of a Runge-Kutta scheme that consists of Euler steps.

    It is computed as start + weight [(now - start) + dt d now/dt]. This leaves a state of rest unchanged, and its
    rounding errors do not grow with the size of the state.
    """
    tendency = equations.tendency(now, time)
    return start.map(lambda first, x, rate: first + weight * ((x - first) + dt * rate), now, tendency)


def renewed_if_due(
    equations: "System", term: "Term", state: State, time: Time, ends: tuple[Callable, Callable] | None = None
) -> dict[str, jax.Array]:
    """{name: array} of the variables that a term keeps in a State of arrays, recomputed in the steps where it is due.

    Args:
        equations: the System, prepared.
        term: a Term with `state_variables`.
        state: a State of arrays.
        time: the Time at the beginning of the step.
        ends: (crop, pad): `crop` takes the tile's own cells out of an array with halo, and `pad` puts them back. None
            for arrays without halo.
    """
    own, back = ends or (lambda x: x, lambda x: x)

    def anew(state):
        found = term.renewed(equations, state.map(own), time)
        return {name: back(x) for name, x in found.items()}

    return jax.lax.cond(
        term.is_due(time), anew, lambda state: {row.name: state[row.name] for row in term.state_variables()}, state
    )


class StageEvaluation(abc.ABC):
    """The operations of a stage that depend on how Fields are computed. A prepared System has one of them."""

    opens_newest: bool = False  # whether open boundaries set velocities of the newest State in a sum of States

    @abc.abstractmethod
    def exchange(self, system: "System", state: State, more: Fields, outside: Fields, newest: bool) -> Filled:
        """These Fields with halos of `system.reach` cells or more, which at most one exchange fills.

        Args:
            system: the System, prepared.
            state: a State of Fields.
            more: further Fields.
            outside: eta of each layer that open boundaries use, which may be those of `state`.
            newest: whether open boundaries will be applied to the newest State of those that `state` is a sum of.
        """

    @abc.abstractmethod
    def on_arrays(self, system: "System", fields: Fields) -> tuple["System", Sequence[Field]]:
        """The System on arrays, and stored Fields as arrays, for the conditions on open boundaries."""

    @abc.abstractmethod
    def put(self, fields: Fields, arrays: Sequence[Field]) -> Fields:
        """These Fields with the values of arrays, after the conditions on open boundaries."""

    @abc.abstractmethod
    def renew(self, equations: "System", number: int, state: State, time: Time) -> State:
        """The State at the beginning of a step, with the `state_variables` of term `number` recomputed if it is due."""

    @abc.abstractmethod
    def finish_stage(self, tree: T) -> T:
        """A pytree of Fields with its values stored, if that has to be done before the next stage reads them."""

    @abc.abstractmethod
    def tile_values(self, field: AbstractField) -> jax.Array:
        """The values of a Field in the tile's own cells, an array (my, mx)."""

    @abc.abstractmethod
    def with_ghosts(self, equations: "System", x: jax.Array) -> AbstractField:
        """An array (my, mx) of values at cell centres as a Field at h with filled halo; communicates."""

    @abc.abstractmethod
    def register_tendency(self, tendency: State) -> State:
        """The tendency that the equations return to a stepper; it may be stored along with the stage made of it."""


class ArrayEvaluation(StageEvaluation):
    """Fields of arrays: every operation computes its values, and XLA decides what it fuses."""

    def exchange(self, system: "System", state: State, more: Fields, outside: Fields, newest: bool) -> Filled:
        tile, other = system.tile, [] if outside[0] is state.eta else outside
        fields = [*fields_of(state), *more, *other]
        if min(min(f.halo) for f in fields) < system.reach:
            arrays = exchange([f.interior for f in fields], tile.halo, tile.sides, system.communicator)
            fields = [Field(a, f.position, (tile.halo,) * 4) for a, f in zip(arrays, fields)]
        elif system.open_boundaries:
            shared = min(min(f.halo) for f in fields)
            fields = [beyond_open_sides(f.crop((shared,) * 4), tile.sides) for f in fields]
        values = iter(fields)
        state, more = state.map(lambda _: next(values)), [next(values) for _ in more]
        own = [state[name] for *_, name in system.names_of_layers]
        return state, more, [next(values) for _ in other] or own

    def on_arrays(self, system: "System", fields: Fields) -> tuple["System", Sequence[Field]]:
        return system, cast(Sequence[Field], fields)

    def put(self, fields: Fields, arrays: Sequence[Field]) -> Fields:
        return arrays

    def renew(self, equations: "System", number: int, state: State, time: Time) -> State:
        own = state.map(lambda x: x.interior if isinstance(x, Field) else x)
        new = renewed_if_due(equations, equations.terms[number], own, time)
        if not isinstance(state.eta, Field):
            return state.replace(**new)
        tile = equations.geometry.tile
        wide = exchange(list(new.values()), tile.halo, tile.sides, equations.communicator)
        return state.replace(**{name: Field(x, "h", (tile.halo,) * 4) for name, x in zip(new, wide)})

    def finish_stage(self, tree: T) -> T:
        return tree

    def tile_values(self, field: AbstractField) -> jax.Array:
        return cast(Field, field).interior

    def with_ghosts(self, equations: "System", x: jax.Array) -> AbstractField:
        tile = equations.geometry.tile
        (wide,) = exchange([x], tile.halo, tile.sides, equations.communicator)
        return Field(wide, "h", (tile.halo,) * 4)

    def register_tendency(self, tendency: State) -> State:
        return tendency
