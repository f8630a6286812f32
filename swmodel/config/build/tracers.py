"""Tracers from the [[tracer]] sections of an experiment file."""

from typing import Any

from ...dynamics.tracers import LIMITERS, Centred, FluxLimited, Tracer
from ...errors import DataError
from ..tracers import FieldFile, FieldRecord, TracerSection
from .states import is_evaluated_whole, on_grid

__all__ = ["tracer_of"]


def tracer_of(section: TracerSection, grid: Any, run: Any) -> Tracer:
    """The Tracer of a section.

    Args:
        section: the TracerSection.
        grid: the model's grid.
        run: the [run] section, whose start and end determine which records of files are needed.

    Raises:
        ConfigError: for a formula that is not finite everywhere, or a diffusivity that is negative somewhere.
        DataError: for a file that cannot be read, does not hold the variable, or does not cover grid and run.
    """
    given = {key: getattr(section, key) for key in ("initial", "diffusivity", "source", "flux", "outside")}
    fields: dict[str, Any] = {key: _values(value, grid, run, key) for key, value in given.items() if value is not None}
    names = {key: getattr(section, key) for key in ("name", "units", "long_name", "layer")}
    return Tracer(**names, scheme=_scheme(section), **fields)


def _scheme(section):
    if section.scheme == "centred":
        return Centred()
    return FluxLimited() if section.limiter is None else FluxLimited(LIMITERS[section.limiter]())


def _values(value, grid, run, key):
    """The value of a key in the form of the constructor: numbers, arrays, or records of a file."""
    if not isinstance(value, FieldFile):
        return on_grid(value, grid, "h", key)
    from ...grids.regrid import field_records, read_field_onto

    read = read_field_onto if is_evaluated_whole(grid) else field_records
    if not isinstance(value, FieldRecord):
        records = read(value.file, value.variable, grid, "h", run.start, (0.0, run.until))
        return records.values[0] if len(records.times) == 1 else records
    records = read(value.file, value.variable, grid, "h").values
    if not -len(records) <= value.record < len(records):
        raise DataError(f"{value.file} has {len(records)} records; {value.record} is not among them")
    return records[value.record]
