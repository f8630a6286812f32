"""Measured times of a step on this machine, and predictions for more ranks.

cases.py       the basin that is timed, iterations of implicit steps, and a stand-in for the communicator of many ranks
timing.py      a compiled run of steps: seconds a step, compilation, memory
machine.py     memory bandwidth, and latency and bandwidth between ranks, fitted to messages of growing length
prediction.py  seconds a step on any number of ranks, and what it needs, measured here
planning.py    time, memory and messages of a run on any number of ranks
"""
