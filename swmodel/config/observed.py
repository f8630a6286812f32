"""From the tables [inversion.observations] to records, and to the misfit to all of them.

In a twin experiment they are those of adjoint.assimilation.observations.Truth, with random errors.
"""

import dataclasses
import datetime
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..adjoint.assimilation.observations import Observations, Truth, with_noise
from ..adjoint.costs.costs import Cost
from ..adjoint.costs.misfits import JointMisfit
from ..adjoint.costs.readers import GaugeReader, SectionReader
from ..errors import ConfigError
from ..models.shallow_water import ShallowWater
from ..nests.family import Family
from ..runtime.launch import Process
from ..stepping.explicit import TimeStepper
from . import Override, read_text
from .assembly import Assembly, driver_of, model_of
from .families import assemble_family, family_of
from .inversion import Inversion
from .observations import SeriesTable
from .scenario import Output
from .toml import path_of


@dataclasses.dataclass(frozen=True)
class Group:
    """The observations of one table.

    Attributes:
        table: the section.
        records: {label: Record or HarmonicConstants}, in the order in which the misfit reads them.
        source: the file or folder, or the twin, in words.
        unused: names that the file excludes.
    """

    table: Any
    records: dict[str, Any]
    source: str
    unused: tuple[str, ...] = ()

    @property
    def names(self) -> dict[str, str]:
        """{label: name}: the name in the file, which both components of a velocity have."""
        return self.table.names(self.records)

    def summary(self) -> str:
        """The number of observations, their places and their source, in words."""
        count = sum(record.counted()[0].size for record in self.records.values())
        places = len(set(self.names.values()))
        several = f"{places:,} {self.table.place}{'s' * (places != 1)}"
        return f"{count:,} {self.table.words} {several}, of {self.source}"


def _records_of(groups: Sequence[Group]) -> dict[str, Any]:
    """{label: Record or HarmonicConstants} of all groups; raises ConfigError where two have the same label."""
    found = {}
    for group in groups:
        for label, record in group.records.items():
            if label in found:
                raise ConfigError(f"two tables of observations have a place {label!r}; give one of them another name.")
            found[label] = record
    return found


def misfit_to(groups: Sequence[Group], start: datetime.datetime | None) -> Cost:
    """The misfit to all groups; `start` is the date of the start of the run."""
    costs = [group.table.misfit(group.records, start) for group in groups]
    return costs[0] if len(costs) == 1 else JointMisfit(tuple(costs))


def _with_own_labels(groups: Sequence[Group]) -> tuple[Group, ...]:
    """The groups, in which all points of tracks have different labels; raises ConfigError as `_records_of` does."""
    made, taken = [], 0
    for group in groups:
        if group.table.type == "tracks":
            records = {f"point {taken + k}": record for k, record in enumerate(group.records.values())}
            group, taken = dataclasses.replace(group, records=records), taken + len(records)
        made.append(group)
    _records_of(made)
    return tuple(made)


@dataclasses.dataclass
class Observed:
    """The observations of an inversion.

    Attributes:
        groups: a Group for each table.
        truth: the Truth of a twin, or None.
        state: the State from which the inversion starts: the experiment's, or that after a spin-up.
        withheld: labels of records that are compared with the analysis, but not used for it.
    """

    groups: tuple[Group, ...]
    truth: Any
    state: Any
    withheld: tuple = ()

    @property
    def records(self) -> dict:
        """{label: Record or HarmonicConstants} of all groups."""
        return _records_of(self.groups)

    @property
    def observations(self) -> Observations:
        """The records of all groups, for an Inversion."""
        names = {label: group.names[label] for group in self.groups for label in group.records}
        kinds = {label: group.table.type for group in self.groups for label in group.records}
        source = ", ".join(dict.fromkeys(group.source for group in self.groups))
        return Observations(self.records, names, kinds, self.withheld, source)

    @property
    def weighed(self) -> tuple[Group, ...]:
        """The groups for the cost, in which records that are withheld have no weight."""
        return tuple(
            dataclasses.replace(
                group,
                records={
                    label: dataclasses.replace(record, deviation=np.inf) if label in self.withheld else record
                    for label, record in group.records.items()
                },
            )
            for group in self.groups
        )


def check_withheld(section: Inversion, groups: Sequence[Group]) -> None:
    """Raise ConfigError if gauges are to be withheld, and cannot be."""
    if not section.withhold:
        return
    names = {name for group in groups for name in group.names.values()}
    if not isinstance(section.withhold, bool):
        missing = [name for name in section.withhold if name not in names]
        if missing:
            raise ConfigError(f"there is no record of {', '.join(missing)}, to be withheld; add it, or leave it out.")
        if len(names) == len(section.withhold):
            raise ConfigError("all gauges that have a record are withheld, and none is left to use; leave one out.")
        return
    if any(group.table.type in ("tracks", "marks") for group in groups) or len(names) < 2:
        raise ConfigError("withhold is for two gauges or more, whose records predict one another; leave it out.")
    if section.chosen == "descent":
        raise ConfigError("withhold is not for the method 'descent'; use another one, or leave it out.")


def check_places(section: Inversion, made: Assembly, model: ShallowWater | Family) -> bool:
    """Whether all places of velocities and all sections lie in water; others are mistakes in `made`; collective."""
    before = len(made.mistakes)
    for k, table in enumerate(section.observations):
        path = ("inversion", "observations", k)
        for name, place in table.places(None).items() if table.type == "velocities" else ():
            made.attempt((*path, "positions", name), GaugeReader.at, {name: place}, model)
        for name, ends in table.places(None).items() if table.type == "transports" else ():
            made.attempt((*path, "sections", name), SectionReader.between, *ends, model)
    return len(made.mistakes) == before


def observed(
    section: Inversion,
    made: Assembly,
    process: Process,
    model: ShallowWater | Family,
    state: Any,
    stepper: TimeStepper,
    steps: int,
    first_step: int = 0,
) -> Observed:
    """The Observed of [inversion] in `steps` steps after number `first_step`; collective."""
    scheme: Any = stepper
    until, output = (first_step + steps) * float(scheme.dt), made.output
    check_places(section, made, model)
    made.experiment()
    groups = _recorded(section, output, model, until, made.experiment().run.start)
    if groups is not None:
        truth = None
        if section.spin_up:  # with the first guess of all controls
            state = driver_of(model, state, stepper, start=made.experiment().run.start).run(steps=first_step)
    else:
        truth, state = _twin(section, made, process, model, state, stepper)
        groups = _of_twin(section, output, truth, stepper, steps)
    return Observed(groups, truth, state, _withheld(section, groups))


def _withheld(section, groups):
    """The labels of the records that are only compared, by the section or the file of a group."""
    named = () if isinstance(section.withhold, bool) else section.withhold
    names = ((label, group.names[label], group.unused) for group in groups for label in group.records)
    return tuple(label for label, name, unused in names if name in named or name in unused)


def placed(
    section: Inversion,
    output: Output,
    start: datetime.datetime | None,
    model: ShallowWater | Family,
    dt: float,
    until: float,
) -> tuple[tuple[Group, ...], bool]:
    """(a Group for each table, whether they are of a twin).

    The model is not run: the values of a twin are zero.
    """
    groups = _recorded(section, output, model, until, start)
    return (groups, False) if groups is not None else (_without_values(section, output, model, dt, until), True)


# -- observations of files ---------------------------------------------------------------------------------------------


def _recorded(section, output, model, until, start):
    """The groups that files hold; None for a twin."""
    tables = [(table, table.source(output)) for table in section.observations]
    if any(source is None for _, source in tables):
        return None
    groups = []
    for table, source in tables:
        records, unused = table.from_files(output, model, until, start)
        names = ", ".join(map(str, source)) if isinstance(source, tuple) else str(source)
        groups.append(Group(table, records, names, tuple(unused)))
    return _with_own_labels(groups)


# -- observations of a twin --------------------------------------------------------------------------------------------


def _twin(section, made, process, model, state, stepper):
    """(Truth, the State to start the inversion from), each after a spin-up of its own."""
    other, twin = made.attempt(("inversion", "twin", "truth"), truth_of, section, made, process.tiles), section.twin
    made.experiment()
    experiment = other.experiment()
    where = process.communicator, experiment.run.layout, experiment.run.engine
    if other.nests:
        true_model, truth, _ = family_of(other, *where)
    else:
        true_model = model_of(other, *where)
        truth = experiment.initial.state(true_model)
    if twin.spin_up:
        state = driver_of(model, state, stepper).run(until=twin.spin_up)
        truth = driver_of(true_model, truth, stepper).run(until=twin.spin_up)
    return Truth(true_model, truth), state


def truth_of(section: Inversion, made: Assembly, ranks: int = 1, **options: Any) -> Assembly:
    """The Assembly of the experiment with the twin's truth; raises ConfigError with every mistake of it."""
    draft, truth = made.draft, {} if section.twin is None else section.twin.truth
    overrides = [Override(f"[inversion.twin.truth] {key}", path_of(key), value) for key, value in truth.items()]
    other = read_text(draft.text, draft.file, draft.folder, [*draft.overrides, *overrides], draft.own_parts)
    other = assemble_family(other, ranks, **options)
    other.experiment()
    return other


def _of_twin(section, output, truth, stepper, steps):
    """The groups with the truth's values and random errors."""
    noise, dt, made = np.random.default_rng(section.twin.seed), float(stepper.dt), []
    empty = _without_values(section, output, truth.model, dt, steps * dt)
    observed = truth.observe(_records_of(empty), misfit_to(empty, None), stepper, steps)
    for group in empty:
        records = {label: observed[label] for label in group.records}
        if isinstance(group.table, SeriesTable):
            records = group.table.weighed(records)
        records = {label: with_noise(record, noise) for label, record in records.items()}
        made.append(dataclasses.replace(group, records=records))
    return tuple(made)


def _without_values(section, output, model, dt, until):
    """The groups of a twin, whose values are zero."""
    source = f"a twin (seed {section.twin.seed})"
    tables = section.observations
    return _with_own_labels([Group(table, table.without_values(output, model, dt, until), source) for table in tables])
