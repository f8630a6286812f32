"""The smallest variable that the flow transports, with which tests show that nothing counts three fields."""

from typing import Any

import jax.numpy as jnp

from swmodel.dynamics.layer import divergence
from swmodel.dynamics.transported import Transported
from swmodel.fields.field import mean_x, mean_y
from swmodel.fields.parameters import parameter
from swmodel.fields.state import static
from swmodel.fields.variables import Variable

__all__ = ["DYE", "SALT", "Content"]

DYE = Variable("dye", "h", "1", "concentration of dye")
SALT = Variable("salt", "h", "1", "another concentration")


class Content(Transported):
    """s = h c, ds/dt = - div(U c, V c) + c times the water that terms add; `decay` [s-1] takes some away."""

    variable: Variable = static(default=DYE)
    decay: Any = parameter(None, "s-1", default=0.0)

    initial = 1.0

    def rate(self, flow, value, time):
        c = self.shown(value, flow.column)
        carried = divergence(flow.U * mean_x(c), flow.V * mean_y(c), flow.geometry)
        return flow.water_added * c - carried - self.decay * value

    def shown(self, value, column):
        positive = column.map(_or_one) if hasattr(column, "map") else _or_one(column)
        return value / positive

    def stored(self, shown, column):
        return shown * column


def _or_one(h):
    return jnp.where(h > 0, h, 1.0 + 0.0 * h)
