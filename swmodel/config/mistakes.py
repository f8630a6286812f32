"""Mistakes of an experiment file: each has a key path, a line and one sentence."""

import dataclasses
import difflib
import os
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from .sections import PLAIN
from .toml import line_of

__all__ = ["Mistake", "as_written", "from_pydantic", "nearest"]


@dataclasses.dataclass(frozen=True)
class Mistake:
    """A mistake of the key at `path` (names, and indices in arrays), described by `text`."""

    path: tuple[str | int, ...]
    text: str

    def sentence(
        self, file: str | os.PathLike, lines: Mapping[tuple[str | int, ...], int], overrides: Sequence[Any] = ()
    ) -> str:
        """The mistake in a sentence, with the file and line, or the command-line option, that has the key."""
        key = dotted(self.path)
        for override in overrides:
            if self.path[: len(override.path)] == override.path:
                return f"{override.option}: {key + ': ' if key != dotted(override.path) else ''}{self.text}"
        line = line_of(lines, self.path)
        return f"{file}{f':{line}' if line else ''}: {key + ': ' if key else ''}{self.text}"


def dotted(path: Sequence[str | int]) -> str:
    """("forcing", 0, "x") as "forcing[0].x"."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def as_written(path: Sequence[str | int], raw: Any) -> tuple[str | int, ...]:
    """`path` without the index of a list for which the tables `raw` of a file have a single table."""
    found: list[str | int] = []
    value: Any = raw
    for part in path:
        if isinstance(part, int) and isinstance(value, dict):
            continue
        found.append(part)
        try:
            value = value[part]
        except (LookupError, TypeError):
            value = None
    return tuple(found)


def nearest(name: object, known: Iterable[object]) -> str:
    """A hint for an unknown name: "did you mean ...?", or the known names."""
    known, name = [str(k) for k in known], str(name).lower()
    spelled = {k.lower(): k for k in known}
    holding = [k for k in spelled if len(name) > 2 and name in k]
    near = holding if len(holding) == 1 else difflib.get_close_matches(name, spelled, 1, cutoff=0.55)
    return f"did you mean {spelled[near[0]]!r}?" if near else f"known are {', '.join(sorted(known))}"


def from_pydantic(errors: Iterable[Any], root: type[BaseModel]) -> list[Mistake]:
    """The Mistakes that pydantic's `errors()` describe for the model `root`.

    A value of a union without tags, as of a number or a table, has errors for each alternative. Only those of the
    alternative that has its kind are kept if there are some, and of several on the same key the first. A list does not
    lack the entries that have mistakes.
    """
    errors = list(errors)
    wrong = [error["loc"] for error in errors]
    errors = [
        error
        for error in errors
        if error["type"] != "too_short" or not any(loc[:-1][: len(error["loc"])] == error["loc"] for loc in wrong)
    ]
    located = [(error, *_follow(root, error["loc"])) for error in errors]
    located.sort(key=lambda one: _is_of_another_kind(one[0], one[2]))
    found: list[Mistake] = []
    for error, path, labels, holder, annotation in located:
        if not labels or not any(mistake.path[: len(path)] == path for mistake in found):
            found.append(_mistake(error, root, path, holder, annotation))
    return found


def _is_of_another_kind(error, labels):
    """Whether an alternative was tried for a value that is meant for another: a table for a number, or vice versa."""
    if not labels or error["loc"][-1] != labels[-1]:
        return False
    return isinstance(error.get("input"), dict) != labels[-1].startswith("dict[")


def _mistake(error, root, path, holder, annotation):
    kind, came, context = error["type"], error.get("input"), error.get("ctx", {})
    if kind == "extra_forbidden":
        return Mistake(path, f"unknown key; {_known_elsewhere(path, holder, root)}")
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return _tag_mistake(path, kind, context, annotation)
    if kind == "missing" and isinstance(path[-1], int):
        return Mistake(path[:-1], "too few values")
    if kind == "literal_error":
        choices = [choice.strip("' ") for choice in context["expected"].replace(" or ", ",").split(",")]
        return Mistake(path, f"{came!r} is unknown; {nearest(came, choices)}")
    if kind == "missing":
        return Mistake(path[:-1], f"{path[-1]} is missing")
    return Mistake(path, _SENTENCES.get(kind, lambda c, i, m: m)(context, came, error["msg"]))


_SENTENCES = {
    "value_error": lambda c, i, m: str(c["error"]),
    "int_type": lambda c, i, m: f"expected a whole number, got {i!r}",
    "int_from_float": lambda c, i, m: f"expected a whole number, got {i!r}",
    "float_type": lambda c, i, m: f"expected a number, got {i!r}",
    "float_parsing": lambda c, i, m: f"expected a number, got {i!r}",
    "bool_type": lambda c, i, m: f"expected true or false, got {i!r}",
    "string_type": lambda c, i, m: f"expected text in quotes, got {i!r}",
    "tuple_type": lambda c, i, m: _expected_array(i),
    "model_type": lambda c, i, m: f"expected a table, got {i!r}",
    "model_attributes_type": lambda c, i, m: f"expected a table, got {i!r}",
    "dict_type": lambda c, i, m: f"expected a table, got {i!r}",
    "too_long": lambda c, i, m: f"too many values: expected {c['max_length']}, got {c['actual_length']}",
    "too_short": lambda c, i, m: f"too few values: expected at least {c['min_length']}, got {c['actual_length']}",
    "greater_than": lambda c, i, m: f"must be greater than {c['gt']:g}, got {i!r}",
    "greater_than_equal": lambda c, i, m: f"must be at least {c['ge']:g}, got {i!r}",
    "less_than": lambda c, i, m: f"must be less than {c['lt']:g}, got {i!r}",
    "less_than_equal": lambda c, i, m: f"must be at most {c['le']:g}, got {i!r}",
}


def _expected_array(came):
    if isinstance(came, dict):
        return "write it with double brackets, [[...]]: there may be several of them"
    return f"expected an array, as in [1, 2], got {came!r}"


def _tag_mistake(path, kind, context, union):
    known = [tag for model in _members(union) if (tag := _tag(model))]
    if kind == "union_tag_not_found":
        return Mistake(path, f"type is missing; give one of {', '.join(known)}")
    return Mistake((*path, "type"), f"{context['tag']!r} is unknown; {nearest(context['tag'], known)}")


def _known_elsewhere(path, model, root):
    """A hint for an unknown key: the nearest name of the section, or else the section or type that has this key."""
    (model, *_) = _members(model)  # the section of "Section | None"
    name, known = path[-1], list(model.model_fields)
    if not difflib.get_close_matches(str(name), known, 1, cutoff=0.55):
        siblings = [m for m in _section_models(root, path[0]) if m is not model and name in m.model_fields and _tag(m)]
        if siblings:
            return f"it belongs to type {' or '.join(repr(_tag(m)) for m in siblings)}, not {_tag(model)!r}"
        for section in root.model_fields:
            if any(name in m.model_fields for m in _section_models(root, section)):
                return f"it belongs to [{section}]"
    return nearest(name, known)


def _section_models(root, section):
    if section not in root.model_fields:
        return []
    members = _members(root.model_fields[section].annotation)
    elements = [
        m for member in members for m in (_members(get_args(member)[0]) if get_origin(member) is tuple else [member])
    ]
    return [model for model in elements if hasattr(model, "model_fields")]


def _follow(annotation, location):
    """Where a location of pydantic lies: (path, labels, holder, annotation).

    The path is the location without the tags and labels that pydantic adds for unions; the labels are those of
    alternatives without tags. The holder is the type that has its last key, the annotation the type of the key.
    """
    path, labels, holder = [], [], annotation
    for part in location:
        members = _members(annotation)
        tagged = [member for member in members if len(members) > 1 and _tag(member) == part]
        if tagged:
            annotation = tagged[0]
        elif part == PLAIN and any(getattr(member, "tag", None) for member in members):
            continue
        elif _is_label(part, members):
            labels.append(part)
            annotation = next((m for m in members if (get_origin(m) is dict) == part.startswith("dict[")), None)
        else:
            path.append(part)
            holder, annotation = annotation, _inside(members, part)
    return tuple(path), labels, holder, annotation


def _is_label(part, members):
    """Whether a part of a location names an alternative of a union without tags."""
    return isinstance(part, str) and len(members) > 1 and not any(_tag(member) for member in members)


def _inside(members, part):
    for member in members:
        if isinstance(member, type) and issubclass(member, BaseModel) and part in member.model_fields:
            return member.model_fields[part].annotation
        if get_origin(member) is tuple and isinstance(part, int):
            return get_args(member)[0]
        if get_origin(member) is dict:
            return get_args(member)[1]
    return None


def _members(annotation):
    """The alternatives of a union (None left out), or the annotation itself."""
    if get_origin(annotation) is Annotated:
        return _members(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return [member for part in get_args(annotation) if part is not types.NoneType for member in _members(part)]
    return [annotation]


def _tag(model):
    if hasattr(model, "tag"):
        return model.tag
    field = getattr(model, "model_fields", {}).get("type")
    return get_args(field.annotation)[0] if field is not None and get_origin(field.annotation) is Literal else None
