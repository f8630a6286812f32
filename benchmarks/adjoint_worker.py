"""The workers of benchmarks/figures/adjoint.py. One argument, a JSON object, whose `kind` is

    time      times `what` of `steps` steps of the basin, `size`: "forward", "gradient" (with `checkpoints`), "tangent",
              or "plain", jax.grad of integrate; by `engine`; with `coastal`, of waves towards a beach, by `stepper`;
              with `nested`, of a sea with a nest of a `ratio`: of "all", or of a grid of them alone by its name
    memory    runs one gradient, or one Hessian `product`, and reports the peak resident memory of this process and the
              prediction

`checkpoints` are [name, {arguments}] of swmodel.adjoint.
"""

import json
import sys
import time

from worker import _world, launch, serve


def problem_of(options, process):
    """The adjoint.Problem of the basin whose cost is the sum of the squared elevations of the last state."""
    import jax.numpy as jnp
    from cases import beach

    from swmodel import adjoint
    from swmodel.performance.timing import basin, stepper_named

    if "nested" in options:
        return nested_problem(options, process)
    precision, engine = options.get("precision", "float32"), options.get("engine", "auto")
    if options.get("coastal"):
        model, state = beach(*options["size"], precision, process.communicator)
    else:
        model, state = basin(*options["size"], precision, process.communicator, engine=engine)
    name, arguments = options.get("checkpoints", ["StoreAll", {}])
    cost = adjoint.FinalState(lambda state, equations: jnp.sum(state.eta * state.eta))
    return adjoint.Problem(
        model,
        stepper_named(options.get("stepper", "ssprk3" if options.get("coastal") else "ab2")),
        state,
        options["steps"],
        cost,
        options.get("controls", ["initial.eta"]),
        checkpoints=getattr(adjoint, name)(**arguments),
    )


def nested_problem(options, process):
    """The Problem of the last energy of a family whose nest lies in the middle third, or of one of its grids."""
    import numpy as np

    import swmodel as sw
    from swmodel import adjoint

    (nx, ny), ratio = options["size"], options["ratio"]
    grid = sw.CartesianGrid(nx=nx, ny=ny, x=(0, 1e3 * nx), y=(0, 1e3 * ny))
    box = {"x": (1e3 * (nx // 3), 1e3 * (2 * nx // 3)), "y": (1e3 * (ny // 3), 1e3 * (2 * ny // 3))}
    shared = {"coriolis": sw.FPlane(1e-4), "dtype": "float32", "communicator": process.communicator}
    family = sw.Family(grid, 1000.0, [sw.Nest("nest", ratio=ratio, **box)], stages=1, **shared)
    stepper, name = sw.ForwardBackward(dt=3.0), options["nested"]
    states = family.states(eta=lambda x, y: np.exp(-((x - 5e2 * nx) ** 2 + (y - 5e2 * ny) ** 2) / 1e4**2))
    model, state = (family, states) if name == "all" else (family.models[name], states[name])
    stepper = stepper if name == "all" else family.steppers(stepper)[name]
    return adjoint.Problem(model, stepper, state, options["steps"], adjoint.BoxEnergy(), ["initial.eta"])


def plain(problem):
    """jax.grad of the steps under lax.scan, as a user would write it."""
    import jax
    import jax.numpy as jnp

    import swmodel as sw
    from swmodel.fields.state import replace
    from swmodel.runtime.compilation import jit

    dynamics = problem.model.dynamics(problem.scheme, steps=problem.steps)

    def cost(eta, dynamics, stepper, state):
        final, _ = sw.integrate(dynamics, stepper, replace(state, eta=eta), problem.steps)
        return dynamics.communicator.sum(jnp.sum(final.eta * final.eta))

    program = jit(problem.communicator.spmd(jax.value_and_grad(cost)))
    return lambda: program(problem.state.eta, dynamics, problem.stepper, problem.state)


def timed(options):
    process = launch.configure_process(options.get("precision", "float32"), options.get("communicator", "serial"))
    import jax

    problem = problem_of(options, process)
    values = problem.values
    call = {
        "forward": lambda: problem.value(values),
        "gradient": lambda: problem.value_and_gradient(values),
        "tangent": lambda: problem.tangent(values, values),
        "plain": plain(problem),
    }[options["what"]]

    def run(steps):
        problem.communicator.barrier()
        begin = time.perf_counter()
        for _ in range(int(steps) // problem.steps):
            jax.block_until_ready(call())
        return "took", problem.communicator.host_maximum(time.perf_counter() - begin)

    run(problem.steps)
    units, lengths, _ = problem.plan
    info = {"batch": problem.steps, "engine": problem.model.engine, "lengths": lengths, "threads": process.threads}
    if hasattr(problem.checkpoints, "forward_steps"):
        info["forward_steps"] = problem.checkpoints.forward_steps(problem)
    serve(info, _world(process), run=run)


def memory(options):
    process = launch.configure_process("float32", "serial")
    import jax

    problem = problem_of(options, process)
    before = resident("VmHWM")
    if options.get("predict"):
        predicted = problem.bytes_needed(options.get("product", False))
    begin = time.perf_counter()
    if options.get("product"):
        J, gradient = 0.0, jax.block_until_ready(problem.hessian_product(problem.values, problem.values))
    else:
        J, gradient = jax.block_until_ready(problem.value_and_gradient())
    info = {
        "gigabytes": resident("VmHWM") / 1e9,
        "before": before / 1e9,
        "seconds": time.perf_counter() - begin,
        "J": J,
        "steps": problem.steps,
        "lengths": problem.plan[1],
        "largest": max(float(abs(x).max()) for x in gradient.values()),
    }
    if options.get("predict"):
        info["predicted"] = predicted / 1e9
    serve(info)


def resident(key):
    """Resident memory of this process [bytes]: its peak ("VmHWM")."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(key))


if __name__ == "__main__":
    options = json.loads(sys.argv[1])
    {"time": timed, "memory": memory}[options.pop("kind")](options)
