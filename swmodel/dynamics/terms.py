"""The base classes of terms of the equations, and parameters that change in time.

A term is a frozen dataclass and a pytree (fields/parts.py). A user writes its parameters as numbers, functions of
(x, y), arrays of the whole grid or time records. `on_tile` makes tile arrays of them once. `bound` selects the records
that a compiled loop needs. `prepare` fills halos at the start of the loop. `at` interpolates records.

A term is called with LayerFlow and the Time (clock.py), which counts from step 0 of the model, and gives accelerations.
Numbers and vectors among its fields are the same on every rank, and System.prepare sums their gradients over ranks.
"""

import abc
import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from ..fields.field import AbstractField, Field, Scalar, Value
from ..fields.methods import Result, a_pair, a_rate, wrong_h
from ..fields.parameters import Number
from ..fields.parts import ModelPart, numbers_of, positions_of
from ..fields.state import State, pytree, replace, replaced
from ..fields.variables import Variable
from ..grids.windows import GridRecords, GridValues, cached, grid_values
from .clock import Time, as_time

if TYPE_CHECKING:
    from ..grids.grid import Grid
    from .domain import Domain, Model
    from .layer import LayerFlow
    from .site import Site
    from .stages import Exchange
    from .system import System

__all__ = [
    "Forcing",
    "Series",
    "Term",
    "TiledPart",
    "TimeVarying",
    "Window",
    "Windows",
    "as_field",
    "holds_windows",
    "rate_at",
    "tile_array",
    "value_at",
]


@dataclasses.dataclass(frozen=True)
class Series:
    """Records `values` (n, ...) at `times` [s], interpolated linearly in time.

    Outside the times the end values hold, or the records repeat every `cycle` [s]. With `place`, a communicator's
    method, the values are {rank: its tile's records}. They stay on the host; `window` gives the compiled program two
    records at a time.

    Times are rounded to whole steps, so that a loop of steps can end on a record. Of several records within half a step
    of one, the nearest is used. The first and the last record are always used, so that the sum of the differences is
    unchanged: records that follow the first within its step, and a last one that is not the nearest, are moved to the
    next step. In a nest times are rounded to every `multiple`-th step, at which a step of the outermost grid ends.

    `source` describes where records come from that are evaluated during the run (forcing/records.py); None of others.
    """

    times: np.ndarray
    values: np.ndarray
    cycle: float | None = None
    place: Any = None
    source: Any = None
    multiple: int = 1

    def _steps(self, dt):
        """(the step numbers of the records that are used, their numbers, the cycle in steps or None)."""
        dt *= self.multiple
        times = np.asarray(self.times) / dt
        steps = np.rint(times).astype(np.int64)
        steps[1:] = np.maximum(steps[1:], steps[0] + 1)
        nearest = np.lexsort((np.abs(times - steps), steps))
        records = nearest[np.append(True, np.diff(steps[nearest]) > 0)]
        if records[-1] < len(times) - 1:
            records, steps[-1] = np.append(records, len(times) - 1), steps[-1] + 1
        cycle = self.multiple * max(round(self.cycle / dt), steps[-1] - steps[0] + 1) if self.cycle else None
        return self.multiple * steps[records], records, cycle

    def bracket(self, step: int, dt: float) -> tuple:
        """(record, following record, steps since the first, steps between them) at `step`.

        The last is None before the first record and after the last one, where the value is constant.
        """
        steps, records, cycle = self._steps(dt)
        if cycle:
            step = steps[0] + (step - steps[0]) % cycle
        k = int(np.searchsorted(steps, step, side="right")) - 1
        if k < 0:
            return 0, 0, step - steps[0], None
        if k + 1 < len(steps):
            return records[k], records[k + 1], step - steps[k], steps[k + 1] - steps[k]
        if cycle:
            return records[k], 0, step - steps[k], steps[0] + cycle - steps[k]
        return records[k], records[k], step - steps[k], None

    def next_step(self, step: int, dt: float) -> int | None:
        """The step at which the interval that contains `step` ends; None if it never ends."""
        _, _, since, length = self.bracket(step, dt)
        if length is None:
            return int(self._steps(dt)[0][0]) if since < 0 else None
        return int(step - since + length)

    def window(self, step: int, dt: float, dtype: DTypeLike, held: dict[int, jax.Array] | None = None) -> "Window":
        """The Window of the interval between records that contains `step`.

        Args:
            step: a number of steps after step 0.
            dt: the time step [s].
            dtype: the element type of the arrays.
            held: {number: record}, records that are on the device already.
        """
        first, second, start, length = self.interval(step, dt)
        known = {k: held[k] if held and k in held else self.record(k, dtype) for k in {first, second}}
        return Window(known[first], known[second], *map(self._whole, (start, length)))

    def read_ahead(self, step: int, dt: float, submit: Callable) -> None:
        """Start a thread that reads the record which the interval after that of `step` needs.

        Args:
            step: a number of steps after step 0.
            dt: the time step [s].
            submit: an Executor's method.
        """
        if self.source is None or (following := self.next_step(step, dt)) is None:
            return
        _, record, *_ = self.interval(following, dt)
        values: Any = self.values
        for records in values.values():
            records.read_ahead(record, submit)

    def interval(self, step: int, dt: float) -> tuple:
        """(record, following record, the step number of the first, steps between them) at `step`.

        Where the value is constant both records are the same one, at step 0, and 1 step apart.
        """
        first, second, since, length = self.bracket(step, dt)
        if length is None:
            return int(first), int(second), 0, 1
        return int(first), int(second), step - int(since), int(length)

    def windows(self, steps: tuple, dt: float, dtype: DTypeLike) -> "Windows":
        """The Windows of the intervals that contain `steps`; each record that they need is stored once."""
        intervals = [self.interval(step, dt) for step in steps]
        needed = sorted({record for first, second, *_ in intervals for record in (first, second)})
        columns = [[needed.index(record) for record in column] for column in list(zip(*intervals))[:2]]
        columns += [list(column) for column in list(zip(*intervals))[2:]]
        place = self.place or (lambda make: jnp.asarray(make(None)))

        def records(rank):
            values = self.values if self.place is None else self.values[rank]
            return np.stack([np.asarray(values[k], dtype) for k in needed])

        indices = [place(lambda rank, column=column: np.asarray(column, np.int32)) for column in columns]
        return Windows(place(records), *indices)

    def _whole(self, number):
        return jnp.asarray(number, jnp.int32) if self.place is None else self.place(lambda rank: np.int32(number))

    def record(self, k: int, dtype: DTypeLike) -> jax.Array:
        """Record number k as a JAX array, placed by tile."""
        if self.place is None:
            return jnp.asarray(self.values[k], dtype)
        return self.place(lambda rank: np.asarray(self.values[rank][k], dtype))


class TimeVarying(abc.ABC):
    """The value of a parameter that changes in time, as compiled programs take it: a pytree of numbers and tile arrays.

    Attributes:
        uses_time: whether it is computed from seconds or phases, so that programs depend on the length of a step.
    """

    uses_time: ClassVar[bool] = False

    def prepared(self) -> "TimeVarying":
        """This value with all that does not change in a compiled program precomputed, once at its start."""
        return self

    def within(self, terms: tuple, gravity: Scalar) -> "TimeVarying":
        """The same in equations with these prepared terms and this gravity [m s-2], which the value may depend on."""
        return self

    def check_covers(self, end: float, slack: float, remedy: str) -> None:  # noqa: B027  the default is no limit
        """Raise ConfigError if the value is undefined at some time from 0 to `end`.

        Args:
            end: of the run [s].
            slack: the length at the end of the run that the record may leave out [s].
            remedy: what the user can do instead of giving a longer record, for the message.
        """
        return None

    @abc.abstractmethod
    def map(self, function: Callable) -> Self:
        """The same with `function` applied to each number or array on which the value depends linearly."""

    def moved(self, function: Callable) -> Self:
        """The same with `function` applied to each number or array; it copies values, as from arrays into halos."""
        return jax.tree.map(function, self)

    @abc.abstractmethod
    def at(self, time: Time) -> Value:
        """The value at a Time, a number, an array or a Field."""

    def mean(self, time: Time) -> Value:
        """The mean over the step that begins at a Time, by its ends: exact where the value is linear in between."""
        return (self.at(time) + self.at(time + 1.0)) * 0.5

    def rate(self, time: Time) -> Value:
        """d/dt of the value at a Time [its units s-1], by a centred difference over a step unless overridden."""
        return (self.at(time + 0.5) - self.at(time + (-0.5))) * (1.0 / time.dt)


@pytree
class Window(TimeVarying):
    """Two records of a Series, `length` steps apart, the first of them at step number `start` of the model."""

    first: Any
    second: Any
    start: jax.Array
    length: jax.Array

    def at(self, time: Time) -> Value:
        """The value at a Time, or at a number of steps after step 0.

        Differences of step numbers are exact, and the division does not depend on the step at which a loop started. So
        a run does not depend on how it is divided into loops.
        """
        dtype = getattr(self.first, "dtype", None) or jnp.result_type(self.first)
        since = as_time(time).steps_since(self.start, dtype)
        weight = jnp.clip(since / self.length.astype(dtype), 0.0, 1.0)
        if isinstance(self.first, AbstractField):
            return self.first + (self.second - self.first) * weight
        return self.first + weight * (self.second - self.first)

    def rate(self, time: Time) -> Value:
        """The slope between both records, also at their own times."""
        return (self.second - self.first) * (1.0 / (self.length.astype(time.dt.dtype) * time.dt))

    def map(self, function: Callable) -> Self:
        """The Window with `function` applied to both records."""
        return replace(self, first=function(self.first), second=function(self.second))


@pytree
class Windows:
    """The records of a Series in consecutive intervals, so that a run across them can be differentiated as a whole.

    Attributes:
        records: (n, ny, nx), or (n,) where they are uniform in space.
        first, second: (intervals,), the numbers of the two records of each interval.
        start, length: (intervals,), those of each interval's Window, in steps.
    """

    records: jax.Array
    first: jax.Array
    second: jax.Array
    start: jax.Array
    length: jax.Array

    def window(self, interval: int | jax.Array) -> Window:
        """The Window of interval number `interval`, which may be traced."""
        at = lambda x, k: jax.lax.dynamic_index_in_dim(x, k, 0, keepdims=False)  # noqa: E731
        first, second, start, length = (at(x, interval) for x in (self.first, self.second, self.start, self.length))
        return Window(at(self.records, first), at(self.records, second), start, length)


def holds_windows(tree: object) -> bool:
    """Whether a pytree contains a Window or Windows."""
    is_window = lambda x: isinstance(x, (Window, Windows))  # noqa: E731
    return any(map(is_window, jax.tree.leaves(tree, is_leaf=is_window)))


def value_at(x: Value | TimeVarying, time: Time) -> Value:
    """The value of a TimeVarying at a Time, or at a number of steps after step 0; anything else as it is."""
    return x.at(time) if isinstance(x, TimeVarying) else x


def rate_at(x: Value | TimeVarying, time: Time) -> Value:
    """d/dt of a TimeVarying at a Time; 0 of anything else."""
    return x.rate(time) if isinstance(x, TimeVarying) else 0.0


def as_field(x: jax.Array | TimeVarying, position: str) -> Field | jax.Array | TimeVarying:
    """A tile array as a Field without halo; a number unchanged; a TimeVarying with its arrays as Fields."""
    if isinstance(x, TimeVarying):
        return x.prepared().map(lambda array: as_field(array, position))
    return Field(x, position, (0, 0, 0, 0)) if jnp.ndim(x) == 2 else x


class TiledPart(ModelPart, abc.ABC):
    """A part of the equations whose parameters may vary in space and, by records, in time.

    Attributes:
        uses_time: whether it reads seconds or phases from the Time (reading its records does not count). If no part
            does, programs do not depend on the length of a step, and runs with different steps share them.
    """

    uses_time: ClassVar[bool] = True

    def on_tile(self, domain: "Domain") -> Self:
        """This part with parameters that vary in space as arrays of the tile."""
        rules, who = numbers_of(type(self)), type(self).__name__
        return self._each(lambda x, name, position: tile_array(x, position, domain, f"{who}.{name}", rules[name]))

    @property
    def reads_time(self) -> bool:
        """Whether it, or one of its parameters, is computed from seconds or phases of the time."""
        varying = (getattr(self, name) for name in positions_of(type(self)))
        return self.uses_time or any(isinstance(x, TimeVarying) and x.uses_time for x in varying)

    def check_covers(self, end: float, slack: float, remedy: str = "shorten it") -> None:
        """Raise ConfigError if a parameter is undefined in a run until `end` [s], as TimeVarying.check_covers does."""
        for value in (getattr(self, name) for name in positions_of(type(self))):
            if isinstance(value, TimeVarying):
                value.check_covers(end, slack, remedy)

    def state_variables(self) -> tuple[Variable, ...]:
        """The Variables at cell centres that it adds to the State of a model; none unless a class has some."""
        return ()

    def series(self) -> dict[str, Series]:
        """The Series among its parameters and within them, by name, such as "pressure" or "elevation.plus"."""
        leaves = jax.tree_util.tree_leaves_with_path({name: getattr(self, name) for name in positions_of(type(self))})
        return {jax.tree_util.keystr(k, simple=True, separator="."): x for k, x in leaves if isinstance(x, Series)}

    def bound(self, windows_of: Callable, kind: type = Series) -> Self:
        """This part with each `kind` x that is a parameter, or within one, replaced by `windows_of(x)`."""
        fits = lambda x: isinstance(x, kind)  # noqa: E731
        bound = lambda x: windows_of(x) if fits(x) else x  # noqa: E731
        return self._each(lambda x, name, position: jax.tree.map(bound, x, is_leaf=fits))

    def prepare(self, exchange: "Exchange") -> Self:
        """This part as the compiled program uses it: tile arrays become Fields, with halo where it is declared."""
        numbers = numbers_of(type(self))

        def prepared(x, name, position):
            return (exchange.parameter if numbers[name].halo else exchange.pointwise)(x, position)

        return self._each(prepared)

    def at(self, time: Time) -> Self:
        """This part with the values of its parameters at a Time."""
        if not any(isinstance(getattr(self, name), TimeVarying) for name in positions_of(type(self))):
            return self
        return self._each(lambda x, name, position: value_at(x, time))

    def _each(self, function):
        """This part with `function(value, name, position)` of each parameter that may vary in space."""
        given = {name: at for name, at in positions_of(type(self)).items() if getattr(self, name) is not None}
        return replaced(self, {name: function(getattr(self, name), name, at) for name, at in given.items()})


class Term(TiledPart):
    """One named term of the momentum equations, and of the continuity equation where it has `continuity`.

    A term of your own declares its parameters by `sw.parameter` and has `__call__`; docs/guide/own_parts.md shows one.

    Attributes:
        nonlinear: whether it is undefined in the linear mode. A linear model then raises ConfigError.
        has_pressure: whether it has an air pressure, and defines `pressure_head`.
        follows_pressure: whether its force is a gradient of the elevation, flow.level, at the pressure gradient's time.
        holds_level: whether it keeps the mean level near one outside.
        between_layers: whether it acts between layers alone, and models of one layer refuse it.
        layer: the layer that it acts on, 0 at the top, -1 the lowest; None for all, with the LayerFlow of each.
    """

    kind = "dissipation"
    results = {"__call__": a_pair, "continuity": Result("d eta/dt, a Field at h or a number", wrong_h), "rates": a_rate}
    nonlinear: ClassVar[bool] = False
    has_pressure: ClassVar[bool] = False
    follows_pressure: ClassVar[bool] = False
    holds_level: ClassVar[bool] = False
    between_layers: ClassVar[bool] = False
    layer = None

    def acts_on(self, layer: int, count: int) -> bool:
        """Whether it accelerates layer number `layer` of `count`."""
        return self.layer is None or self.layer % count == layer

    def share_along_sides(self, grid: "Grid") -> dict[str, GridValues] | None:
        """{side: its share of full strength in each cell, (ny, nx)} of a term in a layer along sides; else None."""
        return None

    @abc.abstractmethod
    def __call__(self, flow: "LayerFlow", time: Time) -> tuple[Value, Value]:
        """(du/dt, dv/dt) [m s-2] of LayerFlow at a Time, Fields at u and v or numbers."""

    def damping(self, flow: "LayerFlow", time: Time) -> tuple[Value, Value] | None:
        """r [s-1], at u and v, of du/dt = - r u, dv/dt = - r v, which conserving.py steps implicitly; else None."""

    def damping_per_speed(self, flow: "LayerFlow", time: Time) -> tuple[Value, Value] | None:
        """k [m-1], at u and v, of du/dt = - k |u| u, with |u| after an implicit step; None for other terms."""

    def continuity(self, flow: "LayerFlow", time: Time) -> Value:
        """d eta/dt [m s-1], a Field at h. It is called only if a class defines it."""
        raise NotImplementedError

    def renewed(self, equations: "System", state: State, time: Time) -> dict[str, jax.Array]:
        """{name: value} of its `state_variables`, arrays of the tile's own cells, until the next step where it is due.

        Args:
            equations: System on arrays, whose communicator may sum over ranks.
            state: a State of arrays of the tile's own cells, at the beginning of the step.
            time: the Time at the beginning of the step.
        """
        raise NotImplementedError

    def is_due(self, time: Time) -> bool | jax.Array:
        """Whether `renewed` is called at the beginning of the step of a Time, a bool that may be traced."""
        return True

    @property
    def changes_elevation(self) -> bool:
        """Whether the class defines `continuity`."""
        return type(self).continuity is not Term.continuity

    def pressure_head(self, time: Time, reference: float) -> Value:
        """(p - p_0) / rho [m2 s-2] of the air pressure at a Time, for a reference p_0 [Pa], a Field at h."""
        raise NotImplementedError

    def check_reference(self, reference: float, water: jax.Array, agree: Callable) -> None:
        """Raise ConfigError if its air pressure is nowhere near a reference p_0 [Pa]; collective."""

    def check_water(self, model: "Model") -> None:
        """Raise ConfigError if it acts on no water of a model; collective."""

    def rates(self, site: "Site") -> np.ndarray | float:
        """The fastest damping rate [s-1] in each cell of a `site` of stepping/stability.py; 0 if there is no limit."""
        return 0.0


class Forcing(Term):
    """A term that drives the flow, passed as `forcing=`, or as [[forcing]] in experiment files."""

    kind = "forcing"


def tile_array(x: Any, position: str, domain: "Domain", name: str, rule: Number | None = None) -> Any:
    """A parameter as the user gave it, as a number, a tile array, a Series of tile arrays, or a TimeVarying.

    Args:
        x: number; callable(x, y) of the grid's coordinates at `position`; GridValues; (ny, nx) array; a tile array as
            programs hold it (jax.Array); an object with `times`, `values` (n, ny, nx) and `cycle`; an object whose
            method `placed` makes a TimeVarying of tile arrays, such as a Tide.
        position, name: where the parameter lies on the C-grid, "h", "u", "v" or "q"; and its name, for messages.
        rule: a Number whose limits the values of functions and GridValues must keep, or None.

    Raises:
        ValueError: for an array of another shape than the grid, values that are not finite, and records without
            increasing times.
    """
    grid = domain.grid
    if hasattr(x, "check_limits") and rule is not None:
        x.check_limits(rule, name)
    if hasattr(x, "placed"):  # such as a Tide
        return x.placed(position, domain, name, rule)
    if hasattr(x, "series_on"):  # FileRecords
        return x.series_on(position, domain, name, rule)
    if hasattr(x, "times") and hasattr(x, "values"):
        values = x.values if isinstance(x.values, GridRecords) else np.asarray(x.values)
        _check_shape(values.shape[1:], grid, name)
        if len(values) != len(x.times) or (np.diff(x.times) <= 0).any():
            raise ValueError(
                f"{name} has {len(values)} records at times {list(x.times)}; give one increasing time each."
            )
        if x.cycle and x.cycle <= x.times[-1] - x.times[0]:
            raise ValueError(
                f"{name} repeats every {x.cycle:g} s, and its records span {x.times[-1] - x.times[0]:g} s; "
                "give a longer cycle, or fewer records."
            )
        _check_values(values, name, rule)
        return domain.series(np.asarray(x.times, float), values, x.cycle)
    if callable(x) or isinstance(x, GridValues):
        x = cached(grid_values(x, grid, position, f"{name}: the"), len(domain.communicator.ranks))
        return domain.together(lambda: _cut_and_checked(x, domain, name, rule))
    if domain.is_placed(x):
        return x.astype(domain.dtype)
    _check_shape(np.shape(x), grid, name)
    _check_values(x, name, None)  # its limits were checked when the term was made
    return domain.cut(x)


def _cut_and_checked(values, domain, name, rule):
    """Tile arrays of GridValues, where the values of the tiles of this process are finite and keep the rule."""
    for _, part in domain.own(values):
        _check_values(part, name, rule)
    return domain.cut(values)


def _check_values(values, name, rule):
    if isinstance(values, np.ndarray) and (bad := np.count_nonzero(~np.isfinite(values))):
        raise ValueError(
            f"{name} is not finite in {bad:,} of {values.size:,} values; give numbers everywhere, such as 0 on land."
        )
    if isinstance(values, np.ndarray) and rule is not None:
        rule.check(*name.split(".", 1), values)


def _check_shape(shape, grid, name):
    if shape not in ((), grid.shape):
        raise ValueError(
            f"{name} has shape {tuple(shape)}, and the grid has {grid.shape} (ny, nx); "
            "give one value a cell, a number, or a function of x and y."
        )
