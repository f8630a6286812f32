"""Observations of the surface: records of gauges, and points along the tracks of an altimeter.

    gauges    a folder of NAME.csv or NAME.nc, one a gauge, with time_s and elevation_m (grids/observed_tables.py)
    tracks    a CSV file with the columns x, y (or longitude, latitude), time_s, elevation_m and, if errors differ,
              deviation_m

Both become {name: Record}, which Misfit takes. Model values are linear between steps and bilinear between wet cells.

The error of a gauge comprises the instrument and what the model's grid cannot resolve. It is sigma [m], and may have a
part in proportion to the waves: a share e of the gauge's own standard deviation. Errors persist for minutes, so that
observations closer together in time than tau are not independent. Each has a weight of its own, since many records
have samples of 15 s during an event and of 15 min before and after it. With the intervals dt_- and dt_+ before and
after an observation,

    w_i = [min(dt_-, tau) + min(dt_+, tau)] / 2 tau,   s_i = (sigma^2 + e^2 var(y_g))^(1/2) / w_i^(1/2),

and sum_i [(eta - y_i) / s_i]^2 = sum_i w_i, expected, which is n dt / tau for n observations at intervals dt < tau.

The observations of an inversion, the model at them, and twin experiments, which take them from the model itself.

    misfit      mean((eta - y)^2) / var(y)
    explained   1 - var(eta - y) / var(y)

In a twin experiment the observations are the values of a run of the model, the truth, with random errors.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import ConfigError
from ...fields.state import State
from ...models.shallow_water import ShallowWater
from ...nests.family import Family
from ...stepping.explicit import TimeStepper
from ..controls.controls import Control, controls_of
from ..costs.costs import Cost
from ..costs.harmonics import HarmonicConstants
from ..costs.marks import Mark
from ..costs.readers import on_outermost
from ..costs.records import Record
from ..problem import Problem
from .priors import background_of

GAUGE_ERROR = 0.05  # [m], the default: residual tides and coarse grids cause a few centimetres


def gauge_records(
    records: dict,
    window: tuple | dict,
    error: float | None = None,
    independent: float = 120.0,
    deviation: float | None = None,
) -> dict:
    """{name: Record} with the errors of gauges.

    Args:
        records: {name: Record}, as `records_in` reads them.
        window: (first, last) [s]; observations outside do not count. Or {name: (first, last)}.
        error: e, a share of each gauge's own standard deviation in the window; 0 unless given.
        independent: tau [s].
        deviation: sigma [m]; GAUGE_ERROR unless this or `error` is given.

    Raises:
        ConfigError: if gauges have no window, or do not vary in it; the message names all of them.
    """
    scaled, mistakes = {}, []
    sigma = deviation or (GAUGE_ERROR if error is None else 0.0)
    for name, record in records.items():
        try:
            span = window_of(window, name)
        except ConfigError as caught:
            mistakes += caught.mistakes
            continue
        record = dataclasses.replace(record, window=span, deviation=1.0)
        time, value, _ = record.counted()
        if not time.size or (sigma == 0.0 and np.std(value) == 0):
            mistakes.append(
                f"the record of {name} has {time.size} observations from {span[0]:g} to {span[1]:g} s"
                f"{' that all are the same, of which no share is an error' if time.size else ''}; widen the window, "
                f"{'give deviation in m, ' if time.size else ''}or leave the gauge out."
            )
            continue
        per_datum = np.ones(record.counts.shape)
        per_datum[record.counts] = 1.0 / _weights(time, independent)
        own = float(np.hypot(sigma, (error or 0.0) * np.std(value)))
        scaled[name] = dataclasses.replace(record, deviation=own * np.sqrt(per_datum), observations_per_datum=per_datum)
    if mistakes:
        raise ConfigError(mistakes)
    return scaled


def _weights(time, independent):
    """w of the observations at `time` [s], (n,); those at one time share the weight of one."""
    moments, group, count = np.unique(time, return_inverse=True, return_counts=True)
    if moments.size == 1 or independent == 0.0:
        return 1.0 / count[group]
    shares = np.minimum(np.diff(moments) / independent, 1.0)
    around = 0.5 * (np.append(shares[0], shares) + np.append(shares, shares[-1]))
    return (around / count)[group]


def window_of(window: tuple | dict, name: str) -> tuple:
    """(first, last) [s] of a gauge, from one window for all gauges or {name: window}."""
    if not isinstance(window, dict):
        return window
    if name not in window:
        raise ConfigError(f"gauge {name!r} has no window; give it one, or leave that gauge out.")
    return window[name]


OVER_TIME = "gauges", "tracks", "velocities", "transports", "marks"  # all kinds but harmonic constants


@dataclasses.dataclass(frozen=True)
class Score:
    """The model eta against the observations y of a place: misfit, explained variance, bias and r.m.s. error.

    Attributes:
        misfit: mean((eta - y)^2) / var(y); NaN if y is constant.
        explained: 1 - var(eta - y) / var(y).
        bias: mean(eta - y), in the units of y.
        error: the r.m.s. of eta - y.
    """

    misfit: float
    explained: float
    bias: float
    error: float

    @staticmethod
    def of(eta: np.ndarray, y: np.ndarray) -> "Score":
        variance, off = float(np.var(y)) or np.nan, eta - y
        square = float(np.mean(off**2))
        return Score(square / variance, 1.0 - float(np.var(off)) / variance, float(np.mean(off)), square**0.5)


@dataclasses.dataclass(frozen=True)
class Observations:
    """The observations of an inversion.

    Attributes:
        records: {label: Record, HarmonicConstants or Mark}, in the order in which the cost reads them.
        names: {label: name of the place}, where they differ: both components of a velocity have one name.
        kinds: {label: type of the observation}; "harmonics" for HarmonicConstants, "marks" for Marks and "gauges" for
            others unless given.
        withheld: labels of records that are compared with the analysis, but have no weight in the cost.
        source: the origin of the observations, in words.
    """

    records: Mapping[str, Record | HarmonicConstants | Mark]
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    kinds: Mapping[str, str] = dataclasses.field(default_factory=dict)
    withheld: Sequence[str] = ()
    source: str = "records"

    def name(self, label: str) -> str:
        """The name of the place of a record."""
        return self.names.get(label, label)

    def kind(self, label: str) -> str:
        """The type of a record, as in `[[inversion.observations]]`."""
        usual = {HarmonicConstants: "harmonics", Mark: "marks"}.get(type(self.records[label]), "gauges")
        return self.kinds.get(label, usual)

    @property
    def all_kinds(self) -> tuple[str, ...]:
        """The types of all records, each once."""
        return tuple(dict.fromkeys(map(self.kind, self.records)))

    @property
    def used(self) -> dict[str, Any]:
        """The records that the inversion uses."""
        return {label: record for label, record in self.records.items() if label not in self.withheld}

    def at(self, times: np.ndarray, readings: np.ndarray) -> dict[str, np.ndarray]:
        """{label: (n,)}: the model at the observations that count, from its readings (steps, records) at `times`."""
        return {label: record.modelled(times, readings[:, k]) for k, (label, record) in enumerate(self.records.items())}

    def pairs(
        self, modelled: Mapping[str, np.ndarray], value: Callable[[Any], np.ndarray], kinds: Sequence[str] | None = None
    ) -> dict[str, tuple[np.ndarray, ...]]:
        """{name: (the model, `value(record)`)} at the observations that count.

        All points of tracks are one entry, and so are all marks that are used. So are all harmonic constants that are
        used, and all that are withheld, since the two numbers of a constituent have no variance.

        Args:
            modelled: as `at` returns it.
            value: a function of a record.
            kinds: the types of observations; all unless given.
        """
        found: dict[str, list] = {}
        for label, record in self.records.items():
            if kinds is not None and self.kind(label) not in kinds:
                continue
            apart = label in self.withheld
            together = {"harmonics": "withheld" if apart else "used", "tracks": "tracks"}
            together |= {} if apart else {"marks": "marks"}
            found.setdefault(together.get(self.kind(label), label), []).append((modelled[label], value(record)))
        return {name: tuple(np.concatenate(part) for part in zip(*pairs)) for name, pairs in found.items()}

    def scores(self, modelled: Mapping[str, np.ndarray], kinds: Sequence[str] | None = None) -> dict[str, Score]:
        """{name: Score}; arguments and names as for `pairs`."""
        pairs = self.pairs(modelled, lambda record: record.counted()[1], kinds)
        return {name: Score.of(eta, y) for name, (eta, y) in pairs.items()}


@dataclasses.dataclass(frozen=True)
class Truth:
    """The model and the first state of the run from which a twin experiment takes its observations.

    In place of a ShallowWater and its State they are a Family and {name: State} of nested grids.
    """

    model: ShallowWater | Family
    state: State | Mapping[str, State]

    def of(self, control: Control, dt: float) -> Any:
        """The true value of a Control, on the outermost grid; an instantaneous uplift is part of initial.eta.

        None if the control is given at times, and the truth has it at others.
        """
        model, state = on_outermost(self.model, self.state)
        if control.times is not None:
            (own,) = controls_of(model, [control.name])
            if not np.array_equal(control.times, own.times):
                return None
        values = background_of(model, state, control.name, dt)
        if control.name == "initial.eta" and model.uplift is not None:
            values = values + model.uplift.record(-1, model.dtype)
        return values

    def observe(self, records: Mapping[str, Record], cost: Cost, stepper: TimeStepper, steps: int) -> dict[str, Record]:
        """The records with the values of a run of the truth, without errors; collective.

        Args:
            records: {label: Record}, whose values do not matter.
            cost: the misfit to these records, which reads the truth.
            stepper: a TimeStepper. steps: of the run.

        Raises:
            ConfigError: if the run does not stay finite.
        """
        problem = Problem(self.model, stepper, self.state, steps, cost, ["initial.eta"])
        readings, dt = np.asarray(problem.observed(), float), float(stepper.dt)
        if not np.isfinite(readings).all():
            raise ConfigError("the run of the twin's truth does not stay finite; change [inversion.twin.truth] less.")
        at = dt * np.arange(1, steps + 1)
        return {
            label: dataclasses.replace(record, value=np.interp(record.time, at, readings[:, k]))
            for k, (label, record) in enumerate(records.items())
        }


def with_noise(record: Record, noise: np.random.Generator) -> Record:
    """The record with random errors, which are correlated if several observations count as one.

    The errors are e_i = c e_{i-1} + (1 - c^2)^1/2 z_i with white noise z. With (1 + c) / (1 - c) = m, the number of
    observations per independent one, the mean of many has the variance of a mean of 1 / m times as many independent
    errors.
    """
    per_datum = np.broadcast_to(record.observations_per_datum, record.value.shape)
    errors, correlation = noise.standard_normal(record.value.size), (per_datum - 1.0) / (per_datum + 1.0)
    for k in range(1, errors.size):
        errors[k] = correlation[k] * errors[k - 1] + np.sqrt(1.0 - correlation[k] ** 2) * errors[k]
    own = np.asarray(record.deviation) / np.sqrt(record.observations_per_datum)
    return dataclasses.replace(record, value=record.value + own * errors)
