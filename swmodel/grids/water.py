"""Water bodies of a grid that is cut into tiles, by connection through faces; lakes, straits and channels.

Every rank labels the components of its own tiles. A component is identified by the number j nx + i of its first cell.
Across the edge of a tile two components belong to one body where wet cells face each other. Since a rank evaluates the
mask one cell beyond its tile, both sides find the same runs of such faces, and report the first face of each. The root
joins the components that share a face, and returns the number of the body of each. So a rank holds its tile, and the
root a few numbers for each component.
"""

import dataclasses

import numpy as np

from ..errors import ConfigError
from ..parallel import SerialCommunicator
from ..parallel.communicator import Communicator
from ..parallel.decomposition import Tile
from .grid import Grid
from .windows import Blocks, GridValues, grid_values

NEAR = 5  # cells


@dataclasses.dataclass(frozen=True)
class Bodies:
    """The components of a mask that are joined through faces, numbered from 1 by their first cells, row by row.

    Attributes:
        count: the number of bodies.
        tiles: {rank: (my, mx) numbers of the bodies in the rank's own cells, 0 outside}, of the tiles of this process.
        cells, area: (count,), of each body; [m2].
        first: (count,) number j nx + i of the first cell of each.
        deepest: (count,) number of the cell in which `weight` is largest.
        touches: (count, 4) bool, whether a body touches the west, east, south and north side of the grid.
    """

    count: int
    tiles: dict
    cells: np.ndarray
    area: np.ndarray
    first: np.ndarray
    deepest: np.ndarray
    touches: np.ndarray


def label_bodies(
    mask: GridValues,
    grid: Grid,
    communicator: Communicator,
    periodic: str | None = None,
    weight: GridValues | None = None,
) -> Bodies:
    """The Bodies of a mask; collective.

    Args:
        mask: 1 or True in the cells that belong to bodies.
        grid: the Grid.
        communicator: a Communicator.
        periodic: the directions in which bodies are joined through the seam; the grid's unless given.
        weight: of cells, for `deepest`; none unless given.
    """
    periodic = grid.periodic if periodic is None else periodic
    parts = communicator.decomposition(grid.shape)
    labelled = {rank: _labelled(mask, grid, parts.tile(rank), periodic, weight) for rank in communicator.ranks}
    mine, shared = communicator.through_root({rank: table for rank, (_, table) in labelled.items()}, _numbered)
    tiles = {rank: np.append(0, 1 + mine[rank])[labels] for rank, (labels, _) in labelled.items()}
    return Bodies(tiles=tiles, **shared)


def bodies(wet: np.ndarray, grid: Grid) -> np.ndarray:
    """(ny, nx) numbers of the water bodies of a whole mask, from 1; 0 is land."""
    return label_bodies(grid_values(np.asarray(wet, bool), grid), grid, SerialCommunicator()).tiles[0]


def _numbered(everyone):
    """For every process ({rank: the bodies of its components, from 0}, the properties of all bodies)."""
    tables = {rank: table for process in everyone for rank, table in process.items()}
    names, faces, owners, cells, area, deepest, heights, touches = (
        np.concatenate([table[k] for table in tables.values()]) for k in range(8)
    )
    order = np.argsort(names)
    names = names[order]
    body, count = _joined(names, faces, np.searchsorted(names, owners))
    cells, area, heights, deepest, touches = (x[order] for x in (cells, area, heights, deepest, touches))
    best = np.lexsort((deepest, -heights, body))
    touched = np.zeros((count, 4), bool)
    np.logical_or.at(touched, body, touches)
    shared = {
        "count": count,
        "cells": np.rint(np.bincount(body, cells, count)).astype(int),
        "area": np.bincount(body, area, count),
        "first": names[np.unique(body, return_index=True)[1]],
        "deepest": deepest[best][np.searchsorted(body[best], np.arange(count))],
        "touches": touched,
    }
    number = {rank: body[np.searchsorted(names, table[0])] for rank, table in tables.items()}
    return [({rank: number[rank] for rank in process}, shared) for process in everyone]


def _joined(names, faces, owners):
    """(the body of each component from 0, their number): components that share a face are one body."""
    order = np.argsort(faces, kind="stable")
    faces, owners = faces[order], owners[order]
    same = np.flatnonzero(faces[1:] == faces[:-1])
    return connected(names.size, owners[same], owners[same + 1])


def connected(count: int, one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, int]:
    """(the component of each of `count` things, from 0 in the order of their first things; the number of components).

    Thing one[k] is linked to other[k]. In each round every component joins one of its neighbours, which at least halves
    the number of components that have any. scipy does the same, but takes a tenth of a second to import.
    """
    root, before = np.arange(count), None
    while before is None or (root != before).any():
        before = root
        low, root = np.minimum(root[one], root[other]), root.copy()
        np.minimum.at(root, before[one], low)
        np.minimum.at(root, before[other], low)
        while (root[root] != root).any():
            root = root[root]
    first, component = np.unique(root, return_inverse=True)
    return component, first.size


def components(mask: np.ndarray) -> tuple[np.ndarray, int]:
    """(the components of a mask (my, mx), joined through faces, from 1 in the order of their first cells, 0 outside;
    their number). The runs of cells of a row are linked to those of the next row."""
    starts = mask & ~np.pad(mask, ((0, 0), (1, 0)))[:, :-1]
    run = np.cumsum(starts.ravel()).reshape(mask.shape) - 1
    both = mask[1:] & mask[:-1]
    component, count = connected(int(starts.sum()), run[:-1][both], run[1:][both])
    return np.where(mask, np.append(component, -1)[run] + 1, 0), count


def _labelled(mask, grid, tile, periodic, weight):
    """(the components of a tile from 1, the table of them that the root needs)."""
    ny, nx = grid.shape
    modes = ["wrap" if axis in periodic else 0 for axis in "yx"]
    wide = tile.cut(mask, 1, *modes).astype(bool)
    labels, count = components(wide[1:-1, 1:-1])
    rows, columns = np.nonzero(labels)
    owner = labels[rows, columns] - 1
    height = np.zeros(owner.size) if weight is None else tile.cut(weight, 0, 0, 0)[rows, columns]
    area = np.broadcast_to(grid.metrics(np.arange(tile.j0, tile.j1))["area_h"], (tile.j1 - tile.j0, 1))[rows, 0]
    rows, columns = rows + tile.j0, columns + tile.i0
    number = rows * nx + columns
    names = np.full(count, ny * nx)
    np.minimum.at(names, owner, number)
    best = np.lexsort((number, -height, owner))
    best = best[np.searchsorted(owner[best], np.arange(count))]
    touches = np.zeros((count, 4), bool)
    for k, end in enumerate((columns == 0, columns == nx - 1, rows == 0, rows == ny - 1)):
        touches[owner[end], k] = True
    faces, owners = _faces(wide, labels, tile, ny, nx)
    cells, areas = np.bincount(owner, minlength=count), np.bincount(owner, area, count)
    return labels, (names, faces, names[owners - 1], cells, areas, number[best], height[best], touches)


def _faces(wide, labels, tile, ny, nx):
    """(numbers of the first faces of the runs of faces with water on both sides, the labels on this side)."""
    faces, inner = [], wide[1:-1, 1:-1]
    rows, columns = np.arange(tile.j0, tile.j1), np.arange(tile.i0, tile.i1)
    sides = (
        (inner[:, 0] & wide[1:-1, 0], labels[:, 0], rows * nx + tile.i0 % nx),
        (inner[:, -1] & wide[1:-1, -1], labels[:, -1], rows * nx + tile.i1 % nx),
        (inner[0] & wide[0, 1:-1], labels[0], (ny + tile.j0 % ny) * nx + columns),
        (inner[-1] & wide[-1, 1:-1], labels[-1], (ny + tile.j1 % ny) * nx + columns),
    )
    for both, label, numbers in sides:
        starts = both & ~np.append(False, both[:-1])
        faces.append((numbers[starts], label[starts]))
    return tuple(np.concatenate(parts) for parts in zip(*faces))


# -- sentences for the user -------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Survey:
    """The results of a survey of a mask: sentences for the user, and the cells of lakes.

    Attributes:
        report: sentences on lakes, isolated cells, closed straits and channels.
        lakes: (n, 2), runs of lake cells in rows of the whole grid, ascending: the number j nx + i of the first cell,
            and the one after the last. It is empty unless lakes are filled.
    """

    report: tuple
    lakes: np.ndarray


INSIDE = "inside"  # fills lakes but for water at the sides of the grid, which continues beyond those of a nest


def survey(
    wet: GridValues, depth: GridValues, grid: Grid, communicator: Communicator, fill_lakes: bool | str
) -> Survey:
    """Lakes, straits and channels of a mask; collective.

    Args:
        wet: the mask; bool.
        depth: [m], 0 on land.
        grid: the Grid.
        communicator: a Communicator.
        fill_lakes: whether lakes are to become land, so that their cells are needed; or INSIDE.
    """
    water = label_bodies(wet, grid, communicator, weight=depth)
    if not water.count:
        return Survey((), np.zeros((0, 2), int))
    is_lake = np.arange(water.count) != np.argmax(water.area)
    if fill_lakes == INSIDE:
        is_lake &= ~water.touches.any(axis=1)
    parts = communicator.decomposition(grid.shape)
    runs = [_runs(numbers, is_lake, parts.tile(rank), grid.nx) for rank, numbers in water.tiles.items()]
    lakes = np.zeros((0, 2), int)
    if fill_lakes and water.count > 1:
        lakes = np.concatenate(sum(communicator.host_gather(runs), []))
        lakes = lakes[np.argsort(lakes[:, 0])]
    closed = _closed_straits(wet, water, grid, communicator) if water.count > 1 else ()
    report = _lakes(water, is_lake, closed, grid, fill_lakes)
    kept = wet if not lakes.size else without(wet, lakes)
    return Survey((*report, *_channels(kept, grid, communicator)), lakes)


def without(wet: GridValues, lakes: np.ndarray) -> GridValues:
    """The mask without the cells in `lakes`, runs as in a Survey."""

    def block(rows, columns):
        number = np.arange(rows.start, rows.stop)[:, None] * wet.shape[1] + np.arange(columns.start, columns.stop)
        run = np.searchsorted(lakes[:, 0], number, side="right") - 1
        inside = (run >= 0) & (number < lakes[np.maximum(run, 0), 1])
        return wet.block(rows, columns) & ~inside

    return Blocks(block, wet.shape, bool)


def _runs(numbers, is_lake, tile, nx):
    """(n, 2) runs of the cells of a tile that are water of bodies which are lakes."""
    lake = np.append(False, is_lake)[numbers]
    edges = np.diff(lake.astype(np.int8), axis=1, prepend=0, append=0)
    (rows, first), (_, last) = np.nonzero(edges == 1), np.nonzero(edges == -1)
    start = (rows + tile.j0) * nx + tile.i0
    return np.stack([start + first, start + last], axis=1)


def _closed_straits(wet, water, grid, communicator):
    """The numbers, on every process, of cells whose north-east or north-west neighbour is water of another body."""
    parts, (ny, nx) = communicator.decomposition(grid.shape), grid.shape
    modes = ["wrap" if axis in grid.periodic else False for axis in "yx"]
    inside, across = [], []
    for rank, numbers in water.tiles.items():
        tile = parts.tile(rank)
        wide = tile.cut(wet, 1, *modes)
        body = np.pad(numbers, 1, constant_values=-1)  # -1 is a neighbour's
        j, i = np.arange(tile.j0 - 1, tile.j1 + 1) % ny, np.arange(tile.i0 - 1, tile.i1 + 1) % nx
        for direction in (1, -1):  # of the upper cell: east or west of the lower one
            near, far = (slice(1, None), slice(None, -1)) if direction == -1 else (slice(None, -1), slice(1, None))
            touching = wide[:-1, near] & wide[1:, far] & ~wide[1:, near] & ~wide[:-1, far]
            number = (j[:-1, None] * nx + i[None, near])[touching]
            lower, upper = body[:-1, near][touching], body[1:, far][touching]
            known = (lower >= 0) & (upper >= 0)
            inside.append(number[known & (lower != upper)])
            half = (lower >= 0) ^ (upper >= 0)  # the other cell belongs to another rank, which reports its body
            key = 2 * number[half] + (direction > 0)
            across.append(np.stack([key, np.maximum(lower, upper)[half]], axis=1))
    return communicator.through_root((np.concatenate(inside), np.concatenate(across)), _corner_contacts)


def _corner_contacts(everyone):
    """For every process, the sorted numbers of the cells where different bodies touch at a corner."""
    inside = np.concatenate([cells for cells, _ in everyone])
    keys, body = np.concatenate([pairs for _, pairs in everyone]).T
    order = np.argsort(keys, kind="stable")
    keys, body = keys[order], body[order]
    other = np.flatnonzero((keys[1:] == keys[:-1]) & (body[1:] != body[:-1]))
    return [np.unique(np.concatenate([inside, keys[other] // 2]))] * len(everyone)


def _lakes(water, is_lake, closed, grid, fill_lakes):
    """Sentences on the water that is not part of the largest body: lakes, single cells, straits closed at a corner."""
    if not (count := int(is_lake.sum())):
        return []
    sizes = np.where(is_lake, water.cells, 0)
    biggest = np.argsort(-sizes, kind="stable")[: min(3, count)]
    places = [f"{_count(sizes[body], 'cell')} at {_place(grid, water.deepest[body])}" for body in biggest]
    fate = "filled" if fill_lakes else "kept (fill_lakes = true makes them land)"
    lines = [
        f"{_count(count, 'lake')} of {_count(sizes.sum(), 'cell')} not connected to the largest "
        f"water body, {fate}: {', '.join(places)}{', ...' if count > 3 else '.'}"
    ]
    single = np.flatnonzero(sizes == 1)
    if single.size:
        lines.append(f"{_count(single.size, 'isolated wet cell')}, one at {_place(grid, water.first[single[0]])}.")
    if len(closed):
        lines.append(
            f"{_count(len(closed), 'strait')} closed between water bodies that touch at a corner only, "
            f"one at {_place(grid, closed[0])}; open it with a mask or a finer grid."
        )
    return lines


def _narrow(wet, grid):
    """Wet cells with water on two opposite sides and land on the two others, GridValues."""
    modes = ["wrap" if axis in grid.periodic else True for axis in "yx"]

    def block(rows, columns):
        wide = Tile(rows.start, rows.stop, columns.start, columns.stop).cut(wet, 1, *modes)
        north, south, east, west = wide[2:, 1:-1], wide[:-2, 1:-1], wide[1:-1, 2:], wide[1:-1, :-2]
        return wide[1:-1, 1:-1] & ((east & west & ~north & ~south) | (north & south & ~east & ~west))

    return Blocks(block, wet.shape, bool)


def _channels(wet, grid, communicator):
    """A sentence on the channels one cell wide."""
    narrow = label_bodies(_narrow(wet, grid), grid, communicator, periodic="")
    if not narrow.count:
        return []
    longest = int(np.argmax(narrow.cells))
    return [
        f"{_count(narrow.cells.sum(), 'cell')} in {_count(narrow.count, 'channel')} one cell wide, the longest of "
        f"{_count(narrow.cells[longest], 'cell')} at {_place(grid, narrow.first[longest])}: the flow through them "
        "depends on the mask."
    ]


def _count(n, noun):
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _place(grid, number):
    """The coordinates of cell number j nx + i as text: longitude and latitude, or x and y."""
    j, i = divmod(int(number), grid.nx)
    (x,), (y,) = (axis.ravel() for axis in grid.coordinates("h", slice(j, j + 1), slice(i, i + 1)))
    if not grid.spherical:
        return f"x = {x / 1000:g} km, y = {y / 1000:g} km"
    x = (x + 180.0) % 360.0 - 180.0
    return f"{abs(x):.2f} {'E' if x >= 0 else 'W'} {abs(y):.2f} {'N' if y >= 0 else 'S'}"


def cell_at(point: tuple[float, float], grid: Grid) -> tuple[int, int] | None:
    """(j, i) of the cell that a point lies in; None outside the grid."""
    x, y = point
    cell = []
    for value, edges, n in ((y, grid.y_edges, grid.ny), (grid.turned(x), grid.x_edges, grid.nx)):
        if not edges[0] <= value <= edges[-1]:
            return None
        cell.append(min(int((value - edges[0]) / (edges[-1] - edges[0]) * n), n - 1))
    return cell[0], cell[1]


def nearest_water(who: str, point: tuple[float, float], grid: Grid, wet: GridValues) -> tuple[int, int]:
    """(j, i) of the cell that a point lies in or, if that is land, of the nearest wet one, at most NEAR cells away.

    Raises:
        ConfigError: for a point outside the grid, or without water near; `who` gave it.
    """
    if (cell := cell_at(point, grid)) is None:
        spans = " and ".join(f"{edges[0]:g} to {edges[-1]:g}" for edges in (grid.x_edges, grid.y_edges))
        raise ConfigError(
            f"{who}: the position ({point[0]:g}, {point[1]:g}) is outside the grid, which spans {spans}; move it, or "
            "leave it out."
        )
    row, column = cell
    rows, columns = (n.ravel() for n in np.mgrid[row - NEAR : row + NEAR + 1, column - NEAR : column + NEAR + 1])
    inside = (rows >= 0) & (rows < grid.ny) & (grid.periodic_x | ((columns >= 0) & (columns < grid.nx)))
    rows, columns, metrics = rows[inside], columns[inside], grid.metrics(np.array([row]))
    dx, dy = (float(np.ravel(metrics[name])[0]) for name in ("dx_h", "dy_h"))
    far = np.hypot((columns - column) * dx, (rows - row) * dy)
    columns = columns % grid.nx
    far = np.where(np.asarray(wet.at(rows, columns), bool), far, np.inf)
    k = int(np.argmin(far))
    if not np.isfinite(far[k]):
        raise ConfigError(
            f"{who}: the position ({point[0]:g}, {point[1]:g}) is on land, and no water is within {NEAR} cells of it; "
            "move it to the shore."
        )
    return int(rows[k]), int(columns[k])
