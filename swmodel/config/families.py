"""Experiments that follow from another: nests, and members of an ensemble.

Each nest is an experiment of its own on the cells of its box. Its sections are those of the file with what the nest
replaces, so that it is checked and made as any experiment is. All nests make a Family.
"""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from ..errors import ConfigError, SwmodelError, logged_once
from ..fields.state import State
from ..grids.water import INSIDE
from ..models.ensemble import Ensemble
from ..nests.family import Family
from ..nests.members import family_of_members
from ..nests.nest import Nest, Place, finest
from ..nests.parts import STAGES, frame_of
from ..stepping.stability import limits
from . import Draft, member_drafts
from .assembly import MORE, SAFE, Assembly, assemble, model_of, options_of, time_step
from .consistency import mistakes_between
from .nests import name_of_folder, remedy_of_linear, value_at
from .physics import CORIOLIS_FORMS, Flow
from .scenario import Output
from .sections import Surroundings
from .series import SeriesSection
from .toml import Mistake, dotted


@dataclasses.dataclass
class NestAssembly:
    """A nest of an experiment file.

    Attributes:
        nest: the Nest, without its depth.
        place: where it lies.
        made: the Assembly of its sections.
        gauges: the names of gauges of [output.gauges] that lie in it, and in no finer grid.
    """

    nest: Nest
    place: Place
    made: Assembly
    gauges: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.nest.name

    def folder_in(self, folder: Path) -> Path:
        """The folder of the nest's files, in that of the run."""
        return folder / name_of_folder(self.name, self.made.experiment().output)


def assemble_family(draft: Draft, *arguments: Any, **options: Any) -> Assembly:
    """`assemble` of a Draft, and of its nests. A gauge that lies in several grids is that of the finest one."""
    sections, grid = draft.sections.get("nest") or (), draft.sections.get("grid")
    try:
        outer = None if grid is None else grid.build()
    except ValueError:
        outer = None
    if not sections or outer is None:
        return assemble(draft, *arguments, **options)
    nests, mistakes = _placed(draft, outer)
    gauges = None if (output := draft.sections.get("output")) is None else output.gauges
    places = {} if gauges is None else gauges.positions
    grids = {name: finest([at], outer, nests.values()) for name, at in places.items()}
    parts = {name: _output(draft, name, grids) for name in ("", *nests)}
    outputs = {"output": parts[""]} if "output" in draft.sections else {}
    made = assemble(dataclasses.replace(draft, sections=draft.sections | outputs), *arguments, **options)
    made.output = draft.sections.get("output")
    made.mistakes += mistakes + list(_gauges_of_one_name(sections, grids))
    if not (draft.mistakes or made.mistakes):
        made.mistakes += _records_of_linear(draft.sections)
    for k, name in ((k, each.name) for k, each in enumerate(sections) if each.name in nests):
        nest, place, around = nests[name]
        nest_grid = place.grid(around)
        sections_here = _sections(draft, sections[k], nest_grid, parts[name])
        made.mistakes += _renamed(mistakes_between(sections_here), sections[k], k)
        if draft.mistakes or made.mistakes:
            continue
        here = dataclasses.replace(draft, sections=sections_here, mistakes=())
        own = assemble(here, *arguments, grid=nest_grid, **options)
        made.mistakes += _renamed(own.mistakes, sections[k], k, others=True)
        made.nests += (NestAssembly(nest, place, own, tuple(g for g in grids if grids[g] == name)),)
    return made


def _placed(draft, outer):
    """({name: (Nest, Place, the grid around it)}, mistakes)."""
    grids, found, mistakes, given = {"": outer}, {}, [], draft.sections
    stages = STAGES if (stepper := given.get("stepper")) is None else stepper.part.stages
    for k, section in enumerate(given["nest"]):
        nest, around = section.build(), section.inside or ""
        if around not in grids:
            continue
        model: Any = _model(given.get("model"), section) or Flow()
        try:
            forms = model.form, CORIOLIS_FORMS.made(model.coriolis_form)
            parts = *(given.get("forcing") or ()), *(section.dissipation or given.get("dissipation") or ())
            frame = frame_of(grids[around], forms, parts, given.get("tracer") or (), stages)
            place = nest.place_among(grids[around], frame, {name: one[:2] for name, one in found.items()})
        except ConfigError as error:
            mistakes.append(Mistake(("nest", k), str(error)))
            continue
        grids[nest.name] = place.grid(grids[around])
        found[nest.name] = nest, place, grids[around]
    return found, mistakes


def _model(model, section):
    """The [model] section of a nest; None if that of the file has mistakes.

    `damping` belongs to the form of momentum: a nest with a form of its own does not take that of the file.
    """
    own = {} if section.model is None else {key: getattr(section.model, key) for key in section.model.written}
    if model is None:
        return section.model
    shared = model.written - {"damping"} if "momentum" in own else model.written
    return type(model)(**{key: getattr(model, key) for key in shared} | own)


def _sections(draft, section, grid, output):
    """{name: section} of a nest on its grid."""
    coordinates = ("longitude", "latitude") if grid.spherical else ("x", "y")
    limits = {name: getattr(grid, name) for name in coordinates}
    given, model = draft.sections, _model(draft.sections.get("model"), section)
    floor = section.bathymetry or given.get("bathymetry")
    if section.bathymetry is None and floor is not None:
        floor = floor.in_nest(model is not None and bool(model.shore))
    if floor is not None and getattr(floor, "fill_lakes", False):
        floor = floor.replaced(fill_lakes=INSIDE)
    replaced = {
        "grid": given["grid"].replaced(nx=grid.nx, ny=grid.ny, periodic="", **limits),
        "bathymetry": floor,
        "model": model,
        "dissipation": section.dissipation or given.get("dissipation", ()),
        "initial": section.initial or given.get("initial"),
        "run": None if given.get("run") is None else given["run"].replaced(layout=None),
        "output": output,
        "boundary": (),
        "source": None,  # nests take the motion of the grid around them
        "nest": (),
        "adjoint": None,
        "inversion": None,
    }
    return {name: value for name, value in (given | replaced).items() if name in given or value is not None}


def _output(draft, name, grids):
    """The [output] section of a grid, with the gauges that are its own, and a restart where the run writes one."""
    whole = draft.sections.get("output")
    section = next((nest for nest in draft.sections["nest"] if nest.name == name), None)
    output = whole if section is None else section.output or Output()
    if whole is None:
        return output
    changes = {}
    if whole.restart is not None and output.restart is None:
        changes["restart"] = whole.restart
    own = None if section is None else output.gauges
    if both := [gauges for gauges in (own, whole.gauges) if gauges is not None]:
        here = {} if own is None else dict(own.positions)
        here |= {} if whole.gauges is None else {g: at for g, at in whole.gauges.positions.items() if grids[g] == name}
        windows = {g: limits for gauges in both for g, limits in gauges.windows.items() if g in here}
        observations = next((gauges.observations for gauges in both if gauges.observations is not None), None)
        own = {"positions": here, "window": windows or None, "observations": observations}
        changes["gauges"] = both[0].replaced(**own) if here else None
    return output.replaced(**changes)


def _gauges_of_one_name(sections, grids):
    """Mistakes of gauges of nests that have the name of a gauge of [output.gauges] that lies there, too."""
    for k, section in enumerate(sections):
        gauges = None if section.output is None else section.output.gauges
        for name in () if gauges is None else gauges.positions:
            if grids.get(name) == section.name:
                text = f"{name!r} of [output.gauges] is read here, too; give this gauge another name"
                yield Mistake(("nest", k, "output", "gauges", "positions", name), text)


def _records_of_linear(sections):
    """Mistakes of records in time of forcing and open sides, which linear steps of nested grids do not have."""
    remedy, run = remedy_of_linear(sections), sections.get("run")
    on = Surroundings(start=run and run.start, until=run and run.until)
    for name in ["forcing", "boundary", "dissipation"] * bool(remedy):
        parts: Any = sections.get(name) or ()
        for k, part in enumerate(parts):
            series = ((key, value) for key, value in part if isinstance(value, SeriesSection))
            found = [key for key, value in series if value.records(on) is not None]
            for key in found + ["file"] * (part.type == "wind_file"):
                yield Mistake((name, k, key), f"linear responses of nested grids have no records in time; {remedy}")


def _renamed(mistakes, section, k, others=False) -> Iterator[Mistake]:
    """Mistakes of the sections of nest number k, at their keys in the file; of shared sections only with `others`."""
    for mistake in mistakes:
        text = mistake.text.replace("and the grid needs", "and the nest, with the frame around its box, needs")
        mistake = Mistake(mistake.path, text)
        head, key = (*mistake.path, None, None)[:2]
        own = section.output.written | {None} if head == "output" and section.output is not None else {key}
        if head in section.written and key in own:  # other keys of [output] are those of the file
            yield Mistake(("nest", k, *mistake.path), mistake.text)
        elif others:
            path = mistake.path if head == "output" else ("nest", k)
            yield Mistake(path, f"in the nest {section.name!r}: {mistake.text}")


def family_of(made: Assembly, *where: Any) -> tuple[Family, dict[str, State], float]:
    """(the Family of an Assembly with nests, {name: State}, the outermost grid's time step [s]); collective.

    Of an ensemble they are those of all members, as `family_of_members` makes them.

    Args:
        made: the Assembly, without mistakes.
        where: communicator, layout and engine, as for `model_of`.

    Raises:
        ConfigError: with every mistake.
    """
    experiment = made.experiment()
    if experiment.ensemble is None:
        family = _family(made, *where)
        states = _states(made, family)
    else:
        family, states = _family_of_members(made, *where)
    for model in family.models.values():
        made.require(("forcing",), model.check_files, experiment.run.until)
    bounds = made.require(("stepper",), limits, family.outer, experiment.stepper.stepper(), states[""])
    dt = made.require(("stepper", "dt"), time_step, experiment, bounds)
    fraction = experiment.stepper.fraction
    most = max(fraction, min(MORE * fraction, SAFE))
    made.require(("nest",), family.fit_steps, experiment.stepper.stepper(dt), states, most)
    return family, states, dt


def _family(made, *where):
    """The Family of an Assembly."""
    experiment = made.experiment()
    nests = [dataclasses.replace(one.nest, depth=one.made.bathymetry, options=_options(one.made)) for one in made.nests]
    options = options_of(made) | dict(zip(("communicator", "layout", "engine"), where))
    stages = experiment.stepper.stepper().stages
    return made.require(("nest",), lambda: Family(made.grid, made.bathymetry, nests, stages, **options))


def _states(made, family):
    """{name: State} of each grid at the start."""
    experiment = made.experiment()
    states = {"": made.require(("initial",), experiment.initial.state, family.outer)}
    for k, section in enumerate(experiment.nest):
        initial = section.initial or experiment.initial
        states[section.name] = made.require(("nest", k), initial.state, family.models[section.name])
    return states


def _family_of_members(made, *where):
    """(the Family of the members of an Assembly with an ensemble, {name: State} of all)."""

    def family(draft):
        return _family(_of_member(made, draft), *where)

    def states(draft, family, k):
        return _states(dataclasses.replace(made, draft=draft, mistakes=[]), family)

    members = members_of(made, family, states)
    return made.require(("ensemble",), family_of_members, *members)


def _of_member(made, draft):
    """The Assembly of a member, which shares the objects that its own keys do not change."""
    if not all_with_the_model(made):
        run = draft.sections["run"].replaced(layout=None)  # the layout has been checked already
        return assemble_family(dataclasses.replace(draft, sections=draft.sections | {"run": run}))
    nests = []
    for one, section in zip(made.nests, draft.sections["nest"], strict=True):
        sections = _sections(draft, section, one.made.grid, one.made.section("output"))
        own = dataclasses.replace(one.made, draft=dataclasses.replace(one.made.draft, sections=sections), mistakes=[])
        nests.append(dataclasses.replace(one, made=own))
    return dataclasses.replace(made, draft=draft, nests=tuple(nests), mistakes=[])


def _options(made):
    """The arguments of ShallowWater in which a nest may differ."""
    options, floor = options_of(made), made.section("bathymetry").options()
    names = *Flow.schema(), "forcing", "dissipation", "tracers", *floor
    return {name: options[name] for name in names if name in options}  # `damping` is in the form of momentum


def mistakes_of_nest(made: Assembly, k: int) -> list[Mistake]:
    """The mistakes of nest number `k` of an Assembly, at their keys in the file."""
    return list(_renamed(made.nests[k].made.mistakes, made.section("nest")[k], k, others=True))


def share_of_cost(family: Family, dt: float, until: float) -> dict[str, float]:
    """{name: the share of the cells that the steps of a run compute, from the start of the grid on} of all grids.

    Args:
        family: the Family.
        dt: the outermost grid's time step [s].
        until: the end of the run [s].
    """
    steps = {x: max(until / dt - family.first_step(x, dt), 0) * family.total_steps(x) for x in family.names}
    work = {name: math.prod(model.grid.shape) * steps[name] for name, model in family.models.items()}
    return {name: each / sum(work.values()) for name, each in work.items()}


# -- members of an ensemble --------------------------------------------------------------------------------------------

# Sections whose objects are made together with the model. Those of others (sea floor, wind, source) are made before.
WITH_THE_MODEL = ("initial", "model", "coriolis", "dissipation", "boundary")


def ensemble_of(made: Assembly, *where: Any) -> Ensemble:
    """The Ensemble of an Assembly without mistakes; collective.

    Args:
        made: the Assembly of the file.
        where: communicator, layout and engine, as for `model_of`.

    Raises:
        ConfigError: if a member cannot be made, or one program cannot step it with the others.
    """
    section: Any = made.experiment().ensemble

    def model(draft):
        own = _of_member(made, draft)
        if own.mistakes:
            raise ConfigError([f"{dotted(m.path)}: {m.text}" for m in own.mistakes])
        return model_of(own, *where)

    def state(draft, model, k):
        return section.perturbed(draft.sections["initial"].state(model), model, k)

    return Ensemble(*members_of(made, model, state))


def members_of(
    made: Assembly, make_model: Callable[[Draft], Any], make_state: Callable[[Draft, Any, int], Any]
) -> tuple[list, list, dict[str, Sequence]]:
    """([model], [state], {name of what varies: values}) of the members of an Assembly; collective.

    Args:
        made: the Assembly of the file.
        make_model: makes the model of a member's Draft. Members that differ in [initial] alone share it.
        make_state: makes the first state of a member, of its Draft, its model and its number.
    """
    drafts, varied = member_drafts(made.draft), cast(Any, made.experiment().ensemble).varied
    models, states, known, logged = [], [], {}, set()
    for k, draft in enumerate(drafts):
        key = repr([v.values[k] for v in varied.values() if v.path[0] != "initial"])
        with _mistakes_of(k), logged_once(logged):
            if key not in known:
                known[key] = make_model(draft)
            models.append(known[key])
            states.append(make_state(draft, known[key], k))
    values: dict[str, Sequence] = {
        name: [value_at(draft.sections, v.path) for draft in drafts] for name, v in varied.items()
    }
    return models, states, values


def all_with_the_model(made: Assembly) -> bool:
    """Whether the members share the objects that are made before the model."""
    varied = cast(Any, made.experiment().ensemble).varied
    return all(v.path[0] in WITH_THE_MODEL for v in varied.values())


@contextlib.contextmanager
def _mistakes_of(k: int) -> Iterator[None]:
    """Errors that are raised inside become mistakes of member `k`."""
    try:
        yield
    except (SwmodelError, ValueError, OSError) as error:
        texts = getattr(error, "mistakes", None) or [str(error)]
        raise ConfigError([f"of member {k}: {text}" for text in texts]) from error
