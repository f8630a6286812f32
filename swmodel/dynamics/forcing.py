"""Forces at the surface.

    du/dt = + tau_x / (rho h_u),   dv/dt = + tau_y / (rho h_v)

tau_x lies at u and tau_y at v [N m-2]; h_u and h_v are the thickness on these faces [m], rho the water's density.
"""

from typing import TYPE_CHECKING, Any

from ..defaults import WATER_DENSITY
from ..fields.field import Value
from ..fields.parameters import parameter
from ..fields.state import pytree
from .clock import Time
from .layers import which_layer
from .terms import Forcing

if TYPE_CHECKING:
    from .layer import LayerFlow

__all__ = ["WindStress"]


@pytree
class WindStress(Forcing):
    """Wind stress on the surface, as a body force that is uniform over the water column (module docstring).

    Args:
        x, y: stress towards +x at u points and +y at v points [N m-2]: a number, a function of (x, y), an (ny, nx)
            array, or time records.
        density: of the water [kg m-3].
    """

    x: Any = parameter("u", "N m-2", default=0.0, halo=False, doc="the stress towards +x")
    y: Any = parameter("v", "N m-2", default=0.0, halo=False, doc="the stress towards +y")
    density: Any = parameter(None, "kg m-3", above=0.0, default=WATER_DENSITY, doc="the density of the water")
    layer: Any = which_layer(0)

    uses_time = False

    def __call__(self, flow: "LayerFlow", time: Time) -> tuple[Value, Value]:
        per_h_u, per_h_v = flow.per_h_of_wind
        return self.x * per_h_u / self.density, self.y * per_h_v / self.density
