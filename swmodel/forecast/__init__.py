"""Forecasts of tsunamis from records as they come in, by Green's functions that were computed before.

bank = Bank.of(model, stepper, places, sources, until=7200.0)   # or Bank.read("bank.nc")
posterior = bank.posterior(records, until=1500.0)
posterior.predict(["Miyako"])                                   # waves with bands, an xarray.Dataset
    next_buoy(bank, ["Miyako"], gauges=["21418"])                   # how much each other point would narrow them
"""

from .bank import Bank, rerun
from .errors import Errors
from .hazard import Earthquake, Earthquakes, hazard_curves, next_buoy, read_earthquakes, scenarios
from .inference import Posterior

__all__ = [
    "Bank",
    "Earthquake",
    "Earthquakes",
    "Errors",
    "Posterior",
    "hazard_curves",
    "next_buoy",
    "read_earthquakes",
    "rerun",
    "scenarios",
]
