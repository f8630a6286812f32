"""The volume that the flow has carried through each face since it was last set to 0.

    d carried_x/dt = U,    d carried_y/dt = V

Steppers combine rates linearly, and these are the transports by which they change eta. So in each cell the change of
eta is -div(carried) to rounding, with every explicit stepper. Nests compare the volumes of two grids through their
border (nests/border.py).
"""

from typing import TYPE_CHECKING

from ..fields.field import Value
from ..fields.methods import at
from ..fields.pytrees import pytree, static
from ..fields.variables import Variable
from .clock import Time
from .transported import Transported

if TYPE_CHECKING:
    from .layer import LayerFlow

__all__ = ["CARRIED", "CarriedVolume"]

CARRIED = {
    "u": Variable("carried_x", "u", "m2", "volume carried along x per unit width in a step of the outer grid"),
    "v": Variable("carried_y", "v", "m2", "volume carried along y per unit width in a step of the outer grid"),
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
