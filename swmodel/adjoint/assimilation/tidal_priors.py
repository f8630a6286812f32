"""Priors of tidal inversions, the sections [[inversion.controls]] of these types, and their transforms.

BoundaryTide   amplitudes and phase lags of constituents along open sides, smooth along them
DepthClasses   a positive field, such as a drag coefficient, by a factor for each range of depths

A tide along open sides is a function of few parameters (SideTide), smooth along the sides:

    A' exp(-i g') = A exp(-i g) + sum_k (a_k - i b_k) phi_k,   a = R p1, b = R p2

A and g are the amplitude and phase lag of the background, and the phi_k are linear between knots along the open sides.
R R^T is the covariance s^2 exp(-r^2 / 2 l^2) of the knots, with r their distance in space. The controls change the real
and the imaginary part, so that nothing is singular where a phase lag passes 360 degrees.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import ConfigError
from ...fields.parameters import Names, NumberForEach, Text, declared, parameter
from ...fields.state import pytree, static
from ...forcing.constituents import distinct
from ...grids.grid import turned
from ...models.shallow_water import ShallowWater
from ..controls.controls import controls_of
from ..controls.seafloor import distances_between
from ..controls.transforms import Transform, correlation_root
from .priors import OF_MODEL, OfModel, Setting, background_of

__all__ = ["BoundaryTide", "DepthClasses"]


@pytree
class SideTide(Transform):
    """{amplitude and phase of each constituent} from p (constituents x 2 x knots,); `SideTide.on` makes it.

    Attributes:
        amplitude, phase: {constituent: tile array} of the background.
        root: R (knots, knots).
        hats: for each side, phi_k along it (knots, n) in this tile.
        across: for each side, 1 in its row or column of cells and 0 elsewhere, across the side, in this tile.
        along_y: for each side, whether it runs along y.
        names: (name of the amplitude's control, that of the phase's) of each constituent.
        deviation: s.
    """

    amplitude: dict
    phase: dict
    root: Any
    hats: tuple
    across: tuple
    along_y: tuple = static()
    names: tuple = static()
    deviation: float = static()

    @staticmethod
    def on(
        model: ShallowWater,
        sides: tuple[str, ...],
        backgrounds: dict[str, tuple],
        names: tuple[tuple[str, str], ...],
        deviation: float,
        length: float,
        spacing: float | None = None,
    ) -> "SideTide":
        """The transform for open sides.

        Args:
            model: a ShallowWater.
            sides: the sides.
            backgrounds: {constituent: (amplitude, phase lag [degrees])}, tile arrays.
            names: the names of their controls.
            deviation: s, of the real and of the imaginary part, in the units of the amplitude.
            length: l [m].
            spacing: the distance between knots [m]; half of the length unless given.

        Raises:
            ConfigError: if the sides have no water, or the spacing is longer than the length or shorter than half a
                cell.
        """
        spacing = 0.5 * length if spacing is None else float(spacing)
        if spacing > length:
            raise ConfigError(
                f"knots {spacing:g} m apart cannot carry errors with a correlation length of {length:g} m; "
                "give a spacing of at most that."
            )
        lines = [_line(side, sides, model, spacing) for side in sides]
        places = [place for _, _, at in lines for place in at]
        if not places:
            raise ConfigError(f"the sides {', '.join(sides)} have no water next to them, and no tide; name others.")
        root = deviation * correlation_root(distances_between(places, model.grid), length)
        before = np.cumsum([0, *(len(at) for _, _, at in lines)])
        hats = [np.zeros((len(places), line.shape[1])) for line, _, _ in lines]
        for k, (line, _, _) in enumerate(lines):
            hats[k][before[k] : before[k + 1]] = line
        along_y = tuple(side in ("west", "east") for side in sides)

        def cut(rank):
            box = model.decomposition.box(rank)
            rows, columns = slice(box.j0, box.j1), slice(box.i0, box.i1)
            parts = [(rows, columns) if of_y else (columns, rows) for of_y in along_y]
            here = [hat[:, along].astype(model.dtype) for hat, (along, _) in zip(hats, parts)]
            beyond = [line[1][across].astype(model.dtype) for line, (_, across) in zip(lines, parts)]
            return tuple(here), tuple(beyond)

        hats, across = model.communicator.place(cut)
        root = model.communicator.place(lambda rank: np.asarray(root, model.dtype))
        amplitude, phase = ({name: pair[k] for name, pair in backgrounds.items()} for k in range(2))
        return SideTide(amplitude, phase, root, hats, across, along_y, names, float(deviation))

    def __call__(self, p: jax.Array) -> dict[str, jax.Array]:
        """{control: values} of this tile."""
        p = p.reshape(len(self.names), 2, -1)
        at_side, found = self._at_side(), {}
        for (name, size), change, controls in zip(self.amplitude.items(), p, self.names):
            lag = jnp.deg2rad(self.phase[name])
            real, imaginary = (
                part + self._field(self.root @ q) for part, q in zip((size * jnp.cos(lag), size * jnp.sin(lag)), change)
            )
            square = real**2 + imaginary**2
            moves = at_side & (square > 0)
            real, imaginary = jnp.where(moves, real, 1.0), jnp.where(moves, imaginary, 0.0)
            turned = jnp.rad2deg(jnp.arctan2(imaginary, real))
            found[controls[0]] = jnp.where(moves, jnp.sqrt(real**2 + imaginary**2), size)
            found[controls[1]] = jnp.where(moves, turned, self.phase[name])
        return found

    def _field(self, a):
        """sum_k a_k phi_k on this tile."""
        total = 0.0
        for hats, across, along_y in zip(self.hats, self.across, self.along_y):
            line = a @ hats
            total = total + (jnp.outer(line, across) if along_y else jnp.outer(across, line))
        return total

    def _at_side(self):
        """Which cells of this tile lie next to one of the sides."""
        found = False
        for across, along_y in zip(self.across, self.along_y):
            found = found | ((across > 0)[None, :] if along_y else (across > 0)[:, None])
        return found

    def variance(self, p: jax.Array) -> dict[str, jax.Array]:
        """s^2 of the amplitudes, and (s / A)^2 of the phase lags [degrees^2]; 0 away from the sides."""
        at_side, now, found = self._at_side(), self(p), {}
        for of_size, of_lag in self.names:
            size = now[of_size]
            of_angle = jnp.rad2deg(self.deviation / jnp.where(size > 0, size, jnp.inf))
            found[of_size] = jnp.where(at_side, self.deviation**2, 0.0).astype(size.dtype) + jnp.zeros_like(size)
            found[of_lag] = jnp.where(at_side, of_angle**2, 0.0)
        return found

    def zero(self, model: ShallowWater) -> np.ndarray:
        knots = int(np.shape(model.communicator.one_tile(self.root))[0])
        return np.zeros(2 * len(self.names) * knots, model.dtype)


def _line(side, sides, model, spacing):
    """(phi_k along a side (knots, n), 1 across it where its cells are, [(x, y)] of the knots)."""
    grid, along_y = model.grid, side in ("west", "east")
    n, beyond = (grid.ny, grid.nx) if along_y else (grid.nx, grid.ny)
    at = 0 if side in ("west", "south") else beyond - 1
    every = np.arange(n)
    rows, columns = (every, np.full(n, at)) if along_y else (np.full(n, at), every)
    metrics = grid.metrics(np.arange(grid.ny))
    step = np.broadcast_to(metrics["dy_h" if along_y else "dx_h"], (grid.ny, 1))[rows, 0]
    if spacing < 0.5 * step.min():
        raise ConfigError(
            f"knots {spacing:g} m apart are closer than half a cell of the {side} side, which is {step.min():g} m "
            "long; give a longer length, or a longer spacing."
        )
    periodic, edges = (grid.periodic_y, grid.y_edges) if along_y else (grid.periodic_x, grid.x_edges)
    count = max(int(np.ceil(step.sum() / spacing)), 1) + 1
    nodes = np.arange(count) * (n / count if periodic else (n - 1) / (count - 1))  # the last cell is next to the first
    away = np.abs(turned(every - nodes[:, None], 0.0, n * periodic))
    hats = np.maximum(1.0 - away / (nodes[1] - nodes[0]), 0.0)
    if not along_y:  # a corner belongs to the west or the east
        hats[:, [k for k, other in ((0, "west"), (-1, "east")) if other in sides]] = 0.0
    wet = np.asarray(model.sea_floor.wet.at(rows, columns), bool)
    used = (hats * wet).sum(1) > 0
    across = (np.arange(beyond) == at).astype(float)
    along = edges[0] + (nodes[used] + 0.5) * (edges[-1] - edges[0]) / n
    other = (grid.x_centres if along_y else grid.y_centres)[at]
    places = [(other, c) if along_y else (c, other) for c in along]
    return hats[used], across, places


@pytree
class ByClass(Transform):
    """x = b exp(s p_c), with a parameter for each class c of cells, as of a range of depths.

    Attributes:
        background: b, tile array.
        classes: c of each cell (ny, nx), from 0 on.
        spread: s, the relative error.
        count: the number of classes.
    """

    background: Any
    classes: Any
    spread: Any
    count: int = static()

    def __call__(self, p: jax.Array) -> jax.Array:
        return self.background * jnp.exp(self.spread * p[self.classes])

    def variance(self, p: jax.Array) -> jax.Array:
        return (self(p) * self.spread) ** 2

    def zero(self, model: ShallowWater) -> np.ndarray:
        return np.zeros(self.count, model.dtype)


class BoundaryTide(OfModel):
    """Amplitudes and phase lags of a tide along the open sides of a boundary."""

    name: str = declared(
        Text(), static=True, doc="name of the parameter that is a tide, such as 'boundary.0.elevation'"
    )
    constituents: tuple[str, ...] = declared(Names(), static=True, doc="names of its constituents that are uncertain")
    deviation: float = parameter(
        above=0.0, doc="standard deviation of the errors of A cos g and of A sin g, in the units of the amplitude"
    )
    length: float = parameter(None, "m", above=0.0, doc="correlation length of the errors along the sides")
    spacing: float | None = parameter(
        None, "m", above=0.0, default=None, optional=True, doc="distance between unknowns; half the length unless given"
    )

    def targets(self) -> tuple[str, ...]:
        names = (str(name).strip().upper() for name in self.constituents)
        return tuple(f"{self.name}.{part}.{name}" for name in names for part in ("amplitude", "phase"))

    def transform(self, setting: Setting) -> Transform:
        model = setting.model
        of, _, _ = self.name.rpartition(".")
        conditions = dict(model.named_parts("open_boundaries"))
        if of not in conditions:
            raise ConfigError(
                f"{self.name} is not a parameter of an open boundary, whose names are {', '.join(conditions)}; "
                "give one of these with its parameter, as boundary.0.elevation."
            )
        pairs = list(zip(self.targets()[::2], self.targets()[1::2]))
        backgrounds = {name: self._background(pair, setting) for name, pair in zip(distinct(self.constituents), pairs)}
        sides = conditions[of].sides
        given = float(self.deviation), float(self.length), self.spacing
        return SideTide.on(model, sides, backgrounds, tuple(pairs), *given)

    def _background(self, pair, setting):
        """(amplitude, phase lag) of a constituent, tile arrays."""
        for control in controls_of(setting.model, pair):
            if not control.distributed:
                raise ConfigError(
                    f"{control.name} is a number in this model, which cannot change along a side; give a file, or a "
                    f"formula such as {_constant(setting.model, 0.5)}."
                )
        return tuple(background_of(setting.model, setting.state, name, setting.dt) for name in pair)


class DepthClasses(OfModel):
    """A positive field of the model, which changes by a factor for each range of depths."""

    name: str = declared(Text(), static=True, doc=OF_MODEL)
    edges: tuple[float, ...] = declared(
        NumberForEach("m", above=0.0, ascending=True),
        static=True,
        doc="depths between the ranges, ascending; n of them make n + 1 ranges",
    )
    deviation: float = parameter(above=0.0, doc="relative standard deviation of its error in each range")

    def transform(self, setting: Setting) -> Transform:
        model = setting.model
        (found,) = controls_of(model, [self.name])
        if not found.distributed or found.records or found.position != "h":
            raise ConfigError(
                f"{self.name} is not a steady field at cell centres in this model; give the model one, by a map "
                f"or a formula such as {_constant(model, 0.0025)}."
            )
        background = background_of(model, setting.state, self.name, setting.dt)
        depth = background_of(model, setting.state, "depth", setting.dt)
        edges = jnp.asarray(self.edges, depth.dtype)
        classes = jnp.sum(depth[..., None] > edges[None, None], axis=-1, dtype=jnp.int32)
        return ByClass(background, classes, np.asarray(self.deviation, model.dtype), len(self.edges) + 1)


def _constant(model, value):
    """A formula that is the same everywhere, as text."""
    return f"'{value:g} + 0 * {'longitude' if model.grid.spherical else 'x'}'"
