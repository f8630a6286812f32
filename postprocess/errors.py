"""The one error that users of this package see."""

__all__ = ["PlotError"]


class PlotError(ValueError):
    """Something that was asked for cannot be drawn or computed; the message is one sentence that says what to do."""
