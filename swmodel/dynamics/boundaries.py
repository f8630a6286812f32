"""Open sides: let waves out.

    Flather   the normal velocity on the open face is diagnosed from the elevation beside it,
                  u = u_ext +- sqrt(g / H) (eta - eta_ext)       (+ on east and north, - on west and south)
              Flather (1976). Waves at normal incidence leave; oblique ones are partly sent back.
    Sponge    near the side, u, v and eta relax towards rest at a rate that grows with the cube of the distance into
              the layer, d/dt = - r (eta - eta_ext); after Israeli & Orszag (1981), doi:10.1016/0021-9991(81)90082-6.

Both together let out what either alone sends back.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..fields.field import Field
from ..fields.parameters import parameter
from ..fields.pytrees import pytree, replace, static
from ..parallel.halo import EAST, NORTH, SIDES, SOUTH, WEST
from ..stencils.native import paste
from .dissipation import to_u, to_v
from .terms import Term, value_at

__all__ = ["Flather", "Sponge"]


@pytree
class Flather(Term):
    """Radiating open sides.

    Args:
        sides: which of "west", "east", "south", "north" are open; all four unless told otherwise.
        elevation: eta_ext outside [m]: a number, a function of (x, y), an (ny, nx) array (its edge cells are used) or
            time records.
        velocity: u_ext, towards the outside [m s-1], likewise.
    """

    sides: tuple = static(default=SIDES)
    elevation: Any = parameter("h", "m", default=0.0)
    velocity: Any = parameter("h", "m s-1", default=0.0)

    positions = {"elevation": "h", "velocity": "h"}
    uses_time = False

    def __post_init__(self):
        object.__setattr__(self, "sides", checked_sides(self.sides, "Flather"))

    def prepare(self, exchange):
        return replace(self, elevation=exchange.parameter(self.elevation), velocity=exchange.parameter(self.velocity))

    def __call__(self, flow, time):
        raise TypeError("Flather sets velocities at open sides; it has no tendency.")

    def fill(self, u, v, eta, equations, time):
        """u and v (Fields with halo) with this condition on the open faces, and outside them."""
        sides = equations.geometry.tile.sides
        for side in (WEST, EAST, SOUTH, NORTH):
            if SIDES[side] in self.sides:
                seen = self._seen(eta, equations)
                inside = jax.tree.map(lambda f, side=side: _cells_inside(f, side), seen, is_leaf=_is_field)
                out = (-1.0 if side in (WEST, SOUTH) else 1.0) * _outflow(*inside, time)
                if side in (WEST, EAST):
                    u = _beyond(u, out, side, sides.open[side])
                else:
                    v = _beyond(v, out, side, sides.open[side])
        return u, v

    def _seen(self, eta, equations):
        """What the velocity on an open face depends on: Fields, numbers and Windows of them."""
        depth, uplift, wet = equations.depth, equations.uplift, equations.geometry.wet
        return equations.gravity, depth, uplift, wet, eta, self.elevation, self.velocity


def _outflow(gravity, depth, uplift, wet, eta, outside, velocity, time):
    """u_ext + sqrt(g / H) (eta - eta_ext) of cells beside an open side [m s-1], a Field; 0 on land."""
    depth = (depth if uplift is None else depth - value_at(uplift, time)) + (1.0 - wet)
    out = (gravity / depth).map(jnp.sqrt) * (eta - value_at(outside, time)) + value_at(velocity, time)
    return out * wet


def _is_field(x):
    return isinstance(x, Field)


def _cells_inside(field, side):
    """The row or column of cells beside a side of the tile; numbers as they are."""
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
    beside = normal.halo[SOUTH if along_x else WEST] - out.halo[SOUTH if along_x else WEST]
    rows = lax.slice_in_dim(normal.data, beside, beside + out.data.shape[across], axis=normal.data.ndim + across)
    old = lax.slice_in_dim(rows, first, first + faces, axis=normal.data.ndim + place)
    new = old + is_open * (out.data - old)
    corner = (beside, first) if along_x else (first, beside)
    return Field(paste([normal.data], [[new]], [corner])[0], normal.position, normal.halo)


@pytree
class Sponge(Term):
    """A damping layer along sides of the domain.

    Args:
        sides: which of "west", "east", "south", "north".
        width: of the layer [m].
        rate: the damping rate at the side itself [s-1]: a number, a function or an array. exp(-rate width / (2 c)) of
            a wave of speed c comes back from a wall behind it: 10 c / width let 1 % back, and 5 do before Flather.
        elevation: what eta relaxes towards [m]: a number, a function, an array or time records.
    """

    sides: tuple = static(default=SIDES)
    width: float = parameter(None, "m", minimum=0.0, default=0.0, static=True)
    rate: Any = parameter("h", "s-1", minimum=0.0, default=0.0)
    elevation: Any = parameter("h", "m", default=0.0)

    positions = {"rate": "h", "elevation": "h"}
    uses_time = False
    references = "Israeli and Orszag (1981), doi:10.1016/0021-9991(81)90082-6"

    def __post_init__(self):
        object.__setattr__(self, "sides", checked_sides(self.sides, "Sponge"))

    def on_tile(self, domain):
        profile = sponge_profile(domain.grid, self.sides, self.width)
        if hasattr(self.rate, "times"):
            raise ValueError("Sponge: rate cannot be time records; give a number, a function of (x, y) or an array.")
        here = Term.on_tile(self, domain)
        return replace(here, rate=here.rate * domain.cut(profile))

    def prepare(self, exchange):
        return replace(self, rate=exchange.parameter(self.rate), elevation=exchange.parameter(self.elevation))

    def rates(self, site):
        return self.rate

    def __call__(self, flow, time):
        return -to_u(self.rate) * flow.u, -to_v(self.rate) * flow.v

    def continuity(self, flow, time):
        """d eta/dt of the layer, at h."""
        return -self.rate * (flow.eta - value_at(self.elevation, time)) * flow.geometry.wet


def sponge_profile(grid, sides, width):
    """(ny, nx): 1 at a side, falling with the cube of the distance to 0 at `width` [m]; the largest where two meet."""
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


def checked_sides(sides, name):
    sides = (sides,) if isinstance(sides, str) or not hasattr(sides, "__iter__") else tuple(sides)
    unknown = [side for side in sides if side not in SIDES]
    if unknown or not sides:
        raise ValueError(f"{name}: sides = {sides} are not among {', '.join(SIDES)}; name one or more of these.")
    return sides
