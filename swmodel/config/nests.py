"""[[nest]] and [ensemble].

[[nest]] sections are finer grids in boxes of another one, with what differs there.

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

[ensemble] has the experiment of each member: the same file with other values at some keys.
"""

import copy
import dataclasses
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

from ..errors import ConfigError, nearest
from ..fields.parts import name_of
from ..fields.state import State
from ..models.random_fields import SmoothNoise
from ..models.shallow_water import ShallowWater
from ..nests.nest import Nest as NestOfModel
from .expressions import Expression
from .initial import Initial
from .parts import PartSection, section_for
from .physics import Dissipation, Flow
from .scenario import Bathymetry, Output
from .sections import Count, PositiveMetres, Section, Seed, different_names
from .toml import Mistake, dotted, path_of


class _Nest(PartSection):
    left_out = ("depth", "options")

    inside: str | None = None  # name of the nest that contains it; the outermost grid unless given
    bathymetry: Bathymetry | None = None  # of the nest; [bathymetry] on the nest's cells unless given
    model: Flow | None = None  # keys of [model] that differ in the nest
    dissipation: tuple[Dissipation, ...] = ()  # in place of [[dissipation]]
    initial: Initial | None = None  # in place of [initial]
    output: Output | None = None  # files of the nest, in a folder with its name in that of the run

    def check(self) -> None:
        self.build()


Nest = section_for(NestOfModel, None, _Nest)
Nests = Annotated[tuple[Nest, ...], different_names("nests have the name")]  # pyright: ignore[reportInvalidTypeForm]


def nest_mistakes(nest: tuple, sections: Mapping[str, Any], initial: Any = None) -> Iterator[Mistake]:
    """Mistakes of nests."""
    before: list[str] = []
    for k, each in enumerate(nest):
        if each.inside is not None and each.inside not in before:
            known = nearest(each.inside, before) if before else "it is the first; leave `inside` out"
            yield Mistake(("nest", k, "inside"), f"no nest before this one is called {each.inside!r}; {known}")
        before.append(each.name)
        for study in ("adjoint", "inversion", "green"):
            if sections.get(study) is not None and each.start > 0:
                whole = "responses" if study == "green" else "derivatives"
                text = f"{whole} are those of all grids from the beginning; leave `start` or [{study}] out"
                yield Mistake(("nest", k, "start"), text)
        if each.initial is None and initial is not None and getattr(initial, "of_one_grid", False):
            text = f"{initial.type!r} in [initial] is of one grid alone; give the nest {each.name!r} a [nest.initial]"
            yield Mistake(("nest", k), text)
        yield from _restart_mistakes(k, each, sections.get("output"))
    yield from _folder_mistakes(nest)
    yield from _shores_of_linear(sections)


def mistakes_with_nests(
    nest: tuple,
    ensemble: Any = None,
    inversion: Any = None,
    model: Any = None,
    stepper: Any = None,
    run: Any = None,
    forcing: tuple = (),
) -> Iterator[Mistake]:
    """Mistakes of sections that do not fit nests."""
    if ensemble is not None and ensemble.perturbation is not None:
        text = (
            "the noise is drawn for the cells of one grid, and nests would start from another one; give [initial] a "
            'value for each member, as "initial.amplitude" = [0.5, 1.0], or leave [[nest]] out'
        )
        yield Mistake(("ensemble", "perturbation"), text)
    for k, table in enumerate(() if inversion is None else inversion.observations):
        if table.type == "tracks":
            text = "tracks cross several grids, and a point is read on one; give gauges, harmonics or velocities"
            yield Mistake(("inversion", "observations", k), text)
    yield from _loading_with_nests(forcing)
    if model is not None and model.core != "finite_differences":
        core = model.core if isinstance(model.core, str) else name_of(model.core)
        text = f"{core!r} has no nests; use 'finite_differences', or leave [[nest]] out"
        yield Mistake(("model", "core"), text)
    if stepper is not None and (stepper.part.is_implicit or stepper.part.has_solver):
        text = f"{stepper.type!r} solves an equation of a whole grid, and cannot step nests; use an explicit scheme"
        yield Mistake(("stepper", "type"), text)
    if run is not None and run.communicator == "sharded":
        text = (
            "nests run serially or under MPI, and not on several devices of one process; use 'auto', and start several "
            "processes with `mpirun -n N swmodel run`"
        )
        yield Mistake(("run", "communicator"), text)
    if run is not None and run.stages_per_exchange != 1:
        yield Mistake(("run", "stages_per_exchange"), "nests exchange halos at every stage; leave it out")


def _loading_with_nests(forcing):
    """Mistakes of forcing by the harmonics of the whole Earth's elevation."""
    for k, each in enumerate(forcing):
        if each.type == "self_attraction_loading":
            text = (
                f"{each.type!r} needs the elevation all round the Earth, which a nest does not have; use "
                "'self_attraction', a fraction of the elevation, in all grids, or leave [[nest]] out"
            )
            yield Mistake(("forcing", k, "type"), text)


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


def name_of_folder(name: str, output: Output | None) -> str:
    """The folder of a nest's files, in that of the run."""
    return output.folder if output is not None and "folder" in output.written else name


def _folder_mistakes(nests):
    """Folders that two grids would share, whose files may have the same names; some file systems ignore capitals."""
    taken = {".": "the outermost grid"}
    for k, each in enumerate(nests):
        folder = os.path.normpath(name_of_folder(each.name, each.output))
        if (owner := taken.setdefault(folder.casefold(), f"the nest {each.name!r}")) != f"the nest {each.name!r}":
            written = each.output is not None and "folder" in each.output.written
            path = ("nest", k, "output", "folder") if written else ("nest", k)
            yield Mistake(path, f"{folder!r} is the folder of {owner}, too; give each grid a folder of its own")


SHARED = ("grid", "run", "output", "stepper", "ensemble")
VARIABLE = "initial, bathymetry, model, coriolis, forcing, dissipation, boundary or source"


@dataclasses.dataclass(frozen=True)
class Varied:
    """The values of one key for all members.

    Attributes:
        path: the path of the key that varies.
        values: its values, one for each member.
        written: the path within the file at which they are written, for messages.
    """

    path: tuple[str | int, ...]
    values: list[Any]
    written: tuple[str, ...]


class Ensemble(Section):
    """Keys with a value for each member, as "initial.amplitude" = [0.5, 1.0], or members that differ by noise."""

    takes_others = True

    members: Count | None = None  # how many
    perturbation: PositiveMetres | None = None  # standard deviation of the noise in the initial elevation
    radius: PositiveMetres | None = None  # length scale of the noise
    seed: Seed = 0  # of the random numbers

    @property
    def varied(self) -> dict[str, Varied]:
        """{name of the key: Varied}."""
        found = {}
        for path, values, written in _flat(self.others, (), ("ensemble",)):
            found[dotted(path)] = Varied(path, values, written)
        return found

    @property
    def count(self) -> int:
        """The number of members."""
        return self.members or len(next(iter(self.varied.values())).values)

    def perturbed(self, state: State, model: ShallowWater, k: int) -> State:
        """The State with the noise of member k; member 0 has no noise, as the reference for the others."""
        if self.perturbation is None or k == 0:
            return state
        noise = SmoothNoise(model.grid, cast(float, self.radius), (self.seed, k))
        elevation = noise.map(lambda noise, wet: self.perturbation * noise * wet, model.sea_floor.wet)
        return state.replace(eta=state.eta + model.domain.cut(elevation))

    def check(self) -> None:
        counts = {} if self.members is None else {"members": self.members}
        for name, varied in self.varied.items():
            if not isinstance(varied.values, list) or not varied.values:
                raise ValueError(
                    f"{name} = {varied.values!r} is not a list; give a value for each member, as in [1, 2]"
                )
            counts[name] = len(varied.values)
        if len(set(counts.values())) > 1:
            lengths = ", ".join(f"{count} for {name}" for name, count in counts.items())
            raise ValueError(f"lists of different lengths: {lengths}; give each member one value of every key")
        if not self.varied and self.perturbation is None:
            raise ValueError(
                "its members would all be the same; give lists of values, or a perturbation of the initial elevation"
            )
        if not counts:
            raise ValueError("the number of members is missing; give members, or lists of values")
        if (self.perturbation is None) != (self.radius is None):
            raise ValueError("perturbation and radius belong together; give both, or neither")


def _flat(table, path, written):
    """(path, values, path where they are written) of lists in tables; keys may have dots, with or without quotes."""
    for name, value in table.items():
        inner = (*path, *path_of(name))
        if isinstance(value, dict):
            yield from _flat(value, inner, (*written, name))
        else:
            yield inner, value, (*written, name)


def members_option(text: str) -> tuple[tuple[str, str], Any]:
    """(path, value) of the option --members: "initial.amplitude=0.5,1,2", or a number of members.

    Raises:
        ConfigError: if it is neither.
    """
    key, equals, values = (part.strip() for part in text.partition("="))
    if not equals and key.isdigit():
        return ("ensemble", "members"), int(key)
    if not equals or not key or not values:
        raise ConfigError(
            f"--members {text}: expected KEY=VALUE,VALUE,..., as in initial.amplitude=0.5,1,2, or a number of members"
        )
    try:
        return ("ensemble", key), tomllib.loads(f"values = [{values.strip('[]')}]")["values"]
    except tomllib.TOMLDecodeError:
        return ("ensemble", key), [value.strip() for value in values.strip("[]").split(",")]


def member_raws(
    section: Ensemble, raw: Mapping[str, Any], apply: Callable[[dict[str, Any], tuple, Any], str | None]
) -> tuple[list[dict[str, Any]], list[Mistake]]:
    """([tables of each member], mistakes); `apply(tables, path, value)` returns the reason of a failure, or None."""
    base = {name: table for name, table in raw.items() if name != "ensemble"}
    members, mistakes = [copy.deepcopy(base) for _ in range(section.count)], []
    for name, varied in section.varied.items():
        if varied.path[0] in SHARED:
            mistakes.append(
                Mistake(varied.written, f"all members share [{varied.path[0]}]; vary numbers and fields of {VARIABLE}")
            )
            continue
        reasons = [apply(tables, varied.path, value) for tables, value in zip(members, varied.values)]
        mistakes += [Mistake(varied.written, f"{name}: {why}") for why in reasons[:1] if why]
    return members, mistakes


def mistakes_of_members(
    section: Ensemble, found: Sequence[Sequence[Mistake]], of_all: Sequence[Mistake]
) -> list[Mistake]:
    """Mistakes that only members have, as mistakes of the keys in [ensemble].

    Args:
        section: the Ensemble.
        found: the mistakes of each member, a list of lists.
        of_all: those of the file without an ensemble.
    """
    mistakes, known = {}, {(m.path, m.text) for m in of_all}
    for mistake in (m for member in found for m in member if (m.path, m.text) not in known):
        near = [v for v in section.varied.values() if v.path[: len(mistake.path)] == mistake.path[: len(v.path)]]
        written = near[0].written if near else ("ensemble",)
        mistakes.setdefault((written, mistake.text), Mistake(written, mistake.text))
    return list(mistakes.values())


def value_at(sections: Mapping[str, Any], path: Sequence[str | int]) -> Any:
    """The number or text at a path of the valid sections."""
    value: Any = sections
    for part in path:
        holds_parts = isinstance(value, (dict, list, tuple))
        value = value[part] if holds_parts else getattr(value, str(part))
    if isinstance(value, Expression):
        return value.text
    return str(value) if isinstance(value, Path) else value
