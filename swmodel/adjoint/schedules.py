"""What a gradient keeps of the forward run, and what it runs again.

    StoreAll     every step: the fastest, memory in proportion to the number of steps
    Nested       segments within segments: 2 n^(1/2) states for twice the forward run, 3 n^(1/3) for three times
    Revolve      the least forward steps for so many states, on the host: Griewank & Walther (2000),
                 doi:10.1145/347837.347846, by the package checkpoint-schedules
    Tiered       states in memory and, beyond, on the host's disk
"""
import dataclasses
from typing import Any

__all__ = ["StoreAll", "Nested", "Revolve", "Tiered"]


@dataclasses.dataclass(frozen=True)
class StoreAll:
    """Keep what the backward pass reads of every step."""


@dataclasses.dataclass(frozen=True)
class Nested:
    """Segments in one compiled program.

    Args:
        memory: bytes a rank may use, e.g. 2e9; the levels follow from it. None is two levels of the square root of the
            number of steps each.
        lengths: instead, the number of parts at each level, innermost (steps) first.
    """

    memory: float | None = None
    lengths: tuple = ()


@dataclasses.dataclass(frozen=True)
class Revolve:
    """Binomial checkpointing.

    Args:
        states: how many are kept at once.
        steps: that are stored one by one, and pulled back together, at a time.
    """

    states: int
    steps: int = 1


@dataclasses.dataclass(frozen=True)
class Tiered:
    """States in memory, and more of them on disk.

    Args:
        states: how many are kept in the host's memory.
        on_disk: how many more in files.
        steps: that are stored one by one, and pulled back together, at a time.
        folder: for the files; the system's folder of temporary ones unless given. They are removed however a run ends.
    """

    states: int
    on_disk: int
    steps: int = 1
    folder: Any = None
