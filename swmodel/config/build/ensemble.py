"""From an experiment file with [ensemble] to an Ensemble: a model and a state for each member."""

import dataclasses
from typing import Any

from ...errors import ConfigError, SwmodelError
from ...models.ensemble import Ensemble
from ...models.noise import SmoothNoise
from .. import member_drafts
from ..members import value_at
from ..mistakes import dotted
from .experiment import Assembly, assemble, model_of, state_of

__all__ = ["ensemble_of"]

# Sections whose objects are made together with the model. Those of others (sea floor, wind, source) are made before.
WITH_THE_MODEL = ("initial", "model", "coriolis", "dissipation", "boundary")


def ensemble_of(made: Assembly, *where: Any) -> Ensemble:
    """The Ensemble of an Assembly without mistakes; collective.

    Args:
        made: the Assembly of the file.
        where: communicator, layout and engine, as for `model_of`.

    Raises:
        ConfigError: if a member cannot be made, or one program cannot step it with the others.
    """
    section: Any = made.experiment().ensemble
    drafts, varied = member_drafts(made.draft), section.varied
    models, states, known = [], [], {}
    for k, draft in enumerate(drafts):
        key = repr([v.values[k] for v in varied.values() if v.path[0] != "initial"])
        try:
            if key not in known:
                known[key] = model_of(_assembly(made, draft, varied), *where)
            state = state_of(draft.sections["initial"], known[key])
        except (SwmodelError, ValueError, OSError) as error:
            texts = getattr(error, "mistakes", None) or [str(error)]
            raise ConfigError([f"of member {k}: {text}" for text in texts]) from error
        models.append(known[key])
        states.append(_perturbed(state, section, known[key], k))
    return Ensemble(
        models, states, {name: [value_at(d.sections, v.path) for d in drafts] for name, v in varied.items()}
    )


def _assembly(made, draft, varied):
    """The Assembly of a member, which shares the objects that its own keys do not change."""
    if all(v.path[0] in WITH_THE_MODEL for v in varied.values()):
        return dataclasses.replace(made, draft=draft, mistakes=[])
    any_layout = draft.sections["run"].model_copy(update={"layout": None})  # the layout has been checked already
    own = assemble(dataclasses.replace(draft, sections={**draft.sections, "run": any_layout}))
    if own.mistakes:
        raise ConfigError([f"{dotted(m.path)}: {m.text}" for m in own.mistakes])
    return own


def _perturbed(state, section, model, k):
    """The State with the noise of member k; member 0 has no noise, as the reference for the others."""
    if section.perturbation is None or k == 0:
        return state
    noise = SmoothNoise(model.grid, section.radius, (section.seed, k))
    amplitude = section.perturbation
    elevation = noise.map(lambda noise, wet: amplitude * noise * wet, model.sea_floor.wet)
    return state.replace(eta=state.eta + model.domain.cut(elevation))
