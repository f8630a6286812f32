"""Derivatives are finite and right where formulas are delicate: at exact rest, on land, at coasts and open sides.

|u| u has no derivative formula at 0, 1 / h none on land. The loss sees the state after a few steps; it is
differentiated in the state, the depth, gravity and every parameter of every term.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.fields.state import State, replace
from swmodel.runtime.compilation import jit
from tests.selection import later

from .cases import plane, random_state, rough, uniform

GRID = plane(7, 6)
STEPS = 3


MODEL = sw.ShallowWater(
    GRID,
    rough(GRID, 2, islands=0.2),
    coriolis=sw.FPlane(1e-4),
    momentum=sw.EnergyConserving(),
    side=sw.NoSlip(),
    forcing=(sw.WindStress(x=0.1, y=0.0),),
    dissipation=(
        sw.LinearDrag(1e-5),
        sw.QuadraticDrag(2.5e-3),
        sw.ManningDrag(0.03),
        sw.Laplacian(1e3),
        sw.Biharmonic(1e10),
    ),
    boundaries=(sw.Flather(("west", "south")), sw.Sponge("west", width=3e4, rate=1e-4)),
    source=sw.BottomMotion((0.0, 60.0), np.stack([np.zeros(GRID.shape), uniform(GRID.shape, 4, 0, 1)])),
)


def split(dynamics):
    """(what is differentiated, what rebuilds the dynamics from it)."""
    controls = {
        "depth": dynamics.depth,
        "gravity": dynamics.gravity,
        "terms": dynamics.terms,
        "open_boundaries": dynamics.open_boundaries,
    }
    return controls, lambda c: replace(dynamics, **c)


def loss(dynamics, stepper):
    controls, rebuilt = split(dynamics)
    weights = State(*(jnp.asarray(uniform(GRID.shape, 40 + k, -1, 1)) for k in range(3)))

    def of(state, controls):
        end, _ = sw.integrate(rebuilt(controls), stepper, state, STEPS)
        pieces = jax.tree.map(lambda w, x: jnp.sum(w * x + x * x), weights, end)
        return pieces.u + pieces.v + pieces.eta

    return of, controls


@functools.partial(jit, static_argnums=4)
def values_and_derivatives(dynamics, stepper, state, direction, twice=True):
    """(loss, its gradient, slope along `direction`, the Hessian times it); the direction scales the controls too."""
    of, controls = loss(dynamics, stepper)
    along = (direction, jax.tree.map(lambda x: 0.1 * x, controls))
    if not twice:
        (value, slope), (_, first) = (
            jax.jvp(of, (state, controls), along),
            jax.value_and_grad(of, (0, 1))(state, controls),
        )
        return value, first, slope, first, along
    (value, first), (slope, second) = jax.jvp(jax.value_and_grad(of, (0, 1)), (state, controls), along)
    return value, first, slope, second, along


def dot(a, b):
    return sum(float(np.vdot(x, y)) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b)))


TWICE = pytest.mark.parametrize("twice", [False, later(True)], ids=("gradients", "Hessian products"))


@TWICE
def test_gradients_and_hessian_products_are_finite_from_exact_rest_with_islands(twice):
    stepper = sw.AB2(jnp.asarray(20.0), jnp.asarray(0.1))
    _, first, slope, second, along = values_and_derivatives(
        MODEL.dynamics(stepper, steps=STEPS), stepper, MODEL.at_rest(), random_state(MODEL, 5), twice
    )
    for x in jax.tree.leaves((first, second)):
        assert np.isfinite(x).all()
    assert dot(first, first) > 0 and dot(second, second) > 0
    assert abs(dot(first, along) - float(slope)) < 1e-12 * sum(
        float(np.sum(np.abs(x * y))) for x, y in zip(jax.tree.leaves(first), jax.tree.leaves(along))
    )


@TWICE
def test_gradients_and_hessian_products_are_those_of_differences(twice):
    """In motion, where the loss is smooth: central differences of loss and gradient along a direction."""
    stepper = sw.AB2(jnp.asarray(20.0), jnp.asarray(0.1))
    dynamics = MODEL.dynamics(stepper, steps=STEPS)
    state, step = random_state(MODEL, 6), 1e-4
    _, _, slope, second, along = values_and_derivatives(dynamics, stepper, state, random_state(MODEL, 5), twice)

    def at(sign):
        moved, controls = jax.tree.map(lambda x, d: x + sign * step * d, (state, split(dynamics)[0]), along)
        value, first, *_ = values_and_derivatives(split(dynamics)[1](controls), stepper, moved, state, twice)
        return float(value), first

    (high, first_high), (low, first_low) = at(+1), at(-1)
    assert abs((high - low) / (2 * step) - float(slope)) < 1e-6 * abs(float(slope))
    for got, above, below in zip(*map(jax.tree.leaves, (second, first_high, first_low))) if twice else ():
        wanted = (np.asarray(above) - np.asarray(below)) / (2 * step)
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max() + 1e-12)
