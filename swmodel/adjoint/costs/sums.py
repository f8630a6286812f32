"""Sums of misfits, for observations of several kinds:

    J = sum_k J_k,   r = (r_1, r_2, ...)

Each part J_k keeps its own tables, and all parts read the same states, in one run.
"""

import jax
import jax.numpy as jnp
import numpy as np

from ...dynamics.clock import Time
from ...dynamics.system import System
from ...errors import ConfigError
from ...fields.field import Count
from ...fields.parameters import Part, declared
from ...fields.pytrees import pytree
from ...fields.state import State
from ...models.shallow_water import ShallowWater
from .costs import Cost
from .tile_costs import AtInstants, Squares, SquaresOfSums, TileCost

__all__ = ["JointMisfit", "SumOfMisfits"]

KINDS = Squares, SquaresOfSums, AtInstants


class JointMisfit(Cost):
    """J = the sum of several misfits [1], such as those to elevations, velocities and transports.

    Args:
        parts: the misfits: Misfit, HarmonicMisfit, VelocityMisfit, TransportMisfit or TrackMisfit.
    """

    kind = None  # an experiment file gives several tables [[inversion.observations]]

    parts: tuple[Cost, ...] = declared(
        Part(("on_tile",), "Misfit(records)", several=True, alone=False), doc="the misfits that are added"
    )

    def on_tile(self, model: ShallowWater, dt: float, first_step: int, steps: int) -> TileCost:
        """The sum on a tile.

        Raises:
            ConfigError: for mistakes of all parts, if a part is not a misfit, and if there is none.
        """
        made, mistakes = [], [] if self.parts else ["JointMisfit: there are no parts; give one misfit or several."]
        for part in self.parts:
            try:
                made.append(part.on_tile(model, dt, first_step, steps))
            except ConfigError as error:
                mistakes += error.mistakes
            else:
                if not isinstance(made[-1], KINDS):
                    mistakes.append(f"JointMisfit: {part.title()} is not a misfit to observations; leave it out.")
        if mistakes:
            raise ConfigError(mistakes)
        return SumOfMisfits(tuple(made))

    def title(self) -> str:
        return " and ".join(part.title() for part in self.parts)

    def locations(self) -> dict[str, tuple[float, float]]:
        return {name: place for part in self.parts for name, place in part.locations().items()}

    def last_time(self) -> float:
        return max(part.last_time() for part in self.parts)


@pytree
class SumOfMisfits(TileCost):
    """J = sum of the TileCosts `parts`, of which each has some of the readings, in their order."""

    parts: tuple

    @property
    def count(self) -> int:
        """The number of readings of a state."""
        return sum(part.count for part in self.parts)

    def read(self, state: State, equations: System, time: Time) -> jax.Array:
        return jnp.concatenate([part.read(state, equations, time) for part in self.parts])

    def start(self) -> tuple:
        return tuple(part.start() for part in self.parts)

    def update(self, acc: tuple, readings: jax.Array, first_step: Count) -> tuple:
        own = jnp.split(readings, self.ends, axis=1)
        return tuple(part.update(a, r, first_step) for part, a, r in zip(self.parts, acc, own))

    def value(self, acc: tuple, final: jax.Array | None) -> jax.Array:
        return jnp.sum(jnp.stack([part.value(own, None) for part, own in zip(self.parts, acc)]))

    @property
    def ends(self) -> list[int]:
        """The ends of the readings of all parts but the last."""
        return [int(end) for end in np.cumsum([part.count for part in self.parts])[:-1]]
