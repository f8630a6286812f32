"""Set-up of a verification (a moving state, enough steps), and dot-product tests of single terms.

A cost that reads random sums of every state, and the dot products of tangents and adjoints of these readings.
"""

import copy
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..dynamics.clock import Time
from ..dynamics.system import System
from ..fields.field import difference_x, difference_y
from ..fields.state import State, pytree, replace
from ..grids.grid import Grid
from ..grids.windows import GridValues, Stored
from ..models.random_fields import RandomWaves
from ..models.shallow_water import ShallowWater
from ..nests.family import Family
from ..nests.start import state_from_outer
from ..runtime.compilation import jit
from ..stepping.explicit import TimeStepper
from ..stepping.steps import one_step
from .costs.costs import tile_cost
from .costs.tile_costs import Cost, TileCost
from .problem import Problem, dot

DOT_PRODUCT = 1e-12  # the largest error of a dot product by rounding alone
PROBES = 2  # numbers that are read of every state


@pytree
class Probe(TileCost):
    """A cost that reads a few random dimensionless sums over each state; J is the sum of all readings.

    Attributes:
        weights: a State of weights (n, ny, nx); of nested grids a tuple of them.
    """

    reads_families = True

    weights: Any

    @staticmethod
    def of(model: ShallowWater | Family, seed: int = 0, number: int = PROBES) -> "Probe":
        """A Probe of `number` sums, the same on any number of ranks; velocities are scaled by those of 1 m waves."""
        if isinstance(model, Family):
            return Probe(tuple(Probe.of(one, seed, number).weights for one in model.models.values()))
        random = np.random.default_rng(seed)
        cells = math.sqrt(model.sea_floor.wet_cells)
        speed = math.sqrt(model.gravity / model.sea_floor.typical_depth)  # of the water per metre of elevation [s-1]
        positions = {row.name: row.position for row in model.variables}

        def scaled(position):
            scale = 1.0 if position == "h" else speed
            return lambda x, mask: x * (mask / scale) / cells

        weights = {
            name: model.domain.noise(random, scaled(position), model.sea_floor.mask(position), (number,))
            for name, position in positions.items()
        }
        return Probe(State.of(weights, positions))

    def read(self, state: State, equations: System, time: Time) -> jax.Array:
        leaves = zip(jax.tree.leaves(self.weights), jax.tree.leaves(state), strict=True)
        return functools.reduce(jnp.add, [jnp.sum(weights * x[None], axis=(1, 2)) for weights, x in leaves])

    def start(self) -> jax.Array:
        return jnp.zeros((), jax.tree.leaves(self.weights)[0].dtype)

    def update(self, acc: Any, readings: jax.Array, first_step: Any) -> jax.Array:
        return acc + jnp.sum(readings)

    def value(self, acc: Any, final: Any) -> jax.Array:
        return acc


def with_cost(problem: Problem, cost: Cost) -> Problem:
    """The same Problem with another cost."""
    other = copy.copy(problem)
    other.__dict__.pop("_count", None)  # of the other cost's readings
    other.cost = tile_cost(cost, problem.stepped, problem.dt, problem.first_step, problem.steps)
    return other


class DotProducts:
    """The dot products of a problem whose cost is a Probe, for each control.

    Args:
        probe: the Problem.
        directions: the Directions of its controls.
        seed: of the weights y of the readings.
        report: called with a few words before each run of the model.

    Attributes:
        errors: {control: |<M x, y> - <x, M* y>| / (|M x| |y|)}.
    """

    def __init__(
        self, probe: Problem, directions: Any, seed: int = 0, report: Callable[[str], Any] = lambda what: None
    ):
        self._probe, self._values = probe, directions.values
        self._y = np.random.default_rng(seed).standard_normal((probe.steps, PROBES))
        report("adjoint of the probe")
        back = probe.observed_adjoint(self._values, self._y)
        self._images = {}
        for name in directions.names:
            report(f"dot product of {name}")
            x = directions.along(name, smooth=False)
            self._images[name] = x, probe.observed_tangent(self._values, x)[1]
        self.errors = {name: self._error(name, self._y, back) for name in self._images}

    def _error(self, name: str, y: np.ndarray, back: Any) -> float:
        x, forward = self._images[name]
        size = float(np.linalg.norm(forward * (y != 0)) * np.linalg.norm(y))
        difference = abs(float(np.sum(forward * y)) - dot(x, back, self._probe.communicator))
        return difference / size if size > 0 else difference

    def agreed_steps(self, report: Callable[[str], Any] = lambda what: None) -> dict[str, int]:
        """{control: n} of the controls whose error is larger than that of rounding.

        n is the largest half, quarter, ... of the steps over whose readings it is that of rounding, and the control has
        an effect; 0 if there is none.
        """
        left, found, count = {name for name, e in self.errors.items() if not e <= DOT_PRODUCT}, {}, self._probe.steps
        while left and (count := count // 2):
            report(f"dot products over {count} steps")
            y = np.where(np.arange(len(self._y))[:, None] < count, self._y, 0.0)
            back = self._probe.observed_adjoint(self._values, y)
            for name in sorted(left):
                effect = np.any(self._images[name][1][:count])
                if effect and self._error(name, y, back) <= DOT_PRODUCT:
                    found[name] = count
            left -= found.keys()
        return found | dict.fromkeys(left, 0)


LEAST_STEPS = 200
ELEVATION = 1e-4  # of the perturbation, relative to the mean depth


def crossing_steps(model: ShallowWater, dt: float) -> int:
    """The number of steps of `dt` [s] in which a gravity wave crosses the domain's longer side, 200 or more."""
    speed = math.sqrt(model.gravity * model.sea_floor.typical_depth)
    return max(LEAST_STEPS, math.ceil(longer_side(model.grid) / speed / dt))


def longer_side(grid: Grid) -> float:
    """The length of the domain's longer side [m]."""
    sides = grid.metrics(np.arange(grid.ny))
    return max(float(np.max(sides["dx_h"])) * grid.nx, float(np.max(sides["dy_h"])) * grid.ny)


def moving_state(model: Any, state: Any, seed: int = 0) -> Any:
    """`state` if it is not at rest; else a random state in geostrophic balance, the same on any number of ranks.

    Its streamfunction is smooth over a tenth of the domain. Without rotation, eta is an independent random field. Each
    rank computes the fields of its own tile.

    Args:
        model: a ShallowWater, or a Family, whose nests take the flow of the grid around them.
        state: a State; of a Family {name: State}.
        seed: of the random field.
    """
    tiles = jax.tree.leaves(list(model.communicator.tiles(state).values()))
    if model.communicator.agree(any(np.any(x) for x in tiles)):
        return state
    if isinstance(model, Family):
        states = {"": moving_state(model.outer, state[""], seed)}
        for (name, nest), border in zip(model.nests.items(), model.borders, strict=True):
            around = nest.inside or ""
            states[name] = state_from_outer(border, model.models[around], model.models[name], states[around])
        return states
    grid, depth = model.grid, model.sea_floor.typical_depth
    height, radius = ELEVATION * depth, 0.1 * longer_side(grid)
    psi = RandomWaves(grid, radius, (seed, 1))
    flow = {"u": _Velocity(psi, grid, "dy_u", (1, 0), -1.0), "v": _Velocity(psi, grid, "dx_v", (0, 1), 1.0)}
    wet = (values.map(np.multiply, model.sea_floor.mask(name)) for name, values in flow.items())
    squares = sum(float(np.sum(part**2)) for values in wet for _, part in model.domain.own(values))
    total = float(np.sum(model.communicator.host_sum(np.array([squares]))))
    scale = height * math.sqrt(model.gravity / depth) / math.sqrt(total / (grid.nx * grid.ny))
    u, v = (values.map(lambda x: scale * x) for values in flow.values())
    if model.coriolis is None:
        return model.state(u, v, RandomWaves(grid, radius, (seed, 2)).map(lambda x: height * x))
    f = np.broadcast_to(np.asarray(model.coriolis.at(grid, np.arange(grid.ny))), (grid.ny, 1))
    return model.state(u, v, psi.map(lambda psi, f: f * psi * scale / model.gravity, Stored(f, grid.shape)))


class _Velocity(GridValues):
    """A velocity of a streamfunction psi at its faces, sign (psi(j, i) - psi(j - dj, i - di)) / length.

    Args:
        psi: RandomWaves.
        grid: the Grid.
        length: the name of the metric [m].
        back: (dj, di).
        sign: 1 or -1.
    """

    def __init__(self, psi: RandomWaves, grid: Grid, length: str, back: tuple[int, int], sign: float):
        self.psi, self.grid, self.length, self.back, self.sign = psi, grid, length, back, sign
        self.shape = grid.shape

    def block(self, rows: slice, columns: slice) -> np.ndarray:
        j, i = np.arange(rows.start, rows.stop), np.arange(columns.start, columns.stop)
        side = np.maximum(self.grid.metrics(j)[self.length], 1.0)
        return self.sign * (self.psi.at_cells(j, i) - self.psi.at_cells(j - self.back[0], i - self.back[1])) / side


# -- terms -------------------------------------------------------------------------------------------------------------


def term_by_term(model: ShallowWater, stepper: TimeStepper, state: State) -> dict[str, float]:
    """{name: |<L x, y> - <x, L* y>| / (|L x| |y|)} of each term of the equations, linearised at `state`, and of a step.

    x is a random perturbation of the state and the depth, y one of the term's result; products are over all ranks.
    """
    dynamics = model.dynamics(stepper)
    random = np.random.default_rng(0)
    size = max(ELEVATION * model.sea_floor.typical_depth, 1e-3)

    def noise(position):
        return model.domain.noise(random, lambda x, mask: size * x * mask, model.sea_floor.mask(position))

    positions = {row.name: row.position for row in model.variables}
    x = State.of({name: noise(position) for name, position in positions.items()}, positions), noise("h")
    found = {}
    for name in pieces(dynamics, stepper):
        test = jit(model.communicator.spmd(lambda *a, name=name: _product(name, *a)))
        numbers = model.communicator.one_tile(test(dynamics, stepper, state, x))
        forward, back, image, test_size = (float(n) for n in numbers)
        bound = math.sqrt(image * test_size)
        found[name] = abs(forward - back) / bound if bound > 0 else abs(forward - back)
    return found


def pieces(dynamics: System, stepper: TimeStepper) -> dict[str, Callable]:
    """{name: function of (equations, State) to arrays}."""
    along = lambda u, v: (u.interior, v.interior)  # noqa: E731
    found: dict[str, Callable] = {"halos and open sides": lambda e, s, flow: tuple(x.data for _, x in flow.state)}
    if dynamics.momentum.conserves_momentum:  # the momentum is stepped

        def velocities(e, s, flow):
            after = flow.thickness(flow.eta + flow.time.dt * flow.rate)
            return tuple(velocity.interior for velocity, _ in flow.velocities(after))

        found |= {
            "limited fluxes of water": lambda e, s, flow: tuple(flux.interior for flux in flow.fluxes),
            "change of the level": lambda e, s, flow: flow.rate.interior,
            "velocities after a stage": velocities,
        }
    else:
        found |= {
            "divergence of the transports": lambda e, s, flow: e.continuity(flow, flow.time).interior,
            "pressure": lambda e, s, flow: along(*(d(e.gravity * flow.eta) for d in (difference_x, difference_y))),
            "kinetic energy": lambda e, s, flow: flow.kinetic_energy.interior,
            "vorticity flux": lambda e, s, flow: along(*e.momentum.vorticity_flux(flow.q, flow.U, flow.V)),
        }
    for k, term in enumerate(dynamics.terms):
        found[f"{type(term).__name__} (term {k})"] = lambda e, s, flow, k=k: along(*e.terms[k](flow, flow.time))
    found[f"a step of {type(stepper).__name__}"] = lambda e, s, flow: jax.tree.leaves(
        one_step(e, stepper, s, stepper.history(s), 0)[0]
    )
    return found


def _product(name, dynamics, stepper, state, x):
    """(<L x, y>, <x, L* y>, <L x, L x>, <y, y>) of a piece, over all ranks."""

    def piece(state, depth):
        equations = replace(dynamics, depth=depth).prepare()
        flow = equations.flow(state, Time(0, dt=stepper.dt, exact_dt=equations.dt))
        return pieces(dynamics, stepper)[name](equations, state, flow)

    values, image = jax.jvp(piece, (state, dynamics.depth), x)
    y = jax.tree.map(lambda a: jnp.sin(1.0 + 12.9898 * jnp.arange(a.size, dtype=a.dtype)).reshape(a.shape), values)
    back = jax.vjp(piece, state, dynamics.depth)[1](y)
    inner = lambda a, b: sum(jnp.sum(p * q) for p, q in zip(jax.tree.leaves(a), jax.tree.leaves(b)))  # noqa: E731
    numbers = (inner(image, y), inner(x, back), inner(image, image), inner(y, y))
    return tuple(dynamics.communicator.sum(number) for number in numbers)
