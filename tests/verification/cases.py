"""What the verification tests share: small grids, rough bottoms, random states,
and programs compiled once a structure."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.runtime.compilation import jit
from swmodel.stepping.steps import one_step

FORMS = (sw.EnergyConserving(), sw.EnstrophyConserving(), sw.ArakawaLamb())
NAMED = dict(argnames="momentum", argvalues=FORMS, ids=lambda form: type(form).__name__)
# Where one form shows what the others do: that of both, whose stencil is the widest.
WIDEST = NAMED | {"argvalues": [*(pytest.param(x, marks=pytest.mark.verify) for x in FORMS[:2]), FORMS[2]]}


def plane(nx=12, ny=10, periodic=""):
    """Cells of 10 km."""
    return sw.CartesianGrid(nx, ny, (0.0, nx * 1e4), (0.0, ny * 1e4), periodic)


def globe(nx=12, ny=10):
    return sw.SphericalGrid(nx, ny, (0.0, 360.0), (-90.0, 90.0))


def band(nx=12, ny=10):
    return sw.SphericalGrid(nx, ny, (160.0, 210.0), (-20.0, 50.0))


def uniform(shape, seed, low, high):
    return np.random.default_rng(seed).uniform(low, high, shape)


def rough(grid, seed=0, islands=0.15):
    """(ny, nx) depths of 20 to 200 m, a share of them land."""
    return np.where(uniform(grid.shape, seed + 1, 0, 1) < islands, 0.0, uniform(grid.shape, seed, 20.0, 200.0))


def random_state(model, seed=0, size=1.0):
    """u, v [m s-1] and eta [m] uniform in +-size, zero on land."""
    fields = (uniform(model.grid.shape, 10 * seed + k, -size, size) for k in range(3))
    return model.state(*fields)


@jit
def _tendency(dynamics, state):
    return dynamics.prepare().tendency(state, 0.0)


def tendency(model, state):
    """d state/dt, a State."""
    return _tendency(model.interval(2, 0, 1.0), state)


@jit
def march(dynamics, stepper, state, history, steps):
    """`take_steps` of a System, whose stepper may have any dt."""
    equations = stepper.system(dynamics)

    def body(k, carry):
        return one_step(equations, stepper, *carry, k.astype(state.eta.dtype))

    return jax.lax.fori_loop(0, steps, body, (state, history))


def take_steps(model, stepper, state, steps, history=None):
    """(state, history) after `steps` steps; one program for every number of them."""
    dynamics = model.dynamics(stepper)
    stepper = jax.tree.map(lambda x: jnp.asarray(x, model.dtype), stepper)
    history = stepper.history(state) if history is None else history
    return march(dynamics, stepper, state, history, jnp.int32(steps))


_integrate = jit(sw.integrate, static_argnums=3)


def by_engine(model, stepper, state, steps):
    """The State after `steps` steps by the model's engine, where `take_steps` runs on arrays; a program each number."""
    return _integrate(model.dynamics(stepper, steps=steps), stepper, state, steps)[0]


def norm(state):
    """The root of the mean square of all that a State holds."""
    leaves = [np.asarray(x).ravel() for x in jax.tree.leaves(state)]
    return float(np.sqrt(np.mean(np.concatenate(leaves) ** 2)))


def difference(a, b):
    return jax.tree.map(jnp.subtract, a, b)
