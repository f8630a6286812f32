"""swmodel: a differentiable, distributed shallow-water ocean model.

    grid = sw.CartesianGrid(nx=256, ny=256, x=(0, 2000 * km), y=(0, 2000 * km))
    model = sw.ShallowWater(grid, depth=1000.0, coriolis=sw.BetaPlane(f0=1e-4, beta=2e-11))
    simulation = sw.Simulation(model, model.at_rest(), sw.SSPRK3(dt=60.0))
    simulation.run(until=1 * day)

The same script runs on many ranks: `mpirun -n 4 python script.py`. Names are loaded when they are first used, so that
`swmodel --help` does not wait for JAX.
"""

import importlib
import os
from typing import Any

# HDF5 reads this variable when it is loaded. Files can then be opened while a run is writing them.
os.environ.setdefault("HDF5_USE_FILE_LOCKING", "FALSE")

_HOMES = {
    "adjoint.assimilation.priors": ("Prior",),
    "adjoint.controls.controls": ("Control", "Transformed"),
    "adjoint.costs.tile_costs": ("Cost", "TileCost"),
    "dynamics.boundaries": ("Clamped", "Flather", "OpenBoundary"),
    "dynamics.sponge": ("Sponge",),
    "dynamics.closures": ("BiharmonicLeith", "BiharmonicSmagorinsky", "Leith", "Smagorinsky"),
    "dynamics.conserving": ("MomentumConserving",),
    "dynamics.cores": ("FiniteDifferences",),
    "dynamics.coriolis": ("BetaPlane", "FPlane", "RotatingSphere"),
    "dynamics.dissipation": (
        "Biharmonic",
        "InterfacialFriction",
        "Laplacian",
        "LinearDrag",
        "ManningDrag",
        "QuadraticDrag",
    ),
    "dynamics.forcing": ("WindStress",),
    "dynamics.layers": ("Layers",),
    "dynamics.polar_filter": ("FilteredDifferences",),
    "dynamics.radiation": ("ChapmanFlather", "RadiationNudging"),
    "dynamics.terms": ("Forcing", "Term"),
    "dynamics.wave_maker": ("WaveMaker",),
    "dynamics.waters": ("Evaporation", "Infiltration", "Rain", "River"),
    "dynamics.wetting": ("WettingDrying",),
    "elliptic.base": ("Solver",),
    "fields.field": ("to_u", "to_v"),
    "fields.parameters": ("parameter",),
    "fields.pytrees": ("pytree", "static"),
    "forcing.atmosphere": ("AirPressure", "Wind", "inverse_barometer"),
    "forcing.barometer": ("InverseBarometer",),
    "forcing.cyclones": ("Cyclone",),
    "forcing.loading": ("SelfAttractionLoading",),
    "forcing.file_records": ("FileRecords",),
    "forcing.records": ("FunctionOfTime",),
    "forcing.potential": ("InternalWaveDrag", "SelfAttraction", "TidalPotential"),
    "forcing.harmonic_files": ("atlas_constants", "harmonic_constants"),
    "forcing.tides": ("Tide",),
    "forcing.waves": ("CnoidalWave", "Record", "SolitaryWave"),
    "dynamics.momentum": ("ArakawaLamb", "EnergyConserving", "EnstrophyConserving"),
    "dynamics.spectral.core": ("ExponentialFilter", "HyperViscosity", "PseudoSpectral"),
    "dynamics.tracers": (
        "Centred",
        "FluxLimited",
        "Koren",
        "MinMod",
        "MonotonizedCentral",
        "Superbee",
        "Tracer",
        "VanLeer",
    ),
    "fields.state": ("State",),
    "models.ensemble": ("Ensemble",),
    "grids.bathymetry": ("elevation_on",),
    "grids.grid": ("CartesianGrid", "SphericalGrid"),
    "grids.levees": ("Levee", "read_levees"),
    "grids.patches": ("Patch",),
    "grids.roughness": ("rough_bottom",),
    "grids.topography": ("topography",),
    "stepping.forward_backward": ("ForwardBackward",),
    "stepping.forward_backward_hancock": ("ForwardBackwardHancock",),
    "stepping.integrating_factor": ("IntegratingFactorRK4",),
    "stepping.loop": ("integrate",),
    "dynamics.slip": ("FreeSlip", "NoSlip"),
    "models.shallow_water": ("ShallowWater",),
    "sources.bottom_motion": ("BottomMotion",),
    "grids.regrid": ("Records",),
    "stepping.semi_implicit": ("RigidLid", "SemiImplicit"),
    "stepping.split_explicit": ("SplitExplicit",),
    "output.products.base": ("Product",),
    "fields.variables": ("Variable",),
    "nests.family": ("Family",),
    "nests.nest": ("Nest",),
    "simulation.nested": ("NestedSimulation",),
    "simulation.simulation": ("Simulation",),
    "diagnostics.spectra": ("Spectra",),
    "stepping.stability": ("largest_time_step", "limits"),
    "stepping.explicit": ("AB2", "AB3", "RK4", "SSPRK3", "TimeStepper", "time_step"),
    "runtime.version": ("VERSION",),
    "models.integrals": ("energy", "potential_enstrophy", "volume"),
    "models.vortices": ("random_vortices",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [*_HOME_OF, "postprocess", "units"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        name = "VERSION"
    if name in ("postprocess", "units"):
        return importlib.import_module(f".{name}", __name__)
    if name not in _HOME_OF:
        raise AttributeError(f"swmodel has no {name!r}; it has {', '.join(sorted(__all__))}.")
    value = getattr(importlib.import_module(f".{_HOME_OF[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
