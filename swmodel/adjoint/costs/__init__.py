"""Costs: what is read of a run, and the number J that is made of it."""
