"""Fields and numbers derived from a state: further variables of files, and the invariants of the equations.

Fields are functions of LayerFlow (halos filled) and give a Field at the position that fields.variables states.
Numbers are sums over all ranks: volume, energy, potential enstrophy. All are differentiable.
"""

from typing import Any

import jax
import jax.numpy as jnp

from ..dynamics.transport import divergence
from ..fields.field import AbstractField, Field
from ..fields.operators import mean_x, mean_y
from ..fields.variables import PROGNOSTIC
from ..parallel.halo import without_padding

__all__ = ["FIELDS", "energy", "field", "flow_of", "names_of", "potential_enstrophy", "total", "volume"]


def _speed(flow):
    squared = mean_x(flow.u * flow.u) + mean_y(flow.v * flow.v)
    return squared.map(lambda s: jnp.where(s > 0, jnp.sqrt(jnp.where(s > 0, s, 1.0)), 0.0))  # no NaN in its derivative


FIELDS = {
    **{row.name: lambda flow, name=row.name: flow.state[name] for row in PROGNOSTIC},
    "thickness": lambda flow: flow.h,
    "vorticity": lambda flow: flow.vorticity,
    "potential_vorticity": lambda flow: flow.q,
    "divergence": lambda flow: divergence(flow.u, flow.v, flow.geometry),
    "speed": _speed,
    "kinetic_energy": lambda flow: flow.kinetic_energy,
    "transport_x": lambda flow: flow.U,
    "transport_y": lambda flow: flow.V,
    "depth": lambda flow: flow.equations.depth_at(flow.time),
}


def flow_of(equations: Any, state: Any, time: Any, rigid_lid: bool = False) -> Any:
    """The LayerFlow of a State.

    Args:
        equations: the System, prepared.
        state: the State that is stepped.
        time: its Time, or a number of steps.
        rigid_lid: whether eta is the pressure on a rigid lid, which is no part of the thickness; eta is then 0 here.
    """
    return equations.flow(state.replace(eta=0.0 * state.eta) if rigid_lid else state, time)


def names_of(model: Any) -> list[str]:
    """The names of all fields that the files of a model's runs can hold."""
    return list(dict.fromkeys([*FIELDS, *(row.name for row in model.variables)]))


def field(name: str, flow: Any) -> AbstractField:
    """The Field of this name, in the units and at the position of files."""
    return FIELDS[name](flow) if name in FIELDS else flow.shown(name)


def total(field: Field, flow: Any, ordered: bool = False) -> jax.Array:
    """The sum of a Field of LayerFlow over the cells of all tiles; in a fixed order if `ordered`."""
    own = without_padding(field.interior, flow.geometry.tile.sides)
    return flow.equations.communicator.sum(jnp.sum(own), ordered=ordered)


def volume(flow: Any) -> jax.Array:
    """The water above rest, sum of area eta [m3]: constant in a closed domain."""
    return total(flow.geometry.wet_area * flow.eta, flow)


def energy(flow: Any) -> jax.Array:
    """Kinetic and potential energy over density, sum of area (h K + g eta^2 / 2) [m5 s-2]."""
    kinetic = flow.h * flow.kinetic_energy
    potential = 0.5 * flow.gravity * (flow.eta * flow.eta)
    return total(flow.geometry.wet_area * (kinetic + potential), flow)


def potential_enstrophy(flow: Any) -> jax.Array:
    """Sum of area h_q q^2 / 2 over corners [m s-2]."""
    return total(0.5 * flow.geometry.area_q * (flow.h_q * (flow.q * flow.q)), flow)
