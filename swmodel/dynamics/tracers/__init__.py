"""Passive tracers: `Tracer`, advection schemes and their limiters; tracer.py has the equation."""

from ..limiters import LIMITERS, Koren, Limiter, MinMod, MonotonizedCentral, Superbee, VanLeer
from .advection import AdvectionScheme, Centred, FluxLimited
from .tracer import Tracer, check_name

__all__ = [
    "LIMITERS",
    "AdvectionScheme",
    "Centred",
    "FluxLimited",
    "Koren",
    "Limiter",
    "MinMod",
    "MonotonizedCentral",
    "Superbee",
    "Tracer",
    "VanLeer",
    "check_name",
]
