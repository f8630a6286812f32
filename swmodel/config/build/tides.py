"""Tides from experiment files."""

from typing import Any

from ...forcing.tides import Tide
from .states import on_grid

__all__ = ["tide_of"]


def tide_of(section: Any, grid: Any, position: str, name: str, run: Any) -> Tide:
    """The Tide of a table in the place of the parameter `name`; formulas become arrays at `position`."""
    constituents = {}
    for key, pair in section.constituents.items():
        parts = (
            on_grid(getattr(pair, part), grid, position, f"{name}: {part} of {key}") for part in ("amplitude", "phase")
        )
        constituents[key] = tuple(parts)
    return Tide(constituents, start=run.start, ramp=section.ramp, latitude=section.latitude)
