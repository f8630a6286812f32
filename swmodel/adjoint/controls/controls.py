"""Controls: the inputs of a model with respect to which a cost is differentiated, by name.

    initial.u, initial.v, initial.eta   the first state; values on land and at coasts are set to zero
    initial.dye                         the concentration of the tracer "dye" in the first state
    tracer.0.x                          the field x of the first tracer
    layers.thickness                    H_k of the layers above the lowest one [m]
    layers.densities                    less that of the top layer [kg m-3]; likewise layers.reduced_gravities
    depth, gravity                      H at rest [m], after clipping, so that no coast moves; g [m s-2]
    forcing.0.x                         the field x of the first forcing: a number, an array, or time records
    dissipation.0.viscosity             a field of the first dissipation term
    boundary.0.elevation                a field of the first boundary, in the order in which they were given
    boundary.0.elevation.phase.M2       the phase lag of a constituent of a Tide, likewise its amplitude
    boundary.0.elevation.values         the values (n,) of a Record, at its times
    boundary.0.elevation.height         the height of a SolitaryWave
    uplift                              the time records of the sea floor's uplift, without the first

In a family of nested grids they are those of the outermost one. A control has the value c_0 in the family as it was
made. With another value c every nest changes its own value of the control by P (c - c_0). P interpolates a field
linearly between the cells of the grid around the nest, elevations and depths between wet cells alone, and is 1 for a
number. So an uplift raises all grids alike, and a gradient holds what a change does in all of them.

A value is a number that every rank holds, a tile array (ny, nx), or {record: one of these} for time records. A
`Transformed` computes such values from parameters by any differentiable function.
"""

import dataclasses
import difflib
import functools
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np
from numpy.typing import DTypeLike

from ...dynamics.system import System
from ...dynamics.terms import Series
from ...errors import ConfigError
from ...fields.parts import control_names, positions_of
from ...fields.state import State, replace
from ...forcing.atmosphere import BarometricElevation
from ...forcing.tides import Harmonics
from ...forcing.waves import Table
from ...models.shallow_water import ShallowWater
from ...nests.family import Family
from ...parallel.halo import Sides, without_padding

ControlDict = dict[str, Any]
"""{name: value}: tile arrays (ny, nx), numbers and vectors that every rank holds, or {record: one of these}."""


@dataclasses.dataclass(frozen=True)
class Control:
    """One array, number or series of records of a model or of its first state.

    Attributes:
        name: the name that users write.
        position: "h", "u" or "v" on the C-grid, or "scalar" if every rank holds the value.
        units: units of the control.
        place: its location: ("state", field), ("dynamics", field, *keys) or (group, k, field, *keys). The last is
            a field of the k-th part of the group "terms", "open_boundaries" or "tracers". `keys` lead to an array
            within a field that is not an array itself, such as a Tide.
        series: the model's Series, if the control has time records.
        records: the numbers of the records that are controls; () without records.
        times: the moments [s] of the values of a line, such as the points of a track or a Record; () of others.
    """

    name: str
    position: str
    units: str
    place: tuple
    series: Any = None
    records: tuple = ()
    times: tuple = ()

    @property
    def of_state(self) -> bool:
        """Whether the control is a field of the first state."""
        return self.place[0] == "state"

    @property
    def distributed(self) -> bool:
        """Whether the values of the control are tile arrays."""
        return self.position != "scalar"

    def get(self, dynamics: System, state: State | None) -> Any:
        """The value in a System and a State; a Window if the control has time records."""
        kind, *where = self.place
        if kind == "state":
            return getattr(state, where[0])
        if kind == "dynamics":
            return functools.reduce(_inside, where, dynamics)
        return functools.reduce(_inside, where[1:], getattr(dynamics, kind)[where[0]])

    def put(self, dynamics: System, state: State | None, value: Any) -> tuple[System, Any]:
        """(dynamics, state) with `value` in place; for time records, `value` is (first, second) of a window."""
        kind, *where = self.place
        if kind == "state":
            return dynamics, replace(state, **{where[0]: value})
        if self.records:
            value = replace(self.get(dynamics, state), first=value[0], second=value[1])
        if kind == "dynamics":
            changed: Any = _with_inside(dynamics, where, value)
            return changed, state
        terms = list(getattr(dynamics, kind))
        terms[where[0]] = _with_inside(terms[where[0]], where[1:], value)
        return replace(dynamics, **{kind: tuple(terms)}), state

    def window_records(self, step: int, dt: float) -> tuple[int, ...]:
        """(first, second): the numbers of the records that bracket `step`."""
        return tuple(int(record) for record in self.series.bracket(step, dt)[:2])

    def of_record(self, number: int, dtype: DTypeLike) -> Any:
        """The tile array, or number, of one record of the model."""
        return self.series.record(number, dtype)


def _inside(holder, key):
    return holder[key] if isinstance(holder, dict) else getattr(holder, key)


def _with_inside(holder, keys, value):
    """A copy of a dataclass, or a dict, with `value` at the path `keys` inside it."""
    key, *rest = keys
    value = _with_inside(_inside(holder, key), rest, value) if rest else value
    return {**holder, key: value} if isinstance(holder, dict) else replace(holder, **{key: value})


@dataclasses.dataclass(frozen=True)
class FamilyControl(Control):
    """A Control of a FamilySystem and the States of its grids.

    Attributes:
        outer: the same Control of the outermost grid.
        nests: that of each nest; None for a nest that does not have it, or has another kind of part in its place.
    """

    outer: Any = None
    nests: tuple[Control | None, ...] = ()

    def get(self, dynamics: Any, state: Any) -> Any:
        return self.outer.get(dynamics.systems[0], None if state is None else state[0])

    def put(self, dynamics: Any, state: Any, value: Any) -> tuple[Any, Any]:
        systems, states = list(dynamics.systems), [None] * len(dynamics.systems) if state is None else list(state)
        change = jax.tree.map(lambda new, old: new - old, value, self._values(self.get(dynamics, state)))
        systems[0], states[0] = self.outer.put(systems[0], states[0], value)
        changes = [change]
        for k, (around, border, own) in enumerate(zip(dynamics.inside, dynamics.borders, self.nests, strict=True), 1):
            changes.append(change if not self.distributed else self._on_nest(border, changes[around]))
            if own is not None:
                old = self._values(own.get(systems[k], states[k]))
                new = jax.tree.map(lambda old, change: old + change, old, changes[k])
                systems[k], states[k] = own.put(systems[k], states[k], new)
        return dataclasses.replace(dynamics, systems=tuple(systems)), None if state is None else tuple(states)

    def _values(self, held):
        return (held.first, held.second) if self.records else held

    def _on_nest(self, border, change):
        of_water = self.of_state or self.name == "depth"
        return jax.tree.map(lambda x: border.on_nest(x, self.position, of_water), change)


@dataclasses.dataclass(frozen=True)
class Transformed:
    """Controls that are a differentiable function of other parameters.

    `function` is called inside `communicator.spmd`. It gets this tile's part of distributed parameters, and numbers and
    vectors that every rank holds. The latter have gone through `communicator.replicated`, so that they can be combined
    with tile arrays; results of `communicator.sum` must go through it too. Arrays that the function needs are leaves of
    a callable pytree (a frozen dataclass made by `pytrees.pytree`, or jax.tree_util.Partial), not captured constants.

    Args:
        parameters: {name: value}: numbers and vectors are replicated, arrays of two dimensions are tiles
            (model.scatter).
        function: `function(parameters) -> {control name: value}`, differentiable; values of time records are
            {record: value}.
        units: {name: units} of the parameters.
    """

    parameters: dict
    function: Any
    units: dict = dataclasses.field(default_factory=dict)


def units_in(transformed: Transformed) -> dict[str, str]:
    """{parameter: units} of a Transformed; raises ConfigError for units of unknown parameters."""
    unknown = sorted(set(transformed.units) - set(transformed.parameters))
    if unknown:
        raise ConfigError(
            f"Transformed: got units for {', '.join(unknown)}, and its parameters are "
            f"{', '.join(transformed.parameters)}; give units for these."
        )
    return {name: transformed.units.get(name, "1") for name in transformed.parameters}


def split_controls(controls: str | Transformed | Iterable[str | Transformed]) -> tuple[list[Transformed], list[str]]:
    """(the Transformed objects, the names of the model's controls)."""
    controls = [controls] if isinstance(controls, (str, Transformed)) else list(controls)
    return [c for c in controls if isinstance(c, Transformed)], [c for c in controls if not isinstance(c, Transformed)]


def names_of(model: ShallowWater) -> list[str]:
    """The names of all controls of a model."""
    return list(_catalogue(model))


def controls_of(model: ShallowWater | Family, names: Iterable[str]) -> list[Control]:
    """The Controls with these names; of a Family FamilyControls.

    Raises:
        ConfigError: if the model lacks some of them; it names all of these, each with the most similar control.
    """
    outer, *nests = model.models.values() if isinstance(model, Family) else [model]
    known = _catalogue(outer)
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
    found = [known[name] for name in names]
    if not isinstance(model, Family):
        return found
    return [FamilyControl(**vars(c), outer=c, nests=tuple(_in_nest(c, outer, nest) for nest in nests)) for c in found]


def _in_nest(control, outer, model):
    """The Control of a nest's model that changes with `control`; None if there is none of the same kind of part."""
    found = _catalogue(model).get(control.name)
    if found is None or found.position != control.position or bool(found.records) != bool(control.records):
        return None
    if control.records and not np.array_equal(found.series.times, control.series.times):
        return None
    if control.place[0] in ("state", "dynamics"):
        return found
    both = (getattr(one.system, place[0])[place[1]] for one, place in ((outer, control.place), (model, found.place)))
    return found if len({type(part) for part in both}) == 1 else None


def _catalogue(model):
    """{name: Control} of all controls of a model."""
    stepped = model.system.variables
    found = [Control(f"initial.{x.name}", x.position, x.units, ("state", x.name)) for x in stepped]
    found.append(Control("depth", "h", "m", ("dynamics", "depth")))
    found.append(Control("gravity", "scalar", "m s-2", ("dynamics", "gravity")))
    if model.layers is not None:
        found += _fields(model.layers, "layers", ("dynamics", "layers"), model.communicator)
    for group in model.part_names:
        for k, (name, part) in enumerate(model.named_parts(group)):
            found += _fields(part, name, (group, k), model.communicator)
    if model.uplift is not None:
        records = tuple(range(1, len(model.uplift.times)))
        found.append(Control("uplift", "h", "m", ("dynamics", "uplift"), model.uplift, records))
    return {control.name: control for control in found}


def _fields(term, name, place, communicator):
    """The Controls of a term's fields: arrays, numbers and time records."""
    positions = positions_of(type(term))
    for key in control_names(type(term)):
        held, path = getattr(term, key), (*place, key)
        if isinstance(held, BarometricElevation):
            held, path = held.plus, (*path, "plus")
        if isinstance(held, Harmonics):
            yield from _constituents(held, f"{name}.{key}", term.units_of(key), positions[key], path)
            continue
        if isinstance(held, Table):
            times = tuple(held.points(communicator))
            yield Control(f"{name}.{key}.values", "scalar", term.units_of(key), (*path, "values"), times=times)
            continue
        value, series, records = held, None, ()
        if isinstance(held, Series):  # of each tile, or of the whole grid if it was made without a communicator
            series, records = held, tuple(range(len(held.times)))
            value = (next(iter(held.values.values())) if isinstance(held.values, dict) else held.values)[0]
        leaves = jax.tree_util.tree_leaves_with_path(value)
        if len(leaves) == 1 and np.ndim(leaves[0][1]) in (0, 1, 2):
            position = positions.get(key, "scalar") if np.ndim(leaves[0][1]) == 2 else "scalar"
            times = term.times if key in getattr(term, "lines", ()) else ()
            within = [step.name for step in leaves[0][0]]  # the field of an object that holds one array, as of a wave
            whole = ".".join((name, key, *within))
            yield Control(whole, position, term.units_of(key), (*path, *within), series, records, times)


def _constituents(tide, name, units, position, path):
    """The Controls of the amplitudes and phases of a parameter that follows a Tide."""
    for part, unit in (("amplitude", units), ("phase", "degree")):
        for constituent, value in getattr(tide, part).items():
            at = position if np.ndim(value) == 2 else "scalar"
            yield Control(f"{name}.{part}.{constituent}", at, unit, (*path, part, constituent))
    if tide.level is not None:
        yield Control(f"{name}.level", position if np.ndim(tide.level) == 2 else "scalar", units, (*path, "level"))


def masks_of(model: ShallowWater) -> dict[str, jax.Array]:
    """{position: tile array}, 1 at points where the state may differ from zero, else 0."""
    return {position: model.domain.cut(model.sea_floor.mask(position)) for position in "uvh"}


def zero_padding(control: Control, value: Any, sides: Sides) -> Any:
    """A tile's value with zeros in its padding, so that the gradient is zero there."""
    return without_padding(value, sides) if control.distributed else value
