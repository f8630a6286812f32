"""`swmodel rerun`: the whole model from sources of a forecast, or scenarios of a hazard, compared with their bank."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xarray as xr

from ..config import Override
from ..errors import ConfigError, DataError
from ..runtime.paths import check_apart, expanded
from . import facts, logs
from .green import Case, bank_of, case_of
from .options import Computing
from .starting import inputs_of, prepare_paths, tiles_line

FILE = "rerun.nc"  # in the folder of the output
LEAST = 0.01  # [m] of waves that are compared


def rerun_sources(file: str, path: str, count: int, overrides: Sequence[str | Override], options: Computing) -> None:
    """Run the model of a bank's experiment from `count` sources of the file `path`; write and compare the waves."""
    from ..forecast import Bank, rerun

    case = case_of(file, overrides, options)
    communicator, output = case.model.communicator, case.started.folder / FILE
    bank_path = expanded(case.started.experiment.output.folder) / case.section.file
    ready = lambda: _ready(path, case, count, bank_path, output, options.overwrite)  # noqa: E731
    amplitudes, varied = communicator.from_root(ready)
    lines = [("members", f"{len(amplitudes)}, of {path}"), tiles_line(case.model)]
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
    inputs = [*inputs_of(case.draft), ("the sources", Path(path)), ("the bank", bank)]
    check_apart([("rerun", output)], inputs)
    if not bank.exists():
        raise ConfigError(
            f"there is no bank {bank} to compare with; make it by swmodel green, or name the folder of one by "
            "--set output.folder=DIR."
        )
    found = sources_of(path, case.digest, count)
    bank_of(case, bank)  # which may have been made again since
    prepare_paths([output], overwrite)
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
