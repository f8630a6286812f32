"""The turbulence of tests/verification/turbulence.py by pyqg-jax, the reference of the mark phillips_eke_ratio.

    pip install pyqg-jax
    python benchmarks/pyqg/reference.py [--cells 64] [--times 1200]

prints the means from time 120 on as JSON. tests/verification/pyqg.json holds those by pyqg-jax 0.8.1 on 64 x 64 cells.
"""

import argparse
import functools
import json
import sys
from pathlib import Path

import jax
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "verification"))
from turbulence import BOX, DRAG, RADIUS, SPEED, TIME, F, Statistics  # noqa: E402

FASTEST, SPIN_UP = 14.0, 120  # the largest speed that is expected; when the means begin


def means(cells: int, times: int) -> dict[str, list]:
    """The statistics of a run on cells x cells."""
    jax.config.update("jax_enable_x64", True)
    import pyqg_jax

    model = pyqg_jax.qg_model.QGModel(
        nx=cells, L=BOX * RADIUS, rek=DRAG / TIME, beta=0.0, rd=RADIUS, delta=1.0, H1=1000.0, U1=SPEED, U2=0.0, f=F,
        precision=pyqg_jax.state.Precision.DOUBLE,
    )  # fmt: skip
    steps = int(np.ceil(TIME * FASTEST * SPEED / (0.2 * BOX * RADIUS / cells)))
    stepped = pyqg_jax.steppers.SteppedModel(model, pyqg_jax.steppers.AB3Stepper(dt=TIME / steps))
    run = jax.jit(functools.partial(jax.lax.fori_loop, 0, steps, lambda _, state: stepped.step_model(state)))
    state, statistics = stepped.create_initial_state(jax.random.key(0)), Statistics()
    for _ in range(times):
        state = run(state)
        full = model.get_full_state(state.state)
        u, v, streamfunction = np.asarray(full.u), np.asarray(full.v), np.fft.irfft2(np.asarray(full.ph))
        statistics.add(u, v, v[0] * streamfunction[1])
    return statistics.after(SPIN_UP)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=64)
    parser.add_argument("--times", type=int, default=1200)
    print(json.dumps(means(**vars(parser.parse_args())), indent=1))
