"""`swmodel green` makes a bank of Green's functions for forecasts; `swmodel rerun` compares runs of the whole model."""

from __future__ import annotations

import hashlib
import json
import time as clock
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr

from ..adjoint.costs.readers import outermost
from ..config import Override, read
from ..config.experiment import Draft
from ..config.studies import section_of
from ..errors import ConfigError, DataError
from ..output.fingerprint import describe, differences
from ..runtime import memory
from ..runtime.packages import VERSION
from ..runtime.paths import check_apart, expanded
from ..runtime.signals import PROCESS
from ..units import duration
from . import facts, logs, starting
from .options import Computing, Green

if TYPE_CHECKING:
    from ..forecast import Bank

SHOWN = 3  # differences of two banks that a message names


class Case(NamedTuple):
    """What a bank is made of: the draft and section of its experiment, and the objects that follow from them."""

    draft: Draft
    started: starting.StartedCommand
    section: Any
    model: Any
    stepper: Any
    places: dict[str, tuple[float, float]]
    sources: Any
    until: float
    digest: str
    provenance: str

    @property
    def path(self) -> Path:
        """Of the bank."""
        return self.started.folder / self.section.file


def case_of(file: str, overrides: Sequence[str | Override], options: Computing, nested: bool = False) -> Case:
    """The Case of an experiment file, with nests if `nested`; starts processes and devices."""
    draft = read(file, overrides)
    section: Any = section_of(draft, "green")
    started = starting.start_command(draft, options, nested=nested)
    made, experiment = started.made, started.experiment
    model, _, dt = starting.model_state_and_step(made, experiment, *started.where)
    places = {name: tuple(place) for name, place in _gauges(made).positions.items()}
    if section.candidates is not None:
        places |= section.candidates.places(outermost(model))
    until = section.until or experiment.run.until
    sources = made.require(("green", "sources"), section.sources.build, made.surroundings)
    stepper = experiment.stepper.stepper(dt)
    digest, provenance = _digest(model, section, until, stepper, places)
    return Case(draft, started, section, model, stepper, places, sources, until, digest, provenance)


def make_bank(file: str, overrides: Sequence[str | Override], options: Green) -> None:
    """Make the bank of an experiment file."""
    from ..forecast import Bank

    case = case_of(file, overrides, options, nested=True)
    draft, section, model, places, until = case.draft, case.section, case.model, case.places, case.until
    made, experiment, path = case.started.made, case.started.experiment, case.path
    about = {"swmodel_version": VERSION, "model": case.digest, "title": experiment.run.title or draft.file.stem}
    about["provenance"] = case.provenance
    about |= {} if experiment.run.start is None else {"start": experiment.run.start.isoformat()}
    communicator = model.communicator
    begun = communicator.from_root(lambda: _begun(case, options))
    named = ", ".join(_gauges(made).positions)
    lattice = "" if section.candidates is None else ", and a lattice"
    lines = [("points", f"{len(places):,}: {named}{lattice}"), ("grid", facts.grid_line(made.grid))]
    logs.LOGGER.info("%s", facts.table([*lines, starting.tiles_line(outermost(model))]))
    at = clock.perf_counter()

    def progress(done: int, count: int, kind: str) -> None:
        logs.LOGGER.info("%d of %d %s, %s", done, count, kind, duration(clock.perf_counter() - at))

    def store(bank: Bank) -> None:
        communicator.from_root(lambda: bank.write(path))

    where = model, case.stepper, places, case.sources, until, section.interval
    with PROCESS.ending_with(lambda name: _after_signal(name, path)):
        bank = made.require(
            ("green",), lambda: Bank.of(*where, begun=begun, progress=progress, store=store, about=about)
        )
        store(bank)
    error = bank.about["error_of_a_run"]
    logs.LOGGER.info("a run from random amplitudes differs by %.2g of its largest level", error)
    if communicator.is_root:
        logs.LOGGER.info("file:\n  %s  (%s)", path, memory.size(path.stat().st_size))
        logs.LOGGER.info("next:\n  swmodel forecast %s --observations DIR", path)


def _begun(case: Case, options: Green) -> Bank | None:
    """The bank that --resume continues; None for a new one. On the root."""
    path = case.path
    check_apart([("green.file", path)], starting.inputs_of(case.draft))
    if not options.resume:
        starting.prepare_paths([path], options.overwrite)
        return None
    if not path.exists():
        raise ConfigError(f"there is no {path} from which to resume a bank; start it without --resume.")
    return bank_of(case, path)


def bank_of(case: Case, path: Path) -> Bank:
    """The bank of the file `path`; raises DataError for one of another experiment than the case's."""
    from ..forecast import Bank

    bank = Bank.read(path)
    if bank.about.get("model") == case.digest:
        return bank
    was, now = json.loads(bank.about.get("provenance", "{}")), json.loads(case.provenance)
    clauses = [each.text.replace("the restart", "the bank") for each in differences(was, now)[:SHOWN]] if was else []
    raise DataError(
        f"{path} is a bank of another model, other sources or other points{': ' * bool(clauses)}{', '.join(clauses)}; "
        "give the experiment it was made of, or make a new one by swmodel green --overwrite."
    )


def _gauges(made):
    """The section [output.gauges] of the file, with the points on all grids."""
    return (made.output or made.experiment().output).gauges


def _digest(model, section, until, stepper, places):
    """(a digest of all that the responses depend on, that as JSON: {entry: value}); collective."""
    entries = starting.fingerprint_of_grids(model, 0, stepper.dt, round(until / stepper.dt))
    sources = {name: value for name, value in section.sources if name != "deviation"}
    if sources.get("file"):  # of faults: its content counts, and not its path
        sources["file"] = hashlib.sha256(Path(sources["file"]).read_bytes()).hexdigest()[:16]
    whole = entries, describe(stepper), describe(section.interval), sources, places
    entries = entries | {"stepper": describe(stepper), "green.interval": float(section.interval)}
    entries |= {f"green.sources.{name}": value for name, value in sources.items()}
    entries |= {f"point.{name}": place for name, place in places.items()}
    text, provenance = (json.dumps(each, sort_keys=True, default=str) for each in (whole, entries))
    return hashlib.sha256(text.encode()).hexdigest(), provenance


def _after_signal(name, path):
    if not path.exists():
        return f"{name} stopped the bank before its first sweep ended. Start again with: {PROCESS.command()}"
    return f"{name} stopped the bank. {path} holds the points so far; continue with: {PROCESS.command()} --resume"


# -- runs from the sources of a bank -----------------------------------------------------------------------------------

RERUN = "rerun.nc"  # in the folder of the output
LEAST = 0.01  # [m] of waves that are compared


def rerun_sources(file: str, path: str, count: int, overrides: Sequence[str | Override], options: Computing) -> None:
    """Run the model of a bank's experiment from `count` sources of the file `path`; write and compare the waves."""
    from ..forecast import Bank, rerun

    case = case_of(file, overrides, options)
    communicator, output = case.model.communicator, case.started.folder / RERUN
    bank_path = expanded(case.started.experiment.output.folder) / case.section.file
    ready = lambda: _ready(path, case, count, bank_path, output, options.overwrite)  # noqa: E731
    amplitudes, varied = communicator.from_root(ready)
    lines = [("members", f"{len(amplitudes)}, of {path}"), starting.tiles_line(case.model)]
    logs.LOGGER.info("%s", facts.table(lines))
    where = case.model, case.stepper, case.places, case.sources, amplitudes, case.until, output
    rerun(*where, case.section.interval, varied, f"Runs from sources of {Path(path).name}")
    if not communicator.is_root:
        return
    bank = Bank.read(bank_path)
    with xr.open_dataset(output, decode_times=False) as found:
        highest = found["eta"].max("time").transpose("member", "gauge").values
    linear = np.stack([bank.waves(one).max("time").values for one in amplitudes])
    logs.LOGGER.info("%s\nfile:\n  %s", facts.columns(_rows(list(bank.places), linear, highest)), output)


def _ready(path, case: Case, count, bank, output, overwrite):
    """What `sources_of` reads from the file of the sources; makes sure of the bank and the output."""
    inputs = [*starting.inputs_of(case.draft), ("the sources", Path(path)), ("the bank", bank)]
    check_apart([("rerun", output)], inputs)
    if not bank.exists():
        raise ConfigError(
            f"there is no bank {bank} to compare with; make it by swmodel green, or name the folder of one by "
            "--set output.folder=DIR."
        )
    found = sources_of(path, case.digest, count)
    bank_of(case, bank)  # which may have been made again since
    starting.prepare_paths([output], overwrite)
    return found


def sources_of(path: str | Path, digest: str, count: int) -> tuple[np.ndarray, dict[str, list]]:
    """(amplitudes (members, sources) [m], {name: values of the members}) of a file of a forecast or hazard.

    Args:
        digest: of the bank's experiment.
        count: the number of members, if the file has so many.

    Raises:
        DataError: for another file.
        ConfigError: for a file of another bank, and one whose sources do not rise at once, as those of a run do.
    """
    from ..forecast.bank import RUPTURE, chosen_scenarios

    try:
        with xr.open_dataset(path) as opened:
            found = opened.load()
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as a forecast or hazard ({error}); give a file of either.") from None
    kind = found.attrs.get("swmodel_kind")
    if kind not in ("forecast", "hazard") or not {"drawn_amplitude", "slip"} & set(found):
        raise DataError(f"{path} holds no sources; give a file that swmodel forecast or swmodel hazard wrote.")
    if found.attrs.get("bank") != digest:
        raise ConfigError(
            f"{path} follows from a bank of another model, bathymetry, sources or points; give the experiment of that "
            "bank, or make both again."
        )
    if set(RUPTURE) & set(found.attrs):
        raise ConfigError(
            f"the sources of {path} rise with a rupture or in a rise time, and those of a run rise at once; forecast "
            "without --velocity and --rise-time."
        )
    if kind == "hazard":
        drawn = found[["slip"]].assign(rate=found["scenario_rate"])
        numbers, rates = chosen_scenarios(drawn, count)
        return found["slip"].values[numbers], {"scenario": numbers.tolist(), "rate": rates.tolist()}
    draws = found["drawn_amplitude"].values[: count - 1]
    names = {"draw": list(range(len(draws) + 1))}  # 0 is the mean
    return np.concatenate([found["amplitude"].values[None], draws]), names


def _rows(names, linear, highest):
    """Cells of a table: highest levels of the bank and of the runs over the members, and their mean ratio."""
    rows = [["highest level [m]", "bank", "runs", "runs over bank"]]
    for k, name in enumerate(names):
        cells = [facts.between(np.percentile(levels[:, k], [5.0, 50.0, 95.0])) for levels in (linear, highest)]
        seen = linear[:, k] > LEAST
        ratio = f"{np.mean(highest[seen, k] / linear[seen, k]):.2f}" if seen.any() else ""
        rows.append([name, *cells, ratio])
    return rows
