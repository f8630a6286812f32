"""What each native operation that exists because of XLA's CPU client is worth: time without it over that with it."""

import statistics

import native_parts

CELLS = 1024  # along each axis
PAIRS = 3
NAMES = tuple(f"native_{part}" for part in native_parts.PARTS)


def measure(bench):
    for part, (case, off) in native_parts.PARTS.items():
        try:
            pairs = [[native_parts.timed(case, CELLS, switch) for switch in (None, off)] for _ in range(PAIRS)]
        except SystemExit as failure:  # of this part; the others are worth having
            bench.missing(f"native_{part}", failure)
            continue
        bench.raw[f"native {part}"] = pairs
        gain = statistics.median(without / used for used, without in pairs)
        bench.figure(f"native_{part}", gain, cells=CELLS)
