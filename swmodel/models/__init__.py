"""Shallow-water models, ensembles of them, and initial states."""
