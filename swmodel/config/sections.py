"""Types of the keys of experiment files: numbers with units, known names, existing files, ranges, sides.

Values that vary over the grid are formulas, or tables such as MapFile; a model gets them as arrays or GridValues.
"""

import dataclasses
import datetime
import glob
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from ..defaults import GRAVITY
from ..errors import ConfigError, DataError, suggestion
from ..fields import parameters as rules
from ..fields.parameters import SIDES, in_utc
from ..fields.parts import numbers_of
from ..grids import windows
from ..grids.coast import coast_mask
from ..grids.grid import Grid
from ..grids.regrid import field_records
from ..grids.windows import GridValues
from ..runtime import launchers
from ..runtime.paths import expanded, found
from ..units import Coordinate, QuantityError
from .expressions import Expression, ExpressionError
from .reading import Before, Read, Reading, Section

Count = Annotated[int, rules.Number(minimum=1, whole=True)]
Seed = Annotated[int, rules.Number(minimum=0, whole=True)]
Whole = Annotated[int, rules.Number(whole=True)]


def not_empty(value: Any) -> Any:
    """A list or table; raises ValueError if it is empty."""
    if not value:
        raise ValueError("is empty; give one or more")
    return value


def different_names(have: str) -> Callable[[Any], Any]:
    """The rule of sections whose names differ; `have` begins the message, as "nests have the name"."""

    def rule(sections: Any) -> Any:
        names = [section.name for section in sections]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two {have} {name!r}; give each a name of its own")
        return sections

    return rule


VariableNames = Annotated[tuple[str, ...], rules.Names()]  # known: variables.py

# Floats in SI units; files may give them in other units of the same dimension.
PositiveNumber = Annotated[float, rules.Number(above=0.0)]
Fraction = Annotated[float, rules.Number(above=0.0, below=1.0)]
Metres = Annotated[float, rules.Number(units="m")]
PositiveMetres = Annotated[float, rules.Number(units="m", above=0.0)]
NonNegativeMetres = Annotated[float, rules.Number(units="m", minimum=0.0)]
Seconds = Annotated[float, rules.Number(units="s")]
PositiveSeconds = Annotated[float, rules.Number(units="s", above=0.0)]
NonNegativeSeconds = Annotated[float, rules.Number(units="s", minimum=0.0)]
RangeOfSeconds = Annotated[tuple[Seconds, Seconds], rules.Pair("s", "(first, last)", ascending=True)]
Degrees = Annotated[float, rules.Number(units="degree")]
AnyCoordinate = Annotated[Coordinate, rules.Number(units=rules.COORDINATES)]
PositiveCoordinate = Annotated[Coordinate, rules.Number(units=rules.COORDINATES, above=0.0)]
Place = tuple[AnyCoordinate, AnyCoordinate]  # (x, y) in the grid's coordinates


def _names(value):
    """One name or several, as a list; gauges are often called by a number."""
    return [str(x) if type(x) is int else x for x in (value if isinstance(value, (list, tuple)) else (value,))]


Names = Annotated[tuple[str, ...], Before(_names), rules.Names()]


@dataclasses.dataclass(frozen=True)
class Formula:
    """Reads a number as a rule has it, or a formula of the coordinates.

    Attributes:
        rule: the Number. Values of formulas are compared with its limits later, on the grid.
        several: whether a list may take its place, of "numbers" or of "formulas"; "" if none may.
    """

    rule: rules.Number
    several: Literal["", "numbers", "formulas"] = ""

    def read(self, value: Any, reading: Reading) -> Any:
        """A float, an Expression, or a tuple of them; raises ValueError for anything else."""
        if not (self.several and isinstance(value, (list, tuple))):
            return self._one(value)
        return tuple((self.rule.read(x) if self.several == "numbers" else self._one(x)) for x in value)

    def _one(self, value):
        if isinstance(value, Expression):
            return value
        if not isinstance(value, str):
            return self.rule.read(value)
        is_amount = re.fullmatch(r"\s*[+-]?[\d.].*", value) and not re.search(r"[()]|\*(?!\*)", value)
        probable, other = (self.rule.read, Expression) if is_amount else (Expression, self.rule.read)
        try:
            return probable(value)
        except (QuantityError, ExpressionError) as error:
            try:
                return other(value)
            except (QuantityError, ExpressionError):
                raise error from None


FormulaInMetres = Annotated[float | Expression, Formula(rules.Number(units="m"))]
FormulaOfLayers = float | Expression | tuple[float | Expression, ...]  # one formula, or one for each layer
FormulasInMetres = Annotated[FormulaOfLayers, Formula(rules.Number(units="m"), "formulas")]
FormulasInMetresPerSecond = Annotated[FormulaOfLayers, Formula(rules.Number(units="m s-1"), "formulas")]


def _path(value, reading, what):
    if not isinstance(value, (str, Path)) or not str(value).strip():
        raise ValueError(f"expected the name of a {what}, got {value!r}")
    return expanded(value, reading.folder).resolve()


def _folder(value, reading):
    path = _path(value, reading, "folder")
    if not found(path, "folder"):
        raise ValueError(f"there is no folder {path}; {_counted_from(value)}")
    return path


def _counted_from(value):
    """A hint for a path that does not exist: the folder to which it is relative."""
    absolute = os.path.isabs(os.path.expanduser(value))
    return "name another" if absolute else "paths are relative to the folder of the TOML file"


def _input_file(value, reading):
    path = _path(value, reading, "file")
    if found(path, "file"):
        return path
    if found(path, "folder"):
        raise ValueError(f"{path} is a folder, and a file is needed")
    if path.exists():
        raise ValueError(f"{path} is a device, and a file is needed")
    raise ValueError(f"there is no file {path}; {suggestion(path.name, _names_in(path.parent), _counted_from(value))}")


def _names_in(folder):
    try:
        return os.listdir(folder)
    except OSError:
        return []


def written_path(value: str) -> str:
    """The name of a file or folder to write, with `~` expanded; relative paths stay relative."""
    return str(expanded(value))


Folder = Annotated[Path, Read(_folder, "folder")]
InputFile = Annotated[Path, Read(_input_file)]


def _input_files(value, reading):
    """A path; or a tuple of paths, of a list or of a pattern such as "era5_*.nc"."""
    if isinstance(value, str) and any(letter in value for letter in "*?["):
        path = _path(value, reading, "file")
        if paths := tuple(Path(name) for name in sorted(glob.glob(str(path)))):
            return paths
        raise ValueError(f"no file is named like {path}; {_counted_from(value)}")
    if isinstance(value, (list, tuple)):
        if not value:
            raise ValueError("names no file; give one, or several")
        return tuple(_input_file(one, reading) for one in value)
    return _input_file(value, reading)


InputFiles = Annotated[Path | tuple[Path, ...], Read(_input_files)]  # one file, or several of other times


def read_layout(value: Any, reading: Reading | None = None) -> tuple[int, int] | None:
    """(py, px) of a layout, or None for "auto"; raises ValueError for anything else."""
    if value == "auto" or value is None:
        return None
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+)\s*[xX×]\s*(\d+)\s*", value)
        value = [int(number) for number in match.groups()] if match else None
    if isinstance(value, (list, tuple)) and len(value) == 2 and all(type(n) is int and n >= 1 for n in value):
        return value[0], value[1]
    raise ValueError("expected 'auto', or tiles along y and x as in '2x3' or [2, 3]")


Layout = Annotated[tuple[int, int] | None, Read(read_layout)]


def _devices(value, reading):
    if value == "auto" or value is None:
        return None
    if type(value) is not int or value < 1:
        raise ValueError("expected 'auto', or a number of devices")
    return value


Devices = Annotated[int | None, Read(_devices)]


def _sides(value):
    return list(SIDES) if value == "all" else [value] if isinstance(value, str) else value


Sides = Annotated[tuple[Literal[SIDES], ...], Before(_sides), rules.Sides()]  # pyright: ignore[reportInvalidTypeForm]


LARGEST_WHOLE_GRID = 2**24  # the most cells on which one process evaluates formulas


def is_evaluated_whole(grid: Grid) -> bool:
    """Whether this process evaluates formulas and files on the whole grid, to find mistakes before a model is made.

    The ranks of a parallel run evaluate windows, and so does a process that checks more than LARGEST_WHOLE_GRID cells.
    """
    return launchers.launched_ranks() == 1 and grid.nx * grid.ny <= LARGEST_WHOLE_GRID


def evaluated(values: GridValues, grid: Grid) -> np.ndarray | GridValues:
    """`values` as an array where this process evaluates the whole grid."""
    return np.asarray(values) if is_evaluated_whole(grid) else values


def on_grid(value: Any, grid: Grid, position: str, name: str) -> Any:
    """For a formula its values at `position`, an array or GridValues, which must be finite; anything else as it is."""
    if not isinstance(value, Expression):
        return value

    def check(values):
        if not np.isfinite(values).all():
            raise ConfigError(f"{name}: the formula {value.text!r} is not finite everywhere on the grid")

    def quietly(x, y):
        with np.errstate(all="ignore"):
            return np.asarray(value(x, y), float)

    return evaluated(windows.Formula(quietly, grid, position, check), grid)


def along_sides(value: Any, grid: Grid, position: str, name: str, owner: Any) -> Any:
    """A number or a formula on the grid; numbers along the sides of `owner` as an array (ny, 1) or (1, nx)."""
    if not isinstance(value, tuple):
        return on_grid(value, grid, position, name)
    sides: list[str] = list(getattr(owner, "sides", []))
    along_y = {side in ("west", "east") for side in sides}
    if len(along_y) != 1:
        raise ConfigError(f"{name} is a list, which lies along open sides, all in x or all in y; give a formula")
    cells = grid.ny if along_y == {True} else grid.nx
    if len(value) != cells:
        raise ConfigError(f"{name} has {len(value)} values, and the {sides[0]} side has {cells} cells; give as many")
    return np.reshape(value, (-1, 1) if along_y == {True} else (1, -1))


@dataclasses.dataclass(frozen=True)
class Surroundings:
    """What a section is built for; None where that is not known.

    Attributes:
        grid: the model's Grid.
        start: date and time of step 0 of the run, from which dates count.
        until: the end of the run [s].
        gravity: of the model [m s-2].
        output: the section [output], with the positions of gauges.
    """

    grid: Any = None
    start: datetime.datetime | None = None
    until: Any = None
    gravity: float = GRAVITY
    output: Any = None


NOWHERE = Surroundings()


def check_limits(values: Any, rule: rules.Number, what: str, error: type[Exception]) -> None:
    """Raise an `error` of this class for values beyond the limits of a parameter's rule."""
    for value in (values.min(), values.max()):
        if why := rule.outside(value):
            raise error(f"{what} is {value:g} somewhere, which {why}")


class Polygons(Section):
    """Cells whose centres lie in the polygons of a shapefile or GeoJSON file, or in none of them."""

    tag = "polygons"
    marked_by = ("polygons",)

    polygons: InputFile  # shapefile or GeoJSON file
    of: Literal["land", "water"] = "land"  # what lies in them

    def mask(self, grid: Grid) -> GridValues:
        """True at the cell centres that lie in water."""
        return coast_mask(self.polygons, grid, self.of)


class MapFile(Section):
    """A map from a netCDF file, interpolated to cell centres; missing values take the nearest one."""

    tag = "map"

    file: InputFile  # netCDF file on the axes of the grid
    variable: str  # its name in the file

    def mask(self, grid: Grid) -> GridValues:
        """True at the cell centres where the map is 1/2 or more."""
        return self._values(grid, fill=False).map(lambda values: np.nan_to_num(values) >= 0.5, dtype=bool)

    def value_of(self, name: str, owner: Any, on: Surroundings) -> np.ndarray | GridValues:
        """The values of a parameter of the section `owner` at cell centres, within its limits."""

        def check(values):
            check_limits(values, numbers_of(owner.part)[name], f"{self.variable} in {self.file}", DataError)
            return values

        return evaluated(self._values(on.grid).map(check), on.grid)

    def check_value(self, name: str, owner: Any, on: Surroundings) -> None:
        """Raise DataError for a map that cannot be the parameter `name` of the section `owner`."""
        if is_evaluated_whole(on.grid):
            self.value_of(name, owner, on)

    def _values(self, grid, fill=True):
        records = field_records(self.file, self.variable, grid, fill=fill)
        if len(records.times) > 1:
            times = f"has {len(records.times)} times; give a map without time"
            raise DataError(f"{self.variable} in {self.file} {times}")
        return records.values[0]


Memory = Annotated[float, rules.Number(units="B", above=0.0)]


def _utc(value):
    if isinstance(value, str):
        try:
            value = datetime.datetime.fromisoformat(value)
        except ValueError:
            pass
    if isinstance(value, datetime.datetime):
        try:
            return in_utc(value)
        except OverflowError:
            raise ValueError(f"{value.isoformat()} is before the year 1 or after 9999 in UTC; give another") from None
    if isinstance(value, datetime.date):
        return datetime.datetime(value.year, value.month, value.day)
    raise ValueError(f"expected a date and time in UTC, as in 2011-03-11T05:46:23, got {value!r}")


Date = Annotated[datetime.datetime, Before(_utc)]
