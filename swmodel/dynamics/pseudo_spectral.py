"""The pseudo-spectral core: derivatives of series, products at points.

    du/dt   = + (f + zeta) v - ddx(g eta + K) - D u + F_u      K = (u^2 + v^2) / 2,   zeta = ddx v - ddy u
    dv/dt   = - (f + zeta) u - ddy(g eta + K) - D v + F_v
    deta/dt = - ddx(h u) - ddy(h v) - D eta                    h = H + eta,   D = nu (-laplacian)^p

The vorticity flux is (f + zeta) v, which is quadratic; potential vorticity times transport would be a quotient by h.
With a third of the wavenumbers left out (2/3 rule: Orszag 1971, doi:10.1175/1520-0469(1971)028<1074:OTEOAI>2.0.CO;2)
products of two fields are free of aliasing, as in a Galerkin method. f(x, y) and H(x, y) are multiplied at points, too.
Mass is conserved to rounding. Energy is conserved as far as the flow is resolved, because truncated h u and truncated
(f + zeta) u are not orthogonal. In the linear mode over a flat bottom it is conserved to rounding.

A tendency takes 15 real 2-D transforms in four batches: u, v and eta to modes (3); u, v, zeta and eta to centres (4);
their five products back to modes (5); the tendencies to the C-grid's points (3). Forcing and drag are the terms of the
finite-difference core, at its points, with its second-order means and differences; they take two transforms more. Where
there are walls along y, u and eta are cosine series along y and v is a sine series. With rotation eta has a slope at
walls, where cosines have none, so that the series converge slowly there.

D acts on all three alike, so that geostrophic balance and the direction of waves are preserved. The exponential filter
multiplies modes by exp(-strength [(k_x / k_x,max)^order + (k_y / k_y,max)^order]) once a step, after Hou & Li (2007),
doi:10.1016/j.jcp.2007.04.014.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self, cast

import jax
import jax.numpy as jnp
import numpy as np

from ..defaults import FILTER_ORDER, FILTER_STRENGTH, HYPERVISCOSITY_ORDER
from ..errors import ConfigError
from ..fields.field import Field, Scalar, mean_y
from ..fields.parameters import Flag, Part, declared, parameter
from ..fields.parts import ModelPart
from ..fields.state import State, pytree, replace, static
from ..grids.geometry import Coriolis
from ..grids.grid import CartesianGrid
from ..parallel.halo import without_padding
from .clock import Time
from .cores import Discretisation, rates_of_terms, summed
from .domain import Model
from .layer import DEFAULT as DEFAULT_FORM
from .series import Series, SpectralFlow, flux, kinetic, scaled, vorticity_flux

if TYPE_CHECKING:
    from .layer import LayerFlow
    from .site import Site
    from .system import System

__all__ = ["ExponentialFilter", "HyperViscosity", "PseudoSpectral"]


FIELDS = ("u", "v", "h")  # of u, v, eta


class HyperViscosity(ModelPart):
    """The damping of u, v and eta by - rate (|k| / k_max)^(2 order), so that nu = rate / k_max^(2 order).

    k_max is the largest wavenumber kept along the coarser direction.

    Args:
        rate: the damping rate of waves with k_max [s-1].
        order: p; 1 is Laplacian viscosity, 2 is biharmonic.
    """

    rate: Any = parameter(None, "s-1", minimum=0.0, doc="at which the shortest wave is damped")
    order: int = parameter(
        minimum=1.0, whole=True, static=True, default=HYPERVISCOSITY_ORDER, doc="of the power of the Laplacian"
    )

    def of(self, relative: np.ndarray | jax.Array) -> np.ndarray | jax.Array:
        """The rate [s-1] for modes with |k|^2 / k_max^2 = `relative`."""
        with np.errstate(over="ignore"):  # then no time step is stable, which `limits` reports
            return self.rate * relative**self.order


class ExponentialFilter(ModelPart):
    """A filter of modes at the end of each time step, which multiplies the largest wavenumber by exp(-strength).

    Args:
        strength: 36 reduces the largest wavenumber to rounding.
        order: an even number; the higher it is, the more of the spectrum is left unchanged.
    """

    strength: Any = parameter(minimum=0.0, default=FILTER_STRENGTH, doc="of the damping of the shortest wave in a step")
    order: int = parameter(
        minimum=2.0, whole=True, static=True, default=FILTER_ORDER, doc="of the power of the wavenumber, even"
    )

    @classmethod
    def conflict(cls, values: Any) -> str | None:
        return f"order = {values.order} is not an even number; give 2, 4, ... 36" if values.order % 2 else None


@pytree
class PseudoSpectral(Discretisation):
    """Series of waves over a plane without land, periodic or between free-slip walls.

    Args:
        hyperviscosity: a HyperViscosity, or None.
        filter: an ExponentialFilter, or None.
        dealias: leave out the highest third of the wavenumbers, which quadratic products alias into (2/3 rule).
    """

    hyperviscosity: Any = declared(Part(("of",), "HyperViscosity(rate=1e-5)", optional=True), default=None)
    filter: Any = declared(Part(("strength",), "ExponentialFilter()", optional=True), default=None)
    dealias: bool = declared(Flag(), default=True, static=True, doc="cut products to two thirds of the wavenumbers")
    series: Any = static(default=None)
    block: Any = None  # Modes, once prepared
    at_rest: Any = None  # (f at centres, its mean where modes can carry it, mean depth), once prepared

    halos = False
    references = (
        "Orszag (1971), doi:10.1175/1520-0469(1971)028<1074:OTEOAI>2.0.CO;2; "
        "Hou and Li (2007), doi:10.1016/j.jcp.2007.04.014"
    )

    @property
    def waves(self) -> float:
        """The largest wavenumber times the spacing."""
        return np.pi * self._kept

    advection = waves

    @property
    def _kept(self):
        return 2 / 3 if self.dealias else 1.0

    def on_tile(self, model: Model) -> Self:
        _check(model)
        series = Series.on(cast(CartesianGrid, model.grid), model.communicator, self._kept)
        placed = jax.tree.map(model.domain.cut, (self.hyperviscosity, self.filter))
        return replace(self, hyperviscosity=placed[0], filter=placed[1], series=series)

    def prepare(self, equations: "System") -> Self:
        block = self.series.modes(equations.depth.dtype)
        f = equations.geometry.f
        centred = mean_y(f).interior if isinstance(f, Field) else f
        carried = 0.0 if isinstance(f, Field) or self.series.periodic != "xy" else f
        communicator, sides = equations.communicator, equations.geometry.tile.sides
        total = communicator.sum(jnp.sum(without_padding(equations.depth.interior, sides)))
        depth = communicator.replicated(total) / np.prod(self.series.shape).item()
        return replace(self, block=block, at_rest=(centred, carried, depth))

    # -- between tiles and modes --------------------------------------------------------------------------------------

    def modes(self) -> "PseudoSpectral":
        """This core, which computes linear waves exactly."""
        return self

    def to_modes(self, state: State) -> list:
        """The kept modes of u, v and eta of a State of arrays."""
        return self.block.forward(*((x, field, False) for x, field in zip((state.u, state.v, state.eta), FIELDS)))

    def to_tile(self, modes: Sequence) -> State:
        """The State of tile arrays with these modes of u, v and eta."""
        return State(*self._points(modes))

    def _points(self, modes):
        return tuple(self.block.inverse(*((x, field, False) for x, field in zip(modes, FIELDS))))

    def resolved(self, state: State) -> State:
        return _resolved(self, state)

    def finished(self, equations: "System", state: State) -> State:
        if self.filter is None:
            return state
        return self.to_tile([scaled(self._response(), x) for x in self.to_modes(state)])

    def _response(self):
        powers = sum(k**self.filter.order for k in self.block.along)
        return jnp.exp(-self.filter.strength * powers)

    # -- tendencies ---------------------------------------------------------------------------------------------------

    def tendency(self, equations: "System", state: State, time: Time) -> State:
        return self.to_tile(self.rates(equations, self.to_modes(state), time, state))

    def rates(
        self, equations: "System", modes: Sequence, time: Time, state: State | None = None, waves: bool = True
    ) -> list:
        """Modes of du/dt, dv/dt and deta/dt.

        Args:
            equations: the System, prepared.
            modes: of u, v, eta.
            time: a Time.
            state: the State of these modes, which the terms need; computed from the modes unless given.
            waves: whether the linear waves and the damping that a `propagator` contains are included.
        """
        u, v, eta = modes
        block, (_, f, depth) = self.block, self.at_rest
        f, depth = (0.0, 0.0) if waves else (f, depth)
        products = self._products(equations, modes, time, f, depth)
        sums = block.forward(*products, *self._terms(equations, modes, time, state))
        along_x, along_y, flux_x, flux_y, *more = sums
        head = scaled(equations.gravity, eta) if waves else jnp.zeros_like(eta)
        if not equations.linear:
            head, *more = head + more[0], *more[1:]
        new = [
            along_x - block.ddx(head, "h"),
            along_y - block.ddy(head, "h"),
            -block.ddx(flux_x, "u") - block.ddy(flux_y, "v"),
        ]
        new = [x + more[k] if k < len(more) else x for k, x in enumerate(new)]
        if waves and self.hyperviscosity is not None:
            rate = self.hyperviscosity.of(block.relative)
            new = [x - scaled(rate, old) for x, old in zip(new, modes)]
        return new

    def at_centres(self, equations: "System", modes: Sequence) -> tuple:
        """u, v, zeta and eta at cell centres, where products are computed; 0.0 for the last two in the linear mode."""
        u, v, eta = modes
        block, both = self.block, ((u, "u", True), (v, "v", True))
        if equations.linear:
            return *block.inverse(*both), 0.0, 0.0
        zeta = block.ddx(v, "v") - block.ddy(u, "u")
        return tuple(block.inverse(*both, (zeta, "q", True), (eta, "h", True)))

    def _products(self, equations, modes, time, f, depth):
        """(f + zeta) v, - (f + zeta) u, h u, h v and K at centres, less the parts of constant `f` and `depth`."""
        u, v, zeta, eta = self.at_centres(equations, modes)
        vorticity = self.at_rest[0] - f + zeta
        thickness = equations.depth_at(time).interior - depth + eta
        found = [*vorticity_flux(vorticity, u, v), *flux(thickness, u, v)]
        return found if equations.linear else [*found, kinetic(u, v)]

    def _terms(self, equations, modes, time, state):
        """The rates of forcing and drag for u, v and, if a term changes it, eta; at their own points."""
        if not equations.terms:
            return []
        state = self.to_tile(modes) if state is None else state
        flow = equations.flow(state, time)
        totals = [sum(rates) for rates in zip(*summed(equations, flow, rates_of_terms(equations, flow)).values())]
        last = 3 if any(term.changes_elevation for term in equations.terms) else 2
        return [(total, field, False) for total, field in zip(totals[:last], FIELDS)]

    # -- the parts of a tendency, for budgets -------------------------------------------------------------------------

    @property
    def dissipation(self) -> tuple[str, ...]:
        """The names of the parts by which this core dissipates energy."""
        return () if self.hyperviscosity is None else ("hyperviscosity",)

    def parts(self, equations: "System", flow: "SpectralFlow") -> dict[str, tuple]:
        block, zero = self.block, jnp.zeros_like(self.block.kept)
        u, v, zeta, _ = flow.centred
        products = list(vorticity_flux(self.at_rest[0], u, v))
        if not equations.linear:
            products += *vorticity_flux(zeta, u, v), kinetic(u, v)
        (coriolis_u, coriolis_v, *more), (flux_x, flux_y) = block.forward(*products), flow.fluxes

        def minus_gradient(head):
            return -block.ddx(head, "h"), -block.ddy(head, "h"), zero

        found = {
            "coriolis": (coriolis_u, coriolis_v, zero),
            "pressure": minus_gradient(scaled(equations.gravity, flow.modes[2])),
            "continuity": (zero, zero, -block.ddx(flux_x, "u") - block.ddy(flux_y, "v")),
        }
        if not equations.linear:
            gradient_u, gradient_v, _ = minus_gradient(more[2])
            found["advection"] = more[0] + gradient_u, more[1] + gradient_v, zero
        if self.hyperviscosity is not None:
            found["hyperviscosity"] = tuple(scaled(-self.hyperviscosity.of(block.relative), x) for x in flow.modes)
        for name, rates in summed(equations, flow, rates_of_terms(equations, flow)).items():
            found[name] = self.to_modes(State(*rates))
        return {name: self._points(rates) for name, rates in found.items()}

    # -- linear waves, exactly ----------------------------------------------------------------------------------------

    def propagator(self, equations: "System", seconds: Scalar) -> tuple:
        """The factors of `carried`: exact linear waves over a flat bottom of the mean depth, and exact hyperviscosity.

        The linear operator is L U = (f v - g ddx eta, - f u - g ddy eta, - H (ddx u + ddy v)), for U = (u, v, eta).
        Since L^3 = - w^2 L with w^2 = f^2 + g H k^2,

            exp(L t) = 1 + sin(w t) / w L + (1 - cos(w t)) / w^2 L^2

        Between walls the Coriolis force is not part of L but of `rates`.
        """
        _, f, depth = self.at_rest
        squared = f * f + equations.gravity * depth * self.block.squared
        still = squared == 0
        w = jnp.sqrt(jnp.where(still, 1.0, squared))
        first = jnp.where(still, seconds, jnp.sin(w * seconds) / w)
        second = jnp.where(still, 0.5 * seconds**2, 2 * (jnp.sin(0.5 * w * seconds) / w) ** 2)
        damped = jnp.ones_like(first)
        if self.hyperviscosity is not None:
            damped = jnp.exp(-self.hyperviscosity.of(self.block.relative) * seconds)
        return damped, damped * first, damped * second

    def carried(self, equations: "System", modes: Sequence, propagator: tuple) -> list:
        """Modes of u, v and eta, exp(L t) of `modes`, with the factors of `propagator`."""
        _, f, depth = self.at_rest
        once = self._waves(equations, modes, f, depth)
        twice = self._waves(equations, once, f, depth)
        now, first, second = propagator
        triples = zip(modes, once, twice)
        return [scaled(now, x) + scaled(first, l) + scaled(second, ll) for x, l, ll in triples]

    def _waves(self, equations, modes, f, depth):
        u, v, eta = modes
        block, head = self.block, scaled(equations.gravity, eta)
        wide = -scaled(depth, block.ddx(u, "u") + block.ddy(v, "v"))
        if isinstance(f, float):  # f is 0.0 here: it is not uniform, or there are walls
            return [-block.ddx(head, "h"), -block.ddy(head, "h"), wide]
        return [scaled(f, v) - block.ddx(head, "h"), -scaled(f, u) - block.ddy(head, "h"), wide]

    # -- properties of the core ---------------------------------------------------------------------------------------

    def flow(self, flow: "LayerFlow") -> SpectralFlow:
        return SpectralFlow(flow.equations, flow.state, flow.more, flow.outside, flow.time)

    def describe(self) -> str:
        ny, nx = self.series.resolves()
        rule = "the 2/3 rule" if self.dealias else "aliased products"
        return f"pseudo-spectral, wavenumbers up to {nx} along x and {ny} along y, {rule}"

    def carries(self, coriolis: Coriolis) -> bool:
        return self.series.periodic == "xy" and coriolis.uniform

    def damping(self, site: "Site") -> np.ndarray | float:
        if self.hyperviscosity is None:
            return 0.0
        corner = (site.per_dx2 + site.per_dy2) * max(self.series.spacing) ** 2
        return self.hyperviscosity.of(corner)

    def check_parts(self) -> NoReturn:
        raise ConfigError(
            "PseudoSpectral gives tendencies as a whole, and this run needs their parts; "
            "use IntegratingFactorRK4, RK4, SSPRK3, AB3 or AB2, or core=FiniteDifferences()."
        )


@jax.jit
def _resolved(core, state):
    def cut(core, state):
        core = replace(core, block=core.series.modes(state.eta.dtype))
        return core.to_tile(core.to_modes(state))

    return core.series.communicator.spmd(cut)(core, state)


def _check(model):
    """Raise ConfigError for properties of a model that this core does not support, with one sentence for each."""
    grid, wrong = model.grid, []
    elsewhere = "use core=FiniteDifferences() for that"
    walls = [axis for axis in "xy" if axis not in grid.periodic]
    if model.variables[3:]:
        wrong.append(f"PseudoSpectral steps u, v and eta alone, and not {model.variables[3].name!r}; {elsewhere}.")
    if grid.spherical:
        wrong.append(f"PseudoSpectral needs a plane, and the grid is a SphericalGrid; {elsewhere}.")
    if not model.sea_floor.is_all_wet:
        cells = grid.nx * grid.ny - model.sea_floor.wet_cells
        wrong.append(f"PseudoSpectral has no coasts, and {cells} cells are land (depth of 0 or less); {elsewhere}.")
    if model.open_sides:
        sides, kind = ", ".join(model.open_sides), type(model.open_boundaries[0]).__name__
        wrong.append(f"PseudoSpectral has no open sides, and {kind} opens {sides}; use Sponge, or {elsewhere}.")
    if walls and model.side.factor:
        wrong.append(f"PseudoSpectral has free-slip walls only, and this model has NoSlip; {elsewhere}.")
    if model.coriolis_form is not None:
        wrong.append("PseudoSpectral has its own form of the Coriolis force; leave coriolis_form out.")
    if model.momentum != DEFAULT_FORM:
        wrong.append(
            f"PseudoSpectral has its own form of the vorticity flux, and {type(model.momentum).__name__} is one of "
            "finite differences; leave momentum out."
        )
    for axis, cells in (("x", grid.nx), ("y", grid.ny)):
        if axis in walls and cells < 4:
            wrong.append(f"PseudoSpectral: {cells} cells between walls along {axis} hold no series; give 4 or more.")
    if wrong:
        raise ConfigError(wrong)
