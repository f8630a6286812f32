"""Methods of parts that a user has written: an error, or a result of the wrong kind, names class, method and line.

    Relaxation.__call__ (relaxation.py:14): LayerFlow has no 'speeed'; did you mean 'speed'?
    Relaxation.__call__ (relaxation.py:13) returned None; return a pair, du/dt at u points and dv/dt at v points.

A base class gives in `results` what its methods return. `name_mistakes` replaces the methods that a class from outside
this package has in place of those of its base classes, once, when the class is defined. They are called while programs
are traced, so that steps take no longer.
"""

import dataclasses
import functools
import inspect
import math
import numbers
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import ConfigError, suggestion
from ..runtime.packages import is_shipped
from .field import AbstractField, FieldError
from .parameters import shown

TRACED = (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError)


@dataclasses.dataclass(frozen=True)
class Result:
    """What a method returns.

    Attributes:
        wanted: the result in words.
        wrong: a function of a result and of the arguments of the call: what came instead in words, or None.
    """

    wanted: str
    wrong: Callable[[Any, tuple], str | None]


def name_mistakes(cls: type) -> None:
    """Let the methods that a class has in place of those of its base classes name their mistakes.

    Raises:
        ConfigError: for something else in place of a method.
    """
    bases = [base for base in cls.__mro__[1:] if is_shipped(base) and base is not object]
    results = {name: result for base in reversed(bases) for name, result in vars(base).get("results", {}).items()}
    for name, method in list(vars(cls).items()):
        inherited = [vars(base)[name] for base in bases if name in vars(base)]
        replaced = next((one for one in inherited if isinstance(one, types.FunctionType)), None)
        if replaced is not None and not (callable(method) or hasattr(method, "__get__") or name == "__hash__"):
            wanted = f"define the method {name}{_signature(replaced)}"
            raise ConfigError(f"{cls.__name__}.{name} is {_named(method)}; {wanted}.")
        if inherited and isinstance(method, types.FunctionType) and name not in ("__init__", "__new__"):
            setattr(cls, name, _naming(method, results.get(name), inherited[0]))


def _naming(method, result, inherited):
    """The method with errors and results that name it."""
    code = method.__code__

    @functools.wraps(method)
    def call(self, *arguments, **named):
        before = [dict(vars(value)) for value in arguments if result is not None and hasattr(value, "__dict__")]
        try:
            value = method(self, *arguments, **named)
        except (Exception, SystemExit) as error:
            if is_shipped(type(error)) and not isinstance(error, FieldError):
                raise
            line = _line(error, code.co_filename)
            raise _mistake(self, method, line, f": {_explained(error, line, inherited)}") from error
        if name := _changed(before, arguments):
            why = "the other parts read it, too; return what this one adds"
            raise _mistake(self, method, code.co_firstlineno, f" changed {name}; {why}.")
        what = None if result is None else result.wrong(value, arguments)
        if result is not None and what is not None:
            raise _mistake(self, method, code.co_firstlineno, f" returned {what}; return {result.wanted}.")
        return value

    return call


def _changed(before, arguments):
    """The name of an attribute of an argument that is no longer what it was, as "LayerFlow.u"; None without one."""
    now = (value for value in arguments if hasattr(value, "__dict__"))
    for old, value in zip(before, now):
        for name, was in old.items():
            if vars(value).get(name) is not was:
                return f"{type(value).__name__}.{name}"
    return None


def _mistake(part, method, line, text):
    cls = type(part)
    file = Path(method.__code__.co_filename).name
    place = f"{file}:{line}" if line else file
    error = ConfigError(f"{cls.__name__}.{method.__name__} ({place}){text}")
    error.part = f"{cls.__module__}:{cls.__qualname__}"
    return error


def _line(error, file):
    """The number of the innermost line of a file in the traceback of an error; None if there is none."""
    lines, trace = [None], error.__traceback__
    while trace is not None:
        lines += [trace.tb_lineno] * (trace.tb_frame.f_code.co_filename == file)
        trace = trace.tb_next
    return lines[-1]


def _explained(error, line, inherited):
    """An error in a sentence, with a remedy where there is a usual one."""
    text = str(error).strip().partition("\n")[0]
    kind = type(error).__name__
    if isinstance(error, TRACED):
        return (
            "a value that is known only while the steps run cannot choose a branch, be a Python number or be given to "
            "numpy; use jnp.where in place of if, and jnp in place of np."
        )
    if isinstance(error, FieldError):
        return text
    if isinstance(error, dataclasses.FrozenInstanceError):
        return f"{text}: a part cannot change; what changes in a run belongs to the state, or to a stepper's history."
    if isinstance(error, AttributeError) and error.name and not inspect.ismodule(error.obj):
        return _unknown_attribute(error, text)
    if isinstance(error, TypeError) and "Field" in text:
        return f"{text}; functions of values go through map, as in flow.u.map(jnp.sin)."
    if line is None and isinstance(error, TypeError) and inspect.isfunction(inherited):
        return f"it takes other arguments; define it as {inherited.__name__}{_signature(inherited)}."
    return f"{kind}: {text}".rstrip(": ") + "."


def _unknown_attribute(error, text):
    if not text.startswith(f"{type(error.obj).__name__!r} object"):  # a sentence of the object's own
        return text
    public = [name for name in dir(error.obj) if not name.startswith("_")]
    hint = suggestion(error.name, public, f"it has {', '.join(public)}.")
    return f"{type(error.obj).__name__.strip('_')} has no {error.name!r}; {hint}" if public else f"{text}."


def _signature(method):
    return f"({', '.join(inspect.signature(method).parameters)})"


# -- kinds of results -------------------------------------------------------------------------------------------------


def _named(value):
    """A result in words, for messages."""
    if value is None or isinstance(value, (str, bytes, bool, numbers.Number)):
        return shown(value)
    if isinstance(value, AbstractField):
        return f"a Field at {value.position}"
    if isinstance(value, (tuple, list)):
        return f"{len(value)} values"
    shape = getattr(value, "shape", None)
    return f"an array of shape {tuple(shape)}" if shape is not None else f"a {type(value).__name__}"


def _not_real(value):
    """What a value is, in words, if it is no real number or array, or not finite; else None."""
    kind = np.dtype(getattr(value, "dtype", np.asarray(value).dtype if isinstance(value, numbers.Number) else "O")).kind
    if kind not in "fiuV" or (isinstance(value, numbers.Real) and not math.isfinite(value)):  # V: bfloat16
        return f"complex numbers, {_named(value)}" if kind == "c" else _named(value)
    return None


def _no_number(value, arguments=()):
    if getattr(value, "ndim", 0) or (why := _not_real(value)):
        return why if not getattr(value, "ndim", 0) else _named(value)
    return None


def _not_at(position, value):
    if not isinstance(value, AbstractField):
        return _no_number(value)
    if value.position != position:
        return _named(value)
    return "complex numbers" if jnp.iscomplexobj(getattr(value, "data", 0.0)) else None


def wrong_h(value: object, arguments: tuple) -> str | None:
    """What a value is, in words, if it is neither a Field at h nor a number."""
    return _not_at("h", value)


def _no_pair(value):
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        return _named(value)
    wrong = [(name, _not_at(at, x)) for name, at, x in zip(("du/dt", "dv/dt"), "uv", value)]
    return next((f"{what} as {name}" for name, what in wrong if what is not None), None)


a_pair = Result(
    "a pair, du/dt at u points and dv/dt at v points, of which one may be 0.0",
    lambda value, arguments: _no_pair(value),
)
a_number = Result("one number", _no_number)


def _no_rate(value, arguments):
    try:
        rate = np.asarray(value, float)
        np.broadcast_to(rate, arguments[0].wet.shape)
    except (TypeError, ValueError):
        return _named(value)
    return _named(value) if np.isnan(rate).any() else None


a_rate = Result("a number, or an array of the shape of site.wet", _no_rate)


def _unlike_argument(value, arguments):
    (leaves, structure), (wanted, like) = (jax.tree.flatten(tree) for tree in (value, arguments[0]))
    if structure != like:
        return _named(value)
    return next((_named(x) for x, y in zip(leaves, wanted) if np.shape(x) != np.shape(y)), None)


like_argument = Result("the accumulator with the same structure and shapes", _unlike_argument)
