"""A tile's geometry: metric factors, wet cells, Coriolis parameter, and fields derived from them, with halo.

A Coriolis gives the Coriolis parameter as a function of position.

`TileGeometry` holds the few arrays that define it, and is an argument of the compiled step. `Geometry` adds the fields
that are derived from them once in a program: inverses, areas, and the weights of corners at a coast.
"""

import abc
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from ..defaults import EARTH_ROTATION
from ..fields import field as op
from ..fields.field import WHOLE, AbstractField, Field
from ..fields.parameters import parameter
from ..fields.parts import Named
from ..fields.state import pytree, replace, static
from ..parallel.communicator import Communicator
from ..parallel.halo import SIDES, Sides, without_padding
from .grid import Grid
from .windows import GridValues

Numbers: TypeAlias = float | np.ndarray | jax.Array

__all__ = [
    "BetaPlane",
    "Coriolis",
    "FPlane",
    "Geometry",
    "RotatingSphere",
    "TileGeometry",
    "safe_inverse",
]


class Coriolis(Named, abc.ABC):
    """The Coriolis parameter as a function of position.

    Attributes:
        uniform: whether it is the same everywhere.
        spherical: True if it is defined on spherical grids only, False if on Cartesian ones only, None if on both.
    """

    uniform: ClassVar[bool] = False
    spherical: ClassVar[bool | None] = None

    @abc.abstractmethod
    def at_y(self, y: Numbers) -> Numbers:
        """f [s-1] at y, in the units of the grid's coordinate and also beyond the grid: an array or a number.

        On Cartesian grids y may be an array of JAX.
        """

    def at(self, grid: Grid, rows: np.ndarray) -> np.ndarray:
        """f [s-1] at the corners north of `rows` of a grid, () or (rows, 1).

        Raises:
            ValueError: where the grid is spherical and f is for Cartesian ones, or the other way round.
        """
        if self.spherical is not None and self.spherical != grid.spherical:
            fitting = "RotatingSphere() there" if grid.spherical else "FPlane or BetaPlane there"
            raise ValueError(f"{type(self).__name__} was given with a {type(grid).__name__}; use {fitting}.")
        low, high = grid._limits[1]
        return np.asarray(self.at_y(low + (np.asarray(rows)[:, None] + 1.0) * (high - low) / grid.ny))


@pytree
class FPlane(Coriolis):
    """f = f0 everywhere."""

    f0: float = parameter(None, "s-1", doc="f everywhere")

    uniform = True

    def at_y(self, y: Numbers) -> Numbers:
        return self.f0


@pytree
class BetaPlane(Coriolis):
    """f = f0 + beta (y - y0), on a Cartesian grid."""

    f0: float = parameter(None, "s-1", doc="f at y = y0")
    beta: float = parameter(None, "m-1 s-1", doc="df/dy")
    y0: float = parameter(None, "m", default=0.0, doc="where f = f0")

    spherical = False

    def at_y(self, y: Numbers) -> Numbers:
        return self.f0 + self.beta * (y - self.y0)


@pytree
class RotatingSphere(Coriolis):
    """f = 2 Omega sin(latitude), on a spherical grid."""

    rate: float = parameter(None, "s-1", default=EARTH_ROTATION, doc="of the rotation: f = 2 rate sin(latitude)")

    spherical = True

    def at_y(self, y: Numbers) -> Numbers:
        return 2.0 * self.rate * np.sin(np.deg2rad(np.clip(y, -90.0, 90.0)))


@pytree
class TileGeometry:
    """One tile's share of a grid, with `halo` ghost cells; built on the host by `TileGeometry.build`.

    Attributes:
        metrics: "dx_h" ... "dy_q" [m] and "area_h" [m2]: columns (ny + 2 halo, 1) or numbers.
        wet: (ny + 2 halo, nx + 2 halo) bytes, 1 in water, 0 on land and behind walls; open sides repeat the edge.
        coriolis: f at the corners [s-1], a column or a number.
        wet_u, wet_v: bytes, 1 on faces between two wet cells with an unknown velocity, else 0 (coasts, walls,
            poles, and open sides, where the boundary condition gives it); one column, or row, less than `wet`.
        pole: (ny + 2 halo, 1), 1 on rows of corners that are a pole (None where the grid has none).
    """

    metrics: dict
    wet: jax.Array
    coriolis: Any
    wet_u: jax.Array
    wet_v: jax.Array
    pole: Any
    sides: Sides
    shape: tuple = static()
    halo: int = static()
    columns: int = static()  # nx of the whole grid
    rotates: bool = static()  # whether there is a Coriolis force

    @staticmethod
    def build(
        grid: Grid,
        wet: GridValues | np.ndarray,
        coriolis: Any,
        halo: int,
        open_sides: tuple,
        communicator: Communicator,
        dtype: DTypeLike,
    ) -> "TileGeometry":
        """The placed geometry of this process's tiles.

        Args:
            grid: the Grid.
            wet: the mask, 1 in water, 0 on land: GridValues, or an array (ny, nx).
            coriolis: a Coriolis, or None.
            halo: number of ghost cells around a tile.
            open_sides: the names of the open sides.
            communicator: a Communicator.
            dtype: of metrics and of f.
        """

        def make(rank):
            return TileGeometry._of_rank(rank, grid, wet, coriolis, halo, open_sides, communicator, np.dtype(dtype))

        return communicator.place(make)

    @staticmethod
    def _of_rank(rank, grid, wet, coriolis, halo, open_sides, communicator, dtype):
        parts = communicator.decomposition(grid.shape)
        tile = parts.box(rank)
        rows, columns = np.arange(tile.j0 - halo, tile.j1 + halo), np.arange(tile.i0 - halo, tile.i1 + halo)
        modes = {
            side: "wrap" if periodic else "edge" if side in open_sides or at_pole else 0
            for side, periodic, at_pole in zip(
                SIDES, [grid.periodic_x] * 2 + [grid.periodic_y] * 2, (False, False, *grid.poles)
            )
        }
        wet = tile.cut(wet, halo, (modes["south"], modes["north"]), (modes["west"], modes["east"])).astype(float)
        for axis, line in enumerate(parts.padding(rank)):
            if line:  # an exchange leaves a neighbour's values there, shifted by one cell: land hides them
                wet[(slice(None),) * axis + (0,)] = 0.0
        fixed_u = [edge for edge, side in ((-1, "west"), (grid.nx - 1, "east")) if side in open_sides]
        fixed_v = [
            e for e, k, side in ((-1, 0, "south"), (grid.ny - 1, 1, "north")) if side in open_sides or grid.poles[k]
        ]
        at_pole = [e for e, pole in zip((-1, grid.ny - 1), grid.poles) if pole]
        as_array = lambda x: np.asarray(x, dtype)  # noqa: E731
        return TileGeometry(
            metrics=jax.tree.map(as_array, grid.metrics(rows)),
            wet=wet.astype(np.uint8),
            coriolis=as_array(
                0.0 if coriolis is None else coriolis.at(grid, rows % grid.ny if grid.periodic_y else rows)
            ),
            rotates=coriolis is not None,
            wet_u=(wet[:, 1:] * wet[:, :-1] * ~np.isin(columns[:-1], fixed_u)).astype(np.uint8),
            wet_v=(wet[1:] * wet[:-1] * ~np.isin(rows[:-1], fixed_v)[:, None]).astype(np.uint8),
            pole=as_array(np.isin(rows, at_pole)[:, None]) if at_pole else None,
            sides=Sides.of(grid, communicator, open_sides, dtype, rank),
            shape=tile.shape,
            halo=halo,
            columns=grid.nx,
        )


@pytree
class Geometry:
    """Fields derived from a TileGeometry.

    Attributes:
        dx, dy: sides by position [m]; per_dx, per_dy: their inverses, 0 where a side has shrunk to a pole.
        f: Coriolis parameter at the corners [s-1].
        wet: 1 in wet cells, 0 on land [h].
        wet_u, wet_v: 1 on faces whose velocity is an unknown, 0 on the others.
        area_h, area_q: areas [m2], with inverses per_area_h, per_area_q; area_u = dx_u dy_u and area_v = dx_v dy_v
            are those of the energy.
        wet_area: area of wet cells, 0 on land [h].
        wet_area_q: the wet area around a corner, a sum of four cells, one value at a pole [q]; dry_q is 1 where it
            vanishes.
        slip: the factor of a velocity difference across a corner: 1 at sea, 0 or 2 at a coast (free or no slip) [q].
    """

    tile: TileGeometry
    dx: dict
    dy: dict
    per_dx: dict
    per_dy: dict
    f: AbstractField
    wet: Field
    wet_u: Field
    wet_v: Field
    area_h: AbstractField
    area_q: AbstractField
    per_area_h: AbstractField
    per_area_q: AbstractField
    wet_area: Field
    wet_area_q: Field
    dry_q: Field
    slip: Field

    @staticmethod
    def derive(
        tile: TileGeometry, slip_at_coast: float, communicator: Any, lift: Callable | None = None, wet: Any = None
    ) -> "Geometry":
        """Derive the Geometry of a TileGeometry.

        Args:
            tile: the TileGeometry.
            slip_at_coast: 0 for free slip, 2 for no slip.
            lift: `lift(field, dtype, name)` converts a Field to another kind of field, with values of this type. It is
                applied to each Field of the tile; without it they stay Fields.
            wet: the wet cells as such a field, if the caller has it already.
        """
        lift = lift or (
            lambda x, dtype, name: Field(x.data.astype(dtype), x.position, x.halo) if isinstance(x, Field) else x
        )
        dtype = tile.metrics["area_h"].dtype
        column = lambda x, position, name: lift(_field(x, position, tile.halo), dtype, name)  # noqa: E731
        dx = {p: column(tile.metrics[f"dx_{p}"], p, f"dx_{p}") for p in "huvq"}
        dy = {p: column(tile.metrics[f"dy_{p}"], p, f"dy_{p}") for p in "huvq"}
        area_h = column(tile.metrics["area_h"], "h", "area_h")
        # Faces of open sides and of poles lie between wet cells, and are masked nevertheless.
        between_wet_cells = wet is not None and not tile.sides.open_sides and tile.pole is None
        wet = wet if wet is not None else lift(Field(tile.wet, "h", (tile.halo,) * 4), dtype, "wet")
        wet_u = Field(tile.wet_u, "u", (tile.halo, tile.halo - 1, tile.halo, tile.halo))
        wet_v = Field(tile.wet_v, "v", (tile.halo, tile.halo, tile.halo, tile.halo - 1))
        wet_area = wet * area_h
        wet_area_q, four = op.sum_xy(wet_area), op.sum_xy(wet)
        area_q = op.mean_xy(area_h) if isinstance(area_h, AbstractField) else area_h
        at_sea = four.map(lambda n: (n > 3.5).astype(n.dtype))
        geometry = Geometry(
            tile=tile,
            dx=dx,
            dy=dy,
            per_dx={p: safe_inverse(x) for p, x in dx.items()},
            per_dy={p: safe_inverse(x) for p, x in dy.items()},
            f=column(tile.coriolis, "q", "f"),
            wet=wet,
            wet_u=op.west(wet) * op.east(wet) if between_wet_cells else lift(wet_u, dtype, "wet_u"),
            wet_v=op.south(wet) * op.north(wet) if between_wet_cells else lift(wet_v, dtype, "wet_v"),
            area_h=area_h,
            area_q=area_q,
            per_area_h=safe_inverse(area_h),
            per_area_q=safe_inverse(area_q),
            wet_area=wet_area,
            wet_area_q=wet_area_q,
            dry_q=wet_area_q,
            slip=at_sea if slip_at_coast == 0.0 else at_sea + slip_at_coast * (1.0 - at_sea),
        )
        around = geometry.at_poles(wet_area_q, communicator)
        cells = four if tile.pole is None else around  # whole numbers have no rounding, which a loop would not reorder
        return replace(geometry, wet_area_q=around, dry_q=cells.map(lambda a: (a == 0).astype(a.dtype)))

    @property
    def area_u(self) -> AbstractField:
        """dx_u dy_u [m2], at u."""
        return self.dx["u"] * self.dy["u"]

    @property
    def area_v(self) -> AbstractField:
        """dx_v dy_v [m2], at v."""
        return self.dx["v"] * self.dy["v"]

    def ddx(self, f: AbstractField) -> AbstractField:
        """The derivative along x [per m] of f, half a cell away."""
        __tracebackhide__ = True  # the source of a fused loop shows the line of the caller
        slope = op.difference_x(f)
        return slope * self.per_dx[slope.position]

    def ddy(self, f: AbstractField) -> AbstractField:
        """The derivative along y [per m] of f, half a cell away."""
        __tracebackhide__ = True
        slope = op.difference_y(f)
        return slope * self.per_dy[slope.position]

    def at_poles(self, field: Any, communicator: Communicator) -> Any:
        """A corner Field whose rows at a pole are replaced by their zonal mean over all tiles."""
        if self.tile.pole is None:
            return field
        own = without_padding(field.crop((0, 0, *field.halo[2:])).data, self.tile.sides, "x")
        total = communicator.sum(jnp.sum(own, axis=-1, keepdims=True), axis="x")
        mean = communicator.replicated(total, axis="x") / self.tile.columns
        pole = _field(self.tile.pole, "q", self.tile.halo).crop((WHOLE, WHOLE, *field.halo[2:])).data
        return Field(field.data + pole * (mean - field.data), "q", field.halo)


def safe_inverse(x: Any) -> Any:
    """1 / x, and 0 where x is 0 (at poles, on land), with finite derivatives there."""
    __tracebackhide__ = True
    if isinstance(x, AbstractField):
        return x.map(safe_inverse)
    return jnp.where(x == 0, 0.0, 1.0 / jnp.where(x == 0, 1.0, x)).astype(x.dtype)


def _field(x, position, halo):
    """A number unchanged; a column as a Field that is valid everywhere along x."""
    return x if jnp.ndim(x) == 0 else Field(x, position, (WHOLE, WHOLE, halo, halo))
