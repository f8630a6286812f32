"""Cases on the whole sphere, poles included, with the filtered differences (dynamics/cores.py)."""
