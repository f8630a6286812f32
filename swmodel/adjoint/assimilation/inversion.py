"""`Inversion`: the controls with which a run comes closest to observations, and their remaining error.

    first_guess      the run with the controls at their background, and J compared with its expectation
    minimise         the parameters p of the lowest J (assimilation.py, minimise.py), and eigenpairs of its Hessian
    spread           the error that is to be expected of each gauge (posterior.py)
    leave_one_out    each gauge from the inversion of all others
    result           controls with their standard deviations (posterior.py), scores, a file (result.py)

`run` does all of these. Everything here is collective.
"""

import dataclasses
import logging
import math
import time as clock
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from ...errors import BlowUp, ConfigError
from ...output.studies import Estimate
from ...runtime.compilation import jit
from ..controls.controls import ControlDict
from ..costs.harmonics import HarmonicConstants
from ..costs.records import Record
from ..problem import Problem
from .assimilation import FourDVar, Rules, Tangent, incremental, resumed
from .departures import Departures, Green, departures_of, tangent_columns
from .minimise import Iteration, Minimum, Stop, minimise
from .observations import Observations, Truth
from .posterior import Consistency, Posterior, eigenpairs, entered, members, spread
from .restarts import Identity, read_inversion_restart, write_inversion_restart
from .result import Result

METHODS = "incremental", "green", "linear", "descent"
FREE_MEMBERS = 200  # of an ensemble whose members are sums of Green's functions
ROLES = {"background": "first guess", "analysis": "analysis", "withheld": "withheld gauge"}
LOGGER = logging.getLogger("swmodel")
NO_PAIRS = (), ()


@dataclasses.dataclass(frozen=True)
class Restart:
    """The file from which an inversion continues.

    Attributes:
        path: of the file, which every loop replaces.
        identity: an Identity; an inversion continues only from a file of the same.
        resume: whether to continue from the file that is there.
        force: names of what may differ (restarts.py).
    """

    path: str | Path
    identity: Identity
    resume: bool = False
    force: tuple[str, ...] = ()


class Inversion:
    """The inversion of observations. Progress is logged by the logger "swmodel", at level INFO.

    Args:
        problem: a Problem whose cost is a misfit to the observations, and whose controls are one Transformed
            (`controls.transforms.joined`) with parameters whose errors have a standard deviation of 1.
        observations: Observations, or their records, {name: Record or HarmonicConstants}.
        method: "incremental" (outer loops with exact tangents and adjoints), "green" or "linear" (with Green's
            functions or columns of the tangent, for few parameters), or "descent" (L-BFGS).
        rules: Rules; loops are the iterations of "descent".
        members: of the ensembles for the spread of gauges; 0 computes none.
        uncertainty: products for the eigenpairs of the exact Hessian; those of the inner loops unless given.
        truth: the Truth of a twin experiment, with which the result is compared.
        restart: a Restart.

    Raises:
        ConfigError: for another method, or other controls.
    """

    def __init__(
        self,
        problem: Problem,
        observations: Observations | Mapping[str, Record | HarmonicConstants],
        method: str = "incremental",
        rules: Rules | None = None,
        *,
        members: int = 0,
        uncertainty: int | None = None,
        truth: Truth | None = None,
        restart: Restart | None = None,
    ):
        if method not in METHODS:
            raise ConfigError(f"Inversion: method = {method!r} is unknown; give one of {', '.join(METHODS)}.")
        functions = [transform.function for transform in problem.transforms]
        if len(functions) != 1 or problem.own_controls or not callable(getattr(functions[0], "variance", None)):
            raise ConfigError(
                "Inversion: the controls of the problem must be one Transformed, whose parameters have errors of 1; "
                "make it with swmodel.adjoint.controls.transforms.joined."
            )
        self.problem, self.method, self.rules = problem, method, rules or Rules()
        self.observations = observations if isinstance(observations, Observations) else Observations(observations)
        self.members, self.uncertainty, self.truth, self.restart = members, uncertainty, truth, restart
        self.variational = FourDVar(problem)
        self.departures = departures_of(problem.cost, problem.communicator)
        self.say = LOGGER.info if problem.communicator.is_root else (lambda *_: None)
        self.green, self.stored = None, ({}, {})
        self.has_stored = restart is not None and restart.resume  # whether the restart has a result
        self.spread = {}

    def run(self, leave_one_out: bool = False) -> Result:
        """The Result; with `leave_one_out` each gauge is also predicted from all others.

        Raises:
            BlowUp: if the run of the first guess does not stay finite.
            DataError: if the restart is of another inversion.
        """
        if self.restart is not None and self.restart.resume:
            self.stored = self._read(self.restart)
        first, consistency = self.first_guess()
        parameters, history, reason, readings, pairs = self.minimise()
        compared = {"background": self.departures.compared(first), "analysis": self.departures.compared(readings)}
        self.add_spread("analysis", parameters, pairs)
        consistency = dataclasses.replace(consistency, last=float(history[-1, 1]))
        if leave_one_out:
            compared["withheld"] = self.leave_one_out()
        posterior = Posterior(*pairs)
        controls, initial = self.estimates(parameters, posterior)
        of = self.problem, self.observations, self.method
        return Result(
            *of, parameters, posterior, history, reason, compared, self.spread, consistency, controls, initial
        )

    # -- the first guess ----------------------------------------------------------------------------------------------

    def first_guess(self) -> tuple[np.ndarray, Consistency]:
        """(readings (steps, gauges) of the run at the background, its Consistency); adds the spread there."""
        readings = np.asarray(self.problem.observed(self.variational.background), float)
        self._check_finite(readings)
        self._linearised()  # Green's functions come first: they give the spread without runs
        self.add_spread("background", self.variational.background)
        J = 0.5 * float(np.sum(self.departures.of(readings) ** 2))
        data = sum(record.independent for record in self.observations.used.values())
        away, by = self.spread.get("background"), self.departures.per_deviation
        variance = np.nan if away is None else np.sum(self.departures.scaled(away) ** 2)
        found = Consistency(int(np.count_nonzero(by)), data, J, np.nan, 0.5 * (data + float(variance)))
        self.say("%s", found.line_before())
        if self.problem.communicator.is_root and (warning := found.warning_before()):
            LOGGER.warning("%s", warning)
        return readings, found

    def _check_finite(self, readings):
        """Raise BlowUp if the misfit of the first guess is not finite, since no method could then lower it."""
        with np.errstate(over="ignore", invalid="ignore"):
            misfit = float(np.sum(self.departures.of(readings) ** 2))
        if not math.isfinite(self.problem.communicator.host_broadcast(misfit)):
            raise BlowUp(
                "the run of the first guess does not stay finite, so that it cannot be compared with observations; "
                "find out where it blows up with `swmodel run`, and use a shorter time step or a background that stays "
                "finite."
            )

    def add_spread(
        self, role: str, parameters: ControlDict, pairs: Any = NO_PAIRS, gauge: slice | np.ndarray = slice(None)
    ) -> None:
        """Set `spread[role]` (steps, gauges): the error to expect of gauges about their readings at `parameters`.

        Args:
            role: "background", "analysis" or "withheld".
            parameters: p. pairs: (eigenvalues, eigenvectors) of the Hessian; none of them at the background.
            gauge: the columns that are set.
        """
        count, space, problem = self.members, self.variational.space, self.problem
        if count == 0:
            return
        if self.green is not None:
            green = self.green.readings(problem.communicator)
            readings: Any = lambda parameters: self.departures.compared(green(parameters))  # noqa: E731
            count = max(count, FREE_MEMBERS)
        else:
            progress, done = self._counted(f"spread of the {ROLES[role]}, members"), iter(range(count + 1))

            def run_member(parameters):
                progress(next(done), count)
                return self.departures.compared(problem.observed(parameters))

            readings = run_member
        drawn = members(count, self.variational.background, problem.model, space, pairs)
        away = spread(readings, parameters, drawn, space)
        known = self.spread.setdefault(role, np.full(away.shape, np.nan))
        known[:, gauge] = away[:, gauge]

    # -- minimisation -------------------------------------------------------------------------------------------------

    def minimise(self) -> tuple[ControlDict, np.ndarray, str | None, np.ndarray, Any]:
        """(parameters, history, why it ended, readings (steps, gauges), (eigenvalues, eigenvectors)) at the minimum.

        Rows of the history are (number, J, misfit, background, products).
        """
        parameters, history, why, readings, pairs = (
            self._descent() if self.method == "descent" else self._loops(self.departures, self._store_loop)
        )
        if self.uncertainty is not None and self.method in ("incremental", "descent"):
            pairs = self._eigenpairs(parameters, readings, self.uncertainty)
        return parameters, history, why, readings, pairs

    def _linearised(self):
        """The argument `linearised` of `incremental`; None stands for the exact tangent."""
        if self.method == "green":
            if self.green is None:
                columns = self.stored[1].get("green")
                make = self._counted("Green's functions")
                self.green = Green.of(self.problem, make) if columns is None else Green.made(self.problem, columns)
            return self.green.linearised(self.problem)
        return tangent_columns(self.problem) if self.method == "linear" else None

    def _loops(self, departures: Departures, progress: Callable[[object], None] | None = None):
        """The result of `minimise` by outer and inner loops."""
        start, (vectors, arrays) = None, self.stored
        if progress is not None and "parameters" in vectors:
            start = resumed(self.variational, departures, vectors["parameters"], arrays["history"])
            self.say("resumed after %d outer loops", start.history[-1].number)
        elif progress is not None:
            start = vectors.get("start")
        linearised, inner = self._linearised(), None
        if self.method == "incremental":
            count = self._counted("inner loop, products")
            inner = lambda products, residual: count(products, self.rules.products)  # noqa: E731
        found = incremental(self.variational, departures, self.rules, start, linearised, progress, inner)
        basis: Any = found.basis
        if basis is not None:
            pairs = basis.eigenpairs()
        elif linearised is None:  # no outer loop was needed
            pairs = self._eigenpairs(found.parameters, found.readings, self.rules.products)
        else:
            matrix: Any = linearised(found.parameters, departures.about(found.readings))
            pairs = matrix.solve(found.parameters).eigenpairs()
        return found.parameters, _rows(found.history), found.reason, found.readings, pairs

    def _store_loop(self, now):
        last = now.history[-1]
        parts = last.number, last.value, last.misfit, last.background
        self.say("outer loop %d: J = %.6g, misfit %.6g, background %.6g", *parts)
        arrays = {"history": _rows(now.history)}
        if self.green is not None:
            arrays["green"] = self.green.columns
        self._store({"parameters": now.parameters}, arrays)

    def _descent(self):
        """The result of `minimise` by L-BFGS with the adjoint's gradient."""
        variational, (vectors, arrays) = self.variational, self.stored
        start = vectors.get("start", variational.background)
        if "values" in vectors:
            pairs = tuple((vectors[f"s{k}"], vectors[f"y{k}"]) for k in range(sum(name[0] == "s" for name in vectors)))
            history = tuple(Iteration(int(n), J, g, int(e), s) for n, J, g, e, s in arrays["iterations"])
            start = Minimum(vectors["values"], history[-1].value, vectors["gradient"], pairs, history)
            self.say("resumed after %d iterations", history[-1].number)
        stop = Stop(iterations=self.rules.loops, decrease=self.rules.decrease)
        found = minimise(variational.value_and_gradient, start, variational.space, stop, progress=self._store_iteration)
        readings = np.asarray(self.problem.observed(found.values), float)
        rows = np.array([[i.number, i.value, np.nan, np.nan, i.evaluations] for i in found.history])
        known = None if self.uncertainty is not None else self._eigenpairs(found.values, readings, self.rules.products)
        return found.values, rows, found.reason, readings, known

    def _store_iteration(self, now):
        last = now.history[-1]
        parts = last.number, last.value, last.gradient, last.evaluations
        self.say("iteration %d: J = %.6g, |gradient| %.3g, %d evaluations", *parts)
        vectors = {"values": now.values, "gradient": now.gradient}
        vectors |= {f"{letter}{k}": part for k, pair in enumerate(now.pairs) for letter, part in zip("sy", pair)}
        self._store(vectors, {"iterations": _rows(now.history)})

    def _eigenpairs(self, parameters, readings, products):
        """(eigenvalues, eigenvectors) of the exact Gauss-Newton Hessian."""
        about, progress = self.departures.about(readings), self._counted("uncertainty, products")
        tangent = Tangent(self.problem, about, parameters)
        report = lambda done, residual: progress(done, products)  # noqa: E731
        space, model = self.variational.space, self.problem.model
        known = eigenpairs(tangent.product, parameters, model, space, products, progress=report)
        return known.values, known.vectors

    def leave_one_out(self) -> np.ndarray:
        """(steps, gauges): the readings of each gauge in the inversion of all others; adds their spread."""
        names = np.array([self.observations.name(label) for label in self.observations.records])
        columns: dict[int, np.ndarray] = {}
        for name in dict.fromkeys(names):
            self.say("without %s", name)
            mine = np.flatnonzero(names == name)  # both components of a velocity
            departures = departures_of(self.problem.cost, self.problem.communicator, names != name)
            parameters, _, _, readings, pairs = self._loops(departures)
            self.add_spread("withheld", parameters, pairs, mine)
            compared = self.departures.compared(readings)
            columns |= {int(k): compared[:, k] for k in mine}
        return np.stack([columns[k] for k in range(names.size)], axis=1)

    # -- the restart --------------------------------------------------------------------------------------------------

    def _read(self, restart):
        """(vectors, arrays) of the restart; only parameters if it is of another inversion, which `force` allows."""
        like = self.problem.model, self.variational.background
        vectors, arrays, differences = read_inversion_restart(restart.path, *like, restart.identity, restart.force)
        if not differences:
            return vectors, arrays
        what = "; ".join(difference.text for difference in differences)
        self.say(
            "As requested, the inversion starts from the parameters in %s, and J anew, although %s.", restart.path, what
        )
        return {"start": next(vectors[name] for name in ("parameters", "values", "start") if name in vectors)}, {}

    def _store(self, vectors, arrays):
        if self.restart is not None:
            write_inversion_restart(self.restart.path, self.problem.model, vectors, arrays, self.restart.identity)
            self.has_stored = True

    def _counted(self, what):
        """A progress function that logs the progress of `what` every 10 s."""
        last = [clock.perf_counter()]

        def progress(done, every):
            if done == every or clock.perf_counter() - last[0] > 10.0:
                last[0] = clock.perf_counter()
                self.say("%s: %d of %d", what, done, every)

        return progress

    # -- estimates ----------------------------------------------------------------------------------------------------

    def estimates(self, parameters: ControlDict, posterior: Posterior) -> tuple[dict[str, Estimate], dict]:
        """({control: Estimate}, {Variable: the first state of the analysis}); arrays of the whole grid on the root."""
        problem, transform = self.problem, self.problem.transforms[0]
        communicator = problem.communicator
        expand = jit(communicator.spmd(lambda function, p: function(p)))
        analysis, first = (
            expand(transform.function, entered(p, communicator)) for p in (parameters, self.variational.background)
        )
        prior = Posterior.prior(transform, parameters, communicator)
        less = posterior.reduction(transform, parameters, communicator)
        found = {}
        for control in problem.controls:
            roles = {"background": first[control.name], "analysis": analysis[control.name]}
            if control.name in prior:
                left = _first(prior[control.name]) - _first(less[control.name])
                roles["background_deviation"] = _first(prior[control.name]) ** 0.5
                roles["analysis_deviation"] = jnp.maximum(left, 0.0) ** 0.5
            if self.truth is not None and (truth := self.truth.of(control, problem.dt)) is not None:
                roles["truth"] = truth
            whole = {role: self._whole(_first(value)) for role, value in roles.items()}
            found[control.name] = Estimate(control.position, control.units, whole, control.times)
        shown = problem.shown[0] if isinstance(problem.shown, tuple) else problem.shown  # of the outermost grid
        rows = problem.model.system.variables
        state = {row: analysis.get(f"initial.{row.name}", shown[row.name]) for row in rows}
        return found, {row: self._whole(value) for row, value in state.items()}

    def _whole(self, value):
        if np.ndim(value) >= 2:
            return self.problem.model.gather(value)
        return np.asarray(self.problem.communicator.one_tile(value), float)


def _first(value):
    """The first record of a series {record: value}; other values are returned as they are."""
    return next(iter(value.values())) if isinstance(value, dict) else value


def _rows(history):
    """A row for each Loop, of its first five numbers, or for each Iteration."""
    return np.array([dataclasses.astuple(one)[:5] for one in history], float)
