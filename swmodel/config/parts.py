"""Sections of experiment files that are derived from the classes of a model's parts, shipped ones and the user's.

    [[dissipation]]
    type = "laplacian"                    # the class Laplacian of this package, in snake case
    viscosity = "300 m2 s-1"              # its declared parameters, with their units and limits

    [[dissipation]]
    type = "relaxation:Relaxation"        # the class Relaxation of relaxation.py, in the folder of the file, or of an
    rate = "1 day-1"                      # installed module

`section_for` makes the pydantic class of a section from the declarations (fields/parameters.py).
"""

import dataclasses
import datetime
import functools
import hashlib
import importlib
import importlib.util
import logging
import pkgutil
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Union

from pydantic import AfterValidator, Field, create_model, model_validator

from .. import forcing
from ..errors import ConfigError
from ..fields import parameters as rules
from ..fields.parts import ModelPart, as_pytree, control_names, shipped_parts
from ..forcing.atmosphere import DragLaw
from .expressions import Expression
from .mistakes import nearest
from .quantities import Quantity
from .sections import AnyCoordinate, Flag, Formula, InputFile, Section, Sides, ascending, number_or_map
from .series import RecordFile, SolitarySection, TideSection, number_or_series

__all__ = [
    "PartSection",
    "arguments_of",
    "chosen_from",
    "class_named",
    "part_of",
    "section_about",
    "section_for",
    "sections_of",
    "shipped",
]


class PartSection(Section):
    """A section that describes a part of the model.

    Attributes:
        part: the class of the part.
        left_out: names of its parameters that are not keys of the section.
    """

    part: ClassVar[Any] = None
    left_out: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="after")
    def _fit_together(self):
        if issubclass(self.part, ModelPart) and (why := self.part.conflict(self)):
            raise ValueError(why)
        return self

    def controls(self) -> list[str]:
        """The parameters that may be controls of an adjoint, such as the amplitudes and phases of a tide.

        Of records in a file, which may be one series or fields, these are both the values of the series and the fields.
        The model refuses the name that it does not have.
        """
        found = []
        for name in control_names(self.part):
            value = getattr(self, name, None)
            if isinstance(value, (TideSection, SolitarySection)):
                found += [f"{name}.{key}" for key in value.controls()]
            else:
                found += [name, f"{name}.values"] if isinstance(value, RecordFile) else [name]
        return found

    def parameters_from_keys(self, context: Any, start: datetime.datetime | None) -> dict[str, Any]:
        """{name: value} of the parameters that follow from keys with other names; a subclass may have some.

        Args:
            context: data that the keys refer to, such as the section [output] for the positions of gauges.
            start: date and time of step 0 of the run, from which dates count.
        """
        return {}


@functools.cache
def shipped(base: type, kind: str | None = None) -> dict[str, type]:
    """{snake-case name: class} of this package's parts that derive from `base`; their modules are imported.

    Args:
        base: Term, OpenBoundary, TimeStepper, Coriolis ...
        kind: the kind of the part, such as "forcing"; all kinds unless given.
    """
    for package in (importlib.import_module(base.__module__.rpartition(".")[0]), forcing):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    return shipped_parts(base, kind)


def sections_of(base: type, kind: str | None = None, common: type = PartSection) -> dict[str, type[PartSection]]:
    """{type: section class} of this package's parts."""
    return {name: section_for(cls, name, common) for name, cls in shipped(base, kind).items()}


def chosen_from(sections: Any) -> Any:
    """The annotation of a section that is one of `sections`, chosen by its key `type`."""
    return Annotated[Union[tuple(sections)], Field(discriminator="type")]  # noqa: UP007


def section_for(cls: type, name: str | None = None, common: type = PartSection) -> type[PartSection]:
    """The section class of a part: its declared parameters as keys, and `type = name` if it is one of several.

    Args:
        cls: the class of the part.
        name: the name of the type in files; None of a section without alternatives.
        common: the base class of the section, whose keys are kept.
    """
    keys: dict[str, Any] = {} if name is None else {"type": (Literal[name], ...)}
    for field in dataclasses.fields(as_pytree(cls) if issubclass(cls, ModelPart) else cls):
        if field.name in common.left_out:
            continue
        if field.name not in common.model_fields and (kind := _type_of(field, getattr(cls, "kind", None))) is not None:
            keys[field.name] = (kind, Field(_default_of(field), description=field.metadata.get("doc") or None))
    base: Any = type(
        cls.__name__, (common,), {"part": cls, "__module__": __name__, "__annotations__": {"part": ClassVar}}
    )
    made: Any = create_model(cls.__name__, __base__=base, __module__=__name__, __doc__=cls.__doc__, **keys)
    return made


def section_about(cls: type, name: str, *, keys: Mapping[type, type[PartSection]]) -> type[PartSection]:
    """The section class of a part, some of whose parameters follow from keys with other names.

    Args:
        cls: the class of the part.
        name: the name of the type in files.
        keys: {rule of a declared parameter: the PartSection with the keys from which it follows}; the first that fits
            is used.
    """
    rules_of_part = {type(field.metadata.get("rule")) for field in dataclasses.fields(as_pytree(cls))}
    return section_for(cls, name, next((keys[kind] for kind in keys if kind in rules_of_part), PartSection))


def part_of(section: PartSection | None, context: Any, start: datetime.datetime | None = None) -> Any:
    """The part that a section describes, or None; `context` and `start` as for `PartSection.parameters_from_keys`."""
    if section is None:
        return None
    return section.part(**arguments_of(section), **section.parameters_from_keys(context, start))


def arguments_of(section: PartSection) -> dict[str, Any]:
    """The keyword arguments that a section holds for its part, with the parts of sections within it."""
    names = {field.name for field in dataclasses.fields(section.part)}
    own = ((name, value) for name, value in section if name in names)
    return {name: part_of(value, None) if isinstance(value, PartSection) else value for name, value in own}


def _default_of(field: dataclasses.Field) -> Any:
    missing = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    if missing or field.metadata.get("required"):
        return ...
    make: Any = field.default_factory
    return field.default if field.default is not dataclasses.MISSING else make()


def _type_of(field, kind):
    """The pydantic type of a field's key; None for a field that is not a key of files."""
    rule = field.metadata.get("rule")
    if field.metadata.get("derived"):
        return None
    if isinstance(rule, rules.Number):
        mapped = kind == "dissipation" and rule.position == "h" and not field.metadata.get("static")
        plain = _number(rule, formulas=kind == "forcing" or mapped)
        if mapped:
            return number_or_map(plain)
        varies = rule.position is not None and not rule.steady and kind in ("forcing", "boundary")
        return number_or_series(plain, _unit(rule.units)) if varies and not field.metadata.get("static") else plain
    known = {rules.Flag: Flag, rules.Text: str, rules.Sides: Sides, rules.FileName: InputFile}
    known |= {rules.Names: tuple[str, ...], DragLaw: str | float}
    if isinstance(rule, rules.Choice):
        return Literal[rule.choices]
    if isinstance(rule, rules.Pair):
        return _pair(rule)
    if isinstance(rule, rules.NumberForEach):
        numbers: Any = Annotated[tuple[_number(rule.each, formulas=False), ...], Field(min_length=rule.least)]
        return numbers | None if rule.optional else numbers
    for kind_of_rule, annotation in known.items():
        if isinstance(rule, kind_of_rule):
            return annotation
    return Quantity("") if rule is None and field.type in (float, int, Any) else None


def _number(rule, formulas):
    unit = _unit(rule.units)
    if formulas and rule.position is not None:
        return Annotated[Formula(unit), AfterValidator(functools.partial(_within, rule))]
    kind: Any = Annotated[int, Field(strict=True)] if rule.whole else _quantity(rule)
    limits = {"ge": rule.minimum, "gt": rule.above, "le": rule.maximum, "lt": rule.below}
    limits = {name: limit for name, limit in limits.items() if limit is not None}
    kind = Annotated[kind, Field(**limits)] if limits else kind
    return kind | None if rule.optional else kind


def _pair(rule):
    """The type of two numbers."""
    each = _quantity(rule)
    both: Any = Annotated[tuple[each, each], AfterValidator(ascending)] if rule.ascending else tuple[each, each]
    return both | None if rule.optional else both


def _quantity(rule):
    """The type of one number in the units of a rule."""
    return AnyCoordinate if rule.units == rules.COORDINATES else Quantity(_unit(rule.units))


def _within(rule, value):
    """`value`, a number within the limits of a rule; formulas are checked later, on the grid."""
    if not isinstance(value, Expression) and (why := rule.outside(value)):
        raise ValueError(f"{value:g} {why}")
    return value


def _unit(units):
    return "" if units == "1" else units


def class_named(name: str, folder: Path, allowed: bool, short: dict | None = None) -> Any:
    """The class "module:Class".

    Args:
        name: "module:Class", or a short name.
        folder: the folder of the experiment file and of the modules.
        allowed: whether code may be imported.
        short: {short name: "module:Class"}.

    Raises:
        ConfigError: if there is no such module or class, it cannot be imported, or `allowed` is false.
    """
    if not allowed:
        raise ConfigError(
            f"{name!r} is not a part of swmodel, and a restart file alone imports no code; name the experiment file "
            "too, --experiment FILE.toml"
        )
    name = (short or {}).get(name, name)
    module_name, _, class_name = name.partition(":")
    module = _module(module_name, folder)
    if not hasattr(module, class_name):
        classes = [key for key, x in vars(module).items() if isinstance(x, type) and x.__module__ == module.__name__]
        hint = nearest(class_name, classes) if classes else "it has no classes"
        raise ConfigError(f"the module {module_name!r} has no class {class_name!r}; {hint}")
    return getattr(module, class_name)


def _module(name: str, folder: Path) -> Any:
    file = _file_of(name, folder)
    try:
        return _from_file(name, file) if file.is_file() else _installed(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0]:
            raise ConfigError(f"the module {name!r} needs {error.name!r}, which is not installed") from error
        raise ConfigError(f"there is no file {file}, and no installed module {name!r}; correct the name") from None
    except (Exception, SystemExit) as error:  # any error of the user's module during its import
        frame = next((f for f in reversed(traceback.extract_tb(error.__traceback__)) if f.filename == str(file)), None)
        line = getattr(error, "lineno", None) or (frame.lineno if frame else None)
        where = f"{file}:{line}" if line else str(file)
        raise ConfigError(
            f"the module {name!r} cannot be imported: {where}: {type(error).__name__}: {error}"
        ) from error


def _file_of(name, folder):
    """The file of a module in the folder, whether it is there or not.

    Raises:
        ConfigError: for a file outside the folder, or a module of Python itself.
    """
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts):
        raise ConfigError(
            f"{name!r} is not the name of a module; code is imported from the folder of the experiment file or "
            "from installed packages, so name a module there, as in 'relaxation:Relaxation'"
        )
    file = folder.joinpath(*parts).with_suffix(".py")
    if not file.resolve().is_relative_to(folder.resolve()):
        raise ConfigError(
            f"{file} is a link to {file.resolve()}, and no code outside the folder of the experiment file is imported; "
            "copy the file"
        )
    if parts[0] in sys.stdlib_module_names and not file.is_file():
        raise ConfigError(f"the module {name!r} belongs to Python and has no parts of a model; correct the name")
    return file


def _installed(name):
    if name not in sys.modules:
        logging.getLogger("swmodel").info("importing the installed module %s", name)
    return importlib.import_module(name)


def _from_file(name, file):
    """The module in a file; it is imported again only if the file has changed."""
    digest = hashlib.sha256(file.read_bytes() + str(file).encode()).hexdigest()
    known = sys.modules.get(name)
    if getattr(known, "_swmodel_digest", None) == digest:
        return known
    if known is not None and not hasattr(known, "_swmodel_digest"):
        raise ConfigError(f"the file {file} has the name of a module that Python has loaded already; rename the file")
    logging.getLogger("swmodel").info("importing %s", file)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None  # the name of the file ends in .py
    module: Any = importlib.util.module_from_spec(spec)
    module._swmodel_digest, sys.modules[name] = digest, module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name)
        raise
    return module
