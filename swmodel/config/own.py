"""Parts that a user has written, in experiment files: `type = "module:Class"`, or the short name of an entry point.

The module is a file in the folder of the experiment, or installed. An installed package gives its parts short names by
entry points of the group "swmodel.parts": `relaxation = "package.module:Relaxation"` in its pyproject.toml.

A restart holds the text of its experiment. `allowed` is False for such a text, so that a restart cannot import code.
"""

import hashlib
import importlib
import importlib.util
import logging
import sys
import traceback
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from ..errors import ConfigError, nearest
from .toml import path_of

GROUP = "swmodel.parts"


def short_names() -> dict[str, str]:
    """{short name: "module:Class"} of the parts of installed packages."""
    return {point.name: point.value for point in entry_points(group=GROUP)}


def is_own(name: str) -> bool:
    """Whether a name is that of a user's class: "module:Class", or a short name."""
    return ":" in name or name in short_names()


def path_of_part(raw: dict, part: str) -> tuple[str | int, ...]:
    """The key path of a part of the model, as far as the tables of a file have it.

    Args:
        raw: the tables.
        part: "boundary.0.elevation", or the class of a part that the user has written, "relaxation:Relaxation".
    """
    if ":" in part:
        return next(_paths_of(raw, part, ()), ())
    path: list[str | int] = []
    value: Any = raw
    for key in path_of(part) if part else ():
        try:
            value = value[key]
        except (LookupError, TypeError):
            break
        path.append(key)
    return tuple(path)


def _paths_of(value, name, path):
    """The paths of all tables with `type = name`."""
    if isinstance(value, dict) and value.get("type") == name:
        yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield from _paths_of(inner, name, (*path, key))


def class_named(name: str, folder: Path, allowed: bool, bases: tuple[type, ...]) -> Any:
    """The class that a user has written.

    Args:
        name: "module:Class", or a short name.
        folder: the folder of the experiment file and of the modules.
        allowed: whether code may be imported.
        bases: the classes of this package from one of which it derives.

    Raises:
        ConfigError: if there is no such module or class, it cannot be imported or derives from none of `bases`, or
            `allowed` is false.
    """
    if not allowed:
        raise ConfigError(
            f"{name!r} is not a part of swmodel, and a restart file alone imports no code; name the experiment file "
            "too, --experiment FILE.toml"
        )
    module_name, _, class_name = short_names().get(name, name).partition(":")
    module = _module(module_name, folder)
    if not hasattr(module, class_name):
        classes = [key for key, x in vars(module).items() if isinstance(x, type) and x.__module__ == module.__name__]
        hint = nearest(class_name, classes) if classes else "it has no classes"
        raise ConfigError(f"the module {module_name!r} has no class {class_name!r}; {hint}")
    cls = getattr(module, class_name)
    if not (isinstance(cls, type) and issubclass(cls, bases)):
        import swmodel as sw

        names = (f"sw.{x.__name__}" if hasattr(sw, x.__name__) else f"{x.__module__}.{x.__name__}" for x in bases)
        wanted = " or ".join(names)
        raise ConfigError(f"{name!r} does not derive from {wanted}; let it, or name another class")
    return cls


def _module(name: str, folder: Path) -> Any:
    file = _file_of(name, folder)
    try:
        if file.is_file():
            return _from_file(name, file)
        if name not in sys.modules:
            logging.getLogger("swmodel").info("importing the installed module %s", name)
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0]:
            raise ConfigError(f"the module {name!r} needs {error.name!r}, which is not installed") from error
        raise ConfigError(f"there is no file {file}, and no installed module {name!r}; correct the name") from None
    except (Exception, SystemExit) as error:  # any error of the user's module during its import
        frame = next((f for f in reversed(traceback.extract_tb(error.__traceback__)) if f.filename == str(file)), None)
        line = getattr(error, "lineno", None) or (frame.lineno if frame else None)
        where = f"{file}:{line}" if line else str(file)
        raise ConfigError(
            f"the module {name!r} cannot be imported: {where}: {type(error).__name__}: {error}"
        ) from error


def _file_of(name, folder):
    """The file of a module in the folder, whether it is there or not.

    Raises:
        ConfigError: for a file outside the folder, or a module of Python itself.
    """
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts):
        raise ConfigError(
            f"{name!r} is not the name of a module; code is imported from the folder of the experiment file or "
            "from installed packages, so name a module there, as in 'relaxation:Relaxation'"
        )
    file = folder.joinpath(*parts).with_suffix(".py")
    if not file.resolve().is_relative_to(folder.resolve()):
        raise ConfigError(
            f"{file} is a link to {file.resolve()}, and no code outside the folder of the experiment file is imported; "
            "copy the file"
        )
    if parts[0] in sys.stdlib_module_names and not file.is_file():
        raise ConfigError(f"the module {name!r} belongs to Python and has no parts of a model; correct the name")
    return file


def _from_file(name, file):
    """The module in a file; it is imported again only if the file has changed."""
    digest = hashlib.sha256(file.read_bytes() + str(file).encode()).hexdigest()
    known = sys.modules.get(name)
    if getattr(known, "_swmodel_digest", None) == digest:
        return known
    if known is not None and not hasattr(known, "_swmodel_digest"):
        raise ConfigError(f"the file {file} has the name of a module that Python has loaded already; rename the file")
    logging.getLogger("swmodel").info("importing %s", file)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None  # the name of the file ends in .py
    module: Any = importlib.util.module_from_spec(spec)
    module._swmodel_digest, sys.modules[name] = digest, module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name)
        raise
    return module
