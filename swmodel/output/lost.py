"""Results of an earlier run that a resumed run would destroy: records after its restart, and another restart."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np

from ..errors import DataError
from ..runtime.netcdf import LOCK
from .restart_output import RestartOutput
from .schedule import Output
from .zarr_fields import times_of
from .zarr_store import ZarrStore, is_store

__all__ = ["check_nothing_is_lost"]


def check_nothing_is_lost(outputs: Sequence[Output], simulation: Any, end: float) -> None:
    """Refuse a resumed run that would destroy results of an earlier run, unless it may overwrite them; on the root.

    A run that was killed has records after its newest restart. They may be cut if the run is resumed as it was, since
    it computes them again, but not if it ends before them.

    Args:
        outputs: the outputs of the run.
        simulation: the Simulation, whose restart has been read.
        end: the time [s] at which the run will end.

    Raises:
        DataError: naming every file.
    """
    if simulation.resumed_from is None or simulation.overwrite:
        return
    begin, lost, folder = simulation.time, [], next((output.path.parent for output in outputs), Path())
    again = end if simulation.resumed_alike else begin  # the time up to which the same records are computed again
    for output in outputs:
        name = os.path.relpath(output.path, folder)
        if output.begun or not output.path.exists():
            continue
        if isinstance(output, RestartOutput):
            lost += [] if output.continues(simulation) else [f"{name} (another restart)"]
        elif (last := _last_time(output.path)) > again + 0.5 * simulation.dt:
            lost.append(f"{name} (up to {last:g} s)")
        elif output.path in simulation.resumed_without:
            lost.append(f"{name} (of other samples)")
    if lost:
        raise DataError(
            f"{folder}: {', '.join(lost)} would be lost, since the run continues from {simulation.resumed_from}, at "
            f"{begin:g} s; give another folder (--output DIR), or allow the loss with --overwrite (in Python: "
            "overwrite=True)."
        )


def _last_time(path: Path) -> float:
    """The time [s] up to which a file of records or statistics reaches; -inf if it has no time that can be read."""
    if is_store(path):
        times = (store := ZarrStore(path)).description()[0].get("time")
        return -np.inf if times is None else max(times_of(store, times), default=-np.inf)
    try:
        with LOCK, netCDF4.Dataset(path) as dataset:
            return float(np.max(np.ma.filled(dataset["time"][...], -np.inf), initial=-np.inf))  # masked: incomplete
    except (OSError, IndexError):  # the output itself names such a file
        return -np.inf
