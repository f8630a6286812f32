"""The wave that came in at the side of Monai valley's tank, found from the records of three gauges by 4D-Var.

    J(p) = 1/2 |p|^2 + 1/2 sum_i [(eta(x_i, t_i; p) - y_i) / s_i]^2,      eta(x = 0, t) = (B p)(t)

B B^T is a Gaussian covariance in time, so that p = 0 is water at rest, with an error of DEVIATION. The published record
at x = 0 is not used: it is what the result is compared with, until LAST, since later waves do not reach the gauges
before the end. After Funke et al. (2017), arXiv:1612.09597, who find it from the line up to which the land was flooded.

    python incoming_wave.py [--twin] [FOLDER]
"""

import argparse
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from jax.tree_util import Partial

import swmodel as sw
from swmodel import adjoint
from swmodel.adjoint.assimilation import FourDVar
from swmodel.adjoint.assimilation.minimise import Space, Stop, minimise
from swmodel.grids.topography import topography

HERE = Path(__file__).parent
GAUGES = {"g5": (4.521, 1.196), "g7": (4.521, 1.696), "g9": (4.521, 2.196)}  # [m]
STILL = 2.0  # until then the gauges' mean level is that of the water at rest [s]
FROM = 10.0  # before that the records drift; what came in during the first five seconds has then passed the gauges [s]
END, LAST = 22.5, 16.5  # of the run, and of the comparison [s]
KNOTS = np.arange(0.0, END + 0.25, 0.25)  # times of the record that is found [s]
DEVIATION, LENGTH = 0.01, 0.75  # of the wave [m], and the length of its correlation [s]
ERROR, APART = 0.003, 0.5  # of a gauge [m], and how far apart its errors are independent [s]


def table(name: str) -> dict[str, np.ndarray]:
    """{column: values} of a csv file of this folder."""
    found = np.genfromtxt(HERE / name, delimiter=",", names=True)
    return {name: found[name] for name in found.dtype.names}


def tank(spacing: float, wave: np.ndarray) -> tuple[sw.ShallowWater, float]:
    """(the model with a level at x = 0, given at KNOTS [m]; its time step [s]), with cells of a size [m]."""
    grid = sw.CartesianGrid(int(5.488 / spacing), int(3.402 / spacing), (0.0, 5.488), (0.0, 3.402))
    maker = sw.WaveMaker(sides="west", elevation=sw.Record(KNOTS, wave), total=True)
    model = sw.ShallowWater(
        grid,
        topography(HERE / "bp07_depth.nc", grid, "average"),
        momentum=sw.MomentumConserving(),
        wetting=sw.WettingDrying(thin=1e-4),
        dissipation=sw.ManningDrag(0.01),
        boundaries=maker,
        dtype="float64",
    )
    steps = int(np.ceil(END * np.sqrt(2 * model.gravity * 0.17) / (0.6 * spacing)))
    return model, END / steps


def wave_of(root: Any, parameters: dict) -> dict:
    """The control of the side from standardised parameters."""
    return {"boundary.0.elevation.values": root @ parameters["p"]}


def covariance_root() -> np.ndarray:
    """B: the symmetric root of the covariance of the wave at KNOTS [m]."""
    covariance = np.exp(-0.5 * ((KNOTS[:, None] - KNOTS) / LENGTH) ** 2)
    values, vectors = np.linalg.eigh(covariance)
    return DEVIATION * (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def problem_of(spacing: float, observed: dict[str, tuple[np.ndarray, np.ndarray]]) -> adjoint.Problem:
    """The misfit to {gauge: (times [s], levels [m])} as a function of the standardised wave."""
    model, dt = tank(spacing, 0.0 * KNOTS)
    records = {}
    for name, (times, levels) in observed.items():
        alike = max(APART / np.diff(times).mean(), 1.0)
        error = ERROR * np.sqrt(alike)
        records[name] = adjoint.Record(GAUGES[name], times, levels, error, observations_per_datum=alike)
    root = Partial(wave_of, model.communicator.replicated(jnp.asarray(covariance_root())))
    control = adjoint.Transformed({"p": np.zeros(KNOTS.size)}, root)
    steps = int(round(END / dt))
    return adjoint.Problem(
        model, sw.SSPRK3(dt), model.at_rest(), steps=steps, cost=adjoint.Misfit(records), controls=(control,)
    )


def published() -> np.ndarray:
    """The published level at x = 0 at KNOTS [m]."""
    record = table("bp07_incident.csv")
    return np.interp(KNOTS, record["time_s"], record["eta_m"])


def of_laboratory() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """{gauge: (times [s], levels [m])} of the laboratory, from the level of the water at rest."""
    data = table("bp07_gauges.csv")
    kept = (data["time_s"] > FROM) & (data["time_s"] <= END)
    still = data["time_s"] < STILL
    return {k: (data["time_s"][kept], data[f"{k}_m"][kept] - data[f"{k}_m"][still].mean()) for k in GAUGES}


def of_twin(spacing: float) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The same from a run with the published record, with errors of 1 mm."""
    times, problem = of_laboratory()["g5"][0], problem_of(spacing, of_laboratory())
    dt, parameters = problem.dt, np.linalg.lstsq(covariance_root(), published(), rcond=1e-6)[0]
    levels = np.asarray(problem.observed({"p": parameters}))
    moments, rng = dt * np.arange(1, len(levels) + 1), np.random.default_rng(7)
    return {
        name: (times, np.interp(times, moments, levels[:, k]) + rng.normal(0.0, 1e-3, times.size))
        for k, name in enumerate(GAUGES)
    }


def invert(spacing: float, twin: bool, iterations: int, progress: Any = None) -> tuple[np.ndarray, float, float]:
    """(the wave at KNOTS [m], its r.m.s. error over the published one's r.m.s. until LAST, J over that at rest)."""
    problem = problem_of(spacing, of_twin(spacing) if twin else of_laboratory())
    variational, space = FourDVar(problem), Space(problem.communicator)
    start = {"p": 0.01 * np.cos(7.0 * KNOTS)}  # water that hardly moves: exact rest is a kink of the scheme
    stop = Stop(iterations=iterations)
    found = minimise(variational.value_and_gradient, start, space, stop, progress=progress)
    wave, early = covariance_root() @ np.asarray(found.values["p"]), KNOTS <= LAST
    error = np.sqrt(np.mean((wave - published())[early] ** 2) / np.mean(published()[early] ** 2))
    return wave, float(error), found.value / found.history[0].value


def main() -> None:
    """Find the wave, print its error, and draw it with the published one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", default="output/monai_valley", type=Path)
    parser.add_argument("--twin", action="store_true", help="gauges of a run with the published record")
    parser.add_argument("--spacing", type=float, default=0.084, help="of the cells [m]")
    parser.add_argument("--iterations", type=int, default=10, help="of L-BFGS, each of about one gradient")
    chosen = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    show = lambda now: print(f"iteration {now.history[-1].number}: J = {now.value:.5g}", flush=True)  # noqa: E731
    wave, error, left = invert(chosen.spacing, chosen.twin, chosen.iterations, show)
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(8, 3.5), layout="constrained")
    ax.plot(KNOTS, 100 * published(), "k", label="published")
    ax.plot(
        KNOTS, 100 * wave, label="from a twin's gauges" if chosen.twin else "from the laboratory's gauges 5, 7 and 9"
    )
    ax.axvspan(LAST, END, color="0.9", label="does not reach the gauges before the end")
    ax.set(xlabel="time [s]", ylabel="level at x = 0 [cm]", xlim=(0, END))
    ax.legend()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    file = chosen.folder / f"incoming_wave{'_twin' * chosen.twin}.png"
    figure.savefig(file, dpi=150)
    print(f"{file}: the error is {error:.3f} of the published wave until {LAST:g} s; J fell to {left:.3f} of its start")


if __name__ == "__main__":
    main()
