"""The compiled program of a run: a number of steps, with the monitors of monitors.py updated at every step."""

import contextlib
import functools
import time as clock
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ..dynamics.clock import Time
from ..errors import TileError
from ..fields.pytrees import pytree
from ..stepping.loop import on_tiles, pack_state, run_steps, step_loop
from .monitors import Health
from .pace import LONGEST_CHUNK
from .samples import centred_fields

__all__ = ["Carry", "advance", "compile_ahead", "fastest_stages", "start_carry"]


@pytree
class Carry:
    """The carry of the compiled program.

    Attributes:
        packed: the carry of the step loop (stepping/loop.py).
        maxima, series, health: the arrays of Maxima, Gauges and Health; None for monitors that the run does not have.
        products: the sums of each Sampled (samples.py): means, extremes, harmonics; then the slots of each Snapshots.
    """

    packed: Any
    maxima: Any
    series: Any
    health: Any
    products: Any = ()


def start_carry(simulation: Any, monitors: tuple[Any, Any, Health, tuple], packed: Any) -> Carry:
    """A Carry that may be overwritten, with copies of the simulation's maxima and sums, and empty series and slots.

    Args:
        simulation: the Simulation.
        monitors: (Maxima or None, Gauges or None, Health, products and Snapshots).
        packed: the carry of the step loop.
    """
    _, gauges, health, products = monitors
    place, members = simulation.communicator.place, simulation.model.members

    def each(arrays):
        return arrays if members is None else jax.tree.map(lambda x: jnp.stack([x] * members), arrays)

    series = None
    if gauges is not None:
        series = place(lambda rank: each(gauges.start(LONGEST_CHUNK, simulation.model.dtype)))
    extremes, sums = jax.tree.map(jnp.copy, (simulation._maxima_carry, simulation._product_sums))
    slots = tuple(snapshots.start(simulation, packed) for snapshots in products[len(sums) :])
    return Carry(packed, extremes, series, place(lambda rank: each(health.start())), sums + slots)


@functools.partial(on_tiles, donate_argnums=(2,))
def advance(
    dynamics: Any,
    stepper: Any,
    carry: Carry,
    monitors: tuple[Any, Any, Health, tuple],
    first: jax.Array,
    count: jax.Array,
) -> Carry:
    """Make `count` steps from step number `first` on, on every tile; one program serves every count.

    Args:
        dynamics, stepper: the model's equations on this rank's tile, and the stepper.
        carry: the Carry, whose buffers are donated and overwritten.
        monitors: (Maxima or None, Gauges or None, Health, products and Snapshots).
        first: the number of steps so far.
        count: the number of steps to make.

    Returns:
        Carry: the Carry after the steps; Health has checked the last state.
    """
    loop = step_loop(dynamics, stepper)
    maxima, gauges, health, products = monitors
    uplift = loop.equations.uplift

    def as_shown(state, step):
        return loop.equations.shown(state, Time(step), stepper.rigid_lid)

    def uplift_at(step):
        return None if uplift is None else uplift.at(Time(step)).interior

    def at_gauges(series, state, step, k):
        seen = as_shown(state, step)
        centred = None
        if gauges.derived:
            centred = centred_fields(loop.equations, state, seen, step, stepper.rigid_lid)
        return gauges.update(series, seen, k, centred)

    def monitor(k, get_state, monitored):
        step, (highest, series, fault, sums) = k + 1, monitored
        return (
            None
            if maxima is None
            else maxima.update(highest, get_state(), step, dynamics.depth, lambda: uplift_at(step)),
            None if gauges is None else at_gauges(series, get_state(), step, k - first),
            health.update(fault, get_state, dynamics, lambda: uplift_at(step), step),
            tuple(
                product.update(its, get_state, step, loop.equations, as_shown, stepper.rigid_lid)
                for product, its in zip(products, sums)
            ),
        )

    monitored = carry.maxima, carry.series, carry.health, carry.products
    packed, (highest, series, fault, sums) = run_steps(loop, carry.packed, count, monitor, monitored, first)
    last = first + count
    fault = health.finish(fault, lambda: loop.get_state(packed), dynamics, lambda: uplift_at(last), last)
    return Carry(packed, highest, series, fault, sums)


def compile_ahead(simulation: Any) -> None:
    """Compile the programs of the first steps and snapshots before the uplift of a moving sea floor is known.

    JAX keeps them for the calls that follow. Ranks begin with different ones, and load what another rank has compiled
    (runtime/programs.py). Nothing is done for ensembles and several devices, whose arguments have other forms.
    """
    model, start = simulation.model, simulation._unpacked
    if model.members is not None or model.communicator.name == "sharded" or start is None:
        return
    dynamics, stepper, monitors = simulation.outline(), simulation.stepper, simulation.monitors()
    pack = pack_state.lower(dynamics, stepper, start)
    packed = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), pack.out_info)
    carry, number = start_carry(simulation, monitors, packed), jnp.int32(0)
    found = [pack, *(one for output in simulation._outputs for one in output.lowered(simulation, dynamics, packed))]
    found.append(advance.lower(dynamics, stepper, carry, monitors, number, number))
    for lowered in found[:: -1 if model.communicator.rank % 2 else 1]:
        lowered.compile()


def fastest_stages(simulation: Any, stages: Sequence[int] = (1, 2, 3, 4, 6, 8), steps: int = 24) -> int:
    """The number of stages per exchange, among `stages`, with which `steps` steps take the least time on all ranks."""
    model, seconds = simulation.model, {}
    monitors = (None, None, Health.of(model, simulation.dt), ())
    simulation._dynamics()  # compiles the loops, or chooses arrays on all ranks
    for count in stages if model.communicator.size > 1 else stages[:1]:
        with contextlib.suppress(TileError):  # the tiles are thinner than the halo that `count` stages need
            dynamics = model.interval(simulation.halo, simulation.step, simulation.dt, count)
            packed = pack_state(dynamics, simulation.stepper, (simulation.state, simulation.history))
            for _ in range(3):  # the first one compiles
                carry = start_carry(simulation, monitors, jax.tree.map(jnp.copy, packed))
                model.communicator.barrier()
                since = clock.perf_counter()
                arguments = jnp.int32(simulation.step), jnp.int32(steps)
                jax.block_until_ready(advance(dynamics, simulation.stepper, carry, monitors, *arguments))
                took = model.communicator.host_maximum(clock.perf_counter() - since)
                seconds[count] = min(took, seconds.get(count, took))
    return min(seconds, key=lambda count: seconds[count])
