"""Cores: the spatial discretisations that compute the tendencies of the shallow-water equations from u, v and eta.

    FiniteDifferences   energy- or enstrophy-conserving differences on the C-grid, with coasts, on every grid
    FilteredDifferences the same with a zonal filter near the poles; polar_filter.py
    PseudoSpectral      Fourier, cosine and sine series on a Cartesian grid without land; spectral/core.py

With every core, a State holds u on east faces, v on north faces and eta at centres. So files, gauges, diagnostics and
the terms of the equations do not depend on the core.
"""

import abc
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

import jax.numpy as jnp
import numpy as np

from ..errors import ConfigError
from ..fields.field import difference_x, difference_y
from ..fields.parts import snake_case
from ..fields.state import State, pytree
from ..grids.geometry import safe_inverse
from .clock import Time
from .domain import Model
from .layer import divergence
from .momentum import Coriolis

if TYPE_CHECKING:
    from .layer import LayerFlow
    from .momentum import VorticityFlux
    from .site import Site
    from .system import System
    from .terms import Term

__all__ = ["Discretisation", "FiniteDifferences", "check_has_tendencies", "named_after"]


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


class Discretisation(abc.ABC):
    """The base class of cores: a pytree whose leaves are parameters.

    Attributes:
        halos: whether it reads neighbours from halos. Then halos may be wider than one stage needs, and loops may be
            fused.
        steps_layers: whether it can step several layers.
        waves, advection: the largest wavenumber of its differences, times the spacing, for the limits of time steps.
        dissipation: names of the parts of its tendency by which it dissipates energy itself.
        references: the literature that files of a run cite for it, or None.
    """

    halos: ClassVar[bool] = True
    steps_layers: ClassVar[bool] = False
    references: ClassVar[str | None] = None
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
