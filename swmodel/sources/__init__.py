"""Tsunami sources: faults, the motion of the sea floor, and tables of published faults."""

from ..runtime.packages import loaded_when_used

_HOMES = {
    "fault": ("Fault", "Source"),
    "regions": ("region_around",),
    "sea_surface": ("SeaSurface",),
    "tables": ("read_source",),
}
__getattr__, __all__ = loaded_when_used(__name__, _HOMES)
