"""Costs: the number J of a run of which the adjoint computes derivatives.

    GaugeElevation    eta at points, at a time or in the mean over a window                                [m]
    GaugeMaximum      (mean over the window of max(eta, 0)^p)^(1/p), close to the largest eta for large p   [m]
    SectionTransport  volume transport through a section along a grid line                                 [m3 s-1]
    BoxEnergy         kinetic and potential energy in a box                                                [J]
    GaugeConcentration, BoxContent   the concentration of a tracer at points, and its amount in a box
    Misfit            half the sum of squared differences to observations over their standard deviations   [1]
    FinalState        the user's own function of the last state

Users give places and times. `on_tile` converts a cost, once for each Problem, to
a TileCost (tile_costs.py). The sections [adjoint.cost] of experiment files follow from the declared parameters.
"""

import abc
from typing import Any, ClassVar

import numpy as np

from ...defaults import WATER_DENSITY
from ...errors import ConfigError
from ...fields.parameters import COORDINATES, POINT, Number, Pair, Places, Text, declared, parameter
from ...fields.parts import name_of, which_layer
from ...fields.state import static
from ...grids.windows import GridValues, Stored
from ...models.shallow_water import ShallowWater
from ...nests.family import Family
from ...units import duration
from .readers import BoxReader, ContentReader, GaugeReader, SectionReader, everywhere, in_box, outermost, time_weights
from .records import DictOf, Record, observation_tables
from .tile_costs import AtEnd, Cost, OfLastState, PowerMean, Squares, TileCost, Weighted

__all__ = [
    "BoxContent",
    "BoxEnergy",
    "FinalState",
    "GaugeConcentration",
    "GaugeElevation",
    "GaugeMaximum",
    "Misfit",
    "SectionTransport",
]


OF_GAUGES = "{name: (x, y)} of the gauges"
TIME = Number(units="s", above=0.0, optional=True, doc="time since the start; the end of the run unless given")
WINDOW = Pair("s", "(first, last)", optional=True, ascending=True)
OF_MEAN = "(first, last) of a mean over time, in place of `time`"
OF_MAXIMUM = "(first, last) of the maximum; all steps unless given"
BOX = Pair(COORDINATES, optional=True)
OF_BOX = "(low, high) of the box along {}; from end to end unless given"


class OfRun(Cost):
    """A cost of what is read along a run; subclasses may have `places` and a `window`.

    Attributes:
        observed: the name of the parameter {name: observations that have a `place`}, if there is one.
    """

    reads_families = True
    observed: ClassVar[str | None] = None

    def locations(self) -> dict[str, tuple[float, float]]:
        if self.observed is not None:
            return {name: each.place for name, each in getattr(self, self.observed).items()}
        return getattr(self, "places", {})

    def last_time(self) -> float:
        window = getattr(self, "window", None)
        return 0.0 if window is None else window[1]


class TimedCost(OfRun):
    """A cost that sums up a reader's numbers at a time, in the mean over a window, or at the end of the run.

    Subclasses declare `time` and `window`.
    """

    exclusive: ClassVar = (("time", "window"),)
    time: ClassVar[float | None]
    window: ClassVar[tuple[float, float] | None]

    @abc.abstractmethod
    def reader(self, model: ShallowWater) -> tuple[Any, int]:
        """(the reader, how many numbers it reads)."""

    def on_tile(self, model: ShallowWater, dt: float, first_step: int, steps: int) -> TileCost:
        reader, count = self.reader(model)
        if self.time is None and self.window is None:
            return AtEnd(reader)
        weights = time_weights(type(self).__name__, self.time, self.window, dt, first_step, steps)
        return Weighted(reader, everywhere(model, np.repeat(weights[:, None], count, axis=1)), first_step + 1)

    def when(self) -> str:
        """The time, in words."""
        if self.window is not None:
            return during(self.window)
        return " at the end" if self.time is None else f" after {duration(self.time)}"

    def last_time(self) -> float:
        return self.time or super().last_time()


def during(window: tuple[float, float] | None) -> str:
    """(first, last) [s] in words."""
    return "" if window is None else f" from {duration(window[0])} to {duration(window[1])}"


class GaugeElevation(TimedCost):
    """J = sum over gauges of eta(t), or of the mean of eta over the steps in a window [m].

    eta is interpolated bilinearly between the wet cells around a gauge, and linearly between steps.

    Args:
        places: {name: (x, y)} in the grid's coordinates.
        time: time since the start [s]; the end of the run unless given.
        window: (first, last) [s], instead of `time`.
    """

    places: dict = declared(Places(), doc=OF_GAUGES)
    time: float | None = declared(TIME, default=None)
    window: tuple[float, float] | None = declared(WINDOW, default=None, doc=OF_MEAN)

    units = "m"

    def reader(self, model: ShallowWater) -> tuple[Any, int]:
        return GaugeReader.at(self.places, model), len(self.places)

    def title(self) -> str:
        return f"elevation at {', '.join(self.places)}{self.when()}"


class GaugeMaximum(OfRun):
    """J = sum over gauges of (1/N sum over the N steps of the window of max(eta, 0)^p)^(1/p) [m].

    J is a smooth lower bound of the maximum that grows with p. If one step alone is high, J is N^(-1/p) of the maximum;
    it is closer if a wave is high for many steps. The gradient is that of the elevation near the highest levels.

    Args:
        places: {name: (x, y)}.
        window: (first, last) [s]; all steps unless given.
        power: p, 2 or more.
    """

    places: dict = declared(Places(), doc=OF_GAUGES)
    window: tuple[float, float] | None = declared(WINDOW, default=None, doc=OF_MAXIMUM)
    power: float = parameter(minimum=2.0, default=16.0, static=True, doc="p: the larger, the closer to the maximum")

    units = "m"

    def on_tile(self, model: ShallowWater, dt: float, first_step: int, steps: int) -> TileCost:
        window = self.window if self.window is not None else (dt * (first_step + 1), dt * (first_step + steps))
        weights = time_weights("GaugeMaximum", None, window, dt, first_step, steps)
        table = np.repeat(weights[:, None], len(self.places), axis=1)
        reader, power = GaugeReader.at(self.places, model), everywhere(model, self.power)
        return PowerMean(reader, everywhere(model, table), power, first_step + 1)

    def title(self) -> str:
        return f"maximum elevation at {', '.join(self.places)}{during(self.window)}"


class SectionTransport(TimedCost):
    """J = sum over the faces of a section of h u dy, or h v dx, at a time or in the mean over a window [m3 s-1].

    It is positive towards +x through a section along y, and towards +y through a section along x.

    Args:
        start, end: (x, y) of the ends, with equal x or equal y; the section lies on the nearest line between cells.
        time, window: as for GaugeElevation.
        layer: the number of the layer, from 0 at the top; the sum over all layers unless given.
    """

    start: tuple[float, float] = declared(POINT, doc="(x, y) where the section begins")
    end: tuple[float, float] = declared(
        POINT, doc="(x, y) where the section ends, with the same x or the same y as its start"
    )
    time: float | None = declared(TIME, default=None)
    window: tuple[float, float] | None = declared(WINDOW, default=None, doc=OF_MEAN)
    layer: int | None = which_layer(verb="reads")

    units = "m3 s-1"

    def reader(self, model: ShallowWater) -> tuple[Any, int]:
        return SectionReader.between(self.start, self.end, model, self.layer), 1

    def title(self) -> str:
        start, end = (f"({x:.9g}, {y:.9g})" for x, y in (self.start, self.end))
        return f"transport through the section from {start} to {end}{self.when()}"

    def locations(self) -> dict[str, tuple[float, float]]:
        return {"start": self.start, "end": self.end}


class BoxEnergy(TimedCost):
    """J = density * sum over the cells in a box of area (h K + g eta^2 / 2), at a time or in the mean over a window.

    Of layers it is the sum over all of them and their interfaces.

    Args:
        x, y: (low, high) of the box, which holds the cells with centres in this range; the whole domain unless given.
        time, window: as for GaugeElevation.
        density: density of the water [kg m-3].
    """

    x: tuple[float, float] | None = declared(BOX, default=None, doc=OF_BOX.format("x"))
    y: tuple[float, float] | None = declared(BOX, default=None, doc=OF_BOX.format("y"))
    time: float | None = declared(TIME, default=None)
    window: tuple[float, float] | None = declared(WINDOW, default=None, doc=OF_MEAN)
    density: float = parameter(
        None, "kg m-3", above=0.0, default=WATER_DENSITY, static=True, doc="density of the water"
    )

    units = "J"

    def reader(self, model: ShallowWater) -> tuple[Any, int]:
        return BoxReader.over(self.x, self.y, self.density, model), 1

    def title(self) -> str:
        return ("energy" if self.x is None and self.y is None else "energy in a box") + self.when()


class TracerName(Text):
    """The rule of a parameter that names a tracer of the model."""


class GaugeConcentration(TimedCost):
    """J = sum over gauges of a tracer's concentration c(t), or of its mean over a window, in the units of the tracer.

    Args:
        tracer: the name of the tracer.
        places, time, window: as for GaugeElevation, between whose cells and steps c is interpolated likewise.
    """

    tracer: str = declared(TracerName(), static=True, doc="name of the tracer")
    places: dict = declared(Places(), doc=OF_GAUGES)
    time: float | None = declared(TIME, default=None)
    window: tuple[float, float] | None = declared(WINDOW, default=None, doc=OF_MEAN)

    units = "units of the tracer"

    def reader(self, model: ShallowWater) -> tuple[Any, int]:
        _check_tracer(self, outermost(model))
        return GaugeReader.at(self.places, model, self.tracer), len(self.places)

    def title(self) -> str:
        return f"{self.tracer} at {', '.join(self.places)}{self.when()}"


class BoxContent(TimedCost):
    """J = sum over the cells in a box of area h c, at a time or in the mean over a window: the amount of a tracer.

    J has the units of the tracer times m3.

    Args:
        tracer: the name of the tracer.
        x, y: (low, high) of the box, which holds the cells with centres in this range; the whole domain unless given.
        time, window: as for GaugeElevation.
    """

    tracer: str = declared(TracerName(), static=True, doc="name of the tracer")
    x: tuple[float, float] | None = declared(BOX, default=None, doc=OF_BOX.format("x"))
    y: tuple[float, float] | None = declared(BOX, default=None, doc=OF_BOX.format("y"))
    time: float | None = declared(TIME, default=None)
    window: tuple[float, float] | None = declared(WINDOW, default=None, doc=OF_MEAN)

    units = "m3 x units of the tracer"

    def reader(self, model: ShallowWater) -> tuple[Any, int]:
        _check_tracer(self, outermost(model))

        def of(inside: GridValues, model: ShallowWater) -> ContentReader:
            areas = Stored(model.grid.area_h, model.grid.shape)
            return ContentReader(model.scatter(inside.map(np.multiply, areas)), self.tracer)

        return in_box(self.x, self.y, model, of), 1

    def title(self) -> str:
        return f"amount of {self.tracer}{'' if self.x is None and self.y is None else ' in a box'}{self.when()}"


def _check_tracer(cost, model):
    """Raise ConfigError unless the model steps the tracer that a cost names."""
    known = [row.name for row, *_ in model.system.contents]
    if cost.tracer not in known:
        raise ConfigError(
            f"{type(cost).__name__}: the model steps no tracer {cost.tracer!r}; "
            f"{'it has ' + ', '.join(known) if known else 'give it one, tracers=sw.Tracer(...)'}."
        )


class SeriesMisfit(OfRun):
    """A misfit to Records of the numbers that a reader reads, linear between steps."""

    @abc.abstractmethod
    def reader(self, model: ShallowWater) -> Any:
        """The reader."""

    @abc.abstractmethod
    def series(self) -> dict[str, Record]:
        """{label: Record} of the reader's numbers, in their order."""

    def on_tile(self, model: ShallowWater, dt: float, first_step: int, steps: int) -> TileCost:
        reader, tables = self.reader(model), observation_tables(self.series(), dt, first_step, steps)
        share, observed, per_deviation = (everywhere(model, table) for table in tables)
        return Squares(reader, share, observed, per_deviation, first_step + 1)

    def last_time(self) -> float:
        times = (record.counted()[0] for record in self.series().values())
        return max((float(np.max(time, initial=0.0)) for time in times), default=0.0)


class Misfit(SeriesMisfit):
    """J = 1/2 sum over gauges and their observations of [(eta(t_i) - y_i) / s_i]^2 [1].

    eta is interpolated linearly between steps. Observations outside their record's window do not count.

    Args:
        records: {name: Record}.
    """

    records: dict[str, Record] = declared(
        DictOf(Record, "records", "'Lisbon': Record((x, y), time, eta)", may_be_empty=True),
        doc="{name: Record} of the observations",
    )

    observed = "records"

    def reader(self, model: ShallowWater) -> Any:
        return GaugeReader.at(self.locations(), model) if self.records else None

    def series(self) -> dict[str, Record]:
        return self.records

    def title(self) -> str:
        return f"misfit to observations at {', '.join(self.records)}"


class FinalState(Cost):
    """J = sum over tiles of function(state, equations, *arguments), the user's own function of the last state.

    Args:
        function: `function(state, equations, *arguments)` in JAX, called on each tile. It gets the State of one tile,
            0 on land and in padding, the System (for example equations.depth.interior) and this tile's part of
            `arguments`. It returns this tile's share of J, a number. In a family of grids it gets the tuple of their
            States and a FamilySystem, whose `systems` are those of the grids.
        arguments: host arrays (ny, nx) of the whole (outermost) grid, and numbers.
        units: units of J.
    """

    kind = None  # an experiment file cannot hold a function
    reads_families = True

    function: Any = static()
    arguments: tuple = ()
    units: str = static(default="1")

    def on_tile(self, model: ShallowWater, dt: float, first_step: int, steps: int) -> TileCost:
        return OfLastState(tuple(outermost(model).domain.cut(x) for x in self.arguments), self.function)


def tile_cost(cost: Any, model: ShallowWater | Family, dt: float, first_step: int, steps: int) -> TileCost:
    """The TileCost of a Cost for a run; the arguments are those of `on_tile`.

    Raises:
        ConfigError: if it is not a Cost, or reads one grid alone and the model is a family.
    """
    if isinstance(cost, Cost):
        if isinstance(model, Family) and not cost.reads_families:
            raise ConfigError(
                f"{name_of(cost)} reads one grid, and a family has several; give GaugeElevation, GaugeMaximum, "
                "GaugeConcentration, SectionTransport, BoxEnergy, BoxContent, a misfit of elevations, velocities, "
                "harmonic constants or transports, or FinalState(function)."
            )
        return cost.on_tile(model, dt, first_step, steps)
    if callable(cost):
        raise ConfigError(f"the cost is a function, {getattr(cost, '__name__', cost)}; wrap it: FinalState(function).")
    raise ConfigError(
        f"the cost is a {type(cost).__name__}, which is not a Cost; give GaugeElevation, GaugeMaximum, "
        "SectionTransport, BoxEnergy, Misfit or FinalState(function). Maxima and arrival times have "
        "no derivative: give GaugeMaximum."
    )
