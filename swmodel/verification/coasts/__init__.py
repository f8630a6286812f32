"""Bores and shores against exact solutions."""
