"""Thin water and moving shores: drag and wind on films, viscosity along a shore, and land that is no water."""

import functools
import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.cli.checks import flooded_land
from swmodel.dynamics.boundaries import Inside
from swmodel.dynamics.clock import Time
from swmodel.dynamics.dissipation import speed_after_drag
from swmodel.dynamics.inflow import Shore
from swmodel.fields.field import Field
from swmodel.runtime.compilation import jit

DT = 4.0

THREE_STAGES = pytest.param(sw.SSPRK3, marks=pytest.mark.verify)  # take several times as long to compile as one
ONE_QUICKLY = pytest.mark.parametrize("stepper", (THREE_STAGES, sw.ForwardBackwardHancock))


def beach(grid, depth, **options):
    """A model with wetting on one tile, in double precision."""
    form = {"momentum": sw.MomentumConserving(), "communicator": "serial", "dtype": "float64"}
    return sw.ShallowWater(grid, depth, **{"wetting": sw.WettingDrying(1e-3), **form, **options})


@functools.partial(jit, static_argnums=(2, 3))
def _of_flow(dynamics, state, what, dt):
    equations, time = dynamics.prepare(), Time(0, dt=dt, exact_dt=dt)
    state = equations.renewed(state, time)
    return what(equations, equations.flow(state, time), time)


def of_flow(what, model, state, dt=DT):
    """`what` of (System, LayerFlow, Time) of a State at step 0, in one program for all models of one form."""
    return jax.tree.map(np.asarray, _of_flow(model.dynamics(sw.SSPRK3(dt)), state, what, dt))


def forces(equations, flow, time):
    """[(along x, along y) of each term]."""
    return [tuple(force.interior for force in term(flow, time)) for term in equations.terms]


class Rain(sw.Forcing):
    """Rain over all cells, or where the rate is negative, evaporation."""

    rate: Any = sw.parameter(None, "m s-1")

    def __call__(self, flow, time):
        return 0.0, 0.0

    def continuity(self, flow, time):
        return self.rate + 0.0 * flow.eta


def in_a_storm(depth, rate=0.0):
    """(the forces of wind along x and y, the thickness, the water that rain adds) over a bed, at rest."""
    grid = sw.CartesianGrid(8, 6, (0.0, 800.0), (0.0, 600.0), "xy")
    model = beach(grid, depth, forcing=(sw.WindStress(1.0, 2.0, density=1000.0), Rain(rate)))
    return of_flow(_storm, model, model.at_rest())


def _storm(equations, flow, time):
    fields = *equations.terms[0](flow, time), flow.h, flow.water_added
    return tuple(field.interior for field in fields)


def at_u(*numbers):
    return Field(jnp.asarray(numbers, float)[None], "u", (0, 0, 0, 0))


@pytest.mark.parametrize("across", (0.0, 0.3), ids=("along one axis", "oblique"))
def test_drag_has_the_speed_after_the_step(across):
    """u' (1 + dt (r + k |u'|)) = u* along one axis whatever the old speed was, and obliquely in steady flow."""
    new, k, r = np.array([1e-4, 0.1, 1.0, 10.0]), 2.0, 0.01
    speed = np.hypot(new, across)
    undamped = new * (1.0 + DT * (r + k * speed))
    damped = jit(lambda u, old: speed_after_drag(at_u(*u), at_u(*old), at_u(*(across + 0.0 * new)), r, k, DT).data[0])
    for old in (new, 0.0 * new, 20.0 * new)[: 3 if across == 0.0 else 1]:
        np.testing.assert_allclose(damped(undamped, old), speed, rtol=1e-4 if across == 0.0 else 1e-9)
    steep = jit(jax.grad(lambda u: jnp.sum(speed_after_drag(at_u(u), at_u(0.0), at_u(0.0), None, 1e6, DT).data)))
    assert np.isfinite([steep(0.0), steep(1e-12)]).all()


def test_the_wind_gives_a_film_its_steady_speed_from_the_first_step_on():
    """tau / rho = g n^2 u^2 / h^(1/3) in 5 mm of water; obliquely the first step is at most a fifth too fast."""
    grid = sw.CartesianGrid(6, 5, (0.0, 600.0), (0.0, 500.0), "xy")
    stress, h, n = np.array([3.0, 1.0]), 0.005, 0.025
    terms = {"dissipation": sw.ManningDrag(n), "forcing": sw.WindStress(*stress, density=1000.0)}
    model = beach(grid, h, wetting=sw.WettingDrying(1e-3, wind_depth=0.0), **terms)
    speed = np.sqrt(np.hypot(*stress) / 1000.0 * h ** (1 / 3) / (model.gravity * n**2))
    simulation = sw.Simulation(model, model.at_rest(), sw.ForwardBackwardHancock(DT))
    for steps in (1, 1, 18):
        simulation.run(steps=steps)
        u, v = (np.asarray(simulation.state[name]) for name in "uv")
        assert 0.8 * speed < np.hypot(u, v).min() <= np.hypot(u, v).max() < 1.2 * speed
    np.testing.assert_allclose([u.mean(), v.mean()], speed * stress / np.hypot(*stress), rtol=1e-5)


def test_shallow_water_feels_the_wind_in_proportion_to_its_depth():
    for h, expected in ((4.0, 1 / 4), (0.25, 4.0), (0.05, 4.0), (1e-4, 4.0)):
        along_x, along_y, *_ = in_a_storm(h)
        np.testing.assert_allclose(along_x, 1e-3 * expected, rtol=1e-12)
        np.testing.assert_allclose(along_y, 2e-3 * expected, rtol=1e-12)


def test_a_current_along_a_moving_shore_feels_no_viscosity():
    """A uniform current ends where the beach is dry: that is free slip, with no stress and no vorticity there."""
    grid = sw.CartesianGrid(16, 8, (0.0, 320.0), (0.0, 160.0), "y")
    terms = sw.Laplacian(5.0), sw.Biharmonic(1e3), sw.Smagorinsky(3.0), sw.Leith(2.0)
    model = beach(grid, lambda x, y: 4.13 - 0.02 * x + 0.0 * y, dissipation=terms, side=sw.NoSlip())
    state = model.state(v=lambda x, y: 0.5 * (x < 200.0) + 0.0 * y)
    what = lambda *all: (all[1].v.interior, all[1].vorticity.interior, forces(*all))  # noqa: E731
    v, vorticity, found = of_flow(what, model, state)
    assert v.max() == 0.5 and v.min() == 0.0
    assert not vorticity[:, 2:].any()  # the wall in the west is none that moves
    for term, both in zip(terms, found):
        assert not any(force[:, 4:].any() for force in both), type(term).__name__


@ONE_QUICKLY
def test_rounding_does_not_choose_between_forms_of_the_pressure_and_of_the_advection(stepper):
    """Water converges along x, flows along y up a slope, and there neither spreads nor contracts; or it is at rest."""
    grid = sw.CartesianGrid(12, 12, (0.0, 1200.0), (0.0, 1200.0))
    model = beach(grid, lambda x, y: 10.0 - 0.004 * y + 0.0 * x)
    still = {"u": lambda x, y: -1e-3 * (x - 600.0) + 0.0 * y, "eta": lambda x, y: 1e-4 * y + 0.0 * x}
    ends = []
    for speed in (0.0, 0.5):
        for growth in (-1e-17, 0.0, 1e-17):
            flow = {**still, "v": lambda x, y, v=speed, g=growth: v + g * (y - 600.0) + 0.0 * x}
            ends.append(np.asarray(_after(model, flow, stepper)))
    for each in (ends[:3], ends[3:]):
        np.testing.assert_allclose(each, each[1][None].repeat(3, 0), rtol=0, atol=1e-13)


@ONE_QUICKLY
def test_the_pressure_is_whole_where_the_flow_along_it_does_not_contract(stepper):
    """In the mean of a flow that spreads and one that contracts, all that is linear in the growth cancels."""
    grid = sw.CartesianGrid(12, 12, (0.0, 1200.0), (0.0, 1200.0))
    model = beach(grid, 10.0)
    still = {"u": lambda x, y: -1e-3 * (x - 600.0) + 0.0 * y, "eta": lambda x, y: 1e-4 * (y - 600.0) + 0.0 * x}
    contracting, neither, spreading = (
        np.asarray(_after(model, {**still, "v": lambda x, y, g=growth: g * (y - 600.0) + 0.0 * x}, stepper))[5, 5]
        for growth in (-4e-4, 0.0, 4e-4)
    )
    assert neither < 0.5 * (spreading + contracting) < 0.0


def _after(model, flow, stepper):
    """v after a step from a flow."""
    run = sw.Simulation(model, model.state(**flow), stepper(dt=2.0))
    run.run(steps=1)
    return run.state.v


def test_heights_of_land_are_no_depths_in_the_limits_of_diffusion_and_viscosity():
    """The waterline lies on the edge of a cell, so that the depth there is 0 to rounding; and land may be high."""
    grid, found = sw.CartesianGrid(40, 10, (0.0, 4000.0), (0.0, 1000.0)), []
    salt = sw.Tracer("salt", initial=35.0, diffusivity=1.0, scheme=sw.FluxLimited())
    for land in (1.0, 500.0):
        depth = lambda x, y, land=land: np.where(x < 2500.0, 10.0 - 0.004 * x, -land) + 0.0 * y  # noqa: E731
        model = beach(grid, depth, dissipation=sw.Laplacian(1.0), tracers=(salt,))
        limits = {limit.name: limit.dt for limit in sw.limits(model, sw.ForwardBackwardHancock(1.0))}
        assert limits["salt"] > 1000.0 and limits["Laplacian"] > 1000.0
        found.append(limits)
    assert found[0] == found[1]
    slope = beach(grid, lambda x, y: 10.0 - 0.004 * x + 0.0 * y, tracers=(salt,))
    assert {limit.name: limit.dt for limit in sw.limits(slope, sw.ForwardBackwardHancock(1.0))}["salt"] > 1000.0


@pytest.mark.verify
def test_self_attraction_is_that_of_water_and_not_of_land():
    """A sea at rest beside 500 m of land feels nothing; 2 m of water on that land attract as 2 m at sea do."""
    grid = sw.SphericalGrid(24, 10, (0.0, 360.0), (-60.0, 60.0))
    land = np.zeros(grid.shape, bool)
    land[3:7, 8:14] = True
    terms = sw.SelfAttractionLoading(8), sw.SelfAttraction(0.1)
    model = beach(grid, np.where(land, -500.0, 4000.0), forcing=terms, coriolis=sw.RotatingSphere())
    plain = sw.ShallowWater(grid, 4000.0, forcing=terms, communicator="serial", dtype="float64")
    of = lambda model, eta: sum(of_flow(forces, model, model.state(eta=eta), 900.0), ())  # noqa: E731
    assert not any(force.any() for force in of(model, 0.0))
    flooded = np.where(land, 2.0, 0.0)
    for wet, deep in zip(of(model, flooded + 500.0 * land), of(plain, flooded)):
        np.testing.assert_allclose(wet, deep, atol=1e-8 * np.abs(deep).max())


def test_small_elevations_keep_their_digits_over_deep_water_in_single_precision():
    """The load of 1.234 mm over 4000 m, and the velocity that a condition gives it, of one in double precision."""
    grid, level = sw.CartesianGrid(6, 6, (0.0, 6e3), (0.0, 6e3)), np.float32(1.234e-3)
    depth = np.full(grid.shape, 4000.0)
    depth[2, 2], depth[3, 3] = -500.0, -700.0
    eta = np.where(depth > 0, level, [[502.0]])
    model = beach(grid, depth, dtype="float32")
    loads = of_flow(lambda equations, flow, time: flow.load(flow.eta).interior, model, model.state(eta=eta))
    assert loads.dtype == np.float32
    np.testing.assert_array_equal(loads, np.where(depth > 0, level, np.where(depth == -500.0, 2.0, 0.0)))

    @functools.partial(jit, static_argnums=(2, 3))
    def outflow(condition, eta, bed=4000.0, dtype=np.float32):
        eta, bed, one = (Field(jnp.full((1, 1), x, dtype), "h", (0, 0, 0, 0)) for x in (eta, bed, 1.0))
        shore = Shore(bed, one, 1e-3)
        return condition.outflow(Inside(dtype(9.81), bed, eta, one, shore=shore), Time(0)).data[0, 0]

    c, c_in, c_out = (np.sqrt(9.81 * (4000.0 + x)) for x in (float(level), 7e-4, 5e-4))
    flather, maker = sw.Flather("west", 5e-4, incoming=2e-4), sw.WaveMaker("west", 7e-4)
    at_rest = np.sqrt(9.81 * 4000.0)
    for condition, expected in ((flather, 2 * c + 2 * c_out - 4 * c_in), (maker, 2 * c + 2 * at_rest - 4 * c_in)):
        assert float(outflow(condition, level)) == pytest.approx(expected, rel=1e-5)
    over_land = jit(jax.value_and_grad(lambda eta: outflow(flather, eta, -1.0, np.float64)))
    for eta in (1.0, 1.5, 0.5):  # over land 1 m above level 0, which is dry outside
        expected = 2 * np.sqrt(9.81 * max(eta - 1.0, 0.0))
        value, slope = over_land(eta)
        assert float(value) == pytest.approx(expected, abs=1e-5) and np.isfinite(slope)


def test_a_drag_derived_from_another_keeps_its_own_damping():
    class Sticky(sw.QuadraticDrag):
        def damping(self, flow, time):
            return 0.5, 0.25

    grid = sw.CartesianGrid(6, 6, (0.0, 6e3), (0.0, 6e3))
    model = beach(grid, 10.0, dissipation=Sticky(2.5e-3))
    split = of_flow(lambda equations, flow, time: flow.split_terms, model, model.state(u=1.0))
    assert split == ((0.0, 0.0), (0.5, 0.25), (None, None))


def test_rain_stays_on_dry_land_and_no_cell_is_drained_below_its_bed():
    for rate, gained in ((1e-3, 1e-3), (-1.0, None)):
        *_, h, added = in_a_storm(lambda x, y: 3.0 - 0.01 * x + 0.0 * y, rate)
        np.testing.assert_allclose(added, gained if gained else -np.minimum(1.0, h / DT), rtol=1e-12)
        assert (h == 0).any() and (h > 1.0).any()


def test_check_counts_land_below_level_0_that_no_water_joins_to_the_sea():
    """A polder of 2 x 3 cells starts flooded; a lagoon at the edge of the grid, and the sea itself, are none."""
    grid = sw.CartesianGrid(10, 8, (0.0, 1000.0), (0.0, 800.0))
    depth = np.full(grid.shape, -1.0)
    depth[:, :3], depth[3:5, 5:8], depth[0, 6] = 5.0, 0.5, 2.0
    model = beach(grid, depth)
    rest, formula = (types.SimpleNamespace(initial=types.SimpleNamespace(type=name)) for name in ("rest", "formula"))
    (said,) = flooded_land(rest, model)
    assert said.startswith("6 cells of land in 1 place lie below the level of the water at rest")
    assert flooded_land(formula, model) == [] == flooded_land(rest, beach(grid, 1.0))
    eta = np.where(depth == 0.5, -10.0, 0.0)
    assert np.asarray(model.state(eta=eta).eta)[3, 5] == -0.5  # dry: the level of its bed
