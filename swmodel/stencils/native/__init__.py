"""What the machine's C++ compiler adds to XLA on CPUs: fused loops, and operations in place.

    library   compiles the runtime (*.cpp, one text) and the loops that source.py writes; runtime/cache.py keeps them
    tape      `push_slot`, `read_slot`, `empty`: the states of many steps; `depends_on`: an order of operations
    messages  `shift`: between the devices of one process
    strips    `paste` and `cut`: a few rows or columns of large arrays
    blocks    `move`: blocks of an array to other places, with axes in another order

Without a compiler, and on other devices, these are the ordinary JAX operations.
"""

from .library import usable, why_not
from .messages import shift
from .strips import cut, paste
from .tape import depends_on, empty, push_slot, read_slot

__all__ = ["cut", "depends_on", "empty", "paste", "push_slot", "read_slot", "shift", "usable", "why_not"]
