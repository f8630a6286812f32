"""Depth and land mask of a model's grid, from a file of elevations, an array, a function or a number.

On a cell with data nodes of elevation z (positive up, of which those with z < 0 are wet) and weights w that sum to one,

    wet fraction  a = sum(w [z < 0])            the cell is wet if a >= 1/2
    depth         H = sum(w [z < 0] (-z)) / a   [m], the mean over the wet nodes, positive down; 0 on land

with w the share of the cell's area (average, harmonic) or the bilinear weights (interpolate). A missing value is land,
and so is a node of exactly 0. In ETOPO5 these (0.85 %) are shorelines, tidal flats, river deltas, the steppe round the
Caspian and the floating ice shelves of Antarctica; none is a sounding: as water they would be a sea of no depth, which
takes from the mean depth of its cell or is deepened to the minimum. Depth is clipped from below once, here.

**Waves over a floor that cells do not resolve** travel as over a uniform depth below the mean: in one dimension, over
the harmonic mean, since the pressure drops along x add up, g d eta/dx = - (1 / H) dU/dt with one transport U for all
nodes. The method `harmonic` takes it in place of the mean, of nodes that are as deep as the minimum or deeper:

    H = a / sum(w [z < 0] / max(-z, minimum))

**Sea water is compressible.** A long wave stores elastic energy, and its mass is denser at depth. So it travels as in
incompressible water of the depth (Watada 2013, doi:10.1002/grl.50785; 0.44 % slower in 4 km of water)

    H [1 - g H / (2 c^2)]

with the speed of sound c. `sound_speed` replaces the depth with it.
"""

import copy
import dataclasses
import functools
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..defaults import GRAVITY
from ..errors import ConfigError, DataError
from ..fields.parameters import Number
from ..parallel import SerialCommunicator
from ..parallel.communicator import Communicator
from .axes import Gridded, is_data_array, label
from .elevation import at_level, elevation_in, notes_on, open_elevation
from .grid import Grid
from .patches import DOUBTFUL, Layer, Patch, layers_of, overlay
from .water import survey, without
from .windows import BlockCache, CachedValues, FieldLike, GridValues, Stored, grid_values

SOUND_SPEED = Number(units="m s-1", minimum=1000.0, maximum=2000.0, hint=", as of sea water")


@dataclasses.dataclass(frozen=True)
class Bathymetry:
    """Depth and mask on a whole grid.

    Attributes:
        depth: (ny, nx) [m], positive down, 0 on land.
        wet: (ny, nx) bool.
        report: sentences for the user, on lakes, channels and deepened cells.
    """

    depth: np.ndarray
    wet: np.ndarray
    report: tuple = ()


def as_bathymetry(source: "Bathymetry | Gridded | FieldLike", grid: Grid, **options: Any) -> Bathymetry:
    """The Bathymetry of `grid` from any source.

    Args:
        source: a Bathymetry; the path of a netCDF file or an xarray.DataArray, for `onto_grid`; or a number, a
            function or an array, for `from_depth`.
        options: those of `onto_grid` or `from_depth`.
    """
    if isinstance(source, Bathymetry):
        if source.depth.shape != grid.shape:
            raise ConfigError(
                f"the bathymetry has shape {source.depth.shape}, and the grid has {grid.shape}; make it for this grid."
            )
        return source
    if isinstance(source, (str, os.PathLike)) or is_data_array(source):
        return onto_grid(source, grid, **options)
    return from_depth(source, grid, **options)


class SeaFloor:
    """Depth and mask of a grid, of which any window can be evaluated or read without the rest.

    Args:
        raw: `raw(rows, columns)` gives (depth [m] without minimum, wet) of such a block, and of a file also its gaps.
        minimum_depth: wet cells shallower than this are deepened to it [m].
        fill_lakes: whether water that no cell faces join to the largest water body becomes land; with `water.INSIDE`
            not at the sides of the grid.
        notes: sentences on the data themselves.
        nowhere: `nowhere()` raises where there is no water at all.
        sound_speed: c [m s-1], 1000 to 2000; None for incompressible water.
        file: of the elevations; "" if there is none.

    Attributes:
        depth: GridValues [m], positive down, 0 on land.
        wet: GridValues, bool.
        report: sentences for the user, once `surveyed`.
        is_surveyed: whether `surveyed` returned it.
    """

    def __init__(
        self,
        grid: Grid,
        raw: Callable,
        minimum_depth: float = 0.0,
        fill_lakes: bool | str = False,
        notes: tuple = (),
        nowhere: Callable | None = None,
        sound_speed: float | None = None,
        file: str = "",
    ):
        if not minimum_depth >= 0:
            raise ConfigError(f"minimum_depth = {minimum_depth} is not a depth; give 0 or more metres.")
        if sound_speed is not None:
            SOUND_SPEED.check("SeaFloor", "sound_speed", sound_speed)
        self.grid, self.minimum_depth, self.fill_lakes = grid, minimum_depth, fill_lakes
        self.sound_speed, self.file = sound_speed, file
        self.notes, self.report, self._nowhere, self.is_surveyed = tuple(notes), (), nowhere, False
        self._survey: tuple | None = None  # (communicator, the sea floor that its processes have surveyed)
        self._raw = raw if isinstance(raw, BlockCache) else BlockCache(raw, grid.shape)
        self.wet = CachedValues(self._raw, 1, bool)
        self._as_given = CachedValues(self._raw, 0).map(lambda depth, wet: np.where(wet, depth, 0.0), self.wet)
        self.depth = self._clipped(self.wet)

    def _clipped(self, wet):
        slope = 0.0 if self.sound_speed is None else 0.5 * GRAVITY / self.sound_speed**2

        def depth_of_waves(depth, wet):
            depth = np.where(wet, np.maximum(depth, self.minimum_depth), 0.0)
            return depth * (1.0 - slope * depth)

        return self._as_given.map(depth_of_waves, wet)

    def surveyed(self, communicator: Communicator) -> "SeaFloor":
        """This sea floor with its report, and with lakes filled where `fill_lakes` is True; collective.

        Raises:
            ConfigError, DataError: where there is no water on the grid.
        """
        if self.is_surveyed:
            return self
        if self._survey is not None and self._survey[0] is communicator:
            return self._survey[1]
        tiles = [communicator.decomposition(self.grid.shape).tile(rank) for rank in communicator.ranks]
        self._raw.ensure_capacity(4 * len(tiles))
        floor = copy.copy(self)
        wet = [np.count_nonzero(self.wet.block(*tile.slices)) for tile in tiles]
        if not communicator.agree(sum(wet) > 0) and self._nowhere is not None:
            self._nowhere()
        floor.report = self.notes
        if communicator.agree(wet != [math.prod(tile.shape) for tile in tiles]):  # else there are no lakes or straits
            lakes = survey(self.wet, self._as_given, self.grid, communicator, self.fill_lakes)
            floor.report += lakes.report
            if lakes.lakes.size:
                floor.wet = without(self.wet, lakes.lakes)
                floor.depth = self._clipped(floor.wet)
        floor.fill_lakes, floor.is_surveyed = False, True
        floor.report += tuple(floor._counted(tiles, communicator))
        self._survey = communicator, floor
        return floor

    def _counted(self, tiles, communicator):
        """Sentences on the numbers of cells that are deepened, or that lie in gaps of the file."""
        counts = np.zeros(3, int)
        for tile in tiles:
            depth, wet = self._as_given.block(*tile.slices), self.wet.block(*tile.slices)
            gaps = self._raw(*tile.slices)[2] if self.file else np.zeros(())
            shallow, missing = wet & (depth < self.minimum_depth), ~wet & (gaps % DOUBTFUL > 0.5)
            counts += [np.count_nonzero(cells) for cells in (shallow, missing, wet & (gaps >= DOUBTFUL))]
        texts = (
            f"shallower than {self.minimum_depth:g} m deepened to it.",
            f"without a value in {self.file} taken as land.",
            f"with a depth that {self.file} repeats at many nodes, far from the depths around them; if it stands for a "
            "missing value, declare it by _FillValue.",
        )
        for count, text in zip(communicator.host_sum(counts), texts):
            if count:
                yield f"{count} cell{'' if count == 1 else 's'} {text}"

    def whole(self) -> Bathymetry:
        """The Bathymetry of the whole grid, in arrays."""
        floor = self.surveyed(SerialCommunicator())
        return Bathymetry(np.asarray(floor.depth), np.asarray(floor.wet), floor.report)


def onto_grid(elevation: "Gridded", grid: Grid, method: str = "average", **options: Any) -> Bathymetry:
    """Depth and mask of `grid` from gridded elevations, by the rule at the top of this module.

    Arguments and errors are those of `elevation_on`; it also raises DataError where there is no water on the grid.
    """
    if isinstance(elevation, (str, os.PathLike)):
        with open_elevation(elevation, masked=options.get("mask") is None, grid=grid) as opened:
            return onto_grid(opened, grid, method, **options)
    return elevation_on(elevation, grid, method, **options).whole()


def elevation_on(
    elevation: Any,
    grid: Grid,
    method: str = "average",
    minimum_depth: float = 20.0,
    mask: FieldLike | None = None,
    fill_lakes: bool | str = False,
    sound_speed: float | None = None,
    datum: float = 0.0,
    land_datum: float = 0.0,
    patches: Sequence[Patch | str | os.PathLike] = (),
    margin: int = 0,
) -> SeaFloor:
    """The SeaFloor of `grid` from gridded elevations, which are read a window at a time.

    Args:
        elevation: path of a netCDF file, or an xarray.DataArray of elevation (or of depth, by its attributes).
        method: "average" over each cell's area; "harmonic", the harmonic mean over it, for waves over a floor that
            cells do not resolve; "interpolate" bilinearly to its centre if the data are coarser.
        minimum_depth: wet cells shallower than this are deepened to it [m].
        mask: (ny, nx) bool, True where wet, in place of the half-wet rule; where it makes water out of land, the depth
            is `minimum_depth`.
        fill_lakes: make land of water that no cell faces join to the largest water body.
        sound_speed: of sea water [m s-1], for waves in compressible water.
        datum: the level of the water at rest above the zero of the elevations [m].
        land_datum: the zero from which elevations of land count, above that of the others [m].
        patches: files, or Patches, that take precedence where they have values, the first one before the others; with
            them, `elevation` may cover a part of the grid.
        margin: over which a file passes into the next one [cells].

    Raises:
        ConfigError: for a harmonic mean without a minimum_depth above 0, or another sound_speed than that of water.
        DataError: if a file cannot be read, or does not cover the grid.
    """
    if isinstance(elevation, (str, os.PathLike)):
        elevation = open_elevation(elevation, masked=mask is None, grid=grid)
    if "turned_over" not in elevation.attrs:
        name = elevation.name or "elevation"
        elevation = elevation_in(elevation.to_dataset(name=name), name, name)
    harmonic = method == "harmonic"
    if harmonic and not minimum_depth > 0:
        raise ConfigError("the harmonic mean of depths needs a minimum_depth above 0, since that of 0 is 0.")
    means = "average" if harmonic else method
    layers = layers_of(elevation, (datum, land_datum), patches, grid, means, masked=mask is None)
    given = None if mask is None else _own_mask(mask, grid)
    raw = _raw_depths(layers, grid, given, minimum_depth, harmonic, margin)

    def nowhere():
        if given is not None or datum:
            what = "in the mask" if given is not None else f"below the datum, {datum:g} m"
            raise DataError(f"{label(elevation)} has no water on the grid {what}; check both.")
        raise DataError(
            f"{label(elevation)} has no water on the grid: elevation is positive up; if the file holds depths, "
            "positive down, give the variable the attribute positive = 'down'."
        )

    notes = []
    for each in layers:
        notes += notes_on(each.elevation, each.plan)
        ratio = np.median(np.diff(each.plan.x)) / np.diff(grid.x_edges)[0]
        if method != "interpolate" and ratio > 1.5:
            notes.append(f"the data are {ratio:.1f} times coarser than the cells; 'interpolate' avoids the steps.")
    return SeaFloor(grid, raw, minimum_depth, fill_lakes, tuple(notes), nowhere, sound_speed, label(elevation))


def _raw_depths(layers, grid, given, minimum_depth, harmonic, margin):
    """The function `raw` of a SeaFloor, which blends the sums of files; `given` is a mask or None."""
    least = minimum_depth if harmonic else None
    sums = [functools.partial(_wet_sums, each, least=least) for each in layers]
    blended = overlay(sums, [each.plan for each in layers], grid.shape, margin)

    def raw(rows, columns):
        wet_fraction, water, gaps = blended(rows, columns)
        mean = water / np.where(wet_fraction > 0, wet_fraction, 1.0)
        depth = mean if least is None else 1.0 / np.where(mean > 0, mean, np.inf)
        if given is None:
            return depth, wet_fraction >= 0.5 - 1e-9, gaps
        wet = given.block(rows, columns)
        if minimum_depth <= 0 and (wet & (wet_fraction == 0)).any():
            raise ConfigError("mask makes water of cells without any depth; give a minimum_depth above 0 for them.")
        return depth, wet.copy(), gaps

    return raw


def _wet_sums(layer: Layer, rows: slice, columns: slice, least: float | None = None) -> tuple[np.ndarray, ...]:
    """(wet fraction a, sum(w [z < 0] (-z)) [m], gaps) of a block of cells, some of the file's rows at a time.

    Gaps are the share of the nodes without a value, and DOUBTFUL or more in cells of doubtful nodes (undeclared.py).
    The file's rows are taken in the same groups for every block, so that sums do not depend on how the grid is cut.
    With `least` the sum is that of the harmonic mean, of nodes that are at least so deep [m].
    """
    shape = rows.stop - rows.start, columns.stop - columns.start
    wet_fraction, water, gaps = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    elevation, plan = layer.elevation, layer.plan
    part = plan.part(rows, columns)
    for group, here in plan.groups(part):
        z, doubtful = layer.undeclared.land_where_missing(part.read(elevation, group))
        missing = np.isnan(z)
        if missing.any():
            gaps += part(missing.astype(np.float64), here)
        if doubtful is not None:
            gaps += DOUBTFUL * (part(doubtful.astype(np.float64), here) > 0)
        z = at_level(z, *layer.levels)
        node_is_wet = z < 0
        depth = np.where(node_is_wet, -z, 0.0)
        if least is not None:
            depth = node_is_wet / np.maximum(depth, least)
        wet_fraction += part(node_is_wet.astype(np.float64), here)
        water += part(depth, here)
    return wet_fraction, water, gaps


def from_depth(
    depth: FieldLike,
    grid: Grid,
    minimum_depth: float = 0.0,
    mask: FieldLike | None = None,
    fill_lakes: bool = False,
    sound_speed: float | None = None,
) -> Bathymetry:
    """Depth and mask of `grid` from a number, a function or an array; where it is 0, negative or NaN there is land.

    Args:
        depth: [m], positive down: a number; a function of the cell centres x (1, nx) and y (ny, 1) [m, or degrees on
            the sphere]; or an array (ny, nx), rows from south to north.
        minimum_depth, mask, fill_lakes, sound_speed: as for `onto_grid`; by default nothing is deepened.

    Raises:
        ConfigError: for a wrong shape, an infinite depth, or no water at all.
    """
    return depth_on(depth, grid, minimum_depth, mask, fill_lakes, sound_speed).whole()


def depth_on(
    depth: FieldLike,
    grid: Grid,
    minimum_depth: float = 0.0,
    mask: FieldLike | None = None,
    fill_lakes: bool | str = False,
    sound_speed: float | None = None,
) -> SeaFloor:
    """The SeaFloor of `grid` from a number, a function or an array; arguments as of `from_depth`."""
    if not callable(depth):
        depth = np.asarray(depth, dtype=np.float64)
        if depth.shape not in ((), grid.shape):
            raise ConfigError(
                f"the depth has shape {depth.shape} and the grid needs (ny, nx) = {grid.shape}, rows from south to "
                "north."
            )
    values, given = grid_values(depth, grid, name="the depth"), None if mask is None else _own_mask(mask, grid)

    def raw(rows, columns):
        here = np.asarray(values.block(rows, columns), float)
        if np.isinf(here).any():
            raise ConfigError("the depth is infinite somewhere; give metres, and 0 or NaN on land.")
        wet = here > 0 if given is None else given.block(rows, columns).copy()
        if minimum_depth <= 0 and not (here[wet] > 0).all():
            raise ConfigError("mask makes water of cells without any depth; give a minimum_depth above 0 for them.")
        return np.where(here > 0, here, 0.0), wet

    def nowhere():
        raise ConfigError(
            "the depth is nowhere above 0: it is positive down; change the sign if it is an elevation, or move the "
            "grid if it lies on land."
        )

    return SeaFloor(grid, raw, minimum_depth, fill_lakes, (), nowhere, sound_speed)


def _own_mask(mask, grid):
    """The GridValues, bool, of an array or of GridValues."""
    if isinstance(mask, GridValues):
        return mask.map(lambda mask: mask != 0, dtype=bool)
    mask = np.asarray(mask)
    if mask.shape != grid.shape or not np.isin(mask, (0, 1)).all():
        raise ConfigError(
            f"mask has shape {mask.shape} and type {mask.dtype}; give (ny, nx) = {grid.shape} of True (wet) and False."
        )
    return Stored(mask.astype(bool), grid.shape)
