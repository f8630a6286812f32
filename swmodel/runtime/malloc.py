"""How the C library hands out memory to this process, where it is glibc.

The system clears each page that it hands out: for the arrays of a program that takes as long as several steps. What
is given back is therefore kept for the next program, and all threads share the one heap that can keep it.
"""

import contextlib
import ctypes

__all__ = ["keep_memory", "share_heap"]

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # of malloc.h
LARGEST = 2**31 - 1


def share_heap():
    """Let all threads use the main heap: those that others get end at 64 MB; before they start."""
    _choose((M_ARENA_MAX, 1))


def keep_memory():
    """Take large arrays from the heap, too, and keep what is given back."""
    _choose((M_MMAP_THRESHOLD, LARGEST), (M_TRIM_THRESHOLD, LARGEST))


def _choose(*options):
    with contextlib.suppress(AttributeError, OSError, TypeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        for option, value in options:
            mallopt(option, value)
