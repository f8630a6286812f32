"""Passive tracers: substances that the water carries, and that do not change the flow.

    d(h c)/dt + div (U c) = div (h kappa grad c) + h S + F + c_added W,    h = H + eta

    c        concentration [the tracer's units]
    U        volume transport of the continuity equation [m2 s-1]
    kappa    diffusivity [m2 s-1]
    S        source of concentration [units s-1]
    F        flux through the surface or the bottom, positive into the water [units m s-1]
    W        water that sponges add [m s-1], with the concentration c_added

The prognostic variable is the content s = h c, so that its sum over the domain changes by sources, fluxes, open sides
and sponges alone. c = 1 stays 1, because its content obeys the continuity equation. In the linear mode, too, h is
H + eta, and the transport U = H u is that of the linear continuity equation.

advection.py has the choices of c on faces, limiters.py their limiters, diffusion.py the diffusive flux.
"""

import re
from typing import TYPE_CHECKING, Any, cast

import jax.numpy as jnp
import numpy as np

from ...fields.field import AbstractField, Field, Value, pointwise
from ...fields.parameters import Part, Text, declared, parameter, refuse
from ...fields.parts import numbers_of, replaced
from ...fields.state import RESERVED, replace
from ...fields.variables import VARIABLES, Variable
from ...parallel.halo import exchange as fill_halos
from ..clock import Time
from ..domain import Domain
from ..layer import divergence
from ..layers import which_layer
from ..terms import tile_array, value_at
from ..transported import Transported
from .advection import AdvectionScheme, FluxLimited, upstream
from .diffusion import depth_ratios, diffusive_flux, diffusive_rate

if TYPE_CHECKING:
    from ..layer import LayerFlow
    from ..site import Site
    from ..stages import Exchange

__all__ = ["Tracer", "check_name"]

TAKEN = frozenset(  # variables and dimensions of files that are not in the table VARIABLES
    "x y longitude latitude xh xq yh yq grid area wet time bnds member gauge gauge_name name_length wavenumber "
    "dx_h dx_u dx_v dx_q dy_h dy_u dy_v dy_q area_u area_v area_q".split()
)
PARAMETERS = ("diffusivity", "source", "flux", "outside")  # with None the term is left out


def check_name(name: str) -> None:
    """Raise ConfigError for a name that a tracer cannot have in files."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        remedy = "a letter, and then letters, digits and underscores"
        refuse("Tracer", "name", name, "is no name of a variable in files", remedy)
    if name in VARIABLES or name in TAKEN or name in RESERVED or name.endswith("_bnds"):
        refuse("Tracer", "name", name, "is already the name of another variable in states and files", "another one")


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
