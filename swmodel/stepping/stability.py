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

The growth factor of a time step of dx/dt = lambda x, from a formula or from the step itself.

A step of a linear scheme multiplies (x, history) by a matrix G(z), with z = lambda dt. The scheme is stable where the
spectral radius of G is at most 1. For schemes without a formula, `of_step` finds G by applying their step to this one
equation.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

import jax
import jax.numpy as jnp
import numpy as np

from ..dynamics.clock import Time
from ..dynamics.domain import Model
from ..dynamics.site import Site
from ..dynamics.stages import euler_stage
from ..dynamics.terms import Term
from ..errors import ConfigError
from ..fields.parameters import Part, check_arguments
from ..fields.parts import control_names
from ..fields.state import State, replaced
from .resolution import check_resolved

if TYPE_CHECKING:
    from .explicit import TimeStepper


Rate: TypeAlias = float | np.ndarray  # times the time step [1]

MARGIN = 1e-9  # growth in a step that is taken for rounding
LARGEST = 4.0  # the largest |lambda| dt that is examined
BLOCKS = 8  # the number of parts in which the angles up to there are examined, in order
START_UP = 8  # the number of steps after which a multistep scheme has its whole history
GROWING = 1e-4  # growth in a step of waves over a raised level that matters: e-fold in 10,000 steps
LEAST_THETA = 0.55  # from where on modes of layers amplify one another by less than GROWING, below the limit
SLOW = 5.0  # the smallest ratio of the speed of waves to that of the flow with which implicit waves are stable


def largest_root(coefficients: Sequence) -> np.ndarray:
    """The largest |root| of polynomials, from the eigenvalues of their companion matrices.

    Args:
        coefficients: the highest power first, whose coefficient is 1; numbers or arrays of one shape.

    Returns:
        An array of that shape.
    """
    _, *others = np.broadcast_arrays(*(np.asarray(c, complex) for c in coefficients))
    companion = np.zeros((*others[0].shape, len(others), len(others)), complex)
    companion[..., 0, :] = -np.stack(others, axis=-1)
    companion[..., range(1, len(others)), range(len(others) - 1)] = 1.0
    return np.abs(np.linalg.eigvals(companion)).max(axis=-1)


def first_growth(grows: Callable) -> float:
    """The largest |lambda| dt up to which `grows(angles)`, growth factors of an array of angles, are at most 1."""
    angles = np.linspace(0.0, LARGEST, 4001)[1:]
    for some in np.split(angles, BLOCKS):  # in order, since most schemes grow long before the last angle
        unstable = some[np.asarray(grows(some)) > 1 + MARGIN]
        if unstable.size:
            return float(unstable[0] - angles[0])
    return LARGEST


class _OneEquation:
    """dx/dt = rate x in the place of a System: it has `tendency`, and nothing else."""

    def __init__(self, rate, who):
        self._rate, self._who = rate, who

    euler = euler_stage

    def tendency(self, state, time):
        return state.map(lambda x: self._rate * x)

    def __getattr__(self, name):
        raise ConfigError(
            f"{self._who}: its limits cannot be found from its step, which uses {name!r} of the equations, and not "
            "tendency(state, time) alone; give the class a method amplification(z): the factor by which a step of "
            "dx/dt = lambda x grows, at z = lambda dt."
        )


def of_step(stepper: "TimeStepper", z: np.ndarray) -> np.ndarray:
    """The spectral radius of a step of `stepper` for dx/dt = lambda x, at each z = lambda dt of a complex array.

    Raises:
        ConfigError: for a step that uses more of the equations than `tendency`.
    """
    with jax.enable_x64(True):
        matrices = np.asarray(_matrices(stepper, jnp.asarray(z, jnp.complex128)))
    return np.abs(np.linalg.eigvals(matrices)).max(axis=-1)


def _matrices(stepper, z):
    """G(z), (n, m, m) of n numbers z, where state and history hold m numbers."""
    stepper, who = replaced(stepper, {"dt": 1.0}), type(stepper).__name__
    time = Time(jnp.zeros((), jnp.int32), jnp.zeros((), complex), jnp.ones((), complex), None)
    state = State(*(jnp.ones((1, 1), complex) for _ in range(3)))
    both = state, stepper.history(state)
    for _ in range(START_UP):  # these steps fill the history, so that its counters have their final values
        both = stepper.step(_OneEquation(jnp.zeros((), complex), who), *both, time)
    leaves, structure = jax.tree.flatten(both)
    varies = [jnp.issubdtype(x.dtype, jnp.inexact) for x in leaves]

    def after(vector, rate):
        numbers = iter(vector)
        full = [next(numbers).reshape(1, 1) if moves else x for x, moves in zip(leaves, varies)]
        new = stepper.step(_OneEquation(rate, who), *structure.unflatten(full), time)
        return jnp.stack([x.reshape(()) for x, moves in zip(jax.tree.leaves(new), varies) if moves])

    columns = jnp.eye(sum(varies), dtype=complex)
    return jax.jit(jax.vmap(lambda rate: jax.vmap(lambda column: after(column, rate), out_axes=1)(columns)))(z)


# -- implicit waves ----------------------------------------------------------------------------------------------------


def semi_implicit_growth(
    theta: float, epsilon: float, waves: Rate, rotation: Rate = 0.0, carried: Rate = 0.0, excess: Rate = 0.0
) -> np.ndarray:
    """The largest |root| of SemiImplicit for implicit waves in a rotating, moving fluid, an array.

    Args:
        theta, epsilon: those of SemiImplicit.
        waves: c k dt of the gravity waves [rad]; with the other two, arrays of one shape.
        rotation: f dt [rad].
        carried: u k dt [rad].
        excess: the depth of which the transport is explicit, over that of which it is implicit [1].
    """
    angles = np.broadcast_arrays(waves, rotation, carried, excess)
    waves, turn, carried, excess = (x.astype(complex)[..., None, None] for x in angles)
    one, coriolis = np.eye(3), np.zeros((3, 3))
    coriolis[0, 1], coriolis[1, 0] = 1.0, -1.0
    above = np.outer([0.0, 0.0, 1.0], [1.0, 0.0, 0.0])  # of u in the equation of the level
    explicit = turn * coriolis - 1j * carried * one - 1j * waves * excess * above
    gravity = -1j * waves * (np.abs(np.subtract.outer([0, 1, 2], [0, 1, 2])) == 2)
    new = np.linalg.inv(one - theta * gravity)
    now, before = one + (1 - theta) * gravity + (1.5 + epsilon) * explicit, -(0.5 + epsilon) * explicit
    top = np.concatenate([new @ now, new @ before], axis=-1)
    bottom = np.broadcast_to(np.concatenate([one, 0 * one], axis=-1), top.shape)
    return np.abs(np.linalg.eigvals(np.concatenate([top, bottom], axis=-2))).max(axis=-1)


@functools.cache
def interval_above_rest(theta: float, epsilon: float, excess: float) -> float:
    """The largest c k dt of SemiImplicit's gravity waves, c over the depth at rest, where the level is above rest.

    Args:
        theta, epsilon: those of SemiImplicit.
        excess: the level over the depth at rest [1].
    """
    waves = np.logspace(-1, 3, 1001)
    unstable = waves[semi_implicit_growth(theta, epsilon, waves, excess=excess) > 1 + GROWING]
    return float(unstable[0]) if unstable.size else np.inf


@functools.cache
def interval_of_interfaces(theta: float, epsilon: float) -> float:
    """The largest c k dt of internal waves of layers under an implicit surface.

        u' = u - i a (3/2 + epsilon) h + i a (1/2 + epsilon) h_old,   h' = h - i a (theta u' + (1 - theta) u)

    Args:
        theta: the weight of the new time in the transports.
        epsilon: of the pressure of interfaces, which AB2 extrapolates.

    Returns:
        0 for theta below 0.55, with which nothing damps the waves of the surface, and the interfaces amplify them.
    """
    if theta < LEAST_THETA:
        return 0.0
    new, old = 1.5 + epsilon, 0.5 + epsilon

    def growth(angles):
        pressure = theta * new, (1.0 - theta) * new - theta * old, -(1.0 - theta) * old
        return largest_root([1.0, *(x + angles**2 * y for x, y in zip((-2.0, 1.0, 0.0), pressure))])

    return first_growth(growth)


@functools.cache
def interval_with_waves(theta: float, epsilon: float, axis: str, alone: float) -> float:
    """The stable interval of the explicit part of SemiImplicit in the presence of implicit waves of any speed.

    For the axis "carried", the flow is at least SLOW times slower than the waves, since a flow at their speed would
    amplify them.

    Args:
        theta, epsilon: those of SemiImplicit.
        axis: "carried" (advection) or "imaginary" (rotation).
        alone: the interval without waves, an upper bound.
    """
    angles, speeds = np.meshgrid(np.linspace(0.0, 1.0, 201)[1:], np.logspace(0, 4, 61), indexing="ij")
    if axis == "carried":
        grows = semi_implicit_growth(theta, epsilon, SLOW * speeds * angles, carried=angles)
    else:
        grows = semi_implicit_growth(theta, epsilon, 0.01 * speeds, rotation=angles)
    unstable = angles[grows.max(axis=1) > 1 + 10 * MARGIN, 0]
    return min(float(unstable[0] - angles[0, 0]), alone) if unstable.size else alone


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
    if model.batch:
        each = [(name, limits(one, stepper, its)) for name, one, its in model.each(state)]
        name, found = min(each, key=lambda named: largest_time_step(named[1]) if named[1] else np.inf)
        return [dataclasses.replace(limit, name=f"{limit.name} in {name}") for limit in found]
    sites = _sites(model, state)
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


def _sites(model, state):
    """The Sites of this process."""
    tiles = model.communicator.tiles((state, model.terms, model.tracers))
    return [Site(model, rank, *tile) for rank, tile in tiles.items()]


def check_time_step(model: Model, stepper: "TimeStepper", state: State) -> None:
    """Raise ConfigError if dt is over a limit, with its name and place, or too short for the precision; collective.

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
    for _, member, its in model.each(state) if model.batch else [("", model, state)]:
        check_resolved(_sites(member, its), dt)


def _at_no_step(stepper, name):
    """The message about a scheme whose steps grow however short they are."""
    given = [f"{key} = {float(getattr(stepper, key)):g}" for key in control_names(type(stepper)) if key != "dt"]
    what = f"{' and '.join(given)} are" if given else "it is"
    return f"{type(stepper).__name__}: {what} stable at no time step with the {name}; use {stepper.remedy}."


def largest_time_step(
    found: Sequence[Limit] | Model, stepper: "TimeStepper | None" = None, state: State | None = None
) -> float:
    """dt [s] for which all processes together are stable: 1/dt is the sum of theirs, except of those `alone`.

    It is infinite where nothing limits the step.

    Args:
        found: the Limits of `limits`; or a ShallowWater, of which they are computed with `stepper` and `state`.
        stepper: a TimeStepper; its dt is not used.
        state: a State of this tile, for advection and quadratic drag.
    """
    each = cast(Sequence[Limit], found) if stepper is None else limits(cast(Model, found), stepper, state)
    rate = sum(1.0 / limit.dt for limit in each if not limit.alone)
    return min([1.0 / rate if rate > 0 else np.inf, *(limit.dt for limit in each if limit.alone)])


def _transported_rate(site, k, carried, real):
    """1 / the longest time step of tracer number `k` [s-1]."""
    return np.asarray(site.tracers[k].time_step_rate(site, carried, real), float)


def _tightest(sites, name, interval, rates):
    """The Limit that the fastest of `rates(site)` in a wet cell of any rank sets; None if it sets none. Collective."""
    communicator = sites[0].model.communicator
    mine = [site.fastest(rates(site)) for site in sites]
    rate, _, *place = max(sum(communicator.host_gather(mine), []), key=lambda found: (found[0], -found[1]))
    return Limit(name, interval / rate, tuple(place)) if rate > 0 else None
