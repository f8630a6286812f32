"""`swmodel forecast`: waves with error bars from records as far as they have come."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import math
import time as clock
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from ..config.quantities import quantity_of_option
from ..errors import ConfigError, SwmodelError
from ..observed.folder import read_folder
from ..output import replacing
from ..output.collisions import check_apart
from ..runtime.signals import PROCESS
from ..simulation.progress import duration
from . import facts, file_commands, logs

if TYPE_CHECKING:
    from ..forecast import Bank, Errors

__all__ = ["Options", "forecast_waves", "print_hazard", "rank_buoys"]

SHOWN = 10  # candidates that are printed
PAUSE = 1.0  # [s] between two looks at the folder of records


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of the command."""

    observations: str | None
    until: str | None
    begin: str
    start: str | None
    points: tuple[str, ...]
    without: tuple[str, ...]
    threshold: str
    rises: bool
    follow: bool
    output: str
    plot: bool


def forecast_waves(path: str, options: Options) -> None:
    """Forecast the waves at points of the bank `path`; print, write and draw them."""
    from ..forecast import Errors

    if options.observations is None:
        raise ConfigError("--observations DIR is missing: the folder with the records, one file a gauge.")
    if Path(options.output).resolve().parent == Path(options.observations).resolve():
        raise ConfigError(f"--output {options.output} lies in the folder of the records; write it to another one.")
    bank = _bank_for(path, options.output, options.plot, [("--observations", Path(options.observations))])
    if bank is None:
        return
    bank.rows([*options.points, *options.without])  # which it has
    if "error_of_a_run" not in bank.about:
        raise ConfigError(f"{path} has not been compared with a run; complete it by swmodel green --resume.")
    begin = quantity_of_option("--begin", options.begin, "s")
    errors = Errors(begin=begin, rises=options.rises or None)
    seen = None
    while True:
        now = _stamps(options.observations)
        if now != seen:
            try:
                _forecast(bank, errors, options)
            except SwmodelError as error:
                if seen is None or not options.follow:
                    raise
                logs.LOGGER.warning("%s The last forecast stays until a record changes.", error)
            seen = now
        if not options.follow:
            return
        clock.sleep(PAUSE)


def _stamps(folder):
    """What changes when a record of a folder grows."""
    found = {}
    for each in Path(folder).glob("*"):
        with contextlib.suppress(FileNotFoundError):  # renamed or removed since it was listed
            found[each.name] = each.stat().st_mtime_ns, each.stat().st_size
    return found


def _bank_for(path: str, output: str | None, is_drawn: bool, inputs: Sequence[tuple[str, Path]] = ()) -> Bank | None:
    """The bank at `path`, on the root; None on other ranks, since its commands run and write their files once.

    Raises:
        ConfigError: for an output, or its figure, that would replace the bank or one of `inputs`, (option, path).
    """
    from ..forecast import Bank

    if PROCESS.rank:
        return None
    logs.start(root=True)
    if is_drawn:
        file_commands.require()
    outputs = [] if output is None else [("--output", Path(output))]
    outputs += [("--plot", file.with_suffix(".png")) for _, file in outputs if is_drawn and file.suffix != ".png"]
    check_apart(outputs, [("the bank", Path(path)), *inputs])
    return Bank.read(path)


def records_for(
    bank: Bank, folder: str, start: str | None = None, without: Sequence[str] = ()
) -> dict[str, xr.DataArray]:
    """{point: level over time} of the points that have a record in a folder.

    Args:
        start: date and time of the earthquake in UTC; that of the bank's experiment unless given.
        without: points whose records are not read.

    Raises:
        ConfigError: if it is none.
        DataError: as for `read_folder`.
    """
    date = start or bank.about.get("start")
    try:
        moment = None if date is None else datetime.datetime.fromisoformat(date)
    except ValueError:
        raise ConfigError(f"--start {date} is no date and time in UTC; give one as in 2011-03-11T05:46:23.") from None
    records = read_folder(folder, [name for name in bank.places if name not in without], moment, without)
    for each in records.values():
        logs.LOGGER.info("%s", each)
    return {name: xr.DataArray(each.value, {"time": each.time}, ("time",)) for name, each in records.items()}


def _forecast(bank: Bank, errors: Errors, options: Options):
    until = None if options.until is None else quantity_of_option("--until", options.until, "s")
    threshold = quantity_of_option("--threshold", options.threshold, "m")
    records = records_for(bank, str(options.observations), options.start, options.without)
    points = list(options.points or bank.places)
    begun = clock.perf_counter()
    posterior = bank.posterior(records, until, errors)
    took, say = clock.perf_counter() - begun, logs.LOGGER.info
    scales, used = posterior.scales, ", ".join(f"{name} {count}" for name, count in posterior.used.items())
    lines = [
        ("records", f"until {duration(posterior.until)}, samples: {used or 'none'}"),
        ("sources", f"{scales.deviation:.3g} m, correlated over {scales.length / 1e3:.3g} km"),
        ("model error", f"{100 * scales.model:.3g} % of the wave; spread times {posterior.inflation:.3g}"),
        ("took", f"{took:.2g} s"),
    ]
    say("%s", facts.table(lines))
    for remark in posterior.remarks:
        logs.LOGGER.warning("%s", remark)
    harbours = posterior.harbours(points, threshold)
    say("%s", _table(points, harbours, posterior.scores(records)))
    whole = xr.merge([posterior.predict(points), posterior.sources(), _prefixed(harbours)])
    whole.attrs |= {"swmodel_kind": "forecast", "until": posterior.until, "bank": bank.about.get("model", "")}
    with replacing(options.output) as part:
        whole.to_netcdf(part)
    say("file:\n  %s", options.output)
    if options.plot:
        from ..postprocess.forecast import figure

        say("figure: %s", figure(posterior, records, points, Path(options.output).with_suffix(".png")))


def _prefixed(harbours):
    return harbours.rename({"height": "wave_height", "arrival": "wave_arrival", "reached": "wave_reached"})


def _table(points: list[str], harbours: xr.Dataset, scores: xr.Dataset) -> str:
    """Height and arrival at each point, and how the forecast holds for samples that were not used."""
    rows = [f"{'':16s}{'highest level [m]':>26s}{'arrival [min]':>24s}{'reached':>9s}{'in 90 % band':>14s}"]
    for k, name in enumerate(points):
        low, middle, high = harbours["height"].values[:, k]
        times = harbours["arrival"].values[:, k] / 60.0
        arrival = "none" if math.isnan(times[1]) else f"{times[1]:.0f} ({times[0]:.0f} to {times[2]:.0f})"
        inside = f"{100 * float(scores['inside'].sel(point=name)):.0f} %" if name in scores.point.values else ""
        reached = f"{100 * float(np.asarray(harbours['reached'])[k]):.0f} %"
        level = f"{middle:.2f} ({low:.2f} to {high:.2f})"
        rows.append(f"{name:16s}{level:>26s}{arrival:>24s}{reached:>9s}{inside:>14s}")
    return "\n".join(rows)


def rank_buoys(path: str, harbours: list[str], gauges: list[str], until: str | None, output: str | None) -> None:
    """Print the candidates of the bank `path` that would narrow the forecast of harbours most, and draw all."""
    from ..forecast import next_buoy

    bank = _bank_for(path, output, output is not None)
    if bank is None:
        return
    last = None if until is None else quantity_of_option("--until", until, "s")
    found = next_buoy(bank, harbours, gauges, last)
    with_gauges = f", {found.attrs['with_gauges']:.3g} m with {', '.join(gauges)}" if gauges else ""
    logs.LOGGER.info("spread of %s: %.3g m%s", ", ".join(harbours), found.attrs["without_records"], with_gauges)
    for name, gain, x, y in zip(*(found[key].values[:SHOWN] for key in ("point", "gain", "x", "y"))):
        logs.LOGGER.info("  %-16s at (%g, %g) removes %.3g %% of its variance", name, x, y, 100 * gain)
    if output is not None:
        from ..postprocess.forecast import map_of_gains

        places = {name: bank.places[name] for name in (*harbours, *gauges)}
        logs.LOGGER.info("figure: %s", map_of_gains(found, places, output))


def print_hazard(
    path: str, rate: float | None, magnitudes: str, b: float, count: int, seed: int, output: str, plot: bool
) -> None:
    """Print the hazard of the points of the bank `path`, write and draw it."""
    from ..forecast import Earthquakes, hazard_curves

    if rate is None:
        raise ConfigError(
            "--rate PER_YEAR is missing: how many earthquakes over the lower magnitude there are in a year."
        )
    try:
        low, high = (float(part) for part in magnitudes.split(","))
    except ValueError:
        raise ConfigError(f"--magnitudes {magnitudes}: give two numbers, as 7.5,9.") from None
    bank, begun = _bank_for(path, output, plot), clock.perf_counter()
    if bank is None:
        return
    found = hazard_curves(bank, Earthquakes(rate, (low, high), b), count, seed)
    logs.LOGGER.info("%s scenarios took %s", f"{count:,}", duration(clock.perf_counter() - begun))
    periods = [k for k, period in enumerate(found["period"].values) if period >= 50]
    years = "".join(f"{f'{found.period.values[k]:g} years':>24s}" for k in periods)
    logs.LOGGER.info("%s", f"{'level [m] once in':16s}{years}")
    for j, name in enumerate(found["point"].values):
        cells = []
        for k in periods:
            least, middle, most = found["height"].values[:, j, k]
            text = "" if math.isnan(middle) else f"{middle:.2f} ({least:.2f} to {most:.2f})"
            cells.append(f"{text:>24s}")
        logs.LOGGER.info("%s", f"{name:16s}{''.join(cells)}")
    found.attrs = {"swmodel_kind": "hazard", "rate": rate, "magnitudes": magnitudes, "b": b, "seed": seed}
    with replacing(output) as part:
        found.to_netcdf(part)
    logs.LOGGER.info("file:\n  %s", output)
    if plot:
        from ..postprocess.forecast import hazard_figure

        logs.LOGGER.info("figure: %s", hazard_figure(found, Path(output).with_suffix(".png")))
