"""swmodel: a differentiable, distributed shallow-water ocean model."""
from .dynamics.boundaries import Flather, Sponge
from .dynamics.coriolis import BetaPlane, FPlane, RotatingSphere
from .dynamics.dissipation import Biharmonic, Laplacian, LinearDrag, ManningDrag, QuadraticDrag
from .dynamics.forcing import WindStress
from .dynamics.momentum import ArakawaLamb, EnergyConserving, EnstrophyConserving
from .dynamics.shallow_water import State
from .grid import CartesianGrid, SphericalGrid
from .integrate import integrate
from .model import BottomMotion, FreeSlip, NoSlip, ShallowWater
from .stability import largest_time_step, limits
from .time_steppers import AB2, AB3, RK4, SSPRK3, ForwardBackward
