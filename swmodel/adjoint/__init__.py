"""The adjoint mode: gradients, tangents and Hessian products of costs in controls, on any number of ranks.

problem = adjoint.Problem(model, stepper, state, steps, cost, controls=("initial.eta", "depth"))
J, gradient = problem.value_and_gradient()
"""

from .assimilation.assimilation import Rules
from .assimilation.inversion import Inversion, Restart
from .assimilation.observed import Observations, Truth
from .assimilation.result import Result
from .controls.controls import Control, Transformed, controls_of, names_of
from .core.integration import integrate
from .core.schedules import Nested, Revolve, StoreAll, Tiered
from .costs.concentration import BoxContent, GaugeConcentration
from .costs.costs import BoxEnergy, Cost, FinalState, GaugeElevation, GaugeMaximum, Misfit, SectionTransport, TileCost
from .costs.harmonics import HarmonicConstants, HarmonicMisfit
from .costs.misfits import Current, SectionRecord, TransportMisfit, VelocityMisfit
from .costs.records import Record
from .costs.sums import JointMisfit
from .costs.tracks import TrackMisfit, Tracks
from .problem import Problem, dot

__all__ = [
    "BoxContent",
    "BoxEnergy",
    "Control",
    "Cost",
    "Current",
    "FinalState",
    "GaugeConcentration",
    "GaugeElevation",
    "GaugeMaximum",
    "HarmonicConstants",
    "HarmonicMisfit",
    "Inversion",
    "JointMisfit",
    "Misfit",
    "Nested",
    "Observations",
    "Problem",
    "Record",
    "Restart",
    "Result",
    "Revolve",
    "Rules",
    "SectionRecord",
    "SectionTransport",
    "StoreAll",
    "TileCost",
    "Tiered",
    "TrackMisfit",
    "Tracks",
    "Transformed",
    "TransportMisfit",
    "Truth",
    "VelocityMisfit",
    "controls_of",
    "dot",
    "integrate",
    "names_of",
]
