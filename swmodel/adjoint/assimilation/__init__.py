"""Strong-constraint 4D-Var: observations, background errors, minimisation and posterior variance."""

from .assimilation import (
    Analysis,
    Departures,
    FourDVar,
    Loop,
    Rules,
    Tangent,
    incremental,
    resumed,
)

__all__ = [
    "Analysis",
    "Departures",
    "FourDVar",
    "Loop",
    "Rules",
    "Tangent",
    "incremental",
    "resumed",
]
