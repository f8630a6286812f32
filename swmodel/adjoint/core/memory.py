"""Memory of a gradient or a Hessian product on a rank, and the levels of segments that fit into a budget.

With l_0, l_1, ... parts at each level of a Tape, and p points held on the host,

    bytes = base + K l_0 + P (l_1 + l_2 + ... + p)

K are the bytes that are stored for a step, and P those of a point. The base consists of the model's arrays, the
cotangents, the stepper's history before the first step, and the temporaries of the compiled adjoint program. The
temporaries are those that XLA reports for a small Tape. In a Hessian product every array has a tangent, which counts
too.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import ConfigError
from .checkpointing import even_lengths
from .programs import Programs

__all__ = ["Needs", "best_lengths", "lengths_within", "points_held"]

TRIAL = (2, 2)
MOST_LEVELS = 8


@dataclasses.dataclass(frozen=True)
class Needs:
    """Bytes on the rank that needs most: the `base`, for each stored `step`, and for each `point`."""

    base: float
    step: float
    point: float

    @staticmethod
    def of(run: Any) -> "Needs":
        """The Needs of a Run, found by compiling the adjoint of a Tape of lengths TRIAL, with the Run's tangents."""
        sizes, pairs = run.problem.communicator, run.slopes is not None
        programs = Programs(sizes, run.problem.controls, TRIAL, pairs)
        fixed, params = run.fixed(0), run.params(0)
        carry, acc = run.shapes_at_start()
        *_, starts = jax.eval_shape(programs.record, fixed, params, carry, acc)
        _, bars, lasting, _ = jax.eval_shape(programs.finish, fixed, params, carry, acc)
        plain = carry.value if pairs else carry
        pull = programs.pull.lower(fixed | {"carry": plain}, params, starts, bars, lasting).compile()

        def stored(steps):
            record = Programs(sizes, run.problem.controls, (steps,), pairs).record
            return _bytes(jax.eval_shape(record, fixed, params, carry, acc)[-1], sizes)

        step, point = stored(2) - stored(1), _bytes((carry, acc), sizes)
        held = _bytes((fixed, params, bars, lasting), sizes)
        base = held + pull.memory_analysis().temp_size_in_bytes - TRIAL[0] * step
        return Needs(*np.asarray(sizes.host_maximum(np.array([base, step, point]))))

    def bytes(self, lengths: Sequence[int], points: int) -> float:
        """The sum for these numbers of parts at each level, and of points on the host."""
        return self.base + self.step * lengths[0] + self.point * (sum(lengths[1:]) + points)


def _bytes(tree, communicator):
    """The bytes of the arrays of a pytree on one rank."""
    shared = len(communicator.ranks)
    leaves = [
        (np.shape(x), jnp.result_type(x)) for x in jax.tree.leaves(tree)
    ]  # some leaves of terms are plain numbers
    return sum(int(np.prod(shape)) * dtype.itemsize / (shared if shape else 1) for shape, dtype in leaves)


def lengths_within(needs: Needs, steps: int, units: int, memory: float) -> tuple[tuple[int, ...], int]:
    """(lengths, number of points on the host) with the fewest levels that fit into `memory` bytes.

    Args:
        needs: a Needs.
        steps: number of steps of the longest unit.
        units: number of units.
        memory: the budget [bytes].

    Raises:
        ConfigError: if no number of levels fits; the message names the least budget that is enough.
    """
    held = [units] + ([math.isqrt(units - 1) + 1] if units > 4 else [])
    choices = [(lengths, points) for lengths in best_lengths(needs, steps) for points in held]
    for lengths, points in choices:
        if needs.bytes(lengths, points_held(points, units)) <= memory:
            return lengths, points
    least = min(needs.bytes(lengths, points_held(points, units)) for lengths, points in choices)
    raise ConfigError(
        f"memory = {memory:.4g} bytes is too little for {steps} steps of this model; give {least * 1.01:.4g} bytes or "
        "more, use more ranks, or, in Python, Tiered(...), which keeps states on disk."
    )


def points_held(points: int, units: int) -> int:
    """The number of points on the host at once, if each of its levels holds `points`."""
    return points if points >= units else 2 * points


def best_lengths(needs: Needs, steps: int) -> list[tuple[int, ...]]:
    """The lengths that need the least memory, for one level, two levels and so on."""
    found = [(steps,)]
    for levels in range(2, MOST_LEVELS + 1):
        share = (steps * needs.step / needs.point) ** (1 / levels)  # of each outer level, which is P share = K l_0
        outer = max(math.floor(share), 1)
        candidates = []
        for number in (outer, outer + 1):
            inner = -(-steps // number ** (levels - 1))
            candidates.append((inner, *[number] * (levels - 1)))
        candidates.append(even_lengths(steps, levels))
        found.append(min(candidates, key=lambda lengths: needs.bytes(lengths, 0)))
    return found
