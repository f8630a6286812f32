"""ForwardBackwardHancock: its longest step, its order and that of SSPRK3, waves on currents, and rotation."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.dynamics.clock import Time
from swmodel.runtime.compilation import jit
from swmodel.stepping.steps import one_step
from swmodel.verification.vortices import rates, smooth
from tests.selection import later

from .cases import take_steps

DEPTH, SIZE, GRAVITY = 10.0, 100.0, 9.81
CELERITY = np.sqrt(GRAVITY * DEPTH)


def sea(nx, ny, damping=1.0, size=SIZE, **options):
    """A periodic sea of uniform depth."""
    grid = sw.CartesianGrid(nx, ny, (0.0, nx * size), (0.0, ny * size), periodic="xy")
    momentum = sw.MomentumConserving(damping=damping)
    options = {"gravity": GRAVITY, "momentum": momentum, "communicator": "serial", "engine": "arrays"} | options
    return sw.ShallowWater(grid, DEPTH, **options)


def energy_left(model, dt, current=(0.0, 0.0), steps=300, amplitude=1e-6):
    """The energy of random waves on a current after some steps, over that at the start."""
    rng = np.random.default_rng(0)
    eta, u, v = amplitude * rng.standard_normal((3, *model.grid.shape))
    start = model.state(eta=DEPTH * eta, u=CELERITY * (current[0] + u), v=CELERITY * (current[1] + v))
    energy = lambda s: sum(np.var(s[x]) for x in "uv") + GRAVITY / DEPTH * np.var(s.eta)  # noqa: E731
    end, _ = take_steps(model, sw.ForwardBackwardHancock(dt), start, steps)
    return energy(end) / energy(start)


@pytest.mark.parametrize("damping", (later(0.0), 1.0))
def test_waves_are_stable_up_to_the_limit_and_not_far_beyond(damping):
    """Without damping waves are neutral, and this energy, which is not quite the scheme's own, changes to and fro."""
    model = sea(16, 12, damping)
    (limit,) = sw.limits(model, sw.ForwardBackwardHancock(1.0))
    assert energy_left(model, 0.98 * limit.dt) < (2.0 if damping == 0 else 1.0)
    assert not energy_left(model, 1.15 * limit.dt) < 1e3


@pytest.mark.parametrize("current", ((0.7, 0.7), later((3.0, 0.0))))
def test_waves_on_a_current_do_not_grow_with_the_longest_step_of_waves_and_current_together(current):
    """Without the predictor those that run against the current grow."""
    model, stepper = sea(16, 12), sw.ForwardBackwardHancock(1.0)
    state = model.state(u=CELERITY * current[0], v=CELERITY * current[1])
    assert energy_left(model, 0.95 * sw.largest_time_step(model, stepper, state), current) < 0.6


def wave_error(cells, stepper=sw.ForwardBackwardHancock, current=0.4, share=0.4):
    """The mean error over the amplitude of the level of a wave that has run its own length against a current."""
    model = sea(cells, 6, size=6400.0 / cells)
    k, speed, amplitude = 2.0 * np.pi / 6400.0, (current - 1.0) * CELERITY, 1e-4
    steps = int(np.ceil(6400.0 / abs(speed) / (share * 6400.0 / cells / CELERITY)))
    dt = 6400.0 / abs(speed) / steps
    level = lambda x, t: amplitude * np.sin(k * (x - speed * t))  # noqa: E731
    start = model.state(
        eta=lambda x, y: level(x, 0.0) + 0.0 * y,
        u=lambda x, y: current * CELERITY - CELERITY / DEPTH * level(x, 0.0) + 0.0 * y,
    )
    end, _ = take_steps(model, stepper(dt), start, steps)
    exact = level(model.grid.x_centres, steps * dt)
    return np.abs(np.asarray(end.eta) - exact).mean() / amplitude


@pytest.mark.parametrize(
    "stepper",
    (sw.ForwardBackwardHancock, pytest.param(sw.SSPRK3, marks=pytest.mark.verify)),
    ids=lambda kind: kind.__name__,
)
def test_waves_on_a_current_are_of_second_order(stepper):
    coarse, fine = wave_error(32, stepper), wave_error(64, stepper)
    assert coarse < 0.03 and np.log2(coarse / fine) > 1.8


def order_in_time(stepper, amplitude, longest, cells=16):
    """The order in dt of three runs of 19.2 s on one grid, of waves and currents of a relative `amplitude`."""
    size = 2.0 * np.pi / (10.0 * cells)
    grid = sw.CartesianGrid(cells, cells, (0.0, 10.0 * cells), (0.0, 10.0 * cells), periodic="xy")
    options = {"momentum": sw.MomentumConserving(), "communicator": "serial", "engine": "arrays"}
    model = sw.ShallowWater(grid, 2.0, **options)
    start = model.state(
        u=lambda x, y: amplitude * (2.0 + np.sin(size * x) + np.cos(size * y)),
        v=lambda x, y: amplitude * (1.0 + np.cos(size * (x + y))),
        eta=lambda x, y: amplitude * np.cos(size * (x - y)),
    )
    steps = [longest / 2**k for k in range(3)]
    ends = [take_steps(model, stepper(dt), start, round(19.2 / dt))[0] for dt in steps]
    first, second = (sum(np.abs(np.asarray(a[x] - b[x])).mean() for x in "uv") for a, b in zip(ends, ends[1:]))
    return np.log2(first / second)


@pytest.mark.parametrize(
    "stepper, of_waves",
    ((sw.ForwardBackwardHancock, 2.0), pytest.param(sw.SSPRK3, 3.0, marks=pytest.mark.verify)),
    ids=lambda kind: getattr(kind, "__name__", ""),
)
def test_the_order_in_time_is_that_of_the_stepper_for_waves_and_one_where_large_waves_fall(stepper, of_waves):
    """V in place of V' where the water falls leaves an error proportional to dt and to the square of the wave."""
    assert order_in_time(stepper, 1e-5, 0.8) == pytest.approx(of_waves, abs=0.15)
    assert order_in_time(stepper, 0.1, 0.1) == pytest.approx(1.0, abs=0.2)


@jit
def both_rates(dynamics, state, stepper):
    """({name: rate} of the predictor, that of the step)."""
    equations, dt = stepper.system(dynamics), stepper.dt
    half = equations.flow(state, Time(0, dt=dt)).with_half_step().half_step
    new, _ = one_step(equations, stepper, state, (), 0.0)
    found = {name: x.interior / (0.5 * dt) for name, x in ({"eta": half.rise} | half.gain).items()}
    return found, {name: (new[name] - state[name]) / dt for name in found}


SPHERE = functools.partial(sw.SphericalGrid, radius=180.0 / np.pi)  # on which a degree is 1 m


@pytest.mark.parametrize(
    "kind, width",
    [(sw.CartesianGrid, jnp.ones_like), (SPHERE, lambda y: jnp.cos(jnp.deg2rad(y)))],
    ids=["plane", "sphere"],
)
def test_predictor_and_step_have_the_rates_of_the_equations_where_shores_move(kind, width):
    """For waves and currents over a rough bottom, in steps so short that half of one is as good as none."""
    fields = {name: lambda x, y, q=q: q(x * 1e6 / 60.0, y * 1e6 / 60.0) for name, q in smooth("xy").items()}
    exact, stepper = rates(fields, 1.0, width), sw.ForwardBackwardHancock(1e-6)
    options = {"momentum": sw.MomentumConserving(), "wetting": sw.WettingDrying(), "coriolis": sw.FPlane(1.0)}
    grid = kind(40, 40, (0.0, 60.0), (0.0, 60.0))
    model = sw.ShallowWater(grid, fields["depth"], communicator="serial", engine="arrays", **options)
    state, wanted = model.state(**{name: fields[name] for name in exact}), model.state(**exact)
    for found in both_rates(model.dynamics(stepper), state, stepper):
        for name, rate in found.items():
            wrong = np.abs(rate - wanted[name])[4:-4, 4:-4].mean() / np.abs(wanted[name]).mean()
            assert wrong < 2.5e-3, (name, wrong)


def tracer_error(cells, courant=0.4):
    """The mean error of a tracer's wave that a current has carried along x by its own length."""
    length, current = 6400.0, 1.0
    steps = round(cells / courant)
    grid = sw.CartesianGrid(cells, 6, (0.0, length), (0.0, 6 * length / cells), periodic="xy")
    wave = lambda x: 1.0 + 0.5 * np.sin(2.0 * np.pi * x / length)  # noqa: E731
    dye = sw.Tracer("dye", scheme=sw.FluxLimited(sw.MonotonizedCentral()))
    momentum = sw.MomentumConserving(damping=0.0)
    options = {"gravity": 1e-3, "momentum": momentum, "communicator": "serial", "engine": "arrays"}
    model = sw.ShallowWater(grid, DEPTH, tracers=[dye], **options)
    start = model.state(u=current, dye=lambda x, y: wave(x) + 0.0 * y)
    end, _ = take_steps(model, sw.ForwardBackwardHancock(length / current / steps), start, steps)
    return np.abs(
        np.asarray(end["dye"]) / DEPTH - wave(grid.x_centres)
    ).mean()  # the State holds the content of columns


@pytest.mark.verify
def test_a_tracer_along_an_axis_is_of_second_order():
    """Without the factor 1 - |u| dt / dx of the slopes it is of first order, with an error of the other sign."""
    coarse, fine = tracer_error(32), tracer_error(64)
    assert fine < 0.003 and np.log2(coarse / fine) > 1.7


def test_an_inertial_oscillation_keeps_its_speed_and_a_geostrophic_flow_stays():
    """Where f dt is 0.05, the Coriolis force of the step's beginning alone would gain 13 % in an oscillation."""
    f0, dt = 1e-3, 50.0
    model = sea(8, 80, size=1e4, coriolis=sw.FPlane(f0))
    end, _ = take_steps(model, sw.ForwardBackwardHancock(dt), model.state(u=0.1), 125)
    assert np.hypot(np.asarray(end.u), np.asarray(end.v)) == pytest.approx(0.1, rel=1e-3)
    level = lambda y: 1e-3 * np.cos(np.pi * y / 4e5)  # noqa: E731
    slope = lambda y: -1e-3 * np.pi / 4e5 * np.sin(np.pi * y / 4e5)  # noqa: E731
    start = model.state(eta=lambda x, y: level(y) + 0.0 * x, u=lambda x, y: -GRAVITY / f0 * slope(y) + 0.0 * x)
    end, _ = take_steps(model, sw.ForwardBackwardHancock(dt), start, 400)
    np.testing.assert_allclose(np.asarray(end.eta), np.asarray(start.eta), atol=1e-5)
    np.testing.assert_allclose(np.asarray(end.u), np.asarray(start.u), atol=0.02 * np.abs(np.asarray(start.u)).max())


def test_water_is_kept_where_the_coriolis_parameter_jumps_at_the_seam_of_a_grid():
    """The face on the seam had f of its row on one side, and that of a row beyond the grid on the other."""
    model = sea(8, 6, size=1e4, coriolis=sw.BetaPlane(1e-3, 1e-7))
    start = model.state(u=0.1, eta=lambda x, y: 0.1 * np.sin(2.0 * np.pi * y / 6e4) + 0.0 * x)
    end, _ = take_steps(model, sw.ForwardBackwardHancock(50.0), start, 20)
    assert np.abs(np.asarray(end.v)).max() > 1e-3
    assert np.asarray(end.eta, float).sum() == pytest.approx(np.asarray(start.eta, float).sum(), abs=1e-13)


class Stirring(sw.Forcing):
    """A force along the transports of the flow, which a term may read."""

    def __call__(self, flow, time):
        return 1e-3 * flow.U, 1e-3 * flow.V


def test_a_term_may_read_the_transports():
    """With one Euler step of the transport U = 10 m x 0.1 m/s, u gains dt 1e-3 U."""
    model = sea(8, 6, forcing=Stirring())
    end, _ = take_steps(model, sw.ForwardBackwardHancock(0.1), model.state(u=0.1), 1)
    np.testing.assert_allclose(np.asarray(end.u), 0.1 + 0.1 * 1e-3 * 1.0, rtol=1e-6)
