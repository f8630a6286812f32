"""Layers of uniform density: the speeds of their vertical modes, and Phillips's baroclinic instability.

Phillips's problem: layers that flow along a channel at different, uniform velocities U_k, in geostrophic balance with
interfaces that slope across it. Small disturbances exp(i k x - i omega t) obey

    (d/dt + U_k d/dx) u = f v - dM/dx,   (d/dt + U_k d/dx) v = - f u - dM/dy,   v = 0 at the walls
    (d/dt + U_k d/dx) h = - H_k du/dx - d(H_k v)/dy,   M = sum over layers of A h

These are the shallow-water equations themselves. The quasi-geostrophic ones of Phillips (1954),
doi:10.3402/tellusa.v6i3.8734, follow for small Rossby numbers; there disturbances of two layers of equal depth grow
only if the shear exceeds beta g' H / f^2.

Linear motions of two layers with closed solutions: an internal Kelvin wave, and the adjustment of an interface.

The equations of layers separate into their vertical modes (dynamics/layers.py). In mode m layer k has the velocity
phi_mk u, the pressure over density phi_mk P and the thickness H_k (1 + phi_mk P / c_m^2). (u, v, P / g) is a solution
of the equations of one layer of the depth c_m^2 / g.
"""

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
from scipy.interpolate import BarycentricInterpolator

import swmodel as sw

from ..dynamics.vertical_modes import modes
from ..fields.variables import in_layer
from .case import SQUARES, Case, Flow, Mark, Outcome, Panel, Twin, convergence, order, run_until
from .waves import channel_modes, chebyshev, ridge, wave_marks

# -- speeds of vertical modes -----------------------------------------------------------------------------------------

LENGTH, GRAVITY = 1e6, 9.8
COLUMNS = {2: ((1020.0, 1080.0), (300.0, 700.0)), 4: ((1000.0, 1030.0, 1090.0, 1110.0), (150.0, 250.0, 350.0, 250.0))}


def mode_errors(count: int, n: int) -> np.ndarray:
    """The speeds of all modes of `count` layers, over those of the vertical eigenproblem, less 1, on n cells.

    One run steps a wave in each mode. Modes are orthogonal, so that the phase of each is found in their sum.
    """
    densities, thickness = COLUMNS[count]
    layers = sw.Layers(thickness=thickness[:-1], densities=densities)
    gravities = np.asarray(layers.gravities(GRAVITY), float)
    speeds, velocities = modes(gravities, np.array(thickness))
    grid = sw.CartesianGrid(n, 4, (0.0, LENGTH), (0.0, 4 * LENGTH / n), "xy")
    model = sw.ShallowWater(
        grid, sum(thickness), gravity=GRAVITY, layers=layers, linear=True, communicator="serial", dtype="float64"
    )
    k, across = 2 * np.pi / LENGTH, np.array(thickness)[:, None] * velocities
    height = across / speeds  # of h in a wave to the right: c h = H u
    levels = np.array(layers.sums(list(height)))  # eta of layer and mode
    fields = {}
    for j in range(count):
        fields[in_layer("u", j)] = functools.partial(_wave, k, velocities[j].sum())
        fields[in_layer("eta", j)] = functools.partial(_wave, k, levels[j].sum())
    end = 0.5 * LENGTH / speeds[0]
    final = run_until(model, sw.RK4, model.state(**fields), end, 0.5 * LENGTH / n / speeds[0])
    wave = np.exp(-1j * k * grid.x_centres)
    eta = np.array([np.asarray(final[in_layer("eta", j)], float).mean(axis=0) @ wave for j in range(count)])
    phases = np.linalg.solve(levels, eta)  # of each mode: those of exp(- i k c t)
    turns = np.angle(phases * np.exp(1j * k * speeds * end))  # beyond that of the exact speed
    return -turns / (k * speeds * end)


def _wave(k, amplitude, x, y):
    return amplitude * np.cos(k * x) + 0.0 * y


def _modes(resolutions: tuple) -> Outcome:
    errors = [max(np.abs(mode_errors(count, n)).max() for count in COLUMNS) for n in resolutions]
    lines = {"largest error": (resolutions, errors)}
    panel = Panel("speed of modes, relative error", "errors", lines, labels=("cells along a wavelength", ""))
    return Outcome({"layer_mode_error": errors[-1], "layer_mode_order": order(resolutions, errors)}, [panel])


def _twin() -> Twin:
    layers = sw.Layers(thickness=(300.0,), densities=COLUMNS[2][0])
    grid = sw.CartesianGrid(8, 8, (0.0, LENGTH), (0.0, LENGTH), "x")
    model = sw.ShallowWater(grid, 1000.0, layers=layers, coriolis=sw.BetaPlane(1e-4, 1e-11), communicator="serial")
    bump = lambda x, y: np.sin(2 * np.pi * x / LENGTH) * np.sin(np.pi * y / LENGTH)  # noqa: E731
    return Twin(model, model.state(eta=bump, eta_2=lambda x, y: 20.0 * bump(x, y), u_2=bump), sw.RK4(300.0))


Case(
    name="layer_modes",
    group="planar",
    title="Vertical modes of layers",
    tests="the pressure of layers, and the divergence of the layers below each interface",
    source="Vallis (2017), section 3.3",
    doi="10.1017/9781107588417",
    equation="c^2 = eigenvalues of A diag(H),  A = L^T diag(g_j) L;  2 and 4 layers",
    measure=_modes,
    marks=(
        Mark("layer_mode_error", "largest relative error of the speed of a mode, at the highest resolution", most=1e-3,
             quick=3.5e-3),
        Mark("layer_mode_order", "order of convergence of that error", least=1.9),
    ),
    resolutions=(24, 48),
    quick=(12, 24),
    norm="relative error of phase speeds over half a period of the fastest mode",
    twin=_twin,
)  # fmt: skip


# -- baroclinic instability -------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Shear:
    """Two layers of equal depth at rest in a channel, with the velocities +- speed.

    Args:
        speed: U of the upper layer, - U of the lower one [m s-1].
        beta: [m-1 s-1].
        width: of the channel [m].
        depth: of each layer at rest [m].
        f0: the Coriolis parameter in the middle of the channel [s-1].
        gravity, reduced: of the surface and of the interface [m s-2].
    """

    speed: float = 0.15
    beta: float = 0.0
    width: float = 1.2e5
    depth: float = 500.0
    f0: float = 1e-4
    gravity: float = 0.1
    reduced: float = 0.02

    @property
    def radius(self) -> float:
        """sqrt(g' H) / f0 [m]."""
        return np.sqrt(self.reduced * self.depth) / self.f0

    @property
    def velocities(self) -> np.ndarray:
        return np.array([self.speed, -self.speed])

    def levels(self, y: np.ndarray) -> list:
        """eta of both layers in balance [m], at y from the middle of the channel."""
        turned = self.f0 * y + 0.5 * self.beta * y**2  # the integral of f
        turned = turned - self.beta * self.width**2 / 24.0  # no water above rest in the mean
        upper, lower = -self.velocities[:, None] * np.ravel(turned)
        return [(x / g).reshape(np.shape(y)) for x, g in ((upper, self.gravity), (lower - upper, self.reduced))]

    @functools.lru_cache(maxsize=64)  # noqa: B019  of frozen objects, which compare by value
    def growing(self, k: float) -> tuple[complex, Callable]:
        """(omega [s-1], the interpolator over y of (u, i v, h) of both layers) of the fastest-growing disturbance."""
        points, d = chebyshev(32)
        y, d = 0.5 * self.width * points, d * 2 / self.width
        upper, lower = self.levels(y)
        heights = np.stack([self.depth + upper - lower, self.depth + lower])
        summed = np.tri(2).T
        pressure = summed.T @ np.diag([self.gravity, self.reduced]) @ summed
        values, vectors = channel_modes(k, d, self.f0 + self.beta * y, heights, self.velocities, pressure)
        fastest = np.argmax(np.imag(values) - 1e-5 * np.abs(values))  # where nothing grows, a slow wave
        mode = vectors[:, fastest] / np.abs(vectors[:, fastest]).max()
        return values[fastest], BarycentricInterpolator(y, mode.reshape(6, y.size).T)

    def model(self, k: float, n: int) -> sw.ShallowWater:
        """A channel of one wavelength on n x n cells."""
        grid = sw.CartesianGrid(n, n, (0.0, 2 * np.pi / k), (-0.5 * self.width, 0.5 * self.width), "x")
        layers = sw.Layers(thickness=(self.depth,), reduced_gravities=(self.reduced,))
        rotation = sw.BetaPlane(self.f0, self.beta)
        return sw.ShallowWater(
            grid, 2 * self.depth, gravity=self.gravity, layers=layers, coriolis=rotation, communicator="serial",
            dtype="float64",
        )  # fmt: skip

    def disturbed(self, model: sw.ShallowWater, k: float, size: float = 1e-3) -> sw.State:
        """The flow in balance with the fastest-growing disturbance, `size` m high."""
        _, across = self.growing(k)

        def part(q, x, y):
            return size * np.real((1j if q % 3 == 1 else 1.0) * across(y[:, 0]).T[q][:, None] * np.exp(1j * k * x))

        places = {at: [z + np.zeros(model.grid.shape) for z in model.grid.coordinates(at)] for at in "uvh"}
        heights, levels, fields = [part(q, *places["h"]) for q in (2, 5)], self.levels(places["h"][1]), {}
        for a in range(2):
            fields[in_layer("u", a)] = self.velocities[a] + part(3 * a, *places["u"])
            fields[in_layer("v", a)] = part(3 * a + 1, *places["v"])
            fields[in_layer("eta", a)] = levels[a] + sum(heights[a:])
        return model.state(**fields)

    def growth(self, k: float, n: int) -> tuple[float, sw.State, sw.ShallowWater]:
        """(the growth rate of v in a run [s-1], its last State, the model).

        It is measured over one folding time after half of one; where nothing grows, over that of U / (20 radius).
        """
        model = self.model(k, n)
        fold = 1.0 / max(self.growing(k)[0].imag, 0.05 * self.speed / self.radius)
        dt = 0.5 * min(self.width, 2 * np.pi / k) / n / np.sqrt(2.2 * self.gravity * self.depth)
        steps = round(fold / dt)
        run = sw.Simulation(model, self.disturbed(model, k), sw.ForwardBackward(fold / steps))
        before = self._size(run.run(steps=steps // 2))
        last = run.run(steps=steps)
        return np.log(self._size(last) / before) / fold, last, model

    @staticmethod
    def _size(state):
        return float(np.sqrt(sum(np.mean(np.asarray(state[name], float) ** 2) for name in ("v", "v_2"))))


FLAT = Shear()
STABLE = Shear(beta=4.5e-10)  # whose critical speed is 0.225 m/s
PLANES = {"f-plane": FLAT, "beta": Shear(beta=1e-10), "below the critical shear": STABLE}


def _phillips(resolutions: tuple) -> Outcome:
    (n,), numbers, lines, errors = resolutions, (0.5, 0.8, 1.1), {}, []
    largest = max(FLAT.growing(x / FLAT.radius)[0].imag for x in numbers)
    for name, shear in PLANES.items():
        used = numbers if shear is FLAT else numbers[1:2]
        rates = [shear.growth(x / shear.radius, n)[0] for x in used]
        theory = [shear.growing(x / shear.radius)[0].imag for x in used]
        errors += [abs(a - b) / largest for a, b in zip(rates, theory)]
        lines |= {f"{name}, run": (used, rates), f"{name}, theory": (used, theory)}
    title = ("wavenumber times radius", "growth rate [s-1]")
    return Outcome({"phillips_growth_error": max(errors)}, [Panel("growth rate", "lines", lines, labels=title)])


Case(
    name="phillips",
    group="planar",
    title="Phillips's baroclinic instability",
    tests="the exchange of energy between layers, and the critical shear over beta",
    source="Phillips (1954)",
    doi="10.3402/tellusa.v6i3.8734",
    equation="growth rates of the linear equations, by collocation across the channel",
    measure=_phillips,
    marks=(
        Mark("phillips_growth_error", "largest error of a growth rate, over the largest growth rate", most=0.02),
    ),
    resolutions=(48,),
    quick=(32,),
    norm="over three wavenumbers on an f-plane, one with beta, and one below the critical shear, where none grows",
)  # fmt: skip


F, G, L = 1e-4, 9.8, 6e5  # [s-1], [m s-2], [m]
THICKNESS = np.array([300.0, 700.0])  # [m]
LAYERS = sw.Layers(thickness=(300.0,), densities=(1000.0, 1060.0))
MODES = modes(np.asarray(LAYERS.gravities(G), float), THICKNESS)  # speeds, and velocities by layer and mode
GILL = {"group": "planar", "source": "Gill (1982), sections 6.2, 7.2 and 10.4"}


def _model(n, periodic):
    grid = sw.CartesianGrid(n, n, (0.0, L), (0.0, L), periodic)
    return sw.ShallowWater(
        grid, THICKNESS.sum(), gravity=G, layers=LAYERS, coriolis=sw.FPlane(F), linear=True, communicator="serial"
    )


def _state(model: sw.ShallowWater, solution: Callable) -> sw.State:
    """The State of sum over modes of `solution(m, x, y) -> (u, v, P)`, each at its own C-grid position."""
    fields = {}
    for at, name in enumerate(("u", "v", "eta")):
        x, y = model.grid.coordinates("uvh"[at])
        parts = [solution(m, x, y)[at] + np.zeros(model.grid.shape) for m in range(THICKNESS.size)]
        speeds, shapes = MODES
        of_layers = [sum(part * shape for part, shape in zip(parts, shapes[k])) for k in range(THICKNESS.size)]
        if name == "eta":
            heights = [
                H * sum(part * shape / c**2 for part, shape, c in zip(parts, shapes[k], speeds))
                for k, H in enumerate(THICKNESS)
            ]
            of_layers = LAYERS.sums(heights)
        fields |= {in_layer(name, k): x for k, x in enumerate(of_layers)}
    return model.state(**fields)


def _case(name, periodic, exact, end, map_title, **declared):
    """Register the case of a solution exact(m, x, y, t), whose error is that at the time `end` [s]."""
    state = lambda model, t: _state(model, lambda m, x, y: exact(m, x, y, t))  # noqa: E731
    flow = Flow(lambda n: _model(n, periodic), state, end, 0.5 * L / MODES[0][0], map_title, 200.0, "eta_2")
    measure = lambda resolutions: convergence(name, resolutions, flow.error)  # noqa: E731
    Case(name=name, measure=measure, twin=flow.twin, **declared)


# -- internal Kelvin wave ----------------------------------------------------------------------------------------------

SLOW = MODES[0][1]  # the speed of the internal mode [m s-1]
SIZE = 1.0 / MODES[1][0, 1]  # so that the velocity of the mode is 1 in the top layer


def internal_kelvin(m: int, x: np.ndarray, y: np.ndarray, t: float) -> tuple:
    """A wave of the internal mode that travels south along the coast x = 0, which is on its right."""
    wave = SIZE * np.cos(2 * np.pi * (y + SLOW * t) / L) * np.exp(-x * F / SLOW) * (m == 1)
    return 0.0 * wave, -wave / SLOW, wave


_case(
    "internal_kelvin",
    "y",
    internal_kelvin,
    0.25 * L / SLOW,
    "interface after a quarter of a period",
    title="Internal Kelvin wave of two layers",
    tests="pressure of an interface against the Coriolis force at a wall",
    **GILL,
    equation="P = cos(2 pi (y + c t) / L) exp(-x f / c),  v = - P / c,  u = 0;  c of the internal mode",
    marks=wave_marks("internal_kelvin", 5e-3, 5e-3, ""),
    **SQUARES,
    norm="energy of all layers, relative, after a quarter of a period",
)


# -- geostrophic adjustment --------------------------------------------------------------------------------------------


def layer_adjustment(m: int, x: np.ndarray, y: np.ndarray, t: float) -> tuple:
    """A ridge of the interface at rest under a level surface at t = 0, in the periodic interval L."""
    c, shape = MODES[0][m], MODES[1][:, m]
    own = shape[1] - shape[0]  # P / c^2 of heights (-1, 1): the sum of H phi^2 is 1
    return tuple(own * c**2 * part for part in ridge(x, y, t, c, L, 0.1 * L))


_case(
    "layer_adjustment",
    "xy",
    layer_adjustment,
    0.2 * L / SLOW,
    "interface as the waves leave",
    title="Geostrophic adjustment of the interface of two layers",
    tests="potential vorticity of each layer in a disturbance, and the waves of both modes that radiate from it",
    **GILL,
    equation="P_k(t) = P_k(0) [f^2 + c^2 k^2 cos(omega t)] / omega^2,  omega^2 = f^2 + c^2 k^2,  of both modes",
    marks=wave_marks("layer_adjustment", 1e-2, 0.012, ""),
    resolutions=(32, 64, 128),
    quick=(24, 48),
    norm="energy of all layers, relative, after 0.2 L / c",
)
