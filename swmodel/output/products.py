"""Files of the statistics that a run accumulates on the device: harmonic constants, means, extremes."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import Claim
from .masking import with_low_faces
from .netcdf import write_fields
from .replaced import ReplacedFile
from .run_metadata import members_of, rows_of, static_fields
from .schedule import Output

__all__ = ["ProductOutput"]


class ProductOutput(Output):
    """Fields from the sums of one simulation.samples.Sampled, written at the end of a run.

    Args:
        path: the path of the file.
        product: the index of the Sampled in `simulation._products`.
        comment: a text for the file on how the fields were computed.
    """

    def __init__(self, path: str | Path, product: int, comment: str) -> None:
        self.path, self.product, self.comment = Path(path), product, comment

    def open(self, simulation: Any, attributes: Mapping[str, Any], claim: Claim) -> None:
        self.attributes = {**attributes, "product_comment": self.comment}
        self.file = ReplacedFile(claim)

    def finish(self, simulation: Any) -> None:
        product, sums = simulation._products[self.product], simulation._product_sums[self.product]
        model, tile = simulation.model, next(iter(simulation.communicator.tiles(sums).values()))
        steps = product.samples(int(np.asarray(tile["since"])), simulation.step)
        if not steps.size:
            if simulation.communicator.is_root:
                logging.getLogger("swmodel").warning(
                    "%s is not written: the run has taken no sample for it; run longer, or begin earlier.", self.path
                )
            return
        whole = {name: model.gather(x) for name, x in sums.items() if name != "since"}
        if next(iter(whole.values())) is None:
            return
        rows = rows_of(simulation, [row.name for row in model.variables])
        found = product.results(whole, steps, rows)
        if not found:
            return
        static, grid, dt = static_fields(simulation), model.grid, simulation.dt
        wet = static["wet"]
        fields = {
            row: with_low_faces(np.where(wet, x, np.nan) if row.position == "h" else x, grid, row.position)
            for row, x in found.items()
        }

        def write():
            write_fields(
                self.path,
                grid,
                fields,
                seconds=steps[-1] * dt,
                since=steps[0] * dt,
                start=simulation.start,
                attributes=self.attributes,
                static=static,
                members=members_of(simulation),
            )
            self.file.written()

        self.submit(write, sum(array.nbytes for array in fields.values()))
