"""The flow of one layer in one stage of a step: its fields, those that are derived from them, and the vorticity flux.

    h = H + eta,   U = h_u u,   V = h_v v,   zeta = dv/dx - du/dy,   q = (f + zeta) / h_q,   K = (u^2 + v^2) / 2

In the linear mode h = H and zeta = 0. Terms and diagnostics read them from here. On the C-grid

    d eta/dt = -[difference_x(U dy) + difference_y(V dx)] / area,   U = mean_x(h) u,  V = mean_y(h) v
    B = g eta + K,   K = [mean_x(area_u u^2) + mean_y(area_v v^2)] / (2 area)

The vorticity flux, du/dt = q V and dv/dt = -q U, is the Coriolis force, with its parameter f [s-1] at corners, and
rotational advection. Both rotate the velocity and do no work. Each scheme takes q at corners and the volume fluxes
through whole cell sides, u h_u dy and v h_v dx [m3 s-1]. It returns accelerations times the distance of the adjacent
centres, dx_u du/dt and dy_v dv/dt.

    EnergyConserving     mean_y(q mean_x(V)),      -mean_x(q mean_y(U))       Sadourny (1975)
    EnstrophyConserving  mean_y(q) mean_xy(V),     -mean_x(q) mean_xy(U)      Sadourny (1975)
    ArakawaLamb          twelve values of q a face                            Arakawa & Lamb (1981)

The flux is linear in q, so that the Coriolis force (q = f / h) may have another form than rotational advection
(q = zeta / h). Two different forms together conserve energy if each of them does. Potential enstrophy is conserved only
where both have the same form, and on a plane or a sphere without coasts, where the slip sets zeta. With the flux of an
energy-conserving scheme, d/dt sum area (h K + g eta^2 / 2) = 0 exactly (Sadourny 1975; the mean of area_u u^2 is what
keeps it on the sphere).

References: Sadourny (1975), doi:10.1175/1520-0469(1975)032<0680:TDOFDM>2.0.CO;2; Arakawa & Lamb (1981),
doi:10.1175/1520-0493(1981)109<0018:APEAEC>2.0.CO;2.
"""

import abc
import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from ..fields.field import (
    AbstractField,
    Value,
    difference_x,
    difference_y,
    east,
    mean_x,
    mean_xy,
    mean_y,
    north,
    south,
    sum_xy,
    west,
)
from ..fields.parts import Named
from ..fields.state import State, replace
from ..fields.variables import names_in_layer
from ..grids.geometry import Geometry
from .clock import Time
from .dissipation import viscous_force

if TYPE_CHECKING:
    from .layers import Layers
    from .system import System

Vector: TypeAlias = tuple[AbstractField, AbstractField]  # at u and v

__all__ = [
    "ArakawaLamb",
    "EnergyConserving",
    "EnstrophyConserving",
    "LayerFlow",
    "VorticityFlux",
    "divergence",
    "gradient",
    "kinetic_energy",
    "transports",
]


def transports(h: AbstractField, u: AbstractField, v: AbstractField) -> Vector:
    """(U, V): volume transports per unit width [m2 s-1], at u and v, from the thickness h [m] at h."""
    return mean_x(h) * u, mean_y(h) * v


def divergence(u: AbstractField, v: AbstractField, geometry: Geometry) -> AbstractField:
    """div (u, v) at h, [s-1] of velocities and [m s-1] of transports, given at u and v."""
    return (difference_x(u * geometry.dy["u"]) + difference_y(v * geometry.dx["v"])) * geometry.per_area_h


def gradient(head: AbstractField, geometry: Geometry) -> Vector:
    """(d head/dx, d head/dy), Fields at u and v, of a Field at h."""
    return difference_x(head) * geometry.per_dx["u"], difference_y(head) * geometry.per_dy["v"]


def kinetic_energy(u: AbstractField, v: AbstractField, geometry: Geometry) -> AbstractField:
    """Kinetic energy per unit mass K [m2 s-2] at h, from the velocity [m s-1] at u and v."""
    return (mean_x(geometry.area_u * (u * u)) + mean_y(geometry.area_v * (v * v))) * (0.5 * geometry.per_area_h)


class LayerFlow:
    """The fields of one stage, and the derived fields that terms share. Each is computed when it is first used.

    Attributes:
        equations: the System, prepared; `geometry` and `gravity` are theirs.
        state: the State of Fields with halos; `u`, `v` and `eta` are its own.
        time: the Time of the stage.
        layer: the number of the layer, 0 at the top; u, v, eta and what is derived from them are those of the layer.
        h: thickness in the equations [m], a Field at h: H + eta, or H in the linear mode.
        more: further Fields that were exchanged in the same messages.
        outside: eta of each layer that open boundary conditions read [m], Fields at h.
        level: the elevation whose pressure gradient accelerates the flow [m], a Field at h; eta, unless the stepper
            sets another one.
    """

    layer = 0

    def __init__(self, equations: "System", state: State, more: Sequence, outside: Sequence, time: Time):
        self.equations, self.geometry, self.gravity = equations, equations.geometry, equations.gravity
        self.state, self.more, self.outside, self.time = state, more, outside, time
        self.u, self.v, self.eta = state.layer(self.layer)
        self.level = self.eta
        rest, excess = self._columns(time)
        self.h = rest if equations.linear else rest + excess * equations.geometry.wet

    @property
    def names(self) -> tuple[str, str, str]:
        """The names of u, v and eta of the layer in a State."""
        return names_in_layer(self.layer)

    def _columns(self, time):
        """(thickness at rest, what is above that) [m] of the layer at a Time, Fields at h."""
        e = self.equations
        return e.columns(e.depth_at(time), self.state)[self.layer]

    @functools.cached_property
    def layers(self) -> tuple["LayerFlow", ...]:
        """The LayerFlows of all layers, from the top down."""
        return (self, *(LowerFlow(self, k) for k in range(1, self.equations.layer_count)))

    def with_transports(self, transports: Sequence, state: State, time: Time, water_added: Sequence) -> "LayerFlow":
        """LayerFlow of another State, with the transports (U, V) of a whole time step and the water that terms add.

        Args:
            transports, water_added: of each layer.
        """
        flow = LayerFlow(self.equations, state, (), (), time)
        for layer, pair, added in zip(flow.layers, transports, water_added):
            vars(layer).update(_transports=pair, water_added=added)
        return flow

    @functools.cached_property
    def column(self) -> AbstractField:
        """H + eta, also in the linear mode [m], a Field at h.

        With uplift, H is the depth at the beginning of the step, because eta is raised at the end of the step.
        """
        e = self.equations
        if e.uplift is None and not e.linear:
            return self.h
        rest, excess = self._columns(replace(self.time, fraction=0.0 * self.time.fraction))
        return rest + excess * self.geometry.wet

    @property
    def covered(self) -> AbstractField:
        """1 in cells that hold water which tracers and fluxes can enter, a Field at h; else 0."""
        return self.geometry.wet

    @property
    def mixing_faces(self) -> Vector:
        """1 on faces where concentrations are reconstructed with a slope and diffuse, Fields at u and v; else 0."""
        return self.geometry.wet_u, self.geometry.wet_v

    @property
    def sloping_faces(self) -> Vector:
        """The share of a slope that concentrations on faces contain, Fields at u and v [1]."""
        return self.mixing_faces

    @functools.cached_property
    def water_added(self) -> Value:
        """The rate at which terms such as sponges add water [m s-1], a Field at h; 0.0 without such terms."""
        e = self.equations
        return e.excess([e.with_sources(0.0, layer, self.time) for layer in self.layers])[self.layer]

    def fluxes_of(self, name: str, time: Time) -> Vector:
        """The fluxes of a tracer's content in this layer, per unit width, Fields at u and v."""
        own = ((row, x) for row, x, layer in self.equations.contents if x.name == name and layer == self.layer)
        row, tracer = next(own)
        return tracer.at(time).fluxes(self, self.state[row.name], time)

    def shown(self, name: str) -> Value:
        """A field of the State as files hold it."""
        for row, tracer, layer in self.equations.contents:
            if row.name == name:
                return tracer.shown(self.state[name], self.layers[layer].column)
        return self.state[name]

    @functools.cached_property
    def _transports(self):
        return transports(self.h, self.u, self.v)

    @property
    def U(self) -> AbstractField:
        """The volume transport per unit width h_u u [m2 s-1], a Field at u."""
        return self._transports[0]

    @property
    def V(self) -> AbstractField:
        """The volume transport per unit width h_v v [m2 s-1], a Field at v."""
        return self._transports[1]

    @functools.cached_property
    def _wet_volume(self):
        """The volume of water in the wet ones of the four cells around a corner [m3]; 1 where all four are land."""
        volume = sum_xy(self.geometry.area_h * self.h) + self.geometry.dry_q
        return self.geometry.at_poles(volume, self.equations.communicator)

    @functools.cached_property
    def h_q(self) -> AbstractField:
        """Thickness at corners: the area-weighted mean over wet cells [m], 0 where all four are land."""
        dry = self.geometry.dry_q
        return (self._wet_volume - dry) / (self.geometry.wet_area_q + dry)

    @property
    def slip(self) -> AbstractField:
        """The factor of a velocity difference across corners [1]: 1 at sea, 0 or 2 at coasts (free or no slip)."""
        return self.geometry.slip

    @functools.cached_property
    def unit_viscous_force(self) -> Vector:
        """The acceleration by a lateral viscosity of 1 m2 s-1 [m s-2], Fields at u and v, which several terms read."""
        return viscous_force(self.u, self.v, 1.0, self)

    @functools.cached_property
    def vorticity(self) -> AbstractField:
        """zeta = dv/dx - du/dy at corners [s-1]: the circulation around the corner's cell, divided by its area."""
        g = self.geometry
        circulation = difference_x(self.v * g.dy["v"]) - difference_y(self.u * g.dx["u"])
        return g.at_poles(circulation * self.slip, self.equations.communicator) * g.per_area_q

    @functools.cached_property
    def q(self) -> AbstractField:
        """Potential vorticity (f + zeta) / h_q at corners [m-1 s-1]; f / h_q in the linear mode."""
        absolute = self.geometry.f if self.equations.linear else self.geometry.f + self.vorticity
        return absolute * self.per_h_q

    @functools.cached_property
    def per_h_q(self) -> AbstractField:
        """1 / h_q at corners, 0 where all four cells are land [m-1]."""
        return self.geometry.wet_area_q / self._wet_volume

    @functools.cached_property
    def kinetic_energy(self) -> AbstractField:
        """K = (u^2 + v^2) / 2 at cell centres [m2 s-2]."""
        return kinetic_energy(self.u, self.v, self.geometry)

    @functools.cached_property
    def split_terms(self) -> tuple[tuple, tuple, tuple]:
        """The accelerations and the damping rates of the terms.

        They are ((du/dt, dv/dt) of terms without `damping` [m s-2], (rate at u, rate at v) of those with it [s-1], the
        rates per speed [m-1] of those that have them instead): Fields or numbers; None in place of a rate where no term
        damps.
        """
        along, damping, per_speed = (0.0, 0.0), (None, None), (None, None)
        for term in self.equations.terms:
            term = term.at(self.time)
            if (rates := term.damping_per_speed(self, self.time)) is not None:
                per_speed = tuple(b if a is None else a + b for a, b in zip(per_speed, rates))
            elif (rates := term.damping(self, self.time)) is not None:
                damping = tuple(b if a is None else a + b for a, b in zip(damping, rates))
            else:
                along = tuple(a + b for a, b in zip(along, term(self, self.time)))
        return along, damping, per_speed

    def load(self, level: AbstractField) -> AbstractField:
        """The thickness of the water that an elevation adds to that at rest [m], Fields at h."""
        return level

    @property
    def per_h_of_wind(self) -> Vector:
        """(1 / h_u, 1 / h_v) [m-1] by which a stress on the surface moves the water, Fields at u and v."""
        return self.per_h_u, self.per_h_v

    @functools.cached_property
    def per_h_u(self) -> AbstractField:
        """1 / h_u at u on faces between wet cells, 0 on the others [m-1]."""
        wet = self.geometry.wet_u
        return wet / (mean_x(self.h) + (1.0 - wet))

    @functools.cached_property
    def per_h_v(self) -> AbstractField:
        """1 / h_v at v on faces between wet cells, 0 on the others [m-1]."""
        wet = self.geometry.wet_v
        return wet / (mean_y(self.h) + (1.0 - wet))


class LowerFlow(LayerFlow):
    """The LayerFlow of a layer below the top one.

    Args:
        top: the LayerFlow of the top layer.
        layer: the number of the layer.
    """

    def __init__(self, top: LayerFlow, layer: int):
        self.layer, self.top = layer, top
        super().__init__(top.equations, top.state, (), top.outside, top.time)

    @property
    def layers(self) -> tuple[LayerFlow, ...]:
        return self.top.layers

    @property
    def per_h_of_wind(self) -> tuple[Value, Value]:
        return 0.0, 0.0


def over_deep_water(layers: "Layers | None") -> bool:
    """Whether layers move over a deep one at rest, so that eta is summed from the top."""
    return layers is not None and layers.deep_at_rest


# -- the vorticity flux -----------------------------------------------------------------------------------------------

SADOURNY = "Sadourny (1975), doi:10.1175/1520-0469(1975)032<0680:TDOFDM>2.0.CO;2"


class VorticityFlux(Named, abc.ABC):
    """A discrete form of the vorticity flux.

    Attributes:
        references: the literature that files of a run cite for it, or None.
        conserves_momentum: whether it steps the momentum of whole stages (conserving.py) in place of giving tendencies.
        has_kinks: whether it chooses among branches by the flow, so that perturbed runs may take others.
        wave_damping: the rate at which it damps the shortest waves, over that of an upwind scheme [1].
    """

    references: ClassVar[str | None] = None
    conserves_momentum: ClassVar[bool] = False
    has_kinks: ClassVar[bool] = False
    wave_damping: ClassVar[float] = 0.0

    def prepare(self, system: "System") -> "System":
        """A prepared System whose stages and LayerFlow are those of this form: the same one unless it steps its own."""
        return system

    @abc.abstractmethod
    def vorticity_flux(self, q: AbstractField, U: AbstractField, V: AbstractField) -> Vector:
        """(dx_u du/dt, dy_v dv/dt) [m2 s-2], Fields at u and v.

        Args:
            q: potential vorticity at corners [m-1 s-1], or the part of it that is due to rotation or to the flow.
            U, V: volume transports through whole cell sides [m3 s-1], Fields at u and v.
        """


@dataclasses.dataclass(frozen=True)
class EnergyConserving(VorticityFlux):
    """Conserves total energy; potential enstrophy may grow. The default. Sadourny (1975)."""

    references = SADOURNY

    def vorticity_flux(self, q: AbstractField, U: AbstractField, V: AbstractField) -> Vector:
        return mean_y(q * mean_x(V)), -mean_x(q * mean_y(U))


DEFAULT = EnergyConserving()


@dataclasses.dataclass(frozen=True)
class EnstrophyConserving(VorticityFlux):
    """Conserves potential enstrophy; total energy may change. Sadourny (1975)."""

    references = SADOURNY

    def vorticity_flux(self, q: AbstractField, U: AbstractField, V: AbstractField) -> Vector:
        return mean_y(q) * mean_xy(V), -mean_x(q) * mean_xy(U)


@dataclasses.dataclass(frozen=True)
class ArakawaLamb(VorticityFlux):
    """Conserves total energy and potential enstrophy, in divergent flow too. Arakawa & Lamb (1981)."""

    references = "Arakawa and Lamb (1981), doi:10.1175/1520-0493(1981)109<0018:APEAEC>2.0.CO;2"

    def vorticity_flux(self, q: AbstractField, U: AbstractField, V: AbstractField) -> Vector:
        rising = north(east(q)) + south(west(q))  # along the diagonal from south-west to north-east
        falling = north(west(q)) + south(east(q))
        near, far = (2.0 * rising + falling) / 24.0, (rising + 2.0 * falling) / 24.0
        tilt_u = (north(east(q)) - south(west(q)) + north(west(q)) - south(east(q))) / 24.0
        tilt_v = (south(west(q)) - north(east(q)) + north(west(q)) - south(east(q))) / 24.0
        flux_u = (
            east(near * north(V) + far * south(V))
            + west(near * south(V) + far * north(V))
            + west(tilt_u * west(U))
            - east(tilt_u * east(U))
        )
        flux_v = (
            -south(near * west(U) + far * east(U))
            - north(near * east(U) + far * west(U))
            + south(tilt_v * south(V))
            - north(tilt_v * north(V))
        )
        return flux_u, flux_v
