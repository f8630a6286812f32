"""Dot-product and Taylor tests of a user's own problem."""

from .examination import DOT_PRODUCT, Probe
from .verification import (
    NONLINEARITY,
    RATE,
    RATE_SECOND,
    Taylor,
    Verdict,
    default_amplitudes,
    runs_of,
    taylor_test,
    units_of,
    verify,
)

__all__ = [
    "DOT_PRODUCT",
    "NONLINEARITY",
    "RATE",
    "RATE_SECOND",
    "Probe",
    "Taylor",
    "Verdict",
    "default_amplitudes",
    "runs_of",
    "taylor_test",
    "units_of",
    "verify",
]
