"""A neural network of nine points as the eddy viscosity of a coarse gyre, trained through the model.

python learned_closure.py                    # prints name=value lines, and writes learned_closure.png and weights.npy
python learned_closure.py --quick            # a small form of it, in seconds; its values mean nothing

Needs `pip install 'swmodel[learned,plots]'`. The truth is a double gyre on fine cells; its fluxes through the faces and
its means over the cells of a grid four times as coarse are the states that a coarse model should follow. Both closures
are fitted to forecasts of ten days in the same years: Smagorinsky's coefficient by a search, and the network by Adam,
with gradients through the steps of the model. Both are then judged in later years.
"""

import argparse
import dataclasses
import time
from pathlib import Path

from swmodel.runtime import launch

launch.configure_process("float32")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import optax  # noqa: E402
from network_viscosity import NetworkViscosity, network, weights_of  # noqa: E402
from scipy.optimize import minimize_scalar  # noqa: E402

import swmodel as sw  # noqa: E402
from swmodel.fields.state import replace  # noqa: E402
from swmodel.units import day, km, year  # noqa: E402

SIZE, DEPTH, GRAVITY = 2000 * km, 1000.0, 0.03  # of the basin and its layer, reduced gravity [m s-2]


@dataclasses.dataclass(frozen=True)
class Study:
    """Sizes and lengths.

    Args:
        cells: along a side of the coarse grid.
        ratio: fine cells along a side of a coarse one.
        spin_up, training, judged: of the truth [s].
        every: interval between the states of the truth that are kept [s].
        window: length of a forecast [s], a multiple of `every`.
        batch: forecasts in a step of the optimiser.
        updates: steps of the optimiser.
        dt: of the coarse model [s].
    """

    cells: int = 32
    ratio: int = 4
    spin_up: float = 4 * year
    training: float = 3 * year
    judged: float = 4 * year
    every: float = 5 * day
    window: float = 10 * day
    batch: int = 4
    updates: int = 80
    dt: float = 3600.0

    @property
    def starts(self) -> np.ndarray:
        """The numbers of the states with which a forecast of the training years starts."""
        return np.arange(0, int(self.training / self.every) - self.leads, 2 * self.leads)

    @property
    def leads(self) -> int:
        """States of the truth within a forecast, after its start."""
        return round(self.window / self.every)


QUICK = Study(
    cells=12,
    ratio=2,
    spin_up=60 * day,
    training=60 * day,
    judged=60 * day,
    every=5 * day,
    batch=2,
    updates=3,
    dt=7200.0,
)


def gyre(cells: int, closure: sw.Term, engine: str = "auto") -> sw.ShallowWater:
    """The double gyre of `swmodel new double_gyre` with another viscosity, and a reduced gravity of 0.03 m s-2."""
    return sw.ShallowWater(
        sw.CartesianGrid(nx=cells, ny=cells, x=(0.0, SIZE), y=(0.0, SIZE)),
        depth=DEPTH,
        gravity=GRAVITY,
        coriolis=sw.BetaPlane(f0=7e-5, beta=2e-11),
        forcing=sw.WindStress(x=lambda x, y: -0.1 * np.cos(2 * np.pi * y / SIZE)),
        dissipation=closure,
        side=sw.NoSlip(),
        engine=engine,
    )


def coarsened(state: sw.State, ratio: int) -> np.ndarray:
    """(u, v, eta) on the coarse grid, (3, ny, nx): fluxes through its faces, and means over its cells."""
    u, v, eta = (np.asarray(x, np.float64) for x in (state.u, state.v, state.eta))
    rows = lambda x: x.reshape(x.shape[0] // ratio, ratio, x.shape[1]).mean(axis=1)  # noqa: E731
    columns = lambda x: rows(x.T).T  # noqa: E731
    return np.stack([rows(u[:, ratio - 1 :: ratio]), columns(v[ratio - 1 :: ratio]), rows(columns(eta))])


def truth(study: Study) -> np.ndarray:
    """The coarse states of the training years and then of those to be judged, (n, 3, ny, nx), `every` apart."""
    model = gyre(study.cells * study.ratio, sw.BiharmonicSmagorinsky(2.0))
    stepper = sw.ForwardBackward(dt=study.dt / study.ratio)
    simulation = sw.Simulation(model, model.at_rest(), stepper)
    simulation.run(until=study.spin_up)
    count = round((study.training + study.judged) / study.every)
    times = study.spin_up + study.every * np.arange(count + 1)
    states = [coarsened(simulation.run(until=time), study.ratio) for time in times]
    return np.stack(states).astype(jnp.result_type(float))


class Forecasts:
    """Forecasts of the coarse model with a closure, as a function of the closure's parameter.

    Args:
        study: the Study.
        closure: the term, whose field `name` is the parameter.
        name: of the parameter.
    """

    def __init__(self, study: Study, closure: sw.Term, name: str):
        self.study, self.name, self.kind = study, name, type(closure)
        self.model, self.stepper = gyre(study.cells, closure, "arrays"), sw.ForwardBackward(dt=study.dt)
        self.steps = round(study.every / study.dt)
        self.dynamics = self.model.dynamics(self.stepper, steps=self.steps)
        self.rest = self.model.at_rest()
        self.error, self.slope = jax.jit(self._error), jax.jit(jax.value_and_grad(self._error))
        self.advanced = jax.jit(jax.vmap(self._advanced, (None, 0)))

    def _advanced(self, parameter, state):
        """The state (3, ny, nx) `every` later."""
        terms = [replace(t, **{self.name: parameter}) if type(t) is self.kind else t for t in self.dynamics.terms]
        dynamics = replace(self.dynamics, terms=tuple(terms))
        start = self.rest.replace(u=state[0], v=state[1], eta=state[2])
        final, _ = sw.integrate(dynamics, self.stepper, start, self.steps)
        return jnp.stack([final.u, final.v, final.eta])

    def _error(self, parameter, windows):
        """The mean square error over windows (n, 1 + leads, 3, ny, nx), as energy [m3 s-2]."""
        advanced = jax.checkpoint(jax.vmap(self._advanced, (None, 0)))  # stores the steps of one interval at a time
        states, found = windows[:, 0], 0.0
        for lead in range(1, windows.shape[1]):
            states = advanced(parameter, states)
            found += energy(states - windows[:, lead]).mean()
        return found / (windows.shape[1] - 1)

    def runs(self, parameter, first: np.ndarray, count: int) -> np.ndarray:
        """The states of runs from `first` (n, 3, ny, nx), `every` apart: (count, n, 3, ny, nx)."""
        states = [jnp.asarray(first)]
        for _ in range(count - 1):
            states.append(self.advanced(parameter, states[-1]))
        return np.stack(states)


def real(number: float) -> jax.Array:
    """A number in the precision of the run."""
    return jnp.asarray(number, jnp.result_type(float))


def energy(state):
    """The mean of (H u^2 + H v^2 + g eta^2) / 2 over cells [m3 s-2] of (..., 3, ny, nx)."""
    u, v, eta = state[..., 0, :, :], state[..., 1, :, :], state[..., 2, :, :]
    return 0.5 * (DEPTH * (u * u + v * v) + GRAVITY * eta * eta).mean(axis=(-2, -1))


def windows_of(states: np.ndarray, starts: np.ndarray, leads: int) -> jax.Array:
    """(n, 1 + leads, 3, ny, nx): the states from each start on."""
    return jnp.asarray(states[starts[:, None] + np.arange(leads + 1)])


def best_smagorinsky(forecasts: Forecasts, windows: jax.Array) -> float:
    """The coefficient with the smallest error over all windows, by a search between 0.5 and 12."""
    cost = lambda logarithm: _finite(forecasts.error(real(np.exp(logarithm)), windows))  # noqa: E731
    found = minimize_scalar(cost, bounds=(np.log(0.5), np.log(12.0)), method="bounded", options={"xatol": 0.02})
    return float(np.exp(found.x))


def _finite(error):
    """The error, and a large number in place of that of a forecast that blew up."""
    return float(error) if np.isfinite(error) else 1e6


def trained(forecasts: Forecasts, windows: jax.Array, first: jax.Array, study: Study) -> tuple[jax.Array, list[float]]:
    """(the weights after `updates` steps of Adam over random batches of windows, the error before each step)."""
    optimiser = optax.chain(
        optax.clip_by_global_norm(1.0), optax.adam(optax.cosine_decay_schedule(0.02, study.updates))
    )
    weights, memory, random, errors = first, optimiser.init(first), np.random.default_rng(0), []
    scale = 1.0 / float(forecasts.error(first, windows))
    for _ in range(study.updates):
        error, slope = forecasts.slope(weights, windows[random.choice(len(windows), study.batch, replace=False)])
        changes, memory = optimiser.update(slope * scale, memory)
        weights = optax.apply_updates(weights, changes)
        errors.append(float(error))
    return weights, errors


def by_lead(forecasts: Forecasts, parameter, states: np.ndarray, starts: np.ndarray, leads: int) -> np.ndarray:
    """The r.m.s. error of forecasts over that of persistence, for each lead (leads,)."""
    found = forecasts.runs(parameter, states[starts], leads + 1)[1:]
    wanted = states[starts + np.arange(1, leads + 1)[:, None]]
    square = lambda x: energy(x).mean(axis=1)  # noqa: E731
    return np.sqrt(square(found - wanted) / square(states[starts] - wanted))


def scores(name: str, forecasts: Forecasts, parameter, study: Study, states: np.ndarray) -> dict:
    """What is printed of a closure, and what its figure needs, from the judged years alone."""
    leads = 3 * study.leads
    errors = by_lead(forecasts, parameter, states, np.arange(0, len(states) - leads, leads), leads)
    free = forecasts.runs(parameter, states[:1], len(states))[:, 0]
    mean, wanted = free[:, 2].mean(axis=0), states[:, 2].mean(axis=0)
    kinetic = lambda x: float((x[:, :2] ** 2).mean())  # noqa: E731
    eddies = lambda x: kinetic(x - x.mean(axis=0))  # noqa: E731
    values = {
        f"closure_forecast_{name}": float(errors[study.leads - 1]),
        f"closure_mean_{name}": float(np.sqrt(((mean - wanted) ** 2).mean() / (wanted**2).mean())),
        f"closure_energy_{name}": kinetic(free) / kinetic(states),
        f"closure_eddies_{name}": eddies(free) / eddies(states),
    }
    return {"values": values, "errors": errors, "mean": mean, "wanted": wanted}


def viscosity(forecasts: Forecasts, parameter, state: np.ndarray) -> np.ndarray:
    """nu [m2 s-1] (ny, nx) of a state, by a closure."""
    term = replace(
        next(t for t in forecasts.dynamics.terms if type(t) is forecasts.kind), **{forecasts.name: parameter}
    )

    def found(dynamics, state):
        return term.viscosity(dynamics.prepare().flow(state, 0.0)).interior

    u, v, eta = map(jnp.asarray, state)
    dynamics = forecasts.model.dynamics(forecasts.stepper, steps=1)
    return np.asarray(jax.jit(found)(dynamics, forecasts.rest.replace(u=u, v=v, eta=eta)))


def main(study: Study, output: Path) -> dict[str, float]:
    """Fit both closures, judge them, print name=value and draw the figure."""
    begun = time.monotonic()
    states = truth(study)
    count = int(study.training / study.every)
    seen, unseen = states[: count + 1], states[count:]
    windows = windows_of(seen, study.starts, study.leads)
    print(f"truth: {len(states)} states in {time.monotonic() - begun:.0f} s", flush=True)
    smagorinsky = Forecasts(study, sw.Smagorinsky(3.0), "coefficient")
    coefficient = best_smagorinsky(smagorinsky, windows)
    fitted = float(smagorinsky.error(real(coefficient), windows))
    print(f"search: {time.monotonic() - begun:.0f} s", flush=True)
    first = weights_of(network(first=0.5 * (coefficient / np.pi) ** 2))
    learned = Forecasts(study, NetworkViscosity(first), "weights")
    weights, errors = trained(learned, windows, first, study)
    seconds = time.monotonic() - begun
    found = [
        scores("smagorinsky", smagorinsky, real(coefficient), study, unseen),
        scores("network", learned, weights, study, unseen),
    ]
    values = {
        "closure_coefficient": coefficient,
        "closure_training_ratio": float(np.sqrt(learned.error(weights, windows) / fitted)),
        **found[0]["values"],
        **found[1]["values"],
        "closure_minutes": seconds / 60.0,
    }
    values["closure_forecast_ratio"] = values["closure_forecast_network"] / values["closure_forecast_smagorinsky"]
    for name, value in values.items():
        print(f"{name}={value:.4g}", flush=True)
    np.save(output / "weights.npy", np.asarray(weights))
    maps = [viscosity(smagorinsky, real(coefficient), unseen[0]), viscosity(learned, weights, unseen[0])]
    draw(study, found, maps, errors, output / "learned_closure.png")
    return values


def draw(study: Study, found: list, viscosities: list, errors: list, path: Path) -> None:
    """Write the figure: mean elevations, viscosities, and errors over the lead time."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(12.5, 7.6), layout="constrained")
    box, names = (0, SIZE / km, 0, SIZE / km), ("Smagorinsky", "network")
    most = np.abs(found[0]["wanted"]).max()
    panels = [("mean elevation of the layer, truth", found[0]["wanted"], most, "RdBu_r", "m")]
    largest = max(np.abs(one["mean"] - one["wanted"]).max() for one in found)
    panels += [
        (f"error of the mean, {n}", one["mean"] - one["wanted"], largest, "RdBu_r", "m") for n, one in zip(names, found)
    ]
    top = max(np.quantile(nu, 0.99) for nu in viscosities)
    panels += [(f"viscosity of one state, {n}", nu, top, "viridis", "m² s⁻¹") for n, nu in zip(names, viscosities)]
    for axis, (title, values, limit, colours, unit) in zip(axes.flat, panels):
        low = -limit if colours == "RdBu_r" else 0.0
        image = axis.imshow(values, origin="lower", extent=box, cmap=colours, vmin=low, vmax=limit)
        axis.set_title(title, fontsize=10)
        figure.colorbar(image, ax=axis, label=f"[{unit}]", extend="max" if low == 0.0 else "neither", shrink=0.75)
        axis.set_xlabel("x [km]")
        axis.set_ylabel("y [km]")
    axis, days = axes[1, 2], study.every / day * np.arange(1, len(found[0]["errors"]) + 1)
    for name, one in zip(names, found):
        axis.plot(days, one["errors"], "o-", label=name)
    axis.axhline(1.0, color="grey", linewidth=0.8, label="persistence")
    axis.set(xlabel="lead [days]", ylabel="r.m.s. error over that of persistence", ylim=(0, None))
    axis.set_title("forecasts in the judged years", fontsize=10)
    axis.legend()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small form, in seconds; its values mean nothing")
    parser.add_argument("-o", "--output", default=".", type=Path, help="the folder of the figure and the weights")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    main(QUICK if arguments.quick else Study(), arguments.output)
