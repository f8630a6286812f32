"""The records of gauges in a folder: one reader for scores, misfits, inversions, figures and `check`.

A file is a table with time_s and elevation_m (grids/observed_tables.py), or what a provider of gauges writes
(levels.py). `records.toml` in the folder declares what is done to the records:

    zone = "+09:00"             # of dates in files that do not state it; UTC unless given
    unit = "ft"                 # of levels, where the file does not state it; m unless given
    spikes = 0.2                # [m]
    detide = true               # or constituents, as ["M2", "K1"]
    datum = "mean"              # or "median", or a number [m]

    [gauges."Galveston Pier 21"]  # of one gauge, in place of those above
    file = "CO-OPS_8771450_met.csv"
    detide = false
    datum = 0.35

These steps are applied in this order:

    spikes    a sample further than this from the median of itself and its NEIGHBOURS is left out
    detide    eta - (a + b t + sum_k c_k cos(omega_k t) + d_k sin(omega_k t)), fitted by least squares to all samples
    datum     the level of the record that is the zero of the model is subtracted; after detide, whose fit includes the
              mean, it cannot be a number
"""

import dataclasses
import datetime
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from ..fields.parameters import in_utc
from ..forcing.constituents import distinct, periods
from ..grids.observed_tables import ELEVATION, TIME, checked, gap_codes, gauge_files, read_series
from ..runtime.formats import check_format, is_date
from .levels import METRES, READERS, Levels, read_levels

FILE = "records.toml"
TIDES = "M2", "S2", "N2", "K1", "O1", "Q1", "M4"
NEIGHBOURS = 5  # on either side
UTC = "", "Z", "+00:00", "-00:00"
SHORTEST = 43200.0  # [s] of a record from which tides can be fitted
PLAIN = "a table with time_s and elevation_m"
WANTED = "levels of CO-OPS, IOC, DART or UHSLC, or a CSV or netCDF file of observations"


@dataclasses.dataclass(frozen=True)
class Steps:
    """What is done to a record.

    Attributes:
        file: its name in the folder; "" to find it by the name of the gauge.
        sensor: which one of a file with several.
        zone: of dates that have none, as "+09:00"; "" is UTC.
        unit: of levels, where the file does not state it; "" is m.
        spikes: [m]; None leaves them.
        detide: constituents to be subtracted.
        datum: "mean", "median", or the level [m] that is the model's zero.
    """

    file: str = ""
    sensor: str = ""
    zone: str = ""
    unit: str = ""
    spikes: float | None = None
    detide: tuple[str, ...] = ()
    datum: float | str = 0.0

    def applied(self, who: str, time: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
        """(levels [m] (n,), what each step did in words) of a record.

        Args:
            who: the file, for messages.
            time: [s] (n,), increasing.
            value: levels [m] (n,); NaN is a gap.
        """
        effects = []
        if not np.isfinite(value).any():
            return value, ("no sample has a level",)
        if self.spikes is not None:
            spiky = np.abs(value - _median(value)) > self.spikes
            value = np.where(spiky, np.nan, value)
            effects.append(f"{spiky.sum():,} spikes of more than {self.spikes:g} m left out")
        if self.detide:
            tide = _tide(who, time, value, self.detide)
            with_tide, value = float(np.nanstd(value)), value - tide
            change = f"standard deviation from {with_tide:.3g} to {np.nanstd(value):.3g} m"
            effects.append(f"tide of {', '.join(self.detide)} and a line in time subtracted, {change}")
        if self.datum != 0.0:
            level = {"mean": np.nanmean, "median": np.nanmedian}.get(str(self.datum))
            zero = float(level(value)) if level is not None else float(self.datum)
            value = value - zero
            effects.append(f"datum: {f'the {self.datum} of ' if level is not None else ''}{zero:.3f} m subtracted")
        return value, tuple(effects)


def _median(value):
    """The median of each sample and its neighbours (n,); NaN where all are."""
    padded = np.pad(value, NEIGHBOURS, constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * NEIGHBOURS + 1)
    median = np.full(value.shape, np.nan)
    some = np.isfinite(windows).any(axis=1)
    median[some] = np.nanmedian(windows[some], axis=1)
    return median


def _tide(who, time, value, names):
    """The fitted tide, mean and trend at `time` [m] (n,)."""
    fits = np.isfinite(value)
    span = float(np.ptp(time[fits])) if fits.any() else 0.0
    if span < SHORTEST:
        raise DataError(
            f"{who} spans {span / 3600:.3g} h, and the fit of a tide needs {SHORTEST / 3600:g} h; leave detide out."
        )
    scaled = (time - time[fits].mean()) / span
    phase = 2 * np.pi * span * scaled[:, None] / periods(names)
    matrix = np.column_stack([np.ones(time.size), scaled, np.cos(phase), np.sin(phase)])
    # Constituents that the record is too short to separate share the tide: the solution of least norm.
    coefficients, *_ = np.linalg.lstsq(matrix[fits], value[fits], rcond=1e-6)
    return matrix @ coefficients


def steps_in(folder: str | Path) -> tuple[Steps, dict[str, Steps]]:
    """(the Steps of all gauges, {gauge: Steps} of those with their own) that a folder declares.

    Raises:
        DataError: for a file that is no TOML, and for keys and values that are not these.
    """
    path = Path(folder, FILE)
    if not path.is_file():
        return Steps(), {}
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise DataError(f"{path} cannot be read as TOML ({error}); correct this line.") from None
    gauges = table.pop("gauges", {})
    if not isinstance(gauges, dict) or not all(isinstance(each, dict) for each in gauges.values()):
        raise DataError(f'{path}: gauges is no table of tables; write [gauges."NAME"].')
    if "file" in table:
        raise DataError(f'{path}: file belongs to one gauge; write it below [gauges."NAME"].')
    common = _steps(str(path), table)
    return common, {name: _steps(f"{path}, {name}", table | own) for name, own in gauges.items()}


def _steps(who, table: Mapping[str, Any]) -> Steps:
    names = [field.name for field in dataclasses.fields(Steps)]
    if unknown := [key for key in table if key not in names]:
        raise DataError(f"{who}: there is no key {unknown[0]!r}; there are {', '.join(names)}.")
    table = dict(table)
    detide = table.get("detide", False)
    if isinstance(detide, bool):
        table["detide"] = TIDES if detide else ()
    elif isinstance(detide, list) and all(isinstance(name, str) for name in detide):
        table["detide"] = distinct(detide)
    else:
        raise DataError(f"{who}: detide = {detide!r}; write true, or constituents as ['M2', 'K1'].")
    for key in ("file", "sensor", "zone", "unit"):
        if not isinstance(table.get(key, ""), str):
            raise DataError(f"{who}: {key} = {table[key]!r} is no text; write it in quotes.")
    spikes, datum = table.get("spikes", 1.0), table.get("datum", 0.0)
    if isinstance(spikes, bool) or not isinstance(spikes, (int, float)) or not 0 < spikes < np.inf:
        raise DataError(f"{who}: spikes = {spikes!r} is not a positive number of metres; write 0.2 for 20 cm.")
    if datum not in ("mean", "median") and (isinstance(datum, (bool, str)) or not np.isfinite(datum)):
        raise DataError(f"{who}: datum = {datum!r}; write 'mean', 'median', or a number of metres.")
    if table["detide"] and not isinstance(datum, str) and datum != 0.0:
        raise DataError(
            f"{who}: detide subtracts the mean, too, and datum = {datum!r} would shift what is left; leave one of them "
            "out, or write detide = false for this gauge."
        )
    if table.get("unit", "m") not in METRES:
        raise DataError(f"{who}: unit = {table['unit']!r}; write one of {', '.join(METRES)}.")
    if not is_date(f"2000-01-01T00:00{table.get('zone', '')}"):
        raise DataError(f"{who}: zone = {table['zone']!r}; write hours and minutes as '+09:00'.")
    return Steps(**table)


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
    refused: dict[str, str] | None = None,
) -> dict[str, GaugeRecord]:
    """{gauge: GaugeRecord} of the gauges `names` that have a file in `folder`.

    Args:
        folder: the folder.
        names: of the gauges.
        start: date and time of step 0 of the run, from which dates count.
        others: further gauges, to which files may belong.
        refused: where {gauge: why} of records that cannot be read is entered; None raises the first of these errors.

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
    records = {}
    for name in (name for name in names if name in named or name in files):
        try:
            records[name] = read_gauge(named.get(name) or files[name], start, own.get(name, common))
        except DataError as error:
            if refused is None:
                raise
            refused[name] = str(error)
    return records


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
    if levels.zone and steps.zone not in UTC:
        raise DataError(
            f"{path} has dates in {levels.zone}, and {FILE} has the zone {steps.zone}; leave zone out, or give it to "
            "the gauges whose files need it."
        )
    unit, zone = levels.unit or steps.unit or "m", "" if levels.zone else steps.zone
    origin = in_utc(datetime.datetime.fromisoformat(f"{in_utc(start).isoformat()}{zone}")) if zone else in_utc(start)
    shift = (in_utc(start) - origin).total_seconds()
    seconds = (levels.moments - np.datetime64(in_utc(start), "ms")) / np.timedelta64(1, "ms") / 1e3 - shift
    codes = gap_codes(levels.value, METRES[unit])
    numbers = ", ".join(f"{x:g}" for x in np.unique(levels.value[codes]))
    left_out = (f"{codes.sum():,} samples of {numbers}, which stand for gaps, left out",) if codes.any() else ()
    columns = checked(path, {TIME: seconds, ELEVATION: METRES[unit] * np.where(codes, np.nan, levels.value)})
    order = np.argsort(columns[TIME], kind="stable")
    assumed = (
        f"{levels.words} in {unit}{'' if levels.unit or steps.unit else ' (assumed)'}",
        f"dates in {levels.zone or zone or 'UTC (assumed)'}",
        f"above {levels.datum}",
        *levels.notes,
        *left_out,
    )
    return {name: values[order] for name, values in columns.items()}, assumed
