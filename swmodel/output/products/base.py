"""Products: fields that the compiled loop accumulates on the device during a run, from samples of its state.

Sums are compensated unless they are in float64: a second array, NAME_low, holds the rounding errors of the additions
(Knuth's two-sum, https://doi.org/10.1137/030601818). A mean of millions of samples in float32 is then as accurate as
one sample. The arrays are part of restarts: a run that is resumed continues them bit for bit.
"""

import abc
import dataclasses
import functools
import json
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from ...diagnostics.derived import field
from ...dynamics.clock import Time
from ...dynamics.layer import LayerFlow
from ...dynamics.system import System
from ...fields.field import mean_x, mean_xy, mean_y
from ...fields.methods import Result
from ...fields.parameters import DERIVED, parameter
from ...fields.parts import ModelPart, as_pytree, code_of, name_of, snake_case
from ...fields.state import State, pytree, static
from ...fields.variables import VARIABLES, Variable
from ...parallel.communicator import Communicator
from ...stepping.steps import History
from .. import Claim, ReplacedFile
from ..metadata import Attribute, members_of, rows_of, static_fields, variable_of
from ..netcdf import write_fields
from ..schedule import AbstractSimulation, Output

TO_CENTRES = {"u": mean_x, "v": mean_y, "q": mean_xy}
T_co = TypeVar("T_co", covariant=True)
Arrays: TypeAlias = dict[str, jax.Array]
MakeSample: TypeAlias = Callable[..., "Sample"]  # of the time step [s], which is needed for times in seconds


def zero_sum(name: str, like: jax.Array) -> dict[str, jax.Array]:
    """The arrays of the sum `name` before the first term."""
    zero = jnp.zeros_like(like)
    return {name: zero} if like.dtype == np.float64 else {name: zero, f"{name}_low": zero}


def add_term(sums: Arrays, name: str, term: jax.Array) -> dict[str, jax.Array]:
    """The arrays of the sum `name` with one more term."""
    before = sums[name]
    after = before + term
    if f"{name}_low" not in sums:
        return {name: after}
    added = after - before
    error = (before - (after - added)) + (term - added) + sums[f"{name}_low"]
    high = after + error  # so that the lower part stays small
    return {name: high, f"{name}_low": error - (high - after)}


def total(sums: Mapping[str, jax.Array | np.ndarray], name: str) -> np.ndarray:
    """The sum `name` of gathered arrays, in float64."""
    high = np.asarray(sums[name], np.float64)
    return high + np.asarray(sums[f"{name}_low"], np.float64) if f"{name}_low" in sums else high


def first_sample(doc: str = "when samples begin") -> Any:
    """Declare `begin`: the model time of a product's first sample [s]."""
    return parameter(None, "s", minimum=0.0, default=0.0, static=True, doc=doc)


def interval(doc: str = "time between samples; every step unless given") -> Any:
    """Declare `every`: the time between two samples of a product [s]."""
    return parameter(None, "s", above=0.0, optional=True, default=None, static=True, doc=doc)


def derived(default: object, static: bool = True) -> Any:
    """Declare what `prepared` finds of a run; `static` if programs are compiled for its value."""
    return dataclasses.field(default=default, metadata={"static": static} | DERIVED)


@dataclasses.dataclass(frozen=True)
class Sample:
    """The state after a step, on this rank's tile, and what can be computed from it.

    Attributes:
        equations: the System, prepared.
        state: the State that is stepped, in which a tracer is its content h c.
        time: its Time; `time.step` is the number of the step.
    """

    equations: System
    state: State
    time: Time

    @functools.cached_property
    def shown(self) -> State:
        """The State as files hold it, in which a tracer is its concentration c."""
        return self.equations.shown(self.state, self.time)

    @functools.cached_property
    def flow(self) -> LayerFlow:
        """The LayerFlow with halos, as terms of the equations get it (docs/theory/terms.md)."""
        return self.equations.flow(self.state, self.time)

    @functools.cached_property
    def uplift(self) -> jax.Array | None:
        """The rise of the sea floor until now [m] (ny, nx), None where it does not move."""
        uplift = self.equations.uplift
        return None if uplift is None else uplift.at(self.time).interior

    @property
    def depth(self) -> jax.Array:
        """H before the sea floor moves, below 0 on land that may be flooded [m] (ny, nx)."""
        return self.equations.depth.interior

    @functools.cached_property
    def dry_at_rest(self) -> jax.Array:
        """Which cells of a moving shore hold no water at rest, before the sea floor moves, bool (ny, nx)."""
        tables, depth = self.equations.subgrid, self.equations.depth
        return self.depth < 0 if tables is None else tables.water(0.0 * depth, depth).interior <= self.equations.film

    def above_lowest_bed(self, level: jax.Array) -> jax.Array:
        """How much `level` [m] is above the deepest part of the present bed in each cell, of beds finer than these."""
        depth = self.equations.depth_at(self.time)
        return level - self.equations.subgrid.level(0.0 * depth, depth).interior

    def at_centres(self, wanted: Iterable[str] = ()) -> dict[str, jax.Array]:
        """{name: tile array (ny, nx)} at cell centres of all that is stepped, "thickness" [m] and "speed" [m s-1].

        The speed is that of the velocities at the centres.

        Args:
            wanted: names of further fields of diagnostics.derived; those at faces or corners are averaged.
        """
        state = self.flow.state
        centred = {
            name: TO_CENTRES[at](state[name]).interior if at in TO_CENTRES else self.shown[name]
            for name, at in self.state.positions.items()
        }
        speed = jnp.sqrt(centred["u"] ** 2 + centred["v"] ** 2)
        centred |= {"thickness": self.flow.h.interior, "speed": speed}
        for name in wanted:  # in this order, so that every process traces the same program
            if name not in centred:
                there = field(name, self.flow)
                centred[name] = TO_CENTRES.get(there.position, lambda x: x)(there).interior
        return centred


class Reader(Protocol[T_co]):
    """A pytree that computes something from a Sample, within a program."""

    def of(self, sample: Sample) -> T_co: ...


class Watcher(Protocol):
    """A pytree whose arrays a run updates after steps (output/schedule.py).

    Attributes:
        every: it takes samples at multiples of this number of steps.
        is_checked: whether the state of each sample must be checked, since samples are written as records.
    """

    @property
    def every(self) -> int: ...

    is_checked: ClassVar[bool]

    def update(self, arrays: Arrays, make_sample: MakeSample, step: jax.Array, row: jax.Array, /) -> Arrays: ...


@dataclasses.dataclass(frozen=True)
class Samples:
    """The samples that a product has taken, for its results.

    Attributes:
        steps: the numbers of their steps, (n,), at least one.
        dt: the time step [s].
        interval: the time between two samples [s].
        rows: {name: Variable} of the variables of the run's files.
    """

    steps: np.ndarray
    dt: float
    interval: float
    rows: Mapping[str, Variable]


def _dict_of(key: type, wanted: str) -> Result:
    """The Result that is a dict with keys of a type."""

    def wrong(value, arguments):
        if not isinstance(value, dict):
            return f"a {type(value).__name__}"
        return next((f"a dict with the key {one!r}" for one in value if not isinstance(one, key)), None)

    return Result(wanted, wrong)


ARRAYS = _dict_of(str, "{name: array (ny, nx)}")
ROWS = _dict_of(Variable, "{sw.Variable: array (ny, nx)}")


class Product(ModelPart, abc.ABC):
    """The base class of products; a product of a user's own defines `start`, `add` and `finish`.

    Attributes:
        of_ensembles: whether runs of an ensemble may have it.
        of_moving_surface: whether it has no meaning under a rigid lid, where eta is a pressure.
        counts_start: whether the state before the first step is a sample, which `start` has taken.
        records: the class of the Output of a file that has a record every `every` seconds, in place of fields of the
            whole run; its arguments are those of ProductOutput.
        begin: the time of the first sample [s]; a class declares it by `first_sample` if users may choose it.
        every: the interval between samples [s], likewise by `interval`.
    """

    kind = "product"
    results = {"start": ARRAYS, "add": ARRAYS, "finish": ROWS}
    of_ensembles: ClassVar[bool] = False
    of_moving_surface: ClassVar[bool] = False
    counts_start: ClassVar[bool] = False
    records: ClassVar[Callable[..., Output] | None] = None
    begin = 0.0
    every = None

    def __post_init__(self):
        for name in self.keys():  # what programs are compiled for cannot be a list
            if isinstance(value := getattr(self, name), list):
                object.__setattr__(self, name, tuple(value))
        super().__post_init__()

    @classmethod
    def keys(cls) -> list[str]:
        """The names of the parameters that users give."""
        return [x.name for x in dataclasses.fields(as_pytree(cls)) if not x.metadata.get("derived")]

    @abc.abstractmethod
    def start(self, state: State) -> dict[str, jax.Array]:
        """{name: tile array} before the first sample of a State of these shapes."""

    @abc.abstractmethod
    def add(self, sums: Arrays, sample: Sample) -> Arrays:
        """The arrays of `start` with one more Sample."""

    @abc.abstractmethod
    def finish(self, sums: dict[str, np.ndarray], samples: Samples) -> dict[Variable, np.ndarray]:
        """{row: array (ny, nx)} to be written; empty where there is nothing.

        Args:
            sums: {name: global array (ny, nx)}, gathered from the tiles.
            samples: the Samples.
        """

    # -- what a product may define, too --------------------------------------------------------------------------------

    def prepared(self, simulation: AbstractSimulation) -> Self:
        """The product of a Simulation, after checks that need it; raises ConfigError."""
        return self

    def started(self, simulation: AbstractSimulation, state: State, step: int) -> dict[str, jax.Array]:
        """The arrays before the steps after `step` of a Simulation; collective."""
        return self.start(state)

    def sampled(self, dt: float) -> tuple[int, int]:
        """(the first step that is a sample, the number of steps between two)."""
        return math.ceil(self.begin / dt - 1e-9), max(1, round((self.every or dt) / dt))

    def settings(self) -> dict[str, object]:
        """Settings that must be equal for the arrays of another run to be continued, in types that JSON has."""
        return {name: getattr(self, name) for name in self.keys() if name not in ("begin", "every")}

    def at_step_of(self, ratio: float, sums: Arrays, communicator: Communicator) -> Arrays | None:
        """The arrays where `ratio` times as many steps make the same time; None if they cannot be continued."""
        return None

    def attributes(self, samples: "Sampler") -> dict[str, str | float]:
        """Global attributes of the file; `samples` is the Sampler."""
        every = samples.every * samples.dt
        return {"product_comment": f"of samples every {every:g} s, from {self.begin:g} s on"}

    def bytes_of_file(self, cells: int, arrays: int, until: float) -> float:
        """About how many bytes its file has after `until` [s], on a grid of `cells`, for so many arrays of `start`."""
        return 4.0 * cells * arrays

    def content(self) -> str:
        """What the file has, for `swmodel check`."""
        return (type(self).__doc__ or type(self).__name__).partition("\n")[0].rstrip(".")

    def mistakes(self, until: float, stepped: Sequence[str], derived: Sequence[str]) -> Iterator[tuple[str, str]]:
        """(key, what is wrong) of settings that a run of `until` [s] with variables of these names does not allow."""
        return iter(())

    def remarks(self, deepest: float) -> Iterator[str]:
        """Remarks for `swmodel check` on settings that are hardly meant, over a bed down to the level `deepest` [m]."""
        return iter(())


@pytree
class Uplift:
    """A watcher that returns the rise of the sea floor until now, None where it does not move."""

    def of(self, sample: Sample) -> jax.Array | None:
        return sample.uplift


@pytree
class Sampler:
    """A Product that takes a sample of the state every `every` steps of dt [s], from step `first` on."""

    product: Product
    dt: float = static()
    every: int = static()
    first: int = static()

    is_checked: ClassVar[bool] = False

    @staticmethod
    def of(product: Product, dt: float) -> "Sampler":
        first, every = product.sampled(dt)
        return Sampler(product, dt, every, first)

    def description(self) -> dict[str, object]:
        """What must be equal for the arrays of another run to be continued, in types that JSON has."""
        cls, code = type(self.product), code_of(type(self.product))
        kind = name_of(cls) if ":" in name_of(cls) else snake_case(cls.__name__)
        steps = {"dt": self.dt, "every": self.every, "first": self.first}
        about = {"kind": kind, **steps, **self.product.settings(), **({"code": code} if code else {})}
        return json.loads(json.dumps(about))

    def start(self, simulation: AbstractSimulation, state: State, step: int) -> Arrays:
        """The arrays before the first sample, and "since", the step after which samples are taken; collective."""
        since = simulation.communicator.place(lambda rank: np.int32(step))
        return {"since": since, **self.product.started(simulation, state, step)}

    def update(self, sums: Arrays, make_sample: MakeSample, step: jax.Array, row: object = None) -> Arrays:
        """The arrays after step number `step`; unchanged if it is not a sample."""

        def with_sample():
            return {**sums, **self.product.add(sums, make_sample(self.dt))}

        if self.every == 1 and self.first <= 1:
            return with_sample()
        return jax.lax.cond((step >= self.first) & (step % self.every == 0), with_sample, lambda: sums)

    def steps(self, since: int, last: int) -> np.ndarray:
        """The numbers of the steps after `since`, up to `last`, that are samples."""
        begin = max(self.first, since + (not self.product.counts_start))
        begin += -begin % self.every
        return np.arange(begin, last + 1, self.every)


def rows_by_name(simulation: AbstractSimulation) -> dict[str, Variable]:
    """{name: Variable} of the variables that files of a Simulation have."""
    names = list(dict.fromkeys((*VARIABLES, *(row.name for row in simulation.model.variables))))
    return {name: variable_of(row) for name, row in zip(names, rows_of(simulation, names))}


class ProductOutput(Output):
    """Fields from the arrays that a Product accumulates.

    Args:
        path: the path of the file.
        product: the Product.
        simulation: the Simulation, from whose present step on samples are taken.
    """

    watcher: Sampler

    def __init__(self, path: str | Path, product: Product, simulation: AbstractSimulation) -> None:
        self.path, self.watcher = Path(path), Sampler.of(product, simulation.dt)
        self.arrays = self.watcher.start(simulation, simulation.state, simulation.step)

    def start_arrays(self, simulation: AbstractSimulation, packed: tuple[State, History]) -> Arrays:
        return jax.tree.map(jnp.copy, self.arrays)

    def open(self, simulation: AbstractSimulation, attributes: Mapping[str, Attribute], claim: Claim) -> None:
        self.attributes = {**attributes, **self.watcher.product.attributes(self.watcher)}
        self.file = ReplacedFile(claim)

    def finish(self, simulation: AbstractSimulation) -> None:
        model, grid, sampler, dt = simulation.model, simulation.model.grid, self.watcher, simulation.dt
        tile = simulation.communicator.one_tile(self.arrays)
        since = int(np.asarray(tile["since"]))
        steps = sampler.steps(since, simulation.step)
        if not steps.size:
            if simulation.communicator.is_root:
                logging.getLogger("swmodel").warning(
                    "%s is not written: the run has taken no sample for it; run longer, or begin earlier.", self.path
                )
            return
        whole: dict[str, Any] = {name: model.gather(x) for name, x in self.arrays.items() if name != "since"}
        if next(iter(whole.values())) is None:
            return
        fields = sampler.product.finish(whole, Samples(steps, dt, sampler.every * dt, rows_by_name(simulation)))
        if not fields:
            return
        static, members, start = static_fields(simulation), members_of(simulation), simulation.start
        arrays: dict[str | Variable, np.ndarray] = {
            row: np.where(static["wet"], x, np.nan) if row.position == "h" else x for row, x in fields.items()
        }

        def write():
            times = {"seconds": steps[-1] * dt, "since": steps[0] * dt}
            about = {"start": start, "attributes": self.attributes, "static": static, "members": members}
            write_fields(self.path, grid, arrays, **times, **about)
            self.file.written()

        self.submit(write, sum(array.nbytes for array in arrays.values()))
