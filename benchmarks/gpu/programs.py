"""The programs that are compiled for GPUs: {name: (function, arguments, arguments that it overwrites, steps)}.

step       24 steps, which is a multiple of the period of every stepper
gradient   of the energy after 24 steps with respect to the first state, all states stored
run        a chunk of a run with the validity check, and with gauges, snapshots and maxima: its number of steps is an
           argument, and `steps` those of one iteration of its loop
"""

import sys
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp

import swmodel as sw
from swmodel.nests.steps import FamilyLoop
from swmodel.performance.timing import SPACING, STEPPERS, TIME_STEP, Program, basin, stepper_named
from swmodel.simulation.program import advance, start_carry
from swmodel.simulation.simulation import Simulation
from swmodel.stepping.loop import Members, first_member, pack_state, step_loop

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from cases import TERMS, beach  # noqa: E402

__all__ = ["CASES", "LONGEST", "STEPS", "SYSTEMS"]

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
        carry = start_carry(simulation, packed)
        numbers = jnp.int32(0), jnp.int32(STEPS)
        one = first_member(dynamics) if isinstance(dynamics, Members) else dynamics
        period = step_loop(one, simulation.stepper, prepared=False).period
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


def plane(nx, ny, **parts):
    """A basin with a slope, at rest."""
    grid = sw.CartesianGrid(nx, ny, (0.0, SPACING * nx), (0.0, SPACING * ny), parts.pop("periodic", ""))
    model = sw.ShallowWater(grid, parts.pop("depth", lambda x, y: 500.0 + x / 1e4), dtype="float32", **parts)
    return model, model.at_rest()


def storm(nx, ny):
    """A cyclone that crosses a basin within a day."""
    x, y = SPACING * nx, SPACING * ny
    track = (0.0, 86400.0), (0.2 * x, 0.8 * x), (0.4 * y, 0.6 * y)
    cyclone = sw.Cyclone(*track, central_pressure=(95e3, 94e3), radius=8e4)
    return plane(nx, ny, forcing=cyclone, coriolis=sw.FPlane(1e-4))


def tracer(nx, ny):
    return plane(nx, ny, tracers=sw.Tracer("dye", scheme=sw.FluxLimited(sw.Superbee()), diffusivity=10.0))


def layered(nx, ny):
    """Two layers over a slope, 500 m deep and more."""
    layers = sw.Layers(thickness=(200.0,), reduced_gravities=(0.02,))
    return plane(nx, ny, layers=layers, coriolis=sw.FPlane(1e-4))


def spectral(nx, ny):
    return plane(nx, ny, depth=500.0, core=sw.PseudoSpectral(), periodic="xy")


def ensemble(nx, ny):
    """Four members, which have nx x ny cells together."""
    model, state = basin(nx, ny // 4)
    both = sw.Ensemble(model, [state] * 4)
    return both, both.initial


def nest(nx, ny):
    """Steps of a sea with a two-way nest of three times smaller cells in its middle third, which makes three in each.

    Both grids have nx x ny cells, but for the frame of the nest, and make four steps together in one of the sea.
    """
    x, y, count = SPACING * nx, SPACING * ny, STEPS // 4
    box = {"x": (x / 3, 2 * x / 3), "y": (y / 3, 2 * y / 3)}
    grid = sw.CartesianGrid(nx, ny, (0.0, x), (0.0, y))
    family = sw.Family(
        grid, 1000.0, [sw.Nest("nest", ratio=3, **box)], coriolis=sw.FPlane(1e-4), dtype="float32", stages=1
    )
    scheme = stepper_named("forward_backward")
    dynamics, states = family.dynamics(scheme), tuple(family.states().values())
    carry = jax.eval_shape(lambda dynamics, states: FamilyLoop(dynamics, scheme).start(states), dynamics, states)

    def steps(dynamics, scheme, carry):
        return FamilyLoop(dynamics, scheme).steps(carry, jnp.int32(0), count)[0]

    return steps, (dynamics, scheme, carry), (2,), 4 * count


def named(name):
    return lambda: stepper_named(name)


def implicit(scheme):
    return lambda: scheme(10 * TIME_STEP)


SYSTEMS = {  # name: (function of (nx, ny) and options that makes (model, state), that of the stepper, options)
    **{name: (basin, named(name), {}) for name in STEPPERS if name != "forward_backward_hancock"},
    "ab2_float64": (basin, named("ab2"), {"precision": "float64"}),
    "forward_backward_float64": (basin, named("forward_backward"), {"precision": "float64"}),
    "flather": (basin, named("forward_backward"), TERMS["flather"]),
    "manning": (basin, named("forward_backward"), TERMS["manning"]),
    "tides": (tides, named("forward_backward"), {}),
    "storm": (storm, named("forward_backward"), {}),
    "tracer": (tracer, named("ssprk3"), {}),
    "layers": (layered, named("forward_backward"), {}),
    "coast": (beach, named("forward_backward_hancock"), {}),
    "coast_ssprk3": (beach, named("ssprk3"), {}),
    "semi_implicit": (basin, implicit(sw.SemiImplicit), {}),
    "rigid_lid": (basin, implicit(sw.RigidLid), {}),
    "spectral": (spectral, named("rk4"), {}),
    "integrating_factor": (spectral, implicit(sw.IntegratingFactorRK4), {}),
}
CASES = {
    **{name: step(make, stepper, **options) for name, (make, stepper, options) in SYSTEMS.items()},
    "nest": nest,
    "gradient": gradient(basin, named("ab2")),
    "gradient_forward_backward": gradient(basin, named("forward_backward")),
    "gradient_coast": gradient(beach, named("forward_backward_hancock")),
    "run": run(basin, named("forward_backward"), outputs=False),
    "run_outputs": run(basin, named("forward_backward"), outputs=True),
    "run_ensemble": run(ensemble, named("forward_backward"), outputs=False),
}
LONGEST = {"gradient_coast"}  # ten minutes of a processor did not suffice for its longest kernel
