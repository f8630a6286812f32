"""For how long does the adjoint predict what the wind does to an eddying gyre? A measurement, with its figure.

swmodel run two_layer_gyre.toml                       # six years, to a state with eddies
python horizon.py output/two_layer_gyre/restart.nc    # prints name=value lines, and writes horizon.png; ten minutes
python horizon.py output/two_layer_gyre/restart.nc --days 5 10      # other lengths

J is the mean northward transport of the boundary current over the last five days of a run that starts from the restart.
One backward run gives dJ/dtau in every cell, and so the change of J for a wind that is stronger everywhere by 3 or 10
per cent. Two runs with such winds give the change itself. As small disturbances of an eddying flow grow exponentially,
the sensitivity grows with the length of the run, and the range of winds for which it is right shrinks (Lea, Allen &
Haine 2000, doi:10.1034/j.1600-0870.2000.01137.x). The horizon of a change of wind is the longest run, and all shorter
ones, for which the adjoint's prediction misses by less than a fifth of the largest change.
"""

import argparse
from pathlib import Path

from swmodel.runtime import launch

launch.configure_process("float32")

import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402

import swmodel as sw  # noqa: E402
from swmodel import adjoint  # noqa: E402
from swmodel.config import read  # noqa: E402
from swmodel.config.assembly import assemble, model_of  # noqa: E402
from swmodel.units import day  # noqa: E402

EXPERIMENT = Path(__file__).parent / "two_layer_gyre.toml"
SECTION = (0.0, 500e3), (300e3, 500e3)  # the ends of the line through which J is the transport [m]
WINDOW = 5 * day  # over which it is averaged
WIND = "forcing.0.x"
CHANGES = (0.03, 0.1)  # of the wind, relative
ALLOWED = 0.2  # the largest error of a prediction, over the largest change of all shorter runs
SVERDRUP = 1e6  # [m3 s-1]


def problem_of(model: sw.ShallowWater, state: sw.State, dt: float, days: float) -> adjoint.Problem:
    """J of a run of so many days from a state, as a function of the wind."""
    steps = round(days * day / dt)
    cost = adjoint.SectionTransport(*SECTION, window=(dt * (steps + 1) - WINDOW, dt * steps))
    stepper = sw.ForwardBackward(dt=dt)
    return adjoint.Problem(model, stepper, state, steps, cost, controls=(WIND,), checkpoints=adjoint.Nested(memory=2e9))


def changes_of(problem: adjoint.Problem, wind: np.ndarray, share: float) -> float:
    """The change of J [Sv] for a wind that is stronger by `share`, from two runs: half the central difference."""
    high, low = (float(problem.value({WIND: wind * (1 + sign * share)})) for sign in (1, -1))
    return 0.5 * (high - low) / SVERDRUP


def horizon_of(days: list, predicted: np.ndarray, computed: np.ndarray) -> float:
    """The longest of the runs, 0 if there is none, up to which each prediction is right."""
    wrong = np.abs(predicted - computed) > ALLOWED * np.maximum.accumulate(np.abs(computed))
    return 0.0 if wrong[0] else days[(np.argmax(wrong) if wrong.any() else len(days)) - 1]


def draw(days: list, sensitivities: list, predicted: dict, computed: dict, horizons: dict) -> None:
    """horizon.png: the changes over the length of the run, and maps of the sensitivity for three lengths."""
    figure, axes = plt.subplots(2, 3, figsize=(13, 8), layout="constrained")
    for panel, share in zip(axes[0], CHANGES):
        panel.axvspan(0, horizons[share], color="0.92")
        panel.plot(days, predicted[share], "o-", label="adjoint")
        panel.plot(days, computed[share], "x--", label="runs with both winds")
        panel.set_title(f"wind stronger by {100 * share:.0f} %: right for {horizons[share]:.0f} days")
        panel.set_xlabel("length of the run [days]")
        panel.set_ylabel("change of the transport [Sv]")
        panel.legend()
    axes[0, 2].semilogy(days, [np.abs(x).mean() for x in sensitivities], "o-", color="black")
    axes[0, 2].set_title("mean size of the sensitivity")
    axes[0, 2].set_xlabel("length of the run [days]")
    axes[0, 2].set_ylabel(r"|dJ/d$\tau$| in a cell [Sv per N m$^{-2}$]")
    for panel, k in zip(axes[1], (0, len(days) // 2, len(days) - 1)):
        largest = np.percentile(np.abs(sensitivities[k]), 99.5)
        image = panel.imshow(
            sensitivities[k], origin="lower", extent=(0, 2000, 0, 2000), cmap="RdBu_r", vmin=-largest, vmax=largest
        )
        panel.set_title(f"dJ/d$\\tau$ after {days[k]:g} days [Sv per N m$^{{-2}}$]")
        panel.set_xlabel("x [km]")
        panel.set_ylabel("y [km]")
        figure.colorbar(image, ax=panel, shrink=0.85)
    figure.suptitle("What the boundary current of an eddying gyre owes to the wind, and for how long the adjoint knows")
    figure.savefig("horizon.png", dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("restart", help="a restart of two_layer_gyre.toml")
    parser.add_argument("--days", type=float, nargs="+", default=[20, 40, 60, 80, 100, 120, 140, 160])
    options = parser.parse_args()
    if min(options.days) * day <= WINDOW or sorted(options.days) != options.days:
        parser.error(f"--days must ascend from more than {WINDOW / day:g}, the days over which J is averaged.")
    model = model_of(assemble(read(EXPERIMENT)), "auto")
    simulation = sw.Simulation(model, model.at_rest(), sw.ForwardBackward(dt=240.0))
    print(simulation.resume(options.restart))
    wind, sensitivities = model.terms[0].x, []
    predicted, computed = ({share: [] for share in CHANGES} for _ in range(2))
    for days in options.days:
        problem = problem_of(model, simulation.state, simulation.dt, days)
        J, gradient = problem.value_and_gradient()
        sensitivities.append(np.asarray(gradient[WIND], float) / SVERDRUP)
        size = np.abs(sensitivities[-1]).mean()
        print(f"after_{days:g}_days: transport={float(J) / SVERDRUP:.4g} Sv sensitivity={size:.3g} Sv m2/N", flush=True)
        for share in CHANGES:
            predicted[share].append(share * float((sensitivities[-1] * np.asarray(wind)).sum()))
            computed[share].append(changes_of(problem, wind, share))
            print(
                f"  wind {share:+.0%}: adjoint={predicted[share][-1]:.4g} runs={computed[share][-1]:.4g} Sv", flush=True
            )
    horizons = {x: horizon_of(options.days, np.array(predicted[x]), np.array(computed[x])) for x in CHANGES}
    for share, days in horizons.items():
        print(f"horizon_days_{100 * share:.0f}_percent={days:g}")
    draw(options.days, sensitivities, predicted, computed, horizons)


if __name__ == "__main__":
    main()
