"""The files of what a run sums up on the device: harmonic constants, means, extremes."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import Claim
from .netcdf import write_fields
from .run_metadata import members_of, static_fields
from .schedule import Output, ReplacedFile

__all__ = ["ProductOutput"]


class ProductOutput(Output):
    """Fields made of the sums of one product, written at the end of a run.

    Args:
        path: the path of the file.
        number: the place of the sums in `simulation._product_sums`.
        results: `results(sums, numbers, last)` makes {row: array (ny, nx)} of gathered sums, of the numbers among them,
            and of the number of the last step; nothing where there is nothing to write.
        comment: on how they were found, for the file.
    """

    def __init__(self, path: str | Path, number: int, results: Callable, comment: str) -> None:
        self.path, self.number, self.results, self.comment = Path(path), number, results, comment

    def open(self, simulation: Any, attributes: Mapping[str, Any], claim: Claim) -> None:
        self.attributes = {**attributes, "product_comment": self.comment}
        self.file = ReplacedFile(claim)

    def finish(self, simulation: Any) -> None:
        model, sums = simulation.model, simulation._product_sums[self.number]
        tile = next(iter(simulation.communicator.tiles(sums).values()))
        numbers = {name: int(np.asarray(x)) for name, x in tile.items() if np.ndim(x) == 0}
        whole = {name: model.gather(x) for name, x in sums.items() if name not in numbers}
        static, grid = static_fields(simulation), model.grid
        if next(iter(whole.values())) is None:
            return
        found = self.results(whole, numbers, simulation.step)
        wet = static["wet"]
        fields = {
            row: _on_faces(np.where(wet, x, np.nan) if row.position == "h" else x, row.position, grid)
            for row, x in found.items()
        }
        seconds = simulation.time

        def write():
            write_fields(
                self.path, grid, fields, seconds=seconds, start=simulation.start, attributes=self.attributes,
                static=static, members=members_of(simulation),
            )  # fmt: skip
            self.file.written()

        if fields:
            self.later(write, sum(array.nbytes for array in fields.values()))


def _on_faces(array, position, grid):
    """An array (ny, nx) as files have it: on faces with one more, in the west or south, which has no value."""
    if position == "u" and not grid.periodic_x:
        return np.concatenate([np.full((grid.ny, 1), np.nan), array], 1)
    if position == "v" and not grid.periodic_y:
        return np.concatenate([np.full((1, grid.nx), np.nan), array], 0)
    return array
