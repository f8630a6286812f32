"""The error that this package raises for mistakes of the user."""

__all__ = ["PlotError"]


class PlotError(ValueError):
    """A figure or number that cannot be drawn or computed; the message is one sentence that says what to do."""
