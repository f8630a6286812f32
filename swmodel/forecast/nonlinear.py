"""Runs of the whole model from sources of a bank, all in one program: what nonlinear terms, drag and shores change.

The members of an Ensemble start from sums of the bank's sources. These are the mean of a posterior and draws from it,
or a sample of the scenarios of a hazard.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import xarray as xr

from ..adjoint.assimilation.departures import only_patch
from ..adjoint.assimilation.linear_model import everywhere
from ..adjoint.assimilation.priors import Prior
from ..errors import ConfigError
from ..models.ensemble import Ensemble
from ..models.shallow_water import ShallowWater
from ..runtime.compilation import jit
from ..simulation.simulation import Simulation
from ..stepping.explicit import TimeStepper
from .bank import problem_of


def rerun(
    model: ShallowWater,
    stepper: TimeStepper,
    places: Mapping[str, tuple[float, float]],
    sources: Prior,
    amplitudes: np.ndarray,
    until: float,
    path: str | Path,
    interval: float = 30.0,
    varied: dict[str, Sequence] | None = None,
    title: str = "Runs from sources of a bank",
) -> None:
    """Run the model from each row of amplitudes; write the series at points to a file of gauges. Collective.

    Args:
        model, stepper, places, sources: those of the bank.
        amplitudes: of the sources (members, sources) [m].
        until: the end of the runs [s].
        path: of the netCDF file of gauges.
        interval: between two of its times [s].
        varied: {name: values, one a member}, coordinates of the file.
        title: of the file.

    Raises:
        ConfigError: for a model with a source of its own, which would come in addition.
    """
    if model.uplift is not None:
        raise ConfigError("the model has a source of its own, which would come in addition; leave [source] out.")
    _, patterns, _ = only_patch(problem_of(model, stepper, places, sources, 2))
    communicator, rest = model.communicator, model.at_rest()
    lifted = jit(communicator.spmd(lambda patterns, eta, a: eta + patterns.field(a)))
    rows = np.asarray(amplitudes, model.dtype)
    states = [rest.replace(eta=lifted(patterns, rest.eta, everywhere(row, communicator))) for row in rows]
    ensemble = Ensemble(model, states, varied)
    simulation = Simulation(ensemble, ensemble.initial, stepper, title=title)
    simulation.gauges(path, places, every=interval).run(until)


def chosen_scenarios(drawn: xr.Dataset, count: int) -> tuple[np.ndarray, np.ndarray]:
    """(numbers, rates) of `count` scenarios, the middle one of each of as many blocks of equal size.

    Scenarios are in the order of magnitudes. Each one chosen has the rate [1/year] of all in its block.
    """
    blocks = np.array_split(np.arange(drawn.sizes["scenario"]), min(count, drawn.sizes["scenario"]))
    rate = drawn["rate"].values
    return np.array([block[block.size // 2] for block in blocks]), np.array([rate[block].sum() for block in blocks])
