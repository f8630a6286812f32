"""The rules that the arguments of Simulation and of its methods are checked by."""

from pathlib import Path
from typing import cast

from ..fields.parameters import FileName, Flag, Moment, Number, Part, Stages, Text, refuse
from ..output.zarr_store import is_store

__all__ = ["EVERY", "NetcdfName", "RULES", "SECONDS", "STEPS"]


class NetcdfName(FileName):
    """The name of a netCDF file."""

    def check(self, who: str, name: str, value: object) -> None:
        super().check(who, name, value)
        if is_store(cast(str | Path, value)):
            reason = "is the name of a Zarr store, which only fields and restarts can be written to"
            refuse(who, name, str(value), reason, "a name that ends in .nc")


STEPS = Number(None, "steps", minimum=0, whole=True, optional=True)
SECONDS = Number(None, "s", optional=True)
EVERY = Number(None, "s", above=0.0, optional=True)
RULES = {
    "model": Part(("dynamics", "at_rest"), "ShallowWater(grid, depth)"),
    "state": Part(("names", "map"), "model.at_rest()"),
    "stepper": Part(("step", "check", "history"), "RK4(dt=60.0)"),
    "start": Moment(),
    "title": Text(),
    "config": Text(),
    "overwrite": Flag(optional=True),
    "stages_per_exchange": Stages(),
}
