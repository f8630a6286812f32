"""An ensemble: several runs of one program, whose initial states, parameters or depths differ.

An Ensemble takes a model's place in a Simulation, which then steps all members at once and writes them to the same
files, along a dimension `member`. Members share the grid, the coasts, the time stepper and the terms of the equations.
The values of numbers and arrays may differ. stepping/loop.py describes how they are computed together.
"""

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from ..dynamics.domain import Model
from ..dynamics.system import declared_fields
from ..errors import ConfigError
from ..fields.parameters import Part, check_arguments
from ..fields.parts import units_of
from ..fields.state import State
from ..grids.windows import TileRecords
from ..parallel.communicator import Communicator
from ..runtime import memory
from ..stepping.explicit import TimeStepper
from ..stepping.loop import FIELD, NUMBER, SAME, Members, stacked
from .display import as_html, as_text, map_of_depth, rows_of_model
from .parts import named_series
from .shallow_water import ShallowWater

MODELS = Part(("dynamics", "at_rest"), "ShallowWater(grid, depth)", several=True)
STATES = Part(("names", "map"), "model.at_rest()", several=True, alone=False)
UNITS = {"model.gravity": "m s-2", "bathymetry.depth": "m"}  # of varied values that are not parameters of a part
REMEDY = "and one program steps all members; vary numbers and fields, or make runs of their own"


class Ensemble(Model):
    """Members of one structure, in place of a model.

    Args:
        models: a ShallowWater for each member, or one for all.
        states: the State of each member; a list.
        varied: {name: values, one a member}: what distinguishes the members, kept in files as coordinates.

    Attributes:
        members: the number of members.
        initial: their States in one, to start a Simulation from.

    Raises:
        ConfigError: for members that one program cannot step, naming what differs.
    """

    members: int

    def __init__(
        self,
        models: ShallowWater | list[ShallowWater] | tuple[ShallowWater, ...],
        states: Sequence[State],
        varied: dict[str, Sequence] | None = None,
    ):
        check_arguments("Ensemble", {"models": MODELS, "states": STATES}, locals())
        self.members, self.batch = len(states), (len(states),)
        self.varied = {name: list(values) for name, values in (varied or {}).items()}
        self.models = list(models) if isinstance(models, (list, tuple)) else [models] * self.members
        counts = {"models": len(self.models)}
        counts |= {f"values of {name}": len(values) for name, values in self.varied.items()}
        for what, count in counts.items():
            if count != self.members or not count:
                raise ConfigError(
                    f"the ensemble has {self.members} states and {count} {what}; give one for each member."
                )
        self._kinds, self._stacked = {}, {}
        for k, model in enumerate(self.models):
            self._check_shared(k, model)
        self._check_memory()
        for k, state in enumerate(states):
            self.models[k].check_state(f"Ensemble: {self.name(k)}", state)
        self.initial = stacked(self.communicator, list(states), (FIELD,) * len(self.variables))

    def __repr__(self) -> str:
        return as_text("Ensemble", rows_of_model(self))

    def _repr_html_(self) -> str:
        return as_html("Ensemble", rows_of_model(self), map_of_depth(self.models[0]), "depth of the first member")

    def units_of(self, name: str) -> str:
        """The units that the model's parts declare for a parameter that is `varied`, "" where they declare none."""
        name = re.sub(r"\[(\d+)\]", r".\1", name)  # "dissipation[0].viscosity" is another way to write it
        model, (part, _, field) = self.models[0], name.rpartition(".")
        parts = {**dict(model.named_parts()), "coriolis": model.coriolis}
        return units_of(type(parts[part]), field) if parts.get(part) is not None else UNITS.get(name, "")

    def __getattr__(self, name):
        """An attribute of the first member.

        It is that of all members for what `_shared` compares, for coasts, and for the number and kinds of the terms.
        Depths, and the values of terms, are in the System of each member, and in `water_depth`.
        """
        if name in ("models", "members"):  # while it is copied or unpickled, there are none
            raise AttributeError(name)
        return getattr(self.models[0], name)

    @property
    def depth(self) -> np.ndarray:
        """(ny, nx), or (members, ny, nx) where it differs [m]."""
        return _one_or_each([model.depth for model in self.models])

    def water_depth(self) -> dict[int, np.ndarray]:
        """{rank: the depth of water, 0 on land [m]} of tiles here: (my, mx), or of each member; collective."""
        each = [model.water_depth() for model in self.models]
        differ = any(not np.array_equal(one[rank], each[0][rank]) for one in each[1:] for rank in one)
        differ = self.communicator.agree(differ)
        return {rank: np.stack([one[rank] for one in each]) if differ else each[0][rank] for rank in each[0]}

    @property
    def gravity(self) -> float | None:
        """[m s-2], or None where it differs."""
        return self.models[0].gravity if len({model.gravity for model in self.models}) == 1 else None

    def name(self, k: int) -> str:
        """The name of member k in messages."""
        settings = ", ".join(f"{name} = {values[k]}" for name, values in self.varied.items())
        return f"member {k} ({settings})" if settings else f"member {k}"

    def each(self, state: State | None = None) -> list[tuple[str, ShallowWater, State | None]]:
        """[(name, model, State or None)] of the members; `state` holds the States of all."""

        def of(k):
            return None if state is None else self.communicator.spmd(lambda s: jax.tree.map(lambda x: x[k], s))(state)

        return [(self.name(k), model, of(k)) for k, model in enumerate(self.models)]

    # -- what a Simulation needs of a model ----------------------------------------------------------------------------

    def halo(self, stepper: TimeStepper) -> int:
        """The halo that a step needs, as ShallowWater.halo gives it."""
        for model in self.models:
            model.ready_for(stepper)
        return self.models[0].halo(stepper)

    def dynamics(self, stepper: TimeStepper, step: int = 0, steps: int | None = None) -> NoReturn:
        """Raise an error, since `integrate` takes one model's System."""
        raise ConfigError(
            "Ensemble.dynamics: integrate runs one member at a time; take that of one of `ensemble.models`, "
            "or run the members by a Simulation."
        )

    def interval(self, halo: int, step: int, dt: float, stages: int = 1) -> Members:
        """The Members for the steps of `dt` [s] from `step` on, up to the next record; see ShallowWater.interval."""
        trees = [model.interval(halo, step, dt, stages) for model in self.models]
        width = halo * stages
        if width not in self._kinds:
            common = on_common_points(self.communicator, trees)
            self._kinds[width] = self._compared(common)
            self._share(trees, common, width)
            trees = [model.interval(halo, step, dt, stages) for model in self.models]
        ids = tuple(id(leaf) for tree in trees for leaf in jax.tree.leaves(tree))
        if self._stacked.get(width, (None,))[0] != ids:  # a forcing's window has moved on
            common = on_common_points(self.communicator, trees)
            both = Members(stacked(self.communicator, common, self._kinds[width]), self._kinds[width])
            self._stacked[width] = ids, trees, both  # the trees are kept, so that ids stay theirs
        return self._stacked[width][2]

    def outline(self, halo: int, step: int, dt: float, stages: int = 1) -> Members:
        """`interval`, whose shapes are those of ShallowWater.outline."""
        return self.interval(halo, step, dt, stages)

    def _share(self, trees, common, halo):
        """Let members refer to the first one's arrays where theirs are equal and not moved to common points."""
        leaves, used = ([jax.tree.leaves(tree) for tree in each] for each in (trees, common))
        for model, own, now in zip(self.models[1:], leaves[1:], used[1:]):
            each = zip(own, now, leaves[0], self._kinds[halo])
            model.share_arrays({id(x): first for x, y, first, kind in each if kind == SAME and x is y})

    def run_on_arrays(self) -> None:
        """Let steps run on arrays from now on, whatever engine was chosen."""
        for model in self.models:
            model.run_on_arrays()
        self._kinds.clear()
        self._stacked.clear()

    def next_record(self, step: int, dt: float) -> int | None:
        """The next step at which a forcing's interval ends in any member, or None."""
        ends = [model.next_record(step, dt) for model in set(self.models)]
        return min((end for end in ends if end is not None), default=None)

    def round_records(self, multiple: int) -> None:
        """Let intervals between records of forcing end at multiples of so many steps, in all members."""
        for model in dict.fromkeys(self.models):
            model.round_records(multiple)

    def check_records(self, end: float, dt: float = 0.0) -> None:
        """Check that the records of each member cover a run, as ShallowWater.check_records does."""
        for model in dict.fromkeys(self.models):
            model.check_records(end, dt)

    def check_files(self, end: float) -> None:
        """Check records as ShallowWater.check_files does, those of files that members share once; collective."""
        known = named_series(self.models[0])
        for model in dict.fromkeys(self.models):
            of_files = {name: series for name, series in named_series(model).items() if series.source is not None}
            shared = (name in known and _same(known[name], series) for name, series in of_files.items())
            if model is self.models[0] or not all(shared):
                model.check_files(end)

    def read_ahead(self, step: int, dt: float, submit: Callable) -> None:
        """Start reading the records that members need next, as ShallowWater.read_ahead does."""
        for model in dict.fromkeys(self.models):
            model.read_ahead(step, dt, submit)

    # -- what members must share ---------------------------------------------------------------------------------------

    def _check_shared(self, k, model):
        if model.sea_floor.bed is not None:
            raise ConfigError(
                f"{self.name(k)} has beds finer than its cells, and members have none; leave subgrid out."
            )
        first = self.models[0]
        properties = _shared(model)
        for what, shared in _shared(first).items():
            if shared != properties[what]:
                raise ConfigError(f"{self.name(k)} has another {what} than {self.name(0)}, {REMEDY}.")
        pairs = zip(model.domain.own(model.sea_floor.wet), first.domain.own(first.sea_floor.wet))
        if model is not first and self.communicator.agree(any((a != b).any() for (_, a), (_, b) in pairs)):
            raise ConfigError(f"{self.name(k)} has other coasts than {self.name(0)}, {REMEDY}.")

    def _check_memory(self):
        """Raise ConfigError if the members' fields together need more memory than there is."""
        tile = memory.on_host(math.prod(self.decomposition.tile(0).shape) * len(self.communicator.ranks))
        needed = memory.of_model(self.members * tile, 0, self.dtype.itemsize, variables=len(self.models[0].variables))
        memory.require(needed, f"an Ensemble of {self.members:,} members", "use fewer members or cells, or more ranks")

    def _compared(self, trees):
        """SAME, FIELD or NUMBER for every leaf of the members' Systems; alike on all ranks."""
        flat = [jax.tree_util.tree_flatten_with_path(tree)[0] for tree in trees]
        for k, tree in enumerate(trees):
            alike = [_kind(first) == _kind(own) for (_, first), (_, own) in zip(flat[0], flat[k])]
            if jax.tree.structure(tree) != jax.tree.structure(trees[0]) or not all(alike):
                raise ConfigError(f"{self.name(k)} differs from {self.name(0)} in its equations or terms, {REMEDY}.")
        moving = self._moving()
        differ = [
            _names(column[0][0])[:-1] in moving or not all(self._equal(column[0][1], leaf) for _, leaf in column[1:])
            for column in zip(*flat)
        ]
        differ = self.communicator.host_maximum(np.array(differ, float)) > 0
        return tuple(SAME if not d else FIELD if jnp.ndim(leaf) else NUMBER for d, (_, leaf) in zip(differ, flat[0]))

    def _equal(self, a, b):
        if a is b:
            return True
        a, b = (self.communicator.tiles([x]) for x in (a, b))
        return all(np.array_equal(a[rank][0], b[rank][0], equal_nan=True) for rank in a)

    def _moving(self):
        """The paths in the System of Windows whose records differ between members, in values or times."""
        first, *others = (model.system.series() for model in self.models)
        return {place for place, series in first.items() if not all(_same(series, other[place]) for other in others)}


def _one_or_each(arrays):
    return arrays[0] if all(np.array_equal(array, arrays[0]) for array in arrays) else np.stack(arrays)


def _same(one, other):
    """Whether two Series hold the same records at the same times."""
    if one is other:
        return True
    if one.cycle != other.cycle or not np.array_equal(one.times, other.times):
        return False
    return all(_same_records(values, other.values[rank]) for rank, values in one.values.items())


def _same_records(one, other):
    """Whether two tiles' records are the same; those of files are if they are read by the same GridRecords."""
    if isinstance(one, TileRecords) and isinstance(other, TileRecords):
        return one.records.same(other.records)
    pair: Any = one, other
    return len(one) == len(other) and all(np.array_equal(a, b) for a, b in zip(*pair))


def _shared(model):
    """{what a message calls it: a property that a model must share with the other members}."""
    system, found = model.system, {"grid": model.grid, "precision": model.dtype, "communicator": id(model.communicator)}
    for name, declaration in declared_fields("shared"):
        value = getattr(system, name)
        apart = jax.tree.map(lambda part: _on_two_points(part, model.communicator), value, is_leaf=has_points)
        kind = value if declaration["static"] else (type(value), jax.tree.structure(apart))
        found[declaration["shared"]] = kind
    return found | {"engine": model.engine, "start of tides": model.start, "least thickness": model.least_thickness}


def _kind(leaf):
    return jnp.shape(leaf), jnp.result_type(leaf)


def _names(path):
    return tuple(str(getattr(key, "name", getattr(key, "key", getattr(key, "idx", key)))) for key in path)


# -- the same points in time -------------------------------------------------------------------------------------------
# Tracks and records are linear between their points, so that further points on these lines leave them unchanged.
# Members then differ in the values of their vectors alone, and one program steps them.


def has_points(part: object) -> bool:
    """Whether a part of a model, or a value of its parameters, has lines between points in time."""
    return bool(getattr(part, "lines", ()))


def _on_two_points(part, communicator):
    """A part whose lines have two points, by which parts with different points compare; others as they are."""
    if not has_points(part):
        return part
    line = communicator.place(lambda rank: np.zeros(2))
    return part.with_points(np.arange(2.0), dict.fromkeys(part.lines, line), communicator)


def on_common_points(communicator: Communicator, trees: Sequence) -> list:
    """The pytrees of all members, in which lines have the points of all members in the time that all of them cover."""
    flat = [jax.tree.flatten(tree, is_leaf=has_points) for tree in trees]
    columns = [_common(communicator, column) for column in zip(*(leaves for leaves, _ in flat))]
    alike = len({len(leaves) for leaves, _ in flat}) == 1  # else they differ in more than their points
    return (
        [structure.unflatten(leaves) for leaves, (_, structure) in zip(zip(*columns), flat)] if alike else list(trees)
    )


def _common(communicator, parts):
    if not all(map(has_points, parts)):
        return parts
    points = [part.points(communicator) for part in parts]
    if all(np.array_equal(points[0], other) for other in points):
        return parts
    begin, end = max(own[0] for own in points), min(own[-1] for own in points)
    moments = np.unique(np.clip(np.concatenate(points), begin, end))

    def line(values, own):
        tiles = communicator.tiles(values)
        return communicator.place(lambda rank: np.interp(moments, own, tiles[rank]).astype(values.dtype))

    return [
        part.with_points(moments, {name: line(getattr(part, name), own) for name in part.lines}, communicator)
        for part, own in zip(parts, points)
    ]
