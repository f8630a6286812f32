"""Measured times of a step on this machine, and predictions for more ranks.

timing.py      the basin that is timed, and a compiled run of steps: seconds a step, compilation, memory
prediction.py  bandwidths and latency of this machine, and seconds a step on any number of ranks
planning.py    time, memory and messages of a run on any number of ranks
"""
