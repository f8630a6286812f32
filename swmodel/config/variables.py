"""[[tracer]] sections, and the names of all variables of an experiment, which follow from several sections together.

[[tracer]]
name = "dye"
units = "kg m-3"                                  # of the concentration
initial = "exp(-((x - 300 * km)**2 + (y - 1000 * km)**2) / (100 * km)**2)"
scheme = "flux_limited"
diffusivity = "10 m2 s-1"
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from ..dynamics.tracers import LIMITERS, check_name
from ..fields.variables import derived_units, factors, in_layer, in_layers
from .expressions import Expression
from .mistakes import Mistake, nearest
from .sections import Formula, InputFile, Section

__all__ = [
    "FieldFile",
    "FieldRecord",
    "PARTS",
    "TracerSection",
    "Tracers",
    "control_names",
    "known_at_gauges",
    "known_variables",
    "layer_count",
    "stepped_names",
    "transported_controls",
    "variable_mistakes",
]


PARTS = ("forcing", "dissipation", "boundary", "tracer")  # sections of which there may be several


def known_variables(sections: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the variables that outputs of an experiment may hold.

    Args:
        sections: {name: valid section}.
    """
    from ..diagnostics.derived import FIELDS

    return (*FIELDS, *(tracer.name for tracer in sections.get("tracer", ())))


def known_at_gauges(sections: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the variables that gauges can read: those that are stepped, and of single runs the derived ones."""
    stepped = _stepped(sections)
    return stepped if sections.get("ensemble") is not None else (*stepped, *derived_units(layer_count(sections)))


def _stepped(sections):
    """The names of the variables of all layers that the experiment steps, and of its tracers."""
    of_layers = (in_layer(name, k) for k in range(layer_count(sections)) for name in ("eta", "u", "v"))
    return (*of_layers, *stepped_names(sections.get("tracer", ()), layer_count(sections)))


def layer_count(sections: Mapping[str, Any]) -> int:
    """The number of layers that move."""
    layers = sections.get("layers")
    return 1 if layers is None else len(layers.thickness) + 1


def transported_controls(sections: Mapping[str, Any]) -> list[str]:
    """The controls of an adjoint that belong to transported variables, such as tracers."""
    return control_names(sections.get("tracer", ()), layer_count(sections))


def variable_mistakes(sections: Mapping[str, Any]) -> Iterator[Mistake]:
    """Mistakes of outputs that name variables which the experiment does not have."""
    output = sections.get("output")
    if output is None or "tracer" not in sections:
        return
    written = known_variables(sections)
    prognostic = _stepped(sections)
    if output.means is not None:
        try:
            factors(output.means.fields, (*prognostic, *derived_units(layer_count(sections))))
        except ValueError as error:
            yield Mistake(("output", "means", "fields"), str(error))
    named: list[tuple[tuple[str | int, ...], Any, tuple[str, ...]]] = [
        (("output", "fields", k), fields.variables, written) for k, fields in enumerate(output.fields)
    ]
    if output.gauges is not None:
        named.append((("output", "gauges"), output.gauges.variables, known_at_gauges(sections)))
    if output.harmonics is not None:
        named.append((("output", "harmonics"), output.harmonics.variables, prognostic))
    for path, names, known in named:
        for name in names:
            if name not in known:
                yield Mistake((*path, "variables"), f"unknown variable {name!r}; {nearest(name, known)}")


# Functions return some annotations of the section, which pyright does not accept.
# pyright: reportInvalidTypeForm=false


SCHEMES = ("flux_limited", "centred")


class FieldFile(Section):
    """A variable of a netCDF file, steady or in time records, which is interpolated to the grid."""

    type: Literal["file"] = "file"
    file: InputFile  # netCDF file
    variable: str  # its name in the file


class FieldRecord(FieldFile):
    """One record of a variable of a netCDF file; the last one by default."""

    record: Annotated[int, Field(strict=True)] = -1  # number of the record, from 0; negative ones count from the end


def FormulaOr(section: type[Section], unit: str = "") -> Any:
    """The annotation of a number, a formula of the coordinates, or a table that is a `section`."""
    read_formula = Formula(unit).__metadata__[0].func

    def is_table(value):
        return isinstance(value, (dict, section))

    value: Any = Annotated[float | Expression, Tag("value")]
    choice = value | Annotated[section, Tag("file")]
    return Annotated[
        choice,
        Discriminator(lambda value: "file" if is_table(value) else "value"),
        BeforeValidator(lambda value: value if is_table(value) else read_formula(value)),
    ]


def _not_negative(value):
    if isinstance(value, float) and value < 0:
        raise ValueError(f"must be at least 0, got {value:g}")
    return value


def _own_name(name):
    check_name(name)
    return name


class TracerSection(Section):
    """A passive tracer, with the parameters of `swmodel.Tracer`."""

    name: Annotated[str, AfterValidator(_own_name)]  # of the variable in files
    units: str = "1"  # of the concentration, which the keys below are in
    long_name: str = ""  # what it is, for people
    initial: FormulaOr(FieldRecord) = 0.0  # concentration at the start
    scheme: Literal[SCHEMES] = "flux_limited"  # of advection
    limiter: Literal[tuple(LIMITERS)] | None = None  # of a flux-limited scheme; van_leer unless given
    diffusivity: Annotated[Formula("m2 s-1"), AfterValidator(_not_negative)] | None = None  # kappa
    source: FormulaOr(FieldFile) | None = None  # S, units per second
    flux: FormulaOr(FieldFile) | None = None  # F into the water, units times m per second
    outside: FormulaOr(FieldFile) | None = None  # concentration of water that comes in
    layer: Annotated[int, Field(strict=True)] | None = None  # of several, that it is in; all unless given

    @model_validator(mode="after")
    def _limiter_of_a_limited_scheme(self):
        if self.limiter is not None and self.scheme != "flux_limited":
            raise ValueError(f'limiter belongs to scheme = "flux_limited", not to {self.scheme!r}; leave it out')
        return self


def _different_names(tracers):
    names = [tracer.name for tracer in tracers]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two tracers are called {name!r}; give each a name of its own")
    return tracers


Tracers = Annotated[tuple[TracerSection, ...], AfterValidator(_different_names)]


def stepped_names(tracers: tuple, layers: int) -> list[str]:
    """The names of the variables of tracers in a model of so many layers."""
    return [name for tracer in tracers for name in in_layers(tracer.name, tracer.layer, layers)]


def control_names(tracers: tuple, layers: int) -> list[str]:
    """The controls of an adjoint that the sections of tracers add to a model of so many layers."""
    given = [
        (k, key)
        for k, tracer in enumerate(tracers)
        for key in ("diffusivity", "source", "flux", "outside")
        if getattr(tracer, key) is not None
    ]
    return [f"initial.{name}" for name in stepped_names(tracers, layers)] + [f"tracer.{k}.{key}" for k, key in given]
