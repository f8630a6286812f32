"""Groups of observations, one for each table [inversion.observations], and the misfit to all of them."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence
from typing import Any

from ...adjoint.costs.costs import Cost, Misfit
from ...adjoint.costs.harmonics import HarmonicMisfit
from ...adjoint.costs.misfits import Current, SectionRecord, TransportMisfit, VelocityMisfit
from ...adjoint.costs.sums import JointMisfit
from ...errors import ConfigError

__all__ = ["Group", "cost_of", "ends_of", "records_of", "with_own_labels"]

_PLACES = {"gauges": "gauge", "harmonics": "gauge", "tracks": "place", "velocities": "place", "transports": "section"}
_WORDS = dict.fromkeys(_PLACES, "observations at") | {
    "velocities": "components of velocities at",
    "transports": "transports through",
}


@dataclasses.dataclass(frozen=True)
class Group:
    """The observations of one table.

    Attributes:
        table: the section.
        records: {label: Record or HarmonicConstants}, in the order in which the misfit reads them.
        names: {label: name}: the name in the file, which both components of a velocity have.
        source: the file or folder, or the twin, in words.
        unused: names that the file excludes.
    """

    table: Any
    records: dict[str, Any]
    names: dict[str, str]
    source: str
    unused: tuple[str, ...] = ()

    @staticmethod
    def of(table: Any, records: dict[str, Any], source: Any, unused: Sequence[str] = ()) -> Group:
        """A Group of records that are labelled by their names, or of velocities, by "NAME (u)" and "NAME (v)"."""
        names = {label: label for label in records}
        if table.type == "velocities":
            names = {f"{name} ({part})": name for part in "uv" for name in table.positions}
        return Group(table, records, names, str(source), tuple(unused))

    @property
    def kind(self) -> str:
        """The type of the table."""
        return self.table.type

    def summary(self) -> str:
        """The number of observations, their places and their source, in words."""
        count = sum(record.counted()[0].size for record in self.records.values())
        places = len(set(self.names.values()))
        return f"{count:,} {_WORDS[self.kind]} {places:,} {_PLACES[self.kind]}{'s' * (places != 1)}, of {self.source}"

    def cost(self, start: datetime.datetime | None) -> Cost:
        """The misfit to the records."""
        table, records = self.table, self.records
        if self.kind == "harmonics":
            return HarmonicMisfit(records, table.window, start)
        if self.kind == "velocities":
            pairs = {name: [records[f"{name} ({part})"] for part in "uv"] for name in table.positions}
            return VelocityMisfit({name: Current.of(u, v) for name, (u, v) in pairs.items()})
        if self.kind == "transports":
            ends = {name: ends_of(section) for name, section in table.sections.items()}
            return TransportMisfit({name: SectionRecord.of(*ends[name], record) for name, record in records.items()})
        return Misfit(records)


def ends_of(section: Any) -> tuple[tuple[float, float], tuple[float, float]]:
    """((x, y), (x, y)) of the ends of a section."""
    (x0, y0), (x1, y1) = section.start, section.end
    return (float(x0), float(y0)), (float(x1), float(y1))


def records_of(groups: Sequence[Group]) -> dict[str, Any]:
    """{label: Record or HarmonicConstants} of all groups; raises ConfigError where two have the same label."""
    found = {}
    for group in groups:
        for label, record in group.records.items():
            if label in found:
                raise ConfigError(f"two tables of observations have a place {label!r}; give one of them another name.")
            found[label] = record
    return found


def cost_of(groups: Sequence[Group], start: datetime.datetime | None) -> Cost:
    """The misfit to all groups; `start` is the date of the start of the run."""
    costs = [group.cost(start) for group in groups]
    return costs[0] if len(costs) == 1 else JointMisfit(tuple(costs))


def with_own_labels(groups: Sequence[Group]) -> tuple[Group, ...]:
    """The groups, in which all points of tracks have different labels; raises ConfigError as `records_of` does."""
    made, taken = [], 0
    for group in groups:
        if group.kind == "tracks":
            records = {f"point {taken + k}": record for k, record in enumerate(group.records.values())}
            group, taken = Group.of(group.table, records, group.source), taken + len(records)
        made.append(group)
    records_of(made)
    return tuple(made)
