"""What limits the time step on one tile: the rates at which terms, waves and currents change the state there."""

import functools
from collections.abc import Sequence
from typing import cast

import numpy as np

from ..fields.state import State
from ..fields.variables import in_layer
from .domain import Model
from .layer import over_deep_water
from .layers import Layers
from .terms import Term

__all__ = ["Site"]

NO_SLIP = 1.25  # an upper bound of the factor by which stress at walls and capes raises the rate of viscosity


def _ratio(corners, one, other):
    """Twice the mean thickness of a face's corners over twice its own, 0 where a side is land."""
    return np.where((one > 0) & (other > 0), corners / np.maximum(one + other, 1e-3), 0.0)


def _largest_record(rank, series):
    """The largest magnitude in each cell of a tile among the records of a Series; one is in memory at a time."""
    records = series.values[rank]
    sizes = (np.abs(np.asarray(records[k], float)) for k in range(len(records)))
    return functools.reduce(np.maximum, sizes)


class Site:
    """One tile's rates [s-1] of every process, and the fields that terms compute theirs from.

    Padding of the tile counts as land. `thicknesses` [m] are those of the layers, `thickness` is that of the thinnest
    one, and `column` that of all.
    """

    def __init__(self, model: Model, rank: int, state: State | None, terms: Sequence[Term], tracers: Sequence = ()):
        self.model, self.rank, self.state, self.gravity = model, rank, state, model.gravity
        self.largest = functools.partial(_largest_record, rank)
        self.terms = [term.bound(self.largest) if type(term).rates is not Term.rates else term for term in terms]
        self.tracers = tracers
        self.box, self.wet = model.decomposition.box(rank), model.decomposition.cut(model.sea_floor.wet, rank)
        metrics = model.grid.metrics(np.arange(self.box.j0, self.box.j1))
        self.per_dx2 = np.broadcast_to(1.0 / np.asarray(metrics["dx_h"], float) ** 2, self.wet.shape)
        self.per_dy2 = np.broadcast_to(1.0 / np.asarray(metrics["dy_h"], float) ** 2, self.wet.shape)
        share = model.core.zonal_share(model.grid.y_centres[self.box.j0 : self.box.j1, None])
        self.share = share  # of the wavenumber of the shortest zonal waves, which the core computes
        self.waves_dx2 = self.per_dx2 * share**2
        floor = model.sea_floor
        mean = np.where(self.wet, self.box.cut(floor.depth, 0, 0, 0), 1.0)
        depth = mean if floor.bed is None else np.where(self.wet, self.box.cut(floor.bed.deepest, 0, 0, 0), 1.0)
        self.column = depth
        self.excess = np.zeros(self.wet.shape)  # of the thickness over the depth at rest [1]
        self.highest = 0.0  # the largest excess of all tiles
        if model.film is not None:
            self.column = np.maximum(depth, model.film)
        if state is not None and not model.linear:
            eta = state[in_layer("eta", model.layer_count - 1 if over_deep_water(model.layers) else 0)]
            self.column = np.maximum(depth + np.where(self.wet, np.asarray(eta, float), 0.0), 1e-3)
            self.excess = self.column / np.maximum(depth, 1e-3) - 1.0
            if floor.bed is not None:  # the deepest water holds no more than all of the cell
                water = np.maximum(mean + np.asarray(eta, float), 0.0) * floor.bed.ratio**2
                self.column = np.maximum(np.minimum(self.column, water), 1e-3)
        self.thicknesses = [self.column] if model.layers is None else self._thicknesses(state)
        self.thickness = np.maximum(functools.reduce(np.minimum, self.thicknesses), 1e-3)

    def _thicknesses(self, state):
        """The thickness of each layer [m]."""
        layers, count = cast(Layers, self.model.layers), self.model.layer_count
        heights = layers.rest(np.where(self.wet, self.box.cut(self.model.sea_floor.depth, 0, 0, 0), np.inf))
        if state is not None and not self.model.linear:
            eta = [np.asarray(state[in_layer("eta", k)], float) for k in range(count)]
            heights = [a + b for a, b in zip(heights, layers.excess(eta))]
        return [np.asarray(x, float) for x in heights]

    def speed(self, component: str | None = None) -> np.ndarray:
        """|u| on the east or north face of each cell [m s-1], the largest of all layers.

        Of the component "x" or "y", or of the vector.
        """
        if self.state is None:
            return np.zeros(self.wet.shape)
        each = range(self.model.layer_count)
        u, v = (
            np.max([np.abs(np.asarray(self.state[in_layer(name, k)], float)) for k in each], axis=0) for name in "uv"
        )
        return {"x": u, "y": v, None: np.hypot(u, v)}[component]

    def _wave_gravity(self, mode):
        """The gravity with which no wave of a mode is faster than sqrt(g H) [m s-2]."""
        if self.model.layers is None:
            return self.gravity
        low, high, _ = self.model.sea_floor.depths
        return self.model.layers.wave_gravity(self.gravity, np.linspace(low, high, 9), mode)

    def wave_rate(self, exact: bool = False, mode: int = 0) -> np.ndarray:
        """The frequency of the shortest gravity waves [s-1] of a vertical mode, 0 for the fastest one.

        With `exact`, waves of the mean depth are exact, and only the deviation of the thickness from it counts.
        """
        thickness = self.column
        if exact:
            mean = self.model.sea_floor.depths[2]
            thickness = (thickness - mean) ** 2 / mean
        return self.model.core.waves * np.sqrt(self._wave_gravity(mode) * thickness * (self.waves_dx2 + self.per_dy2))

    def open_rate(self, wave: float, real: float) -> np.ndarray:
        """1 / the longest time step [s-1] of waves and sponges together, in cells next to open sides.

        Args:
            wave, real: the stable intervals of the scheme for waves and for damping [1]; 0 if it is unstable.
        """
        wave, real = max(wave, 1e-300), max(real, 1e-300)
        ny, nx = self.model.grid.shape
        i, j = np.arange(self.box.i0, self.box.i1)[None, :], np.arange(self.box.j0, self.box.j1)[:, None]
        at = {"west": i == 0, "east": i == nx - 1, "south": j == 0, "north": j == ny - 1}
        damping = sum(np.asarray(t.rates(self), float) for t in self.terms if t.changes_elevation)
        here = sum([at[side] for side in self.model.open_sides], damping > 0)
        return np.where(here, self.wave_rate() / wave + damping / real, 0.0)

    def coriolis_rate(self, exact: bool = False) -> np.ndarray:
        """|f| [s-1]; 0 where the core's linear modes are `exact` and contain it."""
        if self.model.coriolis is None or exact and self.model.core.carries(self.model.coriolis):
            return np.zeros(self.wet.shape)
        rows = np.arange(self.box.j0, self.box.j1)
        return np.broadcast_to(np.abs(self.model.coriolis.at(self.model.grid, rows)), self.wet.shape)

    def advection_rate(self) -> np.ndarray:
        """|u| / dx + |v| / dy [s-1], times the largest wavenumber of the core over that of differences."""
        if self.model.linear:
            return np.zeros(self.wet.shape)
        speeds = self.speed("x") * np.sqrt(self.waves_dx2) + self.speed("y") * np.sqrt(self.per_dy2)
        return self.model.core.advection * speeds

    def viscous_rate(self, viscosity: np.ndarray | float, times: int = 1) -> np.ndarray:
        """The fastest decay rate of the Laplacian term [s-1], at the faces of each cell.

        A term that applies the operator twice multiplies two rates with `times` = 2. A filter of zonal modes acts once
        on all of the term: S sin^2(m dlambda / 2) is at most the share of the shortest mode.

        The shear stress is proportional to the thickness h_q at the corners, the mass that it moves to h_u on the face.
        """
        model = self.model
        modes = ["wrap" if p else 0 for p in (model.grid.periodic_y, model.grid.periodic_x)]
        h = np.maximum(self.box.cut(model.sea_floor.water, 1, *modes), 0.0)  # heights of land are no depths
        if model.layers is not None:
            h = np.maximum(model.layers.rest(h)[-1], 0.0)  # the upper ones are as thick everywhere
        corner = lambda x: x[1:, 1:] + x[1:, :-1] + x[:-1, 1:] + x[:-1, :-1]  # noqa: E731
        h_q = corner(h) / np.maximum(corner((h > 0).astype(float)), 1.0)
        if model.side.factor > 1:
            h_q = NO_SLIP * h_q
        shear_u = _ratio(h_q[1:] + h_q[:-1], h[1:-1, 1:], h[1:-1, :-1])
        shear_v = _ratio(h_q[:, 1:] + h_q[:, :-1], h[1:, 1:-1], h[:-1, 1:-1])
        per_dx2 = self.per_dx2 * self.share ** (1.0 / times)
        u = per_dx2 + np.maximum(shear_u[:, 1:], shear_u[:, :-1]) * self.per_dy2
        v = self.per_dy2 + np.maximum(shear_v[1:], shear_v[:-1]) * per_dx2
        return 4.0 * np.asarray(viscosity, float) * np.maximum(u, v)

    def fastest(self, rate: np.ndarray) -> tuple[float, int, float, float]:
        """(the fastest rate of a wet cell, its rank, x, y)."""
        rate = np.where(self.wet, np.broadcast_to(rate, self.wet.shape), 0.0)
        row, column = np.unravel_index(np.argmax(rate), rate.shape)
        x, y = self.model.grid.x_centres[self.box.i0 + column], self.model.grid.y_centres[self.box.j0 + row]
        return float(rate[row, column]), self.rank, float(x), float(y)
