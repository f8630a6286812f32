"""The names that experiment files give to the parts of a model, as "boundary.0", by which mistakes are located."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from ..dynamics.domain import Domain
from ..dynamics.terms import Series, TiledPart
from ..errors import of_part

if TYPE_CHECKING:
    from .shallow_water import ShallowWater


T = TypeVar("T")


def one_or_more(parts: T | Sequence[T]) -> tuple:
    """A tuple of the parts that were given for an argument, which may be a single one."""
    return tuple(parts) if isinstance(parts, (tuple, list)) else (parts,)


def named(group: str, parts: T | Sequence[T]) -> dict[str, T]:
    """{"dissipation.0": part, ...} of the parts that were given for one argument."""
    return {f"{group}.{k}": part for k, part in enumerate(one_or_more(parts))}


def on_tiles(parts: Mapping[str, TiledPart], domain: Domain) -> tuple:
    """The parts {name: part} on the tiles of a Domain."""
    made = []
    for name, part in parts.items():
        with of_part(name):
            made.append(part.on_tile(domain))
    return tuple(made)


def named_series(model: "ShallowWater") -> dict[str, Series]:
    """{"forcing.0.pressure": Series, ...} of all parts of a model, and its "source"."""
    found = {f"{name}.{key}": each for name, part in model.named_parts() for key, each in part.series().items()}
    return found if model.uplift is None else {**found, "source": model.uplift}


def named_origins(model: "ShallowWater", parts: Mapping[str, object]) -> dict[str, str]:
    """{"forcing.0.pressure": date of the first record of its file, ...} where dates count from it for want of a start.

    Args:
        model: the model.
        parts: {name: part} as a user gives them, with the Record of a series, or Records.
    """
    dated = {name: series.source for name, series in named_series(model).items()}
    for name, part in parts.items():
        for key, value in getattr(part, "__dict__", {}).items():
            each = value, getattr(value, "plus", None), getattr(value, "anomaly", None)
            dated |= {f"{name}.{key}": one for one in each if getattr(one, "origin", None)}
    return {name: one.origin for name, one in dated.items() if isinstance(getattr(one, "origin", None), str)}
