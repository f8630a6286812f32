"""Derivatives in what layers consist of, on any number of ranks: their fields, densities, thickness and friction."""

from . import cases

pytestmark = cases.MORE_THAN_FOUR + cases.ON_FOUR_TOO
CONTROLS = [
    "initial.eta_3",
    "initial.dye_2",
    "depth",
    "layers.densities",
    "layers.thickness",
    "dissipation.1.coefficient",
]


def test_derivatives_in_the_layers_are_right():
    model, stepper = cases.together("three layers", cases.LAYOUTS[0])
    cases.assert_derivatives(model, stepper, 3, CONTROLS)
