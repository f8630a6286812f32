"""The M2 tide of the north-west European shelf, by the inversion of experiments/northwest_europe: minutes on two cores.

The gauges that the inversion does not use judge it. Their amplitudes and phase lags are those of TICON-4 (Hart-Davis et
al. 2022, doi:10.1002/gdj3.165).
"""

import functools
import importlib.util
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from swmodel.verification import Case, Mark, Outcome

FOLDER = Path(__file__).parents[2] / "experiments" / "northwest_europe"


def score_module():
    """score.py of the experiment, as a module."""
    described = importlib.util.spec_from_file_location("shelf_tide_score", FOLDER / "score.py")
    assert described is not None and described.loader is not None
    module = importlib.util.module_from_spec(described)
    described.loader.exec_module(module)
    return module


@functools.cache
def scores():
    """The scores of the inversion of the experiment as it is."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "swmodel", "invert", str(FOLDER / "inversion.toml"), "--output", folder]
        subprocess.run(command, check=True, capture_output=True, timeout=6 * 3600)
        return score_module().scores(Path(folder) / "inversion.nc")


def measure(_: tuple = ()) -> Outcome:
    """The errors of M2 at the gauges that are left out, of the first guess and of the analysis."""
    found = scores()
    return Outcome({
        "shelf_m2_error_first_guess": found["error_left_out_first_guess"],
        "shelf_m2_share_first_guess": found["share_left_out_first_guess"],
        "shelf_m2_error": found["error_left_out_analysis"],
        "shelf_m2_share": found["share_left_out_analysis"],
        "shelf_m2_within_expected": found["within_1_left_out"],
        "shelf_m2_within_twice_expected": found["within_2_left_out"],
    })  # fmt: skip


Case(
    name="shelf_tide",
    group="tides",
    title="M2 of the north-west European shelf, from depths and public gauges",
    tests="4D-Var of the tide at open sides, of the drag and of the depth, from harmonic constants",
    source="TICON-4 (Hart-Davis et al. 2022)",
    doi="10.1002/gdj3.165",
    equation="|A exp(-i g) - A' exp(-i g')| at the gauges that are left out",
    measure=measure,
    marks=(
        Mark("shelf_m2_error_first_guess", "median vector error of the first guess at gauges left out [cm]"),
        Mark("shelf_m2_share_first_guess", "the same as a share of the amplitude [%]"),
        Mark("shelf_m2_error", "median vector error of the analysis at gauges left out [cm]", most=15.0),
        Mark("shelf_m2_share", "the same as a share of the amplitude [%]", most=12.0),
        Mark("shelf_m2_within_expected", "share of the gauges left out with at most the expected error [%]"),
        Mark("shelf_m2_within_twice_expected", "share of them with at most twice the expected error [%]"),
    ),
)


def gradient_cost(_: tuple = ()) -> Outcome:
    """The ratio that a fresh process prints, which has compiled nothing else."""
    command = [sys.executable, "-m", "tests.verification.measures_shelf_tide"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=3600, cwd=FOLDER.parents[1])
    return Outcome({"shelf_gradient_cost": float(printed.stdout.split()[-1])})


def gradient_ratio(lengths: tuple[int, int] = (200, 800), repeats: int = 3) -> float:
    """CPU time of a step of a gradient over that of a step forwards: what runs of two lengths differ by, in turns.

    All states are stored. The difference leaves out what a call costs whatever its length.
    """
    problems = [_problem(steps) for steps in lengths]
    spent: dict[str, list[list[float]]] = {"value": [[], []], "value_and_gradient": [[], []]}
    for turn in range(repeats + 1):
        for name, both in spent.items():
            for problem, seconds in zip(problems, both):
                begun = time.process_time()
                getattr(problem, name)()
                seconds += [time.process_time() - begun] * (turn > 0)  # the first turn compiles
    short, long = ([min(both[k]) for both in spent.values()] for k in range(2))
    value, gradient = (b - a for a, b in zip(short, long))
    return gradient / value


def _problem(steps):
    """The adjoint.Problem of the elevation at a platform after a number of steps of the first guess."""
    from swmodel.adjoint import GaugeElevation, Problem
    from swmodel.config import read
    from swmodel.config.build.experiment import assemble, model_of, state_of
    from swmodel.config.build.steppers import stepper_of, time_step
    from swmodel.stepping.stability import limits

    made = assemble(read(str(FOLDER / "northwest_europe.toml"), []), 1)
    experiment = made.experiment()
    model = model_of(made, "serial", None, "auto")
    state = state_of(experiment.initial, model)
    dt = time_step(experiment, limits(model, stepper_of(experiment.stepper), state))
    stepper = stepper_of(experiment.stepper, dt)
    return Problem(model, stepper, state, steps, GaugeElevation({"J6": (2.95, 53.82)}), ["depth", "initial.eta"])


Case(
    name="shelf_gradient",
    group="tides",
    title="The cost of a gradient of the shelf model",
    tests="the adjoint of a tide with open sides, potential and drag, of 27,324 cells",
    source="docs/adjoint.md",
    doi="",
    equation="CPU time of a gradient with StoreAll() over that of a forward run",
    measure=gradient_cost,
    marks=(Mark("shelf_gradient_cost", "CPU time of a gradient over that of a forward run", most=4.5),),
)


if __name__ == "__main__":
    print(gradient_ratio())
