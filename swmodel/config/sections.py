"""Types of the keys of experiment files: numbers with units, known names, existing files, ranges, sides."""

import difflib
import functools
import glob
import os
import re
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    Tag,
    ValidationInfo,
)

from ..fields.parameters import SIDES
from ..runtime.paths import expanded, found
from .expressions import Expression, ExpressionError
from .quantities import QuantityError, in_unit, quantity

__all__ = [
    "AnyCoordinate",
    "Coordinate",
    "Count",
    "Degrees",
    "Devices",
    "Flag",
    "Formula",
    "FormulaInMetres",
    "FormulaInMetresPerSecond",
    "FormulaOrLine",
    "FormulasInMetres",
    "FormulasInMetresPerSecond",
    "Fraction",
    "InputFile",
    "InputFiles",
    "Layout",
    "MapFile",
    "Metres",
    "Names",
    "NonNegativeMetres",
    "NonNegativeSeconds",
    "Number",
    "PLAIN",
    "Place",
    "PositiveMetres",
    "PositiveNumber",
    "PositiveSeconds",
    "RangeOfDegrees",
    "RangeOfMetres",
    "RangeOfSeconds",
    "SIDES",
    "Seconds",
    "SecondsOrAuto",
    "Section",
    "Sides",
    "ascending",
    "existing_folder",
    "formula_in",
    "number_or_map",
    "written_path",
]

Count = Annotated[int, Field(strict=True, ge=1)]
Flag = StrictBool
PLAIN = "plain"  # the tag of values that are not tables


class Section(BaseModel):
    """A table of the experiment file. Unknown keys are mistakes."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        arbitrary_types_allowed=True,
        str_strip_whitespace=True,
        defer_build=True,  # of its validator, until a file has this table: building all takes half a second
    )


def ascending(pair: tuple[float, float]) -> tuple[float, float]:
    """`pair`; raises ValueError unless the first number is the smaller one."""
    if not pair[0] < pair[1]:
        raise ValueError(f"({pair[0]:g}, {pair[1]:g}) is not a range; the first value must be the smaller one")
    return pair


# Floats in SI units; files may give them in other units of the same dimension.
Number = Annotated[float, in_unit("")]
PositiveNumber = Annotated[float, in_unit(""), Field(gt=0)]
Fraction = Annotated[float, in_unit(""), Field(gt=0, lt=1)]
Metres = Annotated[float, in_unit("m")]
PositiveMetres = Annotated[float, in_unit("m"), Field(gt=0)]
NonNegativeMetres = Annotated[float, in_unit("m"), Field(ge=0)]
RangeOfMetres = Annotated[tuple[Metres, Metres], AfterValidator(ascending)]
Seconds = Annotated[float, in_unit("s")]
PositiveSeconds = Annotated[float, in_unit("s"), Field(gt=0)]
NonNegativeSeconds = Annotated[float, in_unit("s"), Field(ge=0)]
RangeOfSeconds = Annotated[tuple[Seconds, Seconds], AfterValidator(ascending)]
Degrees = Annotated[float, in_unit("degree")]
RangeOfDegrees = Annotated[tuple[Degrees, Degrees], AfterValidator(ascending)]


class Coordinate(float):
    """A coordinate with the unit of the file: "m", "degree", or None for a bare number."""

    unit: str | None = None


def _coordinate(value):
    if isinstance(value, Coordinate):
        return value
    found = Coordinate(quantity(value, "")) if not isinstance(value, str) else None
    for unit in () if found is not None else ("degree", "m"):
        try:
            written = Coordinate(quantity(value, unit))
        except QuantityError:
            continue
        written.unit = unit if re.search(r"[^\W\d]+\s*$", value) else None
        return written
    if found is None:
        raise QuantityError(f"expected a coordinate (metres, or degrees on the sphere), got {value!r}")
    return found


AnyCoordinate = Annotated[Coordinate, BeforeValidator(_coordinate)]
Place = tuple[AnyCoordinate, AnyCoordinate]  # (x, y) in the grid's coordinates


def _seconds_or_auto(value):
    if value == "auto":
        return value
    number = quantity(value, "s")
    if number <= 0:
        raise ValueError(f"must be greater than 0, got {value!r}")
    return number


SecondsOrAuto = Annotated[Literal["auto"] | float, BeforeValidator(_seconds_or_auto)]  # positive, or "auto"


def _names(value):
    """One name or several; gauges are often called by a number."""
    value = value if isinstance(value, (list, tuple)) else (value,)
    return tuple(str(name) if type(name) is int else name for name in value)


Names = Annotated[tuple[str, ...], BeforeValidator(_names), Field(min_length=1)]


def formula_in(unit: str) -> BeforeValidator:
    """The validator of a number, with or without units, or of a formula of the coordinates."""

    return BeforeValidator(functools.partial(_formula, unit=unit))


def _formula(value, unit):
    if isinstance(value, Expression):
        return value
    try:
        return quantity(value, unit)
    except QuantityError:
        if not isinstance(value, str):
            raise
        wrong_quantity = re.fullmatch(r"\s*[+-]?[\d.].*", value) and not re.search(r"[()]|\*(?!\*)", value)
        try:
            return Expression(value)
        except ExpressionError:
            if not wrong_quantity:
                raise
        raise


def Formula(unit: str) -> Any:
    """The annotation of a number or formula in a `unit` that a variable holds, for keys made at run time."""
    return Annotated[float | Expression, formula_in(unit)]


def FormulaOrLine(unit: str) -> Any:
    """The annotation of a number, a formula, or a list of numbers along a side, in a `unit` that a variable holds."""
    return Annotated[float | Expression | tuple[float, ...], BeforeValidator(functools.partial(_line, unit=unit))]


def _line(value, unit):
    listed = isinstance(value, (list, tuple))
    return tuple(quantity(each, unit) for each in value) if listed else _formula(value, unit)


FormulaInMetres = Annotated[float | Expression, formula_in("m")]
FormulaInMetresPerSecond = Annotated[float | Expression, formula_in("m s-1")]


def _formulas(value, unit):
    listed = isinstance(value, (list, tuple))
    return tuple(_formula(each, unit) for each in value) if listed else _formula(value, unit)


FormulaOfLayers = float | Expression | tuple[float | Expression, ...]  # one formula, or one for each layer
FormulasInMetres = Annotated[FormulaOfLayers, BeforeValidator(functools.partial(_formulas, unit="m"))]
FormulasInMetresPerSecond = Annotated[FormulaOfLayers, BeforeValidator(functools.partial(_formulas, unit="m s-1"))]


def _path(value, info, what):
    if not isinstance(value, (str, Path)) or not str(value).strip():
        raise ValueError(f"expected the name of a {what}, got {value!r}")
    return expanded(value, (info.context or {}).get("folder", Path())).resolve()


def existing_folder(value: object, info: ValidationInfo) -> Path:
    """The path of a folder that exists; `info.context` holds the folder that relative paths start from."""
    path = _path(value, info, "folder")
    if not found(path, "folder"):
        raise ValueError(f"there is no folder {path}{_counted_from(value)}")
    return path


def _counted_from(value):
    """A hint for a path that does not exist: the folder to which it is relative."""
    absolute = os.path.isabs(os.path.expanduser(value))
    return "; name another" if absolute else "; paths are relative to the folder of the TOML file"


def _input_file(value, info):
    path = _path(value, info, "file")
    if found(path, "file"):
        return path
    if found(path, "folder"):
        raise ValueError(f"{path} is a folder, and a file is needed")
    if path.exists():
        raise ValueError(f"{path} is a device, and a file is needed")
    near = difflib.get_close_matches(path.name, _names_in(path.parent), 1)
    hint = f"; did you mean {near[0]!r}?" if near else _counted_from(value)
    raise ValueError(f"there is no file {path}{hint}")


def _names_in(folder):
    try:
        return os.listdir(folder)
    except OSError:
        return []


def written_path(value: str) -> str:
    """The name of a file or folder to write, with `~` expanded; relative paths stay relative."""
    return str(expanded(value))


InputFile = Annotated[Path, BeforeValidator(_input_file)]


def _input_files(value, info):
    """A path; or a tuple of paths, of a list or of a pattern such as "era5_*.nc"."""
    if isinstance(value, str) and any(letter in value for letter in "*?["):
        path = _path(value, info, "file")
        if paths := tuple(Path(name) for name in sorted(glob.glob(str(path)))):
            return paths
        raise ValueError(f"no file is named like {path}{_counted_from(value)}")
    if isinstance(value, (list, tuple)):
        if not value:
            raise ValueError("names no file; give one, or several")
        return tuple(_input_file(one, info) for one in value)
    return _input_file(value, info)


InputFiles = Annotated[Path | tuple[Path, ...], BeforeValidator(_input_files)]  # one file, or several of other times


def _layout(value):
    if value == "auto" or value is None:
        return None
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+)\s*[xX×]\s*(\d+)\s*", value)
        value = [int(number) for number in match.groups()] if match else None
    if isinstance(value, (list, tuple)) and len(value) == 2 and all(type(n) is int and n >= 1 for n in value):
        return tuple(value)
    raise ValueError("expected 'auto', or tiles along y and x as in '2x3' or [2, 3]")


Layout = Annotated[tuple[int, int] | None, BeforeValidator(_layout)]


def _devices(value):
    if value == "auto" or value is None:
        return None
    if type(value) is not int or value < 1:
        raise ValueError("expected 'auto', or a number of devices")
    return value


Devices = Annotated[int | None, BeforeValidator(_devices)]


def _some_sides(value):
    value = list(SIDES) if value == "all" else [value] if isinstance(value, str) else value
    if isinstance(value, (list, tuple)):
        if not value:
            raise ValueError(f"no side is named; give some of {', '.join(SIDES)}, or leave the whole entry out")
        if len(set(map(str, value))) < len(value):
            raise ValueError("a side is named twice")
    return value


Sides = Annotated[tuple[Literal[SIDES], ...], BeforeValidator(_some_sides)]  # pyright: ignore[reportInvalidTypeForm]


class MapFile(Section):
    """A map from a netCDF file, interpolated to cell centres; missing values take the nearest one."""

    tag: ClassVar[str] = "map"

    file: InputFile  # netCDF file on the axes of the grid
    variable: str  # its name in the file


def number_or_map(plain: Any) -> Any:
    """The annotation of a key that is `plain`, or a table that names a file."""
    choose = Discriminator(lambda value: MapFile.tag if isinstance(value, (dict, MapFile)) else PLAIN)
    return Annotated[Annotated[plain, Tag(PLAIN)] | Annotated[MapFile, Tag(MapFile.tag)], choose]
