"""The largest stable time step: the limit of each process over the wet cells, and where it is reached.

A scheme is stable while lambda dt lies in its region of stability. The processes have these lambda:

    gravity waves  i c k,      c k = 2 sqrt(g h) sqrt(1/dx^2 + 1/dy^2) at most on a C-grid
    Coriolis       i f
    advection      i (|u|/dx + |v|/dy)
                   (with series, gravity waves and advection are multiplied by the largest wavenumber over that of
                   differences, 2/dx and 1/dx)
    internal waves as gravity waves, with the speed of the second fastest mode of layers, under an implicit surface
    viscosity      - 4 nu (1/dx^2 + 1/dy^2) over a flat bottom, more on a shallow face next to deep water; biharmonic
                   viscosity has the square of that for nu = 1, times nu4
    drag, sponge   - r
    tracers        advection and diffusion of each, by its scheme; they do not act on the flow
    raised level   waves over the part of the depth that SemiImplicit with a solver by transforms steps explicitly
    open sides     waves and the sponge's drag together, in the cells that have both; also of a sponge without open side

Implicit waves set no limit; those of the interfaces between layers do. With implicit waves, the limits of the Coriolis
force and of advection hold for waves of any speed.
The stable intervals on both axes are the scheme's own (TimeStepper.stable_interval).
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from ..dynamics.domain import Model
from ..dynamics.site import Site
from ..dynamics.terms import Term
from ..dynamics.waters import check_resolved
from ..errors import ConfigError
from ..fields.parameters import Part, check_arguments
from ..fields.parts import control_names
from ..fields.state import State

if TYPE_CHECKING:
    from .explicit import TimeStepper

__all__ = ["Limit", "check_time_step", "largest_time_step", "limits"]

OPEN_SIDES = 0.92  # safety factor where a corner cell radiates through two open sides, measured with ForwardBackward


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


def limits(model: Model, stepper: "TimeStepper", state: State | None = None) -> list[Limit]:
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
    sites = [Site(model, rank, *tile) for rank, tile in tiles.items()]
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
    if stepper.is_implicit and model.layers is not None:
        found.append(find("internal waves", interval("internal"), lambda site: site.wave_rate(mode=1)))
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


def check_time_step(model: Model, stepper: "TimeStepper", state: State) -> None:
    """Raise ConfigError if dt is over a limit, with its name and place, or too short for the rain; collective.

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
    for member in getattr(model, "models", [model]):
        check_resolved(member, dt)


def _at_no_step(stepper, name):
    """The message about a scheme whose steps grow however short they are."""
    given = [f"{key} = {float(getattr(stepper, key)):g}" for key in control_names(type(stepper)) if key != "dt"]
    what = f"{' and '.join(given)} are" if given else "it is"
    return f"{type(stepper).__name__}: {what} stable at no time step with the {name}; use {stepper.remedy}."


def largest_time_step(
    found: Sequence[Limit] | Model, stepper: "TimeStepper | None" = None, state: State | None = None
) -> float:
    """dt [s] for which all processes together are stable: 1/dt is the sum of theirs, except of those `alone`.

    Args:
        found: the Limits of `limits`; or a ShallowWater, of which they are computed with `stepper` and `state`.
        stepper: a TimeStepper; its dt is not used.
        state: a State of this tile, for advection and quadratic drag.
    """
    each = cast(Sequence[Limit], found) if stepper is None else limits(cast(Model, found), stepper, state)
    together = 1.0 / sum(1.0 / limit.dt for limit in each if not limit.alone)
    return min([together, *(limit.dt for limit in each if limit.alone)])


def _transported_rate(site, k, carried, real):
    """1 / the longest time step of tracer number `k` [s-1]."""
    return np.asarray(site.tracers[k].time_step_rate(site, carried, real), float)


def _tightest(sites, name, interval, rates):
    """The Limit that the fastest of `rates(site)` in a wet cell of any rank sets; None if it sets none. Collective."""
    communicator = sites[0].model.communicator
    mine = [site.fastest(rates(site)) for site in sites]
    rate, _, *place = max(sum(communicator.host_gather(mine), []), key=lambda found: (found[0], -found[1]))
    return Limit(name, interval / rate, tuple(place)) if rate > 0 else None
