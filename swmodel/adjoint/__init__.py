"""The adjoint mode: gradients, tangents and Hessian products of costs in controls, on any number of ranks.

problem = adjoint.Problem(model, stepper, state, steps, cost, controls=("initial.eta", "depth"))
J, gradient = problem.value_and_gradient()

Names are loaded when they are first used: a run whose experiment has a section [adjoint] needs few of them.
"""

from ..runtime.packages import loaded_when_used

_HOMES = {
    "assimilation.assimilation": ("Rules",),
    "assimilation.inversion": ("Inversion", "Restart"),
    "assimilation.observations": ("Observations", "Truth", "gauge_records"),
    "assimilation.result": ("Result",),
    "controls.controls": ("Control", "Transformed", "controls_of", "names_of"),
    "core.checkpointing": ("integrate",),
    "core.schedules": ("Nested", "Revolve", "StoreAll", "Tiered"),
    "costs.costs": (
        "BoxContent",
        "BoxEnergy",
        "Cost",
        "FinalState",
        "GaugeConcentration",
        "GaugeElevation",
        "GaugeMaximum",
        "Misfit",
        "SectionTransport",
        "TileCost",
    ),
    "costs.harmonics": ("HarmonicConstants", "HarmonicMisfit", "constants_in"),
    "costs.marks": ("Mark", "MarkMisfit", "marks_in"),
    "costs.misfits": (
        "Current",
        "JointMisfit",
        "SectionRecord",
        "TransportMisfit",
        "VelocityMisfit",
        "currents_in",
        "transports_in",
    ),
    "costs.records": ("Record", "TrackMisfit", "Tracks", "read_tracks", "records_in", "track_records"),
    "problem": ("Problem", "dot"),
}
__getattr__, __all__ = loaded_when_used(__name__, _HOMES)
