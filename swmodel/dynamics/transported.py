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

A `Passage` is what passes faces in a step: the volume of water, or a tracer's content.

    d passed_x/dt = U,            d passed_y/dt = V
    d passed_x_dye/dt = U c_u,    d passed_y_dye/dt = V c_v      and the fluxes of diffusion

Steppers combine rates linearly, and these are the fluxes by which they change eta and s. So with every explicit stepper
a step changes eta and s by minus the divergence of what passes faces, to rounding, but for sources. Nests compare what
passes their border in two grids (nests/border.py). A step of these grids computes it in strips along the border alone.
"""

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..fields.field import AbstractField, Value
from ..fields.methods import Result, a_rate, wrong_h
from ..fields.state import State, as_tile_field, static
from ..fields.variables import Variable, in_layers
from .clock import Time
from .terms import TiledPart

if TYPE_CHECKING:
    from .layer import LayerFlow
    from .site import Site
    from .system import System


__all__ = [
    "Passage",
    "Transported",
    "converted",
    "converted_state",
    "passages",
    "thicknesses",
    "with_counted",
    "without_counted",
]


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
    results = {"rate": Result("d value/dt, a Field at h or a number", wrong_h), "time_step_rate": a_rate}
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

    def fluxes(self, flow: "LayerFlow", value: AbstractField, time: Time) -> tuple[AbstractField, AbstractField]:
        """What `rate` moves through faces, per unit width, Fields at u and v; the arguments are those of `rate`.

        Nests need it: the rate but for sources is minus the divergence of these fluxes.
        """
        raise NotImplementedError(f"{type(self).__name__} has no fluxes through faces.")

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


def thicknesses(system: "System", fields: State | Mapping[str, Value], depth: Value) -> list[Value]:
    """The thickness of each layer [m], from the depth [m] and {name: values}."""
    columns = system.columns(depth, fields)
    return [rest + excess for rest, excess in columns]


def converted(how: str, contents: Sequence, fields: State | Mapping[str, Value], columns: Sequence) -> dict[str, Value]:
    """{name: values} of `contents` in these fields, as "shown" or as "stored"; `columns` are thicknesses of layers [m].

    Args:
        how: "shown" or "stored".
        contents: those of a System.
        fields: a State, or a dict, of arrays.
        columns: the thickness of each layer [m].
    """
    return {row.name: getattr(x, how)(fields[row.name], columns[k]) for row, x, k in contents}


def converted_state(how: str, system: "System", state: State, depth: AbstractField) -> State:
    """A State of tile arrays with its tracers, and the level of beds finer than the grid, "shown" or "stored".

    Args:
        how: "shown" or "stored".
        system: the System, prepared.
        state: the State.
        depth: H at its time [m], a Field at h.
    """
    contents, subgrid, wet, new = system.contents, system.subgrid, system.geometry.wet, {}
    if not contents and subgrid is None:
        return state
    fields = state.map(as_tile_field, state.positions)
    if subgrid is not None:
        new = {"eta": getattr(subgrid, how)(fields.eta, depth, wet).interior}
        fields = fields.replace(eta=as_tile_field(new["eta"], "h")) if how == "stored" else fields
    columns = system.columns(depth, fields)
    columns = [(rest + excess * wet).interior for rest, excess in columns]
    return state.replace(**new, **converted(how, contents, state, columns))


@dataclasses.dataclass(frozen=True)
class Passage:
    """What passes the faces of a layer along an axis in a step, per unit width.

    Attributes:
        position: "u" or "v".
        layer: the number of the layer.
        tracer: the name of the tracer whose content it is; "" for the volume of water [m2].
    """

    position: str
    layer: int
    tracer: str = ""

    @property
    def name(self) -> str:
        """Its name in States within a step and in histories, such as "passed-x-0-dye"; no tracer's has a hyphen."""
        return "-".join(["passed", "x" if self.position == "u" else "y", str(self.layer), *filter(None, [self.tracer])])

    def rate(self, flow: "LayerFlow", time: Time) -> Value:
        """U or V [m2 s-1], or the tracer's flux, a Field at `position`; `flow` is that of the top layer."""
        layer = flow.layers[self.layer]
        along = layer.fluxes_of(self.tracer, time) if self.tracer else (layer.U, layer.V)
        return along[self.position == "v"]


def passages(system: "System", position: str) -> list[Passage]:
    """What passes the faces at "u" or "v": the water of each layer, and then the `contents` of a System."""
    water = [Passage(position, layer) for layer in range(system.layer_count)]
    return water + [Passage(position, layer, tracer.name) for _, tracer, layer in system.contents]


def with_counted(state: State, counted: Sequence[Passage], zero: Callable[[str], Value]) -> State:
    """A State with 0, of `zero(position)`, for each Passage that is counted, of which nothing has passed yet."""
    positions = {passage.name: passage.position for passage in counted}
    return state.extended({name: zero(at) for name, at in positions.items()}, positions)


def without_counted(system: "System", state: State) -> State:
    """A State without what a System counts, whose halos nothing reads."""
    return state.only(set(state.names) - {passage.name for passage, _ in system.counted})
