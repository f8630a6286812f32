"""Cores: how the tendencies of the shallow-water equations are computed from a tile's u, v and eta.

    FiniteDifferences   energy- or enstrophy-conserving differences on the C-grid; any coasts and sides, any grid
    PseudoSpectral      Fourier, cosine and sine series over a flat plane; pseudo_spectral.py

Whatever the core, a State holds u on east faces, v on north faces and eta at centres, so that files, gauges,
diagnostics and the terms of the equations know nothing of it.
"""

import abc

from ..errors import ConfigError
from ..pytrees import pytree

__all__ = ["Core", "FiniteDifferences"]


class Core(abc.ABC):
    """What every core has: a pytree, whose leaves are parameters.

    Attributes:
        halos: whether it computes from halos, which may then be wider than one stage needs, and in fused loops.
        waves, advection: the largest wavenumber of its differences, times the spacing, for the limits of time steps.
    """

    halos = True
    waves = 2.0
    advection = 1.0

    def on_tile(self, model):
        """This core for the tiles of a ShallowWater model; raises ConfigError for what it cannot do."""
        return self

    def prepare(self, equations):
        """This core as the compiled program uses it, once at its start; collective."""
        return self

    @abc.abstractmethod
    def tendency(self, equations, state, step):
        """d state/dt, a State as `state` is."""

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

    def tendency(self, equations, state, step):
        return equations.differences(state, step)

    def describe(self):
        return "finite differences"

    def check_parts(self):
        """It has all of them."""

    def modes(self):
        raise ConfigError(
            "IntegratingFactorRK4 carries waves mode by mode, and the finite-difference core has no modes; "
            "use core=PseudoSpectral(), or RK4."
        )
