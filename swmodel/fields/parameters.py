"""Declarations of arguments: kind, units, limits and C-grid position, which are checked when an object is made.

    @pytree
    class LinearDrag(Term):
        rate: Any = parameter("h", "s-1", minimum=0.0)

    LinearDrag("fast")      ConfigError: LinearDrag: rate = 'fast' is not a number; give one in s-1, 0 or more, ...

Rules raise ConfigError for values that are certainly wrong. Tracers, tile arrays, Fields and other objects that a
program uses in place of a number are accepted, and JAX rebuilds pytrees without checking again (state.py).

The keys of experiment files have the same rules, which `read` values, as "5 day" (config/reading.py), and messages.
"""

import collections.abc
import dataclasses
import datetime
import inspect
import itertools
import math
import numbers
import os
from typing import Any, NoReturn, cast

import numpy as np

from ..errors import ConfigError, ended, nearest
from ..runtime.paths import expanded
from ..units import Coordinate, as_product, coordinate, quantity

SMALLEST, LARGEST = 1e-30, 1e30  # the range of single precision, with a margin for products
MOST = 2**31 - 1  # whole numbers are 32 bits wide in programs
MOMENTS = (datetime.date, datetime.timedelta)
NOT_NUMBERS = (str, bytes, bool, np.bool_, complex, np.complexfloating, type, dict, set, frozenset, *MOMENTS)
SIDES = ("west", "east", "south", "north")
COORDINATES = "the grid's coordinates"  # the units of places: degrees on the sphere, m on a plane
RECORDS = ", an (ny, nx) array or time records"


def refuse(who: str, name: str, value: object, why: str, remedy: str) -> NoReturn:
    """Raise ConfigError with one sentence: the argument (without `who`, no name), its value, why not, and a remedy."""
    _refuse(who, name, value, f"{why}; give {remedy}")


def _refuse(who, name, value, why) -> NoReturn:
    text = f"{shown(value)} {why}"
    raise ConfigError(ended(f"{who}: {name} = {text}") if who else text)


def shown(value: object) -> str:
    """A value as text for a message: classes by their name, arrays by their shape, long texts shortened."""
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, np.ndarray) and value.ndim:
        return f"an array of shape {value.shape} of {value.dtype}"
    if callable(value) and hasattr(value, "__name__"):
        return value.__name__
    try:
        text = repr(value)
    except ValueError:  # Python does not print integers of thousands of digits
        text = "a number of too many digits"
    if "\n" in text:
        return f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:60]} [...] {text[-10:]}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rule:
    """The base class of rules that None fits if they are `optional`."""

    optional: bool = False

    def check(self, who: str, name: str, value: object) -> None:
        """Raise ConfigError, which names the function or class `who` and its argument, for a value that is wrong."""
        if value is not None or not self.optional:
            self._check(who, name, value)

    def _check(self, who, name, value):
        raise NotImplementedError


class ReadRule(Rule):
    """The base class of rules that read the values of files."""

    def read(self, value: Any, reading: object = None) -> Any:
        """The value that a file has for it, in the units of the rule; raises ValueError if it breaks the rule."""
        value = value.strip() if isinstance(value, str) else value
        self.check("", "", value)
        return value


@dataclasses.dataclass(frozen=True)
class Number(ReadRule):
    """The rule of a real number; with a C-grid `position` also of a function of (x, y), an array or time records.

    Args:
        position: "h", "u", "v" or "q" of a parameter that may vary in space; None for plain numbers.
        units: SI, "1" where there are none.
        minimum, above, maximum, below: limits; `above` and `below` are not reached themselves.
        whole: whether it must be a whole number.
        steady: whether time records are refused.
        hint: text that follows the remedy in messages.
        doc: a description of the number, in a few words.
        halo: whether a parameter that varies in space is read at neighbouring points, so that it needs ghost cells.
            False saves their memory where it is read at its own points only.
        differentiable: whether a cost may be differentiated in it.
    """

    position: str | None = None
    units: str = "1"
    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None
    below: float | None = None
    whole: bool = False
    steady: bool = False
    hint: str = ""
    doc: str = ""
    halo: bool = True
    differentiable: bool = True

    def read(self, value: Any, reading: object = None) -> Any:
        """The number of a file; text is a quantity, in units of the same dimension."""
        if self.whole and type(value) is not int:
            refuse("", "", value, "is not a whole number", self.wanted())
        if isinstance(value, str):
            unit = "" if self.units == "1" else self.units
            value = coordinate(value) if unit == COORDINATES else quantity(value, unit)
        elif isinstance(value, bool) or not isinstance(value, (int, float)):
            refuse("", "", value, "is not a number", self.wanted())
        self._check("", "", value)
        if self.whole or isinstance(value, Coordinate):
            return value
        return Coordinate(value) if self.units == COORDINATES else float(value)

    def of_files(self) -> "Number":
        """The rule of one number that a file has for it."""
        return dataclasses.replace(self, position=None, optional=False)

    def _check(self, who, name, value):
        if isinstance(value, (list, tuple)) and self.position is not None:
            found = array_of(value)
            value = value if found is None else found
        if value is None or isinstance(value, (*NOT_NUMBERS, list, tuple)) or inspect.ismodule(value):
            refuse(who, name, value, "is not a number", self.wanted() + as_product(value))
        varies = any(hasattr(value, name) for name in ("times", "placed", "series_on"))
        if self.steady and varies:
            what = "time records" if hasattr(value, "times") else f"a {type(value).__name__}"
            raise ConfigError(f"{who}: {name} cannot be {what}; give {self.wanted()}.")
        if self.position is None and callable(value):
            refuse(who, name, value, "is a function", self.wanted())
        if isinstance(value, np.ndarray):
            self._check_array(who, name, value)
        elif isinstance(value, numbers.Real):
            self._check_number(who, name, value)

    def _check_array(self, who, name, value):
        if value.dtype.kind not in "fiu":
            refuse(who, name, value, "holds no real numbers", self.wanted())
        if self.position is None and value.ndim:
            refuse(who, name, value, "is not one number", self.wanted())
        known = value[np.isfinite(value)]
        for extreme in (known.min(), known.max()) if known.size else ():
            if why := self.outside(extreme):
                refuse(who, f"{name}, somewhere,", extreme.item(), why, self.wanted())

    def _check_number(self, who, name, value):
        why = self.outside(value)
        if self.whole and abs(value) > MOST:
            why = f"is over {MOST:,}"
        elif self.whole and not (math.isfinite(value) and int(value) == value):
            why = "is not a whole number"
        elif not abs(value) < math.inf:
            why = "is not a finite number"
        elif value and not self.whole and not SMALLEST <= abs(value) <= LARGEST:
            why = f"is too {'large' if abs(value) > LARGEST else 'small'} for single precision"
        if why:
            refuse(who, name, value, why, self.wanted())

    def outside(self, value: float) -> str | None:
        """A phrase that explains why a number is beyond the limits, or None."""
        if self.minimum is not None and value < self.minimum:
            return "is negative" if self.minimum == 0 else f"is less than {self.minimum:g}"
        if self.above is not None and value <= self.above:
            return "is not positive" if self.above == 0 else f"is not greater than {self.above:g}"
        if self.maximum is not None and value > self.maximum:
            return f"is greater than {self.maximum:g}"
        if self.below is not None and value >= self.below:
            return f"is not less than {self.below:g}"
        return None

    def wanted(self) -> str:
        """A description of the values that are accepted, for messages."""
        limits = [
            f"{self.minimum:g} or more" if self.minimum is not None else "",
            f"greater than {self.above:g}" if self.above is not None else "",
            f"at most {self.maximum:g}" if self.maximum is not None else "",
            f"less than {self.below:g}" if self.below is not None else "",
        ]
        kind = "a whole number" if self.whole else "a number"
        unit = "" if self.units in ("", "1") else f" in {self.units}"
        found = ", ".join([kind + unit, *filter(None, limits)])
        if self.position is not None:
            found += ", or a function of (x, y)" + (" or an (ny, nx) array" if self.steady else RECORDS)
            found += " of such numbers"
        return found + ", or None" * self.optional + self.hint


def array_of(value: object) -> np.ndarray | None:
    """`value` as an array of real numbers, or None where it cannot be one, such as rows of different lengths."""
    try:
        found = np.asarray(value)
    except (ValueError, TypeError, OverflowError):
        return None
    return found if found.dtype.kind in "fiu" else None


@dataclasses.dataclass(frozen=True)
class Flag(ReadRule):
    """The rule of True or False; numbers are refused."""

    def _check(self, who, name, value):
        if not isinstance(value, (bool, np.bool_)):
            refuse(who, name, value, "is neither true nor false", "one of them" + ", or None" * self.optional)


@dataclasses.dataclass(frozen=True)
class Choice(ReadRule):
    """The rule of one of several names, or other values."""

    choices: tuple

    def check(self, who: str, name: str, value: object) -> None:
        if not any(type(value) is type(choice) and value == choice for choice in self.choices):
            _refuse(who, name, value, f"is unknown; {nearest(value, self.choices)}")


@dataclasses.dataclass(frozen=True)
class Precision:
    """The rule of float32 or float64, by name or as a type; None for JAX's default."""

    def check(self, who: str, name: str, value: object) -> None:
        try:
            known = value is None or np.dtype(cast(str, value)) in (np.float32, np.float64)
        except TypeError:
            known = False
        if not known:
            refuse(who, name, value, "is no precision of the model", "'float32' or 'float64'")


@dataclasses.dataclass(frozen=True)
class Text(ReadRule):
    """The rule of text."""

    def _check(self, who, name, value):
        if not isinstance(value, str):
            refuse(who, name, value, "is not text", "some in quotes")


@dataclasses.dataclass(frozen=True)
class Pair(Rule):
    """The rule of two numbers.

    Args:
        units: of both.
        names: their names, for messages.
        ascending: whether the first must be the smaller one.
    """

    units: str
    names: str = "(low, high)"
    ascending: bool = False

    def _check(self, who, name, value):
        remedy = f"{self.names} in {self.units}" + ", or None" * self.optional
        if (
            isinstance(value, (str, bytes, dict))
            or not isinstance(value, collections.abc.Collection)
            or len(value) != 2
        ):
            refuse(who, name, value, "is not two numbers", remedy)
        low, high = list(value)
        for each in (low, high):
            if isinstance(each, NOT_NUMBERS) or not isinstance(each, numbers.Real) or not math.isfinite(each):
                refuse(who, name, value, "is not two finite numbers", remedy)
        if self.ascending and not low < high:
            refuse(who, name, value, "is not a range", f"{remedy}, the smaller one first")

    @property
    def each(self) -> Number:
        """The rule of each of them, up to their order."""
        return Number(units=self.units)


POINT = Pair(COORDINATES, "(x, y)")


@dataclasses.dataclass(frozen=True)
class NumberForEach(Rule):
    """The rule of a tuple of numbers, such as one for each layer, or the depths between classes.

    Args:
        units: of all.
        least: the least number of them.
        above, minimum: limits of each, as those of Number.
        ascending: whether each must be greater than the one before.
        alone: whether one number may stand for a tuple of it.
    """

    units: str
    least: int = 1
    above: float | None = None
    minimum: float | None = None
    ascending: bool = False
    alone: bool = False

    @property
    def each(self) -> Number:
        """The rule of each of them."""
        return Number(units=self.units, above=self.above, minimum=self.minimum)

    def _check(self, who, name, value):
        value = self.tuple_of(value) if self.alone else value
        remedy = f"{self.least} or more numbers in {self.units}" + ", ascending" * self.ascending
        if isinstance(value, NOT_NUMBERS) or not isinstance(value, collections.abc.Collection):
            refuse(who, name, value, "is not a tuple of numbers", remedy)
        if len(value) < self.least:
            refuse(who, name, value, f"has {len(value)} numbers", remedy)
        for k, number in enumerate(value):
            self.each.check(who, f"{name}[{k}]", number)
        if self.ascending and any(a >= b for a, b in itertools.pairwise(value)):
            refuse(who, name, value, "does not ascend", remedy)

    @staticmethod
    def tuple_of(value: Any) -> Any:
        """A number, or a quantity as text, in a tuple; anything else as it is."""
        return (value,) if isinstance(value, (numbers.Real, str)) and not isinstance(value, bool) else value


@dataclasses.dataclass(frozen=True)
class Part(Rule):
    """The rule of an object with certain methods, such as a term of the equations; or of a tuple of them.

    Args:
        methods: the names of attributes that it must have, such as ("vorticity_flux",).
        example: an example of such an object, as text.
        several: whether it may be a tuple of them.
        alone: whether it may be a single one.
    """

    methods: tuple
    example: str
    several: bool = False
    alone: bool = True

    def _check(self, who, name, value):
        if not self.alone and not isinstance(value, (tuple, list)):
            refuse(who, name, value, "is not a list", f"one of several objects, as [{self.example}]")
        if self.several and isinstance(value, (tuple, list)):
            for k, each in enumerate(value):
                self._check_one(who, f"{name}[{k}]", each)
        else:
            self._check_one(who, name, value)

    def _check_one(self, who, name, value):
        remedy = f"an object, as {self.example}" + ", or None" * self.optional
        if isinstance(value, type):
            refuse(who, name, value, "is a class", f"an object of it, as {value.__name__}(...) makes")
        if isinstance(value, str):
            refuse(who, name, value, "is a name, as experiment files have it", remedy)
        missing = [method for method in self.methods if not hasattr(value, method)]
        if missing:
            why = "is a number" if isinstance(value, numbers.Number) else f"does not fit, it has no {missing[0]!r}"
            refuse(who, name, value, why, remedy)


@dataclasses.dataclass(frozen=True)
class Moment:
    """The rule of a datetime, or None."""

    def check(self, who: str, name: str, value: object) -> None:
        if value is not None and not isinstance(value, datetime.datetime):
            refuse(who, name, value, "is not a date and time", "a datetime.datetime in UTC, or None")


def in_utc(moment: datetime.datetime) -> datetime.datetime:
    """A date and time in UTC, without a time zone; one without a time zone is in UTC already."""
    return moment if moment.tzinfo is None else moment.astimezone(datetime.UTC).replace(tzinfo=None)


@dataclasses.dataclass(frozen=True)
class Stages:
    """The rule of a number of stages per exchange, or "auto"."""

    def check(self, who: str, name: str, value: object) -> None:
        if isinstance(value, str) and value == "auto":
            return
        Number(None, "stages", minimum=1, whole=True, hint=', or "auto"').check(who, name, value)


@dataclasses.dataclass(frozen=True)
class FileName(Rule):
    """The rule of the name of a file, as text or a path."""

    def _check(self, who, name, value):
        if not isinstance(value, (str, os.PathLike)):
            refuse(who, name, value, "is not the name of a file", "one, as 'output.nc'")
        expanded(value)


@dataclasses.dataclass(frozen=True)
class Names(Rule):
    """The rule of one or more names, each given once."""

    def _check(self, who, name, value):
        if isinstance(value, str) or not isinstance(value, collections.abc.Collection):
            refuse(who, name, value, "is not a tuple of names", "some, as 'eta' and 'u'")
        for each in value:
            if not isinstance(each, str):
                refuse(who, name, value, f"holds {shown(each)}, which is not a name", "names, as 'eta' and 'u'")
        if not value:
            refuse(who, name, value, "holds no name", "one or more, as 'eta' and 'u'")
        if twice := [each for each, count in collections.Counter(value).items() if count > 1]:
            refuse(who, name, value, f"holds {shown(twice[0])} more than once", "each name once")


@dataclasses.dataclass(frozen=True)
class Sides(Rule):
    """The rule of one or more sides of the domain."""

    def _check(self, who, name, value):
        sides = self.tuple_of(value)
        if not sides or any(side not in SIDES for side in sides) or len(set(sides)) < len(sides):
            refuse(who, name, sides, f"are not among {', '.join(SIDES)}", "one or more of these, each once")

    @staticmethod
    def tuple_of(value: Any) -> tuple:
        """Sides as a tuple, also where a single one is given as text."""
        return (value,) if isinstance(value, str) or not hasattr(value, "__iter__") else tuple(value)


@dataclasses.dataclass(frozen=True)
class Places:
    """The rule of places, {name: (x, y)}."""

    def check(self, who: str, name: str, value: object) -> None:
        if not isinstance(value, collections.abc.Mapping) or not value:
            refuse(who, name, value, "is not a dict of places", "one, as {'Lisbon': (x, y)}")
        for key, place in value.items():
            POINT.check(who, f"{name}[{key!r}]", place)


@dataclasses.dataclass(frozen=True)
class Points(Rule):
    """The rule of one point (x, y) or several, in the grid's coordinates."""

    def _check(self, who, name, value):
        points = self.tuple_of(value)
        if not isinstance(points, tuple) or not points:
            refuse(who, name, value, "is not a point", "(x, y), or several of them")
        for k, point in enumerate(points):
            POINT.check(who, f"{name}[{k}]", point)

    @staticmethod
    def tuple_of(value: object) -> object:
        """Points as a tuple of pairs, also where a single one is given; what is no list as it is."""
        if isinstance(value, NOT_NUMBERS) or not isinstance(value, collections.abc.Collection):
            return value
        single = len(value) == 2 and all(isinstance(each, (numbers.Real, str)) for each in value)
        points = [value] if single else value
        return tuple(tuple(each) if isinstance(each, (list, np.ndarray)) else each for each in points)


@dataclasses.dataclass(frozen=True)
class Concentrations:
    """The rule of concentrations of tracers, {name: concentration}."""

    def check(self, who: str, name: str, value: object) -> None:
        if not isinstance(self.tuple_of(value), tuple):
            refuse(who, name, value, "is no dict of concentrations", "{name of a tracer: concentration}")
        for key, each in self.tuple_of(value):
            Number(None, "the tracer's units").check(who, f"{name}[{key!r}]", each)

    @staticmethod
    def tuple_of(value: object) -> Any:
        """((name, concentration), ...) of a dict of them; anything else as it is."""
        return tuple(value.items()) if isinstance(value, collections.abc.Mapping) else value


# -- where they are declared ------------------------------------------------------------------------------------------


def parameter(
    position: str | None = None,
    units: str = "1",
    *,
    default: object = dataclasses.MISSING,
    static: bool = False,
    required: bool = False,
    **limits: Any,
) -> Any:
    """Declare a parameter of a part of a model, on its class: `rate: Any = parameter("h", "s-1")`.

    Args:
        position: "h", "u", "v" or "q" for a parameter that may vary in space; None for plain numbers.
        units: SI.
        default: the default value.
        static: whether programs are compiled for its value; it then has no derivative.
        required: whether experiment files must give it although there is a default.
        limits: further arguments of Number: minimum, above, maximum, below, steady, halo, differentiable, doc, ...
    """
    if position is not None:
        Choice(("h", "u", "v", "q")).check("parameter", "position", position)
    return declared(Number(position, units, **limits), default=default, static=static, required=required)


DERIVED = {"derived": True}
"""The metadata of a field of a part that its `on_tile` sets: it is no key of experiment files, and no control."""
OF_GRID = DERIVED | {"of_grid": True}
"""The metadata of a derived field that depends on the grid alone, so that restarts need not compare it."""


def declared(
    rule: object,
    *,
    default: object = dataclasses.MISSING,
    static: bool = False,
    required: bool = False,
    kw_only: bool = False,
    doc: str = "",
) -> Any:
    """Declare a field of a dataclass with a rule (a Number, Flag, Choice, Text, Pair, Part, ...) and a description."""
    metadata = {"rule": rule, "static": static, "required": required, "doc": doc or getattr(rule, "doc", "")}
    return dataclasses.field(default=default, metadata=metadata, kw_only=kw_only)


def has_rules(cls: type) -> bool:
    """Whether the body of a class, not yet a dataclass, declares fields with rules."""
    return any(isinstance(x, dataclasses.Field) and "rule" in x.metadata for x in vars(cls).values())


def check_fields(instance: Any) -> None:
    """Raise ConfigError if the value of a field of a dataclass breaks its rule; the message names class and field."""
    for field in dataclasses.fields(instance):
        if "rule" in field.metadata:
            field.metadata["rule"].check(type(instance).__name__, field.name, getattr(instance, field.name))


def check_arguments(who: str, rules: dict, values: dict) -> None:
    """Raise ConfigError if an argument of the function `who` breaks its rule; `values` may hold others too."""
    for name, rule in rules.items():
        if name in values:
            rule.check(who, name, values[name])


def quantity_of_option(option: str, text: str, unit: str) -> float:
    """The value of an option in `unit`, 0 or more; raises ConfigError, with the name of the option in its message."""
    try:
        return Number(units=unit, minimum=0.0).read(text)
    except ValueError as error:
        raise ConfigError(ended(f"{option}: {error}")) from error
