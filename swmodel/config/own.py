"""Parts of the user's own in experiment files: `type = "module:Class"`, or the short name of an entry point.

The module is a file beside the experiment, or an installed one. An installed package gives its parts short names by
entry points of the group "swmodel.parts": `relaxation = "package.module:Relaxation"` in its pyproject.toml.

A restart holds the text of its experiment. It never makes this module import code: `allowed` is False then.
"""

import hashlib
import importlib
import importlib.util
import sys
import traceback
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, get_args

from ..adjoint.costs.tile_costs import Cost
from ..dynamics.boundaries import OpenBoundary
from ..dynamics.terms import Term
from ..errors import ConfigError
from ..fields.parts import as_pytree
from ..stepping.explicit import TimeStepper
from .adjoint import COSTS
from .mistakes import Mistake, nearest
from .parts import section_for
from .physics import BOUNDARY, DISSIPATION, FORCING, STEPPERS, stepper_section

__all__ = ["GROUP", "own_sections"]

GROUP = "swmodel.parts"
SHIPPED = {"forcing": FORCING, "dissipation": DISSIPATION, "boundary": BOUNDARY, "stepper": STEPPERS}
SHIPPED["cost"] = {get_args(section.model_fields["type"].annotation)[0]: section for section in COSTS}
BASES = {
    "forcing": (Term,), "dissipation": (Term,), "boundary": (OpenBoundary, Term), "stepper": (TimeStepper,),
    "cost": (Cost,),
}  # fmt: skip


def own_sections(raw: dict, folder: Path, allowed: bool) -> tuple[dict, list]:
    """({section: [section classes of the user's parts]}, mistakes) of the tables of an experiment file.

    Args:
        folder: where the file lies, and the modules beside it.
        allowed: whether code may be imported.
    """
    found, mistakes = {kind: {} for kind in SHIPPED}, []
    for kind, path, name in _named(raw):
        if name in SHIPPED[kind] or name in found[kind] or not _is_own(name):
            continue
        try:
            found[kind][name] = _section(kind, name, folder, allowed)
        except ConfigError as error:
            mistakes.append(Mistake((*path, "type"), str(error)))
    return {kind: list(sections.values()) for kind, sections in found.items()}, mistakes


def _named(raw):
    """(section, path, type) of every part that the tables name."""
    for kind in SHIPPED:
        tables = raw.get(kind)
        entries = enumerate(tables) if isinstance(tables, list) else [(None, tables)]
        for k, table in entries:
            if isinstance(table, dict) and isinstance(table.get("type"), str):
                yield kind, (kind,) if k is None else (kind, k), table["type"]
    adjoint = raw.get("adjoint")
    cost = adjoint.get("cost") if isinstance(adjoint, dict) else None
    if isinstance(cost, dict) and isinstance(cost.get("type"), str):
        yield "cost", ("adjoint", "cost"), cost["type"]


def _is_own(name):
    return ":" in name or name in _short_names()


def _short_names():
    return {point.name: point.value for point in entry_points(group=GROUP)}


def _section(kind, name, folder, allowed):
    """The section class of a part of the user's own."""
    if not allowed:
        raise ConfigError(
            f"{name!r} is not a part of swmodel, and a restart file alone imports no code; name the experiment file "
            "too, --experiment FILE.toml"
        )
    cls = _class(_short_names().get(name, name), folder)
    if not (isinstance(cls, type) and issubclass(cls, BASES[kind])):
        bases = " or ".join(f"sw.{base.__name__}" for base in BASES[kind])
        raise ConfigError(f"{name!r} does not derive from {bases}; let it, or name another class")
    as_pytree(cls)
    return stepper_section(cls, name) if kind == "stepper" else section_for(cls, name)


def _class(name, folder):
    module_name, _, class_name = name.partition(":")
    module = _module(module_name, folder)
    if not hasattr(module, class_name):
        classes = [key for key, x in vars(module).items() if isinstance(x, type) and x.__module__ == module.__name__]
        hint = nearest(class_name, classes) if classes else "it has no classes"
        raise ConfigError(f"the module {module_name!r} has no class {class_name!r}; {hint}")
    return getattr(module, class_name)


def _module(name: str, folder: Path) -> Any:
    file = folder / Path(*name.split(".")).with_suffix(".py")
    try:
        return _from_file(name, file) if file.is_file() else importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0]:
            raise ConfigError(f"the module {name!r} needs {error.name!r}, which is not installed") from error
        raise ConfigError(f"there is no file {file}, and no installed module {name!r}; correct the name") from None
    except (Exception, SystemExit) as error:  # whatever a user's module raises while it is imported
        frame = next((f for f in reversed(traceback.extract_tb(error.__traceback__)) if f.filename == str(file)), None)
        line = getattr(error, "lineno", None) or (frame.lineno if frame else None)
        where = f"{file}:{line}" if line else str(file)
        raise ConfigError(
            f"the module {name!r} cannot be imported: {where}: {type(error).__name__}: {error}"
        ) from error


def _from_file(name, file):
    """The module in a file, imported once while the file stays as it is."""
    digest = hashlib.sha256(file.read_bytes() + str(file).encode()).hexdigest()
    known = sys.modules.get(name)
    if getattr(known, "_swmodel_digest", None) == digest:
        return known
    if known is not None and not hasattr(known, "_swmodel_digest"):
        raise ConfigError(f"the file {file} has the name of a module that Python has loaded already; rename the file")
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    module._swmodel_digest, sys.modules[name] = digest, module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name)
        raise
    return module
