"""Passive tracers: substances that the water carries, and that do not change the flow.

    d(h c)/dt + div (U c) = div (h kappa grad c) + h S + F + c_added W,    h = H + eta

    c        concentration [the tracer's units]
    U        volume transport of the continuity equation [m2 s-1]
    kappa    diffusivity [m2 s-1]
    S        source of concentration [units s-1]
    F        flux through the surface or the bottom, positive into the water [units m s-1]
    W        water that sponges add [m s-1], with the concentration c_added

The prognostic variable is the content s = h c, so that its sum over the domain changes by sources, fluxes, open sides
and sponges alone. c = 1 stays 1, because its content obeys the continuity equation. In the linear mode, too, h is H +
eta, and the transport U = H u is that of the linear continuity equation.

**Advection** is   - [difference_x(U dy c_u) + difference_y(V dx c_v)] / area   discretely, with c on faces. U and V are
the same volume transports as in the stepper's continuity equation. So the sum of area h c does not change, and c = 1,
for which c_u = c_v = 1, gives the continuity equation itself. A scheme is a choice of c_u and c_v:

    Centred        c_u = mean_x(c): second order, no damping, and ripples behind fronts
    FluxLimited    c_u = c_upstream + L(a, b) / 2, with a limiter L (limiters.py): no ripples, no new extrema

A step of Euler of length dt with FluxLimited gives in each cell a mean of the values in it and around it, with weights
that are not negative, while

    dt (1 + s / 2) (sum of the transports out of the cell) <= area h,   s the limiter's steepness

in any number of dimensions, over any depth. SSPRK3 is a convex combination of such steps, and has the same limit.

On a face at a coast nothing flows. On the face of an open side c_u is the value upstream: what is given for the outside
where the flow comes in, and that of the cell inside where it goes out.

**Diffusion** is   [difference_x(dy h_u kappa_u ddx(c)) + difference_y(dx h_v kappa_v ddy(c))] / area   discretely. On
faces h is the harmonic mean 2 h_1 h_2 / (h_1 + h_2) of both cells. It is less than twice the smaller one, so that a
shallow cell next to a deep one does not shorten the time step. The flux through coasts, walls and open sides is 0. The
sum of area h c does not change, and that of area h c^2 does not grow.
"""

import abc
import re
from typing import TYPE_CHECKING, Any, cast

import jax.numpy as jnp
import numpy as np

from ..fields.field import (
    AbstractField,
    Field,
    Value,
    X,
    Y,
    difference_x,
    difference_y,
    east,
    mean_x,
    mean_y,
    north,
    pointwise,
    south,
    west,
)
from ..fields.parameters import Part, Text, declared, parameter, refuse
from ..fields.parts import Named, numbers_of, which_layer
from ..fields.state import RESERVED, pytree, replace, replaced
from ..fields.variables import VARIABLES, Variable
from ..grids.geometry import Geometry
from ..parallel.halo import exchange as fill_halos
from .clock import Time
from .domain import Domain
from .layer import divergence
from .limiters import Limiter, VanLeer, limited_face, upstream
from .terms import tile_array, value_at
from .transported import Transported

if TYPE_CHECKING:
    from .layer import LayerFlow
    from .site import Site
    from .stages import Exchange

__all__ = [
    "AdvectionScheme",
    "Centred",
    "FluxLimited",
    "Tracer",
    "check_name",
    "depth_ratios",
    "diffusive_flux",
    "diffusive_rate",
]


TAKEN = frozenset(  # variables and dimensions of files that are not in the table VARIABLES
    "x y longitude latitude xh xq yh yq grid area wet time bnds ".split()
    + "layer interface member gauge gauge_name name_length wavenumber ".split()
    + "dx_h dx_u dx_v dx_q dy_h dy_u dy_v dy_q area_u area_v area_q".split()
)
PARAMETERS = ("diffusivity", "source", "flux", "outside")  # with None the term is left out


def check_name(name: str) -> None:
    """Raise ConfigError for a name that a tracer cannot have in files."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        remedy = "a letter, and then letters, digits and underscores"
        refuse("Tracer", "name", name, "is no name of a variable in files", remedy)
    if name in VARIABLES or name in TAKEN or name in RESERVED or name.endswith("_bnds"):
        refuse("Tracer", "name", name, "is already the name of another variable in states and files", "another one")


def _quotient(content, column):
    """content / column, and 0 where the column is 0, with finite derivatives there."""
    some = column > 0
    return jnp.where(some, content, 0.0) / jnp.where(some, column, 1.0)


def _beyond_open_sides(exchange):
    """1 in ghost cells beyond open sides of the domain, else 0, a Field at h; None where no side is open."""
    tile, sides = exchange.tile, exchange.tile.sides
    if not sides.open_sides:
        return None
    ones = jnp.ones(tile.shape, tile.metrics["area_h"].dtype)
    closed = replace(sides, open=jnp.zeros_like(sides.open))
    both = [fill_halos([ones], tile.halo, each, exchange.communicator)[0] for each in (sides, closed)]
    return Field(both[0] - both[1], "h", (tile.halo,) * 4)


AXES = {"x": X, "y": Y}


class AdvectionScheme(Named, abc.ABC):
    """A choice of the concentration on faces (module docstring).

    Attributes:
        growth: 0 for a scheme without damping, which needs a time stepper that is stable on the imaginary axis. For
            others it is 1 + s / 2, the factor by which the limiter shortens the time step (module docstring).
        references: the literature that files of a run cite for it, or None.
        has_kinks: whether it chooses among branches by the flow, as for a ModelPart.
    """

    growth = 0.0
    references = None
    has_kinks = False

    def faces(self, c: AbstractField, flow: "LayerFlow") -> tuple:
        """(c_u, c_v), Fields at u and v, of the concentration c at h and LayerFlow, which have the transports."""
        sloping_u, sloping_v = flow.sloping_faces
        return (
            self.along("x", c, flow.U, sloping_u, flow.geometry),
            self.along("y", c, flow.V, sloping_v, flow.geometry),
        )

    @abc.abstractmethod
    def along(
        self, axis: str, c: AbstractField, transport: AbstractField, moving: AbstractField, geometry: Geometry
    ) -> AbstractField:
        """The concentration on the faces across an axis, a Field at u or v.

        Args:
            axis: "x" or "y".
            c: concentration, a Field at h with halo.
            transport: volume transport through the faces [m2 s-1], a Field at u or v.
            moving: the share of a slope that the scheme may use, 0 to 1: LayerFlow.sloping_faces, at u or v.
            geometry: the Geometry.
        """

    @abc.abstractmethod
    def describe(self) -> str:
        """A description for logs, such as "centred, second order"."""


@pytree
class Centred(AdvectionScheme):
    """The mean of both cells: second order; extrema can grow, and fronts leave ripples behind."""

    def along(
        self, axis: str, c: AbstractField, transport: AbstractField, moving: AbstractField, geometry: Geometry
    ) -> AbstractField:
        low, high, _, mean = AXES[axis]
        middle = mean(c)
        if not geometry.tile.sides.open_sides:
            return middle
        open_faces = low(geometry.wet) * high(geometry.wet) - moving
        return middle + open_faces * (upstream(transport, low(c), high(c)) - middle)

    def describe(self) -> str:
        return "centred, second order"


@pytree
class FluxLimited(AdvectionScheme):
    """The value upstream, corrected to second order as far as this makes no new extremum.

    Args:
        limiter: VanLeer(), MinMod(), MonotonizedCentral(), Koren() or Superbee().
    """

    limiter: Limiter = declared(Part(("steepness",), "VanLeer()"), default=VanLeer(), static=True)

    has_kinks = True

    @property
    def growth(self) -> float:
        return 1.0 + 0.5 * self.limiter.steepness

    @property
    def references(self) -> str | None:
        return self.limiter.references

    def along(
        self, axis: str, c: AbstractField, transport: AbstractField, moving: AbstractField, geometry: Geometry
    ) -> AbstractField:
        return limited_face(AXES[axis], c, AXES[axis].difference(c) * moving, transport, self.limiter)

    def describe(self) -> str:
        return f"flux-limited, {type(self.limiter).__name__}"


def diffusive_flux(c: AbstractField, flow: "LayerFlow", diffusivity: Value) -> tuple:
    """(- h kappa dc/dx, - h kappa dc/dy), Fields at u and v; 0 on faces that `flow.mixing_faces` excludes.

    Args:
        c: concentration at h.
        flow: LayerFlow.
        diffusivity: kappa [m2 s-1], a number or a Field at h.
    """
    g, h, (mixing_u, mixing_v) = flow.geometry, flow.column, flow.mixing_faces
    along_x = _harmonic(west(h), east(h), mixing_u) * difference_x(c) * g.per_dx["u"]
    along_y = _harmonic(south(h), north(h), mixing_v) * difference_y(c) * g.per_dy["v"]
    if isinstance(diffusivity, AbstractField):
        return -mean_x(diffusivity) * along_x, -mean_y(diffusivity) * along_y
    return -diffusivity * along_x, -diffusivity * along_y


def _harmonic(one, other, moving):
    """The harmonic mean where `moving` is 1, else 0, with finite derivatives on land."""
    return 2.0 * one * other * moving / (one + other + (1.0 - moving))


def diffusive_rate(site: "Site", diffusivity: np.ndarray | float) -> np.ndarray:
    """A bound on the rate [s-1] of damping by diffusion in each cell of a `site`, after Gershgorin's theorem.

    It is twice the sum of the coefficients of the neighbours. A `site` is one tile (stepping/stability.py).
    """
    west, east, south, north = (2.0 * ratio / (1.0 + ratio) for ratio in depth_ratios(site))
    rows = (west + east) * site.per_dx2 + (south + north) * site.per_dy2
    return 2.0 * np.asarray(diffusivity, float) * rows


def depth_ratios(site: "Site") -> tuple:
    """The depths of the (west, east, south, north) neighbours of each cell over its own [1]; 0 where either is land.

    Of several layers they are those of the lowest one, in which they differ most.
    """
    model = site.model
    modes = ["wrap" if p else "edge" for p in (model.grid.periodic_y, model.grid.periodic_x)]
    h = np.maximum(site.box.cut(model.sea_floor.water, 1, *modes), 0.0)  # heights of land are no depths
    if model.layers is not None:
        h = np.maximum(model.layers.rest(h)[-1], 0.0)  # the upper ones are as thick everywhere
    here = h[1:-1, 1:-1]
    around = h[1:-1, :-2], h[1:-1, 2:], h[:-2, 1:-1], h[2:, 1:-1]
    return tuple(np.where(here > 0, x / np.maximum(here, 1e-30), 0.0) for x in around)


class Tracer(Transported):
    """A passive tracer of a ShallowWater model.

    Args:
        name: of its concentration in files, gauges and figures: a letter, then letters, digits and underscores.
        units: of the concentration, in the notation of the CF conventions.
        long_name: a description for figures and files; the name unless given.
        initial: its concentration at the start [units]: a number, a function of (x, y), or an (ny, nx) array.
        scheme: Centred() or FluxLimited(limiter).
        diffusivity: kappa [m2 s-1]: a number, a function of (x, y), or an array at cell centres.
        source: S [units s-1]: a number, a function, an array or time records.
        flux: F, positive into the water [units m s-1], likewise.
        outside: the concentration of water that comes in through open sides and sponges [units], likewise; of an array,
            open sides use the edge cells. Unless given, that water has the concentration inside.
        layer: the number of the layer that it is in, 0 at the top, -1 the lowest. Unless given it is in all layers, and
            has a concentration of its own in each. F enters the top layer then, and S, kappa and the rest are those of
            all layers.
    """

    name: str = declared(Text(), default="", static=True)
    units: str = declared(Text(), default="1", static=True)
    long_name: str = declared(Text(), default="", static=True)
    initial: Any = parameter("h", "its units", default=0.0, optional=True, steady=True, differentiable=False)
    scheme: AdvectionScheme = declared(Part(("faces",), "FluxLimited()"), default=FluxLimited(), static=True)
    diffusivity: Any = parameter("h", "m2 s-1", minimum=0.0, default=None, optional=True, steady=True)
    source: Any = parameter("h", "its units s-1", default=None, optional=True, halo=False)
    flux: Any = parameter("h", "its units m s-1", default=None, optional=True, halo=False)
    outside: Any = parameter("h", "its units", default=None, optional=True)
    layer: int | None = which_layer()
    beyond: Any = parameter("h", default=None, optional=True, differentiable=False)  # see `prepare`

    def __post_init__(self):
        super().__post_init__()
        check_name(self.name)

    @property
    def variable(self) -> Variable:
        return Variable(self.name, "h", self.units, self.long_name or self.name, colormap="matter")

    @property
    def references(self) -> str | None:
        return self.scheme.references

    @property
    def has_kinks(self) -> bool:
        """Also of the water that sponges add or take: it has the concentration upstream."""
        return self.scheme.has_kinks or self.outside is not None

    # -- on tiles -----------------------------------------------------------------------------------------------------

    def on_tile(self, domain: Domain) -> "Tracer":
        """This tracer with its parameters as tile arrays, and without its initial value."""

        def cut(x, name):
            return tile_array(x, "h", domain, f"Tracer {self.name}: {name}")

        return replaced(self, self._given(cut) | {"initial": None})

    def prepare(self, exchange: "Exchange") -> "Tracer":
        """This tracer with its halos filled; `beyond` is then 1 in ghosts beyond open sides, else 0. Collective."""
        numbers = numbers_of(type(self))

        def filled(x, name):
            return (exchange.parameter if numbers[name].halo else exchange.pointwise)(x, "h")

        beyond = None if self.outside is None else _beyond_open_sides(exchange)
        return replaced(self, self._given(filled) | {"beyond": beyond})

    def _given(self, function):
        """{name: function(value, name)} of the parameters of the equation that are given."""
        return {name: function(getattr(self, name), name) for name in PARAMETERS if getattr(self, name) is not None}

    # -- the equation -------------------------------------------------------------------------------------------------

    def shown(self, value: Value, column: Value) -> Value:
        """c = s / h, 0 where there is no water."""
        return (
            pointwise(_quotient, value, cast(Any, column))
            if isinstance(value, AbstractField)
            else _quotient(value, column)
        )

    def stored(self, shown: Value, column: Value) -> Value:
        """s = h c."""
        return shown * column

    def rate(self, flow: "LayerFlow", value: AbstractField, time: Time) -> AbstractField:
        """ds/dt [units m s-1], a Field at h; the arguments are those of Transported.rate."""
        c = self._concentration(flow, value, time)
        total = -divergence(*self._fluxes(flow, c), flow.geometry)
        if isinstance(flow.water_added, AbstractField):
            added = c if self.outside is None else upstream(flow.water_added, self._outside(c, time), c)
            total = total + flow.water_added * added
        if self.source is not None:
            total = total + value_at(self.source, time) * flow.column
        if self.flux is not None and (self.layer is not None or flow.layer == 0):
            total = total + value_at(self.flux, time) * flow.covered
        return total

    def fluxes(self, flow: "LayerFlow", value: AbstractField, time: Time) -> tuple[AbstractField, AbstractField]:
        """The fluxes of content by the flow and by diffusion [units m2 s-1], Fields at u and v."""
        return self._fluxes(flow, self._concentration(flow, value, time))

    def _fluxes(self, flow, c):
        c_u, c_v = self.scheme.faces(c, flow)
        along_x, along_y = flow.U * c_u, flow.V * c_v
        if self.diffusivity is None:
            return along_x, along_y
        spread_x, spread_y = diffusive_flux(c, flow, self.diffusivity)
        return along_x + spread_x, along_y + spread_y

    def _concentration(self, flow: "LayerFlow", value: AbstractField, time: Time) -> AbstractField:
        """c at h, with the concentration outside in ghost cells beyond open sides."""
        c = cast(AbstractField, self.shown(value, flow.column))
        return c if self.beyond is None else c + self.beyond * (self._outside(c, time) - c)

    def _outside(self, c: AbstractField, time: Time) -> AbstractField:
        outside = value_at(self.outside, time)
        return outside if isinstance(outside, AbstractField) else 0.0 * c + outside

    # -- limits of time steps -----------------------------------------------------------------------------------------

    def time_step_rate(self, site: "Site", carried: float, real: float) -> np.ndarray:
        """1 / the longest stable time step [s-1]; the arguments are those of Transported.time_step_rate."""
        spread = 0.0 if self.diffusivity is None else diffusive_rate(site, self.diffusivity)
        growth = self.scheme.growth
        interval = min(real, 1.0) / growth if growth else carried  # up to 1 / growth Euler steps make no new extrema
        return self.advective_rate(site) / interval + spread / real

    def advective_rate(self, site: "Site") -> np.ndarray:
        """About what share of each cell's water that leaves it in a second [s-1], at a `site` (stability.py)."""
        speeds = site.speed("x") * np.sqrt(site.waves_dx2) + site.speed("y") * np.sqrt(site.per_dy2)
        if site.model.film is not None:  # slopes are left out where more than half of a cell's water leaves
            return 0.0 * speeds
        return speeds * (0.5 + 0.5 * np.maximum.reduce([np.ones_like(speeds), *depth_ratios(site)]))
