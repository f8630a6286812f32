"""A compiler for stencil loops. It knows arrays with ghost cells, and nothing of the ocean.

XLA turns a time step into a dozen passes over memory. Here a function of Fields is traced with `Expression`s instead of
arrays: each describes a value at a cell in terms of loads from neighbouring cells. The result is a `Graph` of scalar
operations (graph.py). On a CPU it becomes one vectorised C++ loop (source.py and native/), on a GPU one Pallas kernel
(pallas.py). Intermediate fields stay in registers: one pass reads each input once and writes the results in place.

Tangents and adjoints of a loop are loops as well (derivatives.py). An adjoint loop reads the values of earlier steps
where these were stored (slots.py).
"""

from .graph import Unsupported
from .slots import Slot, evaluate, evaluate_storing

__all__ = ["Slot", "Unsupported", "evaluate", "evaluate_storing"]
