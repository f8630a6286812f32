"""The Domain of a model: its grid, the tiles, and the conversion of fields of the whole grid to fields of tiles.

`Model` names what parts of the equations, steppers and their limits read of a ShallowWater or an Ensemble.
"""

import dataclasses
import datetime
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import jax
import numpy as np
from jax.core import Tracer
from numpy.typing import ArrayLike, DTypeLike

from ..errors import SwmodelError
from ..fields.state import State
from ..fields.variables import Variable
from ..grids.grid import Grid
from ..grids.windows import GridRecords, GridValues, TileRecords, blocks_of
from ..parallel.communicator import Communicator
from ..parallel.decomposition import Decomposition
from .terms import Series

if TYPE_CHECKING:
    from .boundaries import OpenBoundary
    from .cores import Discretisation
    from .coriolis import Coriolis
    from .floor import Floor
    from .layers import Layers
    from .momentum import VorticityFlux
    from .slip import FreeSlip, NoSlip
    from .system import System
    from .terms import Term
    from .transported import Transported
    from .wetting import WettingDrying

__all__ = ["Domain", "Model"]

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

    members: int | None = None  # the number of members of an Ensemble
    grid: Grid
    domain: Domain
    communicator: Communicator
    decomposition: Decomposition
    dtype: np.dtype
    system: "System"
    sea_floor: "Floor"
    variables: tuple[Variable, ...]
    term_names: tuple[str, ...]
    open_names: tuple[str, ...]
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
    side: "FreeSlip | NoSlip"
    core: "Discretisation"
    wetting: "WettingDrying | None"
    film: float | None
    terms: "tuple[Term, ...]"
    open_boundaries: "tuple[OpenBoundary, ...]"
    tracers: "tuple[Transported, ...]"
    layers: "Layers | None"
    layer_count: int
    uplift: Series | None
    step_loop: Any  # the class of StepLoop (stepping/steps.py)

    def each(self, state: State | None = None) -> "list[tuple[str, Self, State | None]]":
        """[(name, model, State or None)] of the members; of a single model itself, without a name."""
        return [("", self, state)]

    def run_on_arrays(self) -> None:
        """Let steps run on arrays from now on, whatever engine was chosen."""
        raise NotImplementedError
