"""Tides, wind and air pressure against known answers."""
