"""Transforms from parameters to controls: the unknowns of an inversion, scaled by their background errors.

Each transform is a function x(p) of standard parameters p, whose background is 0 and whose background error is 1:

    Around        x = b + s p                  a field or number with uncorrelated errors
    Around(b, U)  x = b + U p                  a field with correlated errors (diffusion.py)
    Positive      x = b exp(U p)               a positive field or number with errors of its logarithm
    Between       x = low + (high - low) / (1 + exp(-p0 - U p)),  b at p = 0
    UnitSources   x = sum_k a_k phi_k          displacement on a patch of unit sources phi_k; a = R p, R R^T their
                                               covariance, or a = w log(1 + exp(R p / w)): uplift alone
    FaultSource   x = surface(faults(p))       the sea surface above faults (Okada 1985)
    Balanced      eta = b + U p, and u, v in geostrophic balance with the change of eta

`joined({name: (control, transform)}, model)` is the Transformed that a Problem takes: p[name] determines the control.
Transforms are pytrees, so that their arrays, this tile's part, are arguments of compiled programs. Numbers that every
rank holds are replicated before the transform is called (controls.py).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import ConfigError
from ...fields.field import Field
from ...fields.operators import difference_x, difference_y, mean_xy
from ...fields.pytrees import pytree, replace, static
from ...fields.state import State
from ...models.shallow_water import ShallowWater
from ...parallel.halo import exchange, without_padding
from ...sources.fault import Source
from ...sources.kajiura import SeaSurface
from .controls import Transformed

__all__ = ["Around", "Balanced", "Between", "FaultSource", "Joined", "Positive", "Repeated", "UnitSources", "joined"]


@pytree
class Joined:
    """The function {parameter: value} -> {control: value} that applies one transform to each parameter.

    Attributes:
        parts: {name of the parameter: transform}.
        targets: the name of the control that each transform gives, in the order of the sorted names; None if it gives
            a dict of several controls.
    """

    parts: dict
    targets: tuple = static()

    def __call__(self, parameters: dict[str, Any]) -> dict[str, Any]:
        found = {}
        for (name, part), target in zip(sorted(self.parts.items()), self.targets):
            value = part(parameters[name])
            found |= value if target is None else {target: value}
        return found

    def variance(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """{control: variance of its background error} for small changes about `parameters`, of parts that have it."""
        found = {}
        for (name, part), target in zip(sorted(self.parts.items()), self.targets):
            if hasattr(part, "variance"):
                value = part.variance(parameters[name])
                found |= value if target is None else {target: value}
        return found


def _deviation(spread):
    """The standard deviation of U p at every point, for p with errors of 1."""
    return spread.deviation if callable(spread) else spread


def joined(transforms: dict[str, tuple[str | None, Any]], model: ShallowWater) -> Transformed:
    """The Transformed of {parameter: (control or None, transform)} at the background, where all parameters are zero.

    The method `zero(model)` of a transform returns its parameters at the background.
    """
    parts = {name: transform for name, (_, transform) in transforms.items()}
    targets = tuple(transforms[name][0] for name in sorted(parts))
    zeros = {name: part.zero(model) for name, part in parts.items()}
    return Transformed(zeros, Joined(parts, targets), dict.fromkeys(parts, "1"))


class _OfOne:
    """A transform of one number or field, whose errors U p are `spread`: a number or array s, or a function."""

    background: Any
    spread: Any

    def deviation_of(self, p: jax.Array) -> Any:
        return self.spread(p) if callable(self.spread) else self.spread * p

    def zero(self, model: ShallowWater) -> Any:
        """The background p = 0, as a Problem takes it."""
        field = callable(self.spread) or jnp.ndim(self.background) == 2 or jnp.ndim(self.spread) == 2
        return model.domain.cut(np.zeros(model.grid.shape)) if field else np.zeros((), model.dtype)


@pytree
class Around(_OfOne):
    """x = background + U p."""

    background: Any
    spread: Any

    def __call__(self, p: jax.Array) -> jax.Array:
        return self.background + self.deviation_of(p)

    def variance(self, p: jax.Array) -> jax.Array:
        return jnp.zeros_like(self.background) + _deviation(self.spread) ** 2


@pytree
class Positive(_OfOne):
    """x = background exp(U p), where `spread` is the relative error."""

    background: Any
    spread: Any

    def __call__(self, p: jax.Array) -> jax.Array:
        return self.background * jnp.exp(self.deviation_of(p))

    def variance(self, p: jax.Array) -> jax.Array:
        return (self(p) * _deviation(self.spread)) ** 2


@pytree
class Between(_OfOne):
    """x between `low` and `high`, with the background at p = 0; `spread` is the error in the background's units."""

    background: Any
    spread: Any
    low: Any
    high: Any

    def __call__(self, p: jax.Array) -> jax.Array:
        share = (self.background - self.low) / (self.high - self.low)
        at = jnp.log(share / (1.0 - share)) + self.deviation_of(p) / self._slope(self.background)
        return self.low + (self.high - self.low) * jax.nn.sigmoid(at)

    def _slope(self, x):
        """dx / d(argument of the logistic function)."""
        return (x - self.low) * (self.high - x) / (self.high - self.low)

    def variance(self, p: jax.Array) -> jax.Array:
        return (self._slope(self(p)) / self._slope(self.background) * _deviation(self.spread)) ** 2


@pytree
class Repeated:
    """The same change in every record of a series: {record: background + U p}."""

    backgrounds: dict
    spread: Any

    def __call__(self, p: jax.Array) -> dict[int, jax.Array]:
        change = self.spread(p) if callable(self.spread) else self.spread * p
        return {record: background + change for record, background in self.backgrounds.items()}

    def variance(self, p: jax.Array) -> dict[int, jax.Array]:
        return {k: jnp.zeros_like(b) + _deviation(self.spread) ** 2 for k, b in self.backgrounds.items()}

    def zero(self, model: ShallowWater) -> Any:
        field = callable(self.spread) or any(jnp.ndim(b) == 2 for b in self.backgrounds.values())
        return model.domain.cut(np.zeros(model.grid.shape)) if field else np.zeros((), model.dtype)


@pytree
class Balanced:
    """eta = b + U p, and velocities in geostrophic balance with its change: f u = - g d(eta)/dy, f v = + g d(eta)/dx.

    The gradient along a face is the mean of the gradients at the four surrounding faces of the other direction. There
    is no gradient across coasts.

    Attributes:
        eta, u, v: the background.
        spread: U, a Smooth at "h".
        balance_u, balance_v: g / (f d) at wet faces [s-1], where d is the distance between the values of eta; else 0.
        wet_u, wet_v: 1 at wet faces, else 0.
    """

    eta: Any
    u: Any
    v: Any
    spread: Any
    balance_u: Any
    balance_v: Any
    wet_u: Any
    wet_v: Any

    @staticmethod
    def of(model: ShallowWater, state: State, spread: Callable[[jax.Array], jax.Array]) -> "Balanced":
        """The transform around a State, with errors `spread` of the elevation [m].

        Raises:
            ConfigError: if the Coriolis parameter is zero somewhere on the grid.
        """
        grid = model.grid
        rows = np.arange(grid.ny)
        at_v, below = (np.zeros(1) if model.coriolis is None else model.coriolis.at(grid, k) for k in (rows, rows - 1))
        at_u = 0.5 * (at_v + below)  # f is known at corners, which lie in the rows of v
        if min(np.min(np.abs(at_u)), np.min(np.abs(at_v))) < 1e-6:
            raise ConfigError(
                "Balanced: the Coriolis parameter vanishes on this grid, and no flow can balance the elevation there; "
                "give initial.eta, initial.u and initial.v controls of their own."
            )
        metrics = grid.metrics(rows)
        faces = {p: model.faces(p).astype(float) for p in "uv"}
        cut = model.domain.cut
        return Balanced(
            state.eta, state.u, state.v, spread,
            cut(faces["u"] * model.gravity / (at_u * metrics["dy_u"])),
            cut(faces["v"] * model.gravity / (at_v * metrics["dx_v"])), cut(faces["u"]), cut(faces["v"]),
        )  # fmt: skip

    def __call__(self, p: jax.Array) -> dict[str, jax.Array]:
        change = self.spread(p)
        sides, communicator = self.spread.sides, self.spread.communicator
        arrays = exchange([change, self.wet_u, self.wet_v], 1, sides, communicator)
        eta, wet_u, wet_v = (Field(a, at, (1,) * 4) for a, at in zip(arrays, "huv"))
        u = -mean_xy(wet_v * difference_y(eta)).interior * self.balance_u
        v = mean_xy(wet_u * difference_x(eta)).interior * self.balance_v
        u, v = (without_padding(x, sides) for x in (u, v))
        return {"initial.eta": self.eta + change, "initial.u": self.u + u, "initial.v": self.v + v}

    def variance(self, p: jax.Array) -> dict[str, jax.Array]:
        return {"initial.eta": self.spread.deviation**2}

    def zero(self, model: ShallowWater) -> jax.Array:
        return model.domain.cut(np.zeros(model.grid.shape))


@pytree
class UnitSources:
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
        nodes = [low + spacing * np.arange(int((high - low) / spacing + 1e-6) + 1) for low, high in (x, y)]
        hats = [_hat((c[None] - n[:, None]) / spacing) for c, n in zip((grid.x_centres, grid.y_centres), nodes)]
        volume, whole = (hats[1] @ w @ hats[0].T for w in (model.wet * grid.area_h, grid.area_h * np.ones(grid.shape)))
        cells = [(int(j), int(i)) for j, i in np.argwhere((volume > 0.5 * whole) & (whole > 0))]
        if not cells:
            raise ConfigError(
                f"UnitSources: the patch x = {tuple(x)}, y = {tuple(y)} holds no water of the grid, which spans "
                f"{grid.x_edges[0]:g} to {grid.x_edges[-1]:g} and {grid.y_edges[0]:g} to {grid.y_edges[-1]:g}; "
                "move it to sea."
            )
        centres = tuple((float(nodes[0][i]), float(nodes[1][j])) for j, i in cells)
        root = deviation * _root(_distances(centres, grid), length)
        place = model.communicator.place

        def cut(rank):
            box = model.decomposition.box(rank)
            along = hats[0][:, box.i0 : box.i1], hats[1][:, box.j0 : box.j1].T
            return [np.asarray(part, model.dtype) for part in along]

        along_x, along_y = place(cut)
        root = place(lambda rank: np.asarray(root, model.dtype))
        bend = None if bend is None else place(lambda rank: np.asarray(bend, model.dtype))
        return UnitSources(along_x, along_y, model.domain.cut(1.0 * model.wet), root, bend, tuple(cells), centres)

    def __call__(self, p: jax.Array) -> jax.Array:
        return self.field(self.amplitudes(p))

    def amplitudes(self, p: jax.Array) -> jax.Array:
        """The coefficients a (k,) [m]."""
        a = self.root @ p
        return a if self.bend is None else self.bend * jax.nn.softplus(a / self.bend)

    def field(self, a: jax.Array) -> jax.Array:
        """sum_k a_k phi_k on this tile [m]."""
        rows, columns = (np.array(k) for k in zip(*self.cells))
        matrix = jnp.zeros((self.along_y.shape[1], self.along_x.shape[0]), a.dtype).at[rows, columns].set(a)
        return self.wet * (self.along_y @ matrix @ self.along_x)

    def zero(self, model: ShallowWater) -> np.ndarray:
        return np.zeros(len(self.cells), model.dtype)


def _hat(s):
    return np.where(np.abs(s) < 1, np.cos(0.5 * np.pi * np.clip(s, -1, 1)) ** 2, 0.0)


def _distances(places, grid):
    """Distances [m] between all pairs of (x, y)."""
    x, y = np.array(places).T
    if not grid.spherical:
        return np.hypot(x[:, None] - x, y[:, None] - y)
    x, y = np.deg2rad(x), np.deg2rad(y)
    half = np.sin((y[:, None] - y) / 2) ** 2 + np.cos(y[:, None]) * np.cos(y) * np.sin((x[:, None] - x) / 2) ** 2
    return 2 * grid.radius * np.arcsin(np.sqrt(np.minimum(half, 1.0)))


def _root(distances, length):
    """The symmetric square root of exp(-r^2 / 2 length^2)."""
    if length == 0:
        return np.eye(len(distances))
    values, vectors = np.linalg.eigh(np.exp(-0.5 * (distances / length) ** 2))
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


LOGARITHMIC = ("slip", "length", "width", "depth")


@pytree
class FaultSource:
    """The sea surface above faults with instantaneous slip, as a function of uncertain fields of the faults.

    Slip, length, width and depth are b exp(s p), which is positive; other fields are b + s p.

    Attributes:
        surface: a sources.SeaSurface of the whole grid.
        source: a sources.Source, the background.
        spreads: {field of Fault: s}, relative for slip, length, width and depth, else in the units of the field.
    """

    surface: Any
    source: Any
    spreads: dict
    communicator: Any = static()

    @staticmethod
    def of(model: ShallowWater, surface: SeaSurface, source: Source, spreads: dict[str, float]) -> "FaultSource":
        """Faults with background errors `spreads` {name of a field of Fault: number}.

        Raises:
            ConfigError: if a name is not a field of Fault that affects the instantaneous uplift.
        """
        free = ("longitude", "latitude", "depth", "length", "width", "strike", "dip", "rake", "slip")
        wrong = [name for name in spreads if name not in free]
        if wrong or not spreads:
            what = ", ".join(wrong) or "nothing"
            raise ConfigError(f"FaultSource: {what} cannot be a parameter of a fault; give some of {', '.join(free)}.")
        place = model.communicator.place
        as_numbers = lambda tree: place(lambda rank: jax.tree.map(lambda x: np.asarray(x, model.dtype), tree))  # noqa: E731
        return FaultSource(as_numbers(surface), as_numbers(source), as_numbers(dict(spreads)), model.communicator)

    def __call__(self, p: jax.Array) -> jax.Array:
        return self.communicator.scatter(self.surface.elevation(self.faults(p)))

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
