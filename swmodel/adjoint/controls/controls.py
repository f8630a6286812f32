"""Controls: what a cost is differentiated in, by name, and where it sits in a model.

    initial.u, initial.v, initial.eta   the state to start from; zero on land and at coasts whatever comes
    initial.dye                         of a tracer of that name, as files show it
    tracer.0.x                          a field of the first tracer
    depth, gravity                      H at rest [m], after clipping: it moves no coast; g [m s-2]
    forcing.0.x                         a field of the first forcing: a number, an array, or time records
    dissipation.0.viscosity             of the first dissipation term
    boundary.0.elevation                of the first boundary, counted as they were given
    uplift                              of the sea floor: its time records, without the first, from which it rises

A value is a number that every rank holds, a tile's array, or {record: one of these} for time records. `Transformed`
puts any differentiable function from parameters to such values in front.
"""

import dataclasses
import difflib
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np
from numpy.typing import DTypeLike

from ...dynamics.shallow_water import Dynamics
from ...dynamics.terms import Series
from ...errors import ConfigError
from ...fields.parts import control_names, positions_of, units_of
from ...fields.pytrees import replace
from ...fields.state import State
from ...models.shallow_water import ShallowWater
from ...parallel.halo import Sides, without_padding

__all__ = ["Control", "ControlDict", "Transformed", "controls_of", "names_of"]

ControlDict = dict[str, Any]
"""{name: value}: tile arrays (ny, nx), numbers and vectors that every rank holds, or {record: one of these}."""


@dataclasses.dataclass(frozen=True)
class Control:
    """One array, number or series of records of a model or of its first state.

    Attributes:
        name: as users write it.
        position: "h", "u", "v", or "scalar" for what every rank holds.
        units: of the control [text].
        place: where it is: ("state", field), ("dynamics", field), or ("terms" or "opens" or "tracers", k, field).
        series: the model's Series, where it has time records.
        records: the numbers of those that are controls; () without.
    """

    name: str
    position: str
    units: str
    place: tuple
    series: Any = None
    records: tuple = ()

    @property
    def of_state(self) -> bool:
        return self.place[0] == "state"

    @property
    def distributed(self) -> bool:
        return self.position != "scalar"

    def get(self, dynamics: Dynamics, state: State | None) -> Any:
        """What it is in a Dynamics and a State; a Window where it has time records."""
        kind, *where = self.place
        if kind in ("state", "dynamics"):
            return getattr(state if kind == "state" else dynamics, where[0])
        return getattr(getattr(dynamics, kind)[where[0]], where[1])

    def put(self, dynamics: Dynamics, state: State | None, value: Any) -> tuple[Dynamics, Any]:
        """(dynamics, state) with `value` in its place; of time records (first, second) of the window."""
        kind, *where = self.place
        if kind == "state":
            return dynamics, replace(state, **{where[0]: value})
        value = self._as_held(self.get(dynamics, state), value)
        if kind == "dynamics":
            return replace(dynamics, **{where[0]: value}), state
        terms = list(getattr(dynamics, kind))
        terms[where[0]] = replace(terms[where[0]], **{where[1]: value})
        return replace(dynamics, **{kind: tuple(terms)}), state

    def _as_held(self, held, value):
        return replace(held, first=value[0], second=value[1]) if self.records else value

    def window_records(self, step: int, dt: float) -> tuple[int, ...]:
        """(first, second): the numbers of the records that bracket `step`."""
        return tuple(int(record) for record in self.series.bracket(step, dt)[:2])

    def of_record(self, number: int, dtype: DTypeLike) -> Any:
        """A record as the model holds it, tile by tile."""
        return self.series.record(number, dtype)


@dataclasses.dataclass(frozen=True)
class Transformed:
    """Parameters of one's own in front of controls.

    `function` is called inside `communicator.spmd`, with this tile's part of distributed parameters, and with numbers
    and vectors of which every rank holds the whole (they have gone through `communicator.replicated` already, so that
    they may meet tile arrays; what the function itself gets from `communicator.sum` must go through it too). Arrays
    that it needs come in as its own leaves, where it is a pytree (a frozen dataclass made by `pytrees.pytree`, with
    `__call__`, or jax.tree_util.Partial), not as captured constants.

    Args:
        parameters: {name: value}: numbers and vectors are replicated, arrays of two dimensions are tiles
            (model.scatter).
        function: `function(parameters) -> {control name: value}`, differentiable; values of time records are
            {record: value}.
        units: {name: text} of the parameters.
    """

    parameters: dict
    function: Any
    units: dict = dataclasses.field(default_factory=dict)


def names_of(model: ShallowWater) -> list[str]:
    """The names of all controls that a model has."""
    return list(_catalogue(model))


def controls_of(model: ShallowWater, names: Iterable[str]) -> list[Control]:
    """The Controls of these names.

    Raises:
        ConfigError: for names that the model does not have, all of them at once, each with the nearest one.
    """
    known = _catalogue(model)
    mistakes = []
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1, 0.0)
            why = " without a source (give it source=BottomMotion(...), of zeros if need be)" * (name == "uplift")
            mistakes.append(
                f"control {name!r} does not exist in this model{why}; did you mean {near[0]!r}? "
                f"It has {', '.join(known)}."
            )
    if mistakes:
        raise ConfigError(mistakes)
    return [known[name] for name in names]


def _catalogue(model):
    """{name: Control} of all that a model has."""
    found = [Control(f"initial.{x.name}", x.position, x.units, ("state", x.name)) for x in model.variables]
    found.append(Control("depth", "h", "m", ("dynamics", "depth")))
    found.append(Control("gravity", "scalar", "m s-2", ("dynamics", "gravity")))
    for k, (name, condition) in enumerate(zip(model.open_names, model.opens)):
        found += _fields(condition, name, ("opens", k))
    for k, (name, term) in enumerate(zip(model.term_names, model.terms)):
        found += _fields(term, name, ("terms", k))
    for k, tracer in enumerate(model.tracers):
        found += _fields(tracer, f"tracer.{k}", ("tracers", k))
    if model.uplift is not None:
        records = tuple(range(1, len(model.uplift.times)))
        found.append(Control("uplift", "h", "m", ("dynamics", "uplift"), model.uplift, records))
    return {control.name: control for control in found}


def _fields(term, name, place):
    """The Controls of a term's array fields."""
    positions = positions_of(term)
    for key in control_names(type(term)):
        value = getattr(term, key)
        series, records = (value, tuple(range(len(value.times)))) if isinstance(value, Series) else (None, ())
        if series is not None:  # of each tile, or, made without a communicator, of the whole
            value = (next(iter(series.values.values())) if isinstance(series.values, dict) else series.values)[0]
        if len(jax.tree.leaves(value)) == 1 and np.ndim(value) in (0, 2):
            position = positions.get(key, "scalar") if np.ndim(value) == 2 else "scalar"
            yield Control(f"{name}.{key}", position, units_of(type(term), key), (*place, key), series, records)


def masks_of(model: ShallowWater) -> dict[str, jax.Array]:
    """{position: tile array}, 1 where a state may differ from zero."""
    masks = {"u": model.faces("u"), "v": model.faces("v"), "h": model.wet}
    return {position: model.domain.cut(mask) for position, mask in masks.items()}


def tidy(control: Control, value: Any, sides: Sides) -> Any:
    """A tile's value without what lies in its padding, so that its gradient is zero there."""
    return without_padding(value, sides) if control.distributed else value
