"""The cells of a tile near an open side: how they are cut out, and how values on the side and beyond it are set.

The functions take Fields, and give back numbers and columns as they are. A side is WEST, EAST, SOUTH or NORTH.

**Open sides of layers** (SideModes): each vertical mode radiates with its own speed. The cells next to a side have
modes phi_m of speed c_m over their depth at rest (layers.py). The sum over layers of H phi_m phi_n is 0 for m != n. The
pressure over density M and the velocity u out of the domain are sums of these,

    M = sum of M_m phi_m,    M_m = sum of H phi_m M / sum of H phi_m^2,    u = sum of u_m phi_m

and a wave that leaves at normal incidence has c_m u_m = M_m. That is what all modes but the fastest have. The fastest
one is that of a single layer of the depth c^2 / g with the elevation M / g of the surface, and has the velocity that
the condition on the side gives to such a layer, with what comes in from outside.

After Flather (1976), Mem. Soc. R. Sci. Liege 10, 141-164, mode by mode; see Blayo and Debreu (2005),
doi:10.1016/j.ocemod.2004.07.001.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import DTypeLike

from ..errors import ConfigError
from ..fields.field import WHOLE, Field, Scalar, Value, difference_x, difference_y, pointwise
from ..fields.state import pytree, replace, static
from ..grids.geometry import TileGeometry
from ..parallel.halo import EAST, NORTH, SIDES, SOUTH, WEST, Sides
from ..stencils.native import paste, read_strips
from .clock import Time
from .layer import transports
from .layers import Layers, modes_of

if TYPE_CHECKING:
    from .system import System

__all__ = [
    "INSIDE",
    "SideModes",
    "all_inside",
    "axis_along",
    "axis_name",
    "cells_inside",
    "edges_of",
    "needed_velocity",
    "next_velocity",
    "normal_velocity",
    "passing_velocity",
    "set_beyond",
    "windows",
    "without_normal_flow",
]


T = TypeVar("T")

INSIDE = 4  # cells inside a side that conditions may read


def needed_velocity(side: int, column: Value, flow: Sequence, equations: "System", time: Time, rate: Value) -> Value:
    """The velocity out of the domain [m s-1] with which the cells next to a side rise at `rate` [m s-1].

    The volume budget of a cell: area rate = -(column length out) - (outflow through the other three faces).

    Args:
        side: WEST, EAST, SOUTH or NORTH.
        column: thickness of the cells, a Field of one row or column.
        flow: (u, v, eta), Fields.
        equations, time: of the stage.
        rate: a Field of one row or column, or a number.
    """
    g = equations.geometry
    names = ("depth", "wet", "u", "v", "eta", "dy", "dx", "area")
    fields = (equations.depth_at(time), g.wet, *flow, g.dy["u"], g.dx["v"], g.area_h)
    near = {name: _cells_around(field, side) for name, field in zip(names, fields)}
    h = near["depth"] if equations.linear else near["depth"] + near["eta"] * near["wet"]
    U, V = transports(h, near["u"], near["v"])
    U, V = U * near["dy"], V * near["dx"]
    open_face = 0 if side in (WEST, SOUTH) else 1
    if side in (WEST, EAST):
        length, U = _as_h(g.dy["u"]), _closed(U, -1, open_face)
    else:
        length, V = _cell(near["dx"], open_face), _closed(V, -2, open_face)
    through = difference_x(U) + difference_y(V)
    area = near["area"] if side in (WEST, EAST) else _cell(near["area"], 1)
    return -(area * rate + through) / (column * length)


def next_velocity(side: int, flow: Sequence) -> Field:
    """The velocity out of the domain on the first faces inside a side [m s-1], a Field of one row or column."""
    normal = flow[0] if side in (WEST, EAST) else flow[1]
    low = side in (WEST, SOUTH)
    if not low:  # a face has the number of the cell on its west or south
        halo = tuple(width + (k == side) for k, width in enumerate(normal.halo))
        normal = Field(normal.data, normal.position, halo)
    found = cells_inside(normal, side)
    return Field(-found.data if low else found.data, "h", found.halo)


def passing_velocity(side: int, column: Value, flow: Sequence, equations: "System", time: Time) -> Field:
    """The velocity out of the domain [m s-1] with which what comes through the next faces inside leaves through a side.

        u_side = u_next (length_next / length) (h + h_next) / (2 column)

    Between both faces the cells then neither rise nor fall. There are two bounds. Water flows out no faster than the
    waves sqrt(g column), unless u_next is faster. It flows in no faster than u_next, since a faster inflow would
    accelerate what is inside without end, and a slower one lets the level give way, which takes energy out.

    Args:
        side: WEST, EAST, SOUTH or NORTH.
        column: thickness of the cells, a Field of one row or column.
        flow: (u, v, eta), Fields.
        equations, time: of the stage.
    """
    depth, eta, g = equations.depth_at(time), flow[-1], equations.geometry
    following = next_velocity(side, flow)
    thickness = [cells_inside(depth, side, k) + cells_inside(eta, side, k) for k in range(2)]
    share = (0.5 * sum(h.map(lambda h: jnp.maximum(h, 0.0)) for h in thickness)) / column
    if side not in (WEST, EAST):
        own, other = (0, 1) if side == SOUTH else (1, 0)
        lengths = _cells_around(g.dx["v"], side)
        share = share * (_cell(lengths, other) / _cell(lengths, own))
    most = pointwise(jnp.maximum, following, (equations.gravity * column).map(jnp.sqrt))
    least = following.map(lambda u: jnp.minimum(u, 0.0))
    return cast(Field, pointwise(jnp.maximum, pointwise(jnp.minimum, share * following, most), least))


def without_normal_flow(velocities: list[Field], sides: Sides, beyond: bool = True) -> list[Field]:
    """Fields of one component, with zeros on the faces of open sides.

    Args:
        velocities: Fields at u, or at v, of one shape.
        sides: a Sides.
        beyond: whether the ghost faces beyond the open faces are zeros, too. Otherwise only the faces that belong to
            the tile are, at its east and north side.
    """
    along_x, halo, arrays = velocities[0].position == "u", velocities[0].halo, [field.data for field in velocities]
    each = [side for side in ((WEST, EAST) if along_x else (SOUTH, NORTH)) if SIDES[side] in sides.open_sides]
    each = each if beyond else [side for side in each if side in (EAST, NORTH)]
    if not each:
        return velocities
    (rows, columns), places, shapes = arrays[0].shape[-2:], [], []
    for side in each:
        first, faces = 0, halo[side]
        if side in (EAST, NORTH):
            first, faces = (columns if along_x else rows) - halo[side] - 1, halo[side] + 1 if beyond else 1
        places.append((0, first) if along_x else (first, 0))
        shapes.append((rows, faces) if along_x else (faces, columns))
    arrays, strips = read_strips(arrays, places, shapes)
    kept = [jnp.where(sides.open[side] > 0.5, 0.0, x) for side, x in zip(each, strips)]
    return [replace(field, data=x) for field, x in zip(velocities, paste(arrays, kept, places))]


def _cells_around(field, side):
    """A Field of the cells next to one of a tile's sides, with a halo of one cell across it; numbers as they are."""
    along_x = side in (WEST, EAST)
    if not _is_field(field) or (along_x and field.halo[WEST] == WHOLE):
        return field
    axis = field.data.ndim - (1 if along_x else 2)
    n, width = field.data.shape[axis], field.halo[side]
    at = width if side in (WEST, SOUTH) else n - width - 1
    halo = (1, 1, *field.halo[2:]) if along_x else (*field.halo[:2], 1, 1)
    return Field(lax.slice_in_dim(field.data, at - 1, at + 2, axis=axis), field.position, halo)


def _as_h(field):
    """A Field of lengths of faces as a Field at h; numbers unchanged."""
    return Field(field.data, "h", field.halo) if _is_field(field) else field


def _cell(field, k):
    """Row number k of a Field of `_cells_around`, as a Field of one row; numbers as they are."""
    if not _is_field(field):
        return field
    data = lax.slice_in_dim(field.data, k, k + 1, axis=field.data.ndim - 2)
    return Field(data, "h", (*field.halo[:2], 0, 0))


def _closed(flux, place, face):
    """A Field of `_cells_around` on faces, without the flux through face number `face` across the side."""
    axis = flux.data.ndim + place
    shape = [1] * flux.data.ndim
    shape[axis] = flux.data.shape[axis]
    kept = (np.arange(flux.data.shape[axis]) != face).reshape(shape)
    return flux.map(lambda x: x * jnp.asarray(kept, x.dtype))


def _is_field(x):
    return isinstance(x, Field)


def axis_name(side: int) -> str:
    """The axis across a side: "x" or "y"."""
    return "x" if side in (WEST, EAST) else "y"


def axis_along(side: int) -> str:
    """The axis along a side: "x" or "y"."""
    return "y" if side in (WEST, EAST) else "x"


def normal_velocity(side: int, u: Field, v: Field, k: int) -> Field:
    """The velocity out of the domain on the faces `k` cells inside the open ones of a side, a Field at h.

    Raises:
        ConfigError: unless k is a number from 0 to INSIDE - 1.
    """
    if not 0 <= k < INSIDE:
        raise ConfigError(f"an open boundary reads the velocity {k} cells inside its side; read 0 to {INSIDE - 1}.")
    field = u if side in (WEST, EAST) else v
    low = side in (WEST, SOUTH)
    found = cells_inside(Field(field.data, "h", field.halo), side, k - 1 if low else k)
    return -found if low else found


def cells_inside(field: Any, side: int, further: int = 0) -> Any:
    """The row or column of a tile's cells next to one of its sides, or `further` inside; numbers as they are."""
    if not _is_field(field) or (side in (WEST, EAST) and field.halo[WEST] == WHOLE):
        return field
    axis = field.data.ndim - (1 if side in (WEST, EAST) else 2)
    n, width = field.data.shape[axis], field.halo[side]
    at = width + further if side in (WEST, SOUTH) else n - width - 1 - further
    halo = (0, 0, *field.halo[2:]) if side in (WEST, EAST) else (*field.halo[:2], 0, 0)
    return Field(lax.slice_in_dim(field.data, at, at + 1, axis=axis), field.position, halo)


def all_inside(tree: T, side: int) -> T:
    """`tree` with `cells_inside` of each of its Fields."""
    return jax.tree.map(lambda field: cells_inside(field, side), tree, is_leaf=_is_field)


def windows(fields: Sequence[Field], side: int) -> tuple[list[Field], list[Field]]:
    """(the Fields, Fields of their cells near a side of the tile: all beyond it, and INSIDE cells inside).

    Use the first ones in place of the arguments (see `stencils.native.read_strips`).
    """
    if len({(field.data.shape, field.data.dtype) for field in fields}) > 1:
        each = [windows([field], side) for field in fields]
        return [whole for (whole,), _ in each], [near for _, (near,) in each]
    along_x, low = side in (WEST, EAST), side in (WEST, SOUTH)
    rows, columns = fields[0].data.shape[-2:]
    n = columns if along_x else rows
    cells = min(max(field.halo[side] for field in fields) + INSIDE, n)
    first = 0 if low else n - cells
    place, shape = ((0, first), (rows, cells)) if along_x else ((first, 0), (cells, columns))
    arrays, (strips,) = read_strips([field.data for field in fields], [place], [shape])
    whole = [Field(x, field.position, field.halo) for x, field in zip(arrays, fields)]
    return whole, [Field(x, field.position, field.halo) for x, field in zip(strips, fields)]


def set_beyond(field: Field, near: Field, out: Field, side: int, is_open: jax.Array, normal: bool = True) -> Field:
    """`field` with the open face at `side`, and the ghost faces beyond it, set from `out`, where the side is open.

    Args:
        field: a Field.
        near: its `windows` at the side, or `field` itself.
        out: a Field of one row or column.
        side: WEST, EAST, SOUTH or NORTH.
        is_open: 1.0 where the side of this tile is an open one of the domain, else 0.0.
        normal: whether a velocity is the one across the side. If not, only the ghosts beyond the side are set.
    """
    along_x, low = side in (WEST, EAST), side in (WEST, SOUTH)
    place, across = (-1, -2) if along_x else (-2, -1)
    own = normal and not low and field.position != "h"  # u is on the east face, which belongs to the tile
    faces = field.halo[side] + own
    start = field.halo[SOUTH if along_x else WEST] - out.halo[SOUTH if along_x else WEST]
    rows = lax.slice_in_dim(near.data, start, start + out.data.shape[across], axis=near.data.ndim + across)
    n = near.data.shape[place]
    old = lax.slice_in_dim(rows, *((0, faces) if low else (n - faces, n)), axis=near.data.ndim + place)
    new = jnp.where(is_open > 0.5, out.data, old)  # exactly, whatever an earlier step left there
    first = 0 if low else field.data.shape[place] - faces
    corner = (start, first) if along_x else (first, start)
    return Field(paste([field.data], [new[..., None, :, :]], [corner])[0], field.position, field.halo)


def edges_of(tile: TileGeometry, dtype: DTypeLike) -> dict[str, tuple[Field, Field]]:
    """{axis: (low, high)}: Fields of the cells next to the open sides, 1 there and 0 elsewhere."""
    (ny, nx), halo = tile.shape, tile.halo
    found = {}
    for axis, n, sides in (("x", nx, (WEST, EAST)), ("y", ny, (SOUTH, NORTH))):
        pair = []
        for side, at in zip(sides, (halo, halo + n - 1)):
            line = (np.arange(n + 2 * halo) == at).astype(dtype)
            line = line[None, :] if axis == "x" else line[:, None]
            cells = np.broadcast_to(line, (ny + 2 * halo, nx + 2 * halo))
            pair.append(Field(tile.sides.open[side] * jnp.asarray(cells), "h", (halo,) * 4))
        found[axis] = tuple(pair)
    return found


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
        celerities, velocities = modes_of(jnp.stack([*gravities]), rest, layers.deep_at_rest)

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
