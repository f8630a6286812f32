"""The intervals between the records of a model's forcings, boundaries and sources, in numbers of steps."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from ..dynamics.clock import Coverage
from ..dynamics.domain import Domain
from ..dynamics.terms import Series, Window
from ..errors import of_part


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
