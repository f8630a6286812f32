"""Forecasts and hazards from a bank: a worker for figures/forecast.py, that solves in one thread as the commands do.

python benchmarks/forecast_worker.py '{"bank": "bank.nc", "records": "records"}'
"""

import dataclasses
import json
import sys
import time

import numpy as np
from worker import serve

from swmodel.cli.forecast import records_for
from swmodel.forecast import Bank, Earthquakes, Errors, hazard_curves

UNTIL, BEGIN = 3600.0, 900.0  # [s], of the records
FAULT = 55e3 * 45e3  # [m2], of each source of a hazard


def main(options):
    bank = Bank.read(options["bank"])
    records = records_for(bank, options["records"])

    def timed(function):
        """The time of a function, whose values must be finite."""
        begun = time.perf_counter()
        values = function()
        took = time.perf_counter() - begun
        if not (np.isfinite(values).all() and np.any(values)):
            raise RuntimeError("the waves are not finite, or all are 0")
        return "took", took

    def update(_):
        """From the records to the waves at all points."""
        return timed(lambda: bank.posterior(records, UNTIL, Errors(begin=BEGIN)).predict(list(bank.places))["mean"])

    def hazard(argument):
        """Scenarios and their curves, with the sources of the bank as faults, and its points repeated."""
        points, scenarios = map(int, argument.split())
        rows = np.arange(points) % len(bank.places)
        places = {f"{k}": place for k, place in enumerate(np.array(list(bank.places.values()))[rows])}
        areas = np.full(len(bank.centres), FAULT)
        larger = dataclasses.replace(bank, responses=bank.responses[rows], places=places, areas=areas)
        return timed(lambda: hazard_curves(larger, Earthquakes(rate=0.05), scenarios)["highest"])

    serve({"points": len(bank.places), "sources": len(bank.centres)}, update=update, hazard=hazard)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
