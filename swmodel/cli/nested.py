"""Lines of text about nests, their files and the fingerprint of all grids, for the commands."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..config.build.nests import folder_of_nest, mistakes_of_nest, share_of_cost
from ..errors import ConfigError
from ..models.shallow_water import ShallowWater
from ..output.fingerprint import fingerprint
from ..simulation.progress import duration
from . import facts
from .starting import add_outputs, files_of_run

if TYPE_CHECKING:
    from ..adjoint import Problem
    from ..config.build.experiment import Assembly
    from ..nests.family import Family
    from ..simulation.nested import NestedSimulation


def merged(files: Iterable[dict[str, list[Path]]]) -> dict[str, list[Path]]:
    """{kind: paths} of the files of several grids."""
    every: dict[str, list[Path]] = {}
    for one in files:
        for kind, paths in one.items():
            every.setdefault(kind, []).extend(paths)
    return every


def files_of_nests(made: Assembly, folder: Path) -> dict[str, dict[str, list[Path]]]:
    """{nest: {key of [output]: paths}} of the files of nests, where those of the run are in `folder`."""
    return {one.name: files_of_run(one.made.experiment().output, folder_of_nest(one, folder)) for one in made.nests}


def add_outputs_of_nests(made: Assembly, driver: NestedSimulation, files: dict[str, dict[str, list[Path]]]) -> None:
    """Add the files of nests, as `files_of_nests` returns them, to their simulations; collective.

    Raises:
        ConfigError: with every mistake of a nest, at the key of its output.
    """
    for k, one in enumerate(made.nests):
        try:
            add_outputs(one.made, driver[one.name], files[one.name])
        except ConfigError:
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
        own |= dataclasses.asdict(model.places[name])
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
    lines, shares = [], share_of_cost(family)
    for one in made.nests:
        nest, name, place = one.nest, one.name, one.place
        outer, model = family.models[nest.inside or ""], family.models[name]
        grid: Any = model.grid
        text = [facts.grid_line(grid), f"{place.ratio} x {place.ratio} of them in a cell of {_around(nest)}"]
        box = place.box(outer.grid)
        sides = ", ".join(
            f"{axis} {low:g} to {high:g}{_moved((low, high), given)}"
            for axis, (low, high), given in zip("xy", box, (nest.x, nest.y), strict=True)
        )
        text.append(f"box {sides}, and a frame of {place.frame} outer cells around it")
        total = family.total_steps(name)
        start = f"; starts after {duration(nest.start)}" if nest.start else ""
        way = "" if nest.two_way else ", which it does not change"
        text.append(
            f"{family.steps[name]} step{'s' * (family.steps[name] > 1)} of {dt / total:.4g} s in one of "
            f"{_around(nest)}{way}{start}; {100 * shares[name]:.0f} % of the cost"
        )
        text.append(facts.sea_line(model.sea_floor, int(np.prod(model.grid.shape))))
        text += [_depths(nest, family.differences[name])] if name in family.differences else []
        if one.gauges:
            which = "is" if len(one.gauges) == 1 else "are"
            text.append(f"{', '.join(one.gauges)} of [output.gauges] {which} read here, on the finest grid")
        lines.append((f"nest {name}", "\n".join(text)))
    return [("outermost grid", f"{100 * shares['']:.0f} % of the cost"), *lines] if lines else []


def boxes_attribute(made: Assembly, problem: Problem) -> dict[str, str]:
    """The attribute of a study's file from which figures draw the boxes of nests; {} without nests."""
    return {"nest_boxes": json.dumps(problem.stepped.boxes_in(""))} if made.nests else {}


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
    """(label, text) lines of the files of each nest."""
    lines = []
    for one in made.nests:
        model, experiment = family.models[one.name], one.made.experiment()
        cells, step = int(np.prod(model.grid.shape)), dt / family.total_steps(one.name)
        folder = folder_of_nest(one, Path("."))
        text = [f"{folder}/{line}" for line in facts.output_lines(experiment, model, cells, step)]
        lines.append((f"output of {one.name}", "\n".join(text) or "none"))
    return lines
