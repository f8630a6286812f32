"""Solvers on the devices of one process, what multigrid is made of, solvers of one's own, and what is refused."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel import elliptic
from swmodel.elliptic import Coefficients, ConjugateGradients, Domain, EllipticError
from swmodel.elliptic.operator import assemble, materialized
from swmodel.parallel import SerialCommunicator, make_communicator
from tests.parallel import cases
from tests.parallel import test_elliptic as on_ranks
from tests.parallel.test_communicator import quick
from tests.selection import later, now

SHAPE, TIGHT = on_ranks.SHAPE, on_ranks.TIGHT


@pytest.fixture(scope="module")
def devices():
    return make_communicator("sharded", SHAPE, (2, 3))  # uneven along both directions


SOME = slice(2, None, 5)  # each solver with a level that is given at two walls


@pytest.mark.parametrize("solvers, place, these", [
    ("direct", "walls", SOME), later("iterative", "islands on a torus", slice(-1, None))
], ids=("direct", "iterative"))  # fmt: skip
def test_devices_of_one_process_solve_it_too(devices, solvers, place, these):
    on_ranks.check_solutions(devices, place, getattr(on_ranks, solvers)(place)[these])


@pytest.mark.verify
def test_devices_of_one_process_have_the_implicit_functions_derivatives(devices):
    solver = ConjugateGradients(tolerance=TIGHT)
    on_ranks.check_derivatives(devices, "islands on a sphere", solver, varying=True, twice=False)


# -- multigrid --------------------------------------------------------------------------------------------------------


def basin(n=22):
    """(grid, wet, c, lambda) of a free surface at 10 times the explicit limit, over depths that vary a hundredfold."""
    grid = sw.CartesianGrid(n, n, (0.0, 1.0 * n), (0.0, 1.0 * n))
    random = np.random.default_rng(3)
    wet = random.random((n, n)) > 0.15
    x, y = grid.coordinates("h")
    depth = np.exp(-4.6 * np.abs(np.sin(7 * x / n) * np.cos(5 * y / n)))
    return grid, wet, 12.5 * depth, 1.0


@pytest.mark.parametrize("layout", [None, later((2, 3))])
def test_multigrid_is_symmetric_and_positive_and_its_passages_are_each_others_transpose(layout):
    communicator = SerialCommunicator() if layout is None else make_communicator("sharded", SHAPE, layout)
    grid, wet, c, screening = basin()
    domain, cycle = Domain.of(grid, communicator, wet), elliptic.Multigrid(precision="float64", coarsest=40)
    parts, random = communicator.decomposition(grid.shape), np.random.default_rng(4)
    place = lambda x: communicator.place(lambda rank: parts.cut(x, rank))  # noqa: E731
    x, y = (place(np.where(wet, random.standard_normal(grid.shape), 0.0)) for _ in range(2))

    def program(domain, c, x, y):
        dot = lambda a, b: communicator.sum(jnp.sum(a * b))  # noqa: E731
        coefficients = Coefficients(c, screening)
        prepared = cycle.prepare(domain, coefficients, assemble(domain, coefficients))
        mx, my = cycle.apply(prepared, x), cycle.apply(prepared, y)
        transfer = prepared[1][0]
        coarse = transfer.restrict(x)
        fine = transfer.interpolate(coarse)
        return dot(mx, y), dot(x, my), dot(mx, x), dot(fine, y), dot(coarse, transfer.restrict(y))

    one, other, positive, up, down = map(float, quick(communicator.spmd(program))(domain, place(c), x, y))
    assert abs(one - other) < 1e-12 * positive and positive > 0
    assert abs(up - down) < 1e-12 * abs(up)


FAST = (None, ()), (0.3, ("west",))


@pytest.mark.parametrize("screening, dirichlet", now([*itertools.product((None, 0.3), ((), ("west",)))], *FAST))
def test_the_fast_preconditioner_is_the_inverse_itself_where_coefficients_do_not_vary(screening, dirichlet):
    """And positive: conjugate gradients alone would not notice another sign or another mean."""
    grid = sw.CartesianGrid(12, 9, (0.0, 12.0), (0.0, 9.0))
    domain = Domain.of(grid, SerialCommunicator(), np.ones(grid.shape, bool))
    r = np.random.default_rng(5).standard_normal(grid.shape)
    r -= r.mean()

    def program(domain, r):
        coefficients = Coefficients(1.7, screening, dirichlet)
        stencil = assemble(domain, coefficients)
        fast = elliptic.FastPoisson()
        x = fast.apply(fast.prepare(domain, coefficients, stencil), r)
        return jnp.sum(x * r), stencil.apply(x) + r

    product, off = quick(program)(domain, jnp.asarray(r))
    assert float(product) > 0
    if not dirichlet:  # at a wall the mean of what is lost there is spread out over all cells
        assert np.abs(off).max() < 1e-11


def test_the_mean_is_taken_away_from_water_bodies_that_are_free_and_from_no_others():
    """Of two basins, one of which is held at its west side."""
    grid, wet = sw.CartesianGrid(9, 6, (0.0, 9.0), (0.0, 6.0)), np.ones((6, 9), bool)
    wet[:, 4] = False
    x = np.where(wet, np.random.default_rng(6).standard_normal((6, 9)), 0.0)

    def program(domain, x):
        stencil = assemble(domain, Coefficients(1.0, None, ("west",)))
        return stencil.centred(x), stencil.balanced(x)

    for found in quick(program)(Domain.of(grid, SerialCommunicator(), wet), jnp.asarray(x)):
        np.testing.assert_array_equal(found[:, :4], x[:, :4])
        np.testing.assert_allclose(found[:, 5:], x[:, 5:] - x[:, 5:].mean(), atol=1e-14)


@pytest.mark.parametrize("shape", (later((16, 24)), (15, 23)), ids=("even", "odd"))
def test_multigrid_interpolates_constants_and_linear_functions_exactly_and_restricts_whole_sums(shape):
    """Prolongation is linear (Briggs, Henson & McCormick 2000, chapter 3), and restriction, its transpose, keeps sums.

    Cells have unit spacing; a coarse centre lies between its two fine cells, or on the one that stands alone.
    """
    ny, nx = shape
    grid = sw.CartesianGrid(nx, ny, (0.0, float(nx)), (0.0, float(ny)))
    domain = Domain.of(grid, SerialCommunicator(), np.ones(shape, bool))
    coefficients, cycle = Coefficients(1.0, 0.1), elliptic.Multigrid(precision="float64", coarsest=40)
    transfer = quick(lambda: cycle.prepare(domain, coefficients, assemble(domain, coefficients))[1][0])()

    def centres(n):
        odd = n % 2
        return np.concatenate([[0.5] * odd, np.arange(odd, n, 2) + 1.0])

    x, y = centres(nx), centres(ny)
    fine_x, fine_y = np.arange(nx) + 0.5, np.arange(ny) + 0.5
    inside = (slice(2, -2), slice(2, -2))  # near walls there is no neighbour to interpolate towards
    ones = np.asarray(transfer.interpolate(jnp.ones((y.size, x.size))))
    np.testing.assert_allclose(ones, 1.0, rtol=1e-14)
    plane = np.asarray(transfer.interpolate(jnp.asarray(2.0 + 3.0 * x[None, :] - 5.0 * y[:, None])))
    np.testing.assert_allclose(plane[inside], (2.0 + 3.0 * fine_x[None, :] - 5.0 * fine_y[:, None])[inside], rtol=1e-12)
    r = np.random.default_rng(5).standard_normal(shape)
    np.testing.assert_allclose(np.sum(transfer.restrict(jnp.asarray(r))), r.sum(), rtol=1e-12)


def test_a_v_cycle_leaves_little_of_any_error():
    """The eigenvalues of M A lie near 1: between 0.75 and 1.05 for a closed basin, so that conjugate gradients converge
    by a factor of (sqrt(1.4) - 1) / (sqrt(1.4) + 1) = 0.08 an iteration."""
    shape = (16, 16)
    grid = sw.CartesianGrid(16, 16, (0.0, 16.0), (0.0, 16.0))
    domain = Domain.of(grid, SerialCommunicator(), np.ones(shape, bool))
    coefficients, cycle = Coefficients(1.0, 1e-3), elliptic.Multigrid(precision="float64", coarsest=20)

    @quick
    def product():
        stencil = assemble(domain, coefficients)
        prepared = cycle.prepare(domain, coefficients, stencil)
        return jax.vmap(lambda x: cycle.apply(prepared, -stencil.apply(x)))(jnp.eye(256).reshape(256, *shape))

    values = np.sort(np.abs(np.linalg.eigvals(np.asarray(product()).reshape(256, 256))))
    assert 0.75 < values[0] and values[-1] < 1.05, (values[0], values[-1])


def test_multigrid_takes_few_iterations_where_depth_varies_a_hundredfold():
    grid, wet, c, screening = basin(40)
    domain, b = Domain.of(grid, SerialCommunicator(), wet), jnp.asarray(np.where(wet, 1.0, 0.0))
    solvers = ConjugateGradients(elliptic.Multigrid(coarsest=120)), ConjugateGradients(elliptic.Diagonal())

    def program(domain, coefficients, b):
        return [solver.solve_and_report(solver.plan(domain, coefficients), b)[1].iterations for solver in solvers]

    multigrid, diagonal = quick(program)(domain, Coefficients(jnp.asarray(c), screening), b)
    assert multigrid <= 15 and diagonal > 50


def test_materialized_arrays_are_unchanged():
    domain = Domain.of(cases.plane(), SerialCommunicator())
    x = jnp.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(jax.jit(lambda x: materialized(x, domain.tile.sides))(x), x)


@pytest.mark.parametrize("layout", [None, later((2, 3))])
def test_coefficients_on_faces_are_those_of_the_cells_they_are_means_of(layout):
    communicator = SerialCommunicator() if layout is None else make_communicator("sharded", SHAPE, layout)
    domain, c = Domain.of(cases.plane("xy"), communicator, on_ranks.islands()), on_ranks.field(2)
    faces = tuple(on_ranks.placed(communicator, 0.5 * (c + np.roll(c, -1, axis=axis))) for axis in (1, 0))
    x = on_ranks.placed(communicator, on_ranks.field(3) * on_ranks.islands())

    def program(domain, c, faces, x):
        return [assemble(domain, Coefficients(given, 1e-9)).apply(x) for given in (c, faces)]

    applied = quick(communicator.spmd(program))(domain, on_ranks.placed(communicator, c), faces, x)
    one, other = (communicator.gather_to_root(a, SHAPE) for a in applied)
    np.testing.assert_allclose(other, one, rtol=0, atol=1e-14 * np.abs(one).max())


def test_solutions_in_float32_are_as_good_as_float32_is():
    domain = Domain.of(cases.sphere(), SerialCommunicator(), dtype="float32")
    b = jnp.asarray(on_ranks.field(1), "float32")
    coefficients = Coefficients(3.0, 1.0 / on_ranks.size(cases.sphere()))
    solvers = elliptic.FourierTridiagonal(), ConjugateGradients(elliptic.Multigrid(coarsest=50), 1e-6)
    one, other = quick(lambda d, b: [s.solve_and_report(s.plan(d, coefficients), b)[0] for s in solvers])(domain, b)
    assert one.dtype == other.dtype == jnp.float32
    np.testing.assert_allclose(other, one, rtol=0, atol=1e-5 * np.abs(one).max())


# -- a solver of one's own --------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Richardson(elliptic.Solver):
    """phi <- phi + (r - A phi) / bound: a script's own solver."""

    sweeps: int = 2000

    def prepare(self, domain, coefficients, stencil):
        return 0.5 / domain.communicator.maximum(jnp.max(stencil.diagonal))

    def invert(self, plan, r):
        sweep = lambda _, x: x - plan.prepared * (r - plan.stencil.apply(x))  # noqa: E731
        x = jax.lax.fori_loop(0, self.sweeps, sweep, jnp.zeros_like(r))
        return x, elliptic.Report(jnp.asarray(self.sweeps), jnp.zeros((), r.dtype), jnp.ones((), bool))


def test_a_solver_of_ones_own_has_a_name_and_derivatives():
    elliptic.register("richardson", Richardson)
    try:
        solver = elliptic.named("richardson", sweeps=400)
        assert solver == Richardson(400) and "richardson" in elliptic.names()
        with pytest.raises(EllipticError, match="is there already"):
            elliptic.register("richardson", Richardson)
    finally:
        elliptic._named.pop("richardson")
    domain, size = Domain.of(cases.plane(), SerialCommunicator()), on_ranks.size(cases.plane())
    b = jnp.asarray(on_ranks.field(1))

    def cost(solver, c):
        plan = solver.plan(domain, Coefficients(c, 2.0 / size))
        return jnp.sum(solver.solve(plan, b) ** 2)

    pair = solver, ConjugateGradients(tolerance=TIGHT)
    gradients = quick(lambda c: [jax.grad(lambda c: cost(s, c))(c) for s in pair])(jnp.asarray(on_ranks.field(2)))  # noqa: B023
    np.testing.assert_allclose(*gradients, rtol=0, atol=1e-10 * np.abs(gradients[0]).max())
    with pytest.raises(EllipticError, match="no solver named 'sor'"):
        elliptic.named("sor")


def test_c_on_land_beside_a_wall_cell_is_nobodys():
    """phi = -dx^2 b / 4c in a column of water between a Dirichlet wall, half a cell away, and land."""
    grid, wet = cases.plane(), np.ones(SHAPE, bool)
    wet[:, 1] = False
    domain, b = Domain.of(grid, SerialCommunicator(), wet), jnp.asarray(wet.astype(float))
    solver, dx = ConjugateGradients(tolerance=1e-13), float(np.diff(grid.x_edges)[0])
    for c in (jnp.asarray(np.where(wet, 2.0, 0.0)), (jnp.full(SHAPE, 2.0),) * 2):
        phi, _ = elliptic.solve(solver, domain, Coefficients(c, None, ("west", "east")), b)
        np.testing.assert_allclose(phi[:, 0], -(dx**2) / 4, rtol=1e-10)


# -- what is refused --------------------------------------------------------------------------------------------------


def test_equations_that_cannot_be_solved_are_refused_in_a_sentence():
    alone, (ny, nx) = SerialCommunicator(), SHAPE
    domain, land = Domain.of(cases.plane(), alone), Domain.of(cases.plane(), alone, on_ranks.islands())
    b, solver = jnp.asarray(on_ranks.field(1)), ConjugateGradients()

    def refused(match, solver=solver, domain=domain, coefficients=Coefficients(1.0, 1.0), b=b):  # noqa: B008
        with pytest.raises(EllipticError, match=match):
            elliptic.solve(solver, domain, coefficients, b)

    refused("c is -1 somewhere", coefficients=Coefficients(-1.0, 1.0))
    refused("c is -0.5 somewhere", coefficients=Coefficients(b.at[3, 3].set(-0.5), 1.0))
    refused("screening is 0 somewhere", coefficients=Coefficients(1.0, 0.0))
    refused("screening is -2 somewhere", coefficients=Coefficients(1.0, b.at[0, 0].set(-2.0)))
    refused("b adds up to .* subtract the mean", coefficients=Coefficients(1.0))
    refused(r"in water body \d of 2", domain=land, coefficients=Coefficients(1.0))
    refused("the grid has land", elliptic.Spectral(), land)
    refused("c varies from cell to cell", elliptic.Spectral(), coefficients=Coefficients(b, 1.0))
    refused("cells of a SphericalGrid differ", elliptic.Spectral(), Domain.of(cases.sphere(), alone))
    refused("periodic along y; use Spectral", elliptic.FourierTridiagonal(), Domain.of(cases.plane("xy"), alone))
    slow = Coefficients(1.0, 0.01 / on_ranks.size(cases.plane()))
    refused("no solution after 2 iterations", ConjugateGradients(iterations=2), coefficients=slow)
    refused("b has shape", b=b[1:])
    refused("c has shape", coefficients=Coefficients(b[0], 1.0))
    refused("'up' is no side", coefficients=Coefficients(1.0, None, ("up",)))
    at = lambda side: Coefficients(1.0, None, (side,))  # noqa: E731
    refused("grid is periodic where", domain=Domain.of(cases.plane("x"), alone), coefficients=at("west"))
    refused("is a pole", domain=Domain.of(cases.globe(), alone), coefficients=at("north"))
    refused("c has shape", coefficients=Coefficients(b[1:], 1.0))
    refused("'west' is no tuple of sides", coefficients=Coefficients(1.0, None, "west"))
    refused("b is not finite", elliptic.Spectral(), b=b.at[2, 3].set(jnp.nan))
    refused("a coefficient is not finite", coefficients=Coefficients(b.at[2, 3].set(jnp.inf), 1.0))
    refused("is no solver; give an object", elliptic.Spectral)
    with pytest.raises(EllipticError, match="0 wet cells"):
        Domain.of(cases.plane(), alone, np.zeros((ny, nx)))


@pytest.mark.parametrize(
    "options, match",
    [
        ({"preconditioner": "diagonal"}, "preconditioner = 'diagonal' is not a Preconditioner"),
        ({"preconditioner": elliptic.Diagonal}, "Diagonal.*is not a Preconditioner"),
        ({"tolerance": "1"}, "tolerance = '1' and"),
        ({"tolerance": 0.0}, "tolerance = 0.0 and"),
        ({"tolerance": -1.0}, "tolerance = -1.0 and"),
        ({"iterations": 0}, "iterations = 0 are not both valid"),
        ({"steps": 3}, "does not take these options, .*'steps'"),
    ],
)
def test_conjugate_gradients_that_end_nowhere_are_refused_in_a_sentence(options, match):
    with pytest.raises(EllipticError, match=match):
        elliptic.named("conjugate_gradients", **options)


def test_what_makes_no_solver_is_refused_in_a_sentence():
    with pytest.raises(EllipticError, match="does not take these options, .*'tolerance'"):
        elliptic.named("spectral", tolerance=1)
    with pytest.raises(EllipticError, match="42 makes no solver; register 'foo' with a class or a function"):
        elliptic.register("foo", 42)


@pytest.mark.parametrize("side", ("west", "east", "south", "north"))
def test_at_a_given_side_the_coefficient_is_that_of_the_cells_along_it(side):
    """As cells, and as faces, of which the low sides have that between the first two cells."""
    grid = sw.CartesianGrid(4, 3, (0.0, 8.0), (0.0, 3.0))
    domain = Domain.of(grid, SerialCommunicator(), np.ones(grid.shape, bool))
    random = np.random.default_rng(7)
    cells, faces = random.uniform(1.0, 2.0, grid.shape), random.uniform(1.0, 2.0, (2, *grid.shape))
    line = {"west": np.s_[:, 0], "east": np.s_[:, -1], "south": np.s_[0], "north": np.s_[-1]}[side]
    along_x = side in ("west", "east")
    ratio = 1.0 / 2.0 if along_x else 2.0 / 1.0  # of the length of a face over the distance between centres
    for c in (cells, tuple(faces)):
        one, other = (assemble(domain, Coefficients(c, None, sides)) for sides in ((), (side,)))
        x = jnp.ones(grid.shape)
        lost = np.asarray(quick(lambda x, a=one, b=other: a.apply(x) - b.apply(x))(x))
        expected = np.zeros(grid.shape)
        expected[line] = 2.0 * ratio * (c if c is cells else faces[0 if along_x else 1])[line]
        np.testing.assert_allclose(lost, expected, rtol=1e-12, atol=1e-12)
