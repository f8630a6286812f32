"""What the discrete equations keep, exactly: volume, energy, potential enstrophy (Sadourny 1975; Arakawa & Lamb 1981).

In space each is an identity: its rate along the tendency vanishes, to rounding, on any state. In time the drift falls
with the stepper's order.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.diagnostics import derived as diagnostics
from swmodel.fields.field import mean_xy
from swmodel.runtime.compilation import jit

from .cases import band, globe, plane, random_state, rough, take_steps

FOLLOWED = ("volume", "energy", "potential_enstrophy")
KEEP_ENSTROPHY = pytest.mark.parametrize(
    "momentum", (sw.EnstrophyConserving(), sw.ArakawaLamb()), ids=("enstrophy", "both")
)


def summands(flow):
    """What `diagnostics` adds up for each of FOLLOWED, cell by cell."""
    g = flow.geometry
    return {
        "volume": (g.wet_area * flow.eta).interior,
        "energy": (g.wet_area * (flow.h * flow.kinetic_energy + 0.5 * flow.gravity * (flow.eta * flow.eta))).interior,
        "potential_enstrophy": (0.5 * g.wet_area * (flow.h * mean_xy(flow.q * flow.q))).interior,
    }


@jit
def rates(dynamics, state):
    """{name: (d/dt of the total, the sum of the absolute rates of its summands)} along the tendency."""
    equations = dynamics.prepare()

    def of(state):
        flow = equations.flow(state, 0.0)
        return {name: getattr(diagnostics, name)(flow) for name in FOLLOWED}, summands(flow)

    change = equations.tendency(state, 0.0)
    _, (totals, parts) = jax.jvp(of, (state,), (change,))
    return {name: (totals[name], jnp.sum(jnp.abs(parts[name]))) for name in FOLLOWED}


def relative_rate(model, state, name):
    total, absolute = rates(model.interval(2, 0, 1.0), state)[name]
    assert absolute > 0
    return abs(float(total / absolute))


def seas():
    """Models' grids, depths and rotation: walls, islands, seams, the sphere, its poles, and land at a pole."""
    polar = rough(globe(), 4)
    polar[0, 2:5], polar[-1, 7:] = 0.0, 0.0
    return {
        "walls and islands": (plane(), rough(plane()), sw.BetaPlane(1e-4, 1e-9)),
        "seams and islands": (plane(periodic="xy"), rough(plane(), 1), sw.FPlane(1e-4)),
        "band of the sphere": (band(), rough(band(), 3), sw.RotatingSphere()),
        "sphere with poles": (globe(), polar, sw.RotatingSphere(7e-3)),
    }


@pytest.mark.parametrize(
    "sea, momentum",
    [
        ("walls and islands", sw.EnergyConserving()),
        ("seams and islands", sw.ArakawaLamb()),
        ("band of the sphere", sw.EnergyConserving()),
        *(("sphere with poles", momentum) for momentum in (sw.EnergyConserving(), sw.ArakawaLamb())),
    ],
    ids=lambda x: x if isinstance(x, str) else type(x).__name__,
)
def test_energy_is_kept_on_random_states(sea, momentum):
    grid, depth, f = seas()[sea]
    model = sw.ShallowWater(grid, depth, coriolis=f, momentum=momentum)
    assert relative_rate(model, random_state(model), "energy") < 1e-12
    assert relative_rate(model, random_state(model), "volume") < 1e-12


def test_energy_is_kept_by_the_linear_equations():
    model = sw.ShallowWater(plane(), rough(plane()), coriolis=sw.FPlane(1e-4), linear=True)
    assert relative_rate(model, random_state(model), "energy") < 1e-12


@KEEP_ENSTROPHY
@pytest.mark.parametrize("grid, f", [(plane(periodic="xy"), sw.FPlane(1e-4)), (globe(), sw.RotatingSphere(7e-3))])
def test_potential_enstrophy_is_kept_on_random_states_without_coasts_at_both_poles_too(momentum, grid, f):
    model = sw.ShallowWater(grid, rough(grid, 5, islands=0.0), coriolis=f, momentum=momentum)
    assert relative_rate(model, random_state(model, size=3.0), "potential_enstrophy") < 1e-12


def test_the_other_forms_do_not_keep_what_they_do_not_promise():
    """So the identities above are not true of anything."""
    grid = plane(periodic="xy")
    for momentum, name in ((sw.EnergyConserving(), "potential_enstrophy"), (sw.EnstrophyConserving(), "energy")):
        model = sw.ShallowWater(grid, rough(grid, 5, islands=0.0), coriolis=sw.FPlane(1e-4), momentum=momentum)
        assert relative_rate(model, random_state(model, size=3.0), name) > 1e-6


def test_mass_is_kept_to_rounding_in_a_nonlinear_run_with_islands():
    model = sw.ShallowWater(plane(periodic="x"), rough(plane(), 6), coriolis=sw.FPlane(1e-4), momentum=sw.ArakawaLamb())
    start = random_state(model, size=0.2)
    state, _ = take_steps(model, sw.SSPRK3(60.0), start, 500)
    assert np.abs(state.eta - start.eta).max() > 0.1
    assert abs(np.sum(state.eta) - np.sum(start.eta)) < 1e-13 * 500 * np.abs(start.eta).sum()


@pytest.mark.parametrize(
    "stepper, order",
    [(sw.AB2, 3), (sw.AB3, 3), (sw.SSPRK3, 3), (sw.RK4, 5), (sw.ForwardBackward, 2)],
    ids=lambda x: getattr(x, "__name__", str(x)),
)
def test_the_drift_of_energy_falls_at_the_order_of_the_stepper(stepper, order):
    """One more than the scheme's where that is even: errors of phase cost no energy. AB2 without its damping."""
    grid = plane(periodic="xy")
    model = sw.ShallowWater(grid, 100.0 + 50.0 * np.cos(grid.x_centres / 2e4)[None, :], coriolis=sw.FPlane(1e-4))
    x, y = 2 * np.pi / 1.2e5, 2 * np.pi / 1e5
    start = model.state(
        u=lambda a, b: np.sin(y * b) + 0 * a,
        v=lambda a, b: 0.5 * np.cos(x * a) + 0 * b,
        eta=lambda a, b: np.sin(x * a) * np.cos(y * b),
    )
    options = {"epsilon": 0.0} if stepper is sw.AB2 else {}
    drift = [_drift(model, stepper(dt, **options), start, round(7200 / dt)) for dt in (80.0, 40.0)]
    assert np.log2(drift[0] / drift[1]) > order - 0.3


def _drift(model, stepper, start, steps):
    state, _ = take_steps(model, stepper, start, steps)
    before, after = (_energy(model.interval(2, 0, 1.0), s) for s in (start, state))
    return abs(float(after / before - 1))


@jit
def _energy(dynamics, state):
    flow = dynamics.prepare().flow(state, 0.0)
    return diagnostics.energy(flow)
