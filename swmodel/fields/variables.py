"""The table of variables: names, positions on the C-grid, units and the metadata of files.

`PROGNOSTIC` are the rows of the variables that every model steps. A model may step more variables
(dynamics/transported.py), each with its own Variable. `model.variables` holds all of them, in the order of the model's
States. Histories, restarts, files, gauges, ensembles, controls and step loops follow that list.
"""

import dataclasses
import functools
import re
from collections.abc import Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class Variable:
    """One row of the table: the metadata of a variable in files, figures, documents and checks.

    Attributes:
        name: its name in Python and in files.
        position: its position on the C-grid, "h", "u", "v" or "q".
        units: of its values, in the notation of UDUNITS.
        long_name, standard_name, cell_methods: CF attributes.
        colormap: of cmocean, for figures.
    """

    name: str
    position: str
    units: str
    long_name: str
    standard_name: str | None = None
    colormap: str = "balance"
    cell_methods: str = "time: point"


def variable(name: str, *arguments: Any, **options: object) -> dict[str, Variable]:
    """{name: Variable}, one row of the table; the arguments are those of Variable."""
    return {name: Variable(name, *arguments, **options)}


VARIABLES = {
    **variable("eta", "h", "m", "sea surface elevation", "sea_surface_height_above_geoid"),
    **variable("u", "u", "m s-1", "velocity along x", "sea_water_x_velocity"),
    **variable("v", "v", "m s-1", "velocity along y", "sea_water_y_velocity"),
    **variable(
        "thickness", "h", "m", "thickness of the water column", "sea_floor_depth_below_sea_surface", colormap="deep"
    ),
    **variable("vorticity", "q", "s-1", "relative vorticity", "ocean_relative_vorticity", colormap="curl"),
    **variable(
        "potential_vorticity",
        "q",
        "m-1 s-1",
        "potential vorticity (f + zeta) / h",
        "potential_vorticity_of_ocean_layer",
        colormap="curl",
    ),
    **variable("divergence", "h", "s-1", "horizontal divergence of velocity"),
    **variable("speed", "h", "m s-1", "speed", "sea_water_speed", colormap="speed"),
    **variable("velocity_x", "h", "m s-1", "velocity along x, at the centres of cells", "sea_water_x_velocity"),
    **variable("velocity_y", "h", "m s-1", "velocity along y, at the centres of cells", "sea_water_y_velocity"),
    **variable(
        "kinetic_energy",
        "h",
        "m2 s-2",
        "specific kinetic energy",
        "specific_kinetic_energy_of_sea_water",
        colormap="amp",
    ),
    **variable("transport_x", "u", "m2 s-1", "volume transport along x per unit width"),
    **variable("transport_y", "v", "m2 s-1", "volume transport along y per unit width"),
    **variable(
        "depth",
        "h",
        "m",
        "depth of the sea floor below the undisturbed surface",
        "sea_floor_depth_below_geoid",
        colormap="deep",
        cell_methods="area: mean",
    ),
    **variable("interface_height", "h", "m", "height of the interface above the undisturbed surface", colormap="deep"),
    **variable("uplift", "h", "m", "uplift of the sea floor since the start", colormap="balance"),
    **variable(
        "maximum_elevation",
        "h",
        "m",
        "maximum sea surface elevation, of every step",
        "sea_surface_height_above_geoid",
        colormap="amp",
        cell_methods="time: maximum",
    ),
    **variable(
        "maximum_thickness",
        "h",
        "m",
        "maximum thickness of the water, the flow depth on land",
        colormap="deep",
        cell_methods="time: maximum",
    ),
    **variable(
        "arrival_time",
        "h",
        "s",
        "time after the start at which |eta| first exceeded the threshold",
        colormap="thermal",
        cell_methods="time: minimum",
    ),
}
INTERFACES = "interface_height"  # of files, along the interfaces: the top of each layer, and the bottom of the lowest
PROGNOSTIC = (VARIABLES["u"], VARIABLES["v"], VARIABLES["eta"])  # of every model, in the order of a State


@functools.cache
def of_layer(row: Variable, layer: int) -> Variable:
    """The row of layer number `layer`, 0 at the top: "u" of the top layer, "u_2" of the second one."""
    if layer == 0:
        return row
    what = "elevation of the upper interface" if row.name == "eta" else row.long_name
    name, long_name = in_layer(row.name, layer), f"{what} of layer {layer + 1} from the top"
    if row.name == INTERFACES:
        long_name = f"height of the lower interface of layer {layer} from the top above the undisturbed surface"
    return dataclasses.replace(row, name=name, long_name=long_name, standard_name=None)


def in_layer(name: str, layer: int) -> str:
    """The name of a variable in layer number `layer`, 0 at the top: "u" in the top layer, "u_2" in the second one."""
    return f"{name}_{layer + 1}" if layer else name


@functools.cache
def names_in_layer(layer: int) -> tuple[str, str, str]:
    """The names of u, v and eta of layer number `layer`, 0 at the top."""
    return in_layer("u", layer), in_layer("v", layer), in_layer("eta", layer)


def in_layers(name: str, layer: int | None, count: int) -> dict[str, int]:
    """{name in a State: number of the layer} of a variable in all of `count` layers, or in the given one alone."""
    return {in_layer(name, k): k for k in range(count)} if layer is None else {name: layer % count}


def row_of(name: str) -> Variable | None:
    """The row of the variable table with this name, or the one made of it for a layer, as "vorticity_2"; else None."""
    base, layer = layer_of(name)
    return of_layer(VARIABLES[base], layer) if base in VARIABLES else VARIABLES.get(name)


def derived_units(layers: int = 1) -> dict[str, str]:
    """{name: units} of the derived variables of all layers that means and gauges may hold."""
    return {in_layer(name, k): units for k in range(layers) for name, units in DERIVED.items()}


def layer_of(name: str) -> tuple[str, int]:
    """(name in the top layer, number of the layer) of a variable: ("u", 1) of "u_2", ("u", 0) of "u"."""
    base, _, number = name.rpartition("_")
    return (base, int(number) - 1) if base and number.isdecimal() and int(number) > 1 else (name, 0)


UNDER_RIGID_LID = variable("eta", "h", "m", "pressure on the rigid lid over density and gravity")

EARTH = 9.0  # [m s-2]; gravity on Earth is larger, and a smaller value is the reduced gravity of a layer
OF_A_LAYER = {  # rows for a layer above a deep layer at rest
    **variable("eta", "h", "m", "thickness of the layer less its thickness at rest"),
    **variable("depth", "h", "m", "thickness of the layer at rest", colormap="deep", cell_methods="area: mean"),
    **variable("thickness", "h", "m", "thickness of the layer", colormap="deep"),
    **variable("maximum_elevation", "h", "m", "largest excess of the layer's thickness over that at rest",
               colormap="amp", cell_methods="time: maximum"),
}  # fmt: skip
OF_LAYERS = {  # rows for several layers, with the bottom below the lowest one
    **variable("eta", "h", "m", "elevation of the layer's upper interface above its level at rest"),
    "thickness": OF_A_LAYER["thickness"],
}
OF_LAYERS_OVER_DEEP_WATER = {
    **variable("eta", "h", "m", "depth of the layer's lower interface below its level at rest"),
    **variable("depth", "h", "m", "thickness of all layers at rest", colormap="deep", cell_methods="area: mean"),
    "thickness": OF_A_LAYER["thickness"],
}


DERIVED = {  # {name: units} of what means may hold besides prognostic variables
    name: VARIABLES[name].units
    for name in (
        "thickness", "speed", "velocity_x", "velocity_y", "vorticity", "potential_vorticity", "divergence",
        "kinetic_energy", "transport_x", "transport_y",
    )
}  # fmt: skip


def factors(fields: Sequence[str], known: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """("eta", "v u") as (("eta",), ("u", "v")): fields and products of two, with the factors in the order of `known`.

    Raises:
        ValueError: for a name that is not known, more than two factors, or a product given twice.
    """
    found = []
    for field in fields:
        names = field.split()
        if len(names) not in (1, 2) or not set(names) <= set(known):
            listed = f"{', '.join(known[:-1])} or {known[-1]}"
            raise ValueError(f"{field!r} is not a field; give {listed}, or a product of two, as 'u eta'")
        found.append(tuple(sorted(names, key=known.index)))
        if found[-1] in found[:-1]:
            raise ValueError(f"{field!r} is given twice; leave one out")
    return tuple(found)


def units_of_product(first: str, second: str) -> str:
    """The units of a product, in the notation of UDUNITS: "m2 s-1" of "m" and "m s-1"."""
    exponents: dict[str, int] = {}
    for units in (first, second):
        for token in units.split():
            part = re.fullmatch(r"([A-Za-z_%]+)(-?\d+)?", token)
            if part is None and token != "1":
                return f"({first}) ({second})"
            if part is not None:
                exponents[part[1]] = exponents.get(part[1], 0) + int(part[2] or 1)
    return " ".join(f"{name}{'' if n == 1 else n}" for name, n in exponents.items() if n) or "1"


def named_for(gravity: float | None) -> dict[str, Variable]:
    """{name: Variable} of the rows that differ with this gravity [m s-2]; None where members differ."""
    return OF_A_LAYER if gravity is not None and gravity < EARTH else {}
