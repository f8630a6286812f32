"""swmodel: a differentiable, distributed shallow-water ocean model.

    grid = sw.CartesianGrid(nx=256, ny=256, x=(0, 2000 * km), y=(0, 2000 * km))
    model = sw.ShallowWater(grid, depth=1000.0, coriolis=sw.BetaPlane(f0=1e-4, beta=2e-11))
    simulation = sw.Simulation(model, model.at_rest(), sw.SSPRK3(dt=60.0))
    simulation.run(until=1 * day)

The same script runs on many ranks: `mpirun -n 4 python script.py`. Names are loaded when they are first used, so that
`swmodel --help` does not wait for JAX.
"""

import os

from .runtime.packages import loaded_when_used

# HDF5 reads this variable when it is loaded. Files can then be opened while a run is writing them.
os.environ.setdefault("HDF5_USE_FILE_LOCKING", "FALSE")

_HOMES = {
    "": ("postprocess", "units"),
    "adjoint.assimilation.priors": ("Prior",),
    "adjoint.controls.controls": ("Control", "Transformed"),
    "adjoint.costs.tile_costs": ("Cost", "TileCost"),
    "diagnostics.spectra": ("Spectra",),
    "dynamics.boundaries": ("Clamped", "Flather", "OpenBoundary"),
    "dynamics.closures": ("BiharmonicLeith", "BiharmonicSmagorinsky", "Leith", "Smagorinsky"),
    "dynamics.conserving": ("MomentumConserving",),
    "dynamics.cores": ("FilteredDifferences", "FiniteDifferences"),
    "dynamics.dissipation": (
        "Biharmonic",
        "FreeSlip",
        "InterfacialFriction",
        "Laplacian",
        "LinearDrag",
        "ManningDrag",
        "NoSlip",
        "QuadraticDrag",
    ),
    "dynamics.exchanges": ("Culvert", "Gate", "Pump"),
    "dynamics.layers": ("Layers",),
    "dynamics.layer": ("ArakawaLamb", "EnergyConserving", "EnstrophyConserving"),
    "dynamics.pseudo_spectral": ("ExponentialFilter", "HyperViscosity", "PseudoSpectral"),
    "dynamics.radiation": ("ChapmanFlather", "RadiationNudging", "WaveMaker"),
    "dynamics.limiters": ("Koren", "MinMod", "MonotonizedCentral", "Superbee", "VanLeer"),
    "dynamics.sponge": ("Sponge",),
    "dynamics.terms": ("Forcing", "Term"),
    "dynamics.tracers": ("Centred", "FluxLimited", "Tracer"),
    "dynamics.waters": ("Evaporation", "Infiltration", "Rain", "River"),
    "dynamics.shores": ("WettingDrying",),
    "elliptic.base": ("Solver",),
    "fields.field": ("to_u", "to_v"),
    "fields.parameters": ("parameter",),
    "fields.state": ("State", "pytree", "static"),
    "fields.variables": ("Variable",),
    "forcing.atmosphere": ("AirPressure", "InverseBarometer", "Wind", "WindStress", "inverse_barometer"),
    "forcing.cyclones": ("Cyclone",),
    "forcing.file_records": ("FileRecords",),
    "forcing.harmonic_files": ("atlas_constants", "harmonic_constants"),
    "forcing.loading": ("SelfAttractionLoading",),
    "forcing.potential": ("InternalWaveDrag", "SelfAttraction", "TidalPotential", "rough_bottom"),
    "forcing.records": ("FunctionOfTime",),
    "forcing.tides": ("Tide",),
    "forcing.waves": ("CnoidalWave", "Record", "SolitaryWave"),
    "grids.bathymetry": ("elevation_on",),
    "grids.geometry": ("BetaPlane", "FPlane", "RotatingSphere"),
    "grids.grid": ("CartesianGrid", "SphericalGrid"),
    "grids.levees": ("Levee", "read_levees"),
    "grids.patches": ("Patch",),
    "grids.regrid": ("Records",),
    "grids.topography": ("topography",),
    "models.ensemble": ("Ensemble",),
    "models.initial": ("InitialState",),
    "models.integrals": ("energy", "potential_enstrophy", "volume"),
    "models.random_fields": ("random_vortices",),
    "models.shallow_water": ("ShallowWater",),
    "nests.family": ("Family",),
    "nests.members": ("family_of_members",),
    "nests.nest": ("Nest",),
    "output.products.base": ("Product",),
    "runtime.packages": ("VERSION", "__version__"),
    "simulation.nested": ("NestedSimulation",),
    "simulation.simulation": ("Simulation",),
    "sources.motion": ("BottomMotion",),
    "stepping": ("AB2", "AB3", "RK4", "SSPRK3", "TimeStepper", "integrate", "time_step"),
    "stepping.forward_backward": ("ForwardBackward", "ForwardBackwardHancock"),
    "stepping.integrating_factor": ("IntegratingFactorRK4",),
    "stepping.semi_implicit": ("RigidLid", "SemiImplicit"),
    "stepping.split_explicit": ("SplitExplicit",),
    "stepping.stability": ("largest_time_step", "limits"),
}
__getattr__, __all__ = loaded_when_used(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
