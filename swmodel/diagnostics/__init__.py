"""Fields, invariants and spectra that are derived from a state."""
