"""Runs: the host loop, what is accumulated at every step, and progress."""
