"""Drag and viscosity take energy and nothing else, and leave alone a body that turns with the sphere."""

import numpy as np
import pytest

import swmodel as sw
from swmodel.fields.field import mean_x, mean_y
from swmodel.runtime.compilation import jit

from .cases import band, globe, plane, random_state, rough, take_steps

CLOSURES = sw.Smagorinsky(3.0), sw.BiharmonicSmagorinsky(3.0), sw.Leith(2.0), sw.BiharmonicLeith(2.0)
TERMS = (
    sw.LinearDrag(1e-5),
    sw.QuadraticDrag(2e-3),
    sw.ManningDrag(0.03),
    sw.Laplacian(1e3),
    sw.Biharmonic(1e11),
    *CLOSURES,
)
SYMMETRIC = (sw.LinearDrag, sw.Laplacian, sw.Biharmonic)


def water(grid, side):
    depth = rough(grid)
    depth[-1, 4:7] = 0.0
    return sw.ShallowWater(grid, depth, dissipation=TERMS, side=side)


WATERS = pytest.mark.parametrize(
    "model", [water(plane(), sw.NoSlip()), water(globe(), sw.FreeSlip())], ids=["plane, no slip", "globe, free slip"]
)


@jit
def accelerations(dynamics, state):
    """[(du/dt, dv/dt) of each term], and the mass that each face moves, h area: all (ny, nx)."""
    equations = dynamics.prepare()
    flow, g = equations.flow(state, 0.0), equations.geometry
    masses = (mean_x(flow.h) * g.area_u * g.wet_u).interior, (mean_y(flow.h) * g.area_v * g.wet_v).interior
    each = [term(flow, 0.0) for term in equations.terms]
    return [((u * g.wet_u).interior, (v * g.wet_v).interior) for u, v in each], masses


def forces(model, state):
    each, masses = accelerations(model.interval(3, 0, 1.0), state)
    found = {type(term): tuple(map(np.asarray, force)) for term, force in zip(TERMS, each)}
    return found, tuple(map(np.asarray, masses))


def work(masses, force, state):
    """(sum of mass u . force, the sum of its absolute terms)."""
    parts = [m * f * np.asarray(w) for m, f, w in zip(masses, force, (state.u, state.v))]
    return sum(p.sum() for p in parts), sum(np.abs(p).sum() for p in parts)


@WATERS
def test_no_term_ever_gives_energy_to_a_random_flow(model):
    for seed in range(4):
        state = random_state(model, seed)
        found, masses = forces(model, state)
        for term, force in found.items():
            done, absolute = work(masses, force, state)
            assert done < -1e-3 * absolute, term.__name__


@WATERS
def test_viscosity_is_self_adjoint_where_mass_weighs(model):
    one, other = random_state(model, 1), random_state(model, 2)
    other = model.state(other.u, other.v, one.eta)
    (first, masses), (second, _) = forces(model, one), forces(model, other)
    for term in SYMMETRIC:
        (there, absolute), (back, _) = work(masses, first[term], other), work(masses, second[term], one)
        assert abs(there - back) < 1e-12 * absolute, term.__name__


def test_viscosity_keeps_momentum():
    grid = plane(periodic="xy")
    model = sw.ShallowWater(grid, rough(grid, islands=0.0), dissipation=TERMS)
    found, masses = forces(model, random_state(model))
    for term in (sw.Laplacian, sw.Biharmonic, *map(type, CLOSURES)):
        for mass, force in zip(masses, found[term]):
            assert abs((mass * force).sum()) < 1e-12 * np.abs(mass * force).sum()


@pytest.mark.parametrize("grid", (band(), globe()), ids=("band", "globe"))
def test_solid_body_rotation_on_the_sphere_feels_no_viscosity(grid):
    model = sw.ShallowWater(grid, 1000.0, dissipation=TERMS)
    turning = lambda x, y: 20.0 * np.cos(np.deg2rad(y)) + 0 * x  # noqa: E731
    sheared = lambda x, y: 20.0 * np.cos(np.deg2rad(y)) ** 2 + 0 * x  # noqa: E731
    inside = slice(None) if grid.periodic_x else slice(3, -3)  # walls stop the flow
    (still, _), (felt, _) = (forces(model, model.state(u=u)) for u in (turning, sheared))
    for term in (sw.Laplacian, sw.Biharmonic, sw.Smagorinsky, sw.BiharmonicSmagorinsky):
        none, some = (max(np.abs(x[:, inside]).max() for x in found[term]) for found in (still, felt))
        assert none < 1e-10 * some, term.__name__


@pytest.mark.parametrize(
    "term, power", ((sw.Laplacian(1e3), 2), (sw.Biharmonic(1e11), 4)), ids=("laplacian", "biharmonic")
)
def test_a_shear_flow_decays_at_the_discrete_rate(term, power):
    """exp(- nu K^2 t), or K^4, with K = 2 / dy sin(l dy / 2); along x and along y alike."""
    grid = sw.CartesianGrid(10, 10, (0.0, 1e5), (0.0, 1e5), "xy")
    model = sw.ShallowWater(grid, 1000.0, dissipation=(term,))
    K = 2 / 1e4 * np.sin(2 * np.pi / 10)
    wave = lambda y: np.sin(4 * np.pi * y / 1e5)  # noqa: E731
    for start in (model.state(u=lambda x, y: wave(y) + 0 * x), model.state(v=lambda x, y: wave(x) + 0 * y)):
        state, _ = take_steps(model, sw.RK4(50.0), start, 100)
        left = np.exp(-term.viscosity * K**power * 5000.0)
        np.testing.assert_allclose(state.u, left * start.u, atol=1e-9)
        np.testing.assert_allclose(state.v, left * start.v, atol=1e-9)
        assert left < 0.99


def varying(grid, scale, seed):
    """(ny, nx) positive coefficients about `scale`."""
    return scale * (1.0 + 0.5 * np.random.default_rng(seed).random(grid.shape))


def at_u(x):
    return 0.5 * (x + np.roll(x, -1, axis=1))


def at_v(x):
    return 0.5 * (x + np.roll(x, -1, axis=0))


def test_coefficients_of_drag_that_vary_are_means_of_the_cells_on_both_sides_of_a_face():
    """- r u, - C |u| u / h and - g n^2 |u| u / h^(4/3), with r, C and n halfway between the centres next to a face."""
    grid = plane(6, 5, "xy")
    rate, coefficient, roughness = (varying(grid, s, k) for k, s in enumerate((1e-5, 2e-3, 0.03)))
    terms = sw.LinearDrag(rate), sw.QuadraticDrag(coefficient), sw.ManningDrag(roughness)
    model = sw.ShallowWater(grid, 40.0, gravity=9.81, dissipation=terms)
    each, _ = accelerations(model.interval(2, 0, 1.0), model.state(u=3.0, v=4.0))
    for at, component, speed in ((at_u, 0, 3.0), (at_v, 1, 4.0)):
        wanted = at(rate), at(coefficient) * 5 / 40, 9.81 * at(roughness) ** 2 * 5 / 40 ** (4 / 3)
        for term, found, expected in zip(terms, each, wanted):
            np.testing.assert_allclose(found[component], -speed * expected, rtol=1e-11, err_msg=type(term).__name__)


def test_the_drag_of_a_crossing_flow_counts_its_speed_at_the_same_point():
    """|u| at a u point is (u^2 + v^2)^(1/2) with v the mean of its four neighbours, and likewise at v points."""
    grid = plane(6, 5, "xy")
    model = sw.ShallowWater(grid, 40.0, gravity=9.81, dissipation=(sw.QuadraticDrag(2e-3), sw.ManningDrag(0.03)))
    rng = np.random.default_rng(3)
    u, v = rng.standard_normal(grid.shape), rng.standard_normal(grid.shape)
    each, _ = accelerations(model.interval(2, 0, 1.0), model.state(u=u, v=v))
    there_v = at_u(0.5 * (v + np.roll(v, 1, axis=0)))
    there_u = at_v(0.5 * (u + np.roll(u, 1, axis=1)))
    for factor, found in zip((2e-3 / 40, 9.81 * 0.03**2 / 40 ** (4 / 3)), each):
        np.testing.assert_allclose(found[0], -factor * np.hypot(u, there_v) * u, rtol=1e-9)
        np.testing.assert_allclose(found[1], -factor * np.hypot(v, there_u) * v, rtol=1e-9)


@pytest.mark.parametrize("along", "xy")
def test_viscosity_that_varies_across_a_shear_flow_stands_inside_the_derivative(along):
    """Of u(y) under nu(y): d/dy (nu du/dy), nu at corners the mean; and - d2/dy2 (nu4 d2u/dy2); v(x) likewise."""
    grid = plane(5, 5, "xy")
    rng = np.random.default_rng(4)
    profile, nu = rng.standard_normal(5), 1.0 + rng.random(5)
    spread = (
        (lambda line: np.broadcast_to(line[:, None], (5, 5)))
        if along == "x"
        else (lambda line: np.broadcast_to(line[None, :], (5, 5)))
    )
    terms = sw.Laplacian(1e3 * spread(nu)), sw.Biharmonic(1e11 * spread(nu))
    model = sw.ShallowWater(grid, 100.0, dissipation=terms)
    start = model.state(**{"u" if along == "x" else "v": spread(profile)})
    each, _ = accelerations(model.interval(2, 0, 1.0), start)
    up = lambda line: np.roll(line, -1)  # noqa: E731
    slope = 0.5 * (nu + up(nu)) * (up(profile) - profile) / 1e4
    curvature = (up(profile) - 2 * profile + np.roll(profile, 1)) / 1e8
    curved = nu * curvature
    wanted = 1e3 * (slope - np.roll(slope, 1)) / 1e4, -1e11 * (up(curved) - 2 * curved + np.roll(curved, 1)) / 1e8
    for found, line in zip(each, wanted):
        least = 1e-12 * np.abs(line).max()
        np.testing.assert_allclose(found[0 if along == "x" else 1], spread(line), rtol=1e-9, atol=least)
