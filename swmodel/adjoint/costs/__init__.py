"""Costs: what is read of a run, and the number J that is made of it."""

from .costs import (
    BoxEnergy,
    Cost,
    FinalState,
    GaugeElevation,
    GaugeMaximum,
    Misfit,
    Record,
    SectionTransport,
    TileCost,
)

__all__ = [
    "BoxEnergy",
    "Cost",
    "FinalState",
    "GaugeElevation",
    "GaugeMaximum",
    "Misfit",
    "Record",
    "SectionTransport",
    "TileCost",
]
