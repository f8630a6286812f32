"""Formulas and numbers with units in experiment files.

A formula is "-0.1 * cos(2 * pi * y / (2000 * km))". Only arithmetic is allowed.

Names are the coordinates (x, y in metres on a plane; longitude, latitude in degrees on the sphere), `pi`, the units of
`swmodel.units`, and the functions below; where values change in time, also t, the seconds of the run. The text is
parsed to a syntax tree, and only these nodes are allowed, so that an experiment file cannot run code.

A number with its unit is "5 day", "300 km", "0.1 N m-2" or "1year". A quantity is a number and a product of units with
whole exponents ("m2 s-1", "m^2/s", "N m**-2"). A bare number is in the SI unit, or in degrees for longitude and
latitude. The result is a float in that unit.
"""

import ast
import dataclasses
import math
import operator
import re
from typing import Any, cast

import numpy as np

from .. import units
from ..errors import ConfigError, suggestion
from ..fields import parameters as rules

FUNCTIONS = {  # name: (numpy's, number of arguments)
    "sin": ("sin", 1), "cos": ("cos", 1), "tan": ("tan", 1), "exp": ("exp", 1), "log": ("log", 1), "sqrt": ("sqrt", 1),
    "abs": ("abs", 1), "sinh": ("sinh", 1), "cosh": ("cosh", 1), "tanh": ("tanh", 1), "arctan": ("arctan", 1),
    "arctan2": ("arctan2", 2), "sign": ("sign", 1), "minimum": ("minimum", 2), "maximum": ("maximum", 2),
    "where": ("where", 3), "radians": ("deg2rad", 1), "degrees": ("rad2deg", 1),
}  # fmt: skip
OPERATORS = {  # node of the syntax tree: numpy's function
    ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide", ast.Pow: "power", ast.Mod: "mod",
    ast.USub: "negative", ast.UAdd: "positive", ast.Lt: "less", ast.LtE: "less_equal", ast.Gt: "greater",
    ast.GtE: "greater_equal", ast.BitAnd: "logical_and", ast.BitOr: "logical_or",
}  # fmt: skip
CONSTANTS = {"pi": 3.141592653589793} | {name: value for name, value in vars(units).items() if isinstance(value, float)}
COORDINATES = {False: ("x", "y"), True: ("longitude", "latitude")}
TIME = "t"
LONGEST = 4000  # characters
DEEPEST = 200  # nodes of the syntax tree inside one another; a sum of n terms is n deep
EXAMPLE = "write one as in '-0.1 * cos(2 * pi * y / (2000 * km))'"


class ExpressionError(ValueError):
    """An error of text that is not a formula of the coordinates."""


@dataclasses.dataclass(frozen=True)
class Expression:
    """A formula; call it with the two coordinates (arrays that broadcast) to get its values.

    Args:
        text: of the formula.
        in_time: whether it may use the time t, too, with which it is then called [s].

    Raises:
        ExpressionError: if the text is not arithmetic, is too long, calls a function with a wrong number of arguments,
            or uses a name that no grid has.
    """

    text: str
    in_time: bool = False

    def __post_init__(self):
        if len(self.text) > LONGEST:
            raise ExpressionError(
                f"a formula of {len(self.text):,} characters is too long; use at most {LONGEST:,}, or a file"
            )
        nodes = [(_parse(self.text), 1)]
        while nodes:
            node, depth = nodes.pop()
            if depth > DEEPEST:
                raise ExpressionError(
                    f"{self.text!r} is nested more than {DEEPEST} operations deep; write it shorter, or use a file"
                )
            if not (self.in_time and isinstance(node, ast.Name) and node.id == TIME):
                _check(node, self.text)
            inside = node.args if isinstance(node, ast.Call) else ast.iter_child_nodes(node)
            nodes += [(child, depth + 1) for child in inside]
        if not self.names and not self.in_time and not math.isfinite(self(0.0, 0.0)):
            raise ExpressionError(f"{self.text!r} is not a finite number; {EXAMPLE}")

    @property
    def names(self) -> set[str]:
        """The coordinates that the formula uses."""
        found = {node.id for node in ast.walk(_parse(self.text)) if isinstance(node, ast.Name)}
        return found & {name for names in COORDINATES.values() for name in names}

    def unknown_on(self, spherical: bool) -> set[str]:
        """The coordinates that the formula uses and that a grid of this kind does not have."""
        return self.names - set(COORDINATES[spherical])

    def __call__(self, x: Any, y: Any, t: float = 0.0) -> Any:
        """Values of the formula, not finite where it is not defined; the arrays x and y are not changed."""
        x, y = np.asarray(x, float), np.asarray(y, float)
        names = {name: value for pair in COORDINATES.values() for name, value in zip(pair, (x, y))} | {TIME: t}
        with np.errstate(all="ignore"):
            return np.array(_value(_parse(self.text), {**CONSTANTS, **names}, np), float)


def _value(node: Any, names: dict[str, Any], np: Any) -> Any:
    """The value of a node that has been checked. Every function makes a new array and leaves its operands unchanged."""
    if isinstance(node, ast.Constant):
        return np.float64(node.value)
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.Call):
        function, operands = FUNCTIONS[cast(ast.Name, node.func).id][0], node.args
    elif isinstance(node, ast.UnaryOp):
        function, operands = OPERATORS[type(node.op)], [node.operand]
    elif isinstance(node, ast.BinOp):
        function, operands = OPERATORS[type(node.op)], [node.left, node.right]
    else:
        function, operands = OPERATORS[type(node.ops[0])], [node.left, node.comparators[0]]
    values = [_value(operand, names, np) for operand in operands]
    return np.asarray(getattr(np, function)(*values), float)  # true is 1, false is 0


def _parse(text):
    try:
        tree = ast.parse(text.strip().replace("^", "**"), mode="eval").body
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and type(node.value) is int:
                node.value = float(node.value)
        return tree
    except (SyntaxError, ValueError, RecursionError, OverflowError, MemoryError):
        raise ExpressionError(f"{text!r} is not a formula; {EXAMPLE}") from None


def _check(node, text):
    """Raise ExpressionError if a node of the syntax tree is not allowed."""
    if isinstance(node, ast.Name):
        _check_name(node.id, text)
    elif isinstance(node, ast.Call):
        _check_call(node, text)
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, bool) or not isinstance(node.value, (int, float)):
            raise ExpressionError(f"{text!r} contains {node.value!r}, which is not a number; {EXAMPLE}")
    elif isinstance(node, ast.Compare):
        if len(node.ops) > 1:
            raise ExpressionError(f"{text!r} compares more than two values; join two by &, as in (0 < x) & (x < 9)")
    elif not isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Load, *OPERATORS)):
        raise ExpressionError(f"{text!r} contains more than arithmetic, which an experiment file must not; {EXAMPLE}")


def _check_name(name, text):
    known = [name for names in COORDINATES.values() for name in names] + [*CONSTANTS]
    if name in FUNCTIONS:
        raise ExpressionError(f"{text!r} uses the function {name} without arguments in brackets; write {name}(...)")
    if name not in known:
        hint = suggestion(name, known, f"known are {', '.join(sorted(known))}")
        if name == TIME:
            hint = f"a forcing or side that changes in time is a table, {{formula = {text!r}}}"
        raise ExpressionError(f"{text!r} uses the unknown name {name!r}; {hint}")


def _check_call(node, text):
    name = getattr(node.func, "id", None)
    if name not in FUNCTIONS:
        hint = suggestion(str(name), FUNCTIONS, f"the functions are {', '.join(sorted(FUNCTIONS))}")
        raise ExpressionError(f"{text!r} calls {name or 'something'!r}, which is not a function of formulas; {hint}")
    wanted, given = FUNCTIONS[name][1], len(node.args)
    if node.keywords or given != wanted or any(isinstance(argument, ast.Starred) for argument in node.args):
        count = f"{given} argument{'s' * (given != 1)}" if not node.keywords else "arguments by name"
        raise ExpressionError(f"{text!r} gives {name} {count}; it takes {wanted}, and values only")


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
LONGEST_QUANTITY = 100  # characters
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
    number = _NUMBER.match(value) if len(value) <= LONGEST_QUANTITY else None
    if not number:
        raise QuantityError(f"expected {_wanted(unit)}, got {value!r}")
    text = value[number.end() :].strip()
    amount = float(number[1].replace("_", ""))
    if text in ("", unit):
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
            raise QuantityError(f"unknown unit {symbol!r}; {suggestion(symbol, UNITS, '')}".removesuffix("; "))
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
