"""From a [source] section to the motion of the sea surface, which is computed once and kept on disk.

Okada's formulas and Kajiura's filter take seconds for a fault model of 50 rectangles, and give the same numbers for the
same faults, grid and depths. What they gave is kept (runtime/cache.py) under a name made of all of these, of the
program text of `swmodel.sources` and of the precision, so that a later run or the other ranks of a host load it.
"""

import contextlib
import math
from pathlib import Path
from typing import Any

import numpy as np

from ...runtime import cache

__all__ = ["faults_of", "motion_of"]

SUFFIX, HOW = "motion", "npz"
MOST_BYTES = 500e6  # of all motions together


def faults_of(section: Any, grid: Any) -> Any:
    """The sources.Source that a [source] section names or lists."""
    from ... import sources

    projection = sources.AzimuthalEqualArea(grid.radius) if grid.spherical else sources.Plane()
    if section.file is not None:
        return sources.read_source(section.file, projection=projection)
    return sources.Source([sources.Fault(**fault.model_dump()) for fault in section.faults], projection=projection)


def motion_of(section: Any, grid: Any, bathymetry: Any, source: Any, most: int) -> tuple:
    """(BottomMotion, Summary) of a [source] section.

    Args:
        section: with `horizontal`, `kajiura` and `every`.
        grid, bathymetry: of the model; depths (ny, nx) [m] at cell centres.
        source: the sources.Source of its faults.
        most: in how many intervals the motion is sampled at most, if `every` is "auto".
    """
    from ... import sources
    from ...models.shallow_water import BottomMotion

    times = _times(sources.breakpoints(source), section.every, most)
    name = _name(section, grid, bathymetry, source, times)
    found = _kept(name, grid.shape)
    if found is None:
        found = _computed(section, grid, bathymetry, source, times)
        _keep(name, *found)
    times, uplift = found
    summary = sources.summarise(source, np.where(bathymetry.wet, uplift[-1], 0.0), grid.area_h)
    return BottomMotion(times, uplift), summary


def _computed(section, grid, bathymetry, source, times):
    """(times (m,) [s], uplift (m, ny, nx) [m])."""
    from ... import sources

    surface = sources.SeaSurface.of(
        grid, bathymetry.depth, sources.region_around(source, grid),
        horizontal=section.horizontal, kajiura=section.kajiura, around=source,
    )  # fmt: skip
    times, uplift = surface.records(source, times)
    return np.asarray(times), np.asarray(uplift)


def _times(breakpoints, every, most):
    """When the motion is sampled: at all its breakpoints if they are few, else evenly, up to its end."""
    if every == "auto" and len(breakpoints) <= most:
        return None
    first, end = float(breakpoints[0]), float(breakpoints[-1])
    intervals = most if every == "auto" or most == 1 else max(math.ceil((end - first) / every), 1)
    return np.linspace(first, end, intervals + 1)


# -- what is kept -----------------------------------------------------------------------------------------------------


def _name(section, grid, bathymetry, source, times):
    """Digits that stand for everything on which the motion depends."""
    import jax
    import jaxlib.version

    from ... import sources

    programs = [path.read_text() for path in sorted(Path(sources.__file__).parent.glob("*.py"))]
    numbers = [grid.x_edges, grid.y_edges, bathymetry.depth, times, *jax.tree.leaves(source)]
    plain = (
        grid.shape, grid.spherical, getattr(grid, "radius", None), grid.periodic_x, grid.periodic_y, section.horizontal,
        section.kajiura, str(jax.tree.structure(source)), jax.config.read("jax_enable_x64"), jaxlib.version.__version__,
        jax.default_backend(), cache.instructions(),
    )  # fmt: skip
    return cache.digest(*programs, *map(repr, plain), *map(_content, numbers))


def _content(array):
    array = np.ascontiguousarray(array) if array is not None else np.zeros(0)
    return f"{array.dtype} {array.shape} " + cache.digest_of_bytes(array.tobytes())


def _kept(name, shape):
    """(times, uplift) of that name, or None. The file holds the box outside of which the uplift is zero."""
    path = cache.find(name, HOW, SUFFIX)
    if path is None:
        return None
    with contextlib.suppress(OSError), path.open("rb") as file, np.load(file, allow_pickle=False) as held:
        values, (j0, j1, i0, i1) = held["uplift"], held["box"]
        uplift = np.zeros((len(values), *shape), values.dtype)
        uplift[:, j0:j1, i0:i1] = values
        return held["times"], uplift
    return None


def _keep(name, times, uplift):
    moved = np.any(uplift != 0, axis=0)
    rows, columns = (np.flatnonzero(moved.any(axis)) for axis in (1, 0))
    box = (rows[0], rows[-1] + 1, columns[0], columns[-1] + 1) if rows.size else (0, 0, 0, 0)
    values = uplift[:, box[0] : box[1], box[2] : box[3]]
    if values.nbytes > MOST_BYTES:
        return

    def write(path):
        with path.open("wb") as file:
            np.savez(file, times=times, box=np.asarray(box), uplift=values)

    with contextlib.suppress(OSError):  # a full disk: it is computed again
        cache.keep(name, HOW, write, SUFFIX)
        cache.prune(SUFFIX, MOST_BYTES)
