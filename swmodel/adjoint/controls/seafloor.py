"""Transforms to the sea surface above an earthquake, whose parameters are a few numbers that every rank holds.

UnitSources   x = sum_k a_k phi_k      displacement on a patch of unit sources phi_k; a = R p, R R^T their
                                       covariance, or a = w log(1 + exp(R p / w)): uplift alone
UnitFaults    x = sum_k a_k phi_k      phi_k the sea surface above fault k with a slip of 1 m; a = R p
FaultSource   x = surface(faults(p))   the sea surface above faults (Okada 1985)
"""

import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from ...errors import ConfigError
from ...fields.parameters import COORDINATES
from ...fields.state import pytree, replace, static
from ...grids.grid import turned, turns_of
from ...grids.windows import Stored
from ...models.shallow_water import ShallowWater
from ...runtime import memory
from ...sources.fault import Source, top_of
from ...sources.sea_surface import SeaSurface
from .transforms import Patterns, Transform, correlation_root


class _AtPlaces(Patterns):
    """Patterns of unit sources at places, with a = R p of the background error.

    Attributes:
        root: R (k, k) [m], the same on every rank.
        centres: (x, y) of each source.
    """

    root: Any
    centres: tuple
    place: ClassVar[str]  # what `centres` are, and `what` an amplitude is, in files
    what: ClassVar[str]

    @property
    def count(self) -> int:
        return len(self.centres)

    def amplitudes(self, p: jax.Array) -> jax.Array:
        """The coefficients a (k,) [m]."""
        return self.root @ p

    def zero(self, model: ShallowWater) -> np.ndarray:
        return np.zeros(self.count, model.dtype)

    def table(self, p: np.ndarray) -> tuple[str, dict[str, tuple[str, str, np.ndarray]]]:
        x, y = np.array(self.centres).T
        return "source", {
            "x": (COORDINATES, f"{self.place} along x", x),
            "y": (COORDINATES, f"{self.place} along y", y),
            "amplitude": ("m", self.what, np.asarray(self.amplitudes(jnp.asarray(p)))),
        }


def _root_on(model, centres, deviation, length):
    """R of sources at places, for programs: of errors with a deviation and the correlation length [m]."""
    root = deviation * correlation_root(distances_between(centres, model.grid), length)
    return model.communicator.place(lambda rank: np.asarray(root, model.dtype))


@pytree
class UnitSources(_AtPlaces):
    """Elevation by unit sources: phi_k = c((x - x_k) / d) c((y - y_k) / d), c(s) = cos^2(pi s / 2) for |s| < 1.

    The centres lie d apart, and between them the phi_k add up to 1. Sources with most of their volume on land are left
    out. `UnitSources.on` makes the object.

    Attributes:
        along_x, along_y: c at the tile's columns (sources along x, nx) and rows (ny, sources along y).
        wet: 1 in water (ny, nx).
        root: R (k, k) [m], the same on every rank.
        bend: w [m] if all a are positive; None if a may have both signs.
        cells: (row, column) of each source in the patch.
        centres: (x, y) of each source.
    """

    along_x: Any
    along_y: Any
    wet: Any
    root: Any
    bend: Any
    cells: tuple = static()
    centres: tuple = static()
    place = "centre"
    what = "amplitude of the unit source"

    @staticmethod
    def on(
        model: ShallowWater,
        x: tuple[float, float],
        y: tuple[float, float],
        spacing: float,
        deviation: float = 1.0,
        length: float = 0.0,
        bend: float | None = None,
    ) -> "UnitSources":
        """Unit sources with centres in the patch x = (low, high), y = (low, high) of the grid's coordinates.

        The patch may lie across the seam of a periodic direction, and have longitudes of either convention.

        Args:
            spacing: d, in the grid's coordinates: degrees on the sphere, m on a plane.
            deviation: standard deviation of each coefficient's background error [m].
            length: length of their correlation exp(-r^2 / 2 length^2) [m]; 0: they are uncorrelated.
            bend: w [m]: coefficients are positive, and close to R p above about w. None: they may have both signs.

        Raises:
            ConfigError: if the patch holds no water, or the spacing is less than two cells.
        """
        grid = model.grid
        steps = [np.diff(edges).max() for edges in (grid.x_edges, grid.y_edges)]
        if spacing < 2 * max(steps) * (1 - 1e-9):
            raise ConfigError(
                f"UnitSources: sources {spacing:g} apart cannot be distinguished on cells of {max(steps):g}; "
                "give two cells or more, or a finer grid."
            )
        turns, centres_along = turns_of(grid), (grid.x_centres, grid.y_centres)
        nodes = [_nodes(*axis, spacing) for axis in zip((x, y), (grid.x_edges, grid.y_edges), turns)]
        hats = [_hat(turned(c - n[:, None], 0.0, t) / spacing) for c, n, t in zip(centres_along, nodes, turns)]
        volume, whole = (_integrals(values, hats, model) for values in (model.sea_floor.wet, Stored(1.0, grid.shape)))
        cells = [(int(j), int(i)) for j, i in np.argwhere((volume > 0.5 * whole) & (whole > 0))]
        if not cells:
            raise ConfigError(
                f"UnitSources: the patch x = {tuple(x)}, y = {tuple(y)} holds no water of the grid, which spans "
                f"{grid.x_edges[0]:g} to {grid.x_edges[-1]:g} and {grid.y_edges[0]:g} to {grid.y_edges[-1]:g}; "
                "move it to sea."
            )
        centres = tuple((float(nodes[0][i]), float(nodes[1][j])) for j, i in cells)
        memory.require(
            5.0 * 8 * len(cells) ** 2,  # distances, correlations, and the arrays from which their root is computed
            f"the correlation of {len(cells):,} unit sources",
            "place them further apart",
        )
        place = model.communicator.place

        def cut(rank):
            box = model.decomposition.box(rank)
            along = hats[0][:, box.i0 : box.i1], hats[1][:, box.j0 : box.j1].T
            return [np.asarray(part, model.dtype) for part in along]

        along_x, along_y = place(cut)
        root = _root_on(model, centres, deviation, length)
        bends = None if bend is None else place(lambda rank: np.asarray(bend, model.dtype))
        return UnitSources(along_x, along_y, model.domain.cut(model.sea_floor.wet), root, bends, tuple(cells), centres)

    def amplitudes(self, p: jax.Array) -> jax.Array:
        """The coefficients a (k,) [m]."""
        a = super().amplitudes(p)
        return a if self.bend is None else self.bend * jax.nn.softplus(a / self.bend)

    def field(self, a: jax.Array) -> jax.Array:
        """sum_k a_k phi_k on this tile [m]."""
        rows, columns = (np.array(k) for k in zip(*self.cells))
        matrix = jnp.zeros((self.along_y.shape[1], self.along_x.shape[0]), a.dtype).at[rows, columns].set(a)
        return self.wet * (self.along_y @ matrix @ self.along_x)


def _nodes(limits, edges, turn, spacing):
    """low, low + spacing, ... up to high: those of them whose sources reach the grid, each once, in its coordinates."""
    (low, high), first = limits, 0
    last = math.floor((high - low) / spacing + 1e-6)
    if turn:
        last = min(last, math.ceil(turn / spacing - 1e-6) - 1)
    else:
        first = max(math.ceil((edges[0] - low) / spacing) - 1, 0)
        last = min(last, math.floor((edges[-1] - low) / spacing) + 1)
    nodes = turned(low + spacing * np.arange(first, last + 1), 0.5 * (edges[0] + edges[-1]), turn)
    return nodes[(nodes >= edges[0] - spacing) & (nodes <= edges[-1] + spacing)]


def _integrals(values, hats, model):
    """The integrals of GridValues times each product of a function of y and one of x, over all ranks; collective."""
    total = 0.0
    for tile, part in model.domain.own(values):
        area = model.grid.area_h[tile.j0 : tile.j1]
        total = total + hats[1][:, tile.j0 : tile.j1] @ (part * area) @ hats[0][:, tile.i0 : tile.i1].T
    return model.communicator.host_sum(np.asarray(total))


def _hat(s):
    return np.where(np.abs(s) < 1, np.cos(0.5 * np.pi * np.clip(s, -1, 1)) ** 2, 0.0)


def distances_between(places: ArrayLike, grid: Any) -> np.ndarray:
    """Distances [m] between all pairs of (x, y) on a grid."""
    return distances_on(places, grid.radius if grid.spherical else None, turns=turns_of(grid))


def distances_on(
    places: ArrayLike, radius: float | None, others: ArrayLike | None = None, turns: tuple[float, float] = (0.0, 0.0)
) -> np.ndarray:
    """Distances [m] of all (x, y) from the others, themselves unless given: on a sphere of this radius [m], or in a
    plane where it is None, whose places are the same again after `turns` along x and y."""
    pairs = zip(np.array(places).T, np.array(places if others is None else others).T)
    (x, x1), (y, y1) = (
        (a[:, None], b) if radius is None else (np.deg2rad(a)[:, None], np.deg2rad(b)) for a, b in pairs
    )
    if radius is None:
        return np.hypot(turned(x - x1, 0.0, turns[0]), turned(y - y1, 0.0, turns[1]))
    half = np.sin((y - y1) / 2) ** 2 + np.cos(y) * np.cos(y1) * np.sin((x - x1) / 2) ** 2
    return 2 * radius * np.arcsin(np.sqrt(np.minimum(half, 1.0)))


def _cells_of_patch(surface, decomposition, rank):
    """[rows, columns] of a surface's patch at the cells of a rank's arrays; beyond it and in the padding, their number.

    Each is a vector of int32.
    """
    box, padding, found = decomposition.box(rank), decomposition.padding(rank), []
    for ends, corner, n, pad in zip(box.slices, surface.corner, surface.window.shape, padding):
        cells = np.arange(ends.start, ends.stop) - corner
        outside = (cells < 0) | (cells >= n) | (np.arange(cells.size) < pad)
        found.append(np.where(outside, n, cells).astype(np.int32))
    return found


LOGARITHMIC = ("slip", "length", "width", "depth")
UNCERTAIN = {
    "longitude": COORDINATES,
    "latitude": COORDINATES,
    "depth": "m",
    "length": "m",
    "width": "m",
    "strike": "degrees",
    "dip": "degrees",
    "rake": "degrees",
    "slip": "m",
}
"""{field of Fault that affects the instantaneous uplift: its units}."""


def with_unit_slip(source: Source) -> Source:
    """The Source whose faults slip by 1 m, at once."""
    slip = np.zeros(np.shape(source.faults.slip))
    slip[:, 0] = 1.0
    return replace(source, faults=replace(source.faults, slip=slip))


@pytree
class UnitFaults(_AtPlaces):
    """Elevation as the sum of the sea surface above faults that slip by 1 m each. `UnitFaults.on` makes the object.

    Attributes:
        surfaces: phi_k on this tile (k, ny, nx) [m per m of slip].
        root: R (k, k) [m], the same on every rank.
        centres: (x, y) of the reference point of each fault.
        areas: of the faults [m2].
        tops: depths of their upper edges [m].
    """

    surfaces: Any
    root: Any
    centres: tuple = static()
    areas: tuple = static()
    tops: tuple = static()
    place = "reference point"
    what = "slip of the fault"

    @staticmethod
    def on(
        model: ShallowWater, surface: SeaSurface, source: Source, deviation: float = 1.0, length: float = 0.0
    ) -> "UnitFaults":
        """The faults of a Source, whose slips do not count.

        Args:
            surface: the SeaSurface of the model's grid.
            deviation: standard deviation of each slip's background error [m].
            length: length of their correlation exp(-r^2 / 2 length^2) [m]; 0: they are uncorrelated.
        """
        count = np.shape(source.faults.depth)[0]
        memory.require(
            float(model.dtype.itemsize) * count * math.prod(model.decomposition.tile(0).shape),
            f"the sea surface above {count:,} unit faults",
            "name fewer of them in `slips`",
        )
        faults, patches = with_unit_slip(source).faults, []
        for k in range(count):
            one = jax.tree.map(lambda x, k=k: np.asarray(x)[k : k + 1], faults)
            patches.append(np.asarray(surface.elevation_on_patch(replace(source, faults=one)), model.dtype))
        patch = np.stack(patches)

        def cut(rank):
            rows, columns = _cells_of_patch(surface, model.decomposition, rank)
            whole = np.pad(patch, ((0, 0), (0, 1), (0, 1)))  # cells beyond the patch have its shape as number
            return whole[:, rows[:, None], columns[None, :]]

        centres = tuple(zip(map(float, faults.longitude), map(float, faults.latitude)))
        areas, tops = (tuple(map(float, x)) for x in (faults.length * faults.width, top_of(faults)))
        surfaces = model.communicator.place(cut)
        return UnitFaults(surfaces, _root_on(model, centres, deviation, length), centres, areas, tops)

    def field(self, a: jax.Array) -> jax.Array:
        """sum_k a_k phi_k on this tile [m]."""
        return jnp.tensordot(a, self.surfaces, 1)


@pytree
class FaultSource(Transform):
    """The sea surface above faults with instantaneous slip, as a function of uncertain fields of the faults.

    Slip, length, width and depth are b exp(s p), which is positive; other fields are b + s p.

    Attributes:
        surface: a sources.SeaSurface, of whose patch every rank computes the whole, and keeps the cells of its tile.
        source: a sources.Source, the background.
        spreads: {field of Fault: s}, relative for slip, length, width and depth, else in the units of the field.
        rows, columns: (my,), (mx,), the row and column of the patch at the tile's; their number in the patch, which is
            none of them, where the tile reaches beyond it.
    """

    surface: Any
    source: Any
    spreads: dict
    rows: Any
    columns: Any

    @staticmethod
    def of(model: ShallowWater, surface: SeaSurface, source: Source, spreads: dict[str, float]) -> "FaultSource":
        """Faults with background errors `spreads` {name of a field of Fault: number}.

        Raises:
            ConfigError: if a name is not a field of Fault that affects the instantaneous uplift.
        """
        wrong = [name for name in spreads if name not in UNCERTAIN]
        if wrong or not spreads:
            what = ", ".join(wrong) or "nothing"
            raise ConfigError(
                f"FaultSource: {what} cannot be a parameter of a fault; give some of {', '.join(UNCERTAIN)}."
            )
        place = model.communicator.place

        def as_numbers(tree) -> Any:
            return place(lambda rank: jax.tree.map(lambda x: np.asarray(x, model.dtype), tree))

        rows, columns = place(lambda rank: _cells_of_patch(surface, model.decomposition, rank))
        return FaultSource(as_numbers(surface), as_numbers(source), as_numbers(dict(spreads)), rows, columns)

    def __call__(self, p: jax.Array) -> jax.Array:
        patch = self.surface.elevation_on_patch(self.faults(p))
        rows = jnp.take(patch, self.rows, axis=0, mode="fill", fill_value=0)
        return jnp.take(rows, self.columns, axis=1, mode="fill", fill_value=0)

    def faults(self, p: jax.Array) -> Source:
        """The Source for parameters (fields x faults,), with fields in the order of their names."""
        faults, changes = self.source.faults, {}
        for (name, spread), share in zip(sorted(self.spreads.items()), p.reshape(len(self.spreads), -1)):
            background = getattr(faults, name)
            change = spread * (share[:, None] if background.ndim == 2 else share)
            changes[name] = background * jnp.exp(change) if name in LOGARITHMIC else background + change
        return replace(self.source, faults=replace(faults, **changes))

    def zero(self, model: ShallowWater) -> np.ndarray:
        return np.zeros(len(self.spreads) * len(self.source.faults.depth), model.dtype)

    def table(self, p: np.ndarray) -> tuple[str, dict[str, tuple[str, str, np.ndarray]]]:
        columns = {}
        for field, units in UNCERTAIN.items():
            for role, faults in (("background", self.source.faults), ("analysis", self.faults(jnp.asarray(p)).faults)):
                values = np.asarray(getattr(faults, field), float)
                values = values.sum(axis=1) if values.ndim == 2 else values
                columns[f"{field}_{role}"] = units, f"{field} of the fault, {role}", values
        return "fault", columns
