"""From an experiment file with [inversion] to its steps and its controls in standard parameters."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...adjoint.assimilation.priors import Setting, joined
from ...errors import ConfigError
from ..parts import part_of

if TYPE_CHECKING:
    from ...adjoint.controls.transforms import Transformed
    from ...fields.state import State
    from ...models.shallow_water import ShallowWater
    from .. import Draft
    from ..inversion import Inversion
    from ..scenario import Run
    from .experiment import Assembly

__all__ = ["EXAMPLE", "check_controls", "section_of", "steps_of", "transformed_of"]

EXAMPLE = """\
    [inversion.observations]
    type = "gauges"
    window = ["15 minute", "2 hour"]
    [[inversion.controls]]
    type = "unit_sources"         # or faults, field, number, balanced
    x = [141, 145.5]
    y = [35, 41]
    spacing = 0.5
    deviation = "2 m\""""


def section_of(draft: Draft) -> Inversion:
    """The section [inversion]; raises ConfigError with an example if it is missing."""
    section = draft.sections.get("inversion")
    if section is None:
        raise ConfigError(f"{draft.file}: the section [inversion] is missing; add one, such as\n{EXAMPLE}")
    return section


def steps_of(section: Inversion, run: Run, dt: float) -> tuple[int, int]:
    """(number of the first step after the spin-up, number of steps of `dt` [s] that are compared with observations)."""
    first = math.ceil(section.spin_up / dt - 1e-6)
    return first, max(math.ceil((section.until or run.until) / dt - 1e-6) - first, 1)


# -- controls ----------------------------------------------------------------------------------------------------------


def transformed_of(section: Inversion, made: Assembly, model: ShallowWater, state: State, dt: float) -> Transformed:
    """The Transformed of all controls of [inversion]; collective.

    Raises:
        ConfigError: for a control that cannot be made; the message has its number.
    """
    setting, found = Setting(model, state, dt), {}
    for k, control in enumerate(section.controls):
        prior = made.attempt(("inversion", "controls", k), part_of, control, made.grid)
        if prior is None:
            continue
        transform = made.attempt(("inversion", "controls", k), prior.transform, setting)
        if transform is not None:
            label = prior.label()
            found[f"{label}_{k}" if label in found else label] = prior, transform
    made.experiment()
    return joined(found, model)


def check_controls(section: Inversion, made: Assembly, model: ShallowWater, state: State, dt: float) -> int | None:
    """The number of unknowns of the controls of [inversion]; their mistakes are collected in `made`.

    Correlations and the sea surface above faults, which take long, are not computed.
    """
    setting, numbers = Setting(model, state, dt), []
    for k, control in enumerate(section.controls):
        prior = made.attempt(("inversion", "controls", k), part_of, control, made.grid)
        numbers.append(prior and made.attempt(("inversion", "controls", k), prior.unknowns, setting))
    return None if None in numbers else sum(numbers)
