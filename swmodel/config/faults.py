"""The faults of a section of an experiment file, which names a table of faults or lists them."""

from typing import Any

__all__ = ["faults_of"]


def faults_of(section: Any, grid: Any) -> Any:
    """The sources.Source that a [source] section names or lists."""
    from .. import sources

    projection = sources.AzimuthalEqualArea(grid.radius) if grid.spherical else sources.Plane()
    if section.file is not None:
        return sources.read_source(section.file, projection=projection)
    return sources.Source([sources.Fault(**fault.model_dump()) for fault in section.faults], projection=projection)
