"""The adjoint mode: gradients, tangents and Hessian products of costs in controls, on any number of ranks.

problem = adjoint.Problem(model, stepper, state, steps, cost, controls=("initial.eta", "depth"))
J, gradient = problem.value_and_gradient()
"""

from .assimilation.assimilation import Rules
from .assimilation.inversion import Inversion, Restart
from .assimilation.observations import Observations, Truth, gauge_records
from .assimilation.result import Result
from .controls.controls import Control, Transformed, controls_of, names_of
from .core.checkpointing import integrate
from .core.schedules import Nested, Revolve, StoreAll, Tiered
from .costs.costs import (
    BoxContent,
    BoxEnergy,
    Cost,
    FinalState,
    GaugeConcentration,
    GaugeElevation,
    GaugeMaximum,
    Misfit,
    SectionTransport,
    TileCost,
)
from .costs.harmonics import HarmonicConstants, HarmonicMisfit, constants_in
from .costs.marks import Mark, MarkMisfit, marks_in
from .costs.misfits import (
    Current,
    JointMisfit,
    SectionRecord,
    TransportMisfit,
    VelocityMisfit,
    currents_in,
    transports_in,
)
from .costs.records import Record, TrackMisfit, Tracks, read_tracks, records_in, track_records
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
    "Mark",
    "MarkMisfit",
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
    "Tiered",
    "TileCost",
    "TrackMisfit",
    "Tracks",
    "Transformed",
    "TransportMisfit",
    "Truth",
    "VelocityMisfit",
    "constants_in",
    "controls_of",
    "currents_in",
    "dot",
    "gauge_records",
    "integrate",
    "marks_in",
    "names_of",
    "read_tracks",
    "records_in",
    "track_records",
    "transports_in",
]
