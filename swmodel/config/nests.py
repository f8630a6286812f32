"""[[nest]] sections: finer grids in boxes of another one, with what differs there.

[[nest]]
name = "harbour"
x = [140.8, 141.2]                                # longitude on the sphere
y = [38.0, 38.4]
ratio = 5
start = "25 min"

[nest.bathymetry]
type = "file"
file = "harbour.nc"

[nest.output.maxima]
threshold = "1 cm"
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from ..nests import nest
from .mistakes import Mistake, nearest
from .parts import PartSection, arguments_of, section_for
from .physics import Bathymetry, Dissipation, Flow
from .scenario import Initial, Output
from .sections import different_names


class _Nest(PartSection):
    left_out = ("depth", "options")

    inside: str | None = None  # name of the nest that contains it; the outermost grid unless given
    bathymetry: Bathymetry | None = None  # of the nest; [bathymetry] on the nest's cells unless given
    model: Flow | None = None  # keys of [model] that differ in the nest
    dissipation: tuple[Dissipation, ...] = ()  # in place of [[dissipation]]
    initial: Initial | None = None  # in place of [initial]
    output: Output | None = None  # files of the nest, in a folder with its name in that of the run

    def check(self) -> None:
        self.part(**arguments_of(self))


Nest = section_for(nest.Nest, None, _Nest)
Nests = Annotated[tuple[Nest, ...], different_names("nests have the name")]  # pyright: ignore[reportInvalidTypeForm]

SAME_EVERYWHERE = ("rest", "formula", "gaussian", "level")  # initial states that each grid evaluates alike


def nest_mistakes(sections: Mapping[str, Any]) -> Iterator[Mistake]:
    """Mistakes of nests, and of sections that do not fit them."""
    nests, run, model, stepper = (sections.get(name) for name in ("nest", "run", "model", "stepper"))
    if not nests:
        return
    if getattr(sections.get("ensemble"), "perturbation", None) is not None:
        text = "the noise is of one grid alone, and nests would have another one; let values of [initial] differ"
        yield Mistake(("ensemble", "perturbation"), text)
    before: list[str] = []
    for k, each in enumerate(nests):
        if each.inside is not None and each.inside not in before:
            known = nearest(each.inside, before) if before else "it is the first; leave `inside` out"
            yield Mistake(("nest", k, "inside"), f"no nest before this one is called {each.inside!r}; {known}")
        before.append(each.name)
        if run is not None and each.start >= run.until:
            text = f"{each.start:g} s is not before the end of the run at {run.until:g} s; start earlier"
            yield Mistake(("nest", k, "start"), text)
        for study in ("adjoint", "inversion", "green"):
            if sections.get(study) is not None and each.start > 0:
                whole = "responses" if study == "green" else "derivatives"
                text = f"{whole} are those of all grids from the beginning; leave `start` or [{study}] out"
                yield Mistake(("nest", k, "start"), text)
        initial = sections.get("initial")
        if each.initial is None and initial is not None and initial.type not in SAME_EVERYWHERE:
            text = f"{initial.type!r} in [initial] is of one grid alone; give the nest {each.name!r} a [nest.initial]"
            yield Mistake(("nest", k), text)
        yield from _restart_mistakes(k, each, sections.get("output"))
    if (inversion := sections.get("inversion")) is not None:
        yield from _inversion_mistakes(inversion)
    yield from _shores_of_linear(sections)
    if model is not None and model.core != "finite_differences":
        text = f"{model.core!r} has no nests; use 'finite_differences', or leave [[nest]] out"
        yield Mistake(("model", "core"), text)
    if stepper is not None and (stepper.part.is_implicit or stepper.part.has_solver):
        text = f"{stepper.type!r} solves an equation of a whole grid, and cannot step nests; use an explicit scheme"
        yield Mistake(("stepper", "type"), text)
    if run is not None and run.communicator == "sharded":
        text = "nests run serially or under MPI, and not on several devices of one process; use 'auto'"
        yield Mistake(("run", "communicator"), text)
    if run is not None and run.stages_per_exchange != 1:
        text = "nests exchange halos at every stage; leave it out"
        yield Mistake(("run", "stages_per_exchange"), text)


def _inversion_mistakes(section):
    """Observations of an [inversion] that have no nests."""
    for k, table in enumerate(section.observations):
        if table.type == "tracks":
            text = "tracks cross several grids, and a point is read on one; give gauges, harmonics or velocities"
            yield Mistake(("inversion", "observations", k), text)


def remedy_of_linear(sections: Mapping[str, Any]) -> str | None:
    """What avoids the linear steps of nested grids, which [green] and some methods of [inversion] take; else None."""
    inversion = sections.get("inversion")
    if inversion is not None and inversion.chosen in ("green", "linear"):
        return "leave it out, or use the method 'incremental'"
    return None if sections.get("green") is None else "leave it, or [green], out"


def _shores_of_linear(sections):
    """Moving shores, which linear steps of nested grids do not have."""
    remedy = remedy_of_linear(sections)
    models = {("model",): sections.get("model")}
    models |= {("nest", k, "model"): each.model for k, each in enumerate(sections["nest"])}
    for path, one in models.items():
        if remedy and one is not None and one.wetting is not None:
            yield Mistake((*path, "wetting"), f"linear responses of nested grids have no moving shores; {remedy}")


def _restart_mistakes(k, nest, output):
    """A restart of a nest that is not of the times of that of the outermost grid, without which it is of no use."""
    own = None if nest.output is None else nest.output.restart
    whole = None if output is None else output.restart
    if own is None or (whole is not None and whole.every == own.every):
        return
    path, text = ("nest", k, "output", "restart"), "a run continues from restarts of all grids at one time; "
    if whole is None:
        yield Mistake(path, f"{text}give [output.restart], too, or leave this out")
    else:
        yield Mistake((*path, "every"), f"{text}give {whole.every:g} s, as in [output.restart]")
