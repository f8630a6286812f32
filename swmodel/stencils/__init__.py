"""A compiler for stencil loops over arrays with ghost cells. Nothing in it is particular to the ocean.

XLA makes about a dozen passes over memory for a time step. Here a function of Fields is traced with `Expression`s
instead of arrays. Each describes a value at a cell in terms of loads from neighbouring cells (expressions.py).

In:   Expressions, derived from Fields with a halo; a Layout, the shape of the results with ghosts (`stencil.run`).
Out:  the results as arrays. The loop is a `Graph` of scalar operations (graph.py). On a CPU it becomes one vectorised
      C++ loop (schedule.py, source.py, native/), on a GPU one Pallas kernel or a few (pallas.py). Values
      stay in registers or in a few rows in the cache: one pass reads each array once and may overwrite it.

Tangents and adjoints of a loop are loops as well (derivatives.py). They are made by forward differentiation of the
graph, and by its transpose in gather form, as in PerforAD (Hueckelheim et al. 2019, arXiv:1907.02818). An adjoint loop
reads the values of earlier steps from the slots in which they were stored (slots.py).

Python, the runtime in C++ and the loops share one description of their interface (native/library.py). Loops can be
printed, with the names of fields and the lines of Python that they come from (expressions.py, compiled.py;
docs/developers/loops.md).
"""

from ..runtime.packages import loaded_when_used

_HOMES = {
    "graph": ("Unsupported",),
    "merging": ("merged", "needed", "origins"),
    "slots": ("Slot", "evaluate", "evaluate_storing"),
}
__getattr__, __all__ = loaded_when_used(__name__, _HOMES)
