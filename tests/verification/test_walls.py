"""A coast is a wall, wherever it lies; a seam is no place at all."""

import jax
import numpy as np
import pytest

import swmodel as sw

from .cases import FORMS, WIDEST, plane, random_state, rough, tendency

TERMS = (sw.Laplacian(1e3), sw.Biharmonic(1e10), sw.QuadraticDrag(2e-3), sw.LinearDrag(1e-6))


def sea(grid, depth, momentum, side):
    return sw.ShallowWater(
        grid,
        depth,
        coriolis=sw.FPlane(1e-4),
        momentum=momentum,
        side=side,
        dissipation=TERMS,
        forcing=(sw.WindStress(x=0.1, y=-0.2),),
    )


@pytest.mark.parametrize(
    "momentum, side, surrounded",
    [pytest.param(form, sw.NoSlip(), "xy", marks=pytest.mark.verify) for form in FORMS[:2]]
    + [(FORMS[2], sw.NoSlip(), "xy"), (FORMS[0], sw.FreeSlip(), "")],
    ids=[f"{type(form).__name__}-no slip-seams" for form in FORMS] + ["EnergyConserving-free slip-walls"],
)
def test_a_wall_at_the_edge_of_the_domain_equals_a_coast_in_the_same_place(momentum, side, surrounded):
    inner, outer = plane(9, 8), plane(13, 11, surrounded)
    depth = rough(inner, 7)
    put = lambda x: np.pad(x, ((1, 2), (3, 1)))  # noqa: E731
    alone, within = sea(inner, depth, momentum, side), sea(outer, put(depth), momentum, side)
    start = random_state(alone, size=0.5)
    rates = tendency(alone, start)
    found = tendency(within, within.state(*(put(np.asarray(x)) for x in (start.u, start.v, start.eta))))
    for here, there in zip(jax.tree.leaves(rates), jax.tree.leaves(found)):
        there = np.asarray(there)
        np.testing.assert_allclose(there[1:-2, 3:-1], here, rtol=0, atol=1e-14 * np.abs(here).max())
        assert (np.pad(there[1:-2, 3:-1], ((1, 2), (3, 1))) == there).all()


@pytest.mark.parametrize(**WIDEST)
def test_a_periodic_domain_has_no_place(momentum):
    grid = plane(periodic="xy")
    depth = rough(grid, 8)
    shift = lambda x: np.roll(np.asarray(x), (3, -5), axis=(0, 1))  # noqa: E731
    here, there = (sea(grid, d, momentum, sw.NoSlip()) for d in (depth, shift(depth)))
    start = random_state(here)
    rates = tendency(here, start)
    moved = tendency(there, there.state(*map(shift, (start.u, start.v, start.eta))))
    for a, b in zip(jax.tree.leaves(rates), jax.tree.leaves(moved)):
        np.testing.assert_allclose(b, shift(a), rtol=0, atol=1e-14 * np.abs(a).max())


@pytest.mark.parametrize(**WIDEST)
def test_x_and_y_are_alike(momentum):
    """The transposed domain, with u and v exchanged and f reversed, gives the transposed tendency."""
    grid, turned = plane(12, 10), plane(10, 12)
    depth = rough(grid, 9)
    terms = dict(momentum=momentum, dissipation=TERMS, side=sw.NoSlip())
    here = sw.ShallowWater(grid, depth, coriolis=sw.FPlane(1e-4), forcing=(sw.WindStress(x=0.1, y=-0.2),), **terms)
    wind = sw.WindStress(x=-0.2, y=0.1)
    there = sw.ShallowWater(turned, depth.T, coriolis=sw.FPlane(-1e-4), forcing=(wind,), **terms)
    start = random_state(here)
    rates, found = tendency(here, start), tendency(there, there.state(start.v.T, start.u.T, start.eta.T))
    for a, b in ((rates.u, found.v), (rates.v, found.u), (rates.eta, found.eta)):
        np.testing.assert_allclose(b.T, a, rtol=0, atol=1e-14 * np.abs(a).max())
