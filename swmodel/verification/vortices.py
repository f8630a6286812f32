"""Vortices that stay as they are, or move at a known speed.

A smooth manufactured solution of the nonlinear equations over a rough bottom, kept steady by its sources.

python -m swmodel.verification.vortices     prints the drift with both cores (docs/theory/pseudo_spectral.md)

The equatorial Rossby soliton of Boyd (1980), doi:10.1175/1520-0485(1980)010<1699:ESWPIE>2.0.CO;2: its speed.

Lengths are in equatorial radii, f = y, g = H = 1. To first order the soliton of half-width 1 / B moves west at
1 / 3 + 0.395 B^2. Cells have the length 0.25. Each mark is the mean speed of the crest from t = 10 to t = 40. The waves
that the first state radiates have left the soliton by t = 10.

Drifters in a steady vortex return to where they were released.

The currents are those of a stream function at the corners, a Gaussian that is 0 from some radius on. The elevation
balances them: it is f / g times the mean of the stream function around each centre. In the linear mode on the f-plane
that state is steady to rounding. A drifter then has to keep to its streamline, which is closed; the mark is the
distance at its return.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

import swmodel as sw

from ..dynamics.clock import Time
from ..dynamics.cores import Discretisation
from ..dynamics.layer import LayerFlow
from ..fields.field import Value
from ..output.products.drifters import Drifters
from ..runtime.compilation import jit
from ..stepping.loop import integrate
from .case import SQUARES, Case, Flow, Mark, Outcome, Panel, Twin, convergence, on_points
from .waves import BISHNU, wave_marks

L, H, G = 1.0e6, 1000.0, 9.81
DT, STEPS = 60.0, 10
run = jit(integrate, static_argnums=3)


def smooth(walls: str = "") -> dict[str, Callable]:
    """u, v, eta and depth: functions of (x, y) with infinite Fourier series, even or odd about the walls."""
    kx, ky = ((1 if axis in walls else 2) * np.pi / L for axis in "xy")
    size = 1.0 if walls else 0.5

    def wave(a, b):
        a, b = (0.0 if axis in walls else phase for axis, phase in zip("xy", (a, b)))
        return lambda x, y: jnp.exp(size * (jnp.cos(kx * x - a) + jnp.cos(ky * y - b)))

    def odd(axis, x, k):
        return jnp.sin(k * x) if axis in walls else 1.0

    u, v, eta, depth = wave(0.3, 1.1), wave(2.0, 0.7), wave(1.5, 2.5), wave(0.9, 0.2)
    return {
        "u": lambda x, y: 2.0 * odd("x", x, kx) * u(x, y),
        "v": lambda x, y: -3.0 * odd("y", y, ky) * v(x, y),
        "eta": lambda x, y: 20.0 * eta(x, y),
        "depth": lambda x, y: H + 100.0 * depth(x, y),
    }


def rates(fields: dict[str, Callable], f: float, width: Callable = jnp.ones_like) -> dict[str, Callable]:
    """{name: function of (x, y)}: the tendencies of these fields, by automatic differentiation.

    Args:
        fields: u, v, eta and depth, functions of (x, y).
        f: the Coriolis parameter [s-1].
        width: of y: the length of a unit of x [m]; on a sphere of which a degree is 1 m, the cosine of the latitude.
    """
    ddx = lambda q: lambda x, y: jax.jvp(lambda x: q(x, y), (x,), (jnp.ones_like(x),))[1] / width(y)  # noqa: E731
    ddy = lambda q: lambda x, y: jax.jvp(lambda y: q(x, y), (y,), (jnp.ones_like(y),))[1]  # noqa: E731
    across = lambda q: lambda x, y: ddy(lambda x, y: width(y) * q(x, y))(x, y) / width(y)  # noqa: E731
    u, v, eta, depth = fields.values()
    head = lambda x, y: G * eta(x, y) + 0.5 * (u(x, y) ** 2 + v(x, y) ** 2)  # noqa: E731
    absolute_vorticity = lambda x, y: f + ddx(v)(x, y) - across(u)(x, y)  # noqa: E731
    h = lambda x, y: depth(x, y) + eta(x, y)  # noqa: E731
    return {
        "u": lambda x, y: absolute_vorticity(x, y) * v(x, y) - ddx(head)(x, y),
        "v": lambda x, y: -absolute_vorticity(x, y) * u(x, y) - ddy(head)(x, y),
        "eta": lambda x, y: -ddx(lambda x, y: h(x, y) * u(x, y))(x, y) - across(lambda x, y: h(x, y) * v(x, y))(x, y),
    }


class Source(sw.Term):
    """The sources that keep a manufactured solution steady."""

    u: jax.Array = sw.parameter("u", "m s-2")
    v: jax.Array = sw.parameter("v", "m s-2")
    eta: jax.Array = sw.parameter("h", "m s-1")

    def __call__(self, flow: LayerFlow, time: Time) -> tuple:
        return self.u, self.v

    def continuity(self, flow: LayerFlow, time: Time) -> Value:
        return self.eta


def steady_model(
    n: int, periodic: str, f: float, core: Discretisation, **options: Any
) -> tuple[sw.ShallowWater, sw.State]:
    """(the model with the sources, the State that they keep steady)."""
    grid = sw.CartesianGrid(n, n, (0.0, L), (0.0, L), periodic)
    fields, names = smooth("".join(axis for axis in "xy" if axis not in periodic)), ("u", "v", "eta")
    points = {name: [jnp.broadcast_to(c, grid.shape) for c in grid.coordinates(at)] for name, at in zip(names, "uvh")}
    exact = sw.State(*(fields[name](*at) for name, at in points.items()))
    source = Source(*(-rate(*points[name]) for name, rate in rates(fields, f).items()))
    given: Any = {"coriolis": sw.FPlane(f), "forcing": (source,), "core": core, "communicator": "serial"}
    return sw.ShallowWater(grid, fields["depth"], **given, **options), exact


def drift(n: int, periodic: str, f: float, core: Discretisation) -> float:
    """The change of the solution in ten steps, which are ten minutes, relative to the largest value of each field."""
    model, exact = steady_model(n, periodic, f, core, engine="arrays")
    stepper = sw.RK4(DT)
    final, _ = run(model.dynamics(stepper), stepper, exact, STEPS)
    return max(float(jnp.abs(a - b).max() / jnp.abs(b).max()) for a, b in zip(*map(jax.tree.leaves, (final, exact))))


def _steady(n):
    return steady_model(n, "xy", 1e-4, sw.FiniteDifferences())


STEADY = Flow(  # for an hour and a half, in which a wave crosses half of the square
    lambda n: _steady(n)[0],
    lambda model, t: _steady(model.grid.nx)[1],
    0.5 * L / np.sqrt(G * H),
    0.4 * L / np.sqrt(1.3 * G * H),
    "elevation",
    300.0,
)


Case(
    name="manufactured",
    title="Manufactured nonlinear solution",
    tests="every term of the nonlinear equations, over a variable depth",
    **BISHNU,
    equation="u, v, eta and H of the form a exp(b [cos(2 pi x / L - p) + cos(2 pi y / L - q)]); sources keep them "
    "steady",
    measure=lambda resolutions: convergence("manufactured", resolutions, STEADY.error),
    marks=wave_marks("manufactured", 5e-3, 5e-3),
    **SQUARES,
    norm="energy, relative, when a wave has crossed half of the square",
    twin=STEADY.twin,
)


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    print("| cells | finite differences | doubly periodic | channel | closed box |\n|---|---|---|---|---|")
    for n in (8, 12, 16, 24, 32, 48):
        row = [drift(n, "xy", 1e-4, sw.FiniteDifferences())]
        row += [drift(n, sides, 1e-4 if sides == "xy" else 0.0, sw.PseudoSpectral()) for sides in ("xy", "x", "")]
        print(f"| {n}² | " + " | ".join(f"{value:.1e}" for value in row) + " |", flush=True)


if __name__ == "__main__":
    main()


B = 0.394
CELL, SOLITON_STEP, FIRST, LAST = 0.25, 0.1, 10.0, 40.0
THEORY = 1 / 3 + 0.395 * B**2
FORMS: dict[str, dict[str, Any]] = {
    "energy": {"momentum": sw.EnergyConserving()},
    "arakawa_lamb": {"momentum": sw.ArakawaLamb()},
    "enstrophy": {"momentum": sw.EnstrophyConserving()},
    "spectral": {"core": sw.PseudoSpectral()},
}


def start(x: np.ndarray, y: np.ndarray) -> tuple:
    """(u, v, eta) of the solution of order zero, with its crest at x = 0."""
    height = 0.771 * B**2 / np.cosh(B * x) ** 2
    slope = -2 * B * np.tanh(B * x) * height
    decay = np.exp(-(y**2) / 2)
    return height * (6 * y**2 - 9) / 4 * decay, 2 * y * slope * decay, height * (6 * y**2 + 3) / 4 * decay


def crest(eta: np.ndarray, x: np.ndarray) -> float:
    """The x at which eta, summed over y, is largest, by a parabola through the largest value and its neighbours."""
    profile = np.asarray(eta).sum(axis=0)
    k = int(np.argmax(profile))
    west, top, east = profile[[k - 1, k, (k + 1) % x.size]]
    return x[k] + CELL * 0.5 * (west - east) / (west - 2 * top + east)


def _model(nx, ny, **options):
    grid = sw.CartesianGrid(nx, ny, (-0.5 * CELL * nx, 0.5 * CELL * nx), (-0.5 * CELL * ny, 0.5 * CELL * ny), "x")
    beta = sw.BetaPlane(0.0, 1.0)
    return sw.ShallowWater(grid, 1.0, gravity=1.0, coriolis=beta, least_thickness=0.0, communicator="serial", **options)


def speed(**options: Any) -> tuple[float, Panel]:
    """The speed of the crest to the west, and a map at the end."""
    model = _model(192, 64, **options)
    x, places = model.grid.x_centres, []
    simulation = sw.Simulation(model, on_points(model, start), sw.RK4(SOLITON_STEP))
    for duration in (FIRST, LAST - FIRST):
        state = simulation.run(steps=round(duration / SOLITON_STEP))
        places.append(crest(state.eta, x))
    labels = ("x [equatorial radii]", "y [equatorial radii]")
    panel = Panel("elevation at t = 40", "map", np.asarray(state.eta), x, model.grid.y_centres, labels, "1")
    return float((places[0] - places[1]) % 48.0 / (LAST - FIRST)), panel


def _measure_speed(forms: tuple) -> Outcome:
    found = {name: speed(**FORMS[name]) for name in forms}
    return Outcome({f"soliton_speed_{name}": value for name, (value, _) in found.items()}, [found[forms[0]][1]])


def _soliton_twin():
    model = _model(32, 16)
    return Twin(model, on_points(model, start), sw.RK4(SOLITON_STEP))


Case(
    name="soliton",
    group="planar",
    title="Equatorial Rossby soliton",
    tests="nonlinear steepening against dispersion on the equatorial beta-plane",
    source="Boyd (1980)",
    doi="10.1175/1520-0485(1980)010<1699:ESWPIE>2.0.CO;2",
    equation=f"speed to the west 1 / 3 + 0.395 B^2 = {THEORY:.4f} to first order, in sqrt(g H);  B = {B}",
    measure=_measure_speed,
    marks=tuple(
        Mark(
            f"soliton_speed_{name}",
            f"mean speed of the crest from t = 10 to 40, {name.replace('_', ' ')}",
            least=0.95 * THEORY,
            most=1.05 * THEORY,
            published=f"speed {THEORY:.4f}: theory of first order, Boyd (1980)",
        )
        for name in FORMS
    ),
    resolutions=tuple(FORMS),
    quick=("energy",),
    norm="speed of the crest on cells of 0.25 equatorial radii",
    twin=_soliton_twin,
)


F, DEPTH, VORTEX_CELL, DRIFTER_STEP = 1e-4, 100.0, 1e3, 30.0  # [s-1], [m], [m], [s]
SPEED = 2.0  # about the largest [m s-1]
RADII = (0.4, 0.8, 1.3)  # of the releases, in radii of the vortex


def _vortex(n):
    """(model, its steady state, centre (x, y), radius) of n x n cells; the centre is at no symmetric place [m]."""
    grid = sw.CartesianGrid(n, n, (0.0, n * VORTEX_CELL), (0.0, n * VORTEX_CELL))
    centre, radius = ((0.5 * n + 0.3) * VORTEX_CELL, (0.5 * n - 0.2) * VORTEX_CELL), n * VORTEX_CELL / 6.0
    x, y = grid.x_edges[None, :] - centre[0], grid.y_edges[:, None] - centre[1]
    share, end = (x**2 + y**2) / radius**2, (0.5 * n - 1.5) ** 2 * VORTEX_CELL**2 / radius**2
    psi = -SPEED * radius * np.where(share < end, np.exp(-share) - np.exp(-end), 0.0)
    u, v = -np.diff(psi, axis=0)[:, 1:] / VORTEX_CELL, np.diff(psi, axis=1)[1:] / VORTEX_CELL
    model = sw.ShallowWater(grid, DEPTH, coriolis=sw.FPlane(F), linear=True, communicator="serial")
    around = 0.25 * (psi[1:, 1:] + psi[1:, :-1] + psi[:-1, 1:] + psi[:-1, :-1])
    return model, model.state(u, v, F / model.gravity * around), centre, radius


def closure(n: int) -> tuple[float, Panel]:
    """(the largest distance of a first return from the release, as a share of the way round, a map of the tracks)."""
    model, state, centre, radius = _vortex(n)
    middle = [(np.floor(0.5 * n + share * radius / VORTEX_CELL) + 0.5) * VORTEX_CELL for share in RADII]  # of cells
    steps = int(1.2 * 2 * np.pi * max(RADII) * radius / (0.35 * SPEED * DRIFTER_STEP))
    with tempfile.TemporaryDirectory() as folder:
        simulation = sw.Simulation(model, state, sw.RK4(DRIFTER_STEP))
        drifters = Drifters(DRIFTER_STEP, [(x, (0.5 * n + 0.5) * VORTEX_CELL) for x in middle])
        simulation.product(Path(folder) / "drifters.nc", drifters).run(steps=steps)
        with xr.open_dataset(Path(folder) / "drifters.nc") as dataset:
            tracks = dataset["x"].values + 1j * dataset["y"].values
    found = [_closure(track, complex(*centre)) for track in tracks]
    lines = {f"{share:g} radii": (track.real / 1e3, track.imag / 1e3) for share, track in zip(RADII, tracks)}
    return max(found), Panel("tracks of the drifters", "lines", lines, labels=("x [km]", "y [km]"))


def _closure(track, centre):
    """The distance between the release and the track where it comes round, over the length of that way."""
    angle = np.unwrap(np.angle(track - centre))
    turned = np.abs(angle - angle[0]) / (2 * np.pi)
    k = int(np.argmax(turned >= 1.0))
    if k == 0:
        raise ValueError("a drifter has not come round; run longer.")
    near = slice(k - 2, k + 2)  # a cubic through two places before and two after
    powers = np.vander(turned[near] - 1.0, 4)
    there = np.linalg.solve(powers, track[near])[-1]
    return float(abs(there - track[0]) / np.abs(np.diff(track[: k + 1])).sum())


def _measure_closure(resolutions: tuple) -> Outcome:
    value, panel = closure(resolutions[-1])
    return Outcome({"drifter_closure": value}, [panel])


Case(
    name="drifters",
    group="planar",
    title="Drifters in a steady vortex",
    tests="the velocity within cells and the way of drifters through them",
    source="Pollock (1988)",
    doi="10.1111/j.1745-6584.1988.tb00425.x",
    equation="dx/dt = u: closed streamlines, in a linear flow in geostrophic balance",
    measure=_measure_closure,
    marks=(
        Mark(
            "drifter_closure",
            "distance between a release and the first return, over the length of the turn; the largest of three",
            most=1e-6,
        ),
    ),
    resolutions=(24,),
    quick=(12,),
    norm="distance over the length of the turn",
)
