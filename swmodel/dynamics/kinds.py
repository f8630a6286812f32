"""What a declared field of a System is, and how its values pass from one form of the System to the next."""

import dataclasses
from collections.abc import Callable
from typing import Any

from .replicated import mark_columns, mark_numbers
from .terms import TimeVarying

__all__ = ["FACES", "Kind", "MAP", "NUMBER", "OTHER", "PARTS", "STATIC", "TILE", "declare"]


@dataclasses.dataclass(frozen=True)
class Kind:
    """How the values of a field pass from one form of a System to the next, by functions; None leaves them as they are.

    Attributes:
        bind: `bind(value, windows_of, kind)` replaces each `kind` of time records by `windows_of(records)`.
        mark: `mark(value, communicator)` applies `communicator.replicated` to what is the same on all ranks.
        prepare: `prepare(value, exchange, wet)` fills halos; `wet` is 1 in wet cells, a Field at h.
        static: whether values are hashable, and part of the structure of programs.
    """

    bind: Callable | None = None
    mark: Callable | None = mark_numbers
    prepare: Callable | None = None
    static: bool = False


def _bind_parts(parts, windows_of, kind):
    return tuple(part.bound(windows_of, kind) for part in parts)


def _prepare_parts(parts, exchange, wet):
    return tuple(part.prepare(exchange) for part in parts)


def _bind_records(records, windows_of, kind):
    return windows_of(records) if isinstance(records, kind) else records


def _prepare_map(x, exchange, wet):
    if isinstance(x, TimeVarying):
        return x.map(lambda record: _prepare_map(record, exchange, wet))
    return exchange.parameter(x) * wet


def _prepare_faces(pair, exchange, wet):
    return tuple(map(exchange.padded, pair, "uv"))


STATIC = Kind(static=True, mark=None)  # a choice, or a number of cells or steps
NUMBER = Kind()  # a number that is the same on all ranks
# (ny, nx) at cell centres, 0 on land, or time records of such maps
MAP = Kind(bind=_bind_records, prepare=_prepare_map)
FACES = Kind(prepare=_prepare_faces)  # a pair of arrays at u and v, which have the tile's halo already
PARTS = Kind(bind=_bind_parts, prepare=_prepare_parts)  # a tuple of TiledParts
TILE = Kind(mark=mark_columns)
OTHER = Kind(mark=None)  # a pytree that is used as it is


def declare(
    kind: Kind,
    default: Any = None,
    units: str = "",
    argument: Any = None,
    label: str = "",
    shared: str = "",
    recorded: str = "",
) -> Any:
    """The declaration of a field of a System.

    Args:
        kind: its Kind.
        default: the value of a System without it.
        units: of its numbers.
        argument: the rule of the argument of that name of ShallowWater (fields/parameters.py), where there is one.
        label: what a printed model calls it; "" where it is not shown.
        shared: what messages call it where members of an ensemble must not differ in it; "" where they may.
        recorded: how a restart records it (output/fingerprint.py): by "value", "text", as a "part" or as "parts" with
            names of their own.
    """
    metadata = {"static": kind.static, "kind": kind, "units": units, "argument": argument}
    return dataclasses.field(
        default=default, kw_only=True, metadata=metadata | {"label": label, "shared": shared, "recorded": recorded}
    )
