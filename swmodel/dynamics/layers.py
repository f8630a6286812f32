"""Layers of uniform density, one above the other: their thicknesses, pressures and vertical modes.

    h_k = H_k + eta_k - eta_{k+1}            k = 0 at the top; below the lowest layer is the sea floor, eta_N = 0
    M_k = sum of g_j eta_j over j <= k       g_0 = g,   g_j = g (rho_j - rho_{j-1}) / rho_0

eta_k [m] is the elevation of the upper interface of layer k above its level at rest, M_k the Montgomery potential of
the layer [m2 s-2] less that at rest, H_k the thickness at rest. The density in the inertia is that of the top layer
(Boussinesq). d/dt sum area (sum_k h_k K_k + sum_j g_j eta_j^2 / 2) = 0, because -M_k div(h_k u_k) summed over layers is
sum_j g_j eta_j deta_j/dt.

Over a deep layer at rest the surface hardly moves. eta_k is then the depth of the lower interface of layer k below its
level at rest, so that the same holds with the order of the layers reversed:

    h_k = H_k + eta_k - eta_{k-1},   M_k = sum of g_j eta_j over j >= k,   g_j = g (rho_{j+1} - rho_j) / rho_0

One layer is the shallow-water model with g_0 as its gravity. See Vallis (2017), Atmospheric and Oceanic Fluid Dynamics,
section 3.3.

**Modes.** Jacobi's rotations compute the vertical modes such that weak stratification keeps its digits. With
T = diag(sqrt H) L^T diag(sqrt g) the squared speeds of modes (vertical_modes.py) are the eigenvalues of T T^T, so that
the speeds are the singular values of T = U diag(c) W^T. Its columns have the sizes of sqrt g, which differ by orders of
magnitude: an eigenvalue solver loses all that is small against g H, in single precision modes slower than 1 % of the
fastest one. One-sided rotations, which make two columns orthogonal at a time, find each singular value to the relative
precision of the numbers (Demmel and Veselic 1992, doi:10.1137/0613074).

With X = U^T diag(dH / H) U / 2 and Y = W^T diag(dg / g) W / 2 the derivatives are

    dc_i = c_i (X_ii + Y_ii),   dU = U K,   K_ij = [(c_i^2 + c_j^2) X_ij + 2 c_i c_j Y_ij] / (c_j^2 - c_i^2)

and those of W have X and Y exchanged.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import Any, Self, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..errors import ConfigError
from ..fields.field import Scalar, Value
from ..fields.parameters import DERIVED, Flag, NumberForEach, declared
from ..fields.parts import ModelPart
from ..fields.state import pytree, replaced
from .domain import Domain
from .vertical_modes import modes, summation

__all__ = ["Layers"]

Column: TypeAlias = Sequence[float] | np.ndarray | jax.Array  # a number for each layer, or interface
SLOWEST = 1e-6  # [m s-1]
ROUNDING = 1e4  # [m s-1], times that of 1: for pressures of 10 m2 s-2 it is 1 mm/s of the velocity
SWEEPS = 10  # over all pairs of columns; the angles fall quadratically, and three layers take four


@pytree
class Layers(ModelPart):
    """Layers of uniform density in place of one, from the top down; the lowest has what they leave of the depth.

    Args:
        densities: of the layers, from the top down, and of the deep layer if that is at rest [kg m-3].
        thickness: of all layers but the lowest that moves, at rest, from the top down [m].
        reduced_gravities: g_j of the interfaces between layers in place of densities, from the top down [m s-2].
        deep_at_rest: whether the lowest layer moves over a deep one at rest ("N.5 layers"). The model's depth is then
            the thickness of all layers that move.
    """

    thickness: Column = declared(
        NumberForEach("m", least=1, above=0.0), doc="of all layers but the lowest that moves, at rest"
    )
    densities: Column | None = declared(
        NumberForEach("kg m-3", least=2, above=0.0, optional=True),
        default=None,
        doc="of the layers from the top down, and of the deep one if that is at rest",
    )
    reduced_gravities: Column | None = declared(
        NumberForEach("m s-2", least=1, minimum=0.0, optional=True),
        default=None,
        doc="of the interfaces between layers, in place of densities",
    )
    deep_at_rest: bool = declared(
        Flag(),
        default=False,
        static=True,
        doc="whether they move over a deep layer at rest; the depth is then that of the others",
    )
    reference: Scalar | None = dataclasses.field(
        default=None, metadata=DERIVED, repr=False
    )  # rho_0, once densities are less it
    number: int | None = dataclasses.field(
        default=None, metadata=DERIVED | {"static": True}, repr=False
    )  # of layers that move, in a model: on several devices one array holds the thickness of each

    exclusive = (("densities", "reduced_gravities"),)

    @classmethod
    def conflict(cls, values: Any) -> str | None:
        if why := super().conflict(values):
            return why
        densities, reduced = values.densities, values.reduced_gravities
        if densities is None and reduced is None:
            return "neither densities nor reduced_gravities are given; give one of them"
        count, deep = len(values.thickness) + 1, bool(values.deep_at_rest)
        if densities is not None and len(densities) != count + deep:
            below = ", and a deep one at rest" if deep else ""
            return (
                f"thickness has {count - 1} numbers, those of {count} layers but the lowest{below}, and there are "
                f"{len(densities)} densities; give {count + deep}"
            )
        plain = not isinstance(densities, jax.Array)  # as programs hold them, they may be traced
        if densities is not None and plain and (np.diff(np.asarray(densities, float)) < 0).any():
            return "a layer is denser than the one below it; give densities from the top down"
        if reduced is not None and len(reduced) != count - 1 + deep:
            return (
                f"{count} layers{' over a deep one' * deep} have {count - 1 + deep} interfaces below the top, and "
                f"there are {len(reduced)} reduced_gravities; give one for each"
            )
        return None

    def in_model(self) -> Self:
        """These layers with arrays; densities are less that of the top layer, for the digits of single precision."""
        values = {name: getattr(self, name) for name in ("thickness", "densities", "reduced_gravities")}
        values = {name: np.asarray(x, float) for name, x in values.items() if x is not None}
        if self.densities is not None:
            top = values["densities"][0]
            values |= {"densities": values["densities"] - top, "reference": top}
        return replaced(self, values | {"number": self.count})

    def on_tile(self, domain: Domain) -> Self:
        """These layers of a model as programs take them."""
        return jax.tree.map(domain.cut, self)

    @property
    def count(self) -> int:
        """The number of layers that move."""
        return self.number or len(self.thickness) + 1

    def __repr__(self) -> str:
        heights = ", ".join(f"{float(x):g}" for x in self.thickness)
        deep = " over a deep one at rest" if self.deep_at_rest else ""
        return f"{self.count} layers{deep}, at rest {heights} m thick and what these leave of the depth"

    def _from_reference(self, values: Sequence) -> list:
        """`values` of the layers from the one beyond which eta is 0 on, or in their own order again."""
        return list(values) if self.deep_at_rest else list(values)[::-1]

    def gravities(self, gravity: Scalar) -> jax.Array:
        """g_j [m s-2], (count,), for the gravity g."""
        numpy: Any = jnp if isinstance(self.thickness, jax.Array) else np
        if self.reduced_gravities is None:
            densities = numpy.asarray(self.densities)
            steps = gravity * numpy.diff(densities) / (densities[0] if self.reference is None else self.reference)
        else:
            steps = numpy.asarray(self.reduced_gravities)
        return steps if self.deep_at_rest else numpy.concatenate([numpy.reshape(gravity, (1,)), steps])

    def rest(self, depth: Value | np.ndarray) -> list[Any]:
        """H_k [m] of each layer: numbers and, of the lowest, an array or Field as the depth H [m] is."""
        given: Any = self.thickness
        given = given.tolist() if isinstance(given, np.ndarray) else given  # so that depths keep their precision
        upper = [given[k] for k in range(self.count - 1)]
        return [*upper, depth - sum(upper)]

    def excess(self, levels: Sequence) -> list:
        """h_k - H_k [m] of each layer, from the elevations eta_k [m]."""
        levels = self._from_reference(levels)
        return self._from_reference([levels[0], *(b - a for a, b in itertools.pairwise(levels))])

    def sums(self, values: Sequence) -> list:
        """The sums of `values` of each layer and of those between it and where eta is 0: d eta_k/dt of d h_k/dt."""
        return self._from_reference(list(itertools.accumulate(self._from_reference(values))))

    def potentials(self, gravities: Sequence | jax.Array, levels: Sequence) -> list:
        """M_k [m2 s-2] of each layer, from g_j [m s-2] and eta_j [m]."""
        shares = [g * level for g, level in zip(gravities, levels)]
        if self.deep_at_rest:
            return list(itertools.accumulate(shares[::-1]))[::-1]
        return list(itertools.accumulate(shares))

    def celerities(self, gravity: float, depth: float) -> np.ndarray:
        """The speeds [m s-1] of long waves of each vertical mode, fastest first, (count,), over a flat bottom.

        Args:
            gravity: g [m s-2].
            depth: H [m].
        """
        rest = np.array([float(x) for x in self.rest(depth)])
        return modes(np.asarray(self.gravities(gravity), float), rest, self.deep_at_rest)[0]

    def wave_gravity(self, gravity: float, depths: Iterable[float], mode: int = 0) -> float:
        """The gravity [m s-2] with which a mode, 0 the fastest, is at most sqrt(g H) fast, over these depths H [m]."""
        return max(self.celerities(gravity, depth)[mode] ** 2 / depth for depth in depths)

    def check_depth(self, lowest: float, least: float) -> None:
        """Raise ConfigError if the lowest layer is thinner than `least` [m] where the water is `lowest` [m] deep."""
        left = lowest - float(sum(self.thickness))
        if left < max(least, 0.0) or left <= 0:
            raise ConfigError(
                f"Layers: the water is {lowest:g} m deep where it is shallowest, the layers above the lowest one take "
                f"{float(sum(self.thickness)):g} m of it at rest, and {left:g} m are left, less than least_thickness; "
                "make them thinner, or give shallower water a depth of 0, which is land, or a larger one."
            )


@jax.custom_jvp
def graded_modes(
    gravities: jax.Array, thickness: jax.Array, in_order: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(celerities [m s-1] (..., n), fastest first; U (..., layer, mode); W (..., interface, mode)).

    Args:
        gravities: g_j above 0 [m s-2], (n,).
        thickness: H_k at rest [m], (..., n).
        in_order: L (n, n), the `summation` of layers.
    """
    count = thickness.shape[-1]
    matrix = jnp.einsum("...k,jk,j->...kj", jnp.sqrt(thickness), in_order, jnp.sqrt(gravities))
    turns = jnp.broadcast_to(jnp.eye(count, dtype=matrix.dtype), matrix.shape)
    columns = tuple(jnp.concatenate([matrix, turns], axis=-2)[..., k] for k in range(count))

    def sweep(_, columns):
        columns = list(columns)
        for i, j in itertools.combinations(range(count), 2):
            columns[i], columns[j] = _orthogonal(columns[i], columns[j], count)
        return tuple(columns)

    both = jnp.stack(lax.fori_loop(0, SWEEPS, sweep, columns), axis=-1)
    scaled, turns = both[..., :count, :], both[..., count:, :]
    celerities = jnp.sqrt(jnp.sum(scaled * scaled, axis=-2))
    left, order = scaled / celerities[..., None, :], jnp.argsort(-celerities, axis=-1)
    sorted_left, sorted_turns = (jnp.take_along_axis(x, order[..., None, :], -1) for x in (left, turns))
    return jnp.take_along_axis(celerities, order, -1), sorted_left, sorted_turns


def _orthogonal(a, b, count):
    """Two columns, turned so that their first `count` rows are orthogonal."""
    p, q = a[..., :count], b[..., :count]
    product = jnp.sum(p * q, axis=-1, keepdims=True)
    apart = jnp.sum(q * q, axis=-1, keepdims=True) - jnp.sum(p * p, axis=-1, keepdims=True)
    ratio = apart / (2.0 * jnp.where(product == 0, 1.0, product))
    tangent = jnp.where(ratio < 0, -1.0, 1.0) / (jnp.abs(ratio) + jnp.sqrt(1.0 + ratio * ratio))
    tangent = jnp.where(product == 0, 0.0, tangent)
    cosine = 1.0 / jnp.sqrt(1.0 + tangent * tangent)
    sine = tangent * cosine
    return cosine * a - sine * b, sine * a + cosine * b


@graded_modes.defjvp
def _derivatives(primals, tangents):
    gravities, thickness, in_order = primals
    celerities, left, right = found = graded_modes(*primals)
    x = 0.5 * jnp.einsum("...ki,...k,...kj->...ij", left, tangents[1] / thickness, left)
    y = 0.5 * jnp.einsum("...ki,k,...kj->...ij", right, tangents[0] / gravities, right)
    low, high = celerities[..., :, None], celerities[..., None, :]
    apart = (high - low) * (high + low)
    apart = jnp.where(apart == 0, jnp.inf, apart)
    squares, products = (low * low + high * high) / apart, 2.0 * low * high / apart
    change = celerities * jnp.diagonal(x + y, axis1=-2, axis2=-1)
    return found, (change, left @ (squares * x + products * y), right @ (squares * y + products * x))


def modes_of(gravities: jax.Array, thickness: jax.Array, deep_at_rest: bool) -> tuple[jax.Array, jax.Array]:
    """The result of `vertical_modes.modes` for its arguments, with derivatives.

    Layers of one density have modes without a speed, and get one with which rounding of the pressure moves no water.
    """
    slowest = max(SLOWEST, ROUNDING * float(jnp.finfo(thickness.dtype).eps))
    least = slowest**2 / lax.stop_gradient(jnp.max(thickness))
    in_order = jnp.asarray(summation(thickness.shape[-1], deep_at_rest), thickness.dtype)
    celerities, left, _ = graded_modes(jnp.maximum(gravities, least), thickness, in_order)
    return jnp.maximum(celerities, slowest), left / jnp.sqrt(thickness)[..., :, None]
