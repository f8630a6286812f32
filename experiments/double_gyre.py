"""Wind-driven double gyre in a closed basin (after Munk 1950); the same as double_gyre.toml.

python double_gyre.py              or              mpirun -n 2 python double_gyre.py
"""

import numpy as np

import swmodel as sw
from swmodel.units import day, km, year

size = 2000 * km
grid = sw.CartesianGrid(nx=128, ny=128, x=(0.0, size), y=(0.0, size))
model = sw.ShallowWater(
    grid,
    depth=1000.0,  # of the moving layer [m]
    gravity=0.02,  # reduced gravity [m s-2]
    coriolis=sw.BetaPlane(f0=7e-5, beta=2e-11),  # [s-1], [m-1 s-1]
    forcing=sw.WindStress(x=lambda x, y: -0.1 * np.cos(2 * np.pi * y / size)),  # [N m-2]
    dissipation=sw.Laplacian(1000.0),  # [m2 s-1]
    side=sw.NoSlip(),
)
simulation = sw.Simulation(model, model.at_rest(), sw.ForwardBackward(dt=1200.0))
simulation.write("gyre.nc", ("eta", "u", "v", "vorticity"), every=10 * day)
simulation.restart("gyre.restart.nc", every=1 * year)
simulation.run(until=3 * year, progress=True)
