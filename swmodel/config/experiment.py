"""Reading of experiment files: TOML, overrides from the command line, and validation section by section."""

import dataclasses
import datetime
import os
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..errors import ConfigError, DataError, SwmodelError, nearest
from ..models.display import LARGEST as LARGEST_MAP
from ..models.display import as_html, as_text, map_of_floor
from ..runtime.paths import expanded, found, refusal
from . import physics
from .consistency import mistakes_between
from .expressions import Expression
from .reading import REQUIRED, Reading, Section
from .scenario import Bathymetry, Grid, Output, Run
from .toml import Mistake, as_written, dump, key_lines, line_of, path_of

if TYPE_CHECKING:
    from .adjoint import Adjoint
    from .initial import Initial, Tracers
    from .inversion import Green, Inversion
    from .nests import Ensemble, Nests
    from .source import Source

DEEPEST = 12  # levels of tables and arrays inside one another; an experiment has 4
LARGEST = 2**63
TOO_DEEP = f"tables and arrays are nested more than {DEEPEST} deep, and an experiment needs 4 levels; write it flatter"
NOT_A_NUMBER = "a number or a date here cannot be read: it has too many digits, or is in no calendar; correct it"


_USUAL: Any = physics.STEPPERS["forward_backward"]


class Experiment(Section):
    """An experiment, section by section."""

    homes: ClassVar = {  # of sections whose modules take long to import
        "Initial": "swmodel.config.initial",
        "Tracers": "swmodel.config.initial",
        "Nests": "swmodel.config.nests",
        "Ensemble": "swmodel.config.nests",
        "Adjoint": "swmodel.config.adjoint",
        "Inversion": "swmodel.config.inversion",
        "Green": "swmodel.config.inversion",
        "Source": "swmodel.config.source",
    }
    grid: Grid
    bathymetry: Bathymetry
    run: Run
    stepper: physics.Stepper = _USUAL(type="forward_backward")  # _usual_stepper has that of other models
    model: physics.Model = physics.Model()
    layers: physics.Layers | None = None
    coriolis: physics.Coriolis = physics.NoRotation(type="none")
    initial: "Initial" = physics.Rest(type="rest")
    forcing: tuple[physics.Forcing, ...] = ()
    dissipation: tuple[physics.Dissipation, ...] = ()
    boundary: tuple[physics.Boundary, ...] = ()
    tracer: "Tracers" = ()
    source: "Source | None" = None
    nest: "Nests" = ()
    output: Output = Output()
    ensemble: "Ensemble | None" = None
    adjoint: "Adjoint | None" = None
    inversion: "Inversion | None" = None
    green: "Green | None" = None

    def __repr__(self) -> str:
        return as_text("Experiment", self._rows())

    def _repr_html_(self) -> str:
        return as_html("Experiment", self._rows(), self._map(), "depth")

    def _map(self) -> str:
        """A PNG of the depth as a data URI; "" if the grid is too large, or its files are missing."""
        if self.grid.nx * self.grid.ny > LARGEST_MAP:
            return ""
        try:
            sea = self.bathymetry.on(self.grid.build())
            depth, wet = np.asarray(sea.depth), np.asarray(sea.wet)
        except (SwmodelError, OSError, ValueError):
            return ""
        return map_of_floor(depth, wet)

    def _rows(self) -> list[tuple[str, str]]:
        """(section, its keys and values in TOML) of the sections that were given."""
        sections: Any = ((name, _plain(section)) for name, section in self if section is not None)
        return [
            (name, "\n\n".join(dump(each).strip() for each in (section if isinstance(section, list) else [section])))
            for name, section in sections
            if section
        ]


def _plain(value):
    """A value in types that TOML has: of a section the keys that a file has, of a formula its text."""
    if isinstance(value, Section):
        value = {name: one for name, one in value if name in value.written and one is not None} | value.others
    if isinstance(value, Expression):
        return value.text
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value if isinstance(value, (bool, int, float, str, datetime.datetime)) else str(value)


@dataclasses.dataclass(frozen=True)
class Override:
    """A new `value` of the key at `path`; `option` is its text on the command line, as "--set stepper.dt=300"."""

    option: str
    path: tuple[str | int, ...]
    value: object


@dataclasses.dataclass(frozen=True)
class Draft:
    """The valid sections of an experiment file, and its mistakes.

    Attributes:
        file: the path of the file as the user wrote it.
        folder: the folder to which paths in the file are relative.
        raw: the tables of the file, with overrides.
        sections: {name: valid section}, with defaults.
        mistakes: every Mistake found so far.
        lines: {key path: line}.
        overrides: the changes from the command line.
        text: the text of the file.
        own_parts: whether classes of the user may be imported.
    """

    file: Path
    folder: Path
    raw: dict[str, Any]
    sections: dict[str, Any]
    mistakes: tuple[Mistake, ...]
    lines: dict[tuple[str | int, ...], int]
    overrides: tuple[Override, ...]
    text: str
    own_parts: bool = True

    @property
    def effective_text(self) -> str:
        """TOML of the same experiment that needs no overrides; the text of the file if there are none."""
        return dump(self.raw) if self.overrides else self.text

    def sentences(self, more: Sequence[Mistake] = ()) -> list[str]:
        """All mistakes, including `more`, as sentences with file and line, in the order of the file."""
        found = [dataclasses.replace(m, path=as_written(m.path, self.raw)) for m in (*self.mistakes, *more)]
        found.sort(key=lambda mistake: line_of(self.lines, mistake.path) or 0)
        return list(dict.fromkeys(m.sentence(self.file, self.lines, self.overrides) for m in found))

    def experiment(self, more: Sequence[Mistake] = ()) -> Experiment:
        """The Experiment; raises ConfigError with every mistake if there are any."""
        if self.mistakes or more:
            raise ConfigError(self.sentences(more))
        return Experiment(**self.sections)


def load(file: str | os.PathLike, overrides: Sequence[str | Override] = ()) -> Experiment:
    """The validated Experiment in a TOML file; arguments as for `read`. Raises ConfigError with every mistake."""
    return read(file, overrides).experiment()


def read(file: str | os.PathLike, overrides: Sequence[str | Override] = ()) -> Draft:
    """Read and validate a TOML file as far as possible.

    Args:
        file: the path of the file; files that it names are relative to its folder.
        overrides: Overrides, or texts like "stepper.dt=300" with the value in TOML, where quotes may be left out.

    Raises:
        DataError: if there is no such file.
        ConfigError: if it is not TOML, or an override is not KEY=VALUE with a key that can exist.
    """
    file = expanded(file)
    return read_text(_text(file), file, file.resolve().parent, overrides)


def read_text(
    text: str,
    file: str | os.PathLike,
    folder: str | os.PathLike,
    overrides: Sequence[str | Override] = (),
    own_parts: bool = True,
) -> Draft:
    """The Draft of an experiment file's text.

    Args:
        text: TOML.
        file: the name of the file in messages.
        folder: the folder to which paths in the text are relative.
        overrides: as for `read`.
        own_parts: whether classes of the user, from files in `folder` or installed, may be imported.

    Raises:
        ConfigError: as `read` does.
    """
    file, raw = Path(file), _parse(text, file)
    overrides = tuple(o if isinstance(o, Override) else _override(o) for o in overrides)
    refused = [f"{o.option}: {why}" for o in overrides if (why := _apply(raw, o))]
    if refused:
        raise ConfigError(refused)
    if too_much := list(_too_much(raw)):
        raise ConfigError([mistake.sentence(file, _lines(text), overrides) for mistake in too_much])
    sections, mistakes = _validate(raw, Path(folder), own_parts)
    draft = Draft(file, Path(folder), raw, sections, tuple(mistakes), key_lines(text), overrides, text, own_parts)
    return dataclasses.replace(draft, mistakes=(*mistakes, *_members(draft)[1]))


def member_drafts(draft: Draft) -> list[Draft]:
    """The Draft of each member of an ensemble, in order."""
    return _members(draft)[0]


def _members(draft):
    """(a Draft for each member, the mistakes of members that the file without its ensemble does not have)."""
    section = draft.sections.get("ensemble")
    if section is None:
        return [], []
    from .nests import member_raws, mistakes_of_members

    raws, mistakes = member_raws(section, draft.raw, lambda raw, path, value: _apply(raw, Override("", path, value)))
    checked = [_validate(raw, draft.folder, draft.own_parts) for raw in raws]
    drafts = [
        dataclasses.replace(draft, raw=raw, sections=sections, mistakes=()) for raw, (sections, _) in zip(raws, checked)
    ]
    return drafts, mistakes + mistakes_of_members(section, [found for _, found in checked], draft.mistakes)


def _text(file):
    if found(file, "folder"):
        inside = sorted(file.glob("*.toml"))
        hint = f"name the file, {inside[0]}" if inside else "it holds no .toml file"
        raise DataError(f"{file} is a folder; {hint}.")
    try:
        return file.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(
            f"there is no experiment file {file.resolve()}; `swmodel new` lists experiments to start from."
        ) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise DataError(f"{file}:{line}: this is not text in UTF-8; save the file in that encoding.") from None
    except OSError as error:
        raise DataError(refusal(file, error)) from error


def _parse(text, file):
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        what, _, place = str(error).partition(" (at ")
        line = place.partition("line ")[2].partition(",")[0]
        line = line if line.isdigit() else text.count("\n") + 1
        raise ConfigError(f"{file}:{line}: not valid TOML: {what[:1].lower() + what[1:]}") from None
    except RecursionError:
        lines = text.split("\n")
        line = 1 + max(range(len(lines)), key=lambda k: lines[k].count("[") + lines[k].count("{"))
        raise ConfigError(f"{file}:{line}: {TOO_DEEP}") from None
    except ValueError:  # integers of thousands of digits, and dates outside the calendar
        raise ConfigError(f"{file}:{_line_of_bad_number(text)}: {NOT_A_NUMBER}") from None


def _lines(text):
    try:
        return key_lines(text)
    except RecursionError:
        return {}


def _line_of_bad_number(text):
    """The line of the longest row of digits in `text`."""
    rows = list(re.finditer(r"[\d_]+", text))
    longest = max(rows, key=lambda match: len(match[0]), default=None)
    return 1 + text.count("\n", 0, longest.start() if longest else 0)


def _too_much(raw):
    """Mistakes of tables that are nested too deep and of whole numbers that are too large, wherever they are."""
    held = [((), raw)]
    while held:
        path, value = held.pop()
        if len(path) > DEEPEST:
            yield Mistake(path[:3], TOO_DEEP)
        elif isinstance(value, dict):
            held += [((*path, name), inner) for name, inner in value.items()]
        elif isinstance(value, list):
            held += [((*path, index), inner) for index, inner in enumerate(value)]
        elif isinstance(value, int) and not -LARGEST <= value < LARGEST:
            yield Mistake(path, f"this whole number has too many digits; numbers go up to {LARGEST - 1}")


def _override(text):
    key, equals, value = text.partition("=")
    path = path_of(key.strip())
    if not equals or "" in path:
        raise ConfigError(f"--set {text}: expected KEY=VALUE, as in stepper.dt=300")
    try:
        value = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        value = value.strip()
    except RecursionError:
        raise ConfigError(f"--set {text}: {TOO_DEEP}") from None
    except ValueError:
        raise ConfigError(f"--set {text}: {NOT_A_NUMBER}") from None
    return Override(f"--set {text}", path, value)


def _apply(raw: dict[str, Any], override: Override) -> str | None:
    """Put an override into the raw tables; returns the reason if its path leads nowhere, else None."""
    table: Any = raw
    for depth, part in enumerate(override.path):
        last = depth == len(override.path) - 1
        if isinstance(table, list):
            if not isinstance(part, int) or part >= len(table):
                return f"{'.'.join(map(str, override.path[:depth]))} has entries 0 to {len(table) - 1}"
        elif isinstance(table, dict):
            part = str(part)
            table.setdefault(part, {})
        else:
            return f"{'.'.join(map(str, override.path[:depth]))} is a value, not a table"
        holder: Any = table
        if last:
            holder[part] = override.value
        table = holder[part]
    return None


def _usual_stepper(raw):
    """The table of the scheme for the model of a file and those of its nests, where the file names none."""
    nests = raw.get("nest") if isinstance(raw.get("nest"), list) else []
    tables = [raw.get("model"), *(each.get("model") for each in nests if isinstance(each, dict))]
    models = [table for table in tables if isinstance(table, dict)]
    if any(table.get("core", "finite_differences") != "finite_differences" for table in models):
        return {"type": "rk4"}  # other cores compute their tendencies as a whole
    shores = any("wetting" in table or table.get("momentum") == "momentum_conserving" for table in models)
    return {"type": "forward_backward_hancock" if shores else "forward_backward"}


def _validate(raw, folder, own_parts):
    """(valid sections, mistakes). Each section is read by itself: a mistake does not hide those in others."""
    reading, sections = Reading(folder, own_parts, Experiment), {}
    if isinstance(stepper := raw.get("stepper", {}), dict):
        raw = raw | {"stepper": _usual_stepper(raw) | stepper}
    for name in raw:
        if name not in Experiment.schema():
            reading.mistakes.append(Mistake((name,), f"unknown section; {nearest(name, Experiment.schema())}"))
    for name, key in Experiment.schema().items():
        section = reading.attempt(key.annotation, raw[name], (name,)) if name in raw else key.default
        if section is not REQUIRED:
            sections[name] = section
        elif name not in raw:
            reading.mistakes.append(Mistake((), f"the section [{name}] is missing"))
    return sections, reading.mistakes + mistakes_between(sections)
