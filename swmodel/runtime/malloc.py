"""Tuning of malloc, where the C library is glibc.

The system clears each page that it gives to a process. For the arrays of a program this takes as long as several steps.
So freed memory is kept for the next program. It stays in malloc's main arena, which all threads then have to use.
Gradients become faster, since their programs allocate and free the states that they store (malloc_gradient of
benchmarks/native_parts.py). The steps of a run overwrite their arrays, and take as long as before.
"""

import contextlib
import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # of malloc.h
LARGEST = 2**31 - 1


def use_one_arena() -> None:
    """Let all threads allocate from the main arena, before they start: other arenas end at 64 MB."""
    _choose((M_ARENA_MAX, 1))


def keep_memory() -> None:
    """Allocate large arrays in the arena, too, and keep freed memory."""
    _choose((M_MMAP_THRESHOLD, LARGEST), (M_TRIM_THRESHOLD, LARGEST))


def _choose(*options):
    with contextlib.suppress(AttributeError, OSError, TypeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        for option, value in options:
            mallopt(option, value)
