"""Fields and numbers derived from a state: further variables of files, and the invariants of the equations.

Fields are functions of LayerFlow (halos filled) and give a Field at the position that fields.variables states.
Numbers are sums over all ranks: volume, energy, potential enstrophy. All are differentiable.
"""

import functools
import operator
from typing import cast

import jax
import jax.numpy as jnp

from ..dynamics.domain import Model
from ..dynamics.layer import LayerFlow, divergence, over_deep_water
from ..fields.field import AbstractField, Field, mean_x, mean_xy, mean_y
from ..fields.variables import INTERFACES, in_layer, layer_of
from ..parallel.halo import without_padding


def _speed(flow):
    squared = mean_x(flow.u * flow.u) + mean_y(flow.v * flow.v)
    return squared.map(lambda s: jnp.where(s > 0, jnp.sqrt(jnp.where(s > 0, s, 1.0)), 0.0))  # no NaN in its derivative


FIELDS = {
    "u": lambda flow: flow.u,
    "v": lambda flow: flow.v,
    "eta": lambda flow: flow.eta,
    "thickness": lambda flow: flow.h,
    "vorticity": lambda flow: flow.vorticity,
    "potential_vorticity": lambda flow: flow.q,
    "divergence": lambda flow: divergence(flow.u, flow.v, flow.geometry),
    "speed": _speed,
    "velocity_x": lambda flow: mean_x(flow.u),
    "velocity_y": lambda flow: mean_y(flow.v),
    "kinetic_energy": lambda flow: flow.kinetic_energy,
    "transport_x": lambda flow: flow.U,
    "transport_y": lambda flow: flow.V,
    "depth": lambda flow: flow.equations.depth_at(flow.time),
}


def in_all_layers(name: str, model: Model) -> list[str]:
    """The names of a field in each layer, as "u" and "u_2"; of a field that no layer has of its own, its name alone."""
    if name == INTERFACES:
        return [in_layer(name, k) for k in range(model.layer_count + 1)]
    if name in FIELDS:
        return [in_layer(name, k) for k in range(model.layer_count)] if name != "depth" else [name]
    return [row.name for row, whole, _ in model.system.contents if whole.name == name] or [name]


def names_in_files(model: Model) -> list[str]:
    """The names of all fields that the files of a model's runs can hold, each with all layers."""
    between = (INTERFACES,) if model.layers is not None else ()
    own = dict.fromkeys((*FIELDS, *between, *(whole.name for _, whole, _ in model.system.contents)))
    of_layers = {each for name in own for each in in_all_layers(name, model)}
    return [*own, *(row.name for row in model.system.variables if row.name not in of_layers)]


def _interface_height(flow, number):
    """The height of the top of layer `number`, or of the bottom of the lowest one, above the undisturbed surface [m].

    It is summed from the sea floor up, and over a deep layer at rest from the surface down, which hardly moves.
    """
    heights = [layer.column for layer in flow.layers]
    if over_deep_water(flow.equations.layers):
        return functools.reduce(operator.sub, heights[:number], 0.0 * heights[0])
    return functools.reduce(operator.add, heights[number:], -FIELDS["depth"](flow))


def field(name: str, flow: LayerFlow) -> AbstractField:
    """The Field of this name, as "vorticity" or that of the second layer "vorticity_2", as files hold it."""
    base, layer = layer_of(name)
    if base == INTERFACES:
        return _interface_height(flow, layer)
    value = FIELDS[base](flow.layers[layer]) if base in FIELDS and layer < len(flow.layers) else flow.shown(name)
    return cast(AbstractField, value)


def total(field: Field, flow: LayerFlow, ordered: bool = False) -> jax.Array:
    """The sum of a Field of LayerFlow over the cells of all tiles; in a fixed order if `ordered`."""
    own = without_padding(field.interior, flow.geometry.tile.sides)
    return flow.equations.communicator.sum(jnp.sum(own), ordered=ordered)


def _rest_level(flow):
    """The level of the water at rest [m]: 0, or the height of land that may be flooded, a Field at h."""
    if flow.equations.film is None:
        return 0.0
    return flow.equations.depth_at(flow.time).map(lambda depth: jnp.maximum(-depth, 0.0))


def volume(flow: LayerFlow) -> jax.Array:
    """The water above rest in all layers, sum of area (h - H) [m3]: constant in a closed domain."""
    last, tables = flow.layers[-1 if over_deep_water(flow.equations.layers) else 0], flow.equations.subgrid
    above = last.eta - _rest_level(flow)
    if tables is not None:
        depth = flow.equations.depth_at(flow.time)
        above = flow.h - tables.water(0.0 * flow.h, depth)
    return total(cast(Field, flow.geometry.wet_area * above), flow)


def energies(flow: LayerFlow) -> tuple[list, list]:
    """(kinetic h K of each layer, potential g_k eta_k^2 / 2 of each interface) over density [m3 s-2], Fields at h.

    Potential energy is that above the water at rest, so that dry ground above it has none. In a cell with a finer bed
    each part of the bed counts.
    """
    kinetic = [layer.h * layer.kinetic_energy for layer in flow.layers]
    rest = [_rest_level(flow)] + [0.0] * (len(flow.layers) - 1)
    levels = zip(flow.equations.level_gravities, flow.layers, rest)
    potential = [0.5 * g * ((x.eta - r) * (x.eta + r)) for g, x, r in levels]
    if flow.equations.subgrid is not None:
        above = flow.equations.subgrid.above_rest(flow.eta, flow.equations.depth_at(flow.time))
        potential[0] = flow.equations.level_gravities[0] * above
    return kinetic, potential


def specific_energy(flow: LayerFlow) -> AbstractField:
    """Kinetic and potential energy over density, the sum of h K + g eta^2 / 2 of all layers [m3 s-2], a Field at h."""
    return functools.reduce(operator.add, [kinetic + potential for kinetic, potential in zip(*energies(flow))])


def energy(flow: LayerFlow) -> jax.Array:
    """Kinetic and potential energy over density, sum of area (h K + g eta^2 / 2) of all layers [m5 s-2]."""
    return total(cast(Field, flow.geometry.wet_area * specific_energy(flow)), flow)


def potential_enstrophy(flow: LayerFlow) -> jax.Array:
    """Sum of area h q^2 / 2 over cells and layers [m s-2], with the mean of q^2 at the four corners of a cell.

    So each corner counts with a quarter of the water in the wet cells around it, and a wall on all sides alike.
    """
    each = [total(cast(Field, 0.5 * flow.geometry.wet_area * (x.h * mean_xy(x.q * x.q))), flow) for x in flow.layers]
    return functools.reduce(operator.add, each)
