"""Misfits to records of velocities at points and of transports through sections.

    J = 1/2 sum_i [(r(t_i) - y_i) / s_i]^2

r is a velocity component at a point [m s-1] or the transport through a section [m3 s-1]. Velocities are averaged from
faces to cell centres, and interpolated bilinearly between wet cells. r is linear between steps. Records are like those
of elevations.

Sums of misfits, for observations of several kinds:

    J = sum_k J_k,   r = (r_1, r_2, ...)

Each part J_k keeps its own tables, and all parts read the same states, in one run.
"""

import dataclasses
import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...dynamics.clock import Time
from ...dynamics.system import System
from ...errors import ConfigError
from ...fields.field import Count, mean_x, mean_y
from ...fields.parameters import Part, declared
from ...fields.state import State, pytree
from ...grids.observed_tables import read_series
from ...models.shallow_water import ShallowWater
from ...output.products.gauges import Gauges
from .costs import Cost, OfRun, SeriesMisfit, tile_cost
from .marks import SquaresOfMaxima
from .readers import OnGrids, SectionReader
from .records import DictOf, Record
from .tile_costs import AtInstants, Squares, SquaresOfSums, TileCost

__all__ = ["JointMisfit", "TransportMisfit", "VelocityMisfit"]

VELOCITY, TRANSPORT = ("u_m_s", "v_m_s"), "transport_m3_s"


@dataclasses.dataclass(frozen=True, eq=False)
class Current:
    """The observed velocity at a place.

    Attributes:
        place: (x, y) in the grid's coordinates.
        time: time since the start of the run [s], (n,).
        u, v: eastward and northward velocity (along x and y) [m s-1], (n,); NaN is a gap.
        deviation: standard deviation of the error of each component [m s-1], a number or (n,).
        window: (first, last) [s]; observations outside do not count.
    """

    place: tuple[float, float]
    time: np.ndarray
    u: np.ndarray
    v: np.ndarray
    deviation: float | np.ndarray = 1.0
    window: tuple | None = None

    @property
    def records(self) -> tuple[Record, Record]:
        """The Record of each component."""
        common: Any = {"deviation": self.deviation, "window": self.window, "units": "m s-1"}
        return Record(self.place, self.time, self.u, **common), Record(self.place, self.time, self.v, **common)

    @staticmethod
    def of(u: Record, v: Record) -> "Current":
        """The Current of the Records of its components, which have the same times, deviations and window."""
        return Current(u.place, u.time, u.value, v.value, u.deviation, u.window)


@dataclasses.dataclass(frozen=True, eq=False)
class SectionRecord:
    """The observed transport through a section along a grid line.

    Attributes:
        start, end: (x, y) of the ends, with equal x or equal y.
        time: time since the start of the run [s], (n,).
        value: transport, positive towards +x or +y [m3 s-1], (n,); NaN is a gap.
        deviation: standard deviation of its error [m3 s-1], a number or (n,).
        window: (first, last) [s]; observations outside do not count.
    """

    start: tuple[float, float]
    end: tuple[float, float]
    time: np.ndarray
    value: np.ndarray
    deviation: float | np.ndarray = 1.0
    window: tuple | None = None

    @property
    def place(self) -> tuple:
        """The middle of the section."""
        return tuple(0.5 * (a + b) for a, b in zip(self.start, self.end))

    @property
    def record(self) -> Record:
        """The Record of the transport, placed in the middle of the section."""
        return Record(self.place, self.time, self.value, self.deviation, self.window, units="m3 s-1")

    @staticmethod
    def of(start: tuple[float, float], end: tuple[float, float], record: Record) -> "SectionRecord":
        """The SectionRecord of a Record of transports and the ends of the section."""
        return SectionRecord(start, end, record.time, record.value, record.deviation, record.window)


def components(currents: Mapping[str, Current]) -> dict[str, Record]:
    """{"NAME (u)": Record, ..., "NAME (v)": Record, ...}, in the order in which VelocityReader reads them."""
    return {f"{name} ({part})": each.records[k] for k, part in enumerate("uv") for name, each in currents.items()}


class VelocityMisfit(SeriesMisfit):
    """J = 1/2 sum over places, components and observations of [(u(t_i) - u_i) / s_i]^2 [1].

    Args:
        currents: {name: Current}.
    """

    currents: dict[str, Current] = declared(
        DictOf(Current, "Current", "name: Current"), doc="{name: Current} of the observations"
    )

    observed = "currents"

    def reader(self, model: ShallowWater) -> Any:
        return OnGrids.at(self.locations(), model, lambda own, one: VelocityReader(Gauges.at(own, one)), parts=2)

    def series(self) -> dict[str, Record]:
        return components(self.currents)

    def title(self) -> str:
        return f"misfit to velocities at {', '.join(self.currents)}"


class TransportMisfit(SeriesMisfit):
    """J = 1/2 sum over sections and observations of [(T(t_i) - T_i) / s_i]^2 [1].

    Args:
        transports: {name: SectionRecord}.
    """

    transports: dict[str, SectionRecord] = declared(
        DictOf(SectionRecord, "SectionRecord", "name: SectionRecord"), doc="{name: SectionRecord} of the observations"
    )

    observed = "transports"

    def reader(self, model: ShallowWater) -> Any:
        sections = self.transports.values()
        return TransportReader(tuple(SectionReader.between(each.start, each.end, model) for each in sections))

    def series(self) -> dict[str, Record]:
        return {name: each.record for name, each in self.transports.items()}

    def title(self) -> str:
        return f"misfit to transports through {', '.join(self.transports)}"


@pytree
class VelocityReader:
    """u at each of n points, then v at each of them [m s-1], (2 n,)."""

    gauges: Gauges

    def read(self, state: State, equations: System, time: Time) -> jax.Array:
        flow = equations.flow(state, time)
        fields = mean_x(flow.u).interior, mean_y(flow.v).interior
        return jnp.concatenate([self.gauges.read(field) for field in fields])


@pytree
class TransportReader:
    """Volume transport through sections [m3 s-1], (n,)."""

    sections: tuple[SectionReader | OnGrids, ...]

    def read(self, state: State, equations: System, time: Time) -> jax.Array:
        return jnp.concatenate([section.read(state, equations, time) for section in self.sections])


def currents_in(
    folder: str | Path,
    places: Mapping[str, tuple[float, float]],
    deviation: float,
    window: tuple | None = None,
    start: datetime.datetime | None = None,
) -> dict[str, Current]:
    """{name: Current} of NAME.csv or NAME.nc with time_s, u_m_s and v_m_s in a folder; dates count from `start`.

    Raises:
        ConfigError: if a place of `places` {name: (x, y)} has no file.
        DataError: for files that cannot be read.
    """
    series = _series_in(folder, places, VELOCITY, start)
    return {name: Current(places[name], *columns, deviation=deviation, window=window) for name, columns in series}


def transports_in(
    folder: str | Path,
    ends: Mapping[str, tuple[tuple[float, float], tuple[float, float]]],
    deviation: float,
    window: tuple | None = None,
    start: datetime.datetime | None = None,
) -> dict[str, SectionRecord]:
    """{name: SectionRecord} of NAME.csv or NAME.nc with time_s and transport_m3_s in a folder, as `currents_in`."""
    series = _series_in(folder, ends, (TRANSPORT,), start)
    return {name: SectionRecord(*ends[name], *columns, deviation=deviation, window=window) for name, columns in series}


def _series_in(folder, names, columns, start):
    """Yield (name, the times and these columns of its file) for each name."""
    for name in names:
        files = [file for file in (Path(folder, f"{name}.csv"), Path(folder, f"{name}.nc")) if file.is_file()]
        if not files:
            raise ConfigError(f"{folder} has no {name}.csv and no {name}.nc; add it, or leave {name!r} out.")
        yield name, read_series(files[0], columns, start)


KINDS = Squares, SquaresOfSums, SquaresOfMaxima, AtInstants


class JointMisfit(OfRun):
    """J = the sum of several misfits [1], such as those to elevations, velocities and transports.

    Args:
        parts: the misfits: Misfit, HarmonicMisfit, VelocityMisfit, TransportMisfit, TrackMisfit or MarkMisfit.
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
                made.append(tile_cost(part, model, dt, first_step, steps))
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
