"""Cases that the benchmarks time, in addition to the basin of `swmodel bench` (swmodel/performance/timing.py)."""

from typing import Any

import numpy as np

import swmodel as sw
from swmodel.performance.timing import BETA, F0

MANNING = sw.ManningDrag(0.025)
TERMS: dict[str, dict[str, Any]] = {  # arguments of the model, by the name of what they add to the basin
    "biharmonic": {"dissipation": (sw.Biharmonic(1e9),)},
    "linear": {"dissipation": (sw.LinearDrag(1e-6),)},
    "quadratic": {"dissipation": (sw.QuadraticDrag(2.5e-3),)},
    "manning": {"dissipation": (MANNING,)},
    "flather": {"boundaries": (sw.Flather(),)},
    "sponge": {"boundaries": (sw.Sponge(width=1e5, rate=1e-4),)},
    "wind": {"forcing": (sw.WindStress(x=0.1, y=0.05),)},
    "layer": {"layers": sw.Layers(thickness=(1500.0,), densities=(1025.0, 1028.0))},
}


def beach(nx: int, ny: int, precision: str = "float32", communicator: Any = "auto", *, coastal: bool = True) -> tuple:
    """(ShallowWater, State of this tile) of waves towards a beach, of whose nx x ny cells a fifth lies above the level.

    Args:
        nx, ny: cells along x and y.
        precision, communicator: of the ShallowWater.
        coastal: with wetting and drying and momentum that is conserved; else with EnergyConserving, and water at least
            10 m deep in every cell.
    """
    length, width = 200.0 * nx, 200.0 * ny
    least = -np.inf if coastal else 10.0
    parts = {"momentum": sw.MomentumConserving(), "wetting": sw.WettingDrying()} if coastal else {}
    model = sw.ShallowWater(
        sw.CartesianGrid(nx, ny, (0.0, length), (0.0, width)),
        lambda x, y: np.maximum(100.0 - 125.0 * x / length + 2.0 * np.cos(6 * np.pi * y / width), least),  # [m]
        coriolis=sw.BetaPlane(F0, BETA),
        dissipation=(MANNING,),
        communicator=communicator,
        dtype=precision,
        **parts,
    )
    return model, model.state(eta=lambda x, y: 2.0 * np.cos(9 * np.pi * x / length) * np.cos(4 * np.pi * y / width))
