"""Priors of tidal inversions: the sections [[inversion.controls]] of these types.

BoundaryTide   amplitudes and phase lags of constituents along open sides, smooth along them
DepthClasses   a positive field, such as a drag coefficient, by a factor for each range of depths
"""

import jax.numpy as jnp
import numpy as np

from ...errors import ConfigError
from ...fields.parameters import Names, NumberForEach, Text, declared, parameter
from ...forcing.constituents import distinct
from ..controls.controls import controls_of
from ..controls.side_tides import ByClass, SideTide
from ..controls.transforms import Transform
from .priors import OF_MODEL, OfModel, Setting, background_of


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
