"""Dot-product and Taylor tests of a user's own problem."""

from .verification import verify

__all__ = ["verify"]
