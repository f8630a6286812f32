"""Gradients, tangents and checkpoints over the forward run, and the memory of 10,000 steps."""

from functools import partial

from harness import NotMeasured, ratio

NAMES = (
    "gradient_vs_forward_storeall",
    "gradient_vs_forward_plain",
    "gradient_vs_forward_nested",
    "gradient_vs_forward_revolve",
    "tangent_vs_forward",
    "gradient_2ranks_speedup",
    "gradient_memory_prediction_error",
    "hessian_memory_prediction_error",
    "gradient_10000_steps_gigabytes",
    "gradient_10000_steps_disk_gigabytes",
)
SIZE, STEPS = (720, 720), 40
LONG = 10_000
REVOLVE = ["Revolve", {"states": 3, "steps": 8}]  # no more than 2 sqrt(n) states, too
KEPT_IN_MEMORY = ["Nested", {"lengths": (22, 22, 22)}]
KEPT_ON_DISK = ["Tiered", {"states": 2, "on_disk": 400, "steps": 25}]
PREDICTED = ["Nested", {"lengths": (20, 20)}]


def measure(bench):
    _ratios(bench)
    _ranks(bench)
    _memory(bench)


def _ratios(bench):
    """One rank, side by side."""
    cases = {
        "forward": {"what": "forward"},
        "storeall": {"what": "gradient"},
        "plain": {"what": "plain"},
        "nested": {"what": "gradient", "checkpoints": ["Nested", {}]},
        "revolve": {"what": "gradient", "checkpoints": REVOLVE},
        "tangent": {"what": "tangent"},
    }
    with bench.together() as workers:
        for name, options in cases.items():
            command = bench.python("adjoint_worker.py", kind="time", size=SIZE, steps=STEPS, **options)
            workers[name] = bench.start(f"adjoint {name}", command)
        times = bench.interleave("adjoint", workers)
        again = workers["revolve"].info["forward_steps"]
        lengths = workers["nested"].info["lengths"]
    details = {"size": SIZE, "steps": STEPS, "precision": "float32", "stepper": "AB2"}
    forward = times["forward"]
    for name, most in (("storeall", 4.0), ("plain", None), ("nested", 5.0)):
        more = {"states": sum(lengths)} if name == "nested" else {}
        bench.figure(f"gradient_vs_forward_{name}", ratio(times[name], forward), at_most=most, **details, **more)
    # The schedule's own count: steps that are run and not stored, and those that are stored and pulled back.
    counted = [again * f / STEPS + g for f, g in zip(forward, times["storeall"])]
    more = {"revolve": REVOLVE[1], "forward_steps": again, "over_forward": ratio(times["revolve"], forward)}
    bench.figure("gradient_vs_forward_revolve", ratio(times["revolve"], counted), at_most=1.1, **details, **more)
    bench.figure("tangent_vs_forward", ratio(times["tangent"], forward), at_most=2.2, **details)


def _ranks(bench):
    """How much faster two ranks are than one, of the gradient over that of the forward run; each rank on one core."""
    starts = {
        f"{what} {ranks}": partial(_bound, bench, what, ranks) for what in ("forward", "gradient") for ranks in (1, 2)
    }
    try:
        times = bench.timed("adjoint on ranks", starts)
    except NotMeasured as why:
        return bench.missing("gradient_2ranks_speedup", why)
    speedup = {what: ratio(times[f"{what} 1"], times[f"{what} 2"]) for what in ("forward", "gradient")}
    value = speedup["gradient"] / speedup["forward"]
    bench.figure("gradient_2ranks_speedup", value, at_least=0.9, **speedup, size=SIZE)


def _bound(bench, what, ranks):
    options = {"kind": "time", "size": SIZE, "steps": STEPS, "what": what}
    command = bench.python("adjoint_worker.py", communicator="mpi" if ranks > 1 else "serial", **options)
    return bench.start(f"adjoint {what} on {ranks}", [*bench.mpirun(ranks), *command], bench.environment(ranks))


def _memory(bench):
    """Peak resident memory of fresh processes, all of whose steps are run."""
    cases = {
        "small": {"size": (32, 32), "steps": 400, "checkpoints": PREDICTED, "predict": True},
        "predicted": {"size": SIZE, "steps": 400, "checkpoints": PREDICTED, "predict": True},
        "small product": {"size": (32, 32), "steps": 400, "checkpoints": PREDICTED, "predict": True, "product": True},
        "product": {"size": SIZE, "steps": 400, "checkpoints": PREDICTED, "predict": True, "product": True},
        "nested": {"size": SIZE, "steps": LONG, "checkpoints": KEPT_IN_MEMORY},
        "disk": {"size": SIZE, "steps": LONG, "checkpoints": KEPT_ON_DISK},
    }
    found = {}
    for name, options in cases.items():
        command = bench.python("adjoint_worker.py", kind="memory", **options)
        with bench.start(f"adjoint memory {name}", command) as worker:
            found[name] = worker.info
    for name, large, small in (("gradient", "predicted", "small"), ("hessian", "product", "small product")):
        grown, predicted = (found[large][key] - found[small][key] for key in ("gigabytes", "predicted"))
        details = {"predicted": predicted, "grown": grown, "lengths": PREDICTED[1]["lengths"], "size": SIZE}
        bench.figure(f"{name}_memory_prediction_error", abs(predicted / grown - 1.0), at_most=0.2, **details)
    for name, key, most in (("nested", "", 2.0), ("disk", "_disk", 1.0)):
        details = {"steps": LONG, "size": SIZE, "seconds": found[name]["seconds"], "lengths": found[name]["lengths"]}
        bench.figure(f"gradient_10000_steps{key}_gigabytes", found[name]["gigabytes"], at_most=most, **details)
