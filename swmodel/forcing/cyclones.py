"""Tropical cyclones as a forcing: wind and air pressure of a vortex that follows a track, evaluated in the step.

    p(r) = p_c + (p_n - p_c) exp(-(R/r)^B)
    V(r) = sqrt(B (p_n - p_c) / rho_air (R/r)^B exp(-(R/r)^B) + (r f / 2)^2) - r |f| / 2        Holland (1980)
    V(r) = V_m [(R/r)^B exp(1 - (R/r)^B)]^x,   V_m = sqrt(B (p_n - p_c) / (rho_air e))          Holland et al. (2010)

R is the radius of maximum wind. The wind at 10 m is the share `reduction` of V, rotated inwards by `inflow`. To it the
share `translation` of the motion of the centre is added where V is largest, and less elsewhere, in proportion to V. The
stress follows from a wind law (atmosphere.py). Centre, central pressure, R and B are linear between the points of the
track, and controls of the adjoint (`forcing.0.x`, `forcing.0.central_pressure`, ...): vectors with one value for each
point. A storm with `asymmetry` has a radius in each quadrant, R_q; between the middles of the quadrants, in the
direction theta, R is the sum of R_q max(cos(theta - theta_q), 0)^2. With several isotachs, at the `distances` r_k, the
radius R_k of each holds there, R is linear in r between them, and constant beyond the first and the last.

Holland (1980), doi:10.1175/1520-0493(1980)108<1212:AAMOTW>2.0.CO;2; Holland et al. (2010), doi:10.1175/2010MWR3317.1.
"""

import dataclasses
import math
from typing import Any, Self, cast

import jax
import jax.numpy as jnp
import numpy as np

from ..defaults import EARTH_RADIUS, EARTH_ROTATION
from ..dynamics.clock import Moments, Time
from ..dynamics.domain import Domain
from ..dynamics.layer import LayerFlow, gradient
from ..dynamics.stages import Exchange
from ..dynamics.terms import Forcing, tile_array
from ..errors import ConfigError
from ..fields.field import AbstractField, Field, Value, to_u, to_v
from ..fields.parameters import DERIVED, Choice, Moment, array_of, declared, parameter, refuse
from ..fields.state import pytree, replaced, static
from ..grids.geometry import FPlane
from ..parallel.communicator import Communicator
from .atmosphere import PRESSURES, DragLaw, of_air, of_water, stress
from .wind_laws import drag_law

__all__ = ["AMBIENT", "Cyclone"]

EYE = 500.0  # [m]: the distance from the centre is never less than about this
CALM = 1e-3  # [m s-1]
APART = 1e-3  # the least distance between isotachs over the radius of maximum wind [1]


class Points:
    """The rule of a parameter that has one number for each point of a track."""

    def __init__(self, units: str, minimum: float | None = None, maximum: float | None = None, why: str = "") -> None:
        self.units, self.minimum, self.maximum, self.why = units, minimum, maximum, why

    def check(self, who: str, name: str, value: object) -> None:
        if hasattr(value, "aval"):  # an array of JAX
            return
        numbers = array_of(value)
        remedy = f"one number in {self.units} for each point of the track"
        if numbers is None or numbers.ndim > 1:
            refuse(who, name, value, "is not a line of numbers", remedy)
        elif not np.isfinite(numbers).all():
            refuse(who, name, value, "holds values that are not finite", remedy)
        elif self.minimum is not None and numbers.min() < self.minimum:
            refuse(who, name, float(numbers.min()), f"is less than {self.minimum:g}{self.why}", remedy)
        elif self.maximum is not None and numbers.max() > self.maximum:
            refuse(who, name, float(numbers.max()), f"is greater than {self.maximum:g}", remedy)


LEAST_SHARE, MOST_SHARE = 0.1, 10.0  # of the radius in a quadrant over that of the track [1]


class Quadrants:
    """The rule of None, or of four numbers for each isotach at each point of a track."""

    def __init__(self, least: float, most: float) -> None:
        self.least, self.most = least, most

    def check(self, who: str, name: str, value: object) -> None:
        if value is None:
            return
        numbers = array_of(value)
        fits = numbers is not None and numbers.ndim == 2 and numbers.shape[1] % 4 == 0 < numbers.size
        if numbers is None or not (fits and ((numbers >= self.least) & (numbers <= self.most)).all()):
            why = f"is not a table of four numbers from {self.least:g} to {self.most:g}"
            refuse(who, name, value, why, "those of north-east, south-east, south-west and north-west at each point")


PRESSURE = Points("Pa", **PRESSURES, why=" Pa, as pressures in hPa are")
AMBIENT = 101300.0  # [Pa], outside of a storm
WITHOUT_ROTATION = 5e-5  # [s-1], f of a storm over a sea that does not rotate


@pytree
class Cyclone(Forcing):
    """Wind stress and air pressure of a cyclone.

    Args:
        times: of the points of the track, counted from step 0, increasing [s] (n,).
        x, y: the centre [m, or degrees on the sphere] (n,).
        central_pressure: p_c [Pa] (n,).
        radius: R, of maximum wind [m] (n,).
        b: B, the shape [1] (n,); 1 to 2.5 in mature storms.
        ambient_pressure: p_n [Pa].
        asymmetry: R in the quadrants north-east, south-east, south-west and north-west over `radius` [1] (n, 4), or
            that of several isotachs, from the strongest on (n, 4 k).
        distances: of several isotachs from the centre over `radius`, which do not decrease [1] (n, 4 k).
        profile: "holland_1980" or "holland_2010"; exponent: x of the latter [1].
        inflow: the angle between the wind and the circles round the centre [degrees].
        reduction: of the gradient wind to 10 m [1]; translation: the share of the motion that is added [1]. The B of
            Holland (2010) is that of the wind at 10 m: give reduction = 1 with a B of one's own and "holland_2010". The
            B of a track (`cyclone_of`) is fitted with the reduction.
        coriolis: f on a plane [s-1]; that of the model at the centre unless given, and 5e-5 in a model without one. On
            the sphere it is that of the centre. The wind turns with its sign.
        drag: the wind law: "large_pond", "garratt", "powell", a coefficient or a function.
        air_density, density: of air and water [kg m-3].
        start: date and time of step 0 (UTC), where `times` come from dates; the same for all parts of a model.
        spherical: True if x and y are longitudes and latitudes, as in the track of a file; otherwise the grid decides.
        coordinates: the grid's, found by the model.

    Raises:
        ConfigError: for times that do not increase, lines of different lengths, and a central pressure that is not
            below the ambient one.
    """

    times: tuple = declared(Points("s"), static=True)
    x: Any = declared(Points("m or degrees"))
    y: Any = declared(Points("m or degrees"))
    central_pressure: Any = declared(PRESSURE)
    radius: Any = declared(Points("m", 1e3, 1e6, " m"))
    b: Any = declared(Points("1", 0.5, 5.0), default=1.5)
    ambient_pressure: Any = parameter(
        None, "Pa", **PRESSURES, default=AMBIENT, doc="the air pressure outside of the storm"
    )
    profile: str = declared(
        Choice(("holland_1980", "holland_2010")),
        default="holland_1980",
        static=True,
        doc="of the wind over the distance from the centre",
    )
    exponent: Any = parameter(None, "1", above=0.0, maximum=1.0, default=0.5, doc="x, of the later profile")
    inflow: Any = parameter(None, "degree", minimum=0.0, maximum=60.0, default=20.0, doc="the angle of the inflow")
    reduction: Any = parameter(None, "1", above=0.0, maximum=1.0, default=0.9, doc="of the gradient wind to 10 m")
    translation: Any = parameter(None, "1", minimum=0.0, maximum=1.0, default=0.5, doc="the share of the motion")
    coriolis: float | None = parameter(
        None, "s-1", default=None, optional=True, static=True, doc="f on a plane, in place of the model's"
    )
    drag: Any = declared(DragLaw(), default="garratt", static=True, doc="a wind law, or a coefficient")
    air_density: Any = of_air()
    density: Any = of_water()
    start: Any = declared(Moment(), default=None, static=True)
    spherical: bool = static(default=False)
    asymmetry: Any = declared(Quadrants(LEAST_SHARE, MOST_SHARE), default=None, static=True)
    distances: Any = declared(Quadrants(0.0, 1e4), default=None, static=True)
    coordinates: Any = dataclasses.field(default=None, metadata=DERIVED)

    has_pressure = True
    dated_by = "track"
    lines = ("x", "y", "central_pressure", "radius", "b")  # the points of the track
    moments_of_lines = ("times",)
    references = "Holland (1980), doi:10.1175/1520-0493(1980)108<1212:AAMOTW>2.0.CO;2"

    def __post_init__(self):
        times = np.asarray(self.times, float)
        if times.ndim != 1 or times.size < 2 or (np.diff(times) <= 0).any():
            raise ConfigError("Cyclone: times do not increase; give two or more points of the track, in order.")
        object.__setattr__(self, "times", tuple(times.tolist()))
        for name in self.lines:
            value = getattr(self, name)
            if np.ndim(value) == 0 and name not in ("x", "y"):
                object.__setattr__(self, name, np.full(times.size, value, float))
            elif np.shape(value) != times.shape:
                raise ConfigError(f"Cyclone: {name} has {np.size(value)} values for {times.size} times; give as many.")
        for name in ("asymmetry", "distances"):
            if (table := getattr(self, name)) is not None:
                rows = np.asarray(table, float)
                if len(rows) != times.size:
                    raise ConfigError(f"Cyclone: {name} has {len(rows)} rows for {times.size} times; give as many.")
                object.__setattr__(self, name, tuple(map(tuple, rows.tolist())))
        if np.size(self.asymmetry) != np.size(self.distances) and (self.distances or len(self.asymmetry[0]) > 4):
            raise ConfigError("Cyclone: asymmetry and distances have different sizes; give as many of both.")
        if self.distances and (np.diff(np.reshape(self.distances, (times.size, -1, 4)), axis=1) < -1e-9).any():
            raise ConfigError("Cyclone: distances decrease from an isotach to the next; give the strongest one first.")
        if not (isinstance(self.central_pressure, jax.Array) or isinstance(self.ambient_pressure, jax.Array)):
            self._check_deficit(times)

    def _check_deficit(self, times):
        ambient = float(self.ambient_pressure)
        k = int(np.argmax(self.central_pressure))
        if (highest := float(self.central_pressure[k])) >= ambient:
            raise ConfigError(
                f"Cyclone: central_pressure = {highest:g} Pa, {times[k]:g} s after the start, is not below "
                f"ambient_pressure = {ambient:g} Pa; give a higher ambient_pressure, or leave such points out."
            )

    def units_of(self, name: str) -> str:
        """The units of a parameter; those of the centre are the grid's, which is known to the part of a model."""
        if name not in ("x", "y"):
            return super().units_of(name)
        return f"degree_{'east' if name == 'x' else 'north'}" if self.spherical else "m"

    def check_covers(self, end: float, slack: float, remedy: str = "shorten it") -> None:
        super().check_covers(end, slack, remedy)
        if self.times[-1] < end - slack:
            raise ConfigError(
                f"Cyclone: the track ends at {self.times[-1]:g} s, and the run needs it until {end:g} s; give "
                "a longer track, or shorten the run."
            )

    def on_tile(self, domain: Domain) -> Self:
        if self.times[0] > 0:
            raise ConfigError(
                f"Cyclone: the track starts {self.times[0]:g} s after the run; start the run later, or give an earlier "
                "point."
            )
        grid = domain.grid
        if self.spherical and not grid.spherical:
            raise ConfigError(
                "Cyclone: its track has longitudes and latitudes, and the grid is a plane; use a SphericalGrid, or "
                "project the track to x and y in metres."
            )
        degree = np.pi / 180.0 * getattr(grid, "radius", 1.0) if grid.spherical else 1.0

        def placed(values):
            return tile_array(lambda x, y: values(x, y) + 0.0 * (x + y), "h", domain, "Cyclone: coordinates")

        coordinates = {
            "x": placed(lambda x, y: x),
            "y": placed(lambda x, y: y),
            "metres": placed(lambda x, y: degree * np.cos(np.deg2rad(y)) if grid.spherical else 1.0),
        }
        if not grid.spherical:
            rotation = domain.coriolis if self.coriolis is None else FPlane(self.coriolis)
            coordinates["rotation"] = jax.tree.map(domain.cut, rotation or FPlane(WITHOUT_ROTATION))
        placed_lines = {name: domain.cut(np.asarray(getattr(self, name), float)) for name in self.lines}
        return replaced(
            self,
            {**placed_lines, "coordinates": coordinates | {"degree": domain.cut(degree)}, "spherical": grid.spherical},
        )

    def points(self, communicator: Communicator) -> np.ndarray:
        """The moments of the track's points [s]."""
        return np.asarray(self.times)

    def with_points(self, moments: np.ndarray, lines: dict[str, np.ndarray], communicator: Communicator) -> Self:
        """This part with other points: its `lines`, {name: values}, at these moments [s]."""

        def at(table):
            return table and tuple(zip(*(np.interp(moments, self.times, each).tolist() for each in zip(*table))))

        tables = {"asymmetry": at(self.asymmetry), "distances": at(self.distances)}
        return replaced(self, {"times": tuple(moments.tolist()), **tables, **lines})

    def prepare(self, exchange: Exchange) -> Self:
        return replaced(self, {"coordinates": jax.tree.map(exchange.parameter, self.coordinates)})

    def centre(self, time: Time) -> dict[str, jax.Array]:
        """{name: value at a Time} of the lines of the track, and the motion of the centre: dx, dy [units s-1]."""
        dtype = self.x.dtype
        place = lambda x: jnp.asarray(x, dtype if x.dtype.kind == "f" else None)  # noqa: E731
        k, weight = Moments.of(self.times, place).bracket(time)
        lines = {name: getattr(self, name) for name in self.lines}
        tables = {"asymmetry": self.asymmetry, "distances": self.distances}
        lines |= {name: jnp.asarray(table, dtype) for name, table in tables.items() if table is not None}
        values = {name: line[k] + weight * (line[k + 1] - line[k]) for name, line in lines.items()}
        length = jnp.asarray(np.diff(self.times), dtype)[k]
        return values | {f"d{name}": (lines[name][k + 1] - lines[name][k]) / length for name in ("x", "y")}

    def fields(self, time: Time) -> tuple[AbstractField, AbstractField, AbstractField]:
        """(air pressure [Pa], wind towards +x, towards +y [m s-1]) at a Time, Fields at h, of a prepared part."""
        at, c, spherical = self.centre(time), self.coordinates, self.spherical
        east = c["x"] - at["x"]
        if spherical:
            east = east - 360.0 * ((east + 180.0) * (1.0 / 360.0)).map(jnp.floor)
        east, north = east * c["metres"], (c["y"] - at["y"]) * c["degree"]
        r = (east * east + north * north).map(lambda s: jnp.sqrt(s + EYE**2))
        power = (self._radius(at, east, north, r) / r).map(lambda ratio: jnp.exp(at["b"] * jnp.log(ratio)))
        deficit = self.ambient_pressure - at["central_pressure"]
        core = power.map(lambda p: jnp.exp(-p))
        f = 2.0 * EARTH_ROTATION * jnp.sin(jnp.deg2rad(at["y"])) if spherical else c["rotation"].at_y(at["y"])
        speed, largest = self._speed(r, power * core, at["b"] * deficit / self.air_density, f)
        turn, angle = jnp.where(f >= 0, 1.0, -1.0).astype(f.dtype), jnp.deg2rad(self.inflow)
        round_, inwards = turn * jnp.cos(angle) * self.reduction, jnp.sin(angle) * self.reduction
        along = speed / r
        moved = speed * (self.translation / largest)
        scale = jnp.cos(jnp.deg2rad(at["y"])) if spherical else 1.0
        drift_x, drift_y = at["dx"] * c["degree"] * scale, at["dy"] * c["degree"]
        wind_x = along * (north * -round_ - east * inwards) + moved * drift_x
        wind_y = along * (east * round_ - north * inwards) + moved * drift_y
        return self.ambient_pressure - deficit * (1.0 - core), wind_x, wind_y

    def wind_at(self, longitude: np.ndarray, latitude: np.ndarray, seconds: float) -> tuple[np.ndarray, np.ndarray]:
        """The wind at 10 m towards the east and the north [m s-1] at places on the sphere, (ny, nx) each.

        Args:
            longitude, latitude: [degrees], (ny, nx).
            seconds: the time since step 0 [s].
        """
        degree = np.deg2rad(EARTH_RADIUS)
        places = {"x": longitude, "y": latitude, "metres": degree * np.cos(np.deg2rad(latitude))}
        coordinates = {name: Field(jnp.asarray(x), "h", (0, 0, 0, 0)) for name, x in places.items()}
        lines = {name: jnp.asarray(getattr(self, name)) for name in self.lines}
        storm = replaced(self, lines | {"coordinates": coordinates | {"degree": degree}, "spherical": True})
        whole = int(seconds)
        time = Time(whole, seconds - whole, jnp.asarray(1.0), 1.0)
        _, wind_x, wind_y = storm.fields(time)
        return np.asarray(cast(Field, wind_x).data), np.asarray(cast(Field, wind_y).data)

    def _radius(self, at, east, north, r):
        """R [m] in the direction of each point, a number or a Field."""
        if self.asymmetry is None:
            return at["radius"]
        along = [(east + sign * north) * (math.sqrt(0.5) / r) for sign in (1.0, -1.0)]  # NE and SW, SE and NW

        def around(of_quadrants) -> Any:
            mean, total = jnp.mean(of_quadrants), 0.0
            for k, x in enumerate(along):
                one, other = of_quadrants[k] - mean, of_quadrants[k + 2] - mean
                total = x * (x * (0.5 * (one + other)) + abs(x) * (0.5 * (one - other))) + total
            return mean + total

        share, *outer = map(around, at["asymmetry"].reshape(-1, 4))
        before = share
        if outer:
            near, *far = map(around, at["distances"].reshape(-1, 4))
            for own, distance in zip(outer, far, strict=True):
                width = (distance - near).map(lambda d: jnp.maximum(d, APART))
                place = (r / at["radius"] - near) / width
                weight = place.map(lambda w: jnp.clip(w, 0.0, 1.0))
                share, before, near = share + weight * (own - before), own, distance
        return at["radius"] * share

    def _speed(self, r, shape, strength, f):
        """(V, a Field [m s-1], about the largest V)."""
        largest = jnp.sqrt(jnp.maximum(strength, 1e-6) * math.exp(-1.0))
        if self.profile == "holland_2010":
            x = self.exponent
            return shape.map(lambda s: largest * jnp.exp(x * jnp.log(np.e * s + 1e-12))), largest
        half = r * (0.5 * jnp.abs(f))
        speed = (shape * strength + half * half).map(lambda s: jnp.sqrt(s + CALM**2)) - half
        return speed, largest

    def pressure_head(self, time: Time, reference: float) -> Value:
        """(p - p_n) / rho [m2 s-2] at a Time; the pressure far from the storm is its own, whatever the reference."""
        return (self.fields(time)[0] - self.ambient_pressure) / self.density

    def __call__(self, flow: LayerFlow, time: Time) -> tuple[Value, Value]:
        pressure, x, y = self.fields(time)
        along_x, along_y = stress(x, y, drag_law("Cyclone", self.drag), self.air_density / self.density)
        head_x, head_y = gradient(pressure / self.density, flow.geometry)
        per_h_u, per_h_v = flow.per_h_of_wind
        return to_u(along_x) * per_h_u - head_x, to_v(along_y) * per_h_v - head_y
