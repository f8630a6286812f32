"""A cost as a function of controls: its value, gradient, tangent and Hessian products.

The host cuts a run into units, which end at forcing records. It calls compiled programs (programs.py) for them in the
order of the checkpoint schedule, and holds states and cotangents between the calls. See tile_costs.TileCost for the
interface between a cost and the programs, and controls.py for the controls.
"""

import copy
import functools
import math
from collections.abc import Iterable, Mapping
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from ..dynamics.system import System
from ..errors import ConfigError
from ..fields.parameters import Number, Part, check_arguments
from ..fields.state import State
from ..models.engine import arrays_if_loops_fail
from ..models.shallow_water import ShallowWater
from ..nests.family import Family
from ..parallel.communicator import Communicator
from ..runtime import memory
from ..stepping.explicit import TimeStepper
from ..stepping.loop import shown, step_loop
from ..stepping.stability import check_time_step
from .controls.controls import ControlDict, Transformed, controls_of, masks_of, split_controls, units_in
from .core.checkpointing import Readings
from .core.programs import Pair, Programs, Transform
from .core.runs import Plan, Run, Unit
from .core.schedules import Checkpoints, Needs, StoreAll
from .costs.costs import tile_cost
from .costs.readers import everywhere
from .costs.tile_costs import AllReadings, Cost, Weighted, trace_cost

STORE_ALL = StoreAll()
RULES = {
    "model": Part(("interval", "check_state"), "ShallowWater(grid, depth)"),
    "stepper": Part(("step", "check", "history"), "RK4(dt=60.0)"),
    "steps": Number(None, "steps", whole=True, minimum=1),
    "first_step": Number(None, "steps", whole=True, minimum=0),
    "checkpoints": Part(("plan", "bytes", "differentiate"), "StoreAll()"),
}


def dot(a: ControlDict, b: ControlDict, communicator: Communicator) -> float:
    """The inner product of two control dicts over all ranks.

    Arrays of two dimensions or more are distributed. Numbers and vectors are replicated, and count once.
    """
    replicated = distributed = 0.0
    for name, x in a.items():
        for left, right in zip(jax.tree.leaves(x), jax.tree.leaves(b[name])):
            if np.ndim(left) < 2:
                replicated += float(np.vdot(np.asarray(left, float), np.asarray(right, float)))
                continue
            tiles = zip(*(communicator.tiles(part).values() for part in (left, right)))
            distributed += sum(float(np.vdot(np.asarray(p, float), np.asarray(q, float))) for p, q in tiles)
    return replicated + float(communicator.host_sum(np.array([distributed]))[0])


def largest(value: Any, communicator: Communicator) -> float:
    """The largest magnitude of a control's value over all ranks."""
    tiles = [tile for leaf in jax.tree.leaves(value) for tile in communicator.tiles(leaf).values()]
    return communicator.host_maximum(max(float(np.max(np.abs(np.asarray(x)))) for x in tiles))


class Problem:
    """A cost of a run of `steps` steps as a function of controls.

    `values`, gradients and directions are dicts {name: value}. A value is a tile array (ny, nx) if the control is
    distributed, a number or vector that every rank holds if it is replicated, and {record: value} for time records.
    A control that is missing in `values` is as in the model; one that is missing in `directions` is zero.

    In a family of nested grids the stepper, steps, times and controls are those of the outermost grid (controls.py).

    Args:
        model: a ShallowWater, or a Family.
        stepper: a TimeStepper.
        state: the State at step `first_step`; of a Family {name: State}.
        steps: number of steps.
        cost: a costs.Cost.
        controls: names of controls (controls.py), and Transformed objects.
        first_step: number of the first step on the model's clock.
        checkpoints: StoreAll(), Nested(...), Revolve(...) or Tiered(...).

    Attributes:
        stepped: the ShallowWater or Family.
        model: the ShallowWater of the controls: of a family, the outermost.
        models: the ShallowWater of each grid.
        units: {parameter of a Transformed: units}.
        own_controls: the Controls of the model that no Transformed computes.

    Raises:
        ConfigError: if a control does not exist, `cost` is not a Cost, the time step is over the model's limit, or the
            model is an Ensemble.
        ValueError: if `state` does not belong to the model.
    """

    def __init__(
        self,
        model: ShallowWater | Family,
        stepper: TimeStepper,
        state: State | Mapping[str, State],
        steps: int,
        cost: Cost,
        controls: str | Transformed | Iterable[str | Transformed],
        first_step: int = 0,
        checkpoints: Checkpoints = STORE_ALL,
    ):
        if getattr(model, "batch", ()):
            raise ConfigError("Problem: the model is an Ensemble; give one of its members, a ShallowWater.")
        check_arguments("Problem", RULES, locals())
        self.stepped = cast(Any, model)
        self.steps, self.first_step = int(steps), int(first_step)
        self.scheme: Any = stepper
        self.communicator, self.checkpoints, self.dt = model.communicator, checkpoints, float(self.scheme.dt)
        stepper.check()
        self.models, self.state = _grids(model, stepper, state)
        self.model = self.models[0]
        self.has_contents = any(model.system.contents or model.sea_floor.bed for model in self.models)
        self.cost = tile_cost(cost, model, self.dt, self.first_step, self.steps)
        self.stepper: Any = self.communicator.place(lambda _: jax.tree.map(lambda x: np.array(x, model.dtype), stepper))
        transforms, names = split_controls(controls)
        self.units: dict[str, str] = {
            name: unit for transform in transforms for name, unit in units_in(transform).items()
        }
        self.transforms = [Transform(self.communicator, t, self.to_program(t.parameters)) for t in transforms]
        made = [name for transform in self.transforms for name in transform.names]
        self.controls = controls_of(model, [*names, *made])
        self.own_controls = [c for c in self.controls if c.name not in made]
        self.halo: Any = model.halo(stepper if isinstance(model, Family) else self.stepper)
        trace_cost(self.stepped.outline(self.halo, self.first_step, self.dt), self.stepper, self.state, self.cost)
        self.masks = masks_of(self.model)
        self.programs: dict[tuple, Programs] = {}
        self._window: tuple[int | None, Any] = None, None
        self._knows_engine = False

    def with_checkpoints(self, checkpoints: Checkpoints) -> "Problem":
        """This problem with other checkpoints; the two share compiled programs."""
        other = copy.copy(self)
        for plan in ("plan", "plan_of_products"):
            other.__dict__.pop(plan, None)
        other.checkpoints = checkpoints
        return other

    @functools.cached_property
    def plan(self) -> Plan:
        """The Plan of a gradient: Units, the lengths of a Tape within one, and the number of points on the host."""
        return self._affordable(self.checkpoints.plan(self))

    @functools.cached_property
    def plan_of_products(self) -> Plan:
        """The Plan of a Hessian product, which needs about twice the memory of a gradient."""
        return self._affordable(self.checkpoints.plan(self, products=True))

    def _affordable(self, plan):
        """The given plan; raises ConfigError if its states alone need more memory than the host has."""
        cells = sum(math.prod(one.decomposition.tile(0).shape) * len(one.variables) for one in self.models)
        state = memory.on_host(cells * len(self.communicator.ranks)) * self.model.dtype.itemsize
        memory.require(
            self.checkpoints.bytes(Needs(0.0, state, state), *plan),
            f"Problem: {self.steps:,} steps with {type(self.checkpoints).__name__}",
            "use Nested(memory=...) with less than that, Revolve or Tiered, or fewer steps",
        )
        return plan

    @functools.cached_property
    def needs(self) -> Needs:
        """memory.Needs: the memory of a gradient on a rank."""
        return self._needs()

    @functools.cached_property
    def needs_of_products(self) -> Needs:
        """memory.Needs: the memory of a Hessian product on a rank."""
        return self._needs(self._directions({}))

    def _needs(self, *directions):
        whole = [Unit(self.first_step, self.steps, self.first_step)]
        return Needs.of(self._run(self._complete({}), *directions, plan=(whole, (1,), 1)))

    def bytes_needed(self, products: bool = False) -> float:
        """The predicted bytes that a gradient (or, with `products`, a Hessian product) needs on a rank."""
        needs, plan = (self.needs_of_products, self.plan_of_products) if products else (self.needs, self.plan)
        return self.checkpoints.bytes(needs, *plan)

    def dynamics(self, step: int) -> System:
        """The System of the interval between forcing records that begins with this step."""
        if self._window[0] != step:
            self._choose_engine(step)
            self._window = step, self.stepped.interval(self.halo, step, self.dt)
        return self._window[1]

    def outline(self, step: int) -> System:
        """`dynamics` with the shapes of the uplift alone, to compile programs while a thread computes the uplift."""
        self._choose_engine(step)
        return self.stepped.outline(self.halo, step, self.dt)

    def _choose_engine(self, step):
        """Let the model run on arrays where loops cannot be compiled; once."""
        if not self._knows_engine:
            self._knows_engine = True
            outline: Any = self.stepped.outline(self.halo, step, self.dt)
            family = isinstance(self.stepped, Family)
            both = (outline.systems, outline.steppers) if family else ([outline], [self.stepper])
            for each in zip(self.models, *both):
                arrays_if_loops_fail(*each)

    @property
    def names(self) -> list[str]:
        """The names of the controls and of the parameters of transforms, as `values` has them."""
        return [c.name for c in self.own_controls] + [name for t in self.transforms for name in t.parameters]

    # -- values -------------------------------------------------------------------------------------------------------

    @functools.cached_property
    def values(self) -> ControlDict:
        """The controls as the model and the first state have them."""
        found = {}
        dynamics = self.dynamics(self.first_step)
        for control in self.own_controls:
            if control.records:
                records = {k: control.of_record(k, self.model.dtype) for k in control.records}
                found[control.name] = self._to_user(records)
            else:
                found[control.name] = self._to_user(jnp.asarray(control.get(dynamics, self.shown), self.model.dtype))
        for transform in self.transforms:
            found |= {name: self._to_user(self.to_program(value)) for name, value in transform.parameters.items()}
        return found

    @functools.cached_property
    def shown(self) -> Any:
        """The first State, or States, in the variables of files and controls: tracers as concentrations."""
        if not self.has_contents:
            return self.state
        return shown(self.dynamics(self.first_step), self.stepper, (self.state, np.int32(self.first_step)))

    def _complete(self, values):
        """The values of all controls, in the form that programs take."""
        unknown = sorted(set(values or ()) - set(self.values))
        if unknown:
            raise ConfigError(
                f"got values for {', '.join(unknown)}, which are not controls of this problem; "
                f"give some of {', '.join(self.values)}."
            )
        return {name: self.to_program((values or {}).get(name, own)) for name, own in self.values.items()}

    def _directions(self, directions):
        """The directions of all controls, in the form that programs take; zero for those that are missing."""
        zeros = {name: jax.tree.map(jnp.zeros_like, self.to_program(own)) for name, own in self.values.items()}
        return zeros | {name: self.to_program(directions[name]) for name in zeros if name in directions}

    def to_program(self, value: Any) -> Any:
        """A value in the form that programs take: numbers and vectors with one copy for each tile."""
        if isinstance(value, dict):
            return {k: self.to_program(x) for k, x in value.items()}
        dtype = self.model.dtype
        if np.ndim(value) >= 2:
            return jnp.asarray(value, dtype)
        return self.communicator.place(lambda rank: np.asarray(value, dtype))

    def _to_user(self, value: Any) -> Any:
        """A value in the form that users get: numbers and vectors as numpy arrays."""
        if isinstance(value, dict):
            return {k: self._to_user(x) for k, x in value.items()}
        return value if np.ndim(value) >= 2 else np.asarray(self.communicator.one_tile(value))

    # -- values and derivatives ----------------------------------------------------------------------------------------

    def value(self, values: ControlDict | None = None) -> float:
        """J, the cost."""
        run = self._run(self._complete(values))
        return self._number(run.evaluate(run.to_end()))

    def tangent(self, values: ControlDict | None, directions: ControlDict) -> tuple[float, float]:
        """(J, dJ/dvalues . directions), by the tangent-linear model."""
        run = self._run(self._complete(values), self._directions(directions))
        J = cast(Pair, run.evaluate(run.to_end()))
        return self._number(J.value), self._number(J.slope[0])

    def value_and_gradient(self, values: ControlDict | None = None) -> tuple[float, ControlDict]:
        """(J, {name: dJ/dvalue}), by the adjoint; each entry has the form of the control's value."""
        values = self._complete(values)
        run = self._run(values)
        self.checkpoints.differentiate(run)
        gradient = self._chained([values], run.gradient())
        return self._number(run.J), self._to_user(gradient)

    def hessian_product(self, values: ControlDict | None, directions: ControlDict) -> ControlDict:
        """{name: d2J/dvalue2 . directions}: the tangent of the gradient."""
        values, directions = self._complete(values), self._directions(directions)
        run = self._run(values, directions, plan=self.plan_of_products)
        self.checkpoints.differentiate(run)
        return self._to_user(self._chained([values, directions], run.gradient()))

    # -- readings of the cost, for Gauss-Newton: r = F(values), M = dF/dvalues ---------------------------------------

    def observed(self, values: ControlDict | None = None) -> np.ndarray:
        """r (steps, count): the readings of the states from step `first_step` + 1 on; the same on every rank."""
        run = self._run(self._complete(values), cost=self._all_readings())
        return self._to_numpy(run.to_end()[1])

    def observed_tangent(self, values: ControlDict | None, directions: ControlDict) -> tuple[np.ndarray, np.ndarray]:
        """(r, M . directions), (steps, count) each, by the tangent-linear model."""
        run = self._run(self._complete(values), self._directions(directions), self._all_readings())
        readings = run.to_end()[1]
        return self._to_numpy(readings.value), self._to_numpy(readings.slope[0])

    def observed_adjoint(self, values: ControlDict | None, readings: ArrayLike) -> ControlDict:
        """M* . readings, a dict like `values`, by the adjoint."""
        self._all_readings()
        values = self._complete(values)
        run = self._run(values, cost=Weighted(self.cost, everywhere(self.model, readings), self.first_step + 1))
        self.checkpoints.differentiate(run)
        return self._to_user(self._chained([values], run.gradient()))

    def _all_readings(self):
        if self.cost.read is None:
            raise ConfigError(
                f"{type(self.cost).__name__} reads nothing along the run, only the last state; "
                "give a cost that reads gauges over time."
            )
        return AllReadings(self.cost, (self.steps, self._count), self.first_step + 1)

    @functools.cached_property
    def _count(self):
        """The number of readings of one state."""
        found = []

        def trace(dynamics, stepper, state, cost):
            found.append(Readings(cost, step_loop(dynamics, stepper), state).count)

        fixed = self.dynamics(self.first_step), self.stepper, self.state, self.cost
        jax.eval_shape(self.communicator.spmd(trace), *fixed)
        return found[0]

    def _to_numpy(self, table):
        return np.asarray(self.communicator.one_tile(table))

    # -- one pass -----------------------------------------------------------------------------------------------------

    def _number(self, J: jax.Array) -> float:
        """J as a float: that of the root on every rank, so that all ranks take the same decisions."""
        return self.communicator.host_broadcast(float(self.communicator.one_tile(J)))

    def _run(self, values, directions=None, cost=None, plan=None):
        """The Run with the values of the model's controls, and their tangents, from those of the user's parameters."""
        given = [values] if directions is None else [values, directions]
        raw = self._joined(given, lambda transform: transform.expand(given))
        return Run(self, raw[0], raw[1] if directions is not None else None, cost or self.cost, plan)

    def _chained(self, given, gradients):
        """The last of [gradient, its tangent] with respect to the user's parameters, by the chain rule."""
        return self._joined(gradients, lambda transform: transform.contract(given, gradients))[-1]

    def _joined(self, dicts, of_transform):
        """The entries of each dict for the controls without a transform, and the dicts of each transform."""
        found = [{c.name: each[c.name] for c in self.own_controls} for each in dicts]
        for transform in self.transforms:
            found = [each | more for each, more in zip(found, of_transform(transform), strict=True)]
        return found


def _grids(model: Any, stepper: TimeStepper, state: Any) -> tuple[list[ShallowWater], Any]:
    """(the ShallowWater of each grid, its first State or the tuple of theirs), once both are checked; collective."""
    model.check_state("Problem", state)
    if not isinstance(model, Family):
        check_time_step(model, stepper, state)
        return [model], state
    model.check_started("Problem", "run it without a gradient")
    model.check_time_step(stepper, state)
    return list(model.models.values()), tuple(state[name] for name in model.names)
