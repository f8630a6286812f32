"""The demo: examples/shallow_water.py of mpi4jax's source distribution, as a worker of the benchmarks.

Its code is fetched from the package index when the benchmark runs and never kept here. It is unchanged except for the
number of cells and the spacing that keeps its domain at 1800 km x 900 km: its jet is a fraction of the domain wide, and
in a domain ten times as wide its balanced elevation would be deeper than its ocean. One argument: a JSON object with
source, size and batch.

mpi4jax: Hafner & Vicentini (2021), doi:10.21105/joss.03419.
"""

import json
import re
import subprocess
import sys
import tarfile
import time
from pathlib import Path

VERSION = "0.9.1.post2"
MEMBER = "examples/shallow_water.py"


def fetch(folder):
    """The path of the demo, downloaded once into `folder`.

    Raises:
        OSError: if it cannot be had.
    """
    folder = Path(folder)
    script = folder / f"mpi4jax-{VERSION}-shallow_water.py"
    if script.exists():
        return script
    folder.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-binary", ":all:", "--no-deps", "-d", str(folder)]
    for isolation in (["--no-build-isolation"], []):
        done = subprocess.run([*pip, *isolation, f"mpi4jax=={VERSION}"], capture_output=True, text=True)
        if done.returncode == 0:
            break
    archives = sorted(folder.glob("mpi4jax-*.tar.gz"))
    if not archives:
        said = done.stderr.strip().splitlines() or ["pip said nothing"]
        raise OSError(f"the demo of mpi4jax {VERSION} cannot be downloaded: {said[-1]}")
    with tarfile.open(archives[-1]) as archive:
        member = next(name for name in archive.getnames() if name.endswith(MEMBER))
        script.write_bytes(archive.extractfile(member).read())
    return script


def load(source, nx, ny):
    """The demo's names, with nx x ny cells."""
    text = Path(source).read_text()
    spacing = f"5e3 * 360 / {nx}"
    for name, value in (("nx_global", f"{nx} + 2"), ("ny_global", f"{ny} + 2"), ("dx", spacing), ("dy", spacing)):
        text, found = re.subn(rf"^{name} = .*$", f"{name} = {value}", text, flags=re.MULTILINE)
        if found != 1:
            raise ValueError(f"the demo sets {name} {found} times, and should once: is it mpi4jax {VERSION}'s?")
    names = {"__name__": "demo"}
    exec(compile(text, source, "exec"), names)
    return names


def main(options):
    sys.argv = [options["source"], "--benchmark"]
    demo = load(options["source"], *options["size"])
    import jax
    from worker import serve

    begin = time.perf_counter()
    zeros = [jax.numpy.zeros((demo["ny_local"], demo["nx_local"])) for _ in range(3)]
    with jax.disable_jit():  # compiled, XLA would take minutes to fold what is constant in them
        initial = demo["get_initial_conditions"]()
    state = demo["ModelState"](*initial, *zeros)
    state = demo["shallow_water_step"](state, True)
    advance, batch, world = demo["do_multistep"], options["batch"], demo["mpi_comm"].Dup()
    jax.block_until_ready(advance(state, batch))

    def run(steps):
        nonlocal state
        world.Barrier()
        begin = time.perf_counter()
        for _ in range(int(steps) // batch):
            state = advance(state, batch)
        jax.block_until_ready(state)
        world.Barrier()
        return "took", time.perf_counter() - begin

    def largest(_):
        return "largest", world.allreduce(float(abs(state.u).max()), max)

    info = {"batch": batch, "ranks": world.size, "ready_seconds": time.perf_counter() - begin}
    serve(info, world, run=run, largest=largest)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
