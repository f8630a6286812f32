"""Drag and viscosity, which take energy out of the flow, and what viscosity assumes along coasts.

    drag        du/dt = - r u,   du/dt = - k |u| u,   k = C / h_u,   k = g n^2 / h_u^(4/3) after Manning
    friction    du/dt = k (u' - u) / h_u, with u' of the layers above and below
    viscosity   du/dt = div(h nu D) / h, with D the symmetric trace-free strain

        T = (dy/dx) difference_x(u / dy) - (dx/dy) difference_y(v / dx)    [h]
        S = (dx/dy) difference_y(u / dx) + (dy/dx) difference_x(v / dy)    [q]

        du/dt = [difference_x(dy^2 h nu T) / dy + difference_y(dx^2 h nu S) / dx] / (h_u area_u)
        dv/dt = [difference_x(dy^2 h nu S) / dy - difference_y(dx^2 h nu T) / dx] / (h_v area_v)

The operator is minus the transpose of the strain, weighted with h nu. So it never adds energy, it conserves momentum,
and it vanishes for rigid rotation of the sphere. At a coast S is 0 (free slip) or twice the one-sided difference
(no slip). The biharmonic form applies the operator twice. After Smagorinsky (1993) and Griffies & Hallberg (2000),
doi:10.1175/1520-0493(2000)128<2935:BFWASL>2.0.CO;2.

The lateral boundary condition for the flow along coasts and walls: free slip or no slip.

At a corner (position q) on a coast, the derivative of the velocity across the coast is the one-sided difference over a
whole cell, times `factor` [1]. It is 0 with free slip, and 2 with no slip (the velocity falls to 0 in half a cell).
"""

import abc
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..errors import ConfigError
from ..fields.field import AbstractField, Scalar, Value, difference_x, difference_y, mean_xy, to_u, to_v
from ..fields.parameters import parameter
from ..fields.parts import ModelPart, which_layer
from ..fields.state import pytree
from .clock import Time
from .domain import Model
from .terms import Term

if TYPE_CHECKING:
    from .conserving_flow import ConservingFlow
    from .layer import LayerFlow
    from .site import Site

__all__ = [
    "Biharmonic",
    "FreeSlip",
    "InterfacialFriction",
    "Laplacian",
    "LinearDrag",
    "ManningDrag",
    "NoSlip",
    "QuadraticDrag",
    "Slip",
    "biharmonic_force",
    "damping_after",
    "speed_after_drag",
    "strain",
    "viscous_force",
]


class Slip(ModelPart):
    """The base class of conditions along coasts and walls.

    Attributes:
        factor: of the vorticity there, as if the velocity fell to 0 over a whole cell: 0 slips freely, 2 does not [1].
    """

    factor: ClassVar[float] = 0.0


@pytree
class FreeSlip(Slip):
    """No stress and no vorticity at coasts and walls."""


@pytree
class NoSlip(Slip):
    """The velocity along coasts and walls is zero at them."""

    factor = 2.0


SPEED_FLOOR = 1e-6  # [m s-1]; keeps |u| differentiable at rest


class Drag(Term):
    """A term du/dt = - r u, dv/dt = - r v, of which `damping` gives r [s-1] at u and v."""

    @abc.abstractmethod
    def damping(self, flow: "LayerFlow", time: Time) -> tuple[Value, Value]:
        pass

    def __call__(self, flow: "LayerFlow", time: Time) -> tuple[Value, Value]:
        along_x, along_y = self.damping(flow, time)
        return -along_x * flow.u, -along_y * flow.v


class DragBySpeed(Drag):
    """A term du/dt = - k |u| u, dv/dt = - k |u| v, whose r is k |u|."""

    nonlinear = True
    is_twice_differentiable = False

    @abc.abstractmethod
    def at_speeds(self, flow: "LayerFlow", speed_u: Value, speed_v: Value) -> tuple[Value, Value]:
        """k |u| [s-1] at u and at v, for speeds |u| there [m s-1]."""

    def damping(self, flow: "LayerFlow", time: Time) -> tuple[Value, Value]:
        return self.at_speeds(flow, *_speeds(flow))

    def damping_per_speed(self, flow: "LayerFlow", time: Time) -> tuple[Value, Value] | None:
        if type(self).damping is not DragBySpeed.damping:  # a derived class has a rate of its own
            return None
        return self.at_speeds(flow, 1.0, 1.0)


@pytree
class LinearDrag(Drag):
    """du/dt = - rate u.

    Args:
        rate: [s-1]; a number, a function of (x, y), or an array at cell centres.
    """

    rate: Any = parameter("h", "s-1", minimum=0.0, doc="the rate at which the flow slows down")
    layer: Any = which_layer(-1)

    uses_time = False

    def rates(self, site: "Site") -> np.ndarray | float:
        return self.rate

    def damping(self, flow: "LayerFlow", time: Time) -> tuple[Value, Value]:
        return to_u(self.rate), to_v(self.rate)


@pytree
class QuadraticDrag(DragBySpeed):
    """du/dt = - coefficient |u| u / h_u.

    Args:
        coefficient: [1]; a number, a function of (x, y), or an array at cell centres. 2.5e-3 is usual.
    """

    coefficient: Any = parameter("h", "1", minimum=0.0, doc="the drag coefficient")
    layer: Any = which_layer(-1)

    uses_time = False

    def rates(self, site: "Site") -> np.ndarray | float:
        return np.asarray(self.coefficient, float) * site.speed() / site.thickness

    def at_speeds(self, flow: "LayerFlow", speed_u: Value, speed_v: Value) -> tuple[Value, Value]:
        return to_u(self.coefficient) * speed_u * flow.per_h_u, to_v(self.coefficient) * speed_v * flow.per_h_v


@pytree
class ManningDrag(DragBySpeed):
    """du/dt = - g n^2 |u| u / h_u^(4/3).

    Args:
        roughness: Manning's n [s m-1/3]; 0.025 is usual for tsunamis.
    """

    roughness: Any = parameter("h", "s m-1/3", minimum=0.0, below=1.0, doc="Manning's roughness")
    layer: Any = which_layer(-1)

    uses_time = False

    def check_water(self, model: Model) -> None:
        """Raise ConfigError if a map is 0 on land that may be flooded, where thin water would not be slowed down."""
        n = self.roughness
        if model.film is None or np.ndim(n) < 2 or not isinstance(n, jax.Array) or isinstance(n, Tracer):
            return
        floor = model.sea_floor
        land = model.domain.cut(floor.wet.map(lambda wet, depth: wet & (depth < 0), floor.depth, dtype=bool))
        if model.communicator.agree(bool(jnp.any((n == 0) & (land > 0)))):
            raise ConfigError(
                "ManningDrag: the roughness is 0 in cells of land, over which water would flow without friction; give "
                "land a roughness, or the height that no water reaches: WettingDrying(highest=...), in experiment "
                "files model.wetting.highest."
            )

    def rates(self, site: "Site") -> np.ndarray | float:
        return site.gravity * np.asarray(self.roughness, float) ** 2 * site.speed() / site.thickness ** (4 / 3)

    def at_speeds(self, flow: "LayerFlow", speed_u: Value, speed_v: Value) -> tuple[Value, Value]:
        n_u, n_v = to_u(self.roughness), to_v(self.roughness)
        return (
            flow.gravity * n_u * n_u * speed_u * flow.per_h_u.map(_four_thirds),
            flow.gravity * n_v * n_v * speed_v * flow.per_h_v.map(_four_thirds),
        )


def _four_thirds(x):
    """x^(4/3), with a finite derivative at 0, which land has."""
    safe = jnp.where(x > 0, x, 1.0)
    return jnp.where(x > 0, safe * jnp.cbrt(safe), 0.0)


def _speeds(flow):
    """The speed of the flow [m s-1] at u and at v."""
    return _speed(flow.u, mean_xy(flow.v)), _speed(flow.v, mean_xy(flow.u))


def _speed(u, v):
    return (u * u + v * v).map(lambda s: jnp.sqrt(s + SPEED_FLOOR**2))


def damping_after(flow: "ConservingFlow", k: int, undamped: AbstractField, dt: Scalar) -> Value:
    """The rate of friction during an implicit step [s-1], with the speed after it; None without friction.

    Args:
        flow: a ConservingFlow.
        k: 0 for u, 1 for v.
        undamped: the velocity after the step without friction [m s-1], a Field there.
        dt: the length of the step [s].
    """
    _, linear, per_speed = flow.split_terms
    if per_speed[k] is None:
        return linear[k]
    old, other = ((flow.u, flow.v), (flow.v, flow.u))[k]
    speed = speed_after_drag(undamped, old, mean_xy(other), linear[k], per_speed[k], dt)
    return per_speed[k] * speed if linear[k] is None else linear[k] + per_speed[k] * speed


def speed_after_drag(
    undamped: AbstractField, old: Value, across: Value, linear: Value | None, per_speed: Value, dt: Scalar
) -> Value:
    """The speed |u'| [m s-1] after an implicit step of drag, u' (1 + dt r + dt k |u'|) = u*.

    The speed is projected on the direction (c, s) of the velocity that the old speed would give: |u'| = c |u'_x| +
    s |u_y| is at most the length, and exact in steady flow and in flow along one axis. So u' is a root of a quadratic,
    positive and with a finite derivative also at rest.

    Args:
        undamped: u*, the component without drag, a Field.
        old, across: the component and the other one at the beginning of the step [m s-1], Fields at the same position.
        linear: r [s-1], of other terms; None without them.
        per_speed: k [m-1].
        dt: the time step [s].
    """
    least = 1.0 if linear is None else 1.0 + dt * linear
    b, size, other = dt * per_speed, undamped.map(jnp.abs), across * across
    guess = size / (least + b * _speed(old, across))
    per_length = (guess * guess + other).map(lambda s: 1.0 / jnp.sqrt(s + SPEED_FLOOR**2))
    a, b = least + b * other * per_length, b * guess * per_length
    new = 2.0 * size / (a + (a * a + 4.0 * b * size).map(jnp.sqrt))
    return (guess * new + other) * per_length


@pytree
class InterfacialFriction(Term):
    """Friction between layers: du_k/dt = k [(u_{k-1} - u_k) + (u_{k+1} - u_k)] / h_k, without the layers that are not.

    The stress k (u_k - u_{k+1}) at an interface accelerates one layer as it slows the other down.

    Args:
        coefficient: k [m s-1]; a number, a function of (x, y), or an array at cell centres.
    """

    coefficient: Any = parameter("h", "m s-1", minimum=0.0, doc="the friction velocity between layers")

    uses_time = False
    between_layers = True

    def rates(self, site: "Site") -> np.ndarray | float:
        return 4.0 * np.asarray(self.coefficient, float) / site.thickness

    def __call__(self, flow: "LayerFlow", time: Time) -> tuple[Value, Value]:
        near = [flow.layers[k] for k in (flow.layer - 1, flow.layer + 1) if 0 <= k < len(flow.layers)]
        along_x, along_y = sum((x.u - flow.u for x in near), 0.0), sum((x.v - flow.v for x in near), 0.0)
        return to_u(self.coefficient) * along_x * flow.per_h_u, to_v(self.coefficient) * along_y * flow.per_h_v


@pytree
class Laplacian(Term):
    """Harmonic lateral viscosity.

    Args:
        viscosity: nu [m2 s-1]; a number, a function of (x, y), or an array at cell centres.
    """

    viscosity: Any = parameter("h", "m2 s-1", minimum=0.0, doc="the eddy viscosity")
    layer: Any = which_layer()

    uses_time = False

    def rates(self, site: "Site") -> np.ndarray | float:
        return site.viscous_rate(self.viscosity)

    def __call__(self, flow: "LayerFlow", time: Time) -> tuple[Value, Value]:
        if isinstance(self.viscosity, AbstractField):
            return viscous_force(flow.u, flow.v, self.viscosity, flow)
        along_x, along_y = flow.unit_viscous_force
        return self.viscosity * along_x, self.viscosity * along_y


@pytree
class Biharmonic(Term):
    """Biharmonic lateral viscosity, - L (nu4 L u) with L the Laplacian term of unit viscosity.

    Args:
        viscosity: nu4 [m4 s-1]; a number, a function of (x, y), or an array at cell centres.
    """

    viscosity: Any = parameter("h", "m4 s-1", minimum=0.0, doc="the biharmonic viscosity")
    layer: Any = which_layer()

    uses_time = False

    def rates(self, site: "Site") -> np.ndarray | float:
        return site.viscous_rate(1.0, times=2) * site.viscous_rate(self.viscosity, times=2)

    def __call__(self, flow: "LayerFlow", time: Time) -> tuple[Value, Value]:
        return biharmonic_force(to_u(self.viscosity), to_v(self.viscosity), flow)


def biharmonic_force(viscosity_u: Value, viscosity_v: Value, flow: "LayerFlow") -> tuple[AbstractField, AbstractField]:
    """- L (nu4 L u) with L the operator of `viscous_force` for nu = 1 m2 s-1, Fields at u and v.

    Args:
        viscosity_u, viscosity_v: nu4 [m4 s-1] at u and at v, numbers or Fields.
        flow: LayerFlow.
    """
    along_x, along_y = flow.unit_viscous_force  # 0 on faces at land
    again_x, again_y = viscous_force(viscosity_u * along_x, viscosity_v * along_y, 1.0, flow)
    return -again_x, -again_y


def strain(u: AbstractField, v: AbstractField, flow: "LayerFlow") -> tuple[AbstractField, AbstractField]:
    """Tension T at h and shear S at corners [s-1] of the velocity (module docstring), with `flow.slip` at coasts."""
    g = flow.geometry
    tension = g.dy["h"] * g.per_dx["h"] * difference_x(u * g.per_dy["u"])
    tension = tension - g.dx["h"] * g.per_dy["h"] * difference_y(v * g.per_dx["v"])
    shear = g.dx["q"] * g.per_dy["q"] * difference_y(u * g.per_dx["u"])
    shear = (shear + g.dy["q"] * g.per_dx["q"] * difference_x(v * g.per_dy["v"])) * flow.slip
    return tension, shear


def viscous_force(
    u: AbstractField, v: AbstractField, viscosity: Value, flow: "LayerFlow"
) -> tuple[AbstractField, AbstractField]:
    """The divergence of the stress h nu D over h (module docstring), Fields at u and v.

    Args:
        u, v: the velocity [m s-1], or what the biharmonic form applies the operator to, Fields at u and v.
        viscosity: nu [m2 s-1], a number or a Field at h.
        flow: LayerFlow, which give the thickness and the geometry.
    """
    g = flow.geometry
    tension, shear = strain(u, v, flow)
    normal = tension * flow.h * viscosity
    tangential = shear * flow.h_q * (mean_xy(viscosity) if isinstance(viscosity, AbstractField) else viscosity)
    along_x = difference_x(g.dy["h"] * g.dy["h"] * normal) * g.per_dy["u"]
    along_x = along_x + difference_y(g.dx["q"] * g.dx["q"] * tangential) * g.per_dx["u"]
    along_y = difference_x(g.dy["q"] * g.dy["q"] * tangential) * g.per_dy["v"]
    along_y = along_y - difference_y(g.dx["h"] * g.dx["h"] * normal) * g.per_dx["v"]
    per_area_u, per_area_v = g.per_dx["u"] * g.per_dy["u"], g.per_dx["v"] * g.per_dy["v"]
    return along_x * flow.per_h_u * per_area_u, along_y * flow.per_h_v * per_area_v
