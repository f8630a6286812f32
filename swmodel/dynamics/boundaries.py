"""Open boundaries, through which waves leave the domain.

    Flather   the normal velocity on the open face is diagnosed from the elevation in the adjacent cell,
                  u = u_ext +- sqrt(g / H) (eta - eta_ext)       (+ on east and north, - on west and south)
              Flather (1976). Waves at normal incidence leave; oblique ones are partly reflected.
    Sponge    near the side, u, v and eta relax towards rest at a rate that grows with the cube of the distance into
              the layer, d/dt = - r (eta - eta_ext); after Israeli & Orszag (1981), doi:10.1016/0021-9991(81)90082-6.

Together they reflect less than either of them alone.
"""

import abc
import dataclasses
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..fields.field import Field
from ..fields.parameters import Sides, declared, parameter
from ..fields.parts import replaced
from ..fields.pytrees import pytree
from ..grids.grid import Grid
from ..parallel.halo import EAST, NORTH, SIDES, SOUTH, WEST
from ..stencils.native import paste
from .terms import Term, TiledPart, to_u, to_v, value_at

__all__ = ["Flather", "Inside", "OpenBoundary", "Sponge"]


@pytree
class Inside:
    """The cells next to an open side: Fields of one row or column, and numbers.

    Attributes:
        gravity: [m s-2].
        depth: of the sea floor below the surface at rest [m], plus 1 m on land, so that it is never 0.
        eta: elevation [m].
        wet: 1 in water, 0 on land.
    """

    gravity: Any
    depth: Any
    eta: Any
    wet: Any


@dataclasses.dataclass(frozen=True)
class OpenBoundary(TiledPart):
    """A condition on open sides, which gives the velocity out of the domain from the adjacent cells.

    An open boundary of your own declares its parameters by `sw.parameter` and has `outflow`; docs/own_parts.md shows
    one. Parameters that vary in space lie at cell centres; in `outflow` they are those of the cells next to the side.

    Args:
        sides: which of "west", "east", "south", "north" are open; all four unless given.
    """

    sides: tuple = declared(Sides(), default=SIDES, static=True, required=True, kw_only=True)

    kind = "boundary"

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "sides", Sides.tuple_of(self.sides))

    @abc.abstractmethod
    def outflow(self, inside: Inside, time: Any) -> Any:
        """The velocity on the open faces, positive out of the domain [m s-1], a Field of one row or column.

        Args:
            inside: the cells next to the open side.
            time: a Time.
        """

    def fill(self, u: Any, v: Any, eta: Any, equations: Any, time: Any) -> tuple[Any, Any]:
        """u and v (Fields with halo), set by this condition on the open faces and in the ghost faces outside them."""
        sides = equations.geometry.tile.sides
        for side in (WEST, EAST, SOUTH, NORTH):
            if SIDES[side] in self.sides:
                out = (-1.0 if side in (WEST, SOUTH) else 1.0) * self._out(side, eta, equations, time)
                if side in (WEST, EAST):
                    u = _beyond(u, out, side, sides.open[side])
                else:
                    v = _beyond(v, out, side, sides.open[side])
        return u, v

    def _out(self, side, eta, equations, time):
        """The velocity out of the domain at a side of the tile, a Field; 0 on land."""
        near = equations.gravity, equations.depth, equations.uplift, equations.geometry.wet, eta, self
        near = jax.tree.map(lambda field: _cells_inside(field, side), near, is_leaf=_is_field)
        gravity, depth, uplift, wet, eta, condition = near
        depth = (depth if uplift is None else depth - value_at(uplift, time)) + (1.0 - wet)
        return condition.at(time).outflow(Inside(gravity, depth, eta, wet), time) * wet


@pytree
class Flather(OpenBoundary):
    """Radiating open sides.

    Args:
        sides: which of "west", "east", "south", "north" are open; all four unless given.
        elevation: eta_ext outside [m]: a number, a function of (x, y), an (ny, nx) array (its edge cells are used) or
            time records.
        velocity: u_ext, towards the outside [m s-1], likewise.
    """

    sides: tuple = declared(Sides(), default=SIDES, static=True, required=True)
    elevation: Any = parameter("h", "m", default=0.0, doc="the elevation outside")
    velocity: Any = parameter("h", "m s-1", default=0.0, doc="the velocity outside, out of the domain")

    uses_time = False

    def outflow(self, inside: Inside, time: Any) -> Any:
        speed = (inside.gravity / inside.depth).map(jnp.sqrt)
        return speed * (inside.eta - self.elevation) + self.velocity


def _is_field(x):
    return isinstance(x, Field)


def _cells_inside(field, side):
    """The row or column of a tile's cells next to one of its sides; numbers as they are."""
    if not _is_field(field):
        return field
    axis = field.data.ndim - (1 if side in (WEST, EAST) else 2)
    n, width = field.data.shape[axis], field.halo[side]
    at = width if side in (WEST, SOUTH) else n - width - 1
    halo = (0, 0, *field.halo[2:]) if side in (WEST, EAST) else (*field.halo[:2], 0, 0)
    return Field(lax.slice_in_dim(field.data, at, at + 1, axis=axis), field.position, halo)


def _beyond(normal, out, side, is_open):
    """`normal` with the open face at `side`, and the ghost faces beyond it, set from `out`, where the side is open."""
    along_x, low = side in (WEST, EAST), side in (WEST, SOUTH)
    place, across = (-1, -2) if along_x else (-2, -1)
    faces = normal.halo[side] + (not low)  # u is on the east face: the east side's own face is a cell of the tile
    first = 0 if low else normal.data.shape[place] - faces
    start = normal.halo[SOUTH if along_x else WEST] - out.halo[SOUTH if along_x else WEST]
    rows = lax.slice_in_dim(normal.data, start, start + out.data.shape[across], axis=normal.data.ndim + across)
    old = lax.slice_in_dim(rows, first, first + faces, axis=normal.data.ndim + place)
    new = old + is_open * (out.data - old)
    corner = (start, first) if along_x else (first, start)
    return Field(paste([normal.data], [[new]], [corner])[0], normal.position, normal.halo)


@pytree
class Sponge(Term):
    """A damping layer along sides of the domain.

    Args:
        sides: which of "west", "east", "south", "north"; all four unless given.
        width: of the layer [m].
        rate: the damping rate at the side itself [s-1]: a number, a function or an array. A layer in front of a wall
            reflects exp(-rate width / (2 c)) of a wave of speed c: a rate of 10 c / width leaves 1 % of it. In front of
            Flather 5 c / width is enough.
        elevation: what eta relaxes towards [m]: a number, a function, an array or time records.
    """

    sides: tuple = declared(Sides(), default=SIDES, static=True, required=True)
    width: float = parameter(None, "m", above=0.0, default=None, static=True, required=True, doc="of the layer")
    rate: Any = parameter(
        "h", "s-1", minimum=0.0, default=None, required=True, steady=True, doc="of damping at the side"
    )
    elevation: Any = parameter("h", "m", default=0.0, doc="the elevation that eta relaxes to")

    kind = "boundary"
    uses_time = False
    references = "Israeli and Orszag (1981), doi:10.1016/0021-9991(81)90082-6"

    def __post_init__(self):
        object.__setattr__(self, "sides", Sides.tuple_of(self.sides))

    def on_tile(self, domain: Any) -> Self:
        profile = sponge_profile(domain.grid, self.sides, self.width)
        here = super().on_tile(domain)
        return replaced(here, {"rate": here.rate * domain.cut(profile)})

    def rates(self, site: Any) -> Any:
        return self.rate

    def __call__(self, flow: Any, time: Any) -> tuple[Any, Any]:
        return -to_u(self.rate) * flow.u, -to_v(self.rate) * flow.v

    def continuity(self, flow: Any, time: Any) -> Any:
        return -self.rate * (flow.eta - self.elevation) * flow.geometry.wet


def sponge_profile(grid: Grid, sides: tuple, width: float) -> np.ndarray:
    """(1 - distance / width)^3 within `width` [m] of a side and 0 elsewhere, (ny, nx); the maximum over sides."""
    rows = np.arange(grid.ny)
    metrics = grid.metrics(rows)
    dx = np.broadcast_to(metrics["dx_h"], (grid.ny, 1))
    dy = np.broadcast_to(metrics["dy_h"], (grid.ny, 1))
    along_x, along_y = (np.arange(grid.nx) + 0.5)[None, :], (rows + 0.5)[:, None]
    distance = {
        "west": along_x * dx, "east": (grid.nx - along_x) * dx,
        "south": along_y * dy, "north": (grid.ny - along_y) * dy,
    }  # fmt: skip
    profile = np.zeros(grid.shape)
    for side in sides:
        profile = np.maximum(profile, np.clip(1.0 - distance[side] / max(width, 1e-30), 0.0, 1.0) ** 3)
    return profile
