"""Derivatives in what layers consist of, on any number of ranks: their fields, densities, thickness and friction."""

import pytest

import swmodel as sw
from swmodel import elliptic

from . import cases

pytestmark = pytest.mark.verify
CONTROLS = [
    "initial.eta_3",
    "initial.dye_2",
    "depth",
    "layers.densities",
    "layers.thickness",
    "dissipation.1.coefficient",
]


IMPLICIT = sw.SemiImplicit(100.0, solver=elliptic.ConjugateGradients(elliptic.Diagonal(), 1e-13))


@pytest.mark.parametrize(
    "implicit", (None, pytest.param(IMPLICIT, marks=pytest.mark.verify)), ids=("explicit", "under an implicit surface")
)
def test_derivatives_in_the_layers_are_right(implicit):
    walls = {} if implicit is None else {"boundaries": ()}
    model, stepper = cases.together("three layers", cases.LAYOUTS[0], **walls)
    stepper = implicit or stepper
    cases.assert_derivatives(model, stepper, 3, CONTROLS)
