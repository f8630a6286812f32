"""`swmodel forecast`: waves with error bars from records as far as they have come."""

from __future__ import annotations

import contextlib
import datetime
import math
import time as clock
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from ..errors import ConfigError, SwmodelError
from ..fields.parameters import quantity_of_option
from ..grids.observed_tables import ENDS
from ..observed.folder import read_folder
from ..output import replacing
from ..runtime.paths import check_apart
from ..runtime.signals import PROCESS
from ..units import duration
from . import facts, files, logs
from .options import Forecast, Hazard

if TYPE_CHECKING:
    from ..forecast import Bank, Errors

CROWDED = 1.1  # area of a rupture over that of all faults, from which a warning is given
SHOWN = 10  # candidates that are printed
PLACES = 12  # of the slider of a page
DRAWS = 64  # of the sources, in the file of a forecast
PAUSE = 1.0  # [s] between two looks at the folder of records


def forecast_waves(path: str, options: Forecast) -> None:
    """Forecast the waves at points of the bank `path`; print, write and draw them."""
    from ..forecast import Errors

    if options.observations is None:
        raise ConfigError("--observations DIR is missing: the folder with the records, one file a gauge.")
    if Path(options.output).resolve().parent == Path(options.observations).resolve():
        raise ConfigError(f"--output {options.output} lies in the folder of the records; write it to another one.")
    inputs = [("--observations", Path(options.observations))]
    bank = _bank_for(path, options.output, options.plot, options.page, inputs)
    if bank is None:
        return
    bank.rows([*(options.point or ()), *(options.without or ())])  # which it has
    if "error_of_a_run" not in bank.about:
        raise ConfigError(f"{path} has not been compared with a run; complete it by swmodel green --resume.")
    bank = _ruptured(bank, options)
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


def _ruptured(bank, options):
    """The bank of sources that do not rise all at once, where --rise-time or --velocity is given."""
    rise_time = quantity_of_option("--rise-time", options.rise_time, "s")
    if options.velocity is None:
        if options.epicentre is not None:
            raise ConfigError("--epicentre needs --velocity: how fast the rupture spreads, as '2.5 km/s'.")
        return bank.ruptured(bank.centres[0], rise_time=rise_time) if rise_time else bank
    try:
        x, y = (float(part) for part in (options.epicentre or "").split(","))
    except ValueError:
        raise ConfigError("--velocity needs --epicentre X,Y: where the rupture began, as 142.4,38.3.") from None
    return bank.ruptured((x, y), quantity_of_option("--velocity", options.velocity, "m s-1"), rise_time)


def _stamps(folder):
    """What changes when a record of a folder grows."""
    found = {}
    for each in Path(folder).glob("*"):
        with contextlib.suppress(FileNotFoundError):  # renamed or removed since it was listed
            found[each.name] = each.stat().st_mtime_ns, each.stat().st_size
    return found


def _bank_for(
    path: str, output: str | None, plot: bool = False, page: bool = False, inputs: Sequence[tuple[str, Path]] = ()
) -> Bank | None:
    """The bank at `path`, on the root; None on other ranks, since its commands run and write their files once.

    Args:
        plot, page: whether there are a figure and a page, named after the output.
        inputs: (option, path).

    Raises:
        ConfigError: for an output, its figure or page, that would replace the bank or one of `inputs`.
    """
    from ..forecast import Bank

    if PROCESS.rank:
        return None
    logs.start(root=True)
    outputs = [] if output is None else [("--output", Path(output))]
    for is_drawn, option, suffix in ((plot, "--plot", ".png"), (page, "--page", ".html")):
        if is_drawn:
            files.require(option, f", or leave {option} out")
            outputs += [(option, file.with_suffix(suffix)) for _, file in outputs[:1]]
    check_apart(outputs, [("the bank", Path(path)), *inputs])
    return Bank.read(path)


def records_for(
    bank: Bank, folder: str, start: str | None = None, without: Sequence[str] = ()
) -> dict[str, xr.DataArray]:
    """{point: level over time} of the points that have a record in a folder; one that is damaged is left out.

    Args:
        start: date and time of the earthquake in UTC; that of the bank's experiment unless given.
        without: points whose records are not read.

    Raises:
        ConfigError: if it is none.
        DataError: as for `read_folder`, and if all records are damaged.
    """
    date = start or bank.about.get("start")
    try:
        moment = None if date is None else datetime.datetime.fromisoformat(date)
    except ValueError:
        raise ConfigError(f"--start {date} is no date and time in UTC; give one as in 2011-03-11T05:46:23.") from None
    refused: dict[str, str] = {}
    records = read_folder(folder, [name for name in bank.places if name not in without], moment, without, refused)
    _leave_out(refused, records)
    for each in records.values():
        logs.LOGGER.info("%s", each)
    read = {*(each.path.name for each in records.values()), *without, *refused}
    if left := sorted(
        path.name
        for path in Path(folder).iterdir()
        if path.suffix.lower() in ENDS and not {path.name, path.stem} & read
    ):
        names = ", ".join(bank.places)
        logs.LOGGER.warning("%s is of no point of the bank and is not used; the points are %s.", ", ".join(left), names)
    return {name: xr.DataArray(each.value, {"time": each.time}, ("time",)) for name, each in records.items()}


def _leave_out(refused, records):
    """Warn of records {name: why} that do not count; raises ConfigError with all of them if no other is left."""
    if refused and not records:
        raise ConfigError([*refused.values()])
    for name, why in refused.items():
        logs.LOGGER.warning("The record of %s is left out: %s", name, why)


def _forecast(bank: Bank, errors: Errors, options: Forecast):
    from ..forecast.bank import RUPTURE

    until = None if options.until is None else quantity_of_option("--until", options.until, "s")
    threshold = quantity_of_option("--threshold", options.threshold, "m")
    records = records_for(bank, str(options.observations), options.start, options.without or ())
    records, refused = bank.usable(records, until, errors)
    _leave_out(refused, records)
    points = list(options.point or bank.places)
    begun = clock.perf_counter()
    posterior = bank.posterior(records, until, errors)
    took, say = clock.perf_counter() - begun, logs.LOGGER.info
    scales, used = posterior.scales, ", ".join(f"{name} {count}" for name, count in posterior.used.items())
    lines = [
        ("records", f"until {duration(posterior.until)}, samples: {used or 'none'}"),
        ("sources", f"{scales.deviation:.3g} m, correlated over {scales.length / 1e3:.3g} km"),
        ("model error", f"{100 * scales.model:.3g} % of the wave; deviations multiplied by {posterior.inflation:.3g}"),
        ("took", f"{took:.2g} s"),
    ]
    say("%s", facts.table(lines))
    for remark in posterior.remarks:
        logs.LOGGER.warning("%s", remark)
    harbours = posterior.harbours(points, threshold)
    say("%s", facts.columns(_harbour_rows(harbours, posterior.scores(records))))
    waves = harbours.rename({name: f"wave_{name}" for name in ("height", "arrival", "reached")})
    whole = xr.merge([posterior.predict(points), posterior.sources(), waves])
    whole["drawn_amplitude"] = ("draw", "source"), posterior.amplitudes(DRAWS), {"units": "m"}
    whole.attrs |= {name: bank.about[name] for name in RUPTURE if name in bank.about}
    whole.attrs |= {"swmodel_kind": "forecast", "until": posterior.until, "bank": bank.about.get("model", "")}
    with replacing(options.output) as part:
        whole.to_netcdf(part)
    say("file:\n  %s", options.output)
    if options.plot:
        from ..postprocess.pages.forecast import drawing

        _save(drawing(posterior, records, points), Path(options.output).with_suffix(".png"))
    if options.page:
        _page(bank, records, posterior, points, threshold, Path(options.output).with_suffix(".html"))


def _page(bank, records, posterior, points, threshold, path):
    """Write the page of the forecasts at each moment until that of the posterior, and print its path."""
    from ..postprocess.pages.forecast import forecast_page

    errors = posterior.errors
    moments = _moments(errors.begin, posterior.until)
    shown = [*(bank.posterior(bank.usable(records, t, errors)[0], t, errors) for t in moments), posterior]
    tables = [_harbour_rows(one.harbours(points, threshold), one.scores(records)) for one in shown]
    logs.LOGGER.info("page: %s", forecast_page(shown, records, points, tables, bank.about.get("title", "waves"), path))


def _save(figure, path):
    """Write a figure, and print its path."""
    from ..postprocess.style import save

    logs.LOGGER.info("figure: %s", save(figure, path))


def _moments(begin, until):
    """The times [s] of the forecasts on a page before the last one, at `until`: whole minutes, if there are so few."""
    minutes = np.ceil(np.linspace(begin / 60.0, until / 60.0, PLACES + 1)[1:])
    return [60.0 * minute for minute in np.unique(minutes) if 60.0 * minute < until]


def _harbour_rows(harbours: xr.Dataset, scores: xr.Dataset) -> list[list[str]]:
    """Height and arrival at each point, and how the forecast holds for samples that were not used; heads first."""
    rows = [["", "highest level [m]", "arrival [min]", "reached", "in 90 % band"]]
    for name in harbours["point"].values:
        here = harbours.sel(point=name)
        arrival = "none" if np.isnan(here["arrival"].values[1]) else facts.between(here["arrival"].values / 60.0, 0)
        inside = f"{100 * float(scores['inside'].sel(point=name)):.0f} %" if name in scores.point.values else ""
        reached = f"{100 * float(here['reached']):.0f} %"
        rows.append([str(name), facts.between(here["height"].values), arrival, reached, inside])
    return rows


def _level_rows(found: xr.Dataset, least: float = 50.0) -> list[list[str]]:
    """The levels at points that are exceeded once in `least` years or more; heads first."""
    periods = [float(period) for period in found["period"].values if period >= least]
    rows = [["level [m] once in", *(f"{period:g} years" for period in periods)]]
    for name in found["point"].values:
        each = [found["height"].sel(point=name, period=period).values for period in periods]
        rows.append([str(name), *("" if math.isnan(one[1]) else facts.between(one) for one in each)])
    return rows


def rank_buoys(
    path: str, harbours: list[str], gauges: list[str], until: str | None, output: str | None, page: bool = False
) -> None:
    """Print the candidates of the bank `path` that would narrow the forecast of harbours most, and draw all."""
    from ..forecast import next_buoy

    bank = _bank_for(path, output or ("buoys.png" if page else None), page=page)
    if bank is None:
        return
    if output is not None:
        files.require("--output", ", or leave --output out")
    last = None if until is None else quantity_of_option("--until", until, "s")
    found = next_buoy(bank, harbours, gauges, last)
    with_gauges = f", {found.attrs['with_gauges']:.3g} m with {', '.join(gauges)}" if gauges else ""
    logs.LOGGER.info("spread of %s: %.3g m%s", ", ".join(harbours), found.attrs["without_records"], with_gauges)
    for name, gain, x, y in _best(found):
        logs.LOGGER.info("  %-16s at (%g, %g) removes %.3g %% of its variance", name, x, y, 100 * gain)
    places = {name: bank.places[name] for name in (*harbours, *gauges)}
    if output is not None:
        from ..postprocess.pages.forecast import gains

        _save(gains(found, places), Path(output))
    if page:
        from ..postprocess.pages.forecast import buoys_page

        times = [time for time in _moments(0.0, found.attrs["until"]) if time >= bank.times[0]]
        each = [*(next_buoy(bank, harbours, gauges, time) for time in times), found]
        heads = ["candidate", "x", "y", "removes of the variance"]
        tables = [[heads, *([n, f"{x:g}", f"{y:g}", f"{100 * g:.3g} %"] for n, g, x, y in _best(one))] for one in each]
        file = Path(output or "buoys").with_suffix(".html")
        logs.LOGGER.info("page: %s", buoys_page(each, places, tables, bank.about.get("title", "waves"), file))


def _best(found):
    """(name, gain, x, y) of the candidates that are shown."""
    return list(zip(*(found[key].values[:SHOWN] for key in ("point", "gain", "x", "y"))))


def print_hazard(path: str, options: Hazard) -> None:
    """Print the hazard of the points of the bank `path`, write and draw it."""
    from ..forecast import hazard_curves, scenarios

    output, listed = options.output, options.earthquakes
    inputs = [] if listed is None else [("--earthquakes", Path(listed))]
    bank = _bank_for(path, output, options.plot, options.page, inputs)
    if bank is None:
        return
    earthquakes, begun = _earthquakes(options, bank), clock.perf_counter()
    drawn = scenarios(bank, earthquakes, options.count, options.seed)
    found = hazard_curves(bank, earthquakes, drawn=drawn)
    logs.LOGGER.info("%s scenarios took %s", f"{drawn.sizes['scenario']:,}", duration(clock.perf_counter() - begun))
    for remark in _remarks(drawn):
        logs.LOGGER.warning("%s", remark)
    rows = _level_rows(found)
    logs.LOGGER.info("%s", facts.columns(rows))
    rate = earthquakes.rate - drawn.attrs["left_out_rate"]
    found.attrs = {"swmodel_kind": "hazard", "rate": rate, "magnitudes": earthquakes.magnitudes}
    found.attrs |= {"b": earthquakes.b} if listed is None else {"earthquakes": listed}
    found.attrs |= {} if earthquakes.tops is None else {"top_depth": earthquakes.tops}
    found.attrs |= {"seed": options.seed, "bank": bank.about.get("model", "")}
    renamed = drawn.rename({"magnitude": "scenario_magnitude", "rate": "scenario_rate"})
    with replacing(output) as part:
        found.merge(renamed.astype("float32")).to_netcdf(part)
    logs.LOGGER.info("file:\n  %s", output)
    if options.plot:
        from ..postprocess.pages.forecast import curves

        _save(curves(found), Path(output).with_suffix(".png"))
    if options.page:
        from ..postprocess.pages.forecast import hazard_page

        about = bank.about.get("title", "waves")
        logs.LOGGER.info("page: %s", hazard_page(found, rows, about, Path(output).with_suffix(".html")))


def _remarks(drawn):
    """Sentences on earthquakes that do not count, or are too large, and on depths of ruptures that could not be."""
    if drawn.attrs["largest"] > CROWDED:
        yield (
            f"The largest rupture has {drawn.attrs['largest']:.2g} times the area of all faults of the bank, whose "
            "slip is then so many times too large: give smaller earthquakes, or a bank of more faults."
        )
    if drawn.attrs["left_out"]:
        yield (
            "Earthquakes of the list that do not count, since they are further from all faults than the length of "
            f"their rupture: {drawn.attrs['left_out']}, with {drawn.attrs['left_out_rate']:.3g} per year."
        )
    if drawn.attrs["limited"]:
        yield (
            f"The top of {100 * drawn.attrs['limited']:.2g} % of the ruptures is higher than its random depth, since "
            "the faults of the bank below that have less than their area."
        )


def _earthquakes(options, bank):
    """The Earthquakes of the options of `swmodel hazard`: of a list, or of the law."""
    from ..forecast import Earthquakes, read_earthquakes

    tops = None
    if options.top_depth is not None:
        depths = options.top_depth.split(",")
        if len(depths) != 2:
            raise ConfigError(f"--top-depth {options.top_depth}: give two depths, as '0 km,15 km'.")
        shallow, deep = (quantity_of_option("--top-depth", depth.strip(), "m") for depth in depths)
        tops = shallow, deep
    if options.earthquakes is not None:
        if options.magnitudes is not None or options.b is not None:
            raise ConfigError("--earthquakes is a list in place of a law; leave --magnitudes and --b out.")
        spherical = None if len(bank.centres) < 2 else bank.radius is not None
        return Earthquakes.of(read_earthquakes(options.earthquakes, options.rate, spherical), tops=tops)
    if options.rate is None:
        raise ConfigError(
            "--rate PER_YEAR is missing: how many earthquakes over the lower magnitude there are in a year."
        )
    given = "7.5,9" if options.magnitudes is None else options.magnitudes
    try:
        low, high = (float(part) for part in given.split(","))
    except ValueError:
        raise ConfigError(f"--magnitudes {given}: give two numbers, as 7.5,9.") from None
    return Earthquakes(options.rate, (low, high), 1.0 if options.b is None else options.b, tops=tops)
