"""The shallow-water equations, one file a term; `shallow_water.py` adds them up."""
