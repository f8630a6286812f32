"""Earthquake faults, and the motion of the sea floor above them.

A fault is a rectangle that slips (okada.py); a source is many of them. The floor moves by the sum over faults i of

    U_i(lon, lat) s_i(t),   s_i(t) = sum over windows k of slip_ik min(1, max(0, (t - onset_ik) / rise_time_ik)),

U_i per metre of slip, s_i piecewise linear in time. A sloping floor that moves sideways lifts the water too (Tanioka &
Satake 1996, doi:10.1029/96GL00736): with the depth H positive downwards and u positive to the east, north and up,

    uplift = u_up + u_east dH/d(east) + u_north dH/d(north).

Each fault lies in the plane of Lambert's azimuthal equal-area projection about its own reference point (Snyder 1987,
USGS Prof. Paper 1395, p. 185, doi:10.3133/pp1395): strike and position are exact there, the displaced volume is exact
everywhere, and distances 600 km away are off by 0.04 %.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from swmodel.errors import ConfigError
from swmodel.fields.pytrees import pytree, replace, static
from swmodel.grids.grid import EARTH_RADIUS, CartesianGrid, SphericalGrid
from swmodel.sources.okada import Rectangle, surface_displacement

__all__ = [
    "REFERENCES",
    "AzimuthalEqualArea",
    "Plane",
    "Fault",
    "Source",
    "Summary",
    "breakpoints",
    "depth_gradient",
    "displacement",
    "lift",
    "mistakes",
    "records",
    "slip_history",
    "summarise",
    "sum_over_faults",
    "uplift",
]

REFERENCES = {  # where longitude, latitude and depth are meant: (share of the length along strike, width down dip)
    "centroid": (0.5, 0.5),
    "top_centre": (0.5, 0.0),
    "top_corner": (0.0, 0.0),  # the end of the upper edge from which one looks along the strike
    "bottom_centre": (0.5, 1.0),
    "bottom_corner": (0.0, 1.0),  # likewise; the origin of Okada (1985)
}
HISTORY = ("slip", "onset", "rise_time")
Numbers = Any  # a float, or an array (faults,); of the history also an array (faults, windows)


@dataclasses.dataclass(frozen=True)
class AzimuthalEqualArea:
    """Lambert's projection of a sphere of `radius` [m] onto the plane that touches it at a point."""

    radius: float = EARTH_RADIUS

    def local(self, longitude: Any, latitude: Any, at: Sequence[Any]) -> tuple[Any, Any]:
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


@dataclasses.dataclass(frozen=True)
class Plane:
    """No projection: `longitude` and `latitude` are x and y [m] of a Cartesian grid, y to the north."""

    def local(self, longitude: Any, latitude: Any, at: Sequence[Any]) -> tuple[Any, Any]:
        """x and y [m], counted from `at`."""
        return longitude - at[0], latitude - at[1]


@pytree
class Fault:
    """A rectangle that slips, or several: numbers may be arrays (faults,), and of its history also (faults, windows).

    Args:
        longitude, latitude: of the reference point [degrees] ([m] on a `Plane`).
        depth: of the reference point below the sea floor [m].
        length, width: along strike and down dip [m].
        strike: clockwise from north, the plane dipping to its right [degrees].
        dip: from the horizontal, 0 to 90 [degrees].
        rake: of the slip of the upper side, anticlockwise from the strike (90 is a pure thrust) [degrees].
        slip: [m].
        onset: when the slip begins [s].
        rise_time: how long it takes [s]; 0 is as fast as the model can (see `records`).
        rigidity: for the seismic moment alone [Pa].
        reference: one of REFERENCES.
    """

    longitude: Numbers
    latitude: Numbers
    depth: Numbers
    length: Numbers
    width: Numbers
    strike: Numbers
    dip: Numbers
    rake: Numbers
    slip: Numbers
    onset: Numbers = 0.0
    rise_time: Numbers = 0.0
    rigidity: Numbers = 4.0e10
    reference: str = static(default="centroid")


@pytree
class Source:
    """Faults that make one earthquake.

    Args:
        faults: a list of Faults; kept as one, with leaves (faults,) and a history (faults, windows).
        poisson_ratio: of the crust.
        projection: AzimuthalEqualArea() or Plane().

    Raises:
        ConfigError: for faults that cannot be, every mistake at once.
    """

    faults: Any
    poisson_ratio: float = 0.25
    projection: AzimuthalEqualArea | Plane = static(default=AzimuthalEqualArea())

    def __post_init__(self):
        if isinstance(self.faults, (list, tuple)):
            stacked = _stack(self.faults)
            found = mistakes(stacked)
            if found:
                raise ConfigError([f"Source: {text}" for text in found])
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
        xp = _numpy_for(*parts)
        if name in HISTORY:
            parts = [xp.pad(part, ((0, 0), (0, windows - part.shape[1]))) for part in parts]
        return xp.concatenate(parts)

    return replace(faults[0], **{name: join(name) for name in _numbers(faults[0])})


def _columns(fault):
    """`fault` with leaves (n,) and a history (n, windows)."""
    values = _numbers(fault)
    xp = _numpy_for(*values.values())
    values = {name: xp.asarray(value, dtype=float) for name, value in values.items()}
    history = [values[name] if values[name].ndim == 2 else values[name].reshape(-1, 1) for name in HISTORY]
    n = max([value.size for name, value in values.items() if name not in HISTORY] + [part.shape[0] for part in history])
    windows = max(part.shape[1] for part in history)
    values = {name: xp.broadcast_to(value.reshape(-1), (n,)) for name, value in values.items() if name not in HISTORY}
    values |= {name: xp.broadcast_to(part, (n, windows)) for name, part in zip(HISTORY, history)}
    return replace(fault, **values)


def _numbers(fault):
    return {f.name: getattr(fault, f.name) for f in dataclasses.fields(fault) if not f.metadata.get("static")}


def _numpy_for(*values):
    return jnp if any(isinstance(value, jax.core.Tracer) for value in values) else np


def mistakes(fault: Fault, names: Sequence[str] | None = None) -> list[str]:
    """What is wrong with a stacked Fault, a sentence each; nothing is said of numbers that are still being traced.

    Args:
        fault: Fault with leaves (n,) and a history (n, windows).
        names: what to call the n faults.
    """
    if fault.reference not in REFERENCES:
        return [f"reference = {fault.reference!r} is not one of {', '.join(REFERENCES)}."]
    if _numpy_for(*_numbers(fault).values()) is jnp:
        return []
    names = [f"fault {i + 1}" for i in range(len(fault.depth))] if names is None else names
    top = _top(fault)
    rules = [
        (name, ~np.isfinite(value), "is not a number", "give a finite one") for name, value in _numbers(fault).items()
    ] + [
        ("slip", fault.slip < 0, "is negative", "reverse it by a rake 180 degrees away"),
        ("rise_time", fault.rise_time < 0, "is negative", "give 0 s or more"),
        ("dip", (fault.dip < 0) | (fault.dip > 90), "is not within 0 to 90 degrees", "dip to the right of the strike"),
        ("rigidity", fault.rigidity <= 0, "is not positive", "give it in Pa, about 4e10"),
        *[(name, getattr(fault, name) <= 0, "is not positive", "give it in m") for name in ("length", "width")],
        (
            "depth",
            top < -1e-6 * fault.width,
            "puts the upper edge above the sea floor",
            f"make it larger, or check that it is the depth of the reference point, {fault.reference}",
        ),
    ]
    return [
        f"{names[i]}: {name} = {np.reshape(getattr(fault, name)[i], -1)[k]:g} {why}; {remedy}."
        for name, wrong, why, remedy in rules
        for i, k in np.argwhere(np.reshape(wrong, (len(names), -1)))
    ]


def _top(fault):
    """Depth of the upper edge [m]."""
    xp = _numpy_for(fault.depth, fault.width, fault.dip)
    return fault.depth - REFERENCES[fault.reference][1] * fault.width * xp.sin(xp.deg2rad(fault.dip))


def _per_metre(source, fault, longitude, latitude):
    """(east, north, up) [m] at the points for 1 m of slip on one fault."""
    fault = jax.tree.map(lambda leaf: jnp.asarray(leaf, longitude.dtype), fault)
    east, north = source.projection.local(longitude, latitude, (fault.longitude, fault.latitude))
    strike, rake = jnp.deg2rad(fault.strike), jnp.deg2rad(fault.rake)
    along, down = REFERENCES[fault.reference]
    x = east * jnp.sin(strike) + north * jnp.cos(strike) + along * fault.length
    y = north * jnp.sin(strike) - east * jnp.cos(strike) - down * fault.width * jnp.cos(jnp.deg2rad(fault.dip))
    top = _top(fault)
    rectangle = Rectangle(fault.length, fault.width, jnp.where(top < 0, 0, top), fault.dip)
    ux, uy, uz = surface_displacement(x, y, rectangle, (jnp.cos(rake), jnp.sin(rake), 0.0), source.poisson_ratio)
    return ux * jnp.sin(strike) - uy * jnp.cos(strike), ux * jnp.cos(strike) + uy * jnp.sin(strike), uz


def sum_over_faults(source: Source, amounts: ArrayLike, field: Callable[[Fault], jax.Array]) -> jax.Array:
    """The sum over faults of amounts[m, i] field(fault i), with one fault's field in memory at a time.

    Args:
        source: Source.
        amounts: slip of each fault, (m, faults) [m].
        field: the function of one fault (a Fault with scalar leaves) whose values, an array of any shape, are summed.

    Returns:
        (m, *shape of the field).
    """
    like = jax.eval_shape(field, jax.tree.map(lambda leaf: leaf[0], source.faults))

    @jax.checkpoint  # else the derivative keeps the intermediate results of every fault
    def add(total, fault_and_amounts):
        fault, amount = fault_and_amounts
        values = field(fault)
        return total + amount.reshape(-1, *[1] * values.ndim) * values[None], None

    amounts = jnp.asarray(amounts, like.dtype)
    total = jnp.zeros((amounts.shape[0], *like.shape), like.dtype)
    return jax.lax.scan(add, total, (source.faults, amounts.T))[0]


def per_metre_at(
    source: Source, longitude: ArrayLike, latitude: ArrayLike, part: Callable[..., jax.Array]
) -> Callable[[Fault], jax.Array]:
    """The function of a fault that gives `part` of its (east, north, up) at the points for 1 m of slip, one array.

    Args:
        source: Source.
        longitude, latitude: of the points [degrees], broadcast against each other.
        part: a linear function of (east, north, up) [m], for instance `lift(gradient)`.
    """
    longitude, latitude = jnp.broadcast_arrays(jnp.asarray(longitude, float), jnp.asarray(latitude, float))
    return lambda fault: part(*_per_metre(source, fault, longitude, latitude))


def lift(gradient: Sequence[ArrayLike] | None) -> Callable[[jax.Array, jax.Array, jax.Array], jax.Array]:
    """How much (east, north, up) lifts the water over depths with that (east, north) gradient; None: a level floor."""
    if gradient is None:
        return lambda east, north, up: up
    return lambda east, north, up: (
        up + east * jnp.asarray(gradient[0], up.dtype) + north * jnp.asarray(gradient[1], up.dtype)
    )


@jax.jit
def displacement(source: Source, longitude: ArrayLike, latitude: ArrayLike) -> jax.Array:
    """(east, north, up) [m] in the end, (3, ny, nx), at longitudes (1, nx) and latitudes (ny, 1) or both (ny, nx)."""
    field = per_metre_at(source, longitude, latitude, lambda *parts: jnp.stack(parts))
    return sum_over_faults(source, _slip(source)[None], field)[0]


@functools.partial(jax.jit, static_argnames="each")
def uplift(
    source: Source,
    longitude: ArrayLike,
    latitude: ArrayLike,
    gradient: Sequence[ArrayLike] | None = None,
    each: bool = False,
) -> jax.Array:
    """How far the sea floor lifts the water in the end [m].

    Args:
        source: Source.
        longitude, latitude: of the points [degrees], (1, nx) and (ny, 1) or both (ny, nx).
        gradient: (dH/d(east), dH/d(north)) of the depth there (`depth_gradient`) for the share of the horizontal
            motion; None leaves it out.
        each: whether to return every fault's own share.

    Returns:
        (ny, nx), or (faults, ny, nx).
    """
    field = per_metre_at(source, longitude, latitude, lift(gradient))
    if not each:
        return sum_over_faults(source, _slip(source)[None], field)[0]

    def share(fault):
        values = field(fault)
        return jnp.sum(jnp.asarray(fault.slip, values.dtype)) * values

    return jax.lax.map(share, source.faults)


def _slip(source):
    """Slip of each fault in the end [m], (faults,)."""
    return _numpy_for(source.faults.slip).sum(source.faults.slip, axis=1)


def breakpoints(source: Source, shortest_rise: ArrayLike = 1.0) -> Any:
    """When the motion of the floor changes its pace: the onsets and ends of all windows that slip, ascending [s].

    While they are being traced their values are unknown: then equal ones, and those of windows without slip, remain.
    """
    faults = source.faults
    xp = _numpy_for(faults.slip, faults.onset, faults.rise_time)
    times = xp.stack([faults.onset, faults.onset + xp.maximum(faults.rise_time, shortest_rise)])
    if xp is jnp:
        return jnp.sort(times.reshape(-1))
    times = np.sort(np.append(times[:, faults.slip > 0].reshape(-1), [] if np.any(faults.slip > 0) else 0.0))
    return times[np.diff(times, prepend=-np.inf) > 1e-6]


def records(
    source: Source,
    longitude: ArrayLike,
    latitude: ArrayLike,
    times: ArrayLike | None = None,
    gradient: Sequence[ArrayLike] | None = None,
    shortest_rise: float = 1.0,
) -> tuple[Any, jax.Array]:
    """The history of the sea floor, for linear interpolation in time (constant before the first and after the last).

    Args:
        source, longitude, latitude, gradient: as in `uplift`.
        times: when to sample it [s], ascending, up to the end of all slip; None for all `breakpoints`, between which it
            is linear: exact, and one field of memory each.
        shortest_rise: what a shorter rise time, 0 too, is taken to be [s]; give the model's time step.

    Returns:
        (times (m,) [s], uplift so far (m, ny, nx) [m]).

    Raises:
        ConfigError: for times that do not ascend, or that end before the slip does.
    """
    times, amounts = slip_history(source, times, shortest_rise)
    return times, sum_over_faults(source, amounts, per_metre_at(source, longitude, latitude, lift(gradient)))


def slip_history(source: Source, times: Any = None, shortest_rise: float = 1.0) -> tuple[Any, jax.Array]:
    """(times (m,) [s], slip of every fault by then (m, faults) [m]), as `records` takes them."""
    if shortest_rise <= 0:
        raise ConfigError(f"records: shortest_rise = {shortest_rise} s is not positive; give the model's time step.")
    ends = breakpoints(source, shortest_rise)
    times = ends if times is None else times
    if _numpy_for(times, ends) is np and (np.any(np.diff(times) <= 0) or times[-1] < ends[-1] - 1e-6):
        raise ConfigError(
            f"records: times, which end at {times[-1]:g} s, must ascend and reach the end of all slip, {ends[-1]:g} s."
        )
    faults = jax.tree.map(jnp.asarray, source.faults)
    elapsed = jnp.asarray(times, faults.onset.dtype)[:, None, None] - faults.onset[None]
    risen = jnp.clip(elapsed / jnp.maximum(faults.rise_time, shortest_rise)[None], 0.0, 1.0)
    return times, jnp.sum(risen * faults.slip[None], axis=2)


def depth_gradient(
    grid: CartesianGrid | SphericalGrid, depth: ArrayLike, rows: slice = slice(None), columns: slice = slice(None)
) -> tuple[np.ndarray, np.ndarray]:
    """(dH/d(east), dH/d(north)) of depths [m], by centred differences; none on land (depth <= 0).

    Args:
        grid: the Grid.
        depth: (ny, nx), or of some `rows` and `columns` of the grid.
        rows, columns: all unless given.
    """
    depth = np.asarray(depth, float)
    x, y = grid.x_centres[columns], grid.y_centres[rows]
    if isinstance(grid, SphericalGrid):
        x, y = grid.radius * np.deg2rad(x), grid.radius * np.deg2rad(y)
    east, north = np.gradient(depth, x, axis=1), np.gradient(depth, y, axis=0)
    if grid.spherical:
        east = east / np.cos(np.deg2rad(grid.y_centres[rows]))[:, None]
    return np.where(depth > 0, east, 0.0), np.where(depth > 0, north, 0.0)


@dataclasses.dataclass(frozen=True)
class Summary:
    """The size of an earthquake: moment [N m], moment magnitude, slip [m], volumes of water lifted and lowered [m3]."""

    faults: int
    seismic_moment: float
    magnitude: float
    maximum_slip: float
    lifted: float | None = None
    lowered: float | None = None
    highest: float | None = None
    lowest: float | None = None

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
        return "\n".join(lines)


def summarise(source: Source, field: ArrayLike | None = None, area: ArrayLike | None = None) -> Summary:
    """Summary of a source, with its volumes where `field`, its uplift [m], and the `area` of the cells [m2] are given.

    Mw = (log10 M0 - 9.1) / 1.5 (IASPEI 2013 form of Hanks & Kanamori 1979, doi:10.1029/JB084iB05p02348), M0 the sum of
    rigidity x length x width x slip.
    """
    faults, slip = source.faults, np.asarray(_slip(source))
    moment = float(np.sum(np.asarray(faults.rigidity * faults.length * faults.width) * slip))
    magnitude = (math.log10(moment) - 9.1) / 1.5 if moment > 0 else -math.inf
    size = Summary(slip.size, moment, magnitude, float(slip.max()))
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
