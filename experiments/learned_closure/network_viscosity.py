"""An eddy viscosity that a neural network finds from the nine cells around each cell: a term of one's own.

    nu = L^2 s N(D / s, zeta / s, s / (s + s_0))^2 >= 0,      L^2 = 2 / (dx^-2 + dy^-2)

at cell centres. D is the strain |D| of `sw.Smagorinsky` and zeta the vorticity, each in the nine cells, and s their
root mean square there. The force is that of `sw.Laplacian` with this viscosity: it never adds energy and conserves
momentum, whatever the weights are. N is a network of Equinox. It multiplies matrices and arrays of whole fields, which
fused loops cannot do: give the model engine="arrays".
"""

import functools
import operator
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

import swmodel as sw
from swmodel.dynamics.dissipation import viscous_force
from swmodel.errors import ConfigError
from swmodel.fields.field import Field, east, mean_xy, north, south, west

INPUTS, HIDDEN = 19, 8
USUAL_RATE = 1e-6  # s_0 [s-1]
STRAIN = sw.Smagorinsky(1.0)  # for its strain |D| [s-1]
SAME = {-1: lambda f: west(west(f)), 0: lambda f: f, 1: lambda f: east(east(f))}
ROWS = {-1: lambda f: south(south(f)), 0: lambda f: f, 1: lambda f: north(north(f))}


def network(seed: int = 0, first: float = 1.0) -> eqx.nn.MLP:
    """N, whose output is sqrt(first) whatever the flow is, so that nu = first L^2 s."""
    made = eqx.nn.MLP(INPUTS, 1, HIDDEN, 1, activation=jnp.tanh, key=jax.random.key(seed))
    last = made.layers[-1]
    values = jnp.zeros_like(last.weight), jnp.full_like(last.bias, np.sqrt(first))
    return eqx.tree_at(lambda net: (net.layers[-1].weight, net.layers[-1].bias), made, values)


def weights_of(net: eqx.nn.MLP) -> jax.Array:
    """The weights and biases as one vector, which every rank holds."""
    return ravel_pytree(eqx.filter(net, eqx.is_array))[0]


class NetworkViscosity(sw.Term):
    """Harmonic viscosity of a network of nine points.

    Args:
        weights: of N, a vector; `weights_of(network())` makes the first one.
    """

    weights: Any

    uses_time = False
    nonlinear = True

    def viscosity(self, flow: Any) -> Any:
        """nu [m2 s-1], a Field at h."""
        g = flow.geometry
        deformation = STRAIN.squared_rate(flow).map(jnp.sqrt)
        nine = [around(deformation, j, i) for j in SAME for i in SAME]
        nine += [around(mean_xy(flow.vorticity), j, i) for j in SAME for i in SAME]
        rate = (functools.reduce(operator.add, [x * x for x in nine]) * (1.0 / 9.0)).map(jnp.sqrt)
        inputs = [x / rate for x in nine] + [rate / (rate + USUAL_RATE)]
        per_dx, per_dy = g.per_dx["h"], g.per_dy["h"]
        output = applied(self.weights, inputs)
        return output * output * rate * 2.0 / (per_dx * per_dx + per_dy * per_dy)

    def __call__(self, flow: Any, time: Any) -> tuple[Any, Any]:
        return viscous_force(flow.u, flow.v, self.viscosity(flow), flow)

    def rates(self, site: Any) -> Any:
        length2 = 2.0 / (site.per_dx2 + site.per_dy2)
        return site.viscous_rate(length2 * STRAIN.estimated_rate(site))


def around(field: Any, row: int, column: int) -> Any:
    """A Field's values at the cell that lies so many rows and columns away, a Field at the same position."""
    return ROWS[row](SAME[column](field))


@functools.cache
def layers_from() -> Callable:
    """The function that makes the network of a vector of weights."""
    with jax.ensure_compile_time_eval():
        return ravel_pytree(eqx.filter(network(), eqx.is_array))[1]


def applied(weights: Any, inputs: list) -> Field:
    """The output of N at each cell, a Field, for Fields at one position.

    Raises:
        ConfigError: in fused loops.
    """
    if not isinstance(inputs[0], Field):
        raise ConfigError(
            "NetworkViscosity multiplies arrays of whole fields, and a fused loop has none; give the model "
            'engine="arrays", in files [run] engine = "arrays".'
        )
    halo = tuple(min(x.halo[side] for x in inputs) for side in range(4))
    values = jnp.stack([x.crop(halo).data for x in inputs])
    hidden, last = layers_from()(weights).layers
    values = jnp.tanh(jnp.tensordot(hidden.weight, values, 1) + hidden.bias[:, None, None])
    return Field(jnp.tensordot(last.weight[0], values, 1) + last.bias[0], inputs[0].position, halo)
