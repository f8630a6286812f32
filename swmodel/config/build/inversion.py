"""From an experiment file with [inversion] to controls in standard parameters, and to observations.

In a twin experiment the observations are values of a run of the model itself, the truth, with random errors.
"""

from __future__ import annotations

import dataclasses
import datetime
import logging
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ...adjoint.assimilation.priors import Setting, background_of, joined
from ...adjoint.costs.costs import Misfit
from ...adjoint.costs.harmonics import HarmonicMisfit
from ...errors import ConfigError
from .. import Override, read_text
from ..costs import chosen_gauges
from ..parts import part_of
from .experiment import assemble, model_of, state_of

if TYPE_CHECKING:
    from ...adjoint.controls.transforms import Transformed
    from ...fields.state import State
    from ...models.shallow_water import ShallowWater
    from ...runtime.launch import Process
    from ...stepping.explicit import TimeStepper
    from .. import Draft
    from ..inversion import Inversion
    from ..scenario import Output, Run
    from .experiment import Assembly

__all__ = [
    "EXAMPLE",
    "Observed",
    "Truth",
    "check_withheld",
    "check_controls",
    "cost_of",
    "observed",
    "placed",
    "section_of",
    "steps_of",
    "transformed_of",
    "truth_of",
]

EXAMPLE = """\
    [inversion.observations]
    type = "gauges"
    window = ["15 minute", "2 hour"]
    [[inversion.controls]]
    type = "unit_sources"         # or faults, field, number, balanced
    x = [141, 145.5]
    y = [35, 41]
    spacing = 0.5
    deviation = "2 m\""""


@dataclasses.dataclass
class Truth:
    """The model and the state of the run from which a twin experiment takes its observations."""

    model: Any
    state: Any

    def of(self, control: str, dt: float) -> Any:
        """The true value of a control; an instantaneous uplift is part of initial.eta."""
        values = background_of(self.model, self.state, control, dt)
        if control == "initial.eta" and self.model.uplift is not None:
            values = values + self.model.uplift.record(-1, self.model.dtype)
        return values


@dataclasses.dataclass
class Observed:
    """The observations of an inversion.

    Attributes:
        records: {name: Record} of all gauges or places.
        truth: the Truth of a twin, or None.
        state: the State from which the inversion starts: the experiment's, or that after a spin-up.
        source: the origin of the observations, in words.
        withheld: names of records that are compared with the analysis, but not used for it.
    """

    records: dict
    truth: Any
    state: Any
    source: str
    withheld: tuple = ()

    @property
    def weighed(self) -> dict:
        """The records for the cost, in which those that are withheld have no weight."""
        return {
            name: dataclasses.replace(record, deviation=np.inf) if name in self.withheld else record
            for name, record in self.records.items()
        }

    @property
    def used(self) -> dict:
        """The records that the inversion uses."""
        return {name: record for name, record in self.records.items() if name not in self.withheld}


def section_of(draft: Draft) -> Inversion:
    """The section [inversion]; raises ConfigError with an example if it is missing."""
    section = draft.sections.get("inversion")
    if section is None:
        raise ConfigError(f"{draft.file}: the section [inversion] is missing; add one, such as\n{EXAMPLE}")
    return section


def steps_of(section: Inversion, run: Run, dt: float) -> tuple[int, int]:
    """(number of the first step after the spin-up, number of steps of `dt` [s] that are compared with observations)."""
    first = math.ceil(section.spin_up / dt - 1e-6)
    return first, max(math.ceil((section.until or run.until) / dt - 1e-6) - first, 1)


def cost_of(section: Inversion, records: dict, start: datetime.datetime | None) -> Misfit | HarmonicMisfit:
    """The misfit to {name: Record or HarmonicConstants}; `start` is the date of the start of the run."""
    if section.observations.type == "harmonics":
        return HarmonicMisfit(records, section.observations.window, start)
    return Misfit(records)


def check_withheld(section: Inversion, records: Mapping[str, Any]) -> None:
    """Raise ConfigError if gauges are to be withheld, and cannot be."""
    if not section.withhold:
        return
    if not isinstance(section.withhold, bool):
        missing = [name for name in section.withhold if name not in records]
        if missing:
            raise ConfigError(f"there is no record of {', '.join(missing)}, to be withheld; add it, or leave it out.")
        if len(records) == len(section.withhold):
            raise ConfigError("all gauges that have a record are withheld, and none is left to use; leave one out.")
        return
    if section.observations.type == "tracks" or len(records) < 2:
        raise ConfigError("withhold is for two gauges or more, whose records predict one another; leave it out.")
    if section.chosen == "descent":
        raise ConfigError("withhold is not for the method 'descent'; use another one, or leave it out.")


# -- controls ----------------------------------------------------------------------------------------------------------


def transformed_of(section: Inversion, made: Assembly, model: ShallowWater, state: State, dt: float) -> Transformed:
    """The Transformed of all controls of [inversion]; collective.

    Raises:
        ConfigError: for a control that cannot be made; the message has its number.
    """
    setting, found = Setting(model, state, dt), {}
    for k, control in enumerate(section.controls):
        prior = made.attempt(("inversion", "controls", k), part_of, control, made.grid)
        if prior is None:
            continue
        transform = made.attempt(("inversion", "controls", k), prior.transform, setting)
        if transform is not None:
            label = prior.label()
            found[f"{label}_{k}" if label in found else label] = prior, transform
    made.experiment()
    return joined(found, model)


def check_controls(section: Inversion, made: Assembly, model: ShallowWater, state: State, dt: float) -> int | None:
    """The number of unknowns of the controls of [inversion]; their mistakes are collected in `made`.

    Correlations and the sea surface above faults, which take long, are not computed.
    """
    setting, numbers = Setting(model, state, dt), []
    for k, control in enumerate(section.controls):
        prior = made.attempt(("inversion", "controls", k), part_of, control, made.grid)
        numbers.append(prior and made.attempt(("inversion", "controls", k), prior.unknowns, setting))
    return None if None in numbers else sum(numbers)


# -- observations ------------------------------------------------------------------------------------------------------


def observed(
    section: Inversion,
    made: Assembly,
    process: Process,
    model: ShallowWater,
    state: State,
    stepper: TimeStepper,
    steps: int,
    first_step: int = 0,
) -> Observed:
    """The Observed of [inversion] in `steps` steps after number `first_step`; collective."""
    scheme: Any = stepper
    until, output = (first_step + steps) * float(scheme.dt), made.experiment().output
    records, source, unused = _recorded(section, output, model, until)
    withheld = () if isinstance(section.withhold, bool) else section.withhold
    if records is not None:
        withheld = tuple(dict.fromkeys((*withheld, *(name for name in unused if name in records))))
        return Observed(records, None, _spun_up(section, made, model, state, stepper), source, withheld)
    truth, state = _twin(section, made, process, model, state, stepper)
    records = _of_twin(section, output, truth, stepper, steps)
    return Observed(records, truth, state, source, withheld)


def placed(
    section: Inversion, output: Output, model: ShallowWater, dt: float, until: float
) -> tuple[dict[str, Any], str, bool]:
    """({name: Record or HarmonicConstants}, their origin in words, whether it is a twin).

    The model is not run: the values of a twin are zero.
    """
    records, source, _ = _recorded(section, output, model, until)
    twin = records is None
    return _without_values(section, output, model, dt, until) if twin else records, source, twin


def _recorded(section, output, model, until):
    """({name: Record} or None for a twin, their origin in words, names that the file excludes)."""
    observations = section.observations
    if observations.type == "harmonics":
        constants, unused = _constants(observations, model)
        return constants, str(observations.file), unused
    if observations.type == "tracks" and observations.file is not None:
        from ...adjoint.assimilation.observations import read_tracks, track_records

        tracks = read_tracks(observations.file, observations.deviation)
        return track_records(tracks, model, until), str(observations.file), ()
    folder = _folder(observations, output)
    if folder is None:
        return None, f"a twin (seed {section.twin.seed})", ()
    from ...adjoint.costs.records import records_in

    places: Any = _places(observations, output)
    records = records_in(folder, places, observations.gauges)
    return _weighed(observations, records), str(folder), ()


def _constants(observations, model):
    """({name: HarmonicConstants} of gauges in water, names that the file excludes)."""
    from ...adjoint.costs.harmonics import constants_in, constants_in_water

    given = observations.deviation, observations.error or 0.0
    found, unused = constants_in(observations.file, observations.constituents, *given)
    found = chosen_gauges(found, observations.gauges, observations.file)
    constants, ashore = constants_in_water(found, model)
    if ashore and model.communicator.is_root:
        several = f"{len(ashore)} gauges" if len(ashore) > 1 else "1 gauge"
        logging.getLogger("swmodel").warning(
            "%s of %s without water around on this grid, left out: %s", several, observations.file, ", ".join(ashore)
        )
    return constants, unused


def _spun_up(section, made, model, state, stepper):
    """The State after the spin-up, with the first guess of all controls."""
    from ...simulation.simulation import Simulation

    if not section.spin_up:
        return state
    steps, _ = steps_of(section, made.experiment().run, float(stepper.dt))
    return Simulation(model, state, stepper, start=made.experiment().run.start).run(steps=steps)


def _folder(observations, output):
    if observations.type != "gauges":
        return None
    if observations.folder is not None:
        return observations.folder
    return None if output.gauges is None else output.gauges.observations


def _places(observations, output):
    """{name: (x, y)} of the gauges that may have a record."""
    known = {**({} if output.gauges is None else output.gauges.positions), **observations.positions}
    return {name: tuple(map(float, known[name])) for name in observations.gauges or known}


def _weighed(observations, records):
    from ...adjoint.assimilation.observations import gauge_records

    given = observations.error, observations.independent, observations.deviation
    return gauge_records(records, observations.window, *given)


def _twin(section, made, process, model, state, stepper):
    """(Truth, the State to start the inversion from), each after a spin-up of its own."""
    from ...simulation.simulation import Simulation

    other, twin = made.attempt(("inversion", "twin", "truth"), truth_of, section, made, process.tiles), section.twin
    made.experiment()
    experiment = other.experiment()
    true_model = model_of(other, process.communicator, experiment.run.layout, experiment.run.engine)
    truth = state_of(experiment.initial, true_model)
    if twin.spin_up:
        state = Simulation(model, state, stepper).run(until=twin.spin_up)
        truth = Simulation(true_model, truth, stepper).run(until=twin.spin_up)
    return Truth(true_model, truth), state


def truth_of(section: Inversion, made: Assembly, ranks: int = 1, **options: Any) -> Assembly:
    """The Assembly of the experiment with the twin's truth; raises ConfigError with every mistake of it."""
    draft, truth = made.draft, {} if section.twin is None else section.twin.truth
    overrides = [Override(f"[inversion.twin.truth] {key}", _path(key), value) for key, value in truth.items()]
    other = read_text(draft.text, draft.file, draft.folder, [*draft.overrides, *overrides], draft.own_parts)
    other = assemble(other, ranks, **options)
    other.experiment()
    return other


def _path(key):
    return tuple(int(part) if part.isdigit() else part for part in key.split("."))


def _of_twin(section, output, truth, stepper, steps):
    """{name: Record} of the truth's values at gauges or along tracks, with random errors."""
    noise, dt = np.random.default_rng(section.twin.seed), float(stepper.dt)
    empty = _without_values(section, output, truth.model, dt, steps * dt)
    records = _with_true_values(empty, truth, stepper, steps)
    if section.observations.type == "gauges":
        records = _weighed(section.observations, records)
    return {name: _with_noise(record, noise) for name, record in records.items()}


def _without_values(section, output, model, dt, until):
    """{name: Record} of a twin, whose values are zero."""
    from ...adjoint.assimilation.observations import ground_tracks, track_records, window_of
    from ...adjoint.costs.records import Record

    observations = section.observations
    if observations.type == "tracks":
        given = observations.apart, observations.between, observations.tilt, observations.deviation
        tracks = ground_tracks(model.grid, observations.every, until, *given)
        return track_records(dataclasses.replace(tracks, value=np.zeros(tracks.x.size)), model, until)
    every, records = max(observations.every, dt), {}
    for name, place in _places(observations, output).items():
        first, last = window_of(observations.window, name)
        time = np.arange(max(first, dt), min(last, until) + 1e-6, every)
        records[name] = Record(place, time, np.zeros(time.size), window=(first, last))
    return records


def _with_true_values(records, truth, stepper, steps):
    """The records with the truth's values."""
    from ...adjoint import Misfit, Problem

    problem = Problem(truth.model, stepper, truth.state, steps, Misfit(records), ["initial.eta"])
    readings, dt = np.asarray(problem.observed(), float), float(stepper.dt)
    if not np.isfinite(readings).all():
        raise ConfigError("the run of the twin's truth does not stay finite; change [inversion.twin.truth] less.")
    at = dt * np.arange(1, steps + 1)
    return {
        name: dataclasses.replace(record, value=np.interp(record.time, at, readings[:, k]))
        for k, (name, record) in enumerate(records.items())
    }


def _with_noise(record, noise):
    """The record with random errors, which are correlated if several observations count as one.

    The errors are e_i = c e_{i-1} + (1 - c^2)^1/2 z_i with white noise z. With (1 + c) / (1 - c) = m, the number of
    observations per independent one, the mean of many has the variance of a mean of 1 / m times as many independent
    errors.
    """
    correlation = (record.observations_per_datum - 1.0) / (record.observations_per_datum + 1.0)
    errors = noise.standard_normal(record.value.size)
    for k in range(1, errors.size):
        errors[k] = correlation * errors[k - 1] + np.sqrt(1.0 - correlation**2) * errors[k]
    own = np.asarray(record.deviation) / np.sqrt(record.observations_per_datum)
    return dataclasses.replace(record, value=record.value + own * errors)
