"""Tides from experiment files."""

from typing import Any

import numpy as np

from ...dynamics.boundaries import OpenBoundary
from ...errors import ConfigError
from ...fields.parts import numbers_of, positions_of
from ...forcing.harmonic_files import harmonic_constants
from ...forcing.tides import Tide
from ..tides import ConstituentFile, TideSection
from .states import is_evaluated_whole, on_grid

__all__ = ["check_tides", "tide_of"]


def tide_of(section: Any, grid: Any, name: str, run: Any, owner: Any) -> Tide:
    """The Tide of a table that stands for the parameter `name` of the section `owner`; formulas become arrays."""
    rule, constituents = numbers_of(owner.part)[name], {}
    position = rule.position or "h"
    sides, velocity = None, None
    if issubclass(owner.part, OpenBoundary):
        sides, velocity = owner.sides, owner.part.velocity_counts if name == "velocity" else None
    options: Any = {"sides": sides, "units": rule.units, "position": position, "velocity": velocity}
    for key, pair in section.constituents.items():
        if isinstance(pair, ConstituentFile):
            of_file = harmonic_constants(pair.file, {key: pair.variables}, grid, stated=pair.units, **options)
            constituents[key] = tuple(np.asarray(x) if is_evaluated_whole(grid) else x for x in of_file[key])
        else:
            constituents[key] = tuple(
                _values(getattr(pair, part), grid, position, f"{name}: {part} of {key}", owner)
                for part in ("amplitude", "phase")
            )
    tide = Tide(constituents, start=run.start, ramp=section.ramp, latitude=section.latitude)
    tide.check_limits(rule, name)
    return tide


def _values(value, grid, position, name, owner):
    """A number or a formula on the grid; numbers along sides as an array (ny, 1) or (1, nx)."""
    if not isinstance(value, tuple):
        return on_grid(value, grid, position, name)
    sides: list[str] = list(getattr(owner, "sides", []))
    along_y = {side in ("west", "east") for side in sides}
    if len(along_y) != 1:
        raise ConfigError(f"{name} is a list, which lies along open sides, all in x or all in y; give a formula")
    cells = grid.ny if along_y == {True} else grid.nx
    if len(value) != cells:
        raise ConfigError(f"{name} has {len(value)} values, and the {sides[0]} side has {cells} cells; give as many")
    return np.reshape(value, (-1, 1) if along_y == {True} else (1, -1))


def check_tides(made: Any, section: Any) -> None:
    """Raise DataError for files of tides of a [[boundary]] section that cannot be read or do not cover its sides."""
    for name in positions_of(section.part):
        value = getattr(section, name, None)
        if isinstance(value, TideSection) and made.section("run") is not None:
            tide_of(value, made.grid, name, made.section("run"), section)
