"""Parts of a model that declare their parameters on their class: terms, forcing, open boundaries, time steppers.

    class Relaxation(sw.Term):
        rate: Any = sw.parameter("h", "s-1", minimum=0.0, doc="how fast the flow slows down")

        def __call__(self, flow, time):
            return -sw.to_u(self.rate) * flow.u, -sw.to_v(self.rate) * flow.v

Nothing else has to be written. When the class is first used it becomes a frozen dataclass and a pytree, whose array
fields are leaves. The declaration gives the parameter's position on the C-grid, units and limits. The schema of
experiment files, the names and units of controls, and the halos of compiled programs follow from it.
"""

import ast
import contextlib
import dataclasses
import functools
import hashlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, TypeVar, dataclass_transform

import jax

from ..errors import ConfigError, SwmodelError
from ..runtime.packages import is_shipped
from .methods import Result, name_mistakes
from .parameters import Number, check_fields, declared, parameter
from .state import is_pytree, pytree, static

T = TypeVar("T")


@contextlib.contextmanager
def of_part(name: str) -> Iterator[None]:
    """Errors that are raised inside are those of the part of a model with this name, as "boundary.0"."""
    try:
        yield
    except SwmodelError as error:
        error.part = error.part or name
        raise


class Named:
    """A base class of parts: the methods of classes of the user that derive from it name their mistakes.

    Attributes:
        results: {method: its Result}, for the methods that a derived class defines.
    """

    results: ClassVar[Mapping[str, Result]] = {}

    def __init_subclass__(cls, **options: object):
        super().__init_subclass__(**options)
        if not is_shipped(cls):
            name_mistakes(cls)


@dataclass_transform(frozen_default=True, field_specifiers=(static, parameter, declared, dataclasses.field))
class ModelPart(Named):
    """The base class of parts of a model. Its subclasses are frozen dataclasses, and pytrees of their parameters.

    Attributes:
        kind: the section of an experiment file that the part belongs to, such as "forcing".
        references: the literature that files of a run cite for it, or None.
        exclusive: pairs of parameters of which one at most may be given.
        required: {parameter: its declaration, as text} that a derived class must have.
        has_kinks: whether it chooses among branches by the flow, as limiters and sides upstream do. Perturbed runs may
            take others, so that Taylor tests of derivatives need not converge (adjoint/verification.py).
        is_twice_differentiable: whether its second derivatives are continuous; those of |u| u are not where u is 0.
    """

    has_kinks = False
    is_twice_differentiable = True
    kind: ClassVar[str | None] = None
    references: ClassVar[str | None] = None
    exclusive: ClassVar[tuple[tuple[str, str], ...]] = ()
    required: ClassVar[dict[str, str]] = {}

    def __new__(cls, *arguments: object, **parameters: object):
        as_pytree(cls)
        return super().__new__(cls)

    def __post_init__(self):
        check_fields(self)
        if why := self.conflict(self):
            raise ConfigError(f"{type(self).__name__}: {why}.")

    @classmethod
    def conflict(cls, values: Any) -> str | None:
        """A phrase on why parameters, the attributes of `values`, exclude one another; None if they do not."""
        for one, other in cls.exclusive:
            if getattr(values, one, None) is not None and getattr(values, other, None) is not None:
                return f"{one} and {other} exclude one another; give one of them, or neither"
        return None

    def units_of(self, name: str) -> str:
        """The units of a parameter of this part, "" where its class declares none."""
        return units_of(type(self), name)


def as_pytree(cls: type) -> type:
    """`cls`, a subclass of ModelPart, as a frozen dataclass and a pytree; unchanged if it is one already.

    Raises:
        ConfigError: for a class that cannot be one: because it has an __init__ of its own, lacks an abstract method, or
            is a dataclass that is not frozen.
    """
    if is_pytree(cls):
        return cls
    missing = sorted(name for name in dir(cls) if getattr(getattr(cls, name, None), "__isabstractmethod__", False))
    if missing:
        raise ConfigError(f"{cls.__name__}: the method {missing[0]} is missing; define it as in {_base_of(cls)}.")
    own = "__dataclass_params__" in vars(cls)
    if own and not cls.__dataclass_params__.frozen:
        raise ConfigError(
            f"{cls.__name__}: objects of a dataclass can change, and a part of a model must not; leave the decorator "
            f"out ({_base_of(cls)} makes the class a frozen dataclass), or write @dataclasses.dataclass(frozen=True)."
        )
    if "positions" in vars(cls):
        raise ConfigError(
            f"{cls.__name__}: `positions` is no longer used; declare a parameter with its position, as in "
            "`rate: Any = sw.parameter('h', 's-1')`."
        )
    if "__init__" in vars(cls) and not own:
        raise ConfigError(
            f"{cls.__name__}: parameters of a part are declared on its class, as in "
            "`rate: Any = sw.parameter('h', 's-1')`; declare them so, and leave __init__ out."
        )
    code_of(cls)  # before its file can be edited
    return _registered(cls)


@functools.cache
def code_of(cls: type) -> str:
    """A digest of the source of a class when this function is first called; "" for this package and without a source.

    Comments and layout do not count. The digest covers the module and those modules of its folder that it uses; in a
    script or a notebook it covers the class alone.
    """
    if is_shipped(cls):
        return ""
    try:
        module = sys.modules[cls.__module__]
        parts = [cls] if cls.__module__ == "__main__" else list(_modules_of(module))
        texts = [ast.unparse(ast.parse(textwrap.dedent(inspect.getsource(part)))) for part in parts]
    except (KeyError, OSError, TypeError, AttributeError, SyntaxError):  # there is no source
        return ""
    return hashlib.sha256("\0".join(sorted(texts)).encode()).hexdigest()[:16]


def _modules_of(module: ModuleType) -> Iterator[ModuleType]:
    """A module, and the modules of its folder that it uses, directly or through one another."""
    waiting, seen, folder = [module], {module.__name__}, Path(str(module.__file__)).parent
    while waiting:
        yield (one := waiting.pop())
        for value in vars(one).values():
            name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
            other = sys.modules.get(name) if isinstance(name, str) and name not in seen else None
            file = getattr(other, "__file__", None)
            if other is not None and file and Path(file).parent == folder:
                seen.add(other.__name__)
                waiting.append(other)


def _registered(cls):
    """The class as a pytree; raises ConfigError for parameters that cannot be those of a dataclass."""
    try:
        for base in reversed(cls.__mro__[1:]):  # a dataclass inherits the fields of dataclasses alone
            if _declares(base) and "__dataclass_params__" not in vars(base):
                dataclasses.dataclass(frozen=True)(base)
        part_class = pytree(cls)
    except (TypeError, ValueError) as error:
        if "Duplicate" in str(error):  # the class is registered with JAX already
            return cls
        raise ConfigError(
            f"{cls.__name__}: its parameters cannot be declared so: {error}; declare each as in "
            "`rate: Any = sw.parameter('h', 's-1')`, those with a default last."
        ) from error
    fields = {field.name for field in dataclasses.fields(part_class)}
    for name, declaration in getattr(part_class, "required", {}).items():  # a Coriolis is no ModelPart
        if name not in fields and not is_shipped(cls):
            raise ConfigError(f"{cls.__name__}: the parameter {name} is missing; declare it, `{declaration}`.")
    return part_class


def _declares(cls):
    """Whether a class from outside this package declares parameters of its own."""
    return not is_shipped(cls) and any(isinstance(x, dataclasses.Field) for x in vars(cls).values())


def _base_of(cls):
    """The public name of the nearest base class of this package, such as "sw.Term"."""
    base = next(base for base in cls.__mro__[1:] if is_shipped(base))
    return f"sw.{base.__name__}"


def check_layer(who: str, layer: int | None, count: int) -> None:
    """Raise ConfigError if `layer`, a number or None for all of them, is none of the `count` layers of a model."""
    if layer is not None and not -count <= layer < count:
        raise ConfigError(
            f"{who}: layer = {layer}, and the number of layers is {count}, counted from 0; give one of these, or -1 "
            "for the lowest."
        )


def which_layer(default: int | None = None, verb: str = "acts on") -> Any:
    """The declaration of the field `layer` of a part that can act on (or `verb`) one layer or all."""
    rule = Number(None, "1", whole=True, optional=True, differentiable=False)
    doc = f"the layer that it {verb}, counted from 0 at the top; -1 is the lowest"
    return declared(
        rule, default=default, static=True, kw_only=True, doc=doc + (", all unless given" if default is None else "")
    )


# -- what follows from the declarations --------------------------------------------------------------------------------


@functools.cache
def numbers_of(cls: type) -> dict[str, Number]:
    """{name: Number} of the parameters that a class declares."""
    cls = as_pytree(cls) if issubclass(cls, ModelPart) else cls
    rules = {field.name: field.metadata.get("rule") for field in dataclasses.fields(cls)}
    return {name: rule for name, rule in rules.items() if isinstance(rule, Number)}


@functools.cache
def positions_of(cls: type) -> dict[str, str]:
    """{name: C-grid position} of the parameters of a class that may vary in space and time."""
    static = {field.name for field in dataclasses.fields(as_pytree(cls)) if field.metadata.get("static")}
    return {name: rule.position for name, rule in numbers_of(cls).items() if rule.position and name not in static}


def control_names(cls: type) -> list[str]:
    """The names of the parameters of a class in which a cost can be differentiated."""
    numbers = numbers_of(cls)
    own = [x for x in dataclasses.fields(cls) if not (x.metadata.get("static") or x.metadata.get("derived"))]
    return [field.name for field in own if numbers.get(field.name, Number()).differentiable]


def units_of(cls: type, name: str) -> str:
    """The units that a class declares for a parameter, "" where it declares none."""
    rules = {field.name: field.metadata.get("rule") for field in dataclasses.fields(as_pytree(cls))}
    return getattr(rules.get(name), "units", "")


def values_of(model: Any, kind: type) -> Iterator[tuple[str, str, Any]]:
    """(name, units, value) of the values of a kind that are parameters of a model's parts, or within them."""
    fits = lambda x: isinstance(x, kind)  # noqa: E731
    for name, part in model.named_parts():
        for key in positions_of(type(part)):
            for value in filter(fits, jax.tree.leaves(getattr(part, key), is_leaf=fits)):
                yield f"{name}.{key}", part.units_of(key), value


def snake_case(name: str) -> str:
    """The name of a class in experiment files: "wind_stress" of "WindStress", "ssprk3" of "SSPRK3"."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def name_of(part: object) -> str:
    """The name of a part's class in files: "Laplacian", or "module:Class" of a part from outside this package."""
    cls = part if isinstance(part, type) else type(part)
    return cls.__name__ if is_shipped(cls) else f"{cls.__module__}:{cls.__qualname__}"


def is_shipped_part(cls: type, base: type) -> bool:
    """Whether a class is a concrete one of this package, derives from `base`, and is in the `__all__` of its module."""
    if not (isinstance(cls, type) and issubclass(cls, base)) or cls is base or inspect.isabstract(cls):
        return False
    return is_shipped(cls) and cls.__name__ in getattr(sys.modules.get(cls.__module__), "__all__", ())


def shipped_parts(base: type) -> dict[str, type]:
    """{snake-case name: class} of this package's parts that derive from `base`.

    They are those of modules that have been imported.
    """
    found = {}
    for cls in base.__subclasses__():
        if is_shipped_part(cls, base):
            found[snake_case(cls.__name__)] = cls
        found |= shipped_parts(cls)
    return found
