"""The time stepper of an experiment, its solver, its time step; and experiments that follow from another.

These are the members of an ensemble, and an experiment on a coarser grid.
"""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from ... import elliptic
from ...errors import ConfigError, SwmodelError
from ...fields.parameters import MOST
from ...models.ensemble import Ensemble
from ...models.random_fields import SmoothNoise
from ...parallel import SerialCommunicator
from ...stepping.explicit import TimeStepper
from ...stepping.stability import Limit, largest_time_step, limits
from .. import Draft, member_drafts
from ..experiment import Experiment
from ..nests import value_at
from ..parts import arguments_of, part_of
from ..scenario import Output, Rest
from ..toml import Mistake, dotted
from .experiment import Assembly, assemble, model_of
from .fields import is_evaluated_whole, state_of

MORE, SAFE = 1.05, 0.9  # so much of `fraction`, and of the longest stable step, dt = "auto" may be, to fit intervals


def stepper_of(section: Any, dt: float = 1.0) -> TimeStepper:
    """The time stepper of a [stepper] section, with time step `dt` [s]."""
    options = arguments_of(section) | {"dt": dt}
    if "solver" in options:
        options["solver"] = _solver(section)
    return section.part(**options)


def _solver(section):
    """The elliptic.Solver that a [stepper] section names; None for "auto"."""
    if section.solver == "auto":
        return None
    if isinstance(section.solver, type):
        return section.solver()
    options = {name: value for name, value in section if name in ("tolerance", "iterations") and value is not None}
    if section.preconditioner is not None:
        kinds = {"diagonal": "Diagonal", "fast_poisson": "FastPoisson", "multigrid": "Multigrid"}
        options["preconditioner"] = getattr(elliptic, kinds[section.preconditioner])()
    return elliptic.named(section.solver, **options)


def time_step(experiment: Experiment, limits: Sequence[Limit]) -> float:
    """dt [s]: that of the file, or about a fraction of the longest stable one, which divides the output intervals.

    Raises:
        ConfigError: if the file's dt is not stable; the message names the limit and its place.
    """
    dt = _time_step(experiment, limits)
    steps = experiment.run.until / dt
    if steps > MOST:
        raise ConfigError(
            f"{steps:.3g} steps of {dt:.3g} s would be needed until {experiment.run.until:.3g} s, and steps are "
            f"counted to {MOST:,}; use a longer step, or a shorter run"
        )
    return dt


def _time_step(experiment, limits):
    dt = experiment.stepper.dt
    if dt == "auto":
        if not limits:
            raise ConfigError(f"nothing limits the time step of {experiment.stepper.type} here; give dt in seconds")
        longest, fraction = largest_time_step(limits), experiment.stepper.fraction
        most = max(fraction, min(MORE * fraction, SAFE))
        wanted, (every, ends) = fraction * longest, _intervals(experiment)
        both = (*every, *ends)
        return dividing_step(wanted, most * longest, both if _common(both) >= wanted / 10 else every)
    if limits and dt > limits[0].dt:
        raise ConfigError(too_long(experiment.stepper, limits))
    return dt


def too_long(section: Any, limits: Sequence[Limit]) -> str:
    """The sentence for a time step over its limit."""
    return (
        f"{section.dt:g} s is over the limit of {section.type}, {limits[0]}; "
        f'use dt = "auto", or at most {0.9 * largest_time_step(limits):.3g} s'
    )


def unstable(made: Assembly) -> list[Mistake]:
    """The mistake of a time step over the limit of gravity waves, for an Assembly that has other mistakes; or none."""
    import swmodel as sw

    model, stepper = made.section("model"), made.section("stepper")
    if made.bathymetry is None or model is None or stepper is None or stepper.dt == "auto":
        return []
    if not is_evaluated_whole(made.grid):
        return []
    wetting = (
        {} if model.wetting is None else {"wetting": part_of(model.wetting, None), "momentum": sw.MomentumConserving()}
    )
    waves = sw.ShallowWater(
        made.grid,
        made.bathymetry,
        gravity=model.gravity,
        layers=part_of(made.section("layers"), None),
        communicator=SerialCommunicator(),
        dtype="float32",
        **wetting,
    )
    found = limits(waves, stepper_of(stepper))
    return [Mistake(("stepper", "dt"), too_long(stepper, found))] if found and stepper.dt > found[0].dt else []


def _intervals(experiment):
    """(the intervals of the output, else the length of the run; the lengths of the studies) [s]."""
    outputs = [experiment.output, *(nest.output for nest in experiment.nest if nest.output is not None)]
    repeated = [one for output in outputs for one in (*output.fields, output.gauges, output.spectra, output.restart)]
    every = [section.every for section in repeated if section is not None and section.every is not None]
    studies = [study for study in (experiment.adjoint, experiment.inversion) if study is not None]
    return every or [experiment.run.until], [study.until or experiment.run.until for study in studies]


def _common(intervals):
    """The greatest common divisor, to the millisecond [s]."""
    return math.gcd(*(round(1000 * interval) for interval in intervals)) / 1000


def dividing_step(wanted: float, most: float, intervals: Sequence[float]) -> float:
    """The longest dt up to `wanted` of which every interval is a whole multiple, to the millisecond [s].

    If that is shorter than `wanted` by more than a tenth, as where few steps fit into an interval, the next longer one
    is taken, provided that it is at most `most`.
    """
    common = _common(intervals)
    if common < wanted / 10:  # no useful common divisor: outputs then fall on the nearest step
        return wanted
    steps = math.ceil(common / wanted)
    if steps > 1 and common < 0.9 * steps * wanted and common <= most * (steps - 1):
        steps -= 1
    return common / steps


THINNEST = 16  # cells along a direction to which a grid is coarsened, at least


def coarsened(draft: Draft, cut: int) -> Assembly:
    """The Assembly of an experiment on cells that are `cut` times as long and as wide, without outputs.

    The iterations of an elliptic solver are counted on it. With d = cut times the spacing and g' = cut^2 times the
    gravity, the operator of a semi-implicit step has the same coefficients per cell,
    (theta dt / d)^2 g' H = (theta dt / dx)^2 g H: gravity waves cross as many cells in a step. A longer step in place
    of the larger gravity would have the same effect on them, but the Coriolis force, which is explicit, would be
    unstable.

    Depths are those that the file, formula or number gives on such cells, and so are all other fields. An initial state
    in a file, which is one of the original grid, is replaced by rest.

    Args:
        draft: the Draft of the experiment, without mistakes.
        cut: the factor, 1 or more.
    """
    given = draft.sections
    grid, model, initial = given["grid"], given["model"], given["initial"]
    cells = {name: max(-(-n // cut), min(n, THINNEST)) for name, n in (("nx", grid.nx), ("ny", grid.ny))}
    sections = {
        "grid": grid.replaced(**cells),
        "model": model.replaced(gravity=cut**2 * model.gravity),
        "initial": Rest(type="rest") if initial.type == "file" else initial,
        "run": given["run"].replaced(layout=None),
        "output": Output(),
        "adjoint": None,
        "inversion": None,
    }
    return assemble(dataclasses.replace(draft, sections=given | sections), records=1, here=False)


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
        return model_of(_assembly(made, draft), *where)

    def state(draft, model, k):
        return _perturbed(state_of(draft.sections["initial"], model), section, model, k)

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
    models, states, known = [], [], {}
    for k, draft in enumerate(drafts):
        key = repr([v.values[k] for v in varied.values() if v.path[0] != "initial"])
        with _of_member(k):
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
def _of_member(k: int) -> Iterator[None]:
    """Errors that are raised inside become mistakes of member `k`."""
    try:
        yield
    except (SwmodelError, ValueError, OSError) as error:
        texts = getattr(error, "mistakes", None) or [str(error)]
        raise ConfigError([f"of member {k}: {text}" for text in texts]) from error


def in_any_layout(draft: Draft) -> Draft:
    """The Draft of a member without its layout, which has been checked already."""
    return dataclasses.replace(draft, sections=draft.sections | {"run": draft.sections["run"].replaced(layout=None)})


def _assembly(made, draft):
    """The Assembly of a member, which shares the objects that its own keys do not change."""
    if all_with_the_model(made):
        return dataclasses.replace(made, draft=draft, mistakes=[])
    own = assemble(in_any_layout(draft))
    if own.mistakes:
        raise ConfigError([f"{dotted(m.path)}: {m.text}" for m in own.mistakes])
    return own


def _perturbed(state, section, model, k):
    """The State with the noise of member k; member 0 has no noise, as the reference for the others."""
    if section.perturbation is None or k == 0:
        return state
    noise = SmoothNoise(model.grid, section.radius, (section.seed, k))
    amplitude = section.perturbation
    elevation = noise.map(lambda noise, wet: amplitude * noise * wet, model.sea_floor.wet)
    return state.replace(eta=state.eta + model.domain.cut(elevation))
