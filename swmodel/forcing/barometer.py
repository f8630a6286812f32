"""The elevation at an open side that balances the air pressure of the model's own forcing there.

    eta = eta_plus - (p - p_0) / (rho g)

p is that of AirPressure and Cyclone among the model's terms, at the place and the time of the side. So records are not
read again, and derivatives in the points of a track include what the storm does to the sides. p_0 is `reference` for an
AirPressure, 0 if its pressure is the departure from a mean, and the ambient pressure of a Cyclone.
"""

import dataclasses
import datetime
import numbers
from collections.abc import Callable
from typing import Any, Self

from ..dynamics.clock import Time
from ..dynamics.domain import Domain
from ..dynamics.terms import TimeVarying, rate_at, tile_array, value_at
from ..errors import ConfigError
from ..fields.field import Scalar, Value
from ..fields.parameters import Number, check_arguments
from ..fields.pytrees import pytree, replace, static
from .atmosphere import PRESSURES, STANDARD_PRESSURE

__all__ = ["BarometricElevation", "InverseBarometer"]

_PLUS = {"plus": Number("h", "m")}
_REFERENCE = {"reference": Number(None, "Pa", **PRESSURES, hint=", or 0 if the pressure is the departure from a mean")}


@dataclasses.dataclass(frozen=True)
class InverseBarometer:
    """The inverse barometer, as the elevation outside of an open boundary.

        sw.Flather("south", elevation=sw.InverseBarometer())

    Args:
        plus: the rest of the elevation outside [m]: whatever the parameter itself may be, such as a number, a function
            of (x, y), a Tide, a Record or time records.
        reference: p_0 of an AirPressure [Pa]; 0 if its pressure is the departure from a mean.

    Raises:
        ConfigError: for another `plus`, and for a reference that is no air pressure in Pa; when a model is made, for
            one that does not go with the pressure.
    """

    plus: Any = 0.0
    reference: float = STANDARD_PRESSURE

    def __post_init__(self) -> None:
        check_arguments("InverseBarometer", _PLUS, vars(self))
        if not (isinstance(self.reference, numbers.Real) and self.reference == 0):
            check_arguments("InverseBarometer", _REFERENCE, vars(self))

    @property
    def start(self) -> datetime.datetime | None:
        """The date and time of step 0 in the tide or the records."""
        return getattr(self.plus, "start", None)

    def placed(self, position: str, domain: Domain, name: str, rule: Number | None = None) -> "BarometricElevation":
        """The BarometricElevation of it; position, name and rule are those of the parameter."""
        return BarometricElevation(tile_array(self.plus, position, domain, name, rule), float(self.reference))


@pytree
class BarometricElevation(TimeVarying):
    """An InverseBarometer in a program.

    Attributes:
        plus: a number, a tile array, a Series or a TimeVarying [m].
        reference: [Pa].
        parts: the terms with an air pressure, prepared; empty until the program starts.
        gravity: [m s-2]; None until the program starts.
    """

    plus: Any
    reference: float = static()
    parts: tuple = ()
    gravity: Any = None

    uses_time = True

    def prepared(self) -> Self:
        return replace(self, plus=self.plus.prepared()) if isinstance(self.plus, TimeVarying) else self

    def map(self, function: Callable) -> Self:
        mapped = self.plus.map(function) if isinstance(self.plus, TimeVarying) else function(self.plus)
        return replace(self, plus=mapped)

    def within(self, terms: tuple, gravity: Scalar) -> Self:
        parts = tuple(term for term in terms if term.has_pressure)
        if not parts:
            raise ConfigError(
                "InverseBarometer: no forcing of the model has an air pressure; add AirPressure or Cyclone, or leave "
                "the inverse barometer out."
            )
        return replace(self, parts=parts, gravity=gravity)

    def check_covers(self, end: float, slack: float, remedy: str) -> None:
        if isinstance(self.plus, TimeVarying):
            self.plus.check_covers(end, slack, remedy)

    def at(self, time: Time) -> Value:
        return value_at(self.plus, time) - self._lowered(time)

    def rate(self, time: Time) -> Value:
        change = self._lowered(time + 0.5) - self._lowered(time + (-0.5))
        return rate_at(self.plus, time) - change * (1.0 / time.dt)

    def _lowered(self, time):
        """(p - p_0) / (rho g) [m]."""
        return sum(part.pressure_head(time, self.reference) for part in self.parts) / self.gravity
