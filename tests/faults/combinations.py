"""Random experiments over all sections, and whether what must agree agrees: short runs of each.

    python -m tests.faults.combinations runs FOLDER UNTIL EVERY SEED ...      # in one process with two devices
    mpirun -n 2 python -m tests.faults.combinations pairs FOLDER UNTIL EVERY SEED ...

The first runs the draws of these numbers (draws.py) by loops or on arrays in turn, and checks that the second half of a
run, resumed from its first half, ends with the same bits; that the volume, and the content of tracers, changes by
sources and fluxes alone; that water at rest stays at rest; that members of an ensemble are the runs that they would be
alone; of each EVERY-th draw, that a run by the other way, on the tiles of two devices, agrees (with a nest on one). The
second compares one on two ranks. Both begin no draw after UNTIL [s since 1970], and print a line of JSON before and
after each, so that whoever reads them knows of which draw a process died.
An experiment that a run refuses must be refused by `check`, in sentences. A run that stops because its flow is too
fast, or its water too thin, is counted.

Compiling takes most of the time: all draws have grids of one size, so that they share their small programs.
"""

import collections
import dataclasses
import functools
import gc
import itertools
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from swmodel.errors import BlowUp, SwmodelError, TileError
from swmodel.runtime import launch

from .checked import QUICKLY, ROOT, say
from .harness import MARK, STOPPED, Budget

SECONDS = 600  # for all runs of one draw
BATCH = 25  # draws of one process
RANKS = 2  # and devices
PAIRS = 10  # of so many draws one runs under mpirun as well, which takes as long as all other runs of a draw
MOST_REFUSED, MOST_STOPPED = 0.4, 0.06  # larger shares of draws that were refused, or blew up, are wrong
BETWEEN = 5  # draws, after which programs are dropped
DEVICES = ("run.communicator=sharded", f"run.devices={RANKS}")
AGREE = {"float64": 1e-10, "float32": 1e-3}  # the largest difference, as a share of the largest value
SMALL = 1e-3  # [m, m s-1, units of tracers]: values below it are compared as if this were the largest one


@dataclasses.dataclass
class Tally:
    seeds: set = dataclasses.field(default_factory=set)  # of draws whose runs have ended
    refused: int = 0
    stopped: int = 0  # blew up, with the sentence that says where
    on_two: int = 0  # draws that ran on two devices as well: the tiles of others are thinner than their halo
    kinds: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    pairs: set = dataclasses.field(default_factory=set)
    wrong: list = dataclasses.field(default_factory=list)

    @property
    def draws(self):
        return len(self.seeds)

    def notice(self, seed, sentences):
        """Keep and print what was wrong with a draw."""
        for what in sentences:
            print(f"combinations: seed {seed}: {what}", flush=True)
            self.wrong.append(f"seed {seed}: {what}")


# -- the runs of a draw, in a process of its own ---------------------------------------------------------------------


def work(kind, folder, seeds, until, every):
    """See the module."""
    import jax

    signal.signal(signal.SIGALRM, _out_of_time)
    function = functools.partial(_runs, every=every) if kind == "runs" else _pair
    for number, seed in enumerate(seeds, 1):
        if _is_over(kind, until):
            return
        _say(seed=seed, begun=True)
        signal.alarm(SECONDS)
        try:
            outcome = function(folder, seed)
        except BaseException as error:
            if kind == "pairs":  # the other rank waits for this one
                say(seed=seed, wrong=[f"on {RANKS} ranks: {type(error).__name__}: {error}"])
                launch.load_mpi().COMM_WORLD.Abort(1)
            raise
        finally:
            signal.alarm(0)
        _say(seed=seed, **outcome)
        if number % BETWEEN == 0:
            jax.clear_caches()
            gc.collect()


def _is_over(kind, until):
    """Whether the time is up; ranks agree, or one would wait for the other."""
    over = time.time() > until
    return over if kind == "runs" else launch.load_mpi().COMM_WORLD.bcast(over)


def _say(**what):
    """Print a line, on the root."""
    started = launch.launcher()
    if started is None or started.rank == 0:
        say(**what)


def _out_of_time(*_):
    raise TimeoutError(f"its runs had not ended after {SECONDS} s")


def _runs(folder, seed, every=1):
    """What a draw's runs have shown: {"refused": ...}, {"stopped": ...} or {"wrong": [sentences], "on_two": ...}."""
    from . import draws
    from .inputs import outcome

    basin, tables = draws.drawn(seed)
    case = Case(folder, folder / basin / f"case-{seed}.toml", "fused" if seed % 2 else "arrays")
    case.path.write_text(draws.text_of(tables))
    try:
        whole = case.run("whole")
    except BlowUp:
        shutil.rmtree(case.folder)  # its restarts are not those of an end, and are not compared
        return {"stopped": True, "wrong": []}
    except SwmodelError as error:
        answer, message = outcome(case.path)
        wrong = [f"`check` {answer} what a run refuses: {error} | {message[:300]}"] * (answer != "refused")
        return {"refused": not wrong, "wrong": wrong}
    except Exception as error:  # noqa: BLE001 - whatever comes through is what this looks for
        return {"wrong": [f"a run ended with {type(error).__name__}: {error}"]}
    wrong, on_two = [], every > 0 and seed % every == 0
    for check in (_resumes, _keeps_volume, _stays_at_rest, _has_members, *[_agrees_on_two_devices] * on_two):
        try:
            wrong += check(case, tables, whole)
        except TileError:  # in one sentence, before anything runs: the tiles would be thinner than the halo
            on_two = False
        except Exception as error:  # noqa: BLE001
            wrong.append(f"{check.__name__}: {type(error).__name__}: {error}")
    return {"wrong": wrong, "on_two": on_two}


class Case:
    """An experiment file, runs of it, and what their restarts hold."""

    def __init__(self, folder, path, engine):
        self.folder, self.path, self.engine = folder / path.stem, path, engine
        self.options = [f"run.engine={'auto' if engine == 'fused' else engine}"]

    def run(self, name, *overrides, path=None):
        """The End of a run into a folder `name`."""
        from swmodel.cli.options import Run
        from swmodel.cli.runs import run_experiment

        folder = self.folder / name
        options = Run(output=str(folder), overwrite=True, quiet=True)
        run_experiment(str(path or self.path), [*self.options, *overrides], options)
        return End.of(folder)

    def resumed(self, restart, *overrides):
        from swmodel.cli.options import Resumed
        from swmodel.cli.runs import resume_experiment

        options = Resumed(output=str(restart.parent), quiet=True, experiment=str(self.path))
        resume_experiment(str(restart), [*self.options, *overrides], options)
        return End.of(restart.parent)


@dataclasses.dataclass
class End:
    """The restart at the end of a run; names of a nest's arrays begin with its own."""

    path: Path
    arrays: dict
    scalars: dict

    @classmethod
    def of(cls, folder):
        from swmodel.output.resuming import opened

        path = next(folder.glob("restart.*"))
        arrays = {}
        for file in (path, *folder.glob(f"*/{path.name}")):
            prefix = "" if file == path else f"{file.parent.name} "
            arrays |= {prefix + name: np.asarray(array) for name, array in opened(file).arrays.items()}
        return cls(path, arrays, dict(opened(path).scalars))

    @property
    def states(self):
        of_states = (name for name in self.arrays if name.split(" ")[-1].startswith("state_"))
        return {name.replace("state_", "", 1): self.arrays[name] for name in of_states}


def differing(one, other, tolerance):
    """The names of States' fields that differ by more than `tolerance`, with the difference; none of them is finite."""
    found = [f"{name} is in one of them only" for name in one.keys() ^ other.keys()]
    for name in one.keys() & other.keys():
        a, b = (np.asarray(x[name], float) for x in (one, other))
        if a.shape != b.shape:
            found.append(f"{name} has the shapes {a.shape} and {b.shape}")
        elif not (np.isfinite(a) & np.isfinite(b)).all():
            found.append(f"{name} is not finite")
        elif (difference := np.abs(a - b).max()) > tolerance * max(np.abs(a).max(), SMALL):
            found.append(f"{name} differs by {difference:.2g} of {np.abs(a).max():.2g}")
    return sorted(found)


def _resumes(case, tables, whole):
    dt, steps = whole.scalars["dt"], whole.scalars["step"]
    if steps < 2:
        return []
    step = f"stepper.dt={dt!r}"
    case.half = case.run("halves", step, f"run.until={steps // 2 * dt!r}")
    both = case.resumed(case.half.path, step)
    changed = [name for name in whole.arrays if not np.array_equal(whole.arrays[name], both.arrays.get(name), True)]
    for path in sorted(whole.path.parent.glob("*.*")) + sorted(whole.path.parent.glob("nest/*.*")):
        if path.suffix in (".nc", ".zarr") and path.name != whole.path.name:
            changed += _changed_records(path, case.half.path.parent / path.relative_to(whole.path.parent))
    return [f"a resumed run differs in {', '.join(changed)}"] * bool(changed)


def _changed_records(*paths):
    """The variables of two netCDF files or Zarr stores that do not hold the same bits."""
    import xarray as xr

    engine = {".nc": "netcdf4", ".zarr": "zarr"}[paths[0].suffix]
    one, other = (xr.open_dataset(path, engine=engine, decode_cf=False).load() for path in paths)
    names = sorted({*one.variables, *other.variables})
    same = {
        name for name in names if name in one.variables and name in other.variables and one[name].equals(other[name])
    }
    return [f"{name} of {paths[0].name}" for name in names if name not in same]


def _keeps_volume(case, tables, whole):
    """The sums of elevation and tracers' contents over a closed basin, from the first half of a run to its end."""
    from swmodel.config import read
    from swmodel.config.assembly import assemble

    from .draws import is_closed

    if not is_closed(tables) or not hasattr(case, "half") or tables["stepper"]["type"] == "rigid_lid":
        return []
    two_way = any(nest["two_way"] for nest in tables.get("nest", ()))
    if two_way and tables["bathymetry"]["type"] != "flat":
        return []  # the outer grid's cells beside coasts of the nest hold means over its water
    made = assemble(read(case.path))
    area, wet = made.grid.area_h, np.asarray(made.bathymetry.wet)
    seconds = whole.scalars["dt"] * (whole.scalars["step"] - case.half.scalars["step"])
    volume = (area * wet * (whole.arrays["depth"] + whole.states["eta"])).sum(axis=(-2, -1))
    limit = {"float64": 1e-12, "float32": 1e-6}[tables["model"]["precision"]]
    wrong = []
    for name in ("eta", *(["eta_2"] if "eta_2" in whole.states else [])):
        change = _change(whole, case.half, name, area * wet)
        if (np.abs(change) > limit * volume).any():
            wrong.append(f"the volume below {name} changes by {change} of {volume} m3")
    for tracer in () if "layers" in tables else tables["tracer"]:
        rates = [tracer.get(key, 0.0) for key in ("source", "flux")]
        if not all(isinstance(rate, float) for rate in rates) or (rates[1] and "wetting" in tables["model"]):
            continue
        if two_way and rates[0]:  # per volume, which each grid takes at its own steps
            continue
        expected = seconds * (rates[0] * volume + rates[1] * (area * wet).sum())
        error = _change(whole, case.half, tracer["name"], area * wet) - expected
        most = np.abs(whole.states[tracer["name"]] * area * wet).sum(axis=(-2, -1)) + np.abs(expected)
        if (np.abs(error) > 10 * limit * most).any():
            wrong.append(f"the content of {tracer['name']} changes by {error} too much, of {most}")
    return wrong


def _change(whole, half, name, area):
    """The change of the sum of a field times area, from the end of a first half to that of a whole run."""
    one, other = (np.asarray(end.states[name], float) for end in (half, whole))
    return (area * (other - one)).sum(axis=(-2, -1))


def _stays_at_rest(case, tables, whole):
    from .basins import DEPTH
    from .draws import is_at_rest

    if not is_at_rest(tables):
        return []
    most = {"float64": 1e-12, "float32": 1e-5}[tables["model"]["precision"]] * DEPTH
    before = case.half.states["eta"] if "subgrid" in tables["bathymetry"] else 0.0  # eta is not the level in such cells
    wrong = []
    for name, x in whole.states.items():
        nest, _, field = name.rpartition(" ")
        if field.startswith("eta"):
            x = (x - before) * (whole.arrays[f"{nest} depth".strip()] > 0)
        if field.startswith(("u", "v", "eta")) and not np.abs(x).max() <= most:
            wrong.append(f"at rest, {name} becomes {np.abs(x).max():.3g}")
    return wrong


def _has_members(case, tables, whole):
    """Members that differ by noise are left out: no experiment file describes one of them alone."""
    from swmodel.config import read
    from swmodel.config.experiment import member_drafts
    from swmodel.config.toml import dump

    if "ensemble" not in tables or "perturbation" in tables["ensemble"]:
        return []
    wrong = []
    for k, draft in enumerate(member_drafts(read(case.path))):
        path = case.path.with_name(f"{case.path.stem}-{k}.toml")
        path.write_text(dump(draft.raw))
        alone = case.run(f"member{k}", f"stepper.dt={whole.scalars['dt']!r}", path=path)
        own = {name: x[k] for name, x in whole.states.items()}
        wrong += [f"member {k}: {what}" for what in differing(own, alone.states, AGREE[tables["model"]["precision"]])]
    return wrong


def _agrees_on_two_devices(case, tables, whole):
    return _other_way(case, tables, whole, "devices", *(() if "nest" in tables else DEVICES))


def _other_way(case, tables, whole, name, *overrides):
    """What differs between a run and one into the folder `name` with `overrides`, by loops if that was on arrays."""
    other = Case(case.folder.parent, case.path, "arrays" if case.engine == "fused" else "fused")
    found = other.run(name, f"stepper.dt={whole.scalars['dt']!r}", *overrides)
    wrong = differing(whole.states, found.states, AGREE[tables["model"]["precision"]])
    return [f"{other.engine} on two {name}, in comparison with {case.engine} on one: {what}" for what in wrong]


def _pair(folder, seed):
    """What a draw's run on two ranks shows, in comparison with that on one."""
    from . import draws

    basin, tables = draws.drawn(seed)
    case = Case(folder, folder / basin / f"case-{seed}.toml", "fused" if seed % 2 else "arrays")
    if not list((case.folder / "whole").glob("restart.*")):
        return {"wrong": []}
    try:
        return {"wrong": _other_way(case, tables, End.of(case.folder / "whole"), "ranks")}
    except TileError:
        return {"wrong": []}


# -- and the one that starts them --------------------------------------------------------------------------------------


def combinations(seeds, folder, seconds=3600.0, pairs=PAIRS, devices=1):
    """The draws of these numbers that can be begun in so many `seconds`; returns the Tally.

    Every `pairs`-th also runs on two ranks, every `devices`-th on two devices (none of them for 0).
    """
    from . import draws
    from .basins import write_files

    tally, until = Tally(), time.time() + seconds
    for batch in Budget("combinations", -(-len(seeds) // BATCH), seconds).trials():
        with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as place:
            write_files(Path(place))
            some = seeds[batch * BATCH : (batch + 1) * BATCH]
            _process("runs", Path(place), some, tally, until, devices)
            if pairs and launch.mpi_installed():
                _process("pairs", Path(place), [seed for seed in some if seeds.index(seed) % pairs == 0], tally, until)
            for seed in tally.seeds & set(some):
                kinds = draws.kinds(*draws.drawn(seed))
                tally.kinds.update(kinds)
                tally.pairs |= set(itertools.combinations(sorted(kinds & set(draws.SUBJECTS)), 2))
    for many, most, what in ((tally.refused, MOST_REFUSED, "were refused"), (tally.stopped, MOST_STOPPED, "blew up")):
        if many > most * max(tally.draws, BATCH):
            tally.wrong.append(f"{many} of {tally.draws} draws {what}: these try little")
    return tally


def _process(kind, folder, seeds, tally, until, every=1):
    """Run `work` for draws; a process that dies counts as wrong, and the next one goes on after its draw."""
    while seeds and time.time() < until and not STOPPED.is_set():
        numbers = map(str, (until, every, *seeds))
        command = [sys.executable, "-m", "tests.faults.combinations", kind, str(folder), *numbers]
        command = [*(launch.mpirun(RANKS) if kind == "pairs" else []), *command]
        environment = {**launch.mpirun_environment(), **QUICKLY, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
        if kind == "runs":
            environment["JAX_NUM_CPU_DEVICES"] = str(RANKS)
        environment |= {"XDG_CACHE_HOME": str(folder / "cache"), MARK: "combinations"}
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
            try:
                last, finished = _take(kind, process.stdout, tally)
                status = 0 if STOPPED.is_set() else process.wait()
            finally:
                if process.poll() is None:
                    launch.stop(process)
            errors.seek(0)
            text = errors.read().decode(errors="replace")[-600:]
        if last is None and status == 0:  # the time was up
            return
        if last is None:
            raise RuntimeError(f"the process of {kind} ended with status {status}: {text}")
        if not finished:
            tally.seeds |= {last} if kind == "runs" else set()
            tally.notice(last, [f"the process of {kind} ended with status {status}: {text}"])
        seeds = seeds[seeds.index(last) + 1 :]


def _take(kind, lines, tally):
    """(the last draw that was begun, whether it was finished) in the lines of a process, until all are to stop."""
    last, finished = None, False
    for line in lines:
        if not line.startswith("{"):
            continue
        entry = json.loads(line)
        last, finished = entry["seed"], "begun" not in entry
        if finished:
            tally.seeds |= {last} if kind == "runs" else set()
            tally.refused += entry.get("refused", False)
            tally.stopped += entry.get("stopped", False)
            tally.on_two += entry.get("on_two", False)
            tally.notice(last, entry["wrong"])
            if STOPPED.is_set():
                break
    return last, finished


if __name__ == "__main__":
    work(sys.argv[1], Path(sys.argv[2]), list(map(int, sys.argv[5:])), float(sys.argv[3]), int(sys.argv[4]))
