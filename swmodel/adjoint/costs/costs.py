"""Costs: the number J of a run of which the adjoint computes derivatives.

    GaugeElevation    eta at points, at a time or in the mean over a window                                [m]
    GaugeMaximum      (mean over the window of max(eta, 0)^p)^(1/p), close to the largest eta for large p   [m]
    SectionTransport  volume transport through a section along a grid line                                 [m3 s-1]
    BoxEnergy         kinetic and potential energy in a box                                                [J]
    Misfit            half the sum of squared differences to observations over their standard deviations   [1]
    FinalState        the user's own function of the last state

Users give places and times. `on_tile` converts a cost, once for each Problem, to a TileCost (tile_costs.py).
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

    eta is interpolated bilinearly between the wet cells around a gauge, and linearly between steps.

    Args:
        places: {name: (x, y)} in the grid's coordinates.
        time: time since the start [s]; the end of the run unless given.
        window: (first, last) [s], instead of `time`.
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

    J is a smooth lower bound of the maximum that grows with p. If one step alone is high, J is N^(-1/p) of the maximum;
    it is closer if a wave is high for many steps. The gradient is that of the elevation near the crests.

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
            raise ConfigError(
                f"GaugeMaximum: power = {self.power:g} is too small for a maximum; give 2 or more, such as 16."
            )
        window = self.window if self.window is not None else (dt * (first_step + 1), dt * (first_step + steps))
        weights = time_weights("GaugeMaximum", None, window, dt, first_step, steps)
        table = np.repeat(weights[:, None], len(self.places), axis=1)
        reader, power = GaugeReader.at(self.places, model), everywhere(model, self.power)
        return PowerMean(reader, everywhere(model, table), power, first_step + 1)


@dataclasses.dataclass(frozen=True)
class SectionTransport(Cost):
    """J = sum over the faces of a section of h u dy, or h v dx, at a time or in the mean over a window [m3 s-1].

    It is positive towards +x through a section along y, and towards +y through a section along x.

    Args:
        start, end: (x, y) of the ends, with equal x or equal y; the section lies on the nearest line between cells.
        time, window: as for GaugeElevation.
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
        x, y: (low, high) of the box, to which cells with their centres in it belong; the whole domain unless given.
        time, window: as for GaugeElevation.
        density: density of the water [kg m-3].
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

    eta is interpolated linearly between steps. Observations outside their record's window do not count.

    Args:
        records: {name: Record}.
    """

    records: dict

    def on_tile(self, model: ShallowWater, dt: float, first_step: int, steps: int) -> TileCost:
        share, observed, per_deviation = (everywhere(model, x) for x in slots(self.records, dt, first_step, steps))
        reader = GaugeReader.at({name: record.place for name, record in self.records.items()}, model)
        return Squares(reader, share, observed, per_deviation, first_step + 1)


@dataclasses.dataclass(frozen=True)
class FinalState(Cost):
    """J = sum over tiles of function(state, equations, *arguments), the user's own function of the last state.

    Args:
        function: `function(state, equations, *arguments)` in JAX, called on each tile. It gets the State of one tile
            (0 on land and in padding), the Equations (equations.depth.interior, for example) and this tile's part of
            `arguments`, and returns this tile's share of J, a number.
        arguments: host arrays (ny, nx) of the whole grid, and numbers.
        units: units of J.
    """

    function: Any
    arguments: tuple = ()
    units: str = "1"

    def on_tile(self, model: ShallowWater, dt: float, first_step: int, steps: int) -> TileCost:
        return OfLastState(tuple(model.domain.cut(x) for x in self.arguments), self.function)


def _in_time(cost, reader, count, model, dt, first_step, steps):
    """The TileCost that sums a reader's `count` numbers at the time, or over the window, of `cost`."""
    if cost.time is None and cost.window is None:
        return AtEnd(reader)
    weights = time_weights(type(cost).__name__, cost.time, cost.window, dt, first_step, steps)
    return Weighted(reader, everywhere(model, np.repeat(weights[:, None], count, axis=1)), first_step + 1)


def checked(cost: Any) -> Cost:
    """`cost`, if it is a Cost.

    Raises:
        ConfigError: if it is not a Cost; the message says what to give instead.
    """
    if isinstance(cost, Cost):
        return cost
    if callable(cost):
        raise ConfigError(f"the cost is a function, {getattr(cost, '__name__', cost)}; wrap it: FinalState(function).")
    raise ConfigError(
        f"the cost is a {type(cost).__name__}, which is not a Cost; give GaugeElevation, GaugeMaximum, "
        "SectionTransport, BoxEnergy, Misfit or FinalState(function). Maxima and arrival times have "
        "no derivative: give GaugeMaximum."
    )
