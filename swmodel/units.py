"""Units: SI values of those that people write, `300 * km`, and the one reader of units and quantities that are text.

A quantity is a number and a product of units with whole exponents: "5 day", "300 km", "400 m2 s-1", "0.1 N m**-2",
"1/day". Files of data state their units in further spellings, as "metre second^-1" or "degrees_east", and may have
units that this module does not know: these are equal to themselves alone.
"""

import math
import re
from collections import Counter

from .errors import DataError, suggestion

minute = 60.0  # [s]
hour = 3600.0
day = 86400.0
year = 365.25 * day
km = 1000.0  # [m]
degree = 0.017453292519943295  # [rad]
Sv = 1.0e6  # [m3 s-1]

CONSTANTS = {name: value for name, value in vars().items() if isinstance(value, float)}


class QuantityError(ValueError):
    """An error of text that is not a quantity, or of a quantity with the wrong dimension."""


Dimension = tuple[tuple[str, int], ...]  # exponents of "m", "kg", "s", "degree", "B", and unknown units; none is 0
_LENGTH, _MASS, _TIME, _ARC, _NONE = (("m", 1),), (("kg", 1),), (("s", 1),), (("degree", 1),), ()
_BYTES = (("B", 1),)
_PRESSURE = (("kg", 1), ("m", -1), ("s", -2))
_METRES = {"m": ("", 1.0), "km": ("kilo", km), "cm": ("centi", 1e-2), "mm": ("milli", 1e-3)}
_HEADINGS = ("", "_east", "_north", "_e", "_n")
UNITS: dict[str, tuple[float, Dimension]] = {  # spelling: (value in the base units, exponents of these)
    **{symbol: (value, _LENGTH) for symbol, (_, value) in _METRES.items()},
    **{
        f"{prefix}{metre}": (value, _LENGTH)
        for prefix, value in _METRES.values()
        for metre in ("metre", "metres", "meter", "meters")
    },
    "nmile": (1852.0, _LENGTH),
    **{f"{prefix}B": (10.0**power, _BYTES) for prefix, power in (("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12))},
    **{f"{prefix}iB": (2.0**power, _BYTES) for prefix, power in (("K", 10), ("M", 20), ("G", 30))},
    **dict.fromkeys(("g", "gram"), (1e-3, _MASS)),
    **dict.fromkeys(("kg", "kilogram"), (1.0, _MASS)),
    **dict.fromkeys(("s", "sec", "second", "seconds"), (1.0, _TIME)),
    **dict.fromkeys(("min", "minute", "minutes"), (minute, _TIME)),
    **dict.fromkeys(("h", "hr", "hour", "hours"), (hour, _TIME)),
    **dict.fromkeys(("d", "day", "days"), (day, _TIME)),
    **dict.fromkeys(("yr", "year", "years"), (year, _TIME)),
    **{f"{name}{heading}": (1.0, _ARC) for name in ("deg", "degree", "degrees") for heading in _HEADINGS},
    **dict.fromkeys(("arcmin", "arcminute", "arcminutes", "arc_minute", "arc_minutes"), (1.0 / 60.0, _ARC)),
    **dict.fromkeys(("rad", "radian", "radians"), (1.0, _NONE)),
    **dict.fromkeys(("knot", "knots", "kt", "kts"), (1852.0 / hour, (("m", 1), ("s", -1)))),
    **dict.fromkeys(("N", "newton", "newtons"), (1.0, (("kg", 1), ("m", 1), ("s", -2)))),
    "dyn": (1e-5, (("kg", 1), ("m", 1), ("s", -2))),
    **dict.fromkeys(("Pa", "pascal", "pascals"), (1.0, _PRESSURE)),
    **dict.fromkeys(("hPa", "hectopascal", "hectopascals", "mb", "mbar", "millibar", "millibars"), (1e2, _PRESSURE)),
    "GPa": (1e9, _PRESSURE),
    "Sv": (Sv, (("m", 3), ("s", -1))),
}
_ANY_CASE = {name.lower(): unit for name, unit in UNITS.items() if len(name) > 1}  # "Metres", "hpa"
KINDS: dict[Dimension, str] = {
    _LENGTH: "a length",
    _TIME: "a time",
    _MASS: "a mass",
    _ARC: "an angle",
    _NONE: "a number without units",
    _BYTES: "a size of memory",
    (("m", 1), ("s", -1)): "a velocity",
    (("s", -1),): "a rate",
    (("m", 1), ("s", -2)): "an acceleration",
    (("m", 2), ("s", -1)): "a viscosity",
    _PRESSURE: "a stress",
    (("kg", 1), ("m", -3)): "a density",
}
LONGEST_QUANTITY = 100  # characters
LARGEST_POWER = 9  # of a unit
EXAMPLES = {"m": "300 km", "s": "5 day", "degree": "5 arcmin", "B": "2 GB"}

_NUMBER = re.compile(r"\s*([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?=\s|[^\W\d]|/|$)")
_FACTOR = re.compile(r"([*/·.]?)\s*([^\W\d]+|%)\s*(?:\*\*|\^)?\s*([+-]?\d+)?\s*(?!\*\*|\^)")


def quantity(text: str, unit: str) -> float:
    """A number with units, or without in the SI `unit`, as a float in that unit.

    Raises:
        QuantityError: for text that is not a quantity, an unknown unit, or the wrong dimension.
    """
    number = _NUMBER.match(text) if len(text) <= LONGEST_QUANTITY else None
    if not number:
        raise QuantityError(f"expected {_wanted(unit)}, got {text!r}")
    stated, amount = text[number.end() :].strip(), float(number[1].replace("_", ""))
    if stated in ("", unit):
        return amount
    factor, dimension = _product(stated)
    try:
        factor_wanted, dimension_wanted = _product(unit)
    except QuantityError as error:  # declared by a part of the user's own, or s m-1/3
        raise QuantityError(f"{text!r} cannot be converted to {unit!r}; give {_wanted(unit)}") from error
    if dimension_wanted == _ARC and _is_radian(stated):
        factor, dimension = math.degrees(1.0), _ARC
    if dimension != dimension_wanted:
        came = KINDS.get(dimension, "of another dimension")
        raise QuantityError(f"{text!r} is {came}; expected {_wanted(unit)}")
    return amount * factor / factor_wanted


class Coordinate(float):
    """A coordinate with the unit of the file: "m", "degree", or None for a bare number."""

    unit: str | None = None


def coordinate(text: str) -> Coordinate:
    """`text` as a Coordinate; raises QuantityError if it is none."""
    for unit in ("degree", "m"):
        try:
            found = Coordinate(quantity(text, unit))
        except QuantityError:
            continue
        found.unit = unit if re.search(r"[^\W\d]+\s*$", text) else None
        return found
    raise QuantityError(f"expected a coordinate (metres, or degrees on the sphere), got {text!r}")


def conversion(stated: str, unit: str) -> float | None:
    """The factor from the units that a file states, in any spelling, to `unit`; None if their dimensions differ."""
    stated = stated.strip()
    number = _NUMBER.match(stated)  # as in "0.01 m", or "1"
    try:
        factor, dimension = _product(stated[number.end() :] if number else stated, strict=False)
        factor_wanted, dimension_wanted = _product(unit.removeprefix("1"), strict=False)
    except QuantityError:
        return 1.0 if stated == unit else None
    if dimension_wanted == _ARC and _is_radian(stated):
        factor, dimension = math.degrees(1.0), _ARC
    factor *= float(number[1]) if number else 1.0
    return factor / factor_wanted if dimension == dimension_wanted else None


def check_units(who: str, stated: str, unit: str) -> None:
    """Raise DataError unless the units that a file states of `who` are the needed `unit`, in any spelling."""
    if conversion(stated, unit) != 1.0:
        raise DataError(f"{who} is in {stated!r}, and must be in {unit!r}; convert its values and its units.")


def _is_radian(text):
    """Whether units are radians, which are a number except where an angle is wanted: "1e-4 rad/s" is a rate."""
    return text.lower() in ("rad", "radian", "radians")


def _wanted(unit):
    try:
        kind = KINDS.get(_product(unit)[1], "a quantity")
    except QuantityError:
        kind = "a number"
    if not unit:
        return kind
    return f"{kind} in {unit}, as a number or as in '{EXAMPLES.get(unit, '1 ' + unit)}'"


def _product(text: str, strict: bool = True) -> tuple[float, Dimension]:
    """(value in base units, exponents) of a product of units; unless `strict`, with the spellings of files of data."""
    factor, exponents, position = 1.0, Counter(), 0
    text = text if strict else text.strip().strip("()")
    while position < len(text):
        match = _FACTOR.match(text, position)
        if not match:
            raise QuantityError(f"cannot read the units {text!r}; write them as in 'm2 s-1'")
        operator, symbol, power = match.groups()
        if strict and symbol not in UNITS:
            raise QuantityError(f"unknown unit {symbol!r}; {suggestion(symbol, UNITS, '')}".removesuffix("; "))
        power = int(power or 1) * (-1 if operator == "/" else 1)
        if abs(power) > LARGEST_POWER:
            raise QuantityError(f"cannot read the units {text!r}; exponents are at most {LARGEST_POWER}")
        value, dimension = UNITS.get(symbol) or _ANY_CASE.get(symbol.lower()) or (1.0, ((symbol, 1),))
        factor *= value**power
        for base, exponent in dimension:
            exponents[base] += power * exponent
        position = match.end()
    return factor, tuple(sorted((base, exponent) for base, exponent in exponents.items() if exponent))


def as_product(value: object) -> str:
    """Text on how to write a quantity such as "3 days" in Python: ", as 3 * sw.units.day"; "" for any other value."""
    match = re.fullmatch(r"\s*([+-]?[\d.]+(?:e[+-]?\d+)?)\s*([a-zA-Z]+?)s?\s*", value if isinstance(value, str) else "")
    names = [name for name in CONSTANTS if match is not None and name.startswith(match[2]) and match[2] != "m"]
    return f", as {match[1]} * sw.units.{names[0]}" if match is not None and names else ""


# -- in words ---------------------------------------------------------------------------------------------------------


def duration(seconds: float) -> str:
    """Seconds in the units that people would use: "2 h 05 min", "5 min", "3.2 years"."""
    seconds = max(float(seconds), 0.0)
    if seconds < minute:
        return f"{round(seconds, 1):g} s" if seconds >= 10 else f"{seconds:.2g} s"
    for limit, large, small in ((hour, "min", "s"), (2 * day, "h", "min")):
        if seconds < limit:
            unit = minute if large == "min" else hour
            whole, rest = divmod(round(seconds / unit * 60), 60)
            return f"{whole} {large}" + (f" {rest:02d} {small}" if rest else "")
    return (
        f"{_short(seconds / day)} days" if seconds < year else f"{_short(seconds / year)} year{'s' * (seconds != year)}"
    )


def _short(value):
    return f"{value:.2f}".rstrip("0").rstrip(".")


def rounded(value: float) -> str:
    """Three digits of a number, or two and zeros if it is large."""
    return f"{value:.3g}" if value < 1000 else f"{float(f'{value:.2g}'):.0f}"
