"""The region around a source: the cells of a grid near its faults, and a taper towards the sides of a patch of them."""

import itertools
from typing import Any

import numpy as np

from ..errors import ConfigError
from ..grids.grid import Grid, limits_on
from ..grids.windows import GridValues
from .fault import REFERENCES, Source, final_slip, top_of

Region = tuple[float, float, float, float]  # x0, x1, y0, y1 in the coordinates of the grid
ACCURACY = 1e-3  # of the far field that is left out, as a share of the greatest slip
PIECES = 4  # of a fault along strike, whose uplifts are added up
POINTS = 64  # of a lattice around the faults, along both axes


def block_of(depth: Any, rows: slice, columns: slice) -> np.ndarray:
    """The depths of some rows and columns, of an array or GridValues."""
    return np.asarray(depth.block(rows, columns) if isinstance(depth, GridValues) else depth[rows, columns], float)


def region_around(source: Source, grid: Grid, reach: float | None = None) -> Region:
    """(x0, x1, y0, y1) of the cells within `reach` [m] of the faults, for `SeaSurface.of`.

    Unless given, the cells are those where the uplift is not negligible.
    """
    points, reach = _lifted(source) if reach is None else (_outlines(source), reach)
    near = np.zeros(grid.ny, bool), np.zeros(grid.nx, bool)
    for at in points:
        for rows, columns in _candidates(grid, at, reach):
            near[0][rows] = near[1][columns] = True
    rows, columns = map(np.flatnonzero, near)
    if not rows.size:
        raise ConfigError("region_around: no cell of the grid is near the faults; check positions and domain.")
    return (
        float(grid.x_edges[columns[0]]),
        float(grid.x_edges[columns[-1] + 1]),
        float(grid.y_edges[rows[0]]),
        float(grid.y_edges[rows[-1] + 1]),
    )


def far_field(source: Source, accuracy: float = ACCURACY) -> float:
    """The distance from all faults beyond which the uplift is below `accuracy` times the greatest slip [m].

    At the distance R, a rectangle of area A and dip d whose centre lies at the depth D lifts the surface by at most
    (Okada 1985, eqs 8 and 9, of a point source; nu is Poisson's ratio and r the rake)

        slip A / (2 pi R^2) [(1 - 2 nu + 3 D / R) a + 3 (D / R)^2],   a = sin(d) sqrt(cos(r)^2 + (cos(d) sin(r))^2),

    which is summed over the faults. Their area counts as if it lay where they are nearest.
    """
    terms = [-np.sum(term) for term in _bounds(source, accuracy)]
    return float(np.roots([1.0, 0.0, *terms]).real.max())  # the one positive root


def _bounds(source, accuracy):
    """The factors (faults,) of R^-2, R^-3 and R^-4 in the bound of `far_field`, in units of the accuracy."""
    faults, slip = source.faults, np.asarray(final_slip(source), float)
    dip, rake = np.deg2rad(faults.dip), np.deg2rad(faults.rake)
    depth = top_of(faults) + 0.5 * faults.width * np.sin(dip)
    share = slip / slip.max() if slip.max() > 0 else np.ones_like(slip)
    weight = share * faults.length * faults.width / (2 * np.pi * accuracy)
    shallow = weight * np.sin(dip) * np.hypot(np.cos(rake), np.cos(dip) * np.sin(rake))
    return (1 - 2 * source.poisson_ratio) * shallow, 3 * shallow * depth, 3 * weight * depth**2


def _lifted(source, accuracy=ACCURACY):
    """((n, 2) coordinates of points, distance [m] from them within which the uplift may exceed the accuracy).

    The points are those of a lattice where the bound of `far_field` exceeds it, with the distances R of PIECES of each
    fault, and the faults' outlines.
    """
    faults, place, outlines, far = source.faults, source.projection, _outlines(source), far_field(source, accuracy)
    first = float(faults.longitude[0]), float(faults.latitude[0])
    sides = [np.linspace(x.min() - far, x.max() + far, POINTS) for x in place.local(*outlines.T, first)]
    lattice = np.stack(place.position(*(x.ravel() for x in np.meshgrid(*sides)), first), axis=1)
    bound = np.zeros(len(lattice))
    for forward in (np.arange(PIECES) + 0.5) / PIECES:
        at = _places(source, forward, 0.5)
        r = np.maximum(np.hypot(*place.local(*lattice.T[..., None], at)), 1.0)
        bound += sum(np.sum(term / r**n, axis=1) for n, term in enumerate(_bounds(source, accuracy), start=2)) / PIECES
    return np.concatenate([outlines, lattice[bound >= 1.0]]), max(float(x[1] - x[0]) for x in sides)


def _places(source, forward, below):
    """(x, y) coordinates of a point of each fault, at these shares of its length and width."""
    faults = source.faults
    along, down = REFERENCES[faults.reference]
    strike = np.deg2rad(faults.strike)
    x = (forward - along) * faults.length
    y = (down - below) * faults.width * np.cos(np.deg2rad(faults.dip))
    east, north = x * np.sin(strike) - y * np.cos(strike), x * np.cos(strike) + y * np.sin(strike)
    return source.projection.position(east, north, (faults.longitude, faults.latitude))


def _outlines(source):
    """(n, 2) coordinates of the faults' corners, centres and middles of edges, above which they lie."""
    points = [_places(source, *shares) for shares in itertools.product((0.0, 0.5, 1.0), repeat=2)]
    return np.concatenate([np.stack(np.broadcast_arrays(*point), axis=1) for point in points])


def _candidates(grid, at, reach):
    """(rows, columns) of blocks that together hold all cells within `reach` [m] of the point `at`."""
    x, y = grid.x_centres, grid.y_centres
    if not grid.spherical:
        near = np.abs(y - at[1]) <= reach, np.abs(x - at[0]) <= reach
    else:
        angle = 2.02 * np.arcsin(min(reach / (2 * grid.radius), 1.0))  # a little more, for rounding
        polewards = np.deg2rad(abs(float(at[1]))) + angle
        across = np.pi if polewards >= np.pi / 2 else np.arcsin(min(np.sin(angle) / np.cos(np.deg2rad(at[1])), 1.0))
        apart = np.abs((x - at[0] + 180.0) % 360.0 - 180.0)
        near = np.abs(y - at[1]) <= np.rad2deg(angle), apart <= np.rad2deg(across) * 1.01
    rows, columns = map(np.flatnonzero, near)
    if rows.size and columns.size:
        runs = np.split(columns, np.flatnonzero(np.diff(columns) > 1) + 1)
        for run in runs:
            yield slice(int(rows[0]), int(rows[-1]) + 1), slice(int(run[0]), int(run[-1]) + 1)


def patch_of(grid: Grid, region: Region | None) -> tuple[slice, slice, np.ndarray]:
    """The rows and columns of a grid within a region, and a taper over them (rows, columns); None is the grid.

    The taper is 1, and falls to 0 towards sides of the region that are not the grid's.
    """
    x = region and limits_on(region[:2], grid, "KajiuraFilter: the region")
    columns, along_x = _within(grid.x_centres, x, "x", grid.periodic_x)
    rows, along_y = _within(grid.y_centres, region and region[2:], "y", grid.periodic_y)
    return rows, columns, along_y[:, None] * along_x


def _within(centres, limits, name, periodic):
    """The slice of cells within `limits`, and a taper over them: 1, down to 0 at sides that are not the grid's."""
    if limits is None:
        return slice(0, centres.size), np.ones(centres.size)
    inside = np.flatnonzero((centres >= limits[0]) & (centres <= limits[1]))
    if inside.size == 0:
        raise ConfigError(
            f"KajiuraFilter: the region's {name} = {tuple(limits)} holds no cell of the grid, which spans "
            f"{centres[0]:g} to {centres[-1]:g}."
        )
    cells, steps = np.arange(inside.size), max(inside.size // 10, 1)
    rise = np.sin(np.pi / 2 * np.clip((cells + 0.5) / steps, 0, 1)) ** 2
    low = np.ones(inside.size) if inside[0] == 0 and not periodic else rise
    high = np.ones(inside.size) if inside[-1] == centres.size - 1 and not periodic else rise[::-1]
    return slice(inside[0], inside[-1] + 1), low * high
