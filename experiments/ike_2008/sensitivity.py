"""How the surge at Galveston depends on the track of Ike, by one adjoint run, checked against runs with other tracks.

python sensitivity.py [ike.toml]

The run begins on 12 September at 18 UTC. The surge is the elevation off Galveston, averaged over the half hour around
its maximum on 13 September. Each point of the track has a derivative; their sum is that of a storm which is
displaced, deeper, wider or sharper as a whole, and the nonlinear model gives the same number by central differences.
"""

import datetime
import sys
from pathlib import Path

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

import swmodel as sw  # noqa: E402
from swmodel import adjoint  # noqa: E402
from swmodel.config import read  # noqa: E402
from swmodel.config.assembly import assemble, model_of  # noqa: E402

START = datetime.datetime(2008, 9, 12, 18)
WINDOW = (13.6 * 3600.0, 14.1 * 3600.0)  # [s] since START
PLACE = {"Galveston": (-94.6875, 29.3125)}
CHANGES = {  # {control: (a change of all points for the differences, a unit to print the derivative in, its name)}
    "forcing.0.x": (0.01, 0.1, "0.1 degrees to the east"),
    "forcing.0.y": (0.01, 0.1, "0.1 degrees to the north"),
    "forcing.0.central_pressure": (100.0, -1000.0, "10 hPa deeper"),
    "forcing.0.radius": (500.0, 1e4, "10 km wider"),
    "forcing.0.b": (0.01, 0.1, "B larger by 0.1"),
}


def problem_of(file):
    """The Problem of the surge at Galveston."""
    overrides = [f"run.start={START.isoformat()}", "run.until='15 h'", "model.precision='float64'"]
    made = assemble(read(str(file), overrides))
    model = model_of(made, "serial")
    dt = 30.0
    cost = adjoint.GaugeElevation(PLACE, window=WINDOW)
    steps = round(WINDOW[1] / dt) + 1
    return adjoint.Problem(
        model,
        sw.ForwardBackward(dt),
        model.at_rest(),
        steps,
        cost,
        list(CHANGES),
        checkpoints=adjoint.Nested(memory=1e9),
    )


def main(file):
    problem = problem_of(file)
    surge, gradient = problem.value_and_gradient()
    values = {name: np.asarray(value) for name, value in problem.values.items()}
    print(f"surge={surge:.4f} m", flush=True)
    worst = 0.0
    for name, (step, unit, text) in CHANGES.items():
        total = float(np.sum(np.asarray(gradient[name])))
        high, low = (problem.value({name: values[name] + sign * step}) for sign in (1.0, -1.0))
        difference = (high - low) / (2 * step)
        worst = max(worst, abs(total / difference - 1.0))
        print(f"{text:26s} {total * unit:+.4f} m   by differences {difference * unit:+.4f} m", flush=True)
    print(f"ike_gradient_error={worst:.2e}")
    hours = np.asarray(problem.model.terms[0].times) / 3600.0
    for name, (_, unit, text) in CHANGES.items():
        points = ", ".join(f"{h:+.0f} h {x * unit:+.4f}" for h, x in zip(hours, np.asarray(gradient[name])))
        print(f"{name}, {text}, point by point: {points}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "ike.toml")
