"""The netCDF file of a Product, written at the end of a run."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...fields.state import State
from ...fields.variables import VARIABLES, Variable
from ...stepping.steps import History
from .. import Claim, ReplacedFile
from ..metadata import Attribute, members_of, rows_of, static_fields, variable_of
from ..netcdf import write_fields
from ..schedule import AbstractSimulation, Output
from .base import Arrays, Product, Sampler, Samples


def rows_by_name(simulation: AbstractSimulation) -> dict[str, Variable]:
    """{name: Variable} of the variables that files of a Simulation have."""
    names = list(dict.fromkeys((*VARIABLES, *(row.name for row in simulation.model.variables))))
    return {name: variable_of(row) for name, row in zip(names, rows_of(simulation, names))}


class ProductOutput(Output):
    """Fields from the arrays that a Product accumulates.

    Args:
        path: the path of the file.
        product: the Product.
        simulation: the Simulation, from whose present step on samples are taken.
    """

    watcher: Sampler

    def __init__(self, path: str | Path, product: Product, simulation: AbstractSimulation) -> None:
        self.path, self.watcher = Path(path), Sampler.of(product, simulation.dt)
        self.arrays = self.watcher.start(simulation, simulation.state, simulation.step)

    def start_arrays(self, simulation: AbstractSimulation, packed: tuple[State, History]) -> Arrays:
        return jax.tree.map(jnp.copy, self.arrays)

    def open(self, simulation: AbstractSimulation, attributes: Mapping[str, Attribute], claim: Claim) -> None:
        self.attributes = {**attributes, **self.watcher.product.attributes(self.watcher)}
        self.file = ReplacedFile(claim)

    def finish(self, simulation: AbstractSimulation) -> None:
        model, grid, sampler, dt = simulation.model, simulation.model.grid, self.watcher, simulation.dt
        tile = simulation.communicator.one_tile(self.arrays)
        since = int(np.asarray(tile["since"]))
        steps = sampler.steps(since, simulation.step)
        if not steps.size:
            if simulation.communicator.is_root:
                logging.getLogger("swmodel").warning(
                    "%s is not written: the run has taken no sample for it; run longer, or begin earlier.", self.path
                )
            return
        whole: dict[str, Any] = {name: model.gather(x) for name, x in self.arrays.items() if name != "since"}
        if next(iter(whole.values())) is None:
            return
        fields = sampler.product.finish(whole, Samples(steps, dt, sampler.every * dt, rows_by_name(simulation)))
        if not fields:
            return
        static, members, start = static_fields(simulation), members_of(simulation), simulation.start
        arrays: dict[str | Variable, np.ndarray] = {
            row: np.where(static["wet"], x, np.nan) if row.position == "h" else x for row, x in fields.items()
        }

        def write():
            times = {"seconds": steps[-1] * dt, "since": steps[0] * dt}
            about = {"start": start, "attributes": self.attributes, "static": static, "members": members}
            write_fields(self.path, grid, arrays, **times, **about)
            self.file.written()

        self.submit(write, sum(array.nbytes for array in arrays.values()))
