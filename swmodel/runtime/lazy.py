"""Names of a package that are loaded when they are first used, because their modules take long to import."""

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any


def loaded_when_used(
    package: str, homes: Mapping[str, Sequence[str]], search: Iterable[str] = ()
) -> tuple[Callable[[str], Any], list[str]]:
    """(the `__getattr__`, the `__all__`) of a package.

    Args:
        package: its `__name__`.
        homes: {module of the package: the names in it that the package offers}; those of "" are modules. Names that
            begin with an underscore are not in `__all__`.
        search: the `__path__` of a package that offers all its modules.
    """
    home_of = {name: home for home, names in homes.items() for name in names}
    public = [name for name in home_of if not name.startswith("_")]

    def load(name: str) -> Any:
        modules = [] if name in home_of else [module.name for module in pkgutil.iter_modules(search)]
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
