"""Parts of the user's own in experiment files: `type = "module:Class"`, or the short name of an entry point.

The module is a file beside the experiment, or an installed one. An installed package gives its parts short names by
entry points of the group "swmodel.parts": `relaxation = "package.module:Relaxation"` in its pyproject.toml.

A restart holds the text of its experiment. It never makes this module import code: `allowed` is False then.
"""

from importlib.metadata import entry_points
from pathlib import Path
from typing import get_args

from ..adjoint.costs.tile_costs import Cost
from ..dynamics.boundaries import OpenBoundary
from ..dynamics.terms import Term
from ..errors import ConfigError
from ..fields.parts import as_pytree
from ..stepping.explicit import TimeStepper
from .adjoint import COSTS
from .mistakes import Mistake
from .modules import class_named
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
    cls = class_named(name, folder, allowed, _short_names())
    if not (isinstance(cls, type) and issubclass(cls, BASES[kind])):
        bases = " or ".join(f"sw.{base.__name__}" for base in BASES[kind])
        raise ConfigError(f"{name!r} does not derive from {bases}; let it, or name another class")
    as_pytree(cls)
    return stepper_section(cls, name) if kind == "stepper" else section_for(cls, name)
