"""Time steppers, their stability limits, and the loops that make many steps."""

from .explicit import AB2, AB3, RK4, SSPRK3, TimeStepper, time_step
from .loop import integrate

__all__ = ["AB2", "AB3", "RK4", "SSPRK3", "TimeStepper", "integrate", "time_step"]
