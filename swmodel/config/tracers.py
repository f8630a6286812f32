"""[[tracer]] sections: passive tracers that the flow transports. Concentrations are in the tracer's own units.

[[tracer]]
name = "dye"
units = "kg m-3"
initial = "exp(-((x - 300 * km)**2 + (y - 1000 * km)**2) / (100 * km)**2)"
scheme = "flux_limited"
diffusivity = "10 m2 s-1"
"""

# Functions return some annotations of the section, which pyright does not accept.
# pyright: reportInvalidTypeForm=false

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from ..dynamics.tracers import LIMITERS, check_name
from ..fields.variables import in_layers
from .expressions import Expression
from .sections import Formula, InputFile, Section

__all__ = ["FieldFile", "FieldRecord", "TracerSection", "Tracers", "control_names", "stepped_names"]

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
