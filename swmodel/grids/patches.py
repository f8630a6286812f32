"""Several files of elevations on one grid: patches take precedence where they have values, and blend over a margin.

The sums over the nodes of a cell from which its depth follows (bathymetry.py, topography.py) are linear in the weights
of nodes. With files k = 1, 2, ..., the one of the highest priority first, they are

    S = sum_k w_k S_k / sum_k w_k,    w_k = r_k prod_(i < k) (1 - r_i),    r_k = min(d_k / (margin + 1), 1)

with d_k the distance [cells] to the nearest cell that is not wholly covered by nodes of file k with values. The last
file has r = 1 in all cells within it. So patches pass into what lies under them over `margin` cells, or, where nothing
does, count to their ends.
"""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import ConfigError, DataError
from ..fields.parameters import Choice, Number, Text, check_fields, declared
from .axes import is_data_array
from .elevation import coarsened, elevation_in, open_elevation
from .grid import Grid
from .remapping import Remapping, remapping
from .undeclared import Undeclared

DOUBTFUL = 2.0  # what is added to the share of a cell's nodes without a value
Sums = Callable[[slice, slice], tuple[np.ndarray, ...]]


@dataclasses.dataclass(frozen=True)
class Patch:
    """Elevations that take precedence over those of other files where they have values.

    Args:
        file: path of a file in any format that is read, or an xarray.DataArray; it may cover a part of the grid.
        variable: its name in the file, if it has several that could be meant.
        positive: "up" or "down", where the file does not say.
        datum: the level of the water at rest above the zero of the file [m].
        land_datum: the zero of the file's heights of land, above that of its depths [m].
        coarsen: read every `coarsen`-th node along each axis.
    """

    file: Any
    variable: str | None = declared(
        Text(optional=True), default=None, doc="its name in the file; found by its metadata unless given"
    )
    positive: str | None = declared(
        Choice(("up", "down", None)), default=None, doc="elevation or depth, where the file does not say"
    )
    datum: float = declared(
        Number(units="m"), default=0.0, doc="level of the water at rest, above the zero of the file"
    )
    land_datum: float = declared(
        Number(units="m"), default=0.0, doc="zero of the file's heights of land, above that of its depths"
    )
    coarsen: int = declared(Number(minimum=1, whole=True), default=1, doc="read every n-th node along each axis")

    def __post_init__(self):
        check_fields(self)

    def elevation(self, grid: Grid, masked: bool, positive: str | None = None) -> Any:
        """The elevation on axes of its file; `positive` is used unless the patch has its own."""
        if is_data_array(self.file):
            name = self.variable or str(self.file.name or "patch")
            field = elevation_in(self.file.to_dataset(name=name), name, name, self.positive or positive, masked)
            return coarsened(field, self.coarsen)
        return open_elevation(self.file, self.variable, self.positive or positive, masked, grid, self.coarsen)


@dataclasses.dataclass(frozen=True)
class Layer:
    """A file on the grid.

    Attributes:
        elevation: the field.
        plan: its Remapping.
        levels: (datum, land_datum) [m].
        undeclared: its values for missing ones.
    """

    elevation: Any
    plan: Remapping
    levels: tuple[float, float]
    undeclared: Undeclared


def layers_of(
    elevation: Any,
    levels: tuple[float, float],
    patches: Sequence[Patch | str | os.PathLike],
    grid: Grid,
    method: str,
    masked: bool = False,
    positive: str | None = None,
) -> list[Layer]:
    """The Layers of an elevation and of the patches on it, by priority; `masked` and `positive` as of `open_elevation`.

    Raises:
        DataError: if a file cannot be read, or has no place on the grid.
    """
    opened = [each if isinstance(each, Patch) else Patch(each) for each in patches]
    fields = [(each.elevation(grid, masked, positive), (each.datum, each.land_datum)) for each in opened]
    layers = []
    for field, own in (*fields, (elevation, levels)):
        plan = _plan(field, grid, method, bool(fields), field is elevation)
        layers.append(Layer(field, plan, own, Undeclared(field, plan)))
    return layers


def _plan(field, grid, method, partial, is_last):
    """The Remapping of a file. The last one reaches beyond its outermost nodes as it does without patches."""
    if partial and is_last:
        with contextlib.suppress(DataError):
            return remapping(field, grid, method)
    return remapping(field, grid, method, partial=partial)


def overlay(sums: Sequence[Sums], plans: Sequence[Remapping], shape: tuple[int, int], margin: int = 0) -> Sums:
    """The function of (rows, columns) that gives the blended sums of several files on a block of cells.

    Its last array is the share of the block's nodes without a value, 1 in cells that no file has.

    Args:
        sums: for each file `sums(rows, columns)`, of which the last array is the share of nodes without a value, with
            DOUBTFUL added in cells of doubtful nodes.
        plans: their Remappings.
        shape: (ny, nx) of the grid.
        margin: over which a file passes into the next one [cells].
    """
    if margin != int(margin) or margin < 0:
        raise ConfigError(f"margin = {margin!r} is not a number of cells; give 0 or more.")
    if len(sums) == 1:
        return sums[0]
    margin = int(margin)

    def blended(rows, columns):
        wide = [
            slice(max(part.start - margin, 0), min(part.stop + margin, n)) for part, n in zip((rows, columns), shape)
        ]
        own = tuple(slice(part.start - w.start, part.stop - w.start) for part, w in zip((rows, columns), wide))
        left: Any = 1.0
        total, missing, doubtful = (np.zeros((rows.stop - rows.start, columns.stop - columns.start)) for _ in range(3))
        blend: list[Any] = []
        for k, (sums_of, plan) in enumerate(zip(sums, plans), 1):
            *values, gaps = sums_of(*wide)
            share = _share(plan.inside(*wide), gaps, margin, is_last=k == len(sums))[own]
            weight, left = left * share, left * (1.0 - share)
            total, gaps = total + weight, gaps[own]
            missing = missing + weight * (gaps % DOUBTFUL)
            doubtful = np.maximum(doubtful, np.where((weight > 0) & (gaps >= DOUBTFUL), DOUBTFUL, 0.0))
            terms = [weight * value[own] for value in values]
            blend = [a + b for a, b in zip(blend, terms)] if blend else terms
        scale = 1.0 / np.where(total > 0, total, 1.0)
        return *(scale * value for value in blend), np.where(total > 0, scale * missing + doubtful, 1.0)

    return blended


def _share(inside, gaps, margin, is_last):
    """r_k of the cells of a block."""
    if is_last:
        return inside.astype(float)
    whole = inside & (gaps % DOUBTFUL < 1e-9)
    if margin == 0 or whole.all() or not whole.any():
        return whole.astype(float)
    from scipy.ndimage import distance_transform_edt

    return np.minimum(np.asarray(distance_transform_edt(whole)) / (margin + 1.0), 1.0)
