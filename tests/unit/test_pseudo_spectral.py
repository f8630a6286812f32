"""The pseudo-spectral core in the model: what it takes, what it refuses, and what works with it as with the other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel import adjoint
from swmodel.adjoint.verification import verify
from swmodel.config import load, read
from swmodel.config.assembly import assemble, model_of
from swmodel.errors import ConfigError
from swmodel.fields.state import replace
from swmodel.parallel import SerialCommunicator
from swmodel.runtime.compilation import jit

L, NX, NY = 1.0e6, 12, 10
F = 1.0e-4
TURNING, ALONE = sw.FPlane(F), SerialCommunicator()
run = jit(sw.integrate, static_argnums=3)


def random(seed):
    return np.random.default_rng(seed).standard_normal((NY, NX))


def model(periodic="xy", core=None, depth=1000.0, coriolis=TURNING, **options):
    grid = sw.CartesianGrid(NX, NY, (0.0, L), (0.0, L), periodic)
    core = sw.PseudoSpectral() if core is None else core
    return sw.ShallowWater(grid, depth, coriolis=coriolis, core=core, communicator=ALONE, **options)


def moving(model):
    return model.state(u=0.1 * random(1), v=0.1 * random(2), eta=random(3))


def steps(model, stepper, state, count):
    return run(model.dynamics(stepper, steps=count), stepper, state, count)[0]


def largest(state):
    return max(float(np.abs(x).max()) for x in jax.tree.leaves(state))


# -- what it refuses --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, says",
    [
        (dict(depth=np.where(random(4) > 1.5, 0.0, 9.0)), "has no coasts, and [0-9]+ cells are land"),
        (dict(periodic="x", side=sw.NoSlip()), "free-slip walls only, and this model has NoSlip"),
        (dict(periodic="x", boundaries=(sw.Flather("north"),)), "no open sides, and Flather opens north"),
        (dict(momentum=sw.ArakawaLamb()), "its own form of the vorticity flux, and ArakawaLamb"),
        (dict(engine="fused"), "makes loops of differences, and PseudoSpectral has none"),
        (
            lambda: sw.HyperViscosity(-1e-5),
            "HyperViscosity: rate = -1e-05 is negative; give a number in s-1, 0 or more",
        ),
        (lambda: sw.ExponentialFilter(order=3), "order = 3 is not an even number"),
        (lambda: sw.ExponentialFilter(-1.0), "strength = -1.0 is negative; give a number, 0 or more"),
        (lambda: sw.PseudoSpectral(1e-4), "hyperviscosity = 0.0001 is a number; give an object, as HyperViscosity"),
        (dict(core="pseudo_spectral"), "core = 'pseudo_spectral' is a name, as experiment files have it; give"),
        (dict(core=sw.PseudoSpectral), "core = PseudoSpectral is a class; give an object of it"),
    ],
    ids=lambda x: x.split(" ")[0] if isinstance(x, str) else "",
)
def test_what_does_not_fit_is_refused_in_a_sentence(options, says):
    with pytest.raises(ValueError, match=says) as found:
        options() if callable(options) else model(**options)
    assert str(found.value).count("\n") == 0 and str(found.value).rstrip().endswith(".")


def test_a_sphere_and_thin_channels_are_refused():
    sphere = sw.SphericalGrid(8, 6, (0.0, 40.0), (10.0, 40.0))
    with pytest.raises(ConfigError, match="needs a plane, and the grid is a SphericalGrid"):
        sw.ShallowWater(sphere, 10.0, core=sw.PseudoSpectral(), communicator="serial")
    thin = sw.CartesianGrid(8, 3, (0.0, 1.0), (0.0, 1.0), "x")
    with pytest.raises(ConfigError, match="3 cells between walls along y hold no series; give 4 or more"):
        sw.ShallowWater(thin, 10.0, core=sw.PseudoSpectral(), communicator="serial")


@pytest.mark.parametrize("stepper", [sw.ForwardBackward(10.0), sw.SemiImplicit(10.0)], ids=lambda s: type(s).__name__)
def test_steppers_that_ask_for_parts_of_a_tendency_are_refused(stepper):
    with pytest.raises(ConfigError, match="gives tendencies as a whole, and this run needs their parts"):
        model().halo(stepper)


def test_exact_waves_need_modes():
    with pytest.raises(ConfigError, match="carries waves mode by mode, and the finite-difference core has no modes"):
        model(core=sw.FiniteDifferences()).halo(sw.IntegratingFactorRK4(10.0))


# -- hyperviscosity and filter ----------------------------------------------------------------------------------------


def one_mode(model, i, j):
    """A steady mode in balance: waves are not moved, and only damping acts."""
    kx, ky, g = 2 * np.pi * i / L, 2 * np.pi * j / L, model.gravity
    slope = lambda x, y: np.cos(kx * x + ky * y)  # noqa: E731
    psi = lambda x, y: np.sin(kx * x + ky * y)  # noqa: E731
    fields = {"u": (-ky, slope), "v": (kx, slope), "eta": (F / g, psi)}
    return model.state(**{name: lambda x, y, a=a, of=of: a * of(x, y) for name, (a, of) in fields.items()})


def test_hyperviscosity_damps_a_balanced_mode_exactly():
    rate, order, count, dt = 1e-5, 2, 5, 2e4
    own = model(core=sw.PseudoSpectral(sw.HyperViscosity(rate, order)), linear=True)
    state = one_mode(own, 2, 1)
    spacing = L / NY  # of the coarser direction
    relative = (2 * np.pi / L) ** 2 * 5 / (2 / 3 * np.pi / spacing) ** 2
    wanted = np.exp(-rate * relative**order * count * dt)
    final = steps(own, sw.IntegratingFactorRK4(dt), state, count)
    for name in ("u", "v", "eta"):
        np.testing.assert_allclose(getattr(final, name), wanted * getattr(state, name), rtol=1e-10, atol=1e-16)
    explicit = steps(own, sw.RK4(100.0), state, 50)
    np.testing.assert_allclose(explicit.eta, state.eta * np.exp(-rate * relative**order * 5000), rtol=1e-8, atol=1e-16)


def test_the_filter_takes_its_share_of_each_mode_once_a_step():
    strength, order = 3.0, 4
    own = model(core=sw.PseudoSpectral(filter=sw.ExponentialFilter(strength, order)), linear=True)
    plain = model(linear=True)
    for i, j in ((1, 0), (3, 2)):
        along = (i / (NX / 3)) ** order + (j / (NY / 3)) ** order  # of the largest wavenumbers, n / 3
        final, without = (steps(m, sw.RK4(100.0), one_mode(m, i, j), 7) for m in (own, plain))
        np.testing.assert_allclose(final.v, without.v * np.exp(-7 * strength * along), rtol=1e-11, atol=1e-20)


def test_the_strength_of_the_filter_has_a_derivative():
    own = model(core=sw.PseudoSpectral(filter=sw.ExponentialFilter(3.0, 4)))
    state, stepper = moving(own), sw.AB3(50.0)
    dynamics = own.dynamics(stepper)

    @jit
    def left(strength):
        core = replace(dynamics.core, filter=replace(dynamics.core.filter, strength=strength))
        final, _ = sw.integrate(replace(dynamics, core=core), stepper, state, 3)
        return jnp.sum(final.eta**2)

    slope = jit(jax.grad(left))(jnp.asarray(3.0))
    along = [float(left(jnp.asarray(3.0 + step))) for step in (1e-4, -1e-4)]
    assert slope < 0 and abs(slope / ((along[0] - along[1]) / 2e-4) - 1) < 1e-6


# -- time steps -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stepper, dealias", [(sw.RK4, True), (sw.AB3, False)], ids=["RK4", "AB3, aliased"])
def test_waves_grow_beyond_the_limit_that_is_named_and_not_below(stepper, dealias):
    own = model(core=sw.PseudoSpectral(dealias=dealias), linear=True, coriolis=None)
    limit = sw.limits(own, stepper(1.0))[0]
    assert limit.name == "gravity waves"
    state = moving(own)
    below, beyond = (largest(steps(own, stepper(share * limit.dt), state, 300)) for share in (0.99, 1.3))
    assert below < 10 * largest(state) and beyond > 1e3 * largest(state)


def test_exact_waves_leave_advection_as_the_limit():
    own = model()
    assert not sw.limits(own, sw.IntegratingFactorRK4(1.0))
    found = sw.limits(own, sw.IntegratingFactorRK4(1.0), own.state(u=10.0))
    assert [limit.name for limit in found] == ["advection"]
    fastest = 10.0 * np.pi * 2 / 3 * NX / L
    assert found[0].dt == pytest.approx(2.828 / fastest, rel=1e-3)
    damped = model(core=sw.PseudoSpectral(sw.HyperViscosity(1e-2)))
    assert "hyperviscosity" in [limit.name for limit in sw.limits(damped, sw.RK4(1.0))]
    assert not sw.limits(damped, sw.IntegratingFactorRK4(1.0))


# -- terms, and all that runs a model ---------------------------------------------------------------------------------


def test_forcing_and_drag_are_those_of_the_other_core():
    """Of a flow and a wind so smooth that means and differences are exact."""
    terms = dict(forcing=(sw.WindStress(x=0.1, y=-0.2),), dissipation=(sw.LinearDrag(1e-5), sw.QuadraticDrag(2.5e-3)))
    finals = [
        steps(m, sw.RK4(600.0), m.state(u=0.3, v=0.1), 20)
        for m in (model(core=core, **terms) for core in (sw.PseudoSpectral(), sw.FiniteDifferences()))
    ]
    for ours, other in zip(*map(jax.tree.leaves, finals)):
        np.testing.assert_allclose(ours, other, rtol=1e-12, atol=1e-14)


@pytest.mark.verify
def test_a_sponge_and_an_uplift_act_on_the_elevation():
    lift = sw.BottomMotion([0.0, 100.0], np.stack([0.0 * random(1), 1.0 + 0.0 * random(1)]))
    own = model("x", coriolis=None, boundaries=(sw.Sponge("north", width=L / 4, rate=1e-3),), source=lift)
    final = np.asarray(steps(own, sw.RK4(50.0), own.at_rest(), 4).eta)
    assert abs(final[0] - 1.0).max() < 0.02 and final[-1].max() < 0.95


def test_members_of_another_core_are_refused():
    own, other = model(), model(core=sw.FiniteDifferences())
    with pytest.raises(ConfigError, match="another core"):
        sw.Ensemble([own, other], [own.at_rest(), other.at_rest()])


def problem(periodic, stepper, controls):
    own = model(periodic, depth=1000.0 + 50.0 * random(5))
    return adjoint.Problem(own, stepper, moving(own), 3, adjoint.GaugeElevation({"a": (L / 2, L / 3)}), controls)


ALONG = {"initial.eta": random(8), "depth": 20.0 * random(9)}


def around(made):
    """(J, gradient) at `values` + 1, -1, 1/2 and -1/2 of ALONG."""
    moved = [{k: made.values[k] + h * ALONG[k] for k in ALONG} for h in (1.0, -1.0, 0.5, -0.5)]
    return [made.value_and_gradient(at) for at in moved]


def assert_second_order(slope, values):
    central = [(values[k] - values[k + 1]) / width for k, width in ((0, 2.0), (2, 1.0))]
    assert 3.9 < (central[0] - slope) / (central[1] - slope) < 4.1 and central[1] == pytest.approx(slope, rel=1e-2)


def test_the_adjoint_has_its_gradient_and_tangent():
    made = problem("xy", sw.IntegratingFactorRK4(400.0), list(ALONG))
    slope = adjoint.dot(made.value_and_gradient()[1], ALONG, ALONE)
    assert float(made.tangent(made.values, ALONG)[1]) == pytest.approx(slope, rel=1e-12)
    assert_second_order(slope, [J for J, _ in around(made)])


@pytest.mark.verify
def test_the_adjoint_has_its_hessian_product():
    made = problem("xy", sw.IntegratingFactorRK4(400.0), list(ALONG))
    bent = adjoint.dot(made.hessian_product(made.values, ALONG), ALONG, ALONE)
    assert_second_order(bent, [adjoint.dot(gradient, ALONG, ALONE) for _, gradient in around(made)])


@pytest.mark.verify
@pytest.mark.parametrize("periodic", ["xy", "x", ""])
@pytest.mark.parametrize("stepper", [sw.IntegratingFactorRK4(200.0), sw.RK4(100.0)], ids=lambda s: type(s).__name__)
def test_dot_products_and_taylor_series_of_every_control(periodic, stepper):
    for verdict in verify(problem(periodic, stepper, ["initial.u", "initial.v", "initial.eta", "depth", "gravity"])):
        assert verdict.passed, verdict


# -- random vortices --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("periodic", ["xy", ""])
def test_random_vortices_have_the_speed_asked_for_and_no_divergence(periodic):
    own = model(periodic, core=sw.FiniteDifferences())
    state = sw.random_vortices(own, speed=0.5, length=L / 3, seed=4)
    assert float(jnp.mean(state.u**2 + state.v**2)) == pytest.approx(0.25, rel=1e-12)
    spectral = model(periodic, linear=True)
    rates = jit(lambda d, s: d.prepare().tendency(s, 0.0))(spectral.interval(1, 0, 1.0), state)
    assert float(np.abs(rates.eta).max()) < 1e-12 * 1000.0 * 0.5 / (L / NX)
    if periodic == "xy":  # between walls eta has a slope that its series lacks
        assert max(float(np.abs(x).max()) for x in (rates.u, rates.v)) < 1e-12 * F
    again = sw.random_vortices(spectral, speed=0.5, length=L / 3, seed=4)
    for a, b in zip(*map(jax.tree.leaves, (state, again))):
        np.testing.assert_array_equal(a, b)


def test_random_vortices_start_models_that_step_more_than_the_flow():
    parts = {"boundaries": sw.ChapmanFlather("west"), "tracers": (sw.Tracer("dye", initial=2.0),)}
    whole = sw.ShallowWater(sw.CartesianGrid(12, 12, (0.0, 1e5), (0.0, 1e5)), 500.0, coriolis=sw.FPlane(1e-4), **parts)
    state = sw.random_vortices(whole, speed=0.1, length=5e4)
    assert [row.name for row in whole.variables] == list(state.names)
    np.testing.assert_allclose(state.dye, 2.0 * (500.0 + np.asarray(state.eta)))


def test_random_vortices_that_a_grid_cannot_hold_are_refused():
    with pytest.raises(ConfigError, match="a wavelength of 1000 m does not fit the grid; give 300000 m"):
        sw.random_vortices(model(), 0.5, 1000.0)


# -- experiment files -------------------------------------------------------------------------------------------------

TOML = """\
run = {until = "1 hour"}
grid = {type = "cartesian", nx = 12, ny = 10, x = [0, "1000 km"], y = [0, "1000 km"], periodic = "xy"}
bathymetry = {type = "flat", depth = "1000 m"}
coriolis = {type = "f_plane", f0 = 1e-4}
initial = {type = "random_vortices", speed = "50 cm/s", length = "400 km"}
stepper = {type = "integrating_factor_rk4", dt = "10 min"}
[model]
core = "pseudo_spectral"
precision = "float64"
[model.spectral]
hyperviscosity = { rate = "1e-5 s-1", order = 2 }
filter = { strength = 10, order = 8 }
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "vortices.toml"
    path.write_text(TOML)
    return path


def test_a_file_makes_the_objects_of_python(file):
    made = assemble(read(file))
    experiment = made.experiment()
    own = model_of(made, "serial")
    core = sw.PseudoSpectral(sw.HyperViscosity(1e-5, 2), sw.ExponentialFilter(10.0, 8))
    same = model(core=core)
    assert jax.tree.structure(own.core).num_leaves == 2 and own.core.series.kept == same.core.series.kept
    stepper = experiment.stepper.stepper(600.0)
    assert isinstance(stepper, sw.IntegratingFactorRK4)
    ours = own.dynamics(stepper), experiment.initial.state(own)
    other = same.dynamics(stepper), sw.random_vortices(same, 0.5, 4e5)
    for a, b in zip(*map(jax.tree.leaves, (ours, other)), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-13 * np.abs(b).max())
    plain = load(file, ["model.core=finite_differences", "stepper.type=rk4"])
    assert plain.model.core == "finite_differences"


@pytest.mark.parametrize(
    "change, key",
    [
        ("stepper.type=forward_backward", "stepper.type"),
        ("model.momentum=arakawa_lamb", "model.momentum"),
        ("run.engine=fused", "run.engine"),
        ("model.core=finite_differences", "stepper.type"),
        ("model.core=spectral", "model.core"),
        ("model.spectral.filter.order=7", "model.spectral.filter: order"),
        ("model.spectral.hyperviscosity.rate=-1", "model.spectral.hyperviscosity.rate"),
    ],
)
def test_mistakes_name_their_key(change, key, file):
    with pytest.raises(ConfigError) as found:
        load(file, [change])
    (printed,) = found.value.mistakes
    assert key in printed or f"--set {change}" in printed


def test_check_tells_the_core_and_refuses_land(command, file):
    status, out, _ = command("check", file)
    assert status == 0 and "pseudo-spectral, wavenumbers up to 3 along x and 3 along y, the 2/3 rule" in out
    assert "advection: dt <=" in out and "warning" not in out
    status, out, _ = command("check", file, "--set", "grid.periodic=x")
    assert status == 0 and "converge at first order only: core = 'finite_differences' is more accurate there" in out
    land = ["--set", "bathymetry.type=formula", "--set", "bathymetry.depth='0.001 * (x - 200000)'"]
    assert "model.core: 'pseudo_spectral' has no coasts, and 20 cells are land" in command.refused("check", file, *land)


@pytest.mark.parametrize("periodic", ["xy", pytest.param("x", marks=pytest.mark.verify)])
def test_transports_are_those_of_the_part_of_a_state_that_series_resolve(periodic):
    """What is beyond moves no water: minus the divergence of the transports is how eta changes."""
    ocean = model(periodic, depth=lambda x, y: 1000.0 + 100.0 * np.sin(2 * np.pi * x / L) + 0 * y)
    raw = sw.State(*(jnp.asarray(size * random(k)) for k, size in ((1, 0.1), (2, 0.1), (3, 50.0))))

    @jit
    def transports(dynamics, state):
        flow = dynamics.prepare().flow(state, 0.0)
        return flow.eta.interior, flow.U.interior, flow.V.interior

    dynamics = ocean.interval(2, 0, 1.0)
    found, cut = (transports(dynamics, s) for s in (raw, jit(ocean.core.resolved)(raw)))
    assert float(np.abs(raw.eta - cut[0]).max()) > 1.0
    for one, other in zip(found[1:], cut[1:]):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12 * float(np.abs(other).max()))
