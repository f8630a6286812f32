"""Compile programs for a GPU that this machine need not have, and count what they launch and move: `make gpu`.

    python benchmarks/gpu/run.py [CASE ...] [--target h100] [--size 2048x2048] [--roofline FILE]

XLA compiles for a GPU that a description of it stands for (h100.txtpb, a100.txtpb). The first call brings CUDA's
compiler and JAX's plugin from the package index into the folder gpu/ of the environment, 300 MB; the environment itself
stays as it is. For each case it prints, per cell and step unless the line names another unit,

    gpu_bytes        bytes read and written, if each kernel reads its operands once (count.py)
    gpu_launches     kernels and copies a step
    gpu_host_reads   loops and branches of the program that are in no command buffer: the host reads their conditions
    gpu_registers    of the kernel that uses most
    gpu_spills       bytes of registers that kernels of the fused loops keep in memory
    gpu_operations   of the kernels of fused loops, those that several cells repeat as often as they do
    gpu_peak         memory, in arrays of the tile
    gpu_speed        10^9 cell-steps a second at nine tenths of the memory bandwidth, if nothing else takes time
    gpu_compile_seconds   of processors, to trace and compile it; with a limit where kernels are the longest
"""

import argparse
import importlib.metadata
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from count import CHECKED_EVERY, count

HERE = Path(__file__).resolve().parent
WHEELS = Path(sys.prefix) / "gpu"
ROOT = HERE.parent.parent
TARGETS = {"h100": 3.35e12, "a100": 2.04e12}  # bytes a second of their memories
ARITHMETIC = {"h100": 33.5e12, "a100": 9.75e12}  # operations a second in float32, of which a product and a sum are two
PACKAGES = ("nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-nvjitlink", "nvidia-cuda-crt", "nvidia-cuda-runtime")
PTXAS = """#!/bin/sh
# CUDA's assembler, which also writes what registers it has used to the file that SWMODEL_PTXAS names
exec "$(dirname "$0")/ptxas.cuda" -v "$@" 2>>"${SWMODEL_PTXAS:-/dev/null}"
"""
LIMITS = {  # the largest value that each may have
    "gpu_bytes_ab2": 60,
    "gpu_bytes_forward_backward": 60,
    "gpu_bytes_flather": 80,
    "gpu_bytes_coast": 160,
    "gpu_bytes_gradient": 220,
    "gpu_launches_ab2": 6,
    "gpu_launches_forward_backward": 6,
    "gpu_host_reads_run": 0,
    "gpu_host_reads_run_outputs": 0,
    "gpu_run_over_step": 1.15,
    "gpu_spills": 0,
    "gpu_compile_seconds_coast": 20,
}


def install():
    """Bring the plugin and CUDA's compiler into WHEELS, and let the latter say which registers it uses."""
    if (WHEELS / "complete").exists():
        return
    version = importlib.metadata.version("jaxlib")
    names = [f"jax-cuda13-plugin=={version}", f"jax-cuda13-pjrt=={version}", *PACKAGES]
    print(f"gpu: installing {', '.join(names)} into {WHEELS}", flush=True)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--upgrade"]
    subprocess.run([*pip, "-c", ROOT / "constraints.txt", "--target", WHEELS, *names], check=True)
    assembler = WHEELS / "nvidia" / "cu13" / "bin" / "ptxas"
    assembler.rename(assembler.with_name("ptxas.cuda"))
    assembler.write_text(PTXAS)
    assembler.chmod(0o755)
    (WHEELS / "complete").touch()


class Compiler:
    """Compiles functions for one target, in this process, which has no GPU."""

    def __init__(self, target, folder):
        import jax
        from jax.experimental import topologies

        description = (HERE / f"{target}.txtpb").read_text()
        topology = topologies.get_topology_desc(platform="cuda", target_config=description, topology="1x1x1")
        self.sharding = jax.sharding.SingleDeviceSharding(topology.devices[0])
        self.kind, self.folder = topology.devices[0].device_kind, folder
        self.log = folder / "ptxas.txt"
        os.environ["SWMODEL_PTXAS"] = str(self.log)
        jax.config.update("jax_enable_compilation_cache", False)
        jax.default_backend = lambda: "gpu"  # programs are traced as in a process that has one

    def measure(self, program, nx, ny, is_run):
        """{quantity: value} of one case, which may be a run with what it does between its steps."""
        import jax

        from swmodel.runtime.compilation import OPTIONS, lowering_for

        function, arguments, donated, steps = program(nx, ny)
        self.log.write_text("")
        begin = processor_seconds()
        with lowering_for(self.kind):
            traced = jax.jit(function, donate_argnums=donated).trace(*jax.tree.map(self._abstract, arguments))
            compiled = traced.lower(lowering_platforms=("cuda",)).compile(compiler_options=OPTIONS["gpu"])
        seconds = processor_seconds() - begin
        numbers = max((x for x in jax.tree.leaves(arguments) if getattr(x, "ndim", 0) >= 2), key=lambda x: x.size)
        tile = nx * ny * numbers.dtype.itemsize
        counts = count(compiled.as_text())
        moved, launches = (per_step_of_run if is_run else per_step)(counts, steps)
        return {
            "bytes": moved / (nx * ny),
            "launches": launches,
            "operations": operations_of(traced.jaxpr) / steps,
            "host_reads": self._host_reads() if counts.conditions else 0,
            **self._registers(),
            "peak": compiled.memory_analysis().peak_memory_in_bytes / tile,
            "compile_seconds": seconds,
        }

    def _abstract(self, x):
        import jax

        is_array = hasattr(x, "shape") and hasattr(x, "dtype")
        return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=self.sharding) if is_array else x

    def _host_reads(self):
        """The loops and branches of the newest program that are in no command buffer."""
        texts = self.folder.glob("*thunk_sequence_after_thunk_passes.txt")
        buffers, outside = [], 0
        for line in max(texts, key=lambda path: path.stat().st_mtime_ns).read_text().splitlines():
            match = re.match(r"( *)\d+: (k\w+)", line)
            if match:
                indent = len(match[1])
                buffers = [at for at in buffers if at < indent]
                outside += match[2] in ("kWhile", "kConditional") and not buffers
                buffers += [indent] if match[2] == "kCommandBuffer" else []
        return outside

    def _registers(self):
        text = self.log.read_text()
        spilled = re.findall(r"(\d+) bytes spill stores", text)
        return {
            "registers": max(map(int, re.findall(r"Used (\d+) registers", text)), default=0),
            "spills": sum(map(int, spilled)),
        }


def operations_of(jaxpr):
    """Those a cell of the kernels of fused loops; of a loop whose number of iterations is unknown, of one of them."""
    from swmodel.stencils.pallas import parts

    total = 0
    for equation in jaxpr.eqns:
        if "graph" in equation.params:
            total += sum(sum(map(len, part.graph.reached.values())) for part in parts(equation.params["graph"]))
        inner = [x for value in equation.params.values() for x in (value if isinstance(value, tuple) else (value,))]
        within = [operations_of(getattr(x, "jaxpr", x)) for x in inner if hasattr(getattr(x, "jaxpr", x), "eqns")]
        total += equation.params.get("length", 1) * (max if equation.primitive.name == "cond" else sum)(within or [0])
    return total


def draw_roofline(target, figures, file):
    """The operations a second that memory and arithmetic allow, over operations a byte, and the cases there."""
    import matplotlib.pyplot as plt
    import numpy as np

    bandwidth, peak = 0.9 * TARGETS[target], ARITHMETIC[target]
    figure, axes = plt.subplots(figsize=(9, 5), layout="constrained")
    along = np.linspace(0.0, 16.0, 200)
    axes.plot(along, np.minimum(bandwidth * along, peak) / 1e12, color="black", linewidth=1)
    names = [name for (kind, name), x in figures.items() if kind == "operations" and x > 0 and "run" not in name]
    ratios = {name: figures["operations", name] / figures["bytes", name] for name in names}
    for number, name in enumerate(sorted(names, key=ratios.get), 1):
        reached = min(bandwidth * ratios[name], peak)
        speed = reached / figures["operations", name] / 1e9
        axes.plot(ratios[name], reached / 1e12, "o", markersize=4, label=f"{number} {name}: {speed:.2g}")
        place = (-14, 4) if number % 2 else (6, -10)
        axes.annotate(number, (ratios[name], reached / 1e12), place, textcoords="offset points", fontsize=8)
    axes.set(xlabel="operations a byte", ylabel="10^12 operations a second", xlim=(0.0, 16.0), ylim=(0.0, None))
    axes.set_title(
        f"{target.upper()}: what memory and arithmetic allow in float32, 10^9 cell-steps a second", fontsize=10
    )
    figure.legend(loc="outside right upper", fontsize=8, handlelength=0.5, frameon=False)
    figure.savefig(file, dpi=120)


def processor_seconds():
    """Of this process and of the assemblers that it has started."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def per_step(counts, steps):
    """(bytes, launches) of a step: of loops over `steps` steps, or of one iteration if their number is unknown."""
    loops = counts.loops
    if any(trips is None for trips, _ in loops):
        loops = [(1, max((body for _, body in loops), key=total_bytes))]
    return tuple(sum((trips or 1) * of(body) for trips, body in loops) / steps for of in (total_bytes, total_launches))


def per_step_of_run(counts, steps):
    """(bytes, launches) of a step of a run: a loop over parts, in which there is a loop over `steps` steps each.

    A part has CHECKED_EVERY steps or more. One of them keeps its state, by a loop of one iteration or none.
    """
    part = max((body for _, body in counts.loops), key=total_bytes)
    several = max((body for _, body in part.loops), key=total_bytes)
    keeping = [body for _, body in several.loops]
    return tuple(
        (of(several) - sum(map(of, keeping)) * (1 - 1 / CHECKED_EVERY)) / steps + own / CHECKED_EVERY
        for of, own in ((total_bytes, part.bytes), (total_launches, part.launches))
    )


def total_bytes(counts):
    return counts.bytes + sum((trips or 1) * total_bytes(body) for trips, body in counts.loops)


def total_launches(counts):
    return counts.launches + sum((trips or 1) * total_launches(body) for trips, body in counts.loops)


def report(name, value):
    """Print one figure, with its limit; return whether it is met."""
    limit = LIMITS.get(name)
    print(f"{name}={value:.4g}" + ("" if limit is None else f" (at most {limit:g})"), flush=True)
    return limit is None or value <= limit


def main():
    install()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="all but the longest by default")
    parser.add_argument("--target", choices=sorted(TARGETS), default="h100")
    parser.add_argument("--size", type=lambda text: tuple(map(int, text.split("x"))), default=(2048, 2048))
    parser.add_argument("--roofline", type=Path, metavar="FILE", help="draw what memory and arithmetic allow")
    arguments = parser.parse_args()
    import jax
    from programs import CASES, LONGEST

    unknown = [name for name in arguments.cases if name not in CASES]
    if unknown:
        parser.error(f"there is no case {', '.join(unknown)}; give some of {', '.join(CASES)}")
    met, figures = [], {}
    compiler = Compiler(arguments.target, FOLDER)
    for name in arguments.cases or [name for name in CASES if name not in LONGEST]:
        jax.config.update("jax_enable_x64", name.endswith("float64"))
        for quantity, value in compiler.measure(CASES[name], *arguments.size, name.startswith("run")).items():
            figures[quantity, name] = value
            met.append(report(f"gpu_{quantity}_{name}", value))
        met.append(report(f"gpu_speed_{name}", 0.9 * TARGETS[arguments.target] / figures["bytes", name] / 1e9))
    met.append(report("gpu_spills", max(value for (kind, _), value in figures.items() if kind == "spills")))
    if ("bytes", "run") in figures and ("bytes", "forward_backward") in figures:
        met.append(report("gpu_run_over_step", figures["bytes", "run"] / figures["bytes", "forward_backward"]))
    if arguments.roofline:
        draw_roofline(arguments.target, figures, arguments.roofline)
    os._exit(0 if all(met) else 1)  # the plugin's threads would not end


if __name__ == "__main__":
    sys.path[:0] = [str(WHEELS), str(ROOT)]
    FOLDER = Path(tempfile.mkdtemp(prefix="swmodel-gpu-"))
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_dump_to={FOLDER}"
    os.environ["JAX_PLATFORMS"] = "cpu"
    main()
