"""Runs: the loop over chunks of steps on the host, monitors that accumulate at every step, and progress."""
