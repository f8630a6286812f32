"""The pseudo-spectral core against what is known: manufactured and exact solutions, invariants, and the other core."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.diagnostics import derived as diagnostics
from swmodel.parallel import SerialCommunicator
from swmodel.runtime.compilation import jit
from swmodel.verification.vortices import G, H, L, drift, run, smooth
from tests.selection import later, now

F = 1.0e-4
DAY = 86400.0


def model(n=16, periodic="xy", core=None, **options):
    grid = sw.CartesianGrid(n, n, (0.0, L), (0.0, L), periodic)
    options = {"depth": H, "gravity": G, "coriolis": sw.FPlane(F)} | options
    return sw.ShallowWater(
        grid, communicator=SerialCommunicator(), engine="arrays", core=core or sw.PseudoSpectral(), **options
    )


def moving(model, size=1.0, seed=0):
    """Random, of all wavenumbers that are kept."""
    noise = np.random.default_rng(seed).standard_normal((3, *model.grid.shape))
    return model.state(u=0.1 * size * noise[0], v=0.1 * size * noise[1], eta=size * noise[2])


def steps(model, stepper, state, count):
    return run(model.dynamics(stepper), stepper, state, count)[0]


@jit
def tendency(dynamics, state):
    return dynamics.prepare().tendency(state, 0.0)


def largest(tree):
    return max(float(np.abs(x).max()) for x in jax.tree.leaves(tree))


def apart(ours, other):
    """The largest difference, of the largest value of each field."""
    pairs = zip(*map(jax.tree.leaves, (ours, other)))
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)


# -- convergence ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "periodic, f, cells",
    [
        ("xy", F, (8, 16, 32)),
        pytest.param("x", 0.0, (8, 16, 32), marks=pytest.mark.verify),
        pytest.param("", 0.0, (4, 8, 16), marks=pytest.mark.verify),
    ],
    ids=["periodic", "channel", "box"],
)
def test_errors_fall_faster_than_any_power_of_the_spacing(periodic, f, cells):
    found = [drift(n, periodic, f, sw.PseudoSpectral()) for n in cells]
    first, second = (np.log2(found[k] / found[k + 1]) for k in (0, 1))
    assert first > 5 and second > first + 5, (found, first, second)
    assert found[2] < 1e-10, found


@pytest.mark.verify
def test_rotation_between_walls_converges_at_first_order_only():
    """Where eta leans on a wall, its series of cosines has a kink."""
    coarse, fine = (drift(n, "x", F, sw.PseudoSpectral()) for n in (32, 64))
    assert 1.5 < coarse / fine < 3.0, (coarse, fine)


@pytest.mark.verify
def test_differences_converge_to_it_at_second_order():
    """One hour of waves and advection over a rough bottom."""
    fields = smooth()

    def after(n, core):
        own = model(n, core=core, depth=fields["depth"])
        return own, steps(own, sw.RK4(100.0), own.state(**{k: fields[k] for k in ("u", "v", "eta")}), 36)

    gaps = []
    for n in (16, 32):
        own, ours = after(n, None)
        gaps.append(apart(after(n, sw.FiniteDifferences())[1], ours))
    assert 3.5 < gaps[0] / gaps[1] < 4.5 and gaps[1] < 0.02, gaps


# -- exact solutions --------------------------------------------------------------------------------------------------


def wave(t, modes=(3, 2), f=F):
    """An inertia-gravity wave at time t, functions of (x, y)."""
    kx, ky = (2 * np.pi * m / L for m in modes)
    k2 = kx * kx + ky * ky
    w = np.sqrt(f * f + G * H * k2)
    cos, sin = (lambda x, y, trig=trig: trig(kx * x + ky * y - w * t) for trig in (np.cos, np.sin))
    return {
        "u": lambda x, y: (kx * w * cos(x, y) - ky * f * sin(x, y)) / (H * k2),
        "v": lambda x, y: (ky * w * cos(x, y) + kx * f * sin(x, y)) / (H * k2),
        "eta": lambda x, y: cos(x, y),
    }


@pytest.mark.parametrize("dt", now([100.0, 1e4, 1e6], 1e6))
def test_a_linear_wave_is_exact_at_any_time_step(dt):
    own = model(linear=True)
    final = steps(own, sw.IntegratingFactorRK4(dt), own.state(**wave(0.0)), 7)
    turns = 7 * dt * np.sqrt(G * H) * 13**0.5 * 2 * np.pi / L
    assert apart(final, own.state(**wave(7 * dt))) < 1e-14 * (10 + turns)


def test_a_standing_wave_between_walls_is_exact_at_any_time_step():
    own = model(periodic="", linear=True, coriolis=None)
    kx, ky = 3 * np.pi / L, 2 * np.pi / L
    w = np.sqrt(G * H * (kx * kx + ky * ky))
    at = lambda t: own.state(  # noqa: E731
        u=lambda x, y: G * kx / w * np.sin(w * t) * np.sin(kx * x) * np.cos(ky * y),
        v=lambda x, y: G * ky / w * np.sin(w * t) * np.cos(kx * x) * np.sin(ky * y),
        eta=lambda x, y: np.cos(w * t) * np.cos(kx * x) * np.cos(ky * y),
    )
    assert apart(steps(own, sw.IntegratingFactorRK4(5e4), at(0.0), 7), at(35e4)) < 1e-11


def test_an_inertial_oscillation_keeps_its_speed_and_phase_for_a_hundred_days():
    own = model(8)
    final = steps(own, sw.IntegratingFactorRK4(DAY), own.state(u=0.3), 100)
    t = 100 * DAY
    assert apart(final.u, own.state(u=0.3 * np.cos(F * t)).u) < 1e-11
    assert apart(final.v, own.state(v=-0.3 * np.sin(F * t)).v) < 1e-11
    assert largest(final.eta) < 1e-12


def test_a_balanced_jet_of_the_nonlinear_equations_has_no_tendency():
    own, k = model(), 2 * np.pi / L
    state = own.state(
        u=lambda x, y: 2.0 * np.cos(2 * k * y) + 0 * x, eta=lambda x, y: -F / G * np.sin(2 * k * y) / k + 0 * x
    )
    rates = tendency(own.interval(1, 0, 1.0), state)
    assert largest(rates) < 1e-14 * F * largest(state.u) * 100


@pytest.mark.verify
def test_the_integrating_factor_is_of_fourth_order():
    own, fields = model(), smooth()
    state = own.state(**{k: fields[k] for k in ("u", "v", "eta")})
    exact = steps(own, sw.IntegratingFactorRK4(150.0), state, 48)
    errors = [apart(steps(own, sw.IntegratingFactorRK4(7200.0 / n), state, n), exact) for n in (12, 24)]
    assert 12 < errors[0] / errors[1] < 24, errors
    assert apart(steps(own, sw.RK4(60.0), state, 120), exact) < 1e-6


# -- products ---------------------------------------------------------------------------------------------------------


def modes_of(array, grid, position, most):
    """The Fourier coefficients of a whole field up to wavenumber `most`, whatever the grid."""
    x, y = (float(np.ravel(c)[0]) for c in grid.coordinates(position))
    k = np.arange(-most, most + 1)
    found = np.fft.fft2(np.asarray(array))[np.ix_(k, k)] / array.size
    return found * np.exp(-2j * np.pi / L * (k[None, :] * x + k[:, None] * y))


@pytest.mark.parametrize("dealias", [True, False])
def test_products_are_exact_with_a_third_of_the_wavenumbers_left_out(dealias):
    """Tendencies on 16 x 16 cells are those of twice as many, cut; of all wavenumbers that 16 cells keep."""
    most = 5 if dealias else 7
    coefficients = np.random.default_rng(1).standard_normal((3, 2 * most + 1, 2 * most + 1, 2))
    k = 2 * np.pi / L * np.arange(-most, most + 1)

    def field(c):
        def of(x, y):
            phases = k[:, None, None, None] * y + k[None, :, None, None] * x
            return np.tensordot(c[..., 0], np.cos(phases), 2) + np.tensordot(c[..., 1], np.sin(phases), 2)

        return of

    state = dict(zip(("u", "v", "eta"), map(field, coefficients)))
    found = []
    for n in (16, 32):
        own = model(n, core=sw.PseudoSpectral(dealias=dealias))
        rates = tendency(own.interval(1, 0, 1.0), own.state(**state))
        pairs = zip((rates.u, rates.v, rates.eta), "uvh")
        found.append([modes_of(rate, own.grid, position, 5) for rate, position in pairs])
    gap = max(np.abs(a - b).max() / np.abs(b).max() for a, b in zip(*found))
    assert gap < 1e-12 if dealias else gap > 1e-4, gap


# -- invariants -------------------------------------------------------------------------------------------------------


@jit
def change_of_energy(dynamics, state):
    """(d/dt of energy along the tendency, the sum of the absolute values it is made of)."""
    equations = dynamics.prepare()

    def energy(state):
        return diagnostics.energy(equations.flow(state, 0.0)) / equations.geometry.area_h

    rates = equations.tendency(state, 0.0)
    gradient = jax.grad(energy)(state)
    terms = [a * b for a, b in zip(jax.tree.leaves(gradient), jax.tree.leaves(rates))]
    return sum(map(jnp.sum, terms)), sum(jnp.sum(jnp.abs(x)) for x in terms)


@pytest.mark.parametrize("periodic", now(["xy", "x", "y", ""], "x"))
def test_linear_waves_keep_their_energy(periodic):
    """Rotation between walls, too: what is cut of f v and f u does no work."""
    own = model(10, periodic, linear=True)
    change, size = change_of_energy(own.interval(2, 0, 1.0), moving(own))
    assert abs(change) < 1e-13 * size


@pytest.mark.verify
def test_energy_is_kept_as_far_as_the_flow_is_resolved():
    fields, found = smooth(), []
    for n in (8, 12, 16, 32):
        own = model(n)
        change, size = change_of_energy(own.interval(2, 0, 1.0), own.state(**{k: fields[k] for k in ("u", "v", "eta")}))
        found.append(abs(float(change / size)))
    assert found[0] > 1e2 * found[1] and found[1] > 1e3 * found[2] and found[3] < 2e-15, found


@pytest.mark.parametrize("periodic", [later("xy"), ""])
def test_no_water_is_lost(periodic):
    own = model(12, periodic, depth=lambda x, y: H + 300.0 * np.cos(3 * np.pi * x / L) + 0 * y)
    state = moving(own, 10.0)
    final = steps(own, sw.RK4(100.0), state, 50)
    assert apart(final.eta, state.eta) > 0.1
    assert abs(float(np.sum(final.eta) - np.sum(state.eta))) < 1e-13 * float(np.sum(np.abs(state.eta))) * 50


# -- turbulence -------------------------------------------------------------------------------------------------------


def statistics(state):
    """(energy, enstrophy, shares of bands in the kinetic energy) by transforms of whole fields."""
    u, v, eta = (np.asarray(x) for x in (state.u, state.v, state.eta))
    n = len(u)
    spectrum = (np.abs(np.fft.fft2(u)) ** 2 + np.abs(np.fft.fft2(v)) ** 2) / u.size**2
    k = np.hypot(*np.meshgrid(*[np.fft.fftfreq(n, 1 / n)] * 2))
    edges = (0.5, 3.5, 6.5, 10.5, n / 4)
    bands = np.array([spectrum[(k >= a) & (k < b)].sum() for a, b in zip(edges, edges[1:])])
    energy = 0.5 * H * spectrum.sum() + 0.5 * 0.02 * (eta**2).mean()
    return energy, (spectrum * k**2).sum(), bands / bands.sum()


def compare(n, days, viscosity, tolerances):
    """Both cores under the same biharmonic viscosity, by the same term, from the same vortices.

    Args:
        tolerances: of the energy, of the enstrophy, of the shares of four bands of wavenumbers in the kinetic energy.
    """
    options = {"dissipation": (sw.Biharmonic(viscosity),)}
    found = {}
    for name, core, stepper in (
        ("spectral", sw.PseudoSpectral(), sw.IntegratingFactorRK4(900.0)),
        ("differences", sw.FiniteDifferences(), sw.RK4(450.0)),
    ):
        own = model(n, core=core, gravity=0.02, **options)
        start = sw.random_vortices(own, speed=0.5, length=L / 6, seed=3)
        final = steps(own, stepper, start, round(days * DAY / stepper.dt))
        found[name] = [statistics(state) for state in (start, final)]
    (before, ours), (_, other) = found["spectral"], found["differences"]
    assert ours[1] < 0.9 * before[1], "the flow has done nothing"
    energy, enstrophy, band = tolerances
    assert abs(ours[0] / other[0] - 1) < energy, found
    assert abs(ours[1] / other[1] - 1) < enstrophy, found
    assert np.abs(ours[2] - other[2]).max() < band, found


@pytest.mark.verify
def test_both_cores_agree_on_how_turbulence_decays():
    compare(128, 20.0, 5e9, (0.03, 0.03, 0.03))
