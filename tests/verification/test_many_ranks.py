"""As many ranks as tiles of a few cells, many more than cores, give what one rank gives."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from swmodel.runtime import launch

from . import many_ranks

needs_mpi = pytest.mark.skipif(not launch.mpi_installed(), reason="needs mpi4py and mpi4jax")


@pytest.fixture(scope="module")
def alone():
    return many_ranks.run("serial")


@needs_mpi
@pytest.mark.parametrize("ranks", [pytest.param(ranks, marks=pytest.mark.verify) for ranks in (16, 64)])
def test_oversubscribed_ranks_equal_one(ranks, alone, tmp_path):
    file = tmp_path / "state.npz"
    environment = {**launch.mpirun_environment(), "JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [*launch.mpirun(ranks), sys.executable, str(Path(many_ranks.__file__)), str(file)]
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        said, _ = process.communicate(timeout=1500)
    finally:
        launch.stop(process)
    assert process.returncode == 0, said
    with np.load(file) as together:
        for name, expected in alone.items():
            assert np.isfinite(expected).all() and np.ptp(expected) > 0
            np.testing.assert_allclose(together[name], expected, rtol=0, atol=1e-12 * np.abs(expected).max())
