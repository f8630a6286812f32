"""One rank of a run on many: `python many_ranks.py FILE` steps the case, and the root writes the state to FILE."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from swmodel.runtime import launch  # noqa: E402

NX, NY = 67, 50  # not one of 64 tiles alike in both directions
STEPS = 100


def case(communicator):
    """(model, stepper, state): islands, wind, drag, viscosity, an open side, a sea floor that moves."""
    import numpy as np

    import swmodel as sw

    def random(seed):
        return np.random.default_rng(seed).standard_normal((NY, NX))

    depth = np.where(np.random.default_rng(2).random((NY, NX)) < 0.1, 0.0, 1000.0 + 500.0 * np.tanh(random(1)))
    model = sw.ShallowWater(
        sw.CartesianGrid(NX, NY, (0.0, 6.7e5), (0.0, 5.0e5), ""),
        depth,
        coriolis=sw.FPlane(1e-4),
        side=sw.NoSlip(),
        dissipation=(sw.Laplacian(100.0), sw.QuadraticDrag(2.5e-3)),
        forcing=(sw.WindStress(x=lambda x, y: 0.1 * np.cos(y / 8e4)),),
        boundaries=(sw.Flather(sides=("west",)),),
        source=sw.BottomMotion([0.0, 300.0], np.stack([0.0 * random(3), random(3)])),
        communicator=communicator,
        dtype="float64",
    )
    return model, sw.AB2(10.0), model.state(u=0.1 * random(4), v=0.1 * random(5), eta=random(6))


def run(communicator):
    """{name: (NY, NX) array} after STEPS steps, on the root; None elsewhere."""
    import swmodel as sw

    model, stepper, state = case(communicator)
    simulation = sw.Simulation(model, state, stepper)
    state = simulation.run(steps=STEPS)
    whole = {name: model.gather(getattr(state, name)) for name in ("u", "v", "eta")}
    return whole if model.communicator.is_root else None


if __name__ == "__main__":
    launch.configure_process("float64", "mpi")
    found = run("mpi")
    if found is not None:
        import numpy as np

        np.savez(sys.argv[1], **found)
