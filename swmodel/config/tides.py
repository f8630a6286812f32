"""Tides in experiment files: a table in the place of a number.

[[boundary]]
type = "flather"
sides = "west"

[boundary.elevation]
ramp = "1 day"
constituents.M2 = {amplitude = "1.2 m", phase = "30 degree"}
constituents.S2 = {amplitude = "0.4 * exp(-y / 200e3)", phase = 75}
"""

import functools
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, create_model

from ..forcing.constituents import distinct
from .sections import Formula, NonNegativeSeconds, Section

__all__ = ["PLAIN", "TideSection", "tide_section"]

PLAIN = "plain"  # the tag of what is no table


class TideSection(Section):
    """A Tide: constituents by name, each with its amplitude and Greenwich phase lag."""

    tag: ClassVar[str] = "tide"

    constituents: Any  # {name = {amplitude = ..., phase = ...}}, as "M2"
    ramp: NonNegativeSeconds = 0.0  # how long the tide takes to reach its full amplitude, from the start of the run
    latitude: Annotated[float, Field(ge=-90, le=90)] | None = None  # of nodal factors; that of the grid's middle

    def controls(self) -> list[str]:
        """What of a tide may be a control of an adjoint."""
        return [f"{part}.{name}" for part in ("amplitude", "phase") for name in self.constituents]


def _named(found):
    """Constituents by their canonical names."""
    return dict(zip(distinct(found), found.values()))


@functools.cache
def tide_section(unit: str) -> type[TideSection]:
    """The TideSection of a parameter in `unit`."""
    amplitude = (Formula(unit), Field(description="amplitude"))
    phase = (Formula("degree"), Field(description="Greenwich phase lag"))
    pair: Any = create_model("Constituent", __base__=Section, __module__=__name__, amplitude=amplitude, phase=phase)
    constituents: Any = Annotated[dict[str, pair], AfterValidator(_named)]
    made: Any = create_model("Tide", __base__=TideSection, __module__=__name__, constituents=(constituents, ...))
    return made
