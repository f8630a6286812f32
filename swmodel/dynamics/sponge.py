"""Layers of damping along sides of the domain, before open sides or walls.

Near a side u, v and eta relax towards rest, or towards given values, at a rate that grows with the cube of the
distance into the layer, d/dt = - r (eta - eta_ext); after Israeli & Orszag (1981), doi:10.1016/0021-9991(81)90082-6.
"""

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..errors import ConfigError
from ..fields.field import Value, to_u, to_v
from ..fields.parameters import Sides, declared, parameter
from ..fields.parts import which_layer
from ..fields.state import pytree, replaced
from ..grids.grid import Grid
from ..grids.windows import GridValues
from ..parallel.halo import SIDES
from .boundaries import CURRENTS, LEVELS
from .clock import Time
from .domain import Domain, Model
from .terms import Term

if TYPE_CHECKING:
    from .layer import LayerFlow
    from .site import Site

__all__ = ["Sponge", "SpongeProfile"]


@pytree
class Sponge(Term):
    """A damping layer along sides of the domain.

    Args:
        sides: which of "west", "east", "south", "north"; all four unless given.
        width: of the layer [m].
        rate: the damping rate at the side itself [s-1]: a number, a function or an array. A layer in front of a wall
            reflects exp(-rate width / (2 c)) of a wave of speed c: a rate of 10 c / width leaves 1 % of it. In front of
            Flather 5 c / width is enough.
        elevation: the elevation that eta relaxes to [m]: a number, a function, an array, time records or a Tide.
        velocity_x, velocity_y: the velocity towards +x and +y that the water relaxes to [m s-1], likewise. A layer
            that is given the elevation of a tide and not its currents brakes these, and lets in two thirds of a wave.
        layer: the number of the layer of which u, v and eta relax, 0 at the top, -1 the lowest. Unless given all relax,
            eta of the top one to `elevation` and the others to rest.
    """

    sides: tuple = declared(Sides(), default=SIDES, static=True, required=True)
    width: float = parameter(None, "m", above=0.0, default=None, static=True, required=True, doc="of the layer")
    rate: Any = parameter(
        "h", "s-1", minimum=0.0, default=None, required=True, steady=True, doc="of damping at the side"
    )
    elevation: Any = parameter("h", "m", **LEVELS, default=0.0, doc="the elevation that eta relaxes to")
    velocity_x: Any = parameter("u", "m s-1", **CURRENTS, default=0.0, doc="the velocity towards +x that u relaxes to")
    velocity_y: Any = parameter("v", "m s-1", **CURRENTS, default=0.0, doc="the velocity towards +y that v relaxes to")

    layer: int | None = which_layer()

    kind = "boundary"
    uses_time = False
    holds_level = True
    references = "Israeli and Orszag (1981), doi:10.1016/0021-9991(81)90082-6"

    def __post_init__(self):
        object.__setattr__(self, "sides", Sides.tuple_of(self.sides))

    def on_tile(self, domain: Domain) -> Self:
        profile = SpongeProfile(domain.grid, self.sides, self.width)
        here = super().on_tile(domain)
        return replaced(here, {"rate": here.rate * domain.cut(profile)})

    def share_along_sides(self, grid: Grid) -> dict[str, GridValues]:
        return {side: SpongeProfile(grid, (side,), self.width) for side in self.sides}

    def check_water(self, model: Model) -> None:
        """Raise ConfigError if its layer at a side holds no cell, or land alone; of all four sides one needs water."""
        dry = {side: why for side in self.sides if (why := self._why_dry(model, side))}
        if dry and not (len(self.sides) == len(SIDES) and len(dry) < len(SIDES)):
            side, why = next(iter(dry.items()))
            raise ConfigError(f"Sponge: the layer of {self.width:g} m along the {side} side {why}.")

    def _why_dry(self, model, side):
        profile, layer, water = self.share_along_sides(model.grid)[side], False, False
        for rank in model.communicator.ranks:
            tile = model.decomposition.tile(rank).slices
            inside = profile.block(*tile) > 0
            layer, water = layer or inside.any(), water or (inside & model.sea_floor.wet.block(*tile)).any()
        layer, water = model.communicator.agree(layer), model.communicator.agree(water)
        if not layer:
            return "holds no cell; make it wider than half a cell"
        return None if water else "is land alone; leave the side out, or make the layer wider"

    def rates(self, site: "Site") -> np.ndarray | float:
        return self.rate

    def __call__(self, flow: "LayerFlow", time: Time) -> tuple[Value, Value]:
        return -to_u(self.rate) * (flow.u - self.velocity_x), -to_v(self.rate) * (flow.v - self.velocity_y)

    def continuity(self, flow: "LayerFlow", time: Time) -> Value:
        outside = self.elevation if flow.layer == 0 or self.layer is not None else 0.0
        return -self.rate * (flow.eta - outside) * flow.geometry.wet


class SpongeProfile(GridValues):
    """(1 - distance / width)^3 within `width` [m] of a side and 0 elsewhere, (ny, nx); the maximum over sides."""

    def __init__(self, grid: Grid, sides: tuple, width: float):
        self.grid, self.sides, self.width, self.shape = grid, sides, width, grid.shape

    def block(self, rows: slice, columns: slice) -> np.ndarray:
        grid, row = self.grid, np.arange(rows.start, rows.stop)
        metrics, shape = grid.metrics(row), (row.size, columns.stop - columns.start)
        dx, dy = (np.broadcast_to(metrics[name], (row.size, 1)) for name in ("dx_h", "dy_h"))
        along_x, along_y = (np.arange(columns.start, columns.stop) + 0.5)[None, :], (row + 0.5)[:, None]
        distance = {
            "west": along_x * dx,
            "east": (grid.nx - along_x) * dx,
            "south": along_y * dy,
            "north": (grid.ny - along_y) * dy,
        }
        profile = np.zeros(shape)
        for side in self.sides:
            profile = np.maximum(profile, np.clip(1.0 - distance[side] / max(self.width, 1e-30), 0.0, 1.0) ** 3)
        return profile
