"""The first minutes on a machine with a GPU: install without a network, check, measure.

    bash scripts/gpu_visit/prepare.sh wheels                              # where there is a network
    python3 scripts/gpu_visit/visit.py --wheels wheels --out results      # on the machine, in a copy of the checkout
    .venv/bin/python scripts/gpu_visit/visit.py --rehearse --out results  # anywhere: small, on the CPU

Each part (parts.py) is a process with a limit of its own. results/gpu.json is written again after each of them, so that
a part that fails or takes too long loses nothing but itself. It holds the figures, `name=value` lines that parts print,
and the last lines of their output. Only the standard library is used, because nothing is installed yet.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# name: (seconds, platform); the most wanted first, since the budget may end
PARTS = {
    "smoke": (70, "gpu"),
    "bandwidth": (40, "gpu"),
    "steps": (150, "gpu"),
    "gradients": (90, "gpu"),
    "run": (50, "gpu"),
    "reference": (100, "cpu"),
    "correct": (120, "gpu"),
    "ranks": (120, "gpu"),
    "demo": (100, "gpu"),
}
FACTS = ("nvidia-smi", "nvidia-smi -q -d CLOCK", "uname -a", "nproc", "free -g", "df -h /tmp")


def finished(command, seconds, environment=None):
    """(status, output) of a command, which ends after so many seconds with all that it started."""
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=ROOT, start_new_session=True
        )
        try:
            status = process.wait(max(seconds, 1.0))
        except subprocess.TimeoutExpired:
            status = 124
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        output.seek(0)
        return status, output.read()


def install(wheels, folder):
    """The python of a new environment with these wheels, above the packages of this python3."""
    python = folder / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-index", "--no-deps"]
    subprocess.run([*pip, *sorted(wheels.glob("*.whl"))], check=True)
    site = subprocess.check_output([python, "-c", "import site; print(site.getsitepackages()[0])"], text=True)
    outer = [path for path in sys.path if path.endswith("-packages")]
    Path(site.strip(), "swmodel.pth").write_text("\n".join([str(ROOT), *outer, ""]))
    return python


def environment(python, platform, scratch, rehearsal):
    """The environment of a part; root may start more ranks than there are cores, and no rank takes the whole memory."""
    here = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}", "SCRATCH": str(scratch)}
    here.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", XLA_PYTHON_CLIENT_PREALLOCATE="false")
    here.update(OMPI_MCA_rmaps_base_oversubscribe="1", PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe")
    here.update(JAX_PLATFORMS="cpu" if rehearsal or platform == "cpu" else "cuda", REHEARSAL="1" if rehearsal else "")
    return here


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the folder of gpu.json")
    parser.add_argument("--wheels", type=Path, help="the folder that prepare.sh has filled; else this Python is used")
    parser.add_argument("--budget", type=float, default=480.0, help="[s], of a visit")
    parser.add_argument("--only", default="", help=f"some of {','.join(PARTS)}")
    parser.add_argument("--rehearse", action="store_true", help="on the CPU, with small sizes")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    begin, results = time.monotonic(), {"machine": {}, "parts": {}}
    for command in FACTS:
        with contextlib.suppress(OSError):
            results["machine"][command] = finished(command.split(), 20.0)[1][-4000:]
    with tempfile.TemporaryDirectory(prefix="swmodel-visit-") as scratch:
        folder = Path(scratch)
        python = install(arguments.wheels.resolve(), folder / "venv") if arguments.wheels else Path(sys.executable)
        for name in arguments.only.split(",") if arguments.only else PARTS:
            seconds, platform = PARTS[name]
            since, left = time.monotonic(), arguments.budget - (time.monotonic() - begin)
            if arguments.rehearse:  # the CPU may be busy
                seconds, left = 10 * seconds, 10 * seconds
            here = environment(python, platform, folder, arguments.rehearse)
            status, text = finished([python, HERE / "parts.py", name], min(seconds, left), here)
            pairs = (line.partition("=") for line in text.splitlines() if line.startswith(("gpu_", "worst_")))
            results["parts"][name] = {
                "status": status,
                "seconds": round(time.monotonic() - since, 1),
                "figures": {key: value for key, _, value in pairs},
                "output": text[-3000:],
            }
            (arguments.out / "gpu.json").write_text(json.dumps(results, indent=1))
            print(f"{name}: status {status}, {time.monotonic() - since:.0f} s\n{text[-3000:]}", flush=True)
    sys.exit(any(part["status"] for part in results["parts"].values()))


if __name__ == "__main__":
    main()
