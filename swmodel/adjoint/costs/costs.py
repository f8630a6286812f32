"""Costs: the number J of a run whose derivatives an adjoint gives.

    GaugeElevation    eta at points, at a time or in the mean over a window                                [m]
    GaugeMaximum      (mean over the window of max(eta, 0)^p)^(1/p), close to the largest eta for large p   [m]
    SectionTransport  volume transport through a section along a grid line                                 [m3 s-1]
    BoxEnergy         kinetic and potential energy in a box                                                [J]
    Misfit            half the sum of squared differences to observations over their standard deviations   [1]
    FinalState        the user's own function of the last state

A user writes places and times; `on_tile` makes a TileCost (tile_costs.py) of it once, for the steps of a run.
"""

import dataclasses
from typing import Any

import numpy as np

from ...defaults import WATER_DENSITY
from ...errors import ConfigError
from ...models.shallow_water import ShallowWater
from .readers import BoxReader, GaugeReader, SectionReader, everywhere, time_weights
from .records import Record, slots
from .tile_costs import AtEnd, Cost, OfLastState, PowerMean, Squares, TileCost, Weighted

__all__ = [
    "BoxEnergy", "Cost", "FinalState", "GaugeElevation", "GaugeMaximum", "Misfit", "Record", "SectionTransport",
    "TileCost", "checked",
]  # fmt: skip


@dataclasses.dataclass(frozen=True)
class GaugeElevation(Cost):
    """J = sum over gauges of eta(t), or of the mean of eta over the steps in a window [m].

    eta is bilinear over the wet cells around the gauge, and linear between steps.

    Args:
        places: {name: (x, y)} in the grid's coordinates.
        time: [s]; the end of the run unless given.
        window: (first, last) [s], in place of `time`.
    """

    places: dict
    time: float | None = None
    window: tuple | None = None

    units = "m"

    def on_tile(self, model: ShallowWater, dt: float, first_step: int, steps: int) -> TileCost:
        reader = GaugeReader.at(self.places, model)
        return _in_time(self, reader, len(self.places), model, dt, first_step, steps)


@dataclasses.dataclass(frozen=True)
class GaugeMaximum(Cost):
    """J = sum over gauges of (1/N sum over the N steps of the window of max(eta, 0)^p)^(1/p) [m].

    Never over the maximum, and nearer to it the larger p is: N^(-1/p) of it if one step alone were high, and more for
    a wave that is high for many steps. Its gradient is that of the elevation at the crests.

    Args:
        places: {name: (x, y)}.
        window: (first, last) [s]; all steps unless given.
        power: p, 2 or more.
    """

    places: dict
    window: tuple | None = None
    power: float = 16.0

    units = "m"

    def on_tile(self, model: ShallowWater, dt: float, first_step: int, steps: int) -> TileCost:
        if not self.power >= 2:
            raise ConfigError(f"GaugeMaximum: power = {self.power:g} is no maximum; give 2 or more, such as 16.")
        window = self.window if self.window is not None else (dt * (first_step + 1), dt * (first_step + steps))
        weights = time_weights("GaugeMaximum", None, window, dt, first_step, steps)
        table = np.repeat(weights[:, None], len(self.places), axis=1)
        reader, power = GaugeReader.at(self.places, model), everywhere(model, self.power)
        return PowerMean(reader, everywhere(model, table), power, first_step + 1)


@dataclasses.dataclass(frozen=True)
class SectionTransport(Cost):
    """J = sum over the faces of a section of h u dy, or h v dx, at a time or in the mean over a window [m3 s-1].

    Towards +x through a section along y, and towards +y through one along x.

    Args:
        start, end: (x, y), both on one line between cells (the nearest one is taken), which runs along x or y.
        time, window: as of GaugeElevation.
    """

    start: tuple
    end: tuple
    time: float | None = None
    window: tuple | None = None

    units = "m3 s-1"

    def on_tile(self, model: ShallowWater, dt: float, first_step: int, steps: int) -> TileCost:
        return _in_time(self, SectionReader.between(self.start, self.end, model), 1, model, dt, first_step, steps)


@dataclasses.dataclass(frozen=True)
class BoxEnergy(Cost):
    """J = density * sum over the cells in a box of area (h K + g eta^2 / 2), at a time or in the mean over a window.

    Args:
        x, y: (low, high) of the box, which holds the cells with their centres in it; the whole domain unless given.
        time, window: as of GaugeElevation.
        density: of the water [kg m-3].
    """

    x: tuple | None = None
    y: tuple | None = None
    time: float | None = None
    window: tuple | None = None
    density: float = WATER_DENSITY

    units = "J"

    def on_tile(self, model: ShallowWater, dt: float, first_step: int, steps: int) -> TileCost:
        reader = BoxReader.over(self.x, self.y, self.density, model)
        return _in_time(self, reader, 1, model, dt, first_step, steps)


@dataclasses.dataclass(frozen=True)
class Misfit(Cost):
    """J = 1/2 sum over gauges and their observations of [(eta(t_i) - y_i) / s_i]^2 [1].

    eta is linear between steps. An observation counts where its gauge's window holds it.

    Args:
        records: {name: Record}.
    """

    records: dict

    def on_tile(self, model: ShallowWater, dt: float, first_step: int, steps: int) -> TileCost:
        tables = [everywhere(model, table) for table in slots(self.records, dt, first_step, steps)]
        reader = GaugeReader.at({name: record.place for name, record in self.records.items()}, model)
        return Squares(reader, *tables, first_step + 1)


@dataclasses.dataclass(frozen=True)
class FinalState(Cost):
    """J = sum over tiles of function(state, equations, *arguments), the user's own function of the last state.

    Args:
        function: of a State of one tile's arrays (0 on land and in padding), the Equations (equations.depth.interior
            and so on) and this tile's `arguments`, made of JAX's functions; it gives a number, this tile's share.
        arguments: (ny, nx) host arrays of the whole grid, of which the function gets this tile's part, and numbers.
        units: of J.
    """

    function: Any
    arguments: tuple = ()
    units: str = "1"

    def on_tile(self, model: ShallowWater, dt: float, first_step: int, steps: int) -> TileCost:
        return OfLastState(tuple(model.domain.cut(x) for x in self.arguments), self.function)


def _in_time(cost, reader, count, model, dt, first_step, steps):
    """The TileCost of a reader's `count` numbers at the time, or in the window, of `cost`."""
    if cost.time is None and cost.window is None:
        return AtEnd(reader)
    weights = time_weights(type(cost).__name__, cost.time, cost.window, dt, first_step, steps)
    return Weighted(reader, everywhere(model, np.repeat(weights[:, None], count, axis=1)), first_step + 1)


def checked(cost: Any) -> Cost:
    """`cost`, if it is one.

    Raises:
        ConfigError: saying what to give instead.
    """
    if isinstance(cost, Cost):
        return cost
    if callable(cost):
        raise ConfigError(f"the cost is a function, {getattr(cost, '__name__', cost)}; wrap it: FinalState(function).")
    raise ConfigError(
        f"the cost is a {type(cost).__name__}, which is none; give GaugeElevation, GaugeMaximum, SectionTransport, "
        "BoxEnergy, Misfit or FinalState(function). Maxima and arrival times have no derivative: give GaugeMaximum."
    )
