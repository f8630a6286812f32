"""One stage of a time step: how its fields get their halos, and when its results are stored in arrays.

The physics is written once, for Fields. Here their data are arrays. In fused loops (stepping/fused.py) they are
expressions, which must be computed before their neighbours can be read.

How the values of a System's fields pass from one of its forms to the next (system.py).

Each declared field has a Kind. `mark_numbers` and `Exchange` are applied when a System is prepared, and nowhere else:

- A number (gravity, a drag coefficient, dt) is the same on all ranks. Where it is combined with a tile's arrays, each
  rank computes the part of its gradient that comes from its own tile. `communicator.replicated` is the identity, and
  its transpose adds these parts up. Applied twice, it would make the gradient too large by the number of ranks. So
  Systems on tiles and steppers hold plain numbers, and a prepared System is not prepared again.
- A map gets ghost cells.
"""

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import jax
import jax.numpy as jnp

from ..fields.field import AbstractField, Field, Scalar
from ..fields.state import State, fields_of, replace
from ..grids.geometry import TileGeometry
from ..parallel.communicator import Communicator
from ..parallel.halo import beyond_open_sides, exchange
from .clock import Time
from .near_sides import axis_along, cells_inside
from .terms import TimeVarying, as_field
from .transported import without_counted

if TYPE_CHECKING:
    from .system import System
    from .terms import Term

__all__ = [
    "ArrayEvaluation",
    "Exchange",
    "FACES",
    "Kind",
    "MAP",
    "NUMBER",
    "OTHER",
    "PARTS",
    "STATIC",
    "StageEvaluation",
    "TABLES",
    "TILE",
    "declare",
    "euler_stage",
    "mark_numbers",
]


T = TypeVar("T")


# -- numbers -----------------------------------------------------------------------------------------------------------


def mark_columns(tile: TileGeometry, communicator: Communicator) -> TileGeometry:
    """A TileGeometry with `replicated` applied to its metrics and Coriolis parameters.

    Those in columns (rows, 1) are the same on the ranks along x; the ghost rows of such columns are each tile's own.
    Sides describe the neighbours of a tile; they are not parameters and are left alone.
    """
    columns = lambda tree: jax.tree.map(lambda x: _mark_column(x, communicator), tree)  # noqa: E731
    return replace(tile, metrics=columns(tile.metrics), coriolis=columns(tile.coriolis))


def mark_numbers(tree: T, communicator: Communicator) -> T:
    """A pytree with `replicated`, the identity whose transpose sums over ranks, applied to its replicated leaves.

    The shape of a leaf decides, as in `communicator.place`: real leaves of fewer than two dimensions are the same on
    all ranks.
    """
    return jax.tree.map(lambda x: communicator.replicated(x) if _is_real(x) and x.ndim < 2 else x, tree)


def _mark_column(x, communicator):
    if _is_real(x) and x.ndim == 2 and x.shape[-1] == 1:
        return communicator.replicated(x, axis="x")
    return mark_numbers(x, communicator)


def _is_real(x):
    """Whether x is a real JAX array. Python's numbers are not: they have no derivative."""
    return isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jnp.inexact)


# -- ghost cells -------------------------------------------------------------------------------------------------------


class Exchange:
    """Fills the halos of parameters; outside the domain they are extrapolated as constants.

    Args:
        tile: the TileGeometry.
        communicator: a Communicator.
        wide: whether stages are computed in a part of the halo too.
    """

    def __init__(self, tile: TileGeometry, communicator: Communicator, wide: bool = False):
        self.tile, self.communicator, self.wide = tile, communicator, wide
        every = tuple(
            side for side, axis in zip(("west", "east", "south", "north"), "xxyy") if axis not in tile.sides.periodic
        )
        self.sides = replace(tile.sides, open=1.0 - tile.sides.linked, open_sides=every)

    def pointwise(self, x: jax.Array | TimeVarying, position: str) -> Field | jax.Array | TimeVarying:
        """A parameter that is read at its own points only, as a number or a Field; with halo where `wide`."""
        return self.parameter(x, position) if self.wide else as_field(x, position)

    def padded(self, x: jax.Array, position: str) -> Field:
        """An array that has the tile's halo already, as a Field."""
        return Field(x, position, (self.tile.halo,) * 4)

    def parameter(self, x: jax.Array | TimeVarying, position: str = "h") -> Field | jax.Array | TimeVarying:
        """A number as it is; a tile array at `position` as a Field with halo; a TimeVarying with its arrays so."""
        if isinstance(x, TimeVarying):
            return x.prepared().map(lambda array: self.parameter(array, position))
        if jnp.ndim(x) < 2:
            return x
        (padded,) = exchange([x], self.tile.halo, self.sides, self.communicator)
        return Field(padded, position, (self.tile.halo,) * 4)

    def along_side(
        self, x: jax.Array | TimeVarying, position: str, side: int, halo: bool
    ) -> Field | jax.Array | TimeVarying:
        """A tile array's cells next to a side, a Field of one row or column; numbers as they are.

        Args:
            x: a number or a tile array, or a TimeVarying, of which nothing is precomputed.
            position: on the C-grid.
            side: WEST, EAST, SOUTH or NORTH.
            halo: whether the Field has a halo along the side; it also has one where `wide`.
        """
        if isinstance(x, TimeVarying):
            return x.moved(lambda array: self.along_side(array, position, side, halo))
        if jnp.ndim(x) < 2:
            return x
        cells = cells_inside(Field(x, position, (0, 0, 0, 0)), side)
        if not (halo or self.wide):
            return cells
        along, width = axis_along(side), self.tile.halo
        (line,) = exchange([cells.data], width, self.sides, self.communicator, along)
        return Field(line, position, (0, 0, width, width) if along == "y" else (width, width, 0, 0))


# -- fields of a System ------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Kind:
    """How the values of a field pass from one form of a System to the next, by functions; None leaves them as they are.

    Attributes:
        bind: `bind(value, windows_of, kind)` replaces each `kind` of time records by `windows_of(records)`.
        mark: `mark(value, communicator)` applies `communicator.replicated` to what is the same on all ranks.
        prepare: `prepare(value, exchange, wet)` fills halos; `wet` is 1 in wet cells, a Field at h.
        static: whether values are hashable, and part of the structure of programs.
    """

    bind: Callable | None = None
    mark: Callable | None = mark_numbers
    prepare: Callable | None = None
    static: bool = False


def _bind_parts(parts, windows_of, kind):
    return tuple(part.bound(windows_of, kind) for part in parts)


def _prepare_parts(parts, exchange, wet):
    return tuple(part.prepare(exchange) for part in parts)


def _bind_records(records, windows_of, kind):
    return windows_of(records) if isinstance(records, kind) else records


def _prepare_map(x, exchange, wet):
    if isinstance(x, TimeVarying):
        return x.map(lambda record: _prepare_map(record, exchange, wet))
    return exchange.parameter(x) * wet


def _prepare_faces(pair, exchange, wet):
    return tuple(map(exchange.padded, pair, "uv"))


STATIC = Kind(static=True, mark=None)  # a choice, or a number of cells or steps
NUMBER = Kind()  # a number that is the same on all ranks
# (ny, nx) at cell centres, 0 on land, or time records of such maps
MAP = Kind(bind=_bind_records, prepare=_prepare_map)
FACES = Kind(prepare=_prepare_faces)  # a pair of arrays at u and v, which have the tile's halo already
TABLES = Kind(prepare=lambda tables, exchange, wet: tables.prepared(exchange))  # of Subgrid, with the tile's halo
PARTS = Kind(bind=_bind_parts, prepare=_prepare_parts)  # a tuple of TiledParts
TILE = Kind(mark=mark_columns)
OTHER = Kind(mark=None)  # a pytree that is used as it is


def declare(
    kind: Kind,
    default: object = None,
    units: str = "",
    argument: object = None,
    label: str = "",
    shared: str = "",
    recorded: str = "",
    lifted: bool = False,
) -> Any:
    """The declaration of a field of a System.

    Args:
        kind: its Kind.
        default: the value of a System without it.
        units: of its numbers.
        argument: the rule of the argument of that name of ShallowWater (fields/parameters.py), where there is one.
        label: what a printed model calls it; "" where it is not shown.
        shared: what messages call it where members of an ensemble must not differ in it; "" where they may.
        recorded: how a restart records it (output/fingerprint.py): by "value", "text", as a "part" or as "parts" with
            names of their own.
        lifted: whether fused loops read its arrays.
    """
    metadata = {"static": kind.static, "kind": kind, "units": units, "argument": argument}
    metadata |= {"label": label, "shared": shared, "recorded": recorded, "lifted": lifted}
    return dataclasses.field(default=default, kw_only=True, metadata=metadata)


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
    def refreshed(self, equations: "System", fields: Fields) -> Fields:
        """Fields with their values stored, and with halos that one exchange fills."""

    @abc.abstractmethod
    def repeat(self, equations: "System", body: Callable, fields: Fields, numbers: range) -> Fields:
        """The Fields, without halos, after `fields = body(k, *fields)` for each k of `numbers`, in one loop of XLA.

        `body` reads neighbours of the first two Fields alone, one cell away. One exchange fills their halos before each
        number, or for as many numbers as these are wide.
        """

    @abc.abstractmethod
    def register_tendency(self, tendency: State) -> State:
        """The tendency that the equations return to a stepper; it may be stored along with the stage made of it."""


class ArrayEvaluation(StageEvaluation):
    """Fields of arrays: every operation computes its values, and XLA decides what it fuses."""

    def exchange(self, system: "System", state: State, more: Fields, outside: Fields, newest: bool) -> Filled:
        tile, other = system.tile, [] if outside[0] is state.eta else outside
        flow = without_counted(system, state) if system.counted else state
        fields = [*fields_of(flow), *more, *other]
        if min(min(f.halo) for f in fields) < system.reach:
            arrays = exchange([f.interior for f in fields], tile.halo, tile.sides, system.communicator)
            fields = [Field(a, f.position, (tile.halo,) * 4) for a, f in zip(arrays, fields)]
        elif system.open_boundaries:
            shared = min(min(f.halo) for f in fields)
            fields = [beyond_open_sides(f.crop((shared,) * 4), tile.sides) for f in fields]
        new, rest = dict(zip(flow.names, fields)), fields[len(flow.names) :]
        own = [new[eta] for *_, eta in system.names_of_layers]
        return state.replace(**new), rest[: len(more)], rest[len(more) :] or own

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
        return self.refreshed(equations, [Field(x, "h", (0, 0, 0, 0))])[0]

    def refreshed(self, equations: "System", fields: Fields) -> Fields:
        tile, own = equations.geometry.tile, [cast(Field, x) for x in fields]
        arrays = exchange([x.interior for x in own], tile.halo, tile.sides, equations.communicator)
        return [Field(a, x.position, (tile.halo,) * 4) for a, x in zip(arrays, own)]

    def repeat(self, equations: "System", body: Callable, fields: Fields, numbers: range) -> Fields:
        positions = [x.position for x in fields]

        def one(k, arrays):
            own = [Field(x, at, (0, 0, 0, 0)) for x, at in zip(arrays, positions)]
            wide = exchange([x.interior for x in own[:2]], 1, equations.tile.sides, equations.communicator)
            new = body(k, *(Field(x, at, (1,) * 4) for x, at in zip(wide, positions)), *own[2:])
            return [cast(Field, x).interior for x in new]

        arrays = [cast(Field, x).interior for x in fields]
        arrays = jax.lax.fori_loop(numbers.start, numbers.stop, one, arrays)
        return [Field(x, at, (0, 0, 0, 0)) for x, at in zip(arrays, positions)]

    def register_tendency(self, tendency: State) -> State:
        return tendency
