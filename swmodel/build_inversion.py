"""From an experiment file with [inversion] to controls in standard parameters, and to observations, or a twin's."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np

from .build import assemble, model_of, state_of
from .build_adjoint import controls_of
from .config import Override, understand
from .errors import ConfigError

__all__ = ["EXAMPLE", "Observed", "Truth", "observed", "section_of", "transformed_of"]

EXAMPLE = """\
    [inversion.observations]
    type = "gauges"
    window = ["15 minute", "2 hour"]
    [[inversion.controls]]
    type = "unit_sources"         # or faults, field, number, balanced
    x = [141, 145.5]
    y = [35, 41]
    spacing = 0.5
    deviation = "2 m\""""


@dataclasses.dataclass
class Truth:
    """What a twin's observations come from."""

    model: Any
    state: Any

    def of(self, control, dt):
        """The value of a control there: of an uplift at once, too."""
        values = background_of(self.model, self.state, control, dt)
        if control == "initial.eta" and self.model.uplift is not None:
            values = values + self.model.uplift.record(-1, self.model.dtype)
        return values


@dataclasses.dataclass
class Observed:
    """What an inversion is told.

    Attributes:
        records: {name: Record}.
        truth: the Truth of a twin, or None.
        state: to start from: the file's, or that of the twin's spin-up.
        source: where the observations come from, in words.
    """

    records: dict
    truth: Any
    state: Any
    source: str


def section_of(draft):
    """The section [inversion]; raises ConfigError with an example if it is missing."""
    section = draft.sections.get("inversion")
    if section is None:
        raise ConfigError(f"{draft.file}: the section [inversion] is missing; add one, such as\n{EXAMPLE}")
    return section


# -- controls ----------------------------------------------------------------------------------------------------------


def background_of(model, state, name, dt):
    """The value of a model's control: tile array or number, of time records {record: such}."""
    from .adjoint.controls import controls_of as find

    (control,) = find(model, [name])
    if control.records:
        return {k: control.of_record(k, model.dtype) for k in control.records}
    return control.get(None if control.of_state else model.dynamics(1, 0, dt), state)


def transformed_of(section, made, model, state, dt):
    """The Transformed of all controls of [inversion]; collective.

    Raises:
        ConfigError: with the number of the control.
    """
    from .adjoint.transforms import joined

    boundaries = made.experiment().boundary
    parts = {}
    for k, control in enumerate(section.controls):
        named = getattr(control, "name", control.type)
        path = "inversion", "controls", k
        target, transform = made.attempt(path, _transform, control, made, model, state, boundaries, dt) or (
            None, None,
        )  # fmt: skip
        parts[named] = target, transform
    made.experiment()
    return joined(parts, model)


def _transform(control, made, model, state, boundaries, dt):
    """(name of the model's control or None, transform)."""
    from .adjoint.diffusion import Smooth
    from .adjoint.transforms import Balanced, UnitSources

    if control.type == "unit_sources":
        patch = tuple(map(float, control.x)), tuple(map(float, control.y)), float(control.spacing)
        expected = control.deviation, control.length, control.uplift_only or None
        return "initial.eta", UnitSources.on(model, *patch, *expected)
    if control.type == "faults":
        return "initial.eta", _faults(control, made, model)
    if control.type == "balanced":
        return None, Balanced.of(model, state, Smooth.of(model, "h", control.length, control.deviation))
    return _of_model(control, model, state, boundaries, dt)


def _of_model(control, model, state, boundaries, dt):
    """(name, transform) of a field or number of the model."""
    from .adjoint.controls import controls_of as find
    from .adjoint.diffusion import Smooth
    from .adjoint.transforms import Around, Positive, Repeated

    name = controls_of(SimpleNamespace(controls=[control.name]), boundaries)[control.name]
    (found,) = find(model, [name])
    background = background_of(model, state, name, dt)
    is_field = found.position != "scalar"
    if control.type == "field" and not is_field:
        raise ConfigError(
            f"{control.name} is a number in this model; use type = 'number', or give the model a field (a formula)"
        )
    if control.type == "number" and is_field:
        raise ConfigError(f"{control.name} is a field in this model; use type = 'field', or give the model a number")
    spread = np.asarray(control.deviation, model.dtype)
    if is_field:
        spread = Smooth.of(model, found.position, control.length, control.deviation)
    if found.records:
        if control.positive:
            raise ConfigError(
                f"{control.name} has time records, whose change is the same in all; positive is not for these"
            )
        return name, Repeated(background, spread)
    return name, (Positive if control.positive else Around)(background, spread)


def _faults(control, made, model):
    from . import sources
    from .adjoint.transforms import FaultSource

    grid = made.grid
    projection = sources.AzimuthalEqualArea(grid.radius) if grid.spherical else sources.Plane()
    if control.file is not None:
        source = sources.read_source(control.file, projection=projection)
    else:
        source = sources.Source(
            [sources.Fault(**fault.model_dump()) for fault in control.faults], projection=projection
        )
    region = sources.region_around(source, grid)
    surface = sources.SeaSurface.of(
        grid, made.bathymetry.depth, region, horizontal=control.horizontal, kajiura=control.kajiura
    )
    return FaultSource.of(model, surface, source, control.spreads)


# -- observations ------------------------------------------------------------------------------------------------------


def observed(section, made, process, model, state, stepper, steps):
    """The Observed of [inversion]; collective."""
    experiment, observations = made.experiment(), section.observations
    until = steps * float(stepper.dt)
    if observations.type == "tracks" and observations.file is not None:
        from .adjoint.observations import read_tracks, track_records

        tracks = read_tracks(observations.file, observations.deviation)
        return Observed(track_records(tracks, model, until), None, state, str(observations.file))
    folder = _folder(observations, experiment.output)
    if folder is not None:
        from .adjoint.records import records_in

        records = records_in(folder, _places(observations, experiment.output), observations.gauges)
        return Observed(_weighed(observations, records), None, state, str(folder))
    truth, state = _twin(section, made, process, model, state, stepper)
    records = _of_twin(section, experiment.output, truth, stepper, steps)
    return Observed(records, truth, state, f"a twin (seed {section.twin.seed})")


def _folder(observations, output):
    if observations.type != "gauges":
        return None
    if observations.folder is not None:
        return observations.folder
    return None if output.gauges is None else output.gauges.observations


def _places(observations, output):
    """{name: (x, y)} of the gauges that may have a record."""
    known = {**({} if output.gauges is None else output.gauges.positions), **observations.positions}
    return {name: tuple(map(float, known[name])) for name in observations.gauges or known}


def _weighed(observations, records):
    from .adjoint.observations import gauge_records

    return gauge_records(records, observations.window, observations.error, observations.independent)


def _twin(section, made, process, model, state, stepper):
    """(Truth, the State to start the inversion from), each after a spin-up of its own."""
    from .simulation import Simulation

    draft, twin = made.draft, section.twin
    overrides = [Override(f"[inversion.twin.truth] {key}", _path(key), value) for key, value in twin.truth.items()]
    other = assemble(understand(draft.text, draft.file, draft.folder, [*draft.overrides, *overrides]), process.tiles)
    experiment = other.experiment()
    true_model = model_of(other, process.communicator, experiment.run.layout, experiment.run.engine)
    truth = state_of(experiment.initial, true_model)
    if twin.spin_up:
        state = Simulation(model, state, stepper).run(until=twin.spin_up)
        truth = Simulation(true_model, truth, stepper).run(until=twin.spin_up)
    return Truth(true_model, truth), state


def _path(key):
    return tuple(int(part) if part.isdigit() else part for part in key.split("."))


def _of_twin(section, output, truth, stepper, steps):
    """{name: Record} of what the truth's gauges or tracks see, with errors."""
    from .adjoint.observations import ground_tracks, track_records
    from .adjoint.records import Record

    observations, noise = section.observations, np.random.default_rng(section.twin.seed)
    dt = float(stepper.dt)
    if observations.type == "tracks":
        tracks = ground_tracks(
            truth.model.grid, observations.every, steps * dt, observations.apart, observations.between,
            observations.tilt, observations.deviation,
        )  # fmt: skip
        records = track_records(dataclasses.replace(tracks, value=np.zeros(tracks.x.size)), truth.model, steps * dt)
        return {name: _with_noise(record, noise) for name, record in _seen(records, truth, stepper, steps).items()}
    every = max(observations.every, dt)
    window = observations.window
    spans = {name: window[name] if isinstance(window, dict) else window for name in _places(observations, output)}
    times = {
        name: np.arange(max(first, dt), min(last, steps * dt) + 1e-6, every) for name, (first, last) in spans.items()
    }
    records = {
        name: Record(place, times[name], np.zeros(times[name].size))
        for name, place in _places(observations, output).items()
    }
    seen = _weighed(observations, _seen(records, truth, stepper, steps))
    return {name: _with_noise(record, noise) for name, record in seen.items()}


def _seen(records, truth, stepper, steps):
    """The records with the truth's values."""
    from .adjoint import Misfit, Problem

    problem = Problem(truth.model, stepper, truth.state, steps, Misfit(records), ["initial.eta"])
    readings, dt = np.asarray(problem.observed(), float), float(stepper.dt)
    at = dt * np.arange(1, steps + 1)
    return {
        name: dataclasses.replace(record, value=np.interp(record.time, at, readings[:, k]))
        for k, (name, record) in enumerate(records.items())
    }


def _with_noise(record, noise):
    """The record with errors of its own deviation."""
    return dataclasses.replace(record, value=record.value + record.deviation * noise.standard_normal(record.value.size))
