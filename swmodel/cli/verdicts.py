"""The results of `swmodel adjoint --verify` as a table, and warnings about them."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

from . import logs
from .facts import columns

if TYPE_CHECKING:
    from ..adjoint.verification import Verdict

__all__ = ["verdict_table", "warn_of"]


def verdict_table(verdicts: Sequence[Verdict]) -> str:
    """A row for each control."""
    heads = ("control", "amplitude", "dot product", "rate", "second", "nonlinear by", "")
    rows: list[tuple[str, ...]] = [heads]
    for v in verdicts:
        share = {math.inf: "no effect"}.get(v.nonlinearity, f"{100 * v.nonlinearity:.3g} %")
        share = "blows up" if math.isnan(v.nonlinearity) else share
        size = f"{v.amplitude:.3g} {v.units}".removesuffix(" 1")
        found = (
            f"{v.dot_product:.1e}",
            f"{v.taylor.rate:.3f}",
            "-" if v.taylor.second is None else f"{v.taylor.rate_second:.3f}",
        )
        rows.append((v.control, size, *found, share, _judgement(v)))
    return columns(rows, len(heads))


def _judgement(v):
    ok = "ok" if not v.agreed else f"ok over {v.agreed} steps"
    return "WRONG" if not v.passed else ok if v.judged_by_rate else f"{ok} by the dot product"


def warn_of(verdicts: Sequence[Verdict], given: Container[str]) -> None:
    """Log warnings about derivatives that hold for small changes or in part; `given` has controls with an amplitude."""
    from ..adjoint.verification.verification import NONLINEARITY

    if parted := [v.control for v in verdicts if v.passed and v.agreed]:
        logs.LOGGER.warning(
            "%s: the dot product is that of rounding over the first steps alone. Where branches of a kink meet, "
            "rounding decides which one the tangent and the adjoint take; from there on they are not compared.",
            ", ".join(parted),
        )
    unjudged = [v.control for v in verdicts if v.passed and not v.judged_by_rate]
    if unjudged:
        logs.LOGGER.warning(
            "%s: the rates do not judge the derivative, because the scheme has kinks (limiters, sides upstream, wet "
            "and dry cells) that perturbed runs cross; the dot product does.",
            ", ".join(unjudged),
        )
    for v in verdicts:
        name = v.control
        whose = "the amplitude given" if v.control in given else "the usual amplitude"
        amplitude = f"at {whose} of {v.amplitude:.3g} {v.units}"
        if math.isnan(v.nonlinearity):
            logs.LOGGER.warning("%s: %s the nonlinear model does not stay finite; give a smaller one.", name, amplitude)
        elif math.isinf(v.nonlinearity):
            logs.LOGGER.warning("%s: changes nothing in this run.", name)
        elif v.nonlinearity > NONLINEARITY:
            logs.LOGGER.warning(
                "%s: %s the nonlinear model's perturbations differ from the tangent-linear one's by %.0f %%, more than "
                "%.0f %%: the derivative does not hold for changes of this size, only for smaller ones.",
                name,
                amplitude,
                100 * v.nonlinearity,
                100 * NONLINEARITY,
            )
