"""Processes and their launchers, devices, libraries, compilation, memory allocation, signals and the version."""
