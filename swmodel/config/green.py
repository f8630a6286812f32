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

The points are the gauges of [output.gauges.positions], and those of a lattice in water, [green.candidates], for
`swmodel buoys`.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..models.shallow_water import ShallowWater
from ..output.products.gauges import depth_at
from .inversion import Control
from .mistakes import Mistake
from .scenario import OutputFile
from .sections import NonNegativeMetres, Place, PositiveCoordinate, PositiveSeconds, Section


class Candidates(Section):
    """A lattice of points at which a buoy could be."""

    x: Place  # (low, high)
    y: Place  # (low, high)
    spacing: PositiveCoordinate  # between points
    least_depth: NonNegativeMetres = 1000.0  # of the water at a buoy

    def places(self, model: ShallowWater) -> dict[str, tuple[float, float]]:
        """{"X, Y": (x, y)} of the points in deep water."""
        found = {}
        for y in np.arange(self.y[0], self.y[1] + 1e-6 * self.spacing, self.spacing):
            for x in np.arange(self.x[0], self.x[1] + 1e-6 * self.spacing, self.spacing):
                point = {f"{x:g}, {y:g}": (float(x), float(y))}
                with contextlib.suppress(ValueError):  # outside the grid, or on land
                    found |= point if depth_at(point, model)[0] >= self.least_depth else {}
        return found


class Green(Section):
    """The bank that `swmodel green` makes."""

    sources: Control  # patterns of the surface at the start
    until: PositiveSeconds | None = None  # last time after the earthquake; that of [run] unless given
    interval: PositiveSeconds = 30.0  # between two times, to the nearest multiple of the time step
    candidates: Candidates | None = None  # for buoys, in addition to the gauges
    file: OutputFile = "bank.nc"  # netCDF file to write


def green_mistakes(sections: Mapping[str, Any]) -> Iterator[Mistake]:
    """Sources that are not patterns, and a bank without points."""
    section, output = sections.get("green"), sections.get("output")
    if section is None:
        return
    if not section.sources.part.patterns:
        known = "give 'unit_sources' or 'unit_faults'"
        text = f"{section.sources.type!r} are not sums of fixed patterns of the surface; {known}"
        yield Mistake(("green", "sources", "type"), text)
    if output is not None and (output.gauges is None or not output.gauges.positions):
        yield Mistake(("green",), "no point has a place; name buoys and harbours in [output.gauges.positions]")
