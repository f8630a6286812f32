"""Tests of the derivatives of any Problem, in float64.

    dot product    M is the tangent-linear model from a control x to a Probe's readings of every state, M* its adjoint:
                       |<M x, y> - <x, M* y>| / (|M x| |y|)         rounding alone: DOT_PRODUCT at most
    first order    r(h) = |J(x + h d) - J(x) - h <g, d>|            falls with h^2 if the gradient g is right
    second order   s(h) = |J(x + h d) - J(x) - h <g, d> - h^2/2 <d, H d>|    with h^3 if the Hessian product is
    nonlinearity   |F(x + a d) - F(x) - a M d| / |a M d|, for the Probe's readings F: the error of the tangent-linear
                   model for perturbations of the amplitude a

Perturbed runs of a scheme with kinks take other branches, so that r(h) need not fall; then the dot product decides.
Even the programs of M and of M* may take different ones where two branches meet to rounding, such as in a flow with a
symmetry. From there on they are derivatives of two runs. So if the dot product over all readings is not that of
rounding, it is taken over half of the steps, a quarter, and so on.

Hessian products are tested where all parts of the model are twice differentiable. |u| u is not where u passes 0: r(h)
falls with h^2, and s(h) no faster.

A rate is log2 of r(h) / r(h/2). Of eight halvings, only those with the smallest residuals above rounding are used,
since for larger h the next order of r hides an error of this order. The best two consecutive rates count, since a
single rate may be good by chance, where two terms of r cancel.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from ..errors import ConfigError
from ..models.random_fields import SmoothNoise
from ..models.shallow_water import ShallowWater
from .controls.controls import ControlDict
from .examination import DOT_PRODUCT, DotProducts, Probe, longer_side, with_cost
from .problem import Problem, dot, largest

RATE, RATE_SECOND, NONLINEARITY = 1.95, 2.95, 0.3
HALVINGS = 8
VISIBLE = 2.0**16  # times rounding: where a Taylor test may begin, so that five halvings of third order stay above
SMALL = 1e-3  # largest last residual relative to the linear change, so that no larger error of a gradient is hidden
TAIL = 5  # number of residuals, the smallest above rounding, from which rates are taken
EPSILON = np.finfo(float).eps
OF_COSTS, OF_DERIVATIVES = 16 * EPSILON, 128 * EPSILON  # relative errors by rounding that a Taylor test allows for
INVISIBLE = 2.0**-20  # a step so small that changes of the cost are rounding errors
NOISE = 4.0  # factor by which rounding errors may be larger at other steps
STEEPER = 8.0  # factor by which a step of a Taylor test grows where rounding hides the residual
SMOOTH = 0.1  # of the domain's longer side: the radius of perturbations

Report = Callable[[str], Any]
"""Called with a few words before each run of the model."""


@dataclasses.dataclass(frozen=True)
class Taylor:
    """The results of a Taylor test, (9,) each.

    Attributes:
        steps: h, in units of the amplitude.
        first, second: residuals r(h) and s(h), in the cost's units; `second` is None without a Hessian product.
        rounding: bounds of rounding errors; smaller residuals are meaningless.
    """

    steps: tuple
    first: tuple
    second: tuple | None
    rounding: tuple

    @property
    def rate(self) -> float:
        """The rate of r(h); infinite if all residuals are rounding errors, as for a linear cost of a linear model."""
        return best_rate(self.first, self.rounding)

    @property
    def rate_second(self) -> float:
        return math.nan if self.second is None else best_rate(self.second, self.rounding)

    @property
    def converged(self) -> bool:
        """Whether the residuals fall at the expected orders."""
        return self.rate >= RATE and (self.second is None or self.rate_second >= RATE_SECOND)


def best_rate(residuals: Sequence[float], rounding: Sequence[float]) -> float:
    """The rate of a sequence of halvings, as the module describes it; infinite if no residual is above rounding."""
    if any(map(math.isnan, residuals)):
        return math.nan
    above = [r > floor for r, floor in zip(residuals, rounding)]
    if not any(above):
        return math.inf
    last = len(above) - above[::-1].index(True)
    known = residuals[max(last - TAIL, 0) : last]
    rates = [math.log2(a / b) if a > 0 else -math.inf for a, b in zip(known, known[1:])]
    return max([min(pair) for pair in zip(rates, rates[1:])] or rates or [0.0])


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The results for one control; `amplitude` is in its `units`, and `kinks` whether the model's scheme has any."""

    control: str
    units: str
    amplitude: float
    dot_product: float
    taylor: Taylor
    nonlinearity: float
    kinks: bool = False
    agreed: int | None = None  # the first steps over which the dot product is that of rounding; None for all of them

    @property
    def judged_by_rate(self) -> bool:
        """Whether the Taylor test converged, or had to."""
        return self.taylor.converged or not self.kinks

    @property
    def passed(self) -> bool:
        exact = self.dot_product <= DOT_PRODUCT or (self.kinks and bool(self.agreed))
        return exact and (self.kinks or self.taylor.converged)


class Directions:
    """Random directions of the controls of a problem, with `amplitudes` {name: a}; the same on any number of ranks."""

    def __init__(self, problem: Problem, amplitudes: dict[str, float], seed: int = 0):
        self.problem, self.model, self.amplitudes, self.seed = problem, problem.model, amplitudes, seed
        self.values = problem.values
        self.names = list(self.values)

    def along(self, name: str, smooth: bool) -> ControlDict:
        """{name: a random direction} of one control."""
        number = self.names.index(name)
        return {name: self._each(self.values[name], lambda x, k: self._random(x, (number, k), name, smooth))}

    @staticmethod
    def _each(value, make):
        """`make(x, k)` of a value, or of each of its time records."""
        if isinstance(value, dict):
            return {record: make(x, k) for k, (record, x) in enumerate(value.items())}
        return make(value, 0)

    def _random(self, x, where, name, smooth):
        amplitude = self.amplitudes[name]
        random = np.random.default_rng((self.seed, *where))
        if np.ndim(x) < 2:
            noise = random.standard_normal(np.shape(x)) if np.ndim(x) else random.choice([-1.0, 1.0])
            return amplitude * np.asarray(noise)
        grid = self.model.grid
        wet = self.model.sea_floor.wet
        if not smooth:
            return self.model.domain.noise(random, lambda x, wet: amplitude * x * wet, wet)
        noise = SmoothNoise(grid, SMOOTH * longer_side(grid), (self.seed, *where))
        return self.model.domain.cut(wet.map(lambda wet, noise: amplitude * noise * wet, noise))

    def moved(self, direction: ControlDict, step: float) -> ControlDict:
        """The values plus `step` times `direction`."""
        return self.values | jax.tree.map(lambda x, d: x + step * d, {k: self.values[k] for k in direction}, direction)


def check_precision(model: ShallowWater) -> None:
    """Raise ConfigError unless the model computes in float64."""
    if model.dtype != np.float64:
        raise ConfigError(
            f"verification needs float64, and the model computes in {model.dtype}; make it with dtype='float64' after "
            "jax.config.update('jax_enable_x64', True)."
        )


def taylor_test(
    problem: Problem,
    directions: Directions,
    name: str,
    base: tuple[float, ControlDict] | None = None,
    second: bool = True,
    report: Report = lambda what: None,
) -> Taylor:
    """The Taylor test of a problem's cost along a smooth random direction in one control.

    Args:
        base: (J, gradient) at the values, if they are known.
        second: whether to test the Hessian product too.

    Raises:
        ConfigError: if no step gives a finite cost.
    """
    direction = directions.along(name, smooth=True)
    J, gradient = problem.value_and_gradient(directions.values) if base is None else base
    slope, curvature = dot(direction, gradient, problem.communicator), 0.0
    if second:
        report(f"Hessian product of {name}")
        product = problem.hessian_product(directions.values, direction)
        curvature = dot(direction, product, problem.communicator)

    if not math.isfinite(slope + curvature):
        nothing = (math.nan,) * (HALVINGS + 1)
        return Taylor(nothing, nothing, nothing, nothing)

    def change(h):
        report(f"Taylor test of {name}")
        return problem.value(directions.moved(direction, h)) - J

    # Their second differences are free of errors of the slope, and almost free of errors of the curvature.
    unseen = [change(k * INVISIBLE) - 0.5 * (k * INVISIBLE) ** 2 * curvature for k in (1, 2, 3)]
    noise = NOISE * float(np.abs(np.diff([0.0, *unseen], 2)).max())

    @functools.cache
    def at(h):
        """(r, s, rounding) of the step h; infinite if the run does not stay finite."""
        linear, square, found = h * slope, 0.5 * h * h * curvature, change(h)
        if not math.isfinite(found):
            return (math.inf,) * 3
        rounding = OF_COSTS * (abs(found) + 2.0 * abs(J)) + OF_DERIVATIVES * (abs(linear) + abs(square))
        return abs(found - linear), abs(found - linear - square), max(rounding, noise)

    start = _start(at, slope, second)
    while True:
        steps = tuple(start / 2**k for k in range(HALVINGS + 1))
        first, again, rounding = (tuple(column) for column in zip(*map(at, steps)))
        found = Taylor(steps, first, again if second else None, rounding)
        small = first[-1] < SMALL * abs(steps[-1] * slope)
        if (found.converged and small) or (again[-1] if second else first[-1]) <= VISIBLE * rounding[-1]:
            return found
        start = steps[-1]  # residuals are still far above rounding: try smaller steps


def _start(at, slope, second):
    """The first step: the amplitude, or less if the run blows up, or more if rounding hides the residual."""
    h = 1.0
    while not math.isfinite(at(h)[0]):
        h /= STEEPER
        if h < 1e-9:
            raise ConfigError("verify: the run does not stay finite; use a shorter time step, or a smaller amplitude.")
    for _ in range(6):
        first, again, rounding = at(h)
        enough = (again if second else first) > VISIBLE * rounding
        if enough or first > NONLINEARITY * abs(h * slope) or not math.isfinite(at(STEEPER * h)[0]):
            break
        h *= STEEPER
    return h


def nonlinearities(probe: Problem, directions: Directions, report: Report = lambda what: None) -> dict[str, float]:
    """{control: |F(x + a d) - F(x) - a M d| / |a M d|} for a Probe's readings, with smooth random d.

    It is infinite if no reading changes, and NaN if the nonlinear model does not stay finite.
    """
    values, found = directions.values, {}
    for name in directions.names:
        report(f"tangent of {name}")
        direction = directions.along(name, smooth=True)
        before, tangent = probe.observed_tangent(values, direction)
        report(f"perturbed run of {name}")
        change = probe.observed(directions.moved(direction, 1.0)) - before
        size = np.linalg.norm(tangent)
        found[name] = float(np.linalg.norm(change - tangent) / size) if size > 0 else math.inf
    return found


def verify(
    problem: Problem,
    amplitudes: dict[str, float] | None = None,
    seed: int = 0,
    second: bool = True,
    report: Report = lambda what: None,
) -> list[Verdict]:
    """A Verdict for every control of a problem.

    Args:
        problem: a Problem in float64, whose first state is not at rest (examination.moving_state makes one).
        amplitudes: {control: size of its uncertainty}; one hundredth of its largest value unless given.
        seed: seed of the random directions.
        second: whether to test Hessian products too, if the model `has_second_rates`.
        report: called with a few words before each run of the model.

    Raises:
        ConfigError: if the model computes in float32, or does not stay finite.
    """
    check_precision(problem.model)
    kinks, amplitudes = any(map(has_kinks, problem.models)), default_amplitudes(problem) | (amplitudes or {})
    directions, second = Directions(problem, amplitudes, seed), second and all(map(has_second_rates, problem.models))
    probe = with_cost(problem, Probe.of(problem.stepped, seed))
    found = DotProducts(probe, directions, seed, report)
    agreed = found.agreed_steps(report) if kinks else {}
    departures = nonlinearities(probe, directions, report)
    report("gradient of the cost")
    base = problem.value_and_gradient(directions.values)
    units = units_of(problem)
    return [
        Verdict(
            name,
            units[name],
            amplitudes[name],
            found.errors[name],
            taylor_test(problem, directions, name, base, second, report),
            departures[name],
            kinks,
            agreed.get(name),
        )
        for name in directions.names
    ]


def has_kinks(model: ShallowWater) -> bool:
    """Whether a part of a model chooses among branches by the flow, so that perturbed runs may take others."""
    parts = model.momentum, *model.system.parts
    has_tracers = bool(model.system.contents)
    takes_upstream = has_tracers and bool(model.open_sides)  # where tracers have the concentration upstream
    return takes_upstream or any(part.has_kinks for part in parts)


def has_second_rates(model: ShallowWater) -> bool:
    """Whether rates judge Hessian products: no part has kinks, and all are twice differentiable."""
    return not has_kinks(model) and all(x.is_twice_differentiable for x in (*model.terms, *model.open_boundaries))


def runs_of(controls: int, second: bool = True) -> int:
    """The approximate number of runs of the model in `verify`: how often it calls `report`."""
    return 3 + controls * (second + HALVINGS + 8)


def units_of(problem: Problem) -> dict[str, str]:
    """{control: units}; for parameters of a Transformed, its `units`, or "1" unless given."""
    found = {control.name: control.units for control in problem.controls}
    return {name: found.get(name, problem.units.get(name, "1")) for name in problem.names}


def default_amplitudes(problem: Problem) -> dict[str, float]:
    """{control: a hundredth of its largest value}, or a typical scale if that is zero.

    For the depth it is at most a tenth of the smallest depth, since the depth must stay positive.
    """
    model, units, found = problem.model, units_of(problem), {}
    least, mean = model.sea_floor.depths[0], model.sea_floor.typical_depth
    scales = {"m": 1e-4 * mean, "m s-1": 1e-4 * math.sqrt(model.gravity * mean), "N m-2": 0.01}
    for name, value in problem.values.items():
        most = largest(value, problem.communicator)
        found[name] = 0.01 * most if most > 0 else scales.get(units[name], 0.01)
        if name == "depth" and least > 0:
            found[name] = min(found[name], 0.1 * least)
    return found
