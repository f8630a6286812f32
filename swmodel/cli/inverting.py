"""The steps of an inversion: first guess, minimisation, the spread of gauges, each gauge from the others."""

from __future__ import annotations

import dataclasses
import math
import time as clock
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import BlowUp
from ..runtime.signals import PROCESS
from . import logs
from .inverted import first_guess_line

if TYPE_CHECKING:
    from ..adjoint.assimilation.predictive import Consistency

__all__ = ["Inversion", "Result"]

FREE_MEMBERS = 200  # of an ensemble whose members are sums of Green's functions
ROLES = {"background": "first guess", "analysis": "analysis", "withheld": "withheld gauge"}


@dataclasses.dataclass
class Result:
    """The result of an inversion; arrays of the whole grid are on the root.

    Attributes:
        parameters: the control dict.
        history: rows (number, J, misfit, background, products).
        reason: why the inversion ended.
        readings: {"background", "analysis", "withheld": (steps, gauges)}. The first is the first guess, the run with
            the parameters at their background. The last holds each gauge in the inversion of the others.
        spread: {the same keys: (steps, gauges)}: the expected error of each [m]; {} if `members` is 0.
        consistency: a Consistency.
        initial: {Variable: array}: the first state of the analysis; tracers are concentrations.
        controls: the argument `controls` of output.inversion.write_inversion.
        signal: degrees of freedom for signal.
    """

    parameters: dict
    history: np.ndarray
    reason: str | None
    readings: dict
    spread: dict
    consistency: Consistency
    controls: dict
    initial: dict
    signal: float


class Inversion:
    """The steps of an inversion, all collective."""

    def __init__(self, study: Any, options: Any):
        from ..adjoint.assimilation.assimilation import FourDVar, departures_of

        self.study, self.options, self.section, self.problem = study, options, study.section, study.problem
        self.variational = FourDVar(self.problem)
        self.departures = departures_of(self.problem.cost, self.problem.communicator)
        self.say = logs.LOGGER.info if self.problem.communicator.is_root else (lambda *_: None)
        self.restart = study.folder / study.section.restart
        self.green, self.kept, self.has_kept = None, ({}, {}), options.resume
        self.spread = {}

    def after_signal(self, name: str) -> str:
        """The sentence that is printed when a signal ends the inversion."""
        if not self.has_kept:
            return f"{name} stopped the inversion before its first loop ended. Start again with: {PROCESS.command()}"
        command = PROCESS.command() + ("" if self.options.resume else " --resume")
        return f"{name} stopped the inversion. {self.restart} holds the result so far; continue with: {command}"

    def run(self) -> Result:
        if self.options.resume:
            self.kept = self._read()
        first = np.asarray(self.problem.observed(self.variational.background), float)
        self._check_finite(first)
        consistency = self._first_guess(first)
        parameters, history, reason, readings, eigenpairs = (
            self._descent() if self.section.chosen == "descent" else self._loops(self.departures, self._keep)
        )
        if self.section.uncertainty is not None and self.section.chosen in ("incremental", "descent"):
            eigenpairs = self._eigenpairs(parameters, self.section.uncertainty)
        readings = {"background": self.departures.compared(first), "analysis": self.departures.compared(readings)}
        self._add_spread("analysis", parameters, eigenpairs)
        consistency = dataclasses.replace(consistency, last=float(history[-1, 1]))
        if self.section.withhold is True:
            readings["withheld"] = self._withheld()
        controls, initial, signal = self._fields(parameters, eigenpairs)
        return Result(parameters, history, reason, readings, self.spread, consistency, controls, initial, signal)

    def _read(self):
        """(vectors, arrays) of the restart; only parameters if it is of another inversion (`--force`)."""
        from ..adjoint.assimilation.restarts import read_inversion_restart

        given = self.problem.model, self.variational.background, self.study.identity, self.study.force
        vectors, arrays, found = read_inversion_restart(self.restart, *given)
        if not found:
            return vectors, arrays
        what = "; ".join(difference.text for difference in found)
        self.say(
            "As requested, the inversion starts from the parameters in %s, and J anew, although %s.", self.restart, what
        )
        return {"start": next(vectors[name] for name in ("parameters", "values", "start") if name in vectors)}, {}

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

    def _first_guess(self, readings):
        """Print and return the Consistency of the first guess, and compute the spread of the gauges there."""
        from ..adjoint.assimilation.predictive import Consistency

        self._linearised(self.departures)  # Green's functions come first: they give the spread without runs
        self._add_spread("background", self.variational.background)
        used, J = self.study.observed.used, 0.5 * float(np.sum(self.departures.of(readings) ** 2))
        data = sum(record.independent for record in used.values())
        spread, by = self.spread.get("background"), self.departures.per_deviation
        variance = np.nan if spread is None else np.sum(self.departures.scaled(spread) ** 2)
        count = int(np.count_nonzero(by))
        found = Consistency(count, data, J, np.nan, 0.5 * (data + float(variance)))
        self.say("%s", first_guess_line(found))
        if self.problem.communicator.is_root and (warning := found.warning_before()):
            logs.LOGGER.warning("%s", warning)
        return found

    def _add_spread(
        self, role: str, parameters: Any, eigenpairs: Any = ((), ()), gauge: slice | np.ndarray = slice(None)
    ) -> None:
        """The spread (steps, gauges) of gauges about their readings at `parameters`."""
        from ..adjoint.assimilation.predictive import members, spread

        count, space, problem = self.section.members, self.variational.space, self.problem
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

        found = members(count, self.variational.background, problem.model, space, eigenpairs)
        away = spread(readings, parameters, found, space)
        known = self.spread.setdefault(role, np.full(away.shape, np.nan))
        known[:, gauge] = away[:, gauge]

    def _linearised(self, departures):
        """The argument `linearised` of `incremental`; None stands for the exact tangent."""
        from ..adjoint.assimilation.responses import Green, tangent_columns

        if self.section.chosen == "green":
            if self.green is None:
                self.green = self._known_green() or Green.of(self.problem, self._counted("Green's functions"))
            return self.green.linearised(self.problem, departures)
        return tangent_columns(self.problem, departures) if self.section.chosen == "linear" else None

    def _known_green(self):
        from ..adjoint.assimilation.responses import Green

        columns = self.kept[1].get("green")
        return None if columns is None else Green.made(self.problem, columns)

    def _counted(self, what):
        """A progress function that prints the progress of `what` every 10 s."""
        last = [clock.perf_counter()]

        def progress(done, every):
            if done == every or clock.perf_counter() - last[0] > 10.0:
                last[0] = clock.perf_counter()
                self.say("%s: %d of %d", what, done, every)

        return progress

    def _loops(self, departures, progress=None):
        """(parameters, history, reason, readings, eigenpairs) of `incremental`."""
        from ..adjoint.assimilation.assimilation import Rules, incremental, resumed

        section, start = self.section, None
        if progress is not None and "parameters" in self.kept[0]:
            start = resumed(self.variational, departures, self.kept[0]["parameters"], self.kept[1]["history"])
            self.say("resumed after %d outer loops", start.history[-1].number)
        elif progress is not None:
            start = self.kept[0].get("start")
        linearised = self._linearised(departures)
        rules = Rules(section.loops, section.products, section.residual, section.decrease)
        inner = self._counted_products() if section.chosen == "incremental" else None
        found = incremental(self.variational, departures, rules, start, linearised, progress, inner)
        basis: Any = found.basis
        if basis is not None:
            eigenpairs = basis.eigenpairs()
        elif linearised is None:  # no outer loop was needed
            eigenpairs = self._eigenpairs(found.parameters, section.products)
        else:
            inner: Any = linearised(found.parameters)
            eigenpairs = inner.solve(found.parameters, None, 0, 0.0).eigenpairs()
        return found.parameters, _rows(found.history), found.reason, found.readings, eigenpairs

    def _counted_products(self):
        progress = self._counted("inner loop, products")
        return lambda products, residual: progress(products, self.section.products)

    def _keep(self, now):
        last = now.history[-1]
        parts = last.number, last.value, last.misfit, last.background
        self.say("outer loop %d: J = %.6g, misfit %.6g, background %.6g", *parts)
        arrays = {"history": _rows(now.history)}
        if self.green is not None:
            arrays["green"] = self.green.columns
        self._save({"parameters": now.parameters}, arrays)

    def _descent(self):
        """The result of `_loops` by L-BFGS with the adjoint's gradient."""
        from ..adjoint.assimilation.minimise import Iteration, Minimum, Stop, minimise

        variational, space = self.variational, self.variational.space
        start = self.kept[0].get("start", variational.background)
        if "values" in self.kept[0]:
            vectors, arrays = self.kept
            pairs = tuple((vectors[f"s{k}"], vectors[f"y{k}"]) for k in range(sum(name[0] == "s" for name in vectors)))
            history = tuple(Iteration(int(n), J, g, int(e), s) for n, J, g, e, s in arrays["iterations"])
            start = Minimum(vectors["values"], history[-1].value, vectors["gradient"], pairs, history)
            self.say("resumed after %d iterations", history[-1].number)
        stop = Stop(iterations=self.section.loops, decrease=self.section.decrease)
        found = minimise(variational.value_and_gradient, start, space, stop, progress=self._keep_descent)
        readings = np.asarray(self.problem.observed(found.values), float)
        rows = np.array([[i.number, i.value, np.nan, np.nan, i.evaluations] for i in found.history])
        known = None if self.section.uncertainty is not None else self._eigenpairs(found.values, self.section.products)
        return found.values, rows, found.reason, readings, known

    def _eigenpairs(self, parameters, products):
        """(eigenvalues, eigenvectors) of the exact Gauss-Newton Hessian."""
        from ..adjoint.assimilation.assimilation import Tangent
        from ..adjoint.assimilation.posterior import eigenpairs

        tangent, progress = Tangent(self.problem, self.departures, parameters), self._counted("uncertainty, products")
        report = lambda done, residual: progress(done, products)  # noqa: E731
        space, model = self.variational.space, self.problem.model
        known = eigenpairs(tangent.product, parameters, model, space, products, progress=report)
        return known.values, known.vectors

    def _keep_descent(self, now):
        last = now.history[-1]
        parts = last.number, last.value, last.gradient, last.evaluations
        self.say("iteration %d: J = %.6g, |gradient| %.3g, %d evaluations", *parts)
        vectors = {"values": now.values, "gradient": now.gradient}
        vectors |= {f"{letter}{k}": part for k, pair in enumerate(now.pairs) for letter, part in zip("sy", pair)}
        rows = np.array([[i.number, i.value, i.gradient, i.evaluations, i.step] for i in now.history])
        self._save(vectors, {"iterations": rows})

    def _save(self, vectors, arrays):
        from ..adjoint.assimilation.restarts import write_inversion_restart

        write_inversion_restart(self.restart, self.problem.model, vectors, arrays, self.study.identity)
        self.has_kept = True

    def _withheld(self):
        """(steps, gauges): the readings of each gauge in the inversion of all others."""
        from ..adjoint.assimilation.assimilation import departures_of

        names, found = np.array(self.study.observed.names), {}
        for name in dict.fromkeys(names):
            self.say("without %s", name)
            mine = np.flatnonzero(names == name)  # both components of a velocity
            departures = departures_of(self.problem.cost, self.problem.communicator, names != name)
            parameters, _, _, readings, eigenpairs = self._loops(departures)
            self._add_spread("withheld", parameters, eigenpairs, mine)
            compared = self.departures.compared(readings)
            found |= {k: compared[:, k] for k in mine}
        return np.stack([found[k] for k in range(names.size)], axis=1)

    # -- results for the file ---------------------------------------------------------------------------------------

    def _fields(self, parameters, eigenpairs):
        """({control: Estimate}, the initial state, degrees of freedom for signal)."""
        import jax.numpy as jnp

        from ..adjoint.assimilation.posterior import Posterior
        from ..output.inversion import Estimate

        problem, communicator, transformed = self.problem, self.problem.communicator, self.study.transformed
        analysis = _expanded(transformed, parameters, communicator)
        first = _expanded(transformed, self.variational.background, communicator)
        posterior, found = Posterior(*eigenpairs), {}
        prior = Posterior.prior(transformed, parameters, communicator)
        less = posterior.reduction(transformed, parameters, communicator)
        for control in problem.controls:
            roles = {"background": first[control.name], "analysis": analysis[control.name]}
            if control.name in prior:
                left = _first(prior[control.name]) - _first(less[control.name])
                roles["background_deviation"] = _first(prior[control.name]) ** 0.5
                roles["analysis_deviation"] = jnp.maximum(left, 0.0) ** 0.5
            if self.study.observed.truth is not None:
                truth = self.study.observed.truth.of(control, problem.dt)
                roles |= {} if truth is None else {"truth": truth}
            whole = {role: self._whole(_first(value)) for role, value in roles.items()}
            found[control.name] = Estimate(control.position, control.units, whole, control.times)
        state = {row: analysis.get(f"initial.{row.name}", problem.shown[row.name]) for row in problem.model.variables}
        return found, {row: self._whole(value) for row, value in state.items()}, posterior.signal

    def _whole(self, value):
        if np.ndim(value) >= 2:
            return self.problem.model.gather(value)
        copies = {} if np.ndim(value) == 0 else self.problem.communicator.tiles(value)  # one for each tile
        return np.asarray(next(iter(copies.values()), value), float)


def _first(value):
    """The first record of a series {record: value}; other values are returned as they are."""
    return next(iter(value.values())) if isinstance(value, dict) else value


def _rows(history):
    return np.array([[loop.number, loop.value, loop.misfit, loop.background, loop.products] for loop in history], float)


def _expanded(transformed, parameters, communicator):
    """{control: value} of parameters."""
    from ..adjoint.assimilation.posterior import _entered
    from ..runtime.compilation import jit

    program = jit(communicator.spmd(lambda function, p: function(p)))
    return program(transformed.function, _entered(parameters, communicator))
