"""`swmodel invert`: the controls with which the model comes closest to observations, and how sure they are."""

import dataclasses
import sys
import time as clock
from pathlib import Path

import numpy as np

from ..build import stepper_of
from ..build_adjoint import length_line
from ..build_inversion import background_of, check_withheld, observed, section_of, steps_of, transformed_of
from ..config import read
from ..config.dump import dump
from ..errors import ConfigError
from . import facts, logs
from .inverted import conclude
from .starting import begin, make_room, started_with_step, tiles_line

__all__ = ["Options", "invert_experiment"]

FREE = {  # keys that may change between an inversion and its going on
    "run": ("title", "communicator", "layout", "devices", "engine", "stages_per_exchange"),
    "inversion": ("loops", "products", "residual", "decrease", "uncertainty", "withhold", "memory", "file", "restart"),
}


@dataclasses.dataclass(frozen=True)
class Options:
    """What the command line asks for beside the experiment."""

    folder: str | None = None
    overwrite: bool = False
    resume: bool = False
    withhold: bool | None = None
    plot: bool = False
    debug: bool = False
    quiet: bool = False
    hosts: tuple = (None, None, None)


@dataclasses.dataclass
class Study:
    """What a command works on."""

    made: object
    section: object
    observed: object
    problem: object
    transformed: object
    folder: Path

    @property
    def communicator(self):
        return self.problem.communicator

    @property
    def about(self):
        """What must be the same for a restart to be this inversion's: not how long it goes on, or where."""
        raw = {name: section for name, section in self.made.draft.raw.items() if name != "output"}
        for name, keys in FREE.items():
            raw[name] = {key: value for key, value in raw[name].items() if key not in keys}
        return dump(raw)

    @property
    def targets(self):
        """Names of the controls that are looked for."""
        return [control.name for control in self.problem.controls]


def invert_experiment(file, overrides, options):
    """Invert the observations of an experiment file."""
    draft = read(file, overrides)
    draft.experiment()
    section = section_of(draft)
    if draft.sections.get("ensemble") is not None:
        raise ConfigError(f"{draft.file}: an [ensemble] cannot be inverted; take that section out.")
    if options.withhold is not None:
        section = section.model_copy(update={"withhold": options.withhold})
    begun = clock.perf_counter()
    study = _study(draft, section, options)
    path, restart = study.folder / section.file, study.folder / section.restart
    study.communicator.from_root(lambda: _make_room(path, restart, options))
    _announce(study)
    inversion = _Inversion(study, options)
    try:
        result = inversion.run()
    except KeyboardInterrupt:
        if inversion.has_kept and study.communicator.is_root:
            print(f"\n{restart} holds what was found; --resume goes on from there.", file=sys.stderr)
        raise
    if study.communicator.is_root:
        conclude(study, result, path, clock.perf_counter() - begun, options)


def _make_room(path, restart, options):
    if options.resume and not restart.exists():
        raise ConfigError(f"there is no {restart} from which to resume an inversion; start it without --resume.")
    if path.exists() and not (options.overwrite or options.resume):
        raise ConfigError(
            f"{path} exists already; add --overwrite or --resume, or choose another folder with --output DIR."
        )
    make_room([path], overwrite=True)


def _study(draft, section, options):
    """The problem of a draft, on this rank; collective."""
    from ..adjoint import Misfit, Nested, Problem

    begun = begin(draft, options)
    made, experiment = begun.made, begun.experiment
    model, state, dt = started_with_step(begun)
    stepper = stepper_of(experiment.stepper, dt)
    steps = steps_of(section, experiment.run, dt)
    given = section, made, begun.process, model, state, stepper, steps
    told = made.attempt(("inversion", "observations"), observed, *given)
    made.experiment()
    made.attempt(("inversion", "withhold"), check_withheld, section, told.records)
    transformed = transformed_of(section, made, model, told.state, dt)
    checkpoints = Nested(memory=section.memory)
    problem = made.attempt(
        ("inversion", "observations"), Problem, model, stepper, told.state, steps, Misfit(told.records), [transformed],
        0, checkpoints,
    )  # fmt: skip
    made.experiment()
    return Study(made, section, told, problem, transformed, begun.folder)


def _announce(study):
    problem, section = study.problem, study.section
    count = sum(record.counted()[0].size for record in study.observed.records.values())
    cells, parameters = int(np.prod(problem.model.grid.shape)), study.transformed.parameters.values()
    numbers = sum(np.size(value) if np.ndim(value) < 2 else cells for value in parameters)
    kind = {"gauges": "gauges", "tracks": "places"}[section.observations.type]
    lines = [
        ("looked for", f"{', '.join(study.targets)}: {numbers:,} unknowns"),
        ("observations", f"{count:,} at {len(study.observed.records):,} {kind}, of {study.observed.source}"),
        ("method", section.chosen),
        ("grid", facts.grid_line(study.made.grid)),
        ("run", length_line(problem.steps, problem.dt)),
        tiles_line(problem.model),
    ]
    logs.LOGGER.info("%s", facts.table(lines))


# -- the inversion -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Result:
    """What was found; arrays of the whole grid are on the root.

    Attributes:
        parameters: the control dict.
        history: rows (number, J, misfit, background, products).
        reason: why it ended.
        readings: {"background", "analysis", "withheld"}: (steps, gauges); "withheld": each gauge's from the others.
        controls: as output.inversion.write_inversion takes them.
        signal: degrees of freedom for signal.
    """

    parameters: dict
    history: np.ndarray
    reason: str
    readings: dict
    controls: dict
    signal: float


class _Inversion:
    """The steps of an inversion, all collective."""

    def __init__(self, study, options):
        from ..adjoint.assimilation import Departures, FourDVar

        self.study, self.options, self.section, self.problem = study, options, study.section, study.problem
        self.variational = FourDVar(self.problem)
        self.departures = Departures(self.problem.cost, self.problem.communicator)
        self.say = logs.LOGGER.info if self.problem.communicator.is_root else (lambda *_: None)
        self.restart = study.folder / study.section.restart
        self.green, self.kept, self.has_kept = None, ({}, {}), options.resume

    def run(self):
        from ..adjoint.restarts import kept

        if self.options.resume:
            self.kept = kept(self.restart, self.problem.model, self.variational.background, self.study.about)
        before = self._as_written()
        parameters, history, reason, readings, eigenpairs = (
            self._descent() if self.section.chosen == "descent" else self._loops(self.departures, self._keep)
        )
        if self.section.uncertainty is not None and self.section.chosen in ("incremental", "descent"):
            eigenpairs = self._eigenpairs(parameters, self.section.uncertainty)
        readings = {"background": before, "analysis": readings}
        if self.section.withhold:
            readings["withheld"] = self._withheld()
        controls, signal = self._fields(parameters, eigenpairs)
        return Result(parameters, history, reason, readings, controls, signal)

    def _as_written(self):
        """Readings of the run that the file describes, without anything looked for."""
        from ..adjoint import Misfit, Problem

        problem = self.problem
        plain = Problem(
            problem.model,
            self._stepper(),
            problem.state,
            problem.steps,
            Misfit(self.study.observed.records),
            ["initial.eta"],
        )
        return np.asarray(plain.observed(), float)

    def _stepper(self):
        return stepper_of(self.study.made.experiment().stepper, self.problem.dt)

    def _linearised(self, departures):
        """G for `incremental`: None is the exact tangent."""
        from ..adjoint.responses import Green, tangent_columns

        if self.section.chosen == "green":
            if self.green is None:
                self.green = self._known_green() or Green.of(self.problem, self._counted("Green's functions"))
            return self.green.linearised(self.problem, departures)
        return tangent_columns(self.problem, departures) if self.section.chosen == "linear" else None

    def _known_green(self):
        from ..adjoint.responses import Green

        columns = self.kept[1].get("green")
        return None if columns is None else Green.made(self.problem, columns)

    def _counted(self, what):
        """A progress function that says now and then how far `what` is."""
        told = [clock.perf_counter()]

        def progress(done, every):
            if done == every or clock.perf_counter() - told[0] > 10.0:
                told[0] = clock.perf_counter()
                self.say("%s: %d of %d", what, done, every)

        return progress

    def _loops(self, departures, progress=None):
        """(parameters, history, reason, readings, eigenpairs) of `incremental`."""
        from ..adjoint.assimilation import Rules, incremental, resumed

        section, start = self.section, None
        if progress is not None and "parameters" in self.kept[0]:
            start = resumed(self.variational, departures, self.kept[0]["parameters"], self.kept[1]["history"])
            self.say("resumed after %d outer loops", start.history[-1].number)
        linearised = self._linearised(departures)
        rules = Rules(section.loops, section.products, section.residual, section.decrease)
        inner = self._counted_products() if section.chosen == "incremental" else None
        found = incremental(self.variational, departures, rules, start, linearised, progress, inner)
        if found.basis is not None:
            eigenpairs = found.basis.eigenpairs()
        elif linearised is None:  # nothing was left to do
            eigenpairs = self._eigenpairs(found.parameters, section.products)
        else:
            eigenpairs = linearised(found.parameters).solve(found.parameters, None, 0, 0.0).eigenpairs()
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
        """The same by L-BFGS with the adjoint's gradient."""
        from ..adjoint.minimise import Iteration, Minimum, Stop, minimise

        variational, space = self.variational, self.variational.space
        start = variational.background
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
        from ..adjoint.assimilation import Tangent
        from ..adjoint.posterior import eigenpairs

        tangent, progress = Tangent(self.problem, self.departures, parameters), self._counted("uncertainty, products")
        told = lambda done, residual: progress(done, products)  # noqa: E731
        space, model = self.variational.space, self.problem.model
        known = eigenpairs(tangent.product, parameters, model, space, products, progress=told)
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
        from ..adjoint.restarts import keep

        keep(self.restart, self.problem.model, vectors, arrays, self.study.about)
        self.has_kept = True

    def _withheld(self):
        """(steps, gauges): what each gauge reads in the inversion of all others."""
        from ..adjoint.assimilation import Departures

        count, found = len(self.study.observed.records), []
        for k, name in enumerate(self.study.observed.records):
            self.say("without %s", name)
            departures = Departures(self.problem.cost, self.problem.communicator, np.arange(count) != k)
            found.append(self._loops(departures)[3][:, k])
        return np.stack(found, axis=1)

    # -- what is written -----------------------------------------------------------------------------------------------

    def _fields(self, parameters, eigenpairs):
        """({control: (position, units, {role: array})}, degrees of freedom for signal)."""
        import jax.numpy as jnp

        from ..adjoint.posterior import Posterior

        problem, communicator, transformed = self.problem, self.problem.communicator, self.study.transformed
        analysis = _expanded(transformed, parameters, communicator)
        posterior, found = Posterior(*eigenpairs), {}
        prior = Posterior.prior(transformed, parameters, communicator)
        less = posterior.reduction(transformed, parameters, communicator)
        for control in problem.controls:
            roles = {"background": self._value(control.name), "analysis": analysis[control.name]}
            if control.name in prior:
                left = _first(prior[control.name]) - _first(less[control.name])
                roles["background_deviation"] = _first(prior[control.name]) ** 0.5
                roles["analysis_deviation"] = jnp.maximum(left, 0.0) ** 0.5
            if self.study.observed.truth is not None:
                roles["truth"] = self.study.observed.truth.of(control.name, problem.dt)
            whole = {role: self._whole(_first(value)) for role, value in roles.items()}
            found[control.name] = control.position, control.units, whole
        return found, posterior.signal

    def _value(self, name):
        return background_of(self.problem.model, self.problem.state, name, self.problem.dt)

    def _whole(self, value):
        return self.problem.model.gather(value) if np.ndim(value) >= 2 else np.asarray(value, float)


def _first(value):
    """The first record of a series, or what is none."""
    return next(iter(value.values())) if isinstance(value, dict) else value


def _rows(history):
    return np.array([[loop.number, loop.value, loop.misfit, loop.background, loop.products] for loop in history], float)


def _expanded(transformed, parameters, communicator):
    """{control: value} of parameters."""
    from ..adjoint.posterior import _entered
    from ..compilation import jit

    program = jit(communicator.spmd(lambda function, p: function(p)))
    return program(transformed.function, _entered(parameters, communicator))
