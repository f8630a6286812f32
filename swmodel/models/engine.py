"""The choice of a model's step loop: fused loops where every rank can compile them, else arrays."""

import functools
import logging

import jax

from ..dynamics.cores import Discretisation
from ..parallel.communicator import Communicator
from ..stencils.native import why_not
from ..stepping.fused import FusedStepLoop
from ..stepping.steps import ArrayStepLoop, StepLoop

__all__ = ["kind_of_loop"]


def kind_of_loop(engine: str, communicator: Communicator, core: Discretisation) -> type[StepLoop]:
    """The class of StepLoop for an engine's name, the same on every rank."""
    if engine not in ("auto", "fused", "arrays"):
        raise ValueError(f"ShallowWater: engine = {engine!r} is not known; use 'auto', 'fused' or 'arrays'.")
    if engine == "fused" and not core.halos:
        raise ValueError(
            f"ShallowWater: engine = 'fused' makes loops of differences, and {type(core).__name__} has none; "
            "use engine = 'auto'."
        )
    if engine == "arrays" or not core.halos:
        return ArrayStepLoop
    if jax.default_backend() != "cpu":
        return FusedStepLoop
    reasons = [reason for reason in communicator.host_gather(why_not()) if reason is not None]
    if reasons and engine == "fused":
        raise ValueError(
            "ShallowWater: engine = 'fused' needs a C++ compiler on every rank (g++, or the one that CXX names); "
            f"install one, or use engine = 'auto' or 'arrays'. The reason: {reasons[0]}"
        )
    if reasons and communicator.is_root:
        _warn_once(reasons[0])
    return ArrayStepLoop if reasons else FusedStepLoop


@functools.cache
def _warn_once(sentence):
    logging.getLogger("swmodel").warning("%s", sentence)
