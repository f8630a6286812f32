"""The workers of benchmarks/figures/adjoint.py. One argument, a JSON object, whose `kind` is

    time      times `what` of `steps` steps of the basin, `size`: "forward", "gradient" (with `checkpoints`), "tangent",
              or "plain", jax.grad of integrate; by `engine`; with `coastal`, of waves towards a beach, by `stepper`
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

    from swmodel import adjoint
    from swmodel.performance import basin, beach, stepper_named

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


def plain(problem):
    """jax.grad of the steps under lax.scan, as a user would write it."""
    import jax
    import jax.numpy as jnp

    import swmodel as sw
    from swmodel.fields.pytrees import replace
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
