"""One stage of a time step: how its fields get their halos, and when its results are stored in arrays.

The physics is written once, for Fields. Here their data are arrays. In fused loops (stepping/fused.py) they are
expressions, which must be computed before their neighbours can be read.
"""

import abc
from collections.abc import Callable
from typing import Any

import jax

from ..fields.field import Field
from ..fields.state import State, fields_of
from ..parallel.halo import beyond_open_sides, exchange

__all__ = ["StageEvaluation", "ArrayEvaluation", "euler_stage"]


def euler_stage(equations: Any, start: State, now: State, weight: Any, dt: Any, time: Any) -> State:
    """(1 - weight) start + weight (now + dt d now/dt), one stage of a Runge-Kutta scheme that consists of Euler steps.

    It is computed as start + weight [(now - start) + dt d now/dt]. This leaves a state of rest unchanged, and its
    rounding errors do not grow with the size of the state.
    """
    tendency = equations.tendency(now, time)
    return start.map(lambda first, x, rate: first + weight * ((x - first) + dt * rate), now, tendency)


def renewed_if_due(
    equations: Any, term: Any, state: State, time: Any, ends: tuple[Callable, Callable] | None = None
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

    @abc.abstractmethod
    def fill_halos(
        self, equations: Any, state: State, time: Any, more: Any = (), outside: Any = None, newest: Any = None
    ) -> tuple[State, Any, Any]:
        """Fill the halos of Fields for one evaluation of all terms, by at most one exchange.

        Args:
            equations: the System, prepared.
            state: a State of Fields.
            time: the Time of the stage.
            more: further Fields that are exchanged along with the state.
            outside: the elevation that open boundaries use, a Field at h; `state.eta` by default.
            newest: (weight, State) where `state` is a weighted sum of this State and of earlier ones; else None.

        Returns:
            (state, more, outside) with halos of `equations.reach` cells or more, open boundaries applied to u and v.
        """

    @abc.abstractmethod
    def renew(self, equations: Any, number: int, state: State, time: Any) -> State:
        """The State at the beginning of a step, with the `state_variables` of term `number` recomputed if it is due."""

    @abc.abstractmethod
    def finish_stage(self, tree: Any) -> Any:
        """A pytree of Fields with its values stored, if that has to be done before the next stage reads them."""

    @abc.abstractmethod
    def tile_values(self, field: Any) -> jax.Array:
        """The values of a Field in the tile's own cells, an array (my, mx)."""

    @abc.abstractmethod
    def with_ghosts(self, equations: Any, x: jax.Array) -> Any:
        """An array (my, mx) of values at cell centres as a Field at h with filled halo; communicates."""

    @abc.abstractmethod
    def register_tendency(self, tendency: State) -> State:
        """The tendency that the equations return to a stepper; it may be stored along with the stage made of it."""


class ArrayEvaluation(StageEvaluation):
    """Fields of arrays: every operation computes its values, and XLA decides what it fuses."""

    def fill_halos(
        self, equations: Any, state: State, time: Any, more: Any = (), outside: Any = None, newest: Any = None
    ) -> tuple[State, Any, Any]:
        tile, fields = equations.geometry.tile, [*fields_of(state), *more]
        fields += [] if outside is None else [outside]
        if min(min(f.halo) for f in fields) < equations.reach:
            arrays = exchange([f.interior for f in fields], tile.halo, tile.sides, equations.communicator)
            fields = [Field(a, f.position, (tile.halo,) * 4) for a, f in zip(arrays, fields)]
        elif equations.open_boundaries:
            shared = min(min(f.halo) for f in fields)
            fields = [beyond_open_sides(f.crop((shared,) * 4), tile.sides) for f in fields]
        values, own = iter(fields), outside is None
        state, more = state.map(lambda _: next(values)), [next(values) for _ in more]
        outside = next(values, state.eta)
        eta_time, memory = time if own else time.begun, {name: state[name] for name in equations.boundary_names}
        u, v, outside = equations.apply_open_boundaries(state.u, state.v, outside, time, eta_time, memory)
        state = state.replace(eta=outside) if own else state
        memory = equations.boundary_rates(memory, state.u, state.v, outside, time, eta_time)
        return state.replace(u=u, v=v, **memory), more, outside

    def renew(self, equations: Any, number: int, state: State, time: Any) -> State:
        own = state.map(lambda x: x.interior if isinstance(x, Field) else x)
        new = renewed_if_due(equations, equations.terms[number], own, time)
        if not isinstance(state.eta, Field):
            return state.replace(**new)
        tile = equations.geometry.tile
        wide = exchange(list(new.values()), tile.halo, tile.sides, equations.communicator)
        return state.replace(**{name: Field(x, "h", (tile.halo,) * 4) for name, x in zip(new, wide)})

    def finish_stage(self, tree: Any) -> Any:
        return tree

    def tile_values(self, field: Any) -> jax.Array:
        return field.interior

    def with_ghosts(self, equations: Any, x: jax.Array) -> Any:
        tile = equations.geometry.tile
        (wide,) = exchange([x], tile.halo, tile.sides, equations.communicator)
        return Field(wide, "h", (tile.halo,) * 4)

    def register_tendency(self, tendency: State) -> State:
        return tendency
