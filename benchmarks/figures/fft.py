"""Distributed real transforms against FFTW, both on 2 ranks of one core each: forward and inverse, float64."""

import importlib.util

from harness import NotMeasured, ratio

NAMES = ("fft2_vs_fftw_2", "fft3_vs_fftw_2")
SHAPES = {"fft2_vs_fftw_2": (4096, 4096), "fft3_vs_fftw_2": (256, 256, 256)}
RANKS, TOLERANCE = 2, 1e-12


def measure(bench):
    if len(bench.cores) < RANKS:
        raise NotMeasured(f"{RANKS} ranks need a core each, and there is one")
    kind = peer()
    for name, shape in SHAPES.items():
        sides = {"swmodel": "fft", "peer": kind}
        with bench.together() as workers:
            for side, which in sides.items():
                workers[side] = _start(bench, f"{which} {len(shape)}-D", which, shape)
            infos = {side: worker.info for side, worker in workers.items()}
            for side, info in infos.items():
                if not info["error"] < TOLERANCE:
                    raise NotMeasured(f"{side}: what came back differs by {info['error']:.1e}")
            bench.say(f"    {name}: the peer is {infos['peer']['peer']}")
            times = bench.interleave(name, workers)
        bench.figure(name, ratio(times["swmodel"], times["peer"]), at_most=1.2, shape=shape, peer=infos["peer"]["peer"])


def peer():
    """mpi4py-fft where it is installed (it has no wheel), else FFTW itself with mpi4py's messages."""
    for module, kind in (("mpi4py_fft", "mpi4py-fft"), ("pyfftw", "fftw")):
        if importlib.util.find_spec(module) is not None:
            return kind
    raise NotMeasured("there is no FFTW to compare with: pip install pyfftw")


def _start(bench, name, kind, shape):
    command = [*bench.mpirun(RANKS), *bench.python("spectral_worker.py", kind=kind, shape=shape)]
    return bench.start(name, command, bench.environment(RANKS))
