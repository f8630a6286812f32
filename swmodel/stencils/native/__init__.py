"""Native code for XLA on CPUs, compiled by the machine's C++ compiler: fused loops, and operations in place.

    library      compiles the runtime (*.cpp, one text) and the loops that source.py writes; runtime/cache.py keeps them
                 `forwarded`: calls of mpi4jax that hold numbers in place of handles (see parallel/mpi.py)
    primitives   `push_slot`, `read_slot`, `empty`: the states of many steps; `depends_on`, `together`: orders
                 `move`: blocks of an array to other places, with axes in another order
    strips       `paste` and `cut`, `read_strips` and `add_strips`: a few rows or columns of large arrays
    refinement   `interpolate`, `block_sums`: values of cells in smaller ones, and sums over these

Without a compiler, and on other devices, these are the ordinary JAX operations.
"""

from .library import forwarded, set_handle, usable, why_not
from .primitives import depends_on, empty, push_slot, read_slot, together
from .refinement import Blocks, block_sums, interpolate
from .strips import add as add_strips
from .strips import cut, paste, read_cells, write_cells
from .strips import read as read_strips

__all__ = [
    "Blocks",
    "add_strips",
    "block_sums",
    "cut",
    "depends_on",
    "empty",
    "forwarded",
    "interpolate",
    "paste",
    "push_slot",
    "read_cells",
    "read_slot",
    "read_strips",
    "set_handle",
    "together",
    "usable",
    "why_not",
    "write_cells",
]
