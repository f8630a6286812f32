"""TileCosts: how programs compute the number J of a run from readings of each state and of the last one.

For N steps from step 0 on,

    J = value(acc, S),   acc = update(acc, r, n) for segment after segment,   r_k = sum over tiles of read(x_n+k),
    S = sum over tiles of final(x_N)

so that only the readings of one segment are in memory at once. A TileCost is a pytree, and an argument of programs.
"""

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from ...dynamics.clock import Time
from ...dynamics.system import System
from ...errors import ConfigError
from ...fields.methods import Result, a_number, like_argument
from ...fields.parts import ModelPart, name_of
from ...fields.state import State, pytree, static
from ...runtime.packages import is_shipped


class Cost(ModelPart, abc.ABC):
    """A cost as users define it, independent of the grid and the ranks. Its parameters are declared on its class.

    Attributes:
        units: units of J.
        reads_families: whether it takes a Family in place of a model, and the tuple of States of its grids.
    """

    kind = "cost"
    units = "1"
    reads_families: ClassVar[bool] = False

    @abc.abstractmethod
    def on_tile(self, model: Any, dt: float, first_step: int, steps: int) -> "TileCost":
        """The TileCost for a run of `steps` steps of `dt` [s] from step number `first_step` on.

        Raises:
            ConfigError: if a place does not lie in water, or a time does not lie in the run.
        """

    def title(self) -> str:
        """What J is, in words."""
        return name_of(self)

    def locations(self) -> dict[str, tuple[float, float]]:
        """{name: (x, y)} of the places that the cost reads, which figures mark."""
        return {}

    def last_time(self) -> float:
        """The time since the start [s] that a run has to reach for this cost; 0 if a run of any length will do."""
        return 0.0


def _no_readings(value, arguments):
    shape = getattr(value, "shape", None)
    if shape is not None:
        return None if len(shape) == 1 else f"an array of shape {tuple(shape)}"
    return "None" if value is None else f"a {type(value).__name__}"


class TileCost(Cost):
    """A cost as programs take it: its leaves are this tile's arrays, and numbers and tables that every rank holds."""

    kind = None  # experiment files can name TileCosts of users only, as module:Class
    results = {
        "read": Result("a vector, this tile's share of the readings, as jnp.sum(...)[None]", _no_readings),
        "update": like_argument,
        "value": a_number,
        "final": a_number,
    }

    read: ClassVar[Callable[..., jax.Array] | None] = None  # None if nothing is read along the run; else
    #   read(state, equations, time) -> (count,)   this tile's share of the readings of a State
    final: ClassVar[Callable[..., jax.Array] | None] = None  # None if the last state is not read; else
    #   final(state, equations, time) -> ()        this tile's share of a number
    # `equations` are the prepared System, and `time` is the Time of the state.

    def on_tile(self, model: Any, dt: float, first_step: int, steps: int) -> "TileCost":
        return self

    def start(self) -> Any:
        """The accumulator before the first step; every rank holds the same."""
        return ()

    def update(self, acc: Any, readings: Any, first_step: Any) -> Any:
        """The accumulator after further steps.

        Args:
            acc: the accumulator so far.
            readings: (steps, count), summed over tiles.
            first_step: number, on the model's clock, of the state from which row 0 was read; may be traced.
        """
        return acc

    def value(self, acc: Any, final: Any) -> Any:
        """J from the accumulator and the sum over tiles of `final`, which is None if the last state is not read."""
        return final


class ReaderCost(TileCost):
    """A TileCost of the readings of its `reader`."""

    reader: Any

    def read(self, state: State, equations: System, time: Time) -> jax.Array:
        """This tile's share of the readings of a State, (count,)."""
        return self.reader.read(state, equations, time)


def trace_cost(outline: System, stepper: Any, state: Any, cost: TileCost) -> None:
    """Trace a cost of the user's own over one state, so that its mistakes show before anything is compiled.

    Args:
        outline: of the model.
        stepper, state, cost: as programs take them.

    Raises:
        ConfigError: for an error in one of its methods, or for results that make no number.
    """
    if is_shipped(type(cost)):
        return
    communicator = outline.communicator

    def value(dynamics, stepper, state, cost):
        equations, time, dtype = stepper.system(dynamics), Time(jnp.int32(0)), jax.tree.leaves(state)[0].dtype
        acc, final = jax.tree.map(lambda x: jnp.asarray(x, dtype), cost.start()), None
        if cost.read is not None:
            readings = communicator.sum(cost.read(state, equations, time).astype(dtype))
            acc = cost.update(acc, readings[None], time.step)
        if cost.final is not None:
            final = communicator.sum(cost.final(state, equations, time))
        return () if cost.read is None and cost.final is None else cost.value(acc, final)

    J = jax.eval_shape(communicator.spmd(value), outline, stepper, state, cost)
    if not isinstance(J, jax.ShapeDtypeStruct):
        raise ConfigError(f"{name_of(cost)}: it reads neither states nor the last one; define read or final.")


@pytree
class AtEnd(TileCost):
    """J = sum_k r_k of the last state."""

    reader: Any

    def final(self, state: State, equations: System, time: Time) -> jax.Array:
        return jnp.sum(self.reader.read(state, equations, time))


@pytree
class Weighted(ReaderCost):
    """J = sum_nk w_nk r_nk, with `weights` w (N, count) of the states from number `first` on."""

    reader: Any
    weights: jax.Array
    first: int = static()

    def start(self) -> Any:
        return jnp.zeros((), self.weights.dtype)

    def update(self, acc: Any, readings: jax.Array, first_step: Any) -> Any:
        return acc + jnp.sum(rows(self.weights, first_step - self.first, len(readings)) * readings)

    def value(self, acc: Any, final: Any) -> jax.Array:
        return acc


@pytree
class PowerMean(ReaderCost):
    """J = sum_k (sum_n w_nk max(r_nk, 0)^p)^(1/p).

    To avoid overflow, sums of powers are relative to the largest reading so far. Neither J nor its derivatives depend
    on this scale.
    """

    reader: Any
    weights: jax.Array
    power: jax.Array
    first: int = static()

    def start(self) -> Any:
        """(largest reading so far, sum of powers relative to it), (count,) each."""
        nothing = jnp.zeros(self.weights.shape[1], self.weights.dtype)
        return nothing, nothing

    def update(self, acc: Any, readings: jax.Array, first_step: Any) -> Any:
        unit, total = acc
        weights = rows(self.weights, first_step - self.first, len(readings))
        heights = jnp.where(weights > 0, jnp.maximum(readings, 0.0), 0.0)
        largest = jax.lax.stop_gradient(jnp.maximum(unit, jnp.max(heights, axis=0)))
        per_unit = jnp.where(largest > 0, 1.0 / jnp.where(largest > 0, largest, 1.0), 0.0)
        more = jnp.sum(weights * self._power(heights * per_unit[None]), axis=0)
        return largest, total * self._power(unit * per_unit) + more

    def _power(self, x):
        """x^p, with finite derivatives at 0."""
        return jnp.where(x > 0, jnp.where(x > 0, x, 1.0) ** self.power, 0.0)

    def value(self, acc: Any, final: Any) -> jax.Array:
        unit, total = acc
        root = jnp.where(total > 0, jnp.where(total > 0, total, 1.0) ** (1.0 / self.power), 0.0)
        return jnp.sum(jax.lax.stop_gradient(unit) * root)


@pytree
class Squares(ReaderCost):
    """J = 1/2 sum_nmk [((1 - a) r_{n-1,k} + a r_nk - y) / s]^2 over observations m between steps n - 1 and n.

    Attributes:
        share: a (N, M, count), the position of an observation between the two steps, from 0 to 1.
        observed: y (N, M, count).
        per_deviation: 1 / s (N, M, count), and 0 where there is no observation.
    """

    reader: Any
    share: jax.Array
    observed: jax.Array
    per_deviation: jax.Array
    first: int = static()

    @property
    def count(self) -> int:
        """The number of readings of a state."""
        return self.share.shape[-1]

    def start(self) -> Any:
        """(J so far, the last readings)."""
        return jnp.zeros((), self.share.dtype), jnp.zeros(self.share.shape[2], self.share.dtype)

    def update(self, acc: Any, readings: jax.Array, first_step: Any) -> Any:
        total, last = acc
        before = jnp.concatenate([last[None], readings[:-1]])[:, None]
        share, observed, per_deviation = (
            rows(x, first_step - self.first, len(readings)) for x in (self.share, self.observed, self.per_deviation)
        )
        modelled = before + share * (readings[:, None] - before)
        return total + 0.5 * jnp.sum(((modelled - observed) * per_deviation) ** 2), readings[-1]

    def value(self, acc: Any, final: Any) -> jax.Array:
        return acc[0]


class OneOfEach(ReaderCost):
    """A ReaderCost J = 1/2 sum_mk [(acc_mk - y_mk) / s_mk]^2, with an accumulator in the form of `observed` y."""

    observed: jax.Array
    per_deviation: jax.Array

    @property
    def count(self) -> int:
        """The number of readings of a state."""
        return self.observed.shape[-1]

    def start(self) -> Any:
        """What is known so far of the modelled values."""
        return jnp.zeros_like(self.observed)

    def value(self, acc: Any, final: Any) -> jax.Array:
        return 0.5 * jnp.sum(((acc - self.observed) * self.per_deviation) ** 2)


@pytree
class SquaresOfSums(OneOfEach):
    """J = 1/2 sum_mk [(sum_n w_nm r_nk - y_mk) / s_mk]^2, such as the harmonic constants m of the series of gauge k.

    Attributes:
        weights: w (N, M), of the readings of the states from number `first` on.
        observed: y (M, count).
        per_deviation: 1 / s (M, count), and 0 where there is no observation.
    """

    reader: Any
    weights: jax.Array
    observed: jax.Array
    per_deviation: jax.Array
    first: int = static()

    def update(self, acc: Any, readings: jax.Array, first_step: Any) -> Any:
        weights = rows(self.weights, first_step - self.first, len(readings))
        return acc + jnp.matmul(weights.T, readings, precision=jax.lax.Precision.HIGHEST)


@pytree
class AtInstants(OneOfEach):
    """J = 1/2 sum_k [((1 - a_k) r_{n_k - 1, k} + a_k r_{n_k, k} - y_k) / s_k]^2: each reading k is observed once.

    Its tables have one row, so that their size does not grow with the number of steps.

    Attributes:
        step: n_k (count,), numbers of states counted from `first`.
        share: a_k (count,), from 0 to 1.
        observed, per_deviation: y_k and 1 / s_k, (count,).
        steps: the number of states that count.
    """

    reader: Any
    step: jax.Array
    share: jax.Array
    observed: jax.Array
    per_deviation: jax.Array
    first: int = static()
    steps: int = static()

    def update(self, acc: Any, readings: jax.Array, first_step: Any) -> Any:
        row = self.step - (first_step - self.first)
        return acc + self.share * _chosen(readings, row) + (1.0 - self.share) * _chosen(readings, row - 1)


def _chosen(table, row):
    """table[row_k, k] (count,); 0 for rows outside the table."""
    inside = (row >= 0) & (row < len(table))
    found = jnp.take_along_axis(table, jnp.clip(row, 0, len(table) - 1)[None], axis=0)[0]
    return jnp.where(inside, found, 0.0)


@pytree
class OfLastState(TileCost):
    """FinalState on a tile."""

    arguments: tuple
    function: Any = static()

    def final(self, state: State, equations: System, time: Time) -> jax.Array:
        """The function's value.

        Raises:
            ConfigError: if it is not a number, or has no derivative.
        """
        found = self.function(state, equations, *self.arguments)
        kind = getattr(found, "dtype", type(found).__name__)
        if not isinstance(found, (jax.Array, float)) or jnp.shape(found) != ():
            what = f"an array of shape {jnp.shape(found)}" if hasattr(found, "dtype") else f"a {kind}"
            raise ConfigError(f"the cost's function gives {what}, and a cost is one number; sum it up.")
        if not jnp.issubdtype(jnp.result_type(found), jnp.floating):
            raise ConfigError(f"the cost's function gives a {kind}, which has no derivative; give a real number.")
        return jnp.asarray(found, jax.tree.leaves(state)[0].dtype)


def rows(table: jax.Array, first: Any, count: int) -> jax.Array:
    """`count` rows of a table, from number `first` on; zeros after its end."""
    return jnp.take(table, first + jnp.arange(count, dtype=jnp.int32), axis=0, mode="fill", fill_value=0)


@pytree
class AllReadings(TileCost):
    """A TileCost without a value: its accumulator (steps, count) holds all readings of another cost."""

    cost: Any
    shape: tuple = static()
    first: int = static()

    def read(self, state: State, equations: System, time: Time) -> jax.Array:
        return self.cost.read(state, equations, time)

    def start(self) -> jax.Array:
        return jnp.zeros(self.shape)

    def update(self, acc: Any, readings: jax.Array, first_step: Any) -> jax.Array:
        rows = first_step - self.first + jnp.arange(len(readings), dtype=jnp.int32)
        return acc.at[rows].set(readings, mode="drop")
