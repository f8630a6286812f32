"""Air pressure and wind over the sea, and the elevation at open sides that balances the pressure.

    wind stress    du/dt = + tau_x / (rho h_u),   dv/dt = + tau_y / (rho h_v)
    wind           tau_x = rho_air C_D(|W|) |W| W_x,   W = the wind at 10 m
    air pressure   du/dt = - (1 / rho) dp/dx

tau_x lies at u and tau_y at v [N m-2]; h_u and h_v are the thickness on these faces [m], rho the water's density.

Under a steady pressure the sea stands at the inverse barometer, eta = -(p - p0) / (rho g): 0.995 cm for 1 hPa. At an
open side, `inverse_barometer(...)` gives this elevation for the outside.

The elevation at an open side that balances the air pressure of the model's own forcing there.

    eta = eta_plus - (p - p_0) / (rho g)

p is that of AirPressure and Cyclone among the model's terms, at the place and the time of the side. So records are not
read again, and derivatives in the points of a track include what the storm does to the sides. p_0 is `reference` for an
AirPressure, 0 if its pressure is the departure from a mean, and the ambient pressure of a Cyclone.
"""

import dataclasses
import datetime
import inspect
import numbers
from collections.abc import Callable
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..defaults import AIR_DENSITY, GRAVITY, WATER_DENSITY
from ..dynamics.clock import Time
from ..dynamics.domain import Domain
from ..dynamics.layer import LayerFlow, gradient
from ..dynamics.terms import Forcing, Series, TimeVarying, rate_at, tile_array, value_at
from ..errors import ConfigError
from ..fields.field import AbstractField, Scalar, Value, to_u, to_v
from ..fields.parameters import Number, ReadRule, array_of, check_arguments, declared, parameter, refuse
from ..fields.parts import which_layer
from ..fields.state import pytree, replace, static
from .wind_laws import WindLaw, drag_law

__all__ = ["AirPressure", "Wind", "WindStress"]


SPEEDS = np.array([1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0])  # [m s-1]
WINDS: dict[str, Any] = {"minimum": -150.0, "maximum": 150.0}  # [m s-1], which no mean wind at 10 m exceeds
CALM = 1e-3  # [m s-1]; keeps the speed differentiable without wind
STANDARD_PRESSURE = 101325.0  # [Pa]
PRESSURES: dict[str, Any] = {"minimum": 5e4, "maximum": 1.2e5}  # [Pa], at sea level
LARGEST_ANOMALY = 2e4  # [Pa]


def of_air() -> Any:
    """The declaration of the density of the air [kg m-3], a parameter."""
    return parameter(None, "kg m-3", minimum=0.1, maximum=10.0, default=AIR_DENSITY, doc="the density of the air")


def of_water() -> Any:
    """The declaration of the density of the water [kg m-3], a parameter."""
    return parameter(None, "kg m-3", minimum=500.0, maximum=2e4, default=WATER_DENSITY, doc="the density of the water")


class DragLaw(ReadRule):
    """The rule of a parameter that is a wind law."""

    def _check(self, who, name, value):
        drag_law(who, value)

    def samples(self, law: WindLaw) -> tuple[float, ...]:
        """The drag coefficients of a function in winds of 1 to 64 m s-1, by which two functions are compared."""
        return tuple(float(x) for x in np.ravel(law(jnp.asarray(SPEEDS))))


@pytree
class WindStress(Forcing):
    """Wind stress on the surface, as a body force that is uniform over the water column (module docstring).

    Args:
        x, y: stress towards +x at u points and +y at v points [N m-2]: a number, a function of (x, y), an (ny, nx)
            array, or time records.
        density: of the water [kg m-3].
    """

    x: Any = parameter("u", "N m-2", default=0.0, halo=False, doc="the stress towards +x")
    y: Any = parameter("v", "N m-2", default=0.0, halo=False, doc="the stress towards +y")
    density: Any = parameter(None, "kg m-3", above=0.0, default=WATER_DENSITY, doc="the density of the water")
    layer: Any = which_layer(0)

    uses_time = False

    def __call__(self, flow: LayerFlow, time: Time) -> tuple[Value, Value]:
        per_h_u, per_h_v = flow.per_h_of_wind
        return self.x * per_h_u / self.density, self.y * per_h_v / self.density


@pytree
class AirPressure(Forcing):
    """The gradient of the air pressure at the surface.

    Args:
        pressure: [Pa]: a number, a function of (x, y), an (ny, nx) array, time records, or a Tide.
        density: of the water [kg m-3].
    """

    pressure: Any = parameter("h", "Pa", doc="the air pressure at the surface")
    density: Any = of_water()

    has_pressure = True
    uses_time = False

    def __post_init__(self):
        values = getattr(self.pressure, "values", self.pressure)
        known = array_of(values) if isinstance(values, (np.ndarray, numbers.Real, list, tuple)) else None
        if known is not None:
            _refuse_hectopascals(known)

    def on_tile(self, domain: Domain) -> Self:
        if inspect.isroutine(self.pressure):  # in the corners and the middle of the grid, the same for all tiles
            x, y = domain.grid.coordinates("h")
            _refuse_hectopascals(self.pressure(_ends_and_middle(x, 1), _ends_and_middle(y, 0)))
        return super().on_tile(domain)

    def __call__(self, flow: LayerFlow, time: Time) -> tuple[Value, Value]:
        if not hasattr(self.pressure, "position"):
            return 0.0, 0.0
        along_x, along_y = gradient(self.pressure / self.density, flow.geometry)
        return -along_x, -along_y

    def pressure_head(self, time: Time, reference: float) -> Value:
        """(p - p_0) / rho [m2 s-2] at a Time, for the reference p_0 [Pa]."""
        return (value_at(self.pressure, time) - reference) / self.density

    def check_reference(self, reference: float, water: jax.Array, agree: Callable) -> None:
        """Raise ConfigError if the pressure is nowhere near p_0, as departures from a mean are with p_0 = 1013.25 hPa.

        Args:
            reference: p_0 [Pa]; 0 of departures.
            water: 1 in the cells of the sea, and 0 elsewhere, a tile array.
            agree: whether a condition holds on any rank; collective.
        """
        if isinstance(self.pressure, Series):
            typical = self.pressure.record(0, jnp.float32)
        else:  # a Tide has no mean
            typical = 0.0 if isinstance(self.pressure, TimeVarying) else jnp.asarray(self.pressure)
        if isinstance(typical, Tracer):
            return
        near = (jnp.abs(typical - reference) <= LARGEST_ANOMALY) & (water > 0)
        if agree(bool(jnp.any(near))) or not agree(bool(jnp.any(water > 0))):
            return
        remedy = (
            "0 if the pressure is the departure from a mean" if reference else "that of the pressure, such as 101325"
        )
        raise ConfigError(
            f"InverseBarometer: reference = {reference:g} Pa differs from the pressure of AirPressure by more than "
            f"{LARGEST_ANOMALY:g} Pa everywhere; give {remedy}."
        )


def _ends_and_middle(coordinates, axis):
    """The first, middle and last ones of coordinates along an axis."""
    size = coordinates.shape[axis]
    return np.take(coordinates, [0, size // 2, size - 1], axis)


def look_like_hectopascals(values: np.ndarray) -> bool:
    """Whether air pressures given in Pa are probably in hPa: in Pa they are a hundred times as large."""
    return bool(300.0 < np.min(values) and np.max(values) < 1200.0)


def _refuse_hectopascals(values):
    if look_like_hectopascals(values):
        raise ConfigError(
            f"AirPressure: pressure = {np.min(values):g} to {np.max(values):g} looks like hPa; give Pa, a hundred "
            "times as much."
        )


def stress(x: AbstractField, y: AbstractField, law: WindLaw, scale: Scalar) -> tuple[AbstractField, AbstractField]:
    """scale C_D |W| (x, y) of the wind components, Fields at one position."""
    speed = (x * x + y * y).map(lambda s: jnp.sqrt(s + CALM**2))
    transfer = scale * speed.map(lambda s: law(s) * s)
    return transfer * x, transfer * y


@pytree
class Wind(Forcing):
    """The stress of the wind at 10 m, by a law that is evaluated in the step.

    Args:
        x, y: the wind towards +x and +y at cell centres [m s-1]: a number, a function of (x, y), an (ny, nx) array,
            time records, or a Tide.
        drag: "large_pond", "garratt" or "powell", or a coefficient [1]; in Python also a function of the speed [m s-1].
        air_density, density: of air and water [kg m-3].
    """

    x: Any = parameter("h", "m s-1", **WINDS, default=0.0, doc="the wind towards +x")
    y: Any = parameter("h", "m s-1", **WINDS, default=0.0, doc="the wind towards +y")
    drag: Any = declared(DragLaw(), default="garratt", static=True)
    air_density: Any = of_air()
    density: Any = of_water()

    uses_time = False

    def __call__(self, flow: LayerFlow, time: Time) -> tuple[Value, Value]:
        still = 0.0 * flow.eta
        along_x, along_y = stress(
            self.x + still, self.y + still, drag_law("Wind", self.drag), self.air_density / self.density
        )
        per_h_u, per_h_v = flow.per_h_of_wind
        return to_u(along_x) * per_h_u, to_v(along_y) * per_h_v


def inverse_barometer(
    pressure: np.ndarray | float,
    reference: float = STANDARD_PRESSURE,
    density: float = WATER_DENSITY,
    gravity: float = GRAVITY,
) -> np.ndarray | float:
    """The elevation [m] at which the sea balances an air pressure: -(p - p0) / (rho g).

    Args:
        pressure: p [Pa], a number or an array.
        reference: p0 [Pa], the pressure under which the elevation is 0; 0 if `pressure` is the departure from it.
        density: of the water [kg m-3].
        gravity: [m s-2].

    Raises:
        ConfigError: for pressures that are not those of air in Pa, as those in hPa are not.
    """
    if isinstance(reference, numbers.Real) and reference == 0:
        _check_range("pressure", pressure, -LARGEST_ANOMALY, LARGEST_ANOMALY, "departures in Pa, or their reference")
    else:
        _check_range("reference", reference, **PRESSURES, remedy="it in Pa, or 0 if pressure is the departure from it")
        _check_range("pressure", pressure, **PRESSURES, remedy="it in Pa, or reference = 0 if it is a departure")
    return -(pressure - reference) / (density * gravity)


def _check_range(name, value, minimum, maximum, remedy):
    """Raise ConfigError for a pressure [Pa] beyond these limits; what is known in a program alone is not checked."""
    known = array_of(value)
    known = np.zeros(0) if known is None else known[np.isfinite(known)]
    for extreme in (known.min(), known.max()) if known.size else ():
        if not minimum <= extreme <= maximum:
            unit = ", and looks like hPa" if look_like_hectopascals(extreme) else ""
            why = f"is not between {minimum:g} and {maximum:g} Pa{unit}"
            refuse("inverse_barometer", name, extreme.item(), why, remedy)


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
