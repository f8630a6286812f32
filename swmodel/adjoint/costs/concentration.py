"""Costs of tracers: concentrations at points, and the amount in a box."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...dynamics.clock import Time
from ...dynamics.system import System
from ...errors import ConfigError
from ...fields.parameters import Text, declared
from ...fields.state import State, pytree, static
from ...grids.windows import GridValues, Stored
from ...models.shallow_water import ShallowWater
from .costs import TimedCost, of_box, of_gauges, of_time, of_window
from .readers import GaugeReader, in_box, outermost

__all__ = ["BoxContent", "GaugeConcentration"]


class TracerName(Text):
    """The rule of a parameter that names a tracer of the model."""


def _of_tracer() -> Any:
    return declared(TracerName(), static=True, doc="name of the tracer")


class GaugeConcentration(TimedCost):
    """J = sum over gauges of a tracer's concentration c(t), or of its mean over the steps in a window.

    c is interpolated bilinearly between the wet cells around a gauge, and linearly between steps. J has the units of
    the tracer.

    Args:
        tracer: the name of the tracer.
        places: {name: (x, y)} in the grid's coordinates.
        time: time since the start [s]; the end of the run unless given.
        window: (first, last) [s], instead of `time`.
    """

    tracer: str = _of_tracer()
    places: dict = of_gauges()
    time: float | None = of_time()
    window: tuple[float, float] | None = of_window()

    units = "units of the tracer"

    def reader(self, model: ShallowWater) -> tuple[Any, int]:
        _check_tracer(self, outermost(model))
        return GaugeReader.at(self.places, model, self.tracer), len(self.places)

    def title(self) -> str:
        return f"{self.tracer} at {', '.join(self.places)}{self.when()}"

    def locations(self) -> dict[str, tuple[float, float]]:
        return self.places


class BoxContent(TimedCost):
    """J = sum over the cells in a box of area h c, at a time or in the mean over a window: the amount of a tracer.

    J has the units of the tracer times m3.

    Args:
        tracer: the name of the tracer.
        x, y: (low, high) of the box, which holds the cells with centres in this range; the whole domain unless given.
        time, window: as for GaugeConcentration.
    """

    tracer: str = _of_tracer()
    x: tuple[float, float] | None = of_box("x")
    y: tuple[float, float] | None = of_box("y")
    time: float | None = of_time()
    window: tuple[float, float] | None = of_window()

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


@pytree
class ContentReader:
    """sum of area h c; `area` (ny, nx) is that of the cells [m2] in a box, and 0 outside."""

    area: jax.Array
    tracer: str = static()

    def read(self, state: State, equations: System, time: Time) -> jax.Array:
        return jnp.sum(self.area * state[self.tracer])[None]
