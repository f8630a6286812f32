"""Ranks against threads, and devices of one process against ranks, on the same cores: the worse of two sizes."""

from harness import NotMeasured, ratio

NAMES = ("ranks_2_vs_threads_2", "sharded_2_vs_mpi_2")
RANKS = 2


def measure(bench):
    found = {name: {} for name in NAMES}
    for size in (bench.size, bench.small):
        with bench.together() as workers:
            workers["threads"] = bench.steps(f"threads {size[0]}", size)
            for kind, start in (("ranks", _ranks), ("sharded", _sharded)):
                try:
                    workers[kind] = start(bench, size)
                except NotMeasured as why:
                    bench.missing(NAMES[kind == "sharded"], why)
            times = bench.interleave(f"ranks {size[0]} x {size[1]}", workers)
        if "ranks" in times:
            found[NAMES[0]][size] = ratio(times["threads"], times["ranks"])
        if {"ranks", "sharded"} <= set(times):
            found[NAMES[1]][size] = ratio(times["ranks"], times["sharded"])
    for name, least in zip(NAMES, (0.95, 0.9)):
        each = {f"{nx} x {ny}": value for (nx, ny), value in found[name].items()}
        if len(each) == 2:
            bench.figure(name, min(each.values()), at_least=least, each=each, cores=bench.cores)
        elif name not in bench.figures:
            bench.missing(name, "one of its sides did not start")


def _ranks(bench, size):
    return bench.steps(f"ranks {size[0]}", size, ranks=RANKS)


def _sharded(bench, size):
    return bench.steps(f"sharded {size[0]}", size, communicator="sharded", devices=RANKS)
