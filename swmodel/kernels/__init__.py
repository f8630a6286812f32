"""The step as one fused loop.

XLA turns a time step into a dozen passes over memory. Here the same physics, written in Fields, is traced with
`Expression`s in the place of arrays: recipes for a value at a cell, in terms of loads of neighbouring cells. What
comes out is a `Graph` of scalar operations (graph.py), of which a C compiler makes one vectorised loop on a CPU
(source.py, and native/) and Pallas one kernel on a GPU (pallas.py). Intermediate fields live in registers: a step
reads each prognostic field, the depth and the mask once and writes its results in place.

`FusedEngine` (engine.py) keeps the state with room for ghost cells, refreshes these in place and runs the loops.
Tangents and adjoints of a loop are loops (derivatives.py), which read the states of earlier steps where these are
stored (slots.py).
"""

from .engine import POLE, FusedEngine
from .graph import Unsupported
from .slots import Slot, evaluate, evaluate_storing

__all__ = ["POLE", "FusedEngine", "Slot", "Unsupported", "evaluate", "evaluate_storing"]
