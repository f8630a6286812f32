"""The script of docs/guide/parallel_tools.md gives what numpy does on the whole domain, on any number of ranks."""

import jax
import numpy as np
import pytest

from tests.unit.test_documents import ROOT, blocks

pytestmark = pytest.mark.verify


def laplacian(c):
    """Periodic along x; c is zero beyond the walls."""
    wide = np.pad(c, ((1, 1), (0, 0)))
    return np.roll(c, 1, 1) + np.roll(c, -1, 1) + wide[2:] + wide[:-2] - 4 * c


def biharmonic(c):
    return laplacian(laplacian(np.pad(c, ((2, 2), (0, 0)))))[2:-2]


@pytest.fixture(scope="module")
def script():
    names = {"__name__": "parallel_tools"}
    for _, code in blocks(ROOT / "docs" / "guide" / "parallel_tools.md", "python"):
        with jax.numpy_dtype_promotion("standard"):  # as in a user's script
            exec(code, names)
    return names


def test_stencils_and_gradients_are_those_of_the_whole_domain(script):
    whole = script["whole"]
    (by_coefficient,) = {float(x) for x in script["communicator"].tiles(script["by_coefficient"]).values()}
    assert by_coefficient == pytest.approx(2 * 0.5 * np.sum(biharmonic(whole) ** 2), rel=1e-12)
    if script["communicator"].is_root:
        np.testing.assert_allclose(script["whole_rough"], biharmonic(whole), rtol=0, atol=1e-12)
        wanted = 2 * 0.5**2 * biharmonic(biharmonic(whole))
        np.testing.assert_allclose(script["whole_gradient"], wanted, rtol=0, atol=1e-10)


def test_the_transform_and_the_solution_are_those_of_the_whole_domain(script):
    if not script["communicator"].is_root:
        return
    mirrored = np.concatenate([script["whole"], script["whole"][::-1]])  # even about the walls
    ky, kx = 2 * np.pi * np.fft.fftfreq(90, 1e3), 2 * np.pi * np.fft.rfftfreq(61, 1e3)
    response = np.exp(-(ky[:, None] ** 2 + kx**2) * 3e3**2 / 2)
    wanted = np.fft.irfft2(np.fft.rfft2(mirrored) * response, s=mirrored.shape)[:45]
    np.testing.assert_allclose(script["smoothed"], wanted, rtol=0, atol=1e-13)
    phi, b = script["whole_phi"], script["whole"] - script["whole"].mean()
    near_walls = np.zeros_like(phi)
    near_walls[[0, -1]] = phi[[0, -1]]  # no flux: a wall adds the cell itself
    np.testing.assert_allclose((laplacian(phi) + near_walls) / 1e6, b, rtol=0, atol=1e-4)
