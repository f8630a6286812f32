"""Ensembles of nested grids: each grid of the family steps all members at once, as an Ensemble does."""

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, cast

import jax

from ..errors import ConfigError
from ..fields.state import State
from ..models.ensemble import Ensemble
from ..models.shallow_water import ShallowWater
from ..stepping.loop import FIELD, stacked
from .border import Border
from .family import Family
from .start import state_from_outer

__all__ = ["family_of_members", "member_states_from_outer"]


def family_of_members(
    families: Sequence[Family], states: Sequence[Mapping[str, State]], varied: Mapping[str, Sequence] | None = None
) -> tuple[Family, dict[str, State]]:
    """(a Family of Ensembles, the {name: State} of all members in each grid), for a NestedSimulation; collective.

        family, states = sw.family_of_members([calm, windy], [calm.states(), windy.states()], {"wind": [0.0, 0.1]})
        sw.NestedSimulation(family, states, sw.ForwardBackward(dt=4.0))

    Args:
        families: the Family of each member. Their grids and coasts are the same; a nest makes the most steps that a
            member needs.
        states: {name: State} of each member.
        varied: {name: values, one a member}: what distinguishes the members, kept in files as coordinates.

    Raises:
        ConfigError: for nests that differ in what their places do not show, and as Ensemble.
    """
    first, *others = families
    for k, other in enumerate(others, 1):
        if _frames(other) != _frames(first):
            raise ConfigError(
                f"member {k} of the ensemble has other nests than member 0, and one program steps all members; give "
                "nests of one name the same box, ratio, start, two_way and frame."
            )
    found = copy.copy(first)
    found.steps = {name: max(family.steps[name] for family in families) for name in first.nests}
    ensembles = {
        name: Ensemble([family.models[name] for family in families], [one[name] for one in states], dict(varied or {}))
        for name in first.models
    }
    models: Any = ensembles
    found.models = models
    return found, {name: ensemble.initial for name, ensemble in ensembles.items()}


def _frames(family):
    """What all members share of their nests."""
    return family.places, [
        dataclasses.replace(nest, depth=None, options={}, steps=None) for nest in family.nests.values()
    ]


def member_states_from_outer(
    border: Border,
    outer: ShallowWater | Ensemble,
    inner: ShallowWater | Ensemble,
    state: State,
    uplifts: tuple[jax.Array | None, jax.Array | None],
) -> State:
    """`state_from_outer`, also of all members of Ensembles; collective."""
    if isinstance(outer, ShallowWater) or isinstance(inner, ShallowWater):
        return state_from_outer(border, cast(ShallowWater, outer), cast(ShallowWater, inner), state, uplifts)
    each = []
    for k, (_, around, own) in enumerate(outer.each(state)):
        one, other = (None if uplift is None else uplift[k] for uplift in uplifts)
        each.append(state_from_outer(border, around, inner.models[k], cast(State, own), (one, other)))
    return stacked(inner.communicator, each, (FIELD,) * len(inner.variables))
