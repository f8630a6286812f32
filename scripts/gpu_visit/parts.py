"""The parts of a visit to a machine with a GPU, one in each process: python scripts/gpu_visit/parts.py NAME.

They print `name=value` lines, and end with status 1 where a value exceeds its limit. What is compared, SYSTEMS and
gradients, is the same as what `make gpu` counts (benchmarks/gpu/programs.py).
"""

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks" / "gpu")]
SCRATCH, REHEARSAL = Path(os.environ["SCRATCH"]), bool(os.environ.get("REHEARSAL"))
SIDE = 48  # cells of what is compared
QUICK = ("forward_backward", "coast", "layers")  # what a rehearsal computes
GRADIENTS = ("ab2", "forward_backward")
TOLERANCE = 1e-4  # of float32 after STEPS steps, relative to the largest value


def systems():
    import jax
    from programs import SYSTEMS

    jax.config.update("jax_enable_x64", True)
    return {name: SYSTEMS[name] for name in (QUICK if REHEARSAL else SYSTEMS)}


def prepared(system, side):
    """(function of a State that makes STEPS steps, the State)."""
    import jax
    from programs import STEPS

    import swmodel as sw

    make, stepper, options = system
    (model, state), scheme = make(side, side, **options), stepper()
    dynamics = model.dynamics(scheme, steps=STEPS)
    return jax.jit(lambda state: sw.integrate(dynamics, scheme, state, STEPS)[0]), state


def gradient_of(steps):
    import jax
    import jax.numpy as jnp

    return jax.jit(jax.grad(lambda state: jnp.sum(steps(state).eta ** 2)))


def seconds(function, *arguments):
    """The least of three, after one call that compiles."""
    import jax

    times = []
    for _ in range(4):
        begin = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        times.append(time.perf_counter() - begin)
    return min(times[1:])


def smoke():
    """Versions, devices, and ten steps."""
    import jax
    import numpy as np

    print(f"Python {sys.version.split()[0]}, JAX {jax.__version__}, devices {jax.devices()}", flush=True)
    function, state = prepared(systems()["forward_backward"], SIDE)
    assert np.isfinite(np.asarray(function(state).eta)).all()
    subprocess.run([sys.executable, "-m", "swmodel", "doctor"], cwd=ROOT)


def bandwidth():
    from swmodel.performance.prediction import triad_bandwidth

    print(f"gpu_triad_bytes_per_second={triad_bandwidth(1 << 20 if REHEARSAL else None):.4g}")


def steps():
    """The time of a step as one program, and the share of the memory bandwidth that it reaches."""
    from swmodel.performance.prediction import triad_bandwidth
    from swmodel.performance.timing import Program

    triad = triad_bandwidth(1 << 20 if REHEARSAL else None)
    for name, (make, stepper, options) in systems().items():
        for side in (SIDE,) if REHEARSAL else (4096, 512):
            program = Program(*make(side, side, **options), stepper(), 240 if side < 4096 else 48)
            took, least = program.measure(3), program.bytes_moved(side * side)
            print(f"gpu_milliseconds_{name}_{side}={1e3 * took:.4g}")
            print(f"gpu_gigacell_steps_{name}_{side}={side * side / took / 1e9:.4g}")
            print(f"gpu_triad_fraction_{name}_{side}={least / took / triad:.3g}")
            print(f"gpu_compile_seconds_{name}_{side}={program.compile_seconds:.3g}", flush=True)


def gradients():
    known = systems()
    for name in GRADIENTS if not REHEARSAL else QUICK[:1]:
        function, state = prepared(known[name], SIDE if REHEARSAL else 2048)
        ratio = seconds(gradient_of(function), state) / seconds(function, state)
        print(f"gpu_gradient_over_forward_{name}={ratio:.3g}", flush=True)


def run():
    """A Simulation with its checks over the bare program."""
    import swmodel as sw
    from swmodel.performance.timing import Program

    make, stepper, options = systems()["forward_backward"]
    side, count = (SIDE, 48) if REHEARSAL else (2048, 2400)
    model, state = make(side, side, **options)
    bare = Program(model, state, stepper(), count).measure(3)
    simulation = sw.Simulation(model, state, stepper())
    simulation.run(steps=count)
    begin = time.perf_counter()
    simulation.run(steps=count)
    print(f"gpu_run_over_step_{side}={(time.perf_counter() - begin) / count / bare:.3g}")


def computed():
    """{name: array} of all that is compared: the States after STEPS steps, and gradients."""
    import jax
    import numpy as np

    found, known = {}, systems()
    for name, system in known.items():
        function, state = prepared(system, SIDE)
        trees = {name: function(state)}
        if name in GRADIENTS:
            trees[f"gradient_{name}"] = gradient_of(function)(state)
        for key, tree in trees.items():
            found |= {f"{key}_{n}": np.asarray(x) for n, x in enumerate(jax.tree.leaves(tree))}
        print(f"{name}: done", flush=True)
    return found


def reference():
    import numpy as np

    np.savez(SCRATCH / "reference.npz", **computed())


def correct():
    """The difference of this device from the CPU, which `reference` has computed with."""
    import numpy as np

    expected, worst = np.load(SCRATCH / "reference.npz"), {}
    for name, value in computed().items():
        scale = np.abs(expected[name]).max() or 1.0
        worst[name] = float(np.abs(value - expected[name]).max() / scale)
        print(f"worst_{name}={worst[name]:.2g} (at most {TOLERANCE:g})")
    assert all(error <= TOLERANCE for error in worst.values()), "the device does not compute what the CPU does"


def swmodel(*arguments, ranks=1):
    mpirun = [Path(sys.executable).parent / "mpirun", "-n", str(ranks)] if ranks > 1 else []
    command = [*mpirun, sys.executable, "-m", "swmodel", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    print(done.stdout[-1500:], done.stderr[-1500:], flush=True)
    assert done.returncode == 0, f"{arguments[0]} on {ranks} ranks ended with status {done.returncode}"


def ranks():
    """Two ranks on one GPU compute what one does, and their messages."""
    import netCDF4
    import numpy as np

    last = {}
    for count in (1, 2):
        folder = SCRATCH / f"gyre{count}"
        until = "10 day" if REHEARSAL else "20 day"
        swmodel("run", "experiments/double_gyre.toml", "-o", str(folder), "--until", until, ranks=count)
        with netCDF4.Dataset(folder / "fields.nc") as file:
            last[count] = {name: np.asarray(file[name][-1]) for name in ("eta", "u", "v")}
    for name, one in last[1].items():
        error = float(np.abs(last[2][name] - one).max() / np.abs(one).max())
        print(f"worst_ranks_{name}={error:.2g} (at most {TOLERANCE:g})")
        assert error <= TOLERANCE


def demo():
    begin = time.perf_counter()
    until = ["--until", "2 minute"] if REHEARSAL else []
    swmodel("run", "experiments/tohoku_2011/tohoku.toml", "-o", str(SCRATCH / "tohoku"), *until)
    print(f"gpu_demo_seconds={time.perf_counter() - begin:.4g}")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
