"""Formulas in experiment files.

A formula is "-0.1 * cos(2 * pi * y / (2000 * km))". Only arithmetic is allowed.

Names are the coordinates (x, y in metres on a plane; longitude, latitude in degrees on the sphere), `pi`, the units of
`swmodel.units`, and the functions below; where values change in time, also t, the seconds of the run. The text is
parsed to a syntax tree, and only these nodes are allowed, so that an experiment file cannot run code.
"""

import ast
import dataclasses
import math
from typing import Any, cast

import numpy as np

from .. import units
from ..errors import suggestion

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
CONSTANTS = {"pi": math.pi, **units.CONSTANTS}
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
