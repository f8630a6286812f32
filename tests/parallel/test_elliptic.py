"""Solutions are those of the discrete equation, the same on any ranks, and their derivatives are exact."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

from swmodel import elliptic
from swmodel.elliptic import Coefficients, ConjugateGradients, Domain
from swmodel.grids.water import bodies
from swmodel.parallel import make_communicator

from . import cases
from .test_communicator import quick

SHAPE = (cases.NY, cases.NX)
TIGHT = 1e-13
MULTIGRID = ConjugateGradients(elliptic.Multigrid(coarsest=50), TIGHT)  # 143 cells, and 42 coarse ones


@pytest.fixture(scope="module", params=cases.LAYOUTS[:1], ids=str)
def ranks(request):
    return make_communicator("auto", SHAPE, request.param)


def islands():
    """A tenth of the cells is land, and one lake is apart."""
    wet = np.random.default_rng(2).random(SHAPE) > 0.1
    wet[4:7, 4:7] = False
    wet[5, 5] = True
    return wet


GRIDS = {
    "walls": (cases.plane(), None),
    "channel": (cases.plane("x"), None),
    "torus": (cases.plane("xy"), None),
    "sphere": (cases.sphere(), None),
    "globe": (cases.globe(), None),
    "islands": (cases.plane(), islands()),
    "islands on a torus": (cases.plane("xy"), islands()),
    "islands on a sphere": (cases.sphere(), islands()),
}


def size(grid):
    """Of a cell's area, so that lambda weighs as much as the Laplacian."""
    return float(grid.area_h.mean())


def field(seed):
    """A positive whole field, the same on every rank."""
    return 1.0 + np.random.default_rng(seed).random(SHAPE)


def placed(communicator, whole):
    parts = communicator.decomposition(SHAPE)
    return communicator.place(lambda rank: parts.cut(whole, rank))


def matrix(grid, wet, c, screening, dirichlet):
    """The area-weighted operator, written down face by face: an independent reference."""
    ny, nx = SHAPE
    wet = np.ones(SHAPE, bool) if wet is None else wet
    m = {name: np.broadcast_to(x, (ny + 1, 1)).ravel() for name, x in grid.metrics(np.arange(-1, ny)).items()}
    number = np.arange(ny * nx).reshape(SHAPE)
    found = scipy.sparse.lil_array((ny * nx, ny * nx))

    def passes(here, there, flow):
        found[here, here] -= flow
        found[here, there] += flow
        found[there, there] -= flow
        found[there, here] += flow

    for j in range(ny):
        for i in range(nx):
            east, north = (j, (i + 1) % nx), ((j + 1) % ny, i)
            if wet[j, i] and wet[east] and (i + 1 < nx or grid.periodic_x):
                passes(number[j, i], number[east], 0.5 * (c[j, i] + c[east]) * m["dy_u"][j + 1] / m["dx_u"][j + 1])
            if wet[j, i] and wet[north] and (j + 1 < ny or grid.periodic_y):
                passes(number[j, i], number[north], 0.5 * (c[j, i] + c[north]) * m["dx_v"][j + 1] / m["dy_v"][j + 1])
            found[number[j, i], number[j, i]] -= wet[j, i] * screening[j, i] * m["area_h"][j + 1]
    for side in dirichlet:
        for k in range(ny if side in ("west", "east") else nx):
            j, i = {"west": (k, 0), "east": (k, nx - 1), "south": (0, k), "north": (ny - 1, k)}[side]
            ratio = m["dy_h"][j + 1] / m["dx_h"][j + 1]
            if side in ("south", "north"):
                ratio = m["dx_v"][0 if side == "south" else ny] / m["dy_h"][j + 1]
            found[number[j, i], number[j, i]] -= wet[j, i] * 2 * c[j, i] * ratio
    return found.tocsr(), wet


def balanced(b, grid, wet):
    """b without its mean over each water body, and 0 on land."""
    number, area = bodies(wet, grid), np.broadcast_to(grid.area_h, SHAPE)
    for k in range(1, number.max() + 1):
        here = number == k
        b = np.where(here, b - np.sum((area * b)[here]) / np.sum(area[here]), b)
    return np.where(wet, b, 0.0)


def check_solutions(communicator, name, equations):
    """Each (solver, c, lambda, sides): the solution fulfils the equation as it was written down, in one program."""
    grid, wet = GRIDS[name]
    domain, systems, todo = Domain.of(grid, communicator, wet), [], []
    for solver, c, screening, dirichlet in equations:
        whole = [np.broadcast_to(0.0 if x is None else x, SHAPE) for x in (c, screening)]
        a, water = matrix(grid, wet, *whole, dirichlet)
        b = np.where(water, field(7), 0.0)
        b = balanced(b, grid, water) if screening is None and not dirichlet else b
        systems.append((a, b, solver))
        given = [x if x is None or np.ndim(x) == 0 else placed(communicator, x) for x in (c, screening)]
        todo.append((Coefficients(*given, dirichlet), placed(communicator, b)))

    def program(domain, todo):
        return [s.solve_and_report(s.plan(domain, c), b) for (_, _, s), (c, b) in zip(systems, todo)]

    results = quick(communicator.spmd(program))(domain, todo)
    for (a, b, solver), (phi, report) in zip(systems, results):
        assert bool(report.converged)
        phi = communicator.gather_to_root(phi, SHAPE)
        if communicator.is_root:
            r = (np.broadcast_to(grid.area_h, SHAPE) * b).ravel()
            size_of = np.abs(a).sum(axis=1).max() * np.abs(phi).max() + np.abs(r).max()
            error = np.abs(a @ phi.ravel() - r).max() / size_of
            assert error < (1e-15 if int(report.iterations) == 0 else TIGHT), (solver, error)
    return results


def direct(name):
    grid, _ = GRIDS[name]
    spectral = () if grid.spherical else (elliptic.Spectral(),)
    rows = () if grid.periodic_y else (elliptic.FourierTridiagonal(),)
    sides = {
        "walls": [("west", "north"), ("east", "west", "south", "north"), ("east",)],
        "channel": [("south",)],
        "sphere": [("west", "north")],
    }.get(name, [])
    cases_of = [(2.0, None, ()), (2.0, 1.0 / size(grid), ()), *((3.0, None, side) for side in sides)]
    return [(solver, *case) for solver in (*spectral, *rows) for case in cases_of]


def iterative(name):
    grid, _ = GRIDS[name]
    fast = ConjugateGradients(elliptic.FastPoisson(), TIGHT)
    solvers = ConjugateGradients(tolerance=TIGHT), fast, MULTIGRID
    cases_of = [(field(3), None, ()), (field(3), field(4) / size(grid), ("west",) if not grid.periodic else ())]
    return [(solver, *case) for solver in solvers for case in cases_of]


FEW = ["walls", "globe"] if cases.RANKS > 1 else ["walls", "channel", "torus", "sphere", "globe"]


@pytest.mark.parametrize("name", FEW)
def test_transforms_solve_the_discrete_equation_to_rounding(ranks, name):
    check_solutions(ranks, name, direct(name))


@pytest.mark.parametrize("name", ["islands on a torus", *(["islands"] if cases.RANKS == 1 else [])])
def test_conjugate_gradients_solve_it_among_islands_and_lakes_with_any_preconditioner(ranks, name):
    check_solutions(ranks, name, iterative(name))


# -- derivatives ------------------------------------------------------------------------------------------------------


def check_derivatives(communicator, name, solver, varying, twice=True):
    """Of J = sum (solution)^3 / 3 in b, c and lambda: J' is that of the adjoint equation, solved by sparse LU here;
    <J', t> = dJ(t); the Hessian times t, forward over reverse, is the central difference of J'."""
    grid, wet = GRIDS[name]
    domain, shape = Domain.of(grid, communicator, wet), SHAPE if varying else ()
    c, screening = (3.0 + field(3), 1.0 + field(4)) if varying else (np.float64(3.5), np.float64(2.0))
    values = {"b": field(5), "c": c, "screening": screening / size(grid)}
    random = np.random.default_rng(9)
    t = {k: 0.1 * values[k] * random.standard_normal(SHAPE if k == "b" else shape) for k in values}
    held = lambda tree: {k: placed(communicator, x) if np.ndim(x) else x for k, x in tree.items()}  # noqa: E731

    def program(domain, values, t):
        def cost(values):
            known = {k: x if jnp.ndim(x) else communicator.replicated(x) for k, x in values.items()}
            plan = solver.plan(domain, Coefficients(known["c"], known["screening"]))
            phi = solver.solve(plan, known["b"])
            return communicator.sum(jnp.sum(phi**3) / 3), phi

        gradient = lambda values: jax.grad(lambda v: cost(v)[0])(values)  # noqa: E731
        (_, phi), (slope, _) = jax.jvp(cost, (values,), (t,))
        if not twice:
            return phi, slope, gradient(values), values, values
        g, product = jax.jvp(gradient, (values,), (t,))
        beside = jax.vmap(lambda h: gradient(jax.tree.map(lambda v, d: v + h * d, values, t)))(jnp.array([1e-4, -1e-4]))
        return phi, slope, g, product, jax.tree.map(lambda g: (g[0] - g[1]) / 2e-4, beside)

    phi, slope, gradient, product, beside = quick(communicator.spmd(program))(domain, held(values), held(t))
    gathered = lambda x: communicator.gather_to_root(x, SHAPE) if x.ndim else np.asarray(x)  # noqa: E731
    whole = functools.partial(jax.tree.map, gathered)
    phi, gradient, product, difference = map(whole, (phi, gradient, product, beside))
    if not communicator.is_root:
        return
    a, water = matrix(grid, wet, *(np.broadcast_to(values[k], SHAPE) for k in ("c", "screening")), ())
    keep, area = np.flatnonzero(water), np.broadcast_to(grid.area_h, SHAPE)
    adjoint = np.zeros(SHAPE)
    adjoint.ravel()[keep] = scipy.sparse.linalg.spsolve(a[keep][:, keep].tocsc(), (phi**2).ravel()[keep])
    np.testing.assert_allclose(gradient["b"], area * adjoint, rtol=0, atol=1e-11 * np.abs(area * adjoint).max())
    lost = area * adjoint * phi * water
    expected = lost if varying else lost.sum()
    np.testing.assert_allclose(gradient["screening"], expected, rtol=0, atol=1e-11 * np.abs(lost).sum())
    dots = {k: np.sum(gradient[k] * t[k]) for k in t}
    assert abs(sum(dots.values()) - float(slope)) < 1e-11 * sum(map(abs, dots.values()))
    for k in t:
        np.testing.assert_allclose(product[k], difference[k], rtol=0, atol=1e-6 * np.abs(difference[k]).max())


def test_derivatives_among_islands_are_the_implicit_functions(ranks):
    check_derivatives(ranks, "islands on a sphere", ConjugateGradients(tolerance=TIGHT), varying=True)


@pytest.mark.parametrize("name, solver", [("walls", elliptic.Spectral()), ("globe", elliptic.FourierTridiagonal())])
def test_derivatives_of_transforms_are_the_implicit_functions(ranks, name, solver):
    check_derivatives(ranks, name, solver, varying=False)


def test_what_is_free_is_projected_out_symmetrically(ranks):
    """Walls all round and no lambda: <S b, y> = <b, S' y> with S' = area S / area, for any b and y; the mean is 0."""
    grid, wet = GRIDS["islands on a sphere"]
    domain, solver = Domain.of(grid, ranks, wet), ConjugateGradients(tolerance=TIGHT)
    b, y = (placed(ranks, np.random.default_rng(k).standard_normal(SHAPE)) for k in (1, 2))

    def program(domain, c, b, y):
        plan = solver.plan(domain, Coefficients(c))
        phi, pull = jax.vjp(lambda b: solver.solve(plan, b), b)
        other = solver.solve(plan, y)
        area, dot = plan.stencil.area, lambda p, q: ranks.sum(jnp.sum(p * q))  # noqa: E731
        products = dot(area * phi, y), dot(area * b, other), dot(pull(area * y)[0], b)
        return *products, plan.stencil.totals(area * phi), dot(area, jnp.abs(phi))

    one, other, pulled, means, norm = quick(ranks.spmd(program))(domain, placed(ranks, field(3)), b, y)
    np.testing.assert_allclose([other, pulled], one, rtol=1e-10)
    assert np.abs(means).max() < 1e-12 * float(norm)
