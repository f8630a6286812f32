"""The pseudo-spectral core: series of sines and cosines, and the equations in them."""
