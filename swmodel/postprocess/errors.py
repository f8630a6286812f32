"""The error that this package raises for mistakes of the user."""

from ..errors import SwmodelError

__all__ = ["PlotError"]


class PlotError(SwmodelError, ValueError):
    """Raised for a figure or number that cannot be drawn or computed; the message is one sentence with the remedy."""
