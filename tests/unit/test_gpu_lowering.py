"""Programs of a run lower for CUDA, without a GPU; they hold no call of the CPU's runtime, and none of the host."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.simulation.monitors import Health
from swmodel.simulation.program import advance, start_carry
from swmodel.simulation.simulation import Simulation
from swmodel.stepping.loop import pack_state

GRID = sw.CartesianGrid(16, 12, (0.0, 1.6e5), (0.0, 1.2e5))
STEPPERS = {
    "AB2": lambda: sw.AB2(10.0),
    "ForwardBackward": lambda: sw.ForwardBackward(10.0),
    "RK4": lambda: sw.RK4(10.0),
    "SSPRK3": lambda: sw.SSPRK3(10.0),
    "SemiImplicit": lambda: sw.SemiImplicit(10.0),
    "RigidLid": lambda: sw.RigidLid(10.0),
}
HOST = re.compile(r"callback|infeed|outfeed|stablehlo\.(send|recv)")


def lowered_for_cuda(function, *arguments):
    text = jax.jit(function).trace(*arguments).lower(lowering_platforms=("cuda",)).as_text()
    return text, set(re.findall(r"custom_call @([\w.$]+)", text))


def model():
    return sw.ShallowWater(
        GRID, 500.0, coriolis=sw.FPlane(1e-4), dissipation=(sw.Laplacian(100.0), sw.ManningDrag(0.02)), engine="arrays"
    )


@pytest.mark.parametrize("name", STEPPERS)
def test_a_chunk_of_steps_with_its_monitors(tmp_path, name):
    ocean = model()
    run = Simulation(ocean, ocean.at_rest(), STEPPERS[name]()).gauges(tmp_path / "gauges.nc", {"a": (5e4, 5e4)})
    if name != "RigidLid":
        run.maxima(tmp_path / "maxima.nc")
    monitors, dynamics = (run._maxima, run._gauges, Health.of(ocean, run.dt), run._products), run._dynamics()
    carry = start_carry(run, monitors, pack_state(dynamics, run.stepper, (run.state, run.history)))
    count = jnp.int32(8)
    text, calls = lowered_for_cuda(advance, dynamics, run.stepper, carry, monitors, jnp.int32(0), count)
    assert "stablehlo.while" in text and not HOST.search(text)
    assert not calls, calls


@pytest.mark.parametrize("name", ["AB2", "RK4", "SemiImplicit"])
def test_a_gradient(name):
    ocean, stepper = model(), STEPPERS[name]()
    dynamics = ocean.dynamics(stepper, steps=3)

    def cost(state):
        return jnp.sum(sw.integrate(dynamics, stepper, state, 3)[0].eta ** 2)

    text, calls = lowered_for_cuda(jax.grad(cost), ocean.state(eta=lambda x, y: 1e-6 * x))
    assert not HOST.search(text) and not calls, calls


def test_a_call_of_the_cpus_runtime_would_be_found():
    def loop(x):
        return jax.ffi.ffi_call("swmodel_empty", jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    assert lowered_for_cuda(loop, np.ones(3))[1] == {"swmodel_empty"}
    with pytest.raises(ValueError, match="different from the lowering platform"):
        lowered_for_cuda(lambda x: jax.pure_callback(np.sin, x, x), np.ones(3))
