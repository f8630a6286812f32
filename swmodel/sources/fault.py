"""Earthquake faults, and sources, which consist of several faults.

A fault is a rectangle that slips (okada.py); motion.py adds up the displacements of the sea floor by all faults. Each
fault lies in the plane of Lambert's azimuthal equal-area projection about its own reference point (Snyder 1987, USGS
Prof. Paper 1395, p. 185, doi:10.3133/pp1395). Strike and position are exact there, the displaced volume is exact
everywhere, and the error of distances 600 km away is 0.04 %.

The size of an earthquake: seismic moment, magnitude, slip and displaced volumes.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ..defaults import RIGIDITY
from ..errors import ConfigError
from ..fields.parameters import COORDINATES, Choice, Number, declared
from ..fields.parts import numbers_of
from ..fields.state import pytree, replace, static
from ..grids.grid import EARTH_RADIUS
from ..units import conversion

REFERENCES = {  # where longitude, latitude and depth are meant: (share of the length along strike, width down dip)
    "centroid": (0.5, 0.5),
    "top_centre": (0.5, 0.0),
    "top_corner": (0.0, 0.0),  # the end of the upper edge from which one looks along the strike
    "bottom_centre": (0.5, 1.0),
    "bottom_corner": (0.0, 1.0),  # likewise; the origin of Okada (1985)
}
HISTORY = ("slip", "onset", "rise_time")
RIGHT, REVERSED = ", to the right of the strike", ", and reverse it by a rake 180 degrees away"
Degrees: TypeAlias = np.ndarray | jax.Array | float  # or metres, on a plane
Numbers = Any  # a float, or an array (faults,); of the history also an array (faults, windows)


@dataclasses.dataclass(frozen=True)
class AzimuthalEqualArea:
    """Lambert's projection of a sphere of `radius` [m] onto the plane that touches it at a point."""

    radius: float = EARTH_RADIUS

    def local(self, longitude: Degrees, latitude: Degrees, at: Sequence[float | jax.Array]) -> tuple[Any, Any]:
        """Metres to the east and north of `at` = (longitude, latitude); everything else [degrees].

        The results are numpy arrays if no argument is an array of JAX, so that nothing is compiled for each new shape.
        """
        xp: Any = jnp if any(isinstance(x, jax.Array) for x in (longitude, latitude, *at)) else np
        east, latitude = xp.deg2rad(longitude - at[0]), xp.deg2rad(latitude)
        at_latitude = xp.deg2rad(at[1])
        north = latitude - at_latitude
        half = xp.sin(east / 2) ** 2
        haversine = xp.sin(north / 2) ** 2 + xp.cos(at_latitude) * xp.cos(latitude) * half
        scale = self.radius / xp.sqrt(xp.maximum(1 - haversine, 1e-6))  # the opposite pole has no image
        return (
            scale * xp.cos(latitude) * xp.sin(east),
            scale * (xp.sin(north) + 2 * xp.sin(at_latitude) * xp.cos(latitude) * half),
        )

    def position(self, east: np.ndarray, north: np.ndarray, at: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
        """Longitudes and latitudes [degrees] of points at these distances from `at` [m]: the inverse of `local`."""
        sine = np.clip(np.hypot(east, north) / (2 * self.radius), 0.0, 1.0)  # of half the angle to `at`
        scale, cosine = np.sqrt(1 - sine**2) / self.radius, 1 - 2 * sine**2
        sin_at, cos_at = np.sin(np.deg2rad(at[1])), np.cos(np.deg2rad(at[1]))
        latitude = np.arcsin(np.clip(cosine * sin_at + scale * north * cos_at, -1.0, 1.0))
        longitude = np.arctan2(scale * east, cosine * cos_at - scale * north * sin_at)
        return at[0] + np.rad2deg(longitude), np.rad2deg(latitude)


@dataclasses.dataclass(frozen=True)
class Plane:
    """No projection: `longitude` and `latitude` are x and y [m] of a Cartesian grid, y to the north."""

    def local(self, longitude: Degrees, latitude: Degrees, at: Sequence[float | jax.Array]) -> tuple[Any, Any]:
        """x and y [m], counted from `at`."""
        return longitude - at[0], latitude - at[1]

    def position(self, east: np.ndarray, north: np.ndarray, at: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
        """x and y [m] of points at these distances from `at` [m]: the inverse of `local`."""
        return at[0] + east, at[1] + north


@dataclasses.dataclass(frozen=True)
class _NumberOfFaults(Number):
    """The rule of a number of a Fault, or of an array of them; a Source checks those of all its faults at once."""

    def check(self, who: str, name: str, value: object) -> None:
        pass


def _declared(units, doc, default=dataclasses.MISSING, **limits):
    return declared(_NumberOfFaults(units=units, doc=doc, **limits), default=default)


@pytree
class Fault:
    """A rectangle that slips, or several.

    Numbers may be arrays (faults,), and of its history also (faults, windows).

    Args:
        longitude, latitude: of the reference point [degrees] ([m] on a `Plane`).
        depth: of the reference point below the sea floor [m].
        length, width: along strike and down dip [m].
        strike: clockwise from north, the plane dipping to its right [degrees].
        dip: from the horizontal, 0 to 90 [degrees].
        rake: of the slip of the upper side, anticlockwise from the strike (90 is a pure thrust) [degrees].
        slip: [m].
        onset: when the slip begins [s].
        rise_time: its duration [s]; 0 is the shortest that the model resolves, `shortest_rise` of motion.records.
        rigidity: for the seismic moment alone [Pa].
        reference: one of REFERENCES.
    """

    longitude: Numbers = _declared(COORDINATES, "degrees; x [m] on a plane")
    latitude: Numbers = _declared(COORDINATES, "of the reference point; y [m] on a plane")
    depth: Numbers = _declared("m", "of the reference point", minimum=0.0)
    length: Numbers = _declared("m", "along strike", above=0.0)
    width: Numbers = _declared("m", "down dip", above=0.0)
    strike: Numbers = _declared("degree", "clockwise from north")
    dip: Numbers = _declared("degree", "from the horizontal", minimum=0.0, maximum=90.0, hint=RIGHT)
    rake: Numbers = _declared("degree", "direction of slip in the fault's plane")
    slip: Numbers = _declared("m", "of the hanging wall", minimum=0.0, hint=REVERSED)
    onset: Numbers = _declared("s", "when slip begins", default=0.0)
    rise_time: Numbers = _declared("s", "how long slip takes", minimum=0.0, default=0.0)
    rigidity: Numbers = _declared("Pa", "of the rock, for the moment", above=0.0, default=RIGIDITY)
    reference: str = declared(
        Choice(tuple(REFERENCES)), default="centroid", static=True, doc="which point of the rectangle is given"
    )


def si_units(name: str) -> tuple[str, ...]:
    """The SI units of a number of a Fault; of coordinates the degree, and the metre of a plane."""
    units = numbers_of(Fault)[name].units
    return ("degree", "m") if units == COORDINATES else (units,)


def to_si(name: str, unit: str) -> float | None:
    """The factor from a unit in a file to that of a number of a Fault; None for one of another dimension."""
    return next((factor for each in si_units(name) if (factor := conversion(unit, each)) is not None), None)


@pytree
class Source:
    """Faults that make one earthquake.

    Args:
        faults: a list of Faults; kept as one, with leaves (faults,) and a history (faults, windows).
        poisson_ratio: of the crust.
        projection: AzimuthalEqualArea() or Plane().
        assumed: a sentence on how a file of the faults was read.

    Raises:
        ConfigError: for faults that cannot be, every mistake at once.
    """

    faults: Any
    poisson_ratio: float = 0.25
    projection: AzimuthalEqualArea | Plane = static(default=AzimuthalEqualArea())
    assumed: str = static(default="")

    def __post_init__(self):
        if isinstance(self.faults, (list, tuple)):
            stacked = _stack(self.faults)
            if mistakes := _mistakes(stacked):
                raise ConfigError([f"Source: {text}" for text in mistakes])
            object.__setattr__(self, "faults", stacked)


def _stack(faults):
    if not faults:
        raise ConfigError("Source: faults is empty; give at least one Fault.")
    if len({fault.reference for fault in faults}) > 1:
        raise ConfigError("Source: the faults have different reference points; give all of them the same `reference`.")
    faults = [_columns(fault) for fault in faults]
    windows = max(fault.slip.shape[1] for fault in faults)

    def join(name):
        parts = [getattr(fault, name) for fault in faults]
        xp = numpy_for(*parts)
        if name in HISTORY:
            parts = [xp.pad(part, ((0, 0), (0, windows - part.shape[1]))) for part in parts]
        return xp.concatenate(parts)

    return replace(faults[0], **{name: join(name) for name in _numbers(faults[0])})


def _columns(fault):
    """`fault` with leaves (n,) and a history (n, windows)."""
    values = _numbers(fault)
    xp = numpy_for(*values.values())
    values = {name: xp.asarray(value, dtype=float) for name, value in values.items()}
    history = [values[name] if values[name].ndim == 2 else values[name].reshape(-1, 1) for name in HISTORY]
    n = max([value.size for name, value in values.items() if name not in HISTORY] + [part.shape[0] for part in history])
    windows = max(part.shape[1] for part in history)
    values = {name: xp.broadcast_to(value.reshape(-1), (n,)) for name, value in values.items() if name not in HISTORY}
    values |= {name: xp.broadcast_to(part, (n, windows)) for name, part in zip(HISTORY, history)}
    return replace(fault, **values)


def _numbers(fault):
    return {f.name: getattr(fault, f.name) for f in dataclasses.fields(fault) if not f.metadata.get("static")}


def numpy_for(*values: object) -> Any:
    """jax.numpy if any of the values is being traced, else numpy."""
    return jnp if any(isinstance(value, jax.core.Tracer) for value in values) else np


def _mistakes(fault):
    """The mistakes in a stacked Fault, a sentence each; traced numbers are not checked."""
    if numpy_for(*_numbers(fault).values()) is jnp:
        return []
    mistakes = [
        f"fault {i + 1}: {name} = {value:g} {why}; give {rule.wanted()}."
        for name, rule in numbers_of(Fault).items()
        if not _is_within(rule, stacked := getattr(fault, name))
        for i, values in enumerate(stacked)
        for value in np.ravel(values)
        if (why := rule.outside(value) if np.isfinite(value) else "is not a number")
    ]
    top = top_of(fault)
    return mistakes + [
        f"fault {i + 1}: depth = {fault.depth[i]:g} puts the upper edge above the sea floor; make it "
        f"{np.ceil(fault.depth[i] - top[i]):.0f} m or more, or check that it is the depth of the reference point, "
        f"{fault.reference}."
        for i in np.flatnonzero(top < -1e-6 * fault.width)
    ]


def _is_within(rule, values):
    """Whether all values are finite and keep a rule, which the least and the largest one show."""
    return np.isfinite(values).all() and not (rule.outside(np.min(values)) or rule.outside(np.max(values)))


def top_of(fault: Fault) -> np.ndarray | jax.Array:
    """Depth of the upper edge [m]."""
    xp = numpy_for(fault.depth, fault.width, fault.dip)
    return fault.depth - REFERENCES[fault.reference][1] * fault.width * xp.sin(xp.deg2rad(fault.dip))


def final_slip(source: Source) -> np.ndarray | jax.Array:
    """Slip of each fault in the end [m], (faults,)."""
    return numpy_for(source.faults.slip).sum(source.faults.slip, axis=1)


@dataclasses.dataclass(frozen=True)
class Summary:
    """The size of an earthquake: moment [N m], moment magnitude, slip [m], volumes of water lifted and lowered [m3].

    `assumed` is that of the Source.
    """

    faults: int
    seismic_moment: float
    magnitude: float
    maximum_slip: float
    lifted: float | None = None
    lowered: float | None = None
    highest: float | None = None
    lowest: float | None = None
    assumed: str = ""

    def __str__(self):
        lines = [
            f"faults              {self.faults}",
            f"seismic moment      {self.seismic_moment:.3g} N m",
            f"moment magnitude    {f'{self.magnitude:.2f}' if self.seismic_moment > 0 else 'none, nothing slips'}",
            f"maximum slip        {self.maximum_slip:.1f} m",
        ]
        if self.lifted is not None and self.lowered is not None:
            lines += [
                f"uplift              {self.lowest:.2f} to {self.highest:.2f} m",
                f"displaced volume    {self.lifted / 1e9:.1f} km3 up, {self.lowered / 1e9:.1f} km3 down",
            ]
        return "\n".join(lines + [self.assumed] * bool(self.assumed))


def summarise(source: Source, field: ArrayLike | None = None, area: ArrayLike | None = None) -> Summary:
    """Summary of a source, with its volumes where `field`, its uplift [m], and the `area` of the cells [m2] are given.

    Mw = (log10 M0 - 9.1) / 1.5 (IASPEI 2013 form of Hanks & Kanamori 1979, doi:10.1029/JB084iB05p02348), M0 the sum of
    rigidity x length x width x slip.
    """
    faults, slip = source.faults, np.asarray(final_slip(source))
    moment = float(np.sum(np.asarray(faults.rigidity * faults.length * faults.width) * slip))
    magnitude = (math.log10(moment) - 9.1) / 1.5 if moment > 0 else -math.inf
    size = Summary(slip.size, moment, magnitude, float(slip.max()), assumed=source.assumed)
    if field is None:
        return size
    field = np.asarray(field, float)
    volume = field * np.asarray(area, float)
    return dataclasses.replace(
        size,
        lifted=float(volume[volume > 0].sum()),
        lowered=float(-volume[volume < 0].sum()),
        highest=float(field.max()),
        lowest=float(field.min()),
    )
