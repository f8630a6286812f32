"""Experiments that follow from another: the members of an ensemble, and one on a coarser grid."""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...errors import ConfigError, SwmodelError
from ...models.ensemble import Ensemble
from ...models.random_fields import SmoothNoise
from .. import Draft, member_drafts
from ..members import value_at
from ..mistakes import dotted
from ..scenario import Output, Rest
from .experiment import Assembly, assemble, model_of
from .fields import state_of

THINNEST = 16  # cells along a direction to which a grid is coarsened, at least


def coarsened(draft: Draft, cut: int) -> Assembly:
    """The Assembly of an experiment on cells that are `cut` times as long and as wide, without outputs.

    The iterations of an elliptic solver are counted on it. With d = cut times the spacing and g' = cut^2 times the
    gravity, the operator of a semi-implicit step has the same coefficients per cell,
    (theta dt / d)^2 g' H = (theta dt / dx)^2 g H: gravity waves cross as many cells in a step. A longer step in place
    of the larger gravity would have the same effect on them, but the Coriolis force, which is explicit, would be
    unstable.

    Depths are those that the file, formula or number gives on such cells, and so are all other fields. An initial state
    in a file, which is one of the original grid, is replaced by rest.

    Args:
        draft: the Draft of the experiment, without mistakes.
        cut: the factor, 1 or more.
    """
    given = draft.sections
    grid, model, initial = given["grid"], given["model"], given["initial"]
    cells = {name: max(-(-n // cut), min(n, THINNEST)) for name, n in (("nx", grid.nx), ("ny", grid.ny))}
    sections = {
        "grid": grid.replaced(**cells),
        "model": model.replaced(gravity=cut**2 * model.gravity),
        "initial": Rest(type="rest") if initial.type == "file" else initial,
        "run": given["run"].replaced(layout=None),
        "output": Output(),
        "adjoint": None,
        "inversion": None,
    }
    return assemble(dataclasses.replace(draft, sections=given | sections), records=1, here=False)


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
        key = key_of_model(varied, k)
        with of_member(k):
            if key not in known:
                known[key] = model_of(_assembly(made, draft, varied), *where)
            state = state_of(draft.sections["initial"], known[key])
        models.append(known[key])
        states.append(_perturbed(state, section, known[key], k))
    return Ensemble(models, states, values_of(drafts, varied))


def key_of_model(varied: Mapping[str, Any], k: int) -> str:
    """The values of member `k` on which its model depends: all but those of [initial]."""
    return repr([v.values[k] for v in varied.values() if v.path[0] != "initial"])


def all_with_the_model(varied: Mapping[str, Any]) -> bool:
    """Whether the members share the objects that are made before the model."""
    return all(v.path[0] in WITH_THE_MODEL for v in varied.values())


def values_of(drafts: Sequence[Draft], varied: Mapping[str, Any]) -> dict[str, Sequence]:
    """{name: the values of the members} of what `varied` names."""
    return {name: [value_at(draft.sections, v.path) for draft in drafts] for name, v in varied.items()}


@contextlib.contextmanager
def of_member(k: int) -> Iterator[None]:
    """Errors that are raised inside become mistakes of member `k`."""
    try:
        yield
    except (SwmodelError, ValueError, OSError) as error:
        texts = getattr(error, "mistakes", None) or [str(error)]
        raise ConfigError([f"of member {k}: {text}" for text in texts]) from error


def in_any_layout(draft: Draft) -> Draft:
    """The Draft of a member without its layout, which has been checked already."""
    return dataclasses.replace(draft, sections=draft.sections | {"run": draft.sections["run"].replaced(layout=None)})


def _assembly(made, draft, varied):
    """The Assembly of a member, which shares the objects that its own keys do not change."""
    if all_with_the_model(varied):
        return dataclasses.replace(made, draft=draft, mistakes=[])
    own = assemble(in_any_layout(draft))
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
