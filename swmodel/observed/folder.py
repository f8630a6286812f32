"""The records of gauges in a folder: one reader for scores, misfits, inversions, figures and `check`.

A file is a table with time_s and elevation_m (grids/observed_tables.py), or what a provider of gauges writes
(levels.py). `records.toml` in the folder declares what is done to the records (steps.py).
"""

import dataclasses
import datetime
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from ..errors import DataError
from ..fields.parameters import in_utc
from ..grids.observed_tables import ELEVATION, TIME, checked, gauge_files, read_series
from ..runtime.formats import check_format
from .levels import METRES, READERS, Levels, read_levels
from .steps import FILE, Steps, steps_in

PLAIN = "a table with time_s and elevation_m"
WANTED = "levels of CO-OPS, IOC, DART or UHSLC, or a CSV or netCDF file of observations"


@dataclasses.dataclass(frozen=True, eq=False)
class GaugeRecord:
    """The record of a gauge, after its steps.

    Attributes:
        path: of the file.
        time: since the start of the run, increasing [s] (n,).
        value: level [m] (n,); NaN is a gap.
        remarks: what was read and assumed, and what each step did, each in words.
    """

    path: Path
    time: np.ndarray
    value: np.ndarray
    remarks: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.path.name}: {'; '.join(self.remarks)}"


def read_folder(
    folder: str | Path,
    names: Iterable[str],
    start: datetime.datetime | None = None,
    others: Iterable[str] = (),
) -> dict[str, GaugeRecord]:
    """{gauge: GaugeRecord} of the gauges `names` that have a file in `folder`.

    Args:
        folder: the folder.
        names: of the gauges.
        start: date and time of step 0 of the run, from which dates count.
        others: further gauges, to which files may belong.

    Raises:
        DataError: for files that cannot be assigned or read, and for steps of gauges that there are not.
    """
    names, others = list(names), list(others)
    common, own = steps_in(folder)
    if unknown := [name for name in own if name not in {*names, *others}]:
        raise DataError(f"{Path(folder, FILE)}: there is no gauge {unknown[0]!r}; there are {', '.join(names)}.")
    named = {name: Path(folder, own[name].file) for name in names if name in own and own[name].file}
    rest = [name for name in names if name not in named]
    files: Mapping[str, Path] = {}
    if rest:
        files = gauge_files(folder, rest, others, taken=named.values())
    return {
        name: read_gauge(named.get(name) or files[name], start, own.get(name, common))
        for name in names
        if name in named or name in files
    }


def read_gauge(
    path: str | Path,
    start: datetime.datetime | None = None,
    steps: Steps = Steps(),  # noqa: B008
) -> GaugeRecord:
    """The GaugeRecord of a file in any of the formats.

    Args:
        path: of the file.
        start: date and time of step 0 of the run, from which dates count.
        steps: what is done to the record.

    Raises:
        DataError: for a file in another format, or damaged; for dates in a run without them; and for values that no
            sea has.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"there is no file {path}; correct its name in {FILE}, or add it.")
    kind = check_format(path, (*READERS, "netcdf", "text"), WANTED, "gauge")
    if kind in READERS:
        levels = read_levels(kind, path, steps.sensor)
        columns, assumed = _columns(path, levels, start, steps)
    else:
        if other := [key for key in ("sensor", "zone", "unit") if getattr(steps, key)]:
            raise DataError(f"{path} is {PLAIN}, of which {FILE} gives the {other[0]}; leave that out.")
        time, value = read_series(path, (ELEVATION,), start)
        columns, assumed = {TIME: time, ELEVATION: value}, (PLAIN,)
    time, value = columns[TIME], columns[ELEVATION]
    value, more = steps.applied(str(path), time, value)
    return GaugeRecord(path, time, value, (*assumed, f"{np.isfinite(value).sum():,} samples", *more))


def _columns(path, levels: Levels, start, steps):
    """({TIME: s, ELEVATION: m} in the order of time, what was assumed)."""
    if start is None:
        raise DataError(f"{path} has dates, and the run has none; give run.start.")
    if levels.unit and steps.unit not in ("", levels.unit):
        raise DataError(f"{path} is in {levels.unit}, and {FILE} has {steps.unit}; leave unit out.")
    unit, zone = levels.unit or steps.unit or "m", "" if levels.zone else steps.zone
    origin = in_utc(datetime.datetime.fromisoformat(f"{in_utc(start).isoformat()}{zone}")) if zone else in_utc(start)
    shift = (in_utc(start) - origin).total_seconds()
    seconds = (levels.moments - np.datetime64(in_utc(start), "ms")) / np.timedelta64(1, "ms") / 1e3 - shift
    columns = checked(path, {TIME: seconds, ELEVATION: METRES[unit] * levels.value})
    order = np.argsort(columns[TIME], kind="stable")
    assumed = (
        f"{levels.words} in {unit}{'' if levels.unit or steps.unit else ' (assumed)'}",
        f"dates in {levels.zone or zone or 'UTC (assumed)'}",
        f"above {levels.datum}",
        *levels.notes,
    )
    return {name: values[order] for name, values in columns.items()}, assumed
