"""Sections of experiment files that are derived from the classes of a model's parts, shipped ones and the user's.

    [[dissipation]]
    type = "laplacian"                    # the class Laplacian of this package, in snake case
    viscosity = "300 m2 s-1"              # its declared parameters, with their units and limits

    [[dissipation]]
    type = "relaxation:Relaxation"        # the class Relaxation of relaxation.py, in the folder of the file, or of an
    rate = "1 day-1"                      # installed module

`section_for` makes the class of a section from the declarations (fields/parameters.py).

The names of all variables of an experiment follow from several sections together.
"""

import dataclasses
import functools
import importlib
import math
import pkgutil
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast

import swmodel

from .. import adjoint
from ..diagnostics.derived import FIELDS
from ..errors import ConfigError, nearest
from ..fields import parameters as rules
from ..fields.parameters import Choice, Moment
from ..fields.parts import (
    ModelPart,
    as_pytree,
    control_names,
    is_shipped_part,
    numbers_of,
    positions_of,
    shipped_parts,
    snake_case,
)
from ..fields.variables import INTERFACES, derived_units, in_layer, in_layers
from ..forcing.atmosphere import DragLaw
from ..grids.geometry import Coriolis
from ..units import Coordinate
from .expressions import Expression
from .own import class_named, is_own
from .reading import REQUIRED, Before, Section
from .sections import (
    NOWHERE,
    Formula,
    InputFile,
    MapFile,
    Place,
    Sides,
    Surroundings,
    check_limits,
    is_evaluated_whole,
    on_grid,
)
from .series import SeriesSection, number_or_series
from .toml import Mistake

if TYPE_CHECKING:
    from .scenario import Output, Run


class PartSection(Section):
    """A section that describes a part of the model.

    Attributes:
        part: the class of the part.
        left_out: names of its parameters that are not keys of the section.
    """

    part: ClassVar[Any] = None
    left_out: ClassVar[tuple[str, ...]] = ()

    def check(self) -> None:
        super().check()
        if issubclass(self.part, ModelPart) and (why := self.part.conflict(self)):
            raise ValueError(why)

    def controls(self) -> list[str]:
        """The parameters that may be controls of an adjoint, such as the amplitudes and phases of a tide.

        Of records in a file, which may be one series or fields, these are both the values of the series and the fields.
        The model refuses the name that it does not have.
        """
        found = []
        for name in control_names(self.part):
            value = getattr(self, name, None)
            keys = value.controls() if isinstance(value, SeriesSection) else [""]
            found += [f"{name}.{key}" if key else name for key in keys]
        return found

    def build(self, on: Surroundings = NOWHERE) -> Any:
        """The part that the section describes."""
        return self.part(**self.arguments(on))

    def arguments(self, on: Surroundings = NOWHERE) -> dict[str, Any]:
        """The keyword arguments for the part, with the parts of sections in it, and arrays or records for tables."""
        rules = {field.name: field.metadata.get("rule") for field in dataclasses.fields(self.part)}
        found = {name: self._value(name, value, on) for name, value in self if name in rules}
        if isinstance(rules.get("start"), Moment):
            found["start"] = on.start
        return found | self.parameters_from_keys(on)

    def _value(self, name, value, on):
        if isinstance(value, PartSection):
            return value.build(on)
        if on.grid is None:
            return value
        if isinstance(value, Expression) and name in (positions := positions_of(self.part)):
            return on_grid(value, on.grid, positions[name], name)
        value_of = getattr(value, "value_of", None)
        return value if value_of is None else value_of(name, self, on)

    def parameters_from_keys(self, on: Surroundings) -> dict[str, Any]:
        """{name: value} of the parameters that follow from keys with other names; a subclass may have some."""
        return {}

    def check_value(self, name: str, value: Any, on: Surroundings) -> None:
        """Raise an error if a formula of [[dissipation]], or the files of a table, cannot be the parameter `name`."""
        if hasattr(value, "check_value"):
            value.check_value(name, self, on)
        elif isinstance(value, Expression) and self.part.kind == "dissipation" and is_evaluated_whole(on.grid):
            rule = numbers_of(self.part)[name]
            values = on_grid(value, on.grid, rule.position or "h", name)
            check_limits(values, rule, f"{name}: the formula {value.text!r}", ConfigError)


_FURTHER = {"swmodel.dynamics": ("swmodel.forcing",)}  # packages with classes that derive from those of another one


class Shipped(Mapping):
    """{snake-case name: class} of this package's parts that derive from a class, in alphabetical order.

    The package's table of public names leads to the module of a part, and that alone is imported. Where all names are
    needed, as in messages, all modules are.

    Args:
        base: Term, OpenBoundary, TimeStepper, Coriolis ...
        attributes: what the classes have, such as `kind="forcing"`.
    """

    def __init__(self, base: type, **attributes: Any):
        self.base, self.attributes = base, attributes

    @functools.cached_property
    def _every(self):
        own = self.base.__module__.rpartition(".")[0]
        for package in map(importlib.import_module, (own, *_FURTHER.get(own, ()))):
            for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
                importlib.import_module(module.name)
        return {name: cls for name, cls in sorted(shipped_parts(self.base).items()) if self._fits(cls)}

    def _fits(self, cls):
        return all(getattr(cls, name, None) == value for name, value in self.attributes.items())

    def __getitem__(self, name: str) -> type:
        cls = getattr(*_public()[name]) if name in _public() else None
        return cls if cls is not None and is_shipped_part(cls, self.base) and self._fits(cls) else self._every[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._every)

    def __len__(self) -> int:
        return len(self._every)


@functools.cache
def _public():
    """{snake-case name: (package, its public name)} of this package and its adjoint."""
    return {snake_case(name): (package, name) for package in (adjoint, swmodel) for name in package.__all__}


@dataclasses.dataclass(frozen=True, eq=False)
class ClassNamed:
    """Reads the name of a class: that of one of this package, which stays a name, or a class of the user.

    Attributes:
        base: the class from which that of a user derives.
        classes: {name: class} of this package.
        others: further names, such as "auto".
    """

    base: type
    classes: Mapping[str, type]
    others: tuple[str, ...] = ()

    def read(self, name: Any, reading: Any) -> Any:
        """A name, or the class "module:Class"; raises ValueError for anything else."""
        if isinstance(name, str):
            if name in self.others or name in self.classes:
                return name
            if is_own(name):
                return class_named(name, reading.folder, reading.own_parts, (self.base,))
        return Choice((*self.others, *self.classes)).read(name)

    def made(self, name: Any) -> Any:
        """An object of the class that was read; None for None."""
        return None if name is None else self.classes[name]() if isinstance(name, str) else name()


class _Made(Mapping):
    """{type: section class}, each of which is made from the class of a part when a file has that type."""

    def __init__(self, classes: Mapping[str, type], make: Callable[[type, str], type[PartSection]]):
        self.classes, self.make = classes, functools.cache(make)

    def __getitem__(self, name: str) -> type[PartSection]:
        return self.make(self.classes[name], name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.classes)

    def __len__(self) -> int:
        return len(self.classes)


def sections_of(make: Any, *classes: Mapping[str, type]) -> ChainMap[str, type[Any]]:
    """{type: section class} of the classes of parts, {type: class}, by `make(class, type)`."""
    return ChainMap({}, *(cast(Any, _Made(each, make)) for each in classes))


def section_for(cls: type, name: str | None = None, common: Any = PartSection) -> type[PartSection]:
    """The section class of a part: its declared parameters as keys, and `type = name` if it is one of several.

    Args:
        cls: the class of the part.
        name: the name of the type in files; None of a section without alternatives.
        common: the base class of the section, whose keys are kept.
    """
    keys: dict[str, Any] = {} if name is None else {"type": Literal[name]}
    defaults: dict[str, Any] = {"part": cls, "__module__": __name__, "__doc__": cls.__doc__, "__annotations__": keys}
    for field in dataclasses.fields(as_pytree(cls) if issubclass(cls, (ModelPart, Coriolis)) else cls):
        if field.name in (*getattr(common, "left_out", ()), *common.schema()) or field.metadata.get("derived"):
            continue
        if (kind := _type_of(field, cls)) is not None:
            keys[field.name] = kind
            if (default := _default_of(field)) is not REQUIRED:
                defaults[field.name] = default
    made: Any = type(cls.__name__, (common,) if issubclass(common, PartSection) else (common, PartSection), defaults)
    return made


def section_about(cls: type, name: str, *, keys: Mapping[type, type[Section]]) -> type[PartSection]:
    """The section class of a part, some of whose parameters follow from keys with other names.

    Args:
        cls: the class of the part.
        name: the name of the type in files.
        keys: {rule of a declared parameter, or what a dict holds: the Section with the keys from which it follows};
            the first that fits is used.
    """
    declared = [field.metadata.get("rule") for field in dataclasses.fields(as_pytree(cls))]
    kinds = {getattr(rule, "kind", type(rule)) for rule in declared}
    return section_for(cls, name, next((keys[kind] for kind in keys if kind in kinds), PartSection))


def _default_of(field: dataclasses.Field) -> Any:
    missing = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    if missing or field.metadata.get("required"):
        return REQUIRED
    make: Any = field.default_factory
    return field.default if field.default is not dataclasses.MISSING else make()


def _type_of(field, cls):
    """The annotation of the key of a part's field; None for a field that is not a key of files."""
    rule = field.metadata.get("rule")
    if isinstance(rule, rules.Number):
        kind = getattr(cls, "kind", None)
        uniform = kind == "forcing" and field.name in getattr(cls, "in_time", ())
        return _type_of_number(rule, kind, field.metadata.get("static"), uniform)
    if isinstance(rule, (rules.Pair, rules.NumberForEach)):
        each: Any = Annotated[Coordinate if rule.units == rules.COORDINATES else float, rule.each]
        if isinstance(rule, rules.Pair):
            return Annotated[tuple[each, each], rule]
        return Annotated[tuple[each, ...], rule, *[Before(rule.tuple_of)] * rule.alone]
    if isinstance(rule, rules.Names):
        return Annotated[tuple[str, ...], rule]
    if isinstance(rule, rules.Choice):
        return Annotated[str, rules.Choice(tuple(choice for choice in rule.choices if choice is not None))]
    for kind_of_rule, annotation in _TYPES.items():
        if isinstance(rule, kind_of_rule):
            return annotation
    return float if rule is None and field.type in (float, int, Any) else None


_TYPES: dict[type, Any] = {
    rules.Flag: bool,
    rules.Text: str,
    rules.Sides: Sides,
    rules.FileName: InputFile,
    rules.Points: Annotated[tuple[Place, ...], Before(rules.Points.tuple_of), rules.Points()],
    rules.Concentrations: dict[str, float],
    DragLaw: Annotated[str | float, DragLaw()],
}


def _type_of_number(rule, kind, static, uniform):
    """The annotation of a number: also of a formula, a map or a series, where parts of a `kind` have them.

    One that is `uniform` may change in time, and not in space.
    """
    steady = kind == "dissipation" or (kind == "forcing" and rule.steady)
    mapped = steady and rule.position == "h" and not static
    formulas = rule.position is not None and not uniform and (kind == "forcing" or mapped)
    number = rule.of_files()
    plain: Any = Annotated[float | Expression, Formula(number)] if formulas else Annotated[float, number]
    if mapped:
        return plain | MapFile
    varies = rule.position is not None and not rule.steady and kind in ("forcing", "boundary") and not static
    return number_or_series(plain, rule.units, rule.units == "m" and not uniform) if varies else plain


PARTS = ("forcing", "dissipation", "boundary", "tracer")  # sections of which there may be several


def layer_count(sections: Mapping[str, Any]) -> int:
    """The number of layers that move."""
    layers = sections.get("layers")
    return 1 if layers is None else len(layers.thickness) + 1


def transported_controls(sections: Mapping[str, Any]) -> list[str]:
    """The controls of an adjoint that belong to transported variables, such as tracers."""
    tracers = sections.get("tracer", ())
    names = [f"initial.{name}" for name in stepped_names(tracers, layer_count(sections))]
    keys = ("diffusivity", "source", "flux", "outside")
    return names + [f"tracer.{k}.{key}" for k, x in enumerate(tracers) for key in keys if getattr(x, key) is not None]


def variable_mistakes(
    output: "Output", tracer: tuple, sections: Mapping[str, Any], run: "Run | None" = None
) -> Iterator[Mistake]:
    """Mistakes of outputs that name variables which the experiment does not have; none if its tracers have mistakes."""
    layers = layer_count(sections)
    rows = [getattr(entry.part, "variable", None) for entry in sections.get("forcing", ())]
    of_terms = [row.name for row in rows if row is not None]  # such as the depth of water that has infiltrated
    of_layers = [in_layer(name, k) for k in range(layers) for name in ("eta", "u", "v")]
    stepped = tuple(dict.fromkeys([*of_layers, *stepped_names(tracer, layers), *of_terms]))
    between = (INTERFACES,) if sections.get("layers") is not None else ()
    written = (*FIELDS, *between, *(each.name for each in tracer), *dict.fromkeys(of_terms))
    derived = tuple(derived_units(layers))
    named: list[Any] = [(("output", "fields", k), fields.variables, written) for k, fields in enumerate(output.fields)]
    if output.gauges is not None:  # which read what is stepped, and in single runs what is derived
        known = stepped if sections.get("ensemble") is not None else (*stepped, *derived)
        named.append((("output", "gauges"), output.gauges.variables, known))
    until = math.inf if run is None else run.until
    for path, section in output.named_products():
        for key, why in section.build().mistakes(until, stepped, derived):
            yield Mistake((*path, key), why)
    for path, names, known in named:
        for name in names:
            if name not in known:
                yield Mistake((*path, "variables"), f"unknown variable {name!r}; {nearest(name, known)}")


def stepped_names(tracers: tuple, layers: int) -> list[str]:
    """The names of the variables of tracers in a model of so many layers."""
    return [name for tracer in tracers for name in in_layers(tracer.name, tracer.layer, layers)]
