"""Reads the tables of an experiment file into sections, by their annotations and the rules of fields/parameters.py.

    class Run(Section):
        until: PositiveSeconds  # model time at the end
        title: str = ""  # of the run, in its files

A key is required unless its class gives it a value. Its annotation is a type of Python, a section, a union, or

    Annotated[float, Number(units="s", above=0.0)]       a rule, as parts of a model declare them
    Annotated[tuple[str, ...], Read(function), check]    `function(value, reading)` in place of the type
    Annotated[tuple[str, ...], check]                    `check(value)` returns the value, or another one in its place
    Annotated[Any, OneOf(sections)]                      the section that the key `type` names

Functions raise ValueError for a value that they refuse. All mistakes of a file are collected, each with its key path.
"""

import dataclasses
import difflib
import functools
import importlib
import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NoReturn, Union, dataclass_transform, get_args, get_origin

from ..errors import ConfigError, nearest
from ..fields import parameters as rules
from .own import class_named, is_own
from .toml import Mistake, dotted

REQUIRED = object()  # the default of a key that must be given


@dataclasses.dataclass(frozen=True)
class Key:
    """A key of a section: what it may be, and its default, or REQUIRED.

    What takes long to make is made when a file has it: a section of the module that `homes` names for the text that is
    declared, "Adjoint | None", or one that a partial function returns.
    """

    declared: Any
    default: Any = REQUIRED
    homes: Mapping[str, str] | None = None

    @functools.cached_property
    def annotation(self) -> Any:
        if isinstance(self.declared, functools.partial):
            return self.declared() | None
        if not isinstance(self.declared, str) or self.homes is None:
            return self.declared
        name = self.declared.removesuffix(" | None")
        found = getattr(importlib.import_module(self.homes[name]), name)
        return found if name == self.declared else found | None

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Section:
    """A table of an experiment file.

    Attributes:
        takes_others: whether unknown keys are no mistakes; they are in `others`.
        written: the names of the keys that the file has.
    """

    homes: ClassVar[Mapping[str, str] | None] = None  # see Key
    takes_others: ClassVar[bool] = False
    marked_by: ClassVar[tuple[str, ...]] = ()  # keys of which a table has one, where there are several without a type

    def __init__(self, **values: Any):
        keys = self.schema()
        missing = [name for name, key in keys.items() if key.is_required and name not in values]
        if missing:
            raise TypeError(f"{type(self).__name__}: {missing[0]} is missing")
        self.written = frozenset(values)
        self.others = {name: value for name, value in values.items() if name not in keys}
        vars(self).update({name: values.get(name, key.default) for name, key in keys.items()})

    @classmethod
    @functools.cache
    def schema(cls) -> dict[str, Key]:
        """{name: Key}, those of base classes last."""
        found: dict[str, Key] = {}
        for base in cls.__mro__:
            for name, annotation in inspect.get_annotations(base).items() if issubclass(base, Section) else ():
                if get_origin(annotation) is not ClassVar and annotation is not ClassVar:
                    found.setdefault(name, Key(annotation, vars(base).get(name, REQUIRED), base.homes))
        return found

    @classmethod
    def read(cls, table: Any, folder: Path | str = ".") -> Any:
        """The section that a table describes; raises ConfigError with every mistake."""
        reading = Reading(Path(folder))
        section = reading.attempt(cls, table, ())
        if reading.mistakes:
            raise ConfigError([f"{dotted(m.path)}: {m.text}" if m.path else m.text for m in reading.mistakes])
        return section

    @classmethod
    def fits(cls, table: Mapping[str, Any]) -> bool:
        """Whether a table is to be read as this section, where there are several without a type."""
        return not cls.marked_by or not table.keys().isdisjoint(cls.marked_by)

    def check(self) -> None:
        """Raise ValueError for keys that do not fit together."""

    def mistakes_with(self, sections: Mapping[str, Any]) -> Iterator[Mistake]:
        """Mistakes in its relations to other sections, {name: section} of those that have none of their own."""
        yield from ()

    def replaced(self, **changes: Any) -> Any:
        """The same section with other values, which are not checked."""
        return type(self)(**{name: getattr(self, name) for name in self.written} | changes)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return ((name, getattr(self, name)) for name in self.schema())

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self)})"


@dataclasses.dataclass(frozen=True)
class Read:
    """Reads a value by `read(value, reading)` in place of its type; `words` describe what it accepts."""

    read: Callable[[Any, "Reading"], Any]
    words: str = ""


@dataclasses.dataclass(frozen=True)
class Before:
    """Applies `function(value)` before a value is read."""

    function: Callable[[Any], Any]


@dataclasses.dataclass(frozen=True, eq=False)
class OneOf:
    """The section that the key `type` names.

    Attributes:
        sections: {type: section} of this package.
        bases: the classes from which a part of the user derives; none if there are none.
        make: makes the section of such a class from it and the name in the file.
    """

    sections: Mapping[str, type[Section]]
    bases: tuple[type, ...] = ()
    make: Callable[[type, str], type[Section]] | None = None

    def section_of(self, name: str, reading: "Reading") -> type[Section]:
        """The section of a type; raises ValueError if there is none."""
        if name in self.sections:
            return self.sections[name]
        if self.make is None or not is_own(name):
            if not self.sections:
                raise ValueError(f'{name!r} is no class of one\'s own; give its file and name, "relaxation:Relaxation"')
            raise ValueError(f"{name!r} is unknown; {nearest(name, self.sections)}")
        return self.make(class_named(name, reading.folder, reading.own_parts, self.bases), name)


def one_of(*sections: type[Section], bases: tuple[type, ...] = (), make: Any = None) -> OneOf:
    """The OneOf of sections, each of which has its name in the annotation of its key `type`."""
    return OneOf({get_args(each.schema()["type"].annotation)[0]: each for each in sections}, bases, make)


class _Refused(Exception):
    """A value was refused, and its mistakes are recorded."""


class Reading:
    """The reading of a file.

    Attributes:
        folder: the folder to which paths are relative.
        own_parts: whether classes of the user may be imported.
        root: the section that has all others, for hints.
        mistakes: those that have been found.
    """

    def __init__(self, folder: Path, own_parts: bool = False, root: type[Section] | None = None):
        self.folder, self.own_parts, self.root = folder, own_parts, root
        self.mistakes: list[Mistake] = []

    def refuse(self, path: tuple, text: str) -> NoReturn:
        """Record a mistake, and give the value up."""
        self.mistakes.append(Mistake(path, text))
        raise _Refused

    def attempt(self, annotation: Any, value: Any, path: tuple) -> Any:
        """The value that is read, or REQUIRED if it has mistakes, which are recorded."""
        try:
            return self.read(annotation, value, path)
        except _Refused:
            return REQUIRED

    def read(self, annotation: Any, value: Any, path: tuple) -> Any:
        """The value of an annotation at a path of the file."""
        origin, inner = get_origin(annotation), get_args(annotation)
        try:
            if origin is Annotated:
                return self._annotated(inner[0], annotation.__metadata__, value, path)
            if origin in (Union, types.UnionType):
                return self._one_of(alternatives(annotation), value, path)
            if origin is tuple:
                return self._tuple(inner, value, path)
            if origin is dict:
                return self._dict(inner[1], value, path)
            if origin is Literal:
                return rules.Choice(inner).read(value)
            if _is_section(annotation):
                return self._section(annotation, value, path)
            return _PLAIN[annotation].read(value) if annotation in _PLAIN else value
        except ValueError as error:
            self.refuse(path, str(error))

    def _annotated(self, plain, metadata, value, path):
        for each in metadata:
            value = each.function(value) if isinstance(each, Before) else value
        first = next((x for x in metadata if isinstance(x, OneOf) or hasattr(x, "read")), plain)
        if isinstance(first, OneOf):
            value = self._typed(first, value, path)
        elif first is plain or _is_section(first):
            value = self.read(first, value, path)
        else:
            value = first.read(value, self)
        for each in metadata:
            if isinstance(each, rules.Rule) and each is not first:
                each.check("", "", value)
            value = each(value) if inspect.isroutine(each) else value
        return value

    def _one_of(self, members, value, path):
        """The first of several alternatives that accepts a value; else the mistakes of the first that may be meant."""
        sections = [member for member in members if _is_section(member)]
        if isinstance(value, Section):
            return value
        if isinstance(value, dict):
            tables = [m for m in members if get_origin(m) is dict]
            members = tables or [m for m in sections if m.fits(value)] or sections or members
        else:
            members = [m for m in members if m not in sections and get_origin(m) is not dict] or members
        first = None
        for member in members:
            trial = Reading(self.folder, self.own_parts, self.root)
            read = trial.attempt(member, value, path)
            if read is not REQUIRED:
                self.mistakes += trial.mistakes
                return read
            first = first or trial.mistakes
        self.mistakes += first or []
        raise _Refused

    def _tuple(self, inner, value, path):
        if isinstance(value, dict):
            raise ValueError("write it with double brackets, [[...]]: there may be several of them")
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"expected an array, as in [1, 2], got {value!r}")
        kinds = (inner[0],) * len(value) if inner[-1] is Ellipsis else inner
        if len(value) > len(kinds):
            raise ValueError(f"too many values: expected {len(kinds)}, got {len(value)}")
        found = [self.attempt(kind, each, (*path, k)) for k, (kind, each) in enumerate(zip(kinds, value))]
        if len(value) < len(kinds):
            raise ValueError("too few values")
        if REQUIRED in found:
            raise _Refused
        return tuple(found)

    def _dict(self, kind, value, path):
        _check_table(value)
        found = {name: self.attempt(kind, each, (*path, name)) for name, each in value.items()}
        if REQUIRED in found.values():
            raise _Refused
        return found

    def _typed(self, choice, value, path):
        if isinstance(value, Section):
            return value
        _check_table(value)
        if "type" not in value:
            known = f"give one of {', '.join(choice.sections)}" if choice.sections else "name a class of your own"
            raise ValueError(f"type is missing; {known}")
        try:
            section = choice.section_of(str(value["type"]), self)
        except ValueError as error:
            self.refuse((*path, "type"), str(error))
        return self._section(section, value, path, choice.sections)

    def _section(self, cls, table, path, others=None):
        if isinstance(table, cls):
            return table
        _check_table(table)
        keys, values = cls.schema(), {}
        for name in table:
            if name not in keys and not cls.takes_others:
                self.mistakes.append(
                    Mistake((*path, name), f"unknown key; {self._elsewhere(name, cls, others or {}, table)}")
                )
        for name, value in table.items():
            if name in keys or cls.takes_others:
                values[name] = self.attempt(keys[name].annotation if name in keys else Any, value, (*path, name))
        missing = [name for name, key in keys.items() if key.is_required and name not in table]
        self.mistakes += [Mistake(path, f"{name} is missing") for name in missing]
        if missing or REQUIRED in values.values():
            raise _Refused
        section = cls(**values)
        section.check()
        return section

    def _elsewhere(self, name, cls, others, table):
        """A hint for an unknown key: the nearest name of the section, or else the section or type that has this key."""
        keys = cls.schema()
        if not difflib.get_close_matches(str(name), keys, 1, cutoff=0.55):
            if kinds := [repr(kind) for kind, each in others.items() if each is not cls and name in each.schema()]:
                return f"it belongs to type {' or '.join(kinds)}, not {table['type']!r}"
            for section, key in self.root.schema().items() if self.root is not None else ():
                if any(name in each.schema() for each in sections_in(key.annotation)):
                    return f"it belongs to [{section}]"
        return nearest(name, keys)


def _is_section(kind):
    return isinstance(kind, type) and issubclass(kind, Section)


def alternatives(annotation: Any) -> list[Any]:
    """The alternatives of a union, None left out, or the annotation itself."""
    if get_origin(annotation) in (Union, types.UnionType):
        return [each for inner in get_args(annotation) if inner is not types.NoneType for each in alternatives(inner)]
    return [annotation]


def leaves(value: Any, path: tuple = ()) -> Iterator[tuple[tuple, Any]]:
    """(path of keys, value) of all values in sections, tables and lists."""
    if isinstance(value, (Section, dict)):
        entries: Any = value.items() if isinstance(value, dict) else value
    elif isinstance(value, (list, tuple)):
        entries = enumerate(value)
    else:
        yield path, value
        return
    for key, inner in entries:
        yield from leaves(inner, (*path, key))


def sections_in(annotation: Any) -> list[type[Section]]:
    """The classes of sections in an annotation."""
    if _is_section(annotation):
        return [annotation]
    if isinstance(annotation, OneOf):
        return list(annotation.sections.values())
    return [section for each in get_args(annotation) for section in sections_in(each)]


def _check_table(value):
    if not isinstance(value, dict):
        raise ValueError(f"expected a table, got {value!r}")


_PLAIN: dict[Any, Any] = {
    int: rules.Number(whole=True),
    bool: rules.Flag(),
    str: rules.Text(),
    float: rules.Number(),
}
