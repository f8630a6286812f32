"""Derivatives in what layers consist of, on any number of ranks: their fields, densities, thickness and friction."""

import numpy as np
import pytest

import swmodel as sw
from swmodel import adjoint, elliptic

from . import cases

pytestmark = pytest.mark.verify
CONTROLS = "initial.eta_3 initial.dye_2 depth layers.densities layers.thickness dissipation.1.coefficient".split()


IMPLICIT = sw.SemiImplicit(100.0, solver=elliptic.ConjugateGradients(elliptic.Diagonal(), 1e-13))


@pytest.mark.parametrize(
    "implicit", (None, pytest.param(IMPLICIT, marks=pytest.mark.verify)), ids=("explicit", "under an implicit surface")
)
def test_derivatives_in_the_layers_are_right(implicit):
    walls = {} if implicit is None else {"boundaries": ()}
    model, stepper = cases.together("three layers", cases.LAYOUTS[0], **walls)
    stepper = implicit or stepper
    cases.assert_derivatives(model, stepper, 3, CONTROLS)


def gradient(model, stepper):
    """{name: dJ/dvalue} of the energy of all layers after ten steps, for fields of this rank's tile."""
    moving = [name for name in CONTROLS if "dye" not in name]  # a tracer is passive
    problem = adjoint.Problem(model, stepper, cases.start(model), 10, adjoint.BoxEnergy(), moving)
    return {name: np.asarray(x) for name, x in problem.value_and_gradient()[1].items()}


@pytest.fixture(scope="module")
def of_one_rank():
    return cases.from_root(lambda: gradient(*cases.alone("three layers")))


@pytest.mark.skipif(cases.RANKS == 1, reason="that is the one")
@pytest.mark.parametrize("engine", ("arrays", "fused"))
def test_the_gradient_in_the_layers_is_that_of_one_rank(engine, of_one_rank):
    model, stepper = cases.together("three layers", cases.LAYOUTS[0], engine=engine)
    found = gradient(model, stepper)
    for name, expected in of_one_rank.items():
        ours = expected[model.tile.slices] if expected.ndim == 2 else expected
        assert np.isfinite(expected).all() and np.abs(expected).max() > 0
        np.testing.assert_allclose(found[name], ours, rtol=0, atol=1e-11 * np.abs(expected).max(), err_msg=name)
