"""The workers of the benchmarks of transforms and solvers. One argument, a JSON object, whose `kind` is

fft          times pairs of a forward and an inverse real transform of `shape`, on all ranks; a "step" is one pair
fftw         the same by FFTW (pyfftw, FFTW_MEASURE) on the same slabs or pencils, messages by mpi4py's Alltoallw
mpi4py-fft   the same by mpi4py-fft, where it is installed
poisson      times solutions of a Poisson equation on `shape` (ny, nx); a "step" is one
pcg          times solutions of the Tohoku basin's free-surface equation with `preconditioner`; a "step" is one
"""

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np  # noqa: E402
from worker import northwest_pacific, serve  # noqa: E402

from swmodel.runtime import launch  # noqa: E402
from swmodel.runtime.launchers import launched_ranks  # noqa: E402

BATCH = 4  # pairs in one compiled program, as a spectral model takes them


def timed(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _layout(shape, size):
    """Slabs in 2-D; in 3-D the most square mesh of pencils."""
    if len(shape) == 2:
        return size, 1
    py = max(p for p in range(1, int(size**0.5) + 1) if size % p == 0)
    return size // py, py


def fft(options):
    launch.configure_process("float64", "auto")
    import jax
    from jax import lax

    from swmodel.parallel import fft, make_communicator
    from swmodel.runtime.compilation import compiler_options

    shape, ranks = tuple(options["shape"]), launched_ranks()
    communicator = make_communicator("auto", shape[:2], _layout(shape, ranks))
    plan = fft.Plan(communicator, shape)
    whole = np.random.default_rng(0).standard_normal(shape)
    held = [plan.place(whole)]
    pair = lambda x: plan.inverse(plan.forward(x))  # noqa: E731
    program = jax.jit(
        lambda x: lax.fori_loop(0, BATCH, lambda _, x: pair(x), x),
        donate_argnums=0,
        compiler_options=compiler_options(),
    )
    start = np.asarray(held[0])

    def run(pairs):
        def turn():
            for _ in range(int(pairs) // BATCH):
                held[0] = program(held[0])
            jax.block_until_ready(held[0])

        return "took", timed(turn)

    run(BATCH)
    error = float(communicator.host_maximum(np.abs(np.asarray(held[0]) - start).max()))
    serve({"batch": BATCH, "error": error, "layout": communicator.layout}, _world(ranks), run=run)


def _world(ranks):
    return launch.load_mpi().COMM_WORLD.Dup() if ranks > 1 else None


class FFTW:
    """Slabs or pencils: FFTW along an axis, then one Alltoallw with sub-arrays of both layouts, without copies (Dalcin,
    Mortensen & Keyes 2019, doi:10.1016/j.jpdc.2019.02.006), as mpi4py-fft does."""

    def __init__(self, shape):
        import pyfftw
        from mpi4py import MPI

        self.world, self.mpi, self.shape = MPI.COMM_WORLD, MPI, shape
        py, px = _layout(shape, self.world.size)
        lines = (
            [self.world]
            if len(shape) == 2
            else [self.world.Split(self.world.rank % px), self.world.Split(self.world.rank // px)]
        )
        modes = (*shape[:-1], shape[-1] // 2 + 1)
        owner = dict(enumerate(lines))  # which line of ranks an axis is cut by; the last axis is whole first
        self.real = pyfftw.empty_aligned(self._local(shape, owner), "float64")
        here = pyfftw.empty_aligned(self._local(modes, owner), "complex128")
        options = {"flags": ("FFTW_MEASURE",), "threads": 1}
        axis = len(shape) - 1
        self.forward = [pyfftw.FFTW(self.real, here, axes=(axis,), **options)]
        self.backward = [pyfftw.FFTW(here, self.real, axes=(axis,), direction="FFTW_BACKWARD", **options)]
        self.exchanges = []
        for axis in range(len(shape) - 2, -1, -1):
            line = owner.pop(axis)
            after = dict(owner) | {axis + 1: line}
            there = pyfftw.empty_aligned(self._local(modes, after), "complex128")
            kinds = self._types(here, axis + 1, line), self._types(there, axis, line)
            self.exchanges.append((line, here, kinds[0], there, kinds[1]))
            self.forward.append(pyfftw.FFTW(there, there, axes=(axis,), **options))
            self.backward.append(pyfftw.FFTW(there, there, axes=(axis,), direction="FFTW_BACKWARD", **options))
            here, owner = there, after
        self.modes = here

    def _local(self, shape, owner):
        return tuple(self._range(n, owner[a])[1] if a in owner else n for a, n in enumerate(shape))

    @staticmethod
    def _range(n, line, rank=None):
        rank, base, more = line.rank if rank is None else rank, *divmod(n, line.size)
        return rank * base + min(rank, more), base + (rank < more)

    def _types(self, array, axis, line):
        """For each rank of the line the part of `array` along `axis` that goes there or comes from there."""
        found = []
        for rank in range(line.size):
            start, count = self._range(array.shape[axis], line, rank)
            sizes, starts = list(array.shape), [0] * array.ndim
            sizes[axis], starts[axis] = count, start
            found.append(self.mpi.C_DOUBLE_COMPLEX.Create_subarray(array.shape, sizes, starts).Commit())
        return found

    def pair(self):
        self.forward[0]()
        for plan, (line, here, gives, there, takes) in zip(self.forward[1:], self.exchanges):
            ones, zeros = [1] * line.size, [0] * line.size
            line.Alltoallw((here, ones, zeros, gives), (there, ones, zeros, takes))
            plan()
        for plan, (line, here, gives, there, takes) in zip(self.backward[:0:-1], self.exchanges[::-1]):
            ones, zeros = [1] * line.size, [0] * line.size
            plan(normalise_idft=False)
            line.Alltoallw((there, ones, zeros, takes), (here, ones, zeros, gives))
        self.backward[0](normalise_idft=False)
        np.multiply(self.real, 1.0 / np.prod(self.shape), out=self.real)


def fftw(options):
    launch.load_mpi()
    shape = tuple(options["shape"])
    transform = FFTW(shape)
    transform.real[:] = np.random.default_rng(transform.world.rank).standard_normal(transform.real.shape)
    start = transform.real.copy()
    transform.pair()
    error = float(transform.world.allreduce(np.abs(transform.real - start).max(), transform.mpi.MAX))
    import pyfftw

    peer = f"FFTW_MEASURE by pyfftw {pyfftw.__version__}, Alltoallw by mpi4py"
    run = lambda pairs: ("took", timed(lambda: [transform.pair() for _ in range(int(pairs))]))  # noqa: E731
    serve({"batch": 1, "error": error, "peer": peer}, transform.world.Dup(), run=run)


def mpi4py_fft(options):
    launch.load_mpi()
    import mpi4py_fft
    from mpi4py import MPI

    shape = tuple(options["shape"])
    grid = (*_layout(shape, MPI.COMM_WORLD.size)[: len(shape) - 1], 1)
    transform = mpi4py_fft.PFFT(MPI.COMM_WORLD, shape, dtype="d", grid=grid)
    real, modes = mpi4py_fft.newDistArray(transform, False), mpi4py_fft.newDistArray(transform, True)
    real[:] = np.random.default_rng(MPI.COMM_WORLD.rank).standard_normal(real.shape)
    start = real.copy()

    def pair():
        transform.forward(real, modes)
        transform.backward(modes, real)

    pair()
    error = float(MPI.COMM_WORLD.allreduce(np.abs(real - start).max(), MPI.MAX))
    run = lambda pairs: ("took", timed(lambda: [pair() for _ in range(int(pairs))]))  # noqa: E731
    peer = f"mpi4py-fft {mpi4py_fft.__version__}"
    serve({"batch": 1, "error": error, "peer": peer}, MPI.COMM_WORLD.Dup(), run=run)


# -- solvers ----------------------------------------------------------------------------------------------------------


def poisson(options):
    launch.configure_process("float64", "serial")
    import jax
    import jax.numpy as jnp
    from jax import lax

    import swmodel as sw
    from swmodel import elliptic
    from swmodel.parallel import SerialCommunicator

    (ny, nx), what, alone = options["shape"], options["what"], SerialCommunicator()
    grid = sw.CartesianGrid(nx, ny, (0.0, 1.0), (0.0, 1.0), options["periodic"])
    solver, domain, coefficients = elliptic.Spectral(), elliptic.Domain.of(grid, alone), elliptic.Coefficients(1.0)
    plan = jax.jit(solver.plan)(domain, coefficients)
    transform = plan.prepared.transform
    x, y = grid.coordinates("h")
    smooth = np.sin(2 * np.pi * x) * np.cos(4 * np.pi * y) + np.cos(6 * np.pi * x)
    bs = {"smooth": smooth, "white": np.random.default_rng(1).standard_normal((ny, nx))}
    bs = {name: jnp.asarray(b - b.mean()) for name, b in bs.items()}

    def once(plan, x):
        return solver.solve(plan, x) if what == "solve" else transform.inverse(transform.forward(x))

    program = jax.jit(lambda plan, x: lax.fori_loop(0, BATCH, lambda _, x: once(plan, x), x))

    def run(times):
        turn = lambda: jax.block_until_ready(program(plan, bs["white"]))  # noqa: E731
        return "took", timed(lambda: [turn() for _ in range(int(times) // BATCH)])

    def backward_error(b):
        """|b - A x| / (|A| |x| + |b|) in the infinity norm, of which |A| is the largest sum of a row."""
        phi = jax.jit(solver.solve)(plan, b)
        r = plan.stencil.area * b
        wrong = jnp.max(jnp.abs(plan.stencil.apply(phi) - r))
        return float(wrong / (2 * jnp.max(plan.stencil.diagonal) * jnp.max(jnp.abs(phi)) + jnp.max(jnp.abs(r))))

    run(BATCH)
    errors = {name: backward_error(b) for name, b in bs.items()} if what == "solve" else {}
    serve({"batch": BATCH, "errors": errors}, run=run)


def tohoku(dtype="float64"):
    """(grid, wet, c [m2]) of the free surface after theta steps of 10 times the explicit limit, theta = 1 / 2."""
    grid, sea = northwest_pacific()
    wet, gravity, m = np.asarray(sea.wet, bool), 9.81, grid.metrics(np.arange(grid.ny))
    depth = np.where(wet, sea.depth, 0.0)
    limit = 1.0 / np.sqrt((gravity * depth * (m["dx_h"] ** -2.0 + m["dy_h"] ** -2.0)).max())
    return grid, wet, gravity * (0.5 * 10.0 * limit) ** 2 * depth, limit


def pcg(options):
    ranks = launched_ranks()
    launch.configure_process("float64", "auto")
    import jax

    from swmodel import elliptic
    from swmodel.parallel import make_communicator
    from swmodel.runtime.compilation import jit

    grid, wet, c, limit = tohoku()
    communicator = make_communicator("auto", grid.shape)
    x, y = grid.coordinates("h")
    b = np.where(wet, 1.0 + np.sin(np.deg2rad(6 * x)) * np.cos(np.deg2rad(8 * y)), 0.0)
    parts = communicator.decomposition(grid.shape)
    c, b = (communicator.place(lambda rank: parts.cut(whole, rank)) for whole in (c, b))  # noqa: B023
    preconditioner = getattr(elliptic, options["preconditioner"])()
    solver = elliptic.ConjugateGradients(preconditioner, tolerance=1e-10)
    domain = elliptic.Domain.of(grid, communicator, wet)
    plan = jit(communicator.spmd(lambda domain, c: solver.plan(domain, elliptic.Coefficients(c, 1.0))))(domain, c)
    program = jit(communicator.spmd(solver.solve_and_report))
    _, report = jax.block_until_ready(program(plan, b))
    info = {"iterations": int(report.iterations), "residual": float(report.residual), "explicit_limit": float(limit)}

    def run(times):
        return "took", timed(lambda: [jax.block_until_ready(program(plan, b)) for _ in range(int(times))])

    serve({"batch": 1, **info}, _world(ranks), run=run)


if __name__ == "__main__":
    options = json.loads(sys.argv[1])
    kinds = {"fft": fft, "fftw": fftw, "mpi4py-fft": mpi4py_fft, "poisson": poisson, "pcg": pcg}
    kinds[options.pop("kind")](options)
