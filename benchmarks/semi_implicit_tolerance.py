"""The error that the tolerance of conjugate gradients leaves in semi-implicit runs (docs/theory/semi_implicit.md).

The north-west Pacific of semi_implicit_worker.py, a day of waves from a hump of water 1 m high off Japan, under wind,
in 72 steps of 20 minutes. Prints, for each precision and tolerance, the root mean square and the largest value of the
difference of eta over the basin from that of a reference in float64 with a tolerance of 1e-12, over the same of the
reference, and the reference's own numbers [m]. An argument, 2 by default, is the number of 5' by which cells are long
and wide. It takes a few minutes.
"""

import sys

import numpy as np
from semi_implicit_worker import pacific

import swmodel as sw
from swmodel.elliptic import ConjugateGradients, Multigrid
from swmodel.runtime import launch

STEPS, TIME_STEP = 72, 1200.0  # [s]
REFERENCE = "float64", 1e-12
CASES = [("float64", t) for t in (1e-6, 1e-4, 1e-3)] + [("float32", t) for t in (1e-5, 1e-4, 1e-3)]


def hump(longitude, latitude):
    """Elevation at the start [m]."""
    return np.exp(-(((longitude - 146.0) / 3.0) ** 2) - ((latitude - 37.0) / 2.4) ** 2)


def elevation(coarser, precision, tolerance):
    """eta (ny, nx) at the end of the run [m], with NaN on land."""
    model = pacific(precision, coarser)
    stepper = sw.SemiImplicit(TIME_STEP, solver=ConjugateGradients(Multigrid(), tolerance=tolerance))
    reached = sw.Simulation(model, model.state(eta=hump), stepper).run(steps=STEPS)
    return np.where(model.wet, np.asarray(reached.eta, float), np.nan)


def sizes(eta):
    """(root mean square, largest absolute value) over water."""
    return np.array([np.sqrt(np.nanmean(eta**2)), np.nanmax(np.abs(eta))])


def main(coarser=2):
    launch.configure_process("float64", "serial")
    reference = elevation(coarser, *REFERENCE)
    print("reference: r.m.s. {:.3g} m, largest {:.3g} m".format(*sizes(reference)), flush=True)
    for precision, tolerance in CASES:
        try:
            difference = sizes(elevation(coarser, precision, tolerance) - reference) / sizes(reference)
        except sw.errors.SwmodelError as error:
            print(precision, tolerance, error, flush=True)
            continue
        print(precision, tolerance, "r.m.s. {:.1e}, largest {:.1e}".format(*difference), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
