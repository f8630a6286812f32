"""The operators of tracers on arrays, with transports prescribed: what is conserved, what stays constant, and what
grows no extrema."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.dynamics.clock import as_time
from swmodel.dynamics.limiters import Koren, MinMod, MonotonizedCentral, Superbee, VanLeer
from swmodel.dynamics.site import Site
from swmodel.dynamics.stages import Exchange
from swmodel.dynamics.tracers import Centred, FluxLimited, Tracer
from swmodel.errors import ConfigError
from swmodel.fields.field import Field
from swmodel.parallel.halo import exchange
from swmodel.runtime.compilation import jit
from swmodel.stepping.stability import check_time_step

NX, NY, HALO = 12, 9, 2
LIMITERS = (MinMod(), VanLeer(), MonotonizedCentral(), Koren(), Superbee())
named = dict(ids=lambda x: x.describe() if hasattr(x, "describe") else type(x).__name__)


def plane(periodic=""):
    return sw.CartesianGrid(NX, NY, (0.0, NX * 1e3), (0.0, NY * 1.5e3), periodic)


def uniform(seed, low, high):
    return np.random.default_rng(seed).uniform(low, high, (NY, NX))


def depth(seed=0, islands=0.15):
    return np.where(uniform(seed + 1, 0, 1) < islands, 0.0, uniform(seed, 20.0, 200.0))


def model_of(grid, islands=0.15, **options):
    return sw.ShallowWater(grid, depth(islands=islands), communicator="serial", engine="arrays", **options)


@jit
def _rates(dynamics, tracer, state, c):
    equations = dynamics.prepare()
    flow, tracer = equations.flow(state, 0.0), tracer.prepare(Exchange(dynamics.tile, dynamics.communicator))
    content = tracer.stored(c, flow.column.interior)
    (content,) = exchange([content], HALO, dynamics.tile.sides, dynamics.communicator)
    rate = tracer.rate(flow, Field(content, "h", (HALO,) * 4), as_time(0.0))
    return rate.interior, equations.tendency(state, 0.0).eta


def rates(model, tracer, state, c):
    """(ds/dt, deta/dt) where the concentration is c, arrays (ny, nx)."""
    found = _rates(model.interval(HALO, 0, 1.0), tracer.on_tile(model.domain), state, jnp.asarray(c))
    return [np.asarray(x) for x in found]


# -- limiters ---------------------------------------------------------------------------------------------------------


@jit
def _limited(a, b):
    """[(slope, slope of equal differences, derivative in a constant field) of each limiter]."""
    flat = (jax.grad(lambda x, limiter=limiter: jnp.sum(limiter(x, 0.0 * x)))(jnp.zeros(3)) for limiter in LIMITERS)
    return [(limiter(a, b), limiter(a, a), x) for limiter, x in zip(LIMITERS, flat)]


def test_a_limiter_lies_in_the_region_without_new_extrema():
    a, b = np.random.default_rng(0).standard_normal((2, 1000))
    for limiter, (slope, same, flat) in zip(LIMITERS, _limited(a, b)):
        slope, most = np.asarray(slope), limiter.steepness * np.minimum(np.abs(a), np.abs(b))
        assert (slope[a * b < 0] == 0).all(), limiter
        assert (slope * b >= 0).all(), limiter
        assert (np.abs(slope) <= most * (1 + 1e-15)).all(), limiter
        np.testing.assert_allclose(same, a, rtol=1e-15)  # second order where the field is smooth
        assert np.isfinite(flat).all(), limiter


# -- conservation and constancy ---------------------------------------------------------------------------------------


def test_diffusion_never_adds_variance_and_damps_no_faster_than_it_says():
    """On a rough bottom; and over a flat one it damps nearly as fast."""
    for bottom, nearly in ((depth(), 0.5), (np.full((NY, NX), 50.0), 0.95)):
        model = sw.ShallowWater(plane("x"), bottom, communicator="serial", engine="arrays")
        tracer, wet = Tracer("dye", diffusivity=lambda x, y: 10.0 + 1e-4 * x), model.wet.ravel()
        columns = [rates(model, tracer, model.at_rest(), c.reshape(NY, NX))[0].ravel() for c in np.eye(NX * NY)]
        operator = np.stack(columns, axis=1)[np.ix_(wet, wet)]
        np.testing.assert_allclose(operator, operator.T, atol=1e-12 * np.abs(operator).max())
        decay = -np.linalg.eigvals(operator / model.depth.ravel()[wet][:, None]).real
        site = Site(model, 0, None, ())
        fastest = tracer.on_tile(model.domain).time_step_rate(site, carried=1.0, real=1.0).max()
        assert decay.min() > -1e-15
        assert nearly * fastest < decay.max() <= fastest


def test_sources_and_fluxes_add_what_they_say():
    model = model_of(plane())
    state = model.state(eta=uniform(3, -1, 1))
    column = np.where(model.wet, model.depth + np.asarray(state.eta), 0.0)
    rate, _ = rates(model, Tracer("dye", source=2e-3), state, np.zeros((NY, NX)))
    np.testing.assert_allclose(rate, 2e-3 * column, rtol=1e-14)
    rate, _ = rates(model, Tracer("dye", flux=lambda x, y: 1e-6 * x), state, np.zeros((NY, NX)))
    np.testing.assert_allclose(rate, 1e-6 * model.grid.coordinates("h")[0] * model.wet, rtol=1e-14)


# -- open sides and sponges -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("speed", [0.3, -0.3])
@pytest.mark.parametrize("scheme", [Centred(), FluxLimited()], **named)
def test_inflow_brings_the_concentration_outside_and_outflow_takes_that_inside(scheme, speed):
    """Through a channel from west to east, over a flat bottom."""
    flather = sw.Flather(("west", "east"), velocity=lambda x, y: np.where(x < 6e3, -speed, speed))
    model = sw.ShallowWater(plane(), 50.0, boundaries=(flather,), communicator="serial", engine="arrays")
    state, c = model.state(u=speed), uniform(4, 0, 1)
    for outside in (7.0, None):
        west, east = c[:, 0], c[:, -1]
        if outside is not None:
            west, east = (outside, east) if speed > 0 else (west, outside)
        rate, _ = rates(model, Tracer("dye", scheme=scheme, outside=outside), state, c)
        np.testing.assert_allclose((rate * 1e3).sum(1), speed * 50.0 * (west - east), rtol=1e-12)


def test_water_that_a_sponge_adds_has_the_concentration_outside():
    sponge = sw.Sponge("west", width=4e3, rate=1e-3)
    model = model_of(plane(), boundaries=(sponge,), islands=0.0)
    for eta, c in ((-1.0, 5.0), (1.0, 2.0)):
        state = model.state(eta=eta)
        rate, continuity = rates(model, Tracer("dye", outside=5.0), state, np.full((NY, NX), 2.0))
        np.testing.assert_allclose(rate, c * continuity, rtol=1e-13, atol=1e-18)
    rate, continuity = rates(model, Tracer("dye"), model.state(eta=1.0), np.full((NY, NX), 2.0))
    np.testing.assert_allclose(rate, 2.0 * continuity, rtol=1e-13, atol=1e-18)


# -- what precision keeps ---------------------------------------------------------------------------------------------

LAYERS = sw.Layers(thickness=(50.0,), densities=(1025.0, 1027.0))
HEAT = {"initial": 20.0, "flux": 2.4e-5}  # 100 W m-2
RECORDS = sw.Records([0.0, 1e5], np.stack([np.zeros((NY, NX)), np.full((NY, NX), 6e-9)]))


@pytest.mark.parametrize(
    "given, layers, share",
    [
        (HEAT, None, "100%"),
        ({"initial": 20.0, "source": RECORDS}, None, "100%"),
        (HEAT | {"flux": 2.4e-4}, LAYERS, "10%"),
        (HEAT | {"layer": -1}, LAYERS, "100%"),
        ({"initial": 20.0, "warm": sw.Rain(3e-6, concentrations={"heat": 20.0})}, None, "100%"),
        ({"initial": 20.0, "warm": sw.River(3.0, (6e3, 6e3), concentrations={"heat": 20.0})}, None, "100%"),
        ({"initial": 20.0, "warm": sw.River(3e4, (6e3, 6e3), concentrations={"heat": 20.0})}, None, None),
        (HEAT | {"initial": 0.0}, None, None),
        ({"source": 1.0}, LAYERS, None),
    ],
    ids=["flux", "records", "top layer", "lowest layer", "rain", "river", "larger river", "no content", "age"],
)
def test_a_source_that_single_precision_would_lose_is_refused(given, layers, share):
    rain = [given[name] for name in given if name == "warm"]
    tracer = sw.Tracer("heat", **{name: given[name] for name in given if name != "warm"})
    options = {"layers": layers, "forcing": rain, "communicator": "serial", "dtype": "float32"}
    model = sw.ShallowWater(plane(), 4000.0, tracers=tracer, **options)
    if share is None:
        check_time_step(model, sw.SSPRK3(2.4), model.at_rest())
        return
    with pytest.raises(ConfigError, match=f"Tracer heat: up to {share} of what comes or goes in a step of 2.4 s"):
        check_time_step(model, sw.SSPRK3(2.4), model.at_rest())


def test_land_has_no_part_in_what_single_precision_loses():
    depth = np.broadcast_to(4000.0 * (np.arange(NX) < NX // 3), (NY, NX))
    tracer = sw.Tracer("heat", initial=20.0, flux=0.13)
    model = sw.ShallowWater(plane(), depth, tracers=tracer, communicator="serial", dtype="float32")
    with pytest.raises(ConfigError, match="Tracer heat: up to 2% of what comes"):
        check_time_step(model, sw.SSPRK3(2.4), model.at_rest())
