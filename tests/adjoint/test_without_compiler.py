"""The adjoint needs no loop compiler: on arrays it runs, and it is the derivative of the run."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json
from unittest import mock
import jax
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
import numpy as np
import swmodel as sw
from swmodel import adjoint
from swmodel.adjoint import verification
from swmodel.stencils import native
from swmodel.stepping import loop

grid = sw.CartesianGrid(9, 7, (0.0, 9e3), (0.0, 7e3))
depth = lambda x, y: np.where((x > 4e3) & (x < 6e3) & (y > 3e3) & (y < 5e3), 0.0, 100.0 + 1e-3 * x)
friction = sw.Laplacian(10.0), sw.QuadraticDrag(2e-3)
model = sw.ShallowWater(grid, depth, coriolis=sw.FPlane(1e-4), dissipation=friction, communicator="serial")
bump = lambda x, y: np.exp(-((x - 2e3) ** 2 + (y - 2e3) ** 2) / 4e6)
state, stepper = model.state(u=0.1, eta=bump), sw.AB2(4.0)
cost = adjoint.FinalState(lambda s, equations: jnp.sum(s.eta**2) + jnp.sum(s.u * s.v))
problem = adjoint.Problem(model, stepper, state, 12, cost, ["initial.eta", "depth"])
verdicts = verification.verify(problem, second=False)
with mock.patch("jax.default_backend", lambda: "gpu"):  # whose kernels need no C++ compiler
    on_gpu = loop.obstacle(model.dynamics(stepper), stepper)
print(json.dumps({
    "engines": [model.engine, sw.Simulation(model, state, stepper).engine[1]],
    "usable": native.usable(),
    "on_gpu": on_gpu,
    "passed": {verdict.control: bool(verdict.passed) for verdict in verdicts},
}))
"""


@pytest.mark.verify
def test_without_a_compiler_gradients_pass_dot_product_and_taylor_tests(tmp_path):
    environment = {
        **os.environ,
        "CXX": "false",
        "XDG_CACHE_HOME": str(tmp_path),
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["engines"] == ["arrays", "no C++ compiler works here"] and not found["usable"]
    assert found["on_gpu"] == "engine = 'arrays' was chosen"
    assert found["passed"] == {"initial.eta": True, "depth": True}
    assert not list(tmp_path.rglob("*.so"))
