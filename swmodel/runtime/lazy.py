"""Names of a package that are loaded when they are first used, because their modules take long to import."""

import importlib
import pkgutil
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def loaded_when_used(
    package: str, homes: Mapping[str, Sequence[str]], with_modules: bool = False
) -> tuple[Callable[[str], Any], list[str]]:
    """(the `__getattr__`, the `__all__`) of a package.

    Args:
        package: its `__name__`.
        homes: {module of the package: the names in it that the package offers}; those of "" are modules. Names that
            begin with an underscore are not in `__all__`.
        with_modules: whether the package offers all its modules, too.
    """
    home_of = {name: home for home, names in homes.items() for name in names}
    public = [name for name in home_of if not name.startswith("_")]

    def load(name: str) -> Any:
        modules: list[str] = []
        if with_modules and name not in home_of:
            modules = [module.name for module in pkgutil.iter_modules(sys.modules[package].__path__)]
        if name not in home_of and name not in modules:
            known = ", ".join((*modules, *sorted(public)))
            raise AttributeError(f"{package.rpartition('.')[2]} has no {name!r}; it has {known}.")
        home = home_of.get(name, "")
        value: Any = importlib.import_module(f"{package}.{home or name}")
        if home:
            value = getattr(value, name)
        setattr(sys.modules[package], name, value)
        return value

    return load, public
