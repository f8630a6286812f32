"""Parts that a user has written, in experiment files: `type = "module:Class"`, or the short name of an entry point.

The module is a file in the folder of the experiment, or installed. An installed package gives its parts short names by
entry points of the group "swmodel.parts": `relaxation = "package.module:Relaxation"` in its pyproject.toml.

A restart holds the text of its experiment. `allowed` is False for such a text, so that a restart cannot import code.
"""

from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from ..adjoint.assimilation.priors import Prior
from ..adjoint.costs.tile_costs import Cost
from ..dynamics.boundaries import OpenBoundary
from ..dynamics.terms import Term
from ..errors import ConfigError
from ..fields.parts import as_pytree
from ..stepping.explicit import TimeStepper
from .adjoint import COSTS, cost_section
from .inversion import CONTROLS, prior_section
from .mistakes import Mistake
from .parts import class_named, section_for
from .physics import BOUNDARY, DISSIPATION, FORCING, STEPPERS, stepper_section

__all__ = ["GROUP", "own_sections", "path_of_part"]

GROUP = "swmodel.parts"
SHIPPED = {
    "forcing": FORCING,
    "dissipation": DISSIPATION,
    "boundary": BOUNDARY,
    "stepper": STEPPERS,
    "cost": COSTS,
    "prior": CONTROLS,
}
BASES = {
    "forcing": (Term,),
    "dissipation": (Term,),
    "boundary": (OpenBoundary, Term),
    "stepper": (TimeStepper,),
    "cost": (Cost,),
    "prior": (Prior,),
}


def own_sections(raw: dict, folder: Path, allowed: bool) -> tuple[dict, list]:
    """({section: [section classes of the user's parts]}, mistakes) of the tables of an experiment file.

    Args:
        raw: the tables of the file.
        folder: the folder of the file and of the modules.
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


def path_of_part(raw: dict, part: str) -> tuple[str | int, ...]:
    """The key path of a part of the model, as far as the tables of a file have it.

    Args:
        raw: the tables.
        part: "boundary.0.elevation", or the class of a part that the user has written, "relaxation:Relaxation".
    """
    if ":" in part:
        return next((path for _, path, name in _named(raw) if name == part), ())
    path: list[str | int] = []
    value: Any = raw
    for name in part.split(".") if part else ():
        key: str | int = int(name) if name.isdigit() else name
        try:
            value = value[key]
        except (LookupError, TypeError):
            break
        path.append(key)
    return tuple(path)


def _named(raw):
    """(section, path, type) of every part in the tables."""
    adjoint, inversion = (raw.get(name) if isinstance(raw.get(name), dict) else {} for name in ("adjoint", "inversion"))
    tables: list[tuple[str, tuple[str, ...], Any]] = [(kind, (kind,), raw.get(kind)) for kind in SHIPPED]
    tables.append(("cost", ("adjoint", "cost"), adjoint.get("cost")))
    tables.append(("prior", ("inversion", "controls"), inversion.get("controls")))
    for kind, path, held in tables:
        entries = enumerate(held) if isinstance(held, list) else [(None, held)]
        for k, table in entries:
            if isinstance(table, dict) and isinstance(table.get("type"), str):
                yield kind, path if k is None else (*path, k), table["type"]


def _is_own(name):
    return ":" in name or name in _short_names()


def _short_names():
    return {point.name: point.value for point in entry_points(group=GROUP)}


def _section(kind, name, folder, allowed):
    """The section class of a part that the user has written."""
    cls = class_named(name, folder, allowed, _short_names())
    if not (isinstance(cls, type) and issubclass(cls, BASES[kind])):
        bases = " or ".join(f"sw.{base.__name__}" for base in BASES[kind])
        raise ConfigError(f"{name!r} does not derive from {bases}; let it, or name another class")
    as_pytree(cls)
    make = {"stepper": stepper_section, "cost": cost_section, "prior": prior_section}.get(kind, section_for)
    return make(cls, name)
