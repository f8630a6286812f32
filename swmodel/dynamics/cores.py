"""Cores: the spatial discretisations that compute the tendencies of the shallow-water equations from u, v and eta.

    FiniteDifferences   energy- or enstrophy-conserving differences on the C-grid, with coasts, on every grid
    FilteredDifferences the same with a zonal filter near the poles
    PseudoSpectral      Fourier, cosine and sine series on a Cartesian grid without land; pseudo_spectral.py

With every core, a State holds u on east faces, v on north faces and eta at centres. So files, gauges, diagnostics and
the terms of the equations do not depend on the core.

**FilteredDifferences**: with a filter a global grid takes the time step of mid-latitudes. On a longitude-latitude grid
dx = R cos(phi) dlambda vanishes at the poles, and the waves of the shortest zonal lengths there limit the time step.
The rates of change of all variables are filtered along each parallel poleward of a latitude phi_c, zonal wavenumber m
by wavenumber, by the factor of Arakawa & Lamb (1977), doi:10.1016/B978-0-12-460817-7.50009-4:

    S(m, phi) = min(1, cos(phi) / (cos(phi_c) sin(m dlambda / 2)))

With it no zonal wave has a higher frequency than that of two cells at phi_c. S is real and depends on the row alone, so
that the filter F is self-adjoint and positive. The linear equations dx/dt = F A x, with A antisymmetric in the energy's
inner product, then conserve <x, F^-1 x>: waves neither grow nor decay. Steady states stay steady, since their rate is 0
before the filter. The mean of each row is kept (S(0) = 1), and so is mass.

Each evaluation takes a distributed Fourier transform along x and its inverse (parallel/fft).
"""

import abc
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, cast

import jax.numpy as jnp
import numpy as np

from ..errors import ConfigError
from ..fields.field import Field, difference_x, difference_y
from ..fields.parameters import parameter
from ..fields.parts import ModelPart, snake_case
from ..fields.state import State, fields_of, pytree, replace, static
from ..grids.geometry import Coriolis, safe_inverse
from ..grids.grid import SphericalGrid
from ..parallel import fft
from .clock import Time
from .domain import Model
from .layer import divergence

if TYPE_CHECKING:
    from .layer import LayerFlow, VorticityFlux
    from .site import Site
    from .system import System
    from .terms import Term

__all__ = ["Discretisation", "FilteredDifferences", "FiniteDifferences", "check_has_tendencies", "named_after"]


def check_has_tendencies(momentum: "VorticityFlux") -> None:
    """Raise ConfigError for a form of the momentum equation that gives no tendencies (conserving.py)."""
    if momentum.conserves_momentum:
        raise ConfigError(
            f"{type(momentum).__name__} steps momentum in stages of its own, and has no tendency that could be split "
            "into parts or integrated otherwise; use stepper ForwardBackwardHancock or SSPRK3 and leave transfers "
            "out, or choose another momentum form, such as EnergyConserving()."
        )


def named_after(term: "Term") -> str:
    """The name of a term's share of a tendency: "wind_stress" of a WindStress."""
    return snake_case(type(term).__name__)


class Discretisation(ModelPart, abc.ABC):
    """The base class of cores: a pytree whose leaves are parameters.

    Attributes:
        halos: whether it reads neighbours from halos. Then halos may be wider than one stage needs, and loops may be
            fused.
        steps_layers: whether it can step several layers.
        steps_nests: whether it can step nested grids, for which it counts what passes their borders.
        waves, advection: the largest wavenumber of its differences, times the spacing, for the limits of time steps.
        dissipation: names of the parts of its tendency by which it dissipates energy itself.
    """

    halos: ClassVar[bool] = True
    steps_layers: ClassVar[bool] = False
    steps_nests: ClassVar[bool] = False
    dissipation: Any = ()
    waves: Any = 2.0
    advection: Any = 1.0

    def on_tile(self, model: Model) -> Self:
        """This core for the tiles of a ShallowWater model.

        Raises:
            ConfigError: for properties of the model that the core does not support.
        """
        return self

    def prepare(self, equations: "System") -> Self:
        """This core as the compiled program uses it. It is called once, at the start of the program; collective."""
        return self

    @abc.abstractmethod
    def tendency(self, equations: "System", state: State, time: Time) -> State:
        """d state/dt, a State of arrays or of Fields, as `state` is."""

    @abc.abstractmethod
    def parts(self, equations: "System", flow: "LayerFlow") -> dict[str, tuple]:
        """{name: (du/dt, dv/dt, deta/dt), tile arrays} whose sum is the tendency of the state of `flow`.

        Names: advection, coriolis, pressure, continuity, those of `dissipation`, and those of the terms by their types.
        """

    def flow(self, flow: "LayerFlow") -> "LayerFlow":
        """The LayerFlow that this core's tendencies are computed from: by default the one of finite differences."""
        return flow

    def resolved(self, state: State) -> State:
        """The part of a State (arrays of tiles) that the core resolves: all of it, unless it truncates a series."""
        return state

    def finished(self, equations: "System", state: State) -> State:
        """The State at the end of a time step, after a filter if the core has one."""
        return state

    @abc.abstractmethod
    def describe(self) -> str:
        """A description for logs, such as "finite differences"."""

    def carries(self, coriolis: Coriolis) -> bool:
        """Whether its linear modes include the Coriolis force, which then does not limit an exact propagator."""
        return False

    def damping(self, site: "Site") -> np.ndarray | float:
        """The fastest rate [s-1] at which the core itself damps, at a `site` of stepping/stability.py."""
        return 0.0

    def zonal_share(self, latitude: np.ndarray | float) -> np.ndarray | float:
        """The zonal spacing of cells over that of the shortest waves that the core computes, at latitudes [degrees]."""
        return 1.0

    @abc.abstractmethod
    def check_parts(self) -> None:
        """Raise ConfigError if the tendency cannot be split into continuity, pressure and the other terms."""

    @abc.abstractmethod
    def modes(self) -> "Discretisation":
        """The object that computes linear waves exactly, for steppers with an integrating factor.

        Raises:
            ConfigError: for a core without modes.
        """


@pytree
class FiniteDifferences(Discretisation):
    """Second-order differences on the C-grid."""

    steps_layers = True
    steps_nests = True

    def tendency(self, equations: "System", state: State, time: Time) -> State:
        return equations.differences(state, time)

    def parts(self, equations: "System", flow: "LayerFlow") -> dict[str, tuple]:
        check_has_tendencies(equations.momentum)
        g = equations.geometry

        def vorticity_flux(vorticity, form):
            q = vorticity * safe_inverse(flow.h_q)
            u, v = form.vorticity_flux(q, flow.U * g.dy["u"], flow.V * g.dx["v"])
            return u * g.per_dx["u"], v * g.per_dy["v"]

        def minus_gradient(head):
            return -difference_x(head) * g.per_dx["u"], -difference_y(head) * g.per_dy["v"]

        form = equations.momentum if equations.coriolis_form is None else equations.coriolis_form
        found = [
            ("continuity", 0.0, 0.0, -divergence(flow.U, flow.V, g)),
            ("pressure", *minus_gradient(flow.gravity * flow.eta)),
            ("coriolis", *vorticity_flux(g.f, form)),
        ]
        if not equations.linear:
            relative = vorticity_flux(flow.vorticity, equations.momentum)
            found.append(("advection", *(a + b for a, b in zip(relative, minus_gradient(flow.kinetic_energy)))))
        return summed(equations, flow, [*found, *rates_of_terms(equations, flow)])

    def describe(self) -> str:
        return "finite differences"

    def check_parts(self) -> None:
        """Every part is available."""

    def modes(self) -> NoReturn:
        raise ConfigError(
            "IntegratingFactorRK4 carries waves mode by mode, and the finite-difference core has no modes; "
            "use core=PseudoSpectral(), or RK4."
        )


def rates_of_terms(equations: "System", flow: "LayerFlow") -> list[tuple]:
    """[(name, du/dt, dv/dt[, deta/dt])] of forcing and drag, Fields or numbers."""
    found = []
    for term in equations.terms:
        term = term.at(flow.time)
        water = (term.continuity(flow, flow.time),) if term.changes_elevation else ()
        found.append((named_after(term), *term(flow, flow.time), *water))
    return found


def summed(equations: "System", flow: "LayerFlow", parts: list[tuple]) -> dict[str, tuple]:
    """{name: three tile arrays} of (name, Fields or numbers); parts of the same name are added.

    Rates of u and v are zero on faces where no water flows.
    """
    g, zeros = equations.geometry, jnp.zeros_like(flow.eta.interior)
    masks, found = (g.wet_u, g.wet_v, 1.0), {}
    for name, *rates in parts:
        so_far = found.get(name, (zeros,) * 3)
        moved = [rate * mask for rate, mask in zip(rates, masks)]
        new = [old + getattr(rate, "interior", rate) for old, rate in zip(so_far, moved)]
        found[name] = (*new, *so_far[len(new) :])
    return found


PLAIN = FiniteDifferences()


@pytree
class FilteredDifferences(Discretisation):
    """Second-order differences on the C-grid, filtered along parallels near the poles.

    Args:
        latitude: the filter acts poleward of it, in both hemispheres [degrees]. The time step is limited by the zonal
            spacing there.

    Rows of cells poleward of it are all water or all land. A parallel that a coast interrupts has no Fourier modes.
    """

    latitude: float = parameter(
        None, "degree", default=60.0, static=True, minimum=0.0, below=90.0, doc="the filter acts poleward of it"
    )
    plan: Any = static(default=None)
    ends: Any = static(default=None)  # latitudes of the first and last parallel of faces [degrees]
    weaker: Any = None  # {position: S - 1 of this rank's modes (kx, ny)}, once prepared

    halos = False
    references = "Arakawa and Lamb (1977), doi:10.1016/B978-0-12-460817-7.50009-4"

    def on_tile(self, model: Model) -> Self:
        grid = model.grid
        if not (grid.spherical and grid.periodic_x):
            raise ConfigError(
                "FilteredDifferences filters whole parallels, and this grid is not a sphere's that is periodic in "
                "longitude; use core=FiniteDifferences()."
            )
        _check_rows(self, model)
        plan = fft.Plan(model.communicator, grid.shape, (fft.Unchanged(), fft.RealFourier()))
        return replace(self, plan=plan, ends=tuple(map(float, cast(SphericalGrid, grid).latitude)))

    def prepare(self, equations: "System") -> Self:
        dtype, (south, north), ny = equations.depth.dtype, self.ends, self.plan.shape[0]
        waves = self.plan.waves(dtype=dtype)
        sine = jnp.sin(0.5 * waves.phase[1])
        faces = south + (north - south) / ny * np.arange(1, ny + 1)
        centres = faces - 0.5 * (north - south) / ny
        weaker = {}
        for position, latitude in (("h", centres), ("u", centres), ("v", faces)):
            share = np.where(np.abs(latitude) > self.latitude, self.share(latitude), np.inf)
            # the mode m = 0, and rows nearer the equator, are unchanged
            weaker[position] = jnp.minimum(jnp.asarray(share[None, :], dtype) / jnp.maximum(sine, 1e-30), 1.0) - 1.0
        return replace(self, weaker={at: x * waves.inside for at, x in weaker.items()})

    def share(self, latitude: np.ndarray | float) -> np.ndarray:
        """cos(phi) / cos(phi_c), and 1 where the filter does not act."""
        ratio = np.cos(np.deg2rad(np.clip(latitude, -90.0, 90.0))) / np.cos(np.deg2rad(self.latitude))
        return np.clip(np.where(np.abs(latitude) > self.latitude, ratio, 1.0), 0.0, 1.0)

    def filtered(self, arrays: list, positions: list[str]) -> list:
        """F of tile arrays at these positions; all of them share the messages of one transform."""
        stacked = jnp.stack(arrays)
        weaker = jnp.stack([self.weaker[at] for at in positions])
        modes = self.plan.forward(stacked)
        change = self.plan.inverse(modes * weaker.astype(modes.dtype))
        return [x + dx for x, dx in zip(arrays, change)]

    def tendency(self, equations: "System", state: State, time: Time) -> State:
        rates = replace(equations, core=PLAIN).differences(state, time)
        positions = dict(rates.positions)
        names = [name for name, _ in rates]
        arrays = [x.interior if isinstance(x, Field) else x for x in fields_of(rates)]
        return rates.replace(**dict(zip(names, self.filtered(arrays, [positions[name] for name in names]))))

    def parts(self, equations: "System", flow: "LayerFlow") -> dict[str, tuple]:
        found = PLAIN.parts(equations, flow)
        return {name: tuple(self.filtered(list(rates), ["u", "v", "h"])) for name, rates in found.items()}

    def zonal_share(self, latitude: np.ndarray | float) -> np.ndarray:
        return self.share(latitude)

    def describe(self) -> str:
        return f"finite differences, filtered along parallels poleward of {self.latitude:g} degrees"

    def check_parts(self) -> NoReturn:
        raise ConfigError(
            "FilteredDifferences filters tendencies as a whole, and this run needs their parts; use RK4, SSPRK3, AB3 "
            "or AB2, or core=FiniteDifferences()."
        )

    def modes(self) -> NoReturn:
        return PLAIN.modes()


def _check_rows(core, model):
    """Raise ConfigError for a row poleward of the latitude that has both land and water; collective."""
    mine = {}
    for tile, wet in model.domain.own(model.sea_floor.wet):
        for row, cells in zip(range(tile.j0, tile.j1), np.asarray(wet, bool)):
            some, every = mine.get(row, (False, True))
            mine[row] = (some or bool(cells.any()), every and bool(cells.all()))
    rows: dict[int, list] = {}
    for found in model.communicator.host_gather(mine):
        for row, known in found.items():
            rows.setdefault(row, []).append(known)
    latitudes = model.grid.y_centres
    mixed = [
        float(latitudes[row])
        for row, known in rows.items()
        if abs(latitudes[row]) > core.latitude
        and any(some for some, _ in known)
        and not all(every for _, every in known)
    ]
    if mixed:
        nearest = max(mixed, key=abs)
        raise ConfigError(
            f"FilteredDifferences: latitude = {core.latitude:g}, and a coast interrupts the parallel of {nearest:g} "
            f"degrees; give a latitude of more than {abs(nearest):.4g}, or make the rows poleward of it all land."
        )
