"""A case of the published suite: its purpose, its source, its measurement, and the marks that it has to reach.

A module of cases makes `Case` objects, which are registered under their names when the module is imported. A case is
measured by one function, `measure(resolutions) -> Outcome`; the table, the page and the tests all read its result.

Norms, orders of convergence, the dot-product test and figures are for all cases. A figure needs matplotlib, from the
extra `plots`.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import ConfigError
from ..fields.state import State
from ..fields.variables import in_layer
from ..models.shallow_water import ShallowWater
from ..runtime.compilation import jit
from ..simulation.simulation import Simulation
from ..stepping.explicit import RK4, TimeStepper
from ..stepping.loop import integrate


@dataclasses.dataclass(frozen=True)
class Mark:
    """A number that a case measures, and the range in which it has to lie.

    Args:
        name: the name in the printed line name=value.
        meaning: a description of the number, with its norm and unit.
        most: the largest allowed magnitude, or None.
        least: the least allowed value, or None.
        published: the published values of other models, with the citation.
        quick: whether the range also holds for the short form of the case, whose resolutions are lower. A number takes
            the place of `most` there, or of `least` where there is no `most`.
    """

    name: str
    meaning: str
    most: float | None = None
    least: float | None = None
    published: str = ""
    quick: bool | float = True

    def bounds(self, quick: bool = False) -> tuple[float | None, float | None]:
        """(the least value, the largest magnitude) allowed; None where there is none."""
        if not quick or self.quick is True:
            return self.least, self.most
        if self.quick is False:
            return None, None
        return (self.quick, None) if self.most is None else (self.least, self.quick)

    def passes(self, value: float, quick: bool = False) -> bool | None:
        """Whether `value` is in the range; None where no range is set."""
        least, most = self.bounds(quick)
        if most is None and least is None:
            return None
        return bool((most is None or abs(value) <= most) and (least is None or value >= least))

    def limits(self, quick: bool = False) -> str:
        """The range, as the table prints it."""
        least, most = self.bounds(quick)
        if least is not None and most is not None:
            return f"{least:.4g} to {most:.4g}"
        return f">= {least:g}" if least is not None else "" if most is None else f"<= {most:g}"


@dataclasses.dataclass(frozen=True)
class Panel:
    """A part of a case's figure.

    Args:
        title: the title above the panel.
        kind: "map" of `values` over x and y, "lines" or "errors" (logarithmic, over the number of cells).
        x, y: coordinates of a map, (nx,) and (ny,).
        values: (ny, nx) for a map; {label: (abscissae, ordinates)} for lines and errors.
        labels: the labels of both axes.
        unit: the unit of a map's values.
    """

    title: str
    kind: str
    values: Any
    x: Any = None
    y: Any = None
    labels: tuple[str, str] = ("", "")
    unit: str = ""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The result of the measurement of a case.

    Args:
        values: {name of a mark: its value}.
        panels: the Panels of the figure.
    """

    values: dict[str, float]
    panels: Sequence[Panel] = ()


@dataclasses.dataclass(frozen=True)
class Twin:
    """A small form of a case, for the test of its adjoint."""

    model: Any
    state: Any
    stepper: Any
    steps: int = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """A published case; registered in CASES when it is made.

    Args:
        name: the name, one word.
        group: the section of the table: planar, sphere, tides, coasts, nests.
        title: the title in the table and on the page.
        tests: the property of the model that the case tests, a phrase.
        source: authors and year.
        doi: the DOI of the source, if it has one.
        equation: the equation or comparison, as a formula or a sentence.
        measure: the function from the resolutions to an Outcome.
        marks: the Marks.
        resolutions: the arguments of `measure`, as numbers of cells; empty if it takes none.
        quick: the resolutions of the short form.
        norm: the norm of the errors.
        twin: a function that makes the Twin for the test of the adjoint, or None.

    Raises:
        ValueError: if another case or mark has the name.
    """

    name: str
    group: str
    title: str
    tests: str
    source: str
    doi: str = ""
    equation: str
    measure: Callable[[tuple], Outcome]
    marks: tuple[Mark, ...]
    resolutions: tuple = ()
    quick: tuple = ()
    norm: str = ""
    twin: Callable[[], Twin] | None = None

    def __post_init__(self):
        taken = {mark.name for case in CASES.values() for mark in case.marks} | set(CASES)
        names = {self.name} | {mark.name for mark in self.all_marks}
        if names & taken:
            raise ValueError(f"verification: {', '.join(sorted(names & taken))} is the name of another case or mark.")
        CASES[self.name] = self

    @property
    def all_marks(self) -> tuple[Mark, ...]:
        """The marks, and that of the adjoint where the case has a twin."""
        if self.twin is None:
            return self.marks
        meaning = "<J x, y> against <x, J^T y> of random x and y through a few steps of a small form, relative"
        return (*self.marks, Mark(f"{self.name}_adjoint", meaning, most=1e-11))


CASES: dict[str, Case] = {}
SQUARES: Any = {"resolutions": (32, 64, 128), "quick": (16, 32)}  # cells along a side, of most waves and gyres


def relative_l2(found: np.ndarray, exact: np.ndarray, weight: np.ndarray | float = 1.0) -> float:
    """sqrt(sum w (found - exact)^2 / sum w exact^2)."""
    found, exact = np.asarray(found, float), np.asarray(exact, float)
    return float(np.sqrt(np.sum(weight * (found - exact) ** 2) / np.sum(weight * exact**2)))


def energy_norm(model: ShallowWater, found: State, exact: State) -> float:
    """The relative error in the norm of linear energy, sqrt(sum A (h_u u^2 + h_v v^2 + g eta^2)) over the grid.

    Over a flat bottom, and of all layers.
    """
    depth = np.where(model.wet, model.depth, 0.0)
    area = model.grid.metrics(np.arange(model.grid.ny))["area_h"] * np.ones(model.grid.shape)
    heights = [depth] if model.layers is None else [x * model.wet for x in model.layers.rest(depth)]
    gravities, weights = [model.gravity] if model.layers is None else model.layers.gravities(model.gravity), {}
    for k, (height, gravity) in enumerate(zip(heights, gravities)):
        each = {"u": height * area, "v": height * area, "eta": gravity * area}
        weights |= {in_layer(name, k): weight for name, weight in each.items()}

    def squared(state):
        return sum(np.sum(weights[name] * np.asarray(getattr(state, name), float) ** 2) for name in weights)

    difference = jax.tree.map(jnp.subtract, found, exact)
    return float(np.sqrt(squared(difference) / squared(exact)))


def order(resolutions: Sequence[float], errors: Sequence[float]) -> float:
    """The slope of the errors between the last two resolutions."""
    (n, m), (e, f) = resolutions[-2:], errors[-2:]
    return float(np.log(e / f) / np.log(m / n))


def on_points(model: ShallowWater, fields: Callable[[np.ndarray, np.ndarray], Sequence]) -> State:
    """The State of `fields(x, y) -> (u, v, eta)`, each evaluated at its own C-grid position."""
    values = [fields(*model.grid.coordinates(at))[k] + np.zeros(model.grid.shape) for k, at in enumerate("uvh")]
    return model.state(*values)


def run_until(
    model: ShallowWater, stepper: Callable[[float], TimeStepper], state: State, end: float, dt: float
) -> State:
    """The State at `end` [s], after the whole number of equal steps whose length is at most `dt` [s]."""
    steps = int(np.ceil(end / dt - 1e-9))
    return Simulation(model, state, stepper(end / steps)).run(steps=steps)


def map_in_km(title: str, x: np.ndarray, y: np.ndarray, values: Any, unit: str = "m") -> Panel:
    """A map of values (ny, nx) at x (nx,) and y (ny,) [m] on a plane."""
    return Panel(title, "map", np.asarray(values), x / 1e3, y / 1e3, ("x [km]", "y [km]"), unit)


@dataclasses.dataclass(frozen=True)
class Flow:
    """A flow whose state is known at all times, and its runs by RK4.

    Args:
        model: the function from a number of cells to the model.
        exact: `exact(model, t)` gives the State at the time t [s].
        end: of the run [s].
        longest: the longest step on one cell [s], which is n times as long as that on n cells.
        title: of the map at the end.
        step: of the small form of the case [s].
        field: the field of the map.
    """

    model: Callable[[int], ShallowWater]
    exact: Callable[[ShallowWater, float], State]
    end: float
    longest: float
    title: str
    step: float
    field: str = "eta"

    def error(self, n: int) -> tuple[float, Panel]:
        """The error at the end on n cells, in the norm of energy, and the map."""
        model = self.model(n)
        final = run_until(model, RK4, self.exact(model, 0.0), self.end, self.longest / n)
        panel = map_in_km(self.title, model.grid.x_centres, model.grid.y_centres, final[self.field])
        return energy_norm(model, final, self.exact(model, self.end)), panel

    def twin(self) -> Twin:
        """The small form, on 8 cells."""
        model = self.model(8)
        return Twin(model, self.exact(model, 0.0), RK4(self.step))


def of_functions(fields: Callable[[np.ndarray, np.ndarray, float], Sequence]) -> Callable[[ShallowWater, float], State]:
    """The argument `exact` of a Flow from `fields(x, y, t) -> (u, v, eta)`."""
    return lambda model, t: on_points(model, lambda x, y: fields(x, y, t))


def convergence(name: str, resolutions: tuple, one: Callable[[int], tuple[float, Panel]]) -> Outcome:
    """The error at each resolution and the order of convergence: the marks `{name}_l2` and `{name}_order`.

    Args:
        name: of the case.
        resolutions: numbers of cells.
        one: the function from a number of cells to (error, the Panel that shows the solution).
    """
    errors, panel = [], None
    for n in resolutions:
        error, panel = one(n)
        errors.append(error)
    found = {f"{name}_l2": errors[-1], f"{name}_order": order(resolutions, errors)}
    return Outcome(found, [*([panel] if panel else []), errors_panel(resolutions, errors)])


def errors_panel(resolutions: tuple, errors: Sequence[float], label: str = "cells along a side") -> Panel:
    """The errors over the number of cells, and a line of order 2."""
    slope = [errors[0] * (resolutions[0] / n) ** 2 for n in resolutions]
    values = {"error": (resolutions, errors), "order 2": (resolutions, slope)}
    return Panel("relative error", "errors", values, labels=(label, ""))


@functools.partial(jit, static_argnums=5)
def _products(dynamics, stepper, state, change, cotangent, steps):
    """<J x, y> and <x, J^T y> for the map from a state to the state `steps` steps later."""

    def advanced(state):
        return integrate(dynamics, stepper, state, steps)[0]

    _, forward = jax.jvp(advanced, (state,), (change,))
    _, pull = jax.vjp(advanced, state)
    (backward,) = pull(cotangent)
    dot = lambda a, b: sum(jnp.vdot(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b)))  # noqa: E731
    return dot(forward, cotangent), dot(change, backward)


def adjoint_mismatch(twin: Twin, seed: int = 0) -> float:
    """|<J x, y> - <x, J^T y>| over their size, for random x and y; J is the derivative of `twin.steps` steps.

    Each field of x and y has the size of that field in the state (1 where that is 0), so that all of them count.
    """
    random = np.random.default_rng(seed)

    def noise(scale_of):
        def one(leaf):
            size = float(jnp.abs(leaf).max()) or 1.0
            return jnp.asarray(random.standard_normal(leaf.shape) * scale_of(size), leaf.dtype)

        return jax.tree.map(one, twin.state)

    dynamics = twin.model.dynamics(twin.stepper, steps=twin.steps)
    change, cotangent = noise(lambda size: size), noise(lambda size: 1.0 / size)
    forward, backward = _products(dynamics, twin.stepper, twin.state, change, cotangent, twin.steps)
    return float(abs(forward - backward) / max(abs(forward), abs(backward)))


def draw(panels: Sequence[Panel]) -> Any:
    """A matplotlib Figure with the panels side by side.

    Raises:
        ConfigError: without matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError(
            "the figures of --html need matplotlib; install it by pip install 'swmodel[plots]'."
        ) from error
    figure = Figure(figsize=(5.0 * len(panels), 4.0), layout="constrained")
    for axes, panel in zip(np.ravel(figure.subplots(1, len(panels))), panels):
        DRAWN[panel.kind](figure, axes, panel)
        axes.set_title(panel.title, fontsize=10)
        axes.set_xlabel(panel.labels[0])
        axes.set_ylabel(panel.labels[1])
    return figure


def _map(figure, axes, panel):
    """Draw a map; its colours are symmetric about zero if the values have both signs."""
    values = np.asarray(panel.values)
    low, high = float(values.min()), float(values.max())
    both = low < 0 < high and min(-low, high) > 0.05 * max(-low, high)
    limits = {"vmin": -max(-low, high), "vmax": max(-low, high)} if both else {}
    drawn = axes.pcolormesh(panel.x, panel.y, values, cmap="RdBu_r" if both else "viridis", shading="nearest", **limits)
    figure.colorbar(drawn, ax=axes, label=panel.unit, shrink=0.9)


def _lines(figure, axes, panel):
    for number, (label, (x, y)) in enumerate(panel.values.items()):
        axes.plot(x, y, "-" if number == 0 else "--", label=label)
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)


def _errors(figure, axes, panel):
    for label, (x, y) in panel.values.items():
        axes.loglog(x, y, "k:" if label.startswith("order") else "o-", label=label)
    cells = sorted({float(n) for x, _ in panel.values.values() for n in x})
    axes.set_xticks(cells, [f"{n:g}" for n in cells])
    axes.minorticks_off()
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)


DRAWN = {"map": _map, "lines": _lines, "errors": _errors}
