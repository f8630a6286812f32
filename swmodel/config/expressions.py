"""Formulas in experiment files: "-0.1 * cos(2 * pi * y / (2000 * km))". Arithmetic and nothing else.

Names are the coordinates (x, y in metres on a plane; longitude, latitude in degrees on the sphere), `pi`, the units of
`swmodel.units`, and the functions below. The text is parsed to a syntax tree of which only these parts are allowed, so
an experiment file cannot run anything.
"""

import ast
import dataclasses
import difflib

from .. import units

__all__ = ["Expression", "ExpressionError"]

FUNCTIONS = {
    "sin": "sin", "cos": "cos", "tan": "tan", "exp": "exp", "log": "log", "sqrt": "sqrt", "abs": "abs",
    "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "arctan": "arctan", "arctan2": "arctan2", "sign": "sign",
    "minimum": "minimum", "maximum": "maximum", "where": "where", "radians": "deg2rad", "degrees": "rad2deg",
}  # fmt: skip
CONSTANTS = {"pi": 3.141592653589793} | {name: value for name, value in vars(units).items() if isinstance(value, float)}
COORDINATES = {False: ("x", "y"), True: ("longitude", "latitude")}
_OPERATORS = (
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.Mod, ast.USub, ast.UAdd,
    ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.BitAnd, ast.BitOr,
)  # fmt: skip
_NODES = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.Call, ast.Name, ast.Constant, ast.Compare, ast.Load)


class ExpressionError(ValueError):
    """Text that is no formula of the coordinates."""


@dataclasses.dataclass(frozen=True)
class Expression:
    """A formula; call it with the two coordinates (arrays that broadcast) to get its values.

    Raises:
        ExpressionError: where the text is not arithmetic, or uses a name that no grid gives.
    """

    text: str

    def __post_init__(self):
        for node in ast.walk(_parse(self.text)):
            _check(node, self.text)
        self._try()

    def _try(self):
        import numpy as np

        try:
            with np.errstate(all="ignore"):
                result = self(np.full((1, 1), 0.5), np.full((1, 1), 0.5))
            np.broadcast_to(np.asarray(result, float), (1, 1))
        except (TypeError, ValueError, ArithmeticError) as error:
            raise ExpressionError(f"{self.text!r} cannot be evaluated: {error}") from error

    @property
    def names(self):
        """The coordinates it uses."""
        found = {node.id for node in ast.walk(_parse(self.text)) if isinstance(node, ast.Name)}
        return found & {name for names in COORDINATES.values() for name in names}

    def unknown_on(self, spherical):
        """The coordinates it uses that such a grid does not have."""
        return self.names - set(COORDINATES[spherical])

    def __call__(self, x, y):
        import numpy as np

        x, y = np.asarray(x, float), np.asarray(y, float)
        names = {name: value for pair in COORDINATES.values() for name, value in zip(pair, (x, y))}
        names |= CONSTANTS | {name: getattr(np, function) for name, function in FUNCTIONS.items()}
        code = compile(_parse(self.text), "<formula>", "eval")
        return eval(code, {"__builtins__": {}}, names)  # noqa: S307 - only the nodes and names checked above


def _parse(text):
    try:
        tree = ast.parse(text.strip().replace("^", "**"), mode="eval")
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and type(node.value) is int:
                node.value = float(node.value)  # whole numbers could grow without end
        return tree
    except (SyntaxError, ValueError, RecursionError, OverflowError) as error:
        raise ExpressionError(
            f"{text!r} is not a formula; write one as in '-0.1 * cos(2 * pi * y / (2000 * km))'"
        ) from error


def _check(node, text):
    if isinstance(node, ast.Name):
        known = [name for names in COORDINATES.values() for name in names] + [*CONSTANTS, *FUNCTIONS]
        if node.id not in known:
            near = difflib.get_close_matches(node.id, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(known))}"
            raise ExpressionError(f"{text!r} uses the unknown name {node.id!r}; {hint}")
    elif isinstance(node, ast.Call):
        name = getattr(node.func, "id", None)
        if name not in FUNCTIONS or node.keywords:
            near = difflib.get_close_matches(str(name), FUNCTIONS, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"the functions are {', '.join(sorted(FUNCTIONS))}"
            raise ExpressionError(f"{text!r} calls {name or 'something'!r}, which is no function here; {hint}")
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, bool) or not isinstance(node.value, (int, float)):
            raise ExpressionError(f"{text!r} holds {node.value!r}, which is not a number")
    elif not isinstance(node, _NODES + _OPERATORS):
        raise ExpressionError(f"{text!r} holds more than arithmetic, which is not allowed in an experiment file")
