"""Controls: the leaves of a model that a cost is differentiated in, and transforms of them."""

from .controls import (
    Control,
    Transformed,
    controls_of,
    names_of,
)

__all__ = [
    "Control",
    "Transformed",
    "controls_of",
    "names_of",
]
