"""The start of commands that compute: processes, devices, logs and the objects that the experiment file describes.

Of an experiment with nests: lines of text about them, their files, and the fingerprint of all grids.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import postprocess
from ..config import Draft, Experiment
from ..config.assembly import Assembly, assemble, driver_of, model_of, time_step
from ..config.reading import leaves
from ..errors import ConfigError
from ..grids.grid import turned_together
from ..models.shallow_water import ShallowWater
from ..output.fingerprint import fingerprint
from ..runtime import launch, memory
from ..runtime.devices import hosts_of
from ..runtime.launch import Process
from ..runtime.paths import expanded, make_folder
from ..stepping.stability import limits
from ..units import duration
from . import facts, files, logs
from .options import Computing

if TYPE_CHECKING:
    from ..adjoint.problem import Problem
    from ..config.adjoint import Adjoint
    from ..config.inversion import Inversion
    from ..nests.family import Family
    from ..simulation.nested import NestedSimulation
    from ..simulation.simulation import Simulation

RECORD = "# experiment file: "  # first line of the text that output files keep; paths in it are relative to its folder


class StartedCommand(NamedTuple):
    """The launched process of a command, the Assembly and Experiment of its file, and its output folder."""

    process: Process
    made: Assembly
    experiment: Experiment
    folder: Path

    @property
    def where(self) -> tuple[Any, ...]:
        """The communicator, the layout and the engine of the run, for `model_and_state`."""
        run = self.experiment.run
        return self.process.communicator, run.layout, run.engine


def refuse_nests(draft: Draft) -> None:
    """Raise ConfigError for an experiment with nests, in a command that has none."""
    if draft.sections.get("nest"):
        raise ConfigError(
            f"{draft.file}: `swmodel check`, `run`, `resume`, `adjoint`, `invert` and `green` alone take nests; "
            "add --set nest=[] to leave [[nest]] out here."
        )


def start_command(draft: Draft, options: Computing, nested: bool = False) -> StartedCommand:
    """Start processes, devices and logs, as the Draft and the options of a command require.

    Args:
        draft: a Draft; sections with mistakes may be missing.
        options: the options of the command.
        nested: whether the command has nests.

    Raises:
        ConfigError: with every mistake of the file, and for nests where the command has none.
    """
    if not nested:
        refuse_nests(draft)
    run, model = draft.sections.get("run"), draft.sections.get("model")
    kind, devices = ("auto", None) if run is None else (run.communicator, run.devices)
    hosts = hosts_of(*options.hosts) if kind == "sharded" or options.hosts != (None,) * 3 else None
    process = launch.configure_process("float32" if model is None else model.precision, kind, devices, hosts)
    launched = process.launcher
    rank = hosts.process if hosts else launched.rank if process.communicator == "mpi" and launched else 0
    logs.start(rank == 0, options.quiet)
    if options.plot:
        files.require()
    made = assembled(draft, process.tiles)
    experiment = made.experiment()
    folder = expanded(options.output if options.output is not None else experiment.output.folder)
    if options.debug:
        logs.keep_in(folder, rank)
    return StartedCommand(process, made, experiment, folder)


def assembled(draft: Draft, *arguments: Any, **options: Any) -> Assembly:
    """`assemble` of a Draft, and of its nests if it has some."""
    if not draft.sections.get("nest"):
        return assemble(draft, *arguments, **options)
    from ..config.families import assemble_family

    return assemble_family(draft, *arguments, **options)


def model_and_state(made: Assembly, experiment: Experiment, *where: Any) -> tuple[Any, Any]:
    """(the model or Ensemble of an Assembly, its State); raises ConfigError with every mistake. Collective."""
    if experiment.ensemble is not None:
        from ..config.families import ensemble_of

        ensemble = made.require(("ensemble",), ensemble_of, made, *where)
        made.require(("forcing",), ensemble.check_files, experiment.run.until)
        return ensemble, ensemble.initial
    model = made.require((), model_of, made, *where)
    state = made.attempt(("initial",), experiment.initial.state, model)
    made.attempt(("forcing",), model.check_files, experiment.run.until)
    made.experiment()  # a rank that failed alone must not continue to the collective operations below
    return model, state


def model_state_and_step(made: Assembly, experiment: Experiment, *where: Any) -> tuple[Any, Any, float]:
    """(the model or Ensemble, its State, the time step [s]) of an Assembly. Collective.

    Arguments are those of `model_and_state`. Of nested grids the results are the Family, {name: State} and the time
    step of the outermost grid.
    """
    if made.nests:
        from ..config.families import family_of

        return family_of(made, *where)
    model, state = model_and_state(made, experiment, *where)
    found = made.require(("stepper",), limits, model, experiment.stepper.stepper(), state)
    return model, state, made.require(("stepper", "dt"), time_step, experiment, found)


def assemble_alone(draft: Draft, ranks: int = 1, here: bool = False, nested: bool = False) -> Assembly:
    """The Assembly of a draft for `ranks` ranks, in this process alone; `here` if its memory must hold the model.

    Raises:
        ConfigError: if processes or devices do not suit, and for nests unless `nested`, where the command has them.
            Mistakes of the file are those of the Assembly.
    """
    if not nested:
        refuse_nests(draft)
    model = draft.sections.get("model")
    logs.start(root=True)
    launch.configure_process("float32" if model is None else model.precision, "serial")
    return assembled(draft, ranks, records=1, here=here)


def simulation_of(made: Assembly, model: Any, state: Any, dt: float, **options: Any) -> Any:
    """The Simulation, or the NestedSimulation, of an Assembly; what it refuses are mistakes of the file.

    Args:
        made: the Assembly.
        model, state: its model and State, or the Family and {name: State} of its nests.
        dt: the time step [s].
        options: further arguments of the Simulation.
    """
    experiment, where = made.experiment(), ("nest",) if made.nests else ("stepper", "dt")
    options = {"start": experiment.run.start, **options}
    return made.require(where, lambda: driver_of(model, state, experiment.stepper.stepper(dt), **options))


def inputs_of(draft: Draft) -> list[tuple[str, Path]]:
    """[(key, path)] of the experiment file and of all files and folders in its sections."""
    found = leaves(draft.sections)
    paths = [(".".join(map(str, path)), value) for path, value in found if isinstance(value, Path)]
    return [("the experiment", draft.file), *paths]


def files_of_grids(made: Assembly, folder: Path) -> dict[str, dict[str, list[Path]]]:
    """{nest, "" for the outermost grid: {key of [output]: paths}} of the files that a run writes into `folder`."""
    nests = {one.name: _files_of(one.made.section("output"), one.folder_in(folder)) for one in made.nests}
    return {"": _files_of(made.section("output"), folder)} | nests


def _files_of(output, folder):
    files: dict[str, list[Path]] = {kind: [] for kind, _ in output if kind != "folder"}
    for (_, kind, *_), section in output.files():
        files[str(kind)].append(folder / section.file)
    return files


def add_outputs(
    made: Assembly, simulation: Simulation, folder: Path, kinds: Collection[str | int] | None = None
) -> None:
    """Add the files of an experiment to a Simulation; collective.

    Args:
        made: the Assembly.
        simulation: the Simulation.
        folder: where the files are written.
        kinds: the keys of [output] whose files are added; all unless given.

    Raises:
        ConfigError: with every mistake, at the key of its output.
    """
    for path, section in made.experiment().output.files():
        if kinds is None or path[1] in kinds:
            made.attempt(path, _add, simulation, path[1], section, folder / section.file)
    made.experiment()


def _add(simulation, kind, section, path):
    if hasattr(section, "part"):
        return simulation.product(path, section.build())
    others = ("file", "observations", "positions", "window")
    rules = {name: value for name, value in section if name not in others}
    if kind == "gauges":
        rules |= {"points": section.positions, "windows": section.windows}
    return (simulation.write if kind == "fields" else getattr(simulation, kind))(path, **rules)


def named_files(files: dict[str, list[Path]]) -> list[tuple[str, Path]]:
    """[(key of the experiment, path)] of {key of [output]: paths}."""
    return [(f"output.{kind}", path) for kind, paths in files.items() for path in paths]


def files_of_studies(adjoint: Adjoint | None, inversion: Inversion | None, folder: Path) -> list[tuple[str, Path]]:
    """[(key of the experiment, path)] of the files that the studies write; None for a section that is missing."""
    found = [] if adjoint is None else [("adjoint.file", folder / adjoint.file)]
    if inversion is not None:
        found += [("inversion.file", folder / inversion.file), ("inversion.restart", folder / inversion.restart)]
    return found


def prepare_paths(paths: Iterable[Path], overwrite: bool) -> None:
    """Make the folders of `paths`; refuse to replace files unless `overwrite`."""
    there = [str(path) for path in paths if os.path.exists(os.path.realpath(path))]  # as new/../there
    if there and not overwrite:
        raise ConfigError(
            f"{', '.join(there)} {'exists' if len(there) == 1 else 'exist'} already; add --overwrite, "
            "or choose another folder with --output DIR."
        )
    for path in paths:
        make_folder(path.parent)


def tiles_line(model: ShallowWater) -> tuple[str, str]:
    """(a label, "ranks" or "devices"; the tiles, the communicator and the precision of a model)."""
    what = "devices" if model.communicator.name == "sharded" else "ranks"
    return what, f"{facts.ranks_line(model.decomposition)}, {model.communicator.name}, {model.dtype}"


def merged(files: Iterable[dict[str, list[Path]]]) -> dict[str, list[Path]]:
    """{kind: paths} of the files of several grids."""
    every: dict[str, list[Path]] = {}
    for one in files:
        for kind, paths in one.items():
            every.setdefault(kind, []).extend(paths)
    return every


def add_outputs_of_nests(made: Assembly, driver: NestedSimulation, folder: Path) -> None:
    """Add the files of nests to their simulations, where those of the run are in `folder`; collective.

    Raises:
        ConfigError: with every mistake of a nest, at the key of its output.
    """
    for k, one in enumerate(made.nests):
        try:
            add_outputs(one.made, driver[one.name], one.folder_in(folder))
        except ConfigError:
            from ..config.families import mistakes_of_nest

            made.mistakes += mistakes_of_nest(made, k)
            made.experiment()
            raise


def fingerprint_of_grids(model: ShallowWater | Family, first: int, dt: float, steps: int) -> dict[str, Any]:
    """{entry: value} of all on which a run depends: the grids, their models, and what each nest is; collective.

    Args:
        model: the ShallowWater, or a Family, whose nests have entries nest.NAME.ENTRY.
        first, dt, steps: the first step of the outermost grid, its length [s] and the number of steps.
    """
    if isinstance(model, ShallowWater):
        limits = {f"grid.{key}": value for key, value in vars(model.grid).items()}
        return fingerprint(model, first, dt, steps=steps) | limits
    found = fingerprint_of_grids(model.outer, first, dt, steps)
    for name, nest in model.nests.items():
        n = model.total_steps(name)
        own = fingerprint_of_grids(model.models[name], first * n, dt / n, steps * n)
        own |= {key: x for key, x in dataclasses.asdict(model.places[name]).items() if key != "turn"}
        own |= {"steps": n, "two_way": nest.two_way, "blend": nest.blend, "inside": nest.inside or ""}
        found |= {f"nest.{name}.{key}": value for key, value in own.items()}
    return found


def nest_lines(made: Assembly, family: Family, dt: float) -> list[tuple[str, str]]:
    """(label, text) lines of each nest: where it lies, its steps, share of the cost, depths and gauges.

    Args:
        made: the Assembly.
        family: its Family.
        dt: the outermost grid's time step [s].
    """
    from ..config.families import share_of_cost

    lines, shares = [], share_of_cost(family, dt, made.experiment().run.until)
    for one in made.nests:
        nest, name, place = one.nest, one.name, one.place
        outer, model = family.models[nest.inside or ""], family.models[name]
        grid: Any = model.grid
        text = [facts.grid_line(grid), f"{place.ratio} x {place.ratio} of them in a cell of {_around(nest)}"]
        box, x = place.box(outer.grid), nest.x
        if outer.grid.spherical:
            x = tuple(turned_together(np.array(x), *box[0]))
        sides = ", ".join(
            f"{axis} {low:g} to {high:g}{_moved((low, high), given)}"
            for axis, (low, high), given in zip("xy", box, (x, nest.y), strict=True)
        )
        text.append(f"box {sides}, and a frame of {place.frame} outer cell{'s' * (place.frame > 1)} around it")
        total = family.total_steps(name)
        first = family.first_step(name, dt)
        start = f"; starts after {duration(first * dt)}" if first else ""
        way = "" if nest.two_way else ", which it does not change"
        text.append(
            f"{family.steps[name]} step{'s' * (family.steps[name] > 1)} of {dt / total:.4g} s in one of "
            f"{_around(nest)}{way}{start}; {100 * shares[name]:.0f} % of the cost"
        )
        text.append(facts.sea_line(model.sea_floor, int(np.prod(model.grid.shape))))
        text += filter(None, [facts.damping_of(model)])
        text += [_depths(nest, family.differences[name])] if name in family.differences else []
        if one.gauges:
            which = "is" if len(one.gauges) == 1 else "are"
            text.append(f"{', '.join(one.gauges)} of [output.gauges] {which} read here, on the finest grid")
        lines.append((f"nest {name}", "\n".join(text)))
    return [("outermost grid", f"{100 * shares['']:.0f} % of the cost"), *lines] if lines else []


def attributes_of(made: Assembly, problem: Problem | None = None) -> dict[str, str]:
    """The title and the experiment, as attributes of files; with the boxes of nests in the file of a study."""
    draft, boxes = made.draft, {}
    if problem is not None and made.nests:
        boxes["nest_boxes"] = json.dumps(problem.stepped.boxes_in(""))
    config = f"{RECORD}{draft.file.resolve()}\n{draft.effective_text}"
    return {"title": made.experiment().run.title or draft.file.stem, "config": config, **boxes}


def study_lines(made: Assembly, problem: Problem) -> list[tuple[str, str]]:
    """(label, text) lines of the grids, the length and the tiles of a study."""
    from ..config.studies import length_line

    lines = [("grid", facts.grid_line(made.grid)), ("run", length_line(problem.steps, problem.dt))]
    lines += nest_lines(made, problem.stepped, problem.dt) if made.nests else []
    return [*lines, tiles_line(problem.model)]


def show_file(path: Path, is_drawn: bool) -> None:
    """Print the path of a study's file; draw its figure if `is_drawn`, or suggest it."""
    logs.LOGGER.info("file:\n  %s  (%s)", path, memory.size(path.stat().st_size))
    if is_drawn:
        logs.LOGGER.info("figure: %s", *postprocess.plot([path]))
    else:
        logs.LOGGER.info("next:\n  swmodel plot %s", path)


def _around(nest):
    return "the outermost grid" if nest.inside is None else f"the nest {nest.inside}"


def _moved(chosen, given):
    """The limits that were given, where the box has moved to faces of the grid around it."""
    if np.allclose(chosen, given, rtol=0, atol=1e-6 * (given[1] - given[0])):
        return ""
    return f" (the nearest faces to {given[0]:g} and {given[1]:g})"


def _depths(nest, difference):
    where = f"along the border its depth differs from the outer one by up to {100 * difference:.0f} %"
    if not difference or not nest.blend:
        return where
    return f"{where}, and passes to it over {nest.blend} outer cells"


def nest_output_lines(made: Assembly, family: Family, dt: float) -> list[tuple[str, str]]:
    """(label, text) lines of the files of each nest that starts during the run."""
    lines = []
    for one in made.nests:
        model, experiment = family.models[one.name], one.made.experiment()
        step, first = dt / family.total_steps(one.name), dt * family.first_step(one.name, dt)
        if first >= experiment.run.until:
            continue
        folder = one.folder_in(Path("."))
        text = [f"{folder}/{line}" for line in facts.output_lines(experiment, model, step, first)]
        lines.append((f"output of {one.name}", "\n".join(text) or "none"))
    return lines
