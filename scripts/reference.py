"""Write docs/reference/experiment_files.md: every section and key, from the declarations that also check them.

    python scripts/reference.py

The keys of a model's parts follow from `parameter(...)` on their classes. Those of other sections are described by
their types and by the comments on their lines.
"""

import ast
import dataclasses
import functools
import inspect
import re
import sys
import textwrap
import types
import typing
from pathlib import Path

from swmodel.config.experiment import Experiment
from swmodel.config.expressions import Expression
from swmodel.config.parts import ClassNamed
from swmodel.config.reading import REQUIRED, Key, OneOf, Read, Section, sections_in
from swmodel.config.sections import Coordinate, Formula
from swmodel.config.series import tide_section
from swmodel.fields import parameters as rules

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "experiment_files.md"
HEAD = """\
# Reference of experiment files

This page is made by `python scripts/reference.py` from the declarations that check an experiment file.
A quantity is a number in the unit that is named here, or text with another unit of the same dimension, as `"300 km"`.
A formula is text such as `"0.1 * cos(y / (100 * km))"`. [Parts of your own](../guide/own_parts.md) have keys, too.
"""
TIDE = """\
## Tides

Where a key may be a [tide](../guide/tides.md), a table takes the place of the number. Its title is that of the key:
here the elevation outside an open side. Each constituent has a table under its name.
"""
TABLES = {  # what may stand in the place of a number, by the tag of its section
    "tide": " or a [tide](#tides)",
    "map": " or a [map](../guide/coast.md)",
    "polygons": " or [polygons](../guide/files.md)",
    "record": " or [records](../guide/storms.md)",
    "formula": " or a [formula in time](../guide/storms.md#formulas-in-time)",
    "barometer": " or the [inverse barometer](../guide/storms.md)",
    "wave": " or a [wave](../guide/coast.md)",
    "constants": "",
}
LIMITS = {"minimum": "at least", "above": "above", "maximum": "at most", "below": "below"}


def page() -> str:
    """The text of the page."""
    lines = [HEAD]
    for name, field in Experiment.schema().items():
        several = is_list(field.annotation)
        title = f"[[{name}]]" if several else f"[{name}]"
        lines += section_lines(title, field.annotation, "" if field.is_required else "may be left out")
    lines += [TIDE, *section_lines("[boundary.elevation]", tide_section("the unit of the key"))]
    return "\n".join(lines).rstrip() + "\n"


def is_list(annotation: typing.Any) -> bool:
    """Whether a key may be given several times."""
    plain = typing.get_args(annotation)[0] if typing.get_origin(annotation) is typing.Annotated else annotation
    return typing.get_origin(plain) is tuple


def type_of(cls: type[Section]) -> str:
    """The `type` of a class of sections, "" where there is one class alone."""
    field = cls.schema().get("type")
    return "" if field is None else str(typing.get_args(field.annotation)[0])


def section_lines(title: str, annotation: typing.Any, note: str = "") -> list[str]:
    """The lines of a section, of each of its types, and of the sections in it."""
    lines, inner = [f"## `{title}`", ""], []
    if note:
        lines += [f"This section {note}.", ""]
    for cls in sorted(sections_in(annotation), key=type_of):  # not in the order in which modules were imported
        own, nested = class_lines(title, cls)
        lines, inner = lines + own, inner + nested
    return lines + [line for one in inner for line in section_lines(*one)]


def class_lines(title: str, cls: type[Section]) -> tuple[list[str], list]:
    """(lines, [(title, annotation) of sections in it]) of one class of sections."""
    lines, nested, rows = [], [], []
    about = documented(cls)
    for name, field in cls.schema().items():
        if name == "type":
            lines += [f'### `type = "{typing.get_args(field.annotation)[0]}"`', ""]
            continue
        inside = sections_in(field.annotation)
        tables = "".join(TABLES[tag] for tag in dict.fromkeys(one.tag for one in inside if hasattr(one, "tag")))
        inside = [one for one in inside if not hasattr(one, "tag")]
        if title == "[[nest]]" and (same := like_section(name, inside)):
            rows.append(
                f"| `{name}` | as [`{same}`](#{same.strip('[]')}) | {default_of(field, inside)} | {about[name]} |"
            )
            continue
        if inside:
            path, list_of = title.strip("[]"), is_list(field.annotation)
            nested.append((f"[[{path}.{name}]]" if list_of else f"[{path}.{name}]", field.annotation))
        kind = kind_of(cls, name, field)
        comma = "," * (bool(tables) and ", " in kind and "formula" not in kind)
        kind = (kind + comma + tables).removeprefix(" or ") if not inside else "section, see below"
        if inside and "float" in str(field.annotation):
            kind = "number, formula, or a section, see below"
        what = about.get(name, "")
        what = re.sub(r"; [^;]* unless given\.?$", "", what) if field.is_required else what  # a default of Python's
        rows.append(f"| `{name}` | {kind} | {default_of(field, inside)} | {what} |")
    if summary := first_line(cls):
        lines += [summary, ""]
    if rows:
        lines += ["| key | value | default | |", "|---|---|---|---|", *rows, ""]
    return lines, nested


def like_section(name: str, inside: list[type[Section]]) -> str:
    """The title of the section of that name with the same classes, "" if there is none."""
    field = Experiment.schema().get(name)
    if field is None or not inside or sections_in(field.annotation) != inside:
        return ""
    return f"[[{name}]]" if is_list(field.annotation) else f"[{name}]"


def first_line(cls: type) -> str:
    """The first sentence of a class's docstring, or nothing where it has none of its own."""
    text = inspect.cleandoc(vars(cls).get("__doc__") or "").partition("\n")[0]
    return "" if text.startswith("!!!") else escaped(text)


def documented(cls: type[Section]) -> dict[str, str]:
    """{key: what it is}: the comment on its line in the section's class, else what the part declares or documents."""
    found = {}
    part = getattr(cls, "part", None)
    if part is not None and dataclasses.is_dataclass(part):
        found |= arguments(part)
        found |= {f.name: f.metadata["doc"] for f in dataclasses.fields(part) if f.metadata.get("doc")}
    for one in reversed(cls.__mro__):
        if issubclass(one, Section):
            found |= comments(one)
    for name, key in cls.schema().items():
        parts = [one.part for one in sections_in(key.annotation) if getattr(one, "part", None) is not None]
        if len(parts) == 1:
            found.setdefault(name, lowered(first_line(parts[0]).rstrip(".")))
    return {name: escaped(text) for name, text in found.items()}


def lowered(text: str) -> str:
    """Text with a small first letter."""
    return text[:1].lower() + text[1:]


def comments(cls: type) -> dict[str, str]:
    """{key: comment on its line} of a class that is written in a file."""
    source = classes_of(cls.__module__).get(cls.__name__, "")
    return dict(re.findall(r"^    (\w+): [^#\n]*#\s*(.+)$", source, re.MULTILINE))


@functools.cache
def classes_of(module: str) -> dict[str, str]:
    """{name: text} of the classes of a module, also of those that its functions make."""
    text = inspect.getsource(sys.modules[module])
    lines, classes = text.splitlines(), (one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.ClassDef))
    return {one.name: textwrap.dedent("\n".join(lines[one.lineno - 1 : one.end_lineno])) for one in classes}


def arguments(part: type) -> dict[str, str]:
    """{name: text} of the entries under Args in the docstring of a part."""
    text = inspect.getdoc(part) or ""
    entries = re.findall(r"^    ([\w, ]+): (.+(?:\n        .+)*)", text.partition("Args:\n")[2], re.MULTILINE)
    return {name: re.sub(r"\s+", " ", body) for names, body in entries for name in names.split(", ")}


def kind_of(cls: type, name: str, field: typing.Any) -> str:
    """What may be given, in words: kind, unit and limits."""
    part = getattr(cls, "part", None)
    own = {f.name: f.metadata.get("rule") for f in dataclasses.fields(part)} if dataclasses.is_dataclass(part) else {}
    if isinstance(own.get(name), rules.Number):
        annotation = words(field.annotation)
        return of_rule(own[name], "formula" in annotation) + ' or `"auto"`' * ('"auto"' in annotation)
    kinds = [words(field.annotation), unit_of(field), *limits_of(field)]
    return escaped(", ".join(filter(None, kinds)))


def of_rule(rule: rules.Number, formula: bool) -> str:
    """What a declared number may be."""
    kind = "whole number" if rule.whole else "number"
    unit = "" if rule.units in ("", "1") else f" in {rule.units}"
    limits = (("at least", rule.minimum), ("above", rule.above), ("at most", rule.maximum), ("below", rule.below))
    bounds = "".join(f", {word} {value:g}" for word, value in limits if value is not None)
    return escaped(kind + unit + bounds + ", or a formula" * formula)


def words(annotation: typing.Any) -> str:
    """An annotation in words."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    simple = {
        float: "number",
        int: "whole number",
        bool: "`true` or `false`",
        str: "text",
        Path: "file",
        Expression: "formula",
        Coordinate: "coordinate",
        dict: "table",
    }
    if annotation in simple:
        return simple[annotation]
    if hasattr(annotation, "tag"):
        return ""  # a table, of which TABLES has the description
    if origin is typing.Annotated:
        choice = next((x for x in annotation.__metadata__ if isinstance(x, rules.Choice)), None)
        named = [x.words for x in annotation.__metadata__ if isinstance(x, Read) and x.words]
        classes = [(*x.others, *x.classes) for x in annotation.__metadata__ if isinstance(x, ClassNamed)]
        if any(isinstance(x, OneOf) for x in annotation.__metadata__):
            return "tables"
        if classes:
            return words(typing.Literal[classes[0]])
        return words(typing.Literal[choice.choices]) if choice else named[0] if named else words(inner[0])
    if origin is typing.Literal:
        return " or ".join(f'`"{x}"`' if isinstance(x, str) else f"`{x}`".lower() for x in inner)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(dict.fromkeys(filter(None, (words(x) for x in inner if x is not types.NoneType))))
    if origin is tuple and inner[-1] is Ellipsis:
        return f"list of {words(inner[0])}"
    if origin is tuple:
        return f"[{', '.join(words(x) for x in inner)}]"
    if origin is dict:
        return f"table of {words(inner[1])}"
    return "date" if "datetime" in str(annotation) else "text" if annotation is typing.Any else str(annotation)


def rules_in(annotation: typing.Any) -> list[rules.Number]:
    """The rules of numbers in an annotation, however deep."""
    if isinstance(annotation, Formula):
        return [annotation.rule]
    if isinstance(annotation, rules.Number):
        return [annotation]
    return [rule for inner in typing.get_args(annotation) for rule in rules_in(inner)]


def unit_of(field: Key) -> str:
    """The unit of a quantity."""
    units = [rule.units for rule in rules_in(field.annotation) if rule.units not in ("1", rules.COORDINATES)]
    return next((f"in {unit}" for unit in units), "")


def limits_of(field: Key) -> list[str]:
    """The limits of a number, in words."""
    pairs = [(word, getattr(x, key)) for x in rules_in(field.annotation) for key, word in LIMITS.items()]
    return list(dict.fromkeys(f"{word} {value:g}" for word, value in pairs if value is not None))


def default_of(field: typing.Any, inside: list) -> str:
    """The default of a key, as a file would have it."""
    value = field.default
    if field.is_required or value is REQUIRED:
        return "must be given"
    if value is None or value in ((), {}):
        return "none"
    if inside and isinstance(value, Section):
        return "as below"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, str):
        return f'`"{value}"`' if value else '`""`'
    if isinstance(value, (tuple, list)):
        return "`[" + ", ".join(f'"{x}"' if isinstance(x, str) else f"{x:g}" for x in value) + "]`"
    return f"`{value:g}`" if isinstance(value, (int, float)) else f"`{value}`"


def escaped(text: str) -> str:
    """Text that may stand in a cell of a table."""
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
