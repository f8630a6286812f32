"""The section [green]: a bank of Green's functions, for forecasts.

[green]
until = "3 hour"

[green.sources]
type = "unit_sources"
x = [141, 145.5]
y = [35, 41]
spacing = 0.5
deviation = "2 m"
length = "50 km"

The points are the gauges of [output.gauges.positions].
"""

from collections.abc import Iterator, Mapping
from typing import Any

from .inversion import Control
from .mistakes import Mistake
from .scenario import OutputFile
from .sections import PositiveSeconds, Section

__all__ = ["Green", "green_mistakes"]


class Green(Section):
    """The bank that `swmodel green` makes."""

    sources: Control  # patterns of the surface at the start
    until: PositiveSeconds | None = None  # last time after the earthquake; that of [run] unless given
    interval: PositiveSeconds = 30.0  # between two times, to the nearest multiple of the time step
    file: OutputFile = "bank.nc"  # netCDF file to write


def green_mistakes(sections: Mapping[str, Any]) -> Iterator[Mistake]:
    """Sources that are not patterns, and a bank without points."""
    section, output = sections.get("green"), sections.get("output")
    if section is None:
        return
    if not section.sources.part.patterns:
        text = f"{section.sources.type!r} are not sums of fixed patterns of the surface; give 'unit_sources'"
        yield Mistake(("green", "sources", "type"), text)
    if output is not None and (output.gauges is None or not output.gauges.positions):
        yield Mistake(("green",), "no point has a place; name buoys and harbours in [output.gauges.positions]")
