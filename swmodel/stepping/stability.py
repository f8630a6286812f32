"""The largest stable time step: the limit of each process over the wet cells, and where it is reached.

A scheme is stable while lambda dt lies in its region of stability. The processes have these lambda:

    gravity waves  i c k,      c k = 2 sqrt(g h) sqrt(1/dx^2 + 1/dy^2) at most on a C-grid
    Coriolis       i f
    advection      i (|u|/dx + |v|/dy)
                   (with series, gravity waves and advection are multiplied by the largest wavenumber over that of
                   differences, 2/dx and 1/dx)
    viscosity      - 4 nu (1/dx^2 + 1/dy^2) over a flat bottom, more on a shallow face next to deep water; biharmonic
                   viscosity has the square of that for nu = 1, times nu4
    drag, sponge   - r
    tracers        advection and diffusion of each, by its scheme; they do not act on the flow
    raised level   waves over the part of the depth that SemiImplicit with a solver by transforms steps explicitly
    open sides     waves and the sponge's drag together, in the cells that have both; also of a sponge without open side

Implicit waves set no limit. With them, those of the Coriolis force and of advection hold for waves of any speed.
The stable intervals on both axes are the scheme's own (TimeStepper.stable_interval).
"""

import dataclasses
import functools
from typing import Any

import numpy as np

from ..dynamics.terms import Term
from ..errors import ConfigError
from ..fields.parameters import Part, check_arguments
from ..fields.parts import control_names
from ..fields.state import State

__all__ = ["Limit", "check_time_step", "largest_time_step", "limits"]

OPEN_SIDES = 0.92  # safety factor where a corner cell radiates through two open sides, measured with ForwardBackward
NO_SLIP = 1.25  # an upper bound of the factor by which stress at walls and capes raises the rate of viscosity


@dataclasses.dataclass(frozen=True)
class Limit:
    """The largest stable time step for one process.

    Attributes:
        name: of the process.
        dt: the time step [s].
        place: (x, y) of the cell that sets it, in the grid's coordinates.
        alone: True if the other processes are counted in already, so that the limit is not added to theirs.
    """

    name: str
    dt: float
    place: tuple | None = None
    alone: bool = False

    def __str__(self):
        where = "" if self.place is None else f" at ({self.place[0]:.6g}, {self.place[1]:.6g})"
        return f"{self.name}: dt <= {self.dt:.4g} s{where}"


_RULES = {
    "model": Part(("terms", "core", "communicator"), "ShallowWater(grid, depth)"),
    "stepper": Part(("step", "exact_waves"), "RK4(dt=60.0)"),
}


def limits(model: Any, stepper: Any, state: State | None = None) -> list[Limit]:
    """The Limits of a run, tightest first, over the wet cells of all ranks; collective.

    Args:
        model: a ShallowWater.
        stepper: a TimeStepper; its dt is not used.
        state: a State of this tile, for advection and quadratic drag; without it they set no limit.

    Returns:
        A list of Limit. For an Ensemble, those of the member with the shortest time step.
    """
    check_arguments("limits", _RULES, locals())
    if model.members:
        each = [(name, limits(one, stepper, its)) for name, one, its in model.each(state)]
        name, found = min(each, key=lambda named: largest_time_step(named[1]) if named[1] else np.inf)
        return [dataclasses.replace(limit, name=f"{limit.name} in {name}") for limit in found]
    tiles = model.communicator.tiles((state, model.terms, model.tracers))
    sites = [_Site(model, rank, *tile) for rank, tile in tiles.items()]
    highest = model.communicator.host_maximum(max(float(np.max(site.excess)) for site in sites))
    for site in sites:
        site.highest = highest
    interval, find = stepper.stable_interval, functools.partial(_tightest, sites)
    exact, waves = stepper.exact_waves, stepper.wave_interval(model.momentum.wave_damping)
    found = [
        find("gravity waves", waves, lambda site: site.wave_rate(exact)),
        find("Coriolis force", interval("imaginary"), lambda site: site.coriolis_rate(exact)),
        find("advection", interval("carried"), lambda site: site.advection_rate()),
    ]
    if not exact:
        found.append(find("hyperviscosity", interval("real"), model.core.damping))
    for k, term in enumerate(model.terms):
        if model.momentum.conserves_momentum and type(term).damping is not Term.damping:
            continue  # it is implicit there
        find_rate = lambda site, k=k: np.asarray(site.terms[k].rates(site), float)  # noqa: E731
        found.append(find(type(term).__name__, interval("real"), find_rate))
    where = "open sides" if model.open_sides else "waves in the sponge"
    open_sides = find(where, OPEN_SIDES, lambda site: site.open_rate(waves, interval("real")))
    found.append(open_sides and dataclasses.replace(open_sides, alone=True))
    raised = find("level above rest", 1.0, stepper.raised_wave_rate)
    found.append(raised and dataclasses.replace(raised, alone=True))
    for k, tracer in enumerate(model.tracers):
        rates = functools.partial(_transported_rate, k=k, carried=interval("carried"), real=interval("real"))
        limit = find(tracer.name, 1.0, rates)
        found.append(limit and dataclasses.replace(limit, alone=True))
    found = sorted((limit for limit in found if limit is not None and limit.dt < np.inf), key=lambda limit: limit.dt)
    if found and found[0].dt <= 0:
        raise ConfigError(_at_no_step(stepper, found[0].name))
    return found


def check_time_step(model: Any, stepper: Any, state: State) -> None:
    """Raise ConfigError, naming the limit and where it is set, if the stepper's dt is over a limit; collective.

    Args:
        model, stepper, state: as of `limits`.
    """
    tightest = limits(model, stepper, state)[:1]
    dt = float(stepper.dt)
    if tightest and dt > tightest[0].dt:
        raise ConfigError(
            f"the time step of {dt:g} s is over the limit of {type(stepper).__name__}: {tightest[0]}; "
            f"use {0.9 * tightest[0].dt:.3g} s or less."
        )


def _at_no_step(stepper, name):
    """The message about a scheme whose steps grow however short they are."""
    given = [f"{key} = {float(getattr(stepper, key)):g}" for key in control_names(type(stepper)) if key != "dt"]
    what = f"{' and '.join(given)} are" if given else "it is"
    return f"{type(stepper).__name__}: {what} stable at no time step with the {name}; use {stepper.remedy}."


def largest_time_step(found: Any, stepper: Any = None, state: State | None = None) -> Any:
    """dt [s] for which all processes together are stable: 1/dt is the sum of theirs, except of those `alone`.

    Args:
        found: the Limits of `limits`; or a ShallowWater, of which they are computed with `stepper` and `state`.
        stepper: a TimeStepper; its dt is not used.
        state: a State of this tile, for advection and quadratic drag.
    """
    found = found if stepper is None else limits(found, stepper, state)
    together = 1.0 / sum(1.0 / limit.dt for limit in found if not limit.alone)
    return min([together, *(limit.dt for limit in found if limit.alone)])


def _ratio(corners, one, other):
    """Twice the mean thickness of a face's corners over twice its own, 0 where a side is land."""
    return np.where((one > 0) & (other > 0), corners / np.maximum(one + other, 1e-3), 0.0)


def _largest_record(rank, series):
    """The largest magnitude in each cell of a tile among the records of a Series; one is in memory at a time."""
    records = series.values[rank]
    sizes = (np.abs(np.asarray(records[k], float)) for k in range(len(records)))
    return functools.reduce(np.maximum, sizes)


class _Site:
    """One tile's rates [s-1] of every process, and the fields that terms compute theirs from.

    Padding of the tile counts as land.
    """

    def __init__(self, model, rank, state, terms, tracers=()):
        self.model, self.rank, self.state, self.gravity = model, rank, state, model.gravity
        largest = functools.partial(_largest_record, rank)
        self.terms = [term.bound(largest) if type(term).rates is not Term.rates else term for term in terms]
        self.tracers = tracers
        self.box, self.wet = model.decomposition.box(rank), model.decomposition.cut(model.sea_floor.wet, rank)
        metrics = model.grid.metrics(np.arange(self.box.j0, self.box.j1))
        self.per_dx2 = np.broadcast_to(1.0 / np.asarray(metrics["dx_h"], float) ** 2, self.wet.shape)
        self.per_dy2 = np.broadcast_to(1.0 / np.asarray(metrics["dy_h"], float) ** 2, self.wet.shape)
        share = model.core.zonal_share(model.grid.y_centres[self.box.j0 : self.box.j1, None])
        self.share = share  # of the wavenumber of the shortest zonal waves, which the core computes
        self.waves_dx2 = self.per_dx2 * share**2
        self.thickness = np.where(self.wet, self.box.cut(model.sea_floor.depth, 0, 0, 0), 1.0)
        self.excess = np.zeros(self.wet.shape)  # of the thickness over the depth at rest [1]
        self.highest = 0.0  # the largest excess of all tiles
        if model.wetting is not None:
            self.thickness = np.maximum(self.thickness, model.wetting.thin)
        if state is not None and not model.linear:
            depth = np.where(self.wet, self.box.cut(model.sea_floor.depth, 0, 0, 0), 1.0)
            self.thickness = np.maximum(depth + np.where(self.wet, np.asarray(state.eta, float), 0.0), 1e-3)
            self.excess = self.thickness / np.maximum(depth, 1e-3) - 1.0

    def speed(self, component=None):
        """|u| on the east or north face of each cell [m s-1]: of the component "x" or "y", or of the vector."""
        if self.state is None:
            return np.zeros(self.wet.shape)
        u, v = np.abs(np.asarray(self.state.u, float)), np.abs(np.asarray(self.state.v, float))
        return {"x": u, "y": v, None: np.hypot(u, v)}[component]

    def wave_rate(self, exact=False):
        """The frequency of the shortest gravity waves [s-1].

        With `exact`, waves of the mean depth are exact, and only the deviation of the thickness from it counts.
        """
        thickness = self.thickness
        if exact:
            mean = self.model.sea_floor.depths[2]
            thickness = (thickness - mean) ** 2 / mean
        return self.model.core.waves * np.sqrt(self.gravity * thickness * (self.waves_dx2 + self.per_dy2))

    def open_rate(self, wave, real):
        """1 / the longest time step [s-1] of waves and sponges together, in cells next to open sides.

        Args:
            wave, real: the stable intervals of the scheme for waves and for damping [1]; 0 if it is unstable.
        """
        wave, real = max(wave, 1e-300), max(real, 1e-300)
        ny, nx = self.model.grid.shape
        i, j = np.arange(self.box.i0, self.box.i1)[None, :], np.arange(self.box.j0, self.box.j1)[:, None]
        at = {"west": i == 0, "east": i == nx - 1, "south": j == 0, "north": j == ny - 1}
        damping = sum(np.asarray(t.rates(self), float) for t in self.terms if t.changes_elevation)
        here = sum([at[side] for side in self.model.open_sides], damping > 0)
        return np.where(here, self.wave_rate() / wave + damping / real, 0.0)

    def coriolis_rate(self, exact=False):
        """|f| [s-1]; 0 where the core's linear modes are `exact` and contain it."""
        if self.model.coriolis is None or exact and self.model.core.carries(self.model.coriolis):
            return np.zeros(self.wet.shape)
        rows = np.arange(self.box.j0, self.box.j1)
        return np.broadcast_to(np.abs(self.model.coriolis.at(self.model.grid, rows)), self.wet.shape)

    def advection_rate(self):
        """|u| / dx + |v| / dy [s-1], times the largest wavenumber of the core over that of differences."""
        if self.model.linear:
            return np.zeros(self.wet.shape)
        speeds = self.speed("x") * np.sqrt(self.waves_dx2) + self.speed("y") * np.sqrt(self.per_dy2)
        return self.model.core.advection * speeds

    def viscous_rate(self, viscosity, times=1):
        """The fastest decay rate of the Laplacian term [s-1], at the faces of each cell.

        A term that applies the operator twice multiplies two rates with `times` = 2. A filter of zonal modes acts once
        on all of the term: S sin^2(m dlambda / 2) is at most the share of the shortest mode.

        The shear stress is proportional to the thickness h_q at the corners, the mass that it moves to h_u on the face.
        """
        model = self.model
        modes = ["wrap" if p else 0 for p in (model.grid.periodic_y, model.grid.periodic_x)]
        h = np.maximum(self.box.cut(model.sea_floor.water, 1, *modes), 0.0)  # heights of land are no depths
        corner = lambda x: x[1:, 1:] + x[1:, :-1] + x[:-1, 1:] + x[:-1, :-1]  # noqa: E731
        h_q = corner(h) / np.maximum(corner((h > 0).astype(float)), 1.0)
        if model.side.factor > 1:
            h_q = NO_SLIP * h_q
        shear_u = _ratio(h_q[1:] + h_q[:-1], h[1:-1, 1:], h[1:-1, :-1])
        shear_v = _ratio(h_q[:, 1:] + h_q[:, :-1], h[1:, 1:-1], h[:-1, 1:-1])
        per_dx2 = self.per_dx2 * self.share ** (1.0 / times)
        u = per_dx2 + np.maximum(shear_u[:, 1:], shear_u[:, :-1]) * self.per_dy2
        v = self.per_dy2 + np.maximum(shear_v[1:], shear_v[:-1]) * per_dx2
        return 4.0 * np.asarray(viscosity, float) * np.maximum(u, v)

    def fastest(self, rate):
        """(the fastest rate of a wet cell, its rank, x, y)."""
        rate = np.where(self.wet, np.broadcast_to(rate, self.wet.shape), 0.0)
        row, column = np.unravel_index(np.argmax(rate), rate.shape)
        x, y = self.model.grid.x_centres[self.box.i0 + column], self.model.grid.y_centres[self.box.j0 + row]
        return float(rate[row, column]), self.rank, float(x), float(y)


def _transported_rate(site, k, carried, real):
    """1 / the longest time step of tracer number `k` [s-1]."""
    return np.asarray(site.tracers[k].time_step_rate(site, carried, real), float)


def _tightest(sites, name, interval, rates):
    """The Limit that the fastest of `rates(site)` in a wet cell of any rank sets; None if it sets none. Collective."""
    communicator = sites[0].model.communicator
    mine = [site.fastest(rates(site)) for site in sites]
    rate, _, *place = max(sum(communicator.host_gather(mine), []), key=lambda found: (found[0], -found[1]))
    return Limit(name, interval / rate, tuple(place)) if rate > 0 else None
