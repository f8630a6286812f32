"""Tables of faults.

A table is a CSV file, one row a fault, or a TOML file with a `[[fault]]` each and, above them, what all faults share.
Columns are named as the arguments of `Fault`, with their unit: `longitude [degrees]`, `depth [km]`, `slip [m]`,
`onset [min]`, ...; `reference`, one of REFERENCES and the same for all, and `name`, by which messages and `slips` call
a fault, have none. `slip_1 [m]`, `slip_2 [m]`, ... in place of `slip [m]` are successive windows, each `rise_time`
long, the first from `onset`. In CSV files, what follows a # is a comment.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import ConfigError, DataError, suggestion
from ..fields.parts import numbers_of
from ..fields.state import replace
from ..runtime.formats import check_format, read_csv
from .fault import Fault, Source, si_units, to_si
from .slip_models import NEEDED, READERS, read_slip_model

NUMBERS = numbers_of(Fault)
MOST_SLIP = 150.0  # [m] in a published slip model; the largest ones have about 80 m


def read_source(path: str | os.PathLike, slips: Mapping[str, float] | None = None, **options: Any) -> Source:
    """Source from a slip model of SRCMOD, the USGS or GeoClaw, unit sources, or a table (the format is above).

    Args:
        path: of the file.
        slips: {name: slip [m]} of the faults that are used, of a file in which they have names, such as the unit
            sources of SIFT; all with their own slip unless given.
        options: poisson_ratio and projection of the Source.

    Raises:
        DataError: every mistake at once, with file, row and column.
    """
    path = os.fspath(path)
    form = check_format(path, ("text", *READERS), "a slip model, or a CSV or TOML table of faults", "faults")
    if form in READERS:
        return _published(path, read_slip_model(form, path), slips, options)
    try:
        rows = (_toml_rows if path.endswith(".toml") else _csv_rows)(path)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"{path} cannot be read as a table of faults: {error}.") from None
    if not rows:
        raise DataError(f"{path} holds no faults; give a row (CSV) or a [[fault]] (TOML) for each.")
    mistakes: list[str] = []
    columns = _columns(rows, mistakes)
    if not mistakes:
        columns, names = _numbers(rows, columns, mistakes)
    if not mistakes:
        try:
            fault = _fault(columns, {str(row.get("reference", "centroid")).strip() for row in rows})
            if slips is not None:
                called = [str(row.get("name", "")) for row in rows]
                fault = _combined(fault, called, slips)
                names = [names[called.index(name)] for name in slips]
            return Source([fault], **options)
        except ConfigError as error:
            mistakes = [_with_names(text, names) for text in error.mistakes]
    raise DataError([f"{path}: {text}" for text in mistakes])


def _published(path, model, slips, options):
    """The Source of a SlipModel, with the file's name in messages."""
    if (largest := float(np.max(model.columns["slip"], initial=0.0))) > MOST_SLIP:
        raise DataError(
            f"{path} has a slip of {largest:g} m, which no earthquake has, if its numbers are as documented "
            f"({model.assumed}); convert them."
        )
    try:
        fault = Fault(**model.columns, reference=model.reference)
        if slips is not None:
            fault = _combined(fault, model.names, slips)
        return Source([fault], assumed=model.assumed, **options)
    except ConfigError as error:
        raise DataError([f"{path}: {text.removeprefix('Source: ')}" for text in error.mistakes]) from None


def _combined(fault, names, slips):
    """The faults of the names in `slips` [m]; raises ConfigError for a name that none or several have."""
    rows = {name: k for k, name in enumerate(names) if name}
    if unknown := [name for name in slips if name not in rows]:
        hint = suggestion(unknown[0], rows, f"it has {', '.join([*rows][:4]) or 'none with a name'}")
        raise ConfigError(f"the file has no fault {unknown[0]!r}; {hint}")
    if repeated := [name for name in slips if names.count(name) > 1]:
        count = names.count(repeated[0])
        raise ConfigError(f"the file has {count} faults {repeated[0]!r}; give each a name of its own")
    at = [rows[name] for name in slips]
    slip = np.array([*slips.values()], float)
    leaves = {name: np.asarray(getattr(fault, name)) for name in NUMBERS}
    picked = {name: x[at] if x.ndim else x for name, x in leaves.items()}
    if picked["slip"].ndim == 2:  # windows keep their shares
        shares = picked["slip"] / np.maximum(picked["slip"].sum(axis=1, keepdims=True), np.finfo(float).tiny)
        return replace(fault, **picked | {"slip": shares * slip[:, None]})
    return replace(fault, **picked | {"slip": slip})


def _csv_rows(path):
    table = read_csv(path, inline_comments=True)
    return [row | {"": f"line {line}"} for line, row in zip(table.lines, table.rows)]


def _toml_rows(path):
    with open(path, "rb") as file:
        shared = tomllib.load(file)
    faults = shared.pop("fault", [])
    return [shared | fault | {"": f"[[fault]] {number}"} for number, fault in enumerate(faults, 1)]


def _columns(rows: list[dict[str, str]], mistakes: list[str]) -> dict[str, tuple[str, float]]:
    """{header: (field, factor)} of the columns with numbers; mistakes go to `mistakes`."""
    columns = {}
    for header in dict.fromkeys(name for row in rows for name in row if name not in ("", "name", "reference")):
        match = re.fullmatch(r"(\w+?)(_\d+)?\s*(?:\[(.+)\])?", header)
        field, window, unit = match.groups() if match else (header, None, None)
        if field not in NUMBERS or (window and field != "slip"):
            near = difflib.get_close_matches(field, [*NUMBERS, "name", "reference"], 1, 0.0)[0]
            mistakes.append(f"column {header!r} is unknown; the nearest valid name is {near!r}.")
        elif (factor := to_si(field, unit or "")) is None:
            mistakes.append(f"column {header!r} needs a unit, as '{field} [{si_units(field)[0]}]'.")
        else:
            columns[header] = (field + (window or ""), factor)
    fields = [re.sub(r"_\d+$", "", field) for field, _ in columns.values()]
    mistakes += [f"the column {field!r} is missing." for field in NEEDED if field not in fields and not mistakes]
    fields = [field for field, _ in columns.values()]
    mistakes += [f"the column {field!r} is there twice." for field in sorted(set(fields)) if fields.count(field) > 1]
    return columns


def _numbers(rows, columns, mistakes):
    """{field: (faults,) in SI units} and the names of the faults."""
    names = [f"{row['']} ({row['name']})" if row.get("name") else row[""] for row in rows]
    values = {field: np.full(len(rows), np.nan) for field, _ in columns.values()}
    for i, row in enumerate(rows):
        for header, (field, factor) in columns.items():
            try:
                values[field][i] = float(row[header]) * factor
            except (KeyError, TypeError, ValueError):
                mistakes.append(f"{names[i]}: {header} = {row.get(header)!r} is not a number; give one.")
    return values, names


def _fault(columns, references):
    """One stacked Fault; windows follow one another, each a rise time long."""
    if len(references) > 1:
        raise ConfigError(f"the reference points differ ({', '.join(sorted(references))}); give all the same one.")
    windows = sorted((field for field in columns if field.startswith("slip")), key=lambda name: (len(name), name))
    slip = np.stack([columns.pop(name) for name in windows], axis=1)
    rise_time = columns.pop("rise_time", np.zeros(len(slip)))[:, None]
    onset = columns.pop("onset", np.zeros(len(slip)))[:, None] + np.arange(len(windows)) * rise_time
    return Fault(**columns, slip=slip, onset=onset, rise_time=rise_time, reference=references.pop())


def _with_names(text, names):
    """Source's sentence, with the row in the file for the number of the fault."""
    text = text.removeprefix("Source: ")
    match = re.match(r"fault (\d+): ", text)
    return f"{names[int(match[1]) - 1]}: {text[match.end() :]}" if match else text
