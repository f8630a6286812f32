"""A part of the grid in files: a box of its cells, and means over blocks of them.

A field at the centres of a block of n x n cells is the mean over those that may be wet, as is the depth. A block may be
wet if any of its cells may be. A field at a face of a block is the mean over those of its n faces that touch water. A
corner keeps its value.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from ..errors import ConfigError
from ..fields.variables import Variable
from ..grids.grid import Grid
from .definitions import dry_points, variable_name


@dataclasses.dataclass(frozen=True)
class GridPart:
    """Some rows and columns of the cells of a grid, in blocks of `coarsen` x `coarsen`.

    Attributes:
        whole: the Grid.
        rows, columns: slices of its cells, whose lengths are multiples of `coarsen`.
        coarsen: cells along the side of a block.
        static: that of the whole grid, as of FieldFile, once the file is open.
    """

    whole: Grid
    rows: slice
    columns: slice
    coarsen: int
    static: Mapping[Any, np.ndarray] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, path: str | Path, grid: Grid, box: Sequence[float] | None, coarsen: int) -> Self:
        """The part of the cells whose centres lie in a box (x0, x1, y0, y1), up to whole blocks.

        Raises:
            ConfigError: for a box that is empty, has less than two blocks along an axis, or lies at both ends of the
                grid's longitudes; `path` is that of the file.
        """
        if box is not None and (len(box) != 4 or not (box[0] < box[1] and box[2] < box[3])):
            raise ConfigError(f"{path}: box = {tuple(box)} is no box; give (x0, x1, y0, y1) with x0 < x1 and y0 < y1.")
        x, y = (None, None) if box is None else (_turned(path, grid, *box[:2]), box[2:])
        parts = []
        for name, centres, limits in (("y", grid.y_centres, y), ("x", grid.x_centres, x)):
            inside = np.arange(centres.size)
            if limits is not None:
                inside = np.flatnonzero((centres >= limits[0]) & (centres <= limits[1]))
            count = inside.size // coarsen
            if count < 2:
                raise ConfigError(
                    f"{path}: the box has {inside.size} cells along {name}, and coarsen = {coarsen} needs "
                    f"{2 * coarsen} or more; give a larger box, or coarsen less."
                )
            parts.append(slice(int(inside[0]), int(inside[0]) + count * coarsen))
        return cls(grid, parts[0], parts[1], coarsen)

    @property
    def grid(self) -> Grid:
        """The Grid of the blocks."""
        (x0, x1), (y0, y1) = (
            (float(edges[part.start]), float(edges[part.stop]))
            for edges, part in ((self.whole.x_edges, self.columns), (self.whole.y_edges, self.rows))
        )
        nx, ny = ((part.stop - part.start) // self.coarsen for part in (self.columns, self.rows))
        names = ("longitude", "latitude") if self.whole.spherical else ("x", "y")
        limits: dict[str, Any] = dict(zip(names, ((x0, x1), (y0, y1))))
        kept = [
            letter
            for letter, part, n in (("x", self.columns, self.whole.nx), ("y", self.rows, self.whole.ny))
            if getattr(self.whole, f"periodic_{letter}") and part.stop - part.start == n
        ]
        whole: Any = self.whole
        return dataclasses.replace(whole, nx=nx, ny=ny, periodic="".join(kept), **limits)

    def cut(self, position: str, array: np.ndarray) -> np.ndarray:
        """A field of the whole grid (..., ny, nx), in the form of files, on the blocks."""
        array = np.asarray(array)
        dry = np.asarray(dry_points(self.static, self.whole, position))
        weights = np.broadcast_to(~dry, array.shape[-2:]).astype(float)
        of_water = self._sums(position, np.where(weights > 0, array, 0.0))
        share = self._sums(position, weights)
        return (of_water / np.where(share > 0, share, 1.0)).astype(array.dtype)

    def static_fields(self) -> dict[str | Variable, np.ndarray]:
        """The static fields on the blocks."""
        fields: dict[str | Variable, np.ndarray] = {}
        for key, array in self.static.items():
            if variable_name(key) == "wet":
                fields[key] = self._sums("h", np.asarray(array, float)) > 0
            else:
                fields[key] = self.cut("h", array)
        return fields

    def _sums(self, position, array):
        """Sums over the cells or faces of each block; every `coarsen`-th one along a direction of faces."""
        for axis, part, at_faces, periodic, name in (
            (-2, self.rows, position in "vq", self.whole.periodic_y, "y"),
            (-1, self.columns, position in "uq", self.whole.periodic_x, "x"),
        ):
            array = np.moveaxis(array, axis, -1)
            if at_faces:
                if periodic:  # faces begin with the east one of the first cell
                    array = np.concatenate([array[..., -1:], array], axis=-1)
                array = array[..., part.start : part.stop + 1 : self.coarsen]
                if getattr(self.grid, f"periodic_{name}"):
                    array = array[..., 1:]
            else:
                blocks = (part.stop - part.start) // self.coarsen
                array = array[..., part].reshape(*array.shape[:-1], blocks, self.coarsen).sum(axis=-1)
            array = np.moveaxis(array, -1, axis)
        return array


def _turned(path, grid, low, high):
    """Limits of x; longitudes are turned by whole circles to those of the grid."""
    if not grid.spherical:
        return low, high
    west, east = grid.x_edges[[0, -1]]
    if high - low >= 360.0:
        return west, east
    turn = 360.0 * np.round((west + east - low - high) / 720.0)
    low, high = low + turn, high + turn
    if low + 360.0 < east or high - 360.0 > west:
        raise ConfigError(
            f"{path}: the box reaches across the ends of the grid's longitudes, {west:g} and {east:g}; write a file on "
            "each side, or begin the grid at another meridian."
        )
    return low, high
