"""All benchmarks: `make bench`, within 45 minutes on two cores.

    python benchmarks/run.py [--size 3600x1800] [--small 512x512] [--repeats 7] [--cores 2] [--minutes 40] [--only step]

Each file of benchmarks/figures/ gives some figures: NAMES, and measure(bench), which records each by bench.figure(...),
or by bench.missing(...) with the reason. A new file there is a new part of the bench. All times and versions go to
bench.json; the figures come last, one `name=value` a line.
"""

import argparse
import importlib
import json
import os
import platform
import sys
import time
import traceback
from pathlib import Path

from harness import HERE, ROOT, Bench, NotMeasured

from swmodel.performance.prediction import last_cache
from swmodel.runtime.packages import git_commit, versions

ORDER = ("step", "ranks", "communication", "prediction", "gpu")  # others follow, in the order of their names


def shape(text):
    try:
        nx, ny = map(int, text.split("x"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write columns x rows, as 3600x1800") from None
    return nx, ny


def parts(only):
    """The modules of benchmarks/figures/, in order."""
    names = [path.stem for path in sorted((HERE / "figures").glob("*.py"))]
    unknown = sorted(set(only or ()) - set(names))
    if unknown:
        sys.exit(f"bench: --only {','.join(unknown)} is none of {', '.join(names)}")
    chosen = sorted(names, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))
    return [importlib.import_module(f"figures.{name}") for name in chosen if not only or name in only]


def measure(bench, module, deadline):
    """Run one part; figures that it did not measure are recorded with the reason."""
    bench.say(f"{module.__name__.removeprefix('figures.')}: {module.__doc__.strip().splitlines()[0]}")
    why = "it was not reached"
    try:
        if time.monotonic() > deadline:
            raise NotMeasured("the time for the benchmarks was over; give more with --minutes")
        module.measure(bench)
    except NotMeasured as error:
        why = error
    except Exception as error:  # noqa: BLE001  the other parts are worth having
        traceback.print_exc()
        why = f"{type(error).__name__}: {error}"
    for name in module.NAMES:
        if name not in bench.figures:
            bench.missing(name, why)


def write(bench, path, begun):
    """bench.json: sizes, repeats, raw times, versions, processor."""
    figures = {
        figure.name: {
            "value": figure.value,
            **({"why": figure.why} if figure.why else {}),
            "required": {k: v for k in ("at_least", "at_most") if (v := getattr(figure, k)) is not None},
            **figure.details,
        }
        for figure in bench.figures.values()
    }
    record = {
        "size": bench.size,
        "small": bench.small,
        "repeats": bench.repeats,
        "cores": bench.cores,
        "machine": {
            "processor": processor(),
            "cores": os.cpu_count(),
            "last_cache": last_cache(),
            "system": platform.platform(),
        },
        "load_at_start": bench.load,
        "minutes": (time.monotonic() - begun) / 60,
        "versions": versions(),
        "commit": git_commit(),
        "figures": figures,
        "times": bench.raw,
        "workers": bench.workers,
    }
    path.write_text(json.dumps(record, indent=1, default=str) + "\n")


def processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def first_threads():
    """A CPU of each core that this process may use: two hardware threads of one core would be no two cores."""
    found = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        found.setdefault(siblings.read_text() if siblings.exists() else cpu, cpu)
    return list(found.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=shape, default=(3600, 1800), help="columns x rows of the large case")
    parser.add_argument("--small", type=shape, default=(512, 512), help="of the small one")
    parser.add_argument("--repeats", type=int, default=7, help="timings of each side of a ratio")
    parser.add_argument("--cores", type=int, default=2, help="how many cores everything runs on")
    parser.add_argument("--minutes", type=float, default=40.0, help="after which no further part is begun")
    parser.add_argument("--only", type=lambda text: text.split(","), help="parts, as step,ranks")
    parser.add_argument("--json", type=Path, default=Path("bench.json"), help="where the record goes")
    arguments = parser.parse_args()
    begun = time.monotonic()
    cores = first_threads()[: arguments.cores]
    os.sched_setaffinity(0, cores)
    bench = Bench(arguments.size, arguments.small, arguments.repeats, cores, ROOT / "output" / "bench")
    bench.load = os.getloadavg()
    if bench.load[0] > 0.5:
        bench.say(f"bench: this machine is busy (load {bench.load[0]:.1f}); figures of today count for little.")
    for module in parts(arguments.only):
        measure(bench, module, begun + 60 * arguments.minutes)
        write(bench, arguments.json, begun)
    report(bench)


def report(bench):
    """Print the requirements and whether they are met on standard error, and then the figures on standard output."""
    for figure in bench.figures.values():
        if figure.mark:
            value = "" if figure.value is None else f"{figure.value:.4g}"
            bench.say(f"{figure.name:34s} {value:>10s}  {figure.mark}")
    for figure in bench.figures.values():
        print(figure)
    if (c := bench.workers.get("compiler")) is not None:
        print(f"C: {c['version']}: {c['compiler']}, vectors of {c['vector_bytes']} bytes")


if __name__ == "__main__":
    main()
