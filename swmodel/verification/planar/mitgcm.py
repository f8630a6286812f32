"""MITgcm's wind-driven gyre in a closed basin, "tutorial_barotropic_gyre", against the output that MITgcm publishes.

The basin has 60 x 60 cells of 20 km, is 5000 m deep, and lies on a beta plane. It starts from rest under a wind stress
-0.1 cos(pi y / L) N m-2, with a viscosity of 400 m2 s-1 and no slip. MITgcm takes steps of 20 minutes with its implicit
free surface: the surface is implicit (theta = 1), all else is by Adams-Bashforth with epsilon = 0.01. Its output has
the range and the standard deviation of the elevation, and the range of the velocities, after each of 10 steps.
These are the dynstat_* of its monitor in verification/tutorial_barotropic_gyre/results/output.txt of
https://github.com/MITgcm/MITgcm, commit 1827555eb3ab527c3c300e5642540b0ceba44ef3 (MIT licence), written by
checkpoint67e. MITgcm's solver stops at a residual of 1e-7, which limits the possible agreement.

MITgcm averages the Coriolis force like the enstrophy-conserving form here. The energy-conserving form differs by 2e-5
within these steps. The advection of momentum, of the size 1e-6, agrees with the energy-conserving form.
"""

import numpy as np

from ...dynamics.dissipation import Laplacian, NoSlip
from ...dynamics.forcing import WindStress
from ...dynamics.momentum import BetaPlane, EnergyConserving, EnstrophyConserving
from ...fields.state import State
from ...grids.grid import CartesianGrid
from ...models.shallow_water import ShallowWater
from ...simulation.simulation import Simulation
from ...stepping.semi_implicit import SemiImplicit
from ..case import Case, Mark, Outcome

L, CELLS, LINEAR_STEPS = 1.2e6, 60, 4  # [m]; in 4 steps the effect of advection stays below 2e-7

# After 1 to 10 steps: the largest and the smallest elevation and its standard deviation [m]; the largest and smallest
# u; the largest and smallest v [m s-1].
_ROWS = """
 4.210859552e-04 -4.210859552e-04  1.304403940e-04  2.093450661e-05 -2.093450661e-05  1.298042380e-05 -1.298042380e-05
 6.775838441e-04 -7.338194755e-04  2.539531468e-04  3.619084855e-05 -3.618696807e-05  3.466049813e-05 -3.464138399e-05
 7.654843668e-04 -8.881431003e-04  3.173595630e-04  4.729445067e-05 -4.729380770e-05  5.995213572e-05 -5.982773782e-05
 7.329460156e-04 -9.177506889e-04  3.215883516e-04  5.779656871e-05 -5.779222063e-05  8.513033068e-05 -8.477366275e-05
 6.460186334e-04 -8.851480878e-04  2.966694692e-04  6.998205540e-05 -6.996952935e-05  1.084357191e-04 -1.077287527e-04
 5.601707178e-04 -8.491188292e-04  2.727168699e-04  8.413515490e-05 -8.411052917e-05  1.298279194e-04 -1.286833796e-04
 5.032554637e-04 -8.417747388e-04  2.643627042e-04  9.937184016e-05 -9.936053676e-05  1.501775058e-04 -1.485314138e-04
 4.762815927e-04 -8.659502502e-04  2.712778172e-04  1.147125208e-04 -1.147111550e-04  1.704232846e-04 -1.682183321e-04
 4.657041622e-04 -9.077092967e-04  2.862618430e-04  1.296139102e-04 -1.296120854e-04  1.910907906e-04 -1.882648649e-04
 4.567673386e-04 -9.513142145e-04  3.023179903e-04  1.440161654e-04 -1.440169902e-04  2.122385760e-04 -2.087218197e-04
"""
PUBLISHED = np.array(_ROWS.split(), float).reshape(10, 7)


def gyre(coriolis_form: EnergyConserving | EnstrophyConserving, linear: bool = False) -> ShallowWater:
    """The model of the basin; advection, where there is any, is energy-conserving."""
    wind = WindStress(x=lambda x, y: -0.1 * np.cos(np.pi * y / L) + 0.0 * x, density=1000.0)
    return ShallowWater(
        CartesianGrid(CELLS, CELLS, (0.0, L), (0.0, L)),
        5000.0,
        gravity=9.81,
        coriolis=BetaPlane(1e-4, 1e-11),
        coriolis_form=coriolis_form,
        linear=linear,
        forcing=wind,
        dissipation=Laplacian(400.0),
        side=NoSlip(),
        communicator="serial",
    )


def _statistics(state: State) -> list[float]:
    u, v, eta = (np.asarray(x, float) for x in (state.u, state.v, state.eta))
    return [eta.max(), eta.min(), eta.std(), u.max(), u.min(), v.max(), v.min()]


def differences(model: ShallowWater, steps: int = len(PUBLISHED)) -> float:
    """The largest relative difference of any statistic after any of the first `steps` steps."""
    simulation = Simulation(model, model.at_rest(), SemiImplicit(1200.0, theta=1.0, epsilon=0.01))
    found = np.array([_statistics(simulation.run(steps=1)) for _ in range(steps)])
    return float(np.abs(found / PUBLISHED[:steps] - 1.0).max())


def _measure(resolutions: tuple) -> Outcome:
    return Outcome(
        {
            "mitgcm_gyre_nonlinear": differences(gyre(EnstrophyConserving())),
            "mitgcm_gyre_linear": differences(gyre(EnstrophyConserving(), linear=True), LINEAR_STEPS),
            "mitgcm_gyre_energy_form": differences(gyre(EnergyConserving())),
        }
    )


Case(
    name="mitgcm_gyre",
    group="planar",
    title="MITgcm's barotropic gyre",
    tests="the implicit surface, Adams-Bashforth, the Coriolis force, viscosity and no slip, against another model",
    source="MITgcm, tutorial_barotropic_gyre",
    doi="",
    equation="statistics of eta, u and v after each of 10 steps from rest, against MITgcm's published output",
    measure=_measure,
    marks=(
        Mark("mitgcm_gyre_nonlinear", "largest relative difference of any statistic in 10 steps", most=2e-7),
        Mark("mitgcm_gyre_linear", "the same without advection, in the first 4 steps", most=2e-7),
        Mark(
            "mitgcm_gyre_energy_form",
            "that in 10 steps with the energy-conserving form of the Coriolis force, which MITgcm does not use",
            least=1e-6,
        ),
    ),
)
