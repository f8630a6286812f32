"""Layers with a long time step and no solver: the surface takes substeps within each step.

All layers have the pressure of the surface, so that its substeps change all velocities alike. R_k is the thickness of
layer k in the middle of the step, E_k its other accelerations extrapolated by AB2, and E their mean over the depth. The
surface and the velocity P that its pressure adds to each layer take substeps of length s = dt / M by leap-frog,

    d eta/dt = E_eta - sum of div R_k (u_k + t E + P)
    d P/dt   = - g grad eta

t is the time since the beginning of the step. They run beyond the end of the step, and the new surface and P are their
means <> over substeps M - n to M + n, with n = M / 4. The mean over the step, P*, is the one by which eta changes so:

    w_k    = u_k + dt (theta (E_k - E) + c E)
    u_k'   = u_k + dt E_k + <P>
    eta_k' = eta_k + dt (E_eta of layer k - sum over the layers from k down of div R_j (w_j + P*))

The sum of the transports is that of the substeps, and so each layer keeps its water to rounding, and the surface is
<eta>. Neither has to be corrected by the other, as they have where a mean velocity takes the substeps (Hallberg 1997,
doi:10.1006/jcph.1997.5734). c is the mean of t / dt with the weights of P*, a little over 1/2. theta > 1/2 damps the
waves of the interfaces; in E it would amplify the slow waves of the surface. Without the mean over substeps, waves of
the surface whose frequency is near pi / dt grow (Demange et al. 2019, doi:10.1016/j.jcp.2019.108875).

P is - g grad of a sum of eta over substeps. A substep therefore applies the operator of `swmodel.elliptic` once to one
field. Fused loops make four substeps at a time, after one exchange of a halo of four cells.
"""

import dataclasses
import functools
import operator
from typing import TYPE_CHECKING, Any, cast

import jax.numpy as jnp

from ..defaults import AB2_EPSILON, SUBSTEPS, THETA
from ..dynamics.clock import Time
from ..dynamics.stages import Fields
from ..elliptic import Coefficients, Domain
from ..fields.field import AbstractField, Scalar, Value, difference_x, difference_y, mean_x, mean_y
from ..fields.parameters import parameter
from ..fields.state import State, like, pytree, replace
from ..grids.geometry import safe_inverse
from .explicit import time_step
from .implicit import (
    Implicit,
    Solved,
    SurfaceStep,
    fields_before,
    moved,
    named,
    velocities_of,
    with_velocities,
)
from .surface import Surface

if TYPE_CHECKING:
    from ..dynamics.system import System

__all__ = ["SplitExplicit"]


@dataclasses.dataclass(frozen=True)
class Substeps:
    """Leap-frog of the surface, in place of an elliptic.Solver; c of its Coefficients is g R s^2, the screening 1 + a.

    a is the outflow sqrt(g R) length / area through open sides of a cell in the time s [1].
    """

    count: int
    needs_constants = False

    @property
    def reach(self) -> int:
        """n, by which substeps go on beyond the step."""
        return max(self.count // 4, 1)

    @property
    def centre(self) -> float:
        """c [1]."""
        n = self.reach
        return 0.5 * (1.0 + n * (n + 1) / 3.0 / self.count**2)

    def plan(self, domain: Domain, coefficients: Coefficients) -> Any:
        """a, a number or a tile array."""
        return coefficients.screening - 1.0

    def replanned(self, plan: Any, domain: Domain, coefficients: Coefficients) -> Any:
        return self.plan(domain, coefficients)

    def levels(
        self,
        equations: "System",
        surface: Surface,
        across: tuple[AbstractField, AbstractField],
        eta: AbstractField,
        rise: AbstractField,
        growth: AbstractField,
    ) -> Fields:
        """The elevation after all substeps, and those that move the layers.

        Args:
            equations: the System, prepared.
            surface: of this step.
            across: c length / distance [m2] of the fluxes through faces, Fields at u and v.
            eta: the elevation at the beginning [m], a Field at h.
            rise: what the velocities u add to it in a substep [m], a Field at h.
            growth: by how much more E adds in each further substep [m], a Field at h.

        Returns:
            (<eta> [m]; h with <P> = - g dt grad h [m]; h* with P* = - g dt grad h* [m]), Fields at h with halos.
        """
        engine, g, dtype, m, n = equations.evaluation, equations.geometry, equations.depth.dtype, self.count, self.reach
        width, share, outflow = 2 * n + 1, jnp.ones((), dtype) / (2 * n + 1), cast(Any, surface.plan)
        out = engine.with_ghosts(equations, 0.5 * outflow) if jnp.ndim(outflow) else None
        eta, rise, growth, across_x, across_y = engine.refreshed(equations, (eta, rise, growth, *across))

        def step(k, level, total):
            flux = difference_x(across_x * difference_x(total)) + difference_y(across_y * difference_y(total))
            new = level + rise + (jnp.asarray(k, dtype) + 0.5) * growth + flux * g.per_area_h
            return new if out is None else (new + out * (2.0 * eta - level)) / (1.0 + out)

        def before(k, level, total, mean):
            new = step(k, level, total)
            return new, total + new, mean + total

        def within(k, level, total, mean, end, head):
            left, new = (m + n - jnp.asarray(k, dtype)) / width, step(k, level, total)
            return new, total + new, mean + left * total, end + share * level, head + share * (total - 0.5 * level)

        first = step(jnp.asarray(0), eta, 0.5 * eta)
        fields = engine.repeat(equations, before, (first, 0.5 * eta + first, 0.5 * eta), range(1, m - n))
        zeros = (0.0 * fields[0] for _ in range(2))
        level, total, mean, end, head = engine.repeat(equations, within, (*fields, *zeros), range(m - n, m + n))
        end, head = end + share * level, head + share * (total - 0.5 * level)
        return engine.refreshed(equations, (end, (1.0 / m) * head, (1.0 / m**2) * mean))


@pytree
class SplitExplicit(Implicit):
    """Layers step by AB2, and the surface by substeps: the waves of the interfaces limit dt, those of the surface s.

    Args:
        dt: [s].
        substeps: their number in a step; gravity waves limit dt to so many times the limit of leap-frog.
        theta: the weight of the new velocities in the transports between layers; over 1/2 it damps internal waves.
        epsilon: damping of the terms, as in AB2.
    """

    dt: Any = time_step()
    substeps: int = parameter(default=SUBSTEPS, minimum=2, whole=True, differentiable=False, static=True)
    theta: Any = parameter(default=THETA, minimum=0.5, maximum=1.0)
    epsilon: Any = parameter(default=AB2_EPSILON, minimum=0.0, below=1.0)

    references = "Hallberg (1997), doi:10.1006/jcph.1997.5734; Demange et al. (2019), doi:10.1016/j.jcp.2019.108875"
    wide_halo = 4  # a fused loop makes as many substeps
    buffer_cycle = 2  # the elevation of a step ago is kept
    has_solver = False
    remedy = f"theta = {THETA:g} and epsilon = {AB2_EPSILON:g}"

    def stable_interval(self, axis: str) -> float:
        if axis == "wave":
            return 2.0 * self.substeps
        return super().stable_interval(axis)

    def prepare(self, equations: "System") -> "SplitStep":
        solver = Substeps(self.substeps)
        surface = Surface.of(equations, type(self).__name__, solver, self.dt / self.substeps)
        return SplitStep(self.dt, self.theta, self.epsilon, surface)


@pytree
class SplitStep(SurfaceStep):
    """The step of SplitExplicit; the attributes are its own, and the Surface."""

    dt: Any
    theta: Any
    epsilon: Any
    surface: Surface

    def step(self, equations: "System", state: State, history: Solved, time: Time) -> tuple[State, Solved]:
        e, dt, surface = equations, self.dt, self.surface
        flow = e.flow(state, time, fields_before(history.transported))
        now = self.explicit(e, flow, surface.explicit_depths(e, flow))
        slope = self.extrapolated(now, history.past.values[0], history.past.count)
        depths = self.middle_depths(flow, slope, surface)
        filled, depths, _ = e.fill_halos(with_velocities(flow, moved(flow, slope, dt)), time + 1.0, depths)
        ends, surface = velocities_of(filled), replace(surface, depths=depths or None)
        changes, count = [dt * slope[layer.names[2]] for layer in flow.layers], surface.solver.count
        first = [(layer.u, layer.v) for layer in flow.layers]
        added = [tuple(b - a for a, b in zip(*each)) for each in zip(first, ends)]
        middle = self._middle(e, surface, first, added)
        rise = (changes[0] - dt * surface.outflow(e, first)[0]) / count
        growth = (-dt / count**2) * surface.outflow(e, added)[0]
        height = functools.reduce(operator.add, depths or surface.rests or e.at_rest(e.depth))
        across = conductances(e, surface.weight, height)
        eta, rise, growth, changes, height, across = e.evaluation.finish_stage(
            (flow.eta, rise, growth, changes, height, across)
        )
        if depths:
            surface = surface.over(e, depths, e.evaluation.tile_values(height))
        level, head, mean = surface.solver.levels(e, surface, across, eta, rise, growth)
        ends = [surface.pushed(e, u, v, dt, e.gravity * head) for u, v in ends]
        middle = [surface.pushed(e, u, v, dt, e.gravity * mean) for u, v in middle]
        if e.open_boundaries:
            below = [filled[eta] for *_, eta in e.names_of_layers[1:]]
            middle, _ = e.apply_open_boundaries(cast(Any, middle), cast(Any, [head, *below]), time + 0.5)
            ends, _ = e.apply_open_boundaries(cast(Any, ends), cast(Any, [level, *below]), time + 1.0)
        new = named(flow, ends)
        for layer, change, out in zip(flow.layers, changes, surface.outflow(e, middle)):
            new[layer.names[2]] = layer.eta + change - dt * out
        others, transported = {}, None
        if history.transported:
            others, transported = self.carried(e, flow, slope, surface.transports(e, middle), history, surface)
        zero = jnp.zeros_like(history.residual)
        new = like(state, state.replace(**new, **others))
        return new, self.next_history(state, now, history, zero, transported, time)

    def _middle(self, equations, surface, first, added):
        """[w_k] from [u_k] and [dt E_k], pairs of Fields at u and v."""
        more = surface.solver.centre - self.theta
        transports = surface.transports(equations, added)
        heights = surface.transports(equations, [(1.0, 1.0)] * len(first))
        mean = [
            sum(flows[1:], flows[0]) * _inverse(functools.reduce(operator.add, columns))
            for flows, columns in zip(zip(*transports), zip(*heights))
        ]
        return [
            tuple(a + self.theta * x + more * all_layers for a, x, all_layers in zip(u, rate, mean))
            for u, rate in zip(first, added)
        ]


def conductances(equations: "System", weight: Scalar, height: Value) -> tuple[AbstractField, AbstractField]:
    """c length / distance [m2] on faces between wet cells, Fields at u and v; c is `weight` times `height`, at h."""
    g = equations.geometry
    on_faces = (mean_x(height), mean_y(height)) if isinstance(height, AbstractField) else (height, height)
    return (
        weight * g.dy["u"] * g.per_dx["u"] * g.wet_u * on_faces[0],
        weight * g.dx["v"] * g.per_dy["v"] * g.wet_v * on_faces[1],
    )


def _inverse(height):
    """1 / height [m-1] where there is water, else 0, of a Field or a number."""
    return height.map(safe_inverse) if isinstance(height, AbstractField) else 1.0 / height
