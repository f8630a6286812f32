"""swmodel: a differentiable, distributed shallow-water ocean model.

    grid = sw.CartesianGrid(nx=256, ny=256, x=(0, 2000 * km), y=(0, 2000 * km))
    model = sw.ShallowWater(grid, depth=1000.0, coriolis=sw.BetaPlane(f0=1e-4, beta=2e-11))
    simulation = sw.Simulation(model, model.at_rest(), sw.SSPRK3(dt=60.0))
    simulation.run(until=1 * day)

The same script runs on many ranks: `mpirun -n 4 python script.py`.
"""
import os

# HDF5 reads it when it loads: files can then be opened while the run that writes them goes on.
os.environ.setdefault("HDF5_USE_FILE_LOCKING", "FALSE")

from . import units  # noqa: E402
from .dynamics.boundaries import Flather, Sponge
from .dynamics.coriolis import BetaPlane, FPlane, RotatingSphere
from .dynamics.dissipation import Biharmonic, Laplacian, LinearDrag, ManningDrag, QuadraticDrag
from .dynamics.forcing import WindStress
from .dynamics.momentum import ArakawaLamb, EnergyConserving, EnstrophyConserving
from .dynamics.shallow_water import State
from .grid import CartesianGrid, SphericalGrid
from .integrate import integrate
from .model import BottomMotion, FreeSlip, NoSlip, ShallowWater
from .regrid import Records
from .simulation import Simulation
from .stability import largest_time_step, limits
from .time_steppers import AB2, AB3, RK4, SSPRK3, ForwardBackward
from .version import VERSION as __version__

__all__ = [
    "AB2", "AB3", "ArakawaLamb", "BetaPlane", "Biharmonic", "BottomMotion", "CartesianGrid", "EnergyConserving",
    "EnstrophyConserving", "FPlane", "Flather", "ForwardBackward", "FreeSlip", "Laplacian", "LinearDrag",
    "ManningDrag", "NoSlip", "QuadraticDrag", "RK4", "Records", "RotatingSphere", "SSPRK3", "ShallowWater",
    "Simulation", "SphericalGrid", "Sponge", "State", "WindStress", "__version__", "integrate", "largest_time_step",
    "limits", "units",
]  # fmt: skip
