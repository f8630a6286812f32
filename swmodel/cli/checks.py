"""`swmodel check`: what a run would do, or every mistake at once."""

from collections.abc import Sequence

import numpy as np

from ..config import Override, read
from ..config.build.experiment import MOST_RECORDS, assemble, stepper_of, tiles, time_step, unstable
from ..config.build.studies import adjoint_line, inversion_line
from ..errors import ConfigError
from ..output.collisions import check_apart
from ..runtime import budget, launch
from ..runtime.paths import expanded
from . import facts, logs
from .speed import Speed, speed_line
from .starting import files_of_run, files_of_studies, inputs_of, named_files, started

__all__ = ["check_experiment"]


def check_experiment(file: str, overrides: Sequence[str | Override], ranks: int, speed: Speed | None = None) -> None:
    """Print what a run on `ranks` ranks would do, and how fast, if `speed` is a Speed.

    Raises:
        ConfigError: with every mistake.
    """
    draft = read(file, overrides)
    model_section = draft.sections.get("model")
    logs.start(root=True)
    launch.configure_process("float32" if model_section is None else model_section.precision, "serial")
    made = assemble(draft, ranks, records=1)
    if draft.mistakes or made.mistakes:
        made.mistakes += unstable(made)
        raise ConfigError(made.sentences())
    experiment = made.experiment()
    model, state = started(made, experiment, "serial", None, experiment.run.engine)
    lines, warnings = _plan(made, experiment, model, state, ranks, speed)
    print(facts.table(lines))
    for warning in warnings:
        print(f"warning: {warning}")
    print(f"{draft.file}: no mistakes found")


def _plan(made, experiment, model, state, ranks, speed):
    """((label, text) lines, warnings) of a run; raises ConfigError for what only the model tells."""
    from ..diagnostics.spectra import check_model
    from ..simulation.simulation import Simulation
    from ..stepping.stability import largest_time_step, limits

    stepper = stepper_of(experiment.stepper)
    halo, found = model.halo(stepper), limits(model, stepper, state)
    decomposition = made.attempt(("run", "layout"), tiles, model.grid, ranks, experiment.run.layout, halo)
    dt = made.attempt(("stepper", "dt"), time_step, experiment, found)
    if experiment.output.spectra is not None:
        made.attempt(("output", "spectra"), check_model, model)
    made.attempt((), _check_files, made, experiment)
    made.experiment()
    longest = largest_time_step(found) if found else np.inf
    whole, tile = np.prod(model.grid.shape), max(np.prod(decomposition.tile(rank).shape) for rank in range(ranks))
    moving = 0 if made.source is None else MOST_RECORDS
    members = model.members or 1
    need = budget.of_model(members * tile, whole, model.dtype.itemsize, _kept(stepper), moving)
    if experiment.output.gauges is not None:
        need += budget.of_gauges(len(experiment.output.gauges.positions), model.dtype.itemsize, members)
    lines = [
        ("experiment", experiment.run.title or made.draft.file.stem),
        ("grid", facts.grid_line(made.grid)),
        ("sea floor", facts.sea_line(made.bathymetry)),
        ("ranks", facts.ranks_line(decomposition, made.bathymetry.wet)),
        ("memory", f"about {facts.size(need)} per rank, in {model.dtype}"),
        ("core", model.core.describe()),
        ("stepper", f"{type(stepper).__name__}, a halo of {halo} cells"),
        ("engine", facts.engine_line(*Simulation(model, state, stepper_of(experiment.stepper, dt)).engine)),
        ("limits", "\n".join(map(str, found)) or "none"),
        ("time step", facts.step_line(dt, found, longest, experiment.run.until)),
    ]
    if speed is not None:
        whose = "speed" if model.members is None else "speed of one member"
        lines.append((whose, speed_line(speed, made, experiment, ranks, dt, decomposition)))
    if made.summary is not None:
        lines.append(("source", str(made.summary)))
    if model.members is not None:
        lines.append(("ensemble", facts.members_line(model)))
    lines += _studies(made, model, state, dt)
    outputs = facts.output_lines(experiment, whole, dt, members)
    lines.append(("output", "\n".join(outputs) or "none: the run would leave nothing behind"))
    return lines, _warnings(made, experiment, dt, longest, ranks)


def _check_files(made, experiment):
    """Refuse files of a run, of [adjoint] and of [inversion] that are inputs or one another, as each command would."""
    folder = expanded(experiment.output.folder)
    studies = files_of_studies(made.section("adjoint"), made.section("inversion"), folder)
    check_apart([*named_files(files_of_run(experiment.output, folder)), *studies], inputs_of(made.draft))


def _studies(made, model, state, dt):
    """(label, text) of [adjoint] and [inversion]; raises ConfigError with every mistake of them."""
    if model.members is not None:  # an ensemble has neither
        return []
    known = (("adjoint", adjoint_line), ("inversion", inversion_line))
    found = [(name, line(made, model, state, dt)) for name, line in known if made.section(name) is not None]
    made.experiment()
    return found


def _kept(stepper):
    return {"AB2": 1, "AB3": 2, "ForwardBackward": 3, "RK4": 2}.get(type(stepper).__name__, 1)


def _warnings(made, experiment, dt, longest, ranks):
    warnings = [*made.bathymetry.report, *facts.core_warnings(experiment)]
    warnings += facts.step_warnings(dt, longest)
    for index, fields in enumerate(experiment.output.fields):
        if abs(fields.every / dt - round(fields.every / dt)) > 1e-6 * fields.every / dt:
            warnings.append(
                f"output.fields[{index}].every = {fields.every:g} s is no multiple of dt = {dt:.6g} s: "
                "records fall on the nearest step."
            )
        if fields.every > experiment.run.until:
            warnings.append(f"output.fields[{index}].every is longer than the run.")
    cores = launch.threads_per_rank()
    if ranks > cores:
        warnings.append(f"{ranks} ranks would share the {cores} cores of this machine and wait for each other.")
    return warnings
