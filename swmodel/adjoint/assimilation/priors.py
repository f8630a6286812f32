"""Priors: the controls of an inversion with their background errors, [[inversion.controls]] in experiment files.

    UnitSources   the initial elevation, as a sum of unit sources on a patch
    UnitFaults    the initial elevation, as a sum of the sea surface above faults that slip by 1 m
    Faults        the initial elevation, as the sea surface above faults
    Balanced      the initial state: elevation, and velocities in geostrophic balance with its change
    Field         a field of the model
    Number        a number of the model
    Series        values of the model at given times, such as the points of a track, or of the level at a side

A Prior makes a transform (controls/transforms.py) of standard parameters p, whose background is 0 with errors of 1. The
parameters that its class declares are keys in files. Users can write a subclass of `sw.Prior`; experiment files name it
by `type = "module:Class"`.
"""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ...errors import ConfigError
from ...fields.methods import Result
from ...fields.parameters import COORDINATES, Flag, Pair, Part, Text, declared, parameter, shown
from ...fields.parts import ModelPart, snake_case
from ...fields.state import State
from ...models.shallow_water import ShallowWater
from ...sources import region_around
from ...sources.fault import Source
from ...sources.sea_surface import SeaSurface
from ..controls import seafloor, transforms
from ..controls.controls import Control, Transformed, controls_of
from ..controls.transforms import Transform
from .diffusion import Smooth

__all__ = [
    "Balanced",
    "Faults",
    "Field",
    "Number",
    "Prior",
    "Series",
    "Setting",
    "UnitFaults",
    "UnitSources",
    "background_of",
    "joined",
]


@dataclasses.dataclass(frozen=True)
class Setting:
    """The model, first state and time step for which priors make their transforms.

    Attributes:
        model: the ShallowWater.
        state: the State that the run starts from.
        dt: time step [s].
        smooth: `smooth(model, position, length, deviation)` makes the errors U of a field, as Smooth.of does.
    """

    model: ShallowWater
    state: State
    dt: float
    smooth: Callable[..., Any] = Smooth.of

    def unsmoothed(self) -> "Setting":
        """This setting for a quick check: lengths are checked, but the correlations are not computed."""
        return dataclasses.replace(self, smooth=_check_length)


def _check_length(model, position, length, deviation):
    Smooth.check(model, position, length)
    return np.asarray(deviation, model.dtype)


class OfFaults(Part):
    """The rule of a parameter that is a sources.Source; files name a table of faults, or list them."""


def _no_names(value, arguments):
    is_tuple = isinstance(value, (tuple, list)) and all(isinstance(name, str) for name in value)
    return None if is_tuple and value else shown(value)


def _no_transform(value, arguments):
    return None if callable(value) and hasattr(value, "zero") else shown(value)


class Prior(ModelPart, abc.ABC):
    """Controls of an inversion with their background errors.

    Attributes:
        numbers: whether p is a vector of a few numbers that every rank holds, as the method 'linear' needs it.
        patterns: whether the control is a sum of given patterns, as the method 'green' needs it.
    """

    kind = "prior"
    results = {
        "targets": Result("a tuple of names of controls, as ('depth',)", _no_names),
        "transform": Result("a Transform, as of swmodel.adjoint.controls.transforms", _no_transform),
    }
    numbers: ClassVar[bool] = False
    patterns: ClassVar[bool] = False

    @abc.abstractmethod
    def targets(self) -> tuple[str, ...]:
        """The names of the model's controls whose values the transform returns."""

    @abc.abstractmethod
    def transform(self, setting: Setting) -> Transform:
        """The transform from p to the value of the target, or to {target: value} of several; collective.

        Raises:
            ConfigError: if the model or its grid lacks something that the prior needs, such as the control.
        """

    def label(self) -> str:
        """The name of the parameters p."""
        return snake_case(type(self).__name__)

    def unknowns(self, setting: Setting) -> int:
        """The size of p on the whole grid, on one rank; raises the errors of `transform`, at little cost."""
        return int(np.size(self.transform(setting.unsmoothed()).zero(setting.model)))


def joined(priors: dict[str, tuple[Prior, Transform]], model: ShallowWater) -> Transformed:
    """The Transformed of {label: (prior, its transform)} that a Problem takes."""
    named = {}
    for name, (prior, transform) in priors.items():
        targets = prior.targets()
        named[name] = targets[0] if len(targets) == 1 else None, transform
    return transforms.joined(named, model)


def background_of(model: ShallowWater, state: State, name: str, dt: float) -> Any:
    """The value of a model's control: a tile array or number, or {record: one of these} for time records."""
    (control,) = controls_of(model, [name])
    if control.records:
        return {k: control.of_record(k, model.dtype) for k in control.records}
    dynamics: Any = None if control.of_state else model.interval(1, 0, dt)
    return control.get(dynamics, state)


class OfElevation(Prior):
    """The initial elevation as a function of a few numbers."""

    numbers = True

    def targets(self) -> tuple[str, ...]:
        return ("initial.eta",)


class UnitSources(OfElevation):
    """The initial elevation as a sum of unit sources on a patch."""

    patterns = True

    x: tuple[float, float] = declared(Pair(COORDINATES), doc="(low, high) of the patch")
    y: tuple[float, float] = declared(Pair(COORDINATES), doc="(low, high) of the patch")
    spacing: float = parameter(None, COORDINATES, above=0.0, doc="distance between sources")
    deviation: float = parameter(None, "m", above=0.0, doc="standard deviation of each coefficient's error")
    length: float = parameter(None, "m", minimum=0.0, default=0.0, doc="correlation length of the errors; 0: none")
    uplift_only: float = parameter(
        None, "m", minimum=0.0, default=0.0, doc="w of a = w log(1 + exp(R p / w)); 0: both signs"
    )

    def transform(self, setting: Setting) -> Transform:
        x, y = ((float(low), float(high)) for low, high in (self.x, self.y))
        errors = self.deviation, self.length, self.uplift_only or None
        return seafloor.UnitSources.on(setting.model, x, y, float(self.spacing), *errors)


def _surface_above(source, prior, setting):
    """The SeaSurface of a Source on the model's grid, as the prior's `horizontal` and `kajiura` have it."""
    grid, depth = setting.model.grid, setting.model.sea_floor.depth
    return SeaSurface.of(grid, depth, region_around(source, grid), horizontal=prior.horizontal, kajiura=prior.kajiura)


class UnitFaults(OfElevation):
    """The initial elevation as a sum of the sea surface above faults, such as unit sources of SIFT, with any slips."""

    patterns = True

    source: Source = declared(
        OfFaults(("faults",), "sources.Source([...])"), doc="the faults; their slips do not count"
    )
    deviation: float = parameter(None, "m", above=0.0, doc="standard deviation of each slip's error")
    length: float = parameter(None, "m", minimum=0.0, default=0.0, doc="correlation length of the errors; 0: none")
    horizontal: bool = declared(Flag(), default=True, doc="whether horizontal motion of slopes lifts the surface, too")
    kajiura: bool = declared(Flag(), default=True, doc="whether the surface is smoothed by 1 / cosh(k H)")

    def transform(self, setting: Setting) -> Transform:
        source = seafloor.with_unit_slip(self.source)
        surface = _surface_above(source, self, setting)
        return seafloor.UnitFaults.on(setting.model, surface, source, float(self.deviation), float(self.length))

    def unknowns(self, setting: Setting) -> int:
        return len(self.source.faults.depth)


def _error(name: str) -> Any:
    relative = name in seafloor.LOGARITHMIC
    units = "1" if relative else seafloor.UNCERTAIN[name]
    doc = f"error of the {name}{', relative' * relative}; it is certain unless given"
    return parameter(None, units, above=0.0, default=None, optional=True, doc=doc)


class Faults(OfElevation):
    """The initial elevation as the sea surface above faults that slip at once; each number may have an error."""

    source: Source = declared(OfFaults(("faults",), "sources.Source([...])"), doc="the faults")
    longitude: float | None = _error("longitude")
    latitude: float | None = _error("latitude")
    strike: float | None = _error("strike")
    dip: float | None = _error("dip")
    rake: float | None = _error("rake")
    slip: float | None = _error("slip")
    depth: float | None = _error("depth")
    length: float | None = _error("length")
    width: float | None = _error("width")
    horizontal: bool = declared(Flag(), default=False, doc="whether horizontal motion of slopes lifts the surface, too")
    kajiura: bool = declared(Flag(), default=True, doc="whether the surface is smoothed by 1 / cosh(k H)")

    @staticmethod
    def spreads(values: object) -> dict[str, float]:
        """{field of Fault: error} of the errors that `values` has as attributes."""
        given = {name: getattr(values, name) for name in seafloor.UNCERTAIN}
        return {name: float(error) for name, error in given.items() if error is not None}

    @classmethod
    def conflict(cls, values: Any) -> str | None:
        if not cls.spreads(values):
            return "nothing of the faults is uncertain; give an error to slip, depth, strike, ..."
        return super().conflict(values)

    def transform(self, setting: Setting) -> Transform:
        surface = _surface_above(self.source, self, setting)
        return seafloor.FaultSource.of(setting.model, surface, self.source, self.spreads(self))

    def unknowns(self, setting: Setting) -> int:
        return len(self.spreads(self)) * len(self.source.faults.depth)


class Balanced(Prior):
    """The initial state: elevation, and velocities in geostrophic balance with its change."""

    deviation: float = parameter(None, "m", above=0.0, doc="standard deviation of the elevation's error")
    length: float = parameter(None, "m", above=0.0, doc="correlation length of the errors")

    def targets(self) -> tuple[str, ...]:
        return ("initial.eta", "initial.u", "initial.v")

    def transform(self, setting: Setting) -> Transform:
        spread = setting.smooth(setting.model, "h", self.length, self.deviation)
        return transforms.Balanced.of(setting.model, setting.state, spread)


class OfModel(Prior):
    """A control of the model, whose value is the background; subclasses declare `name`, `deviation` and `positive`."""

    name: ClassVar[str]
    deviation: ClassVar[float]
    positive: ClassVar[bool] = False

    def targets(self) -> tuple[str, ...]:
        return (self.name,)

    def label(self) -> str:
        return self.name

    def control(self, setting: Setting, kind: str) -> Control:
        """The model's Control of this name.

        Raises:
            ConfigError: if there is none, or if it is not of a kind, "field", "number" or "series".
        """
        (found,) = controls_of(setting.model, [self.name])
        actual = "field" if found.distributed else "series" if found.times else "number"
        if actual != kind:
            raise ConfigError(f"{self.name} is {KINDS[actual]} in this model; use type = {actual!r}{GIVEN[kind]}")
        return found

    def around(self, setting: Setting, spread: object, records: bool) -> Transform:
        """The transform around the background with errors `spread`."""
        background = background_of(setting.model, setting.state, self.name, setting.dt)
        if records:
            if self.positive:
                raise ConfigError(
                    f"{self.name} has time records, whose change is the same in all; positive is not for these"
                )
            return transforms.Repeated(background, spread)
        return (transforms.Positive if self.positive else transforms.Around)(background, spread)


OF_MODEL = "name of the control, such as 'initial.eta' or 'dissipation.0.rate'"
KINDS = {"field": "a field", "number": "a number", "series": "a series of values at given times"}
GIVEN = {  # what the model needs for a control of a kind
    "field": ", or give the model a field (a formula)",
    "number": ", or give the model a number",
    "series": ", or give the model a series of values",
}
POSITIVE = "whether it stays positive; the error is then relative"


class Field(OfModel):
    """A field of the model, whose value in the experiment is the background."""

    name: str = declared(Text(), static=True, doc=OF_MODEL)
    deviation: float = parameter(above=0.0, doc="standard deviation of its error, in the control's units")
    length: float = parameter(None, "m", above=0.0, doc="correlation length of the errors")
    positive: bool = declared(Flag(), default=False, doc=POSITIVE)

    def transform(self, setting: Setting) -> Transform:
        found = self.control(setting, "field")
        spread = setting.smooth(setting.model, found.position, self.length, self.deviation)
        return self.around(setting, spread, bool(found.records))


class Number(OfModel):
    """A number of the model, whose value in the experiment is the background."""

    name: str = declared(Text(), static=True, doc=OF_MODEL)
    deviation: float = parameter(above=0.0, doc="standard deviation of its error, in the control's units")
    positive: bool = declared(Flag(), default=False, doc=POSITIVE)

    def transform(self, setting: Setting) -> Transform:
        found = self.control(setting, "number")
        return self.around(setting, np.asarray(self.deviation, setting.model.dtype), bool(found.records))


class Series(OfModel):
    """Values of the model at given times, such as the level at a side or the points of a track.

    The values in the experiment are the background. Their errors are correlated in time by exp(-t^2 / 2 length^2).
    """

    name: str = declared(Text(), static=True, doc="name of the control, such as 'boundary.0.elevation.values'")
    deviation: float = parameter(above=0.0, doc="standard deviation of the errors, in the control's units")
    length: float = parameter(None, "s", minimum=0.0, default=0.0, doc="correlation time of the errors; 0: none")
    positive: bool = declared(Flag(), default=False, doc=POSITIVE)

    def transform(self, setting: Setting) -> Transform:
        times = self.control(setting, "series").times
        spread = transforms.Correlated.in_time(setting.model, times, float(self.length), float(self.deviation))
        return self.around(setting, spread, records=False)
