"""Open sides of layers: each vertical mode radiates with its own speed.

The cells next to a side have modes phi_m of speed c_m over their depth at rest (layers.py). The sum over layers of
H phi_m phi_n is 0 for m != n. The pressure over density M and the velocity u out of the domain are sums of these,

    M = sum of M_m phi_m,    M_m = sum of H phi_m M / sum of H phi_m^2,    u = sum of u_m phi_m

and a wave that leaves at normal incidence has c_m u_m = M_m. That is what all modes but the fastest have. The fastest
one is that of a single layer of the depth c^2 / g with the elevation M / g of the surface, and has the velocity that
the condition on the side gives to such a layer, with what comes in from outside.

After Flather (1976), Mem. Soc. R. Sci. Liege 10, 141-164, mode by mode; see Blayo and Debreu (2005),
doi:10.1016/j.ocemod.2004.07.001.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import jax.numpy as jnp

from ..fields.field import Field, Scalar, Value
from ..fields.state import pytree, static
from ..parallel.halo import SIDES
from .layers import Layers
from .near_sides import all_inside
from .vertical_modes import modes

if TYPE_CHECKING:
    from .system import System

__all__ = ["SideModes"]

SLOWEST = 1e-12  # [m2 s-2], of squared speeds, so that layers of one density have a finite one


@pytree
class SideModes:
    """The vertical modes of the cells next to a side, Fields of one row or column.

    Attributes:
        celerities: c of each mode, fastest first [m s-1].
        velocities: phi of each mode, in each layer [m-1/2].
        weights: H phi of each mode, in each layer [m1/2].
        gravity: that of the elevation that all layers feel: of the surface, or of the interface above a deep layer at
            rest [m s-2].
        surface: the number of the layer that has this elevation.
    """

    celerities: list[Any]
    velocities: list[list[Any]]
    weights: list[list[Any]]
    gravity: Scalar
    surface: int = static()

    @staticmethod
    def of_sides(equations: "System", sides: Sequence[str]) -> dict[str, "SideModes"]:
        """{side: its SideModes} of open sides of the domain, for a System whose depth and geometry have halos."""
        new, layers = {}, cast(Layers, equations.layers)
        for side in sides:
            depth, wet = all_inside((equations.depth, equations.geometry.wet), SIDES.index(side))
            new[side] = SideModes.of(layers, equations.gravity, depth, wet)
        return new

    @staticmethod
    def of(layers: Layers, gravity: Scalar, depth: Field, wet: Field) -> "SideModes":
        """The modes over a depth [m] and where `wet` is 1, Fields of one row or column."""
        gravities, each = layers.gravities(gravity), range(layers.count)
        rest = [x.data if isinstance(x, Field) else x for x in layers.rest(depth)]
        rest = jnp.stack([jnp.where(wet.data > 0, x, 1.0) for x in rest], axis=-1)
        celerities, velocities = modes(jnp.stack([*gravities]), rest, layers.deep_at_rest, SLOWEST, jnp)

        def field(x):
            return Field(x, "h", depth.halo)

        return SideModes(
            [field(celerities[..., m]) for m in each],
            [[field(velocities[..., k, m]) for k in each] for m in each],
            [[field(velocities[..., k, m] * rest[..., k]) for k in each] for m in each],
            gravities[-1 if layers.deep_at_rest else 0],
            layers.count - 1 if layers.deep_at_rest else 0,
        )

    def outflow(self, layer: int, heads: Sequence[Field], of_surface: Callable[[Scalar, Field, Field], Value]) -> Field:
        """The velocity out of the domain in a layer [m s-1].

        Args:
            layer: its number.
            heads: M of each layer in the cells next to the side [m2 s-2].
            of_surface: the velocity of a single layer with this gravity [m s-2], depth and elevation [m].
        """
        total: Any = 0.0
        for number, (c, shape, weights) in enumerate(zip(self.celerities, self.velocities, self.weights)):
            amplitude = sum((w * head for w, head in zip(weights[1:], heads[1:])), weights[0] * heads[0])
            if number == 0:
                level = amplitude * shape[self.surface] / self.gravity
                velocity = of_surface(self.gravity, c * c / self.gravity, level) / shape[self.surface]
            else:
                velocity = amplitude / c
            total = total + shape[layer] * velocity
        return total
