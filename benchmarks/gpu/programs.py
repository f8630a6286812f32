"""The programs that are compiled for GPUs: {name: (function, arguments, arguments that it overwrites, steps)}.

step       24 steps, which is a multiple of the period of every stepper
gradient   of the energy after 24 steps with respect to the first state, all states stored
run        a chunk of a run with the validity check, and with gauges, snapshots and maxima: its number of steps is an
           argument, and `steps` those of one iteration of its loop
"""

import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp

import swmodel as sw
from swmodel.performance import Program, basin, beach, stepper_named
from swmodel.performance.cases import SPACING, STEPPERS, TIME_STEP
from swmodel.simulation.program import advance, start_carry
from swmodel.simulation.simulation import Simulation
from swmodel.stepping.loop import pack_state, step_loop

__all__ = ["CASES", "STEPS"]

STEPS = 24


def step(make, stepper, **options):
    def program(nx, ny):
        model, state = make(nx, ny, **options)
        timed = Program(model, state, stepper(), STEPS, compiled=False)
        return timed._program(STEPS), timed._arguments(), (2,), STEPS

    return program


def gradient(make, stepper, **options):
    def program(nx, ny):
        (model, state), scheme = make(nx, ny, **options), stepper()
        dynamics = model.dynamics(scheme, steps=STEPS)

        def cost(dynamics, state):
            return jnp.sum(sw.integrate(dynamics, scheme, state, STEPS)[0].eta ** 2)

        return jax.grad(cost, argnums=1), (dynamics, state), (), STEPS

    return program


def run(make, stepper, outputs, **options):
    def program(nx, ny):
        (model, state), folder = make(nx, ny, **options), Path(tempfile.mkdtemp())
        simulation = Simulation(model, state, stepper())
        if outputs:
            simulation.gauges(folder / "gauges.nc", {"middle": (SPACING * nx / 2, SPACING * ny / 2)})
            simulation.write(folder / "fields.nc", ("eta", "u", "v"), every=30 * simulation.dt)
            simulation.maxima(folder / "maxima.nc")
        monitors, dynamics = simulation.monitors(), simulation._dynamics()
        start = simulation.state, simulation.history
        packed = jax.eval_shape(lambda *at: pack_state(*at), dynamics, simulation.stepper, start)
        carry = start_carry(simulation, monitors, packed)
        numbers = jnp.int32(0), jnp.int32(STEPS)
        period = step_loop(dynamics, simulation.stepper, prepared=False).period
        return lambda *of: advance(*of), (dynamics, simulation.stepper, carry, monitors, *numbers), (2,), period

    return program


def tides(nx, ny):
    """The astronomical tide of a sphere, with self-attraction and a drag."""
    model = sw.ShallowWater(
        sw.SphericalGrid(nx, ny, (0.0, 360.0), (-60.0, 60.0), "x"),
        4000.0,
        coriolis=sw.RotatingSphere(),
        forcing=(sw.TidalPotential(("M2", "K1")), sw.SelfAttraction(0.09)),
        dissipation=(sw.QuadraticDrag(2.5e-3), sw.Laplacian(1e3)),
        dtype="float32",
    )
    return model, model.at_rest()


def spectral(nx, ny):
    grid = sw.CartesianGrid(nx, ny, (0.0, SPACING * nx), (0.0, SPACING * ny), "xy")
    model = sw.ShallowWater(grid, 500.0, core=sw.PseudoSpectral(), dtype="float32")
    return model, model.at_rest()


def named(name):
    return lambda: stepper_named(name)


CASES = {
    **{name: step(basin, named(name)) for name in STEPPERS if name != "forward_backward_hancock"},
    "ab2_float64": step(basin, named("ab2"), precision="float64"),
    "forward_backward_float64": step(basin, named("forward_backward"), precision="float64"),
    "flather": step(basin, named("forward_backward"), term="flather"),
    "manning": step(basin, named("forward_backward"), term="manning"),
    "tides": step(tides, named("forward_backward")),
    "coast": step(beach, named("forward_backward_hancock")),
    "coast_ssprk3": step(beach, named("ssprk3")),
    "semi_implicit": step(basin, lambda: sw.SemiImplicit(10 * TIME_STEP)),
    "spectral": step(spectral, named("rk4")),
    "gradient": gradient(basin, named("ab2")),
    "gradient_forward_backward": gradient(basin, named("forward_backward")),
    "gradient_coast": gradient(beach, named("forward_backward_hancock")),
    "run": run(basin, named("forward_backward"), outputs=False),
    "run_outputs": run(basin, named("forward_backward"), outputs=True),
}
