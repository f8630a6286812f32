"""Steps with fused loops: which arrays there are, when their ghosts are refreshed, and which are overwritten.

The stepper and the physics are traced once a program with Expressions. A stage is one loop; between stages, and between
steps, what was computed is settled into arrays with room for ghosts. They are overwritten where nothing needs them any
more, so that the loop over steps copies nothing.
"""

import functools

import jax
import jax.numpy as jnp

from ..dynamics.replicated import numbers_entered
from ..fields.field import Field
from ..fields.parts import positions_of
from ..fields.pytrees import replace
from ..fields.state import each_state, fields_of
from ..grids.geometry import Geometry
from ..parallel.halo import beyond_open_sides, refresh, without_padding
from ..stencils.expressions import Expression, Source, lift, path_names, stored
from ..stencils.graph import Unsupported
from ..stencils.native import depends_on
from ..stencils.native.library import CompileError
from ..stencils.stencil import Layout, compile_loops, run
from .arrays import one_step, unwatched

__all__ = ["FusedEngine", "NotCompiled", "POLE"]

POLE = "rows round a pole are averaged over all ranks, for which there are no loops"


class NotCompiled(str):
    """Why a loop of a step could not be compiled, which may differ from rank to rank."""


class FusedEngine:
    """Runs a stepper over Equations by fused loops; has the methods of marching.ArrayMarch, and those of ArrayEngine.

    Args:
        dynamics: a Dynamics.
        stepper: a TimeStepper.
        prepared: False leaves out what `steps` needs.
    """

    @staticmethod
    def obstacle(dynamics, stepper):
        """Why steps of these do not run in fused loops, in words; None where they do.

        Finds out by tracing a step and, on CPUs, compiling its loops. It is a NotCompiled where the compiler fails.
        """
        if dynamics.tile.pole is not None:
            return POLE

        def one(dynamics, stepper, first):
            engine = FusedEngine(dynamics, stepper)
            state = dynamics.zeros()
            carry = engine.start(state, stepper.history(state))
            return engine.steps(carry, first, 1)[0]

        try:
            closed = jax.make_jaxpr(one)(dynamics, stepper, jnp.int32(0))
            if jax.default_backend() == "cpu" and dynamics.engine == "fused":
                compile_loops(closed.jaxpr)
        except Unsupported as error:
            return f"there is no loop for {error}"
        except CompileError as error:
            return NotCompiled(error)
        return None

    def __init__(self, dynamics, stepper, prepared=True):
        self.stepper, self.tile, self.ghosts = stepper, dynamics.tile, dynamics.tile.halo
        self.layout = Layout(tuple(self.tile.shape), self.ghosts)
        self.sides, self.communicator = dynamics.tile.sides, dynamics.communicator
        self.group = self.ghosts // ((dynamics.reach or self.ghosts) * stepper.stages) or 1
        self.sharers, self._tendencies = len(self.communicator.ranks), []
        self.interpret = dynamics.engine == "interpreted"
        # else a step goes from one set of arrays to another
        in_order = jax.default_backend() == "cpu" and not self.interpret
        self.period = self.group * stepper.rotation * (1 if in_order else 2)
        if prepared:
            self.stepper = numbers_entered(stepper, dynamics.communicator)
            self.arrays = dynamics.prepare()
            self.equations = self._lifted(dynamics)

    def _lifted(self, dynamics):
        def lifted(tree, name):
            leaves, structure = jax.tree.flatten(tree, is_leaf=lambda x: isinstance(x, Field))
            names = (f"{name}.{path}".rstrip(".") for path in path_names(tree))
            return jax.tree.unflatten(structure, [lift(x, name=n) for x, n in zip(leaves, names)])

        arrays, depth = self.arrays, self._aligned(self.arrays.depth)
        wet = depth.map(lambda depth: (depth > 0).astype(depth.dtype))  # cheaper than reading another array
        return replace(
            arrays,
            geometry=Geometry.derive(arrays.geometry.tile, dynamics.slip, self.communicator, lift, wet),
            depth=depth,
            terms=tuple(_each_field(term, lifted) for term in arrays.terms),
            tracers=tuple(_each_field(tracer, lifted) for tracer in arrays.tracers),
            uplift=lifted(arrays.uplift, "uplift"),
            opens=(),
            engine=self,
        )

    def _aligned(self, field):
        """A Field as what loads it, its rows laid out as those of results."""
        data = self.layout.with_border(field.data, field.halo)
        return stored(Source(data, self.layout.origin, field.halo, data.dtype, name="depth"), field.position)

    # -- the march ----------------------------------------------------------------------------------------------------

    def start(self, state, history):
        """(state, history) with room for ghosts, which are filled."""
        wide = jax.tree.map(lambda x: self.layout.with_border(x) if jnp.ndim(x) == 2 else x, (state, history))
        state, history = self._sources(*wide)
        self._refresh([e.plain for e in fields_of((state, history))])
        return self._arrays(state, history)

    def steps(self, carry, first, count, watch=unwatched, seen=()):
        """`count` steps from number `first` of the model on,
        and what `watch(step, see, seen)` made of `see()`, the State, each time."""
        state, history = self._sources(*carry)
        for k in range(count):
            old = [e.plain for e in fields_of((state, history))]
            if self.group > 1 and k % self.group == 0:
                self._refresh(old)
            state, history = one_step(self.equations, self.stepper, state, history, first + k)
            state, history = self.settle((state, history), old)
            now = self._arrays(state, None)
            seen = watch(first + k, functools.partial(self.state, now), seen)
            if watch is not unwatched:
                plain = [e.plain for e in fields_of(state)]
                for source, array in zip(plain, depends_on([source.array for source in plain], seen)):
                    source.array = array
        return self._arrays(state, history), seen

    def state(self, carry):
        """The State of the tile's own cells. Open faces hold nothing: their velocity follows from the elevation."""
        return carry[0].map(lambda x: without_padding(self.layout.own(x), self.sides))

    def history(self, carry):
        return jax.tree.map(lambda x: self.layout.own(x) if jnp.ndim(x) >= 2 else x, carry[1])

    def _sources(self, state, history):
        """Arrays as Expressions. Only earlier states of the history kept their ghosts since they were the newest."""
        kept = self.ghosts if self.stepper.remembers == "states" and self.group == 1 else 0
        both = self._sourced(state, 0), each_state(lambda earlier: self._sourced(earlier, kept), history)
        leaves = jax.tree.leaves(both, is_leaf=lambda x: isinstance(x, Expression))
        for e, name in zip(leaves, _names(both)):
            if isinstance(e, Expression):
                e.plain.name = name
        return both

    def _sourced(self, state, halo):
        return state.map(lambda array, position: self._stored(array, position, halo), state.positions)

    def _stored(self, array, position, halo, name=""):
        source = Source(array, self.layout.origin, (halo,) * 4, array.dtype, prognostic=True, name=name)
        return stored(source, position)

    @staticmethod
    def _arrays(state, history):
        return jax.tree.map(lambda x: x.plain.array if isinstance(x, Expression) else x, (state, history))

    # -- what Equations ask for ---------------------------------------------------------------------------------------

    def fill(self, equations, state, time, more=(), outside=None):
        """(the State, the Fields `more`, `outside` or else eta) with ghosts enough for one evaluation of all terms."""
        outside = state.eta if outside is None else outside
        fields = list({id(field): field for field in (*fields_of(state), outside, *more)}.values())
        self._store(fields)
        sources = [source for field in fields for source in field.sources]
        short = [s for s in dict.fromkeys(sources) if min(s.halo) < equations.reach]
        if short:
            self._refresh(short)
        if not self.arrays.opens:
            return state, more, outside
        u, v, eta = state.u, state.v, state.eta
        own = outside is eta
        mixed = [f for f in (u, v, outside) if f.plain is None]
        settled = iter(self.settle(mixed)) if mixed else None
        u, v, outside = (next(settled) if f.plain is None else f for f in (u, v, outside))
        if self.group > 1 or not short:  # what was computed in ghosts beyond open sides is not what belongs there
            others = {id(source): (source, state[name]) for name in state.others for source in state[name].sources}
            for source, f in [*((f.plain, f) for f in (u, v, outside)), *others.values()]:
                source.array = beyond_open_sides(self._field(source, f.position), self.sides).data
        for f, opened in zip((u, v), self.arrays.opened(*(self._field(f.plain, f.position) for f in (u, v, outside)),
                                                        time)):  # fmt: skip
            f.plain.array = opened.data
        return state.replace(u=u, v=v, eta=outside if own else eta), more, outside

    def computed(self, tendency):
        """`tendency`, a State that the equations have given to a stepper."""
        self._tendencies += [x for x in fields_of(tendency) if x.plain is None]
        return tendency

    def _store(self, fields):
        """Store those of `fields` that were computed from neighbours, and the tendencies that they were made of.

        A stage of a Runge-Kutta scheme ends so, whether or not its stepper knows of stages: from then on all that was
        made of these fields and tendencies loads them.
        """
        shifted = [field for field in fields if not field.pointwise]
        if shifted:
            known = {id(x): x for x in [*shifted, *(x for x in self._tendencies if x.plain is None)]}
            for expression, now in zip(known.values(), self.settle(list(known.values()))):
                expression.become(now.plain)

    def settle(self, tree, over=()):
        """What was computed, in arrays, by one loop; `over`: Sources that may be overwritten unless `tree` has them."""
        self._tendencies = []
        leaves, structure = jax.tree.flatten(tree, is_leaf=lambda x: isinstance(x, Expression))
        new = [x for x in leaves if isinstance(x, Expression) and x.plain is None]
        held = {id(x.plain) for x in leaves if isinstance(x, Expression) and x.plain is not None}
        free = [source.array for source in over if id(source) not in held]
        free += [None] * (len(new) - len(free))
        every = _names(tree) if over else [f"stage.{name}" for name in path_names(tree)]
        named = {id(x): name for x, name in zip(leaves, every)}
        names = [named[id(x)] for x in new]
        over = free[: len(new)]
        arrays, margin = run(new, self.layout, over, self.interpret, self.sharers, names) if new else ([], 0)
        made = {id(x): self._stored(a, x.position, margin, name) for x, a, name in zip(new, arrays, names)}
        return jax.tree.unflatten(structure, [made.get(id(x), x) for x in leaves])

    def _refresh(self, sources):
        arrays = refresh([s.array for s in sources], self.ghosts, self.sides, self.communicator, self.layout.border)
        for source, array in zip(sources, arrays):
            source.array, source.halo = array, (self.ghosts,) * 4

    def _field(self, source, position):
        return Field(source.array, position, self.layout.border)


def _names(tree):
    """The names that loops give to the leaves of (state, history)."""
    parts, groups = (name.partition(".") for name in path_names(tree)), {"0": "", "1": "history."}
    return [groups.get(first, f"{first}.") + rest if rest else f"field {first}" for first, _, rest in parts]


def _each_field(term, lifted):
    kind = type(term).__name__
    return replace(term, **{name: lifted(getattr(term, name), f"{kind}.{name}") for name in positions_of(term)})
