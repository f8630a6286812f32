"""Checks of the arguments of a ShallowWater: names of tracers, parts that exclude one another, memory."""

import dataclasses
import datetime
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..dynamics.domain import FLOOR_RULES
from ..dynamics.layer import over_deep_water
from ..dynamics.layers import Layers
from ..dynamics.shores import MOVING
from ..dynamics.system import declared_fields
from ..dynamics.tracers import Tracer
from ..dynamics.transported import Transported
from ..errors import ConfigError
from ..fields.parameters import Number, Part, Precision, in_utc
from ..fields.parts import check_layer, of_part
from ..fields.state import RESERVED
from ..fields.variables import PROGNOSTIC, VARIABLES, Variable, layer_of
from ..forcing import records
from ..forcing.atmosphere import BarometricElevation, InverseBarometer
from ..grids.grid import Grid
from ..parallel.decomposition import Decomposition
from ..parallel.halo import SIDES
from ..runtime import memory
from ..stepping.explicit import TimeStepper
from .parts import check_origins, named_series, one_or_more, read_ends

if TYPE_CHECKING:
    from .shallow_water import ShallowWater


_TERMS = Part(("on_tile",), "LinearDrag(rate=1e-6), or one of a class that derives from sw.Term", several=True)
_BOUNDARIES = Part(("on_tile",), "Flather(), or one of a class that derives from sw.OpenBoundary", several=True)
RULES = {
    "grid": Part(("coordinates", "shape"), "CartesianGrid(nx, ny, x, y)"),
    "forcing": _TERMS,
    "dissipation": _TERMS,
    "boundaries": _BOUNDARIES,
    "source": Part(("series",), "BottomMotion(times, uplift)", optional=True),
    "least_thickness": Number(None, "m", minimum=0.0, optional=True),
    "dtype": Precision(),
    **FLOOR_RULES,
    **{name: declaration["argument"] for name, declaration in declared_fields("argument")},
}


def variables_in_state(tracers: int, layers: Layers | None) -> int:
    """The number of arrays of a state with so many tracers, of all layers."""
    return (len(PROGNOSTIC) + tracers) * (1 if layers is None else layers.count)


def check_memory(
    grid: Grid,
    decomposition: Decomposition,
    tiles: int,
    dtype: np.dtype,
    tracers: Transported | Sequence[Transported],
    layers: Layers | None,
) -> None:
    """Raise ConfigError if the arrays of a model would need more memory than there is, from the sizes alone."""
    tile = math.prod(decomposition.tile(0).shape) * tiles
    variables = variables_in_state(len(one_or_more(tracers)), layers)
    needed = memory.of_model(memory.on_host(tile), tile, dtype.itemsize, variables=variables)
    memory.require(needed, f"ShallowWater: a grid of {grid.nx:,} x {grid.ny:,} cells", "use fewer cells, or more ranks")


def check_names(variables: Sequence[Variable]) -> None:
    """Raise ValueError for a tracer without a name of its own."""
    names = [variable.name for variable in variables]
    for k, name in enumerate(names):
        if name in (*names[:k], *RESERVED, *(VARIABLES if k >= len(PROGNOSTIC) else ())) or not name.isidentifier():
            raise ValueError(
                f"ShallowWater: tracers: {name!r} is taken, or is no name; give each tracer one of its own, of "
                "letters, digits and underscores."
            )


def _without_limiter(model):
    """The names of the tracers whose scheme may make new extrema."""
    return [x.name for x in model.tracers if isinstance(x, Tracer) and not x.scheme.growth]


def check_momentum(model: "ShallowWater") -> None:
    """Raise ConfigError for parts that MomentumConserving, or a shore that moves, does not support."""
    form = type(model.momentum).__name__
    if model.film is not None and not model.momentum.conserves_momentum:
        raise ConfigError(
            f"ShallowWater: {MOVING} needs a form that conserves momentum, and momentum is {form}(); give "
            "momentum=MomentumConserving()."
        )
    if model.momentum.conserves_momentum and model.linear:
        raise ConfigError(f"ShallowWater: {form} is not linear, and linear=True was given; leave one out.")
    if model.momentum.conserves_momentum and any(model.grid.poles):
        raise ConfigError(f"ShallowWater: {form} has no form at a pole, where this grid ends; end it before.")
    closing = [type(condition).__name__ for condition in model.open_boundaries if condition.closes_volume]
    if model.momentum.conserves_momentum and closing:
        raise ConfigError(
            f"ShallowWater: {closing[0]} computes the flow through the side from volume fluxes without limiters, and "
            f"{form} limits them; use WaveMaker(total=True), which holds a level too, Flather, or another form."
        )
    rippling = _without_limiter(model)
    if model.film is not None and rippling:
        raise ConfigError(
            f"ShallowWater: tracer {rippling[0]} has a scheme without limiter, which may take more from a drying cell "
            f"than it holds; give scheme=FluxLimited(), or leave {MOVING} out."
        )


def check_linear(model: "ShallowWater") -> None:
    """Raise ConfigError for a part that is not linear in a model that is."""
    for name, term in model.named_parts("terms", "open_boundaries"):
        if model.linear and term.nonlinear:
            other = "Flather(incoming=...)" if name in model.part_names["open_boundaries"] else "LinearDrag"
            with of_part(name):
                raise ConfigError(
                    f"{type(term).__name__} is not linear, and linear=True was given; use {other}, or linear=False."
                )


def check_sides(model: "ShallowWater") -> None:
    """Raise ConfigError for an open side where the grid is periodic, and for one with two conditions."""
    kinds: dict[str, str] = {}
    for name, condition in model.named_parts("open_boundaries"):
        for side in condition.sides:
            if side in kinds:
                with of_part(f"{name}.sides"):
                    raise ConfigError(
                        f"{type(condition).__name__}: the {side} side is open already, by {kinds[side]}; give it one "
                        "condition."
                    )
            kinds[side] = type(condition).__name__
            if model.grid.periodic_x if side in ("west", "east") else model.grid.periodic_y:
                with of_part(f"{name}.sides"):
                    raise ConfigError(
                        f"{type(condition).__name__}: the {side} side cannot be open, the grid is periodic there; "
                        "leave it out."
                    )


def check_level(model: "ShallowWater") -> None:
    """Raise ConfigError for open sides none of which holds the mean level."""
    if model.open_boundaries and not any(part.holds_level for part in (*model.open_boundaries, *model.terms)):
        raise ConfigError(
            f"{type(model.open_boundaries[0]).__name__}: no open side holds the level, which may rise or fall without "
            "end; add a Sponge, or give one side Flather or ChapmanFlather, which are the conditions for tides."
        )


def check_barometers(model: "ShallowWater") -> None:
    """Raise ConfigError for an inverse barometer without an air pressure, or with another reference; collective."""
    pressures = [term for term in model.terms if term.has_pressure]
    for name, condition in model.named_parts("open_boundaries", "terms"):
        for key, value in vars(condition).items():
            if not isinstance(value, BarometricElevation):
                continue
            with of_part(f"{name}.{key}"):
                if not pressures:
                    raise ConfigError(
                        "InverseBarometer: no forcing of the model has an air pressure; add AirPressure or Cyclone, or "
                        "leave the inverse barometer out."
                    )
                water = model.domain.cut(model.sea_floor.wet)
                for term in pressures:
                    term.check_reference(value.reference, water, model.communicator.agree)


def check_water(model: "ShallowWater") -> None:
    """Raise ConfigError for an open side along which there is land alone, and for terms without water; collective.

    Of a condition on all four sides, which is what it has unless sides are named, one side needs water. Nothing is
    checked where one tile of many is looked at, since the water may be in the others.
    """
    if not model.communicator.reaches_all:
        return
    found = {side: _has_water(model, side) for side in model.open_sides}
    for name, condition in model.named_parts("open_boundaries"):
        dry = [side for side in condition.sides if not found[side]]
        if not dry or (len(condition.sides) == len(SIDES) and len(dry) < len(SIDES)):
            continue
        remedy = "leave it out, or open another side" if len(dry) == 1 else "leave the condition out"
        sides = f"the {dry[0]} side is" if len(dry) == 1 else f"the {' and '.join(dry)} sides are"
        with of_part(f"{name}.sides"):
            raise ConfigError(
                f"{type(condition).__name__}: {sides} open, and every cell along "
                f"{'it' if len(dry) == 1 else 'them'} is land; {remedy}."
            )
    for name, term in model.named_parts("terms"):
        with of_part(name):
            term.check_water(model)


def _has_water(model, side):
    """Whether there is water along a side of the grid; collective."""
    ny, nx = model.grid.shape
    wet = False
    for rank in model.communicator.ranks:
        tile = model.decomposition.tile(rank)
        rows, columns = tile.slices
        lines = {
            "west": (rows, slice(0, 1)) if columns.start == 0 else None,
            "east": (rows, slice(nx - 1, nx)) if columns.stop == nx else None,
            "south": (slice(0, 1), columns) if rows.start == 0 else None,
            "north": (slice(ny - 1, ny), columns) if rows.stop == ny else None,
        }
        if lines[side] is not None:
            wet = wet or bool(model.sea_floor.wet.block(*lines[side]).any())
    return model.communicator.agree(wet)


def check_layers(model: "ShallowWater") -> None:
    """Raise ConfigError for parts that need other layers or do not support them yet, and shallow water; collective."""
    for name, term in model.named_parts("terms", "tracers"):
        with of_part(f"{name}.layer"):
            check_layer(type(term).__name__, term.layer, model.layer_count)
    for name, term in model.named_parts("terms"):
        if term.between_layers and model.layer_count == 1:
            with of_part(name):
                raise ConfigError(
                    f"{type(term).__name__} acts between layers, and the model has one; give more layers, or leave it "
                    "out (LinearDrag is the friction at the sea floor)."
                )
    if model.layers is None:
        return
    supported = {
        MOVING: model.film is None,
        f"momentum={type(model.momentum).__name__}()": not model.momentum.conserves_momentum,
        f"core={type(model.core).__name__}()": model.core.steps_layers,
        "source": model.uplift is None,
    }
    own = {type(x).__name__: not x.state_variables() for x in model.terms}
    own |= {type(x).__name__: x.takes_modes for x in model.open_boundaries}
    for what, works in (supported | own).items():
        if not works:
            with of_part("layers"):
                raise ConfigError(f"ShallowWater: layers and {what} do not work together yet; leave one of them out.")
    for name, term in model.named_parts("terms"):
        names_layers = any(field.name == "layer" for field in dataclasses.fields(term))
        if term.changes_elevation and term.layer is None and not names_layers:
            with of_part(name):
                raise ConfigError(
                    f"{type(term).__name__}: it raises eta, and there are {model.layer_count} layers; give the class "
                    "an attribute `layer`, the number of the layer whose eta it raises, 0 at the top."
                )
    for tracer in model.tracers:
        if layer := layer_of(tracer.name)[1]:
            raise ConfigError(
                f"ShallowWater: tracers: {tracer.name!r} is the name of a variable in layer {layer + 1}; give the "
                "tracer a name that does not end in an underscore and a number."
            )
    model.layers.check_depth(model.sea_floor.depths[0], model.least_thickness)


def check_model(model: "ShallowWater") -> None:
    """Raise ConfigError for parts of a model that exclude one another; collective."""
    for check in (check_momentum, check_linear, check_sides, check_level, check_water, check_barometers):
        check(model)
    check_calendars(model)
    check_origins(model.origins, model.start)


def check_stepper(model: "ShallowWater", stepper: TimeStepper) -> None:
    """Raise ConfigError for a stepper that cannot step the momentum equation's form, or a condition on open sides."""
    closing = [type(condition).__name__ for condition in model.open_boundaries if condition.closes_volume]
    if stepper.is_implicit and closing:
        raise ConfigError(
            f"{type(stepper).__name__}: {closing[0]} computes the flow through the side from that through the other "
            "faces at the same time, which needs an explicit scheme; use Flather, or another stepper."
        )
    keeping = [part for part in (*model.terms, *model.open_boundaries) if part.state_variables()]
    if stepper.is_implicit and keeping:
        raise ConfigError(
            f"{type(stepper).__name__}: {type(keeping[0]).__name__} steps {keeping[0].state_variables()[0].name}, "
            "which needs an explicit scheme; use another part of its kind, or another stepper."
        )
    _check_steps_layers(model, stepper)
    if model.momentum.conserves_momentum and not stepper.conserves_momentum:
        raise ConfigError(
            f"{type(stepper).__name__}: {type(model.momentum).__name__} steps momentum in stages of its own, which "
            "this scheme does not have; use ForwardBackwardHancock or SSPRK3."
        )
    if stepper.needs_momentum_form and not model.momentum.conserves_momentum:
        raise ConfigError(
            f"{type(stepper).__name__} steps the momentum of MomentumConserving, and momentum is "
            f"{type(model.momentum).__name__}(); give momentum=MomentumConserving(), or use another stepper, such as "
            "ForwardBackward."
        )
    following = [type(term).__name__ for term in model.terms if term.follows_pressure]
    if stepper.needs_momentum_form and following:
        raise ConfigError(
            f"{type(stepper).__name__}: {following[0]} acts with the elevation at the beginning of a step, and the "
            "pressure with that at both ends, so that waves would be damped; use SSPRK3."
        )
    rippling = _without_limiter(model)
    if stepper.needs_momentum_form and rippling:
        raise ConfigError(
            f"{type(stepper).__name__}: tracer {rippling[0]} has a scheme without limiter, which grows in a step of "
            "one stage; give scheme=FluxLimited(), or use SSPRK3."
        )


def _check_steps_layers(model, stepper):
    """Raise ConfigError for a scheme that does not step several layers, or not these."""
    if model.layers is not None and stepper.needs_modes:
        raise ConfigError(
            f"{type(stepper).__name__} steps one layer; use ForwardBackward, AB2, AB3, SSPRK3, RK4, SemiImplicit or "
            "SplitExplicit."
        )
    if over_deep_water(model.layers) and stepper.is_implicit:
        raise ConfigError(
            f"{type(stepper).__name__}: over a deep layer at rest the surface has no waves, and this scheme is for "
            "these alone; use ForwardBackward, AB2, AB3, SSPRK3 or RK4."
        )


@dataclasses.dataclass(frozen=True)
class Dated:
    """A part of a model with a date, which is that of step 0.

    Attributes:
        start: date and time of step 0, in UTC.
        part: its name in experiment files, as "boundary.0.elevation".
        kind: "tide", "track", "records", or "date" of a part of another kind.
    """

    start: datetime.datetime
    part: str
    kind: str

    @property
    def name(self) -> str:
        """The name of the part for messages."""
        return f"the {self.kind} of {self.part}"

    def check(self, who: str, start: datetime.datetime | None) -> None:
        """Raise ConfigError if `start`, of `who`, is another date and time than that of the part."""
        if start is not None and in_utc(start) != self.start:
            counts = "count" if self.kind == "records" else "counts"
            raise ConfigError(
                f"{who}: start = {start}, and {self.name} {counts} from {self.start}; both are the date of step 0, "
                "give the same."
            )


def dated_parts(parts: Mapping[str, object]) -> tuple[Dated, ...]:
    """The parts of a model with a date; all have the same one.

    Raises:
        ConfigError: if they differ, or if some tides have none.
    """
    found, undated = [], []
    for name, part in parts.items():
        for key, value in {"": part, **getattr(part, "__dict__", {})}.items():
            value = value.plus if isinstance(value, InverseBarometer) else value
            where, moment = f"{name}.{key}".rstrip("."), getattr(value, "start", None)
            if isinstance(moment, datetime.datetime):
                found.append(Dated(in_utc(moment), where, getattr(value, "dated_by", "date")))
            elif hasattr(value, "constituents"):
                undated.append(where)
    for other in found[1:]:
        if other.start != found[0].start:
            one = found[0]
            raise ConfigError(
                f"ShallowWater: {one.part} starts on {one.start}, and {other.part} on {other.start}; both are the "
                "date of step 0, give one."
            )
    if found and undated:
        raise ConfigError(
            f"ShallowWater: {undated[0]} has tides without a start, so that their phases count from step 0, and "
            f"{found[0].part} starts on {found[0].start}; give both the date of step 0."
        )
    return tuple(found)


def check_calendars(*models: "ShallowWater") -> None:
    """Raise ConfigError for files whose dates drift apart, from one another or from those of tides and tracks."""
    others = [dated.name for model in models for dated in model.dated if dated.kind != "records"]
    series = [each for model in models for each in named_series(model).items()]
    if series:
        records.check_calendars(series, others[0] if others else None)


def check_gregorian(model: "ShallowWater", start: datetime.datetime | None, who: str) -> None:
    """Raise ConfigError for files in another calendar than the Gregorian one, by whose dates `who` finds phase lags.

    Args:
        start: the date of step 0, None where phase lags count from step 0.
        who: as "the harmonic analysis".
    """
    if start is not None:
        records.check_calendars(named_series(model).items(), who)


def check_files(model: "ShallowWater", end: float) -> None:
    """Read the first and last values of files that a run until `end` [s] needs, as ShallowWater.check_files."""
    model.domain.together(lambda: read_ends(named_series(model), end))
