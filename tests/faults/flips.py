"""Flipped bits in a restart file: each is noticed, with one sentence, or changes nothing that a run takes from it.

    python -m tests.faults.flips RESTART.nc COUNT SEED

Each damaged copy is read in a process of its own: HDF5 may crash or loop on what it was not made for.
"""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

from swmodel.errors import DataError
from swmodel.output.restart import read_restart

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


def taken(restart):
    """Everything that a run takes from a restart, to be compared."""
    arrays = {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in restart.arrays.items()}
    return arrays, restart.scalars, restart.attributes, restart.grid


def judged(path, expected):
    """One of the exit statuses above, and why."""
    try:
        same = taken(read_restart(path)) == expected
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
    """Flip `count` bits of the restart at `path`, one at a time.

    Returns:
        dict: `flips`, of them `noticed` and `harmless`; the others are `wrong`, a sentence each.
    """
    path, rng = Path(path), random.Random(seed)
    whole, expected = path.read_bytes(), taken(read_restart(path))
    regions, damaged = regions_of(whole, read_restart(path)), path.with_name("damaged.nc")
    found = {"flips": 0, "noticed": 0, "harmless": 0, "in_data": 0, "wrong": []}
    for number in range(count):
        broken, place = flipped(whole, regions, rng)
        damaged.write_bytes(broken)
        status, why = read_apart(damaged, expected)
        found["flips"] += 1
        found["in_data"] += any(begin <= place < end for begin, end in regions)
        if status == NOTICED:
            found["noticed"] += 1
        elif status == HARMLESS:
            found["harmless"] += 1
        else:
            how = f"signal {-status} ended the reader" if status < 0 else why
            found["wrong"].append(f"flip {number}, byte {place}: {how}")
    damaged.unlink(missing_ok=True)
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
