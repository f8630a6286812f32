"""Programs of a run lower for CUDA, without a GPU; they hold no call of the CPU's runtime, and none of the host."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel import adjoint, elliptic
from swmodel.elliptic.operator import materialized
from swmodel.errors import ConfigError
from swmodel.fields.parts import shipped_parts
from swmodel.parallel.halo import Sides
from swmodel.parallel.sharded import ShardedCommunicator
from swmodel.runtime.compilation import lowering_for
from swmodel.simulation.program import advance, start_carry
from swmodel.simulation.simulation import Simulation
from swmodel.stepping.explicit import TimeStepper
from swmodel.stepping.loop import pack_state

X, Y = (0.0, 1.6e5), (0.0, 1.2e5)
pytestmark = pytest.mark.verify
GRID = sw.CartesianGrid(16, 12, X, Y)
SPHERE = sw.SphericalGrid(16, 12, (0.0, 360.0), (-60.0, 60.0), "x")
PERIODIC = sw.CartesianGrid(16, 12, X, Y, "xy")
STEPPERS = {
    "ab2": lambda: sw.AB2(10.0),
    "ab3": lambda: sw.AB3(10.0),
    "forward_backward": lambda: sw.ForwardBackward(10.0),
    "forward_backward_hancock": lambda: sw.ForwardBackwardHancock(10.0),
    "rk4": lambda: sw.RK4(10.0),
    "ssprk3": lambda: sw.SSPRK3(10.0),
    "semi_implicit": lambda: sw.SemiImplicit(10.0),
    "rigid_lid": lambda: sw.RigidLid(10.0),
}
HOST = re.compile(r"callback|infeed|outfeed|stablehlo\.(send|recv)")
BRANCH = re.compile(r"stablehlo\.(case|if)\b")  # the host reads which branch a GPU is to take
OF_CUDA = re.compile(r"cusolver_|cusparse_|__gpu\$xla\.gpu\.triton$")  # libraries on the device, kernels of its own


def lowered_for_cuda(function, *arguments):
    with lowering_for("NVIDIA H100"):
        text = jax.jit(function).trace(*arguments).lower(lowering_platforms=("cuda",)).as_text()
    return text, set(re.findall(r"custom_call @([\w.$]+)", text))


def check_on_device(text, calls):
    assert not HOST.search(text)
    assert all(OF_CUDA.match(name) for name in calls), calls


def slope(x, y):
    return 500.0 + x / 1e3


def hilly(**more):
    return sw.ShallowWater(GRID, slope, **{"engine": "arrays", "coriolis": sw.FPlane(1e-4), **more})


def check_steps(ocean, stepper, steps=2):
    """Steps of a model lower for CUDA, without a branch."""
    dynamics = ocean.dynamics(stepper, steps=steps)
    text, calls = lowered_for_cuda(lambda s: sw.integrate(dynamics, stepper, s, steps)[0], ocean.at_rest())
    check_on_device(text, calls)
    assert not BRANCH.search(text)
    return text, calls


# -- the whole program of a run ---------------------------------------------------------------------------------------


def chunk(run):
    monitors, dynamics = run.monitors(), run._dynamics()
    carry = start_carry(run, pack_state(dynamics, run.stepper, (run.state, run.history)))
    return lowered_for_cuda(advance, dynamics, run.stepper, carry, monitors, jnp.int32(0), jnp.int32(8))


@pytest.mark.parametrize("name", STEPPERS)
def test_a_chunk_of_steps_with_its_monitors(tmp_path, name):
    momentum = sw.MomentumConserving() if name == "forward_backward_hancock" else sw.EnergyConserving()
    ocean = hilly(momentum=momentum, dissipation=(sw.Laplacian(100.0), sw.ManningDrag(0.02)))
    run = Simulation(ocean, ocean.at_rest(), STEPPERS[name]()).gauges(tmp_path / "gauges.nc", {"a": (5e4, 5e4)})
    run.write(tmp_path / "fields.nc", ("eta", "u", "vorticity"), every=2 * run.dt)
    if name != "rigid_lid":
        run.maxima(tmp_path / "maxima.nc")
    text, calls = chunk(run)
    assert "stablehlo.while" in text
    check_on_device(text, calls)


def test_a_chunk_with_every_product(tmp_path):
    ocean = hilly()
    run = Simulation(ocean, ocean.at_rest(), sw.AB2(10.0))
    run.harmonics(tmp_path / "tides.nc", ("M2",)).means(tmp_path / "means.nc").extremes(tmp_path / "extremes.nc")
    check_on_device(*chunk(run))


def test_a_chunk_of_an_ensemble():
    ocean = hilly(dissipation=sw.Laplacian(100.0))
    both = sw.Ensemble(ocean, [ocean.at_rest(), ocean.state(eta=lambda x, y: 1e-6 * x)])
    check_on_device(*chunk(Simulation(both, both.initial, sw.AB2(10.0))))


# -- steppers, terms, cores, solvers, engines -------------------------------------------------------------------------


def test_every_shipped_stepper_is_here():
    here = {name: type(make()) for name, make in STEPPERS.items()}
    others = {"integrating_factor_rk4": sw.IntegratingFactorRK4, "split_explicit": sw.SplitExplicit}  # tested below
    assert here | others == shipped_parts(TimeStepper)


PARTS = {
    "arakawa_lamb": lambda: hilly(momentum=sw.ArakawaLamb(), dissipation=sw.Biharmonic(1e9)),
    "enstrophy": lambda: hilly(momentum=sw.EnstrophyConserving(), side=sw.NoSlip(), dissipation=sw.Laplacian(100.0)),
    "linear": lambda: hilly(linear=True, coriolis=sw.BetaPlane(1e-4, 1e-11), dissipation=sw.LinearDrag(1e-6)),
    "drags": lambda: hilly(dissipation=(sw.QuadraticDrag(2.5e-3), sw.ManningDrag(0.02))),
    "wind": lambda: hilly(forcing=(sw.WindStress(x=lambda x, y: 0.1 + 0 * x), sw.AirPressure(1e5))),
    "open": lambda: hilly(boundaries=(sw.Flather(sides=("west", "east")), sw.Sponge(width=3e4, rate=1e-4))),
    "coast": lambda: sw.ShallowWater(
        GRID, lambda x, y: x / 1e3 - 30.0, momentum=sw.MomentumConserving(), wetting=sw.WettingDrying(), engine="arrays"
    ),
    "tracer": lambda: hilly(tracers=sw.Tracer("dye", scheme=sw.FluxLimited(sw.Superbee()), diffusivity=10.0)),
    "sphere": lambda: sw.ShallowWater(
        SPHERE, 4000.0, coriolis=sw.RotatingSphere(), dissipation=sw.Laplacian(1e3), engine="arrays"
    ),
    "astronomical": lambda: sw.ShallowWater(
        SPHERE, 4000.0, forcing=(sw.TidalPotential(("M2",)), sw.SelfAttraction(0.09)), engine="arrays"
    ),
    "float32": lambda: hilly(dtype="float32"),
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", STEPPERS)
def test_every_stepper_with_every_part(name, part):
    ocean, stepper = PARTS[part](), STEPPERS[name]()
    try:
        stepper.history(ocean.at_rest())
        ocean.dynamics(stepper, steps=2)
        _, calls = check_steps(ocean, stepper)
    except ConfigError as why:  # combinations that the model itself refuses
        pytest.skip(str(why))
    assert stepper.is_implicit or not calls


@pytest.mark.parametrize("name", ["ab3", "integrating_factor_rk4"])
def test_the_pseudo_spectral_core(name):
    stepper = sw.IntegratingFactorRK4(10.0) if name == "integrating_factor_rk4" else STEPPERS[name]()
    text, calls = check_steps(sw.ShallowWater(PERIODIC, 500.0, core=sw.PseudoSpectral(), engine="arrays"), stepper)
    assert "stablehlo.fft" in text and not calls


def test_substeps_of_the_surface_over_layers():
    layers = sw.Layers(thickness=(100.0,), densities=(1025.0, 1027.0))
    _, calls = check_steps(hilly(layers=layers), sw.SplitExplicit(10.0, substeps=4))
    assert not calls


SOLVERS = {
    "multigrid": (None, hilly),
    "fast_poisson": (elliptic.ConjugateGradients(elliptic.FastPoisson()), hilly),
    "diagonal": (elliptic.ConjugateGradients(), hilly),
    "spectral": (None, lambda: sw.ShallowWater(GRID, 500.0, engine="arrays")),
    "tridiagonal": (None, lambda: sw.ShallowWater(SPHERE, 4000.0, engine="arrays")),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_an_implicit_step_with_every_solver(name):
    solver, make = SOLVERS[name]
    _, calls = check_steps(make(), sw.SemiImplicit(10.0, solver=solver))
    used = {"multigrid": "cusolver_syevd_ffi", "tridiagonal": "cusparse_gtsv2_ffi"}
    assert calls == ({used[name]} if name in used else set())


def test_levels_of_multigrid_are_separated_without_a_loop():
    """`materialized` is a loop on CPUs, whose condition the host of a GPU would read at each use."""
    sides = Sides(jnp.ones(4), jnp.zeros(4), "")
    text, _ = lowered_for_cuda(lambda x: materialized(x, sides), jnp.ones((3, 4)))
    assert "while" not in text and "optimization_barrier" in text
    on_cpu = jax.jit(lambda x: materialized(x, sides)).lower(jnp.ones((3, 4))).as_text()
    assert "stablehlo.while" in on_cpu


def fused(momentum=None, **more):
    return hilly(engine="fused", momentum=momentum or sw.EnergyConserving(), **more)


def fused_coast():
    momentum, wetting = sw.MomentumConserving(), sw.WettingDrying()
    return sw.ShallowWater(GRID, lambda x, y: x / 1e3 - 30.0, momentum=momentum, wetting=wetting, engine="fused")


LOOPS = {name: (fused, STEPPERS[name]) for name in STEPPERS if name != "forward_backward_hancock"}
LOOPS["open"] = (lambda: fused(boundaries=PARTS["open"]().open_boundaries), STEPPERS["forward_backward"])
LONG = {
    "one stage": (lambda: fused(sw.MomentumConserving()), STEPPERS["forward_backward_hancock"]),
    "coast": (fused_coast, STEPPERS["ssprk3"]),
    "coast in one stage": (fused_coast, lambda: sw.ForwardBackwardHancock(5.0)),
}


MOST_ARRAYS = {"ab2": 15, "forward_backward": 15, "coast in one stage": 40}  # a step: 60 and 160 bytes of float32


def arrays_of_kernels(text):
    """The number of arrays that kernels read and write; `make gpu` counts bytes, in the compiled program."""
    kernels = re.findall(r"custom_call @__gpu\$xla\.gpu\.triton\(.*: \((.*)\) -> (.*)$", text, re.MULTILINE)
    assert kernels
    return sum(len(re.findall(r"tensor<(?!1x)\d+x(?!1x)\d+xf", "".join(types))) for types in kernels)


@pytest.mark.parametrize("name", [*LOOPS, *LONG])
def test_fused_loops_are_kernels_of_the_device(name):
    make, stepper = (LOOPS | LONG)[name]
    text, calls = check_steps(make(), stepper())
    if name in MOST_ARRAYS:
        assert arrays_of_kernels(text) / 2 <= MOST_ARRAYS[name]
    solver = {"cusolver_syevd_ffi"} if name in ("semi_implicit", "rigid_lid") else set()
    assert calls == {"__gpu$xla.gpu.triton"} | solver


# -- derivatives ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["arrays", "fused"])
@pytest.mark.parametrize("name", ["ab2", "rk4", "semi_implicit"])
def test_a_gradient(name, engine):
    ocean, stepper = hilly(engine=engine), STEPPERS[name]()
    dynamics = ocean.dynamics(stepper, steps=3)

    def cost(state):
        return jnp.sum(sw.integrate(dynamics, stepper, state, 3)[0].eta ** 2)

    text, calls = lowered_for_cuda(jax.grad(cost), ocean.state(eta=lambda x, y: 1e-6 * x))
    check_on_device(text, calls)
    assert not BRANCH.search(text) and ("__gpu$xla.gpu.triton" in calls) == (engine == "fused")


def test_the_programs_of_a_gradient_with_checkpoints(monkeypatch):
    """They are lowered as they are called: the CPU's results of one are the arguments of the next."""
    found = []
    plain = jax.jit

    def spying(function, **options):
        compiled = plain(function, **options)

        def call(*arguments, **keywords):
            with lowering_for("NVIDIA H100"):
                found.append(compiled.trace(*arguments, **keywords).lower(lowering_platforms=("cuda",)).as_text())
            return compiled(*arguments, **keywords)

        call.lower, call.trace = compiled.lower, compiled.trace
        return call

    ocean = hilly()
    problem = adjoint.Problem(
        ocean,
        sw.AB2(10.0),
        ocean.state(eta=lambda x, y: 1e-6 * x),
        4,
        adjoint.BoxEnergy(),
        ["initial.eta", "depth"],
        checkpoints=adjoint.Nested(lengths=(2, 2)),
    )
    monkeypatch.setattr(jax, "jit", spying)
    problem.value_and_gradient()
    assert len(found) >= 4
    for text in found:
        check_on_device(text, set(re.findall(r"custom_call @([\w.$]+)", text)))


# -- messages ---------------------------------------------------------------------------------------------------------

VERBS = {
    "shift": lambda c, x: c.shift(x, "x", 1),
    "all_to_all": lambda c, x: c.all_to_all(x.reshape(2, -1), "x"),
    "sum": lambda c, x: c.sum(x),
    "ordered sum": lambda c, x: c.sum(x, ordered=True),
    "replicated": lambda c, x: c.replicated(x),
    "maximum": lambda c, x: c.maximum(x),
    "broadcast": lambda c, x: c.broadcast(x),
    "gather": lambda c, x: c.scatter(c.gather(x, (8, 12))),
}


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_between_devices(verb):
    mesh = ShardedCommunicator((2, 2))
    x = mesh.place(lambda rank: np.ones((4, 6)))
    back = lambda x: jax.vjp(lambda x: VERBS[verb](mesh, x), x)[0]  # noqa: E731
    for function in (lambda x: VERBS[verb](mesh, x), back):
        text, calls = lowered_for_cuda(mesh.spmd(function), x)
        assert not HOST.search(text) and calls <= {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"}
        assert verb == "replicated" or re.search(r"stablehlo\.(collective|all_)", text)


def test_a_call_of_the_cpus_runtime_would_be_found():
    def loop(x):
        return jax.ffi.ffi_call("swmodel_empty", jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    assert lowered_for_cuda(loop, np.ones(3))[1] == {"swmodel_empty"}
    with pytest.raises(AssertionError):
        check_on_device(*lowered_for_cuda(loop, np.ones(3)))
    assert BRANCH.search(lowered_for_cuda(lambda x: jax.lax.cond(x > 0, lambda: x, lambda: -x), 1.0)[0])
    with pytest.raises(ValueError, match="different from the lowering platform"):
        lowered_for_cuda(lambda x: jax.pure_callback(np.sin, x, x), np.ones(3))
