"""Numbers with units in experiment files: "5 day", "300 km", "0.1 N m-2", "1year".

A quantity is a number and a product of units with whole exponents ("m2 s-1", "m^2/s", "N m**-2"). A bare number is in
the SI unit, or in degrees for longitude and latitude. The result is a float in that unit.
"""

import difflib
import math
import operator
import re
from typing import Any

from .. import units
from ..errors import ConfigError
from ..fields import parameters as rules


class QuantityError(ValueError):
    """An error of text that is not a quantity, or of a quantity with the wrong dimension."""


# Symbol: (value in the base units, exponents of metre, kilogram, second, degree of arc).
_LENGTH, _MASS, _TIME, _ARC, _NONE = (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1), (0, 0, 0, 0)
UNITS = {
    **dict.fromkeys(("m", "metre", "metres", "meter", "meters"), (1.0, _LENGTH)),
    **dict.fromkeys(("km", "kilometre", "kilometres", "kilometer", "kilometers"), (units.km, _LENGTH)),
    "cm": (1e-2, _LENGTH),
    "mm": (1e-3, _LENGTH),
    **dict.fromkeys(("g", "gram"), (1e-3, _MASS)),
    **dict.fromkeys(("kg", "kilogram"), (1.0, _MASS)),
    **dict.fromkeys(("s", "sec", "second", "seconds"), (1.0, _TIME)),
    **dict.fromkeys(("min", "minute", "minutes"), (units.minute, _TIME)),
    **dict.fromkeys(("h", "hr", "hour", "hours"), (units.hour, _TIME)),
    **dict.fromkeys(("d", "day", "days"), (units.day, _TIME)),
    **dict.fromkeys(("yr", "year", "years"), (units.year, _TIME)),
    **dict.fromkeys(("deg", "degree", "degrees", "degree_east", "degree_north"), (1.0, _ARC)),
    **dict.fromkeys(("arcmin", "arcminute", "arcminutes"), (1.0 / 60.0, _ARC)),
    "rad": (1.0, _NONE),
    "N": (1.0, (1, 1, -2, 0)),
    "Pa": (1.0, (-1, 1, -2, 0)),
    "hPa": (1e2, (-1, 1, -2, 0)),
    "GPa": (1e9, (-1, 1, -2, 0)),
    "Sv": (units.Sv, (3, 0, -1, 0)),
}
KINDS: dict[tuple[int, ...], str] = {
    _LENGTH: "a length",
    _TIME: "a time",
    _MASS: "a mass",
    _ARC: "an angle",
    _NONE: "a number without units",
    (1, 0, -1, 0): "a velocity",
    (0, 0, -1, 0): "a rate",
    (1, 0, -2, 0): "an acceleration",
    (2, 0, -1, 0): "a viscosity",
    (-1, 1, -2, 0): "a stress",
    (-3, 1, 0, 0): "a density",
}
SMALLEST, LARGEST = 1e-30, 1e30  # a margin for products of quantities in single precision
LONGEST = 100  # characters
LARGEST_POWER = 9  # of a unit
EXAMPLES = {"m": "300 km", "s": "5 day", "degree": "5 arcmin"}

_NUMBER = re.compile(r"\s*([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?=\s|[^\W\d]|/|$)")
_FACTOR = re.compile(r"([*/·]?)\s*([^\W\d]+)\s*(?:\*\*|\^)?\s*([+-]?\d+)?\s*(?!\*\*|\^)")


def quantity(value: object, unit: str) -> float:
    """`value` (a number, or a string with units) as a float in the SI `unit`.

    Raises:
        QuantityError: for text that is not a quantity, an unknown unit, or the wrong dimension.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise QuantityError(f"expected {_wanted(unit)}, got {value!r}")
    if not isinstance(value, str):
        return _in_range(value, value)
    number = _NUMBER.match(value) if len(value) <= LONGEST else None
    if not number:
        raise QuantityError(f"expected {_wanted(unit)}, got {value!r}")
    text = value[number.end() :].strip()
    amount = float(number[1].replace("_", ""))
    if not text:
        return _in_range(amount, value)
    if text == unit:
        return _in_range(amount, value)
    factor, dimension = _product(text)
    try:
        factor_wanted, dimension_wanted = _product(unit)
    except QuantityError as error:  # declared by a part of the user's own, or s m-1/3
        raise QuantityError(f"{value!r} cannot be converted to {unit!r}; give {_wanted(unit)}") from error
    if dimension_wanted == _ARC and text in ("rad", "radian", "radians"):  # elsewhere a number: "1e-4 rad/s" is a rate
        factor, dimension = math.degrees(1.0), _ARC
    if dimension != dimension_wanted:
        came = KINDS.get(dimension, "of another dimension")
        raise QuantityError(f"{value!r} is {came}; expected {_wanted(unit)}")
    return _in_range(amount * factor / factor_wanted, value)


def _in_range(number, value):
    """`number` as a float; raises QuantityError if it is too large or too small for single precision."""
    if number != 0 and not SMALLEST <= abs(number) <= LARGEST:
        finite = not isinstance(number, float) or math.isfinite(number)
        what = ("too large" if abs(number) > LARGEST else "too small") if finite else "not a finite number"
        raise QuantityError(
            f"{value!r} is {what}; numbers in SI units must be 0, or between {SMALLEST:g} and {LARGEST:g} in size"
        )
    return float(number)


def _wanted(unit):
    try:
        kind = KINDS.get(_product(unit)[1], "a quantity")
    except QuantityError:
        kind = "a number"
    if not unit:
        return kind
    return f"{kind} in {unit}, as a number or as in '{EXAMPLES.get(unit, '1 ' + unit)}'"


def _product(text: str) -> tuple[float, tuple[int, ...]]:
    """(value in base units, exponents) of a product of units."""
    factor, exponents, position = 1.0, [0, 0, 0, 0], 0
    while position < len(text):
        match = _FACTOR.match(text, position)
        if not match:
            raise QuantityError(f"cannot read the units {text!r}; write them as in 'm2 s-1'")
        operator, symbol, power = match.groups()
        if symbol not in UNITS:
            near = difflib.get_close_matches(symbol, UNITS, 1)
            raise QuantityError(f"unknown unit {symbol!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        power = int(power or 1) * (-1 if operator == "/" else 1)
        if abs(power) > LARGEST_POWER:
            raise QuantityError(f"cannot read the units {text!r}; exponents are at most {LARGEST_POWER}")
        value, dimension = UNITS[symbol]
        factor *= value**power
        exponents = [e + power * d for e, d in zip(exponents, dimension)]
        position = match.end()
    return factor, tuple(exponents)


class Coordinate(float):
    """A coordinate with the unit of the file: "m", "degree", or None for a bare number."""

    unit: str | None = None


def coordinate(value: object) -> Coordinate:
    """`value` as a Coordinate; raises QuantityError if it is none."""
    if isinstance(value, Coordinate):
        return value
    if not isinstance(value, str):
        return Coordinate(quantity(value, ""))
    for unit in ("degree", "m"):
        try:
            found = Coordinate(quantity(value, unit))
        except QuantityError:
            continue
        found.unit = unit if re.search(r"[^\W\d]+\s*$", value) else None
        return found
    raise QuantityError(f"expected a coordinate (metres, or degrees on the sphere), got {value!r}")


def whole(value: object) -> int:
    """`value`, a whole number; raises ValueError if it is none."""
    if type(value) is not int:
        raise ValueError(f"expected a whole number, got {value!r}")
    return value


def read_number(rule: rules.Number, value: Any) -> Any:
    """A number in the units and within the limits of a rule.

    Raises:
        ValueError: for any other value.
    """
    if rule.units == rules.COORDINATES:
        return coordinate(value)
    return within(rule, whole(value) if rule.whole else quantity(value, "" if rule.units == "1" else rule.units))


def within(rule: rules.Number, value: float) -> float:
    """`value`; raises ValueError if it is beyond the limits of a rule."""
    for limit, text, wrong in (
        (rule.above, "greater than", operator.le),
        (rule.minimum, "at least", operator.lt),
        (rule.below, "less than", operator.ge),
        (rule.maximum, "at most", operator.gt),
    ):
        if limit is not None and wrong(value, limit):
            raise ValueError(f"must be {text} {limit:g}, got {value!r}")
    return value


def quantity_of_option(option: str, text: str, unit: str) -> float:
    """The value of a command-line option in `unit`; raises ConfigError, with the name of the option in its message."""
    try:
        return quantity(text, unit)
    except QuantityError as error:
        raise ConfigError(f"{option}: {error}.") from error
