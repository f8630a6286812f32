"""The parts of a model: their names in experiment files, and the intervals between the records of their Series.

Mistakes are located by the names, such as "boundary.0". Intervals are in numbers of steps.
"""

import datetime
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from ..dynamics.clock import Coverage
from ..dynamics.domain import Domain, Model
from ..dynamics.terms import Series, TiledPart, Window
from ..errors import ConfigError
from ..fields.parameters import in_utc
from ..fields.parts import of_part, values_of
from ..forcing import records
from ..forcing.constituents import middle_latitude
from ..forcing.tides import Harmonics
from ..grids.regrid import Date, in_calendar

T = TypeVar("T")


def one_or_more(parts: T | Sequence[T]) -> tuple:
    """A tuple of the parts that were given for an argument, which may be a single one."""
    return tuple(parts) if isinstance(parts, (tuple, list)) else (parts,)


def named(group: str, parts: T | Sequence[T]) -> dict[str, T]:
    """{"dissipation.0": part, ...} of the parts that were given for one argument."""
    return {f"{group}.{k}": part for k, part in enumerate(one_or_more(parts))}


def on_tiles(parts: Mapping[str, TiledPart], domain: Domain) -> tuple:
    """The parts {name: part} on the tiles of a Domain."""
    made = []
    for name, part in parts.items():
        with of_part(name):
            made.append(part.on_tile(domain))
    return tuple(made)


def named_series(model: Model) -> dict[str, Series]:
    """{"forcing.0.pressure": Series, ...} of all parts of a model, and its "source"."""
    found = {f"{name}.{key}": each for name, part in model.named_parts() for key, each in part.series().items()}
    return found if model.uplift is None else {**found, "source": model.uplift}


def check_coverage(model: Model, end: float, dt: float) -> None:
    """Raise DataError if records of files do not cover a run of a model until `end` [s] in steps of `dt` [s]."""
    if series := named_series(model):
        records.check_coverage(series, end, dt)


def first_date(start: datetime.datetime | None, *models: Model) -> Date | None:
    """The date and time of step 0 of some models, in the calendar of the files that drive them, where it is another."""
    series = [each for model in models for each in named_series(model).values()]
    if start is None or not series or (calendar := records.calendar_of(series)) == "standard":
        return start
    return in_calendar(in_utc(start), calendar, "the forcing")


def named_origins(model: Model, parts: Mapping[str, object]) -> dict[str, str]:
    """{"forcing.0.pressure": date of the first record of its file, ...} where dates count from it for want of a start.

    Args:
        model: the model.
        parts: {name: part} as a user gives them, with the Record of a series, or Records.
    """
    dated = {name: series.source for name, series in named_series(model).items()}
    for name, part in parts.items():
        for key, value in getattr(part, "__dict__", {}).items():
            each = value, getattr(value, "plus", None), getattr(value, "anomaly", None)
            dated |= {f"{name}.{key}": one for one in each if getattr(one, "origin", None)}
    return {name: one.origin for name, one in dated.items() if isinstance(getattr(one, "origin", None), str)}


def check_origins(
    origins: Mapping[str, str], start: datetime.datetime | None, whose: str = "another part of the model"
) -> None:
    """Raise ConfigError for files whose times count from their own first records, if these are of different dates.

    Args:
        origins: {name of a parameter: date of its first record}, of those that have no start.
        start: the date of step 0, or None.
        whose: what that date is of.
    """
    if not origins:
        return
    (name, date), *others = origins.items()
    if start is not None and date != f"{start:%Y-%m-%d %H:%M:%S}":
        others = [(whose, str(start)), *others]
    for other, its in others:
        if its != date:
            with of_part(name):
                raise ConfigError(
                    f"{name} counts from its first record on {date}, and {other} from {its}, since no start is given; "
                    "give the date of step 0: run.start in an experiment file, start in Python."
                )


def tides_of(model: Any) -> tuple[tuple[str, ...], list[Harmonics]]:
    """(the constituents of a model's tides and tidal potential, its tides); of an ensemble those of one member."""
    model = getattr(model, "models", [model])[0]
    tides = [tide for _, _, tide in values_of(model, Harmonics)]
    named = [*(tide.names for tide in tides), *(getattr(part, "constituents", ()) for _, part in model.named_parts())]
    return tuple(dict.fromkeys(name for each in named for name in each)), tides


def nodal_latitude(model: Any) -> float | None:
    """The latitude of the nodal factors of a model's first tide [degrees].

    It is None of a potential alone, and the middle of the grid without tides.
    """
    names, tides = tides_of(model)
    return tides[0].nodal.degrees if tides else None if names else middle_latitude(model.grid)


class CurrentWindows:
    """The current Window of each Series; its arrays are made anew only when the interval changes.

    Args:
        dtype: of the numbers in the windows.
    """

    def __init__(self, dtype: DTypeLike):
        self._dtype, self._held = dtype, {}

    def at(self, series: Series, step: int, dt: float) -> Window:
        """The Window of a Series at step number `step` of `dt` [s]."""
        interval = series.interval(step, dt)
        held, window = self._held.get(id(series), (None, None))
        if held != interval:
            known = {} if window is None else {held[0]: window.first, held[1]: window.second}
            window = series.window(step, dt, self._dtype, known)
            self._held[id(series)] = interval, window
        return window

    def outlines(self, later: Series | None, domain: Domain, step: int, dt: float) -> Callable[[Series], Window]:
        """The function `at` for this step, which gives of the Series `later`, of fields on a Domain, shapes alone."""
        shape = domain.communicator.placed_shape(domain.grid.shape)
        record, number = jax.ShapeDtypeStruct(shape, self._dtype), jax.ShapeDtypeStruct((), jnp.int32)
        like = Window(record, record, cast(Any, number), cast(Any, number))
        return lambda series: like if series is later else self.at(series, step, dt)


def next_record(series: Sequence[Series], step: int, dt: float) -> int | None:
    """The next step after `step` at which an interval of any Series ends, or None."""
    return min((n for n in (s.next_step(step, dt) for s in series) if n is not None), default=None)


def intervals(next_record: Callable[[int], int | None], step: int, steps: int) -> list[tuple[int, int]]:
    """[(first step, number of steps)] of the intervals between records in a run of `steps` steps from `step` on.

    `next_record(step)` is the next step at which an interval ends, or None, as that of a model is.
    """
    starts = [step]
    while (record := next_record(starts[-1])) is not None and record < step + steps:
        starts.append(record)
    return [(first, end - first) for first, end in itertools.pairwise([*starts, step + steps])]


def coverage_of(series: Sequence[Series], step: int, steps: int, dt: float) -> tuple[list[int], Coverage]:
    """(the steps at which the intervals of a run begin, its Coverage); the arguments are those of the run."""
    parts = intervals(lambda step: next_record(series, step, dt), step, steps)
    return [first for first, _ in parts], Coverage(tuple(count for _, count in parts), dt)


def read_ends(series: Mapping[str, Series], end: float) -> None:
    """Read the records of files around the beginning and the end [s] of a run, and check their values.

    Args:
        series: {name in experiment files: Series}.
        end: [s].
    """
    for name, each in series.items():
        if each.source is not None:
            parts: Any = each.values
            for moment in (0.0, end):
                k = min(int(np.searchsorted(each.times, moment)), len(each.times) - 1)
                for records in parts.values():
                    with of_part(name):
                        records[k]
