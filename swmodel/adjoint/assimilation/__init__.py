"""Strong-constraint 4D-Var: observations, background errors, minimisation and posterior variance."""

from .assimilation import FourDVar

__all__ = ["FourDVar"]
