"""Cores: how the tendencies of the shallow-water equations are computed from a tile's u, v and eta.

    FiniteDifferences   energy- or enstrophy-conserving differences on the C-grid; any coasts and sides, any grid
    PseudoSpectral      Fourier, cosine and sine series over a flat plane; pseudo_spectral.py

Whatever the core, a State holds u on east faces, v on north faces and eta at centres, so that files, gauges,
diagnostics and the terms of the equations know nothing of it.
"""

import abc

import jax.numpy as jnp

from ..errors import ConfigError
from ..fields.operators import difference_x, difference_y
from ..fields.parts import snake_case
from ..fields.pytrees import pytree
from ..grids.geometry import safe_inverse
from .transport import divergence

__all__ = ["Core", "FiniteDifferences", "named_after"]


def named_after(term):
    """What its share of a tendency is called: "wind_stress" of a WindStress."""
    return snake_case(type(term).__name__)


class Core(abc.ABC):
    """What every core has: a pytree, whose leaves are parameters.

    Attributes:
        halos: whether it computes from halos, which may then be wider than one stage needs, and in fused loops.
        waves, advection: the largest wavenumber of its differences, times the spacing, for the limits of time steps.
        dissipation: names of parts of its tendency that are no terms of the model's.
        references: what files of a run cite for it, or None.
    """

    halos = True
    dissipation = ()
    references = None
    waves = 2.0
    advection = 1.0

    def on_tile(self, model):
        """This core for the tiles of a ShallowWater model; raises ConfigError for what it cannot do."""
        return self

    def prepare(self, equations):
        """This core as the compiled program uses it, once at its start; collective."""
        return self

    @abc.abstractmethod
    def tendency(self, equations, state, time):
        """d state/dt, a State as `state` is."""

    @abc.abstractmethod
    def parts(self, equations, flow):
        """{name: (du/dt, dv/dt, deta/dt), tile arrays} whose sum is the tendency of a Flow's state.

        Names: advection, coriolis, pressure, continuity, those of `dissipation`, and those of the terms by their types.
        """

    def flow(self, flow):
        """A Flow with what this core knows better than differences do."""
        return flow

    def resolved(self, state):
        """The part of a State, tiles as programs hold them, that the core resolves: all of it, if it cuts no series."""
        return state

    def finished(self, equations, state):
        """The State at the end of a time step."""
        return state

    @abc.abstractmethod
    def describe(self):
        """What it is, for people."""

    def carries(self, coriolis):
        """Whether its modes turn with the Coriolis parameter, so that it sets no limit where linear waves are exact."""
        return False

    def damping(self, site):
        """The fastest rate [s-1] at which the core itself damps, in stability's `site`."""
        return 0.0

    @abc.abstractmethod
    def check_parts(self):
        """Raise ConfigError where a stepper cannot have the tendency in parts (continuity, pressure and the others)."""

    @abc.abstractmethod
    def modes(self):
        """What steppers ask that treat linear waves exactly; raises ConfigError where there are no modes."""


@pytree
class FiniteDifferences(Core):
    """The C-grid's own differences, of second order."""

    def tendency(self, equations, state, time):
        return equations.differences(state, time)

    def parts(self, equations, flow):
        g = equations.geometry

        def turned(vorticity, form):
            q = vorticity * safe_inverse(flow.h_q)
            u, v = form.vorticity_flux(q, flow.U * g.dy["u"], flow.V * g.dx["v"])
            return u * g.per_dx["u"], v * g.per_dy["v"]

        def falling(head):
            return -difference_x(head) * g.per_dx["u"], -difference_y(head) * g.per_dy["v"]

        form = equations.momentum if equations.coriolis_form is None else equations.coriolis_form
        found = [("continuity", 0.0, 0.0, -divergence(flow.U, flow.V, g)),
                 ("pressure", *falling(flow.gravity * flow.eta)), ("coriolis", *turned(g.f, form))]  # fmt: skip
        if not equations.linear:
            relative = turned(flow.vorticity, equations.momentum)
            found.append(("advection", *(a + b for a, b in zip(relative, falling(flow.kinetic_energy)))))
        return summed(equations, flow, [*found, *rates_of_terms(equations, flow)])

    def describe(self):
        return "finite differences"

    def check_parts(self):
        """It has all of them."""

    def modes(self):
        raise ConfigError(
            "IntegratingFactorRK4 carries waves mode by mode, and the finite-difference core has no modes; "
            "use core=PseudoSpectral(), or RK4."
        )


def rates_of_terms(equations, flow):
    """[(name, du/dt, dv/dt[, deta/dt])] of forcing and drag, Fields."""
    found = []
    for term in equations.terms:
        term = term.at(flow.time)
        water = (term.continuity(flow, flow.time),) if term.changes_elevation else ()
        found.append((named_after(term), *term(flow, flow.time), *water))
    return found


def summed(equations, flow, parts):
    """{name: three tile arrays}, zero on faces that cannot move, of (name, Fields or numbers); one name's together."""
    g, zeros = equations.geometry, jnp.zeros_like(flow.eta.interior)
    masks, found = (g.wet_u, g.wet_v, 1.0), {}
    for name, *rates in parts:
        so_far = found.get(name, (zeros,) * 3)
        moved = [rate * mask for rate, mask in zip(rates, masks)]
        new = [old + getattr(rate, "interior", rate) for old, rate in zip(so_far, moved)]
        found[name] = (*new, *so_far[len(new) :])
    return found
