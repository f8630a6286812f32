"""Seconds to day 30 of a double gyre over 5000 m of water: explicit, over semi-implicit; and over real bathymetry."""

import statistics

import numpy as np
from harness import NotMeasured, ratio

from swmodel.simulation.driver import LEAST_SECONDS

NAMES = ("semi_implicit_gain", "semi_implicit_difference", "semi_implicit_gain_pacific", "semi_implicit_setup_share")
SCHEMES = ("explicit", "semi_implicit")
PRECISION = "float32"


def measure(bench):
    times, info, reached = runs(bench, "gyre")  # a step is a day
    flow, surface = (difference(*(reached[name] for name in SCHEMES), names) for names in (("u", "v"), ("eta",)))
    days = info["explicit"]["units"]
    for name in SCHEMES:
        seconds = days * statistics.median(times[name])
        bench.say(f"    {name:14s} dt {info[name]['dt']:8.2f} s, {seconds:7.2f} s to day {days}")
    bench.say(f"    they differ at day {days} by {100 * flow:.3g} % of the velocity, {100 * surface:.3g} % of eta (L2)")
    bench.figure("semi_implicit_difference", flow, at_most=0.01, eta=surface)
    if not flow <= 0.01:
        raise NotMeasured(f"the flows differ by {100 * flow:.3g} % at day {days}, and 1 % is allowed")
    gain = ratio(times["explicit"], times["semi_implicit"])
    bench.figure("semi_implicit_gain", gain, at_least=5.0, each=info, precision=PRECISION)
    times, info, _ = runs(bench, "pacific")  # a step is four hours
    each = {name: statistics.median(times[name]) * info[name]["dt"] / (4 * 3600.0) for name in SCHEMES}
    bench.say(
        f"    north-west Pacific: a step of {info['semi_implicit']['dt']:.0f} s takes as long as "
        f"{each['semi_implicit'] / each['explicit']:.0f} of {info['explicit']['dt']:.2f} s"
    )
    gain = ratio(times["explicit"], times["semi_implicit"])
    bench.figure("semi_implicit_gain_pacific", gain, at_least=3.0, each=info, precision=PRECISION)
    setup = info["semi_implicit"]["setup_seconds"]
    bench.say(f"    the set-up takes {1e3 * setup:.1f} ms, as {setup / each['semi_implicit']:.2f} steps do")
    bench.figure("semi_implicit_setup_share", setup / LEAST_SECONDS, at_most=0.05, precision=PRECISION)


def runs(bench, basin, schemes=SCHEMES):
    """({scheme: times of a unit}, {scheme: the info of its worker}, {scheme: the fields that it reached})."""
    reached = {}
    with bench.together() as workers:
        for name in schemes:
            command = bench.python("semi_implicit_worker.py", basin=basin, scheme=name, precision=PRECISION)
            workers[name] = bench.start(f"{basin} {name}", command)
            file = bench.folder / f"{basin}_{name}.npz"
            workers[name].ask(f"state {file}", "saved")
            reached[name] = np.load(file)
        times = bench.interleave(basin, workers)
        return times, {name: worker.info for name, worker in workers.items()}, reached


def difference(wanted, found, names):
    """|found - reference| / |reference|, L2, of the fields of these names together."""
    size = sum(np.sum(wanted[name].astype(float) ** 2) for name in names)
    return float(np.sqrt(sum(np.sum((found[name].astype(float) - wanted[name]) ** 2) for name in names) / size))
