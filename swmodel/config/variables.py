"""[[tracer]] sections, and the names of all variables of an experiment, which follow from several sections together.

[[tracer]]
name = "dye"
units = "kg m-3"                                  # of the concentration
initial = "exp(-((x - 300 * km)**2 + (y - 1000 * km)**2) / (100 * km)**2)"
scheme = "flux_limited"
diffusivity = "10 m2 s-1"
"""

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from ..dynamics.tracers import LIMITERS, AdvectionScheme, Centred, FluxLimited, Limiter, check_name
from ..fields.parameters import Number, shown
from ..fields.variables import INTERFACES, derived_units, in_layer, in_layers
from .expressions import Expression
from .mistakes import Mistake, nearest
from .own import ClassNamed
from .parts import part_of
from .reading import Section
from .sections import Formula, InputFile, Whole, different_names

PARTS = ("forcing", "dissipation", "boundary", "tracer")  # sections of which there may be several


def known_variables(sections: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the variables that outputs of an experiment may hold.

    Args:
        sections: {name: valid section}.
    """
    from ..diagnostics.derived import FIELDS

    between = (INTERFACES,) if sections.get("layers") is not None else ()
    return (*FIELDS, *between, *(tracer.name for tracer in sections.get("tracer", ())), *_of_terms(sections))


def known_at_gauges(sections: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the variables that gauges can read: those that are stepped, and of single runs the derived ones."""
    stepped = _stepped(sections)
    return stepped if sections.get("ensemble") is not None else (*stepped, *derived_units(layer_count(sections)))


def _stepped(sections):
    """The names of the variables of all layers that the experiment steps, and of its tracers."""
    of_layers = (in_layer(name, k) for k in range(layer_count(sections)) for name in ("eta", "u", "v"))
    return (*of_layers, *stepped_names(sections.get("tracer", ()), layer_count(sections)), *_of_terms(sections))


def _of_terms(sections):
    """The names of the variables that forcings keep, such as the depth of water that has infiltrated."""
    rows = [getattr(entry.part, "variable", None) for entry in sections.get("forcing", ())]
    return tuple(dict.fromkeys(row.name for row in rows if row is not None))


def layer_count(sections: Mapping[str, Any]) -> int:
    """The number of layers that move."""
    layers = sections.get("layers")
    return 1 if layers is None else len(layers.thickness) + 1


def transported_controls(sections: Mapping[str, Any]) -> list[str]:
    """The controls of an adjoint that belong to transported variables, such as tracers."""
    tracers = sections.get("tracer", ())
    names = [f"initial.{name}" for name in stepped_names(tracers, layer_count(sections))]
    keys = ("diffusivity", "source", "flux", "outside")
    return names + [f"tracer.{k}.{key}" for k, x in enumerate(tracers) for key in keys if getattr(x, key) is not None]


def variable_mistakes(sections: Mapping[str, Any]) -> Iterator[Mistake]:
    """Mistakes of outputs that name variables which the experiment does not have."""
    output = sections.get("output")
    if output is None or "tracer" not in sections:
        return
    written = known_variables(sections)
    named: list[tuple[tuple[str | int, ...], Any, tuple[str, ...]]] = [
        (("output", "fields", k), fields.variables, written) for k, fields in enumerate(output.fields)
    ]
    if output.gauges is not None:
        named.append((("output", "gauges"), output.gauges.variables, known_at_gauges(sections)))
    until = sections["run"].until if sections.get("run") is not None else math.inf
    for path, section in output.named_products():
        derived = tuple(derived_units(layer_count(sections)))
        for key, why in part_of(section, None).mistakes(until, _stepped(sections), derived):
            yield Mistake((*path, key), why)
    for path, names, known in named:
        for name in names:
            if name not in known:
                yield Mistake((*path, "variables"), f"unknown variable {name!r}; {nearest(name, known)}")


class FieldFile(Section):
    """A variable of a netCDF file, steady or in time records, which is interpolated to the grid."""

    type: Literal["file"] = "file"
    file: InputFile  # netCDF file
    variable: str  # its name in the file


class FieldRecord(FieldFile):
    """One record of a variable of a netCDF file; the last one by default."""

    record: Whole = -1  # number of the record, from 0; negative ones count from the end


SCHEMES = ClassNamed(AdvectionScheme, {"flux_limited": FluxLimited, "centred": Centred})
LIMITER = ClassNamed(Limiter, LIMITERS)
Concentration = Annotated[float | Expression, Formula(Number())]
Diffusivity = Annotated[float | Expression, Formula(Number(units="m2 s-1", minimum=0.0))]


def _own_name(name):
    check_name(name)
    return name


class TracerSection(Section):
    """A passive tracer, with the parameters of `swmodel.Tracer`."""

    name: Annotated[str, _own_name]  # of the variable in files
    units: str = "1"  # of the concentration, which the keys below are in
    long_name: str = ""  # what it is, for people
    initial: Concentration | FieldRecord = 0.0  # concentration at the start
    scheme: Annotated[Any, SCHEMES] = "flux_limited"  # of advection
    limiter: Annotated[Any, LIMITER] | None = None  # of a flux-limited scheme; van_leer unless given
    diffusivity: Diffusivity | None = None  # kappa
    source: Concentration | FieldFile | None = None  # S, units per second
    flux: Concentration | FieldFile | None = None  # F into the water, units times m per second
    outside: Concentration | FieldFile | None = None  # concentration of water that comes in
    layer: Whole | None = None  # of several, that it is in; all unless given

    def check(self) -> None:
        if self.limiter is not None and self.scheme != "flux_limited":
            raise ValueError(f'limiter belongs to scheme = "flux_limited", not to {shown(self.scheme)}; leave it out')


Tracers = Annotated[tuple[TracerSection, ...], different_names("tracers are called")]


def stepped_names(tracers: tuple, layers: int) -> list[str]:
    """The names of the variables of tracers in a model of so many layers."""
    return [name for tracer in tracers for name in in_layers(tracer.name, tracer.layer, layers)]
