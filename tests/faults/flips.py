"""Flipped bits in a restart: each is noticed, with one sentence, or changes nothing that a run takes from it.

    python -m tests.faults.flips RESTART.nc|RESTART.zarr COUNT SEED

Each damaged copy is read in a process of its own: HDF5 may crash or loop on what it was not made for.
"""

import dataclasses
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

from swmodel.errors import DataError
from swmodel.output.resuming import opened

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 20  # [s] for reading one file
NOTICED, HARMLESS, UNNOTICED, UNCLEAR = range(4)  # exit statuses of the process that reads


def flipped(whole, regions, rng):
    """(a copy of the bytes `whole` with one bit flipped, the place); half of them in any case outside `regions`."""
    while True:
        place = rng.randrange(len(whole))
        if rng.random() < 0.5 or not any(begin <= place < end for begin, end in regions):
            broken = bytearray(whole)
            broken[place] ^= 1 << rng.randrange(8)
            return broken, place


def regions_of(whole, restart):
    """[(begin, end)] of the arrays' bytes in the file."""
    found = []
    for array in restart.arrays.values():
        begin = whole.find(array.tobytes())
        if begin >= 0:
            found.append((begin, begin + array.nbytes))
    return found


def read(path):
    """The Restart in a file or a store, with its arrays in memory."""
    restart = opened(path)
    return dataclasses.replace(restart, arrays={name: np.asarray(array) for name, array in restart.arrays.items()})


def taken(restart):
    """Everything that a run takes from a restart, to be compared."""
    arrays = {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in restart.arrays.items()}
    return arrays, restart.scalars, restart.attributes, restart.grid


def judged(path, expected):
    """One of the exit statuses above, and why."""
    try:
        same = taken(read(path)) == expected
    except DataError as error:
        text = str(error)
        clear = str(path) in text and "\n" not in text and "Traceback" not in text
        return (NOTICED if clear else UNCLEAR), text
    except Exception as error:  # noqa: BLE001 - a traceback is what this looks for
        return UNCLEAR, f"{type(error).__name__}: {error}"
    return (HARMLESS if same else UNNOTICED), "the content differs"


def read_apart(path, expected):
    """(exit status, why) of a process that reads `path`: negative for the signal that ended it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(PATIENCE)
        status, why = judged(path, expected)
        os.write(writer, why.encode()[:2000])
        os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as opened:
        why = opened.read()
    _, ended = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(ended), why


def flips(path, count, seed=0):
    """Flip `count` bits of the restart at `path`, one at a time; in a store half of them in its zarr.json.

    Returns:
        dict: `flips`, of them `noticed` and `harmless`; the others are `wrong`, a sentence each.
    """
    path, rng = Path(path), random.Random(seed)
    damaged, restart = path.with_name(f"damaged{path.suffix}"), read(path)
    (shutil.copytree if path.is_dir() else shutil.copy)(path, damaged)
    files = sorted(file for file in damaged.rglob("*") if file.is_file()) or [damaged]
    head, expected = damaged / "zarr.json" if path.is_dir() else damaged, taken(restart)
    found = {"flips": 0, "noticed": 0, "harmless": 0, "in_data": 0, "wrong": []}
    for number in range(count):
        file = head if rng.random() < 0.5 else rng.choice(files)
        whole = file.read_bytes()
        regions = regions_of(whole, restart) if file == damaged else [(0, len(whole))] * (file.name != "zarr.json")
        broken, place = flipped(whole, regions, rng)
        file.write_bytes(broken)
        status, why = read_apart(damaged, expected)
        file.write_bytes(whole)
        found["flips"] += 1
        found["in_data"] += any(begin <= place < end for begin, end in regions)
        if status == NOTICED:
            found["noticed"] += 1
        elif status == HARMLESS:
            found["harmless"] += 1
        else:
            how = f"signal {-status} ended the reader" if status < 0 else why
            found["wrong"].append(f"flip {number}, byte {place} of {file.relative_to(damaged.parent)}: {how}")
    return found


def measure(path, count, seed=0, timeout=600):
    """What `flips` returns, from a process without JAX, which can be forked safely and fast."""
    command = [sys.executable, "-m", "tests.faults.flips", str(path), str(count), str(seed)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout)
    if done.returncode:
        raise RuntimeError(f"the flips ended with status {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    print(json.dumps(flips(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
