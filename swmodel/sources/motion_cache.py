"""The motion of the sea surface over faults, which is computed once and kept on disk.

Okada's formulas and Kajiura's filter take seconds for a fault model of 50 rectangles. The result is kept on disk
(runtime/cache.py), from where later runs and the other ranks of a host load it. Its name is a digest of the faults, the
grid, the depths, the precision, and the program text of `swmodel.sources`.
"""

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..dynamics.domain import Domain
from ..dynamics.terms import Series
from ..fields.parts import of_part
from ..grids.grid import Grid
from ..grids.windows import GridRecords, LazyRecords, grid_values
from ..runtime import cache, memory
from .deformation import Deformation
from .fault import Source, summarise
from .motion import BottomMotion
from .motion import breakpoints as breakpoints_of
from .regions import region_around
from .sea_surface import SeaSurface

SUFFIX, HOW = "motion", "npz"
MOST_BYTES = 500e6  # of all motions on disk together


def motion_of(section: Any, grid: Grid, bathymetry: Any, source: Source, most: int) -> tuple:
    """(BottomMotion, Summary) of a [source] section.

    Args:
        section: the section, with `horizontal`, `kajiura` and `every`.
        grid, bathymetry: those of the model, with depths (ny, nx) [m] at cell centres.
        source: the sources.Source of its faults, or the Deformation of its file.
        most: the most intervals in which the motion is sampled, if `every` is "auto".
    """
    if isinstance(source, Deformation):
        return source.on(grid), source.summary(grid, bathymetry)
    plan = _Plan.of(section, grid, bathymetry, source, most)
    return BottomMotion(plan.times, plan.records()), plan.summary()


def motion_after_survey(section: Any, grid: Grid, bathymetry: Any, source: Source, most: int) -> tuple:
    """`motion_of` for a run, by a thread, also for a sea floor whose lakes have still to be filled.

    The ranks survey the sea floor together, once there is a communicator. After that one process of a host computes the
    motion, while the main thread compiles loops and programs, which need the number and the shape of records alone.
    """
    if isinstance(source, Deformation):
        return source.on(grid), source.assumed
    motion = _MotionAfterSurvey(section, grid, bathymetry, source, most)
    return motion, motion


class _MotionAfterSurvey:
    """A motion that a thread computes once its `series` is called, and its summary; arguments as for `motion_of`."""

    def __init__(self, section, grid, bathymetry, source, most):
        self.section, self.grid, self.bathymetry, self.source, self.most = section, grid, bathymetry, source, most
        self.summary = lambda: summarise(source)  # without volumes, until the motion is computed

    def __str__(self):
        return str(self.summary())

    def series(self, domain: Domain) -> Series:
        """The records of the uplift on the tiles of a domain, which wait for the thread; collective."""
        floor = self.bathymetry.surveyed(domain.communicator)
        with of_part("source"):
            plan = _Plan.of(self.section, self.grid, floor, self.source, self.most)
        self.summary = plan.summary
        thread = ThreadPoolExecutor(1, "source")
        plan.start(thread)
        thread.shutdown(wait=False)
        count = len(plan.times)
        # The first record, at the first onset, is zero, so that BottomMotion would not insert one before it.
        return domain.series(plan.times, LazyRecords(lambda k: plan.records()[k], (count, *self.grid.shape)))


@dataclasses.dataclass
class _Plan:
    """A motion that is to be computed, or that is on disk.

    Attributes:
        times: of its records [s].
        found: a function without arguments: (uplift (m, my, mx) [m], box (j0, j1, i0, i1)).
    """

    grid: Any
    bathymetry: Any
    source: Any
    times: Any
    found: Callable[[], tuple]

    @classmethod
    def of(cls, section, grid, bathymetry, source, most):
        """The plan for the arguments of `motion_of`. Depths are read here, and not by a thread."""
        breakpoints = breakpoints_of(source)
        region = region_around(source, grid)
        depth = _depths_in(region, grid, bathymetry)
        _check_memory(breakpoints, section.every, depth.shape)
        times = _times(breakpoints, section.every, most)
        name = _name(section, grid, depth, source, times)
        moments = breakpoints if times is None else times
        held = _kept(name)
        if held is not None:
            return cls(grid, bathymetry, source, moments, lambda: held)
        surface = SeaSurface.of(
            grid, bathymetry.depth, region, horizontal=section.horizontal, kajiura=section.kajiura, around=source
        )
        alone = 8 * len(moments) * depth.size <= MOST_BYTES  # or it would not be kept, for the others
        made = functools.partial(_made_or_kept, name, surface, source, times, alone)
        return cls(grid, bathymetry, source, moments, functools.cache(made))

    def start(self, thread: Executor) -> None:
        """Let a thread of an Executor find the motion."""
        self.found = thread.submit(self.found).result

    def records(self) -> GridRecords:
        """The records of the whole grid, zero outside the box."""
        uplift, (j0, _, i0, _) = self.found()
        return GridRecords.in_box(uplift, (j0, i0), self.grid.shape)

    def summary(self) -> Any:
        """The Summary of the source, with volumes."""
        uplift, (j0, j1, i0, i1) = self.found()
        rows, columns = slice(j0, j1), slice(i0, i1)
        wet = np.asarray(grid_values(self.bathymetry.wet, self.grid).block(rows, columns))
        depth = np.asarray(grid_values(self.bathymetry.depth, self.grid).block(rows, columns))
        under_water = wet & (depth > 0)  # dry land may be wet later
        last, area = np.where(under_water, uplift[-1], 0.0), self.grid.area_h[rows]
        if last.shape != self.grid.shape:  # there are cells outside the box, where the uplift is zero
            last, area = np.pad(last, ((0, 1), (0, 0))), np.pad(area, ((0, 1), (0, 0)))
        return summarise(self.source, last, area)


def _made_or_kept(name, surface, source, times, alone):
    """(uplift, box) of that name, which one process of a host computes while the others wait if `alone`."""
    with cache.alone(name, HOW) if alone else contextlib.nullcontext():
        found = _kept(name)
        if found is None:
            found = _computed(surface, source, times)
            _keep(name, *found)
    return found


def _computed(surface, source, times):
    """(uplift (m, my, mx) [m], box (j0, j1, i0, i1)); the uplift is zero outside the box."""
    _, uplift = surface.patches(source, times)
    uplift, (j, i) = np.asarray(uplift), surface.corner
    moved = np.any(uplift != 0, axis=0)
    rows, columns = (np.flatnonzero(moved.any(axis)) for axis in (1, 0))
    if not rows.size:
        return uplift[:, :1, :1], (j, j + 1, i, i + 1)
    part = slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
    box = (j + rows[0], j + rows[-1] + 1, i + columns[0], i + columns[-1] + 1)
    return np.ascontiguousarray(uplift[:, *part]), tuple(map(int, box))


def _check_memory(breakpoints, every, shape):
    """Raise ConfigError if memory cannot hold the records of the motion in a region of `shape`."""
    if every != "auto":
        count = math.ceil(float(breakpoints[-1] - breakpoints[0]) / every) + 1
        what = f"the motion of the source, {count:,} records of {shape[1]:,} x {shape[0]:,} cells,"
        memory.require(2.0 * 4 * count * math.prod(shape), what, "give a longer `every`")


def _times(breakpoints, every, most):
    """The times at which the motion is sampled [s]: all its breakpoints if they are few, else evenly to its end."""
    if every == "auto" and len(breakpoints) <= most:
        return None
    first, end = float(breakpoints[0]), float(breakpoints[-1])
    if first == end:  # nothing slips
        return None
    intervals = most if every == "auto" or most == 1 else max(math.ceil((end - first) / every), 1)
    return np.linspace(first, end, intervals + 1)


# -- motions on disk --------------------------------------------------------------------------------------------------


def _depths_in(region, grid, bathymetry):
    """The depths in a region and in the cells around it, on which the motion depends."""
    inside = [
        np.flatnonzero((centres >= low) & (centres <= high))
        for centres, low, high in ((grid.y_centres, *region[2:]), (grid.x_centres, *region[:2]))
    ]
    block = (slice(max(int(k[0]) - 1, 0), min(int(k[-1]) + 2, n)) for k, n in zip(inside, grid.shape))
    return grid_values(bathymetry.depth, grid).block(*block)


def _name(section, grid, depth, source, times):
    """The name of a motion on disk: a digest of everything on which it depends."""
    import jaxlib.version

    programs = [path.read_text() for path in sorted(Path(__file__).parent.glob("*.py"))]
    numbers = [grid.x_edges, grid.y_edges, depth, times, *jax.tree.leaves(source)]
    plain = (
        grid.shape,
        grid.spherical,
        getattr(grid, "radius", None),
        grid.periodic_x,
        grid.periodic_y,
        section.horizontal,
        section.kajiura,
        str(jax.tree.structure(source)),
        jax.config.read("jax_enable_x64"),
        jaxlib.version.__version__,
        jax.default_backend(),
        cache.instructions(),
    )
    return cache.digest(*programs, *map(repr, plain), *map(_content, numbers))


def _content(array):
    array = np.ascontiguousarray(array) if array is not None else np.zeros(0)
    return f"{array.dtype} {array.shape} " + cache.digest_of_bytes(array.tobytes())


def _kept(name):
    """(uplift, box) of that name, in the form of `_computed`; None if there is no such file."""
    path = cache.find(name, HOW, SUFFIX)
    if path is None:
        return None
    with contextlib.suppress(OSError), path.open("rb") as file, np.load(file, allow_pickle=False) as held:
        return held["uplift"], tuple(map(int, held["box"]))
    return None


def _keep(name, uplift, box):
    if uplift.nbytes > MOST_BYTES:
        return

    def write(path):
        with path.open("wb") as file:
            np.savez(file, box=np.asarray(box), uplift=uplift)

    with contextlib.suppress(OSError):  # if the disk is full, the motion is computed again in the next run
        cache.keep(name, HOW, write, SUFFIX)
        cache.prune(SUFFIX, MOST_BYTES)
