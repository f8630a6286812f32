"""Depth and mask of a model, of which each rank evaluates the windows of its own tiles."""

import functools
from typing import Any, TypeAlias, cast

import jax
import numpy as np

from ..errors import ConfigError
from ..grids.bathymetry import Bathymetry, SeaFloor
from ..grids.grid import Grid
from ..grids.levees import NO_CREST, CrestDepths, check_on_grid
from ..grids.topography import Topography
from ..grids.windows import FieldLike, Formula, GridValues, Stored, cached, grid_values
from ..parallel.decomposition import Tile
from .domain import Domain
from .wetting import WettingDrying

__all__ = ["DepthLike", "Faces", "Floor", "floor_of"]

DepthLike: TypeAlias = FieldLike | Bathymetry | SeaFloor | Topography  # what a depth may be given as


class Floor:
    """Depth and mask of a model, by windows.

    Args:
        domain: the model's Domain.
        depth: GridValues [m], positive down.
        wet: GridValues, bool.
        report: sentences for the user.
        levees: Levees, which stand on faces.

    Attributes:
        water: GridValues, the depth in wet cells and 0 on land [m].
    """

    def __init__(self, domain: Domain, depth: GridValues, wet: GridValues, report: tuple = (), levees: tuple = ()):
        self.domain, self.depth, self.wet, self.report = domain, depth, wet, tuple(report)
        self.levees = tuple(levees)
        self.water = depth.map(lambda depth, wet: np.where(wet, depth, 0.0), wet)

    def mask(self, position: str, open_sides: tuple = ()) -> GridValues:
        """GridValues, bool: wet cells ("h"), or the faces ("u" or "v") between two of them and at `open_sides`."""
        is_open = {"u": "east", "v": "north"}.get(position) in open_sides
        return self.wet if position == "h" else Faces(self.wet, self.domain.grid, position, is_open)

    @functools.cached_property
    def crests(self) -> tuple[GridValues, GridValues] | None:
        """The depths of the levees' crests on faces at u and v [m]; None without levees."""
        if not self.levees:
            return None
        grid, most = self.domain.grid, max(8, 2 * len(self.domain.communicator.ranks))
        return cached(CrestDepths(self.levees, grid, "u"), most), cached(CrestDepths(self.levees, grid, "v"), most)

    def crests_on(self, halo: int) -> tuple[jax.Array, jax.Array] | None:
        """Placed tile arrays of `crests` with a halo, beyond closed and open sides without a crest; None likewise."""
        if self.crests is None:
            return None
        heights = [crests.map(lambda depth: NO_CREST - depth) for crests in self.crests]
        grid, communicator = self.domain.grid, self.domain.communicator
        modes = ["wrap" if periodic else False for periodic in (grid.periodic_y, grid.periodic_x)]

        def make(rank):
            box = communicator.decomposition(grid.shape).box(rank)
            return tuple(np.asarray(NO_CREST - box.cut(x, halo, *modes), self.domain.dtype) for x in heights)

        return cast(tuple[jax.Array, jax.Array], communicator.place(make))

    @functools.cached_property
    def _statistics(self) -> tuple[int, int, float, float, float]:
        """(wet cells; the number of cells under water at rest, and their smallest, largest and mean depth) of the whole
        grid; collective.

        With wetting, cells that may be wet count as wet, and may all be dry at rest; the depths are then 0.
        """
        own = [depth[depth > 0] for _, depth in self.domain.own(self.water)]
        low, high = (float(f([f(x, initial=i) for x in own])) for f, i in ((np.min, np.inf), (np.max, -np.inf)))
        communicator = self.domain.communicator
        low, high = communicator.host_maximum(np.array([-low, high]))
        wet = sum(np.count_nonzero(wet) for _, wet in self.domain.own(self.wet))
        sums = communicator.host_sum(np.array([wet, sum(x.size for x in own), sum(x.sum() for x in own)], float))
        wet, count, total = (float(x) for x in sums)
        return (int(wet), int(count), *((-float(low), float(high), total / count) if count else (0.0, 0.0, 0.0)))

    @property
    def wet_cells(self) -> int:
        """The number of wet cells of the whole grid; collective at its first use."""
        return self._statistics[0]

    @property
    def cells_under_water(self) -> int:
        """The number of cells under water at rest; fewer than `wet_cells` with wetting; collective at its first use."""
        return self._statistics[1]

    @property
    def depths(self) -> tuple[float, float, float]:
        """(smallest, largest, mean) of the depths of cells under water at rest [m], 0 where there are none; collective
        at its first use."""
        return self._statistics[2:]

    @property
    def typical_depth(self) -> float:
        """The mean of `depths`, 1 m where all is dry at rest: a scale of the depth; collective at its first use."""
        return self.depths[2] or 1.0

    @property
    def is_flat(self) -> bool:
        """Whether all wet cells are equally deep; collective at its first use."""
        return self.depths[0] == self.depths[1]

    @property
    def is_all_wet(self) -> bool:
        """Whether no cell is land; collective at its first use."""
        return self.wet_cells == self.domain.grid.nx * self.domain.grid.ny


class Faces(GridValues):
    """Faces between two wet cells.

    Args:
        wet: GridValues, bool.
        grid: the Grid.
        position: "u" for the east face of each cell, "v" for the north face.
        is_open: whether the faces of wet cells at the east, or north, side of the domain count too.
    """

    dtype = np.dtype(bool)

    def __init__(self, wet: GridValues, grid: Grid, position: str, is_open: bool = False):
        self.wet, self.along_x, self.shape = wet, position == "u", wet.shape
        beyond: Any = (False, "edge" if is_open else False)
        self.modes = ["wrap" if periodic else beyond for periodic in (grid.periodic_y, grid.periodic_x)]

    def block(self, rows: slice, columns: slice) -> np.ndarray:
        tile = Tile(rows.start, rows.stop + (not self.along_x), columns.start, columns.stop + self.along_x)
        wide = tile.cut(self.wet, 0, *self.modes)
        return wide[:, :-1] & wide[:, 1:] if self.along_x else wide[:-1] & wide[1:]


def floor_of(depth: DepthLike, domain: Domain, wetting: WettingDrying | None = None, levees: tuple = ()) -> Floor:
    """The Floor of a model from its arguments `depth` and `levees`; collective. With `wetting` the depth is signed.

    Raises:
        ValueError: for a depth of another shape than the grid, or not finite, and where there is no water.
    """
    _check_levees(levees, wetting, domain.grid)
    if wetting is None and isinstance(depth, Topography):
        raise ConfigError("ShallowWater: a topography has heights of land, which need wetting=WettingDrying().")
    if wetting is not None and not isinstance(depth, Topography) and hasattr(depth, "wet"):
        raise ConfigError(
            "ShallowWater: a bathymetry has no heights of land, which wetting needs; give a topography of the file, or "
            "a signed depth as an array or function, negative on land."
        )
    if isinstance(depth, SeaFloor):
        domain.together(lambda: domain.own(depth.wet))
        found = depth.surveyed(domain.communicator)
        return Floor(domain, found.depth, found.wet, found.report)
    given, report = getattr(depth, "wet", None), getattr(depth, "report", ())
    values = _values(getattr(depth, "depth", depth), domain)
    if wetting is not None:
        wet = may_be_wet(values, wetting.highest, given)
    elif given is None:
        wet = values.map(lambda depth: depth > 0, dtype=bool)
    else:
        given = Stored(np.array(given, bool), domain.grid.shape)
        wet = given.map(lambda wet, depth: wet & (depth > 0), values, dtype=bool)
    floor = Floor(domain, values, wet, report, levees)
    wrong = domain.together(lambda: any(not np.isfinite(part).all() for _, part in domain.own(values)))
    if domain.communicator.agree(wrong):
        raise ValueError("ShallowWater: depth holds values that are not finite; fill them, or set them to 0 for land.")
    if not domain.any(wet):
        if wetting is None:
            raise ValueError("ShallowWater: depth is nowhere positive, so there is no water; depth is positive down.")
        raise ValueError("ShallowWater: no cell may be wet; raise `highest` of WettingDrying, or change the mask.")
    return floor


def _check_levees(levees, wetting, grid):
    """Raise ConfigError for levees in a model without wetting, and for one that stands on no face."""
    if levees and wetting is None:
        raise ConfigError("ShallowWater: water flows over levees only with wetting=WettingDrying(); give that, too.")
    try:
        check_on_grid(levees, grid)
    except ConfigError as error:
        raise ConfigError(f"ShallowWater: {error}") from None


def _values(depth, domain):
    """The GridValues of a number, an array or a function; of functions the latest blocks are kept."""
    grid = domain.grid
    if not (callable(depth) or isinstance(depth, GridValues)):
        depth = np.asarray(depth, float)
        depth = depth if depth.ndim == 0 else depth.copy()  # the user may change it later
    if not callable(depth) and np.shape(depth) not in ((), grid.shape, (1, grid.nx), (grid.ny, 1)):
        raise ValueError(
            f"ShallowWater: depth has shape {np.shape(depth)}, and the grid has {grid.shape} (ny, nx); "
            "give one value a cell, a number, or a function of x and y."
        )
    depth = grid_values(depth, grid, name="ShallowWater: the depth")
    return cached(depth, max(8, 2 * len(domain.communicator.ranks))) if isinstance(depth, Formula) else depth


def may_be_wet(depth: GridValues, highest: float | None, mask: GridValues | None) -> GridValues:
    """The cells of a mask (None: all cells) whose bed is not higher than `highest` [m] (None: of any height)."""
    low = depth.map(lambda depth: -depth <= (np.inf if highest is None else highest), dtype=bool)
    return low if mask is None else low.map(lambda low, inside: low & inside, mask, dtype=bool)
