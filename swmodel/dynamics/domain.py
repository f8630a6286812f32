"""The Domain of a model: its grid and tiles, the depth and mask, and the conversion of fields to those of tiles.

`Model` names what parts of the equations, steppers and their limits read of a ShallowWater or an Ensemble.

Depth and mask of a model, of which each rank evaluates the windows of its own tiles.
"""

import dataclasses
import datetime
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar, cast

import jax
import numpy as np
from jax.core import Tracer
from numpy.typing import ArrayLike, DTypeLike

from ..errors import SwmodelError
from ..fields.parameters import Number, Part
from ..fields.state import State
from ..fields.variables import Variable
from ..grids.bathymetry import Bathymetry, SeaFloor
from ..grids.grid import Grid
from ..grids.levees import NO_CREST, CrestDepths, check_on_grid
from ..grids.topography import Topography
from ..grids.windows import (
    FieldLike,
    Formula,
    GridRecords,
    GridValues,
    Stored,
    TileRecords,
    blocks_of,
    cached,
    grid_values,
)
from ..parallel.communicator import Communicator
from ..parallel.decomposition import Decomposition, Tile
from .shores import FIXED, Shore
from .terms import Series

if TYPE_CHECKING:
    from ..grids.geometry import Coriolis
    from ..grids.subgrid import FineBed
    from .boundaries import OpenBoundary
    from .cores import Discretisation
    from .dissipation import Slip
    from .layer import VorticityFlux
    from .layers import Layers
    from .system import System
    from .terms import Term
    from .transported import Transported


__all__ = ["DepthLike", "Domain", "Faces", "Floor", "Model", "floor_of"]


T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Domain:
    """The grid and its distribution over ranks, with which terms cut their parameters to tiles."""

    grid: Grid
    communicator: Communicator
    dtype: np.dtype
    sea_floor: "Floor" = cast("Floor", None)  # until there is one
    coriolis: "Coriolis | None" = None  # that of the model

    def cut(self, whole: ArrayLike | GridValues) -> jax.Array:
        """Placed tile arrays of a (..., ny, nx) host array or of GridValues; a number unchanged."""
        return self.communicator.place(lambda rank: self.part(whole, rank))

    def cut_exactly(self, whole: np.ndarray) -> jax.Array:
        """`cut` of an array that every rank holds, of which integers stay integers."""
        return self.communicator.place(lambda rank: np.asarray(whole, None if whole.dtype.kind == "i" else self.dtype))

    def is_placed(self, x: object) -> bool:
        """Whether x is placed tile arrays already, and not an array of the whole grid for `cut`."""
        if not isinstance(x, jax.Array) or x.shape != self.communicator.placed_shape(self.grid.shape):
            return False
        return x.shape != self.grid.shape or isinstance(x, Tracer) or not x.is_fully_addressable

    def noise(
        self, random: np.random.Generator, scaled: Callable, mask: GridValues, lead: tuple[int, ...] = ()
    ) -> jax.Array:
        """Tile arrays (*lead, my, mx) of white noise, the same on any number of ranks.

        Args:
            random: a numpy.random.Generator, of which the numbers of the whole grid are drawn, some rows at a time.
            scaled: `scaled(noise, mask)` gives the values from the noise of variance 1 and the mask of a tile.
            mask: GridValues.
            lead: further dimensions in front.
        """
        parts, (ny, nx) = self.communicator.decomposition(self.grid.shape), self.grid.shape
        found = {rank: np.zeros((*lead, *parts.box(rank).shape)) for rank in self.communicator.ranks}
        for index in np.ndindex(*lead):
            for rows, _ in blocks_of((ny, nx)):
                drawn = random.standard_normal((rows.stop - rows.start, nx))
                for rank, noise in found.items():
                    box = parts.box(rank)
                    both = slice(max(rows.start, box.j0), max(min(rows.stop, box.j1), rows.start, box.j0))
                    part = drawn[both.start - rows.start : both.stop - rows.start, box.i0 : box.i1]
                    noise[(*index, slice(both.start - box.j0, both.stop - box.j0))] = part
        return self.communicator.place(lambda rank: np.asarray(scaled(found[rank], parts.cut(mask, rank)), self.dtype))

    def series(self, times: np.ndarray, values: np.ndarray | GridRecords, cycle: float | None = None) -> Series:
        """A Series of tile records of GridRecords, or of (n, ny, nx) or (n,) host values."""
        part = self._records if isinstance(values, GridRecords) else self.part
        parts: Any = {rank: part(values, rank) for rank in self.communicator.ranks}
        return Series(times, parts, cycle, self.communicator.place)

    def part(
        self, whole: ArrayLike | GridValues | GridRecords, rank: int, dtype: DTypeLike | None = None
    ) -> np.ndarray:
        """A rank's tile of a (..., ny, nx) host array or of GridValues; a number as it is."""
        if np.ndim(whole) < 2:
            return np.asarray(whole, dtype or self.dtype)
        return np.asarray(self.communicator.decomposition(self.grid.shape).cut(whole, rank), dtype or self.dtype)

    def _records(self, records, rank):
        return TileRecords(records, lambda values: self.part(values, rank))

    def together(self, function: Callable[[], T]) -> T:
        """`function()`; an exception on one rank, such as for a value in its tile, is raised on all; collective."""
        result = error = None
        try:
            result = function()
        except (SwmodelError, ValueError, OSError) as caught:
            error = caught
        # A rank that has failed elsewhere may be at another collective call, and sends something else.
        errors = [found for found in self.communicator.host_gather(error) if isinstance(found, Exception)]
        if errors:
            raise errors[0]
        return cast(T, result)

    def any(self, values: np.ndarray | GridValues) -> bool:
        """Whether some value of the whole grid, of GridValues or an array, is not 0; collective."""
        return self.communicator.agree(any(part.any() for _, part in self.own(values)))

    def own(self, values: np.ndarray | GridValues) -> list[tuple]:
        """[(Tile, the values (my, mx) of its own cells)] for the tiles of this process, of GridValues or an array."""
        parts = self.communicator.decomposition(self.grid.shape)
        return [(tile, tile.cut(values, 0, 0, 0)) for tile in map(parts.tile, self.communicator.ranks)]


class Model:
    """What parts of the equations, steppers and outputs read of a ShallowWater or of an Ensemble in its place."""

    batch: tuple[int, ...] = ()  # axes of arrays in front of those of a tile: (number of members,) of an Ensemble
    grid: Grid
    domain: Domain
    communicator: Communicator
    decomposition: Decomposition
    dtype: np.dtype
    system: "System"
    sea_floor: "Floor"
    variables: tuple[Variable, ...]
    part_names: dict[str, tuple[str, ...]]  # {"terms": the names that experiment files give them, ...}
    open_sides: tuple[str, ...]
    requires_loops: bool
    least_thickness: float
    start: datetime.datetime | None
    # what is in the System
    gravity: float
    coriolis: "Coriolis | None"
    momentum: "VorticityFlux"
    coriolis_form: "VorticityFlux | None"
    linear: bool
    side: "Slip"
    core: "Discretisation"
    film: float | None
    terms: "tuple[Term, ...]"
    open_boundaries: "tuple[OpenBoundary, ...]"
    tracers: "tuple[Transported, ...]"
    layers: "Layers | None"
    layer_count: int
    uplift: Series | None
    step_loop: Any  # the class of StepLoop (stepping/steps.py)

    def named_parts(self, *groups: str) -> list[tuple[str, Any]]:
        """[(name, part)] of the parts in some groups, "terms", "open_boundaries" and "tracers"; of all unless given."""
        groups = groups or tuple(self.part_names)
        return [pair for group in groups for pair in zip(self.part_names[group], getattr(self, group), strict=True)]

    def each(self, state: State | None = None) -> "list[tuple[str, Self, State | None]]":
        """[(name, model, State or None)] of the members; of a single model itself, without a name."""
        return [("", self, state)]

    def run_on_arrays(self) -> None:
        """Let steps run on arrays from now on, whatever engine was chosen."""
        raise NotImplementedError


DepthLike: TypeAlias = FieldLike | Bathymetry | SeaFloor | Topography  # what a depth may be given as
FLOOR_RULES = {  # of the arguments from which `floor_of` makes a Floor
    "depth": Number("h", "m", steady=True),
    "levees": Part(("points", "crest"), "Levee(points, crest)", several=True),
}


class Floor:
    """Depth and mask of a model, by windows.

    Args:
        domain: the model's Domain.
        depth: GridValues [m], positive down.
        wet: GridValues, bool.
        report: sentences for the user.
        levees: Levees, which stand on faces.
        bed: the FineBed of cells whose beds are finer than the grid; None where they are even.

    Attributes:
        water: GridValues, the depth in wet cells and 0 on land [m].
    """

    levees: tuple = ()
    bed: "FineBed | None" = None

    def __init__(self, domain: Domain, depth: GridValues, wet: GridValues, report: tuple = ()):
        self.domain, self.depth, self.wet, self.report = domain, depth, wet, tuple(report)
        self.water = depth.map(lambda depth, wet: np.where(wet, depth, 0.0), wet)

    def mask(self, position: str, open_sides: tuple = ()) -> GridValues:
        """GridValues, bool: wet cells ("h"), or the faces ("u" or "v") between two of them and at `open_sides`."""
        is_open = {"u": "east", "v": "north"}.get(position) in open_sides
        return self.wet if position == "h" else Faces(self.wet, self.domain.grid, position, is_open)

    @functools.cached_property
    def crests(self) -> tuple[GridValues, ...]:
        """The depths of the levees' crests on faces at u and v [m]; () without levees."""
        grid, most = self.domain.grid, max(8, 2 * len(self.domain.communicator.ranks))
        return tuple(cached(CrestDepths(self.levees, grid, position), most) for position in "uv" if self.levees)

    def crests_on(self, halo: int) -> tuple[jax.Array, jax.Array] | None:
        """Placed tile arrays of `crests` with a halo, without crests beyond closed and open sides, or None."""
        if not self.crests:
            return None
        heights = [crests.map(lambda depth: NO_CREST - depth) for crests in self.crests]

        grid, communicator = self.domain.grid, self.domain.communicator
        modes = ["wrap" if periodic else False for periodic in (grid.periodic_y, grid.periodic_x)]

        def make(rank):
            box = communicator.decomposition(grid.shape).box(rank)
            return tuple(np.asarray(NO_CREST - box.cut(x, halo, *modes), self.domain.dtype) for x in heights)

        return cast(tuple[jax.Array, jax.Array], communicator.place(make))

    @property
    def maps(self) -> dict[str, GridValues]:
        """{name: GridValues} in which one sea floor differs from another."""
        maps = {"depth": self.water, "coast": self.wet}
        maps |= {f"levees.{position}": depths for position, depths in zip("uv", self.crests)}
        return maps if self.bed is None else maps | {"subgrid": self.bed.marks}

    @property
    def finer(self) -> list[str]:
        """What it has that is finer than a cell, in words."""
        levees, bed = self.levees, self.bed
        found = [f"{len(levees)} levee{'s' * (len(levees) > 1)}"] if levees else []
        return found if bed is None else [*found, f"tables of {bed.ratio} x {bed.ratio} fine cells in each"]

    @functools.cached_property
    def _statistics(self) -> tuple[int, int, float, float, float]:
        """(wet cells; the number of cells under water at rest, and their smallest, largest and mean depth) of the whole
        grid; collective.

        Where the shore moves, cells that may be wet count as wet, and may all be dry at rest; the depths are then 0.
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
        """The number of cells under water at rest, fewer than `wet_cells` if the shore moves; collective at its first
        use."""
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


def floor_of(depth: DepthLike, domain: Domain, shore: Shore = FIXED, levees: tuple = ()) -> Floor:
    """The Floor of a model from its arguments `depth` and `levees`; collective. Where the shore moves depth is signed.

    Raises:
        ConfigError: for a depth that the shore does not take, and a levee that stands on no face.
        ValueError: for a depth of another shape than the grid, or not finite, and where there is no water.
    """
    shore.check_depth(depth, levees)
    check_on_grid(levees, domain.grid, "ShallowWater")
    if isinstance(depth, SeaFloor):
        domain.together(lambda: domain.own(depth.wet))
        found = depth.surveyed(domain.communicator)
        return Floor(domain, found.depth, found.wet, found.report)
    mask, report = getattr(depth, "wet", None), getattr(depth, "report", ())
    values = _values(getattr(depth, "depth", depth), domain)
    wet = getattr(depth, "deepest", values).map(shore.may_be_wet, dtype=bool)
    if mask is not None:
        mask = mask if isinstance(mask, GridValues) else Stored(np.array(mask, bool), domain.grid.shape)
        wet = wet.map(np.logical_and, mask, dtype=bool)
    floor = Floor(domain, values, wet, report)
    floor.levees, floor.bed = tuple(levees), getattr(depth, "bed", None)
    wrong = domain.together(lambda: any(not np.isfinite(part).all() for _, part in domain.own(values)))
    if domain.communicator.agree(wrong):
        raise ValueError("ShallowWater: depth holds values that are not finite; fill them, or set them to 0 for land.")
    if not domain.any(wet):
        raise ValueError(f"ShallowWater: {shore.without_water}.")
    return floor


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
