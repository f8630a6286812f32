"""Runs that are resumed with other settings, ends and folders: no record of the run that they leave is lost."""

import dataclasses
import random
import shutil

import netCDF4
import numpy as np

from .harness import Budget, foreign, straight, write_case

MINUTES = {"first.nc": 10, "restart.nc": 30}  # {restart: its time}
CHANGES = (None, None, "stepper.dt=7.5", "model.gravity=9.7", "output.maxima.threshold=0.05")
PLACES = (None, None, "option", "set", "file")  # what gives the folder of the output, if anything does
ENDS = (15, 30, 45)  # [min]


@dataclasses.dataclass
class Tally:
    branches: int = 0
    refused: int = 0
    wrong: list = dataclasses.field(default_factory=list)


def branches(count, folder, seconds=3600.0, seed=0):
    """`count` runs, each resumed from a copy of one run of 30 min; returns the Tally."""
    rng, tally = random.Random(seed), Tally()
    case = prepared(folder)
    for trial in Budget("branches", count, seconds).trials():
        place = folder / f"{trial}"
        shutil.copytree(folder / "output", place / "output")
        restart, change, where, end = map(rng.choice, (list(MINUTES), CHANGES, PLACES, ENDS))
        said = f"{restart} to {end} min with {change}, folder by {where}"
        refused, wrong = resumed(case, place, restart, change, where, end)
        tally.branches, tally.refused = tally.branches + 1, tally.refused + refused
        tally.wrong += [f"{said}: {what}" for what in wrong]
        shutil.rmtree(place)
    return tally


def prepared(folder):
    """The case, after a run of 30 min whose restart of 10 min was copied."""
    case = write_case(folder, until="30 min", fields="5 min", restart="10 min")
    output = folder / "output"
    for arguments in (("run", case, "--until", "10 min"), ("resume", output / "restart.nc", "--until", "30 min")):
        if (ended := straight(*arguments, "-q")).status:
            raise RuntimeError(f"the first run ended with status {ended.status}: {ended.text}")
        if arguments[0] == "run":
            shutil.copy(output / "restart.nc", output / "first.nc")
    return case


def resumed(case, place, restart, change, where, end):
    """(whether the command was refused, what is wrong) with one resumed run."""
    output, branch = place / "output", place / "branch"
    command = ["resume", output / restart, "--until", f"{end} min", "-q"] + ["--set", change] * (change is not None)
    if where == "file":
        moved = case.with_name("moved.toml")
        moved.write_text(case.read_text().replace(str(case.parent / "output"), str(branch)))
        command += ["--experiment", moved]
    command += {"option": ["-o", branch], "set": ["--set", f"output.folder={branch}"]}.get(where, [])
    before, bits = records(output), bytes_of(output)
    ended = straight(*command)
    wrong = [f"it printed {word!r}"] if (word := foreign(ended.text)) else []
    changed = bytes_of(output) != bits
    if ended.status:
        clear = ended.status == 2 and ended.text.count("error: ") == 1
        wrong += [] if clear else [f"it ended with status {ended.status}: {ended.text[-500:]}"]
        wrong += ["it was refused, and files differ"] * changed
        wrong += [f"it was refused: {ended.text[-500:]}"] * (where is not None and end > MINUTES[restart])
        return True, wrong
    if where is not None:
        wrong += ["the run that it leaves differs"] * changed
        wrong += [] if (branch / "fields.nc").exists() else ["there is no branch"]
    after = records(output)
    return False, wrong + [f"{key} is lost or differs" for key in before if after.get(key) != before[key]][:3]


def bytes_of(folder):
    """{name: bytes} of the files in a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def records(folder):
    """{(file, variable, time): bits} of all records."""
    found = {}
    for file in ("fields.nc", "gauges.nc"):
        with netCDF4.Dataset(folder / file) as dataset:
            dataset.set_auto_maskandscale(False)
            times = np.asarray(dataset["time"][:]).tolist()
            for name, variable in dataset.variables.items():
                if "time" in variable.dimensions:
                    whole = np.moveaxis(np.asarray(variable[...]), variable.dimensions.index("time"), 0)
                    found |= {(file, name, time): values.tobytes() for time, values in zip(times, whole)}
    return found
