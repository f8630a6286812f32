"""The adjoint mode: gradients, tangents and Hessian products of costs in controls, on any number of ranks.

    problem = adjoint.Problem(model, stepper, state, steps, cost, controls=("initial.eta", "depth"))
    J, gradient = problem.value_and_gradient()
"""
from .checkpointing import integrate
from .controls import Control, Transformed, controls_of, names_of
from .costs import BoxEnergy, Cost, FinalState, GaugeElevation, GaugeMaximum, Misfit, SectionTransport, TileCost
from .problem import Problem, dot
from .records import Record
from .schedules import Nested, Revolve, StoreAll, Tiered

__all__ = [
    "BoxEnergy", "Control", "Cost", "FinalState", "GaugeElevation", "GaugeMaximum", "Misfit", "Nested", "Problem",
    "Record", "Revolve", "SectionTransport", "StoreAll", "TileCost", "Tiered", "Transformed", "controls_of", "dot",
    "integrate", "names_of",
]  # fmt: skip
