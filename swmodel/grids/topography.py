"""Signed topography of a model whose shore moves: depth below the datum, and the heights of land, from a file.

On a cell with data nodes of elevation z (positive up) and weights w that sum to one

    H = - sum(w z)    [m], positive down, negative on land

with w the share of the cell's area (average) or the bilinear weights (interpolate). No node is left out and none is
deepened, so that beaches keep their slope. A surface at rest is eta = 0, at the level `datum` above the zero of the
file. Where heights of land (z > 0) count from another zero than depths, `land_datum` is added to them first:

    z = z_file + land_datum [z_file > 0] - datum

A file with missing values, with an unknown sign, or with heights that cannot be metres raises DataError.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ConfigError, DataError
from ..fields.parameters import Number, check_arguments
from ..parallel.communicator import Communicator
from .axes import is_data_array, label
from .elevation import at_level, notes_on
from .grid import Grid
from .patches import Layer, Patch, layers_of, overlay
from .subgrid import FineBed, finer
from .undeclared import HIGHEST
from .windows import BlockCache, CachedValues, GridValues, grid_values

if TYPE_CHECKING:
    import xarray as xr

LEVELS = {"datum": Number(None, "m"), "land_datum": Number(None, "m")}


class Topography:
    """Signed depth of a grid, of which any window can be evaluated or read without the rest.

    A model whose shore moves takes it as its `depth`.

    Args:
        grid: the Grid.
        depth: GridValues [m], positive down, negative on land.
        report: sentences for the user.
        wet: GridValues, bool: the cells that may ever be wet; every cell unless given.
    """

    fill_lakes = False
    is_surveyed = True

    def __init__(self, grid: Grid, depth: GridValues, report: tuple = (), wet: GridValues | None = None):
        self.grid, self.depth, self.report = grid, depth, tuple(report)
        self.wet = depth.map(lambda depth: np.ones(depth.shape, bool), dtype=bool) if wet is None else wet

    def surveyed(self, communicator: Communicator) -> Topography:
        """This topography itself: lakes and channels are not reported where the shore moves."""
        return self

    @property
    def deepest(self) -> GridValues:
        """The depth of the deepest bed in each cell [m]."""
        return self.depth


class SubgridTopography(Topography):
    """Topography whose cells have a bed of ratio x ratio fine cells (subgrid.py); `depth` is the mean of theirs.

    Args:
        grid: the Grid of the cells.
        fine: the Topography of the grid of the fine cells.
        ratio: the number of fine cells along the side of a cell.
        wet: GridValues, bool: the cells that may ever be wet; unless given, those with a fine cell that may.
    """

    def __init__(self, grid: Grid, fine: Topography, ratio: int, wet: GridValues | None = None):
        self.bed = FineBed(fine.depth, ratio)
        if wet is None:
            wet = FineBed(fine.wet, ratio).of_cells(lambda wet: wet.any(axis=(1, 3))).map(np.asarray, dtype=bool)
        super().__init__(grid, self.bed.of_cells(lambda depth: depth.mean(axis=(1, 3))), fine.report, wet)

    @property
    def deepest(self) -> GridValues:
        return self.bed.deepest


def topography(
    source: str | os.PathLike | xr.DataArray | Any,
    grid: Grid,
    method: str = "average",
    datum: float = 0.0,
    land_datum: float = 0.0,
    mask: Any = None,
    patches: Sequence[Patch | str | os.PathLike] = (),
    margin: int = 0,
    subgrid: int | None = None,
    *,
    masked: bool = True,
) -> Topography:
    """The Topography of `grid` from gridded elevations, or from depths, as identified by their attributes or name.

    Args:
        source: path of a netCDF file, or an xarray.DataArray; the attribute `positive`, a standard_name or the
            variable's name must determine its sign. Or a number, an array or a function of (x, y): the depth itself
            [m], positive down, negative on land.
        grid: the Grid.
        method: "average" over each cell's area, or "interpolate" bilinearly to its centre.
        datum: the level of the water at rest above the zero of the source [m], such as that of high water.
        land_datum: the zero from which the source's heights of land count, above that of its depths [m].
        mask: (ny, nx) array or function of (x, y), 1/2 or more (or True) in cells that may be wet; others, and those
            where it is not a number, are land for the whole run.
        patches: files, or Patches, that take precedence where they have values, the first one before the others; with
            them, the source may cover a part of the grid.
        margin: over which a file passes into the next one [cells].
        subgrid: the number of fine cells along the side of a cell, 2 to 16. The source is then read onto the fine
            cells, of which each cell gets tables (dynamics/subgrid.py); an array has (ny subgrid, nx subgrid) depths.
        masked: whether a land mask of the file counts, where there is no `mask`.

    Raises:
        ConfigError: if the mask, or a depth, does not fit the grid.
        DataError: if the file cannot be read, does not cover the grid, has holes, or is certainly not in metres.
    """
    check_arguments("topography", LEVELS, locals())
    wet, masked = None if mask is None else _mask_on(mask, grid), masked and mask is None
    levels = float(datum), float(land_datum)
    if is_data_array(source) or isinstance(source, (str, os.PathLike)):
        name = str(source.name or "topography") if is_data_array(source) else None
        source = Patch(source, name, datum=levels[0], land_datum=levels[1])
    else:
        _check_method(method)
        if len(patches):
            raise ConfigError("topography: patches lie on a file, and the source is none; give a file.")
    return _made(source, grid, levels, subgrid, wet, method=method, patches=patches, margin=margin, masked=masked)


def topography_of(section: Any, grid: Grid, mask: Any = None, masked: bool = True) -> Topography:
    """The Topography of `grid` from a [bathymetry] section; `mask` and `masked` are those of `topography`."""
    wet, masked = None if mask is None else _mask_on(mask, grid), masked and mask is None
    if section.type != "file":
        return _made(section.depth, grid, (0.0, 0.0), section.subgrid, wet)
    patches = [each.build() for each in section.patches]
    options: dict[str, Any] = {"method": section.method, "patches": patches, "margin": section.margin, "masked": masked}
    return _made(section.build(), grid, (0.0, 0.0), section.subgrid, wet, **options)


def _made(source, grid, levels, subgrid, wet, **options):
    """The Topography of a Patch with the `options` of `_on_grid`, or of depths at rest at `levels`."""
    if subgrid is not None:
        scaled = options | {"margin": options.get("margin", 0) * subgrid}
        fine = _made(source, finer(grid, subgrid), levels, None, None, **scaled)
        return SubgridTopography(grid, fine, subgrid, wet)
    return _on_grid(source, grid, wet, **options) if isinstance(source, Patch) else _of_depth(source, grid, levels, wet)


def _mask_on(mask, grid):
    if not callable(mask) and np.shape(mask) != grid.shape:
        raise ConfigError(f"the mask has shape {np.shape(mask)}, and the grid has {grid.shape}; give one for this grid")
    if not callable(mask) and not isinstance(mask, GridValues) and np.asarray(mask).dtype.kind not in "biuf":
        raise ConfigError(f"the mask holds {np.asarray(mask).dtype}, not numbers; give True or 1 where it may be wet")
    function = (lambda x, y: np.asarray(mask(x, y), float)) if callable(mask) else mask
    return grid_values(function, grid, name="the mask").map(lambda mask: np.nan_to_num(mask) >= 0.5, dtype=bool)


def _of_depth(depth, grid, levels, wet):
    if not callable(depth) and np.shape(depth) not in ((), grid.shape, (1, grid.nx), (grid.ny, 1)):
        raise ConfigError(f"the depth has shape {np.shape(depth)}, and the grid has {grid.shape} (ny, nx)")

    def levelled(depth):
        if not np.isfinite(depth).all():
            raise ConfigError("the depth is not finite everywhere on the grid; land has a negative depth")
        return -at_level(-depth, *levels)

    return Topography(grid, grid_values(depth, grid, name="the depth").map(levelled), wet=wet)


def _check_method(method):
    if method == "harmonic":
        raise ConfigError("method = 'harmonic' is for depths, and heights of land have no harmonic mean; use 'average'")


def _on_grid(source, grid, wet, method, patches, margin, masked):
    _check_method(method)
    elevation = source.elevation(grid, masked, "as given")
    layers = layers_of(
        elevation, (source.datum, source.land_datum), patches, grid, method, masked=masked, positive="as given"
    )
    blocks = BlockCache(_signed_depths(layers, grid, margin), grid.shape)
    if elevation.attrs["masked"]:
        wet = CachedValues(blocks, 1, bool)
    notes = tuple(note for each in layers for note in notes_on(each.elevation, each.plan))
    return Topography(grid, CachedValues(blocks), notes, wet)


def _signed_depths(layers: Sequence[Layer], grid: Grid, margin: int) -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    """The function that gives depths of a block below the level at rest, and whether cells may be wet, from files.

    The depth of a cell is minus the mean elevation of its nodes.

    With a land mask the mean is that over the nodes in water. Where these are less than half of a cell's area, the cell
    is land for the whole run. Without a mask all cells may be wet.
    """
    base = layers[-1].elevation
    sums = [functools.partial(_sums, each, len(layers) == 1) for each in layers]
    blended = overlay(sums, [each.plan for each in layers], grid.shape, margin)

    def signed(rows, columns):
        depth, gaps = blended(rows, columns)
        if not base.attrs["masked"] and (empty := gaps > 1e-9).any():
            j, i = np.argwhere(empty)[0]
            x, y = (float(points.flat[k]) for points, k in zip(grid.coordinates("h", rows, columns), (i, j)))
            raise DataError(
                f"{label(base)} and its patches have no value in {np.count_nonzero(empty)} cells, one at ({x:.6g}, "
                f"{y:.6g}); a topography needs heights everywhere: fill them, or add a patch."
            )
        share = 1.0 - gaps
        return depth / np.where(share > 0, share, 1.0), share >= 0.5 - 1e-9

    return signed


def _sums(layer, is_alone, rows, columns):
    """(-sum(w z) over the nodes with values [m], the share of those without)."""
    part, attrs = layer.plan.part(rows, columns), layer.elevation.attrs
    z = part.read(layer.elevation)
    missing = np.isnan(z)
    count = int(np.count_nonzero(missing))
    if is_alone and count and not attrs["masked"]:
        j, i = np.argwhere(missing)[0]
        raise DataError(
            f"{label(layer.elevation)} has {count} missing value{'s' * (count > 1)} on the grid, one at "
            f"({part.x[i]:.6g}, {part.y[j]:.6g}); a topography needs heights everywhere: fill them."
        )
    layer.undeclared.check(z, 0.0 if attrs["turned_over"] else HIGHEST)  # plains may be 99 m high
    z = -at_level(z, *layer.levels)
    if not count:
        depth = part(z)
        return depth, np.zeros(depth.shape)
    return part(np.where(missing, 0.0, z)), part(missing.astype(float))
