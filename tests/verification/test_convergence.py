"""Every term converges to the continuous equations at second order, on the plane and on the sphere.

Smooth flow, surface and bottom that meet the walls as the model has it (no normal flow, free slip) are put on two
grids. Each discrete term is compared with the continuous one, which JAX differentiates in coordinates (a, b) with scale
factors (m, n): d/dx = (1/m) d/da, d/dy = (1/n) d/db.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.runtime.compilation import jit
from tests.selection import now

from .cases import FORMS, NAMED, take_steps

G, RHO, TAU_X, TAU_Y = 9.81, 1000.0, 0.2, -0.1
TERMS = (
    sw.WindStress(x=TAU_X, y=TAU_Y, density=RHO),
    sw.LinearDrag(3e-6),
    sw.QuadraticDrag(2e-3),
    sw.ManningDrag(0.03),
    sw.Laplacian(2e4),
)


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a = a0 + (0 to la) and b = b0 + (0 to lb); radius 0 is the plane."""

    a0: float
    la: float
    b0: float
    lb: float
    radius: float

    def model(self, nx, ny, continuum, **options):
        if self.radius:
            limits = np.rad2deg([self.a0, self.a0 + self.la]), np.rad2deg([self.b0, self.b0 + self.lb])
            grid, f = sw.SphericalGrid(nx, ny, *limits, radius=self.radius), sw.RotatingSphere(7e-5)
        else:
            grid = sw.CartesianGrid(nx, ny, (self.a0, self.a0 + self.la), (self.b0, self.b0 + self.lb))
            f = sw.BetaPlane(1e-4, 2e-10)
        depth = continuum.depth(*self.points(grid, "h"))
        return sw.ShallowWater(grid, np.asarray(depth), gravity=G, coriolis=f, **options)

    def points(self, grid, position):
        a, b = np.broadcast_arrays(*grid.coordinates(position))
        return (np.deg2rad(a), np.deg2rad(b)) if self.radius else (a, b)

    def scales(self, b):
        return (self.radius * jnp.cos(b), self.radius * jnp.ones_like(b)) if self.radius else (jnp.ones_like(b),) * 2

    def f(self, b):
        return 1.4e-4 * jnp.sin(b) if self.radius else 1e-4 + 2e-10 * b


PLANE, SPHERE = Place(0.0, 8e5, 0.0, 6e5, 0.0), Place(3.0, 0.2, 0.5, 0.15, 6.371e6)
PLACES = pytest.mark.parametrize(  # scale factors are 1 on the plane
    "place", (pytest.param(PLANE, marks=pytest.mark.verify), SPHERE), ids=("plane", "sphere")
)


class Continuum:
    """Continuous fields of (a, b) and the terms of their tendencies.

    At the walls along b the shear stress vanishes if `power` is 1, and the vorticity if it is -1 (on the plane both
    do); TERMS, of which one is viscous, go with the first.
    """

    def __init__(self, place, power):
        self.place, self.viscous = place, power == 1
        s, t = lambda a: np.pi * (a - place.a0) / place.la, lambda b: np.pi * (b - place.b0) / place.lb

        def u(a, b):
            m, m0 = place.scales(b)[0], place.scales(jnp.asarray(place.b0))[0]
            return 0.7 * jnp.sin(s(a)) * jnp.cos(2 * t(b)) * (m / m0) ** power

        self.u, self.v = u, lambda a, b: 0.5 * jnp.cos(2 * s(a)) * jnp.sin(t(b))
        self.eta = lambda a, b: 1.0 + 2.0 * jnp.cos(s(a)) * jnp.cos(t(b))
        self.depth = lambda a, b: 100.0 + 30.0 * jnp.cos(s(a)) * jnp.cos(2 * t(b))

    def scales(self, a, b):
        return self.place.scales(b)

    def dx(self, function, a, b):
        return jax.grad(function, 0)(a, b) / self.scales(a, b)[0]

    def dy(self, function, a, b):
        return jax.grad(function, 1)(a, b) / self.scales(a, b)[1]

    def h(self, a, b):
        return self.depth(a, b) + self.eta(a, b)

    def divergence(self, along_x, along_y, a, b):
        m, n = self.scales(a, b)
        flux_x = lambda a, b: self.scales(a, b)[1] * along_x(a, b)  # noqa: E731
        flux_y = lambda a, b: self.scales(a, b)[0] * along_y(a, b)  # noqa: E731
        return (jax.grad(flux_x, 0)(a, b) + jax.grad(flux_y, 1)(a, b)) / (m * n)

    def equations(self, a, b):
        """(du/dt, dv/dt, deta/dt) without the terms of TERMS."""
        u, v = self.u(a, b), self.v(a, b)
        head = lambda a, b: G * self.eta(a, b) + (self.u(a, b) ** 2 + self.v(a, b) ** 2) / 2  # noqa: E731
        turn = self.place.f(b) + self.divergence(self.v, lambda a, b: -self.u(a, b), a, b)
        transports = (lambda a, b: self.h(a, b) * self.u(a, b)), (lambda a, b: self.h(a, b) * self.v(a, b))
        return turn * v - self.dx(head, a, b), -turn * u - self.dy(head, a, b), -self.divergence(*transports, a, b)

    def tension(self, a, b):
        m, n = self.scales(a, b)
        along = lambda k, f: lambda a, b: f(a, b) / self.scales(a, b)[k]  # noqa: E731
        return n / m * jax.grad(along(1, self.u), 0)(a, b) - m / n * jax.grad(along(0, self.v), 1)(a, b)

    def shear(self, a, b):
        m, n = self.scales(a, b)
        along = lambda k, f: lambda a, b: f(a, b) / self.scales(a, b)[k]  # noqa: E731
        return m / n * jax.grad(along(0, self.u), 1)(a, b) + n / m * jax.grad(along(1, self.v), 0)(a, b)

    def terms(self, a, b):
        """(du/dt, dv/dt) of each of TERMS."""
        u, v, h = self.u(a, b), self.v(a, b), self.h(a, b)
        speed, (m, n) = jnp.sqrt(u**2 + v**2 + 1e-12), self.scales(a, b)
        quadratic, manning = 2e-3 * speed / h, G * 0.03**2 * speed / h ** (4 / 3)
        weighted = lambda k, stress: lambda a, b: self.scales(a, b)[k] ** 2 * 2e4 * self.h(a, b) * stress(a, b)  # noqa: E731
        T = weighted(1, self.tension), weighted(0, self.tension)
        S = weighted(0, self.shear), weighted(1, self.shear)
        viscous_u = (jax.grad(T[0], 0)(a, b) / (m * n**2) + jax.grad(S[0], 1)(a, b) / (n * m**2)) / h
        viscous_v = (jax.grad(S[1], 0)(a, b) / (m * n**2) - jax.grad(T[1], 1)(a, b) / (n * m**2)) / h
        return (
            (TAU_X / (RHO * h), TAU_Y / (RHO * h)),
            (-3e-6 * u, -3e-6 * v),
            (-quadratic * u, -quadratic * v),
            (-manning * u, -manning * v),
            (viscous_u, viscous_v),
        )

    def everything(self, a, b):
        state = self.u(a, b), self.v(a, b), self.eta(a, b)
        return state, self.equations(a, b), self.terms(a, b) if self.viscous else ()

    def on(self, grid):
        """{position: (state, equations, terms)} at the points of a grid."""
        points = [self.place.points(grid, position) for position in "uvh"]
        values = jax.jit(jax.vmap(self.everything))(*(np.ravel(x) for x in zip(*points)))
        split = jax.tree.map(lambda x: np.asarray(x).reshape(3, *grid.shape), values)
        return {position: jax.tree.map(lambda x, k=k: x[k], split) for k, position in enumerate("uvh")}


@jit
def parts(dynamics, state):
    """(the tendency without terms, the accelerations of each term), on faces that move."""
    equations = dynamics.prepare()
    flow, g = equations.flow(state, 0.0), equations.geometry
    bare = dataclasses.replace(equations, terms=())
    each = [(term(flow, 0.0)) for term in equations.terms]
    return bare.tendency(state, 0.0), [((u * g.wet_u).interior, (v * g.wet_v).interior) for u, v in each]


def errors(place, nx, ny, power, **options):
    """{term: (the root mean square error, and value)} of every term on nx x ny cells."""
    continuum = Continuum(place, power)
    model = place.model(nx, ny, continuum, **options)
    exact = continuum.on(model.grid)
    state = model.state(*(exact[position][0][k] for k, position in enumerate("uvh")))
    bare, terms = parts(model.interval(2, 0, 1.0), state)
    pairs = {name: (getattr(bare, name), exact[p][1][k]) for k, (name, p) in enumerate(zip(("u", "v", "eta"), "uvh"))}
    for k, (along_x, along_y) in enumerate(terms):
        name = type(TERMS[k]).__name__
        pairs |= {f"{name} x": (along_x, exact["u"][2][k][0]), f"{name} y": (along_y, exact["v"][2][k][1])}
    moving = {
        "u": model.faces("u"),
        "x": model.faces("u"),
        "v": model.faces("v"),
        "y": model.faces("v"),
        "eta": model.wet,
    }
    rms = lambda x, mask: float(np.sqrt(np.mean(np.asarray(x)[mask] ** 2)))  # noqa: E731
    return {
        name: (rms(got - want, moving[name.split()[-1]]), rms(want, model.wet)) for name, (got, want) in pairs.items()
    }


def assert_second_order(coarse, fine):
    for name, (error, value) in fine.items():
        if error > 1e-14 * value:  # the linear drag is exact
            order = np.log2(coarse[name][0] / error)
            assert 1.8 < order < 2.3, f"{name} converges at order {order:.2f}"
        assert error < 0.03 * value, name


@PLACES
def test_all_terms_converge_at_second_order(place):
    size = functools.partial(errors, place, power=1, dissipation=TERMS)
    assert_second_order(size(nx=16, ny=12), size(nx=32, ny=24))


@PLACES
@pytest.mark.parametrize(**NAMED | {"argvalues": now(FORMS, *FORMS[1:])})  # the terms above go with the first form
def test_every_form_of_the_vorticity_flux_converges_at_second_order(place, momentum):
    size = functools.partial(errors, place, power=-1, momentum=momentum)
    assert_second_order(size(nx=16, ny=12), size(nx=32, ny=24))


def test_a_standing_wave_in_a_closed_basin_converges_at_second_order():
    wrong = []
    for n in (8, 16):
        grid = sw.CartesianGrid(n, n, (0.0, 1e5), (0.0, 8e4))
        model = sw.ShallowWater(grid, 100.0, linear=True)
        shape = lambda x, y: np.cos(np.pi * x / 1e5) * np.cos(2 * np.pi * y / 8e4)  # noqa: E731
        omega = np.sqrt(G * 100.0) * np.pi * np.hypot(1 / 1e5, 2 / 8e4)
        steps = 40 * n // 8
        state, _ = take_steps(model, sw.RK4(1500.0 / steps), model.state(eta=shape), steps)
        wrong.append(np.abs(state.eta - shape(*grid.coordinates("h")) * np.cos(omega * 1500.0)).max())
    assert wrong[1] < 0.05
    assert 1.8 < np.log2(wrong[0] / wrong[1]) < 2.2
