"""The section [ensemble], and the experiment of each member: the same file with other values at some keys."""

import copy
import dataclasses
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from .expressions import Expression
from .mistakes import Mistake, dotted
from .sections import Count, PositiveMetres, Section, Seed

SHARED = ("grid", "run", "output", "stepper", "ensemble")
VARIABLE = "initial, bathymetry, model, coriolis, forcing, dissipation, boundary or source"


@dataclasses.dataclass(frozen=True)
class Varied:
    """The values of one key for all members.

    Attributes:
        path: the path of the key that varies.
        values: its values, one for each member.
        written: the path within the file at which they are written, for messages.
    """

    path: tuple[str | int, ...]
    values: list[Any]
    written: tuple[str, ...]


class Ensemble(Section):
    """Keys with a value for each member, as "initial.amplitude" = [0.5, 1.0], or members that differ by noise."""

    takes_others = True

    members: Count | None = None  # how many
    perturbation: PositiveMetres | None = None  # standard deviation of the noise in the initial elevation
    radius: PositiveMetres | None = None  # length scale of the noise
    seed: Seed = 0  # of the random numbers

    @property
    def varied(self) -> dict[str, Varied]:
        """{name of the key: Varied}."""
        found = {}
        for path, values, written in _flat(self.others, (), ("ensemble",)):
            found[dotted(path)] = Varied(path, values, written)
        return found

    @property
    def count(self) -> int:
        """The number of members."""
        return self.members or len(next(iter(self.varied.values())).values)

    def check(self) -> None:
        counts = {} if self.members is None else {"members": self.members}
        for name, varied in self.varied.items():
            if not isinstance(varied.values, list) or not varied.values:
                raise ValueError(
                    f"{name} = {varied.values!r} is not a list; give a value for each member, as in [1, 2]"
                )
            counts[name] = len(varied.values)
        if len(set(counts.values())) > 1:
            lengths = ", ".join(f"{count} for {name}" for name, count in counts.items())
            raise ValueError(f"lists of different lengths: {lengths}; give each member one value of every key")
        if not self.varied and self.perturbation is None:
            raise ValueError(
                "its members would all be the same; give lists of values, or a perturbation of the initial elevation"
            )
        if not counts:
            raise ValueError("the number of members is missing; give members, or lists of values")
        if (self.perturbation is None) != (self.radius is None):
            raise ValueError("perturbation and radius belong together; give both, or neither")


def _flat(table, path, written):
    """(path, values, path where they are written) of lists in tables; keys may have dots, with or without quotes."""
    for name, value in table.items():
        parts = name.replace("[", ".").replace("]", "").split(".")
        inner = (*path, *(int(part) if part.isdigit() else part for part in parts))
        if isinstance(value, dict):
            yield from _flat(value, inner, (*written, name))
        else:
            yield inner, value, (*written, name)


def members_option(text: str) -> tuple[tuple[str, str], Any]:
    """(path, value) of the option --members: "initial.amplitude=0.5,1,2", or a number of members.

    Raises:
        ConfigError: if it is neither.
    """
    key, equals, values = (part.strip() for part in text.partition("="))
    if not equals and key.isdigit():
        return ("ensemble", "members"), int(key)
    if not equals or not key or not values:
        raise ConfigError(
            f"--members {text}: expected KEY=VALUE,VALUE,..., as in initial.amplitude=0.5,1,2, or a number of members"
        )
    try:
        return ("ensemble", key), tomllib.loads(f"values = [{values.strip('[]')}]")["values"]
    except tomllib.TOMLDecodeError:
        return ("ensemble", key), [value.strip() for value in values.strip("[]").split(",")]


def member_raws(
    section: Ensemble, raw: Mapping[str, Any], apply: Callable[[dict[str, Any], tuple, Any], str | None]
) -> tuple[list[dict[str, Any]], list[Mistake]]:
    """([tables of each member], mistakes); `apply(tables, path, value)` returns the reason of a failure, or None."""
    base = {name: table for name, table in raw.items() if name != "ensemble"}
    members, mistakes = [copy.deepcopy(base) for _ in range(section.count)], []
    for name, varied in section.varied.items():
        if varied.path[0] in SHARED:
            mistakes.append(
                Mistake(varied.written, f"all members share [{varied.path[0]}]; vary numbers and fields of {VARIABLE}")
            )
            continue
        reasons = [apply(tables, varied.path, value) for tables, value in zip(members, varied.values)]
        mistakes += [Mistake(varied.written, f"{name}: {why}") for why in reasons[:1] if why]
    return members, mistakes


def mistakes_of_members(
    section: Ensemble, found: Sequence[Sequence[Mistake]], of_all: Sequence[Mistake]
) -> list[Mistake]:
    """Mistakes that only members have, as mistakes of the keys in [ensemble].

    Args:
        section: the Ensemble.
        found: the mistakes of each member, a list of lists.
        of_all: those of the file without an ensemble.
    """
    mistakes, known = {}, {(m.path, m.text) for m in of_all}
    for mistake in (m for member in found for m in member if (m.path, m.text) not in known):
        near = [v for v in section.varied.values() if v.path[: len(mistake.path)] == mistake.path[: len(v.path)]]
        written = near[0].written if near else ("ensemble",)
        mistakes.setdefault((written, mistake.text), Mistake(written, mistake.text))
    return list(mistakes.values())


def value_at(sections: Mapping[str, Any], path: Sequence[str | int]) -> Any:
    """The number or text at a path of the valid sections."""
    value: Any = sections
    for part in path:
        holds_parts = isinstance(value, (dict, list, tuple))
        value = value[part] if holds_parts else getattr(value, str(part))
    if isinstance(value, Expression):
        return value.text
    return str(value) if isinstance(value, Path) else value
