"""The adjoint mode: gradients, tangents and Hessian products of costs in controls, on any number of ranks.

problem = adjoint.Problem(model, stepper, state, steps, cost, controls=("initial.eta", "depth"))
J, gradient = problem.value_and_gradient()
"""

from .controls.controls import Control, Transformed, controls_of, names_of
from .core.integration import integrate
from .core.schedules import Nested, Revolve, StoreAll, Tiered
from .costs.concentration import BoxContent, GaugeConcentration
from .costs.costs import BoxEnergy, Cost, FinalState, GaugeElevation, GaugeMaximum, Misfit, SectionTransport, TileCost
from .costs.records import Record
from .problem import Problem, dot

__all__ = [
    "BoxContent", "BoxEnergy", "Control", "Cost", "FinalState", "GaugeConcentration", "GaugeElevation", "GaugeMaximum",
    "Misfit", "Nested", "Problem", "Record", "Revolve", "SectionTransport", "StoreAll", "TileCost", "Tiered",
    "Transformed", "controls_of", "dot", "integrate", "names_of",
]  # fmt: skip
