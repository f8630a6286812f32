"""An implicit free surface and a rigid lid: waves as theory has them, water kept, slow flow, limits, bad input."""

import itertools
import re
import types

import jax
import jax.numpy as jnp
import netCDF4
import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel import adjoint, elliptic
from swmodel.cli.explain import Speed, speed_line
from swmodel.config import physics
from swmodel.config.assembly import time_step
from swmodel.dynamics.layer import divergence
from swmodel.errors import BlowUp, ConfigError, DataError, SwmodelError
from swmodel.fields.state import replace
from swmodel.postprocess import budgets
from swmodel.runtime.compilation import jit
from swmodel.stepping.loop import step_loop
from swmodel.stepping.stability import limits, semi_implicit_growth
from swmodel.stepping.steps import run_steps
from swmodel.stepping.surface import automatic
from tests.derivatives import linearised
from tests.selection import now

G = 9.81
CHEAP = elliptic.ConjugateGradients(elliptic.Diagonal(), 1e-13)


@jit
def _run(dynamics, stepper, state, history, steps):
    loop = step_loop(dynamics, stepper)
    end, _ = run_steps(loop, loop.pack_state(state, history), steps)
    return loop.unpack_state(end)


def take_steps(model, stepper, state, steps, history=None):
    """(state, history) after so many steps; one program for every number of them."""
    stepper = jax.tree.map(lambda x: jnp.asarray(x, model.dtype), stepper)
    dynamics = model.dynamics(stepper)
    return _run(dynamics, stepper, state, stepper.history(state) if history is None else history, jnp.int32(steps))


def uniform(seed, shape, low=-1.0, high=1.0):
    return np.random.default_rng(seed).uniform(low, high, shape)


def rough(grid, islands=0.15):
    """(ny, nx) depths of 500 to 2000 m, a share of them land."""
    return np.where(uniform(1, grid.shape, 0, 1) < islands, 0.0, uniform(2, grid.shape, 500.0, 2000.0))


def plane(nx=12, ny=10, periodic="", spacing=1e5):
    return sw.CartesianGrid(nx, ny, (0.0, nx * spacing), (0.0, ny * spacing), periodic)


def moving(model, size=0.1):
    return model.state(*(size * uniform(10 + k, model.grid.shape) for k in range(3)))


def relative(a, b, names=("u", "v")):
    """|a - b| / |b|, L2."""
    return np.sqrt(
        sum(np.sum((np.asarray(getattr(a, n)) - np.asarray(getattr(b, n))) ** 2) for n in names)
        / sum(np.sum(np.asarray(getattr(b, n)) ** 2) for n in names)
    )


# -- waves ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("theta, courant", ((0.5, 10.0), (0.6, 0.3), (1.0, 10.0)))
def test_a_wave_grows_and_turns_by_the_factor_of_the_theta_scheme(theta, courant):
    """(1 - (1 - theta) i w dt) / (1 + theta i w dt) a step, of the grid's own frequency: to rounding."""
    grid, depth, n = plane(16, 3, "x"), 4000.0, 7
    model = sw.ShallowWater(grid, depth, linear=True)
    k = 2 * np.pi / 16e5
    frequency = np.sqrt(G * depth) * 2 / 1e5 * np.sin(k * 1e5 / 2)
    dt = courant / frequency
    factor = (1 - (1 - theta) * 1j * courant) / (1 + theta * 1j * courant)
    start = model.state(eta=lambda x, y: np.cos(k * x) + 0 * y)
    end, _ = take_steps(model, sw.SemiImplicit(dt, theta), start, n)
    wanted = np.real(factor**n) * np.asarray(start.eta)
    np.testing.assert_allclose(np.asarray(end.eta), wanted, rtol=0, atol=1e-12)
    along = np.imag(factor**n) * np.sqrt(G / depth) * np.sin(k * grid.coordinates("u")[0])
    np.testing.assert_allclose(np.asarray(end.u), np.broadcast_to(-along, grid.shape), rtol=0, atol=1e-13)


SMOOTH = sw.ShallowWater(
    plane(8, 6, "xy", 1e4), lambda x, y: 100.0 + 20.0 * np.cos(2 * np.pi * x / 8e4) + 0 * y, coriolis=sw.FPlane(2e-4)
)


@pytest.mark.verify
def test_theta_of_a_half_is_of_second_order_and_one_of_first():
    """On a nonlinear flow over a bottom that is not flat, against RK4; the first step has a history."""
    start = SMOOTH.state(
        u=lambda x, y: np.sin(2 * np.pi * y / 6e4) + 0 * x,
        v=lambda x, y: 0.5 * np.cos(2 * np.pi * x / 8e4) + 0 * y,
        eta=lambda x, y: np.sin(2 * np.pi * x / 8e4) * np.cos(2 * np.pi * y / 6e4),
    )
    exact, _ = take_steps(SMOOTH, sw.RK4(10.0), start, 192)

    def error(theta, n):
        end, _ = take_steps(SMOOTH, sw.SemiImplicit(1920.0 / n, theta, 0.0, CHEAP), start, n)
        return relative(end, exact, ("u", "v", "eta"))

    # Euler's first step leaves an error of dt^2, once
    assert 1.8 < np.log2(error(0.5, 48) / error(0.5, 96)) < 2.4
    assert 0.9 < np.log2(error(1.0, 192) / error(1.0, 384)) < 1.1


def test_waves_over_a_raised_level_decay_at_any_step():
    """The level is at 0.3 of the depth, and waves of two cells have c k dt = 17; they grow over an explicit part."""
    noise = 1e-3 * uniform(4, SMOOTH.grid.shape)
    end, _ = take_steps(SMOOTH, sw.SemiImplicit(1600.0, 0.6, 0.0, CHEAP), SMOOTH.state(eta=30.0 + noise), 300)
    assert float(np.std(end.eta)) < 1e-5 and float(np.abs(end.u).max()) < 1e-5


def test_a_level_that_fell_fast_leaves_an_equation_with_one_solution():
    """It fell from 500 m to 100 m over the bed in a step, so that the extrapolated thickness is -140 m."""
    stepper, noise = sw.SemiImplicit(260.0, 0.6, 0.0, CHEAP), 1e-3 * uniform(4, SMOOTH.grid.shape)
    _, history = take_steps(SMOOTH, stepper, SMOOTH.state(eta=400.0), 1)
    end, history = take_steps(SMOOTH, stepper, SMOOTH.state(eta=noise), 1, history)
    assert float(history.residual) == 0.0 and float(np.abs(end.eta).max()) < 1e-3  # 18 times this with -140 m


def test_the_limit_above_rest_is_the_same_on_two_tiles():
    """The level is high near the equator, and cells are narrow on the other tile."""
    grid, found = sw.SphericalGrid(12, 6, (0.0, 360.0), (0.0, 75.0)), []
    for where in ({"communicator": "serial"}, {"communicator": "sharded", "layout": (2, 1)}):
        model = sw.ShallowWater(grid, 10.0, **where)
        state = model.state(eta=lambda x, y: np.where(y < 30.0, 5.0, 0.1) + 0.0 * x)
        found.append({limit.name: limit.dt for limit in limits(model, sw.SemiImplicit(1.0), state)})
    assert found[0] == pytest.approx(found[1], rel=1e-12) and "level above rest" in found[0]


def test_transforms_have_a_limit_where_the_level_is_above_rest():
    """Their depth is that at rest: a run grows above the limit and decays below it; other solvers have none."""
    model = sw.ShallowWater(plane(8, 6, "xy", 1e3), 10.0)
    state = model.state(eta=3.0 + 1e-3 * uniform(4, model.grid.shape))
    found = {limit.name: limit.dt for limit in limits(model, sw.SemiImplicit(1.0), state)}
    limit = found["level above rest"]
    assert 2.0 * np.sqrt(2.0 * G * 10.0) / 1e3 * limit == pytest.approx(3.7, abs=0.1)
    ends = [take_steps(model, sw.SemiImplicit(share * limit), state, 60)[0] for share in (0.9, 3.0)]
    noise = [float(np.std(end.eta)) for end in ends]
    assert noise[0] < 1e-3 and not noise[1] < 1.0
    for stepper, level in ((sw.SemiImplicit(1.0, solver=CHEAP), state), (sw.SemiImplicit(1.0), model.state(eta=-3.0))):
        assert "level above rest" not in {limit.name for limit in limits(model, stepper, level)}


# -- water, rest and slow flow ----------------------------------------------------------------------------------------


def assert_a_lake_stays_at_rest(model, stepper):
    """Over a rough bottom, round islands; its surface half a metre up."""
    end, _ = take_steps(model, stepper, model.state(eta=0.5), 20)
    assert max(float(np.abs(x).max()) for x in (end.u, end.v)) < 1e-15
    np.testing.assert_allclose(np.asarray(end.eta), 0.5 * model.wet, atol=1e-13)


def test_water_is_kept_to_rounding_whatever_the_solver_leaves_and_a_lake_at_rest_stays_so():
    model = sw.ShallowWater(plane(), rough(plane()), coriolis=sw.FPlane(1e-4))
    careless = elliptic.ConjugateGradients(elliptic.Diagonal(), tolerance=0.05)
    state = model.state(eta=uniform(3, model.grid.shape, 0.0, 1.0))
    stepper = sw.SemiImplicit(2000.0, solver=careless)
    end, history = take_steps(model, stepper, state, 50)
    volume, after = (float(np.sum(s.eta)) for s in (state, end))
    assert abs(after - volume) < 1e-13 * volume * 50
    assert history.residual == 0 and float(np.abs(end.eta - state.eta).max()) > 0.1
    assert_a_lake_stays_at_rest(model, stepper)


def gyre(n=20, **options):
    size = 2e6
    return sw.ShallowWater(
        sw.CartesianGrid(n, n, (0.0, size), (0.0, size)),
        options.pop("depth", 5000.0),
        coriolis=sw.BetaPlane(7e-5, 2e-11),
        dissipation=sw.Laplacian(2e4),
        side=sw.NoSlip(),
        forcing=sw.WindStress(x=lambda x, y: -0.1 * np.cos(2 * np.pi * y / size)),
        **options,
    )


@pytest.fixture(scope="module")
def spun_up():
    """The double gyre at day 10, from rest, by explicit steps; and the limit of these."""
    model = gyre()
    limit = limits(model, sw.AB2(1.0))[0].dt
    steps = int(np.ceil(864000.0 / (0.9 * limit)))
    return model, take_steps(model, sw.AB2(864000.0 / steps), model.at_rest(), steps)[0], limit


@pytest.mark.verify
def test_the_slow_flow_is_that_of_explicit_steps_at_ten_and_forty_times_their_limit(spun_up):
    model, explicit, limit = spun_up
    for dt in (864.0, 3456.0):
        end, _ = take_steps(model, sw.SemiImplicit(dt), model.at_rest(), round(864000.0 / dt))
        assert dt > 10 * limit * (1 if dt < 1000 else 4)
        assert relative(end, explicit) < 0.01


@pytest.mark.verify
def test_under_a_lid_the_gyre_is_that_of_a_free_surface(spun_up):
    """But for the surface's share in the vorticity, (L f / c)^2 / (2 pi)^2 of it: 2 % here."""
    model, explicit, _ = spun_up
    end, _ = take_steps(model, sw.RigidLid(3200.0), model.at_rest(), 270)
    assert 1e-4 < relative(end, explicit) < 0.1
    centred = np.asarray(explicit.eta) - np.mean(np.asarray(explicit.eta))
    assert np.linalg.norm(np.asarray(end.eta) - centred) < 0.1 * np.linalg.norm(centred)


# -- a rigid lid ------------------------------------------------------------------------------------------------------


@jit
def _divergence(dynamics, state):
    flow = dynamics.prepare().flow(state.replace(eta=0.0 * state.eta), 0.0)
    energy = jnp.sum((flow.h * flow.kinetic_energy * flow.geometry.wet_area).interior)
    return divergence(flow.U, flow.V, flow.geometry).interior, energy


def transport_divergence(model, state):
    """(the divergence of transports under a lid [m s-1], the kinetic energy)."""
    found, energy = _divergence(model.interval(1, 0, 1.0), state)
    return np.asarray(found), float(energy)


def test_under_a_lid_transports_have_no_divergence_and_a_lake_at_rest_stays_so():
    """Round islands and in lakes, over any depth, to the solver's tolerance."""
    (model, _), _ = on_both_engines("lid", plane())
    start = moving(model)
    before, _ = transport_divergence(model, start)
    for steps in (1, 30):
        end, history = take_steps(model, sw.RigidLid(2000.0), start, steps)
        after, _ = transport_divergence(model, end)
        assert history.residual == 0 and np.abs(after).max() < 1e-9 * np.abs(before).max()
    assert float(np.abs(end.u).max()) > 1e-3
    assert_a_lake_stays_at_rest(model, sw.RigidLid(2000.0))


@pytest.mark.verify
def test_a_lid_takes_no_energy_but_that_of_divergent_flow():
    """The projection is orthogonal in sum area H u^2, the vorticity flux only turns it: what is lost is time's error,
    which falls with its order."""
    grid = plane(periodic="x")
    model = sw.ShallowWater(grid, rough(grid, 0.1), coriolis=sw.FPlane(1e-4))

    energy = lambda state: transport_divergence(model, state)[1]  # noqa: E731
    start, _ = take_steps(model, sw.RigidLid(10.0, 0.0, CHEAP), moving(model, 1.0), 1)
    assert energy(start) < energy(moving(model, 1.0))
    lost = []
    for dt in (100.0, 50.0):
        first, history = take_steps(model, sw.RigidLid(dt, 0.0, CHEAP), start, 1)  # of Euler
        end, _ = take_steps(model, sw.RigidLid(dt, 0.0, CHEAP), first, round(2000.0 / dt), history)
        lost.append(abs(energy(end) / energy(first) - 1))
    assert lost[0] < 1e-4 and lost[0] / lost[1] > 4


def test_files_of_a_lid_hold_an_exact_streamfunction(tmp_path):
    """Zero along the walls, one number on the island; eta, the pressure, is no part of the thickness."""
    model = gyre(10, depth=lambda x, y: np.where(np.hypot(x - 1e6, y - 1e6) < 2.5e5, 0.0, 4000.0 + 1e-3 * x))
    simulation = sw.Simulation(model, model.at_rest(), sw.RigidLid(3000.0, solver=CHEAP))
    simulation.write(tmp_path / "lid.nc", ("eta", "u", "v", "depth", "thickness"), every=30000.0)
    simulation.gauges(tmp_path / "gauges.nc", {"here": (2e5, 2e5)}, variables=("eta", "thickness"))
    simulation.means(tmp_path / "means.nc", ("eta", "thickness", "thickness eta"), every=3000.0).run(steps=20)
    for monitor in (simulation.maxima, simulation.extremes):
        with pytest.raises(ConfigError, match="under a rigid lid the surface does not move"):
            monitor(tmp_path / "refused.nc")
    simulation = sw.Simulation(model, model.at_rest(), sw.AB2(30.0))
    simulation.step = 1000  # as if it were resumed
    simulation.resumed_at, simulation.resumed_step = simulation.time, simulation.step
    simulation.write(tmp_path / "lid.nc", ("eta", "u", "v", "depth", "thickness"), every=30000.0)
    with pytest.raises(DataError, match="its eta is the pressure on.*, and this run's is the sea surface"):
        simulation.run(steps=1)
    with xr.open_dataset(tmp_path / "gauges.nc") as data:
        assert data["eta"].attrs["long_name"] == "pressure on the rigid lid over density and gravity"
        assert float(np.abs(data["eta"]).max()) > 1e-4
        np.testing.assert_allclose(data["thickness"], 4200.0, rtol=0, atol=1e-9)
    with xr.open_dataset(tmp_path / "means.nc") as data:
        mean, depth = data["mean_thickness"].values, np.where(model.wet, model.depth, np.nan)
        np.testing.assert_allclose(mean, depth, rtol=1e-6)
        np.testing.assert_allclose(data["mean_eta_thickness"], data["mean_eta"] * depth, rtol=1e-5, atol=1e-9)
    with xr.open_dataset(tmp_path / "lid.nc") as data:
        assert data.attrs["comment"].startswith("the surface is a rigid lid: eta is the pressure on it")
        assert float(np.abs(data["eta"]).max()) > 1e-3 and np.array_equal(data["thickness"], data["depth"], True)
        assert data["eta"].attrs["long_name"] == "pressure on the rigid lid over density and gravity"
        assert "standard_name" not in data["eta"].attrs
        assert not {"mean_elevation", "potential_energy"} & set(budgets.budgets(data))
        found = budgets.streamfunction(data.drop_vars("thickness"), -1)
    psi = found.values
    edges = np.concatenate([psi[0], psi[-1], psi[:, 0], psi[:, -1]])
    assert np.abs(edges).max() < 1e-5 * np.abs(psi).max()  # files are in single precision
    assert np.ptp(psi[4:7, 4:7]) < 1e-5 * np.abs(psi).max()


@pytest.mark.verify
def test_a_rossby_wave_travels_at_its_speed():
    """- beta / (k^2 + l^2) in a channel under a rigid lid, to the grid's error: a quarter of a wavelength."""
    beta, nx, ny, spacing = 2e-11, 48, 24, 4e4
    model = sw.ShallowWater(plane(nx, ny, "x", spacing), 1000.0, coriolis=sw.BetaPlane(1e-4, beta), linear=True)
    k, m = 2 * np.pi / (nx * spacing), np.pi / (ny * spacing)
    speed = beta / (k**2 + m**2)
    start = model.state(
        u=lambda x, y: -m * np.cos(k * x) * np.cos(m * y), v=lambda x, y: -k * np.sin(k * x) * np.sin(m * y)
    )
    steps = round(0.25 * nx * spacing / speed / 2000.0)
    end, _ = take_steps(model, sw.RigidLid(2000.0), start, steps)
    phase = np.angle(np.fft.fft(np.asarray(end.v)[ny // 2])[1] / np.fft.fft(np.asarray(start.v)[ny // 2])[1])
    assert phase == pytest.approx(k * speed * steps * 2000.0, rel=0.015)


# -- sides, sea floor, drag -------------------------------------------------------------------------------------------


@pytest.mark.verify
def test_open_sides_let_waves_out_at_ten_times_the_explicit_limit():
    """A hump in the middle: of its energy 99 % leave within three crossings, and nothing grows afterwards."""
    model = sw.ShallowWater(plane(24, 20, "", 1e4), 4000.0, boundaries=sw.Flather())
    start = model.state(eta=lambda x, y: np.exp(-((x - 1.2e5) ** 2 + (y - 1e5) ** 2) / (3e4) ** 2))
    limit = limits(model, sw.AB2(1.0))[0].dt
    stepper = sw.SemiImplicit(10 * limit, 0.6, solver=CHEAP)
    sizes = [float(np.sum(take_steps(model, stepper, start, steps)[0].eta ** 2)) for steps in (0, 40, 160)]
    assert sizes[1] < 0.01 * sizes[0] and sizes[2] < 0.01 * sizes[1]


def test_a_sea_floor_that_rises_lifts_the_surface():
    uplift = 2.0 * uniform(5, (10, 12), 0.0, 1.0)
    model = sw.ShallowWater(plane(), 3000.0, source=sw.BottomMotion([0.0, 500.0], np.stack([0 * uplift, uplift])))
    end, _ = take_steps(model, sw.SemiImplicit(100.0), model.at_rest(), 5)
    assert float(np.sum(end.eta)) == pytest.approx(uplift.sum(), rel=1e-12)


def test_sponges_and_drag_are_part_of_the_explicit_step():
    """Their decay is AB2's: of flow without pressure, and of a level that relaxes."""
    layer = sw.Sponge(width=1e9, rate=1e-5)
    model = sw.ShallowWater(plane(), 1000.0, boundaries=(layer,), linear=True)
    rate = np.asarray(model.terms[0].rate)
    end, _ = take_steps(model, sw.SemiImplicit(1000.0), model.state(eta=1.0), 1)
    assert float(np.sum(end.eta)) == pytest.approx(np.sum(1.0 - 1000.0 * rate), rel=1e-12)


# -- the same on the sphere, in an ensemble --------------------------------------------------------------------------


@pytest.mark.parametrize("depth", (3000.0, pytest.param("rough", marks=pytest.mark.verify)), ids=("flat", "land"))
def test_a_globe_takes_steps_of_forty_times_the_limit_at_its_poles(depth):
    grid = sw.SphericalGrid(96, 24, (0.0, 360.0), (-90.0, 90.0))
    depth = rough(grid) if depth == "rough" else depth
    model = sw.ShallowWater(grid, depth, coriolis=sw.RotatingSphere())
    start = model.state(eta=uniform(6, grid.shape))
    explicit = limits(model, sw.AB2(1.0))[0].dt
    end, history = take_steps(model, sw.SemiImplicit(2000.0), start, 100)
    volume = lambda s: float(np.sum(grid.area_h * s.eta))  # noqa: E731
    assert 2000.0 > 40 * explicit and history.residual == 0
    assert abs(volume(end) - volume(start)) < 1e-12 * float(np.sum(grid.area_h * np.abs(np.asarray(start.eta))))
    assert float(np.abs(end.eta).max()) < 1.0 and float(np.abs(end.u).max()) < 1.0


@pytest.mark.verify
def test_an_ensemble_is_its_members():
    """Which differ in depth: one equation each, in one program."""
    models = [sw.ShallowWater(plane(), depth, coriolis=sw.FPlane(1e-4)) for depth in (3000.0, 4500.0)]
    stepper = sw.SemiImplicit(1500.0)
    ensemble = sw.Ensemble(models, [moving(m) for m in models])
    together = sw.Simulation(ensemble, ensemble.initial, stepper).run(steps=4)
    for k, model in enumerate(models):
        alone, _ = take_steps(model, stepper, moving(model), 4)
        for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(alone)):
            np.testing.assert_allclose(np.asarray(a)[k], np.asarray(b), rtol=0, atol=1e-11)


# -- derivatives ------------------------------------------------------------------------------------------------------


CASES = {
    "free surface, open side": (sw.SemiImplicit(2000.0, solver=CHEAP), {"boundaries": sw.Flather("east")}),
    "free surface, flat": (sw.SemiImplicit(2000.0), {"depth": 2000.0}),
    "lid": (sw.RigidLid(2000.0, solver=CHEAP), {}),
}


def cost_of(model, stepper):
    """(J of (State, depth, gravity, dt), where it is taken): weighted fields after five steps, land's cells too."""
    grid = plane()
    weights = uniform(20, grid.shape)
    dynamics = model.dynamics(stepper)

    def cost(state, depth, gravity, dt):
        changed = replace(dynamics, depth=depth, gravity=gravity)
        end, _ = sw.integrate(changed, replace(stepper, dt=dt), state, 5)
        return jnp.sum(weights * (end.eta + end.u * end.v))

    return cost, (moving(model), dynamics.depth, jnp.asarray(G), jnp.asarray(float(stepper.dt)))


@pytest.mark.parametrize("case", [pytest.param(c, marks=() if "open" in c else pytest.mark.verify) for c in CASES])
def test_tangent_gradient_and_differences_of_runs_agree(case):
    """Dot-product test to rounding, Taylor test at second order, in the state, depth, gravity and dt."""
    stepper, options = CASES[case]
    grid = plane()
    options = {"depth": rough(grid), "coriolis": sw.FPlane(1e-4), "engine": "arrays", **options}
    model = sw.ShallowWater(grid, **options)
    cost, at = cost_of(model, stepper)
    wet = jnp.asarray(model.wet, float)
    along = moving(model, 0.3), 10.0 * wet * uniform(21, grid.shape), jnp.asarray(0.1), jnp.asarray(10.0)

    @jit
    def everything(at, along):
        return linearised(lambda x: cost(*x), at, along)

    value, gradient, slope = everything(at, along)
    product = sum(jnp.sum(a * b) for a, b in zip(jax.tree.leaves(gradient), jax.tree.leaves(along)))
    assert abs(product - slope) < 1e-10 * abs(slope)
    for k in range(4):
        only = tuple(x if n == k else jax.tree.map(jnp.zeros_like, x) for n, x in enumerate(along))
        slope = sum(jnp.sum(a * b) for a, b in zip(jax.tree.leaves(gradient[k]), jax.tree.leaves(along[k])))
        left = []
        for size in (0.2, 0.1):
            moved = jax.tree.map(lambda x, d: x + size * d, at, only)  # noqa: B023
            left.append(abs(float(everything(moved, along)[0] - value - size * slope)))
        assert left[0] > 0 and 1.9 < np.log2(left[0] / left[1]) < 2.1


# -- limits and bad input ---------------------------------------------------------------------------------------------


def test_gravity_waves_set_no_limit_and_the_others_remain():
    model = sw.ShallowWater(
        plane(),
        4000.0,
        coriolis=sw.FPlane(1e-4),
        dissipation=(sw.Laplacian(1e3), sw.LinearDrag(1e-6)),
        boundaries=(sw.Flather("east"), sw.Sponge("east", 3e5, 1e-5)),
    )
    found = {limit.name: limit.dt for limit in limits(model, sw.SemiImplicit(1.0), model.state(u=1.0))}
    assert set(found) == {"Coriolis force", "advection", "Laplacian", "LinearDrag", "Sponge", "open sides"}
    assert found["Coriolis force"] == pytest.approx(sw.SemiImplicit(1.0, 0.6, 0.1).stable_interval("imaginary") / 1e-4)
    assert min(found.values()) > 1000.0
    lid = {limit.name: limit.dt for limit in limits(gyre(8), sw.RigidLid(1.0))}
    ab2 = {limit.name: limit.dt for limit in limits(gyre(8), sw.AB2(1.0))}
    assert lid["Coriolis force"] == ab2["Coriolis force"] and "gravity waves" not in lid


@pytest.mark.parametrize("axis, what", [("imaginary", "rotation"), ("carried", "carried")])
def test_the_limits_of_the_explicit_part_are_where_growth_begins(axis, what):
    """Beside waves of any speed; those that are carried, five times as fast as the flow."""
    limit = sw.SemiImplicit(1.0, 0.6, 0.1).stable_interval(axis)
    waves = np.logspace(-2, 3, 400) if what == "rotation" else 5 * limit * np.logspace(0, 4, 400)
    assert 0.2 < limit < 0.6
    assert semi_implicit_growth(0.6, 0.1, waves, **{what: limit}).max() < 1 + 1e-7
    assert semi_implicit_growth(0.6, 0.1, waves, **{what: 1.05 * limit}).max() > 1 + 1e-4


def test_the_limit_beside_waves_is_that_of_a_run():
    """Inertia-gravity waves of a linear flow on the f-plane: bounded below the limit, growing above."""
    model = sw.ShallowWater(plane(8, 6, "xy"), 4000.0, coriolis=sw.FPlane(1e-4), linear=True)
    limit = limits(model, sw.SemiImplicit(1.0))[0].dt
    size = lambda dt: float(np.abs(take_steps(model, sw.SemiImplicit(dt), moving(model), 400)[0].u).max())  # noqa: E731
    assert size(0.98 * limit) < 0.2 < 100 < size(1.2 * limit)


def test_constant_depth_goes_to_transforms_and_land_to_iterations():
    for grid, wet, kind in (
        (plane(), None, elliptic.Spectral),
        (sw.SphericalGrid(6, 5, (0.0, 50.0), (0.0, 40.0)), None, elliptic.FourierTridiagonal),
    ):
        domain = elliptic.Domain.of(grid, sw.ShallowWater(grid, 1.0).communicator, wet)
        assert isinstance(automatic(domain, True, np.float64), kind)
        assert isinstance(automatic(domain, False, np.float64).preconditioner, elliptic.Multigrid)


def test_the_mean_of_both_times_is_refused_where_water_turns():
    model = sw.ShallowWater(plane(), 1000.0, coriolis=sw.BetaPlane(1e-4, 2e-11))
    with pytest.raises(ConfigError, match="are stable at no time step with the Coriolis force; use theta = 0.6"):
        limits(model, sw.SemiImplicit(100.0, 0.5))


def test_a_stepper_takes_solvers_alone():
    for stepper in (sw.SemiImplicit(100.0, solver="spectral"), sw.RigidLid(100.0, solver=elliptic.Spectral)):
        with pytest.raises(SwmodelError, match="is no solver; give an object, as elliptic.Spectral()"):
            sw.Simulation(gyre(8), gyre(8).at_rest(), stepper)


@pytest.mark.parametrize(
    "what, options",
    [
        ("Flather", {"boundaries": sw.Flather("east")}),
        ("Sponge", {"boundaries": sw.Sponge("east", 1e5, 1e-5)}),
        ("a moving sea floor", {"source": sw.BottomMotion([0.0, 1.0], np.zeros((2, 10, 12)))}),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_a_lid_refuses_what_moves_the_surface(what, options):
    model = sw.ShallowWater(plane(), 1000.0, **options)
    with pytest.raises(ConfigError, match=f"RigidLid: {what} needs a surface that moves.*use SemiImplicit"):
        model.halo(sw.RigidLid(100.0))


def test_dynamics_made_for_another_stepper_are_refused():
    model = sw.ShallowWater(plane(), 1000.0)
    with pytest.raises(ConfigError, match=r"was made for another stepper.*model.dynamics\(stepper\)"):
        sw.integrate(model.dynamics(sw.AB2(100.0)), sw.SemiImplicit(100.0), model.at_rest(), 1)


def test_transforms_are_refused_where_depth_varies():
    with pytest.raises(elliptic.EllipticError, match="c varies from cell to cell"):
        SMOOTH.halo(sw.SemiImplicit(100.0, solver=elliptic.Spectral()))


HASTY = elliptic.ConjugateGradients(elliptic.Diagonal(), 1e-6, iterations=3)


def test_a_run_stops_where_its_equation_was_not_solved_and_keeps_the_samples_before(tmp_path):
    """They were lost with the chunk of steps, in which an uplift after 20 steps makes the equation hard."""
    uplift = sw.BottomMotion([38e3, 40e3], np.stack([np.zeros((10, 12)), uniform(3, (10, 12))]))
    still = sw.ShallowWater(plane(), rough(plane()), source=uplift)

    def run(solver, steps):
        simulation = sw.Simulation(still, still.at_rest(), sw.SemiImplicit(2000.0, solver=solver), overwrite=True)
        simulation.pace.steps = 50
        simulation.gauges(tmp_path / "gauges.nc", {"A": (5e5, 5e5)})
        simulation.write(tmp_path / "fields.nc", ("eta",), every=4000.0)
        simulation.run(steps=steps)

    message = r"stopped at step (\d+) .* the equation of the surface was not solved, .* of its right-hand side"
    with pytest.raises(BlowUp, match=message) as stop:
        run(HASTY, 50)
    step = int(re.search(message, str(stop.value))[1])
    with netCDF4.Dataset(tmp_path / "gauges.nc") as gauges, netCDF4.Dataset(tmp_path / "fields.nc") as fields:
        np.testing.assert_allclose(gauges["time"][:], 2000.0 * np.arange(step))
        np.testing.assert_allclose(fields["time"][:], 4000.0 * np.arange((step + 1) // 2))
        level = np.asarray(gauges["eta"][0])
    assert step == 21 and not level[:20].any() and level[20] != 0
    run(HASTY, step - 1)
    with pytest.raises(BlowUp, match=f"stopped at step {step} "):
        run(HASTY, step)


@pytest.mark.verify
def test_a_cost_has_neither_value_nor_gradient_where_its_equation_was_not_solved():
    model = sw.ShallowWater(plane(), rough(plane()))
    hasty = elliptic.ConjugateGradients(elliptic.Diagonal(), 1e-13, iterations=3)
    cost = adjoint.GaugeElevation({"A": (5e5, 5e5)})
    problem = adjoint.Problem(model, sw.SemiImplicit(2000.0, solver=hasty), moving(model), 3, cost, ["initial.eta"])
    for question in (problem.value, problem.value_and_gradient, lambda: problem.tangent(None, problem.values)):
        with pytest.raises(SwmodelError, match="in the run to step 3 the equation of the surface was not solved"):
            question()


ON_BOTH = {
    "rough bottom": ({"depth": "rough"}, sw.SemiImplicit(2000.0)),
    "flat bottom": ({"depth": 3000.0, "side": sw.NoSlip()}, sw.SemiImplicit(2000.0)),
    "everything explicit": (
        {
            "depth": "rough",
            "forcing": (sw.WindStress(x=0.1),),
            "dissipation": (sw.Laplacian(1e3), sw.QuadraticDrag(2.5e-3)),
        },
        sw.SemiImplicit(1500.0, theta=0.7),
    ),
    "lid": ({"depth": "rough", "dissipation": (sw.Laplacian(1e3),)}, sw.RigidLid(2000.0)),
    "flat lid": ({"depth": 3000.0}, sw.RigidLid(2000.0)),
}


def on_both_engines(name, grid):
    """[the ShallowWater of a case in fused loops, and on arrays], its stepper."""
    options, stepper = ON_BOTH[name]
    depth = rough(grid) if options["depth"] == "rough" else options["depth"]
    options = {"coriolis": sw.FPlane(1e-4), **options, "depth": depth}
    return [sw.ShallowWater(grid, **options, engine=engine) for engine in ("auto", "arrays")], stepper


@pytest.mark.parametrize("name, periodic", now(list(itertools.product(ON_BOTH, ("", "x"))), ("lid", "")))
def test_fused_loops_take_the_steps_of_arrays(name, periodic):
    """To rounding, which a solver's tolerance limits."""
    models, stepper = on_both_engines(name, plane(periodic=periodic))
    ends = []
    for model, engine in zip(models, ("fused", "arrays")):
        assert sw.Simulation(model, moving(model), stepper).engine[0] == engine
        ends.append(take_steps(model, stepper, moving(model), 4))
    (fused, its_history), (arrays, history) = ends
    assert relative(fused, arrays, ("u", "v", "eta")) < 1e-9
    for ours, theirs in zip(jax.tree.leaves(its_history), jax.tree.leaves(history)):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9 * np.abs(theirs).max() + 1e-30)


def test_steps_that_have_no_loops_say_why():
    model = sw.ShallowWater(plane(), 3000.0, boundaries=sw.Flather())
    why = "SemiImplicit has no loops for the outflow through open sides"
    assert sw.Simulation(model, model.at_rest(), sw.SemiImplicit(1000.0)).engine == ("arrays", why)


def section(kind, **options):
    return physics.STEPPERS[kind].read({"type": kind, **options})


def test_a_file_names_schemes_and_solvers():
    iterations = {"preconditioner": "fast_poisson", "tolerance": 1e-6, "iterations": 50}
    solver = elliptic.ConjugateGradients(elliptic.FastPoisson(), 1e-6, 50)
    for made, wanted in (
        (section("semi_implicit"), sw.SemiImplicit(60.0)),
        (
            section("semi_implicit", theta=0.55, epsilon=0.05, solver="spectral"),
            sw.SemiImplicit(60.0, 0.55, 0.05, elliptic.Spectral()),
        ),
        (section("rigid_lid", solver="conjugate_gradients", **iterations), sw.RigidLid(60.0, 0.1, solver)),
    ):
        assert made.stepper(60.0) == wanted


@pytest.mark.parametrize(
    "options, printed",
    [
        ({"solver": "magic"}, "solver: 'magic' is unknown; known are auto, conjugate_gradients, "),
        ({"tolerance": 1e-3}, "tolerance belongs to solver = \"conjugate_gradients\", not to 'auto'"),
        ({"theta": 0.4}, "theta: 0.4 is less than 0.5; give a number, 0.5 or more"),
    ],
    ids=lambda x: next(iter(x)) if isinstance(x, dict) else "",
)
def test_a_file_is_told_what_is_wrong_with_a_scheme(options, printed):
    with pytest.raises(ValueError, match=printed):
        section("semi_implicit", **options)


def test_an_automatic_step_that_nothing_limits_is_refused():
    free = types.SimpleNamespace(stepper=section("semi_implicit"))
    with pytest.raises(ConfigError, match="nothing limits the time step of semi_implicit here; give dt in seconds"):
        time_step(free, [])


def test_the_time_of_an_implicit_step_is_not_predicted():
    """Nor is one tried on ranks that are not there."""
    experiment = types.SimpleNamespace(stepper=section("semi_implicit"))
    made = types.SimpleNamespace(draft=types.SimpleNamespace(file="case.toml"))
    printed = speed_line(Speed(), made, experiment, 4, 100.0, None)
    assert printed.startswith("not predicted") and printed.endswith("time it, mpirun -n 4 swmodel bench case.toml")
