"""Variables that the flow transports, and that a model steps in addition to u, v and eta.

    d s / dt = rate(flow, s, t),        s = h c

The prognostic variable is the content s of a column of water. For a concentration c [1] it is s = h c [m], with the
thickness h = H + eta. Steppers combine rates of s linearly, so that the sum of area s is conserved where its rate is a
divergence. The transports flow.U and flow.V are those by which the stepper's continuity equation changes eta. So a rate
of -div(U c, V c) + c (water that terms add) keeps c = 1 to rounding, with every explicit stepper and with SemiImplicit.
For the same reason the `s` that a stepper passes belongs to the thickness flow.column. RigidLid keeps c = 1 as far as
its solver makes the transport free of divergence.

Files, gauges, initial states and controls hold the variable as `shown`, c; States, histories and restarts hold it as
`stored`, s. By default both are the same.

The volume that the flow has carried through each face since it was last set to 0.

    d carried_x/dt = U,    d carried_y/dt = V

Steppers combine rates linearly, and these are the transports by which they change eta. So in each cell the change of
eta is -div(carried) to rounding, with every explicit stepper. Nests compare the volumes of two grids through their
border, and set them to 0 there alone (nests/border.py); elsewhere they have no use.
"""

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..fields.field import Value
from ..fields.methods import a_rate, at
from ..fields.state import State, pytree, static
from ..fields.variables import Variable, in_layers
from .clock import Time
from .terms import TiledPart

if TYPE_CHECKING:
    from .layer import LayerFlow
    from .site import Site


__all__ = ["CARRIED", "CarriedVolume", "Transported", "converted"]


class Transported(TiledPart):
    """One variable at cell centres that the flow transports.

    Its parameters are declared by `parameter`, and are cut to tiles and differentiated, as those of a Term are.

    Attributes:
        variable: its row of the table, as it is shown: name, position "h", units and metadata; a static field.
        initial: its value at the start where no initial state gives another, as it is shown. The model reads it before
            `on_tile`, which may leave it out.
        layer: the number of the layer that it is in, 0 at the top, -1 the lowest; None for all layers, in each of which
            it has a value of its own.
    """

    kind = "tracer"
    layer = None
    results = {"rate": at("h", "d value/dt"), "time_step_rate": a_rate}
    uses_time = False
    initial = 0.0

    variable: Variable = static()

    @property
    def name(self) -> str:
        """Its name in States, files and controls."""
        return self.variable.name

    def in_layers(self, count: int) -> dict[str, int]:
        """{name in a State: number of the layer} in a model of `count` layers."""
        return in_layers(self.name, self.layer, count)

    @abc.abstractmethod
    def rate(self, flow: "LayerFlow", value: Value, time: Time) -> Value:
        """d value/dt, a Field at h.

        Args:
            flow: LayerFlow of the layer of `value`; flow.U and flow.V [m2 s-1] are the transports by which its
                thickness changes, flow.column [m] the thickness that belongs to `value`, flow.water_added [m s-1] is
                what terms add to the water.
            value: the stored variable, a Field at h with halo; it continues as at the edge beyond open sides, and is 0
                beyond walls.
            time: a Time.
        """

    def shown(self, value: Value, column: Value) -> Value:
        """What files and gauges show of the stored `value`, where the water is `column` deep [m]; 0 on land.

        Both are arrays, or both are Fields.
        """
        return value

    def stored(self, shown: Value, column: Value) -> Value:
        """The inverse of `shown`."""
        return shown

    def time_step_rate(self, site: "Site", carried: float, real: float) -> np.ndarray | float:
        """1 / the longest stable time step [s-1] in each cell of stability's `site`; 0 where it sets no limit.

        Args:
            site: a tile with its grid, depth and state.
            carried, real: the largest stable |lambda| dt of the time stepper for advection (imaginary lambda) and for
                decay (real lambda) [1].
        """
        return 0.0


def converted(how: str, contents: Sequence, state: State, columns: Sequence) -> State:
    """A State of arrays with its `contents` as "shown", or as "stored"; `columns` are the thicknesses of layers [m]."""
    return state.replace(**{row.name: getattr(x, how)(state[row.name], columns[k]) for row, x, k in contents})


CARRIED = {
    "u": Variable("carried_x", "u", "m2", "volume carried along x per unit width"),
    "v": Variable("carried_y", "v", "m2", "volume carried along y per unit width"),
}


@pytree
class CarriedVolume(Transported):
    """The volume [m2] that passed each face, per unit width.

    Args:
        variable: a row of CARRIED.
    """

    variable: Variable = static()

    results = {"rate": at("u", "d value/dt")}

    def rate(self, flow: "LayerFlow", value: Value, time: Time) -> Value:
        """U or V [m2 s-1], a Field at the position of the variable."""
        return flow.U if self.variable.position == "u" else flow.V
