"""The names that experiment files give to the parts of a model, as "boundary.0", by which mistakes are located."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from ..dynamics.boundaries import OpenBoundary
from ..dynamics.domain import Domain
from ..dynamics.terms import Series, Term, TiledPart
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


def named_terms(model: "ShallowWater") -> list[tuple[str, Term | OpenBoundary]]:
    """[(name, part)] of the terms and the conditions on open sides of a model."""
    return list(zip((*model.term_names, *model.open_names), (*model.terms, *model.open_boundaries)))


def named_parts(model: "ShallowWater") -> list[tuple[str, TiledPart]]:
    """[(name, part)] of the terms, the conditions on open sides and the tracers of a model."""
    return [*named_terms(model), *named("tracer", model.tracers).items()]


def named_series(model: "ShallowWater") -> dict[str, Series]:
    """{"forcing.0.pressure": Series, ...} of all parts of a model, and its "source"."""
    found = {f"{name}.{key}": each for name, part in named_parts(model) for key, each in part.series().items()}
    return found if model.uplift is None else {**found, "source": model.uplift}
