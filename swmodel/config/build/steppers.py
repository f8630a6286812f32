"""The time stepper of an experiment, its solver, and its time step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError
from ...fields.parameters import MOST
from ..mistakes import Mistake
from ..parts import arguments_of, part_of
from .fields import is_evaluated_whole

if TYPE_CHECKING:
    from ...stepping.explicit import TimeStepper
    from ...stepping.stability import Limit
    from ..experiment import Experiment
    from .experiment import Assembly

MORE, SAFE = 1.05, 0.9  # so much of `fraction`, and of the longest stable step, dt = "auto" may be, to fit intervals


def stepper_of(section: Any, dt: float = 1.0) -> TimeStepper:
    """The time stepper of a [stepper] section, with time step `dt` [s]."""
    options = arguments_of(section) | {"dt": dt}
    if "solver" in options:
        options["solver"] = _solver(section)
    return section.part(**options)


def _solver(section):
    """The elliptic.Solver that a [stepper] section names; None for "auto"."""
    from ... import elliptic

    if section.solver == "auto":
        return None
    if isinstance(section.solver, type):
        return section.solver()
    options = {name: value for name, value in section if name in ("tolerance", "iterations") and value is not None}
    if section.preconditioner is not None:
        kinds = {"diagonal": "Diagonal", "fast_poisson": "FastPoisson", "multigrid": "Multigrid"}
        options["preconditioner"] = getattr(elliptic, kinds[section.preconditioner])()
    return elliptic.named(section.solver, **options)


def time_step(experiment: Experiment, limits: Sequence[Limit]) -> float:
    """dt [s]: that of the file, or about a fraction of the longest stable one, which divides the output intervals.

    Raises:
        ConfigError: if the file's dt is not stable; the message names the limit and its place.
    """
    dt = _time_step(experiment, limits)
    steps = experiment.run.until / dt
    if steps > MOST:
        raise ConfigError(
            f"{steps:.3g} steps of {dt:.3g} s would be needed until {experiment.run.until:.3g} s, and steps are "
            f"counted to {MOST:,}; use a longer step, or a shorter run"
        )
    return dt


def _time_step(experiment, limits):
    from ...stepping.stability import largest_time_step

    dt = experiment.stepper.dt
    if dt == "auto":
        if not limits:
            raise ConfigError(f"nothing limits the time step of {experiment.stepper.type} here; give dt in seconds")
        longest, fraction = largest_time_step(limits), experiment.stepper.fraction
        most = max(fraction, min(MORE * fraction, SAFE))
        wanted, (every, ends) = fraction * longest, _intervals(experiment)
        both = (*every, *ends)
        return dividing_step(wanted, most * longest, both if _common(both) >= wanted / 10 else every)
    if limits and dt > limits[0].dt:
        raise ConfigError(too_long(experiment.stepper, limits))
    return dt


def too_long(section: Any, limits: Sequence[Limit]) -> str:
    """The sentence for a time step over its limit."""
    from ...stepping.stability import largest_time_step

    return (
        f"{section.dt:g} s is over the limit of {section.type}, {limits[0]}; "
        f'use dt = "auto", or at most {0.9 * largest_time_step(limits):.3g} s'
    )


def unstable(made: Assembly) -> list[Mistake]:
    """The mistake of a time step over the limit of gravity waves, for an Assembly that has other mistakes; or none."""
    import swmodel as sw

    from ...parallel import SerialCommunicator
    from ...stepping.stability import limits

    model, stepper = made.section("model"), made.section("stepper")
    if made.bathymetry is None or model is None or stepper is None or stepper.dt == "auto":
        return []
    if not is_evaluated_whole(made.grid):
        return []
    wetting = (
        {} if model.wetting is None else {"wetting": part_of(model.wetting, None), "momentum": sw.MomentumConserving()}
    )
    waves = sw.ShallowWater(
        made.grid,
        made.bathymetry,
        gravity=model.gravity,
        layers=part_of(made.section("layers"), None),
        communicator=SerialCommunicator(),
        dtype="float32",
        **wetting,
    )
    found = limits(waves, stepper_of(stepper))
    return [Mistake(("stepper", "dt"), too_long(stepper, found))] if found and stepper.dt > found[0].dt else []


def _intervals(experiment):
    """(the intervals of the output, else the length of the run; the lengths of the studies) [s]."""
    outputs = [experiment.output, *(nest.output for nest in experiment.nest if nest.output is not None)]
    repeated = [one for output in outputs for one in (*output.fields, output.gauges, output.spectra, output.restart)]
    every = [section.every for section in repeated if section is not None and section.every is not None]
    studies = [study for study in (experiment.adjoint, experiment.inversion) if study is not None]
    return every or [experiment.run.until], [study.until or experiment.run.until for study in studies]


def _common(intervals):
    """The greatest common divisor, to the millisecond [s]."""
    return math.gcd(*(round(1000 * interval) for interval in intervals)) / 1000


def dividing_step(wanted: float, most: float, intervals: Sequence[float]) -> float:
    """The longest dt up to `wanted` of which every interval is a whole multiple, to the millisecond [s].

    If that is shorter than `wanted` by more than a tenth, as where few steps fit into an interval, the next longer one
    is taken, provided that it is at most `most`.
    """
    common = _common(intervals)
    if common < wanted / 10:  # no useful common divisor: outputs then fall on the nearest step
        return wanted
    steps = math.ceil(common / wanted)
    if steps > 1 and common < 0.9 * steps * wanted and common <= most * (steps - 1):
        steps -= 1
    return common / steps
