"""What the C++ compiler of the machine does for XLA on CPUs: fused loops, and what is done in place.

    library   compiles the runtime (*.cpp, one text) and the loops of stencils/; runtime/cache.py keeps them
    tape      `store`, `fetch`, `vacant`: rooms for the states of many steps; `after`: what is written over once seen
    messages  `shift`: between the devices of one process
    strips    `paste` and `cut`: a few rows or columns of large arrays

Without a compiler, and on other devices, `store`, `paste` and the like are what they look like in JAX.
"""

from .library import usable, why_not
from .messages import shift
from .strips import cut, paste
from .tape import after, fetch, store, vacant

__all__ = ["after", "cut", "fetch", "paste", "shift", "store", "usable", "vacant", "why_not"]
