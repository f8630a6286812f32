"""`swmodel run` and `swmodel resume`: from a file to a Simulation, with the messages before, during and after it."""

import dataclasses
import os
import shlex
import time as clock
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .. import postprocess
from ..config import Override, read, read_text
from ..errors import ConfigError, DataError
from ..output import earlier, is_store
from ..output.resuming import opened
from ..output.zarr_store import ZarrStore
from ..runtime import launch, memory
from ..runtime.launchers import binding_warning
from ..runtime.packages import versions
from ..runtime.paths import bytes_in, check_apart, expanded, found, same_file
from ..runtime.signals import PROCESS
from ..simulation.progress import ProgressBar
from ..stepping.stability import largest_time_step, limits
from ..units import duration, rounded
from . import facts, logs, starting
from .logs import profiled
from .options import Resumed, Run
from .remarks import remarks, step_warnings

RESUMED = "the restart from which the run continues"


def run_experiment(file: str, overrides: Sequence[str | Override], options: Run) -> None:
    """Run an experiment file from its beginning."""
    draft = read(file, overrides)
    _run(draft, options, restart=None)


def resume_experiment(restart: str, overrides: Sequence[str | Override], options: Resumed) -> None:
    """Continue from a restart file, with the experiment in it or with `options.experiment`."""
    path = expanded(restart)
    if is_store(path):
        ZarrStore(path).recover()
    if not (found(path, "file") or found(path / "zarr.json", "file")):
        raise DataError(f"there is no restart file {path.resolve()}.")
    draft = _draft_of_restart(path, overrides, options)
    folder, output = options.output, draft.sections.get("output")
    changed = any(o.path in (("output",), ("output", "folder")) for o in draft.overrides)
    names_folder = (changed or options.experiment is not None) and output is not None and "folder" in output.written
    if folder is None and not names_folder:
        folder = str(path.parent)
    force = ",".join([options.force, *explained_by(draft.overrides)])
    _run(draft, dataclasses.replace(options, output=folder, force=force), restart=path)


def _draft_of_restart(path, overrides, options):
    """The Draft with which a restart continues. The time step is that of its run unless `--set` or a file gives one."""
    restart = opened(path, verify=False)  # the root compares it with its checksum later, before the run continues
    head, _, text = str(restart.attributes.get("config", "")).partition("\n")
    anywhere = [Override("any ranks", ("run", key), "auto") for key in ("communicator", "layout", "devices")]
    same_step = Override(f"the time step in {path}", ("stepper", "dt"), float(restart.scalars["dt"]))
    original = Path(head.removeprefix(starting.RECORD)) if head.startswith(starting.RECORD) else None
    if options.experiment is not None:
        draft = read(options.experiment, overrides)
        stepper = draft.sections.get("stepper")
        if stepper is not None and stepper.dt == "auto":
            draft = read(options.experiment, [same_step, *overrides])
        if original is not None:
            _check_start(path, read_text(text, original, original.parent, own_parts=False), draft, options)
        return draft
    if original is None:
        raise DataError(
            f"{path} does not hold its experiment, as files of `swmodel run` do; name the file with --experiment, or "
            "continue from it in Python: Simulation(...).resume(path)."
        )
    return read_text(text, original, original.parent, [same_step, *anywhere, *overrides], own_parts=False)


def _check_start(path, was, draft, options):
    """Raise if the run of the experiment file starts from another state than the run that wrote the restart."""
    if was.raw.get("initial") != draft.raw.get("initial") and not {"initial", "all"} & set(options.force.split(",")):
        raise ConfigError(
            f"{path} is of another run than {draft.file} describes: their [initial] sections differ. Start a new run, "
            "or add --force initial if the change is meant."
        )


def explained_by(overrides: Sequence[Override]) -> list[str]:
    """The entries, as names for `--force`, that may differ from a restart because `--set` changes them."""
    land = ("coast", "depth")
    sections = {"bathymetry": land, "ensemble": (*land, "physics")}
    sections |= {name: (name,) for name in ("coriolis", "nest", "source")}
    names = []
    for section, *rest in (o.path for o in overrides if o.option.startswith("--set ")):
        key = str(rest[0]) if rest else ""
        if section == "model":
            names.append({"spectral": "core"}.get(key, key) or "physics")
        elif section in ("forcing", "dissipation", "boundary"):
            names.append(f"{section}.{key}" if key.isdigit() else section)
        names += sections.get(str(section), ())
    return names


def _run(draft, options, restart):
    from ..simulation.program import compile_ahead

    begun = clock.perf_counter()
    process, made, experiment, folder = starting.start_command(draft, options, nested=True)
    if options.debug:
        logs.LOGGER.debug("%s; %s", process, ", ".join(f"{name} {version}" for name, version in versions().items()))
    driver = _simulation(made, experiment, process, options.overwrite)
    simulation = driver.outer if made.nests else driver
    inputs = starting.inputs_of(draft) + ([] if restart is None else [(RESUMED, restart)])
    files = _add_files(made, driver, folder, inputs, options.overwrite or restart is not None)
    message = "" if restart is None else _resume(driver, made, restart, folder, options.force)
    if restart is not None and not same_file(folder, restart.parent):
        message += f" Its output is in {folder}."
    if not made.nests:
        compile_ahead(simulation)
    _announce(made, experiment, simulation, process)
    if made.nests:
        logs.LOGGER.info("%s", facts.table(starting.nest_lines(made, driver.family, simulation.dt)))
    if message:
        logs.LOGGER.info("%s", message)
    model = simulation.model
    tiles = [model.decomposition.tile(rank) for rank in model.communicator.ranks]
    logs.LOGGER.debug("tiles %s, halo %d, set up in %.1f s", tiles, simulation.halo, clock.perf_counter() - begun)
    before = simulation.step
    if restart is None and simulation.communicator.is_root:
        logs.remove_entries(folder)
    with PROCESS.ending_with(lambda name: _after_signal(name, simulation.step > before)):
        took = _steps(driver, simulation, experiment, options)
        if simulation.communicator.is_root:
            every = starting.merged(files.values())
            if any(every.values()):
                logs.append_entry(folder, took | {"ranks": model.communicator.size, "from_step": before})
            for one in made.nests:
                _figures(files[one.name], one.made.experiment(), options.plot)
            _conclude(files[""], every, experiment, options.plot)


def _add_files(made, driver, folder, inputs, replaces):
    """Add the files of all grids to their simulations; returns those of `files_of_grids`; collective."""
    simulation, files = driver.outer if made.nests else driver, starting.files_of_grids(made, folder)
    every = starting.merged(files.values())
    simulation.communicator.from_root(lambda: _check_files(every, inputs))
    simulation.communicator.from_root(lambda: starting.prepare_paths(sum(every.values(), []), replaces))
    starting.add_outputs(made, simulation, folder)
    starting.add_outputs_of_nests(made, driver, folder)
    return files


def _after_signal(name, complete):
    """The sentence that is printed when a signal ends the command just before or after the run."""
    if complete:
        return f"{name} stopped the command when the run was complete: all its files are written."
    return f"{name} stopped the command before it had computed anything. Start again with: {PROCESS.command()}"


def _resume(driver, made, restart, folder, force):
    """Put the restart, and with nests those that belong to it, into the simulation; returns the sentences to print."""
    simulation, until = driver, made.experiment().run.until
    if made.nests:
        output, simulation, paths = made.experiment().output, driver.outer, {"": restart}
        if output.restart is None:
            raise ConfigError(f"{restart}: [output.restart] is missing, which names the restarts of nests; give it.")
        outer = folder / output.restart.file
        for one in made.nests:
            path = one.folder_in(folder) / one.made.experiment().output.restart.file
            paths[one.name] = restart.parent / os.path.relpath(path, outer.parent)
        there = {name: path for name, path in paths.items() if path.exists() or earlier(path).exists()}
        message = " ".join(driver.resume(there, force))
    else:
        message = simulation.resume(restart, force)
    if until < simulation.time + 0.5 * simulation.dt:
        raise ConfigError(
            f"{restart} is at {duration(simulation.time)} of model time, and the run ends at {duration(until)}; "
            "give a later end with --until."
        )
    return message


def _simulation(made, experiment, process, overwrite) -> Any:
    """The Simulation of an experiment, or its NestedSimulation."""
    where = process.communicator, experiment.run.layout, experiment.run.engine
    model, state, dt = starting.model_state_and_step(made, experiment, *where)
    options = {
        **starting.attributes_of(made),
        "overwrite": overwrite,
        "stages_per_exchange": experiment.run.stages_per_exchange,
    }
    return starting.simulation_of(made, model, state, dt, **options)


def _check_files(files, inputs):
    """Raise ConfigError if outputs are inputs or one another; the restart that is resumed may be overwritten."""
    named = starting.named_files(files)
    check_apart(named)
    for what, path in named:
        check_apart([(what, path)], [known for known in inputs if what != "output.restart" or known[0] != RESUMED])


def _announce(made, experiment, simulation, process):
    """Print the header of the run on the root, and warnings; collective."""
    model = simulation.model
    found = limits(model, simulation.scheme, simulation.state)
    longest = largest_time_step(found) if found else np.inf
    device = jax.local_devices()[0]
    what, whose = ("devices", "together") if model.communicator.name == "sharded" else ("ranks", "each")
    engine, why = simulation.engine
    threads = f"{process.threads} thread{'s' * (process.threads > 1)} {whose}"
    where = threads if device.platform == "cpu" else f"{device.device_kind} {process.gpu or ''}".strip()
    lines = [
        ("swmodel", f"{facts.version_text(simulation.communicator.is_root)}  {experiment.run.title}"),
        ("grid", facts.grid_line(made.grid)),
        ("sea floor", facts.sea_line(model.sea_floor, model.grid.nx * model.grid.ny)),
        *facts.layers_lines(model),
        (what, f"{facts.ranks_line(model.decomposition)}, {model.communicator.name}, {where}, {model.dtype}"),
        ("time step", facts.step_line(simulation.dt, found, longest, experiment.run.until)),
        ("stepper", f"{type(simulation.scheme).__name__}, strictest limit: {found[0] if found else 'none'}"),
        ("engine", facts.engine_line(engine, why, simulation.stages)),
    ]
    if made.summary is not None:
        lines.append(("source", str(made.summary)))
    if model.batch:
        lines.append(("ensemble", facts.members_line(model)))
    logs.LOGGER.info("%s", facts.table(lines))
    root, deepest = model.communicator.is_root, float(model.sea_floor.depths[1])
    for warning in [
        *model.sea_floor.report,
        *step_warnings(simulation.dt, longest),
        *(remarks(experiment, model.grid, simulation.dt, deepest) if root else ()),
        *(facts.model_remarks(experiment, model) if root else ()),
        *facts.wave_remarks(made, model, simulation.state),
        binding_warning(launch.load_mpi().COMM_WORLD) if simulation.communicator.name == "mpi" else None,
    ]:
        if warning:
            logs.LOGGER.warning("%s", warning)


IMPORTED = clock.monotonic()


def _process_age() -> float:
    """Seconds since this process was started; since the import of this module if the system has no record of it."""
    try:
        started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        return clock.clock_gettime(clock.CLOCK_BOOTTIME) - started
    except (OSError, ValueError, IndexError, AttributeError):
        return clock.monotonic() - IMPORTED


def _steps(driver, simulation, experiment, options):
    """Take the steps, print how long they took, and return an entry of timing.json."""
    bar = ProgressBar() if simulation.communicator.is_root and not options.quiet else None
    begun, first, before, reached = clock.perf_counter(), simulation.time, simulation.step, []

    def first_step(step, last, now, wall):
        if not reached and now > first:
            reached.append(_process_age())

    try:
        with profiled(options.profile, simulation.communicator.is_root) as profile:
            driver.run(until=experiment.run.until, progress=_all_of(first_step, bar, profile))
    finally:
        if bar is not None:
            bar.close()
    took = max(clock.perf_counter() - begun, 1e-9)
    logs.LOGGER.info(
        "done: %s of model time in %s, %s times as fast as real time%s",
        duration(simulation.time - first),
        duration(took),
        rounded((simulation.time - first) / took),
        f"; the first step was taken after {reached[0]:.1f} s" if reached else "",
    )
    return {
        "steps": simulation.step - before,
        "model_seconds": simulation.time - first,
        "wall_seconds": took,
        "first_step_after_seconds": reached[0] if reached else None,
    }


def _all_of(*listeners):
    """A progress function that calls all `listeners` that are not None; none of them reads the files."""
    listeners = [listener for listener in listeners if listener is not None]

    def progress(*news):
        for listener in listeners:
            listener(*news)

    progress.reads_files = False
    return progress if listeners else None


def _conclude(files, every, experiment, is_drawn):
    """Print the paths of `every` file, draw the figures of `--plot` of the outermost grid, and suggest commands."""
    say = logs.LOGGER.info
    written = [path for paths in every.values() for path in paths if path.exists()]
    if not written:
        say("nothing was written: the experiment has no [output].")
        return
    say("files:\n%s", "\n".join(f"  {path}  ({memory.size(bytes_in(path))})" for path in written))
    drawn = _drawn(files)
    _figures(files, experiment, is_drawn)
    say("next:\n%s", "\n".join(f"  {line}" for line in _suggestions(files, drawn, is_drawn)))


def _figures(files, experiment, is_drawn):
    """Draw the figures of a grid's files, or print the scores of its gauges."""
    drawn, gauges = _drawn(files), experiment.output.gauges
    observations = None if gauges is None else gauges.observations
    for figure in postprocess.plot(drawn, observations=observations) if is_drawn and drawn else []:
        logs.LOGGER.info("figure: %s", figure)
    if observations is not None and files["gauges"] and files["gauges"][0].exists() and not is_drawn:
        logs.LOGGER.info("scores:\n%s", postprocess.score_table(files["gauges"][0], observations))


def _drawn(files):
    """The files that figures show: the first one of each kind but restarts; fields first, which name the figure."""
    kinds = sorted(files, key=lambda kind: kind != "fields")
    return [path for kind in kinds if kind != "restart" for path in files[kind][:1] if path.exists()]


def _suggestions(files, drawn, has_figures):
    quote = shlex.quote
    if drawn and not has_figures:
        yield f"swmodel plot {' '.join(quote(str(path)) for path in drawn)}"
    if drawn:
        yield f"swmodel view {quote(str(drawn[0].parent))}"
    if files["fields"]:
        yield f"swmodel plot {quote(str(files['fields'][0]))} --kind animation"
        yield f"python -c 'import xarray; print(xarray.open_dataset(\"{files['fields'][0]}\"))'"
    for path in files["restart"][:1]:
        yield f"swmodel resume {quote(str(path))} --until ..."
