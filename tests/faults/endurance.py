"""A small gyre for a million steps in one process, with every kind of output: does memory grow, is mass kept?

    python -m tests.faults.endurance FOLDER STEPS [CELLS]

runs it and prints one line of JSON; `measure` starts that and reads the line.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = 200  # of the resident memory, along the run
WARM_UP = 0.1  # share of the steps after which memory counts
DEPTH = 1000.0  # [m]


def simulation(folder, steps, cells=20):
    """The gyre, with `cells` of 50 km along each side, in float64."""
    import swmodel as sw

    size, dt = cells * 50e3, 1200.0
    grid = sw.CartesianGrid(nx=cells, ny=cells, x=(0.0, size), y=(0.0, size))
    model = sw.ShallowWater(
        grid,
        depth=DEPTH,
        gravity=0.02,
        coriolis=sw.BetaPlane(f0=7e-5, beta=2e-11),
        forcing=sw.WindStress(x=lambda x, y: -0.1 * np.cos(2 * np.pi * y / size)),
        dissipation=sw.Laplacian(2000.0),
        side=sw.NoSlip(),
    )
    run = sw.Simulation(model, model.at_rest(), sw.ForwardBackward(dt=dt))
    run.write(folder / "fields.nc", ("eta", "u", "v"), every=max(steps // 2000, 20) * dt)
    run.gauges(folder / "gauges.nc", {"west": (0.2 * size, 0.3 * size), "middle": (0.5 * size, 0.5 * size)})
    run.maxima(folder / "maxima.nc").restart(folder / "restart.nc", every=max(steps // 200, 1000) * dt)
    return run


def resident():
    """Resident memory of this process [MB]."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def child(folder, steps, cells):
    """Run the gyre here; return what `measure` describes, as far as a process can know it of itself."""
    from swmodel.runtime import launch

    launch.configure_process(precision="float64")
    run, samples = simulation(folder, steps, cells), []

    def progress(step, *rest):
        if step >= len(samples) * steps / SAMPLES:
            samples.append((step, resident()))

    state = run.run(steps=steps, progress=progress)
    eta = np.asarray(state.eta, np.float64)
    return {"steps": run.step, "samples": samples, "mass": float(abs(eta.mean()) / DEPTH), "rise": float(eta.max())}


def growth(samples):
    """Relative growth of memory from WARM_UP to the end, along the straight line through the samples after it."""
    steps, memory = np.array(samples, float).T
    late = steps >= WARM_UP * steps[-1]
    slope, start = np.polyfit(steps[late] - steps[late][0], memory[late], 1)
    return float(slope * (steps[late][-1] - steps[late][0]) / start)


def measure(folder, steps, cells=20, timeout=3600):
    """Run `steps` steps in a process of their own.

    Returns:
        dict: `growth` of resident memory from 10 % of the steps to the end, relative; `mass`, the change of the mean
        elevation over the depth; `rise`, the largest elevation [m]; `samples`, [(step, MB)].
    """
    command = [sys.executable, "-m", "tests.faults.endurance", str(folder), str(steps), str(cells)]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout)
    if done.returncode:
        raise RuntimeError(f"the endurance run ended with status {done.returncode}: {done.stderr[-2000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    return {**found, "growth": growth(found["samples"])}


if __name__ == "__main__":
    print(json.dumps(child(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if sys.argv[3:] else 20)))
